//! The scheduler of `incast-protocols`, shared by tasks.

#[cfg(target_os = "linux")]
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::hint::spin_loop;
#[cfg(target_os = "linux")]
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use futures_util::future::{Either, select};
use incast_protocols::analysis::batch::Bottleneck;
use incast_protocols::application::credit::{self, Search, Why};
use incast_protocols::application::{
    AnyApplication, Application, ApplicationChoice, ApplicationContext, Grant, Outcome, Request, RequestId, Status,
};
use incast_protocols::{Bytes, Conflict, Duration, Rate, Time};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::events;
use crate::places::{Place, Places};
#[cfg(target_os = "linux")]
use crate::socket::{Connection, Unsent};
#[cfg(target_os = "linux")]
use incast_protocols::application::tell_late;

const PS_PER_NS: u64 = 1000;
const LONGEST_PAUSE: std::time::Duration = std::time::Duration::from_secs(1);
/// Tokio's timers are up to a millisecond late, in which time a fast link delivers many responses. So a thread sleeps through the last part of
/// a wait: it wakes up some fifty microseconds late.
const TIMERS_STEP: std::time::Duration = std::time::Duration::from_millis(2);

/// The largest that TCP can announce.
const LARGEST_WINDOW: u64 = 1 << 30;

/// Payload of a full segment on Ethernet, with timestamps.
const SEGMENT: Bytes = Bytes(1448);

/// What is expected of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    bytes: Maybe,
    window: Maybe,
}

/// A number, if there is one. An `Option` takes twice the room, and ten thousand requests may wait.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Maybe(u64);

impl Maybe {
    /// No count gets there.
    const NONE: Self = Self(u64::MAX);

    const fn of(number: u64) -> Self {
        Self(if number == Self::NONE.0 { number - 1 } else { number })
    }

    const fn get(self) -> Option<u64> {
        if self.0 == Self::NONE.0 { None } else { Some(self.0) }
    }
}

impl Default for Maybe {
    fn default() -> Self {
        Self::NONE
    }
}

impl fmt::Debug for Maybe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

impl Expect {
    /// It has so many bytes, about: headers and trailers of the protocol may be left out.
    #[must_use]
    pub const fn bytes(bytes: u64) -> Self {
        Self { bytes: Maybe::of(bytes), window: Maybe::NONE }
    }

    /// Nobody knows.
    #[must_use]
    pub const fn unknown() -> Self {
        Self { bytes: Maybe::NONE, window: Maybe::NONE }
    }

    /// Its connection lets so many bytes be under way at once: its receive window, where that is limited.
    #[must_use]
    pub const fn window(self, bytes: u64) -> Self {
        Self { window: Maybe::of(bytes), ..self }
    }

    pub(crate) const fn expected(self) -> Option<u64> {
        self.bytes.get()
    }

    #[cfg(all(feature = "tower", target_os = "linux"))]
    pub(crate) const fn announced(self) -> Option<u64> {
        self.window.get()
    }
}

/// What the scheduler decided, for gauges and logs. It is told after the fact, outside of all locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// A request has to wait.
    Waits {
        /// The number of the request: the first that was asked for is 0.
        request: u64,
    },
    /// A request may be sent.
    Granted {
        /// The number of the request.
        request: u64,
        /// What it costs, in bytes.
        cost_bytes: u64,
    },
    /// The slot of a request was dropped while its response may still come: its credit is kept.
    Draining {
        /// The number of the request.
        request: u64,
        /// What it costs, in bytes.
        cost_bytes: u64,
    },
    /// The credit of a request came back.
    Returned {
        /// The number of the request.
        request: u64,
        /// What it cost, in bytes.
        cost_bytes: u64,
    },
    /// A request was dropped before it was sent.
    Withdrawn {
        /// The number of the request.
        request: u64,
    },
    /// The budget changed.
    Budget {
        /// Why it changed last.
        why: Option<Why>,
    },
}

impl Decision {
    /// A name for logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waits { .. } => "waits",
            Self::Granted { .. } => "granted",
            Self::Draining { .. } => "draining",
            Self::Returned { .. } => "returned",
            Self::Withdrawn { .. } => "withdrawn",
            Self::Budget { .. } => "budget",
        }
    }

    /// The number of the request, and what it costs, as far as there is one.
    #[must_use]
    pub const fn request(self) -> (Option<u64>, Option<u64>) {
        match self {
            Self::Waits { request } | Self::Withdrawn { request } => (Some(request), None),
            Self::Granted { request, cost_bytes }
            | Self::Draining { request, cost_bytes }
            | Self::Returned { request, cost_bytes } => (Some(request), Some(cost_bytes)),
            Self::Budget { .. } => (None, None),
        }
    }
}

