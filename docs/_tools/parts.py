"""Generates the reference of protocols from the descriptions in the registry."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from incast.keys import Schema, anchor, escaped, kind_of, place_of, split_default
from scenario_keys import entries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from incast.keys import Key, Node

Part = dict[str, Any]
# The tables in which a scenario names a protocol.
TABLES = ("switch", "stack")


def page(parts: list[Part], root: Node) -> str:
    """Write a section for each place, with one for each of its protocols."""
    return "\n".join(_page(parts, Schema(root)))


def _page(parts: list[Part], schema: Schema) -> Iterator[str]:
    for place, here in groupby(parts, key=lambda part: str(part["place"])):
        table, description = _in_a_scenario(place, schema)
        yield from (f"({anchor('place', place)})=", "", f"## {place.capitalize()}", "")
        yield from (f"`{place}` under `[{table}]`. {description}", "")
        for part in here:
            yield from _part(part, schema)


def _part(part: Part, schema: Schema) -> Iterator[str]:
    place, name = part["place"], part["name"]
    yield from (f"({anchor(place, name)})=", "", f"### `{name}`", "")
    yield from (_sentence(part["summary"]), "", f"**Source:** {_sentence(part['source'])}", "")
    if part["requires"]:
        yield from ("**Needs:**", "", *(f"- {_sentence(text)}" for text in part["requires"]), "")
    if keys := _parameters(place, name, schema):
        yield from ("**Parameters:**", "", *entries(f"{place}-{name}", keys), "")
    else:
        yield from ("**Parameters:** none.", "")
    if part["deviations"]:
        yield from ("**Deviations:**", "", *(f"- {_sentence(text)}" for text in part["deviations"]), "")
    else:
        yield from ("**Deviations:** none known.", "")


def _parameters(place: str, name: str, schema: Schema) -> list[Key]:
    (choice,) = [one for one in schema.definitions if one.endswith("Choice") and place_of(one) == place]
    (variant,) = [one for one in schema.definitions[choice]["oneOf"] if kind_of(one)[1] == name]
    return schema.keys(variant, without="name")


def _in_a_scenario(place: str, schema: Schema) -> tuple[str, str]:
    """Return the table with the key of a place, and the description of the key."""
    for table in TABLES:
        name = schema.referred(schema.root["properties"][table])
        properties = schema.definitions[name]["properties"] if name else {}
        if place in properties:
            return table, split_default(escaped(properties[place]["description"]))[0]
    raise LookupError(place)


def _sentence(text: str) -> str:
    text = escaped(text[0].upper() + text[1:])
    return text if text.endswith(".") else text + "."
