"""What a picture shows must be true of the numbers behind it, also after thinning, and for every reader."""

from __future__ import annotations

import importlib.util
import itertools
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from incast import figures, svg
from incast.studies import reading
from incast.studies.study import Ranking, Trace

ROOT = Path(__file__).parents[1]
STUDIES = sorted(
    path for path in (ROOT / "studies").glob("*/*.toml") if path.name not in {"paper.toml", "scenario.toml"}
)
Numbers = NDArray[np.float64]


def test_a_thinned_series_keeps_peaks_and_what_holds_through_a_gap() -> None:
    # Bursts of 10,000 changes that rise to 60 and fall to 0, then nothing for a second.
    rise = np.r_[np.linspace(0, 60, 5_000), np.linspace(60, 0, 5_000)]
    time = np.concatenate([burst + np.linspace(0, 0.001, len(rise)) for burst in range(7)])
    value = np.tile(rise, 7)
    thin_time, thin_value = figures.thinned(time, value)
    assert len(thin_time) < 6_000
    assert thin_value.max() == 60
    gaps = np.flatnonzero(np.diff(thin_time) > 0.5)
    assert len(gaps) == 6
    assert (thin_value[gaps] == 0).all()


@pytest.mark.parametrize("seed", range(5))
def test_a_thinned_series_shows_the_same_at_every_gap(seed: int) -> None:
    # However the bursts and the points that are kept fall together.
    random = np.random.default_rng(seed)
    time = np.cumsum(np.where(random.random(20_000) < 0.002, 0.2, 1e-6))
    value = random.integers(0, 60, len(time)).astype(float)
    thin_time, thin_value = figures.thinned(time, value)
    assert len(thin_time) < 5_000
    (gaps,) = np.nonzero(np.diff(time) > 0.1)
    assert len(gaps) > 20
    middles = time[gaps] + 0.1
    held = thin_value[np.searchsorted(thin_time, middles, side="right") - 1]
    assert (held == value[gaps]).all()


def test_a_short_series_is_drawn_as_it_is() -> None:
    time = np.arange(100.0)
    assert figures.thinned(time, time)[0] is time


def _windows(sides: Mapping[bool, float]) -> dict[str, NDArray[np.generic]]:
    """Return rows that alternate between the sides of connection 3, whose windows stay as they are."""
    rows = [(side, kib * 1024) for _ in range(10) for side, kib in sides.items()]
    return {
        "time_ps": np.arange(len(rows)) * 10**12, "connection": np.full(len(rows), 3),
        "from_client": np.array([side for side, _ in rows]), "cwnd_bytes": np.array([window for _, window in rows]),
    }  # fmt: skip


def test_the_two_windows_of_a_connection_are_two_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import polars as pl

    drawn: list[Figure] = []

    def keep(figure: Figure) -> bytes:
        drawn.append(figure)
        return b""

    monkeypatch.setattr(figures, "png", keep)
    pl.DataFrame(
        {"class": ["a"], "size_bytes": [1], "fct_s": [float("nan")], "slowdown": [float("nan")]}
    ).write_parquet(tmp_path / "flows.parquet")
    pl.DataFrame(_windows({True: 10.0, False: 64.0})).write_parquet(tmp_path / "windows.parquet")
    figures.from_results(tmp_path)
    opened, accepted = drawn[-1].axes
    assert [set(line.get_ydata()) for line in opened.lines] == [{10.0}]  # type: ignore[arg-type]
    assert [set(line.get_ydata()) for line in accepted.lines] == [{64.0}]  # type: ignore[arg-type]
    assert "opened" in opened.get_title(loc="left")
    assert opened.get_xlim() == accepted.get_xlim()
    # One side alone has one panel.
    pl.DataFrame(_windows({False: 64.0})).write_parquet(tmp_path / "windows.parquet")
    figures.from_results(tmp_path)
    assert len(drawn[-1].axes) == 1


def test_slowdowns_are_percentiles_of_bins_with_as_many_messages_each() -> None:
    sizes = np.arange(1000, dtype=float) + 1
    slowdowns = np.r_[np.tile(np.arange(1.0, 101.0), 10)]
    slowdowns[-100:] = np.nan
    assert figures.has_sizes(sizes, slowdowns)
    assert not figures.has_sizes(np.full(1000, 5.0), slowdowns)
    figure = figures.slowdown({"background": (sizes, slowdowns)})
    (axes,) = figure.axes
    assert axes.get_title(loc="left") == "background (100 of 1,000 have none)"
    assert axes.get_xlabel() == "largest message of each bin of 90 messages"
    drawn = {str(line.get_label()): line for line in axes.lines}
    assert list(drawn) == ["median", "95th percentile", "99th percentile"]
    assert [int(end) for end in np.asarray(drawn["median"].get_xdata())] == list(range(90, 901, 90))
    # The first bin has slowdowns 1 to 90, of which 45 are no larger than 45, and 86 at least 95 %.
    firsts = [float(np.asarray(line.get_ydata())[0]) for line in drawn.values()]
    assert firsts == [np.quantile(np.arange(1.0, 91.0), share, method="inverted_cdf") for share in (0.5, 0.95, 0.99)]


