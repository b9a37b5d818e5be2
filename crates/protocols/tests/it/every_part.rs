//! Every registered echo, marker, buffer and application, driven through random events, keeps what holds
//! for all parts of its place. A new one is tested from the moment it has its line in the registry.

use std::collections::{BTreeSet, VecDeque};

use incast_protocols::analysis::batch::Bottleneck;
use incast_protocols::application::{
    Application, ApplicationChoice, ApplicationContext, Grant, Outcome, Request, RequestId,
};
use incast_protocols::echo::{Echo, EchoChoice, EchoContext, Feedback};
use incast_protocols::switch::buffer::dynamic_threshold::{self, Alpha};
use incast_protocols::switch::buffer::static_limit::{self, Admit, Static};
use incast_protocols::switch::buffer::{Ample, Buffer, BufferChoice, BufferContext, PortIndex, Verdict};
use incast_protocols::switch::marker::ecn_threshold::{self, MarkPoint};
use incast_protocols::switch::marker::ein::{self, Average, Idle, WarmUp};
use incast_protocols::switch::marker::{Marker, MarkerChoice, MarkerContext};
use incast_protocols::switch::{Marks, PacketView, QueueState, Quiet};
use incast_protocols::{Amount, Bytes, Capability, Duration, PartInfo, Rate, Time};
use proptest::prelude::*;

const RATE: Rate = Rate(1_000_000_000);

fn provides(part: &PartInfo, capability: Capability) -> bool {
    part.provides.contains(&capability)
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, cases: 1000, ..ProptestConfig::default() }
}

/// A data segment that arrives at a connection.
#[derive(Clone, Copy, Debug)]
struct Segment {
    marks: Marks,
    cwr: bool,
    /// Whether the ACK that it causes, if any, is held back by the receiver's controller.
    held: bool,
}

fn segments(held: f64, cwr: f64) -> impl Strategy<Value = Vec<Segment>> {
    let marks = (prop::bool::weighted(0.3), prop::bool::weighted(0.2)).prop_map(|(ce, ein)| Marks { ce, ein });
    let segment = (marks, prop::bool::weighted(cwr), prop::bool::weighted(held));
    prop::collection::vec(segment.prop_map(|(marks, cwr, held)| Segment { marks, cwr, held }), 1..100)
}

/// The connection's part of the contract with its echo: delayed ACKs, and one ACK that may be held.
struct Acks<E> {
    echo: E,
    every: usize,
    /// Marks of the segments that wait for an ACK.
    pending: Vec<Marks>,
    held: Option<Feedback>,
    /// CWR settles what was not said yet, as the sender has answered.
    cwr_settles: bool,
    /// Marks that arrived since the last ACK left.
    unsaid: Marks,
    /// The ACKs that left.
    sent: Vec<SentAck>,
}

struct SentAck {
    /// Marks of the segments it covers.
    covers: Vec<Marks>,
    /// The marks it has to speak of.
    unsaid: Marks,
    says: Feedback,
}

impl<E: Echo + Clone> Acks<E> {
    fn new(echo: E, part: &PartInfo, every: usize) -> Self {
        let cwr_settles = !provides(part, Capability::ExactCongestionEcho);
        Self { echo, every, pending: Vec::new(), held: None, cwr_settles, unsaid: Marks::NONE, sent: Vec::new() }
    }

    fn arrive(&mut self, segment: Segment) {
        let changes = self.echo.would_change(segment.marks);
        if changes && !self.pending.is_empty() {
            self.acknowledge(segment.held);
        }
        self.echo.on_data(segment.marks, segment.cwr);
        self.pending.push(segment.marks);
        if segment.cwr && self.cwr_settles {
            self.unsaid.ce = false;
        }
        self.unsaid.ce |= segment.marks.ce;
        self.unsaid.ein |= segment.marks.ein;
        if changes || self.pending.len() >= self.every {
            self.acknowledge(segment.held);
        }
    }

