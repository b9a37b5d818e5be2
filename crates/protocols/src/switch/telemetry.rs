//! In-band telemetry: what the switch ports on a packet's path say of themselves (HPCC, section 3.1 and figure 7).

use crate::units::{Bytes, Rate, Time};

/// What one output port says when the transmission of a packet begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hop {
    /// When the transmission began.
    pub time: Time,
    /// Bytes that wait at the port, without this packet.
    pub queue: Bytes,
    /// Bytes that the port has transmitted since the start of the run, this packet included.
    pub transmitted: Bytes,
    /// The port's line rate.
    pub rate: Rate,
}

/// What all ports on a packet's path said, in the order of the path. A receiver hands it back to the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Telemetry {
    hops: [Hop; Telemetry::MOST_HOPS],
    count: u8,
}

impl Telemetry {
    /// As many hops as a packet has room for: one more than the longest path through a fat tree.
    pub const MOST_HOPS: usize = 6;

    /// No hop yet.
    pub const EMPTY: Self = Self {
        hops: [Hop { time: Time(0), queue: Bytes(0), transmitted: Bytes(0), rate: Rate(0) }; Self::MOST_HOPS],
        count: 0,
    };

    /// Adds a hop. Where the list is full it stays as it is: the packet has no room for more.
    #[inline]
    pub const fn push(&mut self, hop: Hop) {
        let count = self.count as usize;
        if count < Self::MOST_HOPS {
            self.hops[count] = hop;
            self.count += 1;
        }
    }

    /// The hops so far.
    #[inline]
    #[must_use]
    pub fn hops(&self) -> &[Hop] {
        &self.hops[..usize::from(self.count)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_keep_the_order_of_the_path_and_a_full_list_takes_no_more() {
        let hop = |us| Hop { time: Time::from_us(us), ..Hop::default() };
        let mut telemetry = Telemetry::EMPTY;
        assert!(telemetry.hops().is_empty());
        for us in 0..8 {
            telemetry.push(hop(us));
        }
        assert_eq!(telemetry.hops(), [0, 1, 2, 3, 4, 5].map(hop));
        assert_eq!(Telemetry::EMPTY, Telemetry::default());
    }
}
