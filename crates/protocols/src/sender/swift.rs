//! Swift (Kumar et al., SIGCOMM 2020): keeps the round trip at a target.
//!
//! While a round trip stays below the target the window grows by `additive_increase` segments per round trip; above it
//! the window is cut by the share of the round trip that is too much, once per round trip. The target is larger for
//! flows with small windows (section 3.5), since many of them share a link. A window below a segment sends one segment
//! every so often.

use libm::sqrt;

use super::{Ack, Conduct, Congestion, Family, MarkResponse, Restart, Sender, SenderContext, SenderView, Windows};
use crate::registry::{Conflict, Part, PartColumn};
use crate::units::{Bytes, Duration, Time};

/// Swift's parameters.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The target of a flow with a large window over no link.
    pub base_target: Duration,
    /// What each link on the way there adds to the target.
    pub per_hop: Duration,
    /// The most that flow scaling adds to the target, for windows of `scaling_min_window` and less.
    pub scaling_range: Duration,
    /// The window in segments below which the target grows no further.
    #[schemars(range(min = 0.001, max = 1_000_000.0))]
    pub scaling_min_window: f64,
    /// The window in segments from which on flow scaling adds nothing.
    #[schemars(range(min = 0.001, max = 1_000_000.0))]
    pub scaling_max_window: f64,
    /// Segments that the window grows by in a round trip.
    #[schemars(range(min = 0.0, max = 1000.0))]
    pub additive_increase: f64,
    /// What the excess over the target is multiplied by for a cut.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub beta: f64,
    /// The largest share of the window that one cut takes.
    #[schemars(range(min = 0.0, max = 0.99))]
    pub max_decrease: f64,
    /// The least window, in segments.
    #[schemars(range(min = 0.001, max = 1.0))]
    pub min_window: f64,
    /// The largest window, in segments.
    #[schemars(range(min = 1.0, max = 1_000_000.0))]
    pub max_window: f64,
    /// So many timeouts in a row leave the least window.
    #[schemars(range(min = 1))]
    pub reset_after: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            base_target: Duration::from_us(20),
            per_hop: Duration::ZERO,
            scaling_range: Duration::from_us(100),
            scaling_min_window: 0.1,
            scaling_max_window: 100.0,
            additive_increase: 1.0,
            beta: 0.8,
            max_decrease: 0.5,
            min_window: 0.01,
            max_window: 1000.0,
            reset_after: 5,
        }
    }
}

/// Swift.
#[derive(Clone, Debug)]
pub struct Swift {
    config: Config,
    mss: f64,
    initial: f64,
    validate_window: bool,
    /// The target without flow scaling.
    fixed_target: Duration,
    /// The window in segments.
    cwnd: f64,
    last_decrease: Option<Time>,
    /// The newest sample.
    rtt: Duration,
    /// Timeouts since the last ACK.
    timeouts: u32,
}

impl Swift {
    /// A sender on a new connection. Parameters out of range are brought into it.
    #[must_use]
    pub fn new(config: &Config, context: &SenderContext) -> Self {
        let least = config.min_window.clamp(0.001, 1.0);
        let config = Config {
            scaling_min_window: config.scaling_min_window.max(0.001),
            max_decrease: config.max_decrease.clamp(0.0, 0.99),
            min_window: least,
            max_window: config.max_window.max(1.0),
            ..config.clone()
        };
        let hops = context.path.map_or(0, |path| u64::from(path.hops));
        let mss = context.mss.0.max(1) as f64;
        let initial = context.initial_window.0 as f64 / mss;
        Self {
            mss,
            initial,
            validate_window: context.rules.validate_window,
            fixed_target: Duration(config.base_target.0.saturating_add(config.per_hop.0.saturating_mul(hops))),
            cwnd: initial,
            last_decrease: None,
            rtt: Duration::ZERO,
            timeouts: 0,
            config,
        }
    }

