"""Where runs are computed: in this process, or as batches in others, here or on machines by ssh, Slurm or Dask."""

from __future__ import annotations

import base64
import bisect
import contextlib
import json
import math
import os
import pickle
import queue
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections import deque
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from incast._native import RunError, ScenarioError
from incast.api import cores
from incast.studies import batches
from incast.studies.batches import Outcome, Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from incast.studies.batches import Batch
    from incast.studies.store import Store

_KINDS = "local, processes, ssh:HOST[,HOST...], slurm[:KEY=VALUE,...] or dask:ADDRESS"
# What a command follows that is to be carried out on a host, whose name comes in between.
_SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=15")
# How long hosts are waited for once one has answered.
_STRAGGLERS_S = 10.0
# A batch takes about as long: little is lost with a worker, and little said about each.
_BATCH_S = 5.0
_MOST_RUNS = 256
# What a host is forgiven: a connection that breaks.
_ATTEMPTS = 3
_POLL_S = 0.2
_SQUEUE_EVERY_S = 5.0
_PATIENCE_S = 30.0


class Lost:
    """What comes instead of a report if the worker of a batch is gone; the text says how."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


class Place(Protocol):
    """Computes batches elsewhere."""

    def about(self) -> tuple[str, int]:
        """Name it, and say how many runs it computes at once."""

    def wants(self) -> bool:
        """Whether it can take another batch now."""

    def size(self, left: int, mean_s: float | None) -> int:
        """Return how many of the runs that are left the next batch should have, by what runs took so far."""

    def start(self, batch: Batch) -> None:
        """Begin a batch."""

    def ended(self) -> Iterator[tuple[Batch, Report | Lost]]:
        """Yield the batches that came to an end, waiting a moment for them.

        Raises:
            RunError: nothing will come any more.

        """

    def finished(self, store: Store) -> int:
        """Say how many runs of batches under way are done, as far as that can be told."""

    def close(self) -> None:
        """Cancel what is under way, and leave."""


def of(on: str, workers: int | None) -> Callable[[Path], Place] | None:
    """Return what opens a place for a store, by its name on the command line; `None` for this process.

    Raises:
        ScenarioError: there is no such place, or what it needs is not installed.

    """
    kind, _, where = on.partition(":")
    match kind:
        case "local" if on == "local":
            return None
        case "processes" if on == "processes":
            return lambda _: _Hosts([("processes of this machine", ("sh", "-c"))], workers)
        case "ssh":
            hosts = where.split(",")
            if not all(re.fullmatch(r"[\w.@:\[\]][\w.@:\[\]-]*", host) for host in hosts):
                raise ScenarioError(f"--on {on}: expected ssh:HOST or ssh:HOST,HOST, as ssh names hosts")
            if not shutil.which("ssh"):
                raise ScenarioError(f"--on {on}: there is no program ssh here; apt-get install openssh-client")
            return lambda _: _Hosts([(host, (*_SSH, host)) for host in hosts], workers)
        case "slurm":
            _need(on, "submitit", "slurm")
            wishes = _slurm_wishes(on, where)
            _not_here(on, workers, "cpus_per_task=N says how many runs a job computes at once")
            if not shutil.which("sbatch"):
                raise ScenarioError(f"--on {on}: there is no program sbatch here; run this on a machine of the cluster")
            return lambda directory: _Slurm(on, wishes, directory)
        case "dask" if where:
            _need(on, "distributed", "dask")
            _not_here(on, workers, "the workers of Dask say how many runs they compute at once (--nthreads)")
            return lambda _: _Dask(where)
    raise ScenarioError(f"--on {on}: expected {_KINDS}")


def processes(on: str, workers: int | None) -> int | None:
    """Return how many processes of this machine work for a sweep at a place; `None` if threads do."""
    return (workers or cores()) if on == "processes" else None


def _need(on: str, module: str, extra: str) -> None:
    import importlib.util

    if importlib.util.find_spec(module) is None:
        raise ScenarioError(f"--on {on}: needs the package {module}; {sys.executable} -m pip install 'incast[{extra}]'")


def _not_here(on: str, workers: int | None, instead: str) -> None:
    if workers is not None:
        raise ScenarioError(f"--workers: not with --on {on}; {instead}")


def _by_time(left: int, slots: int, mean_s: float | None) -> int:
    """Choose batches of some seconds; at first one run each, and small ones at the end so that all finish together."""
    if mean_s is None:
        return 1
    return max(1, min(int(_BATCH_S / max(mean_s, 1e-6)), _MOST_RUNS, left // (2 * slots)))


class _Hosts:
    """Workers, one on each host, which computes as many runs at once as it has cores."""

    def __init__(self, hosts: list[tuple[str, tuple[str, ...]]], workers: int | None) -> None:
        self._ended: queue.Queue[tuple[Batch | None, Report | Lost]] = queue.Queue()
        self._hosts = [_Host(name, reached_by, workers, self._ended) for name, reached_by in hosts]
        until_s = math.inf
        while not all(host.cores or host.is_lost for host in self._hosts) and time.monotonic() < until_s:
            with contextlib.suppress(queue.Empty):
                list(self._pick(*self._ended.get(timeout=_POLL_S)))
            if until_s == math.inf and any(host.cores for host in self._hosts):
                until_s = time.monotonic() + _STRAGGLERS_S
        self._refuse_nobody()

    def about(self) -> tuple[str, int]:
        alive = [host for host in self._hosts if not host.is_lost]
        names = [host.name if host.cores else f"{host.name} (has not answered yet)" for host in alive]
        return ", ".join(names), max(sum(host.cores for host in alive), 1)

    def wants(self) -> bool:
        return any(host.free > 0 for host in self._hosts)

    def size(self, left: int, mean_s: float | None) -> int:
        return _by_time(left, self.about()[1], mean_s)

    def start(self, batch: Batch) -> None:
        max(self._hosts, key=lambda host: host.free).start(batch)

    def ended(self) -> Iterator[tuple[Batch, Report | Lost]]:
        with contextlib.suppress(queue.Empty):
            yield from self._pick(*self._ended.get(timeout=_POLL_S))
            while True:
                yield from self._pick(*self._ended.get_nowait())
        self._refuse_nobody()

    def finished(self, store: Store) -> int:  # noqa: ARG002 - batches take seconds
        return 0

    def _pick(self, batch: Batch | None, report: Report | Lost) -> Iterator[tuple[Batch, Report | Lost]]:
        if batch:
            yield batch, report
        elif isinstance(report, Lost):
            print(f"incast: {report.reason}", file=sys.stderr)

    def _refuse_nobody(self) -> None:
        if all(host.is_lost for host in self._hosts):
            raise RunError("no host is left that computes runs")

    def close(self) -> None:
        for host in self._hosts:
            host.close()


class _Host:
    """One connection, in a thread of its own; it is made anew a few times if it breaks."""

    def __init__(
        self, name: str, reached_by: tuple[str, ...], workers: int | None, ended: queue.Queue[Any]
    ) -> None:  # fmt: skip
        self.name, self.cores, self.is_lost = name, 0, False
        self._reached_by = reached_by
        self._workers, self._ended, self._lock = workers, ended, threading.Lock()
        self._under_way: dict[int, Batch] = {}
        self._count, self._is_closed = 0, False
        self._process: subprocess.Popen[str] | None = None
        self._last = ""
        self._thread = threading.Thread(target=self._attend, daemon=True)
        self._thread.start()

    @property
    def free(self) -> int:
        # One more than it computes, so that none has to wait for the next.
        return self.cores + 1 - len(self._under_way) if self.cores and not self.is_lost else 0

    def start(self, batch: Batch) -> None:
        with self._lock:
            if not self.cores:
                self._ended.put((batch, Lost(f"{self.name}: the connection ended")))
                return
            self._count += 1
            self._under_way[self._count] = batch
            process, number = self._process, self._count
        line = json.dumps([number, base64.b64encode(pickle.dumps(batch)).decode()])
        # If it has just broken, whoever reads from it sees that, too.
        with contextlib.suppress(OSError, ValueError):
            if process and process.stdin:
                print(line, file=process.stdin, flush=True)

    def _attend(self) -> None:
        failures, was_there = 0, False
        while not self.is_lost:
            had = False
            try:
                had = self._connect()
            except Exception as error:
                # Too many files or processes, say. Whatever it is, nobody must wait for this host for ever.
                self._last = str(error)
            failures = failures + 1 if not had else 1
            with self._lock:
                left, self._under_way = list(self._under_way.values()), {}
                # A host that has never answered is one that cannot.
                was_there = was_there or self.cores > 0
                self.is_lost = self._is_closed or failures >= _ATTEMPTS or not was_there
                self.cores = 0
            reason = f"{self.name}: the connection ended{f': {self._last}' if self._last else ''}"
            for batch in left:
                self._ended.put((batch, Lost(reason)))
            if self.is_lost:
                self._ended.put((None, Lost(reason)))
                return
            time.sleep(failures)
            self.is_lost = self._is_closed

    def _connect(self) -> bool:
        """Serve one connection to its end; return whether anything came of it."""
        # Not what lies in the folder: it may have names of Python's own modules.
        words = [sys.executable, "-P", "-m", "incast.studies.worker", *([str(self._workers)] if self._workers else [])]
        path = os.environ.get("PYTHONPATH")
        before = f"PYTHONPATH={shlex.quote(path)} " if path else ""
        command = f"cd {shlex.quote(str(Path.cwd()))} && exec env {before}{shlex.join(words)}"
        process = subprocess.Popen(
            [*self._reached_by, command],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, encoding="utf-8", errors="replace",  # a host may greet in any encoding
            start_new_session=True,  # Ctrl-C is for us: we close it
        )  # fmt: skip
        complaints = threading.Thread(target=self._listen, args=(process,), daemon=True)
        complaints.start()
        with self._lock:
            self._process = process
            if self._is_closed:
                process.kill()
        # Its input may break while it is closed.
        with contextlib.suppress(OSError), process:
            try:
                had = self._serve(process)
            except ValueError:
                process.kill()
                raise
            complaints.join()
        return had

    def _serve(self, process: subprocess.Popen[str]) -> bool:
        had = False
        for line in _lines(process.stdout):
            try:
                said: Any = json.loads(line)
                number, rest = said
            except (ValueError, TypeError) as error:
                if self.cores:
                    raise ValueError("what it said is no report") from error
                continue  # what the shell of a host greets with
            if number == 0:
                self.cores = rest
                self._ended.put((None, Report(())))
                continue
            report = _unpacked(rest)
            with self._lock:
                batch = self._under_way.pop(number, None)
            if batch:
                had = True
                self._ended.put((batch, report))
        return had

    def _listen(self, process: subprocess.Popen[str]) -> None:
        for line in _lines(process.stderr):
            self._last = line.strip() or self._last
            if line.startswith("incast: "):
                print(f"incast: {self.name}: {line.removeprefix('incast: ')}", end="", file=sys.stderr)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        if self._process:
            # The worker ends when its input does.
            with contextlib.suppress(OSError, ValueError):
                if self._process.stdin:
                    self._process.stdin.close()
            try:
                self._process.wait(1)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._thread.join(1)


def _lines(stream: IO[str] | None) -> Iterable[str]:
    return () if stream is None else stream


def packed(report: Report) -> dict[str, Any]:
    """Write a report as JSON."""
    runs = [
        [one.key, one.computed, None if one.content is None else base64.b64encode(one.content).decode()]
        for one in report.outcomes
    ]
    return {"runs": runs, "error": report.error, "elapsed_s": report.elapsed_s}


def _unpacked(said: dict[str, Any]) -> Report:
    try:
        outcomes = tuple(
            Outcome(key, computed, None if content is None else base64.b64decode(content))
            for key, computed, content in said["runs"]
        )
        return Report(outcomes, said["error"], said["elapsed_s"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"what was said is no report: {error!r}") from error


_SLURM_JOBS = 8
# The part of a job's time that its runs may take, by those before; submitit ends it so long before Slurm would.
_OF_TIME, _ENDED_BEFORE_S = 0.7, 90.0
# How submitit says that a job has had its time.
_TIMED_OUT = "UncompletedJobError"
_NOT_FOR_US = {"nodes", "ntasks_per_node", "array_parallelism"}


def _slurm_wishes(on: str, where: str) -> dict[str, Any]:
    from submitit.slurm.slurm import SlurmExecutor

    wishes: dict[str, Any] = {"jobs": _SLURM_JOBS, "time": 60, "cpus_per_task": 1}
    # They are not told otherwise. A job computes one batch, whatever it is given.
    known = sorted({"jobs", *SlurmExecutor._valid_parameters()} - _NOT_FOR_US)  # noqa: SLF001
    for wish in filter(None, where.split(",")):
        key, equals, value = wish.partition("=")
        if key not in known or not equals or not value:
            raise ScenarioError(f"--on {on}: {wish}: expected KEY=VALUE with one of the keys {', '.join(known)}")
        wishes[key] = int(value) if re.fullmatch(r"[0-9]{1,9}", value) else value
    for key in ("jobs", "cpus_per_task"):
        if not isinstance(wishes[key], int) or wishes[key] < 1:
            raise ScenarioError(f"--on {on}: {key}={wishes[key]}: expected a whole number from 1")
    return wishes


class _Slurm:
    """Jobs of Slurm, each with a share of the runs."""

    def __init__(self, on: str, wishes: dict[str, Any], directory: Path) -> None:
        from submitit.slurm.slurm import SlurmExecutor

        self._jobs: int = wishes["jobs"]
        self._cores: int = wishes["cpus_per_task"]
        # Its own: another sweep may have jobs here, too.
        self._folder = directory.resolve() / ".jobs" / uuid.uuid4().hex
        self._keeps_folder = False
        time_min = wishes["time"]
        self._most_s = max(60.0 * time_min - _ENDED_BEFORE_S, 1.0) if isinstance(time_min, int) else math.inf
        try:
            self._executor = SlurmExecutor(self._folder)
            self._executor.update_parameters(
                **{"job_name": "incast", **{key: value for key, value in wishes.items() if key != "jobs"}}
            )
        except (ValueError, TypeError, RuntimeError) as error:
            raise ScenarioError(f"--on {on}: {error}") from error
        self._under_way: list[tuple[Any, Batch]] = []
        self._missed: set[str] = set()
        self._looked_s = time.monotonic()
        self._finished: dict[str, int] = {}
        self._counted_s = -math.inf

    def about(self) -> tuple[str, int]:
        return f"Slurm, {self._jobs} jobs", self._jobs * self._cores

    def wants(self) -> bool:
        return len(self._under_way) < self._jobs

    def size(self, left: int, mean_s: float | None) -> int:
        # A job takes seconds to start, so it gets a share, but none that it cannot end in time.
        share = -(-left // (self._jobs - len(self._under_way)))
        if mean_s is None or self._most_s == math.inf:
            return share
        return max(1, min(share, int(_OF_TIME * self._most_s / max(mean_s, 1e-6))))

    def start(self, batch: Batch) -> None:
        try:
            job = self._executor.submit(batches.carry_out, batch, _Never(), threads=self._cores)
        except Exception as error:
            raise RunError(f"Slurm takes no job: {_last_line(error)}") from error
        self._under_way.append((job, batch))

    def ended(self) -> Iterator[tuple[Batch, Report | Lost]]:
        time.sleep(_POLL_S)
        alive = self._alive()
        for job, batch in list(self._under_way):
            if job.paths.result_pickle.exists():
                self._under_way.remove((job, batch))
                report = _result(job)
                # An error names the file with what the job has said.
                self._keeps_folder |= isinstance(report, Lost) or bool(report.error)
                yield batch, report
            elif alive is not None and job.job_id not in alive:
                # Once more: the file of a job that has ended may take a moment to be seen from here.
                if job.job_id in self._missed:
                    self._under_way.remove((job, batch))
                    subprocess.run(["scancel", job.job_id], capture_output=True, check=False)  # noqa: S607
                    self._keeps_folder = True
                    yield batch, Lost(f"job {job.job_id} of Slurm ended without a result; see {job.paths.stderr}")
                self._missed.add(job.job_id)

    def finished(self, store: Store) -> int:
        # A job has its whole share at once, so that what it has done shows only in the store.
        if time.monotonic() - self._counted_s >= _SQUEUE_EVERY_S:
            self._finished = {job.job_id: begun(batch, store) for job, batch in self._under_way}
            self._counted_s = time.monotonic()
        return sum(self._finished.get(job.job_id, 0) for job, _ in self._under_way)

    def _alive(self) -> set[str] | None:
        """Return the jobs that wait or run, every now and then; `None` if Slurm is not asked or does not answer."""
        if time.monotonic() - self._looked_s < _SQUEUE_EVERY_S:
            return None
        self._looked_s = time.monotonic()
        listed = subprocess.run(
            ["squeue", "--noheader", "--array", "--me", "--format=%i %r"],  # noqa: S607
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if listed.returncode:
            return None
        # What a controller lost when it was killed it holds until somebody releases it: it will not run.
        lines = [line for line in listed.stdout.splitlines() if "requeued held" not in line]
        return {line.split()[0] for line in lines}

    def close(self) -> None:
        if names := [job.job_id for job, _ in self._under_way]:
            subprocess.run(["scancel", *names], capture_output=True, check=False)  # noqa: S607
        elif not self._keeps_folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            with contextlib.suppress(OSError):
                self._folder.parent.rmdir()


def begun(batch: Batch, store: Store) -> int:
    """Return how many runs come before the first that is not done: they are computed in their order."""
    return bisect.bisect_left(batch.tasks, True, key=lambda task: not store.has(task.key, task.tables))


def _result(job: Any) -> Report | Lost:  # noqa: ANN401 - submitit's
    try:
        report = job.result()
    except Exception as error:
        reason = f"job {job.job_id} of Slurm: {_last_line(error)}; see {job.paths.stderr}"
        # It was at the end of its time: what it has done is there.
        return Lost(reason) if _TIMED_OUT in str(error) else Report((), reason)
    return report if isinstance(report, Report) else Lost(f"job {job.job_id} of Slurm: no report")


def _last_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip(" -")]
    return lines[-1].strip() if lines else type(error).__name__


class _Never:
    """An event that nobody sets from outside: only the end of its process stops a batch. It can be sent elsewhere."""

    def __init__(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True


class _Dask:
    """The workers of a Dask cluster, each of whose threads computes a run at a time."""

    def __init__(self, address: str) -> None:
        import logging

        import distributed

        # What it says of broken connections, we say in one line.
        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._address = address
        try:
            self._client: Any = distributed.Client(  # type: ignore[no-untyped-call]
                address, timeout="10s", set_as_default=False
            )
            self._slots = self._threads()
        except (OSError, ValueError, ImportError) as error:
            raise RunError(f"--on dask:{address}: no scheduler of Dask answers there ({_last_line(error)})") from error
        self._under_way: deque[tuple[Any, Batch]] = deque()

    def _threads(self) -> int:
        return int(sum(self._client.nthreads().values()))

    def about(self) -> tuple[str, int]:
        return f"Dask at {self._address}, {len(self._client.nthreads())} workers", self._slots

    def wants(self) -> bool:
        return len(self._under_way) < 2 * max(self._slots, 1)

    def size(self, left: int, mean_s: float | None) -> int:
        return _by_time(left, max(self._slots, 1), mean_s)

    def start(self, batch: Batch) -> None:
        self._under_way.append((self._client.submit(_on_dask, batch, pure=False, retries=0), batch))

    def ended(self) -> Iterator[tuple[Batch, Report | Lost]]:
        time.sleep(_POLL_S / 10)
        for _ in range(len(self._under_way)):
            if not self._is_connected():
                return
            future, batch = self._under_way.popleft()
            match future.status:
                case "finished":
                    try:
                        yield batch, future.result(timeout=_PATIENCE_S)
                    except (OSError, CancelledError) as error:  # the worker is gone, and what it found with it
                        yield batch, Lost(f"its result cannot be had from Dask: {_last_line(error)}")
                case "error":
                    yield batch, _failed(future.exception(timeout=_PATIENCE_S))
                case "cancelled" | "lost" if self._is_connected():
                    yield batch, Lost(f"the scheduler of Dask at {self._address} has lost it")
                case _:
                    self._under_way.append((future, batch))

    def finished(self, store: Store) -> int:  # noqa: ARG002 - batches take seconds
        return 0

    def _is_connected(self) -> bool:
        """Whether the scheduler is there; for a while it may come back."""
        if self._client.status not in ("running", "connecting"):
            raise RunError(f"the scheduler of Dask at {self._address} is gone")
        return bool(self._client.status == "running")

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._client.cancel([future for future, _ in self._under_way], force=True)
        with contextlib.suppress(Exception):
            self._client.close(timeout=2)


def _failed(error: BaseException) -> Report | Lost:
    import distributed

    if isinstance(error, distributed.KilledWorker):
        return Lost("its worker of Dask was killed, several times")
    return Report((), f"a worker of Dask failed: {type(error).__name__}: {error}")


def _on_dask(batch: Batch) -> Report:
    """Compute a batch in a thread of a worker, and stop if it is cancelled, for which Dask has no signal."""
    import distributed

    worker, stop, is_over = distributed.get_worker(), threading.Event(), threading.Event()
    key = worker.get_current_task()

    def watch() -> None:
        while not is_over.wait(_POLL_S):
            task = worker.state.tasks.get(key)
            if task is None or task.state not in ("executing", "long-running"):
                stop.set()

    threading.Thread(target=watch, daemon=True).start()
    try:
        report = batches.carry_out(batch, stop, threads=1)
    finally:
        is_over.set()
    # What was cancelled and is wanted after all is no error.
    return replace(report, error="") if stop.is_set() and report.error == "interrupted" else report
