"""Computes the runs that the store does not have, on all cores."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TYPE_CHECKING

from incast import progress, scenarios, text
from incast._native import RunError
from incast.api import Result, cores, wait_for
from incast.studies import outside
from incast.studies.plan import program
from incast.studies.store import DamagedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import polars as pl

    from incast.studies.plan import Task
    from incast.studies.store import Store

# How often to look at the progress, and for runs that another process computes.
_POLL_S = 0.2


def distinct(tasks: Iterable[Task]) -> list[Task]:
    """Return each run once, with all tables requested of it, in order."""
    found: dict[str, Task] = {}
    for task in tasks:
        same = found.get(task.key, task)
        found[task.key] = replace(same, tables=same.tables | task.tables)
    return list(found.values())


def run(tasks: Iterable[Task], store: Store, *, workers: int | None = None, what: str = "runs") -> int:
    """Compute the runs that are missing in the store, with progress on stderr; return how many this process computed.

    Runs that another process computes at the same time are waited for.

    Raises:
        RunError: a run failed.
        KeyboardInterrupt: Ctrl-C; finished runs are kept.

    """
    wanted = distinct(tasks)
    missing = [task for task in wanted if not store.has(task.key, task.tables)]
    found = len(wanted) - len(missing)
    already = f" ({found:,} more already done)" if found else ""
    if missing:
        store.prepare()
    here: Counter[bool] = Counter()
    elsewhere: list[Task] = []

    def said(elapsed_s: float) -> str:
        done, total = here.total(), len(missing)
        left = f", {text.duration(elapsed_s * (total - done) / done)} left" if done else ""
        others = f", {len(elsewhere):,} of them computed by another process" if elsewhere else ""
        return f"{what}: {done:,} of {total:,} runs{already}{left}{others}"

    with progress.Line(said) as line:
        # What is measured in real time comes last, one run at a time: others would take its CPUs away.
        for some, threads in (
            ([task for task in missing if not task.measured], workers or cores()),
            ([task for task in missing if task.measured], 1),
        ):
            for computed in _computed(some, store, threads, elsewhere):
                here.update(computed)
                line.show()
    return here[True]


def _computed(tasks: list[Task], store: Store, threads: int, elsewhere: list[Task]) -> Iterator[list[bool]]:
    """Compute runs; yield from time to time for each one that is done whether it was computed here.

    Those that another process computes are left for later, in `elsewhere`.
    """
    stop = threading.Event()
    with ThreadPoolExecutor(threads, thread_name_prefix="incast") as pool:
        waiting = {pool.submit(_one, task, store, stop): task for task in tasks}
        try:
            while waiting or elsewhere:
                if not waiting:
                    time.sleep(_POLL_S)
                    waiting = {pool.submit(_one, task, store, stop): task for task in elsewhere}
                    elsewhere.clear()
                finished, _ = wait(waiting, timeout=_POLL_S, return_when=FIRST_COMPLETED)
                outcomes = {waiting.pop(future): future.result() for future in finished}
                elsewhere += [task for task, computed in outcomes.items() if computed is None]
                yield [computed for computed in outcomes.values() if computed is not None]
        except BaseException:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def table(task: Task, store: Store, name: str) -> pl.DataFrame:
    """Return one table of a finished run, which is computed anew if it is damaged."""
    while True:
        try:
            return store.table(task.key, name)
        except DamagedError:
            store.inspect(task.key)
            run([task], store, what="damaged runs")


def _one(task: Task, store: Store, stop: threading.Event) -> bool | None:
    """Run a task and store its tables; return whether that was needed, `None` while another process does it."""
    with store.claim(task.key) as claim:
        if claim is None:
            return None
        claim.inspect()
        kept = store.kept(task.key)
        if kept >= task.tables:
            return False
        handle = scenarios.start(task.source, list(task.changes), task.seed, stop=stop)
        wait_for(handle, stop)
        result = Result(handle.result())
        if result.outcome == "interrupted":
            raise RunError("interrupted" if stop.is_set() else "what a run records would not fit into memory")
        # All of them anew: two runs on a kernel differ, and tables of both must not stand side by side.
        wanted = task.tables | kept
        if task.outside:
            tables = outside.run(task.outside, task.seed, result.table("flows"), wanted, stop)
        else:
            tables = {name: result.table(name) for name in wanted}
        claim.put(tables, {"program": program(), "scenario": task.source.stem, "seed": task.seed})
        return True
