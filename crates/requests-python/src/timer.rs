//! A timer of the kernel. Those of event loops have steps of a millisecond, in which a fast link brings many responses.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use pyo3::prelude::*;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// A descriptor that can be read from when a time has passed, until it is set again or cancelled.
#[pyclass(module = "incast_requests._core")]
#[derive(Debug)]
pub(crate) struct Timer(Option<OwnedFd>);

#[pymethods]
impl Timer {
    #[new]
    fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        Ok(Self(Some(timerfd_create(TimerfdClockId::Monotonic, flags)?)))
    }

    /// Its number; -1 if it is closed.
    fn fileno(&self) -> RawFd {
        self.0.as_ref().map_or(-1, AsRawFd::as_raw_fd)
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
        self.0 = None;
    }
}

impl Timer {
    fn set_to(&self, after: Duration) -> io::Result<()> {
        let Some(timer) = &self.0 else { return Ok(()) };
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let after = Timespec::try_from(after).map_err(|_| io::ErrorKind::InvalidInput)?;
        timerfd_settime(timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval: never, it_value: after })?;
        Ok(())
    }
}
