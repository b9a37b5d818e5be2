//! What pilots of long and of large runs tell, against what these runs took. They are too long to be run here.

use incast::{Control, Job, Pilot, Scenario, Told};

/// What both scenarios have.
const COMMON: &str = r#"
[hosts]
noise = { kind = "none" }
[switch]
buffer = { name = "static", limit = "100packets", count_in_service = false }
[stack]
sender = "newreno"
"#;

fn told(text: &str) -> Told {
    let scenario = Scenario::parse(&[COMMON, text].concat(), "s.toml", &[]).unwrap_or_else(|report| panic!("{report}"));
    let job = Job::new(&scenario, None, None).unwrap_or_else(|report| panic!("{report}"));
    let cost = job.world.cost(&job.plan);
    let pilot = Pilot::new(job, &cost).unwrap();
    let control = Control::default();
    Pilot::limit(&control);
    pilot.job.world.run(&pilot.job.plan, &control).unwrap();
    pilot.told(&control).unwrap()
}

#[track_caller]
fn assert_within_half(told: u64, took: f64) {
    let factor = took / told as f64;
    assert!((0.67..=1.5).contains(&factor), "{told} told, {took} taken: {factor:.2}");
}

/// Its plan takes more memory than a pilot may, and its packets are lost so evenly that after a million packet-hops no more
/// connections are open than twice as many as planned.
#[test]
fn connections_that_wait_for_a_timer_accumulate_beyond_the_pilot() {
    let told = told(
        r#"
[topology]
kind = "dumbbell"
left = 32
right = 4
edge_link = { rate = "25Gbps", delay = "50us" }
core_link = { rate = "40Gbps", delay = "50us" }
[tcp]
profile = "linux"
[traffic.a]
kind = "fork-join"
schedulers = 2
fan_in = 6
jobs = 200000
load = 0.8
sizes = { kind = "uniform", min = "1KB", max = "4KB" }
task_time = "0us"
"#,
    );
    assert_within_half(told.cost.packet_hops, 29_253_634.0);
    assert_within_half(told.cost.open_ends, 180_842.0);
    assert!(!told.is_guess);
}

/// A third of its workers lose a quarter as much for each packet, and do not come to their end.
#[test]
fn more_workers_lose_more_for_each_packet() {
    let told = told(
        r#"
[topology]
kind = "star"
hosts = 60001
link = { rate = "10Gbps", delay = "1us" }
[tcp]
profile = "paper"
[traffic.a]
kind = "rounds"
workers = 60000
response = "30KB"
rounds = 1
jitter = "5000us"
"#,
    );
    assert_within_half(told.cost.packet_hops, 18_430_000.0);
    assert!(told.is_guess);
}
