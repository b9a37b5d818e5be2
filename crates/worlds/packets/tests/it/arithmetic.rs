//! Against arithmetic, exactly.

use crate::support::{add_flow, bytes, cable, dctcp, mark_at, new_reno, no_marks, packets, plan, run_both, star, tcp};
use incast_plan::{Handshake, Plan, Record, Tcp};
use incast_protocols::{Bytes, Duration, Rate, Time};
use incast_record::{EventKind, Run};

const GBPS: u64 = 1_000_000_000;

/// Time a packet with this payload takes on one 1 Gbit/s link, with 40 bytes of headers.
fn wire(payload: u64) -> u64 {
    Rate(GBPS).time_for(Bytes(payload + 40)).0
}

fn two_hosts(settings: Tcp) -> Plan {
    plan(star(2, cable(GBPS, Duration::from_us(25)), &packets(1000), &no_marks()), new_reno(), settings)
}

fn completion(run: &Run, flow: usize) -> u64 {
    run.flows[flow].end.unwrap().since(run.flows[flow].start).0
}

/// Handshake, slow start from one segment, serialization and propagation, added up by hand: to the picosecond.
#[test]
fn one_flow_alone_takes_what_its_rounds_add_up_to() {
    let settings = Tcp { initial_window_segments: 1, ..tcp() };
    let delay = 25_000_000;
    let (full, control) = (wire(1460), wire(0));
    // Across the switch: two serializations, two propagations.
    let across = |packet: u64| 2 * (packet + delay);
    let round_trip = across(full) + across(control);
    let handshake = 2 * across(control);
    // The first data follows the third part of the handshake out of the same port.
    let first_segment = handshake + control + across(full);
    for (segments, expected) in [
        (1, first_segment),
        // Round two brings two segments, the second right behind the first.
        (2, first_segment + across(control) + across(full)),
        (3, first_segment + round_trip + full),
        // Rounds of 1, 2 and 4 segments; 7 fill exactly three rounds.
        (7, first_segment + 2 * round_trip + 3 * full),
        // Rounds of 1 to 32; while a round fits into the round trip nothing queues.
        (31, first_segment + 4 * round_trip + 15 * full),
    ] {
        let mut plan = two_hosts(settings.clone());
        add_flow(&mut plan, 0, 1, Some(segments * 1460), Time::from_us(7), Handshake::Counted);
        let run = run_both(&plan);
        // In the last rounds ACKs come back spaced by a packet time, two segments each, so that the window
        // leaves as one train as long as the trains of all rounds are shorter than a round trip.
        assert_eq!(completion(&run, 0), expected, "{segments} segments");
    }
}

#[test]
fn without_a_handshake_one_segment_takes_two_serializations_and_two_delays() {
    for size in [1, 100, 1460] {
        let mut plan = two_hosts(tcp());
        add_flow(&mut plan, 0, 1, Some(size), Time::from_us(3), Handshake::Before);
        assert_eq!(completion(&run_both(&plan), 0), 2 * (wire(size) + 25_000_000));
        assert_eq!(run_both(&plan).flows[0].ideal.unwrap().0, 2 * (wire(size) + 25_000_000));
    }
}

/// A rate at which a byte takes no whole number of picoseconds is rounded up per packet.
#[test]
fn odd_rates_are_exact_too() {
    let network = star(2, cable(56_000_003, Duration::from_us(25)), &packets(1000), &no_marks());
    let mut plan = plan(network, new_reno(), tcp());
    add_flow(&mut plan, 0, 1, Some(1460), Time(0), Handshake::Before);
    let packet = (1500_u128 * 8 * 1_000_000_000_000).div_ceil(56_000_003) as u64;
    assert_eq!(completion(&run_both(&plan), 0), 2 * (packet + 25_000_000));
}

/// Two senders at line rate into one port: the queue grows at the difference, one packet per packet time.
#[test]
fn a_queue_grows_at_the_rate_difference() {
    let settings = Tcp { initial_window_segments: 200, ..tcp() };
    let network = star(3, cable(GBPS, Duration::from_us(25)), &packets(1000), &no_marks());
    let mut plan = plan(network, new_reno(), settings);
    for sender in [1, 2] {
        add_flow(&mut plan, sender, 0, Some(100 * 1460), Time(0), Handshake::Before);
    }
    let bottleneck = 1;
    plan.record = Record { queue_series: vec![bottleneck], ..Record::default() };
    let run = run_both(&plan);
    let first = wire(1460) + 25_000_000;
    for sample in run.queue_samples.iter().filter(|sample| sample.waiting_packets > 0) {
        // Packet pairs arrive every packet time from `first` on, one of each pair leaves at once.
        let steps = (sample.time.0 - first) / wire(1460);
        if steps < 100 {
            assert!((i64::from(sample.waiting_packets) - steps as i64).abs() <= 1, "{sample:?} after {steps}");
        }
    }
    let most = run.queue_samples.iter().map(|sample| sample.waiting_packets).max().unwrap();
    assert!((99..=101).contains(&most), "{most}");
    // The backlog drains one packet per packet time: the last leaves after 200 of them.
    let last = run.flows.iter().filter_map(|flow| flow.end).max().unwrap();
    assert_eq!(last.0, first + 200 * wire(1460) + 25_000_000);
}

