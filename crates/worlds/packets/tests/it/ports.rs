//! What ports can do to packets, with live traffic: trim and evict them, send them by class, and write telemetry into them.

use std::cell::RefCell;
use std::sync::Arc;

use crate::support::{
    add_flow, cable, dctcp, follow_packets, mark_at, new_reno, no_marks, packets, plan, run_both, star, tcp,
};
use incast_plan::{Handshake, Plan};
use incast_protocols::sender::{Ack, Congestion, MarkResponse, Restart, Sender, SenderChoice, SenderView, Windows};
use incast_protocols::switch::buffer::{Buffer, BufferChoice, BufferContext, PortIndex, Verdict};
use incast_protocols::switch::marker::MarkerChoice;
use incast_protocols::switch::scheduler::{SchedulerChoice, deficit_round_robin, strict_priority};
use incast_protocols::switch::telemetry::Telemetry;
use incast_protocols::switch::{PacketView, QueueState};
use incast_protocols::{Bytes, Duration, Message, Priority, Rate, Time};

/// The plan with a buffer of the test's own at every port.
fn with_buffer<B: Buffer + Send + Sync + 'static>(plan: &mut Plan, build: fn(&BufferContext) -> B) {
    let choice = BufferChoice::custom("own", move |context| Box::new(build(context)));
    for buffer in plan.network.switches.iter_mut().flat_map(|switch| &mut switch.buffers) {
        *buffer = choice.clone();
    }
}

/// Seven senders to host 0 and, if `spread`, to two others.
fn incast_plan(spread: bool) -> Plan {
    let network = star(10, cable(1_000_000_000, Duration::from_us(25)), &packets(1), &mark_at(30));
    let mut plan = plan(network, dctcp(), tcp());
    for sender in 3..10 {
        for receiver in 0..if spread { 3 } else { 1 } {
            add_flow(&mut plan, sender, receiver, Some(90_000), Time(0), Handshake::Counted);
        }
    }
    plan.record.events = true;
    plan.record.queue_statistics = true;
    plan.record.queue_series = vec![1];
    follow_packets(&mut plan);
    plan
}

/// Trims what finds more than ten packets waiting, drops what finds more than a hundred.
#[derive(Clone, Debug)]
struct Trimming;

impl Buffer for Trimming {
    fn admit(&mut self, _port: PortIndex, queue: &QueueState, packet: &PacketView) -> Verdict {
        assert!(packet.payload < packet.bytes && packet.class <= 7 && packet.flow < 21);
        match queue.waiting_packets {
            0..=10 => Verdict::Admit,
            11..=100 => Verdict::Trim,
            _ => Verdict::Drop,
        }
    }
}

/// The header of a trimmed packet reaches its host, which takes no notice: for TCP its payload was dropped. Each packet is in
/// the books once, at the end and at any time before.
#[test]
fn a_trimmed_packet_is_a_drop_to_tcp_and_in_the_books() {
    let mut plan = incast_plan(false);
    with_buffer(&mut plan, |_| Trimming);
    let run = run_both(&plan);
    assert!(run.flows.iter().all(|flow| flow.end.is_some() && flow.delivered == Bytes(90_000)));
    let headers = run.ports[0].packets - run.flows.len() as u64;
    assert!(run.totals.dropped > 50 && headers > 0, "{:?}", run.totals);
    assert_eq!(run.totals.dropped, run.ports.iter().map(|port| port.drops).sum::<u64>());
    assert_eq!(run.totals.sent, run.totals.delivered + run.totals.dropped);
    let retransmitted: u32 = run.flows.iter().map(|flow| flow.losses.retransmitted_packets).sum();
    assert!(u64::from(retransmitted) >= run.totals.dropped);
    for us in [200, 500, 900, 1_500] {
        plan.stop_at = Some(Time::from_us(us));
        let cut = run_both(&plan);
        assert!(cut.totals.in_network > 0 && cut.totals.dropped > 0, "{us}: {:?}", cut.totals);
    }
    // Wires that lose headers, too.
    plan.stop_at = None;
    for link in &mut plan.network.links {
        link.loss = 0.02;
    }
    let lossy = run_both(&plan);
    assert!(lossy.totals.lost_on_wire > 0 && lossy.flows.iter().all(|flow| flow.end.is_some()));
}

/// A shared memory in which the longest queue makes room: "push-out" (Choudhury and Hahne, section II).
#[derive(Clone, Debug)]
struct PushOut {
    free: u64,
    held: Vec<u64>,
    last: Time,
}

impl PushOut {
    fn new(context: &BufferContext) -> Self {
        Self { free: 40_000, held: vec![0; context.ports as usize], last: Time(0) }
    }
}

impl Buffer for PushOut {
    fn admit(&mut self, PortIndex(port): PortIndex, queue: &QueueState, packet: &PacketView) -> Verdict {
        assert!(self.last <= queue.now, "arrivals come in order of time");
        self.last = queue.now;
        assert!(queue.waiting_bytes.0 == self.held[port as usize], "{queue:?}");
        if let Some(free) = self.free.checked_sub(packet.bytes.0) {
            self.free = free;
            self.held[port as usize] += packet.bytes.0;
            return Verdict::Admit;
        }
        let longest = (0..self.held.len()).max_by_key(|&at| (self.held[at], at)).unwrap_or(0) as u32;
        if longest == port { Verdict::Drop } else { Verdict::Evict(PortIndex(longest)) }
    }

