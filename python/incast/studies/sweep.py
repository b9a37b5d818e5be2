"""The command `incast sweep`: all runs of one study, or one shard of them, and their table."""

from __future__ import annotations

import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from incast import api, output
from incast._native import RunError, ScenarioError
from incast.studies import cost, execution, plan, reading, table
from incast.studies.store import Store

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
    print(f"{study.name}: {cost.of(study, None).line()}", file=sys.stdout if dry_run else sys.stderr)
    if dry_run:
        return 0
    store = Store(output.prepare(out) / "runs")
    rows = plan.rows(study)
    everything = execution.distinct(plan.runs(rows))
    try:
        computed = execution.run(everything[part - 1 :: parts], store, workers=workers, what=study.name)
    except (KeyboardInterrupt, RunError) as error:
        done = sum(store.has(task.key, task.tables) for task in everything)
        reason = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
        print(f"incast: {reason}; {done:,} of {len(everything):,} runs are kept in {store.directory}; "
              "run the same command again to resume", file=sys.stderr)  # fmt: skip
        return 1
    there = sum(store.has(task.key, task.tables) for task in everything)
    print(f"{computed:,} runs computed; {there:,} of {len(everything):,} done", file=sys.stderr)
    if there < len(everything):
        print(f"{store.directory}: the shard that completes the last run writes the table")
        return 0
    file = out / f"{study.name}.csv"
    table.write(file, measured(study, rows, store, None).text())
    print(file)
    return 0


def measured(
    study: Study,
    rows: list[Row],
    store: Store,
    cpu_minutes: float | None,
    kept: Mapping[int, tuple[str, ...]] | None = None,
) -> Table:
    """Measure every run; all of them are in the store, but for rows that are known."""
    known = kept or {}
    started = time.process_time()
    with ThreadPoolExecutor(api.cores()) as pool:
        found = list(pool.map(
            lambda index: known.get(index) or table.measured(study, rows[index], store), range(len(rows))
        ))  # fmt: skip
    if cpu_minutes is not None:
        cpu_minutes += (time.process_time() - started) / 60
    return table.of_rows(study, found, cpu_minutes)


def _shard(text: str) -> tuple[int, int]:
    numbers = re.fullmatch(r"(\d+)/(\d+)", text)
    if not numbers or not 1 <= int(numbers[1]) <= int(numbers[2]):
        raise ScenarioError(f'--shard {text}: expected i/n with i from 1 to n, as in "2/8"')
    return int(numbers[1]), int(numbers[2])
