//! From a topology as written to nodes and links, with what traffic needs to know of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use incast_protocols::switch::buffer::BufferChoice;
use incast_protocols::switch::marker::{MarkerChoice, none};
use incast_protocols::{Bytes, Duration, Rate};

use crate::document::Problems;
use crate::files::Files;
use crate::limits;
use crate::node::Path;
use crate::spec::{HostRef, LinkSpec, Named, SwitchSpec, TopologySpec};
use incast_plan::{Link, Network, Node, Switch, SwitchPort};

mod custom;
mod hpcc;
mod regular;

/// A network and what is known of it beyond nodes and links.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) network: Network,
    /// Names of the hosts, where they have any.
    names: Option<Vec<String>>,
    /// The number of each of these names.
    numbers: BTreeMap<String, u32>,
    /// The rack of each host, where there are racks; they are numbered along the hosts.
    pub(crate) racks: Option<Vec<u32>>,
    /// The uplinks of each rack, where it has a leaf or edge switch.
    pub(crate) uplinks: Option<Uplinks>,
    /// Links between the switches of a dumbbell.
    pub(crate) core: Vec<u32>,
    /// The link out of each host.
    pub(crate) up: Vec<u32>,
    /// The link into each host.
    pub(crate) down: Vec<u32>,
    /// What switch ports do: each combination once, with the key to blame.
    pub(crate) disciplines: Vec<Discipline>,
}

/// The links from a leaf to the spines, or from an edge switch of a fat tree to its aggregation switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Uplinks {
    /// What the switches under them are called.
    pub(crate) below: &'static str,
    /// What those above are called.
    pub(crate) above: &'static str,
    /// Leaves.
    pub(crate) leaves: u32,
    /// Of each leaf.
    pub(crate) count: u32,
    /// Of each.
    pub(crate) rate: Rate,
}

/// What a switch port does.
#[derive(Clone, Debug)]
pub(crate) struct Discipline {
    pub(crate) buffer: BufferChoice,
    pub(crate) marker: MarkerChoice,
    /// Where the buffer is written.
    pub(crate) buffer_path: Path,
}

impl Layout {
    /// Builds the network, or says what is wrong with it.
    pub(crate) fn build(
        topology: &TopologySpec,
        switch: Option<&SwitchSpec>,
        files: Files<'_>,
        problems: &mut Problems<'_>,
    ) -> Option<Self> {
        let mut builder = Builder::new(switch, problems);
        let path = Path::of(&["topology"]);
        match topology {
            TopologySpec::Star(star) => regular::star(star, &path, &mut builder),
            TopologySpec::Dumbbell(dumbbell) => regular::dumbbell(dumbbell, &path, &mut builder),
            TopologySpec::LeafSpine(leaf_spine) => regular::leaf_spine(leaf_spine, &path, &mut builder),
            TopologySpec::FatTree(fat_tree) => regular::fat_tree(fat_tree, &path, &mut builder),
            TopologySpec::Hpcc(hpcc) => hpcc::build(hpcc, &path, files, &mut builder),
            TopologySpec::Custom(custom) => custom::build(custom, &path, &mut builder),
        }
        builder.finish()
    }

    pub(crate) const fn hosts(&self) -> u32 {
        self.network.hosts
    }

    /// The most queues that a switch port has.
    pub(crate) fn queues(&self) -> u32 {
        let ports = self.network.links.iter().filter_map(|link| link.port.as_ref());
        ports.map(|port| port.scheduler.queues()).max().unwrap_or(1)
    }

    /// The number of a host, or a problem at `path`.
    pub(crate) fn host(&self, host: &HostRef, path: &Path, problems: &mut Problems<'_>) -> Option<u32> {
        match (host, &self.names) {
            (HostRef::Number(number), _) if *number < self.hosts() => return Some(*number),
            (HostRef::Number(number), _) => {
                let last = self.hosts().saturating_sub(1);
                problems.at(path, format!("there is no host {number}; hosts are numbered 0 to {last}"));
            }
            (HostRef::Name(name), Some(names)) => {
                if let Some(&number) = self.numbers.get(name) {
                    return Some(number);
                }
                let nearest = problems.nearest(name, names.iter().map(String::as_str));
                let problem = problems.at(path, format!("unknown host {name:?}"));
                problem.nearest = nearest;
                problem.allowed = Some(shortened(names));
            }
            (HostRef::Name(name), None) => {
                let last = self.hosts().saturating_sub(1);
                let message = format!("unknown host {name:?}: the hosts of this topology are numbered 0 to {last}");
                problems.at(path, message);
            }
        }
        None
    }

