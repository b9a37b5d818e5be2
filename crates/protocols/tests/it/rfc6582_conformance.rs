//! NewReno's fast recovery, RFC 6582 section 3.2: what partial ACKs do to the window. How the connection finds
//! the loss and what it retransmits is tested where the connection lives.

use crate::model::{Connection, context};
use incast_protocols::Bytes;
use incast_protocols::sender::WindowRules;
use incast_protocols::sender::new_reno::{Config, NewReno};

const MSS: u64 = 1000;

/// Ten segments in flight, the first of them lost: ssthresh is 5, and the window 5 and the three that have
/// left the network.
fn in_recovery(rules: WindowRules) -> Connection<NewReno> {
    let context = context(MSS, 10, rules);
    let mut c = Connection::new(&context, NewReno::new(&Config::default(), &context));
    c.fill();
    c.lose_one();
    c
}

/// Step 3: the window is deflated by what a partial ACK acknowledges, and one segment is added back.
#[test]
fn a_partial_ack_deflates_by_what_it_acknowledges_less_one_segment() {
    for (segments, expected) in [(1, 8), (2, 7), (3, 6), (5, 4)] {
        let mut c = in_recovery(WindowRules::default());
        assert_eq!((c.cwnd(), c.ssthresh()), (8, 5));
        let _ = c.ack(segments, false);
        assert!(c.in_recovery);
        assert_eq!((c.cwnd(), c.ssthresh()), (expected, 5), "after {segments} segments");
    }
}

/// Step 3: the segment is added back only if at least one was acknowledged.
#[test]
fn a_partial_ack_of_less_than_a_segment_adds_nothing_back() {
    let mut c = in_recovery(WindowRules::default());
    let _ = c.ack_bytes(MSS / 2, false);
    assert_eq!(c.windows().cwnd, Bytes(8 * MSS - MSS / 2));
}

/// What was never inflated is not deflated.
#[test]
fn a_partial_ack_leaves_a_window_without_inflation() {
    let mut c = in_recovery(WindowRules { inflate_in_recovery: false, ..WindowRules::default() });
    assert_eq!((c.cwnd(), c.ssthresh()), (5, 5));
    let _ = c.ack(3, false);
    assert_eq!((c.cwnd(), c.ssthresh()), (5, 5));
}
