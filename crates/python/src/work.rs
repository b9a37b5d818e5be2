//! How much work a plan is, before it is run.

use std::collections::{HashMap, VecDeque};

use incast_protocols::Bytes;
use incast_scenario::plan::{Handshake, Network, Node, Plan};

/// SYN, SYN-ACK and ACK, and as many to close.
const CONNECTION_PACKETS: u64 = 6;

/// Packet-hops of a plan if nothing is lost: segments and their ACKs over the shortest paths, connections opened
/// and closed. Flows without end count what their receiver's link carries until the run's end.
pub(crate) fn packet_hops(plan: &Plan) -> u64 {
    let mut paths = Paths::new(&plan.network);
    let mut hops = 0;
    let mut endless = HashMap::new();
    for connection in plan.connections.iter().filter(|connection| connection.handshake == Handshake::Counted) {
        hops += CONNECTION_PACKETS * paths.hops(connection.client, connection.server);
    }
    for send in &plan.sends {
        let connection = &plan.connections[send.connection as usize];
        let length = paths.hops(connection.client, connection.server);
        match send.message.size {
            Some(size) => hops += length * packets(plan, connection.class, size),
            None => {
                endless.insert(connection.server.max(connection.client), (connection.class, length));
            }
        }
    }
    for aggregator in &plan.aggregators {
        let requests = packets(plan, aggregator.class, aggregator.request);
        for round in &aggregator.rounds {
            for (response, &worker) in round.responses.iter().zip(&aggregator.workers) {
                let connection = &plan.connections[worker as usize];
                let size = response.message.size.unwrap_or(Bytes(0));
                hops += paths.hops(connection.client, connection.server)
                    * (requests + packets(plan, aggregator.class, size));
            }
        }
    }
    let seconds = plan.stop_at.map_or(0.0, |stop| stop.as_secs_f64());
    for (host, (class, length)) in endless {
        hops += length * packets(plan, class, Bytes((paths.rate(host) as f64 * seconds / 8.0) as u64));
    }
    hops
}

/// Segments of so much payload and their ACKs.
fn packets(plan: &Plan, class: u32, payload: Bytes) -> u64 {
    let tcp = &plan.classes[class as usize].tcp;
    let segments = payload.0.div_ceil(tcp.mss.0.max(1)).max(1);
    segments + segments.div_ceil(u64::from(tcp.delayed_ack.as_ref().map_or(1, |delayed| delayed.every)).max(1))
}

/// Lengths of shortest paths.
struct Paths<'n> {
    network: &'n Network,
    out: HashMap<Node, Vec<Node>>,
    /// By the host that paths begin at.
    known: HashMap<u32, HashMap<Node, u64>>,
}

impl<'n> Paths<'n> {
    fn new(network: &'n Network) -> Self {
        let mut out: HashMap<Node, Vec<Node>> = HashMap::new();
        for link in &network.links {
            out.entry(link.from).or_default().push(link.to);
        }
        Self { network, out, known: HashMap::new() }
    }

    /// Links from one host to another.
    fn hops(&mut self, from: u32, to: u32) -> u64 {
        let out = &self.out;
        let distances = self.known.entry(from).or_insert_with(|| {
            let mut found = HashMap::from([(Node::Host(from), 0)]);
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
