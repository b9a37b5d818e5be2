//! Made-up algorithms that use every hook of every place: what RDTCP, Pulser, ARS, DCMRG and shared
//! buffers need must be there before they come.

mod support;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use incast_protocols::application::{
    AnyApplication, Application, ApplicationChoice, ApplicationContext, Request, RequestId,
};
use incast_protocols::echo::{AnyEcho, EchoChoice, EchoContext};
use incast_protocols::receiver::{
    AckCause, Action, AnyReceiver, Arrival, FlowIndex, Gate, NicContext, Receiver, ReceiverChoice, SentAck,
};
use incast_protocols::sender::{
    Ack, AnySender, MarkResponse, Restart, Sender, SenderChoice, SenderContext, SenderView, Windows,
};
use incast_protocols::switch::buffer::{AnyBuffer, Buffer, BufferChoice, BufferContext, PortIndex};
use incast_protocols::switch::marker::{AnyMarker, Marker, MarkerChoice, MarkerContext};
use incast_protocols::switch::{Marks, PacketView, QueueState};
use incast_protocols::{Bytes, Duration, Message, Time};
use incast_results::record::{EventKind, Run};
use incast_scenario::plan::{Handshake, Plan, Tcp};
use incast_simulator::{Control, DriverKind, Parts, RunOptions, run_with};
use support::{add_flow, add_rounds, assert_same, bytes, cable, dctcp, new_reno, no_marks, packets, plan, star, tcp};

/// Registered algorithms everywhere but at the places named.
macro_rules! parts {
    ($Name:ident { $($place:ident: $Type:ty = $build:expr),* $(,)? }) => {
        #[derive(Debug, Default)]
        struct $Name {
            #[allow(dead_code, reason = "not every algorithm keeps a log")]
            log: Rc<RefCell<Vec<String>>>,
        }
        parts!(@impl $Name; AnyBuffer, AnyMarker, AnySender, AnyReceiver, AnyApplication; $($place: $Type = $build),*);
    };
    (@impl $Name:ident; $B:ty, $M:ty, $S:ty, $R:ty, $A:ty; buffer: $Type:ty = $build:expr) => {
        parts!(@final $Name; $Type, $M, $S, $R, $A; |_, _, c: &BufferContext| $build(c), |_, x: &MarkerChoice, c| x.build(c), |_, x: &SenderChoice, c| x.build(c), |_, x: &ReceiverChoice, c| x.build(c), |_, x: &ApplicationChoice, c| x.build(c));
    };
    (@impl $Name:ident; $B:ty, $M:ty, $S:ty, $R:ty, $A:ty; marker: $Type:ty = $build:expr) => {
        parts!(@final $Name; $B, $Type, $S, $R, $A; |_, x: &BufferChoice, c| x.build(c), |_, _, c: &MarkerContext| $build(c), |_, x: &SenderChoice, c| x.build(c), |_, x: &ReceiverChoice, c| x.build(c), |_, x: &ApplicationChoice, c| x.build(c));
    };
    (@impl $Name:ident; $B:ty, $M:ty, $S:ty, $R:ty, $A:ty; sender: $Type:ty = $build:expr) => {
        parts!(@final $Name; $B, $M, $Type, $R, $A; |_, x: &BufferChoice, c| x.build(c), |_, x: &MarkerChoice, c| x.build(c), |_, _, c: &SenderContext| $build(c), |_, x: &ReceiverChoice, c| x.build(c), |_, x: &ApplicationChoice, c| x.build(c));
    };
    (@impl $Name:ident; $B:ty, $M:ty, $S:ty, $R:ty, $A:ty; receiver: $Type:ty = $build:expr) => {
        parts!(@final $Name; $B, $M, $S, $Type, $A; |_, x: &BufferChoice, c| x.build(c), |_, x: &MarkerChoice, c| x.build(c), |_, x: &SenderChoice, c| x.build(c), |s: &$Name, _, c: &NicContext| $build(s.log.clone(), c), |_, x: &ApplicationChoice, c| x.build(c));
    };
    (@impl $Name:ident; $B:ty, $M:ty, $S:ty, $R:ty, $A:ty; application: $Type:ty = $build:expr) => {
        parts!(@final $Name; $B, $M, $S, $R, $Type; |_, x: &BufferChoice, c| x.build(c), |_, x: &MarkerChoice, c| x.build(c), |_, x: &SenderChoice, c| x.build(c), |_, x: &ReceiverChoice, c| x.build(c), |s: &$Name, _, c: &ApplicationContext| $build(s.log.clone(), c));
    };
    (@final $Name:ident; $B:ty, $M:ty, $S:ty, $R:ty, $A:ty; $b:expr, $m:expr, $s:expr, $r:expr, $a:expr) => {
        impl Parts for $Name {
            type Buffer = $B;
            type Marker = $M;
            type Sender = $S;
            type Echo = AnyEcho;
            type Receiver = $R;
            type Application = $A;
            fn buffer(&self, choice: &BufferChoice, context: &BufferContext) -> $B {
                let build: fn(&Self, &BufferChoice, &BufferContext) -> $B = $b;
                build(self, choice, context)
            }
            fn marker(&self, choice: &MarkerChoice, context: &MarkerContext) -> $M {
                let build: fn(&Self, &MarkerChoice, &MarkerContext) -> $M = $m;
                build(self, choice, context)
            }
            fn sender(&self, choice: &SenderChoice, context: &SenderContext) -> $S {
                let build: fn(&Self, &SenderChoice, &SenderContext) -> $S = $s;
                build(self, choice, context)
            }
            fn echo(&self, choice: &EchoChoice, context: &EchoContext) -> AnyEcho {
                choice.build(context)
            }
            fn receiver(&self, choice: &ReceiverChoice, context: &NicContext) -> $R {
                let build: fn(&Self, &ReceiverChoice, &NicContext) -> $R = $r;
                build(self, choice, context)
            }
            fn application(&self, choice: &ApplicationChoice, context: &ApplicationContext) -> $A {
                let build: fn(&Self, &ApplicationChoice, &ApplicationContext) -> $A = $a;
                build(self, choice, context)
            }
        }
    };
}

