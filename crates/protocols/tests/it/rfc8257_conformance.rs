//! RFC 8257 clause by clause, and DCTCP's integers in Linux.
//!
//! RFC and Linux are not the same algorithm. Where they differ we follow:
//!
//! | on | RFC 8257 | Linux | here |
//! |---|---|---|---|
//! | end of an observation window | an ACK beyond `WindowEnd` (3.3 step 4) | an ACK at it | `WindowRules::observation_end` |
//! | what counts as acknowledged | cumulative bytes | packets delivered, by SACK or duplicates too | bytes delivered, duplicates too, each once |
//! | alpha | real numbers, integers allowed (4.2) | integers of 1/1024 | Linux |
//! | arithmetic of the window | bytes | whole segments | `WindowRules::growth` |
//! | least window after a mark | not said | 2 segments, even for a window of 1 | `WindowRules::floor_segments` and `mark_lifts_to_floor` |
//! | what a loss halves | `FlightSize` (RFC 5681) | cwnd | `WindowRules::loss_basis` |
//! | loss after a mark in one window of data | one reduction (3.5) | half of what the mark left | RFC: half of what was before the mark |
//! | timeout after a mark in one window of data | as conventional TCP (3.5) | ssthresh stays | RFC |
//!
//! What the connection has to do (ECT on SYNs, CWR, timers) is tested where the connection lives.

use crate::model::{Connection, context, linux};
use incast_protocols::echo::dctcp::{self, DctcpEcho};
use incast_protocols::echo::rfc3168::{self, Rfc3168};
use incast_protocols::echo::{Echo, EchoContext};
use incast_protocols::sender::dctcp::{Config, Dctcp};
use incast_protocols::sender::{
    Ack, LossBasis, MarkResponse, ObservationEnd, Restart, Sender, SenderContext, SenderView, WindowRules, Windows,
};
use incast_protocols::switch::marker::ecn_threshold::{self, EcnThreshold};
use incast_protocols::switch::marker::{Marker, MarkerContext};
use incast_protocols::switch::{Marks, PacketView, QueueState};
use incast_protocols::{Amount, Bytes, Offset, Rate, Time};
use proptest::prelude::*;

const MSS: u64 = 1000;

fn connection(initial_segments: u64, alpha: u32) -> Connection<Dctcp> {
    with(&context(MSS, initial_segments, WindowRules::default()), alpha)
}

fn with(context: &SenderContext, alpha: u32) -> Connection<Dctcp> {
    Connection::new(context, Dctcp::new(&Config { initial_alpha: alpha, ..Config::default() }, context))
}

/// One round: the window is filled, then each segment gets an ACK of its own, the first `marked` with ECE.
fn round(connection: &mut Connection<Dctcp>, marked: u64) {
    connection.fill();
    for segment in 0..connection.flight() / MSS {
        let _ = connection.ack(1, segment < marked);
    }
}

mod clause_3_1_marking_at_the_switch {
    use super::*;

    fn finds(waiting: u32) -> QueueState {
        QueueState {
            now: Time(0),
            waiting_packets: waiting,
            waiting_bytes: Bytes(u64::from(waiting) * 1500),
            in_service: Bytes(1500),
            rate: Rate(1_000_000_000),
        }
    }

    fn marks(waiting: u32, ecn_capable: bool) -> Marks {
        let config = ecn_threshold::Config { threshold: Amount::Packets(20), ..ecn_threshold::Config::default() };
        let packet = PacketView { bytes: Bytes(1500), ecn_capable, ..PacketView::default() };
        EcnThreshold::new(&config, &MarkerContext::alone(Rate(1_000_000_000))).on_enqueue(&finds(waiting), &packet)
    }

    /// 3.1: a packet that arrives while the queue is longer than the threshold gets CE. Finding K, it makes
    /// the queue K + 1.
    #[test]
    fn a_packet_that_makes_the_queue_longer_than_the_threshold_is_marked() {
        assert_eq!(marks(19, true), Marks::NONE);
        assert_eq!(marks(20, true), Marks::CE);
    }

    /// 3.1 by way of RFC 3168 section 5: CE replaces ECT, so what is not ECN-capable stays unmarked.
    #[test]
    fn a_packet_that_is_not_ecn_capable_is_not_marked() {
        assert_eq!(marks(1000, false), Marks::NONE);
    }

    /// 3.1: K > RTT * C / 7. The default is meant for 10 Gbit/s and holds up to an RTT of 500 us.
    #[test]
    fn the_default_threshold_is_above_the_guideline() {
        let Amount::Packets(threshold) = ecn_threshold::Config::default().threshold else {
            panic!("the default threshold is in packets")
        };
        let packets_per_rtt = 10_000_000_000_u64 / (1500 * 8) * 500 / 1_000_000;
        assert!(u64::from(threshold) > packets_per_rtt / 7);
    }
}

