//! A fixed number of requests is outstanding at most; the next leaves when a response is complete.

use alloc::collections::VecDeque;

use super::{Application, ApplicationContext, Request, RequestId};
use crate::registry::Part;
use crate::units::Time;

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
    pending: VecDeque<RequestId>,
    outstanding: u32,
    most: u32,
}

impl FixedWindow {
    /// Nothing asked for yet.
    #[must_use]
    pub fn new(config: &Config, _context: &ApplicationContext) -> Self {
        Self { pending: VecDeque::new(), outstanding: 0, most: config.outstanding.max(1) }
    }
}

impl Application for FixedWindow {
    fn on_request(&mut self, _now: Time, request: Request) {
        self.pending.push_back(request.id);
    }

    fn on_finished(&mut self, _now: Time, _request: RequestId, _out_of_order: u64) {
        self.outstanding -= 1;
    }

    fn poll(&mut self, _now: Time) -> Option<RequestId> {
        if self.outstanding >= self.most {
            return None;
        }
        let id = self.pending.pop_front()?;
        self.outstanding += 1;
        Some(id)
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
    use super::super::tests::{ask, context, poll_all};
    use super::*;

    #[test]
    fn each_response_makes_room_for_one_request() {
        let mut application = FixedWindow::new(&Config { outstanding: 3 }, &context());
        ask(&mut application, 0..6, 1000);
        assert_eq!(poll_all(&mut application), [0, 1, 2]);
        // Whatever was out of order: the window is fixed.
        application.on_finished(Time(0), RequestId(1), 7);
        assert_eq!(poll_all(&mut application), [3]);
        application.on_finished(Time(0), RequestId(0), 0);
        application.on_finished(Time(0), RequestId(2), 0);
        assert_eq!(poll_all(&mut application), [4, 5]);
    }
}
