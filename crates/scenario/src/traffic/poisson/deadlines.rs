//! Deadlines that depend on the size of a message, of which only a share has one.

use incast_protocols::{Bytes, Duration, Rate};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::limits;
use crate::network::check_time;
use crate::node::Path;
use crate::random::Stream;
use crate::traffic::Context;

/// Deadlines by size, for a share of the messages.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "DeadlineRules")]
pub(crate) struct DeadlinesSpec {
    /// Probability that a message has a deadline. Default: 1.0.
    #[schemars(range(min = 0.0, max = 1.0), extend("default" = 1.0))]
    share: Option<f64>,
    /// Rules in ascending order of size. The first that covers the size of a message applies. The last covers all sizes.
    #[schemars(length(min = 1))]
    rules: Vec<RuleSpec>,
}

/// The deadline of messages of some sizes: `offset` plus the payload over `rate`, from the start of the message.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "DeadlineRule")]
pub(crate) struct RuleSpec {
    /// Largest payload that the rule covers. Default: any.
    up_to: Option<Bytes>,
    /// Constant part of the time. Default: "0s".
    #[schemars(extend("default" = "0s"))]
    offset: Option<Duration>,
    /// Rate that determines the rest of the time, e.g. "1Gbps". Default: no further time.
    rate: Option<Rate>,
}

/// Checked rules.
#[derive(Clone, Debug)]
pub(super) struct Deadlines {
    share: f64,
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    up_to: Bytes,
    offset: Duration,
    rate: Option<Rate>,
}

impl Deadlines {
    pub(super) fn resolve(spec: &DeadlinesSpec, context: &mut Context<'_, '_>) -> Option<Self> {
        let path = context.path.key("deadlines");
        let mut rules: Vec<Rule> = Vec::with_capacity(spec.rules.len());
        for (index, rule) in spec.rules.iter().enumerate() {
            let path = path.key("rules").index(index);
            let before = rules.last().map(|rule| rule.up_to);
            let rule = rule.resolve(before, index + 1 == spec.rules.len(), &path, context)?;
            rules.push(rule);
        }
        Some(Self { share: spec.share.unwrap_or(1.0), rules })
    }

    /// From the start of a message of this size to its deadline, if it has one.
    pub(super) fn draw(&self, size: Bytes, stream: &mut Stream) -> Option<Duration> {
        let rule = self.rules.iter().find(|rule| size <= rule.up_to)?;
        let time = rule.offset + rule.rate.map_or(Duration::ZERO, |rate| rate.time_for(size));
        (stream.unit() < self.share).then_some(time)
    }
}

impl RuleSpec {
    /// A rule that follows one for sizes up to `before`, if that is any.
    fn resolve(&self, before: Option<Bytes>, last: bool, path: &Path, context: &mut Context<'_, '_>) -> Option<Rule> {
        match self.up_to {
            None if !last => {
                context.problems.at(path, "covers all sizes, so later rules never apply").allowed =
                    Some("up_to here, or no later rule".into());
                return None;
            }
            Some(up_to) if last => {
                let message = format!("no rule covers messages larger than {up_to}");
                context.problems.at(&path.key("up_to"), message).allowed = Some("a last rule without up_to".into());
                return None;
            }
            Some(up_to) if before.is_some_and(|before| up_to <= before) || up_to.0 == 0 => {
                let message = format!("{up_to} covers no size that earlier rules do not cover");
                context.problems.at(&path.key("up_to"), message).allowed = Some("ascending sizes above 0B".into());
                return None;
            }
            _ => {}
        }
        if self.offset.is_none() && self.rate.is_none() {
            context.problems.at(path, "missing: give offset, rate or both");
            return None;
        }
        let offset = self.offset.unwrap_or_default();
        check_time(offset, &path.key("offset"), context.problems);
        if let Some(rate) = self.rate.filter(|rate| !(limits::RATE_MIN..=limits::RATE_MAX).contains(rate)) {
            let allowed = format!("{} to {}", limits::RATE_MIN, limits::RATE_MAX);
            context.problems.out_of_range(&path.key("rate"), rate, allowed);
            return None;
        }
        Some(Rule { up_to: self.up_to.unwrap_or(Bytes(u64::MAX)), offset, rate: self.rate })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wang et al., section III.A, data mining: 0.6 ms and the time at 4 Gbit/s for small messages, 1 ms and the time at
    /// 2 Gbit/s for medium ones, the time at 2.5 Gbit/s for big ones.
    #[test]
    fn the_first_rule_that_covers_a_size_applies() {
        let rule = |up_to, us, mbps: u64| Rule {
            up_to: Bytes(up_to),
            offset: Duration::from_us(us),
            rate: Some(Rate(mbps * 1_000_000)),
        };
        let rules = vec![rule(100_000, 600, 4000), rule(1_000_000, 1000, 2000), rule(u64::MAX, 0, 2500)];
        let (deadlines, mut stream) = (Deadlines { share: 1.0, rules }, Stream::new(1, "deadlines"));
        for (size, us) in [(50_000, 700), (100_000, 800), (200_000, 1800), (1_000_000, 5000), (10_000_000, 32_000)] {
            assert_eq!(deadlines.draw(Bytes(size), &mut stream), Some(Duration::from_us(us)), "{size}");
        }
    }

    #[test]
    fn a_share_of_the_messages_has_a_deadline() {
        let rules = vec![Rule { up_to: Bytes(u64::MAX), offset: Duration::from_ms(1), rate: None }];
        let count = |share| {
            let (deadlines, mut stream) = (Deadlines { share, rules: rules.clone() }, Stream::new(1, "deadlines"));
            (0..40_000).filter(|_| deadlines.draw(Bytes(1), &mut stream).is_some()).count()
        };
        assert_eq!((count(0.0), count(1.0)), (0, 40_000));
        // Standard deviation 80.
        assert!(count(0.2).abs_diff(8000) < 400, "{}", count(0.2));
    }
}
