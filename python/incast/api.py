"""Runs scenarios from Python."""

from __future__ import annotations

import json
import os
import threading
import warnings
from collections import deque
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from incast import _native, output, scenarios, text
from incast._native import RunError, ScenarioError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping
    from concurrent.futures import Future

    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from incast.plots import Plots

    Scenario: TypeAlias = str | Path | Mapping[str, object]
    Overrides: TypeAlias = Mapping[str, object] | Iterable[str] | None
    Job: TypeAlias = tuple[Scenario, Overrides, int | None]
    """A scenario, the keys to override, and the seed (`None`: the seed in the scenario)."""
else:
    Job = tuple

__all__ = ["Job", "Result", "RunError", "ScenarioError", "check", "examples", "run", "run_each", "run_many", "schema"]

# How often a waiting thread checks whether to stop.
_POLL_S = 0.1


class Result:
    """The result of one run. Tables are converted on first use, without copying.

    A table is a `polars.DataFrame`.
    """

    def __init__(self, native: _native.Result) -> None:
        self._native = native
        self._frames: dict[str, pl.DataFrame] = {}

    @property
    def outcome(self) -> str:
        """`complete`, `time-up` (the run reached its end time first) or `interrupted`."""
        return self._native.outcome

    @property
    def flows(self) -> pl.DataFrame:
        """One row per message, with its size, start, completion time, slowdown and timeouts by cause."""
        return self.table("flows")

    @property
    def coflows(self) -> pl.DataFrame:
        """One row per coflow (job, round or burst), with its completion time and whether it was late."""
        return self.table("coflows")

    @property
    def ports(self) -> pl.DataFrame:
        """One row per switch port, with its packets, drops, marks and queue statistics."""
        return self.table("ports")

    @property
    def queues(self) -> pl.DataFrame:
        """The queues of the recorded ports, one row per change."""
        return self.table("queues")

    @property
    def windows(self) -> pl.DataFrame:
        """The windows of the recorded connections, one row per change."""
        return self.table("windows")

    @property
    def events(self) -> pl.DataFrame:
        """Drops, marks, timeouts and retransmissions, one row each, if recorded."""
        return self.table("events")

    @property
    def packets(self) -> pl.DataFrame:
        """The packets at the recorded ports, one row each, with arrival, wait or drop, positions and flags."""
        return self.table("packets")

    @property
    def incasts(self) -> pl.DataFrame:
        """Incasts at the watched ports, identified from arrivals, and when EIN detected them."""
        return self.table("incasts")

    @property
    def alarms(self) -> pl.DataFrame:
        """Alarms of EIN at the watched ports, and what caused them."""
        return self.table("alarms")

    @property
    def summary(self) -> pl.DataFrame:
        """One row per class of traffic, and one for all traffic."""
        return self.table("summary")

    @property
    def summary_dict(self) -> dict[str, Any]:
        """The summary as `incast run --json` prints it."""
        summary: dict[str, Any] = json.loads(self._native.summary_json())
        return summary

    @property
    def plot(self) -> Plots:
        """Figures of matplotlib: `result.plot.completion_times()`, `.queues()` and `.windows()`."""
        from incast.plots import Plots

        return Plots(self)

    def report(self, file: str | Path, *, port: str | None = None) -> Path:
        """Write what happened inside the run as one interactive page; see `run(..., inside=True)`.

        Args:
            file: where to write it.
            port: the port to draw, as in `queue_series`; by default the recorded one with most drops.

        Raises:
            ScenarioError: the run did not record what the page needs, or the file cannot be written.

        """
        from incast.report import page
        from incast.report.recorded import Recorded

        return output.save(Path(file), page.build([Recorded.of(self, outline=True)], port=port))

    def explain(self, flow: int | str = "slowest", *, port: str | None = None) -> str:
        """Say in words why a flow took as long as it did; see `run(..., inside=True)`.

        Args:
            flow: its number, or `slowest`.
            port: the port at which its packets are looked at; by default the recorded one with most drops.

        Raises:
            ScenarioError: the run did not record what is needed, or there is no such flow.

        """
        from incast.report.explain import Explainer
        from incast.report.recorded import Recorded

        recorded = Recorded.of(self)
        return Explainer(recorded, recorded.port(port)).story(recorded.flow(str(flow))).as_text()

    def tables(self) -> list[str]:
        """Return the names of all tables."""
        return self._native.tables()

    def table(self, name: str) -> pl.DataFrame:
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
        """Write all tables as Parquet files and the summary as JSON; return the files.

        Figures that `incast run --plots` drew there from other tables are removed. Tables of a run that ended early do
        not replace those of one that did not: they go beside them, into `<directory>.partial`.
        """
        prepared = output.prepare(directory)
        if self.outcome in output.PARTIAL:
            prepared = output.prepare(output.beside(prepared))
        files = [Path(file) for file in self._native.write(prepared)]
        output.remove_pictures(prepared)
        return files

    def _known(self, name: str) -> str:
        known = self._native.tables()
        if name not in known:
            raise KeyError(f"no table '{name}'; there are: {', '.join(known)}")
        return name

    def _repr_html_(self) -> str:
        """Show the numbers that people look at first, in a notebook."""
        from html import escape

        from incast import overview

        cells = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
            for row in overview.rows(self.summary_dict)
        )
        head = "".join(f"<th>{escape(name)}</th>" for name in overview.HEAD)
        about = escape(f"outcome: {self.outcome}; tables: {', '.join(self.tables())}")
        return f"<table><thead><tr>{head}</tr></thead><tbody>{cells}</tbody></table><p>{about}</p>"

    def __repr__(self) -> str:
        return f"<incast.Result {self.outcome}: {', '.join(self.tables())}>"


