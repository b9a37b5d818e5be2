//! The machine that the Reno family shares (RFC 5681, RFC 6582), generic over what really differs:
//! how the window grows, how a mark or a loss cuts it, what is learned from marks.

use super::{
    Ack, Conduct, Congestion, Growth, GrowthCounts, LossBasis, MarkResponse, RecoveryExit, Restart, Sender,
    SenderContext, SenderView, WindowRules, Windows,
};
use crate::message::Message;
use crate::units::{Bytes, Offset};

/// What a member of the family decides for itself. The defaults are those of `NewReno`.
///
/// A member around another one overrides [`inner`](Self::inner) and [`inner_mut`](Self::inner_mut): every method with a
/// default asks the one inside first.
#[auto_impl::auto_impl(Box)]
pub trait Variant: core::fmt::Debug {
    /// The member inside, if this one is around another.
    fn inner(&self) -> Option<&dyn Variant> {
        None
    }

    /// The same, to tell it something.
    fn inner_mut(&mut self) -> Option<&mut dyn Variant> {
        None
    }

    /// Its packets are ECN-capable.
    fn ecn_capable(&self) -> bool;

    /// A message begins.
    fn on_message(&mut self, view: &SenderView, message: &Message) {
        if let Some(inner) = self.inner_mut() {
            inner.on_message(view, message);
        }
    }

    /// Learns from the marks on any ACK. `delivered` is what it tells of for the first time: a duplicate
    /// tells of one segment beyond the gap, which the ACK that closes the gap does not count again.
    #[inline]
    fn account(&mut self, view: &SenderView, delivered: Bytes, ece: bool) {
        if let Some(inner) = self.inner_mut() {
            inner.account(view, delivered, ece);
        }
    }

    /// Learns from what any ACK measures, before the window grows; it may end slow start.
    #[inline]
    fn measure(&mut self, window: &mut Window, view: &SenderView, ack: &Ack) {
        if let Some(inner) = self.inner_mut() {
            inner.measure(window, view, ack);
        }
    }

    /// A window is cut that `basis` measures.
    fn on_congestion(&mut self, basis: Bytes, mss: Bytes) {
        if let Some(inner) = self.inner_mut() {
            inner.on_congestion(basis, mss);
        }
    }

    /// The retransmission timer expired, and the window was cut.
    fn on_timeout(&mut self) {
        if let Some(inner) = self.inner_mut() {
            inner.on_timeout();
        }
    }

    /// Whether it works with time ([`Sender::wants_timing`]).
    fn wants_timing(&self) -> bool {
        self.inner().is_some_and(|inner| inner.wants_timing())
    }

    /// A segment left, where it works with time.
    fn on_sent(&mut self, view: &SenderView, payload: Bytes) {
        if let Some(inner) = self.inner_mut() {
            inner.on_sent(view, payload);
        }
    }

    /// Grows the window for one ACK of `acked` new bytes.
    #[inline]
    fn grow(&mut self, window: &mut Window, view: &SenderView, acked: Bytes) {
        match self.inner_mut() {
            Some(inner) => inner.grow(window, view, acked),
            None => window.grow_as_reno(acked),
        }
    }

    /// What the receiver lets be in flight.
    #[inline]
    fn receive_window(&self, view: &SenderView) -> Bytes {
        self.inner().map_or(view.advertised, |inner| inner.receive_window(view))
    }

    /// The window after a cut by marks, before the floor is applied.
    fn cut_by_mark(&self, cwnd: Bytes, view: &SenderView) -> Bytes;

    /// The new ssthresh after a loss of which `basis` is what conventional TCP halves.
    fn cut_by_loss(&self, basis: Bytes, view: &SenderView) -> Bytes {
        self.inner().map_or(Bytes(basis.0 / 2), |inner| inner.cut_by_loss(basis, view))
    }

    /// The rules that it keeps.
    fn conduct(&self) -> Conduct {
        self.inner().map_or(Conduct::RENO, |inner| inner.conduct())
    }

    /// A new connection's window was asked for: forget what was learned.
    fn forget(&mut self) {
        if let Some(inner) = self.inner_mut() {
            inner.forget();
        }
    }