type Hook = Box<dyn Fn(Decision, &Status) + Send + Sync>;

/// How a [`Credit`] is set up.
#[derive(Debug)]
#[must_use]
pub struct Builder {
    config: credit::Config,
    bottleneck: Bottleneck,
    workers: Option<u32>,
    hook: Option<HookOf>,
}

struct HookOf(Hook);

impl fmt::Debug for HookOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

impl Builder {
    /// So many bytes may be under way at once, whatever the path says.
    pub fn budget_bytes(mut self, bytes: u64) -> Self {
        (self.config.budget, self.config.learn) = (Some(Bytes(bytes)), false);
        self
    }

    /// 70 % of a port with so many bytes of buffer and a link of so many bits per second, or less where that would take the
    /// link more than half of the minimum retransmission timeout (100 ms).
    pub fn port(mut self, rate_bps: u64, buffer_bytes: u64) -> Self {
        (self.config.budget, self.config.learn) = (None, false);
        (self.bottleneck.rate, self.bottleneck.buffer) = (Rate(rate_bps), Bytes(buffer_bytes));
        self
    }

    /// How long servers usually think before they answer. Meanwhile their requests hold nothing of the budget of a [port](Self::port),
    /// and others go at the pace of its link: a task of tokio sees to that, so slots have to be asked for in a runtime that has
    /// time. Few requests of known windows go at once, until a loss is told (`socket::Tcp::report`).
    pub fn think(mut self, think: std::time::Duration) -> Self {
        self.config.think = Duration(u64::try_from(think.as_nanos()).unwrap_or(u64::MAX).saturating_mul(PS_PER_NS));
        self
    }

    /// How long servers think is found out. That needs a [port](Self::port), requests whose windows are known, and that what came out of order is
    /// told (`Tcp::report`, [`Slot::out_of_order`]): a loss says that it is less.
    pub const fn learn_think(mut self) -> Self {
        self.config.learn_think = true;
        self
    }

    /// How the budget is learned. Its numbers have to be sensible: see [`build`](Self::build).
    pub fn search(mut self, search: Search) -> Self {
        self.config.search = search;
        self
    }

    /// How many connections may answer at once. Each gets an equal part of the budget for its window, where that is more than four
    /// segments.
    pub fn workers(mut self, connections: u32) -> Self {
        self.workers = Some(connections);
        self
    }

    /// To how many bytes receive windows should be limited; by default to four segments, or to what follows from the number of
    /// [workers](Self::workers). See [`Credit::window_bytes`].
    pub fn window_bytes(mut self, bytes: u64) -> Self {
        self.config.window = Some(Bytes(bytes.min(LARGEST_WINDOW)));
        self
    }

    /// Taken for the size of responses whose size nobody knows.
    pub fn unknown_bytes(mut self, bytes: u64) -> Self {
        self.config.response = Some(Bytes(bytes));
        self
    }

    /// Called at every decision, by the task that caused it. It must not block, and may use the scheduler. A panic in it ends the call
    /// and goes no further, as credit would be lost.
    pub fn on_decision(mut self, hook: impl Fn(Decision, &Status) + Send + Sync + 'static) -> Self {
        self.hook = Some(HookOf(Box::new(hook)));
        self
    }

    /// The scheduler.
    ///
    /// # Panics
    /// Servers [think](Self::think), for a time that is told or [learned](Self::learn_think), and no [port](Self::port) is given; or both
    /// are. Or the [search](Self::search) has a stall of less than a millisecond or of more than a day, less than one measurement from trial
    /// to trial, a factor that is not from 1 to 2, or a cut that is not from 0.1 to 0.99.
    #[must_use]
    pub fn build(self) -> Credit {
        if let Err(Conflict { key, message }) = self.config.search.check() {
            panic!("search: {key}: {message}");
        }
        let known = !self.config.learn && self.bottleneck.rate.0 > 0;
        let (told, learns) = (self.config.think != Duration::ZERO, self.config.learn_think);
        assert!(known || !(told || learns), "servers that think need a port");
        assert!(!(told && learns), "how long servers think is told or learned");
        let context =
            ApplicationContext { bottleneck: self.bottleneck, workers: self.workers, rto_min: Duration::from_ms(200) };
        Credit::of(&ApplicationChoice::Credit(self.config), &context, self.hook.map(|HookOf(hook)| hook))
    }
}

