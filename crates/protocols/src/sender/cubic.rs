//! CUBIC (RFC 9438), as Linux has it: the default of Linux, Windows and macOS.
//!
//! After a loss the window is a cubic function of the time since then: fast while it is far from where it was, slow near
//! it, fast again beyond. Where Reno would be faster, it is as fast as Reno. Slow start ends where ACK trains become long
//! or delays grow (`HyStart`), before anything is lost.

use alloc::boxed::Box;

use libm::{cbrt, floor, trunc};

use super::reno::{Reno, Variant, Window};
use super::{Ack, Conduct, SenderContext, SenderView};
use crate::registry::Part;
use crate::units::{Bytes, Duration, Offset, Time};

/// CUBIC's parameters.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// C: how steep the cubic is, in segments per second cubed.
    #[schemars(range(min = 0.001, max = 1000.0))]
    pub scale: f64,
    /// What a loss leaves of the window.
    #[schemars(range(min = 0.5, max = 0.95))]
    pub beta: f64,
    /// Whether a flow that loses before it was back at its old window aims lower than that, to make room for others.
    pub fast_convergence: bool,
    /// Whether the window grows at least as fast as Reno's.
    pub reno_friendly: bool,
    /// Whether slow start ends early.
    pub hystart: HyStart,
    /// For how long the pace of growth stays as it was computed last, unless the window changes: in Linux a thirty-second of
    /// a second, which is many round trips of a data centre. "0s": it is computed with every ACK.
    pub hold: Duration,
    /// Within one tick of the clock the cubic is looked at once, and the pace only rises: 4 ms in a Linux with 250 ticks a
    /// second. "0s": it is looked at whenever the window has changed.
    pub tick: Duration,
}

/// What ends slow start before a loss does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HyStart {
    /// Nothing: slow start ends with a loss.
    Off,
    /// A train of ACKs longer than half the least round trip.
    Train,
    /// A round trip longer than the least one by an eighth, and by 4 ms at least.
    Delay,
    /// Whichever of `train` and `delay` comes first (Linux).
    Both,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            scale: 0.4,
            beta: 0.7,
            fast_convergence: true,
            reno_friendly: true,
            hystart: HyStart::Both,
            hold: Duration::from_us(31_250),
            tick: Duration::from_ms(4),
        }
    }
}

/// `HyStart` does not end slow start below this many segments (`hystart_low_window`).
const LEAST_TO_LEAVE: f64 = 16.0;
/// ACKs further apart than this belong to no train (`hystart_ack_delta_us`).
const TRAIN_GAP: Duration = Duration::from_us(2000);
/// Samples of a round trip of which the least counts (`HYSTART_MIN_SAMPLES`).
const ROUND_SAMPLES: u32 = 8;
/// Bounds of the delay that ends slow start (`HYSTART_DELAY_MIN`, `HYSTART_DELAY_MAX`).
const DELAY_BOUNDS: (Duration, Duration) = (Duration::from_us(4000), Duration::from_us(16_000));
/// For so long after a loss round trips are not looked at.
const CALM: Duration = Duration::from_ms(1000);
/// Segments acknowledged for each that the window grows by, at most, while no loss has told what the path bears.
const MOST_PER_SEGMENT_BEFORE_LOSS: f64 = 20.0;
/// The same, at least: half a window in each round trip.
const LEAST_PER_SEGMENT: f64 = 2.0;
/// The same far above what the cubic allows.
const HARDLY: f64 = 100.0;

/// CUBIC. Its growth is in a box, as any sender takes as much memory as the largest.
pub type Cubic = Reno<Box<CubicGrowth>>;

/// Where the cubic stands in time.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    begin: Time,
    /// Seconds until the window is back at `origin`.
    until_origin: f64,
    /// The window at the cubic's plateau.
    origin: f64,
    /// The window that Reno would have, in whole segments.
    reno: f64,
}

/// The pace of growth as it was computed last.
#[derive(Clone, Copy, Debug)]
struct Pace {
    at: Time,
    /// The window then.
    cwnd: f64,
    /// Segments acknowledged for each that the window grows by.
    per_segment: f64,
}

