//! `cargo run --release -p incast-packets --example work -- NAME [FLOWS]` carries out one of the works whose cost is kept in
//! `instructions.json` on one thread, and says how many packet-hops and how many seconds that took; without a name it lists them. `make bench` counts
//! instructions, and `make bench-works` times the works in turns.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use incast_packets::{Control, RunOptions, run};
use incast_plan::{Network, Plan};
use incast_protocols::Duration;
use incast_protocols::switch::marker::{MarkerChoice, ein};
use incast_testing::{
    add_rounds, bytes, cable, dctcp, leaf_spine_load, mark_at, packets, plan, shared, star, star_load, tcp,
};

const GBPS: u64 = 1_000_000_000;

/// Answers of `workers` that share one port, `rounds` times.
fn incast(workers: u32, rounds: u32) -> Plan {
    let network = star(workers + 1, cable(10 * GBPS, Duration::from_us(5)), &bytes(384 << 10), &mark_at(65));
    let mut plan = plan(network, dctcp(), tcp());
    add_rounds(&mut plan, workers, 64 << 10, rounds, |round, worker| {
        Duration(u64::from(round * 977 + worker * 13_331))
    });
    plan
}

fn with_links(mut plan: Plan, change: impl Fn(&mut incast_plan::Link)) -> Plan {
    let Network { links, .. } = &mut plan.network;
    links.iter_mut().for_each(change);
    plan
}

/// S2, the work on which ns-3 and htsim were measured, with this number of its flows.
fn leaf_spine(flows: u32) -> Plan {
    leaf_spine_load(20, 20, 10, flows, 1, 250, 65)
}

fn with_detector(plan: Plan) -> Plan {
    with_links(plan, |link| {
        if let Some(port) = link.port.as_mut().map(Arc::make_mut) {
            port.marker = MarkerChoice::Ein(ein::Config::default());
        }
    })
}

/// All ports of a switch share 4 MB.
fn with_shared_memory(mut plan: Plan) -> Plan {
    for switch in &mut plan.network.switches {
        switch.buffers.fill(shared(4_000_000, 1.0, 0));
    }
    plan
}

/// A name, and the plan with this many flows (or rounds).
type Work = (&'static str, u32, fn(u32) -> Plan);

const WORKS: [Work; 11] = [
    ("leaf-spine", 1_000, leaf_spine),
    ("leaf-spine, detector", 1_000, |flows| with_detector(leaf_spine(flows))),
    ("leaf-spine, shared", 1_000, |flows| with_shared_memory(leaf_spine(flows))),
    ("leaf-spine, shared, detector", 1_000, |flows| with_detector(with_shared_memory(leaf_spine(flows)))),
    ("leaf-spine, 100 Gbit/s", 1_000, |flows| {
        let mut plan = with_links(leaf_spine(flows), |link| {
            link.rate.0 *= 10;
            link.delay = Duration::from_us(1);
        });
        for send in &mut plan.sends {
            send.start.0 /= 10;
        }
        plan
    }),
    ("incast 127:1", 10, |rounds| incast(127, rounds)),
    ("incast 127:1, shared", 10, |rounds| with_shared_memory(incast(127, rounds))),
    ("incast 1000:1", 1, |rounds| incast(1_000, rounds)),
    ("star of 41, static", 2_000, |flows| star_load(41, flows, &packets(250))),
    ("star of 41, shared", 2_000, |flows| star_load(41, flows, &shared(4_000_000, 1.0, 0))),
    ("star of 401, shared", 2_000, |flows| star_load(401, flows, &shared(4_000_000, 1.0, 0))),
];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(name) = arguments.next() else {
        for (name, ..) in WORKS {
            println!("{name}");
        }
        return ExitCode::SUCCESS;
    };
    let Some((_, size, make)) = WORKS.iter().find(|work| work.0 == name) else {
        eprintln!("there is no work \"{name}\"; without a name they are listed");
        return ExitCode::from(2);
    };
    let size = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(*size);
    let plan = make(size);
    let control = Control::default();
    control.use_threads(NonZeroUsize::MIN);
    let begin = Instant::now();
    let run = run(&plan, &RunOptions::default(), &control).expect("the plan is sound");
    let run_s = begin.elapsed().as_secs_f64();
    println!("packet_hops={}\nrun_s={run_s}", run.totals.packet_hops);
    ExitCode::SUCCESS
}
