//! Goodput over the steady part of a run.

use incast_units::{Rate, Time};

use incast_record::DeliveryCurve;

/// Payload per time between the moments at which 10 % and 90 % of all payload had been delivered, in bits per
/// second. Within a bin, delivery is taken as even. Nothing if both moments lie in one bin: then the curve is too
/// coarse to tell.
pub(crate) fn steady_bps(curve: &DeliveryCurve, end: Time) -> Option<f64> {
    let total: u128 = curve.bytes.iter().map(|&bytes| u128::from(bytes)).sum();
    let (first_bin, from) = reached(curve, end, total as f64 * 0.1)?;
    let (last_bin, to) = reached(curve, end, total as f64 * 0.9)?;
    (last_bin > first_bin && to > from).then(|| total as f64 * 0.8 * 8.0 / (to - from))
}

/// In which bin, and at how many seconds, this much had been delivered.
fn reached(curve: &DeliveryCurve, end: Time, amount: f64) -> Option<(usize, f64)> {
    let mut before = 0.0;
    for (bin, &bytes) in curve.bytes.iter().enumerate() {
        let after = before + bytes as f64;
        if bytes > 0 && after >= amount {
            let start = bin as f64 * curve.width.as_secs_f64();
            // The run may have ended within its last bin.
            let width = (end.as_secs_f64() - start).clamp(0.0, curve.width.as_secs_f64());
            return Some((bin, start + width * (amount - before) / bytes as f64));
        }
        before = after;
    }
    None
}

/// Bits in a byte times picoseconds in a second.
const BIT_PS: u128 = 8_000_000_000_000;

/// The share of `rate` that `bytes` took over the time from the run's start to `end`.
pub(crate) fn utilization(bytes: u64, rate: Rate, end: Time) -> Option<f64> {
    let most = u128::from(rate.0) * u128::from(end.0);
    (most > 0).then(|| (u128::from(bytes) * BIT_PS) as f64 / most as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use incast_units::Duration;

    fn close(left: Option<f64>, right: f64) -> bool {
        left.is_some_and(|left| (left / right - 1.0).abs() < 1e-12)
    }

    #[test]
    fn an_even_flow_has_its_own_rate() {
        let curve = DeliveryCurve { width: Duration::from_ms(1), bytes: vec![125_000; 20] };
        assert!(close(steady_bps(&curve, Time(20_000_000_000)), 1e9));
    }

    #[test]
    fn slow_start_and_a_late_straggler_do_not_count() {
        // 1000 bytes in all: 10 % at the end of bin 1, 90 % halfway through bin 4 (800 so far, then 200).
        let curve = DeliveryCurve { width: Duration::from_ms(1), bytes: vec![0, 100, 300, 400, 200] };
        let steady = steady_bps(&curve, Time(5_000_000_000));
        assert!(close(steady, 800.0 * 8.0 / 2.5e-3), "{steady:?}");
    }

    #[test]
    fn silence_between_the_two_moments_counts() {
        // 10 % in bin 0 after 0.2 ms (500 bytes there), 90 % in bin 9 after 0.8 ms.
        let mut bytes = vec![0; 10];
        (bytes[0], bytes[9]) = (500, 500);
        let curve = DeliveryCurve { width: Duration::from_ms(1), bytes };
        assert!(close(steady_bps(&curve, Time(10_000_000_000)), 800.0 * 8.0 / 9.6e-3));
    }

    #[test]
    fn the_last_bin_ends_with_the_run() {
        // The second bin holds 500 bytes in its first 0.5 ms only: 90 % after 0.4 ms of it.
        let curve = DeliveryCurve { width: Duration::from_ms(1), bytes: vec![500, 500] };
        assert!(close(steady_bps(&curve, Time(1_500_000_000)), 800.0 * 8.0 / 1.2e-3));
    }

    #[test]
    fn a_curve_too_coarse_says_nothing() {
        assert_eq!(
            steady_bps(&DeliveryCurve { width: Duration::from_ms(1), bytes: vec![1000] }, Time::from_us(900)),
            None
        );
        assert_eq!(steady_bps(&DeliveryCurve::default(), Time(0)), None);
        assert_eq!(
            steady_bps(&DeliveryCurve { width: Duration::from_ms(1), bytes: vec![0, 0] }, Time::from_us(900)),
            None
        );
    }
}
