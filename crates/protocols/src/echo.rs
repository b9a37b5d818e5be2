//! What a receiving connection echoes on its ACKs.
//!
//! A part of its own, since senders differ in what they need: nothing, one reaction per window
//! (RFC 3168), every single mark (DCTCP), incast marks too.

use crate::registry::registry;
use crate::switch::Marks;

pub mod dctcp;
pub mod none;
pub mod pulser;
pub mod rfc3168;

registry! {
    Echo: Echo, built from EchoContext;
    /// Any registered echo, called without a vtable.
    any AnyEcho;
    /// An echo and its parameters, as a scenario names it.
    choice EchoChoice;
    "none" = none::None,
    "rfc3168" = rfc3168::Rfc3168,
    "dctcp" = dctcp::DctcpEcho,
    "pulser" = pulser::PulserEcho,
}

/// What an echo is told when its connection opens: nothing so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EchoContext {}

/// What an ACK says of marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// ECN-Echo.
    pub ece: bool,
    /// EIN echo.
    pub ein: bool,
}

/// Turns the marks of arriving segments into the feedback of leaving ACKs.
///
/// The connection calls, for each data segment: [`would_change`](Self::would_change); if so, and an
/// ACK is being delayed, it sends that ACK now, with the old feedback; then
/// [`on_data`](Self::on_data); and an ACK for this segment at once if the state changed.
#[enum_dispatch::enum_dispatch]
#[auto_impl::auto_impl(Box)]
pub trait Echo: core::fmt::Debug + dyn_clone::DynClone {
    /// Whether a segment with these marks would change what ACKs say, so that segments before and
    /// after it cannot share an ACK.
    fn would_change(&self, marks: Marks) -> bool;

    /// A data segment arrived; `cwr` says that the sender has reduced its window.
    fn on_data(&mut self, marks: Marks, cwr: bool);

    /// An ACK leaves: what it says.
    fn on_ack(&mut self) -> Feedback;

    /// An ACK that had been built but was held back will never leave, since a newer one takes its
    /// place. What it would have said must not be lost.
    fn on_replaced(&mut self, held: Feedback);
}
