"""Every kind of figure and every page can be read by all readers, on screens light and dark, and on paper."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from accessibility import SEEN, TEXT, contrast, distance, faults
from incast import figures
from incast.advice import pictures as advice
from incast.advice.judging import Ratio
from incast.studies import pictures
from incast.studies.cells import Cells
from incast.studies.charts import Chart, Line, Span
from incast.studies.winners import Cell, WinnerMap

ROOT = Path(__file__).parents[1]
STYLES = {style.name: style for style in (figures.LIGHT, figures.DARK)}
# As many as there are colours, of two that have their own looks; HPCC has the dash of NewReno.
NAMES = ("NewReno", "HPCC", "mine", "yours", "theirs", "Pulser")


def test_the_distance_of_colours_is_that_of_the_literature() -> None:
    assert distance("#000000", "#ffffff", SEEN["all"]) == pytest.approx(100, abs=0.01)
    # Vermilion and dark goldenrod, which are nearly one colour without green cones.
    assert distance("#d55e00", "#b8860b", SEEN["all"]) > 10
    assert distance("#d55e00", "#b8860b", SEEN["no green"]) < 3


@pytest.mark.parametrize("style", [figures.LIGHT, figures.DARK], ids=lambda style: style.name)
@pytest.mark.parametrize("seen", SEEN)
def test_colours_differ_for_every_reader(style: figures.Style, seen: str) -> None:
    for one, other in itertools.combinations(style.cycle, 2):
        assert distance(one, other, SEEN[seen]) >= 10, (one, other)
    for colour in style.cycle:
        assert contrast(colour, style.paper) >= 3, colour


def _chart(**changes: object) -> Callable[[figures.Style], Figure]:
    band, whiskers = Span((1, 2, 3), (3, 4, 5)), Span((0, 1, 2), (4, 5, 6))
    lines = tuple(Line(name, (1, 2, 3), (2 + n, 3 + n, 4), band, whiskers) for n, name in enumerate(NAMES))
    chart = replace(Chart("title", "x", "y", lines), **changes)  # type: ignore[arg-type]
    return lambda style: pictures.draw([chart], style)


def _cells(style: figures.Style) -> Figure:
    names = tuple(str(column) for column in range(9))
    values = (tuple(column / 8 for column in range(9)), (float("nan"),) * 9)
    return pictures.draw([Cells("title", "x", "y", "share", names, ("a", "b"), values, 0.2, "")], style)


def _winners(style: figures.Style) -> Figure:
    means = (1.0, 2.0, 3.0)
    row = tuple(Cell(str(best), "y", means, best, (best + 1) % 3, is_clear=best == 0) for best in range(3))
    chart = WinnerMap("title", "x", "y", ("0", "1", "2"), ("y",), NAMES[:3], (0, 1, 2), (row,), True, "")
    return pictures.draw([chart], style)


def _advice_sweep(style: figures.Style) -> Figure:
    verdicts = ("collapses", "does not collapse", "seeds differ")
    points: Any = [SimpleNamespace(fan_in=4 * n, ratio=Ratio(n, n / 2, 2 * n), verdict=verdict)
                   for n, verdict in enumerate(verdicts, 1)]  # fmt: skip
    return advice.draw_sweep(points, style)


def _advice_ranking(style: figures.Style) -> Figure:
    judged = ("better", "no difference", "worse", "not known")
    results: Any = [SimpleNamespace(candidate=SimpleNamespace(id=name), p99=Ratio(1, 0.5, 2), judged=name)
                    for name in judged]  # fmt: skip
    return advice.draw_ranking(results, style)


def _over_time(column: str, of: str) -> dict[str, np.ndarray[Any, Any]]:
    time = np.arange(60.0)
    return {"time_s": time, of: np.arange(60) % 6, column: time}


KINDS: dict[str, Callable[[figures.Style], Figure]] = {
    "goodput": lambda style: figures.goodput(
        {name: {1: [1e6, 2e6], 2: [1e6, 3e6]} for name in NAMES}, line_rate_bps=1e7, style=style
    ),
    "completion times": lambda style: figures.completion_times(
        {name: np.array([1.0, 2.0, np.nan]) for name in NAMES}, style=style
    ),
    "slowdown": lambda style: figures.slowdown({"": (np.arange(1, 200), np.linspace(1, 9, 199))}, style=style),
    "queue": lambda style: figures.queue({"": _over_time("waiting_packets", "link")}, levels={"K": 20}, style=style),
    "windows": lambda style: figures.windows({"": _over_time("cwnd_bytes", "connection")}, style=style),
    "lines": _chart(),
    "kinds": _chart(ticks=("some", "more", "most")),
    "series": _chart(is_series=True),
    "dots": _chart(is_series=True, dots=True),
    "cells": _cells,
    "winners": _winners,
    "sweep of the advice": _advice_sweep,
    "ranking of the advice": _advice_ranking,
}


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_reader_can_read_a_figure_and_tell_its_curves_apart(kind: str, style: figures.Style) -> None:
    assert faults(KINDS[kind](style)) == []


def test_curves_without_markers_have_dashes_of_their_own() -> None:
    for pair in itertools.permutations(figures.LOOKS, 2):
        first, second = figures.with_own_dashes(figures.looks(pair))
        assert first == figures.LOOKS[pair[0]]
        assert first.dash != second.dash, pair
        assert second.colour == figures.LOOKS[pair[1]].colour
    dashes = [look.dash for look in figures.with_own_dashes(figures.looks(map(str, range(7))))]
    assert len(set(dashes)) == 6


def test_a_bad_palette_is_found() -> None:
    # Red and green of one lightness, and a yellow and a grey that are hard to see on white.
    bad = replace(
        figures.LIGHT, cycle=("#c84c00", "#5c7f00", "#f0e442", "#c060d0", "#1a1c1e", "#8f3a3a"), muted="#9aa1a7"
    )
    with figures.rc(bad):
        figure, (axes,) = figures.stacked(1, 3.0, bad)
        for name, colour in zip("abc", bad.cycle, strict=False):
            axes.plot([1, 2], [1, 2], color=colour, label=name)
        axes.annotate("limit", (1, 1), color=bad.muted)
        axes.vlines([1], 0, 1, color=bad.cycle[4], alpha=0.3)
        figures.legend_above(axes, bad)
    assert faults(figure) == [
        "contrast of the text 'limit': 2.6", "contrast of c: 1.3", "contrast of bars: 1.9",
        "a and b differ in colour alone",
    ]  # fmt: skip
    axes.lines[1].set_marker("s")
    assert "a and b differ in colour alone" not in faults(figure)
    black = _cells(replace(figures.LIGHT, cycle=("#000000",)))
    assert "contrast of the text '1.00': 3.6" in faults(black)


def test_colours_of_pages_are_those_of_pictures() -> None:
    # A colour that is written down a second time would differ one day.
    for path in [*(ROOT / "python").rglob("*.html"), *(ROOT / "python").rglob("*.py")]:
        if path.name != "figures.py":
            text = path.read_text(encoding="utf-8").lower()
            for colour in {*figures.LIGHT.cycle, *figures.DARK.cycle} - {figures.LIGHT.ink, figures.DARK.ink}:
                assert colour not in text, path


@pytest.mark.parametrize("path", sorted((ROOT / "python").rglob("*.html")), ids=lambda path: path.parent.name)
def test_the_text_of_pages_can_be_read(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    rules = re.findall(r"(?::root|\.dark)[^{]*{([^}]*--paper[^}]*)}", text)
    assert len(rules) >= 2, "light and dark"
    for rule in rules:
        colours = {name: value if len(value) == 7 else "#" + "".join(2 * one for one in value[1:])
                   for name, value in re.findall(r"--(\w+): (#\w+);", rule)}  # fmt: skip
        for name in {"ink", "muted", "link", "good", "half", "bad"} & colours.keys():
            for below in {"paper", "soft"} & colours.keys():
                assert contrast(colours[name], colours[below]) >= TEXT, (name, below)
