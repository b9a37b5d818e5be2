"""The gallery: every number in a caption is that of the picture, and every command draws it."""

from __future__ import annotations

import csv
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from incast.studies import reading

ROOT = Path(__file__).parents[1]
FIGURE = re.compile(r"```{figure} images/(?P<name>[\w-]+)\.png\n:alt: (?P<alt>.*)\n\n(?P<caption>(?:.+\n)+)```\n")
CAPTIONS = {
    match["name"]: (match["alt"], " ".join(match["caption"].split()))
    for match in FIGURE.finditer((ROOT / "docs/gallery.md").read_text(encoding="utf-8"))
}


def rows(path: str) -> list[dict[str, str]]:
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def goodput() -> list[int]:
    """From how many senders on there are timeouts, of NewReno and DCTCP, and up to how many `credit` has none."""
    every = rows("docs/images/goodput.csv")
    late = {name: [int(row["senders"]) for row in every if row["curve"] == name and float(row["timeouts"])]
            for name in ("NewReno", "DCTCP", "credit")}  # fmt: skip
    for name in ("NewReno", "DCTCP"):
        later = {int(row["senders"]) for row in every if row["curve"] == name and int(row["senders"]) > min(late[name])}
        assert later <= set(late[name]), f"{name} has no timeouts with some more senders"
    assert not late["credit"]
    return [min(late["NewReno"]), min(late["DCTCP"]), max(int(row["senders"]) for row in every)]


def leaf_spine() -> list[int]:
    scenario: dict[str, Any] = tomllib.loads((ROOT / "scenarios/leaf-spine.toml").read_text(encoding="utf-8"))
    network = scenario["topology"]
    return [scenario["traffic"]["messages"]["flows"], network["leaves"] * network["hosts_per_leaf"]]


def of_grid() -> list[int]:
    axes = ("sender", "size_kib", "rto_min_ms", "workers")
    return [len({tuple(row[axis] for axis in axes) for row in rows("validation/linux/results/grid.csv")})]


def held_out() -> list[int]:
    (points,) = {int(row["points"]) for row in rows("validation/ns3/results/grid-held-out-agreement.csv")}
    return [points]


def rates() -> list[int]:
    return sorted({int(row["rate"]) for row in rows("studies/linux/senders.csv")})


# The numbers of captions, and of what is said to those who cannot see the picture, from what is drawn.
NUMBERS: dict[str, Callable[[], list[int]]] = {
    "goodput": goodput,
    "linux-senders": rates,
    "linux-grid": of_grid,
    "ns3-grid-held-out": held_out,
    "ns3-leaf-spine": leaf_spine,
}


@pytest.mark.parametrize("name", CAPTIONS)
def test_the_numbers_of_a_caption_are_those_of_what_is_drawn(name: str) -> None:
    # Without commands, links, and the names of figures, equations, percentiles and simulators.
    plain = re.sub(r"`[^`]*`|\]\([^)]*\)|(?:[Ff]igure|[Ee]quation) \d+|99th|ns-3", "", " ".join(CAPTIONS[name]))
    found = [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", plain)]
    assert found == (NUMBERS[name]() if name in NUMBERS else [])


def test_the_alternative_text_of_shared_buffers_names_what_was_varied() -> None:
    congested = sorted({int(row["congested_ports"]) for row in rows("studies/shared-buffer/tolerance.csv")})
    assert (congested[0], congested[-1]) == (0, 8)
    assert "with zero to eight other ports congested" in CAPTIONS["incast-tolerance"][0]


def test_every_command_of_the_gallery_leads_to_what_it_names() -> None:
    said = " ".join(caption for _, caption in CAPTIONS.values())
    figures = re.findall(r"`incast reproduce (\w+) --figure ([\w-]+)`", said)
    assert len(figures) == 4
    for paper, figure in figures:
        folder = ROOT / "studies" / paper
        (file,) = [file for file in (folder / f"{figure}.toml", folder / f"figure-{figure}.toml") if file.is_file()]
        assert reading.read(file).panels
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`make ([\w-]+)`", said):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for paper in re.findall(r"`incast reproduce (\w+)`", said):
        assert (ROOT / "studies" / paper / "paper.toml").is_file()


def test_every_picture_of_the_pages_is_in_the_gallery() -> None:
    shown = {path.stem for path in (ROOT / "docs/images").glob("*.png")}
    # The half of the grid on which the tolerances were found; its picture is beside the other on the page.
    assert shown - {"ns3-grid-work"} == set(CAPTIONS)
