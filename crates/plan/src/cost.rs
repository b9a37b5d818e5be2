//! How much work a plan is, before it is run.

use std::collections::{BTreeMap, VecDeque};

use crate::{End, Handshake, Network, Node, Plan};
use incast_protocols::{Bytes, Time};

/// SYN, SYN-ACK and ACK, and as many to close.
const CONNECTION_PACKETS: u64 = 6;

/// Packet-hops of a plan if nothing is lost: segments and their ACKs over the shortest paths, connections opened
/// and closed. Flows without end count what their receiver's link carries until the run's end.
pub(crate) fn packet_hops(plan: &Plan) -> u64 {
    let mut paths = Paths::new(&plan.network);
    let mut hops: u64 = 0;
    // Sizes may be absurd; this is an estimate.
    let mut add = |length: u64, packets: u64| hops = hops.saturating_add(length.saturating_mul(packets));
    let mut endless = BTreeMap::new();
    for connection in plan.connections.iter().filter(|connection| connection.handshake == Handshake::Counted) {
        add(paths.hops(connection.client, connection.server), CONNECTION_PACKETS);
    }
    for send in &plan.sends {
        let connection = &plan.connections[send.connection as usize];
        let length = paths.hops(connection.client, connection.server);
        if let Some(size) = send.message.size {
            add(length, packets(plan, connection.class, size));
        } else {
            let receiver = if send.from == End::Client { connection.server } else { connection.client };
            endless.insert(receiver, (connection.class, length));
        }
    }
    for aggregator in &plan.aggregators {
        let requests = packets(plan, aggregator.class, aggregator.request);
        for round in &aggregator.rounds {
            for (response, &worker) in round.responses.iter().zip(&aggregator.workers) {
                let connection = &plan.connections[worker as usize];
                let size = response.message.size.unwrap_or(Bytes(0));
                let length = paths.hops(connection.client, connection.server);
                add(length, requests.saturating_add(packets(plan, aggregator.class, size)));
            }
        }
    }
    let seconds = plan.stop_at.map_or(0.0, Time::as_secs_f64);
    for (host, (class, length)) in endless {
        add(length, packets(plan, class, Bytes((paths.rate(host) as f64 * seconds / 8.0) as u64)));
    }
    hops
}

/// Segments of so much payload and their ACKs.
fn packets(plan: &Plan, class: u32, payload: Bytes) -> u64 {
    let tcp = &plan.classes[class as usize].tcp;
    let segments = payload.0.div_ceil(tcp.mss.0.max(1)).max(1);
    let every = tcp.delayed_ack.as_ref().map_or(1, |delayed| delayed.every).max(1);
    segments.saturating_add(segments.div_ceil(u64::from(every)))
}

/// Lengths of shortest paths.
struct Paths<'n> {
    network: &'n Network,
    out: BTreeMap<Node, Vec<Node>>,
    /// By the host that paths begin at.
    known: BTreeMap<u32, BTreeMap<Node, u64>>,
}

impl<'n> Paths<'n> {
    fn new(network: &'n Network) -> Self {
        let mut out: BTreeMap<Node, Vec<Node>> = BTreeMap::new();
        for link in &network.links {
            out.entry(link.from).or_default().push(link.to);
        }
        Self { network, out, known: BTreeMap::new() }
    }

    /// Links from one host to another.
    fn hops(&mut self, from: u32, to: u32) -> u64 {
        let out = &self.out;
        let distances = self.known.entry(from).or_insert_with(|| {
            let mut found = BTreeMap::from([(Node::Host(from), 0)]);
            let mut next = VecDeque::from([Node::Host(from)]);
            while let Some(node) = next.pop_front() {
                let length = found[&node] + 1;
                for &neighbour in out.get(&node).into_iter().flatten() {
                    found.entry(neighbour).or_insert_with(|| {
                        next.push_back(neighbour);
                        length
                    });
                }
            }
            found
        });
        distances.get(&Node::Host(to)).copied().unwrap_or(0)
    }

    /// Bits per second of the link to a host.
    fn rate(&self, host: u32) -> u64 {
        self.network.links.iter().find(|link| link.to == Node::Host(host)).map_or(0, |link| link.rate.0)
    }
}
