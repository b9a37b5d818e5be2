"""Programs of others that tests drive: Chromium opens pages, tshark reads captures.

Where one is missing, its tests are left out and say so; `INCAST_PROGRAM_TESTS=required` makes that a failure, as in CI.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zlib
from pathlib import Path

import pytest

NAMES = {"chromium": ("chromium", "chromium-browser", "google-chrome"), "tshark": ("tshark",)}
# Without a graphics processor, a sandbox (CI is root), or anything that Chromium does on the network by itself.
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
)  # fmt: skip


def find(program: str) -> str | None:
    """Return where a program is, if it is installed."""
    return next(filter(None, map(shutil.which, NAMES[program])), None)


def missing(program: str) -> str:
    """Say that a program is missing, and how to have it."""
    return f"{program} is not installed (Debian, Ubuntu: apt-get install {program})"


def path(program: str) -> str:
    """Return where a program is, or leave the test out."""
    found = find(program)
    if found is None:
        why = missing(program)
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


def printed_colours(folder: Path, page: Path) -> set[str]:
    """Print a page where screens are dark, and return the colours of lines, areas and letters on the paper."""
    file = folder / "printed.pdf"
    done = chromium(
        folder, page, "--blink-settings=preferredColorScheme=0", "--no-pdf-header-footer", f"--print-to-pdf={file}"
    )
    assert file.is_file(), done.stderr[-2000:]
    found = set()
    for stream in re.findall(rb"stream\r?\n(.*?)endstream", file.read_bytes(), re.DOTALL):
        try:
            content = zlib.decompress(stream)
        except zlib.error:
            continue  # not one with drawings
        for red, green, blue in re.findall(rb"([\d.]+) ([\d.]+) ([\d.]+) (?:rg|RG)\b", content):
            found.add("#" + "".join(f"{round(float(part) * 255):02x}" for part in (red, green, blue)))
    return found


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
