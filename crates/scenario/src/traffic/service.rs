//! How long a worker takes from a request to its response.

use incast_protocols::Duration;
use incast_protocols::units::text::parse_duration;
use schemars::JsonSchema;
use serde::Deserialize;

use super::Context;
use crate::files::Files;
use crate::limits;
use crate::network::check_time;
use crate::node::Path;
use crate::random::Stream;
use crate::spec::{HostRef, Senders};

/// Time of a worker from a request to its response.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "ServiceTime")]
pub(crate) enum ServiceSpec {
    Constant(Duration),
    Drawn(DrawnSpec),
}

/// A service time drawn for each response.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[schemars(rename = "DrawnServiceTime")]
pub(crate) enum DrawnSpec {
    /// Drawn from an exponential distribution.
    Exponential(ExponentialSpec),
    /// Drawn from an exponential distribution up to a maximum.
    TruncatedExponential(TruncatedSpec),
    /// Drawn uniformly from measured times.
    Measured(MeasuredSpec),
}

/// Drawn from an exponential distribution.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExponentialSpec {
    /// Mean of the exponential distribution, e.g. "5ms".
    mean: Duration,
}

/// Drawn from an exponential distribution up to a maximum.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TruncatedExponential")]
pub(crate) struct TruncatedSpec {
    /// Mean of the exponential distribution before truncation.
    mean: Duration,
    /// Longest service time, e.g. "50ms".
    cut: Duration,
    /// Treatment of times beyond the cut. Default: "drawn-again".
    #[schemars(extend("default" = "drawn-again"))]
    beyond: Option<BeyondCut>,
}

/// Treatment of times beyond the cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BeyondCut {
    /// They are drawn again, so the distribution is that of exponential times up to the cut.
    #[default]
    DrawnAgain,
    /// They are replaced by the cut-off, so that many responses take exactly that long.
    Cut,
}

/// Drawn uniformly from measured times.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MeasuredSpec {
    /// The times, e.g. `["120us", "1.5ms"]`.
    times: Option<Vec<Duration>>,
    /// Instead of times: path of a file, relative to the scenario, with one time per line, e.g. 120us.
    file: Option<String>,
}

/// Workers that are sometimes slower.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StragglersSpec {
    /// The stragglers: a number of workers (the last ones), or a list. Default: all workers.
    workers: Option<Senders>,
    /// Probability that a response of a straggler is late. Default: 1.
    #[schemars(range(min = 0.0, max = 1.0), extend("default" = 1.0))]
    chance: Option<f64>,
    /// Factor by which a late response takes longer. Default: 1.
    #[schemars(range(min = 1.0, max = 1e6), extend("default" = 1.0))]
    factor: Option<f64>,
    /// Extra time that a late response takes. Default: "0s".
    #[schemars(extend("default" = "0s"))]
    delay: Option<Duration>,
}

/// A checked service time.
#[derive(Clone, Debug)]
pub(super) enum Service {
    Constant(Duration),
    Exponential { mean: Duration },
    Truncated { mean: Duration, cut: Duration, beyond: BeyondCut },
    Measured(Vec<Duration>),
}

impl Service {
    /// What is written at `path`, or no time at all.
    pub(super) fn resolve(spec: Option<&ServiceSpec>, path: &Path, context: &mut Context<'_, '_>) -> Option<Self> {
        match spec {
            None => Some(Self::Constant(Duration::ZERO)),
            Some(ServiceSpec::Constant(time)) => {
                check_time(*time, path, context.problems);
                Some(Self::Constant(*time))
            }
            Some(ServiceSpec::Drawn(DrawnSpec::Exponential(exponential))) => {
                check_time(exponential.mean, &path.key("mean"), context.problems);
                Some(Self::Exponential { mean: exponential.mean })
            }
            Some(ServiceSpec::Drawn(DrawnSpec::Measured(measured))) => {
                measured_times(measured, path, context).map(Self::Measured)
            }
            Some(ServiceSpec::Drawn(DrawnSpec::TruncatedExponential(truncated))) => {
                let TruncatedSpec { mean, cut, beyond } = *truncated;
                check_time(mean, &path.key("mean"), context.problems);
                check_time(cut, &path.key("cut"), context.problems);
                if cut == Duration::ZERO {
                    context.problems.out_of_range(&path.key("cut"), cut, "above 0s");
                }
                Some(Self::Truncated { mean, cut, beyond: beyond.unwrap_or_default() })
            }
        }
    }

