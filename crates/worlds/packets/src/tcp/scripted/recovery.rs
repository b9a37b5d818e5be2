//! Losses: by duplicates (RFC 6582), by SACK (RFC 6675), by timeout (RFC 6298).

use super::*;
use incast_plan::PartialAck;

/// Ten segments in flight, none acknowledged, ten more to come.
fn ten_in_flight(tcp: Tcp) -> Script {
    let mut script = Script::new(10, tcp);
    assert_eq!(script.write(20_000), format!("0+1000M {}", segments(1000, 10_000)));
    assert_eq!(script.timer_in_us(), 10_000);
    script.told();
    script
}

/// RFC 6582 section 3.2: segments 0, 3 and 5 of ten are lost.
#[test]
fn duplicates_and_partial_acks_repair_one_loss_in_each_round_trip() {
    let mut script = ten_in_flight(tcp());
    script.now += MS;
    assert_eq!([script.ack(0), script.ack(0)], ["", ""]);
    assert_eq!(script.timer_in_us(), 9_000, "the first two duplicates do not touch the timer");
    assert_eq!(script.ack(0), "0+1000M");
    assert_eq!(script.timer_in_us(), 10_000);
    assert_eq!(script.told(), ["duplicate 0..10000", "duplicate 0..10000", "duplicate 0..10000", "loss 0..10000"]);
    assert_eq!(script.signals(), "FastRetransmit@0 Retransmission@0");
    assert_eq!(script.ack(0), "", "a fourth duplicate retransmits nothing");
    script.now += MS;
    script.told();
    // Only the first partial ACK restarts the timer.
    assert_eq!(script.ack(3000), format!("3000+1000 {}", segments(10_000, 13_000)));
    assert_eq!((script.told(), script.timer_in_us()), (vec!["partial 3000 3000..10000".to_owned()], 10_000));
    script.now += MS;
    assert_eq!(script.ack(5000), format!("5000+1000 {}", segments(13_000, 15_000)));
    assert_eq!((script.told(), script.timer_in_us()), (vec!["partial 2000 5000..13000".to_owned()], 9_000));
    assert_eq!(script.signals(), "Retransmission@3000 Retransmission@5000");
    // All that was in flight at the start is acknowledged: no further retransmission.
    assert_eq!(script.ack(10_000), segments(15_000, 20_000));
    assert_eq!((script.told(), script.timer_in_us()), (vec!["recovered 5000 10000..15000".to_owned()], 10_000));
    // Section 4.1: duplicates of what was in flight then are none of a new loss.
    assert_eq!([(); 4].map(|()| script.ack(10_000)), ["", "", "", ""]);
    assert_eq!(script.signals(), "");
    script.ack(11_000);
    assert_eq!([(); 3].map(|()| script.ack(11_000)), ["", "", "11000+1000"]);
    assert_eq!(script.signals(), "FastRetransmit@11000 Retransmission@11000");
    script.told();
    // The next recovery restarts the timer at its own first partial ACK.
    script.now += MS;
    script.ack(12_000);
    assert_eq!(script.timer_in_us(), 10_000);
}

/// RFC 5681 section 2: a duplicate carries nothing, announces the same window, and there is data outstanding.
#[test]
fn only_bare_acks_with_the_window_as_it_was_are_duplicates() {
    let mut script = ten_in_flight(tcp());
    let fin = Packet { flags: Flags::ACK.with(Flags::FIN), ..script.ack_packet(0) };
    let data = Packet { payload: 10, ..script.ack_packet(0) };
    for packet in [fin, data] {
        script.end.send.on_ack(script.now, &script.tcp, &packet, Options::NONE, &Packet::default(), &mut script.out);
    }
    for _ in 0..3 {
        script.peer_window += 1;
        assert_eq!(script.ack(0), "");
    }
    assert_eq!(script.told(), Vec::<String>::new());
    // Nothing outstanding: nothing to duplicate. An ACK of what was never sent says nothing at all.
    script.ack(10_000);
    script.ack(20_000);
    script.told();
    for ack in [20_000, 20_000, 20_000, 20_001, 19_000] {
        assert_eq!(script.ack(ack), "");
    }
    assert_eq!(script.told(), Vec::<String>::new());
    assert_eq!((script.end.send.una, script.end.send.timeout_at), (20_000, NEVER));
}

