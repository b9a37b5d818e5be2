"""A server that does what servers do on bad days, and clients of it: for tests and for the soak."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Self, TypeAlias

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable

    from incast.requests import Slot

WAYS = ("well", "dies", "stalls", "too-much", "too-little")
"""How it answers: as it is asked; half, and then it resets the connection; half, and then never anything; a thousand
bytes more; half, and then it closes the connection in order."""
_MORE = 1000


class WrongAnswerError(ConnectionError):
    """The response has another size than was asked for."""


Answer: TypeAlias = "Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]"


def listener() -> socket.socket:
    """Return a socket of loopback that listens."""
    found = socket.create_server(("127.0.0.1", 0))
    # Segments as on Ethernet: those of loopback are larger than limited windows, and would wait for timers.
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1448)
    return found


async def in_the_way_asked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer lines `size way` with a line that has the size of the response, and the response."""
    while line := await reader.readline():
        size, way = int(line.split()[0]), line.split()[1].decode()
        sent = {"well": size, "too-much": size + _MORE}.get(way, size // 2)
        writer.write(b"%d\n" % size + bytes(sent))
        if way == "dies":
            await writer.drain()
            break
        if way == "too-little":
            await writer.drain()
            writer.write_eof()
        await writer.drain()


class Server:
    """Serves each connection by `answer`, and resets it when that returns or the connection is dropped."""

    def __init__(self, answer: Answer = in_the_way_asked, context: ssl.SSLContext | None = None) -> None:
        self._answer, self._context = answer, context
        self.port = 0
        self.answering: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Listen."""
        server = await asyncio.start_server(self._serve, sock=listener(), ssl=self._context)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            await self.drop()

    async def drop(self) -> None:
        """Reset all connections."""
        tasks = list(self.answering)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - it runs in one
        self.answering.add(task)
        try:
            await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # asyncio would log what ends it
        finally:
            writer.transport.abort()
            self.answering.discard(task)


class Client:
    """One connection to a server, which is closed after everything that went wrong, and opened anew."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    def fetch(self, size: int, way: str = "well") -> Callable[[Slot], Awaitable[int]]:
        """Return a request of a slot: its result is the size of the response."""

        async def fetched(slot: Slot) -> int:
            if self._streams is None:
                self._streams = await asyncio.open_connection("127.0.0.1", self._port)
            reader, writer = self._streams
            slot.use(writer)
            complete = False
            try:
                writer.write(b"%d %s\n" % (size, way.encode()))
                found = await reader.readexactly(int(await reader.readline()))
                complete = not reader._buffer  # type: ignore[attr-defined]  # noqa: SLF001 - has no public way to say so
            finally:
                if not complete:
                    self.close()
            if not complete:
                raise WrongAnswerError(f"the server sent more than {size} bytes")
            return len(found)

        return fetched

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None
