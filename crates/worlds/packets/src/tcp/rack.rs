//! RACK-TLP (RFC 8985), as Linux has it: segments are lost that left well before one that has arrived, and the tail of
//! a flight is probed.

use incast_plan::{LossDetection, RttSamples, Tcp};
use incast_protocols::sender::{Ack, Family, Sender, Windows};
use incast_protocols::{Bytes, Duration};
use incast_record::EventKind;

use super::flight::{Flight, Found, Sent};
use super::scoreboard::Hole;
use super::send::SendHalf;
use super::{DUPLICATE_THRESHOLD, NEVER, Outbox};
use crate::packet::Packet;

/// The most segments by which packets are taken to be out of order (`net.ipv4.tcp_max_reordering`).
const MOST_REORDERING: u32 = 300;

/// The largest reordering window, in quarters of the least round trip.
const MOST_STEPS: u32 = 255;
/// Recoveries for which a wider reordering window stays (`TCP_RACK_RECOVERY_THRESH`).
const STEPS_PERSIST: u32 = 16;

/// What the one timer of a connection does when it expires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Timer {
    #[default]
    Retransmission,
    /// What might be lost is lost by then.
    Reordering,
    /// A tail loss probe leaves.
    Probe,
}

/// What RACK knows of one connection.
#[derive(Clone, Debug)]
pub(super) struct Rack {
    /// When the segment left that left last of all that have arrived, and where it ends.
    at: u64,
    end: u64,
    /// Its round trip.
    rtt: u64,
    /// The shortest round trip of the connection.
    least_rtt: u64,
    /// Something has arrived since losses were looked for.
    advanced: bool,
    /// Where the highest data beyond the gap ends, as far as the last ACK has told.
    highest_sacked: u64,
    /// Segments have overtaken each other.
    reordered: bool,
    /// By how many segments at most; at least the threshold of duplicates.
    reordering: u32,
    /// The reordering window, in quarters of the least round trip.
    steps: u32,
    /// Recoveries until it is one again.
    persists: u32,
    /// It grows no further before all below this is acknowledged.
    widened_until: u64,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            at: 0,
            end: 0,
            rtt: 0,
            least_rtt: NEVER,
            advanced: false,
            highest_sacked: 0,
            reordered: false,
            reordering: DUPLICATE_THRESHOLD,
            steps: 1,
            persists: 0,
            widened_until: 0,
        }
    }
}

impl Rack {
    /// A segment has arrived (RFC 8985 section 6.2, steps 1 to 3).
    pub(super) fn delivered(&mut self, now: u64, tcp: &Tcp, sent: &Sent) {
        if !sent.again && sent.start < self.highest_sacked {
            self.reordered = true;
            let segments = (self.highest_sacked - sent.start).div_ceil(tcp.mss.0).min(MOST_REORDERING.into());
            self.reordering = self.reordering.max(segments as u32);
        }
        let rtt = now - sent.at;
        if sent.again && rtt < self.least_rtt {
            // Its first transmission has arrived.
            return;
        }
        self.advanced = true;
        self.rtt = rtt;
        if (sent.at, sent.end) > (self.at, self.end) {
            (self.at, self.end) = (sent.at, sent.end);
        }
    }

    /// A segment has arrived twice, so the window was too short (RFC 8985 section 6.2, step 4). It widens once per round
    /// trip, and only where segments have overtaken each other (`tcp_dsack_seen`).
    pub(super) fn widen(&mut self, una: u64, highest: u64) {
        if self.reordered && una >= self.widened_until {
            self.widened_until = highest;
            self.steps = (self.steps + 1).min(MOST_STEPS);
            self.persists = STEPS_PERSIST;
        }
    }

    /// The repair was for nothing: losses are to be looked for anew.
    pub(super) const fn doubt(&mut self) {
        self.advanced = true;
    }

    /// A recovery is over.
    pub(super) const fn recovered(&mut self) {
        self.persists = self.persists.saturating_sub(1);
        if self.persists == 0 {
            self.steps = 1;
        }
    }

    pub(super) fn measured(&mut self, rtt: u64) {
        self.least_rtt = self.least_rtt.min(rtt);
    }

