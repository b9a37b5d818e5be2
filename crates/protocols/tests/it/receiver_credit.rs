//! The receiver "credit", driven by senders that send all they may at once, over a network that delays and loses: never is more
//! than the budget under way, nobody starves, and every byte arrives.

use std::collections::VecDeque;

use crate::nic::{End, Nic};
use incast_protocols::receiver::credit::{Config, Credit, Order};
use incast_protocols::receiver::{AckCause, FlowIndex, LastPort, NicContext, Receiver as _};
use incast_protocols::switch::Marks;
use incast_protocols::{Amount, Bytes, Duration, Message, Rate, Time};
use proptest::prelude::*;

const MSS: u64 = 1000;
const HEADER: u64 = 66;

#[derive(Clone, Debug)]
enum Step {
    /// A connection is set up, on which requests leave.
    Open,
    /// Asks the i-th connection for a response of this many bytes, with a deadline in microseconds from now, unless one is under way.
    Ask(prop::sample::Index, u64, Option<u64>),
    /// So many of the oldest segments arrive; or one of the others, before them.
    Arrive(usize),
    Overtake(prop::sample::Index),
    /// A segment under way is lost; its sender will notice.
    Lose(prop::sample::Index),
    /// All that is lost is sent again.
    Repair,
    /// The i-th connection goes.
    Close(prop::sample::Index),
    /// So many microseconds pass.
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let index = any::<prop::sample::Index>;
    let size = prop_oneof![1..1_500_u64, 1_000..40_000_u64, Just(300_000)];
    let step = prop_oneof![
        3 => Just(Step::Open),
        6 => (index(), size, prop::option::of(1..20_000_u64))
            .prop_map(|(which, size, due)| Step::Ask(which, size, due)),
        12 => (1..30_usize).prop_map(Step::Arrive),
        2 => index().prop_map(Step::Overtake),
        2 => index().prop_map(Step::Lose),
        1 => Just(Step::Repair),
        1 => index().prop_map(Step::Close),
        3 => (0..3_000_u64).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..200)
}

/// What is known of the port.
fn ports() -> impl Strategy<Value = LastPort> {
    let buffer = prop_oneof![
        (3_u32..300).prop_map(Amount::Packets),
        (3_000_u64..300_000).prop_map(|bytes| Amount::Bytes(Bytes(bytes))),
    ];
    (buffer, 1_u64..400, prop_oneof![Just(200_u64), Just(1)]).prop_map(|(buffer, rtt, rto)| LastPort {
        buffer,
        base_rtt: Duration::from_us(rtt),
        rto_min: Duration::from_ms(rto),
    })
}

#[derive(Clone, Debug, Default)]
struct Flow {
    index: u32,
    /// Where the messages end that were asked for and are not complete.
    ends: VecDeque<u64>,
    /// Sent for the first time.
    sent: u64,
    /// To be sent again: first byte and payload.
    lost: Vec<(u64, u64)>,
    /// Its deadline.
    due: Time,
    /// What others got since it had something to send last; with deadlines, those whose deadline is not earlier.
    passed_over: u64,
}

struct World {
    now: Time,
    nic: Nic<Credit>,
    port: LastPort,
    /// By flow index.
    flows: Vec<Option<Flow>>,
    /// Flow, first byte, payload.
    network: Vec<(u32, u64, u64)>,
    /// Whether only every second segment is acknowledged.
    delayed: bool,
    arrivals: u64,
    unacknowledged: Vec<u64>,
    most_active: u64,
    /// What may be under way beside the budget, of each flow that has something to come.
    beside: u64,
    /// Who is silent for long does not count as what it was granted, so the budget bounds what counts only.
    gives_up: bool,
    order: Order,
}

impl World {
    fn new(port: LastPort, config: &Config, delayed: bool) -> Self {
        let context =
            NicContext { port: Some(port), ..NicContext::new(Rate(1_000_000_000), Bytes(MSS), Bytes(HEADER)) };
        let nic = Nic { controller: Credit::new(config, &context), ends: Vec::new(), told: String::new() };
        Self {
            now: Time(0),
            nic,
            port,
            flows: Vec::new(),
            network: Vec::new(),
            delayed,
            arrivals: 0,
            unacknowledged: Vec::new(),
            most_active: 1,
            beside: 0,
            gives_up: config.gives_up,
            order: config.order,
        }
    }

