//! Connections: what the kernel says of them, and their receive windows.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use incast_protocols::application::{Application, UNKNOWN_WINDOW};
#[cfg(target_os = "linux")]
use incast_requests::socket::{Info, acknowledge_at_once, info, limit_window};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyWeakrefMethods, PyWeakrefReference};

use crate::Core;
use crate::slot::socket_type;

/// A connection with no known window lets through all that was asked for.
pub(crate) const NO_WINDOW: u64 = UNKNOWN_WINDOW.0;

/// The fields of `incast_requests.sockets.Info`.
#[cfg(target_os = "linux")]
type Fields = (u8, u32, u32, u64, u32, Option<u64>, u32, u64);

/// Whether the other end may still send, milliseconds since data came, and bytes received.
pub(crate) type Look = (bool, u32, u64);

/// How long a look at a bare socket holds for the next request. Nothing arrives between two requests unless the program uses the socket for
/// something else. A look at a `Peer`'s connection always holds.
const HOLDS_NS: u64 = 10_000_000;

/// A socket of Python, and what is known of its connection.
#[derive(Debug)]
pub(crate) struct Connection {
    sock: Py<PyAny>,
    /// Its number when that was asked for last.
    fd: i32,
    known: Arc<Mutex<State>>,
}

/// What was known of a connection when it was last looked at.
#[derive(Debug)]
struct State {
    /// Of what was received, what counts for requests that have ended: streams of HTTP/2 share a connection.
    counted: u64,
    /// What the kernel said last; nothing if it has not been asked.
    received: Option<u64>,
    out_of_order: u32,
    /// Segments beyond a gap that the scheduler has not been told of.
    untold: u64,
    sent: u32,
    /// How much can be under way on it.
    lets_through: u64,
    limit: Limit,
    /// When it was asked last; nothing if the connection was closed then.
    at_ns: Option<u64>,
}

/// What was done about the window of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    /// Nothing that would be known to hold.
    Unknown,
    Lifted,
    /// It announces no more, or was made to.
    Set {
        window: u64,
        /// What it had received then: what it announces follows when more comes.
        received: u64,
    },
}

impl State {
    const NEW: Self = Self {
        counted: 0,
        received: None,
        out_of_order: 0,
        untold: 0,
        sent: 0,
        lets_through: NO_WINDOW,
        limit: Limit::Unknown,
        at_ns: None,
    };
}

impl Connection {
    pub(crate) fn new(sock: Py<PyAny>) -> Self {
        Self { sock, fd: -1, known: Arc::new(Mutex::new(State::NEW)) }
    }

    /// No Python code may run while the guard is held.
    fn known(&self) -> MutexGuard<'_, State> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the connection, and limits its window as the scheduler wants it. Returns nothing if it is closed.
    #[cfg(target_os = "linux")]
    fn look(&mut self, fd: i32, core: &Bound<'_, Core>, now_ns: u64) -> PyResult<Option<Look>> {
        let py = core.py();
        self.fd = fd;
        let core = &mut core.borrow_mut();
        let Some(found) = Self::info(fd, core, py)? else { return Ok(None) };
        let known = &mut *self.known();
        if known.received.is_some() {
            known.untold += found.out_of_order_since(known.out_of_order);
        }
        (known.received, known.out_of_order, known.sent) = (Some(found.received), found.out_of_order, found.sent);
        known.lets_through = known.limit(fd, &found, core);
        known.at_ns = found.open().then_some(now_ns);
        Ok(Some((found.open(), found.last_data_ms, found.received)))
    }

    #[cfg(not(target_os = "linux"))]
    fn look(&mut self, fd: i32, _core: &Bound<'_, Core>, _now_ns: u64) -> PyResult<Option<Look>> {
        self.fd = fd;
        Ok(None)
    }

    /// Takes the segments beyond a gap that the scheduler has not been told of, to tell it.
    pub(crate) fn take_gaps(&self) -> u64 {
        std::mem::take(&mut self.known().untold)
    }

    /// Bytes of a response, of all that its connection has received, without those that have been counted. It is what came after the
    /// first `before_bytes`. Of a response that had begun by then (`begun_bytes`: what is expected of it) that is the least.
    pub(crate) fn count(&self, before_bytes: u64, begun_bytes: Option<u64>, received_bytes: u64) -> u64 {
        let counted = std::mem::replace(&mut self.known().counted, received_bytes);
        let least = received_bytes.saturating_sub(counted.max(before_bytes));
        begun_bytes.map_or(least, |expected| expected.clamp(least, received_bytes.saturating_sub(counted)))
    }
}

