//! `cargo run --release -p incast-packets --example threads -- [THREADS] [ROUNDS]` times the scenarios that come with the program
//! and some works on one thread and on several, in turns, and prints the least time of each.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use incast_packets::{Control, Packets, RunOptions, run};
use incast_plan::Plan;
use incast_scenario::{EXAMPLES, Scenario};
use incast_testing::leaf_spine_load;
use incast_world::World as _;

fn time(plan: &Plan, threads: NonZeroUsize) -> (Duration, u64) {
    let control = Control::default();
    control.use_threads(threads);
    let begin = Instant::now();
    let run = run(plan, &RunOptions::default(), &control).expect("the plan is sound");
    (begin.elapsed(), run.totals.packet_hops)
}

fn compare(name: &str, plan: &Plan, threads: NonZeroUsize, rounds: usize) {
    let (count, chosen) = (Packets.threads(plan, Some(threads)).count, Packets.threads(plan, None).count);
    let mut least = [Duration::MAX; 2];
    let mut hops = 0;
    for _ in 0..rounds {
        for (least, threads) in least.iter_mut().zip([NonZeroUsize::MIN, threads]) {
            let (took, packet_hops) = time(plan, threads);
            hops = packet_hops;
            *least = took.min(*least);
        }
    }
    let [one, several] = least.map(|time| time.as_secs_f64() * 1e3);
    let ratio = one / several;
    println!(
        "{name:36} {hops:9} {one:8.1} ms, on {count}: {several:8.1} ms, {ratio:4.2} times as fast; chosen: {chosen}"
    );
}

fn main() {
    let number = |at| std::env::args().nth(at).and_then(|text| text.parse::<usize>().ok());
    let threads = number(1).and_then(NonZeroUsize::new).unwrap_or(NonZeroUsize::MIN.saturating_add(1));
    let rounds = number(2).unwrap_or(3);
    for (name, text) in EXAMPLES {
        let scenario = Scenario::parse(text, name, &[]).expect("what comes with the program is sound");
        let plan = scenario.plan(None).expect("what comes with the program can be planned");
        if Packets.threads(&plan, Some(threads)).count > 1 {
            compare(name, &plan, threads, rounds);
        }
    }
    for (leaves, flows) in [(4, 200), (4, 1_000), (4, 5_000), (20, 200), (20, 500), (20, 1_000), (20, 2_000)] {
        let plan = leaf_spine_load(leaves, 20, leaves / 2, flows, 1, 250, 65);
        compare(&format!("{} hosts, {flows} flows", leaves * 20), &plan, threads, rounds);
    }
    for (delay_ns, flows) in [(100, 2_000), (300, 2_000), (1_000, 2_000), (3_000, 2_000)] {
        let mut plan = leaf_spine_load(20, 20, 10, flows, 1, 250, 65);
        for link in &mut plan.network.links {
            link.delay = incast_protocols::Duration::from_ns(delay_ns);
        }
        compare(&format!("400 hosts, {flows} flows, {delay_ns} ns"), &plan, threads, rounds);
    }
    for slower in [10, 100] {
        let mut plan = leaf_spine_load(20, 20, 10, 1_000, 1, 250, 65);
        for send in &mut plan.sends {
            send.start.0 *= slower;
        }
        compare(&format!("400 hosts, 1000 flows, 1/{slower} of the load"), &plan, threads, rounds);
    }
}
