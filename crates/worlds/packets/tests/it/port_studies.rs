//! What the scenarios of RED and of strict priority are there to show.

use crate::support::{planned, run_both};
use incast_protocols::Duration;
use incast_record::Run;

fn run(text: &str, overrides: &[&str]) -> Run {
    run_both(&planned(text, overrides))
}

/// Eight answers of 14.6 KB take 0.96 ms on an idle line of 1 Gbit/s; behind 300 packets of long flows they take some 4 ms more.
#[test]
fn strict_priority_protects_short_flows_from_long_ones() {
    const STUDY: &str = include_str!("../../../../../studies/beyond/scenarios/strict-priority.toml");
    let longest = |run: &Run| {
        let short = run.flows.iter().filter(|flow| flow.size.is_some());
        short.map(|flow| flow.end.map_or(Duration(u64::MAX), |end| end.since(flow.start))).max().unwrap()
    };
    let long =
        |run: &Run| -> u64 { run.flows.iter().filter(|flow| flow.size.is_none()).map(|flow| flow.delivered.0).sum() };
    let fifo = run(STUDY, &[]);
    let strict = run(STUDY, &[r#"switch.scheduler={name="strict-priority",queues=2}"#, "traffic.short.priority=1"]);
    assert!(longest(&strict) < Duration::from_us(1_200), "{}", longest(&strict));
    assert!(longest(&fifo) > Duration::from_us(3_000), "{}", longest(&fifo));
    assert!(long(&strict) as f64 > 0.9 * long(&fifo) as f64, "{} {}", long(&strict), long(&fifo));
}

/// The mean queue with RED stays between its thresholds or near them; without it, it fills the port.
#[test]
fn red_keeps_the_queue_of_long_flows_short() {
    const STUDY: &str = include_str!("../../../../../studies/beyond/scenarios/red.toml");
    let port = |run: &Run| run.ports.iter().find(|port| port.to == "host 0").cloned().unwrap();
    let mean = |run: &Run| {
        let queue = port(run).queue.unwrap();
        let time: u64 = queue.time_at.iter().sum();
        let area: u128 = (0..).zip(&queue.time_at).map(|(packets, &time)| u128::from(time) * packets).sum();
        area as f64 / time as f64
    };
    // Over so short a time, noise would decide in which of its few timeouts a flow that RED drops from is caught.
    let punctual = r#"hosts.noise={kind="none"}"#;
    let (red, tail) = (run(STUDY, &[punctual]), run(STUDY, &["switch.marker=none", punctual]));
    assert!((10.0..80.0).contains(&mean(&red)), "{}", mean(&red));
    assert!(mean(&tail) > 150.0, "{}", mean(&tail));
    let busy = |run: &Run| port(run).bytes.0 as f64 * 8.0 / 0.4e9;
    assert!(busy(&red) > 0.75 && busy(&tail) > 0.9, "{} {}", busy(&red), busy(&tail));
    // Marks instead of drops where TCP can answer them.
    let marked = run(STUDY, &["stack.sender=dctcp"]);
    assert!(marked.totals.ce_marks > 0 && port(&marked).drops < port(&red).drops / 2);
}

/// Every port draws its own numbers: what one draws does not depend on whether others do.
#[test]
fn a_seed_decides_what_red_drops() {
    const STUDY: &str = include_str!("../../../../../studies/beyond/scenarios/red.toml");
    let totals = |seed: &str| run(STUDY, &["run.stop_at=60ms", seed]).totals;
    assert_eq!(totals("seed=1"), totals("seed=1"));
    assert_ne!(totals("seed=1"), totals("seed=2"));
}
