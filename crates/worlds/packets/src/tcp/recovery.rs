//! Duplicates, losses and recovery: NewReno (RFC 6582) where the peer says nothing of what it has beyond
//! a gap, else by SACK (RFC 6675).

use incast_plan::{LossDetection, Reduction, Tcp};
use incast_protocols::Bytes;
use incast_protocols::sender::{Ack, Sender};
use incast_record::EventKind;

use super::sack::SackOption;
use super::scoreboard::Hole;
use super::send::SendHalf;
use super::{DUPLICATE_THRESHOLD, NEVER, Outbox, unwrap};
use crate::packet::{Flags, Packet};

impl<S: Sender> SendHalf<S> {
    /// Enters the peer's blocks above `ack`; says of how many bytes they tell for the first time.
    #[cold]
    pub(super) fn learn_sacked(&mut self, now: u64, tcp: &Tcp, ack: u64, sack: &SackOption) -> u64 {
        let mut told = 0;
        let beyond = sack.blocks().get(1).map(|block| (unwrap(ack, block.0), unwrap(ack, block.1)));
        for (number, &(start, end)) in sack.blocks().iter().enumerate() {
            let (start, end) = (unwrap(ack, start), unwrap(ack, end));
            // RFC 2883 section 4: a first block below the ACK, or within the second one, tells of a duplicate.
            let within = beyond.is_some_and(|beyond| beyond.0 <= start && end <= beyond.1);
            if tcp.dsack && number == 0 && (end <= ack || within) {
                self.on_duplicate_report(tcp, end);
                continue;
            }
            // An ACK that was overtaken may tell of what is acknowledged by now.
            if ack.max(self.una) < start && start < end && end <= self.highest {
                let new = self.board.insert(start, end);
                told += new;
                if let Some(timing) = &mut self.timing {
                    timing.sacked(now, tcp, start, end, new);
                }
            }
        }
        told
    }

    /// A duplicate ACK, or one that told of `told` new bytes beyond a gap.
    pub(super) fn on_duplicate(&mut self, now: u64, tcp: &Tcp, told: u64, template: &Packet, out: &mut Outbox) {
        if self.uses_rack(tcp) {
            return self.on_dubious_ack(now, tcp, told, template, out);
        }
        if self.has_doubt() {
            self.resolve_doubt_by_duplicates(tcp, true);
        }
        self.duplicates += 1;
        if told > 0 {
            self.board.find_lost(tcp.mss.0);
        }
        // Without SACK, each duplicate says that a segment has left the network.
        let mut left = if tcp.sack { told } else { tcp.mss.0 };
        if tcp.waits_for_room() {
            // At least the first one has not (`tcp_limit_reno_sacked`).
            let most = (self.highest - self.una).div_ceil(tcp.mss.0).saturating_sub(1);
            if u64::from(self.duplicates) > most {
                (self.duplicates, left) = (most as u32, 0);
            }
        }
        if self.in_recovery {
            self.reduce(tcp, left, false);
            return;
        }
        if self.reduced_until.is_some() {
            self.reduce(tcp, left, false);
        }
        // RFC 6675 section 5, steps 1 and 2.
        let lost = self.duplicates >= DUPLICATE_THRESHOLD || (told > 0 && self.board.is_lost(self.una));
        if lost && self.una >= self.may_recover_from {
            self.begin_recovery(now, tcp, left, template, out);
        }
    }

