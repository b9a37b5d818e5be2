//! Both drivers give the same bytes.

use std::num::NonZeroUsize;

use crate::support::{
    add_endless_and_others, add_flow, add_rounds, bytes, cable, dctcp, follow_packets, leaf_spine_load, mark_at,
    new_reno, no_marks, packets, plan, run_both, run_on, shared, star, star_load, tcp,
};
use incast_packets::{Control, DriverKind, RunOptions};
use incast_plan::{Handshake, Record, Reorder, Tcp};
use incast_protocols::{Bytes, Duration, Time};

/// What a run is recognised by when figures change on purpose.
fn digest(run: &incast_record::Run) -> String {
    let timeouts: u32 = run.flows.iter().map(|flow| flow.losses.timeouts()).sum();
    let fast: u32 = run.flows.iter().map(|flow| flow.losses.fast_retransmits).sum();
    format!(
        "hops {} drops {} marks {} timeouts {timeouts} fast retransmits {fast} end {}",
        run.totals.packet_hops, run.totals.dropped, run.totals.ce_marks, run.end
    )
}

#[test]
fn the_same_on_a_127_to_1_incast() {
    // With shared memory, what arrives over all links is sorted together, although the sweep takes it off a few links at a time.
    let (alone, shared) = (packets(250), shared(1_000_000, 1.0, 1500));
    for (buffer, stack, least_drops) in
        [(&alone, new_reno(), 5_000), (&alone, dctcp(), 1_000), (&shared, new_reno(), 5_000), (&shared, dctcp(), 1_000)]
    {
        let network = star(128, cable(10_000_000_000, Duration::from_us(5)), buffer, &mark_at(65));
        let mut plan = plan(network, stack, tcp());
        for sender in 1..128 {
            add_flow(&mut plan, sender, 0, Some(2 << 20), Time(0), Handshake::Counted);
        }
        let run = run_both(&plan);
        assert!(run.flows.iter().all(|flow| flow.end.is_some()));
        assert!(run.totals.dropped > least_drops, "{}", digest(&run));
    }
}

/// The sweep runs ports of a shared memory one by one while there is room for whatever comes, which is so now and then here (a test in
/// `world/coupled.rs` counts that).
#[test]
fn the_same_where_ports_share_memory_at_times_only() {
    for memory in [shared(700_000, 1.0, 0), shared(2_000_000, 0.25, 3_000)] {
        let run = run_both(&star_load(41, 2_000, &memory));
        assert!(run.flows.iter().all(|flow| flow.end.is_some()));
        assert!(run.totals.dropped > 100, "{}", digest(&run));
    }
}

#[test]
fn the_same_on_a_leaf_spine_with_thousands_of_timeouts() {
    let plan = leaf_spine_load(20, 20, 10, 20_000, 1, 40, 38);
    let run = run_both(&plan);
    let timeouts: u32 = run.flows.iter().map(|flow| flow.losses.timeouts()).sum();
    assert!(run.totals.dropped > 50_000 && timeouts > 2_000, "{}", digest(&run));
}

#[test]
fn the_same_with_everything_written_down() {
    let mut plan = leaf_spine_load(4, 4, 2, 500, 3, 30, 20);
    let ports: Vec<u32> =
        (0..plan.network.links.len() as u32).filter(|&link| plan.network.links[link as usize].port.is_some()).collect();
    plan.record = Record {
        queue_statistics: true,
        queue_series: ports.clone(),
        window_series: (0..50).collect(),
        events: true,
        packets: (0..plan.network.links.len() as u32).collect(),
        packets_of: Vec::new(),
        incasts: ports,
    };
    let run = run_both(&plan);
    assert!(!run.queue_samples.is_empty() && !run.window_samples.is_empty() && !run.events.is_empty());
    assert_eq!(run.packets.iter().filter(|row| row.wait.is_some()).count() as u64, run.totals.packet_hops);
    // Of some connections only: the same rows without the others.
    plan.record.packets_of = vec![3, 7];
    let few = run_both(&plan);
    let of_both = run.packets.iter().filter(|row| [3, 7].contains(&row.connection));
    assert!(!few.packets.is_empty() && few.packets.iter().eq(of_both));
}

#[test]
fn the_same_on_barrier_synchronised_rounds() {
    for workers in [4, 30, 60] {
        let network = star(workers + 1, cable(1_000_000_000, Duration::from_us(25)), &bytes(65_536), &no_marks());
        let settings = Tcp { initial_window_segments: 1, rto_min: Duration::from_ms(200), ..tcp() };
        let mut plan = plan(network, new_reno(), settings);
        add_rounds(&mut plan, workers, 65_536, 5, |round, worker| {
            Duration::from_us(u64::from((round * 7 + worker * 13) % 40))
        });
        let run = run_both(&plan);
        assert!(run.flows.iter().all(|flow| flow.end.is_some()));
    }
}