/// A budget of bytes that requests share: one for each link over which responses come in. Clones are the same budget.
#[derive(Clone)]
pub struct Credit(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    began: Instant,
    /// Whether the scheduler goes by the time: to look at the clock takes a tenth of what a slot does.
    heeds_time: bool,
    /// Whether the scheduler looks at bytes as they come.
    watches: bool,
    /// Whether the window that the scheduler wants is made to fit the segments of a connection.
    #[cfg(target_os = "linux")]
    fits_segments: bool,
    hook: Option<Hook>,
    #[cfg(target_os = "linux")]
    unsent: Arc<Mutex<Unsent>>,
}

struct State {
    scheduler: AnyApplication,
    /// Whether a request that finds others waiting only takes its place behind them.
    is_in_order: bool,
    /// What listeners know of it: how often the budget has changed, and whether losses are those of others.
    known: (u64, bool),
    /// Whether requests wait, and when the scheduler wants its timer to run, as it said last.
    waits: bool,
    due: Option<Time>,
    places: Places,
    /// When a task runs the timer, if there is one.
    pacer: Option<(Time, Arc<Notify>)>,
    /// Whether a runtime was found in which no task can, as it has no time.
    is_without_time: bool,
    /// Connections over which responses come, by their requests, if the scheduler looks at bytes as they come.
    #[cfg(target_os = "linux")]
    watched: BTreeMap<u64, Connection>,
}

impl Credit {
    /// The budget is learned from the responses: it grows while goodput does, and is cut when data is lost. While requests wait, a task of
    /// tokio sees to those that hang, and to the pace at which requests go where servers think. So slots have to be asked for in a runtime
    /// that has time.
    #[must_use]
    pub fn adaptive() -> Self {
        Self::builder().build()
    }

    /// So many bytes may be under way at once: about 70 % of the buffer of the port to this machine.
    #[must_use]
    pub fn with_budget(bytes: u64) -> Self {
        Self::builder().budget_bytes(bytes).build()
    }

    /// To set more. Without a budget or a port it is learned.
    pub fn builder() -> Builder {
        let bottleneck = Bottleneck { rate: Rate(0), base_rtt: Duration::ZERO, buffer: Bytes(0), mss: SEGMENT };
        let config = credit::Config { learn: true, ..credit::Config::default() };
        Builder { config, bottleneck, workers: None, hook: None }
    }

    /// Any scheduler of the simulator, such as ARS, to be compared with.
    #[must_use]
    pub fn with_scheduler(choice: &ApplicationChoice, context: &ApplicationContext) -> Self {
        Self::of(choice, context, None)
    }

