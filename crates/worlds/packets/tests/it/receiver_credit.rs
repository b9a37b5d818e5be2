//! The receiver "credit" with live traffic: 1 Gbit/s, 96 KB before the aggregator, an RTO of at least 200 ms.

use crate::support::{add_flow, add_job, add_rounds, bytes, cable, new_reno, no_marks, plan, run_both, star, tcp};
use incast_plan::{DelayedAck, Handshake, Plan, Tcp, WindowPerMessage, WindowScaling};
use incast_protocols::receiver::{ReceiverChoice, credit};
use incast_protocols::stack::EndStack;
use incast_protocols::{Bytes, Duration, Time};
use incast_record::Run;

/// 64 full packets.
const PORT: u64 = 96_896;

fn settings() -> Tcp {
    Tcp {
        mss: Bytes(1448),
        header: Bytes(66),
        initial_window_segments: 10,
        rto_min: Duration::from_ms(200),
        rto_initial: Duration::from_ms(1000),
        receive_buffer: Bytes(4 << 20),
        ..tcp()
    }
}

/// An aggregator, its workers and senders of long flows, all with the receiver, or none.
fn incast(receiver: ReceiverChoice, workers: u32, response: u64, long: u32, tcp: Tcp) -> Plan {
    let network = star(1 + workers + long, cable(1_000_000_000, Duration::from_us(25)), &bytes(PORT), &no_marks());
    let mut plan = plan(network, EndStack { receiver, ..new_reno() }, tcp);
    for sender in 1 + workers..=workers + long {
        add_flow(&mut plan, sender, 0, None, Time(0), Handshake::Before);
    }
    add_rounds(&mut plan, workers, response, 4, |_, _| Duration::ZERO);
    for connection in &mut plan.connections {
        connection.window_per_message = WindowPerMessage::Kept;
    }
    plan
}

fn none() -> ReceiverChoice {
    ReceiverChoice::None(Default::default())
}

fn credit() -> ReceiverChoice {
    ReceiverChoice::Credit(credit::Config::default())
}

fn timeouts(run: &Run) -> u32 {
    run.flows.iter().map(|flow| flow.losses.timeouts()).sum()
}

/// Of the rounds, as a share of the line.
fn goodput(run: &Run) -> f64 {
    let asked = run.flows.iter().filter(|flow| flow.size.is_some());
    let (mut received, mut begin, mut end) = (0, Time::NEVER, Time(0));
    for flow in asked {
        received += flow.delivered.0;
        begin = begin.min(flow.begin);
        end = end.max(flow.end.unwrap());
    }
    8e-9 * received as f64 / end.since(begin).as_secs_f64()
}

#[test]
fn nothing_is_lost_however_many_answer() {
    for (workers, response) in [(4, 256_000), (40, 32_000), (300, 2_000), (1000, 2_000), (1000, 64)] {
        let run = run_both(&incast(credit(), workers, response, 0, settings()));
        assert_eq!((run.totals.dropped, timeouts(&run)), (0, 0), "{workers} x {response}");
        if response > 64 {
            assert!(goodput(&run) > 0.8, "{workers} x {response}: {}", goodput(&run));
        }
    }
    let run = run_both(&incast(none(), 40, 32_000, 0, settings()));
    assert!(timeouts(&run) > 0 && goodput(&run) < 0.1, "{}", goodput(&run));
}

#[test]
fn long_flows_and_responses_share_the_port_without_loss() {
    let run = run_both(&incast(credit(), 20, 32_000, 2, settings()));
    assert_eq!((run.totals.dropped, timeouts(&run)), (0, 0));
    assert!(goodput(&run) > 0.6, "{}", goodput(&run));
    let long: u64 = run.flows.iter().filter(|flow| flow.size.is_none()).map(|flow| flow.delivered.0).sum();
    let all: u64 = run.flows.iter().map(|flow| flow.delivered.0).sum();
    assert!(long * 20 > all, "they go on: {long} of {all}");
}

/// A window of one segment would wait 40 ms for a second one; one that the header's field cuts short, for a probe.
#[test]
fn delayed_acks_and_scaled_windows_cost_nothing() {
    let delayed = DelayedAck {
        every: 2,
        timeout: Duration::from_ms(40),
        quick: 0,
        quick_again: false,
        below_rto_min: false,
        growth: Bytes::ZERO,
    };
    for delayed_ack in [None, Some(delayed)] {
        for window_scaling in [WindowScaling::Exact, WindowScaling::Rfc7323, WindowScaling::Off] {
            let tcp = Tcp { delayed_ack, window_scaling, ..settings() };
            for (workers, response) in [(6, 64_000), (60, 20_001), (200, 5_000)] {
                let run = run_both(&incast(credit(), workers, response, 0, tcp.clone()));
                assert_eq!((run.totals.dropped, timeouts(&run)), (0, 0));
                assert!(goodput(&run) > 0.8, "{workers} x {response}: {}", goodput(&run));
            }
        }
    }
}

/// Connections that a job opens: the SYN announces what was reserved, or nothing until its turn has come.
#[test]
fn requests_on_new_connections_reserve_too() {
    let network = star(101, cable(1_000_000_000, Duration::from_us(25)), &bytes(PORT), &no_marks());
    let mut plan = plan(network, EndStack { receiver: credit(), ..new_reno() }, settings());
    let asked: Vec<_> = (1..=100).map(|worker| (worker, 20_000, Duration::ZERO)).collect();
    add_job(&mut plan, 0, Time::from_us(10), &asked);
    let run = run_both(&plan);
    assert_eq!((run.totals.dropped, timeouts(&run)), (0, 0));
    assert!(goodput(&run) > 0.85, "{}", goodput(&run));
}

/// Hosts that push at once have a segment each before anybody knows of them; those that open a connection wait for its SYN-ACK.
#[test]
fn who_pushes_over_new_connections_waits_for_his_turn() {
    let network = star(201, cable(1_000_000_000, Duration::from_us(25)), &bytes(PORT), &no_marks());
    let mut plan = plan(network, EndStack { receiver: credit(), ..new_reno() }, settings());
    for sender in 1..=200 {
        add_flow(&mut plan, sender, 0, Some(10_000), Time::from_us(10), Handshake::Counted);
    }
    let run = run_both(&plan);
    assert_eq!((run.totals.dropped, timeouts(&run)), (0, 0));
    assert!(run.flows.iter().all(|flow| flow.end.is_some()));
}
