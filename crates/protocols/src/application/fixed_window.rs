//! A fixed number of requests is outstanding at most; the next leaves when a response is complete.

use super::{Application, ApplicationContext, Grant, Outcome, Outstanding, Request, RequestId, Status, Waiting};
use crate::registry::Part;
use crate::units::{Bytes, Time};

/// How many requests may be outstanding.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Requests that may be outstanding.
    #[schemars(range(min = 1))]
    pub outstanding: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { outstanding: 16 }
    }
}

/// A window of requests that slides with every response.
#[derive(Clone, Debug)]
pub struct FixedWindow {
    waiting: Waiting,
    outstanding: Outstanding,
    most: u64,
}

impl FixedWindow {
    /// Nothing asked for yet.
    #[must_use]
    pub fn new(config: &Config, _context: &ApplicationContext) -> Self {
        Self { waiting: Waiting::new(), outstanding: Outstanding::default(), most: config.outstanding.max(1).into() }
    }
}

impl Application for FixedWindow {
    fn on_request(&mut self, _now: Time, request: Request) {
        self.waiting.push(request.id, ());
    }

    fn on_withdrawn(&mut self, _now: Time, request: RequestId) {
        self.waiting.withdraw(request);
    }

    fn on_finished(&mut self, _now: Time, grant: Grant, _outcome: Outcome) {
        self.outstanding.remove(&grant);
    }

    fn poll(&mut self, now: Time) -> Option<Grant> {
        if self.outstanding.requests >= self.most {
            return None;
        }
        let (id, ()) = self.waiting.pop()?;
        self.outstanding.add(Bytes::ZERO);
        Some(Grant::new(now, id, Bytes::ZERO))
    }

    fn status(&self) -> Status {
        Status { waiting: self.waiting.len() as u64, outstanding: self.outstanding.requests, ..Status::default() }
    }
}

impl Part for FixedWindow {
    type Config = Config;
    const SUMMARY: &'static str =
        "keeps at most a fixed number of requests outstanding; each response lets the next one go";
    const SOURCE: &'static str = "Nishtala et al., Scaling Memcache at Facebook (NSDI 2013), section 3.1";
    const DEVIATIONS: &'static [&'static str] =
        &["The window has a fixed size, where Facebook's clients adapt theirs; the paper gives no number."];
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ask, context, gap, grants, ids};
    use super::*;

    #[test]
    fn each_response_makes_room_for_one_request() {
        let mut application = FixedWindow::new(&Config { outstanding: 3 }, &context());
        ask(&mut application, 0..7, 1000);
        application.on_withdrawn(Time(0), RequestId(3));
        let mut first = grants(&mut application, Time(5));
        assert_eq!(ids(&first), [0, 1, 2]);
        assert!(first.iter().all(|grant| grant.at() == Time(5)));
        assert_eq!(application.status(), Status { waiting: 3, outstanding: 3, ..Status::default() });
        // Whatever was out of order: the window is fixed.
        application.on_finished(Time(0), first.remove(1).unwrap(), gap(7));
        assert_eq!(ids(&grants(&mut application, Time(0))), [4]);
        for grant in first {
            application.on_finished(Time(0), grant, gap(0));
        }
        assert_eq!(ids(&grants(&mut application, Time(0))), [5, 6]);
    }
}
