"""The content of a figure, apart from how it is drawn: `pictures` draws it, and `page_charts` for the page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from incast.estimates import estimate
from incast.figures import thinned
from incast.studies import execution, measuring, plan, pooling

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from numpy.typing import NDArray

    from incast.studies.plan import Task
    from incast.studies.store import Store
    from incast.studies.study import Axis, Lines, Percentile, Slowdown, Study, Trace
    from incast.studies.table import Table

    _Numbers: TypeAlias = NDArray[np.float64]

# More of a series cannot be seen, and every point is a part of the page.
_MOST_POINTS = 900


@dataclass(frozen=True)
class Span:
    """Lower and upper end at each x."""

    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class Line:
    """One curve of a chart."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    band: Span | None = None
    """The 95 % interval, over seeds."""
    whiskers: Span | None = None
    """Whiskers from one metric to another."""


@dataclass(frozen=True)
class Chart:
    """One panel."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    ticks: tuple[str, ...] = ()
    """Names of x = 0, 1, 2, ... if the axis has no numbers."""
    log_x: bool = False
    log_y: bool = False
    is_series: bool = False
    """Whether each value holds until the next one, as in a time series."""
    dots: bool = False
    """Whether values are separate dots instead."""
    limits: tuple[float, float] | None = None
    caption: str = ""
    unit: str = ""
    """Of the values, if the y axis shows a quantity with a unit."""

    @property
    def is_of_kinds(self) -> bool:
        """Whether the points along the x axis have no order, so that no line may lead from one to the next."""
        return not all(tick[:1].isdigit() for tick in self.ticks)


def of_lines(study: Study, panel: Lines, numbers: Table) -> Chart:
    """Return a metric over an axis: means over seeds, their intervals, and whiskers between two other metrics."""
    axis, x = study.axis(panel.x), _along(study.axis(panel.x))
    values = numbers.numbers(study, panel.y)
    ends = [numbers.numbers(study, name) for name in panel.whiskers or ()]
    lines, along, metric = [], study.along(panel), study.metric(panel.y)
    is_cut = False
    for curve in study.curves:
        means = [estimate(column) for column in values[curve.name].T[along].tolist()]
        whiskers = None
        if ends:
            low, high = (tuple(end[curve.name].mean(axis=0)[along].tolist()) for end in ends)
            whiskers = Span(low, high)
        band = Span(tuple(mean.low for mean in means), tuple(mean.high for mean in means)) if study.seeds > 1 else None
        if band and metric.is_share:
            whole, band = band, _as_shares(band, [mean.mean for mean in means])
            is_cut |= whole != band
        lines.append(Line(curve.label, x, tuple(mean.mean for mean in means), band, whiskers))
    chart = Chart(
        panel.title, axis.label, panel.y_label, tuple(lines),
        ticks=() if axis.is_numeric() else axis.names,
        log_x="x" in panel.log, log_y="y" in panel.log, unit=metric.unit,
    )  # fmt: skip
    points, intervals = ("Dots", "bars") if chart.is_of_kinds else ("Lines", "bands")
    about = [f"{points} are means over {study.seeds} seeds"] if study.seeds > 1 else ["One run per point"]
    if study.seeds > 1:
        about.append(f"{intervals} are their 95 % confidence intervals (Student's t)")
    if is_cut:
        about[-1] += ", cut at 0 and 1, beyond which no share can be"
    if panel.whiskers:
        low_name, high_name = (study.metric(name).about for name in panel.whiskers)
        about.append(f"whiskers extend from the {low_name} to the {high_name}")
    about += study.fixed(panel)
    return replace(chart, caption=", ".join(about) + ".")


def _as_shares(band: Span, means: Sequence[float]) -> Span:
    """Cut intervals of shares at 0 and 1: the true mean is not beyond, so they hold it just as often.

    A mean that is beyond, because what it is called a share of is no whole, stays in its interval.
    """
    low = tuple(max(end, min(0.0, mean)) for end, mean in zip(band.low, means, strict=True))
    high = tuple(min(end, max(1.0, mean)) for end, mean in zip(band.high, means, strict=True))
    return Span(low, high)


def of_percentile(study: Study, panel: Percentile, store: Store) -> Chart:
    """Return a percentile of the values of all seeds together over an axis; the runs are in the store."""
    axis, lines = study.axis(panel.x), []
    for label, points in plan.pooled(study, panel):
        found = [pooling.percentile([_values(panel, task, store) for task in seeds], panel.percent) for seeds in points]
        value, low, high = (tuple(part) for part in zip(*found, strict=True))
        lines.append(Line(label, _along(axis), value, Span(low, high) if study.seeds > 1 else None))
    chart = Chart(
        panel.title, axis.label, panel.y_label, tuple(lines),
        ticks=() if axis.is_numeric() else axis.names,
        log_x="x" in panel.log, log_y="y" in panel.log, unit=panel.unit,
    )  # fmt: skip
    points_, intervals = ("Dots", "bars") if chart.is_of_kinds else ("Lines", "bands")
    about = [f"{points_} are p{panel.percent:g} of {_of_seeds(study)}"]
    if study.seeds > 1:
        about.append(f"{intervals} are 95 % bootstrap intervals over seeds")
    return replace(chart, caption=", ".join([*about, *study.fixed(panel)]) + ".")


def _values(panel: Percentile, task: Task, store: Store) -> _Numbers:
    found = measuring.values(panel.sql, panel.place, partial(execution.table, task, store))
    return np.array(found, dtype=np.float64)


def of_slowdown(study: Study, panel: Slowdown, store: Store) -> Chart:
    """Return a percentile of slowdowns over sizes, in bins of as many messages each; the runs are in the store."""
    found = {
        label: [_pairs(panel, task, store) for task in tasks] for label, tasks in plan.of_point(study, panel)
    }  # fmt: skip
    # All curves have the same bins, so that their points stand above one another.
    sizes = np.concatenate([sizes for runs in found.values() for sizes, _ in runs])
    shares = np.arange(1, panel.bins + 1) / panel.bins
    ends = np.unique(np.quantile(sizes, shares, method="inverted_cdf")) if len(sizes) else sizes
    lines = []
    for label, runs in found.items():
        bins = [np.searchsorted(ends, sizes) for sizes, _ in runs]
        pooled = [
            pooling.percentile([slow[of == number] for (_, slow), of in zip(runs, bins, strict=True)], panel.percent)
            for number in range(len(ends))
        ]
        value, low, high = (tuple(part) for part in zip(*pooled, strict=True)) if pooled else ((), (), ())
        lines.append(Line(label, tuple(ends.tolist()), value, Span(low, high) if study.seeds > 1 else None))
    counts = np.bincount(np.searchsorted(ends, sizes), minlength=len(ends)) // max(1, len(found))
    about = [f"Points are p{panel.percent:g} of {_of_seeds(study)}, in {len(ends)} bins of sizes"]
    if len(ends):
        about[0] += f" with {counts.min():,} messages or more each, at the largest of each bin"
    if study.seeds > 1:
        about.append("bands are 95 % bootstrap intervals over seeds")
    return Chart(
        panel.title, "size of the message (bytes)", "slowdown", tuple(lines), log_x=True, log_y=True,
        caption=", ".join([*about, *study.fixed(panel)]) + ".",
    )  # fmt: skip


def _of_seeds(study: Study) -> str:
    return f"all values of {study.seeds} seeds together" if study.seeds > 1 else "the values of one run"


def _pairs(panel: Slowdown, task: Task, store: Store) -> tuple[_Numbers, _Numbers]:
    x, y = measuring.pairs(panel.sql, panel.place, partial(execution.table, task, store))
    return np.array(x, dtype=np.float64), np.array(y, dtype=np.float64)


def _along(axis: Axis) -> tuple[float, ...]:
    """Return where the points of an axis are drawn: at their numbers, or side by side."""
    return tuple(map(float, axis.shown if axis.is_numeric() else range(len(axis.shown))))


def of_trace(study: Study, panel: Trace, store: Store) -> Chart:
    """Return a time series of one run per curve; the runs are in the store."""
    lines = []
    for label, task in plan.traces(study, panel):
        x, y = measuring.series(panel.sql, panel.place, partial(execution.table, task, store))
        # Thinning dots would omit some of them.
        most = len(x) if panel.dots else _MOST_POINTS
        time, value = _within(x, y, panel.limits, most)
        lines.append(Line(label, time, value))
    caption = "One run per curve, with the first seed."
    return Chart(
        panel.title, panel.x_label, panel.y_label, tuple(lines), is_series=True, dots=panel.dots, limits=panel.limits,
        caption=caption,
    )  # fmt: skip


def _within(
    x: Sequence[float], y: Sequence[float], limits: tuple[float, float] | None, most: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    time, value = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if limits:
        shown = (time >= limits[0]) & (time <= limits[1])
        time, value = time[shown], value[shown]
    time, value = thinned(time, value, most)
    return tuple(time.tolist()), tuple(value.tolist())
