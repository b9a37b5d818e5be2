"""Runs points on both sides, two processes at a time, and compares them."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import incast
from side_by_side import flows, ns3, ours
from side_by_side.agreement import Comparison, compare

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from side_by_side.ns3 import Ns3
    from side_by_side.protocol import Point, Protocol, Tolerance

Metrics: TypeAlias = dict[str, float] | None
"""Of a run; `None` where it failed or did not complete."""
Job = TypeVar("Job")
Found = TypeVar("Found")

PROCESSES = 2
_REPORT_EVERY_S = 20.0
_SAME_S = 1e-9


@dataclass
class Outcome:
    """A point on both sides."""

    point: Point
    ours: list[Metrics] = field(default_factory=list)
    """By seed."""
    ns3: list[Metrics] = field(default_factory=list)
    comparisons: dict[str, Comparison] = field(default_factory=dict)
    equal: list[float] = field(default_factory=list)
    """By seed: the share of flows whose completion times are the same to a nanosecond."""


def run(
    protocol: Protocol, points: Sequence[Point], side: Ns3, tcp: Callable[[Point], Mapping[str, object]]
) -> list[Outcome]:
    """Run points with all seeds on both sides.

    Args:
        protocol: what to measure and how to compare.
        points: what to run.
        side: ns-3.
        tcp: keys of `[tcp]` on our side.

    """
    lists: dict[tuple[int, int, int], str] = {}
    for point in points:
        for seed in protocol.seeds:
            if (key := (point.senders, point.size_bytes, seed)) not in lists:
                lists[key] = flows.incast_flows(protocol, point, seed)

    def one(job: tuple[Point, int]) -> tuple[Metrics, Metrics, float]:
        point, seed = job
        text = lists[point.senders, point.size_bytes, seed]
        file = flows.keep(text, side.out / "flows" / f"incast-{point.senders}-{point.size_bytes}-{seed}.txt")
        scenario = ours.incast_scenario(protocol, point, file, tcp(point))
        theirs = side.run(text, ns3.incast_arguments(protocol, point, protocol.variants[point.variant]))
        mine = incast.run(scenario, seed=seed)
        metrics = ours.incast_metrics(mine), ns3.incast_metrics(text, theirs)
        equal = 0.0 if None in metrics else equal_share(ours.completion_times(mine), ns3.completion_times(theirs))
        return *metrics, equal

    jobs = [(point, seed) for point in points for seed in protocol.seeds]
    results = in_parallel(jobs, one)
    outcomes = [Outcome(point) for point in points]
    for index, (mine, theirs, equal) in enumerate(results):
        outcome = outcomes[index // len(protocol.seeds)]
        outcome.ours.append(mine)
        outcome.ns3.append(theirs)
        outcome.equal.append(equal)
    for outcome in outcomes:
        outcome.comparisons = compared(outcome.ours, outcome.ns3, protocol.metrics, protocol.standard_errors)
    return outcomes


def equal_share(ours: Sequence[float], ns3: Sequence[float]) -> float:
    """Return the share of flows whose completion times are the same to a nanosecond."""
    return sum(abs(a - b) <= _SAME_S for a, b in zip(ours, ns3, strict=True)) / len(ours)


def compared(
    ours: Sequence[Metrics], ns3: Sequence[Metrics], metrics: Mapping[str, Tolerance], standard_errors: float
) -> dict[str, Comparison]:
    """Compare all metrics of runs paired by seed; nothing if a run has no result."""
    mine = [run for run in ours if run is not None]
    others = [run for run in ns3 if run is not None]
    if len(mine) < len(ours) or len(others) < len(ns3):
        return {}
    found = {
        name: compare([run[name] for run in mine], [run[name] for run in others], tolerance, standard_errors)
        for name, tolerance in metrics.items()
    }
    return {name: comparison for name, comparison in found.items() if comparison is not None}


def in_parallel(jobs: Sequence[Job], one: Callable[[Job], Found], processes: int = PROCESSES) -> list[Found]:
    """Apply `one` to all jobs, some at a time, and say now and then how far it is."""
    started = said = time.monotonic()
    with ThreadPoolExecutor(processes, thread_name_prefix="side-by-side") as pool:
        futures = [pool.submit(one, job) for job in jobs]
        try:
            for done, future in enumerate(as_completed(futures), 1):
                future.result()
                if time.monotonic() - said > _REPORT_EVERY_S:
                    said = time.monotonic()
                    left = (said - started) / done * (len(jobs) - done)
                    print(f"  {done} of {len(jobs)} runs, {left:.0f} s left", file=sys.stderr, flush=True)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return [future.result() for future in futures]
