"""The scheduler with TLS and HTTP/2.

Windows stay limited after a handshake, and little more than the responses arrives. All streams of HTTP/2 to a server
share one connection, and one window.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import aiohttp
import h2.config
import h2.connection
import h2.events
import httpx
import pytest
import trio
import trustme

import incast_requests.scheduler
from fan_in import clients, servers, unruly
from fan_in.cells import Cell
from incast import requests
from incast.requests import Decision, Peer, Plan, Slot, sockets

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="LEFT OUT: only Linux says what sockets have seen")

PLAN = Plan(budget_bytes=50_000, window_bytes=8192)
BODY = bytes(40_000)
# Tickets for later connections come with the first response. A record of at most 16 KB has 22 bytes of its own.
QUERIES, TICKETS_BYTES, OVERHEAD = 12, 2000, 0.01


@dataclass(frozen=True)
class Certificates:
    """Of a server, and of who knows it."""

    server: ssl.SSLContext
    client: ssl.SSLContext


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    authority = trustme.CA()
    server, client = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(server)
    authority.configure_trust(client)
    server.set_alpn_protocols(["h2", "http/1.1"])
    return Certificates(server, client)


def judge(sock: socket.socket, after_handshake: sockets.Info, decisions: list[Decision]) -> None:
    found = sockets.info(sock)
    assert found is not None
    assert sock.getsockopt(socket.IPPROTO_TCP, sockets.TCP_WINDOW_CLAMP) == 8192
    assert found.window_bytes is not None
    assert found.window_bytes <= 8192
    costs = [decision.cost_bytes for decision in decisions if decision.kind == "granted"]
    assert costs[-1] == 8192
    # The handshake has brought data, so that the window is limited before the first request.
    assert after_handshake.received_bytes > 0
    received = found.received_bytes - after_handshake.received_bytes
    assert QUERIES * len(BODY) < received < (1 + OVERHEAD) * QUERIES * len(BODY) + TICKETS_BYTES


def limited_before_the_first_request(sock: socket.socket) -> sockets.Info:
    assert sock.getsockopt(socket.IPPROTO_TCP, sockets.TCP_WINDOW_CLAMP) == 8192
    found = sockets.info(sock)
    assert found is not None
    return found


def test_windows_stay_limited_under_tls_of_asyncio(certificates: Certificates) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1):
            writer.write(BODY)
        writer.close()

    async def program() -> None:
        server = await asyncio.start_server(answer, sock=unruly.listener(), ssl=certificates.server)
        port = server.sockets[0].getsockname()[1]
        decisions: list[Decision] = []
        async with server, requests.open(PLAN, on_decision=decisions.append) as scheduler:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=certificates.client, server_hostname="localhost"
            )
            sock = sockets.socket_of(writer)
            assert sock is not None
            seen: list[sockets.Info] = []

            async def fetch() -> int:
                if not seen:
                    seen.append(limited_before_the_first_request(sock))
                writer.write(b"x")
                return len(await reader.readexactly(len(BODY)))

            for _ in range(QUERIES):
                assert await scheduler.gather(fetch(), expect_bytes=len(BODY), sockets=[writer]) == [len(BODY)]
            judge(sock, seen[0], decisions)
            # It is given up, and closed by nobody.
            async with scheduler.slot(expect_bytes=len(BODY), socket=writer) as slot:
                writer.write(b"x")
                slot.abandon()
            assert scheduler.status().draining == 1
            await reader.readexactly(len(BODY))
            while scheduler.status().outstanding:
                await asyncio.sleep(0.001)
            writer.close()
            await writer.wait_closed()

    async def bounded() -> None:
        async with asyncio.timeout(60):
            await program()

    asyncio.run(bounded())


def test_windows_stay_limited_under_tls_of_trio(certificates: Certificates) -> None:
    async def program() -> None:
        listening = trio.SocketListener(trio.socket.from_stdlib_socket(unruly.listener()))
        port = listening.socket.getsockname()[1]

        async def answer(stream: trio.SocketStream) -> None:
            secure = trio.SSLStream(stream, certificates.server, server_side=True, https_compatible=True)
            async with secure:
                while await secure.receive_some(1):
                    await secure.send_all(BODY)

        decisions: list[Decision] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, answer, [listening])
            async with requests.open(PLAN, on_decision=decisions.append) as scheduler:
                stream = trio.SSLStream(
                    await trio.open_tcp_stream("127.0.0.1", port),
                    certificates.client,
                    server_hostname="localhost",
                    https_compatible=True,
                )
                await stream.do_handshake()
                sock = sockets.socket_of(stream)
                assert sock is not None
                seen: list[sockets.Info] = []

                async def fetch() -> int:
                    if not seen:
                        seen.append(limited_before_the_first_request(sock))
                    await stream.send_all(b"x")
                    received = 0
                    while received < len(BODY):
                        received += len(await stream.receive_some(65_536))
                    return received

                for _ in range(QUERIES):
                    assert await scheduler.gather(fetch(), expect_bytes=len(BODY), sockets=[stream]) == [len(BODY)]
                judge(sock, seen[0], decisions)
                await stream.aclose()
            nursery.cancel_scope.cancel()

    async def bounded() -> None:
        with trio.fail_after(60):
            await program()

    trio.run(bounded)


class Server(unruly.Server):
    """Answers GETs of HTTP/1.1 with 40,000 bytes, over TLS. The second half waits until it may come."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(self._answer_gets, context)
        self.may_finish = asyncio.Event()
        self.may_finish.set()

    async def _answer_gets(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readline():
            while await reader.readline() != b"\r\n":
                pass
            half = len(BODY) // 2
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY[:half])
            await self.may_finish.wait()
            writer.write(BODY[half:])
            await writer.drain()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


