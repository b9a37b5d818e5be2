//! One queue: first in, first out.

use super::{Heads, Scheduler, SchedulerContext};
use crate::registry::Part;

/// No parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {}

/// One queue for all packets.
#[derive(Clone, Debug)]
pub struct Fifo;

impl Fifo {
    /// One queue.
    #[must_use]
    pub const fn new(_config: &Config, _context: &SchedulerContext) -> Self {
        Self
    }
}

impl Scheduler for Fifo {
    fn queues(&self) -> u32 {
        1
    }

    fn next(&mut self, _heads: &Heads) -> usize {
        0
    }
}

impl Part for Fifo {
    type Config = Config;
    const SUMMARY: &'static str = "one queue: first in, first out";
    const SOURCE: &'static str = "a port without classes of service";
}
