//! What arrives, and what is said of it.

use super::*;
use incast_plan::{DelayedAck, WindowScaling};

#[test]
fn each_segment_is_acknowledged_at_once_without_delayed_acks() {
    let mut script = Script::new(1, tcp());
    assert_eq!(script.data(0, 1000, Flags::default()), "^1000");
    assert_eq!(script.data(2000, 1000, Flags::default()), "^1000", "beyond a gap");
    assert_eq!(script.data(0, 1000, Flags::default()), "^1000", "again");
    assert_eq!(script.data(1000, 1000, Flags::default()), "^3000", "the gap is closed");
    assert_eq!(script.data(2500, 1000, Flags::default()), "^3500", "half of it is new");
    assert_eq!(script.end.receive.highest, 3500);
    assert_eq!(script.data(4500, 0, Flags::FIN), "^3500", "a FIN beyond a gap");
    assert_eq!(script.data(3500, 1000, Flags::default()), "^4501");
    assert_eq!(script.data(4500, 0, Flags::FIN), "^4501", "again");
}

#[test]
fn what_a_segment_brought() {
    let mut script = Script::new(1, tcp());
    let mut brought = |start: u64, payload| {
        let packet = Packet { sequence: start as u32, payload, ..Packet::default() };
        let received = script.end.receive.on_data(0, &script.tcp, &packet);
        (received.start, received.new, received.delivered, received.out_of_order)
    };
    assert_eq!(brought(0, 1000), (0, 1000, 1000, false));
    assert_eq!(brought(2000, 1000), (2000, 1000, 0, true));
    assert_eq!(brought(500, 1000), (500, 500, 500, false));
    assert_eq!(brought(1500, 500), (1500, 500, 1500, false));
    assert_eq!(brought(1000, 1000), (1000, 0, 0, false));
    assert_eq!(brought(2000, 1000), (2000, 0, 0, false));
    assert_eq!(brought(4000, 0), (4000, 0, 0, false), "no payload, no gap");
    assert!(script.end.receive.beyond_gap.is_empty());
    let mut brought = |start: u64, payload| {
        let packet = Packet { sequence: start as u32, payload, ..Packet::default() };
        let received = script.end.receive.on_data(0, &script.tcp, &packet);
        (received.new, received.delivered)
    };
    assert_eq!(brought(4000, 1000), (1000, 0));
    assert_eq!(brought(3000, 1500), (1000, 2000), "half of what came beyond the gap is in this one too");
    let arrived = script.segment(&script.ack_packet(0), Options::NONE).0;
    assert!(arrived.data.is_none(), "an ACK brings nothing");
}

/// RFC 5681 section 4.2: an ACK for every second segment, after 500 us at the latest, at once for a gap.
#[test]
fn acks_are_delayed() {
    let delayed_ack = Some(DelayedAck { every: 2, timeout: Duration::from_us(500), quick: 2, ..Default::default() });
    let mut script = Script::new(1, Tcp { delayed_ack, ..tcp() });
    let none = Flags::default();
    assert_eq!([script.data(0, 1000, none), script.data(1000, 1000, none)], ["^1000", "^2000"], "two quick ones");
    assert_eq!(script.data(2000, 1000, none), "");
    assert_eq!(script.end.deadline(), script.now + 500 * US);
    script.now += 100 * US;
    assert_eq!(script.data(3000, 1000, none), "^4000");
    assert_eq!(script.end.deadline(), NEVER);
    assert_eq!(script.data(4000, 1000, none), "");
    let at = script.now + 500 * US;
    assert_eq!((script.timer(), script.now), ("^5000".to_owned(), at));
    assert_eq!(script.data(6000, 1000, none), "^5000");
    assert_eq!(script.end.deadline(), NEVER, "nothing is delayed any more");
    assert_eq!(script.data(5000, 1000, none), "^7000");
    assert_eq!(script.data(6000, 1000, none), "^7000", "what was there already");
    assert_eq!(script.data(7000, 1000, none), "");
    assert_eq!(script.data(8000, 0, Flags::FIN), "^8001");
}

