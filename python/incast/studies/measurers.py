"""Who measures finished runs: threads of this process, or processes, of which each has a Python of its own."""

from __future__ import annotations

import multiprocessing
import signal
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING

from incast import api
from incast._native import RunError
from incast.studies import table, worker
from incast.studies.store import DamagedError

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from incast.studies.plan import Row
    from incast.studies.store import Store
    from incast.studies.study import Study

# With fewer rows for each, a process takes longer to start than it saves.
_ROWS_PER_PROCESS = 100
_AT_ONCE = 32


def measured(
    study: Study, rows: Sequence[Row], store: Store, processes: int | None
) -> Generator[tuple[str, ...] | None, None, None]:
    """Yield the measured rows in their order, `None` for a run that is damaged, which is set aside.

    Raises:
        RunError: a query fails on the values of a run, or a process was killed.
        ScenarioError: a formula cannot be computed.

    """
    measurer = _Measurer(study, store)
    if processes and len(rows) >= _ROWS_PER_PROCESS * processes:
        yield from _by_processes(measurer, rows, processes)
        return
    with ThreadPoolExecutor(api.cores()) as threads:
        try:
            yield from threads.map(measurer.measure, rows)
        except BaseException:
            threads.shutdown(wait=True, cancel_futures=True)
            raise


def _by_processes(
    measurer: _Measurer, rows: Sequence[Row], processes: int
) -> Generator[tuple[str, ...] | None, None, None]:
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _begin, (measurer,))
    try:
        # Signals are for this process. Those that it makes begin with the mask that it has meanwhile.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
        try:
            found = pool.map(_measure, rows, chunksize=_AT_ONCE)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield from found
    except BrokenExecutor as error:
        raise RunError("a process that measured finished runs was killed; run the same command again") from error
    except BaseException:
        # What has begun need not end: they only read.
        for process in multiprocessing.active_children():
            process.kill()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class _Measurer:
    def __init__(self, study: Study, store: Store) -> None:
        self._study, self._store = study, store

    def measure(self, row: Row) -> tuple[str, ...] | None:
        try:
            return table.measured(self._study, row, self._store)
        except DamagedError:
            if row.task:
                self._store.inspect(row.task.key)
            return None


# Of a process that only measures.
_own: _Measurer


def _begin(measurer: _Measurer) -> None:
    global _own
    _own = measurer
    worker.follow()


def _measure(row: Row) -> tuple[str, ...] | None:
    return _own.measure(row)