/// What `HyStart` has seen of a round trip.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    begin: Time,
    last_ack: Time,
    end: Offset,
    least: Option<Duration>,
    samples: u32,
}

/// The cubic, and what it is known from.
#[derive(Clone, Debug)]
pub struct CubicGrowth {
    config: Config,
    epoch: Option<Epoch>,
    pace: Option<Pace>,
    /// Segments acknowledged since Reno's window grew.
    acked: f64,
    /// The window at the last loss, in whole segments as Linux counts; 0 before one.
    largest: f64,
    least_rtt: Option<Duration>,
    round: Round,
    /// Slow start was ended early, which happens once between timeouts.
    left_slow_start: bool,
    last_sent: Time,
}

impl CubicGrowth {
    fn new(config: &Config) -> Self {
        let config = Config { scale: config.scale.max(0.001), beta: config.beta.clamp(0.5, 0.95), ..config.clone() };
        let round = Round::default();
        let (acked, largest, left_slow_start, last_sent) = (0.0, 0.0, false, Time(0));
        Self { config, epoch: None, pace: None, acked, largest, least_rtt: None, round, left_slow_start, last_sent }
    }

    /// Segments acknowledged for each that a window of `cwnd` segments grows by, `acked` of them now.
    fn per_segment(&mut self, now: Time, cwnd: f64, acked: f64) -> f64 {
        let Config { scale, beta, reno_friendly, hold, tick, .. } = self.config;
        self.acked += acked;
        let held = self.pace.filter(|pace| (pace.cwnd - cwnd).abs() < 0.5 && now.since(pace.at) <= hold);
        if let Some(pace) = held.filter(|_| hold > Duration::ZERO) {
            return pace.per_segment;
        }
        let this_tick = |at: Time| tick > Duration::ZERO && at.0 / tick.0 == now.0 / tick.0;
        let looked_at = self.pace.filter(|pace| self.epoch.is_some() && this_tick(pace.at));
        let largest = self.largest;
        if self.epoch.is_none() {
            self.acked = acked;
        }
        let epoch = self.epoch.get_or_insert_with(|| {
            let below = (largest - cwnd).max(0.0);
            Epoch { begin: now, until_origin: cbrt(below / scale), origin: cwnd.max(largest), reno: cwnd }
        });
        // The window is to be there in a round trip.
        let time = now.since(epoch.begin).0 + self.least_rtt.map_or(0, |rtt| rtt.0);
        let offset = time as f64 / 1e12 - epoch.until_origin;
        // The way to the plateau, or from there, in whole segments.
        let target = epoch.origin + trunc(scale * offset * offset * offset);
        let mut per = match looked_at {
            Some(pace) => pace.per_segment,
            // Whole segments again, unless it goes by the RFC.
            None if target > cwnd && tick > Duration::ZERO => floor(cwnd / (target - cwnd)),
            None if target > cwnd => cwnd / (target - cwnd),
            None => HARDLY * cwnd,
        };
        if largest == 0.0 {
            per = per.min(MOST_PER_SEGMENT_BEFORE_LOSS);
        }
        if reno_friendly {
            // RFC 9438 section 4.3: as much per round trip as lets it have Reno's mean window with its own cut.
            let each = floor(cwnd * floor(8.0 * (1.0 + beta) / (3.0 * (1.0 - beta))) / 8.0).max(1.0);
            let grown = floor((self.acked - 1.0) / each).max(0.0);
            self.acked -= grown * each;
            epoch.reno += grown;
            if epoch.reno >= cwnd + 1.0 {
                per = per.min(floor(cwnd / floor(epoch.reno - cwnd)));
            }
        }
        let per_segment = per.max(LEAST_PER_SEGMENT);
        let (at, cwnd) = looked_at.map_or((now, cwnd), |pace| (pace.at, pace.cwnd));
        self.pace = Some(Pace { at, cwnd, per_segment });
        per_segment
    }

