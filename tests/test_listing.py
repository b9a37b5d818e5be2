"""Pages for the terminal, marks below errors, and what a new study begins with."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import incast
from conftest import SMALL, Command
from incast import _native, carets, listing, text

PROTOCOLS = json.loads(_native.catalog())["protocols"]


@pytest.mark.parametrize("name", sorted({part["name"] for part in PROTOCOLS}))
def test_a_protocol_has_a_page_at_each_of_its_places(name: str) -> None:
    page = listing.protocol(name)
    for part in (part for part in PROTOCOLS if part["name"] == name):
        assert f'.{part["place"]} = "{name}"' in page
        words = " ".join(page.split())
        assert all(" ".join(part[what].replace("`", "").split()) in words for what in ("summary", "source"))
    # No Markdown is left, and every line fits.
    assert "](" not in page
    assert max(map(len, page.splitlines())) <= 100


def test_every_table_of_a_scenario_can_be_read() -> None:
    tables = {table["table"]: table for table in listing.keys_as_json(None)}
    assert {"scenario", "tcp", "topology.fat-tree", "traffic.rounds", "link", "noise.uniform"} <= set(tables)
    everything, names = listing.keys("all"), listing.keys(None)
    for name, table in tables.items():
        assert name in names
        page = listing.keys(name)
        assert page in everything
        assert all(f"  {key['name']}: " in page for key in table["keys"]), name
        # A table that is not at the top level says which keys hold it.
        assert table["places"] or name.split(".")[0] in {"scenario", *incast.schema()["properties"]}, name
    assert "](" not in everything
    assert max(map(len, everything.splitlines())) <= 100


@pytest.mark.parametrize(
    ("path", "tables", "keys"),
    [
        ("topology.leaf-spine", ["topology.leaf-spine"], 5),
        ("tcp.rto_min", ["tcp"], 1),
        ("rto_min", ["tcp"], 1),
        ("topology.star.link.rate", ["link"], 1),
        ("noise", ["noise.none", "noise.uniform", "noise.exponential", "noise.measured"], 3),
        ("topology.star.link", ["topology.star", "link"], None),
    ],
)
def test_a_key_is_found_by_its_path(path: str, tables: list[str], keys: int | None) -> None:
    found = listing.keys_as_json(path)
    assert [table["table"] for table in found] == tables
    assert keys in (None, sum(len(table["keys"]) for table in found))
    assert [line for line in listing.keys(path).splitlines() if line in tables] == tables


def test_what_is_unknown_is_said_with_what_is_near() -> None:
    with pytest.raises(incast.ScenarioError, match=r"key 'traffic\.round'; did you mean 'traffic\.rounds'\?"):
        listing.keys("traffic.round")
    with pytest.raises(incast.ScenarioError, match="unknown protocol 'x'; there are: all-at-once"):
        listing.protocol("x")


def test_a_protocol_can_be_read_by_a_program(incast: Command) -> None:
    parts = {part["place"]: part for part in json.loads(incast("list", "protocols", "dctcp", "--json").stdout)}
    assert set(parts) == {"sender", "echo"}
    found = {one["name"]: one["default"] for one in parts["sender"]["parameters"]}
    assert found == {"initial_alpha": "1024", "shift": "4"}


def test_a_table_fits_its_width_and_loses_nothing() -> None:
    rows = [["a_long_name", "word " * 20, "[bold] :smile: x"], ["b", "", "y" * 60]]
    shown = text.fitting(["name", "about", "marks"], rows, 50)
    assert max(map(len, shown.splitlines())) <= 50
    assert shown.count("word") == 20
    assert shown.count("y") == 60
    assert "a_long_name" in shown
    assert all(mark in " ".join(shown.split()) for mark in ("[bold]", ":smile:"))
    wide = text.fitting(["name", "about", "marks"], rows, 250)
    assert len(wide.splitlines()) == 3


def test_an_error_shows_its_line_with_a_mark_below_the_place(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("first\n\tkey = 3\n" + "x" * 300 + "\n", encoding="utf-8")
    shown = carets.shown(f"{file}:2:8: key: bad\n{file}:9:1: beyond\nand more").splitlines()
    assert shown == [
        f"{file}:2:8: key: bad", "     2 |  key = 3", "       |        ^", f"{file}:9:1: beyond", "and more",
    ]  # fmt: skip
    long = carets.shown(f"{file}:3:200: far").splitlines()
    assert max(map(len, long[1:])) <= 120
    assert long[2].index("^") - long[2].index("|") == 52
    assert carets.shown("<example incast>:1:1: it").splitlines()[1].endswith(_native.example("incast").split("\n")[0])
    assert carets.shown("<example none>:1:1: it") == "<example none>:1:1: it"


def test_an_error_in_a_dictionary_names_the_key_and_no_line() -> None:
    with pytest.raises(incast.ScenarioError) as error:
        incast.run({**scenario(), "seed": -1})
    assert str(error.value).startswith("<dict>: seed: ")


def scenario() -> dict[str, object]:
    import tomllib

    return tomllib.loads(SMALL)


def test_a_new_study_runs_as_it_is(incast: Command, tmp_path: Path) -> None:
    done = incast("new", "study", tmp_path / "mine")
    assert done.returncode == 0, done.stderr
    swept = incast("sweep", tmp_path / "mine" / "study.toml", "--out", tmp_path / "out", "--plots")
    assert swept.returncode == 0, swept.stderr
    assert {path.suffix for path in (tmp_path / "out").glob("study.*")} == {".csv", ".png", ".pdf"}
    assert "--plots" in incast("sweep", tmp_path / "mine" / "study.toml", "--shard", "1/2", "--plots").stderr
    again = incast("new", "study", tmp_path / "mine")
    assert again.returncode == 2
    assert "exists already" in again.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_learns_the_commands(incast: Command, shell: str) -> None:
    script = incast("completion", shell).stdout
    assert "reproduce" in script
    if shell == "bash":
        subprocess.run(["/bin/bash", "-n"], input=script, text=True, check=True)


def test_an_unknown_option_leads_to_the_help_of_its_command(incast: Command) -> None:
    assert "(see incast run --help)" in incast("run", "incast", "--worker", "3").stderr


def test_a_check_can_be_read_by_a_program(incast: Command) -> None:
    told = json.loads(incast("check", "incast", "--json").stdout)
    assert told["packet_hops"] > 0
    assert told["seconds"] > 0
    assert told["warnings"] == []
