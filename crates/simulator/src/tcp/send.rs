//! The sending half of a connection's end: what is in flight, what was lost, what may go.

use incast_protocols::sender::{Ack, MarkResponse, Restart, Sender, SenderView, Windows};
use incast_protocols::{Bytes, Duration, Offset, Time};
use incast_results::record::EventKind;
use incast_scenario::plan::{BackoffEnd, Ect, Reduction, SlowStartRestart, Tcp, WindowPerMessage};
use std::collections::VecDeque;

use super::prr::Prr;
use super::rtt::RttEstimator;
use super::sack::SackOption;
use super::scoreboard::Scoreboard;
use super::{MessageId, NEVER, Outbox, Signal, Span, unwrap};
use crate::packet::{Flags, Packet};

/// Whether this half has closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fin {
    /// More may be written.
    Open,
    /// A FIN follows the last byte.
    Wanted,
    /// It was acknowledged.
    Acknowledged,
}

/// How far the congestion window was used in the last window of data (RFC 7661 section 4.4, as Linux judges).
#[derive(Clone, Debug)]
struct Usage {
    /// The verdict.
    used: bool,
    /// It was all in flight.
    full: bool,
    /// The most bytes in flight.
    most: u64,
    /// Where the window of data ends in which this was observed.
    until: u64,
}

impl Default for Usage {
    fn default() -> Self {
        Self { used: true, full: false, most: 0, until: 0 }
    }
}

/// Sends a byte stream.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of RFC 5681 and 6582, not a state in disguise")]
pub(crate) struct SendHalf<S> {
    /// First offset not acknowledged (SND.UNA).
    pub(crate) una: u64,
    /// Next offset to send (SND.NXT); goes back to `una` after a timeout.
    pub(crate) next: u64,
    /// Highest offset ever sent, exclusive; counts the FIN.
    pub(crate) highest: u64,
    /// Where the written stream ends; `u64::MAX` while an endless message is being sent.
    pub(crate) limit: u64,
    /// Right edge of the peer's window.
    pub(crate) edge: u64,
    /// Where the message that `next` lies in ends.
    segment_limit: u64,
    pub(crate) sender: S,
    pub(crate) rtt: RttEstimator,
    /// When the retransmission timer expires.
    pub(crate) timeout_at: u64,
    /// The one segment that is being timed, if `timed_at` is not `NEVER`.
    timed_offset: u64,
    timed_at: u64,
    pub(super) duplicates: u32,
    pub(super) in_recovery: bool,
    pub(super) partial_ack_seen: bool,
    /// Recovery, or the sending again after a timeout, ends when this is acknowledged.
    pub(super) recover: u64,
    /// No other recovery begins before this is.
    pub(super) may_recover_from: u64,
    /// What the peer has beyond a gap.
    pub(super) board: Scoreboard,
    pub(super) prr: Prr,
    /// A mark has cut the window, and rate reduction lets it come down until this is passed.
    pub(super) reduced_until: Option<u64>,
    /// Bytes in flight that limited transmit sent.
    pub(super) limited_transmit: u64,
    usage: Usage,
    /// One past the start of the segment whose timer expired last.
    timed_out: u64,
    /// Data below this has been sent more than once.
    retransmitted_to: u64,
    /// Any ACK since the last transmission of new data.
    heard_since_send: bool,
    /// The window was reduced for whatever reason: the next new data says so (RFC 3168 section 6.1.2).
    pub(super) cwr_wanted: bool,
    pub(crate) fin: Fin,
    last_sent_at: u64,
    window_per_message: WindowPerMessage,
    /// Messages not wholly acknowledged, in stream order.
    pub(crate) outgoing: VecDeque<Span>,
    /// How many of them have begun.
    begun: usize,
    /// Where the first of them ends.
    front_end: u64,
}