def run(
    scenario: Scenario,
    *,
    set: Overrides = None,  # noqa: A002 - the word of the command line
    seed: int | None = None,
    world: str | None = None,
    progress: bool = False,
    inside: bool = False,
    threads: int | None = None,
) -> Result:
    """Run one scenario and return its tables.

    Args:
        scenario: a TOML file, the name of a built-in example, or a dictionary with the same keys.
        set: keys to override, as `{"stack.sender": "dctcp"}` or `["stack.sender=dctcp"]`.
        seed: random seed; by default the one in the scenario.
        world: the world that runs the scenario, `packets` or `ideal`; by default the one in the scenario.
        progress: show a progress bar on stderr or in the notebook; lines every ten seconds if stderr is a log.
        inside: record what `Result.report` and `Result.explain` need, whatever the scenario says.
        threads: on how many threads the run goes, as far as it can; by default on as many as pay. Results are the same.

    What is recorded is kept in memory. If that runs short the run ends with what it has, its outcome is `interrupted`,
    and a warning says so; `incast run` keeps recordings on disk.

    Raises:
        ScenarioError: the scenario is invalid; the message says where and why.
        RunError: the run failed.

    """
    source, changes = scenarios.read(scenario), scenarios.overrides(set)
    if inside:
        from incast.report import recording

        changes = recording.changes_for(source, changes, seed, world, wait_for)
    handle = scenarios.start(source, changes, seed, world, threads=threads)
    if why := scenarios.fewer_threads(handle, threads):
        warnings.warn(why, stacklevel=2)
    try:
        if progress:
            from incast.progress import follow

            follow(handle)
        else:
            wait_for(handle)
    except BaseException:  # Ctrl-C: the native thread must not go on without us
        handle.cancel()
        raise
    return _result(handle, source)


def _result(handle: _native.Run, source: scenarios.Source) -> Result:
    """Return what a run found that nobody interrupted, and warn if memory did."""
    result = Result(handle.result())
    if result.outcome in output.PARTIAL:
        at = text.seconds(handle.progress()["simulated_s"])
        warnings.warn(f"{source.stem}: stopped because memory ran short at {at} of the run", stacklevel=3)
    return result


