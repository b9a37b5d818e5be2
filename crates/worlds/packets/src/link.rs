//! An output port and the wire behind it, with true departures: what is decided when a transmission
//! begins (marks by a detector, say) is decided then, on the queue as it is then.
//!
//! A link is a function of `now`. Before an arrival at `now` it first begins the transmissions that
//! are due, so nobody has to schedule them; it only has to be asked, at the latest, before the first
//! of them could arrive at the far end.
//!
//! Mostly it is known when a packet will leave as soon as it is taken in. Such a port *foresees*: the packet goes on the wire at
//! once, with the time at which it will arrive. If its marker does not want to know of departures either, the port counts *late*: it
//! finds out how many packets wait only when somebody has to know. Ports that share memory keep a queue while they do; where there is room for whatever
//! comes, they go without it and foresee, too.

#![expect(clippy::inline_always, reason = "measured: 57.5 against 60.5 ns per packet-hop on the leaf-spine work")]

use incast_plan::{End, Reorder};
use incast_protocols::switch::buffer::{Buffer, PortIndex, Verdict};
use incast_protocols::switch::marker::Marker;
use incast_protocols::switch::telemetry::Hop;
use incast_protocols::switch::{Marks, PacketView, QueueState, Quiet};
use incast_protocols::{Bytes, Rate, Time};
use incast_record::{Event, EventKind};
use incast_world::incasts::Arrival;

use crate::classes::Classes;
use crate::noise::Receiving;
use crate::observe::Observer;
use crate::packet::{Flags, Packet};
use crate::ring::Ring;
use incast_protocols::random::Stream;

/// A packet on the wire.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flight {
    /// When its last bit arrives at the far end.
    pub(crate) at: u64,
    pub(crate) packet: Packet,
}

/// Whether a port shares its buffer with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// It has a limit of its own, so that the buffer need not know of departures.
    No,
    /// The buffer is told of arrivals and departures at all ports in order of time.
    Together,
    /// There is room for whatever comes: it goes without the buffer.
    Apart,
}

/// The queue of a switch port.
#[derive(Clone, Debug)]
pub(crate) struct Port<M> {
    pub(crate) marker: M,
    /// Index among all buffers of the network.
    pub(crate) buffer: u32,
    /// Number of the port at its switch.
    pub(crate) index: PortIndex,
    sharing: Sharing,
    /// Whether the buffer's agenda of departures names this port.
    pub(crate) listed: bool,
    /// Whether the marker has to know of departures.
    sees_departures: bool,
    /// Where the marker need not be asked about an arrival, although the buffer has to be.
    quiet: Quiet,
}

impl<M: Marker> Port<M> {
    pub(crate) fn new(marker: M, buffer: u32, index: PortIndex, shares: bool) -> Self {
        let (quiet, sees_departures) = (marker.quiet(), marker.sees_departures());
        let sharing = if shares { Sharing::Together } else { Sharing::No };
        Self { marker, buffer, index, sharing, listed: false, sees_departures, quiet }
    }

    /// Whether the buffer has to know of departures.
    #[inline]
    pub(crate) const fn shares(&self) -> bool {
        matches!(self.sharing, Sharing::Together)
    }
}

/// Configured faults of a wire: loss and reordering.
#[derive(Clone, Debug)]
pub(crate) struct Impairment {
    pub(crate) loss: f64,
    pub(crate) reorder: Option<Reorder>,
    pub(crate) random: Stream,
}

/// What does not happen to every packet of a link.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) drops: u64,
    pub(crate) ce_marks: u64,
    pub(crate) ein_marks: u64,
    pub(crate) wire_losses: u64,
    /// Packets trimmed here, less trimmed packets that were lost here: these have been counted as dropped already.
    pub(crate) trimmed: i64,
}

/// A directed link. What every packet needs comes first, in two lines of the cache.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Link<M> {
    /// End of the transmission that has begun last; of a port that foresees, of all that it has taken in.
    pub(crate) busy_until: u64,
    /// End of the transmission that has begun last, at a port that foresees and does not count late.
    begun_until: u64,
    /// Picoseconds per byte, or zero if that is not a whole number.
    ps_per_byte: u64,
    delay: u64,
    /// What is on the wire, by arrival. At a port that foresees, packets that wait are here, too.
    pub(crate) flying: Ring<Flight>,
    /// At a port that foresees: how many of the last packets in `flying` have not started transmission. At a port that counts late,
    /// this is an upper bound.
    unbegun: u32,
    /// The most that have waited.
    pub(crate) max_waiting: u32,
    /// Bytes of the packet whose transmission has begun last.
    in_service: u16,
    /// At a port that counts late: bytes of the longest packet so far.
    longest: u16,
    /// Whether packets go on the wire when they are taken in.
    foresees: bool,
    /// Whether nobody wants to know of departures either.
    counts_late: bool,
    /// Whether buffer, marker or observer want to know of departures. A buffer does not while the port is apart from it.
    departures_matter: bool,
    /// Whether nothing that happens when a transmission begins is out of the ordinary, so that a packet pays for one look.
    plain: bool,
    /// The same of the line alone, whoever wants to know of departures.
    plain_line: bool,
    /// Where neither buffer nor marker need to be asked about an arrival: packets that wait. Here it fits beside what is short.
    quiet_packets: u32,
    /// What it has begun to transmit (if it counts late, what it has taken in), in packets ...
    pub(crate) packets: u64,
    /// As `quiet_packets`: bytes at the port, or what they take to transmit if it counts late.
    quiet_extent: u64,
    /// ... and in bytes. Side by side, both would be counted as one vector, which takes three instructions more.
    bytes: u64,
    waiting_bytes: u64,
    /// A host's own port has none: it takes everything and marks nothing. Its marker, or where that lies, is still in the second line.
    pub(crate) port: Option<Port<M>>,
    /// Accepted, transmission not begun, where a port does not foresee. Where there are `classes`, they hold the packets and this
    /// only counts them.
    pub(crate) waiting: Ring<Packet>,
    /// In the time of the rate: how much may leave at once after a pause.
    burst: u64,
    /// What the host at the far end adds to arrivals.
    receiving: Option<Box<Receiving>>,
    pub(crate) counters: Counters,
    /// The queues of a port that has several.
    classes: Option<Box<Classes>>,
    impairment: Option<Box<Impairment>>,
    rate: Rate,
    quiet: Quiet,
    /// Whether it keeps a queue although it could foresee, because the queue is recorded.
    keeps_queue: bool,
}

/// What the functions of a link work with.
pub(crate) struct Around<'a, B, O> {
    pub(crate) link: u32,
    pub(crate) buffers: &'a mut [B],
    pub(crate) observer: &'a mut O,
    /// Connections of which a packet has vanished, once for each.
    pub(crate) vanished: &'a mut Vec<u32>,
    /// Telemetry for packets that collect it.
    pub(crate) said: &'a mut Vec<Said>,
}

/// What a port says in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) connection: u32,
    pub(crate) from_client: bool,
    /// Number of the packet's options.
    pub(crate) option: u16,
    pub(crate) hop: Hop,
}

/// What becomes of an arriving packet once the parts of the port have seen it.
enum Arrived {
    /// It is taken in with these flags.
    In(Flags),
    /// There is nothing more to do.
    Done,
    /// First a packet that waits at this port has to go.
    Evict(PortIndex),
}

fn event<O: Observer>(observer: &mut O, now: u64, kind: EventKind, link: u32, packet: &Packet) {
    observer.event(Event {
        time: Time(now),
        kind,
        connection: packet.connection,
        from_client: packet.flags.has(Flags::FROM_CLIENT),
        link: Some(link),
        offset: u64::from(packet.sequence),
        timer: None,
    });
}

