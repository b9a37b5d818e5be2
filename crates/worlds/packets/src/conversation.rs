//! One end of a TCP connection without a network: whoever drives it says what arrives and when, and is told what
//! leaves. It is the endpoint that simulations run, step by step as they run it.

use incast_plan::{Tcp, WindowPerMessage};
use incast_protocols::echo::{AnyEcho, EchoChoice, EchoContext};
use incast_protocols::receiver::AckCause;
use incast_protocols::sender::{AnySender, Sender, SenderChoice, SenderContext};
use incast_protocols::{Bytes, Message, Time};
use incast_record::EventKind;

use crate::packet::{Flags, Packet};
use crate::tcp::endpoint::Endpoint;
use crate::tcp::sack::{Options, SackOption};
use crate::tcp::send::Fin;
use crate::tcp::{MessageId, NEVER, Outbox};

pub use crate::tcp::endpoint::State;
pub use crate::tcp::status::{Congestion, Sending};

/// A segment, to or from the other end. Streams begin at 0 in both directions; a SYN takes no place in them, a FIN one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "flags of the header")]
pub struct Segment {
    /// Lower half of the stream offset of its first byte; without payload, of the next byte to be sent.
    pub sequence: u32,
    /// Payload in bytes; at most 65,534.
    pub payload: u16,
    /// Lower half of the next offset expected from the other end, if it acknowledges.
    pub acknowledgement: Option<u32>,
    /// Advertised window in bytes.
    pub window: u32,
    /// It opens the connection.
    pub syn: bool,
    /// It closes this direction.
    pub fin: bool,
    /// ECN-Echo.
    pub ece: bool,
    /// Congestion window reduced.
    pub cwr: bool,
    /// The IP header says: ECN-capable.
    pub ect: bool,
    /// The IP header says: congestion experienced.
    pub ce: bool,
    /// SACK blocks as lower halves of offsets, the end exclusive; at most four are read.
    pub sack: Vec<(u32, u32)>,
}

/// What can be asked of a connection's end at any time.
#[derive(Clone, Debug)]
pub struct Status {
    /// State of the connection.
    pub state: State,
    /// The sending half.
    pub sending: Sending,
    /// Timeouts since the last ACK of new data.
    pub timeouts_in_a_row: u32,
    /// Segments sent again since the beginning.
    pub retransmissions: u64,
    /// Payload that has arrived in order.
    pub received: Bytes,
    /// The other end has closed, and everything before has arrived.
    pub closed_by_peer: bool,
}

/// One end of a connection and its settings. Times must not go back.
#[derive(Clone, Debug)]
pub struct Conversation {
    end: Endpoint<AnySender, AnyEcho>,
    tcp: Tcp,
    out: Outbox,
    written: u32,
    timeouts_in_a_row: u32,
    retransmissions: u64,
}

impl Conversation {
    /// An end that waits for a SYN.
    #[must_use]
    pub fn new(tcp: Tcp, sender: &SenderChoice, echo: &EchoChoice) -> Self {
        let context = SenderContext {
            mss: tcp.mss,
            initial_window: tcp.mss.times(tcp.initial_window_segments),
            rules: tcp.rules,
            reference_rtt: None,
            path: None,
        };
        let echo = echo.build(&EchoContext::default());
        let sender = sender.build(&context);
        let end = Endpoint::new(Packet::default(), 0, 0, &tcp, WindowPerMessage::Kept, sender, echo);
        Self { end, tcp, out: Outbox::default(), written: 0, timeouts_in_a_row: 0, retransmissions: 0 }
    }

    /// The settings.
    #[must_use]
    pub const fn tcp(&self) -> &Tcp {
        &self.tcp
    }

    /// Whether the sender makes its packets ECN-capable.
    #[must_use]
    pub fn ecn_capable(&self) -> bool {
        self.end.send.sender.ecn_capable()
    }

    /// Sends a SYN.
    pub fn connect(&mut self, now: Time) {
        self.end.open(now.0, &self.tcp, &mut self.out);
    }

