//! Made-up algorithms that use every hook of every place: what RDTCP, Pulser, ARS, DCMRG and shared
//! buffers need must be there before they come.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::support::{
    add_flow, add_job, add_rounds, assert_same, bytes, cable, dctcp, new_reno, no_marks, packets, plan, run_on, star,
    tcp,
};
use incast_packets::DriverKind;
use incast_plan::{Handshake, Plan, Tcp};
use incast_protocols::application::{
    Application, ApplicationChoice, ApplicationContext, Grant, Outcome, Request, RequestId,
};
use incast_protocols::receiver::{
    AckCause, Action, Arrival, FlowIndex, Gate, NicContext, Receiver, ReceiverChoice, SentAck,
};
use incast_protocols::sender::{
    Ack, Congestion, MarkResponse, Restart, Sender, SenderChoice, SenderContext, SenderView, Windows,
};
use incast_protocols::switch::buffer::{Buffer, BufferChoice, BufferContext, PortIndex, Verdict};
use incast_protocols::switch::marker::{Marker, MarkerChoice, MarkerContext};
use incast_protocols::switch::{Marks, PacketView, QueueState};
use incast_protocols::{Bytes, Duration, Message, Time};
use incast_record::{EventKind, Run};

/// What a made-up algorithm writes down.
type Log = Arc<Mutex<Vec<String>>>;

fn write(log: &Log, line: String) {
    log.lock().unwrap().push(line);
}

