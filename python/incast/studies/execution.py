"""Computes the runs that the store does not have, on all cores."""

from __future__ import annotations

import os
import sys
import threading
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from incast import scenarios, text
from incast._native import RunError
from incast.api import Result
from incast.studies import outside

if TYPE_CHECKING:
    from collections.abc import Iterable

    from incast.studies.plan import Task
    from incast.studies.store import Store

# How often a waiting thread looks whether it should give up.
_POLL_S = 0.1
_TERMINAL_EVERY_S = 0.2
_LOG_EVERY_S = 10.0


@dataclass(frozen=True)
class Spent:
    """The cost of the runs that were computed, without those found in the store."""

    runs: int
    packet_hops: int
    cpu_s: float


def cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def distinct(tasks: Iterable[Task]) -> list[Task]:
    """Return each run once, with all tables requested of it, in order."""
    found: dict[str, Task] = {}
    for task in tasks:
        same = found.get(task.key, task)
        found[task.key] = replace(same, tables=same.tables | task.tables)
    return list(found.values())


def run(tasks: Iterable[Task], store: Store, *, workers: int | None = None, what: str = "runs") -> Spent:
    """Compute the runs that are missing in the store, with progress on stderr.

    Raises:
        RunError: a run failed.
        KeyboardInterrupt: Ctrl-C; finished runs are kept.

    """
    wanted = distinct(tasks)
    missing = [task for task in wanted if not store.has(task.key, task.tables)]
    stop = threading.Event()
    started, cpu = time.monotonic(), time.process_time()
    progress = _Progress(what, len(missing), len(wanted) - len(missing))
    hops = 0
    with ThreadPoolExecutor(workers or cores(), thread_name_prefix="incast") as pool:
        waiting = {pool.submit(_one, task, store, stop) for task in missing}
        try:
            while waiting:
                finished, waiting = wait(waiting, timeout=_TERMINAL_EVERY_S, return_when=FIRST_COMPLETED)
                hops += sum(future.result() for future in finished)
                progress.show(len(missing) - len(waiting), time.monotonic() - started)
        except BaseException:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
        finally:
            progress.close()
    return Spent(len(missing), hops, time.process_time() - cpu)


def _one(task: Task, store: Store, stop: threading.Event) -> int:
    """Run a task and store its tables; return its packet-hops."""
    handle = scenarios.start(task.source, list(task.changes), task.seed)
    while not handle.wait(_POLL_S):
        if stop.is_set():
            handle.cancel()
    result = Result(handle.result())
    if result.outcome == "interrupted":
        raise RunError("interrupted")
    if task.outside:
        found = outside.run(task.outside, task.seed, result.to_arrow("flows"), task.tables, stop)
        store.put(task.key, found, task.tables)
        return 0
    store.put(task.key, result, task.tables | store.kept(task.key))
    return int(handle.progress()["packet_hops"])


class _Progress:
    """A progress line on stderr: live on a terminal, occasional in a log."""

    def __init__(self, what: str, total: int, found: int) -> None:
        self.what, self.total, self.found = what, total, found
        self.live = sys.stderr.isatty()
        self.last = 0.0

    def show(self, done: int, elapsed_s: float) -> None:
        if elapsed_s - self.last < (_TERMINAL_EVERY_S if self.live else _LOG_EVERY_S):
            return
        self.last = elapsed_s
        line = f"{self.what}: {done:,} of {self.total:,} runs"
        if self.found:
            line += f" ({self.found:,} more already done)"
        if done:
            line += f", {text.duration(elapsed_s * (self.total - done) / done)} left"
        print(f"\r{line}\x1b[K" if self.live else line, end="" if self.live else "\n", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self.live and self.last:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
