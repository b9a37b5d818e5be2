"""A TOML file whose tables know their position, so that errors can name file, line and key."""

from __future__ import annotations

import datetime as dt
import math
import re
from typing import TYPE_CHECKING, Any, NoReturn

from incast import scenarios
from incast._native import ScenarioError
from incast.studies.expressions import missing

if TYPE_CHECKING:
    from pathlib import Path

# The tables of which a file may use some of another's.
_USED = ("axes", "curves", "metrics")
# Nobody means more, and functions that call themselves for every level could not follow.
_DEEPEST = 20
# The whole numbers that TOML knows.
_LEAST, _MOST = -(2**63), 2**63 - 1
_HEADER = re.compile(r"^\s*(\[\[|\[)\s*([^\[\]]+?)\s*\]{1,2}\s*(#.*)?$")
_KEY = re.compile(r"""^\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"))*)\s*=""")
_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")


class Table:
    """One table of a file: returns values of the expected type, and rejects unknown keys."""

    def __init__(
        self, file: Path, lines: dict[str, int], path: str, values: dict[str, Any], base: Table | None = None
    ) -> None:
        self.file = file
        self.path = path
        self.lines = lines
        self.entries = values
        self._base = base
        self._asked: list[str] = []

    def __contains__(self, key: str) -> bool:
        """Whether the file has the key."""
        self._asked.append(key)
        return key in self.origin(key).entries

    def refuse(self, key: str, message: str) -> NoReturn:
        """Reject the value of a key (`""`: the whole table).

        Raises:
            ScenarioError: always.

        """
        raise ScenarioError(f"{self.place(key)}: {message}")

    def place(self, key: str = "") -> str:
        """Name file, line and key."""
        path, origin = ".".join(filter(None, (self.path, key))), self.origin(key.split(".")[0])
        # A key in an inline table has no line of its own, and a table may begin with one inside it.
        steps = path.split(".")
        above = [".".join(steps[:end]) for end in range(len(steps), 0, -1)]
        inside = [known for known in origin.lines if known.startswith(f"{path}.")]
        line = next((origin.lines[known] for known in (path, *inside, *above) if known in origin.lines), None)
        return ": ".join(filter(None, (f"{origin.file}:{line}" if line else str(origin.file), path)))

    def text(self, key: str, default: str | None = None) -> str:
        """Return text."""
        return str(self._value(key, "text", str, default))

    def whole(self, key: str, default: int | None = None, *, least: int = 0) -> int:
        """Return a whole number."""
        value = int(self._value(key, "a whole number", int, default))
        if value < least:
            self.refuse(key, f"must be {least} or more, found {value}")
        return value

    def number(self, key: str) -> float | None:
        """Return a number, if the file has it."""
        return float(self._value(key, "a number", (int, float), 0)) if key in self else None

    def texts(self, key: str, default: list[str] | None = None) -> list[str]:
        """Return a list of strings."""
        found: list[object] = self._value(key, "a list of strings", list, default)
        if not all(isinstance(one, str) for one in found):
            self.refuse(key, f"expected a list of strings, found {found!r}")
        return [str(one) for one in found]

    def items(self, key: str) -> list[Any]:
        """Return a non-empty list."""
        found: list[Any] = self._value(key, "a list", list, None)
        if not found:
            self.refuse(key, "the list is empty")
        return found

    def values(self, key: str) -> dict[str, Any]:
        """Return a table as a dictionary; an empty one if the file has none."""
        found: dict[str, Any] = self._value(key, "a table", dict, {})
        return found

    def any(self, key: str) -> Any:  # noqa: ANN401
        """Return a value of any type."""
        if key not in self:
            self.refuse("", f'missing key "{key}"')
        return self.origin(key).entries[key]

    def tables(self, key: str) -> dict[str, Table]:
        """Return the subtables of a key by their names: of the file it is like all, or those it uses, and its own."""
        inherited = self._base.tables(key) if self._base and key in self._base else {}
        found = self.values(key) if key in self.entries or not inherited else {}
        for name, value in found.items():
            if not isinstance(value, dict):
                self.refuse(f"{key}.{name}", f"expected a table, found {value!r}")
        own = {name: self.below(f"{key}.{name}", value) for name, value in found.items()}
        known = inherited | own
        if "use" not in self.entries:
            return known
        use = self.below("use", self.values("use"))
        use.only([*_USED])
        names = use.texts(key, []) if key in _USED else list(known)
        for name in names:
            if name not in known:
                use.refuse(key, missing(f"name in {key}", name, list(known)))
        return {name: known[name] for name in names} | own

    def rows(self, key: str) -> list[Table]:
        """Return the tables of an array, `[[key]]`."""
        found: list[object] = self._value(key, f"an array of tables, [[{key}]]", list, [])
        if not all(isinstance(one, dict) for one in found):
            self.refuse(key, f"expected an array of tables, [[{key}]]")
        origin = self.origin(key)
        return [origin.below(f"{key}[{index}]", one) for index, one in enumerate(found) if isinstance(one, dict)]

    def finish(self) -> None:
        """Check that the table has no keys but those read so far.

        Raises:
            ScenarioError: it has.

        """
        self.only(sorted(set(self._asked)))

    def only(self, keys: list[str]) -> None:
        """Check that the table has no keys but these.

        Raises:
            ScenarioError: it has.

        """
        for key in self.entries:
            if key not in keys:
                self.refuse(key, missing("key", key, keys))
        if self._base:
            self._base.only(keys)

    def unknown(self) -> list[str]:
        """Return an error for each key that has not been read."""
        asked = sorted(set(self._asked))
        return [f"{self.place(key)}: {missing('key', key, asked)}" for key in self.entries if key not in asked]

    def origin(self, key: str) -> Table:
        """Return the table that has a key: this one, or else that of the file it is like."""
        return self if key in self.entries or self._base is None else self._base.origin(key)

    def below(self, path: str, values: dict[str, Any]) -> Table:
        """Return a table inside this one."""
        return Table(self.file, self.lines, ".".join(filter(None, (self.path, path))), values)

    def _value(self, key: str, what: str, kind: type | tuple[type, ...], default: Any) -> Any:  # noqa: ANN401
        if key not in self:
            if default is None:
                self.refuse("", f'missing key "{key}"')
            return default
        value = self.origin(key).entries[key]
        if not isinstance(value, kind) or isinstance(value, bool):
            self.refuse(key, f"expected {what}, found {value!r}")
        return value


