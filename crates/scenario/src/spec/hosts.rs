//! Hosts as a scenario names them.

use schemars::JsonSchema;
use serde::Deserialize;

/// A host: its number, from 0, or its name in a custom topology.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Host")]
pub(crate) enum HostRef {
    Number(u32),
    Name(String),
}

/// A number of hosts (the first ones, except the host at the other end) or a list of hosts.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Hosts")]
pub(crate) enum Senders {
    Count(u32),
    List(Vec<HostRef>),
}

/// A number of hosts (the first ones), a list of hosts, or a number of hosts per rack.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum HostSet {
    Count(u32),
    List(Vec<HostRef>),
    PerRack(PerRackSpec),
}

/// The first hosts of each rack, or of each side of a dumbbell.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PerRack")]
pub(crate) struct PerRackSpec {
    /// Number of hosts per rack.
    #[schemars(range(min = 1))]
    pub(crate) per_rack: u32,
}
