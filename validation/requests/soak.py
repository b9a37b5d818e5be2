"""The scheduler for a long time beside servers that misbehave: does anything grow? `make soak` does it for ten minutes.

Sixteen clients ask sixteen servers over loopback, again and again. In each query one server may die, stall, or answer
too much or too little; some queries are cancelled, and requests to servers that stall have time-outs. Twenty times it
says how much memory, how many descriptors and how many tasks the process has, and whether all credit is there
between two queries. Servers and clients are one process.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import cyclopts

from fan_in import unruly
from incast import requests
from incast.requests import Peer, Plan, Port

if TYPE_CHECKING:
    from collections.abc import Callable

SERVERS = 16
_SIZES = (2_000, 16_000, 48_000)
_PATIENCE_S = 0.05
_CANCELLED = 0.1
_LINES = 20
# Each quarter needs one.
_FEWEST = 4
# Memory of the last quarter, over that of the second: the first is for warming up.
_MAY_GROW = 0.02
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

app = cyclopts.App(help=__doc__)


@dataclass(frozen=True)
class Sample:
    """What the process has between two queries, when nothing is under way."""

    after_s: float
    queries: int
    completed: int
    failed: int
    rss_bytes: int
    descriptors: int
    tasks: int
    in_use_bytes: int
    remembered: int
    """Requests of which the scheduler still knows something."""


class Grew(Exception):  # noqa: N818 - a finding
    """Something is there that should be gone."""


async def soak(
    goes_on: Callable[[int], bool], samples_at: Callable[[int], bool], plan: Plan, pause_s: float, seed: int
) -> list[Sample]:
    """Ask as long as `goes_on` says so of the number of queries; return samples of when `samples_at` says so of it."""
    draw, samples, began = random.Random(seed), [], time.monotonic()  # noqa: S311 - it draws sizes
    async with contextlib.AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(unruly.Server().running()) for _ in range(SERVERS)]
        clients = [unruly.Client(server.port) for server in servers]
        for client in clients:
            stack.callback(client.close)
        peers = [Peer() for _ in clients]
        scheduler = await stack.enter_async_context(requests.open(plan))
        queries = 0
        while goes_on(queries):
            sizes = [draw.choice(_SIZES) for _ in clients]
            ways = ["well"] * SERVERS
            ways[draw.randrange(SERVERS)] = draw.choice(unruly.WAYS)

            async def timed(slot: requests.Slot, client: unruly.Client, size: int, way: str) -> int:
                # Whoever stalls is given up; others have all the time that a busy machine takes.
                async with asyncio.timeout(_PATIENCE_S if way == "stalls" else None):
                    return await client.fetch(size, way)(slot)

            jobs = [lambda slot, what=what: timed(slot, *what) for what in zip(clients, sizes, ways, strict=True)]
            gathered = asyncio.ensure_future(
                scheduler.gather(*jobs, expect_bytes=sizes, sockets=peers, return_exceptions=True)
            )
            if draw.random() < _CANCELLED:
                for _ in range(draw.randrange(30)):
                    await asyncio.sleep(0)
                gathered.cancel()
            await asyncio.wait([gathered])
            while scheduler.status().outstanding:
                await asyncio.sleep(0.001)
            queries += 1
            if samples_at(queries):
                await asyncio.sleep(0.01)  # so that transports close
                samples.append(_sample(scheduler, queries, time.monotonic() - began))
            await asyncio.sleep(pause_s)
    return samples


def _sample(scheduler: requests.Scheduler, queries: int, after_s: float) -> Sample:
    gc.collect()
    status = scheduler.status()
    rss_pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return Sample(
        after_s=after_s,
        queries=queries,
        completed=status.completed,
        failed=status.failed,
        rss_bytes=rss_pages * _PAGE_BYTES,
        descriptors=len(os.listdir("/proc/self/fd")),  # noqa: PTH208 - their names are all there is
        tasks=len(asyncio.all_tasks()),
        in_use_bytes=status.in_use_bytes,
        remembered=scheduler._core.waiters() + len(scheduler._core.seen()) + len(scheduler._draining),  # noqa: SLF001
    )


def judge(samples: list[Sample], *, rss: bool) -> None:
    """Compare the second half with its beginning.

    Raises:
        Grew: something is there that was not.
        ValueError: there are too few samples to tell.

    """
    if len(samples) < _FEWEST:
        raise ValueError(f"found {len(samples)} samples, expected at least {_FEWEST}: ask for longer")
    half = samples[len(samples) // 2 :]
    for sample in samples:
        if sample.in_use_bytes or sample.remembered:
            raise Grew(f"after {sample.queries} queries {sample.in_use_bytes} bytes of credit are missing: {sample}")
    # Each open connection has a descriptor at both ends, and a task of the server.
    for name, most in (("descriptors", 2 * SERVERS), ("tasks", SERVERS)):
        counts = [getattr(sample, name) for sample in half]
        if max(counts) > min(counts) + most:
            raise Grew(f"{name}: {min(counts)} to {max(counts)}, and only {most} connections come and go")
    # Memory goes up and down by 3 %: the most of the last quarter counts, against the most of the second.
    quarter = len(samples) // 4
    before, after = (max(s.rss_bytes for s in part) for part in (samples[quarter : 2 * quarter], samples[-quarter:]))
    if rss and after > (1 + _MAY_GROW) * before:
        raise Grew(f"memory: up to {after} bytes in the last quarter, {before} in the second")


@app.default
def main(
    *, minutes: float = 10, pause_ms: float = 20, budget_bytes: int | None = None, buffer_kb: int | None = None
) -> None:
    """Ask for some minutes, and say whether anything grew.

    Args:
        minutes: how long.
        pause_ms: milliseconds between two queries: without them it takes a whole CPU.
        budget_bytes: a budget; without it the scheduler learns.
        buffer_kb: the buffer of a port of 1 Gbit/s instead; then the scheduler finds out how long servers think.

    """
    if budget_bytes and buffer_kb:
        sys.exit("error: --buffer-kb: not beside --budget-bytes")
    port = Port(rate_bps=10**9, buffer_bytes=1024 * buffer_kb) if buffer_kb else None
    began = last = time.monotonic()
    every_s = 60 * minutes / _LINES

    def due(queries: int) -> bool:
        nonlocal last
        now = time.monotonic()
        if queries == 1 or now >= last + every_s:
            last = now
            return True
        return False

    samples = asyncio.run(
        soak(
            lambda _: time.monotonic() < began + 60 * minutes,
            due,
            Plan(budget_bytes=budget_bytes, port=port),
            pause_ms / 1e3,
            1,
        )
    )
    print("| s | queries | completed | failed | memory, MB | descriptors | tasks | credit in use |\n|" + "---|" * 8)
    for at in samples:
        print(
            f"| {at.after_s:.0f} | {at.queries} | {at.completed} | {at.failed} | {at.rss_bytes / 1e6:.1f} | "
            f"{at.descriptors} | {at.tasks} | {at.in_use_bytes} |"
        )
    try:
        judge(samples, rss=True)
    except (Grew, ValueError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    app()
