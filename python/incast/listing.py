"""Pages about protocols and keys for the terminal, from what the program knows of them."""

from __future__ import annotations

import json
import re
import shutil
import textwrap
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from incast import _native
from incast._native import ScenarioError
from incast.keys import Schema, is_kinds, is_table, kind_of, place_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from incast.keys import Key, Node

_WIDTH = min(100, shutil.get_terminal_size((100, 24)).columns)


def protocol(name: str) -> str:
    """Return a page about a protocol at every place that has one of this name.

    Raises:
        ScenarioError: there is none.

    """
    parts: list[dict[str, Any]] = json.loads(_native.catalog())["protocols"]
    found = [part for part in parts if part["name"] == name]
    if not found:
        raise _unknown("protocol", name, sorted({part["name"] for part in parts}))
    schema = Schema(json.loads(_native.schema()))
    return "\n\n".join("\n".join(_part(part, schema)) for part in found)


def keys(table: str | None) -> str:
    """Return the keys of a table of scenarios, such as `tcp`, `traffic.rounds` or `link`; without one, the tables.

    Raises:
        ScenarioError: there is no such table.

    """
    schema = Schema(json.loads(_native.schema()))
    tables = dict(_tables(schema))
    if table is None:
        head = "Tables of a scenario; incast list keys NAME shows the keys of one:"
        return "\n".join([head, "", *(f"  {name}" for name in tables)])
    if table not in tables:
        raise _unknown("table", table, list(tables))
    about, found = tables[table]
    return "\n".join([*_wrapped(about), "", *_keys(found)])


def _tables(schema: Schema) -> Iterator[tuple[str, tuple[str, list[Key]]]]:
    """Return each table by name, with its description and its keys: first those at the top level, then nested ones."""
    top = {}
    for key, node in sorted(schema.root["properties"].items()):
        inner = node.get("additionalProperties")
        name = schema.referred(inner if isinstance(inner, dict) else node)
        if name is not None:
            top[name] = key
    nested = [name for name in schema.reached(schema.root) if name not in top]
    for definition, name in (*top.items(), *((name, _dashed(name)) for name in nested)):
        node = schema.definitions[definition]
        if is_table(node):
            yield name, (node.get("description", ""), schema.keys(node))
        elif is_kinds(node):
            for variant in node["oneOf"]:
                yield from _kind(name, variant, schema)


def _kind(name: str, variant: Node, schema: Schema) -> Iterator[tuple[str, tuple[str, list[Key]]]]:
    key, kind = kind_of(variant)
    yield f"{name}.{kind}", (variant["description"], schema.keys(variant, without=key))


def _part(part: dict[str, Any], schema: Schema) -> Iterator[str]:
    place, name = part["place"], part["name"]
    table = next(
        table
        for table in ("switch", "stack")
        if place in schema.definitions[str(schema.referred(schema.root["properties"][table]))]["properties"]
    )
    yield f'{name}: {table}.{place} = "{name}"'
    yield from _wrapped(part["summary"])
    yield from ("", *_wrapped(f"Source: {part['source']}"))
    for title, sentences in (("Needs", part["requires"]), ("Deviates", part["deviations"])):
        yield from ("", *_listed(title, sentences)) if sentences else ()
    (choice,) = [one for one in schema.definitions if one.endswith("Choice") and place_of(one) == place]
    (variant,) = [one for one in schema.definitions[choice]["oneOf"] if kind_of(one)[1] == name]
    found = schema.keys(variant, without="name")
    yield from ("", "Parameters:" if found else "Parameters: none")
    yield from _keys(found)


def _listed(title: str, sentences: Iterable[str]) -> Iterator[str]:
    yield f"{title}:"
    for sentence in sentences:
        yield from textwrap.wrap(_plain(sentence), _WIDTH, initial_indent="  - ", subsequent_indent="    ")


def _keys(found: Iterable[Key]) -> Iterator[str]:
    for key in found:
        facts = [_plain(key.type), *(["required"] if key.required else [])]
        facts += [f"default {_plain(key.default)}"] if key.default is not None else []
        yield from textwrap.wrap(
            f"{key.name}: {'; '.join(facts)}", _WIDTH, initial_indent="  ", subsequent_indent=" " * 4
        )
        yield from textwrap.wrap(_plain(key.text), _WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)
        for word, meaning in key.values:
            about = f'"{word}": {_plain(meaning)}'
            yield from textwrap.wrap(about, _WIDTH, initial_indent=" " * 6 + "- ", subsequent_indent=" " * 8)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(_plain(text), _WIDTH)


def _plain(text: str) -> str:
    """Write Markdown as text: links as their words, code and escaped letters as they are."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"\\([*<\[\]])", r"\1", text).replace("`", "")


def _dashed(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


def _unknown(what: str, name: str, known: list[str]) -> ScenarioError:
    near = get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]!r}? There are" if near else "there are"
    return ScenarioError(f"unknown {what} {name!r}; {hint}: {', '.join(known)}")
