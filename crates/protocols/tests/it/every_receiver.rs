//! Every registered receiver controller, driven by senders that obey nothing but what is announced to them, keeps
//! what holds for all. A new one is tested from the moment it has its line in the registry.

use crate::nic::Nic;
use incast_protocols::receiver::{AckCause, FlowIndex, NicContext, REFERENCE_RTT, Receiver, ReceiverChoice, ictcp};
use incast_protocols::switch::Marks;
use incast_protocols::{Bytes, CoflowId, Duration, Message, Rate, Time};
use proptest::prelude::*;

const MSS: u64 = 1446;
const CONTEXT: NicContext =
    NicContext { rate: Rate(1_000_000_000), mss: Bytes(MSS), header: Bytes(54), window_unit: Bytes(1), port: None };

/// What happens at a NIC.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A flow of this many segments opens, in a coflow that needs this many Mbit/s.
    Open(u64, Option<u32>, u64),
    /// The next segment of the i-th open flow arrives, if it may be sent.
    Data(prop::sample::Index, Marks),
    /// The one that would be next is lost, for now.
    Lose(prop::sample::Index),
    /// What the i-th flow misses first is sent again; or if it misses nothing, its last segment.
    Again(prop::sample::Index),
    /// The i-th flow goes, whatever is missing.
    Close(prop::sample::Index),
    /// So many microseconds pass.
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let index = any::<prop::sample::Index>;
    let marks = (prop::bool::weighted(0.2), prop::bool::weighted(0.1)).prop_map(|(ce, ein)| Marks { ce, ein });
    let step = prop_oneof![
        2 => (1..60_u64, prop::option::of(0..3_u32), prop_oneof![Just(0), 1..600_u64])
            .prop_map(|(segments, coflow, rate)| Step::Open(segments, coflow, rate)),
        20 => (index(), marks).prop_map(|(flow, marks)| Step::Data(flow, marks)),
        2 => index().prop_map(Step::Lose),
        2 => index().prop_map(Step::Again),
        1 => index().prop_map(Step::Close),
        8 => prop_oneof![10 => 0..200_u64, 1 => 1_000..20_000_u64].prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..300)
}

/// A flow and its sender.
#[derive(Clone, Copy, Debug)]
struct Flow {
    index: FlowIndex,
    segments: u64,
    /// Segments sent or lost.
    sent: u64,
    complete: bool,
}

/// A NIC under a controller, and who sends to it.
struct World<R> {
    nic: Nic<R>,
    now: Time,
    flows: Vec<Flow>,
    free: Vec<FlowIndex>,
    /// What senders take for a window at least, however little is announced.
    least: u64,
}

impl<R: Receiver> World<R> {
    fn new(controller: R) -> Self {
        let nic = Nic { controller, ends: Vec::new(), told: String::new() };
        Self { nic, now: Time(0), flows: Vec::new(), free: Vec::new(), least: 0 }
    }

    fn open(&mut self, segments: u64, coflow: Option<u32>, megabits: u64) {
        let index = self.free.pop().unwrap_or(FlowIndex(self.nic.ends.len() as u32));
        *self.nic.end(index) = crate::nic::End::default();
        self.nic.controller.on_open(self.now, index);
        let message = Message {
            size: Some(Bytes(segments * MSS)),
            coflow: coflow.map(CoflowId),
            minimum_rate: Some(Rate(megabits * 1_000_000)),
            ..Message::default()
        };
        self.nic.controller.on_message(self.now, index, &message);
        self.nic.request_ack(self.now, index, AckCause::SynAck);
        self.flows.push(Flow { index, segments, sent: 0, complete: false });
    }

    fn arrive(&mut self, at: usize, segment: u64, marks: Marks) {
        let flow = &mut self.flows[at];
        let arrival = self.nic.end(flow.index).take_in(segment * MSS, MSS, marks);
        self.nic.controller.on_data(self.now, flow.index, &arrival);
        if arrival.expected.0 == flow.segments * MSS && !flow.complete {
            flow.complete = true;
            self.nic.controller.on_complete(self.now, flow.index);
        }
        self.nic.request_ack(self.now, flow.index, AckCause::Data);
    }

