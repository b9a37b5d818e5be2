"""Why a flow took as long as it did, in words and in shares of its time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from incast import text
from incast.report.recorded import Flow, Port, Recorded, Waiting, count, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

Span = tuple[int, int]

# What the time of a flow went into. Each moment counts once, for the first of these that holds.
KINDS = {
    "timer": "waiting for a retransmission timer",
    "probe": "waiting for the timer of a tail loss probe",
    "start": "before its first packet reached {port}",
    "repair": "with a lost packet that had not been sent again, without a timeout",
    "line": "its packets on the line of {port}",
    "queue": "its packets in the queue of {port}, and none on the line",
    "away": "nothing of it at {port}: on its way, or held back by its window",
}
# Events that are of a flow if their segment is.
_OF_A_SEGMENT = ("drop", "wire-loss", "fast-retransmit", "retransmission")
# Where it is not known since when timers ran.
_UNTIMED = {"repair": "with a lost packet that had not been sent again, some timers included"}
# What is told of packets.
_OF_PACKETS = ("row", "arrive_ps", "begin_ps", "dropped", "offset_bytes", "wire_bytes")
# Events of a timer that ran out.
IS_A_TIMER = pl.col("kind").str.starts_with("timeout") | (pl.col("kind") == "tail-probe")
_SOON_PS = 1_000_000_000
# Drops of one flow closer than this are told together.
_TOGETHER_PS = 300_000_000
_CAUSES = {
    "timeout-full-window": "No ACK came after the last new segment had left.",
    "timeout-control": "No answer came to a SYN, SYN-ACK or FIN.",
    "timeout-untold": "No ACK came in time.",
}


@dataclass(frozen=True)
class Step:
    """Something that happened to a flow."""

    begin: int
    end: int
    kind: str
    text: str


@dataclass(frozen=True)
class Wait:
    """A timer that ran out: a timeout, or that of a probe."""

    armed: int
    """Since when it ran; when it ran out, where that is not known."""
    fired: int
    kind: str
    segment: int
    rto: int
    duplicates: int
    flight: int

    @property
    def is_known(self) -> bool:
        """Whether it is known since when it ran: of a kernel's timers it may not be."""
        return self.armed < self.fired


@dataclass(frozen=True)
class Story:
    """What happened to a flow."""

    flow: Flow
    port: Port
    headline: str
    shares: dict[str, int]
    """Picoseconds by kind; they add up to the flow's time."""
    steps: list[Step]
    drops: list[tuple[int, int]]
    """When, and which segment: at any port, or on a wire."""
    waits: list[Wait]
    fast: list[tuple[int, int]]
    """Fast retransmits: when, and which segment."""
    again: list[tuple[int, int]]
    """Segments sent again: when, and which."""
    left_out: int = 0
    """Steps that are not told, where only so many were asked for; none of them took longer than one that is."""

    def labels(self) -> dict[str, str]:
        """Return what each share is, in words."""
        return _labels(self.port, self.waits)

    def as_json(self) -> dict[str, Any]:
        """Return everything as one JSON object."""
        took = self.flow.end - self.flow.begin
        labels = self.labels()
        return {
            "flow": self.flow.id,
            "connection": self.flow.connection,
            "source_host": self.flow.source,
            "destination_host": self.flow.destination,
            "size_bytes": self.flow.size,
            "port": self.port.name.replace(" → ", "->"),
            "complete": self.flow.complete,
            "start_ps": self.flow.begin,
            "end_ps": self.flow.end,
            "time_ps": took,
            "ideal_ps": self.flow.ideal,
            "headline": self.headline,
            "shares": [
                {"kind": kind, "meaning": labels[kind], "time_ps": ps, "share": ps / took if took else 0.0}
                for kind, ps in self.shares.items()
            ],
            "steps": [
                {"begin_ps": step.begin, "end_ps": step.end, "kind": step.kind, "text": step.text}
                for step in self.steps
            ],
        }

    def as_text(self) -> str:
        """Return everything for a terminal."""
        took = self.flow.end - self.flow.begin
        labels = self.labels()
        rows = [
            [labels[kind], duration(ps), f"{ps / took:.1%}" if took else "-"] for kind, ps in self.shares.items() if ps
        ]
        rows.append(["in all", duration(took), "100.0%"])
        lines = [self.headline, "", text.table(["where its time went", "time", "share"], rows), ""]
        for step in self.steps:
            when = moment(step.begin) + (f" to {moment(step.end)}" if step.end > step.begin else "")
            lines += [when, *(f"  {line}" for line in _wrapped(step.text, 100))]
        return "\n".join(lines)


