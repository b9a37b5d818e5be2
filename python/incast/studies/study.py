"""What a study file says."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from incast.studies.expressions import Expression

Value: TypeAlias = "str | int | float | bool"


@dataclass(frozen=True)
class Axis:
    """A key of the scenario (or several that move together) and the values it takes."""

    name: str
    label: str
    keys: tuple[str, ...]
    """None in a study of formulas."""
    values: tuple[tuple[object, ...], ...]
    """At each point, one entry per key."""
    shown: tuple[Value, ...]
    """What stands at the axis for each point."""

    def is_numeric(self) -> bool:
        """Whether values have places on a line; amounts with units stand side by side instead."""
        return all(isinstance(value, int | float) and not isinstance(value, bool) for value in self.shown)


@dataclass(frozen=True)
class Curve:
    """A stack that is compared, as changes to the scenario."""

    name: str
    label: str
    changes: Mapping[str, object]


@dataclass(frozen=True)
class Metric:
    """How one run gives one number: by its tables, or by where it stands in the grid."""

    name: str
    sql: str
    """Of the tables of the run; empty with formulas."""
    formulas: Mapping[str, Expression]
    """By curve, of the axes."""
    about: str
    unit: str
    place: str
    """File, line and key, for errors."""


@dataclass(frozen=True)
class Lines:
    """A panel of a figure: a metric over an axis, one line per curve."""

    x: str
    y: str
    title: str
    y_label: str
    log: tuple[str, ...]
    whiskers: tuple[str, str] | None
    """Metrics from and to which a whisker reaches."""
    at: Mapping[str, Value]
    """The value of every other axis."""


@dataclass(frozen=True)
class Trace:
    """A panel of a figure: one run per curve over time, straight from its tables."""

    sql: str
    title: str
    x_label: str
    y_label: str
    at: Mapping[str, Value]
    limits: tuple[float, float] | None
    dots: bool
    """Whether there is a dot for each row, not a line that holds until the next."""
    place: str


@dataclass(frozen=True)
class Map:
    """A panel of a figure: an expression at every place of two axes, as coloured cells."""

    x: str
    y: str
    value: Expression
    title: str
    value_label: str
    within: float | None
    """Cells are framed whose value is at most this."""
    at: Mapping[str, Value]


Panel: TypeAlias = "Lines | Trace | Map"


@dataclass(frozen=True)
class Direction:
    """The side of a number on which the whole interval must lie for a claim to hold in its direction."""

    side: str
    """`below` or `above`."""
    level: float


@dataclass(frozen=True)
class Claim:
    """What a paper says, as something that can be measured."""

    id: str
    text: str
    measure: Expression
    paper: float | str
    within: float | None
    at_least: float | None
    at_most: float | None
    direction: Direction | None
    why: str
    place: str


@dataclass(frozen=True)
class Point:
    """One curve at one place of the grid of the axes."""

    curve: Curve
    at: tuple[Value, ...]
    """By axis, in the order of the file."""
    changes: Mapping[str, object]


@dataclass(frozen=True)
class Study:
    """One study file: the runs it asks for, what they give, and what is said of them."""

    path: Path
    title: str
    figure: str
    note: str
    scenario: Path | None
    """What its runs run; a study without one only computes formulas."""
    changes: Mapping[str, object]
    seeds: int
    axes: tuple[Axis, ...]
    curves: tuple[Curve, ...]
    metrics: tuple[Metric, ...]
    panels: tuple[Panel, ...]
    claims: tuple[Claim, ...]

    @property
    def name(self) -> str:
        """What the study is called: the file's name without its ending."""
        return self.path.stem

    @property
    def table(self) -> Path:
        """Where the numbers of its runs are kept."""
        return self.path.with_suffix(".csv")

    def axis(self, name: str) -> Axis:
        """Return an axis by its name."""
        return next(axis for axis in self.axes if axis.name == name)

    def metric(self, name: str) -> Metric:
        """Return a metric by its name."""
        return next(metric for metric in self.metrics if metric.name == name)

    def grid(self) -> list[tuple[Value, ...]]:
        """Return every combination of axis values, the last axis changing fastest; one empty one without axes."""
        return self.grid_of(self.axes)

    @staticmethod
    def grid_of(axes: tuple[Axis, ...]) -> list[tuple[Value, ...]]:
        """Return every combination of the values of some axes."""
        return list(product(*(axis.shown for axis in axes)))

    def along(self, panel: Lines | Map) -> list[int]:
        """Return which places of the grid a panel shows."""
        names = [axis.name for axis in self.axes]
        places = [dict(zip(names, place, strict=True)) for place in self.grid()]
        return [index for index, place in enumerate(places) if all(place[name] == at for name, at in panel.at.items())]

    def points(self) -> list[Point]:
        """Return every curve at every place of the grid. A curve overrides the study, an axis overrides the curve."""
        found = []
        for curve in self.curves:
            for place, values in zip(self.grid(), product(*(axis.values for axis in self.axes)), strict=True):
                moved: dict[str, object] = {}
                for axis, at in zip(self.axes, values, strict=True):
                    moved.update(zip(axis.keys, at, strict=True))
                found.append(Point(curve, place, {**self.changes, **curve.changes, **moved}))
        return found
