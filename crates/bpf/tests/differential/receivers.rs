//! The receivers in C against `crates/protocols`: the same events at a host, and after each the same windows to the byte.
//!
//! The simulator's side is asked for no ACK that is held or forced, which eBPF cannot give, and for one that no data asks for only
//! where credit closes windows; its timers expire when they are due, where the C side catches up with the next event.
//! `native/receivers.c` is told what the simulator's side is.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::Write as _;

use incast_bpf::ReceiverParameters;
use incast_protocols::message::CoflowId;
use incast_protocols::receiver::ictcp::{Share, SlowStartGrowth};
use incast_protocols::receiver::rdtcp::{EcnForm, PriorityRule, Refill};
use incast_protocols::receiver::{
    AckCause, Action, AnyReceiver, Arrival, FlowIndex, LastPort, NicContext, Receiver as _, ReceiverChoice, SentAck,
    credit, dcmrg, ictcp, rdtcp, static_window,
};
use incast_protocols::switch::Marks;
use incast_protocols::{Amount, Bytes, Duration, Message, Offset, Rate, Time};
use proptest::prelude::*;

use crate::SEQUENCES;
use crate::replay::Replay;

const FLOWS: usize = 8;
/// What a closed flow's window is, and one that is left to the socket's buffer.
const NO_WINDOW: u64 = u64::MAX;

/// What happens at a host. What cannot happen to a flow is passed over.
#[derive(Clone, Debug)]
enum Event {
    Pass(u64),
    Open,
    Close,
    /// A message begins: its size, its rate in kbit/s, and its coflow.
    Message {
        size: Option<u64>,
        kbps: u64,
        coflow: u32,
    },
    /// This many segments arrive: the next ones, or those beyond a gap of this many.
    Data {
        segments: u64,
        skipped: u64,
        marked: bool,
    },
    /// What came before comes again.
    Again,
    Ack,
    /// An ACK of a socket whose window is no larger than this.
    SmallAck(u64),
    /// A segment comes although no message is under way.
    Unasked,
    /// A message of unknown size ends with what has arrived.
    End,
    /// The next flow in line has its turn, and its window is announced at once, or only later.
    Turn {
        at_once: bool,
    },
}

fn event() -> impl Strategy<Value = Event> {
    let pass = prop_oneof![
        6 => 1..150_000_000_u64,
        2 => 1..3_000_000_u64,
        1 => 1_000_000_000..3_000_000_000_u64,
    ];
    let rate = prop_oneof![2 => Just(0_u64), 4 => 1..300_000_u64, 1 => 1..2_000_000_u64];
    let size = prop_oneof![2 => 1..4_000_u64, 6 => 4_000..200_000_u64, 1 => Just(14_480_u64)];
    prop_oneof![
        20 => pass.prop_map(Event::Pass),
        4 => Just(Event::Open),
        1 => Just(Event::Close),
        8 => (prop::option::weighted(0.9, size), rate, 0..4_u32)
            .prop_map(|(size, kbps, coflow)| Event::Message { size, kbps, coflow }),
        30 => (1..8_u64, prop_oneof![12 => Just(0_u64), 1 => 1..5_u64], prop::bool::weighted(0.2))
            .prop_map(|(segments, skipped, marked)| Event::Data { segments, skipped, marked }),
        1 => Just(Event::Again),
        25 => Just(Event::Ack),
    ]
}

/// With what matters to credit alone.
fn event_of_credit() -> impl Strategy<Value = Event> {
    prop_oneof![
        60 => event(),
        4 => (0..20_000_u64).prop_map(Event::SmallAck),
        1 => Just(Event::Unasked),
        4 => Just(Event::End),
        20 => prop::bool::weighted(0.8).prop_map(|at_once| Event::Turn { at_once }),
    ]
}

/// On every second connection nothing comes that was not asked for.
const fn answers_only(index: usize) -> bool {
    index % 2 == 1
}

/// What has arrived of a flow.
#[derive(Clone, Debug, Default)]
struct Flow {
    open: bool,
    /// Arrived beyond the first gap, in order.
    beyond: Vec<(u64, u64)>,
    expected: u64,
    highest: u64,
    edge: u64,
    acknowledged: bool,
    /// Where messages end that have begun; none for one without an end.
    ends: Vec<Option<u64>>,
    /// Of those behind the first: what DCMRG's other side will be told.
    behind: VecDeque<(u64, u64, u32)>,
}

