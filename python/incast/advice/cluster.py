"""The file that describes a cluster: its keys, what they may be, and their defaults."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, replace
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from incast import _native, scenarios
from incast._native import ScenarioError
from incast.advice import samples
from incast.studies import document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from incast.studies.document import Table

PLACES = ("application", "receiver", "senders", "switch")
SENDERS = ("cubic", "newreno", "dctcp")
WINDOWS = ("kept", "fresh")
# Of the profile `linux`, with which everything is simulated.
MSS_BYTES, HEADER_BYTES = 1448, 52
MOST_SERVERS, MOST_LONG_FLOWS = 2000, 64
_MOST_BYTES = 10**9
# A list of sizes is drawn from so many of them, equally likely.
_QUANTILES = 32

_T = TypeVar("_T")


@dataclass(frozen=True)
class Buffer:
    """What the port to the asking host may hold."""

    memory_bytes: int | None
    """Shared with other ports; `None`: the port has a buffer of its own."""
    alpha: float
    busy_ports: int
    limit_bytes: int
    """What the port can hold at most."""

    @classmethod
    def own(cls, limit_bytes: int) -> Buffer:
        """Return a buffer that no other port uses."""
        return cls(None, 0.0, 0, limit_bytes)

    @classmethod
    def shared(cls, memory_bytes: int, alpha: float, busy_ports: int) -> Buffer:
        """Return a port's part of a memory: each of n ports that want more has alpha / (1 + n alpha) of it."""
        limit = int(memory_bytes * alpha / (1 + (1 + busy_ports) * alpha))
        return cls(memory_bytes, alpha, busy_ports, limit)

    def halved(self) -> Buffer:
        """Return half of it."""
        if self.memory_bytes is None:
            return Buffer.own(self.limit_bytes // 2)
        return Buffer.shared(self.memory_bytes // 2, self.alpha, self.busy_ports)

    def scenario(self) -> dict[str, Any]:
        """Return what a scenario has under `switch.buffer`.

        Busy ports hold what they may all the time, and leave this one a memory in which it has the same part.
        """
        if self.memory_bytes is None:
            return {"name": "static", "limit": f"{self.limit_bytes}B", "count_in_service": True}
        left = int(self.memory_bytes * (1 + self.alpha) / (1 + (1 + self.busy_ports) * self.alpha))
        return {"name": "dynamic-threshold", "size": f"{left}B", "alpha": self.alpha}

    def said(self) -> str:
        """Describe it."""
        if self.memory_bytes is None:
            return f"a buffer of its own of {self.limit_bytes:,} B"
        others = f"{self.busy_ports} other port{'s' if self.busy_ports != 1 else ''} busy"
        return (
            f"its part of a memory of {self.memory_bytes:,} B (alpha {self.alpha:g}, {others}): {self.limit_bytes:,} B"
        )


@dataclass(frozen=True)
class Size:
    """One of the sizes of responses, and how many of them have it."""

    size_bytes: int
    share: float


@dataclass(frozen=True)
class Cluster:
    """Servers that answer one host, the path between them, and what may be changed."""

    rate_bps: int
    rtt_ps: int
    buffer: Buffer
    fan_in: int
    sizes: tuple[Size, ...]
    long_flows: int = 0
    service_ps: int = 10_000_000
    deadline_ps: int | None = None
    marks_bytes: int | None = None
    sender: str = "cubic"
    initial_window: int = 10
    rto_min_ps: int = 200_000_000_000
    windows: Literal["kept", "fresh"] = "kept"
    may_change: tuple[str, ...] = PLACES
    sampled: tuple[str, ...] = ()
    """What was taken from a sample, and what that cannot tell, in sentences."""

    @property
    def response_bytes(self) -> int:
        """The mean size of a response."""
        return round(sum(one.size_bytes * one.share for one in self.sizes))

    @property
    def largest_bytes(self) -> int:
        """The largest size of a response."""
        return max(one.size_bytes for one in self.sizes)

    @property
    def varies(self) -> bool:
        """Whether responses differ in size."""
        return len(self.sizes) > 1

    def with_(self, **changes: Any) -> Cluster:  # noqa: ANN401
        """Return the same cluster but for some of its properties."""
        return replace(self, **changes)

    def as_json(self) -> dict[str, Any]:
        """Return everything that was read, for programs."""
        return {
            "rate_bps": self.rate_bps,
            "rtt_s": self.rtt_ps / 1e12,
            "buffer_bytes": self.buffer.limit_bytes,
            "memory_bytes": self.buffer.memory_bytes,
            "alpha": self.buffer.alpha if self.buffer.memory_bytes is not None else None,
            "busy_ports": self.buffer.busy_ports,
            "fan_in": self.fan_in,
            "responses": [{"size_bytes": one.size_bytes, "share": one.share} for one in self.sizes],
            "long_flows": self.long_flows,
            "service_time_s": self.service_ps / 1e12,
            "deadline_s": None if self.deadline_ps is None else self.deadline_ps / 1e12,
            "marks_bytes": self.marks_bytes,
            "sender": self.sender,
            "initial_window": self.initial_window,
            "rto_min_s": self.rto_min_ps / 1e12,
            "windows": self.windows,
            "may_change": list(self.may_change),
            "from_sample": list(self.sampled),
        }


def examples() -> dict[str, str]:
    """Return the example files by name."""
    folder = resources.files("incast").joinpath("advice/examples")
    files = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".toml")), key=lambda entry: entry.name)
    return {entry.name.removesuffix(".toml"): entry.read_text(encoding="utf-8") for entry in files}


