"""Problems of files, with the line that they are about and a mark below the place."""

from __future__ import annotations

import re
from pathlib import Path

from incast import _native

_PLACE = re.compile(
    r"(?:(?P<example><example (?P<name>[^>]+)>)|(?P<file>[^:\n]+)):(?P<line>[0-9]+):(?P<column>[0-9]+): "
)
_WIDTH = 100
# A file that is larger is not read again for the sake of a mark.
_LARGEST = 1 << 20


def shown(message: str) -> str:
    """Return a message in which each problem of a file is followed by its line and a mark."""
    return "\n".join(f"{line}{_quoted(line)}" for line in message.split("\n"))


def _quoted(problem: str) -> str:
    found = _PLACE.match(problem)
    if found is None:
        return ""
    number, column = int(found["line"]), int(found["column"])
    lines = _lines(found)
    if not (0 < number <= len(lines) and 0 < column <= len(lines[number - 1]) + 1):
        return ""
    text, at = lines[number - 1].replace("\t", " "), column - 1
    # Of a long line, what is around the place.
    start = max(0, at - _WIDTH // 2) if len(text) > _WIDTH else 0
    text = text[start : start + _WIDTH].rstrip()
    label = f"{number:>6} | "
    return f"\n{label}{text}\n{' ' * (len(label) - 2)}| {' ' * (at - start)}^"


def _lines(found: re.Match[str]) -> list[str]:
    try:
        if found["example"]:
            return _native.example(found["name"]).split("\n")
        path = Path(found["file"])
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return []
        return path.read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError, _native.ScenarioError):
        return []
