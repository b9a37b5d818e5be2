//! Every registered sender, driven through random events of a connection, keeps what holds for all senders, and what it
//! declares of itself ([`Sender::conduct`]). A new one is tested from the moment it has its line in the registry.

use crate::model::events::{Event, carry_out, contexts, event, rules};
use crate::model::{Connection, context};
use incast_protocols::sender::minimum_rate::{CaLaw, DeadlinePassed, Theta};
use incast_protocols::sender::new_reno::Halving;
use incast_protocols::sender::reno::{Reno, Variant};
use incast_protocols::sender::{
    Ack, Conduct, Congestion, Family, Growth, LossBasis, MarkResponse, RecoveryExit, Restart, Sender, SenderChoice,
    SenderContext, SenderView, WindowRules, Windows, dcmrg, dctcp, mrg, pulser, swift,
};
use incast_protocols::{Bytes, Duration, Message, Rate};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Passes every call on and looks at the windows before and after.
#[derive(Clone, Debug)]
struct Checked<S> {
    inner: S,
    name: String,
    context: SenderContext,
    conduct: Conduct,
    /// On a new connection.
    first: (Windows, Option<u32>),
    /// The last answer to congestion: the end of what had been sent, and what a loss would have halved.
    answered: Option<(u64, u64)>,
    in_recovery: bool,
    /// The largest window since the connection was new.
    largest: u64,
    /// It has heard of incast and may have put its window aside.
    braked: bool,
}

/// Fails in the name of the sender.
macro_rules! holds {
    ($self:ident, $condition:expr, $($why:tt)+) => {
        assert!($condition, "\"{}\": {}", $self.name, format_args!($($why)+))
    };
}

impl<S: Sender> Checked<S> {
    fn new(name: &str, inner: S, context: &SenderContext) -> Self {
        let checked = Self {
            name: name.to_owned(),
            context: *context,
            conduct: inner.conduct(),
            first: (inner.windows(), inner.alpha()),
            answered: None,
            in_recovery: false,
            largest: inner.windows().cwnd.0,
            braked: false,
            inner,
        };
        if checked.is_reno() {
            let start = Windows { cwnd: context.initial_window, ssthresh: Windows::UNLIMITED };
            holds!(checked, checked.first.0 == start, "no slow start from the initial window: {:?}", checked.first.0);
        }
        checked
    }

    fn mss(&self) -> u64 {
        self.context.mss.0
    }

    /// Held to the windows of RFC 5681 exactly; while one has been put aside, they are another's.
    fn is_reno(&self) -> bool {
        self.conduct.family == Family::Reno && !self.braked
    }

    fn basis(&self, view: &SenderView) -> u64 {
        match self.context.rules.loss_basis {
            LossBasis::Flight => view.flight().0,
            LossBasis::Cwnd => self.inner.windows().cwnd.0,
        }
    }

    /// What a loss found now is measured by at most.
    fn largest_basis(&self, view: &SenderView) -> u64 {
        match self.answered {
            Some((_, before)) if self.in_recovery && self.context.rules.loss_basis == LossBasis::Cwnd => before,
            Some((end, before)) if view.una.0 < end => self.basis(view).max(before),
            _ => self.basis(view),
        }
    }

    /// What a loss may leave of so much.
    fn after_loss(&self, basis: u64) -> u64 {
        (basis * u64::from(self.conduct.after_loss) / 1000).max(2 * self.mss())
    }

