//! Marking at one output port.

use super::{Marks, PacketView, QueueState};
use crate::registry::registry;
use crate::units::Rate;

registry! {
    Marker: Marker, built from MarkerContext;
    /// Any registered marker, called without a vtable.
    any AnyMarker;
    /// A marker and its parameters, as a scenario names it.
    choice MarkerChoice;
    "none" = none::None,
    "ecn-threshold" = ecn_threshold::EcnThreshold,
    "ein" = ein::Ein,
}

/// What a marker is told when its port is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkerContext {
    /// The port's line rate.
    pub rate: Rate,
}

/// Sees every packet come and go at one output port, and marks.
///
/// The marks returned are added to the packet's own; a marker cannot clear one. CE must only be set
/// where [`PacketView::ecn_capable`].
#[enum_dispatch::enum_dispatch]
pub trait Marker {
    /// `packet` was admitted and finds `queue`, itself not included.
    fn on_enqueue(&mut self, queue: &QueueState, packet: &PacketView) -> Marks;

    /// The transmission of `packet` begins; it leaves `queue` behind.
    fn on_dequeue(&mut self, queue: &QueueState, packet: &PacketView) -> Marks;
}
