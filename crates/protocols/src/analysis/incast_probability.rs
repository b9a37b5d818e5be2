//! How likely a timeout is when many flows share a buffer (Huang et al., ARS, section II.C and III.B).
//!
//! The model: what the buffer and the path hold is shared by drops at random, all windows are equal, and only the
//! loss of a whole window leads to a timeout. Where that fails is a study of its own (`studies/ars/theory-*.toml`).
//!
//! Windows and capacities are in packets, and may be fractions, as averages are. What makes no sense (a negative
//! number, a window below one packet that is not zero) gives NaN.

/// The share of packets that is lost when `flows` windows of `window` packets meet room for `capacity` (equation 2).
#[must_use]
pub fn loss_rate(flows: f64, window: f64, capacity: f64) -> f64 {
    if !(flows >= 0.0 && window >= 0.0 && capacity >= 0.0) {
        return f64::NAN;
    }
    let in_flight = flows * window;
    if in_flight <= capacity { 0.0 } else { 1.0 - capacity / in_flight }
}

/// The probability that one flow loses its whole window (equation 3).
#[must_use]
pub fn timeout_probability(flows: f64, window: f64, capacity: f64) -> f64 {
    let loss = loss_rate(flows, window, capacity);
    // A loss rate of zero stays zero even for an empty window.
    if loss > 0.0 { libm::pow(loss, window) } else { loss }
}

/// The probability that at least one of the flows loses its whole window (equation 4; equation 8 with the batch size
/// as the number of flows).
#[must_use]
pub fn incast_probability(flows: f64, window: f64, capacity: f64) -> f64 {
    at_least_one(flows, timeout_probability(flows, window, capacity))
}

/// The same when all flows start at once in slow start (equation 9): their windows add up to the capacity, are doubled,
/// and half of all packets is lost.
///
/// The equation holds for flows that have so much to send that their windows do overflow the buffer.
#[must_use]
pub fn slow_start_incast_probability(flows: f64, capacity: f64) -> f64 {
    if !(flows >= 0.0 && capacity >= 0.0) {
        return f64::NAN;
    }
    if flows == 0.0 {
        return 0.0;
    }
    at_least_one(flows, libm::pow(0.5, 2.0 * capacity / flows))
}

/// `1 - (1 - p)^n`, to full precision where `p` is far below one.
fn at_least_one(flows: f64, probability: f64) -> f64 {
    if flows == 0.0 {
        return 0.0;
    }
    -libm::expm1(flows * libm::log1p(-probability))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(found: f64, printed: f64, digits: f64) {
        assert!((found - printed).abs() <= digits / 2.0 * 1.000_001, "{found} is not {printed}");
    }

    /// Section II.C: 40 flows of 4 packets meet room for 60; then half the window, then half the flows.
    #[test]
    fn the_worked_example() {
        for (flows, window, timeout, incast) in
            [(40.0, 4.0, 0.1526, 0.9987), (40.0, 2.0, 0.0625, 0.9243), (20.0, 4.0, 0.0039, 0.0753)]
        {
            close(timeout_probability(flows, window, 60.0), timeout, 1e-4);
            close(incast_probability(flows, window, 60.0), incast, 1e-4);
        }
        close(loss_rate(40.0, 4.0, 60.0), 5.0 / 8.0, 0.0);
    }

    /// Figure 2.
    #[test]
    fn cutting_flows_helps_and_cutting_windows_does_not() {
        let windows = [0.9987, 0.9980, 0.9965, 0.9952, 0.9930, 0.9815, 0.9243];
        let flows = [0.9987, 0.9881, 0.9298, 0.8557, 0.7361, 0.3808, 0.0753];
        for (index, ratio) in [0.0, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5].into_iter().enumerate() {
            close(incast_probability(40.0, 4.0 * (1.0 - ratio), 60.0), windows[index], 1e-4);
            close(incast_probability(40.0 * (1.0 - ratio), 4.0, 60.0), flows[index], 1e-4);
        }
    }

    /// Figure 3, all requests at once.
    #[test]
    fn the_more_flows_the_surer_the_timeout() {
        let flows = [8, 12, 16, 20, 24, 28, 32, 40, 48, 52, 60, 72, 90];
        let rows = [
            (32.0, [0.0308, 0.2602, 0.6439, 0.9002, 0.9836, 0.9984, 0.9999, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
            (64.0, [0.0001, 0.0074, 0.0607, 0.2120, 0.4527, 0.6998, 0.8732, 0.9900, 0.9997, 1.0, 1.0, 1.0, 1.0]),
            (128.0, [0.0, 0.0, 0.0002, 0.0028, 0.0147, 0.0484, 0.1177, 0.3790, 0.7005, 0.8250, 0.9593, 0.9983, 1.0]),
        ];
        for (capacity, row) in rows {
            for (flows, printed) in flows.into_iter().zip(row) {
                close(slow_start_incast_probability(f64::from(flows), capacity), printed, 1e-4);
            }
        }
    }

    /// Figure 3, in batches of n* with windows of 16 packets.
    #[test]
    fn batches_keep_the_risk_near_zero() {
        for (capacity, batch, printed) in [(32.0, 3.0, 6.97e-8), (64.0, 5.0, 3.28e-11), (128.0, 9.0, 4.86e-15)] {
            let found = incast_probability(batch, 16.0, capacity);
            assert!((found / printed - 1.0).abs() < 0.01, "{found} is not {printed}");
        }
    }

    #[test]
    fn nothing_is_lost_while_there_is_room_and_nonsense_has_no_probability() {
        for found in [
            loss_rate(15.0, 4.0, 60.0),
            timeout_probability(15.0, 4.0, 60.0),
            incast_probability(15.0, 4.0, 60.0),
            incast_probability(40.0, 0.0, 0.0),
            incast_probability(0.0, 4.0, 0.0),
            slow_start_incast_probability(0.0, 60.0),
        ] {
            assert!(found.abs() < f64::MIN_POSITIVE, "{found}");
        }
        for found in [
            loss_rate(-1.0, 4.0, 60.0),
            timeout_probability(40.0, f64::NAN, 60.0),
            incast_probability(40.0, 4.0, -1.0),
            slow_start_incast_probability(f64::NAN, 60.0),
            slow_start_incast_probability(-1.0, 0.0),
            slow_start_incast_probability(0.0, -1.0),
        ] {
            assert!(found.is_nan(), "{found}");
        }
        // No room at all: every window is lost.
        close(incast_probability(40.0, 4.0, 0.0), 1.0, 0.0);
    }

    proptest! {
        #[test]
        fn more_flows_or_less_room_never_help(flows in 1.0..500.0, window in 1.0..64.0, capacity in 1.0..1000.0) {
            let risk = incast_probability(flows, window, capacity);
            prop_assert!((0.0..=1.0).contains(&risk));
            prop_assert!(incast_probability(flows + 1.0, window, capacity) >= risk);
            prop_assert!(incast_probability(flows, window, capacity + 1.0) <= risk);
            prop_assert!(risk >= timeout_probability(flows, window, capacity));
        }
    }
}