    /// How long a segment may be overtaken before it is lost (RFC 8985 section 6.2, step 4; `tcp_rack_reo_wnd`).
    fn window(&self, told: usize, repairing: bool, srtt: Option<Duration>) -> u64 {
        if !self.reordered && (repairing || told >= self.reordering as usize) {
            return 0;
        }
        let quarter = if self.least_rtt == NEVER { 0 } else { self.least_rtt / 4 };
        (quarter * u64::from(self.steps)).min(srtt.map_or(0, |srtt| srtt.0))
    }
}

/// The tail loss probe of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probe {
    /// One past the end of what had been sent with the probe that is not answered; 0 without one.
    after: u64,
    /// It was data sent before.
    repeated: bool,
}

impl Probe {
    /// Whether the report that data up to `end` has arrived twice is its answer: nothing was lost.
    pub(super) const fn is_needless(&mut self, end: u64) -> bool {
        let needless = self.repeated && self.after == end + 1;
        if needless {
            self.after = 0;
        }
        needless
    }

    /// The question that it asks has been settled otherwise.
    pub(super) const fn settle(&mut self) {
        self.after = 0;
    }
}

impl<S: Sender> SendHalf<S> {
    /// Whether RACK finds the losses.
    #[inline]
    pub(super) fn uses_rack(&self, tcp: &Tcp) -> bool {
        self.timing.is_some() && tcp.loss_detection == LossDetection::Rack
    }

    /// What is in flight, where RACK finds the losses.
    pub(super) fn flight_by_rack(&self, tcp: &Tcp) -> Option<&Flight> {
        let timing = self.timing.as_ref().filter(|_| tcp.loss_detection == LossDetection::Rack)?;
        Some(&timing.flight)
    }

    /// Whether the retransmission timer has expired and not all that was in flight then is acknowledged.
    pub(super) const fn repairs_timeout(&self) -> bool {
        !self.in_recovery && self.una < self.recover
    }

    /// Whether RACK finds the losses and there is more to know of what is in flight than where it begins and ends.
    #[inline]
    pub(super) fn is_dubious(&self, tcp: &Tcp) -> bool {
        self.uses_rack(tcp) && (!self.board.is_empty() || self.repairs_timeout() || self.has_lost() || self.has_doubt())
    }

    pub(super) fn has_lost(&self) -> bool {
        self.timing.as_ref().is_some_and(|timing| timing.flight.has_lost())
    }

    /// Takes the ACK's news of what is in flight in, after those of its blocks. The sample for a sender that wants it.
    #[cold]
    pub(super) fn note_arrived(&mut self, now: u64, tcp: &Tcp, ack: u64) -> Option<Duration> {
        let highest_sacked = self.board.highest();
        let timing = self.timing.as_mut().filter(|timing| timing.records)?;
        timing.acknowledged(now, tcp, ack);
        timing.rack.highest_sacked = highest_sacked;
        let news = std::mem::take(&mut timing.news);
        timing.told_of_older =
            timing.flight.first().is_some_and(|first| first.start == self.una && news.is_older_than(first.at));
        timing.doubt.arrived(news.original(tcp.sack), self.recover);
        if let Some((first, last)) = news.measures(tcp.timestamps) {
            timing.rack.measured(now - last);
            if tcp.rtt_samples == RttSamples::EveryAck {
                self.rtt.sample(Duration(now - first), ack, self.highest, tcp);
            }
        }
        Some(Duration(now - news.newest()?))
    }

    /// Looks for losses; a timer comes back where time alone will tell (RFC 8985 section 6.2, step 5).
    pub(super) fn find_lost(&mut self, now: u64, tcp: &Tcp) -> Found {
        let repairing = self.in_recovery || self.repairs_timeout();
        let (rto, srtt) = (self.rtt.rto(), self.rtt.smoothed());
        let Some(timing) = &mut self.timing else { return Found::default() };
        if !std::mem::take(&mut timing.rack.advanced) {
            return Found::default();
        }
        let rack = &timing.rack;
        let wait = rack.rtt + rack.window(timing.flight.told(), repairing, srtt);
        let found = timing.flight.find_lost(now, rack.at, rack.end, wait);
        if let Some(wait) = found.wait {
            timing.timer = Timer::Reordering;
            self.arm(now, Duration(wait + tcp.timer_margin.0).min(rto));
        }
        found
    }

