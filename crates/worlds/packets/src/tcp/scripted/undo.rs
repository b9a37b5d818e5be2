//! Repairs of what had not been lost: F-RTO (RFC 5682), duplicates reported by SACK (RFC 2883), and undo.

use super::*;
use incast_plan::{LossDetection, Pacing, RttSamples};

fn doubting() -> Tcp {
    Tcp {
        loss_detection: LossDetection::Rack,
        limited_transmit: true,
        dsack: true,
        undo: true,
        frto: true,
        tail_loss_probe: false,
        ..with_sack()
    }
}

/// Where duplicates are counted, the same without SACK.
fn doubting_without_sack() -> Tcp {
    Tcp { frto: true, limited_transmit: true, rtt_samples: RttSamples::EveryAck, ..tcp() }
}

impl Script {
    /// The retransmission timer expires, and the window is one segment then.
    fn timer_with_one_segment(&mut self) -> String {
        self.end.send.sender.held_to = Bytes(1000);
        let sent = self.timer();
        self.end.send.sender.held_to = Bytes(u64::MAX);
        sent
    }
}

/// Ten segments in flight that all left at once, ten more to come.
fn ten_in_flight(tcp: Tcp) -> Script {
    let mut script = Script::new(10, tcp);
    script.write(20_000);
    script.sent();
    script.signals();
    script.now += 100 * US;
    script
}

/// RFC 5682 sections 2.1 and 3.1: the path was only slow. The ACK of the retransmission lets new data go, the next one acknowledges
/// what left once: the timeout was spurious, and the window comes back.
#[test]
fn a_timeout_of_a_slow_path_is_undone() {
    for tcp in [doubting(), doubting_without_sack()] {
        let mut script = ten_in_flight(tcp);
        script.end.send.sender.windows.ssthresh = Bytes(50_000);
        assert_eq!(script.timer_with_one_segment(), "0+1000M");
        script.end.send.sender.windows = Windows { cwnd: Bytes(2000), ssthresh: Bytes(5000) };
        script.now += 10 * US;
        assert_eq!(script.ack(1000), "10000+1000 11000+1000", "new data asks, nothing leaves again");
        script.now += 10 * US;
        assert_eq!(script.ack(2000), "", "the window is full");
        assert_eq!(script.end.send.sender.windows, Windows { cwnd: Bytes(10_000), ssthresh: Bytes(50_000) });
        assert_eq!(script.signals(), "TimeoutFullWindow@0 Retransmission@0");
        script.now += 10 * US;
        assert_eq!(script.ack(5000), segments(12_000, 15_000));
    }
}

/// Without it all leaves again. And if it was lost, duplicates of the new data say so.
#[test]
fn a_timeout_of_a_lost_window_is_repaired() {
    let mut plain = ten_in_flight(Tcp { frto: false, ..doubting() });
    plain.timer_with_one_segment();
    plain.set_window(2);
    plain.now += 10 * US;
    assert_eq!(plain.ack(1000), "1000+1000 2000+1000");
    let mut script = ten_in_flight(doubting());
    script.timer_with_one_segment();
    script.set_window(2);
    script.now += 100 * US;
    assert_eq!(script.ack(1000), "10000+1000 11000+1000");
    script.now += 100 * US;
    assert_eq!(script.sack(1000, &[(10_000, 11_000)]), "1000+1000", "it was lost");
    assert_eq!(script.end.send.sender.windows.cwnd, Bytes(2000));
    // Nothing new to ask with: conventional recovery.
    let mut end = Script::new(10, doubting());
    end.write(10_000);
    end.timer_with_one_segment();
    end.set_window(2);
    end.now += 100 * US;
    assert_eq!(end.ack(1000), "1000+1000 2000+1000");
}

/// Step 3a: a duplicate says that the new data has arrived and what left before it has not. It leaves again, but not the new
/// data. Without F-RTO no new data leaves before.
#[test]
fn without_sack_a_timeout_of_a_lost_window_is_repaired() {
    let mut plain = ten_in_flight(Tcp { frto: false, ..doubting_without_sack() });
    plain.timer_with_one_segment();
    plain.set_window(2);
    plain.now += 10 * US;
    assert_eq!(plain.ack(1000), "1000+1000 2000+1000");
    let mut script = ten_in_flight(doubting_without_sack());
    script.timer_with_one_segment();
    script.set_window(2);
    script.now += 100 * US;
    assert_eq!(script.ack(1000), "10000+1000 11000+1000");
    script.now += 100 * US;
    assert_eq!(script.ack(1000), "1000+1000 2000+1000", "it was lost");
    assert_eq!(script.end.send.sender.windows.cwnd, Bytes(2000));
    script.set_window(20);
    script.now += 100 * US;
    assert_eq!(script.ack(3000), format!("{} {}", segments(3000, 10_000), segments(12_000, 20_000)));
    // Nothing new to ask with: conventional recovery.
    let mut end = Script::new(10, doubting_without_sack());
    end.write(10_000);
    end.timer_with_one_segment();
    end.set_window(2);
    end.now += 100 * US;
    assert_eq!(end.ack(1000), "1000+1000 2000+1000");
}

