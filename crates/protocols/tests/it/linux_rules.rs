//! Where Linux's window rules differ from the RFCs': the numbers of `tcp_cong.c`, `tcp_input.c` and
//! `tcp_output.c` as of 6.x, beside what the RFCs make of the same events.

use crate::model::{Connection, context, linux};
use incast_protocols::sender::dctcp::{self, Dctcp};
use incast_protocols::sender::new_reno::{self, NewReno};
use incast_protocols::sender::{Restart, Sender, WindowRules};

const MSS: u64 = 1448;

fn new_reno(rules: WindowRules) -> Connection<NewReno> {
    let context = context(MSS, 10, rules);
    Connection::new(&context, NewReno::new(&new_reno::Config::default(), &context))
}

fn dctcp_sender(rules: WindowRules) -> Connection<Dctcp> {
    let context = context(MSS, 10, rules);
    Connection::new(&context, Dctcp::new(&dctcp::Config::default(), &context))
}

/// `tcp_cwnd_restart`: one halving for each whole RTO of idle time, down to the initial window; ssthresh
/// remembers three quarters, each half and quarter rounded down to segments.
#[test]
fn idle_time_halves_the_window_for_each_rto() {
    for (rtos, cwnd) in [(1, 20), (2, 10), (3, 10), (64, 10), (200, 10)] {
        let mut c = new_reno(linux());
        c.set_windows(41, 15);
        c.restart(Restart::Decay { rtos });
        assert_eq!((c.cwnd(), c.ssthresh()), (cwnd, 20 + 10), "{rtos} RTOs");
    }
    let mut small = new_reno(linux());
    small.set_windows(3, 40);
    small.restart(Restart::Decay { rtos: 5 });
    assert_eq!((small.cwnd(), small.ssthresh()), (3, 40), "a window below the initial one stays");
}

/// `tcp_is_cwnd_limited`: what the application does not use does not grow.
#[test]
fn a_window_that_is_not_used_up_does_not_grow() {
    let grown = |rules, used| {
        let mut c = new_reno(rules);
        c.window_used = used;
        c.fill();
        c.ack_all(false);
        c.cwnd()
    };
    assert_eq!(grown(linux(), true), 20);
    assert_eq!(grown(linux(), false), 10);
    assert_eq!(grown(WindowRules::default(), false), 20, "RFC 5681 does not ask");
}

/// `tcp_end_cwnd_reduction` leaves ssthresh, RFC 6582's first option little more than is in flight.
#[test]
fn recovery_ends_with_ssthresh_or_with_what_is_in_flight() {
    let after = |rules| {
        let mut c = new_reno(rules);
        c.set_windows(20, 20);
        c.fill();
        c.lose_one();
        let _ = c.ack(u64::MAX / MSS, false);
        (c.cwnd(), c.ssthresh())
    };
    assert_eq!(after(linux()), (10, 10));
    assert_eq!(after(WindowRules::default()), (2, 10), "nothing in flight: one segment and one more");
}

/// `dctcp_ssthresh` is never below 2 and `tcp_end_cwnd_reduction` sets the window to it, also after a timeout.
#[test]
fn a_mark_lifts_a_window_of_one_segment_to_two_in_linux_only() {
    let after = |rules| {
        let mut c = dctcp_sender(rules);
        c.fill();
        c.timeout();
        let _ = c.ack(u64::MAX / MSS, false);
        c.set_windows(1, 5);
        c.send_regardless(1);
        let _ = c.ack(1, true);
        (c.cwnd(), c.ssthresh())
    };
    assert_eq!(after(linux()), (2, 2));
    assert_eq!(after(WindowRules::default()), (1, 2));
}

/// `dctcp_update_alpha` takes an ACK at the end of the window, RFC 8257 section 3.3 one beyond it.
#[test]
fn an_observation_ends_with_the_ack_at_its_end_or_beyond() {
    let alphas = |rules| {
        let mut c = dctcp_sender(rules);
        // The first ACK ends the empty window before, the next window reaches as far as was sent.
        c.fill();
        let _ = c.ack(1, false);
        let first = c.sender.alpha();
        let _ = c.ack(9, false);
        let at = c.sender.alpha();
        c.send(1);
        let _ = c.ack(1, false);
        (first, at, c.sender.alpha())
    };
    assert_eq!(alphas(linux()), (Some(960), Some(900), Some(844)));
    assert_eq!(alphas(WindowRules::default()), (Some(960), Some(960), Some(900)));
}

/// `TCP_CA_CWR` is held until something beyond `high_seq` is acknowledged, and nothing grows in it.
#[test]
fn after_a_mark_the_window_is_held_for_a_window_of_data() {
    let after = |rules| {
        let mut c = dctcp_sender(rules);
        c.set_windows(20, 10);
        c.fill();
        let _ = c.ack(1, true);
        assert_eq!(c.cwnd(), 10, "alpha stays 1024: the mark is all that was seen");
        // 19 more were in flight at the mark: 10 ACKs would earn a segment.
        let _ = c.ack(19, false);
        let held = c.windows().cwnd;
        c.fill();
        c.ack_all(false);
        (held.0 / MSS, c.windows().cwnd.0 / MSS)
    };
    assert_eq!(after(linux()), (10, 11));
    let free = after(WindowRules { hold_after_mark: false, ..linux() });
    assert_eq!(free, (11, 12), "RFC 8257 leaves it open");
}
