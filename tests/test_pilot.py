"""What a run takes, by the first part of it."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from incast import pilot, scenarios

if TYPE_CHECKING:
    from pathlib import Path


class Paced:
    """A run of this many packet-hops, at a constant speed after half a second of building."""

    def __init__(self, packet_hops: int, per_s: float) -> None:
        self.packet_hops, self.per_s, self.now_s = packet_hops, per_s, 0.0
        self.is_cancelled = False

    def wait(self, timeout_s: float) -> bool:  # noqa: D102
        self.now_s += timeout_s
        return self._done() >= self.packet_hops

    def progress(self) -> dict[str, Any]:  # noqa: D102
        return {"simulated_s": self._done() / 1e9, "packet_hops": self._done(), "messages_done": 0, "messages_total": 1}

    def cancel(self) -> None:  # noqa: D102
        self.is_cancelled = True

    def _done(self) -> int:
        return min(int(max(self.now_s - 0.5, 0.0) * self.per_s), self.packet_hops)


@pytest.mark.parametrize(("packet_hops", "per_s"), [(1_000_000, 1e7), (50_000_000, 1e7), (50_000_000, 1e5)])
def test_a_pilot_tells_the_time_of_the_whole_run(
    packet_hops: int, per_s: float, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paced = Paced(packet_hops, per_s)
    monkeypatch.setattr(scenarios, "start", lambda *_, **__: paced)
    monkeypatch.setattr(time, "process_time", lambda: paced.now_s)
    monkeypatch.setattr(time, "monotonic", lambda: paced.now_s)
    source = scenarios.read(small)
    checked = scenarios.check(source, [], None)
    checked["packet_hops"], checked["seconds"] = packet_hops, 1.0
    expected = 0.5 + packet_hops / per_s
    assert pilot.seconds(source, [], None, None, checked) == pytest.approx(expected, rel=0.1)
    assert paced.is_cancelled
    # A plan that says a tenth of it is corrected by ten.
    paced = Paced(packet_hops, per_s)
    checked["seconds"] = expected / 10
    assert pilot.correction([(source, [], checked)]) == pytest.approx(10, rel=0.1)


STAR = """\
[topology]
kind = "star"
hosts = 100001
link = { rate = "1Gbps", delay = "1us" }
[switch]
buffer = { name = "static", limit = "9packets", count_in_service = true }
[traffic.a]
kind = "rounds"
workers = 100000
response = "2KB"
rounds = 3
"""
# Runs the command, and says how many bytes it took at most.
MEMORY = """\
import resource, subprocess, sys
subprocess.run([sys.executable, "-m", "incast", *sys.argv[1:]], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""


def test_a_check_of_100_001_hosts_takes_less_than_500_mb(tmp_path: Path) -> None:
    file = tmp_path / "star.toml"
    file.write_text(STAR, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, "check", file], capture_output=True, text=True, check=True, timeout=300
    )
    assert "100001 hosts" in done.stdout
    assert " MB of memory, " in done.stdout
    assert int(done.stdout.splitlines()[-1]) < 500_000_000, done.stdout


def test_a_run_that_takes_much_memory_has_the_pilot_of_another(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine takes twice as long for the usual run as its plan says."""
    usual = scenarios.check(scenarios.read("leaf-spine"), [], None)
    paced = Paced(usual["packet_hops"], usual["packet_hops"] / (2 * usual["seconds"] - 0.5))
    started: list[scenarios.Source] = []

    def start(source: scenarios.Source, *_: object, **__: object) -> Paced:
        started.append(source)
        return paced

    monkeypatch.setattr(scenarios, "start", start)
    monkeypatch.setattr(time, "process_time", lambda: paced.now_s)
    monkeypatch.setattr(time, "monotonic", lambda: paced.now_s)
    source = scenarios.read(small)
    checked = scenarios.check(source, [], None)
    checked["memory_bytes"], checked["seconds"] = 300_000_001, 70.0
    assert pilot.seconds(source, [], None, None, checked) == pytest.approx(140.0, rel=0.1)
    assert [source.stem for source in started] == ["leaf-spine"]
    assert paced.is_cancelled


def test_short_runs_and_runs_on_a_kernel_have_no_pilot(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "start", lambda *_, **__: pytest.fail("it was started"))
    source = scenarios.read(small)
    checked = scenarios.check(source, [], None)
    assert pilot.seconds(source, [], None, None, checked) == checked["seconds"]
    checked["world"], checked["seconds"] = "linux", 30.0
    assert pilot.seconds(source, [], None, None, checked) == 30.0


@pytest.mark.parametrize(
    ("packet_hops", "memory_bytes", "seconds", "said"),
    [
        (999, 55_400_000, 0.9, "999 packet-hops, 55 MB of memory, less than a second on one core"),
        (1_250_000, 1_000_000_000, 1.26, "1.2 million packet-hops, 1.0 GB of memory, 1.3 s on one core"),
        (0, 99_000_000, 75.0, "99 MB of memory, 1 min 15 s on one core"),
    ],
)
def test_what_a_run_takes_is_said_in_suitable_units(
    packet_hops: int, memory_bytes: int, seconds: float, said: str
) -> None:
    assert pilot.line(packet_hops, memory_bytes, seconds) == said
