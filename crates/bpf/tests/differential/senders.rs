//! The senders in C against `crates/protocols`: the same events, and after each the same windows to the segment.
//!
//! The simulator's side has Linux's rules and ACKs of whole segments. `native/replay.c` stands for the kernel's TCP: it says
//! what the C side is told, and in which order. Not among the events is what the two cores do differently whatever the
//! algorithm: a congestion mark on the duplicate that finds a loss (the kernel goes to recovery at once) or on the ACK that
//! ends one, idle time in the state CWR (after which the kernel goes back to the threshold) and while Pulser's window is
//! safe (`pulser.h`), and segments that are no multiple of four bytes.

use std::cell::RefCell;
use std::fmt::Write as _;

use incast_bpf::Parameters;
use incast_protocols::sender::minimum_rate::{CaLaw, DeadlinePassed, Theta};
use incast_protocols::sender::{
    Ack, AnySender, MarkResponse, Restart, Sender as _, SenderChoice, SenderContext, SenderView, WindowRules, Windows,
    d2tcp, dcmrg, dctcp, mrg, pulser,
};
use incast_protocols::{Bytes, Duration, Message, Offset, Time};
use proptest::prelude::*;

use crate::SEQUENCES;
use crate::replay::Replay;

const NO_SSTHRESH: u64 = 0x7fff_ffff;

/// What happens to a connection. What cannot happen in its state is passed over.
#[derive(Clone, Debug)]
enum Event {
    /// Segments to send, as far as the window allows.
    Send(u64),
    /// An ACK for this many 64ths of what is in flight, rounded up to segments.
    Ack { share: u64, ece: bool, ein: bool },
    /// Duplicate ACKs; the third finds a loss.
    Duplicates { count: u64, ece: bool, ein: bool },
    /// The retransmission timer expires.
    Timeout,
    /// What the last cut was made for had not been lost.
    Undo,
    /// Nothing to send for this many timeouts, if nothing is in flight.
    Idle(u32),
    /// A message begins: its size in bytes, and its deadline in microseconds from now.
    Message { size: Option<u64>, deadline: Option<u64> },
    /// Microseconds that pass, and the round-trip time from then on.
    Time { pass: u64, srtt: u64 },
    /// The application begins or ceases to use the window up.
    WindowUsed(bool),
}

fn event() -> impl Strategy<Value = Event> {
    let marked = |share| prop::bool::weighted(share);
    prop_oneof![
        30 => (1..40_u64).prop_map(Event::Send),
        45 => (1..=64_u64, marked(0.1), marked(0.15)).prop_map(|(share, ece, ein)| Event::Ack { share, ece, ein }),
        7 => (1..6_u64, marked(0.3), marked(0.15)).prop_map(|(count, ece, ein)| Event::Duplicates { count, ece, ein }),
        1 => Just(Event::Timeout),
        1 => Just(Event::Undo),
        1 => (1..40_u32).prop_map(Event::Idle),
        5 => (prop::option::weighted(0.8, 1..1_000_000_u64), prop::option::weighted(0.8, 1..20_000_u64))
            .prop_map(|(size, deadline)| Event::Message { size, deadline }),
        10 => (0..500_u64, 1..2_000_u64).prop_map(|(pass, srtt)| Event::Time { pass, srtt }),
        2 => prop::bool::weighted(0.8).prop_map(Event::WindowUsed),
    ]
}

/// What both sides say after an event: window, threshold, alpha, and the window that will come back. In segments.
type State = [u64; 4];

/// The simulator's side of a connection, which writes down what the other is told.
struct Connection {
    sender: AnySender,
    marks: bool,
    mss: u64,
    una: u64,
    nxt: u64,
    /// Segments beyond the gap that duplicates have told of.
    told: u64,
    duplicates: u64,
    in_recovery: bool,
    recover: Option<u64>,
    timed_out: Option<u64>,
    /// The windows before the last loss or timeout, if that may be undone.
    before: Option<Windows>,
    /// All of this was sent before the last answer to a mark.
    reduced_until: Option<u64>,
    now: Time,
    srtt: Option<Duration>,
    end: Option<u64>,
    window_used: bool,
    script: String,
    states: Vec<State>,
}

