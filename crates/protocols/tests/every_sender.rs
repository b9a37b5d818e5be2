//! Every registered sender, driven through random events of a connection, keeps what holds for all
//! senders. A new one is tested from the moment it has its line in the registry.

mod model;

use incast_protocols::sender::dctcp::{self, Dctcp};
use incast_protocols::sender::new_reno::{self, NewReno};
use incast_protocols::sender::pulser::{self, Pulser};
use incast_protocols::sender::{
    Ack, Growth, LossBasis, MarkResponse, ObservationEnd, RecoveryExit, Restart, Sender, SenderChoice, SenderContext,
    SenderView, WindowRules, Windows,
};
use incast_protocols::{Bytes, Capability, Message};
use model::{Connection, context};
use proptest::prelude::*;

/// What happens to a connection. What cannot happen in its state is passed over.
#[derive(Clone, Debug)]
enum Event {
    /// So many segments are sent, as far as the window allows.
    Send(u64),
    /// A cumulative ACK for so many bytes in 1/64 of what is in flight, rounded up to segments unless `odd`.
    Ack { share: u64, odd: bool, ece: bool },
    /// So many duplicate ACKs; the third finds a loss.
    Duplicates { count: u64, ece: bool },
    /// The retransmission timer expires.
    Timeout,
    /// The window starts over, if nothing is in flight.
    Restart(Restart),
    /// A message begins.
    Message(Option<u64>),
    /// A wrapper takes the window over, or gives it back.
    MayMoveWindow(bool),
    /// The application begins or ceases to use the window up.
    WindowUsed(bool),
}

fn event() -> impl Strategy<Value = Event> {
    let ece = || prop::bool::weighted(0.3);
    prop_oneof![
        6 => (1..40_u64).prop_map(Event::Send),
        8 => (1..=64_u64, prop::bool::weighted(0.1), ece()).prop_map(|(share, odd, ece)| Event::Ack { share, odd, ece }),
        4 => (1..6_u64, ece()).prop_map(|(count, ece)| Event::Duplicates { count, ece }),
        1 => Just(Event::Timeout),
        1 => prop_oneof![Just(Restart::Idle), Just(Restart::Fresh), (1..40_u32).prop_map(|rtos| Restart::Decay { rtos })]
            .prop_map(Event::Restart),
        1 => prop::option::of(1..1_000_000_u64).prop_map(Event::Message),
        1 => prop::bool::weighted(0.8).prop_map(Event::MayMoveWindow),
        1 => prop::bool::weighted(0.7).prop_map(Event::WindowUsed),
    ]
}

fn rules() -> impl Strategy<Value = WindowRules> {
    (
        prop_oneof![Just(LossBasis::Flight), Just(LossBasis::Cwnd)],
        1..=2_u64,
        prop_oneof![Just(Growth::Bytes), Just(Growth::Segments)],
        any::<bool>(),
        prop_oneof![Just(RecoveryExit::Flight), Just(RecoveryExit::Ssthresh)],
        (
            any::<bool>(),
            any::<bool>(),
            any::<bool>(),
            prop_oneof![Just(ObservationEnd::Beyond), Just(ObservationEnd::At)],
        ),
    )
        .prop_map(|(loss_basis, floor_segments, growth, inflate_in_recovery, recovery_exit, others)| WindowRules {
            loss_basis,
            floor_segments,
            growth,
            inflate_in_recovery,
            recovery_exit,
            validate_window: others.0,
            mark_lifts_to_floor: others.1,
            hold_after_mark: others.2,
            observation_end: others.3,
        })
}

fn contexts() -> impl Strategy<Value = SenderContext> {
    (prop_oneof![Just(1_u64), Just(536), Just(1446), Just(8960)], 1..=10_u64, rules())
        .prop_map(|(mss, initial_segments, rules)| context(mss, initial_segments, rules))
}

