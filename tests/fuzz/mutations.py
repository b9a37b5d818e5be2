"""Mutations of texts that the program accepts: what people mistype, what programs write wrongly, what is extreme."""

from __future__ import annotations

import copy
import re
import tomllib
from typing import Any

import tomli_w
from hypothesis import strategies as st

_TOKEN = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'|[A-Za-z_$][\w$.-]*|\d[\w.]*|\S")
_EXTREME_NUMBERS = [
    0, 1, -1, 2, 3, 255, 65_536, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**30, 10**400,
    0.0, -0.0, 0.1, 0.5, 1e-300, 1e300, -1.5, float("nan"), float("inf"), -float("inf"),
]  # fmt: skip
_EXTREME_TEXTS = [
    "", " ", "0", "-1", "x" * 300, "é", "\0", "\n", "0s", "1ps", "1e400s", "-1us", "99999999999s", "0bps", "1bps",
    "400Gbps", "0B", "1B", "1.5B", "0packets", "999999999999GB", "all", "none", "../..", "/dev/zero", "/etc/passwd",
    "$x", "$", "a->b", "host 0", "${x}", "<b>", "[[[[", "1/0", "0.1", "50%",
]  # fmt: skip
_TOKENS = [
    *map(repr, [0, 1, -1, 2**31, 2**64, 0.5, 1e400]), '""', '"x"', "[]", "[[]]", "{}", "[" * 5000,
    "[", "]", "{", "}", "=", "==", ".", ",", '"', "'", "#",
    "nan", "inf", "true", "1979-05-27", "\0", "\t", "\r", "-", "+", ">", "<", "...", "(", ")", "*", "/", "%", "**",
]  # fmt: skip


def _deep(depth: int) -> Any:  # noqa: ANN401
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


values = st.one_of(
    st.sampled_from(_EXTREME_NUMBERS),
    st.sampled_from(_EXTREME_TEXTS),
    st.sampled_from([True, False, [], {}, [[]], [{}], [0, "x"], _deep(3), _deep(40), _deep(150)]),
    st.integers(-100, 100_000),
    st.floats(),
    st.text(max_size=6),
)


@st.composite
def edited(draw: st.DrawFn, seeds: list[str]) -> str:
    """Draw a text with some of its parts replaced, lost, repeated or exchanged."""
    text = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(1, 4))):
        lines, tokens = text.splitlines(keepends=True) or [""], list(_TOKEN.finditer(text))
        what = draw(st.integers(0, 6))
        if what <= 3 and tokens:
            place = draw(st.sampled_from(tokens))
            others = st.sampled_from([token.group() for token in tokens])
            new = "" if what == 0 else draw(st.one_of(st.sampled_from(_TOKENS), others, st.text(max_size=4)))
            after = place.group() if what == 3 else ""
            text = text[: place.start()] + new + after + text[place.end() :]
        elif what == 4:
            at = draw(st.integers(0, len(lines) - 1))
            text = "".join(lines[:at] + lines[at + 1 :])
        elif what == 5:
            one, other = draw(st.integers(0, len(lines) - 1)), draw(st.integers(0, len(lines) - 1))
            lines[one], lines[other] = lines[other], lines[one]
            text = "".join(lines)
        else:
            at = draw(st.integers(0, len(lines) - 1))
            text = "".join([*lines[:at], *lines[at : at + 1] * 2, *lines[at + 1 :]])
    return text


@st.composite
def rebuilt(draw: st.DrawFn, seeds: list[str]) -> str:
    """Draw a TOML file some of whose values are others, are missing, or stand elsewhere."""
    root = tomllib.loads(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, 4))):
        places = list(_places(root))
        if not places:
            break
        where, key = draw(st.sampled_from(places))
        node = _at(root, where)
        what = draw(st.integers(0, 4))
        if what <= 2:
            node[key] = copy.deepcopy(draw(values))
        elif what == 3:
            there, other = draw(st.sampled_from(places))
            node[key] = copy.deepcopy(_at(root, there)[other])
        else:
            del node[key]
    return tomli_w.dumps(root)


def toml(seeds: list[str]) -> st.SearchStrategy[str]:
    """Return mutations of TOML files, as values and as text."""
    return st.one_of(rebuilt(seeds), edited(seeds))


def _places(node: Any, where: tuple[Any, ...] = ()) -> Any:  # noqa: ANN401
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        yield where, key
        if isinstance(value, dict | list) and len(where) < 8:
            yield from _places(value, (*where, key))


def _at(root: Any, where: tuple[Any, ...]) -> Any:  # noqa: ANN401
    for step in where:
        root = root[step]
    return root
