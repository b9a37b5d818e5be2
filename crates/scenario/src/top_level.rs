//! A scenario as it is written: its top level.

use incast_protocols::Duration;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::spec::{HostsSpec, RecordSpec, StackSpec, SwitchSpec, TcpTable, TopologySpec};
use crate::traffic::TrafficSpec;

/// A scenario of TCP incast: a network, what its switches do, how TCP behaves at its ends, and traffic.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Scenario")]
pub(crate) struct Spec {
    /// Name shown in tables and figures, e.g. "my cluster". Default: the file name without its extension.
    pub(crate) name: Option<String>,
    /// Seed of all random choices. Default: 1.
    #[schemars(extend("default" = 1))]
    pub(crate) seed: Option<u64>,
    /// Which world runs the scenario, and when to stop.
    pub(crate) run: Option<RunSpec>,
    /// Hosts, switches and links.
    pub(crate) topology: TopologySpec,
    /// What hosts add to the time of packets. Default: a microsecond on average, on sending and on receiving.
    pub(crate) hosts: Option<HostsSpec>,
    /// Buffer and marker of every switch port, unless its link has its own. Required if there is a switch.
    pub(crate) switch: Option<SwitchSpec>,
    /// Algorithms at the ends, for all traffic without its own.
    pub(crate) stack: Option<StackSpec>,
    /// How TCP behaves, for all traffic without its own.
    pub(crate) tcp: Option<TcpTable>,
    /// Classes of traffic by name.
    pub(crate) traffic: Classes,
    /// What to record besides one row per message.
    pub(crate) record: Option<RecordSpec>,
}

/// Which world runs the scenario, and when to stop.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Run")]
pub(crate) struct RunSpec {
    /// Which world carries the scenario out: "packets" simulates the packets of the stacks; "ideal" computes the bound
    /// that the Pulser paper calls Ideal, a network without queues at any load: completion times are those of an unloaded
    /// network, throughput is that of max-min fair shares, and stacks, buffers, markers and losses have no effect.
    /// Default: "packets".
    #[schemars(extend("default" = "packets"))]
    pub(crate) world: Option<String>,
    /// Time at which the run stops even if work is left, e.g. "2s". Default: once every message is complete.
    pub(crate) stop_at: Option<Duration>,
}

/// Classes in the order of the file, which a map sorted by name would lose.
#[derive(Clone, Debug)]
pub(crate) struct Classes(pub(crate) Vec<(String, TrafficSpec)>);

impl<'de> Deserialize<'de> for Classes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> serde::de::Visitor<'de> for InOrder {
            type Value = Classes;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a table of classes of traffic")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Classes, A::Error> {
                let mut classes = Vec::new();
                while let Some(class) = map.next_entry()? {
                    classes.push(class);
                }
                Ok(Classes(classes))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

impl JsonSchema for Classes {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Classes".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "object",
            "minProperties": 1,
            "additionalProperties": generator.subschema_for::<TrafficSpec>(),
        })
    }
}
