"""The command `incast sweep`: all runs of one study and their table, or one shard of the runs."""

from __future__ import annotations

import contextlib
import heapq
import json
import re
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

from incast import ends, output, progress, text
from incast._native import RunError, ScenarioError
from incast.studies import cost, execution, measurers, places, plan, reading, table
from incast.studies.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sized
    from pathlib import Path

    from incast.studies.places import Place
    from incast.studies.plan import Row, Task
    from incast.studies.study import Study
    from incast.studies.table import Table

# How many runs are looked at within a second, on a disk.
_LOOKED_AT = 5_000


def main(
    path: Path,
    *,
    out: Path,
    shard: str | None,
    dry_run: bool,
    workers: int | None,
    on: str = "local",
    plots: bool = False,
    as_json: bool = False,
) -> int:
    """Compute the missing runs, and write the table unless they are those of one shard. Return the exit code."""
    part, parts = shard_of(shard) if shard else (1, 1)
    if shard and plots:
        raise ScenarioError("--plots: a shard has no table to draw; the command without --shard draws it")
    opened = places.of(on, workers)
    study = reading.read(path)
    checked = plan.check(study)
    whole = cost.of(study, None, checked=checked)
    estimated = whole.line()
    store, rows = Store(out / "runs"), plan.rows(study)
    everything = execution.distinct(plan.runs(rows))
    if shard:
        seconds = cost.by_run(study, rows, checked)
        shares = split(everything, seconds, parts)
        everything = shares[part - 1] if part <= len(shares) else []
        minutes = text.duration(sum(seconds[task.key] for task in everything))
        estimated = f"{estimated}; shard {shard} has {len(everything):,} of them, {minutes} of one core"
    missing = execution.lacking(everything, store, study.name)
    there = len(everything) - len(missing)
    already = f"; {there:,} of them done already" if there else ""
    told: dict[str, object] = {
        "study": study.name,
        "shard": shard,
        "cost": whole.as_json(),
        "runs": len(everything),
        "done": there,
    }
    print(f"{study.name}: {estimated}{already}", file=sys.stdout if dry_run and not as_json else sys.stderr)
    if dry_run:
        if as_json:
            print(json.dumps(told))
        return 0
    output.prepare(out)
    here: Counter[bool] = Counter()
    try:
        with place_of(opened if missing else None, store) as place:
            computed = execution.run(
                everything, store, workers=workers, what=study.name, place=place, missing=missing, here=here
            )
    except (KeyboardInterrupt, RunError, OSError) as error:
        done = _kept(everything, store, there + here.total())
        print(f"incast: {ends.reason(error)}; {done} of {len(everything):,} runs are kept in {store.directory}; "
              "run the same command again to resume", file=sys.stderr)  # fmt: skip
        return ends.code(error)
    print(f"{computed:,} runs computed; {len(everything):,} of {len(everything):,} done", file=sys.stderr)
    processes = places.processes(on, workers)
    files = [] if shard else _files(study, measured(study, rows, store, None, None, processes), store, out, plots=plots)
    if as_json:
        told |= {"done": len(everything), "computed": computed, "files": list(map(str, files))}
        print(json.dumps(told))
    elif shard:
        print(f"{store.directory}: has all runs of shard {shard}; without --shard the command writes the table")
    else:
        print("\n".join(map(str, files)))
    return 0


def _kept(tasks: list[Task], store: Store, known: int) -> str:
    """Say how many runs are kept. To look at very many takes longer than anyone waits for a command to end."""
    if len(tasks) > _LOOKED_AT:
        return f"at least {known:,}"
    return f"{sum(store.has(task.key, task.tables) for task in tasks):,}"


def _files(study: Study, numbers: Table, store: Store, out: Path, *, plots: bool) -> list[Path]:
    """Write the table and, if asked for, the panels; return the files."""
    files = [out / f"{study.name}.csv"]
    output.write(files[0], numbers.text())
    if plots:
        from incast import figures
        from incast.studies import pictures, report

        drawn = report.panels(study, numbers, store)
        if not drawn:
            print(f"{study.name}: nothing to draw: the study has no [[panels]]", file=sys.stderr)
            return files
        picture = pictures.draw(drawn)
        for suffix, content in (("png", figures.png(picture, table=numbers.text())), ("pdf", figures.pdf(picture))):
            files.append(out / f"{study.name}.{suffix}")
            output.write(files[-1], content)
    return files


def measured(
    study: Study,
    rows: list[Row],
    store: Store,
    cpu_minutes: float | None,
    kept: Mapping[int, tuple[str, ...]] | None = None,
    processes: int | None = None,
) -> Table:
    """Measure every run; all of them are in the store, but for rows that are known. Damaged ones are computed anew."""
    found = dict(kept or {})
    started = time.process_time()
    while left := [index for index in range(len(rows)) if index not in found]:
        measured: dict[int, tuple[str, ...] | None] = {}

        def state(elapsed_s: float, of: int = len(left), measured: Sized = measured) -> progress.State:
            return progress.of_runs(len(measured), of, elapsed_s, what=f"{study.name}, measured: ")

        new = measurers.measured(study, [rows[index] for index in left], store, processes)
        with contextlib.closing(new), progress.Meter(state) as meter:
            for index, row in zip(left, new, strict=True):
                measured[index] = row
                meter.show()
        found |= {index: row for index, row in measured.items() if row}
        damaged = [rows[index] for index, row in measured.items() if not row]
        execution.run(plan.runs(damaged), store, what=f"{study.name}: damaged runs")
    if cpu_minutes is not None:
        cpu_minutes += (time.process_time() - started) / 60
    return table.of_rows(study, [found[index] for index in range(len(rows))], cpu_minutes)


@contextlib.contextmanager
def place_of(opened: Callable[[Path], Place] | None, store: Store) -> Iterator[Place | None]:
    """Open the place where runs are computed, and say what it is; `None` is this process."""
    if opened is None:
        yield None
        return
    store.prepare()
    place = opened(store.directory)
    try:
        name, at_once = place.about()
        print(f"computed on {name}: {at_once:,} runs at once", file=sys.stderr, flush=True)
        yield place
    finally:
        place.close()


def split(tasks: list[Task], seconds: Mapping[str, float], parts: int) -> list[list[Task]]:
    """Split runs into parts that take about as long: the longest first, each to the part that has least so far.

    What is already done does not count, so that all jobs of an array come to the same parts, whenever they start. No
    part is empty: there are at most as many as runs.
    """
    shares: list[list[Task]] = [[] for _ in range(min(parts, len(tasks)))]
    least = [(0.0, part) for part in range(len(shares))]
    for task in sorted(tasks, key=lambda task: (-seconds[task.key], task.key)):
        has, part = least[0]
        shares[part].append(task)
        heapq.heapreplace(least, (has + seconds[task.key], part))
    return shares


def shard_of(written: str) -> tuple[int, int]:
    """Return which shard of how many is meant, as in "2/8".

    Raises:
        ScenarioError: it is not written so, or there is no such shard.

    """
    numbers = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", written)
    if not numbers or not 1 <= int(numbers[1]) <= int(numbers[2]):
        raise ScenarioError(f'--shard {written}: expected i/n with i from 1 to n, as in "2/8"')
    return int(numbers[1]), int(numbers[2])
