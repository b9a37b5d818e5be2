"""What differs between asyncio and trio: how tasks wait, are woken and run, and how a function is called later."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Protocol

from incast_requests import _core

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from incast_requests._core import Core

NS_PER_S = 1_000_000_000


class Queued(Protocol):
    """A place in the queue. The methods are those of `asyncio.Future`."""

    def done(self) -> bool:
        """Return whether it no longer waits."""

    def set_result(self, result: None, /) -> None:
        """Let it go.

        Raises:
            asyncio.InvalidStateError: it no longer waits.

        """

    def set_exception(self, error: BaseException, /) -> None:
        """Say that it never will."""


class Timer(Protocol):
    """Calls a function, which must not raise, when its time has come."""

    def set(self, after_ns: int) -> None:
        """Call it in `after_ns` nanoseconds. This replaces an earlier setting."""

    def cancel(self) -> None:
        """Do not call it until the timer is set again, but for a call that this turn of the loop has begun with."""

    def close(self) -> None:
        """Stop it for good."""


class Job(Protocol):
    """Something to run in a task of its own."""

    def coroutine(self) -> Coroutine[Any, Any, Any]:
        """Return what its task runs."""

    def ended(self, result: Any, error: BaseException | None) -> None:  # noqa: ANN401
        """Take what became of it."""

    def cancelled(self) -> None:
        """Take that it was cancelled because all were."""


class Tasks(Protocol):
    """Tasks that are over when `run` is."""

    async def run(self, begin: Callable[[], None], stop: Callable[[], None]) -> None:
        """Call `begin`, and wait for `all_ended`. If the caller is cancelled, call `stop` and end all tasks first."""

    def start(self, job: Job) -> None:
        """Run something in a task, with the context of who called `run`."""

    def fail(self, job: Job, error: Exception) -> None:
        """Say in another turn that a job could not begin: at once, it may let go the next that cannot, and so on."""

    def stop(self) -> None:
        """Cancel all tasks."""

    def all_ended(self) -> None:
        """End `run`."""

    def may_be_returned(self, error: BaseException) -> bool:
        """Return whether an error may take the place of a result."""


class Runtime(Protocol):
    """An event loop."""

    def open(self, core: Core) -> None:
        """Let a scheduler serve the tasks of this loop."""

    def is_here(self) -> bool:
        """Return whether the caller runs in this loop."""

    def tasks(self) -> Tasks:
        """Return a group of tasks."""

    def timer(self, function: Callable[[], None], *, precise: bool) -> Timer:
        """Return a timer: the kernel's if it is to be `precise` and there is one, and the loop's otherwise."""


class _LoopTimer:
    """Up to a millisecond late, as `epoll` is."""

    def __init__(self, loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
        self._loop = loop
        self._function = function
        self._context = contextvars.copy_context()
        self._handle: asyncio.TimerHandle | None = None

    def set(self, after_ns: int) -> None:
        self.cancel()
        self._handle = self._loop.call_later(after_ns / NS_PER_S, self._function, context=self._context)

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def close(self) -> None:
        self.cancel()


if sys.platform == "linux":
    os.register_at_fork(after_in_child=_core.Timer.forked)

    class _KernelTimer:
        """Some tens of microseconds late."""

        def __init__(self, loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
            self._loop = loop
            self._function = function
            self._timer = _core.Timer()
            self.set, self.cancel = self._timer.set, self._timer.cancel
            try:
                loop.add_reader(self._timer.fileno(), self._on_time)
            except BaseException:
                # Someone may keep the error, and the descriptor with it.
                self._timer.close()
                raise

        def _on_time(self) -> None:
            # Otherwise it would be called again and again.
            self.cancel()
            self._function()

        def close(self) -> None:
            fd = self._timer.fileno()
            try:
                # A forked child shares the `epoll` of its parent, which still waits for the timer.
                if fd >= 0 and self._timer.is_ours() and not self._loop.is_closed():
                    self._loop.remove_reader(fd)
            finally:
                self._timer.close()


class _AsyncioTasks:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._running: dict[asyncio.Task[Any], Job] = {}
        self._stopped = False
        self._context = contextvars.copy_context()
        self._over = False
        self._waiter: asyncio.Future[None] | None = None

    async def run(self, begin: Callable[[], None], stop: Callable[[], None]) -> None:
        cancellation: asyncio.CancelledError | None = None
        begin()
        while not self._over:
            # A new one each time: to cancel this task cancels what it waits for.
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            except asyncio.CancelledError as error:
                cancellation = error
                # Once, or it would disturb those that tidy up.
                if not self._stopped:
                    stop()
                    self.stop()
        if cancellation is not None:
            try:
                raise cancellation
            finally:
                cancellation = None

    def start(self, job: Job) -> None:
        coroutine = job.coroutine()
        try:
            # A task copies the context in which it is made. To pass that would ask too much of many task factories.
            task = self._context.copy().run(self._loop.create_task, coroutine)
        except BaseException:
            coroutine.close()
            raise
        self._running[task] = job
        task.add_done_callback(self._ended)

    def fail(self, job: Job, error: Exception) -> None:
        self._loop.call_soon(job.ended, None, error)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        job = self._running.pop(task)
        if task.cancelled():
            if self._stopped:
                job.cancelled()
            else:
                # By itself: that is as good as an error, as with `asyncio.gather`.
                job.ended(None, asyncio.CancelledError())
        elif (error := task.exception()) is not None:
            job.ended(None, error)
        else:
            job.ended(task.result(), None)

    def stop(self) -> None:
        self._stopped = True
        for task in list(self._running):
            task.cancel()

    def all_ended(self) -> None:
        self._over = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def may_be_returned(self, error: BaseException) -> bool:
        return isinstance(error, Exception | asyncio.CancelledError)


class Asyncio:
    """The loop that runs."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()

    def open(self, core: Core) -> None:
        """Let a scheduler serve the tasks of this loop."""
        self._context = contextvars.copy_context()
        # To ask asyncio which loop runs (`is_here`) is a call of the kernel: `getpid`.
        core.open(self.loop.is_running, self.is_here, event_loop=self.loop)

    def is_here(self) -> bool:
        """Return whether the caller runs in this loop."""
        try:
            return asyncio.get_running_loop() is self.loop
        except RuntimeError:
            return False

    def tasks(self) -> Tasks:
        """Return a group of tasks."""
        return _AsyncioTasks(self.loop)

    def timer(self, function: Callable[[], None], *, precise: bool) -> Timer:
        """Return a timer. It calls `function` in the context in which the scheduler was opened."""
        # A test's loop may have a clock of its own.
        precise = precise and abs(self.loop.time() - time.monotonic()) < 1
        if precise and sys.platform == "linux":
            # Not every loop can wait for a descriptor, there may be none left, and loops differ in how they say so.
            with contextlib.suppress(Exception):
                return self._context.run(_KernelTimer, self.loop, function)
        return self._context.run(_LoopTimer, self.loop, function)


def current() -> Runtime:
    """Return the event loop in which the caller runs.

    Raises:
        RuntimeError: it runs in none.

    """
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_task():
        from incast_requests.on_trio import Trio

        return Trio()
    try:
        return Asyncio()
    except RuntimeError:
        raise RuntimeError("the scheduler needs a running event loop of asyncio or trio") from None
