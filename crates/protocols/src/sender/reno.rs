//! The machine that the Reno family shares (RFC 5681, RFC 6582), generic over what really differs:
//! how the window grows, how a mark or a loss cuts it, what is learned from marks.

use super::{
    Ack, Growth, LossBasis, MarkResponse, Restart, Sender, SenderContext, SenderView, WindowRules, Windows,
};
use crate::message::Message;
use crate::units::{Bytes, Offset};

/// What a member of the family decides for itself. The defaults are NewReno's.
pub trait Variant {
    /// Its packets are ECN-capable.
    const ECN_CAPABLE: bool;

    /// A message begins.
    fn on_message(&mut self, _view: &SenderView, _message: &Message) {}

    /// Learns from the marks on any ACK; `acked` counts one MSS for a duplicate.
    fn account(&mut self, _view: &SenderView, _acked: Bytes, _ece: bool) {}

    /// Grows the window for one ACK of `acked` new bytes.
    fn grow(&mut self, window: &mut Window, _view: &SenderView, acked: Bytes) {
        window.grow_as_reno(acked);
    }

    /// The window after a cut by marks, before the floor is applied.
    fn cut_by_mark(&mut self, cwnd: Bytes, view: &SenderView) -> Bytes;

    /// The new ssthresh after a loss of which `basis` is what conventional TCP halves.
    fn cut_by_loss(&mut self, basis: Bytes, _view: &SenderView) -> Bytes {
        Bytes(basis.0 / 2)
    }

    /// A new connection's window was asked for: forget what was learned.
    fn forget(&mut self) {}

    /// Share of marked bytes in 1/1024.
    fn alpha(&self) -> Option<u32> {
        None
    }
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
    /// Slow start below ssthresh, else about one MSS per round trip (RFC 5681 equations 2 and 3).
    #[inline]
    pub fn grow_as_reno(&mut self, acked: Bytes) {
        if self.cwnd < self.ssthresh {
            self.cwnd += acked.min(self.mss);
            return;
        }
        match self.growth {
            Growth::Bytes => {
                self.earned += self.mss.0 * self.mss.0;
                self.cwnd += Bytes(self.earned / self.cwnd.0);
                self.earned %= self.cwnd.0;
            }
            Growth::Segments => {
                self.earned += acked.0;
                if self.earned >= self.cwnd.0 {
                    self.earned -= self.cwnd.0;
                    self.cwnd += self.mss;
                }
            }
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
    /// No second cut until the data in flight at the last one is acknowledged.
    cut_end: Offset,
    /// The window before the last cut by a mark, which a loss in the same window of data is measured by.
    before_cut: Bytes,
    in_recovery: bool,
}

impl<V: Variant> Reno<V> {
    /// A sender at the start of its connection.
    #[must_use]
    pub const fn with(variant: V, context: &SenderContext) -> Self {
        let SenderContext { mss, initial_window, rules } = *context;
        let window =
            Window { cwnd: initial_window, ssthresh: Windows::UNLIMITED, mss, growth: rules.growth, earned: 0 };
        Self { window, initial_window, rules, variant, cut_end: Offset(0), before_cut: Bytes(0), in_recovery: false }
    }

    /// Whether the data in flight at the last cut is still not all acknowledged.
    #[inline]
    const fn in_cut_window(&self, una: Offset) -> bool {
        una.0 <= self.cut_end.0 && self.cut_end.0 > 0
    }

    #[inline]
    fn learn(&mut self, view: &SenderView, ack: &Ack) {
        let counted = if ack.acked == Bytes::ZERO { self.window.mss } else { ack.acked };
        self.variant.account(view, counted, ack.ece);
    }

    /// Reacts to an echoed mark at most once per window of data (RFC 3168 section 6.1.2).
    #[inline]
    fn react_to_mark(&mut self, view: &SenderView, ack: &Ack) -> MarkResponse {
        if !ack.ece || !ack.may_move_window || self.in_cut_window(view.una) {
            return MarkResponse::None;
        }
        self.before_cut = self.window.cwnd;
        let floor = self.window.mss.times(self.rules.floor_segments);
        let cut = self.variant.cut_by_mark(self.window.cwnd, view).max(floor).min(self.window.cwnd.max(floor));
        self.window.set(cut);
        self.window.ssthresh = cut;
        self.cut_end = view.nxt;
        MarkResponse::Reduced
    }

    /// The new ssthresh after a loss: never less than two segments (RFC 5681 equation 4). Where the
    /// window was already cut by a mark in this window of data, the loss is measured by what it was
    /// before, so that one congestion event is not answered by the product of two cuts.
    fn cut_by_loss(&mut self, view: &SenderView) {
        let basis = match self.rules.loss_basis {
            LossBasis::Flight => view.flight(),
            LossBasis::Cwnd if self.in_cut_window(view.una) => self.before_cut.max(self.window.cwnd),
            LossBasis::Cwnd => self.window.cwnd,
        };
        self.window.ssthresh = self.variant.cut_by_loss(basis, view).max(self.window.mss.times(2));
        self.cut_end = view.nxt;
        self.before_cut = Bytes::ZERO;
    }
}

impl<V: Variant> Sender for Reno<V> {
    fn on_message(&mut self, view: &SenderView, message: &Message) {
        self.variant.on_message(view, message);
    }

    #[inline]
    fn on_ack(&mut self, view: &SenderView, ack: &Ack) -> MarkResponse {
        self.learn(view, ack);
        let response = self.react_to_mark(view, ack);
        // An ACK that carries ECE does not grow the window.
        if !ack.ece && ack.may_move_window {
            self.variant.grow(&mut self.window, view, ack.acked);
        }
        response
    }

    #[inline]
    fn on_duplicate_ack(&mut self, view: &SenderView, ack: &Ack) -> MarkResponse {
        self.learn(view, ack);
        if self.in_recovery {
            // A segment has left the network: RFC 5681 section 3.2, step 4.
            if self.rules.inflate_in_recovery {
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
        if self.rules.inflate_in_recovery {
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
        // RFC 6582 section 3.2, step 3, option 1: no burst when little is in flight.
        let flight = view.flight().max(self.window.mss) + self.window.mss;
        self.window.set(self.window.ssthresh.min(flight));
    }

    fn on_timeout(&mut self, view: &SenderView, again: bool) {
        if again {
            self.cut_end = view.nxt;
        } else {
            self.cut_by_loss(view);
        }
        self.in_recovery = false;
        // The loss window of RFC 5681 section 3.1.
        self.window.set(self.window.mss);
    }

    fn on_restart(&mut self, why: Restart) {
        match why {
            Restart::Idle => self.window.set(self.window.cwnd.min(self.initial_window)),
            Restart::Fresh => {
                self.window.set(self.initial_window);
                self.window.ssthresh = Windows::UNLIMITED;
                self.variant.forget();
            }
        }
    }

    #[inline]
    fn send_window(&self, view: &SenderView) -> Bytes {
        self.window.cwnd.min(view.advertised)
    }

    #[inline]
    fn windows(&self) -> Windows {
        Windows { cwnd: self.window.cwnd, ssthresh: self.window.ssthresh }
    }

    fn set_windows(&mut self, windows: Windows) {
        self.window.set(windows.cwnd);
        self.window.ssthresh = windows.ssthresh;
    }

    fn alpha(&self) -> Option<u32> {
        self.variant.alpha()
    }

    fn ecn_capable(&self) -> bool {
        V::ECN_CAPABLE
    }
}
