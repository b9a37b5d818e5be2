//! One end of a connection: its state, its two halves, its timer.

#![expect(clippy::inline_always, reason = "measured: what most packets take is 1.5 % cheaper within `World::deliver`")]

use incast_plan::{Ect, LostSyn, Tcp, WindowPerMessage};
use incast_protocols::echo::Echo;
use incast_protocols::receiver::{AckCause, FlowIndex};
use incast_protocols::sender::{Sender, Windows};
use incast_protocols::{Bytes, Duration, Offset};
use incast_record::EventKind;

use super::clock::Clock;
use super::receive::{ReceiveHalf, Received, field};
use super::sack::{Options, OptionsReader};
use super::send::{Fin, SendHalf};
use super::{NEVER, Outbox, Signal};
use crate::packet::{Flags, Packet};

/// State of a connection as one end sees it (RFC 9293 section 3.3.2; what lies behind Established is
/// told by the halves).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not opened, or waiting for a SYN.
    Closed,
    /// SYN sent.
    SynSent,
    /// SYN received, SYN-ACK sent or held back.
    SynReceived,
    /// Data may flow.
    Established,
    /// Both directions are closed; what comes again is acknowledged again (TIME-WAIT).
    Done,
}

/// One end of a connection. What most packets need comes first, in few lines of the cache.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Endpoint<S, E> {
    /// What every packet of this end has in common.
    pub(crate) template: Packet,
    /// Packets that it has sent, less those that it has got. The sum over both ends of a connection is what is in queues and
    /// on wires.
    pub(crate) under_way: i64,
    /// When the driver will next look at the timer.
    pub(crate) scheduled_at: u64,
    pub(crate) class: u32,
    pub(crate) host: u32,
    /// Its number at the NIC's controller, if that is active.
    pub(crate) flow: Option<FlowIndex>,
    pub(crate) state: State,
    /// The other end is done, where another part of the network has it.
    pub(crate) peer_is_done: bool,
    pub(crate) close_when_done: bool,
    /// Messages that will still be handed over here.
    pub(crate) to_write: u32,
    pub(crate) receive: ReceiveHalf<E>,
    pub(crate) send: SendHalf<S>,
    /// The window that the NIC's controller always wants, so that it need not be asked before an ACK leaves.
    pub(crate) fixed_window: Option<Bytes>,
    /// What the other end has said in options.
    pub(crate) arriving: OptionsReader,
    handshake_sent_at: u64,
    /// How often a part of the handshake was sent again, as far as this end knows.
    handshake_repeats: u32,
}

/// What a segment changed, as far as others have to know.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrived {
    /// It was the first SYN.
    pub(crate) opened: bool,
    /// A SYN-ACK is due.
    pub(crate) syn_ack_due: bool,
    /// What its payload brought.
    pub(crate) data: Option<Received>,
}

impl<S: Sender, E: Echo> Endpoint<S, E> {
    pub(crate) fn new(
        template: Packet,
        class: u32,
        host: u32,
        tcp: &Tcp,
        window_per_message: WindowPerMessage,
        sender: S,
        echo: E,
    ) -> Self {
        let always_ect = tcp.ect == Ect::All && sender.ecn_capable();
        let wants_telemetry = sender.wants_telemetry();
        Self {
            send: SendHalf::new(sender, tcp, window_per_message),
            receive: ReceiveHalf::new(echo, tcp, wants_telemetry),
            arriving: OptionsReader::new(wants_telemetry),
            template: Packet { flags: template.flags.with_if(always_ect, Flags::ECT), ..template },
            state: State::Closed,
            flow: None,
            fixed_window: None,
            class,
            host,
            under_way: 0,
            peer_is_done: false,
            to_write: 0,
            close_when_done: false,
            scheduled_at: NEVER,
            handshake_sent_at: 0,
            handshake_repeats: 0,
        }
    }

