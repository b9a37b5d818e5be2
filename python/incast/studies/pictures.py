"""Charts for print: matplotlib draws the panels of a study, in two columns if there are many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import EngFormatter

from incast import figures
from incast.studies import cells
from incast.studies.cells import Cells

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from incast.studies.charts import Chart, Line

# What part of the space between two points the whiskers of all curves take up.
_SPREAD = 0.35
_MOST_IN_A_COLUMN = 4
# In characters: the width of a panel, and of the line before a name.
_WIDTH, _HANDLE = 66, 4


def draw(charts: Sequence[Chart | Cells], *, style: figures.Style = figures.LIGHT) -> Figure:
    """Draw the panels of a figure."""
    with figures.rc(style):
        columns = 2 if len(charts) > _MOST_IN_A_COLUMN else 1
        figure, all_axes = figures.stacked(len(charts), 3.2, style, columns=columns)
        for axes, chart in zip(all_axes, charts, strict=True):
            if isinstance(chart, Cells):
                cells.draw(axes, chart, style)
            else:
                _chart(axes, chart, style)
        figure.draw_without_rendering()
        # Once is enough: every file that is written would be laid out anew.
        figure.set_layout_engine("none")
        return figure


def _columns(labels: Sequence[str]) -> int:
    """Return the number of columns of the legend above a panel."""
    widest = max((len(label) for label in labels), default=0) + _HANDLE
    return max(1, min(len(labels), _WIDTH // widest))


def _chart(axes: Axes, chart: Chart, style: figures.Style) -> None:
    if chart.log_x:
        axes.set_xscale("log")
    if chart.log_y:
        axes.set_yscale("log")
    for index, line in enumerate(chart.lines):
        colour = style.cycle[index % len(style.cycle)]
        if chart.dots:
            axes.plot(line.x, line.y, ".", color=colour, markersize=2.5, label=line.label)
            continue
        if chart.is_series:
            axes.step(line.x, line.y, where="post", color=colour, linewidth=0.9, label=line.label)
            continue
        if line.band:
            axes.fill_between(line.x, line.band.low, line.band.high, color=colour, alpha=0.2, linewidth=0)
        axes.plot(line.x, line.y, "o-", color=colour, linewidth=1.6, markersize=3.5, label=line.label)
        if line.whiskers:
            _whiskers(axes, chart, line, index, colour)
    axes.set(xlabel=chart.x_label, ylabel=chart.y_label)
    columns = _columns([line.label for line in chart.lines])
    rows = -(-len(chart.lines) // columns) if len(chart.lines) > 1 else 0
    axes.set_title(chart.title, loc="left", pad=8 + 17 * rows)
    if chart.ticks:
        # Names that would run into one another stand in two rows.
        lower = "\n" if (max(map(len, chart.ticks)) + 2) * len(chart.ticks) > _WIDTH else ""
        names = [f"{lower if index % 2 else ''}{name}" for index, name in enumerate(chart.ticks)]
        axes.set_xticks(range(len(chart.ticks)), names)
    elif chart.log_x and not chart.is_series and chart.lines:
        # Powers of ten alone would leave most points without a name.
        points = sorted({float(x) for line in chart.lines for x in line.x})
        axes.set_xticks(points, [f"{x:g}" for x in points])
        axes.set_xticks([], minor=True)
    if chart.limits:
        axes.set_xlim(*chart.limits)
    if chart.is_series:
        axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
    if not chart.log_y:
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]) if axes.dataLim.ymin < 0 else 0)
    if not chart.log_y and axes.dataLim.ymax >= 1e5:
        axes.yaxis.set_major_formatter(EngFormatter(sep=" "))
    if len(chart.lines) > 1:
        # Above the panel: inside, whiskers leave no room.
        axes.legend(
            loc="lower left", bbox_to_anchor=(-0.01, 0.98), ncols=columns,
            labelcolor="linecolor", handlelength=1.2, columnspacing=1.2,
        )  # fmt: skip


def _whiskers(axes: Axes, chart: Chart, line: Line, index: int, colour: str) -> None:
    """Draw the whiskers of a line, next to those of the other lines."""
    if not line.whiskers:
        return
    x = np.asarray(line.x)
    aside = (index - (len(chart.lines) - 1) / 2) / max(1, len(chart.lines)) * _SPREAD
    moved = x * (1 + aside * 0.1) if chart.log_x else x + aside * (np.min(np.diff(x)) if len(x) > 1 else 1.0)
    axes.vlines(moved, line.whiskers.low, line.whiskers.high, color=colour, linewidth=1.0, alpha=0.75)
    for ends in (line.whiskers.low, line.whiskers.high):
        axes.plot(moved, ends, "_", color=colour, markersize=5, markeredgewidth=1.2)