    /// The target delay: `base + hops * per_hop + clamp(alpha / sqrt(cwnd) + beta, 0, range)`, where alpha and beta are
    /// such that the last term is the whole range at the least window of flow scaling, and nothing at the largest.
    #[must_use]
    pub fn target(&self) -> Duration {
        let Config { scaling_range, scaling_min_window, scaling_max_window, .. } = self.config;
        let range = scaling_range.0 as f64;
        let least = 1.0 / sqrt(scaling_max_window);
        let alpha = range / (1.0 / sqrt(scaling_min_window) - least);
        let scaled = alpha * (1.0 / sqrt(self.cwnd) - least);
        Duration(self.fixed_target.0.saturating_add(scaled.clamp(0.0, range) as u64))
    }

    fn may_decrease(&self, now: Time) -> bool {
        self.last_decrease.is_none_or(|last| now.since(last) >= self.rtt)
    }

    /// Sets the window within its bounds.
    fn set(&mut self, now: Time, cwnd: f64) {
        let before = self.cwnd;
        self.cwnd = cwnd.clamp(self.config.min_window, self.config.max_window.max(self.initial));
        if self.cwnd < before {
            self.last_decrease = Some(now);
        }
    }

    #[inline(never)]
    fn on_any_ack(&mut self, view: &SenderView, ack: &Ack) -> MarkResponse {
        self.timeouts = 0;
        let Some(rtt) = ack.rtt else { return MarkResponse::None };
        self.rtt = rtt;
        if !ack.may_move_window {
            return MarkResponse::None;
        }
        let target = self.target();
        if rtt < target {
            if view.window_used || !self.validate_window {
                let acked = ack.delivered.0 as f64 / self.mss;
                let gained = self.config.additive_increase * acked;
                self.set(view.now, self.cwnd + if self.cwnd >= 1.0 { gained / self.cwnd } else { gained });
            }
        } else if self.may_decrease(view.now) {
            let excess = (rtt.0 - target.0) as f64 / rtt.0.max(1) as f64;
            let left = (1.0 - self.config.beta * excess).max(1.0 - self.config.max_decrease);
            self.set(view.now, self.cwnd * left);
        }
        MarkResponse::None
    }

    fn bytes(&self, segments: f64) -> Bytes {
        // What was put back in whole bytes is told as that, whatever a division made of it.
        Bytes(((segments * self.mss + 1e-6) as u64).max(1))
    }

    fn decrease_most(&mut self, now: Time) {
        if self.may_decrease(now) {
            self.set(now, self.cwnd * (1.0 - self.config.max_decrease));
        }
    }
}

impl Sender for Swift {
    fn on_ack(&mut self, view: &SenderView, ack: &Ack) -> MarkResponse {
        self.on_any_ack(view, ack)
    }

    fn on_duplicate_ack(&mut self, view: &SenderView, ack: &Ack) -> MarkResponse {
        self.on_any_ack(view, ack)
    }

    fn on_loss(&mut self, view: &SenderView) {
        self.timeouts = 0;
        self.decrease_most(view.now);
    }

    fn on_partial_ack(&mut self, view: &SenderView, ack: &Ack) {
        let _ = self.on_any_ack(view, ack);
    }

    fn on_recovered(&mut self, view: &SenderView, ack: &Ack) {
        let _ = self.on_any_ack(view, ack);
    }

    fn on_timeout(&mut self, view: &SenderView, _again: bool) {
        self.timeouts += 1;
        if self.timeouts >= self.config.reset_after {
            self.set(view.now, self.config.min_window);
        } else {
            self.decrease_most(view.now);
        }
    }

    fn on_restart(&mut self, why: Restart) {
        match why {
            Restart::Idle => self.cwnd = self.cwnd.min(self.initial),
            Restart::Decay { rtos } => {
                let halved = self.cwnd / (1_u64 << rtos.min(63)) as f64;
                self.cwnd = halved.max(self.cwnd.min(self.initial));
            }
            Restart::Fresh => {
                self.cwnd = self.initial;
                self.last_decrease = None;
                self.rtt = Duration::ZERO;
                self.timeouts = 0;
            }
        }
    }

    fn send_window(&self, view: &SenderView) -> Bytes {
        self.bytes(self.cwnd).min(view.advertised)
    }

