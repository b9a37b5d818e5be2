//! What a plan will take, before it is run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use incast_plan::{Aggregator, End, Handshake, Node, Plan, Send};
use incast_protocols::echo::AnyEcho;
use incast_protocols::sender::AnySender;
use incast_protocols::switch::buffer::{Buffer, BufferContext};
use incast_protocols::switch::marker::AnyMarker;
use incast_protocols::{Bytes, Duration};
use incast_record::{Flow, PacketSample, QueueSample, Spill, WindowSample};
use incast_world::{Cost, Shown};

use crate::DriverKind;
use crate::link::Link;
use crate::tcp::Endpoint;

/// What every planned message takes in lists of what has not begun or is over.
const LISTED: u64 = 45;
/// The same for a connection; with its timers, which stay until they are due.
const LISTED_CONNECTION: u64 = 100;
/// What a row of a message takes before it goes to disk.
const ROW: u64 = size_of::<Flow>() as u64;
/// What a message takes while tables are written: its completion time and slowdown, among all and in its class.
const SUMMED_UP: u64 = 24;
/// What a row of a message takes in a part of a table that is being written, and how many rows it takes that for ...
const WRITTEN: u64 = 150;
const PART_ROWS: u64 = 1 << 18;
/// ... and before it is encoded, in a batch. Both are fitted to runs of 6,000 to 666,000 messages.
const GATHERED: u64 = 700;
const BATCH_ROWS: u64 = 1 << 16;
/// What rows of a table take at most that have not gone to disk.
const MOST_KEPT: u64 = Spill::KEEP.0;
/// What a part of such a table takes at most that is being written, one table after the other.
const MOST_WRITTEN: u64 = 25_000_000;
/// What an end of an open connection has in queues and lists beside itself.
const BESIDE_ENDPOINT: u64 = 900;
/// What a link takes, with 300 bytes of queues and lists beside itself.
const LINK: u64 = size_of::<Link<AnyMarker>>() as u64 + 300;

/// Seconds beside those of packet-hops: of a connection that is opened and closed, of a message, of an end that finds no
/// place that another has left, and of a link, which is built.
const PER_CONNECTION_S: f64 = 1.5e-6;
const PER_MESSAGE_S: f64 = 0.3e-6;
const PER_OPEN_END_S: f64 = 1.5e-6;
const PER_LINK_S: f64 = 2e-6;
/// What it takes to fetch a connection from memory, the bytes held that a cache takes all of, and how many more until it
/// takes half as long.
const FETCH_S: f64 = 1.7e-6;
const CACHE: f64 = 4e6;
const BEYOND_CACHE: f64 = 60e6;

/// `shown` by a pilot, if there was one.
pub(crate) fn of(plan: &Plan, shown: Option<Shown>) -> Cost {
    let planned = plan.packets_and_hops();
    let packet_hops = shown.map_or(planned.1, |shown| shown.packet_hops);
    let open_ends = shown.map_or_else(|| 2 * most_open(plan), |shown| shown.open_ends);
    Cost {
        packet_hops,
        seconds: seconds(plan, planned, packet_hops, open_ends),
        memory: memory(plan, packet_hops, open_ends),
        rows: rows(plan, packet_hops),
        open_ends,
        open_end: Bytes(OPEN_END),
    }
}

/// What an end of an open connection takes, and its half of a row.
const OPEN_END: u64 = size_of::<Endpoint<AnySender, AnyEcho>>() as u64 + ROW / 2 + BESIDE_ENDPOINT;

/// Time of a processor. Beside packet-hops that find everything in the cache there is what takes time to fetch from memory:
/// the connection of each packet. Where there are more packet-hops than planned, packets were dropped, most of them at the
/// first switch.
fn seconds(plan: &Plan, planned: (u64, u64), packet_hops: u64, open_ends: u64) -> f64 {
    let links = plan.network.links.len();
    let opened = plan.connections.iter().filter(|one| one.handshake == Handshake::Counted).count();
    let beyond = ((open_ends * OPEN_END + links as u64 * LINK) as f64 - CACHE).max(0.0);
    let packets = planned.0 + packet_hops.saturating_sub(planned.1);
    packet_hops as f64 * seconds_per_packet_hop(plan)
        + packets as f64 * FETCH_S * beyond / (beyond + BEYOND_CACHE)
        + opened as f64 * PER_CONNECTION_S
        + messages(plan) as f64 * PER_MESSAGE_S
        + open_ends as f64 * PER_OPEN_END_S
        + links as f64 * PER_LINK_S
}