# A step before its words are made, with its begin and end.
_Untold = tuple[int, int, Callable[[], Step]]


class Explainer:
    """Explains flows of one run at one port."""

    def __init__(self, run: Recorded, port: Port) -> None:
        self.run = run
        self.port = port
        self._waiting: Waiting = run.waiting_at(port.link)
        self._packets = run.at_port(port.link)
        told = pl.col("kind").is_in(_OF_A_SEGMENT) | IS_A_TIMER
        # The kernel tells of a timer and of what it sends again one after the other.
        self._soon = _SOON_PS if run.on_kernel else 0
        self._events = _by(run.events.filter(told), "connection", "from_client")
        srtt = _by(run.windows.filter(pl.col("srtt_ps").is_not_null()), "connection", "from_client")
        self._srtt = {key: (rows["time_ps"].to_list(), rows["srtt_ps"].to_list()) for key, rows in srtt.items()}
        bare = self._packets.rows.filter(pl.col("dropped") & (pl.col("payload_bytes") == 0))
        self._bare: dict[tuple[int, bool], list[int]] = defaultdict(list)
        for at, connection, side in bare.select("arrive_ps", "connection", "from_client").iter_rows():
            self._bare[connection, side].append(at)
        self._links = {row["link"]: f"{row['from']} → {row['to']}" for row in run.summary["ports"]}
        self._links |= {port.link: port.name for port in run.ports}

    def story(self, flow: Flow, *, most_steps: int | None = None) -> Story:
        """Tell what happened to a flow, in at most so many steps: those that took longest."""
        events = self._events_of(flow)
        packets = self._packets.of(flow.id, *_OF_PACKETS)
        waits = [
            Wait(
                armed=event["time_ps"] if event["armed_ps"] is None else event["armed_ps"],
                fired=event["time_ps"],
                kind=event["kind"],
                segment=flow.segment(event["offset_bytes"]),
                rto=event["rto_ps"] or 0,
                duplicates=event["duplicate_acks"] or 0,
                flight=event["flight_bytes"] or 0,
            )
            for event in events
            if event["kind"] not in _OF_A_SEGMENT and event["time_ps"] <= flow.end
        ]
        lost = [event for event in events if event["kind"] in ("drop", "wire-loss")]
        bare = [event for event in lost if self._is_bare(event)]
        losses = [event for event in lost if not self._is_bare(event)]
        drops = [(event["time_ps"], flow.segment(event["offset_bytes"])) for event in losses]
        sent_again = _of_kind(events, flow, "retransmission")
        fast = _of_kind(events, flow, "fast-retransmit")
        lost_at, again_at = _Moments(drops), _Moments(sent_again)
        shares = self._shares(flow, packets, waits, drops, again_at)
        timeouts = [wait for wait in waits if wait.kind != "tail-probe"]
        untold: list[_Untold] = [
            *((step.begin, step.end, partial(_itself, step)) for step in self._request(flow, packets)),
            *self._losses(flow, packets, losses),
            *((event["time_ps"], event["time_ps"], partial(self._without_payload, event)) for event in bare),
            *((wait.armed, wait.fired, partial(self._wait, flow, wait, timeouts, lost_at, again_at)) for wait in waits),
            *((at, at, partial(_fast, at, segment, lost_at, again_at, self._soon)) for at, segment in fast),
        ]
        left_out = 0
        if most_steps is not None and len(untold) > most_steps:
            left_out = len(untold) - most_steps
            untold = sorted(untold, key=lambda one: (one[0] - one[1], one[0]))[:most_steps]
        steps = sorted((tell() for _, _, tell in untold), key=lambda step: (step.begin, step.end, step.kind))
        if flow.complete:
            steps.append(Step(flow.end, flow.end, "end", "Its last byte arrived."))
        headline = self._headline(flow, shares, waits, drops)
        return Story(flow, self.port, headline, shares, steps, drops, waits, fast, sent_again, left_out)

    def _events_of(self, flow: Flow) -> list[dict[str, Any]]:
        """Return the events of its connection and side that concern it."""
        table = self._events.get((flow.connection, flow.from_client))
        if table is None:
            return []
        rows = table.filter(pl.col("time_ps").is_between(flow.begin, flow.end)).to_dicts()
        for row in rows:
            # On the path only the lower half of a position is known.
            if row["link"] is not None:
                row["offset_bytes"] += (flow.offset - row["offset_bytes"] + 2**31) // 2**32 * 2**32
        return [row for row in rows if row["kind"] not in _OF_A_SEGMENT or flow.has(row["offset_bytes"])]

    def _shares(
        self,
        flow: Flow,
        packets: pl.DataFrame,
        waits: Sequence[Wait],
        drops: Sequence[tuple[int, int]],
        again: _Moments,
    ) -> dict[str, int]:
        left = packets.filter(pl.col("begin_ps").is_not_null())
        arrive, begin = left["arrive_ps"].to_numpy(), left["begin_ps"].to_numpy()
        end = begin + self.port.takes(left["wire_bytes"].to_numpy())
        first = _first_arrival(packets, flow.begin)
        repairs = []
        for at, segment in drops:
            sent = again.next(segment, at)
            repairs.append((at, flow.end if sent is None else sent))
        layers: dict[str, Iterable[Span] | NDArray[np.int64]] = {
            "timer": [(wait.armed, wait.fired) for wait in waits if wait.kind != "tail-probe"],
            "probe": [(wait.armed, wait.fired) for wait in waits if wait.kind == "tail-probe"],
            "start": [(flow.begin, first)],
            "repair": repairs,
            "line": np.column_stack([begin, end]),
            "queue": np.column_stack([arrive, begin]),
            "away": [(flow.begin, flow.end)],
        }
        return partition((flow.begin, flow.end), layers)

    def _headline(self, flow: Flow, shares: dict[str, int], waits: Sequence[Wait], drops: Sequence[object]) -> str:
        took = flow.end - flow.begin
        what = f"{size(flow.size)} in {count(flow.segments or 0, 'packet')}" if flow.size is not None else "without end"
        said = f"Flow {flow.id} (host {flow.source} → host {flow.destination}, {what}) "
        if flow.complete:
            said += f"took {duration(took)}"
            if flow.ideal is not None:
                said += f"; on an idle network, without slow start, it would take {duration(flow.ideal)}"
            said += "."
        else:
            said += f"was not complete when the run ended, {duration(took)} after its start."
        kind, most = max(shares.items(), key=lambda share: share[1])
        if took:
            part = f"{most / took:.0%}"
            timers = sum(wait.kind != "tail-probe" for wait in waits)
            if kind == "timer":
                said += f" It spent {part} of that time waiting for {count(timers, 'retransmission timer')}."
            else:
                said += f" The largest part of that time, {part}: {_labels(self.port, waits)[kind]}."
        if not drops:
            said += " It lost no packet."
        elif kind != "timer":
            said += f" It lost {count(len(drops), 'packet')}."
        unknown = sum(not wait.is_known for wait in waits)
        if unknown:
            said += (
                f" Since when {unknown:,} of its timers ran is not known, so the time for which it waited for them is "
                "in other rows."
            )
        if flow.mark_reductions:
            said += f" Congestion marks reduced its window {count(flow.mark_reductions, 'time')}."
        return said

    def _is_bare(self, event: dict[str, Any]) -> bool:
        """Whether it is the loss of a SYN, FIN or ACK at the port, as far as is recorded."""
        if event["link"] != self.port.link or event["kind"] != "drop":
            return False
        return self._arrived(self._bare[event["connection"], event["from_client"]], event["time_ps"]) is not None

    def _arrived(self, times: Sequence[int], dropped: int) -> int | None:
        """Return which of these arrivals, in order, was dropped at a time: at once, or on a kernel soon after."""
        index = bisect_right(times, dropped) - 1
        return times[index] if index >= 0 and dropped - times[index] <= self._soon else None

    def _without_payload(self, event: dict[str, Any]) -> Step:
        at: int = event["time_ps"]
        return Step(at, at, "drop", f"A packet without payload (SYN, FIN or ACK) was dropped at {self.port.name}.")

    def _request(self, flow: Flow, packets: pl.DataFrame) -> Iterable[Step]:
        """Tell of timers of the other side that ran out before the first packet came: a request was lost, say."""
        first = _first_arrival(packets, flow.end)
        table = self._events.get((flow.connection, not flow.from_client))
        if table is None:
            return
        during = pl.col("time_ps").is_between(flow.begin, first) & pl.col("kind").str.starts_with("timeout")
        for armed, fired in table.filter(during).select("armed_ps", "time_ps").iter_rows():
            after = "" if armed is None else f" after {duration(fired - armed)}"
            said = f"A timer of host {flow.destination} ran out{after}: what it had sent before"
            begin = fired if armed is None else armed
            yield Step(begin, fired, "request", f"{said} this flow could begin had not been acknowledged.")

    def _losses(self, flow: Flow, packets: pl.DataFrame, losses: Sequence[dict[str, Any]]) -> Iterable[_Untold]:
        dropped = packets.filter(pl.col("dropped"))
        rows: dict[int, dict[int, int]] = defaultdict(dict)
        for at, offset, row in dropped.select("arrive_ps", "offset_bytes", "row").iter_rows():
            rows[offset][at] = row
        seen: set[int] = set()
        for _, together in groupby(_grouped(losses), key=lambda one: one[0]):
            group = [event for _, event in together]
            first, last = group[0], group[-1]
            segments = [flow.segment(event["offset_bytes"]) for event in group]
            again = [segment for segment in segments if segment in seen]
            seen.update(segments)
            here = rows[first["offset_bytes"]]
            arrived = self._arrived(sorted(here), first["time_ps"])
            row = None if arrived is None else here[arrived]
            tell = partial(self._loss, flow, first, last["time_ps"], segments, again, row)
            yield first["time_ps"], last["time_ps"], tell

    def _loss(
        self, flow: Flow, first: dict[str, Any], end: int, segments: list[int], again: list[int], row: int | None
    ) -> Step:
        of = f" of {flow.segments:,}" if flow.segments is not None else ""
        said = f"{_numbers(segments)}{of} {'was' if len(set(segments)) == 1 else 'were'} "
        place = self._links.get(first["link"], f"link {first['link']}")
        if first["kind"] == "wire-loss":
            said += f"lost on the wire behind {place}."
        else:
            said += f"dropped at {place}."
            if row is not None:
                said += f" {self._found(flow, row, first['time_ps'])}"
        if again:
            said += f" {_numbers(again)} had been lost before."
        return Step(first["time_ps"], end, "drop", said)

    def _found(self, flow: Flow, row: int, at: int) -> str:
        packets, waiting, by_flow = self._waiting.found_by(row, at)
        limit = self.port.limit()
        said = f"{count(packets, 'packet')} ({size(waiting)}) waited there" + (
            f", where there is room for {limit}" if limit else ""
        )
        others = {other: number for other, number in by_flow.items() if other not in (-1, flow.id)}
        own = by_flow.get(flow.id, 0)
        said += f": {own} of its own" if own else ": none of its own"
        if others:
            most = sorted(others.items(), key=lambda one: (-one[1], one[0]))[:3]
            named = ", ".join(f"{number} of flow {other}" for other, number in most)
            rest = len(others) - len(most)
            said += f", {sum(others.values())} of {count(len(others), 'other flow')} ({named}{', ...' if rest else ''})"
        if -1 in by_flow:
            said += f", {by_flow[-1]} without payload"
        return said + "."

    def _wait(
        self,
        flow: Flow,
        wait: Wait,
        timeouts: Sequence[Wait],
        drops: _Moments,
        again: _Moments,
    ) -> Step:
        ran = wait.fired - wait.armed
        sent = again.at(wait.fired, self._soon)
        if wait.kind == "tail-probe":
            told = f"{_numbers(sent)} was sent again as the probe" if sent else "new data was sent as the probe"
            came = f"No ACK came for {duration(ran)}" if wait.is_known else "No ACK came in time"
            said = f"{came}, so {told}, to learn of a loss without a timeout."
            return Step(wait.armed, wait.fired, "probe", said)
        said = self._cause(wait, drops, again)
        if not wait.is_known:
            said += f" The timer ran out at {moment(wait.fired)}; since when it ran is not known."
            return Step(wait.fired, wait.fired, "timer", said + _sent_again(sent))
        said += f" The timer ran for {duration(ran)}{self._in_round_trips(flow, wait, ran)}"
        before = bisect_right(timeouts, wait.armed, key=lambda other: other.fired)
        last = timeouts[before - 1] if before else None
        if last and wait.rto == 2 * last.rto and last.segment == wait.segment:
            said += ", twice the last timeout: it had backed off"
        said += f", and ran out at {moment(wait.fired)}."
        return Step(wait.armed, wait.fired, "timer", said + _sent_again(sent))

    def _cause(self, wait: Wait, drops: _Moments, again: _Moments) -> str:
        """Say why there was a timeout, as far as it is recorded."""
        if wait.kind == "timeout-control":
            return _CAUSES[wait.kind]
        sent = again.last(wait.segment, wait.fired)
        lost = drops.last(wait.segment, wait.fired)
        if lost is None or (sent is not None and lost < sent):
            # Lost ACKs, or a timer that was too short.
            which = "Packet" if sent is None else "The retransmission of packet"
            return f"{which} {wait.segment} was not lost, but its ACK had not come."
        if wait.kind == "timeout-lost-retransmission" and sent is not None:
            return f"The retransmission of packet {wait.segment} was lost at {moment(lost)}."
        told = f"Packet {wait.segment} was lost at {moment(lost)}."
        if wait.kind == "timeout-tail":
            if wait.duplicates < 3:
                came = "No duplicate ACK" if wait.duplicates == 0 else f"Only {count(wait.duplicates, 'duplicate ACK')}"
                return f"{told} {came} came back, and a fast retransmit takes three."
            return f"{told} {count(wait.duplicates, 'duplicate ACK')} came back, but began no recovery."
        return f"{told} {_CAUSES.get(wait.kind, '')}".rstrip()

    def _in_round_trips(self, flow: Flow, wait: Wait, ran: int) -> str:
        times, estimates = self._srtt.get((flow.connection, flow.from_client), ([], []))
        before = bisect_left(times, wait.fired)
        if not before:
            return ""
        srtt = estimates[before - 1]
        return f", {ran / srtt:,.0f} times the round trip of {text.seconds(srtt / 1e12)}" if srtt > 0 else ""