/// Duplicates that new data interrupts are counted anew.
#[test]
fn an_ack_of_new_data_ends_a_row_of_duplicates() {
    let mut script = ten_in_flight(tcp());
    script.ack(0);
    script.ack(0);
    assert_eq!(script.ack(1000), "10000+1000");
    assert_eq!([(); 3].map(|()| script.ack(1000)), ["", "", "1000+1000"]);
}

/// RFC 6675 section 5: segments 0, 3 and 5 of ten are lost; the window falls to five segments on the loss.
#[test]
fn sack_repairs_all_losses_in_one_round_trip() {
    let mut script = ten_in_flight(with_sack());
    script.now += MS;
    assert_eq!(script.sack(0, &[(1000, 2000)]), "");
    assert_eq!(script.sack(0, &[(1000, 3000)]), "");
    assert_eq!(script.ack(0), "", "what tells nothing is no duplicate");
    script.set_window(5);
    // Two ranges, three segments: 0 is lost. Pipe: 3, 5, 6, 7, 8, 9 in flight, and 0 again; no room.
    assert_eq!(script.sack(0, &[(4000, 5000), (1000, 3000)]), "0+1000M");
    assert_eq!(script.signals(), "FastRetransmit@0 Retransmission@0");
    assert_eq!(script.timer_in_us(), 10_000);
    // Pipe 6 and 5, no room; then 4 with 3 found lost, for which there is room.
    assert_eq!(script.sack(0, &[(6000, 7000), (4000, 5000), (1000, 3000)]), "");
    assert_eq!(script.sack(0, &[(6000, 8000), (4000, 5000), (1000, 3000)]), "3000+1000");
    assert_eq!(script.sack(0, &[(6000, 9000), (4000, 5000), (1000, 3000)]), "5000+1000 10000+1000");
    assert_eq!(script.sack(0, &[(6000, 10_000), (4000, 5000), (1000, 3000)]), "11000+1000");
    script.told();
    // A partial ACK restarts the timer each time (RFC 6298 section 5.3).
    for (ack, new) in [(3000, (12_000, 13_000)), (5000, (13_000, 14_000))] {
        script.now += MS;
        assert_eq!(script.sack(ack, &[(6000, 10_000)]), segments(new.0, new.1));
        assert_eq!(script.timer_in_us(), 10_000);
    }
    assert_eq!(script.told(), ["partial 3000 3000..12000", "partial 2000 5000..13000"]);
    assert_eq!(script.ack(10_000), segments(14_000, 15_000));
    assert_eq!(script.told(), ["recovered 5000 10000..14000"]);
}

/// RFC 6675 section 5, step 4: losses below three ranges, or more than two segments' bytes, need no third duplicate.
#[test]
fn one_ack_that_tells_enough_begins_recovery() {
    let mut script = ten_in_flight(with_sack());
    assert_eq!(script.sack(0, &[(1000, 4000)]), "0+1000M 10000+1000 11000+1000 12000+1000");
    let mut script = ten_in_flight(with_sack());
    assert_eq!(script.sack(0, &[(2000, 4000)]), "");
    // An ACK of new data that tells of more beyond a gap is a duplicate too.
    assert_eq!(script.sack(1000, &[(2000, 5000)]), "1000+1000 10000+1000 11000+1000 12000+1000 13000+1000");
    assert_eq!(script.told(), ["duplicate 0..10000", "ack 1000 1000..10000", "loss 1000..10000"]);
}

/// Blocks at or below the ACK, empty ones and ones beyond what was sent tell nothing.
#[test]
fn blocks_that_cannot_be_are_passed_over() {
    let mut script = ten_in_flight(with_sack());
    script.ack(2000);
    script.told();
    for block in [(1000, 2000), (2000, 3000), (4000, 4000), (6000, 5000), (11_000, 13_000)] {
        assert_eq!(script.sack(2000, &[block]), "");
    }
    assert_eq!(script.told(), Vec::<String>::new());
    assert!(script.end.send.board.is_empty());
    script.sack(2000, &[(11_000, 12_000)]);
    assert_eq!(script.told(), ["duplicate 2000..12000"], "up to the last byte sent");
}

