//! Shortest paths, all of them: per-flow ECMP.

use incast_plan::{Network, Node};
use std::collections::{BTreeMap, VecDeque};

use crate::RunError;

/// Output links that lead on along a shortest path.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    first: u32,
    len: u32,
}

/// Where every switch sends what.
#[derive(Clone, Debug)]
pub struct Routes {
    /// By host: its link to its switch.
    pub uplink: Vec<u32>,
    /// By host: its link from its switch.
    pub downlink: Vec<u32>,
    /// By host: the number of its switch among the switches with hosts.
    pub edge: Vec<u16>,
    edges: usize,
    /// By switch: its number among those with hosts.
    edge_of_switch: Vec<Option<u16>>,
    /// By (switch, edge).
    groups: Vec<Group>,
    links: Vec<u32>,
    /// By switch: an odd number that makes its choices independent of other switches'.
    salts: Vec<u32>,
}

impl Routes {
    /// Breadth first from every switch that has hosts.
    ///
    /// # Errors
    /// A host without exactly one link each way, or hosts that cannot reach each other.
    pub fn new(network: &Network) -> Result<Self, RunError> {
        let (uplink, downlink, host_switch) = host_links(network)?;
        let switches = network.switches.len();
        let mut edge_of_switch = vec![None; switches];
        let mut edge_switches = Vec::new();
        let mut edge = Vec::with_capacity(host_switch.len());
        for &switch in &host_switch {
            let known = edge_of_switch[switch as usize].get_or_insert_with(|| {
                edge_switches.push(switch);
                (edge_switches.len() - 1) as u16
            });
            edge.push(*known);
        }
        if edge_switches.len() > usize::from(u16::MAX) {
            return Err(RunError::TooManySwitches { with_hosts: edge_switches.len() });
        }
        let mut into: Vec<Vec<(u32, u32)>> = vec![Vec::new(); switches];
        let mut out_of: Vec<Vec<(u32, u32)>> = vec![Vec::new(); switches];
        for (index, link) in network.links.iter().enumerate() {
            if let (Node::Switch(from), Node::Switch(to)) = (link.from, link.to) {
                into[to as usize].push((index as u32, from));
                out_of[from as usize].push((index as u32, to));
            }
        }
        let mut groups = vec![Group::default(); switches * edge_switches.len()];
        let mut links = Vec::new();
        let mut known: BTreeMap<Vec<u32>, Group> = BTreeMap::new();
        for (number, &target) in edge_switches.iter().enumerate() {
            let distance = distances(target, &into);
            for switch in 0..switches {
                let Some(here) = distance[switch] else { continue };
                let next: Vec<u32> = out_of[switch]
                    .iter()
                    .filter(|(_, to)| distance[*to as usize].is_some_and(|there| there + 1 == here))
                    .map(|(link, _)| *link)
                    .collect();
                if next.is_empty() {
                    continue;
                }
                let group = *known.entry(next).or_insert_with_key(|next| {
                    let group = Group { first: links.len() as u32, len: next.len() as u32 };
                    links.extend_from_slice(next);
                    group
                });
                groups[switch * edge_switches.len() + number] = group;
            }
            if let Some(lost) = edge_switches.iter().find(|switch| distance[**switch as usize].is_none()) {
                let names = &network.switches;
                return Err(RunError::Unreachable {
                    from: names[*lost as usize].name.clone(),
                    to: names[target as usize].name.clone(),
                });
            }
        }
        let salts = (0..switches as u64).map(|switch| incast_protocols::random::mix(switch + 1) as u32 | 1).collect();
        Ok(Self { uplink, downlink, edge, edges: edge_switches.len(), edge_of_switch, groups, links, salts })
    }

    /// The forwarding table of one switch.
    #[inline]
    pub fn of(&self, switch: u32) -> Forwarding<'_> {
        let first = switch as usize * self.edges;
        Forwarding {
            edge: self.edge_of_switch[switch as usize].map_or(u32::MAX, u32::from),
            groups: &self.groups[first..first + self.edges],
            links: &self.links,
            downlink: &self.downlink,
            salt: self.salts[switch as usize],
        }
    }

    /// All output links of `switch` that lead on to `destination`, a host of another switch, along a shortest path.
    #[must_use]
    pub fn hops(&self, switch: u32, destination: u32) -> &[u32] {
        let group = self.groups[switch as usize * self.edges + usize::from(self.edge[destination as usize])];
        &self.links[group.first as usize..][..group.len as usize]
    }

    /// The output link of `switch` for a packet to `destination`, attached to `edge`, of path number `path`.
    #[inline]
    #[must_use]
    pub fn next(&self, switch: u32, destination: u32, edge: u16, path: u16) -> u32 {
        self.of(switch).next(destination, edge, path)
    }

    /// All links from `source` to `destination` for this path number.
    #[must_use]
    pub fn path(&self, network: &Network, source: u32, destination: u32, path: u16) -> Vec<u32> {
        let mut links = vec![self.uplink[source as usize]];
        while let Some(&last) = links.last() {
            match network.links[last as usize].to {
                Node::Host(_) => break,
                Node::Switch(switch) => {
                    links.push(self.next(switch, destination, self.edge[destination as usize], path));
                }
            }
        }
        links
    }
}

