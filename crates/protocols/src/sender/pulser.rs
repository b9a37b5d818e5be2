//! Pulser's sender: brakes to a safe window while the network says incast, and then has its old window back
//! (Pulser, section III).
//!
//! A wrapper: in between, and in what it learns from congestion marks, it is the sender inside, DCTCP by default.

use alloc::boxed::Box;

use super::{
    Ack, AnySender, Conduct, Congestion, MarkResponse, Restart, Sender, SenderChoice, SenderContext, SenderView,
    Windows, dctcp,
};
use crate::registry::{Capability, Conflict, Part, PartColumn, Place, Requirement};
use crate::units::{Bytes, Offset};

/// Pulser's parameters at the sender. The defaults are the authors' prototype where it speaks.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The sender whose window Pulser saves and brings back, e.g. "dctcp".
    pub inner: Box<SenderChoice>,
    /// The window during incast, in segments.
    #[schemars(range(min = 1))]
    pub safe_window: u32,
    /// What becomes of a window that is smaller than the safe one.
    pub set_safe: SetSafe,
    /// What has to be without incast marks for the old window to come back.
    pub batch: Batch,
    /// Whether the window is saved again by an incast mark on data sent after it was. Its old value is lost then.
    pub save_again: bool,
    /// What congestion marks do to the old window meanwhile.
    pub marks_in_safe: MarksInSafe,
    /// What becomes of ssthresh when the old window comes back.
    pub ssthresh: Ssthresh,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            inner: Box::new(SenderChoice::Dctcp(dctcp::Config::default())),
            safe_window: 4,
            set_safe: SetSafe::Min,
            batch: Batch::Ack,
            save_again: false,
            marks_in_safe: MarksInSafe::Cut,
            ssthresh: Ssthresh::StaySafe,
        }
    }
}

/// What becomes of a window that is smaller than the safe one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SetSafe {
    /// It stays: a sender that brakes does not speed up.
    Min,
    /// It grows to the safe one, as equation 2 reads.
    Assign,
}

/// What has to be without incast marks for the old window to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Batch {
    /// One ACK, as in the authors' prototype.
    Ack,
    /// All that was sent until the last mark was heard of, about a round trip.
    Window,
}

/// What congestion marks do to the old window meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MarksInSafe {
    /// What they do to the sender inside at any time: they cut it, once per window of data.
    Cut,
    /// Alpha learns of them. Only those on the ACK that brakes and on the one that ends it can cut the window.
    Learn,
}

/// What becomes of ssthresh when the old window comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ssthresh {
    /// It comes back with the window.
    Restore,
    /// It stays at the safe window, as in the authors' prototype.
    StaySafe,
}

/// What is kept while the window is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Saved {
    windows: Windows,
    /// What had been sent when it was saved.
    at: Offset,
    /// What had been sent when the last mark was heard of.
    batch_end: Offset,
}

/// A sender that brakes during incast.
#[derive(Clone, Debug)]
pub struct Pulser {
    inner: Box<AnySender>,
    safe: Bytes,
    set_safe: SetSafe,
    batch: Batch,
    save_again: bool,
    marks_in_safe: MarksInSafe,
    ssthresh: Ssthresh,
    /// There is incast.
    saved: Option<Saved>,
    in_recovery: bool,
    /// The windows that would have come back when the loss was found that may be undone, if there was incast then.
    before_loss: Option<Windows>,
}

impl Pulser {
    /// A sender on a new connection.
    #[must_use]
    pub fn new(config: &Config, context: &SenderContext) -> Self {
        Self {
            inner: Box::new(config.inner.build(context)),
            safe: context.mss.times(u64::from(config.safe_window.max(1))),
            set_safe: config.set_safe,
            batch: config.batch,
            save_again: config.save_again,
            marks_in_safe: config.marks_in_safe,
            ssthresh: config.ssthresh,
            saved: None,
            in_recovery: false,
            before_loss: None,
        }
    }

    /// The window that will come back, if there is incast.
    #[must_use]
    pub fn saved(&self) -> Option<Windows> {
        self.saved.map(|saved| saved.windows)
    }