mod clause_3_2_echo_at_the_receiver {
    use super::*;

    fn echo() -> DctcpEcho {
        DctcpEcho::new(&dctcp::Config::default(), &EchoContext::default())
    }

    /// 3.2: DCTCP.CE starts out false.
    #[test]
    fn nothing_is_echoed_at_first() {
        assert!(!echo().on_ack().ece);
    }

    /// 3.2: an ACK has ECE if and only if DCTCP.CE is true, whatever number of ACKs leave.
    #[test]
    fn every_ack_says_the_mark_of_the_last_segment() {
        let mut echo = echo();
        for ce in [true, true, false, true, false, false] {
            echo.on_data(if ce { Marks::CE } else { Marks::NONE }, false);
            assert_eq!((echo.on_ack().ece, echo.on_ack().ece), (ce, ce));
        }
    }

    /// 3.2 rules 1 and 2: a segment that differs from DCTCP.CE changes it and is acknowledged at once.
    #[test]
    fn a_change_of_marks_asks_for_an_immediate_ack() {
        let mut echo = echo();
        assert!(echo.would_change(Marks::CE));
        echo.on_data(Marks::CE, false);
        assert!(echo.would_change(Marks::NONE));
    }

    /// 3.2 rule 3: a segment like the one before changes nothing and may wait for a delayed ACK.
    #[test]
    fn a_segment_marked_like_the_last_changes_nothing() {
        let mut echo = echo();
        assert!(!echo.would_change(Marks::NONE));
        echo.on_data(Marks::CE, false);
        assert!(!echo.would_change(Marks::CE));
    }

    /// 3.2 allows two ACKs at a change, one for what came before: it still says the old state.
    #[test]
    fn what_came_before_the_change_can_be_acknowledged_in_the_old_state() {
        let mut echo = echo();
        echo.on_data(Marks::NONE, false);
        assert!(echo.would_change(Marks::CE));
        assert!(!echo.on_ack().ece);
        echo.on_data(Marks::CE, false);
        assert!(echo.on_ack().ece);
    }

    /// 3.2 with RFC 3168 erratum 3639: of CWR and CE on one segment, CWR comes first, so ECE is said.
    #[test]
    fn ce_outlives_cwr_on_the_same_segment() {
        let mut exact = echo();
        exact.on_data(Marks::CE, true);
        assert!(exact.on_ack().ece);
        let mut classic = Rfc3168::new(&rfc3168::Config::default(), &EchoContext::default());
        classic.on_data(Marks::CE, true);
        assert!(classic.on_ack().ece);
    }
}

mod clause_3_3_estimate_and_reaction_of_the_sender {
    use super::*;

    /// 3.3: alpha starts at 1, so the first mark halves.
    #[test]
    fn alpha_starts_at_one_and_the_first_mark_halves() {
        let mut c = with(&context(MSS, 10, WindowRules::default()), Config::default().initial_alpha);
        assert_eq!(c.sender.alpha(), Some(1024));
        c.fill();
        assert_eq!(c.ack(1, true), MarkResponse::Reduced);
        assert_eq!(c.cwnd(), 5);
    }

    /// 3.3: `WindowEnd` starts at SND.UNA, so the first ACK ends a first observation window of its own.
    #[test]
    fn the_first_ack_ends_the_first_window() {
        let mut c = connection(10, 1024);
        c.fill();
        let _ = c.ack(1, false);
        assert_eq!(c.sender.alpha(), Some(960));
    }

    /// 3.3 steps 1 to 3: bytes count, not ACKs. In a window of eight segments one ACK with ECE covers three and
    /// two without cover the other five: 3/8 of 1024/16 is 24.
    #[test]
    fn the_share_is_one_of_bytes_not_of_acks() {
        let mut c = connection(10, 0);
        c.send_regardless(8);
        // Ends the first window; the next one ends with the seven segments that are still in flight.
        let _ = c.ack(1, false);
        let _ = c.ack(3, true);
        let _ = c.ack(4, false);
        assert_eq!(c.sender.alpha(), Some(0), "the window is not over");
        c.send_regardless(1);
        let _ = c.ack(1, false);
        assert_eq!(c.sender.alpha(), Some(24));
    }

