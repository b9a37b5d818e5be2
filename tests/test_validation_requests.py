"""The validation of the request scheduler without root and without namespaces: what is read, asked, judged, refused."""

from __future__ import annotations

import asyncio
import io
import json
import math
import re
import shutil
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import validate_requests
from fan_in import asking, campaign, cells, clients, dctcp, judging, measuring, policies, report, servers
from fan_in.cells import BadGridError, Cell
from fan_in.gradient import Gradient
from kernel_world.namespaces import UnavailableError

RULES = judging.read_rules()
CELL = Cell("echo", "streams", 10, 32, 64)
GRID = cells.Grid(5, (CELL,))
GRIDS = {name: cells.read(validate_requests.HERE / f"{name}.toml") for name in validate_requests.grids()}
IDLE = {
    "client_waiting": 0.001, "client_wait_us": 1.0, "servers_waiting": 0.001, "servers_wait_us": 1.0,
    "softirq_waiting": 0.01, "softirq_wait_us": 50.0, "stolen": 0.0,
}  # fmt: skip


def found(goodput: float = 95.0, cell: Cell = CELL, timeouts: int = 0, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a repetition as the harness keeps it: its queries take equally long."""
    query_s = sum(cell.sizes) * 8e-6 / goodput
    return {
        "found": {
            "queries_s": [query_s] * cell.queries,
            "responses_s": [query_s * (worker + 1) / cell.workers for worker in range(cell.workers)],
            "warm_up_s": [query_s],
            "timeouts": [timeouts] + [0] * (cell.queries - 1),
            "probes": [2] + [0] * (cell.queries - 1),
            "retransmitted": 3, "drops": 4, "long_bytes": 0, "largest_window_bytes": 6144, "elapsed_s": 1.0,
            "state": {}, "quality": IDLE, **more,
        },
        "refused": [],
    }  # fmt: skip


def row(policy: str, repetition: int = 0, goodput: float = 95.0, cell: Cell = CELL, timeouts: int = 0) -> judging.Row:
    return judging.row(cell, policy, repetition, found(goodput, cell, timeouts))


def rows(cell: Cell = CELL, repetitions: int = 5, **goodput: float) -> list[judging.Row]:
    """Return all repetitions of a cell; policies have 95 Mbit/s where nothing else is said."""
    return [
        row(policy, repetition, goodput.get(policy, 95.0), cell)
        for policy in cells.USUAL
        for repetition in range(repetitions)
    ]


def verdicts(of: list[judging.Row]) -> dict[tuple[str, str], bool]:
    judged = judging.judge(judging.places(of, RULES), RULES)
    return {(one.rule, one.policy): one.holds for one in judged}


# What is read.


def test_lists_in_a_grid_are_all_their_combinations(tmp_path: Path) -> None:
    file = tmp_path / "grid.toml"
    file.write_text(
        'repetitions = 5\n[[cells]]\nserver = "redis"\nclient = "redis"\nworkers = [2, 4]\nsize_kb = [8, "mixed"]\n'
        "buffer_kb = 64\nprobes = [true, false]\n",
        encoding="utf-8",
    )
    grid = cells.read(file)
    assert len(grid.cells) == 8
    assert Cell("redis", "redis", 4, "mixed", 64, probes=False) in grid.cells


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("repetitions = 1", "repetitions: found 1, expected a whole number of at least 2"),
        ("cells = []", "expected entries"),
        ('server = "apache"', "cells 1: server: found 'apache', expected one of nginx, nginx-uncorked, nginx-tls"),
        ('client = "httpx"', "cells 1: client: found 'httpx', expected streams or tokio for echo"),
        ("workers = 91", "cells 1: workers: found 91, expected a whole number from 1 to 90"),
        ("workers = true", "cells 1: workers: found True"),
        ("size_kb = 0.5", "cells 1: size_kb: found 0.5, expected a whole number from 1 to 1000"),
        ('size_kb = "large"', "cells 1: size_kb: found 'large'"),
        ("burst_bytes = 100", "cells 1: burst_bytes: found 100, expected a whole number from 1514"),
        ('control = "vegas"', "cells 1: control: found 'vegas', expected one of cubic, reno, bbr"),
        ("probes = 1", "cells 1: probes: found 1, expected true or false"),
        ("colour = 1", "cells 1: unknown key 'colour'"),
        ("streams = 2", "cells 1: streams: only 'nginx-h2' has several on a connection, found 'echo'"),
        ("workers = [2, 2]", "cells 1: echo (streams), N = 2, 8 KB, buffer 64 KB is there already, in cells 1"),
        ('policies = ["planned", "all"]', "policies: found ['planned', 'all'], expected 'all' and others of all, "),
        ("workers =", "Invalid value"),
    ],
)
def test_a_grid_that_cannot_be_measured_is_refused_by_name(tmp_path: Path, change: str, says: str) -> None:
    key = change.partition(" ")[0]
    lines = {"server": '"echo"', "client": '"streams"', "workers": "2", "size_kb": "8", "buffer_kb": "64"}
    entry = [change if name == key else f"{name} = {value}" for name, value in lines.items()]
    head = change if key in {"repetitions", "cells"} else "repetitions = 5"
    if key == "policies":
        head += f"\n{change}"
    if key in {"colour", "control", "probes", "burst_bytes", "streams"}:
        entry.append(change)
    file = tmp_path / "grid.toml"
    file.write_text("\n".join([head] if key == "cells" else [head, "[[cells]]", *entry]), encoding="utf-8")
    with pytest.raises(BadGridError) as error:
        cells.read(file)
    assert says in str(error.value) or key == "cells"
    assert str(file) in str(error.value)


@pytest.mark.parametrize(
    ("client", "policy"), [("tokio", "ars"), ("tokio", "gradient"), ("streams", "tower"), ("hyper-pool", "clamp")]
)
def test_a_policy_that_a_client_has_not_is_refused(tmp_path: Path, client: str, policy: str) -> None:
    file = tmp_path / "grid.toml"
    server = "nginx" if client == "hyper-pool" else "echo"
    cell = f'[[cells]]\nserver = "{server}"\nclient = "{client}"\nworkers = 2\nsize_kb = 8\nbuffer_kb = 64\n'
    file.write_text(f'repetitions = 5\npolicies = ["all", "{policy}"]\n{cell}', encoding="utf-8")
    with pytest.raises(BadGridError, match=f"cells 1: client: '{client}' has no policy '{policy}'"):
        cells.read(file)


def test_a_sample_is_drawn_by_its_seed_alone(tmp_path: Path) -> None:
    whole = GRIDS["full"].cells
    drawn = [cell for cell in whole if cell in GRIDS["sample"].cells]
    assert (len(drawn), tuple(drawn)) == (20, GRIDS["sample"].cells)
    shutil.copy(validate_requests.HERE / "full.toml", tmp_path)
    file = tmp_path / "grid.toml"
    file.write_text('repetitions = 5\ncells_of = "full"\nsample = { cells = 20, seed = 2 }\n', encoding="utf-8")
    assert set(cells.read(file).cells) != set(drawn)
    for sample in ("24", "{ cells = 24 }", "{ cells = 0, seed = 1 }", "{ cells = 24, seed = 1, more = 1 }"):
        file.write_text(f'repetitions = 5\ncells_of = "full"\nsample = {sample}\n', encoding="utf-8")
        with pytest.raises(BadGridError, match="sample: "):
            cells.read(file)


def test_the_client_in_rust_is_told_of_a_policy_by_the_numbers_of_the_others() -> None:
    planned = {"rate_bps": 100_000_000, "buffer_bytes": 65_536, "window_bytes": 4 * cells.MSS_BYTES}
    for policy in ("planned", "told", "think-learned"):
        assert policies.in_rust(policy, replace(CELL, window_segments=4)) == {policy: planned}
    assert policies.in_rust("learned", CELL) == {"learned": {"window_bytes": None}}
    # One response of 32 KB fits into 70 % of 64 KB.
    assert policies.in_rust("tower", CELL) == {"tower": {"requests": 1}}
    assert policies.in_rust("bytes", CELL) == {"bytes": {"budget_bytes": 45_871}}


def test_a_grid_has_the_cells_of_one_beside_it(tmp_path: Path) -> None:
    entry = '[[cells]]\nserver = "echo"\nclient = "streams"\nworkers = 2\nsize_kb = 8\nbuffer_kb = 64\n'
    (tmp_path / "one.toml").write_text(f"repetitions = 5\n{entry}", encoding="utf-8")
    file = tmp_path / "grid.toml"
    head = 'repetitions = 3\npolicies = ["all", "learned"]\n'
    file.write_text(f'{head}cells_of = "one"\n', encoding="utf-8")
    assert cells.read(file) == cells.Grid(3, (Cell("echo", "streams", 2, 8, 64),), ("all", "learned"))
    file.write_text(f'{head}cells_of = "one"\n{entry}', encoding="utf-8")
    with pytest.raises(BadGridError, match=r"grid.toml: cells_of: there are entries \[\[cells\]\] as well"):
        cells.read(file)
    file.write_text(f'{head}cells_of = "two"\n', encoding="utf-8")
    with pytest.raises(BadGridError, match=r"grid.toml: cells_of: 'two' is no grid beside it"):
        cells.read(file)


def test_a_grid_may_have_only_some_cells_of_another() -> None:
    everywhere, full = GRIDS["everywhere"].cells, GRIDS["full"].cells
    assert everywhere == tuple(cell for cell in full if not cell.long_flows)


@pytest.mark.parametrize(
    ("only", "says"),
    [
        ("3", "only: found 3, expected values of asks, buffer_kb, burst_bytes, client, "),
        ("{}", "only: found {}, expected values of "),
        ("{ worker = 3 }", "only: found {'worker': 3}, expected values of "),
        ("{ workers = 3 }", "only: no cell has {'workers': 3}"),
    ],
)
def test_what_only_some_cells_are_is_checked(tmp_path: Path, only: str, says: str) -> None:
    file = tmp_path / "grid.toml"
    cell = '[[cells]]\nserver = "redis"\nclient = "redis"\nworkers = 2\nsize_kb = 8\nbuffer_kb = 64\n'
    file.write_text(f"repetitions = 5\nonly = {only}\n{cell}", encoding="utf-8")
    with pytest.raises(BadGridError, match=re.escape(f"{file}: {says}")):
        cells.read(file)


def test_an_unknown_grid_is_refused_with_those_that_are_there() -> None:
    with pytest.raises(
        SystemExit, match="--grid: found 'tolerances', expected one of acks, bbr, core, dctcp, eighth-window"
    ):
        validate_requests.main(grid="tolerances", measure=False)


def test_what_dctcp_needs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="DCTCP needs incast-host, which is not there: make linux"):
        dctcp.Attached({})
    program = tmp_path / "incast-host"
    program.write_text('#!/bin/sh\nread line\necho \'{"error": "no BTF"}\'\n', encoding="utf-8")
    program.chmod(0o755)
    with pytest.raises(UnavailableError, match="incast-host: no BTF"):
        dctcp.Attached({})
    program.write_text("#!/bin/sh\nread line\n", encoding="utf-8")
    with pytest.raises(UnavailableError, match="incast-host: it has ended without an answer"):
        dctcp.Attached({})


def test_what_is_needed_is_named_and_only_echo_thinks(tmp_path: Path) -> None:
    file = tmp_path / "grid.toml"
    file.write_text('repetitions = 5\n[[cells]]\nserver = "redis"\n', encoding="utf-8")
    with pytest.raises(BadGridError, match="client is missing"):
        cells.read(file)
    text = 'repetitions = 5\n[[cells]]\nserver = "redis"\nclient = "redis"\nworkers = 2\nsize_kb = 8\nbuffer_kb = 64\n'
    file.write_text(text + "think_ms = 5\n", encoding="utf-8")
    with pytest.raises(BadGridError, match="only the server 'echo' thinks, found 'redis'"):
        cells.read(file)


def test_the_core_grid_has_every_server_and_axis_and_no_cell_of_the_study() -> None:
    core = GRIDS["core"].cells
    # TLS has a grid of its own.
    assert {cell.server for cell in core} == set(cells.CLIENTS) - set(servers.TLS)
    # A client of httpx for each server has one, too.
    of_python = {client for of in cells.CLIENTS.values() for client in of} - {*cells.IN_RUST, "httpx-each"}
    assert {cell.client for cell in core} == of_python
    assert {cell.buffer_kb for cell in core} >= {16, 32, 64, 8192}
    assert {cell.control for cell in core} == {"cubic", "reno"}
    assert {cell.probes for cell in core} == {True, False}
    assert any(cell.think_ms for cell in core)
    assert any(cell.long_flows for cell in core)
    assert not {cell.workers for cell in core} & {4, 8, 16, 40, 90}
    assert not {cell.size_kb for cell in core} & {2, 32, 128, 256}
    assert GRIDS["core"].repetitions >= RULES.least_repetitions
    assert not any(cell in GRIDS["full"].cells for cell in core)


def test_ideal_times_count_headers_and_thinking_once() -> None:
    assert Cell("echo", "streams", 40, 32, 64).ideal_s == pytest.approx(0.10964, rel=1e-3)
    assert Cell("echo", "streams", 40, 32, 64, think_ms=5).ideal_s == pytest.approx(0.11464, rel=1e-3)
    assert pytest.approx(95.64, rel=1e-3) == CELL.ideal_mbps


def test_mixed_sizes_are_2_to_256_kb_and_a_worker_keeps_its_own() -> None:
    sizes = Cell("echo", "streams", 20, "mixed", 64).sizes
    assert (min(sizes), max(sizes), len(sizes)) == (2048, 262_144, 20)
    assert sizes[8:16] == sizes[:8]


def test_grids_and_policies_have_the_same_names_in_the_same_order() -> None:
    assert tuple(policies.POLICIES) == cells.POLICIES


def test_names_of_cells_differ() -> None:
    for grid in GRIDS.values():
        assert len({cell.name for cell in grid.cells}) == len(grid.cells)


# How requests are sent.


class Recorder:
    """A client whose servers answer at once, and which notes how many were asked at a time."""

    def __init__(self) -> None:
        self.outstanding = self.most = self.asked = 0

    async def fetch(self, worker: int, size: int) -> None:  # noqa: D102
        del worker, size
        self.outstanding += 1
        self.asked += 1
        self.most = max(self.most, self.outstanding)
        await asyncio.sleep(0.002)
        self.outstanding -= 1

    def socket(self, worker: int) -> Any:  # noqa: ANN401, D102
        del worker

    async def close(self) -> None:  # noqa: D102
        pass


def ask(policy: str, cell: Cell) -> tuple[Recorder, dict[str, Any]]:
    client, state = Recorder(), dict[str, Any]()

    async def program() -> None:
        async with policies.opened(policy, cell, client, state) as send:

            def bound(worker: int) -> Callable[[], Awaitable[None]]:
                return lambda: client.fetch(worker, cell.sizes[worker])

            for _ in range(2):
                await send([bound(worker) for worker in range(cell.workers)])

    asyncio.run(program())
    return client, state


@pytest.mark.parametrize(
    ("policy", "most"),
    [("all", 10), ("semaphore", 4), ("ars", 1), ("bytes", 1), ("gradient", 10), ("planned", 1)],
)
def test_policies_ask_everybody_and_as_many_at_once_as_they_say(policy: str, most: int) -> None:
    # 32 KB of a budget of 45,871 bytes: one fits. Without a socket a request costs all of its response.
    client, _ = ask(policy, CELL)
    assert (client.asked, client.outstanding, client.most) == (20, 0, most)


def test_budgets_and_windows_follow_from_the_port() -> None:
    assert policies.budget_bytes(CELL) == 45_871
    assert policies.batch(replace(CELL, size_kb=8)) == 5
    assert policies.window_bytes(CELL) == 4587
    assert policies.window_bytes(replace(CELL, workers=90)) == cells.MSS_BYTES
    # No more than the port sends in half a least timeout.
    assert policies.budget_bytes(replace(CELL, buffer_kb=8192)) == 1_250_000
    _, state = ask("planned", CELL)
    assert state["budget_bytes"] == 45_871


def test_the_adaptive_limiter_grows_while_latency_stays_and_shrinks_when_it_doubles() -> None:
    limiter = Gradient()
    for _ in range(20):
        limiter.sample(0.01, int(limiter.limit))
    grown = limiter.limit
    assert grown > 30
    # Not used: nothing is learned of a limit.
    limiter.sample(0.01, 1)
    assert limiter.limit == grown
    for _ in range(50):
        limiter.sample(0.1, int(limiter.limit))
    assert 1 <= limiter.limit < 15


def test_an_error_in_a_request_gives_the_limiters_place_back() -> None:
    async def program() -> None:
        limiter = Gradient()
        limiter.limit = 1

        async def fails() -> None:
            await asyncio.sleep(0)
            raise clients.BadAnswerError("no")

        async with asyncio.timeout(5):
            ended = await asyncio.gather(*(limiter.run(fails()) for _ in range(3)), return_exceptions=True)
        assert [type(one) for one in ended] == [clients.BadAnswerError] * 3

    asyncio.run(program())


@pytest.mark.parametrize(("client", "made"), [("httpx", 1), ("httpx-each", 3)])
def test_httpx_has_one_client_for_all_servers_or_one_for_each(
    monkeypatch: pytest.MonkeyPatch, client: str, made: int
) -> None:
    import httpx

    opened: list[httpx.AsyncClient] = []
    ended = asyncio.Semaphore(0)

    class Counted(httpx.AsyncClient):
        def __init__(self, **options: Any) -> None:  # noqa: ANN401
            opened.append(self)
            super().__init__(**options)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody")
        await reader.read()
        writer.close()
        await writer.wait_closed()
        ended.release()

    async def program() -> None:
        listening = [await asyncio.start_server(answer, f"127.0.0.{worker + 1}", 0) for worker in range(3)]
        ports = [server.sockets[0].getsockname()[1] for server in listening]
        monkeypatch.setattr(httpx, "AsyncClient", Counted)
        urls = [f"http://127.0.0.{worker + 1}:{port}" for worker, port in enumerate(ports)]
        monkeypatch.setattr(clients, "_url", lambda _server, worker, _size: urls[worker])
        asked = clients.of(Cell("nginx", client, 3, 4, 64))
        for worker in range(3):
            await asked.fetch(worker, 4)
        assert [asked.socket(worker).getpeername()[1] for worker in range(3)] == ports
        await asked.close()
        for server in listening:
            async with asyncio.timeout(5):
                await ended.acquire()
            server.close()

    asyncio.run(program())
    assert len(opened) == made
    assert all(one.is_closed for one in opened)


# In which order, what is kept, what is refused.


def test_policies_come_in_turn_and_another_begins_each_repetition() -> None:
    grid = cells.Grid(9, (CELL, replace(CELL, workers=5)))
    of = campaign.jobs(grid)
    assert len(of) == len(set(of)) == 9 * 2 * 8
    assert [job.policy for job in of[:8]] == list(cells.USUAL)
    begins = [of[16 * repetition].policy for repetition in range(9)]
    assert begins == [*cells.USUAL, "all"]


def test_shards_have_all_cells_between_them_and_none_twice() -> None:
    grid = cells.Grid(2, tuple(replace(CELL, workers=workers) for workers in range(1, 8)), ("all", "planned"))
    shards = [grid.shard(number, 3) for number in (1, 2, 3)]
    assert [len(shard.cells) for shard in shards] == [3, 2, 2]
    of_all = [job for shard in shards for job in campaign.jobs(shard)]
    assert sorted(map(str, of_all)) == sorted(map(str, campaign.jobs(grid)))


@pytest.mark.parametrize("shard", ["0/4", "5/4", "2", "a/b", "1/0", "-1/4"])
def test_a_shard_that_is_none_is_an_error(shard: str) -> None:
    with pytest.raises(SystemExit, match=f"error: --shard {shard}: expected i/n with i from 1 to n"):
        validate_requests.main(grid="acks", shard=shard)


def test_credit_is_told_how_long_servers_think_where_they_do() -> None:
    thinks = replace(CELL, think_ms=5)
    grid = cells.Grid(5, (CELL, thinks), ("all", "planned", "told"))
    assert {(job.cell, job.policy) for job in campaign.jobs(grid)} == {
        (CELL, "all"), (CELL, "planned"), (thinks, "all"), (thinks, "planned"), (thinks, "told")
    }  # fmt: skip
    # Without it a cell where they do is not judged, and one where they do not is.
    of_two = [(cell, policy) for cell in grid.cells for policy in ("all", "planned")]
    there = [row(policy, number, cell=cell) for cell, policy in of_two for number in range(5)]
    judged = judging.judge(judging.places(there, RULES), RULES, grid.policies)
    assert {one.cell for one in judged} == {CELL}


def test_what_is_kept_counts_for_its_cell_and_its_scheduler_only(tmp_path: Path) -> None:
    job = campaign.Job(CELL, "learned", 0)
    file = campaign.file_of(tmp_path, job, "a build")
    assert file == campaign.file_of(tmp_path, job, "a build")
    assert file != campaign.file_of(tmp_path, job, "another build")
    assert file != campaign.file_of(tmp_path, replace(job, cell=replace(CELL, probes=False)), "a build")
    plain = replace(job, policy="all")
    assert campaign.file_of(tmp_path, plain, "a build") == campaign.file_of(tmp_path, plain, "another build")


def test_a_grid_resumes_with_what_is_missing(tmp_path: Path) -> None:
    grid = cells.Grid(2, (CELL,))
    for job in campaign.jobs(grid)[1:]:
        campaign._keep(campaign.file_of(tmp_path, job, campaign.library()), found())
    there = campaign.kept(tmp_path, grid)
    assert len(there) == 15
    assert [one.policy for one in there[:3]] == ["all", "semaphore", "semaphore"]
    campaign._keep(campaign.file_of(tmp_path, campaign.jobs(grid)[0], campaign.library()), found())
    # Nothing is left to do, so that neither root nor servers are needed.
    assert campaign.run(grid, tmp_path, RULES.machine, None)


def test_what_does_not_end_is_left_out_and_the_grid_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def repetition(_fabric: object, _servers: object, cell: cells.Cell, policy: str) -> dict[str, Any]:
        asked.append(policy)
        if policy == "all":
            raise measuring.EndlessError(f"{cell.name}, {policy}: it did not end within 180 s")
        return found()["found"]  # type: ignore[no-any-return]

    monkeypatch.setattr(campaign, "missing", lambda _: [])
    # Something that can be closed.
    monkeypatch.setattr(campaign, "Fabric", io.StringIO)
    monkeypatch.setattr(campaign, "Servers", lambda *_: io.StringIO())
    monkeypatch.setattr(measuring, "repetition", repetition)
    grid, to = cells.Grid(3, (CELL,), ("all", "planned")), io.StringIO()
    assert not campaign.run(grid, tmp_path, RULES.machine, None, to)
    # Once, as each costs three minutes.
    assert asked == ["all", "planned", "planned", "planned"]
    assert [row.policy for row in campaign.kept(tmp_path, grid)] == ["planned"] * 3
    assert to.getvalue().startswith(f"[1/6] left out: {CELL.name}, all: it did not end within 180 s\n[2/6, ")


def test_a_cell_that_keeps_the_machine_busy_is_left_out_unless_all_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = tuple(replace(CELL, workers=workers) for workers in (2, 3, 4, 5, 6))
    too_busy = {of[0], of[1], of[3]}

    def repetition(_fabric: object, _servers: object, cell: cells.Cell, _policy: str) -> dict[str, Any]:
        quality = {**IDLE, "client_waiting": 0.05, "client_wait_us": 500.0} if cell in too_busy else IDLE
        return {**found(cell=cell)["found"], "quality": quality}

    monkeypatch.setattr(campaign, "missing", lambda _: [])
    monkeypatch.setattr(campaign, "_PAUSE_S", 0.0)
    monkeypatch.setattr(campaign, "Fabric", io.StringIO)
    monkeypatch.setattr(campaign, "Servers", lambda *_: io.StringIO())
    monkeypatch.setattr(measuring, "repetition", repetition)
    grid, to = cells.Grid(2, of, ("all", "planned")), io.StringIO()
    assert not campaign.run(grid, tmp_path, RULES.machine, None, to)
    assert {row.cell for row in campaign.kept(tmp_path, grid)} == {of[2], of[4]}
    assert to.getvalue().count("left out") == 3
    assert f"[1/20] left out: {of[0].name}: the machine is too busy: 10 attempts were refused" in to.getvalue()
    too_busy.add(of[2])
    with pytest.raises(UnavailableError, match="the machine is too busy"):
        campaign.run(grid, tmp_path / "other", RULES.machine, None, io.StringIO())


def test_a_busy_machine_is_refused_and_the_repetition_done_again() -> None:
    busy = {**IDLE, "servers_waiting": 0.05, "servers_wait_us": 500.0}
    answers = [{"quality": busy}, {"quality": busy}, {"quality": IDLE}]
    pauses: list[float] = []
    kept = campaign.repeated(lambda: answers.pop(0), RULES.machine, pauses.append)
    assert kept["refused"] == ["servers waited for a CPU 5.0% of the time"] * 2
    assert kept["found"] == {"quality": IDLE}
    assert len(pauses) == 2


def test_a_machine_that_is_never_idle_is_an_error_that_says_what_to_do() -> None:
    busy = {**IDLE, "client_waiting": 0.05, "client_wait_us": 500.0}
    with pytest.raises(UnavailableError, match="too busy: 10 attempts were refused, the last because client waited"):
        campaign.repeated(lambda: {"quality": busy}, RULES.machine, lambda _: None)


def test_a_limit_of_real_time_processes_is_named_where_it_may_be_the_reason(tmp_path: Path) -> None:
    client = "client waited for a CPU 4.7% of the time"
    assert campaign.hint(client, tmp_path) == "", "no such kernel"
    (tmp_path / "sched_rt_period_us").write_text("1000000\n")
    (tmp_path / "sched_rt_runtime_us").write_text("950000\n")
    assert "more than 95% of the time; sysctl -w kernel.sched_rt_runtime_us=-1" in campaign.hint(client, tmp_path)
    assert campaign.hint("the host of this machine took 3.0% of its time", tmp_path) == ""
    for unlimited in ("-1", "1000000"):
        (tmp_path / "sched_rt_runtime_us").write_text(unlimited)
        assert campaign.hint(client, tmp_path) == "", unlimited


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({}, False),
        ({"client_waiting": 0.03, "client_wait_us": 19.0}, False),
        ({"client_waiting": 0.03, "client_wait_us": 21.0}, True),
        ({"softirq_waiting": 0.2, "softirq_wait_us": 200.0}, False),
        ({"softirq_waiting": 0.2, "softirq_wait_us": 300.0}, True),
        ({"stolen": 0.03}, True),
    ],
)
def test_waits_count_if_they_are_long_in_all_and_turn_by_turn(change: dict[str, float], refused: bool) -> None:
    assert (RULES.machine.refuse({**IDLE, **change}) is not None) == refused


def test_packages_that_are_missing_are_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda command, **_: None if command in {"nginx", "tc"} else "/x")
    assert servers.missing(["echo", "nginx", "nginx-uncorked", "redis"]) == ["nginx-light", "iproute2"]


def test_without_servers_the_grid_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "missing", lambda _: ["memcached", "redis-server"])
    with pytest.raises(UnavailableError, match=r"not installed: memcached redis-server .*apt-get install memcached"):
        campaign.run(cells.Grid(2, (CELL,)), tmp_path, RULES.machine, None)


# What is judged.


def test_goodput_is_that_of_the_queries_and_quantiles_are_by_nearest_rank() -> None:
    one = row("all", goodput=50.0)
    assert one.goodput_mbps == pytest.approx(50, abs=0.01)
    assert (one.timeouts, one.probes_sent, one.retransmitted, one.drops) == (0, 2, 3, 4)
    assert judging.quantile([3.0, 1.0, 2.0], 50) == 2.0
    assert judging.quantile([float(value) for value in range(100)], 99) == 98.0


def test_a_query_is_late_with_a_timeout_or_100_ms_more_than_ideal() -> None:
    limit = CELL.ideal_s * 1e3 + RULES.late_after_ms
    one = replace(row("all"), queries_ms=(limit - 1, limit + 1, 30.0), query_timeouts=(0, 0, 2))
    assert one.late(RULES) == 2


def test_rows_survive_their_csv(tmp_path: Path) -> None:
    cell = Cell("redis", "redis", 5, "mixed", 64, probes=False, control="reno")
    of = [row("all", 0, 50.0), replace(row("learned", 1, cell=cell), budget_bytes=46_000)]
    judging.write_rows(tmp_path / "rows.csv", of)
    assert judging.read_rows(tmp_path / "rows.csv") == of
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(ValueError, match="the columns are not those of this version"):
        judging.read_rows(tmp_path / "rows.csv")


def test_the_collapse_is_gone_or_not() -> None:
    assert verdicts(rows(all=30.0)) == {("gone", "planned"): True, ("gone", "learned"): True}
    assert not verdicts(rows(all=30.0, learned=80.0))["gone", "learned"]


def test_one_late_query_in_fifty_is_allowed_and_two_are_not() -> None:
    for timeouts, holds in (([1], True), ([1, 1], False)):
        of = rows(all=30.0)
        mine = [number for number, one in enumerate(of) if one.policy == "planned"]
        for number, count in zip(mine, timeouts, strict=False):
            cell_row = row("planned", of[number].repetition, timeouts=count)
            of[number] = replace(cell_row, queries_ms=(30.0,) * 10, query_timeouts=(count,) + (0,) * 9)
        for number in mine[len(timeouts) :]:
            of[number] = replace(of[number], queries_ms=(30.0,) * 10, query_timeouts=(0,) * 10)
        assert verdicts(of)["gone", "planned"] == holds


def test_where_nothing_collapses_three_percent_may_be_lost() -> None:
    judged = verdicts(rows(planned=92.5, learned=91.5))
    assert (judged["cost", "planned"], judged["cost", "learned"]) == (True, False)
    assert judged["gone", "learned"]


def test_with_long_flows_only_learned_credit_is_judged_against_all_at_once() -> None:
    cell = replace(CELL, long_flows=1)
    assert verdicts(rows(cell, all=30.0, planned=10.0, learned=29.0)) == {("long flows", "learned"): True}
    assert verdicts(rows(cell, all=30.0, learned=28.0)) == {("long flows", "learned"): False}


def test_ratios_are_between_repetitions_of_the_same_number() -> None:
    of = [row("all", 0, 50.0), row("all", 1, 90.0), row("learned", 0, 50.0), row("learned", 1, 90.0)]
    ratio = judging.places(of, RULES)[0].ratio("learned")
    assert ratio.mean == pytest.approx(1)
    assert ratio.half_width == pytest.approx(0, abs=1e-9)


def test_a_cell_without_all_repetitions_is_reported_and_not_judged() -> None:
    of = rows(repetitions=4, all=30.0)
    assert verdicts(of) == {}
    text = report.text("Title", "6.1", of, RULES, GRID)
    assert "32 of 40 repetitions measured" in text
    assert "0 of 1 cells have all repetitions" in text
    assert "Not judged: repetitions are missing." in text
    assert "not judged" in text


def test_the_report_says_what_fails_what_is_best_and_where_it_collapses() -> None:
    text = report.text("Title", "6.1", rows(all=30.0, learned=60.0, planned=96.0), RULES, GRID)
    assert "holds in 1 of 1 cells | holds in 0 of 1 cells" in text
    assert "**fails** | 0 of 90 queries late, goodput 62.5% of the best" in text
    assert "| 30.0† |" in text
    assert "| **96.0** |" in text
    assert "| credit, learned | 5 | 60.0 ± 0.0 | 0.62 |" in text


def test_a_report_is_made_again_from_its_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate_requests, "RESULTS", tmp_path)
    monkeypatch.setattr(cells, "read", lambda _: cells.Grid(5, (CELL,)))
    judging.write_rows(tmp_path / "core.csv", rows(all=30.0))
    (tmp_path / "core.md").write_text("# Title\n\nLinux 6.1.2-x. 40 of 40\n", encoding="utf-8")
    validate_requests.main(measure=False)
    assert "Linux 6.1.2-x. 40 of 40 repetitions measured" in (tmp_path / "core.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", GRIDS)
def test_committed_results_are_of_the_committed_grid_and_say_what_the_report_says(name: str) -> None:
    file = validate_requests.RESULTS / f"{name}.csv"
    if not file.exists():
        pytest.skip("the grid has not been measured")
    of = judging.read_rows(file)
    assert {one.cell for one in of} <= set(GRIDS[name].cells)
    written = (validate_requests.RESULTS / f"{name}.md").read_text(encoding="utf-8")
    release = validate_requests._release(validate_requests.RESULTS / f"{name}.md")
    assert report.text(validate_requests.title(name), release, of, RULES, GRIDS[name]) == written


def test_kept_repetitions_are_plain_json() -> None:
    assert json.loads(json.dumps(found())) == found()
    assert not math.isnan(judging.row(CELL, "all", 0, found()).response_p99_ms)


def test_a_cell_may_say_how_large_the_windows_of_credit_are() -> None:
    cell = replace(CELL, window_segments=6)
    assert policies.plan("planned", cell).window_bytes == policies.plan("learned", cell).window_bytes == 6 * 1448
    assert policies.plan("learned", cell).application()["learn"]
    assert policies.plan("planned", CELL).window_bytes is None
    assert policies.budget_bytes(cell) == policies.budget_bytes(CELL)


def test_a_cell_may_say_how_many_queries_count() -> None:
    assert replace(CELL, asks=60).queries == replace(CELL, asks=60, long_flows=1).queries == 60
    assert replace(CELL, asks=60).name == f"{CELL.name}, 60 queries"
    assert replace(CELL, long_flows=1).queries == 8


def test_streams_are_requests_of_their_own_on_the_connections_that_are_there() -> None:
    cell = replace(CELL, server="nginx-h2", client="httpx", workers=4, size_kb="mixed", streams=3)
    assert cell.sizes == replace(cell, streams=1).sizes * 3
    # As many windows as connections, as many responses as streams.
    assert policies.window_bytes(cell) == policies.window_bytes(replace(cell, streams=1))
    asked: list[tuple[int, int]] = []

    class Asked(Recorder):
        async def fetch(self, worker: int, size: int) -> None:
            asked.append((worker, size))
            await super().fetch(worker, size)

    async def program(policy: str) -> None:
        async with AsyncExitStack() as closing:
            await asking._InPython(cell, policy, Asked(), closing).query()

    for policy in ("all", "planned"):
        asked.clear()
        asyncio.run(program(policy))
        assert sorted(asked) == sorted([(worker, cell.sizes[worker]) for worker in range(4)] * 3)
