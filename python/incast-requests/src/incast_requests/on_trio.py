"""How tasks of trio wait."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import sys
from typing import TYPE_CHECKING

import trio

from incast_requests import _core
from incast_requests.runtime import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from incast_requests._core import Core, Slot
    from incast_requests.runtime import Job, Tasks, Timer
    from incast_requests.scheduler import Scheduler

SHARED: trio.lowlevel.RunVar[dict[int | None, Scheduler]] = trio.lowlevel.RunVar("incast_requests")
"""The schedulers of short forms."""


class _Waiter:
    """A place in the queue of a task."""

    __slots__ = ("_cancelled", "_error", "_task", "_woken")

    def __init__(self) -> None:
        self._task: trio.lowlevel.Task | None = None
        self._woken = False
        self._cancelled = False
        self._error: BaseException | None = None

    def done(self) -> bool:
        return self._woken or self._cancelled

    def set_result(self, _result: None, /) -> None:
        if self.done():
            raise asyncio.InvalidStateError
        self._woken = True
        if self._task is not None:
            trio.lowlevel.reschedule(self._task)

    def set_exception(self, error: BaseException, /) -> None:
        self._error = error
        self.set_result(None)

    async def wait(self) -> None:
        if not self._woken:
            self._task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._abort)
        if self._error is not None:
            raise self._error

    def _abort(self, _raise: object) -> trio.lowlevel.Abort:
        # Trio does not ask this of a task that was woken.
        self._cancelled = True
        return trio.lowlevel.Abort.SUCCEEDED


class _LoopTimer:
    """Up to a millisecond late."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self._scope: trio.CancelScope | None = None

    def set(self, after_ns: int) -> None:
        self.cancel()
        self._scope = trio.CancelScope()
        trio.lowlevel.spawn_system_task(self._run, self._scope, after_ns / NS_PER_S)

    async def _run(self, scope: trio.CancelScope, after_s: float) -> None:
        with scope:
            await trio.sleep(after_s)
            self._function()

    def cancel(self) -> None:
        if self._scope is not None:
            self._scope.cancel()

    def close(self) -> None:
        self.cancel()


if sys.platform == "linux":

    class _KernelTimer:
        """Some tens of microseconds late."""

        def __init__(self, function: Callable[[], None]) -> None:
            self._function = function
            self._timer = _core.Timer()
            self._instead: _LoopTimer | None = None
            self._scope = trio.CancelScope()
            trio.lowlevel.spawn_system_task(self._run)

        def set(self, after_ns: int) -> None:
            (self._instead or self._timer).set(after_ns)

        def cancel(self) -> None:
            (self._instead or self._timer).cancel()

        async def _run(self) -> None:
            try:
                with self._scope:
                    while await self._has_come():
                        # Otherwise it would be called again and again.
                        self.cancel()
                        self._function()
            finally:
                self._timer.close()

        async def _has_come(self) -> bool:
            try:
                await trio.lowlevel.wait_readable(self._timer)
            except OSError:
                # The kernel cannot watch another descriptor. If called too early, the function sets the timer again.
                self._instead = _LoopTimer(self._function)
                self._function()
                return False
            return True

        def close(self) -> None:
            self._scope.cancel()
            if self._instead is not None:
                self._instead.close()


class _Tasks:
    def __init__(self) -> None:
        self._nursery: trio.Nursery | None = None
        self._context = contextvars.copy_context()
        self._done = trio.Event()

    async def run(self, begin: Callable[[], None], stop: Callable[[], None]) -> None:
        try:
            async with trio.open_nursery() as self._nursery:
                try:
                    begin()
                    await self._done.wait()
                except trio.Cancelled:
                    # By `stop`, or from outside; then what waits does not begin.
                    stop()
                    raise
        except BaseExceptionGroup as errors:
            # What requests raise does not get here: only what trio itself passes on, such as an interrupt.
            found = errors.split(trio.Cancelled)[1]
            if found is None:
                raise
            raise found.exceptions[0] from None

    def start(self, job: Job) -> None:
        assert self._nursery is not None  # noqa: S101 - `run` opened it
        self._context.run(self._nursery.start_soon, self._run, job)

    def fail(self, job: Job, error: Exception) -> None:
        assert self._nursery is not None  # noqa: S101 - `run` opened it
        self._nursery.start_soon(self._failed, job, error)

    async def _failed(self, job: Job, error: Exception) -> None:
        job.ended(None, error)

    async def _run(self, job: Job) -> None:
        try:
            result = await job.coroutine()
        except trio.Cancelled:
            job.cancelled()
            raise
        except Exception as error:
            job.ended(None, error)
        except BaseException as error:
            job.ended(None, error)
            raise
        else:
            job.ended(result, None)
        finally:
            # An error that is returned has this frame in its traceback, and is a result of the job.
            del job

    def stop(self) -> None:
        assert self._nursery is not None  # noqa: S101 - `run` opened it
        self._nursery.cancel_scope.cancel()

    def all_ended(self) -> None:
        self._done.set()

    def may_be_returned(self, error: BaseException) -> bool:
        return isinstance(error, Exception)


class Trio:
    """The run of trio to which the task belongs."""

    def __init__(self) -> None:
        self._token = trio.lowlevel.current_trio_token()

    def open(self, core: Core) -> None:
        """Let a scheduler serve the tasks of this run."""
        core.open(self.is_here, self.is_here, enter=self._enter)

    def is_here(self) -> bool:
        """Return whether the caller is in this run."""
        return trio.lowlevel.in_trio_run() and trio.lowlevel.current_trio_token() is self._token

    def tasks(self) -> Tasks:
        """Return a group of tasks."""
        return _Tasks()

    def timer(self, function: Callable[[], None], *, precise: bool) -> Timer:
        """Return a timer."""
        # A test's run may have a clock of its own.
        precise = precise and type(trio.lowlevel.current_clock()).__name__ == "SystemClock"
        if precise and sys.platform == "linux":
            # There may be no descriptor left.
            with contextlib.suppress(OSError):
                return _KernelTimer(function)
        return _LoopTimer(function)

    async def _enter(self, slot: Slot) -> Slot:
        """Wait until the request of a slot may be sent."""
        core = slot._scheduler._core
        if not core.is_here():
            raise slot._scheduler._unusable()
        await trio.lowlevel.checkpoint_if_cancelled()
        if (request := slot._ask()) is not None:
            waiter = _Waiter()
            core.wait(request, waiter)
            try:
                await waiter.wait()
            except BaseException:
                slot._scheduler._no_longer_waits(request)
                raise
        slot._sent()
        return slot