    fn open(&mut self) -> u32 {
        let index = self.flows.iter().position(Option::is_none).unwrap_or(self.flows.len());
        if index == self.flows.len() {
            self.flows.push(None);
            self.unacknowledged.push(0);
        }
        self.unacknowledged[index] = 0;
        let flow = FlowIndex(index as u32);
        *self.nic.end(flow) = End::default();
        self.flows[index] = Some(Flow { index: flow.0, ..Flow::default() });
        self.nic.controller.on_open(self.now, flow);
        self.nic.controller.on_answers_only(flow);
        self.nic.send_ack(self.now, flow, AckCause::SynAck);
        flow.0
    }

    fn ask(&mut self, index: u32, size: u64, due_us: Option<u64>) {
        let flow = self.flows[index as usize].as_mut().unwrap();
        let begin = flow.ends.back().copied().unwrap_or(flow.sent);
        flow.ends.push_back(begin + size);
        flow.passed_over = 0;
        let deadline = due_us.map(|us| self.now + Duration::from_us(us));
        flow.due = deadline.unwrap_or(Time::NEVER);
        let response = Message { size: Some(Bytes(size)), deadline, ..Message::default() };
        self.nic.controller.on_request(self.now, FlowIndex(index), &response);
        self.settle();
    }

    /// What the controller wants is done, and what may be sent is.
    fn settle(&mut self) {
        self.nic.act(self.now);
        for flow in self.flows.iter_mut().flatten() {
            let end = self.nic.end(FlowIndex(flow.index));
            let before = self.network.len();
            while let Some(end_of_message) = flow.ends.iter().copied().find(|&end| end > flow.sent) {
                let room = end.edge.saturating_sub(flow.sent);
                let mut payload = MSS.min(end_of_message - flow.sent);
                if payload > room {
                    // As senders do that nothing else would ever move.
                    let waits = flow.sent > end.next || room == 0;
                    if waits {
                        break;
                    }
                    payload = room;
                }
                self.network.push((flow.index, flow.sent, payload));
                flow.sent += payload;
            }
            if self.network.len() > before {
                flow.passed_over = 0;
            }
        }
        let active = self.flows.iter().flatten().filter(|flow| !flow.ends.is_empty()).count();
        self.most_active = self.most_active.max(active as u64);
    }

    fn arrive(&mut self, at: usize) {
        let (index, start, payload) = self.network.remove(at);
        let flow = FlowIndex(index);
        let arrival = self.nic.end(flow).take_in(start, payload, Marks::NONE);
        self.nic.controller.on_data(self.now, flow, &arrival);
        let (mut complete, now) = (false, self.now);
        // A deadline that is over counts no longer.
        let rank = |due: Time| if self.order == Order::Deadline && due > now { due } else { Time::NEVER };
        let mine = rank(self.flows[index as usize].as_ref().map_or(Time::NEVER, |flow| flow.due));
        for other in self.flows.iter_mut().flatten() {
            if other.index == index {
                while other.ends.front().is_some_and(|&end| end <= arrival.expected.0) {
                    other.ends.pop_front();
                    complete = true;
                    self.nic.controller.on_complete(self.now, flow);
                }
            } else if !other.ends.is_empty() && other.lost.is_empty() && mine >= rank(other.due) {
                other.passed_over += payload;
            }
        }
        self.arrivals += 1;
        self.unacknowledged[index as usize] += 1;
        if !self.delayed || complete || self.unacknowledged[index as usize] >= 2 || arrival.beyond_gap.0 > 0 {
            self.unacknowledged[index as usize] = 0;
            self.nic.request_ack(self.now, flow, AckCause::Data);
        }
        self.settle();
    }

    /// ACKs that are delayed leave once nothing else happens.
    fn acknowledge_if_silent(&mut self) {
        for index in 0..self.flows.len() {
            if self.network.is_empty() && std::mem::take(&mut self.unacknowledged[index]) > 0 {
                self.nic.request_ack(self.now, FlowIndex(index as u32), AckCause::Data);
                self.settle();
            }
        }
    }

    fn repair(&mut self) {
        for flow in self.flows.iter_mut().flatten() {
            self.network.extend(flow.lost.drain(..).map(|(start, payload)| (flow.index, start, payload)));
            flow.passed_over = 0;
        }
    }

