//! TCP `NewReno` (RFC 5681, RFC 6582): the baseline of every paper on incast.
//!
//! Decides by loss alone. Where its packets are made ECN-capable, a mark halves the window once per
//! window of data (RFC 3168 section 6.1.2).

use super::reno::{Reno, Variant};
use super::{SenderContext, SenderView};
use crate::registry::Part;
use crate::units::Bytes;

/// No parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {}

/// TCP `NewReno`.
pub type NewReno = Reno<Halving>;

/// Halves on every congestion signal.
#[derive(Clone, Debug)]
pub struct Halving;

impl Variant for Halving {
    fn ecn_capable(&self) -> bool {
        false
    }

    fn cut_by_mark(&self, cwnd: Bytes, _view: &SenderView) -> Bytes {
        Bytes(cwnd.0 / 2)
    }
}

impl NewReno {
    /// A `NewReno` sender.
    #[must_use]
    pub const fn new(_config: &Config, context: &SenderContext) -> Self {
        Self::with(Halving, context)
    }
}

impl Part for NewReno {
    type Config = Config;
    const SUMMARY: &'static str = "halves on loss, learns nothing from marks";
    const SOURCE: &'static str = "RFC 5681, RFC 6582";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::tests::Script;
    use crate::sender::{Sender, Windows};

    const MSS: u64 = 1000;

    fn connection(initial_segments: u64) -> Script<NewReno> {
        Script::new(MSS, initial_segments, |context| NewReno::new(&Config {}, context))
    }

    #[test]
    fn slow_start_from_one_segment_doubles_every_round() {
        let mut c = connection(1);
        let mut rounds = std::vec::Vec::new();
        for _ in 0..6 {
            rounds.push(c.cwnd_segments());
            c.send_window_full();
            c.ack_everything_segment_by_segment(false);
        }
        assert_eq!(rounds, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]);
    }

    #[test]
    fn the_third_duplicate_halves_and_the_fourth_inflates() {
        let mut c = connection(10);
        c.send_window_full();
        for _ in 0..2 {
            c.duplicate_ack(false);
        }
        c.third_duplicate();
        assert_eq!((c.ssthresh_segments(), c.cwnd_segments()), (5.0, 8.0));
        c.duplicate_ack(false);
        assert_eq!(c.sender.windows().cwnd, Bytes(9 * MSS));
    }

    #[test]
    fn a_timeout_with_ten_segments_in_flight_leaves_one() {
        let mut c = connection(10);
        c.send_window_full();
        c.timeout();
        assert_eq!((c.ssthresh_segments(), c.cwnd_segments()), (5.0, 1.0));
    }

    /// RFC 5681 section 3.1: further timeouts of the same segment leave ssthresh alone.
    #[test]
    fn a_second_timeout_of_the_same_segment_keeps_ssthresh() {
        let mut c = connection(10);
        c.send_window_full();
        c.timeout();
        // Nothing was acknowledged since, so that the flight alone would say 5 again.
        c.sender.set_windows(Windows { cwnd: Bytes(MSS), ssthresh: Bytes(4 * MSS) });
        c.timeout_again();
        assert_eq!((c.ssthresh_segments(), c.cwnd_segments()), (4.0, 1.0));
    }

    #[test]
    fn congestion_avoidance_adds_about_one_segment_per_round() {
        let mut c = connection(10);
        c.sender.set_windows(Windows { cwnd: Bytes(10 * MSS), ssthresh: Bytes(5 * MSS) });
        let before = c.cwnd_segments();
        c.send_window_full();
        c.ack_everything_segment_by_segment(false);
        assert!((c.cwnd_segments() - before - 1.0).abs() < 0.12, "{before} -> {}", c.cwnd_segments());
    }

    /// RFC 5681 section 3.1 leaves open what a window equal to ssthresh does; Linux is in slow start only
    /// below it (`tcp_in_slow_start`), and so is this one.
    #[test]
    fn a_window_equal_to_ssthresh_is_in_congestion_avoidance() {
        let mut c = connection(10);
        c.sender.set_windows(Windows { cwnd: Bytes(10 * MSS), ssthresh: Bytes(10 * MSS) });
        c.send_window_full();
        c.ack_one_segment(false);
        assert_eq!(c.sender.windows().cwnd, Bytes(10 * MSS + MSS / 10));
    }

    /// RFC 3168 section 6.1.2, for packets that something made ECN-capable: an ACK with ECE halves cwnd and
    /// ssthresh, those of the same window of data do nothing more.
    #[test]
    fn a_mark_halves_once_per_window_of_data() {
        let mut c = connection(10);
        c.send_window_full();
        c.ack_everything_segment_by_segment(true);
        assert_eq!((c.cwnd_segments(), c.ssthresh_segments()), (5.0, 5.0));
    }

    /// A share of marked bytes that is not estimated is none, not zero. Its packets carry no ECT (RFC 3168
    /// section 6.1.1 has both ends ask for ECN first).
    #[test]
    fn nothing_is_asked_of_marks_and_nothing_learned() {
        let mut c = connection(10);
        assert!(!c.sender.ecn_capable());
        c.send_window_full();
        c.ack_everything_segment_by_segment(true);
        assert_eq!(c.sender.alpha(), None);
    }

    #[test]
    fn recovery_ends_at_ssthresh_or_little_above_the_flight() {
        let mut c = connection(10);
        c.send_window_full();
        c.third_duplicate();
        c.recover_fully();
        // Nothing is in flight: RFC 6582 allows max(0, 1) + 1 segments, no burst of five.
        assert_eq!(c.sender.windows().cwnd, Bytes(2 * MSS));
    }
}
