"""What readers with other eyes, and printers without colours, see of a figure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, QuadMesh
from matplotlib.colors import to_hex, to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

# How readers without the cones of one kind see red, green and blue light: Machado, Oliveira and Fernandes (2009).
SEEN: dict[str, Numbers] = {
    "all": np.eye(3),
    "no red": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "no green": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "no blue": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
# The least contrasts of the Web Content Accessibility Guidelines 2.2, level AA (1.4.3 and 1.4.11).
TEXT, GRAPHICS = 4.5, 3.0
# Hundredths of lightness in OKLab, of which black and white differ by 100, that two greys of thin lines must differ by.
GREYS = 20.0


def light(colour: str) -> Numbers:
    """Return the red, green and blue light of a colour, from 0 to 1."""
    part = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def oklab(light: Numbers) -> Numbers:
    """Return lightness and two axes of colour."""
    cones = np.array(
        [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
         [0.0883024619, 0.2817188376, 0.6299787005]]
    )  # fmt: skip
    axes = np.array(
        [[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
         [0.0259040371, 0.7827717662, -0.8086757660]]
    )  # fmt: skip
    return np.asarray(axes @ np.cbrt(cones @ light))


def distance(one: str, other: str, seen: Numbers) -> float:
    """Return the distance in hundredths; black and white differ by 100."""
    here, there = (oklab(np.clip(seen @ light(colour), 0, 1)) for colour in (one, other))
    return float(np.linalg.norm(here - there)) * 100


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours as the guidelines define it, from 1 to 21."""
    dark, bright = sorted(float(np.array([0.2126, 0.7152, 0.0722]) @ light(colour)) for colour in (one, other))
    return (bright + 0.05) / (dark + 0.05)


def lightness(colour: str, seen: Numbers) -> float:
    """Return the lightness of a colour in hundredths."""
    return float(oklab(np.clip(seen @ light(colour), 0, 1))[0]) * 100


def faults(figure: Figure) -> list[str]:
    """Return what some readers cannot read or tell apart in a figure, on screen or on paper."""
    paper = to_hex(figure.get_facecolor())
    found = []
    for axes in figure.axes:
        found += [f"contrast of the text {text!r}: {value:.1f}" for text, value in _texts(axes, paper) if value < TEXT]
        found += [f"contrast of {name}: {value:.1f}" for name, value in _graphics(axes, paper) if value < GRAPHICS]
        for one, other in itertools.combinations(_curves(axes), 2):
            if _sign(one) == _sign(other):
                greys = [[lightness(to_hex(line.get_color()), seen) for line in (one, other)] for seen in SEEN.values()]
                if min(abs(first - second) for first, second in greys) < GREYS:
                    found.append(f"{one.get_label()} and {other.get_label()} differ in colour alone")
    return found


def _over(colour: object, alpha: float | None, paper: str) -> str:
    """Return the colour that is seen of a transparent one."""
    red, green, blue, own = to_rgba(colour)  # type: ignore[arg-type]
    opaque = own if alpha is None else alpha
    seen = opaque * np.array([red, green, blue]) + (1 - opaque) * np.array(to_rgba(paper)[:3])
    return to_hex(tuple(seen))


def _texts(axes: Axes, paper: str) -> Iterator[tuple[str, float]]:
    meshes = [mesh for mesh in axes.collections if isinstance(mesh, QuadMesh)]
    for text in axes.findobj(Text):
        assert isinstance(text, Text)
        if not text.get_text().strip() or not text.get_visible():
            continue
        below = paper
        if meshes and text in axes.texts:
            column, row = (int(place) for place in text.get_position())
            colours = np.asarray(meshes[0].get_facecolor()).reshape(*np.asarray(meshes[0].get_array()).shape, 4)
            below = _over(tuple(colours[row, column]), None, paper)
        yield text.get_text(), contrast(_over(text.get_color(), text.get_alpha(), below), below)


def _graphics(axes: Axes, paper: str) -> Iterator[tuple[str, float]]:
    for line in _curves(axes):
        yield str(line.get_label()), contrast(_over(line.get_color(), line.get_alpha(), paper), paper)
    for bars in axes.collections:
        if isinstance(bars, LineCollection):
            for colour in np.asarray(bars.get_edgecolor()):
                yield "bars", contrast(_over(tuple(colour), bars.get_alpha(), paper), paper)


def _curves(axes: Axes) -> list[Line2D]:
    return [line for line in axes.lines if not str(line.get_label()).startswith("_")]


def _sign(line: Line2D) -> tuple[object, object]:
    """Return what two curves differ in for readers who see no colours."""
    style = line.get_linestyle()
    # Of dashes there is no public name but "--".
    return (line._unscaled_dash_pattern if style == "--" else style), line.get_marker()  # type: ignore[attr-defined]
