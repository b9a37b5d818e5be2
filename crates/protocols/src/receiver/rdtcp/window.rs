//! The window that congestion elsewhere leaves to a flow: TCP `NewReno` and DCTCP, run by the receiver
//! (RDTCP IV.D and IV.G).

use super::{EcnForm, round_trip::RoundTrip};
use crate::receiver::Arrival;
use crate::units::{Bytes, Duration, Time};

/// Duplicates that mean a loss.
const DUPLICATE_THRESHOLD: u32 = 3;
/// The authors' code observes marks over this long where its round-trip time seems too short or too long.
const AUTHORS_INTERVAL: Duration = Duration::from_us(100);
const AUTHORS_LONGEST: Duration = Duration::from_ms(10);

/// Congestion window and slow-start threshold of one flow, kept by its receiver.
#[derive(Clone, Debug)]
pub struct ReceiverWindow {
    mss: u64,
    ecn: EcnForm,
    cwnd: u64,
    ssthresh: u64,
    duplicates: u32,
    in_recovery: bool,
    /// The moving average of the share of marked packets, and what was counted since it was renewed.
    alpha: f64,
    gain: f64,
    marked: u32,
    packets: u32,
    renew_at: Time,
    /// A mark has cut ssthresh within this round trip.
    cut_until: Time,
}

impl ReceiverWindow {
    /// A window as on a new connection.
    #[must_use]
    pub fn new(mss: Bytes, initial: Bytes, ssthresh: Bytes, gain: f64, ecn: EcnForm) -> Self {
        Self {
            mss: mss.0,
            ecn,
            cwnd: initial.0,
            ssthresh: ssthresh.0,
            duplicates: 0,
            in_recovery: false,
            alpha: 0.0,
            gain,
            marked: 0,
            packets: 0,
            renew_at: Time(0),
            cut_until: Time(0),
        }
    }

    /// The window.
    #[must_use]
    pub const fn get(&self) -> Bytes {
        Bytes(self.cwnd)
    }

    /// Whether a gap is being repaired.
    #[must_use]
    pub const fn in_recovery(&self) -> bool {
        self.in_recovery
    }

    /// A data segment arrived.
    pub fn on_data(&mut self, now: Time, arrival: &Arrival, rtt: &RoundTrip) {
        let marked = arrival.marks.ce;
        if marked {
            self.on_mark(now, rtt);
        }
        let (delivered, gap) = (arrival.delivered.0, arrival.beyond_gap.0 > 0);
        let mss = self.mss;
        if self.in_recovery {
            if delivered == 0 {
                self.cwnd += if marked { 0 } else { mss };
            } else if gap {
                let deflated = self.cwnd.saturating_sub(delivered);
                self.cwnd = if marked && deflated >= mss { deflated } else { deflated + mss };
            } else {
                self.in_recovery = false;
                self.duplicates = 0;
                self.cwnd = self.ssthresh.min(delivered + mss);
            }
        } else if delivered == 0 && gap && arrival.new.0 > 0 {
            self.duplicates += 1;
            if self.duplicates == DUPLICATE_THRESHOLD {
                self.halve();
                self.cwnd = self.ssthresh + 3 * mss;
                self.in_recovery = true;
            }
        } else if delivered > 0 {
            self.duplicates = 0;
            if !marked {
                self.cwnd += if self.cwnd < self.ssthresh { mss } else { (mss * mss / self.cwnd.max(1)).max(1) };
            }
        }
        self.observe(now, marked, rtt);
    }

    /// Nothing came for a retransmission timeout.
    pub fn on_timeout(&mut self) {
        self.halve();
        self.cwnd = self.mss;
        self.in_recovery = false;
        self.duplicates = 0;
    }

    fn halve(&mut self) {
        self.ssthresh = (self.cwnd / 2).max(2 * self.mss);
    }

    fn on_mark(&mut self, now: Time, rtt: &RoundTrip) {
        match (self.ecn, rtt.smoothed()) {
            (EcnForm::Authors, _) => self.halve(),
            (EcnForm::Regular, Some(rtt)) if now >= self.cut_until => {
                self.halve();
                self.cut_until = now + rtt;
            }
            (EcnForm::Regular, _) => {}
        }
    }