/// Runs with both drivers, demands the same results and the same log, and returns both.
fn run_both<P: Parts>(plan: &Plan, parts: impl Fn() -> (P, Rc<RefCell<Vec<String>>>)) -> (Run, Vec<String>) {
    let one = |driver| {
        let (parts, log) = parts();
        let run = run_with(&parts, plan, &RunOptions { driver: Some(driver) }, &Control::default()).unwrap();
        drop(parts);
        (run, log.take())
    };
    let (sweep, event_loop) = (one(DriverKind::Sweep), one(DriverKind::EventLoop));
    assert_same(&sweep.0, &event_loop.0);
    assert_eq!(sweep.1, event_loop.1);
    sweep
}

fn star_plan(hosts: u32, buffer: u32) -> Plan {
    let network = star(hosts, cable(1_000_000_000, Duration::from_us(25)), &packets(buffer), &no_marks());
    plan(network, new_reno(), Tcp { initial_window_segments: 2, ..tcp() })
}

/// Grants one segment at a time to all flows together, in turn: an ACK is held until another flow's data
/// arrives. After a silence it announces a new window on its own, and asks for what is missing.
#[derive(Debug)]
struct TakingTurns {
    log: Rc<RefCell<Vec<String>>>,
    mss: u64,
    open: Vec<FlowIndex>,
    held: VecDeque<FlowIndex>,
    actions: VecDeque<Action>,
    silent_since: Time,
    asked: bool,
}

impl TakingTurns {
    fn new(log: Rc<RefCell<Vec<String>>>, context: &NicContext) -> Self {
        Self {
            log,
            mss: context.mss.0,
            open: Vec::new(),
            held: VecDeque::new(),
            actions: VecDeque::new(),
            silent_since: Time::NEVER,
            asked: false,
        }
    }

