//! Hosts as a scenario names them.

use schemars::JsonSchema;
use serde::Deserialize;

/// A host: its number from 0, or its name in a custom topology.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Host")]
pub(crate) enum HostRef {
    Number(u32),
    Name(String),
}

/// How many hosts (the first by number, leaving out the one at the other end), or a list of them.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Hosts")]
pub(crate) enum Senders {
    Count(u32),
    List(Vec<HostRef>),
}

/// The first so many hosts, a list of them, or the first so many of each rack.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum HostSet {
    Count(u32),
    List(Vec<HostRef>),
    PerRack(PerRackSpec),
}

/// The first so many hosts of each rack (of each side of a dumbbell).
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PerRack")]
pub(crate) struct PerRackSpec {
    /// How many of each.
    #[schemars(range(min = 1))]
    pub(crate) per_rack: u32,
}
