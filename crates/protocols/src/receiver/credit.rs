//! Credit at the receiver: the windows of all flows of a NIC come from one budget of bytes that are granted and have not
//! arrived.
//!
//! A request reserves the window of its response, and what arrives gives it back. A flow has an equal share of the budget;
//! where that is less than two segments, flows wait with closed windows and have their turns one after the other. So all that
//! can be under way at once fits the last port, however many answer.
//!
//! The application [`credit`](crate::application::credit) has the same idea with other means: it holds requests back and knows
//! nothing of segments. This part holds no request back and needs nothing of the application but the size of what it asks for.
//!
//! A window that was announced and a segment that was sent may be lost, and windows of two segments have nothing behind a loss that
//! would tell of it. So who is silent for long with a window open is told of it again, with room for one segment more.

mod order;
mod turns;

use alloc::vec::Vec;
use core::cmp::Ordering;

pub use self::order::Order;
use self::order::{Deadlines, rank};
use self::turns::Turns;
use super::{AckCause, Action, Arrival, FlowIndex, Gate, NicContext, Receiver, SentAck};
use crate::message::Message;
use crate::registry::{Capability, Conflict, Part};
use crate::units::{Amount, Bytes, Duration, Time};

/// How often a silent flow is reminded of its window.
const REMINDERS: u32 = 2;

/// What may be under way, and how it is divided.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Most bytes that may be granted and not have arrived, headers included: "45KB". Without it the least of 90 % of what
    /// the last port holds, of what its link carries in half the minimum retransmission timeout, and of two bandwidth-delay
    /// products and 16 full packets. At least two full packets.
    pub budget: Option<Bytes>,
    /// Window with which a response begins, in segments. It grows by what arrives, as that of a sender in slow start: more
    /// could not be used.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub first_window: u64,
    /// Least share of a flow, in segments. Where shares would be smaller, flows wait for their turn.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub least_window: u64,
    /// Who comes first where the budget does not suffice for all.
    pub order: Order,
    /// Whether windows may be closed. If not, every connection may always send `least_window` segments, also where the budget
    /// has no room for them: no flow waits, no ACK is sent that no data asks for, and N flows may have N of these windows
    /// under way beside the budget. So it is on a Linux kernel if nothing else is said.
    pub closes: bool,
    /// Whether it is told how large responses and messages are. If not, one is taken to be as large as the last on its
    /// connection, and for twice as large whenever it turns out to be larger.
    pub sizes: bool,
    /// Whether a flow that stays silent after all reminders counts for one segment from then on, and no longer for what it was
    /// granted. Where other ports than the last one lose packets, others then need not wait for its timer. When it speaks
    /// again, more than the budget may be under way.
    pub gives_up: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            budget: None,
            first_window: 10,
            least_window: 2,
            order: Order::Arrival,
            closes: true,
            sizes: true,
            gives_up: false,
        }
    }
}

impl Config {
    /// Without knowledge of the port, 16 full packets.
    fn budget(&self, context: &NicContext) -> u64 {
        let full = context.mss.0.max(1) + context.header.0;
        let sixteen = full * 16;
        let derived = context.port.map_or(sixteen, |port| {
            let buffer = match port.buffer {
                Amount::Packets(packets) => u64::from(packets).saturating_mul(full),
                Amount::Bytes(bytes) => bytes.0,
            };
            let before_timeout = context.rate.bytes_in(port.rto_min).0 / 2;
            let path = context.rate.bytes_in(port.base_rtt).0.saturating_mul(2).saturating_add(sixteen);
            (buffer - buffer.div_ceil(10)).min(before_timeout).min(path)
        });
        self.budget.map_or(derived, |budget| budget.0)
    }
}

/// How much of the port a payload takes.
#[derive(Clone, Copy, Debug)]
struct Wire {
    mss: u64,
    header: u64,
    /// The port counts packets, whatever their size.
    counts_packets: bool,
    /// What a window may be rounded up by.
    rounding: u64,
}

impl Wire {
    const fn full(self) -> u64 {
        self.mss + self.header
    }

