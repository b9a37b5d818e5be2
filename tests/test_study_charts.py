"""Charts of studies: round ticks, short numbers, and nothing drawn where a number is missing."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from incast.studies import cells, pictures, svg
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
    ("low", "high", "most", "expected"),
    [
        (0, 105, 5, [0, 25, 50, 75, 100]),
        (7, 103, 10, [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]),
        (0, 1, 5, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (-0.6, 0.1, 4, [-0.6, -0.4, -0.2, 0]),
    ],
)
def test_ticks_are_round_and_inside(low: float, high: float, most: int, expected: list[float]) -> None:
    assert svg.ticks(low, high, most, log=False) == pytest.approx(expected)


def test_ticks_of_a_logarithmic_axis_are_decades_and_parts_of_them() -> None:
    assert svg.ticks(90, 1100, 5, log=True) == [100, 200, 500, 1000]
    assert svg.ticks(0.5, 2e6, 5, log=True) == [1, 10, 100, 1e3, 1e4, 1e5, 1e6]


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
    for x, y in re.findall(r'<circle cx="([^"]+)" cy="([^"]+)"', drawn):
        assert 0 <= float(x) <= 358
        assert 0 <= float(y) <= 290
    assert len(pictures.draw([chart]).axes) == 1


def test_a_point_says_its_interval_and_where_whiskers_end() -> None:
    drawn = svg.draw(CHART, width=704, height=330)
    assert 'data-at="senders: 10" data-said="50 ± 5 [2, 90]"' in drawn
    assert drawn.count("<circle") == 5  # two lines of three points, one of them missing


def test_cells_are_framed_where_they_are_small_enough_and_say_their_values() -> None:
    chart = Cells(
        "off", "x < 1", "y", "difference", ("1", "2", "3"), ("a", "b"), ((0.0, 0.5, 2.0), (NAN, 0.1, 0.2)), 0.1, ""
    )
    assert chart.greatest == 2.0
    drawn = cells.svg(chart, width=358)
    root = ET.fromstring(drawn)  # noqa: S314 - our own
    rects = [rect for rect in root.iter() if rect.tag == "rect"]
    assert len(rects) == 6
    assert [rect.get("class") for rect in rects] == ["within", None, None, None, "within", None]
    titles = [title.text or "" for title in root.iter() if title.tag == "title"]
    assert titles[2] == "x < 1 3, y a: 2"
    assert "unknown" in titles[3]
    assert pictures.draw([chart, CHART]).axes
