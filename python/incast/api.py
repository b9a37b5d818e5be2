"""Running scenarios from Python."""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from incast import _native, scenarios
from incast._native import RunError, ScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pandas as pd
    import pyarrow as pa

    Scenario: TypeAlias = str | Path | Mapping[str, object]
    Overrides: TypeAlias = Mapping[str, object] | Iterable[str] | None
    Job: TypeAlias = tuple[Scenario, Overrides, int | None]
    """A scenario, what to change in it, and its seed (`None`: the scenario's own)."""
else:
    Job = tuple

__all__ = ["Job", "Result", "RunError", "ScenarioError", "check", "examples", "run", "run_many", "schema"]

# How often a waiting thread looks whether it should give up.
_POLL_S = 0.1


class Result:
    """What one run has found. Tables are handed over without copying, on first use.

    A table is a `polars.DataFrame` where polars is installed, else a `pyarrow.Table`.
    """

    def __init__(self, native: _native.Result) -> None:
        self._native = native
        self._frames: dict[str, Any] = {}

    @property
    def outcome(self) -> str:
        """`complete`, `time-up` (the scenario's end time came first) or `interrupted`."""
        return self._native.outcome

    @property
    def flows(self) -> Any:  # noqa: ANN401
        """One row per message, with its size, start, completion time, slowdown and timeouts by cause."""
        return self.table("flows")

    @property
    def coflows(self) -> Any:  # noqa: ANN401
        """One row per coflow (job, round or burst), with its completion time and whether it was late."""
        return self.table("coflows")

    @property
    def ports(self) -> Any:  # noqa: ANN401
        """One row per switch port, with its packets, drops, marks and statistics of its queue."""
        return self.table("ports")

    @property
    def queues(self) -> Any:  # noqa: ANN401
        """The queue of the recorded ports whenever it changed."""
        return self.table("queues")

    @property
    def windows(self) -> Any:  # noqa: ANN401
        """The windows of the recorded connections whenever they changed."""
        return self.table("windows")

    @property
    def events(self) -> Any:  # noqa: ANN401
        """Drops, marks, timeouts and retransmissions, one by one, if recorded."""
        return self.table("events")

    @property
    def incasts(self) -> Any:  # noqa: ANN401
        """Incasts at the watched ports, as arrivals tell them, and when EIN said so."""
        return self.table("incasts")

    @property
    def alarms(self) -> Any:  # noqa: ANN401
        """What EIN said at the watched ports, and what was there."""
        return self.table("alarms")

    @property
    def summary(self) -> Any:  # noqa: ANN401
        """One row per class of traffic, and one for all of them."""
        return self.table("summary")

    @property
    def summary_dict(self) -> dict[str, Any]:
        """The summary as `incast run --json` prints it."""
        summary: dict[str, Any] = json.loads(self._native.summary_json())
        return summary

    def tables(self) -> list[str]:
        """Names of all tables."""
        return self._native.tables()

    def table(self, name: str) -> Any:  # noqa: ANN401
        """Return one table by name."""
        if name not in self._frames:
            self._frames[name] = _frame(self._native.table(self._known(name)))
        return self._frames[name]

    def to_arrow(self, name: str) -> pa.Table:
        """Return one table as a `pyarrow.Table`, without copying."""
        return _arrow(self._native.table(self._known(name)))

    def to_pandas(self, name: str) -> pd.DataFrame:
        """Return one table as a pandas frame (a copy)."""
        frame: pd.DataFrame = self.to_arrow(name).to_pandas()
        return frame

    def write(self, directory: str | Path) -> list[Path]:
        """Write all tables as Parquet files and the summary as JSON; return the files."""
        from incast import output

        return [Path(file) for file in self._native.write(output.prepare(directory))]

    def _known(self, name: str) -> str:
        known = self._native.tables()
        if name not in known:
            raise KeyError(f"no table '{name}'; there are: {', '.join(known)}")
        return name

    def __repr__(self) -> str:
        return f"<incast.Result {self.outcome}: {', '.join(self.tables())}>"


def run(
    scenario: Scenario,
    *,
    set: Overrides = None,  # noqa: A002 - the word of the command line
    seed: int | None = None,
    progress: bool = False,
) -> Result:
    """Run one scenario and return its tables.

    Args:
        scenario: a TOML file, the name of a built-in example, or the same keys as a dictionary.
        set: keys to change, as `{"stack.sender": "dctcp"}` or `["stack.sender=dctcp"]`.
        seed: of all random choices; by default the scenario's own.
        progress: show a progress line on stderr.

    Raises:
        ScenarioError: the scenario is wrong; the message says where and how.
        RunError: the run failed.

    """
    handle = scenarios.start(scenarios.read(scenario), scenarios.overrides(set), seed)
    try:
        if progress:
            from incast.progress import follow

            follow(handle)
        else:
            _wait(handle)
    except BaseException:  # Ctrl-C: the native thread must not go on without us
        handle.cancel()
        raise
    return Result(handle.result())


def run_many(jobs: Iterable[Job], *, workers: int | None = None) -> list[Result]:
    """Run many scenarios on several cores; results are in the order of the jobs.

    Each run depends on its job alone, so neither `workers` nor timing changes any result.

    Args:
        jobs: scenarios with what to change in each and its seed.
        workers: threads; by default one per core this process may use.

    Raises:
        ScenarioError: a scenario is wrong.
        RunError: a run failed. Of several errors it is that of the first job, in order.

    """
    ready = [(scenarios.read(scenario), scenarios.overrides(changes), seed) for scenario, changes, seed in jobs]
    stop = threading.Event()

    def one(job: tuple[scenarios.Source, list[str], int | None]) -> Result:
        handle = scenarios.start(*job)
        _wait(handle, stop)
        return Result(handle.result())

    with ThreadPoolExecutor(workers or _cores(), thread_name_prefix="incast") as pool:
        futures = [pool.submit(one, job) for job in ready]
        try:
            return [future.result() for future in futures]
        except BaseException:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def check(scenario: Scenario, *, set: Overrides = None, seed: int | None = None) -> list[str]:  # noqa: A002
    """Check a scenario without running it and return its warnings.

    Raises:
        ScenarioError: the scenario is wrong; the message says where and how.

    """
    return scenarios.check(scenarios.read(scenario), scenarios.overrides(set), seed)["warnings"]


def schema() -> dict[str, Any]:
    """Return the JSON Schema of scenario files."""
    schema: dict[str, Any] = json.loads(_native.schema())
    return schema


def examples() -> list[str]:
    """Names of the built-in scenarios."""
    return _native.examples()


def _wait(handle: _native.Run, stop: threading.Event | None = None) -> None:
    while not handle.wait(_POLL_S):
        if stop is not None and stop.is_set():
            handle.cancel()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _frame(table: _native.Table) -> Any:  # noqa: ANN401
    try:
        import polars as pl
    except ImportError:
        return _arrow(table)
    return pl.DataFrame(table)


def _arrow(table: _native.Table) -> pa.Table:
    import pyarrow as pa

    return pa.table(table)
