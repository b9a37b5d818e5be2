//! Every registered sender, driven through random events of a connection, keeps what holds for all
//! senders. A new one is tested from the moment it has its line in the registry.

mod model;

use incast_protocols::sender::minimum_rate::{CaLaw, DeadlinePassed, Theta};
use incast_protocols::sender::{
    Ack, Growth, LossBasis, MarkResponse, Restart, Sender, SenderChoice, SenderContext, SenderView, WindowRules,
    Windows, dcmrg, dctcp, mrg,
};
use incast_protocols::{Bytes, Capability, Message};
use model::events::{Event, carry_out, contexts, event, rules};
use model::{Connection, context};
use proptest::prelude::*;

/// Passes every call on and looks at the windows before and after.
struct Checked<S> {
    inner: S,
    context: SenderContext,
    /// Alpha on a new connection.
    first_alpha: Option<u32>,
    /// The last answer to congestion: the end of what had been sent, and what a loss would have halved.
    answered: Option<(u64, u64)>,
    in_recovery: bool,
    /// Segments that it may grow by for each acknowledged.
    pace: u64,
}

impl<S: Sender> Checked<S> {
    fn new(inner: S, context: &SenderContext, pace: u64) -> Self {
        let start = Windows { cwnd: context.initial_window, ssthresh: Windows::UNLIMITED };
        assert_eq!(inner.windows(), start, "slow start from the initial window");
        Self { first_alpha: inner.alpha(), inner, context: *context, answered: None, in_recovery: false, pace }
    }

    fn mss(&self) -> u64 {
        self.context.mss.0
    }

    fn basis(&self, view: &SenderView) -> u64 {
        match self.context.rules.loss_basis {
            LossBasis::Flight => view.flight().0,
            LossBasis::Cwnd => self.inner.windows().cwnd.0,
        }
    }

    /// What a loss found now halves at most.
    fn largest_basis(&self, view: &SenderView) -> u64 {
        match self.answered {
            Some((_, before)) if self.in_recovery && self.context.rules.loss_basis == LossBasis::Cwnd => before,
            Some((end, before)) if view.una.0 < end => self.basis(view).max(before),
            _ => self.basis(view),
        }
    }

    /// What holds at any time.
    fn always(&self, view: &SenderView) {
        let windows = self.inner.windows();
        assert!(windows.cwnd.0 >= self.mss(), "less than a segment: {windows:?}");
        assert!(windows.ssthresh.0 >= self.mss(), "less than a segment: {windows:?}");
        assert!(self.inner.alpha().is_none_or(|alpha| alpha <= 1024), "{:?}", self.inner.alpha());
        let limited = SenderView { advertised: self.context.mss, ..*view };
        assert!(self.inner.send_window(&limited) <= self.context.mss, "more than the receiver allows");
        assert!(self.inner.send_window(view) > Bytes::ZERO, "nothing may be sent");
    }

    /// An ACK outside recovery moved the window from `before`.
    fn after_ack(&mut self, view: &SenderView, ack: &Ack, before: Windows, basis: u64, response: MarkResponse) {
        let after = self.inner.windows();
        if !ack.may_move_window {
            assert_eq!((after, response), (before, MarkResponse::None), "the window may not move");
        } else if response == MarkResponse::Reduced {
            assert!(ack.ece, "a cut without a mark");
            assert!(
                self.answered.is_none_or(|(end, _)| view.una.0 > end),
                "a second cut for the same window of data: {:?}, now at {}",
                self.answered,
                view.una.0
            );
            let floor = self.mss() * self.context.rules.floor_segments;
            let lifted = if self.context.rules.mark_lifts_to_floor { floor } else { 0 };
            assert!(after.cwnd.0 <= before.cwnd.0.max(lifted), "a mark raised the window: {before:?} to {after:?}");
            assert!(after.cwnd.0 >= floor.min(before.cwnd.0.max(lifted)), "below the floor: {after:?}");
            self.answered = Some((view.nxt.0, basis));
        } else {
            assert_eq!(after.ssthresh, before.ssthresh, "ssthresh moved without an answer to a mark");
            let unused = self.context.rules.validate_window && !view.window_used;
            let most = if ack.ece || ack.acked == Bytes::ZERO || unused {
                0
            } else {
                ack.acked.0.next_multiple_of(self.mss()) * self.pace + self.mss()
            };
            assert!(after.cwnd >= before.cwnd, "a cut without an answer to a mark: {before:?} to {after:?}");
            assert!(after.cwnd.0 <= before.cwnd.0 + most, "grew from {before:?} to {after:?} on {ack:?}");
        }
        self.always(view);
    }

    fn after_loss(&mut self, view: &SenderView, basis: u64) {
        let ssthresh = self.inner.windows().ssthresh.0;
        let most = (basis / 2).max(2 * self.mss());
        assert!(ssthresh <= most, "a loss left ssthresh at {ssthresh}, more than {most}");
        assert!(ssthresh >= 2 * self.mss(), "RFC 5681 equation 4: {ssthresh}");
        self.answered = Some((view.nxt.0, basis));
    }
}

impl<S: Sender> Sender for Checked<S> {
    fn on_message(&mut self, view: &SenderView, message: &Message) {
        self.inner.on_message(view, message);
        self.always(view);
    }

    fn on_ack(&mut self, view: &SenderView, ack: &Ack) -> MarkResponse {
        let (before, basis) = (self.inner.windows(), self.basis(view));
        let response = self.inner.on_ack(view, ack);
        self.after_ack(view, ack, before, basis, response);
        response
    }

