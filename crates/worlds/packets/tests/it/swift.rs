//! Swift in a network: 200 senders share a port, their windows fall below a segment, and nothing is lost.

use crate::support::{planned, run_both};
use incast_plan::Plan;
use incast_protocols::{Bytes, Time};

const SCENARIO: &str = include_str!("../../../../../scenarios/swift.toml");
const MSS: Bytes = Bytes(1460);

fn plan(changes: &[&str]) -> Plan {
    planned(SCENARIO, changes)
}

/// The scenario that is shown, at a quarter of its length.
#[test]
fn two_hundred_senders_lose_nothing_at_a_target_of_twenty_microseconds() {
    let run = run_both(&plan(&["traffic.burst.size=64KiB"]));
    assert_eq!(run.totals.dropped, 0);
    for flow in &run.flows {
        assert_eq!((flow.losses.timeouts(), flow.losses.retransmitted_packets), (0, 0), "flow {}", flow.id);
        assert!(flow.end.is_some());
    }
    // The first segments of all arrive together; from then on the port holds what the target allows: 20 us and at most
    // 100 us of flow scaling are 100 packets of 1500 bytes, and a segment that each may have above that.
    let settled = Time::from_us(2_000);
    let queue = run.queue_samples.iter().filter(|at| at.time >= settled).map(|at| at.waiting_packets).max().unwrap();
    assert!(queue < 125, "{queue} packets");
    let below = run.window_samples.iter().filter(|at| at.cwnd < MSS).count();
    assert!(below * 2 > run.window_samples.len(), "{below} of {} windows", run.window_samples.len());
    // 12.8 MB with headers take 10.8 ms; the port is never idle for long.
    let end = run.flows.iter().filter_map(|flow| flow.end).max().unwrap();
    assert!(end < Time::from_us(12_000), "{end}");
}

/// Two hundred windows of a segment are all in flight, of which the path takes five: what pacing below a segment is for.
#[test]
fn with_a_floor_of_one_segment_the_queue_stands_at_one_packet_per_sender() {
    let run = run_both(&plan(&["traffic.burst.size=64KiB", "stack.sender.min_window=1"]));
    let settled =
        run.queue_samples.iter().filter(|at| at.time >= Time::from_us(2_000) && at.time < Time::from_us(9_000));
    let least = settled.map(|at| at.waiting_packets).min().unwrap();
    assert!(least > 180, "{least} packets");
}

/// A sender's own column: here the target, which is larger the smaller the window is.
#[test]
fn the_target_stands_in_the_table_of_windows() {
    let run = run_both(&plan(&["traffic.burst.size=16KiB"]));
    let names: Vec<&str> = run.window_columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["target_s"]);
    let target = |below: bool| {
        let samples = run.window_samples.iter().filter(|at| (at.cwnd < Bytes(MSS.0 / 2)) == below);
        samples.filter_map(|at| at.own).map(|(_, target)| target).fold(0.0, f64::max)
    };
    assert!(run.window_samples.iter().all(|at| at.own.is_some_and(|(column, target)| column == 0 && target >= 20e-6)));
    assert!(target(true) > target(false), "{} {}", target(true), target(false));
}
