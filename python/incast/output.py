"""The output directory of results."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import IO, Any

from incast._native import ScenarioError

# Outcomes of runs that ended before their time.
PARTIAL = ("interrupted",)

# Where a file can be named, this stands for standard output.
STDOUT = Path("-")
# The figures of a run. Their names are here because the code that draws them takes long to load.
PICTURES = tuple(
    f"{name}.{suffix}"
    for name in ("completion-times", "slowdown", "queues", "windows")
    for suffix in ("png", "svg", "pdf")
)
# The page of a run.
REPORT = "report.html"


def prepare(directory: str | Path) -> Path:
    """Create `directory` and check that it is writable, before a long run needs it.

    Raises:
        ScenarioError: it cannot be created or written to.

    """
    path = Path(directory)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ScenarioError(f"{path}: cannot write results here: {reason.lower()}") from error
    return path


def existing(directory: Path) -> Path:
    """Check that `directory` exists and is writable.

    Raises:
        ScenarioError: it does not exist or cannot be written to.

    """
    if not directory.is_dir():
        raise ScenarioError(f"{directory}: no such directory")
    return prepare(directory)


def beside(directory: Path) -> Path:
    """Return where the tables of a run go that ended early: not over those of a run that did not, but beside them."""
    try:
        summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return directory
    except (OSError, ValueError):  # whatever it is, it is not ours to replace
        summary = {}
    if isinstance(summary, dict) and summary.get("outcome") in PARTIAL:
        return directory
    return directory.with_name(f"{directory.name}.partial") if directory.name else directory / "partial"


def remove_pictures(directory: Path) -> None:
    """Remove the figures and the page of an earlier run: they do not belong to the tables that have replaced its own.

    Not before these are written: where that fails, the earlier run is still whole.
    """
    for name in (*PICTURES, REPORT):
        (directory / name).unlink(missing_ok=True)


def save(path: Path, content: str | bytes) -> Path:
    """Write a file that a user named, in a directory that need not exist.

    Raises:
        ScenarioError: it cannot be written.

    """
    prepare(path.parent)
    try:
        write(path, content)
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be written: {(error.strerror or str(error)).lower()}") from error
    return path


def write(path: Path, content: str | bytes) -> None:
    """Write a file completely or not at all."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name[:100]}.", delete=False) as file:
        written = Path(file.name)
        try:
            file.write(content.encode(errors="backslashreplace") if isinstance(content, str) else content)
            written.chmod(0o644)
            settle(file, written, path)
        except BaseException:
            written.unlink(missing_ok=True)
            raise


def settle(file: IO[Any], written: Path, path: Path) -> None:
    """Give a file that has been written its name; after a crash of the machine it is there completely or not at all."""
    file.flush()
    os.fsync(file.fileno())
    written.replace(path)
    sync(path.parent)


def sync(directory: Path) -> None:
    """Have the names in a directory outlive a crash of the machine."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
