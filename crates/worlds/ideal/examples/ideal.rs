//! `cargo run --release -p incast-ideal --example ideal -- [load]` times the ideal model on 400 hosts: 7,300
//! messages of 1 MiB and 93,000 of 8 to 32 KiB, 24 of them to one host at a time. The load is a share of the hosts'
//! links; twice as much, less a twentieth, is that of the leaves' uplinks.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

use incast_ideal::Ideal;
use incast_world::{Control, World as _};

fn main() {
    let load = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0.421);
    let plan = incast_testing::leaf_spine_groups(load, 93_000 / 24, 7_300);
    let begin = std::time::Instant::now();
    let run = Ideal.run(&plan, &Control::default()).expect("the plan is sound");
    let elapsed = begin.elapsed();
    let unfinished = run.flows.iter().filter(|flow| flow.end.is_none()).count();
    let (sum, flows) = run
        .flows
        .iter()
        .filter(|flow| flow.size.is_some_and(|size| size.0 == 1 << 20))
        .filter_map(|flow| flow.throughput_bps())
        .fold((0.0, 0.0), |(sum, flows), bps| (sum + bps, flows + 1.0));
    println!("{elapsed:.2?} for {} messages, {unfinished} unfinished, end {}", run.flows.len(), run.end);
    println!("long ones {:.3} Gbit/s on average", sum / flows / 1e9);
}
