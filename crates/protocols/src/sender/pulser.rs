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

/// Pulser's parameters at the sender.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The sender inside.
    pub inner: Box<SenderChoice>,
    /// The window during incast, in segments.
    #[schemars(range(min = 1))]
    pub safe_window: u32,
    /// What has to be without incast marks for the old window to come back.
    pub batch: Batch,
    /// What congestion marks do to the old window meanwhile.
    pub marks_in_safe: MarksInSafe,
    /// What becomes of ssthresh.
    pub ssthresh: Ssthresh,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            inner: Box::new(SenderChoice::Dctcp(dctcp::Config::default())),
            safe_window: 4,
            batch: Batch::Window,
            marks_in_safe: MarksInSafe::Ignore,
            ssthresh: Ssthresh::Restore,
        }
    }
}

/// What has to be without incast marks for the old window to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Batch {
    /// All that was sent until the last mark was heard of, about a round trip.
    Window,
    /// One ACK, as in the authors' prototype.
    Ack,
}

/// What congestion marks do to the old window meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MarksInSafe {
    /// Nothing: the paper promises the window from before the incast.
    Ignore,
    /// They cut it by half of alpha, once per window of data.
    Cut,
}

/// What becomes of ssthresh.
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
    /// What had been sent when the last mark was heard of.
    batch_end: Offset,
    /// Congestion marks below this have been answered.
    cut_end: Offset,
}

/// A sender that brakes during incast.
#[derive(Clone, Debug)]
pub struct Pulser {
    inner: Box<AnySender>,
    safe: Bytes,
    batch: Batch,
    marks_in_safe: MarksInSafe,
    ssthresh: Ssthresh,
    /// There is incast.
    saved: Option<Saved>,
    in_recovery: bool,
}

impl Pulser {
    /// A sender on a new connection.
    #[must_use]
    pub fn new(config: &Config, context: &SenderContext) -> Self {
        Self {
            inner: Box::new(config.inner.build(context)),
            safe: context.mss.times(u64::from(config.safe_window.max(1))),
            batch: config.batch,
            marks_in_safe: config.marks_in_safe,
            ssthresh: config.ssthresh,
            saved: None,
            in_recovery: false,
        }
    }

    /// The window that will come back, if there is incast.
    #[must_use]
    pub fn saved(&self) -> Option<Windows> {
        self.saved.map(|saved| saved.windows)
    }

    /// Looks at an ACK's incast mark, outside recovery.
    fn heed(&mut self, view: &SenderView, ack: &Ack) {
        let Some(saved) = &mut self.saved else {
            if ack.ein && ack.may_move_window {
                self.brake(view);
            }
            return;
        };
        if ack.ein {
            saved.batch_end = view.nxt;
        } else if self.batch == Batch::Ack || view.una >= saved.batch_end {
            self.restore();
        }
    }

    fn brake(&mut self, view: &SenderView) {
        let windows = self.inner.windows();
        self.saved = Some(Saved { windows, batch_end: view.nxt, cut_end: view.una });
        let ssthresh = match self.ssthresh {
            Ssthresh::Restore => windows.ssthresh,
            Ssthresh::StaySafe => self.safe,
        };
        self.inner.set_windows(Windows { cwnd: windows.cwnd.min(self.safe), ssthresh });
    }

    fn restore(&mut self) {
        let Some(Saved { windows, .. }) = self.saved.take() else { return };
        let ssthresh = match self.ssthresh {
            Ssthresh::Restore => windows.ssthresh,
            Ssthresh::StaySafe => self.inner.windows().ssthresh,
        };
        self.inner.set_windows(Windows { ssthresh, ..windows });
    }

    /// What a congestion mark does to the window that will come back.
    fn cut_saved(&mut self, view: &SenderView, ack: &Ack) {
        let Some(saved) = &mut self.saved else { return };
        if self.marks_in_safe == MarksInSafe::Ignore || !ack.ece || view.una < saved.cut_end {
            return;
        }
        saved.windows = self.inner.cut(view, saved.windows, Congestion::Mark);
        saved.cut_end = view.nxt;
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
        if self.saved.is_none() && !ack.ein {
            return self.inner.on_ack(view, ack);
        }
        let response = self.inner.on_ack(view, &Ack { may_move_window: false, ..*ack });
        self.cut_saved(view, ack);
        self.heed(view, ack);
        response
    }

    fn on_duplicate_ack(&mut self, view: &SenderView, ack: &Ack) -> MarkResponse {
        if self.in_recovery || (self.saved.is_none() && !ack.ein) {
            return self.inner.on_duplicate_ack(view, ack);
        }
        let response = self.inner.on_duplicate_ack(view, &Ack { may_move_window: false, ..*ack });
        // A duplicate says nothing of a batch that has gone through.
        if ack.ein {
            self.heed(view, ack);
        }
        response
    }

