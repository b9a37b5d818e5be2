//! The sending half of a connection's end: what is in flight, and what ACKs and the timer do to it.

use incast_plan::{BackoffEnd, Reduction, Tcp, WindowPerMessage};
use incast_protocols::sender::{Ack, MarkResponse, Sender, SenderView};
use incast_protocols::{Bytes, Duration, Message, Offset, Time};
use incast_record::{EventKind, Timer};
use std::collections::VecDeque;

use super::clock::Clock;
use super::output::Usage;
use super::prr::Prr;
use super::rtt::RttEstimator;
use super::sack::Options;
use super::scoreboard::Scoreboard;
use super::timing::Timing;
use super::{MessageId, NEVER, Outbox, Signal, Span, queue, unwrap};
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

/// Sends a byte stream. What most packets need comes first, in few lines of the cache.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct SendHalf<S> {
    /// First offset not acknowledged (SND.UNA).
    pub(crate) una: u64,
    /// Highest offset ever sent, exclusive; counts the FIN.
    pub(crate) highest: u64,
    /// Next offset to send (SND.NXT); goes back to `una` after a timeout.
    pub(crate) next: u64,
    /// Where the written stream ends; `u64::MAX` while an endless message is being sent.
    pub(crate) limit: u64,
    /// Right edge of the peer's window.
    pub(crate) edge: u64,
    /// When the retransmission timer expires.
    pub(crate) timeout_at: u64,
    /// For a sender or a TCP that works with time, and a sender that has had a window below a segment. All others pay for
    /// one look at it.
    pub(super) timing: Option<Box<Timing>>,
    pub(super) duplicates: u32,
    /// How many messages of `outgoing` have begun.
    pub(super) begun: u32,
    pub(super) in_recovery: bool,
    pub(crate) fin: Fin,
    /// The window was reduced for whatever reason: the next new data says so (RFC 3168 section 6.1.2).
    pub(super) cwr_wanted: bool,
    /// Any ACK since the last transmission of new data.
    pub(super) heard_since_send: bool,
    /// The verdict on [`usage`](Self::usage).
    pub(super) window_used: bool,
    /// The first segment in flight is lost and waits for rate reduction to let it leave again.
    pub(super) first_waits: bool,
    pub(super) partial_ack_seen: bool,
    pub(super) window_per_message: WindowPerMessage,
    /// Where the first message ends that is not wholly acknowledged.
    front_end: u64,
    /// Where the message that `next` lies in ends.
    pub(super) segment_limit: u64,
    /// Where the message began that has begun last; `u64::MAX` before the first.
    pub(super) begun_at: u64,
    pub(super) timed_at: u64,
    /// The one segment that is being timed, if `timed_at` is not `NEVER`.
    pub(super) timed_offset: u64,
    /// Since when the retransmission timer runs.
    pub(super) armed_at: u64,
    /// Bytes in flight that limited transmit sent.
    pub(super) limited_transmit: u64,
    pub(super) last_sent_at: u64,
    /// `front_end` as far as the application has told it; `u64::MAX` while it does not know.
    known_end: u64,
    pub(crate) rtt: RttEstimator,
    /// A mark has cut the window, and rate reduction lets it come down until this is passed.
    pub(super) reduced_until: Option<u64>,
    pub(crate) clock: Clock,
    /// What the peer has beyond a gap.
    pub(super) board: Scoreboard,
    /// Messages not wholly acknowledged, in stream order.
    pub(crate) outgoing: VecDeque<Span>,
    /// Recovery, or the sending again after a timeout, ends when this is acknowledged.
    pub(super) recover: u64,
    pub(crate) sender: S,
    /// No other recovery begins before this is.
    pub(super) may_recover_from: u64,
    pub(super) prr: Prr,
    pub(super) usage: Usage,
    /// One past the start of the segment whose timer expired last.
    timed_out: u64,
    /// Data below this has been sent more than once.
    pub(super) retransmitted_to: u64,
}

impl<S: Sender> SendHalf<S> {
    pub(crate) fn new(sender: S, tcp: &Tcp, window_per_message: WindowPerMessage) -> Self {
        let wanted = sender.wants_timing();
        let timing = (wanted || Timing::is_needed(tcp)).then(|| Box::new(Timing::new(wanted, tcp)));
        Self {
            una: 0,
            next: 0,
            highest: 0,
            limit: 0,
            edge: 0,
            segment_limit: 0,
            sender,
            rtt: RttEstimator::new(tcp),
            clock: Clock::new(tcp, Duration::ZERO),
            timeout_at: NEVER,
            armed_at: 0,
            timing,
            timed_offset: 0,
            timed_at: NEVER,
            duplicates: 0,
            in_recovery: false,
            first_waits: false,
            partial_ack_seen: false,
            recover: 0,
            may_recover_from: 0,
            board: Scoreboard::default(),
            prr: Prr::default(),
            reduced_until: None,
            limited_transmit: 0,
            usage: Usage::default(),
            window_used: true,
            begun_at: u64::MAX,
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
            known_end: 0,
        }
    }

