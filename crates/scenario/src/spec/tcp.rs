//! TCP as a scenario configures it.

use incast_protocols::{Bytes, Duration};
use schemars::JsonSchema;
use serde::Deserialize;

/// How TCP behaves.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Tcp")]
pub(crate) struct TcpSpec {
    /// Payload of a full segment. Default: "1460B".
    #[schemars(extend("default" = "1460B"))]
    pub(crate) mss: Option<Bytes>,
    /// What every packet carries besides payload, as it counts in queues and on the wire. Default: "40B".
    #[schemars(extend("default" = "40B"))]
    pub(crate) header: Option<Bytes>,
    /// Segments sent before the first ACK. Default: 10 (RFC 6928).
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 10))]
    pub(crate) initial_window: Option<u64>,
    /// Least retransmission timeout. Default: "200ms", as Linux has it.
    #[schemars(extend("default" = "200ms"))]
    pub(crate) rto_min: Option<Duration>,
    /// Retransmission timeout before there is a round-trip sample. Default: "1s" (RFC 6298).
    #[schemars(extend("default" = "1s"))]
    pub(crate) rto_initial: Option<Duration>,
    /// Greatest retransmission timeout after back-off. Default: "60s" (RFC 6298).
    #[schemars(extend("default" = "60s"))]
    pub(crate) rto_max: Option<Duration>,
    /// Delayed ACKs, or "none": every data segment is acknowledged at once. Default: "none".
    #[schemars(extend("default" = "none"))]
    pub(crate) delayed_ack: Option<DelayedAckSpec>,
    /// The receiver's buffer, which is the window it advertises. Default: "1GiB", the most TCP can say.
    #[schemars(extend("default" = "1GiB"))]
    pub(crate) receive_buffer: Option<Bytes>,
    /// What a loss halves. Default: "flight".
    #[schemars(extend("default" = "flight"))]
    pub(crate) loss_basis: Option<LossBasisSpec>,
    /// Least window in segments after a cut by marks: 2 as in Linux, 1 as in some papers. Default: 2.
    #[schemars(range(min = 1, max = 2), extend("default" = 2))]
    pub(crate) window_floor: Option<u64>,
    /// How congestion avoidance adds its segment per round trip. Default: "bytes".
    #[schemars(extend("default" = "bytes"))]
    pub(crate) growth: Option<GrowthSpec>,
    /// Whether duplicate ACKs inflate the window in recovery (RFC 6582). Default: true.
    #[schemars(extend("default" = true))]
    pub(crate) inflate_in_recovery: Option<bool>,
    /// Whether the handshake is part of a message's time. Default: "counted" for fresh connections,
    /// "before" for persistent ones.
    pub(crate) handshake: Option<HandshakeSpec>,
}

impl TcpSpec {
    /// These keys, and those of `base` where there is none.
    pub(crate) fn or(&self, base: &Self) -> Self {
        Self {
            mss: self.mss.or(base.mss),
            header: self.header.or(base.header),
            initial_window: self.initial_window.or(base.initial_window),
            rto_min: self.rto_min.or(base.rto_min),
            rto_initial: self.rto_initial.or(base.rto_initial),
            rto_max: self.rto_max.or(base.rto_max),
            delayed_ack: self.delayed_ack.clone().or_else(|| base.delayed_ack.clone()),
            receive_buffer: self.receive_buffer.or(base.receive_buffer),
            loss_basis: self.loss_basis.or(base.loss_basis),
            window_floor: self.window_floor.or(base.window_floor),
            growth: self.growth.or(base.growth),
            inflate_in_recovery: self.inflate_in_recovery.or(base.inflate_in_recovery),
            handshake: self.handshake.or(base.handshake),
        }
    }
}

/// Delayed ACKs (RFC 5681 section 4.2), or "none".
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "DelayedAck")]
pub(crate) enum DelayedAckSpec {
    Off(NoDelay),
    On(DelaySpec),
}

/// No delayed ACKs.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum NoDelay {
    /// Every data segment is acknowledged at once.
    None,
}

/// How ACKs are delayed.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Delay")]
pub(crate) struct DelaySpec {
    /// An ACK at least for every so many full segments. Default: 2.
    #[schemars(range(min = 1, max = 1000), extend("default" = 2))]
    pub(crate) every: Option<u32>,
    /// An ACK at the latest after this time. Default: "40ms".
    #[schemars(extend("default" = "40ms"))]
    pub(crate) timeout: Option<Duration>,
}

/// What a loss halves.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "LossBasis")]
pub(crate) enum LossBasisSpec {
    /// The bytes in flight (RFC 5681 equation 4).
    Flight,
    /// The congestion window, as in Linux.
    Cwnd,
}

/// How congestion avoidance grows.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Growth")]
pub(crate) enum GrowthSpec {
    /// MSS * MSS / cwnd per ACK (RFC 5681 equation 3).
    Bytes,
    /// A whole segment once a window has been acknowledged, as in Linux.
    Segments,
}

/// When a connection's handshake takes place.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Handshake")]
pub(crate) enum HandshakeSpec {
    /// With the first message, as part of its completion time.
    Counted,
    /// Before the run: no packets, no time.
    Before,
}
