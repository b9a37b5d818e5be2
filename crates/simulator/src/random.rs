//! The world's own random choices: losses on wires, paths of flows.
//!
//! A stream is a counter hashed with its name, so it needs no warm-up, no library whose values may
//! change with a version, and drawing from one never moves another.

use crate::tie::mix;

/// A named stream: `SplitMix64` seeded by (seed, purpose, number).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    state: u64,
}

/// What a stream is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// Losses and delays of one link.
    Link = 1,
    /// Path of one direction of a connection.
    Path = 2,
}

impl Stream {
    pub(crate) const fn new(seed: u64, purpose: Purpose, number: u64) -> Self {
        Self { state: mix(mix(seed).wrapping_add(purpose as u64)).wrapping_add(mix(number)) }
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// True with this probability.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        ((self.next() >> 11) as f64) < probability * (1_u64 << 53) as f64
    }

    /// Uniform in `0..=most`.
    pub(crate) fn up_to(&mut self, most: u64) -> u64 {
        ((u128::from(self.next()) * (u128::from(most) + 1)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_values_are_pinned() {
        let mut stream = Stream::new(1, Purpose::Link, 0);
        let first: Vec<u64> = (0..3).map(|_| stream.next() >> 48).collect();
        let mut again = Stream::new(1, Purpose::Link, 0);
        assert_eq!(first, (0..3).map(|_| again.next() >> 48).collect::<Vec<_>>());
        assert_ne!(Stream::new(1, Purpose::Path, 0).next(), Stream::new(1, Purpose::Link, 0).next());
    }

    #[test]
    fn a_chance_comes_true_as_often_as_it_says() {
        let mut stream = Stream::new(3, Purpose::Link, 5);
        let hits = (0..100_000).filter(|_| stream.chance(0.02)).count();
        assert!((1_850..2_150).contains(&hits), "{hits}");
        assert!(!stream.chance(0.0) && stream.chance(1.0));
    }
}
