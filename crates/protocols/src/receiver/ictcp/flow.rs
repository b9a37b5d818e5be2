//! One connection: what it gets through, against what its window would let it, and what follows for the window.

use super::round_trip::RoundTrip;
use super::slot::Slots;
use super::{Config, SlowStartGrowth};
use crate::receiver::Arrival;
use crate::units::{Bytes, Duration, Rate, Time};

/// How a window grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    SlowStart,
    CongestionAvoidance,
}

/// A stretch of about one round trip over which throughput is measured.
#[derive(Clone, Copy, Debug)]
struct Round {
    began: Time,
    payload: Bytes,
}

/// What a receiver controls of one connection.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    /// rwnd.
    pub(super) window: Bytes,
    pub(super) phase: Phase,
    pub(super) rtt: RoundTrip,
    /// b.
    throughput: Rate,
    round: Option<Round>,
    /// Rounds in a row that got through too little.
    low_rounds: u32,
    /// When the window last grew.
    grown_at: Option<Time>,
    last_arrival: Option<Time>,
    /// Messages of which something, but not all, has arrived.
    messages: u32,
}

/// How measured and expected throughput compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The window is what limits the connection.
    Limited,
    /// Neither.
    Fair,
    /// The window is wider than what gets through.
    TooWide,
}

/// b = max(s, beta b + (1 - beta) s).
pub(super) fn smoothed(config: &Config, throughput: Rate, sample: Rate) -> Rate {
    sample.max(Rate(config.beta.blend(throughput.0, sample.0)))
}

/// Judges d = (e - b) / e, with e = max(b, window / RTT).
pub(super) fn judge(config: &Config, mss: Bytes, window: Bytes, rtt: Duration, throughput: Rate) -> Verdict {
    let expected = Rate::of(window, rtt).max(throughput);
    let missing = expected.0 - throughput.0;
    // d <= MSS / window: one segment more or less in flight does not matter.
    let within_a_segment = u128::from(missing) * u128::from(window.0) <= u128::from(mss.0) * u128::from(expected.0);
    if within_a_segment || config.gamma1.covers(missing, expected.0) {
        Verdict::Limited
    } else if config.gamma2.covers(missing, expected.0) {
        Verdict::Fair
    } else {
        Verdict::TooWide
    }
}

impl Flow {
    pub(super) fn new(initial: Bytes) -> Self {
        Self {
            window: initial,
            phase: Phase::SlowStart,
            rtt: RoundTrip::default(),
            throughput: Rate(0),
            round: None,
            low_rounds: 0,
            grown_at: None,
            last_arrival: None,
            messages: 0,
        }
    }

    /// After a silence: nothing that was measured before holds.
    fn restart(&mut self, initial: Bytes) {
        self.rtt.forget();
        *self = Self { rtt: self.rtt, messages: self.messages, ..Self::new(initial) };
    }

    pub(super) fn on_message(&mut self) {
        self.messages = self.messages.saturating_add(1);
    }

    /// The sender has nothing more, so what comes in says nothing of the window.
    pub(super) fn on_complete(&mut self) {
        self.messages = self.messages.saturating_sub(1);
        if self.messages == 0 {
            self.round = None;
            self.rtt.forget();
        }
    }

    /// Whether the sender has data.
    pub(super) fn has_data(&self) -> bool {
        self.messages > 0
    }

    /// The round trip, or before there is one what the NIC's connections have on the mean.
    pub(super) fn rtt_or(&self, mean: Duration) -> Duration {
        self.rtt.smoothed().unwrap_or(mean).max(Duration(1))
    }

