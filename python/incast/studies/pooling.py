"""Percentiles of the values of several runs together, and their intervals by a bootstrap over the runs."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from incast.studies import claims

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class Pooled(NamedTuple):
    """A percentile of all values together, and the ends of its 95 % interval; `nan` where they are not finite."""

    value: float
    low: float
    high: float


def percentile(runs: Sequence[NDArray[np.float64]], percent: float) -> Pooled:
    """Return a percentile by nearest rank of the values of all runs together.

    Runs are resampled as a whole, since the values within one depend on one another, by the same frozen numbers that
    resample the seeds of claims. A value that is infinite, such as the time of a message that is not complete, counts.
    """
    values = np.concatenate(runs)
    if not len(values):
        return Pooled(math.nan, math.nan, math.nan)
    order = np.argsort(values, kind="stable")
    values, run_of = values[order], np.repeat(np.arange(len(runs)), [len(one) for one in runs])[order]
    times = (np.bincount(row, minlength=len(runs))[run_of] for row in claims.resampled(len(runs)))
    found = [_one(values, some, percent) for some in times if some.any()]
    tail = (1 - claims.CONFIDENCE / 100) / 2
    # One of the resamples, since what is between two of them may be infinite.
    low, high = np.quantile(found[1:] or found, [tail, 1 - tail], method="inverted_cdf")
    return Pooled(*(one if math.isfinite(one) else math.nan for one in (found[0], float(low), float(high))))


def _one(values: NDArray[np.float64], times: NDArray[np.intp], percent: float) -> float:
    """Return a percentile of sorted values, of which each is there some times."""
    reached = np.cumsum(times)
    # As it is written: in floating point, 99.9 % of 1,000 would be the 1,000th.
    rank = math.ceil(Fraction(str(percent)) * int(reached[-1]) / 100)
    return float(values[np.searchsorted(reached, rank)])
