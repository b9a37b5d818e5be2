//! Senders that work with time: round-trip samples, pacing, timers, and windows below a segment.

use super::*;

/// A full segment with its header, of 1040 bytes, in 10 us.
const PACE: Rate = Rate(832_000_000);

impl Script {
    fn round_trips(&mut self) -> Vec<Option<u64>> {
        std::mem::take(&mut self.end.send.sender.round_trips)
    }
}

/// The connection's own estimator times one segment at a time; such a sender has a sample with every ACK.
#[test]
fn every_ack_measures_the_last_segment_that_it_tells_of() {
    let mut script = Script::timed(3, tcp(), None, None);
    script.write(10_000);
    script.now += 100 * US;
    assert_eq!(script.ack(1000), "3000+1000");
    script.now += 20 * US;
    assert_eq!(script.ack(3000), "4000+1000 5000+1000");
    script.now += 95 * US;
    script.ack(5000);
    assert_eq!(script.round_trips(), [Some(100), Some(120), Some(95)], "4000 left 95 us before, 3000 115 us");
    assert_eq!(script.end.send.rtt.smoothed().unwrap().0, (100 * 7 + 115) * US / 8, "one segment of each window");
}

/// Karn's rule: which of two transmissions an ACK answers only timestamps tell.
#[test]
fn what_was_sent_twice_measures_nothing_without_timestamps() {
    for (timestamps, sample) in [(false, None), (true, Some(70))] {
        let mut script = Script::timed(1, Tcp { timestamps, ..tcp() }, None, None);
        script.write(3000);
        assert_eq!(script.timer(), "0+1000M");
        script.now += 70 * US;
        assert_eq!(script.ack(1000), "1000+1000");
        script.now += 40 * US;
        script.ack(2000);
        assert_eq!(script.round_trips(), [sample, Some(40)], "timestamps: {timestamps}");
    }
}

/// What lies beyond a gap measures as well, each segment once.
#[test]
fn sacked_segments_measure_the_round_trip() {
    let mut script = Script::timed(10, with_sack(), None, None);
    script.write(10_000);
    script.now += 100 * US;
    script.sack(0, &[(1000, 2000)]);
    script.now += 10 * US;
    script.sack(0, &[(1000, 3000)]);
    script.now += 10 * US;
    script.sack(0, &[(1000, 4000)]);
    script.now += 80 * US;
    script.ack(4000);
    assert_eq!(script.round_trips()[..3], [Some(100), Some(110), Some(120)]);
    let told = script.told();
    assert!(told.iter().any(|what| what.starts_with("sent 1000 0..")), "{told:?}");
}

/// At 10 us for each segment three of them leave over 20 us, as long as the window lets them.
#[test]
fn segments_leave_at_the_pace_that_the_sender_asks_for() {
    let mut script = Script::timed(3, tcp(), Some(PACE), None);
    assert_eq!(script.write(10_000), "0+1000M");
    let begin = script.now;
    assert_eq!((script.timer(), script.now - begin), ("1000+1000".to_owned(), 10 * US));
    assert_eq!((script.timer(), script.now - begin), ("2000+1000".to_owned(), 20 * US));
    script.now = begin + 100 * US;
    assert_eq!(script.ack(1000), "3000+1000");
    script.now += 4 * US;
    assert_eq!(script.ack(2000), "", "its turn comes 10 us after the last one's");
    assert_eq!((script.timer(), script.now - begin), ("4000+1000".to_owned(), 110 * US));
    assert_eq!(script.ack(3000), "");
    assert_eq!(script.timer(), "5000+1000");
    let waits = script.end.send.timing.as_ref().map(|timing| timing.send_at);
    assert_eq!(waits, Some(NEVER), "the window is full, nothing waits for its turn");
}

/// A retransmission by duplicates does not wait, and what follows waits for it.
#[test]
fn a_fast_retransmission_does_not_wait_for_its_turn() {
    let mut script = Script::timed(4, tcp(), Some(PACE), None);
    script.write(4_000);
    for _ in 0..3 {
        script.timer();
    }
    assert_eq!((script.ack(0), script.ack(0)), (String::new(), String::new()));
    assert_eq!(script.ack(0), "0+1000M");
    let paced_until = script.end.send.timing.as_ref().map(|timing| timing.paced_until);
    assert_eq!(paced_until, Some(script.now + 20 * US), "10 us for the segment before, 10 for this one");
}

/// Half a segment in flight is one in every other round trip, of 100 us, and never a half one; the end of a message is
/// no larger than it is.
#[test]
fn a_window_below_a_segment_sends_whole_ones_every_so_often() {
    for timed in [false, true] {
        let mut script = if timed { Script::timed(1, tcp(), None, None) } else { Script::new(1, tcp()) };
        script.end.send.sender.windows.cwnd = Bytes(500);
        assert_eq!(script.write(2200), "0+1000M", "the first does not wait");
        let begin = script.now;
        script.now += 100 * US;
        assert_eq!(script.ack(1000), "");
        assert_eq!((script.timer(), script.now - begin), ("1000+1000".to_owned(), 200 * US));
        script.now += 100 * US;
        assert_eq!(script.ack(2000), "2000+200", "what fits into the window does not wait");
        script.now += 100 * US;
        script.ack(2200);
        script.now += MS;
        assert_eq!(script.write(1000), "2200+1000M", "its time had come long before");
    }
}

/// In recovery nothing is in the network, and the window is below a segment: one leaves, in time.
#[test]
fn a_window_below_a_segment_does_not_stall_recovery() {
    let mut script = Script::timed(8, with_sack(), None, None);
    script.write(8_000);
    let begin = script.now;
    script.now += 100 * US;
    script.end.send.sender.windows.cwnd = Bytes(500);
    assert_eq!(script.sack(0, &[(3000, 8000), (1000, 2000)]), "0+1000M");
    script.now += 100 * US;
    assert_eq!(script.sack(2000, &[(3000, 8000)]), "", "2000 is lost, and nothing else is under way");
    assert_eq!((script.timer(), script.now - begin), ("2000+1000".to_owned(), 300 * US));
}

/// Its timer runs while the connection is open, and what it lets go leaves.
#[test]
fn a_sender_is_woken_when_it_asks_to_be() {
    let mut script = Script::timed(1, tcp(), None, Some(Time(MS + 30 * US)));
    script.write(3_000);
    script.told();
    script.end.send.sender.windows.cwnd = Bytes(2000);
    assert_eq!(script.timer(), "1000+1000");
    assert_eq!(script.now, MS + 30 * US);
    assert_eq!(script.told(), ["timer 0..1000", "sent 1000 0..2000"]);
    let closed = Script::of(Dictated { timing: Some((None, Some(Time(5)))), ..Dictated::new(1, &tcp()) }, tcp());
    assert_eq!(closed.end.deadline(), NEVER, "nothing is open yet");
}