/// After its end, what a recovery has sent again is not sent again by the next one; another loss is.
#[test]
fn a_second_recovery_needs_a_new_loss() {
    let mut script = ten_in_flight(with_sack());
    script.sack(0, &[(1000, 4000)]);
    assert_eq!(script.sack(10_000, &[(11_000, 13_000)]), segments(13_000, 20_000));
    script.signals();
    // There is room and nothing else to send: a rescue of the last segment (rule 4 of NextSeg).
    assert_eq!(script.sack(10_000, &[(11_000, 14_000)]), "10000+1000 19000+1000");
    assert_eq!(script.signals(), "FastRetransmit@10000 Retransmission@10000 Retransmission@19000");
}

/// RFC 6675 section 5, step 2: what was found lost when a recovery ended begins the next one with the first
/// duplicate.
#[test]
fn the_first_duplicate_begins_a_recovery_of_what_is_known_to_be_lost() {
    let mut script = ten_in_flight(with_sack());
    script.sack(0, &[(1000, 4000)]);
    assert_eq!(script.sack(0, &[(1000, 5000)]), "13000+1000");
    script.signals();
    script.sack(10_000, &[(11_000, 14_000)]);
    assert_eq!(script.signals(), "", "this ACK ends the first");
    script.sack(10_000, &[(11_000, 15_000)]);
    assert_eq!(script.signals().split(' ').next(), Some("FastRetransmit@10000"));
}

/// Segments 10 to 19 in flight, their window not cut by what comes, and ssthresh at five.
fn proportional(segments_written: u64) -> Script {
    let mut script = Script::new(10, Tcp { reduction: Reduction::Proportional, ..with_sack() });
    script.write(segments_written * 1000);
    script.ack(10_000);
    script.end.send.sender.windows.ssthresh = Bytes(5000);
    script
}

/// RFC 6937 with RFC 9937's heuristic: one of ten is lost.
#[test]
fn proportional_reduction_lets_segments_go_by_what_is_delivered() {
    let mut script = proportional(40);
    script.sack(10_000, &[(11_000, 12_000)]);
    script.sack(10_000, &[(11_000, 13_000)]);
    let sent = (14..=20_u64).map(|end| script.sack(10_000, &[(11_000, end * 1000)])).collect::<Vec<_>>();
    // Two delivered in recovery let one go, the retransmission; the next leaves a pipe of five; then each lets one go.
    assert_eq!(sent, ["10000+1000", "", "", "20000+1000", "21000+1000", "22000+1000", "23000+1000"]);
}

/// The same with 20 in flight and ssthresh at ten: from the fourth on, every other ACK lets a segment go.
#[test]
fn proportional_reduction_sends_half_of_what_is_delivered() {
    let mut script = Script::new(20, Tcp { reduction: Reduction::Proportional, ..with_sack() });
    script.write(60_000);
    script.ack(20_000);
    script.end.send.sender.windows.ssthresh = Bytes(10_000);
    script.sack(20_000, &[(21_000, 22_000)]);
    script.sack(20_000, &[(21_000, 23_000)]);
    let sent = (24..=31_u64).map(|end| script.sack(20_000, &[(21_000, end * 1000)])).collect::<Vec<_>>();
    assert_eq!(sent, ["20000+1000", "", "", "40000+1000", "", "41000+1000", "", "42000+1000"]);
}

/// Six of ten are lost: the pipe is below ssthresh, and an ACK that brings progress lets one more go.
#[test]
fn proportional_reduction_fills_a_pipe_that_ran_empty() {
    let mut script = proportional(40);
    script.sack(10_000, &[(16_000, 17_000)]);
    script.sack(10_000, &[(16_000, 18_000)]);
    assert_eq!(script.sack(10_000, &[(16_000, 19_000)]), "10000+1000");
    // A segment acknowledged, one more told of, and one for progress.
    assert_eq!(script.sack(11_000, &[(16_000, 20_000)]), segments(11_000, 14_000));
    assert_eq!(script.ack(12_000), segments(14_000, 16_000));
}

/// A sender that lets less go than its window is obeyed in recovery too.
#[test]
fn a_sender_that_holds_back_bounds_proportional_reduction() {
    let mut script = proportional(40);
    script.sack(10_000, &[(16_000, 17_000)]);
    script.sack(10_000, &[(16_000, 18_000)]);
    assert_eq!(script.sack(10_000, &[(16_000, 19_000)]), "10000+1000");
    // In the network: the retransmission, and 19, which arrives now.
    script.end.send.sender.held_to = Bytes(2000);
    assert_eq!(script.sack(10_000, &[(16_000, 20_000)]), "11000+1000");
    assert_eq!(script.ack(11_000), "12000+1000", "without it there would be two");
}