    /// Reads what most segments need: some word of each line.
    #[inline]
    pub(crate) fn touch(&self) -> u64 {
        let (receive, send) = (&self.receive, &self.send);
        self.scheduled_at ^ receive.next ^ receive.touch() ^ send.una ^ send.touch()
    }

    /// Timers go by this clock from now on.
    pub(crate) fn set_clock(&mut self, clock: Clock) {
        self.send.clock = clock;
        self.receive.clock = clock;
    }

    pub(crate) const fn is_client(&self) -> bool {
        self.template.flags.has(Flags::FROM_CLIENT)
    }

    /// Begins the handshake.
    pub(crate) fn open(&mut self, now: u64, tcp: &Tcp, out: &mut Outbox) {
        self.state = State::SynSent;
        self.send_syn(now, tcp, out);
    }

    /// Takes the connection for established, as if a handshake had measured `rtt` before.
    pub(crate) fn establish(&mut self, rtt: Duration, tcp: &Tcp, peer_window: Bytes) {
        self.state = State::Established;
        self.send.sample(rtt, tcp);
        self.send.edge = peer_window.0;
    }

    fn send_syn(&mut self, now: u64, tcp: &Tcp, out: &mut Outbox) {
        self.handshake_sent_at = now;
        // A controller has granted what it grants before.
        let window = if self.flow.is_some() { self.receive.edge } else { tcp.receive_buffer.0 };
        let (_, edge) = self.receive.announce(tcp, tcp.largest_syn_window(window));
        let carries_message = self.send.outgoing.front().is_some_and(|span| span.start == 0);
        out.packets.push(Packet {
            window: edge as u32,
            wire: tcp.header.0 as u16,
            flags: self.template.flags.with(Flags::SYN).with_if(carries_message, Flags::MESSAGE),
            ..self.template
        });
        self.send.arm(now, self.send.rtt.rto());
    }

    /// Fills acknowledgement, window and echo into what was put into `out` from `first` on.
    ///
    /// Where a controller gates ACKs, data carries what was announced last, so that no grant slips by.
    /// Data carries no SACK option: while there is a gap, an ACK that is due leaves by itself as well.
    #[inline]
    fn piggyback(&mut self, tcp: &Tcp, first: usize, out: &mut Outbox) {
        let asks = self.asks_controller();
        let (ack, edge) = if asks {
            (self.receive.announced, self.receive.edge)
        } else {
            let due = self.receive.ack_due && self.receive.has_sack(tcp);
            // Only a controller sets `fixed_window`. Without one, that line of the cache is not read.
            let window = if self.flow.is_some() { within_buffer(tcp, self.fixed_window) } else { tcp.receive_buffer };
            let announced = self.receive.announce(tcp, window.0);
            self.receive.ack_due = due;
            announced
        };
        let flags = if asks { Flags::ACK } else { self.feedback() };
        for packet in &mut out.packets[first..] {
            packet.acknowledgement = ack as u32;
            packet.window = field(tcp, edge - ack) as u32;
            packet.flags = packet.flags.with(flags);
        }
        if self.receive.collects {
            for packet in &mut out.packets[first..] {
                if packet.payload > 0 || self.receive.options.hands_back() {
                    packet.flags = packet.flags.with(Flags::OPTIONS);
                    packet.option = self.receive.options.write_telemetry(None, &mut out.options);
                }
            }
        }
    }

    /// Whether a controller decides on each ACK.
    const fn asks_controller(&self) -> bool {
        self.flow.is_some() && self.fixed_window.is_none()
    }

    fn feedback(&mut self) -> Flags {
        let said = self.receive.echo.on_ack();
        Flags::ACK.with_if(said.ece, Flags::ECE).with_if(said.ein, Flags::EIN_ECHO)
    }

