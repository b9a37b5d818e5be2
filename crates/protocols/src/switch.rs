//! The switch's place: what is admitted, what is marked.

use crate::units::{Bytes, Rate, Time};

pub mod buffer;
pub mod marker;
pub mod scheduler;
pub mod telemetry;

/// The queue of one output port as an arriving or departing packet finds it; where the port has several, that of the packet's
/// class.
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

/// A queue so short that a part has nothing to decide and nothing to learn, so that it need not be asked.
///
/// A queue is that short if fewer than `packets` wait, and if what waits, the packet in transmission and the arriving
/// packet are at most `bytes` together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quiet {
    /// Waiting packets, the one in transmission not among them.
    pub packets: u32,
    /// Bytes at the port once the packet has been taken in.
    pub bytes: Bytes,
}

impl Quiet {
    /// Of every queue.
    pub const ALWAYS: Self = Self { packets: u32::MAX, bytes: Bytes(u64::MAX) };
    /// Of no queue: the part is asked about every packet.
    pub const NEVER: Self = Self { packets: 0, bytes: Bytes::ZERO };

    /// Below a number of packets. The packet in transmission may be one of them.
    #[must_use]
    pub const fn below_packets(packets: u32, with_in_service: bool) -> Self {
        Self { packets: packets.saturating_sub(with_in_service as u32), ..Self::ALWAYS }
    }

    /// As long as the queue with the arriving packet holds at most `bytes`.
    #[must_use]
    pub const fn up_to_bytes(bytes: Bytes) -> Self {
        if bytes.0 == 0 { Self::NEVER } else { Self { bytes, ..Self::ALWAYS } }
    }

    /// Whether a queue is that short, with so many packets waiting and so many bytes at the port once the arriving
    /// packet has been taken in.
    #[inline]
    #[must_use]
    pub const fn covers(self, waiting_packets: u32, bytes: Bytes) -> bool {
        waiting_packets < self.packets && bytes.0 <= self.bytes.0
    }

    /// Where both are quiet.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { packets: self.packets.min(other.packets), bytes: self.bytes.min(other.bytes) }
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketView {
    /// Bytes on the wire.
    pub bytes: Bytes,
    /// Payload bytes among them: what is left out if the packet is trimmed.
    pub payload: Bytes,
    /// Its marks so far.
    pub marks: Marks,
    /// It may be marked CE (ECT).
    pub ecn_capable: bool,
    /// Its class of service, 0 to 7: the priority of its message.
    pub class: u8,
    /// A number that the packets of one connection share, in both directions.
    pub flow: u32,
}
