"""Rankings: what it costs to take the same curve at every point, and which is best among those that one may deploy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from incast.studies import claims

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from incast.studies.expressions import Numbers
    from incast.studies.study import Curve, Ranking, Study
    from incast.studies.table import Table


@dataclass(frozen=True)
class Group:
    """Points that have the same parameters."""

    name: str
    points: tuple[int, ...]


@dataclass(frozen=True)
class Ranked:
    """One curve: its number over that of the best at each point."""

    curve: Curve
    index: int
    """In the order of the study."""
    mean: float
    """The geometric mean over points: infinite if the best is 0 where this curve is not, `nan` if one is unknown."""
    low: float | None
    high: float | None
    """Ends of the 95 % bootstrap interval over the points."""
    arithmetic: float
    worst: float
    beside: tuple[float, ...]
    """Geometric means of the other metrics that are ranked."""
    groups: tuple[float, ...]
    """Geometric means over each group of points."""
    means: tuple[float, ...]
    """Plain means of further metrics over the points that have them; `nan` if none does."""


@dataclass(frozen=True)
class Best:
    """The best curve of some over some points."""

    curve: int
    mean: float
    worst: float


@dataclass(frozen=True)
class Allowed:
    """What may be changed, and what is best then: at all points, and over each group of the columns of the map."""

    needs: tuple[str, ...]
    best: Best
    by_column: tuple[Best | None, ...]


@dataclass(frozen=True)
class Further:
    """A metric beside the one that curves are ranked by."""

    name: str
    values: Numbers
    """Of each curve at each point, the mean over seeds."""
    ratios: Numbers | None
    """Over the best at the point; nothing if the metric is not ranked."""
    best: NDArray[np.intp] | None
    """At each point the best curve, if it is ranked."""


@dataclass(frozen=True)
class Chart:
    """One panel."""

    study: Study
    panel: Ranking
    values: Numbers
    """Of each curve at each point, the mean over seeds."""
    ratios: Numbers
    """Over the best at the point: 1 or more."""
    best: NDArray[np.intp]
    """At each point the best curve."""
    further: tuple[Further, ...]
    """The other metrics: those that are ranked, then those of which there are means."""
    ranked: tuple[Ranked, ...]
    """The best first."""
    groups: tuple[Group, ...]
    rows: tuple[str, ...]
    columns: tuple[Group, ...]
    cells: tuple[tuple[Group, ...], ...]
    """By row and column of the map."""

    def best_of(self, curves: list[int], points: tuple[int, ...]) -> Best | None:
        """Return the best of some curves over some points; nothing without points or numbers."""
        if not points or not curves:
            return None
        means = np.array([_geometric(self.ratios[curve, list(points)]) for curve in curves])
        if np.isnan(means).all():
            return None
        found = int(np.nanargmin(means))
        return Best(curves[found], float(means[found]), float(self.ratios[curves[found], list(points)].max()))

    def deployable(self, needs: tuple[str, ...]) -> list[int]:
        """Return the curves that need no more than some changes."""
        return [index for index, curve in enumerate(self.study.curves) if set(curve.needs) <= set(needs)]

    @property
    def allowed(self) -> list[Allowed]:
        """For each set of changes that a curve needs the best; without sets that are no better than a smaller one."""
        sets = sorted(
            {tuple(sorted(curve.needs)) for curve in self.study.curves}, key=lambda needs: (len(needs), needs)
        )
        found: list[Allowed] = []
        everywhere = tuple(range(len(self.study.grid())))
        for needs in sets:
            curves = self.deployable(needs)
            best = self.best_of(curves, everywhere)
            if best is None:
                continue
            one = Allowed(needs, best, tuple(self.best_of(curves, column.points) for column in self.columns))
            smaller = [other for other in found if set(other.needs) < set(needs)]
            if not any((other.best, other.by_column) == (one.best, one.by_column) for other in smaller):
                found.append(one)
        return found


def of_panel(study: Study, panel: Ranking, numbers: Table) -> Chart:
    """Rank the curves of a study by their means over seeds."""
    values = _means(study, numbers, panel.metric)
    ratios = _ratios(values, is_lowest=panel.is_lowest)
    others: list[Numbers] = []
    beside = []
    for name, is_lowest in panel.beside.items():
        of_metric = _means(study, numbers, name)
        others.append(_ratios(of_metric, is_lowest=is_lowest))
        beside.append(Further(name, of_metric, others[-1], _best_at(others[-1])))
    means = [Further(name, _means(study, numbers, name), None, None) for name in panel.means]
    told = study.parameters()
    by = {name: _values_of(told, name) for name in (*panel.by, *(panel.map or ()))}
    groups = tuple(
        Group(value, tuple(index for index, one in enumerate(told) if str(one[name]) == value))
        for name in panel.by
        for value in by[name]
    )
    seeds = claims.resampled(ratios.shape[1])[1:]
    plain = [one.values for one in means]
    ranked = [_ranked(curve, index, ratios, others, plain, groups, seeds) for index, curve in enumerate(study.curves)]
    ranked.sort(key=lambda one: (np.isnan(one.mean), one.mean))
    rows: tuple[str, ...] = ()
    columns: tuple[Group, ...] = ()
    cells: tuple[tuple[Group, ...], ...] = ()
    if panel.map:
        row, column = panel.map
        rows = tuple(by[row])
        columns = tuple(
            Group(name, tuple(index for index, one in enumerate(told) if str(one[column]) == name))
            for name in by[column]
        )
        cells = tuple(
            tuple(
                Group(f"{name}, {group.name}", tuple(i for i in group.points if str(told[i][row]) == name))
                for group in columns
            )
            for name in rows
        )
    further = (*beside, *means)
    best = _best_at(ratios)
    return Chart(study, panel, values, ratios, best, further, tuple(ranked), groups, rows, columns, cells)


def _ranked(
    curve: Curve,
    index: int,
    ratios: Numbers,
    others: list[Numbers],
    further: list[Numbers],
    groups: tuple[Group, ...],
    resampled: NDArray[np.intp],
) -> Ranked:
    own = ratios[index]
    low, high = None, None
    if np.isfinite(own).all() and len(resampled):
        low, high = claims.interval(np.exp(np.log(own)[resampled].mean(axis=1)))
    return Ranked(
        curve, index, _geometric(own), low, high, float(own.mean()), float(own.max()),
        tuple(_geometric(other[index]) for other in others),
        tuple(_geometric(own[list(group.points)]) for group in groups),
        tuple(_mean_of_known(numbers[index]) for numbers in further),
    )  # fmt: skip


def _means(study: Study, numbers: Table, metric: str) -> Numbers:
    """Return a metric of each curve at each point: its mean over seeds, summed one by one."""
    by_curve = numbers.numbers(study, metric)
    return np.array([by_curve[curve.name].sum(axis=0) / study.seeds for curve in study.curves])


def _ratios(values: Numbers, *, is_lowest: bool) -> Numbers:
    """Return at each point every number over the best, or, if the highest is, the best over every number."""
    with np.errstate(all="ignore"):
        known = np.where(np.isnan(values), np.inf if is_lowest else -np.inf, values)
        best = known.min(axis=0) if is_lowest else known.max(axis=0)
        found: Numbers = values / best if is_lowest else best / values
        return np.where(values == best, 1.0, found)


def _best_at(ratios: Numbers) -> NDArray[np.intp]:
    found: NDArray[np.intp] = np.argmin(np.where(np.isnan(ratios), np.inf, ratios), axis=0)
    return found


def _geometric(ratios: Numbers) -> float:
    with np.errstate(all="ignore"):
        return float(np.exp(np.log(ratios).mean()))


def _mean_of_known(values: Numbers) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _values_of(told: list[dict[str, object]], name: str) -> list[str]:
    """Return the values of a parameter in the order in which they come."""
    return list(dict.fromkeys(str(one[name]) for one in told))
