//! How connections recover, where recovery by duplicates and by SACK differ, and what else profiles switch.

use crate::support::{
    add_flow, add_rounds, cable, dctcp, mark_at, new_reno, no_marks, packets, plan, run_both, star, tcp,
};
use incast_plan::{Handshake, Plan, Record, Reduction, SlowStartRestart, Tcp, WindowPerMessage, WindowScaling};
use incast_protocols::sender::WindowRules;
use incast_protocols::{Bytes, Duration, Time};
use incast_record::{Event, EventKind, Run};

const GIGABIT: u64 = 1_000_000_000;

fn with_sack(reduction: Reduction) -> Tcp {
    Tcp {
        sack: true,
        reduction,
        limited_transmit: true,
        rules: WindowRules { inflate_in_recovery: false, ..WindowRules::default() },
        ..tcp()
    }
}

/// One message of 3,000 segments over a wire that loses one packet of `one_in`; no ACK is lost.
fn lossy(settings: &Tcp, one_in: u32, seed: u64) -> Run {
    let mut network = star(2, cable(GIGABIT, Duration::from_us(50)), &packets(1000), &no_marks());
    network.links[2].loss = 1.0 / f64::from(one_in);
    let mut plan = plan(network, new_reno(), Tcp { initial_window_segments: 30, ..settings.clone() });
    plan.seed = seed;
    add_flow(&mut plan, 1, 0, Some(3000 * 1460), Time(0), Handshake::Before);
    plan.record = Record { events: true, ..Record::default() };
    run_both(&plan)
}

fn count(run: &Run, kind: EventKind) -> usize {
    run.events.iter().filter(|event| event.kind == kind).count()
}

fn timeouts(run: &Run) -> usize {
    let kinds = [EventKind::TimeoutFullWindow, EventKind::TimeoutTail, EventKind::TimeoutLostRetransmission];
    kinds.into_iter().map(|kind| count(run, kind)).sum()
}

fn last_end(run: &Run) -> Time {
    run.flows.iter().filter_map(|flow| flow.end).max().unwrap()
}

/// With SACK what was lost is sent again, once, and nothing else; and several losses take one recovery, where
/// duplicates repair one in each round trip.
#[test]
fn sack_sends_again_what_was_lost_and_nothing_else() {
    let (mut without_timeout, mut times) = (0, [0_u64; 3]);
    for (seed, one_in) in (0..10).flat_map(|seed| [(seed, 40), (seed, 200)]) {
        times[0] += last_end(&lossy(&tcp(), one_in, seed)).0;
        for (index, reduction) in [Reduction::Immediate, Reduction::Proportional].into_iter().enumerate() {
            let run = lossy(&with_sack(reduction), one_in, seed);
            times[index + 1] += last_end(&run).0;
            let lost = |event: &Event| event.kind == EventKind::WireLoss && event.from_client;
            let lost = run.events.iter().filter(lost).count();
            if timeouts(&run) == 0 {
                // At the end of the message there is no new data to learn from: one segment may be sent in vain
                // to rescue the last ones (rule 4 of NextSeg), and one that is merely late (rule 3).
                let again = count(&run, EventKind::Retransmission);
                assert!((lost..=lost + 2).contains(&again), "{again} retransmissions for {lost} losses");
                without_timeout += usize::from(lost > 5);
            }
        }
    }
    assert!(without_timeout >= 10, "{without_timeout} runs say something");
    assert!(times[1] < times[0] && times[2] < times[0], "{times:?}");
}