    /// Data arrived: measures, and once in a round trip judges the window.
    pub(super) fn on_data(&mut self, now: Time, arrival: &Arrival, config: &Config, mss: Bytes, slots: &mut Slots) {
        // First what was measured: on a long path every round trip is a silence.
        self.rtt.on_data(now, arrival, config.rtt_limit);
        let silence = self.last_arrival.map_or(Duration::ZERO, |last| now.since(last));
        if silence >= config.rtt_limit {
            self.restart(config.initial(mss));
        }
        self.last_arrival = Some(now);
        if !self.rtt.in_scope() {
            self.round = None;
            return;
        }
        let rtt = self.rtt_or(slots.length());
        slots.weigh(arrival.payload, rtt);
        let Some(round) = &mut self.round else {
            self.round = Some(Round { began: now, payload: arrival.payload });
            return;
        };
        let lasted = now.since(round.began);
        if lasted < rtt {
            round.payload += arrival.payload;
            return;
        }
        let sample = Rate::of(round.payload, lasted);
        *round = Round { began: now, payload: arrival.payload };
        self.throughput = smoothed(config, self.throughput, sample);
        // A window that was made smaller is in force only once what was announced before has arrived.
        if self.rtt.edge().since(arrival.expected) > self.window {
            return;
        }
        let verdict = judge(config, mss, self.window, rtt, self.throughput);
        self.obey(now, verdict, rtt, config, mss, slots);
    }

    /// Changes the window as a round calls for.
    pub(super) fn obey(
        &mut self,
        now: Time,
        verdict: Verdict,
        rtt: Duration,
        config: &Config,
        mss: Bytes,
        slots: &mut Slots,
    ) {
        match verdict {
            Verdict::Limited => {
                self.low_rounds = 0;
                let rested = self.grown_at.is_none_or(|at| now.since(at) >= rtt.doubled());
                if rested && slots.may_grow() {
                    self.grow(now, rtt, config, mss, slots);
                }
            }
            Verdict::Fair => {
                self.low_rounds = 0;
                self.phase = Phase::CongestionAvoidance;
            }
            Verdict::TooWide => {
                self.phase = Phase::CongestionAvoidance;
                self.low_rounds += 1;
                if self.low_rounds >= config.low_rounds {
                    self.low_rounds = 0;
                    self.shrink(config, mss);
                }
            }
        }
    }

    /// Grows as far as the quota allows: a doubling that it does not allow ends slow start.
    fn grow(&mut self, now: Time, rtt: Duration, config: &Config, mss: Bytes, slots: &mut Slots) {
        if config.growth == SlowStartGrowth::Double && self.phase == Phase::SlowStart {
            if slots.take(Rate::of(self.window, rtt)) {
                self.widen(now, self.window);
                return;
            }
            self.phase = Phase::CongestionAvoidance;
        }
        if slots.take(Rate::of(mss, rtt)) {
            self.widen(now, mss);
        }
    }

    fn widen(&mut self, now: Time, more: Bytes) {
        self.window = Bytes(self.window.0.saturating_add(more.0));
        self.grown_at = Some(now);
    }

