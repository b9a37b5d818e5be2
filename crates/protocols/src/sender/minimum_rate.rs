//! The control law of minimum-rate guarantees (Wang et al., sections II.A to II.C; TERSE, Ye et al. 2011): below the
//! window that the rate asks for, a sender grows faster; what a cut is, is that of the sender inside.

use super::reno::{Pace, Variant, Window};
use super::{Conduct, SenderContext, SenderView};
use crate::message::Message;
use crate::units::{Bytes, Duration, Rate, Time};

/// What the paper leaves open, or says in two ways: all parameters of MRG.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Law {
    /// How a window below its minimum grows in congestion avoidance.
    pub ca_law: CaLaw,
    /// How the minimum rate that a deadline needs is computed.
    pub theta: Theta,
    /// The minimum rate once the deadline has passed.
    pub deadline_passed: DeadlinePassed,
    /// What becomes of the window of DCMRG's receiver when it is scaled to the round trip.
    pub scaled_window: ScaledWindow,
}

/// How a window W below its minimum grows in congestion avoidance, in one round trip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CaLaw {
    /// To 3 W + 1, as equation 14 is printed.
    #[default]
    Printed14,
    /// To 3 W + 3, as follows from equation 11 as it is printed.
    Printed11,
    /// To 2 W + 3, as follows from equations 2, 7 and 8.
    Derived,
}

/// How the minimum rate that a deadline needs is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Theta {
    /// Size over time at the start, as in equation 12.
    #[default]
    Fixed,
    /// What is left over the time that is left, anew with every ACK.
    Remaining,
}

/// The minimum rate once the deadline has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeadlinePassed {
    /// None: the flow competes as one without a deadline.
    #[default]
    Reset,
    /// The minimum rate that the message had at its start.
    Keep,
}

/// The receiver's window after it was scaled to the round trip. A sender sends whole segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScaledWindow {
    /// Rounded up to whole segments, so that a flow gets at least the rate that it reserved: of 1.9 segments two are sent.
    #[default]
    WholeSegments,
    /// As printed in the paper: of 1.9 segments one is sent, half of what was reserved.
    Exact,
}

impl Law {
    /// Growth below the minimum window, for each ACK on its own: equations 13 and 14 with `r_cos` = 3.
    const fn below(self) -> Pace {
        let (avoidance, per_window) = match self.ca_law {
            CaLaw::Printed14 => (2, 1),
            CaLaw::Printed11 => (2, 3),
            CaLaw::Derived => (1, 3),
        };
        Pace { slow_start: 4, avoidance, per_window }
    }
}

/// A member of the Reno family with a minimum rate. Without one it is `C`, to the byte.
#[derive(Clone, Debug)]
pub struct MinimumRate<C> {
    /// How it answers congestion.
    congestion: C,
    law: Law,
    mss: Bytes,
    reference_rtt: Option<Duration>,
    /// Theta at the start of the message; zero if it is elastic.
    asked: Rate,
    deadline: Option<Time>,
}

impl<C> MinimumRate<C> {
    /// Without a message there is no minimum.
    #[must_use]
    pub const fn new(congestion: C, law: Law, context: &SenderContext) -> Self {
        let SenderContext { mss, reference_rtt, .. } = *context;
        Self { congestion, law, mss, reference_rtt, asked: Rate(0), deadline: None }
    }

    /// Theta.
    #[must_use]
    pub fn rate(&self, view: &SenderView) -> Rate {
        match self.deadline {
            Some(deadline) if deadline <= view.now => match self.law.deadline_passed {
                DeadlinePassed::Reset => Rate(0),
                DeadlinePassed::Keep => self.asked,
            },
            Some(deadline) if self.law.theta == Theta::Remaining => {
                view.remaining.map_or(self.asked, |left| Rate::needed(left, deadline.since(view.now)))
            }
            _ => self.asked,
        }
    }

    /// `W_min` of equation 12, with the smoothed round-trip time; a fraction of a byte is a whole one, so that a window is
    /// below it if and only if it is below the fraction.
    #[must_use]
    pub fn minimum_window(&self, view: &SenderView) -> Bytes {
        view.srtt.map_or(Bytes::ZERO, |srtt| self.rate(view).window_over(srtt))
    }
}

