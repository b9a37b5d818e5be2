//! Jobs that fork and join, from the scenario to the table of coflows.

use crate::support::{add_job, add_rounds, cable, new_reno, no_marks, packets, plan, planned, run_both, star, tcp};
use incast_plan::Plan;
use incast_protocols::receiver::{ReceiverChoice, dcmrg};
use incast_protocols::sender::SenderChoice;
use incast_protocols::stack::EndStack;
use incast_protocols::{Duration, Time};
use incast_record::{Outcome, Run};
use incast_scenario::example;
use incast_tables::summary_json;

fn forks(overrides: &[&str]) -> Plan {
    planned(example("fork-join").unwrap(), overrides)
}

/// The answers of each job, which begin with it.
fn jobs<'a>(plan: &'a Plan, run: &'a Run) -> impl Iterator<Item = (Time, &'a [incast_record::Flow])> {
    let mut answers = &run.flows[plan.sends.len()..];
    plan.aggregators.iter().map(move |job| {
        let (of_job, rest) = answers.split_at(job.workers.len());
        answers = rest;
        (job.start, of_job)
    })
}

/// By hand, on links of 1 Gbit/s and 25 us: the handshake's 101.28 us, its ACK (0.32 us) ahead of the request (8.32 us for each of
/// two hops), the task, and the answer (12 us for each). SYN, SYN-ACK, ACK, request, its ACK, answer and its ACK
/// are seven packets: both FINs travel with data.
#[test]
fn an_answer_on_an_idle_network_takes_what_its_parts_take() {
    let network = star(3, cable(1_000_000_000, Duration::from_us(25)), &packets(100), &no_marks());
    let mut plan = plan(network, new_reno(), tcp());
    add_job(&mut plan, 0, Time::from_us(700), &[(2, 1460, Duration::from_us(1000))]);
    plan.aggregators[0].request = incast_protocols::Bytes(1000);
    let run = run_both(&plan);
    let flow = &run.flows[0];
    assert_eq!((flow.begin, flow.start), (Time::from_us(700), Time::from_us(700)));
    assert_eq!(flow.deadline, Some(Time::from_us(2700)));
    assert_eq!(
        flow.completion_time(),
        Some(Duration::from_ns(101_280 + 320 + 16_640 + 50_000 + 1_000_000 + 24_000 + 50_000))
    );
    assert_eq!((run.totals.sent, run.totals.in_network), (7, 0));
}

/// As above, but the worker opens a connection of its own: the task is over 50 us and 16.64 us after the scheduler has opened
/// its connection and asked, and a handshake later the answer leaves behind an ACK of 0.32 us. Three packets more each for the
/// second handshake and the end of the first connection, of which one is saved: the answer's ACK acknowledges no request.
#[test]
fn an_answer_may_have_a_handshake_of_its_own() {
    let network = star(3, cable(1_000_000_000, Duration::from_us(25)), &packets(100), &no_marks());
    let mut plan = plan(network, new_reno(), tcp());
    add_job(&mut plan, 0, Time::from_us(700), &[(2, 1460, Duration::from_us(1000))]);
    plan.aggregators[0].request = incast_protocols::Bytes(1000);
    let asked = plan.connections[0].clone();
    plan.connections.push(incast_plan::Connection { client: asked.server, server: asked.client, ..asked });
    plan.aggregators[0].opened_by_workers = vec![1];
    plan.validate().unwrap();
    let run = run_both(&plan);
    let flow = &run.flows[0];
    assert_eq!((flow.source, flow.destination, flow.connection), (2, 0, 1));
    assert_eq!(flow.deadline, Some(Time::from_us(2700)));
    assert_eq!(
        flow.completion_time(),
        Some(Duration::from_ns(101_280 + 320 + 16_640 + 50_000 + 1_000_000 + 101_280 + 320 + 24_000 + 50_000))
    );
    assert_eq!(run.totals.in_network, 0);
}

