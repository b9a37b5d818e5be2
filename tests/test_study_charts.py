"""Charts of studies: short numbers, and nothing drawn where a number is missing."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from incast.studies import pictures, svg
from incast.studies.cells import Cells
from incast.studies.charts import Chart, Line, Span

NAN = float("nan")
CHART = Chart(
    title="a < b",
    x_label="senders",
    y_label="KB",
    lines=(
        Line("one", (1, 10, 100), (5, 50, 500), Span((4, 45, 450), (6, 55, 550)), Span((1, 2, 3), (9, 90, 900))),
        Line("two & more", (1, 10, 100), (7, NAN, 0), Span((NAN, NAN, 0), (NAN, NAN, 1))),
    ),
)


@pytest.mark.parametrize(
    ("value", "written"),
    [(0, "0"), (0.5, "0.5"), (1234.4, "1234"), (9999.7, "10000"), (12345, "12.35 k"), (8.5e8, "850 M"), (2e-5, "20 µ"),
     (-0.475, "-0.475"), (float("nan"), "unknown")],
)  # fmt: skip
def test_numbers_are_short(value: float, written: str) -> None:
    assert svg.quantity(value) == written


def test_a_number_of_few_digits_has_no_exponent() -> None:
    assert svg.quantity(145.3, digits=2) == "150"


@pytest.mark.parametrize(
    "chart",
    [
        CHART,
        replace(CHART, log_x=True, log_y=True),
        replace(CHART, ticks=("1KB", "2KB", "4KB"), lines=(Line("one", (0, 1, 2), (1, 2, 3)),)),
        replace(CHART, is_series=True, limits=(0, 50)),
        replace(CHART, is_series=True, dots=True),
        replace(CHART, lines=()),
        replace(CHART, lines=(Line("flat", (3,), (0,)),)),
    ],
)
def test_every_chart_is_drawn_for_page_and_paper(chart: Chart) -> None:
    drawn = svg.draw(chart, width=358, height=290)
    ET.fromstring(drawn)  # noqa: S314 - our own
    assert not re.search(r"nan|inf", drawn)
    for x, y in re.findall(r'<use x="([^"]+)" y="([^"]+)"[^>]* data-said', drawn):
        assert 0 <= float(x) <= 358
        assert 0 <= float(y) <= 290
    assert not re.search("#[0-9a-f]{6}", drawn), "a colour that is not one of the page"
    assert len(pictures.draw([chart]).axes) == 1


def test_a_point_says_its_interval_and_where_whiskers_end() -> None:
    drawn = svg.draw(CHART, width=704, height=330)
    assert 'data-at="senders: 10" data-said="50 ± 5 [2, 90]"' in drawn
    assert drawn.count("data-said") == 5  # two lines of three points, one of them missing


def test_cells_are_framed_where_they_are_small_enough_and_say_their_values() -> None:
    chart = Cells(
        "off", "x < 1", "y", "difference", ("1", "2", "3"), ("a", "b"), ((0.0, 0.5, 2.0), (NAN, 0.1, 0.2)), 0.1, ""
    )
    assert chart.greatest == 2.0
    drawn = svg.draw(chart, width=358, height=104)
    root = ET.fromstring(drawn)  # noqa: S314 - our own
    assert len(root.findall(".//*[@id='cells']/path")) == 6
    frames = [node for node in root.findall(".//path") if "stroke: var(--ink)" in node.get("style", "")]
    assert len(frames) == 2
    titles = [title.text or "" for title in root.iter() if title.tag == "title"]
    assert titles[2] == "x < 1 3, y a: 2"
    assert "unknown" in titles[3]
    assert pictures.draw([chart, CHART]).axes
