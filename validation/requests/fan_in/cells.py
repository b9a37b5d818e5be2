"""What is measured: the cells of a grid, as its file has them."""

from __future__ import annotations

import hashlib
import itertools
import tomllib
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

KB = 1024
# A worker has always the same size; neighbours have sizes far apart.
MIXED_KB = (2, 64, 8, 256, 4, 128, 16, 32)
MSS_BYTES, PACKET_BYTES = 1448, 1514
MOST_WORKERS, MOST_LONG_FLOWS, MOST_STREAMS = 90, 8, 32
# Which clients can ask which server.
CLIENTS = {
    "nginx": ("aiohttp", "httpx", "httpx-each", "hyper", "hyper-pool"),
    "nginx-uncorked": ("aiohttp", "httpx", "httpx-each", "hyper", "hyper-pool"),
    "nginx-tls": ("aiohttp", "httpx"),
    "nginx-h2": ("httpx",),
    "redis": ("redis",),
    "memcached": ("streams",),
    "echo": ("streams", "tokio"),
}
# A program of its own, in Rust.
IN_RUST = ("hyper", "hyper-pool", "tokio")
CONTROLS = ("cubic", "reno", "bbr", "dctcp")
# Those that are told how long servers think: half of it, all, or twice as much.
TOLD_HOW_LONG = {"told-half": 0.5, "told": 1.0, "told-twice": 2.0, "told-by-loop": 1.0}
# One of them has the timers of the event loop, as a scheduler has with a clock of the program's own.
BY_LOOP = "told-by-loop"
# One that finds out.
THINK_LEARNED = "think-learned"
POLICIES = (
    "all", "semaphore", "ars", "clamp", "bytes", "planned", *TOLD_HOW_LONG, THINK_LEARNED, "learned", "gradient",
    "tower",
)  # fmt: skip
_ONLY_IN_PYTHON, _ONLY_IN_RUST = ("ars", "told-half", "told-twice", BY_LOOP, "gradient"), ("tower",)
# Of a grid that names none.
USUAL = tuple(name for name in POLICIES if name not in {*TOLD_HOW_LONG, THINK_LEARNED, *_ONLY_IN_RUST})
_FEWEST_QUERIES, _MOST_QUERIES, _MOST_ASKS = 10, 30, 1000
# All queries of a repetition take about so long if nothing is lost.
_IDEAL_S = 0.5
# With long flows queries take several times as long.
_BESIDE_LONG_FLOWS = 8


class BadGridError(ValueError):
    """A grid says something that cannot be measured; the message names file, entry and key."""


