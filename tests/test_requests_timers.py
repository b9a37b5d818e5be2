"""The timers of the scheduler for programs: those of event loops have steps of a millisecond."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
import trio
import trio.testing

from conftest import Run, nothing_left
from incast import requests
from incast.requests import Decision, Plan, Port
from incast_requests import short
from incast_requests.runtime import Asyncio, _LoopTimer

linux = pytest.mark.skipif(sys.platform != "linux", reason="the kernel has no such timer")
NS_PER_MS = 1_000_000
# The port has room for two responses of 10,000 bytes, and its link carries one with its headers in 10.6 ms.
THINKING = Plan(port=Port(rate_bps=8_000_000, buffer_bytes=28_600), think_ms=9000)


def timers() -> int:
    """Return how many timers of the kernel this process has."""
    found = 0
    for fd in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found += str(fd.readlink()) == "anon_inode:[timerfd]"
    return found


async def paced(scheduler: requests.Scheduler) -> None:
    """Ask for three slots. The pace holds one back while none of the others is left, unless the machine is slow."""
    while scheduler._timer is None:
        await three(scheduler)


async def three(scheduler: requests.Scheduler) -> None:
    entered = 0

    async def ask() -> None:
        nonlocal entered
        async with scheduler.slot(expect_bytes=10_000):
            entered += 1
            while entered < 3:
                await anyio.sleep(0.0001)

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(ask)


@linux
def test_the_kernels_timer_can_be_read_when_its_time_has_come() -> None:
    from incast_requests import _core

    timer = _core.Timer()

    def ready(wait_s: float = 0) -> bool:
        return select.select([timer], [], [], wait_s)[0] == [timer]

    assert not ready(), "it was not set"
    timer.set(3_600_000 * NS_PER_MS)
    assert not ready()
    timer.set(0)
    assert ready(60), "none at all is soon, and not never"
    timer.set(3_600_000 * NS_PER_MS)
    assert not ready(), "it was set anew"
    began_ns = time.monotonic_ns()
    timer.set(3 * NS_PER_MS)
    assert ready(60)
    assert time.monotonic_ns() - began_ns >= 3 * NS_PER_MS
    timer.cancel()
    assert not ready()
    fd = timer.fileno()
    timer.close()
    assert timer.fileno() == -1
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    timer.set(1)
    timer.cancel()
    timer.close()


@linux
def test_a_scheduler_has_one_descriptor_while_it_is_open(run: Run) -> None:
    async def program() -> None:
        before = timers()
        async with requests.open(THINKING) as scheduler:
            assert timers() == before, "not before it is needed"
            await paced(scheduler)
            for _ in range(3):
                await three(scheduler)
                assert timers() == before + 1
        nothing_left(scheduler)
        with anyio.move_on_after(20):
            # Trio closes it in a task.
            while timers() != before:
                await anyio.sleep(0)
        assert timers() == before
        await scheduler.__aexit__(None, None, None)

    run(program)


def test_where_the_kernel_has_no_timer_that_of_the_loop_does(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Timer:
        def __init__(self) -> None:
            raise OSError(24, "Too many open files")

    async def program() -> None:
        async with requests.open(THINKING) as scheduler:
            await paced(scheduler)
            assert type(scheduler._timer).__name__ == "_LoopTimer"
        nothing_left(scheduler)

    monkeypatch.setattr("incast_requests._core.Timer", Timer, raising=False)
    run(program)


@linux
@pytest.mark.parametrize("error", [NotImplementedError, RuntimeError("File descriptor 7 is used by transport")])
def test_a_loop_that_cannot_wait_for_descriptors_has_a_timer(
    error: type[Exception] | Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add_reader(*_: Any) -> None:  # noqa: ANN401
        raise error

    async def program() -> None:
        before = timers()
        monkeypatch.setattr(asyncio.get_running_loop(), "add_reader", add_reader)
        async with requests.open(THINKING) as scheduler:
            await paced(scheduler)
            timer = scheduler._timer
            assert isinstance(timer, _LoopTimer)
            timer.set(3_600_000 * NS_PER_MS)
        assert timer._handle is None, "it is closed"
        nothing_left(scheduler)
        assert timers() == before, "also where somebody keeps the error"

    asyncio.run(program())


def test_a_loop_with_a_clock_of_its_own_has_a_timer_by_that(monkeypatch: pytest.MonkeyPatch) -> None:
    async def program() -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: time.monotonic() - 1000)
        async with requests.open(THINKING) as scheduler:
            await paced(scheduler)
            assert isinstance(scheduler._timer, _LoopTimer)

    asyncio.run(program())


def test_a_run_of_trio_with_a_clock_of_its_own_has_a_timer_by_that() -> None:
    async def program() -> None:
        async with requests.open(THINKING) as scheduler:
            await paced(scheduler)
            assert type(scheduler._timer).__name__ == "_LoopTimer"

    trio.run(program, clock=trio.testing.MockClock(rate=1))


def test_a_clock_of_the_program_is_not_mixed_with_that_of_the_kernel(run: Run) -> None:
    async def program() -> None:
        async with requests.open(THINKING, clock=time.monotonic_ns) as scheduler:
            await paced(scheduler)
            assert type(scheduler._timer).__name__ == "_LoopTimer"

    run(program)


@linux
@pytest.mark.parametrize("by_loop", [False, True])
def test_hooks_that_a_timer_calls_have_the_context_of_the_program_that_opened_it(by_loop: bool) -> None:
    whose = contextvars.ContextVar("whose", default="nobody")
    heard: list[tuple[str, str]] = []

    def hear(decision: Decision) -> None:
        heard.append((decision.kind, whose.get()))

    async def program() -> None:
        whose.set("opener")
        scheduler = requests.open(THINKING, on_decision=hear, clock=time.monotonic_ns if by_loop else None)
        async with scheduler:
            whose.set("asker")
            await paced(scheduler)

    asyncio.run(program())
    # The first goes at once, and the pace lets others go.
    assert {whose for kind, whose in heard if kind == "granted"} == {"asker", "opener"}


@linux
def test_a_timer_that_is_closed_is_not_called_any_more(run: Run) -> None:
    async def program() -> None:
        called = 0

        def call() -> None:
            nonlocal called
            called += 1

        async with requests.open() as scheduler:
            assert scheduler._runtime is not None
            both = [scheduler._runtime.timer(call, precise=precise) for precise in (False, True)]
            for timer in both:
                timer.set(0)
            while called < 2:
                await anyio.sleep(0.001)
            await anyio.sleep(0.005)
            assert called == 2, "once each"
            for timer in both:
                timer.set(0)
                timer.cancel()
            await anyio.sleep(0.005)
            assert called == 2
            for timer in both:
                timer.set(0)
                timer.close()
            await anyio.sleep(0.005)
            assert called == 2

    run(program)


@linux
def test_trio_has_a_timer_of_its_own_where_the_kernel_waits_for_no_more_descriptors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def wait_readable(_: object) -> None:
        raise OSError(28, "No space left on device")

    async def program() -> None:
        before = timers()
        async with requests.open(THINKING) as scheduler:
            for _ in range(2):
                await paced(scheduler)
                await three(scheduler)
        nothing_left(scheduler)
        assert timers() == before

    monkeypatch.setattr(trio.lowlevel, "wait_readable", wait_readable)
    trio.run(program)


FORKS = """
import asyncio, os
from incast import requests
from test_requests_timers import THINKING