impl<S: Sender> SendHalf<S> {
    pub(crate) fn new(sender: S, tcp: &Tcp, window_per_message: WindowPerMessage) -> Self {
        Self {
            una: 0,
            next: 0,
            highest: 0,
            limit: 0,
            edge: 0,
            segment_limit: 0,
            sender,
            rtt: RttEstimator::new(tcp),
            timeout_at: NEVER,
            timed_offset: 0,
            timed_at: NEVER,
            duplicates: 0,
            in_recovery: false,
            partial_ack_seen: false,
            recover: 0,
            may_recover_from: 0,
            board: Scoreboard::default(),
            prr: Prr::default(),
            reduced_until: None,
            limited_transmit: 0,
            usage: Usage::default(),
            timed_out: 0,
            retransmitted_to: 0,
            heard_since_send: false,
            cwr_wanted: false,
            fin: Fin::Open,
            last_sent_at: 0,
            window_per_message,
            outgoing: VecDeque::new(),
            begun: 0,
            front_end: 0,
        }
    }

    #[inline]
    pub(crate) fn view(&self, now: u64) -> SenderView {
        let end = self.front_end;
        SenderView {
            now: Time(now),
            una: Offset(self.una),
            nxt: Offset(self.highest),
            remaining: (end != u64::MAX).then(|| Bytes(end.saturating_sub(self.una))),
            srtt: self.rtt.smoothed(),
            advertised: Bytes(self.edge.saturating_sub(self.una)),
            limited_transmit: Bytes(self.limited_transmit),
            window_used: self.usage.used,
        }
    }

    /// Whether anything is sent and not acknowledged.
    #[inline]
    pub(crate) const fn outstanding(&self) -> bool {
        self.highest > self.una
    }

    fn message_at(&self, offset: u64) -> Option<MessageId> {
        self.outgoing.iter().find(|span| offset < span.end).map(|span| span.id)
    }

    pub(super) fn signal(&self, out: &mut Outbox, kind: EventKind) {
        out.signals.push(Signal { kind, message: self.message_at(self.una), offset: self.una });
    }

    /// The application hands over `size` bytes; `u64::MAX` for a stream without an end.
    pub(crate) fn write(&mut self, id: MessageId, facts: incast_protocols::Message) -> Span {
        let start = self.limit;
        let end = facts.size.map_or(u64::MAX, |size| start + size.0);
        let span = Span { id, start, end, facts, introduced: false };
        if self.outgoing.is_empty() {
            self.front_end = end;
        }
        self.outgoing.push_back(span);
        self.limit = end;
        span
    }

    /// Starts the retransmission timer over (RFC 6298 section 5.3), or stops it (5.2).
    #[inline]
    pub(super) fn restart_timer(&mut self, now: u64) {
        self.timeout_at = if self.outstanding() { now + self.rtt.rto().0 } else { NEVER };
    }

    /// Takes a round-trip time that was measured without a segment of this half, as the handshake does.
    pub(crate) fn sample(&mut self, rtt: Duration, tcp: &Tcp) {
        self.rtt.sample(rtt, tcp);
    }

    /// An ACK arrived. Retransmissions go to `out`; new data is for [`output`](Self::output).
    #[inline]
    pub(crate) fn on_ack(
        &mut self,
        now: u64,
        tcp: &Tcp,
        packet: &Packet,
        sack: &SackOption,
        template: &Packet,
        out: &mut Outbox,
    ) {
        let ack = unwrap(self.una, packet.acknowledgement);
        if ack > self.highest {
            return;
        }
        let edge = ack + u64::from(packet.window);
        let same_window = edge <= self.edge;
        self.edge = self.edge.max(edge);
        let told = if sack.blocks().is_empty() { 0 } else { self.learn_sacked(ack, sack) };
        let echoed = |acked| Ack {
            acked: Bytes(acked),
            ece: packet.flags.has(Flags::ECE),
            ein: packet.flags.has(Flags::EIN_ECHO),
            may_move_window: true,
        };
        if ack > self.una {
            self.heard_since_send = true;
            let acked = ack.min(self.limit) - self.una.min(self.limit);
            self.una = ack;
            self.next = self.next.max(ack);
            self.limited_transmit = 0;
            if self.timed_at != NEVER && ack > self.timed_offset {
                self.rtt.sample(Duration(now - self.timed_at), tcp);
                self.timed_at = NEVER;
            } else if tcp.backoff_end == BackoffEnd::Ack {
                self.rtt.end_back_off(tcp);
            }
            let known = if self.board.is_empty() { 0 } else { self.board.advance(ack) };
            let ack = echoed(acked);
            let delivered = (acked + told).saturating_sub(known);
            if self.reduced_until.is_some_and(|end| self.una > end) {
                self.reduced_until = None;
            }
            if self.in_recovery {
                self.on_ack_in_recovery(now, tcp, &ack, delivered, template, out);
            } else {
                self.duplicates = 0;
                // A FIN is no data that a congestion window counts.
                if acked > 0 {
                    let response = self.sender.on_ack(&self.view(now), &ack);
                    self.note(tcp, response, acked, out);
                }
                if self.reduced_until.is_some() {
                    self.reduce(tcp, delivered, true);
                }
                self.restart_timer(now);
                if told > 0 {
                    // RFC 6675 section 5: what tells of new data beyond a gap is a duplicate, whatever else it says.
                    self.on_duplicate(now, tcp, told, template, out);
                }
            }
            if self.una > self.limit {
                self.fin = Fin::Acknowledged;
            }
            if self.una >= self.front_end {
                self.forget_acknowledged();
            }
        } else if ack == self.una && self.outstanding() {
            let duplicate = if tcp.sack { told > 0 } else { same_window && packet.is_pure_ack() };
            if duplicate {
                self.heard_since_send = true;
                let response = self.sender.on_duplicate_ack(&self.view(now), &echoed(0));
                self.note(tcp, response, 0, out);
                self.on_duplicate(now, tcp, told, template, out);
            }
        }
    }