    /// Whether slow start has gone far enough.
    fn is_enough(&mut self, view: &SenderView, cwnd: f64, mss: Bytes, rtt: Duration, least: Duration) -> bool {
        if self.config.hystart == HyStart::Off {
            return false;
        }
        if view.una > self.round.end {
            self.round = Round { begin: view.now, last_ack: view.now, end: view.nxt, least: None, samples: 0 };
        }
        if cwnd < LEAST_TO_LEAVE {
            return false;
        }
        let round = &mut self.round;
        let mut enough = false;
        if self.config.hystart != HyStart::Delay && view.now.since(round.last_ack) <= TRAIN_GAP {
            round.last_ack = view.now;
            // Bursts of segmentation offload make a train longer: four of 64 KiB at the pace of slow start, 1 ms at most.
            let pace = view.srtt.map_or(0.0, |srtt| 2.0 * cwnd * mss.0 as f64 / srtt.0.max(1) as f64);
            let burst = if pace > 0.0 { (4.0 * 65_536.0 / pace).min(1e9) } else { 0.0 };
            enough = view.now.since(round.begin).0 > u64::midpoint(least.0, burst as u64);
        }
        if self.config.hystart != HyStart::Train {
            round.least = Some(round.least.map_or(rtt, |least| least.min(rtt)));
            if round.samples < ROUND_SAMPLES {
                round.samples += 1;
            } else {
                let more = Duration(least.0 / 8).clamp(DELAY_BOUNDS.0, DELAY_BOUNDS.1);
                enough |= round.least.is_some_and(|in_round| in_round > least + more);
            }
        }
        enough
    }
}

impl Variant for CubicGrowth {
    fn ecn_capable(&self) -> bool {
        false
    }

    fn wants_timing(&self) -> bool {
        true
    }

    /// Time in which nothing is sent does not count.
    fn on_sent(&mut self, view: &SenderView, payload: Bytes) {
        let idle = view.nxt.since(view.una) == payload;
        if let Some(epoch) = self.epoch.as_mut().filter(|_| idle) {
            epoch.begin = Time(epoch.begin.0 + view.now.since(self.last_sent).0).min(view.now);
        }
        self.last_sent = view.now;
    }

    #[inline(never)]
    fn measure(&mut self, window: &mut Window, view: &SenderView, ack: &Ack) {
        let Some(rtt) = ack.rtt else { return };
        if self.epoch.is_some_and(|epoch| view.now.since(epoch.begin) < CALM) {
            return;
        }
        let least = self.least_rtt.map_or(rtt, |least| least.min(rtt));
        self.least_rtt = Some(least);
        let cwnd = window.cwnd.0 as f64 / window.mss.0 as f64;
        let may = ack.may_move_window && window.cwnd < window.ssthresh && !self.left_slow_start;
        if may && self.is_enough(view, cwnd, window.mss, rtt, least) {
            self.left_slow_start = true;
            window.ssthresh = window.cwnd;
        }
    }

    #[inline(never)]
    fn grow(&mut self, window: &mut Window, view: &SenderView, acked: Bytes) {
        let left = window.slow_start(acked);
        if left == Bytes::ZERO {
            return;
        }
        let mss = window.mss.0 as f64;
        let per = self.per_segment(view.now, window.cwnd.0 as f64 / mss, left.0 as f64 / mss);
        window.add_segment_per(left, Bytes((per * mss) as u64));
    }

    fn cut_by_mark(&self, cwnd: Bytes, view: &SenderView) -> Bytes {
        self.cut_by_loss(cwnd, view)
    }

    fn cut_by_loss(&self, basis: Bytes, _view: &SenderView) -> Bytes {
        // A whole number that the factor makes a little less than whole is that number.
        Bytes((basis.0 as f64 * self.config.beta + 1e-6) as u64)
    }

    fn on_congestion(&mut self, basis: Bytes, mss: Bytes) {
        let cwnd = basis.0 as f64 / mss.0 as f64;
        let yields = self.config.fast_convergence && cwnd < self.largest;
        self.largest = if yields { floor(cwnd * (1.0 + self.config.beta) / 2.0) } else { floor(cwnd) };
        self.epoch = None;
    }

    fn on_timeout(&mut self) {
        self.forget();
    }

    fn conduct(&self) -> Conduct {
        let leaves_slow_start = self.config.hystart != HyStart::Off;
        let after_loss = (self.config.beta * 1000.0 + 0.5) as u32;
        Conduct { after_loss, leaves_slow_start, ..Conduct::RENO }
    }

