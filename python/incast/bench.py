"""Measures the speed of the simulator. Every case runs in its own process, so that peak memory is measured per case."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Literal, NamedTuple

from incast import text
from incast._native import RunError, ScenarioError

Driver = Literal["sweep", "event-loop"]
# Only the native module: the memory of Python and its libraries would hide that of a run.
_CHILD = (
    "import sys; from incast._native import bench_leaf_spine as b; "
    "print(b(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))"
)


class Case(NamedTuple):
    """One workload."""

    name: str
    flows: int
    hosts_factor: int
    driver: Driver


def best(case: Case, repeat: int) -> dict[str, Any]:
    """Run a case `repeat` times and return the fastest run.

    Raises:
        ScenarioError: `repeat` or the number of flows is out of range.
        RunError: a run failed.

    """
    _check(case.flows, repeat)
    runs = [_once(case) for _ in range(repeat)]
    fastest = min(runs, key=lambda measured: float(measured["wall_s"]))
    return {**fastest, "best_of": repeat, "driver": case.driver, "flows": case.flows}


def table(flows: int, repeat: int) -> None:
    """Print a table for both drivers, each row as soon as it is measured."""
    _check(10 * flows, repeat)
    head = ("driver", "work", "packet-hops", "wall s", "M hops/s", "ns/hop", "peak MB")
    widths = (10, 10, 13, 8, 9, 8, 8)
    _line(head, widths)
    drivers: tuple[Driver, ...] = ("sweep", "event-loop")
    for driver in drivers:
        for case in (
            Case("base", flows, 1, driver),
            Case("10x flows", 10 * flows, 1, driver),
            Case("4x hosts", flows, 4, driver),
        ):
            measured = best(case, repeat if case.name == "base" else 1)
            _line(
                (
                    driver,
                    case.name,
                    f"{measured['packet_hops']:,}",
                    f"{measured['wall_s']:.2f}",
                    f"{measured['packet_hops_per_s'] / 1e6:.1f}",
                    f"{measured['ns_per_hop']:.1f}",
                    f"{measured['peak_rss_mb']:.1f}",
                ),
                widths,
            )
            if case.name == "base":
                base = measured
    print(
        f"\n{flows:,} flows on 400 hosts, DCTCP; a packet-hop is the transmission of one packet on one link.\n"
        f"Short flows: FCT p50 {text.seconds(base['short_fct_p50_s'])}, p99 {text.seconds(base['short_fct_p99_s'])}. "
        f"The base case is the fastest of {repeat} runs."
    )


def _check(flows: int, repeat: int) -> None:
    if not 1 <= flows < 2**32 or repeat < 1:
        raise ScenarioError("--flows and --repeat must be at least 1, and ten times --flows less than 2^32")


def _once(case: Case) -> dict[str, Any]:
    arguments = [str(case.flows), str(case.hosts_factor), case.driver]
    child = subprocess.run([sys.executable, "-c", _CHILD, *arguments], capture_output=True, text=True, check=False)
    if child.returncode != 0:
        last = child.stderr.strip().splitlines()[-1:] or [f"exit code {child.returncode}"]
        raise RunError(f"the benchmark failed: {last[0]}")
    measured: dict[str, Any] = json.loads(child.stdout)
    return measured


def _line(cells: tuple[str, ...], widths: tuple[int, ...]) -> None:
    padded = [
        cell.rjust(width) if i > 1 else cell.ljust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    print("  ".join(padded), flush=True)
