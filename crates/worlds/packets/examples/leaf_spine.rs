//! `cargo run --release -p incast-packets --example leaf_spine -- [sweep|event-loop] [flows] [waiting] [mark] [threads]`
//! times the leaf-spine work without anything around it.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

use incast_packets::{Control, DriverKind, RunOptions, run};
use incast_record::Spill;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    let driver = match arguments.first().map(String::as_str) {
        Some("event-loop") => DriverKind::EventLoop,
        _ => DriverKind::Sweep,
    };
    let plan = incast_testing::leaf_spine_load(20, 20, 10, number(1, 20_000), 1, number(2, 250), number(3, 65));
    let control = Control::spilling(Spill::into(std::env::temp_dir()));
    if let Some(threads) = arguments.get(4).and_then(|text| text.parse().ok()) {
        control.use_threads(threads);
    }
    let begin = std::time::Instant::now();
    let run = run(&plan, &RunOptions { driver: Some(driver) }, &control).expect("the plan is sound");
    let elapsed = begin.elapsed();
    let hops = run.totals.packet_hops;
    let mut short: Vec<u64> = run
        .flows
        .iter()
        .filter(|flow| flow.size.is_some_and(|size| size.0 < 40_000))
        .filter_map(|flow| Some(flow.end?.since(flow.start).0))
        .collect();
    short.sort_unstable();
    let at = |share: f64| short[((short.len() as f64 * share) as usize).min(short.len() - 1)] as f64 / 1e9;
    println!("{driver:?}: {hops} packet-hops, {:.1} ns each", elapsed.as_nanos() as f64 / hops as f64);
    println!("short p50 {:.4} ms, p99 {:.4} ms; {:?}", at(0.5), at(0.99), run.totals);
    let timeouts: u32 = run.flows.iter().map(|flow| flow.losses.timeouts()).sum();
    let unfinished = run.flows.iter().filter(|flow| flow.end.is_none()).count();
    println!("timeouts {timeouts}, unfinished {unfinished}, end {}", run.end);
}