/// Where everything is in the cache.
fn seconds_per_packet_hop(plan: &Plan) -> f64 {
    let buffers = || plan.network.switches.iter().flat_map(|switch| &switch.buffers);
    let shares = || buffers().any(|buffer| buffer.build(&BufferContext { ports: 1 }).couples_ports());
    let driver = match DriverKind::choose(plan).0 {
        DriverKind::Sweep if shares() => 80e-9,
        DriverKind::Sweep => 60e-9,
        DriverKind::EventLoop => 100e-9,
    };
    driver * if plan.record.incasts.is_empty() { 1.0 } else { 2.5 }
}

fn messages(plan: &Plan) -> u64 {
    let asked = plan.aggregators.iter().flat_map(|one| &one.rounds).map(|round| round.responses.len()).sum::<usize>();
    (plan.sends.len() + asked) as u64
}

fn memory(plan: &Plan, packet_hops: u64, open_ends: u64) -> Bytes {
    let messages = messages(plan);
    let running = plan.memory().0
        + messages * LISTED
        + plan.connections.len() as u64 * LISTED_CONNECTION
        + (messages * ROW).min(MOST_KEPT)
        + plan.network.links.len() as u64 * LINK
        + open_ends * OPEN_END;
    // Nothing of the run is there any more when its tables are written, nor its plan.
    let writing = messages * SUMMED_UP + messages.min(PART_ROWS) * WRITTEN + messages.min(BATCH_ROWS) * GATHERED;
    let recorded = recorded(plan, packet_hops);
    let kept: u64 = recorded.iter().map(|bytes| bytes.min(&MOST_KEPT)).sum();
    let written = recorded.iter().map(|bytes| bytes.min(&MOST_WRITTEN)).max().unwrap_or(&0);
    Bytes(Cost::PROCESS.0 + running.max(writing) + kept + written)
}

fn rows(plan: &Plan, packet_hops: u64) -> Bytes {
    let recorded = recorded(plan, packet_hops).iter().map(|bytes| bytes.saturating_sub(MOST_KEPT)).sum::<u64>();
    Bytes(messages(plan) * ROW + recorded)
}

/// How many connections are open at once, if every host receives what is for it in the order of its start, at the rate of
/// its link.
fn most_open(plan: &Plan) -> u64 {
    let mut hosts = Receivers::new(plan);
    let mut open = Open::new(plan);
    let mut jobs: Vec<_> = plan.aggregators.iter().collect();
    jobs.sort_by_key(|one| one.start);
    let mut jobs = jobs.into_iter().peekable();
    for send in &plan.sends {
        while let Some(one) = jobs.next_if(|one| one.start <= send.start) {
            open.job(one, &mut hosts);
        }
        open.send(send, &mut hosts);
    }
    for one in jobs {
        open.job(one, &mut hosts);
    }
    open.most
}

/// When each host will have received what is for it, in seconds.
struct Receivers {
    rates: Vec<f64>,
    free_at: Vec<f64>,
    /// Of a packet there and back, at most.
    round_trip: f64,
}

impl Receivers {
    fn new(plan: &Plan) -> Self {
        let mut rates = vec![1.0; plan.network.hosts as usize];
        let (mut of_host, mut of_switch) = (0, 0);
        for link in &plan.network.links {
            if let Node::Host(host) = link.to {
                rates[host as usize] = link.rate.0.max(1) as f64;
                of_host = of_host.max(link.delay.0);
            } else if let Node::Switch(_) = link.from {
                of_switch = of_switch.max(link.delay.0);
            }
        }
        let free_at = vec![0.0; rates.len()];
        Self { rates, free_at, round_trip: Duration(4 * (of_host + of_switch)).as_secs_f64() }
    }