    /// The application hands over `bytes` of its stream. What has not been sent of earlier bytes shares segments with
    /// them.
    pub fn write(&mut self, now: Time, bytes: Bytes) {
        if self.end.send.has_unsent() {
            self.end.send.extend(now.0, bytes);
        } else {
            let facts = Message { size: Some(bytes), ..Message::default() };
            self.end.send.write(MessageId::Flow(self.written), facts.size, facts);
            self.written += 1;
        }
        self.finish(now, false);
    }

    /// The application will hand over nothing more: a FIN follows the last byte.
    pub fn close(&mut self, now: Time) {
        if self.end.send.fin == Fin::Open {
            self.end.send.fin = Fin::Wanted;
        }
        self.finish(now, false);
    }

    /// A segment arrives.
    pub fn receive(&mut self, now: Time, segment: &Segment) {
        let una = self.end.send.una;
        let sack = SackOption::read(&segment.sack);
        let flags = Flags::default()
            .with_if(segment.acknowledgement.is_some(), Flags::ACK)
            .with_if(segment.syn, Flags::SYN)
            .with_if(segment.fin, Flags::FIN)
            .with_if(segment.ece, Flags::ECE)
            .with_if(segment.cwr, Flags::CWR)
            .with_if(segment.ect, Flags::ECT)
            .with_if(segment.ce, Flags::CE)
            .with_if(!segment.sack.is_empty(), Flags::OPTIONS);
        let packet = Packet {
            sequence: segment.sequence,
            acknowledgement: segment.acknowledgement.unwrap_or(0),
            window: segment.window,
            payload: segment.payload.min(Packet::TRIMMED - 1),
            flags,
            ..Packet::default()
        };
        let options = Options { sack: &sack, telemetry: None };
        let arrived = self.end.on_segment(now.0, &self.tcp, &packet, options, &mut self.out);
        if self.end.send.una > una {
            self.timeouts_in_a_row = 0;
        }
        self.finish(now, arrived.syn_ack_due);
    }

