//! Any number of threads gives the same bytes.

use std::num::NonZeroUsize;

use incast_packets::{Control, Packets, RunError, RunOptions, run};
use incast_plan::{End, Handshake, Plan, Record, Reorder, WindowPerMessage};
use incast_protocols::{Bytes, Duration, Message, Time};
use incast_record::{Outcome, Run};
use incast_scenario::example;
use incast_world::World as _;

use crate::support::{
    add_endless_and_others, add_flow, add_job, add_rounds, assert_same, cable, dctcp, leaf_spine, leaf_spine_load,
    mark_at, new_reno, packets, plan, planned, star, tcp,
};

fn run_on(plan: &Plan, threads: usize) -> Run {
    let control = Control::default();
    control.use_threads(NonZeroUsize::new(threads).unwrap());
    run(plan, &RunOptions::default(), &control).unwrap()
}

fn threads(plan: &Plan, wish: usize) -> (usize, Option<String>) {
    let threads = Packets.threads(plan, NonZeroUsize::new(wish));
    (threads.count, threads.why)
}

/// Runs on 1 to `most` threads, demands identical results, and returns them.
fn run_on_up_to(plan: &Plan, most: usize) -> Run {
    let one = run_on(plan, 1);
    for count in 2..=most {
        assert_eq!(threads(plan, count), (count, None));
        assert_same(&one, &run_on(plan, count));
    }
    one
}

