//! Credit with live traffic: 100 Mbit/s, 64 KiB before the aggregator, windows that connections keep from round to round, as
//! on Linux.

use crate::support::{add_flow, add_rounds, bytes, cable, new_reno, no_marks, plan, run_both, star, tcp};
use incast_plan::{Handshake, Tcp, WindowPerMessage};
use incast_protocols::application::{ApplicationChoice, all_at_once, credit, fixed_window};
use incast_protocols::stack::EndStack;
use incast_protocols::{Bytes, Duration, Time};
use incast_record::Run;

const BUFFER: u64 = 65_536;
const MSS: Bytes = Bytes(1448);

fn rounds(application: ApplicationChoice, workers: u32, response: u64, count: u32, long: u32) -> Run {
    let network = star(workers + 1 + long, cable(100_000_000, Duration::from_us(5)), &bytes(BUFFER), &no_marks());
    let tcp = Tcp {
        mss: MSS,
        header: Bytes(66),
        initial_window_segments: 10,
        rto_min: Duration::from_ms(200),
        receive_buffer: Bytes(4 << 20),
        sack: true,
        ..tcp()
    };
    let mut plan = plan(network, EndStack { application, ..new_reno() }, tcp);
    for sender in workers + 1..=workers + long {
        add_flow(&mut plan, sender, 0, None, Time(0), Handshake::Before);
    }
    add_rounds(&mut plan, workers, response, count, |_, _| Duration::ZERO);
    for connection in &mut plan.connections {
        connection.window_per_message = WindowPerMessage::Kept;
    }
    plan.record.window_series = (long..long + workers).collect();
    run_both(&plan)
}

fn timeouts(run: &Run) -> u32 {
    run.flows.iter().filter(|flow| flow.size.is_some()).map(|flow| flow.losses.timeouts()).sum()
}

/// Of all rounds, in Mbit/s.
fn goodput(run: &Run) -> f64 {
    let asked = run.flows.iter().filter(|flow| flow.size.is_some());
    let (mut received, mut end) = (0, Time(0));
    for flow in asked {
        received += flow.delivered.0;
        end = end.max(flow.end.unwrap());
    }
    8e-6 * received as f64 / end.since(Time::from_us(1000)).as_secs_f64()
}

fn all() -> ApplicationChoice {
    ApplicationChoice::AllAtOnce(all_at_once::Config {})
}

fn of(config: credit::Config) -> ApplicationChoice {
    ApplicationChoice::Credit(config)
}

#[test]
fn where_all_at_once_collapses_nothing_is_lost_with_credit() {
    for (workers, response) in [(40, 32_000), (90, 2000)] {
        let at_once = rounds(all(), workers, response, 6, 0);
        assert!(goodput(&at_once) < 50.0 && at_once.totals.dropped > 0, "{}", goodput(&at_once));
        let run = rounds(of(credit::Config::default()), workers, response, 6, 0);
        assert_eq!((timeouts(&run), run.totals.dropped), (0, 0));
        assert!(goodput(&run) > 90.0, "{}", goodput(&run));
    }
}

#[test]
fn requests_alone_do_not_do_as_windows_are_kept() {
    let four = ApplicationChoice::FixedWindow(fixed_window::Config { outstanding: 4 });
    let lost = rounds(four, 40, 128_000, 4, 0).totals.dropped;
    let run = rounds(of(credit::Config::default()), 40, 128_000, 4, 0);
    assert!(lost > 0 && run.totals.dropped == 0, "{lost}");
}

/// Four segments, which the header's field says exactly here.
#[test]
fn senders_hear_of_the_limited_windows_from_their_first_byte_on() {
    let window = |config: credit::Config| {
        let run = rounds(of(config), 12, 32_000, 2, 0);
        let windows = run.window_samples.iter().filter(|sample| !sample.from_client).map(|sample| sample.rwnd.0);
        let windows: Vec<_> = windows.collect();
        (windows.iter().copied().min().unwrap(), windows.iter().copied().max().unwrap())
    };
    assert_eq!(window(credit::Config::default()), (5792, 5792));
    let own = credit::Config { window: Some(Bytes(9000)), ..credit::Config::default() };
    assert_eq!(window(own), (9000, 9000));
    let (_, unlimited) = window(credit::Config { clamp: false, ..credit::Config::default() });
    assert_eq!(unlimited, 4 << 20);
}

#[test]
fn a_learned_budget_fills_the_port_without_a_timeout() {
    let learned = || of(credit::Config { learn: true, ..credit::Config::default() });
    for (workers, response) in [(16, 32_000), (40, 32_000), (90, 2000)] {
        let run = rounds(learned(), workers, response, 10, 0);
        assert_eq!(timeouts(&run), 0, "{workers} x {response}");
        assert!(goodput(&run) > 85.0, "{workers} x {response}: {}", goodput(&run));
    }
}