    /// Whether an ACK tells that the incast is over.
    fn restores(&self, view: &SenderView, ack: &Ack) -> bool {
        let through = |saved: &Saved| self.batch == Batch::Ack || view.una >= saved.batch_end;
        !ack.ein && self.saved.as_ref().is_some_and(through)
    }

    /// Lets the sender inside answer an ACK with the window from before the incast. It may be cut, but does not grow.
    fn answer(&mut self, respond: impl FnOnce(&mut AnySender) -> MarkResponse) -> MarkResponse {
        let braked = self.inner.windows();
        let before = self.saved().unwrap_or(braked);
        self.inner.set_windows(before);
        let response = respond(&mut self.inner);
        let after = self.inner.windows();
        let outside = if after.cwnd < before.cwnd { after } else { before };
        match &mut self.saved {
            Some(saved) => {
                saved.windows = outside;
                self.inner.set_windows(braked);
            }
            None => self.inner.set_windows(outside),
        }
        response
    }

    /// Where windows are saved again, forgets what was saved if an ACK is to do so: what that ACK tells besides is
    /// of the window in use.
    fn forget(&mut self, view: &SenderView, ack: &Ack) {
        let again = self.save_again && ack.ein && ack.may_move_window;
        if again && self.saved.is_some_and(|saved| view.una > saved.at) {
            self.saved = None;
        }
    }

    /// Looks at an ACK's incast mark, outside recovery.
    fn heed(&mut self, view: &SenderView, ack: &Ack) {
        if ack.ein {
            match &mut self.saved {
                Some(saved) => saved.batch_end = view.nxt,
                None if ack.may_move_window => self.brake(view),
                None => {}
            }
        } else if self.restores(view, ack) {
            self.restore();
        }
    }

    /// The threshold that a loss leaves of the window from before the incast, once the sender inside has answered the loss
    /// with it: that answer, which does not cut again what a mark has cut already, or the cut of the window, which
    /// does not take the little that the brake lets be in flight for what the path bears.
    fn left_by_loss(&self, view: &SenderView, saved: Windows) -> Bytes {
        self.inner.windows().ssthresh.max(self.inner.cut(view, saved, Congestion::Loss).ssthresh)
    }

    /// The window that is to come back has changed.
    fn keep(&mut self, windows: Windows) {
        if let Some(saved) = &mut self.saved {
            saved.windows = windows;
        }
    }

    fn brake(&mut self, view: &SenderView) {
        let windows = self.inner.windows();
        self.saved = Some(Saved { windows, at: view.nxt, batch_end: view.nxt });
        let cwnd = match self.set_safe {
            SetSafe::Min => windows.cwnd.min(self.safe),
            SetSafe::Assign => self.safe,
        };
        let ssthresh = match self.ssthresh {
            Ssthresh::Restore => windows.ssthresh,
            Ssthresh::StaySafe => self.safe,
        };
        self.inner.set_windows(Windows { cwnd, ssthresh });
    }

    fn restore(&mut self) {
        let Some(Saved { windows, .. }) = self.saved.take() else { return };
        let ssthresh = match self.ssthresh {
            Ssthresh::Restore => windows.ssthresh,
            Ssthresh::StaySafe => self.inner.windows().ssthresh,
        };
        self.inner.set_windows(Windows { ssthresh, ..windows });
    }
}

