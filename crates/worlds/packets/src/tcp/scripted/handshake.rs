//! Opening and closing (RFC 9293 section 3.5 and 3.6).

use super::super::send::Fin;
use super::*;
use incast_protocols::receiver::FlowIndex;

fn syn(window: u32) -> Packet {
    Packet { window, flags: Flags::SYN, ..Packet::default() }
}

fn syn_ack(window: u32) -> Packet {
    Packet { window, flags: Flags::SYN.with(Flags::ACK), ..Packet::default() }
}

fn arrive(script: &mut Script, packet: Packet) -> String {
    script.segment(&packet, Options::NONE).1
}

fn open(script: &mut Script) -> String {
    script.end.open(script.now, &script.tcp, &mut script.out);
    script.sent()
}

#[test]
fn a_client_opens_and_sends_at_once() {
    let mut script = Script::closed(2, tcp());
    assert_eq!(script.write(1000), "", "not open yet");
    script.end.open(script.now, &script.tcp, &mut script.out);
    assert_eq!(script.out.packets[0].window, 1 << 20);
    assert_eq!(script.sent(), "0+0SM");
    assert_eq!((script.end.state, script.timer_in_us()), (State::SynSent, 10_000));
    for other in [Packet { flags: Flags::ACK, ..Packet::default() }, syn(1)] {
        assert_eq!(arrive(&mut script, other), "");
        assert_eq!(script.end.state, State::SynSent, "only a SYN-ACK answers a SYN");
    }
    script.now += 200 * US;
    assert_eq!(arrive(&mut script, syn_ack(1500)), "^0 0+1000M");
    assert_eq!(script.end.state, State::Established);
    assert_eq!(script.end.send.rtt.smoothed(), Some(Duration::from_us(200)));
    assert_eq!(script.end.send.edge, 1500);
    assert_eq!(script.end.send.sender.windows.cwnd, Bytes(2000));
    // The ACK was lost: the SYN-ACK comes again.
    assert_eq!(arrive(&mut script, syn_ack(1500)), "^0");
    assert_eq!(arrive(&mut script, syn(1500)), "", "a stray SYN");
    assert_eq!(script.ack(1000), "");
    assert_eq!(script.end.deadline(), NEVER);
}

#[test]
fn a_server_answers_and_is_established_by_an_ack() {
    let mut script = Script::closed(2, tcp());
    for stray in [syn_ack(9), Packet { flags: Flags::ACK, payload: 10, ..Packet::default() }] {
        assert_eq!(arrive(&mut script, stray), "");
        assert_eq!(script.end.state, State::Closed);
    }
    let (arrived, sent) = script.segment(&syn(7000), Options::NONE);
    assert_eq!((arrived.opened, sent.as_str()), (true, "0+0S"));
    assert_eq!((script.end.state, script.timer_in_us()), (State::SynReceived, 10_000));
    assert_eq!(script.end.send.edge, 7000);
    let (arrived, sent) = script.segment(&syn(7000), Options::NONE);
    assert_eq!((arrived.opened, sent.as_str()), (false, "0+0S"), "again");
    assert_eq!(arrive(&mut script, Packet::default()), "");
    assert_eq!(script.end.state, State::SynReceived, "neither SYN nor ACK");
    // Data completes the handshake as well.
    let data = Packet { payload: 500, ..script.ack_packet(0) };
    assert_eq!(arrive(&mut script, data), "^500");
    assert_eq!((script.end.state, script.end.deadline()), (State::Established, NEVER));
}

/// RFC 5681 section 3.1 and Karn: a handshake that lost a packet measures nothing and starts from one segment.
#[test]
fn a_repeated_handshake_starts_small() {
    let mut client = Script::closed(10, tcp());
    client.write(20_000);
    open(&mut client);
    assert_eq!((client.timer(), client.timer_in_us()), ("0+0SM".to_owned(), 20_000));
    assert_eq!(client.signals(), "TimeoutControl@0");
    client.end.send.sender.windows.ssthresh = Bytes(77);
    assert_eq!(arrive(&mut client, syn_ack(9000)), "^0 0+1000M");
    assert_eq!(client.end.send.sender.windows, Windows { cwnd: Bytes(1000), ssthresh: Bytes(77) });
    assert_eq!(client.end.send.rtt.smoothed(), None);

    for repeats_itself in [true, false] {
        let mut server = Script::closed(10, tcp());
        arrive(&mut server, syn(9000));
        if repeats_itself {
            assert_eq!((server.timer(), server.timer_in_us()), ("0+0S".to_owned(), 20_000));
        } else {
            arrive(&mut server, syn(9000));
        }
        server.ack(0);
        assert_eq!(server.end.send.sender.windows.cwnd, Bytes(1000));
        assert_eq!(server.end.send.rtt.smoothed(), None);
    }
    let mut server = Script::closed(10, tcp());
    arrive(&mut server, syn(9000));
    server.now += 300 * US;
    server.ack(0);
    assert_eq!(server.end.send.rtt.smoothed(), Some(Duration::from_us(300)));
}

