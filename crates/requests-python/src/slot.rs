//! Slots: what every request goes through, so that it costs little.

use incast_protocols::Bytes;
use incast_protocols::application::{Application, Outcome};
use pyo3::exceptions::{PyRuntimeError, PyStopIteration, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyInt, PyTuple, PyType};

use crate::Core;
use crate::connection::{Connection, Known, Look, NO_WINDOW, Peer, Way};
use crate::entering::Entering;

/// What gives slots: the base of `incast_requests.Scheduler`.
#[pyclass(module = "incast_requests._core", subclass)]
#[derive(Debug)]
pub(crate) struct Slots {
    #[pyo3(get, name = "_core")]
    core: Py<Core>,
}

#[expect(clippy::doc_markdown, reason = "Python reads it")]
#[pymethods]
impl Slots {
    #[new]
    const fn new(core: Py<Core>) -> Self {
        Self { core }
    }

    /// Return a slot for one request: `async with` waits until it may be sent.
    ///
    /// Args:
    ///     expect_bytes: size of its response, about; it may be left out if `socket` is given.
    ///     socket: the socket of its connection, something that has one (`sockets.socket_of`), or a `Peer`. It then
    ///         costs no more than its receive window, which is limited once data has come.
    ///
    /// Raises:
    ///     ValueError: the size is no whole number above zero, or neither is given.
    #[pyo3(signature = (*, expect_bytes = None, socket = None))]
    fn slot(
        this: &Bound<'_, Self>,
        expect_bytes: Option<&Bound<'_, PyAny>>,
        socket: Option<Py<PyAny>>,
    ) -> PyResult<Slot> {
        let expect_bytes = match expect_bytes {
            None if socket.is_none() => {
                return Err(PyValueError::new_err(
                    "expect_bytes: the size of the response is needed where no socket is given",
                ));
            }
            None => None,
            Some(given) => Some(size(given)?),
        };
        let core = this.borrow().core.clone_ref(this.py());
        Ok(Slot::new(this.clone().into_any().unbind(), core, expect_bytes, socket))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.core)
    }
}

/// A number of bytes above zero.
fn size(given: &Bound<'_, PyAny>) -> PyResult<u64> {
    if given.is_exact_instance_of::<PyInt>()
        && let Ok(bytes @ 1..NO_WINDOW) = given.extract()
    {
        return Ok(bytes);
    }
    let py = given.py();
    let positive = py.import(intern!(py, "incast_requests.plan"))?.getattr(intern!(py, "positive"))?;
    positive.call1((intern!(py, "expect_bytes"), given, intern!(py, "bytes")))?.extract()
}

/// Leave to send one request: `async with scheduler.slot(...)`. Leave it when the response is complete.
///
/// An error or a cancellation within it means that the response is not complete. Then its part of the budget comes back
/// when the connection is closed or has run dry, if the scheduler knows its socket, and at once otherwise. To leave it
/// a second time, or before it was entered, is a `RuntimeError`.
#[pyclass(module = "incast_requests")]
#[derive(Debug)]
pub(crate) struct Slot {
    /// Of `incast_requests.Scheduler`.
    #[pyo3(get, name = "_scheduler")]
    pub(crate) scheduler: Py<PyAny>,
    pub(crate) core: Py<Core>,
    #[pyo3(get, name = "_expect")]
    expect: Option<u64>,
    /// What the program gave as its socket.
    #[pyo3(get, name = "_socket")]
    socket: Option<Py<PyAny>>,
    /// Its number, once it has been asked for.
    pub(crate) request: Option<u64>,
    connection: Option<Known>,
    /// What the connection had received before.
    #[pyo3(get, set, name = "_received_before")]
    received_before: u64,
    /// Whether its response had begun to come by then, as far as is known (`use`).
    #[pyo3(get, name = "_begun")]
    begun: bool,
    /// Bytes that `progress` was told.
    #[pyo3(get, set, name = "_told")]
    told: u64,
    #[pyo3(get, set, name = "_abandoned")]
    abandoned: bool,
    left: bool,
    /// Size of the response, if the program knows it better than the socket and `expect_bytes` have it.
    #[pyo3(get, set)]
    received_bytes: Option<u64>,
}

