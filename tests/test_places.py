"""Wherever the runs of a sweep are computed, and whatever happens to who computes them: the same store and table."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conftest import Command, small_paper, tasks_of
from incast._native import RunError
from incast.studies import batches, execution, places
from incast.studies.batches import Batch, Outcome, Report
from incast.studies.places import Lost
from incast.studies.store import Store, packed

RUNS = 2 * 3 * 3

# Runs the command at once, but one host is not there, and the first connection to another ends in the middle.
SSH = """\
#!/bin/sh
for command; do :; done
case "$*" in
*" gone "*) echo "ssh: connect to host gone port 22: no route to host" >&2; exit 255 ;;
*" frail "*)
    if mkdir once 2>/dev/null; then
        echo "Welcome!"
        exec 3<&0
        sh -c "$command" <&3 & worker=$!
        sleep 0.1
        until [ -n "$(ls out/runs/.unfinished 2>/dev/null)" ]; do sleep 0.01; done
        kill -9 $worker
        exit 255
    fi ;;
esac
echo "Welcome!"
exec sh -c "$command"
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return small_paper(tmp_path) / "figure-1.toml"


@pytest.fixture
def whole(inside: Command, study: Path, tmp_path: Path) -> dict[str, bytes]:
    """Return the files of a sweep to which nothing happens."""
    done = inside("sweep", study, "--out", "whole")
    assert done.returncode == 0, done.stderr
    return contents(tmp_path / "whole")


def contents(directory: Path) -> dict[str, bytes]:
    files = [*directory.glob("*.csv"), *directory.glob("runs/??/*")]
    return {str(file.relative_to(directory)): file.read_bytes() for file in files}


def lengthen(study: Path, rounds: int) -> None:
    """Have the runs take longer, so that a kill meets some."""
    scenario = study.parent / "scenarios" / "small.toml"
    text = scenario.read_text(encoding="utf-8")
    scenario.write_text(text.replace("rounds = 2", f"rounds = {rounds}"), encoding="utf-8")


class Here:
    """Computes batches in this process, but some of them are lost."""

    def __init__(self, losses: list[int], *, sees: bool = True) -> None:
        self._losses, self._sees = losses, sees
        self._count = 0
        self._waiting: list[Batch] = []

    def about(self) -> tuple[str, int]:
        """Name it."""
        return "here", 1

    def wants(self) -> bool:
        """Whether it can take another batch."""
        return len(self._waiting) < 2

    def size(self, left: int, mean_s: float | None) -> int:
        """Return the size of the next batch."""
        return min(left, 1 if mean_s is None else 7)

    def start(self, batch: Batch) -> None:
        """Take a batch."""
        self._waiting.append(batch if self._sees else replace(batch, mark="of another machine"))

    def ended(self) -> Iterator[tuple[Batch, Report | Lost]]:
        """Compute one."""
        batch = self._waiting.pop(0)
        report = batches.carry_out(batch, threading.Event(), threads=1)
        self._count += 1
        yield batch, Lost("it was struck by lightning") if self._count in self._losses else report

    def finished(self, store: Store) -> int:  # noqa: ARG002
        """Tell nothing of it."""
        return 0

    def close(self) -> None:
        """Leave."""


@pytest.mark.parametrize("sees", [True, False])
def test_lost_batches_are_computed_again_and_workers_without_the_store_send_their_runs(
    inside: Command, study: Path, whole: dict[str, bytes], tmp_path: Path, *, sees: bool
) -> None:
    store = Store(tmp_path / "out" / "runs")
    store.prepare()
    tasks = tasks_of(study)
    assert execution.run(tasks, store, place=Here([1, 2, 4], sees=sees)) == RUNS
    assert inside("sweep", study, "--out", "out").stderr.count("0 runs computed") == 1
    assert contents(tmp_path / "out") == whole


def test_what_is_done_of_the_share_of_a_job_is_seen_in_the_store(study: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "out" / "runs")
    store.prepare()
    tasks = tasks_of(study)
    batch = batches.of(tasks, store)
    for done in (0, 1, 5, RUNS):
        execution.run(tasks[:done], store)
        assert places.begun(batch, store) == done


