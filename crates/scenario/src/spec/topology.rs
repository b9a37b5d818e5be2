//! Who is connected to whom, as a scenario writes it.

use incast_plan::Reorder;
use incast_protocols::switch::buffer::BufferChoice;
use incast_protocols::switch::marker::MarkerChoice;
use incast_protocols::switch::scheduler::SchedulerChoice;
use incast_protocols::{Bytes, Duration, Rate};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Named;

/// Hosts, switches and links.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[schemars(rename = "Topology")]
pub(crate) enum TopologySpec {
    /// One switch with all hosts around it.
    Star(StarSpec),
    /// Two switches with hosts on either side and one link between them.
    Dumbbell(DumbbellSpec),
    /// Racks of hosts, each under a leaf switch; every leaf is connected to every spine.
    LeafSpine(LeafSpineSpec),
    /// Pods of edge and aggregation switches under core switches, all with the same number of ports.
    FatTree(Box<FatTreeSpec>),
    /// Nodes and links of a file in the format of the HPCC simulator's `topology.txt`.
    Hpcc(HpccSpec),
    /// Hosts, switches and links one by one.
    Custom(CustomSpec),
}

/// One switch ("switch") with all hosts around it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StarSpec {
    /// Number of hosts, including the receiver.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) hosts: u32,
    /// The link of every host.
    pub(crate) link: LinkSpec,
    /// How much longer the delay of each host's link is than that of the host before, e.g. "137ps". A little of it
    /// keeps packets of different hosts from arriving at the same instant. Default: 0, all links are equal.
    pub(crate) delay_step: Option<Duration>,
}

/// Two switches ("left" and "right") and one link between them.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DumbbellSpec {
    /// Number of hosts at the left switch. They are numbered first, from 0.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) left: u32,
    /// Number of hosts at the right switch. Their numbers follow those on the left.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) right: u32,
    /// The link of every host.
    pub(crate) edge_link: LinkSpec,
    /// The link between the switches.
    pub(crate) core_link: LinkSpec,
}

/// Leaf switches ("leaf 0", ...) with a rack of hosts each, and spines ("spine 0", ...) above them.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LeafSpineSpec {
    /// Number of leaf switches.
    #[schemars(range(min = 1, max = 100_000))]
    pub(crate) leaves: u32,
    /// Number of hosts under each leaf. Those of leaf 0 are numbered first, from 0.
    #[schemars(range(min = 1, max = 100_000))]
    pub(crate) hosts_per_leaf: u32,
    /// Number of spine switches.
    #[schemars(range(min = 1, max = 100_000))]
    pub(crate) spines: u32,
    /// The link of every host. Its buffer and marker apply to the leaf's port to the host.
    pub(crate) host_link: LinkSpec,
    /// Every link between a leaf and a spine. Its buffer and marker apply to both of its ports.
    pub(crate) fabric_link: LinkSpec,
}

/// The fat tree of Al-Fares, Loukissas and Vahdat (SIGCOMM 2008): `ports` pods with `ports` / 2 edge switches ("edge 0",
/// ...) and as many aggregation switches ("aggregation 0", ...) each, all connected to each other within a pod, under
/// (`ports` / 2)² core switches ("core 0", ...). Aggregation switches in the same position of every pod share their
/// core switches.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FatTreeSpec {
    /// Number of ports of every switch (k), even.
    #[schemars(range(min = 2, max = 128))]
    pub(crate) ports: u32,
    /// Number of hosts under each edge switch, numbered from 0 along the edge switches. More of them than the default
    /// make the network oversubscribed. Default: half of `ports`.
    #[schemars(range(min = 1, max = 100_000))]
    pub(crate) hosts_per_edge: Option<u32>,
    /// The link of every host. Its buffer and marker apply to the edge switch's port to the host.
    pub(crate) host_link: LinkSpec,
    /// Every link between an edge and an aggregation switch. Its buffer and marker apply to both of its ports.
    pub(crate) fabric_link: LinkSpec,
    /// Every link between an aggregation and a core switch. Default: as `fabric_link`.
    pub(crate) core_link: Option<LinkSpec>,
}

/// Nodes and links of a file in the format of HPCC's `topology.txt`: a line `nodes switches links`, a line with the
/// numbers of the switches, then lines `node node rate delay loss`, e.g. `0 320 100Gbps 1000ns 0`. Names of nodes are
/// their numbers, and hosts come first, so that traces in its format mean the same hosts.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HpccSpec {
    /// Path of the file, relative to the scenario.
    pub(crate) file: String,
}