    /// A node for people: "host 3", "leaf 2", or its name in a custom topology.
    pub(crate) fn node_name(&self, node: Node) -> String {
        match (node, &self.names) {
            (Node::Host(host), Some(names)) => names[host as usize].clone(),
            (Node::Host(host), None) => format!("host {host}"),
            (Node::Switch(switch), _) => self.network.switches[switch as usize].name.clone(),
        }
    }

    /// A link for people: "leaf 2->host 47".
    pub(crate) fn link_name(&self, link: &Link) -> String {
        format!("{}->{}", self.node_name(link.from), self.node_name(link.to))
    }

    /// The links that a name means, in which "*" stands for any text; or a problem at `path`.
    pub(crate) fn links_named(&self, name: &str, path: &Path, problems: &mut Problems<'_>) -> Option<Vec<u32>> {
        let wanted = spaced(name);
        let named = || (0_u32..).zip(&self.network.links).map(|(index, link)| (index, self.link_name(link)));
        let found: Vec<u32> = named().filter(|(_, name)| matches(&wanted, name)).map(|(index, _)| index).collect();
        if found.is_empty() {
            // Enough names to find a slip of the finger, not the millions of a large network.
            let names: Vec<String> = named().take(20_000).map(|(_, name)| name).collect();
            let nearest = problems.nearest(&wanted, names.iter().map(String::as_str));
            let problem = problems.at(path, format!("unknown link {name:?}"));
            problem.nearest = nearest;
            problem.allowed = Some(shortened(&names));
            return None;
        }
        Some(found)
    }

    /// Rate of the link out of a host.
    pub(crate) fn up_rate(&self, host: u32) -> Rate {
        self.network.links[self.up[host as usize] as usize].rate
    }

    /// Rate of the link into a host.
    pub(crate) fn down_rate(&self, host: u32) -> Rate {
        self.network.links[self.down[host as usize] as usize].rate
    }
}

/// The name of a link without spaces around its arrow.
pub(crate) fn spaced(name: &str) -> String {
    name.split("->").map(str::trim).collect::<Vec<_>>().join("->")
}

/// Whether a name fits a pattern in which "*" stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    name.strip_prefix(start).is_some_and(|mut left| {
        let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
        for part in middle.split('*') {
            let Some((_, after)) = left.split_once(part) else { return false };
            left = after;
        }
        left.ends_with(end)
    })
}

/// The first names, and how many more there are.
pub(crate) fn shortened(names: &[String]) -> String {
    const SHOWN: usize = 20;
    let list = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN { format!("{list} and {} more", names.len() - SHOWN) } else { list }
}

/// Refuses a time beyond what a run may take.
pub(crate) fn check_time(time: Duration, path: &Path, problems: &mut Problems<'_>) {
    if time > limits::TIME {
        problems.out_of_range(path, time, format!("at most {}", limits::TIME));
    }
}

/// Collects nodes and links.
struct Builder<'b, 'd> {
    network: Network,
    names: Option<Vec<String>>,
    racks: Option<Vec<u32>>,
    uplinks: Option<Uplinks>,
    core: Vec<u32>,
    disciplines: Vec<Discipline>,
    /// Each kind of port once.
    ports: Vec<Arc<SwitchPort>>,
    switch: Option<&'b SwitchSpec>,
    problems: &'b mut Problems<'d>,
    buffer_missing: bool,
    failed: bool,
}

impl<'b, 'd> Builder<'b, 'd> {
    fn new(switch: Option<&'b SwitchSpec>, problems: &'b mut Problems<'d>) -> Self {
        Self {
            network: Network::default(),
            names: None,
            racks: None,
            uplinks: None,
            core: Vec::new(),
            disciplines: Vec::new(),
            ports: Vec::new(),
            switch,
            problems,
            buffer_missing: false,
            failed: false,
        }
    }

    fn fail(&mut self, path: &Path, message: impl Into<String>) -> &mut crate::report::Problem {
        self.failed = true;
        self.problems.at(path, message)
    }

    fn add_switch(&mut self, name: impl Into<String>) -> Node {
        self.network.switches.push(Switch { name: name.into(), buffers: Vec::new() });
        Node::Switch(self.network.switches.len() as u32 - 1)
    }

    /// Refuses more links than a network may have.
    fn check_links(&mut self, links: u64, path: &Path) -> bool {
        if links > limits::LINKS {
            let message = format!("{links} links are too many (each direction counts)");
            self.fail(path, message).allowed = Some(format!("at most {}", limits::LINKS));
        }
        links <= limits::LINKS
    }

