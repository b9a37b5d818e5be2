"""The runs of a study. The key of a run is a hash of everything that determines its result."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from incast import _native, scenarios
from incast._native import ScenarioError
from incast.studies import measuring
from incast.studies.study import Percentile, Slowdown, Trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from incast._native import Checked
    from incast.studies.study import Point, Study, World

#: The name of the scenario in the tables of all runs of studies.
NAME = "study"


@dataclass(frozen=True)
class Task:
    """One run: its key, what it runs, and which of its tables to keep."""

    key: str
    source: scenarios.Source
    changes: tuple[str, ...]
    seed: int
    tables: frozenset[str]
    outside: Outside | None = None
    """If the run belongs to a world outside this program."""
    measured: bool = False
    """Whether it takes place in real time: it needs this machine for itself, and is never the same twice."""
    files: tuple[tuple[str, str], ...] = ()
    """The files it reads, with their fingerprints."""


@dataclass(frozen=True)
class Outside:
    """What a world outside this program is asked to carry out."""

    world: World
    scenario: str
    """After all changes, as JSON, with a table of the world's own keys under its name."""


@dataclass(frozen=True)
class Row:
    """One run as a row of the study's table."""

    point: Point
    seed: int
    task: Task | None
    """The run; `None` in a study of formulas alone."""


def rows(study: Study) -> list[Row]:
    """Return all runs of a study in the order of its table.

    The seeds are the same everywhere, so that all points and curves share their random choices.

    Raises:
        ScenarioError: the scenario cannot be read.

    """
    seeds = range(1, study.seeds + 1)
    if study.scenario is None:
        return [Row(point, seed, None) for point in study.points() for seed in seeds]
    source = scenarios.read(study.scenario)
    queries = [metric.sql for metric in study.metrics if metric.sql]
    queries += [panel.sql for panel in study.panels if isinstance(panel, Percentile | Slowdown)]
    wanted = frozenset().union(*map(measuring.tables_of, queries), {measuring.ALWAYS})
    return [Row(point, one.seed, one) for point in study.points() for one in tasks(study, source, point, seeds, wanted)]


def runs(rows: Iterable[Row]) -> list[Task]:
    """Return the runs of some rows."""
    return [row.task for row in rows if row.task]


def traces(study: Study, panel: Trace) -> list[tuple[str, Task]]:
    """Return the runs of a panel over time, each with the label of its curve: one point with the first seed."""
    if study.scenario is None:  # reading.py sees to it
        return []
    source, at = scenarios.read(study.scenario), tuple(panel.at[axis.name] for axis in study.axes)
    wanted = measuring.tables_of(panel.sql) | {measuring.ALWAYS}
    return [
        (point.curve.label, tasks(study, source, point, [1], wanted)[0]) for point in study.points() if point.at == at
    ]


def pooled(study: Study, panel: Percentile) -> list[tuple[str, list[list[Task]]]]:
    """Return the runs of a percentile over all seeds: by label of the curve, those of each point of the panel."""
    found, along, places = rows(study), study.along(panel), len(study.grid())
    by_point = [runs(found[start : start + study.seeds]) for start in range(0, len(found), study.seeds)]
    return [
        (curve.label, [by_point[index * places + place] for place in along]) for index, curve in enumerate(study.curves)
    ]


def of_point(study: Study, panel: Slowdown) -> list[tuple[str, list[Task]]]:
    """Return the runs of a panel at one point: by label of the curve, those of all seeds."""
    found, at = rows(study), tuple(panel.at[axis.name] for axis in study.axes)
    by_point = [found[start : start + study.seeds] for start in range(0, len(found), study.seeds)]
    return [(some[0].point.curve.label, runs(some)) for some in by_point if some[0].point.at == at]


def drawn(study: Study) -> list[Task]:
    """Return the runs that panels are drawn from, rather than from the table of the study."""
    over_time = [task for panel in study.panels if isinstance(panel, Trace) for _, task in traces(study, panel)]
    return (
        over_time
        + [
            task
            for panel in study.panels
            if isinstance(panel, Percentile)
            for _, points in pooled(study, panel)
            for some in points
            for task in some
        ]
        + [
            task
            for panel in study.panels
            if isinstance(panel, Slowdown)
            for _, some in of_point(study, panel)
            for task in some
        ]
    )


def tasks(
    study: Study, source: scenarios.Source, point: Point, seeds: Iterable[int], tables: frozenset[str]
) -> list[Task]:
    """Name runs by the scenario after all changes, the files it reads, the program or programs, and the seed."""
    world, changes = point.curve.world, own_changes(study, point)
    resolved = _resolved(source, point.changes if world else changes)
    # The name of a scenario decides nothing but a column of the summary, which is the same for all runs of studies.
    resolved.pop("name", None)
    resolved["name"] = changes["name"] = NAME
    files = _files(source, resolved, only=None if world else "file")
    content: dict[str, object] = {"scenario": resolved, "files": files, "program": program()}
    found = [(str(Path(source.file).parent / name), known) for name, known in files.items()]
    outside = None
    if world:
        outside = Outside(world, json.dumps(resolved, allow_nan=False, default=str))
        words = [path for word in world.command if scenarios.is_file(path := world.directory / word)]
        of_command = list(map(fingerprint, words))
        content["world"] = {"command": world.command, "files": of_command}
        found += zip(map(str, words), of_command, strict=True)
    measured = not world and resolved.get("run", {}).get("world") == "linux"
    if measured:
        # Two machines with the same kernel do not measure the same. A container has another name each time.
        content["machine"] = os.environ.get("INCAST_MACHINE") or platform.node()
        content["kernel"] = platform.release()
        host = os.environ.get("INCAST_HOST") or shutil.which("incast-host")
        content["host"] = fingerprint(Path(host)) if host and Path(host).is_file() else None
    # The order of keys is kept: that of classes of traffic and links decides what happens.
    text = json.dumps(content, allow_nan=False, default=str, separators=(",", ":"))
    set_ = tuple(scenarios.overrides(changes))
    return [
        Task(
            hashlib.sha256(f"{seed} {text}".encode()).hexdigest()[:32],
            source,
            set_,
            seed,
            tables,
            outside,
            measured,
            tuple(found),
        )
        for seed in seeds
    ]


