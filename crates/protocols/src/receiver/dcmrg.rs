//! DCMRG's incast controller: the port is divided by rates, and windows hold senders to them (Wang et al., section II.D).
//!
//! A flow whose deadline asks for a minimum rate has it reserved if the port has that much left. If not, it is elastic, and
//! so is all of its coflow, whose deadline would be missed anyway. What is left is shared so that every flow has the same,
//! and none less than what it has reserved (equation 15).

mod coflows;
mod water_level;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

pub use water_level::WaterLevel;

use self::coflows::Coflows;
use super::ictcp::Share;
use super::{AckCause, Action, Arrival, FlowIndex, Gate, NicContext, REFERENCE_RTT, Receiver, SentAck};
use crate::message::{CoflowId, Message};
use crate::registry::{Capability, Part, Place, Requirement};
use crate::units::{Bytes, Rate, Time};

/// Announced windows are whole sixteenths of a segment.
const PARTS_OF_SEGMENT: u128 = 16;

/// DCMRG's parameters at the receiver.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Share of the payload that the line can carry which is handed out.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub headroom_factor: Share,
}

impl Default for Config {
    fn default() -> Self {
        Self { headroom_factor: Share::percent(100) }
    }
}

/// What a message asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Demand {
    /// Theta; zero if it is elastic.
    rate: Rate,
    coflow: Option<CoflowId>,
}

/// What is known of a connection.
#[derive(Clone, Debug, Default)]
struct Flow {
    /// The message that is arriving. Without one the connection has no part of the port.
    current: Option<Demand>,
    /// What has begun behind it.
    next: VecDeque<Demand>,
    /// The rate that the message has reserved; none if it is elastic.
    reserved: Option<Rate>,
    /// Next byte expected.
    expected: u64,
    /// Right edge announced.
    edge: u64,
    /// The window of the last ACK.
    announced: Bytes,
    /// Its place in the list of blocked flows.
    blocked: Option<u32>,
    /// Whether an unsolicited ACK is to announce its window.
    update_due: bool,
}

/// The controller of one NIC.
#[derive(Clone, Debug)]
pub struct Dcmrg {
    mss: Bytes,
    port: WaterLevel,
    /// What an elastic flow gets now.
    level: Rate,
    /// By flow index.
    flows: Vec<Flow>,
    coflows: Coflows,
    /// Flows from which everything that was announced has arrived, so that nothing more will come and call for an ACK. Only
    /// these have to be told at once that their window has grown: a change of the level looks at them alone.
    /// With an ACK for every segment there are none.
    blocked: Vec<u32>,
    /// Flows to be told of a window.
    updates: VecDeque<FlowIndex>,
}

impl Dcmrg {
    /// Control of a NIC without flows.
    #[must_use]
    pub fn new(config: &Config, context: &NicContext) -> Self {
        let mss = context.mss.0.max(1);
        let payload = u128::from(context.rate.0) * u128::from(mss) / u128::from(mss + context.header.0);
        let port = WaterLevel::new(Rate(config.headroom_factor.times(payload as u64)));
        Self {
            mss: Bytes(mss),
            level: port.level(),
            port,
            flows: Vec::new(),
            coflows: Coflows::default(),
            blocked: Vec::new(),
            updates: VecDeque::new(),
        }
    }

    /// The rate that a flow may have; none between its messages.
    #[must_use]
    pub fn allocation(&self, flow: FlowIndex) -> Option<Rate> {
        let flow = self.flows.get(flow.0 as usize)?;
        flow.current.map(|_| flow.reserved.map_or(self.level, |rate| rate.max(self.level)))
    }