/// RFC 8257 section 3.2: a change of the mark flushes the ACK that is being delayed, and is acknowledged at once.
#[test]
fn marks_flush_a_delayed_ack() {
    let delayed_ack = Some(DelayedAck { every: 3, timeout: Duration::from_us(500), ..Default::default() });
    let mut script = Script::new(1, Tcp { delayed_ack, ..tcp() });
    let none = Flags::default();
    assert_eq!(script.data(0, 1000, none), "");
    assert_eq!(script.data(1000, 1000, Flags::CE), "^1000 ^2000E");
    assert_eq!(script.data(2000, 1000, Flags::CE), "");
    let deadline = script.end.deadline();
    script.now += 100 * US;
    assert_eq!(script.data(3000, 1000, Flags::CE), "");
    assert_eq!(script.end.deadline(), deadline, "the oldest segment is not made to wait longer");
    assert_eq!(script.ack(0), "", "an ACK carries no mark of its own");
    assert_eq!(script.data(4000, 1000, Flags::CE), "^5000E");
    assert_eq!(script.data(5000, 1000, none), "^6000", "nothing was being delayed");
}

/// Data takes the ACK along; with SACK, an ACK of a gap leaves by itself as well.
#[test]
fn data_carries_acks() {
    let mut script = Script::new(1, tcp());
    script.write(3000);
    let data = Packet { payload: 1000, ..script.ack_packet(1000) };
    assert_eq!(script.segment(&data, Options::NONE).1, "1000+1000");
    let said = |script: &mut Script, ack: u64, sequence| {
        let packet = Packet { payload: 100, sequence, ..script.ack_packet(ack) };
        script.end.on_segment(script.now, &script.tcp, &packet, Options::NONE, &mut script.out);
        script.end.output(script.now, &script.tcp, &mut script.out);
        let last = *script.out.packets.last().unwrap();
        script.out.packets.clear();
        (last.acknowledgement, last.window, last.flags.has(Flags::ACK), script.end.receive.ack_due)
    };
    assert_eq!(said(&mut script, 2000, 1000), (1100, 1 << 20, true, false));
    for (sack, due) in [(false, false), (true, true)] {
        let mut script = Script::new(1, Tcp { sack, ..tcp() });
        script.write(3000);
        assert_eq!(said(&mut script, 1000, 500), (0, 1 << 20, true, due));
    }
}

/// RFC 7323 section 2.3: a buffer of 1 MiB needs a shift of 5; the edge does not come back, and what the field
/// cannot say is cut off.
#[test]
fn windows_are_announced_in_what_the_field_can_say() {
    let mut script = Script::new(1, Tcp { window_scaling: WindowScaling::Rfc7323, ..tcp() });
    assert_eq!(script.tcp.window_shift(), 5);
    assert_eq!(script.end.receive.announce(&script.tcp, 1 << 20), (0, 1 << 20));
    script.data(0, 1001, Flags::default());
    assert_eq!(script.end.receive.edge, (1 << 20) + 1001);
    assert_eq!(script.end.receive.announce(&script.tcp, 100), (1001, 1001 + (1 << 20)), "the edge stays");
    script.data(1001, 1001, Flags::default());
    let mut script = Script::new(1, Tcp { window_scaling: WindowScaling::Rfc7323, ..tcp() });
    assert_eq!(script.end.receive.announce(&script.tcp, 1000), (0, 31 << 5));
    let mut script = Script::new(1, Tcp { window_scaling: WindowScaling::Off, ..tcp() });
    assert_eq!(script.end.receive.announce(&script.tcp, 1 << 20), (0, 65_535));
}

/// What an ACK is made of: its window, its bytes on the wire (RFC 2018 section 3: 8n + 2 and padding), its flags.
#[test]
fn an_ack_says_what_there_is_to_say() {
    let mut script = Script::new(1, Tcp { sack: true, receive_buffer: Bytes(5000), ..tcp() });
    script.write(100);
    script.sent();
    let packet = |script: &mut Script, window, cause| {
        script.end.acknowledge(&script.tcp, window, cause, &mut script.out);
        let packet = script.out.packets.pop().unwrap();
        (packet.sequence, packet.acknowledgement, packet.window, packet.wire, packet.flags)
    };
    let with_sack = Flags::ACK.with(Flags::OPTIONS);
    assert_eq!(packet(&mut script, None, AckCause::Data), (100, 0, 5000, 40, Flags::ACK));
    script.data(1000, 1000, Flags::default());
    assert_eq!(packet(&mut script, None, AckCause::Data), (100, 0, 5000, 52, with_sack));
    script.data(3000, 1000, Flags::default());
    assert_eq!(
        packet(&mut script, Some(Bytes(7000)), AckCause::Forced),
        (100, 0, 5000, 60, with_sack.with(Flags::PSH)),
        "no more than the socket takes"
    );
    assert_eq!(packet(&mut script, Some(Bytes(1)), AckCause::SynAck).4, with_sack.with(Flags::SYN));
    script.data(0, 1000, Flags::default());
    assert_eq!(packet(&mut script, None, AckCause::Data), (100, 2000, 5000, 52, with_sack));
}

