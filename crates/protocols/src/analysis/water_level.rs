//! How DCMRG divides a port (Wang et al., section II.D, equation 15), solved directly.

use alloc::vec::Vec;

/// The rate of each elastic flow, and that of each flow with a minimum rate in the order of `minimum_rates`, in bit/s.
///
/// Every flow gets the same, and none less than its minimum: the rate r of the elastic flows solves
/// `N_el r + sum of max(theta_i, r) = C`, which is equation 15 with `R_ab = C - R_rv` and `R_el = N_el r`. The left side
/// does not fall as r grows, so there is one solution. Without elastic flows, where the paper's `R_el / N_el` is
/// undefined, it is the rate below which no flow falls, and without any flow the whole capacity. The time is that of
/// sorting.
///
/// None if a rate is negative or not finite, or if the minimum rates exceed the capacity.
#[must_use]
pub fn water_level(capacity: f64, minimum_rates: &[f64], elastic_flows: usize) -> Option<(f64, Vec<f64>)> {
    let reserved: f64 = minimum_rates.iter().sum();
    let is_rate = |rate: f64| rate.is_finite() && rate >= 0.0;
    if !is_rate(capacity) || !minimum_rates.iter().all(|&rate| is_rate(rate)) || reserved > capacity {
        return None;
    }
    let mut ascending = minimum_rates.to_vec();
    ascending.sort_unstable_by(f64::total_cmp);
    let level = level(capacity, reserved, &ascending, elastic_flows);
    Some((level, minimum_rates.iter().map(|rate| rate.max(level)).collect()))
}

/// The smallest are lifted one after the other, until what is left for those that share is less than the next needs.
fn level(capacity: f64, mut above: f64, ascending: &[f64], elastic_flows: usize) -> f64 {
    let mut sharing = elastic_flows;
    for &rate in ascending {
        let left = capacity - above;
        if sharing > 0 && left <= rate * sharing as f64 {
            return left / sharing as f64;
        }
        above -= rate;
        sharing += 1;
    }
    if sharing == 0 { capacity } else { capacity / sharing as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In Gbit/s.
    #[test]
    fn everybody_gets_the_same_but_nobody_less_than_his_minimum() {
        type Case<'a> = (f64, &'a [f64], usize, f64, &'a [f64]);
        let cases: &[Case<'_>] = &[
            (10.0, &[], 4, 2.5, &[]),
            (10.0, &[1.0, 1.0, 1.0], 2, 2.0, &[2.0, 2.0, 2.0]),
            (10.0, &[4.0, 4.0], 2, 1.0, &[4.0, 4.0]),
            (10.0, &[1.0, 2.0, 6.0], 1, 1.0, &[1.0, 2.0, 6.0]),
            (10.0, &[5.0, 5.0], 3, 0.0, &[5.0, 5.0]),
            (10.0, &[6.0, 3.0], 0, 4.0, &[6.0, 4.0]),
            (10.0, &[1.0, 3.0], 0, 5.0, &[5.0, 5.0]),
            (9.0, &[6.0], 3, 1.0, &[6.0]),
            (10.0, &[0.5, 1.5, 3.0, 3.5], 3, 0.5, &[0.5, 1.5, 3.0, 3.5]),
            (10.0, &[], 0, 10.0, &[]),
            (10.0, &[10.0], 0, 10.0, &[10.0]),
        ];
        for &(capacity, minimum_rates, elastic, level, rates) in cases {
            let (found, allocated) = water_level(capacity, minimum_rates, elastic).unwrap();
            assert!((found - level).abs() < 1e-12, "{minimum_rates:?}, {elastic}: {found}");
            assert_eq!(allocated.len(), rates.len());
            assert!(allocated.iter().zip(rates).all(|(a, b)| (a - b).abs() < 1e-12), "{allocated:?}");
        }
    }

    #[test]
    fn what_is_no_reservation_is_refused() {
        for (capacity, rates) in [
            (10.0, [6.0, 4.1]),
            (10.0, [-1.0, 2.0]),
            (10.0, [f64::NAN, 1.0]),
            (f64::INFINITY, [1.0, 1.0]),
            (-1.0, [0.0; 2]),
        ] {
            assert_eq!(water_level(capacity, &rates, 1), None);
        }
    }
}