    /// There is no slow start: the threshold is where the window is.
    fn windows(&self) -> Windows {
        let cwnd = self.bytes(self.cwnd);
        Windows { cwnd, ssthresh: cwnd }
    }

    fn set_windows(&mut self, windows: Windows) {
        self.cwnd = windows.cwnd.0 as f64 / self.mss;
    }

    fn cut(&self, _view: &SenderView, windows: Windows, why: Congestion) -> Windows {
        match why {
            Congestion::Mark => windows,
            Congestion::Loss => {
                let cwnd = Bytes((windows.cwnd.0 as f64 * (1.0 - self.config.max_decrease)) as u64).max(Bytes(1));
                Windows { cwnd, ssthresh: cwnd }
            }
        }
    }

    fn conduct(&self) -> Conduct {
        let thousandths = |share: f64| libm::ceil(share * 1000.0) as u32;
        Conduct {
            family: Family::Own,
            floor: (self.config.min_window * 1000.0) as u32,
            after_loss: thousandths(1.0 - self.config.max_decrease),
            growth: Some(libm::ceil(self.config.additive_increase) as u64),
            ..Conduct::RENO
        }
    }

    fn column(&self) -> Option<f64> {
        Some(self.target().as_secs_f64())
    }

    fn wants_timing(&self) -> bool {
        true
    }
}