#[test]
fn the_same_on_wires_that_lose_and_reorder() {
    for (loss, reorder) in [(0.01, None), (0.0, Some(30)), (0.02, Some(50))] {
        let lossy = crate::support::Cable {
            loss,
            reorder: reorder.map(|us| Reorder { probability: 0.05, extra: Duration::from_us(us) }),
            ..cable(1_000_000_000, Duration::from_us(20))
        };
        let mut plan = plan(star(8, lossy, &packets(20), &mark_at(10)), dctcp(), tcp());
        for sender in 1..8 {
            add_flow(&mut plan, sender, 0, Some(300_000), Time(0), Handshake::Counted);
        }
        let run = run_both(&plan);
        assert!(run.flows.iter().all(|flow| flow.end.is_some()));
        assert_eq!(run.totals.lost_on_wire > 0, loss > 0.0);
    }
}

#[test]
fn the_same_through_token_buckets() {
    for burst in [1_500, 3_200, 40_000] {
        let bucket = crate::support::Cable { burst: Bytes(burst), ..cable(1_000_000_000, Duration::from_us(20)) };
        let mut plan = plan(star(8, bucket, &packets(20), &mark_at(10)), dctcp(), tcp());
        follow_packets(&mut plan);
        plan.record.queue_series = vec![1];
        for sender in 1..8 {
            add_flow(&mut plan, sender, 0, Some(300_000), Time(0), Handshake::Counted);
        }
        let run = run_both(&plan);
        assert!(run.flows.iter().all(|flow| flow.end.is_some()));
    }
}

/// What SACK options say is written down with the ACKs that carry them, at every port on their way.
#[test]
fn the_same_with_sack_options_written_down() {
    let network = star(8, cable(1_000_000_000, Duration::from_us(20)), &packets(20), &no_marks());
    let mut plan = plan(network, new_reno(), Tcp { sack: true, dsack: true, ..tcp() });
    follow_packets(&mut plan);
    for sender in 1..8 {
        add_flow(&mut plan, sender, 0, Some(300_000), Time(0), Handshake::Counted);
    }
    let run = run_both(&plan);
    let mut with = 0;
    for row in run.packets.iter().filter(|row| row.payload == 0) {
        let option = row.sack.as_deref().unwrap_or_default();
        let blocks: Vec<(u64, u64)> = option
            .split_terminator(' ')
            .map(|block| {
                block.split_once('-').map(|(start, end)| (start.parse().unwrap(), end.parse().unwrap())).unwrap()
            })
            .collect();
        // Two bytes of option, eight of each block, and two that align it.
        let room = if blocks.is_empty() { 0 } else { 4 + 8 * blocks.len() as u64 };
        assert_eq!(u64::from(row.wire), plan.classes[0].tcp.header.0 + room, "{option}");
        assert!(blocks.iter().all(|&(start, end)| start < end && end <= 300_000), "{option}");
        with += u32::from(!blocks.is_empty());
    }
    assert!(with > 100, "{with}");
}

#[test]
fn the_same_when_endless_flows_outlast_the_others_and_when_time_is_up() {
    for stop_at in [None, Some(Time(3_141_592_653))] {
        let network = star(6, cable(1_000_000_000, Duration::from_us(20)), &packets(50), &mark_at(20));
        let mut plan = plan(network, dctcp(), tcp());
        plan.stop_at = stop_at;
        add_endless_and_others(&mut plan);
        let run = run_both(&plan);
        assert!(run.flows[..3].iter().all(|flow| flow.end.is_none() && flow.delivered.0 > 0));
    }
}

#[test]
fn the_same_with_delayed_acks_and_timers_shorter_than_a_window() {
    let network = star(4, cable(100_000_000, Duration::from_ms(2)), &packets(50), &mark_at(20));
    let delayed = incast_plan::DelayedAck { every: 2, timeout: Duration::from_us(300), ..Default::default() };
    let settings = Tcp { delayed_ack: Some(delayed), ..tcp() };
    let mut plan = plan(network, dctcp(), settings);
    for sender in 1..4 {
        add_flow(&mut plan, sender, 0, Some(100_001), Time(u64::from(sender)), Handshake::Counted);
    }
    let run = run_both(&plan);
    assert!(run.flows.iter().all(|flow| flow.end.is_some()));
}

#[test]
fn links_without_delay_are_left_to_the_event_loop() {
    let network = star(3, cable(1_000_000_000, Duration::ZERO), &packets(50), &no_marks());
    let mut plan = plan(network, new_reno(), tcp());
    add_flow(&mut plan, 1, 0, Some(100_000), Time(0), Handshake::Counted);
    assert_eq!(DriverKind::choose(&plan).0, DriverKind::EventLoop);
    assert!(run_on(&plan, DriverKind::EventLoop).flows[0].end.is_some());
}

