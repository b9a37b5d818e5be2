"""The flows of a run, as files that other simulators of the field read and write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from incast import tables
from incast._native import ScenarioError

if TYPE_CHECKING:
    from pathlib import Path

# What HPCC's own examples have, where our runs know nothing of the kind.
_PRIORITY_GROUP, _PORT = 3, 100
_FIRST_PORT, _PORTS = 10_000, 50_000
_FIRST_ADDRESS = 0x0B000001


def fct(directory: Path) -> str:
    """Return the completed flows in the format of HPCC's `fct.txt`, by time of completion.

    The columns are the addresses of source and destination in hexadecimal, source and destination port, bytes, start,
    completion time, and completion time on an idle network, the last three in nanoseconds. Host `n` has HPCC's address
    for it, 11.(n / 256).(n % 256).1; ports stand for connections, as in captures.

    Raises:
        ScenarioError: the run's tables are missing or cannot be read.

    """
    flows = _flows(directory).filter(pl.col("end_s").is_not_null() & pl.col("ideal_fct_s").is_not_null())
    return "".join(
        f"{_address(source):08x} {_address(destination):08x} {_FIRST_PORT + connection % _PORTS} {_PORT} {size} "
        f"{_ns(start)} {_ns(fct_s)} {_ns(ideal)}\n"
        for source, destination, connection, size, start, fct_s, ideal in flows.sort("end_s", "id")
        .select(
            "source_host", "destination_host", "connection", "size_bytes", "start_s", "fct_s", "ideal_fct_s"
        )
        .iter_rows()
    )  # fmt: skip


def trace(directory: Path) -> str:
    """Return the flows in the format of HPCC's `flow.txt`, by start, which traffic of kind `trace` reads, too.

    Raises:
        ScenarioError: the run's tables are missing or cannot be read, or flows have no end.

    """
    flows = _flows(directory).sort("start_s", "id")
    endless = flows.filter(pl.col("size_bytes").is_null()).height
    if endless:
        raise ScenarioError(f"{directory}: {endless} flows of this run have no end, for which flow.txt has no words")
    lines = (
        f"{source} {destination} {_PRIORITY_GROUP} {_PORT} {size} {_seconds(start)}\n"
        for source, destination, size, start in flows.select(
            "source_host", "destination_host", "size_bytes", "start_s"
        ).iter_rows()
    )
    return f"{flows.height}\n{''.join(lines)}"


def csv(directory: Path) -> dict[str, str]:
    """Return every table of a run as comma-separated values, by name.

    Raises:
        ScenarioError: the run's tables are missing or cannot be read.

    """
    names = sorted(path.stem for path in directory.glob("*.parquet"))
    return {name: _table(directory, name).write_csv() for name in names or ("flows",)}


def _flows(directory: Path) -> pl.DataFrame:
    return _table(directory, "flows")


def _table(directory: Path, name: str) -> pl.DataFrame:
    path = directory / f"{name}.parquet"
    if not path.is_file():
        raise ScenarioError(f"{directory}: no results of a run here: {path.name} is missing")
    try:
        return tables.read(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ScenarioError(f"{path}: cannot be read: {error}") from error


def _address(host: int) -> int:
    return _FIRST_ADDRESS + (host // 256 << 16) + (host % 256 << 8)


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _seconds(seconds: float) -> str:
    """Exact to a picosecond, and without zeros at the end."""
    whole, fraction = divmod(round(seconds * 1e12), 10**12)
    return f"{whole}.{fraction:012}".rstrip("0").rstrip(".")
