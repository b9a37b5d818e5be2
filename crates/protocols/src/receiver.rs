//! The receiver's place: one controller per NIC sees all flows that end there, dictates their windows
//! and decides when an ACK may leave.
//!
//! It is asked for a flow's window when an ACK is built, and polled for actions until it has none. A
//! change that concerns all flows therefore costs nothing until each flow's next ACK.

use crate::message::Message;
use crate::registry::registry;
use crate::switch::Marks;
use crate::units::{Amount, Bytes, Duration, Offset, Rate, Time};

pub mod credit;
pub mod dcmrg;
pub mod ictcp;
pub mod none;
pub mod rdtcp;
pub mod static_window;

registry! {
    Receiver: Receiver, built from NicContext;
    /// Any registered receiver, called without a vtable.
    any AnyReceiver;
    /// A receiver and its parameters, as a scenario names it.
    choice ReceiverChoice;
    "none" = none::None,
    "ictcp" = ictcp::Ictcp,
    "dcmrg" = dcmrg::Dcmrg,
    "rdtcp" = rdtcp::Rdtcp,
    "static-window" = static_window::StaticWindow,
    "credit" = credit::Credit,
}

/// RTT0: the round trip for which a controller that knows of rates only announces its windows (DCMRG, section II.D). Both
/// ends have to know it; it cancels out.
pub const REFERENCE_RTT: Duration = Duration::from_us(100);

/// What a controller is told when its NIC comes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicContext {
    /// Line rate of the port that leads to this NIC.
    pub rate: Rate,
    /// Payload of a full segment.
    pub mss: Bytes,
    /// Headers of every packet, as they count on the wire.
    pub header: Bytes,
    /// What windows are announced in multiples of: 1, or what the field of the header says with window scaling.
    pub window_unit: Bytes,
    /// The port that leads to this NIC, where it is known.
    pub port: Option<LastPort>,
}

impl NicContext {
    /// A NIC of whose port and connections no more is known.
    #[must_use]
    pub const fn new(rate: Rate, mss: Bytes, header: Bytes) -> Self {
        Self { rate, mss, header, window_unit: Bytes(1), port: None }
    }
}

/// What is known of the last port before a NIC and of those who send through it: configured, not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastPort {
    /// What it can hold while other ports are empty.
    pub buffer: Amount,
    /// Longest round trip on an idle network, of all connections on which data come.
    pub base_rtt: Duration,
    /// Minimum retransmission timeout of the senders.
    pub rto_min: Duration,
}

/// A flow's number at its NIC: dense, reused after [`Receiver::on_close`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowIndex(pub u32);

/// A data segment that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// First byte.
    pub start: Offset,
    /// Payload.
    pub payload: Bytes,
    /// Bytes of it that had not arrived before.
    pub new: Bytes,
    /// Next byte expected (RCV.NXT), after this arrival.
    pub expected: Offset,
    /// How far RCV.NXT moved.
    pub delivered: Bytes,
    /// Bytes that wait beyond a gap, after this arrival.
    pub beyond_gap: Bytes,
    /// Highest byte seen so far, exclusive.
    pub highest: Offset,
    /// Marks it carries.
    pub marks: Marks,
}

/// Why an ACK is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckCause {
    /// Second part of the handshake: the first grant.
    SynAck,
    /// Data arrived.
    Data,
    /// The controller asked for it with [`Action::ForceRetransmission`].
    Forced,
}

/// Whether an ACK may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// At once.
    Open,
    /// It is held, as the flow's only one: a newer ACK takes its place. [`Action::Release`] lets it
    /// leave, rebuilt with what is true by then.
    Hold,
}

/// What a controller wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Let the flow's held ACK leave.
    Release(FlowIndex),
    /// Send an unsolicited ACK, to announce a new window.
    UpdateWindow(FlowIndex),
    /// Ask the sender to retransmit its first unacknowledged segment at once (an ACK with PSH).
    ForceRetransmission(FlowIndex),
}

/// What was announced to the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentAck {
    /// Cumulative acknowledgement.
    pub ack: Offset,
    /// Right edge announced: `ack` plus the advertised window. It never moves back.
    pub edge: Offset,
    /// Why it was sent.
    pub cause: AckCause,
}

/// The controller of one NIC.
///
/// Every method that can change what the controller wants is followed by [`poll`](Self::poll) until it
/// returns `None`.
#[enum_dispatch::enum_dispatch]
#[auto_impl::auto_impl(Box)]
pub trait Receiver: core::fmt::Debug + dyn_clone::DynClone {
    /// A flow towards this NIC opens. Where the handshake counts this is the SYN's arrival.
    fn on_open(&mut self, now: Time, flow: FlowIndex);

    /// Told right after [`on_open`](Self::on_open) of a flow on which nothing comes but responses to what
    /// [`on_request`](Self::on_request) tells of, so that its window may be closed between them.
    fn on_answers_only(&mut self, _flow: FlowIndex) {}

    /// The host sends a request on this flow, whose response will arrive on it; `response` has what the application
    /// knows of it. On a flow that the request opens it is called before the first window is announced. Only requests of
    /// aggregators are known; other messages are told of by [`on_message`](Self::on_message) alone.
    fn on_request(&mut self, _now: Time, _flow: FlowIndex, _response: &Message) {}

    /// The first segment of a message arrived (the SYN, where it carries the facts).
    fn on_message(&mut self, now: Time, flow: FlowIndex, message: &Message);

    /// A data segment arrived; an ACK for it may be asked for right after.
    fn on_data(&mut self, now: Time, flow: FlowIndex, arrival: &Arrival);

    /// All bytes of the flow's current message have arrived.
    fn on_complete(&mut self, now: Time, flow: FlowIndex);

    /// The flow is gone.
    fn on_close(&mut self, now: Time, flow: FlowIndex);

    /// An ACK of the flow wants to leave. Not asked for the ACK that an action releases or forces.
    fn gate(&mut self, now: Time, flow: FlowIndex, cause: AckCause) -> Gate;

    /// The window to announce; `None` leaves it to the socket's buffer. The right edge announced before
    /// is kept where this would move it back.
    fn window(&mut self, now: Time, flow: FlowIndex) -> Option<Bytes>;

    /// The window that every flow has at all times, if it is always the same and no ACK is ever held. Data of the host then
    /// carry ACKs, as they do without a controller; otherwise an ACK leaves only where the controller was asked.
    fn fixed_window(&self) -> Option<Bytes> {
        None
    }

    /// An ACK left.
    fn on_ack_sent(&mut self, now: Time, flow: FlowIndex, sent: &SentAck);

    /// When [`on_timer`](Self::on_timer) wants to be called, if at all.
    fn next_timer(&self) -> Option<Time> {
        None
    }

    /// The time of [`next_timer`](Self::next_timer) has come.
    fn on_timer(&mut self, _now: Time) {}

    /// The next thing to do, if any.
    fn poll(&mut self, now: Time) -> Option<Action>;

    /// Whether it looks at anything: a controller that does not is not called.
    fn is_active(&self) -> bool {
        true
    }
}
