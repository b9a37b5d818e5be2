//! How good a machine was that carried a run out in real time.

use incast_units::Duration;
use serde::{Deserialize, Serialize};

/// A machine while it measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Version of its kernel.
    pub kernel: String,
    /// Its CPUs.
    pub processors: u32,
    /// Time between two ticks of its clock, to which timers are rounded up; `None` if it does not tell.
    pub tick: Option<Duration>,
    /// The shortest round trip of a small message on the unloaded network, both applications' turns included.
    pub round_trip_least: Duration,
    /// The median of these round trips.
    pub round_trip_median: Duration,
    /// Their 99th percentile.
    pub round_trip_p99: Duration,
    /// Share by which the slowest port's rate was off.
    pub rate_error: f64,
    /// Share of the time for which the applications were ready to run and had no CPU.
    pub waiting: f64,
    /// How long they waited on average, in microseconds.
    pub mean_wait_us: f64,
    /// The same share of the kernel's threads that carry packets on.
    pub softirq_waiting: f64,
    /// How long these waited on average, in microseconds.
    pub mean_softirq_wait_us: f64,
    /// Share of the time for which the machine's own host, if it is a virtual one, took a CPU away.
    pub stolen: f64,
    /// Attempts before this one that did not count because the machine was too busy.
    pub refused: u32,
}
