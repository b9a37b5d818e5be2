"""Charts: matplotlib draws the panels of a study, for print in two columns if there are many."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from matplotlib.ticker import EngFormatter

from incast import figures
from incast.studies import cells, winners
from incast.studies.cells import Cells
from incast.studies.charts import Chart
from incast.studies.winners import WinnerMap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from incast.studies.charts import Line

Drawn: TypeAlias = "Chart | Cells | WinnerMap"

# What part of the space between two points the whiskers of all curves take up.
_SPREAD = 0.35
_MOST_IN_A_COLUMN = 4
# A row of cells, so that the names of rows do not run into one another.
_ROW_IN = 0.22
# So many numbers have room above one another.
_MOST_NUMBERS = 10


def draw(charts: Sequence[Drawn], style: figures.Style = figures.LIGHT) -> Figure:
    """Draw the panels of a figure."""
    columns = 2 if len(charts) > _MOST_IN_A_COLUMN else 1
    with figures.rc(style):
        rows = max((len(chart.y_names) for chart in charts if not isinstance(chart, Chart)), default=0)
        figure, all_axes = figures.stacked(len(charts), max(3.2, 1.2 + _ROW_IN * rows), style, columns=columns)
        in_legend = 0
        for axes, chart in zip(all_axes, charts, strict=True):
            panel(axes, chart, style)
            in_legend = max(in_legend, figures.legend_above(axes, style, heading(chart)))
        figures.make_room(figure, -(-len(charts) // columns), in_legend, style)
        figure.draw_without_rendering()
        # Once is enough: every file that is written would be laid out anew.
        figure.set_layout_engine("none")
        return figure


def heading(chart: Drawn) -> str:
    """Return the title of a panel."""
    return chart.heading if isinstance(chart, Cells) else chart.title


def panel(axes: Axes, chart: Drawn, style: figures.Style) -> None:
    """Draw one panel without its title and legend."""
    if isinstance(chart, Cells):
        cells.draw(axes, chart, style)
    elif isinstance(chart, WinnerMap):
        winners.draw(axes, chart, style)
    else:
        _chart(axes, chart, style)


def _chart(axes: Axes, chart: Chart, style: figures.Style) -> None:
    if chart.log_x:
        axes.set_xscale("log")
    if chart.log_y:
        axes.set_yscale("log")
    looks = figures.looks(line.label for line in chart.lines)
    for index, (line, own) in enumerate(zip(chart.lines, looks, strict=True)):
        # By the name, the page finds the curve again.
        look: dict[str, Any] = {"color": style.cycle[own.colour], "gid": f"curve-{index}"}
        label = line.label if len(chart.lines) > 1 else None
        if chart.dots:
            axes.plot(line.x, line.y, linestyle="none", label=label, **look | own.points(style, size=2.8))
            continue
        if chart.is_series:
            some = own.few_points(style) if label else {}
            axes.step(line.x, line.y, where="post", linewidth=0.9, label=label, **look | some)
            continue
        points = own.line(style) | own.points(style) | {"gid": f"points-{index}"}
        x = np.asarray(line.x)
        if chart.is_of_kinds:
            x, points["linestyle"] = x + _aside(chart, index), "none"
            if line.band:
                axes.vlines(x, line.band.low, line.band.high, linewidth=1.4, **look)
        elif line.band:
            axes.fill_between(x, line.band.low, line.band.high, alpha=0.2, linewidth=0, **look)
        # A line at zero is seen in full.
        axes.plot(x, line.y, linewidth=1.6, label=label, clip_on=chart.log_y, **points)
        if line.whiskers:
            _whiskers(axes, chart, line, index, look)
    axes.set(xlabel=chart.x_label, ylabel=chart.y_label)
    if chart.limits:
        axes.set_xlim(*chart.limits)
    if chart.ticks:
        # Names that would run into one another stand in two rows, or only some of them are written.
        room = (max(map(len, chart.ticks)) + 2) * len(chart.ticks) / style.letters
        lower, every = "\n" if 1 < room <= 2 else "", 1 if room <= 2 else math.ceil(room)
        names = [f"{lower if index % 2 else ''}{name}" for index, name in enumerate(chart.ticks)]
        axes.set_xticks(range(0, len(chart.ticks), every), names[::every])
        axes.set_xticks(range(len(chart.ticks)), minor=True)
    elif chart.is_series and chart.log_x:
        figures.number_decades(axes.xaxis, style.letters // 9)
    elif chart.is_series:
        axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
    else:
        _name_points(axes, chart, style)
    if chart.log_y:
        figures.number_decades(axes.yaxis, _MOST_NUMBERS)
    else:
        # Bands of few seeds reach below zero even where nothing can be negative: they are cut there.
        below = min((y for line in chart.lines for y in line.y if y < 0), default=0.0)
        axes.set_ylim(bottom=axes.get_ylim()[0] if below else 0)
    if not chart.log_y and axes.dataLim.ymax >= 1e5:
        axes.yaxis.set_major_formatter(EngFormatter(sep=" "))


def _name_points(axes: Axes, chart: Chart, style: figures.Style) -> None:
    """Name the points at the axis if there is room, else round numbers."""
    points = sorted({float(x) for line in chart.lines for x in line.x})
    names = [f"{x:g}" for x in points]
    along = np.log if chart.log_x else np.asarray
    gap = np.min(np.diff(along(points)), initial=np.inf) / np.ptp(along(axes.get_xlim()))
    if gap * style.letters > 1 + max(map(len, names), default=0):
        axes.set_xticks(points, names)
        axes.set_xticks([], minor=True)
    elif chart.log_x:
        figures.number_decades(axes.xaxis, style.letters // 9)


def _aside(chart: Chart, index: int) -> float:
    """How far beside a point a curve stands, so that those of all curves are seen; points are 1 apart."""
    return (index - (len(chart.lines) - 1) / 2) / max(1, len(chart.lines)) * _SPREAD


def _whiskers(axes: Axes, chart: Chart, line: Line, index: int, look: dict[str, Any]) -> None:
    """Draw the whiskers of a line, next to those of the other lines."""
    if not line.whiskers:
        return
    x = np.asarray(line.x)
    aside = _aside(chart, index)
    moved = x * (1 + aside * 0.1) if chart.log_x else x + aside * (np.min(np.diff(x)) if len(x) > 1 else 1.0)
    axes.vlines(moved, line.whiskers.low, line.whiskers.high, linewidth=1.0, **look)
    for ends in (line.whiskers.low, line.whiskers.high):
        axes.plot(moved, ends, "_", markersize=5, markeredgewidth=1.2, **look)