/// What is known of the connections of bare sockets, by the address of the socket. Requests of a scheduler over one socket share it, so that
/// they count no byte and no loss twice.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    of: BTreeMap<usize, OfSocket>,
    /// At this size, entries whose socket is gone are removed.
    most: usize,
}

/// What is known of the connection of a socket, with a weak reference to the socket if it allows one.
#[derive(Debug)]
struct OfSocket {
    socket: Option<Py<PyWeakrefReference>>,
    known: Arc<Mutex<State>>,
}

impl OfSocket {
    /// Whether the socket still exists. Without a weak reference, it is sure to only as long as a request holds it.
    fn is_there(&self, py: Python<'_>) -> bool {
        match &self.socket {
            Some(socket) => socket.bind(py).upgrade().is_some(),
            None => Arc::strong_count(&self.known) > 1,
        }
    }
}

impl Sockets {
    /// What is known of the connection of the socket with this key. The caller keeps the socket alive as long as it holds this.
    fn over(&mut self, (address, socket): Key, py: Python<'_>) -> Arc<Mutex<State>> {
        if self.of.len() >= self.most {
            self.of.retain(|_, entry| entry.is_there(py));
            self.most = 2 * self.of.len() + 64;
        }
        if let Some(entry) = self.of.get(&address).filter(|entry| entry.is_there(py)) {
            return Arc::clone(&entry.known);
        }
        let known = Arc::new(Mutex::new(State::NEW));
        self.of.insert(address, OfSocket { socket, known: Arc::clone(&known) });
        known
    }
}

/// How `Sockets` finds a socket: its address, and a weak reference if it allows one.
type Key = (usize, Option<Py<PyWeakrefReference>>);

/// Making a weak reference may run the garbage collector, and so Python code: nothing may be borrowed meanwhile.
fn key_of(sock: &Bound<'_, PyAny>) -> PyResult<Key> {
    let Some(inner) = inner_socket(sock)? else { return Ok((sock.as_ptr() as usize, None)) };
    Ok((inner.as_ptr() as usize, Some(PyWeakrefReference::new(&inner)?.unbind())))
}

/// The `socket.socket` that this is or wraps, as sockets of asyncio's streams and of trio do. It allows weak references.
fn inner_socket<'py>(sock: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let kind = socket_type(sock.py())?;
    if sock.get_type().is(kind) || sock.is_instance(kind)? {
        return Ok(Some(sock.clone()));
    }
    let Ok(inner) = sock.getattr(intern!(sock.py(), "_sock")) else { return Ok(None) };
    Ok(inner.is_instance(kind)?.then_some(inner))
}

/// A connection that a peer remembers.
#[pyclass(module = "incast_requests._core", name = "Connection")]
#[derive(Debug)]
pub(crate) struct Remembered(pub(crate) Connection);

#[pymethods]
impl Remembered {
    #[new]
    fn new(sock: Py<PyAny>) -> Self {
        Self(Connection::new(sock))
    }

    #[getter]
    fn sock(&self, py: Python<'_>) -> Py<PyAny> {
        self.0.sock.clone_ref(py)
    }
}

/// A slot's connection. Only a peer's is a Python object; any other gives the garbage collector nothing to look at.
#[derive(Debug)]
pub(crate) enum Known {
    Own(Connection),
    Peers(Py<Remembered>),
}

impl Known {
    pub(crate) fn with<T>(&mut self, py: Python<'_>, act: impl FnOnce(&mut Connection) -> T) -> T {
        match self {
            Self::Own(connection) => act(connection),
            Self::Peers(remembered) => act(&mut remembered.borrow_mut(py).0),
        }
    }

    /// Shares what is known of its connection with all requests over its socket, if the scheduler goes by what comes. Requests of a peer share
    /// a connection anyway.
    pub(crate) fn share(&mut self, core: &Bound<'_, Core>) -> PyResult<()> {
        if let Self::Own(connection) = self
            && core.borrow().scheduler.heeds_outcomes()
        {
            let py = core.py();
            let key = key_of(connection.sock.bind(py))?;
            connection.known = core.borrow_mut().sockets.over(key, py);
        }
        Ok(())
    }