    /// What holds at any time.
    fn always(&mut self, view: &SenderView) {
        let windows = self.inner.windows();
        self.largest = self.largest.max(windows.cwnd.0);
        let floor = self.mss() * u64::from(self.conduct.floor) / 1000;
        holds!(self, windows.cwnd.0 >= floor.max(1), "less than its floor of {floor}: {windows:?}");
        holds!(self, windows.ssthresh.0 >= floor, "less than its floor of {floor}: {windows:?}");
        holds!(self, self.inner.alpha().is_none_or(|alpha| alpha <= 1024), "alpha is {:?}", self.inner.alpha());
        holds!(self, self.inner.column().is_none_or(f64::is_finite), "its column is {:?}", self.inner.column());
        let limited = SenderView { advertised: self.context.mss, ..*view };
        holds!(self, self.inner.send_window(&limited) <= self.context.mss, "more than the receiver allows");
        holds!(self, self.inner.send_window(view) > Bytes::ZERO, "nothing may be sent");
        let rate = self.inner.pacing_rate(view);
        if self.inner.wants_timing() {
            holds!(self, rate.is_none_or(|rate| rate > Rate(0)), "it is paced to a standstill");
        } else {
            holds!(self, rate.is_none() && self.inner.next_timer().is_none(), "it works with time and does not say so");
        }
        for why in [Congestion::Mark, Congestion::Loss] {
            let Windows { cwnd, .. } = self.inner.cut(view, windows, why);
            holds!(
                self,
                cwnd.0 <= windows.cwnd.0.max(2 * self.mss()),
                "a cut for a {why:?} raises {windows:?} to {cwnd}"
            );
            let most = self.after_loss(windows.cwnd.0);
            holds!(self, why == Congestion::Mark || cwnd.0 <= most, "a loss leaves {cwnd}, more than {most}");
        }
    }

    /// A window that grew beyond what the sender declares.
    fn after_growth(&self, before: Windows, acked: Bytes) {
        let Some(pace) = self.conduct.growth else { return };
        let after = self.inner.windows().cwnd.0;
        // A window that was put aside comes back.
        let from = if self.braked { self.largest } else { before.cwnd.0 };
        let most = from + acked.0.next_multiple_of(self.mss()) * pace + self.mss();
        holds!(self, after <= most, "grew from {before:?} to {after}, for {acked} acknowledged");
    }

    /// An ACK outside recovery moved the window from `before`.
    fn after_ack(&mut self, view: &SenderView, ack: &Ack, before: Windows, basis: u64, response: MarkResponse) {
        let after = self.inner.windows();
        if !ack.may_move_window {
            // What comes back when incast is over was put aside while the window could move.
            let still = self.braked || after == before;
            holds!(self, still && response == MarkResponse::None, "the window may not move");
        } else if response == MarkResponse::Reduced {
            holds!(self, ack.ece, "a cut without a mark");
            holds!(
                self,
                self.answered.is_none_or(|(end, _)| view.una.0 > end),
                "a second cut for the same window of data: {:?}, now at {}",
                self.answered,
                view.una.0
            );
            if self.is_reno() {
                let floor = self.mss() * self.context.rules.floor_segments;
                let lifted = if self.context.rules.mark_lifts_to_floor { floor } else { 0 };
                holds!(self, after.cwnd.0 <= before.cwnd.0.max(lifted), "a mark raised {before:?} to {after:?}");
                holds!(self, after.cwnd.0 >= floor.min(before.cwnd.0.max(lifted)), "below the floor: {after:?}");
            }
            self.answered = Some((view.nxt.0, basis));
        } else if self.is_reno() {
            let left = self.conduct.leaves_slow_start && after.ssthresh == before.cwnd && before.cwnd < before.ssthresh;
            holds!(self, left || after.ssthresh == before.ssthresh, "ssthresh moved without an answer to a mark");
            holds!(self, after.cwnd >= before.cwnd, "a cut without an answer to a mark: {before:?} to {after:?}");
            let unused = self.context.rules.validate_window && !view.window_used;
            let still = ack.ece || ack.acked == Bytes::ZERO || unused;
            holds!(self, !still || after.cwnd == before.cwnd, "grew from {before:?} to {after:?} on {ack:?}");
            self.after_growth(before, ack.acked);
        } else {
            self.after_growth(before, ack.delivered.max(ack.acked));
        }
        self.always(view);
    }

    fn after_cut_by_loss(&mut self, view: &SenderView, basis: u64) {
        if self.is_reno() {
            let (ssthresh, most) = (self.inner.windows().ssthresh.0, self.after_loss(basis));
            holds!(self, ssthresh <= most, "a loss left ssthresh at {ssthresh}, more than {most}");
            holds!(self, ssthresh >= 2 * self.mss(), "RFC 5681 equation 4: {ssthresh}");
        }
        self.answered = Some((view.nxt.0, basis));
    }

    fn hears_of_incast(&mut self, ack: &Ack) {
        self.braked |= self.conduct.brakes && ack.ein;
    }
}

