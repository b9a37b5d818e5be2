//! RDTCP: the receiver dictates every window, and holds ACKs back so that the last-hop queue never overflows
//! (Xu et al., "Enhancing TCP Incast Congestion Control Over Large-scale Datacenter Networks").
//!
//! Open loop: [Algorithm 1](assignment) divides a budget of packets among the flows of the NIC, and the
//! [buffer queue](buffer_queue) holds ACKs while what is granted and has not arrived exceeds that budget. Closed
//! loop: each flow has a [window](window) as a sender would have, for congestion that lies elsewhere.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{AckCause, Action, Arrival, FlowIndex, Gate, NicContext, Receiver, SentAck};
use crate::message::Message;
use crate::registry::{Capability, Part, Place, Requirement};
use crate::units::{Bytes, Duration, Offset, Time};
use assignment::Share;
use buffer_queue::BufferQueue;
use round_trip::RoundTrip;
use window::ReceiverWindow;

pub mod assignment;
pub mod buffer_queue;
pub mod round_trip;
pub mod window;

/// What a flow of unknown size counts as: larger than any other.
const UNKNOWN_SIZE: u64 = 1 << 40;
/// The timer is doubled no more often than this (RFC 6298 section 5.5).
const MOST_BACK_OFF: u32 = 10;

/// RDTCP's parameters.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Packets that may be granted and under way, in the last-hop queue and on the path to it.
    #[schemars(range(min = 1))]
    pub queue_maxsize: u32,
    /// Whether `queue_maxsize` is known. If not, it becomes what is under way when the first packet with a mark
    /// arrives, and there is no limit before.
    pub queue_known: bool,
    /// What decides the priority of a flow.
    pub priority: PriorityRule,
    /// Which size decides the priority of a flow.
    pub size_basis: SizeBasis,
    /// When budget that rounding has left is given out.
    pub refill: Refill,
    /// How often an ACK may be passed by others of higher priority.
    pub skip_max: u32,
    /// Whether an ACK is held that would exceed the budget. If not, one leaves while the budget is not reached,
    /// and may overshoot it by its own grant.
    pub strict: bool,
    /// How marks are counted and answered.
    pub ecn: EcnForm,
    /// Segments granted before anything has arrived.
    #[schemars(range(min = 1))]
    pub initial_window: u32,
    /// Slow-start threshold of a new flow.
    pub initial_ssthresh: Bytes,
    /// g = 2^-shift is the weight of the newest observation of marks.
    #[schemars(range(min = 1, max = 10))]
    pub shift: u32,
    /// Least time without a packet after which the receiver asks for a retransmission.
    pub rto_min: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            queue_maxsize: 40,
            queue_known: true,
            priority: PriorityRule::Size,
            size_basis: SizeBasis::Initial,
            refill: Refill::Always,
            skip_max: 700,
            strict: false,
            ecn: EcnForm::Regular,
            initial_window: 1,
            initial_ssthresh: Bytes(65_535),
            shift: 4,
            rto_min: Duration::from_ms(10),
        }
    }
}

/// What decides the priority of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PriorityRule {
    /// The inverse of its size: small flows first.
    Size,
    /// The same for all: in the order of their coming.
    None,
}

/// Which size decides priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SizeBasis {
    /// That of the whole message: equal flows progress together ("fixed flow priority", section IV.B).
    Initial,
    /// What is left of it, as in the authors' code: equal flows finish one after the other.
    Remaining,
}

/// When budget that rounding has left is given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Refill {
    /// Always, as the text's example of 21 equal flows wants it.
    Always,
    /// With priorities only, as line 13 of Algorithm 1 has it.
    WithPriority,
    /// Never: it stays unused until the next division.
    Never,
}

/// How marks are counted and answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EcnForm {
    /// As DCTCP: alpha is renewed every round trip, ssthresh is cut once in it.
    Regular,
    /// As the authors' code: round trips without a mark change nothing, every marked packet cuts ssthresh, and
    /// round-trip times below 100 us or from 10 ms on count as 100 us.
    Authors,
}

