//! `cargo run --release -p incast-packets --example star -- [static|shared] [ports] [flows] [sweep|event-loop]` times Poisson
//! flows through one switch whose ports have a limit each, or share one memory.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

use incast_packets::{Control, DriverKind, RunOptions, run};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    let buffer = match arguments.first().map(String::as_str) {
        Some("shared") => incast_testing::shared(4_000_000, 1.0, 0),
        _ => incast_testing::packets(250),
    };
    let driver = match arguments.get(3).map(String::as_str) {
        Some("event-loop") => DriverKind::EventLoop,
        _ => DriverKind::Sweep,
    };
    let plan = incast_testing::star_load(number(1, 41), number(2, 20_000), &buffer);
    let begin = std::time::Instant::now();
    let run = run(&plan, &RunOptions { driver: Some(driver) }, &Control::default()).expect("the plan is sound");
    let elapsed = begin.elapsed();
    let hops = run.totals.packet_hops;
    println!("{hops} packet-hops, {:.1} ns each; {:?}", elapsed.as_nanos() as f64 / hops as f64, run.totals);
}