/// Runs with both drivers what `put` has made of the plan, demands the same results and the same log, and returns both.
fn run_both(plan: &Plan, put: impl Fn(&mut Plan, Log)) -> (Run, Vec<String>) {
    let one = |driver| {
        let (mut plan, log) = (plan.clone(), Log::default());
        put(&mut plan, Arc::clone(&log));
        let run = run_on(&plan, driver);
        let lines = std::mem::take(&mut *log.lock().unwrap());
        (run, lines)
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
#[derive(Clone, Debug)]
struct TakingTurns {
    log: Log,
    mss: u64,
    open: Vec<FlowIndex>,
    held: VecDeque<FlowIndex>,
    actions: VecDeque<Action>,
    silent_since: Time,
    asked: bool,
}

impl TakingTurns {
    fn new(log: Log, context: &NicContext) -> Self {
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
        write(&self.log, format!("{now} {what}"));
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
    let (run, log) = run_both(&plan, |plan, log| {
        plan.classes[0].stack.receiver = ReceiverChoice::custom("taking-turns", move |context| {
            Box::new(TakingTurns::new(Arc::clone(&log), context))
        });
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
#[derive(Clone, Debug)]
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
    let (run, _) = run_both(&plan, |plan, _| {
        for port in plan.network.links.iter_mut().filter_map(|link| link.port.as_mut().map(Arc::make_mut)) {
            port.marker = MarkerChoice::custom("growth", |context| Box::new(Growth::new(context)));
        }
    });
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
#[derive(Clone, Debug)]
struct Careful {
    log: Log,
    pending: VecDeque<RequestId>,
    outstanding: u32,
    limit: u32,
    resume_at: Option<Time>,
}

impl Careful {
    fn new(log: Log, context: &ApplicationContext) -> Self {
        // Twice 25 us and twice 0.32 us there, and back again.
        assert_eq!(context.bottleneck.base_rtt, Duration(101_280_000));
        assert_eq!(context.bottleneck.buffer, Bytes(65_536));
        assert_eq!(context.workers, Some(24));
        Self { log, pending: VecDeque::new(), outstanding: 0, limit: 8, resume_at: None }
    }
}

impl Application for Careful {
    fn on_request(&mut self, _now: Time, request: Request) {
        assert_eq!(request.expected, Some(Bytes(50_000)));
        self.pending.push_back(request.id);
    }

    fn on_withdrawn(&mut self, _now: Time, request: RequestId) {
        unreachable!("{request:?}: an aggregator wants all that it asks for");
    }

    fn on_finished(&mut self, now: Time, grant: Grant, outcome: Outcome) {
        self.outstanding -= 1;
        assert_eq!(outcome.received, Bytes(50_000));
        let (request, out_of_order) = (grant.id(), outcome.out_of_order);
        if out_of_order > 0 {
            self.limit = 1;
            self.resume_at = Some(now + Duration::from_us(300));
            write(&self.log, format!("{} after {}: {out_of_order}", now, request.0));
        }
    }

    fn next_timer(&self) -> Option<Time> {
        self.resume_at
    }

    fn on_timer(&mut self, now: Time, _out_of_order: u64) {
        self.resume_at = None;
        write(&self.log, format!("{now} resumes"));
    }

    fn poll(&mut self, now: Time) -> Option<Grant> {
        if self.outstanding >= self.limit || self.resume_at.is_some() {
            return None;
        }
        let id = self.pending.pop_front()?;
        self.outstanding += 1;
        Some(Grant::new(now, id, Bytes::ZERO))
    }
}

#[test]
fn an_application_reads_out_of_order_counts_and_holds_requests_back() {
    let network = star(25, cable(1_000_000_000, Duration::from_us(25)), &bytes(65_536), &no_marks());
    let mut plan = plan(network, new_reno(), Tcp { initial_window_segments: 4, ..tcp() });
    add_rounds(&mut plan, 24, 50_000, 3, |_, _| Duration::ZERO);
    let (run, log) = run_both(&plan, |plan, log| {
        plan.classes[0].stack.application =
            ApplicationChoice::custom("careful", move |context| Box::new(Careful::new(Arc::clone(&log), context)));
    });
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
#[derive(Clone, Debug)]
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

    fn cut(&self, _view: &SenderView, windows: Windows, _why: Congestion) -> Windows {
        windows
    }
}

#[test]
fn a_sender_rescales_the_advertised_window() {
    let mut plan = star_plan(2, 200);
    plan.classes[0].tcp.receive_buffer = Bytes(20 * 1460);
    add_flow(&mut plan, 1, 0, Some(400_000), Time(0), Handshake::Counted);
    plan.record.window_series = vec![0];
    let (run, _) = run_both(&plan, |plan, _| {
        plan.classes[0].stack.sender = SenderChoice::custom("rescaling", |context| Box::new(Rescaling::new(context)));
    });
    assert!(run.flows[0].end.is_some());
    // At a round trip of t us it may have 20 * 100 / t segments in flight: less than the 20 advertised.
    let late = run.window_samples[..].last().unwrap();
    let allowed = 20.0 * 1460.0 * 100e-6 / late.srtt.unwrap().as_secs_f64();
    assert!(run.window_samples.iter().skip(40).all(|sample| (sample.flight.0 as f64) < allowed + 1.5 * 1460.0));
}

/// A shared memory: a port may hold as much as is free.
#[derive(Clone, Debug)]
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
    fn admit(&mut self, _port: PortIndex, queue: &QueueState, packet: &PacketView) -> Verdict {
        let fits = queue.waiting_bytes.0 + packet.bytes.0 <= self.size.saturating_sub(self.used);
        if fits {
            self.used += packet.bytes.0;
        }
        Verdict::admit_if(fits)
    }

    fn on_departure(&mut self, _port: PortIndex, bytes: Bytes) {
        self.used -= bytes.0;
    }

    fn couples_ports(&self) -> bool {
        true
    }
}

#[test]
fn a_shared_buffer_couples_the_ports_of_a_switch() {
    let mut plan = star_plan(7, 0);
    for sender in 3..7 {
        for receiver in [0, 1, 2] {
            add_flow(&mut plan, sender, receiver, Some(60_000), Time(0), Handshake::Counted);
        }
    }
    plan.record.queue_statistics = true;
    let (run, _) = run_both(&plan, |plan, _| {
        plan.network.switches[0].buffers[0] = BufferChoice::custom("shared", |context| Box::new(Shared::new(context)));
    });
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
        let run = crate::support::run_both(&plan);
        assert_eq!(run.flows[1].deadline, Some(begun + Duration::from_us(2_000)));
        assert_eq!(run.flows[1].deadline_met(run.end), met, "{stop_us}");
        assert_eq!(run.flows[..].get(3).and_then(|flow| flow.deadline), None);
    }
}

/// Writes down what it hears of requests and leaves everything else alone.
#[derive(Clone, Debug)]
struct Listening {
    log: Log,
    /// Of which no window was announced since.
    asked: Option<FlowIndex>,
}

impl Receiver for Listening {
    fn on_open(&mut self, _now: Time, _flow: FlowIndex) {}

    fn on_request(&mut self, now: Time, flow: FlowIndex, response: &Message) {
        write(&self.log, format!("{now} request {} for {}", flow.0, response.size.unwrap()));
        self.asked = Some(flow);
    }

    fn on_message(&mut self, _now: Time, _flow: FlowIndex, _message: &Message) {}
    fn on_data(&mut self, _now: Time, _flow: FlowIndex, _arrival: &Arrival) {}
    fn on_complete(&mut self, _now: Time, _flow: FlowIndex) {}
    fn on_close(&mut self, _now: Time, _flow: FlowIndex) {}

    fn gate(&mut self, _now: Time, _flow: FlowIndex, _cause: AckCause) -> Gate {
        Gate::Open
    }

    fn window(&mut self, now: Time, flow: FlowIndex) -> Option<Bytes> {
        if self.asked.take_if(|asked| *asked == flow).is_some() {
            write(&self.log, format!("{now} window {}", flow.0));
        }
        None
    }

    fn on_ack_sent(&mut self, _now: Time, _flow: FlowIndex, _sent: &SentAck) {}

    fn poll(&mut self, _now: Time) -> Option<Action> {
        None
    }
}

/// What a request asks for is known before the window that its SYN announces.
#[test]
fn a_receiver_hears_of_the_requests_of_its_host_with_the_size_it_expects() {
    let listen = |plan: &Plan| {
        let (_, log) = run_both(plan, |plan, log| {
            plan.classes[0].stack.receiver = ReceiverChoice::custom("listening", move |_| {
                Box::new(Listening { log: Arc::clone(&log), asked: None })
            });
        });
        log
    };
    let mut plan = star_plan(3, 50);
    add_job(&mut plan, 0, Time::from_us(7), &[(1, 1000, Duration::ZERO), (2, 3000, Duration::ZERO)]);
    let asked = |flow, size| [format!("7us request {flow} for {size}B"), format!("7us window {flow}")];
    assert_eq!(listen(&plan), [asked(0, 1000), asked(1, 3000)].concat());

    let mut plan = star_plan(3, 50);
    add_rounds(&mut plan, 2, 1460, 2, |_, _| Duration::ZERO);
    let requests = listen(&plan).iter().filter(|line| line.contains("for 1460B")).count();
    assert_eq!(requests, 4, "on connections that stay open, once for each round and worker");
}
