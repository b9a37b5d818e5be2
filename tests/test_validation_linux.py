"""The comparison with Linux without root and without namespaces: what is read, judged, kept and refused."""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import shutil
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import compare_linux
from incast import scenarios
from incast.studies import plan, reading
from incast.studies.study import Lines, Study
from kernel_world import agent, counters, judging, namespaces, quality, report, world
from side_by_side import campaign
from side_by_side.agreement import Tolerance

RULES = judging.read()
TIMES = Tolerance(relative=0.05, absolute=0, unit="s")
COUNTS = Tolerance(relative=0.1, absolute=2, unit="")
STUDIES = {name: reading.read(world.HERE / f"{name}.toml") for name in ("grid", "mechanisms")}
NETSTAT = """\
TcpExt: SyncookiesSent TCPTimeouts TCPLossProbes TCPSackRecovery TCPRenoRecovery
TcpExt: 0 3 5 7 2
IpExt: InNoRoutes InOctets
IpExt: 0 9000
"""


def scenario(study: Study, number: int = 0) -> dict[str, Any]:
    """Return what Linux is asked for at a point of a study."""
    asked = [row.task.outside.scenario for row in plan.rows(study) if row.task and row.task.outside]
    found: dict[str, Any] = json.loads(asked[number * study.seeds])
    return found


def settings(**changes: int | str) -> world.Settings:
    return replace(world.settings(scenario(STUDIES["grid"])), **changes)  # type: ignore[arg-type]


def measured(workers: int = 1, rounds: int = 2, **quality_: float) -> dict[str, Any]:
    """Return a repetition as the harness writes it: each answer takes 1 ms for each worker before it."""
    quantiles = agent.quantiles([1e-5, 2e-5])
    return {
        "responses": [
            [number, worker, number * 0.1, number * 0.1 + worker * 0.001]
            for number in range(rounds)
            for worker in range(1, workers + 1)
        ],
        "rounds": [[number * 0.1, number * 0.1 + workers * 0.001] for number in range(rounds)],
        "counts": dict.fromkeys(counters.COUNTS, 4) | {"drops": 9},
        "quality": {
            "rate_bps": 1e8, "elapsed_s": 0.2, "waiting": 0.001, "wait_us": 2.0, "softirq_waiting": 0.01,
            "softirq_wait_us": 10.0, "stolen": 0.0, "base_rtt_s": quantiles, "base_noise_s": quantiles,
            "late_departures_s": quantiles, "late_answers_s": quantiles, **quality_,
        },
        "kernel": {"release": "6.1.0", "ticks_per_second": 250},
        "refused": [],
    }  # fmt: skip


def verdict(ours: list[float], linux: list[float], tolerance: Tolerance) -> judging.Verdict:
    found = judging.judge(ours, linux, tolerance)
    assert found is not None
    return found


# What the kernel says.


def test_counters_are_read_by_group_and_name() -> None:
    found = counters.parsed(NETSTAT)
    assert (found["TcpExt.TCPTimeouts"], found["TcpExt.TCPLossProbes"], found["IpExt.InOctets"]) == (3, 5, 9000)


@pytest.mark.parametrize("text", ["TcpExt: A B\nTcpExt: 1\n", "TcpExt: A\nIpExt: 1\n", "TcpExt: A\n"])
def test_counters_that_do_not_fit_their_names_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="names"):
        counters.parsed(text)


def test_recoveries_are_those_with_and_without_sack() -> None:
    names = {name for parts in counters.COUNTS.values() for name in parts}
    before = dict.fromkeys(names, 10)
    after = before | {"TcpExt.TCPSackRecovery": 12, "TcpExt.TCPRenoRecovery": 11, "Tcp.RetransSegs": 15}
    found = counters.counted(before, after)
    assert (found["fast_retransmits"], found["retransmitted_packets"], found["timeouts"]) == (3, 5, 0)
    assert counters.total([found, found])["fast_retransmits"] == 6