    const fn of(self, payload: u64) -> u64 {
        let packets = payload.div_ceil(self.mss);
        if packets == 0 {
            0
        } else if self.counts_packets {
            packets * self.full() + self.rounding
        } else {
            payload + packets * self.header + self.rounding
        }
    }

    /// The most full segments that take no more than `room`.
    const fn segments_in(self, room: u64) -> u64 {
        room.saturating_sub(self.rounding) / self.full()
    }
}

/// One flow towards the NIC. Offsets are those of its byte stream.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// Nothing comes that was not asked for.
    answers: bool,
    /// Messages that were asked for, or began to arrive, and are not complete.
    messages: u32,
    /// One of them began to arrive before its first segment, which tells of it.
    untold: bool,
    /// Where they began.
    start: u64,
    /// Where they end, as far as known ...
    end: u64,
    /// ... and whether that is certain.
    sure: bool,
    /// The earliest deadline of them.
    due: Time,
    /// As what it is counted among those with deadlines: its deadline, and what it wants.
    counted: Option<(Time, u64)>,
    /// Size of the last that was complete.
    last_size: u64,
    /// All before it has arrived, ...
    expected: u64,
    /// ... with what waits beyond a gap so much in all.
    arrived: u64,
    /// Right edge granted.
    edge: u64,
    /// The one before: what comes from beyond it shows that the newer one has been heard of.
    edge_before: u64,
    /// Right edge that is about to be announced.
    offered: u64,
    /// Its socket has announced less than it was offered. It can be told no more before something arrives.
    socket_is_full: bool,
    /// What may be under way as far as this flow's own past goes.
    window: u64,
    /// While others wait, its turn is over once so much has arrived.
    turn_ends: u64,
    /// What it counts for in the budget.
    cost: u64,
    /// When something arrived last, or it was told of its window.
    heard_at: Time,
    /// How often it was told again since, and once more if that did not help and it is given up, ...
    reminders: u32,
    /// ... and what it may send beyond its window on account of that.
    extra: u64,
}

impl Flow {
    const fn is_active(&self) -> bool {
        self.messages > 0
    }

    /// It was silent after the last reminder, too: what it was granted is lost, or was never heard of.
    const fn is_given_up(&self) -> bool {
        self.reminders > REMINDERS
    }

    /// How far its edge may reach. A message that nobody asked for needs room for its first segment.
    const fn limit(&self, mss: u64) -> u64 {
        if self.answers { self.end } else { self.end + mss }
    }

    /// Whether its sender can send nothing although there is more to come.
    fn is_dry(&self, mss: u64) -> bool {
        self.is_active() && !self.socket_is_full && self.edge < self.end.min(self.arrived + mss)
    }
}

/// The credit of one NIC.
#[derive(Clone, Debug)]
pub struct Credit {
    wire: Wire,
    budget: u64,
    first_window: u64,
    least: u64,
    closes: bool,
    sizes: bool,
    gives_up: bool,
    order: Order,
    /// What flows want, by their deadlines, where these count.
    deadlines: Deadlines,
    /// By flow index.
    flows: Vec<Flow>,
    active: u64,
    /// Payload that each active flow may have under way.
    share: u64,
    /// What is granted and has not arrived.
    under_way: u64,
    /// Who waits for its turn; where no window is closed, whose request is about to leave.
    waiting: Turns,
    /// After so long a silence a flow with an open window is reminded of it.
    patience: Option<Duration>,
    /// Flows with open windows, the longest silent first, ...
    open: Turns,
    /// ... and those that are to be reminded now.
    silent: Turns,
}