/// What a flow has in the buffer queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    Nothing,
    /// An ACK with a grant, which the connection holds.
    Ack,
    /// A grant alone: what arrived was acknowledged.
    Grant,
}

/// One flow towards the NIC.
#[derive(Clone, Debug)]
struct Flow {
    open: bool,
    window: ReceiverWindow,
    rtt: RoundTrip,
    /// What Algorithm 1 allows it, in packets.
    assigned: u64,
    /// Priority: the size of the message, and when it came.
    size: u64,
    came: u64,
    /// Where the messages end that were announced; unknown if one has no end.
    end: Option<u64>,
    /// Bytes that have arrived, each counted once.
    received: u64,
    /// Next byte expected.
    expected: u64,
    /// Right edge announced.
    edge: u64,
    first_sent_at: Option<Time>,
    deadline: Time,
    back_off: u32,
    waits: Waits,
    /// The segment that came last had come before: an ACK was lost, or has been held for too long.
    came_again: bool,
}

impl Flow {
    /// Bytes still to come; [`None`] if unknown.
    fn remaining(&self) -> Option<u64> {
        self.end.and_then(|end| end.checked_sub(self.received))
    }

    fn is_active(&self) -> bool {
        self.open && self.remaining() != Some(0)
    }

    /// Whether its next ACK acknowledges only, while its grant goes on waiting.
    fn only_acknowledges(&self) -> bool {
        self.waits != Waits::Nothing && self.came_again
    }

    /// Granted, and not arrived.
    fn under_way(&self) -> u64 {
        if self.is_active() { self.edge.saturating_sub(self.received) } else { 0 }
    }
}

/// RDTCP's controller of one NIC.
#[derive(Clone, Debug)]
pub struct Rdtcp {
    config: Config,
    mss: u64,
    /// Bytes that may be under way; none before it is known.
    budget: Option<u64>,
    flows: Vec<Flow>,
    /// Active flows in the order of service.
    order: Vec<u32>,
    /// Sum of what is under way.
    under_way: u64,
    held: BufferQueue,
    forced: VecDeque<FlowIndex>,
    /// No flow's deadline is earlier.
    earliest: Time,
    coming: u64,
    shares: Vec<Share>,
    scratch: Vec<u32>,
}

impl Rdtcp {
    /// A controller for a NIC without flows.
    #[must_use]
    pub fn new(config: &Config, context: &NicContext) -> Self {
        let mss = context.mss.0.max(1);
        Self {
            budget: config.queue_known.then(|| u64::from(config.queue_maxsize.max(1)) * mss),
            mss,
            flows: Vec::new(),
            order: Vec::new(),
            under_way: 0,
            held: BufferQueue::new(config.skip_max),
            forced: VecDeque::new(),
            earliest: Time::NEVER,
            coming: 0,
            shares: Vec::new(),
            scratch: Vec::new(),
            config: config.clone(),
        }
    }

    fn flow(&mut self, flow: FlowIndex) -> &mut Flow {
        &mut self.flows[flow.0 as usize]
    }

    /// Changes a flow, and with it the sum over all flows and, where it begins or ceases to be served, all windows.
    fn change(&mut self, index: FlowIndex, how: impl FnOnce(&mut Flow)) {
        let flow = &mut self.flows[index.0 as usize];
        let (before, was_active) = (flow.under_way(), flow.is_active());
        how(flow);
        self.under_way = self.under_way - before + flow.under_way();
        if flow.is_active() == was_active {
            return;
        }
        if was_active {
            flow.deadline = Time::NEVER;
            self.order.retain(|&other| other != index.0);
        } else {
            self.coming += 1;
            flow.came = self.coming;
            self.order.push(index.0);
        }
        self.assign();
    }