    fn on_departure(&mut self, PortIndex(port): PortIndex, Bytes(bytes): Bytes) {
        self.free += bytes;
        self.held[port as usize] -= bytes;
    }

    fn couples_ports(&self) -> bool {
        true
    }
}

#[test]
fn the_longest_queue_of_a_shared_memory_makes_room_for_others() {
    let mut plan = incast_plan(true);
    with_buffer(&mut plan, PushOut::new);
    // A late flow to a port of its own, while three others are congested.
    add_flow(&mut plan, 3, 9, Some(20_000), Time::from_us(600), Handshake::Before);
    let run = run_both(&plan);
    assert!(run.flows.iter().all(|flow| flow.end.is_some()));
    assert!(run.totals.dropped > 50, "{:?}", run.totals);
    let late = run.flows[..].last().unwrap();
    assert_eq!(late.losses.retransmitted_packets, 0, "{late:?}");
    plan.stop_at = Some(Time::from_us(900));
    assert!(run_both(&plan).totals.in_network > 0);
}

/// Evicts at another port than its own although it shares no memory, or with nothing to evict: the packet is dropped.
#[derive(Clone, Debug)]
struct Confused {
    victim: u32,
}

impl Buffer for Confused {
    fn admit(&mut self, _port: PortIndex, queue: &QueueState, _packet: &PacketView) -> Verdict {
        if queue.waiting_packets < 10 { Verdict::Admit } else { Verdict::Evict(PortIndex(self.victim)) }
    }
}

#[test]
fn what_cannot_be_evicted_is_not_and_the_arriving_packet_is_dropped() {
    for (victim, expected) in [(0, "evicted"), (1, "dropped"), (77, "dropped")] {
        let mut plan = incast_plan(false);
        with_buffer(
            &mut plan,
            match victim {
                0 => |_| Confused { victim: 0 },
                1 => |_| Confused { victim: 1 },
                _ => |_| Confused { victim: 77 },
            },
        );
        let run = run_both(&plan);
        assert!(run.flows.iter().all(|flow| flow.end.is_some()), "{expected}");
        assert!(run.totals.dropped > 20 && run.ports[0].drops == run.totals.dropped);
    }
}

fn with_scheduler(plan: &mut Plan, scheduler: &SchedulerChoice) {
    for port in plan.network.links.iter_mut().filter_map(|link| link.port.as_mut().map(Arc::make_mut)) {
        port.scheduler = scheduler.clone();
    }
}

/// Four long flows to host 0, and short ones of a higher priority while they last. Returns the longest completion of a short
/// flow and the bytes of the long ones.
fn mixed(scheduler: &SchedulerChoice) -> (Duration, u64) {
    let network = star(12, cable(1_000_000_000, Duration::from_us(10)), &packets(400), &no_marks());
    let mut plan = plan(network, new_reno(), tcp());
    for sender in 1..5 {
        add_flow(&mut plan, sender, 0, None, Time(0), Handshake::Before);
    }
    for sender in 5..12 {
        let start = Time::from_us(8_000 + 300 * u64::from(sender));
        add_flow(&mut plan, sender, 0, Some(14_600), start, Handshake::Before);
        let send = plan.sends.last_mut().unwrap();
        send.set_message(Message { priority: Some(Priority(1)), ..send.message() });
    }
    plan.stop_at = Some(Time::from_us(20_000));
    with_scheduler(&mut plan, scheduler);
    let run = run_both(&plan);
    let short = run.flows[4..].iter().map(|flow| flow.end.unwrap().since(flow.start)).max().unwrap();
    (short, run.flows[..4].iter().map(|flow| flow.delivered.0).sum())
}

/// Ten packets take 120 us on an idle line of 1 Gbit/s, and four propagation delays and one packet of somebody else's come on top.
#[test]
fn short_flows_of_a_higher_priority_pass_a_queue_of_long_ones() {
    let (fifo, long_with_fifo) = mixed(&SchedulerChoice::default());
    let (strict, long_with_strict) = mixed(&SchedulerChoice::StrictPriority(strict_priority::Config { queues: 2 }));
    assert!(fifo > Duration::from_us(2_000), "{fifo}");
    assert!(strict < Duration::from_us(200), "{strict}");
    assert!(long_with_strict as f64 > 0.95 * long_with_fifo as f64, "{long_with_strict} {long_with_fifo}");
}