    /// The next segment that the announced edge allows.
    fn next(&mut self, at: usize) -> Option<u64> {
        let Flow { index, segments, sent, .. } = self.flows[at];
        let end = self.nic.end(index);
        let allowed = (end.edge.max(end.next + self.least) / MSS).min(segments);
        (sent < allowed).then(|| {
            self.flows[at].sent += 1;
            sent
        })
    }

    /// The first segment that was sent and is missing.
    fn missing(&mut self, at: usize) -> Option<u64> {
        let flow = self.flows[at];
        let expected = self.nic.end(flow.index).next / MSS;
        (expected < flow.sent).then_some(expected)
    }

    fn close(&mut self, at: usize) {
        let flow = self.flows.swap_remove(at);
        self.nic.controller.on_close(self.now, flow.index);
        *self.nic.end(flow.index) = crate::nic::End::default();
        self.free.push(flow.index);
    }

    fn pass(&mut self, step: Duration) {
        self.now += step;
        self.nic.advance(self.now);
    }

    fn step(&mut self, step: Step) {
        let count = self.flows.len();
        match step {
            Step::Open(segments, coflow, megabits) => self.open(segments, coflow, megabits),
            Step::Wait(us) => self.pass(Duration::from_us(us)),
            _ if count == 0 => {}
            Step::Data(which, marks) => {
                if let Some(segment) = self.next(which.index(count)) {
                    self.arrive(which.index(count), segment, marks);
                }
            }
            Step::Lose(which) => {
                self.next(which.index(count));
            }
            Step::Again(which) => {
                let at = which.index(count);
                let last = self.flows[at].sent.checked_sub(1);
                if let Some(segment) = self.missing(at).or(last) {
                    self.arrive(at, segment, Marks::NONE);
                }
            }
            Step::Close(which) => self.close(which.index(count)),
        }
        self.nic.act(self.now);
    }

    /// Lets everything that is open come to its end; tells which flow does not.
    fn finish(&mut self) -> Result<(), String> {
        for _ in 0..20_000 {
            let Some(at) = self.flows.iter().position(|flow| !flow.complete) else { return Ok(()) };
            let mut moved = false;
            for at in at..self.flows.len() {
                if let Some(segment) = self.missing(at).or_else(|| self.next(at)) {
                    self.arrive(at, segment, Marks::NONE);
                    self.nic.act(self.now);
                    moved = true;
                }
            }
            self.pass(Duration::from_us(if moved { 12 } else { 1000 }));
        }
        Err(format!("{:?}\n{}", self.flows, self.nic.told))
    }
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, cases: 500, ..ProptestConfig::default() }
}

/// As registered, and with parameters at their ends.
fn receivers() -> Vec<ReceiverChoice> {
    let mut receivers = ReceiverChoice::defaults();
    let small = ictcp::Config {
        growth: ictcp::SlowStartGrowth::Add,
        window_floor: 0,
        initial_window: 0,
        low_rounds: 0,
        slot_floor: Duration::ZERO,
        alpha: ictcp::Share::percent(100),
        gamma1: ictcp::Share::percent(0),
        ..Default::default()
    };
    receivers.push(ReceiverChoice::Ictcp(small));
    receivers
}

