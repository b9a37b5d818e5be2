"""Runs a study whose curves differ in their world, and compares them with ns-3's point by point."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from incast import output
from incast._native import RunError
from incast.studies import execution, plan, reading, sweep, table
from incast.studies.store import Store
from side_by_side.agreement import Comparison, compare

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import polars as pl

    from incast.studies.study import Study, Value
    from incast.studies.table import Table
    from side_by_side.agreement import Rules, Tolerance

    Pairs = Mapping[str, tuple[Sequence[float], Sequence[float]]]
    Flows = Sequence[pl.DataFrame]

NS3 = "ns3"
_SAME_S = 1e-9


@dataclass(frozen=True)
class Outcome:
    """A point on both sides."""

    place: Mapping[str, Value]
    """Its value on each axis of the study."""
    comparisons: dict[str, Comparison]
    equal: list[float]
    """By seed, the share of flows whose completion times are the same to a nanosecond; 0 if a run did not complete."""
    failed: dict[str, int]
    """By side, how many runs failed or did not complete."""
    marks_on_acks: float = 0.0
    """ns-3's, where the study measures them."""

    @property
    def group(self) -> tuple[str, str]:
        """Its variant and sender."""
        return str(self.place["variant"]), str(self.place["sender"])


@dataclass(frozen=True)
class Campaign:
    """A study whose runs are all done."""

    study: Study
    table: Table
    flows: Mapping[tuple[str, tuple[Value, ...]], Flows]
    """By curve and point, then by seed, in the order of their starts."""

    def outcomes(self, curve: str, tolerances: Mapping[str, Tolerance], rules: Rules, **at: Value) -> list[Outcome]:
        """Compare a curve with ns-3's at all points with these values on axes."""
        names = [axis.name for axis in self.study.axes]
        numbers = {metric.name: self.table.numbers(self.study, metric.name) for metric in self.study.metrics}
        found = []
        for index, point in enumerate(self.study.grid()):
            place = dict(zip(names, point, strict=True))
            if any(place[name] != value for name, value in at.items()):
                continue
            pairs = {name: (of[curve][:, index].tolist(), of[NS3][:, index].tolist()) for name, of in numbers.items()}
            done = pairs["complete"]
            equal = equal_shares(self.flows[curve, point], self.flows[NS3, point])
            failed = {
                side: sum(value != 1 for value in runs) for side, runs in zip(("ours", "ns-3"), done, strict=True)
            }
            found.append(
                Outcome(
                    place,
                    {} if any(failed.values()) else compared(pairs, tolerances, rules.standard_errors),
                    [share if mine == theirs == 1 else 0.0 for share, mine, theirs in zip(equal, *done, strict=True)],
                    failed,
                    float(np.mean(pairs.get("marks_on_acks", ([], [0.0]))[1])),
                )
            )
        return found


def run(study: Path, out: Path, workers: int | None = None, *, only: str | None = None) -> Campaign:
    """Run what is missing of a study, or `only` one curve of it; the table with what was run is written to `out`."""
    read = reading.read(study)
    rows, store = plan.rows(read), Store(out / "runs")
    left_out = {index for index, row in enumerate(rows) if only not in {None, row.point.curve.name}}
    wanted = [row for index, row in enumerate(rows) if index not in left_out]
    try:
        execution.run(plan.runs(wanted), store, workers=workers, what=read.name)
    except RunError as error:
        raise SystemExit(f"error: {error}") from error
    empty = ["0", *("" for _ in read.metrics)]
    unmeasured = {index: (*table.labels(rows[index]), *empty) for index in left_out}
    measured = sweep.measured(read, rows, store, None, unmeasured)
    output.write(out / f"{read.name}.csv", measured.text())
    flows = defaultdict(list)
    for row in wanted:
        if row.task:
            listed = execution.table(row.task, store, "flows").select(["start_s", "source_host", "size_bytes", "fct_s"])
            by_start = listed.sort("start_s", "source_host", maintain_order=True)
            flows[row.point.curve.name, row.point.at].append(by_start)
    return Campaign(read, measured, flows)


def compared(pairs: Pairs, tolerances: Mapping[str, Tolerance], standard_errors: float) -> dict[str, Comparison]:
    """Compare all metrics of runs paired by seed."""
    found = {name: compare(*pairs[name], tolerance, standard_errors) for name, tolerance in tolerances.items()}
    return {name: comparison for name, comparison in found.items() if comparison is not None}


def equal_shares(ours: Flows, ns3: Flows) -> list[float]:
    """Return by seed the share of flows whose completion times are the same to a nanosecond."""
    pairs = zip(ours, ns3, strict=True)
    return [float(np.mean(np.abs(a["fct_s"].to_numpy() - b["fct_s"].to_numpy()) <= _SAME_S)) for a, b in pairs]
