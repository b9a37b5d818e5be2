"""The table of a study: one row per run, saved next to the study file as text."""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from incast import _native, text
from incast._native import ScenarioError
from incast.studies import expressions, measuring
from incast.studies.expressions import ExpressionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from incast.studies.expressions import Scope
    from incast.studies.plan import Row
    from incast.studies.store import Store
    from incast.studies.study import Metric, Point, Study, Value

_HOPS = "SELECT packet_hops FROM summary WHERE class = 'all'"
_HEAD = re.compile(r"^# incast (?P<version>\S+): (?P<runs>[\d,]+) runs, (?P<hops>[\d,]+) packet-hops"
                   r"(?:, (?P<cpu>[\d.]+) CPU minutes)?$")  # fmt: skip


@dataclass(frozen=True)
class Table:
    """The results of all runs of a study, as text: numbers with the fewest digits that represent them exactly."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    cpu_minutes: float | None
    """The time it took to compute; `None` if not measured."""
    version: str

    @property
    def packet_hops(self) -> int:
        """Packet-hops of all runs, as far as they are known: a world outside this program need not say."""
        return sum(int(row[self.head.index("packet_hops")] or 0) for row in self.rows)

    def text(self) -> str:
        """Return the table as CSV."""
        cost = f", {self.cpu_minutes:.2f} CPU minutes" if self.cpu_minutes is not None else ""
        about = f"# incast {self.version}: {len(self.rows):,} runs, {self.packet_hops:,} packet-hops{cost}\n"
        return about + text.csv([self.head, *self.rows])

    def numbers(self, study: Study, metric: str) -> dict[str, NDArray[np.float64]]:
        """Return a metric by curve: a row per seed, a column per point of the grid; `nan` where it is missing."""
        column = self.head.index(metric)
        places = len(study.grid())
        values = [float(row[column] or "nan") for row in self.rows]
        shaped = np.array(values).reshape(len(study.curves), places, study.seeds)
        return {curve.name: shaped[index].T for index, curve in enumerate(study.curves)}


def head(study: Study) -> tuple[str, ...]:
    """Return the columns of a study's table."""
    return (
        "curve",
        *(axis.name for axis in study.axes),
        "seed",
        "packet_hops",
        *(metric.name for metric in study.metrics),
    )


def labels(row: Row) -> tuple[str, ...]:
    """Return the key of a row: curve, point and seed."""
    return (row.point.curve.name, *(_text(value) for value in row.point.at), str(row.seed))


def measured(study: Study, row: Row, store: Store) -> tuple[str, ...]:
    """Return one row of the table from the stored run.

    Raises:
        DamagedError: the stored run cannot be trusted.

    """
    task = row.task
    queries = [_HOPS, *(metric.sql for metric in study.metrics if not metric.formulas)]
    # All of them, so that each is verified; memory holds what is read.
    kept = (
        {name: store.table(task.key, name, measuring.columns_of(queries, name)) for name in sorted(task.tables)}
        if task
        else {}
    )
    hops = measuring.number(_HOPS, str(study.path), kept.__getitem__) if task else 0
    found = [_by_formula(study, metric, row.point) if metric.formulas
             else measuring.number(metric.sql, metric.place, kept.__getitem__) for metric in study.metrics]  # fmt: skip
    return (*labels(row), *map(_text, (hops, *found)))


def _by_formula(study: Study, metric: Metric, point: Point) -> float | None:
    scope = expressions.Scope(expressions.axes_of([axis.name for axis in study.axes], [point.at]), {})
    try:
        value = float(expressions.evaluate(metric.formulas[point.curve.name], scope)[0])
    except ExpressionError as error:
        raise ScenarioError(f"{metric.place}: {error}") from error
    return value if math.isfinite(value) else None


def of_rows(study: Study, rows: Sequence[tuple[str, ...]], cpu_minutes: float | None) -> Table:
    """Return the table of newly measured rows."""
    return Table(head(study), tuple(rows), cpu_minutes, _native.version())


def read(study: Study) -> Table | None:
    """Read the table saved next to a study; `None` if there is none.

    Raises:
        ScenarioError: the file is not a valid table, or does not match the study.

    """
    table = _parsed(study)
    if table:
        _belongs(study, table)
    return table


def saved_rows(study: Study) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Return the rows of the table saved next to a study by curve, point and seed, also if the study has others by now.

    Raises:
        ScenarioError: the file is not a valid table, or has other columns.

    """
    table = _parsed(study)
    if table is None:
        return {}
    if table.head != head(study):
        raise ScenarioError(f"{study.table}:2: the columns are {', '.join(table.head)}; the study has "
                            f"{', '.join(head(study))}, so none of these rows can be kept")  # fmt: skip
    width = len(study.axes) + 2
    return {row[:width]: row for row in table.rows if len(row) == len(table.head)}


def _parsed(study: Study) -> Table | None:
    try:
        first, *lines = study.table.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ScenarioError(f"{study.table}: cannot be read: {error}") from error
    known = _HEAD.match(first)
    rows = [tuple(row) for row in csv.reader(lines)]
    if not known or not rows:
        raise ScenarioError(f"{study.table}:1: not the table of a study; --update rewrites it")
    cpu = known["cpu"]
    return Table(rows[0], tuple(rows[1:]), float(cpu) if cpu else None, known["version"])


def _belongs(study: Study, table: Table) -> None:
    renew = f"does not match {study.path.name}; --update recomputes it"
    if table.head != head(study):
        raise ScenarioError(f"{study.table}:2: the table {renew} (columns {', '.join(table.head)}; "
                            f"the study has {', '.join(head(study))})")  # fmt: skip
    expected = [
        (point.curve.name, *(_text(value) for value in point.at), str(seed))
        for point in study.points()
        for seed in range(1, study.seeds + 1)
    ]
    width = len(study.axes) + 2
    for number, (row, labelled) in enumerate(zip(table.rows, expected, strict=False), start=3):
        if len(row) != len(table.head) or row[:width] != labelled:
            raise ScenarioError(f"{study.table}:{number}: the table {renew} (expected {', '.join(labelled)})")
        try:
            hops, *others = row[width:]
            int(hops or 0)
            list(map(float, filter(None, others)))
        except ValueError as error:
            raise ScenarioError(f"{study.table}:{number}: not a number: {error}; --update rewrites it") from error
    if len(table.rows) != len(expected):
        raise ScenarioError(f"{study.table}: the table {renew} ({len(table.rows)} rows; the study has {len(expected)})")


def scope(study: Study, table: Table, seeds: NDArray[np.intp]) -> Scope:
    """Return the names for expressions: means over the seeds chosen by each row of `seeds`."""
    metrics = {}
    for metric in study.metrics:
        by_curve = table.numbers(study, metric.name)
        # Summed seed by seed, so that the last digit does not depend on the summation order of a library.
        metrics[metric.name] = {curve: values[seeds].sum(axis=1) / seeds.shape[1] for curve, values in by_curve.items()}
    return expressions.Scope(expressions.axes_of([axis.name for axis in study.axes], study.grid()), metrics)


def _text(value: Value | None) -> str:
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else str(int(value) if isinstance(value, bool) else value)
