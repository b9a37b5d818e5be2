"""One repetition of a cell with a policy: in a process of its own, ahead of all ordinary ones."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fan_in import asking, echo, fabric
from kernel_world import agent, counters
from kernel_world.namespaces import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fan_in.cells import Cell
    from fan_in.fabric import Fabric
    from fan_in.servers import Servers

# Longer than any collapse: what takes so long is a defect.
_LONGEST_S = 180.0
_LONG_FLOWS_FIRST_S = 0.5
_PAUSE_S = 0.1


class EndlessError(UnavailableError):
    """A repetition took too long."""


def repetition(of: Fabric, servers: Servers, cell: Cell, policy: str) -> dict[str, Any]:
    """Measure.

    Raises:
        EndlessError: it did not end.
        UnavailableError: the kernel lacks something, or a server or the client has failed.

    """
    of.set(cell)
    servers.check()
    netstat, snmp = of.counters()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reading)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            answer = _in_child(of, servers, cell, policy, (netstat, snmp))
            with os.fdopen(writing, "wb") as to:
                to.write(json.dumps(answer).encode())
            status = 0
        finally:
            # Nothing of the parent's is to be closed or written twice.
            os._exit(status)
    os.close(writing)
    try:
        found = _read(reading)
    finally:
        os.close(reading)
        os.close(netstat)
        os.close(snmp)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    servers.check()
    # What is still under way, such as resets, has gone by then.
    time.sleep(_PAUSE_S)
    if "failed" in found:
        raise UnavailableError(f"{cell.name}, {policy}: {found['failed']}")
    if not found:
        raise EndlessError(f"{cell.name}, {policy}: it did not end within {_LONGEST_S:.0f} s")
    return found


def _read(fd: int) -> dict[str, Any]:
    """Return what a repetition found; nothing if it did not end."""
    parts, end = [], time.monotonic() + _LONGEST_S
    while True:
        ready, _, _ = select.select([fd], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return {}
        part = os.read(fd, 65_536)
        if not part:
            break
        parts.append(part)
    found: dict[str, Any] = json.loads(b"".join(parts)) if parts else {"failed": "the client has ended"}
    return found


def _in_child(of: Fabric, servers: Servers, cell: Cell, policy: str, fds: tuple[int, int]) -> dict[str, Any]:
    try:
        with agent.undisturbed():
            of.enter(fabric.CLIENT)
            pids = [servers.pid(name) for name in dict.fromkeys([cell.server, "echo"])]
            return asyncio.run(_measured(of, cell, policy, fds, pids))
    except Exception as error:
        traceback.print_exc()
        return {"failed": f"{type(error).__name__}: {error}"}


async def _measured(of: Fabric, cell: Cell, policy: str, fds: tuple[int, int], pids: Sequence[int]) -> dict[str, Any]:
    responses: list[float] = []
    long = _LongFlows(cell)
    try:
        async with asking.connected(cell, policy) as asked:
            await long.begin()
            of.check_control(cell.control)
            of.enter(fabric.CLIENT)
            warm_up = [(await asked.query())[0] for _ in range(cell.warm_up)]
            drops = of.drops()
            of.enter(fabric.CLIENT)
            waits = _waits(pids, asked.pids)
            stolen, began, long_before = counters.stolen_s(), time.perf_counter(), long.received
            before, queries, counted = _counters(fds), [], []
            for _ in range(cell.queries):
                whole, each = await asked.query()
                after = _counters(fds)
                queries.append(whole)
                responses += each
                counted.append(counters.counted(before, after))
                before = after
            elapsed_s = time.perf_counter() - began
            waits = {name: after_ - waits[name] for name, after_ in _waits(pids, asked.pids).items()}
            received, stolen = long.received - long_before, counters.stolen_s() - stolen
            drops = of.drops() - drops
            of.enter(fabric.CLIENT)
            window_bytes = await asked.end()
    finally:
        await long.end()
    return {
        "queries_s": queries,
        "responses_s": sorted(responses),
        "warm_up_s": warm_up,
        "timeouts": [one["timeouts"] for one in counted],
        "probes": [one["tail_probes"] for one in counted],
        "retransmitted": sum(one["retransmitted_packets"] for one in counted),
        "drops": drops,
        "long_bytes": received,
        "largest_window_bytes": window_bytes,
        "elapsed_s": elapsed_s,
        "state": asked.state,
        "quality": {
            **{f"{name}_waiting": one.waited_s / elapsed_s for name, one in waits.items()},
            **{f"{name}_wait_us": one.mean_s * 1e6 for name, one in waits.items()},
            "stolen": stolen / elapsed_s,
        },
    }


def _counters(fds: tuple[int, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for fd in fds:
        found |= counters.parsed(os.pread(fd, 65_536, 0).decode("ascii"))
    return found


def _waits(servers: Sequence[int], client: Sequence[int]) -> dict[str, counters.Waits]:
    """Return how long the client, the servers and the kernel's threads for packets have waited for a CPU."""
    return {
        "client": sum(map(_waits_of, client), counters.own_waits()),
        "servers": sum(map(_waits_of, servers), counters.Waits()),
        "softirq": counters.softirq_waits(),
    }


def _waits_of(pid: int) -> counters.Waits:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum((counters.waits((task / "schedstat").read_text(encoding="ascii")) for task in tasks), counters.Waits())


class _LongFlows:
    """Flows without end from servers that are asked for nothing else."""

    def __init__(self, cell: Cell) -> None:
        self._first, self._count = cell.workers, cell.long_flows
        self._flows: list[tuple[asyncio.Task[None], asyncio.StreamWriter]] = []
        self.received = 0

    async def begin(self) -> None:
        for number in range(self._count):
            reader, writer = await asyncio.open_connection(fabric.address(self._first + number), echo.PORT)
            writer.write(b"long\n")
            self._flows.append((asyncio.create_task(self._receive(reader)), writer))
        if self._flows:
            await asyncio.sleep(_LONG_FLOWS_FIRST_S)

    async def _receive(self, reader: asyncio.StreamReader) -> None:
        while part := await reader.read(2**18):
            self.received += len(part)

    async def end(self) -> None:
        for task, writer in self._flows:
            task.cancel()
            writer.transport.abort()
        await asyncio.gather(*(task for task, _ in self._flows), return_exceptions=True)
