"""What is fuzzed: each target takes a text and fails if the program does anything but accept or refuse it properly."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

import mutations
from conftest import SMALL, STUDY
from incast import RunError, ScenarioError, _native, api, scenarios
from incast.advice import closed_form, cluster
from incast.studies import claims, expressions, measuring, plan, reading, table
from incast.studies.expressions import ExpressionError, Scope
from incast.studies.study import Value

ROOT = Path(__file__).parents[2]
# A run of more takes too long to be one of thousands.
_MOST_HOPS = 20_000
_LONGEST_S = 2.0


@dataclass(frozen=True)
class Target:
    """One kind of input."""

    name: str
    suffix: str
    seeds: Callable[[], list[str]]
    """Good inputs."""
    mutated: Callable[[list[str]], st.SearchStrategy[str]]
    check: Callable[[str, Path], None]
    """Fails for a text; the folder is for files."""


def refused(text: str, file: str, error: ScenarioError) -> None:
    """Check that a refusal says something, in few words, and where."""
    said = str(error)
    assert said.strip(), "a refusal without a word"
    assert file in said or not file, f"a refusal that does not name the file: {said}"
    assert len(said) < 20_000 + 20 * len(text), f"a refusal of {len(said)} bytes"


def _scenario_seeds() -> list[str]:
    return [SMALL, *(_native.example(name) for name in _native.examples())]


def _scenario(text: str, _folder: Path) -> None:
    source = scenarios.Source(text, "fuzz.toml", "fuzz")
    try:
        checked = scenarios.check(source, [], None)
    except ScenarioError as error:
        refused(text, "fuzz.toml", error)
        return
    json.dumps(checked, allow_nan=False)
    if checked["packet_hops"] <= _MOST_HOPS and "linux" not in text:
        run = scenarios.start(source, ["run.stop_at=20ms"], 1)
        if not run.wait(_LONGEST_S):
            run.cancel()
        try:
            api.Result(run.result()).to_arrow("summary")
        except RunError as error:
            if "defect" in str(error):
                raise


def _override(text: str, _folder: Path) -> None:
    try:
        scenarios.check(scenarios.Source(SMALL, "fuzz.toml", "fuzz"), [text], None)
    except ScenarioError as error:
        refused(text, "", error)


_LISTED = SMALL.split("[traffic.burst]")[0]


def _trace(text: str, folder: Path) -> None:
    (folder / "flows.txt").write_text(text, encoding="utf-8")
    named = scenarios.Source(
        _LISTED + '[traffic.measured]\nkind = "trace"\nfile = "flows.txt"\n', str(folder / "fuzz.toml"), "fuzz"
    )
    try:
        scenarios.check(named, [], None)
    except ScenarioError as error:
        refused(text, "flows.txt", error)


def _sizes(text: str, folder: Path) -> None:
    (folder / "sizes.txt").write_text(text, encoding="utf-8")
    drawn = 'kind = "poisson"\nload = 0.1\nreference = "host-links"\nflows = 20'
    traffic = f'[traffic.drawn]\n{drawn}\nsizes = {{ kind = "cdf", file = "sizes.txt" }}\n'
    try:
        scenarios.check(scenarios.Source(_LISTED + traffic, str(folder / "fuzz.toml"), "fuzz"), [], None)
    except ScenarioError as error:
        refused(text, "sizes.txt", error)


_FORMULAS = """title = "By formula"
only = "flows * window < 200"
open = ["window"]
frozen = { window = 2 }

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

[[panels]]
kind = "winners"
x = "flows"
y = "window"
metric = "risk"
best = "lowest"

[[judged]]
claim = "A"
"""
_SETTINGS = """title = "Settings"
scenario = "scenarios/small.toml"
seeds = 1
full = { seeds = 2, set = { "run.stop_at" = "1s" } }

[axes.setting]
points = "points.csv"

[curves.one]
needs = ["senders"]
set = { "switch.buffer.limit" = "$limit" }

[curves.two]
set = { "stack.receiver" = "ictcp" }

[metrics.drops]
sql = "SELECT SUM(drops_packets) FROM ports"

