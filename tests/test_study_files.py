"""Study files: what is read from them, what is refused and how, and the expressions of claims."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from conftest import Command, small_paper
from incast import ScenarioError
from incast.studies import cells, charts, claims, expressions, measuring, plan, reading, report, reproduce, table
from incast.studies.claims import Judged
from incast.studies.expressions import ExpressionError, Scope
from incast.studies.study import Claim, Direction, Lines, Map, Names, Study
from incast.studies.table import Table


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return small_paper(tmp_path) / "figure-1.toml"


def test_a_study_says_its_runs_in_the_order_of_the_file(study: Path) -> None:
    read = reading.read(study)
    assert [(point.curve.name, point.at) for point in read.points()] == [
        ("tcp", (2,)), ("tcp", (5,)), ("tcp", (8,)), ("dctcp", (2,)), ("dctcp", (5,)), ("dctcp", (8,)),
    ]  # fmt: skip
    assert read.points()[-1].changes == {
        "tcp.initial_window": 4,
        "stack.sender": {"name": "dctcp", "initial_alpha": 0},
        "traffic.burst.workers": 8,
    }


def test_an_axis_may_change_some_curves_only(study: Path) -> None:
    text = study.read_text(encoding="utf-8")
    study.write_text(text.replace("[axes.workers]", '[axes.workers]\ncurves = ["dctcp"]', 1), encoding="utf-8")
    read = reading.read(study)
    assert [point.changes.get("traffic.burst.workers") for point in read.points()] == [None, None, None, 2, 5, 8]
    once = [("tcp", 2), ("dctcp", 2), ("dctcp", 5), ("dctcp", 8)]
    assert [(point.curve.name, *point.at) for point in plan.distinct(read)] == once
    assert len(plan.check(read)) == len(once)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("seeds = 3", "", 'missing key "seeds"'),
        ("seeds = 3", "seeds = 3\nseads = 4", ':5: seads: unknown key "seads"; did you mean "seeds"? allowed: '),
        ("seeds = 3", 'seeds = "3"', "seeds: expected a whole number, found '3'"),
        ("seeds = 3", "seeds = 0", "seeds: must be 1 or more, found 0"),
        ('"scenarios/small.toml"', '"scenery.toml"', ":3: scenario: no such file"),
        ("[axes.workers]", "[axis.workers]", 'unknown key "axis"; did you mean "axes"?'),
        ('key = "traffic.burst.workers"', "", "either key, or keys"),
        ("values = [2, 5, 8]", 'values = [2]\ncurves = ["tpc"]', 'no such curve: "tpc"; the curves'),
        ("values = [2, 5, 8]", "values = []", "axes.workers.values: the list is empty"),
        ("values = [2, 5, 8]", "values = [2, 2]", "twice"),
        ("values = [2, 5, 8]", 'values = [2, "5"]', "mixed"),
        ("[curves.dctcp]", "[curves.dc-tcp]", "use letters, digits and underscores"),
        ("[curves.dctcp]", "[curves.all]", "has another meaning in expressions"),
        ("[metrics.drops]", "[metrics.seed]", 'the name "seed" is already used'),
        ("FROM summary", "FROM sumary", 'unknown table "sumary"; did you mean "summary"?'),
        ("goodput_total_bps", "goodput_tot_bps", 'column "goodput_tot_bps"; did you mean "goodput_total_bps"?'),
        ("SELECT goodput_total_bps / 1e6", "SELECT class", "is not a number"),
        ("SELECT goodput_total_bps", "SELECT goodput_total_bps, drops", "returns 2 columns"),
        ("SELECT goodput_total_bps", "SELCT goodput_total_bps", "metrics.goodput.sql: invalid query"),
        ('kind = "lines"', 'kind = "lined"', 'unknown kind of panel "lined"; did you mean "lines"?'),
        ('kind = "lines"', 'kind = "percentile"\nsql = "SELECT fct_s FROM flows"\npercentile = 100',
         "panels[0].percentile: expected a number between 0 and 100, found 100"),
        ('kind = "lines"', 'kind = "slowdown"\npercentile = 99\nbins = 1.5',
         "panels[0].bins: expected a whole number from 2 to 100, found 1.5"),
        ('kind = "lines"',
         'kind = "slowdown"\npercentile = 99\nat = { workers = 8 }\nsql = "SELECT slowdown FROM flows"',
         "returns 1 columns (slowdown), not 2"),
        ('kind = "lines"', 'kind = "slowdown"\npercentile = 99', 'give a value of the axis "workers"'),
        ('kind = "lines"', 'kind = "percentile"\nsql = "SELECT fct_s, start_s FROM flows"\npercentile = 99',
         "panels[0].sql: the query returns 2 columns (fct_s, start_s), not 1"),
        ('y = "goodput"', 'y = "godput"', 'panels[0].y: unknown metric "godput"; did you mean "goodput"?'),
        ('x = "workers"', 'x = "senders"', 'unknown axis "senders"'),
        ("at = { workers = 8 }", "at = { workers = 9 }", "no point has workers = 9; allowed: 2, 5, 8"),
        ("mean(goodput.dctcp", "mean(godput.dctcp", 'claims[0].measure: unknown metric "godput"; did you mean'),
        ("mean(goodput.dctcp", "mean(goodput.dtcp", 'unknown curve "dtcp"; did you mean "dctcp"?'),
        ("mean(goodput.dctcp", "meen(goodput.dctcp", 'unknown function "meen"; did you mean "mean"?'),
        ("mean(goodput.dctcp", "(goodput.dctcp", "has a number for each of 3 points"),
        ("mean(goodput.dctcp", "mean(goodput", "is a metric: add the curve, as in goodput.tcp"),
        ("mean(goodput.dctcp", "mean(goodput.dctcp.real", "is not supported"),
        ("mean(goodput.dctcp", "mean((goodput.dctcp", "is not a valid expression"),
        ("workers=8)", "workers=9)", "no point has workers = 9; allowed: 2, 5, 8"),
        ("at_most = 0", "", "which say when it holds"),
        ('paper = "fewer"', 'paper = "fewer"\nwithin = 1', "needs a number in paper"),
        ('direction = "above 0"', 'direction = "over 0"', 'expected "below" or "above" and a number'),
        ('paper = "fewer"', 'paper = "fewer"\nunit = 1', "unit: expected text, found 1"),
        ("at(drops.dctcp - drops.tcp, workers=8)", 'all(drops.tcp > 0)"\nunit = "%', "true or false has no unit"),
        ("why =", 'shown_by = ["figure-2"]\nwhy =', 'shown_by: unknown study "figure-2"; did you mean "figure-1"?'),
        ('paper = 0.5', 'shown_by = ["figure-1"]\npaper = 0.5', "claims[0].shown_by: studies show an explanation"),
        ("why =", 'baselines = ["T01"]\nwhy =', 'claims[1].baselines: unknown baseline "T01"; allowed: none'),
        ("[[claims]]", "[[baselines]]\nbaselines = []", 'baselines[0].baselines: unknown key "baselines"'),
        ('id = "T02"', 'id = "T01"', None),
        ("title =", "title", "invalid TOML"),
        ("values = [2, 5, 8]", f"values = {'[' * 5000}{']' * 5000}", ":10: lists and tables are nested too deeply"),
        ("values = [2, 5, 8]", f"values = {'[' * 30}{']' * 30}", ":10: axes.workers.values: lists and tables are"),
        ('label = "TCP"', f'label = "TCP"\n{"a." * 5000}a = 1', "lists and tables are nested too deeply: at most 20"),
        ("values = [2, 5, 8]", f"values = [1{'0' * 400}]", ":10: axes.workers.values: expected a whole number"),
        ("values = [2, 5, 8]", f"values = [1{'0' * 5000}]", "invalid TOML: "),
        ("values = [2, 5, 8]", "values = [2, nan]", "axes.workers.values: expected a finite number, found nan"),
        ("values = [2, 5, 8]", "values = [1979-05-27]", "found a date or time: 1979-05-27"),
        ('"tcp.initial_window" = 4', '"tcp.initial_window" = inf', ":5: set.tcp.initial_window: expected a finite"),
        ("at = { workers = 8 }", "at = { workers = 8 }\nlimits = [nan, inf]", "panels[1].limits: expected a finite"),
        ("at = { workers = 8 }", "at = { workers = 8 }\nlimits = [3, 3]", "expected two numbers, from and to, found"),
        ("within = 100", "within = inf", "claims[0].within: expected a finite number, found inf"),
        ("seeds = 3", "seeds = 100000000", ":4: seeds: at most 1,000,000 runs, found 600,000,000: 3 points"),
        ("values = [2, 5, 8]", f"values = {list(range(600_000))}", ":7: axes: at most 1,000,000 runs, found 3,600,000"),
        ("seeds = 3", "seeds = 3\nfull = { seeds = 900000 }", "full.seeds: at most 1,000,000 runs"),
        ('"scenarios/small.toml"', f'"{"x" * 5000}"', ":3: scenario: no such file"),
        ("values = [2, 5, 8]", f'points = "{"x" * 5000}"', "axes.workers: an axis needs either key"),
        ("seeds = 3", f'seeds = 3\nlike = "{"x" * 5000}"', ":5: like: no such file"),
        ('{ "stack.sender" = "newreno" }', "{ seed = 5 }", 'curves.tcp.set.seed: "seed" cannot be set here'),
        ('"tcp.initial_window" = 4', "seed = 4", ':5: set.seed: "seed" cannot be set here'),
        ('key = "traffic.burst.workers"', 'key = "seed"', ':9: axes.workers.key: "seed" cannot be set here'),
        ("seeds = 3", "seeds = 3\nfull = { set = { name = 1 } }", 'full.set.name: "name" cannot be set here'),
        ("SELECT goodput_total_bps / 1e6 FROM summary WHERE class = 'all'", "", "goodput.sql: expected one query"),
        ("SELECT goodput", "SELECT 1 FROM summary; SELECT goodput", "metrics.goodput.sql: expected one query"),
        ("SELECT goodput", "DROP TABLE summary; SELECT goodput", "metrics.goodput.sql: expected one query"),
        ("FROM summary", "FROM summary, read_csv('/etc/passwd')", "read_csv() cannot be used: a query reads"),
        ("FROM summary", "FROM summary, '/etc/passwd'", 'unknown table "/etc/passwd"'),
        ("goodput_total_bps / 1e6", "(SELECT COUNT(*) FROM glob('/etc/*'))", "glob() cannot be used"),
        ("FROM summary", "FROM summary, duckdb_settings()", "duckdb_settings() cannot be used"),
        ("FROM summary", "FROM information_schema.tables", 'unknown table "information_schema.tables"'),
        ("goodput_total_bps", "random()", "random cannot be used: its value is another one every time"),
        ("goodput_total_bps", "year(CURRENT_TIMESTAMP)", "current_timestamp cannot be used"),
        ("WHERE class = 'all'", "USING SAMPLE 1", "a sample cannot be used"),
        ("goodput_total_bps", f"goodput_total_bps {'+ 1' * 900}", "the query is nested too deeply"),
        ("SELECT goodput_total_bps / 1e6 FROM summary WHERE class = 'all'", "SELECT 1", "reads no table of the run"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_with_its_place(study: Path, old: str, new: str, said: str | None) -> None:
    text = study.read_text(encoding="utf-8")
    assert old in text
    study.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ScenarioError) as error:
        reading.folder(study.parent, leaving_out="paper.toml")
    assert str(error.value).startswith(f"{study}:")
    if said is None:
        line = [number for number, found in enumerate(text.splitlines(), start=1) if found == "[[claims]]"]
        said = f'{study}:{line[1]}: claims[1]: the id "T01" is already used: {study}:{line[0]}'
    assert said in str(error.value)


def test_a_metric_may_be_a_formula_in_a_study_with_runs(study: Path) -> None:
    text = study.read_text(encoding="utf-8")
    study.write_text(
        text.replace("[[panels]]", '[metrics.twice]\nformula = "2 * workers"\n\n[[panels]]', 1), encoding="utf-8"
    )
    read = reading.read(study)
    assert {tables for row in plan.rows(read) if row.task for tables in row.task.tables} == {"summary", "ports"}


def test_a_query_may_name_its_parts_and_read_several_tables() -> None:
    for sql in (
        "WITH done AS (SELECT * FROM flows) SELECT COUNT(*) FROM done, ports",
        "SELECT COUNT(*) FROM flows, (SELECT * FROM ports JOIN range(3) ON true)",
    ):
        measuring.check(sql, "here", columns=1)
        assert measuring.tables_of(sql) == {"flows", "ports"}


def test_a_query_has_every_column_that_it_reads_whether_it_names_it_or_not() -> None:
    rows = pl.DataFrame({"a": [1.0, 2.0], "B": [3.0, 5.0], "c": [7.0, 11.0]})

    def number(sql: str) -> float | int | None:
        # In a thread of its own, which has seen no other query.
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(measuring.number, sql, "here", lambda _: rows).result()

    for sql, value in (
        ("SELECT sum(a) FROM flows", 3),
        ('SELECT sum("b") FROM flows WHERE A > 1', 5),
        ("SELECT count(*) FROM flows", 2),
        ("SELECT sum(c) FROM (SELECT * FROM flows)", 18),
        ("SELECT count(f) FROM flows f", 2),
        ("SELECT max(f.c) FROM flows f JOIN ports p USING (a)", 11),
        ("SELECT len(to_json(flows)) FROM flows WHERE a = 1", 25),
        ("SELECT count(*) FROM flows NATURAL JOIN (SELECT 1.0 AS a, 4.0 AS b)", 0),
        ("WITH d AS (FROM flows) SELECT sum(c) FROM d", 18),
    ):
        assert number(sql) == value, sql


def test_bad_input_is_one_message_and_exit_code_2(incast: Command, study: Path) -> None:
    folder = study.parent.parent
    for arguments, said in (
        (["sweep", "nowhere.toml"], "no such file"),
        (["sweep", str(study.parent)], "directory"),
        (["sweep", str(study), "--shard", "4/3"], "--shard 4/3: expected i/n with i from 1 to n"),
        (["sweep", str(study), "--shard", "0/3"], "--shard 0/3: expected"),
        (["sweep", str(study), "--shard", "a/b"], "--shard a/b: expected"),
        (["sweep", str(study), "--workers", "0"], "--workers 0"),
        (["reproduce", "papr", "--studies", str(folder)], 'unknown paper "papr"; did you mean "paper"?'),
        (["reproduce", "paper", "--studies", "nowhere"], "no studies in nowhere"),
        (["reproduce", "paper", "--studies", str(folder), "--figure", "7"], 'unknown figure "7"'),
    ):
        done = incast(*arguments)
        assert done.returncode == 2, done.stderr
        assert done.stderr.startswith("incast: ")
        assert said in done.stderr
        assert "Traceback" not in done.stderr


def test_a_point_that_cannot_be_run_is_named_before_anything_is_run(incast: Command, study: Path) -> None:
    text = study.read_text(encoding="utf-8").replace('"stack.sender" = "newreno"', '"stack.sender" = "newrno"')
    study.write_text(text, encoding="utf-8")
    done = incast("sweep", study)
    assert done.returncode == 2
    assert 'the curve "tcp" at workers 2 cannot be run' in done.stderr
    assert "newreno" in done.stderr


def scope() -> Scope:
    return Scope(
        {"n": np.array([10.0, 20.0, 30.0]), "size": np.array(["1KB", "2KB", "3KB"])},
        {"m": {"a": np.array([[1.0, 2.0, 6.0], [2.0, 2.0, 2.0]]), "b": np.array([[2.0, 2.0, 2.0], [1.0, 4.0, 4.0]])}},
    )


@pytest.mark.parametrize(
    ("text", "first", "second"),
    [
        ("mean(m.a)", 3, 2),
        ("mean(m.a / m.b - 1)", 0.5, 0),
        ("mean(m.a) / mean(m.b)", 1.5, 2 / 3),
        ("median(m.a)", 2, 2),
        ("max(m.a) - min(m.a)", 5, 0),
        ("sum(m.a ** 2)", 41, 12),
        ("share(m.a < m.b)", 1 / 3, 2 / 3),
        ("all(m.a >= 1)", 1, 1),
        ("any(m.a > m.b)", 1, 1),
        ("all(1 <= m.a < 6)", 0, 1),
        ("all(m.a < m.b or n == 30)", 0, 0),
        ("all(not m.a == 7)", 1, 1),
        ("at(m.a, n=20)", 2, 2),
        ("at(m.a, size='3KB')", 6, 2),
        ("mean(where(m.a, n >= 20))", 4, 2),
        ("mean(where(m.a, size != '3KB'))", 1.5, 2),
        ("max(least(m.a, m.b))", 2, 2),
        ("exp(log(sum(m.a))) / sum(m.a)", 1, 1),
        ("min(most(m.a, m.b, n / 10))", 2, 2),
        ("abs(-log(at(m.b, n=10)))", np.log(2), 0),
    ],
)
def test_expressions_are_reduced_along_the_axes_of_each_resampling(text: str, first: float, second: float) -> None:
    found = expressions.evaluate(expressions.parse(text), scope())
    assert found == pytest.approx([first, second])


@pytest.mark.parametrize(
    ("text", "expected"),
    [("b * b", 9e20), ("b ** 2", 9e20), ("a ** (0 - a)", 1e-10), ("b % (a - 10)", np.nan), ("a - b", 10 - 3e10)],
)
def test_whole_numbers_along_an_axis_are_numbers_like_others(text: str, expected: float) -> None:
    axes = expressions.axes_of(["a", "b"], [(10, 30_000_000_000)])
    assert expressions.evaluate(expressions.parse(text), Scope(axes, {})) == pytest.approx([expected], nan_ok=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1" * 400, "1111.* is too large a number"),
        ("+".join(["n"] * 20_000), "is nested too deeply, or has too many terms"),
        ("-" * 20_000 + "n", "is nested too deeply, or has too many terms|not a valid expression"),
        ("at(m.a, n=11)", "no point has n = 11; allowed: 10, 20"),
        ("n\0", "is not a valid expression"),
    ],
)
def test_what_cannot_be_computed_is_said(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        expressions.evaluate(expressions.parse(text), scope())


@pytest.mark.parametrize("text", ["mean(m.a < m.b)", "all(m.a > 0)", "min(m.a)", "all(not m.a > 9)", "any(m.a > 9)"])
def test_what_depends_on_a_missing_number_is_missing(text: str) -> None:
    missing = Scope({}, {"m": {"a": np.array([[np.nan]]), "b": np.array([[1.0]])}})
    assert np.isnan(expressions.evaluate(expressions.parse(text), missing)).all()


@pytest.mark.parametrize(
    "text",
    ["__import__('os')", "m.a.__class__", "(lambda: 1)()", "[1][0]", "mean(x for x in m)", "size + 1", "m.a < 'x'",
     "at(m.a)", "where(m.a, m.a > 1)", "mean(m.a, m.b)", "least(m.a)", "size", "where(m.a, n)", "max(at(m.a, m=3))"],
)  # fmt: skip
def test_nothing_else_can_be_said(text: str) -> None:
    with pytest.raises(ExpressionError):
        expressions.evaluate(expressions.parse(text), scope())


def claim(**keys: object) -> Claim:
    given: dict[str, object] = {
        "id": "X", "text": "", "measure": expressions.parse("1"), "paper": -0.5, "within": None, "at_least": None,
        "at_most": None, "direction": None, "why": "", "unit": "", "place": "",
    }  # fmt: skip
    return Claim(**{**given, **keys})  # type: ignore[arg-type]


def test_verdicts_follow_from_resamples_and_interval() -> None:
    below, above = Direction("below", 0.0), Direction("above", 0.0)
    judged = claims.verdict_of
    assert judged(claim(), 1.0, -0.7, 0.2) == "holds"
    assert judged(claim(), 0.95, -0.7, 0.2) == "holds"
    assert judged(claim(direction=below), 0.949, -0.7, -0.2) == "undecided"
    assert judged(claim(), 0.051, -0.7, 0.2) == "undecided"
    assert judged(claim(), 0.05, -0.4, -0.38) == "fails"
    assert judged(claim(direction=below), 0.0, -0.4, -0.38) == "direction"
    assert judged(claim(direction=below), 0.0, -0.8, 0.01) == "fails"
    assert judged(claim(direction=above), 0.0, 0.01, 0.02) == "direction"
    assert judged(claim(direction=above), 0.0, -0.4, -0.38) == "fails"


def test_a_tolerance_is_met_up_to_its_ends_and_never_by_a_missing_number() -> None:
    values = np.array([-0.75, -0.5, -0.25, 0.0, np.nan, np.inf])
    assert claims.meets(claim(within=0.25), values).tolist() == [True, True, True, False, False, False]
    assert claims.meets(claim(at_least=-0.25), values).tolist() == [False, False, True, True, False, True]
    assert claims.meets(claim(at_least=-0.5, at_most=-0.25), values).tolist() == [False, True, True, *3 * [False]]


def numbers(study: Study, drops: list[float]) -> Table:
    """Return a table in which TCP's goodput is 1 and drops 0, and DCTCP's drops differ by seed."""
    rows = [
        (curve.name, str(place[0]), str(seed), "0", "1", str(drop if curve.name == "dctcp" else 0))
        for curve in study.curves
        for place in study.grid()
        for seed, drop in enumerate(drops, start=1)
    ]
    return Table(("curve", "workers", "seed", "packet_hops", "goodput", "drops"), tuple(rows), None, "0")


@pytest.mark.parametrize(
    ("drops", "verdict", "said"),
    [
        ([-3, -2, -1], "holds", ""),
        ([1, 2, 3], "fails", ""),
        # The mean is below 0, and so are 20 of 27 resamples: the others draw the last seed twice or thrice.
        ([-2, -2, 3], "undecided", "not decidable by 3 seeds: met in 72 % of the resamples"),
    ],
)
def test_seeds_that_would_decide_either_way_decide_nothing(
    study: Path, drops: list[float], verdict: str, said: str
) -> None:
    read = reading.read(study)
    one = claims.judge(read, numbers(read, drops))[1]
    assert (one.verdict, report.undecided(one)) == (verdict, said)


def test_one_seed_decides_by_its_number(study: Path) -> None:
    study.write_text(study.read_text(encoding="utf-8").replace("seeds = 3", "seeds = 1"), encoding="utf-8")
    read = reading.read(study)
    for drop, verdict in ((-1, "holds"), (1, "fails")):
        one = claims.judge(read, numbers(read, [drop]))[1]
        assert (one.verdict, one.low, one.high) == (verdict, None, None)


def test_a_variant_of_a_figure_comes_after_it(study: Path) -> None:
    lines = study.read_text(encoding="utf-8").splitlines(keepends=True)
    variant = [line.replace('id = "T', 'id = "V') for line in lines]
    study.with_name("figure-1-ideal.toml").write_text("".join(variant), encoding="utf-8")
    study.with_name("figure-1b.toml").write_text("".join(lines).replace('id = "T', 'id = "W'), encoding="utf-8")
    names = [one.name for one in reading.folder(study.parent, leaving_out="paper.toml")]
    assert names == ["figure-1", "figure-1-ideal", "figure-1b"]


def calibrated(study: Path, drops: float) -> list[Judged]:
    """Judge T02, which needs the baseline T01: that DCTCP's goodput is a tenth above TCP's, which it is not."""
    text = (
        study.read_text(encoding="utf-8")
        .replace("[[claims]]", "[[baselines]]", 1)
        .replace("within = 100", "at_least = 0.1")
    )
    study.write_text(text.replace("why =", 'shown_by = ["figure-1"]\nbaselines = ["T01"]\nwhy ='), encoding="utf-8")
    studies = reading.folder(study.parent, leaving_out="paper.toml")
    return claims.of_paper(studies, {"figure-1": numbers(studies[0], 3 * [drops])})


def test_a_claim_says_nothing_if_a_baseline_that_it_needs_does_not_hold(study: Path) -> None:
    first, second = calibrated(study, -1)
    assert (first.claim.id, first.verdict, first.claim.is_baseline) == ("T01", "fails", True)
    assert (second.verdict, second.unmatched, second.otherwise) == ("baseline", ("T01",), "holds")
    assert second.why == ""
    said = reproduce.as_json("paper", [first, second])
    assert [one["id"] for one in said["baselines"]] == ["T01"]
    assert [(one["id"], one["unmatched"], one["otherwise"]) for one in said["claims"]] == [("T02", ["T01"], "holds")]


def test_an_explanation_is_measured_if_a_study_shows_it(study: Path) -> None:
    first, second = calibrated(study, 1)
    assert (second.verdict, second.otherwise) == ("baseline", "fails")
    assert (second.why, second.badge) == ("The buffer is small.", "measured")
    assert (first.why, first.badge) == ("", None)
    other = replace(second, claim=replace(second.claim, shown_by=Names()))
    assert other.badge == "conjecture"
    assert replace(other, verdict="not-judged").badge is None


@pytest.mark.parametrize(
    ("measured", "paper", "direction", "sign", "size"),
    [
        (-0.25, -0.5, None, "right", 0.5),
        (0.25, -0.5, None, "wrong", -0.5),
        (0.25, -0.5, Direction("above", 0.0), "right", -0.5),
        (0.25, "smaller", Direction("below", 0.25), "wrong", None),
        (0.25, "smaller", None, None, None),
        (0.25, 0, None, None, None),
        (None, -0.5, Direction("below", 0.0), None, None),
    ],
)
def test_sign_and_size_are_those_of_the_paper(
    study: Path, measured: float | None, paper: float | str, direction: Direction | None, sign: str, size: float
) -> None:
    made = claim(paper=paper, direction=direction, measure=expressions.parse("mean(x)"))
    one = Judged(made, reading.read(study), measured, None, None, None, "fails", "")
    assert (one.sign, one.size) == (sign, size)
    truth = replace(one, claim=replace(made, measure=expressions.parse("all(x > 1)")))
    assert truth.sign is None


def test_atoms_are_counted_with_their_claim(study: Path) -> None:
    read = reading.read(study)
    one, other = claims.judge(read, None)

    def named(*ids: str) -> list[Judged]:
        return [replace(one, claim=replace(one.claim, id=id_)) for id_ in ids]

    assert claims.count(named("A12a", "A12b", "A13")) == "2 claims, 3 atoms"
    assert claims.count([*named("A1"), replace(other, claim=replace(other.claim, is_baseline=True))]) == "1 claim"
    # A letter that follows no number is a part of the name.
    assert claims.count(named("B-tail", "B-taim")) == "2 claims"


@pytest.mark.parametrize(
    ("unit", "paper", "ours", "shown"),
    [
        ("%", -0.508, (-0.83349, -0.9, -0.61), "-50.8 % | -83.3 % (-90 to -61)"),
        ("%", 0.004, (0.0012345, 0.001, 0.002), "0.4 % | 0.12 % (0.1 to 0.2)"),
        ("us", 200, (335.55, 254.54, 424.6), "200 us | 335.6 us (255 to 425)"),
        ("", 200, (335.55, 254.54, 424.6), "200 | 335.6 (255 to 425)"),
        ("%", "smallest", (0.1, 0.1, 0.1), "smallest | 10 %"),
        ("Mbit/s", 1250, (95.264, 95.255, 95.271), "1,250 Mbit/s | 95.26 Mbit/s"),
        ("", 1e-7, (27600.4, 27493, 27691), "1e-07 | 27,600 (27,500 to 27,700)"),
    ],
)
def test_numbers_of_a_claim_are_shown_in_its_unit(
    study: Path, unit: str, paper: float | str, ours: tuple[float, float, float], shown: str
) -> None:
    made = claim(unit=unit, paper=paper, measure=expressions.parse("mean(x)"))
    one = Judged(made, reading.read(study), *ours, 1.0, "holds", "")
    assert f"{report.paper_value(made)} | {report.measured(one)}" == shown


def test_a_panel_of_several_axes_says_where_the_others_stand(study: Path) -> None:
    second = '[axes.size]\nkey = "traffic.burst.response"\nvalues = ["1KiB", "2KiB"]\n\n[curves.tcp]'
    text = study.read_text(encoding="utf-8").replace("[curves.tcp]", second, 1)
    text = text.replace("workers=8)", "workers=8, size='2KiB')")
    text = text.replace("at = { workers = 8 }", 'at = { workers = 8, size = "2KiB" }')
    study.write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioError, match='drawn over one axis: give a value of the axis "size"'):
        reading.read(study)
    for at, said in [
        ('size = "3KiB"', "no point has size = '3KiB'; allowed: 1KiB, 2KiB"),
        ("workers = 2", 'unknown axis "workers"; allowed: size'),
    ]:
        study.write_text(text.replace('x = "workers"', f'x = "workers"\nat = {{ {at} }}'), encoding="utf-8")
        with pytest.raises(ScenarioError) as refused:
            reading.read(study)
        assert said in str(refused.value)
    study.write_text(text.replace('x = "workers"', 'x = "workers"\nat = { size = "2KiB" }'), encoding="utf-8")
    read = reading.read(study)
    panel = next(panel for panel in read.panels if isinstance(panel, Lines))
    assert [read.grid()[index] for index in read.along(panel)] == [(2, "2KiB"), (5, "2KiB"), (8, "2KiB")]
    of_second = {"1KiB": 0, "2KiB": 100}
    numbers = Table(
        ("curve", "workers", "size", "seed", "packet_hops", panel.y),
        tuple(
            (curve.name, str(place[0]), str(place[1]), str(seed), "0", str(int(place[0]) + of_second[str(place[1])]))
            for curve in read.curves
            for place in read.grid()
            for seed in range(1, read.seeds + 1)
        ),
        None,
        "0",
    )
    chart = charts.of_lines(read, panel, numbers)
    assert [line.y for line in chart.lines] == [(102.0, 105.0, 108.0)] * len(read.curves)
    assert "size: 2 KiB" in chart.caption


def test_of_several_demands_each_is_told() -> None:
    found = expressions.parse("min(m.a) > 0 and max(m.a) < 3 or n == 1")
    assert [part.text for part in expressions.parts(found)] == [found.text]
    both = expressions.parse("min(m.a) > 0 and max(m.a) < 3")
    assert [part.text for part in expressions.parts(both)] == ["min(m.a) > 0", "max(m.a) < 3"]
    assert [list(expressions.evaluate(part, scope())) for part in expressions.parts(both)] == [[1, 1], [0, 1]]
    assert expressions.is_truth(both)
    assert not expressions.is_truth(expressions.parse("share(m.a > 2)"))


FORMULAS = """title = "By formula"