    #[cold]
    fn forget_acknowledged(&mut self) {
        while self.outgoing.front().is_some_and(|span| span.end <= self.una) {
            self.outgoing.pop_front();
            self.begun = self.begun.saturating_sub(1);
        }
        self.front_end = self.outgoing.front().map_or(self.una, |span| span.end);
    }

    #[inline]
    pub(super) fn note(&mut self, tcp: &Tcp, response: MarkResponse, acked: u64, out: &mut Outbox) {
        if response == MarkResponse::Reduced {
            self.cwr_wanted = true;
            self.signal(out, EventKind::MarkReduction);
            if tcp.reduction == Reduction::Proportional && !self.in_recovery {
                self.prr.begin(self.highest - self.una + acked);
                self.reduced_until = Some(self.highest);
            }
        }
    }

    pub(super) fn segment(tcp: &Tcp, template: &Packet, offset: u64, payload: u64) -> Packet {
        Packet { sequence: offset as u32, payload: payload as u16, wire: (payload + tcp.header.0) as u16, ..*template }
    }

    /// Sends `[offset, offset + payload)`, new or again, and says what follows it (behind a FIN, if it has one).
    #[inline]
    pub(super) fn emit(
        &mut self,
        now: u64,
        tcp: &Tcp,
        template: &Packet,
        offset: u64,
        payload: u64,
        out: &mut Outbox,
    ) -> u64 {
        let end = offset + payload;
        let again = offset < self.highest;
        let closes = self.fin == Fin::Wanted && end == self.limit;
        let ect = self.sender.ecn_capable() && (!again || tcp.ect == Ect::All);
        let mut flags = template.flags.with_if(ect, Flags::ECT).with_if(closes, Flags::FIN);
        if again {
            self.retransmitted_to = self.retransmitted_to.max(end);
            out.signals.push(Signal { kind: EventKind::Retransmission, message: self.message_at(offset), offset });
            if self.outgoing.iter().any(|span| span.start == offset) {
                flags = flags.with(Flags::MESSAGE);
            }
            if tcp.timestamps {
                self.time(now, offset);
            }
        } else {
            if self.outgoing.get(self.begun.wrapping_sub(1)).is_some_and(|span| span.start == offset) {
                flags = flags.with(Flags::MESSAGE);
            }
            flags = flags.with_if(self.cwr_wanted, Flags::CWR);
            self.cwr_wanted = false;
            self.heard_since_send = false;
            if self.timed_at == NEVER {
                self.time(now, offset);
            }
        }
        let after = end + u64::from(closes);
        self.highest = self.highest.max(after);
        self.last_sent_at = now;
        out.packets.push(Packet { flags, ..Self::segment(tcp, template, offset, payload) });
        after
    }

    /// Times the segment at `offset`.
    #[inline]
    const fn time(&mut self, now: u64, offset: u64) {
        self.timed_offset = offset;
        self.timed_at = now;
    }

