"""The sockets under client libraries: how to reach them, what the kernel says of them, and their receive windows."""

from __future__ import annotations

import contextlib
import socket
import sys
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from incast_requests import _core

if TYPE_CHECKING:
    from collections.abc import Iterator

TCP_WINDOW_CLAMP = 10
"""The option of Linux that limits the receive window; Python 3.11 has a name for it only on some systems."""
# States in which the other end may still send: established, and two in which only this end has said that it is done.
_OPEN = frozenset({1, 4, 5})


class Info(NamedTuple):
    """What the kernel says of a connection."""

    state: int
    last_data_ms: int
    """Milliseconds since data arrived."""
    advertised_mss_bytes: int
    received_bytes: int
    """Payload that arrived in order since the connection was opened."""
    out_of_order_segments: int
    """Segments that arrived beyond a gap since then."""
    window_bytes: int | None
    """How much the other end may send before it hears from this end; `None`: the kernel does not say."""
    sent_segments: int
    """Segments with payload that this end has sent."""
    window_unit_bytes: int
    """In what steps windows are announced."""

    @property
    def open(self) -> bool:
        """Whether the other end may still send."""
        return self.state in _OPEN


def info(sock: socket.socket) -> Info | None:
    """Return what the kernel says of a connection; `None` if it is closed, not TCP, or the system is not Linux."""
    if sys.platform != "linux":
        return None
    found = _core.info(sock.fileno())
    return None if found is None else Info(*found)


def is_closed(sock: socket.socket) -> bool:
    """Return whether nothing can arrive any more."""
    if sock.fileno() < 0:
        return True
    found = info(sock)
    return found is not None and not found.open


def limit_window(sock: socket.socket, window_bytes: int | None) -> bool:
    """Limit what the connection announces from now on; `None` ends that. Return whether the kernel did it.

    It lasts only on a connection on which data has arrived: Linux sets the window anew when the first data comes. It
    does so too whenever it makes the receive buffer larger, so that it is kept from that. What has been announced
    before stays announced until it has been used: see `Info.window_bytes`.
    """
    if sys.platform != "linux":
        return False
    return _core.limit_window(sock.fileno(), window_bytes)


def socket_of(thing: Any) -> socket.socket | None:  # noqa: ANN401 - libraries that need not be installed
    """Return the socket of a connection, if it has one now.

    `thing` is one of

    - a socket, or a transport, stream, reader or writer of asyncio,
    - a stream of trio, also with TLS,
    - a response of httpx,
    - a response of aiohttp whose body has not all arrived (after that aiohttp does not say),
    - a client or connection of redis.asyncio: of a client with several connections, the one that its pool would
      hand out next,
    - `None`, which has none.

    Of other things it may find none.

    Raises:
        TypeError: it is an address, a number or the like, which never has a connection.

    """
    nearer = thing
    for _ in range(8):
        if nearer is None:
            break
        if hasattr(nearer, "getsockopt") and hasattr(nearer, "fileno"):
            found: socket.socket = nearer
            return found
        nearer = _nearer(nearer)
    if isinstance(thing, NEVER_CONNECTED):
        raise TypeError(
            f"socket: found {thing!r:.80}, expected a socket, a Peer, or a stream, response or client with a connection"
        )
    return None


NEVER_CONNECTED = (str, bytes, bytearray, int, float, list, tuple, set, dict)


def _nearer(thing: Any) -> Any:  # noqa: ANN401
    # What asyncio, and httpcore under httpx, call it.
    if (ask := getattr(thing, "get_extra_info", None)) is not None:
        return ask("socket")
    # A stream of trio; with TLS there is another below.
    for name in ("socket", "transport_stream"):
        if (found := getattr(thing, name, None)) is not None:
            return found
    extensions = getattr(thing, "extensions", None)
    if isinstance(extensions, dict):
        return extensions.get("network_stream")
    # aiohttp: a response has a connection, which has a transport. asyncio: a reader has one. redis: a client may have a
    # connection. anyio: a stream on trio has a socket.
    for name in ("connection", "transport", "_transport", "_writer", "_raw_socket"):
        if (found := getattr(thing, name, None)) is not None:
            return found
    if (pool := getattr(thing, "connection_pool", None)) is not None:
        free = getattr(pool, "_available_connections", None)
        return free[-1] if free else None
    return None


class SocketFactory:
    """Opens the sockets of an `aiohttp.TCPConnector(socket_factory=...)`, and knows them by the address they go to."""

    def __init__(self) -> None:
        self._sockets: dict[tuple[str, int], list[weakref.ref[socket.socket]]] = {}

    def __call__(self, addr_info: tuple[Any, ...]) -> socket.socket:
        """Open a socket for an entry of `socket.getaddrinfo`."""
        family, kind, protocol, _, address = addr_info
        sock = socket.socket(family, kind, protocol)
        place = (address[0], address[1])
        known = [reference for reference in self._sockets.get(place, ()) if _is_open(reference)]
        self._sockets[place] = [*known, weakref.ref(sock)]
        return sock

    def to(self, address: str, port: int) -> socket.socket | None:
        """Return the open socket to a server that was opened last. `address` is a number, not a name."""
        return next(self._open(reversed(self._sockets.get((address, port), ()))), None)

    @staticmethod
    def _open(references: Any) -> Iterator[socket.socket]:  # noqa: ANN401
        for reference in references:
            sock = reference()
            if sock is not None and sock.fileno() >= 0:
                yield sock


def _is_open(reference: weakref.ref[socket.socket]) -> bool:
    with contextlib.suppress(OSError):
        sock = reference()
        return sock is not None and sock.fileno() >= 0
    return False
