//! The extension module `incast_requests._core`: the scheduler of requests that the simulator has, for programs in Python.
//!
//! It decides and wakes whom it lets go: the package `incast_requests` asks it on behalf of tasks. What wakes is what each request
//! waits with (`Core.wait`), which has the methods of a future. What every request goes through is here too (`Slot`, `Entering`).

mod connection;
mod entering;
mod slot;
#[cfg(target_os = "linux")]
mod timer;

use std::collections::{BTreeMap, VecDeque};
use std::thread::{self, ThreadId};
use std::time::Instant;

use incast_protocols::analysis::batch::Bottleneck;
use incast_protocols::application::credit::Why;
use incast_protocols::application::{
    AnyApplication, Application, ApplicationChoice, ApplicationContext, Grant, Outcome, Request, RequestId, tell_late,
};
use incast_protocols::{Bytes, Duration, Rate, Time};
use incast_requests::under_way::UnderWay;
use pyo3::exceptions::PyValueError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;

use crate::connection::{Peer, Remembered, Sockets, Way};
use crate::entering::{Callback, Entering};
use crate::slot::{Slot, Slots};

pyo3::import_exception!(asyncio, InvalidStateError);

const PS_PER_NS: u64 = 1000;
const PS_PER_MS: f64 = 1e9;
const LONGEST_PAUSE_NS: u64 = 1_000_000_000;
/// So long after a request was let go it is asked whether it was sent, and then whenever a quarter more time has passed.
const SENT_AFTER_NS: u64 = 1_000_000;

/// The event loop that a scheduler serves.
#[derive(Debug)]
struct Host {
    /// The thread in which it was opened.
    thread: ThreadId,
    /// Whether it runs: who asks from `thread` is then in it, as a thread runs one at a time.
    runs: Py<PyAny>,
    /// Whether the caller runs in it.
    is_here: Py<PyAny>,
    /// It, if it is of asyncio: its tasks enter slots by `Entering`.
    event_loop: Option<Py<PyAny>>,
    /// What makes a task of another loop enter a slot: a function that returns a coroutine.
    enter: Option<Py<PyAny>>,
}

/// What tells the time, in nanoseconds that never go back.
#[derive(Debug)]
enum Clock {
    /// `time.monotonic_ns`, which was `ns` at `at`: to look at the clock without it takes a tenth of the instructions.
    System { at: Instant, ns: u64 },
    /// A function of Python.
    Given(Py<PyAny>),
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "the requests of programs take real time")]
    fn system(py: Python<'_>) -> PyResult<Self> {
        let ns = py.import(intern!(py, "time"))?.call_method0(intern!(py, "monotonic_ns"))?.extract()?;
        Ok(Self::System { at: Instant::now(), ns })
    }
}

/// A scheduler, and the grants that it has given and not got back.
#[pyclass(module = "incast_requests._core")]
#[derive(Debug)]
struct Core {
    scheduler: AnyApplication,
    clock: Clock,
    host: Option<Host>,
    closed: bool,
    /// Requests that waited when it was closed, in their order.
    cut_off: Vec<u64>,
    grants: BTreeMap<u64, Granted>,
    /// What requests wait with, in the order of their numbers.
    waiters: VecDeque<(u64, Py<PyAny>)>,
    /// Tasks of asyncio with which it goes on in the next turn of their loop.
    resumed: Vec<(Callback, Py<Entering>)>,
    /// Requests over connections that are known.
    under_way: UnderWay,
    /// What is known of the sockets of those that have no peer.
    sockets: Sockets,
    /// Those that were let go and may not have been sent, whose responses may fill limited windows.
    unsent: Vec<Unsent>,
    /// When it was asked last. Not more often than every millisecond, as a program may send many requests in one.
    asked_ns: u64,
    /// When `timer` will be called at the latest, if that has been seen to.
    #[pyo3(get, set)]
    timer_ns: Option<u64>,
    /// Sees to it that `timer` is called when its time has come.
    set_timer: Option<Py<PyAny>>,
    /// Requests that were woken, if somebody wants to know (`follow`).
    woken: Option<Vec<u64>>,
    next: u64,
    /// The first time that it was told: picoseconds since the start of a machine do not fit into 64 bits for a year.
    origin_ns: Option<u64>,
    /// The last one.
    told_ns: u64,
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
    counts: Counts,
}

