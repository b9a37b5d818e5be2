//! Which part of a network each thread simulates.

use incast_plan::{End, Node, Plan};

/// The parts of a network. A host belongs to the part of its switch, so only links between switches lead from one part to
/// another.
#[derive(Clone, Debug)]
pub(crate) struct Partition {
    pub(crate) parts: usize,
    of_host: Vec<u16>,
    of_switch: Vec<u16>,
    /// The share of the hosts' work that the part with most of it has.
    pub(crate) largest_share: f64,
}

impl Partition {
    /// At most `most` parts, with about as much work for their hosts. Neighbouring switches are kept together where
    /// possible.
    pub(crate) fn new(plan: &Plan, most: usize) -> Self {
        let switches = plan.network.switches.len();
        if switches == 0 {
            // Such a network is refused later.
            let of_host = vec![0; plan.network.hosts as usize];
            return Self { parts: 1, of_host, of_switch: Vec::new(), largest_share: 1.0 };
        }
        let switch_of = switches_of_hosts(plan);
        let mut work = vec![0; switches];
        for (load, switch) in host_loads(plan).into_iter().zip(&switch_of) {
            work[*switch as usize] += load;
        }
        let mut has_hosts = vec![false; switches];
        for &switch in &switch_of {
            has_hosts[switch as usize] = true;
        }
        let parts = most.min(has_hosts.iter().filter(|has| **has).count()).clamp(1, usize::from(u16::MAX));
        let mut of_switch = vec![UNPLACED; switches];
        let largest_share = place_edges(&work, &has_hosts, parts, &mut of_switch);
        place_others(plan, parts, &mut of_switch);
        let of_host = switch_of.iter().map(|&switch| of_switch[switch as usize]).collect();
        Self { parts, of_host, of_switch, largest_share }
    }

    pub(crate) fn of_host(&self, host: u32) -> usize {
        usize::from(self.of_host[host as usize])
    }

    pub(crate) fn of_node(&self, node: Node) -> usize {
        match node {
            Node::Host(host) => self.of_host(host),
            Node::Switch(switch) => usize::from(self.of_switch[switch as usize]),
        }
    }
}

/// Of no part yet.
const UNPLACED: u16 = u16::MAX;

/// By host: its switch.
fn switches_of_hosts(plan: &Plan) -> Vec<u32> {
    let mut switch_of = vec![0; plan.network.hosts as usize];
    for link in &plan.network.links {
        if let (Node::Host(host), Node::Switch(switch)) = (link.from, link.to) {
            switch_of[host as usize] = switch;
        }
    }
    switch_of
}

/// By host: bytes that it sends and receives, and some for each message.
fn host_loads(plan: &Plan) -> Vec<u64> {
    /// Opening and closing a connection.
    const MESSAGE: u64 = 6_000;
    let mut loads = vec![1_u64; plan.network.hosts as usize];
    let seconds = plan.stop_at.map_or(0.0, incast_protocols::Time::as_secs_f64);
    let mut rates = vec![0.0; loads.len()];
    for link in &plan.network.links {
        if let Node::Host(host) = link.to {
            rates[host as usize] = link.rate.0 as f64;
        }
    }
    let mut add = |connection: u32, from: End, size: Option<u64>| {
        let connection = &plan.connections[connection as usize];
        let to = if from == End::Client { connection.server } else { connection.client };
        let bytes = size.unwrap_or((rates[to as usize] * seconds / 8.0) as u64).saturating_add(MESSAGE);
        for host in [connection.client, connection.server] {
            loads[host as usize] = loads[host as usize].saturating_add(bytes);
        }
    };
    for send in &plan.sends {
        add(send.connection, send.from, send.size().map(|size| size.0));
    }
    for aggregator in &plan.aggregators {
        for round in &aggregator.rounds {
            for (worker, response) in round.responses.iter().enumerate() {
                let (connection, from) = aggregator.responds_on(worker);
                add(connection, from, response.message.size.map(|size| size.0));
            }
        }
    }
    loads
}

