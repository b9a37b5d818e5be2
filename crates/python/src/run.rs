//! A run in a thread of its own.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use incast::protocols::{Bytes, Time};
use incast::record::{self, Spill};
use incast::{Control, Cost, Job, Pilot, Threads, Work};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::desk::{Desk, SLICE, outlived};
use crate::errors::RunError;
use crate::memory;
use crate::result;
use crate::scenario::{Planned, Wanted, planned, refuse_to_exhaust};

/// How a run ended: what was recorded, or why it failed.
type Ending = Result<Arc<record::Run>, String>;

/// What a pilot tells of its run.
#[pyclass(frozen, module = "incast._native")]
#[derive(Debug)]
pub(crate) struct Told(incast::Told);

#[pymethods]
impl Told {
    #[getter]
    const fn packet_hops(&self) -> u64 {
        self.0.cost.packet_hops
    }

    #[getter]
    const fn memory_bytes(&self) -> u64 {
        self.0.cost.memory.0
    }

    /// Of what the pilot has run a part of.
    #[getter]
    const fn packet_hops_of_part(&self) -> u64 {
        self.0.packet_hops
    }

    /// How many times as long as that the run takes.
    #[getter]
    const fn times(&self) -> f64 {
        self.0.times
    }

    /// Whether it saw neither all connections that are open at once nor the end.
    #[getter]
    const fn is_guess(&self) -> bool {
        self.0.is_guess
    }
}

/// A run under way.
#[pyclass(frozen, module = "incast._native")]
#[derive(Debug)]
pub(crate) struct Run {
    control: Arc<Control>,
    stop_at: Option<Time>,
    cost: Cost,
    /// Bytes of memory that have to be left, so that what the run has can still be written.
    reserve: u64,
    desk: Arc<Desk<Ending>>,
    threads: Option<(usize, Option<String>)>,
    work: Work,
    /// If that is what it is.
    pilot: Option<Arc<Pilot>>,
}

impl Run {
    /// A run that has not begun.
    fn new(job: &Job, cost: Cost, spill: Option<PathBuf>) -> Self {
        let control = spill.map_or_else(Control::default, |directory| Control::spilling(Spill::into(directory)));
        Self {
            control: Arc::new(control),
            stop_at: job.plan.stop_at,
            cost,
            reserve: memory::available().map_or(0, memory::reserve),
            desk: Arc::default(),
            threads: None,
            work: Work::of(&job.plan),
            pilot: None,
        }
    }

    fn begin(self, carry_out: impl FnOnce() -> Ending + Send + 'static) -> PyResult<Self> {
        let desk = Arc::clone(&self.desk);
        thread::Builder::new()
            .name("incast-run".into())
            .spawn(move || desk.leave(carry_out()))
            .map_err(|error| RunError::new_err(format!("cannot start a thread: {error}")))?;
        Ok(self)
    }
}

fn carry_out(job: &Job, control: &Control) -> Ending {
    outlived(|| job.world.run(&job.plan, control))?.map(Arc::new).map_err(|error| error.to_string())
}

#[pymethods]
impl Run {
    /// Reads a scenario and starts to run it. If `stop`, an event, is set before it begins, it never does. What it records
    /// goes to the directory `spill` as soon as it is much, if one is given. Without `threads` it chooses on how many it goes.
    #[staticmethod]
    #[pyo3(signature = (text, file, overrides, seed, world, stop = None, spill = None, threads = None))]
    #[expect(clippy::too_many_arguments, reason = "Python calls it with names")]
    fn start(
        py: Python<'_>,
        text: String,
        file: String,
        overrides: Vec<String>,
        seed: Option<u64>,
        world: Option<String>,
        stop: Option<&Bound<'_, PyAny>>,
        spill: Option<PathBuf>,
        threads: Option<NonZeroUsize>,
    ) -> PyResult<Self> {
        let Planned { job, cost } = planned(py, Wanted { text, file, overrides, seed, world }, stop)?;
        let rows = if spill.is_some() { Bytes::ZERO } else { cost.rows };
        refuse_to_exhaust(cost.memory + rows)?;
        let mut run = Self::new(&job, cost, spill);
        if let Some(available) = memory::available() {
            // Lists double when they grow, and are sorted and written as tables in the end.
            run.control.limit_recorded(Bytes(available / 4));
        }
        run.threads = threads.map(|wish| {
            run.control.use_threads(wish);
            let Threads { count, why } = job.world.threads(&job.plan, Some(wish));
            (count, why)
        });
        let control = Arc::clone(&run.control);
        run.begin(move || carry_out(&job, &control))
    }