    /// An ACK that may mean a loss, with news of `told` bytes beyond the gap.
    #[cold]
    pub(super) fn on_dubious_ack(&mut self, now: u64, tcp: &Tcp, told: u64, template: &Packet, out: &mut Outbox) {
        if self.timing.as_mut().is_some_and(|timing| std::mem::take(&mut timing.told_of_older)) {
            self.restart_timer(now, tcp);
        }
        let reduces = self.in_recovery || self.reduced_until.is_some();
        let began = self.look_for_losses(now, tcp, told, told, template, out);
        if reduces && !began {
            self.reduce(tcp, told, false);
        }
    }

    /// Begins a recovery, and says so, if anything is lost that none is going on for. The ACK at hand has news of `told` bytes
    /// beyond the gap, and of `delivered` in all.
    pub(super) fn look_for_losses(
        &mut self,
        now: u64,
        tcp: &Tcp,
        told: u64,
        delivered: u64,
        template: &Packet,
        out: &mut Outbox,
    ) -> bool {
        if self.has_doubt() {
            self.resolve_doubt(tcp, told);
        }
        let found = self.find_lost(now, tcp);
        // What a timeout has found lost needs no other answer, unless it is lost again.
        let lost = if self.repairs_timeout() { found.lost_again } else { self.has_lost() };
        let begins = lost && !self.in_recovery;
        if begins {
            self.begin_recovery(now, tcp, delivered, template, out);
        }
        begins
    }

    /// Something may have been lost all that time.
    #[cold]
    fn on_reordering_timer(&mut self, now: u64, tcp: &Tcp, template: &Packet, out: &mut Outbox) {
        if let Some(timing) = &mut self.timing {
            timing.rack.advanced = true;
        }
        let found = self.find_lost(now, tcp);
        if found.lost && !self.in_recovery {
            // As after an ACK for one segment (`tcp_rack_reo_timeout`).
            self.begin_recovery(now, tcp, tcp.mss.0, template, out);
        }
        if found.wait.is_none() {
            self.resume_timer(now);
        }
    }

    /// The timer that runs is none for retransmissions. Returns whether it was.
    #[cold]
    pub(super) fn on_other_timer(&mut self, now: u64, tcp: &Tcp, template: &Packet, out: &mut Outbox) -> bool {
        let Some(timing) = &mut self.timing else { return false };
        let timer = std::mem::take(&mut timing.timer);
        match timer {
            Timer::Retransmission => return false,
            Timer::Reordering => {
                timing.timer = timer;
                self.on_reordering_timer(now, tcp, template, out);
            }
            Timer::Probe => {
                timing.timer = timer;
                self.on_probe_timer(now, tcp, template, out);
            }
        }
        true
    }

    /// The retransmission timer starts over, or, at the end of a flight that nothing is known of, that of a probe.
    #[cold]
    pub(super) fn restart_timer_or_probe(&mut self, now: u64, tcp: &Tcp) {
        if self.schedule_probe(now, tcp, NEVER) {
            return;
        }
        let Some(timing) = &mut self.timing else { return };
        if std::mem::take(&mut timing.timer) != Timer::Retransmission {
            return self.resume_timer(now);
        }
        if self.outstanding() {
            self.arm(now, self.rtt.rto());
        } else {
            self.timeout_at = NEVER;
        }
    }

    /// New data has left: the end of the flight is elsewhere, and the retransmission timer goes on.
    #[cold]
    pub(super) fn after_new_data(&mut self, now: u64, tcp: &Tcp) {
        let retransmission_at = self.retransmission_at(now);
        if !self.schedule_probe(now, tcp, retransmission_at)
            && self.timing.as_ref().is_some_and(|timing| timing.timer == Timer::Probe)
        {
            self.resume_timer(now);
        }
    }

    /// The retransmission timer goes on, as if no other had run.
    fn resume_timer(&mut self, now: u64) {
        if let Some(timing) = &mut self.timing {
            timing.timer = Timer::Retransmission;
        }
        if self.outstanding() {
            self.armed_at = self.first_sent_at(now);
            self.timeout_at = self.retransmission_at(now);
        } else {
            self.timeout_at = NEVER;
        }
    }

    /// When the retransmission timer expires, counted from when the first segment left.
    fn retransmission_at(&self, now: u64) -> u64 {
        self.clock.after(now, Duration((self.first_sent_at(now) + self.rtt.rto().0).saturating_sub(now).max(1)))
    }