    fn acknowledge(&mut self, hold: bool) {
        if let Some(replaced) = self.held.take() {
            self.echo.on_replaced(replaced);
        }
        let says = self.echo.on_ack();
        if hold {
            self.held = Some(says);
        } else {
            let (covers, unsaid) = (std::mem::take(&mut self.pending), std::mem::take(&mut self.unsaid));
            self.sent.push(SentAck { covers, unsaid, says });
        }
    }
}

proptest! {
    #![proptest_config(config())]

    /// What was marked is said by the next ACK that leaves, held and replaced ACKs notwithstanding. Only
    /// CWR makes an echo that is not exact forget: the sender has answered.
    #[test]
    fn no_echo_loses_a_mark(segments in segments(0.3, 0.1), every in 1..=4_usize) {
        for choice in EchoChoice::defaults() {
            let part = choice.info();
            let mut acks = Acks::new(choice.build(&EchoContext::default()), &part, every);
            for &segment in &segments {
                acks.arrive(segment);
            }
            for SentAck { unsaid, says, .. } in &acks.sent {
                if provides(&part, Capability::CongestionEcho) {
                    prop_assert!(!unsaid.ce || says.ece, "\"{}\" lost a congestion mark", part.name);
                }
                if provides(&part, Capability::IncastEcho) {
                    prop_assert!(!unsaid.ein || says.ein, "\"{}\" lost an incast mark", part.name);
                }
            }
        }
    }

    #[test]
    fn no_echo_invents_a_mark(segments in segments(0.3, 0.1), every in 1..=4_usize) {
        for choice in EchoChoice::defaults() {
            let part = choice.info();
            let mut acks = Acks::new(choice.build(&EchoContext::default()), &part, every);
            let mut seen = Marks::NONE;
            for &segment in &segments {
                seen.ce |= segment.marks.ce && provides(&part, Capability::CongestionEcho);
                seen.ein |= segment.marks.ein && provides(&part, Capability::IncastEcho);
                acks.arrive(segment);
                for SentAck { says, .. } in acks.sent.drain(..) {
                    prop_assert!(!says.ece || seen.ce, "\"{}\" invented a congestion mark", part.name);
                    prop_assert!(!says.ein || seen.ein, "\"{}\" invented an incast mark", part.name);
                }
            }
        }
    }

    /// RFC 8257 section 3.2: ACKs with ECE cover the marked segments and no others.
    #[test]
    fn an_exact_echo_says_of_every_segment_whether_it_was_marked(
        segments in segments(0.0, 0.1),
        every in 1..=4_usize,
    ) {
        for choice in EchoChoice::defaults() {
            let part = choice.info();
            if !provides(&part, Capability::ExactCongestionEcho) {
                continue;
            }
            let mut acks = Acks::new(choice.build(&EchoContext::default()), &part, every);
            for &segment in &segments {
                acks.arrive(segment);
            }
            for SentAck { covers, says, .. } in &acks.sent {
                for marks in covers {
                    prop_assert_eq!(marks.ce, says.ece, "\"{}\": {:?}", part.name, covers);
                }
            }
        }
    }

    /// What an echo says of the future comes true: a segment that changes nothing leaves what the next ACK
    /// says, and the segment just taken in changes nothing if it comes again.
    #[test]
    fn an_echo_knows_what_would_change_it(segments in segments(0.3, 0.0), every in 1..=4_usize) {
        for choice in EchoChoice::defaults() {
            let part = choice.info();
            let mut acks = Acks::new(choice.build(&EchoContext::default()), &part, every);
            for &segment in &segments {
                let (mut before, mut after) = (acks.echo.clone(), acks.echo.clone());
                after.on_data(segment.marks, false);
                prop_assert!(!after.would_change(segment.marks), "\"{}\"", part.name);
                if provides(&part, Capability::ExactCongestionEcho) && !acks.echo.would_change(segment.marks) {
                    prop_assert_eq!(before.on_ack(), after.on_ack(), "\"{}\"", part.name);
                }
                acks.arrive(segment);
            }
        }
    }
}

