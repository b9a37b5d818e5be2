"""Ways to ask many servers: from all at once to credit that is learned."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from fan_in.cells import BY_LOOP, MSS_BYTES, THINK_LEARNED, TOLD_HOW_LONG
from fan_in.gradient import Gradient
from incast import requests
from incast.requests import Peer, Plan, Port, sockets

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from fan_in.cells import Cell
    from fan_in.clients import Client

POLICIES = {
    "all": "all at once",
    "semaphore": "semaphore of 4",
    "ars": "strict ARS",
    "clamp": "clamp alone",
    "bytes": "byte budget alone",
    "planned": "credit, planned",
    "told-half": "credit, told half of the think time",
    "told": "credit, told the think time",
    "told-twice": "credit, told twice the think time",
    "told-by-loop": "credit, told, with timers of the event loop",
    "think-learned": "credit, think time learned",
    "learned": "credit, learned",
    "gradient": "adaptive limiter",
    "tower": "tower's limit",
}
# What is ours, and judged.
OURS = ("planned", "told", "think-learned", "learned")
PERMITS = 4
# A window has to be used up before a smaller one holds: so often at most is a server asked for that.
_MOST_DRAINING = 40

Fetch: TypeAlias = "Callable[[], Awaitable[None]]"
Ask: TypeAlias = "Callable[[list[Fetch]], Awaitable[object]]"


def budget_bytes(cell: Cell) -> int:
    """Return the budget that the scheduler derives from the port."""
    budget = requests.open(_planned(cell)).status().budget_bytes
    assert budget is not None  # noqa: S101 - it is planned
    return budget


def window_bytes(cell: Cell) -> int:
    """Return the window of the policy that limits windows only: all of them together fit, if they can."""
    return max(MSS_BYTES, budget_bytes(cell) // cell.workers)


def batch(cell: Cell) -> int:
    """Return the size of ARS's batches: as many responses as fit into the budget, not equation 7."""
    return max(1, budget_bytes(cell) * len(cell.sizes) // sum(cell.sizes))


def _planned(cell: Cell, think_ms: float | None = 0.0) -> Plan:
    port = Port(rate_bps=cell.rate_mbps * 10**6, buffer_bytes=cell.buffer_bytes)
    return Plan(port=port, workers=cell.workers, window_bytes=_window(cell), think_ms=think_ms)


def _window(cell: Cell) -> int | None:
    return cell.window_segments * MSS_BYTES or None


def plan(policy: str, cell: Cell) -> Plan:
    """Return the plan of a policy of our scheduler."""
    if policy == "ars":
        return Plan(scheduler={"name": "ars", "batch_size": batch(cell)})
    if policy == "bytes":
        return Plan(budget_bytes=budget_bytes(cell), clamp=False)
    if policy in TOLD_HOW_LONG:
        return _planned(cell, cell.think_ms * TOLD_HOW_LONG[policy])
    if policy == THINK_LEARNED:
        return _planned(cell, think_ms=None)
    return _planned(cell) if policy == "planned" else Plan(window_bytes=_window(cell))


def in_rust(policy: str, cell: Cell) -> dict[str, Any]:
    """Return a policy as the client in Rust is told of it."""
    window = {"window_bytes": _window(cell)}
    port = {"rate_bps": cell.rate_mbps * 10**6, "buffer_bytes": cell.buffer_bytes, **window}
    told: dict[str, dict[str, Any]] = {
        "all": {},
        "semaphore": {"permits": PERMITS},
        "clamp": {"window_bytes": window_bytes(cell)},
        "bytes": {"budget_bytes": budget_bytes(cell)},
        "planned": port,
        "told": port,
        THINK_LEARNED: port,
        "learned": window,
        "tower": {"requests": batch(cell)},
    }
    return {policy: told[policy]}


@asynccontextmanager
async def opened(policy: str, cell: Cell, client: Client, state: dict[str, Any]) -> AsyncIterator[Ask]:
    """Return what sends the requests of a query. `state` afterwards has what the policy came to."""
    if policy in {"all", "clamp"}:
        if policy == "clamp":
            await _limit_windows(cell, client)
        yield lambda fetches: asyncio.gather(*(fetch() for fetch in fetches))
    elif policy == "semaphore":
        permits = asyncio.Semaphore(PERMITS)

        async def permitted(fetch: Fetch) -> None:
            async with permits:
                await fetch()

        yield lambda fetches: asyncio.gather(*map(permitted, fetches))
    elif policy == "gradient":
        limiter = Gradient()
        yield lambda fetches: asyncio.gather(*(limiter.run(fetch()) for fetch in fetches))
        state["limit"] = limiter.limit
    else:
        clock = time.monotonic_ns if policy == BY_LOOP else None
        async with requests.open(plan(policy, cell), clock=clock) as scheduler:
            known = None
            if policy != "bytes":
                known = [Peer(client.socket(worker)) for worker in range(cell.workers)] * cell.streams
            yield lambda fetches: scheduler.gather(
                *(_of_slot(fetch) for fetch in fetches), expect_bytes=list(cell.sizes), sockets=known
            )
            status = scheduler.status()
            state |= {"budget_bytes": status.budget_bytes, "changes": status.changes}


def _of_slot(fetch: Fetch) -> Callable[[object], Awaitable[None]]:
    return lambda _slot: fetch()


async def _limit_windows(cell: Cell, client: Client) -> None:
    """Limit all windows, and use up what had been announced before, with few requests at a time."""
    wanted = window_bytes(cell)
    permits = asyncio.Semaphore(PERMITS)

    async def drained(worker: int) -> None:
        sock = client.socket(worker)
        for _ in range(_MOST_DRAINING):
            sockets.limit_window(sock, wanted)
            found = sockets.info(sock)
            if found is None or found.window_bytes is None or found.window_bytes <= wanted + MSS_BYTES:
                break
            async with permits:
                await client.fetch(worker, cell.sizes[worker])

    await asyncio.gather(*map(drained, range(cell.workers)))
