//! HPCC in a network: senders share a port of which telemetry tells them, and its queue stays empty.

use crate::support::run_both;
use incast_protocols::Time;
use incast_scenario::Scenario;

const SCENARIO: &str = include_str!("../../../../../scenarios/hpcc.toml");

/// The scenario that is shown. HPCC, section 5.2: near-zero queues at a high utilization once the start is over.
#[test]
fn the_queue_of_the_start_drains_and_does_not_come_back() {
    let run = run_both(&Scenario::parse(SCENARIO, "hpcc.toml", &[]).unwrap().plan(None).unwrap());
    assert_eq!(run.totals.dropped, 0);
    assert!(run.flows.iter().all(|flow| flow.end.is_some() && flow.losses.timeouts() == 0));
    let start = run.queue_samples.iter().map(|at| at.waiting_bytes.0).max().unwrap();
    let settled = run.queue_samples.iter().filter(|at| at.time >= Time::from_us(200));
    let queue = settled.map(|at| at.waiting_bytes.0).max().unwrap();
    // A bandwidth-delay product is about 52 kB.
    assert!(start > 500_000 && queue < 30_000, "{start} bytes at the start, {queue} later");
    // 16 MiB and their headers take 1.4 ms at line rate, and 1.47 ms at 95 % of it.
    let end = run.flows.iter().filter_map(|flow| flow.end).max().unwrap();
    assert!(end < Time::from_us(1_650), "{end}");
    // The link is told to be as full as it is aimed at.
    let late = run.window_samples.iter().filter(|at| at.time > Time::from_us(400) && at.time < Time::from_us(1_200));
    let (sum, count) = late.filter_map(|at| at.own).fold((0.0, 0.0), |(sum, count), (_, u)| (sum + u, count + 1.0));
    assert!((sum / count - 0.95_f64).abs() < 0.1, "a mean utilization of {}", sum / count);
}
