"""Measures runs: SQL over their tables."""

from __future__ import annotations

import functools
import json
import math
import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb

from incast import api
from incast._native import RunError, ScenarioError
from incast.studies.expressions import missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import polars as pl

#: The table that is always kept: it is measured most often and has the cost of the run.
ALWAYS = "summary"
_UNKNOWN_COLUMN = re.compile(r"""Referenced column "(\w+)" not found""")
_NUMERIC = ("INT", "DOUBLE", "FLOAT", "DECIMAL", "BOOLEAN")
# A sum of floating-point numbers depends on their order, and several threads would decide it by their luck.
# A query sees the tables it is given, no file, and no variable of this program.
_ENGINE: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "enable_external_access": False,
    "python_enable_replacements": False,
}
# Parts of queries that read no column without naming it: neither stars nor joins, above all.
_NAMING = (
    *("SELECT_NODE", "BASE_TABLE", "EMPTY", "SUBQUERY", "ORDER_MODIFIER", "COLUMN_REF", "VALUE_CONSTANT", "FUNCTION"),
    *("COMPARE_EQUAL", "COMPARE_NOTEQUAL", "COMPARE_GREATERTHAN", "COMPARE_LESSTHAN", "COMPARE_IN", "CASE_EXPR"),
    *("CONJUNCTION_AND", "CONJUNCTION_OR", "OPERATOR_COALESCE", "OPERATOR_CAST", "OPERATOR_IS_NULL"),
    "OPERATOR_IS_NOT_NULL",
)
# What makes a table of its arguments.
_SOURCES = ("range", "generate_series", "unnest")
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
def empty() -> Mapping[str, pl.DataFrame]:
    """Return every table of a run, without rows."""
    result = api.run(_LEAST)
    return {name: result.table(name).clear() for name in result.tables()}


@dataclass(frozen=True)
class _Stream:
    """A table as a stream of Arrow, which DuckDB reads by itself; of a frame of polars it would ask pyarrow."""

    table: pl.DataFrame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


@dataclass(frozen=True)
class _Query:
    """What a query refers to."""

    tables: tuple[str, ...]
    functions: tuple[str, ...]
    """And columns, among which functions without parentheses are."""
    sources: tuple[str, ...]
    """Functions that give tables."""
    is_sampled: bool
    words: frozenset[str] | None
    """Every text in it, in small letters: no other column is read. `None` if it may read some without naming them."""


def tables_of(sql: str) -> frozenset[str]:
    """Return the tables of a run that a query reads.

    Raises:
        ScenarioError: it is not one query.

    """
    return frozenset(_parsed(sql).tables) & frozenset(empty())


def columns_of(queries: Iterable[str], table: str) -> Callable[[list[str]], list[str]]:
    """Return what chooses those columns of a table that any of these queries may read, at least one."""
    words: set[str] = set()
    for sql in queries:
        if table in tables_of(sql):
            read = _parsed(sql).words
            if read is None:
                return lambda columns: columns
            words |= read
    return lambda columns: [column for column in columns if column.lower() in words] or columns[:1]


def check(sql: str, place: str, *, columns: int) -> None:
    """Check that a query is valid for the tables of a run, reads nothing else, and always has the same result.

    Raises:
        ScenarioError: it is not; the message names the tables or columns.

    """
    try:
        _check_references(sql)
        found = _connected(sql, empty().__getitem__).sql(sql)
    except ScenarioError as error:
        raise ScenarioError(f"{place}: {error}") from error
    except duckdb.Error as error:
        raise ScenarioError(f"{place}: {_reason(sql, str(error))}") from error
    names, types = found.columns, [str(kind) for kind in found.types]
    if len(names) != columns:
        raise ScenarioError(f"{place}: the query returns {len(names)} columns ({', '.join(names)}), not {columns}")
    for name, kind in zip(names, types, strict=True):
        if not (kind == '"NULL"' or any(numeric in kind for numeric in _NUMERIC)):
            raise ScenarioError(f"{place}: the column {name} is not a number but {kind}")


def _check_references(sql: str) -> None:
    query = _parsed(sql)
    for name in query.tables:
        if name not in empty():
            raise ScenarioError(missing("table", name, list(empty())))
    for name in query.sources:
        if name not in _SOURCES:
            raise ScenarioError(f"{name}() cannot be used: a query reads the tables of its run and nothing else")
    for name in query.functions:
        if name in _changing():
            raise ScenarioError(f"{name} cannot be used: its value is another one every time")
    if query.is_sampled:
        raise ScenarioError("a sample cannot be used: it is another one every time")
    if not query.tables:
        raise ScenarioError(f"the query reads no table of the run; the tables are {', '.join(empty())}")


@functools.lru_cache(maxsize=1024)
def _parsed(sql: str) -> _Query:
    """Find what a query refers to, wherever in it."""
    ((written,),) = _own_connection().execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    try:
        tree: dict[str, Any] = json.loads(written)
    except RecursionError as error:
        raise ScenarioError("the query is nested too deeply") from error
    if tree.get("error") or len(tree["statements"]) != 1:
        reason = str(tree.get("error_message", "")).split("\n")[0]
        is_syntax = reason and not reason.startswith("Only SELECT")
        raise ScenarioError(f"invalid query: {reason}" if is_syntax else "expected one query, SELECT ...")
    nodes = list(_nodes(tree))
    # Names that the query itself gives to parts of it, unless they are those of tables too.
    own = {entry["key"] for node in nodes for entry in node.get("cte_map", {}).get("map", [])} - {*empty()}
    bases = [node for node in nodes if node.get("type") == "BASE_TABLE"]
    return _Query(
        tuple(dict.fromkeys(_written(node) for node in bases if node["schema_name"] or node["table_name"] not in own)),
        tuple(dict.fromkeys(_called(node) for node in nodes if node.get("class") in ("FUNCTION", "COLUMN_REF"))),
        tuple(node["function"].get("function_name", "") for node in nodes if node.get("type") == "TABLE_FUNCTION"),
        any(node.get("sample") for node in nodes),
        _words(nodes),
    )