/// Cuts the switches with hosts, in their order, into parts with about as much work each. Returns the largest share.
fn place_edges(work: &[u64], has_hosts: &[bool], parts: usize, of_switch: &mut [u16]) -> f64 {
    let total: u128 = work.iter().map(|work| u128::from(*work)).sum::<u128>().max(1);
    let edges: Vec<usize> = (0..work.len()).filter(|&switch| has_hosts[switch]).collect();
    let (mut part, mut before, mut own, mut largest) = (0, 0_u128, 0_u128, 0_u128);
    for (place, &switch) in edges.iter().enumerate() {
        let work = u128::from(work[switch]);
        // A part ends where the middle of the next switch lies beyond its share, or where others would get none.
        let full = (before + work / 2) * parts as u128 >= total * (part as u128 + 1);
        let needed = edges.len() - place < parts - part;
        if own > 0 && part + 1 < parts && (full || needed) {
            part += 1;
            own = 0;
        }
        of_switch[switch] = part as u16;
        before += work;
        own += work;
        largest = largest.max(own);
    }
    largest as f64 / total as f64
}

/// Puts each of the other switches where most of its neighbours are, the less so the more is there already (linear
/// deterministic greedy, Stanton and Kliot, KDD 2012).
fn place_others(plan: &Plan, parts: usize, of_switch: &mut [u16]) {
    let switches = of_switch.len();
    let mut neighbours = vec![Vec::new(); switches];
    let mut carries = vec![0.0; switches];
    for link in &plan.network.links {
        if let (Node::Switch(from), Node::Switch(to)) = (link.from, link.to) {
            neighbours[from as usize].push(to as usize);
            carries[from as usize] += link.rate.0 as f64;
        }
    }
    let open: Vec<usize> = (0..switches).filter(|&switch| of_switch[switch] == UNPLACED).collect();
    let room = open.iter().map(|&switch| carries[switch]).sum::<f64>() / parts as f64;
    let mut load = vec![0.0; parts];
    for switch in open {
        let mut near = vec![0.0; parts];
        for &other in &neighbours[switch] {
            if of_switch[other] != UNPLACED {
                near[usize::from(of_switch[other])] += 1.0;
            }
        }
        let score = |part: usize| near[part] * (1.0 - load[part] / room.max(1.0)) - 1e-9 * load[part];
        let best = (0..parts).max_by(|&a, &b| score(a).total_cmp(&score(b)).then(b.cmp(&a))).unwrap_or(0);
        of_switch[switch] = best as u16;
        load[best] += carries[switch];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use incast_testing::leaf_spine_load;

    #[test]
    fn leaves_are_cut_in_half_with_their_hosts_and_spines_are_shared_out() {
        let plan = leaf_spine_load(20, 20, 10, 20_000, 1, 250, 65);
        let partition = Partition::new(&plan, 2);
        let count = |of: &[u16]| of.iter().filter(|part| **part == 0).count();
        assert!((190..=210).contains(&count(&partition.of_host)), "{:?}", partition.of_host);
        assert_eq!(count(&partition.of_switch), count(&partition.of_host) / 20 + 5);
        assert!(partition.largest_share < 0.53, "{}", partition.largest_share);
        for link in &plan.network.links {
            if let (Node::Host(_), _) | (_, Node::Host(_)) = (link.from, link.to) {
                assert_eq!(partition.of_node(link.from), partition.of_node(link.to));
            }
        }
    }

    #[test]
    fn a_network_without_switches_is_one_part() {
        let mut plan = leaf_spine_load(3, 4, 2, 5, 1, 250, 65);
        plan.network.switches.clear();
        plan.network.links.clear();
        assert_eq!(Partition::new(&plan, 2).parts, 1);
    }

    #[test]
    fn there_are_no_more_parts_than_switches_with_hosts_and_none_is_empty() {
        let plan = leaf_spine_load(3, 4, 2, 500, 1, 250, 65);
        for (most, parts) in [(1, 1), (2, 2), (3, 3), (8, 3)] {
            let partition = Partition::new(&plan, most);
            assert_eq!(partition.parts, parts);
            assert!((0..parts as u16).all(|part| partition.of_host.contains(&part)), "{:?}", partition.of_host);
        }
    }
}
