"""Computes the runs that the store does not have, on all cores of this machine or elsewhere."""

from __future__ import annotations

import sys
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
# How soon a file that was written elsewhere is seen here, at the latest, and how often to look.
_SEEN_AFTER_S, _LOOK_S = 90.0, 1.0


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
    missing: list[Task] | None = None,
    here: Counter[bool] | None = None,
) -> int:
    """Compute the runs that are missing in the store, with progress on stderr; return how many were computed.

    Runs that another process computes at the same time are waited for. Those in real time are computed here, wherever
    the others are: they are of this machine.

    Args:
        tasks: all of them.
        store: where they are kept.
        workers: how many runs are computed at once; as many as there are cores if that is not said.
        what: their name.
        place: where they are computed; here if that is not said.
        missing: those that are not in the store, if that has been looked up.
        here: counts the runs that are done by whether they had to be computed, also if an error ends this.

    Raises:
        RunError: a run failed.
        KeyboardInterrupt: Ctrl-C; finished runs are kept.

    """
    wanted = distinct(tasks)
    if missing is None:
        missing = lacking(wanted, store, what)
    found = len(wanted) - len(missing)
    already = (f"{found:,} more already done",) if found else ()
    if missing:
        store.prepare()
    here = Counter() if here is None else here
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


def lacking(tasks: list[Task], store: Store, what: str) -> list[Task]:
    """Return the runs that are not in the store, with progress on stderr: over a network it may take long."""
    looked = 0

    def state(elapsed_s: float) -> progress.State:
        return progress.of_runs(looked, len(tasks), elapsed_s, what=f"{what}, looked up: ")

    missing = []
    with progress.Meter(state) as meter:
        for task in tasks:
            if not store.has(task.key, task.tables):
                missing.append(task)
            looked += 1
            meter.show()
    return missing


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
    unseen = _Unseen(store)
    while left or under_way or elsewhere or unseen.tasks:
        if not left and not under_way:
            time.sleep(_POLL_S)
            there = {task.key for task in elsewhere if store.has(task.key, task.tables)}
            left.extend(task for task in elsewhere if task.key not in there)
            elsewhere.clear()
            yield [False] * len(there)
        while left and place.wants():
            size = place.size(len(left), spent_s / done if done else None) >> lost[left[0].key]
            some = [left.popleft() for _ in range(min(max(size, 1), len(left)))]
            place.start(batches.of(some, store, is_shared=unseen.is_shared))
            under_way += 1
        # It may also say that nothing will come any more.
        for batch, report in place.ended() if under_way or left else ():
            under_way -= 1
            computed, unfinished = _received(batch, report, unseen, elsewhere)
            yield computed
            if isinstance(report, batches.Report):
                if report.error:
                    raise RunError(report.error)
                spent_s, done = spent_s + report.elapsed_s, done + len(report.outcomes)
            elif not computed:
                # What got somewhere had too much to do, or was unlucky.
                lost.update(task.key for task in unfinished)
                for task in unfinished:
                    if lost[task.key] > _FORGIVEN:
                        raise RunError(f"{batches.named(task)} was lost {lost[task.key]} times: {report.reason}")
            left.extend(unfinished)
        seen, never = unseen.look()
        left.extend(never)
        yield seen


class _Unseen:
    """Runs that a worker says it has put into the store, and that are not seen there yet."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.tasks: deque[tuple[float, Task, bool]] = deque()
        """By the time until which each is waited for; with whether it was computed there."""
        self.is_shared = True
        """Whether workers that have a store of this name have this one, as far as is known: it may be a copy."""
        self._look_at_s = 0.0

    def is_seen(self, task: Task, computed: bool) -> bool:
        """Whether a run is there; if not, it is looked for until it is, or must be somewhere else."""
        if self.store.has(task.key, task.tables):
            return True
        self.tasks.append((time.monotonic() + _SEEN_AFTER_S, task, computed))
        return False

    def look(self) -> tuple[list[bool], list[Task]]:
        """Return for each run that is seen by now whether it was computed, and those that will not be seen."""
        now = time.monotonic()
        if not self.tasks or now < self._look_at_s:
            return [], []
        tasks, self.tasks = self.tasks, deque()
        seen, never = [], []
        for until_s, task, computed in tasks:
            if self.store.has(task.key, task.tables):
                seen.append(computed)
            elif now < until_s:
                self.tasks.append((until_s, task, computed))
            else:
                never.append(task)
        # Over a network, to look at many takes long.
        self._look_at_s = time.monotonic() + max(_LOOK_S, 10 * (time.monotonic() - now))
        if never and self.is_shared:
            self.is_shared = False
            print(
                f"incast: a worker has put runs into another folder {self.store.directory}, a copy of the one here; "
                "they are computed anew and sent back",
                file=sys.stderr,
            )
        return seen, never


def _received(
    batch: Batch, report: Report | Lost, unseen: _Unseen, elsewhere: list[Task]
) -> tuple[list[bool], list[Task]]:  # fmt: skip
    """Take what came of a batch; return for each run that is done whether it was computed, and those that are not."""
    store = unseen.store
    if not isinstance(report, batches.Report):
        unfinished = [task for task in batch.tasks if not store.has(task.key, task.tables)]
        return [True] * (len(batch.tasks) - len(unfinished)), unfinished
    tasks = {task.key: task for task in batch.tasks}
    found = {outcome.key: batches.accept(outcome, store) for outcome in report.outcomes}
    elsewhere += [tasks[key] for key, computed in found.items() if computed is None]
    done = [
        computed
        for outcome in report.outcomes
        if (computed := found[outcome.key]) is not None
        and (outcome.content is not None or unseen.is_seen(tasks[outcome.key], computed))
    ]
    return done, [task for task in batch.tasks if task.key not in found]


def table(task: Task, store: Store, name: str) -> pl.DataFrame:
    """Return one table of a finished run, which is computed anew if it is damaged."""
    while True:
        try:
            return store.table(task.key, name)
        except DamagedError:
            store.inspect(task.key)
            run([task], store, what="damaged runs")
