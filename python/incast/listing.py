"""Pages about protocols and keys for the terminal, from what the program knows of them."""

from __future__ import annotations

import json
import re
import shutil
import textwrap
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from incast import _native, text
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
    schema = Schema(json.loads(_native.schema()))
    return "\n\n".join("\n".join(_part(part, schema)) for part in _parts(name))


def protocol_as_json(name: str) -> list[dict[str, Any]]:
    """Return what `protocol` says for other programs."""
    schema = Schema(json.loads(_native.schema()))
    return [{**part, "parameters": list(map(_key_as_json, _parameters(part, schema)))} for part in _parts(name)]


class Table(NamedTuple):
    """A table of a scenario, in one of its kinds."""

    name: str
    about: str
    keys: list[Key]
    places: list[str]
    """The keys that hold such a table; none at the top level."""

    def only(self, key: str) -> Table:
        """Return what it says of one key."""
        return self._replace(keys=[one for one in self.keys if one.name == key])


def keys(path: str | None) -> str:
    """Return what a scenario may say below a path: a table, such as `tcp` or `traffic.rounds`, or a key.

    `all` is everything, and without a path it is the names of the tables.

    Raises:
        ScenarioError: there is no such table or key.

    """
    tables = Tables()
    if path is None:
        head = "Tables of a scenario; incast list keys NAME shows the keys of one, and incast list keys all everything."
        rows = [[table.name, ", ".join(table.places)] for table in tables.by_name.values()]
        return "\n".join([*_wrapped(head), "", text.fitting(["table", "of the keys"], rows, _WIDTH)])
    return "\n\n".join("\n".join(_table(table)) for table in tables.below(path))


def keys_as_json(path: str | None) -> list[dict[str, Any]]:
    """Return what `keys` says for other programs; without a path everything."""
    return [
        {
            "table": table.name,
            "about": _plain(table.about),
            "places": table.places,
            "keys": list(map(_key_as_json, table.keys)),
        }
        for table in Tables().below(path or "all")
    ]


class Tables:
    """The tables of a scenario by name: first those at the top level, then nested ones."""

    def __init__(self) -> None:
        schema = Schema(json.loads(_native.schema()))
        top = {}
        for key, node in sorted(schema.root["properties"].items()):
            inner = node.get("additionalProperties")
            name = schema.referred(inner if isinstance(inner, dict) else node)
            if name is not None:
                top[name] = key
        nested = {name: _dashed(name) for name in schema.reached(schema.root) if name not in top}
        self.by_name = {"scenario": Table("scenario", schema.root["description"], schema.keys(schema.root), [])}
        self._below: dict[str, list[str]] = {}
        """The tables that a key holds."""
        held: dict[str, list[str]] = {}
        for definition, name in (top | nested).items():
            node = schema.definitions[definition]
            held[definition] = []
            for kind, variant in _kinds(name, node):
                without = None if kind == name else kind_of(variant)[0]
                found = schema.keys(variant, without=without)
                self.by_name[kind] = Table(kind, variant.get("description", ""), found, [])
                held[definition].append(kind)
                for key in found:
                    self._below[f"{kind}.{key.name}"] = schema.held(variant["properties"][key.name])
        for definition in (one for one in schema.definitions if one.endswith("Choice")):
            for variant in schema.definitions[definition]["oneOf"]:
                for key, node in variant["properties"].items():
                    self._below[f"{place_of(definition)}.{kind_of(variant)[1]}.{key}"] = schema.held(node)
        for place, definitions in self._below.items():
            self._below[place] = [kind for definition in definitions for kind in held[definition]]
            for kind in self._below[place]:
                self.by_name[kind].places.append(place)

    def below(self, path: str) -> list[Table]:
        """Return the tables at a path, and those inside a key.

        Raises:
            ScenarioError: there are none.

        """
        found = list(self.by_name.values()) if path == "all" else self._found(path)
        if not found:
            known = [*self.by_name, *self._below]
            near = get_close_matches(path, known, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ScenarioError(f"unknown table or key {path!r}; {hint}incast list keys names the tables")
        return found

    def _found(self, path: str) -> list[Table]:
        if path in self.by_name:
            return [self.by_name[path]]
        if kinds := [table for name, table in self.by_name.items() if name.startswith(f"{path}.")]:
            return kinds
        found = []
        for place, inside in self._below.items():
            table, _, key = place.rpartition(".")
            if path in (place, key):
                found += [self.by_name[table].only(key)] if table in self.by_name else []
                found += [self.by_name[kind] for kind in inside]
            elif path.startswith(f"{place}."):
                found += [one for kind in inside for one in self._found(kind + path.removeprefix(place))]
        return list({(table.name, len(table.keys)): table for table in found}.values())


def _kinds(name: str, node: Node) -> Iterator[tuple[str, Node]]:
    if is_table(node):
        yield name, node
    elif is_kinds(node):
        yield from ((f"{name}.{kind_of(variant)[1]}", variant) for variant in node["oneOf"])


def _table(table: Table) -> Iterator[str]:
    yield table.name
    yield from _wrapped(table.about)
    if table.places:
        places = f"In: {', '.join(table.places)}"
        yield from textwrap.wrap(places, _WIDTH, subsequent_indent=" " * 4, break_on_hyphens=False)
    if table.keys:
        yield ""
        yield from _keys(table.keys)


def _key_as_json(key: Key) -> dict[str, Any]:
    return {
        "name": key.name,
        "type": _plain(key.type),
        "required": key.required,
        "default": None if key.default is None else _plain(key.default),
        "about": _plain(key.text),
        "values": {word: _plain(meaning) for word, meaning in key.values},
    }


def _parts(name: str) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = json.loads(_native.catalog())["protocols"]
    found = [part for part in parts if part["name"] == name]
    if not found:
        known = sorted({part["name"] for part in parts})
        near = get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]!r}? There are" if near else "there are"
        raise ScenarioError(f"unknown protocol {name!r}; {hint}: {', '.join(known)}")
    return found


def _parameters(part: dict[str, Any], schema: Schema) -> list[Key]:
    (choice,) = [
        one for one in schema.definitions if one.endswith("Choice") and place_of(one) == part["place"]
    ]  # fmt: skip
    (variant,) = [one for one in schema.definitions[choice]["oneOf"] if kind_of(one)[1] == part["name"]]
    return schema.keys(variant, without="name")


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
    found = _parameters(part, schema)
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


def _wrapped(about: str) -> list[str]:
    return textwrap.wrap(" ".join(_plain(about).split()), _WIDTH)


def _plain(markdown: str) -> str:
    """Write Markdown as text: links as their words, code and escaped letters as they are."""
    without_links = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", markdown)
    return re.sub(r"\\([*<\[\]])", r"\1", without_links).replace("`", "")


def _dashed(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()