/// `tcp_clean_rtx_queue`: an ACK for what left again and for what left once does not say which of them has filled a gap. The
/// timeout was right, and the window stays cut.
#[test]
fn without_sack_the_ack_of_a_retransmission_undoes_nothing() {
    let mut script = ten_in_flight(doubting_without_sack());
    script.timer_with_one_segment();
    script.set_window(2);
    script.now += 100 * US;
    assert_eq!(script.ack(10_000), segments(10_000, 12_000));
    assert_eq!(script.end.send.sender.windows.cwnd, Bytes(2000));
}

/// `tcp_try_undo_dsack`: the segment was late, not lost. The report of its second arrival brings the window back.
#[test]
fn a_cut_is_undone_once_all_retransmissions_are_reported_as_duplicates() {
    for (undo, back) in [(true, 10_000), (false, 5000)] {
        let mut script = ten_in_flight(Tcp { undo, ..doubting() });
        script.sack(0, &[(1000, 4000)]);
        script.end.send.sender.windows = Windows { cwnd: Bytes(5000), ssthresh: Bytes(5000) };
        assert_eq!(script.signals(), "FastRetransmit@0 Retransmission@0");
        script.now += 10 * US;
        script.ack(4000);
        script.now += 90 * US;
        script.sack(6000, &[(0, 1000)]);
        assert_eq!(script.end.send.sender.windows.cwnd, Bytes(back), "undo: {undo}");
        assert_eq!(script.end.send.in_recovery, !undo);
    }
}

/// A reported probe was not needed: no cut when it is acknowledged.
#[test]
fn a_probe_that_is_reported_as_a_duplicate_costs_nothing() {
    let mut script = Script::new(5, Tcp { tail_loss_probe: true, ..doubting() });
    script.write(5000);
    script.timer();
    script.now += 50 * US;
    script.ack(5000);
    script.write(1000);
    script.sack(5000, &[(4000, 5000)]);
    script.now += 100 * US;
    script.ack(6000);
    assert!(!script.told().iter().any(|what| what.starts_with("loss")));
}

/// RFC 2883 section 4: the first block tells what has arrived again, below the ACK or beyond the gap; it is told once.
#[test]
fn a_receiver_reports_what_arrives_twice_once() {
    fn said(script: &mut Script, start: u64) -> Vec<(u32, u32)> {
        let packet = Packet { sequence: start as u32, payload: 1000, ..script.ack_packet(0) };
        script.end.on_segment(script.now, &script.tcp, &packet, Options::NONE, &mut script.out);
        script.acknowledge(AckCause::Data);
        let ack = script.out.packets.pop().unwrap();
        assert_eq!(ack.flags.has(Flags::OPTIONS), ack.wire > 40);
        if !ack.flags.has(Flags::OPTIONS) {
            return Vec::new();
        }
        script.out.options.sacks.pop().unwrap().blocks().to_vec()
    }
    let mut script = Script::new(1, doubting());
    assert_eq!(said(&mut script, 0), []);
    assert_eq!(said(&mut script, 0), [(0, 1000)]);
    assert_eq!(said(&mut script, 2000), [(2000, 3000)]);
    assert_eq!(said(&mut script, 2000), [(2000, 3000), (2000, 3000)]);
    assert_eq!(said(&mut script, 4000), [(4000, 5000), (2000, 3000)]);
    assert_eq!(said(&mut script, 0), [(0, 1000), (4000, 5000), (2000, 3000)]);
    assert_eq!(said(&mut script, 1000), [(4000, 5000)], "told, and the gap is smaller");
    let mut silent = Script::new(1, with_sack());
    said(&mut silent, 0);
    assert_eq!(said(&mut silent, 0), []);
}

/// `tcp_update_pacing_rate`: 200 % of 10 segments of 1040 bytes in 100 us is one every 5 us; with a threshold in sight 120 %
/// is one every 8.33 us.
#[test]
fn internal_pacing_spreads_a_window_over_a_round_trip() {
    for (ssthresh, gap_ns) in [(Windows::UNLIMITED, 5000), (Bytes(20_000), 8333)] {
        let mut script = Script::new(10, Tcp { pacing: Pacing::Internal, ..tcp() });
        script.end.send.sender.windows.ssthresh = ssthresh;
        assert_eq!(script.write(3000), "0+1000M");
        let begin = script.now;
        assert_eq!(script.timer(), "1000+1000");
        assert_eq!((script.now - begin) / 1000, gap_ns);
        script.timer();
        assert_eq!((script.now - begin) / 1000, gap_ns * 2);
    }
    let mut unpaced = Script::new(10, tcp());
    assert_eq!(unpaced.write(3000), "0+1000M 1000+1000 2000+1000");
}
