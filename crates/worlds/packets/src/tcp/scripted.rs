//! Endpoints driven by hand: a test says segment by segment what arrives and when, and lists what leaves.
//!
//! The congestion control is a window that the test dictates, so that every packet follows from the
//! connection's own rules; it notes what it is told.

mod handshake;
mod rack;
mod receiving;
mod recovery;
mod sending;
mod short_ways;
mod timing;
mod undo;

use incast_plan::{LostSyn, Reduction, Tcp, WindowPerMessage};
use incast_protocols::echo::EchoContext;
use incast_protocols::echo::dctcp::{self, DctcpEcho};
use incast_protocols::receiver::AckCause;
use incast_protocols::sender::{Ack, Congestion, MarkResponse, Restart, Sender, SenderView, Windows};
use incast_protocols::{Bytes, Duration, Message, Rate, Time};

use super::endpoint::{Arrived, Endpoint, State};
use super::sack::{Options, SackOption};
use super::tests::tcp;
use super::{MessageId, NEVER, Outbox};
use crate::packet::{Flags, Packet};

const MS: u64 = Duration::from_ms(1).0;
const US: u64 = Duration::from_us(1).0;

/// A congestion control that does as it is told.
#[derive(Clone, Debug)]
struct Dictated {
    windows: Windows,
    /// It lets less go than its congestion window.
    held_to: Bytes,
    /// It works with time, at this rate and with this timer.
    timing: Option<(Option<Rate>, Option<Time>)>,
    /// What every ACK said of the round trip, in us.
    round_trips: Vec<Option<u64>>,
    ecn: bool,
    told: Vec<String>,
}

impl Dictated {
    fn new(segments: u64, tcp: &Tcp) -> Self {
        Self {
            windows: Windows { cwnd: Bytes(segments * tcp.mss.0), ssthresh: Windows::UNLIMITED },
            held_to: Bytes(u64::MAX),
            timing: None,
            round_trips: Vec::new(),
            ecn: false,
            told: Vec::new(),
        }
    }

    fn note(&mut self, what: &str, view: &SenderView) {
        let (una, nxt) = (view.una.0, view.nxt.0);
        let limited =
            if view.limited_transmit.0 > 0 { format!(" limited {}", view.limited_transmit.0) } else { String::new() };
        let unused = if view.window_used { "" } else { " unused" };
        self.told.push(format!("{what} {una}..{nxt}{limited}{unused}"));
    }

    fn respond(&mut self, ack: &Ack) -> MarkResponse {
        self.round_trips.push(ack.rtt.map(|rtt| rtt.0 / US));
        if ack.ece { MarkResponse::Reduced } else { MarkResponse::None }
    }
}

impl Sender for Dictated {
    fn on_message(&mut self, view: &SenderView, message: &Message) {
        self.note(&format!("message of {}", message.size.map_or(0, |size| size.0)), view);
    }

    fn on_ack(&mut self, view: &SenderView, ack: &Ack) -> MarkResponse {
        self.note(&format!("ack {}{}", ack.acked.0, if ack.ein { " ein" } else { "" }), view);
        self.respond(ack)
    }

    fn on_duplicate_ack(&mut self, view: &SenderView, ack: &Ack) -> MarkResponse {
        self.note("duplicate", view);
        self.respond(ack)
    }

    fn on_loss(&mut self, view: &SenderView) {
        self.note("loss", view);
    }

    fn on_partial_ack(&mut self, view: &SenderView, ack: &Ack) {
        self.note(&format!("partial {}", ack.acked.0), view);
    }

    fn on_recovered(&mut self, view: &SenderView, ack: &Ack) {
        self.note(&format!("recovered {}", ack.acked.0), view);
    }

    fn on_timeout(&mut self, view: &SenderView, again: bool) {
        self.note(if again { "timeout again" } else { "timeout" }, view);
    }

    fn on_restart(&mut self, why: Restart) {
        self.told.push(format!("{why:?}"));
    }

    fn send_window(&self, view: &SenderView) -> Bytes {
        self.windows.cwnd.min(view.advertised).min(self.held_to)
    }

    fn windows(&self) -> Windows {
        self.windows
    }