def read(path: Path, *, above: tuple[Path, ...] = ()) -> Table:
    """Read a TOML file. Keys and named tables that it lacks are taken from the file that its key `like` names.

    Args:
        path: the file.
        above: the files that are like this one.

    Raises:
        ScenarioError: it cannot be read, or is invalid TOML.

    """
    own = of_text(path, scenarios.text_of(path, "a study"))
    if "like" not in own:
        return own
    base = path.parent / own.text("like")
    if base in (*above, path):
        own.refuse("like", f"{base} is like this file")
    if not scenarios.is_file(base):
        own.refuse("like", f"no such file: {base}")
    return Table(path, own.lines, "", own.entries, read(base, above=(*above, path)))


def of_text(path: Path, text: str) -> Table:
    """Return what a TOML file says.

    Raises:
        ScenarioError: it is invalid TOML, or has a value that is never meant.

    """
    table = Table(path, lines(text), "", scenarios.parsed(text, str(path)))
    if wrong := unsound(table.entries):
        table.refuse(*wrong)
    return table


def unsound(values: object) -> tuple[str, str] | None:
    """Return the key of a value that neither scenarios nor studies know, and what is wrong with it.

    Numbers must be finite and have 64 bits, dates have no meaning, and nesting has an end.
    """
    left: list[tuple[str, int, object]] = [("", 0, values)]
    while left:
        path, depth, value = left.pop()
        match value:
            case dict() | list() if depth > _DEEPEST:
                return path, f"lists and tables are nested too deeply: at most {_DEEPEST} levels"
            case dict():
                left += [(".".join(filter(None, (path, key))), depth + 1, one) for key, one in value.items()]
            case list():
                # Tables of an array have places of their own, values of a list have not.
                names = [f"{path}[{index}]" if isinstance(one, dict) else path for index, one in enumerate(value)]
                left += [(name, depth + 1, one) for name, one in zip(names, value, strict=True)]
            case float() if not math.isfinite(value):
                return path, f"expected a finite number, found {value}"
            case int() if not _LEAST <= value <= _MOST:
                digits = len(str(abs(value)))
                return path, f"expected a whole number from -2^63 to 2^63 - 1, found one of {digits} digits"
            case dt.date() | dt.time():
                return path, f"expected a number, text, a list or a table, found a date or time: {value}"
    return None


def lines(text: str) -> dict[str, int]:
    """Find the line of every table and key, which the parser does not report."""
    found: dict[str, int] = {}
    count: dict[str, int] = {}
    table, quote = "", ""
    for number, line in enumerate(text.splitlines(), start=1):
        if not quote:
            if header := _HEADER.match(line):
                table = ".".join(part.strip("\"'") for part in _PART.findall(header[2]))
                if header[1] == "[[":
                    count[table] = count.get(table, -1) + 1
                    table = f"{table}[{count[table]}]"
                found.setdefault(table, number)
            elif key := _KEY.match(line):
                name = ".".join(part.strip("\"'") for part in _PART.findall(key[1]))
                found.setdefault(".".join(filter(None, (table, name))), number)
        # Lines inside multi-line strings are not keys.
        for mark in ('"""', "'''"):
            if (not quote or quote == mark) and line.count(mark) % 2:
                quote = "" if quote else mark
    return found
