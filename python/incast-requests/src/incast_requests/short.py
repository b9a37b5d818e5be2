"""The functions with which one begins."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from incast_requests import runtime
from incast_requests.gathering import Unsent
from incast_requests.plan import Plan, positive
from incast_requests.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from incast_requests.decisions import Decision
    from incast_requests.gathering import Request

T = TypeVar("T")
_Shared = dict[int | None, Scheduler]
# The schedulers of short forms, by event loop.
_shared: dict[Any, _Shared] = {}


def open(  # noqa: A001 - the module is meant to be named before it
    plan: Plan | None = None,
    *,
    on_decision: Callable[[Decision], None] | None = None,
    clock: Callable[[], int] | None = None,
) -> Scheduler:
    """Return a scheduler: `async with incast.requests.open() as scheduler`.

    Args:
        plan: what is known of the link. Without it, the scheduler learns how much it holds.
        on_decision: is called with every decision. What it raises is logged.
        clock: nanoseconds that never go back, in place of `time.monotonic_ns`; for tests. The scheduler then uses
            timers of the event loop.

    Raises:
        ValueError: the plan does not fit together.
        TypeError: the plan is no `Plan`, or something else no function.

    """
    return Scheduler(plan, on_decision=on_decision, clock=clock)


@overload
def gather(
    *requests: Request[T],
    expect_bytes: int | Sequence[int | None] | None = None,
    budget_bytes: int | None = None,
    sockets: Sequence[Any] | None = None,
    return_exceptions: Literal[False] = False,
) -> Coroutine[Any, Any, list[T]]: ...


@overload
def gather(
    *requests: Request[T],
    expect_bytes: int | Sequence[int | None] | None = None,
    budget_bytes: int | None = None,
    sockets: Sequence[Any] | None = None,
    return_exceptions: bool,
) -> Coroutine[Any, Any, list[T | BaseException]]: ...


def gather(
    *requests: Request[T],
    expect_bytes: int | Sequence[int | None] | None = None,
    budget_bytes: int | None = None,
    sockets: Sequence[Any] | None = None,
    return_exceptions: bool = False,
) -> Coroutine[Any, Any, list[Any]]:
    """Send requests as the link allows, and return their results in the order of the requests.

    All calls in one event loop with the same `budget_bytes` share one scheduler. Without it that scheduler
    learns; what it has learned is kept as long as the event loop. `Scheduler.gather` says the rest.
    """
    return _gather(Unsent(requests), expect_bytes, budget_bytes, sockets, return_exceptions)


async def _gather(
    unsent: Unsent,
    expect_bytes: int | Sequence[int | None] | None,
    budget_bytes: int | None,
    sockets: Sequence[Any] | None,
    return_exceptions: bool,
) -> list[Any]:
    try:
        scheduler = _shared_scheduler(budget_bytes)
        return await scheduler._gather(unsent, expect_bytes, sockets, return_exceptions)
    finally:
        unsent.close()


def _shared_scheduler(budget_bytes: int | None) -> Scheduler:
    if budget_bytes is not None:
        # First, as `True` and 1.0 are keys like 1.
        budget_bytes = positive("budget_bytes", budget_bytes, "bytes")
    here = runtime.current()
    known = _of_loop(here)
    if budget_bytes not in known:
        scheduler = Scheduler(None if budget_bytes is None else Plan(budget_bytes=budget_bytes))
        # Its hooks and timers must not run in the context of whoever called first.
        contextvars.Context().run(scheduler._start)
        # A program may have any number of budgets, and each would keep a descriptor.
        scheduler._keeps_timer = False
        known[budget_bytes] = scheduler
    return known[budget_bytes]


def _of_loop(here: runtime.Runtime) -> _Shared:
    if isinstance(here, runtime.Asyncio):
        found = _shared.get(here.loop)
        if found is None:
            for loop in [loop for loop in _shared if loop.is_closed()]:
                for scheduler in _shared.pop(loop).values():
                    scheduler._close_timer()
            found = _shared[here.loop] = {}
        return found
    from incast_requests.on_trio import SHARED

    try:
        return SHARED.get()
    except LookupError:
        SHARED.set({})
        return SHARED.get()
