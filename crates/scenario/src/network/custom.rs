//! A topology given node by node and link by link.

use std::collections::BTreeMap;

use super::{Builder, shortened};
use crate::node::Path;
use crate::spec::{CustomLink, CustomSpec};
use incast_plan::Node;

pub(super) fn build(custom: &CustomSpec, path: &Path, builder: &mut Builder<'_, '_>) {
    let switches = custom.switches.as_deref().unwrap_or_default();
    if custom.hosts.is_empty() {
        builder.fail(&path.key("hosts"), "there are no hosts").allowed = Some("at least one name".into());
    }
    if !builder.check_links(2 * custom.links.len() as u64, &path.key("links")) {
        return;
    }
    let mut nodes: BTreeMap<&str, Node> = BTreeMap::new();
    for (index, name) in custom.hosts.iter().enumerate() {
        name_node(&mut nodes, name, Node::Host(index as u32), &path.key("hosts").index(index), builder);
    }
    for (index, name) in switches.iter().enumerate() {
        let node = builder.add_switch(name.clone());
        name_node(&mut nodes, name, node, &path.key("switches").index(index), builder);
    }
    builder.network.hosts = custom.hosts.len() as u32;
    builder.names = Some(custom.hosts.clone());

    let names: Vec<String> = custom.hosts.iter().chain(switches).cloned().collect();
    let mut directions = Directions::default();
    for (index, link) in custom.links.iter().enumerate() {
        let path = path.key("links").index(index);
        builder.check_link(&link.link(), &path);
        if let Some((ends, both)) = ends(link, &path, builder) {
            let found: Vec<Node> =
                ends.iter().filter_map(|(name, path)| find(name, path, &nodes, &names, builder)).collect();
            if let [a, b] = found[..] {
                directions.add(a, b, both, index, &path, builder);
            }
        }
    }
    if builder.failed {
        return;
    }
    for (from, to, index) in directions.in_order() {
        let link = custom.links[index].link();
        builder.wire(from, to, &link, &path.key("links").index(index));
    }
    for (host, message) in badly_linked(&custom.hosts, builder) {
        builder.fail(&path.key("hosts").index(host), message).allowed = Some(ONE_LINK.into());
    }
    if !builder.failed
        && let Some((host, message)) = unreachable(&custom.hosts, builder)
    {
        builder.fail(&path.key("hosts").index(host), message);
    }
}

/// What each host needs.
pub(super) const ONE_LINK: &str = "exactly one link, in both directions";

fn name_node<'n>(
    nodes: &mut BTreeMap<&'n str, Node>,
    name: &'n str,
    node: Node,
    path: &Path,
    builder: &mut Builder<'_, '_>,
) {
    if name.trim() != name || name.is_empty() || name.contains("->") {
        builder.fail(path, format!("invalid node name {name:?}")).allowed =
            Some("text without \"->\" and without spaces around it".into());
    }
    if nodes.insert(name, node).is_some() {
        builder.fail(path, format!("duplicate node name {name:?}"));
    }
}

