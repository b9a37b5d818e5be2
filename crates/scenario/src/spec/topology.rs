//! Who is connected to whom, as a scenario writes it.

use incast_protocols::switch::buffer::BufferChoice;
use incast_protocols::switch::marker::MarkerChoice;
use incast_protocols::{Duration, Rate};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Named;

/// Who is connected to whom.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[schemars(rename = "Topology")]
pub(crate) enum TopologySpec {
    /// One switch with all hosts around it.
    Star(StarSpec),
    /// Two switches with hosts on either side and one link between them.
    Dumbbell(DumbbellSpec),
    /// Racks of hosts, each under its leaf switch; every leaf is connected to every spine.
    LeafSpine(LeafSpineSpec),
    /// Hosts, switches and links one by one.
    Custom(CustomSpec),
}

/// One switch ("switch") with all hosts around it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StarSpec {
    /// Number of hosts, the receiver included.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) hosts: u32,
    /// Every host's link.
    pub(crate) link: LinkSpec,
}

/// Two switches ("left" and "right") and one link between them.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DumbbellSpec {
    /// Hosts at the left switch; they have the first numbers.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) left: u32,
    /// Hosts at the right switch; they have the numbers after those on the left.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) right: u32,
    /// Every host's link.
    pub(crate) edge_link: LinkSpec,
    /// The link between the switches.
    pub(crate) core_link: LinkSpec,
}

/// Leaf switches ("leaf 0", ...) with a rack of hosts each, and spines ("spine 0", ...) above them.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LeafSpineSpec {
    /// Leaf switches.
    #[schemars(range(min = 1, max = 100_000))]
    pub(crate) leaves: u32,
    /// Hosts under each leaf; those of leaf 0 have the first numbers.
    #[schemars(range(min = 1, max = 100_000))]
    pub(crate) hosts_per_leaf: u32,
    /// Spine switches.
    #[schemars(range(min = 1, max = 100_000))]
    pub(crate) spines: u32,
    /// Every host's link; its buffer and marker are those of the leaf's port down to the host.
    pub(crate) host_link: LinkSpec,
    /// Every link between a leaf and a spine; its buffer and marker are those of both its ports.
    pub(crate) fabric_link: LinkSpec,
}

/// Hosts, switches and links one by one.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CustomSpec {
    /// Names of the hosts; their numbers are their positions.
    pub(crate) hosts: Vec<String>,
    /// Names of the switches. Default: none.
    pub(crate) switches: Option<Vec<String>>,
    /// What connects them. Each host has exactly one link.
    pub(crate) links: Vec<CustomLink>,
}

/// A link. Its rate and delay hold for each direction.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Link")]
pub(crate) struct LinkSpec {
    /// Line rate.
    pub(crate) rate: Rate,
    /// Propagation delay.
    pub(crate) delay: Duration,
    /// Probability that a packet is lost on the wire. Default: 0.
    #[schemars(range(min = 0.0, max = 1.0), extend("default" = 0))]
    pub(crate) loss: Option<f64>,
    /// Packets that overtake each other. Default: none do.
    pub(crate) reorder: Option<ReorderSpec>,
    /// The switch's memory behind this link's switch ports. Default: that of `[switch]`.
    pub(crate) buffer: Option<BufferChoice>,
    /// What marks packets at this link's switch ports. Default: that of `[switch]`.
    pub(crate) marker: Option<Named<MarkerChoice>>,
}

/// A link of a custom topology: both directions (`between`) or one (`from` and `to`), which then
/// takes the place of that direction of a link given by `between`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CustomLink {
    /// The two ends of a link in both directions.
    pub(crate) between: Option<(String, String)>,
    /// Where one direction begins.
    pub(crate) from: Option<String>,
    /// Where it ends.
    pub(crate) to: Option<String>,
    /// Line rate.
    pub(crate) rate: Rate,
    /// Propagation delay.
    pub(crate) delay: Duration,
    /// Probability that a packet is lost on the wire. Default: 0.
    #[schemars(range(min = 0.0, max = 1.0), extend("default" = 0))]
    pub(crate) loss: Option<f64>,
    /// Packets that overtake each other. Default: none do.
    pub(crate) reorder: Option<ReorderSpec>,
    /// The switch's memory behind this link's switch ports. Default: that of `[switch]`.
    pub(crate) buffer: Option<BufferChoice>,
    /// What marks packets at this link's switch ports. Default: that of `[switch]`.
    pub(crate) marker: Option<Named<MarkerChoice>>,
}

impl CustomLink {
    /// Everything but its ends.
    pub(crate) fn link(&self) -> LinkSpec {
        LinkSpec {
            rate: self.rate,
            delay: self.delay,
            loss: self.loss,
            reorder: self.reorder.clone(),
            buffer: self.buffer.clone(),
            marker: self.marker.clone(),
        }
    }
}

/// With this probability a packet takes longer, so that later ones overtake it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Reorder")]
pub(crate) struct ReorderSpec {
    /// Of each packet.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) probability: f64,
    /// The most it is late; how late is drawn uniformly up to this.
    pub(crate) extra: Duration,
}

/// What switch ports do.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Switch")]
pub(crate) struct SwitchSpec {
    /// Which packets are admitted. What its limit counts must be said: there is no default.
    pub(crate) buffer: Option<BufferChoice>,
    /// Which packets are marked. Default: "none".
    pub(crate) marker: Option<Named<MarkerChoice>>,
}
