"""What the tests share: the command as a process of its own, and a scenario small enough to run at once."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import anyio
import pytest

from incast.__main__ import invoke
from incast.requests import Scheduler
from incast.studies import execution, plan, reading

pytest_plugins = ["kernel_fixtures"]

Completed: TypeAlias = "subprocess.CompletedProcess[str]"
Command: TypeAlias = Callable[..., Completed]
Program: TypeAlias = Callable[[], Awaitable[None]]
Run: TypeAlias = Callable[[Program], None]

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


def shifted(seconds: int) -> tuple[str, ...]:
    """Return how to start a program whose clocks that nobody sets are ahead by this much, or behind."""
    return ("unshare", "--time", "--monotonic", str(seconds), "--boottime", str(seconds))


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


def command_in(folder: Path) -> Command:
    """Return a function that runs the command in a directory."""

    def run(*arguments: str | Path, **changes: str) -> Completed:
        return subprocess.run(
            [sys.executable, "-m", "incast", *map(str, arguments)],
            cwd=folder,
            env={**os.environ, "COLUMNS": "200", **changes},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    return run


@pytest.fixture
def incast(tmp_path: Path) -> Command:
    """Return a function that runs the command in an empty directory."""
    return command_in(tmp_path)


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return a function that runs the command in this process, where it need not be loaded every time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str | Path) -> Completed:
        capsys.readouterr()
        code = invoke(list(map(str, arguments)))
        return subprocess.CompletedProcess(arguments, code, *capsys.readouterr())

    return run


STUDY = '''\
title = "Goodput and drops"
figure = "1"
scenario = "scenarios/small.toml"
seeds = 3
set = { "tcp.initial_window" = 4 }

[axes.workers]
label = "workers"
key = "traffic.burst.workers"
values = [2, 5, 8]

[curves.tcp]
label = "TCP"
set = { "stack.sender" = "newreno" }

[curves.dctcp]
label = "DCTCP"
set = { "stack.sender" = { name = "dctcp", initial_alpha = 0 } }

[metrics.goodput]
about = "goodput"
unit = "Mbit/s"
sql = "SELECT goodput_total_bps / 1e6 FROM summary WHERE class = 'all'"

[metrics.drops]
about = "drops"
unit = "packets"
sql = """SELECT drops_packets FROM ports WHERE "to" = 'host 0'"""

[[panels]]
kind = "lines"
title = "Goodput <of all>"
x = "workers"
y = "goodput"

[[panels]]
kind = "trace"
title = "Queue"
sql = "SELECT time_ps / 1e9, waiting_packets FROM queues ORDER BY time_ps"
y_label = "packets"
at = { workers = 8 }

[[claims]]
id = "T01"
text = "DCTCP's goodput is at least TCP's"
measure = "mean(goodput.dctcp / goodput.tcp - 1)"
paper = 0.5
within = 100
direction = "above 0"

[[claims]]
id = "T02"
text = "DCTCP drops less with 8 workers"
measure = "at(drops.dctcp - drops.tcp, workers=8)"
paper = "fewer"
at_most = 0
why = "The buffer is small."
'''


def small_paper(folder: Path) -> Path:
    """Write a paper of one small figure with everything a study can have; return its folder."""
    paper = folder / "studies" / "paper"
    (paper / "scenarios").mkdir(parents=True)
    (paper / "paper.toml").write_text('title = "A paper"\ncite = "Somebody, somewhere"\n', encoding="utf-8")
    text = SMALL.replace("buffer =", 'marker = { name = "ecn-threshold", threshold = "5packets" }\nbuffer =')
    (paper / "scenarios" / "small.toml").write_text(text.replace("hosts = 9", "hosts = 10"), encoding="utf-8")
    (paper / "figure-1.toml").write_text(STUDY, encoding="utf-8")
    return paper


def tasks_of(study: Path) -> list[plan.Task]:
    """Return the runs of a study, each once."""
    return execution.distinct(plan.runs(plan.rows(reading.read(study))))


@pytest.fixture(params=["asyncio", "trio"])
def run(request: pytest.FixtureRequest) -> Run:
    """Return a function that runs a program in an event loop, and fails if a task outlives it."""

    def run_program(program: Program) -> None:
        anyio.run(checked, program, backend=request.param)

    async def checked(program: Program) -> None:
        with anyio.fail_after(60):
            await program()
        if request.param == "asyncio":
            assert asyncio.all_tasks() == {asyncio.current_task()}

    return run_program


def nothing_left(scheduler: Scheduler) -> None:
    """Fail if a scheduler still holds anything, or has lost count."""
    status = scheduler.status()
    assert (status.waiting, status.outstanding, status.in_use_bytes, status.draining) == (0, 0, 0, 0)
    assert status.completed + status.failed + status.withdrawn == status.asked
    assert scheduler._core.waiters() == 0
    assert scheduler._core.seen() == []
