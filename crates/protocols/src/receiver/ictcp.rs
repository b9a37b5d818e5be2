//! ICTCP: the receiver keeps what comes in below its line rate by the windows it announces (Wu et al., `CoNEXT` 2010).
//!
//! Once in a round trip each connection's throughput is held against what its window would let through. A
//! window that is the limit may grow, if the NIC's quota allows; one that is not used shrinks. So losses are
//! avoided before they happen, as long as two segments of every connection fit into buffer and path.

mod flow;
mod round_trip;
mod share;
mod slot;

use alloc::format;
use alloc::vec::Vec;

pub use share::Share;

use self::flow::Flow;
use self::slot::Slots;
use super::{AckCause, Action, Arrival, FlowIndex, Gate, NicContext, Receiver, SentAck};
use crate::message::Message;
use crate::registry::{Capability, Conflict, Part};
use crate::units::{Bytes, Duration, Time};

/// ICTCP's parameters, by the names of the paper where it has names.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Share of the line rate that may come in.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub alpha: Share,
    /// Weight of the past in the measured throughput. Published code has 0.75, 0.9, 0.5 and 0.2.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub beta: Share,
    /// Up to this share of the expected throughput missing, a window may grow.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub gamma1: Share,
    /// With more than this share missing, a window shrinks.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub gamma2: Share,
    /// Number of round trips in a row below that throughput before the window shrinks, by one segment.
    #[schemars(range(min = 1))]
    pub low_rounds: u32,
    /// With less than this share of the line rate left, windows above the mean shrink by a segment.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub fair_below: Share,
    /// How windows grow in slow start.
    pub growth: SlowStartGrowth,
    /// Window of a new connection, in segments.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub initial_window: u64,
    /// Minimum window of a connection, in segments.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub window_floor: u64,
    /// Connections with round trips from here on are left alone.
    pub rtt_limit: Duration,
    /// Least length of a sub-slot: the round trip without queues.
    pub slot_floor: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            alpha: Share::percent(90),
            beta: Share::percent(75),
            gamma1: Share::percent(10),
            gamma2: Share::percent(50),
            low_rounds: 3,
            fair_below: Share::percent(20),
            growth: SlowStartGrowth::Double,
            initial_window: 2,
            window_floor: 2,
            rtt_limit: Duration::from_ms(2),
            slot_floor: Duration::from_us(160),
        }
    }
}

impl Config {
    fn floor(&self, mss: Bytes) -> Bytes {
        Bytes(mss.0.saturating_mul(self.window_floor.max(1)))
    }

    fn initial(&self, mss: Bytes) -> Bytes {
        Bytes(mss.0.saturating_mul(self.initial_window)).max(self.floor(mss))
    }
}

/// How windows grow in slow start. In congestion avoidance they grow by a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SlowStartGrowth {
    /// They double, as published code for Linux has it.
    Double,
    /// They grow by a segment there too (the code of the RDTCP paper).
    Add,
}

/// ICTCP at one NIC.
#[derive(Clone, Debug)]
pub struct Ictcp {
    config: Config,
    mss: Bytes,
    header: Bytes,
    slots: Slots,
    /// By flow index.
    flows: Vec<Option<Flow>>,
}

impl Ictcp {
    /// Control of a NIC without connections.
    #[must_use]
    pub fn new(config: &Config, context: &NicContext) -> Self {
        Self {
            mss: context.mss,
            header: context.header,
            slots: Slots::new(context.rate, config.alpha, config.slot_floor),
            flows: Vec::new(),
            config: config.clone(),
        }
    }

    fn flow(&mut self, flow: FlowIndex) -> Option<&mut Flow> {
        self.flows.get_mut(flow.0 as usize)?.as_mut()
    }

    /// Connections above the mean window lose a segment.
    fn level(&mut self) {
        let controlled = || self.flows.iter().flatten().filter(|flow| flow.rtt.in_scope());
        let (count, sum) = controlled().fold((0, 0), |(count, sum), flow| (count + 1, sum + u128::from(flow.window.0)));
        for flow in self.flows.iter_mut().flatten().filter(|flow| flow.rtt.in_scope()) {
            if u128::from(flow.window.0) * count > sum {
                flow.shrink(&self.config, self.mss);
            }
        }
    }
}

impl Receiver for Ictcp {
    fn on_open(&mut self, _now: Time, flow: FlowIndex) {
        let index = flow.0 as usize;
        if index >= self.flows.len() {
            self.flows.resize(index + 1, None);
        }
        self.flows[index] = Some(Flow::new(self.config.initial(self.mss)));
    }