/// What a request was given.
#[derive(Debug)]
struct Granted {
    grant: Grant,
    /// The socket of its connection, if that is known.
    over: Option<i32>,
    /// Its slot, if that has a connection to watch.
    watched: Option<Py<Slot>>,
}

/// A request that was let go and may not have been sent.
#[derive(Clone, Copy, Debug)]
struct Unsent {
    request: u64,
    way: Way,
    granted_ns: u64,
    /// When to ask whether it was sent.
    at_ns: u64,
}

/// What became of requests.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    completed: u64,
    failed: u64,
    withdrawn: u64,
}

impl Core {
    /// The time.
    fn now(this: &Bound<'_, Self>) -> PyResult<Time> {
        let now_ns = Self::now_ns(this)?;
        let core = &mut *this.borrow_mut();
        core.told_ns = now_ns;
        let origin_ns = *core.origin_ns.get_or_insert(now_ns);
        Ok(Time(now_ns.saturating_sub(origin_ns).wrapping_mul(PS_PER_NS)))
    }

    /// What makes a task enter a slot, if it is none of asyncio.
    fn enter<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        Some(self.host.as_ref()?.enter.as_ref()?.bind(py).clone())
    }

    fn event_loop<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        Some(self.host.as_ref()?.event_loop.as_ref()?.bind(py).clone())
    }

    /// Goes on with a task of asyncio in the next turn of its event loop. That is one call of the loop for all tasks of a turn.
    fn resume(this: &Bound<'_, Self>, callback: Callback, entering: Bound<'_, Entering>) -> PyResult<()> {
        let py = this.py();
        let event_loop = this.borrow().event_loop(py);
        if let (true, Some(event_loop)) = (this.borrow().resumed.is_empty(), event_loop) {
            event_loop.call_method1(intern!(py, "call_soon"), (this.getattr(intern!(py, "go_on"))?,))?;
        }
        this.borrow_mut().resumed.push((callback, entering.unbind()));
        Ok(())
    }

    /// A time of the scheduler by the clock, rounded up.
    fn in_ns(&self, at: Time) -> u64 {
        let told = self.told_ns.saturating_sub(self.origin_ns.unwrap_or(0)).wrapping_mul(PS_PER_NS);
        // The scheduler's times wrap after 213 days.
        let after = at.0.wrapping_sub(told);
        let after_ns = match (after <= u64::MAX / 2, at.0 <= told) {
            (true, _) => after.div_ceil(PS_PER_NS),
            (false, true) => 0,
            // It was said before they wrapped, and the scheduler takes it for a time that is months away.
            (false, false) => LONGEST_PAUSE_NS,
        };
        self.told_ns.saturating_add(after_ns)
    }

    /// A request: its number, and whether it may go at once. `window_bytes` is what its connection can have under way.
    fn ask(this: &Bound<'_, Self>, now: Time, expect_bytes: Option<u64>, window_bytes: u64) -> PyResult<(u64, bool)> {
        let id = Self::wake(this, now, |core| core.queue(now, expect_bytes, window_bytes))?;
        Ok((id, this.borrow().grants.contains_key(&id)))
    }

    /// Nothing of a request's response is under way any more, of which so much has come.
    fn finish(this: &Bound<'_, Self>, now: Time, request: u64, complete: bool, outcome: Outcome) -> PyResult<()> {
        let give_back = |core: &mut Self| {
            let granted = core.give_back(now, request, outcome);
            if granted {
                core.received += outcome.received.0;
                *(if complete { &mut core.counts.completed } else { &mut core.counts.failed }) += 1;
            }
            granted
        };
        if Self::wake(this, now, give_back)? {
            Ok(())
        } else {
            Err(PyValueError::new_err(format!("request {request} has no grant")))
        }
    }

    fn queue(&mut self, now: Time, expect_bytes: Option<u64>, window_bytes: u64) -> u64 {
        let id = self.next;
        self.next += 1;
        let request =
            Request { id: RequestId(id), expected: expect_bytes.map(Bytes), window: Some(Bytes(window_bytes)) };
        self.scheduler.on_request(now, request);
        id
    }

    /// Nothing of a request's response is under way any more. Whether it had a grant.
    fn give_back(&mut self, now: Time, request: u64, outcome: Outcome) -> bool {
        let Some(granted) = self.grants.remove(&request) else { return false };
        if let Some(fd) = granted.over {
            self.under_way.remove(fd);
        }
        self.scheduler.on_finished(now, granted.grant, outcome);
        true
    }

    /// The next request that may go, and with what it waits.
    fn poll(&mut self, now: Time) -> Option<(u64, Option<Py<PyAny>>)> {
        let grant = if self.closed { None } else { self.scheduler.poll(now) };
        let Some(grant) = grant else {
            self.count_changes();
            return None;
        };
        let request = grant.id().0;
        self.grants.insert(request, Granted { grant, over: None, watched: None });
        Some((request, self.take_waiter(request)))
    }

    fn take_waiter(&mut self, request: u64) -> Option<Py<PyAny>> {
        // Most are let go in their order.
        let at = match self.waiters.front() {
            Some((first, _)) if *first == request => 0,
            _ => self.waiters.binary_search_by_key(&request, |(known, _)| *known).ok()?,
        };
        self.waiters.remove(at).map(|(_, waiter)| waiter)
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

    /// Sees to a timer while requests wait: they go at their pace, and where what is under way hangs, though nothing else happens.
    fn see_to_timer(this: &Bound<'_, Self>) -> PyResult<()> {
        let py = this.py();
        let set_timer = {
            let core = this.borrow();
            let Some(at) = core.scheduler.next_timer() else { return Ok(()) };
            if core.closed
                || core.scheduler.status().waiting == 0
                || core.timer_ns.is_some_and(|set| set <= core.in_ns(at))
            {
                return Ok(());
            }
            core.set_timer.as_ref().map(|set_timer| set_timer.clone_ref(py))
        };
        set_timer.map_or(Ok(()), |set_timer| set_timer.call0(py).map(drop))
    }

    /// A request that was let go goes over this connection. Whether its response may fill the connection's window, if that is limited.
    fn goes_over(&mut self, request: u64, way: Way, expect_bytes: Option<u64>) -> bool {
        let Some(granted) = self.grants.get_mut(&request) else { return false };
        if let Some(before) = granted.over.replace(way.fd) {
            self.under_way.remove(before);
            self.unsent.retain(|unsent| unsent.request != request);
        }
        self.under_way.add(way.fd, expect_bytes, way.window)
    }

    /// Acknowledges at once what comes over this connection, when its request has been sent, if the response may fill its window. Whether
    /// the timer has to be set for that.
    fn acknowledge_when_sent(&mut self, request: u64, way: Way, expect_bytes: Option<u64>) -> bool {
        if self.closed || !self.goes_over(request, way, expect_bytes) {
            return false;
        }
        // It was let go when the time was told last, or in the turn before.
        let granted_ns = self.told_ns;
        let at_ns = granted_ns.saturating_add(SENT_AFTER_NS);
        self.unsent.push(Unsent { request, way, granted_ns, at_ns });
        self.timer_ns.is_none_or(|set| set > at_ns)
    }

    /// A request was let go whose connection is to be watched.
    fn watch(&mut self, request: u64, slot: Py<Slot>) {
        if let Some(granted) = self.grants.get_mut(&request) {
            granted.watched = Some(slot);
        }
    }

    /// It no longer is.
    fn no_longer_watch(&mut self, request: u64) {
        if let Some(granted) = self.grants.get_mut(&request) {
            granted.watched = None;
        }
    }

    fn watched(&self) -> impl Iterator<Item = &Py<Slot>> {
        self.grants.values().filter_map(|granted| granted.watched.as_ref())
    }

    /// Does something that may let requests go, and wakes them. Nothing is borrowed while a request is woken, as that may ask again.
    fn wake<T>(this: &Bound<'_, Self>, now: Time, done: impl FnOnce(&mut Self) -> T) -> PyResult<T> {
        let py = this.py();
        let found = done(&mut this.borrow_mut());
        loop {
            let next = this.borrow_mut().poll(now);
            let Some((request, waiter)) = next else {
                Self::see_to_timer(this)?;
                return Ok(found);
            };
            let Some(waiter) = waiter else { continue };
            if let Some(woken) = &mut this.borrow_mut().woken {
                woken.push(request);
            }
            let waiter = waiter.bind(py);
            if !let_go(waiter)? {
                // Its task was cancelled in this very turn, and has not come to say so.
                let core = &mut this.borrow_mut();
                core.woken.as_mut().and_then(Vec::pop);
                core.give_back(now, request, NOTHING);
            }
        }
    }
}

