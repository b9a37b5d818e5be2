"""Charts of studies: short numbers, and nothing drawn where a number is missing."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from incast import figures
from incast.studies import charts, claims, page_charts, pictures, pooling, reading, report, table
from incast.studies.cells import Cells
from incast.studies.charts import Chart, Line, Span
from incast.studies.study import Lines

STUDIES = Path(__file__).parents[1] / "studies"
NAN = float("nan")
CHART = Chart(
    title="a < b",
    x_label="senders",
    y_label="KB",
    unit="KB",
    lines=(
        Line("one", (1, 10, 100), (5, 50, 500), Span((4, 45, 450), (6, 55, 550)), Span((1, 2, 3), (9, 90, 900))),
        Line("two & more", (1, 10, 100), (7, NAN, 0), Span((NAN, NAN, 0), (NAN, NAN, 1))),
    ),
)


@pytest.mark.parametrize(
    ("value", "written"),
    [(0, "0"), (0.5, "0.5"), (1234.4, "1,234"), (9999.7, "10,000"), (12346, "12,350"), (6.969e-8, "6.969e-08"),
     (-0.475, "-0.475"), (float("nan"), "unknown")],
)  # fmt: skip
def test_numbers_are_short_and_have_no_prefix_beside_a_unit(value: float, written: str) -> None:
    assert page_charts.quantity(value) == written


def test_a_number_of_few_digits_has_no_exponent() -> None:
    assert page_charts.quantity(145.3, digits=2) == "150"


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
    drawn = page_charts.draw(chart)
    ET.fromstring(drawn)  # noqa: S314 - our own
    assert not re.search(r"nan|inf", drawn)
    for x, y in re.findall(r'<use x="([^"]+)" y="([^"]+)"[^>]* data-said', drawn):
        width, height = map(float, ET.fromstring(drawn).get("viewBox", "").split()[2:])  # noqa: S314 - our own
        assert 0 <= float(x) <= width
        assert 0 <= float(y) <= height
    assert not re.search("#[0-9a-f]{6}", drawn), "a colour that is not one of the page"
    assert len(pictures.draw([chart]).axes) == 1


@pytest.mark.parametrize("curves", [4, 11])
def test_a_legend_of_many_rows_takes_no_room_from_the_panels(curves: int) -> None:
    lines = tuple(replace(CHART.lines[0], label=f"a curve with quite a long name, number {n}") for n in range(curves))
    figure = pictures.draw([replace(CHART, lines=lines)] * 2)
    FigureCanvasAgg(figure)
    first, second = (axes.get_tightbbox() for axes in figure.axes)
    assert first is not None
    assert second is not None
    assert first.y0 > second.y1
    assert all(axes.get_window_extent().height > figure.dpi for axes in figure.axes), "less than an inch"


def test_a_point_says_its_interval_and_where_whiskers_end() -> None:
    drawn = page_charts.draw(CHART)
    assert 'data-at="senders: 10" data-said="50 ± 5 [2, 90] KB"' in drawn
    assert drawn.count("data-said") == 5  # two lines of three points, one of them missing


def test_points_of_a_study_have_the_unit_of_its_metric() -> None:
    study = reading.read(STUDIES / "ars" / "figure-6.toml")
    numbers = table.read(study)
    assert numbers
    goodput, timeouts = (charts.of_lines(study, one, numbers) for one in study.panels if isinstance(one, Lines))
    assert (goodput.unit, timeouts.unit) == ("Mbit/s", "")
    said = re.findall('data-said="([^"]*)"', page_charts.draw(goodput))
    assert len(said) == 4 * len(study.axis("workers").shown)
    assert all(one.endswith(" Mbit/s") for one in said)


def test_a_curve_has_one_look_on_the_page_and_in_its_legend() -> None:
    names = ("NewReno", "mine", "DCTCP")
    chart = replace(CHART, lines=tuple(Line(name, (1, 2), (n, n)) for n, name in enumerate(names)))
    legend = ET.fromstring(re.findall('<div class="legend">.*?</div>', report._panel(chart))[0])  # noqa: S314 - our own
    drawn = ET.fromstring(page_charts.draw(chart))  # noqa: S314 - our own
    for index, (button, look) in enumerate(zip(legend, figures.looks(names), strict=True)):
        assert button.get("class") == f"c{look.colour}"
        # A picture, not a background: browsers print those only where they are told to.
        pattern = button.find("svg/path").get("stroke-dasharray")  # type: ignore[union-attr]
        (curve,) = drawn.findall(f".//g[@data-curve='{index}']/path")
        assert f"var(--c{look.colour})" in curve.get("style", "") or look.colour == 4
        assert ("stroke-dasharray" in curve.get("style", "")) is (pattern != "none")
    page = resources.files("incast.studies").joinpath("report.html").read_text(encoding="utf-8")
    assert not re.search(r"background: var\(--own\);(?! print-color-adjust: exact)", page)
    assert "@media screen and (prefers-color-scheme: dark)" in page


@pytest.mark.parametrize(
    "names",
    [
        ("no clamp", "8 segments", "4 segments", "2 segments", "1 segment"),
        ("20 % load", "40 % load", "60 % load", "80 % load"), ("TCP", "DCTCP"), ("i" * 24, "m" * 24), ("W" * 30, "a"),
    ],
)  # fmt: skip
def test_the_names_of_curves_fit_beside_one_another(names: Sequence[str]) -> None:
    lines = tuple(Line(name, (1, 2), (1, 2)) for name in names)
    figure = pictures.draw([replace(CHART, lines=lines), CHART])
    legend = figure.axes[0].get_legend()
    assert legend
    assert legend.get_window_extent().x1 <= figure.bbox.x1
    # A legend that is too wide would take the room of the panel.
    widths = [axes.get_position().width for axes in figure.axes]
    assert min(widths) > 0.8


def test_no_line_leads_from_one_kind_to_another() -> None:
    band = Span((0, 1, 2), (2, 3, 4))
    lines = (Line("one", (0, 1, 2), (1, 2, 3), band), Line("two", (0, 1, 2), (3, 2, 1), band))
    kinds = replace(CHART, lines=lines, ticks=("as set", "10 ms", "none"))
    (axes,) = pictures.draw([kinds]).axes
    assert [line.get_linestyle() for line in axes.lines] == ["None", "None"]
    first, second = (np.asarray(line.get_xdata()) for line in axes.lines)
    assert (first < second).all()
    said = re.findall('data-at="([^"]*)"', page_charts.draw(kinds))
    assert said == 2 * ["senders: as set", "senders: 10 ms", "senders: none"]
    (axes,) = pictures.draw([replace(kinds, ticks=("1KB", "2KB", "4KB"))]).axes
    assert [line.get_linestyle() for line in axes.lines] != ["None", "None"]


@pytest.mark.parametrize("count", [3, 12, 36])
def test_names_of_kinds_do_not_run_into_one_another(count: int) -> None:
    lines = (Line("one", tuple(range(count)), (1,) * count),)
    figure = pictures.draw([replace(CHART, lines=lines, ticks=tuple(f"d{kind:02}" for kind in range(count)))])
    figure.draw_without_rendering()
    (axes,) = figure.axes
    names = [label for label in axes.get_xticklabels() if label.get_text().strip()]
    assert len(names) >= min(count, 9)
    for row in (names[::2], names[1::2]):
        boxes = [label.get_window_extent() for label in row]
        assert all(left.x1 <= right.x0 for left, right in itertools.pairwise(boxes))
    if not any("\n" in label.get_text() for label in names):
        boxes = [label.get_window_extent() for label in names]
        assert all(left.x1 <= right.x0 for left, right in itertools.pairwise(boxes))


def test_names_of_rows_do_not_run_into_one_another() -> None:
    chart = Cells("a", "x", "y", "", ("1",), tuple(f"row {row}" for row in range(20)), ((0.5,),) * 20, None, "")
    figure = pictures.draw([chart])
    boxes = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
    assert all(lower.y1 <= upper.y0 for lower, upper in itertools.pairwise(boxes))


def test_a_percentile_of_all_seeds_is_that_of_their_values_together() -> None:
    runs = [np.arange(1.0, 1001.0), np.arange(1001.0, 2001.0), np.array([])]
    assert pooling.percentile(runs, 50).value == 1000
    assert pooling.percentile(runs, 99.9).value == 1998
    assert pooling.percentile(runs[:1], 99.9) == (999, 999, 999)
    # Every resample is the percentile of what is drawn, one seed as often as it was.
    drawn = [np.concatenate([runs[seed] for seed in row]) for row in claims.resampled(3)[1:]]
    percentiles = [np.quantile(one, 0.9, method="inverted_cdf") if len(one) else np.nan for one in drawn]
    low, high = np.nanquantile(percentiles, [0.025, 0.975], method="inverted_cdf")
    assert pooling.percentile(runs, 90)[1:] == (low, high)
    # What is not complete is longer than all the rest.
    late = pooling.percentile([np.array([1.0, 2.0, np.inf, np.inf])] * 2, 50)
    assert late == (2, 2, 2)
    assert np.isnan(pooling.percentile([np.array([1.0, np.inf])] * 2, 51).value)


def test_captions_name_what_is_drawn() -> None:
    for path, said in (
        (STUDIES / "pulser/table-1.toml", "Dots are means"),
        (STUDIES / "ars/figure-6.toml", "Lines are"),
    ):
        study = reading.read(path)
        numbers = table.read(study)
        assert numbers
        shown = [charts.of_lines(study, one, numbers) for one in study.panels if isinstance(one, Lines)]
        assert all(chart.caption.startswith(said) for chart in shown)


def test_intervals_of_shares_are_cut_where_no_share_can_be() -> None:
    study = reading.read(STUDIES / "ours" / "deadlines.toml")
    numbers = table.read(study)
    assert numbers
    missed, time = (charts.of_lines(study, one, numbers) for one in study.panels if isinstance(one, Lines))
    bands = [line.band for line in missed.lines if line.band]
    assert min(min(band.low) for band in bands) == 0
    assert max(max(band.high) for band in bands) == 1
    for line in missed.lines:
        assert line.band
        assert all(low <= mean <= high for low, mean, high in zip(line.band.low, line.y, line.band.high, strict=True))
    assert "(Student's t), cut at 0 and 1, beyond which no share can be." in missed.caption
    assert "cut at" not in time.caption
    assert max(max(line.band.high) for line in time.lines if line.band) > 1
    # What is no part of a whole is not bent.
    assert charts._as_shares(Span((-0.2, 0.9), (0.4, 1.7)), [0.1, 1.3]) == Span((0.0, 0.9), (0.4, 1.3))


def test_an_axis_starts_at_zero_though_a_band_reaches_below() -> None:
    band = Span((-4, 4), (6, 8))
    (axes,) = pictures.draw([replace(CHART, lines=(Line("one", (1, 2), (1, 6), band),))]).axes
    assert axes.get_ylim()[0] == 0
    (axes,) = pictures.draw([replace(CHART, lines=(Line("one", (1, 2), (-1, 6), band),))]).axes
    assert axes.get_ylim()[0] < -1


@pytest.mark.parametrize("limits", [(2.0, 3.0), (2.0, 70.0), (2e-5, 0.9)])
def test_a_logarithmic_axis_has_numbers(limits: tuple[float, float]) -> None:
    lines = (Line("one", limits, limits),)
    (axes,) = pictures.draw([replace(CHART, lines=lines, log_x=True, log_y=True, is_series=True)]).axes
    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        ticks = zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=True)
        assert sum(low <= place <= high and bool(label.get_text()) for place, label in ticks) >= 2


def test_cells_are_framed_where_they_are_small_enough_and_say_their_values() -> None:
    chart = Cells(
        "off", "x < 1", "y", "difference", ("1", "2", "3"), ("a", "b"), ((0.0, 0.5, 2.0), (NAN, 0.1, 0.2)), 0.1, ""
    )
    assert chart.greatest == 2.0
    assert chart.heading == "off (difference)"
    assert pictures.draw([chart]).axes[0].get_title(loc="left") == chart.heading
    drawn = page_charts.draw(chart)
    root = ET.fromstring(drawn)  # noqa: S314 - our own
    assert len(root.findall(".//*[@id='cells']/path")) == 6
    # The page's script moves it, and reads points that a map does not have.
    assert root.find("line[@class='cursor']") is not None
    frames = [node for node in root.findall(".//path") if "stroke: var(--ink)" in node.get("style", "")]
    assert len(frames) == 2
    titles = [title.text or "" for title in root.iter() if title.tag == "title"]
    assert titles[2] == "x < 1 3, y a: 2"
    assert "unknown" in titles[3]
    assert pictures.draw([chart, CHART]).axes