    pub(super) fn draw(&self, stream: &mut Stream) -> Duration {
        match self {
            Self::Constant(time) => *time,
            Self::Exponential { mean } => times(*mean, stream.exponential()),
            Self::Truncated { mean, cut, beyond: BeyondCut::Cut } => times(*mean, stream.exponential()).min(*cut),
            Self::Truncated { mean, cut, beyond: BeyondCut::DrawnAgain } => {
                // The inverse of the conditional distribution: -mean ln(1 - u (1 - e^(-cut/mean))).
                let below = libm::expm1(-(cut.0 as f64 / mean.0 as f64));
                times(*mean, -libm::log1p(stream.unit() * below)).min(*cut)
            }
            Self::Measured(list) => list[stream.below(list.len() as u64) as usize],
        }
    }
}

/// `factor` times as long, and no longer than any time may be.
fn times(time: Duration, factor: f64) -> Duration {
    Duration((libm::round(time.0 as f64 * factor) as u64).min(limits::TIME.0))
}

fn measured_times(spec: &MeasuredSpec, path: &Path, context: &mut Context<'_, '_>) -> Option<Vec<Duration>> {
    match (&spec.times, &spec.file) {
        (Some(list), None) => {
            if list.is_empty() {
                context.problems.at(&path.key("times"), "no times: at least one is needed");
                return None;
            }
            for (index, &time) in list.iter().enumerate() {
                check_time(time, &path.key("times").index(index), context.problems);
            }
            Some(list.clone())
        }
        (None, Some(file)) => {
            let path = path.key("file");
            let text = context.files.read(file, &path, context.problems)?;
            match read_times(&text) {
                Ok(list) => Some(list),
                Err((line, message)) => {
                    context.problems.inside(&path, Files::problem(file, line, &path, message));
                    None
                }
            }
        }
        (Some(_), Some(_)) => {
            context.problems.at(&path.key("file"), "both times and file are given: choose one");
            None
        }
        (None, None) => {
            context.problems.at(path, "missing: give times or file");
            None
        }
    }
}

/// One time per line; empty lines and what follows `#` do not count.
fn read_times(text: &str) -> Result<Vec<Duration>, (u32, String)> {
    let mut list = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let entry = line.split('#').next().unwrap_or_default().trim();
        if entry.is_empty() {
            continue;
        }
        let time = parse_duration(entry).map_err(|message| (number, message))?;
        if time > limits::TIME {
            return Err((number, format!("{time} is out of range; allowed: at most {}", limits::TIME)));
        }
        list.push(time);
    }
    if list.is_empty() { Err((1, "no times: at least one is needed".into())) } else { Ok(list) }
}

/// Checked stragglers.
#[derive(Debug)]
pub(super) struct Stragglers {
    /// By worker, whether it is one; a worker's further connections come after the first of all.
    late: Vec<bool>,
    chance: f64,
    factor: f64,
    delay: Duration,
}

impl Stragglers {
    /// `workers` are the hosts that answer, each once, in their order.
    pub(super) fn resolve(
        spec: &StragglersSpec,
        workers: &[u32],
        aggregator: u32,
        context: &mut Context<'_, '_>,
    ) -> Option<Self> {
        let path = context.path.key("stragglers");
        let late = match &spec.workers {
            None => vec![true; workers.len()],
            Some(Senders::Count(count)) => {
                let Some(punctual) = workers.len().checked_sub(*count as usize) else {
                    let message = format!("{count} stragglers, but there are only {} workers", workers.len());
                    context.problems.at(&path.key("workers"), message);
                    return None;
                };
                (0..workers.len()).map(|index| index >= punctual).collect()
            }
            Some(Senders::List(list)) => listed(list, workers, aggregator, &path.key("workers"), context)?,
        };
        let (chance, factor) = (spec.chance.unwrap_or(1.0), spec.factor.unwrap_or(1.0));
        if spec.factor.is_none() && spec.delay.is_none() {
            context.problems.at(&path, "missing: give factor (how many times as long) or delay (how much longer)");
            return None;
        }
        let delay = spec.delay.unwrap_or_default();
        check_time(delay, &path.key("delay"), context.problems);
        Some(Self { late, chance, factor, delay })
    }

    /// What an answer on the connection at `index` takes that would take `time`.
    pub(super) fn slowed(&self, index: usize, time: Duration, stream: &mut Stream) -> Duration {
        // Every answer draws, so that who straggles does not change when others do.
        let is_late = stream.unit() < self.chance && self.late[index % self.late.len()];
        if is_late { Duration((times(time, self.factor) + self.delay).0.min(limits::TIME.0)) } else { time }
    }
}