    #[inline]
    pub(crate) fn view(&self, now: u64) -> SenderView {
        let end = self.known_end;
        SenderView {
            now: Time(now),
            una: Offset(self.una),
            nxt: Offset(self.highest),
            remaining: (end != u64::MAX).then(|| Bytes(end.saturating_sub(self.una))),
            srtt: self.rtt.smoothed(),
            advertised: Bytes(self.edge.saturating_sub(self.una)),
            limited_transmit: Bytes(self.limited_transmit),
            window_used: self.window_used,
        }
    }

    /// Whether nothing is in flight, nothing is to be sent, and an ACK up to `acknowledgement` changes nothing of that.
    #[inline]
    pub(super) const fn rests(&self, tcp: &Tcp, acknowledgement: u32) -> bool {
        self.una as u32 == acknowledgement
            && self.highest == self.una
            && self.next >= self.limit
            && !self.in_recovery
            && self.timing.is_none()
            && !tcp.rules.validate_window
            && !matches!(self.fin, Fin::Wanted)
    }

    /// Reads what most ACKs need, but for the first line.
    #[inline]
    pub(super) fn touch(&self) -> u64 {
        self.front_end ^ self.rtt.rto().0 ^ u64::from(self.board.is_empty())
    }

    /// Whether anything is sent and not acknowledged.
    #[inline]
    pub(crate) const fn outstanding(&self) -> bool {
        self.highest > self.una
    }

    pub(super) fn message_at(&self, offset: u64) -> Option<MessageId> {
        self.outgoing.iter().find(|span| offset < span.end).map(|span| span.id)
    }

    pub(super) fn signal(&self, out: &mut Outbox, kind: EventKind) {
        self.signal_timer(out, kind, None);
    }

    /// The same with the timer whose end it is.
    pub(super) fn signal_timer(&self, out: &mut Outbox, kind: EventKind, timer: Option<Timer>) {
        out.signals.push(Signal { kind, message: self.message_at(self.una), offset: self.una, timer });
    }

    /// The timer as it is, for the results.
    pub(crate) fn timer(&self) -> Timer {
        let duplicate_acks = self.timing.as_ref().map_or(0, |timing| timing.flight.told() as u32);
        Timer {
            armed: Time(self.armed_at),
            rto: self.rtt.rto(),
            duplicate_acks: self.duplicates.max(duplicate_acks),
            flight: Bytes(self.highest - self.una),
        }
    }

    /// Sets the timer to expire in `wait`.
    #[inline]
    pub(crate) fn arm(&mut self, now: u64, wait: Duration) {
        self.armed_at = now;
        self.timeout_at = self.clock.after(now, wait);
    }

    /// The application hands over `size` bytes; without it, a stream that has no end. What it tells of the message need not
    /// have the size.
    pub(crate) fn write(&mut self, id: MessageId, size: Option<Bytes>, facts: Message) -> Span {
        let start = self.limit;
        let end = size.map_or(u64::MAX, |size| start + size.0);
        let span = Span { id, start, end, facts, introduced: false };
        queue(&mut self.outgoing, span);
        self.note_front();
        self.limit = end;
        span
    }

    /// Starts the retransmission timer over (RFC 6298 section 5.3), or stops it (5.2).
    #[inline]
    pub(super) fn restart_timer(&mut self, now: u64, tcp: &Tcp) {
        if self.timing.is_some() {
            return self.restart_timer_or_probe(now, tcp);
        }
        if self.outstanding() {
            self.arm(now, self.rtt.rto());
        } else {
            self.timeout_at = NEVER;
        }
    }

    /// Takes a round-trip time that was measured without a segment of this half, as the handshake does.
    pub(crate) fn sample(&mut self, rtt: Duration, tcp: &Tcp) {
        self.rtt.sample(rtt, self.una, self.highest, tcp);
        if let Some(timing) = &mut self.timing {
            timing.rack.measured(rtt.0);
        }
    }