    /// 3.3 step 4: an ACK up to `WindowEnd` does not end the window, one beyond it does. Linux ends it at
    /// `WindowEnd` already.
    #[test]
    fn only_an_ack_beyond_the_window_end_ends_the_window() {
        let mut c = connection(10, 1024);
        c.send_regardless(4);
        let _ = c.ack(1, false);
        assert_eq!(c.sender.alpha(), Some(960));
        let _ = c.ack(3, false);
        assert_eq!(c.sender.alpha(), Some(960), "at WindowEnd");
        c.send_regardless(1);
        let _ = c.ack(1, false);
        assert_eq!(c.sender.alpha(), Some(900), "beyond it");
    }

    /// 3.3 steps 5 and 6: alpha becomes (1 - g) alpha + g M. From 512 with half of the bytes marked it stays.
    #[test]
    fn alpha_moves_to_the_share_with_weight_g() {
        for (alpha, marked, expected) in [(512, 4, 512), (512, 0, 480), (512, 8, 544), (0, 8, 64), (1024, 2, 976)] {
            assert_eq!(linux::observe(alpha, 8, marked).alpha(), Some(expected), "{alpha}, {marked} of 8");
        }
    }

    /// 3.3 step 7: the next window ends at what is sent by now.
    #[test]
    fn the_next_window_ends_at_what_is_sent() {
        let mut c = connection(10, 1024);
        c.send_regardless(10);
        let _ = c.ack(1, false);
        for _ in 0..9 {
            c.send_regardless(1);
            let _ = c.ack(1, false);
            assert_eq!(c.sender.alpha(), Some(960));
        }
        let _ = c.ack(1, false);
        assert_eq!(c.sender.alpha(), Some(900));
    }

    /// 3.3 step 8: both counts start over. A marked window leaves no trace in the share of the next.
    #[test]
    fn each_window_counts_for_itself() {
        let mut c = connection(10, 0);
        c.may_move_window = false;
        c.send_regardless(1);
        let _ = c.ack(1, true);
        assert_eq!(c.sender.alpha(), Some(64));
        c.send_regardless(1);
        let _ = c.ack(1, false);
        assert_eq!(c.sender.alpha(), Some(60));
    }

    /// 3.3 step 9: cwnd becomes cwnd (1 - alpha / 2), and ssthresh with it (RFC 3168 section 6.1.2).
    #[test]
    fn a_mark_cuts_by_half_of_alpha() {
        for (alpha, expected) in [(1024, 50_000), (512, 73_438), (64, 93_946), (0, 96_875)] {
            let mut c = connection(100, alpha);
            c.fill();
            assert_eq!(c.ack(1, true), MarkResponse::Reduced);
            // The ACK ends the first window: alpha is 1/16 nearer to 1 before it cuts.
            let cut = Bytes(expected);
            assert_eq!(c.windows(), Windows { cwnd: cut, ssthresh: cut }, "alpha {alpha}");
        }
    }

    /// 3.3, order of the steps: the estimate is brought up to date first, then it cuts.
    #[test]
    fn the_mark_that_ends_a_window_cuts_with_the_new_estimate() {
        let mut c = connection(64, 0);
        c.fill();
        let _ = c.ack(1, true);
        assert_eq!(c.sender.alpha(), Some(64));
        assert_eq!(c.windows().cwnd, Bytes(62_000));
    }

    /// 3.3: no more than one reaction per window of data. What was in flight at the cut cannot cut again,
    /// what was sent later can.
    #[test]
    fn one_window_of_data_is_cut_once() {
        let mut c = connection(16, 1024);
        c.fill();
        assert_eq!(c.ack(1, true), MarkResponse::Reduced);
        assert_eq!(c.cwnd(), 8);
        c.send_regardless(4);
        for _ in 1..16 {
            assert_eq!(c.ack(1, true), MarkResponse::None);
        }
        assert_eq!(c.cwnd(), 8);
        assert_eq!(c.ack(1, true), MarkResponse::Reduced);
        assert!(c.windows().cwnd < Bytes(8 * MSS));
    }

    /// 3.3: it is echoed marks that are answered. Alpha above zero alone cuts nothing.
    #[test]
    fn a_window_without_marks_is_not_cut() {
        let mut c = connection(16, 1024);
        c.set_windows(16, 16);
        let mut last = c.windows().cwnd;
        for _ in 0..20 {
            round(&mut c, 0);
            assert!(c.windows().cwnd > last && c.sender.alpha() > Some(0));
            last = c.windows().cwnd;
        }
    }

    /// 3.3 step 1 knows only cumulative ACKs; Linux counts what was delivered. Here a duplicate tells of one
    /// segment, and the ACK that closes the gap does not tell of it again: of ten segments the first is
    /// lost, five of the other nine are marked, so 5/10 of 64 is 32.
    #[test]
    fn what_duplicates_told_is_not_counted_again_when_the_gap_closes() {
        let mut c = connection(10, 0);
        c.fill();
        for segment in 0..9 {
            let _ = c.duplicate(segment < 5);
        }
        assert_eq!(c.sender.alpha(), Some(0));
        let _ = c.ack(10, false);
        assert_eq!(c.sender.alpha(), Some(32));
    }

