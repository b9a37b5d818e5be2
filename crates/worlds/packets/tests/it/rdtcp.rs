//! RDTCP in the incast of its paper: n senders of 32 KB, 1 Gbit/s, 40 us per link, 80 packets of buffer, 10 ms RTO.

use crate::support::{add_flow, bytes, cable, leaf_spine, mark_at, new_reno, plan, run_both, star, tcp};
use incast_plan::{End, Handshake, Node, Plan, Record, Tcp};
use incast_protocols::receiver::{ReceiverChoice, rdtcp};
use incast_protocols::sender::SenderChoice;
use incast_protocols::stack::EndStack;
use incast_protocols::{Bytes, Duration, Message, Time};
use incast_record::Run;

const MSS: u64 = 1446;
const SIZE: u64 = 32_768;
const RATE: u64 = 1_000_000_000;
/// Headers with which a full packet has 1500 bytes.
const HEADER: u64 = 54;

fn stack(config: rdtcp::Config) -> EndStack {
    EndStack { sender: SenderChoice::Rdtcp(Default::default()), receiver: ReceiverChoice::Rdtcp(config), ..new_reno() }
}

fn incast(senders: u32, config: rdtcp::Config) -> Plan {
    let network = star(senders + 1, cable(RATE, Duration::from_us(40)), &bytes(120_000), &mark_at(40));
    let tcp = Tcp { mss: Bytes(MSS), header: Bytes(HEADER), initial_window_segments: 1, ..tcp() };
    let mut plan = plan(network, stack(config), tcp);
    for sender in 1..=senders {
        add_flow(&mut plan, sender, 0, Some(SIZE), Time::from_us(10_000), Handshake::Counted);
    }
    plan.record = Record { queue_series: vec![1], ..Record::default() };
    plan
}

/// Packets at the receiver's port, the one in transmission included: the mean from 40 to 75 % of the transfer.
fn steady_queue(run: &Run, senders: u32) -> f64 {
    let drain = u64::from(senders) * SIZE.div_ceil(MSS) * 12_000_000;
    let (from, to) = (10_000_000_000 + drain * 2 / 5, 10_000_000_000 + drain * 3 / 4);
    let mut area = 0.0;
    for pair in run.queue_samples[..].windows(2) {
        let (begin, end) = (pair[0].time.0.max(from), pair[1].time.0.min(to));
        if end > begin {
            area += (end - begin) as f64 * (f64::from(pair[0].waiting_packets) + 1.0);
        }
    }
    area / (to - from) as f64
}

/// What is granted is 40 packets. Of these the path has what 160 us of propagation, a packet's 12 us on the sender's
/// link and twice 54 bytes for the ACK hold; all others are at the last hop, however many senders there are.
#[test]
fn the_last_hop_queue_is_what_the_path_leaves_of_the_budget() {
    let ack_us = 54.0 * 8.0 / 1000.0;
    let expected = 40.0 - (160.0 + 12.0 + 2.0 * ack_us) / 12.0;
    for senders in [10, 20, 50, 80, 100, 200, 400, 800] {
        let run = run_both(&incast(senders, rdtcp::Config::default()));
        let queue = steady_queue(&run, senders);
        assert!((queue - expected).abs() < 0.05, "{senders} senders: {queue} packets for {expected}");
        assert!(run.flows.iter().all(|flow| flow.end.is_some()));
        if senders <= 400 {
            assert_eq!(run.totals.dropped, 0, "{senders} senders");
            assert!(run.flows.iter().all(|flow| flow.losses.retransmitted_packets == 0));
        }
    }
}

/// Without the gate at the SYN-ACK the first packets of 100 senders alone overflow 80 packets of buffer: a budget
/// beyond the buffer gives the same.
#[test]
fn a_budget_beyond_the_buffer_does_not_protect_it() {
    let config = rdtcp::Config { queue_maxsize: 200, ..Default::default() };
    assert!(run_both(&incast(100, config)).totals.dropped > 0);
}

/// A budget that is learned is what slow start has under way when the first mark arrives: close to what the path and K
/// hold if few senders are there, and too much for the buffer if there are many.
#[test]
fn an_unknown_buffer_is_learned_from_the_first_mark() {
    let config = rdtcp::Config { queue_known: false, ..Default::default() };
    let dropped = [5, 20].map(|senders| {
        let run = run_both(&incast(senders, config.clone()));
        assert!(run.flows.iter().all(|flow| flow.end.is_some()));
        run.totals.dropped
    });
    assert_eq!(dropped[0], 0);
    assert!((1..100).contains(&dropped[1]), "{} packets", dropped[1]);
}

/// Two receivers behind one slow trunk: neither NIC is congested, and what marks tell keeps the trunk's queue short.
#[test]
fn congestion_elsewhere_is_answered_by_the_closed_loop() {
    let run = |shift| {
        let config = rdtcp::Config { queue_maxsize: 400, shift, ..Default::default() };
        let trunk = cable(RATE, Duration::from_us(40));
        let network = leaf_spine(2, 4, 1, trunk, &bytes(3_000_000), &mark_at(20));
        let tcp = Tcp { mss: Bytes(MSS), header: Bytes(HEADER), initial_window_segments: 1, ..tcp() };
        let mut plan = plan(network, stack(config), tcp);
        for host in 0..4 {
            add_flow(&mut plan, host, 4 + host, Some(4_000_000), Time(0), Handshake::Counted);
        }
        let uplink =
            plan.network.links.iter().position(|link| link.from == Node::Switch(0) && link.to == Node::Switch(2));
        plan.record = Record { queue_series: vec![uplink.unwrap() as u32], ..Record::default() };
        run_both(&plan)
    };
    let found = run(4);
    let late: Vec<u32> =
        found.queue_samples.iter().filter(|at| at.time > Time::from_us(20_000)).map(|at| at.waiting_packets).collect();
    let most = *late.iter().max().unwrap();
    assert!(found.totals.ce_marks > 0 && most < 100, "{most} packets at the trunk");
    let end = found.flows.iter().map(|flow| flow.end.unwrap()).max().unwrap();
    let goodput = 4.0 * 4_000_000.0 * 8.0 / end.as_secs_f64();
    assert!(goodput > 0.9e9, "{goodput} bit/s over a trunk of 1 Gbit/s");
}

/// Where the receiver opens the connection, its SYN is the first grant: one segment, and not the socket's buffer.
#[test]
fn a_connection_that_the_receiver_opens_begins_under_its_control() {
    let mut plan = incast(60, rdtcp::Config::default());
    let start = plan.sends[0].start.0;
    plan.sends.clear();
    plan.connections.clear();
    for sender in 1..=60 {
        let request = Time(start + u64::from(sender));
        add_flow(&mut plan, 0, sender, Some(100), request, Handshake::Counted);
        let mut response = plan.sends.last().unwrap().clone();
        response.from = End::Server;
        response.start = Time(request.0 + 300_000_000);
        response.set_message(Message { size: Some(Bytes(SIZE)), ..response.message() });
        plan.sends.push(response);
    }
    plan.sends.sort_by_key(|send| send.start);
    let run = run_both(&plan);
    assert_eq!(run.totals.dropped, 0);
    assert!(run.flows.iter().all(|flow| flow.end.is_some()));
    // The same senders with a socket's buffer each.
    plan.classes[0].stack.receiver = new_reno().receiver;
    assert!(run_both(&plan).totals.dropped > 200);
}
