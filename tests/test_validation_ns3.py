"""The comparison with ns-3 without ns-3: halves, agreement, what is measured, what is kept."""

from __future__ import annotations

import math
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import incast
from side_by_side import agreement, campaign, dctcp_loss, flows, leaf_spine, ns3, ours, protocol, tables

PLAN = protocol.read()
COUNTS = protocol.Tolerance(relative=0.03, absolute=2, unit="packets")
TIMES = protocol.Tolerance(relative=0.03, absolute=0, unit="s")


def point(**changes: object) -> protocol.Point:
    first = PLAN.sweep_points(PLAN.sets["untied"], ["rfc6582"])[0]
    return replace(first, **changes)  # type: ignore[arg-type]


def comparison(mine: list[float], theirs: list[float], tolerance: protocol.Tolerance) -> agreement.Comparison:
    found = agreement.compare(mine, theirs, tolerance, 3.0)
    assert found is not None
    return found


def test_the_halves_are_disjoint_and_make_up_the_grid() -> None:
    halves = [{tuple(sorted(cell.items())) for cell in PLAN.cells(half)} for half in ("work", "held-out")]
    assert len(halves[0]) == len(halves[1]) == 72
    assert not halves[0] & halves[1]


def test_neighbours_are_in_different_halves() -> None:
    work = [{key: cell[key] for key in PLAN.factors} for cell in PLAN.cells("work")]
    held_out = [{key: cell[key] for key in PLAN.factors} for cell in PLAN.cells("held-out")]
    for cell in work:
        for name, levels in PLAN.factors.items():
            index = levels.index(cell[name])
            for neighbour in levels[max(0, index - 1) : index] + levels[index + 1 : index + 2]:
                assert {**cell, name: neighbour} in held_out


def test_ports_mark_at_a_quarter_of_the_buffer() -> None:
    assert {(cell["buffer_packets"], cell["mark_packets"]) for cell in PLAN.cells("work")} == {(64, 16), (256, 64)}


def test_the_mended_sender_is_dctcp_on_our_side() -> None:
    assert point(sender="dctcp-mended").kind == "dctcp"
    assert point(sender="dctcp-mended").marks
    assert not point(sender="newreno").marks


def test_what_meets_adds_the_rules_of_ns3_to_those_of_the_variant() -> None:
    plain = PLAN.tcp(point(sender="dctcp", variant="sack"), PLAN.sets["untied"])
    met = PLAN.tcp(point(sender="dctcp", variant="sack"), PLAN.sets["met"])
    assert plain.items() <= met.items()
    assert met["hold_after_mark"] is True
    assert "hold_after_mark" not in plain


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
    shared = agreement.bias(found, TIMES, PLAN.bias)
    assert shared is not None
    assert shared.mean == pytest.approx(0.1 / 1.05)
    assert not shared.within


def test_bias_of_counts_leaves_out_points_with_next_to_nothing() -> None:
    rare = comparison([1.0, 0.0], [0.0, 0.0], COUNTS)
    often = comparison([50.0, 52.0], [50.0, 50.0], COUNTS)
    assert agreement.bias([rare, often], COUNTS, PLAN.bias) is None
    shared = agreement.bias([rare, often, often], COUNTS, PLAN.bias)
    assert shared is not None
    assert shared.points == 2


@pytest.mark.parametrize(("percent", "expected"), [(1, 1.0), (50, 5.0), (51, 6.0), (99, 10.0), (100, 10.0)])
def test_percentiles_are_by_nearest_rank(percent: float, expected: float) -> None:
    assert agreement.nearest_rank([float(i) for i in range(1, 11)], percent) == expected


def test_the_median_of_hundred_is_the_fiftieth() -> None:
    # 50 / 100 * 100 must not become 50.000000000000007 and so the 51st.
    assert agreement.nearest_rank([float(i) for i in range(1, 101)], 50) == 50.0
    assert agreement.nearest_rank([float(i) for i in range(1, 101)], 7) == 7.0


def test_equal_flows_are_those_within_a_nanosecond() -> None:
    assert campaign.equal_share([0.001, 0.002, 0.003], [0.001 + 1e-12, 0.002 + 2e-9, 0.003]) == pytest.approx(2 / 3)


def test_flows_are_listed_by_start_to_the_picosecond() -> None:
    text = flows.incast_flows(PLAN, point(senders=5), seed=3)
    count, *lines = text.splitlines()
    starts = [line.split()[5] for line in lines]
    assert count == "5"
    assert starts == sorted(starts)
    assert all(len(start.split(".")[1]) == 12 for start in starts)
    assert all(0.01 <= float(start) <= 0.0101 for start in starts)
    assert {line.split()[4] for line in lines} == {"32768"}


