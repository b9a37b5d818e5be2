//! HPCC (Li et al., SIGCOMM 2019): keeps the links of its path just below full, as telemetry tells of them.
//!
//! Every ACK brings what each port said of itself: its queue, and how much it has sent. From two of them follows the
//! inflight of the fullest link in units of its bandwidth-delay product. The window is set so that this becomes `eta`,
//! measured against a reference window that changes once per round trip (algorithm 1), and segments are paced.

use alloc::boxed::Box;

use super::{Ack, Conduct, Congestion, Family, MarkResponse, Restart, Sender, SenderContext, SenderView, Windows};
use crate::registry::{Capability, Part, PartColumn, Place, Requirement};
use crate::switch::telemetry::{Hop, Telemetry};
use crate::units::{Bytes, Duration, Offset, Rate};

/// HPCC's parameters, by the names of the paper.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The utilization that is aimed at.
    #[schemars(range(min = 0.01, max = 1.0))]
    pub eta: f64,
    /// Additive increases in a row before the window is set by utilization again.
    pub max_stage: u32,
    /// What an additive increase adds to the window (`W_AI`).
    pub additive_increase: Bytes,
    /// The round trip on an idle network (T). Default: the real one.
    pub base_rtt: Option<Duration>,
}

impl Default for Config {
    fn default() -> Self {
        Self { eta: 0.95, max_stage: 5, additive_increase: Bytes(80), base_rtt: None }
    }
}

/// HPCC.
#[derive(Clone, Debug)]
pub struct Hpcc {
    config: Config,
    mss: f64,
    /// T in seconds.
    base_rtt: f64,
    line_rate: Rate,
    /// The largest window, and that of a new connection: what the line takes in a round trip.
    initial: f64,
    /// The window in bytes (W).
    window: f64,
    /// The reference window (`W^c`).
    reference: f64,
    /// Additive increases since the last one by utilization.
    stage: u32,
    /// The moving average of the inflight of the fullest link, in units of its bandwidth-delay product (U).
    utilization: f64,
    /// What the ACK before said. It is in a box, as any sender takes as much memory as the largest.
    last: Box<Telemetry>,
    /// The reference window changes with the first ACK beyond this.
    update_end: Offset,
}

impl Hpcc {
    /// A sender on a new connection. Where nothing is known of the path, it begins with the connection's initial window and takes a
    /// round trip of 10 us for T.
    #[must_use]
    pub fn new(config: &Config, context: &SenderContext) -> Self {
        let base_rtt = config.base_rtt.or(context.path.map(|path| path.base_rtt)).unwrap_or(Duration::from_us(10));
        let base_rtt = base_rtt.max(Duration(1));
        let line_rate = context.path.map_or_else(|| Rate::of(context.initial_window, base_rtt), |path| path.line_rate);
        let mss = context.mss.0.max(1) as f64;
        let initial = (line_rate.window_over(base_rtt).0 as f64).max(mss);
        Self {
            config: Config { eta: config.eta.clamp(0.01, 1.0), ..config.clone() },
            mss,
            base_rtt: base_rtt.as_secs_f64(),
            line_rate,
            initial,
            window: initial,
            reference: initial,
            stage: 0,
            utilization: 0.0,
            last: Box::new(Telemetry::EMPTY),
            update_end: Offset(0),
        }
    }

    /// Lines 1 to 10 of algorithm 1; without a hop that was seen before there is nothing to measure.
    fn measure(&mut self, telemetry: &Telemetry) {
        let mut fullest: Option<(f64, f64)> = None;
        for (hop, before) in telemetry.hops().iter().zip(self.last.hops()) {
            let Some((inflight, span)) = self.inflight(hop, before) else { continue };
            if fullest.is_none_or(|(most, _)| inflight > most) {
                fullest = Some((inflight, span));
            }
        }
        let Some((inflight, span)) = fullest else { return };
        let weight = span.min(self.base_rtt) / self.base_rtt;
        self.utilization = (1.0 - weight) * self.utilization + weight * inflight;
    }

