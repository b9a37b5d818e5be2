//! The switch's place: what is admitted, what is marked.

use crate::units::{Bytes, Rate, Time};

pub mod buffer;
pub mod marker;

/// The queue of one output port as an arriving or departing packet finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueState {
    /// Now: on departure the moment transmission begins.
    pub now: Time,
    /// Packets accepted whose transmission has not begun. On departure the leaving packet is not
    /// among them any more.
    pub waiting_packets: u32,
    /// Their bytes on the wire.
    pub waiting_bytes: Bytes,
    /// Bytes of the packet in transmission, zero if the port is idle. On departure: the leaving packet.
    pub in_service: Bytes,
    /// The port's line rate.
    pub rate: Rate,
}

impl QueueState {
    /// Packets at the port, with or without the one in transmission.
    #[inline]
    #[must_use]
    pub const fn packets(&self, with_in_service: bool) -> u32 {
        self.waiting_packets.saturating_add((with_in_service && self.in_service.0 > 0) as u32)
    }

    /// Bytes at the port, with or without the packet in transmission. The packet in transmission
    /// counts whole until its last bit has left.
    #[inline]
    #[must_use]
    pub const fn bytes(&self, with_in_service: bool) -> Bytes {
        Bytes(self.waiting_bytes.0.saturating_add(if with_in_service { self.in_service.0 } else { 0 }))
    }
}

/// Marks on a packet: set by switches, never cleared by them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Congestion experienced (RFC 3168).
    pub ce: bool,
    /// Explicit incast notification (Pulser).
    pub ein: bool,
}

impl Marks {
    /// No mark.
    pub const NONE: Self = Self { ce: false, ein: false };
    /// Congestion experienced.
    pub const CE: Self = Self { ce: true, ein: false };
    /// Explicit incast notification.
    pub const EIN: Self = Self { ce: false, ein: true };
}

/// What a switch sees of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketView {
    /// Bytes on the wire.
    pub bytes: Bytes,
    /// Its marks so far.
    pub marks: Marks,
    /// It may be marked CE (ECT).
    pub ecn_capable: bool,
}
