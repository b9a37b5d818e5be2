"""What is compared, as `grid.toml` fixes it."""

from __future__ import annotations

import itertools
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Path(__file__).resolve().parents[1]
"""`validation/ns3`."""

Half = Literal["work", "held-out"]


@dataclass(frozen=True)
class Tolerance:
    """A difference of means that counts as agreement whatever the spread over seeds."""

    relative: float
    absolute: float
    unit: str


@dataclass(frozen=True)
class Variant:
    """How loss is repaired, on both sides."""

    name: str
    meaning: str
    sack: bool
    recovery: str
    limited_transmit: bool
    ours: tuple[tuple[str, object], ...]
    """Keys of `[tcp]` in our scenarios."""


@dataclass(frozen=True)
class Set:
    """One way to run all points."""

    name: str
    meaning: str
    senders: tuple[str, ...]
    delay_step_ps: int
    meet: bool


@dataclass(frozen=True)
class Point:
    """An incast over a star, without its seed."""

    sender: str
    """ns-3's; ours is of the same kind."""
    variant: str
    senders: int
    size_bytes: int
    rate_bps: int
    delay_us: float
    buffer_packets: int
    mark_packets: int
    initial_window: int
    rto_min_ms: float
    delay_step_ps: int
    """Host h's link is longer by h times this."""

    @property
    def kind(self) -> str:
        """Our name of the sender."""
        return self.sender.removesuffix("-mended")

    @property
    def marks(self) -> bool:
        """Whether the switch marks."""
        return self.kind == "dctcp"


@dataclass(frozen=True)
class Protocol:
    """The whole file."""

    common: dict[str, Any]
    sets: dict[str, Set]
    meeting: dict[str, dict[str, Any]]
    variants: dict[str, Variant]
    sweep: dict[str, Any]
    grid_size_bytes: int
    factors: dict[str, list[int]]
    leaf_spine: dict[str, Any]
    metrics: dict[str, Tolerance]
    leaf_spine_metrics: dict[str, Tolerance]
    standard_errors: float
    bias: dict[str, float]

    @property
    def seeds(self) -> list[int]:
        """Seeds of the incasts."""
        return list(self.common["seeds"])

    def sweep_points(self, run: Set, variants: Sequence[str]) -> list[Point]:
        """Return the points of the sweep: by variant, sender, number of senders."""
        fixed = {key: value for key, value in self.sweep.items() if key != "senders"}
        return [
            Point(sender=sender, variant=variant, senders=count, delay_step_ps=run.delay_step_ps, **fixed)
            for variant in variants
            for sender in run.senders
            for count in self.sweep["senders"]
        ]

    def grid_points(self, run: Set, half: Half, variants: Sequence[str]) -> list[Point]:
        """Return the points of one half of the grid: by variant, sender, cell."""
        fixed = {"size_bytes": self.grid_size_bytes, "delay_step_ps": run.delay_step_ps}
        return [
            Point(sender=sender, variant=variant, **fixed, **cell)
            for variant in variants
            for sender in run.senders
            for cell in self.cells(half)
        ]

    def tcp(self, point: Point, run: Set) -> dict[str, Any]:
        """Return the keys of `[tcp]` that variant and set come down to on our side."""
        return {**dict(self.variants[point.variant].ours), **(self.meeting[point.kind] if run.meet else {})}

    def cells(self, half: Half) -> list[dict[str, Any]]:
        """Return the settings of the cells of one half.

        The halves interlock: a cell with an even sum of level indices is in the work half.
        """
        parity = 0 if half == "work" else 1
        cells = []
        for indices in itertools.product(*(range(len(levels)) for levels in self.factors.values())):
            if sum(indices) % 2 == parity:
                cell: dict[str, Any] = {
                    name: levels[index] for (name, levels), index in zip(self.factors.items(), indices, strict=True)
                }
                cells.append({**cell, "mark_packets": cell["buffer_packets"] // 4})
        return cells


def read(file: Path = HERE / "grid.toml") -> Protocol:
    """Read the protocol."""
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    leaf_spine = dict(document["leaf_spine"])
    leaf_spine_metrics = leaf_spine.pop("metrics")
    return Protocol(
        common=document["common"],
        sets={name: _set(name, table) for name, table in document["sets"].items()},
        meeting=document["meeting"],
        variants={name: _variant(name, table) for name, table in document["variants"].items()},
        sweep=document["sweep"],
        grid_size_bytes=document["grid"]["size_bytes"],
        factors=document["grid"]["factors"],
        leaf_spine=leaf_spine,
        metrics=_tolerances(document["metrics"]),
        leaf_spine_metrics=_tolerances(leaf_spine_metrics),
        standard_errors=document["agreement"]["standard_errors"],
        bias=document["bias"],
    )


def _set(name: str, table: dict[str, Any]) -> Set:
    return Set(name=name, **{**table, "senders": tuple(table["senders"])})


def _variant(name: str, table: dict[str, Any]) -> Variant:
    return Variant(name=name, meaning=table["meaning"], ours=tuple(table["ours"].items()), **table["ns3"])


def _tolerances(table: dict[str, Any]) -> dict[str, Tolerance]:
    return {name: Tolerance(**entry) for name, entry in table.items()}
