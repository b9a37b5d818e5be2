//! The extension module `incast_requests._core`: the scheduler of requests that the simulator has, for programs in Python.
//!
//! It decides, and does nothing else: the package `incast_requests` asks it on behalf of tasks, tells it the time, and wakes
//! whom it lets go. Every method that may let requests go returns their numbers.

use std::collections::{BTreeMap, HashMap};

use incast_protocols::analysis::batch::Bottleneck;
use incast_protocols::application::credit::Why;
use incast_protocols::application::{
    AnyApplication, Application, ApplicationChoice, ApplicationContext, Grant, Outcome, Request, RequestId,
};
use incast_protocols::{Bytes, Duration, Rate, Time};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

const PS_PER_NS: u64 = 1000;

/// A scheduler, and the grants that it has given and not got back.
#[pyclass(module = "incast_requests._core")]
#[derive(Debug)]
struct Core {
    scheduler: AnyApplication,
    grants: HashMap<u64, Grant>,
    next: u64,
    /// The first time that it was told: picoseconds since the start of a machine do not fit into 64 bits for a year.
    origin_ns: Option<u64>,
    /// How often the budget has changed for what reason.
    reasons: BTreeMap<&'static str, u64>,
    changes: u64,
}

impl Core {
    fn time(&mut self, now_ns: u64) -> Time {
        let origin = *self.origin_ns.get_or_insert(now_ns);
        Time(now_ns.saturating_sub(origin).wrapping_mul(PS_PER_NS))
    }

    /// What may go now.
    fn poll(&mut self, now: Time) -> Vec<u64> {
        let mut granted = Vec::new();
        while let Some(grant) = self.scheduler.poll(now) {
            granted.push(grant.id().0);
            self.grants.insert(grant.id().0, grant);
        }
        let status = self.scheduler.status();
        if status.changes != self.changes {
            // Of several changes within one call only the last says why.
            let why = status.last_change.map_or("unknown", Why::name);
            *self.reasons.entry(why).or_default() += status.changes.wrapping_sub(self.changes);
            self.changes = status.changes;
        }
        granted
    }
}

#[pymethods]
impl Core {
    /// `application`: what a scenario has under `stack.application`, as JSON.
    #[new]
    #[pyo3(signature = (application, *, rate_bps, base_rtt_ns, buffer_bytes, mss_bytes, workers, rto_min_ns))]
    fn new(
        application: &str,
        rate_bps: u64,
        base_rtt_ns: u64,
        buffer_bytes: u64,
        mss_bytes: u64,
        workers: Option<u32>,
        rto_min_ns: u64,
    ) -> PyResult<Self> {
        let choice: ApplicationChoice =
            serde_json::from_str(application).map_err(|error| PyValueError::new_err(error.to_string()))?;
        choice.check().map_err(|conflict| PyValueError::new_err(format!("{}: {}", conflict.key, conflict.message)))?;
        let context = ApplicationContext {
            bottleneck: Bottleneck {
                rate: Rate(rate_bps),
                base_rtt: Duration(base_rtt_ns.saturating_mul(PS_PER_NS)),
                buffer: Bytes(buffer_bytes),
                mss: Bytes(mss_bytes),
            },
            workers,
            rto_min: Duration(rto_min_ns.saturating_mul(PS_PER_NS)),
        };
        Ok(Self {
            scheduler: choice.build(&context),
            grants: HashMap::new(),
            next: 0,
            origin_ns: None,
            reasons: BTreeMap::new(),
            changes: 0,
        })
    }

    /// A request: its number, and what may go now. `window_bytes` is what its connection can have under way.
    fn ask(&mut self, now_ns: u64, expect_bytes: Option<u64>, window_bytes: Option<u64>) -> (u64, Vec<u64>) {
        let now = self.time(now_ns);
        let id = self.next;
        self.next += 1;
        let request = Request { id: RequestId(id), expected: expect_bytes.map(Bytes), window: window_bytes.map(Bytes) };
        self.scheduler.on_request(now, request);
        (id, self.poll(now))
    }

    /// A request that waits is no longer wanted.
    fn withdraw(&mut self, now_ns: u64, request: u64) -> Vec<u64> {
        let now = self.time(now_ns);
        self.scheduler.on_withdrawn(now, RequestId(request));
        self.poll(now)
    }

    /// Nothing of a request's response is under way any more.
    fn finish(
        &mut self,
        now_ns: u64,
        request: u64,
        received_bytes: u64,
        out_of_order_segments: u64,
    ) -> PyResult<Vec<u64>> {
        let now = self.time(now_ns);
        let Some(grant) = self.grants.remove(&request) else {
            return Err(PyValueError::new_err(format!("request {request} has no grant")));
        };
        let outcome = Outcome { received: Bytes(received_bytes), out_of_order: out_of_order_segments };
        self.scheduler.on_finished(now, grant, outcome);
        Ok(self.poll(now))
    }

    /// So much payload arrived, which `finish` is not told again.
    fn progress(&mut self, now_ns: u64, received_bytes: u64) -> Vec<u64> {
        let now = self.time(now_ns);
        self.scheduler.on_progress(now, Bytes(received_bytes));
        self.poll(now)
    }

    /// The time of `next_timer_ns` has come.
    fn timer(&mut self, now_ns: u64, out_of_order_segments: u64) -> Vec<u64> {
        let now = self.time(now_ns);
        self.scheduler.on_timer(now, out_of_order_segments);
        self.poll(now)
    }

    /// When `timer` is to be called.
    fn next_timer_ns(&self) -> Option<u64> {
        let origin = self.origin_ns.unwrap_or(0);
        self.scheduler.next_timer().map(|at| origin.saturating_add(at.0.div_ceil(PS_PER_NS)))
    }

    /// To what the receive windows of connections are to be limited.
    fn window_bytes(&self) -> Option<u64> {
        self.scheduler.window().map(|window| window.0)
    }

    /// Whether `progress` is of use.
    fn watches_progress(&self) -> bool {
        self.scheduler.watches_progress()
    }

    /// What a request costs that has a grant.
    fn cost_bytes(&self, request: u64) -> Option<u64> {
        self.grants.get(&request).map(|grant| grant.cost().0)
    }

    /// Requests that wait, requests with a grant, what these cost, the budget, how often that has changed, and why last.
    fn status(&self) -> (u64, u64, u64, Option<u64>, u64, Option<&'static str>) {
        let status = self.scheduler.status();
        (
            status.waiting,
            status.outstanding,
            status.under_way.0,
            status.budget.map(|budget| budget.0),
            status.changes,
            status.last_change.map(Why::name),
        )
    }

    /// Whether less has not helped against losses: they are those of others.
    fn losses_of_others(&self) -> bool {
        self.scheduler.status().losses_of_others
    }

    /// How often the budget has changed for what reason.
    fn reasons(&self) -> BTreeMap<&'static str, u64> {
        self.reasons.clone()
    }
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Core>()?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
