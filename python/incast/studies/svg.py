"""Charts for the page: SVG without a library. Every point carries its numbers, which a small script shows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

from incast.studies import charts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from incast.studies.charts import Chart, Line

LEFT, RIGHT, TOP, BOTTOM = 58, 14, 12, 44
_SPREAD = 0.35
# Minimum distance of two names at the x axis, in pixels from centre to centre.
TICK_WIDTH = 27
_LETTER_WIDTH = 6.5
_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))


@dataclass(frozen=True)
class _Frame:
    """The plot area and its scales."""

    chart: Chart
    width: int
    height: int
    extent: tuple[float, float, float, float]

    def x(self, value: float) -> float:
        low, high = self.extent[0], self.extent[1]
        return LEFT + _share(value, low, high, log=self.chart.log_x) * (self.width - LEFT - RIGHT)

    def y(self, value: float) -> float:
        low, high = self.extent[2], self.extent[3]
        share = _share(value, low, high, log=self.chart.log_y)
        return self.height - BOTTOM - share * (self.height - TOP - BOTTOM)


def draw(chart: Chart, *, width: int, height: int) -> str:
    """Draw a chart; `width` is in pixels of the page."""
    x0, x1, y0, y1 = charts.extent(chart)
    if chart.ticks:
        x0, x1 = -0.4, len(chart.ticks) - 0.6
    elif chart.log_x:
        margin = (x1 / x0) ** 0.03
        x0, x1 = x0 / margin, x1 * margin
    elif not chart.is_series:
        margin = 0.03 * (x1 - x0)
        x0, x1 = x0 - margin, x1 + margin
    top = y1 * 1.15 if chart.log_y else y1 + 0.06 * (y1 - y0)
    frame = _Frame(chart, width, height, (x0, x1, y0, top))
    name = escape(f"{chart.title}: {chart.y_label} over {chart.x_label}")
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [
        f'<svg class="chart" {size} role="img" aria-label="{name}">',
        *_axes(frame),
        *(part for index, line in enumerate(chart.lines) for part in _line(frame, line, index)),
        f'<line class="cursor" y1="{TOP}" y2="{height - BOTTOM}" x1="-9" x2="-9"/>',
        "</svg>",
    ]
    return "".join(parts)


def _axes(frame: _Frame) -> Iterable[str]:
    chart, (_, _, y0, y1) = frame.chart, frame.extent
    bottom, right = frame.height - BOTTOM, frame.width - RIGHT
    yield '<g class="grid">'
    if chart.ticks:
        xs = [(float(index), name) for index, name in enumerate(chart.ticks)]
    else:
        xs = _named(_x_ticks(frame, right - LEFT), chart.log_x)
    ys = _named(ticks(y0, y1, 6, log=chart.log_y), chart.log_y)
    for value, _ in ys:
        yield f'<line x1="{LEFT}" x2="{right}" y1="{frame.y(value):.1f}" y2="{frame.y(value):.1f}"/>'
    yield '</g><g class="names">'
    # Names that would overlap are drawn in two rows.
    step = (right - LEFT) / max(1, len(chart.ticks))
    lower = 10 if chart.ticks and max(map(len, chart.ticks)) * _LETTER_WIDTH > step else 0
    for index, (value, name) in enumerate(xs):
        y = bottom + 16 + (lower if index % 2 else 0)
        yield f'<text x="{frame.x(value):.1f}" y="{y}" text-anchor="middle">{escape(name)}</text>'
    for value, name in ys:
        yield f'<text x="{LEFT - 6}" y="{frame.y(value) + 4:.1f}" text-anchor="end">{escape(name)}</text>'
    middle = (LEFT + right) / 2
    y = frame.height - (3 if lower else 8)
    yield f'<text x="{middle:.0f}" y="{y}" text-anchor="middle">{escape(chart.x_label)}</text>'
    yield (f'<text transform="translate(13 {(TOP + bottom) / 2:.0f}) rotate(-90)" text-anchor="middle">'
           f"{escape(chart.y_label)}</text></g>")  # fmt: skip
    yield f'<line class="axis" x1="{LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>'


def _x_ticks(frame: _Frame, width: int) -> list[float]:
    """Label the points of a sweep if there is room, else round numbers."""
    chart, (x0, x1, _, _) = frame.chart, frame.extent
    points = sorted({x for line in chart.lines for x in line.x})
    places = [frame.x(x) for x in points]
    if not chart.is_series and all(b - a >= TICK_WIDTH for a, b in pairwise(places)):
        return points
    return ticks(x0, x1, max(2, width // 60), log=chart.log_x)


def _line(frame: _Frame, line: Line, index: int) -> Iterable[str]:
    chart = frame.chart
    yield f'<g class="curve c{index % 6}" data-curve="{index}">'
    known = [(x, y) for x, y in zip(line.x, line.y, strict=True) if math.isfinite(y) and (y > 0 or not chart.log_y)]
    if line.band:
        yield _band(frame, line)
    if chart.dots:
        # One path: hundreds of circles would make up most of the page.
        yield f'<path class="dots" d="{"".join(f"M{frame.x(x):.1f} {frame.y(y):.1f}h0" for x, y in known)}"/>'
    elif chart.is_series:
        yield f'<path class="series" d="{_steps(frame, known)}"/>'
    elif known:
        corners = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in known)
        yield f'<polyline points="{corners}"/>'
    if line.whiskers:
        yield _whiskers(frame, line, index)
    if not chart.is_series:
        for number, (x, y) in enumerate(zip(line.x, line.y, strict=True)):
            if (x, y) in known:
                said = escape(_said(line, number), quote=True)
                at = escape(f"{chart.x_label}: {chart.ticks[number] if chart.ticks else quantity(x)}")
                yield f'<circle cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" r="3" data-at="{at}" data-said="{said}"/>'
    yield "</g>"


def _said(line: Line, number: int) -> str:
    """Format a point for the page: mean, interval, and in brackets the ends of whiskers."""
    said = quantity(line.y[number])
    if line.band and line.band.high[number] > line.band.low[number]:
        said += f" ± {quantity((line.band.high[number] - line.band.low[number]) / 2, digits=2)}"
    if line.whiskers:
        said += f" [{quantity(line.whiskers.low[number], digits=3)}, {quantity(line.whiskers.high[number], digits=3)}]"
    return said


def _steps(frame: _Frame, points: list[tuple[float, float]]) -> str:
    if not points:
        return ""
    path = [f"M{frame.x(points[0][0]):.1f} {frame.y(points[0][1]):.1f}"]
    path += [f"H{frame.x(x):.1f}V{frame.y(y):.1f}" for x, y in points[1:]]
    return "".join(path)


def _band(frame: _Frame, line: Line) -> str:
    if not line.band:
        return ""
    least = frame.extent[2]
    ends = [(x, max(low, least), max(high, least))
            for x, low, high in zip(line.x, line.band.low, line.band.high, strict=True)
            if math.isfinite(low) and math.isfinite(high)]  # fmt: skip
    there = [f"{frame.x(x):.1f},{frame.y(high):.1f}" for x, _, high in ends]
    back = [f"{frame.x(x):.1f},{frame.y(low):.1f}" for x, low, _ in reversed(ends)]
    return f'<polygon class="band" points="{" ".join(there + back)}"/>'


def _whiskers(frame: _Frame, line: Line, index: int) -> str:
    if not line.whiskers:
        return ""
    places = [frame.x(x) for x in line.x]
    apart = min((b - a for a, b in pairwise(places)), default=40.0)
    count = len(frame.chart.lines)
    aside = (index - (count - 1) / 2) / max(1, count) * _SPREAD * apart
    path = []
    for x, low, high in zip(places, line.whiskers.low, line.whiskers.high, strict=True):
        if math.isfinite(low) and math.isfinite(high) and (low > 0 or not frame.chart.log_y):
            at, bottom, top = x + aside, frame.y(low), frame.y(high)
            path.append(f"M{at - 2:.1f} {bottom:.1f}h4M{at:.1f} {bottom:.1f}V{top:.1f}M{at - 2:.1f} {top:.1f}h4")
    return f'<path class="whiskers" d="{"".join(path)}"/>'


def ticks(low: float, high: float, most: int, *, log: bool) -> list[float]:
    """Return about `most` round numbers from `low` to `high`."""
    if log:
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        steps = (1.0, 2.0, 5.0) if high < 100 * low else (1.0,)
        return [step * 10.0**power for power in decades for step in steps if low <= step * 10.0**power <= high]
    rough = (high - low) / max(1, most)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(number * step, 12) for number in range(first, math.floor(high / step + 1e-9) + 1)]


def _named(values: list[float], log: bool) -> list[tuple[float, str]]:
    """Format values, all with the same prefix unless they span decades."""
    if log:
        return [(value, quantity(value)) for value in values]
    largest = max((abs(value) for value in values), default=0.0)
    factor, prefix = _prefix(largest)
    return [(value, f"{value / factor:g}{prefix and ' ' + prefix}" if value else "0") for value in values]


def _prefix(value: float) -> tuple[float, str]:
    if 1e-3 <= abs(value) < 1e4 or value == 0:
        return 1.0, ""
    return next(((factor, prefix) for factor, prefix in _PREFIXES if abs(value) >= factor), _PREFIXES[-1])


def quantity(value: float, *, digits: int = 4) -> str:
    """Format a number with the given digits; large and small ones get a prefix."""
    if not math.isfinite(value):
        return "unknown"
    factor, prefix = _prefix(value)
    rounded = float(f"{value / factor:.{digits}g}")
    return f"{rounded:g}{prefix and ' ' + prefix}"


def _share(value: float, low: float, high: float, *, log: bool) -> float:
    of: Callable[[float], float] = math.log10 if log else float
    return (of(value) - of(low)) / (of(high) - of(low))
