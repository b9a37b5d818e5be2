//! RACK-TLP (RFC 8985) as Linux has it: what is lost, when a timer says so, and what a probe asks and learns.

use super::*;
use incast_plan::{LossDetection, RtoForm, RttSamples};

fn rack() -> Tcp {
    Tcp { loss_detection: LossDetection::Rack, limited_transmit: true, ..with_sack() }
}

fn probing() -> Tcp {
    Tcp { tail_loss_probe: true, ..rack() }
}

/// Ten segments in flight, one every 10 us, after a round trip of 100 us.
fn ten_in_flight(tcp: Tcp) -> Script {
    let mut script = Script::new(1, tcp);
    script.write(20_000);
    for segments in 2..=10 {
        script.now += 10 * US;
        script.set_window(segments);
        script.end.output(script.now, &script.tcp, &mut script.out);
    }
    assert_eq!(script.sent(), segments(1000, 10_000));
    script.now += 10 * US;
    script.told();
    script.signals();
    script
}

/// `tcp_rack_reo_wnd`: without reordering three segments beyond the gap mean a loss at once, as duplicates would.
#[test]
fn three_segments_beyond_a_gap_are_a_loss_while_nothing_is_ever_out_of_order() {
    let mut script = ten_in_flight(rack());
    script.set_window(5);
    assert_eq!(script.sack(0, &[(1000, 2000)]), "");
    script.now += 10 * US;
    assert_eq!(script.sack(0, &[(1000, 3000)]), "");
    script.now += 10 * US;
    assert_eq!(script.sack(0, &[(1000, 4000)]), "0+1000M", "the pipe of 7 is above the window of 5");
    assert_eq!(script.signals(), "FastRetransmit@0 Retransmission@0");
}

/// RFC 8985 section 6.2: two segments beyond the gap are no loss before the reordering window is over, a quarter of the
/// least round trip after the round trip of what has arrived; then they are, whatever arrives.
#[test]
fn what_is_overtaken_is_lost_a_quarter_of_a_round_trip_later() {
    let mut script = ten_in_flight(rack());
    // 1000 left at 10 us, and its round trip is 90 us; so 0 is lost 90 + 22.5 us after it left.
    assert_eq!(script.sack(0, &[(1000, 2000)]), "10000+1000", "limited transmit");
    let begin = script.now - 100 * US;
    assert_eq!(script.timer(), "0+1000M");
    assert_eq!(script.now - begin, 112 * US + US / 2);
    assert_eq!(script.signals(), "FastRetransmit@0 Retransmission@0");
    assert_eq!(script.timer_in_us(), 10_000, "the retransmission timer goes on");
}

/// The reordering timer waits for the margin too (`TCP_TIMEOUT_MIN_US`), in whole ticks, and until the tick after. It is set
/// 1.1 ms after a tick.
#[test]
fn a_margin_and_a_coarse_clock_make_the_reordering_timer_late() {
    let (margin, tick) = (Duration::from_ms(2), Duration::from_ms(4));
    for (timer_margin, timer_tick, us) in [(margin, Duration::ZERO, 2_012), (margin, tick, 6_900), (tick, tick, 10_900)]
    {
        let rto_min = Duration::from_ms(200);
        let mut script = ten_in_flight(Tcp { timer_margin, timer_tick, rto_min, ..rack() });
        script.sack(0, &[(1000, 2000)]);
        assert_eq!(script.timer_in_us(), us);
    }
}

/// In recovery the first segment has left again. A SACK for what left before that restarts its timer (`tcp_clean_rtx_queue`).
#[test]
fn a_sack_of_older_data_restarts_the_timer() {
    let mut script = ten_in_flight(rack());
    script.sack(0, &[(1000, 5000)]);
    assert_eq!(script.timer_in_us(), 10_000);
    script.now += 100 * US;
    script.sack(0, &[(1000, 6000)]);
    assert_eq!(script.timer_in_us(), 10_000);
    script.now += 100 * US;
    script.sack(0, &[(1000, 6000)]);
    assert_eq!(script.timer_in_us(), 9_900, "no news");
}

/// What duplicates cannot tell: a retransmission is lost if something that left after it has arrived. No timeout.
#[test]
fn a_lost_retransmission_is_found_lost() {
    let mut script = ten_in_flight(rack());
    assert_eq!(script.sack(0, &[(1000, 5000)]), format!("0+1000M {}", segments(10_000, 14_000)));
    script.now += 100 * US;
    script.signals();
    // New data that left right after the retransmission has arrived, and the retransmission has not.
    script.sack(0, &[(1000, 10_000)]);
    assert_eq!(script.signals(), "");
    script.now += 10 * US;
    assert!(script.sack(0, &[(1000, 11_000)]).starts_with("0+1000M"));
    assert_eq!(script.signals(), "Retransmission@0", "in the same recovery");
    script.ack(20_000);
}

