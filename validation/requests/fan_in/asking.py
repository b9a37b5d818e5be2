"""Queries of a repetition: by a client library in this process, or by the client in Rust, a program of its own."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import os
import time
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fan_in import clients, policies
from fan_in.cells import IN_RUST
from fan_in.fabric import address
from fan_in.servers import PORTS
from incast.requests import sockets
from kernel_world.namespaces import UnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fan_in.cells import Cell
    from fan_in.clients import Client

_ROOT = Path(__file__).resolve().parents[3]
PROGRAM = Path(os.environ.get("CARGO_TARGET_DIR", _ROOT / "target")) / "release" / "examples" / "fan_in"
BUILD = "cargo build --release -p incast-requests --features hyper --example fan_in"


# How the client in Rust asks.
_SERVERS = {"hyper": "http", "hyper-pool": "http-pool", "tokio": "echo"}


class Asking(Protocol):
    """What makes the queries of a repetition."""

    pids: tuple[int, ...]
    """Processes that ask, beside this one."""
    state: dict[str, Any]
    """What the policy came to, after the queries."""

    async def query(self) -> tuple[float, list[float]]:
        """Ask all servers; return how long that took, and each of the responses, in seconds."""

    async def end(self) -> int:
        """End asking, and return the largest window that was announced last, in bytes."""


@asynccontextmanager
async def connected(cell: Cell, policy: str) -> AsyncIterator[Asking]:
    """Connect to all servers, of which each answers once, so that windows can be limited."""
    if cell.client in IN_RUST:
        program = await asyncio.create_subprocess_exec(
            "setpriv", "--pdeathsig", "KILL", PROGRAM, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        try:
            of_rust = _InRust(program)
            await of_rust.begin(cell, policy)
            yield of_rust
        finally:
            if program.returncode is None:
                program.kill()
            await program.wait()
        return
    client = clients.of(cell)
    try:
        for worker in range(cell.workers):
            await client.fetch(worker, 1)
        async with AsyncExitStack() as closing:
            yield _InPython(cell, policy, client, closing)
    finally:
        await client.close()


def build(cell: Cell) -> str:
    """Return what tells one build of the client in Rust from another; nothing for those in Python.

    Raises:
        UnavailableError: it has not been built.

    """
    if cell.client not in IN_RUST:
        return ""
    try:
        return _build_of_program()
    except FileNotFoundError as error:
        raise UnavailableError(f"the client {cell.client!r} has not been built: {BUILD}") from error


@functools.cache
def _build_of_program() -> str:
    # It is asked for with every repetition of a grid.
    return hashlib.sha256(PROGRAM.read_bytes()).hexdigest()


class _InPython:
    def __init__(self, cell: Cell, policy: str, client: Client, closing: AsyncExitStack) -> None:
        self.pids: tuple[int, ...] = ()
        self.state: dict[str, Any] = {}
        self._cell, self._policy, self._client, self._closing = cell, policy, client, closing
        self._ask: policies.Ask | None = None

    async def query(self) -> tuple[float, list[float]]:
        if self._ask is None:
            opened = policies.opened(self._policy, self._cell, self._client, self.state)
            self._ask = await self._closing.enter_async_context(opened)
        responses: list[float] = []
        began = time.perf_counter()

        async def one(worker: int, size: int) -> None:
            await self._client.fetch(worker, size)
            responses.append(time.perf_counter() - began)

        workers = self._cell.workers
        fetches: list[policies.Fetch] = [
            functools.partial(one, number % workers, size) for number, size in enumerate(self._cell.sizes)
        ]
        await self._ask(fetches)
        return time.perf_counter() - began, responses

    async def end(self) -> int:
        await self._closing.aclose()
        found = [sockets.info(self._client.socket(worker)) for worker in range(self._cell.workers)]
        return max((one.window_bytes or 0 for one in found if one is not None), default=0)


class _InRust:
    def __init__(self, program: asyncio.subprocess.Process) -> None:
        self.pids: tuple[int, ...] = (program.pid,)
        self.state: dict[str, Any] = {}
        self._program = program

    async def begin(self, cell: Cell, policy: str) -> None:
        port = PORTS[cell.server]
        setting = {
            "server": _SERVERS[cell.client],
            "addresses": [f"{address(worker)}:{port}" for worker in range(cell.workers)],
            "sizes": list(cell.sizes),
            "think_us": cell.think_ms * 1000,
            "policy": policies.in_rust(policy, cell),
        }
        self._tell(json.dumps(setting))
        await self._told("ready")

    async def query(self) -> tuple[float, list[float]]:
        self._tell("")
        whole, *responses = map(float, await self._told("query"))
        return whole, responses

    async def end(self) -> int:
        to, answers = self._program.stdin, self._program.stdout
        assert to is not None  # noqa: S101 - they are pipes
        assert answers is not None  # noqa: S101
        to.close()
        windows = await self._told("windows")
        if line := (await answers.readline()).decode().split():
            self.state |= {"budget_bytes": int(line[1]), "changes": int(line[2])}
        return max(map(int, windows))

    def _tell(self, line: str) -> None:
        assert self._program.stdin is not None  # noqa: S101 - it is a pipe
        self._program.stdin.write(f"{line}\n".encode())

    async def _told(self, word: str) -> list[str]:
        assert self._program.stdout is not None  # noqa: S101 - it is a pipe
        first, *others = (await self._program.stdout.readline()).decode().split() or [""]
        if first != word:
            raise UnavailableError(f"the client in Rust has not said {word!r}; what went wrong stands above")
        return others
