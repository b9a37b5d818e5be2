//! ARS: requests leave in batches of as many responses as the network holds (Huang et al., "ARS: Cross-layer
//! Adaptive Request Scheduling to Mitigate TCP Incast in Data Center Networks", section III, Algorithm 1).
//!
//! A batch begins when the one before is complete. Data beyond a gap at any of the aggregator's sockets during a batch
//! means congestion: the next batch is `n_c` (equation 10), and each batch without it adds one up to n* (equation 7).

use super::{Application, ApplicationContext, Grant, Outcome, Outstanding, Request, RequestId, Status, Waiting};
use crate::analysis::batch::{BatchSizes, Bottleneck, LargestWindow};
use crate::registry::Part;
use crate::units::{Bytes, Duration, Time};

/// What the paper leaves open, or to the application.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The largest batch (n*), instead of the one that equation 7 gives for the network and the responses.
    #[schemars(range(min = 1))]
    pub batch_size: Option<u32>,
    /// How the largest window of a response is told from its size.
    pub largest_window: LargestWindow,
    /// Packets with which a response begins, where the largest window is exact. The formula is for one.
    #[schemars(range(min = 1))]
    pub initial_window: u32,
    /// Whether the batch size outlives a round; otherwise it is n* again when nothing is asked for or outstanding.
    pub keep_batch_size: bool,
    /// Taken for congestion: no response was complete for so long. Nothing of the kind in the paper.
    pub stall: Option<Duration>,
    /// Taken for the size of responses whose size is not known; without it, these are asked for one by one.
    pub response: Option<Bytes>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            batch_size: None,
            largest_window: LargestWindow::Formula,
            initial_window: 1,
            keep_batch_size: true,
            stall: None,
            response: None,
        }
    }
}

/// The batches of one aggregator.
#[derive(Clone, Debug)]
pub struct Ars {
    config: Config,
    bottleneck: Bottleneck,
    waiting: Waiting,
    /// The largest response asked for since there was nothing to do.
    largest: Bytes,
    /// n; nothing before the first batch.
    batch_size: Option<u64>,
    /// CI: there was congestion during this batch.
    congested: bool,
    /// Requests of this batch.
    sent: u64,
    outstanding: Outstanding,
    /// When the batch began, or its last response was complete.
    progress: Time,
}

impl Ars {
    /// Nothing asked for yet.
    #[must_use]
    pub fn new(config: &Config, context: &ApplicationContext) -> Self {
        Self {
            config: config.clone(),
            bottleneck: context.bottleneck,
            waiting: Waiting::new(),
            largest: Bytes::ZERO,
            batch_size: None,
            congested: false,
            sent: 0,
            outstanding: Outstanding::default(),
            progress: Time(0),
        }
    }

    /// n* and `n_c` for what is asked for now.
    fn sizes(&self) -> BatchSizes {
        let packets = self.bottleneck.packets_of(self.largest);
        let window = self.config.largest_window.of(packets, u64::from(self.config.initial_window));
        let mut sizes = self.bottleneck.batch_sizes(window);
        if let Some(optimal) = self.config.batch_size {
            sizes.optimal = u64::from(optimal).max(1);
            sizes.congested = sizes.congested.min(sizes.optimal);
        }
        sizes
    }

    /// Algorithm 1, "on finishing receiving all requested data in current batch".
    fn adjust(&mut self) {
        let sizes = self.sizes();
        let size = self.batch_size.unwrap_or(sizes.optimal);
        self.batch_size =
            Some(if core::mem::take(&mut self.congested) { sizes.congested } else { (size + 1).min(sizes.optimal) });
        self.sent = 0;
    }
}

impl Application for Ars {
    fn on_request(&mut self, _now: Time, request: Request) {
        if self.waiting.is_empty() && self.outstanding.requests == 0 {
            self.largest = Bytes::ZERO;
            if !self.config.keep_batch_size {
                self.batch_size = None;
            }
        }
        let size = request.expected.or(self.config.response).unwrap_or(Bytes(u64::MAX));
        self.largest = self.largest.max(size);
        self.waiting.push(request.id, ());
    }

    fn on_withdrawn(&mut self, _now: Time, request: RequestId) {
        self.waiting.withdraw(request);
    }

    fn on_finished(&mut self, now: Time, grant: Grant, outcome: Outcome) {
        let stalled = self.config.stall.is_some_and(|stall| now.since(self.progress) >= stall);
        self.congested |= outcome.out_of_order > 0 || stalled;
        self.progress = now;
        self.outstanding.remove(&grant);
        if self.outstanding.requests == 0 {
            self.adjust();
        }
    }