impl<M: Marker> Link<M> {
    /// `admits` are the queues at which the port's buffer takes in everything.
    pub(crate) fn new(
        rate: Rate,
        delay: u64,
        port: Option<Port<M>>,
        admits: Quiet,
        classes: Option<Box<Classes>>,
        impairment: Option<Impairment>,
    ) -> Self {
        let exact = 8_000_000_000_000 % rate.0 == 0;
        let quiet = port.as_ref().map_or(Quiet::ALWAYS, |port| admits.and(port.quiet));
        let mut link = Self {
            busy_until: 0,
            begun_until: 0,
            ps_per_byte: if exact { 8_000_000_000_000 / rate.0 } else { 0 },
            delay,
            waiting: Ring::default(),
            waiting_bytes: 0,
            in_service: 0,
            longest: 0,
            unbegun: 0,
            quiet,
            quiet_packets: 0,
            quiet_extent: 0,
            foresees: false,
            counts_late: false,
            keeps_queue: false,
            plain: false,
            plain_line: false,
            departures_matter: port.as_ref().is_some_and(|port| port.shares() || port.sees_departures),
            max_waiting: 0,
            flying: Ring::default(),
            packets: 0,
            bytes: 0,
            burst: 0,
            rate,
            port,
            classes,
            impairment: impairment.map(Box::new),
            receiving: None,
            counters: Counters::default(),
        };
        link.note_what_is_plain();
        link
    }

    fn note_what_is_plain(&mut self) {
        self.plain_line =
            self.ps_per_byte > 0 && self.burst == 0 && self.receiving.is_none() && self.impairment.is_none();
        let apart = self.port.as_ref().filter(|port| port.sharing == Sharing::Apart);
        let unseen = apart.map_or(!self.departures_matter, |port| !port.sees_departures);
        self.plain = self.plain_line && unseen;
        let shares = self.port.as_ref().is_some_and(Port::shares);
        self.foresees = self.plain_line && self.classes.is_none() && !self.keeps_queue && !shares;
        self.counts_late = self.foresees && self.plain;
        let Quiet { packets, bytes: Bytes(bytes) } = apart.map_or(self.quiet, |port| port.quiet);
        self.quiet_packets = packets;
        self.quiet_extent = if self.counts_late { bytes.saturating_mul(self.ps_per_byte) } else { bytes };
    }

    /// Has it keep packets that wait in a queue, and not on the wire.
    pub(crate) fn keep_queue(&mut self) {
        self.keeps_queue = true;
        self.note_what_is_plain();
    }

    /// Has the host at the far end add to arrivals.
    pub(crate) fn set_receiving(&mut self, receiving: Receiving) {
        self.receiving = Some(Box::new(receiving));
        self.note_what_is_plain();
    }

    /// Has a token bucket of this depth keep the rate.
    pub(crate) fn set_burst(&mut self, burst: Bytes) {
        self.burst = self.rate.time_for(burst).0;
        self.note_what_is_plain();
    }

    /// Has every arrival and departure told, whatever the parts of the port want to know.
    pub(crate) fn watch(&mut self) {
        self.quiet = Quiet::NEVER;
        self.departures_matter = true;
        self.keep_queue();
    }

    /// The number of the memory that it shares with other ports.
    #[inline]
    pub(crate) fn memory(&self) -> Option<u32> {
        if self.plain {
            return None;
        }
        self.port.as_ref().and_then(|port| port.shares().then_some(port.buffer))
    }

    /// Whether its packets can be lost or overtake each other on the wire.
    #[inline]
    pub(crate) const fn is_impaired(&self) -> bool {
        !self.plain && self.impairment.is_some()
    }

    /// Serialization time.
    #[inline(always)]
    pub(crate) fn time_for(&self, wire: u64) -> u64 {
        if self.ps_per_byte == 0 { self.rate.time_for(Bytes(wire)).0 } else { wire * self.ps_per_byte }
    }

    pub(crate) const fn delay(&self) -> u64 {
        self.delay
    }

    /// Reads what the next packet needs: some word of each line.
    #[inline]
    pub(crate) fn touch(&self) -> u64 {
        self.touch_all(self.flying.next_slot())
    }

    /// Reads what the next departure of a port that foresees needs, where there is a backlog.
    #[inline]
    pub(crate) fn touch_departure(&self) -> u64 {
        let waits = self.flying.len() - self.unbegun;
        self.touch_all((self.unbegun > 0).then(|| self.flying.get(waits)))
    }

    #[inline(always)]
    fn touch_all(&self, flight: Option<&Flight>) -> u64 {
        let marker = if self.plain { 0 } else { self.port.as_ref().map_or(0, |port| port.marker.touch()) };
        self.busy_until ^ self.quiet_extent ^ flight.map_or(0, |flight| flight.at) ^ marker
    }

    /// Arrival time of the first packet on the wire.
    #[inline]
    pub(crate) fn head(&self) -> u64 {
        if self.flying.is_empty() { u64::MAX } else { self.flying.first().at }
    }

    /// Reads what is behind the first packet on the wire, in each line of the cache that arrivals of a window are likely to fill.
    #[inline]
    pub(crate) fn touch_behind_head(&self) -> u64 {
        let last = self.flying.len().saturating_sub(1);
        if self.flying.is_empty() { 0 } else { self.flying.get(last.min(2)).at ^ self.flying.get(last.min(4)).at }
    }

    /// Takes off the wire what arrives before `end`.
    #[inline]
    pub(crate) fn take_arrived(&mut self, end: u64, mut take: impl FnMut(&Flight)) {
        self.flying.take_while(|flight| {
            let arrives = flight.at < end;
            if arrives {
                take(flight);
            }
            arrives
        });
    }

    /// When something happens here next of itself: an arrival or a departure. On a link that loses and
    /// reorders, what departs may be the first to arrive.
    pub(crate) fn next_event(&self) -> u64 {
        if self.has_backlog() { self.head().min(self.next_departure()) } else { self.head() }
    }

    /// Whether it has to be asked to begin transmissions.
    #[inline(always)]
    pub(crate) fn has_backlog(&self) -> bool {
        !self.counts_late && (self.unbegun > 0 || !self.waiting.is_empty())
    }

    /// When the next transmission begins. Only where there is a backlog.
    #[inline]
    pub(crate) fn next_departure(&self) -> u64 {
        if self.unbegun > 0 { self.begun_until } else { self.busy_until }
    }