/// Both transmissions may have been meant: an answer sooner than any round trip is one to the first.
#[test]
fn an_answer_faster_than_any_round_trip_is_none_to_the_retransmission() {
    let mut script = ten_in_flight(rack());
    script.set_window(5);
    script.sack(0, &[(1000, 4000)]);
    script.now += 10 * US;
    script.told();
    // 4000 left 60 us before; the retransmission of 0, which left 10 us ago, says nothing of it.
    assert_eq!(script.ack(4000), "");
    assert_eq!(script.told(), ["partial 4000 4000..10000"]);
}

/// A segment that fills a gap although it was never sent again has been overtaken: three segments are no loss any more.
#[test]
fn reordering_that_was_seen_makes_three_segments_too_few() {
    let mut script = ten_in_flight(rack());
    script.sack(0, &[(1000, 2000)]);
    assert_eq!(script.ack(2000), "11000+1000", "it arrived after all");
    script.signals();
    script.sack(2000, &[(3000, 6000)]);
    assert_eq!(script.signals(), "", "three segments beyond the gap");
    script.timer();
    assert_eq!(script.signals(), "FastRetransmit@2000 Retransmission@2000", "once the reordering window is over");
}

/// A timeout: the first segment leaves at once, everything older than a round trip is lost and leaves as the window lets
/// it. What the peer has does not.
#[test]
fn after_a_timeout_all_that_is_old_leaves_again() {
    let mut script = ten_in_flight(rack());
    script.set_window(1);
    assert_eq!(script.timer(), "0+1000M");
    assert_eq!(script.signals(), "TimeoutFullWindow@0 Retransmission@0");
    assert_eq!(script.timer_in_us(), 20_000);
    script.now += 100 * US;
    script.set_window(2);
    assert_eq!(script.ack(1000), "1000+1000 2000+1000");
    script.now += 100 * US;
    script.set_window(3);
    assert_eq!(script.sack(2000, &[(3000, 5000)]), "5000+1000 6000+1000", "no new recovery for what is repaired");
    assert!(!script.signals().contains("FastRetransmit"));
    script.now += 100 * US;
    script.set_window(10);
    assert_eq!(script.ack(10_000), segments(10_000, 20_000));
}

/// RFC 8985 section 7.2 and `tcp_schedule_loss_probe`: two round trips after the last new segment, for one segment the
/// delayed ACK besides, and never after the retransmission timer.
#[test]
fn a_probe_is_due_after_two_round_trips() {
    let mut script = Script::new(10, probing());
    script.write(2000);
    assert_eq!(script.timer_in_us(), 200);
    script.now += 50 * US;
    script.write(1000);
    assert_eq!(script.timer_in_us(), 200, "it counts from the last one");
    let mut single = Script::new(10, Tcp { rto: RtoForm::Linux, ..probing() });
    single.write(1000);
    assert_eq!(single.timer_in_us(), 10_100, "the timeout itself: a round trip and its minimum");
    let late = Tcp { timer_margin: Duration::from_ms(2), rto_min: Duration::from_ms(200), ..probing() };
    for (timer_tick, us) in [(Duration::ZERO, 2_200), (Duration::from_ms(4), 7_000)] {
        let mut script = Script::new(10, Tcp { timer_tick, ..late.clone() });
        script.write(2000);
        assert_eq!(script.timer_in_us(), us, "200 us and the margin are a tick, set 1 ms after one");
    }
}

/// New data is a probe if the peer's window lets it, whatever the congestion window says; else the last segment again.
#[test]
fn a_probe_is_new_data_or_the_last_segment() {
    let mut script = Script::new(2, probing());
    script.write(5000);
    assert_eq!(script.timer(), "2000+1000");
    assert_eq!(script.signals(), "TailProbe@0");
    assert_eq!(script.timer_in_us(), 10_000, "one probe, then the retransmission timer");
    let mut script = Script::new(2, probing());
    script.write(2000);
    assert_eq!(script.timer(), "1000+1000");
    assert_eq!(script.signals(), "TailProbe@0 Retransmission@1000");
    assert_eq!(script.told().last().map(String::as_str), Some("message of 2000 0..0"), "no congestion yet");
    script.timer();
    assert_eq!(script.signals().split(' ').next(), Some("TimeoutFullWindow@0"), "the probe was lost too");
}

/// The handshake measures the least round trip, so that the answer to a first probe is believed.
#[test]
fn the_answer_to_a_probe_is_believed_before_anything_else_was_measured() {
    let mut script = Script::new(3, probing());
    script.write(3000);
    assert_eq!(script.timer(), "2000+1000");
    script.now += 100 * US;
    assert_eq!(script.sack(0, &[(2000, 3000)]), "0+1000M 1000+1000");
}

/// The tail of three segments is lost: the probe's ACK tells of the gap, and RACK repairs it without a timeout.
#[test]
fn a_probe_turns_a_lost_tail_into_a_recovery() {
    let mut script = Script::new(5, probing());
    script.write(5000);
    script.now += 100 * US;
    script.ack(2000);
    assert_eq!(script.timer(), "4000+1000", "200 us after the ACK");
    script.now += 100 * US;
    // The probe left later than 2000 and 3000, so they are lost once the reordering window is over.
    assert_eq!(script.sack(2000, &[(4000, 5000)]), "2000+1000 3000+1000", "which was over long ago");
    assert_eq!(
        script.signals(),
        "TailProbe@2000 Retransmission@4000 FastRetransmit@2000 Retransmission@2000 Retransmission@3000"
    );
    script.now += 100 * US;
    script.ack(5000);
    assert_eq!(script.end.deadline(), NEVER);
}

