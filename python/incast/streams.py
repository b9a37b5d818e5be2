"""The streams of the command: what is said arrives, or is lost without harm."""

from __future__ import annotations

import io
import os
import shutil
import sys

# Help is laid out in columns, which need some room: in one of one letter that would never end.
_LEAST_COLUMNS = 20


def prepare() -> None:
    """Make the standard streams usable, whatever they are: closed, or in an encoding without most letters."""
    # A file that is opened later must not be taken for a closed stream.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - open to the end
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    said = os.environ.get("COLUMNS", "")
    if shutil.get_terminal_size().columns < _LEAST_COLUMNS or (said.isdecimal() and int(said) < _LEAST_COLUMNS):
        os.environ["COLUMNS"] = str(_LEAST_COLUMNS)
