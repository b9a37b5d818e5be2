//! A fixed limit per port: drop-tail.
//!
//! What the limit counts is part of the parameters, since published set-ups differ and a burst of n
//! packets meets n or n + 1 places accordingly.

use super::{Buffer, BufferContext, PortIndex, Verdict};
use crate::registry::Part;
use crate::switch::{PacketView, QueueState, Quiet};
use crate::units::{Amount, Bytes};

/// The limit and what it counts.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How much a port holds, in packets of any size or in bytes on the wire.
    pub limit: Amount,
    /// Whether the packet in transmission counts.
    pub count_in_service: bool,
    /// Which packet is the last to be admitted under a limit in bytes.
    pub admit: Admit,
}

impl Default for Config {
    fn default() -> Self {
        Self { limit: Amount::Packets(250), count_in_service: false, admit: Admit::IfItFits }
    }
}

/// Which packet is the last to be admitted under a limit in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Admit {
    /// One that fits whole under the limit.
    IfItFits,
    /// One that finds less than the limit, even if it goes beyond with it (the RDTCP authors' code).
    IfBelow,
}

/// A fixed limit per port.
#[derive(Clone, Debug)]
pub struct Static {
    /// In packets, if not `u32::MAX`.
    packets: u32,
    /// In bytes, if not `u64::MAX`: what may be there before the packet comes ...
    bytes: u64,
    /// ... where its own bytes count (1) or not (0).
    own: u64,
    count_in_service: bool,
}

impl Static {
    /// Drop-tail as configured.
    #[must_use]
    pub const fn new(config: &Config, _context: &BufferContext) -> Self {
        let (packets, bytes) = match config.limit {
            Amount::Packets(packets) => (packets, u64::MAX),
            Amount::Bytes(Bytes(bytes)) => (u32::MAX, bytes),
        };
        let own = matches!(config.admit, Admit::IfItFits) as u64;
        Self { packets, bytes, own, count_in_service: config.count_in_service }
    }
}

impl Buffer for Static {
    #[inline]
    fn admit(&mut self, _port: PortIndex, queue: &QueueState, packet: &PacketView) -> Verdict {
        if !self.count_in_service && queue.in_service == Bytes::ZERO {
            // It goes straight into transmission and takes no place in the queue.
            return Verdict::Admit;
        }
        if self.bytes == u64::MAX {
            return Verdict::admit_if(queue.packets(self.count_in_service) < self.packets);
        }
        // "Fits": there + own <= limit. "Below": there + 1 <= limit.
        let own = if self.own == 1 { packet.bytes.0 } else { 1 };
        Verdict::admit_if(queue.bytes(self.count_in_service).0.saturating_add(own) <= self.bytes)
    }

    fn quiet(&self) -> Quiet {
        if self.bytes == u64::MAX {
            Quiet::below_packets(self.packets, self.count_in_service)
        } else {
            Quiet::up_to_bytes(Bytes(self.bytes))
        }
    }
}

impl Part for Static {
    type Config = Config;
    const SUMMARY: &'static str = "each port holds up to a number of packets or bytes, then drops (drop-tail)";
    const SOURCE: &'static str = "the usual model of papers before shared-memory chips";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Rate, Time};

    fn queue(packets: u32, in_service: u64) -> QueueState {
        QueueState {
            now: Time(0),
            waiting_packets: packets,
            waiting_bytes: Bytes(u64::from(packets) * 1500),
            in_service: Bytes(in_service),
            rate: Rate(1_000_000_000),
        }
    }

    fn admits(config: &Config, waiting: u32, in_service: u64) -> bool {
        let packet = PacketView { bytes: Bytes(1500), ..PacketView::default() };
        Static::new(config, &BufferContext { ports: 1 }).admit(PortIndex(0), &queue(waiting, in_service), &packet)
            == Verdict::Admit
    }

    #[test]
    fn a_limit_in_packets_counts_what_waits() {
        let config = Config { limit: Amount::Packets(3), ..Config::default() };
        assert!(admits(&config, 2, 1500));
        assert!(!admits(&config, 3, 1500));
        let nothing_waits = Config { limit: Amount::Packets(0), ..Config::default() };
        assert!(admits(&nothing_waits, 0, 0) && !admits(&nothing_waits, 0, 1500));
        let config = Config { count_in_service: true, ..config };
        assert!(!admits(&config, 2, 1500));
        assert!(admits(&config, 2, 0));
    }

    /// What one port holds takes nothing from another: such ports can be simulated one by one.
    #[test]
    fn ports_with_a_limit_each_do_not_couple() {
        assert!(!Static::new(&Config::default(), &BufferContext { ports: 2 }).couples_ports());
    }

    #[test]
    fn a_limit_in_bytes_takes_what_fits_whole() {
        let config = Config { limit: Amount::Bytes(Bytes(4499)), ..Config::default() };
        assert!(admits(&config, 1, 1500));
        assert!(!admits(&config, 2, 1500));
    }

    /// A packet is still accepted at 119 999 of 120 000 bytes.
    #[test]
    fn the_rdtcp_code_admits_as_long_as_the_queue_is_below_the_limit() {
        let config = Config { limit: Amount::Bytes(Bytes(120_000)), admit: Admit::IfBelow, ..Config::default() };
        assert!(admits(&config, 79, 1500));
        assert!(!admits(&config, 80, 1500));
        let config = Config { admit: Admit::IfItFits, ..config };
        assert!(admits(&config, 79, 1500));
        assert!(!admits(&Config { limit: Amount::Bytes(Bytes(119_999)), ..config }, 79, 1500));
    }
}