/// What was held is said by the ACK that leaves instead.
#[test]
fn a_held_ack_loses_no_mark() {
    let mut script = Script::new(1, tcp());
    let packet = Packet { payload: 1000, flags: Flags::CE, ..Packet::default() };
    script.end.receive.on_data(0, &script.tcp, &packet);
    script.end.receive.hold();
    assert!(script.end.receive.held && !script.end.receive.ack_due);
    script.end.receive.on_data(0, &script.tcp, &Packet { sequence: 1000, payload: 1000, ..Packet::default() });
    script.acknowledge(AckCause::Data);
    assert!(!script.end.receive.held);
    assert_eq!(script.sent(), "^2000E");
    script.acknowledge(AckCause::Data);
    assert_eq!(script.sent(), "^2000");
}

/// Messages are told when their first segment and when their last byte arrives, in stream order.
#[test]
fn messages_are_introduced_once_and_complete_in_order() {
    let mut script = Script::new(1, tcp());
    let mut peer = Script::new(1, tcp());
    for size in [1500, 200, 3000] {
        let facts = Message { size: Some(Bytes(size)), ..Message::default() };
        let span = peer.end.send.write(MessageId::Flow(size as u32), facts.size, facts);
        script.end.receive.incoming.push_back(span);
    }
    let receive = &mut script.end.receive;
    let spans: Vec<_> = receive.incoming.iter().copied().collect();
    let id = |span: Option<super::super::Span>| span.map(|span| span.id);
    assert_eq!(id(receive.introduce(1500)), Some(MessageId::Flow(200)));
    assert_eq!(id(receive.introduce(1500)), None, "once");
    assert_eq!(id(receive.introduce(1000)), None);
    assert_eq!(id(receive.completed()), None);
    let mut arrive = |start: u64, payload| {
        let packet = Packet { sequence: start as u32, payload, ..Packet::default() };
        receive.on_data(0, &tcp(), &packet);
        let mut done = Vec::new();
        while let Some(span) = receive.completed() {
            done.push(span.end);
        }
        (done, receive.delivered_of(&spans[0]), receive.delivered_of(&spans[1]), receive.delivered_of(&spans[2]))
    };
    assert_eq!(arrive(0, 1000), (vec![], 1000, 0, 0));
    assert_eq!(arrive(1500, 200), (vec![], 1000, 0, 0));
    assert_eq!(arrive(1000, 500), (vec![1500, 1700], 1500, 200, 0));
    assert_eq!(arrive(1700, 1000), (vec![], 1500, 200, 1000));
    assert_eq!(arrive(2700, 1999), (vec![], 1500, 200, 2999));
    assert_eq!(arrive(4699, 1), (vec![4700], 1500, 200, 3000));
}

/// `tcp_event_data_recv`: after a pause longer than its own timeout a receiver acknowledges at once again, and after a
/// duplicate (`tcp_enter_quickack_mode`).
#[test]
fn quick_acks_come_back_after_a_pause_and_a_duplicate() {
    for quick_again in [false, true] {
        let delay =
            DelayedAck { every: 2, timeout: Duration::from_ms(40), quick: 2, quick_again, ..Default::default() };
        let mut script = Script::new(1, Tcp { delayed_ack: Some(delay), ..tcp() });
        let at_once = |script: &mut Script, start| !script.data(start, 1000, Flags::default()).is_empty();
        assert!(at_once(&mut script, 0) && at_once(&mut script, 1000));
        assert!(!at_once(&mut script, 2000) && at_once(&mut script, 3000), "every other one");
        script.now += 10 * MS + US;
        assert_eq!(at_once(&mut script, 4000), quick_again, "the timeout is 10 ms");
        assert!(at_once(&mut script, 5000));
        assert!(!at_once(&mut script, 6000) && at_once(&mut script, 7000));
        assert!(at_once(&mut script, 0), "a duplicate always");
        assert_eq!(at_once(&mut script, 8000), quick_again);
    }
}