def _words(nodes: list[dict[str, Any]]) -> frozenset[str] | None:
    """Return all texts of a query in whose parts every column that it reads is named."""
    bases = [node for node in nodes if node.get("type") == "BASE_TABLE"]
    tables = {str(base[key]).lower() for base in bases for key in ("table_name", "alias")}
    for node in nodes:
        kind = node.get("type")
        if isinstance(kind, str) and kind not in _NAMING:
            return None
        # A row as a whole goes by the name of its table.
        if kind == "COLUMN_REF" and tables.intersection(str(name).lower() for name in node["column_names"]):
            return None
    return frozenset(text.lower() for node in nodes for part in node.values() for text in _texts(part))


def _texts(part: object) -> Iterable[str]:
    return (one for one in (part if isinstance(part, list) else [part]) if isinstance(one, str))


def _nodes(tree: object) -> Iterator[dict[str, Any]]:
    left = [tree]
    while left:
        match left.pop():
            case dict() as node:
                yield node
                left += reversed(node.values())
            case list() as parts:
                left += reversed(parts)


def _called(node: dict[str, Any]) -> str:
    """Return the name of a function, or of a column: some functions of the time have no parentheses."""
    return str(node.get("function_name") or node["column_names"][-1]).lower()


def _written(base: dict[str, Any]) -> str:
    return ".".join(filter(None, (base["catalog_name"], base["schema_name"], base["table_name"])))


@functools.cache
def _changing() -> frozenset[str]:
    """Return the functions whose value does not depend on their arguments alone."""
    without_parentheses = {"current_time", "current_timestamp", "localtime", "localtimestamp"}
    listed = "SELECT function_name FROM duckdb_functions() WHERE stability <> 'CONSISTENT'"
    return frozenset(without_parentheses).union(name for (name,) in _own_connection().execute(listed).fetchall())


def number(sql: str, place: str, table: Callable[[str], pl.DataFrame]) -> float | int | None:
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


def values(sql: str, place: str, table: Callable[[str], pl.DataFrame]) -> list[float]:
    """Return the single column of a query; nulls are infinite, as the times of what is not complete.

    Raises:
        RunError: the query fails on the values of this run.

    """
    return [math.inf if value is None else float(value) for (value,) in _rows(sql, place, table)]


def pairs(sql: str, place: str, table: Callable[[str], pl.DataFrame]) -> tuple[list[float], list[float]]:
    """Return the two columns of a query, without rows that have no first one; a null in the second is infinite.

    Raises:
        RunError: the query fails on the values of this run.

    """
    rows = [row for row in _rows(sql, place, table) if row[0] is not None]
    return [float(x) for x, _ in rows], [math.inf if y is None else float(y) for _, y in rows]


def series(sql: str, place: str, table: Callable[[str], pl.DataFrame]) -> tuple[list[float], list[float]]:
    """Return the two columns of a query.

    Raises:
        RunError: the query fails on the values of this run.

    """
    rows = [row for row in _rows(sql, place, table) if None not in row]
    return [float(x) for x, _ in rows], [float(y) for _, y in rows]


def _rows(sql: str, place: str, table: Callable[[str], pl.DataFrame]) -> list[tuple[Any, ...]]:
    try:
        return _connected(sql, table).execute(sql).fetchall()
    except duckdb.Error as error:
        raise RunError(f"{place}: {_reason(sql, str(error))}") from error


def _connected(sql: str, table: Callable[[str], pl.DataFrame]) -> duckdb.DuckDBPyConnection:
    """Return this thread's connection with the tables that a query reads."""
    tables, words = {name: table(name) for name in sorted(tables_of(sql))}, _parsed(sql).words
    connection = _own_connection()
    known: dict[str, pl.DataFrame] = _local.known
    for name, rows in tables.items():
        # To name a table takes as long as a query, and both take longer with more columns. What one query of this
        # thread reads the others have, too: the next metric of a run mostly reads the same tables.
        read = _local.read.setdefault(name, set())
        new = {column for column in rows.columns if words is None or column.lower() in words} - read
        read.update(new or rows.columns[:1])
        if new or known.get(name) is not rows:
            connection.register(name, _Stream(rows.select([column for column in rows.columns if column in read])))
            known[name] = rows
    return connection


def _own_connection() -> duckdb.DuckDBPyConnection:
    """Return this thread's connection."""
    if not hasattr(_local, "connection"):
        _local.connection, _local.known, _local.read = duckdb.connect(config=_ENGINE), {}, {}
    connection: duckdb.DuckDBPyConnection = _local.connection
    return connection


def _reason(sql: str, error: str) -> str:
    first = error.strip().splitlines()[0]
    unknown = _UNKNOWN_COLUMN.search(error)
    if unknown:
        columns = [column for name in sorted(tables_of(sql)) for column in empty()[name].columns]
        return missing("column", unknown[1], columns)
    return f"invalid query: {first}"