def run_many(jobs: Iterable[Job], *, workers: int | None = None, progress: bool = False) -> list[Result]:
    """Run many scenarios on several cores, each on one, and return the results in the order of the jobs.

    Each result depends only on its job, not on `workers` or timing.

    Args:
        jobs: scenarios, each with the keys to override and a seed.
        workers: number of threads; by default one per core that this process may use.
        progress: show a progress bar, as `run` does.

    Raises:
        ScenarioError: a scenario is invalid.
        RunError: a run failed. If several jobs fail, the error is that of the first one in order.

    """
    # What is wrong with any of them is said before the first runs.
    ready = [(scenarios.read(scenario), scenarios.overrides(changes), seed) for scenario, changes, seed in jobs]
    if not progress:
        return list(_run_each(ready, workers or cores()))
    from incast.progress import Meter, of_runs

    results: list[Result] = []
    with Meter(lambda elapsed_s: of_runs(len(results), len(ready), elapsed_s)) as meter:
        for result in _run_each(ready, workers or cores(), meter.show):
            results.append(result)
            meter.show()
    return results


def run_each(jobs: Iterable[Job], *, workers: int | None = None) -> Generator[Result, None, None]:
    """Run many scenarios on several cores and yield the results in the order of the jobs, as they come.

    At most two runs per worker are ahead of the result that is asked for, so neither jobs nor results need fit into
    memory together.

    Args:
        jobs: scenarios, each with the keys to override and a seed; taken as they are needed.
        workers: number of threads; by default one per core that this process may use.

    Raises:
        ScenarioError: a scenario is invalid.
        RunError: a run failed.

    """
    ready = ((scenarios.read(scenario), scenarios.overrides(changes), seed) for scenario, changes, seed in jobs)
    return _run_each(ready, workers or cores())


def _run_each(
    jobs: Iterable[tuple[scenarios.Source, list[str], int | None]],
    workers: int,
    meanwhile: Callable[[], None] = lambda: None,
) -> Generator[Result, None, None]:
    """Run jobs, and yield the results in order; `meanwhile` is called several times a second while one is awaited."""
    stop = threading.Event()

    def one(job: tuple[scenarios.Source, list[str], int | None]) -> Result:
        handle = scenarios.start(*job, stop=stop)
        wait_for(handle, stop)
        return Result(handle.result()) if stop.is_set() else _result(handle, job[0])

    left = iter(jobs)
    ahead: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="incast")
    try:
        while True:
            ahead.extend(pool.submit(one, job) for job in islice(left, 2 * workers - len(ahead)))
            if not ahead:
                break
            following = ahead.popleft()
            while wait((following,), timeout=_POLL_S).not_done:
                meanwhile()
            yield following.result()
    finally:  # also if nobody asks for the rest
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


def check(
    scenario: Scenario,
    *,
    set: Overrides = None,  # noqa: A002
    seed: int | None = None,
    world: str | None = None,
) -> list[str]:
    """Check a scenario without running it and return its warnings.

    Raises:
        ScenarioError: the scenario is invalid; the message says where and why.

    """
    return scenarios.check(scenarios.read(scenario), scenarios.overrides(set), seed, world)["warnings"]


def schema() -> dict[str, Any]:
    """Return the JSON Schema of scenario files."""
    schema: dict[str, Any] = json.loads(_native.schema())
    return schema


def examples() -> list[str]:
    """Return the names of the built-in scenarios."""
    return _native.examples()


def wait_for(handle: _native.Run, stop: threading.Event | None = None) -> None:
    """Wait for a run, and cancel it if `stop` is set."""
    while not handle.wait(_POLL_S):
        if stop is not None and stop.is_set():
            handle.cancel()


def cores() -> int:
    """Return the number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _frame(table: _native.Table) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame(table)


def _arrow(table: _native.Table) -> pa.Table:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ImportError("tables of Arrow and of pandas need pyarrow: pip install 'incast[arrow]'") from error
    return pa.table(table)