/// Lets go what waits. Whether it still waited.
fn let_go(waiter: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = waiter.py();
    if let Ok(entering) = waiter.cast_exact::<Entering>() {
        return Entering::grant(entering);
    }
    match waiter.call_method1(intern!(py, "set_result"), (py.None(),)) {
        Err(error) if error.is_instance_of::<InvalidStateError>(py) => Ok(false),
        done => done.map(|_| true),
    }
}

const NOTHING: Outcome = Outcome { received: Bytes(0), out_of_order: 0 };

#[pymethods]
impl Core {
    /// `application`: what a scenario has under `stack.application`, as JSON. `clock`: nanoseconds that never go back, in place of
    /// `time.monotonic_ns`.
    #[new]
    #[pyo3(signature = (application, clock, *, rate_bps, base_rtt_ns, buffer_bytes, mss_bytes, workers, rto_min_ns, fits_segments))]
    #[expect(clippy::too_many_arguments, reason = "each has a name in Python")]
    fn new(
        py: Python<'_>,
        application: &str,
        clock: Option<Py<PyAny>>,
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
        let clock = clock.map_or_else(|| Clock::system(py), |clock| Ok(Clock::Given(clock)))?;
        Ok(Self {
            scheduler: choice.build(&context),
            clock,
            host: None,
            closed: false,
            cut_off: Vec::new(),
            grants: BTreeMap::new(),
            waiters: VecDeque::new(),
            resumed: Vec::new(),
            under_way: UnderWay::default(),
            sockets: Sockets::default(),
            unsent: Vec::new(),
            asked_ns: 0,
            timer_ns: None,
            set_timer: None,
            woken: None,
            next: 0,
            origin_ns: None,
            told_ns: 0,
            reasons: BTreeMap::new(),
            changes: 0,
            fits_segments,
            received: 0,
            windows_limited: 0,
            kernel: None,
            counts: Counts::default(),
        })
    }