impl Flow {
    /// Takes a segment; how much of it is new, and how far what is expected moved.
    fn take(&mut self, start: u64, end: u64) -> (u64, u64) {
        let held = |flow: &Self| flow.beyond.iter().map(|(from, to)| to - from).sum::<u64>() + flow.expected;
        let (before, expected) = (held(self), self.expected);
        let (mut start, mut end) = (start.max(self.expected), end.max(self.expected));
        self.beyond.retain(|&(from, to)| {
            let apart = to < start || from > end;
            if !apart {
                (start, end) = (start.min(from), end.max(to));
            }
            apart
        });
        if start == self.expected {
            self.expected = end;
        } else if start < end {
            self.beyond.push((start, end));
        }
        self.highest = self.highest.max(end);
        (held(self) - before, self.expected - expected)
    }

    fn last_end(&self) -> u64 {
        self.ends.last().map_or(self.expected, |end| end.unwrap_or(u64::MAX))
    }
}

/// What both sides say after an event: the windows of all flows, whose turn it is as number plus one, and what credit has under
/// way, which shows the right edges.
type Answer = [u64; FLOWS + 2];
const TURN: usize = FLOWS;
const UNDER_WAY: usize = FLOWS + 1;

/// Both sides of a host: the simulator's receiver, and what the other is told.
struct Host {
    receiver: AnyReceiver,
    /// Windows are closed, and opened by ACKs that no data asks for.
    closes: bool,
    mss: u64,
    now: u64,
    flows: Vec<Flow>,
    script: String,
    answers: Vec<Answer>,
}

impl Host {
    fn new(choice: &ReceiverChoice, context: &NicContext) -> Self {
        let parameters = ReceiverParameters::of(choice, context).expect("it runs in the kernel");
        let fields: Vec<String> = parameters.fields().iter().map(u64::to_string).collect();
        let mut host = Self {
            receiver: choice.build(context),
            closes: parameters.closes > 0,
            mss: context.mss.0,
            now: 1,
            flows: vec![Flow::default(); FLOWS],
            script: format!("new {} {}\n", context.rate.0, fields.join(" ")),
            answers: vec![],
        };
        host.answer(0);
        host
    }

    fn told_the_other(&mut self, event: std::fmt::Arguments) {
        while !self.closes && self.receiver.poll(Time(self.now)).is_some() {}
        writeln!(self.script, "{event}").expect("a string takes all");
        self.answer(0);
    }

    fn answer(&mut self, turn: u64) {
        let mut answer = [NO_WINDOW; FLOWS + 2];
        for (index, window) in answer[..FLOWS].iter_mut().enumerate().filter(|(index, _)| self.flows[*index].open) {
            let announced = self.receiver.window(Time(self.now), FlowIndex(index as u32));
            *window = announced.map_or(NO_WINDOW, |bytes| bytes.0);
        }
        answer[TURN] = turn;
        answer[UNDER_WAY] = if let AnyReceiver::Credit(credit) = &self.receiver { credit.under_way().0 } else { 0 };
        self.answers.push(answer);
    }

    /// Whose turn it is.
    fn turn(&mut self) -> Option<usize> {
        let turn = self.receiver.poll(Time(self.now)).map(|action| match action {
            Action::UpdateWindow(flow) => flow.0,
            other => panic!("{other:?} is no turn"),
        });
        self.script.push_str("turn\n");
        self.answer(turn.map_or(0, |flow| u64::from(flow) + 1));
        turn.map(|flow| flow as usize)
    }

    fn pass(&mut self, passed: u64) {
        let until = self.now + passed;
        while let Some(at) = self.receiver.next_timer().filter(|at| at.0 <= until) {
            // RDTCP's timer forces retransmissions, which eBPF cannot.
            if matches!(self.receiver, AnyReceiver::Rdtcp(_)) {
                break;
            }
            self.receiver.on_timer(at);
        }
        self.now = until;
        self.told_the_other(format_args!("pass {passed}"));
    }

