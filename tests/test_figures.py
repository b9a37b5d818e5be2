"""What a picture leaves out of a long series must not change what it says."""

from __future__ import annotations

import numpy as np

from incast import figures


def test_a_thinned_series_keeps_peaks_and_what_holds_through_a_gap() -> None:
    # Bursts of 10,000 changes that rise to 60 and fall to 0, then nothing for a second.
    rise = np.r_[np.linspace(0, 60, 5_000), np.linspace(60, 0, 5_000)]
    time = np.concatenate([burst + np.linspace(0, 0.001, len(rise)) for burst in range(7)])
    value = np.tile(rise, 7)
    thin_time, thin_value = figures.thinned(time, value)
    assert len(thin_time) < 6_000
    assert thin_value.max() == 60
    gaps = np.flatnonzero(np.diff(thin_time) > 0.5)
    assert len(gaps) == 6
    assert (thin_value[gaps] == 0).all()


def test_a_short_series_is_drawn_as_it_is() -> None:
    time = np.arange(100.0)
    assert figures.thinned(time, time)[0] is time
