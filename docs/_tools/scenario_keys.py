"""Generates the reference of scenario files from their JSON Schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

from incast.keys import (
    Schema,
    UnknownShapeError,
    anchor,
    escaped,
    is_kinds,
    is_table,
    is_value,
    is_words,
    kind_of,
    title,
    units,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from incast.keys import Key, Node

# The usual order in a scenario; other tables come last.
ORDER = ("run", "topology", "switch", "stack", "tcp", "traffic", "record")


def page(root: Node) -> str:
    """Write the sections for all tables and values."""
    return "\n".join(_page(Schema(root)))


def _page(schema: Schema) -> Iterator[str]:
    root = schema.root
    tables = {key: name for key, node in root["properties"].items() if (name := _table_behind(schema, node))}
    yield from ("## Top level", "", escaped(root["description"]), "")
    yield from entries("", schema.keys(root))
    for key in sorted(tables, key=lambda key: (ORDER.index(key) if key in ORDER else len(ORDER), key)):
        several = "additionalProperties" in root["properties"][key]
        yield from (*_target(tables[key]), f"## `[{key}{'.NAME' if several else ''}]`", "")
        # The description of the table would repeat that of its key.
        yield from (_only(schema, key).text, "")
        yield from _body(schema, tables[key])
    inner = [name for name in schema.reached(root) if name not in tables.values()]
    yield from ("## Nested tables", "")
    for name in inner:
        node = schema.definitions[name]
        if is_table(node) or is_kinds(node):
            yield from (*_target(name), f"### {title(name).capitalize()}", "", escaped(node["description"]), "")
            yield from _body(schema, name, level=4)
    yield from ("## Values", "")
    for name in inner:
        node = schema.definitions[name]
        if is_value(node):
            yield from (*_target(name), f"### {title(name).capitalize()}", "", escaped(node["description"]), "")
            if units(node):
                yield from (f"Units: {', '.join(f'`{unit}`' for unit in units(node))}.", "")
        elif not (is_table(node) or is_kinds(node) or is_words(node) or "anyOf" in node):
            raise UnknownShapeError(name)


def entries(table: str, keys: Iterable[Key]) -> Iterator[str]:
    """Write the keys of a table as a list of definitions, each with an anchor."""
    for key in keys:
        own = anchor("key", table, key.name) if table else anchor("key", key.name)
        facts = [key.type]
        if key.required:
            facts.append("**required**")
        if key.default is not None:
            facts.append(f"default {key.default}")
        yield f"[[`{key.name}`](#{own})]{{#{own} .key}} [{'; '.join(facts)}]{{.facts}}"
        yield f": {key.text}"
        yield ""
        for word, meaning in key.values:
            yield f'  - `"{word}"`: {meaning}'
        yield ""


def _table_behind(schema: Schema, node: Node) -> str | None:
    """Return the definition of the table that a key at the top level holds, itself or one of several by name."""
    if isinstance(node.get("additionalProperties"), dict):
        node = node["additionalProperties"]
    name = schema.referred(node)
    return name if name and (is_table(schema.definitions[name]) or is_kinds(schema.definitions[name])) else None


def _only(schema: Schema, key: str) -> Key:
    (only,) = schema.keys({"properties": {key: schema.root["properties"][key]}})
    return only


def _body(schema: Schema, name: str, level: int = 3) -> Iterator[str]:
    node = schema.definitions[name]
    if is_table(node):
        yield from entries(name, schema.keys(node))
        return
    for variant in node["oneOf"]:
        key, kind = kind_of(variant)
        yield from (*_target(name, kind), f'{"#" * level} `{key} = "{kind}"`', "", escaped(variant["description"]), "")
        yield from entries(f"{name}-{kind}", schema.keys(variant, without=key))


def _target(*words: str) -> Iterator[str]:
    yield from (f"({anchor('table', *words)})=", "")
