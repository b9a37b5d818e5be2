"""Panels of coloured cells: an expression at every point of two axes, framed where it is small enough."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patches import Rectangle

from incast.studies import expressions, table
from incast.studies.svg import BOTTOM, LEFT, RIGHT, TICK_WIDTH, TOP, quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from incast import figures
    from incast.studies.study import Map, Study
    from incast.studies.table import Table

_ROW = 24
# So many pixels a cell needs for its value.
_CELL_WIDTH = 28


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
    about = [f"{study.axis(name).label}: {at}" for name, at in panel.at.items()]
    if panel.within is not None:
        about.append(f"framed cells are at most {panel.within:g}")
    caption = ", ".join(about)
    caption = f"{caption[:1].upper()}{caption[1:]}." if caption else ""
    return Cells(
        panel.title, x.label, y.label, panel.value_label,
        tuple(map(str, x.shown)), tuple(map(str, y.shown)),
        tuple(tuple(row) for row in cells.tolist()), panel.within, caption,
    )  # fmt: skip


def svg(chart: Cells, *, width: int) -> str:
    """Draw coloured cells with their values; `width` is in pixels of the page."""
    columns, rows = len(chart.x_names), len(chart.y_names)
    step, row = (width - LEFT - RIGHT) / columns, _ROW
    height = TOP + rows * row + BOTTOM
    name = escape(f"{chart.title}: {chart.value_label} over {chart.x_label} and {chart.y_label}")
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [f'<svg class="chart" {size} role="img" aria-label="{name}"><g class="cells">']
    for y, values in enumerate(chart.values):
        for x, value in enumerate(values):
            left, top = LEFT + x * step, TOP + (rows - 1 - y) * row
            share = min(1.0, max(0.0, value / chart.greatest)) if math.isfinite(value) else 0.0
            frame = ' class="within"' if chart.is_within(value) else ""
            said = escape(f"{chart.x_label} {chart.x_names[x]}, {chart.y_label} {chart.y_names[y]}: {quantity(value)}")
            parts.append(
                f'<rect{frame} x="{left + 1:.1f}" y="{top + 1}" width="{step - 2:.1f}" height="{row - 2}" '
                f'style="--share:{share:.3f}"><title>{said}</title></rect>'
            )
            if step >= _CELL_WIDTH and math.isfinite(value):
                dark = ' class="dark"' if share > 0.55 else ""
                parts.append(
                    f'<text{dark} x="{left + step / 2:.1f}" y="{top + row / 2 + 4:.1f}" text-anchor="middle">'
                    f"{value:.2f}</text>"
                )
    parts.append('</g><g class="names">')
    every = max(1, math.ceil(TICK_WIDTH / step))
    for x, named in enumerate(chart.x_names):
        if x % every == 0:
            at = LEFT + (x + 0.5) * step
            parts.append(f'<text x="{at:.1f}" y="{height - BOTTOM + 16}" text-anchor="middle">{escape(named)}</text>')
    for y, named in enumerate(chart.y_names):
        at = TOP + (rows - 0.5 - y) * row + 4
        parts.append(f'<text x="{LEFT - 6}" y="{at:.1f}" text-anchor="end">{escape(named)}</text>')
    middle, half = (LEFT + width - RIGHT) / 2, TOP + rows * row / 2
    parts.append(f'<text x="{middle:.0f}" y="{height - 8}" text-anchor="middle">{escape(chart.x_label)}</text>')
    parts.append(f'<text transform="translate(13 {half:.0f}) rotate(-90)" text-anchor="middle">'
                 f"{escape(chart.y_label)}</text></g></svg>")  # fmt: skip
    return "".join(parts)


def draw(axes: Axes, chart: Cells, style: figures.Style) -> None:
    """Draw them with matplotlib."""
    values = np.asarray(chart.values)
    shades = LinearSegmentedColormap.from_list("shades", [style.paper, style.cycle[0]])
    # Laid out as cells, not as an image: its edges stay sharp in print.
    axes.pcolormesh(values, cmap=shades, vmin=0.0, vmax=chart.greatest, edgecolors=style.paper, linewidth=1.0)
    size = min(7.0, 300 / max(1, values.shape[1]) / 3)
    for (row, column), value in np.ndenumerate(values):
        if chart.is_within(value):
            frame = Rectangle((column + 0.04, row + 0.04), 0.92, 0.92, fill=False, edgecolor=style.ink, linewidth=0.9)
            axes.add_patch(frame)
        if np.isfinite(value):
            axes.text(column + 0.5, row + 0.5, f"{value:.2f}", ha="center", va="center", fontsize=size)
    axes.set(xlabel=chart.x_label, ylabel=chart.y_label)
    axes.set_title(chart.title, loc="left", pad=8)
    axes.set_xticks(np.arange(len(chart.x_names)) + 0.5, chart.x_names)
    axes.set_yticks(np.arange(len(chart.y_names)) + 0.5, chart.y_names)
    axes.grid(visible=False)