[axes.flows]
label = "flows"
values = [20, 40]

[axes.window]
values = [2, 4]

[curves.one]
[curves.two]

[metrics.risk]
formula = { one = "incast_probability(flows, window, 60)", two = "incast_probability(flows / 2, window, 60)" }

[[panels]]
kind = "map"
x = "flows"
y = "window"
value = "risk.one - risk.two"
within = 0.5
"""


def test_a_study_of_formulas_runs_nothing_and_has_a_table_and_a_map(incast: Command, tmp_path: Path) -> None:
    path = tmp_path / "risk.toml"
    path.write_text(FORMULAS, encoding="utf-8")
    done = incast("sweep", path)
    assert done.returncode == 0, done.stderr
    rows = (tmp_path / "out" / "risk.csv").read_text(encoding="utf-8").splitlines()[2:]
    risk = {tuple(row.split(",")[:3]): float(row.split(",")[-1]) for row in rows}
    assert risk["one", "40", "4"] == pytest.approx(0.9987, abs=5e-5)
    assert risk["two", "40", "4"] == pytest.approx(0.0753, abs=5e-5)
    study = reading.read(path)
    assert study.scenario is None
    (panel,) = study.panels
    assert isinstance(panel, Map)
    known = table.Table(("curve", "flows", "window", "seed", "packet_hops", "risk"),
                        tuple(tuple(row.split(",")) for row in rows), None, "0")  # fmt: skip
    drawn = cells.of_map(study, panel, known)
    # By row from the bottom: windows of 2, then of 4; by column 20, then 40 flows.
    assert drawn.values[1][1] == pytest.approx(0.9987 - 0.0753, abs=1e-4)
    assert drawn.values[0][0] == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('label = "flows"', 'label = "flows"\nkey = "seed"', "axes.flows.key: a study without a scenario has no runs"),
        ("[curves.one]", '[curves.one]\nset = { "a.b" = 1 }', "curves.one.set: a study without a scenario"),
        ('title = "By formula"', 'title = "By formula"\nset = { a = 1 }', "set: a study without a scenario"),
        ('one = "incast_probability(flows, window, 60)", ', "", 'missing formula for the curve "one"'),
        ("two =", "tow =", 'unknown curve "tow"'),
        ("flows / 2", "flow / 2", 'unknown axis or metric "flow"'),
        ("flows / 2, window, 60", "flows / 2, window", "incast_probability()"),
        ('y = "window"', 'y = "flows"', "a map is drawn over two axes"),
        ("risk.one - risk.two", "risk.three", 'unknown curve "three"'),
        ("risk.one - risk.two", "where(risk.one, flows > 20)", "a map needs a number at every point"),
        ('kind = "map"', 'kind = "dots"', "a study without a scenario"),
        ("values = [2, 4]", "values = [2, 4]\nshown = [1]", "expected 2 names"),
    ],
)
def test_formulas_that_cannot_be_meant_are_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in FORMULAS
    path = tmp_path / "risk.toml"
    path.write_text(FORMULAS.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ScenarioError, match=re.escape(said)):
        reading.read(path)
