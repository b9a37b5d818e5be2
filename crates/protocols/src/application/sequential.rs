//! One request after the other: no incast, and one round trip for each.

use super::fixed_window::{self, FixedWindow};
use super::{Application, ApplicationContext, Grant, Outcome, Request, RequestId, Status};
use crate::registry::Part;
use crate::units::Time;

/// No parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {}

/// A fixed window of one request.
#[derive(Clone, Debug)]
pub struct Sequential(FixedWindow);

impl Sequential {
    /// Nothing asked for yet.
    #[must_use]
    pub fn new(_config: &Config, context: &ApplicationContext) -> Self {
        Self(FixedWindow::new(&fixed_window::Config { outstanding: 1 }, context))
    }
}

impl Application for Sequential {
    fn on_request(&mut self, now: Time, request: Request) {
        self.0.on_request(now, request);
    }

    fn on_withdrawn(&mut self, now: Time, request: RequestId) {
        self.0.on_withdrawn(now, request);
    }

    fn on_finished(&mut self, now: Time, grant: Grant, outcome: Outcome) {
        self.0.on_finished(now, grant, outcome);
    }

    fn poll(&mut self, now: Time) -> Option<Grant> {
        self.0.poll(now)
    }

    fn status(&self) -> Status {
        self.0.status()
    }
}

impl Part for Sequential {
    type Config = Config;
    const SUMMARY: &'static str = "asks for one response at a time";
    const SOURCE: &'static str = "the program that knows nothing of concurrency";
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ask, context, gap, grants, ids};
    use super::*;

    #[test]
    fn the_next_request_waits_for_the_response() {
        let mut application = Sequential::new(&Config {}, &context());
        ask(&mut application, 0..3, 1000);
        for id in 0..3 {
            let mut sent = grants(&mut application, Time(0));
            assert_eq!(ids(&sent), [id]);
            application.on_finished(Time(0), sent.remove(0).unwrap(), gap(0));
        }
        assert_eq!(ids(&grants(&mut application, Time(0))), [0; 0]);
        ask(&mut application, 3..6, 1000);
        application.on_withdrawn(Time(0), RequestId(3));
        assert_eq!(ids(&grants(&mut application, Time(0))), [4]);
        assert_eq!(application.status(), Status { waiting: 1, outstanding: 1, ..Status::default() });
    }
}
