"""Judges claims: the measured number, its interval over seeds, and a verdict by the tolerance in the study file.

A verdict is one about the experiment, not about the seeds that happened to be run: the tolerance is tried on every
resampling of the seeds. If neither nearly all nor nearly none of them meet it, these seeds do not decide the claim.
"""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from incast import text
from incast._native import ScenarioError
from incast.studies import expressions, grids, table
from incast.studies.expressions import ExpressionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from incast.studies.grids import Outcome, Share
    from incast.studies.study import Claim, Study
    from incast.studies.table import Table

Verdict: TypeAlias = Literal["holds", "direction", "undecided", "fails", "baseline", "not-judged"]
Badge: TypeAlias = Literal["measured", "conjecture"]

RESAMPLES = 2000
CONFIDENCE = 95
# The file next to the studies of a paper that records the verdicts on its claims.
RECORD = "claims.csv"
_SEED = 1


@dataclass(frozen=True)
class Judged:
    """A claim and its result."""

    claim: Claim
    study: Study
    measured: float | None
    low: float | None
    """Lower end of the bootstrap interval; `None` with one seed."""
    high: float | None
    met: float | None
    """In which share of the resamples the tolerance is met; with one seed 1 or 0."""
    verdict: Verdict
    why: str
    """Our explanation if the claim does not hold, or the reason why it could not be judged."""
    parts: tuple[tuple[str, bool], ...] = ()
    """For a claim with several conditions, each condition and whether it is met."""
    unmatched: tuple[str, ...] = ()
    """Baselines that it needs and that do not hold."""
    otherwise: Verdict | None = None
    """What the verdict would be if these held."""
    share: Share | None = None
    """In which part of the grid of open settings it holds, if a study tells."""

    @property
    def badge(self) -> Badge | None:
        """Whether our explanation has been measured."""
        if not self.why or self.verdict == "not-judged":
            return None
        return "measured" if self.claim.shown_by.names else "conjecture"

    @property
    def sign(self) -> Literal["right", "wrong"] | None:
        """Whether the number is on the side of `direction`, or else has the sign of the paper's number."""
        if self.measured is None or expressions.is_truth(self.claim.measure):
            return None
        if self.claim.direction:
            level = self.claim.direction.level
            right = self.measured < level if self.claim.direction.side == "below" else self.measured > level
        elif isinstance(self.claim.paper, str) or not self.claim.paper:
            return None
        else:
            right = self.measured * self.claim.paper > 0
        return "right" if right else "wrong"

    @property
    def size(self) -> float | None:
        """Our number as a multiple of the paper's."""
        if self.measured is None or isinstance(self.claim.paper, str) or not self.claim.paper:
            return None
        return self.measured / self.claim.paper


def of_paper(studies: Iterable[Study], tables: Mapping[str, Table | None]) -> list[Judged]:
    """Judge the claims and baselines of a paper, by id; a claim says nothing if a baseline it needs does not hold."""
    judged = [one for study in studies for one in judge(study, tables[study.name])]
    judged.sort(key=lambda one: one.claim.id)
    held = {one.claim.id for one in judged if one.claim.is_baseline and one.verdict == "holds"}
    shares = _shares(studies, tables, {one.claim.id: one.claim for one in judged})
    return [replace(_calibrated(one, held), share=shares.get(one.claim.id)) for one in judged]


def _shares(
    studies: Iterable[Study], tables: Mapping[str, Table | None], claims: Mapping[str, Claim]
) -> dict[str, Share]:
    """Judge claims at every combination of the settings that the paper leaves open, where a study does so."""
    found = {}
    for study in studies:
        numbers = tables[study.name] if study.judged else None
        if numbers is None:
            continue
        scope = table.scope(study, numbers, resampled(study.seeds))
        for one in study.judged:
            claim = claims[one.claim]
            here = replace(claim, measure=one.measure or claim.measure, place=one.place)
            found[one.claim] = grids.share(study, scope, partial(_outcome, study, here))
    return found


def _outcome(study: Study, claim: Claim, scope: expressions.Scope) -> Outcome:
    match _judged(study, claim, scope).verdict:
        case "holds":
            return "holds"
        case "undecided" | "not-judged":  # a number that is missing says nothing
            return "undecided"
        case _:
            return "fails"


def _calibrated(one: Judged, held: set[str]) -> Judged:
    unmatched = tuple(name for name in one.claim.baselines.names if name not in held)
    if not unmatched or one.verdict == "not-judged":
        return one
    return replace(one, verdict="baseline", unmatched=unmatched, otherwise=one.verdict)


def split(judged: Iterable[Judged]) -> tuple[list[Judged], list[Judged]]:
    """Return the baselines, and the claims."""
    of: tuple[list[Judged], list[Judged]] = ([], [])
    for one in judged:
        of[not one.claim.is_baseline].append(one)
    return of


