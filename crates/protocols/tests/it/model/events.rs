//! Random events of a connection, and how they are carried out.

use incast_protocols::sender::{
    Growth, GrowthCounts, LossBasis, ObservationEnd, PathFacts, RecoveryExit, Restart, Sender, SenderContext,
    WindowRules,
};
use incast_protocols::{Bytes, Duration, Message, Rate};
use proptest::prelude::*;

use super::{Connection, context};

/// What happens to a connection. What cannot happen in its state is passed over.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// This many segments are sent, as far as the window allows.
    Send(u64),
    /// A cumulative ACK for so many bytes in 1/64 of what is in flight, rounded up to segments unless `odd`.
    Ack { share: u64, odd: bool, ece: bool, ein: bool },
    /// So many duplicate ACKs; the third finds a loss.
    Duplicates { count: u64, ece: bool, ein: bool },
    /// The retransmission timer expires.
    Timeout,
    /// The window starts over, if nothing is in flight.
    Restart(Restart),
    /// A message of so many bytes begins, to be complete so many microseconds later.
    Message { size: Option<u64>, deadline: Option<u64> },
    /// So many microseconds pass.
    Pass(u64),
    /// The smoothed round-trip time is so many microseconds now, and the sample of the next ACKs, if they bring one.
    RoundTrip { us: u64, sampled: bool },
    /// This many ports say with the next ACKs what they hold, and what they have sent in this many more microseconds.
    Telemetry { hops: usize, us: u64, queue: u64, sent: u64 },
    /// The time of the sender's own timer comes.
    Timer,
    /// A wrapper takes the window over, or gives it back.
    MayMoveWindow(bool),
    /// The application begins or ceases to use the window up.
    WindowUsed(bool),
}

pub(crate) fn event() -> impl Strategy<Value = Event> {
    let ece = || prop::bool::weighted(0.3);
    let ein = || prop::bool::weighted(0.1);
    prop_oneof![
        6 => (1..40_u64).prop_map(Event::Send),
        8 => (1..=64_u64, prop::bool::weighted(0.1), ece(), ein())
            .prop_map(|(share, odd, ece, ein)| Event::Ack { share, odd, ece, ein }),
        4 => (1..6_u64, ece(), ein()).prop_map(|(count, ece, ein)| Event::Duplicates { count, ece, ein }),
        1 => Just(Event::Timeout),
        1 => prop_oneof![Just(Restart::Idle), Just(Restart::Fresh), (1..40_u32).prop_map(|rtos| Restart::Decay { rtos })]
            .prop_map(Event::Restart),
        2 => (prop::option::of(1..1_000_000_u64), prop::option::of(1..5_000_u64))
            .prop_map(|(size, deadline)| Event::Message { size, deadline }),
        2 => (1..500_u64).prop_map(Event::Pass),
        3 => (1..2_000_u64, prop::bool::weighted(0.8)).prop_map(|(us, sampled)| Event::RoundTrip { us, sampled }),
        3 => (0..4_usize, 0..50_u64, 0..500_000_u64, 0..100_000_u64)
            .prop_map(|(hops, us, queue, sent)| Event::Telemetry { hops, us, queue, sent }),
        1 => Just(Event::Timer),
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
        prop_oneof![Just(RecoveryExit::Flight), Just(RecoveryExit::Ssthresh), Just(RecoveryExit::SsthreshGrows)],
        (
            any::<bool>(),
            any::<bool>(),
            any::<bool>(),
            prop_oneof![Just(ObservationEnd::Beyond), Just(ObservationEnd::At)],
            prop_oneof![Just(GrowthCounts::Acked), Just(GrowthCounts::Delivered)],
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
            growth_counts: others.4,
        })
}

pub(crate) fn contexts() -> impl Strategy<Value = SenderContext> {
    let path = (1..=100_u64, 1..=200_u64, 1..=8_u32).prop_map(|(gbps, us, hops)| PathFacts {
        line_rate: Rate(gbps * 1_000_000_000),
        base_rtt: Duration::from_us(us),
        hops,
    });
    (prop_oneof![Just(1_u64), Just(536), Just(1446), Just(8960)], 1..=10_u64, rules(), prop::option::of(path)).prop_map(
        |(mss, initial_segments, rules, path)| SenderContext { path, ..context(mss, initial_segments, rules) },
    )
}

pub(crate) fn carry_out<S: Sender>(connection: &mut Connection<S>, mss: u64, event: &Event) {
    match *event {
        Event::Send(segments) => connection.send(segments),
        Event::Ack { share, odd, ece, ein } => {
            connection.ein = ein;
            let acked = (connection.flight() * share).div_ceil(64);
            let acked = if odd { acked } else { acked.next_multiple_of(mss).min(connection.flight()) };
            if acked > 0 {
                let _ = connection.ack_bytes(acked, ece);
            }
        }
        Event::Duplicates { count, ece, ein } => {
            connection.ein = ein;
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
        Event::RoundTrip { us, sampled } => {
            connection.srtt = Some(Duration::from_us(us));
            connection.sample = connection.srtt.filter(|_| sampled);
        }
        Event::Telemetry { hops, us, queue, sent } => connection.ports_say(hops, us, queue, sent),
        Event::Timer => connection.timer(),
        Event::MayMoveWindow(may) => connection.may_move_window = may,
        Event::WindowUsed(used) => connection.window_used = used,
    }
}