    /// The inflight of one link in units of its bandwidth-delay product, and the seconds over which it was measured.
    fn inflight(&self, hop: &Hop, before: &Hop) -> Option<(f64, f64)> {
        let span = hop.time.since(before.time).as_secs_f64();
        let bytes_per_second = hop.rate.0 as f64 / 8.0;
        if span <= 0.0 || bytes_per_second <= 0.0 {
            return None;
        }
        let queue = hop.queue.min(before.queue).0 as f64;
        let sent = hop.transmitted.saturating_sub(before.transmitted).0 as f64;
        Some((queue / (bytes_per_second * self.base_rtt) + sent / span / bytes_per_second, span))
    }

    /// Lines 11 to 21.
    fn compute(&mut self, update_reference: bool) {
        let increase = self.config.additive_increase.0 as f64;
        let by_utilization = self.utilization >= self.config.eta || self.stage >= self.config.max_stage;
        let window = if by_utilization {
            self.reference / (self.utilization / self.config.eta).max(1e-9) + increase
        } else {
            self.reference + increase
        };
        self.window = window.clamp(self.mss.min(self.initial), self.initial);
        if update_reference {
            self.stage = if by_utilization { 0 } else { self.stage + 1 };
            self.reference = self.window;
        }
    }

    /// Lines 22 to 30.
    #[inline(never)]
    fn on_any_ack(&mut self, view: &SenderView, ack: &Ack) {
        let Some(telemetry) = ack.telemetry else { return };
        self.measure(telemetry);
        let first = self.last.hops().is_empty();
        *self.last = *telemetry;
        if first || !ack.may_move_window {
            return;
        }
        let update = view.una > self.update_end;
        self.compute(update);
        if update {
            self.update_end = view.nxt;
        }
    }

    fn bytes(&self) -> Bytes {
        Bytes(self.window as u64)
    }
}

impl Sender for Hpcc {
    fn on_ack(&mut self, view: &SenderView, ack: &Ack) -> MarkResponse {
        self.on_any_ack(view, ack);
        MarkResponse::None
    }

    fn on_duplicate_ack(&mut self, view: &SenderView, ack: &Ack) -> MarkResponse {
        self.on_any_ack(view, ack);
        MarkResponse::None
    }

    fn on_loss(&mut self, _view: &SenderView) {}

    fn on_partial_ack(&mut self, view: &SenderView, ack: &Ack) {
        self.on_any_ack(view, ack);
    }

    fn on_recovered(&mut self, view: &SenderView, ack: &Ack) {
        self.on_any_ack(view, ack);
    }

    fn on_timeout(&mut self, _view: &SenderView, _again: bool) {}

    fn on_restart(&mut self, why: Restart) {
        if why == Restart::Fresh {
            self.window = self.initial;
            self.reference = self.initial;
            self.stage = 0;
            self.utilization = 0.0;
            *self.last = Telemetry::EMPTY;
        }
    }

    fn send_window(&self, view: &SenderView) -> Bytes {
        self.bytes().min(view.advertised)
    }

    /// There is no slow start: the threshold is where the window is.
    fn windows(&self) -> Windows {
        Windows { cwnd: self.bytes(), ssthresh: self.bytes() }
    }

    fn set_windows(&mut self, windows: Windows) {
        self.window = windows.cwnd.0 as f64;
        self.reference = self.window;
    }

    fn cut(&self, _view: &SenderView, windows: Windows, _why: Congestion) -> Windows {
        windows
    }

    fn conduct(&self) -> Conduct {
        Conduct { family: Family::Own, floor: 1000, after_loss: 1000, growth: None, ..Conduct::RENO }
    }

    fn column(&self) -> Option<f64> {
        Some(self.utilization)
    }

    fn wants_telemetry(&self) -> bool {
        true
    }

    fn wants_timing(&self) -> bool {
        true
    }