def run(program: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await program()

    asyncio.run(bounded())


def test_httpx_says_over_which_connection_a_response_comes_under_tls(certificates: Certificates) -> None:
    async def program() -> None:
        peer = Peer()
        async with (
            Server(certificates.server).running() as server,
            httpx.AsyncClient(trust_env=False, verify=certificates.client) as client,
            requests.open(PLAN) as scheduler,
        ):

            async def fetch(slot: Slot) -> int:
                async with client.stream("GET", f"https://localhost:{server.port}/") as response:
                    slot.use(response)
                    return len(await response.aread())

            for _ in range(3):
                assert await scheduler.gather(fetch, expect_bytes=len(BODY), sockets=[peer]) == [len(BODY)]
            assert peer.socket is not None
            assert peer.socket.getsockopt(socket.IPPROTO_TCP, sockets.TCP_WINDOW_CLAMP) == 8192

    run(program)


def test_aiohttp_opens_sockets_that_are_known_by_their_address_under_tls(certificates: Certificates) -> None:
    async def program() -> None:
        factory = sockets.SocketFactory()
        async with (
            Server(certificates.server).running() as server,
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(socket_factory=factory, limit=0, ssl=certificates.client)
            ) as session,
            requests.open(PLAN) as scheduler,
        ):

            async def fetch() -> int:
                async with session.get(f"https://localhost:{server.port}/") as response:
                    return len(await response.read())

            for _ in range(3):
                known = factory.to("127.0.0.1", server.port)
                assert await scheduler.gather(fetch(), expect_bytes=len(BODY), sockets=[known]) == [len(BODY)]
            assert known is not None
            assert known.getsockopt(socket.IPPROTO_TCP, sockets.TCP_WINDOW_CLAMP) == 8192
            # A cancelled request closes its connection, and its credit is there again.
            server.may_finish.clear()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await scheduler.gather(fetch(), expect_bytes=len(BODY), sockets=[known])
            await until(lambda: scheduler.status().outstanding == 0)
            assert factory.to("127.0.0.1", server.port) is None

    run(program)


# HTTP/2: streams share a connection.