def example(name: str) -> str:
    """Return an example file.

    Raises:
        ScenarioError: there is none of this name.

    """
    known = examples()
    if name not in known:
        raise ScenarioError(f"--example {name}: no such example; allowed: {', '.join(known)}")
    return known[name]


def read(path: Path) -> Cluster:
    """Read a file.

    Raises:
        ScenarioError: it cannot be read, or keys are wrong: the message names all of them, a line each.

    """
    text = scenarios.text_of(path, "the description of a cluster", "no such file; incast advise --example prints one")
    table = document.of_text(path, text)
    return _Reading(table).cluster()


class _Reading:
    """Reads all keys before it complains of any."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._wrong: list[str] = []

    def cluster(self) -> Cluster:
        table = self._table
        tcp = self._try(lambda: table.below("tcp", table.values("tcp")), table.below("tcp", {}))
        sample = self._try(self._sample, None)
        rate = self._amount("rate", "rate", sample.rate_bps if sample else None)
        found = Cluster(
            rate_bps=rate,
            rtt_ps=self._amount("rtt", "time"),
            buffer=self._try(self._buffer, Buffer.own(1)),
            fan_in=self._whole(table, "fan_in", sample.fan_in if sample else None, 1, MOST_SERVERS),
            sizes=self._try(lambda: self._sizes(sample.response_bytes if sample else None), (Size(1, 1.0),)),
            long_flows=self._whole(table, "long_flows", 0, 0, MOST_LONG_FLOWS),
            service_ps=self._amount("service_time", "time", Cluster.service_ps, least=0),
            deadline_ps=self._optional("deadline", "time"),
            marks_bytes=self._optional("marks", "bytes"),
            sender=self._word(tcp, "sender", SENDERS, "cubic"),
            initial_window=self._whole(tcp, "initial_window", 10, 1, 1000),
            rto_min_ps=self._amount("rto_min", "time", Cluster.rto_min_ps, table=tcp),
            windows="fresh" if self._word(tcp, "windows", WINDOWS, "kept") == "fresh" else "kept",
            may_change=self._places(),
            sampled=sample.said(set(table.entries)) if sample else (),
        )
        for one in (table, tcp):
            self._wrong += one.unknown()
        if not self._wrong and found.sender == "dctcp" and found.marks_bytes is None:
            self._wrong.append(
                f'{tcp.place("sender")}: "dctcp" needs switches that mark: say from which queue on (marks = "200KB")'
            )
        if self._wrong:
            raise ScenarioError("\n".join(self._wrong))
        return found

    def _try(self, read: Callable[[], _T], otherwise: _T) -> _T:
        try:
            return read()
        except ScenarioError as error:
            self._wrong.append(str(error))
            return otherwise

    def _sample(self) -> samples.Sample | None:
        if "sample" not in self._table:
            return None
        folder = self._table.file.parent / self._table.text("sample")
        try:
            return samples.read(folder)
        except ScenarioError as error:
            self._table.refuse("sample", str(error))

    def _amount(
        self,
        key: str,
        kind: Literal["rate", "bytes", "time"],
        default: int | None = None,
        *,
        least: int = 1,
        table: Table | None = None,
    ) -> int:
        return self._try(lambda: _amount(table or self._table, key, kind, default, least), 1)

    def _optional(self, key: str, kind: Literal["rate", "bytes", "time"]) -> int | None:
        return self._amount(key, kind) if key in self._table else None

    def _whole(self, table: Table, key: str, default: int | None, least: int, most: int) -> int:
        def read() -> int:
            value = table.whole(key, default, least=least)
            if value > most:
                table.refuse(key, f"must be {most:,} or less, found {value:,}")
            return value

        return self._try(read, least)

    def _word(self, table: Table, key: str, allowed: Iterable[str], default: str) -> str:
        def read() -> str:
            word = table.text(key, default)
            if word not in allowed:
                table.refuse(key, f'found "{word}"; allowed: {", ".join(allowed)}')
            return word

        return self._try(read, default)

    def _places(self) -> tuple[str, ...]:
        def read() -> tuple[str, ...]:
            found = self._table.texts("may_change", [*PLACES])
            for one in found:
                if one not in PLACES:
                    self._table.refuse("may_change", f'found "{one}"; allowed: {", ".join(PLACES)}')
            return tuple(place for place in PLACES if place in found)

        return self._try(read, PLACES)

    def _buffer(self) -> Buffer:
        table = self._table.below("buffer", self._table.values("buffer"))
        if "buffer" not in self._table:
            self._table.refuse("", 'missing key "buffer": { limit = "200KB" } or { memory = "16MB", alpha = 1.0 }')
        table.only(["limit"] if "limit" in table else ["memory", "alpha", "busy_ports"])
        if "limit" in table:
            return Buffer.own(_amount(table, "limit", "bytes", None, 2 * (MSS_BYTES + HEADER_BYTES)))
        memory = _amount(table, "memory", "bytes", None, 2 * (MSS_BYTES + HEADER_BYTES))
        alpha = table.number("alpha")
        if alpha is not None and not 0 < alpha <= 1024:
            table.refuse("alpha", f"must be more than 0 and at most 1024, found {alpha:g}")
        return Buffer.shared(memory, 1.0 if alpha is None else alpha, table.whole("busy_ports", 0))

    def _sizes(self, sampled: int | None) -> tuple[Size, ...]:
        table = self._table
        if "response" not in table and sampled is not None:
            return (Size(sampled, 1.0),)
        value = table.any("response")
        if isinstance(value, list):
            return self._listed(value)
        if isinstance(value, str) and value.endswith(".csv"):
            return _of_file(table, table.file.parent / value)
        return (Size(_amount(table, "response", "bytes", None, 1, _MOST_BYTES), 1.0),)

    def _listed(self, value: list[Any]) -> tuple[Size, ...]:
        if not value or not all(isinstance(one, dict) for one in value):
            self._table.refuse("response", 'expected a size, or a list such as [{ size = "2KB", share = 0.9 }, ...]')
        sizes = []
        for number, one in enumerate(value):
            row = self._table.below(f"response[{number}]", one)
            row.only(["size", "share"])
            share = row.number("share")
            if share is None or share <= 0:
                row.refuse("share", f"must be more than 0, found {share}")
            sizes.append(Size(_amount(row, "size", "bytes", None, 1, _MOST_BYTES), share))
        whole = sum(one.share for one in sizes)
        return tuple(Size(one.size_bytes, one.share / whole) for one in sizes)


def _of_file(table: Table, path: Path) -> tuple[Size, ...]:
    """Read a column of sizes, and take equally likely ones from it."""
    rows = list(csv.reader(io.StringIO(scenarios.text_of(path, "a list of sizes"))))
    if not rows or "bytes" not in rows[0]:
        table.refuse("response", f'{path}: expected a head with a column "bytes"')
    column, sizes = rows[0].index("bytes"), []
    for line, row in enumerate(rows[1:], start=2):
        try:
            size = int(row[column])
        except (ValueError, IndexError):
            size = 0
        if not 0 < size <= _MOST_BYTES:
            table.refuse("response", f"{path}:{line}: expected 1 to {_MOST_BYTES:,} bytes, found {','.join(row)!r}")
        sizes.append(size)
    if not sizes:
        table.refuse("response", f"{path}: there are no sizes in it")
    sizes.sort()
    count = min(_QUANTILES, len(sizes))
    drawn = [sizes[(2 * i + 1) * len(sizes) // (2 * count)] for i in range(count)]
    return tuple(Size(size, drawn.count(size) / count) for size in sorted(set(drawn)))


def _amount(
    table: Table,
    key: str,
    kind: Literal["rate", "bytes", "time"],
    default: int | None = None,
    least: int = 1,
    most: int | None = None,
) -> int:
    if key not in table and default is not None:
        return default
    value = table.text(key)
    try:
        found = _native.quantity(kind, value)
    except ScenarioError as error:
        table.refuse(key, str(error))
    if found < least:
        table.refuse(key, f'found "{value}"; must be {"more than zero" if least == 1 else f"{least:,} or more"}')
    if most is not None and found > most:
        table.refuse(key, f'found "{value}"; must be {most:,} or less')
    return found
