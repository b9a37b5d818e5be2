//! The receiving half of a connection's end.

use incast_plan::{LARGEST_PACKET, Tcp, WindowScaling};
use incast_protocols::echo::Echo;
use incast_protocols::switch::Marks;
use incast_protocols::{Bytes, Duration};
use std::collections::VecDeque;

use super::clock::Clock;
use super::ranges::Ranges;
use super::sack::OptionsWriter;
use super::{NEVER, Span, unwrap};
use crate::packet::{Flags, Packet};

/// Reassembles a byte stream and decides when an ACK is due. What most packets need comes first, in few lines of the cache.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct ReceiveHalf<E> {
    /// Next offset expected (RCV.NXT); one past the end once the FIN is in.
    pub(crate) next: u64,
    /// Where the current message ends; or, between messages, where the next byte would end up.
    message_end: u64,
    /// Right edge announced so far.
    pub(crate) edge: u64,
    /// Acknowledgement announced last.
    pub(crate) announced: u64,
    /// Highest offset seen, exclusive.
    pub(crate) highest: u64,
    /// When a delayed ACK is due.
    pub(crate) ack_at: u64,
    /// Segments since the last ACK.
    unacknowledged: u32,
    /// Segments that will be acknowledged at once although ACKs are delayed.
    quick: u32,
    pub(crate) echo: E,
    /// An ACK is due at once.
    pub(crate) ack_due: bool,
    /// An ACK is held by the NIC's controller.
    pub(crate) held: bool,
    /// The ACK waits only for more segments that can be joined to those it answers.
    joining: bool,
    /// This end answers what it receives, so its ACKs can ride on answers: none leaves at once for being quick.
    answers: bool,
    pub(crate) fin_received: bool,
    /// Data segments collect telemetry.
    pub(crate) collects: bool,
    /// By how much the window still grows.
    growth: u64,
    /// Where the FIN is; `u64::MAX` before it has come.
    fin_at: u64,
    /// The most that the application lets be announced, if it does.
    pub(crate) limit: Option<Bytes>,
    /// Data that arrived beyond a gap.
    pub(crate) beyond_gap: Ranges,
    pub(crate) options: OptionsWriter,
    pub(crate) clock: Clock,
    /// When data arrived last, where that matters; `NEVER` before the first.
    last_data_at: u64,
    /// When the first of the segments arrived that are joined now, and where it began.
    joined_since: u64,
    joined_from: u64,
    /// Messages whose first segment the peer will send or has sent. Their facts travel as options of
    /// that segment: nobody looks at an entry before it has arrived.
    pub(crate) incoming: VecDeque<Span>,
}

/// What a data segment brought.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Received {
    pub(crate) start: u64,
    pub(crate) new: u64,
    pub(crate) delivered: u64,
    pub(crate) out_of_order: bool,
}

impl<E: Echo> ReceiveHalf<E> {
    pub(crate) fn new(echo: E, tcp: &Tcp, wants_telemetry: bool) -> Self {
        Self {
            next: 0,
            edge: 0,
            announced: 0,
            highest: 0,
            beyond_gap: Ranges::default(),
            options: OptionsWriter::new(wants_telemetry),
            echo,
            limit: None,
            clock: Clock::new(tcp, Duration::ZERO),
            unacknowledged: 0,
            quick: tcp.delayed_ack.map_or(0, |delayed| delayed.quick),
            growth: tcp.delayed_ack.map_or(0, |delayed| delayed.growth.0),
            last_data_at: NEVER,
            answers: false,
            ack_due: false,
            held: false,
            ack_at: NEVER,
            joining: false,
            joined_since: NEVER,
            joined_from: 0,
            fin_at: u64::MAX,
            fin_received: false,
            collects: wants_telemetry,
            message_end: 1,
            incoming: VecDeque::new(),
        }
    }

    /// Whether an ACK that is being delayed has to leave before a segment with these marks is taken in.
    #[inline]
    pub(crate) fn must_flush(&self, marks: Marks) -> bool {
        self.unacknowledged > 0 && self.echo.would_change(marks)
    }

    /// Whether a segment with payload is the next of its stream, neither begins nor ends a message, and has its ACK to itself or can
    /// share it with the segments before it. Such an ACK has no options.
    #[inline]
    pub(super) fn is_next(&self, packet: &Packet) -> bool {
        self.next as u32 == packet.sequence
            && self.next + u64::from(packet.payload) < self.message_end
            && self.beyond_gap.is_empty()
            && self.fin_at == u64::MAX
            && !self.must_flush(packet.marks())
            && !self.options.has_duplicate()
            && !self.options.hands_back()
    }

    /// Reads what most data needs, but for the first line.
    #[inline]
    pub(super) fn touch(&self) -> u64 {
        self.growth ^ u64::from(self.beyond_gap.is_empty())
    }

