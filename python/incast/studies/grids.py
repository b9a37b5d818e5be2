"""Settings that a paper leaves open: in which part of their grid a claim holds, and which single one decides it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from incast.studies.expressions import Scope
    from incast.studies.study import Study, Value

Outcome: TypeAlias = Literal["holds", "undecided", "fails"]
"""At one combination of the settings; `undecided` if its seeds do not decide, or a number is missing."""


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
    undecided: int
    of: int
    frozen: Outcome
    """With the setting of the paper's other studies, by this study's table."""
    flips: tuple[Flip, ...]


def share(study: Study, scope: Scope, judge: Callable[[Scope], Outcome]) -> Share:
    """Judge a claim at every combination of the open settings, each by the points that have it.

    A combination that the seeds do not decide counts neither as one in which the claim holds nor as a flip.
    """
    found = {cell: judge(scope.chosen(places)) for cell, places in study.cells().items()}
    frozen = tuple(study.frozen[name] for name in study.open)
    changed = [
        (name, value, (*frozen[:index], value, *frozen[index + 1 :]))
        for index, name in enumerate(study.open)
        for value in study.axis(name).shown
    ]
    flips = tuple(
        Flip(name, value, found[cell] == "holds")
        for name, value, cell in changed
        if cell in found and found[cell] not in (found[frozen], "undecided")
    )
    counts = Counter(found.values())
    return Share(study, counts["holds"], counts["undecided"], len(found), found[frozen], flips)