    /// Share of marked bytes in 1/1024.
    fn alpha(&self) -> Option<u32> {
        self.inner()?.alpha()
    }
}

/// How fast a window grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Segments for each acknowledged in slow start.
    pub slow_start: u64,
    /// Segments for each acknowledged in congestion avoidance.
    pub avoidance: u64,
    /// Segments for each window acknowledged in congestion avoidance, besides.
    pub per_window: u64,
}

impl Pace {
    /// RFC 5681 equations 2 and 3.
    pub const RENO: Self = Self { slow_start: 1, avoidance: 0, per_window: 1 };
}

/// The congestion window with its arithmetic.
#[derive(Clone, Debug)]
pub struct Window {
    /// Congestion window.
    pub cwnd: Bytes,
    /// Slow-start threshold.
    pub ssthresh: Bytes,
    /// Payload of a full segment.
    pub mss: Bytes,
    growth: Growth,
    /// What congestion avoidance has earned but not yet added, in the unit of `growth`.
    earned: u64,
}

impl Window {
    /// Slow start below ssthresh, else about one MSS per round trip.
    #[inline]
    pub fn grow_as_reno(&mut self, acked: Bytes) {
        self.grow(acked, Pace::RENO);
    }

    /// As Reno, at another pace.
    #[inline]
    pub fn grow(&mut self, acked: Bytes, pace: Pace) {
        match self.growth {
            Growth::Bytes => self.grow_in_bytes(acked, pace),
            Growth::Segments => self.grow_in_segments(acked, pace),
        }
    }

    /// Grows by what was `acked` up to ssthresh, and says what is left of it.
    #[inline]
    pub fn slow_start(&mut self, acked: Bytes) -> Bytes {
        match self.growth {
            Growth::Bytes if self.cwnd < self.ssthresh => {
                self.cwnd += acked.min(self.mss);
                Bytes::ZERO
            }
            Growth::Bytes => acked,
            Growth::Segments => {
                let acked = Bytes(acked.0.next_multiple_of(self.mss.0));
                let grown = acked.min(self.ssthresh.saturating_sub(self.cwnd));
                self.cwnd += grown;
                acked - grown
            }
        }
    }

    /// Grows by a segment for each `per` bytes `acked`.
    #[inline]
    pub fn add_segment_per(&mut self, acked: Bytes, per: Bytes) {
        let per = per.0.max(1);
        let (earned, unit) = match self.growth {
            Growth::Bytes => (acked.0 * self.mss.0, 1),
            Growth::Segments => (acked.0, self.mss.0),
        };
        if self.growth == Growth::Segments && self.earned >= per {
            // What was earned when a segment cost more counts for one.
            self.earned = 0;
            self.cwnd += self.mss;
        }
        self.earned += earned;
        self.cwnd += Bytes(self.earned / per * unit);
        self.earned %= per;
    }

    /// RFC 5681 equations 2 and 3: at most a segment counts.
    #[inline]
    fn grow_in_bytes(&mut self, acked: Bytes, pace: Pace) {
        let acked = acked.min(self.mss);
        if self.cwnd < self.ssthresh {
            self.cwnd += acked.times(pace.slow_start);
            return;
        }
        let earned = self.earned + self.mss.0 * self.mss.0 * pace.per_window;
        self.earned = earned % self.cwnd.0;
        self.cwnd += Bytes(earned / self.cwnd.0) + acked.times(pace.avoidance);
    }

    /// As Linux counts: one segment for each acknowledged up to ssthresh, what is left of the ACK goes to
    /// congestion avoidance. At a faster pace a segment of which slow start takes a part is used up.
    #[inline]
    fn grow_in_segments(&mut self, acked: Bytes, pace: Pace) {
        let acked = Bytes(acked.0.next_multiple_of(self.mss.0));
        let slow_start = acked.times(pace.slow_start).min(self.ssthresh.saturating_sub(self.cwnd));
        let left = acked - Bytes(slow_start.0.div_ceil(pace.slow_start).next_multiple_of(self.mss.0));
        self.cwnd += slow_start;
        self.earned += left.times(pace.per_window).0;
        if self.earned >= self.cwnd.0 {
            let segments = self.earned / self.cwnd.0;
            self.earned %= self.cwnd.0;
            self.cwnd += self.mss.times(segments);
        }
        self.cwnd += left.times(pace.avoidance);
    }

