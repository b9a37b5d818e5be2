//! An output port and the wire behind it, with true departures: what is decided when a transmission
//! begins (marks by a detector, say) is decided then, on the queue as it is then.
//!
//! A link is a function of `now`. Before an arrival at `now` it first begins the transmissions that
//! are due, so nobody has to schedule them; it only has to be asked, at the latest, before the first
//! of them could arrive at the far end.

#![expect(clippy::inline_always, reason = "measured: 57.5 against 60.5 ns per packet-hop on the leaf-spine work")]

use incast_protocols::switch::buffer::{Buffer, PortIndex};
use incast_protocols::switch::marker::Marker;
use incast_protocols::switch::{Marks, PacketView, QueueState};
use incast_protocols::{Bytes, Rate, Time};
use incast_results::record::{Event, EventKind};
use incast_scenario::plan::{End, Reorder};

use crate::observe::{Arrival, Observer};
use crate::packet::{Flags, Packet};
use crate::random::Stream;
use crate::ring::Ring;

/// A packet on the wire.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flight {
    /// When its last bit arrives at the far end.
    pub(crate) at: u64,
    pub(crate) packet: Packet,
}

/// The queue of a switch port.
#[derive(Clone, Debug)]
pub(crate) struct Port<M> {
    pub(crate) marker: M,
    /// Index among all buffers of the network.
    pub(crate) buffer: u32,
    /// Number of the port at its switch.
    pub(crate) index: PortIndex,
    /// Whether the buffer has to know of departures: not so if each port has a limit of its own.
    pub(crate) shares: bool,
}

/// What goes wrong on a wire by the scenario's wish.
#[derive(Clone, Debug)]
pub(crate) struct Impairment {
    pub(crate) loss: f64,
    pub(crate) reorder: Option<Reorder>,
    pub(crate) random: Stream,
}

/// What a link has done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) drops: u64,
    pub(crate) ce_marks: u64,
    pub(crate) ein_marks: u64,
    pub(crate) wire_losses: u64,
    pub(crate) max_waiting: u32,
}

/// A directed link.
#[derive(Clone, Debug)]
pub(crate) struct Link<M> {
    /// End of the transmission that has begun last.
    pub(crate) busy_until: u64,
    /// Picoseconds per byte, or zero if that is no whole number.
    ps_per_byte: u64,
    delay: u64,
    /// Accepted, transmission not begun.
    pub(crate) waiting: Ring<Packet>,
    waiting_bytes: u64,
    in_service: u64,
    /// Transmission begun, not arrived, by arrival.
    pub(crate) flying: Ring<Flight>,
    /// A host's own port has none: it takes everything and marks nothing.
    pub(crate) port: Option<Port<M>>,
    pub(crate) counters: Counters,
    pub(crate) impairment: Option<Box<Impairment>>,
    rate: Rate,
}

/// What the functions of a link work with.
pub(crate) struct Around<'a, B, O> {
    pub(crate) link: u32,
    pub(crate) buffers: &'a mut [B],
    pub(crate) observer: &'a mut O,
    /// Connections of which a packet has vanished, once for each.
    pub(crate) vanished: &'a mut Vec<u32>,
}

fn event<O: Observer>(observer: &mut O, now: u64, kind: EventKind, link: u32, packet: &Packet) {
    observer.event(Event {
        time: Time(now),
        kind,
        connection: packet.connection,
        from_client: packet.flags.has(Flags::FROM_CLIENT),
        link: Some(link),
        offset: u64::from(packet.sequence),
    });
}

impl<M: Marker> Link<M> {
    pub(crate) fn new(rate: Rate, delay: u64, port: Option<Port<M>>, impairment: Option<Impairment>) -> Self {
        let exact = 8_000_000_000_000 % rate.0 == 0;
        Self {
            busy_until: 0,
            ps_per_byte: if exact { 8_000_000_000_000 / rate.0 } else { 0 },
            delay,
            waiting: Ring::default(),
            waiting_bytes: 0,
            in_service: 0,
            flying: Ring::default(),
            rate,
            port,
            impairment: impairment.map(Box::new),
            counters: Counters::default(),
        }
    }

    /// Serialization time.
    #[inline(always)]
    pub(crate) fn time_for(&self, wire: u64) -> u64 {
        if self.ps_per_byte == 0 { self.rate.time_for(Bytes(wire)).0 } else { wire * self.ps_per_byte }
    }

