"""The reference pages list everything that the program knows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import catalog
import commands
import incast
import parts
import scenario_keys
from incast import _native
from incast.keys import UnknownShapeError


def properties(node: object, *, of_parts: bool = False) -> Iterator[tuple[str, dict[str, Any]]]:
    """Walk through a schema without knowing what its definitions mean."""
    if isinstance(node, list):
        for one in node:
            yield from properties(one, of_parts=of_parts)
    elif isinstance(node, dict):
        yield from node.get("properties", {}).items()
        for key, one in node.items():
            if of_parts or not key.endswith("Choice"):
                yield from properties(one, of_parts=of_parts)


def test_every_key_of_every_table_has_an_entry() -> None:
    schema = incast.schema()
    page = scenario_keys.page(schema)
    known = [name for name, node in properties(schema) if "const" not in node]
    shown = re.findall(r"^\[\[`(\w+)`\]\(#[\w-]+\)\]\{#[\w-]+ \.key\} \[.+\]\{\.facts\}\n: \S", page, re.MULTILINE)
    assert sorted(shown) == sorted(known)
    anchors = re.findall(r"\{#([\w-]+) ", page) + re.findall(r"^\(([\w-]+)\)=", page, re.MULTILINE)
    assert len(anchors) == len(set(anchors))


def test_defaults_ranges_words_and_units_are_told() -> None:
    page = scenario_keys.page(incast.schema())
    assert re.search(r"`timeout`.*table-duration.*default `\"40ms\"`\]", page)
    assert re.search(r"`every`.*whole number, 1 to 1,000; default `2`", page)
    assert '  - `"cwnd"`: The congestion window (Linux).' in page
    assert "Units: `bps`, `kbps`, `Mbps`, `Gbps`, `Tbps`, `bit/s`, " in page


def test_a_default_that_the_schema_and_its_text_tell_differently_is_found() -> None:
    schema = incast.schema()
    schema["definitions"]["Delay"]["properties"]["every"]["default"] = 3
    with pytest.raises(UnknownShapeError, match="every"):
        scenario_keys.page(schema)


def test_a_shape_that_the_reference_does_not_know_is_an_error() -> None:
    schema = incast.schema()
    schema["definitions"]["Tcp"]["properties"]["mss"] = {"description": "Payload.", "not": {}}
    with pytest.raises(UnknownShapeError):
        scenario_keys.page(schema)


def test_every_part_has_a_section_with_all_it_says_of_itself() -> None:
    entries = json.loads(_native.catalog())["protocols"]
    page = parts.page(entries, incast.schema())
    sections = re.split(r"^\((?!place-)([\w-]+)\)=$", page, flags=re.MULTILINE)
    found = dict(zip(sections[1::2], sections[2::2], strict=True))
    assert list(found) == [f"{entry['place']}-{entry['name']}" for entry in entries]
    for entry in entries:
        section = found[f"{entry['place']}-{entry['name']}"]
        for sentence in [entry["source"], *entry["requires"], *entry["deviations"]]:
            assert sentence[1:] in section
    assert "`initial_alpha`" in found["sender-dctcp"]
    assert "`threshold`" in found["marker-ecn-threshold"]


def test_every_workload_and_every_command_is_listed() -> None:
    entries = json.loads(_native.catalog())["workloads"]
    assert catalog.workloads(entries).count("\n| `") == len(entries)
    page = commands.page()
    for command in ("run", "check", "schema", "list", "example", "plot", "demo", "bench leaf-spine"):
        assert f"## `incast {command}`\n\n```text\nUsage: incast {command}" in page


# Sphinx checks the links of the site: a broken one is a warning, and warnings are errors.
@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_of_the_pages_outside_the_site_lead_to_files(name: str) -> None:
    root = Path(__file__).parents[1]
    links = re.findall(r"\]\(([^)\s#]+)", (root / name).read_text(encoding="utf-8"))
    assert [link for link in links if "://" not in link and not (root / link).exists()] == []
