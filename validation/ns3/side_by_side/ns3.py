"""ns-3: set up by itself, run as a process, its results kept so that they are never computed twice."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from side_by_side.agreement import nearest_rank
from side_by_side.protocol import HERE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from side_by_side.protocol import Point, Protocol, Variant

VERSION = "3.44.post0"
PROGRAMS = HERE / "programs"
_LONGEST_S = 4 * 3600
_NOT_STARTED = (126, 127)
"""Exit statuses that say nothing of the run: the program, or a library of it, is not there."""
_COUNTED_FROM_S = 0.001
"""How long before the first start drops, marks and queues begin to be counted."""


class Ns3Error(RuntimeError):
    """ns-3 cannot be set up."""


@dataclass(frozen=True)
class Ns3:
    """An installed ns-3 with our programs built against it."""

    out: Path

    def run(self, flows: str, arguments: Mapping[str, object]) -> dict[str, Any]:
        """Run a list of flows; the result of the same run before is taken from disk.

        A run that crashes gives `{"failed": why}`.
        """
        words = [f"--{name}={_word(value)}" for name, value in sorted(arguments.items())]
        key = hashlib.sha256("\0".join([_sources(), VERSION, *words, flows]).encode()).hexdigest()
        kept = self.out / "runs" / key[:2] / f"{key}.json"
        if kept.is_file():
            result: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
            return result
        result = self._run(key, flows, words)
        kept.parent.mkdir(parents=True, exist_ok=True)
        unfinished = kept.with_suffix(".new")
        unfinished.write_text(json.dumps(result), encoding="utf-8")
        unfinished.replace(kept)
        return result

    def once(self, flows: str, arguments: Mapping[str, object]) -> dict[str, Any]:
        """Run a list of flows now, whatever is kept on disk, and keep nothing."""
        return self._run("once", flows, [f"--{name}={_word(value)}" for name, value in sorted(arguments.items())])

    def trace(self, flows: str, arguments: Mapping[str, object]) -> list[str]:
        """Run a list of flows with the argument `trace` and return the printed lines."""
        words = [f"--{name}={_word(value)}" for name, value in sorted(arguments.items())]
        file = self._flow_file("trace", flows)
        return self._process([*words, f"--flows={file}"]).stdout.splitlines()

    def _run(self, key: str, flows: str, words: Sequence[str]) -> dict[str, Any]:
        file = self._flow_file(key, flows)
        try:
            process = self._process([*words, f"--flows={file}"])
        except subprocess.TimeoutExpired:
            return {"failed": f"did not end within {_LONGEST_S} s"}
        finally:
            file.unlink(missing_ok=True)
        if process.returncode in _NOT_STARTED:
            raise Ns3Error(f"{self.out / 'run'} cannot be started: {process.stderr.strip()}")
        if process.returncode != 0:
            last = (process.stderr.strip().splitlines() or ["no message"])[-1]
            return {"failed": f"exit status {process.returncode}: {last[:300]}"}
        result: dict[str, Any] = json.loads(process.stdout)
        return result

    def _flow_file(self, key: str, flows: str) -> Path:
        file = self.out / "flows" / f"{key}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(flows, encoding="utf-8")
        return file

    def _process(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        program = self.out / "run"
        return subprocess.run([str(program), *words], capture_output=True, text=True, check=False, timeout=_LONGEST_S)


def set_up(out: Path) -> Ns3:
    """Install ns-3 into a virtual environment under `out` and build our programs.

    Raises:
        Ns3Error: something is missing; the message says what.

    """
    for tool, package in (("g++", "g++"), ("make", "make")):
        if shutil.which(tool) is None:
            raise Ns3Error(f"the comparison needs {tool} (Debian, Ubuntu: apt-get install {package})")
    environment = out / "venv"
    installed = environment / f"installed-{VERSION}"
    if not installed.is_file():
        print(f"installing ns-3 {VERSION} into {environment} (some 100 MB)", file=sys.stderr, flush=True)
        venv.create(environment, with_pip=True, clear=True)
        pip = [str(environment / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        _must([*pip, "--no-deps", f"ns3=={VERSION}"], f"ns-3 {VERSION} cannot be installed")
        installed.touch()
    installation = next(environment.glob("lib/python3.*/site-packages/ns3"), None)
    if installation is None:
        raise Ns3Error(f"{environment} has no package ns3; remove it to install ns-3 again")
    print("building the programs for ns-3", file=sys.stderr, flush=True)
    _must(
        ["make", "--silent", "-C", str(PROGRAMS), f"NS3={installation}", f"OUT={out}"],
        "the programs for ns-3 cannot be built",
    )
    return Ns3(out)


def incast_arguments(protocol: Protocol, point: Point, variant: Variant) -> dict[str, object]:
    """Return the arguments of a star, all but its flows."""
    return {
        "hostsPerLeaf": point.senders + 1,
        "rateBps": point.rate_bps,
        "delayUs": point.delay_us,
        "delayStepPs": point.delay_step_ps,
        "buffer": point.buffer_packets,
        "mark": point.mark_packets if point.marks else 0,
        "from": protocol.common["start_s"] - _COUNTED_FROM_S,
        "initialWindow": point.initial_window,
        "rtoMinMs": point.rto_min_ms,
        "watch": 0,
        **tcp_arguments(protocol, point.sender, variant),
    }


def tcp_arguments(protocol: Protocol, sender: str, variant: Variant) -> dict[str, object]:
    """Return what sender and variant come down to."""
    return {
        "sender": sender,
        "sack": variant.sack,
        "recovery": variant.recovery,
        "limitedTransmit": variant.limited_transmit,
        "socketBuffer": protocol.common["receive_buffer_bytes"],
    }


def incast_metrics(flows: str, result: Mapping[str, Any]) -> dict[str, float] | None:
    """Return the metrics of a run, or `None` if it failed or a flow is not complete."""
    if "failed" in result or any(row[0] is None for row in result["flows"]):
        return None
    lines = [line.split() for line in flows.splitlines()[1:]]
    starts = [float(words[5]) for words in lines]
    last = max(start + row[0] for start, row in zip(starts, result["flows"], strict=True))
    times = sorted(row[0] for row in result["flows"])
    sums = [sum(row[i] for row in result["flows"]) for i in (1, 2, 3)]
    return {
        "goodput_bps": sum(int(words[4]) for words in lines) * 8 / (last - min(starts)),
        **{f"fct_p{p}_s": nearest_rank(times, p) for p in (1, 50, 99)},
        "drops": result["drops"],
        "marks": result["marks"],
        "timeouts": sums[0],
        "fast_retransmits": sums[1],
        "retransmitted_packets": sums[2],
        **{name: value for name, value in result.items() if name.startswith("queue_")},
    }


def completion_times(result: Mapping[str, Any]) -> list[float]:
    """Return the completion times in the order of the list of flows."""
    return [row[0] for row in result["flows"]]


def _word(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _sources() -> str:
    files = sorted(file for file in PROGRAMS.iterdir() if file.suffix in {".cc", ".h"})
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


def _must(command: Sequence[str], otherwise: str) -> None:
    process = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    if process.returncode != 0:
        raise Ns3Error(f"{otherwise}:\n{(process.stderr or process.stdout).strip()[-2000:]}")
