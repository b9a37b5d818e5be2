//! Random numbers that are the same on every machine and in every version: xoshiro256++ streams, one
//! per purpose, so that a new class of traffic does not change the draws of another.

use incast_protocols::random::{GOLDEN, mix};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A named stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Stream(Xoshiro256PlusPlus);

impl Stream {
    /// The stream `name` of a run. Its state is expanded by `SplitMix64` from the seed, spread over all bits,
    /// and the FNV-1a hash of the name.
    pub(crate) fn new(seed: u64, name: &str) -> Self {
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Self(Xoshiro256PlusPlus::seed_from_u64(mix(seed.wrapping_add(GOLDEN)) ^ hash))
    }

    /// Uniform below `bound`, without the bias of a remainder (Lemire's multiplication).
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is nothing below zero");
        loop {
            let product = u128::from(self.0.next_u64()) * u128::from(bound);
            let (high, low) = ((product >> 64) as u64, product as u64);
            if low >= bound || low >= bound.wrapping_neg() % bound {
                return high;
            }
        }
    }

    /// Uniform in [0, 1), 53 bits.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Exponential with mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.unit())
    }

    /// Normal with mean 0 and standard deviation 1 (Box and Muller; one of the pair).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(2.0 * self.exponential());
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_values_of_a_stream_never_change() {
        let mut stream = Stream::new(1, "traffic.burst.jitter");
        let first: Vec<u64> = (0..4).map(|_| stream.below(1_000_000)).collect();
        assert_eq!(first, [90_068, 95_140, 664_504, 790_836]);
        insta::assert_snapshot!(
            format!("{} {} {}", stream.unit(), stream.exponential(), stream.normal()),
            @"0.6108371977523704 0.6018347407562211 -0.5354403029641515"
        );
    }

    #[test]
    fn streams_differ_by_name_and_by_seed() {
        let first = |seed, name| Stream::new(seed, name).below(u64::MAX);
        assert_ne!(first(1, "a"), first(1, "b"));
        assert_ne!(first(1, "a"), first(2, "a"));
    }

    #[test]
    fn draws_have_the_moments_of_their_distributions() {
        let mut stream = Stream::new(7, "moments");
        let n = 200_000;
        let mean = |draw: &mut dyn FnMut() -> f64| (0..n).map(|_| draw()).sum::<f64>() / f64::from(n);
        assert!((mean(&mut || stream.unit()) - 0.5).abs() < 0.003);
        assert!((mean(&mut || stream.exponential()) - 1.0).abs() < 0.01);
        assert!(mean(&mut || stream.normal()).abs() < 0.01);
        assert!((mean(&mut || stream.normal().powi(2)) - 1.0).abs() < 0.02);
        assert!((mean(&mut || stream.below(10) as f64) - 4.5).abs() < 0.03);
    }

    #[test]
    fn every_number_below_the_bound_is_equally_likely() {
        let mut stream = Stream::new(3, "dice");
        let mut seen = [0_u32; 6];
        for _ in 0..60_000 {
            seen[stream.below(6) as usize] += 1;
        }
        // Standard deviation 91.
        assert!(seen.iter().all(|&count| count.abs_diff(10_000) < 450), "{seen:?}");
    }
}