/// Markers as registered, and with parameters that make them look at other things.
fn markers() -> Vec<MarkerChoice> {
    let mut markers = MarkerChoice::defaults();
    for threshold in
        [Amount::Packets(0), Amount::Packets(3), Amount::Bytes(Bytes(4500)), Amount::Bytes(Bytes(u64::MAX))]
    {
        for at in [MarkPoint::Enqueue, MarkPoint::Dequeue] {
            let count_in_service = at == MarkPoint::Enqueue;
            markers.push(MarkerChoice::EcnThreshold(ecn_threshold::Config { threshold, count_in_service, at }));
        }
    }
    for average in [Average::PerSample, Average::Telescoped, Average::PacketTime] {
        markers.push(MarkerChoice::Ein(ein::Config { average, samples: 3, ..Default::default() }));
    }
    let at_dequeue = ecn_threshold::Config { at: MarkPoint::Dequeue, ..Default::default() };
    markers.push(MarkerChoice::Ein(ein::Config { ecn: at_dequeue, samples: 3, ..Default::default() }));
    let (warm_up, idle) = (WarmUp::Full, Idle::Keep);
    markers.push(MarkerChoice::Ein(ein::Config { warm_up, idle, samples: 3, ..Default::default() }));
    markers
}

/// Asks `marker` twice, on copies, and checks what holds for every answer.
fn marks<M: Marker + Clone>(
    part: &PartInfo,
    marker: &mut M,
    packet: &PacketView,
    ask: impl Fn(&mut M, &PacketView) -> Marks,
) -> Marks {
    let marked = PacketView { marks: Marks { ce: packet.ecn_capable, ein: true }, ..*packet };
    let on_marked = ask(&mut marker.clone(), &marked);
    let answer = ask(marker, packet);
    assert_eq!(answer, on_marked, "\"{}\" decides by marks that others set", part.name);
    assert!(packet.ecn_capable || !answer.ce, "\"{}\" set CE on a packet without ECT", part.name);
    assert!(
        !answer.ce || provides(part, Capability::CongestionMarks),
        "\"{}\" does not say that it sets CE",
        part.name
    );
    assert!(!answer.ein || provides(part, Capability::IncastMarks), "\"{}\" does not say that it sets EIN", part.name);
    answer
}

fn packets() -> impl Strategy<Value = Vec<(u64, u64, bool)>> {
    // (time since the one before in ns, bytes, ECT)
    prop::collection::vec((prop_oneof![Just(0_u64), 0..30_000_u64], 54..=9000_u64, any::<bool>()), 1..200)
}

/// One port with everything in it, driven packet by packet.
struct Port {
    waiting: VecDeque<(u64, bool)>,
    in_service: u64,
    busy_until: u64,
}

impl Port {
    fn new() -> Self {
        Self { waiting: VecDeque::new(), in_service: 0, busy_until: 0 }
    }

    fn state(&self, now: u64) -> QueueState {
        QueueState {
            now: Time(now),
            waiting_packets: self.waiting.len() as u32,
            waiting_bytes: Bytes(self.waiting.iter().map(|packet| packet.0).sum()),
            in_service: Bytes(self.in_service),
            rate: RATE,
        }
    }

    /// Begins every transmission that is due by `now`.
    fn advance(&mut self, now: u64, mut departs: impl FnMut(&QueueState, u64, bool)) {
        while self.busy_until <= now {
            self.in_service = 0;
            let Some((bytes, ecn_capable)) = self.waiting.pop_front() else { break };
            let begins = self.busy_until;
            self.in_service = bytes;
            departs(&self.state(begins), bytes, ecn_capable);
            self.busy_until = begins + RATE.time_for(Bytes(bytes)).0;
        }
    }

    fn enqueue(&mut self, now: u64, bytes: u64, ecn_capable: bool) {
        if self.in_service == 0 && self.waiting.is_empty() {
            self.busy_until = now;
        }
        self.waiting.push_back((bytes, ecn_capable));
    }
}

