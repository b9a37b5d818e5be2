"""One end of TCP connections, for the tests beside it.

`receive ALGORITHM ADDRESS` says its port, and `send ALGORITHM ADDRESS PORT BYTES [DEADLINE]` what it saw. The
deadline is in microseconds from the handshake. `refused ADDRESS` connects to a port at which nobody listens.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import sys
import threading

# Offsets in struct tcp_info.
OPTIONS, CWND, RETRANSMITTED, DELIVERED_CE, ANNOUNCED = 5, 80, 100, 196, 228
ECN_NEGOTIATED = 8
# What is told of a message, by a socket option of the program at sockets: bytes, and microseconds from now.
MESSAGE = (0x1CA5, 1)


def new_socket(algorithm: str, address: str) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, algorithm.encode())
    return made


def take_all(connection: socket.socket) -> None:
    """Take all bytes, and say how many there were."""
    total = 0
    while data := connection.recv(1 << 16):
        total += len(data)
    connection.sendall(total.to_bytes(8, "big"))
    connection.close()


def receive(algorithm: str, address: str) -> None:
    listening = new_socket(algorithm, address)
    listening.bind((address, 0))
    listening.listen(128)
    print(listening.getsockname()[1], flush=True)
    while True:
        connection, _ = listening.accept()
        threading.Thread(target=take_all, args=(connection,), daemon=True).start()


def send(algorithm: str, address: str, port: int, size: int, within_us: int = 0) -> None:
    connection = new_socket(algorithm, address)
    # Little is buffered here, so that the window is looked at all the time.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
    connection.connect((address, port))
    print("connected", flush=True)
    if within_us:
        connection.setsockopt(*MESSAGE, struct.pack("QQ", size, within_us))
    windows, announced, left, data = [], [], size, bytes(1 << 13)
    while left > 0:
        left -= connection.send(data[: min(left, len(data))])
        now = info(connection)
        windows.append(struct.unpack_from("I", now, CWND)[0])
        announced.append(struct.unpack_from("I", now, ANNOUNCED)[0])
    connection.shutdown(socket.SHUT_WR)
    arrived = int.from_bytes(connection.recv(8), "big")
    last = info(connection)
    result = {
        "arrived": arrived,
        "windows": windows,
        "announced": announced,
        "ecn": bool(last[OPTIONS] & ECN_NEGOTIATED),
        "retransmitted": struct.unpack_from("I", last, RETRANSMITTED)[0],
        "delivered_ce": struct.unpack_from("I", last, DELIVERED_CE)[0],
    }
    print(json.dumps(result))


def refused(address: str) -> None:
    with contextlib.suppress(ConnectionRefusedError):
        new_socket("reno", address).connect((address, 1))
        sys.exit("somebody listens at port 1")


def info(connection: socket.socket) -> bytes:
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 280)


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive(*sys.argv[2:4])
    elif sys.argv[1] == "refused":
        refused(sys.argv[2])
    else:
        send(sys.argv[2], sys.argv[3], *map(int, sys.argv[4:]))