/// Where one switch sends what.
#[derive(Clone, Copy, Debug)]
pub struct Forwarding<'r> {
    /// Its number among those with hosts, `u32::MAX` for a switch without.
    edge: u32,
    groups: &'r [Group],
    links: &'r [u32],
    downlink: &'r [u32],
    salt: u32,
}

impl Forwarding<'_> {
    /// The output link for a packet to `destination`, attached to `edge`, of path number `path`.
    #[inline]
    #[must_use]
    pub fn next(&self, destination: u32, edge: u16, path: u16) -> u32 {
        if self.edge == u32::from(edge) {
            return self.downlink[destination as usize];
        }
        let group = self.groups[edge as usize];
        let choice = if group.len == 1 {
            0
        } else {
            let spread = u32::from(path).wrapping_add(1).wrapping_mul(self.salt) >> 16;
            ((u64::from(spread) * u64::from(group.len)) >> 16) as u32
        };
        self.links[(group.first + choice) as usize]
    }
}

/// By host: its link out, its link in, and the switch it is attached to.
type HostLinks = (Vec<u32>, Vec<u32>, Vec<u32>);

fn host_links(network: &Network) -> Result<HostLinks, RunError> {
    let hosts = network.hosts as usize;
    let (mut up, mut down, mut switch) = (vec![Vec::new(); hosts], vec![Vec::new(); hosts], vec![0; hosts]);
    for (index, link) in network.links.iter().enumerate() {
        match (link.from, link.to) {
            (Node::Host(host), Node::Switch(to)) => {
                up[host as usize].push(index as u32);
                switch[host as usize] = to;
            }
            (Node::Switch(_), Node::Host(host)) => down[host as usize].push(index as u32),
            (Node::Host(host), Node::Host(_)) => return Err(RunError::HostLinks { host }),
            (Node::Switch(_), Node::Switch(_)) => {}
        }
    }
    let single = |lists: Vec<Vec<u32>>| -> Result<Vec<u32>, RunError> {
        lists
            .into_iter()
            .enumerate()
            .map(|(host, list)| match list[..] {
                [link] => Ok(link),
                _ => Err(RunError::HostLinks { host: host as u32 }),
            })
            .collect()
    };
    Ok((single(up)?, single(down)?, switch))
}

fn distances(target: u32, into: &[Vec<(u32, u32)>]) -> Vec<Option<u32>> {
    let mut distance = vec![None; into.len()];
    distance[target as usize] = Some(0);
    let mut queue = VecDeque::from([(target, 0)]);
    while let Some((switch, here)) = queue.pop_front() {
        for &(_, from) in &into[switch as usize] {
            if distance[from as usize].is_none() {
                distance[from as usize] = Some(here + 1);
                queue.push_back((from, here + 1));
            }
        }
    }
    distance
}

#[cfg(test)]
mod tests {
    use super::*;
    use incast_plan::{HostNoise, Link, Switch};
    use incast_protocols::{Bytes, Duration, Rate};

    fn network(hosts: u32, switches: u32, pairs: &[(Node, Node)]) -> Network {
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
        let switch = |number| Switch { name: format!("switch {number}"), buffers: Vec::new() };
        Network {
            hosts,
            switches: (0..switches).map(switch).collect(),
            links: pairs.iter().flat_map(|&(a, b)| [link(a, b), link(b, a)]).collect(),
            noise: HostNoise::default(),
            clock_phases: Vec::new(),
        }
    }

    /// `leaves` switches of `hosts` each, all connected to each of `spines`.
    fn leaf_spine(leaves: u32, spines: u32, hosts: u32) -> Network {
        let up = (0..leaves).flat_map(|leaf| (0..spines).map(move |spine| (leaf, leaves + spine)));
        let mut pairs: Vec<(Node, Node)> = up.map(|(leaf, spine)| (Node::Switch(leaf), Node::Switch(spine))).collect();
        pairs.extend((0..leaves * hosts).map(|host| (Node::Host(host), Node::Switch(host / hosts))));
        network(leaves * hosts, leaves + spines, &pairs)
    }

