//! A share of a whole, exact for what people write as decimals.

/// A part of a whole from 0 to 1, in millionths: sums and comparisons are the same on any machine.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(try_from = "f64", into = "f64")]
#[schemars(with = "f64", inline)]
pub struct Share(u32);

const WHOLE: u32 = 1_000_000;

impl Share {
    /// So many hundredths, at most all of them.
    #[must_use]
    pub const fn percent(percent: u32) -> Self {
        Self(if percent > 100 { WHOLE } else { percent * (WHOLE / 100) })
    }

    /// This share of `whole`, rounded down.
    #[must_use]
    pub const fn times(self, whole: u64) -> u64 {
        (whole as u128 * self.0 as u128 / WHOLE as u128) as u64
    }

    /// Whether `part` is at most this share of `whole`.
    #[must_use]
    pub const fn covers(self, part: u64, whole: u64) -> bool {
        part as u128 * WHOLE as u128 <= whole as u128 * self.0 as u128
    }

    /// `old` and `new` in one, `old` with this weight.
    #[must_use]
    pub const fn blend(self, old: u64, new: u64) -> u64 {
        let sum = old as u128 * self.0 as u128 + new as u128 * (WHOLE - self.0) as u128;
        (sum / WHOLE as u128) as u64
    }
}

impl TryFrom<f64> for Share {
    type Error = &'static str;

    fn try_from(value: f64) -> Result<Self, Self::Error> {
        if (0.0..=1.0).contains(&value) {
            Ok(Self((value * f64::from(WHOLE) + 0.5) as u32))
        } else {
            Err("a share is a number from 0 to 1")
        }
    }
}

impl From<Share> for f64 {
    fn from(share: Share) -> Self {
        Self::from(share.0) / Self::from(WHOLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_as_a_decimal_is_exact() {
        for percent in 0..=100 {
            let share = Share::percent(percent);
            let written = f64::from(percent) / 100.0;
            assert_eq!(Share::try_from(written), Ok(share));
            assert!((f64::from(share) - written).abs() < 1e-15);
        }
        assert_eq!(Share::percent(101), Share::percent(100));
        for wrong in [-0.01, 1.01, f64::NAN, f64::INFINITY] {
            assert!(Share::try_from(wrong).unwrap_err().contains("from 0 to 1"));
        }
    }

    #[test]
    fn shares_are_rounded_down_and_their_bounds_belong_to_them() {
        assert_eq!(Share::percent(90).times(1_000_000_000), 900_000_000);
        assert_eq!(Share::percent(50).times(3), 1);
        assert_eq!(Share::percent(100).times(u64::MAX), u64::MAX);
        assert!(Share::percent(10).covers(10, 100) && !Share::percent(10).covers(11, 100));
        assert!(Share::percent(100).covers(u64::MAX, u64::MAX));
    }

    #[test]
    fn the_weight_is_that_of_what_was_there() {
        assert_eq!(Share::percent(75).blend(1000, 500), 875);
        assert_eq!(Share::percent(0).blend(1000, 500), 500);
        assert_eq!(Share::percent(100).blend(1000, 500), 1000);
        assert_eq!(Share::percent(50).blend(u64::MAX, u64::MAX), u64::MAX);
    }
}