    fn rank(&self, flow: u32) -> u64 {
        let flow = &self.flows[flow as usize];
        match (self.config.priority, self.config.size_basis) {
            (PriorityRule::None, _) => 0,
            (PriorityRule::Size, SizeBasis::Initial) => flow.size,
            (PriorityRule::Size, SizeBasis::Remaining) => flow.remaining().unwrap_or(UNKNOWN_SIZE),
        }
    }

    /// Algorithm 1, at the beginning and the end of every message.
    fn assign(&mut self) {
        let Some(budget) = self.budget else {
            for &flow in &self.order {
                self.flows[flow as usize].assigned = u64::MAX;
            }
            return;
        };
        let mut order = core::mem::take(&mut self.order);
        order.sort_unstable_by_key(|&flow| (self.rank(flow), self.flows[flow as usize].came));
        self.shares.clear();
        for &flow in &order {
            let size = (self.config.priority == PriorityRule::Size).then(|| self.rank(flow));
            let most = self.flows[flow as usize].remaining().map_or(u64::MAX, |left| left.div_ceil(self.mss));
            self.shares.push(Share { flow, size, most, window: 0 });
        }
        self.order = order;
        let refill = match self.config.refill {
            Refill::Always => true,
            Refill::WithPriority => self.config.priority == PriorityRule::Size,
            Refill::Never => false,
        };
        assignment::assign(&mut self.shares, budget / self.mss, refill, &mut self.scratch);
        for share in &self.shares {
            self.flows[share.flow as usize].assigned = share.window;
        }
    }

    /// The window to grant: what congestion elsewhere leaves, no more than was assigned, and not beyond the end of
    /// the message but for the segment with which a next one may begin.
    fn grant(&self, flow: &Flow) -> u64 {
        let window = flow.window.get().0.min(flow.assigned.saturating_mul(self.mss)).max(self.mss);
        let end = flow.remaining().map_or(u64::MAX, |left| left.max(self.mss));
        // What has arrived beyond a gap is within the window, and not part of what is left.
        let beyond_gap = flow.received - flow.expected.min(flow.received);
        window.min(end.saturating_add(beyond_gap))
    }

    /// Whether the head of the buffer queue may leave.
    fn has_room(&self, flow: u32) -> bool {
        let Some(budget) = self.budget else { return true };
        if !self.config.strict {
            return self.under_way < budget;
        }
        let flow = &self.flows[flow as usize];
        let more = (flow.expected + self.grant(flow)).saturating_sub(flow.edge);
        self.under_way == 0 || self.under_way + more <= budget
    }

    fn drop_held(&mut self, flow: FlowIndex) -> Option<u32> {
        match core::mem::replace(&mut self.flow(flow).waits, Waits::Nothing) {
            Waits::Nothing => None,
            Waits::Ack | Waits::Grant => self.held.remove(flow.0),
        }
    }

    fn arm(&mut self, now: Time, flow: FlowIndex) {
        let rto_min = self.config.rto_min;
        let flow = self.flow(flow);
        if !flow.is_active() || flow.under_way() == 0 {
            return;
        }
        let timeout = flow.rtt.timeout(rto_min).0.saturating_mul(1 << flow.back_off);
        flow.deadline = Time(now.0.saturating_add(timeout));
        let deadline = flow.deadline;
        self.earliest = self.earliest.min(deadline);
    }
}