impl<S: Sender + Clone> Sender for Checked<S> {
    fn inner(&self) -> Option<&dyn Sender> {
        Some(&self.inner)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn Sender> {
        Some(&mut self.inner)
    }

    fn on_message(&mut self, view: &SenderView, message: &Message) {
        self.inner.on_message(view, message);
        self.always(view);
    }

    fn on_ack(&mut self, view: &SenderView, ack: &Ack) -> MarkResponse {
        self.hears_of_incast(ack);
        let (before, basis) = (self.inner.windows(), self.basis(view));
        let response = self.inner.on_ack(view, ack);
        self.after_ack(view, ack, before, basis, response);
        response
    }

    fn on_duplicate_ack(&mut self, view: &SenderView, ack: &Ack) -> MarkResponse {
        self.hears_of_incast(ack);
        let (before, basis) = (self.inner.windows(), self.basis(view));
        let response = self.inner.on_duplicate_ack(view, ack);
        if self.in_recovery && self.is_reno() {
            let after = self.inner.windows();
            let inflation = if ack.may_move_window { self.mss() } else { 0 };
            holds!(self, response == MarkResponse::None, "the loss was answered already");
            holds!(self, after.ssthresh == before.ssthresh, "a duplicate in recovery moved ssthresh");
            let most = before.cwnd.0 + inflation;
            holds!(self, after.cwnd >= before.cwnd && after.cwnd.0 <= most, "inflated {before:?} to {after:?}");
            self.always(view);
        } else {
            self.after_ack(view, ack, before, basis, response);
        }
        response
    }

    fn on_loss(&mut self, view: &SenderView) {
        let (before, basis) = (self.inner.windows(), self.largest_basis(view));
        self.inner.on_loss(view);
        self.in_recovery = true;
        self.after_cut_by_loss(view, basis);
        let Windows { cwnd, ssthresh } = self.inner.windows();
        let most = if self.conduct.family == Family::Reno { ssthresh.0 + 3 * self.mss() } else { before.cwnd.0 };
        holds!(self, cwnd.0 <= most, "a loss left {cwnd}, more than {most}");
        self.always(view);
    }

    fn on_partial_ack(&mut self, view: &SenderView, ack: &Ack) {
        self.hears_of_incast(ack);
        let before = self.inner.windows();
        self.inner.on_partial_ack(view, ack);
        let after = self.inner.windows();
        holds!(self, ack.may_move_window || after == before, "the window may not move");
        if self.is_reno() {
            let fine = after.cwnd <= before.cwnd && after.ssthresh == before.ssthresh;
            holds!(self, fine, "a partial ACK raised {before:?} to {after:?}");
        }
        self.after_growth(before, ack.delivered.max(ack.acked));
        self.always(view);
    }

    fn on_recovered(&mut self, view: &SenderView, ack: &Ack) {
        self.hears_of_incast(ack);
        let before = self.inner.windows();
        self.inner.on_recovered(view, ack);
        self.in_recovery = false;
        let after = self.inner.windows();
        holds!(self, self.braked || ack.may_move_window || after == before, "the window may not move");
        if self.is_reno() {
            if self.context.rules.recovery_exit == RecoveryExit::SsthreshGrows {
                // It ends at ssthresh, and grows from there.
                let cwnd = if ack.may_move_window { before.ssthresh } else { before.cwnd };
                self.after_growth(Windows { cwnd, ..before }, ack.delivered.max(ack.acked));
            } else {
                holds!(self, !ack.may_move_window || after.cwnd <= after.ssthresh, "still inflated: {after:?}");
            }
            holds!(self, after.ssthresh == before.ssthresh, "the end of recovery moved ssthresh");
        } else if self.conduct.family == Family::Own {
            self.after_growth(before, ack.delivered.max(ack.acked));
        }
        self.always(view);
    }

    fn on_timeout(&mut self, view: &SenderView, again: bool) {
        let (before, basis) = (self.inner.windows(), self.largest_basis(view));
        self.inner.on_timeout(view, again);
        self.in_recovery = false;
        let after = self.inner.windows();
        holds!(self, after.cwnd.0 <= before.cwnd.0.max(self.mss()), "a timeout raised {before:?} to {after:?}");
        if self.conduct.family == Family::Reno {
            holds!(self, after.cwnd == self.context.mss, "the loss window is one segment, not {after:?}");
        }
        if !again {
            self.after_cut_by_loss(view, basis);
        } else if self.is_reno() {
            holds!(self, after.ssthresh == before.ssthresh, "the same segment's next timeout moved ssthresh");
        }
        // What is lost from here on is a new congestion, measured by the window that grows from here on.
        self.answered = Some((view.nxt.0, 0));
        self.always(view);
    }

    fn on_restart(&mut self, why: Restart) {
        let before = self.inner.windows();
        self.inner.on_restart(why);
        let (after, initial) = (self.inner.windows(), self.first.0.cwnd);
        // What was put aside is the window that starts over, larger or, after a loss, smaller.
        let most = if self.braked { self.largest.max(before.cwnd.0) } else { before.cwnd.0 };
        match why {
            Restart::Idle | Restart::Decay { .. } => {
                let kept = self.braked || after.cwnd >= before.cwnd.min(initial);
                let fine = after.cwnd.0 <= most && kept;
                holds!(self, fine, "{why:?} made {after:?} of {before:?}");
                if self.is_reno() && why == Restart::Idle {
                    let wanted = Windows { cwnd: before.cwnd.min(initial), ..before };
                    holds!(self, after == wanted, "{after:?} instead of {wanted:?}");
                } else if self.is_reno() {
                    let kept = before.cwnd.0 * 3 / 4;
                    let most = before.ssthresh.0.max(kept);
                    let fine = after.ssthresh >= before.ssthresh && after.ssthresh.0 <= most;
                    holds!(self, fine, "idle time moved ssthresh from {before:?} to {after:?}");
                }
            }
            Restart::Fresh => {
                let new = (after, self.inner.alpha());
                holds!(self, new == self.first, "{new:?} instead of {:?} on a new connection", self.first);
                self.answered = None;
                self.in_recovery = false;
                self.braked = false;
                self.largest = after.cwnd.0;
            }
        }
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

/// Drives a sender through the events, held to the rules of all senders and to its own.
fn drive<S: Sender + Clone>(name: &str, sender: S, context: &SenderContext, events: &[Event]) {
    let mut connection = Connection::new(context, Checked::new(name, sender, context));
    for event in events {
        carry_out(&mut connection, context.mss.0, event);
    }
}

/// Whether a sender has no window of its own, and obeys its receiver.
fn obeys(sender: &SenderChoice) -> bool {
    sender.build(&context(1446, 10, WindowRules::default())).conduct().family == Family::Receiver
}

/// Every sender as registered that has a window of its own, and those whose other parameters make another of it.
fn senders() -> Vec<SenderChoice> {
    let mut senders = SenderChoice::defaults();
    senders.retain(|sender| !obeys(sender));
    let over = |inner: &SenderChoice| {
        SenderChoice::Pulser(pulser::Config { inner: Box::new(inner.clone()), ..pulser::Config::default() })
    };
    senders.extend(senders.clone().iter().map(over));
    senders.push(SenderChoice::Dctcp(dctcp::Config { initial_alpha: 0, shift: 1 }));
    let (theta, deadline_passed) = (Theta::Remaining, DeadlinePassed::Keep);
    senders.push(SenderChoice::Mrg(mrg::Config {
        ca_law: CaLaw::Printed11,
        theta,
        deadline_passed,
        ..mrg::Config::default()
    }));
    senders.push(SenderChoice::Dcmrg(dcmrg::Config { ca_law: CaLaw::Derived, theta, ..Default::default() }));
    senders.push(SenderChoice::Swift(swift::Config {
        max_decrease: 0.9,
        additive_increase: 4.0,
        reset_after: 1,
        ..swift::Config::default()
    }));
    senders
}

#[test]
fn every_registered_sender_is_among_the_tested() {
    let obedient = SenderChoice::defaults().into_iter().filter(obeys);
    let tested: Vec<&str> = senders().into_iter().chain(obedient).map(|sender| sender.info().name).collect();
    for part in SenderChoice::ALL {
        assert!(tested.contains(&part.name), "{} is not tested", part.name);
    }
    assert!(tested.len() >= SenderChoice::ALL.len());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn every_sender_keeps_the_rules_of_its_place_and_its_own(
        context in contexts(),
        events in prop::collection::vec(event(), 1..200),
    ) {
        for choice in senders() {
            drive(choice.info().name, choice.build(&context), &context, &events);
        }
    }

    /// A sender that cuts at most once in a round trip may let a loss pass; one after a long calm it may not.
    #[test]
    fn a_loss_after_a_long_calm_is_answered(
        context in contexts(),
        events in prop::collection::vec(event(), 1..100),
    ) {
        for choice in senders() {
            let mut connection = Connection::new(&context, choice.build(&context));
            for event in &events {
                carry_out(&mut connection, context.mss.0, event);
            }
            connection.now += Duration::from_ms(100_000);
            let before = connection.windows().cwnd.0;
            let view = connection.view();
            connection.sender.on_timeout(&view, false);
            let conduct = connection.sender.conduct();
            let floor = (context.mss.0 * u64::from(conduct.floor) / 1000).max(1);
            let most = (before * u64::from(conduct.after_loss) / 1000 + 1).max(context.mss.0 * u64::from(conduct.family == Family::Reno));
            let after = connection.windows().cwnd.0;
            prop_assert!(after <= most.max(floor), "\"{}\": a timeout left {after} of {before}", choice.info().name);
        }
    }

    /// A sender that obeys sends what was announced, whatever else happens to it.
    #[test]
    fn an_obedient_sender_has_the_window_that_was_announced(
        context in contexts(),
        events in prop::collection::vec(event(), 1..100),
        announced in 0..1_000_000_u64,
    ) {
        for choice in SenderChoice::defaults().into_iter().filter(obeys) {
            let mut connection = Connection::new(&context, choice.build(&context));
            for event in &events {
                carry_out(&mut connection, context.mss.0, event);
                let view = SenderView { advertised: Bytes(announced), ..connection.view() };
                prop_assert_eq!(connection.sender.send_window(&view), Bytes(announced), "after {:?}", event);
            }
        }
    }

    #[test]
    fn saved_windows_can_be_put_back(context in contexts(), events in prop::collection::vec(event(), 1..100)) {
        for choice in senders() {
            let mut connection = Connection::new(&context, choice.build(&context));
            for event in &events {
                carry_out(&mut connection, context.mss.0, event);
            }
            let saved = connection.windows();
            connection.set_windows(4, 7);
            prop_assert_eq!(connection.cwnd(), 4, "\"{}\"", choice.info().name);
            if connection.sender.conduct().family == Family::Reno {
                prop_assert_eq!(connection.ssthresh(), 7, "\"{}\"", choice.info().name);
            }
            connection.sender.set_windows(saved);
            prop_assert_eq!(connection.windows(), saved, "\"{}\"", choice.info().name);
        }
    }

    /// Linux counts windows in segments: whole segments stay whole.
    #[test]
    fn a_window_kept_in_segments_stays_whole(
        rules in rules(),
        initial_segments in 1..=10_u64,
        events in prop::collection::vec(event(), 1..200),
    ) {
        let context = context(1446, initial_segments, WindowRules { growth: Growth::Segments, ..rules });
        for choice in senders() {
            let mut connection = Connection::new(&context, choice.build(&context));
            if connection.sender.conduct().family != Family::Reno {
                continue;
            }
            for event in &events {
                // Partial segments end only messages; inside recovery they would deflate by a part.
                let event = match *event {
                    Event::Ack { share, ece, ein, .. } => Event::Ack { share, odd: false, ece, ein },
                    ref other => other.clone(),
                };
                carry_out(&mut connection, context.mss.0, &event);
                prop_assert!(connection.cwnd() >= 1);
                let ssthresh = connection.windows().ssthresh;
                prop_assert!(ssthresh == Windows::UNLIMITED || ssthresh.0 % context.mss.0 == 0);
            }
        }
    }
}

/// CUBIC in outline (RFC 9438): a loss leaves 70 %, and the window follows a cubic of the time since then, as fast as
/// Reno at most. `honest` or not.
#[derive(Clone, Debug)]
struct Cubic {
    largest: u64,
    honest: bool,
}

impl Variant for Cubic {
    fn ecn_capable(&self) -> bool {
        false
    }

    fn cut_by_mark(&self, cwnd: Bytes, _view: &SenderView) -> Bytes {
        Bytes(cwnd.0 * 7 / 10)
    }

    fn cut_by_loss(&self, basis: Bytes, _view: &SenderView) -> Bytes {
        Bytes(basis.0 * 7 / 10)
    }

    fn grow(&mut self, window: &mut incast_protocols::sender::reno::Window, _view: &SenderView, acked: Bytes) {
        let missing = self.largest.saturating_sub(window.cwnd.0) / 8;
        self.largest = self.largest.max(window.cwnd.0);
        window.cwnd += Bytes(missing.min(acked.0) / window.mss.0 * window.mss.0);
        window.grow_as_reno(Bytes::ZERO);
    }

    fn conduct(&self) -> Conduct {
        if self.honest { Conduct { after_loss: 700, ..Conduct::RENO } } else { Conduct::RENO }
    }
}

/// A sender that declares something else than it does.
#[derive(Clone, Debug)]
struct Declaring<S>(S, Conduct);

impl<S: Sender + Clone> Sender for Declaring<S> {
    fn inner(&self) -> Option<&dyn Sender> {
        Some(&self.0)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn Sender> {
        Some(&mut self.0)
    }

    fn conduct(&self) -> Conduct {
        self.1
    }

    forward_to_the_inner!();
}

/// What a few hundred random connections say against a sender, if anything.
fn verdict<S: Sender + Clone>(name: &str, build: impl Fn(&SenderContext) -> S) -> Option<String> {
    let mut runner = TestRunner::deterministic();
    let strategy = (contexts(), prop::collection::vec(event(), 1..200));
    (0..300).find_map(|_| {
        let (context, events) = strategy.new_tree(&mut runner).unwrap().current();
        let failed = catch_unwind(AssertUnwindSafe(|| drive(name, build(&context), &context, &events))).err()?;
        Some(failed.downcast_ref::<String>().cloned().unwrap_or_default())
    })
}

/// No Reno is needed to pass: a gentler cut, or a law of one's own, as long as it is declared.
#[test]
fn a_sender_of_another_kind_passes_with_what_it_declares() {
    assert_eq!(verdict("cubic", |context| Reno::with(Cubic { largest: 0, honest: true }, context)), None);
    let swift = SenderChoice::Swift(swift::Config { max_decrease: 0.3, ..Default::default() });
    assert_eq!(verdict("swift", |context| swift.build(context)), None);
}

/// A declaration is held against what the sender does, and the failure names it.
#[test]
fn a_sender_that_does_not_do_as_it_declares_fails_by_name() {
    let found = |verdict: Option<String>, part: &str, fault: &str| {
        let said = verdict.expect("it does not do as it says");
        assert!(said.starts_with(&format!("\"{part}\": ")) && said.contains(fault), "{said}");
    };
    found(
        verdict("cubic", |context| Reno::with(Cubic { largest: 0, honest: false }, context)),
        "cubic",
        "a loss leaves",
    );
    let (mrg, swift) = (SenderChoice::Mrg(mrg::Config::default()), SenderChoice::Swift(swift::Config::default()));
    found(verdict("mrg", |context| Declaring(mrg.build(context), Conduct::RENO)), "mrg", "grew from");
    let floor = Conduct { family: Family::Own, ..Conduct::RENO };
    found(verdict("swift", |context| Declaring(swift.build(context), floor)), "swift", "floor of");
    let pulser = SenderChoice::Pulser(pulser::Config::default());
    found(verdict("pulser", |context| Declaring(pulser.build(context), Conduct::RENO)), "pulser", "without an answer");
    found(verdict("paced", |context| Paced(Reno::with(Halving, context))), "paced", "does not say so");
}

/// It has a pace, and does not say that it works with time.
#[derive(Clone, Debug)]
struct Paced(Reno<Halving>);

impl Sender for Paced {
    fn inner(&self) -> Option<&dyn Sender> {
        Some(&self.0)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn Sender> {
        Some(&mut self.0)
    }

    fn pacing_rate(&self, _view: &SenderView) -> Option<Rate> {
        Some(Rate(1))
    }

    forward_to_the_inner!();
}