    /// Starts the pilot of a run in a world of packets: what that takes is then known by its [`told`](Self::told). There is
    /// none if it would take too much memory.
    #[staticmethod]
    fn pilot(
        py: Python<'_>,
        text: String,
        file: String,
        overrides: Vec<String>,
        seed: Option<u64>,
        world: Option<String>,
        spill: PathBuf,
    ) -> PyResult<Option<Self>> {
        let Planned { job, cost } = planned(py, Wanted { text, file, overrides, seed, world }, None)?;
        let Some(pilot) = Pilot::new(job, &cost).map(Arc::new) else { return Ok(None) };
        let mut run = Self::new(&pilot.job, cost, Some(spill));
        Pilot::limit(&run.control);
        run.pilot = Some(Arc::clone(&pilot));
        let control = Arc::clone(&run.control);
        run.begin(move || carry_out(&pilot.job, &control)).map(Some)
    }

    /// What a pilot tells once it has ended, unless it was ended before.
    fn told(&self, py: Python<'_>) -> Option<Told> {
        let ended = matches!(*self.desk.found(), Some(Ok(_)));
        let pilot = self.pilot.as_ref().filter(|_| ended)?;
        // It may try a smaller part.
        py.detach(|| pilot.told(&self.control)).map(Told)
    }

    /// Packet-hops if the rest goes on as the run has done so far, and memory in bytes by its plan and the connections that it
    /// has opened: estimates.
    #[getter]
    fn expected(&self) -> (u64, u64) {
        let progress = self.control.progress();
        let share = self.work.share(&progress);
        let packet_hops =
            if share > 0.0 { (progress.packet_hops as f64 / share) as u64 } else { self.cost.packet_hops };
        let more = progress.open_ends.saturating_sub(self.cost.open_ends) * self.cost.open_end.0;
        (packet_hops, self.cost.memory.0 + more)
    }

    /// If a number of threads was asked for: on how many it runs, and why on fewer.
    #[getter]
    fn threads(&self) -> Option<(usize, Option<String>)> {
        self.threads.clone()
    }

    /// How far it is.
    fn progress<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        // Asked in this order, a run that is finished shows its last numbers.
        let finished = self.desk.found().is_some();
        let progress = self.control.progress();
        let dict = PyDict::new(py);
        dict.set_item("simulated_s", progress.now.as_secs_f64())?;
        dict.set_item("stop_at_s", self.stop_at.map(Time::as_secs_f64))?;
        dict.set_item("packet_hops", progress.packet_hops)?;
        dict.set_item("share", self.work.share(&progress))?;
        dict.set_item("open_ends", progress.open_ends)?;
        dict.set_item("messages_done", progress.messages_done)?;
        dict.set_item("messages_total", progress.messages_total)?;
        dict.set_item("finished", finished)?;
        Ok(dict)
    }

    /// Asks it to stop soon; what was finished is then its result.
    fn cancel(&self) {
        self.control.cancel();
    }

    /// Waits for its end at most this long and says whether it came. A run that leaves too little memory is ended.
    fn wait(&self, py: Python<'_>, timeout_s: f64) -> PyResult<bool> {
        if memory::available().is_some_and(|left| left < self.reserve) {
            self.control.exhaust();
        }
        let bad = |_| PyValueError::new_err(format!("timeout_s is {timeout_s}; it must be zero seconds or more"));
        let mut left = Duration::try_from_secs_f64(timeout_s).map_err(bad)?;
        loop {
            let slice = left.min(SLICE);
            if py.detach(|| self.desk.wait(slice)) {
                return Ok(true);
            }
            left -= slice;
            if left.is_zero() {
                return Ok(false);
            }
            py.check_signals()?;
        }
    }

    /// Waits for its end and returns what it found.
    fn result(&self, py: Python<'_>) -> PyResult<result::Result> {
        while !py.detach(|| self.desk.wait(SLICE)) {
            py.check_signals()?;
        }
        match &*self.desk.found() {
            Some(Ok(run)) => Ok(result::Result::new(Arc::clone(run))),
            Some(Err(message)) => Err(RunError::new_err(message.clone())),
            None => Err(RunError::new_err("the run has no ending")),
        }
    }
}

impl Drop for Run {
    /// Nobody can ask for the result any more.
    fn drop(&mut self) {
        self.control.cancel();
    }
}