    fn of(choice: &ApplicationChoice, context: &ApplicationContext, hook: Option<Hook>) -> Self {
        let scheduler = choice.build(context);
        let (known, due) = (known(&scheduler.status()), scheduler.next_timer());
        let state = State {
            scheduler,
            is_in_order: matches!(choice, ApplicationChoice::Credit(_)),
            known,
            waits: false,
            due,
            places: Places::default(),
            pacer: None,
            is_without_time: false,
            #[cfg(target_os = "linux")]
            watched: BTreeMap::new(),
        };
        let (heeds_time, watches) = (state.scheduler.heeds_time(), state.scheduler.watches_progress());
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            began: Instant::now(),
            heeds_time,
            watches,
            #[cfg(target_os = "linux")]
            fits_segments: matches!(choice, ApplicationChoice::Credit(config) if config.window.is_none()),
            hook,
            #[cfg(target_os = "linux")]
            unsent: Arc::default(),
        }))
    }

    /// Waits until a request may be sent. Requests go in the order in which these futures are polled first. Whoever waits while it holds a
    /// slot of the same scheduler may wait for ever.
    pub fn slot(&self, expect: Expect) -> Waiting {
        Waiting { shared: Some(Arc::clone(&self.0)), span: events::Span::default(), expect, asked: Maybe::NONE }
    }

    /// A slot if there is one now and nobody waits for it.
    #[must_use]
    pub fn try_slot(&self, expect: Expect) -> Option<Slot> {
        let mut waiting = self.slot(expect);
        match Pin::new(&mut waiting).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(slot) => Some(slot),
            Poll::Pending => None,
        }
    }

    /// To how many bytes the receive windows of connections should be limited now, if at all.
    #[must_use]
    pub fn window_bytes(&self) -> Option<u64> {
        self.0.lock().scheduler.window().map(|window| window.0)
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn fits_segments(&self) -> bool {
        self.0.fits_segments
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> Status {
        self.0.lock().scheduler.status()
    }
}

impl fmt::Debug for Credit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Credit").field(&self.status()).finish()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in the lock is left half done by a panic of a task.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        if !self.heeds_time {
            return Time(0);
        }
        // Picoseconds wrap after 213 days: schedulers bear clocks that do.
        Time((self.began.elapsed().as_nanos() as u64).wrapping_mul(PS_PER_NS))
    }

    /// Tells the scheduler something, and lets go what may go now. What then becomes of it is asked for before the lock is
    /// opened; whoever listens is told afterwards.
    fn act<A, T>(
        self: &Arc<Self>,
        decision: Option<Decision>,
        tell: impl FnOnce(&mut State, Time) -> A,
        ask: impl FnOnce(&mut State, A) -> T,
    ) -> T {
        let hears = self.hears();
        self.act_in(self.lock(), hears, decision, tell, ask)
    }

    fn act_in<A, T>(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        hears: bool,
        decision: Option<Decision>,
        tell: impl FnOnce(&mut State, Time) -> A,
        ask: impl FnOnce(&mut State, A) -> T,
    ) -> T {
        let now = self.now();
        let mut granted = Vec::new();
        // While no request waits, a timer need not run before the next call.
        let mut timed = None;
        if state.is_due(now) {
            state.run_timer(now);
            timed = Some(state.scheduler.status());
        }
        let told = tell(&mut state, now);
        let mut woken = Woken::default();
        while let Some(grant) = state.scheduler.poll(now) {
            if hears {
                granted.push((grant.id().0, grant.cost().0));
            }
            woken.extend(state.places.grant(grant));
        }
        let answer = ask(&mut state, told);
        let status = state.scheduler.status();
        let mut before = std::mem::replace(&mut state.known, known(&status));
        state.waits = status.waiting > 0;
        state.due = state.scheduler.next_timer();
        let pace = self.pace(&mut state);
        drop(state);
        if let Some(pace) = pace {
            // After the lock was opened: a runtime that ends drops the task at once, which takes the lock.
            pace.begin();
        }
        woken.wake();
        if let Some(timed) = timed {
            // By itself: another change may have followed, with a reason of its own.
            self.report(None, &[], std::mem::replace(&mut before, known(&timed)), &timed);
        }
        if hears || before != known(&status) {
            self.report(decision, &granted, before, &status);
        }
        answer
    }

    /// A request takes its place. It is told whether it may go, as by [`State::take`].
    fn ask(
        self: &Arc<Self>,
        asked: &mut Maybe,
        expect: Expect,
        task: &Waker,
        replaced: &mut Option<Waker>,
    ) -> (u64, Result<Grant, bool>) {
        let hears = self.hears();
        let mut state = self.lock();
        // Nothing goes now, and what runs the timer is there: to look at the clock would take longer than the rest.
        if state.is_in_order && state.waits && (state.due.is_none() || state.pacer.is_some()) {
            let id = state.ask(Time(0), expect);
            *asked = Maybe(id);
            return (id, state.take(id, task, replaced));
        }
        let ask = |state: &mut State, now| {
            let id = state.ask(now, expect);
            *asked = Maybe(id);
            id
        };
        self.act_in(state, hears, None, ask, |state, id| (id, state.take(id, task, replaced)))
    }

    /// What runs the timer while requests wait, if that is wanted and not there, or would come too late.
    fn pace(self: &Arc<Self>, state: &mut State) -> Option<Pacing> {
        let at = state.runs_timer_at()?;
        if let Some((next, sooner)) = &mut state.pacer {
            return (std::mem::replace(next, at.min(*next)) > at).then(|| Pacing::Sooner(Arc::clone(sooner)));
        }
        if state.is_without_time {
            return None;
        }
        let runtime = Handle::try_current().ok()?;
        let sooner = Arc::new(Notify::new());
        state.pacer = Some((at, Arc::clone(&sooner)));
        Some(Pacing::New(runtime, Pace { shared: Arc::downgrade(self) }, sooner))
    }

    /// Runs the timer whenever its time has come, until no request waits for that.
    async fn keep_pace(mut pace: Pace, sooner: Arc<Notify>) {
        let mut has_threads = true;
        // To make one panics in a runtime without time. That is said once, and the timer then runs only with calls.
        if catch_unwind(|| drop(sleep(std::time::Duration::ZERO))).is_err()
            && let Some(held) = pace.shared.upgrade()
        {
            held.lock().is_without_time = true;
            return;
        }
        while let Some(held) = pace.shared.upgrade() {
            let now = held.now();
            let (at, lets_go) = {
                let mut state = held.lock();
                let at = state.runs_timer_at();
                state.pacer = at.map(|at| (at, Arc::clone(&sooner)));
                (at, state.scheduler.lets_go_at())
            };
            let Some(at) = at else {
                pace.shared = Weak::new();
                return;
            };
            let wait = std::time::Duration::from_nanos(at.0.saturating_sub(now.0).div_ceil(PS_PER_NS));
            drop(held);
            // A clock that wraps would have it wait for months.
            let wait = wait.min(LONGEST_PAUSE);
            let was_told = if lets_go == Some(at) {
                told_within(wait, &sooner, &mut has_threads).await
            } else {
                timeout(wait, sooner.notified()).await.is_ok()
            };
            if was_told {
                continue;
            }
            let Some(held) = pace.shared.upgrade() else { return };
            held.act(None, |_, _| (), |_, ()| ());
        }
    }

    /// Whether anybody hears of requests one by one.
    fn hears(&self) -> bool {
        self.hook.is_some() || events::enabled()
    }

    fn report(&self, decision: Option<Decision>, granted: &[(u64, u64)], before: (u64, bool), status: &Status) {
        let (changes, losses_of_others) = before;
        if let Some(decision) = decision {
            self.tell(decision, status);
        }
        for &(request, cost_bytes) in granted {
            self.tell(Decision::Granted { request, cost_bytes }, status);
        }
        if status.changes != changes {
            unharmed(|| events::budget(status.changes.wrapping_sub(changes), status));
            self.call(Decision::Budget { why: status.last_change }, status);
        }
        if status.losses_of_others && !losses_of_others {
            unharmed(|| events::losses_of_others(status));
        }
    }

    fn tell(&self, decision: Decision, status: &Status) {
        unharmed(|| events::decision(decision, status));
        self.call(decision, status);
    }

    fn call(&self, decision: Decision, status: &Status) {
        if let Some(hook) = &self.hook {
            unharmed(|| hook(decision, status));
        }
    }
}

