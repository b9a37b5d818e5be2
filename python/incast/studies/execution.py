"""Computes the runs that the store does not have, on all cores."""

from __future__ import annotations

import threading
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TYPE_CHECKING

from incast import progress, scenarios, text
from incast._native import RunError
from incast.api import Result, cores, wait_for
from incast.studies import outside

if TYPE_CHECKING:
    from collections.abc import Iterable

    from incast.studies.plan import Task
    from incast.studies.store import Store

# How often the progress is looked at.
_POLL_S = 0.2


def distinct(tasks: Iterable[Task]) -> list[Task]:
    """Return each run once, with all tables requested of it, in order."""
    found: dict[str, Task] = {}
    for task in tasks:
        same = found.get(task.key, task)
        found[task.key] = replace(same, tables=same.tables | task.tables)
    return list(found.values())


def run(tasks: Iterable[Task], store: Store, *, workers: int | None = None, what: str = "runs") -> int:
    """Compute the runs that are missing in the store, with progress on stderr; return how many they are.

    Raises:
        RunError: a run failed.
        KeyboardInterrupt: Ctrl-C; finished runs are kept.

    """
    wanted = distinct(tasks)
    missing = [task for task in wanted if not store.has(task.key, task.tables)]
    stop = threading.Event()
    found = len(wanted) - len(missing)
    already = f" ({found:,} more already done)" if found else ""

    def said(elapsed_s: float) -> str:
        done, total = len(missing) - len(waiting), len(missing)
        left = f", {text.duration(elapsed_s * (total - done) / done)} left" if done else ""
        return f"{what}: {done:,} of {total:,} runs{already}{left}"

    # What is measured in real time comes last, one run at a time: others would take its CPUs away.
    measured = [task for task in missing if task.measured]
    with (
        ThreadPoolExecutor(workers or cores(), thread_name_prefix="incast") as pool,
        ThreadPoolExecutor(1, thread_name_prefix="incast-measured") as alone,
        progress.Line(said) as line,
    ):
        waiting = {pool.submit(_one, task, store, stop) for task in missing if not task.measured}
        computed = set(waiting)
        waiting |= {alone.submit(_after, computed, task, store, stop) for task in measured}
        try:
            while waiting:
                finished, waiting = wait(waiting, timeout=_POLL_S, return_when=FIRST_COMPLETED)
                for future in finished:
                    future.result()
                line.show()
        except BaseException:
            stop.set()
            for each in (pool, alone):
                each.shutdown(wait=True, cancel_futures=True)
            raise
    return len(missing)


def _after(others: set[Future[None]], task: Task, store: Store, stop: threading.Event) -> None:
    wait(others)
    if not stop.is_set():
        _one(task, store, stop)


def _one(task: Task, store: Store, stop: threading.Event) -> None:
    """Run a task and store its tables."""
    handle = scenarios.start(task.source, list(task.changes), task.seed)
    wait_for(handle, stop)
    result = Result(handle.result())
    if result.outcome == "interrupted":
        raise RunError("interrupted")
    if task.outside:
        tables = outside.run(task.outside, task.seed, result.to_arrow("flows"), task.tables, stop)
    else:
        tables = {name: result.to_arrow(name) for name in task.tables | store.kept(task.key)}
    store.put(task.key, tables)
