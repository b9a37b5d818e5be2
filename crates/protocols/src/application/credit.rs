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
//! A request that costs more than the budget goes alone; if the budget is learned, also beside [requests that hang](hanging). Credit
//! comes back when a response is complete, and for one that was given up when its connection is closed or has run dry: until then its
//! sender may still fill the port.
//!
//! Servers that think hold their part of a budget though nothing of theirs is under way, unless it is said how long they think
//! ([`Config::think`]), or found out ([`Config::learn_think`]). A budget that is [learned](Config::learn) grows beyond what the port holds
//! at once where they think, and requests then go at a pace.

mod hanging;
mod knee;
mod pace;
mod think_time;
mod thinking;

use alloc::boxed::Box;

pub use knee::{Knee, Search, Why};

use self::thinking::Thinking;
use super::{
    Application, ApplicationContext, Grant, Outcome, Outstanding, Request, RequestId, Status, UNKNOWN_WINDOW, Waiting,
};
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
    /// How long servers usually think before they answer, e.g. "8ms". Meanwhile their requests hold nothing of the budget: others go
    /// at the pace at which the last port's link brings responses, and at once if 1.25 budgets have room for all; a slower link before
    /// it is not known. Told less, it uses less of the link; told more, it loses more where times differ.
    pub think: Duration,
    /// How long servers think is found out: it is more if requests wait and the link is not full, and less if data is lost.
    pub learn_think: bool,
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
            think: Duration::ZERO,
            learn_think: false,
        }
    }
}

/// The credit of one aggregator.
#[derive(Clone, Debug)]
pub struct Credit {
    waiting: Waiting<Asked>,
    outstanding: Outstanding,
    limit: Limit,
    window: Option<Bytes>,
    response: Option<Bytes>,
}

/// A request that waits.
#[derive(Clone, Copy, Debug)]
struct Asked {
    cost: Bytes,
    /// Size of its response, as far as known.
    response: Bytes,
    /// Whether it will be told if data was lost.
    is_watched: bool,
}

#[derive(Clone, Debug)]
enum Limit {
    Fixed(Bytes),
    /// Servers may think.
    Paced(Bytes, Box<Thinking>),
    Learned(Box<Knee>),
}

impl Limit {
    fn now(&self) -> Option<Bytes> {
        match self {
            Self::Fixed(budget) | Self::Paced(budget, _) => Some(*budget),
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
            let thinking = Thinking::new(config.think, bottleneck.rate, segment);
            let limit = if config.learn_think {
                Limit::Paced(budget, Box::new(thinking.finding_out(budget)))
            } else if config.think == Duration::ZERO {
                Limit::Fixed(budget)
            } else {
                Limit::Paced(budget, Box::new(thinking))
            };
            (limit, part.max(least))
        };
        Self {
            waiting: Waiting::new(),
            outstanding: Outstanding::default(),
            limit,
            window: config.clamp.then(|| config.window.unwrap_or(part).max(segment)),
            response: config.response,
        }
    }

    fn asked(&self, request: &Request) -> Asked {
        let expected = request.expected.or(self.response);
        let window = request.window.or(self.window()).unwrap_or(Bytes(u64::MAX));
        let cost = expected.unwrap_or(Bytes(u64::MAX)).min(window).max(Bytes(1));
        let is_watched = request.window.is_none_or(|window| window < UNKNOWN_WINDOW);
        Asked { cost, response: expected.unwrap_or(cost), is_watched }
    }

    fn fits(&mut self, now: Time, cost: Bytes, is_watched: bool) -> bool {
        let (outstanding, waiting) = (self.outstanding, self.waiting.len());
        match &mut self.limit {
            Limit::Fixed(budget) => {
                outstanding.requests == 0 || outstanding.bytes + u128::from(cost.0) <= u128::from(budget.0)
            }
            Limit::Paced(budget, thinking) => thinking.fits(now, cost, *budget, outstanding, (waiting, is_watched)),
            Limit::Learned(knee) => knee.fits(cost, outstanding) && knee.paces(now, cost, outstanding),
        }
    }
}

impl Application for Credit {
    fn on_request(&mut self, _now: Time, request: Request) {
        let asked = self.asked(&request);
        self.waiting.push(request.id, asked);
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
        match &mut self.limit {
            Limit::Fixed(_) => {}
            Limit::Paced(_, thinking) => thinking.on_finished(now, &grant, &outcome, self.outstanding),
            Limit::Learned(knee) => knee.on_finished(now, &grant, &outcome, self.outstanding),
        }
    }

