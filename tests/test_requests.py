"""The scheduler for programs: nothing is lost, whatever becomes of requests. Nearly all with asyncio and with trio."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import gc
import importlib.metadata
import json
import logging
import random
import subprocess
import sys
import time
import weakref
from collections.abc import Awaitable, Iterator
from typing import Any

import anyio
import pytest

import incast
from conftest import Run, nothing_left
from incast import requests
from incast.requests import Decision, Plan, Port, Scheduler, SchedulerClosedError

BUDGET_BYTES = 10_000
FIXED = Plan(budget_bytes=BUDGET_BYTES)


class Server:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.cancelled: list[int] = []
        self._gates: dict[int, anyio.Event] = {}

    async def get(self, number: int) -> int:
        """Send a request."""
        self.asked.append(number)
        gate = self._gates[number] = anyio.Event()
        try:
            await gate.wait()
        except BaseException:
            self.cancelled.append(number)
            raise
        return number

    def answer(self, number: int) -> None:
        """Send a response."""
        self._gates[number].set()

    async def has(self, *numbers: int) -> None:
        """Wait until exactly these have been asked for. Trio begins tasks of one turn in any order."""
        while sorted(self.asked) != sorted(numbers):
            assert len(self.asked) <= len(numbers), self.asked
            await anyio.sleep(0)
        await settled()
        assert sorted(self.asked) == sorted(numbers)


async def settled() -> None:
    for _ in range(20):
        await anyio.sleep(0)


async def soon(value: int) -> int:
    await anyio.sleep(0)
    return value


async def fails(message: str) -> int:
    await anyio.sleep(0)
    raise ConnectionError(message)


def test_results_come_in_the_order_of_the_requests_whatever_comes_first(run: Run) -> None:
    async def program() -> None:
        server, results = Server(), []
        async with requests.open(FIXED) as scheduler:

            async def gather() -> None:
                results.extend(
                    await scheduler.gather(*(server.get(i) for i in range(4)), expect_bytes=BUDGET_BYTES // 2)
                )

            async with anyio.create_task_group() as group:
                group.start_soon(gather)
                await server.has(0, 1)
                server.answer(1)
                await server.has(0, 1, 2)
                server.answer(2)
                await server.has(0, 1, 2, 3)
                server.answer(3)
                server.answer(0)
            nothing_left(scheduler)
        assert results == [0, 1, 2, 3]

    run(program)


@pytest.mark.parametrize("seed", range(4))
def test_the_budget_is_kept_in_the_order_of_asking_as_a_plain_model_has_it(run: Run, seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - it draws sizes
    sizes = [draw.choice([1, 100, 3000, 5000, BUDGET_BYTES, 3 * BUDGET_BYTES]) for _ in range(300)]

    async def program() -> None:
        under_way: dict[int, int] = {}
        begun = []

        async def get(number: int) -> int:
            begun.append(number)
            under_way[number] = sizes[number]
            assert len(under_way) == 1 or sum(under_way.values()) <= BUDGET_BYTES
            # The next one did not fit, or would be under way.
            for _ in range(draw.randrange(4)):
                await anyio.sleep(0)
            del under_way[number]
            return number

        async with requests.open(FIXED) as scheduler:
            assert await scheduler.gather(*map(get, range(300)), expect_bytes=sizes) == list(range(300))
            nothing_left(scheduler)
            assert scheduler.status().completed == 300
        assert sorted(begun) == list(range(300))

    run(program)


def test_as_many_run_as_fit_and_one_larger_than_the_budget_runs_alone(run: Run) -> None:
    async def program() -> None:
        server = Server()
        sizes = [4000, 4000, 50_000, 4000, 6000]
        async with requests.open(FIXED) as scheduler, anyio.create_task_group() as group:

            async def gather() -> None:
                await scheduler.gather(*(server.get(i) for i in range(5)), expect_bytes=sizes)

            group.start_soon(gather)
            await server.has(0, 1)
            server.answer(0)
            await settled()
            assert sorted(server.asked) == [0, 1], "the large one is first in the queue and does not fit beside another"
            server.answer(1)
            await server.has(0, 1, 2)
            assert scheduler.status().in_use_bytes == 50_000
            server.answer(2)
            await server.has(0, 1, 2, 3, 4)
            server.answer(3)
            server.answer(4)

    run(program)


def test_a_request_that_fails_ends_the_others_and_its_error_is_raised(run: Run) -> None:
    async def program() -> None:
        server = Server()
        async with requests.open(FIXED) as scheduler:
            never_begun = [server.get(number) for number in range(10, 20)]
            with pytest.raises(ConnectionError, match=r"^gone$"):
                await scheduler.gather(server.get(0), fails("gone"), *never_begun, expect_bytes=4000)
            assert (server.asked, server.cancelled) == ([0], [0])
            nothing_left(scheduler)
            # It goes on as before.
            assert await scheduler.gather(soon(1), soon(2), expect_bytes=4000) == [1, 2]

    run(program)


def test_requests_that_fail_never_stall_the_others(run: Run) -> None:
    async def program() -> None:
        async with requests.open(FIXED) as scheduler:
            jobs = [fails(str(i)) if i % 3 else soon(i) for i in range(30)]
            results = await scheduler.gather(*jobs, expect_bytes=6000, return_exceptions=True)
            for i, result in enumerate(results):
                if i % 3:
                    assert isinstance(result, ConnectionError)
                    assert str(result) == str(i)
                else:
                    assert result == i
            nothing_left(scheduler)
            assert (scheduler.status().completed, scheduler.status().failed) == (10, 20)

    run(program)


class Body:
    """What a server has answered."""


def test_responses_of_a_gather_are_gone_without_the_garbage_collector(run: Run) -> None:
    async def program() -> None:
        bodies: list[weakref.ref[Body]] = []

        async def answer(*, comes: bool = True) -> Body:
            body = Body()
            bodies.append(weakref.ref(body))
            await anyio.sleep(0)
            if not comes:
                raise ConnectionError
            return body

        async with requests.open(FIXED) as scheduler:
            gc.collect()
            gc.disable()
            try:
                await scheduler.gather(answer(), answer(), expect_bytes=4000)
                await scheduler.gather(answer(), answer(comes=False), expect_bytes=4000, return_exceptions=True)
                with contextlib.suppress(ConnectionError):
                    await scheduler.gather(answer(), answer(comes=False), expect_bytes=4000)
                with anyio.move_on_after(0):
                    await scheduler.gather(answer(), answer(), expect_bytes=4000)
                await settled()
                assert bodies
                assert not [body for body in bodies if body() is not None]
            finally:
                gc.enable()

    run(program)


@pytest.mark.parametrize("turns", [0, 1, 2, 5])
def test_a_cancelled_gather_leaves_nothing_behind(run: Run, turns: int) -> None:
    async def program() -> None:
        server = Server()
        async with requests.open(FIXED) as scheduler:
            async with anyio.create_task_group() as group:

                async def gather() -> None:
                    await scheduler.gather(*(server.get(i) for i in range(100)), expect_bytes=4000)
                    pytest.fail("it was cancelled")

                group.start_soon(gather)
                for _ in range(turns):
                    await anyio.sleep(0)
                group.cancel_scope.cancel()
            assert len(server.asked) <= 2
            assert sorted(server.cancelled) == sorted(server.asked)
            nothing_left(scheduler)
            assert await scheduler.gather(soon(1), expect_bytes=4000) == [1]

    run(program)


def test_a_gather_that_takes_too_long_leaves_nothing_behind(run: Run) -> None:
    async def program() -> None:
        server = Server()
        async with requests.open() as scheduler:
            with pytest.raises(TimeoutError):
                with anyio.fail_after(0.01):
                    await scheduler.gather(*(server.get(i) for i in range(100)), expect_bytes=10_000)
            assert sorted(server.cancelled) == sorted(server.asked) == [0, 1]
            nothing_left(scheduler)

    run(program)


def test_a_time_out_of_one_request_is_its_error(run: Run) -> None:
    async def program() -> None:
        server = Server()

        async def get() -> int:
            with anyio.fail_after(0.01):
                return await server.get(0)

        async with requests.open(FIXED) as scheduler:
            results = await scheduler.gather(get(), soon(1), expect_bytes=BUDGET_BYTES, return_exceptions=True)
            assert isinstance(results[0], TimeoutError)
            assert results[1] == 1
            nothing_left(scheduler)

    run(program)


def test_a_slot_that_is_cancelled_while_it_waits_lets_the_next_go(run: Run) -> None:
    async def program() -> None:
        entered: list[str] = []
        scopes: dict[str, anyio.CancelScope] = {}
        leave = anyio.Event()

        async def use(name: str) -> None:
            with anyio.CancelScope() as scopes[name]:
                async with scheduler.slot(expect_bytes=8000):
                    entered.append(name)
                    await leave.wait()

        async with requests.open(FIXED) as scheduler, anyio.create_task_group() as group:
            for name in "abc":
                group.start_soon(use, name)
                await settled()
            assert entered == ["a"]
            scopes["b"].cancel()
            await settled()
            assert scheduler.status().waiting == 1
            scopes["a"].cancel()
            await settled()
            assert entered == ["a", "c"]
            # Cancelled in the very turn in which it would go.
            group.start_soon(use, "d")
            await settled()
            scopes["d"].cancel()
            leave.set()
        assert entered == ["a", "c"]
        nothing_left(scheduler)

    run(program)


def test_a_slot_that_is_cancelled_between_others_that_wait_is_withdrawn(run: Run) -> None:
    async def program() -> None:
        went, scopes = [], [anyio.CancelScope() for _ in range(3)]
        async with requests.open(FIXED) as scheduler:

            async def wait(number: int) -> None:
                with scopes[number]:
                    async with scheduler.slot(expect_bytes=BUDGET_BYTES):
                        went.append(number)

            async with anyio.create_task_group() as group, scheduler.slot(expect_bytes=BUDGET_BYTES):
                for number in range(3):
                    group.start_soon(wait, number)
                    await settled()
                scopes[1].cancel()
                await settled()
                assert (scheduler.status().waiting, scheduler._core.waiters()) == (2, 2)
            assert went == [0, 2]
            nothing_left(scheduler)

    run(program)


def test_what_waits_stands_in_the_order_of_the_requests() -> None:
    core = FIXED.core(None)
    # A hook that begins tasks at once can ask again before the first request has something to wait with.
    for request in (3, 1, 2):
        core.wait(request, str(request))  # type: ignore[arg-type]
    assert [(request, str(waiter)) for request, waiter in core.close()] == [(1, "1"), (2, "2"), (3, "3")]


def test_a_slot_granted_and_cancelled_in_the_same_turn_gives_its_credit_on() -> None:
    async def program() -> None:
        entered: list[str] = []
        leave = asyncio.Event()

        async def use(name: str) -> None:
            async with scheduler.slot(expect_bytes=8000):
                entered.append(name)
                await leave.wait()

        async with requests.open(FIXED) as scheduler:
            first, second, third = (asyncio.create_task(use(name)) for name in "abc")
            await settled()
            # The first one's slot is left, and the second one's granted, before the second task runs again.
            leave.set()
            first.add_done_callback(lambda _: second.cancel())
            await asyncio.gather(first, second, third, return_exceptions=True)
            assert entered in (["a", "c"], ["a", "b", "c"])
            nothing_left(scheduler)

            holder = scheduler.slot(expect_bytes=8000)
            await holder.__aenter__()
            waits = asyncio.create_task(use("e"))
            await settled()
            await holder.__aexit__(None, None, None)
            assert scheduler.status().outstanding == 1
            waits.cancel()
            await asyncio.gather(waits, return_exceptions=True)
            assert "e" not in entered
            nothing_left(scheduler)

    asyncio.run(program())


def test_an_error_within_a_slot_passes_and_gives_its_credit_back(run: Run) -> None:
    async def program() -> None:
        async with requests.open(FIXED) as scheduler:
            for _ in range(3):
                with pytest.raises(ConnectionError):
                    async with scheduler.slot(expect_bytes=BUDGET_BYTES):
                        await fails("gone")
            nothing_left(scheduler)
            assert scheduler.status().failed == 3

    run(program)


@pytest.mark.parametrize("cancelled", [False, True])
def test_ten_thousand_outstanding_requests(run: Run, cancelled: bool) -> None:
    count = 10_000

    async def program() -> None:
        async with requests.open(FIXED) as scheduler:
            if not cancelled:
                assert await scheduler.gather(*map(soon, range(count)), expect_bytes=3000) == list(range(count))
                assert scheduler.status().completed == count
            else:
                server = Server()
                async with anyio.create_task_group() as group:

                    async def use(number: int) -> None:
                        async with scheduler.slot(expect_bytes=3000):
                            await server.get(number)

                    for number in range(count):
                        group.start_soon(use, number)
                    while scheduler.status().waiting < count - 3:
                        await anyio.sleep(0)
                    group.cancel_scope.cancel()
                assert scheduler.status().withdrawn >= count - 3
            nothing_left(scheduler)

    run(program)


def test_gathers_share_the_budget_of_their_scheduler(run: Run) -> None:
    async def program() -> None:
        server = Server()
        async with requests.open(FIXED) as scheduler, anyio.create_task_group() as group:

            async def gather(*numbers: int) -> None:
                await scheduler.gather(*map(server.get, numbers), expect_bytes=5000)

            group.start_soon(gather, 0, 1, 2)
            await server.has(0, 1)
            group.start_soon(gather, 10, 11)
            await settled()
            for number, now in ((0, 2), (1, 10), (2, 11)):
                server.answer(number)
                await server.has(*server.asked, now)
            server.answer(10)
            server.answer(11)

    run(program)


def test_a_request_that_cancels_itself_is_as_with_asyncio() -> None:
    async def cancels() -> int:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return 1

    async def program() -> None:
        async with requests.open(FIXED) as scheduler:
            results = await scheduler.gather(cancels(), soon(1), expect_bytes=4000, return_exceptions=True)
            assert isinstance(results[0], asyncio.CancelledError)
            assert results[1] == 1
            with pytest.raises(asyncio.CancelledError):
                await scheduler.gather(cancels(), soon(1), expect_bytes=4000)
            task = asyncio.current_task()
            assert task is not None
            assert not task.cancelling()
            nothing_left(scheduler)

    asyncio.run(program())


def test_a_request_may_outlast_its_cancellation_and_is_waited_for() -> None:
    async def program() -> None:
        ended = []

        async def stubborn() -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                await asyncio.sleep(0.01)
                ended.append("stubborn")

        async with requests.open(FIXED) as scheduler:
            gather = asyncio.create_task(scheduler.gather(stubborn(), expect_bytes=1))
            await settled()
            gather.cancel()
            await asyncio.sleep(0)
            gather.cancel()
            with pytest.raises(asyncio.CancelledError):
                await gather
            assert ended == ["stubborn"]
            nothing_left(scheduler)

    asyncio.run(program())


def test_a_request_may_be_a_function_of_its_slot(run: Run) -> None:
    async def program() -> None:
        async def get(slot: requests.Slot) -> int:
            slot.progress(100)
            slot.received_bytes = 500
            return slot.request

        def broken(_slot: requests.Slot) -> Awaitable[int]:
            raise LookupError("no such server")

        async with requests.open() as scheduler:
            assert await scheduler.gather(get, get, expect_bytes=1000) == [0, 1]
            with pytest.raises(LookupError, match="no such server"):
                await scheduler.gather(broken, expect_bytes=1000)
            nothing_left(scheduler)

    run(program)


def test_requests_see_the_context_of_who_gathers_and_not_of_who_lets_them_go(run: Run) -> None:
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="none")

    async def program() -> None:
        seen: dict[str, list[str]] = {"a": [], "b": []}

        async def get(of: str) -> None:
            seen[of].append(name.get())
            name.set("changed")
            await anyio.sleep(0)

        async def gather(of: str) -> None:
            name.set(of)
            await scheduler.gather(*(get(of) for _ in range(5)), expect_bytes=BUDGET_BYTES)

        async with requests.open(FIXED) as scheduler, anyio.create_task_group() as group:
            group.start_soon(gather, "a")
            group.start_soon(gather, "b")
        assert seen == {"a": ["a"] * 5, "b": ["b"] * 5}

    run(program)


def test_who_waits_when_the_scheduler_is_closed_is_told(run: Run) -> None:
    async def program() -> None:
        told: list[str] = []
        async with anyio.create_task_group() as group:

            async def use() -> None:
                with pytest.raises(SchedulerClosedError):
                    async with scheduler.slot(expect_bytes=BUDGET_BYTES):
                        pytest.fail("it is closed")
                told.append("slot")

            async def gather() -> None:
                with pytest.raises(SchedulerClosedError):
                    await scheduler.gather(soon(1), soon(2), expect_bytes=BUDGET_BYTES)
                told.append("gather")

            async with requests.open(FIXED) as scheduler:
                holder = scheduler.slot(expect_bytes=BUDGET_BYTES)
                await holder.__aenter__()
                group.start_soon(use)
                group.start_soon(gather)
                await settled()
            await holder.__aexit__(None, None, None)
        assert sorted(told) == ["gather", "slot"]
        with pytest.raises(SchedulerClosedError):
            await scheduler.gather(soon(1), expect_bytes=1)

    run(program)


def test_a_closed_scheduler_gets_back_all_that_it_gave(run: Run) -> None:
    async def program() -> None:
        heard: list[Decision] = []
        async with anyio.create_task_group() as group:

            async def use() -> None:
                with contextlib.suppress(SchedulerClosedError):
                    async with scheduler.slot(expect_bytes=BUDGET_BYTES):
                        pytest.fail("it is closed, or cancelled")

            async with requests.open(FIXED, on_decision=heard.append) as scheduler:
                holders = [scheduler.slot(expect_bytes=BUDGET_BYTES // 2) for _ in range(2)]
                for holder in holders:
                    await holder.__aenter__()
                for _ in range(2):
                    group.start_soon(use)
                await settled()
            status = scheduler.status()
            assert (status.waiting, status.withdrawn, status.outstanding) == (0, 2, 2)
            await settled()
            for holder, error in zip(holders, (None, ConnectionError), strict=True):
                await holder.__aexit__(error, None, None)
        nothing_left(scheduler)
        status = scheduler.status()
        assert (status.completed, status.failed, status.withdrawn) == (1, 1, 2)
        kinds = [(decision.kind, decision.request) for decision in heard[4:]]
        assert kinds == [("withdrawn", 2), ("withdrawn", 3), ("returned", 0), ("returned", 1)]

    run(program)


def test_a_slot_is_entered_before_it_is_left_and_left_once(run: Run) -> None:
    async def program() -> None:
        async with requests.open(FIXED) as scheduler, anyio.create_task_group() as group:
            first, second = (scheduler.slot(expect_bytes=BUDGET_BYTES) for _ in range(2))
            with pytest.raises(RuntimeError, match="was not entered"):
                await first.__aexit__(None, None, None)
            await first.__aenter__()
            group.start_soon(second.__aenter__)
            await settled()
            with pytest.raises(RuntimeError, match="was not entered"):
                await second.__aexit__(None, None, None)
            await first.__aexit__(None, None, None)
            await settled()
            for error in (None, ConnectionError):
                with pytest.raises(RuntimeError, match="left already"):
                    await first.__aexit__(error, None, None)
            assert scheduler.status().completed == 1
            await second.__aexit__(None, None, None)
        nothing_left(scheduler)
        assert scheduler.status().completed == 2

    run(program)


def test_mistakes_are_named(run: Run) -> None:
    async def program() -> None:
        with pytest.raises(RuntimeError, match=r"is not open: async with incast\.requests\.open\(\)"):
            await requests.open().gather(soon(1), expect_bytes=1)
        async with requests.open(FIXED) as scheduler:
            with pytest.raises(ValueError, match="expect_bytes: found -1, expected a whole number of bytes above zero"):
                await scheduler.gather(soon(1), expect_bytes=-1)
            with pytest.raises(ValueError, match=r"expect_bytes: found 1\.5, expected a whole number"):
                await scheduler.gather(soon(1), expect_bytes=1.5)  # type: ignore[call-overload]
            with pytest.raises(ValueError, match="expect_bytes: found 3, expected one for each of 2 requests"):
                await scheduler.gather(soon(1), soon(2), expect_bytes=[1, 2, 3])
            with pytest.raises(ValueError, match="sockets: found 1, expected one for each of 2 requests"):
                await scheduler.gather(soon(1), soon(2), expect_bytes=1, sockets=[None])
            with pytest.raises(ValueError, match="expect_bytes: the size of the response is needed where no socket"):
                await scheduler.gather(soon(1))
            with pytest.raises(TypeError, match="found 7, expected a coroutine, or a function that takes a slot"):
                await scheduler.gather(7, expect_bytes=1)  # type: ignore[call-overload]
            generator: Any = (soon(number) for number in range(2))
            with pytest.raises(TypeError, match=r"found <generator object .*, expected a coroutine, or a function"):
                await scheduler.gather(generator, expect_bytes=1)
            slot = scheduler.slot(expect_bytes=1)
            async with slot:
                pass
            with pytest.raises(RuntimeError, match="a slot is for one request"):
                await slot.__aenter__()
            assert await scheduler.gather(expect_bytes=1) == []
            nothing_left(scheduler)

    run(program)


def test_a_task_that_runs_already_cannot_be_scheduled() -> None:
    async def program() -> None:
        async with requests.open(FIXED) as scheduler:
            task = asyncio.create_task(soon(1))
            with pytest.raises(TypeError, match="has begun already: pass the coroutine itself"):
                await scheduler.gather(task, expect_bytes=1)
            await task

    asyncio.run(program())


def test_a_scheduler_belongs_to_one_event_loop() -> None:
    kept: list[Scheduler] = []

    async def opens() -> None:
        scheduler = requests.open(FIXED)
        await scheduler.__aenter__()
        kept.append(scheduler)

    async def uses() -> None:
        with pytest.raises(RuntimeError, match="was opened in another event loop"):
            async with kept[0].slot(expect_bytes=1):
                pass

    asyncio.run(opens())
    asyncio.run(uses())


def test_an_event_loop_may_go_on_in_another_thread_and_another_loop_there_is_refused() -> None:
    loop = asyncio.new_event_loop()
    scheduler = requests.open(FIXED)
    loop.run_until_complete(scheduler.__aenter__())

    async def use() -> str:
        async with scheduler.slot(expect_bytes=1):
            return "sent"

    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        assert thread.submit(loop.run_until_complete, use()).result() == "sent"
        # While its own runs.
        other = loop.run_in_executor(thread, asyncio.run, use())
        with pytest.raises(RuntimeError, match="was opened in another event loop"):
            loop.run_until_complete(other)
    loop.close()


def test_short_forms_share_a_scheduler_per_budget_and_event_loop(run: Run) -> None:
    async def program() -> None:
        server = Server()
        async with anyio.create_task_group() as group:

            async def gather(*numbers: int) -> None:
                found = await requests.gather(*map(server.get, numbers), expect_bytes=5000, budget_bytes=BUDGET_BYTES)
                assert found == list(numbers)

            group.start_soon(gather, 0, 1)
            await server.has(0, 1)
            group.start_soon(gather, 2)
            await settled()
            assert sorted(server.asked) == [0, 1]
            for number in (0, 1):
                server.answer(number)
            await server.has(0, 1, 2)
            server.answer(2)
        assert await requests.gather(soon(1), soon(2), expect_bytes=5000) == [1, 2]

    run(program)
    run(program)


class Clock:
    """Stands still until it is told."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000_000_000

    def __call__(self) -> int:
        """Return the time."""
        return self.now_ns

    def pass_ms(self, milliseconds: float) -> None:
        """Let time pass."""
        self.now_ns += round(milliseconds * 1e6)