def partition(whole: Span, layers: Mapping[str, Iterable[Span] | NDArray[np.int64]]) -> dict[str, int]:
    """Divide a stretch of time among layers: each moment belongs to the first layer that covers it."""
    merged = {kind: _merged(_array(spans).clip(*whole)) for kind, spans in layers.items()}
    edges = np.unique(np.concatenate([np.array(whole), *(part for spans in merged.values() for part in spans)]))
    starts, lengths, left = edges[:-1], np.diff(edges), np.ones(len(edges) - 1, dtype=bool)
    parts = {}
    for kind, (begins, ends) in merged.items():
        covered = np.zeros(len(starts), dtype=bool)
        if len(begins):
            before = np.searchsorted(begins, starts, side="right") - 1
            covered = (before >= 0) & (ends[before] > starts)
        parts[kind] = int(lengths[left & covered].sum())
        left &= ~covered
    return parts


def union(spans: Iterable[Span]) -> list[Span]:
    """Merge spans that overlap or touch; sorted."""
    merged: list[Span] = []
    for begin, end in sorted(span for span in spans if span[1] > span[0]):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return merged


def union_of(begins: NDArray[np.int64], ends: NDArray[np.int64]) -> list[Span]:
    """Merge many spans, as `union` does."""
    begins, ends = _merged(np.column_stack([begins, ends]))
    return list(zip(begins.tolist(), ends.tolist(), strict=True))


