//! Most segments take a shorter way, which has to lead where the long one does: [`Script::segment`] goes both.

use super::*;
use crate::tcp::Span;
use incast_plan::{BackoffEnd, DelayedAck};
use incast_protocols::random::Stream;

/// A segment of a peer that sends messages of 20 segments, most of it in order.
fn data(script: &Script, random: &mut Stream) -> Packet {
    let next = script.end.receive.next;
    let start = match random.up_to(19) {
        0 => next + 1000 * random.up_to(3),
        1 => next.saturating_sub(1000),
        _ => next,
    };
    let marks = [Flags::default(), Flags::CE, Flags::CWR, Flags::EIN][random.up_to(11).min(3) as usize];
    Packet {
        sequence: start as u32,
        payload: if random.up_to(9) == 0 { 400 } else { 1000 },
        flags: Flags::ACK.with(marks),
        ..script.ack_packet(script.end.send.una)
    }
}

/// An ACK, most of them of what is in flight.
fn ack(script: &Script, random: &mut Stream) -> Packet {
    let send = &script.end.send;
    let flight = send.highest - send.una;
    let ack = match random.up_to(19) {
        0 => send.una,
        1 => send.highest,
        _ => send.una + 1000.min(flight),
    };
    let says = [Flags::default(), Flags::ECE, Flags::EIN_ECHO, Flags::CWR][random.up_to(11).min(3) as usize];
    Packet { flags: Flags::ACK.with(says), ..script.ack_packet(ack) }
}

/// A message of the peer, behind those that it has announced.
fn expect_message(script: &mut Script) {
    let incoming = &mut script.end.receive.incoming;
    let start = incoming.back().map_or(script.end.receive.next, |span| span.end);
    incoming.push_back(Span {
        id: MessageId::Flow(0),
        start,
        end: start + 20_000,
        facts: Message::default(),
        introduced: false,
    });
}

#[test]
fn short_ways_lead_where_the_long_one_does() {
    let delayed_ack = Some(DelayedAck {
        every: 2,
        timeout: Duration::from_us(500),
        quick: 2,
        quick_again: true,
        ..Default::default()
    });
    let kinds = [
        tcp(),
        with_sack(),
        Tcp { delayed_ack, ..tcp() },
        Tcp { delayed_ack, sack: true, dsack: true, gro: Duration::from_us(20), ..tcp() },
        Tcp { reduction: Reduction::Proportional, backoff_end: BackoffEnd::Ack, timestamps: true, ..with_sack() },
    ];
    for (kind, tcp) in kinds.into_iter().enumerate() {
        let mut taken = [0; 2];
        for seed in 0..40 {
            let mut random = Stream::new(1, 0, seed);
            let mut script = Script::new(8, tcp.clone());
            script.end.send.sender.ecn = seed % 2 == 0;
            expect_message(&mut script);
            for _ in 0..300 {
                script.now += random.up_to(149) * US;
                if script.end.deadline() <= script.now {
                    script.timer();
                }
                if script.end.receive.incoming.len() < 2 {
                    expect_message(&mut script);
                }
                match random.up_to(39) {
                    0 => drop(script.write(1000 * (1 + random.up_to(59)))),
                    1 => script.set_window(1 + random.up_to(19)),
                    2 => script.peer_window = 1000 * random.up_to(59) as u32,
                    // For a while this end only answers.
                    step if step % 2 == 0 || !script.end.send.outstanding() => {
                        let packet = data(&script, &mut random);
                        script.segment(&packet, Options::NONE);
                    }
                    _ => {
                        let packet = ack(&script, &mut random);
                        script.segment(&packet, Options::NONE);
                    }
                }
            }
            taken[0] += script.short_ways[0];
            taken[1] += script.short_ways[1];
        }
        assert!(taken.iter().all(|count| *count > 500), "{taken:?} of kind {kind}");
    }
}

#[test]
fn data_that_opens_a_closed_window_takes_the_long_way() {
    let mut script = Script { peer_window: 0, ..Script::closed(8, tcp()) }.established();
    expect_message(&mut script);
    assert_eq!(script.write(3000), "");
    let none = Flags::default();
    assert_eq!([script.data(0, 1000, none), script.data(1000, 1000, none)], ["^1000", "^2000"]);
    script.peer_window = 5000;
    assert_eq!(script.data(2000, 1000, none), "0+1000M 1000+1000 2000+1000");
    assert_eq!(script.short_ways, [0, 0], "there was something to send");
}
