"""A scheduler of requests against TCP incast, for asyncio and trio.

async with incast_requests.open() as scheduler:
    bodies = await scheduler.gather(*(fetch(url) for url in urls), expect_bytes=32_768)
"""

from incast_requests import sockets
from incast_requests._core import Slot, __version__
from incast_requests.connections import Peer
from incast_requests.decisions import Decision, Status
from incast_requests.plan import Plan, Port
from incast_requests.scheduler import Scheduler, SchedulerClosedError
from incast_requests.short import gather, open  # noqa: A004 - the module is meant to be named before it

__all__ = [
    "Decision",
    "Peer",
    "Plan",
    "Port",
    "Scheduler",
    "SchedulerClosedError",
    "Slot",
    "Status",
    "__version__",
    "gather",
    "open",
    "sockets",
]
