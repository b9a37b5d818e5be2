"""Settings that a paper leaves open: in which part of their grid a claim holds, and which one decides it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conftest import Command
from incast import ScenarioError
from incast.studies import claims, grids, plan, reading, replication, report, reproduce, table
from incast.studies.claims import Judged
from incast.studies.expressions import Scope
from incast.studies.grids import Flip, Outcome, Share
from incast.studies.store import Store
from incast.studies.table import Table

FIGURE = """title = "Delay"
figure = "1"

[axes.load]
values = [1, 2]

[curves.one]

[metrics.delay]
formula = "3 * load"

[[claims]]
id = "C1"
text = "The delay is 4"
measure = "mean(delay.one)"
paper = 4
within = 1

[[claims]]
id = "C2"
text = "It is 3 at load 1"
measure = "at(delay.one, load=1)"
paper = 3
within = 0.5

[[claims]]
id = "C3"
text = "It is not judged elsewhere"
measure = "mean(delay.one)"
paper = 4
within = 0.1
closed = "it is a formula"
"""
# With a buffer of 10 and no batches the mean delay is 6, otherwise less by 2, 3 or both.
OPEN = """title = "Open settings"
open = ["buffer", "batch"]
frozen = { buffer = 10, batch = "none" }

[axes.load]
values = [1, 2]

[axes.buffer]
values = [10, 20, 30]

[axes.batch]
values = ["none", "ack"]

[curves.one]

[metrics.delay]
formula = "4 * load - 2 * (buffer == 20) - 3 * (batch == 'ack')"

[[judged]]
claim = "C1"

