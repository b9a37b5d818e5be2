"""Sends frames as nobody should, and counts datagrams, for the tests beside it.

`send DEVICE PORT` sends them, and datagrams to the receiver's port; `count ADDRESS` receives these.
"""

from __future__ import annotations

import json
import socket
import struct
import sys

IPV4, IPV6, VLAN = 0x0800, 0x86DD, 0x8100
RECEIVER = "10.0.2.2"
# The lowest bit of the DSCP.
MARK = 4
# Of each kind of frame so many, which leave the queue together.
DATAGRAMS, EACH = 60, 10


def ethernet(kind: int, payload: bytes) -> bytes:
    """Return a frame that no host takes."""
    return bytes.fromhex("020000000001020000000002") + struct.pack("!H", kind) + payload


def whole_ipv4() -> bytes:
    """Return an IPv4 packet without data, whose checksum nobody looks at."""
    return struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20, 0, 0, 64, 255, 0, bytes(4), bytes(4))


MALFORMED = [
    ethernet(IPV4, b""),
    ethernet(IPV4, b"\x45"),
    ethernet(IPV4, b"\x40" + bytes(40)),
    ethernet(IPV4, b"\x65" + bytes(40)),
    ethernet(IPV6, b"\x60"),
    ethernet(IPV6, b"\x45" + bytes(60)),
    ethernet(0x88B5, bytes(60)),
    ethernet(VLAN, b"\0"),
    ethernet(VLAN, struct.pack("!HH", 5, IPV4)),
]
TAGGED = ethernet(VLAN, struct.pack("!HH", 5, IPV4) + whole_ipv4() + bytes(30))


def send(device: str, port: int) -> None:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
        raw.bind((device, 0))
        for _ in range(DATAGRAMS):
            datagrams.sendto(bytes(1000), (RECEIVER, port))
        for frame in [*MALFORMED, TAGGED]:
            for _ in range(EACH):
                raw.send(frame)
        # The last one, and so empty.
        datagrams.sendto(b"", (RECEIVER, port))


def count(address: str) -> None:
    """Say a port, and at the end how many datagrams came and how many of them had the mark."""
    with socket.socket(type=socket.SOCK_DGRAM) as receiving:
        receiving.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        receiving.bind((address, 0))
        print(receiving.getsockname()[1], flush=True)
        came, marked, length = 0, 0, 1
        while length:
            data, ancillary, _, _ = receiving.recvmsg(2000, 64)
            length = len(data)
            came += 1
            marked += bool(ancillary[0][2][0] & MARK)
        print(json.dumps({"came": came, "marked": marked}))


if __name__ == "__main__":
    if sys.argv[1] == "send":
        send(sys.argv[2], int(sys.argv[3]))
    else:
        count(sys.argv[2])
