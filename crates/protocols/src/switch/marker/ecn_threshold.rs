//! One threshold on the instantaneous queue (DCTCP, RFC 8257 section 3.1).
//!
//! A packet is marked CE if it finds at least `threshold` at the port. Packets that are not
//! ECN-capable (pure ACKs, SYNs, every packet of `NewReno`) pass unmarked; they are not dropped either.
//! Tested on arrival by default; some switches test when transmission begins.

use super::{Marker, MarkerContext};
use crate::registry::{Capability, Part};
use crate::switch::{Marks, PacketView, QueueState, Quiet};
use crate::units::{Amount, Bytes};

/// The threshold and what it is compared with.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// K, in packets of any size or in bytes on the wire.
    pub threshold: Amount,
    /// Whether the packet in transmission counts.
    pub count_in_service: bool,
    /// When the queue is looked at.
    pub at: MarkPoint,
}

impl Default for Config {
    /// 65 packets at 10 Gbit/s, as the DCTCP paper has it.
    fn default() -> Self {
        Self { threshold: Amount::Packets(65), count_in_service: false, at: MarkPoint::Enqueue }
    }
}

/// When the queue is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MarkPoint {
    /// When the packet arrives: the queue it finds, itself not included.
    Enqueue,
    /// When its transmission begins: the queue it leaves behind.
    Dequeue,
}

/// Marks CE above a threshold.
#[derive(Clone, Debug)]
pub struct EcnThreshold {
    config: Config,
}

impl EcnThreshold {
    /// A marker as configured.
    #[must_use]
    pub fn new(config: &Config, _context: &MarkerContext) -> Self {
        Self { config: config.clone() }
    }

    #[inline]
    fn mark(&self, queue: &QueueState, packet: &PacketView, with_in_service: bool) -> Marks {
        let reached = match self.config.threshold {
            Amount::Packets(packets) => queue.packets(with_in_service) >= packets,
            Amount::Bytes(Bytes(bytes)) => queue.bytes(with_in_service).0 >= bytes,
        };
        if reached && packet.ecn_capable { Marks::CE } else { Marks::NONE }
    }
}

impl Marker for EcnThreshold {
    #[inline]
    fn on_enqueue(&mut self, queue: &QueueState, packet: &PacketView) -> Marks {
        if self.config.at == MarkPoint::Enqueue {
            self.mark(queue, packet, self.config.count_in_service)
        } else {
            Marks::NONE
        }
    }

    #[inline]
    fn on_dequeue(&mut self, queue: &QueueState, packet: &PacketView) -> Marks {
        if self.config.at == MarkPoint::Dequeue {
            self.mark(queue, packet, self.config.count_in_service)
        } else {
            Marks::NONE
        }
    }

    fn quiet(&self) -> Quiet {
        match (self.config.at, self.config.threshold) {
            (MarkPoint::Dequeue, _) => Quiet::ALWAYS,
            (_, Amount::Packets(packets)) => Quiet::below_packets(packets, self.config.count_in_service),
            (_, Amount::Bytes(Bytes(bytes))) => Quiet::up_to_bytes(Bytes(bytes.saturating_sub(1))),
        }
    }

    fn sees_departures(&self) -> bool {
        self.config.at == MarkPoint::Dequeue
    }
}

impl Part for EcnThreshold {
    type Config = Config;
    const SUMMARY: &'static str = "marks CE on packets that find a queue of K or more";
    const SOURCE: &'static str = "RFC 8257 section 3.1; RFC 3168";
    const PROVIDES: &'static [Capability] = &[Capability::CongestionMarks];
    const DEVIATIONS: &'static [&'static str] = &[
        "A packet that finds exactly K is marked, since with it the queue is longer than K.",
        "Beyond the threshold a packet that is not ECN-capable passes unmarked; RFC 3168 section 5 has it dropped.",
    ];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Rate, Time};

    fn found(waiting: u32, in_service: u64) -> QueueState {
        QueueState {
            now: Time(0),
            waiting_packets: waiting,
            waiting_bytes: Bytes(u64::from(waiting) * 1500),
            in_service: Bytes(in_service),
            rate: Rate(1_000_000_000),
        }
    }

    fn packet(ecn_capable: bool) -> PacketView {
        PacketView { bytes: Bytes(1500), ecn_capable, ..PacketView::default() }
    }

    fn marker(config: &Config) -> EcnThreshold {
        EcnThreshold::new(config, &MarkerContext::alone(Rate(1_000_000_000)))
    }

    /// Of fifty packets that arrive at once, those that find forty there are marked: ten if the packet
    /// in transmission counts, nine if not.
    #[test]
    fn ten_of_fifty_simultaneous_packets_are_marked_at_forty() {
        for (count_in_service, expected) in [(true, 10), (false, 9)] {
            let mut marker = marker(&Config { threshold: Amount::Packets(40), count_in_service, ..Config::default() });
            // The first packet goes into transmission at once, packet i finds i - 1 waiting.
            let marks = (0..50_u32).filter(|&i| {
                let queue = if i == 0 { found(0, 0) } else { found(i - 1, 1500) };
                marker.on_enqueue(&queue, &packet(true)).ce
            });
            assert_eq!(marks.count(), expected);
        }
    }

    #[test]
    fn a_packet_without_ect_is_never_marked() {
        let mut marker = marker(&Config { threshold: Amount::Packets(0), ..Config::default() });
        assert_eq!(marker.on_enqueue(&found(9, 1500), &packet(false)), Marks::NONE);
    }

    #[test]
    fn the_mark_point_decides_which_queue_counts() {
        let config = Config { threshold: Amount::Bytes(Bytes(3000)), at: MarkPoint::Dequeue, ..Config::default() };
        let mut marker = marker(&config);
        assert_eq!(marker.on_enqueue(&found(2, 1500), &packet(true)), Marks::NONE);
        assert_eq!(marker.on_dequeue(&found(2, 1500), &packet(true)), Marks::CE);
        assert_eq!(marker.on_dequeue(&found(1, 1500), &packet(true)), Marks::NONE);
    }
}
