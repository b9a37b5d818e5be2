"""Reads the JSON Schema of scenario files: the kind of each definition, and types in words."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

Node = dict[str, Any]

NUMBERS = {"integer": "whole number", "number": "number"}
WORDS = {"boolean": "`true` or `false`", "string": "text"}
# Protocols are described on their own page.
PARTS_PAGE = "parts.md"


class Key(NamedTuple):
    """A key of a table."""

    name: str
    type: str
    """In words, as Markdown."""
    default: str | None
    """As Markdown; `None` if there is none."""
    required: bool
    text: str
    values: list[tuple[str, str]]
    """The allowed words with their meanings, if only certain words are allowed."""


class UnknownShapeError(Exception):
    """The schema has a shape that this module does not know; the page would be incomplete."""


class Schema:
    """The schema with its definitions at hand."""

    def __init__(self, root: Node) -> None:
        self.root = root
        self.definitions: dict[str, Node] = root["definitions"]

    def referred(self, node: Node) -> str | None:
        """Return the name of the definition that a node consists of, if it does."""
        if "allOf" in node:
            (node,) = node["allOf"]
        reference: str | None = node.get("$ref")
        return reference.removeprefix("#/definitions/") if reference else None

    def keys(self, table: Node, *, without: str | None = None) -> list[Key]:
        """Return the keys of a table, the required ones first."""
        required = table.get("required", [])
        names = sorted(table["properties"], key=lambda name: (name not in required, name))
        return [self._key(name, table["properties"][name], name in required) for name in names if name != without]

    def _key(self, name: str, node: Node, required: bool) -> Key:
        text, default = split_default(escaped(node["description"]))
        if "default" in node:
            written = toml(node["default"])
            if default is not None and not default.startswith(written):
                raise UnknownShapeError(f"{name}: the text says the default is {default}, the schema says {written}")
            default = default or written
        if default is not None:
            default = code(default)
        return Key(name, self.type(node), default, required, text, self.values(node))

    def values(self, node: Node) -> list[tuple[str, str]]:
        """Return the words a node allows, with their meanings, where it is such a choice at its top."""
        name = self.referred(node)
        if name is not None and not is_parts(name):
            node = self.definitions[name]
            if is_words(node):
                return [(one["const"], escaped(one["description"])) for one in node["oneOf"]]
            if "anyOf" in node:
                return [value for one in node["anyOf"] for value in self.values(one)]
        return []

    def type(self, node: Node) -> str:
        """Write the type of a node in words, as Markdown."""
        name = self.referred(node)
        if name is not None:
            return self._named(name)
        if "anyOf" in node:
            return self._any(node)
        match node.get("type"):
            case "integer" | "number" as kind:
                return NUMBERS[kind] + limits(node)
            case "boolean" | "string" as kind:
                return WORDS[kind]
            case "array" if isinstance(node["items"], list):
                return f"list of {len(node['items'])}: " + ", ".join(map(self.type, node["items"]))
            case "array":
                return f"list of: {self.type(node['items'])}"
            case "object" if isinstance(node.get("additionalProperties"), dict):
                return f"tables by name, each {self.type(node['additionalProperties']).removeprefix('table: ')}"
        raise UnknownShapeError(json.dumps(node))

    def _named(self, name: str) -> str:
        node = self.definitions[name]
        if is_parts(name):
            place = place_of(name)
            return f"[{place}]({PARTS_PAGE}#{anchor('place', place)}), by name or as a table"
        if is_words(node):
            return " or ".join(f'`"{one["const"]}"`' for one in node["oneOf"])
        if "anyOf" in node and not is_value(node):
            return self._any(node)
        what = "" if is_value(node) else "table: "
        return f"{what}[{title(name)}](#{anchor('table', name)})"

    def _any(self, node: Node) -> str:
        return " or ".join(map(self.type, node["anyOf"]))

    def held(self, node: object) -> list[str]:
        """Return the definitions of tables that the value of a key is or has in it, not those inside these."""
        if isinstance(node, list):
            return [name for one in node for name in self.held(one)]
        if not isinstance(node, dict):
            return []
        name = self.referred(node)
        if name is None:
            return [name for one in node.values() for name in self.held(one)]
        inner = self.definitions[name]
        if is_parts(name):
            return []
        return [name] if is_table(inner) or is_kinds(inner) else self.held(inner)

    def reached(self, node: Node) -> list[str]:
        """Return the definitions that a node leads to, in order, not those of parts."""
        found: dict[str, None] = {}

        def visit(node: object) -> None:
            if isinstance(node, list):
                for one in node:
                    visit(one)
            elif isinstance(node, dict):
                name = self.referred(node)
                if name is None:
                    for one in node.values():
                        visit(one)
                elif name not in found and not is_parts(name):
                    found[name] = None
                    visit(self.definitions[name])

        visit(node)
        return list(found)


def is_parts(name: str) -> bool:
    """Tell whether a definition chooses among the parts of a place."""
    return name.endswith(("Choice", "ChoiceByName"))


def place_of(name: str) -> str:
    """Return the key under which a scenario names parts of a place, from the name of their definition."""
    return name.removesuffix("ByName").removesuffix("Choice").lower()


def is_words(node: Node) -> bool:
    """Tell whether a node allows certain words alone."""
    return "oneOf" in node and all("const" in one for one in node["oneOf"])


def is_kinds(node: Node) -> bool:
    """Tell whether a node is a table that comes in kinds."""
    return "oneOf" in node and all("properties" in one for one in node["oneOf"])


def is_table(node: Node) -> bool:
    """Tell whether a node is a table of one kind."""
    return "properties" in node


def is_value(node: Node) -> bool:
    """Tell whether a node is text of a certain form, a number, or a list of such."""
    if "anyOf" in node:
        return all("type" in one or one.get("$ref") == "#/definitions/Host" for one in node["anyOf"])
    return node.get("type") == "string" and "pattern" in node


def kind_of(variant: Node) -> tuple[str, str]:
    """Return the key that tells the kinds of a table apart, and its value in this one."""
    ((key, node),) = [(key, node) for key, node in variant["properties"].items() if "const" in node]
    return key, node["const"]


def title(name: str) -> str:
    """Write the name of a definition as words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def anchor(*words: str) -> str:
    """Write words as the fragment of an address."""
    return "-".join(re.sub(r"[^a-z0-9]+", "-", title(word)).strip("-") for word in words)


