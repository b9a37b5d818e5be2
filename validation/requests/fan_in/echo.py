"""The server `echo`.

It answers a line `bytes microseconds` with so many bytes after so long, and a line `long` with bytes without end.
"""

from __future__ import annotations

import asyncio
import selectors
import sys

_CHUNK = bytes(65_536)
PORT = 9000


class _Echo(asyncio.Protocol):
    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._partial = b""
        self._endless = False
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            if line == b"long":
                self._endless = True
                self._more()
            else:
                size, think_us = map(int, line.split())
                if think_us:
                    asyncio.get_running_loop().call_later(think_us / 1e6, self._answer, size)
                else:
                    self._answer(size)

    def _answer(self, size: int) -> None:
        if not self._transport.is_closing():
            self._transport.write(bytes(size))

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        if self._endless:
            self._more()

    def _more(self) -> None:
        while not self._paused and not self._transport.is_closing():
            self._transport.write(_CHUNK)


async def _main() -> None:
    server = await asyncio.get_running_loop().create_server(_Echo, "0.0.0.0", PORT, backlog=256)  # noqa: S104
    await server.serve_forever()


def _loop() -> asyncio.AbstractEventLoop:
    """Return a loop without the millisecond steps of `epoll`: answers due in one step would go out together."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


if __name__ == "__main__":
    try:
        with asyncio.Runner(loop_factory=_loop) as runner:
            runner.run(_main())
    except KeyboardInterrupt:
        sys.exit(0)