/// RFC 8985 section 7.4: the last segment alone was lost, the probe was its repair. The ACK of what follows says so, and
/// the window is cut once.
#[test]
fn a_probe_that_repaired_a_loss_costs_a_cut() {
    let mut script = Script::new(5, probing());
    script.write(5000);
    script.now += 100 * US;
    script.ack(4000);
    script.timer();
    script.now += 100 * US;
    script.ack(5000);
    script.told();
    script.write(1000);
    script.now += 100 * US;
    script.ack(6000);
    let told = script.told();
    assert_eq!(told[told.len() - 2..], ["loss 6000..6000", "recovered 1000 6000..6000"], "{told:?}");
    // Both arrived: a bare duplicate is the answer to the second.
    let mut script = Script::new(5, probing());
    script.write(5000);
    script.timer();
    script.ack(5000);
    script.write(1000);
    script.ack(5000);
    script.ack(6000);
    assert!(!script.told().iter().any(|what| what.starts_with("loss")));
}

/// No probe while losses are repaired, nor while something beyond a gap is known.
#[test]
fn there_is_no_probe_where_acks_tell_enough() {
    let mut script = ten_in_flight(probing());
    script.sack(0, &[(1000, 4000)]);
    script.signals();
    assert_eq!(script.timer_in_us(), 10_000);
    script.timer();
    assert!(script.signals().starts_with("Timeout"));
    assert_eq!(script.timer_in_us(), 20_000);
}

/// `tcp_ack_update_rtt`: every ACK measures the first segment that it acknowledges.
#[test]
fn every_ack_measures_the_first_segment_that_it_acknowledges() {
    let tcp = Tcp { rtt_samples: RttSamples::EveryAck, ..with_sack() };
    let mut script = ten_in_flight(tcp);
    let mut mean = 100.0;
    for (ack, sample) in [(1000, 100.0), (3000, 100.0), (4000, 90.0)] {
        script.ack(ack);
        mean += (sample - mean) / 8.0;
        let measured = script.end.send.rtt.smoothed().unwrap().0 as f64 / US as f64;
        assert!((measured - mean).abs() < 0.01, "{measured} instead of {mean} after {ack}");
        script.now += 10 * US;
    }
    // Beyond the gap: 6000 left at 60 us, 130 us ago less 60.
    script.sack(4000, &[(6000, 7000)]);
    mean += (70.0 - mean) / 8.0;
    let measured = script.end.send.rtt.smoothed().unwrap().0 as f64 / US as f64;
    assert!((measured - mean).abs() < 0.01, "{measured} instead of {mean}");
}

/// An ACK that was overtaken by later ones tells of what is acknowledged by now: it must not hold anything back.
#[test]
fn an_overtaken_ack_says_nothing() {
    let mut script = ten_in_flight(Tcp { limited_transmit: false, ..rack() });
    script.ack(10_000);
    script.sack(5000, &[(6000, 9000)]);
    assert!(script.end.send.board.is_empty());
    assert_eq!(script.ack(20_000), "");
    assert_eq!(script.write(1000), "20000+1000M");
}

/// `tcp_tso_should_defer`: with a third of the window as the least bunch, two ACKs of three bring nothing and the third
/// three segments; but not while the first segment in flight is young, nor after a pause of a millisecond.
#[test]
fn segments_wait_for_a_bunch() {
    for (tso_divisor, bunches) in [(0, [1, 1, 1]), (3, [0, 0, 3])] {
        let mut script = Script::new(9, Tcp { tso_divisor, ..rack() });
        script.write(30_000);
        script.now += 60 * US;
        let mut next = 9_000;
        for (ack, bunch) in [1_000, 2_000, 3_000].into_iter().zip(bunches) {
            assert_eq!(script.ack(ack), segments(next, next + bunch * 1_000), "{tso_divisor} {ack}");
            next += bunch * 1_000;
        }
    }
    let mut script = Script::new(9, Tcp { tso_divisor: 3, ..rack() });
    script.write(30_000);
    script.now += 40 * US;
    assert_eq!(script.ack(1_000), segments(9_000, 10_000), "less than half a round trip");
    script.now += 2 * MS;
    assert_eq!(script.ack(2_000), segments(10_000, 11_000), "nothing has left for long");
}

/// The same beyond a gap, while no loss is known: a SACK leaves room for one segment, which waits. So a probe's answer finds
/// nothing else to send, and a timer has to tell what is lost.
#[test]
fn segments_wait_for_a_bunch_beyond_a_gap() {
    for (tso_divisor, sent) in [(0, segments(9_000, 10_000)), (3, String::new())] {
        let mut script = Script::new(9, Tcp { tso_divisor, ..rack() });
        script.write(30_000);
        script.now += 60 * US;
        assert_eq!(script.sack(0, &[(8_000, 9_000)]), sent, "{tso_divisor}");
    }
}