    fn note(&self, now: Time, what: &str) {
        self.log.borrow_mut().push(format!("{now} {what}"));
    }
}

const SILENCE: Duration = Duration::from_us(900);

impl Receiver for TakingTurns {
    fn on_open(&mut self, now: Time, flow: FlowIndex) {
        self.open.push(flow);
        self.silent_since = now;
        self.note(now, &format!("open {}", flow.0));
    }

    fn on_message(&mut self, now: Time, flow: FlowIndex, message: &Message) {
        self.note(now, &format!("message {} of {:?}", flow.0, message.size.map(|size| size.0)));
    }

    fn on_data(&mut self, now: Time, flow: FlowIndex, arrival: &Arrival) {
        self.silent_since = now;
        self.asked = false;
        assert!(arrival.delivered <= arrival.new + arrival.beyond_gap + Bytes(1 << 20));
        // Another flow's data lets the oldest held ACK go.
        if let Some(held) = self.held.pop_front() {
            if held == flow {
                self.held.push_back(held);
            } else {
                self.note(now, &format!("release {} on data of {}", held.0, flow.0));
                self.actions.push_back(Action::Release(held));
            }
        }
    }

    fn on_complete(&mut self, now: Time, flow: FlowIndex) {
        self.note(now, &format!("complete {}", flow.0));
        self.open.retain(|open| *open != flow);
        // Nobody may be left waiting for data that will not come.
        while let Some(held) = self.held.pop_front() {
            self.actions.push_back(Action::Release(held));
        }
    }

    fn on_close(&mut self, now: Time, flow: FlowIndex) {
        self.note(now, &format!("close {}", flow.0));
    }

    fn gate(&mut self, _now: Time, flow: FlowIndex, cause: AckCause) -> Gate {
        if cause == AckCause::Data && self.open.len() > 1 && self.held.iter().all(|held| *held != flow) {
            self.held.push_back(flow);
            return Gate::Hold;
        }
        Gate::Open
    }

    fn window(&mut self, _now: Time, _flow: FlowIndex) -> Option<Bytes> {
        Some(Bytes(self.mss))
    }

    fn on_ack_sent(&mut self, now: Time, flow: FlowIndex, sent: &SentAck) {
        assert!(sent.edge >= sent.ack);
        if sent.cause == AckCause::Forced {
            self.note(now, &format!("forced {} at {}", flow.0, sent.ack.0));
        }
    }

    fn next_timer(&self) -> Option<Time> {
        (!self.open.is_empty() && self.silent_since != Time::NEVER).then(|| self.silent_since + SILENCE)
    }

    fn on_timer(&mut self, now: Time) {
        self.silent_since = now;
        for &flow in &self.open {
            let action = if self.asked { Action::ForceRetransmission(flow) } else { Action::UpdateWindow(flow) };
            self.actions.push_back(action);
        }
        self.held.clear();
        self.asked = true;
    }

    fn poll(&mut self, _now: Time) -> Option<Action> {
        self.actions.pop_front()
    }
}

parts!(TurnsParts { receiver: TakingTurns = TakingTurns::new });