[[panels]]
kind = "ranking"
metric = "drops"
best = "lowest"
by = ["$limit"]
"""
_POINTS = """# Drawn by hand.
setting,traffic.burst.workers,$limit,tcp.initial_window
small,2,5packets,
large,8,"20packets",4
"""


_MARKED = SMALL.replace("buffer =", 'marker = { name = "ecn-threshold", threshold = "5packets" }\nbuffer =')


def _study(text: str, folder: Path, points: str = _POINTS) -> None:
    file = folder / "fuzz.toml"
    (folder / "scenarios").mkdir(exist_ok=True)
    (folder / "scenarios" / "small.toml").write_text(_MARKED, encoding="utf-8")
    (folder / "points.csv").write_text(points, encoding="utf-8")
    file.write_text(text, encoding="utf-8")
    try:
        study = reading.read(file)
        if len(study.grid()) * len(study.curves) * study.seeds <= 100:
            plan.check(study)
            plan.rows(study)
    except ScenarioError as error:
        refused(text, "fuzz.toml" if points is _POINTS else "", error)


def _points(text: str, folder: Path) -> None:
    _study(_SETTINGS, folder, text)


def _query(text: str, _folder: Path) -> None:
    try:
        measuring.check(text, "fuzz.toml:1: metrics.fuzz.sql", columns=1)
    except ScenarioError as error:
        refused(text, "fuzz.toml:1: metrics.fuzz.sql: ", error)


def _expression(text: str, _folder: Path) -> None:
    grid: list[tuple[Value, ...]] = [(2, "a"), (5, "a"), (8, "b")]
    values = np.array([[1.0, 2.0, np.nan], [0.0, -1.0, 1e308]])
    scope = Scope(expressions.axes_of(["senders", "kind"], grid), {"fct": {"tcp": values, "dctcp": values[::-1]}})
    with contextlib.suppress(ExpressionError):
        expressions.evaluate(expressions.parse(text), scope)


def _table(text: str, folder: Path) -> None:
    _study(_FORMULAS.split("[[judged]]")[0], folder)
    study = reading.read(folder / "fuzz.toml")
    study.table.write_text(text, encoding="utf-8", newline="")
    try:
        known = table.read(study)
        table.saved_rows(study)
        assert known
        claims.of_paper([study], {study.name: known})
    except ScenarioError as error:
        refused(text, "fuzz.csv", error)


def _cluster(text: str, folder: Path) -> None:
    file = folder / "cluster.toml"
    file.write_text(text, encoding="utf-8")
    try:
        described = cluster.read(file)
        closed_form.report(described, closed_form.compute(described))
    except ScenarioError as error:
        refused(text, "cluster.toml", error)


def _script(text: str, folder: Path) -> None:
    report = json.loads(_native.conform(text, str(folder)))
    assert report["verdict"] in ("passes", "fails", "not-applicable", "unreadable")


def _scripts() -> list[str]:
    # Long ones would be most of the work.
    texts = [
        path.read_text(encoding="utf-8") for path in sorted((ROOT / "crates" / "conform" / "scripts").rglob("*.pkt"))
    ]
    return [text for text in texts if len(text) < 3000]


_TRACE = "4\n1 0 3 100 64000 0.001\n2 0 3 100 64000 0.001\n3 0 4 100 64000 0.0010005\n4 0 3 100 1500 0.002\n"
_QUERIES = [
    *re.findall(r'sql = "([^"]+)"', STUDY.split("[[panels]]")[0]),
    "WITH done AS (SELECT * FROM flows WHERE fct_s IS NOT NULL) SELECT quantile_cont(fct_s, 0.99) FROM done, ports",
    "SELECT SUM(CASE WHEN class = 'all' THEN 1 ELSE 0 END) OVER () FROM summary LIMIT 1",
]
_EXPRESSIONS = [
    "mean(fct.dctcp / fct.tcp - 1)", "at(fct.dctcp - fct.tcp, senders=8) * 100", "all(fct.tcp > 0 and not kind == 'a')",
    "max(where(fct.tcp, senders >= 5)) ** 2 % 7", "incast_probability(senders, 4, 60)",
    "least(fct.tcp, 1, log(senders))",
]  # fmt: skip
_SAVED = (
    "# incast 0.1.0: 8 runs, 0 packet-hops, 0.01 CPU minutes\ncurve,flows,window,seed,packet_hops,risk\n"
    + "".join(f"{curve},{flows},{size},1,0,0.5\n" for curve in ("one", "two") for flows in (20, 40) for size in (2, 4))
)  # fmt: skip

_OVERRIDES = ["tcp.rto_min=1ms", 'stack.receiver={ name = "ictcp" }', "traffic.burst.workers=3"]
_DISTRIBUTIONS = ["1000 0.5\n2000 1\n", "1 1 0.5\n20 2 1.0\n", "1 0\n9 100\n"]
_STUDIES = [STUDY, _FORMULAS.split("[[judged]]")[0], _FORMULAS, _SETTINGS]

TARGETS = {
    target.name: target
    for target in (
        Target("scenario", "toml", _scenario_seeds, mutations.toml, _scenario),
        Target("topology", "toml", lambda: [_native.example("custom")], mutations.rebuilt, _scenario),
        Target("override", "txt", lambda: _OVERRIDES, mutations.edited, _override),
        Target("trace", "txt", lambda: [_TRACE], mutations.edited, _trace),
        Target("sizes", "txt", lambda: _DISTRIBUTIONS, mutations.edited, _sizes),
        Target("study", "toml", lambda: _STUDIES, mutations.toml, _study),
        Target("points", "csv", lambda: [_POINTS], mutations.edited, _points),
        Target("query", "sql", lambda: _QUERIES, mutations.edited, _query),
        Target("expression", "txt", lambda: _EXPRESSIONS, mutations.edited, _expression),
        Target("table", "csv", lambda: [_SAVED], mutations.edited, _table),
        Target("cluster", "toml", lambda: [cluster.example("forty-servers")], mutations.toml, _cluster),
        Target("script", "pkt", _scripts, mutations.edited, _script),
    )
}