/// Six of ten are lost and one ACK says so: as many leave as the window has room for, holes first.
#[test]
fn retransmissions_count_in_the_pipe() {
    let mut script = ten_in_flight(with_sack());
    script.set_window(5);
    assert_eq!(script.sack(0, &[(6000, 10_000)]), format!("0+1000M {}", segments(1000, 5000)));
    // A hole of less than a segment needs no room for a whole one; a whole one does.
    for (window, sent) in [(2499, "0+1000M"), (2500, "0+1000M 1000+500"), (3499, "0+1000M 1000+500")] {
        let mut script = Script::new(10, with_sack());
        script.write(1500);
        script.write(500);
        script.write(20_000);
        script.end.send.sender.windows.cwnd = Bytes(window);
        assert_eq!(script.sack(0, &[(1500, 9000)]), sent);
    }
    let mut script = ten_in_flight(with_sack());
    script.end.send.sender.windows.cwnd = Bytes(1999);
    assert_eq!(script.sack(0, &[(6000, 10_000)]), "0+1000M");
}

/// The peer's window holds in recovery.
#[test]
fn recovery_sends_nothing_beyond_the_peers_window() {
    let mut script = ten_in_flight(with_sack());
    script.end.send.edge = 10_500;
    script.peer_window = 10_500;
    script.set_window(8);
    // There is room for a segment, but none that the peer would take: the last one is sent again (rule 4 of NextSeg).
    assert_eq!(script.sack(0, &[(1000, 4000)]), "0+1000M 9000+1000");
}

/// A recovery that waits for later data has nothing in the network, and the peer's window less room than a segment: nobody
/// would say anything any more. The timer sends what there is room for.
#[test]
fn a_recovery_that_waits_for_later_data_is_not_stuck_without_room() {
    let waits = Tcp { reduction: Reduction::Proportional, partial_ack: PartialAck::Waits, ..tcp() };
    let mut script = ten_in_flight(waits);
    (script.end.send.edge, script.peer_window) = (10_600, 10_600);
    assert_eq!([(); 3].map(|()| script.ack(0)), ["", "", "0+1000M"]);
    script.peer_window = 600;
    script.now += MS;
    assert_eq!((script.ack(10_000), script.end.send.in_recovery), (String::new(), true));
    assert_eq!(script.timer_in_us(), 10_000);
    assert_eq!((script.timer(), script.timer_in_us()), ("10000+600".to_owned(), 20_000));
    script.peer_window = 10_000;
    assert!(script.ack(10_600).starts_with("10600+1000"));
}

/// What is sent again ends where its message ends, and results are told which message it was.
#[test]
fn a_retransmission_keeps_to_its_message() {
    let mut script = Script::new(10, tcp());
    script.write(1500);
    script.write(3000);
    script.ack(1000);
    script.told();
    assert_eq!([(); 3].map(|()| script.ack(1000)), ["", "", "1000+500"]);
    let told = |script: &mut Script| script.out.signals.drain(..).map(|signal| signal.message).collect::<Vec<_>>();
    assert_eq!(told(&mut script), [Some(MessageId::Flow(0)); 2]);
    assert_eq!(script.ack(1500), "1500+1000M");
    assert_eq!(told(&mut script), [Some(MessageId::Flow(1))]);
}

/// RFC 6582 section 4.1 after a timeout: duplicates of what was in flight are none of a new loss; SACK tells.
#[test]
fn after_a_timeout_old_duplicates_do_not_count() {
    let mut script = ten_in_flight(tcp());
    script.timer();
    script.ack(10_000);
    script.signals();
    assert_eq!([(); 3].map(|()| script.ack(10_000)), ["", "", ""]);
    script.ack(11_000);
    assert_eq!([(); 3].map(|()| script.ack(11_000)), ["", "", "11000+1000"]);
    let mut script = ten_in_flight(with_sack());
    script.timer();
    assert_eq!(script.sack(9000, &[(10_000, 10_000)]), segments(10_000, 19_000));
    script.signals();
    script.ack(10_000);
    script.sack(10_000, &[(11_000, 14_000)]);
    assert_eq!(script.signals().split(' ').next(), Some("FastRetransmit@10000"));
}