    /// Counts a packet; once a round trip the share of marked ones moves alpha and, if there were any, cuts the
    /// window by `alpha / 2` (equation 2).
    fn observe(&mut self, now: Time, marked: bool, rtt: &RoundTrip) {
        self.packets += 1;
        self.marked += u32::from(marked);
        let Some(rtt) = rtt.smoothed() else { return };
        let interval = match self.ecn {
            EcnForm::Authors if rtt < AUTHORS_INTERVAL || rtt >= AUTHORS_LONGEST => AUTHORS_INTERVAL,
            EcnForm::Authors | EcnForm::Regular => rtt,
        };
        if now < self.renew_at {
            return;
        }
        // The first observation begins with the first round-trip time.
        let first = self.renew_at == Time(0);
        self.renew_at = now + interval;
        if first || (self.ecn == EcnForm::Authors && self.marked == 0) {
            return;
        }
        let share = f64::from(self.marked) / f64::from(self.packets);
        self.alpha = (1.0 - self.gain) * self.alpha + self.gain * share;
        if self.marked > 0 {
            self.cwnd = ((self.cwnd as f64 * (1.0 - self.alpha / 2.0)) as u64).max(self.mss);
        }
        self.marked = 0;
        self.packets = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::Marks;
    use crate::units::Offset;

    const MSS: u64 = 1000;

    fn arrival(new: u64, delivered: u64, beyond_gap: u64, ce: bool) -> Arrival {
        Arrival {
            start: Offset(0),
            payload: Bytes(MSS),
            new: Bytes(new),
            expected: Offset(0),
            delivered: Bytes(delivered),
            beyond_gap: Bytes(beyond_gap),
            highest: Offset(0),
            marks: Marks { ce, ein: false },
        }
    }

    struct Flow {
        window: ReceiverWindow,
        rtt: RoundTrip,
    }

    impl Flow {
        fn new(segments: u64, ssthresh: u64, ecn: EcnForm) -> Self {
            let mut rtt = RoundTrip::default();
            rtt.sample(Duration::from_us(200));
            let window = ReceiverWindow::new(Bytes(MSS), Bytes(segments * MSS), Bytes(ssthresh * MSS), 1.0 / 16.0, ecn);
            Self { window, rtt }
        }

        fn at(&mut self, us: u64, arrival: Arrival) -> u64 {
            self.window.on_data(Time::from_us(us), &arrival, &self.rtt);
            self.window.get().0
        }
    }

    #[test]
    fn it_grows_by_a_segment_per_segment_then_by_one_per_window() {
        let mut flow = Flow::new(1, 4, EcnForm::Regular);
        let windows = [1, 2, 3, 4].map(|us| flow.at(us, arrival(MSS, MSS, 0, false)));
        assert_eq!(windows, [2000, 3000, 4000, 4250]);
    }

    /// As TCP `NewReno` at a sender: half and three segments, a segment for each further duplicate, a partial
    /// repair deflates, the full one ends it.
    #[test]
    fn a_gap_is_answered_as_three_duplicates_are() {
        let mut flow = Flow::new(10, 64, EcnForm::Regular);
        assert_eq!(flow.at(1, arrival(MSS, 0, 1000, false)), 10_000);
        assert_eq!(flow.at(2, arrival(MSS, 0, 2000, false)), 10_000);
        assert_eq!(flow.at(3, arrival(MSS, 0, 3000, false)), 8000);
        assert!(flow.window.in_recovery());
        assert_eq!(flow.at(4, arrival(MSS, 0, 4000, false)), 9000);
        assert_eq!(flow.at(5, arrival(MSS, 0, 5000, true)), 9000, "a marked one does not inflate");
        assert_eq!(flow.at(6, arrival(MSS, 3000, 3000, false)), 7000);
        assert_eq!(flow.at(7, arrival(MSS, 3000, 3000, true)), 4000);
        assert_eq!(
            flow.at(8, arrival(MSS, 4000, 0, false)),
            4500,
            "ssthresh, which the mark has halved, or delivered + 1"
        );
        assert!(!flow.window.in_recovery());
    }

    #[test]
    fn two_duplicates_are_reordering() {
        let mut flow = Flow::new(10, 64, EcnForm::Regular);
        for round in 0..5 {
            flow.at(10 * round + 1, arrival(MSS, 0, 1000, false));
            flow.at(10 * round + 2, arrival(MSS, 0, 2000, false));
            flow.at(10 * round + 3, arrival(MSS, 3000, 0, false));
        }
        assert_eq!(flow.window.get().0, 15_000);
        assert!(!flow.window.in_recovery());
    }

    /// Equation 2 with g = 1/16: all packets of a round trip marked, then half of them.
    #[test]
    fn marks_cut_once_a_round_trip_by_half_of_alpha() {
        let mut flow = Flow::new(100, 1, EcnForm::Regular);
        flow.at(1000, arrival(MSS, MSS, 0, false));
        let before = flow.window.get().0;
        for us in 1001..1200 {
            assert_eq!(flow.at(us, arrival(MSS, MSS, 0, true)), before, "nothing before the round trip is over");
        }
        // 199 of 201 packets: the first one began the observation.
        let alpha = 200.0 / 201.0 / 16.0;
        let expected = (before as f64 * (1.0 - alpha / 2.0)) as u64;
        assert_eq!(flow.at(1200, arrival(MSS, MSS, 0, true)), expected);
    }

    #[test]
    fn the_regular_form_forgets_with_unmarked_round_trips_and_the_authors_form_does_not() {
        let alphas = [EcnForm::Regular, EcnForm::Authors].map(|ecn| {
            let mut flow = Flow::new(10, 1, ecn);
            flow.at(1000, arrival(MSS, MSS, 0, false));
            flow.at(1200, arrival(MSS, MSS, 0, true));
            let alpha = flow.window.alpha;
            flow.at(1400, arrival(MSS, MSS, 0, false));
            (alpha, flow.window.alpha)
        });
        let expected = [(1.0 / 32.0, 15.0 / 16.0 / 32.0), (1.0 / 32.0, 1.0 / 32.0)];
        for ((before, after), (first, second)) in alphas.into_iter().zip(expected) {
            assert!((before - first).abs() < 1e-12 && (after - second).abs() < 1e-12, "{before} {after}");
        }
    }

    #[test]
    fn a_mark_ends_slow_start_once_a_round_trip_or_with_every_packet() {
        let ssthresh = |ecn| {
            let mut flow = Flow::new(16, 64, ecn);
            flow.at(1000, arrival(MSS, MSS, 0, true));
            flow.window.cwnd = 12_000;
            flow.at(1001, arrival(MSS, MSS, 0, true));
            flow.window.ssthresh
        };
        assert_eq!(ssthresh(EcnForm::Regular), 8000);
        assert_eq!(ssthresh(EcnForm::Authors), 6000);
    }

    #[test]
    fn a_timeout_leaves_one_segment() {
        let mut flow = Flow::new(10, 64, EcnForm::Regular);
        flow.window.on_timeout();
        assert_eq!((flow.window.get().0, flow.window.ssthresh), (1000, 5000));
        flow.window.on_timeout();
        assert_eq!((flow.window.get().0, flow.window.ssthresh), (1000, 2000));
    }

    /// As long as no other says so: which segment it was does not show.
    #[test]
    fn a_segment_that_comes_again_is_no_duplicate_and_does_not_grow_a_window() {
        for beyond_gap in [0, 2000] {
            let mut flow = Flow::new(10, 64, EcnForm::Regular);
            for us in 1..=4 {
                assert_eq!(flow.at(us, arrival(0, 0, beyond_gap, false)), 10_000);
            }
            assert!(!flow.window.in_recovery());
        }
        // Nor is one that fills a gap before another one.
        let mut flow = Flow::new(10, 20, EcnForm::Regular);
        for us in 1..=4 {
            assert_eq!(flow.at(us, arrival(MSS, MSS, 2000, false)), 10_000 + us * MSS);
        }
        // Nor does it end the count of those that are.
        let mut flow = Flow::new(10, 64, EcnForm::Regular);
        for (us, new) in [(1, MSS), (2, MSS), (3, 0), (4, MSS)] {
            flow.at(us, arrival(new, 0, 3000, false));
        }
        assert!(flow.window.in_recovery());
    }

    #[test]
    fn what_fills_the_gap_leaves_no_more_than_it_delivered_and_a_segment() {
        let mut flow = Flow::new(10, 64, EcnForm::Regular);
        for us in 1..=3 {
            flow.at(us, arrival(MSS, 0, 1000 * us, false));
        }
        assert_eq!(flow.at(4, arrival(MSS, 2000, 0, false)), 3000);
    }

    #[test]
    fn a_round_trip_without_a_mark_cuts_nothing() {
        let mut flow = Flow::new(100, 1, EcnForm::Regular);
        flow.at(1000, arrival(MSS, MSS, 0, false));
        let cut = flow.at(1200, arrival(MSS, MSS, 0, true));
        assert!(flow.at(1400, arrival(MSS, MSS, 0, false)) > cut);
    }

    #[test]
    fn the_authors_form_observes_for_100_us_where_round_trips_are_shorter_or_much_longer() {
        for (rtt_us, interval_us) in [(50, 100), (200, 200), (10_000, 100)] {
            let mut flow = Flow::new(100, 1, EcnForm::Authors);
            flow.rtt = RoundTrip::default();
            flow.rtt.sample(Duration::from_us(rtt_us));
            flow.at(1000, arrival(MSS, MSS, 0, false));
            flow.at(999 + interval_us, arrival(MSS, MSS, 0, true));
            assert!(flow.window.alpha == 0.0, "{rtt_us}");
            flow.at(1000 + interval_us, arrival(MSS, MSS, 0, true));
            assert!(flow.window.alpha > 0.0, "{rtt_us}");
        }
    }
}
