//! Work in a thread of its own, while Python hears signals.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long to wait before Python may see signals, Ctrl-C above all. It is looked for 50 times a second, which costs
/// nothing that could be measured; what takes longer at the end of a large plan is giving its memory back.
pub(crate) const SLICE: Duration = Duration::from_millis(20);

/// Where a thread leaves what it found and others wait for it.
#[derive(Debug)]
pub(crate) struct Desk<T> {
    found: Mutex<Option<T>>,
    left: Condvar,
}

impl<T> Default for Desk<T> {
    fn default() -> Self {
        Self { found: Mutex::new(None), left: Condvar::new() }
    }
}

impl<T> Desk<T> {
    pub(crate) fn found(&self) -> MutexGuard<'_, Option<T>> {
        // The lock is held for single assignments only, which cannot leave anything half done.
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn leave(&self, found: T) {
        *self.found() = Some(found);
        self.left.notify_all();
    }

    /// Whether something is there, waiting for it at most this long.
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        let waited = self.left.wait_timeout_while(self.found(), timeout, |found| found.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.is_some()
    }
}

/// Does some work whose defects Python should outlive and be told of: an error is a sentence.
pub(crate) fn outlived<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
        format!("a defect of the simulator; please report it: {text}")
    })
}