impl Receiver for Rdtcp {
    fn on_open(&mut self, _now: Time, flow: FlowIndex) {
        let (config, mss) = (&self.config, self.mss);
        let fresh = Flow {
            open: true,
            window: ReceiverWindow::new(
                Bytes(mss),
                Bytes(mss * u64::from(config.initial_window.max(1))),
                config.initial_ssthresh,
                1.0 / f64::from(1_u32 << config.shift.min(10)),
                config.ecn,
            ),
            rtt: RoundTrip::default(),
            assigned: u64::from(config.initial_window.max(1)),
            size: UNKNOWN_SIZE,
            came: 0,
            end: Some(0),
            received: 0,
            expected: 0,
            edge: 0,
            first_sent_at: None,
            deadline: Time::NEVER,
            back_off: 0,
            waits: Waits::Nothing,
            came_again: false,
        };
        let index = flow.0 as usize;
        if index < self.flows.len() {
            self.flows[index] = fresh;
        } else {
            self.flows.resize(index, Flow { open: false, ..fresh.clone() });
            self.flows.push(fresh);
        }
    }

    fn on_message(&mut self, _now: Time, flow: FlowIndex, message: &Message) {
        let was_active = self.flow(flow).is_active();
        self.change(flow, |flow| {
            flow.size = message.size.map_or(UNKNOWN_SIZE, |size| size.0);
            flow.end = flow.end.zip(message.size).map(|(end, size)| end + size.0);
        });
        // Its size, and so its priority, is another now.
        if was_active {
            self.assign();
        }
    }

    fn on_data(&mut self, now: Time, flow: FlowIndex, arrival: &Arrival) {
        if self.budget.is_none() && arrival.marks.ce {
            // Counted with this packet, which is still under way for the queue that marked it.
            self.budget = Some(self.under_way.max(2 * self.mss));
            self.assign();
        }
        self.change(flow, |flow| {
            flow.received += arrival.new.0;
            flow.expected = arrival.expected.0;
            flow.deadline = Time::NEVER;
            flow.came_again = arrival.new.0 == 0;
            if arrival.new.0 > 0 {
                flow.back_off = 0;
            }
            if let Some(sent_at) = flow.first_sent_at.take() {
                if arrival.start == Offset(0) {
                    flow.rtt.sample(now.since(sent_at));
                }
            } else if flow.came_again || arrival.beyond_gap.0 > 0 || flow.window.in_recovery() {
                flow.rtt.forget();
            } else {
                flow.rtt.on_arrival(now, arrival.start);
            }
            flow.window.on_data(now, arrival, &flow.rtt);
        });
    }

    fn on_complete(&mut self, _now: Time, _flow: FlowIndex) {
        // The byte counts have said so already.
    }

    fn on_close(&mut self, _now: Time, flow: FlowIndex) {
        self.drop_held(flow);
        self.change(flow, |flow| flow.open = false);
    }

    fn gate(&mut self, _now: Time, flow: FlowIndex, cause: AckCause) -> Gate {
        if !self.flow(flow).is_active() {
            self.drop_held(flow);
            return Gate::Open;
        }
        if self.flow(flow).waits != Waits::Nothing && cause == AckCause::SynAck {
            // The SYN came again: it keeps its place.
            return Gate::Hold;
        }
        // Who sends again has to hear what has arrived, or would go on; what it may send waits all the same.
        let again = self.flow(flow).came_again;
        if !(again && self.flow(flow).waits != Waits::Nothing) {
            let skipped = self.drop_held(flow);
            if self.held.is_empty() && self.has_room(flow.0) {
                return Gate::Open;
            }
            let rank = self.rank(flow.0);
            self.held.insert(flow.0, rank, skipped.unwrap_or(0));
        }
        let (waits, gate) = if again { (Waits::Grant, Gate::Open) } else { (Waits::Ack, Gate::Hold) };
        self.flow(flow).waits = waits;
        gate
    }

    fn window(&mut self, _now: Time, flow: FlowIndex) -> Option<Bytes> {
        let flow = &self.flows[flow.0 as usize];
        Some(Bytes(if flow.only_acknowledges() { flow.edge.saturating_sub(flow.expected) } else { self.grant(flow) }))
    }