    /// `R = W / T`, up to the line rate.
    fn pacing_rate(&self, _view: &SenderView) -> Option<Rate> {
        Some(Rate(((self.window * 8.0 / self.base_rtt) as u64).clamp(1, self.line_rate.0.max(1))))
    }
}

impl Part for Hpcc {
    type Config = Config;
    const SUMMARY: &'static str = "sets its window by what switches tell of their queues and links";
    const SOURCE: &'static str = "Li et al., \"HPCC: High Precision Congestion Control\", SIGCOMM 2019, algorithm 1";
    const REQUIRES: &'static [Requirement] = &[Requirement {
        place: Place::Marker,
        capability: Capability::Telemetry,
        because: "HPCC works by what switch ports say of themselves: give them the marker \"telemetry\"",
    }];
    const DEVIATIONS: &'static [&'static str] = &[
        "Never less than a segment, and never more than the line takes in a round trip.",
        "Losses are repaired by TCP and move no window: the paper counts on a network without loss (PFC).",
        "The first ACK has nothing to be compared with; it moves nothing.",
        "Paths do not change here, so that telemetry carries no number of the path.",
        "The pace counts headers, the window does not.",
    ];

    fn column(_config: &Config) -> Option<PartColumn> {
        Some(PartColumn {
            name: "utilization",
            doc: "U of HPCC: inflight of the fullest link over its bandwidth-delay product",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::{PathFacts, WindowRules};
    use crate::units::Time;

    const MSS: u64 = 1000;
    /// 100 Gbit/s and 8 us: 100,000 bytes.
    const RATE: Rate = Rate(100_000_000_000);
    const T_US: u64 = 8;

    fn hpcc(change: impl Fn(&mut Config)) -> Hpcc {
        let mut config = Config::default();
        change(&mut config);
        let path = Some(PathFacts { line_rate: RATE, base_rtt: Duration::from_us(T_US), hops: 2 });
        let (mss, initial_window) = (Bytes(MSS), Bytes(10 * MSS));
        let rules = WindowRules::default();
        Hpcc::new(&config, &SenderContext { mss, initial_window, rules, reference_rtt: None, path })
    }

    /// One port: its queue, and what it has sent since the start of the run.
    fn port(us: u64, queue: u64, transmitted: u64) -> Telemetry {
        let mut telemetry = Telemetry::EMPTY;
        telemetry.push(Hop {
            time: Time::from_us(us),
            queue: Bytes(queue),
            transmitted: Bytes(transmitted),
            rate: RATE,
        });
        telemetry
    }

    /// An ACK up to `una` with `nxt` sent.
    fn ack(hpcc: &mut Hpcc, una: u64, nxt: u64, telemetry: &Telemetry) -> u64 {
        let view = SenderView {
            now: Time(0),
            una: Offset(una),
            nxt: Offset(nxt),
            remaining: None,
            srtt: None,
            advertised: Bytes(u64::MAX),
            limited_transmit: Bytes::ZERO,
            window_used: true,
        };
        let telemetry = Some(telemetry);
        let (acked, delivered) = (Bytes(MSS), Bytes(MSS));
        let ack = Ack { acked, delivered, rtt: None, ece: false, ein: false, telemetry, may_move_window: true };
        let _ = hpcc.on_ack(&view, &ack);
        hpcc.windows().cwnd.0
    }

    #[test]
    fn it_begins_at_line_rate() {
        let hpcc = hpcc(|_| ());
        assert_eq!(hpcc.windows().cwnd, Bytes(100_000));
        let view = SenderView {
            now: Time(0),
            una: Offset(0),
            nxt: Offset(0),
            remaining: None,
            srtt: None,
            advertised: Bytes(u64::MAX),
            limited_transmit: Bytes::ZERO,
            window_used: true,
        };
        assert_eq!(hpcc.pacing_rate(&view), Some(RATE));
    }

    /// Equation 2: a queue of one bandwidth-delay product at a busy link is an inflight of two; the window becomes
    /// `W / (2 / 0.95) + W_AI`.
    #[test]
    fn a_queue_of_a_bandwidth_delay_product_halves_the_window() {
        let mut hpcc = hpcc(|_| ());
        ack(&mut hpcc, 1_000, 100_000, &port(10, 100_000, 0));
        let window = ack(&mut hpcc, 2_000, 100_000, &port(10 + T_US, 100_000, 100_000));
        assert!((hpcc.utilization - 2.0).abs() < 1e-9);
        assert_eq!(window, 47_500 + 80);
    }

    /// The lesser of two queues counts: what is gone by the second ACK was no standing queue.
    #[test]
    fn the_lesser_of_two_queues_counts() {
        let mut hpcc = hpcc(|_| ());
        ack(&mut hpcc, 1_000, 100_000, &port(10, 100_000, 0));
        ack(&mut hpcc, 2_000, 100_000, &port(10 + T_US, 0, 50_000));
        assert!((hpcc.utilization - 0.5).abs() < 1e-9);
    }

    /// Of two links the fuller one; and a measurement over half of T has half of the weight.
    #[test]
    fn the_fullest_link_counts_by_how_long_it_was_measured() {
        let mut hpcc = hpcc(|_| ());
        let two = |us: u64, sent: u64| {
            let mut telemetry = port(us, 0, sent / 2);
            telemetry.push(Hop { transmitted: Bytes(sent), ..port(us, 0, sent).hops()[0] });
            telemetry
        };
        ack(&mut hpcc, 1_000, 100_000, &two(10, 0));
        ack(&mut hpcc, 2_000, 100_000, &two(10 + T_US / 2, 50_000));
        assert!((hpcc.utilization - 0.5).abs() < 1e-9, "half of one: {}", hpcc.utilization);
    }

    /// Per ACK the window follows the reference window, which changes once in a round trip: two ACKs that say the same do
    /// not cut twice.
    #[test]
    fn within_a_round_trip_cuts_do_not_multiply() {
        let mut hpcc = hpcc(|_| ());
        ack(&mut hpcc, 1_000, 100_000, &port(10, 100_000, 0));
        let first = ack(&mut hpcc, 2_000, 100_000, &port(18, 100_000, 100_000));
        let second = ack(&mut hpcc, 3_000, 100_000, &port(26, 100_000, 200_000));
        let third = ack(&mut hpcc, 100_001, 150_000, &port(34, 100_000, 300_000));
        assert_eq!((first, hpcc.stage), (47_580, 0));
        // The reference is 47,580 from the first on, and 22,680 only with the first ACK beyond what had been sent then.
        assert_eq!((second, third), (22_680, 22_680));
        let fourth = ack(&mut hpcc, 100_002, 150_000, &port(42, 100_000, 400_000));
        assert_eq!(fourth, 10_853);
    }

    /// Five additive increases, then the window is set by utilization although that is low.
    #[test]
    fn below_eta_it_adds_until_the_stage_is_over() {
        let mut hpcc = hpcc(|config| config.max_stage = 2);
        hpcc.set_windows(Windows { cwnd: Bytes(20_000), ssthresh: Bytes(20_000) });
        ack(&mut hpcc, 1, 2, &port(10, 0, 0));
        // Half of the link is used, in every round trip.
        let mut windows = alloc::vec::Vec::new();
        for round in 1..=3_u64 {
            windows.push(ack(&mut hpcc, 10 * round, 10 * round + 1, &port(10 + 8 * round, 0, 50_000 * round)));
        }
        assert_eq!(windows, [20_080, 20_160, (20_160.0 / (0.5 / 0.95) + 80.0) as u64]);
        assert_eq!(hpcc.stage, 0);
    }

    #[test]
    fn without_telemetry_nothing_moves() {
        let mut hpcc = hpcc(|_| ());
        assert!(hpcc.wants_telemetry());
        ack(&mut hpcc, 1_000, 2_000, &Telemetry::EMPTY);
        ack(&mut hpcc, 2_000, 3_000, &Telemetry::EMPTY);
        assert_eq!(hpcc.windows().cwnd, Bytes(100_000));
    }
}
