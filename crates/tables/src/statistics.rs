//! Exact percentiles, means and Jain's index.
//!
//! A percentile is the nearest rank: of `n` values in ascending order, the `p`-th percentile is value number
//! `ceil(p / 100 * n)`, counted from one. It is always a value that occurred, never one between two.

/// A percentile as a whole number of thousandths, so that its rank is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permille(pub u16);

impl Permille {
    /// The 1st percentile.
    pub const P1: Self = Self(10);
    /// The 5th percentile.
    pub const P5: Self = Self(50);
    /// The median.
    pub const P50: Self = Self(500);
    /// The 90th percentile.
    pub const P90: Self = Self(900);
    /// The 95th percentile.
    pub const P95: Self = Self(950);
    /// The 99th percentile.
    pub const P99: Self = Self(990);
    /// The 99.9th percentile.
    pub const P999: Self = Self(999);
    /// The greatest value.
    pub const MAX: Self = Self(1000);

    /// The rank among `total` values, from one.
    fn rank(self, total: u128) -> u128 {
        (total * u128::from(self.0)).div_ceil(1000).clamp(1, total.max(1))
    }
}

/// A percentile of values in ascending order, or nothing if there are none.
#[must_use]
pub fn percentile<T: Copy>(ascending: &[T], at: Permille) -> Option<T> {
    ascending.get(at.rank(ascending.len() as u128) as usize - 1).copied()
}

/// A percentile of a histogram in which `weights[i]` is how often (or how long) the value was `i`.
#[must_use]
pub fn histogram_percentile(weights: &[u64], at: Permille) -> Option<u64> {
    let total = total(weights);
    let rank = at.rank(total);
    let mut so_far = 0;
    for (value, &weight) in weights.iter().enumerate() {
        so_far += u128::from(weight);
        if so_far >= rank && total > 0 {
            return Some(value as u64);
        }
    }
    None
}

/// The mean of a histogram in which `weights[i]` is how often (or how long) the value was `i`.
#[must_use]
pub fn histogram_mean(weights: &[u64]) -> Option<f64> {
    let total = total(weights);
    let sum: u128 = weights.iter().enumerate().map(|(value, &weight)| value as u128 * u128::from(weight)).sum();
    (total > 0).then(|| sum as f64 / total as f64)
}

/// The mean of whole numbers, or nothing if there are none.
#[must_use]
pub fn mean(values: &[u64]) -> Option<f64> {
    let sum: u128 = values.iter().map(|&value| u128::from(value)).sum();
    (!values.is_empty()).then(|| sum as f64 / values.len() as f64)
}

/// The sums over some shares that their fairness follows from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shares {
    count: u64,
    sum: f64,
    squares: f64,
}

impl Shares {
    /// Jain's fairness index `(sum x)^2 / (n * sum x^2)`: 1 if all shares are equal, `1/n` if one has everything.
    /// Nothing if there are no shares or all are zero.
    ///
    /// Source: Jain, Chiu, Hawe, "A Quantitative Measure of Fairness and Discrimination", DEC-TR-301 (1984).
    #[must_use]
    pub fn jain(&self) -> Option<f64> {
        (self.squares > 0.0).then(|| self.sum * self.sum / (self.count as f64 * self.squares))
    }
}

impl Extend<f64> for Shares {
    fn extend<T: IntoIterator<Item = f64>>(&mut self, shares: T) {
        for share in shares {
            self.count += 1;
            self.sum += share;
            self.squares += share * share;
        }
    }
}

