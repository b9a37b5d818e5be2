//! Distributions of message sizes: as written, checked, drawn.

use incast_plan::LARGEST_PACKET;
use incast_protocols::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::catalog;
use crate::cdf::Cdf;
use crate::document::Problems;
use crate::files::Files;
use crate::limits;
use crate::node::Path;
use crate::random::Stream;

/// Sizes of messages: their payload, from one value or drawn from a distribution.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[schemars(rename = "Sizes")]
pub(crate) enum SizesSpec {
    /// The same size for all.
    Constant(ConstantSpec),
    /// Drawn uniformly between two sizes.
    Uniform(UniformSpec),
    /// Drawn from a log-normal distribution: its mean and its spread are given.
    LogNormal(LogNormalSpec),
    /// An empirical distribution: a published one, or your own table.
    Cdf(CdfSpec),
    /// A mixture of several distributions.
    Mixture(MixtureSpec),
}

/// The same size for all.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConstantSpec {
    /// Payload of each message, e.g. "64KiB".
    size: Bytes,
}

/// Uniform between two sizes, both included.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UniformSpec {
    /// Smallest payload of a message, e.g. "1KB"; drawn sizes include it.
    min: Bytes,
    /// Largest payload of a message, e.g. "64KB"; drawn sizes include it.
    max: Bytes,
}

/// Drawn from a log-normal distribution. Sizes are at most 1 TiB.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogNormalSpec {
    /// Mean payload of a message, e.g. "50KB".
    mean: Bytes,
    /// Standard deviation of the logarithm of the size.
    #[schemars(range(min = 0.0, max = 5.0))]
    sigma: f64,
}

/// An empirical distribution, linear between its points.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CdfSpec {
    /// Name of a published distribution, e.g. "websearch-dctcp". `incast list workloads` shows all.
    name: Option<String>,
    /// Path of a file, relative to the scenario, with lines of size and cumulative share (up to 1 or up to 100), or of packets, 1
    /// and cumulative share.
    file: Option<String>,
    /// Payload of a packet, if the file counts packets. Default: "1460B".
    #[schemars(extend("default" = "1460B"))]
    packet: Option<Bytes>,
}

/// A mixture of several distributions.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MixtureSpec {
    /// What the shares refer to.
    share_of: ShareOf,
    /// The distributions. Their shares add up to 1.
    #[schemars(length(min = 1))]
    parts: Vec<PartSpec>,
}

/// What the shares of a mixture refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ShareOf {
    /// The number of messages: a share of 0.2 is one message in five.
    Messages,
    /// All bytes sent: a share of 0.2 is a fifth of the payload.
    Bytes,
}

/// One distribution of a mixture.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "MixturePart")]
pub(crate) struct PartSpec {
    /// Share of this distribution in the mixture, e.g. 0.2; the shares add up to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    share: f64,
    /// Sizes of the messages of this share.
    sizes: SizesSpec,
}

/// A distribution to draw from.
#[derive(Clone, Debug)]
pub(crate) enum Sizes {
    Constant(u64),
    Uniform {
        min: u64,
        max: u64,
    },
    LogNormal {
        mean: f64,
        sigma: f64,
    },
    Cdf(Cdf),
    /// (share of messages up to here, distribution).
    Mixture(Vec<(f64, Self)>),
}

impl Sizes {
    /// Checks what is written at `path` and reads the file it names.
    pub(crate) fn resolve(
        spec: &SizesSpec,
        path: &Path,
        files: Files<'_>,
        problems: &mut Problems<'_>,
    ) -> Option<Self> {
        match spec {
            SizesSpec::Constant(constant) => {
                check_size(constant.size, &path.key("size"), problems).then_some(Self::Constant(constant.size.0))
            }
            SizesSpec::Uniform(uniform) => {
                let ends = check_size(uniform.min, &path.key("min"), problems)
                    & check_size(uniform.max, &path.key("max"), problems);
                if ends && uniform.min > uniform.max {
                    let message = format!("min ({}) is larger than max ({})", uniform.min, uniform.max);
                    problems.at(&path.key("min"), message);
                    return None;
                }
                ends.then_some(Self::Uniform { min: uniform.min.0, max: uniform.max.0 })
            }
            SizesSpec::LogNormal(log_normal) => check_size(log_normal.mean, &path.key("mean"), problems)
                .then_some(Self::LogNormal { mean: log_normal.mean.0 as f64, sigma: log_normal.sigma }),
            SizesSpec::Cdf(cdf) => resolve_cdf(cdf, path, files, problems).map(Self::Cdf),
            SizesSpec::Mixture(mixture) => resolve_mixture(mixture, path, files, problems),
        }
    }

    /// Mean payload in bytes.
    pub(crate) fn mean_bytes(&self) -> f64 {
        match self {
            Self::Constant(size) => *size as f64,
            Self::Uniform { min, max } => f64::midpoint(*min as f64, *max as f64),
            Self::LogNormal { mean, .. } => *mean,
            Self::Cdf(cdf) => cdf.mean_bytes(),
            Self::Mixture(parts) => weighted(parts, Self::mean_bytes),
        }
    }

    /// About how many segments a message has on average.
    pub(crate) fn mean_segments(&self, mss: Bytes) -> f64 {
        match self {
            Self::Constant(size) => size.div_ceil(mss.0) as f64,
            Self::Mixture(parts) => weighted(parts, |sizes| sizes.mean_segments(mss)),
            // The last segment is half full on average.
            other => (other.mean_bytes() / mss.0 as f64 + 0.5).max(1.0),
        }
    }

