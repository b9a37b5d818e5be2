"""One run on a kernel as it is drawn: without packets, and of timers only when they ran out, since no more is told."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from incast.report.data import MOST_LANES, Drawn
from incast.report.explain import Step, Story, Wait, duration, union
from incast.report.recorded import AtPort, Flow, count, size
from incast.tables import PS_PER_S

if TYPE_CHECKING:
    from incast.report.data import Whole

# How long an event counts as something that moves, where idle time is folded.
_MOMENT_PS = 1_000_000
# What the steps of a flow look like; all others are timeouts.
_LOOKS = {"drop": "drop", "fast-retransmit": "fast", "tail-probe": "probe"}


class Outline(Drawn):
    """A run on a kernel. Its flows are all flows of the run, for nobody knows which ones use the port."""

    @property
    def records_packets(self) -> bool:
        """Packets are not drawn, whether they were recorded or not."""
        return False

    @cached_property
    def records_events(self) -> bool:
        """Whether losses and timers were recorded; a run without any is no different from one that did not."""
        happened = self.run.counted(self.port, "drops_packets") + self.run.summed("timeouts")
        return not self.run.events.is_empty() or not happened

    @cached_property
    def flows(self) -> list[Flow]:
        """All flows of the run."""
        return list(self.run.flows.values())

    @cached_property
    def lanes(self) -> list[Story]:
        """The flows that have a row of their own, the slowest ones, by completion."""
        slowest = sorted(self.flows, key=lambda flow: (flow.begin - flow.end, flow.id))[:MOST_LANES]
        slowest.sort(key=lambda flow: (flow.end, flow.id))
        return [self._story(flow) for flow in slowest]

    @cached_property
    def here(self) -> AtPort:
        """No packets."""
        return AtPort(self.run.packets.clear())

    @cached_property
    def drops(self) -> pl.DataFrame:
        """Packets dropped at the port, with `arrive_ps` and `flow`."""
        here = self._with_flow.filter((pl.col("kind") == "drop") & (pl.col("link") == self.port.link))
        return here.with_columns(arrive_ps="time_ps")

    @property
    def dropped(self) -> int:
        """How many packets were dropped at the port, whether each of them was recorded or not."""
        return self.run.counted(self.port, "drops_packets")

    @cached_property
    def timeouts(self) -> pl.DataFrame:
        """All timeouts; since when their timers ran is not known."""
        fired = self._with_flow.filter(pl.col("kind").str.starts_with("timeout"))
        return fired.with_columns(armed_ps="time_ps")

    @property
    def mean_bps(self) -> float:
        """Goodput of all flows from `begin` to `end`."""
        took = self.end - self.begin
        return self.run.summed("delivered_bytes") * 8 * PS_PER_S / took if took else 0.0

    @cached_property
    def line(self) -> list[tuple[int, int]]:
        """Not known."""
        return []

    @cached_property
    def active(self) -> list[tuple[int, int]]:
        """When something waits at the port, or happens to a flow."""
        times, waiting = self.queue["time_ps"].to_list(), self.queue["waiting_packets"].to_list()
        until = [*times[1:], self.end]
        waits = [(a, max(a + 1, b)) for a, b, some in zip(times, until, waiting, strict=True) if some]
        events = [(at - 1, at + _MOMENT_PS) for at in self.run.events["time_ps"].to_list()]
        return union(sorted([*waits, *events]))

    @cached_property
    def goodput(self) -> tuple[int, Whole, Whole]:
        """Not known over time."""
        return 1000, np.zeros(0, np.int64), np.zeros(0, np.int64)

    @cached_property
    def _with_flow(self) -> pl.DataFrame:
        """The events, with the flow whose byte they are about."""
        flows = pl.DataFrame(
            [(flow.connection, flow.from_client, flow.offset, flow.offset + flow.size, flow.id)
             for flow in self.flows if flow.size is not None],
            schema={"connection": pl.Int64, "from_client": pl.Boolean, "offset_bytes": pl.Int64, "beyond": pl.Int64,
                    "flow": pl.Int64},
            orient="row",
        ).sort("offset_bytes")  # fmt: skip
        events = self.run.events.with_row_index("row").sort("offset_bytes", "row")
        joined = events.join_asof(
            flows, on="offset_bytes", by=["connection", "from_client"], strategy="backward", check_sortedness=False
        )
        inside = pl.col("offset_bytes") < pl.col("beyond")
        return joined.sort("row").with_columns(flow=pl.when(inside).then("flow"))

    @cached_property
    def _by_flow(self) -> dict[tuple[object, ...], pl.DataFrame]:
        return self._with_flow.partition_by("flow", as_dict=True)

    def _story(self, flow: Flow) -> Story:
        """Tell what is known of a flow: when packets were lost, sent again, and timers ran out."""
        drops, fast, waits, again = [], [], [], []
        steps = []
        rows = self._by_flow.get((flow.id,), self._with_flow.clear())
        for row in rows.iter_rows(named=True):
            at, kind, byte = row["time_ps"], row["kind"], flow.segment(row["offset_bytes"])
            if kind == "drop":
                drops.append((at, byte))
            elif kind == "fast-retransmit":
                fast.append((at, byte))
            elif kind == "retransmission":
                again.append((at, byte))
            elif kind == "tail-probe" or kind.startswith("timeout"):
                waits.append(Wait(at, at, kind, byte, 0, 0, 0))
            said = _said(kind, f"{byte:,}")
            if said:
                steps.append(Step(at, at, _LOOKS.get(kind, "timer"), said))
        if flow.complete:
            steps.append(Step(flow.end, flow.end, "end", "It was complete."))
        timeouts = sum(wait.kind != "tail-probe" for wait in waits)
        what = f"{size(flow.size)}" if flow.size is not None else "without end"
        head = f"Flow {flow.id} (host {flow.source} → host {flow.destination}, {what}) "
        took = duration(flow.end - flow.begin)
        head += f"took {took}." if flow.complete else f"was not complete when the run ended, {took} after its start."
        if self.records_events:
            ran_out = count(timeouts, "time")
            head += f" It lost {count(len(drops), 'packet')}, and its retransmission timer ran out {ran_out}."
        head += " Its packets were not recorded, so what its time went into cannot be told."
        return Story(flow, self.port, head, {}, steps, drops, waits, fast, again)


def _said(kind: str, byte: str) -> str:
    if kind == "drop":
        return f"The packet with byte {byte} of it was dropped."
    if kind == "fast-retransmit":
        return f"ACKs told that byte {byte} was missing. It was sent again at once."
    if kind == "tail-probe":
        return f"The timer of a tail loss probe ran out, and byte {byte} was sent again."
    return f"Its retransmission timer ran out, and byte {byte} was sent again." if kind.startswith("timeout") else ""