#[test]
fn a_receiver_holds_acks_updates_windows_and_forces_retransmissions() {
    // A port of two packets, so that the SYNs' grants do not overflow it, and a lossy wire, so that
    // retransmissions are wanted long before the sender's own timer.
    let mut plan = star_plan(4, 50);
    for link in &mut plan.network.links {
        link.loss = 0.03;
    }
    plan.classes[0].tcp.rto_min = Duration::from_ms(50);
    plan.classes[0].tcp.rto_initial = Duration::from_ms(50);
    for sender in 1..4 {
        add_flow(&mut plan, sender, 0, Some(40_000), Time(0), Handshake::Counted);
    }
    plan.record.events = true;
    plan.record.queue_series = vec![1];
    let (run, log) = run_both(&plan, || {
        let parts = TurnsParts::default();
        let log = parts.log.clone();
        (parts, log)
    });
    let seen = |what: &str| log.iter().filter(|line| line.contains(what)).count();
    assert!(run.flows.iter().all(|flow| flow.end.is_some()));
    assert!(seen("release") > 20, "{log:#?}");
    assert!(seen("forced") > 0, "{log:#?}");
    assert_eq!((seen("message"), seen("complete"), seen("close")), (3, 3, 3), "{log:#?}");
    assert!(log.iter().any(|line| line.contains("of Some(40000)")));
    // One segment per grant and flow: never more than three wait.
    assert!(run.queue_samples.iter().all(|sample| sample.waiting_packets <= 3));
    assert!(run.events.iter().any(|event| event.kind == EventKind::Retransmission));
}

/// Marks when transmission begins, if the queue has grown over its last four departures.
#[derive(Debug)]
struct Growth {
    history: [u64; 4],
    at: usize,
}

impl Growth {
    fn new(context: &MarkerContext) -> Self {
        assert_eq!(context.rate.0, 1_000_000_000);
        Self { history: [0; 4], at: 0 }
    }
}

impl Marker for Growth {
    fn on_enqueue(&mut self, _queue: &QueueState, _packet: &PacketView) -> Marks {
        Marks::NONE
    }

    fn on_dequeue(&mut self, queue: &QueueState, packet: &PacketView) -> Marks {
        assert_eq!(queue.in_service, packet.bytes);
        let now = queue.bytes(true).0;
        let then = std::mem::replace(&mut self.history[self.at], now);
        self.at = (self.at + 1) % self.history.len();
        Marks { ce: packet.ecn_capable && now > then + 1500, ein: now > then + 1500 }
    }
}

parts!(GrowthParts { marker: Growth = Growth::new });

#[test]
fn a_marker_marks_at_dequeue_from_the_queues_history() {
    let mut plan = star_plan(9, 200);
    plan.classes[0].stack = dctcp();
    plan.classes[0].tcp.initial_window_segments = 10;
    plan.record.events = true;
    plan.record.queue_series = vec![1];
    for sender in 1..9 {
        add_flow(&mut plan, sender, 0, Some(30_000), Time(0), Handshake::Before);
    }
    let (run, _) = run_both(&plan, || (GrowthParts::default(), Rc::default()));
    let marks: Vec<_> = run.events.iter().filter(|event| event.kind == EventKind::EinMark).collect();
    assert!(!marks.is_empty() && run.totals.ein_marks == marks.len() as u64);
    assert!(run.totals.ce_marks > 0);
    // They warn of a queue that builds up, before it is at its longest.
    let peak = run.queue_samples.iter().map(|sample| sample.waiting_packets).max().unwrap();
    let first = marks.iter().find(|mark| mark.link == Some(1)).unwrap();
    let found = run.queue_samples.iter().take_while(|sample| sample.time < first.time).last().unwrap();
    assert!(found.waiting_packets * 4 < peak, "{found:?} of {peak}");
}

/// Keeps at most `limit` requests outstanding, one after a round in which segments arrived out of order.
#[derive(Debug)]
struct Careful {
    log: Rc<RefCell<Vec<String>>>,
    pending: VecDeque<RequestId>,
    outstanding: u32,
    limit: u32,
    resume_at: Option<Time>,
}

impl Careful {
    fn new(log: Rc<RefCell<Vec<String>>>, context: &ApplicationContext) -> Self {
        // Twice 25 us and twice 0.32 us there, and back again.
        assert_eq!(context.bottleneck.base_rtt, Duration(101_280_000));
        assert_eq!(context.bottleneck.buffer, Bytes(65_536));
        Self { log, pending: VecDeque::new(), outstanding: 0, limit: 8, resume_at: None }
    }
}

impl Application for Careful {
    fn on_request(&mut self, _now: Time, request: Request) {
        assert_eq!(request.expected, Some(Bytes(50_000)));
        self.pending.push_back(request.id);
    }

