//! The ideal model: unloaded completion times at any load, and the throughput of max-min fair shares.

use incast_ideal::Ideal;
use incast_plan::{Handshake, Plan, Send};
use incast_protocols::{Bytes, Duration, Message, Time};
use incast_record::{Flow, Outcome, Run};
use incast_scenario::{Override, Scenario, example};
use incast_testing::{add_flow, add_rounds, cable, leaf_spine, mark_at, new_reno, no_marks, packets, plan, star, tcp};
use incast_world::{Control, Cost, RunError, World as _};

fn computed(plan: &Plan) -> Run {
    Ideal.run(plan, &Control::default()).unwrap()
}

/// Hosts at 1 Gbit/s, 10 us from their switch; segments of 1460 and 40 bytes.
fn on_a_star(hosts: u32) -> Plan {
    let network = star(hosts, cable(1_000_000_000, Duration::from_us(10)), &packets(10), &no_marks());
    plan(network, new_reno(), tcp())
}

fn of_example(name: &str, changes: &[&str]) -> Run {
    let changes: Vec<Override> = changes.iter().map(|change| Override::parse(change).unwrap()).collect();
    let scenario = Scenario::parse(example(name).unwrap(), name, &changes).unwrap_or_else(|report| panic!("{report}"));
    computed(&scenario.plan(None).unwrap())
}

fn payload(run: &Run) -> u64 {
    run.flows.iter().map(|flow| flow.delivered.0).sum()
}

/// A segment takes 12 us, and each way has two hops: 100 of them take 1200 us, and the last 12 + 20 us more.
#[test]
fn who_is_alone_has_the_line() {
    let mut plan = on_a_star(2);
    add_flow(&mut plan, 1, 0, Some(146_000), Time::from_us(5), Handshake::Counted);
    let run = computed(&plan);
    let flow = &run.flows[0];
    assert_eq!((run.driver.as_str(), run.outcome), ("ideal (computed, no packets)", Outcome::Complete));
    assert_eq!((flow.end, flow.fluid_end), (Some(Time::from_us(5 + 1232)), Some(Time::from_us(5 + 1200))));
    assert_eq!(flow.completion_time(), flow.ideal);
    assert_eq!(flow.throughput_bps(), Some(1e9 * 146_000.0 / 150_000.0));
    // All has arrived when the run ends.
    assert_eq!((run.end, flow.delivered), (flow.end.unwrap(), Bytes(146_000)));
    assert_eq!(run.totals, incast_record::Totals::default());
    assert_eq!(run.ports.iter().map(|port| (port.link, port.packets)).collect::<Vec<_>>(), [(1, 0), (3, 0)]);
}

#[test]
fn a_result_says_of_which_run_it_is() {
    let mut plan = on_a_star(2);
    add_flow(&mut plan, 1, 0, Some(1460), Time(0), Handshake::Counted);
    plan.name = "a star".to_owned();
    plan.seed = 7;
    plan.classes[0].name = "bursts".to_owned();
    plan.warnings = vec!["it is overloaded".to_owned()];
    let run = computed(&plan);
    assert_eq!((run.name.as_str(), run.seed), ("a star", 7));
    assert_eq!((run.classes, run.warnings), (vec!["bursts".to_owned()], vec!["it is overloaded".to_owned()]));
}

/// Three send to one, and one of them to another as well: of its own link the first message takes a third.
#[test]
fn messages_share_links_and_complete_as_if_they_did_not() {
    let mut plan = on_a_star(5);
    for from in 1..4 {
        add_flow(&mut plan, from, 0, Some(1460), Time(0), Handshake::Counted);
    }
    add_flow(&mut plan, 1, 4, Some(1460), Time(0), Handshake::Counted);
    let run = computed(&plan);
    let ends: Vec<u64> = run.flows.iter().map(|flow| flow.fluid_end.unwrap().0).collect();
    // 12 us of the line at two thirds of it; the others three times 12 us.
    assert!(ends.iter().zip([36, 36, 36, 18]).all(|(end, us)| end.abs_diff(us * 1_000_000) <= 1), "{ends:?}");
    assert!(run.flows.iter().all(|flow| flow.end == Some(Time::from_us(44))));
    // The last was served after 36 us, and takes 12 us and 20 us more.
    assert!(run.end.0.abs_diff(68_000_000) <= 1, "{}", run.end);
}