/// After a mark rate reduction lets a segment go for every other ACK, where a cut at once is silent until half
/// of what was in flight has left.
#[test]
fn a_mark_s_cut_is_spread_over_a_round_trip() {
    let longest_silence = |reduction| {
        let network = star(2, cable(GIGABIT, Duration::from_us(50)), &packets(1000), &mark_at(30));
        let rules = WindowRules { inflate_in_recovery: false, hold_after_mark: true, ..WindowRules::default() };
        let settings = Tcp { sack: true, reduction, initial_window_segments: 60, rules, ..tcp() };
        let mut plan = plan(network, dctcp(), settings);
        // A slower link to the receiver, so that a queue stands there.
        plan.network.links[1].rate = incast_protocols::Rate(GIGABIT / 2);
        add_flow(&mut plan, 1, 0, Some(400 * 1460), Time(0), Handshake::Before);
        plan.record = Record { queue_series: vec![1], ..Record::default() };
        let run = run_both(&plan);
        let arrivals: Vec<u64> = run.queue_samples[..]
            .windows(2)
            .filter(|pair| pair[1].waiting_packets > pair[0].waiting_packets)
            .map(|pair| pair[1].time.0)
            .collect();
        arrivals.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap()
    };
    let (at_once, spread) = (longest_silence(Reduction::Immediate), longest_silence(Reduction::Proportional));
    // 30 of 60 segments leave in 720 us; two ACKs are 48 us apart.
    assert!(at_once > 600_000_000 && spread < 200_000_000, "{at_once} {spread}");
}

/// What SACK tells has left the network is no licence to send while a mark's cut is being spread: that once made
/// five times the drops (found beside ns-3, before release).
#[test]
fn spreading_a_cut_overflows_ports_no_more_than_cutting_at_once() {
    let dropped = |reduction| {
        let network = star(101, cable(GIGABIT, Duration::from_us(40)), &packets(85), &mark_at(40));
        let settings = Tcp { initial_window_segments: 2, ..with_sack(reduction) };
        let mut plan = plan(network, dctcp(), settings);
        for sender in 1..101 {
            add_flow(&mut plan, sender, 0, Some(32_768), Time(u64::from(sender) * 1_000_000), Handshake::Before);
        }
        run_both(&plan).totals.dropped
    };
    let (at_once, spread) = (dropped(Reduction::Immediate), dropped(Reduction::Proportional));
    assert!(spread < at_once * 3 / 2, "{spread} drops, {at_once} if cut at once");
}

/// Without SACK, rate reduction counts duplicates (as ns-3 does): what was lost is sent again and nothing else where losses
/// are rare, and the window comes down segment by segment instead of in a pause.
#[test]
fn rate_reduction_works_with_duplicates_alone() {
    let rules = WindowRules { inflate_in_recovery: false, ..WindowRules::default() };
    let counted = Tcp { reduction: Reduction::Proportional, rules, ..tcp() };
    let (mut recoveries, mut pauses) = (0, [0_u64; 2]);
    for seed in 0..10 {
        for (settings, pause) in [tcp(), counted.clone()].iter().zip(&mut pauses) {
            let run = lossy(settings, 1500, seed);
            assert!(run.flows[0].end.is_some());
            if timeouts(&run) > 0 {
                continue;
            }
            let lost = run.events.iter().filter(|event| event.kind == EventKind::WireLoss && event.from_client).count();
            assert_eq!(count(&run, EventKind::Retransmission), lost, "seed {seed}");
            recoveries += count(&run, EventKind::FastRetransmit);
            *pause += last_end(&run).0;
        }
    }
    assert!(recoveries > 20, "{recoveries}");
    let ratio = pauses[1] as f64 / pauses[0] as f64;
    assert!((0.9..1.05).contains(&ratio), "{ratio}");
}

/// A window of four of which one or two are lost leaves too few duplicates; new data sent on the first two of
/// them makes up for it (RFC 3042).
#[test]
fn limited_transmit_finds_losses_of_small_windows() {
    let run = |limited_transmit: bool, sack: bool, buffer| {
        let network = star(9, cable(GIGABIT, Duration::from_us(50)), &packets(buffer), &no_marks());
        let rules = WindowRules { inflate_in_recovery: !sack, ..WindowRules::default() };
        let settings = Tcp { initial_window_segments: 4, sack, limited_transmit, rules, ..tcp() };
        let mut plan = plan(network, new_reno(), settings);
        for sender in 1..9 {
            add_flow(&mut plan, sender, 0, Some(40 * 1460), Time(0), Handshake::Before);
        }
        plan.record = Record { events: true, ..Record::default() };
        timeouts(&run_both(&plan))
    };
    for sack in [false, true] {
        let in_all = |limited_transmit| (5..20).map(|buffer| run(limited_transmit, sack, buffer)).sum::<usize>();
        let (with, without) = (in_all(true), in_all(false));
        assert!(with < without, "sack {sack}: {with} timeouts, {without} without");
    }
}