/// Four leaves: partition-aggregate requests across all of them, an incast at another host, and other traffic.
const BASE: &str = r#"
name = "all at once"
seed = 3
[topology]
kind = "leaf-spine"
leaves = 4
hosts_per_leaf = 4
spines = 3
host_link = { rate = "10Gbps", delay = "20us" }
fabric_link = { rate = "10Gbps", delay = "30us" }
[hosts]
noise = { kind = "none" }
[switch]
buffer = { name = "static", limit = "40packets", count_in_service = false }
marker = { name = "ecn-threshold", threshold = "20packets" }
[stack]
sender = "dctcp"
[tcp]
profile = "linux"
rto_min = "5ms"
[traffic.requests]
kind = "rounds"
aggregator = 1
workers = 14
response = "20KiB"
rounds = 3
jitter = "10us"
deadline = "3ms"
[traffic.queries]
kind = "incast"
senders = [0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
receiver = 2
size = "32KiB"
repetitions = 2
interval = "3ms"
connections = "persistent"
window = "restart-after-idle"
deadline = "2ms"
[traffic.background]
kind = "poisson"
load = 0.4
reference = "leaf-uplinks"
sizes = { kind = "log-normal", mean = "100KB", sigma = 1.0 }
until = "5ms"
"#;

/// With whatever may be at an end, a port or a switch.
#[test]
fn the_same_with_all_kinds_of_parts() {
    let dynamic = r#"switch.buffer={ name = "dynamic-threshold", size = "150KB", alpha = 1.0 }"#;
    let lossy = r#"topology.fabric_link={ rate = "10Gbps", delay = "30us", loss = 0.002, reorder = { probability = 0.02, extra = "30us" } }"#;
    let noisy = r#"hosts.noise={ kind = "exponential", mean = "1us" }"#;
    let kinds: &[&[&str]] = &[
        &[],
        &["stack.sender=newreno"],
        &["stack.sender=d2tcp"],
        &["stack.sender=cubic"],
        &["stack.sender=swift"],
        &["stack.sender=pulser", "switch.marker=ein"],
        &["stack.sender=dcmrg", "stack.receiver=dcmrg"],
        &["stack.sender=rdtcp", "stack.receiver=rdtcp"],
        &["stack.sender=hpcc", "switch.marker=telemetry"],
        &["stack.sender=newreno", "stack.receiver=ictcp"],
        &["stack.receiver=credit"],
        &["stack.application=fixed-window"],
        &["stack.application=sequential"],
        &["stack.application=ars"],
        &["stack.application=credit"],
        &["tcp.profile=ns3"],
        &["tcp.profile=paper"],
        &[dynamic],
        &[lossy],
        &[noisy],
        &[noisy, lossy, dynamic, "stack.application=credit"],
        &[noisy, "stack.sender=hpcc", "switch.marker=telemetry", lossy],
    ];
    let mut drops = 0;
    for changes in kinds {
        // Several at once go on three threads, too: where there are fewer processors these wait for each other.
        let most = if changes.len() > 2 { 3 } else { 2 };
        let run = run_on_up_to(&planned(BASE, changes), most);
        assert_eq!(run.outcome, Outcome::Complete, "{changes:?}");
        drops += run.totals.dropped;
    }
    assert!(drops > 500, "{drops}");
}

#[test]
fn the_same_with_hundreds_of_timeouts() {
    let run = run_on_up_to(&leaf_spine_load(20, 20, 10, 6_000, 1, 40, 38), 3);
    let timeouts: u32 = run.flows.iter().map(|flow| flow.losses.timeouts()).sum();
    assert!(run.totals.dropped > 10_000 && timeouts > 500, "{:?} {timeouts}", run.totals);
}

/// Everything but packets one by one, at every port.
#[test]
fn the_same_with_everything_written_down_that_can_be() {
    for detects in [false, true] {
        let mut plan = planned(BASE, if detects { &["stack.sender=pulser", "switch.marker=ein"] } else { &[] });
        let links = plan.network.links.iter().zip(0..).filter(|(link, _)| link.port.is_some());
        let ports: Vec<u32> = links.map(|(_, number)| number).collect();
        plan.record = Record {
            queue_statistics: true,
            queue_series: ports.clone(),
            window_series: (0..plan.connections.len() as u32).collect(),
            events: true,
            incasts: ports,
            ..Record::default()
        };
        let run = run_on_up_to(&plan, 4);
        assert!(run.ports.iter().all(|port| port.queue.is_some() || port.packets == 0));
        assert!(!run.queue_samples.is_empty() && !run.window_samples.is_empty() && !run.events.is_empty());
        assert!(!run.incasts.is_empty() && run.alarms.is_empty() != detects);
    }
}

/// What is too much is found at the end of the same window.
#[test]
fn the_same_when_a_run_ends_since_it_writes_down_too_much() {
    let mut plan = leaf_spine_load(4, 4, 2, 20_000, 3, 30, 20);
    plan.record.queue_series = vec![1, 3];
    let carry_out = |threads: usize| {
        let control = Control::default();
        control.use_threads(NonZeroUsize::new(threads).unwrap());
        control.limit_recorded(Bytes(40_000));
        let run = run(&plan, &RunOptions::default(), &control).unwrap();
        assert!(control.is_full() && run.outcome == Outcome::Interrupted);
        assert_eq!(control.progress().now, run.end);
        run
    };
    let one = carry_out(1);
    assert!(one.flows.iter().any(|flow| flow.end.is_none()));
    for threads in 2..=4 {
        assert_same(&one, &carry_out(threads));
    }
}

#[test]
fn the_same_in_a_dumbbell_of_which_each_side_is_a_part() {
    let text = example("dumbbell").unwrap();
    let plan = planned(text, &[]);
    assert_eq!(threads(&plan, 4), (2, Some("hosts are at 2 switches".to_owned())));
    run_on_up_to(&plan, 2);
}

#[test]
fn the_same_in_a_fat_tree() {
    let changes =
        ["topology.ports=4", "traffic.requests.workers=12", "traffic.requests.rounds=4", "traffic.background.flows=60"];
    run_on_up_to(&planned(example("fat-tree").unwrap(), &changes), 4);
}

/// Workers that open connections of their own, and jobs whose connections close.
#[test]
fn the_same_with_jobs_and_coflows() {
    let network = leaf_spine(4, 4, 2, cable(1_000_000_000, Duration::from_us(5)), &packets(20), &mark_at(10));
    let mut plan = plan(network, dctcp(), tcp());
    add_rounds(&mut plan, 15, 20_000, 4, |round, worker| Duration::from_us(u64::from((round * 7 + worker * 13) % 40)));
    let opened: Vec<u32> = (0..15)
        .map(|worker| {
            let mut own = plan.connections[worker as usize].clone();
            (own.client, own.server) = (own.server, own.client);
            own.window_per_message = WindowPerMessage::Kept;
            plan.connections.push(own);
            plan.connections.len() as u32 - 1
        })
        .collect();
    plan.aggregators[0].opened_by_workers = opened;
    for job in 0..40 {
        let workers: Vec<_> =
            (1..6).map(|step| ((job + step * 3) % 16, 9_000, Duration::from_us(u64::from(step)))).collect();
        let workers: Vec<_> = workers.into_iter().filter(|worker| worker.0 != job % 16).collect();
        add_job(&mut plan, job % 16, Time::from_us(1_000 + u64::from(job) * 50), &workers);
    }
    let run = run_on_up_to(&plan, 4);
    assert!(run.flows.iter().all(|flow| flow.end.is_some()));
    assert!(run.flows.iter().any(|flow| flow.deadline.is_some()));

    let changes =
        ["topology.hosts_per_leaf=8", "traffic.jobs.jobs=30", "traffic.jobs.fan_in=12", "traffic.background.until=5ms"];
    run_on_up_to(&planned(example("fork-join").unwrap(), &changes), 4);
}

#[test]
fn the_same_when_endless_flows_outlast_the_others_and_when_time_is_up() {
    for stop_at in [None, Some(Time(3_141_592_653))] {
        let network = leaf_spine(4, 2, 2, cable(1_000_000_000, Duration::from_us(20)), &packets(50), &mark_at(20));
        let mut plan = plan(network, dctcp(), tcp());
        plan.stop_at = stop_at;
        add_endless_and_others(&mut plan);
        let run = run_on_up_to(&plan, 4);
        assert!(run.flows[..3].iter().all(|flow| flow.end.is_none() && flow.delivered.0 > 0));
    }
}

#[test]
fn wires_that_reorder_may_lead_from_part_to_part() {
    let mut plan = leaf_spine_load(4, 4, 2, 300, 5, 30, 20);
    for link in &mut plan.network.links {
        link.reorder = Some(Reorder { probability: 0.1, extra: Duration::from_us(45) });
    }
    plan.classes[0].tcp.sack = true;
    run_on_up_to(&plan, 4);
}

#[test]
fn what_keeps_a_run_on_one_thread_is_said() {
    let network = star(5, cable(1_000_000_000, Duration::from_us(20)), &packets(50), &mark_at(20));
    let mut plan = plan(network, new_reno(), tcp());
    add_flow(&mut plan, 1, 0, Some(100_000), Time(0), Handshake::Counted);
    assert_eq!(threads(&plan, 2), (1, Some("all hosts are at one switch".to_owned())));
    assert_same(&run_on(&plan, 1), &run_on(&plan, 2));

    let mut plan = leaf_spine_load(4, 4, 2, 50, 1, 30, 20);
    plan.network.links[0].delay = Duration::ZERO;
    assert_eq!(threads(&plan, 2), (1, Some("event loop (a link has no delay)".to_owned())));
    assert_same(&run_on(&plan, 1), &run_on(&plan, 2));

    let mut plan = leaf_spine_load(4, 4, 2, 50, 1, 30, 20);
    plan.record.packets = vec![1];
    let why = "packets are recorded one by one, with options that travel beside them";
    assert_eq!(threads(&plan, 2), (1, Some(why.to_owned())));
    assert_same(&run_on(&plan, 1), &run_on(&plan, 2));

    let mut plan = leaf_spine_load(4, 4, 2, 50, 1, 30, 20);
    plan.sends[3] = plan.sends[3].clone().with_size_known_at(Some(Time::from_us(2000)));
    assert_eq!(threads(&plan, 2), (1, Some("messages tell their sizes in mid-flow".to_owned())));
    assert_same(&run_on(&plan, 1), &run_on(&plan, 2));
}

#[test]
fn errors_are_the_same_on_several_threads() {
    let mut plan = leaf_spine_load(4, 4, 2, 3, 1, 30, 20);
    for send in &mut plan.sends {
        send.set_message(Message { size: None, ..send.message() });
    }
    let control = Control::default();
    control.use_threads(NonZeroUsize::new(3).unwrap());
    let carry_out = |plan: &Plan| run(plan, &RunOptions::default(), &control).map(|run| run.outcome);
    assert_eq!(carry_out(&plan), Err(RunError::Endless));
    plan.sends[1].from = End::Server;
    plan.stop_at = Some(Time::from_us(3000));
    assert_eq!(carry_out(&plan), Err(RunError::NobodyOpens { connection: 1 }));
    plan.sends[1].from = End::Client;
    assert_eq!(carry_out(&plan), Ok(Outcome::TimeUp));
    control.cancel();
    plan.stop_at = Some(Time::from_us(100_000));
    assert_eq!(carry_out(&plan), Ok(Outcome::Interrupted));
}