    /// An ACK arrived. Retransmissions go to `out`; new data is for [`output`](Self::output).
    #[inline]
    pub(crate) fn on_ack(
        &mut self,
        now: u64,
        tcp: &Tcp,
        packet: &Packet,
        options: Options<'_>,
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
        let sack = options.sack;
        let told = if sack.blocks().is_empty() { 0 } else { self.learn_sacked(now, tcp, ack, sack) };
        let rtt = if self.timing.is_none() { None } else { self.note_arrived(now, tcp, ack) };
        let echoed = |acked, delivered| Ack {
            acked: Bytes(acked),
            delivered: Bytes(delivered),
            rtt,
            ece: packet.flags.has(Flags::ECE),
            ein: packet.flags.has(Flags::EIN_ECHO),
            telemetry: options.telemetry.map(|carried| &carried.echo).filter(|echo| !echo.hops().is_empty()),
            may_move_window: true,
        };
        if ack > self.una {
            let acked = self.advance(now, tcp, ack);
            let known = if self.board.is_empty() { 0 } else { self.board.advance(ack) };
            let delivered = (acked + told).saturating_sub(known);
            let ack = echoed(acked, delivered);
            if self.reduced_until.is_some_and(|end| self.una > end) {
                self.reduced_until = None;
            }
            if self.in_recovery {
                self.on_ack_in_recovery(now, tcp, &ack, delivered, template, out);
            } else {
                self.duplicates = 0;
                let by_rack = self.uses_rack(tcp);
                let repaired = self.answers_probe(tcp, self.una, true);
                if repaired {
                    self.reduce_for_probe(now, &ack);
                }
                if by_rack {
                    self.restart_timer(now, tcp);
                    if self.is_dubious(tcp) {
                        self.look_for_losses(now, tcp, told, delivered, template, out);
                    }
                } else if self.has_doubt() {
                    self.resolve_doubt_by_duplicates(tcp, told > 0);
                }
                // A congestion window does not count a FIN as data. An ACK that begins a recovery does not grow it.
                if !repaired && acked > 0 {
                    let response =
                        self.sender.on_ack(&self.view(now), &Ack { may_move_window: !self.in_recovery, ..ack });
                    self.note(tcp, response, acked, out);
                }
                if self.reduced_until.is_some() {
                    self.reduce(tcp, delivered, true);
                }
                if !by_rack {
                    if self.has_doubt() {
                        self.ask_by_duplicates(now, tcp, template, out);
                    }
                    self.restart_timer(now, tcp);
                    if told > 0 {
                        // RFC 6675 section 5: what tells of new data beyond a gap is a duplicate, whatever else it says.
                        self.on_duplicate(now, tcp, told, template, out);
                    }
                }
            }
            if self.una > self.limit {
                self.fin = Fin::Acknowledged;
            }
            if self.una >= self.front_end {
                self.forget_acknowledged();
            }
        } else if ack == self.una && self.outstanding() {
            self.answers_probe(tcp, ack, told > 0 || !packet.is_pure_ack());
            let duplicate = if tcp.sack { told > 0 } else { same_window && packet.is_pure_ack() };
            if duplicate {
                self.heard_since_send = true;
                let response = self.sender.on_duplicate_ack(&self.view(now), &echoed(0, told));
                self.note(tcp, response, 0, out);
                self.on_duplicate(now, tcp, told, template, out);
            }
        }
    }

    /// Data up to `ack` is acknowledged for the first time. Returns how much of it is payload.
    #[inline]
    fn advance(&mut self, now: u64, tcp: &Tcp, ack: u64) -> u64 {
        let acked = ack.min(self.limit) - self.una.min(self.limit);
        self.heard_since_send = true;
        self.una = ack;
        self.next = self.next.max(ack);
        self.limited_transmit = 0;
        if self.timed_at != NEVER && ack > self.timed_offset {
            self.rtt.sample(Duration(now - self.timed_at), ack, self.highest, tcp);
            self.timed_at = NEVER;
        } else if tcp.backoff_end == BackoffEnd::Ack {
            self.rtt.end_back_off(tcp);
        }
        acked
    }

    /// Whether an ACK acknowledges new data of a message that goes on, and nothing is out of the ordinary.
    #[inline]
    pub(super) fn goes_on(&self, acknowledgement: u32) -> bool {
        let ack = unwrap(self.una, acknowledgement);
        self.una < ack
            && ack < self.front_end
            && ack <= self.highest
            && !self.in_recovery
            && self.duplicates == 0
            && self.timing.is_none()
            && self.board.is_empty()
            && self.reduced_until.is_none()
    }

    /// Takes [such an ACK](Self::goes_on): what [`on_ack`](Self::on_ack) does of which something can come.
    #[inline]
    pub(super) fn on_next_ack(&mut self, now: u64, tcp: &Tcp, packet: &Packet, out: &mut Outbox) {
        let ack = unwrap(self.una, packet.acknowledgement);
        self.edge = self.edge.max(ack + u64::from(packet.window));
        let acked = self.advance(now, tcp, ack);
        let told = Ack {
            acked: Bytes(acked),
            delivered: Bytes(acked),
            rtt: None,
            ece: packet.flags.has(Flags::ECE),
            ein: packet.flags.has(Flags::EIN_ECHO),
            telemetry: None,
            may_move_window: true,
        };
        let response = self.sender.on_ack(&self.view(now), &told);
        self.note(tcp, response, acked, out);
        if self.reduced_until.is_some() {
            self.reduce(tcp, acked, true);
        }
        self.restart_timer(now, tcp);
    }

