//! TCP as configured. Each key of a scenario's table `[tcp]` is defined here and nowhere else: its name, its type and
//! range, and its doc comment, which an editor shows.

use incast_protocols::sender::WindowRules;
use incast_protocols::{Bytes, Duration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the TCP of a connection behaves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own, as it stands in a scenario")]
pub struct Tcp {
    /// Maximum segment size: the payload of a full segment, e.g. "1460B".
    pub mss: Bytes,
    /// Size of all headers of a packet, as they count in queues and on the wire, e.g. "40B" for IP and TCP.
    pub header: Bytes,
    /// Initial congestion window in segments (RFC 6928: 10).
    #[serde(rename = "initial_window")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub initial_window_segments: u64,
    #[expect(missing_docs, reason = "its keys are keys of this table")]
    #[serde(flatten)]
    pub rules: WindowRules,
    /// Retransmission timeout of a connection without a round-trip sample, and of its SYN (RFC 6298 section 2.1), e.g.
    /// "1s".
    pub rto_initial: Duration,
    /// Minimum retransmission timeout, e.g. "200ms" as in Linux (RFC 6298 section 2.4: 1 s).
    pub rto_min: Duration,
    /// Maximum retransmission timeout, at which back-off stops (RFC 6298 section 2.5), e.g. "60s".
    pub rto_max: Duration,
    /// How the retransmission timeout follows from round-trip samples.
    pub rto: RtoForm,
    /// Which segments give round-trip samples.
    pub rtt_samples: RttSamples,
    /// Granularity of timers, to which timeouts are rounded up: in Linux 1 to 10 ms, by how the kernel was built; "0s" for
    /// exact timers.
    pub timer_tick: Duration,
    /// Time that reordering timers, and probes after more than one segment, wait beyond what was measured (Linux: 2 ms).
    pub timer_margin: Duration,
    /// Delayed ACKs, or "none": every data segment is acknowledged at once.
    #[serde(with = "none_or_table")]
    #[schemars(with = "none_or_table::DelayedAckKey")]
    pub delayed_ack: Option<DelayedAck>,
    /// Size of the receive buffer, e.g. "6MiB". It is the window that a receiver advertises, as far as `window_scaling`
    /// allows, unless a receiver controller advertises less.
    pub receive_buffer: Bytes,
    /// Range of the window field of a header.
    pub window_scaling: WindowScaling,
    /// Selective acknowledgements: receivers report data beyond a gap (RFC 2018), and senders use that for recovery
    /// (RFC 6675). Without SACK, senders count duplicate ACKs (RFC 6582).
    pub sack: bool,
    /// Receivers report segments that have arrived twice (RFC 2883). Senders learn from it that a probe was not needed, widen
    /// RACK's reordering window, and undo cuts if `undo` says so. Needs SACK.
    pub dsack: bool,
    /// What means that a segment is lost.
    pub loss_detection: LossDetection,
    /// Tail loss probes: two round trips after the last segment, and before the retransmission timer, one segment leaves,
    /// new or again, so that its ACK tells what is lost (RFC 8985 section 7). Needs SACK.
    pub tail_loss_probe: bool,
    /// Whether a retransmission timeout asks with new data whether anything was lost (F-RTO, RFC 5682), and gives the window
    /// back if nothing was. Needs `loss_detection = "rack"` or `rtt_samples = "every-ack"`.
    pub frto: bool,
    /// Whether a cut is undone once every retransmission since then has been reported as a duplicate. Needs DSACK and RACK.
    pub undo: bool,
    /// How the window is reduced during recovery.
    #[serde(rename = "recovery")]
    pub reduction: Reduction,
    /// Without SACK, what an ACK does in recovery that acknowledges a part of what was in flight.
    pub partial_ack: PartialAck,
    /// Whether each of the first two duplicate ACKs allows one new segment (RFC 3042; RFC 6675 section 5, step 3.3).
    pub limited_transmit: bool,
    /// Timestamps: retransmissions give round-trip samples too (RFC 7323 section 4), so the first ACK after a timeout ends
    /// the back-off. Without timestamps, only segments sent once do (Karn's rule).
    pub timestamps: bool,
    /// What ends the back-off of the retransmission timer.
    pub backoff_end: BackoffEnd,
    /// How often a lost SYN is sent again after the same time, before that time doubles (Linux from 6.5 on: 4,
    /// `net.ipv4.tcp_syn_linear_timeouts`; RFC 6298 section 5.5: 0). A SYN-ACK's time always doubles.
    #[schemars(range(max = 127))]
    pub syn_linear_timeouts: u32,
    /// What follows from a SYN or a SYN-ACK that was sent again.
    pub lost_syn: LostSyn,
    /// Effect of idle time on a window that is kept between messages.
    pub slow_start_restart: SlowStartRestart,
    /// Which packets of an ECN-capable sender can be marked.
    pub ect: Ect,
    /// How fast the segments of a window leave. A sender with a pace of its own keeps to that.
    pub pacing: Pacing,
    /// With TSO or GSO, a sender waits until this part of its window may leave at once: 3 means a third, the setting of Linux
    /// (`net.ipv4.tcp_tso_win_divisor`). It does not wait in recovery, for a last single segment, when it has sent nothing for
    /// 1 ms, or while the first segment in flight is younger than half a round trip (`tcp_tso_should_defer`). 0: segments leave
    /// as soon as the window lets them. Needs RACK or round-trip samples of every ACK, which note when segments left.
    #[schemars(range(max = 1000))]
    pub tso_divisor: u32,
    /// With GRO a host joins segments that arrive in order within this time of the first, up to 64 KiB or the end of a message,
    /// and takes them for one: a single ACK answers them. 0: each is taken alone. Needs delayed ACKs, which a host that joins
    /// segments has.
    pub gro: Duration,
}

/// TCP of RFCs 5681, 6298 and 6582 with a segment of 1460 bytes, without any option.
impl Default for Tcp {
    fn default() -> Self {
        Self {
            mss: Bytes(1460),
            header: Bytes(40),
            initial_window_segments: 10,
            rules: WindowRules::default(),
            rto_initial: Duration::from_ms(1000),
            rto_min: Duration::from_ms(200),
            rto_max: Duration::from_ms(60_000),
            rto: RtoForm::Rfc6298,
            rtt_samples: RttSamples::OnePerRound,
            timer_tick: Duration::ZERO,
            timer_margin: Duration::ZERO,
            delayed_ack: None,
            receive_buffer: LARGEST_WINDOW,
            window_scaling: WindowScaling::Exact,
            sack: false,
            dsack: false,
            loss_detection: LossDetection::Duplicates,
            tail_loss_probe: false,
            frto: false,
            undo: false,
            reduction: Reduction::Immediate,
            partial_ack: PartialAck::Repairs,
            limited_transmit: false,
            timestamps: false,
            backoff_end: BackoffEnd::Sample,
            syn_linear_timeouts: 0,
            lost_syn: LostSyn::Rfc5681,
            slow_start_restart: SlowStartRestart::Off,
            ect: Ect::NewData,
            pacing: Pacing::None,
            tso_divisor: 0,
            gro: Duration::ZERO,
        }
    }
}

/// The largest window that a TCP can advertise (RFC 7323 section 2.3).
pub const LARGEST_WINDOW: Bytes = Bytes(1 << 30);

/// The largest packet, header included.
pub const LARGEST_PACKET: u64 = 65_535;

/// The coarsest clock that timers go by.
const LONGEST_TICK: Duration = Duration::from_ms(1000);

/// A key with a value that TCP cannot work with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// The key of the table `tcp`.
    pub key: &'static str,
    /// What was found.
    pub found: String,
    /// What is allowed.
    pub allowed: String,
}

