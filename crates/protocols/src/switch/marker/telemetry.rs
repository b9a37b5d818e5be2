//! In-band telemetry (INT): every port writes its time, queue, bytes sent and rate into packets that collect it.
//!
//! HPCC (Li et al., SIGCOMM 2019), section 3.1 and figure 7: the switch writes when a packet leaves, the receiver hands
//! the list back with its ACK, and the sender computes from it how much of each link is in use.

use super::{Marker, MarkerContext};
use crate::registry::{Capability, Part};
use crate::switch::telemetry::Hop;
use crate::switch::{Marks, PacketView, QueueState, Quiet};
use crate::units::Bytes;

/// No parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {}

/// A port that tells its state to packets that collect it, and marks nothing.
#[derive(Clone, Debug)]
pub struct Telemetry;

impl Telemetry {
    /// As HPCC's switches.
    #[must_use]
    pub const fn new(_config: &Config, _context: &MarkerContext) -> Self {
        Self
    }
}

impl Marker for Telemetry {
    #[inline]
    fn on_enqueue(&mut self, _queue: &QueueState, _packet: &PacketView) -> Marks {
        Marks::NONE
    }

    #[inline]
    fn on_dequeue(&mut self, _queue: &QueueState, _packet: &PacketView) -> Marks {
        Marks::NONE
    }

    #[inline]
    fn telemetry(&self, queue: &QueueState, transmitted: Bytes) -> Option<Hop> {
        Some(Hop { time: queue.now, queue: queue.waiting_bytes, transmitted, rate: queue.rate })
    }

    fn quiet(&self) -> Quiet {
        Quiet::ALWAYS
    }
}

impl Part for Telemetry {
    type Config = Config;
    const SUMMARY: &'static str = "writes time, queue, bytes sent and rate of each port into packets that collect it";
    const SOURCE: &'static str = "HPCC (Li et al., SIGCOMM 2019), section 3.1 and figure 7";
    const PROVIDES: &'static [Capability] = &[Capability::Telemetry];
    const DEVIATIONS: &'static [&'static str] = &[
        "Telemetry takes no bytes on the wire; HPCC's header of up to 42 bytes can be added to `header` of `[tcp]`.",
        "Values are exact; HPCC rounds them to the fields of its header.",
    ];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Rate, Time};

    #[test]
    fn a_hop_says_what_the_leaving_packet_leaves_behind() {
        let rate = Rate(100_000_000_000);
        let marker = Telemetry::new(&Config {}, &MarkerContext::alone(rate));
        let queue = QueueState {
            now: Time::from_us(7),
            waiting_packets: 2,
            waiting_bytes: Bytes(2096),
            in_service: Bytes(1048),
            rate,
        };
        let hop = marker.telemetry(&queue, Bytes(5000));
        let expected = Hop { time: Time::from_us(7), queue: Bytes(2096), transmitted: Bytes(5000), rate };
        assert_eq!(hop, Some(expected));
    }
}
