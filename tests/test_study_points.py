"""Axes whose points come from a file, and parameters, which points set and curves use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conftest import Command, small_paper
from incast import ScenarioError
from incast.studies import plan, reading

if TYPE_CHECKING:
    from pathlib import Path

POINTS = """\
# Made by hand.
setting,traffic.burst.workers,topology.link.rate,switch.buffer,$limit,$about
few,2,,,4packets,calm
many,8,10Gbps,"{ name = ""static"", limit = ""40packets"", count_in_service = true }",9packets,
"""
AXIS = '[axes.setting]\npoints = "points.csv"\n'
CURVE = 'set = { "stack.sender" = "newreno", "switch.marker" = { name = "ecn-threshold", threshold = "$limit" } }'


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Write a study of two points, in which one curve uses a parameter."""
    path = small_paper(tmp_path) / "figure-1.toml"
    old = '[axes.workers]\nlabel = "workers"\nkey = "traffic.burst.workers"\nvalues = [2, 5, 8]\n'
    text = path.read_text(encoding="utf-8").partition("[[panels]]")[0]
    assert old in text
    curve = 'set = { "stack.sender" = "newreno" }'
    assert curve in text
    path.write_text(text.replace(old, AXIS).replace(curve, CURVE), encoding="utf-8")
    path.with_name("points.csv").write_text(POINTS, encoding="utf-8")
    return path


def test_a_row_names_a_point_and_sets_keys_and_parameters(study: Path) -> None:
    read = reading.read(study)
    (axis,) = read.axes
    assert axis.shown == ("few", "many")
    few, many = (point.changes for point in read.points() if point.curve.name == "tcp")
    # An empty cell leaves what the scenario says.
    assert few == {
        "tcp.initial_window": 4,
        "stack.sender": "newreno",
        "switch.marker": {"name": "ecn-threshold", "threshold": "4packets"},
        "traffic.burst.workers": 2,
    }
    assert many["topology.link.rate"] == "10Gbps"
    assert many["switch.buffer"] == {"name": "static", "limit": "40packets", "count_in_service": True}
    assert many["switch.marker"] == {"name": "ecn-threshold", "threshold": "9packets"}
    assert axis.changes[0]["$about"] == "calm"