def test_waits_are_in_seconds_and_by_turn() -> None:
    found = counters.waits("123 4000000 20\n") - counters.waits("100 1000000 5\n")
    assert found.waited_s == pytest.approx(0.003)
    assert found.mean_s == pytest.approx(0.0002)
    assert counters.Waits().mean_s == 0


def test_the_port_is_the_first_queueing_discipline(monkeypatch: pytest.MonkeyPatch) -> None:
    told = '[{"kind":"tbf","handle":"8001:","root":true,"options":{"limit":65536},"bytes":9,"packets":1,"drops":7}]'
    monkeypatch.setattr(namespaces, "run", lambda *_: told)
    monkeypatch.setattr(namespaces.Star, "inside", lambda *_: contextlib.nullcontext())
    assert namespaces.Star.port(namespaces.Star.__new__(namespaces.Star))["drops"] == 7


# What is judged.


def test_an_interval_that_meets_the_range_of_linux_agrees() -> None:
    # Mean 10, standard error 1 / sqrt(3), Student's t of two degrees of freedom 4.303: 7.5 to 12.5.
    ours = [9.0, 10.0, 11.0]
    assert verdict(ours, [12.0, 13.0], replace(TIMES, relative=0)).agrees
    assert not verdict(ours, [12.6, 13.0], replace(TIMES, relative=0)).agrees
    assert verdict(ours, [12.6, 13.0], TIMES).agrees  # widened to 11.96


def test_inside_is_about_the_mean_and_the_range_as_it_is() -> None:
    assert verdict([9.0, 11.0], [9.5, 10.5], COUNTS).inside
    assert not verdict([9.0, 10.0], [9.6, 10.5], COUNTS).inside


def test_a_few_more_or_less_agree() -> None:
    assert verdict([2.0, 2.0], [0.0, 0.0], COUNTS).agrees
    assert not verdict([3.0, 3.0], [0.0, 0.0], COUNTS).agrees


def test_what_neither_side_has_is_not_compared() -> None:
    assert judging.judge([0.0, 0.0], [0.0, 0.0], COUNTS) is None
    assert judging.judge([1.0, math.nan], [1.0, 1.0], COUNTS) is None
    assert judging.judge([], [1.0], COUNTS) is None


def test_what_points_share_is_the_geometric_mean_of_their_ratios() -> None:
    pairs = [([20.0, 20.0], [10.0, 10.0]), ([5.5, 5.5], [11.0, 11.0]), ([1.0, 1.0], [0.0, 0.0])]
    of = [judging.Place({}, {"timeouts": verdict(mine, theirs, COUNTS)}) for mine, theirs in pairs]
    found = judging.shared(of, "timeouts", RULES)
    assert (found.points, found.agree, found.told, found.near) == (3, 1, 2, 0)
    assert found.ratio == pytest.approx(1.0)
    assert judging.shared(of[2:], "timeouts", RULES).ratio is None


def test_what_does_not_agree_is_in_bold() -> None:
    assert report.pair(verdict([1.0, 1.0], [1.0, 1.0], TIMES)) == "1 / 1 (1 to 1)"
    assert report.pair(verdict([2.0, 2.0], [1.0, 1.0], TIMES), 1e3) == "**2000 / 1000 (1000 to 1000)**"
    assert report.pair(None) == "0 / 0"


# What is asked for.


@pytest.mark.parametrize("name", list(STUDIES))
def test_every_point_can_be_run_in_both_worlds(name: str) -> None:
    study = STUDIES[name]
    source = scenarios.read(study.scenario)  # type: ignore[arg-type]
    for point in study.points():
        scenarios.check(source, scenarios.overrides(plan.own_changes(study, point)), 1)
    for number in range(len(study.grid())):
        found = world.settings(scenario(study, number))
        assert found.workers <= 64
        assert found.rounds >= 16