    /// `amount`, without what is no whole segment where the window is kept in whole segments.
    #[inline]
    const fn whole(&self, amount: Bytes) -> Bytes {
        match self.growth {
            Growth::Bytes => amount,
            Growth::Segments => Bytes(amount.0 - amount.0 % self.mss.0),
        }
    }

    /// Sets the window, forgetting fractions earned at the old size.
    #[inline]
    pub fn set(&mut self, cwnd: Bytes) {
        self.cwnd = cwnd;
        self.earned = 0;
    }
}

/// A sender of the Reno family.
#[derive(Clone, Debug)]
pub struct Reno<V> {
    window: Window,
    initial_window: Bytes,
    rules: WindowRules,
    /// What the member adds to the machine.
    pub variant: V,
    /// The end of what had been sent at the last cut; none before the first. Marks and losses of data
    /// before it belong to the congestion that was already answered.
    cut_end: Option<Offset>,
    /// That cut was made by a mark, and the window is to stay as it is until then.
    held: bool,
    /// What a loss would have halved just before that cut.
    before_cut: Bytes,
    /// Bytes beyond the gap that duplicates have told the variant of.
    told_by_duplicates: Bytes,
    in_recovery: bool,
}

impl<V: Variant> Reno<V> {
    /// A sender at the start of its connection.
    #[must_use]
    pub const fn with(variant: V, context: &SenderContext) -> Self {
        let SenderContext { mss, initial_window, rules, .. } = *context;
        let window =
            Window { cwnd: initial_window, ssthresh: Windows::UNLIMITED, mss, growth: rules.growth, earned: 0 };
        Self {
            window,
            initial_window,
            rules,
            variant,
            cut_end: None,
            held: false,
            before_cut: Bytes::ZERO,
            told_by_duplicates: Bytes::ZERO,
            in_recovery: false,
        }
    }

    /// Whether all that an ACK up to `una` acknowledges had been sent at the last cut.
    #[inline]
    fn acks_only_before_cut(&self, una: Offset) -> bool {
        self.cut_end.is_some_and(|end| una <= end)
    }

    /// Whether the segment at `una`, which is lost, had been sent at the last cut.
    #[inline]
    fn lost_before_cut(&self, una: Offset) -> bool {
        self.cut_end.is_some_and(|end| una < end)
    }

    /// What a loss halves.
    #[inline]
    const fn loss_basis(&self, view: &SenderView) -> Bytes {
        match self.rules.loss_basis {
            LossBasis::Flight => view.flight(),
            LossBasis::Cwnd => self.window.cwnd,
        }
    }

    #[inline]
    fn learn(&mut self, view: &SenderView, ack: &Ack) {
        let mss = self.window.mss;
        let delivered = if ack.acked == Bytes::ZERO {
            // At least the segment at the gap is still missing.
            let delivered = mss.min(view.flight().saturating_sub(self.told_by_duplicates + mss));
            self.told_by_duplicates += delivered;
            delivered
        } else {
            // What closed the gap is new, whatever duplicates have told.
            let delivered = ack.acked.saturating_sub(self.told_by_duplicates).max(ack.acked.min(mss));
            self.told_by_duplicates = self.told_by_duplicates.saturating_sub(ack.acked - delivered);
            delivered
        };
        self.variant.account(view, delivered, ack.ece);
    }

    /// Reacts to an echoed mark at most once per window of data (RFC 3168 section 6.1.2).
    #[inline]
    fn react_to_mark(&mut self, view: &SenderView, ack: &Ack) -> MarkResponse {
        if !ack.ece || !ack.may_move_window || self.acks_only_before_cut(view.una) {
            return MarkResponse::None;
        }
        self.before_cut = self.loss_basis(view);
        self.variant.on_congestion(self.before_cut, self.window.mss);
        self.cut_end = Some(view.nxt);
        self.held = self.rules.hold_after_mark;
        let Windows { cwnd, ssthresh } = self.after_mark(view, self.window.cwnd);
        self.window.ssthresh = ssthresh;
        self.window.set(cwnd);
        MarkResponse::Reduced
    }