    fn nodes(network: &Network, links: &[u32]) -> Vec<Node> {
        links.iter().map(|link| network.links[*link as usize].to).collect()
    }

    #[test]
    fn a_packet_goes_up_to_a_spine_and_down_to_its_host() {
        let network = leaf_spine(3, 4, 2);
        let routes = Routes::new(&network).unwrap();
        for (source, destination) in (0..6_u32).flat_map(|source| (0..6).map(move |destination| (source, destination)))
        {
            if source == destination {
                continue;
            }
            for path in 0..50 {
                let way = nodes(&network, &routes.path(&network, source, destination, path));
                let (from, to) = (Node::Switch(source / 2), Node::Switch(destination / 2));
                if from == to {
                    assert_eq!(way, [from, Node::Host(destination)]);
                } else {
                    assert!(matches!(way[1], Node::Switch(3..7)), "{way:?}");
                    assert_eq!((way.len(), way[0], way[2], way[3]), (4, from, to, Node::Host(destination)));
                }
            }
        }
    }

    /// Of 65,536 flows each spine gets its share, whatever the number of spines, and the choices of two leaves
    /// have nothing to do with each other.
    #[test]
    fn flows_spread_evenly_and_each_switch_chooses_for_itself() {
        for spines in [2, 3, 4, 7] {
            let network = leaf_spine(2, spines, 1);
            let routes = Routes::new(&network).unwrap();
            let mut both = vec![0_u32; (spines * spines) as usize];
            for path in 0..=u16::MAX {
                let spine =
                    |source, destination| match nodes(&network, &routes.path(&network, source, destination, path))[1] {
                        Node::Switch(switch) => switch - 2,
                        Node::Host(_) => unreachable!("hosts are two switches further"),
                    };
                both[(spine(0, 1) * spines + spine(1, 0)) as usize] += 1;
            }
            let fair = 65_536 / (spines * spines);
            assert!(both.iter().all(|n| n.abs_diff(fair) < fair / 10), "{spines}: {both:?}");
        }
    }

    /// A product with an even number loses the path number's upper bits.
    #[test]
    fn salts_are_odd() {
        let routes = Routes::new(&leaf_spine(2, 50, 1)).unwrap();
        assert!(routes.salts.iter().all(|salt| salt % 2 == 1));
    }

    /// Four switches in a row, and a link from the first to the last.
    #[test]
    fn only_shortest_paths_are_taken() {
        let switch = Node::Switch;
        let mut pairs = vec![(Node::Host(0), switch(0)), (Node::Host(1), switch(3)), (Node::Host(2), switch(1))];
        pairs.extend((0..3).map(|n| (switch(n), switch(n + 1))));
        let row = network(3, 4, &pairs);
        let way = |network: &Network, source, destination, path| {
            nodes(network, &Routes::new(network).unwrap().path(network, source, destination, path))
        };
        assert_eq!(way(&row, 0, 1, 0), [switch(0), switch(1), switch(2), switch(3), Node::Host(1)]);
        pairs.push((switch(0), switch(3)));
        let ring = network(3, 4, &pairs);
        for path in 0..20 {
            assert_eq!(way(&ring, 0, 1, path), [switch(0), switch(3), Node::Host(1)]);
            let back = way(&ring, 1, 2, path);
            assert!(
                back == [switch(3), switch(2), switch(1), Node::Host(2)]
                    || back[1..] == [switch(0), switch(1), Node::Host(2)]
            );
        }
    }

    #[test]
    fn what_cannot_be_routed_is_refused() {
        let (host, switch) = (Node::Host, Node::Switch);
        let refused = |hosts, switches, pairs: &[(Node, Node)]| {
            Routes::new(&network(hosts, switches, pairs)).unwrap_err().to_string()
        };
        let problem = refused(2, 1, &[(host(0), switch(0))]);
        assert!(problem.contains("host 1"), "{problem}");
        let problem = refused(2, 1, &[(host(1), switch(0)), (host(0), switch(0)), (host(0), switch(0))]);
        assert!(problem.contains("host 0"), "{problem}");
        let problem = refused(2, 0, &[(host(0), host(1))]);
        assert!(problem.contains("host 0"), "{problem}");
        let problem = refused(2, 3, &[(host(0), switch(0)), (host(1), switch(2)), (switch(0), switch(1))]);
        assert!(problem.contains("switch 0") && problem.contains("switch 2"), "{problem}");
        let each_its_own: Vec<(Node, Node)> = (0..65_536).map(|n| (host(n), switch(n))).collect();
        let problem = refused(65_536, 65_536, &each_its_own);
        assert!(problem.contains("65536 switches"), "{problem}");
    }
}