    /// The same with two gaps: what duplicates told of beyond the second is still told when the first closes.
    /// Of segments 1 to 9 the first and the fifth are lost, five of the other seven are marked; with the
    /// segment that ends the window 5/10 of 64 is 32.
    #[test]
    fn what_duplicates_told_is_not_counted_again_when_the_second_gap_closes() {
        let mut c = connection(10, 0);
        c.send_regardless(10);
        // Ends the first window; the next ends with the nine segments that are in flight.
        let _ = c.ack(1, false);
        for segment in 0..7 {
            let _ = c.duplicate(segment < 5);
        }
        let _ = c.ack(4, false);
        assert!(c.in_recovery);
        let _ = c.ack(5, false);
        assert_eq!(c.sender.alpha(), Some(0), "the window is not over");
        c.send_regardless(1);
        let _ = c.ack(1, false);
        assert_eq!(c.sender.alpha(), Some(32));
    }
}

mod clause_3_4_growth {
    use super::*;

    /// 3.4: slow start as in RFC 5681.
    #[test]
    fn slow_start_doubles_every_round_without_marks() {
        let mut c = connection(1, 1024);
        for window in [1, 2, 4, 8, 16, 32] {
            assert_eq!(c.cwnd(), window);
            round(&mut c, 0);
        }
    }

    /// 3.4: congestion avoidance as in RFC 5681, fractions kept: within a segment of one per round.
    #[test]
    fn congestion_avoidance_adds_a_segment_per_round() {
        let mut c = connection(20, 1024);
        c.set_windows(20, 10);
        for _ in 0..100 {
            round(&mut c, 0);
        }
        let grown = c.windows().cwnd.0 - 20 * MSS;
        assert!((97 * MSS..=100 * MSS).contains(&grown), "{grown}");
    }

    /// 3.4 by way of RFC 5681 equation 3: every ACK earns MSS * MSS / cwnd. What the window has not got yet is
    /// less than a byte, and never more than it has earned.
    #[test]
    fn no_fraction_of_a_byte_is_lost_or_invented() {
        let mut c = connection(3, 1024);
        c.set_windows(3, 2);
        let mut unpaid = 0;
        for _ in 0..5000 {
            let before = c.windows().cwnd.0;
            c.send_regardless(1);
            let _ = c.ack(1, false);
            unpaid += i64::try_from(MSS * MSS).expect("small");
            unpaid -= i64::try_from((c.windows().cwnd.0 - before) * before).expect("small");
            assert!((0..=before as i64).contains(&unpaid), "{unpaid} at a window of {before}");
        }
    }

    /// 3.4 by way of RFC 3168 section 6.1.2: an ACK with ECE does not grow the window, even where it may
    /// not cut any more.
    #[test]
    fn an_ack_with_ece_does_not_grow_the_window() {
        let mut c = connection(16, 1024);
        c.fill();
        let _ = c.ack(1, true);
        let cut = c.windows();
        for _ in 1..16 {
            let _ = c.ack(1, true);
            assert_eq!(c.windows(), cut);
        }
    }
}

mod clause_3_5_loss {
    use super::*;

    fn both_bases() -> [WindowRules; 2] {
        [LossBasis::Flight, LossBasis::Cwnd].map(|loss_basis| WindowRules { loss_basis, ..WindowRules::default() })
    }

    /// 3.5: a loss found by duplicates is answered as by conventional TCP: half, even if alpha is 0.
    #[test]
    fn a_fast_retransmit_halves_whatever_alpha_says() {
        for alpha in [0, 512, 1024] {
            for rules in both_bases() {
                let mut c = with(&context(MSS, 20, rules), alpha);
                c.fill();
                c.lose_one();
                assert_eq!((c.ssthresh(), c.cwnd()), (10, 13), "alpha {alpha}");
                let _ = c.ack(20, false);
                assert_eq!(c.ssthresh(), 10);
            }
        }
    }

    /// 3.5: a timeout leaves the loss window of one segment.
    #[test]
    fn a_timeout_leaves_one_segment_whatever_alpha_says() {
        for alpha in [0, 1024] {
            for rules in both_bases() {
                let mut c = with(&context(MSS, 20, rules), alpha);
                c.fill();
                c.timeout();
                assert_eq!((c.ssthresh(), c.cwnd()), (10, 1), "alpha {alpha}");
            }
        }
    }