    fn set_windows(&mut self, windows: Windows) {
        self.windows = windows;
    }

    fn cut(&self, _view: &SenderView, windows: Windows, _why: Congestion) -> Windows {
        windows
    }

    fn wants_timing(&self) -> bool {
        self.timing.is_some()
    }

    fn on_sent(&mut self, view: &SenderView, payload: Bytes) {
        self.note(&format!("sent {}", payload.0), view);
    }

    fn pacing_rate(&self, _view: &SenderView) -> Option<Rate> {
        self.timing?.0
    }

    fn next_timer(&self) -> Option<Time> {
        self.timing?.1
    }

    fn on_timer(&mut self, view: &SenderView) {
        self.note("timer", view);
        self.timing = Some((None, None));
    }

    fn ecn_capable(&self) -> bool {
        self.ecn
    }
}

/// One end, its clock, and the window that its peer announces.
struct Script {
    end: Endpoint<Dictated, DctcpEcho>,
    tcp: Tcp,
    now: u64,
    peer_window: u32,
    out: Outbox,
    /// Segments with data, and ACKs, for which there is a shorter way.
    short_ways: [u32; 2],
}

impl Script {
    /// Not yet open, with a window of this many segments.
    fn closed(segments: u64, tcp: Tcp) -> Self {
        Self::of(Dictated::new(segments, &tcp), tcp)
    }

    fn of(sender: Dictated, tcp: Tcp) -> Self {
        let echo = DctcpEcho::new(&dctcp::Config {}, &EchoContext {});
        let end = Endpoint::new(Packet::default(), 0, 0, &tcp, WindowPerMessage::Kept, sender, echo);
        Self { end, tcp, now: MS, peer_window: 1 << 20, out: Outbox::default(), short_ways: [0; 2] }
    }

    fn established(mut self) -> Self {
        self.end.establish(Duration::from_us(100), &self.tcp, Bytes(u64::from(self.peer_window)));
        self
    }

    /// Established, after a round trip of 100 us was measured.
    fn new(segments: u64, tcp: Tcp) -> Self {
        Self::closed(segments, tcp).established()
    }

    /// The same with a sender that works with time, at this rate and with this timer.
    fn timed(segments: u64, tcp: Tcp, rate: Option<Rate>, timer: Option<Time>) -> Self {
        let sender = Dictated { timing: Some((rate, timer)), ..Dictated::new(segments, &tcp) };
        Self::of(sender, tcp).established()
    }

    fn set_window(&mut self, segments: u64) {
        self.end.send.sender.windows.cwnd = self.tcp.mss.times(segments);
    }

    /// Hands a message over and sends what may leave.
    fn write(&mut self, size: u64) -> String {
        let id = MessageId::Flow(self.end.send.outgoing.len() as u32);
        let facts = Message { size: Some(Bytes(size)), ..Message::default() };
        self.end.send.write(id, facts.size, facts);
        self.end.output(self.now, &self.tcp, &mut self.out);
        self.sent()
    }

    /// A segment arrives; what leaves is what the world would make leave. Where there is a shorter way, it leads to the same.
    fn segment(&mut self, packet: &Packet, options: Options<'_>) -> (Arrived, String) {
        let short = self.short_way(packet);
        let arrived = self.end.on_segment(self.now, &self.tcp, packet, options, &mut self.out);
        self.end.output(self.now, &self.tcp, &mut self.out);
        if arrived.syn_ack_due {
            self.acknowledge(AckCause::SynAck);
            self.end.syn_ack_sent(self.now);
        } else if self.end.receive.ack_due {
            self.acknowledge(AckCause::Data);
        }
        while let Some(span) = self.end.receive.completed() {
            assert!(short.is_none(), "{:?} is complete", span.id);
        }
        if let Some((end, out)) = short {
            assert_eq!(format!("{end:?} {out:?}"), format!("{:?} {:?}", self.end, self.out), "after {packet:?}");
        }
        (arrived, self.sent())
    }

