"""Panels of winners: the best curve at every point of two axes, and what it costs to take the same one everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.patches import Rectangle

from incast import figures
from incast.studies import cells, claims
from incast.studies.study import for_readers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from incast.studies.expressions import Numbers
    from incast.studies.study import Study, Value, Winners
    from incast.studies.table import Table

# Whoever is ahead by less than this part is not ahead.
_NEAR = 0.02


@dataclass(frozen=True)
class Cell:
    """The curves at one point of both axes."""

    x_name: str
    y_name: str
    means: tuple[float, ...]
    """Of each curve over seeds; `nan` if it is missing."""
    best: int | None
    """`None` if all are missing."""
    second: int | None
    is_clear: bool
    """Whether the best can be told from the second."""

    @property
    def ratios(self) -> Numbers:
        """The number of each curve over that of the best: 1 for one as good, also beside a best of 0."""
        means, best = np.asarray(self.means), np.nan if self.best is None else self.means[self.best]
        with np.errstate(all="ignore"):
            return np.where(means == best, 1.0, means / best)


@dataclass(frozen=True)
class Regret:
    """The number of one curve over that of the best, over all cells; `nan` if it is missing in one of them."""

    label: str
    mean: float
    """The geometric mean; infinite if the best is 0 where this curve is not."""
    worst: float


@dataclass(frozen=True)
class WinnerMap:
    """One panel: by row from the bottom, and column, the best curve."""

    title: str
    x_label: str
    y_label: str
    x_names: tuple[str, ...]
    y_names: tuple[str, ...]
    labels: tuple[str, ...]
    """Of the curves."""
    colours: tuple[int, ...]
    """Of the curves: places in the cycle of colours."""
    rows: tuple[tuple[Cell, ...], ...]
    is_lowest: bool
    caption: str

    @property
    def regrets(self) -> list[Regret]:
        """What it costs to take the same curve everywhere."""
        ratios = np.array([cell.ratios for row in self.rows for cell in row if cell.best is not None])
        ratios = ratios.reshape(-1, len(self.labels))
        with np.errstate(all="ignore"):
            means = np.exp(np.log(ratios).mean(axis=0))
        worst = (np.max if self.is_lowest else np.min)(ratios, axis=0, initial=1.0)
        return [Regret(*one) for one in zip(self.labels, means.tolist(), worst.tolist(), strict=True)]


def of_panel(study: Study, panel: Winners, numbers: Table) -> WinnerMap:
    """Compare the curves at every point of two axes by their means over seeds."""
    x, y, metric = study.axis(panel.x), study.axis(panel.y), study.metric(panel.metric)
    by_curve = numbers.numbers(study, panel.metric)
    names = [axis.name for axis in study.axes]
    places = [dict(zip(names, place, strict=True)) for place in study.grid()]
    at = {(places[index][x.name], places[index][y.name]): index for index in study.along(panel)}
    seeds = claims.resampled(study.seeds)
    missing = [np.full(study.seeds, np.nan) for _ in panel.curves]

    def cell(x_value: Value, y_value: Value) -> Cell:
        index = at.get((x_value, y_value))
        values = missing if index is None else [by_curve[name][:, index] for name in panel.curves]
        return _cell(for_readers(x_value), for_readers(y_value), values, seeds, is_lowest=panel.is_lowest)

    chance = f" or the 95 % bootstrap interval over {study.seeds} seeds has both orders" if study.seeds > 1 else ""
    about = [
        f"The curve that is best by {metric.about} ({'lower' if panel.is_lowest else 'higher'} is better)",
        f"hatched where it is less than {100 * _NEAR:.0f} % ahead of the second{chance}",
        *study.fixed(panel),
    ]
    looks = figures.looks(curve.label for curve in study.curves)
    chosen = [(look, curve) for look, curve in zip(looks, study.curves, strict=True) if curve.name in panel.curves]
    return WinnerMap(
        panel.title, x.label, y.label, x.names, y.names,
        tuple(curve.label for _, curve in chosen), tuple(look.colour for look, _ in chosen),
        tuple(tuple(cell(x_value, y_value) for x_value in x.shown) for y_value in y.shown),
        panel.is_lowest, "; ".join(about) + ".",
    )  # fmt: skip


def _cell(x_name: str, y_name: str, values: Sequence[Numbers], seeds: NDArray[np.intp], *, is_lowest: bool) -> Cell:
    means = [float(numbers.mean()) for numbers in values]
    known = [index for index, mean in enumerate(means) if np.isfinite(mean)]
    order = sorted(known, key=lambda index: means[index] if is_lowest else -means[index])
    is_clear = len(order) < 2 or _differ(values[order[0]], values[order[1]], seeds)
    first, second = (order[place] if place < len(order) else None for place in range(2))
    return Cell(x_name, y_name, tuple(means), first, second, is_clear)


def _differ(first: Numbers, second: Numbers, seeds: NDArray[np.intp]) -> bool:
    a, b = first.mean(), second.mean()
    if a == b or abs(a - b) < _NEAR * max(abs(a), abs(b)):
        return False
    # A ratio of positive numbers is 1 where their difference is 0, which also works if one of them is 0.
    low, high = claims.interval((first - second)[seeds[1:]].mean(axis=1))
    return low is None or high is None or not low <= 0 <= high


def draw(axes: Axes, chart: WinnerMap, style: figures.Style) -> None:
    """Draw it with matplotlib; empty lines name the colours in the legend."""
    colours = [style.cycle[colour] for colour in chart.colours]
    values = np.array([[np.nan if cell.best is None else cell.best for cell in row] for row in chart.rows])
    axes.pcolormesh(
        values, cmap=ListedColormap(colours), vmin=-0.5, vmax=len(colours) - 0.5, edgecolors=style.paper, linewidth=1.0,
        gid="cells",
    )  # fmt: skip
    for row, found in enumerate(chart.rows):
        for column, cell in enumerate(found):
            if not cell.is_clear:
                axes.add_patch(
                    Rectangle((column, row), 1, 1, fill=False, hatch="////", edgecolor=style.paper, linewidth=0)
                )
    for index, (label, colour) in enumerate(zip(chart.labels, chart.colours, strict=True)):
        look = figures.Look(colour, 0)
        places = np.argwhere(values == index) + 0.5
        # Around a marker there are no hatches.
        for size, ink in ((10.0, style.cycle[colour]), (6.0, style.paper)):
            own = look.points(style, size=size) | {"color": ink, "linestyle": "none", "zorder": 3}
            axes.plot(places[:, 1], places[:, 0], **own)
        axes.plot([], [], label=label, linestyle="none", **look.points(style, size=5.0))
    cells.name_axes(axes, chart, style)
