"""The tables of a run on disk, of this version or the one before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from incast._native import ScenarioError, tables_version

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_VERSION = "incast.tables"
PS_PER_S = 10**12
# Version 1, which its files do not state, had these times in seconds: exact in less than 37 minutes.
_IN_SECONDS = {
    "queues": ("time",),
    "windows": ("time", "srtt"),
    "events": ("time",),
    "incasts": ("begin", "end", "drained", "ein_from", "ein_until", "delay"),
    "alarms": ("begin", "end"),
}


def read(path: Path, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Read a table, or these columns of it, with the columns of today whichever version wrote it.

    Raises:
        ScenarioError: a later version of this program wrote it.
        OSError: the file cannot be read.
        pl.exceptions.PolarsError: it is not a Parquet file, or has not these columns.

    """
    version = pl.read_parquet_metadata(path).get(_VERSION, "1")
    if version not in map(str, range(1, tables_version() + 1)):
        raise ScenarioError(
            f"{path}: has tables of version {version}, and this incast reads versions 1 to {tables_version()}: "
            "read it with a later incast"
        )
    there = pl.read_parquet_schema(path)
    earlier = {f"{name}_ps": f"{name}_s" for name in _IN_SECONDS.get(path.stem, ()) if f"{name}_s" in there}
    table = pl.read_parquet(path, columns=None if columns is None else [earlier.get(name, name) for name in columns])
    renamed = {old: new for new, old in earlier.items()}
    return table.select(
        (pl.col(name) * PS_PER_S).round().cast(pl.Int64).alias(renamed[name]) if name in renamed else pl.col(name)
        for name in table.columns
    )
