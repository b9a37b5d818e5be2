//! A memory that all ports share: a queue may grow while it is shorter than `alpha` times what is free.
//!
//! Dynamic thresholds (Choudhury and Hahne, IEEE/ACM Transactions on Networking 6(2), 1998), as switch chips
//! have them: n congested queues come to rest at `alpha / (1 + n alpha)` of the memory each, and what they
//! leave free takes the next burst. A reserve per port is never lent.

use alloc::vec;
use alloc::vec::Vec;

use super::{Ample, Buffer, BufferContext, PortIndex, Verdict};
use crate::registry::Part;
use crate::switch::{PacketView, QueueState};
use crate::units::Bytes;

/// The memory and its rule.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Memory of the whole switch, reserves included. A packet is in it until its transmission begins.
    pub size: Bytes,
    /// How long a queue may be, as a multiple of the shared memory that is free: chips offer powers of two
    /// from 1/128 to 8.
    #[schemars(range(min = 0.000_001, max = 1024.0))]
    pub alpha: Alpha,
    /// Memory that each port has for itself. What a queue has beyond it is shared memory.
    pub reserve: Bytes,
    /// Packets take whole cells of this size.
    pub cell: Bytes,
}

impl Default for Config {
    fn default() -> Self {
        Self { size: Bytes(4_000_000), alpha: Alpha::ONE, reserve: Bytes(0), cell: Bytes(1) }
    }
}

/// A positive factor up to 1024, exact for powers of two from 1/2^20 on.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(try_from = "f64", into = "f64")]
#[schemars(with = "f64", inline)]
pub struct Alpha(u32);

impl Alpha {
    /// As long as what is free.
    pub const ONE: Self = Self(1 << 20);

    /// Of `bytes`, the most that may be held while one who holds all of it is below this many times the rest.
    fn ample(self, bytes: u64) -> u64 {
        let (alpha, one) = (u128::from(self.0), u128::from(Self::ONE.0));
        ((u128::from(bytes) * alpha / (one + alpha)) as u64).saturating_sub(1)
    }

    /// This many times `bytes`.
    #[inline]
    const fn times(self, bytes: u64) -> u128 {
        (bytes as u128 * self.0 as u128) >> 20
    }
}

impl TryFrom<f64> for Alpha {
    type Error = &'static str;

    fn try_from(value: f64) -> Result<Self, Self::Error> {
        let scaled = value * f64::from(Self::ONE.0);
        if (1.0..=f64::from(1_u32 << 30)).contains(&scaled) {
            Ok(Self((scaled + 0.5) as u32))
        } else {
            Err("alpha is a number from 0.000001 to 1024")
        }
    }
}

impl From<Alpha> for f64 {
    fn from(alpha: Alpha) -> Self {
        Self::from(alpha.0) / Self::from(Alpha::ONE.0)
    }
}

/// A shared memory.
#[derive(Clone, Debug)]
pub struct DynamicThreshold {
    alpha: Alpha,
    reserve: u64,
    cell: u64,
    /// Memory that is not reserved for a port ...
    shared: u64,
    /// ... and what queues hold of it.
    used: u64,
    /// While they hold no more than this, no queue has reached its threshold.
    ample: u64,
    /// Bytes in cells that each port holds.
    held: Vec<u64>,
}

impl DynamicThreshold {
    /// An empty memory. Reserves that do not fit into it are cut to equal shares.
    #[must_use]
    pub fn new(config: &Config, context: &BufferContext) -> Self {
        let ports = u64::from(context.ports).max(1);
        let reserve = config.reserve.0.min(config.size.0 / ports);
        let shared = config.size.0 - reserve * ports;
        Self {
            alpha: config.alpha,
            reserve,
            cell: config.cell.0.max(1),
            shared,
            used: 0,
            ample: config.alpha.ample(shared),
            held: vec![0; ports as usize],
        }
    }

    /// What `held` bytes at a port take of the shared memory.
    #[inline]
    const fn beyond_reserve(&self, held: u64) -> u64 {
        held.saturating_sub(self.reserve)
    }

    /// A port that held `before` holds `now`.
    #[inline]
    fn hold(&mut self, port: u32, before: u64, now: u64) {
        self.used = self.used - self.beyond_reserve(before) + self.beyond_reserve(now);
        self.held[port as usize] = now;
    }

    /// Adds `bytes`, which are whole cells, to what a port holds. Returns whether there is such a port.
    #[inline]
    fn add(&mut self, port: u32, bytes: u64) -> bool {
        let Some(&own) = self.held.get(port as usize) else { return false };
        self.hold(port, own, own.saturating_add(bytes));
        true
    }

