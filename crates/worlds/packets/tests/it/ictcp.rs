//! ICTCP with live traffic: the incast of the RDTCP paper (1 Gbit/s, 40 us links, buffers of 80 packets), and long
//! flows that share a port.

use crate::support::{add_flow, cable, new_reno, no_marks, packets, plan, run_both, star, tcp};
use incast_plan::{Handshake, Tcp};
use incast_protocols::receiver::{ReceiverChoice, ictcp};
use incast_protocols::stack::EndStack;
use incast_protocols::switch::buffer::static_limit::Admit;
use incast_protocols::switch::buffer::{BufferChoice, static_limit};
use incast_protocols::{Amount, Bytes, Duration, Time};
use incast_record::Run;

const GIGABIT: u64 = 1_000_000_000;
const MSS: u64 = 1446;
const SIZE: u64 = 32_768;

fn with_ictcp(config: ictcp::Config) -> EndStack {
    EndStack { receiver: ReceiverChoice::Ictcp(config), ..new_reno() }
}

/// As the authors' code counts: a port with less than 80 packets of 1500 bytes takes one more, of any size.
fn eighty_packets() -> BufferChoice {
    let limit = Amount::Bytes(Bytes(80 * 1500));
    BufferChoice::Static(static_limit::Config { limit, count_in_service: false, admit: Admit::IfBelow })
}

fn paper() -> Tcp {
    Tcp { mss: Bytes(MSS), header: Bytes(54), initial_window_segments: 2, ..tcp() }
}

/// Every sender begins at the same picosecond.
fn incast(senders: u32, stack: EndStack, rto_min: Duration, seed: u64) -> Run {
    let network = star(senders + 1, cable(GIGABIT, Duration::from_us(40)), &eighty_packets(), &no_marks());
    let mut plan = plan(network, stack, Tcp { rto_min, rto_initial: rto_min, ..paper() });
    plan.seed = seed;
    for sender in 1..=senders {
        add_flow(&mut plan, sender, 0, Some(SIZE), Time(0), Handshake::Counted);
    }
    run_both(&plan)
}

/// In Mbit/s, to the last completion.
fn goodput(run: &Run) -> f64 {
    let last = run.flows.iter().map(|flow| flow.end.unwrap().0).max().unwrap();
    (run.flows.len() as u64 * SIZE * 8) as f64 / (last as f64 / 1e6)
}

fn timeouts(run: &Run) -> u64 {
    run.flows.iter().map(|flow| u64::from(flow.losses.timeouts())).sum()
}

fn most_waiting(run: &Run) -> u32 {
    run.ports.iter().map(|port| port.max_waiting).max().unwrap()
}

const GROWTHS: [ictcp::SlowStartGrowth; 2] = [ictcp::SlowStartGrowth::Double, ictcp::SlowStartGrowth::Add];

/// Eight senders with two segments each fill the pipe of 13 packets; of a whole 1 Gbit/s 964 Mbit/s are payload,
/// less what handshake and last round trip take.
#[test]
fn while_two_segments_of_all_fit_nothing_is_lost_and_the_port_is_busy() {
    for growth in GROWTHS {
        for (senders, least) in [(8, 840.0), (10, 860.0), (20, 900.0), (30, 920.0), (40, 930.0), (41, 930.0)] {
            let stack = with_ictcp(ictcp::Config { growth, ..Default::default() });
            let run = incast(senders, stack, Duration::from_ms(10), u64::from(senders));
            let (goodput, drops) = (goodput(&run), run.totals.dropped);
            assert!(goodput > least && drops == 0, "{senders} senders, {growth:?}: {goodput} Mbit/s, {drops} drops");
        }
    }
}

/// The same without control loses from ten senders on.
#[test]
fn new_reno_alone_loses_where_ictcp_does_not() {
    for senders in [10, 20, 30, 40] {
        let without = incast(senders, new_reno(), Duration::from_ms(10), 1);
        assert!(without.totals.dropped > 10, "{senders}: {}", without.totals.dropped);
        assert!(goodput(&without) < 800.0);
    }
}

