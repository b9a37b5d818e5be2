//! How many responses a network holds at a time (Huang et al., ARS, section III.B and III.C).

use crate::units::{Bytes, Duration, Rate};

/// What lies between the workers and their aggregator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bottleneck {
    /// Rate of the link to the aggregator.
    pub rate: Rate,
    /// Round-trip time without queueing.
    pub base_rtt: Duration,
    /// Buffer of the port before that link.
    pub buffer: Bytes,
    /// A full packet: the paper divides by what it calls MSS, its packet size.
    pub mss: Bytes,
}

/// How the largest window of a response is told from its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LargestWindow {
    /// The last complete doubling from one packet (the paper, before equation 8): `2^(floor(log2(Ys + 1)) - 1)`.
    #[default]
    Formula,
    /// The most that is sent in one round trip: a doubling, or what is left after the last.
    Exact,
}

impl LargestWindow {
    /// The largest window in packets of a response of `packets` that is sent in slow start, from `initial_window`
    /// packets where it is exact and from one by the formula. At least one.
    #[must_use]
    pub const fn of(self, packets: u64, initial_window: u64) -> u64 {
        match self {
            Self::Formula => {
                let doublings = packets.saturating_add(1).ilog2();
                if doublings == 0 { 1 } else { 1 << (doublings - 1) }
            }
            Self::Exact => largest_in_slow_start(packets, initial_window),
        }
    }
}

/// The most packets that a response of `packets` sends in one round trip, in slow start from `initial_window` packets.
/// At least one.
#[must_use]
pub const fn largest_in_slow_start(packets: u64, initial_window: u64) -> u64 {
    let mut window = if initial_window == 0 { 1 } else { initial_window };
    let (mut left, mut largest) = (packets, 1);
    while left > window {
        largest = window;
        left -= window;
        window = window.saturating_mul(2);
    }
    if left > largest { left } else { largest }
}

/// The batch sizes of ARS for one size of response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSizes {
    /// n*: the least number of responses whose largest windows together exceed what the network holds (equation 7).
    pub optimal: u64,
    /// The number after a congestion, which leaves the buffer to others (equation 10).
    pub congested: u64,
}

impl Bottleneck {
    /// What the path and the buffer hold, in packets (Yb, equation 6).
    #[must_use]
    pub fn capacity_packets(&self) -> f64 {
        self.held(self.buffer) as f64 / self.packet() as f64
    }

    /// What the path alone holds, in packets.
    #[must_use]
    pub fn path_packets(&self) -> f64 {
        self.held(Bytes::ZERO) as f64 / self.packet() as f64
    }

    /// A response in packets (Ys).
    #[must_use]
    pub const fn packets_of(&self, response: Bytes) -> u64 {
        let mss = if self.mss.0 == 0 { 1 } else { self.mss.0 };
        response.0.div_ceil(mss)
    }

    /// The batch sizes for responses whose largest window is `window` packets.
    #[must_use]
    pub fn batch_sizes(&self, window: u64) -> BatchSizes {
        let batch = |held: u128| {
            let number = held / (self.packet() * u128::from(window.max(1))) + 1;
            u64::try_from(number).unwrap_or(u64::MAX)
        };
        BatchSizes { optimal: batch(self.held(self.buffer)), congested: batch(self.held(Bytes::ZERO)) }
    }

    /// In bits times picoseconds per second, so that nothing is rounded.
    fn held(&self, buffer: Bytes) -> u128 {
        let path = u128::from(self.rate.0) * u128::from(self.base_rtt.0);
        path + u128::from(buffer.0) * BYTE
    }

    fn packet(&self) -> u128 {
        u128::from(self.mss.0.max(1)) * BYTE
    }
}

