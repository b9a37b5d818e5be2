"""The comparison with ns-3 without ns-3: halves, agreement, what is measured, what is kept."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from incast import scenarios
from incast.studies import plan, reading
from incast.studies.charts import Span
from incast.studies.study import Lines, Study
from side_by_side import agreement, campaign, dctcp_loss, pictures, tables, world

RULES = agreement.read()
COUNTS = agreement.Tolerance(relative=0.03, absolute=2, unit="packets")
TIMES = agreement.Tolerance(relative=0.03, absolute=0, unit="s")
STUDIES = {
    name: reading.read(world.HERE / f"{name}.toml") for name in ("sweep", "grid-work", "grid-held-out", "leaf-spine")
}
FACTORS = ("senders", "rate_bps", "buffer_packets", "delay_us", "initial_window", "rto_min_ms")
FLOWS = [
    {"source_host": 1, "destination_host": 0, "size_bytes": 1000, "start_s": 0.01},
    {"source_host": 2, "destination_host": 0, "size_bytes": 3000, "start_s": 0.011},
]


def places(study: Study) -> list[dict[str, object]]:
    return [dict(zip([axis.name for axis in study.axes], at, strict=True)) for at in study.grid()]


def cells(half: str) -> list[tuple[object, ...]]:
    found = places(STUDIES[f"grid-{half}"])
    return list(dict.fromkeys(tuple(place[name] for name in FACTORS) for place in found))


def scenario(study: str, curve: str, **at: object) -> dict[str, object]:
    """Return the scenario that ns-3 gets at the first such point."""
    chosen = [
        row.task
        for row in plan.rows(STUDIES[study])
        if row.point.curve.name == curve
        and all(
            dict(zip([a.name for a in STUDIES[study].axes], row.point.at, strict=True))[k] == v for k, v in at.items()
        )
    ]
    assert chosen[0]
    assert chosen[0].outside
    found: dict[str, object] = json.loads(chosen[0].outside.scenario)
    return found


def comparison(mine: list[float], theirs: list[float], tolerance: agreement.Tolerance) -> agreement.Comparison:
    found = agreement.compare(mine, theirs, tolerance, 3.0)
    assert found is not None
    return found


def test_the_halves_are_disjoint_and_make_up_the_grid() -> None:
    work, held_out = set(cells("work")), set(cells("held-out"))
    assert len(work) == len(held_out) == 72
    assert not work & held_out


def test_neighbours_are_in_different_halves() -> None:
    levels = [sorted({cell[index] for cell in cells("work")}, key=float) for index in range(len(FACTORS))]  # type: ignore[arg-type]
    held_out = cells("held-out")
    for cell in cells("work"):
        for factor, values in enumerate(levels):
            at = values.index(cell[factor])
            for neighbour in values[max(0, at - 1) : at] + values[at + 1 : at + 2]:
                assert (*cell[:factor], neighbour, *cell[factor + 1 :]) in held_out


def test_every_cell_is_run_in_every_variant_with_every_sender() -> None:
    for half in ("work", "held-out"):
        assert len(STUDIES[f"grid-{half}"].grid()) == 72 * 2 * (2 + 3)
    assert len(STUDIES["sweep"].grid()) == 10 * 2 * (2 + 3)


def test_ports_mark_at_a_quarter_of_the_buffer() -> None:
    found = {(place["buffer_packets"], place["mark_packets"]) for place in places(STUDIES["grid-work"])}
    assert found == {(64, 16), (256, 64)}


def test_the_mended_sender_is_dctcp_on_our_side() -> None:
    study = STUDIES["sweep"]
    mended = [point for point in study.points() if point.curve.name == "ours" and "dctcp-mended" in point.at]
    assert {plan.own_changes(study, point)["stack.sender"] for point in mended} == {"dctcp"}
    assert not any(key.startswith("ns3.") for point in mended for key in plan.own_changes(study, point))


def test_what_meets_adds_the_rules_of_ns3_to_those_of_the_variant() -> None:
    by_curve = {
        point.curve.name: dict(point.changes)
        for point in STUDIES["sweep"].points()
        if point.at[:4] == ("sack", "untied", "dctcp", 10)
    }
    assert by_curve["ours"].items() <= by_curve["met"].items()
    assert by_curve["met"]["tcp.hold_after_mark"] is True
    assert "tcp.hold_after_mark" not in by_curve["ours"]


def test_the_standard_error_is_that_of_the_paired_differences() -> None:
    # Differences 1, -1, 3, 1: mean 1, standard deviation sqrt(8/3).
    found = comparison([11.0, 19.0, 33.0, 41.0], [10.0, 20.0, 30.0, 40.0], TIMES)
    assert found.difference == 1.0
    assert found.standard_error == pytest.approx(math.sqrt(8 / 3) / 2)
    assert found.allowed == pytest.approx(max(3 * found.standard_error, 0.03 * 26))


def test_a_steady_difference_beyond_the_tolerance_does_not_agree() -> None:
    assert comparison([103.0, 203.0], [100.0, 200.0], TIMES).agrees
    assert not comparison([106.0, 206.0], [100.0, 200.0], TIMES).agrees


def test_a_few_packets_more_or_less_agree() -> None:
    assert comparison([2.0, 2.0], [0.0, 0.0], COUNTS).agrees
    assert not comparison([3.0, 3.0], [0.0, 0.0], COUNTS).agrees


def test_a_run_without_a_value_is_not_compared() -> None:
    assert agreement.compare([1.0, math.nan], [1.0, 1.0], TIMES, 3.0) is None
    assert agreement.compare([], [], TIMES, 3.0) is None


def test_runs_that_are_not_pairs_are_refused() -> None:
    with pytest.raises(ValueError, match="paired by seed"):
        agreement.compare([1.0], [1.0, 2.0], TIMES, 3.0)


def test_bias_shows_what_no_single_point_does() -> None:
    # Every point agrees within its wide spread, and every one is 10 % above.
    found = [comparison([a * 1.1, b * 1.1], [a, b], replace(TIMES, relative=0.5)) for a, b in ((1.0, 9.0), (2.0, 8.0))]
    assert all(one.agrees for one in found)
    shared = agreement.bias(found, TIMES, RULES.bias)
    assert shared is not None
    assert shared.mean == pytest.approx(0.1 / 1.05)
    assert not shared.within


def test_bias_of_counts_leaves_out_points_with_next_to_nothing() -> None:
    rare = comparison([1.0, 0.0], [0.0, 0.0], COUNTS)
    often = comparison([50.0, 52.0], [50.0, 50.0], COUNTS)
    assert agreement.bias([rare, often], COUNTS, RULES.bias) is None
    shared = agreement.bias([rare, often, often], COUNTS, RULES.bias)
    assert shared is not None
    assert shared.points == 2


@pytest.mark.parametrize(("percent", "expected"), [(1, 1.0), (50, 5.0), (51, 6.0), (99, 10.0), (100, 10.0)])
def test_percentiles_are_by_nearest_rank(percent: float, expected: float) -> None:
    assert world.nearest_rank([float(i) for i in range(1, 11)], percent) == expected


def test_the_median_of_hundred_is_the_fiftieth() -> None:
    # 50 / 100 * 100 must not become 50.000000000000007 and so the 51st.
    assert world.nearest_rank([float(i) for i in range(1, 101)], 50) == 50.0
    assert world.nearest_rank([float(i) for i in range(1, 101)], 7) == 7.0


def test_equal_flows_are_those_within_a_nanosecond() -> None:
    mine, theirs = (
        pl.DataFrame({"fct_s": times}) for times in ([0.001, 0.002, 0.003], [0.001 + 1e-12, 0.002 + 2e-9, 0.003])
    )
    assert campaign.equal_shares([mine], [theirs]) == pytest.approx([2 / 3])


def test_flows_are_listed_to_the_picosecond() -> None:
    assert world.listed(FLOWS) == "2\n1 0 3 5000 1000 0.010000000000\n2 0 3 5000 3000 0.011000000000\n"


@pytest.mark.parametrize("curve", ["ours", "met"])
@pytest.mark.parametrize("name", list(STUDIES))
def test_every_kind_of_point_can_be_run(name: str, curve: str) -> None:
    study = STUDIES[name]
    source = scenarios.read(study.scenario)  # type: ignore[arg-type]
    points = [point for point in study.points() if point.curve.name == curve]
    # Every value of every axis at least once.
    chosen = {
        next(p.at for p in points if p.at[axis] == value): 0
        for axis in range(len(study.axes))
        for value in study.axes[axis].shown
    }
    for point in points:
        if point.at in chosen:
            scenarios.check(source, scenarios.overrides(plan.own_changes(study, point)), 1)


def test_ns3_gets_the_same_network() -> None:
    found = world.arguments(scenario("grid-held-out", "ns3", sender="dctcp-mended", variant="sack"))
    assert found == {
        "hostsPerLeaf": 9, "rateBps": 10**9, "delayUs": 10, "delayStepPs": 137, "buffer": 64, "mark": 16,
        "from": 0.01 - 0.001, "initialWindow": 2, "rtoMinMs": 10, "watch": 0, "sender": "dctcp-mended", "sack": 1,
        "recovery": "ns3::TcpPrrRecovery", "limitedTransmit": 1, "socketBuffer": 4194304,
    }  # fmt: skip


def test_ports_of_ns3_drop_from_the_tail_where_nothing_is_to_be_marked() -> None:
    found = world.arguments(scenario("sweep", "ns3", sender="newreno", variant="rfc6582"))
    assert (found["mark"], found["sack"], found["recovery"]) == (0, 0, "ns3::TcpClassicRecovery")


def test_ns3_gets_the_same_leaf_spine() -> None:
    assert world.arguments(scenario("leaf-spine", "ns3")) == {
        "leaves": 20, "hostsPerLeaf": 20, "spines": 10, "rateBps": 10**10, "delayUs": 10, "buffer": 250, "mark": 65,
        "initialWindow": 10, "rtoMinMs": 10, "connectBefore": 0, "sender": "dctcp", "sack": 0,
        "recovery": "ns3::TcpClassicRecovery", "limitedTransmit": 0, "socketBuffer": 4194304,
    }  # fmt: skip


def test_a_rule_that_ns3_does_not_have_is_refused() -> None:
    document = scenario("sweep", "ns3")
    document["tcp"]["hold_after_mark"] = True  # type: ignore[index]
    with pytest.raises(SystemExit, match=r"ns-3 has no key tcp.hold_after_mark"):
        world.arguments(document)


def test_hosts_with_noise_are_refused() -> None:
    document = scenario("sweep", "ns3")
    document["hosts"]["noise"] = {"kind": "exponential", "mean": "1us"}  # type: ignore[index]
    with pytest.raises(SystemExit, match="ns-3 has hosts without noise"):
        world.arguments(document)


def test_ns3s_tables_count_from_the_first_start() -> None:
    rows = [[0.004, 1, 0, 2], [0.002, 0, 1, 1]]
    result = {"drops": 3, "marks": 4, "flows": rows, "queue_max": 7, "queue_mean_over_time": 2.5, "packet_hops": 99}
    found = world.tables(FLOWS, result)
    summary = found["summary"][0]
    assert summary["goodput_total_bps"] == pytest.approx(4000 * 8 / 0.004)
    assert (summary["fct_p1_s"], summary["fct_p99_s"]) == (0.002, 0.004)
    assert (summary["timeouts"], summary["fast_retransmits"], summary["retransmitted_packets"]) == (1, 1, 3)
    assert found["ports"] == [{"to": "host 0", "max_waiting_packets": 7, "mean_waiting_packets_over_time": 2.5}]


def test_a_run_with_an_unfinished_flow_is_not_complete() -> None:
    rows = [[0.004, 1, 0, 2], [None, 0, 1, 1]]
    found = world.tables(FLOWS, {"drops": 0, "marks": 0, "flows": rows, "packet_hops": 9})
    assert found["summary"][0]["flows_complete"] == 1
    assert "goodput_total_bps" not in found["summary"][0]
    assert world.tables(FLOWS, {"failed": "exit status 1"})["summary"][0]["flows_complete"] == 0


def fake(out: Path, script: str) -> Path:
    """Put a program in ns-3's place that notes each of its runs."""
    program = out / "run"
    program.write_text(f"#!/bin/sh\necho run >> {out}/runs.log\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    return out


def test_a_finished_run_is_kept(tmp_path: Path) -> None:
    out = fake(tmp_path, "echo '{\"drops\": 1}'")
    assert [world.run(out, "flows", {"buffer": 1}) for _ in range(2)] == [{"drops": 1}] * 2
    assert world.run(out, "other flows", {"buffer": 1}) == {"drops": 1}
    world.run(out, "flows", {"buffer": 2})
    assert (tmp_path / "runs.log").read_text(encoding="utf-8").count("run") == 3


def test_a_crash_is_said_and_not_raised(tmp_path: Path) -> None:
    out = fake(tmp_path, "echo 'assertion failed' >&2; exit 134")
    assert world.run(out, "flows", {}) == {"failed": "exit status 134: assertion failed"}


def test_a_program_that_is_not_there_is_no_result(tmp_path: Path) -> None:
    with pytest.raises(
        SystemExit, match=r"run cannot be started: No such file or directory; make validate-ns3 builds it"
    ):
        world.run(tmp_path, "flows", {})
    with pytest.raises(SystemExit, match="library"):
        world.run(fake(tmp_path, "echo 'no library' >&2; exit 127"), "flows", {})
    assert not (tmp_path / "runs").exists()


STUB = """echo '{"drops": 5, "marks": 0, "marks_on_acks": 0, "packet_hops": 9, "queue_max": 9, "flows": [
[0.004, 1, 0, 2], [0.002, 0, 1, 1]]}'"""


def test_both_sides_of_a_study_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NS3_OUT", str(fake(tmp_path, STUB)))
    command = json.dumps(["python3", str(world.HERE / "side_by_side" / "world.py")])
    (tmp_path / "small.toml").write_text(
        f"""
like = "{world.HERE / "sweep.toml"}"
scenario = "{world.HERE / "incast.toml"}"
seeds = 2
only = 'links == "untied" and variant == "sack" and sender == "dctcp"'
panels = []
[worlds.ns3]
command = {command}
[axes.senders]
keys = ["traffic.burst.senders", "topology.hosts"]
values = [[2, 3]]
""",
        encoding="utf-8",
    )
    (outcome,) = campaign.run(tmp_path / "small.toml", tmp_path).outcomes("met", RULES.metrics, RULES, links="untied")
    assert outcome.group == ("sack", "dctcp")
    assert outcome.failed == {"ours": 0, "ns-3": 0}
    drops, times = outcome.comparisons["drops"], outcome.comparisons["fct_p99_s"]
    assert (drops.ours, drops.ns3, drops.agrees) == (0, 5, False)
    assert times.ns3 == 0.004
    assert "queue_mean_over_time" not in outcome.comparisons  # ns-3 did not tell
    assert outcome.equal == [0.0, 0.0]
    assert tables.point_columns(outcome)["delay_step_ps"] == 137


def test_what_does_not_agree_is_in_bold() -> None:
    assert tables.pair(comparison([1.0, 1.0], [1.0, 1.0], TIMES)) == "1 / 1"
    assert tables.pair(comparison([2.0, 2.0], [1.0, 1.0], TIMES), 1e3) == "**2000 / 1000**"
    assert tables.pair(None) == "-"


def test_points_are_compared_only_if_all_their_runs_have_results() -> None:
    good, bad = ([1.0, 2.0], [1.0, 2.0]), ([1.0, math.nan], [1.0, 2.0])
    assert set(campaign.compared({"drops": good, "marks": bad}, {"drops": COUNTS, "marks": COUNTS}, 3.0)) == {"drops"}


def test_what_a_loss_leaves_of_the_window_is_read_at_the_start_of_each_recovery() -> None:
    windows = {
        "cwnd_bytes": np.array([10.0, 6.0, 6.0, 8.0, 7.0]),
        "ssthresh_bytes": np.array([99.0, 5.0, 5.0, 5.0, 6.0]),
        "recovers": np.array([False, True, True, False, True]),
    }
    assert dctcp_loss.kept_at_recoveries(windows) == [0.5, 0.75]


def test_time_below_a_level_is_that_of_the_rows_that_are() -> None:
    windows = {"time_s": np.array([0.0, 1.0, 3.0, 4.0]), "cwnd_bytes": np.array([2.0, 0.5, 2.0, 0.5])}
    assert dctcp_loss.time_below(windows, 1.0) == 2.0


def test_the_picture_of_the_sweep_has_ours_with_the_interval_of_the_difference_from_ns3() -> None:
    panel = next(panel for panel in STUDIES["sweep"].panels if isinstance(panel, Lines))
    of = {"sender": "newreno", "variant": "rfc6582", "delay_step_ps": "137"}
    rows, met = (
        [
            {**of, "senders": senders, "goodput_bps_ours": ours, "goodput_bps_ns3": "7", "goodput_bps_error": "0.5"},
            {**of, "sender": "dctcp", "senders": senders, "goodput_bps_ours": "0", "goodput_bps_error": "0"},
        ]
        for senders, ours in (("10", "6"), ("10", "8"))
    )
    chart = pictures._beside(STUDIES["sweep"], panel, 2.0, rows, met)
    assert [(line.label, line.x, line.y) for line in chart.lines] == [
        ("ns-3", (10,), (7,)), ("ours", (10,), (6,)), ("ours with ns-3's rules", (10,), (8,)),
    ]  # fmt: skip
    assert [line.band for line in chart.lines] == [None, Span((5,), (7,)), Span((7,), (9,))]
