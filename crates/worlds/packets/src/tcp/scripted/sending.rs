//! What may be sent, and when: windows, messages, closed windows, idle time, FIN.

use super::super::send::Fin;
use super::*;
use incast_plan::SlowStartRestart;
use incast_protocols::sender::WindowRules;

/// Segments end where messages end; the first of each carries the message's facts, each time it is sent.
#[test]
fn messages_share_no_segment() {
    let mut script = Script::new(3, tcp());
    assert_eq!(script.write(1500), "0+1000M 1000+500");
    assert_eq!(script.told(), ["message of 1500 0..0"]);
    assert_eq!(script.write(800), "1500+800M");
    assert_eq!(script.told(), ["message of 800 0..1500"]);
    assert_eq!(script.write(1000), "", "2,300 of 3,000 are in flight");
    assert_eq!(script.ack(1500), "2300+1000M");
    assert_eq!(script.end.send.outgoing.len(), 2, "the first is all acknowledged");
    assert_eq!(script.ack(2299), "");
    assert_eq!(script.end.send.outgoing.len(), 2);
    assert_eq!(script.ack(2300), "");
    assert_eq!(script.end.send.outgoing.len(), 1);
    assert_eq!(script.timer(), "2300+1000M");
    script.ack(3300);
    assert_eq!(script.end.send.outgoing.len(), 0);
    assert_eq!(script.end.send.timeout_at, NEVER);
    assert_eq!(script.write(100), "3300+100M");
    assert_eq!(script.told().last().unwrap(), "message of 100 3300..3300");
}

/// What congestion controls may look at.
#[test]
fn the_view_says_what_is_left_of_the_message() {
    let mut script = Script::new(3, tcp());
    let remaining = |script: &Script| script.end.send.view(script.now).remaining;
    assert_eq!(script.end.send.view(7).srtt, Some(Duration::from_us(100)));
    script.write(1500);
    script.write(4000);
    assert_eq!(remaining(&script), Some(Bytes(1500)));
    script.peer_window = 9000;
    script.ack(1000);
    assert_eq!(remaining(&script), Some(Bytes(500)));
    let before = u64::from(1_u32 << 20);
    assert_eq!(script.end.send.view(0).advertised, Bytes(before - 1000), "an edge does not come back");
    script.ack(1500);
    assert_eq!(remaining(&script), Some(Bytes(4000)));
    let endless = Message { size: None, ..Message::default() };
    script.end.send.write(MessageId::Flow(9), None, endless);
    script.ack(2500);
    script.ack(5500);
    assert_eq!(remaining(&script), None);
}

/// The round trip of one segment at a time is measured: the one sent when none was.
#[test]
fn one_segment_in_each_window_is_timed() {
    let mut script = Script::new(2, tcp());
    script.write(10_000);
    script.now += 100 * US;
    script.ack(1000);
    // 2000 went out 100 us after 0 and is the one timed now; 1000 is not.
    script.now += 100 * US;
    script.ack(2000);
    assert_eq!(script.end.send.rtt.smoothed(), Some(Duration::from_us(100)));
    script.now += 100 * US;
    script.ack(3000);
    assert_eq!(script.end.send.rtt.smoothed().unwrap().0, (100 * 7 + 200) * US / 8);
}

/// RFC 1122 section 4.2.2.17 and RFC 9293 section 3.8.6.1: a closed window is probed with a byte, the timer
/// backs off, and none of that is congestion.
#[test]
fn a_closed_window_is_probed() {
    let mut script = Script::new(10, tcp());
    script.end.send.edge = 3000;
    script.peer_window = 0;
    assert_eq!(script.write(20_000), format!("0+1000M {}", segments(1000, 3000)));
    script.now += MS;
    assert_eq!(script.ack(3000), "");
    script.told();
    // 7/8 of 100 us and 1/8 of 1 ms; 3/4 of 50 us and 1/4 of 900: no more than the least RTO.
    assert_eq!(script.timer_in_us(), 10_000);
    script.now += MS;
    script.end.output(script.now, &script.tcp, &mut script.out);
    assert_eq!(script.timer_in_us(), 9_000, "the timer is not started over");
    assert_eq!((script.timer(), script.timer_in_us()), ("3000+1".to_owned(), 20_000));
    assert_eq!((script.timer(), script.timer_in_us()), ("3000+1".to_owned(), 40_000));
    assert_eq!((script.signals(), script.told()), ("Retransmission@3000".to_owned(), vec![]));
    script.peer_window = 2500;
    assert_eq!(script.ack(3001), "3001+1000 4001+1000", "nothing smaller than a segment leaves behind them");
    // A window smaller than a segment with nothing in flight: that much leaves.
    script.peer_window = 500;
    assert_eq!(script.ack(5001), "5001+500");
    assert_eq!(script.timer(), "5001+500", "it is full, and not closed: congestion");
    assert_eq!(script.told().last().unwrap(), "timeout 5001..5501");
}