impl Slot {
    const fn new(scheduler: Py<PyAny>, core: Py<Core>, expect_bytes: Option<u64>, socket: Option<Py<PyAny>>) -> Self {
        Self {
            scheduler,
            core,
            expect: expect_bytes,
            socket,
            request: None,
            connection: None,
            received_before: 0,
            begun: false,
            told: 0,
            abandoned: false,
            left: false,
            received_bytes: None,
        }
    }

    fn look_at(this: &Bound<'_, Self>, core: &Bound<'_, Core>, now_ns: u64) -> PyResult<Option<Look>> {
        let known = this.borrow_mut().connection.take();
        let Some(mut known) = known else { return Ok(None) };
        let found = known.look(core, now_ns);
        this.borrow_mut().connection = Some(known);
        found
    }

    /// Lets go of its connection, which the request no longer uses: the program may keep the slot.
    pub(crate) fn forget_connection(this: &Bound<'_, Self>) {
        let known = this.borrow_mut().connection.take();
        // This may drop the socket, and so run Python code: nothing is borrowed.
        drop(known);
    }

    /// Takes that the program leaves it, which it does once.
    fn leave_once(&mut self, py: Python<'_>) -> PyResult<()> {
        if self.left {
            return Err(PyRuntimeError::new_err("the slot was left already"));
        }
        if !self.request.is_some_and(|request| self.core.borrow(py).grants.contains_key(&request)) {
            return Err(PyRuntimeError::new_err("the slot was not entered"));
        }
        self.left = true;
        Ok(())
    }

    /// Sees to the connection of a request that was let go: it is watched if the scheduler learns, and `goes_over` tells the scheduler of it,
    /// with the bytes that are expected, and says whether the timer has to be set.
    fn follow(
        this: &Bound<'_, Self>,
        goes_over: impl FnOnce(&mut Core, u64, Way, Option<u64>) -> bool,
    ) -> PyResult<()> {
        let py = this.py();
        let (core, request, way, expect_bytes) = {
            let slot = &mut *this.borrow_mut();
            let way = slot.connection.as_mut().map(|known| known.with(py, |connection| connection.way()));
            (slot.core.bind(py).clone(), slot.request, way, slot.expect)
        };
        let Some(request) = request else { return Ok(()) };
        let wants_timer = {
            let core = &mut *core.borrow_mut();
            let waits = way.is_some_and(|way| goes_over(core, request, way, expect_bytes));
            let watches = core.scheduler.watches_progress();
            if watches && way.is_some() {
                core.watch(request, this.clone().unbind());
            }
            waits || (watches && core.timer_ns.is_none())
        };
        if wants_timer {
            let scheduler = this.borrow().scheduler.clone_ref(py);
            scheduler.call_method0(py, intern!(py, "_set_timer"))?;
        }
        Ok(())
    }
}

#[pymethods]
impl Slot {
    /// Its number, as in `Decision`; -1 before it is entered.
    #[getter]
    fn request(&self) -> i64 {
        self.request.and_then(|request| request.try_into().ok()).unwrap_or(-1)
    }

    /// What a task awaits until the request may be sent: it has the slot as its result.
    fn __aenter__<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = this.py();
        let enter = this.borrow().core.bind(py).borrow().enter(py);
        match enter {
            Some(enter) => enter.call1((this,)),
            None => Bound::new(py, Entering::new(this.clone().unbind())).map(Bound::into_any),
        }
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