    /// Karn's rule: what is sent again measures no round trip.
    pub(super) const fn stop_timing(&mut self) {
        self.timed_at = NEVER;
    }

    /// Enters the message that `next` lies in, for the first time or again after going back.
    #[cold]
    fn enter_message(&mut self, now: u64, tcp: &Tcp) {
        let Some(index) = self.outgoing.iter().position(|span| self.next < span.end) else { return };
        let span = self.outgoing[index];
        self.segment_limit = span.end;
        if index >= self.begun {
            self.begun = index + 1;
            // While data of the message before is in flight its losses still count.
            if span.start > 0 && !self.outstanding() {
                self.restart_window(now, tcp);
            }
            self.sender.on_message(&self.view(now), &span.facts);
        }
    }

    /// Nothing is in flight and a further message begins.
    fn restart_window(&mut self, now: u64, tcp: &Tcp) {
        let (idle, rto) = (now - self.last_sent_at, self.rtt.rto().0);
        let rule = match self.window_per_message {
            WindowPerMessage::Fresh => return self.sender.on_restart(Restart::Fresh),
            WindowPerMessage::RestartAfterIdle if tcp.slow_start_restart == SlowStartRestart::Off => {
                SlowStartRestart::Rfc5681
            }
            WindowPerMessage::Kept | WindowPerMessage::RestartAfterIdle => tcp.slow_start_restart,
        };
        match rule {
            _ if idle <= rto => {}
            SlowStartRestart::Off => {}
            SlowStartRestart::Rfc5681 => self.sender.on_restart(Restart::Idle),
            SlowStartRestart::Decay => {
                let rtos = u32::try_from((idle - 1) / rto).unwrap_or(u32::MAX);
                self.sender.on_restart(Restart::Decay { rtos });
            }
        }
    }

    /// Bytes that may be in flight beyond the window, since so many have left the network: limited
    /// transmit, or SACKed data while everything else is sent again after a timeout.
    #[cold]
    fn credit(&self, tcp: &Tcp) -> u64 {
        if self.reduced_until.is_some() {
            // Rate reduction counts the pipe.
            return 0;
        }
        let again = self.una < self.recover;
        if tcp.sack {
            let counts = tcp.limited_transmit || again;
            return if counts { self.board.sacked_below(self.next) } else { 0 };
        }
        if tcp.limited_transmit && !again && !self.in_recovery {
            return tcp.mss.times(u64::from(self.duplicates.min(2))).0;
        }
        0
    }

    /// Sends what the windows allow.
    #[inline]
    pub(crate) fn output(&mut self, now: u64, tcp: &Tcp, template: &Packet, out: &mut Outbox) {
        if self.in_recovery && tcp.sack {
            self.output_in_recovery(now, tcp, template, out);
        } else {
            self.output_by_window(now, tcp, template, out);
        }
        if self.fin == Fin::Wanted && self.next == self.limit {
            self.next = self.limit + 1;
            self.highest = self.highest.max(self.next);
            out.packets
                .push(Packet { flags: template.flags.with(Flags::FIN), ..Self::segment(tcp, template, self.limit, 0) });
        }
        if self.timeout_at == NEVER && self.outstanding() {
            self.timeout_at = now + self.rtt.rto().0;
        }
    }

    /// Payload of the segment at `next`, as far as its message goes.
    #[inline]
    pub(super) fn next_segment(&mut self, now: u64, tcp: &Tcp) -> u64 {
        if self.next >= self.segment_limit {
            self.enter_message(now, tcp);
        }
        tcp.mss.0.min(self.segment_limit - self.next)
    }

