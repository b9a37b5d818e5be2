"""The store of finished runs: what it trusts, what it shares between processes, and what it keeps."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import Command, small_paper, tasks_of
from incast import _native, api, scenarios
from incast.studies import execution, inventory, measurers, measuring, plan, reading, sweep
from incast.studies.store import DamagedError, Store

KEY = "0123456789abcdef" * 2
RUNS = 2 * 3 * 3


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return small_paper(tmp_path) / "figure-1.toml"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a store with one run."""
    made = Store(tmp_path / "runs")
    made.prepare()
    with made.claim(KEY) as claim:
        assert claim
        claim.put({"summary": pl.DataFrame({"x": [890.65, 2.0]}), "flows": pl.DataFrame({"y": [7]})}, {"seed": 1})
    return made


def file_of(store: Store) -> Path:
    (file,) = store.directory.glob("??/*.zip")
    return file


def changed(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_what_was_stored_is_what_is_read(store: Store) -> None:
    assert store.kept(KEY) == {"summary", "flows"}
    assert store.has(KEY, {"flows"})
    assert not store.has(KEY, {"flows", "ports"})
    assert store.table(KEY, "summary").to_dict(as_series=False) == {"x": [890.65, 2.0]}


def test_no_flipped_bit_of_a_run_changes_what_is_read(store: Store) -> None:
    file, known = file_of(store), {name: store.table(KEY, name) for name in ("summary", "flows")}
    whole, found = file.read_bytes(), 0
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        file.write_bytes(damaged)
        for name, table in known.items():
            try:
                assert store.table(KEY, name).equals(table), place
            except DamagedError:
                found += 1
        store.has(KEY, known)
    assert found > len(whole) / 2


def test_a_long_table_is_stored_part_by_part(study: Path, tmp_path: Path) -> None:
    """Memory holds a part at a time; part by part, the table is the one that the run found."""
    scenario = study.parent / "scenarios" / "small.toml"
    changed(scenario, "rounds = 2", "rounds = 100")
    task = replace(tasks_of(study)[-1], tables=frozenset({"summary", "queues"}))
    store = Store(tmp_path / "runs")
    execution.run([task], store)
    with zipfile.ZipFile(file_of(store)) as archive:
        assert [name for name in archive.namelist() if name.startswith("queues")] == ["queues.arrow", "queues.arrow.1"]
    result = api.run(scenario, set=task.changes, seed=task.seed)
    assert store.table(task.key, "queues").equals(result.queues)
    assert result.queues.height > 1 << 16


def test_a_table_that_lacks_a_part_is_damaged(store: Store) -> None:
    parts = [pl.DataFrame({"x": [place], "y": [-place]}) for place in range(3)]

    def in_parts(take: Callable[[pl.DataFrame], None]) -> None:
        for part in parts:
            take(part)

    with store.claim("c" * 32) as claim:
        assert claim
        claim.put({"queues": in_parts}, {})
    assert store.table("c" * 32, "queues").equals(pl.concat(parts))
    chosen = measuring.columns_of(["SELECT SUM(Y) FROM queues", "SELECT COUNT(*) FROM queues"], "queues")
    assert store.table("c" * 32, "queues", chosen).columns == ["y"]
    whole = store.directory / "cc" / f"{'c' * 32}.zip"
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(store.directory / "short", "w") as new:
        for about in old.infolist()[:-1]:
            new.writestr(about, old.read(about))
    (store.directory / "short").replace(whole)
    with pytest.raises(DamagedError, match="bad checksum of queues"):
        store.table("c" * 32, "queues")


@pytest.mark.parametrize("left", [0, 1, 100, -1])
def test_a_run_that_was_cut_off_is_not_there(store: Store, left: int) -> None:
    file = file_of(store)
    file.write_bytes(file.read_bytes()[:left])
    assert store.kept(KEY) == frozenset()
    with pytest.raises(DamagedError):
        store.table(KEY, "summary")


def test_a_run_under_the_name_of_another_is_not_taken_for_it(store: Store) -> None:
    file, other = file_of(store), "f" * 32
    (store.directory / "ff").mkdir()
    file.rename(store.directory / "ff" / f"{other}.zip")
    assert not store.has(other, {"summary"})


def spoiled(content: bytes, how: str) -> bytes:
    if how == "flipped":
        place = content.index(b".arrow") + 60
        return content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]
    return content[: {"empty": 0, "cut off": 900}[how]]


