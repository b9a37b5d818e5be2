//! Requests that hang: they wait for a message, or their server is gone. Nothing of theirs is in the port, for as long as they last.
//!
//! What is under way at a stall may hang. It does if nothing has come of it for long: if it is silent again, with nothing else under way,
//! and no data came while it was so.

use super::super::{Grant, Outstanding};
use crate::units::{Duration, Time};

/// What of the requests under way may hang, and what does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Hanging {
    /// What was under way at a stall, and did not hang by then.
    silent: Outstanding,
    /// When that was.
    since: Option<Time>,
    hung: Outstanding,
    /// All that hangs was let go before.
    before: Time,
}

impl Hanging {
    /// What does not hang of what is outstanding.
    pub(super) fn moving(&self, outstanding: Outstanding) -> Outstanding {
        Outstanding {
            requests: outstanding.requests.saturating_sub(self.hung.requests),
            bytes: outstanding.bytes.saturating_sub(self.hung.bytes),
        }
    }

    /// Whether all that is outstanding hangs, or was under way at the stall.
    pub(super) const fn is_still(&self, outstanding: Outstanding) -> bool {
        outstanding.requests <= self.hung.requests + self.silent.requests
    }

    /// Nothing comes of what is outstanding.
    pub(super) fn on_stall(&mut self, now: Time, outstanding: Outstanding) {
        if self.since.is_none() {
            (self.silent, self.since) = (self.moving(outstanding), Some(now));
        }
    }

    /// Data came while so much was outstanding. If nothing else was, it is of those that were silent.
    pub(super) fn on_data(&mut self, outstanding: Outstanding) {
        if self.is_still(outstanding) {
            (self.silent, self.since) = (Outstanding::default(), None);
        }
    }

    /// A request is over; without it, so much is outstanding. Whether it hung.
    pub(super) fn on_finished(&mut self, grant: &Grant, outstanding: Outstanding) -> bool {
        let hung = self.hung.requests > 0 && grant.at() < self.before;
        if hung {
            remove(&mut self.hung, grant);
        } else if self.since.is_some_and(|since| grant.at() < since) {
            remove(&mut self.silent, grant);
        }
        if self.silent.requests == 0 {
            self.since = None;
        }
        if outstanding.requests == 0 {
            *self = Self::default();
        }
        hung
    }

    /// When what is silent has been so for `long`, if nothing else is outstanding.
    pub(super) fn hangs_at(&self, long: Duration, outstanding: Outstanding) -> Option<Time> {
        let since = self.since.filter(|_| self.silent.requests > 0 && self.is_still(outstanding));
        since.map(|since| Time(since.0.saturating_add(long.0)))
    }

    /// All that is outstanding hangs.
    pub(super) fn hang(&mut self, outstanding: Outstanding) {
        let before = self.since.unwrap_or(self.before);
        *self = Self { hung: outstanding, before, ..Self::default() };
    }

    /// Times that have not come are by another clock. Nobody knows then what hangs.
    pub(super) fn forget_later_than(&mut self, now: Time) {
        if self.before > now || self.since.is_some_and(|since| since > now) {
            *self = Self::default();
        }
    }
}

fn remove(from: &mut Outstanding, grant: &Grant) {
    from.requests = from.requests.saturating_sub(1);
    from.bytes = from.bytes.saturating_sub(grant.cost().0.into());
}