impl Sender for Pulser {
    fn inner(&self) -> Option<&dyn Sender> {
        Some(&*self.inner)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn Sender> {
        Some(&mut *self.inner)
    }

    fn conduct(&self) -> Conduct {
        Conduct { brakes: true, ..self.inner.conduct() }
    }

    fn on_ack(&mut self, view: &SenderView, ack: &Ack) -> MarkResponse {
        self.forget(view, ack);
        if self.saved.is_none() && !(ack.ein && ack.may_move_window) {
            return self.inner.on_ack(view, ack);
        }
        // A congestion mark is not lost because an incast begins or ends with the same ACK.
        let heard = self.saved.is_none() || self.restores(view, ack) || self.marks_in_safe == MarksInSafe::Cut;
        let may_move_window = ack.may_move_window && heard;
        let response = self.answer(|inner| inner.on_ack(view, &Ack { may_move_window, ..*ack }));
        self.heed(view, ack);
        response
    }

    fn on_duplicate_ack(&mut self, view: &SenderView, ack: &Ack) -> MarkResponse {
        if self.in_recovery || (self.saved.is_none() && !ack.ein) {
            return self.inner.on_duplicate_ack(view, ack);
        }
        self.forget(view, ack);
        let heard = self.saved.is_none() || self.marks_in_safe == MarksInSafe::Cut;
        let may_move_window = ack.may_move_window && heard;
        let response = self.answer(|inner| inner.on_duplicate_ack(view, &Ack { may_move_window, ..*ack }));
        // A duplicate says nothing of a batch that has gone through.
        if ack.ein {
            self.heed(view, ack);
        }
        response
    }

    fn on_loss(&mut self, view: &SenderView) {
        self.in_recovery = true;
        self.before_loss = self.saved();
        let Some(saved) = self.saved() else { return self.inner.on_loss(view) };
        let braked = self.inner.windows();
        self.inner.set_windows(saved);
        self.inner.on_loss(view);
        // Above its threshold the window has what recovery lends it.
        let Windows { cwnd, ssthresh } = self.inner.windows();
        let lent = cwnd.saturating_sub(ssthresh);
        let ssthresh = self.left_by_loss(view, saved);
        self.keep(Windows { cwnd: ssthresh.min(saved.cwnd), ssthresh });
        // The window in use is cut too. It does not grow by that, however much is in flight or was cut before.
        let left = self.inner.cut(view, braked, Congestion::Loss).cwnd.min(braked.cwnd);
        self.inner.set_windows(Windows { cwnd: left + lent, ssthresh: left });
    }

    fn on_partial_ack(&mut self, view: &SenderView, ack: &Ack) {
        self.inner.on_partial_ack(view, ack);
    }

    fn on_recovered(&mut self, view: &SenderView, ack: &Ack) {
        self.inner.on_recovered(view, ack);
        self.in_recovery = false;
        self.before_loss = None;
        if self.saved.is_some() || ack.ein {
            // The window does not grow by this ACK.
            let windows = self.inner.windows();
            let most = if self.saved.is_some() { self.safe } else { Windows::UNLIMITED };
            self.inner.set_windows(Windows { cwnd: windows.cwnd.min(windows.ssthresh).min(most), ..windows });
        }
        self.forget(view, ack);
        self.heed(view, ack);
    }

    fn on_timeout(&mut self, view: &SenderView, again: bool) {
        if !again && !self.in_recovery {
            self.before_loss = self.saved();
        }
        self.in_recovery = false;
        let Some(saved) = self.saved.take().map(|saved| saved.windows) else {
            return self.inner.on_timeout(view, again);
        };
        let braked = self.inner.windows();
        let left = if again { braked } else { self.inner.cut(view, braked, Congestion::Loss) };
        self.inner.set_windows(saved);
        self.inner.on_timeout(view, again);
        // The same timeout again says nothing new.
        let ssthresh = if again { braked.ssthresh } else { self.left_by_loss(view, saved) };
        self.inner.set_windows(Windows { cwnd: self.inner.windows().cwnd.min(left.cwnd).min(braked.cwnd), ssthresh });
    }

    fn on_undo(&mut self, before: Windows) {
        self.in_recovery = false;
        let braked_then = self.before_loss.take();
        let outside = braked_then.unwrap_or(before);
        match &mut self.saved {
            Some(saved) => {
                saved.windows.cwnd = saved.windows.cwnd.max(outside.cwnd);
                saved.windows.ssthresh = saved.windows.ssthresh.max(outside.ssthresh);
                let cwnd = if braked_then.is_some() { before.cwnd } else { Bytes::ZERO };
                self.inner.on_undo(Windows { cwnd, ..before });
            }
            None => self.inner.on_undo(Windows { cwnd: outside.cwnd.max(before.cwnd), ..before }),
        }
    }

    fn on_restart(&mut self, why: Restart) {
        self.restore();
        self.in_recovery = false;
        if matches!(why, Restart::Fresh) {
            self.before_loss = None;
        }
        self.inner.on_restart(why);
    }

    fn send_window(&self, view: &SenderView) -> Bytes {
        self.inner.send_window(view)
    }

    fn windows(&self) -> Windows {
        self.inner.windows()
    }

    fn set_windows(&mut self, windows: Windows) {
        self.inner.set_windows(windows);
    }

    fn cut(&self, view: &SenderView, windows: Windows, why: Congestion) -> Windows {
        self.inner.cut(view, windows, why)
    }
}

impl Part for Pulser {
    type Config = Config;
    const SUMMARY: &'static str =
        "brakes to a safe window during incast, then has its old window back; DCTCP otherwise";
    const SOURCE: &'static str = "Pulser, section III";
    const REQUIRES: &'static [Requirement] = &[
        Requirement {
            place: Place::Marker,
            capability: Capability::IncastMarks,
            because: "Pulser is told of incast by the switch: give its ports the marker \"ein\"",
        },
        Requirement {
            place: Place::Echo,
            capability: Capability::IncastEcho,
            because: "Pulser has to hear of incast marks: use the echo \"pulser\"",
        },
    ];
    const DEVIATIONS: &'static [&'static str] = &[
        "The \"current batch of packets\" is not defined in the paper: here one ACK, as in the authors' prototype, or all \
         that was sent until the last mark was heard of (batch = \"window\").",
        "A mark that comes while the window is safe does not save again: the text would lose the old window, as the \
         prototype does after a window of data (save_again).",
        "A window below the safe one stays as it is; equation 2 would raise it (set_safe = \"assign\").",
        "What a congestion mark does during incast the paper does not say, and the prototype has none: here it cuts the \
         window that will come back, as it would cut the sender inside (marks_in_safe).",
        "A loss while the window is safe cuts the window that will come back, as the sender inside would, once for a congestion; \
         the safe window is cut too, and never grows by that. A timeout forgets the old window, and leaves what that cut would \
         as ssthresh. The paper is silent.",
        "ssthresh stays at the safe window, as in the authors' prototype; the paper does not speak of it.",
    ];

    fn column(config: &Config) -> Option<PartColumn> {
        config.inner.column()
    }

    fn check(config: &Config) -> Result<(), Conflict> {
        config.inner.check().map_err(|conflict| conflict.inside("inner"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::tests::Script;
    use crate::sender::{Growth, LossBasis, RecoveryExit, WindowRules};
    use std::vec::Vec;

    const MSS: u64 = 1000;

    fn pulser(change: impl Fn(&mut Config)) -> Script<Pulser> {
        let mut config = Config::default();
        change(&mut config);
        let mut script = Script::new(MSS, 20, |context| Pulser::new(&config, context));
        script.sender.set_windows(Windows { cwnd: Bytes(20 * MSS), ssthresh: Bytes(15 * MSS) });
        script.send_window_full();
        script
    }

    fn ack(script: &mut Script<Pulser>, ein: bool, ece: bool) -> u64 {
        script.ack_one_segment_with(ece, ein);
        segments(script).0
    }

    /// Window and ssthresh.
    fn segments(script: &Script<Pulser>) -> (u64, u64) {
        let Windows { cwnd, ssthresh } = script.sender.windows();
        (cwnd.0 / MSS, ssthresh.0 / MSS)
    }

    fn saved_segments(script: &Script<Pulser>) -> Option<u64> {
        script.sender.saved().map(|windows| windows.cwnd.0 / MSS)
    }

    /// Brakes at once, never saves twice, and has its window back with the first ACK without a mark.
    #[test]
    fn it_brakes_to_four_segments_and_then_has_its_window_back() {
        let mut script = pulser(|_| ());
        assert_eq!((ack(&mut script, true, false), saved_segments(&script)), (4, Some(20)));
        assert_eq!((ack(&mut script, true, false), saved_segments(&script)), (4, Some(20)));
        assert_eq!((ack(&mut script, false, false), saved_segments(&script)), (20, None));
        assert_eq!(segments(&script).1, 4, "as in the prototype");
    }

    #[test]
    fn the_batch_may_be_a_window_and_ssthresh_come_back() {
        let mut script = pulser(|config| {
            config.batch = Batch::Window;
            config.ssthresh = Ssthresh::Restore;
        });
        ack(&mut script, true, false);
        ack(&mut script, true, false);
        // 18 segments were in flight at the second mark: the last of their ACKs ends it.
        for _ in 0..17 {
            assert_eq!(ack(&mut script, false, false), 4);
        }
        assert_eq!((ack(&mut script, false, false), saved_segments(&script)), (20, None));
        assert_eq!(segments(&script).1, 15);
    }

    #[test]
    fn a_window_that_is_small_already_is_raised_only_by_equation_2() {
        for (set_safe, braked) in [(SetSafe::Min, 3), (SetSafe::Assign, 4)] {
            let mut script = pulser(|config| config.set_safe = set_safe);
            script.sender.set_windows(Windows { cwnd: Bytes(3 * MSS), ssthresh: Bytes(3 * MSS) });
            assert_eq!((ack(&mut script, true, false), saved_segments(&script)), (braked, Some(3)));
        }
    }

    /// The text saves at every mark; the prototype once per window of data, and then the old window is lost.
    #[test]
    fn it_may_save_again_after_a_window() {
        let mut script = pulser(|config| config.save_again = true);
        for _ in 0..20 {
            assert_eq!((ack(&mut script, true, false), saved_segments(&script)), (4, Some(20)));
        }
        script.send_window_full();
        assert_eq!((ack(&mut script, true, false), saved_segments(&script)), (4, Some(4)));
    }

    /// What a mark on that ACK cuts is the window that is saved now, not the one that is lost.
    #[test]
    fn a_mark_counts_on_an_ack_that_saves_again() {
        let mut script = pulser(|config| config.save_again = true);
        ack(&mut script, true, false);
        while saved_segments(&script) == Some(20) && script.view().una < script.view().nxt {
            ack(&mut script, true, false);
        }
        script.send_window_full();
        assert_eq!((ack(&mut script, true, true), saved_segments(&script)), (2, Some(2)));
    }

    #[test]
    fn a_timeout_forgets_the_window_and_leaves_half_of_it_as_ssthresh() {
        let mut script = pulser(|_| ());
        ack(&mut script, true, false);
        script.timeout();
        assert_eq!((segments(&script), saved_segments(&script)), ((1, 10), None));
    }

    #[test]
    fn a_loss_meanwhile_halves_what_comes_back() {
        let mut script = pulser(|_| ());
        ack(&mut script, true, false);
        script.duplicate_ack(false);
        script.duplicate_ack(false);
        script.third_duplicate();
        assert_eq!(saved_segments(&script), Some(10));
        script.recover_fully();
        assert_eq!(segments(&script).0, 10, "all of it was without a mark");
    }

    /// As where recovery counts what is in flight, and lends the window nothing.
    fn repaired_by_sack(loss_basis: LossBasis) -> Script<Pulser> {
        let mut script = Script::new(MSS, 20, |context| {
            let rules = WindowRules { loss_basis, inflate_in_recovery: false, ..context.rules };
            Pulser::new(&Config::default(), &SenderContext { rules, ..*context })
        });
        script.send_window_full();
        script
    }

    /// 20 segments in flight, of which a mark has left a window of 10 that will come back: the loss of one of them is the
    /// same congestion.
    #[test]
    fn a_loss_after_a_mark_cuts_once_and_the_window_in_use_does_not_grow() {
        for loss_basis in [LossBasis::Flight, LossBasis::Cwnd] {
            let mut script = repaired_by_sack(loss_basis);
            ack(&mut script, true, false);
            assert_eq!((ack(&mut script, true, true), saved_segments(&script)), (4, Some(10)));
            script.third_duplicate();
            let left = if loss_basis == LossBasis::Flight { 9 } else { 10 };
            assert_eq!((segments(&script), saved_segments(&script)), ((2, 2), Some(left)));
            script.timeout();
            assert_eq!((segments(&script), saved_segments(&script)), ((1, left), None));
        }
    }

    /// Nothing had been lost: both windows are as before, and recovery is over.
    #[test]
    fn an_undone_loss_leaves_both_windows_as_before() {
        let mut script = repaired_by_sack(LossBasis::Cwnd);
        ack(&mut script, true, false);
        let before = script.sender.windows();
        script.third_duplicate();
        script.sender.on_undo(before);
        assert_eq!((segments(&script), saved_segments(&script)), ((4, 4), Some(20)));
        // The sender inside hears of it too: it would take a duplicate for one of recovery otherwise, and grow.
        script.duplicate_ack(false);
        assert_eq!(segments(&script).0, 4);
        assert_eq!(ack(&mut script, false, false), 20);
        // A duplicate with an incast mark brakes, as outside recovery.
        let _ = script.sender.on_duplicate_ack(
            &script.view(),
            &Ack {
                acked: Bytes::ZERO,
                delivered: Bytes(MSS),
                rtt: None,
                ece: false,
                ein: true,
                telemetry: None,
                may_move_window: true,
            },
        );
        assert_eq!((segments(&script).0, saved_segments(&script)), (4, Some(20)));
    }

    #[test]
    fn an_undone_timeout_gives_back_what_it_made_forget() {
        let mut script = pulser(|_| ());
        ack(&mut script, true, false);
        let before = script.sender.windows();
        script.timeout();
        script.sender.on_undo(before);
        assert_eq!((segments(&script).0, saved_segments(&script)), (20, None));
        // If the incast began after the timeout, the window that comes back is the one from before both.
        let mut script = pulser(|_| ());
        let before = script.sender.windows();
        script.timeout();
        ack(&mut script, true, false);
        script.sender.on_undo(before);
        assert_eq!((segments(&script).0, saved_segments(&script)), (1, Some(20)));
    }

    /// Linux keeps windows in whole segments, and so does what comes back.
    #[test]
    fn what_comes_back_is_whole_segments_where_windows_are_kept_so() {
        let segmented = || {
            let mut script = Script::new(MSS, 20, |context| {
                let rules = WindowRules { growth: Growth::Segments, ..context.rules };
                Pulser::new(&Config::default(), &SenderContext { rules, ..*context })
            });
            script.sender.set_windows(Windows { cwnd: Bytes(5 * MSS), ssthresh: Bytes(5 * MSS) });
            script.send_window_full();
            ack(&mut script, true, false);
            script
        };
        let mut script = segmented();
        script.third_duplicate();
        assert_eq!(script.sender.saved().map(|windows| windows.cwnd), Some(Bytes(2 * MSS)));
        script.recover_fully();
        assert_eq!(script.sender.windows().cwnd, Bytes(2 * MSS));
        let mut script = segmented();
        ack(&mut script, true, true);
        assert_eq!(script.sender.saved().map(|windows| windows.cwnd), Some(Bytes(3 * MSS)), "a mark");
    }

    /// Alpha is learned on in both. The marks on the first and last ACK count in both too.
    #[test]
    fn congestion_marks_meanwhile() {
        // One mark on the ACK that brakes, on all ACKs in between, or on the ACK that ends it.
        let back = |marks_in_safe, marks: [bool; 3]| {
            let mut script = pulser(|config| config.marks_in_safe = marks_in_safe);
            ack(&mut script, true, marks[0]);
            for _ in 0..18 {
                assert_eq!(ack(&mut script, true, marks[1]), 4);
            }
            ack(&mut script, false, marks[2])
        };
        let only = |place: usize| std::array::from_fn(|index| index == place);
        for (marks_in_safe, in_between) in [(MarksInSafe::Cut, 10), (MarksInSafe::Learn, 20)] {
            assert_eq!(back(marks_in_safe, only(0)), 10);
            assert_eq!(back(marks_in_safe, only(1)), in_between);
            assert_eq!(back(marks_in_safe, only(2)), 10);
            assert_eq!(back(marks_in_safe, [true; 3]), 10, "once per window of data");
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]
        /// Whatever the incast marks: a flow that hears of congestion has a bounded window under each reading.
        #[test]
        fn a_window_that_hears_of_congestion_is_bounded(
            incast in proptest::collection::vec(proptest::prelude::any::<bool>(), 1..12),
            with_mark in 0usize..2,
            reading in 0u8..32,
        ) {
            let mut script = pulser(|config| {
                let is = |bit: u8| reading >> bit & 1 == 1;
                config.batch = if is(0) { Batch::Window } else { Batch::Ack };
                config.ssthresh = if is(1) { Ssthresh::Restore } else { Ssthresh::StaySafe };
                config.marks_in_safe = if is(2) { MarksInSafe::Learn } else { MarksInSafe::Cut };
                config.set_safe = if is(3) { SetSafe::Assign } else { SetSafe::Min };
                config.save_again = is(4);
            });
            // Every ACK has a congestion mark, or those with an incast mark and the first without.
            let mut before = false;
            for &ein in incast.iter().cycle().take(5_000) {
                let ece = with_mark == 0 || ein || before;
                before = ein;
                script.ack_one_segment_with(ece, ein);
                script.send_window_full();
                let longest = script.sender.saved().map_or(0, |saved| saved.cwnd.0).max(script.sender.windows().cwnd.0);
                let growth = if incast.iter().any(|ein| *ein) || with_mark == 0 { 4 } else { 5_000 };
                proptest::prop_assert!(longest <= (20 + growth) * MSS, "{}", longest / MSS);
            }
        }
    }

    fn told(ein: bool, ece: bool, may_move_window: bool) -> Ack<'static> {
        let (acked, delivered) = (Bytes::ZERO, Bytes(MSS));
        Ack { acked, delivered, rtt: None, ece, ein, telemetry: None, may_move_window }
    }

    /// Whatever happens: growth, marks, loss, recovery, idle time, a new message.
    #[test]
    fn without_incast_it_is_the_sender_inside() {
        fn play(script: &mut Script<impl Sender>) -> Vec<Windows> {
            let mut seen = Vec::new();
            script.sender.set_windows(Windows { cwnd: Bytes(20 * MSS), ssthresh: Bytes(15 * MSS) });
            script.send_window_full();
            for ece in [false, false, true, false, false] {
                script.ack_one_segment(ece);
                seen.push(script.sender.windows());
            }
            script.send_window_full();
            script.duplicate_ack(false);
            script.duplicate_ack(false);
            script.third_duplicate();
            script.duplicate_ack(false);
            seen.push(script.sender.windows());
            let view = SenderView { una: Offset(script.view().una.0 + 3 * MSS), ..script.view() };
            script.sender.on_partial_ack(&view, &Ack { acked: Bytes(3 * MSS), ..told(false, false, true) });
            seen.push(script.sender.windows());
            script.recover_fully();
            seen.push(script.sender.windows());
            script.sender.on_restart(Restart::Fresh);
            seen.push(script.sender.windows());
            seen
        }
        let mut pulser = Script::new(MSS, 10, |context| Pulser::new(&Config::default(), context));
        let mut dctcp = Script::new(MSS, 10, |context| dctcp::Dctcp::new(&dctcp::Config::default(), context));
        assert_eq!(play(&mut pulser), play(&mut dctcp));
        assert_eq!(pulser.sender.alpha(), dctcp.sender.alpha());
        assert!(pulser.sender.inner_mut().is_some(), "it passes on what it is told");
        assert_eq!(pulser.sender.conduct(), Conduct { brakes: true, ..dctcp.sender.conduct() });
    }

    /// The paper does not say whether slow start ends there, as it would in the sender inside.
    #[test]
    fn a_mark_that_leaves_the_least_window_leaves_the_threshold_that_comes_back() {
        let mut script = pulser(|config| config.ssthresh = Ssthresh::Restore);
        script.sender.set_windows(Windows { cwnd: Bytes(2 * MSS), ssthresh: Bytes(15 * MSS) });
        assert_eq!((ack(&mut script, true, true), ack(&mut script, false, false)), (2, 2));
        assert_eq!(segments(&script).1, 15);
    }

    #[test]
    fn more_than_a_window_of_incast_marks_loses_nothing() {
        let mut script = pulser(|_| ());
        for _ in 0..30 {
            script.send_window_full();
            assert_eq!((ack(&mut script, true, false), saved_segments(&script)), (4, Some(20)));
        }
    }

    /// Of an end that may not move its window: a wrapper around it has taken it over.
    #[test]
    fn a_mark_that_may_not_move_the_window_does_not_brake() {
        let mut script = pulser(|_| ());
        let _ = script.sender.on_duplicate_ack(&script.view(), &told(true, false, false));
        let _ = script.sender.on_ack(&script.view(), &told(true, false, false));
        assert_eq!((segments(&script).0, saved_segments(&script)), (20, None));
    }

    #[test]
    fn congestion_marks_on_duplicates_meanwhile() {
        for (marks_in_safe, back) in [(MarksInSafe::Cut, 10), (MarksInSafe::Learn, 20)] {
            let mut script = pulser(|config| config.marks_in_safe = marks_in_safe);
            ack(&mut script, true, false);
            script.duplicate_ack(true);
            assert_eq!((segments(&script).0, saved_segments(&script)), (4, Some(back)));
        }
    }

    /// A duplicate in recovery says that a segment has left the network.
    #[test]
    fn recovery_lends_the_safe_window_a_segment_for_each_duplicate() {
        let mut script = pulser(|_| ());
        ack(&mut script, true, false);
        script.third_duplicate();
        let before = segments(&script).0;
        script.duplicate_ack(false);
        assert_eq!(segments(&script).0, before + 1);
    }

    /// The end of recovery is not a growth, even where the sender inside takes it for one.
    #[test]
    fn an_incast_mark_that_ends_recovery_saves_what_recovery_leaves() {
        let mut script = Script::new(MSS, 20, |context| {
            let rules = WindowRules { recovery_exit: RecoveryExit::SsthreshGrows, ..context.rules };
            Pulser::new(&Config::default(), &SenderContext { rules, ..*context })
        });
        script.send_window_full();
        script.third_duplicate();
        let view = SenderView { una: script.view().nxt, ..script.view() };
        script.sender.on_recovered(&view, &Ack { acked: Bytes(20 * MSS), ..told(true, false, true) });
        assert_eq!((script.sender.saved().map(|saved| saved.cwnd), segments(&script).0), (Some(Bytes(10 * MSS)), 4));
    }

    /// The second timeout, or one in recovery, is of the same loss.
    #[test]
    fn an_undone_loss_gives_back_what_was_before_all_of_it() {
        for early in [false, true] {
            let mut script = pulser(|_| ());
            ack(&mut script, true, false);
            let before = script.sender.windows();
            if early {
                script.third_duplicate();
            }
            script.timeout();
            if !early {
                script.timeout_again();
            }
            script.sender.on_undo(before);
            assert_eq!(segments(&script).0, 20, "{early}");
        }
    }

    /// As a new message begins, or after idle time: what is decayed is not the safe window.
    #[test]
    fn a_restart_gives_the_old_window_back_first() {
        let mut script = pulser(|_| ());
        ack(&mut script, true, false);
        script.sender.on_restart(Restart::Decay { rtos: 1 });
        let mut inside = Script::new(MSS, 20, |context| dctcp::Dctcp::new(&dctcp::Config::default(), context));
        inside.sender.set_windows(Windows { cwnd: Bytes(20 * MSS), ssthresh: Bytes(4 * MSS) });
        inside.sender.on_restart(Restart::Decay { rtos: 1 });
        assert_eq!(script.sender.windows().cwnd, inside.sender.windows().cwnd);
        assert_eq!(saved_segments(&script), None);
    }

    #[test]
    fn its_column_and_its_faults_are_those_of_the_sender_inside() {
        let around = |inner| Config { inner: Box::new(inner), ..Config::default() };
        let hpcc = around(SenderChoice::Hpcc(Default::default()));
        assert_eq!(<Pulser as Part>::column(&hpcc).map(|column| column.name), Some("utilization"));
        let mut swift = crate::sender::swift::Config::default();
        assert_eq!(Pulser::check(&around(SenderChoice::Swift(swift.clone()))), Ok(()));
        swift.scaling_min_window = swift.scaling_max_window;
        assert!(Pulser::check(&around(SenderChoice::Swift(swift))).is_err());
    }
}
