"""Means of replications and their confidence intervals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

# Student's t, two-sided 95 %, for 1 to 30 degrees of freedom.
_T_95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


class Estimate(NamedTuple):
    """A mean and the half-width of its 95 % confidence interval."""

    mean: float
    half_width: float
    """`nan` if there is only one sample."""

    @property
    def low(self) -> float:
        """Lower end of the interval, or the mean if there is no interval."""
        return self.mean if math.isnan(self.half_width) else self.mean - self.half_width

    @property
    def high(self) -> float:
        """Upper end of the interval, or the mean if there is no interval."""
        return self.mean if math.isnan(self.half_width) else self.mean + self.half_width


def estimate(samples: Sequence[float]) -> Estimate:
    """Estimate the mean of independent replications with a t interval (95 %)."""
    n = len(samples)
    if n == 0:
        return Estimate(math.nan, math.nan)
    mean = math.fsum(samples) / n
    if n == 1:
        return Estimate(mean, math.nan)
    variance = math.fsum((sample - mean) ** 2 for sample in samples) / (n - 1)
    return Estimate(mean, t_95(n - 1) * math.sqrt(variance / n))


def t_95(freedom: int) -> float:
    """Return Student's t, two-sided 95 %, for this many degrees of freedom."""
    if freedom <= len(_T_95):
        return _T_95[freedom - 1]
    # The first terms of the expansion around the normal quantile: good to four digits from 31 on.
    z = 1.959964
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