    fn on_duplicate_ack(&mut self, view: &SenderView, ack: &Ack) -> MarkResponse {
        let (before, basis) = (self.inner.windows(), self.basis(view));
        let response = self.inner.on_duplicate_ack(view, ack);
        if self.in_recovery {
            let after = self.inner.windows();
            let inflation = if ack.may_move_window { self.mss() } else { 0 };
            assert_eq!(response, MarkResponse::None, "the loss was answered already");
            assert_eq!(after.ssthresh, before.ssthresh);
            assert!(after.cwnd >= before.cwnd && after.cwnd.0 <= before.cwnd.0 + inflation);
            self.always(view);
        } else {
            self.after_ack(view, ack, before, basis, response);
        }
        response
    }

    fn on_loss(&mut self, view: &SenderView) {
        let basis = self.largest_basis(view);
        self.inner.on_loss(view);
        self.in_recovery = true;
        self.after_loss(view, basis);
        let Windows { cwnd, ssthresh } = self.inner.windows();
        assert!(cwnd.0 <= ssthresh.0 + 3 * self.mss());
        self.always(view);
    }

    fn on_partial_ack(&mut self, view: &SenderView, ack: &Ack) {
        let before = self.inner.windows();
        self.inner.on_partial_ack(view, ack);
        let after = self.inner.windows();
        assert!(ack.may_move_window || after == before, "the window may not move");
        assert!(after.cwnd <= before.cwnd && after.ssthresh == before.ssthresh);
        self.always(view);
    }

    fn on_recovered(&mut self, view: &SenderView, ack: &Ack) {
        let before = self.inner.windows();
        self.inner.on_recovered(view, ack);
        self.in_recovery = false;
        let after = self.inner.windows();
        assert!(ack.may_move_window || after == before, "the window may not move");
        assert!(!ack.may_move_window || after.cwnd <= after.ssthresh, "still inflated: {after:?}");
        assert_eq!(after.ssthresh, before.ssthresh);
        self.always(view);
    }

    fn on_timeout(&mut self, view: &SenderView, again: bool) {
        let (before, basis) = (self.inner.windows(), self.largest_basis(view));
        self.inner.on_timeout(view, again);
        self.in_recovery = false;
        let after = self.inner.windows();
        assert_eq!(after.cwnd, self.context.mss, "the loss window is one segment");
        if again {
            assert_eq!(after.ssthresh, before.ssthresh, "the same segment's next timeout leaves ssthresh");
        } else {
            self.after_loss(view, basis);
        }
        // What is lost from here on is a new congestion, measured by the window that grows from here on.
        self.answered = Some((view.nxt.0, 0));
        self.always(view);
    }

    fn on_restart(&mut self, why: Restart) {
        let before = self.inner.windows();
        self.inner.on_restart(why);
        let after = self.inner.windows();
        match why {
            Restart::Idle => {
                assert_eq!(after.cwnd, before.cwnd.min(self.context.initial_window));
                assert_eq!(after.ssthresh, before.ssthresh);
            }
            Restart::Decay { .. } => {
                assert!(after.cwnd <= before.cwnd && after.cwnd >= before.cwnd.min(self.context.initial_window));
                let kept = before.cwnd.0 * 3 / 4;
                assert!(after.ssthresh >= before.ssthresh && after.ssthresh.0 <= before.ssthresh.0.max(kept));
            }
            Restart::Fresh => {
                assert_eq!(after, Windows { cwnd: self.context.initial_window, ssthresh: Windows::UNLIMITED });
                assert_eq!(self.inner.alpha(), self.first_alpha);
                self.answered = None;
                self.in_recovery = false;
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
}

/// Whether a sender has no window of its own, and obeys its receiver.
fn obeys(sender: &SenderChoice) -> bool {
    sender.info().provides.iter().any(|capability| matches!(capability, Capability::ObedienceTo(_)))
}

/// Every sender as registered that has a window of its own, and those whose other parameters make another of it.
fn senders() -> Vec<SenderChoice> {
    let mut senders = SenderChoice::defaults();
    senders.retain(|sender| !obeys(sender));
    senders.push(SenderChoice::Dctcp(dctcp::Config { initial_alpha: 0, shift: 1 }));
    let (theta, deadline_passed) = (Theta::Remaining, DeadlinePassed::Keep);
    senders.push(SenderChoice::Mrg(mrg::Config {
        ca_law: CaLaw::Printed11,
        theta,
        deadline_passed,
        ..mrg::Config::default()
    }));
    senders.push(SenderChoice::Dcmrg(dcmrg::Config { ca_law: CaLaw::Derived, theta, ..Default::default() }));
    senders
}

/// Segments that a window may grow by for each acknowledged: four, or two and a part of three windows, below a minimum rate
/// (DCMRG, equations 10, 11, 13 and 14), else one.
fn pace(sender: &SenderChoice) -> u64 {
    if matches!(sender, SenderChoice::Mrg(_) | SenderChoice::Dcmrg(_)) { 5 } else { 1 }
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
    fn every_sender_keeps_the_rules_of_its_place(
        context in contexts(),
        events in prop::collection::vec(event(), 1..200),
    ) {
        for choice in senders() {
            let sender = Checked::new(choice.build(&context), &context, pace(&choice));
            let mut connection = Connection::new(&context, sender);
            for event in &events {
                carry_out(&mut connection, context.mss.0, event);
            }
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
            prop_assert_eq!((connection.cwnd(), connection.ssthresh()), (4, 7));
            connection.sender.set_windows(saved);
            prop_assert_eq!(connection.windows(), saved);
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
            for event in &events {
                // Partial segments end only messages; inside recovery they would deflate by a part.
                let event = match *event {
                    Event::Ack { share, ece, .. } => Event::Ack { share, odd: false, ece },
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