    /// Begins to serve an event loop. `is_here` says whether the caller runs in it. Who is in the thread in which it was opened asks
    /// `runs` in its place: whether it runs. It is given as `event_loop` if it is of asyncio. If not, `enter` makes its tasks enter slots.
    #[pyo3(signature = (runs, is_here, *, event_loop = None, enter = None))]
    fn open(&mut self, runs: Py<PyAny>, is_here: Py<PyAny>, event_loop: Option<Py<PyAny>>, enter: Option<Py<PyAny>>) {
        self.host = Some(Host { thread: thread::current().id(), runs, is_here, event_loop, enter });
    }

    /// The time by its clock.
    fn now_ns(this: &Bound<'_, Self>) -> PyResult<u64> {
        let py = this.py();
        // Nothing is borrowed while a function of Python runs.
        let clock = match &this.borrow().clock {
            Clock::System { at, ns } => return Ok(ns + at.elapsed().as_nanos() as u64),
            Clock::Given(clock) => clock.clone_ref(py),
        };
        clock.call0(py)?.extract(py)
    }

    /// Calls this when it wants `timer` to be called at `next_timer_ns`, and that has not been seen to.
    fn on_timer_wanted(&mut self, set_timer: Py<PyAny>) {
        self.set_timer = Some(set_timer);
    }

