//! The time that a host adds to each packet: interrupts, scheduling, the walk through its stack.

use incast_protocols::Duration;
use incast_protocols::random::Stream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The time that every host adds to each packet. Packets keep their order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostNoise {
    /// From TCP to the queue of the host's port.
    pub sending: Noise,
    /// From the wire to TCP.
    pub receiving: Noise,
    /// What has it of its own.
    pub per: NoisePer,
}

/// What a host's noise is drawn for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NoisePer {
    /// Each packet has a time of its own.
    #[default]
    Packet,
    /// The first packet of a burst. Those that come while it waits go with it, as where a host is woken up and then handles
    /// all that is there.
    Burst,
}

/// When the clocks of hosts tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ticks {
    /// Each at its own times, as machines do.
    #[default]
    Own,
    /// All at once, as the network namespaces of one machine do.
    Shared,
}

/// How long a host takes for a packet: the distribution of a random time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Noise {
    /// No time at all: a host as punctual as a clock.
    #[default]
    None,
    /// Evenly distributed from 0 to a maximum.
    Uniform {
        /// Longest time, e.g. "2us"; the mean is half of it.
        max: Duration,
    },
    /// Exponentially distributed: mostly short, now and then several times the mean.
    Exponential {
        /// Mean of the exponential distribution, e.g. "1us".
        mean: Duration,
    },
    /// A distribution that was measured.
    Measured {
        /// Points of the cumulative distribution, from 0 to 1: the fraction of packets, and the time that they take at
        /// most, e.g. [[0, "0us"], [0.5, "1us"], [0.99, "9us"], [1, "40us"]]. Between two points it is linear.
        #[schemars(length(min = 2))]
        quantiles: Vec<(Fraction, Duration)>,
    },
}

/// A fraction, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Fraction(#[schemars(range(min = 0.0, max = 1.0))] pub f64);

impl Noise {
    /// Whether it never adds anything.
    #[must_use]
    pub fn is_none(&self) -> bool {
        match self {
            Self::None => true,
            Self::Uniform { max: time } | Self::Exponential { mean: time } => *time == Duration::ZERO,
            Self::Measured { quantiles } => quantiles.iter().all(|(_, time)| *time == Duration::ZERO),
        }
    }

    /// The mean.
    #[must_use]
    pub fn mean(&self) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Uniform { max } => Duration(max.0 / 2),
            Self::Exponential { mean } => *mean,
            Self::Measured { quantiles } => {
                let piece = |(from, to): (&(Fraction, Duration), &(Fraction, Duration))| {
                    (to.0.0 - from.0.0) * (from.1.0 as f64 + to.1.0 as f64) / 2.0
                };
                Duration(quantiles.iter().zip(quantiles.iter().skip(1)).map(piece).sum::<f64>().round() as u64)
            }
        }
    }

    /// The next draw.
    #[inline]
    pub fn draw(&self, random: &mut Stream) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Uniform { max } => Duration(random.up_to(max.0)),
            Self::Exponential { mean } => Duration((mean.0 as f64 * random.exponential()) as u64),
            Self::Measured { quantiles } => between(quantiles, random.unit()),
        }
    }
}

/// The time below which this fraction of the distribution lies.
fn between(quantiles: &[(Fraction, Duration)], fraction: f64) -> Duration {
    let next = quantiles.partition_point(|(point, _)| point.0 <= fraction);
    let (Some(&(low, from)), Some(&(high, to))) = (quantiles.get(next.wrapping_sub(1)), quantiles.get(next)) else {
        return quantiles.last().map_or(Duration::ZERO, |&(_, time)| time);
    };
    let share = (fraction - low.0) / (high.0 - low.0);
    Duration(from.0 + (share * to.0.saturating_sub(from.0) as f64).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000_000;

    fn measured() -> Noise {
        let points = [(0.0, 0), (0.5, 1), (0.9, 3), (1.0, 13)];
        Noise::Measured { quantiles: points.map(|(fraction, us)| (Fraction(fraction), Duration(us * US))).to_vec() }
    }

    #[test]
    fn draws_have_the_mean_that_is_told() {
        let laws = [
            Noise::None,
            Noise::Uniform { max: Duration(6 * US) },
            Noise::Exponential { mean: Duration(2 * US) },
            measured(),
        ];
        let means = laws.map(|law| {
            let mut random = Stream::new(1, 1, 1);
            let n = 200_000;
            let mean = (0..n).map(|_| law.draw(&mut random).0).sum::<u64>() / n;
            assert!(mean.abs_diff(law.mean().0) <= law.mean().0 / 100, "{law:?}: {mean} ps");
            assert_eq!(law.is_none(), mean == 0);
            law.mean().0 / 1_000
        });
        // 0.5 x 0.5 + 0.4 x 2 + 0.1 x 8 us.
        assert_eq!(means, [0, 3_000, 2_000, 1_850]);
    }

    #[test]
    fn quantiles_are_met_and_linear_in_between() {
        let Noise::Measured { quantiles } = measured() else { unreachable!() };
        let at = [0.0, 0.25, 0.5, 0.7, 0.95, 0.999_999_9].map(|fraction| between(&quantiles, fraction).0 / 1_000);
        assert_eq!(at, [0, 500, 1_000, 2_000, 8_000, 12_999]);
    }

    #[test]
    fn a_distribution_of_zeros_is_none() {
        assert!(
            Noise::Uniform { max: Duration::ZERO }.is_none() && Noise::Exponential { mean: Duration::ZERO }.is_none()
        );
        assert!(
            Noise::Measured { quantiles: vec![(Fraction(0.0), Duration(0)), (Fraction(1.0), Duration(0))] }.is_none()
        );
    }
}
