"""Rankings: what it costs to take one curve everywhere, what is best if one may change little, the way to each run."""

from __future__ import annotations

import csv
import json
import math
import re
import shlex
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from conftest import Command, small_paper
from incast import ScenarioError
from incast.studies import ranking, reading
from incast.studies.ranking import Chart
from incast.studies.study import Ranking
from incast.studies.table import Table

if TYPE_CHECKING:
    from pathlib import Path

POINTS = """\
setting,traffic.burst.workers,$size,$where,$limit
a,2,small,here,5packets
b,5,small,there,6packets
c,8,large,here,7packets
d,9,large,there,8packets
"""
PANEL = """
[[panels]]
kind = "ranking"
title = "Always < the same"
metric = "drops"
best = "lowest"
beside = { goodput = "highest" }
means = ["goodput"]
by = ["$where"]
map = ["$size", "$where"]
"""
# Of each curve at each point, one number for all seeds.
DROPS = {"tcp": [10.0, 20.0, 40.0, 8.0], "dctcp": [20.0, 10.0, 10.0, 8.0], "ictcp": [40.0, 80.0, 10.0, 16.0]}


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = small_paper(tmp_path) / "figure-1.toml"
    text = path.read_text(encoding="utf-8").partition("[[panels]]")[0]
    axis = '[axes.workers]\nlabel = "workers"\nkey = "traffic.burst.workers"\nvalues = [2, 5, 8]\n'
    marker = '"switch.marker" = { name = "ecn-threshold", threshold = "$limit" }'
    for old, new in (
        (axis, '[axes.setting]\npoints = "points.csv"\n'),
        ("[curves.dctcp]", '[curves.dctcp]\nneeds = ["senders", "switches"]'),
        ("initial_alpha = 0 } }", f"initial_alpha = 0 }}, {marker} }}"),
        (
            "[metrics.goodput]",
            '[curves.ictcp]\nneeds = ["hosts"]\nset = { "stack.receiver" = "ictcp" }\n\n[metrics.goodput]',
        ),
    ):
        assert old in text
        text = text.replace(old, new, 1)
    path.write_text(text + PANEL, encoding="utf-8")
    path.with_name("points.csv").write_text(POINTS, encoding="utf-8")
    return path


def ranked(path: Path, drops: dict[str, list[float]]) -> Chart:
    study = reading.read(path)
    (panel,) = (panel for panel in study.panels if isinstance(panel, Ranking))
    rows = []
    for curve in study.curves:
        for place, value in enumerate(drops[curve.name]):
            goodput = "" if math.isnan(value) else str(100 / (value or 1))
            for seed in range(3):
                # Seeds differ, and their mean is the number.
                one = "" if math.isnan(value) else str(value + seed - 1)
                rows.append((curve.name, "abcd"[place], str(seed + 1), "1", goodput, one))
    numbers = Table(("curve", "setting", "seed", "packet_hops", "goodput", "drops"), tuple(rows), None, "0")
    return ranking.of_panel(study, panel, numbers)


def test_the_ranking_has_each_number_over_the_best_in_its_setting(study: Path) -> None:
    chart = ranked(study, DROPS)
    np.testing.assert_allclose(chart.ratios, [[1, 2, 4, 1], [2, 1, 1, 1], [4, 8, 1, 2]])
    assert [one.curve.name for one in chart.ranked] == ["dctcp", "tcp", "ictcp"]
    dctcp, tcp, ictcp = chart.ranked
    assert (dctcp.mean, tcp.mean, ictcp.mean) == pytest.approx((2**0.25, 8**0.25, 64**0.25))
    assert (tcp.arithmetic, tcp.worst) == (2.0, 4.0)
    assert tcp.low is not None
    assert tcp.high is not None
    assert 1 <= tcp.low < tcp.mean < tcp.high <= 4
    # The best goodput is the highest; here it is the inverse of the drops.
    assert tcp.beside == pytest.approx((8**0.25,))
    assert tcp.means == pytest.approx(((10 + 5 + 2.5 + 12.5) / 4,))
    assert [group.name for group in chart.groups] == ["here", "there"]
    assert tcp.groups == pytest.approx((2.0, 2**0.5))


def test_the_map_has_the_best_of_each_cell(study: Path) -> None:
    chart = ranked(study, DROPS)
    assert (chart.rows, [column.name for column in chart.columns]) == (("small", "large"), ["here", "there"])
    assert [[cell.points for cell in row] for row in chart.cells] == [[(0,), (1,)], [(2,), (3,)]]
    found = [[chart.best_of([0, 1, 2], cell.points) for cell in row] for row in chart.cells]
    assert [[best.curve if best else None for best in row] for row in found] == [[0, 1], [1, 0]]
    assert chart.best_of([], (0,)) is None
    assert chart.best_of([0], ()) is None