def toml(value: object) -> str:
    """Write a default as TOML has it."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value)


def code(text: str) -> str:
    """Mark what is TOML in a sentence about a default: text in quotes, numbers and truth values at its start."""
    if "`" in text:
        return text
    return re.sub(r'"[^"]*"|^(?:[0-9.]+|true|false)\b', lambda found: f"`{found[0]}`", text)


def split_default(text: str) -> tuple[str, str | None]:
    """Take the sentence about the default off the end of a description."""
    found = re.fullmatch(r"(.*?)\s*\bDefault: (.*?)\.?", text, re.DOTALL)
    return (found[1], found[2]) if found else (text, None)


def escaped(text: str) -> str:
    """Keep Markdown from reading more into a description than code in backticks."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([*<\[\]])", r"\\\1", part) for part in parts)


def units(node: Node) -> list[str]:
    """Return the units that text of a certain form ends in."""
    found = re.search(r"\(([^()]+)\)\$$", node.get("pattern", ""))
    return [unit.replace("?", "") for unit in found[1].split("|")] if found else []


def limits(node: Node) -> str:
    """Write the range of a number; what merely follows from the width of an integer is left out."""
    least, most = node.get("minimum"), node.get("maximum")
    if least is not None and most is not None:
        return f", {least:,g} to {most:,g}" if most < 1e6 else f", {least:,g} to {int(most):,}"
    if least:
        return f", at least {least:,g}"
    return ""