    pub(crate) const fn delay(&self) -> u64 {
        self.delay
    }

    /// Arrival time of the first packet on the wire.
    #[inline]
    pub(crate) fn head(&self) -> u64 {
        if self.flying.is_empty() { u64::MAX } else { self.flying.first().at }
    }

    /// When something happens here next of itself: an arrival or a departure. On a link that loses and
    /// reorders, what departs may be the first to arrive.
    pub(crate) fn next_event(&self) -> u64 {
        if self.waiting.is_empty() { self.head() } else { self.head().min(self.busy_until) }
    }

    /// Whether packets can overtake each other on the wire.
    pub(crate) fn reorders(&self) -> bool {
        self.impairment.as_ref().is_some_and(|impairment| impairment.reorder.is_some())
    }

    #[inline(always)]
    fn queue_state(&self, now: u64, in_service: u64) -> QueueState {
        QueueState {
            now: Time(now),
            waiting_packets: self.waiting.len(),
            waiting_bytes: Bytes(self.waiting_bytes),
            in_service: Bytes(in_service),
            rate: self.rate,
        }
    }

    /// The packet's flags with the marks added.
    #[inline]
    fn mark<B, O: Observer>(
        &mut self,
        now: u64,
        marks: Marks,
        packet: &Packet,
        flags: Flags,
        around: &mut Around<'_, B, O>,
    ) -> Flags {
        let mut marked = flags;
        if marks.ce && !flags.has(Flags::CE) {
            marked = marked.with(Flags::CE);
            self.counters.ce_marks += 1;
            event(around.observer, now, EventKind::CeMark, around.link, packet);
        }
        if marks.ein && !flags.has(Flags::EIN) {
            marked = marked.with(Flags::EIN);
            self.counters.ein_marks += 1;
            event(around.observer, now, EventKind::EinMark, around.link, packet);
        }
        marked
    }

    #[inline(always)]
    fn begin<B: Buffer, O: Observer>(
        &mut self,
        start: u64,
        packet: &Packet,
        mut flags: Flags,
        around: &mut Around<'_, B, O>,
    ) {
        let wire = u64::from(packet.wire);
        if self.port.is_some() {
            let queue = self.queue_state(start, wire);
            if let Some(port) = &mut self.port {
                if port.shares {
                    around.buffers[port.buffer as usize].on_departure(port.index, Bytes(wire));
                }
                let marks = port.marker.on_dequeue(&queue, &view(packet.wire, flags));
                if around.observer.watches(around.link) {
                    around.observer.departed(around.link, start, marks.ein);
                }
                if marks != Marks::NONE {
                    flags = self.mark(start, marks, packet, flags, around);
                }
            }
        }
        self.busy_until = start + self.time_for(wire);
        self.in_service = wire;
        self.counters.packets += 1;
        self.counters.bytes += wire;
        let flight = Flight { at: self.busy_until + self.delay, packet: Packet { flags, ..*packet } };
        if self.impairment.is_some() {
            self.launch_impaired(start, flight, around);
        } else {
            self.flying.push(flight);
        }
    }

    #[cold]
    fn launch_impaired<B, O: Observer>(&mut self, now: u64, flight: Flight, around: &mut Around<'_, B, O>) {
        let Some(impairment) = &mut self.impairment else { return };
        let Flight { at, packet } = flight;
        if impairment.loss > 0.0 && impairment.random.chance(impairment.loss) {
            self.counters.wire_losses += 1;
            around.vanished.push(packet.connection);
            event(around.observer, now, EventKind::WireLoss, around.link, &packet);
            return;
        }
        let late = match impairment.reorder {
            Some(reorder) if impairment.random.chance(reorder.probability) => impairment.random.up_to(reorder.extra.0),
            _ => 0,
        };
        self.flying.insert_sorted(Flight { at: at + late, packet }, |a, b| a.at < b.at);
    }

    /// Begins every transmission that is due up to and including `now`.
    #[inline(always)]
    pub(crate) fn advance<B: Buffer, O: Observer>(&mut self, now: u64, around: &mut Around<'_, B, O>) {
        while self.busy_until <= now && !self.waiting.is_empty() {
            let packet = self.waiting.pop();
            self.waiting_bytes -= u64::from(packet.wire);
            let start = self.busy_until;
            if self.port.is_some() {
                around.observer.queue_changed(around.link, start, self.waiting.len(), self.waiting_bytes);
            }
            self.begin(start, &packet, packet.flags, around);
        }
    }