@pytest.mark.parametrize(("suffix", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_figures_for_papers_are_the_same_bytes_every_time(
    tmp_path: Path, suffix: figures.Suffix, begins: bytes
) -> None:
    import polars as pl

    pl.DataFrame(
        {"class": ["a", "a"], "size_bytes": [1, 2], "fct_s": [0.1, 0.2], "slowdown": [1.0, 2.0]}
    ).write_parquet(tmp_path / "flows.parquet")
    style = figures.LIGHT.as_wide_as("column")
    once, again = (figures.from_results(tmp_path, style=style, suffix=suffix)[0].read_bytes() for _ in range(2))
    assert once == again
    assert once.startswith(begins)
    # Publishers refuse fonts of type 3.
    assert b"/Type3" not in once
    # Letters in a vector figure are letters, which can be searched and edited.
    assert (b">share of messages</text>" in once) is (suffix == "svg")
    # What is drawn anew replaces pictures of every kind.
    assert [path.suffix for path in tmp_path.iterdir() if path.stem == "completion-times"] == [f".{suffix}"]


@pytest.mark.parametrize(("width", "points"), [("page", 432), ("column", 241.2), ("columns", 504)])
def test_figures_are_as_wide_as_a_page_or_the_columns_of_a_paper(width: figures.Width, points: float) -> None:
    picture = figures.svg(figures.completion_times({"a": np.array([0.1, 0.2])}, style=figures.LIGHT.as_wide_as(width)))
    assert f'width="{points:g}pt"'.encode() in picture


def test_a_message_that_is_not_complete_counts_as_one_that_is_not() -> None:
    times = np.r_[np.linspace(0.001, 0.002, 63), np.full(737, np.nan)]
    figure = figures.completion_times({"requests": times, "none": np.full(5, np.nan), "all": times[:63]})
    (axes,) = figure.axes
    ends = {str(line.get_label()): np.r_[0.0, line.get_ydata()][-1] for line in axes.lines}
    assert ends == {"requests (63 of 800 complete)": 63 / 800, "none (0 of 5 complete)": 0.0, "all (63)": 1.0}


def test_a_picture_of_some_of_the_links_says_so() -> None:
    table = {
        "time_ps": np.zeros(8), "link": np.arange(8), "waiting_packets": np.ones(8),
        "waiting_bytes": np.full(8, 2048.0),
    }  # fmt: skip
    (axes,) = figures.queue({"": table}).axes
    assert len(axes.lines) == 6
    assert axes.get_title(loc="left") == "the first 6 of 8 links"
    (axes,) = figures.queue({"": {name: row[:2] for name, row in table.items()}}, unit="KiB").axes
    assert axes.get_title(loc="left") == ""
    assert axes.get_ylabel() == "KiB waiting"
    assert list(axes.lines[0].get_ydata()) == [2.0]  # type: ignore[arg-type]


@pytest.mark.parametrize(("low", "high"), [(1.41e-3, 1.47e-3), (1e-3, 9e-3), (2e-4, 3e-3), (1e-4, 0.2), (1e-6, 10.0)])
@pytest.mark.parametrize("style", [figures.LIGHT, svg.STYLE])
def test_an_axis_of_completion_times_has_numbers(low: float, high: float, style: figures.Style) -> None:
    figure = figures.completion_times({"requests": np.array([low, high])}, style=style)
    figure.draw_without_rendering()
    axes = figure.axes[0]
    shown = [
        label for place, label in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
        if axes.get_xlim()[0] <= place <= axes.get_xlim()[1] and label.get_text()
    ]  # fmt: skip
    assert len(shown) >= 2
    boxes = [label.get_window_extent() for label in shown]
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes)), "numbers run into one another"


def test_a_pdf_has_fonts_that_publishers_take() -> None:
    file = figures.pdf(figures.completion_times({"requests": np.array([1.0, 2.0])}))
    assert b"/Type3" not in file
    assert b"/TrueType" in file or b"/CIDFontType2" in file


