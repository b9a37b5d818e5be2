"""Several runs of one scenario: what they have in common, with intervals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from incast import text
from incast.estimates import Estimate, estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def _count(value: float) -> str:
    return f"{value:,.4g}" if value % 1 else f"{value:,.0f}"


# The columns of `summary` that are shown, and how they are written.
_SHOWN: dict[str, Callable[[float], str]] = {
    "flows": _count,
    "flows_complete": _count,
    "goodput_total_bps": text.rate,
    "fct_p50_s": text.seconds,
    "fct_p99_s": text.seconds,
    "timeouts": _count,
}


def intervals(summaries: Sequence[Mapping[str, Any]]) -> dict[str, Estimate]:
    """Return mean and 95 % interval of each number that all repetitions have; `summaries` are of one class."""
    found = {}
    for column in summaries[0]:
        values = [summary[column] for summary in summaries]
        if column != "seed" and all(_is_number(value) for value in values):
            found[column] = estimate(values)
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_json(summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return every repetition's summary, and mean and interval of each of its numbers, for other programs."""
    whole = intervals(summaries)
    return {
        "repetitions": list(summaries),
        "intervals": {column: {"mean": one.mean, "low": one.low, "high": one.high} for column, one in whole.items()},
    }


def rows(summaries: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return a row for each class of traffic, and one for all traffic if there are several."""
    classes = list(summaries[0]["classes"])
    of_classes = [row(one, [summary["classes"][one] for summary in summaries]) for one in classes]
    return of_classes if len(classes) == 1 else [*of_classes, row("all", summaries)]


def row(name: str, summaries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a row: of each number its mean, and how far its interval reaches to either side if it varies."""
    known = intervals(summaries)
    return [name, *(_cell(known.get(column), write) for column, write in _SHOWN.items())]


def _cell(one: Estimate | None, write: Callable[[float], str]) -> str:
    if one is None:
        return "-"
    varies = one.half_width > 0 and not math.isnan(one.half_width)
    return f"{write(one.mean)} ± {write(one.half_width)}" if varies else write(one.mean)
