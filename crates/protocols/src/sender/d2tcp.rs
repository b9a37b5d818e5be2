//! `D2TCP` (Vamanan et al., SIGCOMM 2012): DCTCP whose cuts are smaller the nearer the deadline is.
//!
//! Alpha, the share of marked bytes, is raised to a power: the time that the rest needs over the time that is left.

use super::dctcp::MarkedShare;
use super::reno::{Reno, Variant};
use super::{SenderContext, SenderView};
use crate::message::Message;
use crate::registry::{Capability, Part, Place, Requirement};
use crate::units::{Bytes, Time};

/// `D2TCP`'s parameters are DCTCP's.
pub use super::dctcp::Config;

/// A deadline counts at most so much, and at least the inverse.
const MOST_IMMINENT: f64 = 2.0;

/// The unit of the penalty: DCTCP's alpha, squared, is a whole number of it.
const PENALTY_BITS: u32 = 20;

/// `D2TCP`.
pub type D2tcp = Reno<MarkedShareByDeadline>;

/// DCTCP's share of marked bytes, and the cut that it and a deadline ask for.
#[derive(Clone, Debug)]
pub struct MarkedShareByDeadline {
    share: MarkedShare,
    deadline: Option<Time>,
}

impl MarkedShareByDeadline {
    /// d = Tc / D, with Tc the time that what is left takes at three quarters of the window, which is the mean of the
    /// sawtooth; none without a deadline, or with one that is over.
    fn imminence(&self, cwnd: Bytes, view: &SenderView) -> Option<f64> {
        let deadline = self.deadline.filter(|deadline| *deadline > view.now)?;
        let (left, rtt) = (view.remaining?, view.srtt?);
        let needed = rtt.0 as f64 * left.0 as f64 / (0.75 * cwnd.0 as f64);
        Some((needed / deadline.since(view.now).0 as f64).clamp(1.0 / MOST_IMMINENT, MOST_IMMINENT))
    }

    /// p = alpha^d, in 2^-20.
    fn penalty(&self, cwnd: Bytes, view: &SenderView) -> u64 {
        let alpha = self.share.alpha().unwrap_or(0);
        let whole = 1_u64 << PENALTY_BITS;
        match self.imminence(cwnd, view) {
            None => u64::from(alpha) << (PENALTY_BITS - 10),
            Some(d) => (libm::pow(f64::from(alpha) / 1024.0, d) * whole as f64 + 0.5) as u64,
        }
    }
}