impl Part for Swift {
    type Config = Config;
    const SUMMARY: &'static str = "keeps the round trip at a target delay; windows below a segment are paced";
    const SOURCE: &'static str =
        "Kumar et al., \"Swift: Delay is Simple and Effective for Congestion Control in the Datacenter\", SIGCOMM 2020";
    const DEVIATIONS: &'static [&'static str] = &[
        "One window for the fabric: hosts take no time here, so that there is no endpoint delay and no second window for it.",
        "The paper names no values for the increase, beta, the largest cut and the range of flow scaling; the defaults are \
         those that other simulators use.",
        "The time of the last decrease moves only if the window has become smaller. Where it merely stayed, it would put the next \
         cut off again and again.",
        "An ACK that measures no round trip (of a segment sent twice, without timestamps) moves nothing.",
        "A window below a segment is spaced by the smoothed round-trip time, not by the newest sample.",
        "Acknowledged segments are those delivered, SACKed ones included. With window validation (Linux) a window that is not used does not grow.",
    ];

    fn column(_config: &Config) -> Option<PartColumn> {
        Some(PartColumn { name: "target_s", doc: "target delay of Swift, with flow scaling" })
    }

    fn check(config: &Config) -> Result<(), Conflict> {
        let Config { scaling_min_window, scaling_max_window, .. } = *config;
        if scaling_min_window < scaling_max_window {
            return Ok(());
        }
        let message = alloc::format!(
            "scaling_min_window ({scaling_min_window}) must be less than scaling_max_window ({scaling_max_window})"
        );
        Err(Conflict::at("scaling_min_window", message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::{PathFacts, WindowRules};
    use crate::units::{Offset, Rate};

    const MSS: u64 = 1000;

    fn context(hops: u32) -> SenderContext {
        SenderContext {
            mss: Bytes(MSS),
            initial_window: Bytes(10 * MSS),
            rules: WindowRules::default(),
            reference_rtt: None,
            path: Some(PathFacts { line_rate: Rate(100_000_000_000), base_rtt: Duration::from_us(8), hops }),
        }
    }

    fn view(us: u64) -> SenderView {
        SenderView {
            now: Time::from_us(us),
            una: Offset(0),
            nxt: Offset(10 * MSS),
            remaining: None,
            srtt: None,
            advertised: Bytes(u64::MAX),
            limited_transmit: Bytes::ZERO,
            window_used: true,
        }
    }

    fn swift(segments: f64, change: impl Fn(&mut Config)) -> Swift {
        let mut config = Config { scaling_range: Duration::ZERO, ..Config::default() };
        change(&mut config);
        let mut swift = Swift::new(&config, &context(2));
        swift.cwnd = segments;
        swift
    }

    fn ack(rtt_us: u64) -> Ack<'static> {
        let rtt = Some(Duration::from_us(rtt_us));
        let (acked, delivered) = (Bytes(MSS), Bytes(MSS));
        Ack { acked, delivered, rtt, ece: false, ein: false, telemetry: None, may_move_window: true }
    }

    /// Section 3.5: the whole range at the least window, nothing from the largest on, and in between it goes with
    /// `1 / sqrt(cwnd)`. At one segment, `(1 - 0.1) / (sqrt(10) - 0.1)` of 100 us are 29.39 us.
    #[test]
    fn the_target_grows_as_the_window_shrinks() {
        let us = |segments| {
            let mut swift = Swift::new(&Config { per_hop: Duration::from_us(2), ..Config::default() }, &context(4));
            swift.cwnd = segments;
            swift.target().0 as f64 / 1e6
        };
        for (segments, target) in [(0.01, 128.0), (0.1, 128.0), (1.0, 57.39), (100.0, 28.0), (1000.0, 28.0)] {
            assert!((us(segments) - target).abs() < 0.01, "{segments}: {}", us(segments));
        }
    }

    /// Algorithm 1: with ten segments an ACK adds a tenth, a round trip of them about one; below a segment each adds all.
    #[test]
    fn below_the_target_a_round_trip_adds_one_segment() {
        let mut swift = swift(10.0, |_| ());
        let _ = swift.on_ack(&view(0), &ack(19));
        assert!((swift.cwnd - 10.1).abs() < 1e-9);
        for _ in 0..9 {
            let _ = swift.on_ack(&view(0), &ack(19));
        }
        assert!((swift.cwnd - 10.96).abs() < 0.01, "{}", swift.cwnd);
        let mut small = self::swift(0.25, |config| config.additive_increase = 0.5);
        let _ = small.on_ack(&view(0), &ack(19));
        assert!((small.cwnd - 0.75).abs() < 1e-9);
    }

    /// 25 us over a target of 20: a fifth is too much, and 0.8 of that is cut. 200 us would be 0.72, more than a cut takes.
    #[test]
    fn above_the_target_the_cut_is_the_excess_up_to_a_half() {
        for (rtt, left) in [(20, 1.0), (25, 0.84), (40, 0.6), (200, 0.5)] {
            let mut swift = swift(10.0, |_| ());
            let _ = swift.on_ack(&view(0), &ack(rtt));
            assert!((swift.cwnd - 10.0 * left).abs() < 1e-9, "{rtt}: {}", swift.cwnd);
        }
    }

    #[test]
    fn one_cut_in_a_round_trip_whatever_asks_for_it() {
        let mut swift = swift(16.0, |_| ());
        let _ = swift.on_ack(&view(1_000), &ack(200));
        let _ = swift.on_ack(&view(1_199), &ack(200));
        swift.on_loss(&view(1_199));
        swift.on_timeout(&view(1_199), false);
        assert!((swift.cwnd - 8.0).abs() < 1e-9);
        let _ = swift.on_ack(&view(1_200), &ack(200));
        assert!((swift.cwnd - 4.0).abs() < 1e-9);
        swift.on_loss(&view(1_400));
        assert!((swift.cwnd - 2.0).abs() < 1e-9);
    }

    #[test]
    fn timeouts_in_a_row_leave_the_least_window() {
        let mut swift = swift(16.0, |config| config.reset_after = 3);
        for (us, left) in [(1, 8.0), (2, 4.0), (3, 0.01)] {
            swift.on_timeout(&view(us), us > 1);
            assert!((swift.cwnd - left).abs() < 1e-9, "{us}: {}", swift.cwnd);
        }
        assert_eq!(swift.send_window(&view(3)), Bytes(10));
    }

    #[test]
    fn an_ack_that_measures_nothing_moves_nothing() {
        let mut swift = swift(10.0, |_| ());
        let _ = swift.on_ack(&view(0), &Ack { rtt: None, ..ack(1) });
        assert!((swift.cwnd - 10.0).abs() < 1e-9);
    }
}
