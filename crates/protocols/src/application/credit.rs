//! Credit: a sliding budget of bytes. A request costs what it can have under way: the smaller of its response and of the
//! window of its connection.
//!
//! The last port overflows when all that is under way *at once* does not fit, whoever sends it. So the windows of the
//! connections are limited, and the requests are let go in the order in which they came, as long as their costs fit into
//! the budget together. Windows alone do not do, as none can be less than a segment; requests alone neither, as a
//! connection that kept its window sends a whole response in one burst.
//!
//! Not to be taken for the receiver [`credit`](crate::receiver::credit), which needs the kernel of the asking host: it holds no
//! request back, and gives out windows from a budget of what has not arrived.
//!
//! A request that costs more than the budget goes alone. Credit comes back when a response is complete, and for one that was
//! given up when its connection is closed or has run dry: until then its sender may still fill the port.

mod knee;

use alloc::boxed::Box;

pub use knee::{Knee, Search, Why};

use super::{Application, ApplicationContext, Grant, Outcome, Outstanding, Request, RequestId, Status, Waiting};
use crate::registry::{Conflict, Part};
use crate::units::{Bytes, Duration, Time};

/// Budget and windows: both follow from the port, or are given, or the budget is learned.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Most bytes that may be under way at once, e.g. "45KB". Without it 70 % of the buffer of the last port, but no more than its
    /// link carries in half the minimum retransmission timeout: what waits longer is sent twice.
    pub budget: Option<Bytes>,
    /// The budget is learned from the responses: it grows while that pays. It begins with four windows.
    pub learn: bool,
    /// How the budget is learned.
    pub search: Search,
    /// Whether the receive windows of the aggregator's connections are limited.
    pub clamp: bool,
    /// To how many bytes, e.g. "6KB". Without it an equal part of the budget for each worker, at least `least_window`; if the budget
    /// is learned, `least_window`.
    pub window: Option<Bytes>,
    /// Smallest such part, in full segments. Windows of one or two segments wait for delayed ACKs.
    #[schemars(range(min = 1))]
    pub least_window: u32,
    /// Taken for the size of responses whose size is not known; without it, these cost their window.
    pub response: Option<Bytes>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            budget: None,
            learn: false,
            search: Search::default(),
            clamp: true,
            window: None,
            least_window: 4,
            response: None,
        }
    }
}

/// The credit of one aggregator.
#[derive(Clone, Debug)]
pub struct Credit {
    /// What each costs.
    waiting: Waiting<Bytes>,
    outstanding: Outstanding,
    limit: Limit,
    window: Option<Bytes>,
    response: Option<Bytes>,
}

#[derive(Clone, Debug)]
enum Limit {
    Fixed(Bytes),
    Learned(Box<Knee>),
}

impl Limit {
    fn now(&self) -> Option<Bytes> {
        match self {
            Self::Fixed(budget) => Some(*budget),
            Self::Learned(knee) => knee.budget(),
        }
    }
}

impl Credit {
    /// Nothing asked for yet.
    #[must_use]
    pub fn new(config: &Config, context: &ApplicationContext) -> Self {
        let bottleneck = &context.bottleneck;
        let segment = Bytes(bottleneck.mss.0.max(1));
        let least = segment.times(config.least_window.max(1).into());
        let (limit, part) = if config.learn {
            let window = config.window.unwrap_or(least);
            (Limit::Learned(Box::new(Knee::new(&config.search, segment, window.times(4)))), least)
        } else {
            let carried = bottleneck.rate.bytes_in(Duration(context.rto_min.0 / 2));
            let port = Bytes(bottleneck.buffer.0 / 10 * 7).min(carried).max(segment);
            let budget = config.budget.unwrap_or(port);
            let part = context.workers.map_or(Bytes::ZERO, |workers| Bytes(budget.0 / u64::from(workers.max(1))));
            (Limit::Fixed(budget), part.max(least))
        };
        Self {
            waiting: Waiting::new(),
            outstanding: Outstanding::default(),
            limit,
            window: config.clamp.then(|| config.window.unwrap_or(part).max(segment)),
            response: config.response,
        }
    }

