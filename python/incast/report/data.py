"""What the page of a run draws: the tables, thinned where there is more than a screen can show."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from incast.report.explain import IS_A_TIMER, Explainer, Story, union, union_of
from incast.tables import PS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from incast.report.recorded import AtPort, Flow, Port, Recorded

    Whole = NDArray[np.int64]

# Rows of the picture, and what of each table is drawn one by one. Losses and timeouts are always drawn.
MOST_LANES = 100
MOST_PACKETS = 120_000
MOST_QUEUE = 40_000
MOST_WINDOWS = 60_000
MOST_MARKS = 20_000
# Of all flows together; those that took longest are told.
MOST_STEPS = 10_000
# Bins of goodput while something moves.
_BINS = 300
# Packets of a flow closer than this are one block, where they are too many.
_GAP_PS = 20_000_000


@dataclass(frozen=True)
class Drawn:
    """One run as it is drawn."""

    run: Recorded
    port: Port
    label: str

    @property
    def records_packets(self) -> bool:
        """Whether packets were recorded."""
        return True

    @property
    def records_events(self) -> bool:
        """Whether losses and timeouts were recorded."""
        return True

    @cached_property
    def explainer(self) -> Explainer:
        """Explains its flows."""
        return Explainer(self.run, self.port)

    @cached_property
    def lanes(self) -> list[Story]:
        """The flows that have a row of their own, the slowest ones, by completion."""
        slowest = sorted(self.flows, key=lambda flow: (flow.begin - flow.end, flow.id))[:MOST_LANES]
        slowest.sort(key=lambda flow: (flow.end, flow.id))
        return [self.explainer.story(flow, most_steps=MOST_STEPS // len(slowest)) for flow in slowest]

    @cached_property
    def here(self) -> AtPort:
        """The packets at the port."""
        return self.run.at_port(self.port.link)

    def _payload(self, *columns: str) -> pl.DataFrame:
        """Return the columns named of the packets with payload: all columns of them would take much memory."""
        with_payload = self.here.rows["flow"].is_not_null()
        return self.here.rows.select(columns).filter(with_payload)

    def _left(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return of packets with payload those that left, with `leave_ps`, when their last bit had left."""
        rows = rows.filter(pl.col("begin_ps").is_not_null())
        takes = pl.Series("takes", self.port.takes(rows["wire_bytes"].to_numpy()), dtype=pl.Int64)
        return rows.with_columns(leave_ps=pl.col("begin_ps") + takes)

    @cached_property
    def flows(self) -> list[Flow]:
        """The flows that use the port."""
        return [flow for flow in self.run.flows.values() if flow.id in self.here.flows]

    @cached_property
    def begin(self) -> int:
        """When the first of its flows starts."""
        return min(flow.begin for flow in self.flows)

    @cached_property
    def end(self) -> int:
        """When the last of its flows is complete, or the run ends."""
        return max(flow.end for flow in self.flows)

    @cached_property
    def queue(self) -> pl.DataFrame:
        """The queue of the port: `time_ps`, `waiting_bytes`, `waiting_packets`."""
        return self.run.queue(self.port.link)

    def most(self, unit: str) -> int:
        """Return the most that ever waited, in `bytes` or `packets`."""
        waiting = self.queue[f"waiting_{unit}"]
        return 0 if waiting.is_empty() else int(waiting.to_numpy().max())

    @property
    def most_waiting(self) -> int:
        """The most bytes that ever waited."""
        return self.most("bytes")

    @property
    def largest(self) -> int:
        """The bytes on the wire of the largest packet."""
        wire = self._payload("wire_bytes")["wire_bytes"]
        return 0 if wire.is_empty() else int(wire.to_numpy().max())

    @cached_property
    def drops(self) -> pl.DataFrame:
        """Packets dropped at the port, whatever they are."""
        return self.here.rows.filter("dropped")

    @property
    def dropped(self) -> int:
        """How many packets were dropped at the port."""
        return len(self.drops)

    @cached_property
    def timeouts(self) -> pl.DataFrame:
        """All timeouts of connections that use the port."""
        return self._of_connections.filter(pl.col("kind").str.starts_with("timeout"))

    @cached_property
    def untimed(self) -> int:
        """How many timers ran out of which it is not known since when they ran."""
        return self._of_connections.filter(IS_A_TIMER & pl.col("armed_ps").is_null()).height

    @property
    def fast_retransmits(self) -> int:
        """Fast retransmits of connections that use the port."""
        return self._of_connections.filter(pl.col("kind") == "fast-retransmit").height

    @cached_property
    def _of_connections(self) -> pl.DataFrame:
        here = list({flow.connection for flow in self.flows})
        return self.run.events.filter(pl.col("connection").is_in(here))

    @property
    def mean_bps(self) -> float:
        """Goodput through the port from `begin` to `end`."""
        _, _, got = self.goodput
        took = self.end - self.begin
        return int(got.sum()) * 8 * PS_PER_S / took if took else 0.0

    @cached_property
    def marks(self) -> pl.DataFrame:
        """Packets that the port marked CE."""
        events = self.run.events
        return events.filter((pl.col("kind") == "ce-mark") & (pl.col("link") == self.port.link))

    @cached_property
    def drawn_marks(self) -> Whole:
        """When packets were marked; of too many the first in each of equal stretches of time."""
        times: Whole = np.asarray(self.marks["time_ps"].to_numpy(), dtype=np.int64)
        if len(times) <= MOST_MARKS:
            return times
        stretch = (times - self.begin) // self.mark_ps
        first: Whole = times[np.concatenate([[True], stretch[1:] != stretch[:-1]])]
        return first

    @property
    def mark_ps(self) -> int:
        """How long such a stretch is."""
        return max(1, (self.end - self.begin) // MOST_MARKS)

    @cached_property
    def line(self) -> list[tuple[int, int]]:
        """When the line of the port carries payload."""
        left = self._left(self._payload("begin_ps", "wire_bytes"))
        return union_of(left["begin_ps"].to_numpy(), left["leave_ps"].to_numpy())

    @cached_property
    def idle(self) -> float:
        """Share of the time from `begin` to `end` in which the port sent no payload."""
        took = self.end - self.begin
        return 1 - sum(b - a for a, b in self.line) / took if took else 0.0

    @cached_property
    def idle_with_timer(self) -> float:
        """Share of that idle time in which a flow waited for a retransmission timer."""
        at, idle = self.begin, []
        for a, b in [*self.line, (self.end, self.end)]:
            if a > at:
                idle.append((at, a))
            at = max(at, b)
        known = self.timeouts.filter(pl.col("armed_ps").is_not_null())
        timers = union(zip(known["armed_ps"].to_list(), known["time_ps"].to_list(), strict=True))
        both, total = 0, sum(b - a for a, b in idle)
        index = 0
        for a, b in idle:
            while index < len(timers) and timers[index][1] <= a:
                index += 1
            other = index
            while other < len(timers) and timers[other][0] < b:
                both += min(b, timers[other][1]) - max(a, timers[other][0])
                other += 1
        return both / total if total else 0.0

    @cached_property
    def active(self) -> list[tuple[int, int]]:
        """When packets wait at the port or are on its line."""
        rows = self.here.rows.select("arrive_ps", "begin_ps")
        last = rows["begin_ps"].fill_null(rows["arrive_ps"])
        return union_of(rows["arrive_ps"].to_numpy() - 1, last.to_numpy() + 1_000_000)

    @cached_property
    def busy(self) -> list[tuple[int, int]]:
        """When something moves at the port."""
        spans = union([*self.active, *((flow.begin, flow.begin + 1) for flow in self.flows), (self.end - 1, self.end)])
        # Shorter gaps are not idle times but round trips.
        gap = max(1, (self.end - self.begin) // 400)
        merged: list[list[int]] = []
        for a, b in spans:
            if merged and a - merged[-1][1] <= gap:
                merged[-1][1] = max(merged[-1][1], b)
            else:
                merged.append([a, b])
        return [(a, b) for a, b in merged]

    @cached_property
    def goodput(self) -> tuple[int, Whole, Whole]:
        """The width of a bin in picoseconds, and numbers and payload bytes of the bins that are not empty.

        Counted is payload that has left the port, of each segment its first copy.
        """
        active = sum(b - a for a, b in self.busy) or 1
        width = nice(active / _BINS)
        left = self._left(self._payload("offset_bytes", "begin_ps", "wire_bytes", "payload_bytes", "flow"))
        flow, offset, leave, payload = (
            left.drop_in_place(name).to_numpy() for name in ("flow", "offset_bytes", "leave_ps", "payload_bytes")
        )
        # Sorted, not put into a table of what has been seen, which would be larger than all else.
        order = np.lexsort((leave, offset, flow))
        again = np.zeros(len(order), dtype=bool)
        again[1:] = (np.diff(flow[order]) == 0) & (np.diff(offset[order]) == 0)
        first = order[~again]
        del flow, offset, order
        bins, own = np.unique(leave[first] // width, return_inverse=True)
        got: Whole = np.zeros(len(bins), dtype=np.int64)
        np.add.at(got, own, payload[first])
        return width, bins, got

    @cached_property
    def blocks(self) -> dict[int, pl.DataFrame]:
        """The packets of each flow, one by one or in blocks: `arrive_ps`, `leave_ps`, `segment`, `packets`.

        The slowest flows have their packets one by one. In all there are no more than `MOST_PACKETS`.
        """
        room, blocks = MOST_PACKETS, {}
        # What every flow has room for.
        least = MOST_PACKETS // (2 * MOST_LANES)
        for others, story in zip(range(len(self.lanes) - 1, -1, -1), reversed(self.lanes), strict=True):
            left = self._left(self.here.of(story.flow.id, "arrive_ps", "begin_ps", "wire_bytes", "offset_bytes"))
            rows = left.select(
                "arrive_ps",
                "leave_ps",
                segment=(pl.col("offset_bytes") - story.flow.offset) // story.flow.mss + 1,
                packets=pl.lit(1, pl.Int64),
            )
            if len(rows) > room - others * least:
                rows = _joined(rows, max(1, room // (others + 1)))
            room -= len(rows)
            blocks[story.flow.id] = rows
        return blocks

    @property
    def in_blocks(self) -> int:
        """How many flows have packets that are not drawn one by one."""
        return sum(bool((rows["packets"] > 1).any()) for rows in self.blocks.values())

    def windows_of(self, flow: Flow) -> pl.DataFrame:
        """Return the windows of a flow's sender while it lasts."""
        rows = self._windows.get((flow.connection, flow.from_client))
        if rows is None:
            return self.run.windows.clear()
        rows = rows.filter(pl.col("time_ps").is_between(flow.begin, flow.end))
        return extremes(rows, "cwnd_bytes", max(50, MOST_WINDOWS // max(1, len(self.lanes))))

    @cached_property
    def _windows(self) -> dict[tuple[Any, ...], pl.DataFrame]:
        return self.run.windows.partition_by("connection", "from_client", as_dict=True, maintain_order=True)

    def as_json(self, unit: str) -> dict[str, Any]:
        """Return what the script draws; times are whole nanoseconds, and those in rows stored as differences.

        Args:
            unit: of queues, `bytes` or `packets`.

        """
        queue = extremes(self.queue, "waiting_bytes", MOST_QUEUE)
        width, bins, got = self.goodput
        shown = {story.flow.id for story in self.lanes}
        rows = self.drops.select("arrive_ps", "flow").iter_rows()
        elsewhere = [at for at, flow in rows if flow not in shown]
        mine = {
            (wait.fired, story.flow.connection, story.flow.from_client) for story in self.lanes for wait in story.waits
        }
        others = [
            (fired if armed is None else armed, fired)
            for armed, fired, connection, side in self.timeouts.select(
                "armed_ps", "time_ps", "connection", "from_client"
            ).iter_rows()
            if (fired, connection, side) not in mine
        ]
        return {
            "label": self.label,
            "begin": ns(self.begin),
            "end": ns(self.end),
            "limit": self.port.limit_bytes,
            "limitPackets": self.port.limit_packets,
            "limitText": self.port.limit(),
            "rate": self.port.rate_bps,
            "packet": ns(int(self.port.takes(np.array([self.largest]))[0])),
            "packets": self.records_packets,
            "timed": self.records_packets and not self.untimed,
            "queue": {"t": deltas(queue["time_ps"].to_numpy()), unit: queue[f"waiting_{unit}"].to_list()},
            "drops": deltas(self.drops["arrive_ps"].to_numpy()),
            "marks": deltas(self.drawn_marks),
            "busy": [[ns(a), ns(b)] for a, b in self.busy],
            "goodput": {
                "width": width // 1000,
                "bin": np.diff(bins, prepend=0).tolist(),
                "bps": np.rint(got * 8 * (PS_PER_S / width)).astype(np.int64).tolist(),
            },
            "lanes": [self._lane(story) for story in self.lanes],
            "others": {
                "flows": len(self.flows) - len(self.lanes),
                "drops": [ns(at) for at in elsewhere],
                "waits": [[ns(a), ns(b)] for a, b in others],
            },
        }

    def _lane(self, story: Story) -> dict[str, Any]:
        flow, blocks = story.flow, self.blocks[story.flow.id]
        windows = self.windows_of(flow)
        return {
            "id": flow.id,
            "begin": ns(flow.begin),
            "end": ns(flow.end),
            "done": flow.complete,
            "pk": {
                "a": deltas(blocks["arrive_ps"].to_numpy()),
                "d": ((blocks["leave_ps"] - blocks["arrive_ps"]) // 1000).to_list(),
                "k": np.diff(blocks["segment"].to_numpy(), prepend=0).tolist(),
                "n": blocks["packets"].to_list() if (blocks["packets"] > 1).any() else None,
            },
            "drops": [[ns(at), segment] for at, segment in story.drops],
            "fast": [[ns(at), segment] for at, segment in story.fast],
            "waits": [
                [ns(wait.armed), ns(wait.fired), wait.segment, int(wait.kind == "tail-probe")] for wait in story.waits
            ],
            "win": {
                "t": deltas(windows["time_ps"].to_numpy()),
                "cwnd": windows["cwnd_bytes"].to_list(),
                "flight": windows["flight_bytes"].to_list(),
                "ssthresh": windows["ssthresh_bytes"].fill_null(-1).to_list(),
                "rwnd": windows["rwnd_bytes"].to_list(),
            },
        }


def _joined(rows: pl.DataFrame, most: int) -> pl.DataFrame:
    """Join packets of a flow that are close together, so that no more than `most` blocks are left."""
    apart = rows.select(pl.col("arrive_ps") - pl.col("leave_ps").cum_max().shift(1)).to_series()
    # Only the largest gaps separate blocks.
    gap = max([_GAP_PS, *apart.top_k(most)[most - 1 :].to_list()])
    blocks = (apart > gap).fill_null(value=True).cum_sum().alias("block")
    joined = rows.group_by(blocks, maintain_order=True).agg(
        pl.col("arrive_ps").min(), pl.col("leave_ps").max(), pl.col("segment").first(), pl.len()
    )
    return joined.select("arrive_ps", "leave_ps", "segment", packets=pl.col("len").cast(pl.Int64))


def extremes(rows: pl.DataFrame, column: str, most: int) -> pl.DataFrame:
    """Thin a series: of each stretch of rows keep the first, those with least and most of `column`, and the last."""
    if len(rows) <= most:
        return rows
    stretch = -(-len(rows) * 4 // most)
    whole = len(rows) // stretch * stretch
    values = rows[column].to_numpy()
    starts = np.arange(0, len(rows), stretch)
    keep = [starts, np.append(starts[1:], len(rows)) - 1]
    # All stretches but the last are equally long: rows of a matrix.
    parts = (values[:whole].reshape(-1, stretch), values[whole:].reshape(-1, max(1, len(rows) - whole)))
    for part, first in zip(parts, (starts[: len(parts[0])], starts[len(parts[0]) :]), strict=True):
        if len(first):
            keep += [first + part.argmin(axis=1), first + part.argmax(axis=1)]
    return rows[np.unique(np.concatenate(keep))]


def nice(ps: float) -> int:
    """Round up to 1, 2 or 5 times a power of ten, and at least a nanosecond."""
    power = 1000
    while True:
        for step in (1, 2, 5):
            if step * power >= ps:
                return step * power
        power *= 10


def ns(ps: int) -> int:
    """Round to nanoseconds."""
    return (ps + 500) // 1000


def deltas(times_ps: Whole | Sequence[int]) -> list[int]:
    """Return times in nanoseconds, each as the difference to the one before."""
    times: Whole = (np.asarray(times_ps, dtype=np.int64) + 500) // 1000
    differences: list[int] = np.diff(times, prepend=0).tolist()
    return differences
