"""Servers that answer, and a client that asks all of them at once, for the tests beside it.

`answer ADDRESS` says its port and answers each request, eight bytes, with as many bytes as those say. `ask ADDRESS PORT
CONNECTIONS BYTES ROUNDS told|learned` asks round by round, and says what came and what the servers were announced.
`surprise ADDRESS PORT` asks on one connection for what nobody can expect, and says how long each took.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

# Offset in struct tcp_info.
ANNOUNCED = 228
# What is told of a response, by a socket option of the receiver's program: bytes, and microseconds from now.
EXPECTED = (0x1CA5, 2)
NUMBER = struct.Struct("!Q")


def take(connection: socket.socket, count: int) -> bytes:
    """Read up to this many bytes; fewer if the other end closes first."""
    taken = bytearray()
    while len(taken) < count and (data := connection.recv(count - len(taken))):
        taken += data
    return bytes(taken)


def answer_on(connection: socket.socket) -> None:
    """Answer, and in the end say what window was the largest that was seen."""
    most = 0
    while request := take(connection, NUMBER.size):
        (size,) = NUMBER.unpack(request)
        if size == 0:
            connection.sendall(NUMBER.pack(most))
            break
        most = max(most, announced(connection))
        # Sent in pieces, so that the window is looked at meanwhile.
        while size > 0:
            size -= connection.send(bytes(min(size, 1448)))
            most = max(most, announced(connection))
    connection.close()


def announced(connection: socket.socket) -> int:
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 280)
    window: int = struct.unpack_from("I", info, ANNOUNCED)[0]
    return window


def answer(address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family, backlog=512) as listening:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
        print(listening.getsockname()[1], flush=True)
        while True:
            connection, _ = listening.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=answer_on, args=(connection,), daemon=True).start()


def ask(address: str, port: int, connections: int, size: int, rounds: int, how: str) -> None:
    opened = [socket.create_connection((address, port)) for _ in range(connections)]
    arrived = []
    with ThreadPoolExecutor(connections) as pool:
        for _ in range(rounds):
            for connection in opened:
                if how == "told":
                    connection.setsockopt(*EXPECTED, struct.pack("QQ", size, 0))
                connection.sendall(NUMBER.pack(size))
            arrived.append(sum(len(data) for data in pool.map(take, opened, connections * [size])))
    most: list[int] = []
    for connection in opened:
        connection.sendall(NUMBER.pack(0))
        most += NUMBER.unpack(take(connection, NUMBER.size))
    print(json.dumps({"arrived": arrived, "announced": max(most)}))


def surprise(address: str, port: int) -> None:
    """Ask for little and then for much, say too little, or nothing; end with what the server ends."""
    took = {}

    def timed(name: str, connection: socket.socket, sizes: list[int]) -> None:
        began = time.monotonic()
        for size in sizes:
            connection.sendall(NUMBER.pack(size))
        assert len(take(connection, sum(sizes))) == sum(sizes)
        took[name] = time.monotonic() - began

    with socket.create_connection((address, port)) as connection:
        timed("first", connection, [100_000])
        timed("much less", connection, [2000])
        timed("much more", connection, [200_000])
        timed("two at once", connection, [50_000, 50_000])
        connection.setsockopt(*EXPECTED, struct.pack("QQ", 3000, 0))
        timed("more than was told", connection, [60_000])
        time.sleep(0.3)
        timed("after a pause", connection, [60_000])
        began = time.monotonic()
        connection.sendall(NUMBER.pack(0))
        assert len(take(connection, NUMBER.size)) == NUMBER.size
        # The server closes.
        assert connection.recv(1) == b""
        took["end"] = time.monotonic() - began
    print(json.dumps(took))


if __name__ == "__main__":
    if sys.argv[1] == "answer":
        answer(sys.argv[2])
    elif sys.argv[1] == "surprise":
        surprise(sys.argv[2], int(sys.argv[3]))
    else:
        port, connections, size, rounds = map(int, sys.argv[3:7])
        ask(sys.argv[2], port, connections, size, rounds, sys.argv[7])
