"""The scheduler for programs, and mistakes of programs: each is named, and none costs credit or makes others wait."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import socket
import warnings
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, assert_type

import anyio
import pytest

from conftest import Run, nothing_left
from incast import requests
from incast.requests import Decision, Peer, Plan, Port, Scheduler

BUDGET_BYTES = 10_000
FIXED = Plan(budget_bytes=BUDGET_BYTES)
PORT = Port(rate_bps=100_000_000, buffer_bytes=65_536)


@contextmanager
def no_warnings() -> Iterator[None]:
    """Fail if a coroutine complains that nobody awaited it."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield
        gc.collect()
    assert [str(warning.message) for warning in found] == []


async def soon(value: int) -> int:
    await anyio.sleep(0)
    return value


class Index:
    """A whole number that is no `int`, as those of numpy."""

    def __index__(self) -> int:
        """Return it."""
        return 6000


@pytest.mark.parametrize("error", [asyncio.CancelledError, GeneratorExit, LookupError])
def test_what_a_hook_raises_is_logged_and_ends_nothing(
    run: Run, caplog: pytest.LogCaptureFixture, error: type[BaseException]
) -> None:
    def broken(_decision: Decision) -> None:
        raise error

    async def program() -> None:
        async with requests.open(FIXED, on_decision=broken) as scheduler:
            # Those that wait are let go where another returns.
            assert await scheduler.gather(*map(soon, range(3)), expect_bytes=BUDGET_BYTES) == [0, 1, 2]
            nothing_left(scheduler)

    run(program)
    assert caplog.text.count("a hook of the request scheduler failed") >= 3


def test_who_gathers_does_not_wait_for_what_an_interrupt_within_a_hook_has_ended() -> None:
    def interrupted(decision: Decision) -> None:
        if decision.kind == "returned":
            raise KeyboardInterrupt

    async def program() -> list[int]:
        async with requests.open(FIXED, on_decision=interrupted) as scheduler:
            return await scheduler.gather(soon(1), expect_bytes=1)

    loop = asyncio.new_event_loop()
    task = loop.create_task(program())
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(task)
    assert loop.run_until_complete(asyncio.wait_for(task, 10)) == [1]
    loop.close()


def test_a_task_factory_need_not_take_a_context() -> None:
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name")

    def factory(loop: asyncio.AbstractEventLoop, coroutine: Any) -> asyncio.Task[Any]:  # noqa: ANN401 - asyncio's
        return asyncio.Task(coroutine, loop=loop)

    async def get() -> str:
        found = name.get()
        name.set("changed")
        return found

    async def gather(scheduler: Scheduler, own: str) -> None:
        name.set(own)
        assert await scheduler.gather(*(get() for _ in range(5)), expect_bytes=BUDGET_BYTES) == [own] * 5

    async def program() -> None:
        asyncio.get_running_loop().set_task_factory(factory)
        async with requests.open(FIXED) as scheduler:
            # Each lets go those of the other.
            await asyncio.gather(gather(scheduler, "a"), gather(scheduler, "b"))
            nothing_left(scheduler)

    asyncio.run(program())


@pytest.mark.parametrize("as_function", [False, True])
def test_a_task_factory_that_fails_costs_no_credit(as_function: bool) -> None:
    def broken(*_: object, **__: object) -> asyncio.Task[Any]:
        raise LookupError("no task")

    def request(value: int) -> Any:  # noqa: ANN401 - a coroutine or a function
        return (lambda _slot: soon(value)) if as_function else soon(value)

    async def program() -> None:
        loop = asyncio.get_running_loop()
        async with requests.open(FIXED) as scheduler:
            loop.set_task_factory(broken)
            with pytest.raises(LookupError, match="no task"):
                await scheduler.gather(*map(request, range(3)), expect_bytes=BUDGET_BYTES)
            nothing_left(scheduler)
            # Each lets go the next, and so on: not within one another.
            found = await scheduler.gather(
                *map(request, range(2000)), expect_bytes=BUDGET_BYTES, return_exceptions=True
            )
            assert {type(error) for error in found} == {LookupError}
            nothing_left(scheduler)
            loop.set_task_factory(None)
            assert await scheduler.gather(*map(request, range(3)), expect_bytes=BUDGET_BYTES) == [0, 1, 2]

    with no_warnings():
        asyncio.run(program())


