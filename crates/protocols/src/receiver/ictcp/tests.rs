//! The controller from outside, by its trait.

use super::*;
use crate::switch::Marks;
use crate::units::{Offset, Rate};

const MSS: Bytes = Bytes(1446);
const CONTEXT: NicContext = NicContext::new(Rate(1_000_000_000), MSS, Bytes(54));

fn ictcp() -> Ictcp {
    Ictcp::new(&Config::default(), &CONTEXT)
}

fn open(nic: &mut Ictcp, flows: core::ops::Range<u32>) {
    for flow in flows {
        nic.on_open(Time(0), FlowIndex(flow));
        nic.on_message(Time(0), FlowIndex(flow), &Message::default());
    }
}

fn set_window(nic: &mut Ictcp, flow: u32, segments: u64) {
    nic.flow(FlowIndex(flow)).unwrap().window = MSS.times(segments);
}

fn windows(nic: &mut Ictcp, flows: core::ops::Range<u32>) -> Vec<u64> {
    flows.map(|flow| nic.window(Time(0), FlowIndex(flow)).unwrap().0 / MSS.0).collect()
}

fn data(nic: &mut Ictcp, now: Time, flow: u32, start: u64) {
    let arrival = Arrival {
        start: Offset(start),
        payload: MSS,
        new: MSS,
        expected: Offset(start + MSS.0),
        delivered: MSS,
        beyond_gap: Bytes::ZERO,
        highest: Offset(start + MSS.0),
        marks: Marks::NONE,
    };
    nic.on_data(now, FlowIndex(flow), &arrival);
}

#[test]
fn defaults_are_the_papers_constants() {
    let config = Config::default();
    let shares = [config.alpha, config.beta, config.gamma1, config.gamma2, config.fair_below].map(f64::from);
    assert_eq!(shares.map(|share| (share * 100.0) as u32), [90, 75, 10, 50, 20]);
    assert_eq!((config.initial_window, config.window_floor, config.low_rounds), (2, 2, 3));
    assert_eq!(config.rtt_limit, Duration::from_ms(2));
}

#[test]
fn a_connection_begins_with_two_segments_and_every_ack_leaves() {
    let mut nic = ictcp();
    open(&mut nic, 0..3);
    assert_eq!(windows(&mut nic, 0..3), [2, 2, 2]);
    assert_eq!(nic.gate(Time(0), FlowIndex(1), AckCause::SynAck), Gate::Open);
    assert_eq!(nic.poll(Time(0)), None);
    assert!(nic.is_active());
    assert_eq!(nic.window(Time(0), FlowIndex(7)), None, "unknown");
}

#[test]
fn an_initial_window_below_the_floor_is_lifted_to_it() {
    let config = Config { initial_window: 1, window_floor: 3, ..Config::default() };
    let mut nic = Ictcp::new(&config, &CONTEXT);
    open(&mut nic, 0..1);
    assert_eq!(windows(&mut nic, 0..1), [3]);
}

/// A number that is used again belongs to a new connection.
#[test]
fn a_closed_connection_leaves_nothing_behind() {
    let mut nic = ictcp();
    open(&mut nic, 0..1);
    set_window(&mut nic, 0, 9);
    nic.on_close(Time(0), FlowIndex(0));
    assert_eq!(nic.window(Time(0), FlowIndex(0)), None);
    data(&mut nic, Time(0), 0, 0);
    open(&mut nic, 0..1);
    assert_eq!(windows(&mut nic, 0..1), [2]);
}

/// Measures a first half in which `packets` full packets came in, by default parameters.
fn measure(nic: &mut Ictcp, packets: u64) {
    for packet in 0..packets {
        data(nic, Time::from_us(packet), 0, packet * MSS.0);
    }
    let end = nic.next_timer().unwrap();
    assert_eq!(end, Time::from_us(160));
    nic.on_timer(end);
}

/// 1500 bytes in 160 us are 75 Mbit/s: ten packets leave 150, nine 225; 200 are the bound.
#[test]
fn windows_above_the_mean_lose_a_segment_when_little_is_left() {
    for (packets, expected) in [(9, [2, 4, 6, 8]), (10, [2, 4, 5, 7])] {
        let mut nic = ictcp();
        open(&mut nic, 0..4);
        for (flow, segments) in [(0, 2), (1, 4), (2, 6), (3, 8)] {
            set_window(&mut nic, flow, segments);
        }
        measure(&mut nic, packets);
        assert_eq!(windows(&mut nic, 0..4), expected);
    }
}