/// Waits for a notification, at most for `time`. Returns whether it came.
///
/// A thread of the pool sleeps through the last part, as long as `has_threads` holds. It no longer does once a thread could not be started.
async fn told_within(time: std::time::Duration, sooner: &Notify, has_threads: &mut bool) -> bool {
    let until = Instant::now() + time;
    let mut told = pin!(sooner.notified());
    if is_stopped() {
        return timeout_at(until, told).await.is_ok();
    }
    if time > TIMERS_STEP && timeout_at(until - TIMERS_STEP, told.as_mut()).await.is_ok() {
        return true;
    }
    let rest = until.saturating_duration_since(Instant::now());
    if rest.is_zero() {
        return false;
    }
    // If no thread is free, the sleep stays in the queue, and the timer ends the wait.
    let Some(mut sleeps) = has_threads.then(|| sleep_in_a_thread(rest)).flatten() else {
        *has_threads = false;
        return timeout_at(until, told).await.is_ok();
    };
    let was_told = matches!(timeout_at(until, select(told, &mut sleeps)).await, Ok(Either::Left(_)));
    // It may still be in the queue.
    sleeps.abort();
    was_told
}

/// Sleeps in a thread of the pool. Returns nothing if none can be started: `spawn_blocking` panics then.
fn sleep_in_a_thread(time: std::time::Duration) -> Option<JoinHandle<()>> {
    let until = std::time::Instant::now() + time;
    let sleep = move || std::thread::sleep(until.saturating_duration_since(std::time::Instant::now()));
    catch_unwind(|| spawn_blocking(sleep)).ok()
}

/// Whether a test has paused tokio's clock: it stands still while the machine's clock goes on.
fn is_stopped() -> bool {
    let (told, real) = (Instant::now(), std::time::Instant::now());
    while std::time::Instant::now() == real {
        spin_loop();
    }
    Instant::now() == told
}

/// The task that runs the timer while requests wait. If its runtime ends before, a request that waits sees to another.
struct Pace {
    shared: Weak<Shared>,
}

impl Drop for Pace {
    fn drop(&mut self) {
        let Some(shared) = self.shared.upgrade() else { return };
        let mut state = shared.lock();
        state.pacer = None;
        let waits = state.runs_timer_at().and_then(|_| state.places.first_waker());
        drop(state);
        if let Some(waits) = waits {
            unharmed(|| waits.wake());
        }
    }
}

/// What is to be done for the pace once the lock is open.
enum Pacing {
    New(Handle, Pace, Arc<Notify>),
    Sooner(Arc<Notify>),
}

impl Pacing {
    fn begin(self) {
        match self {
            Self::New(runtime, pace, sooner) => drop(runtime.spawn(Shared::keep_pace(pace, sooner))),
            Self::Sooner(sooner) => sooner.notify_one(),
        }
    }
}