/// Nine flows of one class and one of another share the link in halves.
#[test]
fn classes_share_a_link_by_deficit_round_robin() {
    let network = star(11, cable(1_000_000_000, Duration::from_us(10)), &packets(400), &mark_at(20));
    let mut plan = plan(network, dctcp(), tcp());
    for sender in 1..11 {
        add_flow(&mut plan, sender, 0, None, Time(0), Handshake::Before);
    }
    let send = plan.sends.last_mut().unwrap();
    send.set_message(Message { priority: Some(Priority(1)), ..send.message() });
    plan.stop_at = Some(Time::from_us(50_000));
    with_scheduler(&mut plan, &SchedulerChoice::DeficitRoundRobin(deficit_round_robin::Config::default()));
    let run = run_both(&plan);
    let alone = run.flows[9].delivered.0 as f64;
    let others: u64 = run.flows[..9].iter().map(|flow| flow.delivered.0).sum();
    let share = alone / (alone + others as f64);
    assert!((0.45..0.52).contains(&share), "{share}");
}

thread_local! {
    static HEARD: RefCell<Vec<(Time, Telemetry)>> = const { RefCell::new(Vec::new()) };
}

/// Keeps ten segments in flight and writes down the telemetry that it hears.
#[derive(Clone, Debug)]
struct Listening {
    wants: bool,
}

impl Sender for Listening {
    fn on_ack(&mut self, view: &SenderView, ack: &Ack) -> MarkResponse {
        assert!(self.wants || ack.telemetry.is_none());
        HEARD.with_borrow_mut(|heard| heard.extend(ack.telemetry.map(|telemetry| (view.now, *telemetry))));
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

    fn send_window(&self, _view: &SenderView) -> Bytes {
        Bytes(14_600)
    }

    fn windows(&self) -> Windows {
        Windows { cwnd: Bytes(14_600), ssthresh: Windows::UNLIMITED }
    }

    fn set_windows(&mut self, _windows: Windows) {}

    fn cut(&self, _view: &SenderView, windows: Windows, _why: Congestion) -> Windows {
        windows
    }

    fn wants_telemetry(&self) -> bool {
        self.wants
    }
}

fn listening(wants: bool) -> SenderChoice {
    SenderChoice::custom("listening", move |_| Box::new(Listening { wants }))
}

/// Two leaves and a spine: three ports on the way, the last of which four senders share.
#[test]
fn telemetry_of_each_hop_comes_back_with_the_ack() {
    let marker = MarkerChoice::Telemetry(Default::default());
    let wire = cable(1_000_000_000, Duration::from_us(10));
    let network = crate::support::leaf_spine(2, 4, 1, wire, &packets(100), &marker);
    let mut plan = plan(network, new_reno(), tcp());
    for sender in 4..8 {
        add_flow(&mut plan, sender, 0, Some(200_000), Time(0), Handshake::Before);
    }
    plan.classes[0].stack.sender = listening(false);
    let quiet = run_both(&plan);
    assert!(HEARD.take().is_empty());
    plan.classes[0].stack.sender = listening(true);
    let run = run_both(&plan);
    assert_eq!(run, quiet, "telemetry takes no time and no room on the wire");
    let heard = HEARD.take();
    let (sweep, event_loop) = heard.split_at(heard.len() / 2);
    let sorted = |half: &[(Time, Telemetry)]| {
        let mut half: Vec<_> = half.iter().map(|(now, telemetry)| (*now, format!("{telemetry:?}"))).collect();
        half.sort();
        half
    };
    assert_eq!(sorted(sweep), sorted(event_loop));
    // Every segment of 1460 bytes is acknowledged by itself.
    assert_eq!(sweep.len(), 4 * 137);
    let last_port = run.ports.iter().find(|port| port.to == "host 0").unwrap();
    let mut longest = Bytes::ZERO;
    for (now, telemetry) in sweep {
        let [first, second, last] = telemetry.hops() else { panic!("{telemetry:?}") };
        assert!(first.time < second.time && second.time < last.time && last.time < *now);
        assert!(telemetry.hops().iter().all(|hop| hop.rate == Rate(1_000_000_000)));
        assert!(last.transmitted <= last_port.bytes);
        longest = longest.max(first.queue.max(last.queue));
    }
    assert!(longest >= Bytes(20 * 1500), "{longest:?}");
    let most = sweep.iter().map(|(_, telemetry)| telemetry.hops()[2].transmitted).max().unwrap();
    assert!(most.0 > 800_000 && most <= last_port.bytes);
}

/// SACK options and telemetry share the numbers of an end's options: with losses both arrive.
#[test]
fn telemetry_and_sack_travel_together() {
    let marker = MarkerChoice::Telemetry(Default::default());
    let mut plan = plan(
        star(6, cable(1_000_000_000, Duration::from_us(10)), &packets(8), &marker),
        new_reno(),
        incast_plan::Tcp { sack: true, ..tcp() },
    );
    for sender in 1..6 {
        add_flow(&mut plan, sender, 0, Some(300_000), Time(0), Handshake::Before);
    }
    plan.classes[0].stack.sender = listening(false);
    let quiet = run_both(&plan);
    plan.classes[0].stack.sender = listening(true);
    let run = run_both(&plan);
    assert_eq!(run, quiet);
    assert!(run.totals.dropped > 0 && run.flows.iter().all(|flow| flow.end.is_some()));
    assert!(HEARD.take().iter().all(|(_, telemetry)| telemetry.hops().len() == 1));
}
