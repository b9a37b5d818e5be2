"""The content of a study file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from incast.studies.expressions import Expression

Value: TypeAlias = "str | int | float | bool"

# Amounts as scenarios write them.
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)(packets|[KMG]?i?B|[kMGT]?bps|[pnum]?s)")


#: A key that begins so is the name of a parameter, not a key of the scenario. A value that is such a name stands for
#: what the parameter is set to.
PARAMETER = "$"


def named_in(value: object) -> set[str]:
    """Return the parameters that a value names, alone or inside lists and tables."""
    match value:
        case str() if value.startswith(PARAMETER):
            return {value}
        case dict():
            return set().union(*map(named_in, value.values()))
        case list():
            return set().union(*map(named_in, value))
        case _:
            return set()


def filled(value: object, parameters: Mapping[str, object]) -> object:
    """Return a value with what its parameters are set to in place of their names."""
    match value:
        case str() if value.startswith(PARAMETER):
            return parameters[value]
        case dict():
            return {key: filled(part, parameters) for key, part in value.items()}
        case list():
            return [filled(part, parameters) for part in value]
        case _:
            return value


def parted(changes: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """Tell changes of the scenario from parameters."""
    keys = {key: value for key, value in changes.items() if not key.startswith(PARAMETER)}
    return keys, {key: value for key, value in changes.items() if key.startswith(PARAMETER)}


def for_readers(value: Value) -> str:
    """Write a value of an axis as people do: `10ms` is 10 ms."""
    return _AMOUNT.sub(r"\1 \2", value) if isinstance(value, str) and _AMOUNT.fullmatch(value) else str(value)


@dataclass(frozen=True)
class Axis:
    """What varies together along one dimension of the grid."""

    name: str
    label: str
    changes: tuple[Mapping[str, object], ...]
    """At each point, changes to the scenario, and parameters; empty in a study of formulas."""
    shown: tuple[Value, ...]
    """The label of each point at the axis."""
    curves: tuple[str, ...] | None = None
    """The curves that it changes, if not all: the others have the same runs at all its points."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the scenario that it changes."""
        return tuple(dict.fromkeys(key for changes in self.changes for key in changes))

    @property
    def names(self) -> tuple[str, ...]:
        """The label of each point, for readers."""
        return tuple(map(for_readers, self.shown))

    def is_numeric(self) -> bool:
        """Whether the values are numbers on a scale; amounts with units are drawn side by side instead."""
        return all(isinstance(value, int | float) and not isinstance(value, bool) for value in self.shown)


@dataclass(frozen=True)
class World:
    """A world outside this program: a command that carries scenarios out."""

    name: str
    command: tuple[str, ...]
    directory: Path
    """Where the command runs: the folder of the study."""


@dataclass(frozen=True)
class Curve:
    """A variant to compare, as changes to the scenario."""

    name: str
    label: str
    changes: Mapping[str, object]
    world: World | None = None
    """`None`: a world of this program."""
    needs: tuple[str, ...] = ()
    """What has to be changed to deploy it."""


@dataclass(frozen=True)
class Metric:
    """How one number is measured per run: from its tables, or by a formula of the axes."""

    name: str
    sql: str
    """Query over the tables of the run; empty with formulas."""
    formulas: Mapping[str, Expression]
    """By curve, formulas of the axes."""
    about: str
    unit: str
    place: str
    """File, line and key, for errors."""

    @property
    def is_share(self) -> bool:
        """Whether its values are parts of a whole: no mean of them can lie below 0 or above 1."""
        return self.unit == "share"


@dataclass(frozen=True)
class Lines:
    """A panel of a figure: a metric over an axis, one line per curve."""

    x: str
    y: str
    title: str
    y_label: str
    log: tuple[str, ...]
    whiskers: tuple[str, str] | None
    """Metrics at the two ends of a whisker."""
    at: Mapping[str, Value]
    """The value of every other axis."""


@dataclass(frozen=True)
class Trace:
    """A panel of a figure: one run per curve over time, directly from its tables."""

    sql: str
    title: str
    x_label: str
    y_label: str
    at: Mapping[str, Value]
    limits: tuple[float, float] | None
    dots: bool
    """Whether to draw a dot per row instead of a line that holds until the next row."""
    place: str