/// Whoever listens may panic, but not cost a grant that is on its way to its request, or end the program where a slot is dropped by
/// another panic.
fn unharmed(listens: impl FnOnce()) {
    // The panic has been reported by now.
    let _ = catch_unwind(AssertUnwindSafe(listens));
}

/// What listeners are told of when it changes.
const fn known(status: &Status) -> (u64, bool) {
    (status.changes, status.losses_of_others)
}

/// Tasks to wake once the lock is open. Mostly it is one: what a response gives back lets one request go.
#[derive(Default)]
struct Woken {
    first: Option<Waker>,
    others: Vec<Waker>,
}

impl Woken {
    fn extend(&mut self, waker: Option<Waker>) {
        match waker {
            Some(waker) if self.first.is_some() => self.others.push(waker),
            Some(waker) => self.first = Some(waker),
            None => {}
        }
    }

    fn wake(self) {
        for waker in self.first.into_iter().chain(self.others) {
            // One that panics costs the others nothing.
            unharmed(|| waker.wake());
        }
    }
}

impl State {
    /// Whether the time of the scheduler's timer has come.
    fn is_due(&self, now: Time) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// When it has to run though nothing else happens: requests wait, and may go then.
    const fn runs_timer_at(&self) -> Option<Time> {
        if self.waits { self.due } else { None }
    }

    /// That time has come. If nothing was told for so long, bytes may have come nevertheless, also of what is about to be taken for hung.
    #[cold]
    fn run_timer(&mut self, now: Time) {
        #[cfg(target_os = "linux")]
        let out_of_order = self.look_at_connections(now);
        #[cfg(not(target_os = "linux"))]
        let out_of_order = 0;
        if out_of_order > 0 || self.scheduler.next_timer().is_some_and(|due| due <= now) {
            self.scheduler.on_timer(now, out_of_order);
        }
    }

    /// Tells of bytes that came, if silence is about to be taken for a stall, or for a response that hangs. Returns segments that came out of order.
    #[cfg(target_os = "linux")]
    fn look_at_connections(&mut self, now: Time) -> u64 {
        if self.scheduler.stalls_at().is_some_and(|stalls| stalls > now) {
            return 0;
        }
        let (mut last, mut out_of_order) = (None::<std::time::Duration>, 0);
        for (ago, newly_out_of_order) in self.watched.values().map(Connection::last_came) {
            last = last.into_iter().chain(ago).min();
            out_of_order += newly_out_of_order;
        }
        if let Some(ago) = last {
            tell_late(&mut self.scheduler, now, Duration(ago.as_nanos() as u64 * PS_PER_NS));
        }
        out_of_order
    }

    /// A request takes its place among those that wait.
    fn ask(&mut self, now: Time, expect: Expect) -> u64 {
        let id = self.places.take();
        // A connection that nobody has limited sends all it has.
        let (expected, window) = (expect.expected().map(Bytes), Some(Bytes(expect.window.get().unwrap_or(u64::MAX))));
        self.scheduler.on_request(now, Request { id: RequestId(id), expected, window });
        id
    }

    /// Takes the grant of a request that has one; else its task is woken when it has, and no longer the one that is `replaced`. Whether
    /// it waits only since now is told, too.
    fn take(&mut self, id: u64, task: &Waker, replaced: &mut Option<Waker>) -> Result<Grant, bool> {
        if let Some(waker) = self.places.waker(id) {
            let only_now = waker.is_none();
            if !waker.as_ref().is_some_and(|waker| waker.will_wake(task)) {
                *replaced = waker.replace(task.clone());
            }
            return Err(only_now);
        }
        match self.places.leave(id) {
            Some(Place::Granted(grant)) => Ok(grant),
            _ => Err(false),
        }
    }
}

/// A request that waits for its slot. Dropped before that, it is withdrawn.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Waiting {
    /// Gone with the slot.
    shared: Option<Arc<Shared>>,
    span: events::Span,
    expect: Expect,
    /// Its number, once it was polled.
    asked: Maybe,
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("request", &self.asked).finish_non_exhaustive()
    }
}

