//! Random events of a connection, and how they are carried out.

use incast_protocols::sender::{
    Growth, LossBasis, ObservationEnd, RecoveryExit, Restart, Sender, SenderContext, WindowRules,
};
use incast_protocols::{Bytes, Duration, Message};
use proptest::prelude::*;

use super::{Connection, context};

/// What happens to a connection. What cannot happen in its state is passed over.
#[derive(Clone, Debug)]
pub(crate) enum Event {
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
    /// A message of so many bytes begins, to be complete so many microseconds later.
    Message { size: Option<u64>, deadline: Option<u64> },
    /// So many microseconds pass.
    Pass(u64),
    /// The smoothed round-trip time is so many microseconds now.
    RoundTrip(u64),
    /// A wrapper takes the window over, or gives it back.
    MayMoveWindow(bool),
    /// The application begins or ceases to use the window up.
    WindowUsed(bool),
}

pub(crate) fn event() -> impl Strategy<Value = Event> {
    let ece = || prop::bool::weighted(0.3);
    prop_oneof![
        6 => (1..40_u64).prop_map(Event::Send),
        8 => (1..=64_u64, prop::bool::weighted(0.1), ece()).prop_map(|(share, odd, ece)| Event::Ack { share, odd, ece }),
        4 => (1..6_u64, ece()).prop_map(|(count, ece)| Event::Duplicates { count, ece }),
        1 => Just(Event::Timeout),
        1 => prop_oneof![Just(Restart::Idle), Just(Restart::Fresh), (1..40_u32).prop_map(|rtos| Restart::Decay { rtos })]
            .prop_map(Event::Restart),
        2 => (prop::option::of(1..1_000_000_u64), prop::option::of(1..5_000_u64))
            .prop_map(|(size, deadline)| Event::Message { size, deadline }),
        2 => (1..500_u64).prop_map(Event::Pass),
        1 => (1..2_000_u64).prop_map(Event::RoundTrip),
        1 => prop::bool::weighted(0.8).prop_map(Event::MayMoveWindow),
        1 => prop::bool::weighted(0.7).prop_map(Event::WindowUsed),
    ]
}

pub(crate) fn rules() -> impl Strategy<Value = WindowRules> {
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

pub(crate) fn contexts() -> impl Strategy<Value = SenderContext> {
    (prop_oneof![Just(1_u64), Just(536), Just(1446), Just(8960)], 1..=10_u64, rules())
        .prop_map(|(mss, initial_segments, rules)| context(mss, initial_segments, rules))
}

pub(crate) fn carry_out<S: Sender>(connection: &mut Connection<S>, mss: u64, event: &Event) {
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
        Event::Message { size, deadline } => {
            let deadline = deadline.map(|us| connection.now + Duration::from_us(us));
            let message = Message { size: size.map(Bytes), deadline, ..Message::default() };
            connection.message(&message.handed_over(connection.now));
        }
        Event::Pass(us) => connection.now += Duration::from_us(us),
        Event::RoundTrip(us) => connection.srtt = Some(Duration::from_us(us)),
        Event::MayMoveWindow(may) => connection.may_move_window = may,
        Event::WindowUsed(used) => connection.window_used = used,
    }
}
