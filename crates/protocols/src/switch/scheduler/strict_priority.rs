//! The highest class that has a packet sends; lower ones wait, for ever if need be.

use super::{Heads, MOST_QUEUES, Scheduler, SchedulerContext};
use crate::registry::Part;

/// How many classes there are.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Queues per port, for priorities 0 (the lowest, and that of traffic without one) to `queues - 1` (the highest).
    #[schemars(range(min = 2, max = 8))]
    pub queues: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { queues: 2 }
    }
}

/// Strict priority.
#[derive(Clone, Debug)]
pub struct StrictPriority {
    queues: u32,
}

impl StrictPriority {
    /// Empty queues.
    #[must_use]
    pub fn new(config: &Config, _context: &SchedulerContext) -> Self {
        Self { queues: config.queues.clamp(1, MOST_QUEUES) }
    }
}

impl Scheduler for StrictPriority {
    fn queues(&self) -> u32 {
        self.queues
    }

    fn next(&mut self, heads: &Heads) -> usize {
        heads.iter().rposition(Option::is_some).unwrap_or(0)
    }
}

impl Part for StrictPriority {
    type Config = Config;
    const SUMMARY: &'static str = "the queue of the highest priority that holds a packet sends";
    const SOURCE: &'static str = "IEEE 802.1Q, strict priority";
    const DEVIATIONS: &'static [&'static str] = &[
        "Limits and thresholds hold for each queue of a port; the thresholds of a shared memory for the port as a whole.",
    ];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;

    #[test]
    fn the_highest_class_with_a_packet_sends() {
        let mut scheduler = StrictPriority::new(&Config { queues: 4 }, &SchedulerContext {});
        let heads = |full: &[usize]| {
            let mut heads = Heads::default();
            for &queue in full {
                heads[queue] = Some(Bytes(1500));
            }
            heads
        };
        for (full, expected) in [(&[0][..], 0), (&[0, 3], 3), (&[1, 2], 2), (&[0, 1, 2, 3], 3)] {
            assert_eq!(scheduler.next(&heads(full)), expected);
        }
        assert_eq!(scheduler.queues(), 4);
    }
}