fn carry_out<S: Sender>(connection: &mut Connection<S>, mss: u64, event: &Event) {
    match *event {
        Event::Send(segments) => connection.send(segments),
        Event::Ack { share, odd, ece } => {
            let acked = (connection.flight() * share).div_ceil(64);
            let acked = if odd { acked } else { acked.next_multiple_of(mss).min(connection.flight()) };
            if acked > 0 {
                let _ = connection.ack_bytes(acked, ece);
            }
        }
        Event::Duplicates { count, ece } => {
            for _ in 0..count {
                if connection.can_duplicate() {
                    let _ = connection.duplicate(ece);
                }
            }
        }
        Event::Timeout => {
            if connection.flight() > 0 {
                connection.timeout();
            }
        }
        Event::Restart(why) => {
            if connection.flight() == 0 {
                connection.restart(why);
            }
        }
        Event::Message(size) => connection.message(&Message { size: size.map(Bytes), ..Message::default() }),
        Event::MayMoveWindow(may) => connection.may_move_window = may,
        Event::WindowUsed(used) => connection.window_used = used,
    }
}

/// Passes every call on and looks at the windows before and after.
struct Checked<S> {
    inner: S,
    context: SenderContext,
    /// Alpha on a new connection.
    first_alpha: Option<u32>,
    /// The last answer to congestion: the end of what had been sent, and what a loss would have halved.
    answered: Option<(u64, u64)>,
    in_recovery: bool,
}

impl<S: Sender> Checked<S> {
    fn new(inner: S, context: &SenderContext) -> Self {
        let start = Windows { cwnd: context.initial_window, ssthresh: Windows::UNLIMITED };
        assert_eq!(inner.windows(), start, "slow start from the initial window");
        Self { first_alpha: inner.alpha(), inner, context: *context, answered: None, in_recovery: false }
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
                ack.acked.0.next_multiple_of(self.mss()) + self.mss()
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
    fn every_sender_keeps_the_rules_of_its_place(
        context in contexts(),
        events in prop::collection::vec(event(), 1..200),
    ) {
        for choice in senders() {
            let sender = Checked::new(choice.build(&context), &context);
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

    /// Loss is DCTCP's conventional side (RFC 8257 sections 3.4 and 3.5): where no mark comes back it is
    /// NewReno to the byte.
    #[test]
    fn dctcp_on_a_path_that_never_marks_is_newreno(
        context in contexts(),
        events in prop::collection::vec(event(), 1..200),
    ) {
        let mut dctcp = Connection::new(&context, Dctcp::new(&dctcp::Config::default(), &context));
        let mut newreno = Connection::new(&context, NewReno::new(&new_reno::Config::default(), &context));
        for event in &events {
            let event = match *event {
                Event::Ack { share, odd, .. } => Event::Ack { share, odd, ece: false },
                Event::Duplicates { count, .. } => Event::Duplicates { count, ece: false },
                ref other => other.clone(),
            };
            carry_out(&mut dctcp, context.mss.0, &event);
            carry_out(&mut newreno, context.mss.0, &event);
            prop_assert_eq!(dctcp.windows(), newreno.windows(), "after {:?}", event);
        }
    }

    /// Pulser over a sender is that sender, as long as nothing is marked EIN.
    #[test]
    fn pulser_without_incast_marks_is_the_sender_inside(
        context in contexts(),
        events in prop::collection::vec(event(), 1..200),
    ) {
        for inner in SenderChoice::defaults() {
            let config = pulser::Config { inner: Box::new(inner.clone()), ..Default::default() };
            let mut outer = Connection::new(&context, Pulser::new(&config, &context));
            let mut alone = Connection::new(&context, inner.build(&context));
            for event in &events {
                carry_out(&mut outer, context.mss.0, event);
                carry_out(&mut alone, context.mss.0, event);
                prop_assert_eq!(outer.windows(), alone.windows(), "\"{}\" after {:?}", inner.info().name, event);
                prop_assert_eq!(outer.sender.alpha(), alone.sender.alpha());
            }
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