impl Connection {
    fn new(choice: &SenderChoice, context: &SenderContext) -> Self {
        let parameters = Parameters::of(choice).expect("it runs in the kernel");
        let sender = choice.build(context);
        let mss = context.mss.0;
        let fields: Vec<String> = parameters.fields().iter().map(u32::to_string).collect();
        let script = format!("new {mss} {} {}\n", context.initial_window.0 / mss, fields.join(" "));
        let mut connection = Self {
            marks: sender.ecn_capable(),
            sender,
            mss,
            una: 0,
            nxt: 0,
            told: 0,
            duplicates: 0,
            in_recovery: false,
            recover: None,
            timed_out: None,
            before: None,
            reduced_until: None,
            now: Time(0),
            srtt: None,
            end: None,
            window_used: true,
            script,
            states: vec![],
        };
        connection.states.push(connection.state());
        connection
    }

    fn state(&self) -> State {
        let Windows { cwnd, ssthresh } = self.sender.windows();
        let saved = match &self.sender {
            AnySender::Pulser(pulser) => pulser.saved().map_or(0, |saved| self.segments(saved.cwnd)),
            _ => 0,
        };
        let ssthresh = if ssthresh == Windows::UNLIMITED { NO_SSTHRESH } else { self.segments(ssthresh) };
        [self.segments(cwnd), ssthresh, self.sender.alpha().map_or(0, u64::from), saved]
    }

    fn segments(&self, amount: Bytes) -> u64 {
        assert_eq!(amount.0 % self.mss, 0, "{amount} is no whole number of segments");
        amount.0 / self.mss
    }

    fn view(&self) -> SenderView {
        SenderView {
            now: self.now,
            una: Offset(self.una),
            nxt: Offset(self.nxt),
            remaining: self.end.map(|end| Bytes(end.saturating_sub(self.una))),
            srtt: self.srtt,
            advertised: Bytes(u64::MAX),
            limited_transmit: Bytes::ZERO,
            window_used: self.window_used,
        }
    }

    fn told_the_other(&mut self, event: std::fmt::Arguments) {
        writeln!(self.script, "{event}").expect("a string takes all");
        self.states.push(self.state());
    }

    /// Segments in flight.
    fn flight(&self) -> u64 {
        (self.nxt - self.una) / self.mss
    }

    fn ack(&mut self, segments: u64, ece: bool, ein: bool) {
        let acked = segments * self.mss;
        self.una += acked;
        let delivered = segments.saturating_sub(self.told).max(1);
        self.told -= segments - delivered;
        self.duplicates = 0;
        let recovers = self.in_recovery && self.recover.is_some_and(|recover| self.una >= recover);
        let ece = ece && self.marks && !recovers;
        let ack = Self::an_ack(acked, delivered * self.mss, ece, ein);
        let view = self.view();
        if recovers {
            self.in_recovery = false;
            self.before = None;
            self.sender.on_recovered(&view, &ack);
        } else if self.in_recovery {
            self.sender.on_partial_ack(&view, &ack);
        } else {
            let response = self.sender.on_ack(&view, &ack);
            self.note(response);
        }
        self.told_the_other(format_args!("ack {segments} {delivered} {} {}", u8::from(ece), u8::from(ein)));
    }

    fn duplicate(&mut self, ece: bool, ein: bool) {
        self.duplicates += 1;
        self.told += 1;
        let finds_loss =
            self.duplicates == 3 && !self.in_recovery && self.recover.is_none_or(|recover| self.una > recover);
        let ece = ece && self.marks && !finds_loss;
        let ack = Self::an_ack(0, self.mss, ece, ein);
        let response = self.sender.on_duplicate_ack(&self.view(), &ack);
        self.note(response);
        self.told_the_other(format_args!("ack 0 1 {} {}", u8::from(ece), u8::from(ein)));
        if finds_loss {
            // The kernel undoes no cut that began with a mark.
            self.before = (!self.is_reduced()).then(|| self.sender.windows());
            self.reduced_until = None;
            self.in_recovery = true;
            self.recover = Some(self.nxt);
            self.sender.on_loss(&self.view());
            self.told_the_other(format_args!("loss"));
        }
    }

    fn note(&mut self, response: MarkResponse) {
        if response == MarkResponse::Reduced {
            self.reduced_until = Some(self.nxt);
            self.before = None;
        }
    }

