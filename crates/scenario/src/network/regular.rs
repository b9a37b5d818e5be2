//! The topologies that numbers describe.

use super::{Builder, Uplinks};
use crate::limits;
use crate::node::Path;
use crate::spec::{DumbbellSpec, FatTreeSpec, LeafSpineSpec, LinkSpec, StarSpec};
use incast_plan::Node;
use incast_protocols::Duration;

pub(super) fn star(star: &StarSpec, path: &Path, builder: &mut Builder<'_, '_>) {
    let link = path.key("link");
    builder.check_link(&star.link, &link);
    let switch = builder.add_switch("switch");
    builder.network.hosts = star.hosts;
    let longer = |host: u32| star.delay_step.unwrap_or_default().0.saturating_mul(u64::from(host));
    let last = Duration(longer(star.hosts.saturating_sub(1)));
    if last > limits::TIME {
        let problem = format!("the link of the last host would be {last} longer than that of the first");
        builder.fail(&path.key("delay_step"), problem).allowed = Some(format!("at most {}", limits::TIME));
    }
    for host in 0..star.hosts {
        let delay = Duration(star.link.delay.0.saturating_add(longer(host)));
        builder.cable(Node::Host(host), switch, &LinkSpec { delay, ..star.link.clone() }, &link);
    }
}

pub(super) fn dumbbell(dumbbell: &DumbbellSpec, path: &Path, builder: &mut Builder<'_, '_>) {
    let (edge, core) = (path.key("edge_link"), path.key("core_link"));
    builder.check_link(&dumbbell.edge_link, &edge);
    builder.check_link(&dumbbell.core_link, &core);
    let switches = [builder.add_switch("left"), builder.add_switch("right")];
    let hosts = dumbbell.left + dumbbell.right;
    builder.network.hosts = hosts;
    let side = |host| u32::from(host >= dumbbell.left);
    for host in 0..hosts {
        builder.cable(Node::Host(host), switches[side(host) as usize], &dumbbell.edge_link, &edge);
    }
    let forth = builder.wire(switches[0], switches[1], &dumbbell.core_link, &core);
    let back = builder.wire(switches[1], switches[0], &dumbbell.core_link, &core);
    builder.core = vec![forth, back];
    builder.racks = Some((0..hosts).map(side).collect());
}

pub(super) fn leaf_spine(spec: &LeafSpineSpec, path: &Path, builder: &mut Builder<'_, '_>) {
    let (host_link, fabric_link) = (path.key("host_link"), path.key("fabric_link"));
    builder.check_link(&spec.host_link, &host_link);
    builder.check_link(&spec.fabric_link, &fabric_link);
    let per_leaf = u64::from(spec.hosts_per_leaf) + u64::from(spec.spines);
    if !builder.check_links(2 * u64::from(spec.leaves) * per_leaf, path) {
        return;
    }
    let leaves: Vec<Node> = (0..spec.leaves).map(|leaf| builder.add_switch(format!("leaf {leaf}"))).collect();
    let spines: Vec<Node> = (0..spec.spines).map(|spine| builder.add_switch(format!("spine {spine}"))).collect();
    let hosts = spec.leaves * spec.hosts_per_leaf;
    builder.network.hosts = hosts;
    for host in 0..hosts {
        let leaf = leaves[(host / spec.hosts_per_leaf) as usize];
        builder.cable(Node::Host(host), leaf, &spec.host_link, &host_link);
    }
    for &leaf in &leaves {
        for &spine in &spines {
            builder.cable(leaf, spine, &spec.fabric_link, &fabric_link);
        }
    }
    builder.racks = Some((0..hosts).map(|host| host / spec.hosts_per_leaf).collect());
    builder.uplinks = Some(Uplinks {
        below: "leaf",
        above: "spines",
        leaves: spec.leaves,
        count: spec.spines,
        rate: spec.fabric_link.rate,
    });
}

pub(super) fn fat_tree(spec: &FatTreeSpec, path: &Path, builder: &mut Builder<'_, '_>) {
    let (host_link, fabric_link) = (path.key("host_link"), path.key("fabric_link"));
    builder.check_link(&spec.host_link, &host_link);
    builder.check_link(&spec.fabric_link, &fabric_link);
    let (core, core_link) = match &spec.core_link {
        Some(link) => (link, path.key("core_link")),
        None => (&spec.fabric_link, fabric_link.clone()),
    };
    if spec.core_link.is_some() {
        builder.check_link(core, &core_link);
    }
    if !spec.ports.is_multiple_of(2) {
        builder.fail(&path.key("ports"), format!("{} is odd", spec.ports)).allowed = Some("an even number".into());
        return;
    }
    let half = spec.ports / 2;
    let per_edge = spec.hosts_per_edge.unwrap_or(half);
    let edges = spec.ports * half;
    let cables = u64::from(edges) * (u64::from(per_edge) + 2 * u64::from(half));
    if !builder.check_links(2 * cables, path) {
        return;
    }
    let mut switches = |name: &str, count: u32| -> Vec<Node> {
        (0..count).map(|number| builder.add_switch(format!("{name} {number}"))).collect()
    };
    let (edge, aggregation, cores) =
        (switches("edge", edges), switches("aggregation", edges), switches("core", half * half));
    let hosts = edges * per_edge;
    builder.network.hosts = hosts;
    for host in 0..hosts {
        builder.cable(Node::Host(host), edge[(host / per_edge) as usize], &spec.host_link, &host_link);
    }
    for (below, above) in edge.chunks(half as usize).zip(aggregation.chunks(half as usize)) {
        for &edge in below {
            for &aggregation in above {
                builder.cable(edge, aggregation, &spec.fabric_link, &fabric_link);
            }
        }
    }
    for (index, &aggregation) in aggregation.iter().enumerate() {
        let position = index % half as usize;
        for &above in &cores[position * half as usize..(position + 1) * half as usize] {
            builder.cable(aggregation, above, core, &core_link);
        }
    }
    builder.racks = Some((0..hosts).map(|host| host / per_edge).collect());
    builder.uplinks = Some(Uplinks {
        below: "edge",
        above: "aggregation switches",
        leaves: edges,
        count: half,
        rate: spec.fabric_link.rate,
    });
}