[[judged]]
claim = "C2"
measure = "max(delay.one) - 1"
"""


def write(directory: Path, opened: str = OPEN) -> Path:
    paper = directory / "studies" / "paper"
    paper.mkdir(parents=True)
    (paper / "paper.toml").write_text('title = "Paper"\ncite = "cite"\n', encoding="utf-8")
    (paper / "figure-1.toml").write_text(FIGURE, encoding="utf-8")
    (paper / "open.toml").write_text(opened, encoding="utf-8")
    return paper


def judged(directory: Path, opened: str = OPEN) -> list[Judged]:
    studies = reading.folder(write(directory, opened), leaving_out="paper.toml")
    store = Store(directory / "runs")
    tables: dict[str, Table | None] = {
        study.name: table.of_rows(study, [table.measured(study, row, store) for row in plan.rows(study)], None)
        for study in studies
    }
    return claims.of_paper(studies, tables)


def shares(directory: Path, opened: str = OPEN) -> tuple[Share, Share]:
    first, second, third = judged(directory, opened)
    assert first.share is not None
    assert second.share is not None
    assert third.share is None
    return first.share, second.share


def test_a_claim_is_judged_at_every_combination_of_the_open_settings(tmp_path: Path) -> None:
    first, second = shares(tmp_path)
    # The mean is 6, 4 or 6 without batches, 3, 1 or 3 with them: from 3 to 5 it holds.
    assert (first.holds, first.undecided, first.of, first.frozen) == (3, 0, 6, "fails")
    assert first.flips == (Flip("buffer", 20, holds=True), Flip("batch", "ack", holds=True))
    # By a measure of its own, 7, 5 and 7, or 4, 2 and 4, to be 3: nowhere, so that nothing changes it.
    assert (second.holds, second.of, second.frozen, second.flips) == (0, 6, "fails", ())


def test_a_single_change_can_also_end_that_a_claim_holds(tmp_path: Path) -> None:
    first, _ = shares(tmp_path, OPEN.replace("buffer = 10", "buffer = 20"))
    assert (first.holds, first.frozen) == (3, "holds")
    assert first.flips == (
        Flip("buffer", 10, holds=False), Flip("buffer", 30, holds=False), Flip("batch", "ack", holds=False),
    )  # fmt: skip


# By combination of buffer and batch, in the order of the file.
OUTCOMES: list[tuple[tuple[Outcome, ...], str]] = [
    # The frozen setting, buffer 10 without batches, holds: what is undecided elsewhere is no flip.
    (("holds", "undecided", "fails", "holds", "undecided", "holds"), "it holds; it does not if buffer = 20."),
    (("holds", "undecided", "holds", "holds", "undecided", "holds"), "it holds, and no single change decides it."),
    (("fails", "undecided", "undecided", "holds", "holds", "holds"), "it does not hold; it does if buffer = 30."),
    (
        ("undecided", "fails", "holds", "holds", "undecided", "holds"),
        "the seeds do not decide it; it holds if buffer = 20, and it does not hold if batch = ack.",
    ),
    (("undecided",) * 6, "the seeds do not decide it, and no single change decides it."),
]


@pytest.mark.parametrize(("outcomes", "said"), OUTCOMES)
def test_what_the_seeds_do_not_decide_is_counted_apart(
    tmp_path: Path, outcomes: tuple[Outcome, ...], said: str
) -> None:
    opened = next(study for study in reading.folder(write(tmp_path), leaving_out="paper.toml") if study.open)
    found = iter(outcomes)
    share = grids.share(opened, Scope({}, {}), lambda _: next(found))
    assert (share.holds, share.undecided, share.of) == (outcomes.count("holds"), outcomes.count("undecided"), 6)
    page = report.of_share(share)
    assert page.endswith(f"(buffer = 10, batch = none) {said}")
    assert (f"; in {share.undecided} more its seeds do not decide." in page) == (share.undecided > 0)
    assert (f", undecided in {share.undecided}" in replication.of_share(share)) == (share.undecided > 0)


def test_a_combination_of_which_a_number_is_missing_is_undecided(tmp_path: Path) -> None:
    first, _ = shares(tmp_path, OPEN.replace("4 * load", "4 * load / (buffer != 30)"))
    assert (first.holds, first.undecided, first.of) == (2, 2, 6)


def test_points_that_are_omitted_are_no_combination(tmp_path: Path) -> None:
    first, _ = shares(tmp_path, "only = \"buffer < 30 or batch == 'ack'\"\n" + OPEN)
    assert (first.holds, first.of) == (3, 5)


def test_other_programs_are_told_too(tmp_path: Path) -> None:
    first, _, third = reproduce.as_json("paper", judged(tmp_path))["claims"]
    assert first["share"] == {"holds": 3, "undecided": 0, "of": 6, "study": "open"}
    assert first["flips"] == [
        {"setting": "buffer", "value": 20, "holds": True}, {"setting": "batch", "value": "ack", "holds": True},
    ]  # fmt: skip
    assert (third["share"], third["flips"], third["closed"]) == (None, None, "it is a formula")
    # The mean of 3 and 6 is 4.5, which is 4.5 / 4 of the paper's and has its sign.
    assert (first["size"], first["sign"], first["verdict"]) == (1.125, "right", "holds")


def test_the_page_says_it_below_the_claim(incast: Command, tmp_path: Path) -> None:
    write(tmp_path)
    done = incast("reproduce", "paper")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "out" / "paper" / "report.html").read_text(encoding="utf-8")
    assert 'Holds in 3 of 6 combinations of <a href="#open">settings that the paper leaves open</a>.' in page
    assert "With that of the other studies (buffer = 10, batch = none) it does not hold" in page
    assert "it does not hold; it does if buffer = 20, or batch = ack." in page
    assert "it does not hold, and no single change decides it." in page
    assert "Not judged over settings that the paper leaves open: it is a formula." in page
    study = tmp_path / "studies" / "paper" / "open.toml"
    study.write_text(OPEN.replace("buffer = 10", "buffer = 20"), encoding="utf-8")
    assert incast("reproduce", "paper", "--update").returncode == 0
    page = (tmp_path / "out" / "paper" / "report.html").read_text(encoding="utf-8")
    assert "it holds; it does not if buffer = 10 or 30, or batch = ack." in page


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"buffer", "batch"]', '"bufer", "batch"]', ':2: open: unknown axis "bufer"; did you mean "buffer"?'),
        ('"buffer", "batch"]', '"buffer", "buffer"]', 'frozen.batch: unknown open axis "batch"'),
        ('"buffer", "batch"]', '"buffer", "buffer", "batch"]', "open: an axis appears twice"),
        ("buffer = 10, ", "", ':3: frozen: frozen needs the value of "buffer"'),
        ("buffer = 10", "buffer = 15", ":3: frozen.buffer: no point has buffer = 15; allowed: 10, 20, 30"),
        ("[axes.load]", 'only = "buffer > 10"\n[axes.load]', "frozen: points with these values are omitted by the key"),
        (OPEN.split("\n\n", maxsplit=1)[0], 'title = "Open"', "judged[0]: a claim is judged over the settings"),
        ('claim = "C1"', 'claim = "C4"', 'judged[0].claim: unknown claim "C4"; allowed: C1, C2, C3'),
        ('claim = "C1"', 'claim = "C2"', 'judged[1].claim: "C2" is already judged: '),
        ('claim = "C2"', 'claim = "C3"', 'judged[1].claim: "C3" is closed, but judged here: '),
        ("max(delay.one) - 1", "max(delay.two)", 'judged[1].measure: unknown curve "two"; allowed: one'),
        ("max(delay.one) - 1", "at(delay.one, buffer=20)", "judged[1].measure: no point has buffer = 20; allowed: 10"),
        ("metrics.delay", "metrics.wait", "give measure, as that of C1 does not fit here: unknown metric"),
        ('claim = "C1"', 'claim = "C1"\nwithin = 2', 'judged[0].within: unknown key "within"'),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_with_its_place(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in OPEN
    opened = OPEN.replace(old, new, 1)
    if "metrics.wait" in new:
        opened = opened.replace("delay.one", "wait.one")
    with pytest.raises(ScenarioError, match=re.escape(said)):
        reading.folder(write(tmp_path, opened), leaving_out="paper.toml")