    /// Recovery begins with an ACK that says of `told` bytes that they have left the network.
    #[cold]
    pub(super) fn begin_recovery(&mut self, now: u64, tcp: &Tcp, told: u64, template: &Packet, out: &mut Outbox) {
        self.begin_doubt(false);
        self.in_recovery = true;
        self.partial_ack_seen = false;
        self.recover = self.highest;
        // By duplicates alone, those of retransmissions could be taken for a new loss (RFC 6582 section 4.1).
        self.may_recover_from = self.highest + u64::from(!tcp.sack);
        self.signal(out, EventKind::FastRetransmit);
        let cwnd = self.sender.windows().cwnd;
        self.sender.on_loss(&self.view(now));
        self.cwr_wanted = self.sender.ecn_capable();
        self.limited_transmit = 0;
        self.reduced_until = None;
        let mut first = true;
        if tcp.sack {
            first = self.board.begin(self.una);
        }
        let whole = if self.reduces_segments(tcp) { cwnd.0 } else { self.highest - self.una };
        self.first_waits = tcp.waits_for_room();
        self.begin_reduction(tcp, whole);
        self.reduce(tcp, told, false);
        if self.uses_rack(tcp) {
            return self.begin_recovery_by_rack(now, tcp, template, out);
        }
        if first {
            self.retransmit_first(now, tcp, template, out);
            self.first_waits = false;
        }
        self.restart_timer(now, tcp);
    }

    /// New data was acknowledged in recovery; `delivered` bytes of which nothing was known.
    #[cold]
    pub(super) fn on_ack_in_recovery(
        &mut self,
        now: u64,
        tcp: &Tcp,
        ack: &Ack,
        delivered: u64,
        template: &Packet,
        out: &mut Outbox,
    ) {
        if tcp.waits_for_room() && self.una <= self.recover {
            return self.on_partial_ack_by_room(now, tcp, ack, delivered);
        }
        if self.una >= self.recover {
            self.in_recovery = false;
            self.duplicates = 0;
            if let Some(timing) = &mut self.timing {
                timing.rack.recovered();
            }
            self.board.find_lost(tcp.mss.0);
            if !self.uses_rack(tcp) {
                self.sender.on_recovered(&self.view(now), ack);
                return self.restart_timer(now, tcp);
            }
            if self.find_lost(now, tcp).wait.is_none() {
                self.restart_timer(now, tcp);
            }
            // Where the next recovery begins at once, the window does not grow before.
            let begins = self.has_lost();
            let grows = if begins { Bytes::ZERO } else { ack.delivered };
            self.sender.on_recovered(&self.view(now), &Ack { delivered: grows, ..*ack });
            if begins {
                self.begin_recovery(now, tcp, delivered, template, out);
            }
            return;
        }
        self.sender.on_partial_ack(&self.view(now), ack);
        if self.uses_rack(tcp) {
            return self.on_partial_ack_by_rack(now, tcp, delivered);
        }
        if tcp.sack {
            let more_lost = self.board.find_lost(tcp.mss.0);
            self.reduce(tcp, delivered, !more_lost);
            // RFC 6298 section 5.3.
            self.restart_timer(now, tcp);
            return;
        }
        // Of what is acknowledged now, duplicates have told of all but the segment that was lost.
        let known = tcp.mss.times(self.duplicates.into()).0;
        self.duplicates = self.duplicates.saturating_sub((delivered / tcp.mss.0).saturating_sub(1) as u32);
        self.reduce(tcp, delivered.saturating_sub(known).max(tcp.mss.0), true);
        // RFC 6582 section 3.2, step 3, in its impatient variant: only the first partial ACK restarts the timer.
        self.retransmit_first(now, tcp, template, out);
        if !self.partial_ack_seen {
            self.partial_ack_seen = true;
            self.restart_timer(now, tcp);
        }
    }

    /// Without SACK, an ACK in recovery for no data that was sent after its begin (`tcp_fastretrans_alert`).
    fn on_partial_ack_by_room(&mut self, now: u64, tcp: &Tcp, ack: &Ack, delivered: u64) {
        // One segment filled the gap; the others that are acknowledged are those that duplicates have told of.
        let acked = delivered.div_ceil(tcp.mss.0);
        let new = acked.saturating_sub(self.duplicates.into()).max(1);
        self.duplicates = self.duplicates.saturating_sub(acked.saturating_sub(1) as u32);
        self.first_waits = self.una < self.recover;
        if self.first_waits {
            self.sender.on_partial_ack(&self.view(now), ack);
        } else {
            self.duplicates = 0;
            self.sender.on_recovered(&self.view(now), &Ack { delivered: Bytes::ZERO, ..*ack });
        }
        self.reduce(tcp, tcp.mss.times(new).0, !self.first_waits);
        self.restart_timer(now, tcp);
    }

