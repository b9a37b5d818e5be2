//! Jacobson's estimate of a round-trip time, as senders and receivers keep it.

use crate::units::Duration;

/// Mean and variation of samples (RFC 6298 section 2: alpha = 1/8, beta = 1/4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTripEstimate {
    mean: Duration,
    variation: Duration,
}

impl RoundTripEstimate {
    /// What the first sample says (section 2.2).
    #[inline]
    #[must_use]
    pub const fn first(sample: Duration) -> Self {
        Self { mean: sample, variation: Duration(sample.0 / 2) }
    }

    /// What a further sample makes of it (section 2.3).
    #[inline]
    #[must_use]
    pub const fn with(self, sample: Duration) -> Self {
        let off = self.mean.0.abs_diff(sample.0);
        Self {
            mean: Duration(self.mean.0 - self.mean.0 / 8 + sample.0 / 8),
            variation: Duration(self.variation.0 - self.variation.0 / 4 + off / 4),
        }
    }

    /// The smoothed round-trip time.
    #[inline]
    #[must_use]
    pub const fn mean(self) -> Duration {
        self.mean
    }

    /// How far samples are from it.
    #[inline]
    #[must_use]
    pub const fn variation(self) -> Duration {
        self.variation
    }

    /// `mean + 4 variation`, before any bounds.
    #[inline]
    #[must_use]
    pub const fn timeout(self) -> Duration {
        Duration(self.mean.0 + 4 * self.variation.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_smoothed_by_an_eighth_and_their_variation_by_a_quarter() {
        let first = RoundTripEstimate::first(Duration(800));
        assert_eq!((first.mean(), first.timeout()), (Duration(800), Duration(800 + 4 * 400)));
        let second = first.with(Duration(1600));
        assert_eq!((second.mean(), second.timeout()), (Duration(900), Duration(900 + 4 * 500)));
    }
}