    #[inline(always)]
    fn queue_state(&self, now: u64, in_service: u64, class: u8) -> QueueState {
        let (waiting_packets, waiting_bytes) = match &self.classes {
            // One of both is zero.
            None => (self.waiting.len() + self.unbegun, self.waiting_bytes),
            Some(classes) => classes.waiting(class),
        };
        QueueState {
            now: Time(now),
            waiting_packets,
            waiting_bytes: Bytes(waiting_bytes),
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

    /// The flags of a packet whose transmission begins, once the parts of the port have seen it.
    #[inline]
    fn depart<B: Buffer, O: Observer>(
        &mut self,
        start: u64,
        packet: &Packet,
        flags: Flags,
        around: &mut Around<'_, B, O>,
    ) -> Flags {
        let wire = u64::from(packet.wire);
        let Some(port) = &self.port else { return flags };
        if port.shares() {
            around.buffers[port.buffer as usize].on_departure(port.index, Bytes(wire));
        }
        let marks = if port.sees_departures { self.show_departure(start, packet, flags, around) } else { Marks::NONE };
        if around.observer.watches(around.link) {
            around.observer.departed(around.link, start, marks.ein);
        }
        if marks == Marks::NONE { flags } else { self.mark(start, marks, packet, flags, around) }
    }

    /// Shows a packet whose transmission begins to the marker.
    #[inline]
    fn show_departure<B, O>(
        &mut self,
        start: u64,
        packet: &Packet,
        flags: Flags,
        around: &mut Around<'_, B, O>,
    ) -> Marks {
        let queue = self.queue_state(start, u64::from(packet.wire), flags.class());
        let Some(port) = &mut self.port else { return Marks::NONE };
        let marks = port.marker.on_dequeue(&queue, &view(packet, flags));
        if flags.has(Flags::OPTIONS) {
            self.say(&queue, packet, flags, around);
        }
        marks
    }

    /// Has the marker say what it wants to in a packet that collects telemetry.
    #[cold]
    fn say<B, O>(&self, queue: &QueueState, packet: &Packet, flags: Flags, around: &mut Around<'_, B, O>) {
        let transmitted = Bytes(self.bytes + u64::from(packet.wire));
        if packet.carries_data()
            && let Some(port) = &self.port
            && let Some(hop) = port.marker.telemetry(queue, transmitted)
        {
            let (connection, from_client) = (packet.connection, flags.has(Flags::FROM_CLIENT));
            around.said.push(Said { connection, from_client, option: packet.option, hop });
        }
    }

    /// Shows an arriving packet to the parts of the port; `again` if a packet was evicted for it.
    #[inline]
    fn arrive<B: Buffer, O: Observer>(
        &mut self,
        now: u64,
        packet: &Packet,
        idle: bool,
        again: bool,
        around: &mut Around<'_, B, O>,
    ) -> Arrived {
        let in_service = if idle { 0 } else { u64::from(self.in_service) };
        let queue = self.queue_state(now, in_service, packet.flags.class());
        if !again && around.observer.watches(around.link) {
            let arrival = self.arrival(now, packet);
            around.observer.arrived(around.link, &arrival);
        }
        if !again && around.observer.follows(around.link) {
            around.observer.packet_arrived(around.link, now, packet);
        }
        let flags = packet.flags;
        let Some(port) = &mut self.port else { return Arrived::In(flags) };
        let seen = view(packet, flags);
        let marks = !port.quiet.covers(queue.waiting_packets, Bytes(queue.bytes(true).0 + u64::from(packet.wire)));
        if marks && !again && port.marker.drops(&queue, &seen) {
            self.drop_packet(now, packet, around);
            return Arrived::Done;
        }
        let verdict = if port.sharing == Sharing::Apart {
            Verdict::Admit
        } else {
            around.buffers[port.buffer as usize].admit(port.index, &queue, &seen)
        };
        match verdict {
            Verdict::Admit => {}
            Verdict::Trim if !packet.carries_data() => {}
            Verdict::Trim => {
                self.trim(now, packet, idle, around);
                return Arrived::Done;
            }
            Verdict::Drop => {
                self.drop_packet(now, packet, around);
                return Arrived::Done;
            }
            Verdict::Evict(victim) => return Arrived::Evict(victim),
        }
        let marks = if marks { port.marker.on_enqueue(&queue, &seen) } else { Marks::NONE };
        Arrived::In(if marks == Marks::NONE { flags } else { self.mark(now, marks, packet, flags, around) })
    }

    /// Drops a packet's payload and takes in its header.
    #[cold]
    fn trim<B: Buffer, O: Observer>(&mut self, now: u64, packet: &Packet, idle: bool, around: &mut Around<'_, B, O>) {
        self.counters.drops += 1;
        self.counters.trimmed += 1;
        event(around.observer, now, EventKind::Drop, around.link, packet);
        let header = packet.trimmed();
        if around.observer.follows(around.link) {
            around.observer.packet_admitted(around.link, &header);
        }
        self.take_in(now, &header, idle, around);
    }

    /// Drops the packet that would be sent last. Returns whether there was one.
    pub(crate) fn evict<B: Buffer, O: Observer>(&mut self, now: u64, around: &mut Around<'_, B, O>) -> bool {
        if self.counts_late {
            self.count_waiting(now);
        }
        let packet = match &mut self.classes {
            _ if self.unbegun > 0 => self.recall(),
            _ if self.waiting.is_empty() => return false,
            None => self.waiting.pop_last(),
            Some(classes) => {
                self.waiting.leave();
                classes.pop_last()
            }
        };
        let wire = u64::from(packet.wire);
        self.waiting_bytes -= wire;
        if around.observer.follows(around.link) {
            around.observer.packet_evicted(around.link, packet.flags.class());
        }
        if let Some(port) = self.port.as_ref().filter(|port| port.shares()) {
            around.buffers[port.buffer as usize].on_departure(port.index, Bytes(wire));
        }
        around.observer.queue_changed(around.link, now, self.waiting.len(), self.waiting_bytes);
        self.drop_packet(now, &packet, around);
        true
    }

    #[inline(always)]
    fn begin<B: Buffer, O: Observer>(&mut self, start: u64, packet: &Packet, around: &mut Around<'_, B, O>) {
        let wire = u64::from(packet.wire);
        self.in_service = packet.wire;
        if self.plain {
            self.packets += 1;
            self.bytes += wire;
            self.put_on_wire(start, *packet);
            return;
        }
        self.begin_unless_plain(start, packet, around);
    }

    fn begin_unless_plain<B: Buffer, O: Observer>(
        &mut self,
        start: u64,
        packet: &Packet,
        around: &mut Around<'_, B, O>,
    ) {
        let wire = u64::from(packet.wire);
        let mut flags = packet.flags;
        if self.departures_matter {
            flags = self.depart(start, packet, flags, around);
            if around.observer.follows(around.link) {
                around.observer.packet_left(around.link, start, packet, flags);
            }
        }
        if self.plain_line {
            self.packets += 1;
            self.bytes += wire;
            self.put_on_wire(start, Packet { flags, ..*packet });
            return;
        }
        self.launch(start, &Packet { flags, ..*packet }, around);
    }

    /// Puts a packet on an ordinary line, its transmission beginning at `start`.
    #[inline(always)]
    fn put_on_wire(&mut self, start: u64, packet: Packet) {
        self.busy_until = start + u64::from(packet.wire) * self.ps_per_byte;
        self.flying.push(Flight { at: self.busy_until + self.delay, packet });
    }

    /// Begins a transmission on a line that is out of the ordinary.
    #[inline(never)]
    fn launch<B, O: Observer>(&mut self, start: u64, packet: &Packet, around: &mut Around<'_, B, O>) {
        let wire = u64::from(packet.wire);
        let end = self.occupy(start, self.time_for(wire));
        self.packets += 1;
        self.bytes += wire;
        let mut at = end + self.delay;
        if let Some(host) = &mut self.receiving {
            at = host.through(Time(at));
        }
        let flight = Flight { at, packet: *packet };
        if self.impairment.is_some() {
            self.launch_impaired(start, flight, around);
        } else {
            self.flying.push(flight);
        }
    }

    /// Takes the line for a while from `start` on; returns when it has let the packet go.
    #[inline(always)]
    fn occupy(&mut self, start: u64, time: u64) -> u64 {
        if self.burst > 0 {
            return self.take_tokens(start, time);
        }
        self.busy_until = start + time;
        self.busy_until
    }

    /// A token bucket is a line that may begin earlier than the packet is there, by as much as the bucket is deep.
    #[cold]
    fn take_tokens(&mut self, start: u64, time: u64) -> u64 {
        self.busy_until = self.busy_until.max(start.saturating_sub(self.burst)) + time;
        self.busy_until.max(start)
    }

    #[cold]
    fn launch_impaired<B, O: Observer>(&mut self, now: u64, flight: Flight, around: &mut Around<'_, B, O>) {
        let Some(impairment) = &mut self.impairment else { return };
        let Flight { at, packet } = flight;
        if impairment.loss > 0.0 && impairment.random.chance(impairment.loss) {
            around.vanished.push(packet.connection);
            if packet.is_trimmed() {
                self.counters.trimmed -= 1;
            } else {
                self.counters.wire_losses += 1;
                event(around.observer, now, EventKind::WireLoss, around.link, &packet);
            }
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
        if self.foresees {
            return self.begin_foreseen(now, around);
        }
        while self.busy_until <= now && !self.waiting.is_empty() {
            let packet = match &mut self.classes {
                None => self.waiting.pop(),
                Some(classes) => {
                    self.waiting.leave();
                    classes.pop()
                }
            };
            self.waiting_bytes -= u64::from(packet.wire);
            let start = self.busy_until;
            if self.port.is_some() {
                around.observer.queue_changed(around.link, start, self.waiting.len(), self.waiting_bytes);
            }
            self.begin(start, &packet, around);
        }
    }

    /// The same at a port that foresees: what leaves is on the wire already, and may still be marked there.
    #[inline]
    fn begin_foreseen<B, O: Observer>(&mut self, now: u64, around: &mut Around<'_, B, O>) {
        while self.begun_until <= now && self.has_backlog() {
            let place = self.flying.len() - self.unbegun;
            let start = self.begun_until;
            let Packet { wire, flags, .. } = self.flying.get(place).packet;
            self.unbegun -= 1;
            self.waiting_bytes -= u64::from(wire);
            if !self.begins_unseen(start, wire, flags) {
                let packet = self.flying.get(place).packet;
                self.flying.get_mut(place).packet.flags = self.begin_seen(start, &packet, flags, around);
            }
            self.count_begun(wire);
        }
    }

    /// A packet begins its transmission at a port that foresees and does not count late: nobody but its marker wants to know. Whether
    /// that takes it in unseen, and does not mark it.
    #[inline(always)]
    fn begins_unseen(&mut self, start: u64, wire: u16, flags: Flags) -> bool {
        let bytes = u64::from(wire);
        self.in_service = wire;
        self.begun_until = start + bytes * self.ps_per_byte;
        let at_port = Bytes(self.waiting_bytes + bytes);
        !flags.has(Flags::OPTIONS)
            && self.port.as_mut().is_some_and(|port| port.marker.takes_departure(Time(start), at_port, Bytes(bytes)))
    }

    #[inline(always)]
    fn count_begun(&mut self, wire: u16) {
        self.packets += 1;
        self.bytes += u64::from(wire);
    }

    #[inline(never)]
    fn begin_seen<B, O: Observer>(
        &mut self,
        start: u64,
        packet: &Packet,
        flags: Flags,
        around: &mut Around<'_, B, O>,
    ) -> Flags {
        let marks = self.show_departure(start, packet, flags, around);
        if marks == Marks::NONE { flags } else { self.mark(start, marks, packet, flags, around) }
    }

    /// Puts a packet with these flags on the wire at such a port: it begins its transmission, or leaves when all before it have.
    #[inline(always)]
    fn foresee_shown<B, O: Observer>(
        &mut self,
        now: u64,
        packet: &Packet,
        flags: Flags,
        idle: bool,
        around: &mut Around<'_, B, O>,
    ) {
        let mut flags = flags;
        let mut start = self.busy_until;
        if idle {
            start = now;
            if !self.begins_unseen(now, packet.wire, flags) {
                flags = self.begin_seen(now, packet, flags, around);
            }
            self.count_begun(packet.wire);
        } else {
            self.unbegun += 1;
            self.waiting_bytes += u64::from(packet.wire);
            self.max_waiting = self.max_waiting.max(self.unbegun);
        }
        self.put_on_wire(start, Packet { flags, ..*packet });
    }

    /// A packet arrives at the port. If that calls for an eviction, nothing has happened yet: once a packet of the port
    /// named is gone, it is to be enqueued `again`.
    #[inline(always)]
    pub(crate) fn enqueue<B: Buffer, O: Observer>(
        &mut self,
        now: u64,
        packet: &Packet,
        again: bool,
        around: &mut Around<'_, B, O>,
    ) -> Option<PortIndex> {
        if self.counts_late {
            if self.is_surely_quiet(now, packet) {
                self.foresee(now, packet);
                return None;
            }
            self.count_waiting(now);
        } else if self.foresees {
            return self.enqueue_shown(now, packet, again, around);
        } else {
            self.advance(now, around);
        }
        let idle = self.busy_until <= now;
        if self.counts_late || !self.is_quiet(self.waiting.len(), packet) {
            match self.arrive(now, packet, idle, again, around) {
                Arrived::In(flags) => {
                    if around.observer.follows(around.link) {
                        around.observer.packet_admitted(around.link, packet);
                    }
                    if flags != packet.flags {
                        self.take_in(now, &Packet { flags, ..*packet }, idle, around);
                        return None;
                    }
                }
                Arrived::Done => return None,
                Arrived::Evict(victim) => return Some(victim),
            }
        }
        self.take_in(now, packet, idle, around);
        None
    }

    /// The same at a port that foresees and does not count late.
    #[inline(always)]
    fn enqueue_shown<B: Buffer, O: Observer>(
        &mut self,
        now: u64,
        packet: &Packet,
        again: bool,
        around: &mut Around<'_, B, O>,
    ) -> Option<PortIndex> {
        // Mostly nothing is due, and no function is called.
        if self.unbegun > 0 && self.begun_until <= now {
            self.begin_foreseen(now, around);
        }
        if !self.is_quiet(self.unbegun, packet) {
            return self.enqueue_asked(now, packet, again, around);
        }
        self.foresee_shown(now, packet, packet.flags, self.busy_until <= now, around);
        None
    }

    /// The same once what was due has begun, where buffer and marker have to be asked.
    #[inline(never)]
    fn enqueue_asked<B: Buffer, O: Observer>(
        &mut self,
        now: u64,
        packet: &Packet,
        again: bool,
        around: &mut Around<'_, B, O>,
    ) -> Option<PortIndex> {
        let idle = self.busy_until <= now;
        let flags = match self.arrive(now, packet, idle, again, around) {
            Arrived::In(marked) => marked,
            Arrived::Done => return None,
            Arrived::Evict(victim) => return Some(victim),
        };
        self.foresee_shown(now, packet, flags, idle, around);
        None
    }

    /// Whether neither buffer nor marker need to be asked about an arrival, at a port that does not count late.
    #[inline(always)]
    fn is_quiet(&self, waiting: u32, packet: &Packet) -> bool {
        // The packet that was in service last and the queues of other classes make the queue look longer, never shorter.
        let bytes = self.waiting_bytes + u64::from(self.in_service) + u64::from(packet.wire);
        waiting < self.quiet_packets && bytes <= self.quiet_extent
    }

    /// The same at a port that counts late, and may have to count first.
    #[inline(always)]
    fn is_surely_quiet(&self, now: u64, packet: &Packet) -> bool {
        // All of the packet in service counts, however much of it has left: at most as much as of the longest.
        let bytes = u64::from(self.longest) + u64::from(packet.wire);
        let extent = self.busy_until.saturating_sub(now) + bytes * self.ps_per_byte;
        self.unbegun.min(self.flying.len()) < self.quiet_packets && extent <= self.quiet_extent
    }

    /// Puts a packet on the wire, to leave when all before it has, at a port that counts late.
    #[inline(always)]
    fn foresee(&mut self, now: u64, packet: &Packet) {
        let wire = u64::from(packet.wire);
        let start = self.busy_until.max(now);
        // A packet that has reached the far end no longer waits.
        let waits = u32::from(start > now);
        self.unbegun = (self.unbegun.min(self.flying.len()) + 1) * waits;
        if self.unbegun > self.max_waiting {
            self.note_longer_queue(now);
        }
        self.packets += 1;
        self.bytes += wire;
        self.longest = self.longest.max(packet.wire);
        self.put_on_wire(start, *packet);
    }

    /// One more packet waits, perhaps more than ever before.
    #[inline(never)]
    fn note_longer_queue(&mut self, now: u64) {
        self.unbegun -= 1;
        self.count_waiting(now);
        self.unbegun += 1;
        self.max_waiting = self.max_waiting.max(self.unbegun);
    }

    /// Finds out what waits and what is in service, at a port that counts late. A packet whose transmission begins at `now` does not
    /// wait.
    fn count_waiting(&mut self, now: u64) {
        (self.unbegun, self.waiting_bytes, self.in_service) = if self.busy_until > now {
            let all = self.flying.len();
            // The first packet that has not left is in service. It cannot have reached the far end. All behind it wait, and will
            // leave one right after the other.
            let mut first = all.saturating_sub(self.unbegun + 1);
            let gone = now + self.delay;
            while self.flying.get(first).at <= gone {
                first += 1;
            }
            let Flight { at, packet } = *self.flying.get(first);
            (all - first - 1, (self.busy_until - (at - self.delay)) / self.ps_per_byte, packet.wire)
        } else {
            (0, 0, 0)
        };
    }

    /// Takes the packet back that would leave last, at a port that foresees and knows what waits.
    fn recall(&mut self) -> Packet {
        let packet = self.flying.pop_last().packet;
        let wire = u64::from(packet.wire);
        self.unbegun -= 1;
        if self.counts_late {
            self.packets -= 1;
            self.bytes -= wire;
        }
        self.busy_until -= wire * self.ps_per_byte;
        packet
    }

    /// Whether it can go [apart](Self::go_apart) from the memory that it shares.
    pub(crate) fn can_go_apart(&self) -> bool {
        let shares = self.port.as_ref().is_some_and(Port::shares);
        shares && self.plain_line && self.classes.is_none() && !self.keeps_queue
    }

    /// Goes without the memory that it shares, and takes along what waits: it foresees, as if it shared nothing. All transmissions have
    /// begun that are due.
    pub(crate) fn go_apart<B: Buffer>(&mut self, buffer: &mut B) {
        let Some(port) = &mut self.port else { return };
        (port.sharing, port.listed) = (Sharing::Apart, false);
        let index = port.index;
        self.note_what_is_plain();
        self.begun_until = self.busy_until;
        self.longest = self.longest.max(self.in_service);
        self.unbegun = self.waiting.len();
        while !self.waiting.is_empty() {
            let packet = self.waiting.pop();
            buffer.on_departure(index, Bytes(u64::from(packet.wire)));
            self.longest = self.longest.max(packet.wire);
            self.put_on_wire(self.busy_until, packet);
        }
        if self.counts_late {
            self.packets += u64::from(self.unbegun);
            self.bytes += self.waiting_bytes;
            self.waiting_bytes = 0;
        }
    }

    /// What waits where the port is apart: packets, and their bytes. Transmissions that are due at `now` have begun.
    pub(crate) fn waiting_apart(&mut self, now: u64) -> (u32, u64) {
        self.count_until(now);
        (self.unbegun, self.waiting_bytes)
    }

    /// Shares the memory again, and brings what waits, as far as its transmission is not due at `now`.
    pub(crate) fn come_back<B: Buffer>(&mut self, now: u64, buffer: &mut B) {
        let (waits, bytes) = self.waiting_apart(now);
        let Some(port) = &mut self.port else { return };
        port.sharing = Sharing::Together;
        let on_wire = self.flying.len() - waits;
        for place in on_wire..self.flying.len() {
            let packet = self.flying.get(place).packet;
            buffer.on_return(port.index, Bytes(u64::from(packet.wire)));
            self.waiting.push(packet);
        }
        self.flying.truncate(on_wire);
        self.busy_until -= bytes * self.ps_per_byte;
        if self.counts_late {
            self.packets -= u64::from(waits);
            self.bytes -= bytes;
        }
        self.unbegun = 0;
        self.note_what_is_plain();
    }

    /// Counts what has begun its transmission up to `now`.
    pub(crate) fn count_until(&mut self, now: u64) {
        if self.counts_late {
            self.count_waiting(now);
        }
    }

    /// Packets whose transmission has begun. A port that counts late may know of fewer, but of all up to the time for which it
    /// has [counted](Self::count_until).
    pub(crate) fn begun(&self) -> u64 {
        let late = if self.counts_late { self.unbegun.min(self.flying.len()) } else { 0 };
        self.packets - u64::from(late)
    }

    /// Bytes whose transmission has begun, at a port that has just counted.
    pub(crate) const fn begun_bytes(&self) -> u64 {
        if self.counts_late { self.bytes - self.waiting_bytes } else { self.bytes }
    }

    /// Whether the memory that the port shares takes a packet in unseen, where neither marker nor observer want to see it. If
    /// so, it is to be [enqueued](Self::enqueue_taken); if not, nothing has happened.
    #[inline]
    pub(crate) fn takes<B: Buffer, O: Observer>(&self, packet: &Packet, around: &mut Around<'_, B, O>) -> bool {
        let Some(port) = self.port.as_ref().filter(|port| port.shares()) else { return false };
        let wire = u64::from(packet.wire);
        // What is due and has not departed yet makes the queue look longer, never shorter.
        let bytes = self.waiting_bytes + u64::from(self.in_service) + wire;
        !around.observer.watches(around.link)
            && !around.observer.follows(around.link)
            && port.quiet.covers(self.waiting.len(), Bytes(bytes))
            && around.buffers[port.buffer as usize].takes(port.index, Bytes(wire))
    }

    /// A packet arrives at the port that has been [taken in](Self::takes).
    #[inline(always)]
    pub(crate) fn enqueue_taken<B: Buffer, O: Observer>(
        &mut self,
        now: u64,
        packet: &Packet,
        around: &mut Around<'_, B, O>,
    ) {
        self.advance(now, around);
        self.take_in(now, packet, self.busy_until <= now, around);
    }

    /// A packet that was admitted begins transmission or waits.
    #[inline(always)]
    fn take_in<B: Buffer, O: Observer>(
        &mut self,
        now: u64,
        packet: &Packet,
        idle: bool,
        around: &mut Around<'_, B, O>,
    ) {
        if self.counts_late {
            return self.foresee(now, packet);
        }
        if self.foresees {
            return self.foresee_shown(now, packet, packet.flags, idle, around);
        }
        if self.port.is_some() {
            around.observer.enqueued(around.link, now, self.waiting.len());
        }
        if idle {
            self.begin(now, packet, around);
            return;
        }
        match &mut self.classes {
            None => self.waiting.push(*packet),
            Some(classes) => {
                self.waiting.enter();
                classes.push(*packet);
            }
        }
        self.waiting_bytes += u64::from(packet.wire);
        self.max_waiting = self.max_waiting.max(self.waiting.len());
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
    pub(crate) fn drop_packet<B, O: Observer>(&mut self, now: u64, packet: &Packet, around: &mut Around<'_, B, O>) {
        around.vanished.push(packet.connection);
        if packet.is_trimmed() {
            self.counters.trimmed -= 1;
            return;
        }
        self.counters.drops += 1;
        event(around.observer, now, EventKind::Drop, around.link, packet);
    }
}

#[inline]
const fn view(packet: &Packet, flags: Flags) -> PacketView {
    PacketView {
        bytes: Bytes(packet.wire as u64),
        payload: Bytes(if packet.is_trimmed() { 0 } else { packet.payload as u64 }),
        marks: flags.marks(),
        ecn_capable: flags.has(Flags::ECT),
        class: flags.class(),
        flow: packet.connection,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Written;
    use incast_protocols::Duration;
    use incast_protocols::switch::marker::AnyMarker;
    use incast_testing::Random;
    use incast_world::random::{Purpose, stream};
    use std::mem::{offset_of, size_of};

    #[test]
    fn what_every_packet_needs_is_in_two_lines_of_the_cache() {
        // Which marker it is, and its first word or where it lies.
        let needed = 2 * size_of::<usize>();
        let marker = offset_of!(Link<AnyMarker>, port) + offset_of!(Port<AnyMarker>, marker);
        assert!(marker + needed <= 2 * 64, "the marker begins at {marker}");
    }

    /// Sets the marks it is told to and writes down what it saw.
    #[derive(Clone, Debug, Default)]
    struct Scripted {
        on_enqueue: Marks,
        on_dequeue: Marks,
        /// It does not want to know of departures.
        looks_away: bool,
        /// Nor of arrivals that find fewer packets waiting.
        quiet_below: u32,
        /// Departures that find at most this many bytes at the port are taken in unseen, and never marked.
        takes_up_to: u64,
        taken: u64,
        arrivals: Vec<(QueueState, PacketView)>,
        departures: Vec<(QueueState, PacketView)>,
        /// When, what was at the port, and bytes of the packet, seen or not.
        left: Vec<(Time, Bytes, Bytes)>,
    }

    impl Marker for Scripted {
        fn on_enqueue(&mut self, queue: &QueueState, packet: &PacketView) -> Marks {
            self.arrivals.push((*queue, *packet));
            self.on_enqueue
        }

        fn on_dequeue(&mut self, queue: &QueueState, packet: &PacketView) -> Marks {
            self.departures.push((*queue, *packet));
            self.left.push((queue.now, queue.bytes(true), packet.bytes));
            if queue.bytes(true).0 <= self.takes_up_to { Marks::NONE } else { self.on_dequeue }
        }

        fn takes_departure(&mut self, now: Time, at_port: Bytes, bytes: Bytes) -> bool {
            let takes = at_port.0 <= self.takes_up_to;
            if takes {
                self.taken += 1;
                self.left.push((now, at_port, bytes));
            }
            takes
        }

        fn sees_departures(&self) -> bool {
            !self.looks_away
        }

        fn quiet(&self) -> Quiet {
            Quiet::below_packets(self.quiet_below, false)
        }
    }

    /// Admits this many waiting packets and writes down what leaves.
    #[derive(Clone, Debug)]
    struct Limit {
        waiting: u32,
        /// Bytes at the port, those of the packet in service among them.
        bytes: u64,
        otherwise: Verdict,
        /// How many more it takes in unseen.
        unseen: u32,
        asked: u32,
        left: Vec<(PortIndex, Bytes)>,
        /// Bytes that it has admitted or got back, less those that have left.
        held: i64,
    }

    impl Buffer for Limit {
        fn admit(&mut self, _port: PortIndex, queue: &QueueState, packet: &PacketView) -> Verdict {
            self.asked += 1;
            let fits = queue.waiting_packets < self.waiting && (queue.bytes(true) + packet.bytes).0 <= self.bytes;
            let verdict = if queue.in_service == Bytes::ZERO || fits { Verdict::Admit } else { self.otherwise };
            self.held += if verdict == Verdict::Admit { packet.bytes.0.cast_signed() } else { 0 };
            verdict
        }

        fn takes(&mut self, port: PortIndex, bytes: Bytes) -> bool {
            assert_eq!((port, bytes), (PortIndex(9), Bytes(1500)));
            let takes = self.unseen > 0;
            self.unseen -= u32::from(takes);
            takes
        }

        fn on_departure(&mut self, port: PortIndex, bytes: Bytes) {
            self.left.push((port, bytes));
            self.held -= bytes.0.cast_signed();
        }

        fn on_return(&mut self, port: PortIndex, bytes: Bytes) {
            assert_eq!(port, PortIndex(9));
            self.held += bytes.0.cast_signed();
        }
    }

    #[derive(Default)]
    struct Log {
        events: Vec<Event>,
        /// Time, packets, bytes.
        queue: Vec<(u64, u32, u64)>,
        found: Vec<u32>,
        watched: bool,
    }

    impl Observer for Log {
        fn join(&mut self, _other: Self) {}

        fn queue_changed(&mut self, link: u32, now: u64, waiting_packets: u32, waiting_bytes: u64) {
            assert_eq!(link, LINK);
            self.queue.push((now, waiting_packets, waiting_bytes));
        }

        fn enqueued(&mut self, _link: u32, _now: u64, found: u32) {
            self.found.push(found);
        }

        fn watches(&self, _link: u32) -> bool {
            self.watched
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
        said: Vec<Said>,
    }

    impl Bench {
        /// The log wants to know of queues.
        fn new(port: Option<Port<Scripted>>, impairment: Option<Impairment>) -> Self {
            let mut link = Link::new(Rate(10_000_000_000), DELAY, port, Quiet::NEVER, None, impairment);
            link.keep_queue();
            Self {
                link,
                buffers: [1, 2].map(|waiting| Limit {
                    waiting,
                    bytes: u64::MAX,
                    otherwise: Verdict::Drop,
                    unseen: 0,
                    asked: 0,
                    left: Vec::new(),
                    held: 0,
                }),
                said: Vec::new(),
                log: Log::default(),
                vanished: Vec::new(),
            }
        }

        /// A switch port whose buffer holds two waiting packets.
        fn port(marker: Scripted, shares: bool) -> Self {
            Self::new(Some(Port::new(marker, 1, PortIndex(9), shares)), None)
        }

        fn with(&mut self, act: impl FnOnce(&mut Link<Scripted>, &mut Around<'_, Limit, Log>)) {
            let around = &mut Around {
                link: LINK,
                buffers: &mut self.buffers,
                observer: &mut self.log,
                vanished: &mut self.vanished,
                said: &mut self.said,
            };
            act(&mut self.link, around);
        }

        fn enqueue(&mut self, now: u64, packet: &Packet) {
            self.with(|link, around| {
                if link.takes(packet, around) {
                    link.enqueue_taken(now, packet, around);
                } else {
                    assert_eq!(link.enqueue(now, packet, false, around), None);
                }
            });
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

    /// What a port and its parts show and have seen.
    fn all_of(bench: &Bench) -> impl PartialEq + std::fmt::Debug + use<> {
        let Bench { link, buffers, log, vanished, .. } = bench;
        let Counters { drops, ce_marks, ein_marks, .. } = link.counters;
        let marker = bench.marker();
        let seen = if marker.takes_up_to == 0 { marker.departures.clone() } else { Vec::new() };
        (
            (marker.arrivals.clone(), seen, marker.left.clone(), buffers[1].left.clone()),
            (log.events.clone(), vanished.clone()),
            (link.max_waiting, link.begun(), link.begun_bytes(), drops, ce_marks, ein_marks),
        )
    }

    /// A packet of a random size, and how long after the one before it comes. If they come `in_step`, it is just when others have left.
    fn some_packet(random: &mut impl FnMut(u64) -> u64, connection: u32, slow: u64, in_step: bool) -> (u64, Packet) {
        let gap = if in_step { PACKET_TIME * random(slow) } else { random(slow * PACKET_TIME) };
        let any = [64, 1500, 64 + random(1436)][random(3) as usize] as u16;
        let wire = if in_step { 1500 } else { any };
        (gap, Packet { wire, payload: wire - 40, ..packet(connection, Flags::ECT) })
    }

    /// Two ports get the same packets of random sizes at random times; one keeps its queue, the other foresees. They show the same
    /// to their parts, and the same leaves when it does.
    #[test]
    fn a_port_that_foresees_does_as_one_that_keeps_its_queue() {
        let mut source = Random(7);
        let mut random = |below: u64| u64::from(source.below(below as u32));
        let (mut dropped, mut marked, mut longest, mut taken) = (0, 0, 0, 0);
        for round in 0..3_000 {
            let otherwise = [Verdict::Drop, Verdict::Trim, Verdict::Evict(PortIndex(9))][random(3) as usize];
            let waiting = random(12) as u32;
            let marks = [Marks::NONE, Marks::CE, Marks::EIN];
            let marker = Scripted {
                on_enqueue: marks[random(3) as usize],
                on_dequeue: marks[random(3) as usize],
                looks_away: random(2) == 0,
                quiet_below: random(8) as u32,
                takes_up_to: [0, 1500, 4000][random(3) as usize],
                ..Scripted::default()
            };
            let most = [1_000, 9_000, 60_000][random(3) as usize];
            let quiet = Quiet { packets: waiting, bytes: Bytes(most) };
            let bench = |keeps: bool| {
                let mut bench = Bench::port(marker.clone(), false);
                bench.link.quiet = quiet.and(marker.quiet());
                bench.link.keeps_queue = keeps;
                bench.link.note_what_is_plain();
                bench.buffers[1] = Limit { waiting, bytes: most, otherwise, ..bench.buffers[1].clone() };
                bench
            };
            let (mut keeps, mut foresees) = (bench(true), bench(false));
            assert_eq!((keeps.link.foresees, foresees.link.foresees), (false, true));
            assert_eq!(foresees.link.counts_late, marker.looks_away);
            let mut now = 0;
            let (slow, steps, in_step) = (1 + random(3), random(120), random(2) == 0);
            for connection in 0..steps as u32 {
                let (gap, packet) = some_packet(&mut random, connection, slow, in_step);
                now += gap;
                for bench in [&mut keeps, &mut foresees] {
                    bench.with(|link, around| {
                        let mut again = false;
                        while link.enqueue(now, &packet, again, around).is_some() {
                            if !link.evict(now, around) {
                                return link.drop_packet(now, &packet, around);
                            }
                            again = true;
                        }
                    });
                }
                if random(4) == 0 {
                    for bench in [&mut keeps, &mut foresees] {
                        bench.advance(now);
                    }
                    let arrived = |bench: &mut Bench| {
                        let mut arrived = Vec::new();
                        while bench.link.head() <= now {
                            let Flight { at, packet } = bench.link.flying.pop();
                            arrived.push((at, packet.connection, packet.wire, packet.flags));
                        }
                        arrived
                    };
                    assert_eq!(arrived(&mut keeps), arrived(&mut foresees), "round {round}");
                }
                if random(8) == 0 {
                    for bench in [&mut keeps, &mut foresees] {
                        bench.advance(now);
                        bench.link.count_until(now);
                    }
                    assert_eq!(all_of(&keeps), all_of(&foresees), "round {round}");
                }
            }
            for bench in [&mut keeps, &mut foresees] {
                bench.advance(now + steps * PACKET_TIME);
                bench.link.count_until(now + steps * PACKET_TIME);
            }
            assert_eq!(all_of(&keeps), all_of(&foresees), "round {round}");
            dropped += keeps.link.counters.drops;
            marked += keeps.link.counters.ce_marks + keeps.link.counters.ein_marks;
            longest = longest.max(keeps.link.max_waiting);
            taken += foresees.marker().taken;
        }
        assert!(dropped > 10_000 && marked > 10_000 && longest > 10, "{dropped} {marked} {longest}");
        assert!(taken > 10_000, "{taken}");
    }

    /// Two ports get the same packets of random sizes at random times, and share a memory with ample room; one goes apart from it now and
    /// then. They show the same to their markers, the same leaves when it does, and the memory knows what waits.
    #[test]
    fn a_port_that_goes_apart_from_its_memory_does_as_one_that_stays() {
        let mut source = Random(11);
        let mut random = |below: u64| u64::from(source.below(below as u32));
        let (mut marked, mut longest, mut came_back, mut at_once, mut left) = (0, 0, 0, 0, 0);
        for round in 0..3_000 {
            let marker = Scripted {
                on_enqueue: [Marks::NONE, Marks::CE, Marks::EIN][random(3) as usize],
                on_dequeue: [Marks::NONE, Marks::EIN][random(2) as usize],
                looks_away: random(2) == 0,
                takes_up_to: [0, 4_000][random(2) as usize],
                quiet_below: [8, u32::MAX][random(2) as usize],
                ..Scripted::default()
            };
            let quiet = Quiet { bytes: Bytes([2_000, 6_000, u64::MAX][random(3) as usize]), ..marker.quiet() };
            let mut benches = [(); 2].map(|()| {
                let mut bench = Bench::port(marker.clone(), true);
                bench.link.keeps_queue = false;
                bench.link.port.as_mut().unwrap().quiet = quiet;
                bench.link.note_what_is_plain();
                bench.buffers[1] = Limit { waiting: u32::MAX, ..bench.buffers[1].clone() };
                bench
            });
            let mut now = 0;
            let mut apart = false;
            let (slow, steps, in_step) = (1 + random(3), random(120), random(2) == 0);
            for connection in 0..steps as u32 {
                let (gap, packet) = some_packet(&mut random, connection, slow, in_step);
                now += gap;
                if random(5) == 0 && now > 0 {
                    let [_, goes] = &mut benches;
                    if apart {
                        goes.with(|link, around| {
                            link.advance(now - 1, around);
                            link.come_back(now - 1, &mut around.buffers[1]);
                        });
                        assert!(!goes.link.foresees);
                        assert_eq!(goes.link.waiting_bytes.cast_signed(), goes.buffers[1].held, "round {round}");
                        came_back += u64::from(goes.link.has_backlog());
                    } else {
                        assert!(goes.link.can_go_apart());
                        goes.with(|link, around| {
                            link.advance(now - 1, around);
                            link.go_apart(&mut around.buffers[1]);
                        });
                        assert_eq!(goes.link.counts_late, marker.looks_away);
                        assert_eq!(goes.buffers[1].held, 0, "round {round}");
                    }
                    apart = !apart;
                    at_once += u64::from(benches[0].link.busy_until == now);
                }
                for bench in &mut benches {
                    bench.with(|link, around| assert_eq!(link.enqueue(now, &packet, false, around), None));
                }
                if random(3) == 0 {
                    let [stays, goes] = benches.each_mut().map(|bench| {
                        bench.advance(now);
                        bench.link.count_until(now);
                        let mut arrived = Vec::new();
                        bench.link.take_arrived(now, |flight| {
                            arrived.push((flight.at, flight.packet.connection, flight.packet.flags));
                        });
                        let Counters { ce_marks, ein_marks, .. } = bench.link.counters;
                        let begun = (bench.link.begun(), bench.link.begun_bytes(), bench.link.max_waiting);
                        let seen = (bench.marker().arrivals.clone(), bench.marker().left.clone());
                        (arrived, begun, ce_marks + ein_marks, seen)
                    });
                    assert_eq!(stays, goes, "round {round}");
                }
            }
            let [stays, _] = &benches;
            marked += stays.link.counters.ce_marks + stays.link.counters.ein_marks;
            longest = longest.max(stays.link.max_waiting);
            left += stays.marker().left.len();
        }
        assert!(marked > 10_000 && longest > 10 && came_back > 1_000, "{marked} {longest} {came_back}");
        assert!(at_once > 1_000 && left > 10_000, "{at_once} {left}");
    }

    /// A short packet is in service, two long ones wait, and a short one comes while one of them is nearly gone: 3,164 bytes are at the port.
    #[test]
    fn a_port_that_goes_apart_knows_how_long_the_packets_are_that_wait() {
        let mut bench = Bench::port(Scripted { looks_away: true, ..Scripted::default() }, true);
        bench.link.keeps_queue = false;
        bench.link.port.as_mut().unwrap().quiet = Quiet::up_to_bytes(Bytes(3_100));
        bench.link.note_what_is_plain();
        bench.buffers[1].waiting = u32::MAX;
        let short = |connection| Packet { wire: 64, payload: 24, ..packet(connection, Flags::ECT) };
        let put = |bench: &mut Bench, now, packet| {
            bench.with(|link, around| assert_eq!(link.enqueue(now, &packet, false, around), None));
        };
        for packet in [short(0), packet(1, Flags::ECT), packet(2, Flags::ECT)] {
            put(&mut bench, 0, packet);
        }
        assert!(bench.marker().arrivals.is_empty());
        bench.with(|link, around| link.go_apart(&mut around.buffers[1]));
        put(&mut bench, PACKET_TIME, Packet { wire: 164, ..short(3) });
        let [(queue, _)] = &bench.marker().arrivals[..] else { panic!("{:?}", bench.marker().arrivals) };
        assert_eq!((queue.waiting_bytes, queue.in_service), (Bytes(1500), Bytes(1500)));
    }

    fn packet(connection: u32, flags: Flags) -> Packet {
        Packet { connection, wire: 1500, payload: 1460, sequence: 1000 + connection, flags, ..Packet::default() }
    }

    /// 8 * 1500 bits at 7 Gbit/s are 1714285.71 ps; bytes are whole picoseconds at 10 Gbit/s.
    #[test]
    fn serialization_is_exact_and_rounded_up_where_it_cannot_be() {
        let time = |rate| Link::<Scripted>::new(Rate(rate), 0, None, Quiet::ALWAYS, None, None).time_for(1500);
        assert_eq!((time(10_000_000_000), time(7_000_000_000)), (PACKET_TIME, 1_714_286));
        assert_eq!((time(8_000_000_000_000), time(12_000_000_000_000)), (1500, 1000));
    }

    /// tbf: a bucket of two packets is full after a pause. What has tokens leaves with no time on the line; what has none waits until
    /// there are, so that packets are as far apart as on a line.
    #[test]
    fn a_token_bucket_lets_a_burst_pass_and_keeps_the_rate() {
        let mut bench = Bench::port(Scripted::default(), false);
        bench.link.set_burst(Bytes(3000));
        let now = 10 * PACKET_TIME;
        for connection in 0..4 {
            bench.enqueue(now, &packet(connection, Flags::default()));
        }
        bench.enqueue(now + PACKET_TIME / 4, &packet(4, Flags::default()));
        bench.enqueue(now + 5 * PACKET_TIME / 2, &packet(5, Flags::default()));
        bench.advance(now + 10 * PACKET_TIME);
        let at = bench.flights().iter().map(|flight| flight.at - DELAY - now).collect::<Vec<_>>();
        let left = [0, 0, PACKET_TIME, 2 * PACKET_TIME, 3 * PACKET_TIME, 4 * PACKET_TIME];
        assert_eq!(at, left);
        assert!(bench.vanished.is_empty());
        // A long pause fills it, and no more than that.
        let later = now + 100 * PACKET_TIME;
        for connection in 6..9 {
            bench.enqueue(later, &packet(connection, Flags::default()));
        }
        let at = bench.flights().iter().map(|flight| flight.at - DELAY - later).collect::<Vec<_>>();
        assert_eq!(at, [0, 0, PACKET_TIME]);
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
        assert_eq!(bench.link.packets, 1);
        bench.advance(100 + PACKET_TIME);
        assert_eq!(bench.link.packets, 2);
        bench.advance(u64::MAX / 2);
        let Link { packets, bytes, max_waiting, counters: Counters { drops, .. }, .. } = bench.link;
        assert_eq!((packets, bytes, drops, max_waiting), (3, 4500, 1, 2));
        assert_eq!(bench.log.queue[2..], [(100 + PACKET_TIME, 1, 1500), (100 + 2 * PACKET_TIME, 0, 0)]);
        assert_eq!(bench.buffers[1].left, [(PortIndex(9), Bytes(1500)); 3]);
        assert_eq!(bench.link.next_event(), bench.link.head());
        let arrivals: Vec<u64> = bench.flights().iter().map(|flight| flight.at).collect();
        assert_eq!(arrivals, [1, 2, 3].map(|n| 100 + n * PACKET_TIME + DELAY));
    }

    /// Its buffer has to know of departures, and its marker said that it need not.
    #[test]
    fn a_marker_that_does_not_see_departures_is_not_shown_those_of_shared_memory() {
        let marker = Scripted { on_dequeue: Marks::CE, looks_away: true, ..Scripted::default() };
        let mut bench = Bench::port(marker, true);
        bench.enqueue(100, &packet(0, Flags::ECT));
        assert_eq!((bench.buffers[1].left.len(), bench.marker().departures.len()), (1, 0));
        assert_eq!(bench.link.counters.ce_marks, 0);
    }

    /// The first finds nobody, the second and third wait; the fourth finds two, and the marker wants to see it.
    #[test]
    fn shared_memory_takes_in_unseen_what_the_marker_need_not_see() {
        for (shares, unseen, watched, asked) in
            [(true, 9, false, 1), (true, 2, false, 2), (false, 9, false, 4), (true, 9, true, 4)]
        {
            let mut bench = Bench::port(Scripted { quiet_below: 2, ..Scripted::default() }, shares);
            bench.buffers[1].unseen = unseen;
            bench.log.watched = watched;
            for connection in 0..4 {
                bench.enqueue(0, &packet(connection, Flags::ECT));
            }
            assert_eq!(bench.buffers[1].asked, asked, "{shares} {unseen} {watched}");
            assert_eq!((bench.marker().arrivals.len(), bench.log.found.len()), (0, 3));
            assert_eq!((bench.link.counters.drops, bench.link.max_waiting), (1, 2));
        }
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
        let view = |flow, marks, ecn_capable| PacketView {
            bytes: Bytes(1500),
            payload: Bytes(1460),
            marks,
            ecn_capable,
            class: 0,
            flow,
        };
        assert_eq!(views, [view(0, Marks::NONE, true), view(1, Marks::CE, false), view(2, Marks::EIN, true)]);
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

    /// The fourth packet finds two waiting and loses its payload: dropped once, wherever its header is lost later.
    #[test]
    fn a_trimmed_packet_leaves_its_payload_behind_and_is_counted_once() {
        let mut bench = Bench::port(Scripted::default(), true);
        bench.buffers[1].otherwise = Verdict::Trim;
        for connection in 0..4 {
            bench.enqueue(0, &packet(connection, Flags::ECT));
        }
        assert_eq!((bench.link.counters.drops, bench.link.counters.trimmed), (1, 1));
        assert_eq!(bench.log.events.iter().map(|event| event.connection).collect::<Vec<_>>(), [3]);
        assert!(bench.vanished.is_empty(), "its header is still there");
        bench.advance(10 * PACKET_TIME);
        assert_eq!(bench.link.bytes, 3 * 1500 + 40);
        assert_eq!(bench.buffers[1].left, [1500, 1500, 1500, 40].map(|bytes| (PortIndex(9), Bytes(bytes))));
        let header = bench.flights().pop().expect("a header").packet;
        assert!(header.is_trimmed() && header.flags == Flags::ECT.with_class(7));

        let mut lossy = impaired(1.0, None);
        lossy.enqueue(0, &header);
        assert_eq!((lossy.link.counters.wire_losses, lossy.link.counters.trimmed), (0, -1));
        assert_eq!((lossy.vanished.as_slice(), lossy.log.events.len()), (&[3][..], 0));
        let mut full = Bench::port(Scripted::default(), false);
        (0..3).for_each(|connection| full.enqueue(0, &packet(connection, Flags::ECT)));
        full.enqueue(0, &header);
        assert_eq!((full.link.counters.drops, full.link.counters.trimmed), (0, -1));
        assert_eq!((full.vanished.as_slice(), full.log.events.len()), (&[3][..], 0));
    }

    /// The newest packet goes, and the buffer is asked again; where none waits, there is nothing to evict.
    #[test]
    fn a_packet_is_evicted_from_the_back_of_the_queue() {
        let mut bench = Bench::port(Scripted::default(), true);
        bench.buffers[1].otherwise = Verdict::Evict(PortIndex(4));
        for connection in 0..3 {
            bench.enqueue(0, &packet(connection, Flags::ECT));
        }
        bench.with(|link, around| {
            assert_eq!(link.enqueue(0, &packet(3, Flags::ECT), false, around), Some(PortIndex(4)));
            assert!(link.evict(0, around));
            assert_eq!(link.enqueue(0, &packet(3, Flags::ECT), true, around), None);
        });
        assert_eq!((bench.link.counters.drops, bench.vanished.as_slice()), (1, &[2][..]));
        assert_eq!(bench.buffers[1].left.len(), 2, "one has begun transmission, one was evicted");
        bench.advance(10 * PACKET_TIME);
        let sent: Vec<u32> = bench.flights().iter().map(|flight| flight.packet.connection).collect();
        assert_eq!(sent, [0, 1, 3]);
        bench.with(|link, around| assert!(!link.evict(0, around)));
    }

    #[test]
    fn a_port_with_classes_sends_the_highest_first_and_evicts_the_lowest() {
        use incast_protocols::switch::scheduler::{SchedulerChoice, SchedulerContext, strict_priority};
        let choice = SchedulerChoice::StrictPriority(strict_priority::Config { queues: 3 });
        let mut bench = Bench::port(Scripted::default(), false);
        bench.buffers[1].waiting = 100;
        bench.link.classes = Classes::new(choice.build(&SchedulerContext {}));
        // The first begins at once; class 5 belongs to the last queue.
        for (connection, class) in [(0, 0), (1, 0), (2, 5), (3, 1), (4, 0), (5, 2)] {
            bench.enqueue(0, &packet(connection, Flags::ECT.with_class(class)));
        }
        assert_eq!((bench.link.waiting.len(), bench.link.max_waiting), (5, 5));
        // Limits and thresholds are for the queue of the packet's class.
        let found: Vec<u32> = bench.marker().arrivals.iter().map(|(queue, _)| queue.waiting_packets).collect();
        assert_eq!(found, [0, 0, 0, 0, 1, 1]);
        bench.with(|link, around| assert!(link.evict(0, around)));
        assert_eq!(bench.vanished, [4]);
        bench.advance(10 * PACKET_TIME);
        let sent: Vec<u32> = bench.flights().iter().map(|flight| flight.packet.connection).collect();
        assert_eq!(sent, [0, 2, 5, 3, 1]);
        assert!(bench.link.waiting.is_empty());
    }

    #[test]
    fn a_hosts_own_port_takes_everything_and_tells_nobody() {
        let mut bench = Bench::new(None, None);
        for connection in 0..100 {
            bench.enqueue(0, &packet(connection, Flags::default()));
        }
        bench.advance(1000 * PACKET_TIME);
        assert_eq!((bench.link.packets, bench.link.max_waiting), (100, 99));
        assert!(bench.log.queue.is_empty() && bench.log.found.is_empty() && bench.vanished.is_empty());
        assert_eq!(bench.link.delay(), DELAY);
    }

    fn impaired(loss: f64, reorder: Option<Reorder>) -> Bench {
        Bench::new(None, Some(Impairment { loss, reorder, random: stream(1, Purpose::Link, 0) }))
    }

    #[test]
    fn a_wire_loses_as_many_packets_as_it_is_told_to() {
        for (loss, expected) in [(0.0, 0..=0), (0.2, 150..=250), (1.0, 1000..=1000)] {
            let mut bench = impaired(loss, None);
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
        bench.link =
            Link::new(Rate(8_000_000_000_000), 0, None, Quiet::ALWAYS, None, bench.link.impairment.map(|boxed| *boxed));
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
        let untouched = stream(1, Purpose::Link, 0).next();
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
