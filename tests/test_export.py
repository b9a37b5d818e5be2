"""What a run's results look like as files of other programs."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import polars as pl
import pytest

import incast
from conftest import Command

SCENARIO = """
[topology]
kind = "star"
hosts = 300
link = { rate = "1Gbps", delay = "10us" }
[switch]
buffer = { name = "static", limit = "1MB", count_in_service = true }
[tcp]
profile = "linux"
[traffic.a]
kind = "incast"
senders = [258, 1, 2]
size = "3000B"
start = "1234567ps"
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    (folder / "small.toml").write_text(SCENARIO, encoding="utf-8")
    incast.run(folder / "small.toml").write(folder / "run")
    return folder / "run"


def test_completion_times_are_written_as_hpcc_writes_them(run: Path, incast: Command) -> None:
    done = incast("export", run, "--fct", run.parent / "fct.txt")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in (run.parent / "fct.txt").read_text(encoding="utf-8").splitlines()]
    flows = pl.read_parquet(run / "flows.parquet").sort("end_s", "id")
    # 11.(n / 256).(n % 256).1 in hexadecimal.
    addresses = {258: "0b010201", 1: "0b000101", 2: "0b000201"}
    assert [row[0] for row in rows] == [addresses[host] for host in flows["source_host"]]
    assert {row[1] for row in rows} == {"0b000001"}
    assert len({row[2] for row in rows}) == 3
    times = flows.select(pl.col("start_s", "fct_s", "ideal_fct_s") * 1e9).rows()
    assert [[int(word) for word in row[4:]] for row in rows] == [[3000, *map(round, numbers)] for numbers in times]


def test_flows_that_were_written_give_the_same_messages(run: Path, incast: Command) -> None:
    again = run.parent / "again.toml"
    assert incast("export", run, "--trace", run.parent / "flow.txt").returncode == 0
    text = (run.parent / "flow.txt").read_text(encoding="utf-8")
    assert text.splitlines()[:2] == ["3", "258 0 3 100 3000 0.000001234567"]
    traffic = '[traffic.a]\nkind = "trace"\nfile = "flow.txt"\n'
    again.write_text(SCENARIO[: SCENARIO.index("[traffic")] + traffic, encoding="utf-8")
    assert incast("run", again, "--out", run.parent / "second").returncode == 0
    same = ("source_host", "destination_host", "size_bytes", "start_s", "fct_s")
    first, second = (pl.read_parquet(one / "flows.parquet").select(same) for one in (run, run.parent / "second"))
    assert first.equals(second)


def test_tables_are_written_as_comma_separated_values(run: Path, incast: Command) -> None:
    assert incast("export", run, "--csv", run.parent / "csv").returncode == 0
    names = {path.stem for path in run.glob("*.parquet")}
    assert {path.stem for path in (run.parent / "csv").iterdir()} == names
    with (run.parent / "csv" / "flows.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["fct_s"]) for row in rows] == pl.read_parquet(run / "flows.parquet")["fct_s"].to_list()


def test_parquet_files_say_what_they_are_of_and_in_which_units(run: Path) -> None:
    told = pl.read_parquet_metadata(run / "flows.parquet")
    assert told["incast.seed"] == "1"
    assert json.loads(told["incast.units"])["fct_s"] == "s"


def test_what_cannot_be_exported_is_said(run: Path, incast: Command, tmp_path: Path) -> None:
    def refused(*arguments: object) -> str:
        done = incast("export", *map(str, arguments))
        assert done.returncode == 2, done.stdout
        return done.stderr

    assert "name what to write" in refused(run)
    assert "flows.parquet is missing" in refused(tmp_path, "--fct", tmp_path / "f")
    (tmp_path / "flows.parquet").write_bytes(b"PAR1")
    assert "cannot be read" in refused(tmp_path, "--csv", tmp_path / "csv")
    assert re.search("did not record its (events|packets)", refused(run, "--perfetto", tmp_path / "p"))
    endless = (
        SCENARIO.replace('kind = "incast"', 'kind = "long"')
        .replace('size = "3000B"', "receiver = 0")
        .replace('start = "1234567ps"', "")
    )
    scenario = tmp_path / "endless.toml"
    scenario.write_text(endless + '[run]\nstop_at = "1ms"\n', encoding="utf-8")
    assert incast("run", scenario, "--out", tmp_path / "run").returncode == 0
    assert "3 flows of this run have no end" in refused(tmp_path / "run", "--trace", tmp_path / "f")
