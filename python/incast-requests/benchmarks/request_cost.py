"""What a request costs more through the scheduler: 10,000 requests that wait, in microseconds of CPU each.

Usage: request_cost.py [repetitions]. Policies run in turn, and the least of all repetitions counts: others on the
machine can only add to it. A request does nothing but let others run once. "None waits": one request after the other,
of which each does nothing at all.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
import time
from collections import deque
from typing import TYPE_CHECKING

import incast_requests.sockets

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

REQUESTS = 10_000
# Seven fit. A scheduler that learns begins with four windows, so that as many fit as with the plan.
EXPECT_BYTES, BUDGET_BYTES, AT_ONCE = 8192, 57_344, 7
WINDOW_BYTES = BUDGET_BYTES // 4

Policy = "Callable[[], Awaitable[object]]"


def least(found: dict[str, list[float]]) -> dict[str, float]:
    """Return the least of each, in microseconds per request."""
    return {name: 1e6 * min(times) / REQUESTS for name, times in found.items()}


async def measure(policies: dict[str, Callable[[], Awaitable[object]]], repetitions: int) -> dict[str, float]:
    """Return the CPU time of each policy, in microseconds per request."""
    found: dict[str, list[float]] = {name: [] for name in policies}
    for _ in range(repetitions):
        for name, policy in policies.items():
            gc.collect()
            start = time.process_time()
            await policy()
            found[name].append(time.process_time() - start)
    return least(found)


def use(client: socket.socket, server: socket.socket) -> None:
    """Let responses come over a connection until it announces the window to which a scheduler limits it."""
    for _ in range(100):
        server.sendall(bytes(EXPECT_BYTES))
        client.recv(EXPECT_BYTES, socket.MSG_WAITALL)
        incast_requests.sockets.limit_window(client, WINDOW_BYTES)
        known = incast_requests.sockets.info(client)
        if known and known.window_bytes is not None and known.window_bytes <= WINDOW_BYTES:
            return
    raise SystemExit("the connection does not announce the window to which it is limited")


async def on_asyncio(repetitions: int) -> dict[str, float]:
    """Measure with asyncio."""
    semaphore = asyncio.Semaphore(AT_ONCE)
    ours, theirs = socket.socketpair()
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    server, _ = listener.accept()
    peer = incast_requests.Peer(client)
    use(client, server)

    async def work() -> None:
        await asyncio.sleep(0)

    async def limited() -> None:
        async with semaphore:
            await work()

    free = AT_ONCE
    queue: deque[asyncio.Future[None]] = deque()

    async def least() -> None:
        """Wait with nothing but a future: no scheduler that lets tasks wait can cost less."""
        nonlocal free
        if free:
            free -= 1
        else:
            waiter = asyncio.get_running_loop().create_future()
            queue.append(waiter)
            await waiter
        await work()
        if queue:
            queue.popleft().set_result(None)
        else:
            free += 1

    async def group() -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(REQUESTS):
                tasks.create_task(work())

    known = incast_requests.Plan(budget_bytes=BUDGET_BYTES)
    # As many fit, and it is found out how long servers think.
    port = incast_requests.Port(rate_bps=1_000_000_000, buffer_bytes=2 * BUDGET_BYTES)
    of_port = incast_requests.Plan(port=port, budget_bytes=BUDGET_BYTES)
    # Nothing comes, which is no stall.
    unknown = incast_requests.Plan(
        window_bytes=WINDOW_BYTES, scheduler={"name": "credit", "search": {"stall": "1000s"}}
    )
    async with incast_requests.open(known) as fixed, incast_requests.open(of_port) as ported:

        async def learning(ask: Callable[[incast_requests.Scheduler], Awaitable[object]]) -> None:
            # Anew, as what was learned would change how many fit.
            async with incast_requests.open(unknown) as scheduler:
                await ask(scheduler)

        async def slot(
            over: incast_requests.Peer | socket.socket | None = None, of: incast_requests.Scheduler = fixed
        ) -> None:
            async with of.slot(expect_bytes=EXPECT_BYTES, socket=over):
                await work()

        async def in_turn(over: incast_requests.Peer | socket.socket | None = None) -> None:
            for _ in range(REQUESTS):
                async with fixed.slot(expect_bytes=EXPECT_BYTES, socket=over):
                    pass

        async def semaphore_in_turn() -> None:
            for _ in range(REQUESTS):
                async with semaphore:
                    pass

        async def asked() -> None:
            for _ in range(REQUESTS):
                incast_requests.sockets.info(client)

        in_turns: dict[str, Callable[[], Awaitable[object]]] = {
            "asyncio.Semaphore": semaphore_in_turn,
            "slot": in_turn,
            "slot, with a peer": lambda: in_turn(peer),
            "slot, with a socket": lambda: in_turn(client),
            "the kernel asked once": asked,
        }
        policies: dict[str, Callable[[], Awaitable[object]]] = {
            "plain": lambda: asyncio.gather(*(work() for _ in range(REQUESTS))),
            "asyncio.TaskGroup": group,
            "a future in a queue": lambda: asyncio.gather(*(least() for _ in range(REQUESTS))),
            "asyncio.Semaphore": lambda: asyncio.gather(*(limited() for _ in range(REQUESTS))),
            "slot": lambda: asyncio.gather(*(slot() for _ in range(REQUESTS))),
            "slot, with a peer": lambda: asyncio.gather(*(slot(peer) for _ in range(REQUESTS))),
            "slot, with a socket": lambda: asyncio.gather(*(slot(client) for _ in range(REQUESTS))),
            "slot, with a port, with a peer": lambda: asyncio.gather(*(slot(peer, ported) for _ in range(REQUESTS))),
            "slot, with a port, with a socket": lambda: asyncio.gather(
                *(slot(client, ported) for _ in range(REQUESTS))
            ),
            "slot, learning, with a peer": lambda: learning(
                lambda of: asyncio.gather(*(slot(peer, of) for _ in range(REQUESTS)))
            ),
            "slot, learning, with a socket": lambda: learning(
                lambda of: asyncio.gather(*(slot(client, of) for _ in range(REQUESTS)))
            ),
            "gather": lambda: fixed.gather(*(work() for _ in range(REQUESTS)), expect_bytes=EXPECT_BYTES),
            "gather, learning": lambda: learning(
                lambda of: of.gather(*(work() for _ in range(REQUESTS)), expect_bytes=EXPECT_BYTES)
            ),
            "gather, with peers": lambda: fixed.gather(
                *(work() for _ in range(REQUESTS)), expect_bytes=EXPECT_BYTES, sockets=[peer] * REQUESTS
            ),
            "gather, with sockets": lambda: fixed.gather(
                *(work() for _ in range(REQUESTS)), expect_bytes=EXPECT_BYTES, sockets=[client] * REQUESTS
            ),
        }
        found = await measure(policies, repetitions)
        found |= {f"{name}, none waits": us for name, us in (await measure(in_turns, repetitions)).items()}
    for sock in (ours, theirs, listener, client, server):
        sock.close()
    return found


async def on_trio(repetitions: int) -> dict[str, float]:
    """Measure with trio."""
    import trio

    async def work() -> None:
        await trio.lowlevel.checkpoint()

    async def plain() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(REQUESTS):
                nursery.start_soon(work)

    limiter = trio.Semaphore(AT_ONCE)

    async def limited() -> None:
        async with limiter:
            await work()

    async def semaphore() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(REQUESTS):
                nursery.start_soon(limited)

    async with incast_requests.open(incast_requests.Plan(budget_bytes=BUDGET_BYTES)) as fixed:
        return await measure(
            {
                "plain": plain,
                "trio.Semaphore": semaphore,
                "gather": lambda: fixed.gather(*(work() for _ in range(REQUESTS)), expect_bytes=EXPECT_BYTES),
            },
            repetitions,
        )


def show(loop: str, found: dict[str, float]) -> None:
    """Print a table."""
    print(f"{loop}: plain {found['plain']:.1f} us")
    for name, microseconds in found.items():
        if name.endswith("none waits"):
            print(f"  {name:<34} {microseconds:6.1f} us")
        elif name != "plain":
            print(f"  {name:<34} {microseconds - found['plain']:+6.1f} us over plain")


def main(arguments: list[str]) -> None:
    """Measure and print."""
    repetitions = int(arguments[0]) if arguments else 7
    show("asyncio", asyncio.run(on_asyncio(repetitions)))
    try:
        import trio
    except ImportError:
        return
    show("trio", trio.run(on_trio, repetitions))


if __name__ == "__main__":
    main(sys.argv[1:])