fn packet(bytes: u64, ecn_capable: bool) -> PacketView {
    PacketView { bytes: Bytes(bytes), ecn_capable, ..PacketView::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_marker_marks_what_may_be_marked_and_looks_at_no_marks(packets in packets()) {
        for choice in markers() {
            let part = choice.info();
            let mut marker = choice.build(&MarkerContext::alone(RATE));
            let (mut port, mut now) = (Port::new(), 0);
            for &(gap, bytes, ecn_capable) in &packets {
                now += gap * 1000;
                port.advance(now, |queue, bytes, ecn_capable| {
                    let leaving = packet(bytes, ecn_capable);
                    marks(&part, &mut marker, &leaving, |marker, packet| marker.on_dequeue(queue, packet));
                });
                let queue = port.state(now);
                let arriving = packet(bytes, ecn_capable);
                if !marker.drops(&queue, &arriving) {
                    marks(&part, &mut marker, &arriving, |marker, packet| marker.on_enqueue(&queue, packet));
                    port.enqueue(now, bytes, ecn_capable);
                }
            }
        }
    }

    /// A queue that no switch has is still no reason to panic.
    #[test]
    fn no_marker_and_no_buffer_panics_whatever_the_queue(
        states in prop::collection::vec((extreme(), extreme(), extreme(), extreme(), any::<bool>()), 1..20),
    ) {
        for choice in markers() {
            let part = choice.info();
            let mut marker = choice.build(&MarkerContext::alone(RATE));
            let mut now = 0;
            for &(step, waiting, in_service, bytes, ecn_capable) in &states {
                now = step.max(now);
                let queue = extreme_queue(now, waiting, in_service);
                let packet = packet(bytes, ecn_capable);
                if !marker.drops(&queue, &packet) {
                    marks(&part, &mut marker, &packet, |marker, packet| marker.on_enqueue(&queue, packet));
                }
                marks(&part, &mut marker, &packet, |marker, packet| marker.on_dequeue(&queue, packet));
            }
        }
        for choice in buffers() {
            let mut buffer = choice.build(&BufferContext { ports: 1 });
            for &(now, waiting, in_service, bytes, ecn_capable) in &states {
                let queue = extreme_queue(now, waiting, in_service);
                if buffer.admit(PortIndex(0), &queue, &packet(bytes, ecn_capable)) == Verdict::Admit {
                    buffer.on_departure(PortIndex(0), Bytes(bytes));
                }
            }
        }
    }
}

/// Sees to it that what `part` says is quiet really is: nothing decided, nothing learnt.
fn assert_quiet<M: Clone + std::fmt::Debug>(part: &PartInfo, before: &M, silent: impl Fn(&mut M) -> bool) {
    let mut after = before.clone();
    assert!(silent(&mut after), "\"{}\" decides although it says that it need not be asked", part.name);
    assert_eq!(format!("{before:?}"), format!("{after:?}"), "\"{}\" learns although it need not be asked", part.name);
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_part_that_need_not_be_asked_neither_decides_nor_learns(packets in packets()) {
        let bytes_at = |queue: &QueueState, bytes| Bytes(queue.bytes(true).0 + bytes);
        for choice in markers() {
            let part = choice.info();
            let mut marker = choice.build(&MarkerContext::alone(RATE));
            let (quiet, sees_departures) = (marker.quiet(), marker.sees_departures());
            let (mut port, mut now) = (Port::new(), 0);
            for &(gap, bytes, ecn_capable) in &packets {
                now += gap * 1000;
                port.advance(now, |queue, bytes, ecn_capable| {
                    let leaving = packet(bytes, ecn_capable);
                    if !sees_departures {
                        assert_quiet(&part, &marker, |marker| marker.on_dequeue(queue, &leaving) == Marks::NONE);
                    }
                    let (mut unseen, before) = (marker.clone(), format!("{marker:?}"));
                    let is_taken = unseen.takes_departure(queue.now, queue.bytes(true), Bytes(bytes));
                    let marks = marker.on_dequeue(queue, &leaving);
                    assert!(!is_taken || marks == Marks::NONE, "\"{}\" would have marked", part.name);
                    let expected = if is_taken { format!("{marker:?}") } else { before };
                    assert_eq!(format!("{unseen:?}"), expected, "\"{}\" is not as if it had seen it", part.name);
                });
                let (queue, arriving) = (port.state(now), packet(bytes, ecn_capable));
                if quiet.covers(queue.waiting_packets, bytes_at(&queue, bytes)) {
                    assert_quiet(&part, &marker, |marker| {
                        !marker.drops(&queue, &arriving) && marker.on_enqueue(&queue, &arriving) == Marks::NONE
                    });
                }
                if !marker.drops(&queue, &arriving) {
                    marker.on_enqueue(&queue, &arriving);
                    port.enqueue(now, bytes, ecn_capable);
                }
            }
            prop_assert_eq!((quiet, sees_departures), (marker.quiet(), marker.sees_departures()));
        }
        for choice in buffers() {
            let part = choice.info();
            let mut buffer = choice.build(&BufferContext { ports: 1 });
            let quiet = buffer.quiet();
            let (mut port, mut now) = (Port::new(), 0);
            for &(gap, bytes, ecn_capable) in &packets {
                now += gap * 1000;
                port.advance(now, |_, bytes, _| buffer.on_departure(PortIndex(0), Bytes(bytes)));
                let (queue, arriving) = (port.state(now), packet(bytes, ecn_capable));
                if quiet.covers(queue.waiting_packets, bytes_at(&queue, bytes)) {
                    assert_quiet(&part, &buffer, |buffer| buffer.admit(PortIndex(0), &queue, &arriving) == Verdict::Admit);
                }
                if buffer.admit(PortIndex(0), &queue, &arriving) == Verdict::Admit {
                    port.enqueue(now, bytes, ecn_capable);
                }
            }
            prop_assert_eq!(quiet, buffer.quiet());
        }
    }
}

/// Ports spend most of their time in these states, so that most packets pay for no question.
#[test]
fn the_usual_parts_need_not_be_asked_about_short_queues() {
    let marker = |choice: MarkerChoice| choice.build(&MarkerContext::alone(RATE));
    let short = |quiet: Quiet, packets: u32| quiet.covers(packets, Bytes(1500 * (u64::from(packets) + 2)));
    let usual = MarkerChoice::defaults()
        .into_iter()
        .filter(|choice| ["none", "ecn-threshold", "ein"].contains(&choice.info().name));
    for choice in usual {
        assert!(short(marker(choice.clone()).quiet(), 20), "{:?}", choice.info().name);
    }
    let threshold =
        |at, threshold| MarkerChoice::EcnThreshold(ecn_threshold::Config { threshold, at, ..Default::default() });
    let at_enqueue = marker(threshold(MarkPoint::Enqueue, Amount::Packets(20)));
    assert!(short(at_enqueue.quiet(), 19) && !short(at_enqueue.quiet(), 20) && !at_enqueue.sees_departures());
    let at_dequeue = marker(threshold(MarkPoint::Dequeue, Amount::Packets(20)));
    assert!(short(at_dequeue.quiet(), 1000) && at_dequeue.sees_departures());
    let limit =
        |limit| Static::new(&static_limit::Config { limit, ..Default::default() }, &BufferContext { ports: 1 }).quiet();
    assert!(short(limit(Amount::Packets(250)), 249) && !short(limit(Amount::Packets(250)), 250));
    assert!(short(limit(Amount::Bytes(Bytes(15_000))), 8) && !short(limit(Amount::Bytes(Bytes(15_000))), 9));
    let shared = BufferChoice::DynamicThreshold(Default::default()).build(&BufferContext { ports: 2 });
    assert_eq!(shared.quiet(), Quiet::NEVER);
}

fn extreme() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::from(u32::MAX)), Just(u64::MAX - 1), Just(u64::MAX), any::<u64>()]
}

