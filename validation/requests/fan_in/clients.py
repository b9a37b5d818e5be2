"""The clients: one connection to each server, kept for a repetition, through libraries that programs use."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Protocol

from fan_in.fabric import address
from fan_in.servers import PORTS, TLS
from incast.requests import sockets

if TYPE_CHECKING:
    import socket

    import httpx

    from fan_in.cells import Cell

_LIMIT_BYTES = 2**18


class BadAnswerError(RuntimeError):
    """A server answered something else than it was asked for."""


class Client(Protocol):
    """A client library with a connection to each worker."""

    async def fetch(self, worker: int, size: int) -> None:
        """Ask a worker for a response and wait until all of it is there."""

    def socket(self, worker: int) -> socket.socket:
        """Return the socket of a worker's connection, once something has been fetched."""

    async def close(self) -> None:
        """Close all connections."""


def of(cell: Cell) -> Client:
    """Return the client of a cell."""
    if cell.client == "aiohttp":
        return _Aiohttp(cell.server)
    if cell.client in {"httpx", "httpx-each"}:
        return _Httpx(cell.server, one_each=cell.client == "httpx-each")
    if cell.client == "redis":
        return _Redis()
    return _Streams(cell)


class _Streams:
    """Streams of asyncio, to `echo` and memcached."""

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._connections: dict[int, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}

    async def fetch(self, worker: int, size: int) -> None:
        if worker not in self._connections:
            where = address(worker), PORTS[self._cell.server]
            self._connections[worker] = await asyncio.open_connection(*where, limit=_LIMIT_BYTES)
        reader, writer = self._connections[worker]
        if self._cell.server == "echo":
            writer.write(b"%d %d\n" % (size, self._cell.think_ms * 1000))
            await reader.readexactly(size)
            return
        writer.write(b"get s%d\r\n" % size)
        if (head := await reader.readline()) != b"VALUE s%d 0 %d\r\n" % (size, size):
            raise BadAnswerError(f"memcached answered {head!r} when asked for {size} bytes")
        await reader.readexactly(size + len(b"\r\nEND\r\n"))

    def socket(self, worker: int) -> socket.socket:
        return _found(sockets.socket_of(self._connections[worker][1]))

    async def close(self) -> None:
        for _, writer in self._connections.values():
            writer.close()


class _Aiohttp:
    def __init__(self, server: str) -> None:
        import aiohttp

        self._server = server
        self._factory = sockets.SocketFactory()
        connector = aiohttp.TCPConnector(socket_factory=self._factory, limit=0, ssl=_unchecked())
        self._session = aiohttp.ClientSession(connector=connector)

    async def fetch(self, worker: int, size: int) -> None:
        async with self._session.get(_url(self._server, worker, size)) as response:
            _check(size, response.status, len(await response.read()))

    def socket(self, worker: int) -> socket.socket:
        return _found(self._factory.to(address(worker), PORTS[self._server]))

    async def close(self) -> None:
        await self._session.close()


class _Httpx:
    def __init__(self, server: str, *, one_each: bool) -> None:
        self._server, self._one_each = server, one_each
        self._version = "HTTP/2" if server == "nginx-h2" else "HTTP/1.1"
        self._clients: dict[int, httpx.AsyncClient] = {}
        self._sockets: dict[int, socket.socket] = {}

    def _client(self, worker: int) -> httpx.AsyncClient:
        import httpx

        number = worker if self._one_each else 0
        if number not in self._clients:
            self._clients[number] = httpx.AsyncClient(
                trust_env=False,
                timeout=None,  # noqa: S113 - the run has one
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
                verify=_unchecked(),
                http2=self._server == "nginx-h2",
            )
        return self._clients[number]

    async def fetch(self, worker: int, size: int) -> None:
        async with self._client(worker).stream("GET", _url(self._server, worker, size)) as response:
            if response.http_version != self._version:
                raise BadAnswerError(f"{self._server} answered by {response.http_version}, expected {self._version}")
            if worker not in self._sockets:
                self._sockets[worker] = _found(sockets.socket_of(response))
            _check(size, response.status_code, len(await response.aread()))

    def socket(self, worker: int) -> socket.socket:
        return self._sockets[worker]

    async def close(self) -> None:
        for client in self._clients.values():
            await client.aclose()


class _Redis:
    def __init__(self) -> None:
        import redis.asyncio

        self._library = redis.asyncio
        self._shards: dict[int, redis.asyncio.Redis] = {}

    async def fetch(self, worker: int, size: int) -> None:
        if worker not in self._shards:
            self._shards[worker] = self._library.Redis(host=address(worker), port=PORTS["redis"])
        value = await self._shards[worker].get(f"s{size}")
        _check(size, 200, len(value or b""))

    def socket(self, worker: int) -> socket.socket:
        return _found(sockets.socket_of(self._shards[worker]))

    async def close(self) -> None:
        for shard in self._shards.values():
            await shard.aclose()


def _url(server: str, worker: int, size: int) -> str:
    return f"{'https' if server in TLS else 'http'}://{address(worker)}:{PORTS[server]}/s{size}"


def _unchecked() -> ssl.SSLContext:
    """Return what trusts any certificate: those of the servers are made for each run."""
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    found.check_hostname = False
    found.verify_mode = ssl.CERT_NONE
    return found


def _found(sock: socket.socket | None) -> socket.socket:
    if sock is None:
        raise BadAnswerError("the client library does not tell its socket")
    return sock


def _check(size: int, status: int, got: int) -> None:
    if status != 200 or got != size:
        raise BadAnswerError(f"{got} bytes with status {status} when asked for {size}")