    /// A packet arrives at the port.
    #[inline(always)]
    pub(crate) fn enqueue<B: Buffer, O: Observer>(&mut self, now: u64, packet: &Packet, around: &mut Around<'_, B, O>) {
        let mut flags = packet.flags;
        self.advance(now, around);
        let idle = self.busy_until <= now;
        if self.port.is_some() {
            let queue = self.queue_state(now, if idle { 0 } else { self.in_service });
            if around.observer.watches(around.link) {
                let arrival = self.arrival(now, packet);
                around.observer.arrived(around.link, &arrival);
            }
            if let Some(port) = &mut self.port {
                let seen = view(packet.wire, flags);
                if !around.buffers[port.buffer as usize].admit(port.index, &queue, &seen) {
                    self.drop_packet(now, packet, around);
                    return;
                }
                let marks = port.marker.on_enqueue(&queue, &seen);
                if marks != Marks::NONE {
                    flags = self.mark(now, marks, packet, flags, around);
                }
            }
            around.observer.enqueued(around.link, now, queue.waiting_packets);
        }
        if idle {
            self.begin(now, packet, flags, around);
            return;
        }
        self.waiting.push(Packet { flags, ..*packet });
        self.waiting_bytes += u64::from(packet.wire);
        self.counters.max_waiting = self.counters.max_waiting.max(self.waiting.len());
        if self.port.is_some() {
            around.observer.queue_changed(around.link, now, self.waiting.len(), self.waiting_bytes);
        }
    }

    fn arrival(&self, now: u64, packet: &Packet) -> Arrival {
        let takes = self.time_for(u64::from(packet.wire));
        Arrival {
            now,
            connection: packet.connection,
            from: if packet.flags.has(Flags::FROM_CLIENT) { End::Client } else { End::Server },
            takes,
            gone: self.busy_until.max(now) + self.time_for(self.waiting_bytes) + takes,
        }
    }

    #[cold]
    fn drop_packet<B, O: Observer>(&mut self, now: u64, packet: &Packet, around: &mut Around<'_, B, O>) {
        self.counters.drops += 1;
        around.vanished.push(packet.connection);
        event(around.observer, now, EventKind::Drop, around.link, packet);
    }
}