proptest! {
    #![proptest_config(config())]

    /// Whatever a controller holds back and announces, every flow gets through, no window stops its sender, and
    /// timers and actions come to an end (the NIC sees to that).
    #[test]
    fn every_flow_gets_through(steps in steps()) {
        for choice in receivers() {
            let name = choice.info().name;
            let mut world = World::new(choice.build(&CONTEXT));
            // Windows that senders scale are rounded up by them.
            let is_scaled = name == "dcmrg";
            // Credit closes windows.
            let closes = name == "credit";
            world.least = if is_scaled { MSS } else { 0 };
            let least = if closes { 0 } else if is_scaled { 1 } else { MSS };
            for &step in &steps {
                world.step(step);
                for flow in world.flows.clone() {
                    let window = world.nic.controller.window(world.now, flow.index);
                    prop_assert!(window.is_none_or(|window| window.0 >= least), "\"{}\": {:?}", name, window);
                }
            }
            let stuck = world.finish();
            prop_assert!(stuck.is_ok(), "\"{}\": {:?}", name, stuck);
        }
    }

    /// ICTCP's windows are whole segments from two on, and are no more than what the line can carry in the
    /// longest round trip under control, doubled once.
    #[test]
    fn ictcp_keeps_to_whole_segments_between_its_bounds(steps in steps()) {
        let most = 2 * CONTEXT.rate.bytes_in(Duration::from_ms(2)).0 + 2 * MSS;
        let mut world = World::new(ReceiverChoice::Ictcp(Default::default()).build(&CONTEXT));
        for &step in &steps {
            world.step(step);
            for flow in world.flows.clone() {
                if let Some(window) = world.nic.controller.window(world.now, flow.index) {
                    prop_assert!(window.0 % MSS == 0 && (2 * MSS..=most).contains(&window.0), "{}", window);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(config())]

    /// DCMRG's windows lie between a sixteenth of a segment and what the line can carry in the reference round trip, and
    /// together they are no more than that but for the sixteenth that each has at least.
    #[test]
    fn dcmrg_hands_out_the_line_and_no_more(steps in steps()) {
        let most = CONTEXT.rate.bytes_in(REFERENCE_RTT).0 * MSS / (MSS + CONTEXT.header.0);
        let least = MSS.div_ceil(16);
        let mut world = World::new(ReceiverChoice::Dcmrg(Default::default()).build(&CONTEXT));
        world.least = MSS;
        for &step in &steps {
            world.step(step);
            let windows: Vec<u64> = world
                .flows
                .clone()
                .iter()
                .map(|flow| world.nic.controller.window(world.now, flow.index).unwrap().0)
                .collect();
            prop_assert!(windows.iter().all(|window| (least..=most.max(least)).contains(window)), "{:?}", windows);
            let above: u64 = windows.iter().filter(|window| **window > least).sum();
            prop_assert!(above <= most, "{:?}", windows);
        }
    }
}

/// The harness itself: a controller that grants nothing leaves its flow where it is.
#[test]
fn a_flow_without_a_window_is_found() {
    #[derive(Clone, Debug)]
    struct Nothing;
    impl Receiver for Nothing {
        fn on_open(&mut self, _now: Time, _flow: FlowIndex) {}
        fn on_message(&mut self, _now: Time, _flow: FlowIndex, _message: &Message) {}
        fn on_data(&mut self, _now: Time, _flow: FlowIndex, _arrival: &incast_protocols::receiver::Arrival) {}
        fn on_complete(&mut self, _now: Time, _flow: FlowIndex) {}
        fn on_close(&mut self, _now: Time, _flow: FlowIndex) {}
        fn gate(&mut self, _now: Time, _flow: FlowIndex, _cause: AckCause) -> incast_protocols::receiver::Gate {
            incast_protocols::receiver::Gate::Open
        }
        fn window(&mut self, _now: Time, _flow: FlowIndex) -> Option<Bytes> {
            Some(Bytes(MSS - 1))
        }
        fn on_ack_sent(&mut self, _now: Time, _flow: FlowIndex, _sent: &incast_protocols::receiver::SentAck) {}
        fn poll(&mut self, _now: Time) -> Option<incast_protocols::receiver::Action> {
            None
        }
    }
    let mut world = World::new(Nothing);
    world.open(3, None, 0);
    assert!(world.finish().is_err());
}
