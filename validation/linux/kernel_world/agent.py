"""The traffic: an aggregator and its workers in one thread, and what the path does when nobody else uses it."""

from __future__ import annotations

import contextlib
import math
import os
import select
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kernel_world.namespaces import UnavailableError

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from kernel_world.namespaces import Star

_PORT = 5000
_PRIORITY = 50
# Both directions of a connection hold a whole message: a socket takes it at once, and the window is never closed.
_BUFFER_BYTES = 4 * 2**20
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE, _SO_TIMESTAMPNS = 32, 33, 35
_TCP_INFO_BYTES = 280
_OPTIONS = {"timestamps": 1, "sack": 2, "wscale": 4}
_STUCK_S = 120.0
_ETHERNET_BYTES, _UDP_BYTES = 14, 28
PERCENTS = (1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9)


@dataclass(frozen=True)
class Rounds:
    """What is exchanged: every round, all workers are asked and answer with as many bytes."""

    count: int
    response_bytes: int
    request_bytes: int
    jitter_s: float


@dataclass(frozen=True)
class Expected:
    """What every connection must have come up with."""

    congestion_control: str
    mss: int
    timestamps: bool
    sack: bool
    rto_min_s: float


@dataclass
class Measured:
    """The responses of a run, in the order of their completion: round, worker, time of its request, and of its end."""

    responses: list[tuple[int, int, float, float]] = field(default_factory=list)
    rounds: list[tuple[float, float]] = field(default_factory=list)
    late_answers: list[float] = field(default_factory=list)
    """From the time at which a request is due until its answer is handed to TCP: the harness, not the network."""


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Run ahead of all ordinary processes, so that what is measured is TCP and not the wait for a CPU."""
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    except OSError as error:
        raise UnavailableError(f"SCHED_FIFO is refused: {error.strerror} (CAP_SYS_NICE is needed)") from error
    try:
        yield
    finally:
        os.sched_setscheduler(0, *before)


class Connections:
    """A connection from the aggregator to every worker."""

    def __init__(self, star: Star, expected: Expected) -> None:
        self.asking: list[socket.socket] = []
        self.answering: list[socket.socket] = []
        self._closing = contextlib.ExitStack()
        try:
            for worker in star.workers:
                asking, answering = connected(star, worker, expected.congestion_control)
                self._closing.enter_context(asking)
                self._closing.enter_context(answering)
                check(answering, expected)
                self.asking.append(asking)
                self.answering.append(answering)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close all of them."""
        self._closing.close()


def connected(star: Star, worker: int, congestion_control: str) -> tuple[socket.socket, socket.socket]:
    """Connect the aggregator to a worker; return both ends."""
    with star.inside(worker), socket.create_server((star.address(worker), _PORT), backlog=1) as listening:
        _prepare(listening, congestion_control)
        with star.inside(0):
            asking = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            _prepare(asking, congestion_control)
            asking.settimeout(5)
            asking.connect((star.address(worker), _PORT))
            answering, _ = listening.accept()
        except OSError as error:
            asking.close()
            raise UnavailableError(f"no connection to worker {worker}: {error}") from error
    for one in (asking, answering):
        one.setblocking(False)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return asking, answering


def _prepare(one: socket.socket, congestion_control: str) -> None:
    try:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion_control.encode())
    except OSError as error:
        raise UnavailableError(
            f"this kernel has no congestion control {congestion_control!r}: {error.strerror}"
        ) from error
    one.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _BUFFER_BYTES)
    one.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)


def check(answering: socket.socket, expected: Expected) -> None:
    """Check by TCP_INFO that a connection is what the scenario says.

    Raises:
        UnavailableError: it is not.

    """
    control = answering.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).split(b"\0")[0].decode()
    info = answering.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    options, rto_us, mss = info[5], struct.unpack_from("I", info, 8)[0], struct.unpack_from("I", info, 16)[0]
    found = {
        "congestion control": (control, expected.congestion_control),
        "MSS": (mss, expected.mss),
        "timestamps": (bool(options & _OPTIONS["timestamps"]), expected.timestamps),
        "SACK": (bool(options & _OPTIONS["sack"]), expected.sack),
        # Between the minimum and the minimum, a round trip and what a clock of 100 ticks a second adds.
        "RTO in the range of its minimum": (expected.rto_min_s <= rto_us / 1e6 <= expected.rto_min_s + 0.03, True),
    }
    for name, (is_, wanted) in found.items():
        if is_ != wanted:
            raise UnavailableError(f"a connection has {name} {is_}; the scenario says {wanted} (RTO {rto_us} us)")


