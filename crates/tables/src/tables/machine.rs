//! How good the machine was that carried a run out in real time.

use crate::column::{Column, Values, columns};
use incast_record::{Machine, Run};
use incast_units::Duration;

pub(crate) const NAME: &str = "machine";
pub(crate) const MEANING: &str = "One row if the run took place on a machine in real time (world \"linux\"): how good the machine was while it measured. Runs in \
     simulated time have none.";

pub(crate) fn rows(run: &Run) -> impl Iterator<Item = &Machine> {
    run.machine.iter()
}

pub(crate) fn columns<'a>() -> Vec<Column<&'a Machine>> {
    use Values::{MaybeReal, Real, Text, Whole};
    columns! {
        /// Version of its kernel.
        kernel: Text(|r| &r.kernel);
        /// Its CPUs.
        processors: Whole(|r| r.processors.into());
        /// Time between two ticks of its clock, to which timers are rounded up; null if it does not tell.
        tick_s "s": MaybeReal(|r| r.tick.map(Duration::as_secs_f64));
        /// The shortest round trip of a small message on the unloaded network, both applications' turns included.
        round_trip_min_s "s": Real(|r| r.round_trip_least.as_secs_f64());
        /// The median of these round trips.
        round_trip_p50_s "s": Real(|r| r.round_trip_median.as_secs_f64());
        /// Their 99th percentile.
        round_trip_p99_s "s": Real(|r| r.round_trip_p99.as_secs_f64());
        /// By which share the slowest port's measured rate was off: 0.01 is 1 % too fast.
        rate_error: Real(|r| r.rate_error);
        /// Share of the time for which the applications were ready to run and had no CPU.
        waiting: Real(|r| r.waiting);
        /// How long they waited for a CPU, on average.
        mean_wait_s "s": Real(|r| r.mean_wait_us / 1e6);
        /// The same share of the kernel's threads that carry packets on.
        softirq_waiting: Real(|r| r.softirq_waiting);
        /// How long these waited for a CPU, on average.
        mean_softirq_wait_s "s": Real(|r| r.mean_softirq_wait_us / 1e6);
        /// Share of the time for which the machine's own host, if it is a virtual one, took a CPU away.
        stolen: Real(|r| r.stolen);
        /// Attempts before this one that did not count because the machine was too busy.
        refused: Whole(|r| r.refused.into());
    }
}
