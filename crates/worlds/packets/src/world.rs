//! The nodes of a simulation: ports, hosts, connections, programs. They are functions of `now` that
//! emit packets and arm timers; nothing here knows which driver calls, or in which order nodes that
//! cannot influence one another are called.

mod build;
mod columns;
mod control;
mod coupled;
pub(crate) mod frontier;
mod messages;
pub(crate) mod outcome;
mod programs;

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap};

use incast_plan::{End, HostNoise, Plan};
use incast_protocols::application::AnyApplication;
use incast_protocols::echo::AnyEcho;
use incast_protocols::receiver::{AckCause, AnyReceiver};
use incast_protocols::sender::{AnySender, Sender, Windows};
use incast_protocols::switch::buffer::{AnyBuffer, PortIndex};
use incast_protocols::switch::marker::AnyMarker;
use incast_protocols::{Bytes, Message, Time};
use incast_record::{EventKind, Totals, WindowSample};

use crate::link::{Around, Link, Said};
use crate::noise::Delays;
use crate::observe::{Observer, sender_event};
use crate::packet::{Flags, Packet, Ways};
use crate::tcp::sack::Options;
use crate::tcp::send::Fin;
use crate::tcp::{Endpoint, MessageId, NEVER, Outbox, Span, State, queue};
use incast_world::Curve;
use incast_world::Routes;
use incast_world::tie::{Entity, Kind, Order};

use control::Nic;
use coupled::Coupled;
use frontier::Frontier;
use messages::Messages;
use programs::Program;

/// No slot.
const NONE: u32 = u32::MAX;

/// What nodes ask of a driver.
pub(crate) trait Schedule {
    /// A link has to be looked at, at the latest at `at`: its first packet arrives then.
    fn wake_link(&mut self, link: u32, at: u64);
    /// A link has packets waiting; its next departure is at `at`.
    fn backlog(&mut self, link: u32, at: u64);
    /// A link that loses or reorders has to be looked at again at `at`, which may be earlier than what
    /// [`wake_link`](Self::wake_link) said.
    fn impaired(&mut self, _link: u32, _at: u64) {}
    /// `entity`, which lives on `host`, falls due at `at`.
    fn arm(&mut self, at: u64, host: u32, entity: Entity);
}

/// Where a link ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Host(u32),
    Switch(u32),
}

/// What a link works with.
macro_rules! around {
    ($world:ident, $link:ident) => {
        Around {
            link: $link,
            buffers: &mut $world.buffers,
            observer: &mut $world.observer,
            vanished: &mut $world.vanished,
            said: &mut $world.said,
        }
    };
}

type AnyEndpoint = Endpoint<AnySender, AnyEcho>;

/// Everything that is simulated.
pub(crate) struct World<'p, O> {
    plan: &'p Plan,
    pub(crate) order: Order,
    pub(crate) routes: Routes,
    pub(crate) ways: Ways,
    pub(crate) links: Vec<Link<AnyMarker>>,
    pub(crate) targets: Vec<Target>,
    buffers: Vec<AnyBuffer>,
    /// By switch: the ports that share memory, if any do.
    coupled: Vec<Option<Coupled>>,
    /// By buffer: the next departure of each port that shares it and has a backlog, or an earlier time.
    departures: Vec<BinaryHeap<Reverse<(u64, u32)>>>,
    /// By buffer and number of the port: the link behind it.
    ports: BTreeMap<(u32, PortIndex), u32>,
    pub(crate) observer: O,
    vanished: Vec<u32>,
    /// Telemetry that ports have for packets which have just left them.
    said: Vec<Said>,
    /// Packets of which no more than the header has reached its host.
    headers_delivered: u64,
    /// By host: delays between TCP and the host's port, if there are any.
    sending: Vec<Delays>,
    /// By connection: the class of service of its packets.
    service: Vec<u8>,
    out: Outbox,
    /// By connection, its client and its server among the endpoints.
    ends_of: Vec<[u32; 2]>,
    /// By connection and end: messages that it will hand over.
    to_write: Vec<[u32; 2]>,
    /// Ends of connections that are open, and some that are free.
    endpoints: Vec<AnyEndpoint>,
    free: Vec<u32>,
    nics: Vec<Nic<AnyReceiver>>,
    programs: Vec<Program<AnyApplication>>,
    /// Whether any of them is told of all payload that arrives.
    watches_progress: bool,
    columns: columns::Columns,
    /// By connection: the aggregator whose it is.
    program_of: Vec<u32>,
    messages: Messages<'p>,
    /// Messages of known size that are not complete.
    pub(crate) unfinished: u64,
    /// Completion of the last of them.
    pub(crate) finished_at: u64,
    pub(crate) totals: Totals,
    curve: Curve,
    /// Payload that has arrived, each byte once, also beyond a gap.
    arrived: u64,
    /// The latest time at which a packet reached its host.
    pub(crate) last_delivery: u64,
    /// Where this is the world of a part of the network.
    pub(crate) frontier: Option<Frontier<'p>>,
    counted: Counted,
}