    /// Tell the scheduler over which connection the response comes, as soon as that is known.
    ///
    /// `connection` is whatever `sockets.socket_of` takes. If the slot has a `Peer`, that will know it before the next
    /// request. What has come of the response before counts as expected. If the request is given up, that is not told
    /// apart from what came of earlier ones, and its part of the budget may be kept until nothing has come for a second.
    #[pyo3(name = "use")]
    fn comes_over(this: &Bound<'_, Self>, connection: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = this.py();
        let Some(sock) = socket_of(connection)? else { return Ok(()) };
        let (core, peer, request) = {
            let mut slot = this.borrow_mut();
            if slot.connection.as_mut().is_some_and(|known| known.with(py, |connection| connection.is_over(&sock))) {
                return Ok(());
            }
            let peer = slot.socket.as_ref().and_then(|given| given.bind(py).cast::<Peer>().ok().cloned());
            (slot.core.bind(py).clone(), peer, slot.request.filter(|_| slot.left))
        };
        let mut known = match &peer {
            Some(peer) => Known::Peers(Peer::remembered(peer, sock)?),
            None => Known::Own(Connection::new(sock.unbind())),
        };
        if request.is_some_and(|request| !core.borrow().grants.contains_key(&request)) {
            // The request is over: what comes now, and what is lost, belongs to others.
            if let (Some(peer), Known::Peers(remembered)) = (peer, known) {
                Peer::remember(&peer, remembered);
            }
            return Ok(());
        }
        known.share(&core)?;
        let now_ns = Core::now_ns(&core)?;
        let Some((_, _, received)) = known.look(&core, now_ns)? else { return Ok(()) };
        known.forget_gaps_of_before();
        if let (Some(peer), Known::Peers(remembered)) = (peer, &known) {
            Peer::remember(&peer, remembered.clone_ref(py));
        }
        let before = {
            let mut slot = this.borrow_mut();
            // What has come of the response before is not told apart from what came of earlier ones.
            slot.received_before = received;
            slot.begun = true;
            slot.connection.replace(known)
        };
        // With its socket, if nobody else has that: nothing is borrowed.
        drop(before);
        Self::follow(this, |core, request, way, expect_bytes| {
            if core.goes_over(request, way, expect_bytes) {
                way.acknowledge_at_once();
            }
            false
        })
    }

    /// Tell the scheduler that `received_bytes` more of the response have arrived. This helps with large responses.
    ///
    /// A scheduler that learns finds losses sooner so. With a socket it also finds them out by itself, at times.
    fn progress(this: &Bound<'_, Self>, received_bytes: i64) -> PyResult<()> {
        let py = this.py();
        let core = this.borrow().core.bind(py).clone();
        let received = u64::try_from(received_bytes).unwrap_or(0);
        if received == 0 || !core.borrow().scheduler.watches_progress() {
            return Ok(());
        }
        this.borrow_mut().told += received;
        Core::progress(&core, received)?;
        let scheduler = this.borrow().scheduler.clone_ref(py);
        scheduler.call_method0(py, intern!(py, "_tell_woken")).map(drop)
    }

    /// Tell the scheduler that the slot is left before the response is complete.
    const fn abandon(&mut self) {
        self.abandoned = true;
    }

    /// Puts the request into the queue. Its number, if it has to wait.
    #[pyo3(name = "_ask")]
    pub(crate) fn ask(this: &Bound<'_, Self>) -> PyResult<Option<u64>> {
        let py = this.py();
        let (core, expect, given) = {
            let slot = this.borrow();
            if slot.request.is_some() {
                return Err(PyRuntimeError::new_err("a slot is for one request: make another"));
            }
            (slot.core.bind(py).clone(), slot.expect, slot.socket.as_ref().map(|given| given.bind(py).clone()))
        };
        let mut known = given.map_or(Ok(None), |given| connection_of(&given))?;
        let now = Core::now(&core)?;
        let (before, window) = known.as_mut().map_or(Ok((None, NO_WINDOW)), |known| {
            known.share(&core)?;
            let now_ns = core.borrow().told_ns;
            known.before_request(&core, now_ns)
        })?;
        let (request, goes) = Core::ask(&core, now, expect, window)?;
        {
            let mut slot = this.borrow_mut();
            slot.request = Some(request);
            if let Some(before) = before {
                slot.connection = known;
                slot.received_before = before;
            }
        }
        if core.borrow().woken.is_some() {
            let scheduler = this.borrow().scheduler.clone_ref(py);
            scheduler.call_method1(py, intern!(py, "_tell_asked"), (request, goes))?;
        }
        Ok((!goes).then_some(request))
    }

    /// The request was let go.
    #[pyo3(name = "_sent")]
    pub(crate) fn sent(this: &Bound<'_, Self>) -> PyResult<()> {
        Self::follow(this, Core::acknowledge_when_sent)
    }

    /// Looks at its connection (`Connection::look`), if it has one.
    #[pyo3(name = "_look")]
    fn look(this: &Bound<'_, Self>) -> PyResult<Option<Look>> {
        let core = this.borrow().core.bind(this.py()).clone();
        let now_ns = Core::now_ns(&core)?;
        Self::look_at(this, &core, now_ns)
    }

    /// Takes the segments beyond a gap that were seen on its connection and that the scheduler has not been told of.
    #[pyo3(name = "_take_gaps")]
    fn take_gaps(&mut self, py: Python<'_>) -> u64 {
        self.connection.as_mut().map_or(0, |known| known.with(py, |connection| connection.take_gaps()))
    }

