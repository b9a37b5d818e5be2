//! How a task of asyncio enters a slot. Many may wait, and the garbage collector looks at all that they wait with again and again. So that
//! is one object, which does what a coroutine, a future and its iterator would.

use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::slot::{Slot, thrown, unusable};
use crate::{Core, InvalidStateError};

pyo3::import_exception!(asyncio, CancelledError);

/// What `async with` awaits to enter a slot. It has all that a coroutine has. While it waits, it is also the future for which its task
/// waits, with as much of one as tasks use.
#[pyclass(module = "incast_requests._core")]
#[derive(Debug)]
pub(crate) struct Entering {
    slot: Py<Slot>,
    stage: Stage,
    /// Whether it was awaited and its task has not seen it yet.
    blocking: bool,
    /// Goes on with the task.
    callback: Option<Callback>,
}

/// How far it has come.
#[derive(Debug)]
enum Stage {
    New,
    Waits,
    /// The request may be sent. Its task does not know yet.
    Granted,
    /// Its task is being cancelled, with this message.
    Cancelled(Option<Py<PyAny>>),
    /// It never may be sent, for this reason.
    Failed(Py<PyAny>),
    Over,
}

/// A function that an event loop calls in this context.
#[derive(Debug)]
pub(crate) struct Callback {
    pub(crate) function: Py<PyAny>,
    pub(crate) context: Py<PyAny>,
}

impl Callback {
    pub(crate) fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.function)?;
        visit.call(&self.context)
    }
}

impl Entering {
    pub(crate) const fn new(slot: Py<Slot>) -> Self {
        Self { slot, stage: Stage::New, blocking: false, callback: None }
    }

    /// Lets it go. Whether it still waited.
    pub(crate) fn grant(this: &Bound<'_, Self>) -> PyResult<bool> {
        Self::end(this, Stage::Granted)
    }

    /// Ends the waiting. Whether it still waited.
    fn end(this: &Bound<'_, Self>, stage: Stage) -> PyResult<bool> {
        let callback = {
            let mut entering = this.borrow_mut();
            if !matches!(entering.stage, Stage::Waits) {
                return Ok(false);
            }
            entering.stage = stage;
            entering.callback.take()
        };
        callback.map_or(Ok(()), |callback| Core::resume(&Self::core(this), callback, this.clone()))?;
        Ok(true)
    }

    /// Passes to another stage, and returns that before.
    fn pass(this: &Bound<'_, Self>, stage: Stage) -> Stage {
        std::mem::replace(&mut this.borrow_mut().stage, stage)
    }

    fn slot<'py>(this: &Bound<'py, Self>) -> Bound<'py, Slot> {
        this.borrow().slot.bind(this.py()).clone()
    }

    fn core<'py>(this: &Bound<'py, Self>) -> Bound<'py, Core> {
        Self::slot(this).borrow().core.bind(this.py()).clone()
    }

    /// Asks for the slot. Whether its task has to wait.
    fn ask(this: &Bound<'_, Self>, slot: &Bound<'_, Slot>) -> PyResult<bool> {
        let core = Self::core(this);
        if !Core::is_here(&core)? {
            return Err(unusable(slot)?);
        }
        let Some(request) = Slot::ask(slot)? else { return Ok(false) };
        core.borrow_mut().wait(request, this.clone().into_any().unbind());
        let mut entering = this.borrow_mut();
        entering.stage = Stage::Waits;
        entering.blocking = true;
        Ok(true)
    }

    /// The task does not wait any more for the request, which may have been let go in this very turn.
    fn withdraw(slot: &Bound<'_, Slot>) -> PyResult<()> {
        let py = slot.py();
        let (scheduler, request) = {
            let slot = slot.borrow();
            (slot.scheduler.clone_ref(py), slot.request)
        };
        Slot::forget_connection(slot);
        scheduler.call_method1(py, intern!(py, "_no_longer_waits"), (request,)).map(drop)
    }
}

#[pymethods]
impl Entering {
    const fn __await__(this: Py<Self>) -> Py<Self> {
        this
    }

