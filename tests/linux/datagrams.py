"""Sends datagrams from many sockets, for the tests beside it.

`ADDRESS SOCKETS ROUNDS BYTES`: each round has one datagram of each socket.
"""

from __future__ import annotations

import socket
import sys


def main(address: str, sockets: int, rounds: int, size: int) -> None:
    every = [socket.socket(type=socket.SOCK_DGRAM) for _ in range(sockets)]
    for _ in range(rounds):
        for each in every:
            # To where nobody listens: the answers have no ports.
            each.sendto(bytes(size), (address, 9))
    for each in every:
        each.close()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