fn extreme_queue(now: u64, waiting: u64, in_service: u64) -> QueueState {
    let waiting_packets = u32::try_from(waiting).unwrap_or(u32::MAX);
    QueueState {
        now: Time(now),
        waiting_packets,
        waiting_bytes: Bytes(waiting),
        in_service: Bytes(in_service),
        rate: RATE,
    }
}

fn static_limits() -> Vec<static_limit::Config> {
    let mut limits = vec![static_limit::Config::default()];
    for limit in [Amount::Packets(1), Amount::Packets(5), Amount::Bytes(Bytes(9000)), Amount::Bytes(Bytes(20_001))] {
        for count_in_service in [false, true] {
            for admit in [Admit::IfItFits, Admit::IfBelow] {
                limits.push(static_limit::Config { limit, count_in_service, admit });
            }
        }
    }
    limits
}

fn buffers() -> Vec<BufferChoice> {
    BufferChoice::defaults().into_iter().chain(static_limits().into_iter().map(BufferChoice::Static)).collect()
}

/// What is due at the ports of a buffer leaves it.
fn depart(ports: &mut [Port], now: u64, buffer: &mut impl Buffer) {
    for (index, port) in (0..).zip(ports) {
        port.advance(now, |_, bytes, _| buffer.on_departure(PortIndex(index), Bytes(bytes)));
    }
}