/// The probe says what has arrived, and a timer has nothing to probe for when all is acknowledged.
#[test]
fn a_probe_acknowledges_and_needs_data() {
    let mut script = Script::new(10, tcp());
    script.data(0, 700, Flags::default());
    script.end.send.edge = 0;
    script.peer_window = 0;
    script.write(1000);
    script.end.on_timer(script.end.deadline(), &script.tcp, &mut script.out);
    let probe = script.out.packets[0];
    assert_eq!((probe.payload, probe.acknowledgement, probe.flags.has(Flags::ACK)), (1, 700, true));
    let mut script = Script::new(10, tcp());
    script.end.send.on_timeout(script.now, &script.tcp, &Packet::default(), &mut script.out);
    assert_eq!(script.sent(), "");
}

/// A delayed ACK whose time comes together with a timeout leaves, though nothing is sent again that could carry it.
#[test]
fn a_timeout_does_not_swallow_an_ack() {
    use incast_plan::DelayedAck;
    let delayed_ack = Some(DelayedAck { every: 2, timeout: Duration::from_ms(10), ..Default::default() });
    let mut script = Script::new(1, Tcp { delayed_ack, ..tcp() });
    script.write(1000);
    assert_eq!(script.data(0, 700, Flags::default()), "");
    script.set_window(0);
    assert_eq!(script.timer(), "^700");
    assert_eq!(script.told().last().unwrap(), "timeout 0..1000");
}

/// RFC 5681 section 4.1 and RFC 2861: what idle time does to a window that was kept. One RTO is 10 ms.
#[test]
fn an_idle_connection_starts_over() {
    let restarts = |rule, window, idle_us: u64| {
        let mut script = Script::new(10, Tcp { slow_start_restart: rule, ..tcp() });
        script.end.send = super::super::send::SendHalf::new(script.end.send.sender.clone(), &script.tcp, window);
        script.end.establish(Duration::from_us(100), &script.tcp, Bytes(1 << 20));
        script.write(1000);
        script.now += 100 * US;
        script.ack(1000);
        script.told();
        script.now += (idle_us - 100) * US;
        script.write(1000);
        script.told()[0].clone()
    };
    let kept = "message of 1000 1000..1000";
    let decay = |rtos: u32| format!("Decay {{ rtos: {rtos} }}");
    for (rule, window, idle_us, expected) in [
        (SlowStartRestart::Off, WindowPerMessage::Kept, 50_000, kept.to_owned()),
        (SlowStartRestart::Rfc5681, WindowPerMessage::Kept, 10_000, kept.to_owned()),
        (SlowStartRestart::Rfc5681, WindowPerMessage::Kept, 10_001, "Idle".to_owned()),
        (SlowStartRestart::Decay, WindowPerMessage::Kept, 10_000, kept.to_owned()),
        (SlowStartRestart::Decay, WindowPerMessage::Kept, 20_000, decay(1)),
        (SlowStartRestart::Decay, WindowPerMessage::Kept, 20_001, decay(2)),
        (SlowStartRestart::Decay, WindowPerMessage::Kept, 45_000, decay(4)),
        (SlowStartRestart::Off, WindowPerMessage::RestartAfterIdle, 10_000, kept.to_owned()),
        (SlowStartRestart::Off, WindowPerMessage::RestartAfterIdle, 10_001, "Idle".to_owned()),
        (SlowStartRestart::Decay, WindowPerMessage::RestartAfterIdle, 30_000, decay(2)),
        (SlowStartRestart::Off, WindowPerMessage::Fresh, 200, "Fresh".to_owned()),
    ] {
        assert_eq!(restarts(rule, window, idle_us), expected, "{rule:?} {window:?} {idle_us}");
    }
    // Never before the first message, nor while something is in flight.
    let mut script = Script::new(10, Tcp { slow_start_restart: SlowStartRestart::Rfc5681, ..tcp() });
    script.now += 100 * MS;
    script.write(1000);
    script.now += 100 * MS;
    script.write(1000);
    assert_eq!(script.told(), ["message of 1000 0..0", "message of 1000 0..1000"]);
}

