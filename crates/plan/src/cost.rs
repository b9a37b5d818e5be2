//! How much work a plan is, before it is run.

use std::collections::{BTreeMap, VecDeque};

use crate::{Aggregator, End, Handshake, Network, Node, Plan, Send};
use incast_protocols::{Bytes, Rate, Time};

/// SYN, SYN-ACK and ACK, and as many to close.
const CONNECTION_PACKETS: u64 = 6;

/// Packets of a plan if nothing is lost, and their packet-hops: segments and their ACKs over the shortest paths, connections
/// opened and closed. Flows without end count what their receiver's link carries until the run's end.
pub(crate) fn packets_and_hops(plan: &Plan) -> (u64, u64) {
    let mut paths = Paths::new(&plan.network);
    let (mut all, mut hops) = (0_u64, 0_u64);
    // Sizes may be absurd; this is an estimate.
    let mut add = |length: u64, packets: u64| {
        all = all.saturating_add(packets);
        hops = hops.saturating_add(length.saturating_mul(packets));
    };
    let mut endless = BTreeMap::new();
    for connection in plan.connections.iter().filter(|connection| connection.handshake == Handshake::Counted) {
        add(paths.hops(connection.client, connection.server), CONNECTION_PACKETS);
    }
    for send in &plan.sends {
        let connection = &plan.connections[send.connection as usize];
        let length = paths.hops(connection.client, connection.server);
        if let Some(size) = send.size() {
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
        add(length, packets(plan, class, Bytes((paths.rate(host).0 as f64 * seconds / 8.0) as u64)));
    }
    (all, hops)
}

/// Bytes that a plan takes itself.
pub(crate) fn memory(plan: &Plan) -> Bytes {
    let network = &plan.network;
    let rounds = || plan.aggregators.iter().flat_map(|aggregator| &aggregator.rounds);
    let workers = |one: &Aggregator| size_of_val(&one.workers[..]) + size_of_val(&one.opened_by_workers[..]);
    let bytes = size_of_val(&network.links[..])
        + size_of_val(&network.switches[..])
        + size_of_val(&plan.connections[..])
        + size_of_val(&plan.sends[..])
        + plan.sends.iter().map(Send::beside).sum::<usize>()
        + size_of_val(&plan.aggregators[..])
        + plan.aggregators.iter().map(workers).sum::<usize>()
        + rounds().map(|round| size_of_val(round) + size_of_val(&round.responses[..])).sum::<usize>();
    Bytes(bytes as u64)
}

/// Segments of so much payload and their ACKs.
fn packets(plan: &Plan, class: u32, payload: Bytes) -> u64 {
    let tcp = &plan.classes[class as usize].tcp;
    let segments = payload.0.div_ceil(tcp.mss.0.max(1)).max(1);
    let every = tcp.delayed_ack.as_ref().map_or(1, |delayed| delayed.every).max(1);
    segments.saturating_add(segments.div_ceil(u64::from(every)))
}

/// Lengths of shortest paths between hosts, each of which has one link out and one in.
struct Paths {
    /// By host: where its link leads.
    up: Vec<Option<Node>>,
    /// By host: where its link comes from, and the rate of it.
    down: Vec<Option<(Node, Rate)>>,
    /// By switch: the set of switches that its links lead to.
    set_of: Vec<usize>,
    /// Each of these sets once. Switches with the same neighbours, such as the leaves below the same spines, share one.
    sets: Vec<Vec<u32>>,
    /// By set: links from its nearest member to each switch, once somebody has asked.
    distances: Vec<Option<Vec<Option<u32>>>>,
}

impl Paths {
    fn new(network: &Network) -> Self {
        let hosts = network.hosts as usize;
        let (mut up, mut down) = (vec![None; hosts], vec![None; hosts]);
        let mut out: Vec<Vec<u32>> = vec![Vec::new(); network.switches.len()];
        for link in &network.links {
            match (link.from, link.to) {
                (Node::Switch(from), Node::Switch(to)) => out[from as usize].push(to),
                (from, Node::Host(to)) => down[to as usize] = Some((from, link.rate)),
                (Node::Host(_), Node::Switch(_)) => {}
            }
            if let Node::Host(from) = link.from {
                up[from as usize] = Some(link.to);
            }
        }
        let mut known: BTreeMap<Vec<u32>, usize> = BTreeMap::new();
        let set_of = out
            .into_iter()
            .map(|mut neighbours| {
                neighbours.sort_unstable();
                neighbours.dedup();
                let next = known.len();
                *known.entry(neighbours).or_insert(next)
            })
            .collect();
        let mut sets = vec![Vec::new(); known.len()];
        for (neighbours, set) in known {
            sets[set] = neighbours;
        }
        Self { up, down, set_of, distances: vec![None; sets.len()], sets }
    }

    /// Links from one host to another; zero if no path leads there.
    fn hops(&mut self, from: u32, to: u32) -> u64 {
        match (self.up[from as usize], self.down[to as usize]) {
            (Some(Node::Switch(first)), Some((Node::Switch(last), _))) => {
                self.between(first, last).map_or(0, |length| u64::from(length) + 2)
            }
            (Some(Node::Host(neighbour)), _) if neighbour == to => 1,
            _ => 0,
        }
    }

    /// Links from one switch to another.
    fn between(&mut self, from: u32, to: u32) -> Option<u32> {
        if from == to {
            return Some(0);
        }
        let set = self.set_of[from as usize];
        if self.distances[set].is_none() {
            self.distances[set] = Some(self.search(set));
        }
        self.distances[set].as_ref()?[to as usize].map(|length| length + 1)
    }

    /// Breadth first from all members of a set.
    fn search(&self, set: usize) -> Vec<Option<u32>> {
        let mut found = vec![None; self.set_of.len()];
        let mut next = VecDeque::new();
        for &member in &self.sets[set] {
            found[member as usize] = Some(0);
            next.push_back((member, 0));
        }
        while let Some((switch, length)) = next.pop_front() {
            for &neighbour in &self.sets[self.set_of[switch as usize]] {
                if found[neighbour as usize].is_none() {
                    found[neighbour as usize] = Some(length + 1);
                    next.push_back((neighbour, length + 1));
                }
            }
        }
        found
    }

    /// The rate of the link to a host.
    fn rate(&self, host: u32) -> Rate {
        self.down[host as usize].map_or(Rate(0), |(_, rate)| rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HostNoise, Link, Switch};
    use incast_protocols::Duration;

    /// Cables between these nodes.
    fn network(hosts: u32, switches: u32, cables: &[(Node, Node)]) -> Network {
        let link = |from, to| Link {
            from,
            to,
            rate: Rate(1_000_000_000),
            delay: Duration::from_us(1),
            port: None,
            loss: 0.0,
            burst: Bytes::ZERO,
            reorder: None,
        };
        Network {
            hosts,
            switches: (0..switches).map(|n| Switch { name: format!("switch {n}"), buffers: Vec::new() }).collect(),
            links: cables.iter().flat_map(|&(a, b)| [link(a, b), link(b, a)]).collect(),
            noise: HostNoise::default(),
            clock_phases: Vec::new(),
        }
    }

    /// Racks of hosts at `leaves` switches, below as many spines as given.
    fn leaf_spine(leaves: u32, per_leaf: u32, spines: u32) -> Network {
        let fabric = (0..leaves).flat_map(|leaf| (0..spines).map(move |spine| (leaf, leaves + spine)));
        let mut cables: Vec<_> = fabric.map(|(leaf, spine)| (Node::Switch(leaf), Node::Switch(spine))).collect();
        cables.extend((0..leaves * per_leaf).map(|host| (Node::Host(host), Node::Switch(host / per_leaf))));
        network(leaves * per_leaf, leaves + spines, &cables)
    }

    #[test]
    fn lengths_are_those_of_the_shortest_paths() {
        let (host, switch) = (Node::Host, Node::Switch);
        // Five switches in a ring with a host each, of which one leads nowhere else; and two hosts on their own.
        let ring = (0..5).map(|n| (switch(n), switch((n + 1) % 5)));
        let cables: Vec<_> = ring.chain((0..5).map(|n| (host(n), switch(n)))).chain([(host(5), host(6))]).collect();
        let mut paths = Paths::new(&network(7, 5, &cables));
        let lengths: Vec<u64> = (0..7).map(|to| paths.hops(0, to)).collect();
        assert_eq!(lengths, [2, 3, 4, 4, 3, 0, 0]);
        assert_eq!((paths.hops(5, 6), paths.hops(6, 5), paths.hops(6, 0)), (1, 1, 0));

        let mut paths = Paths::new(&leaf_spine(3, 2, 2));
        let lengths: Vec<u64> = (1..6).map(|to| paths.hops(0, to)).collect();
        assert_eq!(lengths, [2, 4, 4, 4, 4]);
    }

    /// Otherwise checking a network of many hosts, all of which send, would take the square of their number.
    #[test]
    fn the_search_for_paths_does_not_grow_with_the_hosts() {
        for (leaves, per_leaf) in [(1, 2), (1, 2000), (200, 10)] {
            let network = leaf_spine(leaves, per_leaf, 4);
            let mut paths = Paths::new(&network);
            for host in 0..network.hosts {
                paths.hops(host, (host + per_leaf) % network.hosts);
            }
            // All leaves see the same spines.
            assert!(paths.distances.iter().flatten().count() <= 1, "{leaves} leaves of {per_leaf} hosts");
        }
    }
}