/// Packet-hops as they were counted last.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    packet_hops: u64,
    /// Reports that this number is good for.
    reports_left: usize,
}

impl<O: Observer> World<'_, O> {
    /// Where an entity lives.
    pub(crate) fn host_of(&self, entity: Entity) -> u32 {
        match entity.kind() {
            Kind::Endpoint(number) => {
                let connection = &self.plan.connections[number as usize / 2];
                if number % 2 == 0 { connection.client } else { connection.server }
            }
            Kind::Send(index) | Kind::Known(index) => {
                let send = &self.plan.sends[index as usize];
                let connection = &self.plan.connections[send.connection as usize];
                match send.from {
                    End::Client => connection.client,
                    End::Server => connection.server,
                }
            }
            Kind::Nic(host) => host,
            Kind::Scheduler(program) | Kind::Begin(program) => self.plan.aggregators[program as usize].host,
            Kind::Ask(response) => self.asker_of(response),
            Kind::Respond(response) => self.worker_of(response),
            Kind::Link(_) => NONE,
        }
    }

    /// A packet arrives at an output port. Everything that shares its memory has departed up to now, unless the memory takes
    /// the packet in without that.
    #[inline]
    pub(crate) fn enqueue(&mut self, link: u32, now: u64, packet: &Packet, schedule: &mut impl Schedule) {
        let mut taken = false;
        if let Some(memory) = self.links[link as usize].memory() {
            taken = self.links[link as usize].takes(packet, &mut around!(self, link));
            if !taken {
                self.catch_up(memory, now, schedule);
            }
        }
        self.enqueue_each(link, std::iter::once((now, packet)), taken, schedule);
    }

    /// Packets arrive at an output port, in order.
    #[inline]
    pub(crate) fn enqueue_all<'q>(
        &mut self,
        link: u32,
        arrivals: impl Iterator<Item = (u64, &'q Packet)>,
        schedule: &mut impl Schedule,
    ) {
        self.enqueue_each(link, arrivals, false, schedule);
    }

    /// The same, where the port's memory has `taken` them or not.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "of many packets at once none is taken, which is known where it is called"
    )]
    fn enqueue_each<'q>(
        &mut self,
        link: u32,
        arrivals: impl Iterator<Item = (u64, &'q Packet)>,
        taken: bool,
        schedule: &mut impl Schedule,
    ) {
        let mut port = &mut self.links[link as usize];
        let had_flying = !port.flying.is_empty();
        let had_backlog = port.has_backlog();
        let mut around = around!(self, link);
        for (now, packet) in arrivals {
            if taken {
                port.enqueue_taken(now, packet, &mut around);
            } else if let Some(victim) = port.enqueue(now, packet, false, &mut around) {
                self.make_room(link, victim, now, packet);
                port = &mut self.links[link as usize];
                around = around!(self, link);
            }
        }
        if !had_flying && !port.flying.is_empty() {
            schedule.wake_link(link, port.head());
        }
        if port.is_impaired() {
            schedule.impaired(link, port.next_event());
        }
        if !had_backlog && port.has_backlog() {
            self.list_departure(link, schedule);
        }
        if !self.said.is_empty() {
            self.write_telemetry();
        }
    }

    /// A port has a backlog from now on.
    #[inline]
    fn list_departure(&mut self, link: u32, schedule: &mut impl Schedule) {
        schedule.backlog(link, self.links[link as usize].next_departure());
        self.list_at_memory(link);
    }

    /// The memory that a port with a backlog shares has to know when it departs.
    #[inline]
    fn list_at_memory(&mut self, link: u32) {
        let port = &mut self.links[link as usize];
        let next = port.next_departure();
        if let Some(port_of_switch) = port.port.as_mut().filter(|port| port.shares() && !port.listed) {
            port_of_switch.listed = true;
            self.departures[port_of_switch.buffer as usize].push(Reverse((next, link)));
        }
    }

    /// Evicts packets until `packet`, which arrives at `link`, is taken in or dropped.
    #[cold]
    fn make_room(&mut self, link: u32, victim: PortIndex, now: u64, packet: &Packet) {
        let mut victim = Some(victim);
        while let Some(evicted) = victim {
            // Without shared memory a buffer has a say at its own port only, since others are simulated on their own.
            let port = self.links[link as usize].port.as_ref();
            let from = port.and_then(|port| {
                if port.index == evicted {
                    Some(link)
                } else {
                    self.ports.get(&(port.buffer, evicted)).copied().filter(|_| port.shares())
                }
            });
            let room = from.is_some_and(|from| self.links[from as usize].evict(now, &mut around!(self, from)));
            let port = &mut self.links[link as usize];
            let around = &mut around!(self, link);
            victim = if room {
                port.enqueue(now, packet, true, around)
            } else {
                port.drop_packet(now, packet, around);
                None
            };
        }
    }

    /// Puts what ports have said into the telemetry of the packets it is for.
    #[cold]
    fn write_telemetry(&mut self) {
        while let Some(said) = self.said.pop() {
            if self.say_abroad(said) {
                continue;
            }
            let Said { connection, from_client, option, hop } = said;
            let receiver = self.ends_of[connection as usize][usize::from(from_client)];
            if receiver != NONE {
                self.endpoints[receiver as usize].arriving.add_hop(option, hop);
            }
        }
    }

    /// Begins the transmissions of a link that are due up to and including `now`, and those of every port that shares
    /// its memory.
    #[inline]
    pub(crate) fn advance(&mut self, link: u32, now: u64, schedule: &mut impl Schedule) {
        if let Some(memory) = self.links[link as usize].memory() {
            self.catch_up(memory, now, schedule);
            if !self.links[link as usize].is_impaired() {
                return;
            }
            // Also if it has nothing to send: what it has on the wire has to be looked at again.
        }
        self.advance_alone(link, now, schedule);
    }

    /// Begins the transmissions of all ports that share a memory, one by one in order of time, up to and including `now`.
    #[inline]
    fn catch_up(&mut self, memory: u32, now: u64, schedule: &mut impl Schedule) {
        // Between most arrivals nothing is due.
        if self.departures[memory as usize].peek().is_some_and(|first| first.0.0 <= now) {
            self.begin_due(memory, now, schedule);
        }
    }

    #[inline(never)]
    fn begin_due(&mut self, memory: u32, now: u64, schedule: &mut impl Schedule) {
        let mut departures = std::mem::take(&mut self.departures[memory as usize]);
        while let Some(mut first) = departures.peek_mut()
            && first.0.0 <= now
        {
            let Reverse((at, link)) = *first;
            self.advance_alone(link, at, schedule);
            let port = &mut self.links[link as usize];
            if port.waiting.is_empty() {
                PeekMut::pop(first);
                if let Some(port) = &mut port.port {
                    port.listed = false;
                }
            } else {
                first.0.0 = port.busy_until;
            }
        }
        self.departures[memory as usize] = departures;
    }

    #[inline]
    fn advance_alone(&mut self, link: u32, now: u64, schedule: &mut impl Schedule) {
        let port = &mut self.links[link as usize];
        let had_flying = !port.flying.is_empty();
        port.advance(now, &mut around!(self, link));
        if !had_flying && !port.flying.is_empty() {
            schedule.wake_link(link, port.head());
        }
        if port.is_impaired() {
            schedule.impaired(link, port.next_event());
        }
        if !self.said.is_empty() {
            self.write_telemetry();
        }
    }

    /// The output link for a packet that has arrived at a switch.
    #[inline]
    pub(crate) fn route(&self, switch: u32, packet: &Packet) -> u32 {
        let way = self.ways.of(packet);
        self.routes.next(switch, way.destination, way.edge, way.path)
    }

    /// A packet arrives at its host.
    #[inline]
    pub(crate) fn deliver(&mut self, now: u64, packet: &Packet, schedule: &mut impl Schedule) {
        if packet.is_trimmed() {
            return self.deliver_header(packet);
        }
        self.totals.delivered += 1;
        self.last_delivery = self.last_delivery.max(now);
        let index = self.end_for(packet);
        if index == NONE {
            return;
        }
        let endpoint = &mut self.endpoints[index as usize];
        endpoint.under_way -= 1;
        let tcp = &self.plan.classes[endpoint.class as usize].tcp;
        if endpoint.only_takes_in(tcp, packet) && self.sending.is_empty() {
            return self.take_payload(now, index, packet, schedule);
        }
        if endpoint.only_lets_go_on(packet) {
            endpoint.go_on(now, tcp, packet, &mut self.out);
            return self.settle(now, index, schedule);
        }
        let (sack, telemetry);
        let mut options = Options::NONE;
        if packet.flags.has(Flags::OPTIONS) {
            (sack, telemetry) = endpoint.arriving.read(packet);
            options = Options { sack: &sack, telemetry: telemetry.as_ref() };
        }
        let arrived = endpoint.on_segment(now, tcp, packet, options, &mut self.out);
        let controlled = endpoint.flow.is_some();
        if let Some(data) = &arrived.data {
            self.curve.add(now, data.delivered);
            self.arrived += data.new;
            if self.watches_progress {
                self.note_progress(now, packet, data.delivered);
            }
            if data.out_of_order {
                self.count_out_of_order(packet);
            }
        }
        if controlled || arrived.opened {
            self.tell_controller(now, index, packet, &arrived);
        }
        if !(self.out.packets.is_empty() && self.out.signals.is_empty()) {
            // What completes may make this host use other connections: these packets are not theirs.
            self.settle(now, index, schedule);
        }
        while let Some(span) = self.endpoints[index as usize].receive.completed() {
            self.complete(now, index, &span, schedule);
        }
        let endpoint = &mut self.endpoints[index as usize];
        let tcp = &self.plan.classes[endpoint.class as usize].tcp;
        endpoint.output(now, tcp, &mut self.out);
        if arrived.syn_ack_due {
            self.request_ack(now, index, AckCause::SynAck);
        } else if endpoint.receive.ack_due {
            self.request_ack(now, index, AckCause::Data);
        }
        self.settle(now, index, schedule);
        let done = self.endpoints[index as usize].state == State::Done;
        if controlled || arrived.opened {
            if done {
                if self.endpoints[index as usize].receive.held {
                    self.send_ack(now, index, AckCause::Data);
                    self.settle(now, index, schedule);
                }
                self.unregister(now, index);
            }
            let host = self.endpoints[index as usize].host;
            self.run_controller(now, host, schedule);
        }
        if done {
            self.release_if_done(packet.connection);
        }
    }

    /// A packet arrives of which the payload is [only taken in](Endpoint::only_takes_in).
    #[inline]
    fn take_payload(&mut self, now: u64, index: u32, packet: &Packet, schedule: &mut impl Schedule) {
        let endpoint = &mut self.endpoints[index as usize];
        let tcp = &self.plan.classes[endpoint.class as usize].tcp;
        let ack = endpoint.take_in(now, tcp, packet);
        endpoint.under_way += i64::from(ack.is_some());
        let host = endpoint.host;
        self.arm(index, schedule);
        let payload = u64::from(packet.payload);
        self.curve.add(now, payload);
        self.arrived += payload;
        if self.watches_progress {
            self.note_progress(now, packet, payload);
        }
        if let Some(ack) = &ack {
            self.totals.sent += 1;
            self.enqueue_all(self.routes.uplink[host as usize], std::iter::once((now, ack)), schedule);
        }
        if self.observer.wants_windows(packet.connection) {
            self.sample_windows(now, index);
        }
    }

    /// The end to which a packet goes, or `NONE`.
    #[inline]
    pub(crate) fn end_for(&self, packet: &Packet) -> u32 {
        self.ends_of[packet.connection as usize][usize::from(packet.flags.has(Flags::FROM_CLIENT))]
    }

    /// Reads what a packet needs of the end to which it goes, if that is there.
    #[inline]
    pub(crate) fn touch_end(&self, packet: &Packet) -> u64 {
        self.endpoints.get(self.end_for(packet) as usize).map_or(0, Endpoint::touch)
    }

    /// A packet without its payload arrives at its host, which takes no notice: it was dropped where it was trimmed.
    #[cold]
    fn deliver_header(&mut self, packet: &Packet) {
        self.headers_delivered += 1;
        self.vanished.push(packet.connection);
        self.bury_vanished();
    }

    /// An entity falls due.
    pub(crate) fn fire(&mut self, now: u64, entity: Entity, schedule: &mut impl Schedule) {
        match entity.kind() {
            Kind::Endpoint(number) => self.fire_endpoint(now, number, schedule),
            Kind::Send(index) => {
                let send = &self.plan.sends[index as usize];
                let mut told = send.message();
                if let Some(Time(at)) = send.size_known_at().filter(|at| at.0 > now) {
                    told.size = None;
                    schedule.arm(at, self.host_of(entity), Entity::of(Kind::Known(index)));
                }
                let id = MessageId::Flow(index);
                self.hand_over(now, send.connection, send.from, id, send.size(), told, schedule);
            }
            Kind::Known(index) => self.learn_size(now, index, schedule),
            Kind::Nic(host) => self.fire_controller(now, host, schedule),
            Kind::Scheduler(program) => self.fire_scheduler(now, program, schedule),
            Kind::Begin(program) => self.begin_round(now, program, schedule),
            Kind::Ask(response) => self.ask(now, response, schedule),
            Kind::Respond(response) => self.respond(now, response, schedule),
            Kind::Link(_) => {}
        }
    }

    fn fire_endpoint(&mut self, now: u64, number: u32, schedule: &mut impl Schedule) {
        let index = self.ends_of[number as usize / 2][number as usize % 2];
        if index == NONE {
            return;
        }
        let endpoint = &mut self.endpoints[index as usize];
        if endpoint.scheduled_at != now {
            return;
        }
        endpoint.scheduled_at = NEVER;
        if endpoint.deadline() <= now {
            let tcp = &self.plan.classes[endpoint.class as usize].tcp;
            let syn_ack_due = endpoint.on_timer(now, tcp, &mut self.out);
            endpoint.output(now, tcp, &mut self.out);
            if syn_ack_due {
                // A repeated SYN-ACK announces nothing new, so no controller is asked whether it may leave.
                self.send_ack(now, index, AckCause::SynAck);
            } else if endpoint.receive.ack_due {
                self.request_ack(now, index, AckCause::Data);
            }
        }
        self.settle(now, index, schedule);
        self.run_controller_of(now, index, schedule);
    }

    /// An application hands a message to its socket, and tells what it knows of it.
    #[expect(clippy::too_many_arguments, reason = "what is handed over, by whom, and what is told of it")]
    pub(crate) fn hand_over(
        &mut self,
        now: u64,
        connection: u32,
        from: End,
        id: MessageId,
        size: Option<Bytes>,
        told: Message,
        schedule: &mut impl Schedule,
    ) {
        debug_assert!(self.out.packets.is_empty() && self.out.signals.is_empty());
        let index = self.end_of(connection, from);
        let opens = self.endpoints[index as usize].state == State::Closed && from == End::Client;
        if opens {
            self.register(now, index);
        }
        if let MessageId::Request(response) = id {
            self.tell_controller_of_request(now, index, response);
        }
        if opens && self.endpoints[index as usize].flow.is_some() {
            self.first_grant(now, index);
        }
        let tcp = &self.plan.classes[self.endpoints[index as usize].class as usize].tcp;
        let endpoint = &mut self.endpoints[index as usize];
        let span = endpoint.send.write(id, size, told.handed_over(Time(now)));
        endpoint.to_write -= 1;
        if endpoint.to_write == 0 && endpoint.close_when_done && span.end != u64::MAX {
            endpoint.send.fin = Fin::Wanted;
        }
        if opens {
            endpoint.open(now, tcp, &mut self.out);
        } else {
            endpoint.output(now, tcp, &mut self.out);
        }
        self.expect_message(connection, from.other(), span);
        self.settle(now, index, schedule);
        self.run_controller_of(now, index, schedule);
    }

    /// The end of a connection that is to get a message is told of it, long before its first segment arrives.
    fn expect_message(&mut self, connection: u32, to: End, span: Span) {
        if self.announce_abroad(connection, to, span) {
            return;
        }
        if let MessageId::Flow(flow) = span.id {
            self.messages.row(&self.routes, flow).offset = Some(span.start);
        }
        let index = self.end_of(connection, to);
        queue(&mut self.endpoints[index as usize].receive.incoming, span);
    }

    /// An application learns how large the message is that it is sending.
    #[cold]
    fn learn_size(&mut self, now: u64, index: u32, schedule: &mut impl Schedule) {
        let send = &self.plan.sends[index as usize];
        let [client, server] = self.ends_of[send.connection as usize];
        let (index_of_end, receiver) = if send.from == End::Client { (client, server) } else { (server, client) };
        if index_of_end == NONE {
            return;
        }
        let endpoint = &mut self.endpoints[index_of_end as usize];
        let tcp = &self.plan.classes[endpoint.class as usize].tcp;
        let (id, facts) = (MessageId::Flow(index), send.message().handed_over(Time(now)));
        endpoint.send.learn(now, id, facts);
        endpoint.output(now, tcp, &mut self.out);
        // The first segment tells the other end; what comes after it no longer does.
        let incoming = &mut self.endpoints[receiver as usize].receive.incoming;
        if let Some(span) = incoming.iter_mut().find(|span| span.id == id && !span.introduced) {
            span.facts = facts;
        }
        self.settle(now, index_of_end, schedule);
    }

    /// Sends what an endpoint has put out, writes down what it told, and arms its timer.
    #[inline]
    fn settle(&mut self, now: u64, index: u32, schedule: &mut impl Schedule) {
        self.arm(index, schedule);
        let endpoint = &mut self.endpoints[index as usize];
        let host = endpoint.host;
        let connection = endpoint.template.connection;
        if !self.out.packets.is_empty() {
            let sent = self.out.packets.len();
            endpoint.under_way += sent as i64;
            self.totals.sent += sent as u64;
            let uplink = self.routes.uplink[host as usize];
            let mut packets = std::mem::take(&mut self.out.packets);
            if !self.out.options.sacks.is_empty() {
                self.pass_options(index, &packets);
            }
            if let Some(&delays) = self.sending.get(host as usize) {
                self.send_late(uplink, host, now, delays, &packets, schedule);
            } else {
                self.enqueue_all(uplink, packets.iter().map(|packet| (now, packet)), schedule);
            }
            packets.clear();
            self.out.packets = packets;
        }
        if !self.out.signals.is_empty() {
            self.note_signals(now, index);
        }
        if self.observer.wants_windows(connection) {
            self.sample_windows(now, index);
        }
    }

    /// Has the driver look at the timer of an end no later than it expires.
    #[inline]
    fn arm(&mut self, index: u32, schedule: &mut impl Schedule) {
        let endpoint = &self.endpoints[index as usize];
        let deadline = endpoint.deadline();
        if deadline < endpoint.scheduled_at {
            self.arm_at(deadline, index, schedule);
        }
    }

    /// A function of its own, as most packets do not need it.
    #[inline(never)]
    fn arm_at(&mut self, deadline: u64, index: u32, schedule: &mut impl Schedule) {
        let endpoint = &mut self.endpoints[index as usize];
        endpoint.scheduled_at = deadline;
        let number = endpoint.template.connection * 2 + u32::from(!endpoint.is_client());
        schedule.arm(deadline, endpoint.host, Entity::of(Kind::Endpoint(number)));
    }

    /// Packets reach their host's port later than `now`. The port may run ahead of time: nobody else feeds it, and they
    /// keep their order.
    fn send_late(
        &mut self,
        uplink: u32,
        host: u32,
        now: u64,
        mut delays: Delays,
        packets: &[Packet],
        schedule: &mut impl Schedule,
    ) {
        let HostNoise { sending, per, .. } = &self.plan.network.noise;
        let late = packets.iter().map(|packet| (delays.through(now, sending, *per), packet));
        self.enqueue_all(uplink, late, schedule);
        self.sending[host as usize] = delays;
    }

    /// Options go to the other end ahead of the packets that carry them.
    #[cold]
    fn pass_options(&mut self, index: u32, packets: &[Packet]) {
        let endpoint = &self.endpoints[index as usize];
        let (connection, to) =
            (endpoint.template.connection, if endpoint.is_client() { End::Server } else { End::Client });
        let mut written = std::mem::take(&mut self.out.options);
        let abroad = self.pass_options_abroad(connection, to, &written);
        let other = self.ends_of[connection as usize][usize::from(to == End::Server)];
        if !abroad {
            self.endpoints[other as usize].arriving.extend(&written);
        }
        written.clear();
        self.out.options = written;
        if abroad {
            return;
        }
        let arriving = &self.endpoints[other as usize].arriving;
        // Who writes packets down has to know the options that travel beside them.
        if self.observer.follows_some() {
            for packet in packets.iter().filter(|packet| packet.flags.has(Flags::OPTIONS)) {
                let (sack, kept) = arriving.written(packet);
                self.observer.options_written(packet, sack, kept);
            }
        }
    }

    #[cold]
    fn note_signals(&mut self, now: u64, index: u32) {
        let endpoint = &self.endpoints[index as usize];
        let (connection, from_client) = (endpoint.template.connection, endpoint.is_client());
        for at in 0..self.out.signals.len() {
            let signal = self.out.signals[at];
            self.observer.event(sender_event(now, &signal, connection, from_client));
            let Some(MessageId::Flow(flow)) = signal.message else { continue };
            let losses = &mut self.messages.row(&self.routes, flow).losses;
            match signal.kind {
                EventKind::TimeoutFullWindow => losses.timeouts_full_window += 1,
                EventKind::TimeoutTail => losses.timeouts_tail += 1,
                EventKind::TimeoutLostRetransmission => losses.timeouts_lost_retransmission += 1,
                EventKind::TimeoutControl => losses.timeouts_control += 1,
                EventKind::FastRetransmit => losses.fast_retransmits += 1,
                EventKind::TailProbe => losses.tail_probes += 1,
                EventKind::Retransmission => losses.retransmitted_packets += 1,
                EventKind::MarkReduction => losses.mark_reductions += 1,
                EventKind::Drop
                | EventKind::WireLoss
                | EventKind::CeMark
                | EventKind::EinMark
                | EventKind::TimeoutUntold => {}
            }
        }
        self.out.signals.clear();
    }

    #[cold]
    fn sample_windows(&mut self, now: u64, index: u32) {
        let endpoint = &self.endpoints[index as usize];
        if endpoint.send.limit == 0 {
            return;
        }
        let windows = endpoint.send.sender.windows();
        let view = endpoint.send.view(now);
        self.observer.windows(WindowSample {
            time: Time(now),
            connection: endpoint.template.connection,
            from_client: endpoint.is_client(),
            cwnd: windows.cwnd,
            ssthresh: (windows.ssthresh != Windows::UNLIMITED).then_some(windows.ssthresh),
            rwnd: view.advertised,
            flight: view.flight(),
            alpha: endpoint.send.sender.alpha(),
            srtt: view.srtt,
            own: self.columns.of_class[endpoint.class as usize].zip(endpoint.send.sender.column()),
        });
    }

    /// Ends of connections that have no packet under way and a timer that runs.
    pub(crate) fn waiting_ends(&self) -> u64 {
        let open = self.ends_of.iter().filter(|ends| !ends.contains(&NONE));
        let waiting = open.map(|ends| ends.map(|end| &self.endpoints[end as usize])).filter(|[client, server]| {
            client.under_way + server.under_way == 0 && client.deadline().min(server.deadline()) != NEVER
        });
        2 * waiting.count() as u64
    }

    /// The state of a connection goes once both ends are done and none of its packets is under way, so
    /// that nothing can ever ask for it again.
    fn release_if_done(&mut self, connection: u32) {
        let ends = self.ends_of[connection as usize];
        if ends.contains(&NONE) {
            return self.close_abroad(connection);
        }
        let [client, server] = ends.map(|end| &self.endpoints[end as usize]);
        if client.under_way + server.under_way > 0 || client.state != State::Done || server.state != State::Done {
            return;
        }
        self.ends_of[connection as usize] = [NONE; 2];
        self.free.extend(ends);
    }

    /// Lets go of the rows of messages to which nothing can happen any more: all of them has arrived, and their senders
    /// know that.
    #[cold]
    fn let_go_of_messages(&mut self) {
        let (ends_of, endpoints) = (&self.ends_of, &self.endpoints);
        self.messages.let_go(|row| {
            let sender = ends_of[row.connection as usize][usize::from(!row.from_client)];
            if sender == NONE {
                return true;
            }
            let sender = &endpoints[sender as usize].send;
            let mut until_it = sender.outgoing.iter().take_while(|span| Some(span.start) <= row.offset);
            !until_it.any(|span| Some(span.start) == row.offset)
        });
    }

    /// Settles accounts for packets that will never arrive.
    pub(crate) fn bury_vanished(&mut self) {
        while let Some(connection) = self.vanished.pop() {
            if self.mourn_abroad(connection) {
                continue;
            }
            let [client, _] = self.ends_of[connection as usize];
            if client != NONE {
                self.endpoints[client as usize].under_way -= 1;
                self.release_if_done(connection);
            }
        }
    }
}
