"""Closed forms: the ARS paper's numbers, arrays of any shape, and messages for what makes no sense."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import incast as package
from conftest import Command
from incast import analysis, planning


def test_the_papers_worked_example() -> None:
    assert analysis.timeout_probability(40, 4, 60) == pytest.approx(0.1526, abs=5e-5)
    assert analysis.incast_probability(40, 4, 60) == pytest.approx(0.9987, abs=5e-5)
    assert analysis.incast_probability(40, 2, 60) == pytest.approx(0.9243, abs=5e-5)
    assert analysis.incast_probability(20, 4, 60) == pytest.approx(0.0753, abs=5e-5)
    assert isinstance(analysis.incast_probability(20, 4, 60), float)


def test_arrays_go_together_as_in_numpy() -> None:
    flows = np.array([[40], [20]])
    found = analysis.incast_probability(flows, [4, 2], 60)
    assert isinstance(found, np.ndarray)
    assert found.shape == (2, 2)
    assert found[0] == pytest.approx([0.9987, 0.9243], abs=5e-5)
    assert analysis.slow_start_incast_probability([20, 32, 52], [32, 64, 128]) == pytest.approx(
        [0.9002, 0.8732, 0.8250], abs=5e-5
    )


def test_batch_sizes_are_those_of_the_papers_settings() -> None:
    assert analysis.ars_batch_size(1e9, 100e-6, 65536, 1024, 65536) == (3, 1)
    n_star, n_congested = analysis.ars_batch_size(1e8, 100e-6, 65536, 1024, np.array([131072, 51200, 12800, 5734]))
    assert np.array_equal(n_star, [2, 5, 17, 33])
    assert np.array_equal(n_congested, [1, 1, 1, 1])


def test_windows_are_counted_from_the_initial_one_where_that_is_asked_for() -> None:
    assert np.array_equal(analysis.largest_window([1, 2, 3, 7, 15, 31, 63, 64, 127, 128]),
                          [1, 1, 2, 4, 8, 16, 32, 32, 64, 64])  # fmt: skip
    assert np.array_equal(analysis.largest_window([60, 100, 126], initial_window=1), [29, 37, 63])
    assert analysis.largest_window(45, initial_window=10) == 20


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: analysis.incast_probability(-1, 4, 60), "flows"),
        (lambda: analysis.incast_probability(4, float("nan"), 60), "window_pkts"),
        (lambda: analysis.incast_probability(4, 4, "many"), "capacity_pkts"),
        (lambda: analysis.incast_probability([1, 2], [1, 2, 3], 60), "shapes"),
        (lambda: analysis.ars_batch_size(1e9, 1e-4, 65536, 0, 65536), "mss_bytes"),
        (lambda: analysis.ars_batch_size(1e9, -1e-4, 65536, 1024, 65536), "rtt_s"),
        (lambda: analysis.largest_window(10, initial_window=0), "initial_window"),
    ],
)
def test_what_makes_no_sense_is_named(call: object, said: str) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=said):
        call()


@pytest.mark.parametrize(
    ("rates", "elastic", "level", "each"),
    [
        ([], 4, 2.5, []),
        ([1, 1, 1], 2, 2.0, [2, 2, 2]),
        ([1, 2, 6], 1, 1.0, [1, 2, 6]),
        ([5, 5], 3, 0.0, [5, 5]),
        ([6, 3], 0, 4.0, [6, 4]),
        ([0.5, 1.5, 3, 3.5], 3, 0.5, [0.5, 1.5, 3, 3.5]),
    ],
)
def test_a_port_is_divided_as_dcmrg_does(rates: list[float], elastic: int, level: float, each: list[float]) -> None:
    found, divided = analysis.water_level(10e9, np.array(rates) * 1e9, elastic)
    assert found == pytest.approx(level * 1e9)
    assert divided == pytest.approx(np.array(each) * 1e9)


def test_more_than_the_port_is_refused() -> None:
    with pytest.raises(ValueError, match="exceeds the capacity"):
        analysis.water_level(10e9, [6e9, 5e9], 0)
    with pytest.raises(ValueError, match="elastic_flows"):
        analysis.water_level(10e9, [], -1)


def test_the_package_hands_it_out() -> None:
    assert package.analysis is analysis


PLAN = ("plan", "--rate", "10Gbps", "--buffer", "64KB", "--rtt", "100us", "--response", "64KB")


def test_a_plan_says_how_many_and_draws_the_risk(incast: Command, tmp_path: Path) -> None:
    done = incast(*PLAN)
    assert done.returncode == 0, done.stderr
    n_star, n_congested = analysis.ars_batch_size(10e9, 100e-6, 64e3, 1460, 64e3)
    assert f"Ask {n_star} workers at a time" in done.stdout
    assert f"ask {n_congested} workers (n_c)" in done.stdout
    picture = tmp_path / "out" / "plan" / "risk.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    rows = (tmp_path / "out" / "plan" / "risk.csv").read_text(encoding="utf-8").splitlines()
    assert rows[0] == "workers,risk_at_once,risk_in_batches"
    assert len(rows) == 101
    # The table in the terminal is the same as the file.
    shown = re.search(r"^50 +(\S+)", done.stdout, re.MULTILINE)
    assert shown
    assert float(shown[1]) == pytest.approx(float(rows[50].split(",")[1]), rel=0.01)


def test_a_plan_for_programs_has_the_numbers_and_their_units(incast: Command) -> None:
    done = incast(*PLAN, "--mss", "1460B", "--workers", "20", "--initial-window", "10", "--json")
    assert done.returncode == 0, done.stderr
    planned = json.loads(done.stdout)
    assert planned["window_pkts"] == 20
    assert (planned["n_star"], planned["n_congested"]) == (7, 5)
    # 64,000 bytes are two windows of 20 packets and a bit.
    assert planned["in_buffer"] == 2
    assert planned["capacity_pkts"] == pytest.approx((125_000 + 64_000) / 1460)
    assert [one["workers"] for one in planned["risk"]] == list(range(1, 21))
    # Six windows of 20 fit, seven do not.
    assert [one["at_once"] > 0 for one in planned["risk"][5:7]] == [False, True]


def plan_of(incast: Command, *options: str) -> dict[str, Any]:
    done = incast("plan", "--rate", "10Gbps", "--rtt", "100us", *options, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


SHARED = ("--memory", "12MB", "--response", "64KB")


def test_a_port_of_a_shared_memory_holds_its_share(incast: Command) -> None:
    assert plan_of(incast, *SHARED)["buffer_bytes"] == 6_000_000
    assert plan_of(incast, *SHARED, "--alpha", "8")["buffer_bytes"] == 10_666_666
    # Three ports keep three quarters, and a burst gets half of what is free.
    assert plan_of(incast, *SHARED, "--busy-ports", "3")["buffer_bytes"] == 1_500_000
    found = plan_of(incast, *SHARED)
    # 70 % of 6 MB are 65 responses of 64 KB: of 100 workers not all, of 60 all.
    assert (found["safe"], found["fan_in_fits"]) == (65, False)
    assert plan_of(incast, *SHARED, "--workers", "60")["fan_in_fits"]


def test_a_plan_says_what_it_assumes_of_a_shared_memory(incast: Command) -> None:
    path = ("plan", "--rate", "10Gbps", "--rtt", "100us", *SHARED)
    assert "4,200,000 B of payload without loss, if no other port is busy." in incast(*path).stdout
    one = incast(*path, "--busy-ports", "1").stdout
    assert "even if the busy port holds all it may and drains nothing meanwhile" in one
    three = incast(*path, "--busy-ports", "3").stdout
    assert "1,050,000 B of payload without loss,\n  even if the 3 busy ports hold all they may and drain" in three
    assert "44,800 B of payload without loss.\n" in incast(*PLAN).stdout


def test_a_shared_memory_takes_what_a_plan_says() -> None:
    more: dict[str, list[float]] = {"newreno": [], "newreno to alpha 1": [], "dctcp": []}
    with (Path(__file__).parents[1] / "studies/shared-buffer/tolerance.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            alpha, busy, taken = float(row["alpha"]), int(row["congested_ports"]), int(row["senders_taken"])
            network = planning.Network.read(
                rate="10Gbps", rtt="8us", response="14480B", mss="1448B", memory="2MB", alpha=alpha, busy_ports=busy
            )
            safe = planning.plan(network, 200).safe
            assert safe <= taken, row
            if alpha == 8 and busy in (1, 4) and row["background"] == "newreno":
                assert (safe, taken) == {1: (9, 16), 4: (2, 10)}[busy]
            # On the wire a sender's burst is ten packets of 1,500 bytes.
            ratio = taken * 15_000 / network.buffer_bytes
            assert ratio > 1, row
            if busy:
                more[row["background"]].append(ratio)
                if alpha <= 1 and row["background"] == "newreno":
                    more["newreno to alpha 1"].append(ratio)
    # The page on plans quotes these.
    found = {name: (round(min(ratios), 1), round(max(ratios), 1)) for name, ratios in more.items()}
    assert found == {"newreno": (1.1, 5.5), "newreno to alpha 1": (1.1, 2.1), "dctcp": (1.1, 41.1)}


def test_a_plan_says_where_n_star_is_unsafe(incast: Command) -> None:
    small = ("--buffer", "64KB", "--response", "16KB", "--mss", "1448B")
    kept, fresh = plan_of(incast, *small), plan_of(incast, *small, "--windows", "fresh")
    # 16,000 bytes in one burst; or ten packets of 1448 first.
    assert (kept["burst_bytes"], kept["safe"]) == (16_000, 2)
    assert (fresh["burst_bytes"], fresh["safe"]) == (14_480, 3)
    assert kept["n_star"] > 3
    assert not kept["n_star_is_safe"]
    assert (kept["budget_bytes"], kept["limited_window_bytes"]) == (44_800, 5792)
    said = incast(*PLAN, "--mss", "1448B").stdout
    assert "the ARS paper (equation 7), which is unsafe with the TCP of Linux (see below):" in said
    assert "to avoid losses" not in said
    assert "n* is unsafe there" in said
    assert "even one response may overflow the port" in said
    assert "With windows limited to 5,792 B ask 7 workers at once" in said
    fits = incast("plan", "--rate", "10Gbps", "--rtt", "100us", "--buffer", "1MB", "--response", "2KB").stdout
    assert "fan-in is not what makes them slow" in fits
    assert "(equation 7):" in fits


def test_a_response_smaller_than_a_window_costs_no_more_than_itself(incast: Command) -> None:
    small = ("--buffer", "64KB", "--response", "1KB")
    found = plan_of(incast, *small)
    # As many as `credit` lets go; each takes a round trip of 100 us.
    assert (found["safe"], found["limited_at_once"]) == (44, 44)
    assert found["limited_goodput_bps"] == pytest.approx(44 * 8000 / 100e-6)
    said = incast("plan", "--rate", "10Gbps", "--rtt", "100us", *small).stdout
    assert "ask 44 workers.\n  Ask one more with each\n" in said
    assert "at most 3.52 Gbit/s of 10 Gbit/s" in said


def test_a_burst_is_no_larger_than_a_receive_window(incast: Command) -> None:
    large = ("--buffer", "64KB", "--response", "1GB")
    assert plan_of(incast, *large)["burst_bytes"] == 6 << 20
    said = incast("plan", "--rate", "10Gbps", "--rtt", "100us", *large).stdout
    assert "send up to 6,291,456 B of a response at once,\n  as receive windows allow no more," in said
    # It cannot be both more than fits and safe.
    assert "Even one of the largest windows exceeds" in said
    assert "is safe" not in said
    assert "as receive windows" not in incast(*PLAN).stdout


def test_a_plan_says_where_no_window_is_small_enough(incast: Command) -> None:
    tiny = ("--response", "64KB", "--mss", "1448B")
    # 70 % of 8 KB are 5,600 bytes, less than four packets; of 9 KB they are more.
    for buffer, safe in [("8KB", False), ("9KB", True)]:
        assert plan_of(incast, *tiny, "--buffer", buffer)["limited_is_safe"] == safe
        said = incast("plan", "--rate", "10Gbps", "--rtt", "100us", *tiny, "--buffer", buffer).stdout
        warning = "Ask one worker at a time, with windows limited to 5,792 B. Even that may overflow the port"
        assert (warning in said) != safe
        assert ("the library incast-requests" in said) == safe


def test_a_plan_says_what_workers_that_think_leave_of_the_rate(incast: Command) -> None:
    path = ("plan", "--rate", "100Mbps", "--rtt", "250us", "--buffer", "64KB", "--mss", "1448B")
    small = (*path, "--response", "8KB", "--think", "10ms")
    found = json.loads(incast(*small, "--json").stdout)
    # 44,800 B hold seven windows of 5,792 B; a response is two of them, and takes 10 ms and two round trips.
    assert (found["think_s"], found["limited_at_once"]) == (0.01, 7)
    assert found["limited_goodput_bps"] == pytest.approx(7 * 64_000 / 0.0105)
    said = incast(*small).stdout
    assert "at most 42.67 Mbit/s of 100 Mbit/s: each thinks for 10 ms and sends" in said
    assert "If you tell it how long they think, it need not find out" in said
    # Without that, a window takes a round trip alone: the link is full, unless it is a hundred times as fast.
    large = (*path, "--response", "64KB")
    assert json.loads(incast(*large, "--json").stdout)["limited_goodput_bps"] == 100e6
    assert "That brings at most" not in incast(*large).stdout
    said = incast(*PLAN, "--mss", "1448B").stdout
    assert "2.987 Gbit/s of 10 Gbit/s: each sends a window per round trip" in said
    assert "need not find out" not in said


def test_a_deep_buffer_is_no_reason_to_wait_for_a_timeout(incast: Command) -> None:
    done = incast("plan", "--rate", "100Mbps", "--rtt", "100us", "--buffer", "1GB", "--response", "64KB", "--json")
    assert json.loads(done.stdout)["budget_bytes"] == 1_250_000


def test_a_plan_needs_one_buffer(incast: Command) -> None:
    path = ("plan", "--rate", "10Gbps", "--rtt", "100us", "--response", "64KB")
    for options, said in [
        ((), "--buffer, --memory: found neither"),
        (("--buffer", "1MB", "--memory", "1MB"), "found both"),
        (("--memory", "1MB", "--alpha", "0"), "--alpha 0: expected more than 0"),
        (("--memory", "1MB", "--busy-ports", "-1"), "--busy-ports -1: expected 0 to 10000"),
        (("--memory", "1MB", "--alpha", "1e-12"), "1e-12, --busy-ports 0: the port holds 0 B, expected room"),
        (("--buffer", "1KB", "--mss", "1448B"), "--buffer 1KB: the port holds 1,000 B, expected room for a packet of"),
        (("--buffer", "0B"), "--buffer 0B: must be greater than zero"),
        (("--buffer", "1MB", "--alpha", "8"), "--alpha 8: expected only with --memory, found --buffer"),
        (("--buffer", "1MB", "--busy-ports", "3"), "--busy-ports 3: expected only with --memory, found --buffer"),
    ]:
        done = incast(*path, *options)
        assert done.returncode == 2
        assert said in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("--rate", "10Gbs"), "Gbps"),
        (("--rtt", "100"), "--rtt"),
        (("--response", "0B"), "--response"),
        (("--think", "3"), "--think"),
        (("--workers", "0"), "--workers"),
        (("--workers", "1000000"), "--workers"),
        (("--initial-window", "0"), "--initial-window"),
        (("--initial-window", "18446744073709551616"), "18446744073709551616: expected 1 to 1073741824 packets"),
    ],
)
def test_a_plan_that_cannot_be_meant_is_refused(incast: Command, change: tuple[str, str], said: str) -> None:
    given = dict(zip(PLAN[1::2], PLAN[2::2], strict=True)) | {change[0]: change[1]}
    done = incast("plan", *(word for option in given.items() for word in option))
    assert done.returncode == 2
    assert done.stdout == ""
    assert said in done.stderr
    assert "Traceback" not in done.stderr
