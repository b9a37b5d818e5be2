"""The scheduler of requests against incast, for asyncio and trio: `incast_requests`, which can be installed alone."""

from incast_requests import (
    Decision,
    Peer,
    Plan,
    Port,
    Scheduler,
    SchedulerClosedError,
    Slot,
    Status,
    gather,
    open,  # noqa: A004 - the module is meant to be named before it
    sockets,
)

__all__ = [
    "Decision",
    "Peer",
    "Plan",
    "Port",
    "Scheduler",
    "SchedulerClosedError",
    "Slot",
    "Status",
    "gather",
    "open",
    "sockets",
]