impl Credit {
    /// Nothing granted.
    #[must_use]
    pub fn new(config: &Config, context: &NicContext) -> Self {
        let mss = context.mss.0.max(1);
        let counts_packets = matches!(context.port.map(|port| port.buffer), Some(Amount::Packets(_)));
        let rounding = context.window_unit.0.saturating_sub(1);
        let wire = Wire { mss, header: context.header.0, counts_packets, rounding };
        let budget = config.budget(context).max(wire.of(2 * mss));
        // What a flow in turn gets has to fit the budget.
        let least = config.least_window.clamp(1, wire.segments_in(budget)) * mss;
        // What is granted arrives within a round trip, behind all else that is granted. A window that is never closed is not
        // announced in vain.
        let patience = context.port.filter(|_| config.closes && context.rate.0 > 0).map(|port| {
            let longest = Duration(port.base_rtt.0.saturating_add(context.rate.time_for(Bytes(budget)).0));
            longest.doubled().max(Duration::from_us(1))
        });
        Self {
            wire,
            budget,
            first_window: config.first_window.max(1).saturating_mul(mss),
            least,
            closes: config.closes,
            sizes: config.sizes,
            gives_up: config.gives_up,
            order: config.order,
            deadlines: Deadlines::default(),
            flows: Vec::new(),
            active: 0,
            share: least,
            under_way: 0,
            waiting: Turns::new(),
            patience,
            open: Turns::new(),
            silent: Turns::new(),
        }
    }

    /// What may be under way, in bytes on the wire.
    #[must_use]
    pub const fn budget(&self) -> Bytes {
        Bytes(self.budget)
    }

    /// What a flow gets at least when it has its turn, or always where windows are not closed.
    #[must_use]
    pub const fn least_window(&self) -> Bytes {
        Bytes(self.least)
    }

    /// What is under way at most, in bytes on the wire.
    #[must_use]
    pub const fn under_way(&self) -> Bytes {
        Bytes(self.under_way)
    }

    fn set_active(&mut self, active: u64) {
        self.active = active;
        self.share = (self.wire.segments_in(self.budget / active.max(1)) * self.wire.mss).max(self.least);
    }

    /// Another message is on its way, of which so much is known.
    fn begin(&mut self, now: Time, index: u32, message: &Message) {
        let guess = self.least;
        let size = message.size.filter(|_| self.sizes);
        let due = message.deadline.unwrap_or(Time::NEVER);
        let flow = &mut self.flows[index as usize];
        if !flow.is_active() {
            (flow.start, flow.end, flow.sure) = (flow.expected, flow.expected, true);
            (flow.window, flow.turn_ends) = (self.first_window, flow.arrived + self.budget);
            (flow.reminders, flow.extra) = (0, 0);
            flow.due = Time::NEVER;
        }
        // Messages of a connection arrive in order, so one before it is as urgent.
        flow.due = flow.due.min(due);
        flow.messages += 1;
        flow.sure &= size.is_some();
        flow.end = flow.end.saturating_add(
            size.map_or_else(|| if flow.last_size > 0 { flow.last_size } else { guess }, |size| size.0),
        );
        if flow.messages == 1 {
            self.set_active(self.active + 1);
        }
        self.note(now, index);
    }

    /// A message is complete, or will never be.
    fn finish(&mut self, now: Time, index: u32, messages: u32) {
        let flow = &mut self.flows[index as usize];
        if messages == 0 {
            return;
        }
        flow.messages -= messages;
        if flow.messages == 0 {
            flow.last_size = flow.expected.saturating_sub(flow.start);
            flow.end = flow.expected;
            for list in [&mut self.waiting, &mut self.open, &mut self.silent] {
                list.remove(index);
            }
            self.set_active(self.active - 1);
        }
        self.note(now, index);
    }

    /// Brings up to date what a flow counts for, and whether it waits.
    fn note(&mut self, now: Time, index: u32) {
        let flow = &mut self.flows[index as usize];
        let cost = if flow.is_active() { cost(self.wire, flow, flow.edge) } else { 0 };
        self.under_way = self.under_way - core::mem::replace(&mut flow.cost, cost) + cost;
        if self.order == Order::Deadline {
            self.count(index);
        }
        let flow = &self.flows[index as usize];
        if self.closes && flow.is_dry(self.wire.mss) && !self.waiting.waits(index) {
            let its_turn = flow.arrived < flow.turn_ends && flow.arrived > flow.start;
            self.wait(now, index, its_turn);
        }
    }

    /// Brings up to date what a flow wants.
    fn count(&mut self, index: u32) {
        let flow = &mut self.flows[index as usize];
        let counted = flow.is_active().then(|| {
            let wants = flow.window.min(flow.end.saturating_sub(flow.arrived));
            (flow.due, self.wire.of(wants))
        });
        let before = core::mem::replace(&mut flow.counted, counted);
        if before != counted {
            if let Some((due, wants)) = before {
                self.deadlines.remove(due, wants);
            }
            if let Some((due, wants)) = counted {
                self.deadlines.add(due, wants);
            }
        }
    }