    /// Drops losses from before this request, unless the connection is a peer's or other requests use the socket. If none does, there are two
    /// references: this one, and that of `Sockets`.
    pub(crate) fn forget_gaps_of_before(&self) {
        if let Self::Own(connection) = self
            && Arc::strong_count(&connection.known) <= 2
        {
            connection.take_gaps();
        }
    }

    /// `Connection::look`, at this time.
    pub(crate) fn look(&mut self, core: &Bound<'_, Core>, now_ns: u64) -> PyResult<Option<Look>> {
        let fd = self.fd(core.py())?;
        self.with(core.py(), |connection| connection.look(fd, core, now_ns))
    }

    /// What it has received, and how much can be under way on it.
    pub(crate) fn before_request(&mut self, core: &Bound<'_, Core>, now_ns: u64) -> PyResult<(Option<u64>, u64)> {
        let fd = self.fd(core.py())?;
        let holds_ns = if matches!(self, Self::Own(_)) { HOLDS_NS } else { u64::MAX };
        if fd >= 0
            && let Some(held) = self.with(core.py(), |connection| connection.holds(fd, now_ns, holds_ns))
        {
            return Ok(held);
        }
        let Some((true, ..)) = self.with(core.py(), |connection| connection.look(fd, core, now_ns))? else {
            return Ok((None, NO_WINDOW));
        };
        self.forget_gaps_of_before();
        Ok(self.with(core.py(), |connection| {
            let known = connection.known();
            (known.received, known.lets_through)
        }))
    }

    /// The number of its socket. Nothing is borrowed while Python is asked for it: another thread may go on with the peer meanwhile.
    fn fd(&mut self, py: Python<'_>) -> PyResult<i32> {
        let sock = self.with(py, |connection| connection.sock.clone_ref(py));
        sock.call_method0(py, intern!(py, "fileno"))?.extract(py)
    }

    pub(crate) fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Self::Own(connection) => visit.call(&connection.sock),
            Self::Peers(remembered) => visit.call(remembered),
        }
    }
}

/// A server to which there is one connection at a time.
#[pyclass(module = "incast_requests._core", subclass)]
#[derive(Debug, Default)]
pub(crate) struct Peer {
    #[pyo3(get, set)]
    pub(crate) connection: Option<Py<Remembered>>,
}

#[pymethods]
impl Peer {
    /// The class in Python finds the connection: its arguments come here first.
    #[new]
    #[pyo3(signature = (connection = None))]
    fn new(connection: Option<&Bound<'_, PyAny>>) -> Self {
        let _ = connection;
        Self::default()
    }
}

impl Peer {
    /// What is remembered of the connection over this socket.
    pub(crate) fn remembered(this: &Bound<'_, Self>, sock: Bound<'_, PyAny>) -> PyResult<Py<Remembered>> {
        let py = this.py();
        let remembered = this.borrow().connection.as_ref().map(|remembered| remembered.clone_ref(py));
        remembered
            .filter(|remembered| remembered.borrow(py).0.is_over(&sock))
            .map_or_else(|| Py::new(py, Remembered::new(sock.unbind())), Ok)
    }

    /// Its responses come over this connection now.
    pub(crate) fn remember(this: &Bound<'_, Self>, remembered: Py<Remembered>) {
        let before = this.borrow_mut().connection.replace(remembered);
        // Python may run when that before is the last of its socket. Nothing is borrowed then.
        drop(before);
    }
}

impl Connection {
    /// What the kernel says of it, or a test in place of the kernel.
    #[cfg(target_os = "linux")]
    fn info(fd: i32, core: &Core, py: Python<'_>) -> PyResult<Option<Info>> {
        let Some(kernel) = &core.kernel else { return Ok(info(fd).ok()) };
        let found: Option<Fields> = kernel.call1(py, (fd,))?.extract(py)?;
        Ok(found.map(|(state, last_data_ms, advertised_mss, received, out_of_order, window, sent, window_unit)| Info {
            state,
            last_data_ms,
            advertised_mss,
            received,
            out_of_order,
            window,
            sent,
            window_unit,
        }))
    }

    /// Whether it is that of this socket.
    pub(crate) fn is_over(&self, sock: &Bound<'_, PyAny>) -> bool {
        self.sock.is(sock)
    }