    /// When [`expire`](Self::expire) wants to be called, unless something else happens before.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        Some(self.end.deadline()).filter(|deadline| *deadline != NEVER).map(Time)
    }

    /// Its timers run out that are due by now.
    pub fn expire(&mut self, now: Time) {
        let syn_ack_due = self.end.on_timer(now.0, &self.tcp, &mut self.out);
        self.finish(now, syn_ack_due);
    }

    /// Sends what may leave, in the order in which a world does.
    fn finish(&mut self, now: Time, syn_ack_due: bool) {
        self.end.output(now.0, &self.tcp, &mut self.out);
        if syn_ack_due {
            self.end.acknowledge(&self.tcp, None, AckCause::SynAck, &mut self.out);
            self.end.syn_ack_sent(now.0);
        } else if self.end.receive.ack_due {
            self.end.acknowledge(&self.tcp, None, AckCause::Data, &mut self.out);
        }
        for signal in self.out.signals.drain(..) {
            match signal.kind {
                EventKind::Retransmission => self.retransmissions += 1,
                EventKind::TimeoutFullWindow
                | EventKind::TimeoutTail
                | EventKind::TimeoutLostRetransmission
                | EventKind::TimeoutControl => self.timeouts_in_a_row += 1,
                _ => {}
            }
        }
    }

    /// What has left since this was asked last, in order.
    pub fn sent(&mut self) -> Vec<Segment> {
        let options = &mut self.end.arriving;
        // It is the other end here, too, as far as what it has written has to be read.
        options.extend(&self.out.options);
        self.out.options.clear();
        let segment = |packet: Packet| {
            let sack = if packet.flags.has(Flags::OPTIONS) { options.read(&packet).0 } else { SackOption::NONE };
            Segment {
                sequence: packet.sequence,
                payload: packet.payload,
                acknowledgement: packet.flags.has(Flags::ACK).then_some(packet.acknowledgement),
                window: packet.window,
                syn: packet.flags.has(Flags::SYN),
                fin: packet.flags.has(Flags::FIN),
                ece: packet.flags.has(Flags::ECE),
                cwr: packet.flags.has(Flags::CWR),
                ect: packet.flags.has(Flags::ECT),
                ce: packet.flags.has(Flags::CE),
                sack: sack.blocks().to_vec(),
            }
        };
        self.out.packets.drain(..).map(segment).collect()
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> Status {
        let receive = &self.end.receive;
        Status {
            state: self.end.state,
            sending: self.end.send.status(&self.tcp),
            timeouts_in_a_row: self.timeouts_in_a_row,
            retransmissions: self.retransmissions,
            received: Bytes(receive.next - u64::from(receive.fin_received)),
            closed_by_peer: receive.fin_received,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::tests::tcp;
    use incast_protocols::Duration;

    const MS: u64 = Duration::from_ms(1).0;

    fn conversation() -> Conversation {
        Conversation::new(Tcp { sack: true, ..tcp() }, &SenderChoice::defaults()[0], &EchoChoice::defaults()[0])
    }

    fn ack(offset: u32) -> Segment {
        Segment { acknowledgement: Some(offset), window: 1 << 20, ..Segment::default() }
    }

    fn opened() -> Conversation {
        let mut end = conversation();
        end.connect(Time(0));
        assert!(end.sent().iter().all(|segment| segment.syn && segment.acknowledgement.is_none()));
        end.receive(Time(MS), &Segment { syn: true, ..ack(0) });
        assert_eq!(end.sent().len(), 1);
        assert_eq!(end.status().state, State::Established);
        end
    }

    #[test]
    fn what_is_written_while_bytes_wait_shares_segments_with_them() {
        let mut end = opened();
        for _ in 0..3 {
            end.write(Time(MS), Bytes(1500));
        }
        end.receive(Time(2 * MS), &ack(1000));
        let payloads: Vec<_> = end.sent().iter().map(|segment| segment.payload).collect();
        assert_eq!(payloads, [1000, 1000, 1000], "500 of the first write and 500 of the second are one segment");
        end.receive(Time(3 * MS), &ack(3000));
        assert_eq!(end.sent().iter().map(|segment| segment.payload).collect::<Vec<_>>(), [1000, 500]);
        assert!(!end.status().sending.unsent);
    }

    #[test]
    fn timeouts_are_counted_until_new_data_is_acknowledged() {
        let mut end = opened();
        end.write(Time(MS), Bytes(1000));
        for count in 1..=3 {
            let at = end.deadline().unwrap();
            end.expire(at);
            assert_eq!((end.status().timeouts_in_a_row, end.status().retransmissions), (count, u64::from(count)));
        }
        assert_eq!(end.status().sending.congestion, Congestion::Loss);
        let at = end.deadline().unwrap();
        end.receive(at, &ack(1000));
        let status = end.status();
        assert_eq!((status.timeouts_in_a_row, status.retransmissions), (0, 3));
        assert_eq!(status.sending.congestion, Congestion::Open);
        assert_eq!(end.deadline(), None);
    }

    #[test]
    fn what_arrives_beyond_a_gap_is_told_by_sack() {
        let mut end = opened();
        end.receive(Time(2 * MS), &Segment { sequence: 1000, payload: 500, ..ack(0) });
        let sent = end.sent();
        assert_eq!((sent.len(), sent[0].acknowledgement, sent[0].sack.as_slice()), (1, Some(0), &[(1000, 1500)][..]));
        assert_eq!(end.status().received, Bytes(0));
        end.receive(Time(2 * MS), &Segment { payload: 1000, fin: false, ..ack(0) });
        assert_eq!(end.status().received, Bytes(1500));
        end.receive(Time(2 * MS), &Segment { sequence: 1500, fin: true, ..ack(0) });
        assert!(end.status().closed_by_peer);
        assert_eq!(end.status().received, Bytes(1500));
        end.close(Time(3 * MS));
        assert!(end.sent().last().unwrap().fin);
    }
}