/// Headers count: ten segments without them would be 723 Mbit/s and leave 177, nine 651. With fourteen bytes more
/// the bound lies between.
#[test]
fn what_comes_in_counts_with_its_headers() {
    for (header, levelled) in [(54, false), (400, true)] {
        let mut nic = Ictcp::new(&Config::default(), &NicContext { header: Bytes(header), ..CONTEXT });
        open(&mut nic, 0..2);
        set_window(&mut nic, 1, 9);
        measure(&mut nic, 9);
        assert_eq!(windows(&mut nic, 1..2), [if levelled { 8 } else { 9 }]);
    }
}

/// The mean is over connections that are there and under control.
#[test]
fn who_has_closed_or_has_a_long_path_is_not_in_the_mean() {
    let mut nic = ictcp();
    open(&mut nic, 0..4);
    for (flow, segments) in [(0, 2), (1, 3), (2, 4), (3, 300)] {
        set_window(&mut nic, flow, segments);
    }
    // With the fourth, the mean would be far above all others; without the first, it is 3.5.
    nic.on_close(Time(0), FlowIndex(3));
    measure(&mut nic, 10);
    assert_eq!(windows(&mut nic, 0..3), [2, 3, 3]);
}

#[test]
fn equal_windows_stay_equal() {
    let mut nic = ictcp();
    open(&mut nic, 0..3);
    for flow in 0..3 {
        set_window(&mut nic, flow, 5);
    }
    measure(&mut nic, 12);
    assert_eq!(windows(&mut nic, 0..3), [5, 5, 5]);
}

/// Only the end of the half that measures takes anything.
#[test]
fn a_slot_levels_once() {
    let mut nic = ictcp();
    open(&mut nic, 0..2);
    set_window(&mut nic, 1, 9);
    measure(&mut nic, 10);
    assert_eq!(windows(&mut nic, 1..2), [8]);
    let end = nic.next_timer().unwrap();
    nic.on_timer(end);
    assert_eq!(windows(&mut nic, 1..2), [8]);
}

/// A path of 5 ms: three samples, each from an ACK to the first byte beyond the edge before.
#[test]
fn a_connection_with_a_long_path_has_the_window_of_its_socket() {
    let mut nic = ictcp();
    open(&mut nic, 0..1);
    for round in 0..3 {
        assert_eq!(windows(&mut nic, 0..1), [2], "round {round}");
        let sent = SentAck { ack: Offset(round * MSS.0), edge: Offset((round + 1) * MSS.0), cause: AckCause::Data };
        nic.on_ack_sent(Time::from_us(round * 5000), FlowIndex(0), &sent);
        data(&mut nic, Time::from_us((round + 1) * 5000), 0, round * MSS.0);
    }
    assert_eq!(nic.window(Time(0), FlowIndex(0)), None);
    assert!(nic.flows[0].is_some());
}

#[test]
fn a_nic_without_traffic_has_no_timer() {
    let mut nic = ictcp();
    open(&mut nic, 0..1);
    assert_eq!(nic.next_timer(), None);
    data(&mut nic, Time::from_us(50), 0, 0);
    assert_eq!(nic.next_timer(), Some(Time::from_us(210)));
    for _ in 0..4 {
        let due = nic.next_timer().unwrap();
        nic.on_timer(due);
    }
    assert_eq!(nic.next_timer(), None, "a whole slot was silent");
}

/// What comes in after that says nothing of the window.
#[test]
fn a_connection_whose_messages_are_complete_has_no_data() {
    let mut nic = ictcp();
    open(&mut nic, 0..1);
    assert!(nic.flow(FlowIndex(0)).unwrap().has_data());
    nic.on_complete(Time(0), FlowIndex(0));
    assert!(!nic.flow(FlowIndex(0)).unwrap().has_data());
}

#[test]
fn a_window_that_would_grow_and_shrink_at_once_is_refused() {
    let check = |gamma1, gamma2| {
        Ictcp::check(&Config { gamma1: Share::percent(gamma1), gamma2: Share::percent(gamma2), ..Config::default() })
    };
    assert_eq!((check(10, 50), check(50, 50)), (Ok(()), Ok(())));
    assert!(check(51, 50).is_err());
}