    /// A flow takes its place among those that wait; its own turn goes on if nobody else had one.
    fn wait(&mut self, now: Time, index: u32, its_turn: bool) {
        match self.order {
            Order::Arrival => self.waiting.push(index, its_turn),
            Order::Deadline => {
                let flows = &self.flows;
                let mine = rank(now, flows[index as usize].due);
                self.waiting.push_before(index, |other| {
                    let other = rank(now, flows[other as usize].due);
                    other > mine || (its_turn && other == mine)
                });
            }
        }
    }

    /// Of those who wait the earliest deadline is first in line. Once it is over it counts no longer, and others come before.
    fn send_back_late(&mut self, now: Time) {
        while let Some(first) = self.waiting.first().filter(|_| self.order == Order::Deadline) {
            if self.flows[first as usize].due > now {
                return;
            }
            self.flows[first as usize].due = Time::NEVER;
            self.count(first);
            self.waiting.remove(first);
            self.wait(now, first, false);
        }
    }

    /// The share of the budget that a flow may have now, and whether others come before it.
    fn place(&self, now: Time, index: u32) -> (u64, bool) {
        let (wire, flow) = (self.wire, &self.flows[index as usize]);
        let others_first = |turn_is_over: bool| match self.waiting.first() {
            None => false,
            Some(first) if self.waiting.waits(index) => first != index,
            Some(_) => turn_is_over,
        };
        match self.order {
            Order::Arrival => (self.share, others_first(flow.arrived >= flow.turn_ends)),
            Order::Deadline => {
                let mine = rank(now, flow.due);
                let left = self.budget.saturating_sub(self.deadlines.wanted_before(now, mine));
                let each = left / self.deadlines.flows_of(now, mine).max(1);
                let share = (wire.segments_in(each) * wire.mss).max(self.least);
                let first = self.waiting.first().map(|first| rank(now, self.flows[first as usize].due));
                let turn_is_over = first.is_some_and(|first| match first.cmp(&mine) {
                    Ordering::Less => true,
                    Ordering::Equal => flow.arrived >= flow.turn_ends,
                    Ordering::Greater => false,
                });
                // Those before it could use all: it has what they leave, and only in its turn.
                let crowded_out = left < wire.of(self.least) && !flow.is_dry(wire.mss);
                (share, crowded_out || others_first(turn_is_over))
            }
        }
    }

    /// A flow waits no longer.
    fn take_turn(&mut self, index: u32) {
        if self.waiting.waits(index) {
            self.waiting.remove(index);
            let flow = &mut self.flows[index as usize];
            if flow.arrived >= flow.turn_ends {
                flow.turn_ends = flow.arrived + self.budget;
            }
        }
    }

    /// Something arrived, or a window was opened: how long it is silent counts from now on.
    fn listen(&mut self, now: Time, index: u32) {
        self.open.remove(index);
        let flow = &mut self.flows[index as usize];
        if self.patience.is_some() && flow.cost > 0 && flow.reminders < REMINDERS + u32::from(self.gives_up) {
            flow.heard_at = now;
            self.open.push(index, false);
        }
    }

    /// The right edge that a flow may have now.
    fn grant(&self, now: Time, index: u32) -> u64 {
        let (wire, flow) = (self.wire, &self.flows[index as usize]);
        if !self.closes {
            return self.grant_always(flow);
        }
        if !flow.is_active() {
            return flow.edge.max(flow.limit(wire.mss));
        }
        let (share, passed_over) = self.place(now, index);
        if passed_over {
            return flow.edge;
        }
        let wanted = (flow.arrived + flow.window.min(share) + flow.extra).min(flow.limit(wire.mss));
        let room = (self.budget - self.under_way.min(self.budget)) + flow.cost;
        if cost(wire, flow, wanted) <= room {
            return wanted.max(flow.edge);
        }
        let fits = flow.arrived + wire.segments_in(room) * wire.mss;
        // A little more in every turn would do no good: windows of one segment wait for ACKs that are delayed.
        if flow.is_dry(wire.mss) && fits < (flow.arrived + self.least).min(wanted) {
            return flow.edge;
        }
        fits.min(wanted).max(flow.edge)
    }

