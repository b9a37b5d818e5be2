//! The receivers in C against `crates/protocols`: the same events at a host, and after each the same windows to the byte.
//!
//! The simulator's side is asked for no ACK that is held, forced or unsolicited, which eBPF cannot give; its timers expire when
//! they are due, where the C side catches up with the next event. `native/receivers.c` is told what the simulator's side is.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::Write as _;

use incast_bpf::ReceiverParameters;
use incast_protocols::message::CoflowId;
use incast_protocols::receiver::ictcp::{Share, SlowStartGrowth};
use incast_protocols::receiver::rdtcp::{EcnForm, PriorityRule, Refill};
use incast_protocols::receiver::{
    AckCause, AnyReceiver, Arrival, FlowIndex, LastPort, NicContext, Receiver as _, ReceiverChoice, SentAck, credit,
    dcmrg, ictcp, rdtcp, static_window,
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

/// Both sides of a host: the simulator's receiver, and what the other is told.
struct Host {
    receiver: AnyReceiver,
    mss: u64,
    now: u64,
    flows: Vec<Flow>,
    script: String,
    windows: Vec<[u64; FLOWS]>,
}

impl Host {
    fn new(choice: &ReceiverChoice, context: &NicContext) -> Self {
        let parameters = ReceiverParameters::of(choice, context).expect("it runs in the kernel");
        let fields: Vec<String> = parameters.fields().iter().map(u64::to_string).collect();
        Self {
            receiver: choice.build(context),
            mss: context.mss.0,
            now: 1,
            flows: vec![Flow::default(); FLOWS],
            script: format!("new {} {}\n", context.rate.0, fields.join(" ")),
            windows: vec![[NO_WINDOW; FLOWS]],
        }
    }

    fn told_the_other(&mut self, event: std::fmt::Arguments) {
        while self.receiver.poll(Time(self.now)).is_some() {}
        writeln!(self.script, "{event}").expect("a string takes all");
        let mut windows = [NO_WINDOW; FLOWS];
        for (index, window) in windows.iter_mut().enumerate().filter(|(index, _)| self.flows[*index].open) {
            let announced = self.receiver.window(Time(self.now), FlowIndex(index as u32));
            *window = announced.map_or(NO_WINDOW, |bytes| bytes.0);
        }
        self.windows.push(windows);
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
            self.flows[index].ends.remove(0);
            self.receiver.on_complete(Time(self.now), FlowIndex(index as u32));
            match self.flows[index].behind.pop_front() {
                Some((size, bps, coflow)) => self.told_the_other(format_args!("next {index} {size} {bps} {coflow}")),
                None => self.told_the_other(format_args!("complete {index}")),
            }
        }
    }

    fn carry_out(&mut self, index: usize, event: &Event) {
        let (now, number) = (Time(self.now), FlowIndex(index as u32));
        let flow = &mut self.flows[index];
        match *event {
            Event::Pass(passed) => self.pass(passed),
            Event::Open if !flow.open => {
                *flow = Flow { open: true, ..Flow::default() };
                self.receiver.on_open(now, number);
                if answers_only(index) {
                    self.receiver.on_answers_only(number);
                }
                self.told_the_other(format_args!("open {index}"));
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
                    // The first segment of the response tells nothing new.
                    self.receiver.on_request(now, number, &message);
                    self.receiver.on_message(now, number, &message);
                    self.told_the_other(format_args!("request {index} {}", size.unwrap_or(0)));
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
            Event::Ack if flow.open => {
                let cause = if flow.acknowledged { AckCause::Data } else { AckCause::SynAck };
                flow.acknowledged = true;
                let mut window = self.receiver.window(now, number).map_or(1 << 22, |window| window.0);
                if matches!(self.receiver, AnyReceiver::Credit(_)) && index.is_multiple_of(3) {
                    // A socket whose buffer is small.
                    window = window.min(20_000);
                }
                flow.edge = flow.edge.max(flow.expected + window);
                let (ack, edge) = (flow.expected, flow.edge);
                self.receiver.on_ack_sent(now, number, &SentAck { ack: Offset(ack), edge: Offset(edge), cause });
                let is_first = u8::from(cause == AckCause::SynAck);
                self.told_the_other(format_args!("ack {index} {ack} {edge} {is_first}"));
            }
            _ => {}
        }
    }
}

/// Runs all sequences with receivers of one kind, each with another, and says how often a window moved.
fn compare(receivers: &[ReceiverChoice]) -> u64 {
    let replay = RefCell::new(Replay::start(env!("INCAST_RECEIVERS")));
    let moved = RefCell::new(0_u64);
    let rates = [100_000_000, 1_000_000_000, 10_000_000_000, 33_333_333].map(Rate);
    let strategy = (
        0..receivers.len(),
        prop_oneof![Just(1448_u64), Just(8948), Just(536)],
        prop::sample::select(rates.to_vec()),
        prop::collection::vec((0..FLOWS, event()), 1..200),
    );
    let config = ProptestConfig { failure_persistence: None, cases: SEQUENCES, ..ProptestConfig::default() };
    let outcome = proptest::test_runner::TestRunner::new(config).run(&strategy, |(index, mss, rate, events)| {
        let buffers = [None, Some(Amount::Packets(43)), Some(Amount::Bytes(Bytes(64 << 10)))];
        let port = buffers[events.len() % buffers.len()].map(|buffer| LastPort {
            buffer,
            base_rtt: Duration::from_us(100),
            rto_min: Duration::from_ms(200),
        });
        let context = NicContext { port, ..NicContext::new(rate, Bytes(mss), Bytes(66)) };
        let mut host = Host::new(&receivers[index], &context);
        // Most flows are there from the beginning.
        for flow in 0..FLOWS - 2 {
            host.carry_out(flow, &Event::Open);
        }
        for (flow, event) in &events {
            host.carry_out(*flow, event);
        }
        let theirs: Vec<[u64; FLOWS]> = replay.borrow_mut().answers(&host.script);
        let mut before = theirs[0];
        for (line, (event, (ours, mut theirs))) in host.script.lines().zip(host.windows.iter().zip(theirs)).enumerate()
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
                "after line {}, \"{}\", of:\n{}\n(windows of the flows: Rust, then C)",
                line + 1,
                event,
                host.script
            );
            *moved.borrow_mut() += ours.iter().zip(before).filter(|(now, before)| *now != before).count() as u64;
            before = *ours;
        }
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    moved.into_inner()
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
    let moved = compare(&receivers);
    assert!(moved > 5 * u64::from(SEQUENCES), "{moved} windows moved");
}

#[test]
fn dcmrg_has_the_same_windows() {
    let receivers =
        [100, 90, 33].map(|percent| ReceiverChoice::Dcmrg(dcmrg::Config { headroom_factor: Share::percent(percent) }));
    let moved = compare(&receivers);
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
    let moved = compare(&receivers);
    assert!(moved > 5 * u64::from(SEQUENCES), "{moved} windows moved");
}

#[test]
fn credit_that_closes_no_window_has_the_same_windows() {
    let mut receivers = vec![];
    for (budget, sizes) in [(None, true), (Some(12_000), true), (Some(200_000), false), (None, false)] {
        for (first_window, least_window) in [(10, 2), (1, 1), (40, 5)] {
            receivers.push(ReceiverChoice::Credit(credit::Config {
                budget: budget.map(Bytes),
                first_window,
                least_window,
                sizes,
                closes: false,
                ..credit::Config::default()
            }));
        }
    }
    let moved = compare(&receivers);
    assert!(moved > 5 * u64::from(SEQUENCES), "{moved} windows moved");
}

#[test]
fn a_static_window_is_the_same() {
    let receivers =
        [1, 3000, 65_535].map(|window| ReceiverChoice::StaticWindow(static_window::Config { window: Bytes(window) }));
    compare(&receivers);
}