def test_a_stall_cuts_the_learned_budget_and_counts_as_one() -> None:
    async def program() -> None:
        clock = Clock()
        decisions: list[Decision] = []
        async with requests.open(clock=clock, on_decision=decisions.append) as scheduler:
            for _ in range(4):
                async with scheduler.slot(expect_bytes=20_000):
                    clock.pass_ms(2)
            before = scheduler.status()
            assert before.budget_bytes is not None
            # With one under way less would change nothing.
            slots = [scheduler.slot(expect_bytes=10_000) for _ in range(2)]
            for slot in slots:
                await slot.__aenter__()
            clock.pass_ms(49)
            assert not scheduler._core.looks(), "a timer that comes for something else asks no socket"
            scheduler._on_timer()
            assert scheduler.status().cuts == {}
            clock.pass_ms(2)
            assert scheduler._core.looks()
            scheduler._on_timer()
            after = scheduler.status()
            assert after.cuts == {"stall": 1}
            assert (decisions[-1].kind, decisions[-1].why) == ("budget", "stall"), "though nobody was let go by it"
            assert after.budget_bytes is not None
            assert after.budget_bytes < before.budget_bytes
            for slot in slots:
                await slot.__aexit__(None, None, None)
            nothing_left(scheduler)
        assert ("budget", "stall") in [(decision.kind, decision.why) for decision in decisions]

    asyncio.run(program())


