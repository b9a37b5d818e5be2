"""Points of an axis from CSV files: a row names a point, and sets keys of the scenario and parameters."""

from __future__ import annotations

import csv
import tomllib
from typing import TYPE_CHECKING, Any

from incast import scenarios
from incast._native import ScenarioError
from incast.studies import document
from incast.studies.study import PARAMETER

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from incast.studies.study import Value

_COLUMN = (
    'expected a key of the scenario, such as "tcp.rto_min", or a parameter, such as "$window", of which curves make use'
)


def read(axis: str, files: Sequence[Path]) -> tuple[list[Any], list[dict[str, object]]]:
    """Read the points of an axis: their labels, and what each sets. The files continue one another.

    Raises:
        ScenarioError: a file cannot be read, or is no such table; the message names file, line and column.

    """
    labels: list[Any] = []
    changes: list[dict[str, object]] = []
    places: dict[Value, str] = {}
    head: list[str] = []
    for file in files:
        (place, columns), *rows = _lines(axis, file)
        _check_head(place, axis, columns)
        if head and columns != head:
            raise ScenarioError(f"{place}: expected the columns of {files[0]}: {', '.join(head)}")
        head = columns
        for place, cells in rows:
            if len(cells) != len(head):
                raise ScenarioError(f"{place}: expected {len(head)} cells, one per column, found {len(cells)}")
            label = _label(f"{place}: {axis}", cells[0])
            if label in places:
                raise ScenarioError(f"{place}: {axis}: {cells[0]} appears twice, first in {places[label]}")
            places[label] = place
            labels.append(label)
            named = zip(head[1:], cells[1:], strict=True)
            changes.append({key: _value(f"{place}: {key}", cell) for key, cell in named if cell})
    return labels, changes


def _lines(axis: str, file: Path) -> list[tuple[str, list[str]]]:
    """Return the lines of a file that are neither empty nor comments, each with its place."""
    text = scenarios.text_of(file, "a table of points").splitlines()
    kept = [(number, line) for number, line in enumerate(text, start=1) if line.strip() and not line.startswith("#")]
    if len(kept) < 2:
        raise ScenarioError(f'{file}: no points here; expected a line of columns, the first of which is "{axis}", and '
                            "a line per point")  # fmt: skip
    found = []
    for number, line in kept:
        try:
            (cells,) = csv.reader([line], strict=True)
        except csv.Error as error:
            raise ScenarioError(f"{file}:{number}: not a line of CSV: {error}") from error
        found.append((f"{file}:{number}", [cell.strip() for cell in cells]))
    return found


def _check_head(place: str, axis: str, columns: list[str]) -> None:
    if columns[0] != axis:
        raise ScenarioError(f'{place}: the first column has the names of the points: expected "{axis}", as the axis is '
                            f'called, found "{columns[0]}"')  # fmt: skip
    for number, column in enumerate(columns):
        if column in columns[:number]:
            raise ScenarioError(f'{place}: the column "{column}" appears twice')
    for column in columns[1:]:
        is_key = column.removeprefix(PARAMETER).isidentifier() if column.startswith(PARAMETER) else _is_key(column)
        if not is_key:
            raise ScenarioError(f'{place}: the column "{column}" cannot be set; {_COLUMN}')


def _is_key(text: str) -> bool:
    try:
        return bool(text) and "\n" not in text and bool(tomllib.loads(f"{text} = 0"))
    except (ValueError, RecursionError):
        return False


def _label(place: str, cell: str) -> Value:
    value = _value(place, cell) if cell else None
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise ScenarioError(f"{place}: expected a name or a number, found {cell or 'nothing'}")
    return value


def _value(place: str, cell: str) -> Any:  # noqa: ANN401
    """Read a cell as `--set` reads what follows KEY=: as TOML, else as text."""
    try:
        value = tomllib.loads(f"value = {cell}")["value"]
    except (ValueError, RecursionError):
        if cell[0] in "[{\"'":
            raise ScenarioError(f"{place}: not valid TOML: {cell[:100]}") from None
        return cell
    if wrong := document.unsound(value):
        raise ScenarioError(f"{place}: {wrong[1]}")
    return value