    /// When a timer of this half expires; the sender's own only while the connection is `open`.
    #[inline]
    pub(crate) fn deadline(&self, open: bool) -> u64 {
        match &self.timing {
            None => self.timeout_at,
            Some(timing) => self.deadline_with(timing, open),
        }
    }

    #[cold]
    fn deadline_with(&self, timing: &Timing, open: bool) -> u64 {
        let timer = if open && timing.wanted { self.sender.next_timer() } else { None };
        self.timeout_at.min(timing.send_at).min(timer.map_or(NEVER, |timer| timer.0))
    }

    /// What is held back may leave, or the sender's own time has come: what that lets go leaves by
    /// [`output`](Self::output).
    pub(crate) fn wake(&mut self, now: u64) {
        let Some(timing) = &mut self.timing else { return };
        if timing.send_at <= now {
            timing.send_at = NEVER;
        }
        if timing.wanted && self.sender.next_timer().is_some_and(|timer| timer.0 <= now) {
            self.sender.on_timer(&self.view(now));
        }
    }

    #[cold]
    fn forget_acknowledged(&mut self) {
        while self.outgoing.front().is_some_and(|span| span.end <= self.una) {
            self.outgoing.pop_front();
            self.begun = self.begun.saturating_sub(1);
        }
        self.note_front();
    }

    fn note_front(&mut self) {
        let front = self.outgoing.front();
        self.front_end = front.map_or(self.una, |span| span.end);
        self.known_end = if front.is_some_and(|span| span.facts.size.is_none()) { u64::MAX } else { self.front_end };
    }

    /// The application has learnt what it knew nothing of when it handed the message over.
    pub(crate) fn learn(&mut self, now: u64, id: MessageId, facts: Message) {
        let Some(index) = self.outgoing.iter().position(|span| span.id == id) else { return };
        self.outgoing[index].facts = facts;
        self.note_front();
        // What a sender was told of a later message since then stays.
        if index as u32 + 1 == self.begun {
            self.sender.on_message(&self.view(now), &facts);
        }
    }

    #[inline]
    pub(super) fn note(&mut self, tcp: &Tcp, response: MarkResponse, acked: u64, out: &mut Outbox) {
        if response == MarkResponse::Reduced {
            self.cwr_wanted = true;
            self.signal(out, EventKind::MarkReduction);
            if tcp.reduction == Reduction::Proportional && !self.in_recovery {
                self.begin_reduction(tcp, self.highest - self.una + acked);
                self.reduced_until = Some(self.highest);
            }
        }
    }

    /// The retransmission timer expired (RFC 6298 section 5.4 to 5.7); data goes out by [`output`](Self::output).
    #[cold]
    pub(crate) fn on_timeout(&mut self, now: u64, tcp: &Tcp, template: &Packet, out: &mut Outbox) {
        if self.timing.is_some() && self.on_other_timer(now, tcp, template, out) {
            return;
        }
        let timer = self.timer();
        self.timeout_at = NEVER;
        self.stop_timing();
        self.rtt.back_off(tcp);
        if !self.outstanding() {
            if self.next < self.limit {
                // What the window has room for, but at least a byte, so that its ACK tells the window again.
                let payload = self.next_segment(now, tcp).min(self.edge.saturating_sub(self.next)).max(1);
                self.next = self.emit(now, tcp, template, self.next, payload, out);
                self.arm(now, self.rtt.rto());
            }
            return;
        }
        if self.edge <= self.una && self.una < self.limit {
            // The probe of a closed window, or its answer, was lost: no sign of congestion (RFC 9293 section 3.8.6.1).
            self.retransmit_first(now, tcp, template, out);
            self.arm(now, self.rtt.rto());
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
        self.signal_timer(out, kind, Some(timer));
        let again = self.timed_out == self.una + 1;
        self.timed_out = self.una + 1;
        self.duplicates = 0;
        let repairs = self.in_recovery || self.repairs_timeout();
        self.begin_doubt(self.in_recovery || again);
        self.in_recovery = false;
        self.first_waits = false;
        self.recover = self.highest;
        self.may_recover_from = self.highest + u64::from(!tcp.sack);
        self.limited_transmit = 0;
        self.reduced_until = None;
        self.board.forget_retransmissions();
        self.sender.on_timeout(&self.view(now), again);
        self.cwr_wanted = self.sender.ecn_capable();
        if tcp.frto
            && (again || !repairs)
            && let Some(timing) = &mut self.timing
        {
            timing.doubt.ask();
        }
        if self.uses_rack(tcp) {
            return self.repair_by_rack(now, tcp, template, out);
        }
        self.next = self.una;
        self.segment_limit = 0;
    }
}