/// The names of both ends, each with its path, and whether both directions are meant.
fn ends<'l>(link: &'l CustomLink, path: &Path, builder: &mut Builder<'_, '_>) -> Option<([(&'l str, Path); 2], bool)> {
    match (&link.between, &link.from, &link.to) {
        (Some((a, b)), None, None) => {
            let between = path.key("between");
            Some(([(a, between.index(0)), (b, between.index(1))], true))
        }
        (None, Some(from), Some(to)) => Some(([(from, path.key("from")), (to, path.key("to"))], false)),
        _ => {
            builder.fail(path, "a link needs either two ends (between) or one direction (from and to)").allowed =
                Some("between = [\"a\", \"b\"], or from = \"a\" and to = \"b\"".into());
            None
        }
    }
}

fn find(
    name: &str,
    path: &Path,
    nodes: &BTreeMap<&str, Node>,
    names: &[String],
    builder: &mut Builder<'_, '_>,
) -> Option<Node> {
    let found = nodes.get(name).copied();
    if found.is_none() {
        let nearest = builder.problems.nearest(name, names.iter().map(String::as_str));
        let problem = builder.fail(path, format!("unknown node {name:?}"));
        problem.nearest = nearest;
        problem.allowed = Some(shortened(names));
    }
    found
}

/// Which link of the file each direction is, in the order of the file.
#[derive(Default)]
struct Directions {
    /// (link of the file, whether `between` gave it, position in the order).
    links: BTreeMap<(Node, Node), (usize, bool, usize)>,
}

impl Directions {
    fn add(&mut self, a: Node, b: Node, both: bool, index: usize, path: &Path, builder: &mut Builder<'_, '_>) {
        if a == b {
            builder.fail(path, "a link needs two different ends");
            return;
        }
        for (from, to) in [(a, b), (b, a)].into_iter().take(1 + usize::from(both)) {
            let position = self.links.len();
            let given = self.links.entry((from, to)).or_insert((index, both, position));
            if given.0 == index {
                continue;
            }
            // One direction alone takes the place of its direction of a link between both.
            if given.1 == both {
                builder.fail(path, format!("these ends are already linked (links[{}])", given.0));
                return;
            }
            if !both {
                *given = (index, both, given.2);
            }
        }
    }

    fn in_order(&self) -> Vec<(Node, Node, usize)> {
        let mut order: Vec<_> =
            self.links.iter().map(|(&(from, to), &(index, _, position))| (position, from, to, index)).collect();
        order.sort_unstable();
        order.into_iter().map(|(_, from, to, index)| (from, to, index)).collect()
    }
}

/// Hosts that have not one link, with the same neighbour in both directions; each with a sentence.
pub(super) fn badly_linked(hosts: &[String], builder: &Builder<'_, '_>) -> Vec<(usize, String)> {
    let mut out: Vec<Vec<Node>> = vec![Vec::new(); hosts.len()];
    let mut back = out.clone();
    for link in &builder.network.links {
        if let Node::Host(host) = link.from {
            out[host as usize].push(link.to);
        }
        if let Node::Host(host) = link.to {
            back[host as usize].push(link.from);
        }
    }
    let bad = (0..hosts.len()).filter(|&host| out[host].len() != 1 || out[host] != back[host]);
    bad.map(|host| {
        let name = &hosts[host];
        let message = match (out[host].len(), back[host].len()) {
            (1, 1) => format!("host {name:?} sends to one neighbour and receives from another"),
            (sends, hears) => format!("host {name:?} has {sends} links out and {hears} in"),
        };
        (host, message)
    })
    .collect()
}

/// A host that does not reach every other or is not reached by it, with a sentence. It is enough that the first reaches
/// all and is reached by all, since hosts have one neighbour and forward nothing.
pub(super) fn unreachable(hosts: &[String], builder: &Builder<'_, '_>) -> Option<(usize, String)> {
    for forward in [true, false] {
        let mut next: BTreeMap<Node, Vec<Node>> = BTreeMap::new();
        for link in &builder.network.links {
            let (from, to) = if forward { (link.from, link.to) } else { (link.to, link.from) };
            next.entry(from).or_default().push(to);
        }
        let mut seen = std::collections::BTreeSet::from([Node::Host(0)]);
        let mut open = vec![Node::Host(0)];
        while let Some(node) = open.pop() {
            for &to in next.get(&node).into_iter().flatten() {
                if seen.insert(to) && matches!(to, Node::Switch(_)) {
                    open.push(to);
                }
            }
        }
        if let Some(host) = (0..hosts.len()).find(|&host| !seen.contains(&Node::Host(host as u32))) {
            let (from, to) = if forward { (&hosts[0], &hosts[host]) } else { (&hosts[host], &hosts[0]) };
            return Some((host, format!("no path leads from {from:?} to {to:?}")));
        }
    }
    None
}