    /// 3.5: the estimate is one of marks. Losses leave it.
    #[test]
    fn a_loss_leaves_alpha() {
        let mut c = connection(20, 300);
        c.fill();
        c.lose_one();
        assert_eq!(c.sender.alpha(), Some(300));
        c.timeout();
        assert_eq!(c.sender.alpha(), Some(300));
    }

    /// 3.5: one reduction per window of data across all signals. A loss after a mark brings the reduction to
    /// what the loss alone would have been, no further. Linux halves what the mark has left.
    #[test]
    fn a_loss_after_a_mark_in_the_same_window_completes_the_half() {
        for rules in both_bases() {
            let mut c = with(&context(MSS, 20, rules), 1024);
            c.fill();
            assert_eq!(c.duplicate(true), MarkResponse::Reduced);
            assert_eq!(c.cwnd(), 10);
            let _ = c.duplicate(false);
            let _ = c.duplicate(false);
            assert!(c.in_recovery);
            assert_eq!(c.ssthresh(), 10);
        }
    }

    /// 3.5, the same late in the window, when the flight has shrunk to the cut window.
    #[test]
    fn a_loss_late_in_a_cut_window_is_measured_by_what_was_before_the_cut() {
        for rules in both_bases() {
            let mut c = with(&context(MSS, 20, rules), 1024);
            c.fill();
            let basis = match rules.loss_basis {
                LossBasis::Flight => 19,
                LossBasis::Cwnd => 20,
            };
            assert_eq!(c.ack(1, true), MarkResponse::Reduced);
            let _ = c.ack(9, true);
            c.lose_one();
            assert_eq!(c.windows().ssthresh, Bytes(basis * MSS / 2));
        }
    }

    /// 3.5: data sent after the cut is another window of data, and its loss another congestion.
    #[test]
    fn a_loss_of_data_sent_after_the_cut_reduces_again() {
        for rules in both_bases() {
            let mut c = with(&context(MSS, 20, rules), 1024);
            c.fill();
            let _ = c.ack(1, true);
            let _ = c.ack(19, true);
            assert_eq!(c.cwnd(), 10);
            c.fill();
            c.lose_one();
            assert_eq!(c.ssthresh(), 5);
        }
    }

    /// 3.5, the other way round: a mark on data that was in flight when a loss was answered cuts no more.
    #[test]
    fn a_mark_after_a_loss_in_the_same_window_does_not_reduce_again() {
        let mut c = connection(20, 1024);
        c.fill();
        c.lose_one();
        let _ = c.duplicate(true);
        let _ = c.ack(10, true);
        let _ = c.ack(10, true);
        assert!(!c.in_recovery);
        assert_eq!(c.ssthresh(), 10);
        c.send_regardless(1);
        assert_eq!(c.ack(1, true), MarkResponse::Reduced, "sent after the loss was answered");
    }

    /// 3.5: a timeout's one segment holds regardless of earlier reductions in the window. Its ssthresh is
    /// measured by what was before them.
    #[test]
    fn a_timeout_after_a_mark_still_leaves_one_segment() {
        for rules in both_bases() {
            let mut c = with(&context(MSS, 20, rules), 1024);
            c.fill();
            assert_eq!(c.duplicate(true), MarkResponse::Reduced);
            c.timeout();
            assert_eq!((c.ssthresh(), c.cwnd()), (10, 1));
        }
    }

    /// 3.5: nor is a timeout in fast recovery, when the retransmission was lost too, a second halving.
    #[test]
    fn a_timeout_in_recovery_halves_no_second_time() {
        for rules in both_bases() {
            for inflate_in_recovery in [false, true] {
                let mut c = with(&context(MSS, 20, WindowRules { inflate_in_recovery, ..rules }), 0);
                c.fill();
                c.lose_one();
                for _ in 0..10 {
                    let _ = c.duplicate(false);
                }
                c.timeout();
                assert_eq!((c.ssthresh(), c.cwnd()), (10, 1), "{rules:?}");
            }
        }
    }

    /// 3.5 by way of RFC 5681 equation 4: a timeout in fast recovery is measured by what is in flight by then.
    /// Linux leaves the ssthresh that recovery has set (`tcp_enter_loss`).
    #[test]
    fn a_timeout_after_a_partial_ack_halves_what_is_still_in_flight() {
        for (rules, expected) in both_bases().into_iter().zip([5, 10]) {
            let mut c = with(&context(MSS, 20, rules), 0);
            c.fill();
            c.lose_one();
            let _ = c.ack(10, false);
            c.timeout();
            assert_eq!((c.ssthresh(), c.cwnd()), (expected, 1), "{rules:?}");
        }
    }