    fn next_timer(&self) -> Option<Time> {
        match &self.limit {
            Limit::Fixed(_) | Limit::Paced(..) => self.lets_go_at(),
            Limit::Learned(knee) => [knee.stalls_at(), knee.lets_go(), knee.hangs_at()].into_iter().flatten().min(),
        }
    }

    fn stalls_at(&self) -> Option<Time> {
        match &self.limit {
            Limit::Learned(knee) => knee.stalls_at(),
            Limit::Fixed(_) | Limit::Paced(..) => None,
        }
    }

    fn silent_since(&self) -> Option<Time> {
        match &self.limit {
            Limit::Learned(knee) => knee.silent_since(),
            Limit::Fixed(_) | Limit::Paced(..) => None,
        }
    }

    fn on_timer(&mut self, now: Time, out_of_order: u64) {
        match &mut self.limit {
            Limit::Fixed(_) => {}
            // What may go is found when it is asked for.
            Limit::Paced(_, thinking) => thinking.on_timer(out_of_order),
            Limit::Learned(knee) => knee.on_timer(now, out_of_order, self.outstanding),
        }
    }

    fn lets_go_at(&self) -> Option<Time> {
        match &self.limit {
            Limit::Paced(_, thinking) => thinking.lets_go(),
            Limit::Learned(knee) => knee.lets_go(),
            Limit::Fixed(_) => None,
        }
    }

    fn poll(&mut self, now: Time) -> Option<Grant> {
        match &mut self.limit {
            Limit::Fixed(_) => {}
            Limit::Paced(_, thinking) => thinking.forget_timer(),
            Limit::Learned(knee) => knee.ask_anew(now),
        }
        let Some(&Asked { cost, is_watched, .. }) = self.waiting.front() else {
            if let Limit::Paced(_, thinking) = &mut self.limit {
                thinking.waits(false);
            }
            return None;
        };
        if !self.fits(now, cost, is_watched) {
            match &mut self.limit {
                Limit::Fixed(_) => {}
                Limit::Paced(_, thinking) => thinking.waits(true),
                Limit::Learned(knee) => knee.on_refused(),
            }
            return None;
        }
        let (id, Asked { cost, response, is_watched }) = self.waiting.pop()?;
        self.outstanding.add(cost);
        match &mut self.limit {
            Limit::Fixed(_) => {}
            Limit::Paced(_, thinking) => thinking.on_granted(id, cost, response, is_watched),
            Limit::Learned(knee) => knee.on_granted(now, cost, self.outstanding),
        }
        Some(Grant::new(now, id, cost))
    }

    fn window(&self) -> Option<Bytes> {
        let wide = match &self.limit {
            Limit::Fixed(_) | Limit::Paced(..) => 1,
            Limit::Learned(knee) => knee.wide(),
        };
        self.window.filter(|_| self.limit.now().is_some()).map(|window| window.times(wide))
    }

    fn heeds_outcomes(&self) -> bool {
        // Told or found out, servers that think are asked more at once as long as nothing is lost.
        !matches!(self.limit, Limit::Fixed(_))
    }

    fn watches_progress(&self) -> bool {
        matches!(self.limit, Limit::Learned(_))
    }

    fn heeds_time(&self) -> bool {
        !matches!(self.limit, Limit::Fixed(_))
    }

    fn status(&self) -> Status {
        let ((changes, last_change), losses_of_others) = match &self.limit {
            Limit::Fixed(_) | Limit::Paced(..) => ((0, None), false),
            Limit::Learned(knee) => (knee.changes(), knee.losses_of_others()),
        };
        let (budget, think) = match &self.limit {
            Limit::Paced(budget, thinking) => {
                (Some(Bytes(budget.0.saturating_add(thinking.cost().0))), thinking.think())
            }
            Limit::Fixed(_) | Limit::Learned(_) => (self.limit.now(), Duration::ZERO),
        };
        Status {
            waiting: self.waiting.len() as u64,
            outstanding: self.outstanding.requests,
            under_way: self.outstanding.bytes(),
            budget,
            changes,
            last_change,
            losses_of_others,
            think,
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
        if config.learn && config.think != Duration::ZERO {
            return Err(Conflict::at(
                "think",
                alloc::format!("no effect: learn = true finds the budget, think = {} is given", config.think),
            ));
        }
        if config.learn_think && config.learn {
            return Err(Conflict::at("learn_think", "no effect: learn = true finds the budget".into()));
        }
        if config.learn_think && config.think != Duration::ZERO {
            return Err(Conflict::at(
                "think",
                alloc::format!("no effect: learn_think = true finds it, {} is given", config.think),
            ));
        }
        config.search.check().map_err(|conflict| conflict.inside("search"))
    }
}

#[cfg(test)]
mod tests;
