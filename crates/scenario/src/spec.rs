//! A scenario as it is written: the types that the JSON Schema is generated from.
//!
//! Their descriptions are what an editor shows, so they speak to the author of a scenario.

use incast_protocols::Duration;
use schemars::JsonSchema;
use serde::Deserialize;

mod hosts;
mod part;
mod record;
mod stack;
mod tcp;
mod topology;

pub(crate) use hosts::{HostRef, HostSet, PerRackSpec, Senders};
pub(crate) use part::Named;
pub(crate) use record::RecordSpec;
pub(crate) use stack::StackSpec;
pub(crate) use tcp::{
    BackoffEndSpec, DelayedAckSpec, EctSpec, GrowthSpec, HandshakeSpec, LossBasisSpec, ObservationEndSpec, Profile,
    RecoveryExitSpec, RecoverySpec, SlowStartRestartSpec, TcpSpec, WindowScalingSpec,
};
pub(crate) use topology::{
    CustomLink, CustomSpec, DumbbellSpec, LeafSpineSpec, LinkSpec, StarSpec, SwitchSpec, TopologySpec,
};

use crate::plan::Model;
use crate::traffic::TrafficSpec;

/// A scenario of TCP incast: a network, what its switches do, how TCP behaves at its ends, and traffic.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Scenario")]
pub(crate) struct Spec {
    /// For people and result tables. Default: the name of the file without its ending.
    pub(crate) name: Option<String>,
    /// Seed of every random choice. Default: 1.
    #[schemars(extend("default" = 1))]
    pub(crate) seed: Option<u64>,
    /// What to do with the messages, and when to stop.
    pub(crate) run: Option<RunSpec>,
    /// Who is connected to whom.
    pub(crate) topology: TopologySpec,
    /// What every switch port does, unless its link says otherwise. Needed where there is a switch.
    pub(crate) switch: Option<SwitchSpec>,
    /// The algorithms at the ends, for all traffic that does not choose its own.
    pub(crate) stack: Option<StackSpec>,
    /// How TCP behaves, for all traffic that does not say otherwise.
    pub(crate) tcp: Option<TcpSpec>,
    /// Classes of traffic by name.
    pub(crate) traffic: Classes,
    /// What to write down besides one row per message.
    pub(crate) record: Option<RecordSpec>,
}

/// What to do with the messages, and when to stop.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Run")]
pub(crate) struct RunSpec {
    /// What to do with the messages. Default: "packets".
    #[schemars(extend("default" = "packets"))]
    pub(crate) model: Option<ModelSpec>,
    /// Stop at this time although work is left. Without it the run ends once every message is complete.
    pub(crate) stop_at: Option<Duration>,
}

/// What to do with the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Model")]
pub(crate) enum ModelSpec {
    /// Simulate the packets of the stacks.
    Packets,
    /// Compute the bound that the Pulser paper calls Ideal: no queue in the network at any load. Completion times are
    /// unloaded ones, throughput is that of max-min fair shares. Stacks, buffers, markers and losses are ignored.
    Ideal,
}

impl From<ModelSpec> for Model {
    fn from(model: ModelSpec) -> Self {
        match model {
            ModelSpec::Packets => Self::Packets,
            ModelSpec::Ideal => Self::Ideal,
        }
    }
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