    fn on_message(&mut self, _now: Time, flow: FlowIndex, _message: &Message) {
        if let Some(flow) = self.flow(flow) {
            flow.on_message();
        }
    }

    fn on_data(&mut self, now: Time, flow: FlowIndex, arrival: &Arrival) {
        self.slots.on_arrival(now, arrival.payload + self.header);
        if let Some(Some(flow)) = self.flows.get_mut(flow.0 as usize) {
            flow.on_data(now, arrival, &self.config, self.mss, &mut self.slots);
        }
    }

    fn on_complete(&mut self, _now: Time, flow: FlowIndex) {
        if let Some(flow) = self.flow(flow) {
            flow.on_complete();
        }
    }

    fn on_close(&mut self, _now: Time, flow: FlowIndex) {
        if let Some(entry) = self.flows.get_mut(flow.0 as usize) {
            *entry = None;
        }
    }

    fn gate(&mut self, _now: Time, _flow: FlowIndex, _cause: AckCause) -> Gate {
        Gate::Open
    }

    fn window(&mut self, _now: Time, flow: FlowIndex) -> Option<Bytes> {
        let flow = self.flow(flow)?;
        flow.rtt.in_scope().then_some(flow.window)
    }

    fn on_ack_sent(&mut self, now: Time, flow: FlowIndex, sent: &SentAck) {
        if let Some(flow) = self.flow(flow) {
            let has_data = flow.has_data();
            flow.rtt.on_ack_sent(now, sent, has_data);
        }
    }

    fn next_timer(&self) -> Option<Time> {
        self.slots.ends()
    }

    fn on_timer(&mut self, now: Time) {
        let measured = self.slots.end_half(now);
        if measured && self.slots.is_short_of(self.config.fair_below) {
            self.level();
        }
    }

    fn poll(&mut self, _now: Time) -> Option<Action> {
        // Windows change when data arrives, and the ACK for it tells of them.
        None
    }
}

impl Part for Ictcp {
    type Config = Config;
    const SUMMARY: &'static str = "windows sized so that what comes in stays below the line rate";
    const SOURCE: &'static str =
        "Wu et al., CoNEXT 2010, and IEEE/ACM Transactions on Networking 21(2), 2013; constants as in published code";
    const PROVIDES: &'static [Capability] = &[Capability::ReceiverWindows];
    const DEVIATIONS: &'static [&'static str] = &[
        "The round trip is the time from an ACK that moves the announced right edge to the first byte beyond the edge \
         before it, smoothed as in RFC 6298: the simulator's timestamps carry no values, and a controller sees data and \
         ACKs only. It is too long for a sender that its own window holds back.",
        "No sample is taken across a gap, by data that comes again, or between messages; one of rtt_limit and more is \
         taken for a retransmission timeout unless no shorter one was ever seen. Three of them before any shorter one \
         leave a connection to its socket's buffer, until there is a shorter one.",
        "Before the first sample a connection has the mean round trip T of the NIC.",
        "A round ends with the first segment that arrives a round trip or more after its beginning, and throughput is \
         over the time it lasted: no timer per connection. While nothing arrives nothing is judged, and when all \
         messages are complete the round is dropped.",
        "Silence of rtt_limit and more is taken for idle time or a timeout of the sender, after which the connection is as \
         new. A timeout that is shorter is not noticed.",
        "Incoming traffic is data segments with their headers, compared with the line rate; throughput and windows are \
         payload. Data that comes again counts. T is weighted by the connections under control.",
        "A round with more than gamma2 missing ends slow start at once, not only once the window shrinks.",
        "A round is not judged while more is announced than the window, since the announced right edge never moves back.",
        "The slots rest while nothing comes in and begin anew with the next packet. Before the first half of the first \
         slot is over no window grows.",
        "Growth by less than a segment where the quota is short, which the code of the RDTCP paper has, is left out.",
    ];

    fn check(config: &Config) -> Result<(), Conflict> {
        let Config { gamma1, gamma2, .. } = *config;
        if gamma1 <= gamma2 {
            return Ok(());
        }
        let (grows, shrinks) = (f64::from(gamma1), f64::from(gamma2));
        let message =
            format!("a window would grow and shrink at once: gamma1 ({grows}) must not exceed gamma2 ({shrinks})");
        Err(Conflict::at("gamma1", message))
    }
}

#[cfg(test)]
mod tests;
