"""What was recorded, for programs that read traces: Wireshark and Perfetto."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import polars as pl

from incast.report.explain import Explainer

if TYPE_CHECKING:
    from incast.report.recorded import Port, Recorded

Side: TypeAlias = Literal["arriving", "leaving"]

_HEADERS = 40
_LINKTYPE_IPV4 = 228
_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6
_END, _COMMENT, _NAME, _RESOLUTION = 0, 1, 2, 9
_SYN, _ACK = 2, 16
# Of the options of TCP: maximum segment size, window scaling, SACK permitted, SACK, and an experiment's (RFC 6994) with
# the magic number that incast-host gives its own.
_MSS, _SCALE, _SACK_PERMITTED, _SACK, _EXPERIMENT, _MAGIC = 2, 3, 4, 5, 253, 0xE1A0
_NO_OPERATION = b"\x01"
_MOST_OPTIONS = 40
# The lowest bit of the DSCP, which incast-host's switch ports set (docs/how-to/linux-host.md).
_EIN_IN_TOS = 4
_ECT, _CE, _EIN, _EIN_ECHO, _TRIMMED = 256, 512, 1024, 2048, 4096


def pcapng(run: Recorded, port: Port, side: Side = "arriving") -> bytes:
    """Return the packets at one side of a port as a capture file (pcapng).

    Times are in nanoseconds, and packets have headers only. Arriving packets that were dropped say so in a comment.
    Host `n` has the address 10.0.0.0 plus `n + 1`, the side that opens connection `c` the port `10000 + c % 50000`, and
    the other side port 9000.

    A SYN has options: the size of the connection's largest segment, window scaling if a window of its end is above
    65,535 bytes, and SACK if an end of the connection has sent some. Where no SYN was recorded, which would say how
    windows are scaled, those above 65,535 bytes are cut to that. Incast marks are as on the wire of incast-host: the
    lowest bit of the DSCP, and for their echo an experimental option with the number of ACKs so far that have echoed
    marks; where SACK blocks leave no room for it, a comment says so.
    """
    rows = run.packets.filter(run.packets["link"] == port.link)
    wire = _Wire(run)
    if side == "leaving":
        rows = rows.filter(rows["begin_ps"].is_not_null()).sort("begin_ps", "row")
    hosts = {(flow.connection, flow.from_client): (flow.source, flow.destination) for flow in run.flows.values()}
    name = f"{port.name.replace(' → ', '->')}, {side}"
    blocks = [
        _block(_SECTION, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1) + _option(4, b"incast") + _option(_END, b"")),
        _block(
            _INTERFACE,
            struct.pack("<HHI", _LINKTYPE_IPV4, 0, 0)
            + _option(_NAME, name.encode())
            + _option(_RESOLUTION, b"\x09")
            + _option(_END, b""),
        ),
    ]
    for number, row in enumerate(rows.iter_rows(named=True)):
        at = row["arrive_ps"] if side == "arriving" else row["begin_ps"]
        blocks.append(_packet(number, (at + 500) // 1000, row, hosts, wire, is_leaving=side == "leaving"))
    return b"".join(blocks)


class _Wire:
    """What the headers of packets depend on beyond the packet itself."""

    def __init__(self, run: Recorded) -> None:
        packets = run.packets
        ends = packets.group_by("connection", "from_client").agg(
            most=pl.col("rwnd_bytes").max(),
            mss=pl.col("payload_bytes").max(),
            opens=((pl.col("flags") & _SYN) > 0).any(),
        )
        self.mss: dict[int, int] = {}
        self.shift: dict[tuple[int, bool], int] = {}
        for connection, from_client, most, mss, opens in ends.iter_rows():
            self.mss[connection] = max(mss, self.mss.get(connection, 0))
            self.shift[connection, from_client] = max(0, min(14, most.bit_length() - 16)) if opens else 0
        said = packets.filter(packets["sack"] != "")["connection"]
        self.says_sack = set(said.to_list())
        self.echoes: dict[tuple[int, bool], int] = {}

    def window(self, row: dict[str, Any]) -> int:
        """Return the field of the header; that of a SYN is never scaled (RFC 7323 section 2.2)."""
        shift = 0 if row["flags"] & _SYN else self.shift[row["connection"], row["from_client"]]
        return int(min(row["rwnd_bytes"] >> shift, 0xFFFF))

    def options(self, row: dict[str, Any], said: list[str]) -> bytes:
        """Return the options of a packet, aligned; what finds no room is said."""
        connection, from_client, flags = row["connection"], row["from_client"], row["flags"]
        end, options = (connection, from_client), b""
        if flags & _SYN:
            options += struct.pack("!BBH", _MSS, 4, self.mss[connection])
            if connection in self.says_sack:
                options += _NO_OPERATION * 2 + bytes([_SACK_PERMITTED, 2])
            if self.shift[end]:
                options += _NO_OPERATION + bytes([_SCALE, 3, self.shift[end]])
        if row["sack"]:
            # On the wire a SYN takes the place before the first byte.
            edges = [int(edge) + 1 & 0xFFFFFFFF for block in row["sack"].split() for edge in block.split("-")]
            options += _NO_OPERATION * 2 + struct.pack(f"!BB{len(edges)}I", _SACK, 2 + 4 * len(edges), *edges)
        if flags & _EIN_ECHO:
            self.echoes[end] = self.echoes.get(end, 0) + 1
            if len(options) + 8 <= _MOST_OPTIONS:
                options += struct.pack("!BBHI", _EXPERIMENT, 8, _MAGIC, self.echoes[end])
            else:
                said.append("echo of EIN")
        return options


def _packet(
    number: int,
    at_ns: int,
    row: dict[str, Any],
    hosts: dict[tuple[int, bool], tuple[int, int]],
    wire: _Wire,
    *,
    is_leaving: bool,
) -> bytes:
    connection, from_client, flags = row["connection"], row["from_client"], row["flags"]
    if (connection, from_client) in hosts:
        source, destination = hosts[connection, from_client]
    else:
        destination, source = hosts.get((connection, not from_client), (0, 0))
    ports = (10_000 + connection % 50_000, 9_000)
    from_port, to_port = ports if from_client else ports[::-1]
    # As they left: marks that this port set are on what arrived, too.
    tos = (3 if flags & _CE else 2 if flags & _ECT else 0) | (_EIN_IN_TOS if flags & _EIN else 0)
    said = ["dropped: the port did not take it in"] if row["dropped"] and not is_leaving else []
    options = wire.options(row, said)
    length = _HEADERS + len(options) + row["payload_bytes"]
    ip = struct.pack(
        "!BBHHHBBH4s4s", 0x45, tos, length, number & 0xFFFF, 0x4000, 64, 6, 0, _address(source), _address(destination)
    )
    ip = ip[:10] + struct.pack("!H", _checksum(ip)) + ip[12:]
    # On the wire a SYN takes the place before the first byte.
    sequence = row["offset_bytes"] + (0 if flags & _SYN else 1)
    acknowledgement = row["ack_bytes"] + 1 if flags & _ACK else 0
    tcp = struct.pack(
        "!HHIIBBHHH",
        from_port,
        to_port,
        sequence & 0xFFFFFFFF,
        acknowledgement & 0xFFFFFFFF,
        (5 + len(options) // 4) << 4,
        flags & 0xFF,
        wire.window(row),
        0,
        0,
    )
    if flags & _TRIMMED:
        said.append("payload cut off")
    data = ip + tcp + options
    body = struct.pack("<IIIII", 0, at_ns >> 32, at_ns & 0xFFFFFFFF, len(data), max(row["wire_bytes"], length))
    body += _padded(data)
    if said:
        body += _option(_COMMENT, "; ".join(said).encode()) + _option(_END, b"")
    return _block(_PACKET, body)


def perfetto(run: Recorded, port: Port) -> str:
    """Return the run as trace events (JSON), which Perfetto and Chrome open.

    A track per flow has the flow, its waits for timers, and losses and fast retransmits as instants; counters are the
    queue of the port and each flow's data in flight.
    """
    explainer = Explainer(run, port)
    events: list[dict[str, Any]] = []

    def add(kind: str, name: str, at_ps: int, track: int, **more: object) -> None:
        events.append({"ph": kind, "name": name, "ts": at_ps / 1e6, "pid": 1, "tid": track, **more})

    events.append({"ph": "M", "name": "process_name", "pid": 1, "args": {"name": str(run.summary["scenario"])}})
    queue = run.queue(port.link)
    for at, waiting in queue.select("time_ps", "waiting_bytes").iter_rows():
        add("C", f"queue at {port.name}", at, 0, args={"bytes": waiting})
    windows: dict[tuple[Any, ...], pl.DataFrame] = run.windows.partition_by(
        "connection", "from_client", as_dict=True, maintain_order=True
    )
    for flow in run.flows.values():
        story, track = explainer.story(flow), flow.id + 1
        named = f"flow {flow.id}: host {flow.source} to host {flow.destination}"
        events.append({"ph": "M", "name": "thread_name", "pid": 1, "tid": track, "args": {"name": named}})
        add("X", f"flow {flow.id}", flow.begin, track, dur=(flow.end - flow.begin) / 1e6, args={"why": story.headline})
        for wait in story.waits:
            begin = max(wait.armed, flow.begin)
            add("X", wait.kind, begin, track, dur=(wait.fired - begin) / 1e6, args={"packet": wait.segment})
        for at, segment in story.drops:
            add("i", "loss", at, track, s="t", args={"packet": segment})
        for at, segment in story.fast:
            add("i", "fast retransmit", at, track, s="t", args={"packet": segment})
        rows = windows.get((flow.connection, flow.from_client))
        if rows is not None:
            during = rows.filter((rows["time_ps"] >= flow.begin) & (rows["time_ps"] <= flow.end))
            for at, flight in during.select("time_ps", "flight_bytes").iter_rows():
                add("C", f"in flight, flow {flow.id}", at, track, args={"bytes": flight})
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": events}, separators=(",", ":"))


def _address(host: int) -> bytes:
    return struct.pack("!I", (10 << 24) + host + 1)


def _checksum(header: bytes) -> int:
    total: int = sum(struct.unpack("!10H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + _padded(value)


def _block(kind: int, body: bytes) -> bytes:
    length = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + length + body + length