@pytest.mark.parametrize("answered", [True, False])
def test_what_hangs_lets_the_next_go_though_nobody_waited_for_it_before(run: Run, answered: bool) -> None:
    """A long poll, at whose stall nothing waits, or the very first request."""

    async def program() -> None:
        clock, server = Clock(), Server()
        async with requests.open(clock=clock) as scheduler, anyio.create_task_group() as group:
            if answered:
                async with scheduler.slot(expect_bytes=1000):
                    clock.pass_ms(2)

            async def ask(number: int) -> None:
                async with scheduler.slot(expect_bytes=30_000):
                    await server.get(number)

            group.start_soon(ask, 0)
            await server.has(0)
            clock.pass_ms(5000)
            scheduler._on_timer()
            group.start_soon(ask, 1)
            await settled()
            due_ns = scheduler._core.timer_ns
            assert due_ns is not None, "somebody waits"
            if not answered:
                # The stall is noticed when it is of use to somebody.
                scheduler._on_timer()
                due_ns = scheduler._core.timer_ns
            assert due_ns == clock.now_ns + 1_000_000_000
            clock.pass_ms(999)
            scheduler._on_timer()
            await settled()
            assert server.asked == [0]
            clock.pass_ms(1)
            scheduler._on_timer()
            await server.has(0, 1)
            server.answer(0)
            server.answer(1)
        nothing_left(scheduler)

    run(program)


