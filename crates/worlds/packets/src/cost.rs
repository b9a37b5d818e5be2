//! What a plan will take, before it is run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use incast_plan::{End, Handshake, Node, Plan};
use incast_protocols::Bytes;
use incast_protocols::echo::AnyEcho;
use incast_protocols::sender::AnySender;
use incast_protocols::switch::buffer::{Buffer, BufferContext};
use incast_protocols::switch::marker::AnyMarker;
use incast_record::{Flow, PacketSample, QueueSample, WindowSample};
use incast_world::Cost;

use crate::DriverKind;
use crate::link::Link;
use crate::tcp::Endpoint;

/// What every planned message and connection takes in lists of what has not begun or is over.
const LISTED: u64 = 45;
/// What a message takes while tables are written: its completion time and slowdown, among all and in its class.
const SUMMED_UP: u64 = 24;
/// What a row of a message takes in a part of a table that is being written, and how many rows it takes that for: fitted
/// to runs of 20,000 to 2,000,000 messages.
const WRITTEN: u64 = 150;
const PART_ROWS: u64 = 1 << 18;
/// The same before it is encoded.
const GATHERED: u64 = 420;
const BATCH_ROWS: u64 = 1 << 16;
/// What rows of a table of recordings take at most that have not gone to disk.
const MOST_KEPT: u64 = 9_000_000;
/// What a part of such a table takes at most that is being written, one table after the other.
const MOST_WRITTEN: u64 = 25_000_000;
/// What an end of an open connection has in queues and lists beside itself.
const BESIDE_ENDPOINT: u64 = 900;
/// The same for a link.
const BESIDE_LINK: u64 = 300;

/// What a message takes beside its packets: a connection that is in no cache, its timers, its row. Fitted to stars and
/// leaf-spine networks of 10,000 to 100,000 hosts.
const PER_MESSAGE_S: f64 = 10e-6;
/// The same for a link, which is built.
const PER_LINK_S: f64 = 2e-6;

pub(crate) fn of(plan: &Plan) -> Cost {
    let packet_hops = plan.packet_hops();
    let seconds = packet_hops as f64 * seconds_per_packet_hop(plan)
        + messages(plan) as f64 * PER_MESSAGE_S
        + plan.network.links.len() as f64 * PER_LINK_S;
    Cost { packet_hops, seconds, memory: memory(plan, packet_hops), rows: rows(plan, packet_hops) }
}

/// The order of magnitude that the committed studies took, whose tables have their CPU time.
fn seconds_per_packet_hop(plan: &Plan) -> f64 {
    let driver = match DriverKind::choose(plan).0 {
        DriverKind::Sweep => 50e-9,
        DriverKind::EventLoop => 120e-9,
    };
    let buffers = || plan.network.switches.iter().flat_map(|switch| &switch.buffers);
    let shares = buffers().any(|buffer| buffer.build(&BufferContext { ports: 1 }).couples_ports());
    driver * if shares { 1.3 } else { 1.0 } * if plan.record.incasts.is_empty() { 1.0 } else { 2.5 }
}

fn messages(plan: &Plan) -> u64 {
    let asked = plan.aggregators.iter().flat_map(|one| &one.rounds).map(|round| round.responses.len()).sum::<usize>();
    (plan.sends.len() + asked) as u64
}

fn memory(plan: &Plan, packet_hops: u64) -> Bytes {
    let messages = messages(plan);
    let endpoint = size_of::<Endpoint<AnySender, AnyEcho>>() as u64 + BESIDE_ENDPOINT;
    let link = size_of::<Link<AnyMarker>>() as u64 + BESIDE_LINK;
    let running = messages.max(plan.connections.len() as u64) * LISTED
        + plan.network.links.len() as u64 * link
        + most_open(plan) * (2 * endpoint + size_of::<Flow>() as u64);
    // Nothing of the run is there any more when its tables are written.
    let writing = messages * SUMMED_UP + messages.min(PART_ROWS) * WRITTEN + messages.min(BATCH_ROWS) * GATHERED;
    let recorded = recorded(plan, packet_hops);
    let kept: u64 = recorded.iter().map(|bytes| bytes.min(&MOST_KEPT)).sum();
    let written = recorded.iter().map(|bytes| bytes.min(&MOST_WRITTEN)).max().unwrap_or(&0);
    Bytes(Cost::PROCESS.0 + plan.memory().0 + running.max(writing) + kept + written)
}

fn rows(plan: &Plan, packet_hops: u64) -> Bytes {
    let recorded = recorded(plan, packet_hops).iter().map(|bytes| bytes.saturating_sub(MOST_KEPT)).sum::<u64>();
    Bytes(messages(plan) * size_of::<Flow>() as u64 + recorded)
}

/// How many connections are open at once, if every host receives what is for it in the order of its start, at the rate of
/// its link.
fn most_open(plan: &Plan) -> u64 {
    let mut rates = vec![0_u64; plan.network.hosts as usize];
    for link in &plan.network.links {
        if let Node::Host(host) = link.to {
            rates[host as usize] = link.rate.0;
        }
    }
    let before = plan.connections.iter().filter(|connection| connection.handshake == Handshake::Before).count();
    let asked: usize = plan.aggregators.iter().map(|one| one.workers.len() + one.opened_by_workers.len()).sum();
    let mut free_at = vec![0.0_f64; rates.len()];
    let mut open: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
    let mut most = 0;
    for send in &plan.sends {
        let connection = &plan.connections[send.connection as usize];
        if connection.handshake == Handshake::Before {
            continue;
        }
        let to = if send.from == End::Client { connection.server } else { connection.client } as usize;
        let start = send.start.as_secs_f64();
        while open.peek().is_some_and(|end| f64::from_bits(end.0) < start) {
            open.pop();
        }
        let takes = send.size().map_or(f64::INFINITY, |size| size.0 as f64 * 8.0 / rates[to].max(1) as f64);
        let end = free_at[to].max(start) + takes;
        if end.is_finite() {
            free_at[to] = end;
        }
        // Of numbers that are not negative the bits are in order.
        open.push(Reverse(end.to_bits()));
        most = most.max(open.len());
    }
    (before + most + asked).min(plan.connections.len()) as u64
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