fn total(weights: &[u64]) -> u128 {
    weights.iter().map(|&weight| u128::from(weight)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn jain(of: &[f64]) -> Option<f64> {
        let mut shares = Shares::default();
        shares.extend(of.iter().copied());
        shares.jain()
    }

    #[test]
    fn the_nearest_rank_is_the_textbook_example() {
        // Ranks of 5 values: 5 % is 0.25 -> 1, 30 % 1.5 -> 2, 40 % 2 -> 2, 50 % 2.5 -> 3, 100 % 5.
        let values = [15, 20, 35, 40, 50];
        let at = |permille| percentile(&values, Permille(permille));
        assert_eq!([at(50), at(300), at(400), at(500), at(1000)], [15, 20, 20, 35, 50].map(Some));
    }

    #[test]
    fn the_99_9th_percentile_of_a_thousand_is_the_second_largest_but_of_1001_the_second_largest_too() {
        let values: Vec<u64> = (1..=1001).collect();
        assert_eq!(percentile(&values[..1000], Permille::P999), Some(999));
        // 0.999 * 1001 = 999.999, rank 1000.
        assert_eq!(percentile(&values, Permille::P999), Some(1000));
        assert_eq!(percentile(&values[..999], Permille::P999), Some(999));
    }

    #[test]
    fn nothing_has_no_percentile_no_mean_and_no_fairness() {
        assert_eq!(percentile::<u64>(&[], Permille::P50), None);
        assert_eq!(histogram_percentile(&[], Permille::P50), None);
        assert_eq!(histogram_percentile(&[0, 0], Permille::P50), None);
        assert_eq!(histogram_mean(&[0, 0]), None);
        assert_eq!(mean(&[]), None);
        assert_eq!(jain(&[]), None);
        assert_eq!(jain(&[0.0, 0.0]), None);
    }

    #[test]
    fn a_queue_that_is_empty_half_the_time_and_four_long_otherwise_has_mean_two() {
        let weights = [50, 0, 0, 0, 50];
        assert_eq!(histogram_mean(&weights), Some(2.0));
        assert_eq!(histogram_percentile(&weights, Permille(500)), Some(0));
        assert_eq!(histogram_percentile(&weights, Permille(501)), Some(4));
    }

    #[test]
    fn a_histogram_of_days_in_picoseconds_does_not_overflow() {
        let weights = [0, u64::MAX, u64::MAX];
        assert_eq!(histogram_mean(&weights), Some(1.5));
        assert_eq!(histogram_percentile(&weights, Permille::P99), Some(2));
        assert_eq!(mean(&[u64::MAX, u64::MAX]), Some(u64::MAX as f64));
    }

    #[test]
    fn jain_of_one_two_three_is_six_sevenths() {
        // (1+2+3)^2 / (3 * (1+4+9)) = 36/42.
        assert!((jain(&[1.0, 2.0, 3.0]).unwrap() - 6.0 / 7.0).abs() < 1e-15);
        assert_eq!(jain(&[5.0; 8]), Some(1.0));
        assert_eq!(jain(&[7.0, 0.0, 0.0, 0.0]), Some(0.25));
    }

    proptest! {
        #[test]
        fn a_percentile_is_the_least_value_that_enough_others_do_not_exceed(
            values in prop::collection::vec(0u64..40, 1..200),
            permille in 1u16..=1000,
        ) {
            let enough = |bound: u64| {
                values.iter().filter(|&&value| value <= bound).count() * 1000 >= values.len() * usize::from(permille)
            };
            let naive = (0..40).find(|&bound| enough(bound));
            let mut sorted = values.clone();
            sorted.sort_unstable();
            prop_assert_eq!(percentile(&sorted, Permille(permille)), naive);
        }

        #[test]
        fn a_histogram_and_its_values_one_by_one_have_the_same_percentiles_and_mean(
            weights in prop::collection::vec(0u64..30, 0..20),
            permille in 1u16..=1000,
        ) {
            let values: Vec<u64> =
                (0u64..).zip(&weights).flat_map(|(value, &times)| vec![value; times as usize]).collect();
            prop_assert_eq!(
                histogram_percentile(&weights, Permille(permille)),
                percentile(&values, Permille(permille))
            );
            prop_assert_eq!(histogram_mean(&weights), mean(&values));
        }

        #[test]
        fn jain_lies_between_one_share_and_all_and_ignores_scale(shares in prop::collection::vec(0.0f64..1e9, 1..50)) {
            prop_assume!(shares.iter().any(|&share| share > 0.0));
            let index = jain(&shares).unwrap();
            prop_assert!(index >= 1.0 / shares.len() as f64 - 1e-12 && index <= 1.0 + 1e-12);
            let scaled: Vec<f64> = shares.iter().map(|share| share * 8.0).collect();
            prop_assert!((jain(&scaled).unwrap() - index).abs() < 1e-12);
        }
    }
}
