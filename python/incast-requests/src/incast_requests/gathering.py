"""Many requests, and one that waits for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from incast_requests._core import Slot
    from incast_requests.runtime import Runtime
    from incast_requests.scheduler import Scheduler

T = TypeVar("T")
Request: TypeAlias = Awaitable[T] | Callable[["Slot"], Awaitable[T]]
"""A coroutine, or a function of the slot in which it runs."""


class Unsent:
    """The requests of a call, which are closed with it. The call may never begin, and so cannot see to that itself."""

    __slots__ = ("requests",)

    def __init__(self, requests: tuple[Request[Any], ...]) -> None:
        self.requests = requests

    def close(self) -> None:
        """Close those that never began: they would complain that nobody awaited them."""
        requests, self.requests = self.requests, ()
        for request in requests:
            if asyncio.iscoroutine(request):
                request.close()

    def __del__(self) -> None:
        self.close()


class Gather:
    """Requests of one call. A request has a task from when it is granted: until then it costs little."""

    def __init__(
        self,
        scheduler: Scheduler,
        of: Runtime,
        requests: Sequence[Request[Any]],
        slots: list[Slot],
        return_exceptions: bool,
    ) -> None:
        self._scheduler = scheduler
        self._tasks = of.tasks()
        self._return_exceptions = return_exceptions
        self._jobs = [Job(self, request, slot) for request, slot in zip(requests, slots, strict=True)]
        self._left = len(self._jobs)
        self._first: BaseException | None = None
        self.stopped = False

    async def run(self) -> list[Any]:
        """Return what became of the requests."""
        jobs = self._jobs
        try:
            if jobs:
                await self._tasks.run(self._begin, self._stop)
        finally:
            # They know this gather: all responses would stay until the garbage collector comes.
            if self._left == 0:
                self._jobs = []
        if self._first is not None:
            try:
                raise self._first
            finally:
                # The error's traceback holds this frame.
                self._first = None
        return [job.result for job in jobs]

    def _begin(self) -> None:
        scheduler = self._scheduler
        for job in self._jobs:
            if not job.waits:
                continue
            try:
                waits = job.slot._ask()
            except Exception as error:
                job.set_exception(error)
                continue
            if waits is None:
                job.set_result(None)
            else:
                scheduler._core.wait(waits, job)

    def start(self, job: Job) -> None:
        """Run a request that was granted."""
        try:
            if self._scheduler._watches or job.slot._socket is not None:
                job.slot._sent()
            self._tasks.start(job)
        except Exception as error:
            self._tasks.fail(job, error)

    def never(self, job: Job, error: BaseException) -> None:
        """Take that a request will never be sent."""
        if self._return_exceptions and not self.stopped:
            job.result = error
        else:
            self._fail(error)
        self._one_less()

    def ended(self, job: Job, result: Any, error: BaseException | None) -> None:  # noqa: ANN401
        """Take what became of a request."""
        if error is None:
            job.result = result
        elif self._return_exceptions and self._tasks.may_be_returned(error):
            job.result = error
        else:
            # First, or what its credit lets go would begin.
            self._fail(error)
        self._leave(job, error is None)

    def cancelled(self, job: Job) -> None:
        """Take that a request was cancelled together with the gather."""
        self._stop()
        self._leave(job, False)

    def _leave(self, job: Job, complete: bool) -> None:
        try:
            job.slot._leave(complete)
        finally:
            # Whatever goes wrong, who gathers must not wait for ever.
            self._one_less()

    def _fail(self, error: BaseException) -> None:
        if not self.stopped:
            self._first = error
            self._stop()
            self._tasks.stop()

    def _stop(self) -> None:
        """Withdraw what waits. What runs ends by its cancellation."""
        if self.stopped:
            return
        self.stopped = True
        waiting = [job for job in self._jobs if job.waits]
        for job in waiting:
            # Before any is withdrawn, as that may let others go.
            job.waits = False
        for job in waiting:
            if job.slot.request >= 0:
                self._scheduler._no_longer_waits(job.slot.request)
            self._one_less()

    def _one_less(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._tasks.all_ended()


class Job:
    """One request of a gather: in the queue it has the methods of a future."""

    __slots__ = ("gather", "request", "result", "slot", "waits")

    def __init__(self, gather: Gather, request: Request[Any], slot: Slot) -> None:
        self.gather = gather
        self.request = request
        self.slot = slot
        self.result: Any = None
        self.waits = True

    def done(self) -> bool:
        """Return whether it no longer waits."""
        return not self.waits

    def set_result(self, _result: None, /) -> None:
        """Let it go."""
        if not self.waits:
            raise asyncio.InvalidStateError
        self.waits = False
        self.gather.start(self)

    def set_exception(self, error: BaseException, /) -> None:
        """Say that it never will."""
        self.waits = False
        self.gather.never(self, error)

    def coroutine(self) -> Coroutine[Any, Any, Any]:
        """Return what its task runs."""
        if asyncio.iscoroutine(self.request):
            return self.request
        return self._wait()

    async def _wait(self) -> Any:  # noqa: ANN401
        request = self.request
        return await (request(self.slot) if callable(request) else request)

    def ended(self, result: Any, error: BaseException | None) -> None:  # noqa: ANN401
        """Take what became of it."""
        self.gather.ended(self, result, error)

    def cancelled(self) -> None:
        """Take that it was cancelled together with the gather."""
        self.gather.cancelled(self)
