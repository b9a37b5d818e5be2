"""Figures of one result, for notebooks and scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from incast import figures
from incast._native import ScenarioError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from incast.api import Result
    from incast.figures import Style


class Plots:
    """Figures of one result. A notebook shows what they return; `figure.savefig("queues.pdf")` writes it."""

    def __init__(self, result: Result) -> None:
        self._result = result

    def completion_times(self, *, style: Style = figures.LIGHT) -> Figure:
        """Cumulative distribution of completion times, one curve per class of traffic."""
        flows = self._result.flows
        classes = flows["class"].unique(maintain_order=True)
        samples = {name: flows.filter(pl.col("class") == name)["fct_s"].to_numpy() for name in classes}
        return figures.completion_times(samples, style=style)

    def slowdown(self, *, style: Style = figures.LIGHT) -> Figure:
        """Slowdown over the size of messages, in ten bins with as many messages each, one panel per class of traffic.

        Raises:
            ScenarioError: no class has a hundred complete messages of at least ten sizes.

        """
        flows = self._result.flows
        by_class = {
            name: (of["size_bytes"].to_numpy(), of["slowdown"].to_numpy())
            for (name,), of in flows.group_by("class", maintain_order=True)
        }
        many = {str(name): of for name, of in by_class.items() if figures.has_sizes(*of)}
        if not many:
            raise ScenarioError("no class of traffic has a hundred complete messages of at least ten sizes")
        return figures.slowdown(many, style=style)

    def queues(self, *, style: Style = figures.LIGHT) -> Figure:
        """Packets that wait at the recorded ports over time.

        Raises:
            ScenarioError: the run recorded no queues.

        """
        return figures.queue({"": figures.columns(self._recorded("queues", "queue_series"))}, style=style)

    def windows(self, *, clients: bool | None = None, style: Style = figures.LIGHT) -> Figure:
        """Congestion windows of the recorded connections over time.

        Args:
            clients: whether those of the senders that opened their connections are drawn, or those of the other
                side; by default both, in two panels.
            style: colours and width.

        Raises:
            ScenarioError: the run recorded no windows.

        """
        recorded = figures.columns(self._recorded("windows", "window_series"))
        sides = {
            name: side
            for name, of in figures.SIDES.items()
            if clients in (None, of) and len((side := figures.of_side(recorded, clients=of))["time_ps"])
        }
        return figures.windows(sides, style=style)

    def _recorded(self, table: str, key: str) -> pl.DataFrame:
        rows = self._result.table(table)
        if rows.is_empty():
            raise ScenarioError(f"this run did not record its {table}: set record.{key}")
        return rows