    fn data(&mut self, index: usize, start: u64, end: u64, ce: bool) {
        let flow = &mut self.flows[index];
        let (new, delivered) = flow.take(start, end);
        let beyond_gap: u64 = flow.beyond.iter().map(|(from, to)| to - from).sum();
        let (expected, highest) = (flow.expected, flow.highest);
        let arrival = Arrival {
            start: Offset(start),
            payload: Bytes(end - start),
            new: Bytes(new),
            expected: Offset(expected),
            delivered: Bytes(delivered),
            beyond_gap: Bytes(beyond_gap),
            highest: Offset(highest),
            marks: Marks { ce, ein: false },
        };
        self.receiver.on_data(Time(self.now), FlowIndex(index as u32), &arrival);
        let (payload, marked) = (end - start, u8::from(ce));
        self.told_the_other(format_args!(
            "data {index} {start} {payload} {new} {expected} {delivered} {beyond_gap} {marked}"
        ));
        while let Some(Some(end)) = self.flows[index].ends.first().copied()
            && end <= self.flows[index].expected
        {
            self.complete(index);
        }
    }

    fn complete(&mut self, index: usize) {
        self.flows[index].ends.remove(0);
        self.receiver.on_complete(Time(self.now), FlowIndex(index as u32));
        match self.flows[index].behind.pop_front() {
            Some((size, bps, coflow)) => self.told_the_other(format_args!("next {index} {size} {bps} {coflow}")),
            None => self.told_the_other(format_args!("complete {index}")),
        }
    }

    /// Announces the window of a flow whose socket has room for so much.
    fn ack(&mut self, index: usize, room: u64) {
        let (now, number) = (Time(self.now), FlowIndex(index as u32));
        let flow = &mut self.flows[index];
        let cause = if flow.acknowledged { AckCause::Data } else { AckCause::SynAck };
        flow.acknowledged = true;
        let window = self.receiver.window(now, number).map_or(1 << 22, |window| window.0).min(room);
        flow.edge = flow.edge.max(flow.expected + window);
        let (ack, edge) = (flow.expected, flow.edge);
        self.receiver.on_ack_sent(now, number, &SentAck { ack: Offset(ack), edge: Offset(edge), cause });
        let is_first = u8::from(cause == AckCause::SynAck);
        self.told_the_other(format_args!("ack {index} {ack} {edge} {is_first}"));
    }

    fn carry_out(&mut self, index: usize, event: &Event) {
        let (now, number) = (Time(self.now), FlowIndex(index as u32));
        let flow = &mut self.flows[index];
        match *event {
            Event::Pass(passed) => self.pass(passed),
            Event::Open if !flow.open => {
                *flow = Flow { open: true, ..Flow::default() };
                self.receiver.on_open(now, number);
                self.told_the_other(format_args!("open {index}"));
                if answers_only(index) {
                    self.receiver.on_answers_only(number);
                    self.told_the_other(format_args!("answers {index}"));
                }
            }
            Event::Close if flow.open => {
                flow.open = false;
                self.receiver.on_close(now, number);
                self.told_the_other(format_args!("close {index}"));
            }
            // Four may wait behind the one that arrives.
            Event::Message { size, kbps, coflow } if flow.open && flow.ends.len() < 5 && flow.last_end() < u64::MAX => {
                flow.ends.push(size.map(|size| flow.last_end() + size));
                let message = Message {
                    size: size.map(Bytes),
                    coflow: (coflow > 0).then_some(CoflowId(coflow)),
                    minimum_rate: (kbps > 0).then_some(Rate(kbps * 1000)),
                    ..Message::default()
                };
                let is_credit = matches!(self.receiver, AnyReceiver::Credit(_));
                if is_credit && answers_only(index) {
                    let size = size.unwrap_or(0);
                    self.receiver.on_request(now, number, &message);
                    self.told_the_other(format_args!("request {index} {size}"));
                    // The first segment of the response tells nothing new. Where no window is closed, the other is not told of it.
                    self.receiver.on_message(now, number, &message);
                    if self.closes {
                        self.told_the_other(format_args!("message {index} {size} 0 0"));
                    }
                    return;
                }
                self.receiver.on_message(now, number, &message);
                let (size, bps) = (size.unwrap_or(0), kbps * 1000);
                // Who calls it sees to that each flow has one message at a time there.
                if matches!(self.receiver, AnyReceiver::Dcmrg(_)) && self.flows[index].ends.len() > 1 {
                    self.flows[index].behind.push_back((size, bps, coflow));
                } else {
                    self.told_the_other(format_args!("message {index} {size} {bps} {coflow}"));
                }
            }
            Event::Data { segments, skipped, marked } if flow.open => {
                // No round trip takes no time.
                self.pass(1000);
                let flow = &self.flows[index];
                let end = flow.last_end();
                let mut start = flow.expected + skipped * self.mss;
                for _ in 0..segments {
                    if start < end {
                        let to = end.min(start + self.mss);
                        self.data(index, start, to, marked);
                        start = to;
                    }
                }
            }
            Event::Again if flow.open && flow.expected > 0 => {
                let start = flow.expected.saturating_sub(self.mss);
                let end = flow.expected;
                self.data(index, start, end, false);
            }
            Event::Ack if flow.open => self.ack(index, u64::MAX),
            Event::SmallAck(room) if flow.open => self.ack(index, room),
            Event::Unasked if flow.open && flow.ends.is_empty() && self.closes => {
                let start = flow.expected;
                // Who is not known to answer only says so before.
                if !answers_only(index) {
                    self.receiver.on_message(now, number, &Message::default());
                    self.told_the_other(format_args!("message {index} 0 0 0"));
                }
                self.data(index, start, start + self.mss, false);
            }
            Event::End if flow.open && flow.ends[..] == [None] => self.complete(index),
            Event::Turn { at_once } if self.closes => {
                if let Some(whose) = self.turn().filter(|_| at_once) {
                    self.ack(whose, u64::MAX);
                }
            }
            _ => {}
        }
    }
}

