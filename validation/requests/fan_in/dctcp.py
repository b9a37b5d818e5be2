"""DCTCP for connections of the fabric, and the marks that it needs: by eBPF, since many kernels lack both."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel_world.namespaces import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "incast_dctcp"
"""What routes and sockets call it."""
MARKED_FROM_BYTES = 20 * 1514
"""A packet that finds so much in the port is marked: 20 packets, the least in DCTCP's paper (1 Gbit/s)."""
# Its code is that of the simulator's DCTCP, with that one's parameters.
_SENDER = {"algorithm": "dctcp", "name": NAME}


class Attached:
    """DCTCP and the marks of a port, until this is closed or the process ends."""

    def __init__(self, port: Mapping[str, Any]) -> None:
        """Attach both.

        Args:
            port: the port that marks, as `incast-host attach` names it.

        Raises:
            UnavailableError: incast-host is not there, or the kernel refuses.

        """
        program = shutil.which("incast-host", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        if program is None:
            raise UnavailableError("DCTCP needs incast-host, which is not there: make linux")
        request = {"cgroup": None, "senders": [_SENDER], "ports": [dict(port)], "receivers": []}
        self._process = subprocess.Popen([program, "attach"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self._ask(request)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Take everything away. Connections keep DCTCP to their end."""
        self._process.communicate()

    def _ask(self, request: object) -> None:
        to, answers = self._process.stdin, self._process.stdout
        assert to is not None  # noqa: S101 - they are pipes
        assert answers is not None  # noqa: S101
        to.write(json.dumps(request) + "\n")
        to.flush()
        line = answers.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "it has ended without an answer"}
        if "error" in answer:
            raise UnavailableError(f"incast-host: {answer['error']}")
