//! One request after the other: no incast, and one round trip for each.

use super::fixed_window::{self, FixedWindow};
use super::{Application, ApplicationContext, Request, RequestId};
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

    fn on_finished(&mut self, now: Time, request: RequestId, out_of_order: u64) {
        self.0.on_finished(now, request, out_of_order);
    }

    fn poll(&mut self, now: Time) -> Option<RequestId> {
        self.0.poll(now)
    }
}

impl Part for Sequential {
    type Config = Config;
    const SUMMARY: &'static str = "asks for one response at a time";
    const SOURCE: &'static str = "the program that knows nothing of concurrency";
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ask, context, poll_all};
    use super::*;

    #[test]
    fn the_next_request_waits_for_the_response() {
        let mut application = Sequential::new(&Config {}, &context());
        ask(&mut application, 0..3, 1000);
        for id in 0..3 {
            assert_eq!(poll_all(&mut application), [id]);
            application.on_finished(Time(0), RequestId(id), 0);
        }
        assert_eq!(poll_all(&mut application), [0; 0]);
    }
}