    /// Lets the window grow, unless the ACK carries ECE or the window is held.
    #[inline]
    fn grow(&mut self, view: &SenderView, ack: &Ack) {
        let held = self.held && self.acks_only_before_cut(view.una);
        if !ack.ece && ack.may_move_window && !held && (view.window_used || !self.rules.validate_window) {
            let counted = match self.rules.growth_counts {
                GrowthCounts::Acked => ack.acked,
                GrowthCounts::Delivered => ack.delivered,
            };
            self.variant.grow(&mut self.window, view, counted);
        }
    }

    /// The windows after a mark that found `cwnd`.
    #[inline]
    fn after_mark(&self, view: &SenderView, cwnd: Bytes) -> Windows {
        let cut = self.variant.cut_by_mark(cwnd, view);
        // What is removed is rounded, not what is left: Linux's `cwnd - ((cwnd * alpha) >> 11)`.
        let removed = self.window.whole(cwnd.saturating_sub(cut));
        let ssthresh = (cwnd - removed).max(self.window.mss.times(self.rules.floor_segments));
        // A window that a timeout left below the floor stays there, but for Linux.
        let most = if self.rules.mark_lifts_to_floor { Windows::UNLIMITED } else { cwnd };
        Windows { cwnd: ssthresh.min(most), ssthresh }
    }

    /// The new ssthresh after a loss that is measured by `basis`: never less than two segments (RFC 5681 equation 4).
    fn after_loss(&self, view: &SenderView, basis: Bytes) -> Bytes {
        self.window.whole(self.variant.cut_by_loss(basis, view)).max(self.window.mss.times(2))
    }

    /// Answers a loss. Where the window was already cut in this window of data, the loss is measured by what it was
    /// before, so that one congestion is not answered by the product of two cuts.
    fn cut_by_loss(&mut self, view: &SenderView) {
        let basis = match self.rules.loss_basis {
            // A timeout in recovery: RFC 5681 has the flight as it is; the window is cut and inflated.
            LossBasis::Flight if self.in_recovery => view.flight(),
            LossBasis::Cwnd if self.in_recovery => self.before_cut,
            _ if self.lost_before_cut(view.una) => self.loss_basis(view).max(self.before_cut),
            _ => self.loss_basis(view),
        };
        self.window.ssthresh = self.after_loss(view, basis);
        self.variant.on_congestion(basis, self.window.mss);
        self.before_cut = basis;
        self.cut_end = Some(view.nxt);
        self.held = false;
    }
}

impl<V: Variant + Clone> Sender for Reno<V> {
    fn on_message(&mut self, view: &SenderView, message: &Message) {
        self.variant.on_message(view, message);
    }

    #[inline]
    fn on_ack(&mut self, view: &SenderView, ack: &Ack) -> MarkResponse {
        self.learn(view, ack);
        self.variant.measure(&mut self.window, view, ack);
        let response = self.react_to_mark(view, ack);
        self.grow(view, ack);
        response
    }

    #[inline]
    fn on_duplicate_ack(&mut self, view: &SenderView, ack: &Ack) -> MarkResponse {
        self.learn(view, ack);
        if self.in_recovery {
            // A segment has left the network: RFC 5681 section 3.2, step 4.
            if self.rules.inflate_in_recovery && ack.may_move_window {
                self.window.cwnd += self.window.mss;
            }
            return MarkResponse::None;
        }
        self.react_to_mark(view, ack)
    }

    fn on_loss(&mut self, view: &SenderView) {
        self.cut_by_loss(view);
        self.in_recovery = true;
        // The three segments whose duplicates announced the loss have left the network.
        let left = if self.rules.inflate_in_recovery { self.window.mss.times(3) } else { Bytes::ZERO };
        self.window.set(self.window.ssthresh + left);
    }

