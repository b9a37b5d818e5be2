//! Ports that share a memory under dynamic thresholds, with live traffic.

use crate::support::{add_flow, cable, new_reno, no_marks, plan, run_both, shared, star, tcp};
use incast_plan::{Handshake, Record, Tcp};
use incast_protocols::{Duration, Time};
use incast_record::Run;

const MEMORY: u64 = 1_200_000;
const HOSTS: u32 = 40;

/// `receivers` ports at which four senders each keep 4 Gbit/s arriving while 1 Gbit/s leaves.
fn congested(receivers: u32, alpha: f64, reserve: u64) -> Run {
    let network = star(HOSTS, cable(1_000_000_000, Duration::from_us(5)), &shared(MEMORY, alpha, reserve), &no_marks());
    // The ports fill up long before a sender learns of it.
    let mut plan = plan(network, new_reno(), Tcp { initial_window_segments: 1000, ..tcp() });
    for receiver in 0..receivers {
        for sender in 0..4 {
            let from = receivers + receiver * 4 + sender;
            add_flow(&mut plan, from % HOSTS, receiver, Some(900 * 1460), Time(0), Handshake::Before);
        }
    }
    plan.stop_at = Some(Time::from_us(8_000));
    // Links of a star: to the switch and from it, host by host.
    let queue_series = (0..receivers).map(|receiver| 2 * receiver + 1).collect();
    plan.record = Record { queue_series, ..Record::default() };
    run_both(&plan)
}

/// What waits at a receiver's port at the end.
fn held(run: &Run, receiver: u32) -> f64 {
    let last = run.queue_samples.iter().filter(|sample| sample.link == 2 * receiver + 1).last().unwrap();
    last.waiting_bytes.0 as f64
}

/// n congested ports hold alpha / (1 + n alpha) of the memory each, and their reserves.
#[test]
fn congested_ports_come_to_rest_at_their_textbook_share() {
    for alpha in [0.25, 1.0, 4.0] {
        for receivers in [1, 2, 4, 7] {
            for reserve in [0, 6_000] {
                let run = congested(receivers, alpha, reserve);
                let share = alpha / (1.0 + f64::from(receivers) * alpha);
                let shared = MEMORY - u64::from(HOSTS) * reserve;
                let expected = reserve as f64 + share * shared as f64;
                assert!(run.totals.dropped > 0);
                for receiver in 0..receivers {
                    let held = held(&run, receiver);
                    // One packet more elsewhere moves the threshold by alpha packets.
                    assert!(
                        (held - expected).abs() < 0.02 * expected + (1.0 + alpha) * 3_000.0,
                        "alpha {alpha}, {receivers} ports, reserve {reserve}: {held} for {expected}"
                    );
                }
            }
        }
    }
}

/// What one port may take depends on the others: a burst finds less memory while other ports are congested.
#[test]
fn a_burst_finds_less_memory_while_other_ports_are_congested() {
    let [alone, with_one, with_three] = [1, 2, 4].map(|receivers| held(&congested(receivers, 1.0, 0), 0));
    assert!(alone > 1.4 * with_one && with_one > 1.5 * with_three, "{alone} {with_one} {with_three}");
}