def test_linux_gets_the_same_cell() -> None:
    study = STUDIES["mechanisms"]
    off = scenario(study, study.grid().index(("none", 8)))
    found = world.settings(off)
    assert found == world.Settings(
        workers=8, rounds=40, response_bytes=65536, request_bytes=64, jitter_s=512e-6, rate_bps=10**8,
        limit_bytes=65536, congestion_control="reno", rto_min_us=200_000, mss=1448, timer_tick_s=0.004,
        sysctls={"tcp_early_retrans": 0, "tcp_recovery": 0, "tcp_frto": 0, "tcp_dsack": 0},
    )  # fmt: skip


def test_own_sysctls_and_limits_are_taken() -> None:
    asked = scenario(STUDIES["grid"]) | {"kernel": {"sysctl": {"tcp_comp_sack_nr": 0}, "limits": {"waiting": 0.5}}}
    found = world.settings(asked)
    assert found.sysctls == {"tcp_comp_sack_nr": 0}
    assert (found.limits.waiting, found.limits.rate) == (0.5, world.Limits.rate)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("tcp.hold_after_mark", True, "linux has no key tcp.hold_after_mark"),
        ("tcp.loss_detection", "magic", "linux: tcp.loss_detection = 'magic': 'rack' or 'duplicates' are allowed"),
        ("topology.kind", "star", 'the topology has to be a "dumbbell" with left = 1'),
        ("traffic.requests.kind", "incast", 'the traffic has to be one class of kind "rounds"'),
        ("switch.buffer.limit", "43packets", "the buffer has to be"),
        ("switch.marker", {"name": "ecn-threshold"}, "tbf does not mark"),
        ("stack.sender", "swift", "linux has no sender 'swift': newreno, cubic are allowed"),
        ("kernel.sysctls", {}, "linux has no key kernel.sysctls: sysctl and limits are allowed"),
        ("kernel.limits", {"wait": 1}, "linux has no key kernel.limits.wait: waiting, wait_us"),
    ],
)
def test_what_linux_cannot_do_is_refused(path: str, value: object, message: str) -> None:
    asked = scenario(STUDIES["grid"])
    *steps, last = path.split(".")
    node = asked
    for step in steps:
        node = node.setdefault(step, {})
    node[last] = value
    with pytest.raises(SystemExit) as error:
        world.settings(asked)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


# What is kept, refused and done again.


def test_repetitions_are_kept_apart(tmp_path: Path) -> None:
    one = world.file_of(tmp_path, settings(), 1)
    assert one == world.file_of(tmp_path, settings(), 1)
    others = {world.file_of(tmp_path, settings(), 2), world.file_of(tmp_path, settings(workers=9), 1)}
    assert len(others | {one}) == 3


def test_a_busy_machine_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    told = [measured(rate_bps=9e7), measured(waiting=0.2, wait_us=500.0), measured()]
    monkeypatch.setattr(world, "_PAUSE_S", 0)
    monkeypatch.setattr(world, "_check_kernel", lambda _: None)
    monkeypatch.setattr(world, "_measured", lambda *_, attempt: told[attempt])
    found = world.repetition(settings(), 1)
    assert found["refused"] == ["the port carried 90.0 Mbit/s", "the harness waited for a CPU 20.0% of the time"]
    assert found["counts"] == told[2]["counts"]


def test_a_machine_that_is_always_busy_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "_PAUSE_S", 0)
    monkeypatch.setattr(world, "_check_kernel", lambda _: None)
    monkeypatch.setattr(world, "_measured", lambda *_, attempt: measured(waiting=0.2, wait_us=50.0 + attempt))
    with pytest.raises(namespaces.UnavailableError, match="the machine is too busy: 100 attempts were refused"):
        world.repetition(settings(), 1)


def test_short_waits_are_no_reason_to_refuse() -> None:
    limits = world.Limits()
    assert limits.refuse(measured(waiting=0.05, wait_us=7.0)["quality"], 10**8) is None
    assert limits.refuse(measured(softirq_waiting=0.3, softirq_wait_us=80.0)["quality"], 10**8) is None
    assert limits.refuse(measured(softirq_waiting=0.3, softirq_wait_us=9e4)["quality"], 10**8) is not None


