//! One choice per place at the ends.

use incast_protocols::application::ApplicationChoice;
use incast_protocols::echo::EchoChoice;
use incast_protocols::receiver::ReceiverChoice;
use incast_protocols::sender::SenderChoice;
use schemars::JsonSchema;
use serde::Deserialize;

use super::Named;

/// The algorithms at the ends of a class of traffic.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Stack")]
pub(crate) struct StackSpec {
    /// Congestion control of senders. Default: "newreno".
    pub(crate) sender: Option<Named<SenderChoice>>,
    /// How ACKs echo marks. Default: what the sender needs, else "none".
    pub(crate) echo: Option<Named<EchoChoice>>,
    /// Controller of the advertised windows of all flows into one NIC. Default: "none".
    pub(crate) receiver: Option<Named<ReceiverChoice>>,
    /// How an aggregator schedules its requests. Default: "all-at-once".
    pub(crate) application: Option<Named<ApplicationChoice>>,
}

impl StackSpec {
    /// These keys, and those of `base` where there is none.
    pub(crate) fn or(&self, base: &Self) -> Self {
        Self {
            sender: self.sender.clone().or_else(|| base.sender.clone()),
            echo: self.echo.clone().or_else(|| base.echo.clone()),
            receiver: self.receiver.clone().or_else(|| base.receiver.clone()),
            application: self.application.clone().or_else(|| base.application.clone()),
        }
    }
}