impl Tcp {
    /// `wait` in whole ticks of the clock that timers go by, rounded up.
    #[inline]
    #[must_use]
    pub const fn whole_ticks(&self, wait: Duration) -> Duration {
        match self.timer_tick.0 {
            0 => wait,
            tick => Duration(wait.0.next_multiple_of(tick)),
        }
    }

    /// What timers take for `rto_min`. Linux keeps it in ticks (`icsk_rto_min`), so 10 ms are 12 where a tick is 4 ms.
    #[inline]
    #[must_use]
    pub const fn rto_min_of_timers(&self) -> Duration {
        match self.rto {
            RtoForm::Linux => self.whole_ticks(self.rto_min),
            RtoForm::Rfc6298 => self.rto_min,
        }
    }

    /// The values that are out of range or do not fit each other; ranges that the schema has are not checked again.
    #[must_use]
    pub fn unfit(&self) -> Vec<Unfit> {
        let mut unfit = Vec::new();
        let mut refuse = |key, found: String, allowed: String| unfit.push(Unfit { key, found, allowed });
        let out_of_range = |value: &dyn std::fmt::Display| format!("{value} is out of range");
        if self.mss.0 == 0 || self.mss.0 > LARGEST_PACKET {
            refuse("mss", out_of_range(&self.mss), format!("1B to {LARGEST_PACKET}B"));
        } else if self.header.0 == 0 || self.header.0 > LARGEST_PACKET - self.mss.0 {
            let allowed = format!("at least 1B, and at most {LARGEST_PACKET}B together with mss ({})", self.mss);
            refuse("header", out_of_range(&self.header), allowed);
        }
        if self.receive_buffer < self.mss || self.receive_buffer > LARGEST_WINDOW {
            let allowed = format!("one segment ({}) to 1GiB", self.mss);
            refuse("receive_buffer", out_of_range(&self.receive_buffer), allowed);
        }
        for (key, time) in [("rto_min", self.rto_min), ("rto_initial", self.rto_initial)] {
            if time.0 == 0 {
                refuse(key, out_of_range(&time), "above 0s".into());
            } else if time > self.rto_max {
                refuse(key, format!("{time} is above rto_max"), format!("at most {}", self.rto_max));
            }
        }
        if self.loss_detection == LossDetection::Rack && !self.sack {
            let found = "RACK needs SACK, which is off";
            refuse("loss_detection", found.into(), "\"duplicates\", or sack = true".into());
        }
        for (key, on) in [("tail_loss_probe", self.tail_loss_probe), ("dsack", self.dsack)] {
            if on && !self.sack {
                refuse(key, "it needs SACK, which is off".into(), "false, or sack = true".into());
            }
        }
        if self.undo && self.loss_detection != LossDetection::Rack {
            refuse("undo", "it needs RACK, which is off".into(), "false, or loss_detection = \"rack\"".into());
        }
        let notes_times = self.loss_detection == LossDetection::Rack || self.rtt_samples == RttSamples::EveryAck;
        for (key, on, off) in [("frto", self.frto, "false"), ("tso_divisor", self.tso_divisor > 0, "0")] {
            if on && !notes_times {
                let allowed = format!("{off}, or loss_detection = \"rack\", or rtt_samples = \"every-ack\"");
                refuse(key, "nothing notes when segments left".into(), allowed);
            }
        }
        if self.partial_ack == PartialAck::Waits && !self.sack && self.reduction != Reduction::Proportional {
            let allowed = "\"repairs\", or recovery = \"prr\"";
            refuse("partial_ack", "it needs rate reduction, which is off".into(), allowed.into());
        }
        if self.undo && !self.dsack {
            refuse("undo", "it needs DSACK, which is off".into(), "false, or dsack = true".into());
        }
        if self.gro > Duration::ZERO && self.delayed_ack.is_none() {
            refuse("gro", "it needs delayed ACKs, which are off".into(), "\"0s\", or a table delayed_ack".into());
        }
        let times = [("timer_tick", self.timer_tick), ("timer_margin", self.timer_margin), ("gro", self.gro)];
        for (key, time) in times {
            if time > LONGEST_TICK {
                refuse(key, out_of_range(&time), format!("0s to {LONGEST_TICK}"));
            }
        }
        if self.delayed_ack.is_some_and(|delay| delay.timeout.0 == 0) {
            refuse("delayed_ack", "the timeout is 0s".into(), "a timeout above 0s, or \"none\"".into());
        }
        unfit
    }