    /// Whether there is something to be told by SACK.
    #[inline]
    pub(crate) fn has_sack(&self, tcp: &Tcp) -> bool {
        tcp.sack && (!self.beyond_gap.is_empty() || self.options.has_duplicate())
    }

    /// Data arrives. After a `pause` its sender may have begun anew, and needs ACKs to grow.
    #[inline]
    pub(crate) fn note_pause(&mut self, now: u64, tcp: &Tcp, pause: Duration) {
        if let Some(delayed) = tcp.delayed_ack.filter(|delayed| delayed.quick_again) {
            if self.last_data_at != NEVER && now - self.last_data_at > pause.0 {
                self.quick = self.quick.max(delayed.quick);
            }
            self.last_data_at = now;
        }
    }

    /// Data leaves. Soon after data has come it is taken for an answer (the "pingpong mode" of Linux).
    #[inline]
    pub(crate) fn note_answer(&mut self, now: u64, tcp: &Tcp) {
        if let Some(delayed) = tcp.delayed_ack.filter(|delayed| delayed.quick_again) {
            self.answers |= self.last_data_at != NEVER && now - self.last_data_at < delayed.timeout.0;
        }
    }

    /// A delayed ACK is due: no answer has carried it.
    pub(crate) const fn delay_is_over(&mut self) {
        self.ack_at = NEVER;
        self.ack_due = true;
        self.answers &= self.joining;
    }

    /// Takes a segment with payload or FIN in.
    #[inline]
    pub(crate) fn on_data(&mut self, now: u64, tcp: &Tcp, packet: &Packet) -> Received {
        let start = unwrap(self.next, packet.sequence);
        let end = start + u64::from(packet.payload);
        let mut received = Received { start, ..Received::default() };
        if packet.payload > 0 {
            let in_order = start <= self.next;
            let changes = self.note_payload(tcp, packet, in_order, end);
            if in_order && end > self.next {
                received.new = end - self.next;
                received.delivered = received.new;
                self.next = end;
                self.unacknowledged += 1;
                if !self.beyond_gap.is_empty() {
                    // Sent again with other boundaries, it may hold what has arrived.
                    received.new -= self.beyond_gap.bytes_below(end);
                    self.close_gap(&mut received);
                }
            } else if !in_order {
                received.out_of_order = true;
                received.new = self.beyond_gap.insert(start, end);
                if received.new == 0 {
                    self.note_duplicate(tcp, start, end);
                }
                if tcp.sack {
                    self.options.touch(start, self.beyond_gap.containing(start).unwrap_or((start, end)));
                }
                self.ack_due = true;
            } else {
                self.ack_due = true;
                self.note_duplicate(tcp, start, end);
            }
            self.acknowledge_or_wait(now, tcp, start, changes);
        }
        if packet.flags.has(Flags::FIN) {
            self.fin_at = end;
            self.ack_due = true;
        }
        if self.fin_at == self.next && !self.fin_received {
            self.next += 1;
            self.fin_received = true;
            self.ack_due = true;
        }
        received
    }

    /// The same for a segment that [is the next](Self::is_next).
    #[inline]
    pub(super) fn on_next(&mut self, now: u64, tcp: &Tcp, packet: &Packet) {
        let start = self.next;
        let end = start + u64::from(packet.payload);
        let changes = self.note_payload(tcp, packet, true, end);
        self.next = end;
        self.unacknowledged += 1;
        self.acknowledge_or_wait(now, tcp, start, changes);
    }

    /// What payload up to `end` changes wherever it lies. Returns whether ACKs say something else from now on.
    #[inline]
    fn note_payload(&mut self, tcp: &Tcp, packet: &Packet, in_order: bool, end: u64) -> bool {
        if self.growth > 0 && (in_order || tcp.sack) {
            self.grow(tcp, packet.payload);
        }
        let changes = self.echo.would_change(packet.marks());
        self.echo.on_data(packet.marks(), packet.flags.has(Flags::CWR));
        self.highest = self.highest.max(end);
        changes
    }

    /// Payload was taken in: an ACK is due, or waits for more to answer.
    #[inline]
    fn acknowledge_or_wait(&mut self, now: u64, tcp: &Tcp, start: u64, changes: bool) {
        let quick = self.quick > 0 && !self.answers;
        match tcp.delayed_ack {
            Some(delayed) if !changes && !quick && self.unacknowledged < delayed.every => {
                self.note_joined(now, tcp, start);
                if self.ack_at == NEVER && !self.ack_due {
                    self.ack_at = self.clock.after(now, delayed.longest(tcp));
                }
            }
            Some(_) if tcp.gro.0 > 0 && !changes && !self.ack_due && self.waits_to_join(now, tcp, start) => {}
            delayed => {
                self.quick -= u32::from(delayed.is_some() && quick);
                self.ack_due = true;
            }
        }
    }