    fn forget(&mut self) {
        *self = Self { last_sent: self.last_sent, ..Self::new(&self.config) };
    }
}

impl Cubic {
    /// A CUBIC sender. Parameters out of range are brought into it.
    #[must_use]
    pub fn new(config: &Config, context: &SenderContext) -> Self {
        Self::with(Box::new(CubicGrowth::new(config)), context)
    }
}

impl Part for Cubic {
    type Config = Config;
    const SUMMARY: &'static str = "grows by a cubic of the time since the last loss; the default of Linux";
    const SOURCE: &'static str = "RFC 9438; Ha, Rhee and Xu, SIGOPS OSR 42(5), 2008; net/ipv4/tcp_cubic.c of Linux 6.x";
    const DEVIATIONS: &'static [&'static str] = &[
        "As in Linux, and unlike RFC 9438 section 4.8, a timeout forgets where the plateau was.",
        "As in Linux, the window that Reno would have grows by 3 (1 - beta) / (1 + beta) segments per round trip for good; \
         RFC 9438 section 4.3 lets it grow by one once it has passed the window before the last loss.",
        "A mark leaves as much as a loss; its packets are not ECN-capable, as Linux asks for ECN only if told to.",
        "Linux rounds times to ticks and to 1/1024 s; here they are exact, and ticks begin at the start of the run. Growth is \
         counted in whole segments, as there.",
    ];
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these sums and products are exact")]
mod tests {
    use super::*;
    use crate::sender::tests::Script;
    use crate::sender::{Sender, Windows};

    const MSS: u64 = 1000;

    /// By the RFC, which knows no ticks.
    fn growth() -> CubicGrowth {
        CubicGrowth::new(&Config { tick: Duration::ZERO, ..Config::default() })
    }

    fn connection(initial_segments: u64) -> Script<Cubic> {
        Script::new(MSS, initial_segments, |context| Cubic::new(&Config::default(), context))
    }

    /// The cubic after a loss at 100 segments: K = cbrt(30 / 0.4) = 4.217 s (RFC 9438 equations 1 and 2).
    fn after_loss() -> CubicGrowth {
        let mut cubic = growth();
        cubic.config.reno_friendly = false;
        cubic.on_congestion(Bytes(100 * MSS), Bytes(MSS));
        cubic.per_segment(Time(0), 70.0, 1.0);
        cubic
    }

    /// `bictcp_update`: for a thirty-second of a second the pace stays, unless the window changes. Reno's window of 10 segments
    /// is one larger once more than 18 are acknowledged (10 * 15 / 8).
    #[test]
    fn the_pace_is_computed_once_in_a_while() {
        let pace = |hold: Duration| {
            let mut cubic = CubicGrowth::new(&Config { hold, ..Config::default() });
            cubic.on_congestion(Bytes(10 * MSS), Bytes(MSS));
            let per = (0..80)
                .map(|ack| cubic.per_segment(Time::from_us(1000 * ack), 10.0, 1.0))
                .collect::<std::vec::Vec<_>>();
            per.iter().position(|&per| per == 10.0)
        };
        assert_eq!(pace(Duration::ZERO), Some(18));
        assert_eq!(pace(Config::default().hold), Some(32));
        let mut cubic = growth();
        cubic.on_congestion(Bytes(10 * MSS), Bytes(MSS));
        assert_eq!(cubic.per_segment(Time(0), 10.0, 19.0), 10.0, "Reno's window is one segment ahead");
        assert_eq!(cubic.per_segment(Time(1), 9.0, 19.0), 3.0, "another window, and Reno's is three ahead");
    }

    /// `bictcp_update` again: within a tick a window that has changed does not have the cubic looked at anew, so what Reno's window
    /// asked for stays; with the next tick hardly any growth is left.
    #[test]
    fn within_a_tick_the_pace_only_rises() {
        let pace = |tick: Duration, at: Time| {
            let mut cubic = CubicGrowth::new(&Config { tick, ..Config::default() });
            cubic.on_congestion(Bytes(10 * MSS), Bytes(MSS));
            assert_eq!(cubic.per_segment(Time(0), 10.0, 19.0), 10.0, "Reno's window is one segment ahead");
            cubic.per_segment(at, 11.0, 1.0)
        };
        let tick = Config::default().tick;
        assert_eq!(pace(tick, Time::from_us(3999)), 10.0);
        assert_eq!(pace(tick, Time::from_us(4000)), 1100.0);
        assert_eq!(pace(Duration::ZERO, Time::from_us(3999)), 1100.0);
    }