/// Two segments are the least window, so the first burst of n senders is 2n packets within 24 us. The port holds 80,
/// and three leave or begin to leave meanwhile: from 42 senders on all others are lost, however well the
/// controller does later.
#[test]
fn what_two_segments_of_all_exceed_is_lost() {
    for senders in [42, 44, 46, 48, 50] {
        let run = incast(senders, with_ictcp(ictcp::Config::default()), Duration::from_ms(10), 1);
        assert_eq!(run.totals.dropped, 2 * u64::from(senders) - 83, "{senders} senders");
        assert!(timeouts(&run) > 0);
    }
}

/// With the timer of real machines that is collapse: each lost segment costs 200 ms, where the data of 50 senders takes 14 ms.
#[test]
fn beyond_the_structural_limit_goodput_collapses() {
    let at = |senders| {
        let run = incast(senders, with_ictcp(ictcp::Config::default()), Duration::from_ms(200), 1);
        goodput(&run)
    };
    let goodputs = [40, 50, 60, 100].map(at);
    assert!(goodputs[0] > 900.0 && goodputs[1..].iter().all(|goodput| *goodput < 130.0), "{goodputs:?}");
}

/// Long flows to one host for half a second.
fn long_flows(count: u32, config: ictcp::Config) -> Run {
    let network = star(count + 1, cable(GIGABIT, Duration::from_us(40)), &eighty_packets(), &no_marks());
    let mut plan = plan(network, with_ictcp(config), paper());
    for sender in 1..=count {
        add_flow(&mut plan, sender, 0, None, Time(0), Handshake::Counted);
    }
    plan.stop_at = Some(Time::from_us(500_000));
    run_both(&plan)
}

/// What comes in, headers included, as a share of the line rate; and the least share of a flow in it, as a part of
/// an equal one.
fn use_and_fairness(run: &Run) -> (f64, f64) {
    let delivered: Vec<u64> = run.flows.iter().map(|flow| flow.delivered.0).collect();
    let sum: u64 = delivered.iter().sum();
    let wire = sum as f64 * 1500.0 / MSS as f64;
    let fairness = *delivered.iter().min().unwrap() as f64 * delivered.len() as f64 / sum as f64;
    (wire * 8.0 / 0.5 / GIGABIT as f64, fairness)
}

/// The target is 0.9 of the line rate. A pair comes close; a segment more in each round trip is 75 Mbit/s.
#[test]
fn a_pair_of_long_flows_fills_the_target_and_shares_it() {
    for growth in GROWTHS {
        let run = long_flows(2, ictcp::Config { growth, ..Default::default() });
        let (share, fairness) = use_and_fairness(&run);
        assert!(share > 0.85 && share < 0.96, "{growth:?}: {share}");
        assert!(fairness > 0.97, "{growth:?}: {fairness}");
        assert_eq!(run.totals.dropped, 0);
    }
}

/// Windows of whole segments, each of them 75 Mbit/s: several flows may miss the target by one each, and a queue
/// hardly forms.
#[test]
fn several_long_flows_stay_below_the_line_rate() {
    for count in [1, 3, 4, 6] {
        let run = long_flows(count, ictcp::Config::default());
        let (share, fairness) = use_and_fairness(&run);
        assert!(share > 0.78 && share < 0.96, "{count}: {share}");
        assert!(fairness > 0.97, "{count}: {fairness}");
        assert!(run.totals.dropped == 0 && most_waiting(&run) <= 2 * count, "{count}: {}", most_waiting(&run));
    }
}

/// The target is what the share of the line rate says.
#[test]
fn alpha_is_the_share_that_is_filled() {
    let config = ictcp::Config { alpha: ictcp::Share::percent(50), ..Default::default() };
    let (share, _) = use_and_fairness(&long_flows(2, config));
    assert!(share > 0.4 && share < 0.56, "{share}");
}

/// A path of 2.4 ms is beyond what is controlled: the socket's window of 4 MiB serves it, as without ICTCP.
#[test]
fn a_long_path_is_left_alone() {
    let run = |stack| {
        let network = star(2, cable(GIGABIT, Duration::from_us(600)), &packets(10_000), &no_marks());
        let mut plan = plan(network, stack, paper());
        add_flow(&mut plan, 1, 0, Some(20_000_000), Time(0), Handshake::Counted);
        run_both(&plan).flows[0].end.unwrap().0
    };
    let (with, without) = (run(with_ictcp(ictcp::Config::default())), run(new_reno()));
    // It takes three round trips to see that the path is long.
    assert!(with > without && with < without + 25_000_000_000, "{with} {without}");
}