fn listed(
    list: &[HostRef],
    workers: &[u32],
    aggregator: u32,
    path: &Path,
    context: &mut Context<'_, '_>,
) -> Option<Vec<bool>> {
    let mut late = vec![false; workers.len()];
    for (index, host) in list.iter().enumerate() {
        let path = path.index(index);
        let host = context.layout.host(host, &path, context.problems)?;
        if !workers.contains(&host) {
            let name = context.layout.node_name(incast_plan::Node::Host(host));
            let what = if host == aggregator { "is the aggregator" } else { "is not a worker" };
            context.problems.at(&path, format!("{name} {what}"));
            return None;
        }
        for (worker, late) in workers.iter().zip(&mut late) {
            *late |= *worker == host;
        }
    }
    Some(late)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_time_per_line() {
        let list = read_times("# measured in March\n120us\n\n1.5ms  # a slow one\n").expect("these are times");
        assert_eq!(list, [Duration::from_us(120), Duration::from_us(1500)]);
        assert_eq!(read_times("120us\n12\n").expect_err("a unit is missing").0, 2);
        assert!(read_times("# nothing\n").is_err());
    }

    #[test]
    fn measured_times_are_drawn_as_often_as_they_stand_there() {
        let list = [1, 1, 1, 9].map(Duration::from_us).to_vec();
        let (service, mut stream) = (Service::Measured(list), Stream::new(1, "service"));
        let slow = (0..40_000).filter(|_| service.draw(&mut stream) == Duration::from_us(9)).count();
        // Standard deviation 87.
        assert!(slow.abs_diff(10_000) < 450, "{slow}");
    }

    /// Wang et al., section III.B, cut at 5 ms: the mean of the times that are no longer, `mean - cut / (e^(cut/mean) - 1)`.
    #[test]
    fn truncated_times_have_the_moments_of_their_distribution() {
        let cut = Duration::from_ms(5);
        for (mean, expected, clamped) in
            [(5, 2.09, 0.37), (10, 2.29, 0.61), (20, 2.40, 0.78), (25, 2.42, 0.82), (30, 2.43, 0.85)]
        {
            let mean = Duration::from_ms(mean);
            let draw = |beyond| -> Vec<f64> {
                let (service, mut stream) = (Service::Truncated { mean, cut, beyond }, Stream::new(1, "service"));
                (0..100_000).map(|_| service.draw(&mut stream).as_secs_f64() * 1e3).collect()
            };
            let drawn = draw(BeyondCut::DrawnAgain);
            let sample = drawn.iter().sum::<f64>() / drawn.len() as f64;
            // The standard deviation of the sample mean is 0.0045 ms.
            assert!((sample - expected).abs() < 0.015, "{mean}: {sample}");
            assert!(drawn.iter().all(|&ms| ms <= 5.0));
            // A uniform distribution has a standard deviation of 1.44 ms, and these are steeper.
            let variance = drawn.iter().map(|ms| (ms - sample).powi(2)).sum::<f64>() / drawn.len() as f64;
            assert!((1.38..1.45).contains(&variance.sqrt()), "{mean}: {}", variance.sqrt());
            let at_the_cut = |drawn: &[f64]| drawn.iter().filter(|&&ms| ms > 4.999_999_9).count() as f64 / 1e5;
            assert!(at_the_cut(&drawn) < 0.001);
            assert!((at_the_cut(&draw(BeyondCut::Cut)) - clamped).abs() < 0.01, "{mean}");
        }
    }

    #[test]
    fn only_stragglers_are_late_and_by_chance() {
        let late = vec![false, true];
        let stragglers = Stragglers { late, chance: 0.25, factor: 3.0, delay: Duration::from_us(5) };
        let mut stream = Stream::new(1, "stragglers");
        let time = Duration::from_us(10);
        let mut draws = |index| (0..40_000).map(|_| stragglers.slowed(index, time, &mut stream)).collect::<Vec<_>>();
        assert!(draws(0).iter().all(|&drawn| drawn == time));
        let (late, punctual): (Vec<_>, Vec<_>) = draws(1).into_iter().partition(|&drawn| drawn != time);
        assert!(late.len().abs_diff(10_000) < 450 && late.len() + punctual.len() == 40_000);
        assert!(late.iter().all(|&drawn| drawn == Duration::from_us(35)));
    }
}