def test_an_interrupt_in_a_hook_leaves_the_timer_set() -> None:
    async def program() -> None:
        clock = Clock()

        def hook(decision: Decision) -> None:
            if decision.why == "stall":
                raise KeyboardInterrupt

        async with requests.open(clock=clock, on_decision=hook) as scheduler:
            async with scheduler.slot(expect_bytes=1000):
                clock.pass_ms(2)
            slots = [scheduler.slot(expect_bytes=10_000) for _ in range(2)]
            for slot in slots:
                await slot.__aenter__()
            waits = asyncio.ensure_future(scheduler.slot(expect_bytes=10_000).__aenter__())
            await settled()
            clock.pass_ms(51)
            with pytest.raises(KeyboardInterrupt):
                scheduler._on_timer()
            assert scheduler._core.timer_ns == clock.now_ns + 1_000_000_000, "they may hang"
            waits.cancel()
            await asyncio.wait([waits])
            for slot in slots:
                await slot.__aexit__(None, None, None)

    asyncio.run(program())


def test_times_that_wrap_wake_nobody_for_nothing() -> None:
    """The scheduler counts picoseconds, of which 64 bits are 213 days."""

    async def program() -> None:
        clock = Clock()
        wraps_ms = 2**64 / 1e9
        async with requests.open(clock=clock) as scheduler:

            async def stalls_after(passes_ms: float) -> int:
                async with scheduler.slot(expect_bytes=1000):
                    clock.pass_ms(2)
                clock.pass_ms(passes_ms)
                async with scheduler.slot(expect_bytes=1000):
                    timer_ns = scheduler._core.next_timer_ns()
                assert timer_ns is not None
                return timer_ns - clock.now_ns

            assert await stalls_after(0) == 50_000_000
            # Times do not go beyond the last before they wrap.
            assert 0 < await stalls_after(wraps_ms - 25) < 50_000_000
            assert await stalls_after(100) == 50_000_000
            assert await stalls_after(wraps_ms) == 50_000_000
            # Said before they wrap: to the scheduler it is months away, and it is asked again in a second.
            passed_ms = (clock.now_ns - 1_000_000_000_000) / 1e6
            clock.pass_ms(wraps_ms - passed_ms % wraps_ms - 40)
            async with scheduler.slot(expect_bytes=1000):
                clock.pass_ms(60)
                async with scheduler.slot(expect_bytes=1000):
                    timer_ns = scheduler._core.next_timer_ns()
                    assert timer_ns is not None
                    assert timer_ns > clock.now_ns

    asyncio.run(program())