    fn close(&mut self, index: u32) {
        self.nic.controller.on_close(self.now, FlowIndex(index));
        self.flows[index as usize] = None;
        self.network.retain(|&(flow, ..)| flow != index);
        *self.nic.end(FlowIndex(index)) = End::default();
        self.settle();
    }

    fn step(&mut self, step: &Step) {
        let open: Vec<u32> = self.flows.iter().flatten().map(|flow| flow.index).collect();
        match step {
            Step::Open => {
                self.open();
            }
            Step::Ask(which, size, due) if !open.is_empty() => {
                let index = *which.get(&open);
                if self.flows[index as usize].as_ref().unwrap().ends.is_empty() {
                    self.ask(index, *size, *due);
                }
            }
            Step::Close(which) if !open.is_empty() => self.close(*which.get(&open)),
            Step::Arrive(count) => {
                for _ in 0..*count.min(&self.network.len()) {
                    self.arrive(0);
                    self.check();
                }
            }
            Step::Overtake(which) if !self.network.is_empty() => self.arrive(which.index(self.network.len())),
            Step::Lose(which) if !self.network.is_empty() => {
                let (index, start, payload) = self.network.remove(which.index(self.network.len()));
                self.flows[index as usize].as_mut().unwrap().lost.push((start, payload));
            }
            Step::Repair => self.repair(),
            Step::Wait(us) => {
                self.now += Duration::from_us(*us);
                self.nic.advance(self.now);
                self.settle();
            }
            _ => {}
        }
        self.check();
    }

    /// What the port may have to hold, as it counts.
    fn under_way(&self) -> u64 {
        match self.port.buffer {
            Amount::Packets(_) => self.network.len() as u64 * (MSS + HEADER),
            Amount::Bytes(_) => self.network.iter().map(|(_, _, payload)| payload + HEADER).sum(),
        }
    }

    fn check(&self) {
        let (counted, budget) = (self.nic.controller.under_way().0, self.nic.controller.budget().0);
        if self.gives_up {
            // Others had what it gave up, and it speaks again.
            assert!(counted <= budget * (1 + self.flows.len() as u64), "{counted} of {budget}");
            return;
        }
        assert!(self.under_way() <= counted, "{} under way, {counted} counted", self.under_way());
        let beside = self.beside * self.flows.iter().flatten().filter(|flow| !flow.ends.is_empty()).count() as u64;
        assert!(counted <= budget + beside, "{counted} of {budget} and {beside}");
        // Its own turn and that of everyone else, each with what was under way when it ended.
        let bound = (self.most_active + 1) * 3 * budget;
        for flow in self.flows.iter().flatten() {
            assert!(flow.passed_over <= bound, "flow {} starves: {} of {bound}", flow.index, flow.passed_over);
        }
    }

