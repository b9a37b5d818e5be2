"""What `incast-host attach` tells of single packets, beside what the queue and the sender have counted."""

from __future__ import annotations

from collections import Counter

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