def test_a_request_that_cannot_begin_is_as_one_that_fails(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from incast_requests import on_trio, runtime

    def broken(*_: object) -> None:
        raise LookupError("no task")

    async def program() -> None:
        async with requests.open(FIXED) as scheduler:
            with monkeypatch.context() as patched:
                patched.setattr(runtime._AsyncioTasks, "start", broken)
                patched.setattr(on_trio._Tasks, "start", broken)
                found = await scheduler.gather(*map(soon, range(500)), expect_bytes=6000, return_exceptions=True)
                assert {type(error) for error in found} == {LookupError}
                with pytest.raises(LookupError, match="no task"):
                    await scheduler.gather(*map(soon, range(3)), expect_bytes=6000)
            nothing_left(scheduler)
            assert await scheduler.gather(soon(1), expect_bytes=6000) == [1]

    run(program)


def test_requests_of_a_gather_that_never_begins_do_not_complain() -> None:
    async def in_a_group(gathering: Coroutine[Any, Any, list[int]]) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(gathering)
            raise LookupError

    async def program() -> None:
        async with requests.open(FIXED) as scheduler:
            for gather in (scheduler.gather, requests.gather):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(gather(soon(1), soon(2), expect_bytes=5000), 0)
                with pytest.raises(ExceptionGroup):
                    await in_a_group(gather(soon(1), soon(2), expect_bytes=5000))
                closed = gather(soon(1), soon(2), expect_bytes=5000)
                closed.close()
                # The program may still have the request.
                kept = soon(1)
                task = asyncio.ensure_future(gather(kept, expect_bytes=5000))
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                del task
            assert scheduler.status().asked == 0

    with no_warnings():
        asyncio.run(program())


def test_a_gather_that_nobody_awaits_says_so_itself() -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        forgotten = requests.open(FIXED).gather(soon(1), soon(2), expect_bytes=5000)
        del forgotten
        gc.collect()
    assert len(found) == 1
    assert "gather' was never awaited" in str(found[0].message)


def test_requests_of_a_short_form_with_a_bad_budget_do_not_complain(run: Run) -> None:
    async def program() -> None:
        budget: Any
        for budget in (0, True, 1.0, [5], "5"):
            with pytest.raises(
                ValueError, match=r"^budget_bytes: found .*, expected a whole number of bytes above zero$"
            ):
                await requests.gather(soon(1), expect_bytes=1, budget_bytes=budget)
        assert await requests.gather(soon(1), expect_bytes=1, budget_bytes=1) == [1]
        # Is still none, though it equals a budget that is known.
        with pytest.raises(ValueError, match="budget_bytes: found True"):
            await requests.gather(soon(1), expect_bytes=1, budget_bytes=True)

    with no_warnings():
        run(program)


def test_types_say_that_errors_may_take_the_place_of_results(run: Run) -> None:
    async def program() -> None:
        flag = bool(BUDGET_BYTES)
        async with requests.open(FIXED) as scheduler:
            assert_type(await scheduler.gather(soon(1), expect_bytes=1), list[int])
            assert_type(await requests.gather(soon(1), expect_bytes=1), list[int])
            returned = await scheduler.gather(soon(1), expect_bytes=1, return_exceptions=True)
            assert_type(returned, list[int | BaseException])
            of_short = await requests.gather(soon(1), expect_bytes=1, return_exceptions=flag)
            assert_type(of_short, list[int | BaseException])
            # A size is not needed where there is a socket.
            assert await scheduler.gather(soon(1), soon(2), expect_bytes=[5, None], sockets=[None, Peer()]) == [1, 2]

    run(program)


@pytest.mark.parametrize("given", [0, {}, 56_000, "ars", Plan, PORT])
def test_what_is_no_plan_is_refused(given: Any) -> None:  # noqa: ANN401 - whatever a program gives
    with pytest.raises(TypeError, match=r"^plan: found .*, expected a Plan$"):
        requests.open(given)


def test_what_is_no_function_is_refused() -> None:
    wrong: Any = 5
    with pytest.raises(TypeError, match="on_decision: found 5, expected a function that takes a Decision"):
        requests.open(on_decision=wrong)
    with pytest.raises(TypeError, match="on_decision: found 5, expected a function"):
        requests.open().on_decision(wrong)
    with pytest.raises(TypeError, match="clock: found 5, expected a function that returns nanoseconds"):
        requests.open(clock=wrong)


def credit(**more: object) -> dict[str, object]:
    return {"name": "credit", **more}


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (
            {"budget_bytes": 9000, "scheduler": credit(budget="5000B")},
            "budget_bytes: found 9000, and 'budget': '5000B' in",
        ),
        (
            {"window_bytes": 9000, "scheduler": credit(window="5000B")},
            "window_bytes: found 9000, and 'window': '5000B' in",
        ),
        (
            {"port": PORT, "think_ms": 0, "scheduler": credit(think="1ms")},
            "think_ms: found 0, and 'think': '1ms' in the",
        ),
        (
            {"clamp": False, "scheduler": credit(clamp=True)},
            "clamp: found False, and 'clamp': True in the scheduler: give",
        ),
        ({"clamp": "no"}, "clamp: found 'no', expected True or False"),
        ({"scheduler": None}, "scheduler: found None, expected a name, or a mapping with a name"),
        ({"scheduler": {}}, "scheduler: found {}, expected a name, or a mapping with a name"),
        (
            {"scheduler": credit(search={1})},
            "scheduler: found {'name': 'credit', 'search': {1}}, expected what JSON can",
        ),
        ({"port": (10**9, 65_536)}, "port: found (1000000000, 65536), expected a Port"),
        (
            {"port": PORT, "workers": 2**40},
            "workers: found 1099511627776, expected a whole number of servers above zero, at",
        ),
        ({"port": PORT, "think_ms": "8"}, "think_ms: found '8', expected 0 to 3,600,000 milliseconds"),
        ({"budget_bytes": 2**62}, "expected a whole number of bytes above zero, at most 4,611,686,018,427,387,903"),
    ],
)
def test_a_plan_names_what_is_wrong_with_it(plan: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        requests.open(Plan(**plan))
    assert message in str(caught.value)


@pytest.mark.parametrize("given", [-1, float("nan"), float("inf"), "1", None, True, 1e20])
@pytest.mark.parametrize("field", ["base_rtt_us", "rto_min_ms"])
def test_a_port_names_what_is_wrong_with_it(field: str, given: object) -> None:
    port: dict[str, Any] = {"rate_bps": 10**9, "buffer_bytes": 65_536, field: given}
    with pytest.raises(
        ValueError, match=rf"^port\.{field}: found .*, expected 0 to 3,600,000(,000 micro| milli)seconds$"
    ):
        requests.open(Plan(port=Port(**port)))


def test_what_a_plan_and_its_scheduler_both_allow_is_allowed() -> None:
    assert Plan(scheduler=credit(clamp=False)).application()["clamp"] is False
    assert Plan(clamp=False, scheduler=credit(clamp=False)).application()["clamp"] is False
    index: Any = Index()
    assert requests.open(Plan(budget_bytes=index, mss_bytes=index)).status().budget_bytes == 6000


def test_sizes_may_be_of_numpy_and_a_list_of_them_has_an_order(run: Run) -> None:
    async def program() -> None:
        async with requests.open(FIXED) as scheduler:
            size: Any
            for size in (Index(), [Index()], (6000,)):
                costs: list[int] = []

                async def get(costs: list[int] = costs) -> None:
                    costs.append(scheduler.status().in_use_bytes)

                await scheduler.gather(get(), expect_bytes=size)
                assert costs == [6000]
            for size in (iter([5]), {5}, b"5", "5", True):
                with pytest.raises(ValueError, match=r"above zero, or a list of one for each$"):
                    await scheduler.gather(soon(1), expect_bytes=size)
            nothing_left(scheduler)

    with no_warnings():
        run(program)


def test_sockets_are_a_list_and_looked_at_before_anything_is_sent(run: Run) -> None:
    async def program() -> None:
        near, far = socket.socketpair()
        async with requests.open(FIXED) as scheduler:
            given: Any
            for given in (near, Peer(), {near}, iter([near]), "near", 7):
                with pytest.raises(TypeError, match=r"^sockets: found .*, expected a list of one for each request$"):
                    await scheduler.gather(soon(1), expect_bytes=5, sockets=given)
            # An error of the program and not of the request.
            with pytest.raises(TypeError, match="socket: found 'http://x', expected a socket, a Peer"):
                await scheduler.gather(
                    soon(1), soon(2), expect_bytes=5, sockets=[None, "http://x"], return_exceptions=True
                )
            assert scheduler.status().asked == 0
            assert await scheduler.gather(soon(1), soon(2), expect_bytes=5, sockets=(near, None)) == [1, 2]
        near.close()
        far.close()

    with no_warnings():
        run(program)