    /// No data has been acknowledged yet that was sent after the last answer to a mark: the kernel's state CWR.
    fn is_reduced(&self) -> bool {
        self.reduced_until.is_some_and(|end| self.una <= end)
    }

    const fn an_ack(acked: u64, delivered: u64, ece: bool, ein: bool) -> Ack<'static> {
        let (acked, delivered) = (Bytes(acked), Bytes(delivered));
        Ack { acked, delivered, rtt: None, ece, ein, telemetry: None, may_move_window: true }
    }

    fn timeout(&mut self) {
        let again = self.timed_out == Some(self.una);
        let reduced = self.in_recovery || self.is_reduced();
        self.before = (!again && !reduced).then(|| self.sender.windows());
        self.reduced_until = None;
        self.timed_out = Some(self.una);
        self.recover = Some(self.nxt);
        self.in_recovery = false;
        self.duplicates = 0;
        self.sender.on_timeout(&self.view(), again);
        self.told_the_other(format_args!("timeout"));
    }

    fn undo(&mut self, before: Windows) {
        self.in_recovery = false;
        self.recover = Some(self.una);
        self.timed_out = None;
        self.reduced_until = None;
        self.sender.on_undo(before);
        self.told_the_other(format_args!("undo"));
    }

    fn message(&mut self, size: Option<u64>, within_us: Option<u64>) {
        let deadline = within_us.map(|us| self.now + Duration::from_us(us));
        let message = Message { size: size.map(Bytes), deadline, ..Message::default() }.handed_over(self.now);
        self.end = size.map(|size| self.nxt + size);
        self.sender.on_message(&self.view(), &message);
        self.told_the_other(format_args!("message {} {}", size.unwrap_or(0), within_us.unwrap_or(0)));
    }

    fn carry_out(&mut self, event: &Event) {
        match *event {
            Event::Send(most) => {
                let room = self.segments(self.sender.send_window(&self.view())).saturating_sub(self.flight());
                let sent = most.min(room);
                self.nxt += sent * self.mss;
                self.told_the_other(format_args!("sent {sent}"));
            }
            Event::Ack { share, ece, ein } => {
                let segments = (self.flight() * share).div_ceil(64);
                if segments > 0 {
                    self.ack(segments, ece, ein);
                }
            }
            Event::Duplicates { count, ece, ein } => {
                for _ in 0..count {
                    if self.flight() > self.told + 1 {
                        self.duplicate(ece, ein);
                    }
                }
            }
            Event::Timeout if self.flight() > 0 => self.timeout(),
            Event::Undo => {
                if let Some(before) = self.before.take() {
                    self.undo(before);
                }
            }
            Event::Idle(rtos) if self.flight() == 0 && self.state()[3] == 0 && !self.is_reduced() => {
                self.sender.on_restart(Restart::Decay { rtos });
                self.told_the_other(format_args!("idle {rtos}"));
            }
            Event::Message { size, deadline } => self.message(size, deadline),
            Event::Time { pass, srtt } => {
                self.now += Duration::from_us(pass);
                self.srtt = Some(Duration::from_us(srtt));
                self.told_the_other(format_args!("time {} {}", self.now.0 / 1_000_000, 8 * srtt));
            }
            Event::WindowUsed(used) => {
                self.window_used = used;
                self.told_the_other(format_args!("used {}", u8::from(used)));
            }
            Event::Timeout | Event::Idle(_) => {}
        }
    }
}

fn linux() -> WindowRules {
    let profile =
        incast_scenario::profiles().iter().find(|profile| profile.name == "linux").expect("it is the default");
    WindowRules { inflate_in_recovery: false, ..profile.tcp().rules }
}