/// A link of 1 ps makes windows of 1 ps: the rule leaves that to the event loop, and the sweep still visits only windows in
/// which something happens (it took a minute for what is 0.2 s of work when it walked through the empty ones).
#[test]
fn one_short_link_among_long_ones_is_cheap_with_either_driver() {
    let mut network = star(4, cable(10_000_000_000, Duration::from_ms(20)), &packets(50), &mark_at(20));
    network.links[0].delay = Duration(1);
    let mut plan = plan(network, dctcp(), tcp());
    for sender in 1..4 {
        add_flow(&mut plan, sender, 0, Some(100_000), Time(0), Handshake::Counted);
    }
    let (chosen, rule) = DriverKind::choose(&plan);
    assert_eq!((chosen, rule), (DriverKind::EventLoop, "event loop (a link is too short for a packet per window)"));
    let run = run_both(&plan);
    assert!(run.flows.iter().all(|flow| flow.end.is_some()));
}

/// Eight links of 10 Gbit/s carry a packet of 1500 bytes within 150 ns.
#[test]
fn the_sweep_is_chosen_where_the_network_could_carry_a_packet_per_window() {
    for (ns, chosen) in [(149, DriverKind::EventLoop), (150, DriverKind::Sweep), (10_000, DriverKind::Sweep)] {
        let network = star(4, cable(10_000_000_000, Duration::from_ns(ns)), &packets(50), &no_marks());
        assert_eq!(DriverKind::choose(&plan(network, new_reno(), tcp())).0, chosen, "{ns} ns");
    }
}

/// A segment can at once call for an ACK of its own connection (its mark differs from the last one's, whose
/// ACK is being delayed) and, by completing a response, for a request on another: each packet has to be
/// booked on its own.
#[test]
fn rounds_with_delayed_acks_and_marks_keep_connections_apart() {
    for threshold in 0..12 {
        let network = star(5, cable(1_000_000_000, Duration::from_us(25)), &bytes(65_536), &mark_at(threshold));
        let delayed = incast_plan::DelayedAck { every: 3, timeout: Duration::from_ms(1), ..Default::default() };
        let settings = Tcp { mss: Bytes(1024), delayed_ack: Some(delayed), ..tcp() };
        let mut plan = plan(network, dctcp(), settings);
        for step in 0..12 {
            add_rounds(&mut plan, 4, 2_048 + 512 * step, 3, |_, _| Duration::ZERO);
        }
        let run = run_both(&plan);
        assert!(run.flows.iter().all(|flow| flow.end.is_some()));
    }
}

/// Packets that are late by up to 50 us are looked for in every window: 5,000 of 10 ns, for which the sweep took 19 times as many
/// instructions as the event loop.
#[test]
fn links_with_reordering_are_not_looked_at_in_thousands_of_windows() {
    let chosen = |ns: u64, probability: f64| {
        let reorder = Some(Reorder { probability, extra: Duration::from_us(50) });
        let network = star(
            1000,
            incast_testing::Cable { reorder, ..cable(10_000_000_000, Duration::from_ns(ns)) },
            &packets(250),
            &no_marks(),
        );
        let plan = plan(network, new_reno(), tcp());
        DriverKind::choose(&plan).0
    };
    assert_eq!(chosen(10, 0.01), DriverKind::EventLoop);
    assert_eq!(chosen(10_000, 0.01), DriverKind::Sweep);
    assert_eq!(chosen(10_000, 1.0), DriverKind::Sweep);
    // One short link makes windows short for all.
    let reorder = Some(Reorder { probability: 0.01, extra: Duration::from_us(1) });
    let mut network = star(
        1000,
        incast_testing::Cable { reorder, ..cable(10_000_000_000, Duration::from_us(5)) },
        &packets(250),
        &no_marks(),
    );
    network.links[0].delay = Duration::from_ns(100);
    assert_eq!(DriverKind::choose(&plan(network, new_reno(), tcp())).0, DriverKind::EventLoop);
}

/// Timers that nobody needs any more go off after the last packet, and time goes on for them.
#[test]
fn a_run_that_is_over_has_come_as_far_as_its_end() {
    let plan = leaf_spine_load(4, 4, 2, 500, 3, 30, 20);
    for (driver, threads) in [(DriverKind::EventLoop, 1), (DriverKind::Sweep, 1), (DriverKind::Sweep, 2)] {
        let control = Control::default();
        control.use_threads(NonZeroUsize::new(threads).unwrap());
        let run = incast_packets::run(&plan, &RunOptions { driver: Some(driver) }, &control).unwrap();
        assert_eq!(control.progress().now, run.end, "{driver:?} on {threads}");
    }
}