    /// When the first segment in flight left last.
    fn first_sent_at(&self, now: u64) -> u64 {
        self.timing.as_ref().and_then(|timing| timing.flight.first()).map_or(now, |sent| sent.at)
    }

    /// Lets a probe leave in two round trips unless ACKs come, if nothing is lost as far as is known, and before
    /// `latest` (RFC 8985 section 7.2; `tcp_schedule_loss_probe`).
    fn schedule_probe(&mut self, now: u64, tcp: &Tcp, latest: u64) -> bool {
        let calm = !self.in_recovery && !self.repairs_timeout() && self.board.is_empty();
        if !tcp.tail_loss_probe || !calm || !self.outstanding() {
            return false;
        }
        let (rto, srtt) = (self.rtt.rto(), self.rtt.smoothed());
        let Some(timing) = self.timing.as_mut().filter(|timing| !timing.flight.has_lost() && timing.flight.len() > 0)
        else {
            return false;
        };
        let wait = srtt.map_or(tcp.rto_initial, |srtt| {
            // A single segment may wait for the peer's delayed ACK.
            let more = if timing.flight.len() == 1 { tcp.rto_min_of_timers().0 } else { tcp.timer_margin.0 };
            Duration(2 * srtt.0 + more)
        });
        timing.timer = Timer::Probe;
        self.arm(now, wait.min(rto));
        self.timeout_at = self.timeout_at.min(latest);
        true
    }

    /// RFC 8985 section 7.3: new data if there is any, the last segment again if not.
    #[cold]
    fn on_probe_timer(&mut self, now: u64, tcp: &Tcp, template: &Packet, out: &mut Outbox) {
        let Some(&Sent { start, end, .. }) = self.timing.as_ref().and_then(|timing| timing.flight.last()) else {
            return self.resume_timer(now);
        };
        if self.timing.as_ref().is_some_and(|timing| timing.probe.after > 0) {
            return self.resume_timer(now);
        }
        self.signal_timer(out, EventKind::TailProbe, Some(self.timer()));
        let new = self.new_payload(now, tcp);
        if let Some(payload) = new {
            self.next = self.emit(now, tcp, template, self.next, payload, out);
        } else {
            let repaired_to = self.retransmitted_to;
            self.retransmit(now, tcp, Hole { start, end }, template, out);
            if start > self.una {
                // That a probe is lost says nothing of the segments before it.
                self.retransmitted_to = repaired_to;
            }
        }
        let after = self.highest + 1;
        if let Some(timing) = &mut self.timing {
            timing.probe = Probe { after, repeated: new.is_none() };
            timing.timer = Timer::Retransmission;
        }
        self.arm(now, self.rtt.rto());
    }

    /// What an ACK up to `ack`, with news or without, says of the probe (RFC 8985 section 7.4.2). Whether it repaired a
    /// loss that nothing else has told of: the window is then reduced.
    #[inline]
    pub(super) fn answers_probe(&mut self, tcp: &Tcp, ack: u64, news: bool) -> bool {
        // Asked with every ACK, and hardly ever is a probe under way.
        let probed = self.timing.as_ref().is_some_and(|timing| timing.probe.after > 0);
        probed && self.judge_probe(tcp, ack, news)
    }

    #[cold]
    fn judge_probe(&mut self, tcp: &Tcp, ack: u64, news: bool) -> bool {
        let Some(timing) = self.timing.as_mut().filter(|_| tcp.tail_loss_probe) else {
            return false;
        };
        let Probe { after, repeated } = timing.probe;
        let end = after - 1;
        if ack < end {
            return false;
        }
        let repaired = repeated && ack > end;
        // Beyond its end, or a duplicate: both transmissions have arrived.
        if !repeated || repaired || !news {
            timing.probe.settle();
        }
        repaired && !self.in_recovery && !self.repairs_timeout()
    }

    /// The probe has repaired a loss: one cut, and no recovery.
    #[cold]
    pub(super) fn reduce_for_probe(&mut self, now: u64, ack: &Ack) {
        let view = self.view(now);
        self.sender.on_loss(&view);
        self.sender.on_recovered(&view, ack);
        self.cwr_wanted = self.sender.ecn_capable();
    }

