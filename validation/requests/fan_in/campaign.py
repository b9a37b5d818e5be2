"""All repetitions of a grid: in which order, what is kept, what is done again."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import incast_requests
from fan_in import asking, judging, measuring
from fan_in.cells import measured_in
from fan_in.fabric import Fabric
from fan_in.policies import POLICIES
from fan_in.servers import Servers, missing
from kernel_world.namespaces import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fan_in.cells import Cell, Grid
    from fan_in.judging import Machine, Row

# Goes up with every change of the harness after which what was measured before no longer counts.
_MEASURING = 1
# The same for cells in which servers think.
_THINKING = 1
# Some cells keep the machine busy themselves: a client that needs a whole CPU.
_ATTEMPTS, _PAUSE_S = 10, 1.0
# When this many cells in a row are refused at every attempt, other work on the machine is to blame.
_BUSY_CELLS = 3
# The world linux of `incast run` takes the same lock: two would share the CPUs.
_LOCK = "incast-linux.lock"
_WITHOUT_LIBRARY = {"all", "semaphore", "gradient"}


class BusyError(UnavailableError):
    """The machine was too busy each time."""


@dataclass(frozen=True)
class Job:
    """A repetition of a cell with a policy."""

    cell: Cell
    policy: str
    repetition: int


def jobs(grid: Grid) -> list[Job]:
    """Return what is to be measured, in its order: repetition by repetition, and in each cell the policies in turn."""
    found = []
    for repetition in range(grid.repetitions):
        for cell in grid.cells:
            names = measured_in(cell, grid.policies)
            # Another one begins each time.
            turn = repetition % len(names)
            found += [Job(cell, policy, repetition) for policy in names[turn:] + names[:turn]]
    return found


def file_of(out: Path, job: Job, library: str) -> Path:
    """Return where a repetition is kept: one of another kernel, harness or scheduler is another."""
    # The client in Rust has the library built in.
    in_python = "" if job.policy in _WITHOUT_LIBRARY else library
    used = asking.build(job.cell) or in_python
    what = [asdict(job.cell), job.policy, job.repetition, os.uname().release, _MEASURING, used]
    if job.cell.think_ms:
        what.append(_THINKING)
    key = hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:32]
    return out / "kept" / key[:2] / f"{key}.json"


def library() -> str:
    """Return what tells one build of the scheduler from another."""
    found = hashlib.sha256()
    folder = Path(incast_requests.__file__).parent
    for file in sorted([*folder.glob("*.py"), *folder.glob("_core*.so")]):
        found.update(file.name.encode() + file.read_bytes())
    return found.hexdigest()


def kept(out: Path, grid: Grid) -> list[Row]:
    """Return all repetitions that are there."""
    build = library()
    rows = []
    for job in jobs(grid):
        with contextlib.suppress(FileNotFoundError):
            text = file_of(out, job, build).read_text(encoding="utf-8")
            rows.append(judging.row(job.cell, job.policy, job.repetition, json.loads(text)))
    order = {cell: number for number, cell in enumerate(grid.cells)}
    policies = list(POLICIES)
    return sorted(rows, key=lambda row: (order[row.cell], policies.index(row.policy), row.repetition))


def run(grid: Grid, out: Path, machine: Machine, minutes: float | None, to: TextIO = sys.stderr) -> bool:
    """Measure what is not there yet. Return whether that is everything now.

    What does not end is left out, and so are the other repetitions of its cell with its policy. A cell that keeps the
    machine too busy is left out as a whole.

    Raises:
        UnavailableError: something is missing, has failed, or the machine is too busy whatever is measured.

    """
    build = library()
    todo = [job for job in jobs(grid) if not file_of(out, job, build).exists()]
    if not todo:
        return True
    servers = sorted({job.cell.server for job in todo})
    if lacking := missing(servers):
        raise UnavailableError(
            f"not installed: {' '.join(lacking)} (Debian, Ubuntu: apt-get install {' '.join(lacking)})"
        )
    sizes = sorted({size for job in todo for size in job.cell.sizes})
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as home,
        contextlib.closing(Fabric()) as fabric,
        contextlib.closing(Servers(fabric, servers, sizes, Path(home))) as running,
    ):
        endless: set[tuple[Cell, str]] = set()
        busy: set[Cell] = set()
        busy_in_succession = 0
        for number, job in enumerate(todo):
            if (job.cell, job.policy) in endless or job.cell in busy:
                continue
            if minutes is not None and time.monotonic() - began > minutes * 60:
                return False
            # One at a time, and others may come in between.
            try:
                with alone():
                    found = repeated(
                        lambda job=job: measuring.repetition(fabric, running, job.cell, job.policy),  # type: ignore[misc]
                        machine,
                    )
            except measuring.EndlessError as error:
                endless.add((job.cell, job.policy))
                print(f"[{number + 1}/{len(todo)}] left out: {error}", file=to, flush=True)
                continue
            except BusyError as error:
                busy_in_succession += 1
                if busy_in_succession == _BUSY_CELLS:
                    raise
                busy.add(job.cell)
                print(f"[{number + 1}/{len(todo)}] left out: {job.cell.name}: {error}", file=to, flush=True)
                continue
            busy_in_succession = 0
            _keep(file_of(out, job, build), found)
            left_s = (time.monotonic() - began) / (number + 1) * (len(todo) - number - 1)
            goodput = judging.row(job.cell, job.policy, job.repetition, found).goodput_mbps
            again = f", {len(found['refused'])} refused" if found["refused"] else ""
            print(
                f"[{number + 1}/{len(todo)}, {left_s / 60:.0f} min left] {job.cell.name}: {POLICIES[job.policy]}, "
                f"repetition {job.repetition + 1}: {goodput:.1f} Mbit/s{again}",
                file=to,
                flush=True,
            )
    return not endless and not busy


def repeated(
    measure: Callable[[], dict[str, Any]], machine: Machine, pause: Callable[[float], None] = time.sleep
) -> dict[str, Any]:
    """Measure until the machine was idle enough.

    Raises:
        BusyError: it never was.

    """
    refused: list[str] = []
    while len(refused) < _ATTEMPTS:
        found = measure()
        reason = machine.refuse(found["quality"])
        if reason is None:
            return {"found": found, "refused": refused}
        refused.append(reason)
        pause(_PAUSE_S)
    raise BusyError(
        f"the machine is too busy: {_ATTEMPTS} attempts were refused, the last because {refused[-1]}; stop other work "
        f"and run the same command again{hint(refused[-1])}"
    )


def hint(reason: str, kernel: Path = Path("/proc/sys/kernel")) -> str:
    """Return what else helps if the kernel keeps processes with SCHED_FIFO from using a whole CPU."""
    if not reason.startswith(("client", "servers")):
        return ""
    try:
        runtime, period = (int((kernel / f"sched_rt_{name}_us").read_text()) for name in ("runtime", "period"))
    except (OSError, ValueError):
        return ""
    if runtime < 0 or runtime >= period:
        return ""
    return (
        f". The kernel stops a real-time process that uses a CPU for more than {runtime / period:.0%} of the time; "
        "sysctl -w kernel.sched_rt_runtime_us=-1 keeps it from that"
    )


def _keep(file: Path, found: dict[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    # Whole or not at all.
    new = file.with_suffix(".new")
    new.write_text(json.dumps(found), encoding="utf-8")
    new.replace(file)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Be the only one that measures on this machine."""
    with (Path(tempfile.gettempdir()) / _LOCK).open("a", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def spent_s(rows: Sequence[Row]) -> float:
    """Return how long the queries took that count."""
    return sum(sum(row.queries_ms) for row in rows) / 1e3