def test_the_best_among_what_one_may_change_needs_no_more(study: Path) -> None:
    found = {one.needs: (one.best.curve, round(one.best.mean, 9)) for one in ranked(study, DROPS).allowed}
    # What needs other hosts is no better than what needs nothing, and is left out.
    assert found == {(): (0, round(8**0.25, 9)), ("senders", "switches"): (1, round(2**0.25, 9))}


def test_zeros_and_what_is_missing_do_not_spoil_the_others(study: Path) -> None:
    zero = ranked(study, DROPS | {"tcp": [0.0, 20.0, 40.0, 8.0]})
    by_name = {one.curve.name: one for one in zero.ranked}
    assert by_name["tcp"].mean == pytest.approx(8**0.25)
    assert by_name["dctcp"].mean == math.inf
    missing = ranked(study, DROPS | {"dctcp": [math.nan, 10.0, 10.0, 8.0]})
    assert [one.curve.name for one in missing.ranked] == ["tcp", "ictcp", "dctcp"]
    assert math.isnan(missing.ranked[-1].mean)
    assert missing.ranked[-1].low is None


def test_the_page_leads_from_a_number_to_its_run(incast: Command, study: Path, tmp_path: Path) -> None:
    done = incast("reproduce", "paper", "--studies", study.parent.parent)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "out/paper/report.html").read_text(encoding="utf-8")
    (text,) = re.findall(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)
    data: dict[str, Any] = json.loads(text)
    assert data["told"] == ["size", "where"], "what curves use is in their commands"
    buttons = re.findall(r'data-curve="(\d+)" data-group="(\d+)"', page)
    assert buttons
    assert all(int(curve) < 3 and int(group) < len(data["groups"]) for curve, group in buttons)
    assert [metric["what"] for metric in data["metrics"]] == ["drops (packets)", "goodput (Mbit/s)", "goodput (Mbit/s)"]
    assert ["ratios" in metric for metric in data["metrics"]] == [True, True, False]
    always = page[page.index('<table class="sortable"') :]
    cells = re.findall(r'<td data-value="[^"]*">(.*?)</td>', always[: always.index("</table>")])
    linked = [re.search(r'data-curve="(\d+)" data-group="\d+"(?: data-metric="(\d)")?>', cell) for cell in cells]
    assert len(cells) == 3 * (4 + 2 + 1)
    assert all(linked), "a number without a way to its runs"
    assert [match[2] for match in linked[:7] if match] == [None, None, None, "1", None, None, "2"]
    assert "Always &lt; the same" in page
    # Where nothing is claimed nothing is judged.
    assert '<section hidden><h2 id="claims">' in page
    rows = list(csv.DictReader((tmp_path / "out/paper/figure-1.csv").read_text(encoding="utf-8").splitlines()[1:]))
    curve, place = 1, 2
    sets = data["curves"][curve]["sets"]
    assert len(sets) == 4, "it uses a parameter"
    assert len(data["curves"][0]["sets"]) == 1
    words = shlex.split(" ".join([data["start"], sets[place], data["points"][place]["set"]]))
    assert words[:5] == ["incast", "run", "studies/paper/scenarios/small.toml", "--seed", "1"]
    assert any("7packets" in word for word in words)
    again = incast(*words[1:], "--out", "again")
    assert again.returncode == 0, again.stderr
    summary = json.loads((tmp_path / "again/summary.json").read_text(encoding="utf-8"))
    (row,) = (row for row in rows if (row["curve"], row["setting"], row["seed"]) == ("dctcp", "c", "1"))
    assert summary["goodput_total_bps"] / 1e6 == float(row["goodput"])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('metric = "drops"', 'metric = "drop"', 'panels[0].metric: unknown metric "drop"; did you mean "drops"?'),
        ('best = "lowest"', 'best = "low"', 'panels[0].best: unknown order "low"; did you mean "lowest"?'),
        ('goodput = "highest"', "goodput = 1", 'beside.goodput: unknown order "1"'),
        ('goodput = "highest"', 'godput = "highest"', 'beside: unknown metric "godput"'),
        ('means = ["goodput"]', 'means = ["x"]', 'means: unknown metric "x"'),
        ('by = ["$where"]', 'by = ["$were"]', 'by: unknown parameter "$were"; did you mean "$where"?'),
        ('by = ["$where"]', 'by = ["where"]', 'by: unknown parameter "where"'),
        ('map = ["$size", "$where"]', 'map = ["$size"]', "map: expected two parameters"),
        ('map = ["$size", "$where"]', 'map = ["$size", "$x"]', 'map: unknown parameter "$x"'),
        ('needs = ["hosts"]', 'needs = ["hosts", "hosts"]', "curves.ictcp.needs: a change appears twice"),
        ('needs = ["hosts"]', 'needs = "hosts"', "curves.ictcp.needs: expected a list"),
        ("a,2,small", "a,2,", None),
    ],
)
def test_a_ranking_that_cannot_be_meant_is_refused(study: Path, old: str, new: str, said: str | None) -> None:
    file = study if said else study.with_name("points.csv")
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ScenarioError) as error:
        reading.read(study)
    assert (said or 'map: unknown parameter "$size"; ') in str(error.value)
