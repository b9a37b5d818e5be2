//! `cargo run --release -p incast-packets --example fingerprints -- [THREADS]` carries out the scenarios that come with the program and some
//! works that reach what they do not, and prints a hash of all results of each. Lines from before and after a change that is to
//! make nothing but speed are the same, and so are those for any number of threads.

use std::fmt::{self, Write};
use std::sync::Arc;

use incast_packets::{Control, RunOptions, run};
use incast_plan::{Plan, Record};
use incast_protocols::Duration;
use incast_protocols::switch::marker::{MarkerChoice, ein};
use incast_scenario::{EXAMPLES, Scenario};
use incast_testing::{
    add_rounds, bytes, cable, dctcp, leaf_spine_load, mark_at, new_reno, no_marks, packets, plan, shared, star,
    star_load, tcp,
};

/// FNV-1a over what is written into it.
struct Hash(u64);

impl Write for Hash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}

fn print(name: &str, plan: &Plan) {
    let control = Control::default();
    if let Some(threads) = std::env::args().nth(1).and_then(|text| text.parse().ok()) {
        control.use_threads(threads);
    }
    let run = run(plan, &RunOptions::default(), &control).expect("the plan is sound");
    let mut hash = Hash(0xcbf2_9ce4_8422_2325);
    write!(hash, "{run:?}").expect("a hash takes everything");
    println!("{name:32} {:016x}  packet-hops {}, drops {}", hash.0, run.totals.packet_hops, run.totals.dropped);
}

fn ports(plan: &Plan) -> Vec<u32> {
    plan.network.links.iter().zip(0..).filter(|(link, _)| link.port.is_some()).map(|(_, number)| number).collect()
}

/// Every queue, some connections and all events are written down.
fn queues_recorded(mut plan: Plan) -> Plan {
    let queue_series = ports(&plan);
    plan.record =
        Record { queue_statistics: true, queue_series, window_series: (0..20).collect(), events: true, ..plan.record };
    plan
}

/// Packets at every port, too.
fn recorded(plan: Plan) -> Plan {
    let mut plan = queues_recorded(plan);
    plan.record.packets = (0..plan.network.links.len() as u32).collect();
    plan.record.incasts = ports(&plan);
    plan
}

fn collapse() -> Plan {
    let network = star(31, cable(1_000_000_000, Duration::from_us(25)), &bytes(65_536), &no_marks());
    let mut plan = plan(network, new_reno(), tcp());
    add_rounds(&mut plan, 30, 65_536, 3, |round, worker| Duration::from_us(u64::from((round * 7 + worker * 13) % 40)));
    plan
}

fn detected() -> Plan {
    let mut plan = leaf_spine_load(6, 6, 3, 600, 2, 60, 20);
    for port in plan.network.links.iter_mut().filter_map(|link| link.port.as_mut().map(Arc::make_mut)) {
        port.marker = MarkerChoice::Ein(ein::Config::default());
    }
    plan
}

fn incast() -> Plan {
    let network = star(65, cable(10_000_000_000, Duration::from_us(5)), &bytes(128 << 10), &mark_at(65));
    let mut plan = plan(network, dctcp(), tcp());
    add_rounds(&mut plan, 64, 64 << 10, 3, |round, worker| Duration(u64::from(round * 977 + worker * 13_331)));
    plan
}

fn main() {
    for (name, text) in EXAMPLES {
        let scenario = Scenario::parse(text, name, &[]).expect("what comes with the program is sound");
        print(name, &scenario.plan(None).expect("what comes with the program can be planned"));
    }
    print("leaf-spine, short of memory", &leaf_spine_load(20, 20, 10, 2_000, 1, 40, 38));
    print("leaf-spine, all recorded", &recorded(leaf_spine_load(4, 4, 2, 300, 3, 30, 20)));
    print("leaf-spine, detector", &detected());
    print("leaf-spine, detector, recorded", &recorded(detected()));
    print("incast 64:1", &incast());
    print("collapse", &collapse());
    print("shared memory", &star_load(41, 1_000, &shared(400_000, 1.0, 0)));
    print("shared memory with reserve", &star_load(41, 1_000, &shared(300_000, 0.5, 3_000)));
    print("shared memory, queues recorded", &queues_recorded(star_load(41, 1_000, &shared(400_000, 1.0, 0))));
    print("static limits", &star_load(41, 1_000, &packets(60)));
}
