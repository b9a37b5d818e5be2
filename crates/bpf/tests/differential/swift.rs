//! Swift in C against `crates/protocols`: the same events, and after each the same window, to the byte, and the same target,
//! to the picosecond.

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;

use incast_bpf::SwiftParameters;
use incast_protocols::sender::swift::{Config, Swift};
use incast_protocols::sender::{Ack, Sender as _, SenderContext, SenderView, WindowRules, Windows};
use incast_protocols::{Bytes, Duration, Offset, Time};
use proptest::prelude::*;

use crate::SEQUENCES;
use crate::replay::Replay;

/// What happens to a connection.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// An ACK of this many segments, with a round trip in microseconds or none, while the window is used up or not.
    Ack {
        delivered: u64,
        rtt_us: Option<u64>,
        used: bool,
    },
    /// Duplicates find a loss.
    Loss,
    Timeout,
    /// What the last cut was made for had not been lost.
    Undo,
    /// Microseconds pass.
    Pass(u64),
}

fn event() -> impl Strategy<Value = Event> {
    // From round trips far below any target to those that end in the largest cut.
    let rtt_us = prop_oneof![4 => 1..200_u64, 4 => 100..2_000_u64, 1 => 1..400_000_u64];
    let ack = (0..40_u64, prop::option::weighted(0.95, rtt_us), prop::bool::weighted(0.9));
    prop_oneof![
        40 => ack.prop_map(|(delivered, rtt_us, used)| Event::Ack { delivered, rtt_us, used }),
        20 => (0..300_u64).prop_map(Event::Pass),
        2 => Just(Event::Loss),
        2 => Just(Event::Timeout),
        1 => Just(Event::Undo),
    ]
}

fn config() -> impl Strategy<Value = Config> {
    let times = (0..300_u64, 0..2_000_u64);
    let scaling = (0.001..2.0_f64, 2.1..1_000.0_f64);
    let shares = (prop_oneof![Just(1.0), 0.0..8.0_f64], 0.0..=1.0_f64, 0.0..=0.99_f64, 0.001..=1.0_f64);
    let most = prop_oneof![Just(1000.0), 1.0..300.0_f64];
    let ours =
        (times, scaling, shares, most, 1..6_u32).prop_map(|(times, scaling, shares, max_window, reset_after)| {
            let (additive_increase, beta, max_decrease, min_window) = shares;
            Config {
                base_target: Duration::from_us(times.0),
                per_hop: Duration::ZERO,
                scaling_range: Duration::from_us(times.1),
                scaling_min_window: scaling.0,
                scaling_max_window: scaling.1,
                additive_increase,
                beta,
                max_decrease,
                min_window,
                max_window,
                reset_after,
            }
        });
    prop_oneof![Just(Config::default()), ours]
}

struct Connection {
    sender: Swift,
    mss: u64,
    now: Time,
    window_used: bool,
    /// The windows before the last loss or the first timeout in a row, if that may be undone.
    before: Option<Windows>,
    timed_out: bool,
    /// The other side has been told of a round trip to pace by.
    has_srtt: bool,
}

impl Connection {
    fn view(&self) -> SenderView {
        SenderView {
            now: self.now,
            una: Offset(0),
            nxt: Offset(self.mss),
            remaining: None,
            srtt: Some(Duration::from_us(100)),
            advertised: Bytes(u64::MAX),
            limited_transmit: Bytes::ZERO,
            window_used: self.window_used,
        }
    }

    /// Carries an event out, and says what the other side is told.
    fn carry_out(&mut self, event: Event) -> Option<String> {
        match event {
            Event::Ack { delivered, rtt_us, used } => {
                self.window_used = used;
                self.timed_out = false;
                let (delivered_bytes, rtt) = (Bytes(delivered * self.mss), rtt_us.map(Duration::from_us));
                let ack = Ack {
                    acked: delivered_bytes,
                    delivered: delivered_bytes,
                    rtt,
                    ece: false,
                    ein: false,
                    telemetry: None,
                    may_move_window: true,
                };
                let _ = self.sender.on_ack(&self.view(), &ack);
                Some(format!("ack {delivered} {} {}", rtt_us.unwrap_or(0), u8::from(used)))
            }
            Event::Loss => {
                self.before = Some(self.sender.windows());
                self.timed_out = false;
                self.sender.on_loss(&self.view());
                Some("loss".into())
            }
            Event::Timeout => {
                if !self.timed_out {
                    self.before = Some(self.sender.windows());
                }
                self.sender.on_timeout(&self.view(), self.timed_out);
                self.timed_out = true;
                Some("timeout".into())
            }
            Event::Undo => {
                let before = self.before.take()?;
                self.sender.on_undo(before);
                Some("undo".into())
            }
            Event::Pass(us) => {
                self.now += Duration::from_us(us);
                self.has_srtt = true;
                Some(format!("time {} 800", self.now.0 / 1_000_000))
            }
        }
    }

    /// Window in bytes, target in picoseconds, window in segments, and what is sent in a second where that is less than one.
    fn state(&self) -> [u64; 4] {
        let bytes = self.sender.windows().cwnd.0;
        let pace = if bytes < self.mss && self.has_srtt { (bytes * 10_000).max(1) } else { 0 };
        [bytes, self.sender.target().0, (bytes / self.mss).max(1), pace]
    }
}

#[test]
fn swift_has_the_same_windows_and_targets() {
    let replay = RefCell::new(Replay::start(env!("INCAST_SWIFT")));
    let (moved, below) = (Cell::new(0_u64), Cell::new(0_u64));
    let events = prop::collection::vec(event(), 1..200);
    let initial = prop_oneof![1..=3_u64, 1..=60_u64];
    let strategy = (config(), prop_oneof![Just(1448_u64), Just(8948), Just(536)], initial, events);
    let settings = ProptestConfig { failure_persistence: None, cases: SEQUENCES, ..ProptestConfig::default() };
    let outcome = proptest::test_runner::TestRunner::new(settings).run(&strategy, |(config, mss, initial, events)| {
        let parameters = SwiftParameters::of(&config).expect("it is in range");
        let rules = WindowRules { validate_window: true, ..WindowRules::default() };
        let context = SenderContext {
            mss: Bytes(mss),
            initial_window: Bytes(mss * initial),
            rules,
            reference_rtt: None,
            path: None,
        };
        let mut connection = Connection {
            sender: Swift::new(&config, &context),
            mss,
            now: Time(0),
            window_used: true,
            before: None,
            timed_out: false,
            has_srtt: false,
        };
        let fields: Vec<String> = parameters.fields().iter().map(u64::to_string).collect();
        let mut script = format!("new {mss} {initial} {}\n", fields.join(" "));
        let mut ours = vec![connection.state()];
        for event in events {
            let Some(told) = connection.carry_out(event) else { continue };
            writeln!(script, "{told}").expect("a string takes all");
            ours.push(connection.state());
        }
        let theirs: Vec<[u64; 4]> = replay.borrow_mut().answers(&script);
        for (line, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            prop_assert_eq!(
                ours,
                theirs,
                "after line {} of:\n{}\n(bytes, target, segments, pace: Rust, then C)",
                line + 1,
                script
            );
        }
        moved.set(moved.get() + ours.windows(2).filter(|pair| pair[0][0] != pair[1][0]).count() as u64);
        below.set(below.get() + ours.iter().filter(|state| state[0] < mss).count() as u64);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    // Events that move nothing would compare nothing.
    let few = 5 * u64::from(SEQUENCES);
    assert!(moved.get() > 4 * few && below.get() > few, "{moved:?} windows moved, {below:?} were below a segment");
}
