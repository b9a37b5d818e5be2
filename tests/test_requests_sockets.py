"""The scheduler with real connections over loopback: what sockets say, and what becomes of half a response."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import anyio.abc
import httpx
import pytest
import redis.asyncio
import trio

from fan_in import unruly
from incast import requests
from incast.requests import Decision, Peer, Plan, Port, Scheduler, sockets
from incast_requests import _core

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="LEFT OUT: only Linux says what sockets have seen")

BUDGET_BYTES = 50_000
PLAN = Plan(budget_bytes=BUDGET_BYTES, window_bytes=8192)
BODY = bytes(40_000)


class Server(unruly.Server):
    """Answers lines of HTTP or of Redis with 40,000 bytes, of which the second half waits until it may come."""

    def __init__(self) -> None:
        super().__init__(self._answer_lines)
        self.may_finish = asyncio.Event()
        self.may_finish.set()

    async def _answer_lines(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            if line.startswith(b"GET"):
                while await reader.readline() != b"\r\n":
                    pass
                await self._send(writer, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY), b"")
            elif line.startswith(b"*"):
                words = []
                for _ in range(int(line[1:])):
                    size = int((await reader.readline())[1:])
                    words.append((await reader.readexactly(size + 2))[:-2])
                if words[0].upper() == b"GET":
                    await self._send(writer, b"$%d\r\n" % len(BODY), b"\r\n")
                elif words[0].upper() == b"HELLO":
                    writer.write(b"%1\r\n+proto\r\n:3\r\n")
                else:
                    writer.write(b"+OK\r\n")
            else:
                await self._send(writer, b"", b"")

    async def _send(self, writer: asyncio.StreamWriter, before: bytes, after: bytes) -> None:
        half = len(BODY) // 2
        writer.write(before + BODY[:half])
        await self.may_finish.wait()
        writer.write(BODY[half:] + after)
        await writer.drain()


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def get(streams: Streams) -> int:
    reader, writer = streams
    writer.write(b"again\n")
    return len(await reader.readexactly(len(BODY)))


def asked_of_kernel(fd: int, **made_up: Any) -> sockets.Info | None:  # noqa: ANN401 - fields of any type
    """Return what the kernel says of a connection, but for what is made up."""
    found = _core.info(fd)
    return None if found is None else sockets.Info(*found)._replace(**made_up)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


def run(program: Callable[[Server], Awaitable[None]]) -> None:
    """Run a program beside a server. No task and no descriptor outlives it."""

    async def beside() -> None:
        server = Server()
        async with asyncio.timeout(60), server.running():
            await program(server)

    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = descriptors()
    asyncio.run(beside())
    assert descriptors() == before


def test_windows_are_limited_once_data_came_and_make_requests_cheaper() -> None:
    async def program(server: Server) -> None:
        decisions: list[Decision] = []
        async with requests.open(PLAN, on_decision=decisions.append) as scheduler:
            streams = await asyncio.open_connection("127.0.0.1", server.port)
            peer = Peer(streams[1])
            for _ in range(12):
                assert await scheduler.gather(get(streams), expect_bytes=len(BODY), sockets=[peer]) == [len(BODY)]
            costs = [decision.cost_bytes for decision in decisions if decision.kind == "granted"]
            # What was announced before has to be used up first.
            assert costs[0] == len(BODY)
            assert costs[-1] == 8192
            assert peer.socket is not None
            assert peer.socket.getsockopt(socket.IPPROTO_TCP, sockets.TCP_WINDOW_CLAMP) == 8192
            found = sockets.info(peer.socket)
            assert found is not None
            assert found.open
            assert found.received_bytes == 12 * len(BODY)
            assert found.window_bytes is not None
            assert found.window_bytes <= 8192
            streams[1].close()
            await streams[1].wait_closed()
            assert peer.socket is None

    run(program)


def acknowledges_at_once(writer: asyncio.StreamWriter) -> bool:
    return bool(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))


Wait = Callable[[asyncio.StreamWriter], Awaitable[None]]


async def until_acknowledged(writer: asyncio.StreamWriter) -> None:
    await until(lambda: acknowledges_at_once(writer))


async def some_looks(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(0.02)
    assert not acknowledges_at_once(writer)


def send(writer: asyncio.StreamWriter) -> None:
    """Send, and have the kernel delay ACKs, as it does when both sides have talked in turns before."""
    writer.write(b"again\n")
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)


async def sent_at_once(scheduler: Scheduler, writer: asyncio.StreamWriter, wait: Wait) -> None:
    async with scheduler.slot(expect_bytes=len(BODY), socket=writer) as slot:
        send(writer)
        await wait(writer)
        slot.abandon()


async def sent_late(scheduler: Scheduler, writer: asyncio.StreamWriter, wait: Wait) -> None:
    async with scheduler.slot(expect_bytes=len(BODY), socket=writer) as slot:
        await asyncio.sleep(0.02)
        send(writer)
        await wait(writer)
        slot.abandon()


async def found_when_sent(scheduler: Scheduler, writer: asyncio.StreamWriter, wait: Wait) -> None:
    async with scheduler.slot(expect_bytes=len(BODY)) as slot:
        send(writer)
        slot.use(writer)
        await wait(writer)
        slot.abandon()


async def gathered(scheduler: Scheduler, writer: asyncio.StreamWriter, wait: Wait) -> None:
    async def ask() -> None:
        send(writer)
        await wait(writer)

    await scheduler.gather(ask(), expect_bytes=len(BODY), sockets=[Peer(writer)])


Ask = Callable[[Scheduler, asyncio.StreamWriter], Awaitable[None]]


def while_nothing_comes(plan: Plan, ask: Ask, kernel: Callable[[int], sockets.Info | None] | None = None) -> None:
    """Run `ask` with a connection that announces no more than the scheduler wants, whose server is halted."""

    async def program(server: Server) -> None:
        async with requests.open(plan) as scheduler:
            if kernel is not None:
                scheduler._core.ask_in_place_of_kernel(kernel)
            streams = await asyncio.open_connection("127.0.0.1", server.port)
            # What it announced before has to be used up.
            for _ in range(12):
                await scheduler.gather(get(streams), expect_bytes=len(BODY), sockets=[streams[1]])
            server.may_finish.clear()
            await ask(scheduler, streams[1])
            server.may_finish.set()
            streams[1].close()

    run(program)


@pytest.mark.parametrize("ask", [sent_at_once, sent_late, found_when_sent, gathered])
@pytest.mark.parametrize(
    ("plan", "wait"),
    [
        (PLAN, until_acknowledged),
        (Plan(window_bytes=8192), until_acknowledged),
        (Plan(budget_bytes=BUDGET_BYTES, clamp=False), some_looks),
    ],
    ids=["planned", "learned", "not limited"],
)
def test_what_may_fill_limited_windows_is_acknowledged_at_once(
    plan: Plan, wait: Wait, ask: Callable[[Scheduler, asyncio.StreamWriter, Wait], Awaitable[None]]
) -> None:
    while_nothing_comes(plan, lambda scheduler, writer: ask(scheduler, writer, wait))


def test_a_kernel_that_does_not_say_what_it_announces_has_large_responses_acknowledged_at_once() -> None:
    while_nothing_comes(
        PLAN,
        lambda scheduler, writer: sent_at_once(scheduler, writer, until_acknowledged),
        lambda fd: asked_of_kernel(fd, window_bytes=None),
    )


Place = Callable[[asyncio.StreamWriter], Any]


@pytest.mark.parametrize("place", [lambda writer: writer, Peer, lambda _: None], ids=["socket", "peer", "used later"])
def test_what_cannot_fill_a_limited_window_is_acknowledged_as_the_kernel_likes(place: Place) -> None:
    async def ask(scheduler: Scheduler, writer: asyncio.StreamWriter) -> None:
        over = place(writer)
        # Again, so that nothing is left of the first time.
        for _ in range(2):
            async with scheduler.slot(expect_bytes=6000, socket=over) as slot:
                send(writer)
                slot.use(writer)
                await some_looks(writer)
                # Streams of HTTP/2 share a window.
                async with scheduler.slot(expect_bytes=6000, socket=over) as other:
                    send(writer)
                    other.use(writer)
                    await until_acknowledged(writer)
                    other.received_bytes = 0
                slot.received_bytes = 0

    while_nothing_comes(PLAN, ask)


def test_a_window_of_four_segments_is_that_of_the_connection_not_of_the_plan() -> None:
    async def program(server: Server) -> None:
        async with requests.open(Plan(budget_bytes=BUDGET_BYTES)) as scheduler:
            scheduler._core.ask_in_place_of_kernel(lambda fd: asked_of_kernel(fd, advertised_mss_bytes=2000))
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            # Before the second request, as data has come by then.
            for _ in range(2):
                await scheduler.gather(*[get((reader, writer))], expect_bytes=len(BODY), sockets=[writer])
            sock = sockets.socket_of(writer)
            assert sock is not None
            known = sockets.info(sock)
            assert known is not None
            unit = known.window_unit_bytes
            assert sock.getsockopt(socket.IPPROTO_TCP, sockets.TCP_WINDOW_CLAMP) == -(-4 * 2000 // unit) * unit
            writer.close()

    run(program)


def test_a_window_is_made_larger_if_the_scheduler_wants_that() -> None:
    """One that learns does where others fill the port, and another scheduler may go by another port."""

    async def program(server: Server) -> None:
        streams = await asyncio.open_connection("127.0.0.1", server.port)
        sock = sockets.socket_of(streams[1])
        assert sock is not None
        peer = Peer(connection=streams[1])
        for window_bytes in (4096, 16_384, 8192, 40_960, 163_840):
            async with requests.open(Plan(budget_bytes=BUDGET_BYTES, window_bytes=window_bytes)) as scheduler:
                # Before the second request, as data has come by then.
                for _ in range(2):
                    await scheduler.gather(*[get(streams)], expect_bytes=len(BODY), sockets=[peer])
            assert sock.getsockopt(socket.IPPROTO_TCP, sockets.TCP_WINDOW_CLAMP) == window_bytes
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= 2 * window_bytes, "it is no longer enlarged"
        streams[1].close()

    run(program)


def test_a_window_in_the_mapping_of_a_plan_is_not_made_to_fit_segments() -> None:
    async def program(server: Server) -> None:
        plan = Plan(scheduler={"name": "credit", "budget": "40KB", "window": "3000B"})
        streams = await asyncio.open_connection("127.0.0.1", server.port)
        async with requests.open(plan) as scheduler:
            for _ in range(2):
                await scheduler.gather(*[get(streams)], expect_bytes=len(BODY), sockets=[streams[1]])
        sock = sockets.socket_of(streams[1])
        assert sock is not None
        known = sockets.info(sock)
        assert known is not None
        unit = known.window_unit_bytes
        assert sock.getsockopt(socket.IPPROTO_TCP, sockets.TCP_WINDOW_CLAMP) == -(-3000 // unit) * unit
        streams[1].close()

    run(program)


def test_windows_that_fill_the_budget_together_fit_into_it() -> None:
    """The kernel rounds windows up to whole steps: the last of them would not fit, and its request would wait."""

    async def program(server: Server) -> None:
        plan = Plan(budget_bytes=45_871, workers=2)
        async with requests.open(plan) as scheduler:
            scheduler._core.ask_in_place_of_kernel(lambda fd: asked_of_kernel(fd, advertised_mss_bytes=1000))
            streams = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(2)]
            writers = [writer for _, writer in streams]
            # Until they announce no more.
            for _ in range(12):
                await scheduler.gather(*map(get, streams), expect_bytes=len(BODY), sockets=writers)
            slots = [scheduler.slot(expect_bytes=len(BODY), socket=writer) for writer in writers]
            for slot in slots:
                async with asyncio.timeout(20):
                    await slot.__aenter__()
            known = [sockets.info(writer.get_extra_info("socket")) for writer in writers]
            assert known[0] is not None
            cost = 45_871 // 2 // known[0].window_unit_bytes * known[0].window_unit_bytes
            # What is not acknowledged yet is not announced.
            assert all(each and each.window_bytes and each.window_bytes <= cost for each in known)
            assert scheduler.status().in_use_bytes == 2 * cost
            for (_, writer), slot in zip(streams, slots, strict=True):
                await slot.__aexit__(None, None, None)
                writer.close()

    run(program)


def test_credit_of_a_request_that_was_given_up_comes_back_when_its_connection_is_dry() -> None:
    async def program(server: Server) -> None:
        server.may_finish.clear()
        async with requests.open(PLAN) as scheduler:
            streams = await asyncio.open_connection("127.0.0.1", server.port)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await scheduler.gather(get(streams), expect_bytes=len(BODY), sockets=[streams[1]])
            status = scheduler.status()
            assert (status.draining, status.outstanding, status.in_use_bytes) == (1, 1, len(BODY))
            # What does not fit beside it waits.
            other = asyncio.create_task(scheduler.gather(asyncio.sleep(0, "done"), expect_bytes=len(BODY)))
            await asyncio.sleep(0.05)
            assert not other.done()
            server.may_finish.set()
            assert await other == ["done"]
            status = scheduler.status()
            assert (status.draining, status.outstanding, status.failed) == (0, 0, 1)
            streams[1].close()

    run(program)


def test_a_connection_that_was_idle_before_the_request_is_not_dry_at_once() -> None:
    now_ns, idle_ms = 0, 1100

    def idle(fd: int) -> sockets.Info | None:
        return asked_of_kernel(fd, last_data_ms=idle_ms + now_ns // 1_000_000)

    async def program(server: Server) -> None:
        nonlocal now_ns, idle_ms
        decisions: list[Decision] = []
        async with Scheduler(PLAN, on_decision=decisions.append, clock=lambda: now_ns) as scheduler:
            scheduler._core.ask_in_place_of_kernel(idle)
            for last_data_at_ms in (None, 700):
                began_ns = now_ns
                _, writer = await asyncio.open_connection("127.0.0.1", server.port)
                async with scheduler.slot(expect_bytes=len(BODY), socket=writer) as slot:
                    slot.abandon()  # long before the server has thought about it
                looks = 0
                while scheduler.status().draining and looks < 300:
                    if last_data_at_ms is not None and now_ns >= began_ns + last_data_at_ms * 1_000_000:
                        idle_ms, last_data_at_ms = -(now_ns // 1_000_000), None
                    await asyncio.sleep(0.001)
                    now_ns += 10_000_000
                    looks += 1
                gave_up, returned = (d.at_ns for d in decisions[-2:])
                assert [d.kind for d in decisions[-2:]] == ["draining", "returned"]
                # A second from then, or from the last data if some came.
                least_ns = 1_000_000_000 if began_ns == 0 else 1_700_000_000
                assert least_ns <= returned - gave_up < least_ns + 500_000_000
                writer.close()

    run(program)


@pytest.mark.parametrize("with_peer", [False, True])
def test_a_request_given_up_after_its_response_had_begun_keeps_its_credit(with_peer: bool) -> None:
    """Its connection was used before: what had come by then is not of the response."""
    now_ns, idle_ms = 0, 0

    def idle(fd: int) -> sockets.Info | None:
        return asked_of_kernel(fd, last_data_ms=idle_ms)

    async def program(server: Server) -> None:
        nonlocal now_ns, idle_ms
        reader, writer = streams = await asyncio.open_connection("127.0.0.1", server.port)
        await get(streams)
        async with Scheduler(Plan(budget_bytes=BUDGET_BYTES, clamp=False), clock=lambda: now_ns) as scheduler:
            scheduler._core.ask_in_place_of_kernel(idle)
            # Nothing had come when it was told: then all that is expected comes after.
            async with scheduler.slot(expect_bytes=len(BODY)) as slot:
                slot.use(writer)
                slot.abandon()
            assert scheduler.status().draining == 1
            await get(streams)
            await until(lambda: scheduler.status().outstanding == 0)
            server.may_finish.clear()
            async with scheduler.slot(expect_bytes=len(BODY), socket=Peer() if with_peer else None) as slot:
                writer.write(b"again\n")
                await reader.readexactly(len(BODY) // 2)
                slot.use(writer)
                slot.abandon()
            for _ in range(2):
                await asyncio.sleep(0.05)
                status = scheduler.status()
                assert (status.draining, status.in_use_bytes) == (1, len(BODY))
                server.may_finish.set()
            now_ns, idle_ms = 1_000_000_000, 1000
            await until(lambda: scheduler.status().outstanding == 0)
            assert scheduler.status().failed == 2
        writer.close()

    run(program)


@pytest.mark.parametrize(
    ("expect_bytes", "counted_bytes"), [(len(BODY), len(BODY)), (1000, len(BODY) // 2), (60_000, len(BODY))]
)
def test_what_had_come_before_its_connection_was_told_counts_as_expected(expect_bytes: int, counted_bytes: int) -> None:
    async def program(server: Server) -> None:
        reader, writer = streams = await asyncio.open_connection("127.0.0.1", server.port)
        await get(streams)
        async with requests.open() as scheduler:
            async with scheduler.slot(expect_bytes=1, socket=writer):
                pass
            for responses in range(1, 4):
                server.may_finish.clear()
                async with scheduler.slot(expect_bytes=expect_bytes) as slot:
                    writer.write(b"again\n")
                    await reader.readexactly(len(BODY) // 2)
                    slot.use(writer)
                    server.may_finish.set()
                    await reader.readexactly(len(BODY) // 2)
                assert scheduler._core.received_bytes() == responses * counted_bytes
        writer.close()

    run(program)


Over = Callable[[asyncio.StreamWriter], Any]


@pytest.mark.parametrize("over", [lambda writer: writer, Peer, lambda _: None], ids=["socket", "peer", "used later"])
def test_requests_over_one_connection_at_once_count_each_byte_once(over: Over) -> None:
    async def program(server: Server) -> None:
        reader, writer = streams = await asyncio.open_connection("127.0.0.1", server.port)
        turn = asyncio.Lock()
        await get(streams)

        async def ask(slot: requests.Slot) -> None:
            async with turn:
                writer.write(b"again\n")
                await reader.readexactly(1)
                slot.use(writer)
                await reader.readexactly(len(BODY) - 1)

        async with requests.open() as scheduler:
            for queries in range(1, 4):
                await scheduler.gather(*[ask] * 4, expect_bytes=len(BODY), sockets=[over(writer)] * 4)
                assert scheduler._core.received_bytes() == queries * 4 * len(BODY)
        writer.close()

    run(program)


def test_a_peer_may_be_used_in_the_event_loops_of_several_threads() -> None:
    class Socket:
        """Whoever asks for its number lets another thread go on."""

        def __init__(self, sock: socket.socket) -> None:
            self._sock = sock
            self.meanwhile: Callable[[], None] | None = None

        def getsockopt(self, *arguments: int) -> int:
            return self._sock.getsockopt(*arguments)

        def fileno(self) -> int:
            act, self.meanwhile = self.meanwhile, None
            if act is not None:
                thread = threading.Thread(target=act)
                thread.start()
                thread.join()
            return self._sock.fileno()

    used = 0

    async def use() -> None:
        nonlocal used
        async with requests.open() as scheduler:
            for _ in range(2):
                async with scheduler.slot(expect_bytes=len(BODY), socket=peer) as slot:
                    slot.use(sock)
                used += 1

    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as client:
        sock = Socket(client)
        peer = Peer(sock)
        sock.meanwhile = lambda: asyncio.run(use())
        asyncio.run(use())
    assert used == 4


@pytest.mark.parametrize("end", ["close", "abort", "server"])
def test_credit_of_a_request_that_was_given_up_comes_back_when_its_connection_is_closed(end: str) -> None:
    async def program(server: Server) -> None:
        server.may_finish.clear()
        async with requests.open(PLAN) as scheduler:
            _, writer = streams = await asyncio.open_connection("127.0.0.1", server.port)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await scheduler.gather(get(streams), expect_bytes=len(BODY), sockets=[writer])
            assert scheduler.status().draining == 1
            if end == "close":
                writer.close()
            elif end == "abort":
                writer.transport.abort()
            else:
                await server.drop()
            await until(lambda: scheduler.status().outstanding == 0)
            writer.close()

    run(program)


def test_what_was_given_up_has_failed_when_the_scheduler_is_closed() -> None:
    async def program(server: Server) -> None:
        server.may_finish.clear()
        decisions: list[Decision] = []
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        async with requests.open(PLAN, on_decision=decisions.append) as scheduler:
            async with scheduler.slot(expect_bytes=len(BODY), socket=writer) as slot:
                writer.write(b"again\n")
                await reader.readexactly(len(BODY) // 2)
                slot.abandon()
            assert scheduler.status().draining == 1
        assert [decision.kind for decision in decisions] == ["granted", "draining", "returned"]
        status = scheduler.status()
        assert (status.draining, status.outstanding, status.in_use_bytes, status.failed) == (0, 0, 0, 1)
        assert scheduler._core.received_bytes() == len(BODY) // 2
        writer.close()

    run(program)


def test_a_slot_left_before_the_response_is_complete_says_so() -> None:
    async def program(server: Server) -> None:
        server.may_finish.clear()
        async with requests.open(PLAN) as scheduler:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            async with scheduler.slot(expect_bytes=len(BODY), socket=writer) as slot:
                writer.write(b"again\n")
                await reader.readexactly(100)
                slot.abandon()
            assert scheduler.status().draining == 1
            writer.close()
            await until(lambda: scheduler.status().outstanding == 0)

    run(program)


def test_servers_that_die_in_mid_response_do_not_stall_the_others() -> None:
    async def program(server: Server) -> None:
        server.may_finish.clear()
        async with Server().running() as healthy, requests.open(PLAN) as scheduler:
            dying = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(3)]
            living = [await asyncio.open_connection("127.0.0.1", healthy.port) for _ in range(5)]
            everyone = [*dying, *living]
            async with asyncio.TaskGroup() as group:
                gathered = group.create_task(
                    scheduler.gather(
                        *map(get, everyone),
                        expect_bytes=len(BODY),
                        sockets=[writer for _, writer in everyone],
                        return_exceptions=True,
                    )
                )
                await asyncio.sleep(0.01)
                assert not gathered.done()
                await server.drop()
            failed = [isinstance(result, Exception) for result in gathered.result()]
            assert failed == [True] * 3 + [False] * 5
            await until(lambda: scheduler.status().outstanding == 0)
            for _, writer in everyone:
                writer.close()

    run(program)


def test_httpx_says_over_which_connection_a_response_comes() -> None:
    async def program(server: Server) -> None:
        url = f"http://127.0.0.1:{server.port}/"
        peers = [Peer() for _ in range(3)]
        async with contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(httpx.AsyncClient(trust_env=False)) for _ in peers]
            scheduler = await stack.enter_async_context(requests.open(PLAN))

            def fetch(client: httpx.AsyncClient) -> Callable[[requests.Slot], Awaitable[int]]:
                async def fetched(slot: requests.Slot) -> int:
                    async with client.stream("GET", url) as response:
                        slot.use(response)
                        return len(await response.aread())

                return fetched

            for _ in range(2):
                jobs = map(fetch, clients)
                assert await scheduler.gather(*jobs, expect_bytes=len(BODY), sockets=peers) == [len(BODY)] * 3
            ports = {peer.socket.getsockname()[1] for peer in peers if peer.socket is not None}
            assert len(ports) == 3
            # A cancelled request closes its connection, and its credit is there again.
            server.may_finish.clear()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await scheduler.gather(*map(fetch, clients), expect_bytes=len(BODY), sockets=peers)
            await until(lambda: scheduler.status().outstanding == 0)

    run(program)


def test_aiohttp_opens_sockets_that_are_known_by_their_address() -> None:
    async def program(server: Server) -> None:
        url = f"http://127.0.0.1:{server.port}/"
        factory = sockets.SocketFactory()
        connector = aiohttp.TCPConnector(socket_factory=factory, limit=0)
        async with aiohttp.ClientSession(connector=connector) as session, requests.open(PLAN) as scheduler:

            async def fetch(slot: requests.Slot) -> int:
                async with session.get(url) as response:
                    slot.use(response)
                    return len(await response.read())

            for _ in range(3):
                known = factory.to("127.0.0.1", server.port)
                assert await scheduler.gather(fetch, expect_bytes=len(BODY), sockets=[known]) == [len(BODY)]
            sock = factory.to("127.0.0.1", server.port)
            assert sock is not None
            assert sock.getsockopt(socket.IPPROTO_TCP, sockets.TCP_WINDOW_CLAMP) == 8192
            server.may_finish.clear()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await scheduler.gather(fetch, expect_bytes=len(BODY), sockets=[sock])
            await until(lambda: scheduler.status().outstanding == 0)
            assert factory.to("127.0.0.1", server.port) is None
            assert factory.to("127.0.0.1", 1) is None

    run(program)


def test_redis_has_one_connection_per_client_that_waits_for_one_response() -> None:
    async def program(server: Server) -> None:
        client = redis.asyncio.Redis(host="127.0.0.1", port=server.port)
        async with requests.open(PLAN) as scheduler:
            assert sockets.socket_of(client) is None
            for _ in range(3):
                result = await scheduler.gather(client.get("key"), expect_bytes=len(BODY), sockets=[client])
                assert result == [BODY]
            sock = sockets.socket_of(client)
            assert sock is not None
            assert sock.getsockopt(socket.IPPROTO_TCP, sockets.TCP_WINDOW_CLAMP) == 8192
            server.may_finish.clear()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await scheduler.gather(client.get("key"), expect_bytes=len(BODY), sockets=[client])
            await until(lambda: scheduler.status().outstanding == 0)
        await client.aclose()

    run(program)


def test_trio_streams_have_their_sockets() -> None:
    async def program() -> None:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]

        async def serve(stream: trio.SocketStream) -> None:
            while await stream.receive_some(1):
                await stream.send_all(BODY)

        async def fetch() -> int:
            await stream.send_all(b"x")
            received = 0
            while received < len(BODY):
                received += len(await stream.receive_some(65_536))
            return received

        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, serve, listeners)
            async with requests.open(PLAN) as scheduler:
                stream = await trio.open_tcp_stream("127.0.0.1", port)
                for _ in range(3):
                    assert await scheduler.gather(fetch(), expect_bytes=len(BODY), sockets=[stream]) == [len(BODY)]
                assert stream.socket.getsockopt(socket.IPPROTO_TCP, sockets.TCP_WINDOW_CLAMP) == 8192
                # It is given up in mid-response, and closed by nobody: it runs dry.
                with trio.move_on_after(0):
                    await scheduler.gather(fetch(), expect_bytes=len(BODY), sockets=[stream])
                async with scheduler.slot(expect_bytes=len(BODY), socket=stream) as slot:
                    await stream.send_all(b"x")
                    slot.abandon()
                with trio.fail_after(20):
                    while scheduler.status().outstanding:
                        await trio.sleep(0.001)
                await stream.aclose()
            nursery.cancel_scope.cancel()

    trio.run(program)


class Lossy:
    """A scheduler that learns. Loopback loses nothing: what the kernel counts is made up, and all else is real."""

    def __init__(self) -> None:
        self.gaps = self.ahead_ns = 0
        self.state: int | None = None
        self.scheduler = Scheduler(clock=lambda: time.monotonic_ns() + self.ahead_ns)
        self.scheduler._core.ask_in_place_of_kernel(self.info)

    def info(self, fd: int) -> sockets.Info | None:
        """Say what the kernel says, but for what is made up."""
        found = asked_of_kernel(fd, out_of_order_segments=self.gaps)
        return found if found is None or self.state is None else found._replace(state=self.state)

    def rest(self) -> None:
        """Let what is known of the connection become too old."""
        self.ahead_ns += 10_000_001


def test_segments_beyond_a_gap_cut_the_learned_budget() -> None:
    async def program(server: Server) -> None:
        one = Lossy()
        async with one.scheduler as scheduler:
            streams = await asyncio.open_connection("127.0.0.1", server.port)

            async def ask(socket: object) -> None:
                # Two at a time, as less would change nothing for one.
                both = get(streams), asyncio.sleep(0, 0)
                await scheduler.gather(*both, expect_bytes=[len(BODY), 1000], sockets=[socket, None])

            for each in (1, 1, 1, 4, 4):
                await ask(streams[1])
                # A connection may have counted long before.
                assert scheduler.status().cuts == {}
                one.gaps = each
                one.rest()
            peer = Peer(connection=streams[1])
            for each, cuts in ((4, {}), (6, {}), (6, {"out-of-order": 1}), (6, {"out-of-order": 1})):
                await ask(peer)
                assert scheduler.status().cuts == cuts
                one.gaps = each
            streams[1].close()

    run(program)


def over_a_lossy_connection(meanwhile: Callable[[Lossy, Any], Awaitable[None]], raw: bool) -> int:
    """Have two requests over one bare socket, and do something `meanwhile`. Return how many losses they are told of."""
    told = 0

    async def program(server: Server) -> None:
        nonlocal told
        one = Lossy()
        async with one.scheduler as scheduler:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            over = writer.get_extra_info("socket")
            over = over._sock if raw else over
            slots = [scheduler.slot(expect_bytes=1000, socket=over) for _ in range(2)]
            for slot in slots:
                await slot.__aenter__()
            await meanwhile(one, over)
            for slot in slots:
                found = slot._look()
                assert found is not None
                told += slot._take_gaps()
                await slot.__aexit__(None, None, None)
            writer.close()

    run(program)
    return told


@pytest.mark.parametrize("raw", [True, False])
def test_requests_over_one_bare_socket_count_each_loss_once(raw: bool) -> None:
    async def lose(one: Lossy, _: Any) -> None:  # noqa: ANN401
        one.gaps += 3
        one.rest()

    async def withdraw(one: Lossy, over: Any) -> None:  # noqa: ANN401
        await lose(one, over)
        # It finds the loss, and nobody hears of it.
        slot = one.scheduler.slot(expect_bytes=1000, socket=over)
        assert slot._ask() is None
        assert one.scheduler._core.withdraw(slot.request)

    async def give_up(one: Lossy, over: Any) -> None:  # noqa: ANN401
        async with one.scheduler.slot(expect_bytes=1000, socket=over) as slot:
            await lose(one, over)
            slot.abandon()
        assert one.scheduler.status().draining == 1
        one.scheduler._look_at_drains()

    async def use_late(one: Lossy, over: Any) -> None:  # noqa: ANN401
        async with one.scheduler.slot(expect_bytes=1000) as slot:
            pass
        await lose(one, over)
        slot.use(over)
        assert slot._look() is None, "nothing goes over it for that slot any more"

    for meanwhile in (lose, withdraw, give_up, use_late):
        assert over_a_lossy_connection(meanwhile, raw) == 3, meanwhile.__name__


def test_what_was_lost_between_two_requests_does_not_count() -> None:
    async def program(server: Server) -> None:
        one = Lossy()
        async with one.scheduler as scheduler:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            for _ in range(2):
                async with scheduler.slot(expect_bytes=1000, socket=writer) as slot:
                    assert slot._take_gaps() == 0
                async with scheduler.slot(expect_bytes=1000) as slot:
                    slot.use(writer)
                    assert slot._take_gaps() == 0
                one.gaps += 1
                one.rest()
            writer.close()

    run(program)


@pytest.mark.parametrize("over", [lambda writer: writer, Peer], ids=["socket", "peer"])
def test_a_connection_that_was_closed_is_not_held_for_open(over: Over) -> None:
    async def program(server: Server) -> None:
        one = Lossy()
        async with one.scheduler as scheduler:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            place = over(writer)
            async with scheduler.slot(expect_bytes=1000, socket=place) as slot:
                # CLOSE_WAIT: the server has answered, and will not again.
                one.state = 8
            async with scheduler.slot(expect_bytes=1000, socket=place) as slot:
                assert slot._look() is None
            one.state = None
            async with scheduler.slot(expect_bytes=1000, socket=place) as slot:
                assert slot._look() is not None
            writer.close()

    run(program)


def test_a_stall_is_when_nothing_comes_not_when_nobody_looks() -> None:
    now_ns, came_bytes, came_ns = 0, 0, 0

    def made_up(fd: int) -> sockets.Info | None:
        real = asked_of_kernel(fd, last_data_ms=(now_ns - came_ns) // 1_000_000)
        return real and real._replace(received_bytes=real.received_bytes + came_bytes)

    async def program(server: Server) -> None:
        nonlocal now_ns, came_bytes, came_ns
        async with Scheduler(Plan(), clock=lambda: now_ns) as scheduler:
            scheduler._core.ask_in_place_of_kernel(made_up)
            streams = await asyncio.open_connection("127.0.0.1", server.port)
            for _ in range(4):
                async with scheduler.slot(expect_bytes=len(BODY), socket=streams[1]):
                    assert await get(streams) == len(BODY)
                    now_ns += 2_000_000
            slots = [scheduler.slot(expect_bytes=len(BODY), socket=streams[1]) for _ in range(2)]
            for slot in slots:
                await slot.__aenter__()
            # Responses that are under way for long, and of which no byte is told: the timer looks, a little late.
            for idle_ms in (0, 0, 30):
                now_ns += 51_000_000
                came_bytes, came_ns = came_bytes + 10_000, now_ns - idle_ms * 1_000_000
                scheduler._on_timer()
                assert scheduler.status().cuts == {}
            now_ns += 19_000_000
            scheduler._on_timer()
            assert scheduler.status().cuts == {}, "49 ms since the last byte"
            now_ns += 2_000_000
            scheduler._on_timer()
            assert scheduler.status().cuts == {"stall": 1}
            for slot in slots:
                await slot.__aexit__(None, None, None)
            streams[1].close()

    run(program)


@pytest.mark.parametrize(
    ("plan", "kept", "rests_ms", "asked"),
    [
        (PLAN, False, 0, 3),
        (PLAN, True, 0, 4),
        (Plan(), False, 10, 4),
        (Plan(), False, 10.001, 6),
        (Plan(), True, 10.001, 4),
    ],
)
def test_the_kernel_is_asked_only_what_somebody_wants_to_know(
    plan: Plan, kept: bool, rests_ms: float, asked: int
) -> None:
    questions, now_ns = 0, 0

    def counted(fd: int) -> sockets.Info | None:
        nonlocal questions
        questions += 1
        return asked_of_kernel(fd)

    async def program(server: Server) -> None:
        nonlocal now_ns
        # With time within a request it would also be asked whether that has been sent (`Unsent`), once a millisecond.
        async with Scheduler(plan, clock=lambda: now_ns) as scheduler:
            scheduler._core.ask_in_place_of_kernel(counted)
            streams = await asyncio.open_connection("127.0.0.1", server.port)
            over = Peer(streams[1]) if kept else streams[1]
            for _ in range(3):
                async with scheduler.slot(expect_bytes=len(BODY), socket=over):
                    assert await get(streams) == len(BODY)
                now_ns += round(rests_ms * 1_000_000)
            assert questions == asked
            streams[1].close()

    run(program)


def test_a_window_is_limited_again_only_when_more_has_come() -> None:
    async def program(server: Server) -> None:
        streams = await asyncio.open_connection("127.0.0.1", server.port)
        await get(streams)
        sock = sockets.socket_of(streams[1])
        assert sock is not None
        peer = Peer(sock)
        async with requests.open(PLAN) as scheduler:
            # Until more comes, the connection announces what it did.
            for _ in range(2):
                async with scheduler.slot(socket=peer):
                    pass
                assert scheduler._core.windows_limited() == 1
                # As the kernel does where it may make the buffer larger.
                sockets.limit_window(sock, None)
            async with scheduler.slot(socket=peer):
                await get(streams)
            assert scheduler._core.windows_limited() == 2
        streams[1].close()

    run(program)


def test_a_limit_of_the_window_can_be_lifted() -> None:
    async def program(server: Server) -> None:
        streams = await asyncio.open_connection("127.0.0.1", server.port)
        await get(streams)
        sock = sockets.socket_of(streams[1])
        assert sock is not None
        assert sockets.limit_window(sock, 8192)
        for _ in range(20):
            await get(streams)
        limited = sockets.info(sock)
        assert limited is not None
        assert limited.window_bytes is not None
        assert limited.window_bytes <= 8192
        assert sockets.limit_window(sock, None)
        for _ in range(20):
            await get(streams)
        free = sockets.info(sock)
        assert free is not None
        assert free.window_bytes is not None
        assert free.window_bytes > 32_768
        streams[1].close()

    run(program)


def test_what_is_no_connection_has_no_socket() -> None:
    assert sockets.socket_of(None) is None
    assert sockets.socket_of(object()) is None
    with socket.socket(socket.AF_UNIX) as unix:
        assert sockets.socket_of(unix) is unix
        assert sockets.info(unix) is None
        assert not sockets.limit_window(unix, 8192)
    closed = socket.socket()
    closed.close()
    assert sockets.info(closed) is None
    assert sockets.is_closed(closed)


@pytest.mark.parametrize("thing", ["http://10.0.0.7/", b"10.0.0.7", 7, ("10.0.0.7", 80)])
def test_what_never_has_a_connection_is_refused(thing: object) -> None:
    async def program(server: Server) -> None:
        streams = await asyncio.open_connection("127.0.0.1", server.port)
        async with requests.open(PLAN) as scheduler:
            with pytest.raises(TypeError, match="expected a socket, a Peer"):
                Peer(thing)
            with pytest.raises(TypeError, match="expected a socket, a Peer"):
                async with scheduler.slot(expect_bytes=len(BODY), socket=thing):
                    pass
            with pytest.raises(TypeError, match="expected a socket, a Peer"):
                await scheduler.gather(get(streams), expect_bytes=len(BODY), sockets=[thing])
            async with scheduler.slot(expect_bytes=len(BODY)) as slot:
                with pytest.raises(TypeError, match="expected a socket, a Peer"):
                    slot.use(thing)
            # Nothing is left of the requests.
            status = scheduler.status()
            assert (status.asked, status.outstanding, status.waiting, status.in_use_bytes) == (1, 0, 0, 0)
            assert sockets.socket_of(streams[0]) is sockets.socket_of(streams[1]) is not None
        streams[1].close()

    run(program)


def test_in_what_steps_windows_are_announced_is_read_of_this_end() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.socket()
    # So that it needs no scale, in contrast to the other end.
    client.setsockopt(socket.IPPROTO_TCP, sockets.TCP_WINDOW_CLAMP, 65_535)
    client.connect(listener.getsockname())
    server, _ = listener.accept()
    with listener, client, server:
        units = [known and known.window_unit_bytes for known in map(sockets.info, (client, server))]
    assert units[0] == 1
    assert units[1] is not None
    assert units[1] > 1


def test_streams_of_anyio_have_their_sockets() -> None:
    async def program() -> None:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        port = listener.extra_attributes[anyio.abc.SocketAttribute.local_port]
        stream = await anyio.connect_tcp("127.0.0.1", port())
        found = sockets.socket_of(stream)
        assert found is not None
        assert found.fileno() == stream.extra_attributes[anyio.abc.SocketAttribute.raw_socket]().fileno()
        await stream.aclose()
        await listener.aclose()

    for backend in ("asyncio", "trio"):
        anyio.run(program, backend=backend)


def test_the_kernel_puts_its_numbers_where_they_are_read() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    server, _ = listener.accept()
    with listener, client, server:
        before = sockets.info(client)
        assert before is not None
        assert (before.received_bytes, before.out_of_order_segments, before.state) == (0, 0, 1)
        for size in (1, 1000, 30_000):
            server.sendall(bytes(size))
            assert len(client.recv(size, socket.MSG_WAITALL)) == size
        after = sockets.info(client)
        assert after is not None
        assert after.received_bytes == 31_001
        assert after.last_data_ms < 10_000
        assert after.window_bytes is not None
        assert 0 < after.window_bytes < 1 << 24
        server.close()
        client.recv(1)
        assert sockets.is_closed(client)


def test_with_a_port_alone_it_is_found_out_how_long_servers_think() -> None:
    """40 servers think for 50 ms and send 2,000 bytes; ten fit at a time. All take the link 87 ms."""
    now_ns = 1_000_000_000_000

    async def program() -> None:
        nonlocal now_ns
        answered, thinking = 0, dict[int, tuple[int, asyncio.Event]]()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await reader.read(1):
                writer.write(bytes(2000))
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        connections = [await asyncio.open_connection(*server.sockets[0].getsockname()[:2]) for _ in range(40)]

        async def ask(number: int) -> None:
            nonlocal answered
            reader, writer = connections[number]
            thinking[number] = (now_ns + 50_000_000, begins := asyncio.Event())
            await begins.wait()
            writer.write(b"x")
            assert len(await reader.readexactly(2000)) == 2000
            answered += 1

        async def query(scheduler: Scheduler) -> int:
            """Ask all; return how many milliseconds pass meanwhile."""
            nonlocal now_ns, answered
            answered, begun, asked_ns = 0, 0, now_ns
            peers = [Peer(writer) for _, writer in connections]
            asked = asyncio.ensure_future(
                scheduler.gather(*map(ask, range(40)), expect_bytes=2000, sockets=peers),
            )
            while not asked.done():
                for number in [number for number, (until_ns, _) in thinking.items() if until_ns <= now_ns]:
                    thinking.pop(number)[1].set()
                    begun += 1
                while answered < begun:
                    await asyncio.sleep(0)
                for _ in range(5):
                    await asyncio.sleep(0)
                now_ns += 1_000_000
                scheduler._on_timer()
            await asked
            return (now_ns - asked_ns) // 1_000_000

        plan = Plan(port=Port(rate_bps=8_000_000, buffer_bytes=28_600))
        async with requests.open(plan, clock=lambda: now_ns) as scheduler:
            took_ms = [await query(scheduler) for _ in range(12)]
            assert took_ms[0] >= 200, "ten at a time"
            assert took_ms[-1] < 150, took_ms
            assert scheduler.status().think_ms > 0
        for _, writer in connections:
            writer.close()
            await writer.wait_closed()
        server.close()
        await server.wait_closed()

    asyncio.run(program())
