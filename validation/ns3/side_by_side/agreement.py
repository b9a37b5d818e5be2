"""When two simulators agree, and what all points share."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_FILE = Path(__file__).resolve().parents[1] / "tolerances.toml"


@dataclass(frozen=True)
class Tolerance:
    """A difference of means that counts as agreement whatever the spread over seeds."""

    relative: float
    absolute: float
    unit: str


@dataclass(frozen=True)
class Rules:
    """The file `tolerances.toml`."""

    standard_errors: float
    metrics: dict[str, Tolerance]
    leaf_spine: dict[str, Tolerance]
    bias: dict[str, float]


def read(file: Path = _FILE) -> Rules:
    """Read what counts as agreement."""
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    metrics, leaf_spine = (
        {name: Tolerance(**entry) for name, entry in table.items()}
        for table in (document["metrics"], document["leaf_spine"]["metrics"])
    )
    return Rules(document["agreement"]["standard_errors"], metrics, leaf_spine, document["bias"])


@dataclass(frozen=True)
class Comparison:
    """One metric at one point, over paired seeds."""

    ours: float
    """Mean over seeds."""
    ns3: float
    standard_error: float
    """Of the mean of the paired differences."""
    allowed: float
    """How far apart the means may be."""

    @property
    def difference(self) -> float:
        """Ours less ns-3's."""
        return self.ours - self.ns3

    @property
    def agrees(self) -> bool:
        """Whether the means are as near as the protocol asks for."""
        return abs(self.difference) <= self.allowed

    @property
    def relative(self) -> float:
        """The difference as a share of the mean of both; 0 if both are 0."""
        middle = (abs(self.ours) + abs(self.ns3)) / 2
        return self.difference / middle if middle > 0 else 0.0


@dataclass(frozen=True)
class Bias:
    """What the points share: the mean of their relative differences."""

    mean: float
    standard_error: float
    points: int
    within: bool


def compare(
    ours: Sequence[float], ns3: Sequence[float], tolerance: Tolerance, standard_errors: float
) -> Comparison | None:
    """Compare one metric over paired seeds; `None` if a run of either side has no value."""
    if len(ours) != len(ns3):
        raise ValueError("runs are paired by seed")
    if not ours or not all(map(math.isfinite, (*ours, *ns3))):
        return None
    differences = [a - b for a, b in zip(ours, ns3, strict=True)]
    error = spread(differences) / math.sqrt(len(differences))
    means = mean(ours), mean(ns3)
    allowed = max(standard_errors * error, tolerance.relative * max(map(abs, means)), tolerance.absolute)
    return Comparison(*means, error, allowed)


def bias(comparisons: Sequence[Comparison], tolerance: Tolerance, rules: dict[str, float]) -> Bias | None:
    """Tell what all points share; `None` where there is too little of the metric to tell.

    Of counts (packets, timeouts) points at which neither side has `floor` say nothing about a relative difference.
    """
    floor = rules["floor"] if tolerance.unit in {"packets", ""} else 0.0
    told = [c.relative for c in comparisons if max(c.ours, c.ns3) >= floor]
    if len(told) < 2:
        return None
    middle = mean(told)
    error = spread(told) / math.sqrt(len(told))
    within = abs(middle) <= max(rules["standard_errors"] * error, rules["relative"])
    return Bias(middle, error, len(told), within)


def mean(values: Sequence[float]) -> float:
    """Return the mean."""
    return math.fsum(values) / len(values)


def spread(values: Sequence[float]) -> float:
    """Return the standard deviation of a sample; 0 of a single value."""
    if len(values) < 2:
        return 0.0
    middle = mean(values)
    return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1))
