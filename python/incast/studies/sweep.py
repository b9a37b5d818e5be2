"""The command `incast sweep`: all runs of one study, or one shard of them, and their table."""

from __future__ import annotations

import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from incast import api, ends, output
from incast._native import RunError, ScenarioError
from incast.studies import cost, execution, plan, reading, table
from incast.studies.store import DamagedError, Store

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from incast.studies.plan import Row
    from incast.studies.study import Study
    from incast.studies.table import Table


def main(path: Path, *, out: Path, shard: str, dry_run: bool, workers: int | None) -> int:
    """Compute the missing runs of a shard; write the table once all runs are done. Return the exit code."""
    part, parts = _shard(shard)
    study = reading.read(path)
    estimated = cost.of(study, None).line()
    store, rows = Store(out / "runs"), plan.rows(study)
    everything = execution.distinct(plan.runs(rows))
    there = sum(store.has(task.key, task.tables) for task in everything)
    already = f"; {there:,} of them done already" if there else ""
    print(f"{study.name}: {estimated}{already}", file=sys.stdout if dry_run else sys.stderr)
    if dry_run:
        return 0
    output.prepare(out)
    try:
        computed = execution.run(everything[part - 1 :: parts], store, workers=workers, what=study.name)
    except (KeyboardInterrupt, RunError, OSError) as error:
        done = sum(store.has(task.key, task.tables) for task in everything)
        print(f"incast: {ends.reason(error)}; {done:,} of {len(everything):,} runs are kept in {store.directory}; "
              "run the same command again to resume", file=sys.stderr)  # fmt: skip
        return ends.code(error)
    there = sum(store.has(task.key, task.tables) for task in everything)
    print(f"{computed:,} runs computed; {there:,} of {len(everything):,} done", file=sys.stderr)
    if there < len(everything):
        print(f"{store.directory}: the shard that completes the last run writes the table")
        return 0
    file = out / f"{study.name}.csv"
    output.write(file, measured(study, rows, store, None).text())
    print(file)
    return 0


def measured(
    study: Study,
    rows: list[Row],
    store: Store,
    cpu_minutes: float | None,
    kept: Mapping[int, tuple[str, ...]] | None = None,
) -> Table:
    """Measure every run; all of them are in the store, but for rows that are known. Damaged ones are computed anew."""
    found = dict(kept or {})
    started = time.process_time()

    def measure(index: int) -> tuple[str, ...] | None:
        try:
            return table.measured(study, rows[index], store)
        except DamagedError:
            if task := rows[index].task:
                store.inspect(task.key)
            return None

    while left := [index for index in range(len(rows)) if index not in found]:
        with ThreadPoolExecutor(api.cores()) as pool:
            measured = dict(zip(left, pool.map(measure, left), strict=True))
        found |= {index: row for index, row in measured.items() if row}
        damaged = [rows[index] for index, row in measured.items() if not row]
        execution.run(plan.runs(damaged), store, what=f"{study.name}: damaged runs")
    if cpu_minutes is not None:
        cpu_minutes += (time.process_time() - started) / 60
    return table.of_rows(study, [found[index] for index in range(len(rows))], cpu_minutes)


def _shard(text: str) -> tuple[int, int]:
    numbers = re.fullmatch(r"(\d+)/(\d+)", text)
    if not numbers or not 1 <= int(numbers[1]) <= int(numbers[2]):
        raise ScenarioError(f'--shard {text}: expected i/n with i from 1 to n, as in "2/8"')
    return int(numbers[1]), int(numbers[2])
