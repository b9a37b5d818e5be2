"""What a program knows of the path of its responses."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from incast_requests._core import Core

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_MOST = 1 << 62
_LONGEST_THINK_MS = 3_600_000
# What stands for a port of which nothing is said. No scheduler that is allowed without a port looks at it.
_UNKNOWN_RATE_BPS, _UNKNOWN_BUFFER_BYTES = 1_000_000_000, 65_536


def positive(name: str, value: object, unit: str) -> int:
    """Return a whole number above zero.

    Raises:
        ValueError: it is something else.

    """
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < _MOST:
        raise ValueError(f"{name}: found {value!r}, expected a whole number of {unit} above zero")
    return value


@dataclass(frozen=True, kw_only=True)
class Port:
    """The last port before this host: the one that overflows."""

    rate_bps: int
    """Bits per second of its link."""
    buffer_bytes: int
    """Bytes that it can hold; of a buffer that ports share, the part that it gets."""
    base_rtt_us: float = 100.0
    """Round-trip time of an empty network, in microseconds."""
    rto_min_ms: float = 200.0
    """Minimum retransmission timeout of the servers, in milliseconds."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How many requests may be outstanding. Without a budget and a port the budget is learned."""

    budget_bytes: int | None = None
    """Most bytes that may be under way at once."""
    port: Port | None = None
    """The budget follows from it: 70 % of its buffer, at most what it sends in half the least timeout."""
    workers: int | None = None
    """How many servers answer at once at most: the budget of a port is divided among so many windows."""
    window_bytes: int | None = None
    """To how much the receive windows of connections are limited; without it, at least four segments."""
    clamp: bool = True
    """Whether receive windows are limited at all."""
    think_ms: float | None = None
    """How long servers usually think before they answer, in milliseconds. Meanwhile their requests hold nothing of the
    budget of a port, and others go at the pace of its link. Without it, it is found out, if a port is given, from the
    responses to requests whose sockets are given."""
    mss_bytes: int = 1448
    """Payload of a full segment on the path."""
    scheduler: str | Mapping[str, Any] = field(default="credit")
    """Another scheduler of the simulator, for comparison: a name such as `"ars"`, or what a scenario has under
    `stack.application`, such as `{"name": "fixed-window", "outstanding": 4}`."""

    def application(self) -> dict[str, Any]:
        """Return what a scenario would have under `stack.application`.

        Raises:
            ValueError: something does not fit together.

        """
        for name in ("budget_bytes", "window_bytes"):
            if (value := getattr(self, name)) is not None:
                positive(name, value, "bytes")
        if self.think_ms is not None and not 0 <= self.think_ms < _LONGEST_THINK_MS:
            raise ValueError(f"think_ms: found {self.think_ms!r}, expected 0 to {_LONGEST_THINK_MS:,} milliseconds")
        if self.think_ms and self.port is None:
            raise ValueError("port: think_ms needs it, as requests then go at the pace of its link")
        given: dict[str, Any] = {"name": self.scheduler} if isinstance(self.scheduler, str) else dict(self.scheduler)
        if given.get("name") != "credit":
            for name in ("budget_bytes", "window_bytes"):
                if getattr(self, name) is not None:
                    raise ValueError(f"{name}: the scheduler {given.get('name')!r} has none, only 'credit' has")
            if self.think_ms:
                raise ValueError(f"think_ms: the scheduler {given.get('name')!r} has none, only 'credit' has")
            if given.get("name") == "ars" and given.get("batch_size") is None and self.port is None:
                raise ValueError("port: the scheduler 'ars' needs it, or a batch_size")
            return given
        if self.budget_bytes is not None:
            given.setdefault("budget", f"{self.budget_bytes}B")
        if self.window_bytes is not None:
            given.setdefault("window", f"{self.window_bytes}B")
        if self.think_ms:
            given.setdefault("think", f"{round(self.think_ms * 1e6)}ns")
        given.setdefault("clamp", self.clamp)
        given.setdefault("learn", self.port is None and "budget" not in given)
        if self.think_ms is None and self.port is not None and not (given["learn"] or "think" in given):
            given.setdefault("learn_think", True)
        return given

    def core(self, clock: Callable[[], int] | None) -> Core:
        """Return the scheduler. `clock` tells it the time in nanoseconds, in place of `time.monotonic_ns`.

        Raises:
            ValueError: it has no such parameters.

        """
        port = self.port
        if port is not None:
            positive("port.rate_bps", port.rate_bps, "bits per second")
            positive("port.buffer_bytes", port.buffer_bytes, "bytes")
        return Core(
            json.dumps(self.application()),
            clock,
            rate_bps=port.rate_bps if port else _UNKNOWN_RATE_BPS,
            base_rtt_ns=round((port.base_rtt_us if port else 100.0) * 1e3),
            buffer_bytes=port.buffer_bytes if port else _UNKNOWN_BUFFER_BYTES,
            mss_bytes=positive("mss_bytes", self.mss_bytes, "bytes"),
            workers=None if self.workers is None else positive("workers", self.workers, "servers"),
            rto_min_ns=round((port.rto_min_ms if port else 200.0) * 1e6),
            fits_segments=self.window_bytes is None,
        )