    /// Whether all that comes of a segment is that its payload is taken in and acknowledged, as of most data: it is the next of
    /// its stream, this end has nothing in flight and nothing to send, and nobody else is asked. Such a segment takes a shorter
    /// way (header prediction, Jacobson 1990).
    #[inline(always)]
    pub(crate) fn only_takes_in(&self, tcp: &Tcp, packet: &Packet) -> bool {
        packet.payload > 0
            && !packet.flags.has(Flags::SYN.with(Flags::FIN).with(Flags::OPTIONS))
            && self.state == State::Established
            && self.flow.is_none()
            && self.receive.is_next(packet)
            && self.send.rests(tcp, packet.acknowledgement)
    }

    /// Takes such a segment in. Returns the ACK that is due, if one is.
    #[inline(always)]
    pub(crate) fn take_in(&mut self, now: u64, tcp: &Tcp, packet: &Packet) -> Option<Packet> {
        self.send.edge = self.send.edge.max(self.send.una + u64::from(packet.window));
        self.receive.note_pause(now, tcp, self.send.rtt.rto());
        self.receive.on_next(now, tcp, packet);
        if !self.receive.ack_due {
            return None;
        }
        let (ack, edge) = self.receive.announce(tcp, tcp.receive_buffer.0);
        Some(self.ack(tcp, ack, edge, AckCause::Data))
    }

    /// Whether all that comes of a segment is that this end may send more: it is an ACK of data that this end goes on sending,
    /// and nothing else.
    #[inline(always)]
    pub(crate) fn only_lets_go_on(&self, packet: &Packet) -> bool {
        packet.payload == 0
            && !packet.flags.has(Flags::SYN.with(Flags::FIN).with(Flags::PSH).with(Flags::OPTIONS))
            && self.state == State::Established
            && self.flow.is_none()
            && !self.receive.ack_due
            && self.send.goes_on(packet.acknowledgement)
    }

    /// Takes [such a segment](Self::only_lets_go_on), and sends what the windows allow.
    #[inline(always)]
    pub(crate) fn go_on(&mut self, now: u64, tcp: &Tcp, packet: &Packet, out: &mut Outbox) {
        self.send.on_next_ack(now, tcp, packet, out);
        self.output(now, tcp, out);
    }

    /// A segment of the peer arrived. ACKs and data it calls for are left to
    /// [`output`](Self::output) and [`acknowledge`](Self::acknowledge).
    #[inline]
    pub(crate) fn on_segment(
        &mut self,
        now: u64,
        tcp: &Tcp,
        packet: &Packet,
        options: Options<'_>,
        out: &mut Outbox,
    ) -> Arrived {
        if self.state != State::Established || packet.flags.has(Flags::SYN) {
            return self.on_segment_around_established(now, tcp, packet, options, out);
        }
        self.on_established_segment(now, tcp, packet, options, out)
    }

    #[inline]
    fn on_established_segment(
        &mut self,
        now: u64,
        tcp: &Tcp,
        packet: &Packet,
        options: Options<'_>,
        out: &mut Outbox,
    ) -> Arrived {
        let first = out.packets.len();
        self.send.on_ack(now, tcp, packet, options, &self.template, out);
        if packet.flags.has(Flags::PSH) && packet.is_pure_ack() {
            self.send.retransmit_first(now, tcp, &self.template, out);
        }
        if out.packets.len() > first {
            self.piggyback(tcp, first, out);
        }
        let mut arrived = Arrived::default();
        if packet.payload > 0 || packet.flags.has(Flags::FIN) {
            if self.receive.must_flush(packet.marks()) {
                if self.asks_controller() {
                    // It decides when ACKs leave: the next one says what this one would have said.
                    let said = self.receive.echo.on_ack();
                    self.receive.echo.on_replaced(said);
                } else {
                    self.acknowledge(tcp, self.fixed_window, AckCause::Data, out);
                }
            }
            self.receive.note_pause(now, tcp, self.send.rtt.rto());
            arrived.data = Some(self.receive.on_data(now, tcp, packet));
            if let Some(carried) = options.telemetry.filter(|_| packet.payload > 0) {
                self.receive.options.hand_back(&carried.own);
            }
            if self.receive.fin_received && self.to_write == 0 && self.close_when_done && self.send.fin == Fin::Open {
                self.send.fin = Fin::Wanted;
            }
        }
        if self.send.fin == Fin::Acknowledged && self.receive.fin_received {
            self.state = State::Done;
            self.send.timeout_at = NEVER;
        }
        arrived
    }

