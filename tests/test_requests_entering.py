"""How tasks of asyncio wait for slots: as for a future, whatever makes the tasks, and whoever ends the waiting."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import io
import sys
import warnings
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

import incast_requests
from incast_requests import Plan, Scheduler, SchedulerClosedError

ALL_BYTES = 10_000
FIXED = Plan(budget_bytes=ALL_BYTES)
Program = Callable[[], Awaitable[None]]


def python_task(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **more: Any) -> Any:  # noqa: ANN401
    return asyncio.tasks._PyTask(coroutine, loop=loop, **more)  # type: ignore[attr-defined]


FACTORIES: dict[str, Any] = {"c": None, "python": python_task}
if sys.version_info >= (3, 12):
    FACTORIES["eager"] = asyncio.eager_task_factory


@pytest.fixture(params=FACTORIES)
def run(request: pytest.FixtureRequest) -> Callable[[Program], None]:
    """Return a function that runs a program whose tasks are of one kind."""

    def run_program(program: Program) -> None:
        async def with_tasks() -> None:
            asyncio.get_running_loop().set_task_factory(FACTORIES[request.param])
            async with asyncio.timeout(60):
                await asyncio.create_task(checked())
            assert len(asyncio.all_tasks()) == 1

        async def checked() -> None:
            await program()

        asyncio.run(with_tasks())

    return run_program


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


class Holder:
    """A scheduler with no room until it is told, and the tasks that wait for it."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.entered: list[str] = []
        self._slot = scheduler.slot(expect_bytes=ALL_BYTES)

    async def enter(self) -> Holder:
        """Take all room."""
        await self._slot.__aenter__()
        return self

    async def leave(self) -> None:
        """Make room."""
        await self._slot.__aexit__(None, None, None)

    async def use(self, name: str, size_bytes: int = ALL_BYTES) -> str:
        """Send a request, which takes a turn."""
        async with self.scheduler.slot(expect_bytes=size_bytes):
            self.entered.append(name)
            await asyncio.sleep(0)
        return name

    def nothing_left(self) -> None:
        """Check that the scheduler remembers nothing."""
        status = self.scheduler.status()
        assert (status.waiting, status.outstanding, status.in_use_bytes) == (0, 0, 0)
        assert status.completed + status.failed + status.withdrawn == status.asked
        assert self.scheduler._core.waiters() == 0