async def program():
    async with requests.open(THINKING) as scheduler:
        slots = [scheduler.slot(expect_bytes=10_000) for _ in range(3)]
        for slot in slots[:2]:
            await slot.__aenter__()
        third = asyncio.ensure_future(slots[2].__aenter__())
        await asyncio.sleep(0)
        assert scheduler._timer._timer.is_ours()
        if (child := os.fork()) == 0:
            assert not scheduler._timer._timer.is_ours()
            scheduler._timer.set(3_600_000_000_000)
            scheduler._timer.cancel()
            return "child"
        os.waitpid(child, 0)
        await third
        for slot in slots:
            await slot.__aexit__(None, None, None)
    return "parent"

print(asyncio.run(program()), end=" ", flush=True)
"""


@linux
def test_a_child_leaves_the_timer_of_its_parent_alone() -> None:
    found = subprocess.run(
        [sys.executable, "-c", FORKS], cwd=Path(__file__).parent, capture_output=True, text=True, timeout=60, check=True
    )
    assert found.stdout.split() == ["child", "parent"], found.stderr


@linux
def test_short_forms_keep_no_timer_that_has_nothing_to_do(run: Run) -> None:
    async def program() -> None:
        # Without what other tests have left.
        short._shared_scheduler(9999)
        gc.collect()
        before = timers()
        for budget_bytes in [*range(10_000, 10_010)] * 2:
            scheduler = short._shared_scheduler(budget_bytes)
            assert scheduler._runtime is not None
            assert scheduler._timer is None
            scheduler._timer = scheduler._runtime.timer(scheduler._on_timer, precise=True)
            assert timers() == before + 1
            # It has another request acknowledged, and then nothing more to do, though this one is not over.
            async with scheduler.slot(expect_bytes=1000):
                scheduler._timer.set(1)
                with anyio.move_on_after(20):
                    while timers() != before:
                        await anyio.sleep(0.0001)
            assert timers() == before

    run(program)


@linux
def test_short_forms_leave_no_timer_of_a_loop_that_is_over() -> None:
    whose = contextvars.ContextVar("whose", default="nobody")

    async def program(timed: bool) -> None:
        whose.set("first")
        assert await requests.gather(asyncio.sleep(0, 1), expect_bytes=1000) == [1]
        scheduler = short._shared_scheduler(None)
        assert isinstance(scheduler._runtime, Asyncio)
        assert whose not in scheduler._runtime._context, "who came first would be kept as long as the loop"
        if timed:
            scheduler._timer = scheduler._runtime.timer(scheduler._on_timer, precise=True)

    # Without what other tests have left, and not by the garbage collector.
    asyncio.run(program(False))
    gc.collect()
    before = timers()
    gc.disable()
    try:
        for _ in range(3):
            asyncio.run(program(True))
            assert timers() == before + 1
        asyncio.run(program(False))
        assert timers() == before
    finally:
        gc.enable()