impl Future for Waiting {
    type Output = Slot;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Slot> {
        let Self { shared: place, span, expect, asked } = &mut *self;
        let shared = place.as_ref().expect("a slot is given once");
        let task = context.waker();
        // Dropped when the lock is open.
        let mut replaced = None;
        let (id, taken) = if let Some(id) = asked.get() {
            let mut state = shared.lock();
            let taken = state.take(id, task, &mut replaced);
            // The runtime of the task that ran the timer may have ended.
            let pace = if taken.is_err() { shared.pace(&mut state) } else { None };
            drop(state);
            if let Some(pace) = pace {
                pace.begin();
            }
            (id, taken)
        } else {
            let (id, taken) = shared.ask(asked, *expect, task, &mut replaced);
            unharmed(|| *span = events::Span::of(id, expect.expected()));
            (id, taken)
        };
        match taken {
            Ok(grant) => {
                let shared = place.take().expect("it was there");
                let span = std::mem::take(span);
                unharmed(|| span.granted(grant.cost().0));
                Poll::Ready(Slot {
                    shared,
                    span,
                    grant: Some(grant),
                    received: expect.expected().unwrap_or(0),
                    told: 0,
                    out_of_order: 0,
                    #[cfg(target_os = "linux")]
                    expected: expect.bytes,
                    #[cfg(target_os = "linux")]
                    way: None,
                })
            }
            Err(only_now) => {
                if only_now && shared.hears() {
                    let status = shared.lock().scheduler.status();
                    shared.tell(Decision::Waits { request: id }, &status);
                }
                Poll::Pending
            }
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let (Some(shared), Some(id)) = (&self.shared, self.asked.get()) else { return };
        let leave = |state: &mut State, now| match state.places.leave(id)? {
            Place::Waiting(waker) => {
                state.scheduler.on_withdrawn(now, RequestId(id));
                waker
            }
            Place::Granted(grant) => {
                // It was not taken: nothing was sent.
                state.scheduler.on_finished(now, grant, Outcome::default());
                None
            }
        };
        // Its task may be the last owner of a slot, so it goes when the lock is open.
        drop(shared.act(Some(Decision::Withdrawn { request: id }), leave, |_, waker| waker));
    }
}

/// Leave to send one request. Dropping it gives its credit back: do that when nothing of the response is under way any more, or say
/// which connection the response [comes over](Self::comes_over).
#[must_use = "a slot that is dropped gives its credit back"]
pub struct Slot {
    shared: Arc<Shared>,
    span: events::Span,
    grant: Option<Grant>,
    /// Bytes of the response, if nobody says otherwise.
    received: u64,
    /// Bytes of the response that were told as they came.
    told: u64,
    out_of_order: u64,
    #[cfg(target_os = "linux")]
    expected: Maybe,
    /// In a box, so that a slot of which nobody tells it is small.
    #[cfg(target_os = "linux")]
    way: Option<Box<Way>>,
}

/// The connection over which a response comes.
#[cfg(target_os = "linux")]
struct Way {
    /// What drains if the slot is dropped while the response may still come.
    drains: Option<Connection>,
    fd: Option<RawFd>,
    /// Whether the scheduler looks at it when a stall is due.
    is_watched: bool,
}

impl Slot {
    /// The response comes over this connection, which [`Tcp::expect`](crate::socket::Tcp::expect) has looked at before. If the slot
    /// is then dropped, or the request [fails](Self::fail), while the response may still come, a task of tokio keeps the credit until
    /// the connection is closed, has brought as many bytes as were expected, or has been silent for a second. Outside of a runtime
    /// credit comes back at once.
    ///
    /// If the window of the connection is limited and the response may fill it, another task asks whether the request has been sent, first
    /// after a millisecond, and then has what comes [acknowledged at once](crate::socket::acknowledge_at_once). So the runtime needs to
    /// have time.
    ///
    /// A scheduler that learns also asks the connection whether bytes have come, before it takes silence for a stall.
    #[cfg(target_os = "linux")]
    pub fn comes_over(&mut self, tcp: &crate::socket::Tcp) {
        self.comes_over_connection(tcp.connection(), true);
    }

    /// The same. Whether all that comes over it is of the response, so that it [drains](Self::drains).
    #[cfg(target_os = "linux")]
    pub(crate) fn comes_over_connection(&mut self, connection: Connection, alone: bool) {
        self.no_longer_comes_over();
        let Some(request) = self.request() else { return };
        if self.shared.watches {
            self.shared.lock().watched.insert(request, connection.clone());
        }
        self.way = Some(Box::new(Way {
            drains: alone.then(|| connection.clone()),
            fd: Some(Unsent::add(&self.shared.unsent, request, connection, self.expected.get())),
            is_watched: self.shared.watches,
        }));
    }

    /// It comes over another connection, of which nothing is known.
    #[cfg(all(feature = "tower", target_os = "linux"))]
    pub(crate) fn comes_over_nothing_known(&mut self) {
        self.no_longer_comes_over();
        if self.way.take().is_some_and(|way| way.is_watched)
            && let Some(request) = self.request()
        {
            self.shared.lock().watched.remove(&request);
        }
    }

