//! Slots: what every request goes through, so that it costs little.

use incast_protocols::Bytes;
use incast_protocols::application::{Application, Outcome};
use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};

use crate::Core;
use crate::connection::{Connection, NO_WINDOW, Peer};

/// Leave to send one request. `incast_requests.Slot` inherits from it, and does what only some requests need.
#[pyclass(module = "incast_requests._core", subclass)]
#[derive(Debug)]
pub(crate) struct Slot {
    /// Of `incast_requests.Scheduler`.
    #[pyo3(get, name = "_scheduler")]
    scheduler: Py<PyAny>,
    core: Py<Core>,
    #[pyo3(get, name = "_expect")]
    expect: Option<u64>,
    /// What the program gave as its socket.
    #[pyo3(get, name = "_socket")]
    socket: Option<Py<PyAny>>,
    /// Its number, once it has been asked for.
    request: Option<u64>,
    #[pyo3(get, set, name = "_connection")]
    connection: Option<Py<Connection>>,
    /// What the connection had received before.
    #[pyo3(get, set, name = "_received_before")]
    received_before: u64,
    /// Segments beyond a gap that were seen so far.
    #[pyo3(get, set, name = "_gaps")]
    gaps: u64,
    /// Bytes that `progress` was told.
    #[pyo3(get, set, name = "_told")]
    told: u64,
    #[pyo3(get, set, name = "_abandoned")]
    abandoned: bool,
    /// Size of the response, if the program knows it better than the socket and `expect_bytes` have it.
    #[pyo3(get, set)]
    received_bytes: Option<u64>,
}

#[pymethods]
impl Slot {
    #[new]
    fn new(scheduler: Py<PyAny>, core: Py<Core>, expect_bytes: Option<u64>, socket: Option<Py<PyAny>>) -> Self {
        Self {
            scheduler,
            core,
            expect: expect_bytes,
            socket,
            request: None,
            connection: None,
            received_before: 0,
            gaps: 0,
            told: 0,
            abandoned: false,
            received_bytes: None,
        }
    }

    /// Its number, or -1 before it has been asked for.
    #[getter]
    fn request(&self) -> i64 {
        self.request.and_then(|request| request.try_into().ok()).unwrap_or(-1)
    }

    /// A task enters the slot. What it awaits before it asks, if it would not hear of its cancellation otherwise.
    #[pyo3(name = "_begin")]
    fn begin<'py>(this: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = this.py();
        let core = this.borrow().core.bind(py).clone();
        if !Core::is_here(&core)? {
            return Err(unusable(this)?);
        }
        let checkpoint = core.borrow().host.as_ref().and_then(|host| Some(host.checkpoint.as_ref()?.clone_ref(py)));
        checkpoint.map(|checkpoint| checkpoint.into_bound(py).call0()).transpose()
    }

    /// Asks for it. What its task awaits, if it has to wait.
    #[pyo3(name = "_enter")]
    fn enter<'py>(this: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(request) = Self::ask(this)? else { return Ok(None) };
        let core = this.borrow().core.bind(this.py()).clone();
        let waiter = Core::new_waiter(&core, request)?;
        if waiter.is_none() { Err(unusable(this)?) } else { Ok(waiter) }
    }

    fn __aexit__(
        this: &Bound<'_, Self>,
        kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<Py<Left>> {
        static LEFT: PyOnceLock<Py<Left>> = PyOnceLock::new();
        let py = this.py();
        Self::leave(this, kind.is_none())?;
        LEFT.get_or_try_init(py, || Py::new(py, Left)).map(|left| left.clone_ref(py))
    }

    /// Puts the request into the queue. Its number, if it has to wait.
    #[pyo3(name = "_ask")]
    fn ask(this: &Bound<'_, Self>) -> PyResult<Option<u64>> {
        let py = this.py();
        let (core, expect, given) = {
            let slot = this.borrow();
            if slot.request.is_some() {
                return Err(PyRuntimeError::new_err("a slot is for one request: make another"));
            }
            (slot.core.bind(py).clone(), slot.expect, slot.socket.as_ref().map(|given| given.bind(py).clone()))
        };
        let connection = given.map_or(Ok(None), |given| connection_of(&given))?;
        let (before, window) =
            connection.as_ref().map_or(Ok((None, NO_WINDOW)), |found| found.borrow_mut().before_request(&core))?;
        let (request, goes) = Core::ask(&core, expect, window)?;
        {
            let mut slot = this.borrow_mut();
            slot.request = Some(request);
            if let Some(before) = before {
                slot.connection = connection.map(Bound::unbind);
                slot.received_before = before;
            }
        }
        if core.borrow().woken.is_some() {
            let scheduler = this.borrow().scheduler.clone_ref(py);
            scheduler.call_method1(py, intern!(py, "_tell_asked"), (request, goes))?;
        }
        Ok((!goes).then_some(request))
    }

    /// The request was let go, or its connection is known: it is watched if the scheduler learns.
    #[pyo3(name = "_sent")]
    fn sent(this: &Bound<'_, Self>) -> PyResult<()> {
        let py = this.py();
        let scheduler = {
            let slot = this.borrow();
            let mut core = slot.core.bind(py).borrow_mut();
            if !core.scheduler.watches_progress() {
                return Ok(());
            }
            if let (Some(_), Some(request)) = (&slot.connection, slot.request) {
                core.seen.insert(request, this.clone().unbind());
            }
            if core.timed {
                return Ok(());
            }
            slot.scheduler.clone_ref(py)
        };
        scheduler.call_method0(py, intern!(py, "_set_timer")).map(drop)
    }

    /// The program has left the slot.
    #[pyo3(name = "_leave")]
    fn leave(this: &Bound<'_, Self>, complete: bool) -> PyResult<()> {
        let as_expected = {
            let slot = this.borrow();
            complete && !slot.abandoned && slot.received_bytes.is_none()
        };
        if as_expected {
            return Self::finish(this, true, None);
        }
        this.call_method1(intern!(this.py(), "_leave_otherwise"), (complete,)).map(drop)
    }

    /// The request is over. Without `received_bytes` as much came as its connection says, or as was expected.
    #[pyo3(name = "_finish", signature = (complete, received_bytes = None))]
    fn finish(this: &Bound<'_, Self>, complete: bool, received_bytes: Option<u64>) -> PyResult<()> {
        let py = this.py();
        let slot = this.borrow();
        let Some(request) = slot.request else { return Ok(()) };
        let core = slot.core.bind(py).clone();
        let (heeds, told) = {
            let mut core = core.borrow_mut();
            core.seen.remove(&request);
            let counts = &mut core.counts;
            *(if complete { &mut counts.completed } else { &mut counts.failed }) += 1;
            if core.closed {
                return Ok(());
            }
            (core.scheduler.heeds_outcomes(), core.woken.is_some())
        };
        // What is learned of a peer serves the next request. Of another connection only a scheduler that learns wants to know more.
        let asked = received_bytes.is_none()
            && (heeds || slot.socket.as_ref().is_some_and(|given| given.bind(py).is_instance_of::<Peer>()));
        let (mut received, mut gaps) = (received_bytes.or(slot.expect).unwrap_or(0), slot.gaps);
        if let (true, Some(connection)) = (asked, &slot.connection) {
            let mut connection = connection.bind(py).borrow_mut();
            if let Some((_, _, in_all, new)) = connection.look(&core)? {
                received = connection.count(slot.received_before, in_all);
                gaps += new;
            }
        }
        let outcome = Outcome { received: Bytes(received.saturating_sub(slot.told)), out_of_order: gaps };
        // Whom this lets go may use the slot.
        let scheduler = told.then(|| slot.scheduler.clone_ref(py));
        drop(slot);
        Core::finish(&core, request, outcome)?;
        scheduler
            .map_or(Ok(()), |scheduler| scheduler.call_method1(py, intern!(py, "_tell_returned"), (request,)).map(drop))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.scheduler)?;
        visit.call(&self.core)?;
        visit.call(&self.socket)?;
        visit.call(&self.connection)
    }

    fn __clear__(&mut self) {
        self.socket = None;
        self.connection = None;
    }
}