@pytest.mark.parametrize("sender", ["newreno", "dctcp-mended"])
@pytest.mark.parametrize("variant", list(PLAN.variants))
@pytest.mark.parametrize("run", list(PLAN.sets))
def test_every_scenario_can_be_run(tmp_path: Path, sender: str, variant: str, run: str) -> None:
    here = point(sender=sender, variant=variant, senders=3)
    file = flows.keep(flows.incast_flows(PLAN, here, 1), tmp_path / "flows.txt")
    result = incast.run(ours.incast_scenario(PLAN, here, file, PLAN.tcp(here, PLAN.sets[run])), seed=1)
    metrics = ours.incast_metrics(result)
    assert metrics is not None
    assert set(metrics) == set(PLAN.metrics)
    assert len(ours.completion_times(result)) == 3


def test_hosts_have_links_of_different_length_where_nothing_is_to_be_simultaneous(tmp_path: Path) -> None:
    file = flows.keep("1\n1 0 3 5000 1 0.01\n", tmp_path / "flows.txt")
    links = ours.incast_scenario(PLAN, point(senders=2, delay_step_ps=137), file, {})["topology"]["links"]
    assert [link["delay"] for link in links] == ["40000000ps", "40000137ps", "40000274ps"]


def test_ns3s_metrics_count_from_the_first_start() -> None:
    text = "2\n1 0 3 5000 1000 0.010000000000\n2 0 3 5000 3000 0.011000000000\n"
    rows = [[0.004, 1, 0, 2], [0.002, 0, 1, 1]]
    result = {"drops": 3, "marks": 4, "flows": rows, "queue_max": 7, "packet_hops": 99}
    metrics = ns3.incast_metrics(text, result)
    assert metrics is not None
    assert metrics["goodput_bps"] == pytest.approx(4000 * 8 / 0.004)
    assert (metrics["fct_p1_s"], metrics["fct_p99_s"]) == (0.002, 0.004)
    assert (metrics["timeouts"], metrics["fast_retransmits"], metrics["retransmitted_packets"]) == (1, 1, 3)
    assert metrics["queue_max"] == 7
    assert "packet_hops" not in metrics


def test_a_run_with_an_unfinished_flow_has_no_metrics() -> None:
    text = "1\n1 0 3 5000 1000 0.010000000000\n"
    assert ns3.incast_metrics(text, {"drops": 0, "marks": 0, "flows": [[None, 0, 0, 0]]}) is None
    assert ns3.incast_metrics(text, {"failed": "exit status 1"}) is None


def fake(out: Path, script: str) -> ns3.Ns3:
    """Put a program in ns-3's place that notes each of its runs."""
    program = out / "run"
    program.write_text(f"#!/bin/sh\necho run >> {out}/runs.log\n{script}\n", encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return ns3.Ns3(out)


def test_a_finished_run_is_kept(tmp_path: Path) -> None:
    side = fake(tmp_path, "echo '{\"drops\": 1}'")
    assert [side.run("flows", {"buffer": 1}) for _ in range(2)] == [{"drops": 1}] * 2
    assert side.run("other flows", {"buffer": 1}) == {"drops": 1}
    side.run("flows", {"buffer": 2})
    assert (tmp_path / "runs.log").read_text(encoding="utf-8").count("run") == 3


def test_a_crash_is_said_and_not_raised(tmp_path: Path) -> None:
    side = fake(tmp_path, "echo 'assertion failed' >&2; exit 134")
    assert side.run("flows", {}) == {"failed": "exit status 134: assertion failed"}


def test_what_does_not_agree_is_in_bold() -> None:
    assert tables.pair(comparison([1.0, 1.0], [1.0, 1.0], TIMES)) == "1 / 1"
    assert tables.pair(comparison([2.0, 2.0], [1.0, 1.0], TIMES), 1e3) == "**2000 / 1000**"
    assert tables.pair(None) == "-"


def test_points_are_compared_only_if_all_their_runs_have_results() -> None:
    runs: list[campaign.Metrics] = [{"drops": 1.0}, {"drops": 2.0}]
    assert set(campaign.compared(runs, runs, {"drops": COUNTS}, 3.0)) == {"drops"}
    assert campaign.compared([*runs, None], [*runs, {"drops": 3.0}], {"drops": COUNTS}, 3.0) == {}


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


def test_short_and_long_flows_are_told_apart() -> None:
    run = leaf_spine.metrics([8192, 32768, 1048576], [0.001, 0.002, 0.008], {"drops": 0})
    assert run.metrics is not None
    assert run.metrics["short_fct_p99_s"] == 0.002
    assert run.metrics["long_throughput_bps"] == pytest.approx(1048576 * 8 / 0.008)
    assert run.fct_s == {"short": [0.001, 0.002], "long": [0.008]}