    #[cold]
    fn on_segment_around_established(
        &mut self,
        now: u64,
        tcp: &Tcp,
        packet: &Packet,
        options: Options<'_>,
        out: &mut Outbox,
    ) -> Arrived {
        let mut arrived = Arrived::default();
        let syn = packet.flags.has(Flags::SYN);
        let ack = packet.flags.has(Flags::ACK);
        match self.state {
            State::Closed if syn && !ack => {
                self.state = State::SynReceived;
                self.send.edge = u64::from(packet.window);
                self.handshake_sent_at = now;
                arrived.opened = true;
                arrived.syn_ack_due = true;
            }
            State::SynReceived if syn && !ack => {
                self.handshake_repeats += 1;
                arrived.syn_ack_due = true;
            }
            State::SynReceived if ack => {
                self.state = State::Established;
                self.send.timeout_at = NEVER;
                self.handshake_done(now, tcp);
                return self.on_established_segment(now, tcp, packet, options, out);
            }
            State::SynSent if syn && ack => {
                self.state = State::Established;
                self.send.timeout_at = NEVER;
                self.send.edge = u64::from(packet.window);
                self.handshake_done(now, tcp);
                if self.flow.is_none() {
                    // The third part of the handshake leaves by itself, before any data.
                    self.acknowledge(tcp, None, AckCause::Data, out);
                } else {
                    self.receive.ack_due = true;
                }
            }
            State::Established if syn && ack => {
                // The last part of the handshake was lost.
                self.receive.ack_due = true;
            }
            // The ACK of what comes again was lost; data need not carry the FIN to be the last of its flight.
            State::Done if packet.payload > 0 || packet.flags.has(Flags::FIN) => self.receive.ack_due = true,
            State::Closed | State::SynSent | State::SynReceived | State::Established | State::Done => {}
        }
        arrived
    }

    /// The handshake measured a round trip; or part of it was lost.
    fn handshake_done(&mut self, now: u64, tcp: &Tcp) {
        let forgives = tcp.lost_syn == LostSyn::Linux;
        if self.handshake_repeats > u32::from(forgives) {
            let windows = self.send.sender.windows();
            self.send.sender.set_windows(Windows { cwnd: windows.cwnd.min(tcp.mss), ..windows });
        }
        // A timestamp says which SYN was answered.
        if self.handshake_repeats == 0 || forgives && tcp.timestamps {
            self.send.sample(Duration(now - self.handshake_sent_at), tcp);
        }
    }

    /// Sends what the windows allow; what leaves carries the ACK that was due.
    #[inline]
    pub(crate) fn output(&mut self, now: u64, tcp: &Tcp, out: &mut Outbox) {
        if self.state != State::Established {
            return;
        }
        let first = out.packets.len();
        self.send.output(now, tcp, &self.template, out);
        if out.packets.len() > first {
            self.receive.note_answer(now, tcp);
            self.piggyback(tcp, first, out);
        }
    }

    /// Sends an ACK (a SYN-ACK, if that is its cause) that announces `window`, and tells what it announced.
    #[inline]
    pub(crate) fn acknowledge(
        &mut self,
        tcp: &Tcp,
        window: Option<Bytes>,
        cause: AckCause,
        out: &mut Outbox,
    ) -> (Offset, Offset) {
        let window = within_buffer(tcp, window).0;
        let window = if cause == AckCause::SynAck { tcp.largest_syn_window(window) } else { window };
        let (ack, edge) = self.receive.announce(tcp, window);
        out.packets.push(self.ack(tcp, ack, edge, cause));
        let sack = self.receive.has_sack(tcp);
        if sack {
            self.add_sack(tcp, out);
        }
        if self.receive.options.hands_back() {
            self.add_telemetry(sack, out);
        }
        (Offset(ack), Offset(edge))
    }

