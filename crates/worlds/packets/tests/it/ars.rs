//! Schedulers with live traffic, in the setting of the ARS paper (section IV): 1 Gbit/s, 100 us, 64 KB per port,
//! responses of 64 KB in packets of 1 KB, windows that begin with one packet and grow to 20.

use crate::support::{add_flow, add_rounds, bytes, cable, dctcp, mark_at, new_reno, plan, run_both, star, tcp};
use incast_plan::{Handshake, Node, Tcp};
use incast_protocols::application::{ApplicationChoice, all_at_once, ars, fixed_window, sequential};
use incast_protocols::stack::EndStack;
use incast_protocols::{Bytes, Duration, Time};
use incast_record::Run;

const WORKERS: u32 = 64;
const RESPONSE: u64 = 65_536;

fn settings() -> Tcp {
    Tcp {
        mss: Bytes(1024),
        header: Bytes(40),
        initial_window_segments: 1,
        rto_min: Duration::from_ms(200),
        receive_buffer: Bytes(20_480),
        ..tcp()
    }
}

/// Rounds of the aggregator, beside flows that never end; of those, the wire loses this share of the packets.
fn rounds(application: ApplicationChoice, stack: EndStack, count: u32, background: u32, loss: f64) -> Run {
    let hosts = WORKERS + 1 + background;
    let mut network = star(hosts, cable(1_000_000_000, Duration::from_us(25)), &bytes(RESPONSE), &mark_at(20));
    for link in &mut network.links {
        if matches!(link.from, Node::Host(host) if host > WORKERS) {
            link.loss = loss;
        }
    }
    let mut plan = plan(network, EndStack { application, ..stack }, settings());
    for sender in WORKERS + 1..hosts {
        add_flow(&mut plan, sender, 0, None, Time(0), Handshake::Before);
    }
    add_rounds(&mut plan, WORKERS, RESPONSE, count, |_, _| Duration::ZERO);
    run_both(&plan)
}

/// Responses that were asked for at the same moment, batch by batch.
fn batches(run: &Run) -> Vec<usize> {
    let mut starts: Vec<Time> = run.flows.iter().filter(|flow| flow.size.is_some()).map(|flow| flow.start).collect();
    starts.sort_unstable();
    starts.chunk_by(|a, b| a == b).map(<[Time]>::len).collect()
}

fn timeouts(run: &Run) -> u32 {
    run.flows.iter().filter(|flow| flow.size.is_some()).map(|flow| flow.losses.timeouts()).sum()
}

/// In milliseconds, of the first round.
fn duration(run: &Run) -> f64 {
    let ends = run.flows.iter().filter(|flow| flow.size.is_some() && flow.round == 0).map(|flow| flow.end.unwrap().0);
    ends.max().unwrap() as f64 / 1e9
}

/// Section IV.A: 0.22 s without ARS and about 0.04 s with it; 64 responses alone are 33.6 ms of payload.
#[test]
fn batches_of_three_spare_the_timeouts() {
    for stack in [new_reno(), dctcp()] {
        let run = rounds(ApplicationChoice::Ars(ars::Config::default()), stack, 1, 0, 0.0);
        let mut expected = vec![3; 21];
        expected.push(1);
        assert_eq!(batches(&run), expected);
        assert_eq!((timeouts(&run), run.totals.dropped), (0, 0));
        assert!((33.6..50.0).contains(&duration(&run)), "{} ms", duration(&run));
    }
    let at_once = rounds(ApplicationChoice::AllAtOnce(all_at_once::Config {}), new_reno(), 1, 0, 0.0);
    assert_eq!(batches(&at_once), [64]);
    assert!(timeouts(&at_once) > 10 && duration(&at_once) > 200.0);
}

#[test]
fn a_window_slides_and_one_at_a_time_waits() {
    let window = fixed_window::Config { outstanding: 3 };
    let sliding = rounds(ApplicationChoice::FixedWindow(window), dctcp(), 1, 0, 0.0);
    assert_eq!(batches(&sliding)[0], 3);
    assert!(batches(&sliding)[1..].iter().all(|&batch| batch <= 3));
    let one = rounds(ApplicationChoice::Sequential(sequential::Config {}), dctcp(), 1, 0, 0.0);
    assert_eq!(batches(&one), [1; 64]);
    assert_eq!(timeouts(&sliding) + timeouts(&one), 0);
    let ars = rounds(ApplicationChoice::Ars(ars::Config::default()), dctcp(), 1, 0, 0.0);
    assert!(duration(&sliding) < duration(&ars) && duration(&ars) < duration(&one));
}

/// Beside three flows that never end, three responses overflow the buffer: batches shrink to one, and grow again.
#[test]
fn data_out_of_order_makes_the_next_batch_small() {
    let run = rounds(ApplicationChoice::Ars(ars::Config::default()), new_reno(), 2, 3, 0.0);
    let sizes = batches(&run);
    assert!(run.totals.dropped > 0);
    assert_eq!(sizes[0], 3);
    assert!(sizes.contains(&1) && sizes.contains(&2), "{sizes:?}");
    // From one batch to the next the size falls to one or grows by one, except where a round ends.
    let lawful = |pair: &[usize]| pair[1] == 1 || pair[1] <= pair[0] + 1;
    assert!(sizes.windows(2).filter(|pair| !lawful(pair)).count() <= 2, "{sizes:?}");
}

/// Only the sockets of its workers tell the aggregator of congestion: a flow that loses packets on the wire arrives out
/// of order at the same host, and changes nothing.
#[test]
fn losses_of_others_are_not_seen() {
    let run = rounds(ApplicationChoice::Ars(ars::Config::default()), dctcp(), 2, 1, 0.02);
    let retransmitted: u32 = run.flows.iter().map(|flow| flow.losses.retransmitted_packets).sum();
    assert!(retransmitted >= 5 && run.totals.dropped == 0, "{retransmitted} {}", run.totals.dropped);
    assert!(batches(&run).iter().filter(|&&batch| batch == 3).count() == 42, "{:?}", batches(&run));
}
