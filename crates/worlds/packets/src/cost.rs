//! What a plan will take, before it is run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use incast_plan::{End, Handshake, Node, Plan};
use incast_protocols::Bytes;
use incast_protocols::echo::AnyEcho;
use incast_protocols::sender::AnySender;
use incast_protocols::switch::buffer::{Buffer, BufferContext};
use incast_protocols::switch::marker::AnyMarker;
use incast_record::{Flow, QueueSample};
use incast_world::Cost;

use crate::DriverKind;
use crate::link::Link;
use crate::tcp::Endpoint;

/// What a message takes beside its row, also while tables are written.
const BESIDE_FLOW: u64 = 150;
/// What an end of an open connection has in queues and lists beside itself.
const BESIDE_ENDPOINT: u64 = 1_500;
/// The same for a link.
const BESIDE_LINK: u64 = 500;

pub(crate) fn of(plan: &Plan) -> Cost {
    let packet_hops = plan.packet_hops();
    Cost { packet_hops, seconds: packet_hops as f64 * seconds_per_packet_hop(plan), memory: memory(plan) }
}

/// The order of magnitude that the committed studies took, whose tables have their CPU time.
fn seconds_per_packet_hop(plan: &Plan) -> f64 {
    let driver = match DriverKind::choose(plan).0 {
        DriverKind::Sweep => 65e-9,
        DriverKind::EventLoop => 140e-9,
    };
    let buffers = || plan.network.switches.iter().flat_map(|switch| &switch.buffers);
    let shares = buffers().any(|buffer| buffer.build(&BufferContext { ports: 1 }).couples_ports());
    driver * if shares { 1.3 } else { 1.0 } * if plan.record.incasts.is_empty() { 1.0 } else { 2.5 }
}

fn memory(plan: &Plan) -> Bytes {
    let asked = plan.aggregators.iter().flat_map(|one| &one.rounds).map(|round| round.responses.len()).sum::<usize>();
    let messages = (plan.sends.len() + asked) as u64;
    let endpoint = size_of::<Endpoint<AnySender, AnyEcho>>() as u64 + BESIDE_ENDPOINT;
    let link = size_of::<Link<AnyMarker>>() as u64 + BESIDE_LINK;
    let bytes = Cost::PROCESS.0
        + plan.memory().0
        + messages * (size_of::<Flow>() as u64 + BESIDE_FLOW)
        + plan.network.links.len() as u64 * link
        + most_open(plan) * 2 * endpoint
        + recorded(plan);
    Bytes(bytes)
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

/// Rows of the queues that are recorded, as far as they are those of receivers.
fn recorded(plan: &Plan) -> u64 {
    if plan.record.queue_series.is_empty() {
        return 0;
    }
    let share = plan.record.queue_series.len() as f64 / plan.network.links.len().max(1) as f64;
    // A packet that waits changes a queue twice.
    (plan.packet_hops() as f64 * share * 2.0) as u64 * size_of::<QueueSample>() as u64
}