    /// When a host has received `bytes` that begin to arrive now, or once it has received what came before.
    fn receive(&mut self, host: u32, now: f64, bytes: f64) -> f64 {
        let free_at = &mut self.free_at[host as usize];
        *free_at = free_at.max(now) + bytes * 8.0 / self.rates[host as usize];
        *free_at
    }
}

/// Connections that are open.
struct Open<'p> {
    plan: &'p Plan,
    /// By connection: messages that it will still be given.
    left: Vec<u32>,
    begun: Vec<bool>,
    /// When connections close. Of numbers that are not negative the bits are in order.
    ends: BinaryHeap<Reverse<u64>>,
    now: u64,
    most: u64,
}

impl<'p> Open<'p> {
    /// Opening and closing take three round trips.
    const ROUND_TRIPS: f64 = 3.0;

    fn new(plan: &'p Plan) -> Self {
        let mut left = vec![0; plan.connections.len()];
        for send in &plan.sends {
            left[send.connection as usize] += 1;
        }
        let begun: Vec<bool> = plan.connections.iter().map(|one| one.handshake == Handshake::Before).collect();
        let now = begun.iter().filter(|begun| **begun).count() as u64;
        Self { plan, left, begun, ends: BinaryHeap::new(), now, most: now }
    }

    fn send(&mut self, send: &Send, hosts: &mut Receivers) {
        let connection = &self.plan.connections[send.connection as usize];
        let to = if send.from == End::Client { connection.server } else { connection.client };
        let start = send.start.as_secs_f64();
        self.open(send.connection, start);
        let end = send.size().map_or(f64::INFINITY, |size| hosts.receive(to, start, size.0 as f64));
        self.left[send.connection as usize] -= 1;
        if self.left[send.connection as usize] == 0 {
            self.close(send.connection, end + Self::ROUND_TRIPS * hosts.round_trip);
        }
    }

    fn job(&mut self, one: &Aggregator, hosts: &mut Receivers) {
        let connections = || one.workers.iter().chain(&one.opened_by_workers);
        let mut end = one.start.as_secs_f64();
        for &connection in connections() {
            self.open(connection, end);
        }
        for round in &one.rounds {
            let waits = round.responses.iter().map(|one| one.jitter.0 + one.service_time.0).max().unwrap_or(0);
            let bytes: f64 = round.responses.iter().filter_map(|one| one.message.size).map(|size| size.0 as f64).sum();
            // Responses arrive while others are still computed.
            end = hosts.receive(one.host, end, bytes).max(end + Duration(waits).as_secs_f64()) + hosts.round_trip;
        }
        for &connection in connections() {
            self.close(connection, end + Self::ROUND_TRIPS * hosts.round_trip);
        }
    }

    fn open(&mut self, connection: u32, at: f64) {
        if std::mem::replace(&mut self.begun[connection as usize], true) {
            return;
        }
        while self.ends.peek().is_some_and(|end| f64::from_bits(end.0) < at) {
            self.ends.pop();
            self.now -= 1;
        }
        self.now += 1;
        self.most = self.most.max(self.now);
    }

    fn close(&mut self, connection: u32, at: f64) {
        if self.plan.connections[connection as usize].close_when_done {
            self.ends.push(Reverse(at.to_bits()));
        }
    }
}

/// Rows of queues, packets and windows that are recorded, as far as packets go over the links and to the connections evenly.
fn recorded(plan: &Plan, packet_hops: u64) -> [u64; 3] {
    let of = |all: usize, chosen: &[u32], per_hop: f64, row: usize| {
        let share = chosen.len() as f64 / all.max(1) as f64;
        (packet_hops as f64 * share * per_hop) as u64 * row as u64
    };
    let links = plan.network.links.len();
    [
        // A packet that waits changes a queue twice.
        of(links, &plan.record.queue_series, 2.0, size_of::<QueueSample>()),
        of(links, &plan.record.packets, 1.0, size_of::<PacketSample>()),
        // An ACK changes a window, and there are two links at least on its path and on that of the segment.
        of(plan.connections.len(), &plan.record.window_series, 0.25, size_of::<WindowSample>()),
    ]
}
