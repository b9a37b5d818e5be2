"""Charts for the page: as matplotlib draws them, in the colours of the page, with the numbers of every point."""

from __future__ import annotations

import io
import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import TYPE_CHECKING

import matplotlib as mpl

from incast import figures
from incast.studies import pictures
from incast.studies.cells import Cells
from incast.studies.winners import WinnerMap

if TYPE_CHECKING:
    from incast.studies.charts import Chart, Line
    from incast.studies.pictures import Drawn

# So many pixels to an inch give letters the size of those in the page's notes.
_PX_PER_IN = 80
_SVG, _LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
# The colours of a picture, and the variables of the page that take their place.
_VARIABLES = {
    **{colour: f"c{index}" for index, colour in enumerate(figures.LIGHT.cycle)},
    figures.LIGHT.paper: "paper", figures.LIGHT.ink: "ink", figures.LIGHT.muted: "muted", figures.LIGHT.grid: "rule",
}  # fmt: skip


def draw(chart: Drawn, *, width: int, height: int) -> str:
    """Draw a chart; `width` and `height` are in pixels of the page."""
    file = io.StringIO()
    style = replace(figures.LIGHT, width_in=width / _PX_PER_IN)
    # With the salt, the wide picture refers to none of the narrow one's parts: one of the two is hidden.
    with figures.rc(style), mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": str(width)}):
        figure, (axes,) = figures.stacked(1, height / _PX_PER_IN, style)
        pictures.panel(axes, chart, style)
        figure.savefig(file, format="svg", metadata={"Date": None})
    root = ET.fromstring(file.getvalue())  # noqa: S314 - our own
    del root[:2]  # who made it, and a style for the whole page
    for node in root.iter():
        _adapt(node)
    if isinstance(chart, Cells):
        name = f"{chart.heading} over {chart.x_label} and {chart.y_label}"
        _tell_cells(root, chart)
    elif isinstance(chart, WinnerMap):
        name = f"{chart.title} over {chart.x_label} and {chart.y_label}"
        _tell_winners(root, chart)
    else:
        name = f"{chart.title}: {chart.y_label} over {chart.x_label}"
        for index, line in enumerate(() if chart.is_series else chart.lines):
            points = root.findall(f".//g[@class='curve points'][@data-curve='{index}']/g/use")
            _tell_points(points, chart, line)
    ET.SubElement(root, "line", {"class": "cursor", "y1": "0", "y2": "100%", "x1": "-9", "x2": "-9"})
    root.attrib = {"class": "chart", "viewBox": root.attrib["viewBox"], "width": str(width), "height": str(height),
                   "role": "img", "aria-label": name}  # fmt: skip
    text = ET.tostring(root, encoding="unicode")
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, f"var(--{variable})")
    return text


def _adapt(node: ET.Element) -> None:
    """Make a part of a picture one of the page: in its letters, shorter, and a curve that can be switched off."""
    node.tag = node.tag.removeprefix(_SVG)
    node.text, node.tail = (node.text or "").strip(), ""
    if _LINK in node.attrib:
        node.set("href", node.attrib.pop(_LINK))
    if "style" in node.attrib:
        node.set("style", re.sub(r"font-family: [^;]*;? ?", "", node.attrib["style"]))
    for name in {"d", "x", "y"}.intersection(node.attrib):
        node.set(name, re.sub(r"(\.\d)\d+|\s+(?=[MLCz]|$)", r"\1", node.attrib[name]))
    kind, _, number = node.get("id", "").partition("-")
    if number:
        node.attrib |= {"class": f"curve {kind}", "data-curve": number}
    if number or re.fullmatch(r"[^_]+_\d+", kind):
        del node.attrib["id"]


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
        said += f" ± {quantity((line.band.high[number] - line.band.low[number]) / 2, digits=2)}"
    if line.whiskers:
        said += f" [{quantity(line.whiskers.low[number], digits=3)}, {quantity(line.whiskers.high[number], digits=3)}]"
    return f"{said} {unit}".rstrip()


def quantity(value: float, *, digits: int = 4) -> str:
    """Format a number with the given digits. It has no prefix: a unit with one may follow."""
    if not math.isfinite(value):
        return "unknown"
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:,.12g}"
