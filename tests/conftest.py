"""What the tests share: the command as a process of its own, and a scenario small enough to run at once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

Completed: TypeAlias = "subprocess.CompletedProcess[str]"
Command: TypeAlias = Callable[..., Completed]

SMALL = """\
name = "small"

[topology]
kind = "star"
hosts = 9
link = { rate = "1Gbps", delay = "25us" }

[switch]
buffer = { name = "static", limit = "20packets", count_in_service = true }

[stack]
sender = "newreno"

[tcp]
profile = "paper"
initial_window = 10
mss = "1024B"
rto_min = "10ms"

[traffic.burst]
kind = "rounds"
workers = 8
response = "64KiB"
rounds = 2
jitter = "20us"
window = "fresh"

[record]
queue_series = ["bottlenecks"]
window_series = ["burst"]
events = true
"""

# Hours of wall-clock time, without an end of its own.
ENDLESS = SMALL.replace("rounds = 2", "rounds = 500000").replace("events = true", "events = false")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return a scenario of eight senders with drops and timeouts, everything recorded."""
    path = tmp_path / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    return path


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """Return a scenario that only an interrupt ends."""
    path = tmp_path / "endless.toml"
    text = ENDLESS.split("[record]")[0]
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def incast(tmp_path: Path) -> Command:
    """Return a function that runs the command in an empty directory."""

    def run(*arguments: str | Path, **changes: str) -> Completed:
        return subprocess.run(
            [sys.executable, "-m", "incast", *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": "200", **changes},
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )

    return run