    /// The same where no window may be closed: never less than the least, and more only as far as the budget has room.
    fn grant_always(&self, flow: &Flow) -> u64 {
        let least = flow.arrived + self.least;
        if !flow.is_active() {
            return least.max(flow.edge);
        }
        let wanted = (flow.arrived + flow.window.min(self.share)).min(flow.end);
        let room = (self.budget - self.under_way.min(self.budget)) + flow.cost;
        let fits = if cost(self.wire, flow, wanted) <= room {
            wanted
        } else {
            (flow.arrived + self.wire.segments_in(room) * self.wire.mss).min(wanted)
        };
        fits.max(least).max(flow.edge)
    }

    /// A message that is larger than was thought is taken for twice as large.
    fn look_further(&mut self, index: u32) {
        let least = self.least;
        let flow = &mut self.flows[index as usize];
        if flow.is_active() && flow.arrived >= flow.end {
            flow.end = flow.arrived + (flow.arrived - flow.start).max(least);
            flow.sure = false;
        }
    }
}

/// What a flow counts for with this right edge: nothing can come from beyond a certain end.
fn cost(wire: Wire, flow: &Flow, edge: u64) -> u64 {
    let edge = if flow.sure { edge.min(flow.end) } else { edge };
    let open = edge.saturating_sub(flow.arrived);
    wire.of(if flow.is_given_up() { open.min(wire.mss) } else { open })
}

impl Receiver for Credit {
    fn on_open(&mut self, _now: Time, flow: FlowIndex) {
        let index = flow.0 as usize;
        if index >= self.flows.len() {
            self.flows.resize(index + 1, Flow::default());
        }
        for list in [&mut self.waiting, &mut self.open, &mut self.silent] {
            list.know(flow.0);
        }
        self.flows[index] = Flow::default();
    }

    fn on_answers_only(&mut self, flow: FlowIndex) {
        self.flows[flow.0 as usize].answers = true;
    }

    fn on_request(&mut self, now: Time, flow: FlowIndex, response: &Message) {
        self.begin(now, flow.0, response);
        // Otherwise who has to wait is told when its turn has come.
        if !self.closes && !self.waiting.waits(flow.0) {
            self.waiting.push(flow.0, false);
        }
    }

    fn on_message(&mut self, now: Time, flow: FlowIndex, message: &Message) {
        let known = &mut self.flows[flow.0 as usize];
        let is_news = !known.answers && !core::mem::take(&mut known.untold);
        if is_news {
            self.begin(now, flow.0, message);
        }
    }

    fn on_data(&mut self, now: Time, index: FlowIndex, arrival: &Arrival) {
        let flow = &mut self.flows[index.0 as usize];
        if !flow.is_active() && arrival.new.0 > 0 {
            flow.untold = true;
            self.begin(now, index.0, &Message::default());
        }
        let flow = &mut self.flows[index.0 as usize];
        flow.socket_is_full = false;
        flow.expected = arrival.expected.0;
        flow.arrived = arrival.expected.0 + arrival.beyond_gap.0;
        flow.window = flow.window.saturating_add(arrival.delivered.0);
        if arrival.new.0 > 0 {
            (flow.reminders, flow.extra) = (0, 0);
        }
        if !flow.sure {
            self.look_further(index.0);
        }
        self.note(now, index.0);
        self.listen(now, index.0);
    }

    fn on_complete(&mut self, now: Time, flow: FlowIndex) {
        let messages = self.flows[flow.0 as usize].messages.min(1);
        self.finish(now, flow.0, messages);
    }

    fn on_close(&mut self, now: Time, flow: FlowIndex) {
        let messages = self.flows[flow.0 as usize].messages;
        self.finish(now, flow.0, messages);
    }

    fn gate(&mut self, now: Time, flow: FlowIndex, cause: AckCause) -> Gate {
        // A SYN-ACK cannot be followed by a window before its answer has come, so it waits for the flow's turn itself.
        let closed = self.closes && cause == AckCause::SynAck && self.waiting.waits(flow.0);
        if closed && self.grant(now, flow.0) <= self.flows[flow.0 as usize].arrived { Gate::Hold } else { Gate::Open }
    }

