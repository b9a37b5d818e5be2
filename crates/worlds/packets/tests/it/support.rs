//! Plans made by hand, and runs of them with both drivers.

pub(crate) use incast_testing::*;

use incast_packets::{Control, DriverKind, RunOptions, run};
use incast_plan::{Handshake, Plan};
use incast_protocols::Time;
use incast_protocols::switch::buffer::BufferChoice;
use incast_record::{PacketFlags, PacketSample, Run};
use incast_scenario::{Override, Scenario};

/// The plan of a scenario with these changes.
pub(crate) fn planned(text: &str, changes: &[&str]) -> Plan {
    let changes: Vec<Override> = changes.iter().map(|change| Override::parse(change).unwrap()).collect();
    let scenario =
        Scenario::parse(text, "scenario.toml", &changes).unwrap_or_else(|report| panic!("{changes:?}: {report}"));
    scenario.plan(None).unwrap_or_else(|report| panic!("{report}"))
}

/// Three senders of messages without an end, and two that begin later and have one.
pub(crate) fn add_endless_and_others(plan: &mut Plan) {
    for sender in 1..4 {
        add_flow(plan, sender, 0, None, Time(0), Handshake::Counted);
    }
    for sender in 4..6 {
        add_flow(plan, sender, 0, Some(200_000), Time::from_us(1000), Handshake::Before);
    }
}

pub(crate) fn run_on(plan: &Plan, driver: DriverKind) -> Run {
    run(plan, &RunOptions { driver: Some(driver) }, &Control::default()).unwrap()
}

/// Runs with both drivers, demands identical results, and returns them.
pub(crate) fn run_both(plan: &Plan) -> Run {
    let sweep = run_on(plan, DriverKind::Sweep);
    let event_loop = run_on(plan, DriverKind::EventLoop);
    assert_same(&sweep, &event_loop);
    check_packets(plan, &sweep);
    sweep
}

pub(crate) fn assert_same(a: &Run, b: &Run) {
    for (a, b) in a.flows.iter().zip(&b.flows) {
        assert_eq!(a, b);
    }
    assert!(a == b, "drivers differ: {:?} {:?} end {} {}", a.totals, b.totals, a.end, b.end);
}

/// Has every packet at every port written down.
pub(crate) fn follow_packets(plan: &mut Plan) {
    plan.record.packets = (0..plan.network.links.len() as u32).collect();
}

/// Packets that are written down agree with what ports have counted, and with their queues.
pub(crate) fn check_packets(plan: &Plan, run: &Run) {
    if !plan.record.packets_of.is_empty() {
        return;
    }
    for port in run.ports.iter().filter(|port| plan.record.packets.contains(&port.link)) {
        let rows: Vec<PacketSample> = run.packets.iter().filter(|row| row.link == port.link).collect();
        let left = || rows.iter().filter(|row| row.wait.is_some());
        let bytes: u64 = left().map(|row| u64::from(row.wire)).sum();
        assert_eq!((left().count() as u64, bytes), (port.packets, port.bytes.0), "link {}", port.link);
        let dropped = rows.iter().filter(|row| row.dropped).count() as u64;
        let trimmed = rows.iter().any(|row| row.flags.0 & PacketFlags::TRIMMED.0 != 0);
        assert!(dropped == port.drops || trimmed && dropped < port.drops, "link {}: {dropped}", port.link);
        if plan
            .network
            .switches
            .iter()
            .flat_map(|switch| &switch.buffers)
            .any(|one| matches!(one, BufferChoice::Custom(_)))
        {
            // What a test's own buffer evicts has waited, and the rows do not tell until when.
            continue;
        }
        // Between two arrivals or departures the queue holds what has come and not begun.
        let mut change: Vec<(u64, i64)> = Vec::new();
        for row in left() {
            change.push((row.arrive.0, 1));
            change.push((row.arrive.0 + row.wait.unwrap().0, -1));
        }
        change.sort_unstable();
        let (mut waiting, mut next) = (0, 0);
        let samples: Vec<_> = run.queue_samples.iter().filter(|sample| sample.link == port.link).collect();
        for (index, sample) in samples.iter().enumerate() {
            let last = samples.get(index + 1).is_none_or(|later| later.time > sample.time);
            while change.get(next).is_some_and(|change| change.0 <= sample.time.0) {
                waiting += change[next].1;
                next += 1;
            }
            let cut = rows.iter().filter(|row| row.wait.is_none() && !row.dropped && row.arrive <= sample.time).count();
            assert!(
                !last || waiting + cut as i64 == i64::from(sample.waiting_packets),
                "link {} at {}: {waiting} + {cut} and not {}",
                port.link,
                sample.time,
                sample.waiting_packets
            );
        }
    }
}
