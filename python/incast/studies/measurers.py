"""Who measures finished runs: threads of this process, or processes, of which each has a Python of its own."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING

from incast import api
from incast._native import RunError
from incast.studies import table
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
    with contextlib.ExitStack() as stack:
        pool: ProcessPoolExecutor | ThreadPoolExecutor
        if processes and len(rows) >= _ROWS_PER_PROCESS * processes:
            context = multiprocessing.get_context("spawn")
            pool = ProcessPoolExecutor(processes, context, _begin, (measurer,))
        else:
            pool = ThreadPoolExecutor(api.cores())
        stack.enter_context(pool)
        try:
            if isinstance(pool, ProcessPoolExecutor):
                yield from pool.map(_measure, rows, chunksize=_AT_ONCE)
            else:
                yield from pool.map(measurer.measure, rows)
        except BrokenExecutor as error:
            raise RunError("a process that measured finished runs was killed; run the same command again") from error
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


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
    # Ctrl-C is for who waits for it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _measure(row: Row) -> tuple[str, ...] | None:
    return _own.measure(row)