/// Messages of one end of a connection are served in turn; to each the wait counts in its throughput, to none in
/// its completion time. What comes from the other end has the other direction to itself.
#[test]
fn messages_of_one_end_follow_each_other() {
    let mut plan = on_a_star(2);
    add_flow(&mut plan, 1, 0, Some(1460), Time(0), Handshake::Before);
    let send = plan.sends[0].clone();
    let sent = |from, start| Send::new(send.connection, from, start, send.message());
    let (client, server) = (incast_plan::End::Client, incast_plan::End::Server);
    plan.sends.extend([sent(client, Time(0)), sent(server, Time(0)), sent(client, Time::from_us(30))]);
    let run = computed(&plan);
    let ends: Vec<Time> = run.flows.iter().map(|flow| flow.fluid_end.unwrap()).collect();
    let mut first = [ends[0], ends[1]];
    first.sort_unstable();
    assert_eq!((first, ends[2], ends[3]), ([12, 24].map(Time::from_us), Time::from_us(12), Time::from_us(42)));
    let took: Vec<Option<Duration>> = run.flows[..].iter().map(Flow::completion_time).collect();
    assert_eq!(took, [Some(Duration::from_us(44)); 4]);
}

#[test]
fn completion_times_are_the_same_at_any_load() {
    let at = |load: &str| {
        of_example("leaf-spine", &["traffic.messages.flows=3000", &format!("traffic.messages.load={load}")])
    };
    let throughput = |run: &Run| {
        let long: Vec<f64> = run
            .flows
            .iter()
            .filter(|flow| flow.size == Some(Bytes(1 << 20)))
            .filter_map(|flow| flow.throughput_bps())
            .collect();
        long.iter().sum::<f64>() / long.len() as f64
    };
    let (low, high) = (at("0.1"), at("1.6"));
    for (low, high) in low.flows.iter().zip(&high.flows) {
        assert_eq!((low.source, low.destination, low.size), (high.source, high.destination, high.size));
        assert_eq!(low.completion_time(), low.ideal);
        assert_eq!(low.completion_time(), high.completion_time());
    }
    // Alone it would be 9.7 Gbit/s; how much is left of that is what the network allows.
    assert!(throughput(&low) > 8e9 && throughput(&high) < 5e9, "{} {}", throughput(&low), throughput(&high));
    for run in [low, high] {
        assert_eq!(run.outcome, Outcome::Complete);
        assert_eq!(run.delivered.bytes.iter().sum::<u64>(), payload(&run));
        assert_eq!(payload(&run), run.flows.iter().filter_map(|flow| flow.size).map(|size| size.0).sum::<u64>());
        assert!(run.flows.iter().all(|flow| flow.end.unwrap() <= run.end && flow.fluid_end.unwrap() <= run.end));
    }
}

/// The same paths are taken as by packets: where two flows share an uplink, they share it here.
#[test]
fn paths_are_those_of_packets() {
    let network = leaf_spine(2, 4, 4, cable(1_000_000_000, Duration::from_us(10)), &packets(100), &mark_at(20));
    let mut plan = plan(network, new_reno(), tcp());
    for (from, to) in [(0, 4), (1, 5), (2, 6), (3, 7)] {
        add_flow(&mut plan, from, to, Some(1_460_000), Time(0), Handshake::Before);
    }
    for seed in 1..6 {
        plan.seed = seed;
        let packets = incast_packets::Packets.run(&plan, &Control::default()).unwrap();
        let uplinks = packets.ports.iter().filter(|port| port.from == "leaf 0" && port.to.starts_with("spine"));
        // A thousand of each flow, and few that were sent again.
        let busiest = (uplinks.map(|port| port.packets).max().unwrap() + 300) / 1000;
        let last = computed(&plan).flows.iter().filter_map(|flow| flow.fluid_end).max().unwrap();
        // With k flows on the busiest uplink the last of them is served after k times 12 ms.
        assert!(last.0.abs_diff(busiest * 12_000_000_000) <= 5, "seed {seed}: {last}, {busiest} on one uplink");
    }
}