    /// Refuses impossible links; done once for all links of a kind.
    fn check_link(&mut self, link: &LinkSpec, path: &Path) {
        if !(limits::RATE_MIN..=limits::RATE_MAX).contains(&link.rate) {
            let allowed = format!("{} to {}", limits::RATE_MIN, limits::RATE_MAX);
            self.fail(&path.key("rate"), format!("{} is out of range", link.rate)).allowed = Some(allowed);
        }
        check_time(link.delay, &path.key("delay"), self.problems);
        let second = link.rate.bytes_in(Duration::from_ms(1000));
        if let Some(burst) = link.burst.filter(|burst| *burst > second) {
            let message = format!("{burst} are more than the link carries in a second");
            self.fail(&path.key("burst"), message).allowed = Some(format!("at most {second}"));
        }
        if let Some(reorder) = &link.reorder {
            check_time(reorder.extra, &path.key("reorder").key("extra"), self.problems);
        }
        if link.loss == Some(1.0) {
            self.fail(&path.key("loss"), "every packet would be lost").allowed = Some("a probability below 1".into());
        }
    }

    /// Both directions.
    fn cable(&mut self, a: Node, b: Node, link: &LinkSpec, path: &Path) {
        self.wire(a, b, link, path);
        self.wire(b, a, link, path);
    }

    /// One direction. Returns its number.
    fn wire(&mut self, from: Node, to: Node, link: &LinkSpec, path: &Path) -> u32 {
        let port = match from {
            Node::Host(_) => None,
            Node::Switch(switch) => self.port(switch, link, path),
        };
        self.network.links.push(Link {
            from,
            to,
            rate: link.rate,
            delay: link.delay,
            burst: link.burst.unwrap_or(Bytes::ZERO),
            port,
            loss: link.loss.unwrap_or(0.0),
            reorder: link.reorder.filter(|reorder| reorder.probability > 0.0),
        });
        self.network.links.len() as u32 - 1
    }

    fn port(&mut self, switch: u32, link: &LinkSpec, path: &Path) -> Option<Arc<SwitchPort>> {
        let general = self.switch.and_then(|switch| switch.buffer.as_ref());
        let Some(buffer) = link.buffer.as_ref().or(general).cloned() else {
            if !self.buffer_missing {
                self.buffer_missing = true;
                let message = "missing: switch ports need a buffer that says what its limit counts";
                let example = "{ name = \"static\", limit = \"64KiB\", count_in_service = true }";
                self.fail(&Path::of(&["switch", "buffer"]), message).allowed = Some(format!("for example {example}"));
            }
            return None;
        };
        let marker = link.marker.clone().or_else(|| self.switch.and_then(|switch| switch.marker.clone()));
        let marker = marker.map_or_else(|| MarkerChoice::None(none::Config::default()), |Named(marker)| marker);
        let scheduler = link.scheduler.clone().or_else(|| self.switch.and_then(|switch| switch.scheduler.clone()));
        let scheduler = scheduler.map(|Named(scheduler)| scheduler).unwrap_or_default();
        let buffer_path = match &link.buffer {
            Some(_) => path.key("buffer"),
            None => Path::of(&["switch", "buffer"]),
        };
        if !self.disciplines.iter().any(|known| known.buffer == buffer && known.marker == marker) {
            self.disciplines.push(Discipline { buffer: buffer.clone(), marker: marker.clone(), buffer_path });
        }
        let buffers = &mut self.network.switches[switch as usize].buffers;
        let index = buffers.iter().position(|known| *known == buffer).unwrap_or_else(|| {
            buffers.push(buffer);
            buffers.len() - 1
        });
        let port = SwitchPort { buffer: index as u32, marker, scheduler };
        let known = self.ports.iter().find(|known| ***known == port).cloned();
        Some(known.unwrap_or_else(|| {
            let port = Arc::new(port);
            self.ports.push(Arc::clone(&port));
            port
        }))
    }

    fn finish(self) -> Option<Layout> {
        if self.failed {
            return None;
        }
        let hosts = self.network.hosts as usize;
        let (mut up, mut down) = (vec![u32::MAX; hosts], vec![u32::MAX; hosts]);
        for (index, link) in (0_u32..).zip(&self.network.links) {
            if let Node::Host(host) = link.from {
                up[host as usize] = index;
            }
            if let Node::Host(host) = link.to {
                down[host as usize] = index;
            }
        }
        let numbers = (0_u32..).zip(self.names.iter().flatten()).map(|(number, name)| (name.clone(), number)).collect();
        Some(Layout {
            network: self.network,
            names: self.names,
            numbers,
            racks: self.racks,
            uplinks: self.uplinks,
            core: self.core,
            up,
            down,
            disciplines: self.disciplines,
        })
    }
}