impl<C: Variant> Variant for MinimumRate<C> {
    fn inner(&self) -> Option<&dyn Variant> {
        Some(&self.congestion)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn Variant> {
        Some(&mut self.congestion)
    }

    fn ecn_capable(&self) -> bool {
        self.congestion.ecn_capable()
    }

    /// Below its minimum rate a window grows by four segments for each acknowledged, or by two and a part of three windows
    /// (DCMRG, equations 10, 11, 13 and 14).
    fn conduct(&self) -> Conduct {
        Conduct { growth: Some(5), ..self.congestion.conduct() }
    }

    fn on_message(&mut self, view: &SenderView, message: &Message) {
        self.congestion.on_message(view, message);
        self.asked = message.minimum_rate.unwrap_or_default();
        self.deadline = message.deadline;
    }

    /// W is held against `W_min` with every ACK, so that it is not far exceeded; once in a round trip as in the equations,
    /// five times the minimum could be in flight.
    #[inline]
    fn grow(&mut self, window: &mut Window, view: &SenderView, acked: Bytes) {
        let below = window.cwnd < self.minimum_window(view);
        window.grow(acked, if below { self.law.below() } else { Pace::RENO });
    }

    /// `W_rcv = W_rcv0 RTT / RTT0` (section II.D), a segment at least: only here is it known how much a segment is of what
    /// the flow may have. DCMRG's receiver closes no window; one that is less than the header can say is a segment too.
    #[inline]
    fn receive_window(&self, view: &SenderView) -> Bytes {
        let Some(reference) = self.reference_rtt else { return view.advertised };
        let srtt = view.srtt.unwrap_or(reference);
        let scaled = u128::from(view.advertised.0) * u128::from(srtt.0) / u128::from(reference.0.max(1));
        let window = Bytes(u64::try_from(scaled).unwrap_or(u64::MAX)).max(self.mss);
        match self.law.scaled_window {
            ScaledWindow::Exact => window,
            ScaledWindow::WholeSegments => Bytes(window.0.div_ceil(self.mss.0).saturating_mul(self.mss.0)),
        }
    }

    fn cut_by_mark(&self, cwnd: Bytes, view: &SenderView) -> Bytes {
        self.congestion.cut_by_mark(cwnd, view)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::dctcp::{self, MarkedShare};
    use crate::sender::new_reno::Halving;
    use crate::sender::reno::Reno;
    use crate::sender::tests::Script;
    use crate::sender::{Ack, Growth, ObservationEnd, Sender, WindowRules, Windows};
    use crate::units::Offset;
    use proptest::prelude::*;

    const MSS: u64 = 1000;
    const LAW: Law = Law {
        ca_law: CaLaw::Printed14,
        theta: Theta::Fixed,
        deadline_passed: DeadlinePassed::Reset,
        scaled_window: ScaledWindow::Exact,
    };
    /// Ten segments per 100 us.
    const TEN: Rate = Rate(800_000_000);

    fn view() -> SenderView {
        SenderView {
            now: Time(0),
            una: Offset(0),
            nxt: Offset(0),
            remaining: None,
            srtt: Some(Duration::from_us(100)),
            advertised: Bytes(u64::MAX),
            limited_transmit: Bytes::ZERO,
            window_used: true,
        }
    }

    fn context(reference_rtt: Option<Duration>) -> SenderContext {
        let rules = WindowRules { floor_segments: 1, ..WindowRules::default() };
        SenderContext { mss: Bytes(MSS), initial_window: Bytes(MSS), rules, reference_rtt, path: None }
    }

    fn with_rate(law: Law, rate: Rate) -> Reno<MinimumRate<Halving>> {
        let mut sender = Reno::with(MinimumRate::new(Halving, law, &context(None)), &context(None));
        sender.on_message(&view(), &Message { minimum_rate: Some(rate), ..Message::default() });
        sender
    }

    fn ack(acked: u64) -> Ack<'static> {
        Ack {
            acked: Bytes(acked),
            delivered: Bytes(acked),
            rtt: None,
            ece: false,
            ein: false,
            telemetry: None,
            may_move_window: true,
        }
    }

    /// The window, in segments, after one of so many was acknowledged segment by segment.
    fn after_a_round<S: Sender>(sender: &mut S, window: u64, slow_start: bool) -> f64 {
        let ssthresh = if slow_start { Windows::UNLIMITED } else { Bytes(MSS) };
        sender.set_windows(Windows { cwnd: Bytes(window * MSS), ssthresh });
        for _ in 0..window {
            let _ = sender.on_ack(&view(), &ack(MSS));
        }
        sender.windows().cwnd.0 as f64 / MSS as f64
    }

    /// Equation 13: five times the window below the minimum, twice at and above it.
    #[test]
    fn slow_start_goes_to_five_times_the_window_below_the_minimum() {
        let mut sender = with_rate(LAW, TEN);
        assert!((after_a_round(&mut sender, 1, true) - 5.0).abs() < 1e-9);
        assert!((after_a_round(&mut sender, 10, true) - 20.0).abs() < 1e-9);
        // From 2 the minimum is reached with the second ACK: 2, 6, 10.
        assert!((after_a_round(&mut sender, 2, true) - 10.0).abs() < 1e-9);
    }

    /// Equation 14: 10 goes to 11 at the minimum. 4 would go to 13 with what the law says once in a round trip; it is
    /// held against the minimum with every ACK, so that it is soon above 10 and adds 1/W from there: 4, 6.25, 8.41,
    /// 10.53, 10.62.
    #[test]
    fn congestion_avoidance_triples_below_the_minimum_and_stops_there() {
        let mut sender = with_rate(LAW, TEN);
        assert!((after_a_round(&mut sender, 10, false) - 11.0).abs() < 0.06);
        let reached = after_a_round(&mut sender, 4, false);
        assert!((reached - 10.62).abs() < 0.01, "{reached}");
    }

    /// With the minimum out of reach: 3 W + 1, 3 W + 3 and 2 W + 3 would be 13, 15 and 11. With every ACK 1/W is less, as
    /// in Reno.
    #[test]
    fn the_three_laws_of_congestion_avoidance() {
        for (ca_law, after) in [(CaLaw::Printed14, 12.62), (CaLaw::Printed11, 13.78), (CaLaw::Derived, 10.03)] {
            let mut sender = with_rate(Law { ca_law, ..LAW }, Rate(10 * TEN.0));
            let reached = after_a_round(&mut sender, 4, false);
            assert!((reached - after).abs() < 0.01, "{ca_law:?}: {reached}");
            assert!((after_a_round(&mut sender, 4, true) - 20.0).abs() < 1e-9, "equation 10 is not in doubt");
        }
    }

    /// Exactly: one acknowledged segment at W = 4 adds 2 and the law's share of a window.
    #[test]
    fn what_one_ack_adds() {
        for (ca_law, added) in [(CaLaw::Printed14, 2_250), (CaLaw::Printed11, 2_750), (CaLaw::Derived, 1_750)] {
            let mut sender = with_rate(Law { ca_law, ..LAW }, TEN);
            sender.set_windows(Windows { cwnd: Bytes(4 * MSS), ssthresh: Bytes(MSS) });
            let _ = sender.on_ack(&view(), &ack(MSS));
            assert_eq!(sender.windows().cwnd, Bytes(4 * MSS + added), "{ca_law:?}");
        }
    }

    /// Windows that are kept in whole segments: slow start ends at ssthresh, and what is left of the ACK counts in
    /// congestion avoidance.
    #[test]
    fn in_whole_segments_the_law_is_the_same() {
        let rules = WindowRules { growth: Growth::Segments, ..WindowRules::default() };
        let context = SenderContext { rules, ..context(None) };
        let mut sender = Reno::with(MinimumRate::new(Halving, LAW, &context), &context);
        sender.on_message(&view(), &Message { minimum_rate: Some(TEN), ..Message::default() });
        let mut after = |cwnd, ssthresh, acked| {
            sender.set_windows(Windows { cwnd: Bytes(cwnd * MSS), ssthresh: Bytes(ssthresh * MSS) });
            let _ = sender.on_ack(&view(), &ack(acked * MSS));
            sender.windows().cwnd.0 / MSS
        };
        assert_eq!(after(1, 100, 1), 5);
        assert_eq!(after(10, 100, 1), 11);
        assert_eq!(after(4, 1, 1), 6, "the share of a window is not whole yet");
        assert_eq!(after(2, 1, 2), 7);
        assert_eq!(after(4, 8, 2), 10, "one to the threshold, one beyond it");
        assert_eq!(after(9, 10, 1), 10, "a segment of which slow start takes a part is used up");
    }

    /// Equations 13 and 14: with a mark the window is cut by half of alpha, below the minimum too.
    #[test]
    fn a_mark_cuts_twenty_to_fifteen_with_an_alpha_of_a_half() {
        let alpha = dctcp::Config { initial_alpha: 512, ..dctcp::Config::default() };
        let share = MarkedShare::new(&alpha, ObservationEnd::Beyond);
        let mut variant = MinimumRate::new(share, LAW, &context(None));
        assert_eq!(variant.cut_by_mark(Bytes(20 * MSS), &view()), Bytes(15 * MSS));
        variant.on_message(&view(), &Message { minimum_rate: Some(Rate(10 * TEN.0)), ..Message::default() });
        assert!(variant.minimum_window(&view()) > Bytes(20 * MSS));
        assert_eq!(variant.cut_by_mark(Bytes(20 * MSS), &view()), Bytes(15 * MSS));
        assert_eq!(variant.cut_by_loss(Bytes(20 * MSS), &view()), Bytes(10 * MSS), "a loss counts as an alpha of one");
        assert_eq!(variant.alpha(), Some(512), "and leaves alpha");
    }

    /// 100 kB within 1.4 ms over 120 us: 571.4 Mbit/s, 5.87 segments of 1460 bytes.
    #[test]
    fn the_minimum_window_is_that_of_equation_12() {
        let mut variant = MinimumRate::new(Halving, LAW, &context(None));
        let message =
            Message { size: Some(Bytes(100_000)), deadline: Some(Time::from_us(1_400)), ..Message::default() };
        variant.on_message(&view(), &message.handed_over(Time(0)));
        let view = SenderView { srtt: Some(Duration::from_us(120)), ..view() };
        assert_eq!(variant.minimum_window(&view), Bytes(8_572));
        assert!((8_572.0_f64 / 1460.0 - 5.87).abs() < 0.005);
        assert_eq!(variant.minimum_window(&SenderView { srtt: None, ..view }), Bytes::ZERO);
    }

    fn rate_at(law: Law, now_us: u64, remaining: Option<u64>) -> Rate {
        let mut variant = MinimumRate::new(Halving, law, &context(None));
        let message =
            Message { size: Some(Bytes(100_000)), deadline: Some(Time::from_us(1_000)), ..Message::default() };
        variant.on_message(&view(), &message.handed_over(Time(0)));
        variant.rate(&SenderView { now: Time::from_us(now_us), remaining: remaining.map(Bytes), ..view() })
    }

    #[test]
    fn the_rate_stays_as_it_was_or_follows_what_is_left() {
        let remaining = Law { theta: Theta::Remaining, ..LAW };
        assert_eq!(rate_at(LAW, 500, Some(25_000)), Rate(800_000_000));
        assert_eq!(rate_at(remaining, 500, Some(25_000)), Rate(400_000_000));
        assert_eq!(rate_at(remaining, 900, Some(25_000)), Rate(2_000_000_000));
        assert_eq!(rate_at(remaining, 500, None), Rate(800_000_000));
    }

    #[test]
    fn a_deadline_that_is_over_asks_for_nothing_unless_the_rate_is_kept() {
        for theta in [Theta::Fixed, Theta::Remaining] {
            let (reset, keep) = (DeadlinePassed::Reset, DeadlinePassed::Keep);
            for (now, deadline_passed, rate) in
                [(999, reset, 800_000_000), (1_000, reset, 0), (1_000, keep, 800_000_000), (5_000, keep, 800_000_000)]
            {
                let left = if theta == Theta::Remaining && now == 999 { 100 } else { 100_000 };
                assert_eq!(rate_at(Law { theta, deadline_passed, ..LAW }, now, Some(left)), Rate(rate));
            }
        }
    }

    /// Section II.C: elastic until all data are generated, "when the `W_min` is updated and enforced".
    #[test]
    fn a_flow_is_elastic_until_its_size_is_known() {
        let mut sender = Reno::with(MinimumRate::new(Halving, LAW, &context(None)), &context(None));
        let growing = Message { deadline: Some(Time::from_us(1_000)), ..Message::default() };
        sender.on_message(&view(), &growing.handed_over(Time(0)));
        assert!((after_a_round(&mut sender, 4, true) - 8.0).abs() < 1e-9);
        let whole = Message { size: Some(Bytes(100_000)), ..growing };
        sender.on_message(&view(), &whole.handed_over(Time::from_us(100)));
        assert_eq!(sender.variant.minimum_window(&view()), Bytes(11_112));
        assert_eq!(sender.windows().cwnd, Bytes(8 * MSS), "what it has grown to stays");
        assert!((after_a_round(&mut sender, 2, true) - 10.0).abs() < 1e-9);
    }

    /// 2.5 Gbit/s are 21.40 segments of 1460 bytes for 100 us, and 32.11 for the sender's 150 us.
    #[test]
    fn an_announced_window_is_scaled_to_the_real_round_trip() {
        let mss = Bytes(1460);
        let context = SenderContext { mss, ..context(Some(Duration::from_us(100))) };
        let variant = MinimumRate::new(Halving, LAW, &context);
        let window = |advertised, us| {
            let srtt = Some(Duration::from_us(us));
            variant.receive_window(&SenderView { advertised: Bytes(advertised), srtt, ..view() }).0
        };
        assert_eq!(window(31_250, 100), 31_250);
        assert_eq!(window(31_250, 150), 46_875);
        assert!((46_875.0_f64 / 1460.0 - 32.11).abs() < 0.005);
        assert_eq!(window(31_250, 1), 1460, "a segment at least");
        assert_eq!(window(1_000, 150), 1_500, "the floor comes after the scale");
        assert_eq!((window(91, 150), window(0, 150)), (1460, 1460), "none is closed");
        assert_eq!(window(u64::MAX, 1_000_000), u64::MAX, "no window wraps");
        let unknown = SenderView { advertised: Bytes(31_250), srtt: None, ..view() };
        assert_eq!(variant.receive_window(&unknown), Bytes(31_250));
        assert_eq!(variant.receive_window(&SenderView { advertised: Bytes(91), ..unknown }), Bytes(1460));
    }

    #[test]
    fn a_scaled_window_is_rounded_up_to_whole_segments() {
        let context = SenderContext { mss: Bytes(1460), ..context(Some(Duration::from_us(100))) };
        let variant = MinimumRate::new(Halving, Law::default(), &context);
        for (advertised, window) in [(1, 1460), (1460, 1460), (1461, 2920), (2774, 2920)] {
            let view = SenderView { advertised: Bytes(advertised), srtt: Some(Duration::from_us(100)), ..view() };
            assert_eq!(variant.receive_window(&view), Bytes(window));
        }
    }

    /// Section II.D: what may be in flight is the lesser of the two windows, and without the controller what was announced
    /// is meant as it says.
    #[test]
    fn the_lesser_window_counts() {
        let build = |reference| {
            let context = context(reference);
            let mut sender = Reno::with(MinimumRate::new(Halving, LAW, &context), &context);
            sender.set_windows(Windows { cwnd: Bytes(20 * MSS), ssthresh: Windows::UNLIMITED });
            let limited = SenderView { advertised: Bytes(8 * MSS), srtt: Some(Duration::from_us(200)), ..view() };
            let open = SenderView { advertised: Bytes(100 * MSS), ..limited };
            (sender.send_window(&limited).0 / MSS, sender.send_window(&open).0 / MSS)
        };
        assert_eq!(build(None), (8, 20));
        assert_eq!(build(Some(Duration::from_us(100))), (16, 20));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Any window with any round trip: the real product, rounded down, or as much as can be said.
        #[test]
        fn scaling_is_exact_and_never_wraps(advertised in 1_u64.., srtt in any::<u64>()) {
            let reference = Duration::from_us(100);
            let variant = MinimumRate::new(Halving, LAW, &context(Some(reference)));
            let view = SenderView { advertised: Bytes(advertised), srtt: Some(Duration(srtt)), ..view() };
            let window = u128::from(variant.receive_window(&view).0);
            let product = u128::from(advertised) * u128::from(srtt);
            let unit = u128::from(reference.0);
            let exact = window * unit <= product && product < (window + 1) * unit;
            prop_assert!(exact || window == u128::from(MSS) || (window == u128::from(u64::MAX) && product > window * unit));
        }
    }

    /// The sender inside learns from marks whatever the minimum is.
    #[test]
    fn marks_reach_the_sender_inside() {
        let mut script = Script::new(MSS, 10, |context| {
            let share = MarkedShare::new(&dctcp::Config::default(), ObservationEnd::Beyond);
            Reno::with(MinimumRate::new(share, LAW, context), context)
        });
        script.send_window_full();
        script.ack_everything_segment_by_segment(false);
        assert_eq!(script.sender.alpha(), Some(960));
    }
}