/// A retransmission carries the ACK and the window of the other direction.
#[test]
fn a_retransmission_acknowledges() {
    let mut script = ten_in_flight(tcp());
    script.data(0, 700, Flags::default());
    script.ack(0);
    script.ack(0);
    let third = script.ack_packet(0);
    script.end.on_segment(script.now, &script.tcp, &third, Options::NONE, &mut script.out);
    let sent = script.out.packets[0];
    assert_eq!((sent.acknowledgement, sent.window, sent.flags.has(Flags::ACK)), (700, 1 << 20, true));
}

/// RFC 6298 section 5: the timer backs off; what is sent again measures no round trip (Karn).
#[test]
fn a_timeout_starts_over_with_what_is_not_acknowledged() {
    let mut script = ten_in_flight(tcp());
    script.set_window(1);
    assert_eq!((script.timer(), script.timer_in_us()), ("0+1000M".to_owned(), 20_000));
    assert_eq!((script.timer(), script.timer_in_us()), ("0+1000M".to_owned(), 40_000));
    assert_eq!(script.told(), ["timeout 0..10000", "timeout again 0..10000"]);
    assert_eq!(script.signals(), "TimeoutFullWindow@0 Retransmission@0 TimeoutLostRetransmission@0 Retransmission@0");
    script.set_window(2);
    script.now += MS;
    assert_eq!((script.ack(1000), script.timer_in_us()), ("1000+1000 2000+1000".to_owned(), 40_000));
    // All but the first three had arrived: new data follows at once, and is timed.
    assert_eq!(script.ack(10_000), "10000+1000 11000+1000");
    script.now += MS;
    script.ack(11_000);
    assert_eq!(script.timer_in_us(), 10_000, "a sample ends the back-off");
    script.told();
    script.signals();
    // An ACK was heard since the last new data was sent: the tail of a flight was lost.
    script.set_window(1);
    script.ack(12_000);
    script.timer();
    assert_eq!(script.told(), ["ack 1000 12000..13000", "timeout 12000..13000"]);
}

/// What a timeout is told as depends on what is outstanding and on what was heard since.
#[test]
fn timeouts_are_told_apart() {
    let mut script = ten_in_flight(tcp());
    script.ack(10_000);
    script.ack(15_000);
    script.timer();
    assert_eq!(script.signals().split(' ').next(), Some("TimeoutTail@15000"));
    // A duplicate is something heard, too.
    let mut script = ten_in_flight(tcp());
    script.ack(0);
    script.timer();
    assert_eq!(script.signals().split(' ').next(), Some("TimeoutTail@0"));
    let mut script = ten_in_flight(tcp());
    script.ack(5000);
    script.timer();
    assert_eq!(script.signals().split(' ').next(), Some("TimeoutFullWindow@5000"));
    script.ack(10_000);
    script.ack(15_000);
    script.signals();
    script.timer();
    assert_eq!(script.signals().split(' ').next(), Some("TimeoutTail@15000"), "these went out once");
}

/// With timestamps a retransmission measures a round trip; with `BackoffEnd::Ack` any new ACK ends the back-off.
#[test]
fn what_ends_a_back_off() {
    use incast_plan::BackoffEnd;
    let rto = |tcp: Tcp| {
        let mut script = Script::new(10, tcp);
        script.write(10_000);
        script.set_window(1);
        script.timer();
        script.now += 2 * MS;
        script.ack(1000);
        script.timer_in_us()
    };
    assert_eq!(rto(tcp()), 20_000);
    assert_eq!(rto(Tcp { backoff_end: BackoffEnd::Ack, ..tcp() }), 10_000);
    // 7/8 * 100 + 1/8 * 2000 = 337.5; 3/4 * 50 + 1/4 * 1900 = 512.5; the first plus four times the second.
    assert_eq!(
        rto(Tcp { timestamps: true, rto_min: Duration::from_us(1), rto_initial: Duration::from_us(1), ..tcp() }),
        2387
    );
}