    fn poll(&mut self, now: Time) -> Option<Grant> {
        let optimal = self.sizes().optimal;
        // Responses may have become larger since the size was set.
        if self.sent >= self.batch_size.map_or(optimal, |size| size.min(optimal)) {
            return None;
        }
        let (id, ()) = self.waiting.pop()?;
        if self.sent == 0 {
            self.progress = now;
        }
        self.sent += 1;
        self.outstanding.add(Bytes::ZERO);
        Some(Grant::new(now, id, Bytes::ZERO))
    }

    fn status(&self) -> Status {
        Status { waiting: self.waiting.len() as u64, outstanding: self.outstanding.requests, ..Status::default() }
    }
}

impl Part for Ars {
    type Config = Config;
    const SUMMARY: &'static str = "asks in batches of what the network holds, smaller after congestion";
    const SOURCE: &'static str = "Huang et al., ARS: Cross-layer Adaptive Request Scheduling, section III, Algorithm 1";
    const DEVIATIONS: &'static [&'static str] = &[
        "A request that comes while a batch has room joins it, as programs do not ask for everything at one moment; \
         where all requests are there at the start, this is the algorithm as printed.",
        "The batch size of equation 7 is not rounded down again, as it is whole already.",
    ];
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ask, context, gap, grants, ids, request};
    use super::*;
    use std::collections::VecDeque;
    use std::vec::Vec;

    const RESPONSE: u64 = 65_536;

    fn ars(config: &Config) -> Ars {
        Ars::new(config, &context())
    }

    /// Completes everything outstanding, the last of which tells of what was out of order.
    fn finish(application: &mut Ars, at: Time, mut batch: VecDeque<Grant>, out_of_order: u64) {
        let last = batch.pop_back().expect("a batch has requests");
        for grant in batch {
            application.on_finished(at, grant, gap(0));
        }
        application.on_finished(at, last, gap(out_of_order));
    }

    fn poll_all(application: &mut Ars) -> VecDeque<Grant> {
        grants(application, Time(0))
    }

    fn batches(application: &mut Ars, congestion: &[u64]) -> Vec<usize> {
        let mut sizes = std::vec![];
        for &out_of_order in congestion {
            let batch = poll_all(application);
            sizes.push(batch.len());
            finish(application, Time(0), batch, out_of_order);
        }
        sizes.push(poll_all(application).len());
        sizes
    }

    /// 1 Gbit/s, 100 us, 64 KB of buffer and responses of 64 KB: n* = 3, `n_c` = 1.
    #[test]
    fn the_trace_of_the_papers_setting() {
        let mut application = ars(&Config::default());
        ask(&mut application, 0..64, RESPONSE);
        assert_eq!(application.sizes(), BatchSizes { optimal: 3, congested: 1 });
        assert_eq!(batches(&mut application, &[0, 0, 1, 0, 0, 0]), [3, 3, 3, 1, 2, 3, 3]);
    }

    #[test]
    fn a_gap_anywhere_in_the_batch_counts_and_is_forgotten_after_it() {
        let mut application = ars(&Config::default());
        ask(&mut application, 0..10, RESPONSE);
        let mut first = poll_all(&mut application);
        assert_eq!(ids(&first), [0, 1, 2]);
        application.on_finished(Time(0), first.remove(1).unwrap(), gap(12));
        application.on_finished(Time(0), first.remove(0).unwrap(), gap(0));
        assert_eq!(ids(&poll_all(&mut application)), [0; 0], "a batch is complete or not");
        application.on_finished(Time(0), first.remove(0).unwrap(), gap(0));
        let second = poll_all(&mut application);
        assert_eq!(ids(&second), [3]);
        finish(&mut application, Time(0), second, 0);
        assert_eq!(ids(&poll_all(&mut application)), [4, 5]);
    }

    /// Linux begins with ten packets: 20 are sent in two round trips.
    #[test]
    fn an_exact_window_counts_from_the_initial_one() {
        let config = Config { largest_window: LargestWindow::Exact, initial_window: 10, ..Config::default() };
        let mut application = ars(&config);
        ask(&mut application, 0..10, 20 * 1024);
        assert_eq!(application.sizes(), BatchSizes { optimal: 8, congested: 2 });
    }

    #[test]
    fn the_batch_size_outlives_a_round_unless_it_is_told_not_to() {
        for (keep_batch_size, second_round) in [(true, 1), (false, 3)] {
            let mut application = ars(&Config { keep_batch_size, ..Config::default() });
            ask(&mut application, 0..3, RESPONSE);
            let batch = poll_all(&mut application);
            finish(&mut application, Time(0), batch, 1);
            ask(&mut application, 3..9, RESPONSE);
            assert_eq!(poll_all(&mut application).len(), second_round);
        }
    }

    #[test]
    fn late_requests_join_a_batch_that_has_room() {
        let mut application = ars(&Config::default());
        ask(&mut application, 0..1, RESPONSE);
        let mut batch = poll_all(&mut application);
        assert_eq!(ids(&batch), [0]);
        ask(&mut application, 1..4, RESPONSE);
        batch.append(&mut poll_all(&mut application));
        assert_eq!(ids(&batch), [0, 1, 2]);
        finish(&mut application, Time(0), batch, 0);
        assert_eq!(ids(&poll_all(&mut application)), [3]);
    }

    #[test]
    fn the_largest_response_decides_and_an_unknown_one_goes_alone() {
        let mut application = ars(&Config::default());
        ask(&mut application, 0..40, 5_734);
        assert_eq!(poll_all(&mut application).len(), 39);
        let mut application = ars(&Config::default());
        ask(&mut application, 0..20, 5_734);
        ask(&mut application, 20..40, RESPONSE);
        assert_eq!(poll_all(&mut application).len(), 3);

        let unknown = |application: &mut Ars| {
            for id in 0..5 {
                application.on_request(Time(0), request(id, None));
            }
            poll_all(application).len()
        };
        assert_eq!(unknown(&mut ars(&Config::default())), 1);
        assert_eq!(unknown(&mut ars(&Config { response: Some(Bytes(RESPONSE)), ..Config::default() })), 3);
    }

    #[test]
    fn larger_responses_make_the_next_batch_smaller_at_once() {
        let mut application = ars(&Config::default());
        ask(&mut application, 0..10, 5_734);
        let batch = poll_all(&mut application);
        finish(&mut application, Time(0), batch, 0);
        ask(&mut application, 10..20, RESPONSE);
        assert_eq!(poll_all(&mut application).len(), 3);
    }

    #[test]
    fn a_stall_counts_as_congestion_only_where_that_is_asked_for() {
        for (stall, next) in [(None, 3), (Some(Duration::from_ms(200)), 1)] {
            let mut application = ars(&Config { stall, ..Config::default() });
            ask(&mut application, 0..9, RESPONSE);
            let batch = poll_all(&mut application);
            finish(&mut application, Time(Duration::from_ms(201).0), batch, 0);
            assert_eq!(poll_all(&mut application).len(), next);
        }
    }

    #[test]
    fn a_batch_size_of_ones_own_bounds_both() {
        let mut application = ars(&Config { batch_size: Some(2), ..Config::default() });
        ask(&mut application, 0..9, 5_734);
        assert_eq!(batches(&mut application, &[0, 1, 0]), [2, 2, 2, 2]);
    }

    /// It counts as long as anything is outstanding.
    #[test]
    fn a_small_response_asked_for_meanwhile_does_not_make_the_batch_larger() {
        let mut application = ars(&Config::default());
        ask(&mut application, 0..1, RESPONSE);
        assert_eq!(ids(&poll_all(&mut application)), [0]);
        ask(&mut application, 1..9, 5_734);
        assert_eq!(ids(&poll_all(&mut application)), [1, 2]);
        assert_eq!(application.status(), Status { waiting: 6, outstanding: 3, ..Status::default() });
    }

    #[test]
    fn what_is_withdrawn_is_not_asked_for() {
        let mut application = ars(&Config::default());
        ask(&mut application, 0..3, RESPONSE);
        application.on_withdrawn(Time(0), request(1, None).id);
        assert_eq!(ids(&poll_all(&mut application)), [0, 2]);
    }

    /// From the beginning of the batch, or the response before.
    #[test]
    fn a_stall_is_counted_from_when_the_batch_began() {
        let ms = |ms| Time(Duration::from_ms(ms).0);
        for (took, next) in [(199, 3), (200, 1)] {
            let mut application = ars(&Config { stall: Some(Duration::from_ms(200)), ..Config::default() });
            ask(&mut application, 0..1, RESPONSE);
            let batch = grants(&mut application, ms(1000));
            finish(&mut application, ms(1000 + took), batch, 0);
            ask(&mut application, 1..9, RESPONSE);
            assert_eq!(poll_all(&mut application).len(), next, "{took}");
        }
    }
}
