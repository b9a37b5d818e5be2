"""Computes the runs that the store does not have, on all cores of this machine or elsewhere."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TYPE_CHECKING

from incast import progress
from incast._native import RunError
from incast.api import cores
from incast.studies import batches
from incast.studies.store import DamagedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Future

    import polars as pl

    from incast.studies.batches import Batch, Report
    from incast.studies.places import Lost, Place
    from incast.studies.plan import Task
    from incast.studies.store import Store

# How often to look at the progress, and for runs that another process computes.
_POLL_S = 0.2
# How often a run may be lost with its worker until it counts as what kills them.
_FORGIVEN = 5


def distinct(tasks: Iterable[Task]) -> list[Task]:
    """Return each run once, with all tables requested of it, in order."""
    found: dict[str, Task] = {}
    for task in tasks:
        same = found.get(task.key, task)
        found[task.key] = replace(same, tables=same.tables | task.tables)
    return list(found.values())


def run(
    tasks: Iterable[Task],
    store: Store,
    *,
    workers: int | None = None,
    what: str = "runs",
    place: Place | None = None,
) -> int:
    """Compute the runs that are missing in the store, with progress on stderr; return how many were computed.

    Runs that another process computes at the same time are waited for. Those in real time are computed here, wherever
    the others are: they are of this machine.

    Raises:
        RunError: a run failed.
        KeyboardInterrupt: Ctrl-C; finished runs are kept.

    """
    wanted = distinct(tasks)
    missing = [task for task in wanted if not store.has(task.key, task.tables)]
    found = len(wanted) - len(missing)
    already = (f"{found:,} more already done",) if found else ()
    if missing:
        store.prepare()
    here: Counter[bool] = Counter()
    elsewhere: list[Task] = []

    def state(elapsed_s: float) -> progress.State:
        others = (f"{len(elsewhere):,} computed by another process",) if elsewhere else ()
        done = here.total() + (place.finished(store) if place else 0)
        return progress.of_runs(done, len(missing), elapsed_s, what=f"{what}: ", also=(*already, *others))

    with progress.Meter(state) as meter:
        # What is measured in real time comes last, one run at a time: others would take its CPUs away.
        simulated = [task for task in missing if not task.measured]
        for some in (
            _sent(simulated, store, place, elsewhere)
            if place
            else _computed(simulated, store, workers or cores(), elsewhere),
            _computed([task for task in missing if task.measured], store, 1, elsewhere),
        ):
            for computed in some:
                here.update(computed)
                meter.show()
    return here[True]


def _computed(tasks: list[Task], store: Store, threads: int, elsewhere: list[Task]) -> Iterator[list[bool]]:
    """Compute runs; yield from time to time for each one that is done whether it was computed here.

    Those that another process computes are left for later, in `elsewhere`.
    """
    stop, left = threading.Event(), deque(tasks)
    waiting: dict[Future[bool | None], Task] = {}
    with ThreadPoolExecutor(threads, thread_name_prefix="incast") as pool:
        try:
            while left or waiting or elsewhere:
                if not left and not waiting:
                    time.sleep(_POLL_S)
                    left.extend(elsewhere)
                    elsewhere.clear()
                # Not all of them: to look at each that waits, whenever one is done, would take longer than small runs.
                while left and len(waiting) < 4 * threads:
                    task = left.popleft()
                    waiting[pool.submit(batches.compute, task, store, stop)] = task
                finished, _ = wait(waiting, timeout=_POLL_S, return_when=FIRST_COMPLETED)
                outcomes = {waiting.pop(future): future.result() for future in finished}
                elsewhere += [task for task, computed in outcomes.items() if computed is None]
                yield [computed for computed in outcomes.values() if computed is not None]
        except BaseException:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _sent(tasks: list[Task], store: Store, place: Place, elsewhere: list[Task]) -> Iterator[list[bool]]:
    """Have runs computed at a place, as `_computed` does here. Those whose worker is lost are sent again."""
    # By key: neighbours in a study take about as long, and batches should, too.
    left, under_way = deque(sorted(tasks, key=lambda task: task.key)), 0
    lost: Counter[str] = Counter()
    spent_s, done = 0.0, 0
    while left or under_way or elsewhere:
        if not left and not under_way:
            time.sleep(_POLL_S)
            left.extend(elsewhere)
            elsewhere.clear()
        while left and place.wants():
            size = place.size(len(left), spent_s / done if done else None) >> lost[left[0].key]
            place.start(batches.of([left.popleft() for _ in range(min(max(size, 1), len(left)))], store))
            under_way += 1
        for batch, report in place.ended():
            under_way -= 1
            computed, unfinished = _received(batch, report, store, elsewhere)
            yield computed
            if isinstance(report, batches.Report):
                if report.error:
                    raise RunError(report.error)
                spent_s, done = spent_s + report.elapsed_s, done + len(report.outcomes)
            else:
                lost.update(task.key for task in unfinished)
                for task in unfinished:
                    if lost[task.key] > _FORGIVEN:
                        raise RunError(f"{batches.named(task)} was lost {lost[task.key]} times: {report.reason}")
            left.extend(unfinished)
        yield []


def _received(
    batch: Batch, report: Report | Lost, store: Store, elsewhere: list[Task]
) -> tuple[list[bool], list[Task]]:  # fmt: skip
    """Take what came of a batch; return for each run that is done whether it was computed, and those that are not."""
    if not isinstance(report, batches.Report):
        unfinished = [task for task in batch.tasks if not store.has(task.key, task.tables)]
        return [True] * (len(batch.tasks) - len(unfinished)), unfinished
    found = {outcome.key: batches.accept(outcome, store) for outcome in report.outcomes}
    elsewhere += [task for task in batch.tasks if found.get(task.key, True) is None]
    computed = [one for one in found.values() if one is not None]
    return computed, [task for task in batch.tasks if task.key not in found]


def table(task: Task, store: Store, name: str) -> pl.DataFrame:
    """Return one table of a finished run, which is computed anew if it is damaged."""
    while True:
        try:
            return store.table(task.key, name)
        except DamagedError:
            store.inspect(task.key)
            run([task], store, what="damaged runs")