def test_what_kills_every_worker_is_named(study: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "out" / "runs")
    store.prepare()
    tasks = tasks_of(study)[:1]
    with pytest.raises(RunError, match=r"seed 1 of .*small.toml with .*workers=2.* was lost 6 times: it was struck"):
        execution.run(tasks, store, place=Here(list(range(1, 100)), sees=False))


def test_a_worker_refuses_another_program_and_other_files(study: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "out" / "runs")
    store.prepare()
    tasks = tasks_of(study)[:1]
    other = replace(batches.of(tasks, store), program="incast 0.0.1 abc")
    assert (
        "the sweep is by incast 0.0.1 abc; install the same there" in batches.carry_out(other, threading.Event()).error
    )
    file = tmp_path / "sizes.csv"
    batch = batches.of([replace(tasks[0], files=((str(file), "of before"),))], store)
    assert f"no file {file}" in batches.carry_out(batch, threading.Event()).error
    file.write_text("1,1\n", encoding="utf-8")
    assert (
        f"the file {file}, which the scenario reads, is another one"
        in batches.carry_out(batch, threading.Event()).error
    )


def test_hosts_by_ssh_of_which_one_is_not_there_and_one_breaks(
    inside: Command, study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengthen(study, 100)
    assert inside("sweep", study, "--out", "whole").returncode == 0
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(SSH, encoding="utf-8")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
    done = inside("sweep", study, "--on", "ssh:gone,frail", "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert "gone: the connection ended: ssh: connect to host gone port 22: no route to host" in done.stderr
    assert (tmp_path / "once").is_dir()
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    done = inside("sweep", study, "--out", "none", "--on", "ssh:gone")
    assert (done.returncode, "no host is left" in done.stderr) == (1, True), done.stderr


def test_processes_of_this_machine_make_the_same_store(
    inside: Command, study: Path, whole: dict[str, bytes], tmp_path: Path
) -> None:
    done = inside("sweep", study, "--on", "processes", "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert "computed on processes of this machine: 2 runs at once" in done.stderr
    assert f"{RUNS} runs computed" in done.stderr
    assert contents(tmp_path / "out") == whole


def test_a_place_that_is_not_there_is_one_message(
    inside: Command, study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def said(on: str, *more: str) -> str:
        done = inside("sweep", study, "--on", on, *more)
        assert (done.returncode, done.stderr.count("\n"), done.stdout) == (2, 1, ""), done.stderr
        return done.stderr

    monkeypatch.setenv("PATH", "/nowhere")
    expected = "expected local, processes, ssh:HOST[,HOST...], slurm[:KEY=VALUE,...] or dask:ADDRESS"
    for on in ("cloud", "dask", "dask:", "local:2", "processes:2"):
        assert f"--on {on}: {expected}" in said(on)
    for on in ("ssh", "ssh:a,,b", "ssh:-oProxyCommand=x", "ssh:a b"):
        assert f"--on {on}: expected ssh:HOST" in said(on)
    assert "there is no program ssh here" in said("ssh:a")
    assert "there is no program sbatch here" in said("slurm:partition=main")
    for wish in ("colour=red", "nodes=2", "partition"):
        assert f"{wish}: expected KEY=VALUE with one of the keys account, " in said(f"slurm:{wish}")
    assert "jobs=many: expected a whole number from 1" in said("slurm:jobs=many")
    assert "--workers: not with --on dask:a:1" in said("dask:a:1", "--workers", "2")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert said("dask:a:1").endswith("needs the package distributed; "
                                     f"{sys.executable} -m pip install 'incast[dask]'\n")  # fmt: skip
    assert said("slurm").endswith(f"needs the package submitit; {sys.executable} -m pip install 'incast[slurm]'\n")


class Copy(Here):
    """Has a copy of the store, with its mark: what it says is done is done there."""

    def __init__(self, copied: Path) -> None:
        super().__init__([])
        self._copied = copied
        self.shared: list[bool] = []

    def start(self, batch: Batch) -> None:
        """Take a batch."""
        self.shared.append(bool(batch.mark))
        super().start(replace(batch, store=self._copied))


def test_what_a_worker_has_put_into_a_copy_of_the_store_is_computed_again_and_sent_back(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(execution, "_SEEN_AFTER_S", 0.0)
    monkeypatch.setattr(execution, "_LOOK_S", 0.0)
    store, tasks = Store(tmp_path / "out" / "runs"), tasks_of(study)
    store.prepare()
    store.mark()
    shutil.copytree(store.directory, tmp_path / "copy", ignore=shutil.ignore_patterns(".unfinished"))
    place = Copy(tmp_path / "copy")
    execution.run(tasks, store, place=place)
    assert all(store.has(task.key, task.tables) for task in tasks)
    assert place.shared[0]
    assert not place.shared[-1]
    assert capsys.readouterr().err.count("a copy of the one here") == 1


def test_tables_that_are_there_stay_beside_those_that_are_sent(study: Path, tmp_path: Path) -> None:
    store, tasks = Store(tmp_path / "out" / "runs"), tasks_of(study)[:3]
    execution.run([replace(task, tables=frozenset({"flows", "summary"})) for task in tasks], store)
    wanted = [replace(task, tables=frozenset({"coflows", "summary"})) for task in tasks]
    execution.run(wanted, store, place=Here([], sees=False))
    assert {store.kept(task.key) for task in tasks} == {frozenset({"coflows", "flows", "summary"})}
    # Whoever has not heard of a table takes none away.
    lacks = packed(tasks[0].key, {"summary": store.table(tasks[0].key, "summary")}, {})
    assert batches.accept(Outcome(tasks[0].key, True, lacks), store) is None
    assert "flows" in store.kept(tasks[0].key)
    another = packed(tasks[1].key, {}, {})
    flipped = bytearray(another)
    flipped[len(flipped) // 3] ^= 255
    for damaged in (lacks[:200], bytes(flipped), another):
        with pytest.raises(RunError, match=f"of the run {tasks[0].key} is damaged"):
            batches.accept(Outcome(tasks[0].key, True, damaged), store)


class Breaks(Here):
    """Loses all that it has, takes nothing more, and says so when it is asked."""

    def __init__(self) -> None:
        super().__init__([1])
        self._gone = False

    def wants(self) -> bool:
        """Whether it can take another batch."""
        return not self._gone and not self._waiting

    def ended(self) -> Iterator[tuple[Batch, Report | Lost]]:
        """Lose one, and then everything."""
        if self._gone:
            raise RunError("no host is left that computes runs")
        self._gone = True
        yield from super().ended()


def test_a_place_that_is_gone_with_all_it_had_is_heard(study: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "out" / "runs")
    store.prepare()
    with pytest.raises(RunError, match="no host is left"):
        execution.run(tasks_of(study)[:2], store, place=Breaks())


class Slow(Here):
    """Ends each batch after its first run, as a job that had its time."""

    def ended(self) -> Iterator[tuple[Batch, Report | Lost]]:
        """Compute the first of one."""
        batch = self._waiting.pop(0)
        batches.carry_out(replace(batch, tasks=batch.tasks[:1]), threading.Event(), threads=1)
        yield batch, Lost("it had its time")

    def size(self, left: int, mean_s: float | None) -> int:  # noqa: ARG002
        """Return all of them."""
        return left


def test_a_batch_that_got_somewhere_is_no_loss_of_those_behind(study: Path, tmp_path: Path) -> None:
    store, tasks = Store(tmp_path / "out" / "runs"), tasks_of(study)
    store.prepare()
    assert len(tasks) > 2 * execution._FORGIVEN
    execution.run(tasks, store, place=Slow([]))
    assert all(store.has(task.key, task.tables) for task in tasks)


def test_what_another_has_computed_meanwhile_is_not_sent_again(study: Path, tmp_path: Path) -> None:
    store, tasks = Store(tmp_path / "out" / "runs"), tasks_of(study)[:1]
    store.prepare()

    class Meanwhile(Here):
        def ended(self) -> Iterator[tuple[Batch, Report | Lost]]:
            # Another has put more tables there than were asked for.
            execution.run([replace(task, tables=task.tables | {"events"}) for task in tasks], store)
            yield from super().ended()

    place = Meanwhile([], sees=False)
    assert execution.run(tasks, store, place=place) == 0
    assert place._count == 1


def test_a_host_that_says_what_is_no_report_is_lost_with_what_it_had(study: Path, tmp_path: Path) -> None:
    store, tasks = Store(tmp_path / "out" / "runs"), tasks_of(study)[:1]
    store.prepare()
    talks = "echo '[0, 1]'; read batch; echo '[1, {\"runs\": 7}]'; sleep 60"
    place = places._Hosts(
        [("talks", ("sh", "-c", f"[ -e {tmp_path}/twice ] && exit 1; touch {tmp_path}/twice; {talks}"))], 1
    )
    try:
        with pytest.raises(RunError, match="no host is left"):
            execution.run(tasks, store, place=place)
    finally:
        place.close()


def test_a_host_that_greets_in_any_encoding_serves_and_one_that_cannot_be_started_is_given_up(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    greets = ("greets", ("sh", "-c", "printf 'Gr\\374\\337 Gott\\n'; exec sh -c \"$0\""))
    cannot = ("cannot", (str(tmp_path / "no such program"),))
    store, tasks = Store(tmp_path / "out" / "runs"), tasks_of(study)[:2]
    store.prepare()
    place = places._Hosts([greets, cannot], 1)
    try:
        execution.run(tasks, store, place=place)
    finally:
        place.close()
    assert all(store.has(task.key, task.tables) for task in tasks)
    assert "incast: cannot: the connection ended: [Errno 2]" in capsys.readouterr().err
    with pytest.raises(RunError, match="no host is left"):
        places._Hosts([cannot], 1)


def test_who_does_not_answer_does_not_keep_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "_STRAGGLERS_S", 0.1)
    place = places._Hosts([("here", ("sh", "-c")), ("hangs", ("sh", "-c", "exec sleep 60"))], 1)
    try:
        assert place.about() == ("here, hangs (has not answered yet)", 1)
    finally:
        place.close()


def test_a_finished_sweep_needs_no_place(inside: Command, study: Path, whole: dict[str, bytes], tmp_path: Path) -> None:
    done = inside("sweep", study, "--out", "whole", "--on", "dask:127.0.0.1:9")
    assert (done.returncode, "0 runs computed" in done.stderr) == (0, True), done.stderr
    assert contents(tmp_path / "whole") == whole


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return what opens a Slurm, of which nothing is asked."""
    monkeypatch.setattr("submitit.slurm.slurm.SlurmExecutor.__init__", lambda *_: None)
    monkeypatch.setattr("submitit.slurm.slurm.SlurmExecutor.update_parameters", lambda *_, **__: None)
    wishes = {"jobs": 4, "time": 10, "cpus_per_task": 2}
    return lambda directory, **other: places._Slurm("slurm", {**wishes, **other}, directory)


def test_sweeps_with_jobs_of_slurm_leave_each_other_alone(slurm: Callable[..., Any], tmp_path: Path) -> None:
    first, second = slurm(tmp_path), slurm(tmp_path)
    for place in (first, second):
        place._folder.mkdir(parents=True)
    first.close()
    assert second._folder.is_dir()
    second.close()
    assert not (tmp_path / ".jobs").exists()


def test_a_job_of_slurm_gets_no_more_than_it_ends_in_its_time(slurm: Callable[..., Any], tmp_path: Path) -> None:
    place = slurm(tmp_path)
    assert [place.size(4000, mean_s) for mean_s in (None, 0.1, 1.0, 1000.0)] == [1000, 1000, 357, 1]
    assert slurm(tmp_path, time=1).size(4000, 10.0) == 1
    assert slurm(tmp_path, time="1-00:00:00").size(4000, 1000.0) == 1000


class Ended:
    """A job of Slurm that has ended with an error."""

    job_id = "7"
    paths = SimpleNamespace(stderr="7.err")

    def __init__(self, trace: str) -> None:
        self._trace = trace

    def result(self) -> None:
        """Raise it."""
        raise RuntimeError(self._trace)


def test_a_job_of_slurm_that_had_its_time_is_lost_and_one_that_failed_ends_the_sweep() -> None:
    timed_out = "submitit.core.utils.UncompletedJobError: Job not requeued because: timed-out and not checkpointable."
    assert isinstance(places._result(Ended(timed_out)), Lost)
    failed = places._result(Ended("ValueError: no"))
    assert isinstance(failed, Report)
    assert failed.error == "job 7 of Slurm: ValueError: no; see 7.err"
