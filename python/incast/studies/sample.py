"""Recomputes a sample of a study's runs and compares it with the saved table, byte for byte."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from incast.studies import cost, execution, plan, sweep, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from incast.studies.plan import Row
    from incast.studies.store import Store
    from incast.studies.study import Study
    from incast.studies.table import Table

#: CPU seconds for all studies of a paper together.
BUDGET_S = 8.0
# More rows would hardly find more: a change that affects one run of a stack affects most of them.
_MOST_ROWS = 40
_MOST_SAID = 5


@dataclass
class Budget:
    """The CPU time for the samples of several studies, shared among them."""

    left_s: float
    studies: int
    #: The curves that a study of the paper has sampled.
    curves: set[str] = field(default_factory=set)

    def share_s(self) -> float:
        """Return the share of the next study."""
        self.studies -= 1
        return self.left_s / (self.studies + 1)


def differences(study: Study, known: Table, store: Store, budget: Budget, workers: int | None) -> list[str]:
    """Compute a sample of the runs, in a store of samples; return the differences from the table, as sentences.

    Raises:
        ScenarioError: a run of the study is invalid.
        RunError: a run failed.

    """
    rows = plan.rows(study)
    chosen = choose(study, rows, known, budget, store)
    execution.run(plan.runs(rows[index] for index in chosen), store, workers=workers, what=study.name)
    found = sweep.measured(study, [rows[index] for index in chosen], store, None).rows
    return compare(study, known, dict(zip(chosen, found, strict=True)))


def choose(study: Study, rows: Sequence[Row], known: Table, budget: Budget, store: Store) -> list[int]:
    """Choose rows: the ends of every curve first, then others, the cheaper ones first, in a fixed order.

    Every study gets one of its cheapest runs, if possible of a curve that no study of the paper has sampled. Further
    runs, at first one of each curve, are taken while the study's share of the budget lasts.
    """
    hops = known.head.index("packet_hops")
    ends = {rows[0].point.at, rows[-1].point.at}

    # The ideal network has no packets, but the same work.
    work: dict[tuple[object, ...], int] = {}
    for row, cells in zip(rows, known.rows, strict=True):
        work[row.point.at] = max(work.get(row.point.at, 0), int(cells[hops] or 0))

    def cost_s(index: int) -> float:
        task = rows[index].task
        if task is None or store.has(task.key, task.tables):
            return 0.0
        return cost.RUN_S + (int(known.rows[index][hops] or 0) or work[rows[index].point.at]) * cost.PACKET_HOP_S

    def order(index: int) -> tuple[bool, int, bool, str]:
        row = rows[index]
        name = "/".join(table.labels(row))
        # Of runs of much the same cost any will do.
        cost_order = int(cost_s(index) / cost.RUN_S).bit_length()
        return (
            row.point.at not in ends,
            cost_order,
            row.point.curve.name in budget.curves,
            hashlib.sha256(name.encode()).hexdigest(),
        )

    # What was measured in real time cannot be recomputed.
    ordered = sorted((index for index, row in enumerate(rows) if not (row.task and row.task.measured)), key=order)
    left_s = budget.share_s()
    chosen: list[int] = []

    def take(index: int) -> None:
        nonlocal left_s
        chosen.append(index)
        budget.curves.add(rows[index].point.curve.name)
        spent_s = cost_s(index)
        left_s -= spent_s
        budget.left_s = max(0.0, budget.left_s - spent_s)

    if ordered:
        take(ordered.pop(0))
    names = sorted((curve.name for curve in study.curves), key=lambda name: name in budget.curves)
    by_curve = {name: iter([index for index in ordered if rows[index].point.curve.name == name]) for name in names}
    while by_curve:
        for name in list(by_curve):
            index = next(by_curve[name], None)
            if index is None or len(chosen) >= _MOST_ROWS or cost_s(index) > left_s:
                del by_curve[name]
            else:
                take(index)
    return sorted(chosen)


def compare(study: Study, known: Table, found: dict[int, tuple[str, ...]]) -> list[str]:
    """Name the cells of some rows that differ from the table."""
    said = []
    for index, cells in found.items():
        labels = dict(zip(known.head, cells, strict=True))
        where = ", ".join(f"{key} {labels[key]}" for key in ("curve", *(axis.name for axis in study.axes), "seed"))
        said += [
            f"{study.table}:{index + 3}: {column} ({where}): the table has {old or 'nothing'}, "
            f"this program computes {new or 'nothing'}"
            for column, old, new in zip(known.head, known.rows[index], cells, strict=True)
            if old != new
        ]
    return said


def shown(differing: list[str]) -> list[str]:
    """Shorten a list of differences for printing."""
    more = len(differing) - _MOST_SAID
    return [*differing[:_MOST_SAID], *([f"... and {more:,} more cells"] if more > 0 else [])]
