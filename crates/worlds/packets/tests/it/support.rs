//! Plans made by hand, and runs of them with both drivers.

pub(crate) use incast_testing::*;

use incast_packets::{Control, DriverKind, RunOptions, run};
use incast_plan::Plan;
use incast_record::Run;

pub(crate) fn run_on(plan: &Plan, driver: DriverKind) -> Run {
    run(plan, &RunOptions { driver: Some(driver) }, &Control::default()).unwrap()
}

/// Runs with both drivers, demands identical results, and returns them.
pub(crate) fn run_both(plan: &Plan) -> Run {
    let sweep = run_on(plan, DriverKind::Sweep);
    let event_loop = run_on(plan, DriverKind::EventLoop);
    assert_same(&sweep, &event_loop);
    sweep
}

pub(crate) fn assert_same(a: &Run, b: &Run) {
    for (a, b) in a.flows.iter().zip(&b.flows) {
        assert_eq!(a, b);
    }
    assert!(a == b, "drivers differ: {:?} {:?} end {} {}", a.totals, b.totals, a.end, b.end);
}