def whole(id_: str) -> str:
    """Return the id of the claim of which this is an atom: `A12` for `A12a`; of a claim without atoms its own."""
    atom = re.fullmatch(r"(.*\d)[a-z]", id_)
    return atom[1] if atom else id_


def count(judged: Iterable[Judged]) -> str:
    """Say how many claims there are, and of how many atoms."""
    ids = [one.claim.id for one in split(judged)[1]]
    claims = len({whole(one) for one in ids})
    atoms = f", {len(ids)} atoms" if len(ids) != claims else ""
    return f"{claims} claim{'s' if claims != 1 else ''}{atoms}"


def judge(study: Study, numbers: Table | None) -> list[Judged]:
    """Judge the claims and baselines of a study from its table, each by itself."""
    claims = [*study.claims, *study.baselines]
    if numbers is None:
        return [
            Judged(claim, study, None, None, None, None, "not-judged", "its study has not been run") for claim in claims
        ]
    scope = table.scope(study, numbers, resampled(study.seeds))
    return [_judged(study, claim, scope) for claim in claims]


def resampled(count: int) -> np.ndarray[tuple[int, int], np.dtype[np.intp]]:
    """Return the original seeds, followed by the resampled ones, which are the same for every point and curve."""
    # This generator is frozen: it draws the same numbers in every version of NumPy.
    drawn = np.random.RandomState(_SEED).randint(count, size=(RESAMPLES if count > 1 else 0, count))
    return np.concatenate([np.arange(count)[np.newaxis, :], drawn]).astype(np.intp)


def _judged(study: Study, claim: Claim, scope: expressions.Scope) -> Judged:
    try:
        values = expressions.evaluate(claim.measure, scope)
    except ExpressionError as error:  # reading.py has tried the expression: only errors that depend on numbers remain
        raise ScenarioError(f"{claim.place}: {error}") from error
    measured, resamples = float(values[0]), values[1:]
    if not math.isfinite(measured):
        why = "a number it needs is missing in some run"
        return Judged(claim, study, None, None, None, None, "not-judged", why)
    low, high = interval(resamples)
    met = float(np.mean(meets(claim, resamples if len(resamples) else values)))
    verdict = verdict_of(claim, met, measured if low is None else low, measured if high is None else high)
    why = "" if verdict == "holds" else claim.why
    return Judged(claim, study, measured, low, high, met, verdict, why, _parts(claim, scope))


def _parts(claim: Claim, scope: expressions.Scope) -> tuple[tuple[str, bool], ...]:
    demanded = expressions.parts(claim.measure)
    if len(demanded) == 1:
        return ()
    return tuple((part.text, bool(expressions.evaluate(part, scope)[0] == 1)) for part in demanded)


def interval(resamples: expressions.Numbers) -> tuple[float | None, float | None]:
    """Return the ends of the bootstrap interval; nothing without resamples, or if one of them is missing."""
    if not len(resamples) or not np.isfinite(resamples).all():
        return None, None
    tail = (100 - CONFIDENCE) / 2
    low, high = np.percentile(resamples, [tail, 100 - tail])
    return float(low), float(high)


def meets(claim: Claim, values: expressions.Numbers) -> NDArray[np.bool_]:
    """Return which numbers are within the tolerance; missing ones are not."""
    met = np.ones(values.shape, dtype=np.bool_)
    if claim.within is not None:
        met &= np.abs(values - float(claim.paper)) <= claim.within
    if claim.at_least is not None:
        met &= values >= claim.at_least
    if claim.at_most is not None:
        met &= values <= claim.at_most
    return met


def verdict_of(claim: Claim, met: float, low: float, high: float) -> Verdict:
    """Judge by the share of resamples that meet the tolerance, and by the ends of the interval."""
    if 100 * met >= CONFIDENCE:
        return "holds"
    if 100 * met > 100 - CONFIDENCE:
        return "undecided"
    if claim.direction:
        level = claim.direction.level
        if high < level if claim.direction.side == "below" else low > level:
            return "direction"
    return "fails"


def record(judged: list[Judged]) -> str:
    """Return the verdicts as CSV, to be saved next to the studies."""
    rows = [[one.claim.id, one.verdict, *map(brief, (one.measured, one.low, one.high))] for one in judged]
    return text.csv([["id", "verdict", "measured", "low", "high"], *rows])


def recorded(directory: Path) -> dict[str, str]:
    """Return the verdicts saved next to the studies, by claim.

    Raises:
        ScenarioError: the file is not a valid record.

    """
    path = directory / RECORD
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return {row["id"]: row["verdict"] for row in csv.DictReader(file)}
    except FileNotFoundError:
        return {}
    except (KeyError, ValueError, OSError) as error:
        raise ScenarioError(f"{path}: not a valid record of verdicts: {error}; --update rewrites it") from error


def brief(value: float | None) -> str:
    """Format a number with four digits."""
    return "" if value is None else f"{value:.4g}"