/// A request of 64 bytes takes 0.832 us per hop and 20 us on wires, the responses of both workers share the line.
#[test]
fn the_next_round_begins_when_the_last_response_has_arrived() {
    let mut plan = on_a_star(3);
    add_rounds(&mut plan, 2, 1460, 3, |_, worker| Duration::from_us(u64::from(worker)));
    plan.aggregators[0].rounds[1].responses[0].service_time = Duration::from_us(50);
    plan.aggregators[0].rounds[1].responses[0].message.deadline = Some(Time::from_us(200));
    let run = computed(&plan);
    let request = 2.0 * 0.832 + 20.0;
    let of = |flow: usize| &run.flows[flow];
    let starts_us = |flow: usize| of(flow).start.as_secs_f64() * 1e6;
    // The first round: asked at 1000 and 1001 us. The second response finds the line taken by the first for 11 us.
    assert!((starts_us(0) - 1000.0).abs() < 1e-6 && (starts_us(1) - 1001.0).abs() < 1e-6);
    let fct_us = |flow: usize| of(flow).completion_time().unwrap().as_secs_f64() * 1e6;
    assert!((fct_us(0) - (request + 44.0)).abs() < 1e-6 && (fct_us(1) - (request + 44.0)).abs() < 1e-6);
    let served_us = |flow: usize| of(flow).fluid_end.unwrap().as_secs_f64() * 1e6;
    // 1 us alone, 22 us each at half the rate; 1 us of the second is left.
    assert!((served_us(0) - (1000.0 + request + 23.0)).abs() < 1e-5, "{}", served_us(0));
    assert!((served_us(1) - (1000.0 + request + 24.0)).abs() < 1e-5, "{}", served_us(1));
    let second = 1000.0 + request + 24.0 + 32.0;
    assert!((starts_us(2) - second).abs() < 1e-5, "{} {second}", starts_us(2));
    assert!((fct_us(2) - (request + 50.0 + 44.0)).abs() < 1e-5 && (fct_us(3) - (request + 44.0)).abs() < 1e-5);
    assert_eq!(of(2).deadline, Some(Time(of(2).start.0 + 200_000_000)));
    assert_eq!((run.flows.len(), run.outcome), (6, Outcome::Complete));
    // Requests are payload, too.
    assert_eq!(run.delivered.bytes.iter().sum::<u64>(), payload(&run) + 6 * 64);
}

#[test]
fn rounds_of_a_scenario_fill_the_line() {
    let run = of_example("incast", &["traffic.requests.workers=40"]);
    assert_eq!((run.flows.len(), run.outcome), (800, Outcome::Complete));
    assert!(run.flows.iter().all(|flow| flow.end.is_some()));
    let bps = payload(&run) as f64 * 8.0 / run.end.as_secs_f64();
    // 1024 of 1064 bytes are payload; each round loses a round trip and the jitter of 20 us of 22 ms.
    assert!(bps > 0.95e9 && bps < 1e9 * 1024.0 / 1064.0, "{bps}");
}