@pytest.mark.parametrize("how", ["flipped", "empty", "cut off"])
def test_damaged_runs_are_named_set_aside_and_computed_anew(
    inside: Command, study: Path, tmp_path: Path, how: str
) -> None:
    assert inside("sweep", study).returncode == 0
    table, files = tmp_path / "out" / "figure-1.csv", sorted((tmp_path / "out" / "runs").glob("??/*.zip"))
    before, right = table.read_bytes(), [file.read_bytes() for file in files]
    for file in files[:2]:
        file.write_bytes(spoiled(file.read_bytes(), how))
    done = inside("sweep", study)
    assert done.returncode == 0, done.stderr
    assert table.read_bytes() == before
    assert [file.read_bytes() for file in files] == right
    for file in files[:2]:
        aside = file.parents[1] / ".damaged" / file.name
        assert aside.read_bytes() == spoiled(right[files.index(file)], how)
        said = f"{file.relative_to(tmp_path)}: damaged ("
        assert done.stderr.count(said) == 1, done.stderr
    again = inside("sweep", study)
    assert "damaged" not in again.stderr


def test_a_run_has_its_name_only_after_it_is_on_the_disk(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def fsynced(at: int) -> None:
        done.append(Path(f"/proc/self/fd/{at}").readlink().name)
        fsync(at)

    def replaced(old: Path, new: Path) -> Path:
        done.append(f"{old.name} is {new.name}")
        return replace(old, new)

    monkeypatch.setattr(os, "fsync", fsynced)
    monkeypatch.setattr(Path, "replace", replaced)
    with store.claim("a" * 32) as claim:
        assert claim
        claim.put({"flows": pl.DataFrame({"y": [7]})}, {})
    assert done == ["runs", "a" * 32, f"{'a' * 32} is {'a' * 32}.zip", "aa"]


class Counted:
    """Counts what is computed by the changes and the seed of the runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runs: Counter[tuple[object, ...]] = Counter()
        start = scenarios.start

        def counted(
            source: scenarios.Source, changes: list[str], seed: int | None, *, stop: threading.Event, spill: Path
        ) -> _native.Run:
            self.runs[tuple(changes), seed] += 1
            return start(source, changes, seed, stop=stop, spill=spill)

        monkeypatch.setattr(scenarios, "start", counted)


def test_two_sweeps_at_once_share_the_runs(study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Locks belong to open files, not to processes: two threads are as good as two processes.
    tasks, computed = tasks_of(study), [0, 0]
    counted = Counted(monkeypatch)

    def sweep(which: int) -> None:
        computed[which] = execution.run(tasks, Store(tmp_path / "runs"), workers=2)

    threads = [threading.Thread(target=sweep, args=(which,)) for which in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(computed) == RUNS
    assert set(counted.runs.values()) == {1}
    assert len(counted.runs) == RUNS


def test_a_run_that_another_gives_up_is_computed_here(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks, store, computed = tasks_of(study)[:3], Store(tmp_path / "runs"), []
    store.prepare()
    with store.claim(tasks[0].key) as claim:
        assert claim
        sweep = threading.Thread(target=lambda: computed.append(execution.run(tasks, Store(tmp_path / "runs"))))
        sweep.start()
        waited = threading.Event()
        monkeypatch.setattr(time, "sleep", lambda _: waited.set())
        assert waited.wait(60), "it did not wait for the run of the other"
        assert [store.has(task.key, task.tables) for task in tasks] == [False, True, True]
    sweep.join()
    assert computed == [3]


def test_runs_have_stopped_when_an_interruption_is_told(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "runs")

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("incast.progress.Meter.show", interrupted)
    with pytest.raises(KeyboardInterrupt):
        execution.run(tasks_of(study), store, workers=2, missing=tasks_of(study))
    # While the error is still known, and with it all frames.
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("incast")]
    assert not list((tmp_path / "runs" / ".unfinished").iterdir())


def test_a_run_that_is_taken_is_neither_computed_nor_removed(store: Store) -> None:
    other = "b" * 32
    with store.claim(other) as claim, store.claim(other) as second:
        assert claim
        assert second is None
        Store(store.directory).prepare()
        assert store.unfinished() == []
        assert (store.directory / ".unfinished" / other).exists()
    assert not (store.directory / ".unfinished" / other).exists()


def test_what_a_killed_process_left_behind_is_removed(inside: Command, study: Path, tmp_path: Path) -> None:
    left = tmp_path / "out" / "runs" / ".unfinished" / KEY
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    assert inside("sweep", study).returncode == 0
    assert not left.exists()


def test_where_files_cannot_be_locked_that_is_said(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", refuse)
    with (
        pytest.raises(_native.RunError, match=r"cannot be locked here .function not implemented.*--out"),
        store.claim(KEY),
    ):
        pass


def test_a_name_covers_what_decides_a_run_and_nothing_else(study: Path) -> None:
    scenario = study.parent / "scenarios" / "small.toml"
    keys = [task.key for task in tasks_of(study)]
    changed(scenario, 'name = "small"', 'name = "another"')
    changed(study, "/ 1e6", "/ 1e9")
    changed(study, 'title = "Goodput and drops"', 'title = "Goodput"')
    assert [task.key for task in tasks_of(study)] == keys
    changed(scenario, '"25us"', '"26us"')
    assert not set(keys) & {task.key for task in tasks_of(study)}


def test_a_file_decides_a_run_if_its_key_says_so(study: Path) -> None:
    sizes = with_sizes(study)
    keys = [task.key for task in tasks_of(study)]
    # This name of a class is also that of a file.
    sizes.with_name("newreno").write_text("", encoding="utf-8")
    assert [task.key for task in tasks_of(study)] == keys
    sizes.write_text("1000 0.6\n2000 1\n", encoding="utf-8")
    assert not set(keys) & {task.key for task in tasks_of(study)}


def test_a_text_too_long_for_the_name_of_a_file_is_no_file(study: Path) -> None:
    changed(
        study.parent / "scenarios" / "small.toml", 'name = "small"', f'name = "small"\nseed = 1\nx = "{"x" * 5000}"'
    )
    assert len(tasks_of(study)) == RUNS


def test_all_runs_of_studies_have_the_same_name_in_their_tables(study: Path, tmp_path: Path) -> None:
    task, store = tasks_of(study)[0], Store(tmp_path / "runs")
    execution.run([task], store)
    assert set(store.table(task.key, "summary")["scenario"].to_list()) == {"study"}


def test_a_metric_of_a_new_table_computes_what_lacks_it_and_another_query_nothing(
    inside: Command, study: Path, tmp_path: Path
) -> None:
    old = study.read_text(encoding="utf-8")
    less = old.replace("values = [2, 5, 8]", "values = [2, 5]").replace("at = { workers = 8 }", "at = { workers = 5 }")
    less = less.replace("workers=8", "workers=5")
    study.write_text(less, encoding="utf-8")
    assert "12 runs computed" in inside("sweep", study).stderr
    more = study.with_name("more.toml")
    ports = """drops_packets FROM ports WHERE "to" = 'host 0'"""
    assert ports in less
    more.write_text(less.replace(ports, "COUNT(*) FROM flows"), encoding="utf-8")
    assert "12 runs computed" in inside("sweep", more).stderr
    # What was kept for the first study is still there, also beside what is new.
    for name, text, said in (("one", less, "0 runs computed"), ("two", old, "6 runs computed")):
        study.with_name(f"{name}.toml").write_text(text, encoding="utf-8")
        assert said in inside("sweep", study.with_name(f"{name}.toml")).stderr
    changed(study, "/ 1e6", "/ 1e3")
    done = inside("sweep", study)
    assert "0 runs computed" in done.stderr
    rows = [
        float((tmp_path / "out" / f"{name}.csv").read_text(encoding="utf-8").splitlines()[2].split(",")[4])
        for name in ("figure-1", "one")
    ]
    assert rows[0] == pytest.approx(1000 * rows[1])


def test_a_dry_run_says_what_is_done_already(inside: Command, study: Path) -> None:
    assert "done already" not in inside("sweep", study, "--dry-run").stdout
    inside("sweep", study, "--shard", "1/3")
    assert inside("sweep", study, "--dry-run").stdout.endswith("; 6 of them done already\n")
    told = json.loads(inside("sweep", study, "--dry-run", "--json").stdout)
    assert (told["study"], told["runs"], told["done"], told["cost"]["runs"]) == ("figure-1", 18, 6, 18)
    done = json.loads(inside("sweep", study, "--json").stdout)
    assert (done["computed"], done["done"], done["files"]) == (12, 18, ["out/figure-1.csv"])


def test_a_store_is_listed_verified_and_cleaned(inside: Command, study: Path, tmp_path: Path) -> None:
    inside("sweep", study)
    runs = tmp_path / "out" / "runs"
    first, second, third = sorted(runs.glob("??/*.zip"))[:3]
    size = first.stat().st_size

    def said(*arguments: str) -> dict[str, Any]:
        done = inside("store", *arguments, "out", "--json")
        assert done.returncode in (0, 1), done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    listed = said("ls")
    assert len(listed["runs"]) == RUNS
    assert {run["scenario"] for run in listed["runs"]} == {"small"}
    assert {run["seed"] for run in listed["runs"]} == {1, 2, 3}
    assert listed["useless"] == {}
    (shown,) = inside("store", "ls", "out/runs").stdout.splitlines()[1:]
    assert shown.split()[:2] == ["small", "18"]
    assert said("verify") == {"directory": "out/runs", "runs": RUNS, "damaged": {}}

    first.write_bytes(spoiled(first.read_bytes(), "flipped"))
    second.write_bytes(b"")
    done = inside("store", "verify")
    assert (done.returncode, done.stdout) == (1, "out/runs: 18 runs, 2 of them damaged\n")
    assert all(str(file.relative_to(tmp_path)) in done.stderr for file in (first, second))
    assert len(said("verify")["damaged"]) == 2

    # A run of another program, one that was set aside, one of an earlier form, and one that a killed process began.
    store = Store(runs)
    (runs / ".damaged").mkdir()
    shutil.copy(third, runs / ".damaged" / third.name)
    with store.claim(KEY) as claim:
        assert claim
        claim.put({"flows": pl.DataFrame({"y": [7]})}, {"program": "incast 0.0.1"})
    (runs / "00" / "earlier").mkdir(parents=True)
    (runs / "00" / "earlier" / "flows.parquet").write_bytes(b"PAR1")
    (runs / ".unfinished" / KEY).write_bytes(b"half")
    useless = {"runs of other versions": 2, "damaged runs": 2, "unfinished runs of killed processes": 1}
    assert said("ls")["useless"] == useless
    assert "2 runs of other versions" in inside("store", "ls").stdout
    for dry_run in (["--dry-run"], []):
        removed = said("gc", *dry_run)
        assert removed["removed"] == useless
        assert first.exists()
        assert second.exists() == bool(dry_run)
    assert said("ls")["useless"] == {}
    assert third.stat().st_size > size / 2
    assert inside("store", "ls", "nowhere").returncode == 2


def test_an_empty_store_has_nothing_to_list(inside: Command, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert inside("store", "ls").returncode == 0
    assert inside("store", "verify").stdout == "out: 0 runs, 0 of them damaged\n"
    assert io.StringIO(inside("store", "gc").stdout).readline() == "0 runs of other versions\n"


def with_sizes(study: Path) -> Path:
    """Have all runs read a file; return it."""
    scenario = study.parent / "scenarios" / "small.toml"
    sizes = scenario.with_name("sizes.txt")
    sizes.write_text("1000 0.5\n2000 1\n", encoding="utf-8")
    text = scenario.read_text(encoding="utf-8") + (
        '\n[traffic.more]\nkind = "poisson"\nload = 0.1\nreference = "host-links"\nflows = 3\n'
        'sizes = { kind = "cdf", file = "sizes.txt" }\n'
    )
    scenario.write_text(text, encoding="utf-8")
    return sizes


@pytest.mark.parametrize("back", [False, True], ids=["changed", "changed and changed back"])
def test_no_run_that_has_read_another_file_is_kept(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, back: bool
) -> None:
    sizes, store = with_sizes(study), Store(tmp_path / "runs")
    (task, *others) = tasks_of(study)
    before, then = sizes.read_text(encoding="utf-8"), sizes.stat()

    def while_it_runs(handle: object, stop: threading.Event) -> None:
        sizes.write_text("1000 0.9\n2000 1\n", encoding="utf-8")
        if back:
            sizes.write_text(before, encoding="utf-8")
            os.utime(sizes, ns=(then.st_atime_ns, then.st_mtime_ns))
        api.wait_for(handle, stop)  # type: ignore[arg-type]

    execution.run(others[:1], store)
    monkeypatch.setattr("incast.studies.batches.wait_for", while_it_runs)
    with pytest.raises(_native.RunError, match=r"sizes.txt: has changed since the command began"):
        execution.run([task], store)
    assert not store.has(task.key, task.tables)
    assert store.has(others[0].key, others[0].tables)


def test_what_is_deleted_while_it_is_open_is_left_to_the_file_system(store: Store) -> None:
    """NFS keeps it under such a name until its owner, who may be elsewhere, closes it."""
    names = [store.directory / folder / ".nfs0000000000a1b2c300000001" for folder in (".unfinished", ".spilled")]
    for name in names:
        name.write_bytes(b"rows")
    Store(store.directory).prepare()
    assert store.unfinished() == []
    assert all(name.exists() for name in names)


def test_a_store_whose_empty_folders_were_not_copied_is_one(study: Path, tmp_path: Path) -> None:
    store, tasks = Store(tmp_path / "runs"), tasks_of(study)[:2]
    execution.run(tasks, store)
    for folder in (".unfinished", ".spilled"):
        (store.directory / folder).rmdir()
    file = store.directory / tasks[0].key[:2] / f"{tasks[0].key}.zip"
    file.write_bytes(spoiled(file.read_bytes(), "flipped"))
    assert execution.table(tasks[0], store, "summary").height > 0


def test_what_a_sweep_is_at_or_has_put_there_since_is_not_cleaned_away(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    useless, begun = file_of(store), "c" * 32
    assert not inventory._is_of_use(store.look(useless))
    with store.claim(KEY), store.claim(begun):
        # As it was seen before the sweep began.
        monkeypatch.setattr(Store, "unfinished", lambda self: [self.directory / ".unfinished" / begun])
        assert inventory.gc(store.directory, dry_run=False, as_json=True) == 0
        assert useless.exists()
        assert (store.directory / ".unfinished" / begun).exists()
        assert set(json.loads(capsys.readouterr().out)["removed"].values()) == {0}
    entries, now = list(store.entries()), plan.program()
    with store.claim(KEY) as claim:
        assert claim
        claim.put({"flows": pl.DataFrame({"y": [7]})}, {"program": now})
    monkeypatch.setattr(Store, "entries", lambda _: entries)
    assert inventory.gc(store.directory, dry_run=False, as_json=True) == 0
    assert useless.exists()


def test_an_interrupted_sweep_of_very_many_runs_does_not_look_at_all_of_them(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sweep, "_LOOKED_AT", 3)
    done: list[plan.Task] = []

    def two(task: plan.Task, *_: object) -> bool:
        if len(done) == 2:
            raise _native.RunError("that was it")
        done.append(task)
        return True

    monkeypatch.setattr("incast.studies.batches.compute", two)
    assert sweep.main(study, out=tmp_path / "out", shard=None, dry_run=False, workers=1) == 1
    assert re.search(r"that was it; at least [0-2] of 18 runs are kept", capsys.readouterr().err)


def test_processes_measure_what_threads_do(study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, store = reading.read(study), Store(tmp_path / "runs")
    rows = plan.rows(read)
    execution.run(plan.runs(rows), store)
    by_threads = sweep.measured(read, rows, store, None)
    monkeypatch.setattr(measurers, "_ROWS_PER_PROCESS", 9)
    file = next(store.directory.glob("??/*.zip"))
    file.write_bytes(spoiled(file.read_bytes(), "flipped"))
    # No threads at all.
    monkeypatch.setattr(measurers, "ThreadPoolExecutor", None)
    found = list(measurers.measured(read, rows, store, 2))
    assert (len(found), found.count(None)) == (RUNS, 1)
    assert all(one in (None, row) for one, row in zip(found, by_threads.rows, strict=True))
    monkeypatch.undo()
    assert sweep.measured(read, rows, store, None, None, 2) == by_threads, "the damaged run is computed anew"


def test_a_query_that_fails_in_another_process_is_one_message(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(study, "WHERE class = 'all'", "")
    read, store = reading.read(study), Store(tmp_path / "runs")
    rows = plan.rows(read)
    execution.run(plan.runs(rows), store)
    monkeypatch.setattr(measurers, "_ROWS_PER_PROCESS", 9)
    with pytest.raises(_native.RunError, match=r"the query returns \d+ rows for a run, not one"):
        list(measurers.measured(read, rows, store, 2))

    def killed(*_: object, **__: object) -> None:
        raise BrokenProcessPool("a child died")

    monkeypatch.setattr("concurrent.futures.ProcessPoolExecutor.map", killed)
    with pytest.raises(_native.RunError, match="a process that measured finished runs was killed"):
        list(measurers.measured(read, rows, store, 2))