    /// Whether a loss without SACK is repaired only where rate reduction has room.
    #[must_use]
    pub const fn waits_for_room(&self) -> bool {
        matches!(self.partial_ack, PartialAck::Waits) && !self.sack
    }

    /// The shift of RFC 7323: the smallest with which the field can express the whole receive buffer.
    #[must_use]
    pub const fn window_shift(&self) -> u32 {
        let field = self.receive_buffer.0 / 65_536;
        let shift = 64 - field.leading_zeros();
        if shift > 14 { 14 } else { shift }
    }

    /// The largest window in bytes that the field of a packet can express.
    #[must_use]
    pub const fn largest_window(&self) -> u64 {
        match self.window_scaling {
            WindowScaling::Exact => u32::MAX as u64,
            WindowScaling::Rfc7323 => 65_535 << self.window_shift(),
            WindowScaling::Off => 65_535,
        }
    }

    /// What a SYN says of `window`: its field is never scaled (RFC 7323 section 2.2).
    #[must_use]
    pub const fn largest_syn_window(&self, window: u64) -> u64 {
        match self.window_scaling {
            WindowScaling::Rfc7323 if window > 65_535 => 65_535,
            _ => window,
        }
    }
}

/// How the retransmission timeout follows from round-trip samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RtoForm {
    /// Mean plus four times the variation, and at least `rto_min` (RFC 6298 section 2).
    Rfc6298,
    /// Mean plus the variation's part, which is at least `rto_min`; the peak of a round trip counts and fades
    /// (`tcp_rtt_estimator`). The timeout is longer than in RFC 6298 by up to a round trip, and less of a surprise.
    Linux,
}

