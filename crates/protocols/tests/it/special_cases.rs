//! Senders that are special cases of one another, window by window, whatever happens to their connections.

use crate::model::Connection;
use crate::model::events::{Event, carry_out, contexts, event};
use incast_protocols::Bytes;
use incast_protocols::sender::d2tcp::{self, D2tcp};
use incast_protocols::sender::dcmrg::{self, Dcmrg};
use incast_protocols::sender::dctcp::{self, Dctcp};
use incast_protocols::sender::minimum_rate::{CaLaw, DeadlinePassed, ScaledWindow, Theta};
use incast_protocols::sender::mrg::{self, Mrg};
use incast_protocols::sender::new_reno::{self, NewReno};
use incast_protocols::sender::pulser::{self, Pulser};
use incast_protocols::sender::{
    Ack, AnySender, Congestion, MarkResponse, Restart, Sender, SenderChoice, SenderContext, SenderView, Windows,
};
use proptest::prelude::*;

/// The events with a minimum rate for every message or for none, and with marks or without any.
fn with(events: &[Event], deadlines: bool, marks: bool) -> Vec<Event> {
    let change = |event: &Event| match *event {
        Event::Ack { share, odd, ece, .. } => Event::Ack { share, odd, ece: ece && marks, ein: false },
        Event::Duplicates { count, ece, .. } => Event::Duplicates { count, ece: ece && marks, ein: false },
        Event::Message { size, deadline } => Event::Message { size, deadline: deadline.filter(|_| deadlines) },
        ref other => other.clone(),
    };
    events.iter().map(change).collect()
}

/// Drives both through the events; they have the same windows and the same estimate, if both have one.
fn assert_same<A: Sender, B: Sender>(
    events: &[Event],
    mss: u64,
    mut one: Connection<A>,
    mut other: Connection<B>,
) -> Result<(), TestCaseError> {
    for event in events {
        carry_out(&mut one, mss, event);
        carry_out(&mut other, mss, event);
        prop_assert_eq!(one.windows(), other.windows(), "after {:?}", event);
        prop_assert_eq!(one.flight(), other.flight());
        if let (Some(one), Some(other)) = (one.sender.alpha(), other.sender.alpha()) {
            prop_assert_eq!(one, other, "after {:?}", event);
        }
    }
    Ok(())
}

fn laws() -> impl Strategy<Value = mrg::Config> {
    (
        prop_oneof![Just(CaLaw::Printed14), Just(CaLaw::Printed11), Just(CaLaw::Derived)],
        prop_oneof![Just(Theta::Fixed), Just(Theta::Remaining)],
        prop_oneof![Just(DeadlinePassed::Reset), Just(DeadlinePassed::Keep)],
        prop_oneof![Just(ScaledWindow::Exact), Just(ScaledWindow::WholeSegments)],
    )
        .prop_map(|(ca_law, theta, deadline_passed, scaled_window)| mrg::Config {
            ca_law,
            theta,
            deadline_passed,
            scaled_window,
        })
}

fn dcmrg_of(law: mrg::Config) -> dcmrg::Config {
    let mrg::Config { ca_law, theta, deadline_passed, scaled_window } = law;
    dcmrg::Config { ca_law, theta, deadline_passed, scaled_window, ..dcmrg::Config::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1000, ..ProptestConfig::default() })]

    /// Loss is DCTCP's conventional side (RFC 8257 sections 3.4 and 3.5): where no mark comes back it is
    /// NewReno to the byte.
    #[test]
    fn dctcp_on_a_path_that_never_marks_is_newreno(
        context in contexts(),
        events in prop::collection::vec(event(), 1..200),
    ) {
        let dctcp = Connection::new(&context, Dctcp::new(&dctcp::Config::default(), &context));
        let newreno = Connection::new(&context, NewReno::new(&new_reno::Config::default(), &context));
        assert_same(&with(&events, true, false), context.mss.0, dctcp, newreno)?;
    }

    /// Vamanan et al., section 3: d = 1 without a deadline.
    #[test]
    fn d2tcp_without_deadlines_is_dctcp(context in contexts(), events in prop::collection::vec(event(), 1..200)) {
        let d2tcp = Connection::new(&context, D2tcp::new(&d2tcp::Config::default(), &context));
        let dctcp = Connection::new(&context, Dctcp::new(&dctcp::Config::default(), &context));
        assert_same(&with(&events, false, true), context.mss.0, d2tcp, dctcp)?;
    }

    /// "DCMRG degenerates to DCTCP at theta = 0" (section II.B).
    #[test]
    fn dcmrg_without_a_minimum_rate_is_dctcp(
        context in contexts(),
        law in laws(),
        events in prop::collection::vec(event(), 1..200),
    ) {
        let dcmrg = Connection::new(&context, Dcmrg::new(&dcmrg_of(law), &context));
        let dctcp = Connection::new(&context, Dctcp::new(&dctcp::Config::default(), &context));
        assert_same(&with(&events, false, true), context.mss.0, dcmrg, dctcp)?;
    }

    /// "DCMRG degenerates to MRG at alpha = 1, when ECN is turned off", with minimum rates and without.
    #[test]
    fn dcmrg_without_marks_is_mrg(
        context in contexts(),
        law in laws(),
        events in prop::collection::vec(event(), 1..200),
    ) {
        let dcmrg = Connection::new(&context, Dcmrg::new(&dcmrg_of(law), &context));
        let mrg = Connection::new(&context, Mrg::new(&law, &context));
        assert_same(&with(&events, true, false), context.mss.0, dcmrg, mrg)?;
    }

    /// "Which in turn degenerates to TCP at r(x) = 1".
    #[test]
    fn mrg_without_a_minimum_rate_is_newreno(
        context in contexts(),
        law in laws(),
        events in prop::collection::vec(event(), 1..200),
    ) {
        let mrg = Connection::new(&context, Mrg::new(&law, &context));
        let newreno = Connection::new(&context, NewReno::new(&new_reno::Config::default(), &context));
        assert_same(&with(&events, false, true), context.mss.0, mrg, newreno)?;
    }

    /// And so does DCMRG where both are turned off.
    #[test]
    fn dcmrg_without_marks_and_minimum_rates_is_newreno(
        context in contexts(),
        law in laws(),
        events in prop::collection::vec(event(), 1..200),
    ) {
        let dcmrg = Connection::new(&context, Dcmrg::new(&dcmrg_of(law), &context));
        let newreno = Connection::new(&context, NewReno::new(&new_reno::Config::default(), &context));
        assert_same(&with(&events, false, false), context.mss.0, dcmrg, newreno)?;
    }

    /// Pulser over a sender is that sender, as long as nothing is marked EIN: it passes on every call and every question.
    #[test]
    fn pulser_without_incast_marks_is_the_sender_inside(
        context in contexts(),
        events in prop::collection::vec(event(), 1..200),
    ) {
        for inner in SenderChoice::defaults() {
            let config = pulser::Config { inner: Box::new(inner.clone()), ..Default::default() };
            if let Err(difference) = passes_on(&Pulser::new(&config, &context), &inner, &context, &with(&events, true, true)) {
                prop_assert!(false, "{difference}");
            }
        }
    }
}