    /// Lets proportional rate reduction count an ACK.
    #[cold]
    pub(super) fn reduce(&mut self, tcp: &Tcp, delivered: u64, progress: bool) {
        if tcp.reduction == Reduction::Proportional {
            let pipe = self.pipe(tcp);
            let ssthresh = self.sender.windows().ssthresh.0;
            if self.reduces_segments(tcp) {
                let segments = |bytes: u64| bytes.div_ceil(tcp.mss.0);
                self.prr.on_ack(segments(delivered), segments(pipe), segments(ssthresh), 1, progress);
            } else {
                self.prr.on_ack(delivered, pipe, ssthresh, tcp.mss.0, progress);
            }
        }
    }

    /// Whether rate reduction counts whole segments, and in proportion to the window, as Linux does; bytes, and in proportion to
    /// the flight, elsewhere.
    fn reduces_segments(&self, tcp: &Tcp) -> bool {
        self.uses_rack(tcp) || tcp.waits_for_room()
    }

    /// Rate reduction begins with a window, or a flight, of so many bytes.
    pub(super) fn begin_reduction(&mut self, tcp: &Tcp, whole: u64) {
        self.prr.begin(if self.reduces_segments(tcp) { whole.div_ceil(tcp.mss.0) } else { whole });
    }

    /// `bytes` have left during rate reduction.
    pub(super) fn reduced_by(&mut self, tcp: &Tcp, bytes: u64) {
        self.prr.on_sent(if self.reduces_segments(tcp) { bytes.div_ceil(tcp.mss.0) } else { bytes });
    }

    /// What rate reduction lets leave, in bytes.
    pub(super) fn reduction_budget(&self, tcp: &Tcp) -> u64 {
        self.prr.budget() * if self.reduces_segments(tcp) { tcp.mss.0 } else { 1 }
    }

    /// Bytes in the network.
    pub(super) fn pipe(&self, tcp: &Tcp) -> u64 {
        match &self.timing {
            Some(timing) if tcp.loss_detection == LossDetection::Rack => timing.flight.in_network(),
            _ if !tcp.sack => {
                let left = u64::from(self.duplicates) + u64::from(self.first_waits);
                (self.highest - self.una).saturating_sub(tcp.mss.times(left).0)
            }
            _ => self.board.pipe(self.una, self.highest),
        }
    }

    /// Sends the first unacknowledged segment again.
    pub(crate) fn retransmit_first(&mut self, now: u64, tcp: &Tcp, template: &Packet, out: &mut Outbox) {
        if !self.outstanding() {
            return;
        }
        let end = self.board.next_sacked(self.una).unwrap_or(self.highest);
        let end = self.retransmit(now, tcp, Hole { start: self.una, end }, template, out);
        if self.in_recovery {
            self.board.retransmitted(end);
        }
    }

    /// Sends the first segment of a hole again; says where it ends.
    pub(super) fn retransmit(&mut self, now: u64, tcp: &Tcp, hole: Hole, template: &Packet, out: &mut Outbox) -> u64 {
        self.stop_timing();
        if hole.start == self.limit {
            let fin = Self::segment(tcp, template, hole.start, 0);
            out.packets.push(Packet { flags: template.flags.with(Flags::FIN), ..fin });
            return hole.end;
        }
        let message = self.outgoing.iter().find(|span| hole.start < span.end).map_or(self.limit, |span| span.end);
        let end = hole.end.min(message).min(self.limit).min(hole.start + tcp.mss.0);
        self.reduced_by(tcp, end - hole.start);
        self.emit(now, tcp, template, hole.start, end - hole.start, out)
    }