/// What was seen in all sequences.
#[derive(Default)]
struct Seen {
    /// How often a window moved, ...
    moved: u64,
    /// ... and how often a flow that waited had its turn.
    turns: u64,
}

/// Runs all sequences with receivers of one kind, each with another.
fn compare(receivers: &[ReceiverChoice], event: impl Strategy<Value = Event>) -> Seen {
    let replay = RefCell::new(Replay::start(env!("INCAST_RECEIVERS")));
    let seen = RefCell::new(Seen::default());
    let rates = [100_000_000, 1_000_000_000, 10_000_000_000, 33_333_333].map(Rate);
    let strategy = (
        0..receivers.len(),
        prop_oneof![Just(1448_u64), Just(8948), Just(536)],
        prop::sample::select(rates.to_vec()),
        prop::collection::vec((0..FLOWS, event), 1..200),
    );
    let config = ProptestConfig { failure_persistence: None, cases: SEQUENCES, ..ProptestConfig::default() };
    let outcome = proptest::test_runner::TestRunner::new(config).run(&strategy, |(index, mss, rate, events)| {
        let buffers = [None, Some(Amount::Packets(43)), Some(Amount::Bytes(Bytes(64 << 10)))];
        let port = buffers[events.len() % buffers.len()].map(|buffer| LastPort {
            buffer,
            base_rtt: Duration::from_us(100),
            rto_min: Duration::from_ms(200),
        });
        // Who knows no rate has no timer, as the C side.
        let closes = matches!(&receivers[index], ReceiverChoice::Credit(config) if config.closes);
        let rate = if closes { Rate(0) } else { rate };
        let context = NicContext { port, ..NicContext::new(rate, Bytes(mss), Bytes(66)) };
        let mut host = Host::new(&receivers[index], &context);
        // Most flows are there from the beginning.
        for flow in 0..FLOWS - 2 {
            host.carry_out(flow, &Event::Open);
        }
        for (flow, event) in &events {
            host.carry_out(*flow, event);
        }
        let theirs: Vec<Answer> = replay.borrow_mut().answers(&host.script);
        let mut before = theirs[0];
        for (line, (event, (ours, mut theirs))) in host.script.lines().zip(host.answers.iter().zip(theirs)).enumerate()
        {
            for (ours, theirs) in ours.iter().zip(&mut theirs) {
                // Nobody asks for the window of a flow that is closed.
                if *ours == NO_WINDOW && (line == 0 || !matches!(host.receiver, AnyReceiver::Ictcp(_))) {
                    *theirs = NO_WINDOW;
                }
            }
            prop_assert_eq!(
                ours,
                &theirs,
                "after line {}, \"{}\", of:\n{}\n(windows of the flows, turn, bytes under way: Rust, then C)",
                line + 1,
                event,
                host.script
            );
            let mut seen = seen.borrow_mut();
            let windows = ours[..FLOWS].iter().zip(&before[..FLOWS]);
            seen.moved += windows.filter(|(now, before)| now != before).count() as u64;
            seen.turns += u64::from(ours[TURN] > 0);
            before = *ours;
        }
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    seen.into_inner()
}

#[test]
fn ictcp_has_the_same_windows() {
    let mut receivers = vec![];
    for growth in [SlowStartGrowth::Double, SlowStartGrowth::Add] {
        for (beta, low_rounds, initial_window, window_floor) in [(75, 3, 2, 2), (20, 1, 10, 1), (90, 2, 1, 4)] {
            receivers.push(ReceiverChoice::Ictcp(ictcp::Config {
                growth,
                beta: Share::percent(beta),
                low_rounds,
                initial_window,
                window_floor,
                ..ictcp::Config::default()
            }));
        }
    }
    let moved = compare(&receivers, event()).moved;
    assert!(moved > 5 * u64::from(SEQUENCES), "{moved} windows moved");
}

#[test]
fn dcmrg_has_the_same_windows() {
    let receivers =
        [100, 90, 33].map(|percent| ReceiverChoice::Dcmrg(dcmrg::Config { headroom_factor: Share::percent(percent) }));
    let moved = compare(&receivers, event()).moved;
    assert!(moved > 5 * u64::from(SEQUENCES), "{moved} windows moved");
}

#[test]
fn rdtcp_has_the_same_windows() {
    let mut receivers = vec![];
    for (priority, refill, ecn) in [
        (PriorityRule::Size, Refill::Always, EcnForm::Regular),
        (PriorityRule::Size, Refill::Never, EcnForm::Authors),
        (PriorityRule::None, Refill::WithPriority, EcnForm::Regular),
        (PriorityRule::None, Refill::Always, EcnForm::Authors),
    ] {
        for (queue_maxsize, initial_window, shift) in [(40, 1, 4), (3, 2, 1), (1000, 10, 10)] {
            receivers.push(ReceiverChoice::Rdtcp(rdtcp::Config {
                priority,
                refill,
                ecn,
                queue_maxsize,
                initial_window,
                shift,
                ..rdtcp::Config::default()
            }));
        }
    }
    let moved = compare(&receivers, event()).moved;
    assert!(moved > 5 * u64::from(SEQUENCES), "{moved} windows moved");
}

fn credits(closes: bool) -> Vec<ReceiverChoice> {
    let mut receivers = vec![];
    for (budget, sizes) in [(None, true), (Some(12_000), true), (Some(200_000), false), (None, false)] {
        for (first_window, least_window) in [(10, 2), (1, 1), (40, 5)] {
            receivers.push(ReceiverChoice::Credit(credit::Config {
                budget: budget.map(Bytes),
                first_window,
                least_window,
                sizes,
                closes,
                ..credit::Config::default()
            }));
        }
    }
    receivers
}

#[test]
fn credit_that_closes_no_window_has_the_same_windows() {
    let seen = compare(&credits(false), event_of_credit());
    assert!(seen.moved > 5 * u64::from(SEQUENCES), "{} windows moved", seen.moved);
}

#[test]
fn credit_that_closes_windows_has_the_same_windows_and_turns() {
    let seen = compare(&credits(true), event_of_credit());
    assert!(seen.moved > 5 * u64::from(SEQUENCES), "{} windows moved", seen.moved);
    assert!(seen.turns > u64::from(SEQUENCES), "{} turns", seen.turns);
}

#[test]
fn a_static_window_is_the_same() {
    let receivers =
        [1, 3000, 65_535].map(|window| ReceiverChoice::StaticWindow(static_window::Config { window: Bytes(window) }));
    compare(&receivers, event());
}
