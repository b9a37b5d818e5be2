"""The pictures of the advice: how slow a query becomes with more servers, and what each remedy changes."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.ticker import FuncFormatter, NullFormatter

from incast import figures, svg
from incast.advice import judging
from incast.advice.judging import factor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from incast.advice.judging import Advice, Point, Ratio, Result

# Intervals are cut off beyond this multiple of their mean.
_LONG = 30
_ROW_IN, _AXIS_IN = 0.34, 0.9
# Beside names of remedies a picture has to be so much wider than others, or little is left for the axes.
_BESIDE_NAMES = 1.4


class _Mark(NamedTuple):
    """How points of one kind are drawn: a shape for those who cannot see the colour."""

    shape: str
    colour: int | None = None
    """The place in the cycle of colours; `None` for grey."""

    def look(self, style: figures.Style) -> dict[str, Any]:
        """Return what matplotlib draws a point with."""
        return {"color": self.ink(style), "marker": self.shape, "markersize": 6, "linestyle": "none"}

    def ink(self, style: figures.Style) -> str:
        """Return the colour."""
        return style.muted if self.colour is None else style.cycle[self.colour]


_BETTER, _WORSE, _NEITHER = _Mark("o", 1), _Mark("s", 0), _Mark("D")
_SIDES = {"collapses": _WORSE, "does not collapse": _BETTER, "seeds differ": _NEITHER}
_JUDGED = {"better": _BETTER, "no difference": _NEITHER, "worse": _WORSE, "not known": _Mark("x")}


def sweep(advice: Advice) -> str:
    """Draw the slowdown of a query over the number of servers, for the page."""
    said = [f"{point.fan_in:,} servers: {point.ratio.said()} times, {point.verdict}" for point in advice.sweep]
    return _told(svg.element(draw_sweep(advice.sweep), "Slowdown of a query over the number of servers"), said)


def ranking(advice: Advice) -> str:
    """Draw the p99 of each remedy as a multiple of today's, for the page."""
    said = [f"{one.candidate.id}: {one.p99.said()} times today's p99, {one.judged}" for one in advice.results]
    return _told(svg.element(draw_ranking(advice.results), "p99 of each remedy as a multiple of today's"), said)


def draw_sweep(points: Sequence[Point], style: figures.Style = svg.STYLE) -> Figure:
    """Draw the slowdown of a query over the number of servers."""
    with figures.rc(style):
        figure, (axes,) = figures.stacked(1, 3.2, style)
        axes.set(xscale="log", yscale="log", xlabel="servers", ylabel="slowdown of a query (p99)")
        servers = [point.fan_in for point in points]
        axes.plot(servers, [point.ratio.mean for point in points], color=style.muted, linewidth=1)
        axes.axhline(judging.COLLAPSE, color=style.ink, linewidth=1, linestyle=(0, (4, 3)))
        for number, point in enumerate(points):
            mark = _SIDES[point.verdict]
            axes.plot(point.fan_in, point.ratio.mean, gid=f"point-{number}", zorder=3, **mark.look(style))
            axes.vlines(point.fan_in, *_ends(point.ratio), color=mark.ink(style), linewidth=2)
        _number(axes.yaxis, _limits([point.ratio for point in points]))
        _name(axes, servers, style)
        _legend(axes, {point.verdict: _SIDES[point.verdict] for point in points}, style)
    return figure


def draw_ranking(results: Sequence[Result], style: figures.Style = svg.STYLE) -> Figure:
    """Draw the p99 of each remedy as a multiple of today's."""
    with figures.rc(style):
        figure, (axes,) = figures.stacked(1, _AXIS_IN + _ROW_IN * len(results), style)
        figure.set_figwidth(_BESIDE_NAMES * style.width_in)
        axes.set(xscale="log", xlabel="p99 as a multiple of today's")
        axes.axvline(1, color=style.muted, linewidth=1)
        for number, one in enumerate(results):
            mark = _JUDGED[one.judged]
            axes.plot(one.p99.mean, number, gid=f"point-{number}", zorder=3, **mark.look(style))
            axes.hlines(number, *_ends(one.p99), color=mark.ink(style), linewidth=2)
        # A remedy of two parts on two lines, since on one it leaves no room for the axes.
        axes.set_yticks(range(len(results)), [one.candidate.id.replace("+", "\n+") for one in results])
        axes.set_ylim(len(results) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        _number(axes.xaxis, _limits([one.p99 for one in results]))
        _legend(axes, {one.judged: _JUDGED[one.judged] for one in results}, style)
    return figure


def _ends(ratio: Ratio) -> tuple[float, float]:
    return max(ratio.low, ratio.mean / _LONG), min(ratio.high, ratio.mean * _LONG)


def _limits(ratios: Sequence[Ratio]) -> tuple[float, float]:
    """Return the ends of an axis with all means, the level of a collapse, and intervals unless these are very long."""
    ends = [_ends(ratio) for ratio in ratios]
    return min([1, *(low for low, _ in ends)]) / 1.25, max([judging.COLLAPSE, *(high for _, high in ends)]) * 1.25


def _number(axis: Axis, limits: tuple[float, float]) -> None:
    axis.set_view_interval(*limits, ignore=True)
    figures.number_decades(axis, 10)
    axis.set_major_formatter(FuncFormatter(lambda value, _: factor(value)))


def _name(axes: Axes, servers: Sequence[int], style: figures.Style) -> None:
    """Name as many numbers of servers as there is room for; the last one always."""
    room = np.log(servers[-1] / servers[0]) * 3 / style.letters if len(servers) > 1 else 0.0
    shown: list[int] = []
    for count in reversed(servers):
        if not shown or np.log(shown[-1] / count) > room * len(str(shown[-1])):
            shown.append(count)
    axes.set_xticks(shown, [f"{count:,}" for count in shown])
    axes.xaxis.set_minor_formatter(NullFormatter())


def _legend(axes: Axes, marks: dict[str, _Mark], style: figures.Style) -> None:
    for name, mark in marks.items():
        axes.plot([], [], label=name, **mark.look(style))
    figures.legend_above(axes, style)


def _told(root: ET.Element, said: Sequence[str]) -> str:
    """Add to the points what the page says about them."""
    for number, text in enumerate(said):
        (point,) = root.findall(f".//g[@class='curve point'][@data-curve='{number}']")
        ET.SubElement(point, "title").text = text
    return svg.text(root)