    /// What becomes of the end, and what leaves, if the segment takes a shorter way.
    fn short_way(&mut self, packet: &Packet) -> Option<(Endpoint<Dictated, DctcpEcho>, Outbox)> {
        let (mut end, mut out) = (self.end.clone(), self.out.clone());
        if end.only_takes_in(&self.tcp, packet) {
            self.short_ways[0] += 1;
            out.packets.extend(end.take_in(self.now, &self.tcp, packet));
        } else if end.only_lets_go_on(packet) {
            self.short_ways[1] += 1;
            end.go_on(self.now, &self.tcp, packet, &mut out);
        } else {
            return None;
        }
        Some((end, out))
    }

    fn acknowledge(&mut self, cause: AckCause) {
        self.end.acknowledge(&self.tcp, None, cause, &mut self.out);
    }

    fn ack_packet(&self, ack: u64) -> Packet {
        Packet { acknowledgement: ack as u32, window: self.peer_window, flags: Flags::ACK, ..Packet::default() }
    }

    fn ack(&mut self, ack: u64) -> String {
        self.segment(&self.ack_packet(ack), Options::NONE).1
    }

    /// An ACK with these blocks, the first of them as the one touched last.
    fn sack(&mut self, ack: u64, blocks: &[(u64, u64)]) -> String {
        let packet = Packet { flags: Flags::ACK.with(Flags::OPTIONS), ..self.ack_packet(ack) };
        self.segment(&packet, Options { sack: &SackOption::of(blocks), telemetry: None }).1
    }

    /// A data segment arrives.
    fn data(&mut self, start: u64, payload: u16, flags: Flags) -> String {
        let packet = Packet {
            sequence: start as u32,
            payload,
            flags: flags.with(Flags::ACK),
            ..self.ack_packet(self.end.send.una)
        };
        self.segment(&packet, Options::NONE).1
    }

    /// The clock goes on to the next timer.
    fn timer(&mut self) -> String {
        self.now = self.end.deadline();
        assert_ne!(self.now, NEVER, "no timer is running");
        let syn_ack_due = self.end.on_timer(self.now, &self.tcp, &mut self.out);
        self.end.output(self.now, &self.tcp, &mut self.out);
        if syn_ack_due {
            self.acknowledge(AckCause::SynAck);
            self.end.syn_ack_sent(self.now);
        } else if self.end.receive.ack_due {
            self.acknowledge(AckCause::Data);
        }
        self.sent()
    }

    /// What has left: `1000+500` for the bytes from 1000 on, `^1000` for an ACK, and letters for flags.
    fn sent(&mut self) -> String {
        let letters = [
            (Flags::SYN, 'S'),
            (Flags::FIN, 'F'),
            (Flags::PSH, 'P'),
            (Flags::ECE, 'E'),
            (Flags::CWR, 'C'),
            (Flags::MESSAGE, 'M'),
            (Flags::ECT, 'T'),
        ];
        let written = self.out.packets.drain(..).map(|packet| {
            let mut text = if packet.is_pure_ack() {
                format!("^{}", packet.acknowledgement)
            } else {
                assert_eq!(packet.wire, packet.payload + if packet.flags.has(Flags::OPTIONS) { 0 } else { 40 });
                format!("{}+{}", packet.sequence, packet.payload)
            };
            text.extend(letters.iter().filter(|(flag, _)| packet.flags.has(*flag)).map(|(_, letter)| letter));
            text
        });
        written.collect::<Vec<_>>().join(" ")
    }

    /// What the congestion control was told since this was asked last.
    fn told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.end.send.sender.told)
    }

    /// What results were told since this was asked last.
    fn signals(&mut self) -> String {
        let text = |signal: super::Signal| format!("{:?}@{}", signal.kind, signal.offset);
        self.out.signals.drain(..).map(text).collect::<Vec<_>>().join(" ")
    }

    /// Time until the retransmission timer expires, in us.
    fn timer_in_us(&self) -> u64 {
        (self.end.send.timeout_at - self.now) / US
    }
}

/// Recovery by SACK; the window comes down at once.
fn with_sack() -> Tcp {
    Tcp { sack: true, ..tcp() }
}

/// Numbers of bytes `from, from + 1000, ... < to` as they leave.
fn segments(from: u64, to: u64) -> String {
    (from..to).step_by(1000).map(|start| format!("{start}+1000")).collect::<Vec<_>>().join(" ")
}