def test_a_learned_budget_grows_while_that_pays() -> None:
    async def program() -> None:
        clock = Clock()
        async with requests.open(clock=clock) as scheduler:
            start = scheduler.status().budget_bytes

            async def get() -> None:
                await asyncio.sleep(0)
                clock.pass_ms(0.1)

            for _ in range(10):
                await scheduler.gather(*(get() for _ in range(40)), expect_bytes=10_000)
            assert start == 4 * 4 * 1448
            assert scheduler.status().changes["more"] >= 1

    asyncio.run(program())


# The port has room for two responses of 10,000 bytes, and its link carries one with its headers in 10.63 ms.
THINKING = Plan(port=Port(rate_bps=8_000_000, buffer_bytes=28_600), think_ms=20)


def test_where_servers_think_requests_go_at_the_pace_of_the_link(run: Run) -> None:
    async def program() -> None:
        clock, server = Clock(), Server()
        heard: list[Decision] = []
        began_ns = clock.now_ns
        async with (
            requests.open(THINKING, clock=clock, on_decision=heard.append) as scheduler,
            anyio.create_task_group() as group,
        ):

            async def gather() -> None:
                await scheduler.gather(*map(server.get, range(4)), expect_bytes=10_000)

            group.start_soon(gather)
            await server.has(0, 1)
            assert scheduler._core.timer_ns == began_ns + 10_630_000
            clock.pass_ms(10.62)
            scheduler._on_timer()
            await settled()
            assert sorted(server.asked) == [0, 1], "not before its time"
            clock.pass_ms(0.01)
            scheduler._on_timer()
            await server.has(0, 1, 2)
            assert scheduler._core.timer_ns == began_ns + 21_260_000
            # Three are in time: what they cost does not count.
            status = scheduler.status()
            assert status.budget_bytes is not None
            assert status.budget_bytes - status.in_use_bytes == 20_020
            clock.pass_ms(10.63)
            scheduler._on_timer()
            await server.has(0, 1, 2, 3)
            assert scheduler._core.timer_ns is None, "nothing waits"
            for number in range(4):
                server.answer(number)
        nothing_left(scheduler)
        assert [decision.request for decision in heard if decision.kind == "granted"] == [0, 1, 2, 3]

    run(program)