def test_all_that_a_turn_lets_go_enter_in_the_next_in_their_order_each_in_its_context(run: Any) -> None:  # noqa: ANN401
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="none")

    async def program() -> None:
        async with incast_requests.open(FIXED) as scheduler:
            holder = await Holder(scheduler).enter()
            seen = []

            async def use(own: str) -> None:
                name.set(own)
                async with scheduler.slot(expect_bytes=ALL_BYTES // 5) as slot:
                    seen.append((slot.request, own, name.get()))
                    await turns(1)

            tasks = [asyncio.create_task(use(own)) for own in "abcde"]
            await turns()
            assert scheduler.status().waiting == 5
            await holder.leave()
            assert seen == []
            await turns(1)
            assert seen == [(number, own, own) for number, own in enumerate("abcde", 1)]
            await asyncio.gather(*tasks)
            holder.nothing_left()

    run(program)


@pytest.mark.parametrize("granted", [False, True])
def test_a_cancellation_with_its_message_withdraws_before_and_after_it_was_let_go(
    run: Any,  # noqa: ANN401
    granted: bool,
) -> None:
    async def program() -> None:
        async with incast_requests.open(FIXED) as scheduler:
            holder = await Holder(scheduler).enter()
            caught: list[tuple[Any, ...]] = []

            async def use() -> None:
                try:
                    await holder.use("cancelled")
                except asyncio.CancelledError as error:
                    caught.append(error.args)
                    raise

            first, second = asyncio.create_task(use()), asyncio.create_task(holder.use("second"))
            await turns()
            if granted:
                await holder.leave()
                assert scheduler.status().outstanding == 1
            assert first.cancel("enough")
            await asyncio.wait([first])
            assert first.cancelled()
            assert caught == [("enough",)]
            if not granted:
                assert scheduler.status().waiting == 1
                await holder.leave()
            assert await second == "second"
            assert holder.entered == ["second"]
            assert scheduler.status().withdrawn == 1
            holder.nothing_left()

    run(program)


def test_what_is_cancelled_and_then_let_go_in_one_turn_gives_its_place_on(run: Any) -> None:  # noqa: ANN401
    async def program() -> None:
        async with incast_requests.open(FIXED) as scheduler:
            holder = await Holder(scheduler).enter()
            first, second = (asyncio.create_task(holder.use(name)) for name in ("first", "second"))
            await turns()
            first.cancel()
            await holder.leave()
            assert await second == "second"
            assert first.cancelled()
            assert (holder.entered, scheduler.status().withdrawn) == (["second"], 1)
            holder.nothing_left()

    run(program)


def test_whatever_waits_for_it_may_give_up(run: Any) -> None:  # noqa: ANN401
    async def program() -> None:
        async with incast_requests.open(FIXED) as scheduler:
            holder = await Holder(scheduler).enter()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(holder.use("a task"), 0.001)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(scheduler.slot(expect_bytes=1).__aenter__(), 0.001)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.001):
                    await holder.use("this")
            holder_waits = scheduler.status()
            assert (holder_waits.waiting, holder_waits.withdrawn) == (0, 3)
            shielded = asyncio.create_task(holder.use("shielded"))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(shielded), 0.001)
            assert scheduler.status().waiting == 1
            await holder.leave()
            assert await shielded == "shielded"
            # What enters may itself be the coroutine of a task.
            slots = [scheduler.slot(expect_bytes=ALL_BYTES // 2) for _ in range(2)]
            assert await asyncio.gather(*(slot.__aenter__() for slot in slots)) == slots
            third = asyncio.ensure_future(scheduler.slot(expect_bytes=1).__aenter__())
            await turns()
            assert not third.done()
            for slot in slots:
                await slot.__aexit__(None, None, None)
            await (await third).__aexit__(None, None, None)
            holder.nothing_left()

    run(program)


def test_who_waits_hears_that_the_scheduler_was_closed(run: Any) -> None:  # noqa: ANN401
    async def program() -> None:
        scheduler = incast_requests.open(FIXED)
        await scheduler.__aenter__()
        holder = await Holder(scheduler).enter()
        tasks = [asyncio.create_task(holder.use(name)) for name in "abc"]
        await turns()
        tasks[0].cancel()
        await scheduler.__aexit__(None, None, None)
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(error) for error in ended] == [
            asyncio.CancelledError,
            SchedulerClosedError,
            SchedulerClosedError,
        ]
        assert ended[1] is not ended[2]
        assert holder.entered == []
        assert scheduler.status().withdrawn == 3
        await holder.leave()
        holder.nothing_left()
        with pytest.raises(SchedulerClosedError):
            await scheduler.slot(expect_bytes=1).__aenter__()

    run(program)


@pytest.mark.parametrize("cancelled", [False, True])
def test_what_was_let_go_when_the_scheduler_was_closed_gives_its_credit_back(run: Any, cancelled: bool) -> None:  # noqa: ANN401
    async def program() -> None:
        scheduler = incast_requests.open(FIXED)
        await scheduler.__aenter__()
        holder = await Holder(scheduler).enter()
        task = asyncio.create_task(holder.use("a"))
        await turns()
        # It lets the task go, which does not know yet.
        await holder.leave()
        await scheduler.__aexit__(None, None, None)
        if cancelled:
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert holder.entered == ([] if cancelled else ["a"])
        assert scheduler.status().withdrawn == int(cancelled)
        holder.nothing_left()

    run(program)


def test_it_is_a_future_only_while_it_waits(run: Any) -> None:  # noqa: ANN401
    async def program() -> None:
        async with incast_requests.open(FIXED) as scheduler:
            holder = await Holder(scheduler).enter()
            entering = scheduler.slot(expect_bytes=1).__aenter__()
            assert asyncio.iscoroutine(entering)
            assert not asyncio.isfuture(entering)
            task = asyncio.create_task(entering)
            await turns()
            assert asyncio.isfuture(entering)
            # What shows tasks says where it is.
            text = io.StringIO()
            task.print_stack(file=text)
            assert "Entering" in repr(task)
            with pytest.raises(asyncio.InvalidStateError):
                entering.result()
            with pytest.raises(RuntimeError, match="one task enters a slot"):
                entering.add_done_callback(print, context=contextvars.copy_context())
            await holder.leave()
            await (await task).__aexit__(None, None, None)
            assert not asyncio.isfuture(entering)
            with pytest.raises(RuntimeError, match="already awaited"):
                await entering
            holder.nothing_left()

    run(program)


def test_what_is_not_awaited_does_nothing(run: Any) -> None:  # noqa: ANN401
    async def program() -> None:
        async with incast_requests.open(FIXED) as scheduler:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                _ = scheduler.slot(expect_bytes=1).__aenter__()
                scheduler.slot(expect_bytes=1).__aenter__().close()
                gc.collect()
            closed = scheduler.slot(expect_bytes=1).__aenter__()
            with pytest.raises(LookupError, match=r"^given up$"):
                closed.throw(LookupError("given up"))
            assert scheduler.status().asked == 0

    run(program)


def test_who_goes_on_with_it_too_early_is_told_and_withdraws() -> None:
    async def program() -> None:
        async with incast_requests.open(FIXED) as scheduler:
            holder = await Holder(scheduler).enter()
            entering = scheduler.slot(expect_bytes=1).__aenter__()
            assert entering.send(None) is entering
            with pytest.raises(RuntimeError, match="something else than a task of asyncio"):
                entering.send(None)
            assert scheduler.status().withdrawn == 1
            await holder.leave()
            holder.nothing_left()

    asyncio.run(program())


def test_an_interrupt_within_one_task_does_not_lose_the_others() -> None:
    loop = asyncio.new_event_loop()
    scheduler = incast_requests.open(FIXED)
    loop.run_until_complete(scheduler.__aenter__())
    holder = Holder(scheduler)
    loop.run_until_complete(holder.enter())

    def stop(_: asyncio.Task[None]) -> None:
        loop.stop()

    async def stops() -> None:
        async with scheduler.slot(expect_bytes=1):
            raise SystemExit

    tasks: list[asyncio.Task[Any]]
    tasks = [loop.create_task(work) for work in (stops(), holder.use("a", 1), stops(), holder.use("b", 1))]
    loop.run_until_complete(turns())
    assert scheduler.status().waiting == 4
    tasks.append(loop.create_task(holder.leave()))
    for _ in range(2):
        # Ends the loop if no interrupt does.
        ends = loop.create_task(turns())
        ends.add_done_callback(stop)
        with pytest.raises(SystemExit):
            loop.run_forever()
        ends.remove_done_callback(stop)
    loop.run_until_complete(turns())
    assert holder.entered == ["a", "b"]
    assert [type(task.exception()) for task in tasks[:4]] == [SystemExit, type(None)] * 2
    holder.nothing_left()
    loop.close()


def test_tasks_that_wait_when_their_loop_is_forgotten_go_away_with_it(caplog: pytest.LogCaptureFixture) -> None:
    def forgotten() -> weakref.ref[Scheduler]:
        loop = asyncio.new_event_loop()
        scheduler = incast_requests.open(FIXED)
        loop.run_until_complete(scheduler.__aenter__())
        holder = Holder(scheduler)
        loop.run_until_complete(holder.enter())
        tasks = [loop.create_task(holder.use(name)) for name in "ab"]
        loop.run_until_complete(turns())
        assert scheduler.status().waiting == len(tasks) == 2
        loop.close()
        return weakref.ref(scheduler)

    scheduler = forgotten()
    gc.collect()
    assert scheduler() is None
    assert caplog.text.count("Task was destroyed but it is pending") == 2