    /// It is over, or comes over another connection.
    #[cfg(target_os = "linux")]
    fn no_longer_comes_over(&mut self) {
        if let (Some(fd), Some(request)) = (self.way.as_mut().and_then(|way| way.fd.take()), self.request()) {
            Unsent::remove(&self.shared.unsent, request, fd);
        }
    }

    /// So many bytes of the response have come. To tell as they come is better than at the end only: goodput is then known sooner, and
    /// a stall is noticed.
    pub fn progress(&mut self, bytes: u64) {
        self.told += bytes;
        if self.shared.watches {
            self.shared.act(None, |state, now| state.scheduler.on_progress(now, Bytes(bytes)), |_, ()| ());
        }
    }

    /// How many segments came out of order at the connection since its last request: the sign that something was lost.
    pub const fn out_of_order(&mut self, segments: u64) {
        self.out_of_order += segments;
    }

    /// The response is complete, and has so many bytes. To drop the slot says the same of as many bytes as were expected.
    pub fn finish(mut self, bytes: u64) {
        self.received = bytes;
        #[cfg(target_os = "linux")]
        if let Some(way) = &mut self.way {
            way.drains = None;
        }
    }

    /// The response is complete, and has as many bytes as were told of as they came.
    #[cfg(feature = "tower")]
    pub(crate) fn finish_as_told(self) {
        let told = self.told;
        self.finish(told);
    }

    /// Nothing more came of the response than was told of as it came: it failed.
    pub fn fail(mut self) {
        self.received = self.told;
    }

    /// If it is dropped before [`came`](Self::came), nothing more came of it than was told. Returns what was expected.
    pub(crate) const fn fails_unless_it_came(&mut self) -> u64 {
        std::mem::replace(&mut self.received, 0)
    }

    /// It came.
    pub(crate) const fn came(&mut self, expected: u64) {
        self.received = expected;
    }

    /// The number of the request, as in [`Decision`].
    #[must_use]
    pub fn request(&self) -> Option<u64> {
        self.grant.as_ref().map(|grant| grant.id().0)
    }

    /// What it costs, in bytes.
    #[must_use]
    pub fn cost_bytes(&self) -> u64 {
        self.grant.as_ref().map_or(0, |grant| grant.cost().0)
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("grant", &self.grant).finish_non_exhaustive()
    }
}

#[cfg(target_os = "linux")]
impl Slot {
    /// Keeps the credit of a response that may still come, and leaves nothing of the slot. Returns whether it did.
    fn drains(&mut self) -> bool {
        let Some(connection) = self.way.as_mut().and_then(|way| way.drains.take()) else { return false };
        let (received, out_of_order, more) = connection.look(self.expected.get());
        self.out_of_order += out_of_order;
        let runtime = Handle::try_current();
        let (true, Ok(runtime)) = (more, runtime) else {
            // What the program says is better, if it says something.
            self.received = self.received.min(received.max(self.told));
            return false;
        };
        let kept = Self {
            shared: Arc::clone(&self.shared),
            span: std::mem::take(&mut self.span),
            grant: self.grant.take(),
            received: received.max(self.told),
            told: self.told,
            out_of_order: self.out_of_order,
            expected: self.expected,
            way: self.way.take(),
        };
        if kept.shared.hears()
            && let Some(grant) = &kept.grant
        {
            let status = kept.shared.lock().scheduler.status();
            kept.shared.tell(Decision::Draining { request: grant.id().0, cost_bytes: grant.cost().0 }, &status);
        }
        // If the runtime ends, the task is dropped, and the slot with it.
        runtime.spawn(async move {
            let mut kept = kept;
            let (received, out_of_order) = connection.run_dry(kept.expected.get()).await;
            kept.received = kept.received.max(received);
            kept.out_of_order += out_of_order;
        });
        true
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        #[cfg(target_os = "linux")]
        {
            if self.drains() {
                return;
            }
            self.no_longer_comes_over();
        }
        let Some(grant) = self.grant.take() else { return };
        // What was told as it came has come; a scheduler that looks at that has heard of it.
        let heard = if self.shared.watches { self.told } else { 0 };
        let received = self.received.max(self.told) - heard;
        let outcome = Outcome { received: Bytes(received), out_of_order: self.out_of_order };
        let request = grant.id().0;
        let decision = Decision::Returned { request, cost_bytes: grant.cost().0 };
        let finish = |state: &mut State, now| {
            #[cfg(target_os = "linux")]
            if self.way.as_ref().is_some_and(|way| way.is_watched) {
                state.watched.remove(&request);
            }
            state.scheduler.on_finished(now, grant, outcome);
        };
        self.shared.act(Some(decision), finish, |_, ()| ());
    }
}
