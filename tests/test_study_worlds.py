"""Studies whose curves differ in their world, and what such studies are written with."""

from __future__ import annotations

import csv
import json
import threading
from pathlib import Path

import pytest

import incast
from incast._native import RunError, ScenarioError
from incast.studies import batches, execution, plan, reading, sweep
from incast.studies.store import Store

STUDY = """
title = "Two worlds"
scenario = "burst.toml"
seeds = 2
[worlds.double]
command = ["python3", "double.py"]
[axes.senders]
key = "traffic.burst.senders"
values = [1, 2]
[axes.kind]
shown = ["plain", "wide"]
set = [{}, { "tcp.initial_window" = 4, "double.factor" = 3 }]
[curves.ours]
world = "packets"
[curves.ideal]
world = "ideal"
[curves.double]
world = "double"
[metrics]
goodput = { sql = "SELECT goodput_total_bps FROM summary WHERE class = 'all'" }
bytes = { sql = "SELECT SUM(size_bytes) FROM flows" }
"""
SCENARIO = """
name = "burst"
[topology]
kind = "star"
hosts = 3
link = { rate = "1Gbps", delay = "5us" }
[switch]
buffer = { name = "static", limit = "64KiB", count_in_service = true }
[traffic.burst]
kind = "incast"
senders = 1
size = "8KiB"
"""
# Sends twice the bytes, or as many times as the study says, and notes each run.
DOUBLE = """
import json, sys
request = json.load(sys.stdin)
with open("runs.log", "a") as log:
    print(json.dumps(request["scenario"].get("double")), request["seed"], file=log)
factor = request["scenario"].get("double", {}).get("factor", 2)
flows = [flow | {"size_bytes": flow["size_bytes"] * factor} for flow in request["flows"]]
print(json.dumps({"summary": [{"class": "all", "goodput_total_bps": 5.0, "packet_hops": 0}], "flows": flows}))
"""


def written(folder: Path, study: str = STUDY, command: str = DOUBLE) -> Path:
    for name, text in (("study.toml", study), ("burst.toml", SCENARIO), ("double.py", command)):
        (folder / name).write_text(text, encoding="utf-8")
    return folder / "study.toml"


def table(folder: Path, file: Path) -> dict[tuple[str, ...], dict[str, str]]:
    assert sweep.main(file, out=folder / "out", shard=None, dry_run=False, workers=2) == 0
    with (folder / "out" / "study.csv").open(encoding="utf-8") as lines:
        next(lines)
        return {(row["curve"], row["senders"], row["kind"], row["seed"]): row for row in csv.DictReader(lines)}


def test_a_curve_is_carried_out_by_its_world(tmp_path: Path) -> None:
    rows = table(tmp_path, written(tmp_path))
    assert rows["ours", "2", "plain", "1"]["bytes"] == "16384"
    assert rows["double", "2", "plain", "1"] | {"goodput": "5.0", "bytes": "32768"} == rows["double", "2", "plain", "1"]
    ideal = incast.run(tmp_path / "burst.toml", seed=1, world="ideal").summary_dict["goodput_total_bps"]
    assert float(rows["ideal", "1", "plain", "1"]["goodput"]) == ideal


def test_a_long_request_reaches_a_slow_world(tmp_path: Path) -> None:
    slow = DOUBLE.replace("import json, sys", "import json, sys, time; time.sleep(0.3)")
    written(tmp_path, command=slow)
    burst = (tmp_path / "burst.toml").read_text(encoding="utf-8") + 'repetitions = 2000\ninterval = "1ms"\n'
    (tmp_path / "burst.toml").write_text(burst, encoding="utf-8")
    study = reading.read(tmp_path / "study.toml")
    task = next(row.task for row in plan.rows(study) if row.task and row.task.outside)
    store = Store(tmp_path / "runs")
    execution.run([task], store)
    assert store.table(task.key, "flows").height == 2000