    fn on_finished(&mut self, now: Time, request: RequestId, out_of_order: u64) {
        self.outstanding -= 1;
        if out_of_order > 0 {
            self.limit = 1;
            self.resume_at = Some(now + Duration::from_us(300));
            self.log.borrow_mut().push(format!("{} after {}: {out_of_order}", now, request.0));
        }
    }

    fn next_timer(&self) -> Option<Time> {
        self.resume_at
    }

    fn on_timer(&mut self, now: Time, _out_of_order: u64) {
        self.resume_at = None;
        self.log.borrow_mut().push(format!("{now} resumes"));
    }

    fn poll(&mut self, _now: Time) -> Option<RequestId> {
        if self.outstanding >= self.limit || self.resume_at.is_some() {
            return None;
        }
        self.outstanding += 1;
        self.pending.pop_front().or_else(|| {
            self.outstanding -= 1;
            None
        })
    }
}

parts!(CarefulParts { application: Careful = Careful::new });

#[test]
fn an_application_reads_out_of_order_counts_and_holds_requests_back() {
    let network = star(25, cable(1_000_000_000, Duration::from_us(25)), &bytes(65_536), &no_marks());
    let mut plan = plan(network, new_reno(), Tcp { initial_window_segments: 4, ..tcp() });
    add_rounds(&mut plan, 24, 50_000, 3, |_, _| Duration::ZERO);
    let parts = || {
        let parts = CarefulParts::default();
        let log = parts.log.clone();
        (parts, log)
    };
    let (run, log) = run_both(&plan, parts);
    assert!(run.flows.iter().all(|flow| flow.end.is_some()));
    assert!(
        log.iter().any(|line| line.contains("after")) && log.iter().any(|line| line.contains("resumes")),
        "{log:?}"
    );
    // Eight at first, one at a time once segments had come out of order.
    let outstanding_at = |time: Time| {
        run.flows.iter().filter(|flow| flow.start <= time && flow.end.is_some_and(|end| end > time)).count()
    };
    assert_eq!(outstanding_at(Time::from_us(1100)), 8);
    assert!(run.flows.iter().filter(|flow| flow.round == 2).all(|flow| outstanding_at(flow.start) == 1));
}

/// Obeys the advertised window alone, scaled by how long its round trips take, and counts its events.
#[derive(Debug)]
struct Rescaling {
    message: Option<Bytes>,
}

impl Rescaling {
    fn new(_context: &SenderContext) -> Self {
        Self { message: None }
    }
}

impl Sender for Rescaling {
    fn on_message(&mut self, view: &SenderView, message: &Message) {
        self.message = message.size;
        assert_eq!(view.remaining, message.size);
    }

    fn on_ack(&mut self, view: &SenderView, ack: &Ack) -> MarkResponse {
        assert!(ack.acked > Bytes::ZERO && view.remaining.is_some_and(|rest| Some(rest) < self.message));
        MarkResponse::None
    }

    fn on_duplicate_ack(&mut self, _view: &SenderView, _ack: &Ack) -> MarkResponse {
        MarkResponse::None
    }

    fn on_loss(&mut self, _view: &SenderView) {}
    fn on_partial_ack(&mut self, _view: &SenderView, _ack: &Ack) {}
    fn on_recovered(&mut self, _view: &SenderView, _ack: &Ack) {}
    fn on_timeout(&mut self, _view: &SenderView, _again: bool) {}
    fn on_restart(&mut self, _why: Restart) {}

    fn send_window(&self, view: &SenderView) -> Bytes {
        let stretch = view.srtt.map_or(1.0, |srtt| srtt.as_secs_f64() / 100e-6);
        Bytes((view.advertised.0 as f64 / stretch.max(1.0)) as u64).max(Bytes(1460)).min(view.advertised)
    }

    fn windows(&self) -> Windows {
        Windows { cwnd: Bytes::ZERO, ssthresh: Windows::UNLIMITED }
    }

