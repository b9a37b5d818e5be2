"""What `incast-host attach` tells of single packets, beside what the queue and the sender have counted."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from slow_port import RECEIVER, Attach, Bottleneck

MEGABYTE = 1_000_000


def test_drops_and_retransmissions_are_those_that_others_count(attach: Attach, bottleneck: Bottleneck) -> None:
    """Of the namespaces that are named, and of no others."""
    everywhere = [f"/run/netns/{bottleneck.netns(host)}" for host in ("a", "switch", "b")]
    nothing: dict[str, object] = {"cgroup": None, "senders": [], "ports": [], "receivers": []}
    attached, elsewhere = attach({**nothing, "events": everywhere}), attach({**nothing, "events": everywhere[-1:]})
    port = bottleneck.receiver("reno", inside=False)
    result = bottleneck.send("reno", port, 4 * MEGABYTE, inside=False).result()
    assert result["arrived"] == 4 * MEGABYTE
    # The kernel frees this SYN as one that was dropped, but it has come.
    assert bottleneck.start_program("a", "peer.py", "refused", RECEIVER, inside=False).wait() == 0
    events = attached.report()["events"]
    assert events["lost"] == 0
    rows = events["rows"]
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    kinds = Counter(row[1] for row in rows)
    # Both ends of one connection.
    assert kinds["established"] == 2
    assert kinds["drop"] == bottleneck.drops() > 0
    assert {row[6] for row in rows if row[1] == "drop"} == {"b"}
    # What leaves again in one piece is told of once, with all its bytes.
    again = sum(-(-row[5] // 1448) for row in rows if row[1] == "retransmission")
    assert again == result["retransmitted"] > 0
    assert kinds["fast-retransmit"] > 0
    receiver = f"{RECEIVER}:{port}"
    assert all(receiver in row[2:4] for row in rows)
    assert {(row[1], row[2]) for row in elsewhere.report()["events"]["rows"]} == {("established", receiver)}


def test_marks_and_packets_at_a_port_are_those_that_others_count(attach: Attach, bottleneck: Bottleneck) -> None:
    """Marks of a port that tells of them, and each packet that has come to it, has left it, or was dropped."""
    # Of marks on what neighbours ask by IPv6 nothing is told.
    for host in ("a", "switch", "b"):
        bottleneck.set_sysctls(host, "net.ipv6.conf.all.disable_ipv6=1")
    name = f"pulser_{os.getpid()}"
    switch = f"/run/netns/{bottleneck.netns('switch')}"
    attached = attach({
        "cgroup": None,
        "senders": [{"algorithm": "pulser", "name": name, "parameters": {}}],
        "ports": [bottleneck.port(ce_threshold_bytes=20_000, ein={})],
        "receivers": [],
        "events": [switch],
        "followed": [
            {"netns": switch, "device": "b", "peer_netns": f"/run/netns/{bottleneck.netns('b')}", "peer_device": "eth0"}
        ],
    })  # fmt: skip
    port = bottleneck.receiver(name, inside=False)
    transfers = [bottleneck.send(name, port, MEGABYTE // 4, inside=False) for _ in range(8)]
    assert [transfer.result()["arrived"] for transfer in transfers] == 8 * [MEGABYTE // 4]
    report = attached.report()
    rows, (counted,) = report["events"]["rows"], report["ports"]
    assert report["events"]["lost"] == 0
    kinds = Counter(row[1] for row in rows)
    assert (kinds["ce-mark"], kinds["ein-mark"]) == (counted["ce_marks"], counted["ein_marks"])
    assert kinds["ce-mark"] > 0
    assert kinds["ein-mark"] > 0
    assert {row[6] for row in rows if row[1] != "delivery"} == {"b"}
    # Version 4 and five words, and the byte with DSCP and ECN: a mark for CE is there before the packet is queued.
    headers = [bytes.fromhex(row[8]) for row in rows if row[1] == "arrival"]
    assert all(header[0] == 0x45 and len(header) >= 40 for header in headers)
    assert sum(header[1] & 3 == 3 for header in headers) == kinds["ce-mark"]
    # Each is dropped or comes to the other end of the cable, where its mark is set. Of other protocols than TCP no
    # arrival is told. Some kernels leave programs at tracepoints out, so a departure may be missing.
    waiting: set[int] = set()
    delivered = departures = 0
    for kind, packet in ((row[1], row[7]) for row in rows):
        if kind == "arrival":
            waiting.add(packet)
        departures += kind == "departure" and packet in waiting
        assert kind != "ein-mark" or packet in waiting
        if kind == "delivery" and packet in waiting:
            waiting.remove(packet)
            delivered += 1
    assert len(waiting) <= bottleneck.drops()
    assert delivered == kinds["arrival"] - bottleneck.drops()
    assert departures == pytest.approx(delivered, rel=0.05)
