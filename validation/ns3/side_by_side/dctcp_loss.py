"""What ns-3's DCTCP does about losses and small windows, beside ours and what RFC 8257 and Linux ask for.

Two cases. *Loss without marks*: sixteen long flows over a port that drops and never marks, so that alpha decays: a loss
has to be answered as by any TCP (RFC 8257 section 3.5). *Small windows*: an incast whose marks cut windows of two
segments: Linux leaves two, ns-3 goes below one, from where nothing may be sent until the timer expires.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import incast
from side_by_side import flows, ns3, ours
from side_by_side.protocol import Point

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from side_by_side.ns3 import Ns3
    from side_by_side.protocol import Protocol

    Columns = Mapping[str, NDArray[np.generic]]

_SENDERS = 16
_LONG_BYTES = 2_000_000
_BUFFER_PACKETS = 100
_TRACED = 5
"""A flow that has its share of losses."""
_FLOWS_FROM_US = 9000.0
_NEVER_PACKETS = 1000
"""A marking threshold beyond the buffer."""
_BIG_BUFFER_BYTES = 16 << 20


@dataclass
class Row:
    """One sender on one side, with loss and without marks."""

    side: str
    sender: str
    drops: int
    retransmissions: int
    timeouts: int
    goodput_bps: float
    kept: list[float]
    """Of the window before each fast recovery of the traced flow, the share that ssthresh is after."""

    @property
    def kept_median(self) -> float:
        """The middle of `kept`."""
        return statistics.median(self.kept) if self.kept else float("nan")


@dataclass
class Stalls:
    """Windows below one segment, from where nothing may be sent."""

    of: int
    """Senders of the incast."""
    senders: int
    """ns-3's that were there."""
    ns3_s: float
    """Time that all senders of ns-3 together were there."""
    ours_s: float
    longest: Columns
    """The windows of the sender that was there longest: connection 0 is ns-3's, 1 ours."""


def loss_without_marks(protocol: Protocol, side: Ns3) -> tuple[list[Row], Columns]:
    """Run sixteen long flows over a port without marks, in the variant in which ns-3 is shipped."""
    starts = [0.01 + 1e-5 * i + 1e-12 * 137 * i for i in range(_SENDERS)]
    text = f"{_SENDERS}\n" + "".join(f"{i + 1} 0 3 5000 {_LONG_BYTES} {start:.12f}\n" for i, start in enumerate(starts))
    traces: list[Columns] = []
    rows = []
    for sender in ("newreno", "dctcp", "dctcp-mended"):
        row, trace = _theirs(protocol, side, text, sender)
        rows.append(row)
        if sender == "dctcp":
            traces.append(trace)
    for sender in ("newreno", "dctcp"):
        row, trace = _ours(protocol, side, text, sender)
        rows.append(row)
        if sender == "dctcp":
            traces.append(trace)
    return rows, _together(traces)


def small_windows(protocol: Protocol, side: Ns3, count: int = 60) -> Stalls:
    """Trace all senders of an incast of the sweep in ns-3, and the one that stalls longest on our side too."""
    run = protocol.sets["untied"]
    point = next(
        point for point in protocol.sweep_points(run, ["rfc6582"]) if point.sender == "dctcp" and point.senders == count
    )
    seed = protocol.seeds[0]
    text = flows.incast_flows(protocol, point, seed)
    arguments = ns3.incast_arguments(protocol, point, protocol.variants[point.variant])
    traces = [_trace(side.trace(text, {**arguments, "trace": flow})) for flow in range(count)]
    stalled = [time_below(trace, protocol.common["mss_bytes"]) for trace in traces]
    flow = stalled.index(max(stalled))
    file = flows.keep(text, side.out / "flows" / "small-windows.txt")
    scenario = ours.incast_scenario(protocol, point, file, protocol.tcp(point, run))
    scenario["record"] = {"window_series": ["burst"]}
    result = incast.run(scenario, seed=seed)
    mine = [_windows(result, connection) for connection in range(count)]
    return Stalls(
        count,
        sum(time > 0 for time in stalled),
        sum(stalled),
        sum(time_below(trace, protocol.common["mss_bytes"]) for trace in mine),
        _together([traces[flow], mine[flow]]),
    )


def time_below(windows: Columns, level: float) -> float:
    """Return for how long a window was below a level."""
    time = np.asarray(windows["time_s"], dtype=np.float64)
    below = np.asarray(windows["cwnd_bytes"], dtype=np.float64)[:-1] < level
    return float(np.diff(time)[below].sum())


def kept_at_recoveries(windows: Columns) -> list[float]:
    """Of the window before each recovery, the share that ssthresh is after.

    A recovery is where the column `recovers` turns from false to true.
    """
    recovers = np.asarray(windows["recovers"], dtype=bool)
    begins = np.flatnonzero(recovers[1:] & ~recovers[:-1]) + 1
    before = np.asarray(windows["cwnd_bytes"], dtype=np.float64)[begins - 1]
    after = np.asarray(windows["ssthresh_bytes"], dtype=np.float64)[begins]
    return [float(share) for share in after / before]