def test_keys_of_a_world_are_for_it_alone(tmp_path: Path) -> None:
    rows = table(tmp_path, written(tmp_path))
    assert rows["double", "1", "wide", "2"]["bytes"] == str(3 * 8192)
    log = (tmp_path / "runs.log").read_text(encoding="utf-8").splitlines()
    assert sorted(log) == sorted([f"{json.dumps(own)} {seed}" for own in (None, {"factor": 3}) for seed in (1, 2)] * 2)


def test_finished_runs_of_a_world_are_kept_until_its_command_changes(tmp_path: Path) -> None:
    file = written(tmp_path)
    table(tmp_path, file)
    table(tmp_path, file)
    log = tmp_path / "runs.log"
    assert len(log.read_text(encoding="utf-8").splitlines()) == 8
    written(tmp_path, command=f"{DOUBLE}# changed\n")
    table(tmp_path, file)
    assert len(log.read_text(encoding="utf-8").splitlines()) == 16


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("import sys; sys.exit('no engine')", "the world double failed: no engine"),
        ("print('{}')", "the world double printed no table of a run"),
        ("print('no JSON')", "the world double printed no table of a run"),
        ('print(\'{"summary": [{"clas": "all"}], "flows": []}\')', 'unknown column "clas"; did you mean "class"?'),
        ("import os; os.write(1, bytes([34, 252, 34]))", "the world double printed no table of a run"),
        ("import os, sys; os.write(2, bytes([252])); sys.exit(1)", "the world double failed: \ufffd"),
        ("print('[' * 100000)", "the world double printed no table of a run"),
    ],
)
def test_what_goes_wrong_in_a_world_is_said(tmp_path: Path, command: str, message: str) -> None:
    study = reading.read(written(tmp_path, command=command))
    with pytest.raises(RunError, match=message.replace("?", r"\?")):
        execution.run(plan.runs(plan.rows(study)), Store(tmp_path / "runs"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'world = "double"',
            'world = "doubel"',
            r'curves.double.world: unknown world "doubel"; did you mean "double"\?',
        ),
        ("[worlds.double]", "[worlds.ideal]", '"ideal" is a world of this program'),
        ('command = ["python3", "double.py"]', "command = []", "command: expected the words of a command"),
        ('shown = ["plain", "wide"]', "", "set needs shown"),
        ("set = [{}, {", "values = [1, 2]\nset = [1, {", "expected a table of keys per point"),
        ("seeds = 2", 'seeds = 2\nonly = "senders > 2"', "only: expected a condition on the axes that is true at some"),
        ("seeds = 2", 'seeds = 2\nonly = "bytes.ours > 2"', "only: unknown metric"),
        ("seeds = 2", 'seeds = 2\nlike = "study.toml"', r"study.toml:\d+: like: .*study.toml is like this file"),
    ],
)
def test_mistakes_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in STUDY
    with pytest.raises(ScenarioError, match=message):
        reading.read(written(tmp_path, STUDY.replace(old, new, 1)))


def test_only_omits_points(tmp_path: Path) -> None:
    only = "seeds = 2\nonly = \"(senders == 2) + (kind == 'wide') % 2 == 1\""
    study = reading.read(written(tmp_path, STUDY.replace("seeds = 2", only)))
    assert study.grid() == [(1, "wide"), (2, "plain")]
    assert [point.at for point in study.points()] == study.grid() * 3


def test_a_panel_needs_all_its_points(tmp_path: Path) -> None:
    panel = '\n[[panels]]\nx = "senders"\ny = "bytes"\nat = { kind = "wide" }\n'
    assert len(reading.read(written(tmp_path, STUDY + panel)).panels) == 1
    only = STUDY.replace("seeds = 2", "seeds = 2\nonly = \"senders == 1 or kind == 'plain'\"")
    with pytest.raises(ScenarioError, match="points of this panel are omitted"):
        reading.read(written(tmp_path, only + panel))


