"""Pictures inside of pages: as matplotlib draws them, in the variables of the page, which may be light or dark."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import TYPE_CHECKING

import matplotlib as mpl

from incast import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# One drawing for every screen: two stand side by side on a wide one, and a phone shows it a little smaller.
STYLE = replace(figures.LIGHT, width_in=5.2)
_SVG, _LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
# The colours of a picture, and the variables of the page that take their place.
_VARIABLES = {
    **{colour: f"c{index}" for index, colour in enumerate(figures.LIGHT.cycle)},
    figures.LIGHT.paper: "paper", figures.LIGHT.ink: "ink", figures.LIGHT.muted: "muted", figures.LIGHT.grid: "rule",
}  # fmt: skip


def variables(style: figures.Style) -> str:
    """Return the declarations of the colours of curves for a page."""
    return " ".join(f"--c{index}: {colour};" for index, colour in enumerate(style.cycle))


def element(figure: Figure, name: str) -> ET.Element:
    """Return a figure in `STYLE` as an element of a page, with the name that readers of screens hear."""
    file = io.StringIO()
    with figures.rc(STYLE), mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "incast"}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    root = ET.fromstring(file.getvalue())  # noqa: S314 - our own
    del root[:2]  # who made it, and a style for the whole page
    for node in root.iter():
        _adapt(node)
    root.attrib = {"class": "chart", "viewBox": root.attrib["viewBox"], "role": "img", "aria-label": name}
    return root


def text(root: ET.Element) -> str:
    """Write the element in the colours of the page."""
    written = ET.tostring(root, encoding="unicode")
    for colour, variable in _VARIABLES.items():
        written = written.replace(colour, f"var(--{variable})")
    return written


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
