"""Carries out runs in worlds outside this program: a command reads a request and prints the tables of the run."""

from __future__ import annotations

import json
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any

import polars as pl

from incast._native import RunError
from incast.studies import measuring
from incast.studies.expressions import missing

if TYPE_CHECKING:
    import threading
    from collections.abc import Collection

    from incast.studies.plan import Outside

_POLL_S = 0.1
_FLOW = ("start_s", "source_host", "destination_host", "size_bytes")


def run(
    outside: Outside, seed: int, flows: pl.DataFrame, tables: Collection[str], stop: threading.Event
) -> dict[str, pl.DataFrame]:  # fmt: skip
    """Have a scenario carried out by the command of a world.

    The command reads one JSON object: the scenario, the seed, and the flows that the scenario and the seed come down
    to, in the order of their starts. It prints one: by the name of a table, a list of rows with the columns it knows.

    Raises:
        RunError: the command failed, what it printed is not the tables, or `stop` was set.

    """
    world = outside.world
    rows = sorted(flows.select(_FLOW).to_dicts(), key=lambda flow: tuple(flow.values()))
    request = {"scenario": json.loads(outside.scenario), "seed": seed, "flows": rows}
    # From a file: a pipe would take only part of a long request before the first look at `stop`.
    with tempfile.TemporaryFile("w+", encoding="utf-8") as asked:
        json.dump(request, asked)
        asked.seek(0)
        try:
            process = subprocess.Popen(
                world.command, cwd=world.directory,
                stdin=asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            raise RunError(f"the world {world.name} cannot be started: {error}") from error
    while True:
        try:
            printed, said = process.communicate(timeout=_POLL_S)
            break
        except subprocess.TimeoutExpired:
            if stop.is_set():
                process.kill()
                process.communicate()
                raise RunError("interrupted") from None
    if process.returncode != 0:
        complaint = said.decode(errors="replace").strip()[-2000:]
        raise RunError(f"the world {world.name} failed: {complaint or f'status {process.returncode}'}")
    try:
        found = json.loads(printed.decode("utf-8"))
        return {name: _table(name, found[name]) for name in tables}
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError, pl.exceptions.PolarsError) as error:
        raise RunError(f"the world {world.name} printed no table of a run: {error!r}") from error


def _table(name: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Return rows as the table of a run; columns that the world does not know are null."""
    schema = measuring.empty()[name].schema
    for column in dict.fromkeys(column for row in rows for column in row):
        if column not in schema:
            raise ValueError(missing("column", column, schema.names()))
    return pl.DataFrame(rows, schema=schema)