    /// Recovery has begun: the first segment that is lost leaves, whatever the window says.
    pub(super) fn begin_recovery_by_rack(&mut self, now: u64, tcp: &Tcp, template: &Packet, out: &mut Outbox) {
        let Some(timing) = &mut self.timing else { return };
        timing.probe.settle();
        if let Some(hole) = timing.flight.next_lost().map(|sent| Hole { start: sent.start, end: sent.end }) {
            self.retransmit(now, tcp, hole, template, out);
            self.after_repair(now, hole.start);
        }
    }

    /// What is lost has left again: if it is the first segment in flight, its timeout begins anew, unless the timer tells what
    /// else is lost (`tcp_xmit_retransmit_queue`).
    fn after_repair(&mut self, now: u64, start: u64) {
        let rto = self.rtt.rto();
        if let Some(timing) = self.timing.as_mut().filter(|timing| timing.timer != Timer::Reordering)
            && start <= self.una
        {
            timing.timer = Timer::Retransmission;
            self.arm(now, rto);
        }
    }

    /// An ACK in recovery for new data, but not for all of it; `delivered` bytes are news.
    pub(super) fn on_partial_ack_by_rack(&mut self, now: u64, tcp: &Tcp, delivered: u64) {
        let found = self.find_lost(now, tcp);
        self.reduce(tcp, delivered, !found.lost);
        if found.wait.is_none() {
            self.restart_timer(now, tcp);
        }
    }

    /// Sends what is lost, and then new data, as far as there is room in the network.
    #[cold]
    pub(super) fn output_by_rack(&mut self, now: u64, tcp: &Tcp, template: &Packet, out: &mut Outbox) {
        let before = self.next;
        let full = loop {
            let mut pipe = self.pipe(tcp);
            if !tcp.limited_transmit && !self.in_recovery && !self.repairs_timeout() {
                pipe += self.board.sacked_below(self.highest);
            }
            let room = self.room(now, tcp, pipe);
            let asks = self.timing.as_ref().is_some_and(|timing| timing.doubt.asks());
            let lost = self.timing.as_ref().and_then(|timing| timing.flight.next_lost()).filter(|_| !asks);
            let lost = lost.map(|sent| Hole { start: sent.start, end: sent.end });
            let new = if lost.is_none() { self.new_payload(now, tcp) } else { None };
            let bytes = match (lost, new) {
                (Some(hole), _) => hole.end - hole.start,
                (None, Some(payload)) => payload,
                (None, None) => break false,
            };
            if bytes > room && !(pipe == 0 && self.may_leave_alone_in_recovery(now, tcp, bytes)) {
                break true;
            }
            // Beyond a gap as well; only a repair waits for nothing.
            let calm = tcp.tso_divisor > 0 && lost.is_none() && self.next == before && !self.repairs_timeout();
            if calm && self.waits_for_more(now, tcp, room.min(self.edge - self.next)) {
                break true;
            }
            if self.is_paced(now) {
                break false;
            }
            if let Some(hole) = lost {
                self.retransmit(now, tcp, hole, template, out);
                self.after_repair(now, hole.start);
            } else {
                self.reduced_by(tcp, bytes);
                self.next = self.emit(now, tcp, template, self.next, bytes, out);
            }
        };
        if self.timing.as_mut().is_some_and(|timing| timing.doubt.has_asked(self.next > before)) {
            // There was nothing new to ask with.
            return self.output_by_rack(now, tcp, template, out);
        }
        if tcp.rules.validate_window && !self.in_recovery {
            self.judge_usage(tcp, self.next > before, full, self.pipe(tcp));
        }
    }

    /// The retransmission timer expired: what is older than a round trip is lost, and the first segment leaves at once
    /// (`tcp_enter_loss`, `tcp_retransmit_timer`).
    #[cold]
    pub(super) fn repair_by_rack(&mut self, now: u64, tcp: &Tcp, template: &Packet, out: &mut Outbox) {
        let Some(timing) = &mut self.timing else { return };
        timing.probe.settle();
        timing.flight.time_out(now, timing.rack.rtt);
        let in_network = timing.flight.in_network();
        let hole = timing.flight.first().map(|sent| Hole { start: sent.start, end: sent.end });
        if in_network > 0 && self.sender.conduct().family == Family::Reno {
            let windows = self.sender.windows();
            self.sender.set_windows(Windows { cwnd: windows.cwnd + Bytes(in_network), ..windows });
        }
        match hole {
            Some(hole) => {
                self.retransmit(now, tcp, hole, template, out);
            }
            None => self.retransmit_first(now, tcp, template, out),
        }
    }
}
