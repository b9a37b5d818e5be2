"""The functions with which one begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from incast_requests import runtime
from incast_requests.plan import Plan
from incast_requests.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
        clock: nanoseconds that never go back, in place of `time.monotonic_ns`; for tests.

    Raises:
        ValueError: the plan does not fit together.

    """
    return Scheduler(plan, on_decision=on_decision, clock=clock)


async def gather(
    *requests: Request[T],
    expect_bytes: int | Sequence[int] | None = None,
    budget_bytes: int | None = None,
    sockets: Sequence[Any] | None = None,
    return_exceptions: bool = False,
) -> list[T]:
    """Send requests as the link allows, and return their results in the order of the requests.

    All calls in one event loop with the same `budget_bytes` share one scheduler. Without it that scheduler
    learns; what it has learned is kept as long as the event loop. `Scheduler.gather` says the rest.
    """
    # Made first, so that a budget that is none is found before anything runs.
    scheduler = _shared_scheduler(budget_bytes)
    return await scheduler.gather(
        *requests, expect_bytes=expect_bytes, sockets=sockets, return_exceptions=return_exceptions
    )


def _shared_scheduler(budget_bytes: int | None) -> Scheduler:
    here = runtime.current()
    known = _of_loop(here)
    if budget_bytes not in known:
        scheduler = Scheduler(None if budget_bytes is None else Plan(budget_bytes=budget_bytes))
        scheduler._start()
        known[budget_bytes] = scheduler
    return known[budget_bytes]


def _of_loop(here: runtime.Runtime) -> _Shared:
    if isinstance(here, runtime.Asyncio):
        found = _shared.get(here.loop)
        if found is None:
            for loop in [loop for loop in _shared if loop.is_closed()]:
                del _shared[loop]
            found = _shared[here.loop] = {}
        return found
    from incast_requests.on_trio import SHARED

    try:
        return SHARED.get()
    except LookupError:
        SHARED.set({})
        return SHARED.get()
