//! Random numbers with a pinned algorithm.
//!
//! A stream is a counter hashed with its name: it needs no warm-up and no library whose values may change with a
//! version, and drawing from one never moves another.

/// The increment of `SplitMix64`: 2^64 divided by the golden ratio.
pub const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bijection that spreads bits: the finalizer of `SplitMix64`.
#[inline]
#[must_use]
pub const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A stream of `SplitMix64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    state: u64,
}

impl Stream {
    /// The stream that (seed, purpose, number) names.
    #[must_use]
    pub const fn new(seed: u64, purpose: u64, number: u64) -> Self {
        Self { state: mix(mix(seed).wrapping_add(purpose)).wrapping_add(mix(number)) }
    }

    /// The next 64 bits.
    #[inline]
    pub const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// True with this probability.
    #[inline]
    pub fn chance(&mut self, probability: f64) -> bool {
        ((self.next() >> 11) as f64) < probability * (1_u64 << 53) as f64
    }

    /// Uniform in [0, 1), 53 bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Exponentially distributed with mean 1.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.unit())
    }

    /// Uniform in `0..=most`.
    #[inline]
    pub fn up_to(&mut self, most: u64) -> u64 {
        ((u128::from(self.next()) * (u128::from(most) + 1)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first values of `SplitMix64` for the seed 1234567, as its implementations publish them.
    #[test]
    fn mix_is_the_finalizer_of_splitmix64() {
        let state = |n: u64| 1_234_567_u64.wrapping_add(n.wrapping_mul(GOLDEN));
        assert_eq!(mix(state(1)), 6_457_827_717_110_365_317);
        assert_eq!(mix(state(2)), 3_203_168_211_198_807_973);
        assert_eq!(mix(state(3)), 9_817_491_932_198_370_423);
    }

    #[test]
    fn streams_differ_by_purpose_and_number_and_repeat_themselves() {
        let first = |seed, purpose, number| Stream::new(seed, purpose, number).next();
        assert_eq!(first(1, 1, 0), first(1, 1, 0));
        assert_ne!(first(1, 2, 0), first(1, 1, 0));
        assert_ne!(first(1, 1, 1), first(1, 1, 0));
    }

    #[test]
    fn a_chance_comes_true_as_often_as_it_says() {
        let mut stream = Stream::new(3, 1, 5);
        let hits = (0..100_000).filter(|_| stream.chance(0.02)).count();
        assert!((1_850..2_150).contains(&hits), "{hits}");
        assert!(!stream.chance(0.0) && stream.chance(1.0));
    }
}