/// Shared memories of a few packets.
fn small_memories() -> impl Iterator<Item = BufferChoice> {
    [(0.5, 0, 1), (1.0, 0, 1), (8.0, 3000, 1), (0.3, 1000, 256)].into_iter().map(|(alpha, reserve, cell)| {
        let alpha = Alpha::try_from(alpha).expect("it is in range");
        let (size, reserve, cell) = (Bytes(60_000), Bytes(reserve), Bytes(cell));
        BufferChoice::DynamicThreshold(dynamic_threshold::Config { size, alpha, reserve, cell })
    })
}

proptest! {
    #![proptest_config(config())]

    /// Drop-tail is exact on both sides: never more than the limit, and no drop while there is room.
    #[test]
    fn a_static_limit_is_never_exceeded_and_never_wasted(packets in packets()) {
        for config in static_limits() {
            let mut buffer = Static::new(&config, &BufferContext { ports: 1 });
            let (mut port, mut now) = (Port::new(), 0);
            for &(gap, bytes, ecn_capable) in &packets {
                now += gap * 1000;
                port.advance(now, |_, bytes, _| buffer.on_departure(PortIndex(0), Bytes(bytes)));
                let found = port.state(now);
                let admitted = buffer.admit(PortIndex(0), &found, &packet(bytes, ecn_capable)) == Verdict::Admit;
                let (held, more, limit) = match config.limit {
                    Amount::Packets(limit) => (u64::from(found.packets(config.count_in_service)), 1, u64::from(limit)),
                    Amount::Bytes(Bytes(limit)) => (found.bytes(config.count_in_service).0, bytes, limit),
                };
                let room = match (config.limit, config.admit) {
                    (Amount::Bytes(_), Admit::IfBelow) => held < limit,
                    _ => held + more <= limit,
                };
                prop_assert_eq!(admitted, room, "{:?}: {:?} and {} bytes more", config, found, bytes);
                if admitted {
                    port.enqueue(now, bytes, ecn_capable);
                    let over = if config.admit == Admit::IfBelow { bytes } else { 0 };
                    prop_assert!(held + more <= limit + over);
                }
            }
        }
    }

    /// What a buffer takes in unseen it would have admitted, and then it would know the same. What it does not leaves no trace.
    #[test]
    fn a_buffer_takes_in_unseen_what_it_would_have_admitted(packets in packets()) {
        for choice in BufferChoice::defaults().into_iter().chain(small_memories()) {
            let name = choice.info().name;
            let mut buffer = choice.build(&BufferContext { ports: 2 });
            let (mut ports, mut now) = ([Port::new(), Port::new()], 0);
            for &(gap, bytes, ecn_capable) in &packets {
                now += gap * 1000;
                depart(&mut ports, now, &mut buffer);
                let index = (bytes % 2) as usize;
                let mut asked = buffer.clone();
                let taken = buffer.takes(PortIndex(index as u32), Bytes(bytes));
                if !taken {
                    prop_assert_eq!(format!("{buffer:?}"), format!("{asked:?}"), "\"{}\" learns what it refuses", name);
                }
                let verdict =
                    asked.admit(PortIndex(index as u32), &ports[index].state(now), &packet(bytes, ecn_capable));
                if taken {
                    prop_assert_eq!(verdict, Verdict::Admit, "\"{}\" takes in unseen what it would refuse", name);
                    prop_assert_eq!(format!("{buffer:?}"), format!("{asked:?}"), "\"{}\" learns something else", name);
                }
                if verdict == Verdict::Admit {
                    ports[index].enqueue(now, bytes, ecn_capable);
                }
                buffer = asked;
            }
        }
    }

    /// While all ports together hold what a buffer calls ample, it admits every packet. It holds no more than it says, and knows the same
    /// once what waits has left and returned.
    #[test]
    fn a_buffer_with_ample_room_admits_everything_and_takes_back_what_waits(packets in packets()) {
        for choice in BufferChoice::defaults().into_iter().chain(small_memories()) {
            let name = choice.info().name;
            let mut buffer = choice.build(&BufferContext { ports: 2 });
            let ample = buffer.ample();
            let (mut ports, mut now) = ([Port::new(), Port::new()], 0);
            for &(gap, bytes, ecn_capable) in &packets {
                now += gap * 1000;
                depart(&mut ports, now, &mut buffer);
                let waiting = |port: &Port| port.waiting.iter().map(|packet| packet.0).collect::<Vec<_>>();
                let waiting = ports.each_ref().map(waiting);
                let counted = |bytes: u64| bytes + ample.beside_packet.0;
                let held = waiting.iter().flatten().map(|&bytes| counted(bytes)).sum::<u64>();
                if ample != Ample::NEVER {
                    prop_assert!(buffer.held().0 <= held, "\"{}\" holds {:?} of {}", name, buffer.held(), held);
                    let mut back = buffer.clone();
                    let all = (0..).zip(&waiting).flat_map(|(port, waiting)| waiting.iter().map(move |&bytes| (PortIndex(port), Bytes(bytes))));
                    all.clone().for_each(|(port, bytes)| back.on_departure(port, bytes));
                    prop_assert_eq!(back.held(), Bytes::ZERO);
                    all.for_each(|(port, bytes)| back.on_return(port, bytes));
                    prop_assert_eq!(format!("{back:?}"), format!("{buffer:?}"), "\"{}\" forgets what waits", name);
                }
                let index = (bytes % 2) as usize;
                let verdict = buffer.admit(PortIndex(index as u32), &ports[index].state(now), &packet(bytes, ecn_capable));
                if held + counted(bytes) <= ample.bytes.0 {
                    prop_assert_eq!(verdict, Verdict::Admit, "\"{}\" refuses a packet although it has ample room", name);
                }
                if verdict == Verdict::Admit {
                    ports[index].enqueue(now, bytes, ecn_capable);
                }
            }
        }
    }

    /// An empty switch takes a packet, and once everything has left it is empty again.
    #[test]
    fn every_buffer_takes_a_packet_into_an_empty_switch(packets in packets()) {
        for choice in BufferChoice::defaults() {
            let mut buffer = choice.build(&BufferContext { ports: 2 });
            let (mut ports, mut now) = ([Port::new(), Port::new()], 0);
            for &(gap, bytes, ecn_capable) in &packets {
                now += gap * 1000;
                depart(&mut ports, now, &mut buffer);
                let index = (bytes % 2) as usize;
                if buffer.admit(PortIndex(index as u32), &ports[index].state(now), &packet(bytes, ecn_capable)) == Verdict::Admit {
                    ports[index].enqueue(now, bytes, ecn_capable);
                }
            }
            depart(&mut ports, u64::MAX, &mut buffer);
            prop_assert!(ports.iter().all(|port| port.waiting.is_empty()));
            for index in 0..2 {
                let taken = buffer.admit(PortIndex(index), &Port::new().state(now), &packet(1500, true)) == Verdict::Admit;
                prop_assert!(taken, "\"{}\" refuses a packet although it is empty", choice.info().name);
            }
        }
    }
}

