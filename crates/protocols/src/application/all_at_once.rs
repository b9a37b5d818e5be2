//! Every request leaves at once: what programs do, and what causes incast.

use alloc::collections::VecDeque;

use super::{Application, ApplicationContext, Request, RequestId};
use crate::registry::Part;
use crate::units::Time;

/// No parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {}

/// Holds nothing back.
#[derive(Clone, Debug)]
pub struct AllAtOnce {
    pending: VecDeque<RequestId>,
}

impl AllAtOnce {
    /// Nothing asked for yet.
    #[must_use]
    pub const fn new(_config: &Config, _context: &ApplicationContext) -> Self {
        Self { pending: VecDeque::new() }
    }
}

impl Application for AllAtOnce {
    fn on_request(&mut self, _now: Time, request: Request) {
        self.pending.push_back(request.id);
    }

    fn on_finished(&mut self, _now: Time, _request: RequestId, _out_of_order: u64) {}

    fn poll(&mut self, _now: Time) -> Option<RequestId> {
        self.pending.pop_front()
    }
}

impl Part for AllAtOnce {
    type Config = Config;
    const SUMMARY: &'static str = "sends every request at once";
    const SOURCE: &'static str = "the usual scatter-gather program";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_leave_in_order_without_waiting() {
        let context = super::super::tests::context();
        let mut application = AllAtOnce::new(&Config {}, &context);
        for id in 0..3 {
            application.on_request(Time(0), Request { id: RequestId(id), expected: None });
        }
        let sent: std::vec::Vec<_> = core::iter::from_fn(|| application.poll(Time(0))).collect();
        assert_eq!(sent, [0, 1, 2].map(RequestId));
    }
}
