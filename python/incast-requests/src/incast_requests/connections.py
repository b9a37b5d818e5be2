"""Connections, and what the scheduler remembers of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from incast_requests import sockets

if TYPE_CHECKING:
    import socket


class Connection:
    """A socket, and what was known of it when it was last looked at."""

    __slots__ = ("counted_bytes", "lets_through", "out_of_order_segments", "received_bytes", "sock")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.received_bytes: int | None = None
        """What the kernel said last; `None`: it has not been asked."""
        self.out_of_order_segments = 0
        self.counted_bytes = 0
        """Of what was received, what counts for requests that have ended: streams of HTTP/2 share a connection."""
        self.lets_through: int | None = None
        """How much can be under way on it, as was last known."""

    def look(self) -> tuple[sockets.Info | None, int]:
        """Return what the kernel says, and how many segments have arrived beyond a gap since it was last asked."""
        found = sockets.info(self.sock)
        if found is None:
            return None, 0
        gaps = 0 if self.received_bytes is None else found.out_of_order_segments - self.out_of_order_segments
        self.received_bytes, self.out_of_order_segments = found.received_bytes, found.out_of_order_segments
        return found, max(0, gaps)

    def count(self, before: int, received_bytes: int) -> int:
        """Return how much has come since the connection had received so much, but for what has been counted."""
        before = max(before, self.counted_bytes)
        self.counted_bytes = received_bytes
        return received_bytes - before


class Peer:
    """A server to which there is one connection: pass it as `socket`, with each request to it.

    Its connection is given, or one learns of it from its responses: pass them to `Slot.use`. The scheduler remembers
    what it knows of the connection, and asks the kernel once per request, not twice.
    """

    __slots__ = ("connection",)

    def __init__(self, connection: Any = None) -> None:  # noqa: ANN401 - whatever socket_of takes
        sock = sockets.socket_of(connection)
        self.connection = None if sock is None else Connection(sock)

    @property
    def socket(self) -> socket.socket | None:
        """The socket over which the last response came, if it is still open."""
        connection = self.connection
        if connection is None or connection.sock.fileno() < 0:
            return None
        return connection.sock