def run(connections: Connections, rounds: Rounds, chance: random.Random) -> Measured:
    """Carry the rounds out.

    Raises:
        UnavailableError: an answer did not come.

    """
    measured, count = Measured(), len(connections.asking)
    answer, request = b"a" * rounds.response_bytes, b"r" * rounds.request_bytes
    buffer = bytearray(2**18)
    with select.epoll() as ready:
        # A file descriptor stands for a worker, negative where it is the worker's own end.
        ends: dict[int, int] = {}
        for worker in range(count):
            # One turn per message, not per packet: the kernel's softirqs then seldom wait for this process.
            _wake_at(connections.asking[worker], rounds.response_bytes)
            _wake_at(connections.answering[worker], rounds.request_bytes)
            for end, sign in ((connections.asking[worker], 1), (connections.answering[worker], -1)):
                ready.register(end, select.EPOLLIN)
                ends[end.fileno()] = sign * (worker + 1)
        began = time.monotonic()
        for number in range(rounds.count):
            start = time.monotonic()
            due = sorted((start + chance.uniform(0, rounds.jitter_s), worker) for worker in range(count))
            next_, missing = 0, count
            due_of = {worker: at for at, worker in due}
            asked, to_come, to_read = [0.0] * count, [rounds.response_bytes] * count, [rounds.request_bytes] * count
            to_send: dict[int, int] = {}
            while missing:
                now = time.monotonic()
                while next_ < count and due[next_][0] <= now:
                    worker = due[next_][1]
                    asked[worker] = now
                    connections.asking[worker].send(request)
                    next_ += 1
                    now = time.monotonic()
                wait = due[next_][0] - now if next_ < count else _STUCK_S
                # Not in epoll, which waits whole milliseconds.
                select.select([ready], [], [], max(0.0, wait))
                events = ready.poll(0)
                if not events and next_ == count:
                    raise UnavailableError(f"an answer did not come within {_STUCK_S:.0f} s")
                for fd, _ in events:
                    worker = abs(ends[fd]) - 1
                    if ends[fd] > 0:
                        to_come[worker] -= _read(connections.asking[worker], buffer)
                        _wake_at(connections.asking[worker], to_come[worker] or rounds.response_bytes)
                        if to_come[worker] == 0:
                            missing -= 1
                            measured.responses.append(
                                (number, worker + 1, asked[worker] - began, time.monotonic() - began)
                            )
                    elif worker in to_send:
                        _write(connections.answering[worker], answer, to_send, worker, ready)
                    else:
                        to_read[worker] -= _read(connections.answering[worker], buffer)
                        if to_read[worker] == 0:
                            to_send[worker] = rounds.response_bytes
                            _write(connections.answering[worker], answer, to_send, worker, ready)
                            measured.late_answers.append(time.monotonic() - due_of[worker])
            measured.rounds.append((start - began, time.monotonic() - began))
    return measured


def _wake_at(end: socket.socket, count: int) -> None:
    """Let `poll` report a socket as readable only when this many bytes have arrived."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)


def _read(end: socket.socket, buffer: bytearray) -> int:
    count = end.recv_into(buffer)
    if count == 0:
        raise UnavailableError("a connection was closed while it was used")
    return count


def _write(end: socket.socket, answer: bytes, to_send: dict[int, int], worker: int, ready: select.epoll) -> None:
    """Send as much as the socket takes, which is all unless its buffer is shorter than asked for."""
    left = to_send[worker]
    left -= end.send(memoryview(answer)[len(answer) - left :])
    if left:
        to_send[worker] = left
        ready.modify(end, select.EPOLLOUT)
    else:
        del to_send[worker]
        ready.modify(end, select.EPOLLIN)


def round_trips(star: Star, congestion_control: str, count: int, chance: random.Random) -> list[float]:
    """Return round-trip times of small messages on the unloaded path, both applications' turns included."""
    asking, answering = connected(star, 1, congestion_control)
    found = []
    with asking, answering, select.epoll() as ready:
        ready.register(asking, select.EPOLLIN)
        ready.register(answering, select.EPOLLIN)
        for _ in range(count):
            time.sleep(chance.uniform(0.0, 0.002))
            sent = time.monotonic()
            asking.send(b"?")
            while True:
                events = ready.poll(_STUCK_S)
                if not events:
                    raise UnavailableError("the path does not carry a message")
                if any(fd == answering.fileno() for fd, _ in events):
                    answering.recv(16)
                    answering.send(b"!")
                else:
                    asking.recv(16)
                    found.append(time.monotonic() - sent)
                    break
    return found


def departures(star: Star, rate_bps: int, seconds: float) -> tuple[float, list[float]]:
    """Keep the port busy with datagrams; return its rate, and how late packets came for one of exactly that rate."""
    length = 1472
    with star.inside(0):
        receiving = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with star.inside(1):
        sending = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with receiving, sending:
        receiving.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 8 * _BUFFER_BYTES)
        receiving.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        receiving.bind((star.address(0), _PORT))
        receiving.settimeout(0.05)
        sending.connect((star.address(0), _PORT))
        bits = (length + _UDP_BYTES + _ETHERNET_BYTES) * 8
        began = time.monotonic()
        payload, sent = b"d" * length, 0
        while (now := time.monotonic()) < began + seconds:
            # A fifth more than the port carries: the queue stays full.
            if sent * bits < (now - began) * rate_bps * 1.2:
                sending.send(payload)
                sent += 1
            else:
                time.sleep(0.0005)
        times = list(_arrivals(receiving, length))
    # The first ones find the queue empty and tbf's bucket full.
    steady = times[50:]
    if len(steady) < 50:
        raise UnavailableError(f"{len(times)} of {sent} datagrams came through the port")
    rate = (len(steady) - 1) * bits / (steady[-1] - steady[0])
    offsets = [at - steady[0] - number * bits / rate_bps for number, at in enumerate(steady)]
    least = min(offsets)
    return rate, [offset - least for offset in offsets]


def _arrivals(receiving: socket.socket, length: int) -> Iterator[float]:
    while True:
        try:
            _, ancillary, _, _ = receiving.recvmsg(length, 64)
        except TimeoutError:
            return
        seconds, nanoseconds = struct.unpack("qq", ancillary[0][2][:16])
        yield seconds + nanoseconds * 1e-9


def quantiles(values: Sequence[float]) -> dict[str, float]:
    """Return percentiles by nearest rank, with the least and the greatest."""
    ascending = sorted(values)
    ranks = {f"p{percent:g}": max(1, math.ceil(percent / 100 * len(ascending) - 1e-9)) for percent in PERCENTS}
    return {"min": ascending[0], **{name: ascending[rank - 1] for name, rank in ranks.items()}, "max": ascending[-1]}