/// What happens to an aggregator.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The program asks for this many responses of this size.
    Ask(u64, Option<u64>),
    /// The response to the i-th of the outstanding requests is complete; this many segments came out of order.
    Finish(usize, u64),
    /// The i-th of the waiting requests is no longer wanted.
    Withdraw(usize),
    /// Payload arrives.
    Progress,
    /// Time goes on by so many microseconds, timers expire.
    Wait(u64),
}

proptest! {
    #![proptest_config(config())]

    /// Whatever an application holds back, it sends each request exactly once, only what was asked for, and
    /// in the end everything that was not withdrawn.
    #[test]
    fn every_application_sends_each_request_exactly_once(
        steps in prop::collection::vec(
            prop_oneof![
                (1..20_u64, prop::option::of(1..200_000_u64)).prop_map(|(count, size)| Step::Ask(count, size)),
                (any::<prop::sample::Index>(), 0..5_u64).prop_map(|(which, late)| Step::Finish(which.index(1 << 20), late)),
                any::<prop::sample::Index>().prop_map(|which| Step::Withdraw(which.index(1 << 20))),
                Just(Step::Progress),
                (0..1000_u64).prop_map(Step::Wait),
            ],
            1..100,
        ),
    ) {
        let bottleneck =
            Bottleneck { rate: RATE, base_rtt: Duration::from_us(100), buffer: Bytes(65_536), mss: Bytes(1446) };
        let context = ApplicationContext { bottleneck, workers: Some(40), rto_min: Duration::from_ms(200) };
        for choice in ApplicationChoice::defaults() {
            let name = choice.info().name;
            let mut application = choice.build(&context);
            let (mut asked, mut now, mut outstanding, mut sent) = (0, Time(0), Vec::<Grant>::new(), BTreeSet::new());
            let mut withdrawn = BTreeSet::new();
            // At the end the responses of all that is outstanding come in, until nothing is left.
            let finish_all = std::iter::repeat_n(Step::Finish(0, 0), 20 * steps.len());
            for step in steps.iter().copied().chain(finish_all) {
                match step {
                    Step::Ask(count, size) => {
                        for _ in 0..count {
                            let (id, expected) = (RequestId(asked), size.map(Bytes));
                            application.on_request(now, Request { id, expected, window: None });
                            asked += 1;
                        }
                    }
                    Step::Finish(which, out_of_order) if !outstanding.is_empty() => {
                        let grant = outstanding.swap_remove(which % outstanding.len());
                        application.on_finished(now, grant, Outcome { received: Bytes(1000), out_of_order });
                    }
                    Step::Finish(..) => {
                        // Nothing is outstanding: at most a timer stands between the program and its requests.
                        if let Some(due) = application.next_timer() {
                            now = now.max(due);
                            application.on_timer(now, 0);
                        }
                    }
                    Step::Withdraw(which) => {
                        let waiting: Vec<_> = (0..asked).map(RequestId).filter(|id| !sent.contains(id)).collect();
                        let waiting: Vec<_> = waiting.into_iter().filter(|id| !withdrawn.contains(id)).collect();
                        if !waiting.is_empty() {
                            let id = waiting[which % waiting.len()];
                            application.on_withdrawn(now, id);
                            withdrawn.insert(id);
                        }
                    }
                    Step::Progress => application.on_progress(now, Bytes(100)),
                    Step::Wait(us) => {
                        now += Duration::from_us(us);
                        while let Some(due) = application.next_timer().filter(|&due| due <= now) {
                            application.on_timer(now, 0);
                            prop_assert!(application.next_timer().is_none_or(|next| next > due), "\"{name}\"");
                        }
                    }
                }
                while let Some(grant) = application.poll(now) {
                    let id = grant.id();
                    prop_assert!(!withdrawn.contains(&id), "\"{}\" sent {:?}, which was withdrawn", name, id);
                    prop_assert!(id.0 < asked, "\"{}\" sent what was not asked for: {:?}", name, id);
                    prop_assert!(sent.insert(id), "\"{}\" sent {:?} twice", name, id);
                    outstanding.push(grant);
                }
            }
            let served = (sent.len() + withdrawn.len()) as u64;
            prop_assert_eq!(served, asked, "\"{}\" left requests unsent", name);
            let status = application.status();
            prop_assert_eq!((status.waiting, status.outstanding), (0, outstanding.len() as u64), "\"{}\"", name);
        }
    }
}
