//! The receiver's estimate of the round-trip time (RDTCP IV.E).

use crate::round_trip::RoundTripEstimate;
use crate::units::{Duration, Offset, Time};

/// Times from an ACK's departure to the arrival of the last segment that it allowed: one at a time.
#[derive(Clone, Debug, Default)]
pub struct RoundTrip {
    estimate: Option<RoundTripEstimate>,
    /// Start of the segment that is waited for, and since when.
    waits_for: Option<(Offset, Time)>,
}

impl RoundTrip {
    /// Smoothed round-trip time, once there was a sample.
    #[must_use]
    pub fn smoothed(&self) -> Option<Duration> {
        self.estimate.map(RoundTripEstimate::mean)
    }

    /// `srtt + 4 rttvar`, no less than `least`.
    #[must_use]
    pub fn timeout(&self, least: Duration) -> Duration {
        self.estimate.map_or(least, |estimate| estimate.timeout().max(least))
    }

    /// An ACK left that allows segments of which the last begins at `expected` (equation 1).
    pub fn on_ack(&mut self, now: Time, expected: Offset) {
        if self.waits_for.is_none() {
            self.waits_for = Some((expected, now));
        }
    }

    /// An ACK was repeated, or there is a gap: what is waited for may have been lost.
    pub fn forget(&mut self) {
        self.waits_for = None;
    }

    /// A segment that begins at `start` arrived in order.
    pub fn on_arrival(&mut self, now: Time, start: Offset) {
        let Some((expected, since)) = self.waits_for else { return };
        if start == expected {
            self.sample(now.since(since));
        }
        if start >= expected {
            self.waits_for = None;
        }
    }

    /// Takes a sample that was measured otherwise.
    pub fn sample(&mut self, sample: Duration) {
        let next = self.estimate.map_or_else(|| RoundTripEstimate::first(sample), |old| old.with(sample));
        self.estimate = Some(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_segment_that_an_ack_allowed_is_a_sample() {
        let mut rtt = RoundTrip::default();
        rtt.on_ack(Time::from_us(0), Offset(3000));
        rtt.on_ack(Time::from_us(10), Offset(4000));
        rtt.on_arrival(Time::from_us(100), Offset(2000));
        assert_eq!(rtt.smoothed(), None);
        rtt.on_arrival(Time::from_us(160), Offset(3000));
        assert_eq!(rtt.smoothed(), Some(Duration::from_us(160)));
        assert_eq!(rtt.timeout(Duration::ZERO), Duration::from_us(160 + 4 * 80));
        assert_eq!(rtt.timeout(Duration::from_ms(10)), Duration::from_ms(10));
        rtt.on_arrival(Time::from_us(999), Offset(4000));
        assert_eq!(rtt.smoothed(), Some(Duration::from_us(160)), "one is timed at a time");
    }

    #[test]
    fn what_was_passed_over_is_no_sample() {
        let mut rtt = RoundTrip::default();
        rtt.on_ack(Time::from_us(0), Offset(3000));
        rtt.on_arrival(Time::from_us(160), Offset(4000));
        rtt.on_arrival(Time::from_us(170), Offset(3000));
        assert_eq!(rtt.smoothed(), None);
        rtt.on_ack(Time::from_us(0), Offset(3000));
        rtt.forget();
        rtt.on_arrival(Time::from_us(160), Offset(3000));
        assert_eq!(rtt.smoothed(), None);
    }

    /// RFC 6298 section 2.3: gains of an eighth and a quarter.
    #[test]
    fn samples_are_smoothed() {
        let mut rtt = RoundTrip::default();
        rtt.sample(Duration(800));
        rtt.sample(Duration(1600));
        assert_eq!(rtt.smoothed(), Some(Duration(900)));
        assert_eq!(rtt.timeout(Duration::ZERO), Duration(900 + 4 * (300 + 200)));
    }
}