    /// The payload of one message, at least a byte.
    pub(crate) fn draw(&self, stream: &mut Stream) -> Bytes {
        let size = match self {
            Self::Constant(size) => *size,
            Self::Uniform { min, max } => min + stream.below(max - min + 1),
            Self::LogNormal { mean, sigma } => {
                let size = mean * libm::exp(sigma * stream.normal() - sigma * sigma / 2.0);
                (libm::round(size) as u64).clamp(1, limits::MESSAGE_BYTES)
            }
            Self::Cdf(cdf) => cdf.draw(stream),
            Self::Mixture(parts) => {
                let chosen = stream.unit();
                let part = parts.partition_point(|&(up_to, _)| up_to <= chosen).min(parts.len() - 1);
                return parts[part].1.draw(stream);
            }
        };
        Bytes(size)
    }
}

/// The mean of `of` over the parts of a mixture.
fn weighted(parts: &[(f64, Sizes)], of: impl Fn(&Sizes) -> f64) -> f64 {
    let mut before = 0.0;
    parts
        .iter()
        .map(|(up_to, sizes)| {
            let share = up_to - before;
            before = *up_to;
            share * of(sizes)
        })
        .sum()
}

/// Refuses an empty message or one that is too large.
pub(crate) fn check_size(size: Bytes, path: &Path, problems: &mut Problems<'_>) -> bool {
    let fits = (1..=limits::MESSAGE_BYTES).contains(&size.0);
    if !fits {
        problems.out_of_range(path, size, "1B to 1024GiB");
    }
    fits
}

fn resolve_cdf(spec: &CdfSpec, path: &Path, files: Files<'_>, problems: &mut Problems<'_>) -> Option<Cdf> {
    if let (Some(_), None) = (spec.packet, &spec.file) {
        problems.at(&path.key("packet"), "no effect without file");
    }
    match (&spec.name, &spec.file) {
        (Some(name), None) => {
            let found = catalog::workload(name);
            if found.is_none() {
                let names = || catalog::workloads().iter().map(|workload| workload.name);
                let problem = problems.at(&path.key("name"), format!("unknown distribution {name:?}"));
                problem.nearest = crate::report::nearest(name, names());
                problem.allowed = Some(names().collect::<Vec<_>>().join(", "));
            }
            found.map(catalog::Workload::cdf)
        }
        (None, Some(file)) => {
            let payload = spec.packet.unwrap_or(Bytes(1460));
            if payload.0 == 0 || payload.0 > LARGEST_PACKET {
                problems.out_of_range(&path.key("packet"), payload, format!("1B to {LARGEST_PACKET}B"));
                return None;
            }
            let path = path.key("file");
            let text = files.read(file, &path, problems)?;
            match Cdf::parse(&text, payload.0) {
                Ok(cdf) => Some(cdf),
                Err((line, message)) => {
                    problems.inside(&path, Files::problem(file, line, &path, message));
                    None
                }
            }
        }
        _ => {
            problems.at(path, "give either name or file");
            None
        }
    }
}

fn resolve_mixture(spec: &MixtureSpec, path: &Path, files: Files<'_>, problems: &mut Problems<'_>) -> Option<Sizes> {
    let parts: Vec<Option<Sizes>> = spec
        .parts
        .iter()
        .enumerate()
        .map(|(index, part)| Sizes::resolve(&part.sizes, &path.key("parts").index(index).key("sizes"), files, problems))
        .collect();
    let sum: f64 = spec.parts.iter().map(|part| part.share).sum();
    if (sum - 1.0).abs() > 1e-6 {
        problems.at(&path.key("parts"), format!("the shares add up to {sum}, not to 1"));
        return None;
    }
    let parts: Vec<Sizes> = parts.into_iter().collect::<Option<_>>()?;
    let weight = |share: f64, sizes: &Sizes| match spec.share_of {
        ShareOf::Messages => share,
        ShareOf::Bytes => share / sizes.mean_bytes(),
    };
    let weights: Vec<f64> = spec.parts.iter().zip(&parts).map(|(part, sizes)| weight(part.share, sizes)).collect();
    let total: f64 = weights.iter().sum();
    let mut up_to = 0.0;
    let cumulative = weights.iter().map(|weight| {
        up_to += weight / total;
        up_to
    });
    Some(Sizes::Mixture(cumulative.zip(parts).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_mean(sizes: &Sizes, n: u32) -> f64 {
        let mut stream = Stream::new(11, "sizes");
        (0..n).map(|_| sizes.draw(&mut stream).0 as f64).sum::<f64>() / f64::from(n)
    }

    #[test]
    fn draws_have_the_mean_that_loads_are_computed_from() {
        let uniform = Sizes::Uniform { min: 8192, max: 32_768 };
        let log_normal = Sizes::LogNormal { mean: 50_000.0, sigma: 1.0 };
        let mixture = Sizes::Mixture(vec![(0.25, Sizes::Constant(1000)), (1.0, uniform.clone())]);
        for sizes in [uniform, log_normal, mixture] {
            let (sample, mean) = (sample_mean(&sizes, 200_000), sizes.mean_bytes());
            assert!((sample / mean - 1.0).abs() < 0.015, "{sizes:?}: {sample} is not {mean}");
        }
    }

    #[test]
    fn uniform_sizes_include_both_ends() {
        let mut stream = Stream::new(1, "ends");
        let sizes = Sizes::Uniform { min: 5, max: 7 };
        let drawn: std::collections::BTreeSet<u64> = (0..100).map(|_| sizes.draw(&mut stream).0).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [5, 6, 7]);
    }

    #[test]
    fn segments_are_counted_whole_for_constant_sizes() {
        assert!((Sizes::Constant(1461).mean_segments(Bytes(1460)) - 2.0).abs() < 1e-12);
        assert!((Sizes::Uniform { min: 1, max: 100 }.mean_segments(Bytes(1460)) - 1.0).abs() < 1e-12);
    }
}
