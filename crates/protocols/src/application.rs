//! The application's place: how many requests an aggregator keeps outstanding.
//!
//! The same interface schedules simulated requests and those of real programs, so it knows only what
//! a program can know: what it asked for, what finished, and how many segments its sockets have
//! counted as out of order since (Linux can only be polled for that: `tcpi_rcv_ooopack`).

use crate::analysis::batch::Bottleneck;
use crate::registry::registry;
use crate::units::{Bytes, Time};

pub mod all_at_once;
pub mod ars;
pub mod fixed_window;
pub mod sequential;

registry! {
    Application: Application, built from ApplicationContext;
    /// Any registered application, called without a vtable.
    any AnyApplication;
    /// An application and its parameters, as a scenario names it.
    choice ApplicationChoice;
    "all-at-once" = all_at_once::AllAtOnce,
    "fixed-window" = fixed_window::FixedWindow,
    "sequential" = sequential::Sequential,
    "ars" = ars::Ars,
}

/// What a scheduler is told: configured, not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplicationContext {
    /// What the responses have to pass.
    pub bottleneck: Bottleneck,
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
#[auto_impl::auto_impl(Box)]
pub trait Application: core::fmt::Debug + dyn_clone::DynClone {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Duration, Rate};

    /// The simulated setting of the ARS paper, section IV.
    pub(super) fn context() -> ApplicationContext {
        let bottleneck = Bottleneck {
            rate: Rate(1_000_000_000),
            base_rtt: Duration::from_us(100),
            buffer: Bytes(65_536),
            mss: Bytes(1024),
        };
        ApplicationContext { bottleneck }
    }

    pub(super) fn ask(application: &mut impl Application, ids: core::ops::Range<u64>, response: u64) {
        for id in ids {
            application.on_request(Time(0), Request { id: RequestId(id), expected: Some(Bytes(response)) });
        }
    }

    pub(super) fn poll_all(application: &mut impl Application) -> std::vec::Vec<u64> {
        core::iter::from_fn(|| application.poll(Time(0))).map(|id| id.0).collect()
    }
}