    /// Once between timeouts (`found` in `tcp_cubic.c`).
    #[test]
    fn slow_start_is_left_early_once() {
        let is_left = |before: bool| {
            let mut c = Script::new(MSS, 20, |context| Cubic::new(&Config::default(), context));
            c.sender.variant.left_slow_start = before;
            c.send_window_full();
            let left = (1..13).any(|ack| {
                c.ack_one_segment_at(Time::from_us(ack * 100), Duration::from_us(100));
                c.sender.windows().ssthresh != Windows::UNLIMITED
            });
            assert_eq!(c.sender.variant.left_slow_start, before || left);
            left
        };
        assert_eq!([is_left(false), is_left(true)], [true, false]);
        let mut cubic = CubicGrowth { left_slow_start: true, ..growth() };
        cubic.on_timeout();
        assert!(!cubic.left_slow_start);
    }

    #[test]
    fn the_window_is_a_cubic_of_the_time_since_the_loss() {
        let epoch = after_loss().epoch.unwrap();
        assert!((epoch.until_origin - 4.217_163).abs() < 1e-6, "{epoch:?}");
        // The target is cwnd + cwnd / per: 70 segments at once, 100 at K, 100 + 0.4 * 8 two seconds later, in whole segments.
        let target = |ms: u64, cwnd: f64| cwnd + cwnd / after_loss().per_segment(Time::from_us(1000 * ms), cwnd, 1.0);
        assert!((target(1000, 80.0) - (100.0 - (0.4 * 3.217_163_f64.powi(3)).floor())).abs() < 1e-6);
        assert!((target(4217, 90.0) - 100.0).abs() < 1e-6);
        assert!((target(6218, 90.0) - 103.0).abs() < 1e-6);
        assert_eq!(after_loss().per_segment(Time(0), 90.0, 1.0), 100.0 * 90.0, "far above: hardly any growth");
        assert_eq!(after_loss().per_segment(Time::from_us(60_000_000), 90.0, 1.0), 2.0, "half a window per round trip");
    }

    /// RFC 9438 section 4.6: beta 0.7; section 4.7: 100, then a loss at 80 aims at 80 * 1.7 / 2.
    #[test]
    fn a_loss_leaves_seven_tenths_and_a_second_one_before_the_plateau_aims_lower() {
        let mut c = connection(100);
        c.send_window_full();
        c.third_duplicate();
        assert_eq!(c.ssthresh_segments(), 70.0);
        let mut cubic = growth();
        for (lost_at, largest) in [(100, 100.0), (80, 68.0), (90, 90.0)] {
            cubic.on_congestion(Bytes(lost_at * MSS), Bytes(MSS));
            assert_eq!(cubic.largest, largest, "lost at {lost_at}");
        }
        cubic.config.fast_convergence = false;
        cubic.on_congestion(Bytes(80 * MSS), Bytes(MSS));
        assert_eq!(cubic.largest, 80.0);
    }

    /// `cubictcp_recalc_ssthresh` and `bictcp_update` count in whole segments: a second loss at 5 segments leaves 3 and aims at 4
    /// (4.25), which is the window to come at once, for 3 segments acknowledged. With 4.25 it would be 12.
    #[test]
    fn small_windows_aim_at_whole_segments() {
        let least_rtt = Some(Duration::from_us(100));
        let mut cubic = CubicGrowth { least_rtt, ..CubicGrowth::new(&Config::default()) };
        cubic.on_congestion(Bytes(8 * MSS), Bytes(MSS));
        cubic.on_congestion(Bytes(5 * MSS), Bytes(MSS));
        assert_eq!((cubic.largest, cubic.per_segment(Time::from_us(1000), 3.0, 1.0)), (4.0, 3.0));
        cubic.epoch = None;
        (cubic.largest, cubic.pace) = (7.0, None);
        assert_eq!(cubic.per_segment(Time::from_us(1000), 5.0, 1.0), 5.0);
        assert_eq!(cubic.per_segment(Time::from_us(1_000_000_000), 5.0, 1.0), 2.0, "5 / 2 is 2");
    }

