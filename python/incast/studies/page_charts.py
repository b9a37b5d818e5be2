"""Charts of studies for the page, with the numbers of every point."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

from incast import figures, svg
from incast.studies import pictures
from incast.studies.cells import Cells
from incast.studies.charts import Chart

if TYPE_CHECKING:
    from incast.studies.charts import Line
    from incast.studies.pictures import Drawn
    from incast.studies.winners import WinnerMap

_HEIGHT_IN = 3.6
# The height of a row of cells, and of the names below the last one.
_ROW_IN, _NAMES_IN = 0.3, 0.8


def draw(chart: Drawn) -> str:
    """Draw a chart as an element of a page."""
    height_in = _HEIGHT_IN if isinstance(chart, Chart) else _ROW_IN * len(chart.y_names) + _NAMES_IN
    with figures.rc(svg.STYLE):
        figure, (axes,) = figures.stacked(1, height_in, svg.STYLE)
        pictures.panel(axes, chart, svg.STYLE)
    if isinstance(chart, Chart):
        root = svg.element(figure, f"{chart.title}: {chart.y_label} over {chart.x_label}")
        for index, line in enumerate(() if chart.is_series else chart.lines):
            points = root.findall(f".//g[@class='curve points'][@data-curve='{index}']/g/use")
            _tell_points(points, chart, line)
    else:
        root = svg.element(figure, f"{pictures.heading(chart)} over {chart.x_label} and {chart.y_label}")
        if isinstance(chart, Cells):
            _tell_cells(root, chart)
        else:
            _tell_winners(root, chart)
    ET.SubElement(root, "line", {"class": "cursor", "y1": "0", "y2": "100%", "x1": "-9", "x2": "-9"})
    return svg.text(root)


def _tell_points(points: list[ET.Element], chart: Chart, line: Line) -> None:
    """Add to the points of a curve what the page says about them."""
    drawn = [number for number, y in enumerate(line.y) if math.isfinite(y) and (y > 0 or not chart.log_y)]
    for point, number in zip(points, drawn, strict=True):
        at = chart.ticks[number] if chart.ticks else quantity(line.x[number])
        point.attrib |= {"data-at": f"{chart.x_label}: {at}", "data-said": _said(line, number, chart.unit)}


def _tell_cells(root: ET.Element, chart: Cells) -> None:
    cells = iter(root.findall(".//*[@id='cells']/path"))
    for y_name, values in zip(chart.y_names, chart.values, strict=True):
        for x_name, value in zip(chart.x_names, values, strict=True):
            said = f"{chart.x_label} {x_name}, {chart.y_label} {y_name}: {quantity(value)}"
            ET.SubElement(next(cells), "title").text = said


def _tell_winners(root: ET.Element, chart: WinnerMap) -> None:
    drawn = iter(root.findall(".//*[@id='cells']/path"))
    for cell in (cell for row in chart.rows for cell in row):
        said = f"{chart.x_label} {cell.x_name}, {chart.y_label} {cell.y_name}: "
        order = sorted((cell.best, cell.second), key=lambda index: index != cell.best)
        said += ", then ".join(f"{chart.labels[one]} {quantity(cell.means[one])}" for one in order if one is not None)
        ET.SubElement(next(drawn), "title").text = said if cell.best is not None else f"{said}unknown"


def _said(line: Line, number: int, unit: str) -> str:
    """Format a point for the page: mean, interval, and in brackets the ends of whiskers."""
    said = quantity(line.y[number])
    # A formula gives every seed the same number but for the last digit.
    if line.band and not math.isclose(line.band.low[number], line.band.high[number], rel_tol=1e-9):
        said += _interval(line.y[number], line.band.low[number], line.band.high[number])
    if line.whiskers:
        said += f" [{quantity(line.whiskers.low[number], digits=3)}, {quantity(line.whiskers.high[number], digits=3)}]"
    return f"{said} {unit}".rstrip()


def _interval(value: float, low: float, high: float) -> str:
    if math.isclose(high - value, value - low, rel_tol=1e-6):
        return f" ± {quantity((high - low) / 2, digits=2)}"
    return f" ({quantity(low, digits=3)} to {quantity(high, digits=3)})"


def quantity(value: float, *, digits: int = 4) -> str:
    """Format a number with the given digits. It has no prefix: a unit with one may follow."""
    if not math.isfinite(value):
        return "unknown"
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:,.12g}"
