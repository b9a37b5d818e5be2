"""What a run takes, by the first part of it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from incast import pilot, scenarios

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Command


class Paced:
    """The pilot of a run of this many packet-hops, at a constant speed after half a second of building."""

    def __init__(self, packet_hops: int, per_s: float, *, times: float = 1.0, is_guess: bool = False) -> None:
        self.packet_hops, self.per_s, self.times, self.now_s = packet_hops, per_s, times, 0.0
        self.is_guess = is_guess
        self.is_cancelled = False

    def wait(self, timeout_s: float) -> bool:  # noqa: D102
        self.now_s += timeout_s
        return self._done() >= min(self.packet_hops, 1_000_000)

    def told(self) -> SimpleNamespace:
        """Say what it has shown."""
        return SimpleNamespace(
            packet_hops=round(self.packet_hops * self.times),
            memory_bytes=60_000_000,
            packet_hops_of_part=self.packet_hops,
            times=self.times,
            is_guess=self.is_guess,
        )

    def progress(self) -> dict[str, Any]:  # noqa: D102
        return {"simulated_s": self._done() / 1e9, "packet_hops": self._done(), "messages_done": 0, "messages_total": 1}

    def cancel(self) -> None:  # noqa: D102
        self.is_cancelled = True

    def _done(self) -> int:
        return min(int(max(self.now_s - 0.5, 0.0) * self.per_s), self.packet_hops, 1_000_000)


def _paced(monkeypatch: pytest.MonkeyPatch, paced: Paced) -> list[scenarios.Source]:
    """Have this be the pilot of every run; return what it is asked for."""
    asked: list[scenarios.Source] = []

    def pilot_of(source: scenarios.Source, *_: object) -> Paced:
        asked.append(source)
        return paced

    monkeypatch.setattr(scenarios, "pilot", pilot_of)
    monkeypatch.setattr(time, "process_time", lambda: paced.now_s)
    return asked


@pytest.mark.parametrize(("packet_hops", "per_s"), [(1_000_000, 1e7), (50_000_000, 1e7), (50_000_000, 1e6)])
def test_a_pilot_tells_the_time_of_the_whole_run(
    packet_hops: int, per_s: float, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paced = Paced(packet_hops, per_s)
    _paced(monkeypatch, paced)
    source = scenarios.read(small)
    checked = scenarios.check(source, [], None)
    checked["packet_hops"], checked["seconds"] = packet_hops // 2, 1.0
    expected = 0.5 + packet_hops / per_s
    told = pilot.cost(source, [], None, None, checked)
    assert told.seconds == pytest.approx(expected, rel=0.1)
    assert (told.packet_hops, told.memory_bytes) == (packet_hops, 60_000_000)
    assert " 60 MB of memory, " in told.line()
    assert paced.is_cancelled
    # A plan that says a tenth of its time and half of its packet-hops is corrected by ten and two.
    _paced(monkeypatch, Paced(packet_hops, per_s))
    checked["seconds"] = expected / 10
    correction = pilot.correction([(source, [], checked)])
    assert (correction.seconds, correction.packet_hops) == pytest.approx((10, 2), rel=0.1)


def test_the_pilot_of_a_part_counts_as_often_as_the_whole_takes_longer(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _paced(monkeypatch, Paced(5_000_000, 1e6, times=8.0, is_guess=True))
    source = scenarios.read(small)
    told = pilot.cost(source, [], None, None, scenarios.check(source, [], None))
    assert told.packet_hops == 40_000_000
    assert told.seconds == pytest.approx(8 * 5.5, rel=0.1)
    # It saw neither all workers nor the end.
    assert told.line().endswith("; packet-hops and time may be 3 times that")
    _paced(monkeypatch, Paced(900_000, 1e6, times=8.0))
    told = pilot.cost(source, [], None, None, scenarios.check(source, [], None))
    assert (told.times_at_most, told.line()[-8:]) == (1, "one core")


def test_without_patience_for_a_slow_pilot_the_plan_counts(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paced = Paced(1_000_000, 1e4)
    _paced(monkeypatch, paced)
    source = scenarios.read(small)
    checked = scenarios.check(source, [], None)
    checked["packet_hops"] = 2_000_000
    told = pilot.cost(source, [], None, None, checked)
    assert (told.packet_hops, told.memory_bytes) == (2_000_000, checked["memory_bytes"])
    assert told.seconds == pytest.approx(200.5, rel=0.1)
    assert paced.is_cancelled


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


def test_a_check_of_100_001_hosts_takes_less_than_300_mb(tmp_path: Path) -> None:
    file = tmp_path / "star.toml"
    file.write_text(STAR, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, "check", file], capture_output=True, text=True, check=True, timeout=300
    )
    assert "100001 hosts" in done.stdout
    assert " MB of memory, " in done.stdout
    assert int(done.stdout.splitlines()[-1]) < 300_000_000, done.stdout
    # It loses most of its packets: without losses there are 3,000,000.
    assert float(done.stdout.splitlines()[1].partition(" million packet-hops")[0]) > 5.5


def test_where_even_a_part_takes_too_much_memory_the_pilot_of_another_run_counts(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine takes twice as long for the usual run as its plan says."""
    usual = scenarios.check(scenarios.read("leaf-spine"), [], None)
    paced = Paced(usual["packet_hops"], usual["packet_hops"] / (2 * usual["seconds"] - 0.5))
    source = scenarios.read(small)
    checked = scenarios.check(source, [], None)
    checked["seconds"] = 70.0
    asked = _paced(monkeypatch, paced)
    pilot_of = scenarios.pilot

    def of_usual(wanted: scenarios.Source, *rest: Any) -> object:  # noqa: ANN401
        return pilot_of(wanted, *rest) if wanted.stem == "leaf-spine" else None

    monkeypatch.setattr(scenarios, "pilot", of_usual)
    told = pilot.cost(source, [], None, None, checked)
    assert told.seconds == pytest.approx(140.0, rel=0.1)
    assert told.packet_hops == checked["packet_hops"]
    assert [source.stem for source in asked] == ["leaf-spine"]
    assert paced.is_cancelled


def test_runs_on_a_kernel_have_no_pilot(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("start", "pilot"):
        monkeypatch.setattr(scenarios, name, lambda *_, **__: pytest.fail("it was started"))
    source = scenarios.read(small)
    checked = scenarios.check(source, [], None)
    checked["world"], checked["seconds"] = "linux", 30.0
    assert pilot.cost(source, [], None, None, checked).seconds == 30.0


def test_what_a_check_says_of_packets_and_memory_does_not_depend_on_the_machine(incast: Command, small: Path) -> None:
    many = ("--set", "traffic.burst.rounds=5000")
    first, second = (json.loads(incast("check", small, "--json", *many).stdout) for _ in range(2))
    assert first["packet_hops"] > 5_000_000
    assert {**first, "seconds": 0.0} == {**second, "seconds": 0.0}


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