    /// RFC 9438 section 4.3: at short round trips the cubic is slower than Reno. Each round trip adds 0.529 segments.
    #[test]
    fn at_a_short_round_trip_the_window_grows_as_renos_with_the_same_mean() {
        let mut cubic = growth();
        cubic.on_congestion(Bytes(20 * MSS), Bytes(MSS));
        let mut cwnd = 14.0;
        for ack in 0..1400_u64 {
            cwnd += 1.0 / cubic.per_segment(Time::from_us(7 * ack), cwnd, 1.0);
        }
        // 1400 segments in windows of about 35: integrate cwnd * d(cwnd) = 0.529 * d(acked).
        let wanted = (14.0_f64 * 14.0 + 2.0 * 9.0 / 17.0 * 1400.0).sqrt();
        assert!((cwnd - wanted).abs() < 1.0, "{cwnd} instead of {wanted}");
    }

    /// Before a loss nothing is known of the path: a segment for each 20 acknowledged at least.
    #[test]
    fn without_a_loss_it_grows_by_a_twentieth_per_round_trip() {
        assert_eq!(growth().per_segment(Time(0), 40.0, 1.0), 20.0);
    }

    #[test]
    fn a_timeout_forgets_the_plateau_and_idle_time_does_not_count() {
        let mut cubic = after_loss();
        let sent = |cubic: &mut CubicGrowth, at: u64| {
            let view = SenderView { now: Time::from_us(at), ..connection(1).view() };
            let alone = SenderView { nxt: Offset(view.una.0 + MSS), ..view };
            cubic.on_sent(&alone, Bytes(MSS));
        };
        sent(&mut cubic, 10);
        sent(&mut cubic, 1010);
        assert_eq!(cubic.epoch.unwrap().begin, Time::from_us(1010));
        cubic.on_timeout();
        assert_eq!((cubic.largest, cubic.epoch.is_none()), (0.0, true));
    }

    /// A round trip of 100 us, 20 segments in the window.
    fn slow_start(hystart: HyStart, acks: u64, apart_us: u64, rtt: impl Fn(u64) -> u64) -> Option<u64> {
        let config = Config { hystart, ..Config::default() };
        let mut c = Script::new(MSS, 20, |context| Cubic::new(&config, context));
        c.send_window_full();
        (0..acks).find(|&ack| {
            c.ack_one_segment_at(Time::from_us(100 + ack * apart_us), Duration::from_us(rtt(ack)));
            c.sender.windows().ssthresh != Windows::UNLIMITED
        })
    }

    /// `hystart_update`: ACKs 10 us apart for longer than half a round trip of 200 us, and ACKs that are no train.
    #[test]
    fn slow_start_ends_when_the_train_of_acks_is_long() {
        assert_eq!(slow_start(HyStart::Train, 20, 10, |_| 200), Some(11), "110 us after the first");
        assert_eq!(slow_start(HyStart::Train, 20, 3000, |_| 20_000), None);
        assert_eq!(slow_start(HyStart::Delay, 20, 10, |_| 200), None);
        assert_eq!(slow_start(HyStart::Off, 20, 10, |_| 200), None);
    }

    /// The least of more than eight samples of a round trip is 4 ms above the least of all.
    #[test]
    fn slow_start_ends_when_round_trips_grow() {
        for (longer, ends_at) in [(3999, None), (4001, Some(9))] {
            let config = Config { hystart: HyStart::Delay, ..Config::default() };
            let mut c = Script::new(MSS, 20, |context| Cubic::new(&config, context));
            let mut round = |us| {
                c.send_window_full();
                (1..=20).find(|_| {
                    c.ack_one_segment_at(Time(0), Duration::from_us(us));
                    c.sender.windows().ssthresh != Windows::UNLIMITED
                })
            };
            assert_eq!(round(1000), None);
            assert_eq!(round(1000 + longer), ends_at, "{longer} us more");
        }
    }
}
