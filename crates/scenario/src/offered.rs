//! What random traffic offers to each link on average, to warn of links that can never keep up.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::network::Layout;
use incast_plan::Node;

/// Sums in another order differ by less.
const ROUNDING: f64 = 1e-9;

/// Steps that looking for the load of inner links may take; a network that needs more is not looked at.
const STEPS: usize = 100_000_000;

/// Bits per second, payload and headers, offered to the links of hosts, racks, and between switches.
#[derive(Debug)]
pub(crate) struct Offered {
    classes: Vec<String>,
    out_of_host: Vec<f64>,
    into_host: Vec<f64>,
    out_of_rack: Vec<f64>,
    into_rack: Vec<f64>,
    demands: Vec<Demand>,
}

/// Bits per second between groups of hosts, by their switches.
#[derive(Debug)]
struct Demand {
    bits: f64,
    /// By switch: its share of what is sent, and of what is received.
    from: BTreeMap<u32, f64>,
    to: BTreeMap<u32, f64>,
    /// Hosts, where all of them send to each other and none to itself.
    among: Option<f64>,
}

impl Demand {
    /// From hosts of one switch to those of another.
    fn between(&self, from: u32, to: u32) -> f64 {
        let share = |shares: &BTreeMap<u32, f64>, switch| shares.get(&switch).copied().unwrap_or(0.0);
        self.bits
            * share(&self.from, from)
            * share(&self.to, to)
            * self.among.map_or(1.0, |hosts| hosts / (hosts - 1.0))
    }
}

impl Offered {
    pub(crate) fn new(layout: &Layout) -> Self {
        let hosts = layout.hosts() as usize;
        let racks = layout.racks.as_ref().and_then(|racks| racks.last()).map_or(0, |last| *last as usize + 1);
        Self {
            classes: Vec::new(),
            out_of_host: vec![0.0; hosts],
            into_host: vec![0.0; hosts],
            out_of_rack: vec![0.0; racks],
            into_rack: vec![0.0; racks],
            demands: Vec::new(),
        }
    }

    /// A further class of random traffic.
    pub(crate) fn begin(&mut self, class: &str) {
        self.classes.push(class.to_owned());
    }

    /// Adds `bits` per second in total. They leave `hosts` evenly, and each host receives its share of `received`; racks
    /// are those that bits leave or enter, with the share that does so from or to one of their hosts.
    pub(crate) fn add(
        &mut self,
        hosts: &[u32],
        received: &[f64],
        racks: impl Iterator<Item = (u32, f64, f64)>,
        bits: f64,
        layout: &Layout,
    ) {
        for (&host, received) in hosts.iter().zip(received) {
            self.out_of_host[host as usize] += bits / hosts.len() as f64;
            self.into_host[host as usize] += bits * received;
        }
        if self.out_of_rack.is_empty() {
            let shares = shares(hosts, layout);
            let among = Some(hosts.len() as f64);
            self.demands.push(Demand { bits, from: shares.clone(), to: shares, among });
            return;
        }
        for (rack, out, back) in racks {
            self.out_of_rack[rack as usize] += bits * out;
            self.into_rack[rack as usize] += bits * back;
        }
    }

    /// Adds a total of `bits` per second from these hosts to those, spread evenly.
    pub(crate) fn add_between(&mut self, from: &[u32], to: &[u32], bits: f64, layout: &Layout) {
        for &host in from {
            self.out_of_host[host as usize] += bits / from.len() as f64;
        }
        for &host in to {
            self.into_host[host as usize] += bits / to.len() as f64;
        }
        let Some(racks) = layout.racks.as_deref() else {
            self.demands.push(Demand { bits, from: shares(from, layout), to: shares(to, layout), among: None });
            return;
        };
        let per_rack = |hosts: &[u32]| {
            let mut shares = vec![0.0; self.out_of_rack.len()];
            for &host in hosts {
                shares[racks[host as usize] as usize] += 1.0 / hosts.len() as f64;
            }
            shares
        };
        for (rack, (out, back)) in per_rack(from).into_iter().zip(per_rack(to)).enumerate() {
            self.out_of_rack[rack] += bits * out * (1.0 - back);
            self.into_rack[rack] += bits * back * (1.0 - out);
        }
    }

    /// One sentence for each kind of link that is offered more than it carries.
    pub(crate) fn warnings(&self, layout: &Layout) -> Vec<String> {
        let mut warnings = Vec::new();
        let classes = self.classes.iter().map(|class| format!("traffic.{class}")).collect::<Vec<_>>().join(" and ");
        let mut warn = |load: Option<(usize, f64)>, link: &dyn Fn(usize) -> String| {
            if let Some((index, load)) = load.filter(|&(_, load)| load > 1.0 + ROUNDING) {
                // Slightly too much is too much, too.
                let digits = if load < 1.005 { 6 } else { 2 };
                warnings.push(format!(
                    "{classes}: {} offered {load:.digits$} times the capacity (payload and headers, on average): queues keep growing",
                    link(index)
                ));
            }
        };
        let host = |index: usize| layout.node_name(Node::Host(index as u32));
        let rate = |host: usize| layout.up_rate(host as u32).0 as f64;
        warn(worst(&self.out_of_host, rate), &|index| format!("the link from {} is", host(index)));
        let rate = |host: usize| layout.down_rate(host as u32).0 as f64;
        warn(worst(&self.into_host, rate), &|index| format!("the link to {} is", host(index)));
        if let Some(uplinks) = layout.uplinks {
            let rate = |_| f64::from(uplinks.count) * uplinks.rate.0 as f64;
            warn(worst(&self.out_of_rack, rate), &|index| format!("the uplinks of {} {index} are", uplinks.below));
            warn(worst(&self.into_rack, rate), &|index| {
                format!("the links from the {} to {} {index} are", uplinks.above, uplinks.below)
            });
        }
        let name = |link: u32| format!("the link {} is", layout.link_name(&layout.network.links[link as usize]));
        let rate = |link: u32| layout.network.links[link as usize].rate.0 as f64;
        // What leaves a side of a dumbbell has one link.
        warn(
            worst(&self.out_of_rack[..layout.core.len().min(self.out_of_rack.len())], |side| rate(layout.core[side])),
            &|side| name(layout.core[side]),
        );
        let inner = self.between_switches(layout);
        warn(worst(&inner, |link| rate(link as u32)), &|link| name(link as u32));
        warnings
    }