    /// Until all that was asked for has arrived.
    fn finish(&mut self) {
        while self.flows.iter().flatten().any(|flow| !flow.ends.is_empty()) {
            self.repair();
            if self.beside > 0 {
                // A window of one segment waits for an ACK that is delayed.
                self.acknowledge_if_silent();
            }
            assert!(!self.network.is_empty(), "nobody may send: {:?}\n{}", self.flows, self.nic.told);
            self.arrive(0);
            self.check();
        }
        assert_eq!(self.nic.controller.under_way(), Bytes::ZERO);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1_000, ..ProptestConfig::default() })]

    /// With sizes that are told: what is under way never exceeds the budget, and so not nine tenths of the port; others get no
    /// more than some turns each while a flow waits; all that was asked for arrives, and nothing stays reserved.
    #[test]
    fn the_budget_holds_and_nobody_starves(steps in steps(), port in ports(), delayed: bool, first in 1..20_u64, least in 1..4_u64) {
        let config = Config { first_window: first, least_window: least, ..Config::default() };
        let mut world = World::new(port, &config, delayed);
        let buffer = match port.buffer {
            Amount::Packets(packets) => u64::from(packets) * (MSS + HEADER),
            Amount::Bytes(bytes) => bytes.0,
        };
        prop_assert!(world.nic.controller.budget().0 <= (buffer - buffer / 10).max(2 * (MSS + HEADER)));
        for step in &steps {
            world.step(step);
        }
        world.finish();
    }

    /// The same in the order of deadlines, where nobody is passed over by those whose deadlines are later or the same.
    #[test]
    fn the_budget_holds_in_the_order_of_deadlines(steps in steps(), port in ports(), delayed: bool, least in 1..4_u64) {
        let config = Config { order: Order::Deadline, least_window: least, ..Config::default() };
        let mut world = World::new(port, &config, delayed);
        for step in &steps {
            world.step(step);
        }
        world.finish();
    }

    /// With flows that are given up after reminders, and speak again: all arrives, nothing stays reserved, and each flow counts
    /// for a budget at most.
    #[test]
    fn who_is_given_up_comes_back(steps in steps(), port in ports(), delayed: bool, least in 1..4_u64) {
        let config = Config { gives_up: true, least_window: least, ..Config::default() };
        let mut world = World::new(port, &config, delayed);
        for step in &steps {
            world.step(step);
        }
        world.finish();
    }

    /// Where windows are never closed, the budget holds but for the least window of each flow that has something to come. A
    /// window that is open from the beginning is no turn, and nobody is told of one but by what comes or is asked.
    #[test]
    fn without_closed_windows_the_budget_holds_but_for_a_least_window_of_each(
        steps in steps(), port in ports(), delayed: bool, first in 1..20_u64, least in 1..4_u64,
    ) {
        let config = Config { closes: false, first_window: first, least_window: least, ..Config::default() };
        let mut world = World::new(port, &config, delayed);
        let segments = world.nic.controller.least_window().0 / MSS;
        world.beside = segments * (MSS + HEADER);
        for step in &steps {
            world.step(step);
            prop_assert_eq!(world.nic.controller.next_timer(), None);
        }
        world.finish();
    }

    /// Messages of all kinds, sizes that are not told or wrong, windows rounded by the field of the header: all arrive.
    #[test]
    fn whatever_comes_arrives(
        messages in prop::collection::vec((0..6_u32, 1..60_000_u64, 0..3_u8, any::<bool>()), 1..40),
        port in ports(),
        sizes: bool,
        closes: bool,
        unit in prop_oneof![Just(1_u64), Just(128), Just(16_384)],
    ) {
        let context = NicContext {
            port: Some(port),
            window_unit: Bytes(unit),
            ..NicContext::new(Rate(1_000_000_000), Bytes(MSS), Bytes(HEADER))
        };
        let config = Config { sizes, closes, ..Config::default() };
        let controller = Credit::new(&config, &context);
        let mut world = World::new(port, &config, true);
        world.nic.controller = controller;
        for flow in 0..6 {
            world.open();
            if flow >= 3 {
                // Nothing is told of what is asked for on these.
                world.nic.controller.on_close(world.now, FlowIndex(flow));
                world.nic.controller.on_open(world.now, FlowIndex(flow));
                world.nic.send_ack(world.now, FlowIndex(flow), AckCause::SynAck);
            }
        }
        for (index, size, told, arrive) in messages {
            let told = [None, Some(Bytes(size)), Some(Bytes(size / 2 + 1))][usize::from(told)];
            let flow = world.flows[index as usize].as_mut().unwrap();
            let begin = flow.ends.back().copied().unwrap_or(flow.sent);
            flow.ends.push_back(begin + size);
            let message = Message { size: told, ..Message::default() };
            if index < 3 {
                world.nic.controller.on_request(world.now, FlowIndex(index), &message);
            } else if begin == flow.sent {
                // Its first segment tells of it, and arrives in time.
                world.nic.controller.on_message(world.now, FlowIndex(index), &message);
            }
            world.settle();
            if arrive && !world.network.is_empty() {
                world.arrive(0);
            }
        }
        world.acknowledge_if_silent();
        while world.flows.iter().flatten().any(|flow| !flow.ends.is_empty()) {
            prop_assert!(!world.network.is_empty(), "nobody may send: {:?}\n{}", world.flows, world.nic.told);
            world.arrive(0);
            world.acknowledge_if_silent();
        }
    }
}

/// The harness itself: with a window beyond the budget the check fails.
#[test]
#[should_panic(expected = "under way")]
fn a_sender_that_takes_more_than_it_was_given_is_found() {
    let port =
        LastPort { buffer: Amount::Packets(20), base_rtt: Duration::from_us(100), rto_min: Duration::from_ms(200) };
    let mut world = World::new(port, &Config::default(), false);
    let flow = world.open();
    world.ask(flow, 100 * MSS, None);
    world.nic.end(FlowIndex(flow)).edge += 30 * MSS;
    world.settle();
    world.check();
}