    /// `W_rcv0`: what the allocation lets through in the reference round trip, in whole sixteenths of a segment, and one of
    /// them at least. The sender makes a segment of what is less than one in its own round trip.
    fn window_of(&self, flow: FlowIndex) -> Bytes {
        let mss = u128::from(self.mss.0);
        let least = Bytes(self.mss.0.div_ceil(PARTS_OF_SEGMENT as u64));
        let Some(rate) = self.allocation(flow) else { return least };
        // At most 2^64 times 2^27, so nothing is lost.
        let bits = u128::from(rate.0) * u128::from(REFERENCE_RTT.0) / 1_000_000_000_000;
        let parts = bits * PARTS_OF_SEGMENT / (8 * mss);
        Bytes((parts * mss / PARTS_OF_SEGMENT) as u64).max(least)
    }

    fn flow(&mut self, flow: FlowIndex) -> &mut Flow {
        &mut self.flows[flow.0 as usize]
    }

    /// A message begins to use the port.
    fn enter(&mut self, flow: FlowIndex, demand: Demand) {
        self.flow(flow).current = Some(demand);
        let failed = demand.coflow.is_some_and(|coflow| self.coflows.enter(coflow));
        let wants = demand.rate > Rate(0) && !failed;
        if wants && self.port.reserve(flow, demand.rate) {
            self.flow(flow).reserved = Some(demand.rate);
            if let Some(coflow) = demand.coflow {
                self.coflows.reserved(coflow, flow);
            }
        } else {
            self.port.add_elastic();
            if let (true, Some(coflow)) = (wants, demand.coflow) {
                self.fail(coflow);
            }
        }
        self.change_level();
    }

    /// A coflow of which one flow cannot have its rate: none of the others needs his.
    fn fail(&mut self, coflow: CoflowId) {
        self.coflows.fail(coflow);
        while let Some(member) = self.coflows.take_reserved(coflow) {
            self.port.release(member);
            self.port.add_elastic();
            self.flow(member).reserved = None;
        }
    }

    /// The current message does not use the port any more.
    fn leave(&mut self, flow: FlowIndex) {
        let Some(demand) = self.flow(flow).current.take() else { return };
        if self.flow(flow).reserved.take().is_some() {
            self.port.release(flow);
        } else {
            self.port.remove_elastic();
        }
        if let Some(coflow) = demand.coflow {
            self.coflows.leave(coflow, flow);
        }
        self.change_level();
    }

    /// Somebody came or went. What follows for windows is told by each flow's next ACK, except where there will be none.
    fn change_level(&mut self) {
        self.level = self.port.level();
        for at in 0..self.blocked.len() {
            self.update_if_grown(FlowIndex(self.blocked[at]));
        }
    }

    /// A blocked flow is told of a window that has grown, once: the ACK that does so unblocks it.
    fn update_if_grown(&mut self, flow: FlowIndex) {
        let window = self.window_of(flow);
        let this = self.flow(flow);
        if window > this.announced && !this.update_due {
            this.update_due = true;
            self.updates.push_back(flow);
        }
    }

    fn block(&mut self, flow: FlowIndex) {
        if self.flow(flow).blocked.is_none() {
            self.flow(flow).blocked = Some(self.blocked.len() as u32);
            self.blocked.push(flow.0);
        }
    }

    fn unblock(&mut self, flow: FlowIndex) {
        let this = self.flow(flow);
        this.update_due = false;
        let Some(at) = this.blocked.take() else { return };
        self.blocked.swap_remove(at as usize);
        if let Some(&moved) = self.blocked.get(at as usize) {
            self.flow(FlowIndex(moved)).blocked = Some(at);
        }
    }
}

impl Receiver for Dcmrg {
    fn on_open(&mut self, _now: Time, flow: FlowIndex) {
        let index = flow.0 as usize;
        if index >= self.flows.len() {
            self.flows.resize(index + 1, Flow::default());
        }
    }

    fn on_message(&mut self, _now: Time, flow: FlowIndex, message: &Message) {
        let demand = Demand { rate: message.minimum_rate.unwrap_or_default(), coflow: message.coflow };
        if self.flow(flow).current.is_some() {
            self.flow(flow).next.push_back(demand);
        } else {
            self.enter(flow, demand);
        }
    }