def own_changes(study: Study, point: Point) -> dict[str, object]:
    """Return the changes of a point without the keys of worlds outside this program."""
    return {key: value for key, value in point.changes.items() if _steps(key)[0] not in study.worlds}


def distinct(study: Study) -> list[Point]:
    """Return the points of a study that differ in their runs: an axis need not change every curve."""
    found: dict[str, Point] = {}
    for point in study.points():
        found.setdefault(identity(point), point)
    return list(found.values())


def identity(point: Point) -> str:
    """Return what points have in common that do not differ in their runs."""
    return repr((point.curve.world, sorted(point.changes.items())))


def check(study: Study) -> list[Checked]:
    """Check that every distinct point of a study can be run; return what is known of its first run.

    Raises:
        ScenarioError: a point cannot be run.

    """
    if study.scenario is None:
        return []
    source, found = scenarios.read(study.scenario), []
    for point in distinct(study):
        try:
            changes = scenarios.overrides(own_changes(study, point))
            found.append(scenarios.check(source, changes, 1))
        except ScenarioError as error:
            place = ", ".join(f"{axis.name} {at}" for axis, at in zip(study.axes, point.at, strict=True))
            at = f" at {place}" if place else ""
            raise ScenarioError(f'{study.path}: the curve "{point.curve.name}"{at} cannot be run:\n{error}') from error
    return found


@functools.cache
def program() -> str:
    """Name the program: its version and a fingerprint of the binary, since not every change has a new version."""
    compiled = fingerprint(Path(str(_native.__file__)))[:16]
    return f"incast {_native.version()} {compiled}"


_parsed = functools.lru_cache(maxsize=64)(scenarios.parsed)


def _resolved(source: scenarios.Source, changes: Mapping[str, object]) -> dict[str, Any]:
    """Apply changes as the simulator does."""
    root: dict[str, Any] = _copied(_parsed(source.text, source.file))
    for key, value in changes.items():
        *steps, last = _steps(key)
        node: Any = root
        try:
            for step in steps:
                node = _entered(node, step)
            if isinstance(node, list):
                node[int(last)] = value
            else:
                node[last] = value
        except (TypeError, AttributeError, IndexError, ValueError) as error:
            raise ScenarioError(f'{source.file}: cannot set "{key}": no table or list entry holds it') from error
    root.pop("seed", None)
    return root


def _copied(part: Any) -> Any:  # noqa: ANN401
    """Copy what TOML can hold: `copy.deepcopy` takes five times as long."""
    match part:
        case dict():
            return {key: _copied(value) for key, value in part.items()}
        case list():
            return [_copied(one) for one in part]
        case _:
            return part


def _entered(node: Any, step: str) -> Any:  # noqa: ANN401
    if isinstance(node, list):
        return node[int(step)]
    below = node.setdefault(step, {})
    if isinstance(below, str):  # `sender = "dctcp"` is short for `sender = { name = "dctcp" }`
        below = node[step] = {"name": below}
    return below


# Every point of a study has the same keys.
@functools.lru_cache(maxsize=1024)
def _steps(key: str) -> tuple[str, ...]:
    try:
        found: dict[str, Any] | int = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f'"{key}" is not a valid key') from error
    steps = []
    while isinstance(found, dict):
        if len(found) != 1:
            raise ScenarioError(f"{key!r} is not a single key")
        ((step, found),) = found.items()
        steps.append(step)
    return tuple(steps)


def _files(source: scenarios.Source, part: object, *, only: str | None, key: str = "") -> dict[str, str]:
    """Return fingerprints of the files that a scenario names, below the key `only` or, if that is open, anywhere."""
    match part:
        case dict():
            below = list(part.items())
        case list():
            below = [(key, one) for one in part]
        case str() if part and only in (key, None) and scenarios.is_file(path := Path(source.file).parent / part):
            return {part: fingerprint(path)}
        case _:
            return {}
    found: dict[str, str] = {}
    for name, value in below:
        found |= _files(source, value, only=only, key=name)
    return found


def fingerprint(path: Path) -> str:
    """Return a hash of the content of a file. It is read again when it has been written to since."""
    return _digest(path, stamps(path))


def stamps(path: Path) -> tuple[int, ...]:
    """Return what changes whenever a file is written to or replaced, unless both happen within a tick of the clock."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


# Every run of a study asks for the same few files, before and after it.
@functools.lru_cache(maxsize=1024)
def _digest(path: Path, _stamps: tuple[int, ...]) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