    fn on_ack_sent(&mut self, now: Time, flow: FlowIndex, sent: &SentAck) {
        if !self.flow(flow).only_acknowledges() {
            self.drop_held(flow);
        }
        let mss = self.mss;
        self.change(flow, |flow| {
            let grants = sent.edge.0 > flow.edge;
            match sent.cause {
                // What comes now may have been sent twice, the first byte included.
                AckCause::Forced => {
                    flow.rtt.forget();
                    flow.first_sent_at = None;
                }
                AckCause::SynAck => flow.first_sent_at = grants.then_some(now),
                // A grant beyond the end of a message waits for the application.
                AckCause::Data => {
                    let segments = sent.edge.since(sent.ack).0 / mss;
                    if grants && segments > 0 && flow.is_active() && !flow.window.in_recovery() {
                        flow.rtt.on_ack(now, Offset(sent.ack.0 + (segments - 1) * mss));
                    }
                }
            }
            flow.edge = flow.edge.max(sent.edge.0);
        });
        self.arm(now, flow);
    }

    fn next_timer(&self) -> Option<Time> {
        (self.earliest != Time::NEVER).then_some(self.earliest)
    }

    fn on_timer(&mut self, now: Time) {
        self.earliest = Time::NEVER;
        for (index, flow) in self.flows.iter_mut().enumerate() {
            if flow.deadline <= now {
                flow.deadline = Time::NEVER;
                // An ACK that waits here says that it is not the network that is silent.
                if flow.open && flow.waits == Waits::Nothing {
                    flow.window.on_timeout();
                    flow.back_off = (flow.back_off + 1).min(MOST_BACK_OFF);
                    self.forced.push_back(FlowIndex(index as u32));
                }
            }
            self.earliest = self.earliest.min(flow.deadline);
        }
    }

    fn poll(&mut self, _now: Time) -> Option<Action> {
        if let Some(flow) = self.forced.pop_front() {
            return Some(Action::ForceRetransmission(flow));
        }
        let head = self.held.head()?;
        if !self.has_room(head) {
            return None;
        }
        self.held.pop();
        let waited = core::mem::replace(&mut self.flows[head as usize].waits, Waits::Nothing);
        let head = FlowIndex(head);
        Some(if waited == Waits::Grant { Action::UpdateWindow(head) } else { Action::Release(head) })
    }
}

impl Part for Rdtcp {
    type Config = Config;
    const SUMMARY: &'static str =
        "dictates all windows and holds ACKs back, so that the last-hop queue never overflows";
    const SOURCE: &'static str =
        "Xu et al., \"Enhancing TCP Incast Congestion Control Over Large-scale Datacenter Networks\" (RDTCP)";
    const REQUIRES: &'static [Requirement] = &[Requirement {
        place: Place::Sender,
        capability: Capability::ObedienceTo("rdtcp"),
        because: "a sender with a window of its own leaves grants unused, which starves other flows: use the sender \
                  \"rdtcp\"",
    }];
    const PROVIDES: &'static [Capability] = &[Capability::ReceiverWindows];
    const DEVIATIONS: &'static [&'static str] = &[
        "A flow's priority is the inverse of its size: the text says \"flow size\", but its example of 30 MB and 2 KB \
         has 1 and 39 windows.",
        "A flow whose window covers all that is left needs no more (line 14 of Algorithm 1 leaves it one packet \
         short), and a pass of the refill that gave nothing ends it.",
        "No window is announced beyond the end of a message, but for one segment with which the next message on the \
         connection may begin: what is granted there would never arrive and never be taken back.",
        "What is under way is counted in bytes between the right edge announced and what has arrived; the text's \
         \"increment of ACK number\" alone does not balance.",
        "A segment that comes again is acknowledged at once, without a new grant, which goes on waiting: its sender's \
         timer has expired, because an ACK was lost or held for too long.",
        "An ACK that its timer sends bypasses the buffer queue: it announces nothing new, and if all that was granted \
         is lost nothing else could end the wait.",
        "The round-trip time is sampled once per round trip, not with every ACK.",
    ];
}

#[cfg(test)]
mod tests;