    /// Takes a segment from the window, down to the floor.
    pub(super) fn shrink(&mut self, config: &Config, mss: Bytes) {
        self.window = self.window.saturating_sub(mss).max(config.floor(mss));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receiver::ictcp::Share;
    use crate::receiver::{AckCause, SentAck};
    use crate::switch::Marks;
    use crate::units::Offset;

    const MSS: Bytes = Bytes(1460);
    const RTT: Duration = Duration::from_us(100);
    const MEGABIT: u64 = 1_000_000;

    /// One row of the worked examples: window in segments, round trip, throughput before and of the last round
    /// trip in Mbit/s.
    fn example(window: u64, rtt_us: u64, before: u64, sample: u64) -> (u64, Verdict) {
        let config = Config::default();
        let b = smoothed(&config, Rate(before * MEGABIT), Rate(sample * MEGABIT));
        (b.0 / MEGABIT, judge(&config, MSS, MSS.times(window), Duration::from_us(rtt_us), b))
    }

    #[test]
    fn worked_examples() {
        // e is 467.2 and d 0.144: more than gamma1, less than a segment of four.
        assert_eq!(example(4, 100, 0, 400), (400, Verdict::Limited));
        // b is 0.75 * 1000 + 0.25 * 500; e is 1168 and d 0.251.
        assert_eq!(example(10, 100, 1000, 500), (875, Verdict::Fair));
        // d is 0.743.
        assert_eq!(example(10, 100, 300, 300), (300, Verdict::TooWide));
        // A new maximum counts in full; e is 1168 and d 0.658.
        assert_eq!(example(20, 200, 200, 400), (400, Verdict::TooWide));
        // More than the window would let through: e is b and d 0.
        assert_eq!(example(2, 100, 0, 500), (500, Verdict::Limited));
    }

    /// The bounds belong to the lower case: d <= gamma1 and d <= gamma2. A window of 100 segments makes a segment
    /// too little to matter.
    #[test]
    fn bounds_of_the_three_cases() {
        let e = Rate::of(MSS.times(100), RTT).0;
        let verdict = |missing: u64| judge(&Config::default(), MSS, MSS.times(100), RTT, Rate(e - missing));
        assert_eq!(verdict(e / 10), Verdict::Limited);
        assert_eq!(verdict(e / 10 + 1), Verdict::Fair);
        assert_eq!(verdict(e / 2), Verdict::Fair);
        assert_eq!(verdict(e / 2 + 1), Verdict::TooWide);
    }

    #[test]
    fn a_segment_more_or_less_is_no_difference() {
        let e = Rate::of(MSS.times(4), RTT).0;
        let verdict = |missing: u64| judge(&Config::default(), MSS, MSS.times(4), RTT, Rate(e - missing));
        assert_eq!(verdict(e / 4), Verdict::Limited);
        assert_eq!(verdict(e / 4 + 1), Verdict::Fair);
    }

    /// The switch for the weight of the past, as published code has it.
    #[test]
    fn beta_is_the_weight_of_the_past() {
        for (beta, expected) in [(75, 875), (90, 950), (20, 600), (50, 750)] {
            let config = Config { beta: Share::percent(beta), ..Config::default() };
            assert_eq!(smoothed(&config, Rate(1000), Rate(500)), Rate(expected));
            assert_eq!(smoothed(&config, Rate(500), Rate(1000)), Rate(1000), "a rise counts at once");
        }
    }

    /// A gigabit NIC of which `left` Mbit/s of the target of 900 are left, in the half in which windows grow.
    fn growing(left: u64) -> Slots {
        let mut slots = Slots::new(Rate(1000 * MEGABIT), Share::percent(90), Duration::from_us(160));
        // 20 bytes in 160 us are 1 Mbit/s.
        slots.on_arrival(Time(0), Bytes((900 - left) * 20));
        slots.end_half(Time::from_us(160));
        assert!(slots.may_grow());
        slots
    }

    fn flow(segments: u64, phase: Phase) -> Flow {
        Flow { phase, ..Flow::new(MSS.times(segments)) }
    }

    /// Applies a verdict with the default parameters, and tells the window in segments.
    fn obey(flow: &mut Flow, now_us: u64, verdict: Verdict, slots: &mut Slots) -> u64 {
        obey_with(&Config::default(), flow, now_us, verdict, slots)
    }

    fn obey_with(config: &Config, flow: &mut Flow, now_us: u64, verdict: Verdict, slots: &mut Slots) -> u64 {
        flow.obey(Time::from_us(now_us), verdict, RTT, config, MSS, slots);
        flow.window.0 / MSS.0
    }

    #[test]
    fn slow_start_doubles_and_congestion_avoidance_adds_a_segment() {
        assert_eq!(obey(&mut flow(4, Phase::SlowStart), 200, Verdict::Limited, &mut growing(500)), 8);
        assert_eq!(obey(&mut flow(4, Phase::CongestionAvoidance), 200, Verdict::Limited, &mut growing(500)), 5);
        let add = Config { growth: SlowStartGrowth::Add, ..Config::default() };
        assert_eq!(obey_with(&add, &mut flow(4, Phase::SlowStart), 200, Verdict::Limited, &mut growing(500)), 5);
    }

    /// Doubling four segments costs 467.2 Mbit/s, a segment 116.8.
    #[test]
    fn without_quota_for_doubling_slow_start_ends_with_a_segment() {
        let (mut doubled, mut added, mut kept) =
            (flow(4, Phase::SlowStart), flow(4, Phase::SlowStart), flow(4, Phase::SlowStart));
        assert_eq!(obey(&mut doubled, 200, Verdict::Limited, &mut growing(468)), 8);
        assert_eq!(doubled.phase, Phase::SlowStart);
        assert_eq!(obey(&mut added, 200, Verdict::Limited, &mut growing(467)), 5);
        assert_eq!(added.phase, Phase::CongestionAvoidance);
        assert_eq!(obey(&mut kept, 200, Verdict::Limited, &mut growing(116)), 4);
        assert_eq!(kept.phase, Phase::CongestionAvoidance);
        assert_eq!(kept.grown_at, None);
    }

    #[test]
    fn what_one_connection_takes_the_next_cannot() {
        let mut slots = growing(300);
        let grown = [200, 210, 220]
            .map(|now| obey(&mut flow(4, Phase::CongestionAvoidance), now, Verdict::Limited, &mut slots));
        assert_eq!(grown, [5, 5, 4]);
    }

    #[test]
    fn a_window_grows_in_the_second_half_and_once_in_two_round_trips() {
        let mut slots = growing(900);
        let mut flow = flow(2, Phase::CongestionAvoidance);
        assert_eq!(obey(&mut flow, 200, Verdict::Limited, &mut slots), 3);
        assert_eq!(obey(&mut flow, 399, Verdict::Limited, &mut slots), 3, "not yet");
        assert_eq!(obey(&mut flow, 400, Verdict::Limited, &mut slots), 4);
        slots.end_half(Time::from_us(420));
        assert_eq!(obey(&mut flow, 700, Verdict::Limited, &mut slots), 4, "the first half measures");
        assert_eq!(flow.phase, Phase::CongestionAvoidance);
    }

    #[test]
    fn the_third_round_in_a_row_with_too_little_takes_a_segment() {
        let mut slots = growing(900);
        let mut flow = flow(10, Phase::SlowStart);
        let rounds = [Verdict::TooWide; 7].map(|verdict| obey(&mut flow, 200, verdict, &mut slots));
        assert_eq!(rounds, [10, 10, 9, 9, 9, 8, 8]);
        assert_eq!(flow.phase, Phase::CongestionAvoidance);
    }

    #[test]
    fn any_other_round_between_begins_the_count_anew() {
        for between in [Verdict::Fair, Verdict::Limited] {
            // Nothing is left, so that no window grows.
            let mut slots = growing(0);
            let mut flow = flow(10, Phase::CongestionAvoidance);
            for verdict in [Verdict::TooWide, Verdict::TooWide, between, Verdict::TooWide, Verdict::TooWide] {
                assert_eq!(obey(&mut flow, 200, verdict, &mut slots), 10);
            }
            assert_eq!(obey(&mut flow, 200, Verdict::TooWide, &mut slots), 9);
        }
    }

    /// Hold and decrease end slow start, a limited window does not.
    #[test]
    fn phases() {
        for (verdict, phase) in [
            (Verdict::Limited, Phase::SlowStart),
            (Verdict::Fair, Phase::CongestionAvoidance),
            (Verdict::TooWide, Phase::CongestionAvoidance),
        ] {
            let mut flow = flow(2, Phase::SlowStart);
            flow.obey(Time::from_us(200), verdict, RTT, &Config::default(), MSS, &mut growing(900));
            assert_eq!(flow.phase, phase, "{verdict:?}");
        }
    }

    #[test]
    fn no_window_shrinks_below_the_floor() {
        let mut flow = flow(3, Phase::CongestionAvoidance);
        for expected in [2, 2] {
            flow.shrink(&Config::default(), MSS);
            assert_eq!(flow.window, MSS.times(expected));
        }
        flow.shrink(&Config { window_floor: 0, ..Config::default() }, MSS);
        flow.shrink(&Config { window_floor: 0, ..Config::default() }, MSS);
        assert_eq!(flow.window, MSS, "a window of nothing would stop the sender");
    }

    /// A connection fed segment by segment, all of them in order.
    struct Fed {
        flow: Flow,
        slots: Slots,
        next: u64,
    }

    impl Fed {
        /// One whose sender has data, with this window.
        fn new(segments: u64) -> Self {
            let mut flow = flow(segments, Phase::CongestionAvoidance);
            flow.on_message();
            Self { flow, slots: growing(900), next: 0 }
        }

        fn data(&mut self, now_us: u64) {
            let (start, payload) = (Offset(self.next), MSS);
            self.next += MSS.0;
            let expected = Offset(self.next);
            let arrival = Arrival {
                start,
                payload,
                new: payload,
                expected,
                delivered: payload,
                beyond_gap: Bytes::ZERO,
                highest: expected,
                marks: Marks::NONE,
            };
            self.flow.on_data(Time::from_us(now_us), &arrival, &Config::default(), MSS, &mut self.slots);
        }

        fn ack(&mut self, now_us: u64, edge: u64) {
            let sent = SentAck { ack: Offset(self.next), edge: Offset(edge), cause: AckCause::Data };
            self.flow.rtt.on_ack_sent(Time::from_us(now_us), &sent, true);
        }
    }

    /// Two segments in each 200 us, round trip unknown and so that of the NIC (160 us): 116.8 Mbit/s, over the
    /// time that the round lasted. The segment that ends a round is the first of the next.
    #[test]
    fn a_round_ends_with_the_first_segment_after_a_round_trip() {
        let mut fed = Fed::new(2);
        for at in [1000, 1012, 1159] {
            fed.data(at);
            assert_eq!(fed.flow.throughput, Rate(0));
        }
        fed.data(1200);
        assert_eq!(fed.flow.throughput, Rate(3 * 1460 * 8 * 1_000_000 / 200));
        fed.data(1212);
        fed.data(1360);
        assert_eq!(fed.flow.throughput, Rate(2 * 1460 * 8 * 1_000_000 / 160).max(Rate(fed.flow.throughput.0)));
        let round = fed.flow.round.unwrap();
        assert_eq!((round.began, round.payload), (Time::from_us(1360), MSS));
    }

    #[test]
    fn a_limited_window_grows_by_what_arrives() {
        let mut fed = Fed::new(2);
        fed.data(1000);
        fed.data(1012);
        fed.data(1200);
        assert_eq!(fed.flow.window, MSS.times(3));
    }

    /// A window of twenty segments went down to ten, of which little comes through: that counts against the ten
    /// as soon as no more than these is announced.
    #[test]
    fn a_window_is_judged_once_what_was_announced_before_has_arrived() {
        for (announced, low_rounds) in [(13, 1), (14, 0)] {
            let mut fed = Fed::new(10);
            fed.ack(900, announced * MSS.0);
            for at in [1000, 1012, 1200] {
                fed.data(at);
            }
            assert_eq!(fed.flow.low_rounds, low_rounds);
            assert_ne!(fed.flow.throughput, Rate(0), "it is measured all the same");
        }
    }

    /// Two milliseconds of silence, after growth and a throughput of before.
    #[test]
    fn a_connection_that_was_silent_is_as_new() {
        for (silence_us, window, phase) in [(1_999, 10, Phase::CongestionAvoidance), (2_000, 2, Phase::SlowStart)] {
            let mut fed = Fed::new(2);
            for at in [1000, 1012, 1200] {
                fed.data(at);
            }
            fed.flow.window = MSS.times(10);
            fed.slots = growing(0);
            fed.data(1200 + silence_us);
            assert_eq!((fed.flow.window, fed.flow.phase), (MSS.times(window), phase));
            assert!(fed.flow.has_data());
            assert_eq!(fed.flow.throughput == Rate(0), silence_us == 2_000);
            assert_eq!(fed.flow.grown_at.is_none(), silence_us == 2_000);
        }
    }

    #[test]
    fn between_messages_nothing_is_judged() {
        let mut fed = Fed::new(2);
        fed.data(1000);
        fed.flow.on_message();
        fed.flow.on_complete();
        assert!(fed.flow.round.is_some(), "there is another message");
        fed.flow.on_complete();
        assert!(fed.flow.round.is_none() && !fed.flow.has_data());
        fed.flow.on_message();
        fed.data(1900);
        assert_eq!(fed.flow.throughput, Rate(0), "900 us with a segment would be little");
        assert_eq!(fed.flow.round.unwrap().began, Time::from_us(1900));
    }

    /// Three round trips of 2 ms and more: nobody looks at its throughput.
    #[test]
    fn a_long_path_is_not_judged_and_does_not_count_in_t() {
        let mut fed = Fed::new(2);
        for round in 1..=4 {
            fed.ack(round * 3000, fed.next + 1);
            fed.data(round * 3000 + 2500);
            fed.data(round * 3000 + 2600);
        }
        assert!(!fed.flow.rtt.in_scope() && fed.flow.round.is_none());
        // From here on only the third and later rounds would have weighed anything.
        fed.slots = growing(900);
        fed.data(15_700);
        fed.slots.end_half(Time::from_us(16_000));
        assert_eq!(fed.slots.length(), Duration::from_us(160));
    }
}