    #[inline]
    fn output_by_window(&mut self, now: u64, tcp: &Tcp, template: &Packet, out: &mut Outbox) {
        let (before, mut full) = (self.next, false);
        while self.next < self.limit {
            let mut most = tcp.mss.0;
            if self.next < self.highest && !self.board.is_empty() {
                // After a timeout: what the peer has is not sent again.
                self.next = self.board.skip(self.next);
                if self.next >= self.limit {
                    break;
                }
                most = self.board.next_sacked(self.next).map_or(most, |sacked| most.min(sacked - self.next));
            }
            let mut payload = self.next_segment(now, tcp).min(most);
            let window = self.window_end(now);
            let plain = self.duplicates == 0 && self.board.is_empty();
            let credit = if plain { 0 } else { self.credit(tcp) };
            let allowed = if credit == 0 { window } else { window.saturating_add(credit).min(self.edge) };
            if self.next + payload > allowed {
                full = allowed < self.edge;
                // Nothing smaller than a segment leaves, unless the peer's window has no room for one
                // and nothing else would ever move it (RFC 1122 section 4.2.3.4).
                if self.next != self.una {
                    break;
                }
                payload = allowed - self.una;
                if payload == 0 {
                    // Zero window: the timer will probe it.
                    if self.timeout_at == NEVER {
                        self.timeout_at = now + self.rtt.rto().0;
                    }
                    break;
                }
            }
            if self.next + payload > window && self.next >= self.recover {
                self.limited_transmit += payload;
            }
            if self.reduced_until.is_some() {
                self.prr.on_sent(payload);
            }
            self.next = self.emit(now, tcp, template, self.next, payload, out);
        }
        if tcp.rules.validate_window {
            self.judge_usage(tcp, self.next > before, full);
        }
    }

    /// How far the windows let go; while a mark's cut is spread over a round trip, rate reduction.
    #[inline]
    fn window_end(&self, now: u64) -> u64 {
        let view = self.view(now);
        let window = self.sender.send_window(&view);
        if self.reduced_until.is_some() && !self.is_held_back(&view, window) {
            return (self.next + self.prr.budget()).min(self.edge);
        }
        self.una.saturating_add(window.0)
    }

    /// A sender that lets less go than its congestion window has its reasons, which no reduction overrules.
    pub(super) fn is_held_back(&self, view: &SenderView, window: Bytes) -> bool {
        window < self.sender.windows().cwnd.min(view.advertised)
    }

    /// As Linux judges: the window counts as used if it was all in flight, in slow start if half of it was.
    fn judge_usage(&mut self, tcp: &Tcp, sent: bool, full: bool) {
        let flight = self.next - self.una;
        let Windows { cwnd, ssthresh } = self.sender.windows();
        let full = full || flight + tcp.mss.0 > cwnd.0;
        if sent || full {
            let over = self.una >= self.usage.until;
            if over || full || (!self.usage.full && flight > self.usage.most) {
                self.usage.full = full;
                self.usage.most = flight;
                self.usage.until = self.highest;
            }
        }
        self.usage.used = self.usage.full || (cwnd < ssthresh && cwnd.0 < 2 * self.usage.most);
    }

    /// The retransmission timer expired (RFC 6298 section 5.4 to 5.7); data goes out by [`output`](Self::output).
    #[cold]
    pub(crate) fn on_timeout(&mut self, now: u64, tcp: &Tcp, template: &Packet, out: &mut Outbox) {
        self.timeout_at = NEVER;
        self.stop_timing();
        self.rtt.back_off(tcp);
        if !self.outstanding() {
            if self.next < self.limit {
                // A byte beyond the closed window, so that its ACK tells the window again.
                self.next = self.emit(now, tcp, template, self.next, 1, out);
                self.timeout_at = now + self.rtt.rto().0;
            }
            return;
        }
        if self.edge <= self.una && self.una < self.limit {
            // The probe of a closed window, or its answer, was lost: no sign of congestion (RFC 9293 section 3.8.6.1).
            self.retransmit_first(now, tcp, template, out);
            self.timeout_at = now + self.rtt.rto().0;
            return;
        }
        let kind = if self.una >= self.limit {
            EventKind::TimeoutControl
        } else if self.una < self.retransmitted_to {
            EventKind::TimeoutLostRetransmission
        } else if self.heard_since_send {
            EventKind::TimeoutTail
        } else {
            EventKind::TimeoutFullWindow
        };
        self.signal(out, kind);
        let again = self.timed_out == self.una + 1;
        self.timed_out = self.una + 1;
        self.duplicates = 0;
        self.in_recovery = false;
        self.recover = self.highest;
        self.may_recover_from = self.highest + u64::from(!tcp.sack);
        self.limited_transmit = 0;
        self.reduced_until = None;
        self.board.forget_retransmissions();
        self.sender.on_timeout(&self.view(now), again);
        self.cwr_wanted = self.sender.ecn_capable();
        self.next = self.una;
        self.segment_limit = 0;
    }
}
