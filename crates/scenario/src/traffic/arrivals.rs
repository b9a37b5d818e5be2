//! Arrivals at random times: when a Poisson process goes on, and when it ends.

use incast_protocols::Duration;

use super::Context;
use crate::expand::Expansion;
use crate::limits;
use crate::random::Stream;
use crate::report::Report;

/// When a process ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stop {
    /// After this many.
    After(u64),
    /// At this time.
    At(Duration),
}

impl Stop {
    /// `key` holds `count`, and names what arrives.
    pub(super) fn resolve(
        count: Option<u64>,
        until: Option<Duration>,
        start: Duration,
        key: &str,
        context: &mut Context<'_, '_>,
    ) -> Option<Self> {
        match (count, until) {
            (Some(count), None) => Some(Self::After(count)),
            (None, Some(until)) => {
                let until = context.time(Some(until), "until");
                if until <= start {
                    context.problem("until", format!("{until} is not after start ({start})"));
                    return None;
                }
                Some(Self::At(until))
            }
            (Some(_), Some(_)) => {
                context.problem("until", format!("both {key} and until are given: choose one"));
                None
            }
            (None, None) => {
                context.problem(key, format!("missing: give {key} (how many) or until (when they stop)"));
                None
            }
        }
    }

    /// How many arrive at this rate, exactly or on average.
    pub(super) fn count(self, start: Duration, per_second: f64) -> f64 {
        match self {
            Self::After(count) => count as f64,
            Self::At(until) => per_second * (until.as_secs_f64() - start.as_secs_f64()),
        }
    }
}

/// The times of a Poisson process.
pub(super) struct Arrivals {
    stream: Stream,
    /// In picoseconds.
    now: f64,
    mean_gap: f64,
    seen: u64,
    end: Stop,
}

impl Arrivals {
    /// The first comes a random time after `start`; the mean gap is in picoseconds.
    pub(super) fn new(expansion: &Expansion<'_>, start: Duration, mean_gap: f64, end: Stop) -> Self {
        Self { stream: expansion.stream("arrivals"), now: start.0 as f64, mean_gap, seen: 0, end }
    }

    /// The time of the next in picoseconds, if there is one; `what` arrives.
    pub(super) fn next(&mut self, expansion: &Expansion<'_>, what: &str) -> Result<Option<u64>, Report> {
        expansion.go_on()?;
        self.now += self.mean_gap * self.stream.exponential();
        match self.end {
            Stop::After(count) if self.seen == count => return Ok(None),
            Stop::At(until) if self.now >= until.0 as f64 => return Ok(None),
            _ => {}
        }
        if self.now > limits::TIME.0 as f64 {
            let message = format!("at this rate the last of the {what} arrive after {}", limits::TIME);
            return Err(expansion.problem(message));
        }
        self.seen += 1;
        Ok(Some(self.now as u64))
    }
}
