//! TCP as a scenario configures it.

use incast_protocols::{Bytes, Duration};
use schemars::JsonSchema;
use serde::Deserialize;

/// How TCP behaves: a profile, and what is to differ from it.
///
/// A key that is written, in the class or for all, beats what a profile says; of two profiles that of the
/// class counts.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Tcp")]
pub(crate) struct TcpSpec {
    /// Sets every key of this table at once. Default: "linux".
    #[schemars(extend("default" = "linux"))]
    pub(crate) profile: Option<Profile>,
    /// Payload of a full segment.
    pub(crate) mss: Option<Bytes>,
    /// What every packet carries besides payload, as it counts in queues and on the wire.
    pub(crate) header: Option<Bytes>,
    /// Segments sent before the first ACK (RFC 6928: 10).
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) initial_window: Option<u64>,
    /// Least retransmission timeout (RFC 6298 section 2.4: 1 s; Linux: 200 ms).
    pub(crate) rto_min: Option<Duration>,
    /// Retransmission timeout before there is a round-trip sample (RFC 6298 section 2.1).
    pub(crate) rto_initial: Option<Duration>,
    /// Greatest retransmission timeout after back-off (RFC 6298 section 2.5).
    pub(crate) rto_max: Option<Duration>,
    /// Whether the round trip is measured with retransmissions too (RFC 7323 section 4), so that the first
    /// ACK after a timeout ends the back-off; without, only by segments sent once (Karn's rule).
    pub(crate) timestamps: Option<bool>,
    /// What ends the retransmission timer's back-off.
    pub(crate) backoff_end: Option<BackoffEndSpec>,
    /// Delayed ACKs, or "none": every data segment is acknowledged at once.
    pub(crate) delayed_ack: Option<DelayedAckSpec>,
    /// The receiver's buffer, which is the window it advertises, as far as `window_scaling` lets it.
    pub(crate) receive_buffer: Option<Bytes>,
    /// What the window field of a header can say.
    pub(crate) window_scaling: Option<WindowScalingSpec>,
    /// Receivers say what they have beyond a gap (RFC 2018), and senders recover by it (RFC 6675). Without,
    /// they count duplicate ACKs (RFC 6582).
    pub(crate) sack: Option<bool>,
    /// How the window comes down in a recovery.
    pub(crate) recovery: Option<RecoverySpec>,
    /// The window with which a recovery ends.
    pub(crate) recovery_exit: Option<RecoveryExitSpec>,
    /// Whether new data may follow the first two duplicate ACKs (RFC 3042).
    pub(crate) limited_transmit: Option<bool>,
    /// What a loss halves.
    pub(crate) loss_basis: Option<LossBasisSpec>,
    /// Least window in segments after a cut by marks: 2 as in Linux, 1 as in some papers.
    #[schemars(range(min = 1, max = 2))]
    pub(crate) window_floor: Option<u64>,
    /// Whether the window stays as a mark has left it until an ACK for what was sent after the mark's
    /// answer (the CWR state of Linux and ns-3). Without, ACKs without a mark let it grow meanwhile.
    pub(crate) hold_after_mark: Option<bool>,
    /// Whether a mark lifts a window that a timeout left below the floor up to it, as in Linux.
    pub(crate) mark_lifts_to_floor: Option<bool>,
    /// How congestion avoidance adds its segment per round trip.
    pub(crate) growth: Option<GrowthSpec>,
    /// Whether a window that the application does not use up stays as it is (RFC 7661 section 4.4, Linux).
    pub(crate) window_validation: Option<bool>,
    /// What idle time does to a window that is kept between messages.
    pub(crate) slow_start_restart: Option<SlowStartRestartSpec>,
    /// Which packets of an ECN-capable sender may be marked.
    pub(crate) ect: Option<EctSpec>,
    /// Which ACK ends an observation window of DCTCP.
    pub(crate) observation_end: Option<ObservationEndSpec>,
    /// Whether the handshake is part of a message's time. Default: "counted" for fresh connections,
    /// "before" for persistent ones.
    pub(crate) handshake: Option<HandshakeSpec>,
}