    /// What demands offer to each link between switches, if it is spread evenly over all shortest paths.
    fn between_switches(&self, layout: &Layout) -> Vec<f64> {
        let targets: BTreeSet<u32> = self.demands.iter().flat_map(|demand| demand.to.keys().copied()).collect();
        let demand = |from, to| self.demands.iter().map(|demand| demand.between(from, to)).sum();
        spread(layout, &targets, demand).unwrap_or_else(|| vec![0.0; layout.network.links.len()])
    }
}

/// For each link, how many bits cross it per bit that hosts exchange, if messages are spread evenly over all shortest
/// paths: with the chance that a bit goes from each host to any one that it sends to, and the chance that it goes to this
/// host. Hosts at different switches send to each other. `None`: the network is too large to look at.
pub(crate) fn crossing_links(
    hosts: &[u32],
    chances: impl Iterator<Item = f64>,
    received: &[f64],
    layout: &Layout,
) -> Option<Vec<f64>> {
    let (mut sent, mut count) = (BTreeMap::new(), BTreeMap::new());
    for (&host, chance) in hosts.iter().zip(chances) {
        if let Node::Switch(switch) = layout.network.links[layout.up[host as usize] as usize].to {
            *sent.entry(switch).or_insert(0.0) += chance;
            *count.entry(switch).or_insert(0.0) += 1.0;
        }
    }
    let demand = |from, to| sent.get(&from).copied().unwrap_or(0.0) * count[&to];
    let mut crossing = spread(layout, &count.keys().copied().collect(), demand)?;
    for (&host, received) in hosts.iter().zip(received) {
        crossing[layout.up[host as usize] as usize] = 1.0 / hosts.len() as f64;
        crossing[layout.down[host as usize] as usize] = *received;
    }
    Some(crossing)
}

/// What each link between switches carries of the demand between switches, which is spread evenly over all shortest paths.
/// `None`: the network is too large to look at.
fn spread(layout: &Layout, targets: &BTreeSet<u32>, demand: impl Fn(u32, u32) -> f64) -> Option<Vec<f64>> {
    let network = &layout.network;
    let mut offered = vec![0.0; network.links.len()];
    if targets.len() * network.links.len() > STEPS {
        return None;
    }
    let (mut into, mut out) = (vec![Vec::new(); network.switches.len()], vec![Vec::new(); network.switches.len()]);
    for (index, link) in network.links.iter().enumerate() {
        if let (Node::Switch(from), Node::Switch(to)) = (link.from, link.to) {
            into[to as usize].push(from);
            out[from as usize].push((index, to));
        }
    }
    for &target in targets {
        let mut distance = vec![usize::MAX; network.switches.len()];
        distance[target as usize] = 0;
        let (mut order, mut next) = (Vec::new(), VecDeque::from([target]));
        while let Some(switch) = next.pop_front() {
            order.push(switch);
            for &from in &into[switch as usize] {
                if distance[from as usize] == usize::MAX {
                    distance[from as usize] = distance[switch as usize] + 1;
                    next.push_back(from);
                }
            }
        }
        // From the farthest on, each switch passes on what its hosts send and what it was passed.
        let mut passing = vec![0.0; network.switches.len()];
        for &switch in order.iter().skip(1).rev() {
            let bits = passing[switch as usize] + demand(switch, target);
            let nearer = |to: u32| distance[to as usize] + 1 == distance[switch as usize];
            let ways = out[switch as usize].iter().filter(|&&(_, to)| nearer(to)).count();
            for &(link, to) in out[switch as usize].iter().filter(|&&(_, to)| nearer(to)) {
                offered[link] += bits / ways as f64;
                passing[to as usize] += bits / ways as f64;
            }
        }
    }
    Some(offered)
}

/// By switch: the share of these hosts that it has.
fn shares(hosts: &[u32], layout: &Layout) -> BTreeMap<u32, f64> {
    let mut shares = BTreeMap::new();
    for &host in hosts {
        if let Node::Switch(switch) = layout.network.links[layout.up[host as usize] as usize].to {
            *shares.entry(switch).or_insert(0.0) += 1.0 / hosts.len() as f64;
        }
    }
    shares
}

/// The place with the greatest load and this load; the first of equals.
fn worst(offered: &[f64], rate: impl Fn(usize) -> f64) -> Option<(usize, f64)> {
    let loads = offered.iter().enumerate().map(|(index, bits)| (index, bits / rate(index)));
    loads.fold(None, |worst, (index, load)| match worst {
        // Sums in another order differ in their last bits; such loads are equal.
        Some((_, most)) if load <= most * (1.0 + ROUNDING) => worst,
        _ => Some((index, load)),
    })
}
