"""Servers, and what the scheduler remembers of the connections to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from incast_requests import _core, sockets
from incast_requests._core import Connection

if TYPE_CHECKING:
    import socket


class Peer(_core.Peer):
    """A server to which there is one connection: pass it as `socket`, with each request to it.

    Its connection is given, or one learns of it from its responses: pass them to `Slot.use`. The scheduler remembers
    what it knows of the connection, and asks the kernel once per request. A scheduler that learns, or finds out or is
    told how long servers think, asks twice about a bare socket of which it has not asked for 10 ms.

    Share it among the requests of one scheduler. Others may use it too, also in event loops of other threads, but what
    one of them has counted of the responses the others do not count again.
    """

    __slots__ = ()

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
