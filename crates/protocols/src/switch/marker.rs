//! Marking at one output port.

use super::telemetry::Hop;
use super::{Marks, PacketView, QueueState, Quiet};
use crate::random::Stream;
use crate::registry::registry;
use crate::units::{Bytes, Rate, Time};

pub mod ecn_threshold;
pub mod ein;
pub mod none;
pub mod red;
pub mod telemetry;

registry! {
    Marker: Marker, built from MarkerContext;
    /// Any registered marker, called without a vtable.
    any AnyMarker;
    /// A marker and its parameters, as a scenario names it.
    choice MarkerChoice;
    "none" = none::None,
    "ecn-threshold" = ecn_threshold::EcnThreshold,
    "ein" = ein::Ein,
    "red" = red::Red,
    "telemetry" = telemetry::Telemetry,
}

/// What a marker is told when its port is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkerContext {
    /// The port's line rate.
    pub rate: Rate,
    /// Random numbers of this port's own: what other ports draw does not change them.
    pub random: Stream,
}

impl MarkerContext {
    /// A port outside of any network: for tests.
    #[must_use]
    pub const fn alone(rate: Rate) -> Self {
        Self { rate, random: Stream::new(1, 0, 0) }
    }
}

/// Sees every packet come and go at one output port, and marks.
///
/// The marks returned are added to the packet's own; a marker cannot clear one. CE must only be set
/// where [`PacketView::ecn_capable`].
#[enum_dispatch::enum_dispatch]
#[auto_impl::auto_impl(Box)]
pub trait Marker: core::fmt::Debug + dyn_clone::DynClone {
    /// Whether `packet`, which finds `queue`, is dropped before the buffer is asked (early drop). Called first for each
    /// arriving packet that does not find a [quiet](Self::quiet) queue.
    fn drops(&mut self, _queue: &QueueState, _packet: &PacketView) -> bool {
        false
    }

    /// `packet` was admitted and finds `queue`, itself not included. Not called for a [quiet](Self::quiet) queue.
    fn on_enqueue(&mut self, queue: &QueueState, packet: &PacketView) -> Marks;

    /// The transmission of `packet` begins; it leaves `queue` behind. Not called if the marker
    /// [does not see departures](Self::sees_departures) or has [taken this one in](Self::takes_departure).
    fn on_dequeue(&mut self, queue: &QueueState, packet: &PacketView) -> Marks;

    /// Takes in that the transmission of a packet of `bytes` begins, as [`on_dequeue`](Self::on_dequeue) would, and does not mark it.
    /// `at_port` is what waits and the packet itself. If it returns `false`, nothing has happened, and
    /// [`on_dequeue`](Self::on_dequeue) is called. It saves time, and not every departure is first shown here.
    fn takes_departure(&mut self, _now: Time, _at_port: Bytes, _bytes: Bytes) -> bool {
        false
    }

    /// Reads from memory what the next departure is likely to need, so that many ports wait for it together. The result means nothing.
    fn touch(&self) -> u64 {
        0
    }

    /// What it says of the port in a packet whose transmission begins and that collects telemetry. `transmitted` are the
    /// bytes that the port has sent so far, this packet included. Called after [`on_dequeue`](Self::on_dequeue).
    fn telemetry(&self, _queue: &QueueState, _transmitted: Bytes) -> Option<Hop> {
        None
    }

    /// Queues at which arriving packets are neither marked nor dropped and nothing is learnt from them. Constant over a run.
    fn quiet(&self) -> Quiet {
        Quiet::NEVER
    }

    /// Whether departures matter: if not, none is marked and nothing is learnt from them. Constant over a run.
    fn sees_departures(&self) -> bool {
        true
    }
}
