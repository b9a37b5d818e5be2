//! The round-trip time as a receiver can see it.
//!
//! An ACK that moves the announced right edge lets the sender send what lay beyond the edge before. The first
//! byte from there on is at least a round trip away, and exactly one if the sender stood at the edge.

use crate::receiver::{AckCause, Arrival, SentAck};
use crate::units::{Duration, Offset, Time};

/// A connection with a longer round trip is left alone only after this many samples that say so: a sample across
/// a retransmission timeout looks the same.
const SAMPLES_TO_LEAVE: u32 = 3;

/// What is known of a connection's round trip.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    /// Right edge announced so far.
    edge: Offset,
    /// The first byte that an ACK made possible, and when that ACK left.
    awaited: Option<(Offset, Time)>,
    /// Smoothed (RFC 6298 section 2: gain 1/8).
    smoothed: Option<Duration>,
    /// Samples too long for a connection that is to be controlled, before the first that is not.
    too_long: u32,
}

impl RoundTrip {
    /// An ACK left. It begins a sample if the sender has data for what it grants.
    pub(super) fn on_ack_sent(&mut self, now: Time, sent: &SentAck, has_data: bool) {
        if sent.edge > self.edge {
            if has_data && self.awaited.is_none() {
                self.awaited = Some((self.edge, now));
            }
            self.edge = sent.edge;
        } else if sent.cause == AckCause::SynAck {
            // Sent again: the answer may be to either copy.
            self.awaited = None;
        }
    }

    /// Data arrived. Nothing is measured across a loss, nor by data that comes again.
    pub(super) fn on_data(&mut self, now: Time, arrival: &Arrival, limit: Duration) {
        let Some((byte, since)) = self.awaited else { return };
        if arrival.delivered.0 == 0 || arrival.beyond_gap.0 > 0 {
            self.awaited = None;
        } else if arrival.expected > byte {
            self.awaited = None;
            self.sample(now.since(since), limit);
        }
    }

    fn sample(&mut self, sample: Duration, limit: Duration) {
        if sample >= limit {
            if self.smoothed.is_none() {
                self.too_long = self.too_long.saturating_add(1);
            }
            return;
        }
        self.smoothed = Some(match self.smoothed {
            None => sample,
            Some(old) => Duration(old.0 - old.0 / 8 + sample.0 / 8),
        });
    }

    /// What is under way measures nothing.
    pub(super) fn forget(&mut self) {
        self.awaited = None;
    }

    pub(super) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// Whether the path is as short as control needs it, for all that is known.
    pub(super) fn in_scope(&self) -> bool {
        self.smoothed.is_some() || self.too_long < SAMPLES_TO_LEAVE
    }