@dataclass(frozen=True)
class Cell:
    """All that decides what is measured, but for the policy and chance."""

    server: str
    client: str
    workers: int
    size_kb: int | str
    """Of a response; "mixed" is 2 to 256 KB."""
    buffer_kb: int
    """Of the port to the client."""
    rate_mbps: int = 100
    """Of that port, and of the link of each server."""
    burst_bytes: int = 16_000
    """So much leaves the port at once after a pause."""
    control: str = "cubic"
    probes: bool = True
    """Tail loss probes."""
    long_flows: int = 0
    think_ms: int = 0
    """How long a server takes before it answers."""
    window_segments: int = 0
    """To how much credit limits windows, in segments; 0: as it does by itself."""
    streams: int = 1
    """How many responses each server is asked for in a query, all on its one connection."""
    asks: int = 0
    """How many queries of a repetition count; 0: as many as take about half a second, or eight beside long flows."""

    @property
    def name(self) -> str:
        """What tells the cell from others, for people."""
        size = "mixed sizes" if self.size_kb == "mixed" else f"{self.size_kb} KB"
        buffer = f"{self.buffer_kb // KB} MB" if self.buffer_kb >= KB else f"{self.buffer_kb} KB"
        parts = [f"{self.server} ({self.client})", f"N = {self.workers}", size, f"buffer {buffer}"]
        if self.burst_bytes != Cell.burst_bytes:
            parts.append(f"burst {self.burst_bytes} B")
        if self.rate_mbps != Cell.rate_mbps:
            parts.append(f"{self.rate_mbps} Mbit/s")
        if self.control != Cell.control:
            parts.append(self.control)
        if not self.probes:
            parts.append("no probes")
        if self.think_ms:
            parts.append(f"think {self.think_ms} ms")
        if self.long_flows:
            parts.append(f"{self.long_flows} long flow{'s' if self.long_flows > 1 else ''}")
        if self.window_segments:
            parts.append(f"windows of {self.window_segments} segments")
        if self.streams > 1:
            parts.append(f"{self.streams} streams on each connection")
        if self.asks:
            parts.append(f"{self.asks} queries")
        return ", ".join(parts)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of each response of a query: first one of each worker, then the next stream of each."""
        if isinstance(self.size_kb, int):
            return (self.size_kb * KB,) * self.workers * self.streams
        return tuple(MIXED_KB[worker % len(MIXED_KB)] * KB for worker in range(self.workers)) * self.streams

    @property
    def buffer_bytes(self) -> int:
        """Bytes that the port holds."""
        return self.buffer_kb * KB

    @property
    def ideal_s(self) -> float:
        """How long a query takes if the port is never idle and nothing is lost."""
        packets = sum(size * PACKET_BYTES / MSS_BYTES for size in self.sizes)
        return packets * 8 / (self.rate_mbps * 1e6) + self.think_ms / 1e3

    @property
    def ideal_mbps(self) -> float:
        """Goodput of such a query."""
        return sum(self.sizes) * 8e-6 / self.ideal_s

    @property
    def queries(self) -> int:
        """How many queries of a repetition count."""
        if self.asks or self.long_flows:
            return self.asks or _BESIDE_LONG_FLOWS
        return min(max(round(_IDEAL_S / self.ideal_s), _FEWEST_QUERIES), _MOST_QUERIES)

    @property
    def warm_up(self) -> int:
        """How many come before: until connections have brought 192 KB each, so that their first windows are used up."""
        return min(max(3, -(-192 * KB * self.workers // sum(self.sizes))), 10)


@dataclass(frozen=True)
class Grid:
    """A grid: its cells, how often each is measured, and with which policies."""

    repetitions: int
    cells: tuple[Cell, ...]
    policies: tuple[str, ...] = USUAL

    def shard(self, number: int, of: int) -> Grid:
        """Return shard `number` of `of`, counted from 1: every `of`-th cell of the grid."""
        return Grid(self.repetitions, self.cells[number - 1 :: of], self.policies)


def measured_in(cell: Cell, policies: Iterable[str]) -> tuple[str, ...]:
    """Return the policies that are measured in a cell: where servers do not think, there is nothing to be told."""
    return tuple(name for name in policies if cell.think_ms or name not in TOLD_HOW_LONG)


def read(file: Path) -> Grid:
    """Read a grid. A list stands for all its values, several lists for all their combinations.

    `cells_of` in place of entries names the grid beside it whose cells it has. `only` are those with these values, and
    of them `sample` draws some by a seed.

    Raises:
        BadGridError: it has something that cannot be measured, or a cell twice.

    """
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise BadGridError(f"{file}: {error}") from error
    repetitions, entries = document.get("repetitions"), document.get("cells")
    if not isinstance(repetitions, int) or repetitions < 2:
        raise BadGridError(f"{file}: repetitions: found {repetitions!r}, expected a whole number of at least 2")
    if "cells_of" in document:
        if entries is not None:
            raise BadGridError(f"{file}: cells_of: there are entries [[cells]] as well")
        entries = _entries_of(file, document["cells_of"])
    if not isinstance(entries, list) or not entries:
        raise BadGridError(f"{file}: expected entries [[cells]]")
    chosen = tuple(document.get("policies", USUAL))
    if chosen != tuple(name for name in POLICIES if name in chosen) or "all" not in chosen:
        raise BadGridError(
            f"{file}: policies: found {list(chosen)}, expected 'all' and others of {', '.join(POLICIES)}"
        )
    if unknown := sorted(set(document) - {"repetitions", "cells", "cells_of", "only", "sample", "policies"}):
        raise BadGridError(f"{file}: unknown key {unknown[0]!r}")
    found: dict[Cell, int] = {}
    for number, entry in enumerate(entries, 1):
        for cell in _cells(f"{file}: cells {number}", entry):
            if cell in found:
                raise BadGridError(f"{file}: cells {number}: {cell.name} is there already, in cells {found[cell]}")
            unfit: tuple[str, ...] = _ONLY_IN_PYTHON if cell.client in IN_RUST else _ONLY_IN_RUST
            if cell.client == "hyper-pool":
                # What limits its windows is the layer.
                unfit = (*unfit, "clamp")
            if lacking := [name for name in chosen if name in unfit]:
                raise BadGridError(f"{file}: cells {number}: client: {cell.client!r} has no policy {lacking[0]!r}")
            found[cell] = number
    there = _only(file, document["only"], tuple(found)) if "only" in document else tuple(found)
    drawn = _drawn(file, document["sample"], there) if "sample" in document else there
    return Grid(repetitions, drawn, chosen)


def _only(file: Path, values: object, of: tuple[Cell, ...]) -> tuple[Cell, ...]:
    names = {field.name for field in fields(Cell)}
    if not isinstance(values, dict) or not values or not names.issuperset(values):
        raise BadGridError(f"{file}: only: found {values!r}, expected values of {', '.join(sorted(names))}")
    chosen = tuple(cell for cell in of if values.items() <= asdict(cell).items())
    if not chosen:
        raise BadGridError(f"{file}: only: no cell has {values!r}")
    return chosen


def _drawn(file: Path, sample: object, of: tuple[Cell, ...]) -> tuple[Cell, ...]:
    """Draw cells, which stay in their order. The draw hangs on their names and the seed alone."""
    if not isinstance(sample, dict) or set(sample) != {"cells", "seed"}:
        raise BadGridError(f"{file}: sample: found {sample!r}, expected {{ cells = ..., seed = ... }}")
    _within(f"{file}: sample", "cells", sample["cells"], 1, len(of))
    _within(f"{file}: sample", "seed", sample["seed"], 0, 2**32)

    def lot(cell: Cell) -> str:
        return hashlib.sha256(f"{sample['seed']} {cell.name}".encode()).hexdigest()

    chosen = set(sorted(of, key=lot)[: sample["cells"]])
    return tuple(cell for cell in of if cell in chosen)


def _entries_of(file: Path, name: object) -> object:
    beside = file.with_name(f"{name}.toml")
    try:
        return tomllib.loads(beside.read_text(encoding="utf-8")).get("cells")
    except (FileNotFoundError, tomllib.TOMLDecodeError) as error:
        raise BadGridError(f"{file}: cells_of: {name!r} is no grid beside it: {error}") from error


def _cells(where: str, entry: Mapping[str, Any]) -> list[Cell]:
    known = {field.name: field for field in fields(Cell)}
    if unknown := sorted(set(entry) - set(known)):
        raise BadGridError(f"{where}: unknown key {unknown[0]!r}: {', '.join(known)} are allowed")
    needed = ("server", "client", "workers", "size_kb", "buffer_kb")
    if missing := [name for name in needed if name not in entry]:
        raise BadGridError(f"{where}: {missing[0]} is missing")
    lists = [value if isinstance(value, list) else [value] for value in entry.values()]
    found = []
    for values in itertools.product(*lists):
        cell = Cell(**dict(zip(entry, values, strict=True)))
        _check(where, cell)
        found.append(cell)
    return found


def _check(where: str, cell: Cell) -> None:
    if cell.server not in CLIENTS:
        raise BadGridError(f"{where}: server: found {cell.server!r}, expected one of {', '.join(CLIENTS)}")
    if cell.client not in CLIENTS[cell.server]:
        allowed = " or ".join(CLIENTS[cell.server])
        raise BadGridError(f"{where}: client: found {cell.client!r}, expected {allowed} for {cell.server}")
    if cell.control not in CONTROLS:
        raise BadGridError(f"{where}: control: found {cell.control!r}, expected one of {', '.join(CONTROLS)}")
    if not isinstance(cell.probes, bool):
        raise BadGridError(f"{where}: probes: found {cell.probes!r}, expected true or false")
    if cell.size_kb != "mixed":
        _within(where, "size_kb", cell.size_kb, 1, 1000)
    bounds = {
        "workers": (1, MOST_WORKERS), "buffer_kb": (4, 65_536), "rate_mbps": (1, 1000),
        "burst_bytes": (PACKET_BYTES, 1_000_000), "long_flows": (0, MOST_LONG_FLOWS), "think_ms": (0, 1000),
        "window_segments": (0, 100), "streams": (1, MOST_STREAMS), "asks": (0, _MOST_ASKS),
    }  # fmt: skip
    for name, (least, most) in bounds.items():
        _within(where, name, asdict(cell)[name], least, most)
    if cell.think_ms and cell.server != "echo":
        raise BadGridError(f"{where}: think_ms: only the server 'echo' thinks, found {cell.server!r}")
    if cell.streams > 1 and cell.server != "nginx-h2":
        raise BadGridError(f"{where}: streams: only 'nginx-h2' has several on a connection, found {cell.server!r}")


def _within(where: str, name: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BadGridError(f"{where}: {name}: found {value!r}, expected a whole number from {least} to {most}")
