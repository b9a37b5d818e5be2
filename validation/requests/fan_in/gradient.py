"""An adaptive limit on concurrency that goes by latency, as Netflix's library concurrency-limits has it (Gradient2).

The limit follows the ratio of the latency in the long run to the latest one, and may always grow by a few. It is
updated with every response; the library does so with averages over windows of time. It starts at 20 as there, but may
fall to 1 (there 20 by default), as 20 responses at once are too many for most of our cells.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable

START, LEAST, MOST = 20.0, 1.0, 200.0
_QUEUE = 4.0
_TOLERANCE = 1.5
_SMOOTHING = 0.2
_LONG, _LONG_WARM_UP = 600, 10


class Gradient:
    """A limit, and who waits for it."""

    def __init__(self) -> None:
        self.limit = START
        self._long_s = 0.0
        self._samples = 0
        self._outstanding = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def run(self, request: Awaitable[None]) -> None:
        """Send a request when the limit allows."""
        if self._waiting or self._outstanding >= int(self.limit):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn
        else:
            self._outstanding += 1
        clock = asyncio.get_running_loop().time
        began, outstanding = clock(), self._outstanding
        try:
            await request
        finally:
            self.sample(clock() - began, outstanding)
            self._outstanding -= 1
            while self._waiting and self._outstanding < int(self.limit):
                self._outstanding += 1
                self._waiting.popleft().set_result(None)

    def sample(self, latency_s: float, outstanding: int) -> None:
        """Take the latency of a response, and how many were outstanding when it was asked for."""
        self._samples += 1
        if self._samples <= _LONG_WARM_UP:
            self._long_s += (latency_s - self._long_s) / self._samples
        else:
            self._long_s += (latency_s - self._long_s) * 2 / (_LONG + 1)
        if self._long_s > 2 * latency_s:
            # Latency has fallen for good: it is not to take that long to notice.
            self._long_s *= 0.95
        if outstanding < self.limit / 2:
            return
        gradient = max(0.5, min(1.0, _TOLERANCE * self._long_s / latency_s))
        wanted = self.limit * gradient + _QUEUE
        self.limit = max(LEAST, min(MOST, self.limit * (1 - _SMOOTHING) + wanted * _SMOOTHING))