    /// The window grows with a segment that arrives: one ACK at least leaves at once (`tcp_grow_window`).
    #[cold]
    fn grow(&mut self, tcp: &Tcp, payload: u16) {
        /// Shorter segments do not count.
        const SHORTEST: u16 = 128;
        if payload >= SHORTEST {
            self.growth = self.growth.saturating_sub(tcp.mss.times(2).0);
            self.quick |= 1;
        }
    }

    /// A segment is joined to those before it, or is the first of others.
    #[inline]
    fn note_joined(&mut self, now: u64, tcp: &Tcp, start: u64) {
        if tcp.gro.0 > 0 && (self.joined_since == NEVER || now - self.joined_since >= tcp.gro.0) {
            (self.joined_since, self.joined_from) = (now, start);
        }
    }

    /// An ACK is due for a segment that arrived in order. Returns whether it waits for more that can be joined to it.
    #[cold]
    fn waits_to_join(&mut self, now: u64, tcp: &Tcp, start: u64) -> bool {
        self.note_joined(now, tcp, start);
        let full = self.next + tcp.mss.0 > self.joined_from + LARGEST_PACKET;
        if full || self.incoming.iter().any(|span| span.end == self.next) {
            self.joined_since = NEVER;
            return false;
        }
        self.ack_at = self.ack_at.min(self.joined_since + tcp.gro.0);
        self.joining = true;
        true
    }

    /// All of a segment had arrived before.
    #[cold]
    fn note_duplicate(&mut self, tcp: &Tcp, start: u64, end: u64) {
        if tcp.dsack {
            self.options.note_duplicate(start, end);
        }
        if let Some(delayed) = tcp.delayed_ack.filter(|delayed| delayed.quick_again) {
            self.quick = self.quick.max(delayed.quick);
            self.answers = false;
        }
    }

    /// RFC 5681 section 4.2: a segment that fills a gap is acknowledged at once.
    #[cold]
    fn close_gap(&mut self, received: &mut Received) {
        let before = self.next;
        self.next = self.beyond_gap.take_from(before);
        received.delivered += self.next - before;
        self.ack_due = true;
    }

    /// The message whose first segment just arrived, if this is news.
    pub(crate) fn introduce(&mut self, start: u64) -> Option<Span> {
        let span = self.incoming.iter_mut().find(|span| span.start == start && !span.introduced)?;
        span.introduced = true;
        Some(*span)
    }

    /// The next message that is complete, if any. To be asked until there is none.
    #[inline]
    pub(crate) fn completed(&mut self) -> Option<Span> {
        if self.next < self.message_end {
            return None;
        }
        self.complete_or_look_up()
    }

    #[cold]
    fn complete_or_look_up(&mut self) -> Option<Span> {
        // Data of the front message has arrived, so its entry is there.
        let front = *self.incoming.front()?;
        if front.start >= self.next {
            return None;
        }
        if front.end <= self.next {
            self.incoming.pop_front();
            self.message_end = front.end + 1;
            return Some(front);
        }
        self.message_end = front.end;
        None
    }

    /// In-order payload of a message so far.
    pub(crate) fn delivered_of(&self, span: &Span) -> u64 {
        self.next.min(span.end).saturating_sub(span.start)
    }

    /// Acknowledgement and right edge to announce with `window` bytes from here on: the edge never moves
    /// back, and is as far as the header's field can say.
    #[inline]
    pub(crate) fn announce(&mut self, tcp: &Tcp, window: u64) -> (u64, u64) {
        // Linux rounds a limited window up to what the field can say.
        let window = self.limit.map_or(window, |limit| window.min(round_up(tcp, limit.0)));
        self.edge = self.edge.max(self.next + window.min(tcp.largest_window()));
        self.announced = self.next;
        self.unacknowledged = 0;
        self.ack_due = false;
        self.held = false;
        self.joining = false;
        self.ack_at = NEVER;
        (self.next, self.next + field(tcp, self.edge - self.next))
    }

    /// The ACK that was due is held; what it would have said of marks is kept for the one that leaves.
    pub(crate) fn hold(&mut self) {
        let said = self.echo.on_ack();
        self.echo.on_replaced(said);
        self.held = true;
        self.ack_due = false;
        self.ack_at = NEVER;
    }
}

/// The least that the header's field can say and that is no less than a window.
const fn round_up(tcp: &Tcp, window: u64) -> u64 {
    let said = field(tcp, window);
    if said == window { window } else { field(tcp, window + (1 << tcp.window_shift())) }
}

/// What the header's field says of a window (RFC 7323 section 2.3).
#[inline]
pub(crate) const fn field(tcp: &Tcp, window: u64) -> u64 {
    match tcp.window_scaling {
        WindowScaling::Exact | WindowScaling::Off => window,
        WindowScaling::Rfc7323 => window >> tcp.window_shift() << tcp.window_shift(),
    }
}