    fn on_loss(&mut self, view: &SenderView) {
        self.inner.on_loss(view);
        self.in_recovery = true;
        if let Some(saved) = &mut self.saved {
            saved.windows = self.inner.cut(view, saved.windows, Congestion::Loss);
        }
    }

    fn on_partial_ack(&mut self, view: &SenderView, ack: &Ack) {
        self.inner.on_partial_ack(view, ack);
    }

    fn on_recovered(&mut self, view: &SenderView, ack: &Ack) {
        self.inner.on_recovered(view, ack);
        self.in_recovery = false;
        if self.saved.is_some() {
            let windows = self.inner.windows();
            self.inner.set_windows(Windows { cwnd: windows.cwnd.min(self.safe), ..windows });
        }
        self.heed(view, ack);
    }

    fn on_timeout(&mut self, view: &SenderView, again: bool) {
        self.in_recovery = false;
        self.inner.on_timeout(view, again);
        if let Some(saved) = self.saved.take() {
            let Windows { ssthresh, .. } = self.inner.cut(view, saved.windows, Congestion::Loss);
            self.inner.set_windows(Windows { ssthresh, ..self.inner.windows() });
        }
    }

    fn on_restart(&mut self, why: Restart) {
        self.restore();
        self.in_recovery = false;
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
        "The \"current batch of packets\" is not defined in the paper: here all that was sent until the last mark was \
         heard of; in the authors' prototype one ACK (batch = \"ack\").",
        "A mark that comes while the window is safe does not save again: the text would lose the old window.",
        "A window below the safe one stays as it is.",
        "A loss while the window is safe cuts the window that will come back, as the sender inside would; a timeout forgets \
         it, and leaves what that cut would as ssthresh. The paper is silent.",
        "ssthresh comes back with the window; in the authors' prototype it stays at the safe window.",
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
    use crate::sender::{Growth, WindowRules};

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

    /// Brakes at once, never saves twice, and has everything back after a window without marks.
    #[test]
    fn it_brakes_to_four_segments_and_then_has_its_window_back() {
        let mut script = pulser(|_| ());
        assert_eq!((ack(&mut script, true, false), saved_segments(&script)), (4, Some(20)));
        assert_eq!((ack(&mut script, true, false), saved_segments(&script)), (4, Some(20)));
        // 18 segments were in flight at the second mark: the last of their ACKs ends it.
        for _ in 0..17 {
            assert_eq!(ack(&mut script, false, false), 4);
        }
        assert_eq!((ack(&mut script, false, false), saved_segments(&script)), (20, None));
        assert_eq!(segments(&script).1, 15);
    }

    #[test]
    fn in_the_prototype_one_ack_without_a_mark_is_enough() {
        let mut script = pulser(|config| {
            config.batch = Batch::Ack;
            config.ssthresh = Ssthresh::StaySafe;
        });
        ack(&mut script, true, false);
        assert_eq!((ack(&mut script, false, false), segments(&script).1), (20, 4));
    }

    #[test]
    fn a_window_that_is_small_already_is_not_raised() {
        let mut script = pulser(|_| ());
        script.sender.set_windows(Windows { cwnd: Bytes(3 * MSS), ssthresh: Bytes(3 * MSS) });
        assert_eq!((ack(&mut script, true, false), saved_segments(&script)), (3, Some(3)));
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
        assert_eq!(segments(&script), (10, 10), "all of it was without a mark");
    }

    /// Linux keeps windows in whole segments, and so does what comes back.
    #[test]
    fn a_loss_meanwhile_leaves_whole_segments_where_windows_are_kept_so() {
        let mut script = Script::new(MSS, 20, |context| {
            let rules = WindowRules { growth: Growth::Segments, ..context.rules };
            Pulser::new(&Config::default(), &SenderContext { rules, ..*context })
        });
        script.send_window_full();
        script.sender.set_windows(Windows { cwnd: Bytes(5 * MSS), ssthresh: Bytes(5 * MSS) });
        ack(&mut script, true, false);
        script.third_duplicate();
        assert_eq!(script.sender.saved(), Some(Windows { cwnd: Bytes(2 * MSS), ssthresh: Bytes(2 * MSS) }));
        script.recover_fully();
        assert_eq!(script.sender.windows().cwnd, Bytes(2 * MSS));
    }

    /// Alpha is learned on, and the window that comes back is cut by it only if that is wanted.
    #[test]
    fn congestion_marks_meanwhile_teach_alpha() {
        let back = |marks_in_safe| {
            let mut script = pulser(|config| config.marks_in_safe = marks_in_safe);
            ack(&mut script, true, true);
            for _ in 0..18 {
                assert_eq!(ack(&mut script, false, true), 4);
            }
            ack(&mut script, false, true)
        };
        assert_eq!(back(MarksInSafe::Ignore), 20);
        assert_eq!(back(MarksInSafe::Cut), 5, "with alpha 1: by half for the window before, and by half for this one");
    }
}