    /// Sends what may leave in recovery.
    #[cold]
    pub(super) fn output_in_recovery(&mut self, now: u64, tcp: &Tcp, template: &Packet, out: &mut Outbox) {
        let idle = !self.outstanding();
        self.fill_pipe(now, tcp, template, out);
        // A recovery that waits for later data may have nothing in the network, and no room for a segment. No ACK would come
        // that makes any, so the timer has to probe (`tcp_check_probe_timer`).
        let paced = self.timing.as_ref().is_some_and(|timing| timing.send_at != NEVER);
        if idle && self.next < self.limit && !paced && (self.outstanding() || self.timeout_at == NEVER) {
            self.arm(now, self.rtt.rto());
        }
    }

    /// Sends what the pipe has room for, in the order of `NextSeg` (RFC 6675 section 4).
    fn fill_pipe(&mut self, now: u64, tcp: &Tcp, template: &Packet, out: &mut Outbox) {
        let mut pipe = self.pipe(tcp);
        loop {
            let room = self.room(now, tcp, pipe);
            let first = Hole { start: self.una, end: self.highest.min(self.una + tcp.mss.0) };
            let lost = if self.first_waits { Some(first) } else { self.board.next_hole(self.una, true) };
            let new = if lost.is_none() { self.new_payload(now, tcp) } else { None };
            let hole = lost.or_else(|| if new.is_none() { self.board.next_hole(self.una, false) } else { None });
            let bytes = match (hole, new) {
                (Some(hole), _) => tcp.mss.0.min(hole.end - hole.start),
                (None, Some(payload)) => payload,
                (None, None) => {
                    if room >= tcp.mss.0 && tcp.sack {
                        self.rescue(now, tcp, template, out);
                    }
                    return;
                }
            };
            let alone = bytes > room && pipe == 0 && self.may_leave_alone_in_recovery(now, tcp, bytes);
            if (bytes > room && !alone) || self.is_paced(now) {
                return;
            }
            if let Some(hole) = hole {
                let end = self.retransmit(now, tcp, hole, template, out);
                self.board.retransmitted(end);
                self.first_waits = false;
                pipe += end - hole.start;
            } else {
                self.reduced_by(tcp, bytes);
                self.next = self.emit(now, tcp, template, self.next, bytes, out);
                pipe += bytes;
            }
        }
    }

    /// Bytes that may be sent in recovery with `pipe` bytes in the network.
    pub(super) fn room(&self, now: u64, tcp: &Tcp, pipe: u64) -> u64 {
        let view = self.view(now);
        let window = self.sender.send_window(&view);
        match tcp.reduction {
            Reduction::Proportional
                if (self.in_recovery || self.reduced_until.is_some()) && !self.is_held_back(&view, window) =>
            {
                self.reduction_budget(tcp)
            }
            Reduction::Immediate | Reduction::Proportional => window.0.saturating_sub(pipe),
        }
    }

    /// Nothing is in the network: whether a segment may leave because the sender's window is below one.
    #[cold]
    pub(super) fn may_leave_alone_in_recovery(&mut self, now: u64, tcp: &Tcp, bytes: u64) -> bool {
        let view = self.view(now);
        let window = self.sender.send_window(&view);
        window < view.advertised && window.0 < bytes && self.may_leave_alone(now, tcp, window.0, bytes)
    }

    /// Payload of the next new segment, if there is one and the peer's window has room for it.
    pub(super) fn new_payload(&mut self, now: u64, tcp: &Tcp) -> Option<u64> {
        if self.next >= self.limit {
            return None;
        }
        let payload = self.next_segment(now, tcp);
        (self.next + payload <= self.edge).then_some(payload)
    }

    fn rescue(&mut self, now: u64, tcp: &Tcp, template: &Packet, out: &mut Outbox) {
        let Some(hole) = self.board.rescue(self.una, self.highest) else { return };
        let end = hole.end.min(self.limit);
        let message = self.outgoing.iter().find(|span| end <= span.end).map_or(0, |span| span.start);
        let start = hole.start.max(end.saturating_sub(tcp.mss.0)).max(message);
        self.retransmit(now, tcp, Hole { start, end: hole.end }, template, out);
    }
}