/// RFC 6675 section 5.1: what the peer has is not sent again after a timeout, though it counts as having left.
#[test]
fn a_timeout_leaves_out_what_was_sacked() {
    let mut script = ten_in_flight(with_sack());
    script.sack(0, &[(2000, 3000)]);
    script.sack(0, &[(4500, 5000), (2000, 3000)]);
    assert_eq!(
        script.timer(),
        "0+1000M 1000+1000 3000+1000 4000+500 5000+1000 6000+1000 7000+1000 8000+1000 9000+1000 10000+1000"
    );
    let mut script = ten_in_flight(with_sack());
    script.sack(0, &[(1000, 2000)]);
    script.set_window(2);
    // One segment of the window, and one for the SACKed one between.
    assert_eq!(script.timer(), "0+1000M 2000+1000");
    // The end of what was sent is there: nothing is left to send.
    let mut script = Script::new(10, with_sack());
    script.write(3000);
    script.sack(0, &[(1000, 3000)]);
    assert_eq!(script.timer(), "0+1000M");
}

/// RFC 3042: one new segment on each of the first two duplicates, beyond the window, which a loss does not count.
#[test]
fn limited_transmit_sends_two_segments_beyond_the_window() {
    let mut script = ten_in_flight(Tcp { limited_transmit: true, ..tcp() });
    assert_eq!([(); 4].map(|()| script.ack(0)), ["10000+1000", "11000+1000", "0+1000M", ""]);
    assert_eq!(script.told()[2..4], ["duplicate 0..12000 limited 2000", "loss 0..12000 limited 2000"]);
    let mut script = ten_in_flight(Tcp { limited_transmit: true, ..with_sack() });
    assert_eq!(script.sack(0, &[(1000, 2000)]), "10000+1000");
    assert_eq!(script.sack(0, &[(1000, 3000)]), "11000+1000");
    assert_eq!(script.told(), ["duplicate 0..10000", "duplicate 0..11000 limited 1000"]);
    // The peer's window bounds it.
    let mut script = ten_in_flight(Tcp { limited_transmit: true, ..tcp() });
    script.end.send.edge = 11_500;
    script.peer_window = 11_500;
    assert_eq!([(); 3].map(|()| script.ack(0)), ["10000+1000", "", "0+1000M"]);
    // Nothing of it while everything is sent again after a timeout.
    let mut script = ten_in_flight(Tcp { limited_transmit: true, ..tcp() });
    script.set_window(2);
    script.timer();
    assert_eq!([script.ack(0), script.ack(0)], ["", ""]);
}

/// RFC 3168 sections 6.1.2 and 6.1.5: the first new data after a reduction has CWR; what is sent again is not ECT.
#[test]
fn a_reduction_is_said_on_new_data() {
    use incast_plan::Ect;
    let with_ecn = |tcp: Tcp| {
        let mut script = Script::new(3, tcp);
        script.end.send.sender.ecn = true;
        assert_eq!(script.write(20_000), "0+1000MT 1000+1000T 2000+1000T");
        script
    };
    let mut script = with_ecn(tcp());
    let marked = Packet { flags: Flags::ACK.with(Flags::ECE), ..script.ack_packet(1000) };
    assert_eq!(script.segment(&marked, Options::NONE).1, "3000+1000CT");
    assert_eq!(script.ack(2000), "4000+1000T");
    assert_eq!(script.signals(), "MarkReduction@1000");
    assert_eq!([(); 3].map(|()| script.ack(2000)), ["", "", "2000+1000"]);
    assert_eq!(script.ack(5000), "5000+1000CT 6000+1000T 7000+1000T");
    script.timer();
    script.told();
    assert_eq!(script.ack(8000), "8000+1000CT 9000+1000T 10000+1000T");
    let script = with_ecn(Tcp { ect: Ect::All, ..tcp() });
    assert_eq!(script.end.send.fin, super::super::send::Fin::Open);
    let mut script = with_ecn(Tcp { ect: Ect::All, ..tcp() });
    assert_eq!([(); 3].map(|()| script.ack(0)), ["", "", "0+1000MT"]);
}

/// RFC 6675 rule 4 of `NextSeg`: the last segments are lost, no SACK above them says so.
#[test]
fn a_rescue_is_sent_once_when_there_is_nothing_else() {
    let mut script = Script::new(10, with_sack());
    script.write(4500);
    script.write(500);
    script.sack(0, &[(1000, 2000)]);
    script.sack(0, &[(1000, 3000)]);
    script.signals();
    // 0 is sent again; 3000 to 5000 is in the network for all one knows: the end of it, the last message.
    assert_eq!(script.sack(0, &[(1000, 3500)]), "0+1000M 4500+500M");
    assert_eq!(script.ack(0), "");
    assert_eq!(script.ack(3500), "");
}