    /// Right edge announced so far.
    pub(super) fn edge(&self) -> Offset {
        self.edge
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::Marks;
    use crate::units::Bytes;

    const LIMIT: Duration = Duration::from_ms(2);

    fn ack(ack: u64, edge: u64, cause: AckCause) -> SentAck {
        SentAck { ack: Offset(ack), edge: Offset(edge), cause }
    }

    fn data(start: u64, expected: u64, delivered: u64, beyond_gap: u64) -> Arrival {
        Arrival {
            start: Offset(start),
            payload: Bytes(1000),
            new: Bytes(delivered.max(beyond_gap)),
            expected: Offset(expected),
            delivered: Bytes(delivered),
            beyond_gap: Bytes(beyond_gap),
            highest: Offset(start + 1000),
            marks: Marks::NONE,
        }
    }

    /// Granted 2000 bytes at time 0, and data of a message under way.
    fn granted() -> RoundTrip {
        let mut rtt = RoundTrip::default();
        rtt.on_ack_sent(Time(0), &ack(0, 2000, AckCause::SynAck), true);
        rtt
    }

    #[test]
    fn the_first_sample_is_from_the_syn_ack_to_the_first_data() {
        let mut rtt = granted();
        rtt.on_data(Time::from_us(100), &data(0, 1000, 1000, 0), LIMIT);
        assert_eq!(rtt.smoothed(), Some(Duration::from_us(100)));
    }

    /// Without a message the sender may answer whenever it likes.
    #[test]
    fn a_grant_to_a_sender_without_data_measures_nothing() {
        let mut rtt = RoundTrip::default();
        rtt.on_ack_sent(Time(0), &ack(0, 2000, AckCause::SynAck), false);
        rtt.on_data(Time::from_us(100), &data(0, 1000, 1000, 0), LIMIT);
        assert_eq!(rtt.smoothed(), None);
        assert_eq!(rtt.edge(), Offset(2000));
    }

    /// The bytes up to the old edge were allowed before: they say nothing of the ACK that moved it.
    #[test]
    fn later_samples_are_from_the_ack_to_the_first_byte_beyond_the_old_edge() {
        let mut rtt = granted();
        rtt.on_data(Time::from_us(100), &data(0, 1000, 1000, 0), LIMIT);
        rtt.on_ack_sent(Time::from_us(100), &ack(1000, 3000, AckCause::Data), true);
        rtt.on_data(Time::from_us(112), &data(1000, 2000, 1000, 0), LIMIT);
        rtt.on_ack_sent(Time::from_us(112), &ack(2000, 4000, AckCause::Data), true);
        assert_eq!(rtt.smoothed(), Some(Duration::from_us(100)), "not yet");
        rtt.on_data(Time::from_us(280), &data(2000, 3000, 1000, 0), LIMIT);
        // 7/8 of 100 us and 1/8 of 180 us.
        assert_eq!(rtt.smoothed(), Some(Duration::from_us(110)));
    }

    #[test]
    fn nothing_is_measured_across_a_gap_or_by_what_comes_again() {
        for disturbed in [data(1000, 0, 0, 1000), data(0, 1000, 0, 0), data(0, 1000, 1000, 1000)] {
            let mut rtt = granted();
            rtt.on_data(Time::from_us(50), &disturbed, LIMIT);
            rtt.on_data(Time::from_us(100), &data(0, 1000, 1000, 0), LIMIT);
            assert_eq!(rtt.smoothed(), None, "{disturbed:?}");
        }
        let mut rtt = granted();
        rtt.forget();
        rtt.on_data(Time::from_us(100), &data(0, 1000, 1000, 0), LIMIT);
        assert_eq!(rtt.smoothed(), None);
    }

    #[test]
    fn a_syn_ack_sent_again_ends_the_sample_and_any_other_repetition_does_not() {
        for (cause, measured) in [(AckCause::SynAck, None), (AckCause::Data, Some(Duration::from_us(100)))] {
            let mut rtt = granted();
            rtt.on_ack_sent(Time::from_us(70), &ack(0, 2000, cause), true);
            rtt.on_data(Time::from_us(100), &data(0, 1000, 1000, 0), LIMIT);
            assert_eq!(rtt.smoothed(), measured);
        }
    }

    /// The limit itself is too long. Three such samples before any other end control; a timeout on a path that
    /// is known to be short does not, and is no sample either.
    #[test]
    fn only_a_path_that_was_never_short_leaves_control() {
        let mut rtt = RoundTrip::default();
        for _ in 0..3 {
            assert!(rtt.in_scope());
            rtt.sample(LIMIT, LIMIT);
        }
        assert!(!rtt.in_scope() && rtt.smoothed().is_none());
        rtt.sample(Duration(LIMIT.0 - 1), LIMIT);
        assert!(rtt.in_scope(), "it was short after all");
        for _ in 0..10 {
            rtt.sample(Duration::from_ms(200), LIMIT);
        }
        assert!(rtt.in_scope());
        assert_eq!(rtt.smoothed(), Some(Duration(LIMIT.0 - 1)));
    }
}