    fn window(&mut self, now: Time, index: FlowIndex) -> Option<Bytes> {
        // Of a message that is complete it would know by now: the size that it was told was wrong.
        self.look_further(index.0);
        let offered = self.grant(now, index.0);
        let least = if self.closes { 0 } else { self.least };
        let flow = &mut self.flows[index.0 as usize];
        flow.offered = offered;
        let unit = self.wire.rounding + 1;
        // The field of the header would round it down, and the last segment would have no room.
        Some(Bytes(offered.saturating_sub(flow.expected).max(least).div_ceil(unit) * unit))
    }

    fn on_ack_sent(&mut self, now: Time, index: FlowIndex, sent: &SentAck) {
        let flow = &mut self.flows[index.0 as usize];
        // The socket's buffer, or a window field without scaling, may let it announce less than it was offered.
        let offered = core::mem::take(&mut flow.offered);
        let edge = offered.min(sent.edge.0);
        flow.socket_is_full = edge < offered;
        if edge > flow.edge {
            flow.edge_before = core::mem::replace(&mut flow.edge, edge);
        }
        if !flow.is_dry(self.wire.mss) {
            self.take_turn(index.0);
        }
        self.note(now, index.0);
        if !self.open.waits(index.0) {
            self.listen(now, index.0);
        }
    }

    fn next_timer(&self) -> Option<Time> {
        let longest_silent = self.open.first()?;
        self.patience.map(|patience| self.flows[longest_silent as usize].heard_at + patience)
    }

    fn on_timer(&mut self, now: Time) {
        while let Some(index) = self.open.first().filter(|_| self.next_timer().is_some_and(|due| due <= now)) {
            self.open.remove(index);
            let flow = &mut self.flows[index as usize];
            flow.reminders += 1;
            if flow.is_given_up() {
                self.note(now, index);
                continue;
            }
            // If nothing has come yet its sender may be busy with the response.
            if flow.arrived > flow.start {
                flow.extra += self.wire.mss;
            }
            if !self.silent.waits(index) {
                self.silent.push(index, false);
            }
        }
    }

    fn poll(&mut self, now: Time) -> Option<Action> {
        self.send_back_late(now);
        while let Some(index) = self.silent.first() {
            self.silent.remove(index);
            self.listen(now, index);
            let flow = &self.flows[index as usize];
            // An ACK alone would do harm: a sender with a single segment under way probes for its end much later.
            if self.grant(now, index) > flow.edge || flow.arrived <= flow.edge_before {
                return Some(Action::UpdateWindow(FlowIndex(index)));
            }
        }
        if !self.closes {
            let asked = self.waiting.first()?;
            self.waiting.remove(asked);
            return Some(Action::UpdateWindow(FlowIndex(asked)));
        }
        while let Some(index) = self.waiting.first() {
            let flow = &self.flows[index as usize];
            let is_dry = flow.is_dry(self.wire.mss);
            if is_dry && self.grant(now, index) <= flow.edge {
                return None;
            }
            // Should its connection not be open yet, its first ACK will find it dry, and it waits again.
            self.take_turn(index);
            if is_dry {
                return Some(Action::UpdateWindow(FlowIndex(index)));
            }
        }
        None
    }
}

impl Part for Credit {
    type Config = Config;
    const SUMMARY: &'static str = "gives windows from one budget of bytes under way, reserved by requests; flows without a window wait their turn";
    const SOURCE: &'static str = "incast: no paper; docs/explanation/credit.md";
    const PROVIDES: &'static [Capability] = &[Capability::ReceiverWindows];
    const DEVIATIONS: &'static [&'static str] = &[
        "A request announces its response's window by an ACK of its own beside it, since data here carry the window \
         announced last.",
        "A message that nobody asked for has one segment before it counts: N hosts that push at once have N segments under way \
         beside the budget.",
    ];

    fn check(config: &Config) -> Result<(), Conflict> {
        if config.order == Order::Deadline && !config.closes {
            return Err(Conflict::at("order", "no effect: with closes = false no flow waits for others".into()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
