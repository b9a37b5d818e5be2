"""How long a query of a few small responses takes over loopback, with and without the scheduler.

Usage: query_cost.py [bytes [servers]]. One process has the servers, on another processor where there is one. Policies
run in turns, and the median counts.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import selectors
import socket
import statistics
import sys
import time
from typing import TYPE_CHECKING

import incast_requests

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

REQUEST = b"8 bytes\n"
TURNS, QUERIES, TO_WARM_UP = 12, 30, 10
PORT = incast_requests.Port(rate_bps=100_000_000, buffer_bytes=64 << 10)


def serve(listener: socket.socket, size: int, servers: int) -> None:
    """Answer each request over each connection, until all are closed."""
    stay_on(0)
    body = bytes(size)
    with selectors.DefaultSelector() as waits:
        for _ in range(servers):
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            waits.register(connection, selectors.EVENT_READ, connection)
        while waits.get_map():
            for key, _ in waits.select():
                connection = key.data
                if connection.recv(len(REQUEST)):
                    connection.sendall(body)
                else:
                    waits.unregister(connection)
                    connection.close()


def stay_on(place: int) -> None:
    """Run on one processor of those that there are."""
    processors = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {processors[place % len(processors)]})


async def measure(address: tuple[str, int], size: int, servers: int) -> dict[str, float]:
    """Return the median time of a query by its policy, in microseconds."""
    streams = [await asyncio.open_connection(*address) for _ in range(servers)]
    peers = [incast_requests.Peer(writer) for _, writer in streams]

    async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(REQUEST)
        await reader.readexactly(size)

    async with incast_requests.open(incast_requests.Plan(port=PORT, workers=servers)) as scheduler:
        policies: dict[str, Callable[[], Awaitable[object]]] = {
            "asyncio.gather": lambda: asyncio.gather(*(ask(*stream) for stream in streams)),
            "gather": lambda: scheduler.gather(*(ask(*stream) for stream in streams), expect_bytes=size),
            "gather, with peers": lambda: scheduler.gather(
                *(ask(*stream) for stream in streams), expect_bytes=size, sockets=peers
            ),
        }
        found: dict[str, list[float]] = {name: [] for name in policies}
        for _ in range(TURNS):
            for name, query in policies.items():
                for _ in range(TO_WARM_UP):
                    await query()
                start = time.perf_counter()
                for _ in range(QUERIES):
                    await query()
                found[name].append((time.perf_counter() - start) / QUERIES)
    for _, writer in streams:
        writer.close()
        await writer.wait_closed()
    return {name: 1e6 * statistics.median(times) for name, times in found.items()}


def main(arguments: list[str]) -> None:
    """Measure and print."""
    size, servers = [int(argument) for argument in arguments] + [2000, 1][len(arguments) :]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = multiprocessing.get_context("fork").Process(target=serve, args=(listener, size, servers))
        process.start()
        stay_on(1)
        found = asyncio.run(measure(listener.getsockname(), size, servers))
        process.join()
    plain = found.pop("asyncio.gather")
    print(f"{servers} x {size} bytes: asyncio.gather {plain:.0f} us")
    for name, microseconds in found.items():
        print(f"  {name:<20} {microseconds - plain:+5.0f} us over asyncio.gather")


if __name__ == "__main__":
    main(sys.argv[1:])
