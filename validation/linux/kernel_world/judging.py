"""When Linux and the simulator agree, by the rules in `tolerances.toml`."""

from __future__ import annotations

import csv
import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from incast.estimates import Estimate, estimate
from side_by_side.agreement import Tolerance, mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from incast.studies.study import Value
    from side_by_side.campaign import Campaign

_FILE = Path(__file__).resolve().parents[1] / "tolerances.toml"
LINUX, OURS = "linux", "ours"
Told = tuple[float, float, float]
"""Mean, least and greatest over the repetitions of a metric at a point."""


@dataclass(frozen=True)
class Rules:
    """The file `tolerances.toml`."""

    metrics: dict[str, Tolerance]
    factor: float
    floor: float


def read(file: Path = _FILE) -> Rules:
    """Read what counts as agreement."""
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    metrics = {name: Tolerance(**entry) for name, entry in document["metrics"].items()}
    return Rules(metrics, document["ratio"]["factor"], document["ratio"]["floor"])


@dataclass(frozen=True)
class Verdict:
    """One metric at one point."""

    ours: Estimate
    linux: Told
    allowed: tuple[float, float]
    """Linux's range, widened."""

    @property
    def agrees(self) -> bool:
        """Whether the interval of our mean meets the widened range."""
        return self.ours.low <= self.allowed[1] and self.ours.high >= self.allowed[0]

    @property
    def inside(self) -> bool:
        """Whether our mean lies in Linux's range as it is."""
        return self.linux[1] <= self.ours.mean <= self.linux[2]

    @property
    def ratio(self) -> float:
        """Ours over Linux's mean; `inf` or `nan` where Linux has none."""
        if self.linux[0] == 0:
            return math.nan if self.ours.mean == 0 else math.inf
        return self.ours.mean / self.linux[0]


def judge(ours: Sequence[float], linux: Sequence[float], tolerance: Tolerance) -> Verdict | None:
    """Compare a metric at a point; `None` if a run has no value, or if neither side has any of it."""
    if not linux or not all(map(math.isfinite, linux)):
        return None
    return judge_told(ours, (mean(linux), min(linux), max(linux)), tolerance)


def judge_told(ours: Sequence[float], linux: Told, tolerance: Tolerance) -> Verdict | None:
    """Compare a metric at a point with what is known of Linux's repetitions."""
    middle, low, high = linux
    if not ours or not all(map(math.isfinite, ours)) or max(*ours, high) == 0:
        return None
    more = max(tolerance.relative * abs(middle), tolerance.absolute)
    return Verdict(estimate(ours), linux, (low - more, high + more))


@dataclass(frozen=True)
class Place:
    """A point of a study and its verdicts."""

    at: Mapping[str, Value]
    verdicts: dict[str, Verdict]


Known = dict[tuple[str, ...], Told]
"""What a table of points says of Linux, by the point's values and the metric."""


def known(file: Path, axes: Sequence[str]) -> Known:
    """Read Linux's side of a table that `report.write_points` wrote.

    Raises:
        SystemExit: there is none, or it is of a study with other axes.

    """
    if not file.exists():
        raise SystemExit(f"error: {file}: missing; without --keep-linux it is measured")
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    if missing := {*axes, "metric"} - set(rows[0] if rows else ()):
        raise SystemExit(f"error: {file}: no column {', '.join(sorted(missing))}; without --keep-linux it is measured")
    return {
        (*(row[axis] for axis in axes), row["metric"]): (
            float(row["linux_mean"]),
            float(row["linux_min"]),
            float(row["linux_max"]),
        )
        for row in rows
    }


def places(campaign: Campaign, rules: Rules, kept: Known | None = None) -> list[Place]:
    """Judge all points of a study, with what is known of Linux or what was measured.

    Raises:
        SystemExit: a message did not arrive, so that there is nothing to judge, or nothing is known of a point.

    """
    study = campaign.study
    sides = (OURS, LINUX) if kept is None else (OURS,)
    numbers = {metric.name: campaign.table.numbers(study, metric.name) for metric in study.metrics}
    found = []
    for index, point in enumerate(study.grid()):
        at = dict(zip([axis.name for axis in study.axes], point, strict=True))
        if any(numbers["complete"][side][:, index].min() != 1 for side in sides):
            raise SystemExit(f"error: not every message arrived at {at}")
        judged = {}
        for name, tolerance in rules.metrics.items():
            ours, *linux = (numbers[name][side][:, index].tolist() for side in sides)
            if kept is None:
                judged[name] = judge(ours, linux[0], tolerance)
            else:
                judged[name] = judge_told(ours, _told(kept, at, name), tolerance)
        found.append(Place(at, {name: one for name, one in judged.items() if one is not None}))
    return found


def _told(kept: Known, at: Mapping[str, Value], metric: str) -> Told:
    point = tuple(map(str, at.values()))
    if (*point, "goodput_bps") not in kept:
        raise SystemExit(f"error: nothing is known of Linux at {dict(at)}; without --keep-linux it is measured")
    # Where neither side had any of it, the table has no row.
    return kept.get((*point, metric), (0.0, 0.0, 0.0))


@dataclass(frozen=True)
class Shared:
    """What the points of a study have in common, for one metric."""

    points: int
    agree: int
    inside: int
    ratio: float | None
    """The geometric mean of ours over Linux's, where both have enough to tell."""
    told: int
    """From how many points."""
    near: int
    """At how many of those the ratio is within the factor of the rules."""


def shared(of: Sequence[Place], metric: str, rules: Rules) -> Shared:
    """Say how often a metric agrees, and what the points share."""
    found = [place.verdicts[metric] for place in of if metric in place.verdicts]
    floor = rules.floor if rules.metrics[metric].unit in {"packets", ""} else 0.0
    ratios = [one.ratio for one in found if min(one.ours.mean, one.linux[0]) > floor]
    middle = math.exp(mean([math.log(ratio) for ratio in ratios])) if ratios else None
    near = sum(1 / rules.factor <= ratio <= rules.factor for ratio in ratios)
    agree, inside = sum(one.agrees for one in found), sum(one.inside for one in found)
    return Shared(len(found), agree, inside, middle, len(ratios), near)
