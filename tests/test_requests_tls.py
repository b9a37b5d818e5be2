"""The scheduler with TLS: windows stay limited after a handshake, and little more than the responses arrives."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
from dataclasses import dataclass

import httpx
import pytest
import trio
import trustme

from fan_in import unruly
from incast import requests
from incast.requests import Decision, Peer, Plan, sockets

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


def test_httpx_says_over_which_connection_a_response_comes_under_tls(certificates: Certificates) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readline():
            while await reader.readline() != b"\r\n":
                pass
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY)
        writer.close()

    async def program() -> None:
        server = await asyncio.start_server(answer, sock=unruly.listener(), ssl=certificates.server)
        url = f"https://localhost:{server.sockets[0].getsockname()[1]}/"
        peer = Peer()
        async with (
            asyncio.timeout(60),
            server,
            httpx.AsyncClient(trust_env=False, verify=certificates.client) as client,
            requests.open(PLAN) as scheduler,
        ):

            async def fetch(slot: requests.Slot) -> int:
                async with client.stream("GET", url) as response:
                    slot.use(response)
                    return len(await response.aread())

            for _ in range(3):
                assert await scheduler.gather(fetch, expect_bytes=len(BODY), sockets=[peer]) == [len(BODY)]
            assert peer.socket is not None
            assert peer.socket.getsockopt(socket.IPPROTO_TCP, sockets.TCP_WINDOW_CLAMP) == 8192

    asyncio.run(program())