/// Linux from 6.5 on: four SYNs after the same time, and one lost SYN costs neither window nor sample.
#[test]
fn on_linux_a_lost_syn_costs_a_second_and_no_more() {
    let linux = || Tcp { syn_linear_timeouts: 4, lost_syn: LostSyn::Linux, timestamps: true, ..tcp() };
    let mut client = Script::closed(10, linux());
    client.write(20_000);
    open(&mut client);
    let waits: Vec<u64> = (0..7).map(|_| (client.timer(), client.timer_in_us()).1).collect();
    assert_eq!(waits, [10_000, 10_000, 10_000, 10_000, 20_000, 40_000, 80_000]);
    for (repeats, window) in [(1, 10_000), (2, 1000)] {
        let mut client = Script::closed(10, linux());
        client.write(20_000);
        open(&mut client);
        for _ in 0..repeats {
            client.timer();
        }
        client.now += 200 * US;
        arrive(&mut client, syn_ack(9000));
        assert_eq!(client.end.send.sender.windows.cwnd, Bytes(window), "{repeats}");
        assert_eq!(client.end.send.rtt.smoothed(), Some(Duration::from_us(200)));
    }
    // A SYN-ACK's time doubles at once.
    let mut server = Script::closed(10, linux());
    arrive(&mut server, syn(9000));
    assert_eq!((server.timer(), server.timer_in_us()), ("0+0S".to_owned(), 20_000));
}

/// Both directions close; what comes again is acknowledged again, pure ACKs are not.
#[test]
fn a_closed_end_acknowledges_what_comes_again() {
    let mut script = Script::new(2, tcp());
    script.end.close_when_done = true;
    script.write(1000);
    assert_eq!(script.ack(1000), "");
    assert_eq!(script.data(0, 0, Flags::FIN), "1000+0F", "it closes when its peer has");
    script.ack(1001);
    assert_eq!((script.end.state, script.end.deadline()), (State::Done, NEVER));
    assert_eq!(script.data(0, 0, Flags::FIN), "^1");
    assert_eq!(script.data(0, 5, Flags::default()), "^1");
    assert_eq!(script.ack(1001), "");
    assert!(!script.end.on_timer(script.now, &script.tcp, &mut script.out));
    for (to_write, close, fin) in [(1, true, false), (0, false, false), (0, true, true)] {
        let mut script = Script::new(2, tcp());
        (script.end.to_write, script.end.close_when_done) = (to_write, close);
        script.data(0, 0, Flags::FIN);
        assert_eq!(script.end.send.fin == Fin::Wanted, fin, "{to_write} {close}");
        assert_eq!(script.end.state, State::Established);
    }
    // The other way round: its own FIN is acknowledged first.
    let mut script = Script::new(2, tcp());
    script.end.send.fin = Fin::Wanted;
    script.write(1000);
    script.ack(1001);
    assert_eq!(script.end.state, State::Established);
    script.data(0, 0, Flags::FIN);
    assert_eq!(script.end.state, State::Done);
}

/// Where a controller decides on ACKs, data says what was announced last and echoes nothing, and neither a
/// SYN-ACK nor a change of marks makes an ACK leave by itself.
#[test]
fn under_a_controller_acks_do_not_leave_by_themselves() {
    let mut script = Script::closed(1, Tcp { receive_buffer: Bytes(3000), ..tcp() });
    script.end.flow = Some(FlowIndex(0));
    script.write(2000);
    script.end.receive.announce(&script.tcp, 2500);
    open(&mut script);
    assert_eq!(script.out.packets.len(), 0, "the SYN was looked at");
    script.end.on_segment(script.now, &script.tcp, &syn_ack(9000), Options::NONE, &mut script.out);
    assert_eq!((script.sent().as_str(), script.end.receive.ack_due), ("", true));
    script.end.receive.on_data(0, &script.tcp, &Packet { payload: 100, flags: Flags::CE, ..Packet::default() });
    script.end.output(script.now, &script.tcp, &mut script.out);
    let sent = script.out.packets[0];
    assert_eq!((sent.acknowledgement, sent.window, sent.flags.has(Flags::ECE)), (0, 2500, false));
    assert!(script.end.receive.ack_due);
    script.out.packets.clear();
    let plain = Packet { sequence: 100, payload: 100, ..script.ack_packet(0) };
    script.end.on_segment(script.now, &script.tcp, &plain, Options::NONE, &mut script.out);
    assert_eq!(script.sent(), "");
    script.acknowledge(AckCause::Data);
    assert_eq!(script.sent(), "^200E", "the mark that the first ACK would have echoed");
}

/// Timers that are not due do nothing.
#[test]
fn a_timer_expires_when_it_is_due_and_not_before() {
    let mut script = Script::new(2, tcp());
    script.write(1000);
    let at = script.end.deadline();
    assert!(!script.end.on_timer(at - 1, &script.tcp, &mut script.out));
    assert_eq!((script.sent().as_str(), script.told().len()), ("", 1));
    script.end.on_timer(at, &script.tcp, &mut script.out);
    assert_eq!(script.told(), ["timeout 0..1000"]);
    let delayed_ack = Some(incast_plan::DelayedAck { every: 2, timeout: Duration::from_us(500), ..Default::default() });
    let mut script = Script::new(2, Tcp { delayed_ack, ..tcp() });
    script.data(0, 1000, Flags::default());
    script.end.on_timer(script.end.deadline() - 1, &script.tcp, &mut script.out);
    assert!(!script.end.receive.ack_due);
}