    fn on_data(&mut self, _now: Time, flow: FlowIndex, arrival: &Arrival) {
        let this = self.flow(flow);
        this.expected = arrival.expected.0;
        if this.current.is_some() && this.expected >= this.edge {
            self.block(flow);
            // The level may have risen since the last ACK.
            self.update_if_grown(flow);
        }
    }

    fn on_complete(&mut self, _now: Time, flow: FlowIndex) {
        self.leave(flow);
        if let Some(demand) = self.flow(flow).next.pop_front() {
            self.enter(flow, demand);
        } else {
            self.unblock(flow);
        }
    }

    fn on_close(&mut self, _now: Time, flow: FlowIndex) {
        self.leave(flow);
        self.unblock(flow);
        *self.flow(flow) = Flow::default();
    }

    fn gate(&mut self, _now: Time, _flow: FlowIndex, _cause: AckCause) -> Gate {
        Gate::Open
    }

    fn window(&mut self, _now: Time, flow: FlowIndex) -> Option<Bytes> {
        Some(self.window_of(flow))
    }

    fn on_ack_sent(&mut self, _now: Time, flow: FlowIndex, sent: &SentAck) {
        let window = self.window_of(flow);
        let this = self.flow(flow);
        this.edge = sent.edge.0;
        this.announced = window;
        if this.edge > this.expected {
            self.unblock(flow);
        }
    }

    fn poll(&mut self, _now: Time) -> Option<Action> {
        while let Some(flow) = self.updates.pop_front() {
            // An ACK may have told it meanwhile.
            if core::mem::take(&mut self.flow(flow).update_due) {
                self.unblock(flow);
                return Some(Action::UpdateWindow(flow));
            }
        }
        None
    }
}

impl Part for Dcmrg {
    type Config = Config;
    const SUMMARY: &'static str =
        "divides the port by rates: minimum rates are reserved, by coflow, and the rest is shared";
    const SOURCE: &'static str = "Wang et al., \"An Incast-Coflow-Aware Minimum-Rate-Guaranteed Congestion Control \
                                  Protocol for Datacenter Applications\" (DCMRG), II.D";
    const REQUIRES: &'static [Requirement] = &[Requirement {
        place: Place::Sender,
        capability: Capability::ReferenceRttScaling,
        because: "its windows are meant for a round trip of 100 us, and only the senders \"dcmrg\" and \"mrg\" scale them \
                  to their own: use one of these",
    }];
    const PROVIDES: &'static [Capability] = &[Capability::ReferenceRttWindows];
    const DEVIATIONS: &'static [&'static str] = &[
        "RTT0, which the paper does not give, is 100 us. It cancels out but for rounding: windows are announced in sixteenths \
         of a segment, rounded down.",
        "The bandwidth C is the payload that the line can carry, since minimum rates are payload; headroom_factor makes it \
         less.",
        "No scaled window is less than a segment, or nothing would ever move; with many flows, or with all of the port \
         reserved, that is more than the allocation. No announced window is less than a sixteenth of a segment.",
        "Without elastic flows R_el / N_el is undefined; here all of the port is handed out then too.",
        "A flow of a coflow that has failed before it came is elastic, and a flow that became elastic stays so when bandwidth \
         becomes available: the paper is silent.",
        "A flow is its connection's message: it begins with the message's first segment, where the paper has the SYN, and \
         ends with its last byte. Between messages a connection may begin with one segment; of messages that follow each \
         other without a gap, the first that is not complete counts. A size that becomes known after the first segment has \
         arrived changes nothing here.",
        "The announced right edge never moves back, so a window that became smaller is in force once what was announced \
         before has arrived.",
        "A window that grows is told by the flow's next ACK; by one more if all that was announced has arrived, so that none \
         would come.",
    ];
}

#[cfg(test)]
mod tests;