    const fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    /// Begins, and goes on when the request was let go. It stops with the slot.
    fn __next__<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let slot = Self::slot(this);
        let before = Self::pass(this, Stage::Over);
        match before {
            Stage::New => {
                if Self::ask(this, &slot)? {
                    return Ok(this.clone());
                }
            }
            Stage::Granted => {}
            Stage::Over => return Err(PyRuntimeError::new_err("a slot is entered once: this was already awaited")),
            Stage::Waits | Stage::Cancelled(_) | Stage::Failed(_) => {
                Self::withdraw(&slot)?;
                return Err(PyRuntimeError::new_err("a slot was awaited by something else than a task of asyncio"));
            }
        }
        Slot::sent(&slot)?;
        Err(PyStopIteration::new_err(slot.unbind()))
    }

    fn send<'py>(this: &Bound<'py, Self>, _value: &Bound<'_, PyAny>) -> PyResult<Bound<'py, Self>> {
        Self::__next__(this)
    }

    #[pyo3(signature = (*error))]
    fn throw(this: &Bound<'_, Self>, error: &Bound<'_, PyTuple>) -> PyResult<()> {
        Self::close(this)?;
        Err(thrown(error)?)
    }

    /// Its task does not go on.
    fn close(this: &Bound<'_, Self>) -> PyResult<()> {
        let before = Self::pass(this, Stage::Over);
        if matches!(before, Stage::New | Stage::Over) { Ok(()) } else { Self::withdraw(&Self::slot(this)) }
    }

    /// `None` before it waits and after, as `asyncio.ensure_future` would take it for a future that is under way.
    #[getter(_asyncio_future_blocking)]
    const fn blocking(&self) -> Option<bool> {
        if matches!(self.stage, Stage::New | Stage::Over) { None } else { Some(self.blocking) }
    }

    #[setter(_asyncio_future_blocking)]
    const fn set_blocking(&mut self, blocking: bool) {
        self.blocking = blocking;
    }

    fn get_loop<'py>(this: &Bound<'py, Self>) -> Option<Bound<'py, PyAny>> {
        Self::core(this).borrow().event_loop(this.py())
    }

    #[pyo3(signature = (function, *, context))]
    fn add_done_callback(this: &Bound<'_, Self>, function: Py<PyAny>, context: Py<PyAny>) -> PyResult<()> {
        let callback = Callback { function, context };
        if this.borrow().done() {
            return Core::resume(&Self::core(this), callback, this.clone());
        }
        let held = &mut this.borrow_mut().callback;
        if held.is_some() {
            return Err(PyRuntimeError::new_err("one task enters a slot"));
        }
        *held = Some(callback);
        Ok(())
    }

    const fn done(&self) -> bool {
        !matches!(self.stage, Stage::New | Stage::Waits)
    }

    /// Ends the waiting, and cancels the task. Whether it still waited.
    #[pyo3(signature = (msg = None))]
    fn cancel(this: &Bound<'_, Self>, msg: Option<Py<PyAny>>) -> PyResult<bool> {
        Self::end(this, Stage::Cancelled(msg))
    }

    /// The request never may be sent.
    fn set_exception(this: &Bound<'_, Self>, error: Py<PyAny>) -> PyResult<()> {
        let waited = Self::end(this, Stage::Failed(error))?;
        if waited { Ok(()) } else { Err(InvalidStateError::new_err("it does not wait")) }
    }

    /// Raises what its task is to hear of.
    fn result(&self, py: Python<'_>) -> PyResult<()> {
        match &self.stage {
            Stage::Granted | Stage::Over => Ok(()),
            Stage::Cancelled(None) => Err(CancelledError::new_err(())),
            Stage::Cancelled(Some(message)) => Err(CancelledError::new_err((message.clone_ref(py),))),
            Stage::Failed(error) => Err(PyErr::from_value(error.bind(py).clone())),
            Stage::New | Stage::Waits => Err(InvalidStateError::new_err("it waits")),
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.slot)?;
        if let Stage::Cancelled(Some(held)) | Stage::Failed(held) = &self.stage {
            visit.call(held)?;
        }
        self.callback.as_ref().map_or(Ok(()), |callback| callback.visit(&visit))
    }

    fn __clear__(&mut self) {
        self.callback = None;
    }
}
