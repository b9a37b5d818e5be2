"""What ns-3's DCTCP does about losses and small windows, beside ours and what RFC 8257 and Linux ask for.

Two cases. *Loss without marks*: sixteen long flows over a port that drops and never marks, so that alpha decays: a loss
has to be answered as by any TCP (RFC 8257 section 3.5). *Small windows*: an incast whose marks cut windows of two
segments: Linux leaves two, ns-3 goes below one, from where nothing may be sent until the timer expires.
"""

from __future__ import annotations

import statistics
import tempfile
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import incast
from incast.studies import reading
from side_by_side import world

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

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
_MSS_BYTES = 1460


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


def loss_without_marks() -> tuple[list[Row], Columns]:
    """Run sixteen long flows over a port without marks."""
    starts = [0.01 + 1e-5 * i + 1e-12 * 137 * i for i in range(_SENDERS)]
    text = f"{_SENDERS}\n" + "".join(f"{i + 1} 0 3 5000 {_LONG_BYTES} {start:.12f}\n" for i, start in enumerate(starts))
    runs = [_theirs(text, sender) for sender in ("newreno", "dctcp", "dctcp-mended")]
    runs += [_ours(text, sender) for sender in ("newreno", "dctcp")]
    return [row for row, _ in runs], _together([trace for row, trace in runs if row.sender == "dctcp"])


def small_windows(count: int = 60) -> Stalls:
    """Trace all senders of an incast of the sweep in ns-3, and the one that stalls longest on our side too."""
    document = _scenario("dctcp", count)
    text = listed(incast.run(document, seed=1))
    arguments = world.arguments(document)
    traces = [_trace(world.printed(world.OUT, text, {**arguments, "trace": flow})) for flow in range(count)]
    stalled = [time_below(trace, _MSS_BYTES) for trace in traces]
    flow = stalled.index(max(stalled))
    result = _run(document, text, {"window_series": ["burst"]})
    mine = [_windows(result, connection) for connection in range(count)]
    return Stalls(
        count,
        sum(time > 0 for time in stalled),
        sum(stalled),
        sum(time_below(trace, _MSS_BYTES) for trace in mine),
        _together([traces[flow], mine[flow]]),
    )


def listed(result: incast.Result) -> str:
    """Write down the flows of a run."""
    flows = result.to_arrow("flows").select(["start_s", "source_host", "destination_host", "size_bytes"]).to_pylist()
    return world.listed(sorted(flows, key=lambda flow: tuple(flow.values())))


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


def _loss(sender: str) -> dict[str, Any]:
    """Return the scenario without marks; `sack` and what follows is the variant in which ns-3 is shipped."""
    document = _scenario(sender.removesuffix("-mended"), _SENDERS)
    document["switch"]["buffer"]["limit"] = f"{_BUFFER_PACKETS}packets"
    document["switch"]["marker"]["threshold"] = f"{_NEVER_PACKETS}packets"
    document["ns3"] = {"mend": sender.endswith("-mended")}
    document["tcp"] |= {
        "initial_window": 10, "receive_buffer": f"{_BIG_BUFFER_BYTES}B",
        "sack": True, "recovery": "prr", "limited_transmit": True, "recovery_exit": "ssthresh",
    }  # fmt: skip
    return document


def _scenario(sender: str, senders: int) -> dict[str, Any]:
    """Return an incast of the sweep with links of different length."""
    document = tomllib.loads((world.HERE / "incast.toml").read_text(encoding="utf-8"))
    document["stack"] = {"sender": sender}
    document["topology"] |= {"hosts": senders + 1, "delay_step": "137ps"}
    document["traffic"]["burst"]["senders"] = senders
    return document


def _run(document: dict[str, Any], text: str, record: Mapping[str, object]) -> incast.Result:
    """Run a list of flows on our side."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(text)
        file.flush()
        burst = {"kind": "trace", "file": file.name, "connections": "persistent"}
        own = {key: value for key, value in document.items() if key != "ns3"}
        return incast.run({**own, "traffic": {"burst": burst}, "record": record}, seed=1)


def _theirs(text: str, sender: str) -> tuple[Row, Columns]:
    arguments = world.arguments(_loss(sender))
    result = world.run(world.OUT, text, arguments)
    if "failed" in result:
        raise SystemExit(f"error: ns-3 with {sender} over a port without marks: {result['failed']}")
    trace = _trace(world.printed(world.OUT, text, {**arguments, "trace": _TRACED}))
    times, timeouts, _, retransmissions = zip(*result["flows"], strict=True)
    goodput_bps = _SENDERS * _LONG_BYTES * 8 / max(times)
    kept = kept_at_recoveries(trace)
    return Row("ns-3", sender, result["drops"], sum(retransmissions), sum(timeouts), goodput_bps, kept), trace


def _ours(text: str, sender: str) -> tuple[Row, Columns]:
    document = _loss(sender)
    # With the timer's back-off as ns-3 has it: else a single straggler decides the goodput.
    met = next(curve for curve in reading.read(world.HERE / "sweep.toml").curves if curve.name == "met")
    document["tcp"] |= {key.removeprefix("tcp."): value for key, value in met.changes.items()}
    result = _run(document, text, {"window_series": [f"burst:{_TRACED}"], "events": True})
    summary = result.summary_dict
    windows = _windows(result, _TRACED)
    goodput_bps = _SENDERS * _LONG_BYTES * 8 / max(result.to_arrow("flows")["fct_s"].to_pylist())
    row = Row(
        "ours", sender, summary["drops"], summary["retransmitted_packets"], summary["timeouts"], goodput_bps,
        kept_at_recoveries(_with_recoveries(windows, result)),
    )  # fmt: skip
    return row, windows


def _trace(printed: str) -> Columns:
    """Read what ns-3's program prints with `--trace`, without the handshake."""
    rows = []
    for line in printed.splitlines()[1:]:
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
    names = ("time_ps", "cwnd_bytes", "ssthresh_bytes")
    found = {name: np.array(table[name].to_pylist(), dtype=np.float64)[rows] for name in names}
    return {"time_s": found.pop("time_ps") / 1e12, **found}


def _with_recoveries(windows: Columns, result: incast.Result) -> Columns:
    """Add where recoveries begin, by the events."""
    events = result.to_arrow("events")
    rows = zip(events["kind"].to_pylist(), events["connection"].to_pylist(), events["time_ps"].to_pylist(), strict=True)
    begins = {time / 1e12 for kind, connection, time in rows if kind == "fast-retransmit" and connection == _TRACED}
    return {**windows, "recovers": np.array([time in begins for time in windows["time_s"].tolist()])}


def _together(sides: Sequence[Columns]) -> Columns:
    """Put several traces into one table, numbered as connections."""
    return {
        "connection": np.concatenate([np.full(len(side["time_s"]), number) for number, side in enumerate(sides)]),
        **{name: np.concatenate([side[name] for side in sides]) for name in ("time_s", "cwnd_bytes")},
    }
