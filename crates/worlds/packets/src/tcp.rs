//! TCP without a world: an [`Endpoint`] is told of segments and expired timers, and puts what it sends
//! into an [`Outbox`].
//!
//! Byte streams begin at offset 0; on the wire a packet carries the lower 32 bits of an offset, as TCP
//! does, and [`unwrap`] restores the rest. A FIN takes one place after the last byte.
//! Modelled: handshake, cumulative and delayed ACKs, recovery by duplicates (RFC 6582) or SACK (RFC 2018,
//! RFC 6675), rate reduction (RFC 6937), limited transmit (RFC 3042), RTO (RFC 6298) with Karn's rule or
//! timestamps, ECN (RFC 3168) with the echo as a part, flow control with window scaling (RFC 7323) and
//! zero-window probes, idle restart, half-close.
//! RACK and tail loss probes (RFC 8985), F-RTO and undo stand in modules of their own.
//! Not modelled: urgent data, resets.

pub(crate) mod clock;
pub(crate) mod endpoint;
mod flight;
mod output;
pub(crate) mod prr;
mod rack;
pub(crate) mod ranges;
pub(crate) mod receive;
mod recovery;
pub(crate) mod rtt;
pub(crate) mod sack;
pub(crate) mod scoreboard;
#[cfg(test)]
mod scripted;
pub(crate) mod send;
pub(crate) mod status;
mod timing;
mod undo;

use std::collections::VecDeque;

use incast_protocols::Message;
use incast_record::{EventKind, Timer};

use crate::packet::Packet;

pub(crate) use endpoint::{Endpoint, State};
pub(crate) use incast_world::{MessageId, NEVER};

/// Duplicate ACKs, or ranges beyond a gap, that mean a loss (RFC 5681 section 3.2, RFC 6675 section 2).
pub(crate) const DUPLICATE_THRESHOLD: u32 = 3;

/// The stream offset nearest to `near` whose lower half is `wire`.
#[inline]
pub(crate) const fn unwrap(near: u64, wire: u32) -> u64 {
    near.wrapping_add_signed(wire.wrapping_sub(near as u32) as i32 as i64)
}

/// A message as a place in a byte stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) id: MessageId,
    pub(crate) start: u64,
    /// Exclusive; `u64::MAX` for a message without an end.
    pub(crate) end: u64,
    pub(crate) facts: Message,
    /// At the receiving end: its first segment has arrived.
    pub(crate) introduced: bool,
}

/// Puts a message behind others. Most connections have one at a time, for which a queue has room at first: that of several
/// would be a third of what a connection takes.
pub(crate) fn queue(messages: &mut VecDeque<Span>, message: Span) {
    if messages.capacity() == 0 {
        messages.reserve_exact(1);
    }
    messages.push_back(message);
}

/// Something results tell about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signal {
    pub(crate) kind: EventKind,
    /// The message it happened to.
    pub(crate) message: Option<MessageId>,
    pub(crate) offset: u64,
    /// The timer that expired, if one did.
    pub(crate) timer: Option<Timer>,
}

/// What an endpoint wants sent and told, in order. Reused, so that steady state allocates nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox {
    pub(crate) packets: Vec<Packet>,
    pub(crate) signals: Vec<Signal>,
    /// Options of these packets, for the other end.
    pub(crate) options: sack::Written,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use incast_plan::Tcp;
    use incast_protocols::sender::WindowRules;
    use incast_protocols::{Bytes, Duration};

    /// Settings the unit tests start from.
    pub(crate) fn tcp() -> Tcp {
        Tcp {
            mss: Bytes(1000),
            header: Bytes(40),
            initial_window_segments: 1,
            rules: WindowRules::default(),
            rto_initial: Duration::from_ms(10),
            rto_min: Duration::from_ms(10),
            rto_max: Duration::from_ms(60_000),
            delayed_ack: None,
            receive_buffer: Bytes(1 << 20),
            ..Tcp::default()
        }
    }

    #[test]
    fn offsets_survive_the_wrap_of_the_wire() {
        for near in [0, 5, u64::from(u32::MAX) - 3, u64::from(u32::MAX) + 9, 1 << 40] {
            for step in [-1_000_000_i64, -1, 0, 1, 2_000_000_000] {
                if let Some(offset) = near.checked_add_signed(step) {
                    assert_eq!(unwrap(near, offset as u32), offset);
                }
            }
        }
    }
}