/// A flow without end, and a message that takes 960 us of the line and so twice as long beside it.
#[test]
fn what_has_no_end_shares_until_the_others_are_done_or_time_is_up() {
    let mut plan = on_a_star(3);
    add_flow(&mut plan, 1, 0, None, Time(0), Handshake::Counted);
    assert_eq!(Ideal.run(&plan, &Control::default()).unwrap_err(), RunError::Endless);
    add_flow(&mut plan, 2, 0, Some(116_800), Time(0), Handshake::Counted);
    let alone = computed(&plan);
    assert_eq!((alone.outcome, alone.flows[0].end), (Outcome::Complete, None));
    // Until the message's last segment has gone its way.
    assert_eq!((alone.flows[1].fluid_end, alone.end), (Some(Time::from_us(1920)), Time::from_us(1920 + 32)));
    // As much, and then 32 us of the line: 4000 bytes, of which 1460 in 1500 are payload.
    assert_eq!(alone.flows[0].delivered, Bytes(116_800 + 3893));
    plan.stop_at = Some(Time::from_us(960));
    let stopped = computed(&plan);
    assert_eq!((stopped.outcome, stopped.end), (Outcome::TimeUp, Time::from_us(960)));
    assert_eq!((stopped.flows[1].end, stopped.flows[1].fluid_end), (None, None));
    assert_eq!(stopped.flows.iter().map(|flow| flow.delivered.0).collect::<Vec<_>>(), [58_400; 2]);
    assert_eq!(stopped.delivered.bytes.iter().sum::<u64>(), payload(&stopped));
    // What has no end goes on after the message, alone for 90 segments, if time is not up.
    plan.stop_at = Some(Time::from_us(3000));
    let stopped = computed(&plan);
    assert_eq!((stopped.outcome, stopped.end), (Outcome::TimeUp, Time::from_us(3000)));
    assert_eq!(stopped.flows[0].delivered, Bytes(116_800 + 90 * 1460));
}

/// At 1 bit/s it would take longer than time lasts.
#[test]
fn a_run_ends_with_the_last_that_happened_if_the_rest_is_never_served() {
    let network = star(2, cable(1, Duration::from_us(1)), &packets(10), &no_marks());
    let mut plan = plan(network, new_reno(), tcp());
    add_flow(&mut plan, 1, 0, Some(1 << 40), Time::from_us(7), Handshake::Before);
    let run = computed(&plan);
    assert_eq!((run.outcome, run.end, run.flows[0].end), (Outcome::TimeUp, Time::from_us(7), None));
}

#[test]
fn more_messages_take_more_memory_beside_what_a_process_takes() {
    let cost = |messages| {
        let mut plan = on_a_star(2);
        for _ in 0..messages {
            add_flow(&mut plan, 1, 0, Some(1460), Time(0), Handshake::Counted);
        }
        Ideal.cost(&plan).memory
    };
    assert!(Cost::PROCESS < cost(1) && cost(1) < cost(1000));
}

/// A message that was served but would arrive only after the end is not complete.
#[test]
fn what_has_not_arrived_by_the_end_is_not_complete() {
    let mut plan = on_a_star(2);
    add_flow(&mut plan, 1, 0, Some(1460), Time(0), Handshake::Counted);
    for (stop_us, complete) in [(44, false), (45, true)] {
        plan.stop_at = Some(Time::from_us(stop_us));
        let run = computed(&plan);
        assert_eq!((run.flows[0].end.is_some(), run.flows[0].delivered), (complete, Bytes(1460)));
        assert_eq!((run.outcome == Outcome::Complete, run.end), (complete, Time::from_us(44)));
    }
}

#[test]
fn what_is_stopped_from_outside_has_what_was_finished() {
    let control = Control::default();
    control.cancel();
    let mut plan = on_a_star(2);
    add_flow(&mut plan, 1, 0, Some(1460), Time::from_us(3), Handshake::Counted);
    let run = Ideal.run(&plan, &control).unwrap();
    assert_eq!((run.outcome, run.end, run.flows[0].end), (Outcome::Interrupted, Time(0), None));
}

