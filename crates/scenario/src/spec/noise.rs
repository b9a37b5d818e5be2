//! What hosts add to the time of packets, as a scenario writes it.

use incast_plan::{Noise, NoisePer, Ticks};
use incast_protocols::Duration;
use schemars::JsonSchema;
use serde::Deserialize;

/// What hosts add to the time of packets. Without it, packets of equal hosts move in lockstep, and the rule for
/// simultaneous events decides which of them are dropped.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HostTiming")]
pub(crate) struct HostsSpec {
    /// Time that a host adds to each packet, drawn anew as `noise_per` says: once on sending, between TCP and the queue of the host's
    /// port, and once on receiving, between the wire and TCP. Packets keep their order.
    /// Default: exponential with a mean of 1us.
    pub(crate) noise: Option<Noise>,
    /// The same on sending only. Default: `noise`.
    pub(crate) sending: Option<Noise>,
    /// The same on receiving only. Default: `noise`.
    pub(crate) receiving: Option<Noise>,
    /// What the noise is drawn for: each packet, or each burst. Default: "packet".
    pub(crate) noise_per: Option<NoisePer>,
    /// The delay of each host's link is longer by a time that is drawn once for each host, from 0 to this, e.g. "10ns".
    /// Default: all links are as long as the topology says.
    pub(crate) skew: Option<Duration>,
    /// When the clocks tick by which timers of TCP go (`timer_tick`). Default: "own".
    pub(crate) ticks: Option<Ticks>,
}
