"""Requests that wait until what is under way leaves room for their responses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeGuard, TypeVar, overload

from incast_requests import runtime
from incast_requests._core import Slots
from incast_requests.decisions import Decision, Kind, Status
from incast_requests.gathering import Gather, Request, Unsent
from incast_requests.plan import Plan, positive
from incast_requests.sockets import NEVER_CONNECTED, socket_of

if TYPE_CHECKING:
    from incast_requests._core import Slot
    from incast_requests.runtime import Runtime, Timer

T = TypeVar("T")
_log = logging.getLogger("incast_requests")

_NS_PER_MS = 1_000_000
_DRAIN_CHECK_NS = 10_000_000
# asyncio closes a socket in the turn after the one in which its transport was closed.
_DRAIN_FIRST_CHECKS = 3
_QUIET_NS = 1_000_000_000


class SchedulerClosedError(RuntimeError):
    """The scheduler was closed while a request waited for it, or before."""


class Scheduler(Slots):
    """The requests of a program over one link: `incast.requests.open` makes it. Use one for all that share the link."""

    def __new__(
        cls,
        plan: Plan | None = None,
        *,
        on_decision: Callable[[Decision], None] | None = None,  # noqa: ARG004 - of __init__
        clock: Callable[[], int] | None = None,
    ) -> Self:
        """Make what decides."""
        if plan is None:
            plan = Plan()
        elif not isinstance(plan, Plan):
            raise TypeError(f"plan: found {plan!r:.80}, expected a Plan")
        if clock is not None and not callable(clock):
            raise TypeError(f"clock: found {clock!r:.80}, expected a function that returns nanoseconds")
        return super().__new__(cls, plan.core(clock))

    def __init__(
        self,
        plan: Plan | None = None,  # noqa: ARG002 - of __new__
        *,
        on_decision: Callable[[Decision], None] | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._watches = self._core.watches_progress()
        self._clock = self._core.now_ns
        self._hooks: list[Callable[[Decision], None]] = []
        if on_decision is not None:
            self.on_decision(on_decision)
        self._runtime: Runtime | None = None
        # With the time at which each was given up.
        self._draining: dict[int, tuple[Slot, int]] = {}
        self._drain_checks = 0
        # The kernel's timers do not follow a clock of the program's own.
        self._precise = clock is None
        self._timer: Timer | None = None
        self._keeps_timer = True
        self._changes = 0
        self._warned = False
        self._closed = False

    async def __aenter__(self) -> Self:
        """Begin to serve the tasks of this event loop.

        Raises:
            RuntimeError: it has served before.

        """
        self._start()
        return self

    def _start(self) -> None:
        if self._runtime is not None or self._closed:
            raise RuntimeError("a scheduler is opened once")
        self._runtime = runtime.current()
        self._runtime.open(self._core)
        self._core.on_timer_wanted(self._set_timer)

    async def __aexit__(self, *_: object) -> None:
        """Close it. Requests that still wait are withdrawn, and get a `SchedulerClosedError`.

        Those that were let go go on, and count as ever when their slots are left. Nobody looks any more after those
        that were given up: they have failed, whatever may still come.
        """
        self._closed = True
        self._warn_of_others()
        withdrawn = self._core.close()
        if self._hooks:
            for request, _waiter in withdrawn:
                self._tell("withdrawn", request, self._clock())
        for _request, waiter in withdrawn:
            if not waiter.done():
                waiter.set_exception(SchedulerClosedError("the scheduler was closed"))
        self._close_timer()
        self._look_at_drains()

    def _close_timer(self) -> None:
        timer, self._timer, self._core.timer_ns = self._timer, None, None
        if timer is not None:
            timer.close()

    @overload
    def gather(
        self,
        *requests: Request[T],
        expect_bytes: int | Sequence[int | None] | None = None,
        sockets: Sequence[Any] | None = None,
        return_exceptions: Literal[False] = False,
    ) -> Coroutine[Any, Any, list[T]]: ...

    @overload
    def gather(
        self,
        *requests: Request[T],
        expect_bytes: int | Sequence[int | None] | None = None,
        sockets: Sequence[Any] | None = None,
        return_exceptions: bool,
    ) -> Coroutine[Any, Any, list[T | BaseException]]: ...

    def gather(
        self,
        *requests: Request[T],
        expect_bytes: int | Sequence[int | None] | None = None,
        sockets: Sequence[Any] | None = None,
        return_exceptions: bool = False,
    ) -> Coroutine[Any, Any, list[Any]]:
        """Send requests as the link allows, and return their results in the order of the requests.

        If one fails, the others are cancelled, and when they have ended its error is raised; with
        `return_exceptions` errors take the place of results, and no request is cancelled for another. A cancellation
        ends all requests. Those that have not begun never begin.

        Args:
            requests: coroutines, or functions that take a `Slot` and return something to wait for.
            expect_bytes: size of the responses, about: one number for all, or a list of one for each, `None` where a
                socket is to say it.
            sockets: for each request its socket, something that has one, a `Peer`, or `None`: a list.
            return_exceptions: whether errors are returned.

        Raises:
            ValueError: there is not one size and one socket for each request, a size is not a number above zero, or
                there is neither a size nor a socket.
            TypeError: a request is neither a coroutine nor a function, or has begun already, as tasks and futures
                have; `sockets` is no list, or has something that never has a connection, such as an address.
            SchedulerClosedError: the scheduler was closed, before or while requests wait.
            RuntimeError: it is not open, or was opened in another event loop.

        """
        # Not itself a coroutine: its arguments are to be closed also if it never begins.
        return self._gather(Unsent(requests), expect_bytes, sockets, return_exceptions)

    async def _gather(
        self,
        unsent: Unsent,
        expect_bytes: int | Sequence[int | None] | None,
        sockets: Sequence[Any] | None,
        return_exceptions: bool,
    ) -> list[Any]:
        try:
            slots = self._slots(unsent.requests, expect_bytes, sockets)
            if not self._core.is_here():
                raise self._unusable()
            assert self._runtime is not None  # noqa: S101 - it is current
            return await Gather(self, self._runtime, unsent.requests, slots, return_exceptions).run()
        finally:
            unsent.close()

    def on_decision(self, hook: Callable[[Decision], None]) -> None:
        """Call `hook` with every decision from now on. What it raises is logged, but for interrupts and exits.

        Raises:
            TypeError: it is no function.

        """
        if not callable(hook):
            raise TypeError(f"on_decision: found {hook!r:.80}, expected a function that takes a Decision")
        self._hooks.append(hook)
        self._core.follow()

    def status(self) -> Status:
        """Return how it stands."""
        waiting, outstanding, in_use, budget, _, _ = self._core.status()
        asked, completed, failed, withdrawn = self._core.counts()
        return Status(
            budget_bytes=budget,
            in_use_bytes=in_use,
            window_bytes=self._core.window_bytes(),
            waiting=waiting,
            outstanding=outstanding,
            draining=len(self._draining),
            asked=asked,
            completed=completed,
            failed=failed,
            withdrawn=withdrawn,
            changes=self._core.reasons(),
            losses_of_others=self._core.losses_of_others(),
            think_ms=self._core.think_ms(),
        )

    def _slots(
        self,
        requests: Sequence[Request[Any]],
        expect_bytes: int | Sequence[int | None] | None,
        sockets: Sequence[Any] | None,
    ) -> list[Slot]:
        count = len(requests)
        if expect_bytes is None or type(expect_bytes) is int:
            sizes: Sequence[int | None] = [expect_bytes] * count
        elif _is_list(expect_bytes):
            sizes = _one_each("expect_bytes", expect_bytes, count)
        else:
            sizes = [positive("expect_bytes", expect_bytes, "bytes", otherwise=", or a list of one for each")] * count
        places: Sequence[Any] = [None] * count
        if sockets is not None:
            if not _is_list(sockets):
                raise TypeError(f"sockets: found {sockets!r:.80}, expected a list of one for each request")
            places = _one_each("sockets", sockets, count)
            # Here, as a mistake of the program must not become a result, as errors of requests may.
            if any(issubclass(kind, NEVER_CONNECTED) for kind in {*map(type, places)}):
                for place in places:
                    socket_of(place)
        for request in requests:
            if type(request) is CoroutineType:
                continue
            if asyncio.isfuture(request):
                raise TypeError(f"{request!r} has begun already: pass the coroutine itself, or a function")
            if not callable(request) and not isinstance(request, Awaitable):
                raise TypeError(f"found {request!r}, expected a coroutine, or a function that takes a slot")
        return [self.slot(expect_bytes=size, socket=place) for size, place in zip(sizes, places, strict=True)]

    def _unusable(self) -> RuntimeError:
        if self._closed:
            return SchedulerClosedError("the scheduler was closed")
        if self._runtime is None:
            return RuntimeError("the scheduler is not open: async with incast.requests.open() as scheduler")
        return RuntimeError("the scheduler was opened in another event loop: open one in each")

    def _tell_asked(self, request: int, goes: bool) -> None:
        self._tell("granted" if goes else "waits", request, self._clock())
        self._tell_woken()

    def _tell_returned(self, request: int) -> None:
        self._tell("returned", request, self._clock())
        self._tell_woken()

    def _leave_otherwise(self, slot: Slot, complete: bool) -> None:
        """Leave a slot when its response is not complete, or is not what was expected."""
        complete = complete and not slot._abandoned
        received = slot.received_bytes
        if (found := slot._look()) is not None:
            is_open, _, in_all = found
            if not complete and is_open:
                self._drain(slot)
                return
            if received is None:
                received = slot._count(in_all, complete)
        if received is None:
            received = (slot._expect or 0) if complete else 0
        slot._finish(complete, received)

    def _drain(self, slot: Slot) -> None:
        """Keep the cost of a request that was given up until nothing of its response can come any more."""
        if self._closed:
            slot._finish(False, 0)
            return
        given_up_ns = self._clock()
        self._draining[slot.request] = slot, given_up_ns
        self._drain_checks = 0
        if self._hooks:
            self._tell("draining", slot.request, given_up_ns)
        self._set_timer()

    def _look_at_drains(self) -> None:
        self._drain_checks += 1
        for request, (slot, given_up_ns) in list(self._draining.items()):
            received = 0
            if (found := slot._look()) is not None:
                is_open, last_data_ms, in_all = found
                dry = self._closed or _has_run_dry(slot, last_data_ms, in_all, self._clock() - given_up_ns)
                if is_open and not dry:
                    continue
                received = slot._count(in_all, False)
            del self._draining[request]
            slot._finish(False, received)

    def _no_longer_waits(self, request: int) -> None:
        if self._core.withdraw(request) and self._hooks:
            self._tell("withdrawn", request, self._clock())
            self._tell_woken()

    def _set_timer(self) -> None:
        if self._closed:
            return
        now = self._clock()
        wanted = (self._core.next_timer_ns(), self._core.next_acknowledge_ns())
        times = [max(at, now) for at in wanted if at is not None]
        if self._draining:
            times.append(now if self._drain_checks < _DRAIN_FIRST_CHECKS else now + _DRAIN_CHECK_NS)
        at = min(times, default=None)
        if at is not None:
            if self._timer is None:
                assert self._runtime is not None  # noqa: S101 - slots are outstanding
                self._timer = self._runtime.timer(self._on_timer, precise=self._precise)
            self._timer.set(at - now)
        elif self._timer is not None and self._keeps_timer:
            self._timer.cancel()
        else:
            # It gets another when it needs one.
            self._close_timer()
        self._core.timer_ns = at

    def _on_timer(self) -> None:
        try:
            self._core.acknowledge()
            if self._draining:
                self._look_at_drains()
            at = self._core.next_timer_ns()
            if at is not None and at <= self._clock():
                self._on_due()
            self._warn_of_others()
        finally:
            # Also after an interrupt: whoever waits may wait for this timer alone.
            self._set_timer()

    def _warn_of_others(self) -> None:
        if self._core.losses_of_others() != self._warned:
            self._warned = not self._warned
            if self._warned:
                _log.warning(
                    "cuts of the budget of the request scheduler do not help against losses: it seems that "
                    "others fill the port, such as long flows; where they always do, give it a plan, or do without it"
                )

    def _on_due(self) -> None:
        """Call the timer; before silence is taken for a stall, look whether bytes came of which nobody has told."""
        gaps, last_data_ms = 0, None
        for slot in self._core.seen() if self._core.looks() else ():
            if (found := slot._look()) is None:
                continue
            _, since_ms, in_all = found
            gaps += slot._take_gaps()
            if slot._begun or in_all > slot._received_before:
                last_data_ms = since_ms if last_data_ms is None else min(since_ms, last_data_ms)
        if last_data_ms is not None:
            self._core.seen_to_come(last_data_ms * _NS_PER_MS)
            self._tell_woken()
        at = self._core.next_timer_ns()
        if gaps or (at is not None and at <= self._clock()):
            self._core.timer(gaps)
            self._tell_woken()

    def _tell_woken(self) -> None:
        if self._hooks:
            for request in self._core.take_woken():
                self._tell("granted", request, self._clock())
            # Nobody may have been let go by what changed it.
            self._tell(None, None, self._clock())

    def _tell(self, kind: Kind | None, request: int | None, now: int) -> None:
        waiting, _, in_use, budget, changes, why = self._core.status()
        found = []
        if kind is not None:
            cost = None if request is None else self._core.cost_bytes(request)
            found.append(Decision(kind, request, now, cost, budget, in_use, waiting, None))
        if changes != self._changes:
            self._changes = changes
            found.append(Decision("budget", None, now, None, budget, in_use, waiting, why))
        for decision in found:
            for hook in self._hooks:
                try:
                    hook(decision)
                except (KeyboardInterrupt, SystemExit):
                    raise
                except BaseException:
                    # Also a cancellation: nobody cancels a hook, but it may look into a future.
                    _log.exception("a hook of the request scheduler failed")


def _has_run_dry(slot: Slot, last_data_ms: int, received_bytes: int, given_up_for_ns: int) -> bool:
    if slot._expect is not None and received_bytes - slot._received_before >= slot._expect:
        return True
    # The last data may be that of an earlier request.
    return min(last_data_ms * _NS_PER_MS, given_up_for_ns) >= _QUIET_NS


def _is_list(given: object) -> TypeGuard[Sequence[Any]]:
    # Text and bytes are sequences of something else. A set has no order, and an iterator no length.
    return isinstance(given, Sequence) and not isinstance(given, str | bytes | bytearray)


def _one_each(name: str, given: Sequence[T], count: int) -> Sequence[T]:
    if len(given) != count:
        raise ValueError(f"{name}: found {len(given)}, expected one for each of {count} requests")
    return given
