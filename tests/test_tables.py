"""Tables of earlier and later versions on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

import incast
from incast import tables

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Command

RECORDED = ("queues", "windows", "events", "packets", "incasts", "alarms")


def _as_version_1(directory: Path) -> None:
    """Rewrite the tables as they were before they stated a version: with times of what was recorded in seconds."""
    for path in directory.glob("*.parquet"):
        table = pl.read_parquet(path)
        if path.stem in ("queues", "windows", "events", "incasts", "alarms"):
            times = [name for name in table.columns if name.endswith("_ps") and name not in ("armed_ps", "rto_ps")]
            table = table.with_columns(pl.col(times) / 1e12).rename({name: f"{name[:-2]}s" for name in times})
        table.write_parquet(path)


def test_results_of_the_version_before_are_read_as_those_of_today(tmp_path: Path, inside: Command) -> None:
    changes = {"traffic.requests.workers": 12, "traffic.requests.rounds": 1, "switch.marker": "ein"}
    result = incast.run("incast", set=changes, inside=True)
    directory = tmp_path / "run"
    result.write(directory)
    today = inside("explain", directory, "slowest").stdout
    assert today
    _as_version_1(directory)
    assert "time_s" in pl.read_parquet(directory / "queues.parquet").columns
    for name in RECORDED:
        assert tables.read(directory / f"{name}.parquet").equals(result.table(name)), name
    assert not result.table("queues").is_empty()
    assert inside("explain", directory, "slowest").stdout == today
    assert inside("plot", directory).returncode == 0


def test_results_of_a_later_version_are_refused_with_their_file(tmp_path: Path, inside: Command) -> None:
    incast.run("incast", set={"traffic.requests.workers": 4, "traffic.requests.rounds": 1}, inside=True).write(tmp_path)
    path = tmp_path / "events.parquet"
    pl.read_parquet(path).write_parquet(path, metadata={"incast.tables": "3"})
    for command in (["report", tmp_path], ["explain", tmp_path, "slowest"]):
        said = inside(*command).stderr
        assert f"{path}: has tables of version 3, and this incast reads versions 1 to 2" in said