def test_where_servers_think_a_request_goes_though_nothing_else_happens(run: Run) -> None:
    async def program() -> None:
        server = Server()
        async with requests.open(THINKING) as scheduler, anyio.create_task_group() as group:

            async def ask(number: int) -> None:
                async with scheduler.slot(expect_bytes=10_000):
                    await server.get(number)

            for number in range(3):
                group.start_soon(ask, number)
            while len(server.asked) < 3:
                await anyio.sleep(0.001)
            for number in range(3):
                server.answer(number)
        nothing_left(scheduler)

    run(program)


def test_a_scheduler_that_is_closed_waits_for_no_time(run: Run) -> None:
    async def program() -> None:
        clock = Clock()
        scheduler = requests.open(THINKING, clock=clock)
        async with scheduler:
            slots = [scheduler.slot(expect_bytes=10_000) for _ in range(2)]
            for slot in slots:
                await slot.__aenter__()
            async with anyio.create_task_group() as group:
                group.start_soon(scheduler.slot(expect_bytes=10_000).__aenter__)
                await settled()
                assert scheduler._core.next_timer_ns() is not None
                group.cancel_scope.cancel()
            assert scheduler.status().withdrawn == 1
            assert scheduler._core.next_timer_ns() is None, "who waited for it has left"
            assert scheduler._timer is not None, "the timer is not looked for"
        assert scheduler._timer is None
        for slot in slots:
            await slot.__aexit__(None, None, None)
        assert scheduler._timer is None

    run(program)