def test_another_clock_than_the_scenarios_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "congestion_controls", lambda: ["reno", "cubic"])
    monkeypatch.setattr(counters, "ticks_per_second", lambda: 1000)
    with pytest.raises(
        namespaces.UnavailableError, match=r"ticks every 1 ms \(CONFIG_HZ=1000\), the scenario's every 4"
    ):
        world.repetition(settings(), 1)
    with pytest.raises(namespaces.UnavailableError, match=r"this kernel has no vegas \(reno, cubic are there\)"):
        world.repetition(settings(congestion_control="vegas"), 1)


def test_the_tables_are_those_of_a_run() -> None:
    found = world.tables(settings(workers=2, response_bytes=1000), measured(workers=2, rounds=3))
    (summary,) = found["summary"]
    assert (summary["flows"], summary["drops"], summary["timeouts"], summary["tail_probes"]) == (6, 9, 4, 4)
    assert summary["fct_p50_s"] == pytest.approx(0.001)
    assert summary["cct_p99_s"] == pytest.approx(0.002)
    assert [row["source_host"] for row in found["flows"]] == [1, 2] * 3
    assert [row["size_bytes"] for row in found["coflows"]] == [2000] * 3


def test_a_comparison_of_what_is_kept_needs_no_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINUX_OUT", str(tmp_path))
    command = json.dumps(["python3", str(world.HERE / "world.py")])
    (tmp_path / "small.toml").write_text(
        f"""
like = "{world.HERE / "grid.toml"}"
scenario = "{world.HERE / "incast.toml"}"
seeds = 2
only = 'size_kib == 2 and sender == "reno" and rto_min_ms == 10 and workers <= 2'
panels = []
[worlds.kernel]
command = {command}
""",
        encoding="utf-8",
    )
    study = reading.read(tmp_path / "small.toml")
    for row in plan.rows(study):
        if row.task and row.task.outside:
            chosen = world.settings(json.loads(row.task.outside.scenario))
            file = world.file_of(tmp_path, chosen, row.seed)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(measured(chosen.workers, chosen.rounds)), encoding="utf-8")
    found = campaign.run(tmp_path / "small.toml", tmp_path, workers=1)
    of, kept = judging.places(found, RULES), quality.read(study, tmp_path)
    assert [place.at["workers"] for place in of] == [1, 2]
    assert of[0].verdicts["drops"].linux == (9, 9, 9)
    assert not of[0].verdicts["drops"].agrees
    assert of[1].verdicts["goodput_bps"].linux[0] == pytest.approx(2 * 2048 * 8 / 0.002)
    assert len(kept.found) == 4
    assert "| rate of the port, Mbit/s | 100.00 | 100.00 to 100.00 |" in quality.told(kept)
    report.write_points(tmp_path / "points.csv", of)
    report.write_counts(tmp_path / "counts.csv", [{"repetition": number} for number in range(4)], kept)
    assert (tmp_path / "points.csv").read_text(encoding="utf-8").startswith("sender,size_kib,rto_min_ms,workers,metric")
    assert len((tmp_path / "counts.csv").read_text(encoding="utf-8").splitlines()) == 5
    assert "**0 / 9 (9 to 9)**" in report.points(of)
    assert f"within {RULES.factor:g}" in report.agreement(of, RULES)

    # Linux's side as a table tells it, with nothing of it in the store.
    shutil.rmtree(tmp_path / "runs")
    monkeypatch.setattr(world, "repetition", None)
    axes = [axis.name for axis in study.axes]
    known = judging.known(tmp_path / "points.csv", axes)
    alone = campaign.run(tmp_path / "small.toml", tmp_path, only=judging.OURS)
    again = judging.places(alone, RULES, known)
    for place, before in zip(again, of, strict=True):
        assert place.verdicts.keys() == before.verdicts.keys()
        for metric, one in place.verdicts.items():
            assert one.ours == before.verdicts[metric].ours
            assert one.linux == pytest.approx(before.verdicts[metric].linux, rel=1e-5)
    del known["reno", "2", "10", "2", "goodput_bps"]
    with pytest.raises(SystemExit, match=r"^error: nothing is known of Linux at .*'workers': 2"):
        judging.places(alone, RULES, known)
    with pytest.raises(SystemExit, match=r"points.csv: no column mechanism; without --keep-linux"):
        judging.known(tmp_path / "points.csv", ["mechanism"])
    with pytest.raises(SystemExit, match=r"none.csv: missing; without --keep-linux"):
        judging.known(tmp_path / "none.csv", axes)