def test_no_two_protocols_look_alike_and_no_two_curves_of_a_figure() -> None:
    same = [{"NewReno", "TCP"}, {"D2TCP", "D2TCP-IC"}, {"MRG", "MRG-IC"}]
    for one, other in itertools.combinations(figures.LOOKS, 2):
        alike = figures.LOOKS[one] == figures.LOOKS[other]
        assert alike is ({one, other} in same), (one, other)
    assert len(STUDIES) > 50
    for path in STUDIES:
        study = reading.read(path)
        if study.panels and all(isinstance(panel, Ranking) for panel in study.panels):
            continue  # tables, no figure
        labels = [curve.label for curve in study.curves]
        looks = figures.looks(labels)
        assert len(set(looks)) == len(labels), path
        assert len({look.colour for look in looks}) == min(len(labels), len(figures.LIGHT.cycle)), path
        # Where lines are not drawn, colour and marker have to do.
        assert len({(look.colour, look.hollow) for look in looks}) == len(labels), path
        # Panels over time have no dashes, only a marker for each colour.
        assert len(labels) <= len(figures.LIGHT.cycle) or not any(isinstance(one, Trace) for one in study.panels), path
        for label, look in zip(labels, looks, strict=True):
            assert figures.LOOKS.get(label, look) == look


def test_a_known_protocol_keeps_its_look_beside_others() -> None:
    newreno, other, dctcp = figures.looks(["NewReno", "mine", "DCTCP"])
    assert (newreno, dctcp) == tuple(figures.looks(["NewReno", "DCTCP"]))
    assert figures.looks(["DCTCP"]) == [dctcp]
    assert other.colour not in {newreno.colour, dctcp.colour}
    assert len(figures.looks(map(str, range(9)))) == 9


# The pictures of the pages that are drawn from tables, and the tables.
DRAWN = {
    "goodput": "docs/images/goodput.csv",
    "ars-goodput": "studies/ars/figure-6.csv",
    "risk-windows": "studies/ars/theory-windows.csv",
    "risk-slow-start": "studies/ars/theory-slow-start.csv",
    "incast-detector": "studies/pulser/detector.csv",
    "incast-tolerance": "studies/shared-buffer/tolerance.csv",
    "ns3-sweep": "validation/ns3/results/sweep-untied.csv validation/ns3/results/sweep-met.csv",
    "ns3-grid-work": "validation/ns3/results/grid-work-agreement.csv",
    "ns3-grid-held-out": "validation/ns3/results/grid-held-out-agreement.csv",
    "linux-grid": "validation/linux/results/grid.csv",
    "linux-senders": "studies/linux/senders.csv",
    "linux-mechanisms": "validation/linux/results/mechanisms.csv",
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_of_the_pages_is_drawn_from_the_table_of_today(name: str) -> None:
    table = "".join((ROOT / path).read_text(encoding="utf-8") for path in DRAWN[name].split())
    with Image.open(ROOT / "docs" / "images" / f"{name}.png") as picture:
        found = picture.info.get("Description")
    assert found == figures.description(table), f"draw docs/images/{name}.png again"


def _tolerance() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tolerance", ROOT / "studies/shared-buffer/tolerance.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look
    spec.loader.exec_module(module)
    return module


def test_the_table_of_shared_buffers_is_of_today(capsys: pytest.CaptureFixture[str]) -> None:
    assert _tolerance().check() == 0, capsys.readouterr().err


def test_the_page_on_shared_buffers_quotes_its_table() -> None:
    page = " ".join((ROOT / "docs/explanation/shared-buffers.md").read_text(encoding="utf-8").split())
    study = _tolerance()
    found = study.read()

    def at(background: str, congested: int, alpha: float) -> str:
        return str(found[study.Point(background, congested, alpha)])

    newreno = {congested: [found[study.Point("newreno", congested, alpha)] for alpha in study.ALPHAS]
               for congested in study.CONGESTED}  # fmt: skip
    quoted = {
        r"tolerates (\d+) senders with alpha 1, and (\d+) with alpha 8": (at("newreno", 0, 1.0), at("newreno", 0, 8.0)),
        r"with four such ports, from (\d+) senders to (\d+)": (str(max(newreno[4])), at("newreno", 4, 8.0)),
        r"with one such port, from (\d+) to (\d+)": (str(max(newreno[1])), at("newreno", 1, 8.0)),
        r"four congested ports the switch tolerates (\d+) senders, and only (\d+) next to NewReno": (
            at("dctcp", 4, 8.0), at("newreno", 4, 8.0),
        ),
    }  # fmt: skip
    for pattern, numbers in quoted.items():
        assert re.findall(pattern, page) == [numbers], pattern
    assert "stops growing at alpha 1/2 to 2 and falls beyond" in page
    for congested in (1, 4, 8):
        best = study.ALPHAS[int(np.argmax(newreno[congested]))]
        assert 0.5 <= best <= 2
        assert newreno[congested][-1] < newreno[congested][-2] < max(newreno[congested])


def test_a_description_is_of_the_numbers_alone() -> None:
    assert figures.description("# incast 1\na,b\n") == figures.description("# incast 2\na,b\n")
    assert figures.description("a,b\n") != figures.description("a,c\n")
    figure = figures.goodput({"NewReno": {1: [1e6, 2e6]}})
    assert figures.description("a,b\n").encode() in figures.png(figure, table="a,b\n")
    assert b"Description" not in figures.png(figure)