/// Hosts, switches and links one by one.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CustomSpec {
    /// Names of the hosts. Their positions, from 0, are their numbers.
    pub(crate) hosts: Vec<String>,
    /// Names of the switches. Default: none.
    pub(crate) switches: Option<Vec<String>>,
    /// Links between them. Each host has exactly one.
    pub(crate) links: Vec<CustomLink>,
}

/// A link. Rate and delay apply to each direction.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Link")]
pub(crate) struct LinkSpec {
    /// Line rate, e.g. "10Gbps".
    pub(crate) rate: Rate,
    /// Propagation delay, e.g. "5us".
    pub(crate) delay: Duration,
    /// What leaves at once after a pause, e.g. "3200B": the depth of the token bucket by which a rate limiter (tbf of Linux, a
    /// hypervisor, a policer) keeps the rate. A packet for which there are tokens takes no time to leave. Default: "0B", the port of a
    /// line, which takes a packet's time for each.
    #[schemars(extend("default" = "0B"))]
    pub(crate) burst: Option<Bytes>,
    /// Probability that a packet is lost on the link, e.g. 0.001. Default: 0.
    #[schemars(range(min = 0.0, max = 1.0), extend("default" = 0))]
    pub(crate) loss: Option<f64>,
    /// Reordering of packets on the link. Default: none.
    pub(crate) reorder: Option<Reorder>,
    /// Buffer of this link's switch ports. Default: that of `[switch]`.
    pub(crate) buffer: Option<BufferChoice>,
    /// Marker of this link's switch ports. Default: that of `[switch]`.
    pub(crate) marker: Option<Named<MarkerChoice>>,
    /// Scheduler of this link's switch ports. Default: that of `[switch]`.
    pub(crate) scheduler: Option<Named<SchedulerChoice>>,
}

/// A link of a custom topology: both directions (`between`) or one (`from` and `to`), which then overrides that
/// direction of a link given by `between`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CustomLink {
    /// Names of the two ends of a link in both directions.
    pub(crate) between: Option<(String, String)>,
    /// Name of the node at which one direction begins.
    pub(crate) from: Option<String>,
    /// Name of the node at which it ends.
    pub(crate) to: Option<String>,
    /// Line rate, e.g. "10Gbps".
    pub(crate) rate: Rate,
    /// Propagation delay, e.g. "5us".
    pub(crate) delay: Duration,
    /// What leaves at once after a pause, e.g. "3200B": the depth of the token bucket by which a rate limiter (tbf of Linux, a
    /// hypervisor, a policer) keeps the rate. A packet for which there are tokens takes no time to leave. Default: "0B", the port of a
    /// line, which takes a packet's time for each.
    #[schemars(extend("default" = "0B"))]
    pub(crate) burst: Option<Bytes>,
    /// Probability that a packet is lost on the link, e.g. 0.001. Default: 0.
    #[schemars(range(min = 0.0, max = 1.0), extend("default" = 0))]
    pub(crate) loss: Option<f64>,
    /// Reordering of packets on the link. Default: none.
    pub(crate) reorder: Option<Reorder>,
    /// Buffer of this link's switch ports. Default: that of `[switch]`.
    pub(crate) buffer: Option<BufferChoice>,
    /// Marker of this link's switch ports. Default: that of `[switch]`.
    pub(crate) marker: Option<Named<MarkerChoice>>,
    /// Scheduler of this link's switch ports. Default: that of `[switch]`.
    pub(crate) scheduler: Option<Named<SchedulerChoice>>,
}

impl CustomLink {
    /// Everything but its ends.
    pub(crate) fn link(&self) -> LinkSpec {
        LinkSpec {
            rate: self.rate,
            delay: self.delay,
            burst: self.burst,
            loss: self.loss,
            reorder: self.reorder,
            buffer: self.buffer.clone(),
            marker: self.marker.clone(),
            scheduler: self.scheduler.clone(),
        }
    }
}

/// Buffer and marker of switch ports.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Switch")]
pub(crate) struct SwitchSpec {
    /// Which packets are admitted. There is no default, since limits count different things.
    pub(crate) buffer: Option<BufferChoice>,
    /// Which packets are marked. Default: "none".
    pub(crate) marker: Option<Named<MarkerChoice>>,
    /// Order in which waiting packets are sent. With several queues, the `priority` of traffic chooses the queue.
    /// Default: "fifo".
    pub(crate) scheduler: Option<Named<SchedulerChoice>>,
}
