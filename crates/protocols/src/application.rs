//! The application's place: how many requests an aggregator keeps outstanding.
//!
//! The same interface schedules simulated requests and those of real programs, so it knows only what
//! a program can know: what it asked for, what finished or was given up, when bytes came, and how many
//! segments its sockets have counted as out of order since (Linux can only be polled for that:
//! `tcpi_rcv_ooopack`).
//!
//! A program gives every request a number, and asks with [`poll`](Application::poll) what it may send. What it gets is a
//! [`Grant`], which it hands back with [`on_finished`](Application::on_finished) once nothing of the response is under way
//! any more, whether it was complete, failed or was given up. A request that has no grant yet is
//! [withdrawn](Application::on_withdrawn).

use crate::analysis::batch::Bottleneck;
use crate::registry::registry;
use crate::units::{Bytes, Duration, Time};

pub mod all_at_once;
pub mod ars;
pub mod credit;
pub mod fixed_window;
pub mod sequential;
mod waiting;

pub use waiting::Waiting;

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
    "credit" = credit::Credit,
}

/// What a scheduler is told: configured, not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplicationContext {
    /// What the responses have to pass. A scheduler that [learns](credit::Config::learn) looks at its segment size only.
    pub bottleneck: Bottleneck,
    /// How many connections may answer at once, where that is known.
    pub workers: Option<u32>,
    /// Minimum retransmission timeout of the workers.
    pub rto_min: Duration,
}

/// A request's number, given by the program: no two of one scheduler are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Windows from this size on stand for one that is not known: then nobody can say either whether data was lost.
pub const UNKNOWN_WINDOW: Bytes = Bytes(1 << 62);

/// A request the program wants answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its number.
    pub id: RequestId,
    /// How large the response will be, as far as known.
    pub expected: Option<Bytes>,
    /// How much of it can be under way at once, as far as known: the receive window of its connection, where it is limited.
    pub window: Option<Bytes>,
}

/// Leave to send one request, to be handed back when it is over.
#[must_use = "a grant that is not handed back is lost to all other requests"]
#[derive(Debug, PartialEq, Eq)]
pub struct Grant {
    id: RequestId,
    cost: Bytes,
    at: Time,
}

impl Grant {
    /// Leave from `at` on to send the request `id`, which costs that much of what the scheduler has to give.
    pub const fn new(at: Time, id: RequestId, cost: Bytes) -> Self {
        Self { id, cost, at }
    }

    /// The request.
    #[must_use]
    pub const fn id(&self) -> RequestId {
        self.id
    }

    /// What it costs: zero for schedulers that do not count bytes.
    #[must_use]
    pub const fn cost(&self) -> Bytes {
        self.cost
    }

    /// When it was given.
    #[must_use]
    pub const fn at(&self) -> Time {
        self.at
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Payload of the response that arrived, without that of which [`on_progress`](Application::on_progress) told.
    pub received: Bytes,
    /// Segments that arrived beyond a gap at any of the aggregator's sockets since the last call that told of them.
    pub out_of_order: u64,
}

/// How a scheduler stands, for people and their gauges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Requests that wait for a grant.
    pub waiting: u64,
    /// Requests with a grant.
    pub outstanding: u64,
    /// What these cost together.
    pub under_way: Bytes,
    /// What they may cost; `None`: there is no limit, or none in bytes. Where it is known how long servers
    /// [think](credit::Config::think), what they think about comes on top.
    pub budget: Option<Bytes>,
    /// How often the budget has changed.
    pub changes: u64,
    /// Why it changed last.
    pub last_change: Option<credit::Why>,
    /// Less has not helped against losses: they are those of others, such as long flows at the same port. A budget
    /// that is learned then goes by goodput alone.
    pub losses_of_others: bool,
    /// How long servers are taken to [think](credit::Config::think) before they answer: what was said, or what was found out.
    pub think: Duration,
}

/// Tells a scheduler that is about to take silence for a stall, or what is silent for hung, that payload arrived without being reported, the last of it `ago`
/// before `now`. When the rest arrived is unknown, so it counts as on time: the look is late, not the data.
pub fn tell_late(scheduler: &mut impl Application, now: Time, ago: Duration) {
    let came = Time(now.0.saturating_sub(ago.0));
    if scheduler.silent_since().is_some_and(|since| since < came) {
        scheduler.on_progress(came, Bytes::ZERO);
    }
    while let Some(due) = scheduler.stalls_at().filter(|due| *due <= now) {
        scheduler.on_progress(came.min(Time(due.0.saturating_sub(1))), Bytes::ZERO);
        let is_later = scheduler.stalls_at().is_none_or(|next| next > due);
        if came < due || !is_later {
            return;
        }
    }
}

