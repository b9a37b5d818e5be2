//! Packets at ports, one by one.

use incast_units::{Bytes, Duration, Time};
use serde::{Deserialize, Serialize};

/// A packet that arrived at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// How often this segment has arrived at this port by now; 0 without payload.
    pub number: u32,
    /// Advertised window.
    pub window: u32,
    /// Place of its SACK option in [`Run::sacks`](crate::Run::sacks), from 1; 0 without one.
    pub sack: u32,
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

/// Packets and texts of SACK options as the table has them: packets by (arrival, link), each with the number of times that
/// its segment came by, and texts in the order in which packets name them.
#[must_use]
pub fn in_order(mut packets: Vec<PacketSample>, mut texts: Vec<String>) -> (Vec<PacketSample>, Vec<String>) {
    // A stable sort: what arrived at one port at one time keeps its order.
    packets.sort_by_key(|row| (row.arrive, row.link));
    let segment = |row: &PacketSample| (row.link, row.connection, row.from_client, row.offset);
    let mut data: Vec<usize> = (0..packets.len()).filter(|&index| packets[index].payload > 0).collect();
    data.sort_by_key(|&index| (segment(&packets[index]), index));
    let (mut last, mut number) = (None, 0);
    for index in data {
        let row = &mut packets[index];
        number = if last == Some(segment(row)) { number + 1 } else { 1 };
        last = Some(segment(row));
        row.number = number;
    }
    let (mut named, mut places) = (Vec::new(), vec![0; texts.len()]);
    for row in packets.iter_mut().filter(|row| row.sack > 0) {
        let old = row.sack as usize - 1;
        if places[old] == 0 {
            named.push(std::mem::take(&mut texts[old]));
            places[old] = named.len() as u32;
        }
        row.sack = places[old];
    }
    (packets, named)
}