    /// What a request goes over.
    pub(crate) fn way(&self) -> Way {
        let known = self.known();
        let window = match known.limit {
            // A kernel before Linux 6.2 does not say what it announces.
            Limit::Set { window, .. } => {
                Some(if known.lets_through == NO_WINDOW { window } else { known.lets_through })
            }
            Limit::Unknown | Limit::Lifted => None,
        };
        Way { fd: self.fd, window, sent: known.sent }
    }

    /// What it has received, and how much can be under way on it, if it was open when last looked at, at most `holds_ns` ago.
    fn holds(&mut self, fd: i32, now_ns: u64, holds_ns: u64) -> Option<(Option<u64>, u64)> {
        self.fd = fd;
        let known = self.known();
        let is_new = known.at_ns.is_some_and(|at_ns| now_ns.saturating_sub(at_ns) <= holds_ns);
        is_new.then_some((known.received, known.lets_through))
    }
}

impl State {
    /// Limits the window of a connection on which data has come, and returns how much it lets through as yet.
    #[cfg(target_os = "linux")]
    fn limit(&mut self, fd: i32, found: &Info, core: &mut Core) -> u64 {
        let announced = found.window.unwrap_or(NO_WINDOW);
        let Some(wanted) = core.window_bytes() else {
            if core.windows_limited > 0 && self.limit != Limit::Lifted {
                self.limit = limit_window(fd, None).map_or(Limit::Unknown, |_| Limit::Lifted);
            }
            return announced;
        };
        if self.limit == Limit::Lifted {
            self.limit = Limit::Unknown;
        }
        let wanted = found.limit(wanted, core.fits_segments);
        let limit = Limit::Set { window: wanted, received: found.received };
        let is_less = matches!(self.limit, Limit::Set { window, .. } if window < wanted);
        // What is not acknowledged yet makes it look smaller. It may also have been limited to less.
        let holds = if announced > wanted { self.limit == limit } else { !is_less };
        if found.received > 0 && !holds {
            core.windows_limited += u64::from(limit_window(fd, Some(wanted)).unwrap_or(false));
        }
        if found.received > 0 || announced <= wanted {
            self.limit = limit;
        }
        announced.max(wanted)
    }
}

/// A connection over which a request goes. If its window is limited and may be filled, what comes is acknowledged at once
/// (`acknowledge_at_once`), from when the request was sent: to send has the kernel delay ACKs anew.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) fd: i32,
    /// What can be under way on it, if that is limited.
    pub(crate) window: Option<u64>,
    /// Segments that were sent before.
    sent: u32,
}

#[cfg(target_os = "linux")]
impl Way {
    /// Its request was sent.
    pub(crate) fn acknowledge_at_once(self) {
        // The program may have closed it.
        let _ = acknowledge_at_once(self.fd);
    }

    /// Whether nothing is left to wait for: its request has been sent, or it is closed.
    pub(crate) fn acknowledge_if_sent(self, core: &Core, py: Python<'_>) -> PyResult<bool> {
        let is_unsent = Connection::info(self.fd, core, py)?.is_some_and(|found| found.sent == self.sent);
        if !is_unsent {
            self.acknowledge_at_once();
        }
        Ok(!is_unsent)
    }
}

#[cfg(not(target_os = "linux"))]
impl Way {
    pub(crate) const fn acknowledge_at_once(self) {}

    pub(crate) const fn acknowledge_if_sent(self, _core: &Core, _py: Python<'_>) -> PyResult<bool> {
        Ok(true)
    }
}

/// What the kernel says of the connection whose socket has this number.
#[cfg(target_os = "linux")]
#[pyfunction]
#[pyo3(name = "info")]
pub(crate) fn info_in_python(fd: i32) -> Option<Fields> {
    let found = info(fd).ok()?;
    Some((
        found.state,
        found.last_data_ms,
        found.advertised_mss,
        found.received,
        found.out_of_order,
        found.window,
        found.sent,
        found.window_unit,
    ))
}

/// Limits what the connection announces; whether the kernel did it.
#[cfg(target_os = "linux")]
#[pyfunction]
#[pyo3(name = "limit_window")]
pub(crate) fn limit_window_in_python(fd: i32, window_bytes: Option<u64>) -> bool {
    limit_window(fd, window_bytes).is_ok()
}
