//! Pulser with live traffic: a long flow brakes for an incast, and only for that.

use crate::support::{add_flow, cable, new_reno, packets, plan, run_both, star, tcp};
use incast_plan::{Handshake, Plan, Record, Tcp};
use incast_protocols::echo::EchoChoice;
use incast_protocols::sender::SenderChoice;
use incast_protocols::stack::EndStack;
use incast_protocols::switch::marker::{MarkerChoice, ein};
use incast_protocols::{Bytes, Duration, Time};
use incast_record::{Run, WindowSample};

const RATE: u64 = 10_000_000_000;
const BURST_AT: Time = Time::from_us(20_000);
const MSS: u64 = 1460;

fn pulser() -> EndStack {
    EndStack {
        sender: SenderChoice::Pulser(Default::default()),
        echo: EchoChoice::PulserEcho(Default::default()),
        ..new_reno()
    }
}

/// A long flow and, at 20 ms, a burst of so many senders of 20 KiB to the same port.
fn scenario(senders: u32, initial_window: u64) -> Plan {
    let marker = MarkerChoice::Ein(ein::Config::default());
    let network = star(senders + 2, cable(RATE, Duration::from_us(10)), &packets(400), &marker);
    // 1.3 times what the path holds, so that the long flow does not wait in its own host.
    let tcp = Tcp { initial_window_segments: initial_window, receive_buffer: Bytes(50 * MSS), ..tcp() };
    let mut plan = plan(network, pulser(), tcp);
    add_flow(&mut plan, 1, 0, Some(50_000_000), Time(0), Handshake::Before);
    for sender in 0..senders {
        add_flow(&mut plan, sender + 2, 0, Some(20_480), BURST_AT, Handshake::Before);
    }
    plan.record = Record { queue_series: vec![1], window_series: vec![0], ..Record::default() };
    plan
}

fn cwnds(run: &Run, from_us: u64, to_us: u64) -> Vec<WindowSample> {
    run.window_samples
        .iter()
        .filter(|at| at.connection == 0 && at.time >= Time::from_us(from_us) && at.time < Time::from_us(to_us))
        .collect()
}

/// The window is at most four segments within two round trips of the burst, and back to what it was, at once, after it.
#[test]
fn a_long_flow_brakes_for_an_incast_and_has_its_window_back() {
    let run = run_both(&scenario(24, 4));
    let before = cwnds(&run, 19_900, 20_000).last().unwrap().cwnd;
    assert!(before.0 > 40 * MSS, "{before:?}");
    let braked = cwnds(&run, 20_000, 20_200).iter().map(|at| at.cwnd).min().unwrap();
    assert!(braked.0 <= 4 * MSS, "{braked:?}");
    let after: Vec<_> = cwnds(&run, 20_000, 23_000);
    let back = after.windows(2).find(|pair| pair[0].cwnd.0 <= 4 * MSS && pair[1].cwnd.0 > 4 * MSS).unwrap();
    assert!(back[1].cwnd.0 * 10 >= before.0 * 8, "{before:?}, then {:?}", back[1].cwnd);
    assert!(run.totals.ein_marks > 0);
}

/// One flow and its own slow drift are not an incast.
#[test]
fn without_a_burst_nothing_is_marked_once_slow_start_is_over() {
    let mut plan = scenario(1, 4);
    plan.sends.truncate(1);
    plan.connections.truncate(1);
    let run = run_both(&plan);
    let late = cwnds(&run, 10_000, 40_000);
    assert!(late.len() > 100 && late.iter().all(|at| at.cwnd.0 > 4 * MSS));
}

/// Two bursts of different sizes: the port's arrivals tell when, EIN says so within a few packets, and no innocent packet is
/// marked. The port towards the host that sends the long flow carries ACKs alone, and nothing is said of it.
#[test]
fn the_detector_is_held_against_what_arrives() {
    let mut plan = scenario(24, 4);
    for sender in 0..40 {
        add_flow(&mut plan, 2 + sender % 24, 0, Some(4380), Time::from_us(30_000), Handshake::Before);
    }
    plan.record.incasts =
        (0..plan.network.links.len() as u32).filter(|&link| plan.network.links[link as usize].port.is_some()).collect();
    let run = run_both(&plan);
    assert!(run.ein_watched);
    let found: Vec<_> = run.incasts.iter().map(|incast| (incast.link, incast.begin, incast.hosts)).collect();
    for at in [BURST_AT, Time::from_us(30_000)] {
        // The first packets arrive a wire and a transmission after they were sent.
        let incast =
            run.incasts.iter().find(|incast| incast.begin.since(at) < Duration::from_us(20)).expect("an incast");
        assert!(incast.hosts >= 24 && incast.link == 1, "{found:?}");
        assert!(incast.delay().expect("EIN said so") <= Duration::from_us(5), "{incast:?}");
    }
    assert!(run.incasts.iter().all(|incast| incast.begin >= BURST_AT), "{found:?}");
    assert!(run.alarms.iter().all(|alarm| alarm.link == 1));
}