    /// 3.5 by way of RFC 5681 section 3.1: a segment that times out again leaves ssthresh.
    #[test]
    fn a_second_timeout_of_the_same_segment_leaves_ssthresh() {
        for rules in both_bases() {
            let mut c = with(&context(MSS, 40, rules), 1024);
            c.fill();
            c.timeout();
            c.set_windows(1, 15);
            c.timeout();
            assert_eq!((c.ssthresh(), c.cwnd()), (15, 1));
        }
    }

    /// 3.5: a timeout starts a new window. A loss in it is measured by what has grown since.
    #[test]
    fn a_later_timeout_is_measured_by_the_window_that_grew_since() {
        let mut c = with(&context(MSS, 40, WindowRules { loss_basis: LossBasis::Cwnd, ..WindowRules::default() }), 0);
        c.fill();
        c.timeout();
        assert_eq!(c.ssthresh(), 20);
        for _ in 0..7 {
            let _ = c.ack(1, false);
        }
        assert_eq!(c.cwnd(), 8);
        c.timeout();
        assert_eq!((c.ssthresh(), c.cwnd()), (4, 1));
    }
}

mod clause_3_6_control_packets {
    use super::*;

    /// 3.6 wants ECT on SYN, SYN-ACK and RST too. The connection sets it, and ignores CE on them, for
    /// every sender that calls itself ECN-capable.
    #[test]
    fn its_packets_are_ecn_capable() {
        assert!(connection(1, 1024).sender.ecn_capable());
    }
}

mod clause_4_1_recommendations {
    use super::*;

    /// 4.1: restarting an idle connection's cwnd as in RFC 5681 can be configured; what was learned stays.
    #[test]
    fn an_idle_connection_can_restart_from_the_initial_window() {
        let mut c = connection(10, 300);
        c.set_windows(40, 20);
        c.restart(Restart::Idle);
        assert_eq!((c.cwnd(), c.ssthresh()), (10, 20));
        assert_eq!(c.sender.alpha(), Some(300));
    }

    /// 4.1: discarding alpha at a restart can be configured: a fresh window forgets it, and what was counted
    /// in the window of data before.
    #[test]
    fn a_fresh_window_discards_alpha_and_the_counts() {
        let mut c = connection(10, 512);
        c.fill();
        let _ = c.ack(1, false);
        assert_eq!(c.sender.alpha(), Some(480));
        let _ = c.ack(9, true);
        c.restart(Restart::Fresh);
        assert_eq!(c.sender.alpha(), Some(512));
        assert_eq!(c.windows(), Windows { cwnd: Bytes(10 * MSS), ssthresh: Windows::UNLIMITED });
        c.fill();
        let _ = c.ack(1, false);
        assert_eq!(c.sender.alpha(), Some(480), "nothing of the marks before");
    }
}

mod clause_4_2_integers {
    use super::*;

    /// 4.2: g is 1/16.
    #[test]
    fn the_default_gain_is_one_sixteenth() {
        assert_eq!(Config::default().shift, 4);
    }

    /// 4.2: a scaled alpha must be able to reach 0 once a shift makes nothing of it.
    #[test]
    fn alpha_reaches_zero() {
        assert_eq!(linux::observe(16, 8, 0).alpha(), Some(15));
        assert_eq!(linux::observe(15, 8, 0).alpha(), Some(0));
        assert_eq!(linux::observe(0, 8, 0).alpha(), Some(0));
    }

    /// 4.2: alpha is clamped to the scale after each update, and a gain out of range is brought into it.
    #[test]
    fn alpha_never_exceeds_one() {
        assert_eq!(linux::observe(1023, 8, 8).alpha(), Some(1024));
        assert_eq!(linux::observe(1024, 8, 8).alpha(), Some(1024));
        for shift in [0, 1, 10, 11, 40, u32::MAX] {
            let context = context(MSS, 10, WindowRules::default());
            let mut c = Connection::new(&context, Dctcp::new(&Config { initial_alpha: u32::MAX, shift }, &context));
            assert_eq!(c.sender.alpha(), Some(1024));
            for _ in 0..20 {
                round(&mut c, 1);
                assert!(c.sender.alpha() <= Some(1024));
            }
            c.restart(Restart::Fresh);
            assert_eq!(c.sender.alpha(), Some(1024));
        }
    }
}

mod linux {
    use super::*;

    /// What Linux sends in a segment with timestamps, so that a byte count is no segment count.
    const MSS: u64 = 1448;

    fn view(una: u64, nxt: u64) -> SenderView {
        SenderView {
            now: Time(0),
            una: Offset(una * MSS),
            nxt: Offset(nxt * MSS),
            remaining: None,
            srtt: None,
            advertised: Bytes(u64::MAX),
            limited_transmit: Bytes::ZERO,
            window_used: true,
        }
    }

