"""Settings that a paper leaves open: in which part of their grid a claim holds, and which single one decides it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from incast.studies.expressions import Scope
    from incast.studies.study import Study, Value


@dataclass(frozen=True)
class Flip:
    """A single change of the frozen setting after which a claim holds no longer, or does so only then."""

    axis: str
    value: Value
    holds: bool


@dataclass(frozen=True)
class Share:
    """In how many combinations of the open settings a claim holds."""

    study: Study
    holds: int
    of: int
    holds_frozen: bool
    """Whether it holds with the setting of the paper's other studies, by this study's table."""
    flips: tuple[Flip, ...]


def share(study: Study, scope: Scope, holds: Callable[[Scope], bool]) -> Share:
    """Judge a claim at every combination of the open settings, each by the points that have it."""
    held = {cell: holds(scope.chosen(places)) for cell, places in study.cells().items()}
    frozen = tuple(study.frozen[name] for name in study.open)
    changed = [
        (name, value, (*frozen[:index], value, *frozen[index + 1 :]))
        for index, name in enumerate(study.open)
        for value in study.axis(name).shown
    ]
    flips = tuple(
        Flip(name, value, held[cell]) for name, value, cell in changed if held.get(cell, held[frozen]) != held[frozen]
    )
    return Share(study, sum(held.values()), len(held), held[frozen], flips)