    fn set_windows(&mut self, _windows: Windows) {}
}

parts!(RescalingParts { sender: Rescaling = Rescaling::new });

#[test]
fn a_sender_rescales_the_advertised_window() {
    let mut plan = star_plan(2, 200);
    plan.classes[0].tcp.receive_buffer = Bytes(20 * 1460);
    add_flow(&mut plan, 1, 0, Some(400_000), Time(0), Handshake::Counted);
    plan.record.window_series = vec![0];
    let (run, _) = run_both(&plan, || (RescalingParts::default(), Rc::default()));
    assert!(run.flows[0].end.is_some());
    // At a round trip of t us it may have 20 * 100 / t segments in flight: less than the 20 advertised.
    let late = run.window_samples.last().unwrap();
    let allowed = 20.0 * 1460.0 * 100e-6 / late.srtt.unwrap().as_secs_f64();
    assert!(run.window_samples.iter().skip(40).all(|sample| (sample.flight.0 as f64) < allowed + 1.5 * 1460.0));
}

/// A shared memory: a port may hold as much as is free.
#[derive(Debug)]
struct Shared {
    size: u64,
    used: u64,
}

impl Shared {
    fn new(context: &BufferContext) -> Self {
        assert_eq!(context.ports, 7);
        Self { size: 40_000, used: 0 }
    }
}

impl Buffer for Shared {
    fn admit(&mut self, _port: PortIndex, queue: &QueueState, packet: &PacketView) -> bool {
        let fits = queue.waiting_bytes.0 + packet.bytes.0 <= self.size.saturating_sub(self.used);
        if fits {
            self.used += packet.bytes.0;
        }
        fits
    }

    fn on_departure(&mut self, _port: PortIndex, bytes: Bytes) {
        self.used -= bytes.0;
    }

    fn couples_ports(&self) -> bool {
        true
    }
}

parts!(SharedParts { buffer: Shared = Shared::new });

#[test]
fn a_shared_buffer_couples_the_ports_of_a_switch() {
    let mut plan = star_plan(7, 0);
    for sender in 3..7 {
        for receiver in [0, 1, 2] {
            add_flow(&mut plan, sender, receiver, Some(60_000), Time(0), Handshake::Counted);
        }
    }
    plan.record.queue_statistics = true;
    let (run, _) = run_both(&plan, || (SharedParts::default(), Rc::default()));
    assert!(run.flows.iter().all(|flow| flow.end.is_some()));
    assert!(run.totals.dropped > 0);
    // Three congested ports hold a quarter each with alpha = 1, so none ever holds what one alone could.
    let most = run.ports.iter().map(|port| port.max_waiting).max().unwrap();
    assert!(most > 4 && most <= 14, "{most}");
}

/// 2 ms after the round has begun a response that takes longer has missed its deadline, and not 2 ms after the run has.
#[test]
fn a_response_that_never_came_has_its_deadline_from_the_start_of_its_round() {
    let network = star(3, cable(1_000_000_000, Duration::from_us(10)), &packets(100), &no_marks());
    let mut plan = plan(network, new_reno(), tcp());
    add_rounds(&mut plan, 2, 1460, 2, |_, _| Duration::ZERO);
    for round in &mut plan.aggregators[0].rounds {
        round.responses[1].service_time = Duration::from_ms(10);
        round.responses[1].message.deadline = Some(Time::from_us(2_000));
    }
    let begun = plan.aggregators[0].start;
    for (stop_us, met) in [(1_500, None), (2_500, Some(false))] {
        plan.stop_at = Some(begun + Duration::from_us(stop_us));
        let run = support::run_both(&plan);
        assert_eq!(run.flows[1].deadline, Some(begun + Duration::from_us(2_000)));
        assert_eq!(run.flows[1].deadline_met(run.end), met, "{stop_us}");
        assert_eq!(run.flows.get(3).and_then(|flow| flow.deadline), None);
    }
}
