//! A kernel timer (`timerfd`). Timers of event loops have steps of a millisecond, in which a fast link delivers many responses.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pyo3::prelude::*;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// The number of forks between this process and the first of its ancestors that had timers.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// A file descriptor that becomes readable when its time is up, and stays so until it is set again or cancelled.
///
/// A forked child shares the descriptor with its parent and leaves it alone: anything it did would change the parent's timer.
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

    /// Marks this process as a forked child.
    #[staticmethod]
    fn forked() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether this process made it.
    fn is_ours(&self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
    }

    /// The descriptor, or -1 if the timer is closed.
    fn fileno(&self) -> RawFd {
        self.fd.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// Starts it: its time is up in `after_ns` nanoseconds.
    fn set(&self, after_ns: u64) -> io::Result<()> {
        // Zero would cancel it.
        self.set_to(Duration::from_nanos(after_ns.max(1)))
    }

    /// Stops it. If its time was up, it is no longer readable.
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
