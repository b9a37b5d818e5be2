//! What travels: a small `Copy` value, and where it goes. Nothing is looked up in flow state on the way.

use incast_protocols::switch::Marks;

/// Flags of a TCP segment and of the IP header around it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(pub(crate) u16);

impl Flags {
    pub(crate) const SYN: Self = Self(1);
    pub(crate) const ACK: Self = Self(1 << 1);
    pub(crate) const FIN: Self = Self(1 << 2);
    /// On a pure ACK: retransmit the segment it asks for, at once.
    pub(crate) const PSH: Self = Self(1 << 3);
    pub(crate) const ECE: Self = Self(1 << 4);
    pub(crate) const CWR: Self = Self(1 << 5);
    /// Echo of an incast mark.
    pub(crate) const EIN_ECHO: Self = Self(1 << 6);
    /// An option with a message's facts: this is its first segment.
    pub(crate) const MESSAGE: Self = Self(1 << 7);
    /// IP: ECN-capable.
    pub(crate) const ECT: Self = Self(1 << 8);
    /// IP: congestion experienced.
    pub(crate) const CE: Self = Self(1 << 9);
    /// IP: explicit incast notification.
    pub(crate) const EIN: Self = Self(1 << 10);
    /// The client of its connection sent it.
    pub(crate) const FROM_CLIENT: Self = Self(1 << 11);
    /// Options beside the packet, SACK or telemetry: `Packet::option` is their number.
    pub(crate) const OPTIONS: Self = Self(1 << 12);
    /// The upper three bits are the class of service.
    const CLASS_SHIFT: u32 = 13;
    /// The highest class.
    pub(crate) const HIGHEST_CLASS: u8 = 7;

    #[inline]
    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    #[inline]
    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[inline]
    pub(crate) const fn marks(self) -> Marks {
        Marks { ce: self.has(Self::CE), ein: self.has(Self::EIN) }
    }

    /// Class of service, 0 to 7.
    #[inline]
    pub(crate) const fn class(self) -> u8 {
        (self.0 >> Self::CLASS_SHIFT) as u8
    }

    /// The same with this class, at most the highest.
    pub(crate) const fn with_class(self, class: u32) -> Self {
        let class = if class > Self::HIGHEST_CLASS as u32 { Self::HIGHEST_CLASS as u16 } else { class as u16 };
        Self(self.0 & ((1 << Self::CLASS_SHIFT) - 1) | class << Self::CLASS_SHIFT)
    }

    #[inline]
    pub(crate) const fn with_if(self, condition: bool, other: Self) -> Self {
        if condition { self.with(other) } else { self }
    }
}

/// A packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Packet {
    /// Index of its connection in the plan.
    pub(crate) connection: u32,
    /// Lower half of the stream offset of its first byte.
    pub(crate) sequence: u32,
    /// Lower half of the next stream offset expected.
    pub(crate) acknowledgement: u32,
    /// Advertised window in bytes.
    pub(crate) window: u32,
    /// Payload bytes, or [`TRIMMED`](Self::TRIMMED).
    pub(crate) payload: u16,
    /// Bytes on the wire.
    pub(crate) wire: u16,
    /// The lower half of its options' number, if it has any.
    pub(crate) option: u16,
    /// Last, since all before it is copied as it is where a port may set marks.
    pub(crate) flags: Flags,
}

/// Where the packets go that one end of a connection sends. It does not travel in them, so that queues stay small.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Way {
    /// Receiving host.
    pub(crate) destination: u32,
    /// Its switch, by its number among switches with hosts.
    pub(crate) edge: u16,
    /// Chooses among equal paths.
    pub(crate) path: u16,
}

/// The ways of all connections.
#[derive(Clone, Debug)]
pub(crate) struct Ways {
    /// By connection, from its server and from its client.
    ways: Vec<[Way; 2]>,
}

impl Ways {
    /// By connection, from its server and from its client.
    pub(crate) fn new(ways: impl Iterator<Item = [Way; 2]>) -> Self {
        Self { ways: ways.collect() }
    }

    #[inline]
    pub(crate) fn of(&self, packet: &Packet) -> Way {
        self.ways[packet.connection as usize][usize::from(packet.flags.has(Flags::FROM_CLIENT))]
    }
}

impl Packet {
    /// In the place of its payload: it was cut off on the way. No segment is that long.
    pub(crate) const TRIMMED: u16 = u16::MAX;

    /// Whether its payload was cut off on the way.
    #[inline]
    pub(crate) const fn is_trimmed(&self) -> bool {
        self.payload == Self::TRIMMED
    }

    /// Whether it has payload, and still has it.
    #[inline]
    pub(crate) const fn carries_data(&self) -> bool {
        self.payload != 0 && self.payload != Self::TRIMMED
    }

    /// Its header alone, in the highest class.
    pub(crate) const fn trimmed(&self) -> Self {
        let flags = self.flags.with_class(Flags::HIGHEST_CLASS as u32);
        Self { payload: Self::TRIMMED, wire: self.wire - self.payload, flags, ..*self }
    }

    #[inline]
    pub(crate) const fn marks(&self) -> Marks {
        self.flags.marks()
    }

    /// Nothing but an acknowledgement: only such a segment can be a duplicate ACK (RFC 5681 section 2).
    #[inline]
    pub(crate) const fn is_pure_ack(&self) -> bool {
        self.payload == 0 && !self.flags.has(Flags::SYN) && !self.flags.has(Flags::FIN)
    }
}
