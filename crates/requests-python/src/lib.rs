//! The extension module `incast_requests._core`: the scheduler of requests that the simulator has, for programs in Python.
//!
//! It decides and wakes whom it lets go: the package `incast_requests` asks it on behalf of tasks, and tells it the time. What wakes
//! is what each request waits with (`Core.wait`), which has the methods of a future.

mod connection;

use std::collections::{BTreeMap, HashMap};

use incast_protocols::analysis::batch::Bottleneck;
use incast_protocols::application::credit::Why;
use incast_protocols::application::{
    AnyApplication, Application, ApplicationChoice, ApplicationContext, Grant, Outcome, Request, RequestId,
};
use incast_protocols::{Bytes, Duration, Rate, Time};
use pyo3::exceptions::PyValueError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;

use crate::connection::Connection;

const PS_PER_NS: u64 = 1000;

/// A scheduler, and the grants that it has given and not got back.
#[pyclass(module = "incast_requests._core")]
#[derive(Debug)]
struct Core {
    scheduler: AnyApplication,
    grants: HashMap<u64, Grant>,
    waiters: HashMap<u64, Py<PyAny>>,
    /// Requests that were woken, if somebody wants to know (`follow`).
    woken: Option<Vec<u64>>,
    next: u64,
    /// The first time that it was told: picoseconds since the start of a machine do not fit into 64 bits for a year.
    origin_ns: Option<u64>,
    /// How often the budget has changed for what reason.
    reasons: BTreeMap<&'static str, u64>,
    changes: u64,
    /// Whether the window that the scheduler wants is made to fit the segments of a connection.
    fits_segments: bool,
    /// Bytes of the responses that have ended, but for those that `progress` was told.
    received: u64,
    /// How often the window of a connection was limited.
    windows_limited: u64,
    /// What is asked in place of the kernel, by tests.
    kernel: Option<Py<PyAny>>,
}

impl Core {
    fn time(&mut self, now_ns: u64) -> Time {
        let origin = *self.origin_ns.get_or_insert(now_ns);
        Time(now_ns.saturating_sub(origin).wrapping_mul(PS_PER_NS))
    }

    fn queue(&mut self, now: Time, expect_bytes: Option<u64>, window_bytes: Option<u64>) -> u64 {
        let id = self.next;
        self.next += 1;
        let request = Request { id: RequestId(id), expected: expect_bytes.map(Bytes), window: window_bytes.map(Bytes) };
        self.scheduler.on_request(now, request);
        id
    }

    /// Nothing of a request's response is under way any more. Whether it had a grant.
    fn give_back(&mut self, now: Time, request: u64, outcome: Outcome) -> bool {
        let grant = self.grants.remove(&request);
        grant.map(|grant| self.scheduler.on_finished(now, grant, outcome)).is_some()
    }

    /// The next request that may go, and with what it waits.
    fn poll(&mut self, now: Time) -> Option<(u64, Option<Py<PyAny>>)> {
        let Some(grant) = self.scheduler.poll(now) else {
            self.count_changes();
            return None;
        };
        let request = grant.id().0;
        self.grants.insert(request, grant);
        Some((request, self.waiters.remove(&request)))
    }

    fn count_changes(&mut self) {
        let status = self.scheduler.status();
        if status.changes != self.changes {
            // Of several changes within one call only the last says why.
            let why = status.last_change.map_or("unknown", Why::name);
            *self.reasons.entry(why).or_default() += status.changes.wrapping_sub(self.changes);
            self.changes = status.changes;
        }
    }

    /// Does something that may let requests go, and wakes them. Nothing is borrowed while a request is woken, as that may ask again.
    fn wake<T>(this: &Bound<'_, Self>, now_ns: u64, done: impl FnOnce(&mut Self, Time) -> T) -> PyResult<T> {
        let py = this.py();
        let (now, found) = {
            let mut core = this.borrow_mut();
            let now = core.time(now_ns);
            (now, done(&mut core, now))
        };
        loop {
            let next = this.borrow_mut().poll(now);
            let Some((request, waiter)) = next else { return Ok(found) };
            let Some(waiter) = waiter else { continue };
            if waiter.call_method0(py, intern!(py, "done"))?.is_truthy(py)? {
                // Its task was cancelled in this very turn, and has not come to say so.
                this.borrow_mut().give_back(now, request, NOTHING);
                continue;
            }
            if let Some(woken) = &mut this.borrow_mut().woken {
                woken.push(request);
            }
            waiter.call_method1(py, intern!(py, "set_result"), (py.None(),))?;
        }
    }
}

const NOTHING: Outcome = Outcome { received: Bytes(0), out_of_order: 0 };