class Multiplexing(Server):
    """Waits until `answers_from` HTTP/2 streams are open, then sends each 40,000 bytes, or half of them and a reset."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(context)
        self._answer = self._answer_streams
        self.connections = self.asked = self.most_open = self.sent_bytes = 0
        self.answers_from = 1

    async def _answer_streams(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        to = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        to.initiate_connection()
        asked: dict[int, bytes] = {}
        while True:
            writer.write(to.data_to_send())
            await writer.drain()
            received = await reader.read(65_536)
            if not received:
                break
            for event in to.receive_data(received):
                if isinstance(event, h2.events.RequestReceived):
                    assert event.stream_id is not None
                    asked[event.stream_id] = dict(event.headers or [])[b":path"]
                    self.asked += 1
            self.most_open = max(self.most_open, len(asked))
            if len(asked) >= self.answers_from:
                while asked:
                    self._respond(to, *asked.popitem())

    def _respond(self, to: h2.connection.H2Connection, stream: int, path: bytes) -> None:
        to.send_headers(stream, [(":status", "200")])
        wanted = len(BODY) if path == b"/" else len(BODY) // 2
        for begin in range(0, wanted, to.max_outbound_frame_size):
            part = BODY[begin : min(begin + to.max_outbound_frame_size, wanted)]
            # httpx lets 16 MB come before it wants to be asked.
            to.send_data(stream, part)
            self.sent_bytes += len(part)
        if path == b"/":
            to.end_stream(stream)
        else:
            to.reset_stream(stream)


@dataclass
class Multiplexed:
    """A client of one server over HTTP/2, and what the scheduler decided."""

    server: Multiplexing
    client: httpx.AsyncClient
    scheduler: requests.Scheduler
    decisions: list[Decision]
    peer: Peer

    def fetch(self, path: str) -> Callable[[Slot], Awaitable[int]]:
        """Return a request: its result is the size of the response."""

        async def fetched(slot: Slot) -> int:
            async with self.client.stream("GET", f"https://localhost:{self.server.port}{path}") as response:
                slot.use(response)
                assert response.http_version == "HTTP/2"
                return len(await response.aread())

        return fetched

    async def gather(self, *paths: str) -> list[int | BaseException]:
        """Return the sizes of the responses, or errors."""
        return await self.scheduler.gather(
            *map(self.fetch, paths),
            expect_bytes=len(BODY),
            sockets=[self.peer] * len(paths),
            return_exceptions=True,
        )

    async def use_up_what_was_announced_before(self) -> None:
        """Ask until the limited window is all that is announced."""
        for _ in range(QUERIES):
            assert await self.gather("/") == [len(BODY)]


@contextlib.asynccontextmanager
async def multiplexed(certificates: Certificates) -> AsyncIterator[Multiplexed]:
    decisions: list[Decision] = []
    async with (
        Multiplexing(certificates.server).running() as server,
        httpx.AsyncClient(trust_env=False, verify=certificates.client, http2=True) as client,
        requests.open(PLAN, on_decision=decisions.append) as scheduler,
    ):
        assert isinstance(server, Multiplexing)
        yield Multiplexed(server, client, scheduler, decisions, Peer())


def test_streams_of_http2_share_a_connection_whose_window_is_set_once_and_the_budget_holds(
    certificates: Certificates,
) -> None:
    async def program() -> None:
        async with multiplexed(certificates) as one:
            await one.use_up_what_was_announced_before()
            sock = one.peer.socket
            assert sock is not None
            # Each stream costs a window, though they have one together: six fit into the budget.
            one.server.answers_from = 6
            assert await one.gather(*["/"] * 18) == [len(BODY)] * 18
            assert (one.server.connections, one.server.most_open) == (1, 6)
            assert max(decision.in_use_bytes for decision in one.decisions) == 6 * 8192 <= 50_000
            assert one.peer.socket is sock
            assert one.scheduler._core.windows_limited() == 1
            assert sock.getsockopt(socket.IPPROTO_TCP, sockets.TCP_WINDOW_CLAMP) == 8192
            found = sockets.info(sock)
            assert found is not None
            assert found.window_bytes is not None
            assert found.window_bytes <= 8192

    run(program)


@pytest.mark.parametrize("end", ["reset", "cancelled"])
def test_a_stream_that_ends_early_returns_its_credit_and_its_connection_stays(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    # Silent for so long means dry: a second otherwise.
    monkeypatch.setattr(incast_requests.scheduler, "_QUIET_NS", 20_000_000)

    async def program() -> None:
        async with multiplexed(certificates) as one:
            await one.use_up_what_was_announced_before()
            one.decisions.clear()
            if end == "reset":
                [error] = await one.gather("/reset")
                assert isinstance(error, httpx.RemoteProtocolError)
            else:
                one.server.answers_from = 2
                asking = asyncio.create_task(one.gather("/"))
                await until(lambda: one.server.asked == QUERIES + 1)
                asking.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asking
            await until(lambda: one.scheduler.status().outstanding == 0)
            assert [decision.kind for decision in one.decisions] == ["granted", "draining", "returned"]
            assert one.scheduler.status().in_use_bytes == 0
            # What httpx no longer wants it does not reset: with the next response it comes as well.
            sent = one.server.sent_bytes
            assert await one.gather("/") == [len(BODY)]
            assert one.server.sent_bytes - sent == (1 if end == "reset" else 2) * len(BODY)
            assert one.server.connections == 1

    run(program)


def test_bytes_of_streams_that_share_a_connection_count_once(certificates: Certificates) -> None:
    async def program() -> None:
        async with multiplexed(certificates) as one:
            await one.use_up_what_was_announced_before()
            core = one.scheduler._core
            before_bytes = core.received_bytes()
            one.server.answers_from = 6
            assert await one.gather(*["/"] * 18) == [len(BODY)] * 18
            assert (
                18 * len(BODY) < core.received_bytes() - before_bytes < (1 + OVERHEAD) * 18 * len(BODY) + TICKETS_BYTES
            )

    run(program)


def test_the_client_of_the_grids_refuses_a_server_without_http2(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def program() -> None:
        certificates.server.set_alpn_protocols(["http/1.1"])
        async with Server(certificates.server).running() as server:
            monkeypatch.setattr(clients, "address", lambda _: "127.0.0.1")
            monkeypatch.setitem(servers.PORTS, "nginx-h2", server.port)
            client = clients.of(Cell("nginx-h2", "httpx", 1, 8, 64))
            with pytest.raises(clients.BadAnswerError, match=r"nginx-h2 answered by HTTP/1.1, expected HTTP/2"):
                await client.fetch(0, len(BODY))
            await client.close()

    run(program)
    certificates.server.set_alpn_protocols(["h2", "http/1.1"])
