//! What a buffer holds, found by asking it, so that every registered buffer can be asked.

use super::{Buffer, BufferChoice, BufferContext, PortIndex, Verdict};
use crate::switch::{PacketView, QueueState};
use crate::units::{Amount, Bytes, Rate, Time};

/// What is taken for no limit at all.
const NO_LIMIT: u64 = 1 << 40;

/// Whether a packet of `packet` bytes that finds so much at an otherwise unused switch is taken.
fn admits(buffer: &BufferChoice, waiting_packets: u32, waiting_bytes: u64, in_service: u64, packet: Bytes) -> bool {
    let queue = QueueState {
        now: Time(0),
        waiting_packets,
        waiting_bytes: Bytes(waiting_bytes),
        in_service: Bytes(in_service),
        rate: Rate(1_000_000_000),
    };
    let packet = PacketView { bytes: packet, ..PacketView::default() };
    buffer.build(&BufferContext { ports: 1 }).admit(PortIndex(0), &queue, &packet) == Verdict::Admit
}

/// Whether an idle port lets a packet of this size pass.
#[must_use]
pub fn passes(buffer: &BufferChoice, packet: Bytes) -> bool {
    admits(buffer, 0, 0, 0, packet)
}

/// What one port can hold while the others are empty, in bytes or in packets, as it counts.
#[must_use]
pub fn port_limit(buffer: &BufferChoice) -> Amount {
    let bytes = limit(NO_LIMIT, |waiting, in_service| admits(buffer, 1, waiting, in_service, Bytes(1)));
    if bytes < NO_LIMIT {
        return Amount::Bytes(Bytes(bytes));
    }
    let packets =
        limit(u64::from(u32::MAX), |waiting, in_service| admits(buffer, waiting as u32, 0, in_service, Bytes(1)));
    Amount::Packets(packets as u32)
}

/// The same in bytes, where each packet has `packet`.
#[must_use]
pub fn port_capacity(buffer: &BufferChoice, packet: Bytes) -> Bytes {
    match port_limit(buffer) {
        Amount::Bytes(bytes) => bytes,
        Amount::Packets(packets) => Bytes(u64::from(packets).saturating_mul(packet.0).min(NO_LIMIT)),
    }
}

/// The first number waiting at which an idle port takes no more. Where the packet in transmission does not count, an
/// idle port takes everything, and a busy one tells the limit.
fn limit(end: u64, admitted: impl Fn(u64, u64) -> bool) -> u64 {
    let idle = first_refused(end, |waiting| admitted(waiting, 0));
    if idle < end { idle } else { first_refused(end, |waiting| admitted(waiting, 1)) }
}

/// The least number up to `end` that is refused, where all after it are.
fn first_refused(end: u64, admitted: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, end);
    while low < high {
        let middle = low + (high - low) / 2;
        if admitted(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    fn buffer(limit: &str, count_in_service: bool) -> BufferChoice {
        let text = format!("{{\"name\":\"static\",\"limit\":\"{limit}\",\"count_in_service\":{count_in_service}}}");
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_ports_capacity_is_its_limit() {
        for counted in [true, false] {
            assert_eq!(port_capacity(&buffer("64KiB", counted), Bytes(1064)), Bytes(65_536));
            assert_eq!(port_limit(&buffer("64KiB", counted)), Amount::Bytes(Bytes(65_536)));
            assert_eq!(port_capacity(&buffer("250packets", counted), Bytes(1500)), Bytes(375_000));
            assert_eq!(port_limit(&buffer("250packets", counted)), Amount::Packets(250));
        }
    }

    #[test]
    fn a_buffer_smaller_than_a_packet_lets_nothing_pass() {
        assert!(passes(&buffer("1500B", true), Bytes(1500)));
        assert!(!passes(&buffer("1499B", true), Bytes(1500)));
        assert!(!passes(&buffer("0packets", true), Bytes(1500)));
        // Where it does not count, a packet may go straight into transmission.
        assert!(passes(&buffer("0packets", false), Bytes(1500)));
    }
}
