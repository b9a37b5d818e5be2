"""Programs of others that tests drive: Chromium opens pages, tshark reads captures.

Where one is missing, its tests are left out and say so; `INCAST_PROGRAM_TESTS=required` makes that a failure, as in CI.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

NAMES = {"chromium": ("chromium", "chromium-browser", "google-chrome"), "tshark": ("tshark",)}
# Without a graphics processor, a sandbox (CI is root), or anything that Chromium does on the network by itself.
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
)  # fmt: skip


def path(program: str) -> str:
    """Return where a program is, or leave the test out."""
    found = next(filter(None, map(shutil.which, NAMES[program])), None)
    if found is None:
        why = f"{program} is not installed (Debian, Ubuntu: apt-get install {program})"
        if os.environ.get("INCAST_PROGRAM_TESTS") == "required":
            pytest.fail(f"{why}, and INCAST_PROGRAM_TESTS=required")
        pytest.skip(f"LEFT OUT: {why}")
    return found


def chromium(folder: Path, page: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Open a page with a profile of its own in `folder`, and let its clock run for as long as its scripts need."""
    command = [
        path("chromium"), *FLAGS, f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=8000",
        "--enable-logging=stderr", *options, page.as_uri(),
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def complaints(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the errors of a page's scripts."""
    return re.findall(r"CONSOLE.*(?:Uncaught|Error).*", done.stderr)


def tshark(capture: Path, *fields: str) -> list[list[str]]:
    """Return fields of all packets of a capture."""
    chosen = [part for field in fields for part in ("-e", field)]
    done = subprocess.run(
        [path("tshark"), "-r", str(capture), "-T", "fields", *chosen],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return [line.split("\t") for line in done.stdout.splitlines()]