impl TcpSpec {
    /// These keys, and those of `base` where there is none.
    pub(crate) fn or(&self, base: &Self) -> Self {
        Self {
            profile: self.profile.or(base.profile),
            mss: self.mss.or(base.mss),
            header: self.header.or(base.header),
            initial_window: self.initial_window.or(base.initial_window),
            rto_min: self.rto_min.or(base.rto_min),
            rto_initial: self.rto_initial.or(base.rto_initial),
            rto_max: self.rto_max.or(base.rto_max),
            timestamps: self.timestamps.or(base.timestamps),
            backoff_end: self.backoff_end.or(base.backoff_end),
            delayed_ack: self.delayed_ack.clone().or_else(|| base.delayed_ack.clone()),
            receive_buffer: self.receive_buffer.or(base.receive_buffer),
            window_scaling: self.window_scaling.or(base.window_scaling),
            sack: self.sack.or(base.sack),
            recovery: self.recovery.or(base.recovery),
            recovery_exit: self.recovery_exit.or(base.recovery_exit),
            limited_transmit: self.limited_transmit.or(base.limited_transmit),
            loss_basis: self.loss_basis.or(base.loss_basis),
            window_floor: self.window_floor.or(base.window_floor),
            hold_after_mark: self.hold_after_mark.or(base.hold_after_mark),
            mark_lifts_to_floor: self.mark_lifts_to_floor.or(base.mark_lifts_to_floor),
            growth: self.growth.or(base.growth),
            window_validation: self.window_validation.or(base.window_validation),
            slow_start_restart: self.slow_start_restart.or(base.slow_start_restart),
            ect: self.ect.or(base.ect),
            observation_end: self.observation_end.or(base.observation_end),
            handshake: self.handshake.or(base.handshake),
        }
    }
}

/// A TCP as it is found somewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Profile {
    /// Linux as it is deployed: SACK with proportional rate reduction, initial window 10, delayed ACKs,
    /// timestamps, windows in whole segments, RTO from 200 ms.
    #[default]
    Linux,
    /// ns-3 3.44 with its defaults, but for segments of 1460 bytes and no timestamps.
    Ns3,
    /// What the papers on incast simulate: RFC 6582 without SACK, initial window 1, every segment
    /// acknowledged.
    Paper,
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
    /// So many segments at the start of a connection are acknowledged at once; Linux: 16. Default: 0.
    #[schemars(range(max = 1000), extend("default" = 0))]
    pub(crate) quick: Option<u32>,
}

/// What the window field of a header can say.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "WindowScaling")]
pub(crate) enum WindowScalingSpec {
    /// Any number of bytes, as in simulators.
    Exact,
    /// 16 bits and a shift (RFC 7323), the least that can say all of the receive buffer.
    Rfc7323,
    /// At most 65,535 bytes.
    Off,
}

/// What ends the retransmission timer's back-off.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "BackoffEnd")]
pub(crate) enum BackoffEndSpec {
    /// A round-trip sample (RFC 6298 section 5, with Karn's rule; Linux).
    Sample,
    /// Any ACK for new data, of retransmissions too (ns-3).
    Ack,
}

/// How the window comes down in a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Recovery")]
pub(crate) enum RecoverySpec {
    /// At once: RFC 6675 with SACK, RFC 6582 without.
    Rfc,
    /// In proportion to what is delivered (RFC 6937), as in Linux and ns-3; needs SACK.
    Prr,
}

/// The window with which a recovery ends.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "RecoveryExit")]
pub(crate) enum RecoveryExitSpec {
    /// Little more than is in flight, at most ssthresh (RFC 6582 section 3.2, step 3, option 1).
    Flight,
    /// ssthresh (RFC 6582, option 2; Linux).
    Ssthresh,
}

/// What idle time does to a window that is kept between messages.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "SlowStartRestart")]
pub(crate) enum SlowStartRestartSpec {
    /// Nothing.
    Off,
    /// After one RTO it is at most the initial window (RFC 5681 section 4.1).
    Rfc5681,
    /// Each RTO halves it, down to the initial window (RFC 2861, Linux).
    Decay,
}

/// Which packets of an ECN-capable sender may be marked.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Ect")]
pub(crate) enum EctSpec {
    /// New data only (RFC 3168 section 6.1).
    NewData,
    /// ACKs, retransmissions and SYNs too, as Linux and ns-3 do with DCTCP.
    All,
}

/// Which ACK ends an observation window of DCTCP.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "ObservationEnd")]
pub(crate) enum ObservationEndSpec {
    /// One beyond the window's end (RFC 8257 section 3.3, step 4).
    Beyond,
    /// One at its end, or beyond it (Linux).
    At,
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