#[pymethods]
impl Core {
    /// `application`: what a scenario has under `stack.application`, as JSON.
    #[new]
    #[pyo3(signature = (application, *, rate_bps, base_rtt_ns, buffer_bytes, mss_bytes, workers, rto_min_ns, fits_segments))]
    #[expect(clippy::too_many_arguments, reason = "each has a name in Python")]
    fn new(
        application: &str,
        rate_bps: u64,
        base_rtt_ns: u64,
        buffer_bytes: u64,
        mss_bytes: u64,
        workers: Option<u32>,
        rto_min_ns: u64,
        fits_segments: bool,
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
            waiters: HashMap::new(),
            woken: None,
            next: 0,
            origin_ns: None,
            reasons: BTreeMap::new(),
            changes: 0,
            fits_segments,
            received: 0,
            windows_limited: 0,
            kernel: None,
        })
    }

    /// A request: its number, and whether it may go at once. `window_bytes` is what its connection can have under way.
    fn ask(
        this: &Bound<'_, Self>,
        now_ns: u64,
        expect_bytes: Option<u64>,
        window_bytes: Option<u64>,
    ) -> PyResult<(u64, bool)> {
        let id = Self::wake(this, now_ns, |core, now| core.queue(now, expect_bytes, window_bytes))?;
        Ok((id, this.borrow().grants.contains_key(&id)))
    }

    /// A request over a connection: its number, whether it may go at once, and what the connection had received before; nothing if
    /// the connection is closed, or is none of TCP.
    fn ask_over(
        this: &Bound<'_, Self>,
        now_ns: u64,
        expect_bytes: Option<u64>,
        connection: &Bound<'_, Connection>,
    ) -> PyResult<(u64, bool, Option<u64>)> {
        let (before, window) = connection.borrow_mut().before_request(this)?;
        let (id, goes) = Self::ask(this, now_ns, expect_bytes, Some(window))?;
        Ok((id, goes, before))
    }

    /// With what a request waits that may not go at once.
    fn wait(&mut self, request: u64, waiter: Py<PyAny>) {
        self.waiters.insert(request, waiter);
    }

    /// How many requests wait with something.
    fn waiters(&self) -> usize {
        self.waiters.len()
    }

    /// All that requests wait with, who then wait no longer.
    fn take_waiters(&mut self) -> Vec<Py<PyAny>> {
        let mut requests: Vec<_> = self.waiters.drain().collect();
        requests.sort_unstable_by_key(|(request, _)| *request);
        requests.into_iter().map(|(_, waiter)| waiter).collect()
    }

    /// Asks something else in place of the kernel, for tests: a function such as `info`.
    fn ask_in_place_of_kernel(&mut self, kernel: Py<PyAny>) {
        self.kernel = Some(kernel);
    }

    /// Bytes of the responses that have ended, but for those that `progress` was told.
    const fn received_bytes(&self) -> u64 {
        self.received
    }

    /// How often the window of a connection was limited.
    const fn windows_limited(&self) -> u64 {
        self.windows_limited
    }

    /// Whether to remember who is woken.
    fn follow(&mut self) {
        self.woken.get_or_insert_default();
    }

    /// Who was woken since this was asked last.
    fn take_woken(&mut self) -> Vec<u64> {
        self.woken.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// A request is no longer wanted that waits or was let go in this very turn.
    fn withdraw(this: &Bound<'_, Self>, now_ns: u64, request: u64) -> PyResult<()> {
        Self::wake(this, now_ns, |core, now| {
            if !core.give_back(now, request, NOTHING) && core.waiters.remove(&request).is_some() {
                core.scheduler.on_withdrawn(now, RequestId(request));
            }
        })
    }

    /// Nothing of a request's response is under way any more.
    fn finish(
        this: &Bound<'_, Self>,
        now_ns: u64,
        request: u64,
        received_bytes: u64,
        out_of_order_segments: u64,
    ) -> PyResult<()> {
        let outcome = Outcome { received: Bytes(received_bytes), out_of_order: out_of_order_segments };
        this.borrow_mut().received += received_bytes;
        if Self::wake(this, now_ns, |core, now| core.give_back(now, request, outcome))? {
            Ok(())
        } else {
            Err(PyValueError::new_err(format!("request {request} has no grant")))
        }
    }

    /// A response over a connection is complete. The connection had received `before_bytes` when it was asked for. `progress` was
    /// told `told_bytes` of it, and `out_of_order_segments` were seen before. `expect_bytes` counts if the connection is closed.
    #[expect(clippy::too_many_arguments, reason = "one call in place of three")]
    fn finish_over(
        this: &Bound<'_, Self>,
        now_ns: u64,
        request: u64,
        connection: &Bound<'_, Connection>,
        before_bytes: u64,
        expect_bytes: u64,
        told_bytes: u64,
        out_of_order_segments: u64,
    ) -> PyResult<()> {
        let (mut received, mut out_of_order) = (expect_bytes, out_of_order_segments);
        let mut connection = connection.borrow_mut();
        if let Some((_, _, in_all, new)) = connection.look(this)? {
            received = connection.count(before_bytes, in_all);
            out_of_order += new;
        }
        drop(connection);
        Self::finish(this, now_ns, request, received.saturating_sub(told_bytes), out_of_order)
    }

    /// So much payload arrived, which `finish` is not told again.
    fn progress(this: &Bound<'_, Self>, now_ns: u64, received_bytes: u64) -> PyResult<()> {
        Self::wake(this, now_ns, |core, now| core.scheduler.on_progress(now, Bytes(received_bytes)))
    }

    /// The time of `next_timer_ns` has come.
    fn timer(this: &Bound<'_, Self>, now_ns: u64, out_of_order_segments: u64) -> PyResult<()> {
        Self::wake(this, now_ns, |core, now| core.scheduler.on_timer(now, out_of_order_segments))
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

    /// Whether `finish` need be told what came.
    fn heeds_outcomes(&self) -> bool {
        self.scheduler.heeds_outcomes()
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

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.waiters.values().chain(&self.kernel).try_for_each(|held| visit.call(held))
    }

    fn __clear__(&mut self) {
        self.waiters.clear();
        self.kernel = None;
    }

    /// How often the budget has changed for what reason.
    fn reasons(&self) -> BTreeMap<&'static str, u64> {
        self.reasons.clone()
    }
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Core>()?;
    module.add_class::<Connection>()?;
    #[cfg(target_os = "linux")]
    {
        module.add_function(wrap_pyfunction!(connection::info_in_python, module)?)?;
        module.add_function(wrap_pyfunction!(connection::limit_window_in_python, module)?)?;
    }
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
