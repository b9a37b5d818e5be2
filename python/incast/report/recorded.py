"""The tables of a run that recorded what happened inside, with all times in whole picoseconds."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from incast import api, scenarios
from incast import tables as stored
from incast._native import ScenarioError
from incast.tables import PS_PER_S

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from numpy.typing import NDArray

_TABLES = ("flows", "ports", "queues", "windows", "events", "packets")
# What pages and explanations need of packets; traces for other programs need everything.
_OF_PACKETS = (
    "arrive_ps", "wait_ps", "dropped", "link", "connection", "from_client", "offset_bytes", "payload_bytes",
    "wire_bytes",
)  # fmt: skip
# Packets whose flows are looked up at once: for all packets together it would take several times their memory.
_AT_ONCE = 1_000_000
# What a run has to record for all of this, and how to have it recorded.
_AGAIN = "run the scenario again with incast run --report"


@dataclass(frozen=True)
class Flow:
    """A message, with its own numbers for its segments: 1, 2, ..."""

    id: int
    connection: int
    from_client: bool
    source: int
    destination: int
    begin: int
    """Start in picoseconds."""
    end: int
    """End in picoseconds: its completion, or the end of the run."""
    complete: bool
    size: int | None
    offset: int
    """Position of its first byte in the stream."""
    mss: int
    ideal: int | None
    """Completion time on an idle network, in picoseconds."""
    mark_reductions: int

    @property
    def segments(self) -> int | None:
        """How many packets its payload takes."""
        return None if self.size is None else max(1, -(-self.size // self.mss))

    def segment(self, offset: int) -> int:
        """Return the number of the segment at a position of the stream."""
        return (offset - self.offset) // self.mss + 1

    def has(self, offset: int) -> bool:
        """Whether a position of the stream lies in it."""
        return self.offset <= offset and (self.size is None or offset < self.offset + self.size)


@dataclass(frozen=True)
class Port:
    """A switch port whose packets were recorded."""

    link: int
    name: str
    rate_bps: int
    limit_bytes: int | None
    limit_packets: int | None

    def limit(self) -> str | None:
        """Return how much it may hold, in words."""
        if self.limit_bytes is not None:
            return size(self.limit_bytes)
        return None if self.limit_packets is None else f"{self.limit_packets:,} packets"

    def takes(self, wire_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how long packets occupy the line, in picoseconds."""
        return -(-wire_bytes * 8 * PS_PER_S // self.rate_bps)


class Recorded:
    """One run."""

    def __init__(
        self, tables: dict[str, pl.DataFrame], summary: dict[str, Any], name: str, *, outline: bool = False
    ) -> None:
        self.name = name
        self.summary = summary
        self._tables = tables
        self._at_port: dict[int, AtPort] = {}
        # Only there a run says what the machine was like.
        self.on_kernel = "machine" in tables and not tables["machine"].is_empty()
        """Whether it ran on a kernel, which may not tell since when its timers ran."""
        self.has_packets = not tables["packets"].is_empty()
        if self.on_kernel and not self.has_packets and not outline:
            raise ScenarioError(
                f"{name}: this run on a kernel did not record its packets (record.packets); incast report shows what "
                "there is"
            )
        if self.on_kernel and tables["queues"].is_empty() and tables["packets"].is_empty():
            raise ScenarioError(f"{name}: this run did not record a queue (record.queue_series); {_AGAIN}")
        for table, key in () if self.on_kernel else (("events", "record.events = true"), ("packets", "record.packets")):
            if tables[table].is_empty() and not (table == "events" and not tables["packets"].is_empty()):
                raise ScenarioError(f"{name}: this run did not record its {table} ({key}); {_AGAIN}")
        self.end = _ps(summary["end_s"])
        self.flows = {flow.id: flow for flow in self._flows()}

    @classmethod
    def read(cls, directory: Path, *, outline: bool = False, headers: bool = False) -> Recorded:
        """Read the tables that `incast run` wrote.

        Args:
            directory: where they are.
            outline: whether a run on a kernel may have recorded no packets.
            headers: whether to read what only the headers of packets have, for traces.

        Raises:
            ScenarioError: they are not there, or do not hold what is needed.

        """
        if not (directory / "summary.json").is_file():
            raise ScenarioError(f"{directory}: no results of a run here: summary.json is missing")
        if not (directory / "packets.parquet").is_file():
            raise ScenarioError(f"{directory}: these results have no table packets; {_AGAIN}")
        summary = json.loads(scenarios.text_of(directory / "summary.json", "a summary"))
        try:
            there = [name for name in (*_TABLES, "machine") if (directory / f"{name}.parquet").is_file()]
            tables = {
                name: stored.read(directory / f"{name}.parquet", None if headers or name != "packets" else _OF_PACKETS)
                for name in dict.fromkeys((*_TABLES, *there))
            }
        except (OSError, pl.exceptions.PolarsError) as error:
            raise ScenarioError(f"{directory}: these results cannot be read: {error}") from error
        return cls(tables, summary, str(directory), outline=outline)

    @classmethod
    def of(cls, result: api.Result, name: str = "run", *, outline: bool = False) -> Recorded:
        """Take the tables of a run in this process, as `read` does."""
        tables = {table: pl.DataFrame(result.table(table)) for table in (*_TABLES, "machine")}
        return cls(tables, result.summary_dict, name, outline=outline)

    @property
    def sender(self) -> str | None:
        """The algorithm of the senders, if all classes have the same."""
        senders = {one.get("sender") for one in self.summary["classes"].values()}
        return senders.pop() if len(senders) == 1 else None

    def _flows(self) -> list[Flow]:
        payload = self._tables["packets"].group_by("connection", "from_client").agg(pl.col("payload_bytes").max())
        mss = {(c, side): most for c, side, most in payload.iter_rows()}
        flows = []
        for row in self._tables["flows"].sort("id").iter_rows(named=True):
            if row["offset_bytes"] is None:
                continue
            key = (row["connection"], row["from_client"])
            end = row["end_s"]
            flows.append(
                Flow(
                    id=row["id"],
                    connection=row["connection"],
                    from_client=row["from_client"],
                    source=row["source_host"],
                    destination=row["destination_host"],
                    begin=_ps(row["start_s"]),
                    end=self.end if end is None else _ps(end),
                    complete=end is not None,
                    size=row["size_bytes"],
                    offset=row["offset_bytes"],
                    mss=max(1, mss.get(key) or 0),
                    ideal=None if row["ideal_fct_s"] is None else _ps(row["ideal_fct_s"]),
                    mark_reductions=row["mark_reductions"],
                )
            )
        return flows

    @cached_property
    def packets(self) -> pl.DataFrame:
        """The packets with the flow of their payload, and with `begin_ps`, when they began to leave (null: never)."""
        rows = self._tables["packets"].with_row_index("row")
        flow = pl.Series("flow", _Owners(self.flows.values()).of(rows), dtype=pl.Int64)
        return rows.with_columns(
            flow=pl.when((pl.col("payload_bytes") > 0) & (flow >= 0)).then(flow),
            begin_ps=pl.col("arrive_ps") + pl.col("wait_ps"),
        )

    @property
    def events(self) -> pl.DataFrame:
        """The events."""
        return self._tables["events"]

    def queue(self, link: int) -> pl.DataFrame:
        """Return the queue of a port, in order of time; of several changes at one time the last."""
        queue = self._tables["queues"].filter(pl.col("link") == link)
        time = queue["time_ps"]
        return queue.filter((time != time.shift(-1)).fill_null(value=True))

    @property
    def windows(self) -> pl.DataFrame:
        """The windows."""
        return self._tables["windows"]

    @cached_property
    def ports(self) -> list[Port]:
        """The switch ports whose packets were recorded: those with most drops first, then with most packets."""
        if self._tables["packets"].is_empty():
            recorded = self._tables["ports"].filter(pl.col("link").is_in(self._tables["queues"]["link"].to_list()))
            seen = recorded.select("link", dropped="drops_packets", len="packets")
        else:
            seen = self._tables["packets"].group_by("link").agg(pl.col("dropped").sum(), pl.len())
        ports = seen.join(self._tables["ports"], on="link").sort(
            ["dropped", "len", "link"], descending=[True, True, False]
        )
        return [
            Port(
                row["link"],
                f"{row['from']} → {row['to']}",
                row["rate_bps"],
                row["limit_bytes"],
                row["limit_packets"],
            )
            for row in ports.iter_rows(named=True)
        ]

    @cached_property
    def host_ports(self) -> list[Port]:
        """The ports of hosts whose packets were recorded, by host. What limits them is not in the tables."""
        sources = {(flow.connection, flow.from_client): flow.source for flow in self.flows.values()}
        sources |= {
            (flow.connection, not flow.from_client): flow.destination
            for flow in self.flows.values()
            if (flow.connection, not flow.from_client) not in sources
        }
        switches = self._tables["ports"]["link"].to_list()
        ends = self._tables["packets"].filter(~pl.col("link").is_in(switches)).unique("link", maintain_order=True)
        hosts = sorted(
            (sources[connection, from_client], link)
            for link, connection, from_client in ends.select("link", "connection", "from_client").iter_rows()
            if (connection, from_client) in sources
        )
        return [Port(link, f"host {host}", 0, None, None) for host, link in hosts]

    def any_port(self, name: str | None = None) -> Port:
        """Return the port of this name, also that of a host, by default the first of `ports`.

        Raises:
            ScenarioError: its packets were not recorded.

        """
        if self._tables["packets"].is_empty():
            raise ScenarioError(f"{self.name}: this run did not record its packets (record.packets)")
        for port in self.host_ports:
            if name is not None and name.split() == port.name.split():
                return port
        try:
            return self.port(name)
        except ScenarioError as error:
            some = [port.name for port in self.host_ports]
            raise ScenarioError(", ".join([str(error), *some]) if some else str(error)) from error

    def port(self, name: str | None = None) -> Port:
        """Return the port of this name, by default the first of `ports`.

        Raises:
            ScenarioError: its packets were not recorded.

        """
        if not self.ports:
            raise ScenarioError(f"{self.name}: no packet reached a switch port that was recorded; {_AGAIN}")
        if name is None:
            return self.ports[0]
        for port in self.ports:
            if "".join(name.replace("->", "→").split()) == "".join(port.name.split()):
                return port
        known = ", ".join(port.name.replace(" → ", "->") for port in self.ports)
        raise ScenarioError(f"{self.name}: the packets at port {name!r} were not recorded; there are: {known}")

    def flow(self, wish: str) -> Flow:
        """Return a flow by its number, or the `slowest`: the one that took longest.

        Raises:
            ScenarioError: there is none.

        """
        if wish == "slowest":
            if not self.flows:
                raise ScenarioError(f"{self.name}: no message was handed over in this run")
            return max(self.flows.values(), key=lambda flow: (flow.end - flow.begin, -flow.id))
        if wish.isdecimal() and int(wish) in self.flows:
            return self.flows[int(wish)]
        numbers = sorted(self.flows)
        some = ", ".join(map(str, numbers[:5])) + (f", ... {numbers[-1]}" if len(numbers) > 5 else "")
        raise ScenarioError(f"{self.name}: there is no flow {wish!r}; allowed: slowest, {some}")

    def counted(self, port: Port, column: str) -> int:
        """Return what the table of ports says of a port."""
        return int(self._tables["ports"].filter(pl.col("link") == port.link)[column].item())

    def summed(self, column: str) -> int:
        """Return a sum over the table of flows."""
        return int(self._tables["flows"][column].sum())

    def at_port(self, link: int) -> AtPort:
        """Return the packets at a port."""
        if link not in self._at_port:
            here = self.packets["link"] == link
            self._at_port[link] = AtPort(self.packets if here.all() else self.packets.filter(here))
        return self._at_port[link]

    def waiting_at(self, link: int) -> Waiting:
        """Tell who waits at a port."""
        return Waiting(self.at_port(link).rows)


class AtPort:
    """The packets at a port."""

    def __init__(self, rows: pl.DataFrame) -> None:
        self.rows = rows
        """All of them, in the order in which they arrived."""
        flow = rows["flow"].fill_null(-1).to_numpy()
        order = np.argsort(flow, kind="stable")
        flows, starts = np.unique(flow[order], return_index=True)
        self._order = order.astype(np.uint32)
        ends = np.append(starts[1:], len(flow))[: len(starts)]
        places = zip(starts.tolist(), ends.tolist(), strict=True)
        self._of = {flow: place for flow, place in zip(flows.tolist(), places, strict=True) if flow >= 0}

    @property
    def flows(self) -> Collection[int]:
        """The flows with payload among them."""
        return self._of.keys()

    def of(self, flow: int, *columns: str) -> pl.DataFrame:
        """Return the packets with payload of a flow, and of these the columns named."""
        start, end = self._of.get(flow, (0, 0))
        return self.rows.select(columns)[self._order[start:end]]


class _Owners:
    """Which flow of a connection and side the payload at an offset belongs to: the last that begins there or before."""

    def __init__(self, flows: Iterable[Flow]) -> None:
        known = np.array(
            [(flow.connection * 2 + flow.from_client, flow.offset, flow.id) for flow in flows], dtype=np.int64
        ).reshape(-1, 3)
        sides, offsets, self._flow = known[np.lexsort((known[:, 2], known[:, 1], known[:, 0]))].T
        self._sides, side = np.unique(sides, return_inverse=True)
        # Ranks in place of offsets, so that a side and an offset are one number, however large they are.
        self._offsets, rank = np.unique(offsets, return_inverse=True)
        self._keys = side * (len(self._offsets) + 1) + rank + 1

    def of(self, packets: pl.DataFrame) -> NDArray[np.int64]:
        """Return the flow of each packet; -1 if there is none."""
        found = np.full(len(packets), -1, dtype=np.int64)
        if not len(self._flow):
            return found
        for first in range(0, len(packets), _AT_ONCE):
            part = packets.slice(first, _AT_ONCE)
            own = part["connection"].to_numpy() * 2 + part["from_client"].to_numpy()
            side = np.minimum(np.searchsorted(self._sides, own), len(self._sides) - 1)
            least = side * (len(self._offsets) + 1)
            rank = np.searchsorted(self._offsets, part["offset_bytes"].to_numpy(), side="right")
            last = np.searchsorted(self._keys, least + rank, side="right") - 1
            belongs = (self._sides[side] == own) & (last >= 0) & (self._keys[last] > least)
            found[first : first + len(part)] = np.where(belongs, self._flow[last], -1)
        return found


class Waiting:
    """Who waits at a port at any time."""

    def __init__(self, rows: pl.DataFrame) -> None:
        self._row = rows["row"].to_numpy()
        self._flow = rows["flow"].fill_null(-1).to_numpy()
        self._wire = rows["wire_bytes"].to_numpy()
        self._begin = rows["begin_ps"].fill_null(-1).to_numpy()
        # Where packets overtake one another, begins are not in order: up to here all have begun.
        self._all_begun = np.maximum.accumulate(self._begin) if len(rows) else self._begin

    def found_by(self, row: int, at: int) -> tuple[int, int, dict[int, int]]:
        """Return what the packet of this row found: packets and bytes waiting, and packets by flow (-1: no payload)."""
        # As wide as what it is looked for in: otherwise each search would convert all of that.
        until = int(np.searchsorted(self._row, self._row.dtype.type(row)))
        first = int(np.searchsorted(self._all_begun[:until], at, side="right"))
        waits = self._begin[first:until] > at
        flows, counts = np.unique(self._flow[first:until][waits], return_counts=True)
        by_flow = {int(flow): int(count) for flow, count in zip(flows, counts, strict=True)}
        return int(waits.sum()), int(self._wire[first:until][waits].sum()), by_flow


def size(value: float) -> str:
    """Write a number of bytes in a suitable binary unit."""
    for factor, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if value >= factor:
            return f"{value / factor:.4g} {unit}"
    return f"{value:.0f} bytes"


def count(number: int, one: str, many: str | None = None) -> str:
    """Write a number with its noun."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _ps(seconds: float) -> int:
    # Exact: a time below 37 minutes has fewer bits than a float.
    return round(seconds * PS_PER_S)