/// Runs all sequences with the senders of one algorithm, each with another.
fn compare(senders: &[SenderChoice]) {
    let replay = RefCell::new(Replay::start(env!("INCAST_REPLAY")));
    let moved = RefCell::new([0_u64; 4]);
    let rules = linux();
    let strategy = (
        0..senders.len(),
        prop_oneof![Just(1448_u64), Just(8948), Just(536)],
        1..=60_u64,
        prop::collection::vec(event(), 1..200),
    );
    let config = ProptestConfig { failure_persistence: None, cases: SEQUENCES, ..ProptestConfig::default() };
    let outcome = proptest::test_runner::TestRunner::new(config).run(&strategy, |(index, mss, initial, events)| {
        let initial_window = Bytes(mss * initial);
        let context = SenderContext { mss: Bytes(mss), initial_window, rules, reference_rtt: None, path: None };
        let mut connection = Connection::new(&senders[index], &context);
        for event in &events {
            connection.carry_out(event);
        }
        let theirs: Vec<State> = replay.borrow_mut().answers(&connection.script);
        let mut before = theirs[0];
        for (line, (event, (ours, theirs))) in
            connection.script.lines().zip(connection.states.iter().zip(&theirs)).enumerate()
        {
            prop_assert_eq!(
                ours,
                theirs,
                "after line {}, \"{}\", of:\n{}\n(window, threshold, alpha, what comes back: Rust, then C)",
                line + 1,
                event,
                connection.script
            );
            for (moved, (now, before)) in moved.borrow_mut().iter_mut().zip(ours.iter().zip(before)) {
                *moved += u64::from(*now != before);
            }
            before = *ours;
        }
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    // Events that move nothing would compare nothing.
    let [cwnd, ssthresh, alpha, saved] = moved.into_inner();
    let events = u64::from(SEQUENCES);
    assert!(cwnd > 10 * events && ssthresh > events, "{cwnd} windows and {ssthresh} thresholds moved");
    let sender = senders[0].build(&SenderContext {
        mss: Bytes(1),
        initial_window: Bytes(1),
        rules,
        reference_rtt: None,
        path: None,
    });
    assert!(sender.alpha().is_none() || alpha > 10 * events, "alpha moved {alpha} times");
    assert!(!sender.conduct().brakes || saved > events, "it braked {saved} times");
}

/// The shares of marked segments that are compared.
fn shares() -> [dctcp::Config; 3] {
    let new = |initial_alpha, shift| dctcp::Config { initial_alpha, shift };
    [dctcp::Config::default(), new(0, 1), new(300, 10)]
}

#[test]
fn dctcp_has_the_same_windows() {
    compare(&shares().map(SenderChoice::Dctcp));
}

#[test]
fn d2tcp_has_the_same_windows() {
    compare(&shares().map(|share: d2tcp::Config| SenderChoice::D2tcp(share)));
}

#[test]
fn mrg_has_the_same_windows() {
    let mut senders = vec![];
    for ca_law in [CaLaw::Printed14, CaLaw::Printed11, CaLaw::Derived] {
        for theta in [Theta::Fixed, Theta::Remaining] {
            for deadline_passed in [DeadlinePassed::Reset, DeadlinePassed::Keep] {
                senders.push(SenderChoice::Mrg(mrg::Config { ca_law, theta, deadline_passed, ..Default::default() }));
            }
        }
    }
    compare(&senders);
}

#[test]
fn dcmrg_has_the_same_windows() {
    let mut senders = vec![];
    for ca_law in [CaLaw::Printed14, CaLaw::Printed11, CaLaw::Derived] {
        for (theta, deadline_passed) in
            [(Theta::Fixed, DeadlinePassed::Keep), (Theta::Remaining, DeadlinePassed::Reset)]
        {
            for dctcp::Config { initial_alpha, shift } in shares() {
                let config =
                    dcmrg::Config { ca_law, theta, deadline_passed, initial_alpha, shift, ..dcmrg::Config::default() };
                senders.push(SenderChoice::Dcmrg(config));
            }
        }
    }
    compare(&senders);
}

#[test]
fn pulser_has_the_same_windows() {
    let is = |reading: u32, bit: u32| reading >> bit & 1 == 1;
    let senders: Vec<_> = (0..16_u32)
        .flat_map(|reading| {
            [1, 4, 9].map(|safe_window| {
                SenderChoice::Pulser(pulser::Config {
                    safe_window,
                    set_safe: if is(reading, 0) { pulser::SetSafe::Assign } else { pulser::SetSafe::Min },
                    batch: if is(reading, 1) { pulser::Batch::Window } else { pulser::Batch::Ack },
                    save_again: is(reading, 2),
                    ssthresh: if is(reading, 3) { pulser::Ssthresh::Restore } else { pulser::Ssthresh::StaySafe },
                    ..pulser::Config::default()
                })
            })
        })
        .collect();
    compare(&senders);
}
