"""Every kind of figure and every page can be read by all readers, on screens light and dark, and on paper."""

from __future__ import annotations

import importlib.util
import itertools
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import incast as package
import programs
from accessibility import SEEN, TEXT, contrast, distance, faults
from incast import demo, figures, planning
from incast.advice import pictures as advice
from incast.advice.judging import Ratio
from incast.studies import pictures, reading
from incast.studies.cells import Cells
from incast.studies.charts import Chart, Line, Span
from incast.studies.winners import Cell, WinnerMap
from side_by_side import pictures as ns3

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
    return {"time_ps": time * 1e12, of: np.arange(60) % 6, column: time}


def _plan(style: figures.Style) -> Figure:
    network = planning.Network.read(rate="1Gbps", rtt="100us", buffer="64KB", response="64KB", mss="1460B")
    return planning.draw(planning.plan(network, 40), style)


def _shared_buffer(_: figures.Style) -> Figure:
    path = ROOT / "studies/shared-buffer/tolerance.py"
    spec = importlib.util.spec_from_file_location("tolerance", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look
    spec.loader.exec_module(module)
    drawn = module.figure(module.read())
    assert isinstance(drawn, Figure)
    return drawn


def _ns3_sweep(_: figures.Style) -> Figure:
    study = reading.read(ROOT / "validation/ns3/sweep.toml")
    untied, met = (
        (ROOT / f"validation/ns3/results/sweep-{name}.csv").read_text(encoding="utf-8") for name in ("untied", "met")
    )
    return ns3.sweep(study, untied, met)


def _ns3_grid(_: figures.Style) -> Figure:
    return ns3.grid((ROOT / "validation/ns3/results/grid-held-out-agreement.csv").read_text(encoding="utf-8"))


def _ns3_loss(_: figures.Style) -> Figure:
    windows = {"time_s": np.arange(8.0), "connection": np.arange(8) % 2, "cwnd_bytes": np.full(8, 2920.0)}
    return ns3.dctcp_loss({"windows": windows}, {"windows": (0.0, 8.0)})


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
    "plan of requests": _plan,
    "shared buffers": _shared_buffer,
    "ns-3: sweep": _ns3_sweep,
    "ns-3: grid": _ns3_grid,
    "ns-3: losses": _ns3_loss,
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


@pytest.mark.parametrize("path", sorted((ROOT / "python").rglob("*.html")), ids=lambda path: path.parent.name)
def test_dark_colours_are_for_screens_alone(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    medias = re.findall(r"@media ([^{]*prefers-color-scheme[^{]*){", text)
    assert all(media.startswith("screen and") for media in medias)
    # Else a script sets the class, which takes it away before the page is printed.
    assert medias or ".dark {" in text


@pytest.mark.parametrize("kind", ["report", "demo"])
def test_a_page_is_printed_in_the_colours_of_paper_where_screens_are_dark(kind: str, tmp_path: Path) -> None:
    if kind == "report":
        changes = {"traffic.requests.workers": 20, "traffic.requests.rounds": 1}
        file = package.run("incast", set=changes, inside=True).report(tmp_path / "report.html")
    else:
        demo.main(tmp_path, senders=4, seeds=2)
        file = tmp_path / "index.html"
    colours = programs.printed_colours(tmp_path, file)
    light, dark = (
        {style.paper, style.ink, style.muted, style.grid, *style.cycle} for style in (figures.LIGHT, figures.DARK)
    )
    assert figures.LIGHT.ink in colours
    assert figures.LIGHT.cycle[0] in colours, "curves and cards"
    assert not colours & (dark - light)


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
