//! Packets at ports, one by one.

use std::cmp::Ordering;

use incast_units::{Bytes, Duration, Time};
use serde::{Deserialize, Serialize};

use crate::{Row, Rows, Sorter, Spill};

/// A packet that arrived at a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketSample {
    /// When it arrived.
    pub arrive: Time,
    /// From then until its transmission began, if that happened.
    pub wait: Option<Duration>,
    /// Stream offset of its first byte.
    pub offset: u64,
    /// Next stream offset of the other direction that its sender expects.
    pub ack: u64,
    /// Index of the link behind the port.
    pub link: u32,
    /// Index of the connection in the plan.
    pub connection: u32,
    /// How often this segment has arrived at this port by now; 0 without payload. While a run goes on: how many packets
    /// have arrived here at this very time before it.
    pub number: u32,
    /// Advertised window.
    pub window: u32,
    /// Its SACK option, if it has one: `start-end` of each block in stream offsets, in the order of the option.
    pub sack: Option<Box<str>>,
    /// Payload in bytes.
    pub payload: u16,
    /// Bytes on the wire.
    pub wire: u16,
    /// As it left, marks set here included.
    pub flags: PacketFlags,
    /// Whether the client sent it.
    pub from_client: bool,
    /// Whether it was not admitted, or had to make room for another one.
    pub dropped: bool,
}

impl Row for PacketSample {
    fn order(&self, other: &Self) -> Ordering {
        let key = |one: &Self| (one.arrive, one.link, one.number);
        key(self).cmp(&key(other))
    }
}

impl PacketSample {
    /// Its payload.
    #[must_use]
    pub const fn payload(&self) -> Bytes {
        Bytes(self.payload as u64)
    }
}

/// Flags of a packet. The lower eight bits are the flags of a TCP header (RFC 9293, RFC 3168).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketFlags(pub u16);

impl PacketFlags {
    /// The sender has nothing more to send.
    pub const FIN: Self = Self(1);
    /// Opens a connection.
    pub const SYN: Self = Self(1 << 1);
    /// On a pure ACK: retransmit the segment it asks for, at once.
    pub const PSH: Self = Self(1 << 3);
    /// Acknowledges.
    pub const ACK: Self = Self(1 << 4);
    /// Echoes CE.
    pub const ECE: Self = Self(1 << 6);
    /// The window was reduced.
    pub const CWR: Self = Self(1 << 7);
    /// IP: ECN-capable.
    pub const ECT: Self = Self(1 << 8);
    /// IP: congestion experienced.
    pub const CE: Self = Self(1 << 9);
    /// IP: explicit incast notification.
    pub const EIN: Self = Self(1 << 10);
    /// Echoes EIN.
    pub const EIN_ECHO: Self = Self(1 << 11);
    /// A switch cut its payload off.
    pub const TRIMMED: Self = Self(1 << 12);

    /// With others, if `condition` holds.
    #[must_use]
    pub const fn with_if(self, condition: bool, others: Self) -> Self {
        if condition { Self(self.0 | others.0) } else { self }
    }
}

/// Packets as the table has them: by (arrival, link), and in the order in which they came where both are the same, which their
/// `number` has to say; it becomes the number of times that their segment has come by.
#[must_use]
pub fn numbered(packets: Sorter<PacketSample>, spill: Option<&Spill>) -> Rows<PacketSample> {
    let rows = packets.finish();
    let mut passes = Sorter::new(spill);
    for (place, row) in (0..).zip(&rows) {
        if row.payload > 0 {
            passes.push(Pass { segment: (row.link, row.connection, row.from_client, row.offset), place });
        }
    }
    let (mut last, mut number) = (None, 0);
    let mut again = Sorter::new(spill);
    for Pass { segment, place } in &passes.finish() {
        number = if last == Some(segment) { number + 1 } else { 1 };
        last = Some(segment);
        if number > 1 {
            again.push(Again { place, number });
        }
    }
    let again = again.finish();
    let mut again = again.iter().peekable();
    rows.revised(|place, row| {
        let known = again.next_if(|known| known.place == place);
        row.number = known.map_or(u32::from(row.payload > 0), |known| known.number);
    })
}

/// A segment comes by a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Pass {
    /// Link, connection, whether the client sends, and offset.
    segment: (u32, u32, bool, u64),
    /// Of the row among all rows.
    place: u64,
}

impl Row for Pass {
    fn order(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }
}

/// A segment comes by a port that has been there before.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Again {
    place: u64,
    number: u32,
}

impl Row for Again {
    fn order(&self, other: &Self) -> Ordering {
        self.place.cmp(&other.place)
    }
}
