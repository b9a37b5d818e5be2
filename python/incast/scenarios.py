"""Finds the text of a scenario: in a file, a built-in example, or a dictionary."""

from __future__ import annotations

import itertools
import json
import os
import stat
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from incast import _native
from incast import text as texts

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable

# No scenario, study or script is larger.
_LARGEST_BYTES = 64 << 20
# What the shell has opened for us may be a pipe.
_HANDED = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")


class Source(NamedTuple):
    """The text of a scenario, and its names in errors and results."""

    text: str
    file: str
    """The name in errors."""
    stem: str
    """The name of its results."""


def read(scenario: str | Path | Mapping[str, object]) -> Source:
    """Find the text of a scenario.

    Raises:
        ScenarioError: the file or example does not exist, or cannot be read.

    """
    if isinstance(scenario, Mapping):
        return Source(_written_out(scenario), "<dict>", str(scenario.get("name", "scenario")))
    if isinstance(scenario, str) and scenario in _native.examples() and not Path(scenario).is_file():
        return Source(_native.example(scenario), f"<example {scenario}>", scenario)
    path = Path(scenario)
    absent = f"no such file, and not a built-in example ({', '.join(_native.examples())})"
    return Source(text_of(path, "a scenario", absent), texts.name(path), path.stem)


def text_of(path: Path, what: str, absent: str = "no such file") -> str:
    """Return the text of a TOML file.

    Raises:
        ScenarioError: it does not exist, or cannot be read.

    """
    try:
        return read_text(path)
    except FileNotFoundError:
        reason = absent
    except IsADirectoryError:
        reason = f"is a directory; {what} is a TOML file"
    except UnicodeDecodeError as error:
        reason = f"not a text file: byte {error.start} is not UTF-8"
    except OSError as error:
        reason = f"cannot be read: {(error.strerror or '').lower() or error}"
    except ValueError as error:  # a null byte in the name
        reason = str(error)
    raise _native.ScenarioError(f"{path}: {reason}")


def read_text(path: Path, *, errors: str = "strict") -> str:
    """Return the text of a file of reasonable size.

    Raises:
        OSError: it cannot be read, is larger, or is not a file: reading could have no end.
        UnicodeDecodeError: it is not text.

    """
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or str(path).startswith(_HANDED)):
        raise OSError("not a file")
    with path.open("rb") as file:
        content = file.read(_LARGEST_BYTES + 1)
    if len(content) > _LARGEST_BYTES:
        raise OSError(f"larger than {_LARGEST_BYTES >> 20} MiB")
    return content.decode("utf-8", errors).replace("\r\n", "\n").replace("\r", "\n")


def parsed(text: str, file: str) -> dict[str, Any]:
    """Return what a TOML file says.

    Raises:
        ScenarioError: it is not TOML.

    """
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise _native.ScenarioError(f"{file}:{_deep_line(text)}: lists and tables are nested too deeply") from error
    except ValueError as error:  # TOMLDecodeError, or a number of thousands of digits
        raise _native.ScenarioError(f"{file}: invalid TOML: {error}") from error


def _deep_line(text: str) -> int:
    """Return the line in which most brackets are open, for which strings may count too."""
    opened = [sum(line.count(one) for one in "[{") - sum(line.count(one) for one in "]}") for line in text.splitlines()]
    depths = list(itertools.accumulate(opened))
    inside = [
        max(0, depth) + line.count("[") + line.count("{") for depth, line in zip(depths, text.splitlines(), strict=True)
    ]
    return 1 + inside.index(max(inside))


def is_file(path: Path) -> bool:
    """Whether a text from a file is the name of another; one that is too long for a name is not."""
    try:
        return path.is_file()
    except OSError:
        return False


# The program that attaches remedies to the kernel stands where this one does; the world "linux" looks here for it.
if (_host := Path(sys.executable).with_name("incast-host")).is_file():
    os.environ.setdefault("INCAST_HOST", str(_host))


def start(
    source: Source,
    changes: list[str],
    seed: int | None,
    world: str | None = None,
    stop: threading.Event | None = None,
    spill: Path | None = None,
    *,
    threads: int | None = 1,
) -> _native.Run:
    """Start running a scenario in `world`, by default its own. With `threads` = `None` the world chooses their number.

    Other threads than the main one do not hear signals: there, `stop` ends it while it is being planned. What the run
    records goes to the directory `spill`, if one is given, as soon as it is much: into files without names, which are
    gone with the run, however that ends.

    Raises:
        ScenarioError: it cannot be run.
        RunError: `stop` was set, or there is not enough memory.

    """
    if threads is not None and threads < 1:
        raise _native.ScenarioError(f"{threads} threads: there must be 1 or more")
    return _native.Run.start(source.text, source.file, changes, _checked(seed), world, stop, spill, threads)


def pilot(source: Source, changes: list[str], seed: int | None, world: str | None, spill: Path) -> _native.Run | None:
    """Start the pilot of a run in a world of packets; there is none if it would take too much memory.

    Raises:
        ScenarioError: it cannot be run.

    """
    return _native.Run.pilot(source.text, source.file, changes, _checked(seed), world, spill)


def check(source: Source, changes: list[str], seed: int | None, world: str | None = None) -> _native.Checked:
    """Check a scenario and that `world`, by default its own, can carry it out.

    Raises:
        ScenarioError: it cannot be run.

    """
    return _native.check(source.text, source.file, changes, _checked(seed), world)


def _checked(seed: int | None) -> int | None:
    if seed is not None and not 0 <= seed < 2**64:
        raise _native.ScenarioError(f"seed {seed}: must be a whole number from 0 to 2^64 - 1")
    return seed


def overrides(changes: Mapping[str, object] | Iterable[str] | None) -> list[str]:
    """Write changes as `key=value`, as `--set` on the command line takes them."""
    if changes is None:
        return []
    if isinstance(changes, Mapping):
        return [f"{key}={_inline(_plain(value))}" for key, value in changes.items()]
    if isinstance(changes, str):
        return [changes]
    return list(changes)


def _written_out(scenario: Mapping[str, object]) -> str:
    import tomli_w

    try:
        return tomli_w.dumps(_plain(scenario))
    except RecursionError as error:
        raise _native.ScenarioError("<dict>: lists and tables are nested too deeply") from error
    except (TypeError, ValueError) as error:
        raise _native.ScenarioError(f"<dict>: cannot be written as TOML: {error}") from error


def _plain(value: Any) -> Any:  # noqa: ANN401
    """Return a value with Python's own numbers and lists in place of those of NumPy and its like."""
    match value:
        case Mapping():
            return {key: _plain(part) for key, part in value.items()}
        case list() | tuple():
            return [_plain(part) for part in value]
        case _ if callable(plain := getattr(value, "tolist", None)):
            return _plain(plain())
        case _:
            return value


def _inline(value: object) -> str:
    """Write one value as inline TOML."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case int() | float():
            return repr(value)
        case Mapping():
            pairs = ", ".join(f"{json.dumps(str(key))} = {_inline(part)}" for key, part in value.items())
            return f"{{ {pairs} }}"
        case list() | tuple():
            return f"[{', '.join(_inline(part) for part in value)}]"
        case _:
            raise _native.ScenarioError(f"cannot override a key with {value!r}; use text, a number, a list or a table")


def fewer_threads(handle: _native.Run, wish: int | None) -> str | None:
    """Say in one line why a run does not go on as many threads as somebody wants, if it does not."""
    count, why = handle.threads or (0, None)
    return f"on {count} {'thread' if count == 1 else 'threads'} and not on {wish}: {why}" if why else None