@dataclass(frozen=True)
class Percentile:
    """A panel of a figure: a percentile of the values of all seeds together over an axis, from the tables of runs."""

    x: str
    sql: str
    """Gives the values of a run, one in each row."""
    percent: float
    title: str
    y_label: str
    unit: str
    log: tuple[str, ...]
    at: Mapping[str, Value]
    """The value of every other axis."""
    place: str


@dataclass(frozen=True)
class Slowdown:
    """A panel of a figure: a percentile of slowdowns over the size of messages, of all seeds together, at one point."""

    sql: str
    """Gives the size and the slowdown of each message of a run."""
    percent: float
    bins: int
    title: str
    at: Mapping[str, Value]
    place: str


@dataclass(frozen=True)
class Map:
    """A panel of a figure: an expression at every point of two axes, as coloured cells."""

    x: str
    y: str
    value: Expression
    title: str
    value_label: str
    within: float | None
    """Cells with at most this value are framed."""
    at: Mapping[str, Value]


@dataclass(frozen=True)
class Winners:
    """A panel of a figure: the best curve at every point of two axes."""

    x: str
    y: str
    metric: str
    is_lowest: bool
    """Whether the lowest number is the best."""
    curves: tuple[str, ...]
    """Which are compared, in the order of the file."""
    title: str
    at: Mapping[str, Value]


@dataclass(frozen=True)
class Ranking:
    """What it costs to take the same curve at every point: tables at the top of the report."""

    metric: str
    is_lowest: bool
    """Whether the lowest number is the best."""
    beside: Mapping[str, bool]
    """Metrics that are ranked too, and whether the lowest number is the best."""
    means: tuple[str, ...]
    """Metrics whose plain means are told."""
    by: tuple[str, ...]
    """Parameters by whose values the points are told apart."""
    map: tuple[str, str] | None
    """Parameters that are rows and columns of the map."""
    title: str


Panel: TypeAlias = "Lines | Percentile | Slowdown | Trace | Map | Winners | Ranking"


@dataclass(frozen=True)
class Direction:
    """The side of a number on which the whole interval must lie for a claim to hold in direction only."""

    side: str
    """`below` or `above`."""
    level: float


