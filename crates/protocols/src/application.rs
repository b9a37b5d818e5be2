//! The application's place: how many requests an aggregator keeps outstanding.
//!
//! The same interface schedules simulated requests and those of real programs, so it knows only what
//! a program can know: what it asked for, what finished, and how many segments its sockets have
//! counted as out of order since (Linux can only be polled for that: `tcpi_rcv_ooopack`).

use crate::registry::registry;
use crate::units::{Bytes, Duration, Rate, Time};

registry! {
    Application: Application, built from ApplicationContext;
    /// Any registered application, called without a vtable.
    any AnyApplication;
    /// An application and its parameters, as a scenario names it.
    choice ApplicationChoice;
    "all-at-once" = all_at_once::AllAtOnce,
}

/// What a scheduler is told of the network it works in: configured, not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplicationContext {
    /// Rate of the link to the aggregator.
    pub rate: Rate,
    /// Round-trip time without queueing.
    pub base_rtt: Duration,
    /// Buffer of the last switch port.
    pub buffer: Bytes,
    /// Payload of a full segment.
    pub mss: Bytes,
}

/// A request's number in the order of [`Application::on_request`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A request the program wants answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its number.
    pub id: RequestId,
    /// How large the response will be, as far as known.
    pub expected: Option<Bytes>,
}

/// Schedules the requests of one aggregator.
///
/// Every method that can change what may be sent is followed by [`poll`](Self::poll) until it returns
/// `None`.
#[enum_dispatch::enum_dispatch]
pub trait Application {
    /// The program wants this request answered.
    fn on_request(&mut self, now: Time, request: Request);

    /// The response is complete. `out_of_order` counts the segments that arrived beyond a gap at any of
    /// the aggregator's sockets since the last call.
    fn on_finished(&mut self, now: Time, request: RequestId, out_of_order: u64);

    /// When [`on_timer`](Self::on_timer) wants to be called, if at all.
    fn next_timer(&self) -> Option<Time> {
        None
    }

    /// The time of [`next_timer`](Self::next_timer) has come.
    fn on_timer(&mut self, _now: Time, _out_of_order: u64) {}

    /// The next request to send now, if any.
    fn poll(&mut self, now: Time) -> Option<RequestId>;
}