    /// Bytes of its response, of all that came over its connection. What came of a complete one before that was known counts as expected.
    #[pyo3(name = "_count")]
    fn count(&mut self, py: Python<'_>, received_bytes: u64, complete: bool) -> u64 {
        let before = self.received_before;
        let begun = (self.begun && complete).then_some(self.expect.unwrap_or(0));
        let count = |connection: &mut Connection| connection.count(before, begun, received_bytes);
        self.connection.as_mut().map_or(0, |known| known.with(py, count))
    }

    /// The program has left the slot.
    #[pyo3(name = "_leave")]
    fn leave(this: &Bound<'_, Self>, complete: bool) -> PyResult<()> {
        let py = this.py();
        let scheduler = {
            let slot = &mut *this.borrow_mut();
            slot.leave_once(py)?;
            let complete = complete && !slot.abandoned;
            (!complete || slot.received_bytes.is_some()).then(|| slot.scheduler.clone_ref(py))
        };
        match scheduler {
            None => Self::finish(this, true, None),
            Some(scheduler) => scheduler.call_method1(py, intern!(py, "_leave_otherwise"), (this, complete)).map(drop),
        }
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
            core.no_longer_watch(request);
            (core.scheduler.heeds_outcomes(), core.woken.is_some())
        };
        // What is learned of a peer serves the next request. Of another connection only a scheduler that learns something wants to know more.
        let asked = received_bytes.is_none()
            && (heeds || slot.socket.as_ref().is_some_and(|given| given.bind(py).is_instance_of::<Peer>()));
        let mut received = received_bytes.or(slot.expect).unwrap_or(0);
        let already = slot.told;
        // Whom this lets go may use the slot.
        let scheduler = told.then(|| slot.scheduler.clone_ref(py));
        drop(slot);
        let now = Core::now(&core)?;
        let now_ns = core.borrow().told_ns;
        let found = if asked { Self::look_at(this, &core, now_ns)? } else { None };
        if let Some((_, _, in_all)) = found {
            received = this.borrow_mut().count(py, in_all, complete);
        }
        let gaps = this.borrow_mut().take_gaps(py);
        Self::forget_connection(this);
        let outcome = Outcome { received: Bytes(received.saturating_sub(already)), out_of_order: gaps };
        Core::finish(&core, now, request, complete, outcome)?;
        scheduler
            .map_or(Ok(()), |scheduler| scheduler.call_method1(py, intern!(py, "_tell_returned"), (request,)).map(drop))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.scheduler)?;
        visit.call(&self.core)?;
        visit.call(&self.socket)?;
        self.connection.as_ref().map_or(Ok(()), |known| known.visit(&visit))
    }

    fn __clear__(&mut self) {
        self.socket = None;
        self.connection = None;
    }
}

/// `socket.socket`.
pub(crate) fn socket_type(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static SOCKET: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    SOCKET.import(py, "socket", "socket")
}

/// The connection of what a program gave as a socket.
fn connection_of(given: &Bound<'_, PyAny>) -> PyResult<Option<Known>> {
    if let Ok(peer) = given.cast::<Peer>() {
        return Ok(peer.borrow().connection.as_ref().map(|remembered| Known::Peers(remembered.clone_ref(given.py()))));
    }
    Ok(socket_of(given)?.map(|sock| Known::Own(Connection::new(sock.unbind()))))
}

fn socket_of<'py>(given: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = given.py();
    if given.get_type().is(socket_type(py)?) {
        return Ok(Some(given.clone()));
    }
    let sock = py.import(intern!(py, "incast_requests.sockets"))?.call_method1(intern!(py, "socket_of"), (given,))?;
    Ok((!sock.is_none()).then_some(sock))
}

/// Why the scheduler serves nobody here.
pub(crate) fn unusable(slot: &Bound<'_, Slot>) -> PyResult<PyErr> {
    let py = slot.py();
    let scheduler = slot.borrow().scheduler.clone_ref(py);
    Ok(PyErr::from_value(scheduler.call_method0(py, intern!(py, "_unusable"))?.into_bound(py)))
}

/// What `throw` was given: an error, or its type, the error or nothing, and a traceback.
pub(crate) fn thrown(error: &Bound<'_, PyTuple>) -> PyResult<PyErr> {
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
