//! What a part is that says nothing about it, what a scenario gets that names a part and nothing else, and what the Reno
//! family hands to a member: what somebody who adds a protocol relies on without having written it.

use incast_protocols::receiver::ictcp::Share;
use incast_protocols::receiver::{self, AckCause, Action, Arrival, FlowIndex, Gate, REFERENCE_RTT, Receiver, SentAck};
use incast_protocols::sender::minimum_rate::{CaLaw, DeadlinePassed, ScaledWindow, Theta};
use incast_protocols::sender::reno::{Reno, Variant};
use incast_protocols::sender::{
    self, Ack, Congestion, MarkResponse, Restart, Sender, SenderContext, SenderView, WindowRules, Windows, d2tcp,
    dctcp, mrg,
};
use incast_protocols::{Bytes, Duration, Message, Offset, Time};

/// A sender with what no sender can do without.
#[derive(Clone, Debug)]
struct FixedWindow;

impl Sender for FixedWindow {
    fn on_ack(&mut self, _view: &SenderView, _ack: &Ack) -> MarkResponse {
        MarkResponse::None
    }

    fn on_duplicate_ack(&mut self, _view: &SenderView, _ack: &Ack) -> MarkResponse {
        MarkResponse::None
    }

    fn on_loss(&mut self, _view: &SenderView) {}
    fn on_partial_ack(&mut self, _view: &SenderView, _ack: &Ack) {}
    fn on_recovered(&mut self, _view: &SenderView, _ack: &Ack) {}
    fn on_timeout(&mut self, _view: &SenderView, _again: bool) {}
    fn on_restart(&mut self, _why: Restart) {}

    fn send_window(&self, _view: &SenderView) -> Bytes {
        self.windows().cwnd
    }

    fn windows(&self) -> Windows {
        Windows { cwnd: Bytes(10_000), ssthresh: Windows::UNLIMITED }
    }

    fn set_windows(&mut self, _windows: Windows) {}

    fn cut(&self, _view: &SenderView, windows: Windows, _why: Congestion) -> Windows {
        windows
    }
}

/// RFC 3168 section 6.1.1: ECN is something an end asks for.
#[test]
fn a_sender_that_does_not_ask_for_ecn_has_none_and_estimates_nothing() {
    assert!(!FixedWindow.ecn_capable());
    assert_eq!(FixedWindow.alpha(), None);
}

/// RFC 5681 section 3.1: arbitrarily high at first. A window that inflation adds still fits above it.
#[test]
fn no_window_reaches_the_first_ssthresh_and_none_overflows_it() {
    assert!(Windows::UNLIMITED > Bytes(1 << 62));
    assert!(Windows::UNLIMITED.0.checked_add(1 << 62).is_some());
}

/// A controller with what no controller can do without.
#[derive(Clone, Debug)]
struct Watcher;

impl Receiver for Watcher {
    fn on_open(&mut self, _now: Time, _flow: FlowIndex) {}
    fn on_message(&mut self, _now: Time, _flow: FlowIndex, _message: &Message) {}
    fn on_data(&mut self, _now: Time, _flow: FlowIndex, _arrival: &Arrival) {}
    fn on_complete(&mut self, _now: Time, _flow: FlowIndex) {}
    fn on_close(&mut self, _now: Time, _flow: FlowIndex) {}

    fn gate(&mut self, _now: Time, _flow: FlowIndex, _cause: AckCause) -> Gate {
        Gate::Open
    }

    fn window(&mut self, _now: Time, _flow: FlowIndex) -> Option<Bytes> {
        None
    }

    fn on_ack_sent(&mut self, _now: Time, _flow: FlowIndex, _sent: &SentAck) {}

    fn poll(&mut self, _now: Time) -> Option<Action> {
        None
    }
}

/// One that forgot to say so would never be called.
#[test]
fn a_controller_is_called_and_has_no_timer() {
    assert!(Watcher.is_active());
    assert_eq!(Watcher.next_timer(), None);
}

/// A member of the Reno family that looks at the messages it sends, as D2TCP does for their deadlines.
#[derive(Clone, Debug, Default)]
struct KnowsDeadline(Option<Time>);

impl Variant for KnowsDeadline {
    fn ecn_capable(&self) -> bool {
        true
    }

    fn on_message(&mut self, _view: &SenderView, message: &Message) {
        self.0 = message.deadline;
    }

    fn cut_by_mark(&self, cwnd: Bytes, _view: &SenderView) -> Bytes {
        Bytes(cwnd.0 / 2)
    }
}

#[test]
fn a_member_of_the_family_is_told_of_messages() {
    let mss = Bytes(1460);
    let rules = WindowRules::default();
    let context = SenderContext { mss, initial_window: mss.times(10), rules, reference_rtt: None, path: None };
    let mut sender = Reno::with(KnowsDeadline::default(), &context);
    let view = SenderView {
        now: Time(0),
        una: Offset(0),
        nxt: Offset(0),
        remaining: None,
        srtt: None,
        advertised: Bytes(65_535),
        limited_transmit: Bytes::ZERO,
        window_used: true,
    };
    let deadline = Some(Time::from_us(20_000));
    sender.on_message(&view, &Message { deadline, ..Message::default() });
    assert_eq!(sender.variant.0, deadline);
    assert_eq!(sender.alpha(), None, "it estimates nothing");
}

/// What the papers print, and where they print two things or nothing, what their parts say under deviations.
#[test]
fn a_part_that_is_only_named_is_the_papers() {
    let law = mrg::Config {
        ca_law: CaLaw::Printed14,
        theta: Theta::Fixed,
        deadline_passed: DeadlinePassed::Reset,
        scaled_window: ScaledWindow::WholeSegments,
    };
    assert_eq!(mrg::Config::default(), law);
    // g = 1/16 and an alpha of one at first, as in DCTCP.
    let mrg::Config { ca_law, theta, deadline_passed, scaled_window } = law;
    let dcmrg = sender::dcmrg::Config { ca_law, theta, deadline_passed, scaled_window, initial_alpha: 1024, shift: 4 };
    assert_eq!(sender::dcmrg::Config::default(), dcmrg);
    assert_eq!(d2tcp::Config::default(), dctcp::Config { initial_alpha: 1024, shift: 4 });
    let controller = receiver::dcmrg::Config { headroom_factor: Share::percent(100) };
    assert_eq!(receiver::dcmrg::Config::default(), controller);
    assert_eq!(REFERENCE_RTT, Duration::from_us(100));
}