    fn cost(&self, request: &Request) -> Bytes {
        let expected = request.expected.or(self.response).unwrap_or(Bytes(u64::MAX));
        let window = request.window.or(self.window()).unwrap_or(Bytes(u64::MAX));
        expected.min(window).max(Bytes(1))
    }

    fn fits(&self, cost: Bytes) -> bool {
        let together = self.outstanding.bytes + u128::from(cost.0);
        self.outstanding.requests == 0 || self.limit.now().is_none_or(|budget| together <= u128::from(budget.0))
    }
}

impl Application for Credit {
    fn on_request(&mut self, _now: Time, request: Request) {
        let cost = self.cost(&request);
        self.waiting.push(request.id, cost);
    }

    fn on_withdrawn(&mut self, _now: Time, request: RequestId) {
        self.waiting.withdraw(request);
    }

    fn on_progress(&mut self, now: Time, received: Bytes) {
        if let Limit::Learned(knee) = &mut self.limit {
            knee.on_progress(now, received, self.outstanding);
        }
    }

    fn on_finished(&mut self, now: Time, grant: Grant, outcome: Outcome) {
        self.outstanding.remove(&grant);
        if let Limit::Learned(knee) = &mut self.limit {
            knee.on_finished(now, &grant, &outcome, self.outstanding);
        }
    }

    fn next_timer(&self) -> Option<Time> {
        match &self.limit {
            Limit::Fixed(_) => None,
            Limit::Learned(knee) => knee.stalls_at(),
        }
    }

    fn on_timer(&mut self, now: Time, out_of_order: u64) {
        if let Limit::Learned(knee) = &mut self.limit {
            knee.on_timer(now, out_of_order, self.outstanding);
        }
    }

    fn poll(&mut self, now: Time) -> Option<Grant> {
        let cost = *self.waiting.front()?;
        if !self.fits(cost) {
            if let Limit::Learned(knee) = &mut self.limit {
                knee.on_refused();
            }
            return None;
        }
        let (id, cost) = self.waiting.pop()?;
        self.outstanding.add(cost);
        if let Limit::Learned(knee) = &mut self.limit {
            knee.on_granted(now, cost, self.outstanding);
        }
        Some(Grant::new(now, id, cost))
    }

    fn window(&self) -> Option<Bytes> {
        let wide = match &self.limit {
            Limit::Fixed(_) => 1,
            Limit::Learned(knee) => knee.wide(),
        };
        self.window.filter(|_| self.limit.now().is_some()).map(|window| window.times(wide))
    }

    fn heeds_outcomes(&self) -> bool {
        self.watches_progress()
    }

    fn watches_progress(&self) -> bool {
        matches!(self.limit, Limit::Learned(_))
    }

    fn status(&self) -> Status {
        let ((changes, last_change), losses_of_others) = match &self.limit {
            Limit::Fixed(_) => ((0, None), false),
            Limit::Learned(knee) => (knee.changes(), knee.losses_of_others()),
        };
        Status {
            waiting: self.waiting.len() as u64,
            outstanding: self.outstanding.requests,
            under_way: self.outstanding.bytes(),
            budget: self.limit.now(),
            changes,
            last_change,
            losses_of_others,
        }
    }
}

impl Part for Credit {
    type Config = Config;
    const SUMMARY: &'static str =
        "lets requests go while what they can have under way fits into a budget of bytes, and limits windows";
    const SOURCE: &'static str =
        "incast: no paper; windows and requests together keep what is under way within the port";
    const DEVIATIONS: &'static [&'static str] = &[
        "Its budget counts payload: responses of less than some hundred bytes take more of the port in headers than the tenth \
         that is left free.",
    ];

    fn check(config: &Config) -> Result<(), Conflict> {
        if let (true, Some(budget)) = (config.learn, config.budget) {
            return Err(Conflict::at(
                "budget",
                alloc::format!("no effect: learn = true finds the budget, {budget} is given"),
            ));
        }
        if let (false, Some(window)) = (config.clamp, config.window) {
            return Err(Conflict::at(
                "window",
                alloc::format!("no effect: clamp = false sets no window, {window} is given"),
            ));
        }
        config.search.check().map_err(|conflict| conflict.inside("search"))
    }
}

#[cfg(test)]
mod tests;
