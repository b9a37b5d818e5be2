"""Panels of coloured cells: an expression at every point of two axes, framed where it is small enough."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.patches import Rectangle

from incast.studies import expressions, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from incast import figures
    from incast.studies.study import Map, Study
    from incast.studies.table import Table
    from incast.studies.winners import WinnerMap

# The values of cells are written in letters of at most and at least these sizes.
_LARGEST_PT, _SMALLEST_PT = 10.0, 6.0
# How opaque the colour of the largest value is: numbers can be read on it in light and in dark colours.
_DARKEST = 0.55


@dataclass(frozen=True)
class Cells:
    """One panel of coloured cells, from 0 to 1 or to the largest value."""

    title: str
    x_label: str
    y_label: str
    value_label: str
    x_names: tuple[str, ...]
    y_names: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    """By row from the bottom, and column."""
    within: float | None
    """Cells with at most this value are framed."""
    caption: str

    @property
    def heading(self) -> str:
        """The title, and what the numbers in the cells are."""
        return f"{self.title} ({self.value_label})" if self.value_label else self.title

    @property
    def greatest(self) -> float:
        """The value of the darkest colour."""
        return max([1.0, *(value for row in self.values for value in row if math.isfinite(value))])

    def is_within(self, value: float) -> bool:
        """Whether a cell is framed."""
        return self.within is not None and value <= self.within


def of_map(study: Study, panel: Map, numbers: Table) -> Cells:
    """Return an expression at every point of two axes, from means over seeds."""
    x, y = study.axis(panel.x), study.axis(panel.y)
    scope = table.scope(study, numbers, np.arange(study.seeds, dtype=np.intp)[np.newaxis, :])
    values = np.broadcast_to(expressions.everywhere(panel.value, scope)[0], len(study.grid()))[study.along(panel)]
    shape = (len(x.shown), len(y.shown))
    if [axis.name for axis in study.axes if axis in (x, y)] == [panel.x, panel.y]:
        cells = values.reshape(shape).T
    else:
        cells = values.reshape(shape[::-1])
    about = study.fixed(panel)
    if panel.within is not None:
        about.append(f"framed cells are at most {panel.within:g}")
    caption = ", ".join(about)
    caption = f"{caption[:1].upper()}{caption[1:]}." if caption else ""
    return Cells(
        panel.title, x.label, y.label, panel.value_label,
        x.names, y.names,
        tuple(tuple(row) for row in cells.tolist()), panel.within, caption,
    )  # fmt: skip


def draw(axes: Axes, chart: Cells, style: figures.Style) -> None:
    """Draw them with matplotlib."""
    values = np.asarray(chart.values)
    shades = LinearSegmentedColormap.from_list("shades", [to_rgba(style.cycle[0], alpha) for alpha in (0.0, _DARKEST)])
    # Laid out as cells, not as an image: its edges stay sharp in print.
    axes.pcolormesh(
        values, cmap=shades, vmin=0.0, vmax=chart.greatest, edgecolors=style.paper, linewidth=1.0, gid="cells"
    )
    size = min(_LARGEST_PT, 17 * style.width_in / max(1, values.shape[1]))
    for (row, column), value in np.ndenumerate(values):
        if chart.is_within(value):
            frame = Rectangle((column + 0.04, row + 0.04), 0.92, 0.92, fill=False, edgecolor=style.ink, linewidth=0.9)
            axes.add_patch(frame)
        if np.isfinite(value) and size >= _SMALLEST_PT:
            axes.text(column + 0.5, row + 0.5, f"{value:.2f}", ha="center", va="center", fontsize=size, color=style.ink)
    name_axes(axes, chart, style)


def name_axes(axes: Axes, chart: Cells | WinnerMap, style: figures.Style) -> None:
    """Name columns and rows of cells."""
    axes.set(xlabel=chart.x_label, ylabel=chart.y_label)
    widest = max(len(part) for name in chart.x_names for part in name.split("\n"))
    # Names that would run into one another are left out.
    every = math.ceil((widest + 1) * len(chart.x_names) / style.letters)
    axes.set_xticks(np.arange(len(chart.x_names))[::every] + 0.5, chart.x_names[::every])
    axes.set_yticks(np.arange(len(chart.y_names)) + 0.5, chart.y_names)
    axes.grid(visible=False)