def test_a_picture_says_what_its_bands_are() -> None:
    study = STUDIES["grid"]
    panel = next(panel for panel in study.panels if isinstance(panel, Lines) and panel.y == "timeouts")
    places = [dict(zip([axis.name for axis in study.axes], point, strict=True)) for point in study.grid()]
    one = verdict([2.0, 4.0], [1.0, 3.0, 8.0], COUNTS)
    of = [judging.Place(at, {"timeouts": one} if at["workers"] == 8 else {}) for at in places]
    drawn = report.chart(study, panel, of)
    linux, ours = drawn.lines
    assert linux.band is not None
    assert ours.band is not None
    assert (linux.label, linux.y[3], linux.band.low[3], linux.band.high[3]) == ("Linux", 4.0, 1.0, 8.0)
    assert (ours.y[:4], ours.band.low[3]) == ((0.0, 0.0, 0.0, 3.0), one.ours.low)
    assert "bands are all repetitions on Linux and our 95 % confidence intervals" in drawn.caption


# What is missing is said in a line.


def test_without_root_a_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SystemExit, match=r"^error: root is needed for network namespaces and SCHED_FIFO$"):
        compare_linux.grid()


def test_without_iproute2_a_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "tc" else name)
    with pytest.raises(SystemExit, match=r"^error: tc not found \(Debian, Ubuntu: apt-get install iproute2\)$"):
        compare_linux.mechanisms()


# The traffic itself, over the loopback.


class Loopback(agent.Connections):
    """Connections of this machine with itself, as they come."""

    def __init__(self, count: int) -> None:
        self.asking, self.answering = [], []
        for _ in range(count):
            with socket.create_server(("127.0.0.1", 0)) as listening:
                self.asking.append(socket.create_connection(listening.getsockname()))
                self.answering.append(listening.accept()[0])
        for one in (*self.asking, *self.answering):
            one.setblocking(False)

    def close(self) -> None:
        """Close both ends of each."""
        for one in (*self.asking, *self.answering):
            one.close()


@pytest.fixture
def loopback() -> Iterator[Loopback]:
    connections = Loopback(3)
    yield connections
    connections.close()


def test_every_worker_answers_in_every_round(loopback: Loopback) -> None:
    for answering in loopback.answering:  # less than an answer
        answering.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    found = agent.run(loopback, agent.Rounds(4, 60_000, 64, 1e-4), random.Random(1))  # noqa: S311
    assert sorted((number, worker) for number, worker, _, _ in found.responses) == [
        (number, worker) for number in range(4) for worker in (1, 2, 3)
    ]
    for number, worker, asked, ended in found.responses:
        start, end = found.rounds[number]
        assert start <= asked < ended <= end, worker
    assert len(found.late_answers) == 12


def test_a_closed_connection_is_an_error(loopback: Loopback) -> None:
    loopback.answering[1].close()
    with pytest.raises((namespaces.UnavailableError, OSError)):
        agent.run(loopback, agent.Rounds(2, 1000, 64, 0.0), random.Random(1))  # noqa: S311


def test_quantiles_are_by_nearest_rank() -> None:
    found = agent.quantiles([float(value) for value in range(100, 0, -1)])
    assert (found["min"], found["p1"], found["p50"], found["p99"], found["max"]) == (1, 1, 50, 99, 100)