#[test]
fn the_end_is_told_to_whoever_watches() {
    let control = Control::default();
    let mut plan = on_a_star(2);
    add_flow(&mut plan, 1, 0, Some(1460), Time(0), Handshake::Counted);
    Ideal.run(&plan, &control).unwrap();
    let progress = control.progress();
    assert_eq!((progress.messages_done, progress.messages_total, progress.packet_hops), (1, 1, 0));
    assert_eq!(progress.now, Time::from_us(44));
}

#[test]
fn a_link_beyond_what_can_be_counted_is_refused() {
    let network = star(2, cable(30_000_000_000_000, Duration::from_us(1)), &packets(10), &no_marks());
    let mut plan = plan(network, new_reno(), tcp());
    add_flow(&mut plan, 1, 0, Some(1460), Time(0), Handshake::Counted);
    let error = Ideal.run(&plan, &Control::default()).unwrap_err().to_string();
    assert!(error.contains("link 0 is too fast for the ideal model: 30000Gbps"), "{error}");
}

/// Every example, in which stacks, losses and what is recorded play no part.
#[test]
fn every_example_can_be_computed_and_gives_the_same_again() {
    for (name, changes) in [
        ("incast", &[][..]),
        ("dumbbell", &[]),
        ("leaf-spine", &["traffic.messages.flows=2000"]),
        ("poisson", &[]),
        ("custom", &[]),
    ] {
        let first = of_example(name, changes);
        assert!(first.flows.iter().any(|flow| flow.end.is_some()), "{name}");
        assert!(first.flows.iter().all(|flow| flow.end.is_none_or(|end| end <= first.end)), "{name}");
        assert!(first == of_example(name, changes), "{name}");
    }
}

/// The message's facts reach the results as they do with packets.
#[test]
fn deadlines_are_held_against_completion_times() {
    let mut plan = on_a_star(3);
    for from in 1..3 {
        add_flow(&mut plan, from, 0, Some(1460), Time(0), Handshake::Counted);
    }
    let told = plan.sends[0].message();
    plan.sends[0].set_message(Message { deadline: Some(Time::from_us(44)), ..told });
    let told = plan.sends[1].message();
    plan.sends[1].set_message(Message { deadline: Some(Time::from_us(43)), ..told });
    let run = computed(&plan);
    assert_eq!(run.flows[0].deadline_met(run.end), Some(true));
    assert_eq!(run.flows[1].deadline_met(run.end), Some(false));
}

/// No job waits for another: its answers begin with it.
#[test]
fn jobs_that_fork_and_join_complete() {
    let changes =
        ["traffic.jobs.jobs=20", "traffic.background.until=2ms"].map(|change| Override::parse(change).unwrap());
    let scenario = Scenario::parse(example("fork-join").unwrap(), "fork-join", &changes).unwrap();
    let plan = scenario.plan(None).unwrap();
    let run = computed(&plan);
    let mut answers = &run.flows[plan.sends.len()..];
    for job in &plan.aggregators {
        let (of_job, rest) = answers.split_at(job.workers.len());
        assert!(of_job.iter().all(|one| one.begin == job.start && one.end > Some(job.start)));
        answers = rest;
    }
    assert!(plan.aggregators.len() == 20 && answers.is_empty());
}

/// What asks for packets is refused, key by key; what is recorded anyway is not.
#[test]
fn what_has_no_meaning_without_packets_is_refused() {
    let mut plan = on_a_star(3);
    plan.record.queue_statistics = true;
    assert_eq!((Ideal.name(), Ideal.refusals(&plan)), ("ideal", Vec::new()));
    plan.record.queue_series = vec![1];
    plan.record.window_series = vec![0];
    plan.record.packets = vec![1];
    plan.record.events = true;
    plan.record.incasts = vec![1];
    let keys: Vec<String> = Ideal.refusals(&plan).iter().map(|refusal| refusal.key.join(".")).collect();
    assert_eq!(
        keys,
        ["record.queue_series", "record.window_series", "record.packets", "record.events", "record.incasts"]
    );
}
