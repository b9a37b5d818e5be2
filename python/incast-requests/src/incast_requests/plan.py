"""What a program knows of the path of its responses."""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any

from incast_requests._core import Core

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST = (1 << 62) - 1
_MOST_WORKERS = (1 << 32) - 1
_LONGEST_MS = 3_600_000
# What stands for a port of which nothing is said. No scheduler that is allowed without a port looks at it.
_UNKNOWN_RATE_BPS, _UNKNOWN_BUFFER_BYTES = 1_000_000_000, 65_536


def positive(name: str, value: object, unit: str, most: int = _MOST, otherwise: str = "") -> int:
    """Return a whole number above zero, also one of numpy. `otherwise` is what else is allowed.

    Raises:
        ValueError: it is something else, or more than `most`.

    """
    try:
        # What numpy has is no `int`. An array is refused here, too.
        number = None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or not 0 < number <= most:
        limit = f", at most {most:,}" if number is not None and number > most else ""
        raise ValueError(f"{name}: found {value!r:.80}, expected a whole number of {unit} above zero{limit}{otherwise}")
    return number


def _time(name: str, value: Any, below: int, unit: str) -> float:  # noqa: ANN401 - it is checked
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    # NaN is not in between.
    if not is_number or not 0 <= value < below:
        raise ValueError(f"{name}: found {value!r:.80}, expected 0 to {below:,} {unit}")
    return float(value)


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
        if self.think_ms is not None:
            _time("think_ms", self.think_ms, _LONGEST_MS, "milliseconds")
        if not isinstance(self.clamp, bool):
            raise ValueError(f"clamp: found {self.clamp!r:.80}, expected True or False")  # noqa: TRY004 - as of others
        if self.think_ms and self.port is None:
            raise ValueError("port: think_ms needs it, as requests then go at the pace of its link")
        given = self._scheduler()
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
            self._give(given, "budget", "budget_bytes", f"{operator.index(self.budget_bytes)}B")
        if self.window_bytes is not None:
            self._give(given, "window", "window_bytes", f"{operator.index(self.window_bytes)}B")
        if self.think_ms is not None:
            self._give(given, "think", "think_ms", f"{round(self.think_ms * 1e6)}ns" if self.think_ms else None)
        if not self.clamp and given.get("clamp"):
            raise ValueError("clamp: found False, and 'clamp': True in the scheduler: give one")
        given.setdefault("clamp", self.clamp)
        given.setdefault("learn", self.port is None and "budget" not in given)
        if self.think_ms is None and self.port is not None and not (given["learn"] or "think" in given):
            given.setdefault("learn_think", True)
        return given

    def _scheduler(self) -> dict[str, Any]:
        scheduler: object = self.scheduler
        if isinstance(scheduler, str):
            return {"name": scheduler}
        if isinstance(scheduler, Mapping) and isinstance(scheduler.get("name"), str):
            return dict(scheduler)
        raise ValueError(f"scheduler: found {scheduler!r:.80}, expected a name, or a mapping with a name")

    def _give(self, given: dict[str, Any], key: str, name: str, value: str | None) -> None:
        if (other := given.get(key)) is not None:
            raise ValueError(f"{name}: found {getattr(self, name)}, and {key!r}: {other!r} in the scheduler: give one")
        if value is not None:
            given[key] = value

    def core(self, clock: Callable[[], int] | None) -> Core:
        """Return the scheduler. `clock` tells it the time in nanoseconds, in place of `time.monotonic_ns`.

        Raises:
            ValueError: it has no such parameters.

        """
        application = self.application()
        try:
            parameters = json.dumps(application, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"scheduler: found {self.scheduler!r:.80}, expected what JSON can hold: {error}") from None
        port = self.port
        if port is None:
            port = Port(rate_bps=_UNKNOWN_RATE_BPS, buffer_bytes=_UNKNOWN_BUFFER_BYTES)
        elif not isinstance(port, Port):
            raise ValueError(f"port: found {port!r:.80}, expected a Port")
        workers = self.workers
        return Core(
            parameters,
            clock,
            rate_bps=positive("port.rate_bps", port.rate_bps, "bits per second"),
            base_rtt_ns=round(_time("port.base_rtt_us", port.base_rtt_us, _LONGEST_MS * 1000, "microseconds") * 1e3),
            buffer_bytes=positive("port.buffer_bytes", port.buffer_bytes, "bytes"),
            mss_bytes=positive("mss_bytes", self.mss_bytes, "bytes"),
            workers=None if workers is None else positive("workers", workers, "servers", _MOST_WORKERS),
            rto_min_ns=round(_time("port.rto_min_ms", port.rto_min_ms, _LONGEST_MS, "milliseconds") * 1e6),
            fits_segments="window" not in application,
        )
