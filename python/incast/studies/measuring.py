"""Measures runs: SQL over their tables."""

from __future__ import annotations

import functools
import math
import re
from typing import TYPE_CHECKING

import polars as pl

from incast import api
from incast._native import RunError, ScenarioError
from incast.studies.expressions import missing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: The table that is always kept: it is measured most often and has the cost of the run.
ALWAYS = "summary"
_FROM = re.compile(r"""\b(?:from|join)\s+["'`]?(\w+)""", re.IGNORECASE)
_UNKNOWN_COLUMN = re.compile(r"""(?:unable to find column|field not found:|no column named|not found:)\s*['"`]?(\w+)""")

# Two hosts and one message: has every table, and takes no time.
_LEAST: dict[str, object] = {
    "name": "least",
    "topology": {"kind": "star", "hosts": 2, "link": {"rate": "1Gbps", "delay": "1us"}},
    "switch": {"buffer": {"name": "static", "limit": "9packets", "count_in_service": True}},
    "traffic": {"one": {"kind": "incast", "senders": 1, "size": "1B"}},
    "record": {"queue_series": ["all"], "window_series": ["one"], "events": True},
}


@functools.cache
def empty() -> Mapping[str, pl.DataFrame]:
    """Return every table of a run, without rows."""
    result = api.run(_LEAST)
    return {name: pl.DataFrame(result.table(name)).clear() for name in result.tables()}


def tables_of(sql: str) -> frozenset[str]:
    """Return the tables of a run that a query reads."""
    return frozenset(_FROM.findall(sql)) & frozenset(empty())


def check(sql: str, place: str, *, columns: int) -> None:
    """Check that a query is valid for the tables of a run.

    Raises:
        ScenarioError: it is not; the message names the tables or columns.

    """
    if not tables_of(sql):
        named = _FROM.findall(sql)
        raise ScenarioError(f"{place}: {missing('table', named[0] if named else '', list(empty()))}")
    try:
        found = _ask(sql, empty().__getitem__)
    except (pl.exceptions.PolarsError, RuntimeError, ValueError) as error:
        raise ScenarioError(f"{place}: {_reason(sql, str(error))}") from error
    if found.width != columns:
        raise ScenarioError(
            f"{place}: the query returns {found.width} columns ({', '.join(found.columns)}), not {columns}"
        )
    for column in found.columns:
        if not (found[column].dtype.is_numeric() or found[column].dtype in (pl.Boolean, pl.Null)):
            raise ScenarioError(f"{place}: the column {column} is not a number but {found[column].dtype}")


def number(sql: str, place: str, table: Callable[[str], pl.DataFrame]) -> float | int | None:
    """Return the single number that a query returns; `None` if it is null.

    Raises:
        RunError: the query returns no row, or more than one.

    """
    found = _ask(sql, table)
    if found.height != 1:
        raise RunError(
            f"{place}: the query returns {found.height} rows for a run, not one; add a sum, a mean or a WHERE"
        )
    value = found.item()
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return int(value) if isinstance(value, bool | int) else float(value)


def series(sql: str, table: Callable[[str], pl.DataFrame]) -> tuple[list[float], list[float]]:
    """Return the two columns of a query."""
    found = _ask(sql, table).drop_nulls()
    x, y = found.get_columns()
    return x.cast(pl.Float64).to_list(), y.cast(pl.Float64).to_list()


def _ask(sql: str, table: Callable[[str], pl.DataFrame]) -> pl.DataFrame:
    frames = {name: table(name).lazy() for name in sorted(tables_of(sql))}
    return pl.SQLContext(frames).execute(sql).collect()


def _reason(sql: str, error: str) -> str:
    first = error.strip().splitlines()[0]
    unknown = _UNKNOWN_COLUMN.search(error)
    if unknown:
        columns = [column for name in sorted(tables_of(sql)) for column in empty()[name].columns]
        return missing("column", unknown[1], columns)
    return f"invalid query: {first}"