/// Which segments give round-trip samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RttSamples {
    /// One segment at a time (RFC 6298 section 3).
    OnePerRound,
    /// The first segment that an ACK acknowledges or, if it acknowledges none that was sent once, reports by SACK (Linux).
    EveryAck,
}

/// What means that a segment is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LossDetection {
    /// What arrived after it in the stream: three duplicate ACKs (RFC 5681), or with SACK three ranges or more than two
    /// segments beyond it (RFC 6675).
    Duplicates,
    /// What was sent after it, by time, and arrived: RACK (RFC 8985). Retransmissions are found lost too. Needs SACK.
    Rack,
}

/// Range of the window field of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WindowScaling {
    /// Any number of bytes, as in simulators.
    Exact,
    /// 16 bits and a shift (RFC 7323): the smallest shift that can express the whole receive buffer.
    Rfc7323,
    /// At most 65,535 bytes.
    Off,
}

/// How the window is reduced during recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Recovery")]
pub enum Reduction {
    /// At once: RFC 6675 with SACK, RFC 6582 without.
    #[serde(rename = "rfc")]
    Immediate,
    /// In proportion to delivered data (RFC 6937), as in Linux and ns-3. Without SACK, each duplicate ACK counts as a segment
    /// that was delivered, as in ns-3.
    #[serde(rename = "prr")]
    Proportional,
}

/// Without SACK, what a partial ACK does in recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PartialAck {
    /// The next segment is lost, and leaves at once (RFC 6582 section 3.2, step 3).
    Repairs,
    /// It leaves as soon as rate reduction has room for it, which counts what is lost unnoticed as in the network; every ACK
    /// restarts the timer; and recovery goes on until data sent after it is acknowledged (Linux: `tcp_newreno_mark_lost`,
    /// `tcp_is_non_sack_preventing_reopen`). Needs `recovery = "prr"`.
    Waits,
}

/// What ends the back-off of the retransmission timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BackoffEnd {
    /// A round-trip sample (RFC 6298 section 5, with Karn's rule; Linux).
    Sample,
    /// Any ACK for new data, including retransmissions (ns-3).
    Ack,
}

/// What follows from a SYN or a SYN-ACK that was sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LostSyn {
    /// The window is one segment (RFC 5681 section 3.1), and there is no round-trip sample (Karn's rule).
    Rfc5681,
    /// The window is one segment from the second time on, and timestamps give a sample (`tcp_init_transfer`).
    Linux,
}

/// Effect of idle time on a window that is kept between messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SlowStartRestart {
    /// None: the window stays as it was, however long the connection is idle.
    Off,
    /// After one RTO the window is at most the initial window (RFC 5681 section 4.1).
    Rfc5681,
    /// Each RTO halves the window, down to the initial window (RFC 2861, Linux).
    Decay,
}

