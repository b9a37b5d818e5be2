"""Runs points on both sides, two processes at a time, and compares them."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import incast

from side_by_side import flows, ns3, ours
from side_by_side.agreement import Comparison, compare

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from side_by_side.ns3 import Ns3
    from side_by_side.protocol import Point, Protocol, Variant

Job = TypeVar("Job")
Found = TypeVar("Found")

PROCESSES = 2
_REPORT_EVERY_S = 20.0


@dataclass
class Outcome:
    """A point on both sides."""

    point: Point
    ours: list[dict[str, float] | None] = field(default_factory=list)
    """By seed; `None` where a run failed or did not complete."""
    ns3: list[dict[str, float] | None] = field(default_factory=list)
    comparisons: dict[str, Comparison] = field(default_factory=dict)


def run(
    protocol: Protocol, points: Sequence[Point], side: Ns3, *, tcp: Mapping[str, object] | None = None
) -> list[Outcome]:
    """Run points with all seeds on both sides.

    Args:
        protocol: what to measure and how to compare.
        points: what to run.
        side: ns-3.
        tcp: keys of `[tcp]` on our side, beyond those of the variants.

    """
    lists: dict[tuple[int, int, int], str] = {}
    for point in points:
        for seed in protocol.seeds:
            if (key := (point.senders, point.size_bytes, seed)) not in lists:
                lists[key] = flows.incast_flows(protocol, point, seed)

    def one(job: tuple[Point, int]) -> tuple[dict[str, float] | None, dict[str, float] | None]:
        point, seed = job
        variant = protocol.variants[point.variant]
        text = lists[point.senders, point.size_bytes, seed]
        file = flows.keep(text, side.out / "flows" / f"incast-{point.senders}-{point.size_bytes}-{seed}.txt")
        scenario = ours.incast_scenario(protocol, point, file, {**dict(variant.ours), **(tcp or {})})
        result = side.run(text, ns3.incast_arguments(protocol, point, variant))
        return ours.incast_metrics(incast.run(scenario, seed=seed)), ns3.incast_metrics(text, result)

    jobs = [(point, seed) for point in points for seed in protocol.seeds]
    results = in_parallel(jobs, one)
    outcomes = [Outcome(point) for point in points]
    for index, (mine, other) in enumerate(results):
        outcomes[index // len(protocol.seeds)].ours.append(mine)
        outcomes[index // len(protocol.seeds)].ns3.append(other)
    for outcome in outcomes:
        _compare(protocol, outcome)
    return outcomes


def known_variants(protocol: Protocol, folder: Path) -> list[str]:
    """Return the variants of loss recovery that this build of the simulator has."""
    return [name for name, variant in protocol.variants.items() if _knows(protocol, variant, folder)]


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


def _compare(protocol: Protocol, outcome: Outcome) -> None:
    pairs = [
        (mine, other)
        for mine, other in zip(outcome.ours, outcome.ns3, strict=True)
        if mine is not None and other is not None
    ]
    if len(pairs) < len(outcome.ours):
        return
    for name, tolerance in protocol.metrics.items():
        found = compare(
            [mine[name] for mine, _ in pairs], [other[name] for _, other in pairs], tolerance, protocol.standard_errors
        )
        if found is not None:
            outcome.comparisons[name] = found


def _knows(protocol: Protocol, variant: Variant, folder: Path) -> bool:
    point = protocol.sweep_points([variant.name])[0]
    file = flows.keep("1\n1 0 3 5000 1000 0.01\n", folder / "flows" / "one.txt")
    try:
        incast.check(ours.incast_scenario(protocol, point, file, dict(variant.ours)))
    except incast.ScenarioError as error:
        if any(f"{key}" in str(error) for key, _ in variant.ours):
            return False
        raise
    return True