def test_hooks_hear_of_every_decision_and_cannot_do_harm(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Decision] = []

    async def program() -> None:
        async with requests.open(FIXED, on_decision=heard.append) as scheduler:

            def broken(_decision: Decision) -> None:
                raise LookupError("broken hook")

            scheduler.on_decision(broken)
            with caplog.at_level(logging.CRITICAL):
                await scheduler.gather(soon(0), soon(1), expect_bytes=6000)
                server = Server()
                with anyio.move_on_after(0.01):
                    await scheduler.gather(server.get(2), server.get(3), expect_bytes=6000)
            nothing_left(scheduler)

    run(program)
    kinds = [(decision.kind, decision.request, decision.cost_bytes, decision.in_use_bytes) for decision in heard]
    # A window of four segments is all that a request can cost, but nothing is known of these connections.
    assert kinds[:6] == [
        ("granted", 0, 6000, 6000),
        ("waits", 1, None, 6000),
        ("returned", 0, None, 6000),
        ("granted", 1, 6000, 6000),
        ("returned", 1, None, 0),
        ("granted", 2, 6000, 6000),
    ]
    assert sorted(kind for kind, *_ in kinds[6:]) == ["returned", "waits", "withdrawn"]
    assert all(decision.budget_bytes == BUDGET_BYTES for decision in heard)


def test_decisions_are_timed_by_the_clock_of_python(run: Run) -> None:
    async def program() -> None:
        heard: list[Decision] = []
        before = time.monotonic_ns()
        async with requests.open(FIXED, on_decision=heard.append) as scheduler:
            await scheduler.gather(soon(1), soon(2), expect_bytes=BUDGET_BYTES)
        times = [before, *(decision.at_ns for decision in heard), time.monotonic_ns()]
        assert len(times) == 7
        assert times == sorted(times)

    run(program)


def test_a_hook_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def program() -> None:
        def broken(_decision: Decision) -> None:
            raise LookupError("broken hook")

        async with requests.open(FIXED, on_decision=broken) as scheduler:
            assert await scheduler.gather(soon(0), expect_bytes=6000) == [0]

    asyncio.run(program())
    assert "a hook of the request scheduler failed" in caplog.text


def test_opentelemetry_gets_gauges_counters_and_spans() -> None:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from incast_requests import telemetry

    reader, exporter = InMemoryMetricReader(), InMemorySpanExporter()
    meters, tracers = MeterProvider([reader]), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))

    async def program() -> dict[str, Any]:
        async with requests.open(FIXED) as scheduler:
            telemetry.instrument(
                scheduler, meter_provider=meters, tracer_provider=tracers, attributes={"link": "storage"}
            )
            await scheduler.gather(*map(soon, range(3)), expect_bytes=6000)
            found = json.loads(reader.get_metrics_data().to_json())  # type: ignore[union-attr]
        metrics = found["resource_metrics"][0]["scope_metrics"][0]["metrics"]
        return {metric["name"]: metric["data"]["data_points"] for metric in metrics}

    points = asyncio.run(program())
    assert points["incast.requests.budget"][0]["value"] == BUDGET_BYTES
    assert points["incast.requests.completed"][0]["value"] == 3
    assert points["incast.requests.waiting"][0]["attributes"] == {"link": "storage"}
    spans = exporter.get_finished_spans()
    assert [span.name for span in spans] == ["incast.request"] * 3
    assert [span.events[0].name for span in spans] == ["granted"] * 3
    assert spans[0].attributes is not None
    assert spans[0].attributes["incast.cost_bytes"] == 6000
    meters.shutdown()
    tracers.shutdown()


PORT = Port(rate_bps=100_000_000, buffer_bytes=65_536)


@pytest.mark.parametrize(
    ("plan", "application"),
    [
        (Plan(), {"name": "credit", "clamp": True, "learn": True}),
        (FIXED, {"name": "credit", "clamp": True, "learn": False, "budget": "10000B"}),
        (
            Plan(port=PORT, window_bytes=6000, think_ms=0),
            {"name": "credit", "clamp": True, "learn": False, "window": "6000B"},
        ),
        (Plan(port=PORT, think_ms=8.5), {"name": "credit", "clamp": True, "learn": False, "think": "8500000ns"}),
        (Plan(port=PORT), {"name": "credit", "clamp": True, "learn": False, "learn_think": True}),
        (Plan(port=PORT, think_ms=0), {"name": "credit", "clamp": True, "learn": False}),
        (
            Plan(port=PORT, scheduler={"name": "credit", "think": "1ms"}),
            {"name": "credit", "clamp": True, "learn": False, "think": "1ms"},
        ),
        (
            Plan(port=PORT, scheduler={"name": "credit", "learn": True}),
            {"name": "credit", "clamp": True, "learn": True},
        ),
        (Plan(scheduler={"name": "credit", "learn": True, "search": {"hold": 3}}), None),
        (Plan(scheduler="ars", port=PORT), {"name": "ars"}),
        (Plan(scheduler={"name": "fixed-window", "outstanding": 2}), None),
        (Plan(scheduler="sequential"), {"name": "sequential"}),
        (Plan(scheduler="all-at-once"), {"name": "all-at-once"}),
    ],
)
def test_every_scheduler_of_the_simulator_serves_a_program(plan: Plan, application: dict[str, Any] | None) -> None:
    if application is not None:
        assert plan.application() == application

    async def program() -> None:
        async with requests.open(plan) as scheduler:
            assert await scheduler.gather(*map(soon, range(50)), expect_bytes=8000) == list(range(50))
            nothing_left(scheduler)

    asyncio.run(program())