/// How fast the segments of a window leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pacing {
    /// As fast as the window lets them.
    None,
    /// At 200 % of the window per smoothed round trip below half of ssthresh, and at 120 % from there on, as Linux paces where
    /// its queueing discipline is `fq` (`tcp_pacing_ss_ratio`, `tcp_pacing_ca_ratio`). Before a round trip was measured,
    /// segments leave at once.
    Internal,
}

/// Which packets of an ECN-capable sender can be marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ect {
    /// New data only (RFC 3168 section 6.1).
    NewData,
    /// All packets, including ACKs, retransmissions and SYNs, as in Linux and ns-3 with DCTCP (for SYNs RFC 8257 section
    /// 3.6).
    All,
}

/// When a receiver sends delayed ACKs (RFC 5681 section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Delay")]
pub struct DelayedAck {
    /// Full segments after which an ACK is sent. Default: 2.
    #[schemars(range(min = 1, max = 1000))]
    pub every: u32,
    /// Time after which an ACK is sent anyway. Default: "40ms".
    #[schemars(extend("default" = "40ms"))]
    pub timeout: Duration,
    /// Segments at the start of a connection that are acknowledged at once (Linux: 16). Default: 0.
    #[schemars(range(max = 1000))]
    pub quick: u32,
    /// Whether as many are acknowledged at once again after a pause longer than the retransmission timeout, and after one
    /// that arrived twice (Linux). Default: false.
    pub quick_again: bool,
    /// Whether no ACK is delayed for as long as `rto_min`: the timeout is then at most `rto_min`, in whole ticks, less one, as in
    /// Linux from version 6.11 on (`tcp_delack_max`). Default: false.
    pub below_rto_min: bool,
    /// By how much the receive window grows once data comes, two segments with each that arrives. Meanwhile each is acknowledged
    /// at once (Linux: `tcp_grow_window`). Only ACKs follow from it: the window is always that of `receive_buffer`. Default: "0B".
    #[schemars(extend("default" = "0B"))]
    pub growth: Bytes,
}

impl DelayedAck {
    /// How long an ACK waits at most.
    #[must_use]
    pub fn longest(&self, tcp: &Tcp) -> Duration {
        let bound = Duration(tcp.whole_ticks(tcp.rto_min).0.saturating_sub(tcp.timer_tick.0).max(1));
        if self.below_rto_min { self.timeout.min(bound) } else { self.timeout }
    }
}

impl Default for DelayedAck {
    fn default() -> Self {
        Self {
            every: 2,
            timeout: Duration::from_ms(40),
            quick: 0,
            quick_again: false,
            below_rto_min: false,
            growth: Bytes::ZERO,
        }
    }
}

/// Delayed ACKs as a scenario writes them.
mod none_or_table {
    use schemars::JsonSchema;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::DelayedAck;

    /// Delayed ACKs (RFC 5681 section 4.2), or "none".
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(untagged)]
    #[schemars(rename = "DelayedAck")]
    pub(super) enum DelayedAckKey {
        Off(NoDelay),
        On(DelayedAck),
    }

    /// No delayed ACKs.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub(super) enum NoDelay {
        /// Every data segment is acknowledged at once.
        None,
    }

    #[expect(clippy::ref_option, reason = "what serde calls")]
    pub(super) fn serialize<S: Serializer>(delay: &Option<DelayedAck>, serializer: S) -> Result<S::Ok, S::Error> {
        delay.map_or(DelayedAckKey::Off(NoDelay::None), DelayedAckKey::On).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<DelayedAck>, D::Error> {
        Ok(match DelayedAckKey::deserialize(deserializer)? {
            DelayedAckKey::Off(_) => None,
            DelayedAckKey::On(delay) => Some(delay),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shift_is_the_smallest_that_expresses_the_whole_buffer() {
        for (buffer, shift) in
            [(1, 0), (65_535, 0), (65_536, 1), (131_070, 1), (131_072, 2), (6 << 20, 7), (1 << 30, 14), (1 << 40, 14)]
        {
            let tcp = Tcp { receive_buffer: Bytes(buffer), window_scaling: WindowScaling::Rfc7323, ..Tcp::default() };
            assert_eq!(tcp.window_shift(), shift, "{buffer}");
            assert!(shift == 14 || tcp.largest_window() >= buffer, "{buffer}");
        }
    }
}