/// A byte in the unit of [`Bottleneck::held`].
const BYTE: u128 = 8 * Duration::from_ms(1000).0 as u128;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Section IV: 1 Gbit/s, 100 us, 64 KB of buffer, packets of 1 KB.
    const SIMULATED: Bottleneck = Bottleneck {
        rate: Rate(1_000_000_000),
        base_rtt: Duration::from_us(100),
        buffer: Bytes(65_536),
        mss: Bytes(1024),
    };

    /// Section V: the same with 100 Mbit/s.
    const TESTBED: Bottleneck = Bottleneck { rate: Rate(100_000_000), ..SIMULATED };

    #[test]
    fn the_largest_window_is_the_last_complete_doubling() {
        for (packets, window) in
            [(1, 1), (2, 1), (3, 2), (7, 4), (15, 8), (31, 16), (63, 32), (64, 32), (127, 64), (128, 64)]
        {
            assert_eq!(LargestWindow::Formula.of(packets, 1), window, "{packets}");
        }
        assert_eq!(LargestWindow::Formula.of(0, 1), 1);
    }

    #[test]
    fn what_is_left_after_the_last_doubling_may_be_more() {
        for (packets, formula, exact) in [(60, 16, 29), (100, 32, 37), (126, 32, 63), (64, 32, 32), (44, 16, 16)] {
            assert_eq!(LargestWindow::Formula.of(packets, 1), formula, "{packets}");
            assert_eq!(LargestWindow::Exact.of(packets, 1), exact, "{packets}");
        }
        // Linux begins with ten: 10, 20, 15.
        assert_eq!(largest_in_slow_start(45, 10), 20);
        assert_eq!(largest_in_slow_start(7, 10), 7);
        assert_eq!(largest_in_slow_start(0, 0), 1);
    }

    #[test]
    fn the_papers_settings() {
        let sizes = |network: &Bottleneck, response| {
            let sizes = network.batch_sizes(LargestWindow::Formula.of(network.packets_of(Bytes(response)), 1));
            (sizes.optimal, sizes.congested)
        };
        assert!((SIMULATED.capacity_packets() - 76.2).abs() < 0.05);
        assert!((SIMULATED.path_packets() - 12.2).abs() < 0.05);
        assert_eq!(sizes(&SIMULATED, 65_536), (3, 1));
        assert_eq!(sizes(&TESTBED, 131_072), (2, 1));
        assert_eq!(sizes(&TESTBED, 51_200), (5, 1));
        assert_eq!(sizes(&TESTBED, 12_800), (17, 1));
        assert_eq!(sizes(&TESTBED, 5_734), (33, 1));
        // Figure 3: packets of 1.5 KB, and 32, 64, 128 of them held.
        for (capacity, optimal) in [(32, 3), (64, 5), (128, 9)] {
            let network = Bottleneck {
                rate: Rate(0),
                base_rtt: Duration::ZERO,
                buffer: Bytes(capacity * 1500),
                mss: Bytes(1500),
            };
            assert_eq!(sizes(&network, 65_536), (optimal, 1));
        }
    }

    #[test]
    fn a_capacity_that_is_a_multiple_of_the_window_counts_whole() {
        let network = Bottleneck { rate: Rate(8_000_000_000), buffer: Bytes(0), ..SIMULATED };
        // 100,000 bytes are under way: 25 windows of four packets of 1000 bytes, and one more overflows.
        let network = Bottleneck { mss: Bytes(1000), ..network };
        assert_eq!(network.batch_sizes(4), BatchSizes { optimal: 26, congested: 26 });
    }

    proptest! {
        /// Equation 7 says the least number that exceeds; what one fewer sends still fits.
        #[test]
        fn the_batch_is_the_least_that_exceeds_the_capacity(
            rate in 1_u64..400_000_000_000,
            us in 0_u64..10_000,
            buffer in 0_u64..10_000_000,
            mss in 64_u64..9000,
            window in 1_u64..1000,
        ) {
            let (rate, base_rtt) = (Rate(rate), Duration::from_us(us));
            let network = Bottleneck { rate, base_rtt, buffer: Bytes(buffer), mss: Bytes(mss) };
            let sizes = network.batch_sizes(window);
            let held = network.held(network.buffer);
            let sent = |batch: u64| u128::from(batch) * u128::from(window) * network.packet();
            prop_assert!(sent(sizes.optimal) > held);
            prop_assert!(sent(sizes.optimal - 1) <= held);
            prop_assert!(1 <= sizes.congested && sizes.congested <= sizes.optimal);
        }

        #[test]
        fn a_window_is_never_more_than_the_response(packets in 1_u64..1_000_000, initial_window in 1_u64..20) {
            let largest = largest_in_slow_start(packets, initial_window);
            prop_assert!(largest <= packets);
            prop_assert!(LargestWindow::Formula.of(packets, 1) <= LargestWindow::Exact.of(packets, 1));
            // A million packets are sent in 20 round trips, none of which sends more.
            prop_assert!(largest * 20 >= packets);
        }
    }
}
