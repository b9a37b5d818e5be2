"""The scheduler over real sockets to servers that die, stall, and answer too much or too little."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from dataclasses import replace

import pytest

import soak
from fan_in import unruly
from incast import requests
from incast.requests import Peer, Plan, Port

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="LEFT OUT: only Linux says what sockets have seen")

# Some fit at a time, also into a budget that was cut: a stall holds its own part, not the others.
SIZE_BYTES = 3000
FIXED, LEARNED = Plan(budget_bytes=10_000), Plan()
# As most programs have it: it also finds out how long servers think.
OF_PORT = Plan(port=Port(rate_bps=10**9, buffer_bytes=16_384))


@pytest.mark.parametrize("plan", [FIXED, LEARNED, OF_PORT], ids=["fixed", "learned", "of a port"])
@pytest.mark.parametrize("way", unruly.WAYS[1:])
def test_one_bad_server_costs_neither_the_others_nor_any_credit(way: str, plan: Plan) -> None:
    async def program() -> None:
        async with contextlib.AsyncExitStack() as stack:
            servers = [await stack.enter_async_context(unruly.Server().running()) for _ in range(5)]
            clients = [unruly.Client(server.port) for server in servers]
            peers = [Peer() for _ in clients]
            scheduler = await stack.enter_async_context(requests.open(plan))
            bad = clients[2]
            others = {0, 1, 3, 4}

            async def query(bad_way: str) -> list[object]:
                ended: set[int] = set()

                async def asked(slot: requests.Slot, number: int) -> int:
                    way_here = bad_way if clients[number] is bad else "well"
                    try:
                        return await clients[number].fetch(SIZE_BYTES, way_here)(slot)
                    finally:
                        ended.add(number)

                jobs = [lambda slot, number=number: asked(slot, number) for number in range(5)]
                gather = scheduler.gather(*jobs, expect_bytes=SIZE_BYTES, sockets=peers, return_exceptions=True)
                gathered = asyncio.ensure_future(gather)
                # A server that stalls holds its own part only: the others end beside it, and then somebody gives it up.
                while bad_way == "stalls" and not others <= ended:
                    await asyncio.sleep(0.001)
                if bad_way == "stalls":
                    assert not gathered.done()
                    bad.close()
                return list(await gathered)

            for _ in range(2):
                found = await query(way)
                assert [found[number] for number in sorted(others)] == [SIZE_BYTES] * 4
                assert isinstance(found[2], asyncio.IncompleteReadError | ConnectionError), found[2]
                while scheduler.status().outstanding:
                    await asyncio.sleep(0.001)
                status = scheduler.status()
                assert (status.in_use_bytes, status.waiting, status.draining) == (0, 0, 0)
                # It has recovered.
                assert await query("well") == [SIZE_BYTES] * 5
            assert scheduler.status().failed == 2
            for client in clients:
                client.close()

    async def bounded() -> None:
        async with asyncio.timeout(60):
            await program()

    asyncio.run(bounded())


@pytest.mark.parametrize("plan", [FIXED, LEARNED, OF_PORT], ids=["fixed", "learned", "of a port"])
def test_a_short_soak_leaves_nothing_behind(plan: Plan) -> None:
    samples = asyncio.run(soak.soak(lambda queries: queries < 60, lambda queries: queries % 10 == 0, plan, 0, 1))
    assert [sample.queries for sample in samples] == [10, 20, 30, 40, 50, 60]
    assert samples[-1].failed > 20
    soak.judge(samples, rss=False)


def test_what_grows_is_found() -> None:
    sample = soak.Sample(1.0, 10, 150, 10, 10**8, 50, 16, 0, 0)
    soak.judge([sample] * 4, rss=True)
    with pytest.raises(ValueError, match="found 3 samples, expected at least 4"):
        soak.judge([sample] * 3, rss=True)
    for grown, what in (
        (replace(sample, rss_bytes=103 * 10**6), "memory"),
        (replace(sample, descriptors=83), "descriptors"),
        (replace(sample, tasks=33), "tasks"),
        (replace(sample, in_use_bytes=1), "credit"),
        (replace(sample, remembered=1), "credit"),
    ):
        with pytest.raises(soak.Grew, match=what):
            soak.judge([sample] * 3 + [grown], rss=True)
