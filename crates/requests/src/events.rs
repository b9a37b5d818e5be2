//! What a scheduler tells `tracing`, with the target `incast_requests`. Without the feature it tells nothing.
//!
//! Numbers have the names that `tracing-opentelemetry` takes for gauges (`gauge.`) and counters (`monotonic_counter.`).

#[cfg(feature = "tracing")]
mod told {
    use incast_protocols::application::Status;

    use crate::Decision;

    /// Whether anybody hears of requests one by one.
    pub(crate) fn enabled() -> bool {
        tracing::enabled!(target: "incast_requests", tracing::Level::TRACE)
    }

    fn bytes(budget: Option<incast_protocols::Bytes>) -> Option<u64> {
        budget.map(|budget| budget.0)
    }

    pub(crate) fn decision(decision: Decision, status: &Status) {
        let (request, cost_bytes) = decision.request();
        tracing::trace!(
            target: "incast_requests",
            decision = decision.name(),
            request,
            cost_bytes,
            gauge.incast.requests.budget_bytes = bytes(status.budget),
            gauge.incast.requests.in_use_bytes = status.under_way.0,
            gauge.incast.requests.waiting = status.waiting,
            gauge.incast.requests.outstanding = status.outstanding,
        );
    }

    pub(crate) fn budget(changes: u64, status: &Status) {
        let why = status.last_change;
        tracing::debug!(
            target: "incast_requests",
            why = why.map(incast_protocols::application::credit::Why::name),
            monotonic_counter.incast.requests.budget_changes = changes,
            monotonic_counter.incast.requests.cuts = u64::from(why.is_some_and(incast_protocols::application::credit::Why::is_cut)),
            gauge.incast.requests.budget_bytes = bytes(status.budget),
            gauge.incast.requests.in_use_bytes = status.under_way.0,
            gauge.incast.requests.waiting = status.waiting,
            gauge.incast.requests.outstanding = status.outstanding,
            "budget changed"
        );
    }

    pub(crate) fn losses_of_others(status: &Status) {
        tracing::warn!(
            target: "incast_requests",
            budget_bytes = bytes(status.budget),
            "cuts of the budget do not help against losses: it seems that others fill the port, such as long flows; where they \
             always do, give it a budget, or do without it"
        );
    }

    /// From when a request was asked for to when its credit came back.
    ///
    /// In a box, as futures and slots are mostly made where nobody hears of them, and are to be small.
    #[derive(Debug, Default)]
    pub(crate) struct Span(Option<Box<tracing::Span>>);

    impl Span {
        pub(crate) fn of(request: u64, expect_bytes: Option<u64>) -> Self {
            let span = tracing::debug_span!(
                target: "incast_requests",
                "request",
                request,
                expect_bytes,
                cost_bytes = tracing::field::Empty
            );
            Self((!span.is_disabled()).then(|| Box::new(span)))
        }

        pub(crate) fn granted(&self, cost_bytes: u64) {
            if let Some(span) = &self.0 {
                span.record("cost_bytes", cost_bytes);
                tracing::debug!(target: "incast_requests", parent: &**span, "granted");
            }
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod told {
    use incast_protocols::application::Status;

    use crate::Decision;

    pub(crate) const fn enabled() -> bool {
        false
    }

    pub(crate) const fn decision(_: Decision, _: &Status) {}

    pub(crate) const fn budget(_: u64, _: &Status) {}

    pub(crate) const fn losses_of_others(_: &Status) {}

    #[derive(Debug, Default)]
    pub(crate) struct Span();

    impl Span {
        pub(crate) const fn of(_: u64, _: Option<u64>) -> Self {
            Self()
        }

        #[expect(clippy::unused_self, reason = "with tracing there is something in it")]
        pub(crate) const fn granted(&self, _: u64) {}
    }
}

pub(crate) use told::*;