    /// Serves no longer. Withdraws the requests that wait, and returns them with what they wait with, who must be told. Those that were let
    /// go still have to give back what they hold.
    fn close(this: &Bound<'_, Self>) -> PyResult<Vec<(u64, Py<PyAny>)>> {
        let now = Self::now(this)?;
        let core = &mut *this.borrow_mut();
        core.closed = true;
        core.unsent.clear();
        let waiters: Vec<_> = core.waiters.drain(..).collect();
        for (request, _) in &waiters {
            core.counts.withdrawn += 1;
            core.cut_off.push(*request);
            core.scheduler.on_withdrawn(now, RequestId(*request));
        }
        Ok(waiters)
    }

    /// Whether the caller runs in the event loop that it serves.
    fn is_here(this: &Bound<'_, Self>) -> PyResult<bool> {
        let py = this.py();
        let core = this.borrow();
        let ask = core.host.as_ref().filter(|_| !core.closed).map(|host| {
            let ask = if host.thread == thread::current().id() { &host.runs } else { &host.is_here };
            ask.clone_ref(py)
        });
        drop(core);
        ask.map_or(Ok(false), |ask| ask.call0(py)?.is_truthy(py))
    }

    /// Goes on with the tasks whose waiting has ended.
    fn go_on(this: &Bound<'_, Self>) -> PyResult<()> {
        let py = this.py();
        let mut resumed = std::mem::take(&mut this.borrow_mut().resumed).into_iter();
        while let Some((Callback { function, context }, entering)) = resumed.next() {
            if let Err(error) = context.call_method1(py, intern!(py, "run"), (function, entering)) {
                // An interrupt ends the loop. If that runs again, the others go on.
                for (callback, entering) in resumed {
                    Self::resume(this, callback, entering.into_bound(py))?;
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// With what a request waits that may not go at once.
    fn wait(&mut self, request: u64, waiter: Py<PyAny>) {
        let at = self.waiters.iter().rposition(|(earlier, _)| *earlier < request).map_or(0, |before| before + 1);
        self.waiters.insert(at, (request, waiter));
    }

    /// How many requests wait with something.
    fn waiters(&self) -> usize {
        self.waiters.len()
    }

    /// Requests with a connection that have been granted and are not over, in their order.
    fn seen(&self, py: Python<'_>) -> Vec<Py<Slot>> {
        self.watched().map(|slot| slot.clone_ref(py)).collect()
    }

    /// How many requests were asked for, how many completed and failed, and how many withdrew.
    const fn counts(&self) -> (u64, u64, u64, u64) {
        (self.next, self.counts.completed, self.counts.failed, self.counts.withdrawn)
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

    /// A request is no longer wanted that waits or was let go in this very turn. Whether that changes anything: `close` has withdrawn those
    /// that waited.
    fn withdraw(this: &Bound<'_, Self>, request: u64) -> PyResult<bool> {
        if this.borrow().cut_off.binary_search(&request).is_ok() {
            return Ok(false);
        }
        let now = Self::now(this)?;
        Self::wake(this, now, |core| {
            core.counts.withdrawn += 1;
            if !core.give_back(now, request, NOTHING) && core.take_waiter(request).is_some() {
                core.scheduler.on_withdrawn(now, RequestId(request));
            }
        })?;
        Ok(true)
    }

    /// So much payload arrived, which the end of a response is not told again.
    pub(crate) fn progress(this: &Bound<'_, Self>, received_bytes: u64) -> PyResult<()> {
        let now = Self::now(this)?;
        Self::wake(this, now, |core| core.scheduler.on_progress(now, Bytes(received_bytes)))
    }

    /// At the time of `next_timer_ns` it was seen that payload had arrived, last so long ago.
    fn seen_to_come(this: &Bound<'_, Self>, ago_ns: u64) -> PyResult<()> {
        let now = Self::now(this)?;
        let ago = Duration(ago_ns.saturating_mul(PS_PER_NS));
        Self::wake(this, now, |core| tell_late(&mut core.scheduler, now, ago))
    }

    /// The time of `next_timer_ns` has come.
    fn timer(this: &Bound<'_, Self>, out_of_order_segments: u64) -> PyResult<()> {
        let now = Self::now(this)?;
        Self::wake(this, now, |core| core.scheduler.on_timer(now, out_of_order_segments))
    }

    /// Acknowledges at once what comes over connections whose requests have been sent.
    fn acknowledge(this: &Bound<'_, Self>) -> PyResult<()> {
        let now_ns = Self::now_ns(this)?;
        let core = &mut *this.borrow_mut();
        core.asked_ns = now_ns;
        for mut unsent in std::mem::take(&mut core.unsent) {
            if !core.grants.contains_key(&unsent.request) {
                continue;
            }
            if unsent.at_ns <= now_ns {
                if unsent.way.acknowledge_if_sent(core, this.py())? {
                    continue;
                }
                let pause_ns = SENT_AFTER_NS.max(now_ns.saturating_sub(unsent.granted_ns) / 4);
                unsent.at_ns = now_ns.saturating_add(pause_ns);
            }
            core.unsent.push(unsent);
        }
        Ok(())
    }

    /// When `acknowledge` is to be called.
    fn next_acknowledge_ns(&self) -> Option<u64> {
        let first = self.unsent.iter().map(|unsent| unsent.at_ns).min();
        first.map(|at_ns| at_ns.max(self.asked_ns.saturating_add(SENT_AFTER_NS)))
    }

    /// When `timer` is to be called.
    fn next_timer_ns(&self) -> Option<u64> {
        self.scheduler.next_timer().map(|at| self.in_ns(at))
    }

    /// Whether to ask the kernel for payload that has arrived before `timer` is called. Where the timer only lets a request go at its pace,
    /// silence is no stall yet, and asking about each connection would take longer than letting the request go.
    fn looks(this: &Bound<'_, Self>) -> PyResult<bool> {
        let now = Self::now(this)?;
        Ok(this.borrow().scheduler.stalls_at().is_none_or(|stalls| stalls <= now))
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
        self.grants.get(&request).map(|granted| granted.grant.cost().0)
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

    /// How long servers are taken to think, in milliseconds.
    fn think_ms(&self) -> f64 {
        self.scheduler.status().think.0 as f64 / PS_PER_MS
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Clock::Given(clock) = &self.clock {
            visit.call(clock)?;
        }
        if let Some(host) = &self.host {
            visit.call(&host.runs)?;
            visit.call(&host.is_here)?;
            visit.call(&host.event_loop)?;
            visit.call(&host.enter)?;
        }
        for (callback, entering) in &self.resumed {
            callback.visit(&visit)?;
            visit.call(entering)?;
        }
        visit.call(&self.set_timer)?;
        self.watched().try_for_each(|slot| visit.call(slot))?;
        self.waiters.iter().map(|(_, waiter)| waiter).chain(&self.kernel).try_for_each(|held| visit.call(held))
    }

    fn __clear__(&mut self) {
        self.host = None;
        self.set_timer = None;
        self.grants.values_mut().for_each(|granted| granted.watched = None);
        self.waiters.clear();
        self.resumed.clear();
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
    module.add_class::<Remembered>()?;
    module.add_class::<Peer>()?;
    module.add_class::<Slot>()?;
    module.add_class::<Slots>()?;
    #[cfg(target_os = "linux")]
    {
        module.add_class::<timer::Timer>()?;
        module.add_function(wrap_pyfunction!(connection::info_in_python, module)?)?;
        module.add_function(wrap_pyfunction!(connection::limit_window_in_python, module)?)?;
    }
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
