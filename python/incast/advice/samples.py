"""What a sample of `incast-host sample` tells of a cluster."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from incast import scenarios, text
from incast._native import ScenarioError

if TYPE_CHECKING:
    from pathlib import Path

_COUNTS = ("connections", "bytes", "packets", "ce_packets", "incast_packets", "retransmitted_packets")
_TABLES = {"intervals": ("time_s", "direction", *_COUNTS), "bursts": ("time_s", "duration_s", "direction", *_COUNTS)}


@dataclass(frozen=True)
class Sample:
    """Bursts that came in at the host that asks."""

    device: str
    rate_bps: int
    bursts: int
    """Those of incast."""
    fan_in: int
    """99th percentile of the connections of a burst of incast."""
    response_bytes: int
    """Median of what a connection brought in a burst of incast."""
    ce_share: float
    retransmitted_share: float
    """Of the packets that came in."""

    def said(self, given: set[str]) -> tuple[str, ...]:
        """Say what was taken from it, but for the keys that are given, and what it cannot tell."""
        taken = {
            "rate": f"the rate of {self.device}, {text.rate(self.rate_bps)}",
            "fan_in": f"a fan-in of {self.fan_in}: 99 % of {self.bursts:,} bursts of incast have no more connections",
            "response": f"responses of {self.response_bytes:,} B: half of the bursts brought less for each connection",
        }
        own = [what for key, what in taken.items() if key not in given]
        lines = [f"Taken from the sample: {'; '.join(own)}."] if own else []
        marked, again = (f"{100 * share:.2f} %" for share in (self.ce_share, self.retransmitted_share))
        return (
            *lines,
            f"Of the packets that came in {marked} carried CE, and {again} were sent again or overtaken.",
            "A sample cannot tell the buffer of the port, the round trip without queues, or which flows are long.",
        )


def read(folder: Path) -> Sample:
    """Read the tables of a sample.

    Raises:
        ScenarioError: they are missing, or have no burst of incast.

    """
    path = folder / "summary.json"
    try:
        summary = json.loads(scenarios.text_of(path, "a sample", "no such file; incast-host sample writes it"))
        least, rate, device = int(summary["incast_connections"]), int(summary["rate_bps"]), str(summary["device"])
        (whole,) = [one for one in summary["directions"] if one["direction"] == "in"]
        packets = max(1, int(whole["packets"]))
        shares = [int(whole[key]) / packets for key in ("ce_packets", "retransmitted_packets")]
    except (ValueError, KeyError, TypeError) as error:
        raise ScenarioError(f"{path}: not the summary of a sample ({type(error).__name__}: {error})") from error
    table = folder / "bursts.csv"
    bursts = []
    for line, row in enumerate(csv.DictReader(io.StringIO(scenarios.text_of(table, "a sample"))), start=2):
        try:
            if row["direction"] == "in" and int(row["connections"]) >= least:
                bursts.append((int(row["connections"]), int(row["bytes"])))
        except (ValueError, KeyError, TypeError) as error:
            raise ScenarioError(f"{table}:{line}: not a burst of a sample ({type(error).__name__}: {error})") from error
    if not bursts:
        raise ScenarioError(f"{table}: no burst with {least} connections or more came in: there is no incast in it")
    connections = sorted(one for one, _ in bursts)
    each = sorted(size // one for one, size in bursts)
    fan_in = connections[-(-99 * len(bursts) // 100) - 1]
    return Sample(device, rate, len(bursts), fan_in, max(1, each[len(each) // 2]), shares[0], shares[1])


def parquet(folder: Path) -> dict[str, bytes]:
    """Make of the tables of a sample what results are: Parquet files, with the types of their columns.

    Raises:
        ScenarioError: they are missing, or no tables of a sample.

    """
    import polars as pl

    missing = "no such file; incast-host sample writes it"
    files = {}
    for name, columns in _TABLES.items():
        table = folder / f"{name}.csv"
        rows: dict[str, list[float | int | str]] = {column: [] for column in columns}
        for line, row in enumerate(csv.DictReader(io.StringIO(scenarios.text_of(table, "a sample", missing))), start=2):
            try:
                for column, values in rows.items():
                    values.append(_type(column)(row[column]))
            except (ValueError, KeyError, TypeError) as error:
                what = f"not a row of a sample ({type(error).__name__}: {error})"
                raise ScenarioError(f"{table}:{line}: {what}") from error
        types = {str: pl.String, float: pl.Float64, int: pl.Int64}
        frame = pl.DataFrame(rows, schema={column: types[_type(column)] for column in columns})
        buffer = io.BytesIO()
        frame.write_parquet(buffer)
        files[name] = buffer.getvalue()
    return files


def _type(column: str) -> type[str] | type[float] | type[int]:
    if column == "direction":
        return str
    return float if column.endswith("_s") else int