@dataclass(frozen=True)
class Names:
    """Names of other parts of a paper, which can be looked up only when all its studies have been read."""

    names: tuple[str, ...] = ()
    place: str = ""
    """File, line and key, for errors."""


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, in measurable form: about what it proposes, or about a baseline."""

    id: str
    text: str
    measure: Expression
    paper: float | str
    within: float | None
    at_least: float | None
    at_most: float | None
    direction: Direction | None
    why: str
    unit: str
    """Of the measured number; `%` shows fractions as percentages."""
    place: str
    is_baseline: bool = False
    """Whether it was used to calibrate, and is not counted."""
    shown_by: Names = Names()
    """Studies whose tables show what `why` says."""
    baselines: Names = Names()
    """Statements about baselines without which this one says nothing."""
    closed: str = ""
    """Why no setting that the paper leaves open could change it."""


@dataclass(frozen=True)
class InGrid:
    """A claim of the paper that a study judges at every combination of the settings which the paper leaves open."""

    claim: str
    measure: Expression | None
    """How this study measures it; `None`: as the claim itself says."""
    place: str


@dataclass(frozen=True)
class Point:
    """One curve at one point of the grid of the axes."""

    curve: Curve
    at: tuple[Value, ...]
    """Its value on each axis, in the order of the file."""
    changes: Mapping[str, object]


@dataclass(frozen=True)
class Full:
    """The size of a study in the paper, where the study is a scaled-down one by default."""

    seeds: int
    changes: Mapping[str, object]


@dataclass(frozen=True)
class Study:
    """One study file: its runs, metrics, panels and claims."""

    path: Path
    title: str
    figure: str
    note: str
    scenario: Path | None
    """The scenario of the runs; a study without one only computes formulas."""
    changes: Mapping[str, object]
    seeds: int
    worlds: tuple[str, ...]
    """Names of the worlds outside. A key below such a name, as `NAME.KEY`, is for that world only."""
    axes: tuple[Axis, ...]
    omitted: frozenset[tuple[Value, ...]]
    """Combinations of axis values that are not part of the study."""
    curves: tuple[Curve, ...]
    metrics: tuple[Metric, ...]
    panels: tuple[Panel, ...]
    baselines: tuple[Claim, ...]
    claims: tuple[Claim, ...]
    open: tuple[str, ...] = ()
    """Axes that are settings which the paper leaves open."""
    frozen: Mapping[str, Value] = field(default_factory=dict)
    """The value of each in the paper's other studies."""
    judged: tuple[InGrid, ...] = ()
    full: Full | None = None

    def at_full_size(self) -> Study:
        """Return the study in the size of the paper; itself if it has no other."""
        if self.full is None:
            return self
        changes = {**self.changes, **self.full.changes}
        return replace(self, seeds=self.full.seeds, changes=changes, full=None)

    @property
    def name(self) -> str:
        """The name of the study: the file name without its suffix."""
        return self.path.stem

    @property
    def table(self) -> Path:
        """The file with the results of its runs."""
        return self.path.with_suffix(".csv")

    def axis(self, name: str) -> Axis:
        """Return an axis by its name."""
        return next(axis for axis in self.axes if axis.name == name)

    def metric(self, name: str) -> Metric:
        """Return a metric by its name."""
        return next(metric for metric in self.metrics if metric.name == name)

    def grid(self) -> list[tuple[Value, ...]]:
        """Return every combination of axis values, the last axis changing fastest; without axes, one empty tuple."""
        return [place for place in self.grid_of(self.axes) if place not in self.omitted]

    @staticmethod
    def grid_of(axes: tuple[Axis, ...]) -> list[tuple[Value, ...]]:
        """Return every combination of the values of some axes."""
        return list(product(*(axis.shown for axis in axes)))

    def parameters(self) -> list[dict[str, object]]:
        """Return the parameters that are set at each point of the grid."""
        found = []
        for place, moves in zip(self.grid_of(self.axes), product(*(axis.changes for axis in self.axes)), strict=True):
            if place not in self.omitted:
                found.append({key: value for move in moves for key, value in parted(move)[1].items()})
        return found

    def cells(self) -> dict[tuple[Value, ...], list[int]]:
        """Return for each combination of the open settings which points of the grid have it."""
        names = [axis.name for axis in self.axes]
        opened = [names.index(name) for name in self.open]
        cells: dict[tuple[Value, ...], list[int]] = {}
        for index, place in enumerate(self.grid()):
            cells.setdefault(tuple(place[axis] for axis in opened), []).append(index)
        return cells

    def along(self, panel: Lines | Percentile | Map | Winners) -> list[int]:
        """Return which points of the grid a panel shows."""
        names = [axis.name for axis in self.axes]
        places = [dict(zip(names, place, strict=True)) for place in self.grid()]
        return [index for index, place in enumerate(places) if all(place[name] == at for name, at in panel.at.items())]

    def fixed(self, panel: Lines | Percentile | Slowdown | Map | Winners) -> list[str]:
        """Say for readers at which values a panel fixes the axes over which it is not drawn."""
        return [f"{self.axis(name).label}: {for_readers(value)}" for name, value in panel.at.items()]

    def changed(self) -> Iterator[tuple[Curve, tuple[Value, ...], dict[str, object]]]:
        """Yield every curve at every point of the grid with its changes and parameters.

        A curve overrides the study, an axis overrides the curve.
        """
        for curve in self.curves:
            for place, moves in zip(
                self.grid_of(self.axes), product(*(axis.changes for axis in self.axes)), strict=True
            ):
                if place not in self.omitted:
                    changes = {**self.changes, **curve.changes}
                    for axis, move in zip(self.axes, moves, strict=True):
                        if axis.curves is None or curve.name in axis.curves:
                            changes |= move
                    yield curve, place, changes

    def points(self) -> list[Point]:
        """Return every curve at every point of the grid."""
        found = []
        for curve, place, changes in self.changed():
            keys, parameters = parted(changes)
            found.append(Point(curve, place, {key: filled(value, parameters) for key, value in keys.items()}))
        return found
