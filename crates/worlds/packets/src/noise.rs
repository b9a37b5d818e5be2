//! What a host adds to the time of each packet, with the order of packets kept.

use incast_plan::{Noise, NoisePer};
use incast_protocols::Time;
use incast_protocols::random::Stream;

/// Delays of one host in one direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delays {
    random: Stream,
    /// When the packet before came through.
    last: u64,
}

impl Delays {
    pub(crate) const fn new(random: Stream) -> Self {
        Self { random, last: 0 }
    }

    /// When a packet that comes at `now` is through.
    #[inline]
    pub(crate) fn through(&mut self, now: u64, noise: &Noise, per: NoisePer) -> u64 {
        if per == NoisePer::Packet || self.last <= now {
            self.last = self.last.max(now.saturating_add(noise.draw(&mut self.random).0));
        }
        self.last
    }
}

/// The way from the wire to TCP.
#[derive(Clone, Debug)]
pub(crate) struct Receiving {
    pub(crate) delays: Delays,
    pub(crate) noise: Noise,
    pub(crate) per: NoisePer,
}

impl Receiving {
    #[inline]
    pub(crate) fn through(&mut self, now: Time) -> u64 {
        self.delays.through(now.0, &self.noise, self.per)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use incast_protocols::Duration;

    #[test]
    fn packets_keep_their_order_and_none_is_early() {
        let noise = Noise::Exponential { mean: Duration::from_us(5) };
        let mut delays = Delays::new(Stream::new(1, 2, 3));
        let sent = (0..1_000).map(|number| number * 1_000_000);
        let through: Vec<(u64, u64)> = sent.map(|at| (at, delays.through(at, &noise, NoisePer::Packet))).collect();
        assert!(through.iter().all(|(at, through)| at <= through));
        assert!(through.windows(2).all(|pair| pair[0].1 <= pair[1].1));
        // With gaps of a fifth of the mean, some wait for those before them and some do not.
        assert!(through.windows(2).any(|pair| pair[0].1 == pair[1].1));
        assert!(through.windows(2).any(|pair| pair[0].1 < pair[1].1));
    }

    #[test]
    fn what_comes_while_a_burst_waits_goes_with_it_and_the_next_waits_as_long_on_average() {
        let us = 1_000_000;
        let noise = Noise::Exponential { mean: Duration::from_us(5) };
        let mut delays = Delays::new(Stream::new(1, 2, 3));
        let mut first_waits = 0;
        for burst in 1..=10_000 {
            // Bursts of three packets, further apart than any wait is long.
            let at = burst * 200 * us;
            let first = delays.through(at, &noise, NoisePer::Burst);
            first_waits += first - at;
            for later in [at, at + (first - at) / 2] {
                assert_eq!(delays.through(later, &noise, NoisePer::Burst), first.max(later));
            }
        }
        assert!((first_waits / 10_000).abs_diff(5 * us) < us / 5);
    }
}
