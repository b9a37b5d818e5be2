//! What a host adds to the time of each packet, with the order of packets kept.

use incast_plan::Noise;
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
    pub(crate) fn through(&mut self, now: u64, noise: &Noise) -> u64 {
        self.last = self.last.max(now.saturating_add(noise.draw(&mut self.random).0));
        self.last
    }
}

/// The way from the wire to TCP.
#[derive(Clone, Debug)]
pub(crate) struct Receiving {
    pub(crate) delays: Delays,
    pub(crate) noise: Noise,
}

impl Receiving {
    #[inline]
    pub(crate) fn through(&mut self, now: Time) -> u64 {
        self.delays.through(now.0, &self.noise)
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
        let through: Vec<(u64, u64)> = sent.map(|at| (at, delays.through(at, &noise))).collect();
        assert!(through.iter().all(|(at, through)| at <= through));
        assert!(through.windows(2).all(|pair| pair[0].1 <= pair[1].1));
        // With gaps of a fifth of the mean, some wait for those before them and some do not.
        assert!(through.windows(2).any(|pair| pair[0].1 == pair[1].1));
        assert!(through.windows(2).any(|pair| pair[0].1 < pair[1].1));
    }
}