/// Drives a wrapper and the sender inside through the same events; they answer every question alike.
fn passes_on<S: Sender + Clone>(
    wrapper: &S,
    inner: &SenderChoice,
    context: &SenderContext,
    events: &[Event],
) -> Result<(), String> {
    let mut outer = Connection::new(context, wrapper.clone());
    let mut alone = Connection::new(context, inner.build(context));
    for event in events {
        carry_out(&mut outer, context.mss.0, event);
        carry_out(&mut alone, context.mss.0, event);
        let (said, wanted) = (answers(&outer), answers(&alone));
        if said != wanted {
            return Err(format!("\"{}\" after {event:?}: {said} instead of {wanted}", inner.info().name));
        }
    }
    Ok(())
}

/// Everything that a sender can be asked.
fn answers<S: Sender>(connection: &Connection<S>) -> String {
    let (sender, view) = (&connection.sender, connection.view());
    let cut = [Congestion::Mark, Congestion::Loss].map(|why| sender.cut(&view, sender.windows(), why));
    let windows = (sender.send_window(&view), sender.windows(), cut, sender.alpha(), sender.column());
    let timing = (sender.wants_timing(), sender.pacing_rate(&view), sender.next_timer());
    format!("{windows:?} {timing:?} {:?}", (sender.ecn_capable(), sender.wants_telemetry()))
}

/// A wrapper that has nothing of its own to say, and forgets to say that it is one.
#[derive(Clone, Debug)]
struct Forgetful(AnySender);

impl Sender for Forgetful {
    forward_to_the_inner!();
}

/// The test above notices a wrapper that lets a method fall on the floor: timing and telemetry, ECN and alpha.
#[test]
fn a_wrapper_that_forgets_the_sender_inside_is_found_out() {
    let context = crate::model::context(1446, 10, incast_protocols::sender::WindowRules::default());
    for inner in SenderChoice::defaults() {
        let name = inner.info().name;
        let forgetful = passes_on(&Forgetful(inner.build(&context)), &inner, &context, &[Event::Send(1)]);
        let nothing_to_forget = ["newreno", "mrg"].contains(&name);
        assert_eq!(forgetful.is_ok(), nothing_to_forget, "{name}: {forgetful:?}");
    }
}

/// The events tell the senders apart where they are no special cases of one another: with deadlines and marks the windows
/// of all differ somewhere.
#[test]
fn with_deadlines_and_marks_they_are_not_the_same() {
    let context = crate::model::context(1446, 10, incast_protocols::sender::WindowRules::default());
    let choices = [
        SenderChoice::NewReno(Default::default()),
        SenderChoice::Dctcp(Default::default()),
        SenderChoice::D2tcp(Default::default()),
        SenderChoice::Mrg(Default::default()),
        SenderChoice::Dcmrg(Default::default()),
    ];
    let mut events = vec![
        Event::RoundTrip { us: 100, sampled: false },
        Event::Message { size: Some(1_000_000), deadline: Some(4_000) },
    ];
    for round in 0..60 {
        events.extend([Event::Send(40), Event::Pass(50)]);
        events.extend((0..8).map(|ack| Event::Ack {
            share: 8,
            odd: false,
            ece: round % 7 == 3 && ack % 2 == 0,
            ein: false,
        }));
    }
    let traces: Vec<Vec<_>> = choices
        .iter()
        .map(|choice| {
            let mut connection = Connection::new(&context, choice.build(&context));
            let after = |event: &Event| {
                carry_out(&mut connection, 1446, event);
                connection.windows().cwnd
            };
            events.iter().map(after).collect()
        })
        .collect();
    for (at, trace) in traces.iter().enumerate() {
        for (other, other_trace) in traces[..at].iter().enumerate() {
            assert_ne!(trace, other_trace, "{at} {other}");
        }
    }
}
