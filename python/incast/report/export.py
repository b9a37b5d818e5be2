"""What was recorded, for programs that read traces: Wireshark and Perfetto."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from incast.report.explain import Explainer

if TYPE_CHECKING:
    import polars as pl

    from incast.report.recorded import Port, Recorded

Side: TypeAlias = Literal["arriving", "leaving"]

_HEADERS = 40
_LINKTYPE_IPV4 = 228
_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6
_END, _COMMENT, _NAME, _RESOLUTION = 0, 1, 2, 9
_SYN, _ACK = 2, 16
_ECT, _CE, _EIN, _EIN_ECHO, _TRIMMED = 256, 512, 1024, 2048, 4096


def pcapng(run: Recorded, port: Port, side: Side = "arriving") -> bytes:
    """Return the packets at one side of a port as a capture file (pcapng).

    Times are in nanoseconds, and packets have headers only. Arriving packets that were dropped say so in a comment, as
    do marks that the headers of IP have no place for. Host `n` has the address 10.0.0.0 plus `n + 1`, the side that
    opens connection `c` the port `10000 + c % 50000`, and the other side port 9000. Windows above 65,535 bytes are cut
    to that.
    """
    rows = run.packets.filter(run.packets["link"] == port.link)
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
        blocks.append(_packet(number, (at + 500) // 1000, row, hosts, is_leaving=side == "leaving"))
    return b"".join(blocks)


def _packet(
    number: int, at_ns: int, row: dict[str, Any], hosts: dict[tuple[int, bool], tuple[int, int]], *, is_leaving: bool
) -> bytes:
    connection, from_client, flags = row["connection"], row["from_client"], row["flags"]
    if (connection, from_client) in hosts:
        source, destination = hosts[connection, from_client]
    else:
        destination, source = hosts.get((connection, not from_client), (0, 0))
    ports = (10_000 + connection % 50_000, 9_000)
    from_port, to_port = ports if from_client else ports[::-1]
    # As they left: marks that this port set are on what arrived, too.
    ecn = 3 if flags & _CE else 2 if flags & _ECT else 0
    length = _HEADERS + row["payload_bytes"]
    ip = struct.pack(
        "!BBHHHBBH4s4s", 0x45, ecn, length, number & 0xFFFF, 0x4000, 64, 6, 0, _address(source), _address(destination)
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
        0x50,
        flags & 0xFF,
        min(row["rwnd_bytes"], 0xFFFF),
        0,
        0,
    )
    said = ["dropped: the port did not take it in"] if row["dropped"] and not is_leaving else []
    told = ((_EIN, "EIN"), (_EIN_ECHO, "echo of EIN"), (_TRIMMED, "payload cut off"))
    said += [words for bit, words in told if flags & bit]
    data = ip + tcp
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
    queue = run.queues.filter(run.queues["link"] == port.link)
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