/// Schedules the requests of one aggregator.
///
/// Every method that can change what may be sent is followed by [`poll`](Self::poll) until it returns
/// `None`. Times may stand still or go back, as clocks do that wrap: decisions become poor for a while, and nothing is lost.
#[enum_dispatch::enum_dispatch]
#[auto_impl::auto_impl(Box)]
pub trait Application: core::fmt::Debug + dyn_clone::DynClone {
    /// The program wants this request answered.
    fn on_request(&mut self, now: Time, request: Request);

    /// The program no longer wants this request, which waits for its grant.
    fn on_withdrawn(&mut self, now: Time, request: RequestId);

    /// So much payload of some response arrived. Told only to a scheduler that [asks for it](Self::watches_progress), and a
    /// program that does not see its bytes come need not: all it knows is then in [`Outcome`].
    fn on_progress(&mut self, _now: Time, _received: Bytes) {}

    /// A request is over, and nothing of its response is under way any more: it is complete, or its connection is closed.
    fn on_finished(&mut self, now: Time, grant: Grant, outcome: Outcome);

    /// When [`on_timer`](Self::on_timer) wants to be called, if at all.
    fn next_timer(&self) -> Option<Time> {
        None
    }

    /// The time of [`next_timer`](Self::next_timer) has come. `out_of_order` is as in [`Outcome`].
    fn on_timer(&mut self, _now: Time, _out_of_order: u64) {}

    /// When it will take silence for a stall, if [`next_timer`](Self::next_timer) may be sooner for another reason. Before that, a program
    /// need not look whether data has come of which nobody has told.
    fn stalls_at(&self) -> Option<Time> {
        None
    }

    /// Since when nothing has come of all that is under way, as far as it was told. If that lasts, it takes it for hung.
    fn silent_since(&self) -> Option<Time> {
        None
    }

    /// When [`poll`](Self::poll) lets a request go though nothing else happens, if it does. [`next_timer`](Self::next_timer) is no
    /// later then.
    fn lets_go_at(&self) -> Option<Time> {
        None
    }

    /// The next request to send now, if any.
    fn poll(&mut self, now: Time) -> Option<Grant>;

    /// The receive window to which the program should limit its connections to the workers, if any. It may change with every
    /// call, and holds for what is announced from then on.
    fn window(&self) -> Option<Bytes> {
        None
    }

    /// Whether the [`Outcome`] of a request is of use to it. A program need not ask a socket for one that is not.
    fn heeds_outcomes(&self) -> bool {
        true
    }

    /// Whether [`on_progress`](Self::on_progress) is of use to it.
    fn watches_progress(&self) -> bool {
        false
    }

    /// Whether it goes by the time. A program need not look at its clock for one that does not.
    fn heeds_time(&self) -> bool {
        true
    }

    /// How it stands.
    fn status(&self) -> Status {
        Status::default()
    }
}

/// What is outstanding, as schedulers count it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outstanding {
    /// Requests with a grant.
    pub requests: u64,
    /// What these cost together.
    pub bytes: u128,
}

impl Outstanding {
    fn add(&mut self, cost: Bytes) {
        self.requests += 1;
        self.bytes += u128::from(cost.0);
    }

    fn remove(&mut self, grant: &Grant) {
        self.requests -= 1;
        self.bytes -= u128::from(grant.cost.0);
    }

    fn bytes(&self) -> Bytes {
        Bytes(u64::try_from(self.bytes).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rate;
    use std::collections::VecDeque;

    /// The simulated setting of the ARS paper, section IV.
    pub(super) fn context() -> ApplicationContext {
        let bottleneck = Bottleneck {
            rate: Rate(1_000_000_000),
            base_rtt: Duration::from_us(100),
            buffer: Bytes(65_536),
            mss: Bytes(1024),
        };
        ApplicationContext { bottleneck, workers: None, rto_min: Duration::from_ms(200) }
    }

    pub(super) fn request(id: u64, response: Option<u64>) -> Request {
        Request { id: RequestId(id), expected: response.map(Bytes), window: None }
    }

    pub(super) fn ask(application: &mut impl Application, ids: core::ops::Range<u64>, response: u64) {
        for id in ids {
            application.on_request(Time(0), request(id, Some(response)));
        }
    }

    pub(super) fn grants(application: &mut impl Application, now: Time) -> VecDeque<Grant> {
        core::iter::from_fn(|| application.poll(now)).collect()
    }

    pub(super) fn ids<'g>(grants: impl IntoIterator<Item = &'g Grant>) -> std::vec::Vec<u64> {
        grants.into_iter().map(|grant| grant.id().0).collect()
    }

    pub(super) fn gap(out_of_order: u64) -> Outcome {
        Outcome { received: Bytes::ZERO, out_of_order }
    }
}
