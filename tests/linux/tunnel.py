"""A device that is no end of a veth pair: what is sent to it comes out of a file, as it leaves the queue.

`DEVICE` makes the device in this process's network namespace. After a line on standard input datagrams of IPv4 and
IPv6 are sent to it, and it is said how many of each came out, how many of them had the incast mark, and how many
headers had a wrong checksum.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import socket
import struct
import subprocess
import sys
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
MARK = 4
EACH, PAUSE_S = 100, 0.001
ADDRESSES = ("10.9.0.2", "fd09::2")


def checksum(header: bytes) -> int:
    """Sum up as IPv4 does; 0 if the header is right."""
    total: int = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def main(device: str) -> None:
    tunnel = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tunnel, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TUN | IFF_NO_PI))
    for command in (
        f"ip addr add 10.9.0.1/24 dev {device}",
        f"ip -6 addr add fd09::1/64 dev {device} nodad",
        f"ip link set dev {device} up",
    ):
        subprocess.run(command.split(), check=True)
    print("made", flush=True)
    assert sys.stdin.readline() == "send\n"
    for address in ADDRESSES:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as sending:
            for _ in range(EACH):
                sending.sendto(bytes(1000), (address, 9))
                # Four times as fast as the queue lets them out.
                time.sleep(PAUSE_S)
    came, marked, wrong = {4: 0, 6: 0}, {4: 0, 6: 0}, 0
    while came[4] + came[6] < 2 * EACH:
        if not select.select([tunnel], [], [], 5)[0]:
            break
        packet = os.read(tunnel, 2000)
        version = packet[0] >> 4
        # Neighbours are looked for, too.
        if len(packet) < 1000:
            continue
        came[version] += 1
        tos = (packet[0] << 4 | packet[1] >> 4) & 0xFF if version == 6 else packet[1]
        marked[version] += bool(tos & MARK)
        wrong += version == 4 and checksum(packet[:20]) != 0
    print(json.dumps({"came": list(came.values()), "marked": list(marked.values()), "wrong": wrong}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
