//! Every request leaves at once: what programs do, and what causes incast.

use super::{Application, ApplicationContext, Grant, Outcome, Outstanding, Request, RequestId, Status, Waiting};
use crate::registry::Part;
use crate::units::{Bytes, Time};

/// No parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {}

/// Holds nothing back.
#[derive(Clone, Debug)]
pub struct AllAtOnce {
    waiting: Waiting,
    outstanding: Outstanding,
}

impl AllAtOnce {
    /// Nothing asked for yet.
    #[must_use]
    pub const fn new(_config: &Config, _context: &ApplicationContext) -> Self {
        Self { waiting: Waiting::new(), outstanding: Outstanding { requests: 0, bytes: 0 } }
    }
}

impl Application for AllAtOnce {
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
        let (id, ()) = self.waiting.pop()?;
        self.outstanding.add(Bytes::ZERO);
        Some(Grant::new(now, id, Bytes::ZERO))
    }

    fn status(&self) -> Status {
        Status { waiting: self.waiting.len() as u64, outstanding: self.outstanding.requests, ..Status::default() }
    }
}

impl Part for AllAtOnce {
    type Config = Config;
    const SUMMARY: &'static str = "sends every request at once";
    const SOURCE: &'static str = "the usual scatter-gather program";
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ask, context, gap, grants, ids};
    use super::*;

    #[test]
    fn requests_leave_in_order_without_waiting() {
        let mut application = AllAtOnce::new(&Config {}, &context());
        ask(&mut application, 0..4, 1000);
        application.on_withdrawn(Time(0), RequestId(1));
        assert_eq!(application.status().waiting, 3);
        let mut sent = grants(&mut application, Time(0));
        assert_eq!(ids(&sent), [0, 2, 3]);
        assert_eq!(application.status().outstanding, 3);
        application.on_finished(Time(0), sent.remove(0).unwrap(), gap(0));
        assert_eq!(application.status().outstanding, 2);
    }

    #[test]
    fn it_wants_no_timer_no_window_and_no_progress() {
        let application = AllAtOnce::new(&Config {}, &context());
        assert_eq!((application.next_timer(), application.window()), (None, None));
        assert!(!application.watches_progress());
    }
}