def _point(sender: str) -> Point:
    return Point(
        sender=sender,
        variant="sack",
        senders=_SENDERS,
        size_bytes=_LONG_BYTES,
        rate_bps=1_000_000_000,
        delay_us=40,
        buffer_packets=_BUFFER_PACKETS,
        mark_packets=_NEVER_PACKETS,
        initial_window=10,
        rto_min_ms=10,
        delay_step_ps=137,
    )


def _theirs(protocol: Protocol, side: Ns3, text: str, sender: str) -> tuple[Row, Columns]:
    point = _point(sender)
    arguments = {
        **ns3.incast_arguments(protocol, point, protocol.variants[point.variant]),
        "socketBuffer": _BIG_BUFFER_BYTES,
    }
    result = side.run(text, arguments)
    if "failed" in result:
        raise ns3.Ns3Error(f"ns-3 with {sender} over a port without marks: {result['failed']}")
    trace = _trace(side.trace(text, {**arguments, "trace": _TRACED}))
    times = [row[0] for row in result["flows"]]
    row = Row(
        "ns-3",
        sender,
        result["drops"],
        sum(row[3] for row in result["flows"]),
        sum(row[1] for row in result["flows"]),
        _SENDERS * _LONG_BYTES * 8 / max(times),
        kept_at_recoveries(trace),
    )
    return row, trace


def _ours(protocol: Protocol, side: Ns3, text: str, sender: str) -> tuple[Row, Columns]:
    point = _point(sender)
    file = flows.keep(text, side.out / "flows" / "without-marks.txt")
    # With the timer's back-off as ns-3 has it: else a single straggler decides the goodput.
    scenario = ours.incast_scenario(protocol, point, file, protocol.tcp(point, protocol.sets["met"]))
    scenario["tcp"]["receive_buffer"] = f"{_BIG_BUFFER_BYTES}B"
    scenario["record"] = {"window_series": [f"burst:{_TRACED}"], "events": True}
    result = incast.run(scenario, seed=1)
    summary = result.summary_dict
    windows = _windows(result, _TRACED)
    row = Row(
        "ours",
        sender,
        summary["drops"],
        summary["retransmitted_packets"],
        summary["timeouts"],
        _SENDERS * _LONG_BYTES * 8 / max(result.to_arrow("flows")["fct_s"].to_pylist()),
        kept_at_recoveries(_with_recoveries(windows, result)),
    )
    return row, windows


def _trace(lines: Sequence[str]) -> Columns:
    """Read what ns-3's program prints with `--trace`, without the handshake."""
    rows = []
    for line in lines[1:]:
        if line.startswith("{"):
            break
        words = line.split(",")
        if float(words[0]) >= _FLOWS_FROM_US:
            rows.append((float(words[0]) * 1e-6, int(words[4]), int(words[5]), words[7] == "CA_RECOVERY"))
    time, cwnd, ssthresh, recovers = zip(*rows, strict=True)
    return {
        "time_s": np.array(time),
        # ns-3 tells of a change before it makes it: the new window stands in the next row.
        "cwnd_bytes": np.array([*cwnd[1:], cwnd[-1]], dtype=np.float64),
        "ssthresh_bytes": np.array(ssthresh, dtype=np.float64),
        "recovers": np.array(recovers),
    }


def _windows(result: incast.Result, connection: int) -> Columns:
    table = result.to_arrow("windows")
    client = np.array(table["from_client"].to_pylist(), dtype=bool)
    rows = client & (np.array(table["connection"].to_pylist()) == connection)
    names = ("time_s", "cwnd_bytes", "ssthresh_bytes")
    return {name: np.array(table[name].to_pylist(), dtype=np.float64)[rows] for name in names}


def _with_recoveries(windows: Columns, result: incast.Result) -> Columns:
    """Add where recoveries begin, by the events."""
    events = result.to_arrow("events")
    rows = zip(events["kind"].to_pylist(), events["connection"].to_pylist(), events["time_s"].to_pylist(), strict=True)
    begins = {time for kind, connection, time in rows if kind == "fast-retransmit" and connection == _TRACED}
    return {**windows, "recovers": np.array([time in begins for time in windows["time_s"].tolist()])}


def _together(sides: Sequence[Columns]) -> Columns:
    """Put several traces into one table, numbered as connections."""
    return {
        "connection": np.concatenate([np.full(len(side["time_s"]), number) for number, side in enumerate(sides)]),
        **{name: np.concatenate([side[name] for side in sides]) for name in ("time_s", "cwnd_bytes")},
    }