    fn on_partial_ack(&mut self, view: &SenderView, ack: &Ack) {
        self.learn(view, ack);
        if self.rules.inflate_in_recovery && ack.may_move_window {
            // Deflate by what was acknowledged, keep one segment for the retransmission (RFC 6582, step 3).
            let mss = self.window.mss;
            let deflated = self.window.cwnd.saturating_sub(ack.acked);
            let kept = if ack.acked >= mss { deflated + mss } else { deflated };
            self.window.set(kept.max(mss));
        }
    }

    fn on_recovered(&mut self, view: &SenderView, ack: &Ack) {
        self.learn(view, ack);
        self.in_recovery = false;
        if ack.may_move_window {
            let most = match self.rules.recovery_exit {
                RecoveryExit::Flight => self.window.whole(view.flight()).max(self.window.mss) + self.window.mss,
                RecoveryExit::Ssthresh | RecoveryExit::SsthreshGrows => Windows::UNLIMITED,
            };
            self.window.set(self.window.ssthresh.min(most));
            if self.rules.recovery_exit == RecoveryExit::SsthreshGrows {
                self.grow(view, ack);
            }
        }
    }

    fn on_timeout(&mut self, view: &SenderView, again: bool) {
        if !again {
            self.cut_by_loss(view);
        }
        // What was in flight until now has had its answer; what is lost from here on is measured by the
        // window that grows from here on.
        self.cut_end = Some(view.nxt);
        self.before_cut = Bytes::ZERO;
        self.held = false;
        self.in_recovery = false;
        self.variant.on_timeout();
        // The loss window of RFC 5681 section 3.1.
        self.window.set(self.window.mss);
    }

    fn on_undo(&mut self, before: Windows) {
        self.in_recovery = false;
        self.cut_end = None;
        self.held = false;
        self.before_cut = Bytes::ZERO;
        self.window.set(self.window.cwnd.max(before.cwnd));
        self.window.ssthresh = self.window.ssthresh.max(before.ssthresh);
    }

    fn on_restart(&mut self, why: Restart) {
        match why {
            Restart::Idle => self.window.set(self.window.cwnd.min(self.initial_window)),
            Restart::Decay { rtos } => {
                // What the path could bear is kept in ssthresh (RFC 2861 section 3.1).
                let cwnd = self.window.cwnd;
                let three_quarters = self.window.whole(Bytes(cwnd.0 / 2)) + self.window.whole(Bytes(cwnd.0 / 4));
                self.window.ssthresh = self.window.ssthresh.max(three_quarters);
                let halved = self.window.whole(Bytes(cwnd.0.checked_shr(rtos).unwrap_or(0)));
                self.window.set(halved.max(cwnd.min(self.initial_window)));
            }
            Restart::Fresh => {
                self.window.set(self.initial_window);
                self.window.ssthresh = Windows::UNLIMITED;
                self.cut_end = None;
                self.held = false;
                self.before_cut = Bytes::ZERO;
                self.told_by_duplicates = Bytes::ZERO;
                self.in_recovery = false;
                self.variant.forget();
            }
        }
    }

    #[inline]
    fn send_window(&self, view: &SenderView) -> Bytes {
        self.window.cwnd.min(self.variant.receive_window(view))
    }

    #[inline]
    fn windows(&self) -> Windows {
        Windows { cwnd: self.window.cwnd, ssthresh: self.window.ssthresh }
    }

    fn set_windows(&mut self, windows: Windows) {
        self.window.set(windows.cwnd);
        self.window.ssthresh = windows.ssthresh;
    }

    fn cut(&self, view: &SenderView, windows: Windows, why: Congestion) -> Windows {
        match why {
            Congestion::Mark => self.after_mark(view, windows.cwnd),
            Congestion::Loss => {
                let ssthresh = self.after_loss(view, windows.cwnd);
                Windows { cwnd: ssthresh, ssthresh }
            }
        }
    }

    fn conduct(&self) -> Conduct {
        self.variant.conduct()
    }

    fn alpha(&self) -> Option<u32> {
        self.variant.alpha()
    }

    fn ecn_capable(&self) -> bool {
        self.variant.ecn_capable()
    }

    fn wants_timing(&self) -> bool {
        self.variant.wants_timing()
    }

    fn on_sent(&mut self, view: &SenderView, payload: Bytes) {
        self.variant.on_sent(view, payload);
    }
}