    fn ack(segments: u64, ece: bool, may_move_window: bool) -> Ack<'static> {
        Ack {
            acked: Bytes(segments * MSS),
            delivered: Bytes(segments * MSS),
            rtt: None,
            ece,
            ein: false,
            telemetry: None,
            may_move_window,
        }
    }

    /// A sender with that alpha that has observed one window of `delivered` segments, `marked` of them
    /// marked, and has not moved its window. The first segment arrives last, so that all others are
    /// told by duplicates and exactly these make up the observation.
    pub(super) fn observe(alpha: u32, delivered: u64, marked: u64) -> Dctcp {
        observe_with(1, alpha, delivered, marked)
    }

    fn observe_with(cwnd: u64, alpha: u32, delivered: u64, marked: u64) -> Dctcp {
        let config = Config { initial_alpha: alpha, ..Config::default() };
        // Duplicates stand at the end of the empty first window, which none of them may end here.
        let rules = WindowRules { observation_end: ObservationEnd::Beyond, ..linux() };
        let mut sender = Dctcp::new(&config, &context(MSS, cwnd, rules));
        for segment in 1..delivered {
            let _ = sender.on_duplicate_ack(&view(0, delivered), &ack(0, segment <= marked, false));
        }
        let _ = sender.on_ack(&view(delivered, delivered + 10), &ack(delivered, marked == delivered, false));
        sender
    }

    /// Alpha, and the ssthresh and cwnd in segments that a mark sets after the observation.
    fn transition(cwnd: u64, alpha: u32, delivered: u64, marked: u64) -> (u32, u64, u64) {
        let mut sender = observe_with(cwnd, alpha, delivered, marked);
        let alpha = sender.alpha().expect("DCTCP estimates");
        // An ACK inside the next observation window: it cuts and leaves alpha.
        let _ = sender.on_ack(&view(delivered + 1, delivered + 10), &ack(1, true, true));
        assert_eq!(sender.alpha(), Some(alpha));
        let Windows { cwnd, ssthresh } = sender.windows();
        assert_eq!((cwnd.0 % MSS, ssthresh.0 % MSS), (0, 0), "whole segments");
        (alpha, ssthresh.0 / MSS, cwnd.0 / MSS)
    }

    /// cwnd, alpha, delivered, marked, and then alpha and ssthresh: worked out by hand from
    /// `alpha -= min_not_zero(alpha, alpha >> 4)`, `alpha += (marked << 6) / delivered`, at most 1024;
    /// `ssthresh = max(cwnd - ((cwnd * alpha) >> 11), 2)`.
    const TRANSITIONS: &[(u64, u32, u64, u64, u32, u64)] = &[
        (10, 1024, 10, 0, 960, 6),
        (10, 1024, 10, 1, 966, 6),
        (10, 1024, 10, 10, 1024, 5),
        (10, 0, 10, 0, 0, 10),
        (10, 0, 10, 1, 6, 10),
        (10, 0, 10, 10, 64, 10),
        (10, 15, 10, 0, 0, 10),
        (10, 16, 10, 0, 15, 10),
        (10, 1, 3, 1, 21, 10),
        (100, 512, 100, 25, 496, 76),
        (100, 64, 100, 100, 124, 94),
        (1, 1024, 1, 1, 1024, 2),
        (2, 1024, 2, 1, 992, 2),
        (3, 1024, 3, 3, 1024, 2),
        (3, 600, 3, 1, 584, 3),
        (1000, 100, 1000, 1, 94, 955),
        (1000, 1, 1000, 999, 63, 970),
        (37, 333, 37, 12, 333, 31),
        (5, 1024, 64, 1, 961, 3),
        (20, 120, 19, 7, 136, 19),
        (65, 8, 130, 2, 0, 65),
        (4, 960, 4, 4, 964, 3),
    ];

    #[test]
    fn marks_move_alpha_and_ssthresh_as_in_tcp_dctcp() {
        for &(cwnd, alpha, delivered, marked, next_alpha, ssthresh) in TRANSITIONS {
            let row = (cwnd, alpha, delivered, marked);
            assert_eq!(transition(cwnd, alpha, delivered, marked), (next_alpha, ssthresh, ssthresh), "{row:?}");
        }
    }

    /// Linux's recurrence, in 64 bits and step by step.
    fn oracle(cwnd: u64, alpha: u64, delivered: u64, marked: u64) -> (u64, u64) {
        let shifted = alpha / 16;
        let decayed = if shifted == 0 { 0 } else { alpha - shifted };
        let alpha = (decayed + marked * 64 / delivered.max(1)).min(1024);
        (alpha, (cwnd - cwnd * alpha / 2048).max(2))
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_window_and_any_share_move_as_in_tcp_dctcp(
            cwnd in 1..2000_u64,
            alpha in 0..=1024_u32,
            delivered in 1..300_u64,
            share in 0..=300_u64,
        ) {
            let marked = share.min(delivered);
            let (next_alpha, ssthresh, _) = transition(cwnd, alpha, delivered, marked);
            prop_assert_eq!((u64::from(next_alpha), ssthresh), oracle(cwnd, u64::from(alpha), delivered, marked));
        }
    }

    /// Unmarked windows from 1024: 0.9375 after one, 0.1338 after 32 (the real numbers have 0.1268), and 0
    /// after 75.
    #[test]
    fn alpha_decays_as_in_tcp_dctcp() {
        let expected = [
            960, 900, 844, 792, 743, 697, 654, 614, 576, 540, 507, 476, 447, 420, 394, 370, 347, 326, 306, 287, 270,
            254, 239, 225, 211, 198, 186, 175, 165, 155, 146, 137, 129, 121, 114, 107, 101, 95, 90, 85, 80, 75, 71, 67,
            63, 60, 57, 54, 51, 48, 45, 43, 41, 39, 37, 35, 33, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18,
            17, 16, 15, 0, 0,
        ];
        let mut c = connection(4, 1024);
        c.set_windows(4, 2);
        for alpha in expected {
            c.send_regardless(1);
            let _ = c.ack(1, false);
            assert_eq!(c.sender.alpha(), Some(alpha));
        }
    }

    /// Marked windows from 0: integers settle at 1024 after 74.
    #[test]
    fn alpha_rises_as_in_tcp_dctcp() {
        let mut c = connection(4, 0);
        let mut alphas = Vec::new();
        for _ in 0..74 {
            c.send_regardless(1);
            let _ = c.ack(1, true);
            alphas.extend(c.sender.alpha());
        }
        assert_eq!(alphas[..8], [64, 124, 181, 234, 284, 331, 375, 416]);
        assert_eq!((alphas[15], alphas[31]), (664, 902));
        assert_eq!(alphas[72..], [1023, 1024]);
    }

    /// cwnd, and ssthresh after a loss: max(cwnd >> 1, 2), on entering recovery and on a timeout.
    #[test]
    fn a_loss_halves_the_window_in_whole_segments() {
        for (cwnd, ssthresh) in [(4, 2), (5, 2), (7, 3), (10, 5), (11, 5), (100, 50), (101, 50)] {
            let start = || {
                let mut c = with(&context(MSS, cwnd, linux()), 0);
                c.fill();
                c
            };
            let mut c = start();
            c.lose_one();
            assert_eq!((c.ssthresh(), c.cwnd()), (ssthresh, ssthresh), "recovery from {cwnd}");
            let mut c = start();
            c.timeout();
            assert_eq!((c.ssthresh(), c.cwnd()), (ssthresh, 1), "timeout from {cwnd}");
        }
        for cwnd in 1..4 {
            let mut c = with(&context(MSS, cwnd, linux()), 0);
            c.fill();
            c.timeout();
            assert_eq!((c.ssthresh(), c.cwnd()), (2, 1), "timeout from {cwnd}");
        }
    }

    /// cwnd, ssthresh, segments that ACKs cover one after the other, and cwnd after them. Slow start adds what
    /// is acknowledged, up to ssthresh; the rest counts towards one segment per window.
    #[test]
    fn the_window_grows_as_in_linux() {
        let rows: &[(u64, u64, &[u64], u64)] = &[
            (10, 100, &[1], 11),
            (10, 100, &[2, 2], 14),
            (10, 11, &[3], 11),
            (10, 11, &[3, 8], 11),
            (10, 11, &[3, 9], 12),
            (10, 10, &[2, 2, 2, 2], 10),
            (10, 10, &[2, 2, 2, 2, 2], 11),
            (10, 10, &[12, 8], 11),
            (10, 10, &[12, 9], 12),
            (3, 2, &[3, 3, 1], 5),
            (3, 2, &[6], 5),
        ];
        for &(cwnd, ssthresh, acks, expected) in rows {
            let mut c = with(&context(MSS, cwnd, linux()), 0);
            c.set_windows(cwnd, ssthresh);
            for &segments in acks {
                c.send_regardless(segments);
                let _ = c.ack(segments, false);
            }
            assert_eq!(c.cwnd(), expected, "{cwnd}, {ssthresh}, {acks:?}");
        }
    }
}
