"""The cost of a study, estimated before it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from incast import pilot, scenarios, text
from incast.studies import plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from incast._native import Checked
    from incast.studies.plan import Row
    from incast.studies.study import Study
    from incast.studies.table import Table

# Estimates on one core of a cloud machine: to set up, write and measure a run; and a packet-hop of a run that
# was finished, when nobody knows any more what it was.
RUN_S = 8e-3
PACKET_HOP_S = 0.08e-6
# Studies that seem to take longer are compared with pilots.
_LONG_S = 5.0


@dataclass(frozen=True)
class Cost:
    """The cost, either estimated or recorded in a table."""

    runs: int
    packet_hops: int
    cpu_minutes: float
    memory_bytes: int | None
    """What one run takes at most, by the plans; `None` if they were not asked."""
    was_measured: bool

    def line(self) -> str:
        """Say it in words."""
        if not self.runs:
            return "formulas, no runs"
        source = "measured" if self.was_measured else "estimated"
        said = [f"{self.runs:,} runs", f"{self.packet_hops / 1e6:,.1f} million packet-hops"]
        if self.memory_bytes is not None:
            said.append(f"up to {pilot.memory(self.memory_bytes)} of memory each")
        said.append(f"{text.duration(self.cpu_minutes * 60)} of one core ({source})")
        return ", ".join(said)

    def as_json(self) -> dict[str, int | float | bool | None]:
        """Say it for other programs."""
        return {
            "runs": self.runs,
            "packet_hops": self.packet_hops,
            "cpu_minutes": self.cpu_minutes,
            "memory_bytes": self.memory_bytes,
            "was_measured": self.was_measured,
        }


def of(study: Study, known: Table | None, *, trusting: bool = False, checked: Sequence[Checked] | None = None) -> Cost:
    """Return the cost of a whole study; `trusting` skips the check of its points if the cost was measured, and pilots.

    The check is not done again if what it found is given.

    Raises:
        ScenarioError: a point of it cannot be run.

    """
    measured = known is not None and known.cpu_minutes is not None
    points = checked if checked is not None else [] if trusting and measured else plan.check(study)
    runs = len(plan.distinct(study)) * study.seeds if study.scenario else 0
    memory = _most(point["memory_bytes"] for point in points)
    if known and known.cpu_minutes is not None:
        return Cost(runs, known.packet_hops, known.cpu_minutes, memory, was_measured=True)
    hops = sum(point["packet_hops"] for point in points) * study.seeds
    seconds = sum(point["seconds"] for point in points) * study.seeds
    if seconds >= _LONG_S and not trusting:
        shown = _correction(study, points)
        hops = round(hops * shown.packet_hops)
        seconds *= shown.seconds
    return Cost(runs, hops, (runs * RUN_S + seconds) / 60, memory, was_measured=False)


def _correction(study: Study, points: Sequence[Checked]) -> pilot.Correction:
    """Hold what the plans of some points say against their pilots: a quick one, the middle one and the slowest."""
    if study.scenario is None:
        return pilot.Correction(1.0, 1.0)
    source = scenarios.read(study.scenario)
    ranked = sorted(zip(plan.distinct(study), points, strict=True), key=lambda pair: pair[1]["seconds"])
    chosen = [ranked[len(ranked) // 4], ranked[len(ranked) // 2], ranked[-1]]
    return pilot.correction(
        (source, scenarios.overrides(plan.own_changes(study, point)), checked)
        for point, checked in chosen
        if not point.curve.world
    )


def by_run(study: Study, rows: Sequence[Row], checked: Sequence[Checked]) -> dict[str, float]:
    """Return what each run takes in seconds of one core, as its plan says, by its key: the same on any machine."""
    seconds = {
        plan.identity(point): found["seconds"] for point, found in zip(plan.distinct(study), checked, strict=True)
    }
    return {row.task.key: RUN_S + seconds[plan.identity(row.point)] for row in rows if row.task}


def total(costs: Sequence[Cost]) -> Cost:
    """Add up costs; memory is that of the largest run."""
    return Cost(
        sum(cost.runs for cost in costs),
        sum(cost.packet_hops for cost in costs),
        sum(cost.cpu_minutes for cost in costs),
        _most(cost.memory_bytes for cost in costs),
        was_measured=all(cost.was_measured for cost in costs),
    )


def _most(bytes_: Iterable[int | None]) -> int | None:
    """Return the most of what is known."""
    return max((some for some in bytes_ if some is not None), default=None)
