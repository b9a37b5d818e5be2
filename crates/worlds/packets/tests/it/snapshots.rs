//! Whole scenarios as text a person can check: a change that moves a number shows where.

use std::fmt::Write;

use crate::support::{
    add_flow, add_rounds, bytes, cable, dctcp, mark_at, new_reno, no_marks, packets, plan, run_both, star, tcp,
};
use incast_plan::{Handshake, Record, Tcp};
use incast_protocols::{Duration, Time};
use incast_record::{EventKind, Run};

/// One line per message and a line of sums.
fn table(run: &Run) -> String {
    let mut text = String::from(
        "message  from  start_us      fct_us    ideal_us  timeouts(full/tail/again/ctrl)  fast  resent  cuts\n",
    );
    for flow in &run.flows {
        let us = |time: u64| time as f64 / 1e6;
        let losses = &flow.losses;
        writeln!(
            text,
            "{:7} {:5} {:9.3} {:11.3} {:11.3}  {:8} {:>22} {:5} {:7} {:5}",
            flow.id,
            flow.source,
            us(flow.start.0),
            flow.end.map_or(f64::NAN, |end| us(end.since(flow.start).0)),
            us(flow.ideal.unwrap_or_default().0),
            losses.timeouts(),
            format!(
                "{}/{}/{}/{}",
                losses.timeouts_full_window,
                losses.timeouts_tail,
                losses.timeouts_lost_retransmission,
                losses.timeouts_control
            ),
            losses.fast_retransmits,
            losses.retransmitted_packets,
            losses.mark_reductions,
        )
        .unwrap();
    }
    let totals = &run.totals;
    writeln!(
        text,
        "sent {} = delivered {} + dropped {} + lost {} + in network {}; hops {}; CE {}; ended {}",
        totals.sent,
        totals.delivered,
        totals.dropped,
        totals.lost_on_wire,
        totals.in_network,
        totals.packet_hops,
        totals.ce_marks,
        run.end
    )
    .unwrap();
    text
}

#[test]
fn a_small_incast_collapses_with_newreno() {
    let network = star(9, cable(1_000_000_000, Duration::from_us(25)), &packets(16), &no_marks());
    let settings = Tcp { initial_window_segments: 2, rto_min: Duration::from_ms(200), ..tcp() };
    let mut plan = plan(network, new_reno(), settings);
    for sender in 1..9 {
        add_flow(&mut plan, sender, 0, Some(32_768), Time(0), Handshake::Before);
    }
    insta::assert_snapshot!(table(&run_both(&plan)));
}

#[test]
fn dctcp_gets_through_the_same_incast() {
    let network = star(9, cable(1_000_000_000, Duration::from_us(25)), &packets(32), &mark_at(8));
    let settings = Tcp { initial_window_segments: 2, rto_min: Duration::from_ms(200), ..tcp() };
    let mut plan = plan(network, dctcp(), settings);
    for sender in 1..9 {
        add_flow(&mut plan, sender, 0, Some(32_768), Time(0), Handshake::Before);
    }
    insta::assert_snapshot!(table(&run_both(&plan)));
}

#[test]
fn two_rounds_of_four_workers() {
    let network = star(5, cable(1_000_000_000, Duration::from_us(25)), &bytes(65_536), &no_marks());
    let mut plan = plan(network, new_reno(), Tcp { initial_window_segments: 1, ..tcp() });
    add_rounds(&mut plan, 4, 20_000, 2, |_, _| Duration::ZERO);
    insta::assert_snapshot!(table(&run_both(&plan)));
}

/// A fresh connection from its SYN to the last ACK of its FIN, as its queue and its events tell.
#[test]
fn the_life_of_a_connection_that_loses_a_segment() {
    let network = star(3, cable(1_000_000_000, Duration::from_us(25)), &packets(5), &no_marks());
    let mut plan = plan(network, new_reno(), Tcp { initial_window_segments: 4, ..tcp() });
    add_flow(&mut plan, 1, 0, Some(30_000), Time(0), Handshake::Counted);
    add_flow(&mut plan, 2, 0, Some(30_000), Time(0), Handshake::Counted);
    plan.record = Record { events: true, ..Record::default() };
    let run = run_both(&plan);
    let mut text = table(&run);
    for event in &run.events {
        writeln!(
            text,
            "{:>12} {:?} connection {} offset {}",
            event.time.to_string(),
            event.kind,
            event.connection,
            event.offset
        )
        .unwrap();
    }
    assert!(run.events.iter().any(|event| event.kind == EventKind::FastRetransmit));
    insta::assert_snapshot!(text);
}
