"""Measures runs: SQL over their tables."""

from __future__ import annotations

import functools
import math
import re
import threading
from typing import TYPE_CHECKING, Any

import duckdb

from incast import api
from incast._native import RunError, ScenarioError
from incast.studies.expressions import missing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

#: The table that is always kept: it is measured most often and has the cost of the run.
ALWAYS = "summary"
_FROM = re.compile(r"""\b(?:from|join)\s+["'`]?(\w+)""", re.IGNORECASE)
_UNKNOWN_COLUMN = re.compile(r"""Referenced column "(\w+)" not found""")
_NUMERIC = ("INT", "DOUBLE", "FLOAT", "DECIMAL", "BOOLEAN")
# A sum of floating-point numbers depends on their order, and several threads would decide it by their luck.
# A query sees the tables it is given, no file, and no variable of this program.
_ENGINE: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "enable_external_access": False,
    "python_enable_replacements": False,
}
_local = threading.local()

# Two hosts and one message: has every table, and takes no time.
_LEAST: dict[str, object] = {
    "name": "least",
    "topology": {"kind": "star", "hosts": 2, "link": {"rate": "1Gbps", "delay": "1us"}},
    "switch": {"buffer": {"name": "static", "limit": "9packets", "count_in_service": True}},
    "traffic": {"one": {"kind": "incast", "senders": 1, "size": "1B"}},
    "record": {"queue_series": ["all"], "window_series": ["one"], "events": True},
}


@functools.cache
def empty() -> Mapping[str, pa.Table]:
    """Return every table of a run, without rows."""
    result = api.run(_LEAST)
    return {name: result.to_arrow(name).schema.empty_table() for name in result.tables()}


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
        found = _connected(sql, empty().__getitem__).sql(sql)
    except duckdb.Error as error:
        raise ScenarioError(f"{place}: {_reason(sql, str(error))}") from error
    names, types = found.columns, [str(kind) for kind in found.types]
    if len(names) != columns:
        raise ScenarioError(f"{place}: the query returns {len(names)} columns ({', '.join(names)}), not {columns}")
    for name, kind in zip(names, types, strict=True):
        if not (kind == '"NULL"' or any(numeric in kind for numeric in _NUMERIC)):
            raise ScenarioError(f"{place}: the column {name} is not a number but {kind}")


def number(sql: str, place: str, table: Callable[[str], pa.Table]) -> float | int | None:
    """Return the single number that a query returns; `None` if it is null.

    Raises:
        RunError: the query fails on the values of this run, or does not return exactly one row.

    """
    rows = _rows(sql, place, table)
    if len(rows) != 1:
        raise RunError(f"{place}: the query returns {len(rows)} rows for a run, not one; add a sum, a mean or a WHERE")
    (value,) = rows[0]
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return int(value) if isinstance(value, bool | int) else float(value)


def series(sql: str, place: str, table: Callable[[str], pa.Table]) -> tuple[list[float], list[float]]:
    """Return the two columns of a query.

    Raises:
        RunError: the query fails on the values of this run.

    """
    rows = [row for row in _rows(sql, place, table) if None not in row]
    return [float(x) for x, _ in rows], [float(y) for _, y in rows]


def _rows(sql: str, place: str, table: Callable[[str], pa.Table]) -> list[tuple[Any, ...]]:
    try:
        return _connected(sql, table).execute(sql).fetchall()
    except duckdb.Error as error:
        raise RunError(f"{place}: {_reason(sql, str(error))}") from error


def _connected(sql: str, table: Callable[[str], pa.Table]) -> duckdb.DuckDBPyConnection:
    """Return this thread's connection with the tables that a query reads."""
    tables = {name: table(name) for name in sorted(tables_of(sql))}
    if not hasattr(_local, "connection"):
        _local.connection, _local.known = duckdb.connect(config=_ENGINE), {}
    connection: duckdb.DuckDBPyConnection = _local.connection
    known: dict[str, pa.Table] = _local.known
    for name, rows in tables.items():
        # The next metric of a run mostly reads the same tables, and to name one takes as long as a query.
        if known.get(name) is not rows:
            connection.register(name, rows)
            known[name] = rows
    return connection


def _reason(sql: str, error: str) -> str:
    first = error.strip().splitlines()[0]
    unknown = _UNKNOWN_COLUMN.search(error)
    if unknown:
        columns = [column for name in sorted(tables_of(sql)) for column in empty()[name].column_names]
        return missing("column", unknown[1], columns)
    return f"invalid query: {first}"