/// `inet_csk_in_pingpong_mode`: an end that answers what it receives has no quick ACKs left, until a delayed ACK has
/// waited in vain or a duplicate comes.
#[test]
fn an_end_that_answers_acknowledges_late() {
    let delay =
        DelayedAck { every: 2, timeout: Duration::from_ms(40), quick: 2, quick_again: true, ..Default::default() };
    let mut script = Script::new(10, Tcp { delayed_ack: Some(delay), ..tcp() });
    let at_once = |script: &mut Script, start| !script.data(start, 1000, Flags::default()).is_empty();
    assert!(at_once(&mut script, 0) && at_once(&mut script, 1000));
    script.now += 10 * MS;
    script.write(1000);
    script.ack(1000);
    script.now += 100 * MS;
    assert!(!at_once(&mut script, 2000), "the pause would have made it quick");
    assert!(at_once(&mut script, 3000), "every other one");
    assert!(!at_once(&mut script, 4000));
    script.timer();
    script.now += 100 * MS;
    assert!(at_once(&mut script, 5000), "no answer carried the ACK, so a pause counts again");
}

/// `tcp_grow_window`: while the receive window grows, no ACK waits, and 16 more do not.
#[test]
fn each_segment_is_acknowledged_while_the_window_grows() {
    let delay = DelayedAck { quick: 2, growth: Bytes(8000), ..Default::default() };
    let at_once = |tcp: Tcp, early: bool| {
        let mut script = Script::new(1, tcp);
        if early {
            script.data(50_000, 1000, Flags::default());
        }
        let mut acks = (0..9).map(|segment| !script.data(segment * 1000, 1000, Flags::default()).is_empty());
        acks.by_ref().take_while(|at_once| *at_once).count()
    };
    let tcp = |growth| Tcp { sack: true, delayed_ack: Some(DelayedAck { growth: Bytes(growth), ..delay }), ..tcp() };
    assert_eq!(at_once(tcp(0), false), 2);
    assert_eq!(at_once(tcp(8000), false), 4 + 2, "four segments let it grow, and use no quick ACK up");
    assert_eq!(at_once(tcp(8000), true), 9, "beyond a gap every segment is acknowledged at once");
    let mut short = Script::new(1, tcp(8000));
    let acks: Vec<_> = (0..4).map(|segment| !short.data(segment * 100, 100, Flags::default()).is_empty()).collect();
    assert_eq!(acks, [true, true, false, true], "short segments do not count");
}

/// `tcp_delack_max`: with a short least timeout, ACKs are delayed by less than that. The data comes 1 ms after a tick.
#[test]
fn no_ack_waits_for_as_long_as_the_least_timeout() {
    for (below_rto_min, rto_min, tick, ms) in
        [(false, 10, 4, 43), (true, 10, 4, 11), (true, 10, 0, 10), (true, 200, 4, 43)]
    {
        let delay = DelayedAck { below_rto_min, ..Default::default() };
        let (rto_min, timer_tick) = (Duration::from_ms(rto_min), Duration::from_ms(tick));
        let mut script = Script::new(1, Tcp { delayed_ack: Some(delay), rto_min, timer_tick, ..tcp() });
        script.data(0, 1000, Flags::default());
        assert_eq!(script.end.receive.ack_at - script.now, ms * MS);
    }
}

/// GRO: one ACK answers what is joined. Time, size, a gap and the end of a message end it.
#[test]
fn one_ack_answers_segments_that_are_joined() {
    let delay = DelayedAck { quick: 2, ..Default::default() };
    let mut script = Script::new(80, Tcp { delayed_ack: Some(delay), gro: Duration::from_us(20), ..tcp() });
    let said = |script: &mut Script, segments: std::ops::Range<u64>| {
        let acks = segments.map(|segment| {
            script.now += US / 10;
            script.data(segment * 1000, 1000, Flags::default())
        });
        acks.filter(|ack| !ack.is_empty()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(said(&mut script, 0..10), "", "quick or not, these are one");
    assert_eq!(script.end.receive.ack_at - script.now, 19_100 * US / 1000, "20 us after the first");
    assert_eq!(script.timer(), "^10000");
    assert_eq!(said(&mut script, 10..11), "", "the first of others");
    assert_eq!(said(&mut script, 12..13), "^11000", "a gap is told at once");
    assert_eq!(said(&mut script, 11..12), "^13000", "and that it is filled");
    script.now += 30 * US;
    assert_eq!(said(&mut script, 13..80), "^78000", "no more than 64 KiB are one");
}