    #[inline]
    const fn in_cells(&self, bytes: u64) -> u64 {
        if self.cell == 1 { bytes } else { bytes.div_ceil(self.cell).saturating_mul(self.cell) }
    }
}

impl Buffer for DynamicThreshold {
    // Inlined, it would slow down the ports that do without it (2 % of a run's instructions).
    #[inline(never)]
    fn admit(&mut self, PortIndex(port): PortIndex, queue: &QueueState, packet: &PacketView) -> Verdict {
        let Some(&own) = self.held.get(port as usize) else { return Verdict::Drop };
        let bytes = self.in_cells(packet.bytes.0);
        // A queue that was not built up packet by packet is asked about, too: what would fit beside it?
        let before = own.max(queue.waiting_bytes.0);
        let after = before.saturating_add(bytes);
        if after > self.reserve {
            let elsewhere = self.used - self.beyond_reserve(own);
            let (before, after) = (self.beyond_reserve(before), self.beyond_reserve(after));
            let free = self.shared.saturating_sub(elsewhere.saturating_add(before));
            let below_threshold = u128::from(before) < self.alpha.times(free);
            if !below_threshold || elsewhere.saturating_add(after) > self.shared {
                return Verdict::Drop;
            }
        }
        self.hold(port, own, own.saturating_add(bytes));
        Verdict::Admit
    }

    // A queue holds no more than all queues together, so that while these are below the threshold of one that holds it all, so
    // is each.
    #[inline(never)]
    fn takes(&mut self, PortIndex(port): PortIndex, bytes: Bytes) -> bool {
        let bytes = self.in_cells(bytes.0);
        self.used.saturating_add(bytes) <= self.ample && self.add(port, bytes)
    }

    #[inline(never)]
    fn on_departure(&mut self, PortIndex(port): PortIndex, bytes: Bytes) {
        let bytes = self.in_cells(bytes.0);
        let Some(&own) = self.held.get(port as usize) else { return };
        self.hold(port, own, own.saturating_sub(bytes));
    }

    fn ample(&self) -> Ample {
        Ample { bytes: Bytes(self.ample), beside_packet: Bytes(self.cell - 1) }
    }

    fn held(&self) -> Bytes {
        Bytes(self.used)
    }

    fn on_return(&mut self, PortIndex(port): PortIndex, bytes: Bytes) {
        self.add(port, self.in_cells(bytes.0));
    }

    fn couples_ports(&self) -> bool {
        true
    }
}