def test_a_port_gives_budget_and_windows() -> None:
    status = requests.open(Plan(port=PORT, workers=4)).status()
    assert (status.budget_bytes, status.window_bytes) == (45_871, 11_467)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (Plan(budget_bytes=0), "budget_bytes: found 0, expected a whole number of bytes above zero"),
        (Plan(window_bytes=True), "window_bytes: found True"),
        (Plan(mss_bytes=-1), "mss_bytes: found -1"),
        (Plan(port=Port(rate_bps=0, buffer_bytes=1)), "port.rate_bps: found 0, expected a whole number of bits per"),
        (Plan(port=PORT, think_ms=-1), "think_ms: found -1, expected 0 to 3,600,000 milliseconds"),
        (Plan(port=PORT, think_ms=float("nan")), "think_ms: found nan, expected 0 to 3,600,000 milliseconds"),
        (Plan(think_ms=8), "port: think_ms needs it, as requests then go at the pace of its link"),
        (Plan(scheduler="ars", port=PORT, think_ms=8), "think_ms: the scheduler 'ars' has none, only 'credit' has"),
        (Plan(scheduler="ars"), "port: the scheduler 'ars' needs it, or a batch_size"),
        (Plan(scheduler="ars", budget_bytes=1), "budget_bytes: the scheduler 'ars' has none, only 'credit' has"),
        (Plan(scheduler="best"), "unknown variant `best`, expected one of `all-at-once`"),
        (Plan(scheduler={"name": "credit", "patience": 1}), "unknown field `patience`, expected one of `budget`"),
        (Plan(window_bytes=1, clamp=False), "window: no effect: clamp = false sets no window"),
    ],
)
def test_a_plan_that_does_not_fit_together_is_refused(plan: Plan, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        requests.open(plan)
    assert message in str(caught.value)


def imported(statement: str) -> Iterator[str]:
    code = f"{statement}\nimport sys; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return iter(done.stdout.split())


def test_the_library_needs_nothing_and_the_simulator_has_it() -> None:
    heavy = {"polars", "matplotlib", "duckdb"}
    assert set(imported("import incast_requests")).isdisjoint({*heavy, "incast", "trio", "anyio"})
    assert importlib.metadata.requires("incast-requests") == ["opentelemetry-api>=1.20 ; extra == 'opentelemetry'"]
    assert set(imported("import incast; incast.requests.open")).isdisjoint(heavy)
    assert incast.requests.open is requests.open
    import incast_requests

    assert set(requests.__all__) == {*incast_requests.__all__} - {"__version__"}
    versions = {importlib.metadata.version(name) for name in ("incast", "incast-requests")}
    assert versions == {incast_requests.__version__}


def test_the_status_says_how_long_servers_are_taken_to_think() -> None:
    told = requests.open(Plan(port=PORT, think_ms=2.5))
    assert told.status().think_ms == 2.5
    assert requests.open(Plan(port=PORT)).status().think_ms == requests.open().status().think_ms == 0


def test_losses_of_others_are_told_once(
    run: Run, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Core:
        """The scheduler, as if less had not helped."""

        def __init__(self, core: Any, futile: bool) -> None:  # noqa: ANN401 - whatever the scheduler has
            self._core = core
            self.futile = futile

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401
            return getattr(self._core, name)

        def losses_of_others(self) -> bool:
            return self.futile

    async def program() -> None:
        caplog.clear()
        async with requests.open() as scheduler:
            assert not scheduler.status().losses_of_others
            core = Core(scheduler._core, futile=True)
            monkeypatch.setattr(Scheduler, "_core", core)
            for futile, messages in ((True, 1), (True, 1), (False, 1), (True, 2)):
                core.futile = futile
                scheduler._on_timer()
                assert scheduler.status().losses_of_others is futile
                assert len(caplog.records) == messages
            assert "others fill the port" in caplog.text

    run(program)


def test_a_task_that_goes_away_while_it_waits_withdraws(run: Run) -> None:
    async def program() -> None:
        async with requests.open(FIXED) as scheduler, scheduler.slot(expect_bytes=50_000):

            async def second() -> None:
                async with scheduler.slot(expect_bytes=50_000):
                    raise AssertionError("it has no room")

            # As an event loop does that is closed while tasks wait.
            task = second()
            task.send(None)
            assert scheduler.status().waiting == 1
            task.close()
            assert scheduler.status().waiting == 0
            assert scheduler.status().withdrawn == 1

    run(program)


def test_what_a_slot_is_entered_with_is_awaited_once(run: Run) -> None:
    async def program() -> None:
        async with requests.open(FIXED) as scheduler:
            slot = scheduler.slot(expect_bytes=50_000)
            assert slot.request == -1
            entering = slot.__aenter__()
            # Nothing is asked for yet.
            assert scheduler.status().asked == 0
            assert await entering is slot
            assert slot.request == 0
            leaving = slot.__aexit__(None, None, None)
            assert asyncio.iscoroutine(leaving)
            await leaving
            with pytest.raises(RuntimeError, match="make another"):
                await slot.__aenter__()
            with pytest.raises(RuntimeError, match="already awaited"):
                await entering
            assert asyncio.iscoroutine(entering)
            async with contextlib.AsyncExitStack() as stack:
                one = await stack.enter_async_context(scheduler.slot(expect_bytes=50_000))
                assert one.request == 1
                with pytest.raises(TimeoutError), anyio.fail_after(0.01):
                    await scheduler.slot(expect_bytes=50_000).__aenter__()
                assert scheduler.status().withdrawn == 1
            nothing_left(scheduler)

    run(program)


def test_a_scheduler_that_is_forgotten_while_requests_wait_goes_away_with_them() -> None:
    async def program() -> weakref.ref[Scheduler]:
        scheduler = Scheduler(FIXED)
        await scheduler.__aenter__()
        # Waits for ever, and knows the scheduler: a circle.
        scheduler._core.wait(7, scheduler)  # type: ignore[arg-type]
        return weakref.ref(scheduler)

    forgotten = asyncio.run(program())
    gc.collect()
    assert forgotten() is None