    /// An ACK without options.
    #[inline]
    fn ack(&mut self, tcp: &Tcp, ack: u64, edge: u64, cause: AckCause) -> Packet {
        let flags = self.template.flags.with(self.feedback());
        let flags = match cause {
            AckCause::SynAck => flags.with(Flags::SYN),
            AckCause::Forced => flags.with(Flags::PSH),
            AckCause::Data => flags,
        };
        Packet {
            sequence: self.send.highest as u32,
            acknowledgement: ack as u32,
            window: (edge - ack) as u32,
            wire: tcp.header.0 as u16,
            flags,
            ..self.template
        }
    }

    /// Adds to the ACK just made what lies beyond the gap: two bytes of option, eight of each block, and
    /// two that align it (RFC 2018 section 3).
    #[cold]
    fn add_sack(&mut self, tcp: &Tcp, out: &mut Outbox) {
        let Some(packet) = out.packets.last_mut() else { return };
        let (option, blocks) = self.receive.options.write(&self.receive.beyond_gap, tcp.timestamps, &mut out.options);
        packet.flags = packet.flags.with(Flags::OPTIONS);
        packet.option = option;
        packet.wire = packet.wire.saturating_add(4 + 8 * u16::from(blocks));
    }

    /// Adds to the ACK just made the telemetry of the data that it acknowledges.
    #[cold]
    fn add_telemetry(&mut self, has_sack: bool, out: &mut Outbox) {
        let Some(packet) = out.packets.last_mut() else { return };
        let number = has_sack.then_some(packet.option);
        packet.option = self.receive.options.write_telemetry(number, &mut out.options);
        packet.flags = packet.flags.with(Flags::OPTIONS);
    }

    /// A SYN-ACK leaves: its timer starts.
    pub(crate) fn syn_ack_sent(&mut self, now: u64) {
        if self.state == State::SynReceived {
            self.handshake_sent_at = now;
            self.send.arm(now, self.send.rtt.rto());
        }
    }

    /// When a timer of this end expires.
    #[inline]
    pub(crate) fn deadline(&self) -> u64 {
        self.send.deadline(self.state == State::Established).min(self.receive.ack_at)
    }

    /// Its time has come. Returns whether a SYN-ACK has to go out again.
    pub(crate) fn on_timer(&mut self, now: u64, tcp: &Tcp, out: &mut Outbox) -> bool {
        if self.receive.ack_at <= now {
            self.receive.delay_is_over();
        }
        self.send.wake(now);
        if self.send.timeout_at > now {
            return false;
        }
        match self.state {
            State::Established => {
                let first = out.packets.len();
                self.send.on_timeout(now, tcp, &self.template, out);
                if out.packets.len() > first {
                    self.piggyback(tcp, first, out);
                }
                false
            }
            State::SynSent | State::SynReceived => {
                let message = self.send.outgoing.front().map(|span| span.id);
                let timer = Some(self.send.timer());
                out.signals.push(Signal { kind: EventKind::TimeoutControl, message, offset: 0, timer });
                self.handshake_repeats += 1;
                if self.state == State::SynReceived || self.handshake_repeats > tcp.syn_linear_timeouts {
                    self.send.rtt.back_off(tcp);
                }
                if self.state == State::SynSent {
                    self.send_syn(now, tcp, out);
                    false
                } else {
                    self.send.arm(now, self.send.rtt.rto());
                    true
                }
            }
            State::Closed | State::Done => {
                self.send.timeout_at = NEVER;
                false
            }
        }
    }
}

/// The window that a controller wants, if one does, as far as the receive buffer goes.
fn within_buffer(tcp: &Tcp, window: Option<Bytes>) -> Bytes {
    window.map_or(tcp.receive_buffer, |window| window.min(tcp.receive_buffer))
}