/// The receiver's port holds one packet and three come at once in a window of three: what is lost comes
/// again after exactly one RTO.
#[test]
fn a_full_window_loss_costs_exactly_one_rto() {
    let settings = Tcp { initial_window_segments: 1, rto_min: Duration::from_ms(200), ..tcp() };
    let network = star(4, cable(GBPS, Duration::from_us(25)), &packets(0), &no_marks());
    let mut plan = plan(network, new_reno(), settings);
    // The second packet arrives while the first is in transmission, finds no place, and was its flow's window.
    add_flow(&mut plan, 1, 0, Some(1460), Time(0), Handshake::Before);
    add_flow(&mut plan, 2, 0, Some(1460), Time(1_000_000), Handshake::Before);
    plan.record.events = true;
    let run = run_both(&plan);
    let alone = 2 * (wire(1460) + 25_000_000);
    assert_eq!(completion(&run, 0), alone);
    assert_eq!(completion(&run, 1), 200_000_000_000 + alone);
    assert_eq!(run.flows[1].losses.timeouts_full_window, 1);
    assert_eq!(run.flows[1].losses.timeouts(), 1);
    assert_eq!(run.events.iter().filter(|event| event.kind == EventKind::TimeoutFullWindow).count(), 1);
}

/// n flows between one pair of ports share the link, and leave none of it unused.
#[test]
fn equal_long_flows_share_a_link_fairly() {
    for (stack, buffer, marker) in [(dctcp(), packets(250), mark_at(20)), (new_reno(), bytes(90_000), no_marks())] {
        let network = star(9, cable(GBPS, Duration::from_us(25)), &buffer, &marker);
        let mut plan = plan(network, stack, tcp());
        for sender in 1..9 {
            add_flow(&mut plan, sender, 0, None, Time::from_us(u64::from(sender) * 37), Handshake::Counted);
        }
        plan.stop_at = Some(Time::from_us(4_000_000));
        let run = run_both(&plan);
        let shares: Vec<f64> = run.flows.iter().map(|flow| flow.delivered.0 as f64).collect();
        let sum: f64 = shares.iter().sum();
        let jain = sum * sum / (shares.len() as f64 * shares.iter().map(|share| share * share).sum::<f64>());
        assert!(jain > 0.98, "{jain} {shares:?}");
        let capacity = 4.0 * GBPS as f64 / 8.0 * 1460.0 / 1500.0;
        assert!(sum > 0.97 * capacity, "{sum} of {capacity}");
    }
}

/// The steady state of n synchronised DCTCP flows (Alizadeh et al., SIGMETRICS 2011, section 3.2): the queue
/// peaks at about K + n and swings by D = n * W * alpha / 2 with alpha = sqrt(2 / W), W = (C RTT + K) / n.
#[test]
fn dctcp_oscillates_as_its_fluid_analysis_says() {
    let (senders, threshold) = (2_u32, 40_u32);
    let network = star(senders + 1, cable(GBPS, Duration::from_us(125)), &packets(1000), &mark_at(threshold));
    let mut plan = plan(network, dctcp(), tcp());
    for sender in 1..=senders {
        add_flow(&mut plan, sender, 0, None, Time(0), Handshake::Counted);
    }
    plan.stop_at = Some(Time::from_us(600_000));
    plan.record.queue_series = vec![1];
    let run = run_both(&plan);
    let late: Vec<u32> = run
        .queue_samples
        .iter()
        .filter(|sample| sample.time >= Time::from_us(300_000))
        .map(|sample| sample.waiting_packets)
        .collect();
    let most = f64::from(*late.iter().max().unwrap());
    let least = f64::from(*late.iter().min().unwrap());
    let pipe = GBPS as f64 * 500e-6 / 8.0 / 1500.0;
    let window = (pipe + f64::from(threshold)) / f64::from(senders);
    let swing = f64::from(senders) * window * (2.0 / window).sqrt() / 2.0;
    assert!((most - f64::from(threshold + senders)).abs() <= 3.0, "peak {most}");
    assert!(((most - least) / swing - 1.0).abs() < 0.35, "swing {} against {swing}", most - least);
    assert!(least > 0.0, "the link never idles");
    // Each flow's windows show alpha near sqrt(2 / W).
    assert_eq!(run.totals.dropped, 0);
}

/// Of equal senders that start at the very same picosecond none is favoured: over many seeds each loses
/// about as many packets and finishes at each place about as often.
#[test]
fn no_port_is_favoured_among_simultaneous_arrivals() {
    let senders = 4_u32;
    let mut first = vec![0_u32; senders as usize];
    let mut drops = vec![0_u32; senders as usize];
    let seeds = 600;
    for seed in 0..seeds {
        let network = star(senders + 1, cable(GBPS, Duration::from_us(25)), &packets(2), &no_marks());
        let settings = Tcp { initial_window_segments: 2, ..tcp() };
        let mut plan = plan(network, new_reno(), settings);
        plan.seed = seed;
        for sender in 1..=senders {
            add_flow(&mut plan, sender, 0, Some(2 * 1460), Time(0), Handshake::Before);
        }
        let run = run_both(&plan);
        let winner = run.flows.iter().min_by_key(|flow| flow.end).unwrap();
        first[winner.source as usize - 1] += 1;
        for flow in &run.flows {
            drops[flow.source as usize - 1] += flow.losses.retransmitted_packets;
        }
    }
    let total: u32 = drops.iter().sum();
    // Three standard deviations of a fair choice.
    let near = |count: u32, of: u32| {
        (f64::from(count) - f64::from(of) / 4.0).abs() < 3.0 * (f64::from(of) * 3.0 / 16.0).sqrt()
    };
    assert!(first.iter().all(|&count| near(count, seeds as u32)), "first {first:?}");
    assert!(drops.iter().all(|&count| near(count, total)), "drops {drops:?}");
}