impl Part for DynamicThreshold {
    type Config = Config;
    const SUMMARY: &'static str =
        "all ports share one memory: a queue grows while shorter than alpha times what is free";
    const SOURCE: &'static str = "Choudhury and Hahne, IEEE/ACM Transactions on Networking 6(2), 1998";
    const DEVIATIONS: &'static [&'static str] = &[
        "memory is freed when a packet's transmission begins, not when its last bit has left",
        "one class of traffic: chips give each port several queues, with an alpha each",
    ];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Rate, Time};

    const PACKET: u64 = 1000;

    fn alpha(value: f64) -> Alpha {
        Alpha::try_from(value).unwrap()
    }

    fn memory(size: u64, value: f64, reserve: u64, ports: u32) -> DynamicThreshold {
        let config = Config { size: Bytes(size), alpha: alpha(value), reserve: Bytes(reserve), cell: Bytes(1) };
        DynamicThreshold::new(&config, &BufferContext { ports })
    }

    fn offer(buffer: &mut DynamicThreshold, port: u32, bytes: u64) -> bool {
        let queue = QueueState {
            now: Time(0),
            waiting_packets: 0,
            waiting_bytes: Bytes(buffer.held[port as usize]),
            in_service: Bytes(1),
            rate: Rate(1_000_000_000),
        };
        let packet = PacketView { bytes: Bytes(bytes), ..PacketView::default() };
        buffer.admit(PortIndex(port), &queue, &packet) == Verdict::Admit
    }

    /// Offers packets to the first `n` ports in turn until none takes any more.
    fn fill(buffer: &mut DynamicThreshold, n: u32) {
        let mut refused = 0;
        let mut port = 0;
        while refused < n {
            refused = if offer(buffer, port, PACKET) { 0 } else { refused + 1 };
            port = (port + 1) % n;
        }
    }

    /// Choudhury and Hahne, equation 2: n congested queues hold `alpha / (1 + n alpha)` of the memory each.
    #[test]
    fn congested_ports_hold_their_textbook_share() {
        let size = 10_000_000;
        for value in [0.125, 0.5, 1.0, 2.0, 8.0] {
            for n in [1, 2, 4, 16, 31] {
                let mut buffer = memory(size, value, 0, 32);
                fill(&mut buffer, n);
                let expected = value / (1.0 + f64::from(n) * value) * size as f64;
                for port in 0..n {
                    let held = buffer.held[port as usize] as f64;
                    assert!((held - expected).abs() <= 2.0 * PACKET as f64, "{value} {n}: {held} for {expected}");
                }
                // What is left takes the beginning of another burst.
                assert!(buffer.used < size && offer(&mut buffer, n, PACKET));
            }
        }
    }

    /// With a reserve r per port the rule holds for the rest: `r + alpha / (1 + n alpha) (B - N r)` each.
    #[test]
    fn a_reserve_is_added_to_the_share_of_the_rest() {
        let mut buffer = memory(10_000_000, 1.0, 50_000, 32);
        fill(&mut buffer, 3);
        let expected = 50_000.0 + (10_000_000.0 - 32.0 * 50_000.0) / 4.0;
        for port in 0..3 {
            assert!((buffer.held[port] as f64 - expected).abs() <= 2.0 * PACKET as f64, "{:?}", buffer.held);
        }
    }

    #[test]
    fn one_queue_alone_is_taken_in_unseen_up_to_its_threshold() {
        for value in [0.125, 1.0, 8.0] {
            for reserve in [0, 50_000] {
                let mut unseen = memory(10_000_000, value, reserve, 32);
                let mut asked = unseen.clone();
                while unseen.takes(PortIndex(0), Bytes(PACKET)) {}
                fill(&mut asked, 1);
                let short = asked.held[0] - unseen.held[0];
                assert!(short <= 2 * PACKET, "{value} {reserve}: {short} of {}", asked.held[0]);
            }
        }
    }

    #[test]
    fn a_reserve_is_never_lent() {
        let mut buffer = memory(100_000, 1024.0, 5_000, 4);
        fill(&mut buffer, 3);
        assert!(buffer.used + PACKET > 80_000, "with a large alpha the shared memory is full: {}", buffer.used);
        for _ in 0..5 {
            assert!(offer(&mut buffer, 3, PACKET));
        }
        assert!(!offer(&mut buffer, 3, PACKET));
    }

    #[test]
    fn when_a_queue_drains_the_others_may_grow() {
        let mut buffer = memory(1_000_000, 1.0, 0, 8);
        fill(&mut buffer, 3);
        assert!(!offer(&mut buffer, 0, PACKET));
        while buffer.held[1] > 0 {
            buffer.on_departure(PortIndex(1), Bytes(PACKET));
        }
        for port in [0, 2] {
            while offer(&mut buffer, port, PACKET) {}
        }
        // Port 0 goes first and takes half of what 2 leaves: 375,000; then 2 half of what 0 leaves.
        assert_eq!(buffer.held[..3], [375_000, 0, 313_000]);
        assert_eq!(buffer.used, 688_000);
        for port in [0, 2] {
            while buffer.held[port] > 0 {
                buffer.on_departure(PortIndex(port as u32), Bytes(PACKET));
            }
        }
        assert_eq!(buffer.used, 0);
    }

    #[test]
    fn a_packet_takes_whole_cells() {
        let config = Config { size: Bytes(1024), cell: Bytes(256), alpha: alpha(1024.0), ..Config::default() };
        let mut buffer = DynamicThreshold::new(&config, &BufferContext { ports: 1 });
        for _ in 0..4 {
            assert!(offer(&mut buffer, 0, 64));
        }
        assert!(!offer(&mut buffer, 0, 64));
        buffer.on_departure(PortIndex(0), Bytes(64));
        assert!(!offer(&mut buffer, 0, 257), "that takes two cells");
        assert!(offer(&mut buffer, 0, 256));
    }

    #[test]
    fn alpha_is_exact_for_powers_of_two_and_within_bounds() {
        for value in [1.0 / 128.0, 0.25, 1.0, 8.0, 1024.0] {
            assert!((f64::from(alpha(value)) - value).abs() < f64::EPSILON);
        }
        assert_eq!(alpha(0.5).times(1001), 500);
        for bad in [0.0, -1.0, 1e-9, 1025.0, f64::NAN, f64::INFINITY] {
            assert!(Alpha::try_from(bad).is_err(), "{bad}");
        }
    }
}