def test_a_command_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    study = reading.read(written(tmp_path, STUDY.replace('"double.py"', '"double.py\\u0000"')))
    with pytest.raises(RunError, match="the world double cannot be started: embedded null byte"):
        execution.run(plan.runs(plan.rows(study)), Store(tmp_path / "runs"))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ('{ "double" = 1, "double.x" = 2 }', 'cannot set "double.x": no table or list entry holds it'),
        ('{ "double.a" = [1], "double.a.5" = 2 }', 'cannot set "double.a.5": no table or list entry holds it'),
        ('{ "a = 1\\nb" = 2 }', r"'a = 1\\nb' is not a single key"),
    ],
)
def test_keys_of_a_world_that_cannot_be_set_are_refused(tmp_path: Path, keys: str, message: str) -> None:
    text = STUDY.replace('{ "tcp.initial_window" = 4, "double.factor" = 3 }', keys)
    with pytest.raises(ScenarioError, match=message):
        plan.rows(reading.read(written(tmp_path, text)))


def test_a_world_need_not_say_how_many_packet_hops_a_run_had(tmp_path: Path) -> None:
    rows = table(tmp_path, written(tmp_path, command=DOUBLE.replace(', "packet_hops": 0', "")))
    assert rows["double", "1", "plain", "1"]["packet_hops"] == ""
    assert rows["ours", "1", "plain", "1"]["packet_hops"] != ""


def test_a_worker_refuses_another_command_and_runs_it_in_the_folder_of_the_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    study = reading.read(written(Path()))
    task = next(row.task for row in plan.rows(study) if row.task and row.task.outside)
    store = Store(tmp_path / "out" / "runs")
    store.prepare()
    batch = batches.of([task], store)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert batches.carry_out(batch, threading.Event()).error == ""
    assert store.has(task.key, task.tables)
    written(tmp_path, command=f"{DOUBLE}# another\n")
    assert "double.py, which the scenario reads, is another one there" in batches.carry_out(
        batch, threading.Event()
    ).error  # fmt: skip


def test_a_study_like_another_has_what_it_lacks_from_it(tmp_path: Path) -> None:
    written(tmp_path)
    more = tmp_path / "more.toml"
    more.write_text('like = "study.toml"\nseeds = 3\n[axes.senders]\nkey = "traffic.burst.senders"\nvalues = [2]\n')
    study = reading.read(more)
    assert (study.title, study.seeds, study.grid()) == ("Two worlds", 3, [(2, "plain"), (2, "wide")])


def test_a_study_uses_some_tables_of_another_in_its_own_order(tmp_path: Path) -> None:
    written(tmp_path)
    more = tmp_path / "more.toml"
    text = """like = "study.toml"
use.metrics = ["bytes", "flows", "goodput"]
use.curves = ["ideal"]
[metrics]
flows = { sql = "SELECT COUNT(*) FROM flows" }
[axes.senders]
key = "traffic.burst.senders"
values = [2]
"""
    more.write_text(text)
    study = reading.read(more)
    assert [metric.name for metric in study.metrics] == ["bytes", "flows", "goodput"]
    assert [curve.name for curve in study.curves] == ["ideal"]
    assert study.grid() == [(2,)]
    for old, new, message in [
        ('"bytes"', '"byte"', 'more.toml:2: use.metrics: unknown name in metrics "byte"; did you mean "bytes"?'),
        ("use.curves", "use.curve", 'more.toml:3: use.curve: unknown key "curve"; did you mean "curves"?'),
        ('["ideal"]', '"ideal"', "more.toml:3: use.curves: expected a list of strings, found 'ideal'"),
    ]:
        more.write_text(text.replace(old, new))
        with pytest.raises(ScenarioError) as refused:
            reading.read(more)
        assert message in str(refused.value)


def test_a_mistake_in_the_other_study_is_told_with_its_place(tmp_path: Path) -> None:
    written(tmp_path, STUDY.replace("seeds = 2", 'seeds = "2"'))
    more = tmp_path / "more.toml"
    more.write_text('like = "study.toml"\n', encoding="utf-8")
    with pytest.raises(ScenarioError, match=r"study.toml:4: seeds: expected a whole number"):
        reading.read(more)
