//! Faults that other simulators' DCTCP had or has, each with the test that would have found it.

use crate::model::{Connection, context, linux};
use incast_protocols::Bytes;
use incast_protocols::sender::dctcp::{Config, Dctcp};
use incast_protocols::sender::{Family, LossBasis, MarkResponse, Sender, SenderChoice, WindowRules, Windows};

const MSS: u64 = 1448;

/// A window of 20 in congestion avoidance, whose alpha 100 unmarked rounds have brought to 0.
fn with_decayed_alpha(rules: WindowRules) -> Connection<Dctcp> {
    let context = context(MSS, 20, rules);
    let mut c = Connection::new(&context, Dctcp::new(&Config::default(), &context));
    for _ in 0..100 {
        c.send_regardless(1);
        let _ = c.ack(1, false);
    }
    c.set_windows(20, 20);
    c
}

/// ns-3 until 2026 (tracker issue 1012): ssthresh came from alpha on loss too, so that a long-unmarked flow
/// did not back off from a drop-tail queue at all.
#[test]
fn a_loss_halves_even_when_alpha_has_decayed_to_nothing() {
    for rules in [WindowRules::default(), linux()] {
        let mut c = with_decayed_alpha(rules);
        assert!(c.windows().cwnd.0 >= 20 * MSS);
        assert_eq!(alpha(&c), 0);
        c.fill();
        c.lose_one();
        assert_eq!(c.ssthresh(), 10, "{rules:?}");

        let mut c = with_decayed_alpha(rules);
        c.fill();
        c.timeout();
        assert_eq!((c.ssthresh(), c.cwnd()), (10, 1), "{rules:?}");
    }
}

fn alpha(c: &Connection<Dctcp>) -> u32 {
    use incast_protocols::sender::Sender;
    c.sender.alpha().expect("DCTCP estimates")
}

/// htsim (NDP issue 1): every window was cut as long as alpha was above zero, marked or not.
#[test]
fn a_window_without_marks_is_never_cut_however_large_alpha_is() {
    let context = context(MSS, 20, WindowRules::default());
    let mut c = Connection::new(&context, Dctcp::new(&Config::default(), &context));
    c.set_windows(20, 20);
    for _ in 0..70 {
        assert!(alpha(&c) > 0);
        let before = c.windows();
        c.fill();
        while c.flight() > 0 {
            assert_eq!(c.ack(1, false), MarkResponse::None);
        }
        assert!(c.windows().cwnd > before.cwnd && c.windows().ssthresh == before.ssthresh);
    }
}

/// htsim: the ACK that cut the window went on to grow it. In slow start that is a segment per marked ACK.
#[test]
fn the_ack_that_carries_ece_does_not_grow_the_window_it_cuts() {
    for growth in [WindowRules::default(), linux()] {
        for ssthresh in [20, 1000] {
            let context = context(MSS, 20, growth);
            let mut c = Connection::new(&context, Dctcp::new(&Config::default(), &context));
            c.set_windows(20, ssthresh);
            c.fill();
            assert_eq!(c.ack(1, true), MarkResponse::Reduced);
            assert_eq!(c.cwnd(), 10);
            while c.flight() > 0 {
                assert_eq!(c.ack(1, true), MarkResponse::None);
                assert_eq!(c.cwnd(), 10);
            }
        }
    }
}

/// INET (issue 816): more than one reduction per window of data. Twenty marks in one window are one cut, and
/// the next window's first mark is the next.
#[test]
fn twenty_marks_in_one_window_are_one_cut() {
    let context = context(MSS, 20, WindowRules::default());
    let mut c = Connection::new(&context, Dctcp::new(&Config::default(), &context));
    for _ in 0..3 {
        c.fill();
        let segments = c.flight() / MSS;
        assert!(segments > 2);
        let cuts = (0..segments).filter(|_| c.ack(1, true) == MarkResponse::Reduced).count();
        assert_eq!(cuts, 1);
    }
}

/// The HPCC simulator's DCTCP starts at line rate. Every sender of the Reno family here starts in slow start from the
/// initial window, and doubles it per round at most.
#[test]
fn a_new_connection_starts_slowly_from_its_initial_window() {
    for choice in SenderChoice::defaults() {
        if choice.build(&context(MSS, 1, WindowRules::default())).conduct().family != Family::Reno {
            continue;
        }
        for initial_segments in [1, 2, 10] {
            let context = context(MSS, initial_segments, WindowRules::default());
            let mut c = Connection::new(&context, choice.build(&context));
            let start = Windows { cwnd: Bytes(initial_segments * MSS), ssthresh: Windows::UNLIMITED };
            assert_eq!(c.windows(), start, "{}", choice.info().name);
            let mut most = initial_segments;
            for _ in 0..5 {
                c.fill();
                assert!(c.flight() <= most * MSS, "{} sends {} in a round", choice.info().name, c.flight());
                c.ack_all(false);
                most *= 2;
            }
        }
    }
}

/// Two cuts multiplied: a loss that follows a mark in the same window of data, or a timeout in recovery, left
/// a quarter instead of a half (found here, before release).
#[test]
fn two_signals_of_one_congestion_are_one_half_not_a_quarter() {
    for loss_basis in [LossBasis::Flight, LossBasis::Cwnd] {
        for inflate_in_recovery in [false, true] {
            let rules = WindowRules { loss_basis, inflate_in_recovery, ..WindowRules::default() };
            let context = context(MSS, 20, rules);
            let mut c = Connection::new(&context, Dctcp::new(&Config::default(), &context));
            c.fill();
            assert_eq!(c.duplicate(true), MarkResponse::Reduced);
            assert_eq!(c.duplicate(true), MarkResponse::None);
            let _ = c.duplicate(true);
            assert!(c.in_recovery);
            assert_eq!(c.ssthresh(), 10, "{rules:?}");
            c.timeout();
            assert_eq!((c.ssthresh(), c.cwnd()), (10, 1), "{rules:?}");
        }
    }
}

/// A mark in the slow start after a timeout lifted a window of one segment to the floor of two (found here,
/// before release).
#[test]
fn a_mark_does_not_lift_a_window_below_the_floor() {
    let context = context(MSS, 20, WindowRules { mark_lifts_to_floor: false, ..linux() });
    let mut c = Connection::new(&context, Dctcp::new(&Config::default(), &context));
    c.fill();
    c.timeout();
    let _ = c.ack(20, true);
    assert_eq!(c.cwnd(), 1);
    c.fill();
    assert_eq!(c.ack(1, true), MarkResponse::Reduced);
    assert_eq!((c.cwnd(), c.ssthresh()), (1, 2));
}
