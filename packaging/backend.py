"""Builds the package: maturin does, after the commit that it is built from was written down.

`incast --version` says that commit. It is no part of the native module: sweeps keep finished runs by a fingerprint of
that file, and a commit that changes nothing in it leaves them valid.
"""

import subprocess
from pathlib import Path

from maturin import (
    build_editable as _build_editable,
)
from maturin import (
    build_sdist as _build_sdist,
)
from maturin import (
    build_wheel as _build_wheel,
)
from maturin import (
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

ROOT = Path(__file__).resolve().parents[1]
RECORD = Path("python", "incast", "commit.txt")


def build_wheel(directory: str, settings: dict[str, object] | None = None, metadata: str | None = None) -> str:
    """Build a wheel."""
    record(ROOT)
    name: str = _build_wheel(directory, settings, metadata)
    return name


def build_editable(directory: str, settings: dict[str, object] | None = None, metadata: str | None = None) -> str:
    """Build what an editable installation has in place of the package."""
    record(ROOT)
    name: str = _build_editable(directory, settings, metadata)
    return name


def build_sdist(directory: str, settings: dict[str, object] | None = None) -> str:
    """Build a source distribution, which says its commit in turn."""
    record(ROOT)
    name: str = _build_sdist(directory, settings)
    return name


def record(root: Path) -> None:
    """Write down the commit of a checkout; other trees keep what they came with, if anything."""
    try:
        top = _git(root, "rev-parse", "--show-toplevel")
        if Path(top) != root:  # a repository of somebody else, which happens to have this tree in it
            return
        commit = _git(root, "rev-parse", "--short=12", "HEAD")
        modified = ", modified" if _git(root, "status", "--porcelain") else ""
    except (OSError, subprocess.CalledProcessError):
        return
    (root / RECORD).write_text(f"commit {commit}{modified}\n", encoding="utf-8")


def _git(root: Path, *arguments: str) -> str:
    said = subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True)  # noqa: S607
    return said.stdout.strip()


if __name__ == "__main__":
    record(ROOT)
