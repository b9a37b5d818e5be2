"""Batches of runs, which a process here or on another machine computes.

A worker looks for the store of the sweep under its path. If it is there, which a mark in it tells, the worker puts its
runs there. If not, the runs come back as files, and the sweep puts them into its store.
"""

from __future__ import annotations

import functools
import os
import platform
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from incast import scenarios, text
from incast._native import RunError, ScenarioError
from incast.api import Result, cores, wait_for
from incast.studies import outside, plan
from incast.studies.store import DamagedError, Store, packed

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Collection, Mapping, Sequence

    from incast import _native
    from incast.studies.plan import Task
    from incast.studies.store import Stored


@dataclass(frozen=True)
class Batch:
    """Some runs, and what a worker must know to compute them."""

    tasks: tuple[Task, ...]
    store: Path
    mark: str
    """What the store holds, by which a worker tells it from another folder of the same name."""
    program: str
    """The program that computes them, and none other."""


@dataclass(frozen=True)
class Outcome:
    """What came of one run."""

    key: str
    computed: bool | None
    """Whether it had to be; `None` while another process does it."""
    content: bytes | None = None
    """Its file, if the worker does not see the store."""


@dataclass(frozen=True)
class Report:
    """What came of a batch: what was done, and the error that ended it before its time."""

    outcomes: tuple[Outcome, ...]
    error: str = ""
    elapsed_s: float = 0.0


def of(tasks: Sequence[Task], store: Store, *, is_shared: bool = True) -> Batch:
    """Return runs as a batch that can be computed in another folder; they come back as files unless `is_shared`."""
    mark = (store.mark() or "") if is_shared else ""
    # All tables of a run anew, as `compute` does: the worker may not see which are there.
    wanted = [replace(task, tables=task.tables | store.kept(task.key)) for task in tasks]
    return Batch(tuple(map(_at_home, wanted)), store.directory.resolve(), mark, plan.program())


def _at_home(task: Task) -> Task:
    """Name the files of a run so that they are found from any folder."""
    source = task.source._replace(file=str(Path(task.source.file).resolve()))
    files = tuple((str(Path(name).resolve()), fingerprint) for name, fingerprint in task.files)
    outside = task.outside
    if outside:
        outside = replace(outside, world=replace(outside.world, directory=outside.world.directory.resolve()))
    return replace(task, source=source, files=files, outside=outside)


def carry_out(batch: Batch, stop: threading.Event, *, threads: int | None = None) -> Report:
    """Compute a batch; after an error, or if `stop` is set, what is done so far counts."""
    started = time.monotonic()
    outcomes: list[Outcome] = []

    def one(task: Task) -> None:
        if not stop.is_set():
            outcomes.append(_one(task, store, stop))

    error = ""
    try:
        _refuse(batch)
        store = Store(batch.store) if Store(batch.store).mark(create=False) == batch.mark else None
        with ThreadPoolExecutor(threads or cores()) as pool:
            futures = [pool.submit(one, task) for task in batch.tasks]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                stop.set()
                raise
    except (RunError, ScenarioError, OSError) as failure:
        error = str(failure)
    return Report(tuple(outcomes), error, time.monotonic() - started)


def _refuse(batch: Batch) -> None:
    """Refuse runs of another program, and runs whose files are not those of the sweep here."""
    here = f"{platform.node()}, process {os.getpid()}"
    if plan.program() != batch.program:
        raise RunError(f"{here}: has {plan.program()}, and the sweep is by {batch.program}; install the same there")
    for name, fingerprint in dict.fromkeys(file for task in batch.tasks for file in task.files):
        if not scenarios.is_file(Path(name)):
            raise RunError(f"{here}: no file {name}, which the scenario reads; choose a folder that all workers see")
        if plan.fingerprint(Path(name)) != fingerprint:
            raise RunError(f"{here}: the file {name}, which the scenario reads, is another one there")


def _one(task: Task, store: Store | None, stop: threading.Event) -> Outcome:
    if store is None:
        return Outcome(task.key, True, packed(task.key, _tables(task, task.tables, stop), about(task)))
    return Outcome(task.key, compute(task, store, stop))


def compute(task: Task, store: Store, stop: threading.Event) -> bool | None:
    """Run a task and store its tables; return whether that was needed, `None` while another process does it."""
    with store.claim(task.key) as claim:
        if claim is None:
            return None
        claim.inspect()
        kept = store.kept(task.key)
        if kept >= task.tables:
            return False
        # All of them anew: two runs on a kernel differ, and tables of both must not stand side by side.
        store.spilled.mkdir(exist_ok=True)
        claim.put(_tables(task, task.tables | kept, stop, store.spilled), about(task))
        return True


def accept(outcome: Outcome, store: Store) -> bool | None:
    """Put a run that came back as a file into the store; return what `compute` does.

    Raises:
        RunError: it is damaged.

    """
    if outcome.content is None:
        return outcome.computed
    with store.claim(outcome.key) as claim:
        if claim is None:
            return None
        try:
            return claim.accept(outcome.content) or None
        except DamagedError as error:
            raise RunError(f"what a worker has sent of the run {outcome.key} is damaged: {error}") from error


def about(task: Task) -> dict[str, object]:
    """Say what a run is, for people who look at the store."""
    return {"program": plan.program(), "scenario": task.source.stem, "seed": task.seed}


def named(task: Task) -> str:
    """Name a run in an error."""
    return f"seed {task.seed} of {text.name(Path(task.source.file))} with {', '.join(task.changes)}"


def _tables(
    task: Task, wanted: Collection[str], stop: threading.Event, spill: Path | None = None
) -> Mapping[str, Stored]:
    before = _stamps(task)
    handle = scenarios.start(task.source, list(task.changes), task.seed, stop=stop, spill=spill)
    wait_for(handle, stop)
    result = handle.result()
    if result.outcome == "interrupted":
        raise RunError("interrupted" if stop.is_set() else "memory ran short")
    tables: Mapping[str, Stored] = (
        outside.run(task.outside, task.seed, Result(result).table("flows"), wanted, stop)
        if task.outside
        else {name: functools.partial(_in_parts, result.table(name)) for name in wanted}
    )
    # What was read in between may be of neither content.
    changed = [name for (name, _), old, new in zip(task.files, before, _stamps(task), strict=True) if old != new]
    for name, known in task.files:
        if name in changed or plan.fingerprint(Path(name)) != known:
            raise RunError(f"{name}: has changed since the command began; run it again")
    return tables


def _stamps(task: Task) -> list[tuple[int, ...]]:
    try:
        return [plan.stamps(Path(name)) for name, _ in task.files]
    except OSError as error:
        raise RunError(f"{error.filename}: {error.strerror}") from error


def _in_parts(table: _native.Table, take: Callable[[pl.DataFrame], None]) -> None:
    table.in_parts(lambda part: take(pl.DataFrame(part)))