#[inline]
const fn view(wire: u16, flags: Flags) -> PacketView {
    PacketView { bytes: Bytes(wire as u64), marks: flags.marks(), ecn_capable: flags.has(Flags::ECT) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Written;
    use crate::random::Purpose;
    use incast_protocols::Duration;

    /// Sets the marks it is told to and writes down what it saw.
    #[derive(Clone, Debug, Default)]
    struct Scripted {
        on_enqueue: Marks,
        on_dequeue: Marks,
        arrivals: Vec<(QueueState, PacketView)>,
        departures: Vec<(QueueState, PacketView)>,
    }

    impl Marker for Scripted {
        fn on_enqueue(&mut self, queue: &QueueState, packet: &PacketView) -> Marks {
            self.arrivals.push((*queue, *packet));
            self.on_enqueue
        }

        fn on_dequeue(&mut self, queue: &QueueState, packet: &PacketView) -> Marks {
            self.departures.push((*queue, *packet));
            self.on_dequeue
        }
    }

    /// Admits so many waiting packets and writes down what leaves.
    #[derive(Debug, Default)]
    struct Limit {
        waiting: u32,
        left: Vec<(PortIndex, Bytes)>,
    }

    impl Buffer for Limit {
        fn admit(&mut self, _port: PortIndex, queue: &QueueState, _packet: &PacketView) -> bool {
            queue.in_service == Bytes::ZERO || queue.waiting_packets < self.waiting
        }

        fn on_departure(&mut self, port: PortIndex, bytes: Bytes) {
            self.left.push((port, bytes));
        }
    }

    #[derive(Default)]
    struct Log {
        events: Vec<Event>,
        /// Time, packets, bytes.
        queue: Vec<(u64, u32, u64)>,
        found: Vec<u32>,
    }

    impl Observer for Log {
        fn queue_changed(&mut self, link: u32, now: u64, waiting_packets: u32, waiting_bytes: u64) {
            assert_eq!(link, LINK);
            self.queue.push((now, waiting_packets, waiting_bytes));
        }

        fn enqueued(&mut self, _link: u32, _now: u64, found: u32) {
            self.found.push(found);
        }

        fn event(&mut self, event: Event) {
            self.events.push(event);
        }

        fn finish(self) -> Written {
            Written::default()
        }
    }

    const LINK: u32 = 4;
    /// 1500 bytes at 10 Gbit/s.
    const PACKET_TIME: u64 = 1_200_000;
    const DELAY: u64 = 5_000_000;

    /// A link with what it works with.
    struct Bench {
        link: Link<Scripted>,
        buffers: [Limit; 2],
        log: Log,
        vanished: Vec<u32>,
    }

    impl Bench {
        fn new(port: Option<Port<Scripted>>, impairment: Option<Impairment>) -> Self {
            Self {
                link: Link::new(Rate(10_000_000_000), DELAY, port, impairment),
                buffers: [Limit { waiting: 1, ..Limit::default() }, Limit { waiting: 2, ..Limit::default() }],
                log: Log::default(),
                vanished: Vec::new(),
            }
        }

        /// A switch port whose buffer holds two waiting packets.
        fn port(marker: Scripted, shares: bool) -> Self {
            Self::new(Some(Port { marker, buffer: 1, index: PortIndex(9), shares }), None)
        }

        fn with(&mut self, act: impl FnOnce(&mut Link<Scripted>, &mut Around<'_, Limit, Log>)) {
            let around = &mut Around {
                link: LINK,
                buffers: &mut self.buffers,
                observer: &mut self.log,
                vanished: &mut self.vanished,
            };
            act(&mut self.link, around);
        }

        fn enqueue(&mut self, now: u64, packet: &Packet) {
            self.with(|link, around| link.enqueue(now, packet, around));
        }

        fn advance(&mut self, now: u64) {
            self.with(|link, around| link.advance(now, around));
        }

        fn flights(&mut self) -> Vec<Flight> {
            std::iter::from_fn(|| (!self.link.flying.is_empty()).then(|| self.link.flying.pop())).collect()
        }

        fn marker(&self) -> &Scripted {
            &self.link.port.as_ref().expect("a switch port").marker
        }
    }

    fn packet(connection: u32, flags: Flags) -> Packet {
        Packet { connection, wire: 1500, sequence: 1000 + connection, flags, ..Packet::default() }
    }

    /// 8 * 1500 bits at 7 Gbit/s are 1714285.71 ps; bytes are whole picoseconds at 10 Gbit/s.
    #[test]
    fn serialization_is_exact_and_rounded_up_where_it_cannot_be() {
        let time = |rate| Link::<Scripted>::new(Rate(rate), 0, None, None).time_for(1500);
        assert_eq!((time(10_000_000_000), time(7_000_000_000)), (PACKET_TIME, 1_714_286));
        assert_eq!((time(8_000_000_000_000), time(12_000_000_000_000)), (1500, 1000));
    }

    #[test]
    fn a_port_sends_one_packet_after_the_other_and_drops_what_finds_no_place() {
        let mut bench = Bench::port(Scripted::default(), true);
        assert_eq!((bench.link.head(), bench.link.next_event()), (u64::MAX, u64::MAX));
        for connection in 0..4 {
            bench.enqueue(100, &packet(connection, Flags::ECT.with(Flags::FROM_CLIENT)));
        }
        // The first is in transmission, two wait, the fourth found two.
        assert_eq!((bench.link.head(), bench.link.next_event()), (100 + PACKET_TIME + DELAY, 100 + PACKET_TIME));
        assert_eq!(bench.log.queue, [(100, 1, 1500), (100, 2, 3000)]);
        assert_eq!(bench.log.found, [0, 0, 1]);
        assert_eq!(bench.vanished, [3]);
        let [dropped] = &bench.log.events[..] else { panic!("{:?}", bench.log.events) };
        assert_eq!((dropped.kind, dropped.time, dropped.connection), (EventKind::Drop, Time(100), 3));
        assert_eq!((dropped.link, dropped.offset, dropped.from_client), (Some(LINK), 1003, true));

        // A transmission begins when the one before has ended, no picosecond sooner.
        bench.advance(100 + PACKET_TIME - 1);
        assert_eq!(bench.link.counters.packets, 1);
        bench.advance(100 + PACKET_TIME);
        assert_eq!(bench.link.counters.packets, 2);
        bench.advance(u64::MAX / 2);
        let Counters { packets, bytes, drops, max_waiting, .. } = bench.link.counters;
        assert_eq!((packets, bytes, drops, max_waiting), (3, 4500, 1, 2));
        assert_eq!(bench.log.queue[2..], [(100 + PACKET_TIME, 1, 1500), (100 + 2 * PACKET_TIME, 0, 0)]);
        assert_eq!(bench.buffers[1].left, [(PortIndex(9), Bytes(1500)); 3]);
        assert_eq!(bench.link.next_event(), bench.link.head());
        let arrivals: Vec<u64> = bench.flights().iter().map(|flight| flight.at).collect();
        assert_eq!(arrivals, [1, 2, 3].map(|n| 100 + n * PACKET_TIME + DELAY));
    }

    /// What arrives at the end of a transmission finds the port idle; what arrives before it, a packet in service.
    #[test]
    fn a_marker_sees_the_queue_as_it_is() {
        let mut bench = Bench::port(Scripted::default(), false);
        bench.enqueue(0, &packet(0, Flags::ECT));
        bench.enqueue(PACKET_TIME - 1, &packet(1, Flags::CE));
        bench.enqueue(2 * PACKET_TIME, &packet(2, Flags::ECT.with(Flags::EIN)));
        let seen = |seen: &[(QueueState, PacketView)]| -> Vec<(u64, u32, u64, u64)> {
            seen.iter().map(|(q, _)| (q.now.0, q.waiting_packets, q.waiting_bytes.0, q.in_service.0)).collect()
        };
        assert_eq!(
            seen(&bench.marker().arrivals),
            [(0, 0, 0, 0), (PACKET_TIME - 1, 0, 0, 1500), (2 * PACKET_TIME, 0, 0, 0)]
        );
        // On departure the leaving packet is the one in service.
        let begun = [0, PACKET_TIME, 2 * PACKET_TIME];
        assert_eq!(seen(&bench.marker().departures), begun.map(|at| (at, 0, 0, 1500)));
        let views: Vec<PacketView> = bench.marker().arrivals.iter().map(|(_, packet)| *packet).collect();
        let view = |marks, ecn_capable| PacketView { bytes: Bytes(1500), marks, ecn_capable };
        assert_eq!(views, [view(Marks::NONE, true), view(Marks::CE, false), view(Marks::EIN, true)]);
        assert_eq!(bench.marker().arrivals[0].0.rate, Rate(10_000_000_000));
        // Ports with a limit each need not be told what leaves.
        assert!(bench.buffers[1].left.is_empty());
    }

    /// A mark is counted where it is set, not where a packet already carries it.
    #[test]
    fn marks_are_set_and_counted_once() {
        let both = Marks { ce: true, ein: true };
        for (on_enqueue, on_dequeue) in
            [(both, Marks::NONE), (Marks::NONE, both), (both, both), (Marks::CE, Marks::EIN)]
        {
            let mut bench = Bench::port(Scripted { on_enqueue, on_dequeue, ..Scripted::default() }, false);
            // One goes straight into transmission, one waits.
            bench.enqueue(0, &packet(0, Flags::ECT));
            bench.enqueue(0, &packet(1, Flags::ECT));
            bench.advance(PACKET_TIME);
            assert_eq!((bench.link.counters.ce_marks, bench.link.counters.ein_marks), (2, 2));
            let expected = Flags::ECT.with(Flags::CE).with(Flags::EIN);
            assert!(bench.flights().iter().all(|flight| flight.packet.flags == expected));
            for kind in [EventKind::CeMark, EventKind::EinMark] {
                assert_eq!(bench.log.events.iter().filter(|event| event.kind == kind).count(), 2);
            }
            bench.enqueue(3 * PACKET_TIME, &packet(2, expected));
            assert_eq!((bench.link.counters.ce_marks, bench.link.counters.ein_marks), (2, 2));
            assert_eq!(bench.log.events.len(), 4);
        }
        let mut bench = Bench::port(Scripted { on_enqueue: Marks::CE, ..Scripted::default() }, false);
        bench.enqueue(0, &packet(0, Flags::EIN));
        assert_eq!(bench.flights()[0].packet.flags, Flags::EIN.with(Flags::CE));
        assert_eq!((bench.link.counters.ce_marks, bench.link.counters.ein_marks), (1, 0));
    }

    #[test]
    fn a_hosts_own_port_takes_everything_and_tells_nobody() {
        let mut bench = Bench::new(None, None);
        for connection in 0..100 {
            bench.enqueue(0, &packet(connection, Flags::default()));
        }
        bench.advance(1000 * PACKET_TIME);
        assert_eq!((bench.link.counters.packets, bench.link.counters.max_waiting), (100, 99));
        assert!(bench.log.queue.is_empty() && bench.log.found.is_empty() && bench.vanished.is_empty());
        assert_eq!((bench.link.delay(), bench.link.reorders()), (DELAY, false));
    }

    fn impaired(loss: f64, reorder: Option<Reorder>) -> Bench {
        Bench::new(None, Some(Impairment { loss, reorder, random: Stream::new(1, Purpose::Link, 0) }))
    }

    #[test]
    fn a_wire_loses_as_many_packets_as_it_is_told_to() {
        for (loss, expected) in [(0.0, 0..=0), (0.2, 150..=250), (1.0, 1000..=1000)] {
            let mut bench = impaired(loss, None);
            assert!(!bench.link.reorders());
            for connection in 0..1000 {
                bench.enqueue(0, &packet(connection, Flags::default()));
            }
            bench.advance(1000 * PACKET_TIME);
            let lost = bench.link.counters.wire_losses;
            assert!(expected.contains(&lost), "{lost}");
            assert_eq!((bench.vanished.len() as u64, bench.flights().len() as u64), (lost, 1000 - lost));
            assert!(bench.log.events.iter().all(|event| event.kind == EventKind::WireLoss));
            assert_eq!(bench.log.events.len() as u64, lost);
        }
    }

    /// A packet that is late is at most `extra` late, and the wire is sorted by arrival.
    #[test]
    fn a_wire_reorders_as_many_packets_as_it_is_told_to() {
        for (probability, expected) in [(0.0, 0..=0), (0.3, 250..=350), (1.0, 999..=1000)] {
            let extra = 20 * PACKET_TIME;
            let mut bench = impaired(0.0, Some(Reorder { probability, extra: Duration(extra) }));
            assert!(bench.link.reorders());
            for connection in 0..1000 {
                bench.enqueue(0, &packet(connection, Flags::default()));
            }
            bench.advance(1000 * PACKET_TIME);
            let flights = bench.flights();
            assert!(flights.len() == 1000 && flights.windows(2).all(|pair| pair[0].at <= pair[1].at));
            let in_time = |flight: &Flight| u64::from(flight.packet.connection + 1) * PACKET_TIME + DELAY;
            assert!(flights.iter().all(|flight| (0..=extra).contains(&(flight.at - in_time(flight)))));
            let late = flights.iter().filter(|flight| flight.at > in_time(flight)).count();
            assert!(expected.contains(&late), "{late}");
        }
    }

    /// One byte takes a picosecond here, and a packet that is one late arrives with the next: still first.
    #[test]
    fn packets_that_arrive_together_keep_their_order() {
        let mut bench = impaired(0.0, Some(Reorder { probability: 0.5, extra: Duration(1) }));
        bench.link = Link::new(Rate(8_000_000_000_000), 0, None, bench.link.impairment.map(|boxed| *boxed));
        for connection in 0..100 {
            bench.enqueue(0, &Packet { wire: 1, ..packet(connection, Flags::default()) });
        }
        bench.advance(100);
        let flights = bench.flights();
        assert!(flights.windows(2).filter(|pair| pair[0].at == pair[1].at).count() > 10);
        assert!(flights.windows(2).all(|pair| pair[0].packet.connection < pair[1].packet.connection));
    }

    /// Numbers are drawn only for what a wire does, so that a loss of zero changes nothing else.
    #[test]
    fn a_wire_that_does_nothing_draws_no_number() {
        let mut bench = impaired(0.0, None);
        bench.enqueue(0, &packet(0, Flags::default()));
        let untouched = Stream::new(1, Purpose::Link, 0).next();
        assert_eq!(bench.link.impairment.expect("it has one").random.next(), untouched);
    }

    /// The first packet may be lost or overtaken, so what departs next can be what arrives next.
    #[test]
    fn a_link_with_nothing_on_the_wire_is_looked_at_when_it_departs() {
        let mut bench = impaired(1.0, None);
        bench.enqueue(0, &packet(0, Flags::default()));
        bench.enqueue(0, &packet(1, Flags::default()));
        assert_eq!((bench.link.head(), bench.link.next_event()), (u64::MAX, PACKET_TIME));
    }
}