/// The connection of what a program gave as a socket.
fn connection_of<'py>(given: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, Connection>>> {
    static SOCKET: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = given.py();
    if let Ok(peer) = given.cast::<Peer>() {
        return Ok(peer.borrow().connection.as_ref().map(|connection| connection.bind(py).clone()));
    }
    let sock = if given.get_type().is(SOCKET.import(py, "socket", "socket")?) {
        given.clone()
    } else {
        py.import(intern!(py, "incast_requests.sockets"))?.call_method1(intern!(py, "socket_of"), (given,))?
    };
    if sock.is_none() { Ok(None) } else { Bound::new(py, Connection::new(sock.unbind())).map(Some) }
}

/// Why the scheduler serves nobody here.
fn unusable(slot: &Bound<'_, Slot>) -> PyResult<PyErr> {
    let py = slot.py();
    let scheduler = slot.borrow().scheduler.clone_ref(py);
    Ok(PyErr::from_value(scheduler.call_method0(py, intern!(py, "_unusable"))?.into_bound(py)))
}

/// What `throw` was given: an error, or its type, the error or nothing, and a traceback.
fn thrown(error: &Bound<'_, PyTuple>) -> PyResult<PyErr> {
    let value = error.get_item(1).ok().filter(|value| !value.is_none());
    Ok(PyErr::from_value(value.map_or_else(|| error.get_item(0), Ok)?))
}

/// What `async with` awaits when a slot was left: nothing. It has all that a coroutine has.
#[pyclass(module = "incast_requests._core", frozen)]
#[derive(Debug)]
struct Left;

#[pymethods]
impl Left {
    const fn __await__(this: Py<Self>) -> Py<Self> {
        this
    }

    const fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[expect(clippy::unused_self, reason = "Python asks an object")]
    const fn __next__(&self) -> Option<()> {
        None
    }

    #[expect(clippy::unused_self, reason = "Python asks an object")]
    fn send(&self, _value: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(PyStopIteration::new_err(()))
    }

    #[expect(clippy::unused_self, reason = "Python asks an object")]
    #[pyo3(signature = (*error))]
    fn throw(&self, error: &Bound<'_, PyTuple>) -> PyResult<()> {
        Err(thrown(error)?)
    }

    #[expect(clippy::unused_self, reason = "Python asks an object")]
    const fn close(&self) {}
}