def _array(spans: Iterable[Span] | NDArray[np.int64]) -> NDArray[np.int64]:
    """Return spans as rows of begin and end."""
    found = spans if isinstance(spans, np.ndarray) else np.array(list(spans), dtype=np.int64)
    return found.reshape(-1, 2)


def _merged(spans: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Merge spans that overlap or touch; return their begins and ends, in order."""
    spans = spans[spans[:, 1] > spans[:, 0]]
    spans = spans[np.argsort(spans[:, 0], kind="stable")]
    begins, ends = spans[:, 0], np.maximum.accumulate(spans[:, 1])
    if not len(begins):
        return begins, ends
    first = np.flatnonzero(np.concatenate([[True], begins[1:] > ends[:-1]]))
    last = np.concatenate([first[1:] - 1, [len(ends) - 1]])
    return begins[first], ends[last]


class _Moments:
    """When something happened to segments, in order of time."""

    def __init__(self, moments: Iterable[tuple[int, int]]) -> None:
        self._of: dict[int, list[int]] = defaultdict(list)
        self._at: dict[int, set[int]] = defaultdict(set)
        for at, segment in moments:
            self._of[segment].append(at)
            self._at[at].add(segment)

    def last(self, segment: int, before: int) -> int | None:
        """Return the last time of a segment before this one."""
        times = self._of.get(segment, [])
        index = bisect_left(times, before)
        return times[index - 1] if index else None

    def next(self, segment: int, at: int) -> int | None:
        """Return the first time of a segment at this one or after it."""
        times = self._of.get(segment, [])
        index = bisect_left(times, at)
        return times[index] if index < len(times) else None

    def at(self, time: int, soon: int = 0) -> list[int]:
        """Return the segments of this time, or of the first one so soon after it that has any."""
        if soon and time not in self._at:
            time = min((one for one in self._at if time <= one <= time + soon), default=time)
        return sorted(self._at.get(time, ()))


def _first_arrival(packets: pl.DataFrame, default: int) -> int:
    return default if packets.is_empty() else int(packets["arrive_ps"].to_numpy().min())


def _itself(step: Step) -> Step:
    return step


def _labels(port: Port, waits: Sequence[Wait]) -> dict[str, str]:
    words = KINDS if all(wait.is_known for wait in waits) else KINDS | _UNTIMED
    return {kind: said.format(port=port.name) for kind, said in words.items()}


def _sent_again(segments: Sequence[int]) -> str:
    if not segments:
        return ""
    return f" {_numbers(segments)} {'was' if len(segments) == 1 else 'were'} sent again."


def _fast(at: int, segment: int, drops: _Moments, again: _Moments, soon: int) -> Step:
    lost = drops.last(segment, at)
    since = ", though it was not lost" if lost is None else f", {duration(at - lost)} after it was lost"
    sent = again.at(at, soon)
    said = f"ACKs told that packet {segment} was missing{since}."
    said += f" {_numbers(sent)} {'was' if len(sent) == 1 else 'were'} sent again at once." if sent else ""
    return Step(at, at, "fast", said)


def _of_kind(events: Iterable[dict[str, Any]], flow: Flow, kind: str) -> list[tuple[int, int]]:
    return [(event["time_ps"], flow.segment(event["offset_bytes"])) for event in events if event["kind"] == kind]


def _grouped(losses: Iterable[dict[str, Any]]) -> Iterable[tuple[int, dict[str, Any]]]:
    """Yield losses with the number of their group: those at one place that follow one another closely."""
    group, last = 0, None
    for event in losses:
        place = (event["link"], event["kind"])
        if last is not None and (place != last[0] or event["time_ps"] - last[1] > _TOGETHER_PS):
            group += 1
        last = (place, event["time_ps"])
        yield group, event


def _by(table: pl.DataFrame, *keys: str) -> dict[tuple[Any, ...], pl.DataFrame]:
    return table.partition_by(*keys, as_dict=True, maintain_order=True)


def _numbers(segments: Iterable[int]) -> str:
    """Write packets 5, 6, 7 and 9 as "Packets 5-7, 9"."""
    runs: list[list[int]] = []
    for segment in sorted(set(segments)):
        if runs and segment == runs[-1][1] + 1:
            runs[-1][1] = segment
        else:
            runs.append([segment, segment])
    parts = [str(first) if first == last else f"{first}–{last}" for first, last in runs]  # noqa: RUF001
    one = len(runs) == 1 and runs[0][0] == runs[0][1]
    return f"{'Packet' if one else 'Packets'} {', '.join(parts)}"


def moment(ps: int) -> str:
    """Write a time of the run."""
    return f"{ps / 1e9:,.3f} ms"


def duration(ps: int) -> str:
    """Write a length of time."""
    return text.seconds(ps / 1e12)


def _wrapped(words: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(words, width)