/// RFC 7661 section 4.4 as Linux judges: a window counts as used if it was full; in slow start if half was.
#[test]
fn a_window_that_was_not_used_is_told() {
    let rules = WindowRules { validate_window: true, ..WindowRules::default() };
    let used = |segments: u64, ssthresh: u64, sizes: &[u64]| {
        let mut script = Script::new(segments, Tcp { rules, ..tcp() });
        script.end.send.sender.windows.ssthresh = Bytes(ssthresh * 1000);
        for &size in sizes {
            script.write(size);
        }
        script.end.send.view(0).window_used
    };
    // Ten segments in congestion avoidance: nine and a byte fill it, since no other segment has room.
    assert!(used(10, 5, &[10_000]));
    assert!(used(10, 5, &[9001]));
    assert!(!used(10, 5, &[9000]));
    // In slow start more than half is enough.
    assert!(used(10, 20, &[5001]));
    assert!(!used(10, 20, &[5000]));
    assert!(!used(10, 10, &[5001]), "at ssthresh no slow start");
    // Grown bit by bit within one window of data: the most counts.
    assert!(used(10, 20, &[2000, 2000, 2000]));
    assert!(!used(10, 20, &[2000, 2000]));
    // What is left in flight later in the same window of data does not matter, nor that as much is again.
    let mut script = Script::new(10, Tcp { rules, ..tcp() });
    script.end.send.sender.windows.ssthresh = Bytes(20_000);
    script.write(6000);
    script.ack(3000);
    script.write(1000);
    assert!(script.end.send.view(0).window_used);
    let mut script = Script::new(10, Tcp { rules, ..tcp() });
    script.end.send.sender.windows.ssthresh = Bytes(20_000);
    script.write(6000);
    script.ack(1000);
    script.write(1000);
    script.ack(6000);
    assert!(script.end.send.view(0).window_used, "judged when something is sent");
    script.write(1000);
    assert!(!script.end.send.view(0).window_used, "2 of 10 in a new window of data");
    // A sender that holds back has used its window; one that the peer's window bounds has not.
    for (held_to, edge, used) in [(3000, 1 << 20, true), (u64::MAX, 3000, false)] {
        let mut script = Script::new(10, Tcp { rules, ..tcp() });
        script.end.send.sender.windows.ssthresh = Bytes(1000);
        script.end.send.sender.held_to = Bytes(held_to);
        script.end.send.edge = edge;
        script.write(9000);
        assert_eq!(script.end.send.view(0).window_used, used);
    }
    // Full once in this window of data stays so until it is acknowledged, whatever leaves meanwhile.
    let mut script = Script::new(4, Tcp { rules, ..tcp() });
    script.end.send.sender.windows.ssthresh = Bytes(1000);
    script.write(4000);
    script.set_window(8);
    script.ack(1000);
    script.write(1000);
    assert!(script.end.send.view(0).window_used);
    script.ack(4000);
    assert!(script.end.send.view(0).window_used, "nothing was sent since");
    script.write(1000);
    assert!(!script.end.send.view(0).window_used, "2 of 8");
}

/// A FIN goes with the last segment, or alone; it is sent again like data, and its loss is none of data.
#[test]
fn a_fin_follows_the_last_byte() {
    let mut script = Script::new(2, tcp());
    script.end.send.fin = Fin::Wanted;
    assert_eq!(script.write(3000), "0+1000M 1000+1000");
    assert_eq!(script.ack(1000), "2000+1000F");
    script.told();
    assert_eq!(script.ack(3001), "");
    assert_eq!((script.end.send.fin, script.end.send.timeout_at), (Fin::Acknowledged, NEVER));
    assert_eq!(script.told(), ["ack 2000 3001..3001"], "a FIN is no data");

    let mut script = Script::new(2, tcp());
    script.write(1000);
    script.end.send.fin = Fin::Wanted;
    script.end.output(script.now, &script.tcp, &mut script.out);
    assert_eq!(script.sent(), "1000+0F");
    script.told();
    assert_eq!(script.ack(1000), "");
    assert_eq!(script.end.send.fin, Fin::Wanted);
    assert_eq!((script.timer(), script.signals()), ("1000+0F".to_owned(), "TimeoutControl@1000".to_owned()));
    assert_eq!(script.ack(1001), "");
    assert_eq!((script.end.send.fin, script.told().len()), (Fin::Acknowledged, 2));
    // A FIN needs no window: a closed one does not make its loss a probe's.
    let mut script = Script::new(2, tcp());
    script.end.send.fin = Fin::Wanted;
    script.write(1000);
    script.end.send.edge = 1000;
    script.peer_window = 0;
    script.ack(1000);
    assert_eq!((script.timer(), script.signals()), ("1000+0F".to_owned(), "TimeoutControl@1000".to_owned()));
}

/// Fast retransmit of a lone FIN, and of the last segment with its FIN.
#[test]
fn a_lost_fin_is_sent_again_on_demand() {
    for (size, lost, sent) in [(2000, 1000, "1000+1000F"), (2000, 2000, "2000+0F")] {
        let mut script = Script::new(9, tcp());
        if lost == 1000 {
            script.end.send.fin = Fin::Wanted;
        }
        script.write(size);
        script.end.send.fin = Fin::Wanted;
        script.end.output(script.now, &script.tcp, &mut script.out);
        script.sent();
        script.ack(lost);
        let demand = Packet { flags: Flags::ACK.with(Flags::PSH), ..script.ack_packet(lost) };
        assert_eq!(script.segment(&demand, Options::NONE).1, sent);
    }
}