/// The window field of 16 bits without a scale is 65,535 bytes: 44 segments of 1460 bytes in flight at most.
#[test]
fn without_window_scaling_at_most_64_kib_are_in_flight() {
    let bytes_per_second = |window_scaling| {
        let network = star(2, cable(10 * GIGABIT, Duration::from_us(500)), &packets(10_000), &no_marks());
        let mut plan = plan(network, new_reno(), Tcp { window_scaling, ..tcp() });
        add_flow(&mut plan, 1, 0, Some(20_000_000), Time(0), Handshake::Before);
        20_000_000.0 / (last_end(&run_both(&plan)).0 as f64 / 1e12)
    };
    let off = bytes_per_second(WindowScaling::Off);
    let most = 65_535.0 / 0.002;
    assert!(off < most && off > 0.9 * most, "{off} of {most}");
    let scaled = bytes_per_second(WindowScaling::Rfc7323);
    assert!(scaled > 10.0 * off, "{scaled}");
    assert!((scaled / bytes_per_second(WindowScaling::Exact) - 1.0).abs() < 0.01);
}

fn kept_rounds(slow_start_restart: SlowStartRestart, service_ms: u64) -> Plan {
    let network = star(2, cable(10 * GIGABIT, Duration::from_us(50)), &packets(1000), &no_marks());
    let settings = Tcp { initial_window_segments: 2, slow_start_restart, ..tcp() };
    let mut plan = plan(network, new_reno(), settings);
    add_rounds(&mut plan, 1, 100 * 1460, 3, |_, _| Duration::ZERO);
    for connection in &mut plan.connections {
        connection.window_per_message = WindowPerMessage::Kept;
    }
    for round in &mut plan.aggregators[0].rounds {
        round.responses[0].service_time = Duration::from_ms(service_ms);
    }
    plan
}

/// The least RTO is 10 ms: a worker that thinks for 25 ms has been idle for two RTOs and more.
#[test]
fn idle_time_restarts_a_kept_window() {
    let last_round = |restart, service_ms| {
        let run = run_both(&kept_rounds(restart, service_ms));
        let flow = run.flows[..].last().unwrap();
        flow.end.unwrap().0 - flow.start.0 - service_ms * 1_000_000_000
    };
    let kept = last_round(SlowStartRestart::Off, 25);
    let decayed = last_round(SlowStartRestart::Decay, 25);
    let restarted = last_round(SlowStartRestart::Rfc5681, 25);
    assert!(kept < decayed && decayed < restarted, "{kept} {decayed} {restarted}");
    assert_eq!(last_round(SlowStartRestart::Rfc5681, 5), last_round(SlowStartRestart::Off, 5), "5 ms are no RTO");
}

/// A receiver with a window of one segment, and an initial window of one: every message gets through.
#[test]
fn a_window_of_one_segment_is_enough() {
    for settings in [tcp(), with_sack(Reduction::Proportional)] {
        let network = star(9, cable(GIGABIT, Duration::from_us(50)), &packets(1), &no_marks());
        let settings = Tcp { initial_window_segments: 1, receive_buffer: Bytes(1460), ..settings };
        let mut plan = plan(network, new_reno(), settings);
        for sender in 1..9 {
            add_flow(&mut plan, sender, 0, Some(20 * 1460), Time(0), Handshake::Counted);
        }
        let run = run_both(&plan);
        assert!(run.flows.iter().all(|flow| flow.end.is_some() && flow.size == Some(flow.delivered)));
        assert!(run.totals.dropped > 0);
    }
}
