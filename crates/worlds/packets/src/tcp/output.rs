//! What a sending half may send, and sends.

use incast_plan::{Ect, Pacing, Reduction, RttSamples, SlowStartRestart, Tcp, WindowPerMessage};
use incast_protocols::sender::{Restart, Sender, SenderView, Windows};
use incast_protocols::{Bytes, Offset, Rate};
use incast_record::EventKind;

use super::send::{Fin, SendHalf};
use super::timing::Timing;
use super::{NEVER, Outbox, Signal};
use crate::packet::{Flags, Packet};

/// How far the congestion window was used in the last window of data (RFC 7661 section 4.4, as Linux judges).
#[derive(Clone, Debug, Default)]
pub(super) struct Usage {
    /// It was all in flight.
    full: bool,
    /// The most bytes in flight.
    most: u64,
    /// Where the window of data ends in which this was observed.
    until: u64,
}

impl<S: Sender> SendHalf<S> {
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
            out.signals.push(Signal {
                kind: EventKind::Retransmission,
                message: self.message_at(offset),
                offset,
                timer: None,
            });
            if self.outgoing.iter().any(|span| span.start == offset) {
                flags = flags.with(Flags::MESSAGE);
            }
            if tcp.timestamps {
                self.time(now, offset);
            }
        } else {
            if self.begun_at == offset {
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
        if self.timing.is_some() {
            self.note_sent(now, tcp, offset, end, again);
        }
        after
    }

    /// Tells a sender that works with time what left, and asks when the next segment may.
    #[cold]
    fn note_sent(&mut self, now: u64, tcp: &Tcp, offset: u64, end: u64, again: bool) {
        let Some(timing) = self.timing.as_mut().filter(|timing| timing.records) else { return };
        timing.flight.sent(now, offset, end, again);
        if again {
            timing.doubt.repeats();
        }
        let wanted = timing.wanted;
        if tcp.rtt_samples == RttSamples::EveryAck {
            self.stop_timing();
        }
        let view = self.view(now);
        if wanted {
            self.sender.on_sent(&view, Bytes(end - offset));
        } else if tcp.pacing == Pacing::None {
            return;
        }
        let own = if wanted { self.sender.pacing_rate(&view) } else { None };
        let rate = own.or_else(|| if tcp.pacing == Pacing::Internal { self.internal_pace(tcp) } else { None });
        let wire = Bytes(end - offset + tcp.header.0);
        let gap = rate.map(|rate| Rate(rate.0.max(1)).time_for(wire).0);
        if let Some(timing) = &mut self.timing {
            timing.paced_until = gap.map_or(0, |gap| timing.paced_until.max(now).saturating_add(gap));
        }
    }

    /// The pace of Linux, as bits on the wire (`tcp_update_pacing_rate`).
    fn internal_pace(&self, tcp: &Tcp) -> Option<Rate> {
        let srtt = self.rtt.smoothed()?.0.max(1);
        let Windows { cwnd, ssthresh } = self.sender.windows();
        let percent = if cwnd.0 < ssthresh.0 / 2 { 200 } else { 120 };
        // What is in flight may be more than a window that has just been cut.
        let segments = cwnd.0.max(self.highest - self.una).div_ceil(tcp.mss.0);
        let bits = u128::from(segments * (tcp.mss.0 + tcp.header.0)) * 8 * percent / 100;
        Some(Rate(u64::try_from(bits * 1_000_000_000_000 / u128::from(srtt)).unwrap_or(u64::MAX)))
    }

    /// Whether pacing holds the next segment back; it then leaves in time.
    #[inline]
    pub(super) fn is_paced(&mut self, now: u64) -> bool {
        self.timing.as_mut().is_some_and(|timing| timing.holds(now))
    }

    /// Whether a segment of `payload` bytes may leave although the `window` that the sender lets be in flight is smaller.
    /// Nothing is in flight: whole segments leave so far apart that on average the window is.
    #[cold]
    pub(super) fn may_leave_alone(&mut self, now: u64, tcp: &Tcp, window: u64, payload: u64) -> bool {
        if window == 0 {
            return false;
        }
        let round_trip = self.rtt.smoothed().map_or(0, |srtt| u128::from(srtt.0));
        let gap = u64::try_from(round_trip * u128::from(payload) / u128::from(window)).unwrap_or(NEVER);
        let due = if self.highest == 0 { 0 } else { self.last_sent_at.saturating_add(gap) };
        if now < due {
            self.timing.get_or_insert_with(|| Box::new(Timing::new(false, tcp))).send_at = due;
        }
        now >= due
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
        if index as u32 >= self.begun {
            self.begun = index as u32 + 1;
            self.begun_at = span.start;
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
            WindowPerMessage::Fresh => {
                // A recovery that waits for later data to be acknowledged (RFC 6582 section 3.2) would set the window to a
                // threshold that is no more.
                if tcp.waits_for_room() {
                    self.in_recovery = false;
                    self.first_waits = false;
                    self.duplicates = 0;
                }
                return self.sender.on_restart(Restart::Fresh);
            }
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
        if let Some(timing) = &mut self.timing {
            timing.send_at = NEVER;
        }
        let highest = self.highest;
        if self.is_dubious(tcp) {
            self.output_by_rack(now, tcp, template, out);
        } else if self.in_recovery && (tcp.sack || tcp.reduction == Reduction::Proportional) {
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
        if self.timing.is_some() && self.highest > highest {
            self.after_new_data(now, tcp);
        }
        if self.timeout_at == NEVER && self.outstanding() {
            self.arm(now, self.rtt.rto());
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
        if tcp.tso_divisor > 0
            && let room = self.window_end(&self.view(now), tcp).min(self.edge).saturating_sub(self.next)
            && self.waits_for_more(now, tcp, room)
        {
            if tcp.rules.validate_window {
                self.judge_usage(tcp, false, true, self.next - self.una);
            }
            return;
        }
        let mut view = self.view(now);
        while self.next < self.limit {
            let mut most = tcp.mss.0;
            if self.next < self.highest {
                // After a timeout: what the peer has is not sent again, nor what F-RTO has asked with.
                self.next = if self.next == self.recover { self.highest } else { self.board.skip(self.next) };
                if self.next >= self.limit {
                    break;
                }
                most = self.board.next_sacked(self.next).map_or(most, |sacked| most.min(sacked - self.next));
            }
            let mut payload = self.next_segment(now, tcp).min(most);
            let window = self.window_end(&view, tcp);
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
                let by_sender = full && self.reduced_until.is_none() && self.una + payload <= self.edge;
                if by_sender && allowed > self.una {
                    if !self.may_leave_alone(now, tcp, allowed - self.una, payload) {
                        break;
                    }
                } else {
                    payload = allowed - self.una;
                    if payload == 0 {
                        // Zero window: the timer will probe it.
                        if self.timeout_at == NEVER {
                            self.arm(now, self.rtt.rto());
                        }
                        break;
                    }
                }
            }
            if self.is_paced(now) {
                break;
            }
            if self.next + payload > window && self.next >= self.recover {
                self.limited_transmit += payload;
            }
            if self.reduced_until.is_some() {
                self.reduced_by(tcp, payload);
            }
            self.next = self.emit(now, tcp, template, self.next, payload, out);
            // Nothing else of it changes by sending.
            (view.nxt, view.limited_transmit) = (Offset(self.highest), Bytes(self.limited_transmit));
        }
        if tcp.rules.validate_window {
            self.judge_usage(tcp, self.next > before, full, self.next - self.una);
        }
    }

    /// Whether new segments, for which the windows have so much `room`, wait until more of them can leave at once
    /// (`tcp_tso_should_defer`).
    #[cold]
    pub(super) fn waits_for_more(&self, now: u64, tcp: &Tcp, room: u64) -> bool {
        /// Nobody waits longer since the last transmission.
        const MILLISECOND: u64 = 1_000_000_000;
        /// The most that leaves at once (`GSO_MAX_SIZE`).
        const BUNCH: u64 = 65_536;
        let remaining = self.limit.saturating_sub(self.next);
        let outstanding = self.next > self.una && self.next >= self.highest;
        if self.in_recovery || !outstanding || remaining <= tcp.mss.0 || now > self.last_sent_at + MILLISECOND {
            return false;
        }
        let Some(first) = self.timing.as_ref().and_then(|timing| timing.flight.first()) else { return false };
        let part = self.sender.windows().cwnd.0.min(self.edge - self.una) / u64::from(tcp.tso_divisor);
        let young = self.rtt.smoothed().is_none_or(|srtt| now - first.at < srtt.0 / 2);
        room < BUNCH && room < part && !young
    }

    /// How far the windows let go; while a mark's cut is spread over a round trip, rate reduction.
    #[inline]
    fn window_end(&self, view: &SenderView, tcp: &Tcp) -> u64 {
        let window = self.sender.send_window(view);
        if self.reduced_until.is_some() && !self.is_held_back(view, window) {
            return (self.next + self.reduction_budget(tcp)).min(self.edge);
        }
        self.una.saturating_add(window.0)
    }

    /// A sender that lets less go than its congestion window has its reasons, which no reduction overrules.
    pub(super) fn is_held_back(&self, view: &SenderView, window: Bytes) -> bool {
        window < self.sender.windows().cwnd.min(view.advertised)
    }

    /// As Linux judges: the window counts as used if it was all in flight, in slow start if half of it was.
    pub(super) fn judge_usage(&mut self, tcp: &Tcp, sent: bool, full: bool, flight: u64) {
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
        self.window_used = self.usage.full || (cwnd < ssthresh && cwnd.0 < 2 * self.usage.most);
    }
}