/// DCMRG's receiver learns of a flow by its SYN, so that its first flight is held to what the SYN-ACK announces. The n-th of 40
/// answers of ten segments may have 1/n of 83 segments then: 213 packets together, at a port that holds 100, instead of 400.
#[test]
fn no_answer_begins_beyond_its_allocation() {
    let first_flight = |receiver: ReceiverChoice| {
        let network = star(41, cable(10_000_000_000, Duration::from_us(25)), &packets(100), &no_marks());
        let stack = EndStack { sender: SenderChoice::Mrg(Default::default()), receiver, ..new_reno() };
        let mut plan = plan(network, stack, tcp());
        plan.classes[0].tcp.initial_window_segments = 10;
        let workers: Vec<_> = (1..41).map(|worker| (worker, 14_600, Duration::from_us(100))).collect();
        add_job(&mut plan, 0, Time::from_us(1), &workers);
        let own: Vec<_> = plan.connections.iter().map(|asked| (asked.server, asked.client)).collect();
        plan.aggregators[0].opened_by_workers = (40..80).collect();
        for (client, server) in own {
            let like = plan.connections[0].clone();
            plan.connections.push(incast_plan::Connection { client, server, ..like });
        }
        run_both(&plan).totals.dropped
    };
    let held = first_flight(ReceiverChoice::Dcmrg(dcmrg::Config::default()));
    let free = first_flight(ReceiverChoice::None(Default::default()));
    assert!(held < 150 && free > 250, "{held} {free}");
}

/// Requests that leave late are late within their round.
#[test]
fn a_coflow_begins_with_its_round_and_not_with_its_first_request() {
    let network = star(3, cable(1_000_000_000, Duration::from_us(25)), &packets(100), &no_marks());
    let mut plan = plan(network, new_reno(), tcp());
    add_rounds(&mut plan, 2, 1000, 2, |_, worker| Duration::from_us(5 + u64::from(worker)));
    let run = run_both(&plan);
    let begins: Vec<Time> = run.flows.iter().map(|flow| flow.begin).collect();
    let second = run.flows[..2].iter().filter_map(|flow| flow.end).max().unwrap();
    assert_eq!(begins, [Time::from_us(1000), Time::from_us(1000), second, second]);
    assert!(run.flows.iter().zip([5, 6, 5, 6]).all(|(flow, us)| flow.start == flow.begin + Duration::from_us(us)));
}

#[test]
fn jobs_are_the_same_with_both_drivers_and_their_table_says_what_their_answers_say() {
    let plan = forks(&[
        "traffic.jobs.jobs=60",
        "traffic.background.until=8ms",
        "traffic.jobs.load=0.9",
        "traffic.jobs.deadline=9ms",
    ]);
    let run = run_both(&plan);
    assert_eq!(run.outcome, Outcome::Complete);
    let (mut missed, mut times) = (0, Vec::new());
    for (arrival, answers) in jobs(&plan, &run) {
        assert!(answers.iter().all(|one| one.begin == arrival && one.start == arrival));
        assert!(answers.iter().all(|one| one.deadline == Some(arrival + Duration::from_ms(9))));
        assert!(answers.iter().all(|one| one.coflow == answers[0].coflow && one.size == Some(one.delivered)));
        let last = answers.iter().filter_map(|one| one.end).max().unwrap();
        missed += u64::from(last > arrival + Duration::from_ms(9));
        times.push(last.since(arrival));
    }
    times.sort_unstable();
    assert_eq!(times.len(), 60);
    assert!(missed > 0 && missed < 60, "{missed}");
    let summary = summary_json(&run);
    let row = &summary["classes"]["jobs"];
    assert_eq!((row["coflows"].as_u64(), row["coflows_complete"].as_u64()), (Some(60), Some(60)));
    assert_eq!((row["coflow_deadlines"].as_u64(), row["coflow_deadlines_missed"].as_u64()), (Some(60), Some(missed)));
    assert_eq!(row["cct_p90_s"].as_f64(), Some(times[53].as_secs_f64()));
    assert_eq!(summary["classes"]["background"]["coflows"].as_u64(), Some(0));
    assert_eq!(summary["coflows"].as_u64(), Some(60));
}

/// Those that had not arrived by then are messages of the run, but no coflows of it.
#[test]
fn jobs_after_the_end_of_a_run_are_not_counted() {
    let plan = forks(&["traffic.background.until=1ms", "run.stop_at=8ms"]);
    let run = run_both(&plan);
    let arrived = plan.aggregators.iter().filter(|job| job.start <= run.end).count();
    assert!(arrived > 0 && arrived < plan.aggregators.len());
    let row = &summary_json(&run)["classes"]["jobs"];
    assert_eq!(row["coflows"].as_u64(), Some(arrived as u64));
    assert!(row["coflows_complete"].as_u64() < Some(arrived as u64));
}