def test_its_runs_are_those_of_the_same_changes_by_hand(incast: Command, study: Path, tmp_path: Path) -> None:
    assert incast("sweep", study).returncode == 0
    rows = (tmp_path / "out/figure-1.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert rows[0].startswith("curve,setting,seed,")
    by_hand = study.with_name("by-hand.toml")
    marker = '"switch.marker" = { name = "ecn-threshold", threshold = "4packets" }'
    text = study.read_text(encoding="utf-8").replace(
        AXIS, '[axes.setting]\nkey = "traffic.burst.workers"\nvalues = [2]\n'
    )
    by_hand.write_text(text.replace(CURVE, f'set = {{ "stack.sender" = "newreno", {marker} }}'), encoding="utf-8")
    done = incast("sweep", by_hand)
    assert "0 runs computed; 6 of 6 done" in done.stderr
    same = (tmp_path / "out/by-hand.csv").read_text(encoding="utf-8").splitlines()[2:]
    assert [row.replace(",few,", ",2,") for row in rows[1:] if ",few," in row] == same


def test_more_files_continue_the_points_and_change_no_run_of_the_first(incast: Command, study: Path) -> None:
    incast("sweep", study)
    more = "setting,traffic.burst.workers,topology.link.rate,switch.buffer,$limit,$about\nsome,5,,,5packets,calm\n"
    study.with_name("more.csv").write_text(more, encoding="utf-8")
    text = study.read_text(encoding="utf-8").replace('points = "points.csv"', 'points = ["points.csv", "more.csv"]')
    study.write_text(text, encoding="utf-8")
    assert reading.read(study).axes[0].shown == ("few", "many", "some")
    assert "6 runs computed; 18 of 18 done" in incast("sweep", study).stderr


def test_an_axis_may_vary_a_parameter(study: Path) -> None:
    text = study.read_text(encoding="utf-8").replace(
        AXIS, '[axes.limit]\nkey = "$limit"\nvalues = ["3packets", "6packets"]\n'
    )
    study.write_text(text, encoding="utf-8")
    read = reading.read(study)
    assert [point.changes["switch.marker"] for point in read.points() if point.curve.name == "tcp"] == [
        {"name": "ecn-threshold", "threshold": "3packets"},
        {"name": "ecn-threshold", "threshold": "6packets"},
    ]
    # What does not name the parameter has the same runs at all points.
    assert [point.curve.name for point in plan.distinct(read)] == ["tcp", "tcp", "dctcp"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("setting,", "point,", ':2: the first column has the names of the points: expected "setting"'),
        ("$about", "$limit", ':2: the column "$limit" appears twice'),
        ("$about", "$a b", ':2: the column "$a b" cannot be set; expected a key of the scenario'),
        ("$about", "tcp rto", ':2: the column "tcp rto" cannot be set'),
        ("$about", "", ':2: the column "" cannot be set'),
        ("few,2,", "few,2,,", ":3: expected 6 cells, one per column, found 7"),
        ("few,", ",", ":3: setting: expected a name or a number, found nothing"),
        ("few,", "true,", ":3: setting: expected a name or a number, found true"),
        ("many,", "few,", ":4: setting: few appears twice, first in "),
        ('"{ name = ""static""', '"{ name = static', ":4: switch.buffer: not valid TOML: { name = static"),
        ("calm", "2026-01-01", ":3: $about: expected a number, text, a list or a table, found a date"),
        ("calm", '"calm', ":3: not a line of CSV: "),
        (POINTS, "# nothing\nsetting,tcp.mss\n", ": no points here; expected a line of columns"),
    ],
)
def test_a_file_of_points_that_cannot_be_meant_is_refused_with_its_place(
    study: Path, old: str, new: str, said: str
) -> None:
    file = study.with_name("points.csv")
    assert old in POINTS
    file.write_text(POINTS.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ScenarioError) as error:
        reading.read(study)
    assert str(error.value).startswith(f"{file}{said}")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"points.csv"', '"point.csv"', "axes.setting.points: no such file: "),
        ('"points.csv"', "[]", "axes.setting.points: expected the name of a file, or a list of them, found []"),
        ('"points.csv"', "2", "axes.setting.points: expected the name of a file, or a list of them, found 2"),
        ('"points.csv"', '"points.csv"\nshown = ["a", "b"]', "axes.setting.shown: the first column"),
        ('"points.csv"', '"points.csv"\nkey = "seed"', "axes.setting: an axis needs either key"),
        (
            "$limit",
            "$limt",
            'curves.tcp.set: unknown parameter "$limt"; did you mean "$limit"? allowed: $about, $limit',
        ),
        ("$limit", "$about", 'unknown parameter "$about"; allowed: $limit (set at setting many)'),
        ('window" = 4', 'window" = "$window"', 'unknown parameter "$window"'),
        ("seeds = 3", 'seeds = 3\nfull = { set = { "run.stop_at" = "$stop" } }', 'unknown parameter "$stop"'),
    ],
)
def test_a_study_that_misuses_points_or_parameters_is_refused(study: Path, old: str, new: str, said: str) -> None:
    text = study.read_text(encoding="utf-8")
    assert old in text
    study.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ScenarioError) as error:
        reading.read(study)
    assert str(error.value).startswith(f"{study}:")
    assert said in str(error.value)


def test_files_of_points_have_the_same_columns(study: Path) -> None:
    study.with_name("more.csv").write_text("setting,$limit\nsome,5packets\n", encoding="utf-8")
    text = study.read_text(encoding="utf-8").replace('points = "points.csv"', 'points = ["points.csv", "more.csv"]')
    study.write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioError, match=r"more\.csv:1: expected the columns of .*points\.csv: setting, traffic"):
        reading.read(study)


def test_a_key_that_no_scenario_has_is_named_with_its_point(incast: Command, study: Path) -> None:
    file = study.with_name("points.csv")
    file.write_text(POINTS.replace("topology.link.rate", "topology.link.rat"), encoding="utf-8")
    done = incast("sweep", study, "--dry-run")
    assert done.returncode == 2
    assert "at setting many cannot be run:" in done.stderr
    assert "rat" in done.stderr