impl Variant for MarkedShareByDeadline {
    fn inner(&self) -> Option<&dyn Variant> {
        Some(&self.share)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn Variant> {
        Some(&mut self.share)
    }

    fn ecn_capable(&self) -> bool {
        self.share.ecn_capable()
    }

    fn on_message(&mut self, _view: &SenderView, message: &Message) {
        self.deadline = message.deadline;
    }

    /// `cwnd * (1 - p / 2)`, rounded as DCTCP does.
    fn cut_by_mark(&self, cwnd: Bytes, view: &SenderView) -> Bytes {
        let removed = (u128::from(cwnd.0) * u128::from(self.penalty(cwnd, view))) >> (PENALTY_BITS + 1);
        Bytes(cwnd.0 - removed as u64)
    }
}

impl D2tcp {
    /// A `D2TCP` sender.
    #[must_use]
    pub fn new(config: &Config, context: &SenderContext) -> Self {
        let share = MarkedShare::new(config, context.rules.observation_end);
        Self::with(MarkedShareByDeadline { share, deadline: None }, context)
    }
}

impl Part for D2tcp {
    type Config = Config;
    const SUMMARY: &'static str = "DCTCP whose cuts are smaller the nearer the deadline is";
    const SOURCE: &'static str = "Vamanan et al., SIGCOMM 2012";
    const REQUIRES: &'static [Requirement] = &[
        Requirement {
            place: Place::Marker,
            capability: Capability::CongestionMarks,
            because: "D2TCP learns from congestion marks as DCTCP does: give the switch ports a marker that sets CE, such \
                      as \"ecn-threshold\"",
        },
        Requirement {
            place: Place::Echo,
            capability: Capability::ExactCongestionEcho,
            because: "D2TCP needs every mark echoed exactly, as DCTCP does: use the echo \"dctcp\"",
        },
    ];
    const DEVIATIONS: &'static [&'static str] = &[
        "With a deadline that is over it is DCTCP, as in the kernel module that others have published: the paper leaves it \
         open.",
        "What is left to send is what is not acknowledged; the round-trip time is the smoothed one.",
        "Where a message begins behind one that is not acknowledged yet, the deadline is that of the later one and what is \
         left that of the earlier.",
        "Where DCTCP here departs from its sources, so does this.",
    ];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::ObservationEnd;
    use crate::units::{Duration, Offset};

    const MSS: u64 = 1600;

    fn share(alpha: u32, deadline_us: Option<u64>) -> MarkedShareByDeadline {
        let share = MarkedShare::new(&Config { initial_alpha: alpha, ..Config::default() }, ObservationEnd::Beyond);
        MarkedShareByDeadline { share, deadline: deadline_us.map(Time::from_us) }
    }

    /// 30 segments left, 100 us round trip, at 1 ms.
    fn view() -> SenderView {
        SenderView {
            now: Time::from_us(1_000),
            una: Offset(0),
            nxt: Offset(0),
            remaining: Some(Bytes(30 * MSS)),
            srtt: Some(Duration::from_us(100)),
            advertised: Bytes(u64::MAX),
            limited_transmit: Bytes::ZERO,
            window_used: true,
        }
    }

    /// Ten segments and an alpha of 1/4: 400 us are needed.
    #[test]
    fn the_nearer_the_deadline_the_smaller_the_cut() {
        let cwnd = Bytes(10 * MSS);
        for (left_us, d, p, after) in
            [(400, 1.0, 0.25, 8.75), (100, 2.0, 0.0625, 9.6875), (800, 0.5, 0.5, 7.5), (4_000, 0.5, 0.5, 7.5)]
        {
            let share = share(256, Some(1_000 + left_us));
            assert!((share.imminence(cwnd, &view()).unwrap() - d).abs() < 1e-12, "{left_us}");
            assert!((share.penalty(cwnd, &view()) as f64 / f64::from(1 << PENALTY_BITS) - p).abs() < 1e-12);
            assert!((share.cut_by_mark(cwnd, &view()).0 as f64 / MSS as f64 - after).abs() < 1e-9, "{left_us}");
            assert_eq!(share.alpha(), Some(256), "the penalty is not stored back");
        }
    }

    /// Between the bounds: 500 us left of which 400 are needed is d = 0.8, p = 0.25^0.8 = 0.3299.
    #[test]
    fn between_the_bounds_it_is_a_power() {
        let share = share(256, Some(1_500));
        let p = share.penalty(Bytes(10 * MSS), &view()) as f64 / f64::from(1 << PENALTY_BITS);
        assert!((p - 0.329_877).abs() < 1e-6, "{p}");
    }

    #[test]
    fn without_a_deadline_or_beyond_it_or_without_measurement_it_is_dctcp() {
        let unknown_size = SenderView { remaining: None, ..view() };
        let unknown_rtt = SenderView { srtt: None, ..view() };
        for (deadline, view) in [
            (None, view()),
            (Some(1_000), view()),
            (Some(900), view()),
            (Some(1_100), unknown_size),
            (Some(1_100), unknown_rtt),
        ] {
            for (alpha, cwnd) in [(0, 14_461), (1, 14_461), (300, 123_457), (1023, 14_461), (1024, 14_461)] {
                let share = share(alpha, deadline);
                let dctcp = share.share.cut_by_mark(Bytes(cwnd), &view);
                assert_eq!(share.cut_by_mark(Bytes(cwnd), &view), dctcp, "{deadline:?}, {alpha}");
            }
        }
    }

    /// An exponent of one is the same whether it was computed or is that of no deadline.
    #[test]
    fn a_deadline_that_is_just_met_cuts_as_dctcp() {
        for alpha in 0..=1024 {
            let (met, none) = (share(alpha, Some(1_400)), share(alpha, None));
            assert_eq!(met.cut_by_mark(Bytes(10 * MSS), &view()), none.cut_by_mark(Bytes(10 * MSS), &view()));
        }
    }

    #[test]
    fn no_marks_and_nothing_but_marks_are_the_same_for_every_deadline() {
        for alpha in [0, 1024] {
            for left_us in [1, 100, 390, 400, 410, 800, 40_000] {
                let share = share(alpha, Some(1_000 + left_us));
                assert_eq!(share.penalty(Bytes(10 * MSS), &view()), u64::from(alpha) << 10);
            }
        }
    }

    /// It learns as DCTCP does, and a message tells it of the deadline.
    #[test]
    fn a_sender_learns_from_marks_and_hears_of_deadlines() {
        use crate::sender::tests::Script;
        use crate::sender::{Congestion, Sender as _, Windows};
        let mut script = Script::new(MSS, 10, |context| D2tcp::new(&Config::default(), context));
        assert!(script.sender.ecn_capable());
        let before = script.sender.alpha().unwrap();
        for _ in 0..3 {
            script.send_window_full();
            script.ack_everything_segment_by_segment(false);
        }
        assert!(script.sender.alpha().unwrap() < before);
        let cut = |script: &Script<D2tcp>| {
            let windows = Windows { cwnd: Bytes(10 * MSS), ssthresh: Bytes(10 * MSS) };
            script.sender.cut(&view(), windows, Congestion::Mark).cwnd
        };
        let without = cut(&script);
        let message = Message { deadline: Some(Time::from_us(1_100)), ..Message::default() };
        script.sender.on_message(&view(), &message);
        assert!(cut(&script) > without);
    }
}
