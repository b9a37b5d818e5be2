"""Maps of winners: which curve is best where, whether that is clear, and what it costs to take one everywhere."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from conftest import Command, small_paper
from incast import ScenarioError
from incast.studies import page_charts, pictures, reading, winners
from incast.studies.study import Winners, for_readers
from incast.studies.table import Table
from incast.studies.winners import WinnerMap

AXIS = """[axes.size]
label = "size"
key = "traffic.burst.response"
values = ["1KiB", "2KiB"]

[curves.tcp]"""
ICTCP = """[curves.ictcp]
label = "ICTCP < all"
set = { "stack.receiver" = "ictcp" }

[metrics.goodput]"""
PANEL = """[[panels]]
kind = "winners"
x = "workers"
y = "size"
metric = "drops"
best = "lowest"

[[panels]]"""
# Of each curve three seeds at each point: by size, then number of workers.
DROPS: dict[str, list[list[tuple[float | None, ...]]]] = {
    "tcp": [[(1, 1, 1), (1, 2, 3), (10, 10, 10)], [(0, 0, 0), (None, 1, 1), (None, 1, 1)]],
    "dctcp": [[(2, 2, 2), (1, 2, 4), (5, 5, 5)], [(3, 3, 3), (4, 4, 4), (1, 1, None)]],
    "ictcp": [[(4, 4, 4), (9, 9, 9), (4.95, 4.95, 4.95)], [(0, 0, 0), (2, 2, 2), (1, None, 1)]],
}


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = small_paper(tmp_path) / "figure-1.toml"
    text = path.read_text(encoding="utf-8").split("[[claims]]")[0].replace("[curves.tcp]", AXIS, 1)
    text = text.replace("[metrics.goodput]", ICTCP, 1)
    text = text.replace("at = { workers = 8 }", 'at = { workers = 8, size = "1KiB" }')
    text = text.replace('x = "workers"', 'x = "workers"\nat = { size = "1KiB" }').replace("[[panels]]", PANEL, 1)
    path.write_text(text, encoding="utf-8")
    return path


def drawn(path: Path) -> WinnerMap:
    study = reading.read(path)
    panel = next(panel for panel in study.panels if isinstance(panel, Winners))
    rows = [
        (curve.name, str(workers), str(size), str(seed + 1), "0", "1", "" if drops is None else str(drops))
        for curve in study.curves
        for column, workers in enumerate((2, 5, 8))
        for row, size in enumerate(("1KiB", "2KiB"))
        for seed, drops in enumerate(DROPS[curve.name][row][column])
    ]
    numbers = Table(("curve", "workers", "size", "seed", "packet_hops", "goodput", "drops"), tuple(rows), None, "0")
    return winners.of_panel(study, panel, numbers)


def test_the_best_curve_is_the_one_with_the_lowest_mean_and_not_always_clear(study: Path) -> None:
    found = drawn(study)
    tcp, dctcp, ictcp = range(3)
    assert [[cell.best for cell in row] for row in found.rows] == [[tcp, tcp, ictcp], [tcp, ictcp, None]]
    # By chance, by one percent, and by nothing at all.
    assert [[cell.is_clear for cell in row] for row in found.rows] == [[True, False, False], [False, True, True]]
    assert [cell.second for cell in found.rows[0]] == [dctcp, dctcp, dctcp]
    assert found.rows[1][1].second == dctcp


def test_amounts_on_the_axes_are_written_as_people_do(study: Path) -> None:
    assert drawn(study).y_names == ("1 KiB", "2 KiB")
    assert drawn(study).x_names == ("2", "5", "8")
    values = ("400packets", "1.5Gbps", "10us", "64KB", "whole-segments", "1st", "2.5.1", "F10s", 3, 0.5)
    written = ["400 packets", "1.5 Gbps", "10 us", "64 KB", "whole-segments", "1st", "2.5.1", "F10s", "3", "0.5"]
    assert [for_readers(value) for value in values] == written


def test_with_highest_the_other_end_is_best_and_one_seed_decides_by_its_number(study: Path) -> None:
    text = study.read_text(encoding="utf-8").replace('"lowest"', '"highest"\ncurves = ["ictcp", "tcp"]')
    study.write_text(text, encoding="utf-8")
    found = drawn(study)
    assert found.labels == ("TCP", "ICTCP < all")
    # In the colours that the curves have in other panels.
    assert found.colours == (0, 2)
    assert [cell.best for cell in found.rows[0]] == [1, 1, 0]
    study.write_text(text.replace("seeds = 3", "seeds = 1"), encoding="utf-8")
    alone = reading.read(study)
    (panel,) = (panel for panel in alone.panels if isinstance(panel, Winners))
    rows = [(curve.name, str(workers), size, "1", "0", "1", str(drops))
            for curve, drops in zip(alone.curves, (100, 0, 101.5), strict=True)
            for workers in (2, 5, 8) for size in ("1KiB", "2KiB")]  # fmt: skip
    table = Table(("curve", "workers", "size", "seed", "packet_hops", "goodput", "drops"), tuple(rows), None, "0")
    assert not winners.of_panel(alone, panel, table).rows[0][0].is_clear
    rows = [(*row[:-1], "90" if row[0] == "tcp" else row[-1]) for row in rows]
    table = Table(table.head, tuple(rows), None, "0")
    assert winners.of_panel(alone, panel, table).rows[0][0].is_clear


def test_the_regret_is_that_of_always_taking_one_curve(study: Path) -> None:
    text = study.read_text(encoding="utf-8").replace('"lowest"', '"lowest"\ncurves = ["tcp", "dctcp"]')
    study.write_text(text, encoding="utf-8")
    found = drawn(study)
    # TCP is missing where its numbers are.
    tcp, dctcp = found.regrets
    assert tcp.mean != tcp.mean
    kept = WinnerMap(**{**vars(found), "rows": found.rows[:1]})
    tcp, dctcp = kept.regrets
    assert tcp.label == "TCP"
    assert [tcp.mean, tcp.worst] == pytest.approx([2 ** (1 / 3), 2])
    assert [dctcp.mean, dctcp.worst] == pytest.approx([(2 * 7 / 6) ** (1 / 3), 2])


def test_the_regret_beside_a_best_of_nothing_is_none_or_has_no_bound(study: Path) -> None:
    found = drawn(study)
    # There TCP and ICTCP drop nothing, and DCTCP does.
    nothing = found.rows[1][0]
    assert nothing.ratios.tolist() == [1, np.inf, 1]
    regrets = WinnerMap(**{**vars(found), "rows": ((nothing,),)}).regrets
    assert [(one.mean, one.worst) for one in regrets] == [(1, 1), (np.inf, np.inf), (1, 1)]


def test_a_map_has_a_colour_per_curve_and_hatches_what_is_not_clear(study: Path) -> None:
    found = drawn(study)
    picture = page_charts.draw(found)
    root = ET.fromstring(picture)  # noqa: S314 - our own
    cells = root.findall(".//*[@id='cells']/path")
    assert len(cells) == 6
    assert "var(--c0)" in cells[0].get("style", "")
    assert "var(--c2)" in cells[2].get("style", "")
    assert len(root.findall(".//path[@style]")) > 6
    assert picture.count("fill: url(#") == 3
    assert not re.search("#[0-9a-f]{6}", picture), "a colour that is not one of the page"
    titles = [title.text for title in root.iter("title")]
    assert titles[0] == "workers 2, size 1 KiB: TCP 1, then DCTCP 2"
    assert titles[5] == "workers 8, size 2 KiB: unknown"
    assert len(pictures.draw([found]).axes) == 1


def test_maps_of_winners_stand_before_the_setting_and_the_claims(incast: Command, study: Path, tmp_path: Path) -> None:
    done = incast("reproduce", "paper")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "out" / "paper" / "report.html").read_text(encoding="utf-8")
    assert study.is_file()
    # On the first screen: before the text on the setting too, which may be long.
    ids = [page.index(f'<h2 id="{name}">') for name in ("winners", "setting", "claims")]
    assert ids == sorted(ids)
    assert ids[0] < page.index("Lowest drops") < ids[1]
    assert page.count("<h3>Lowest drops") == 1
    assert '<tr><th scope="row">ICTCP &lt; all</th>' in page
    assert (tmp_path / "out" / "paper" / "figure-1.png").is_file()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('metric = "drops"', 'metric = "drop"', 'panels[0].metric: unknown metric "drop"; did you mean "drops"?'),
        ('"lowest"', '"low"', 'panels[0].best: unknown order "low"; '),
        ('"lowest"', '"lowest"\ncurves = ["tpc", "tcp"]', 'panels[0].curves: unknown curve "tpc"; did you mean "tcp"?'),
        ('"lowest"', '"lowest"\ncurves = ["tcp"]', "compares two curves at least"),
        ('y = "size"', 'y = "workers"', "panels[0].y: a map is drawn over two axes"),
        ('y = "size"', 'y = "sizes"', 'panels[0].y: unknown axis "sizes"; did you mean "size"?'),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(study: Path, old: str, new: str, said: str) -> None:
    text = study.read_text(encoding="utf-8")
    assert old in text
    study.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ScenarioError, match=re.escape(said)):
        reading.read(study)
