//! A timer of the kernel. Those of event loops have steps of a millisecond, in which a fast link brings many responses.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pyo3::prelude::*;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// How many forks lie between this process and the first of its ancestors that had timers.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// A descriptor that can be read from when a time has passed, until it is set again or cancelled.
///
/// A process that was forked shares it with its parent, and leaves it alone: whatever is done to it would be done to the parent's.
#[pyclass(module = "incast_requests._core")]
#[derive(Debug)]
pub(crate) struct Timer {
    fd: Option<OwnedFd>,
    forks: u64,
}

#[pymethods]
impl Timer {
    #[new]
    fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = Some(timerfd_create(TimerfdClockId::Monotonic, flags)?);
        Ok(Self { fd, forks: FORKS.load(Ordering::Relaxed) })
    }

    /// This process is the child of that before.
    #[staticmethod]
    fn forked() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether this process made it.
    fn is_ours(&self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
    }

    /// Its number; -1 if it is closed.
    fn fileno(&self) -> RawFd {
        self.fd.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// Its time comes after so many nanoseconds.
    fn set(&self, after_ns: u64) -> io::Result<()> {
        // None at all would cancel it.
        self.set_to(Duration::from_nanos(after_ns.max(1)))
    }

    /// Its time does not come, and has not come.
    fn cancel(&self) -> io::Result<()> {
        self.set_to(Duration::ZERO)
    }

    fn close(&mut self) {
        self.fd = None;
    }
}

impl Timer {
    fn set_to(&self, after: Duration) -> io::Result<()> {
        let Some(timer) = self.fd.as_ref().filter(|_| self.is_ours()) else { return Ok(()) };
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let after = Timespec::try_from(after).map_err(|_| io::ErrorKind::InvalidInput)?;
        timerfd_settime(timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval: never, it_value: after })?;
        Ok(())
    }
}
