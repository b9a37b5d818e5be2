//! Requests that hang: they wait for a message, or their server is gone. Nothing of theirs is in the port, for as long as they last.
//!
//! What is under way at a stall may hang. It does if nothing has come of it for long: if it is silent again, with nothing else under way,
//! and no data came while it was so. Others that were let go meanwhile may be silent, too, which the next stall shows.

use super::super::{Grant, Outstanding};
use crate::units::Time;

/// What of the requests under way may hang, and what does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Hanging {
    /// What was under way at a stall, and did not hang by then.
    first: Option<Silent>,
    /// The same at a later stall, with more under way; nothing without the first.
    later: Option<Silent>,
    hung: Outstanding,
    /// All that hangs was let go before.
    before: Time,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Silent {
    all: Outstanding,
    since: Time,
}

impl Silent {
    fn remove(this: &mut Option<Self>, grant: &Grant) {
        if let Some(silent) = this.as_mut().filter(|silent| grant.at() < silent.since) {
            remove(&mut silent.all, grant);
        }
        *this = this.filter(|silent| silent.all.requests > 0);
    }
}

impl Hanging {
    /// What does not hang of what is outstanding.
    pub(super) fn moving(&self, outstanding: Outstanding) -> Outstanding {
        Outstanding {
            requests: outstanding.requests.saturating_sub(self.hung.requests),
            bytes: outstanding.bytes.saturating_sub(self.hung.bytes),
        }
    }

    /// How many requests of those that are outstanding do not hang.
    const fn requests(&self, outstanding: Outstanding) -> u64 {
        outstanding.requests.saturating_sub(self.hung.requests)
    }

    /// What all that is outstanding and does not hang was silent with.
    fn silent(&self, outstanding: Outstanding) -> Option<&Silent> {
        let first = self.first.as_ref()?;
        let moving = self.requests(outstanding);
        if moving <= first.all.requests {
            return Some(first);
        }
        self.later.as_ref().filter(|later| moving <= later.all.requests)
    }

    /// Whether all that is outstanding hangs, or was under way at the stall.
    pub(super) fn is_still(&self, outstanding: Outstanding) -> bool {
        self.requests(outstanding) == 0 || self.silent(outstanding).is_some()
    }

    /// Nothing comes of what is outstanding.
    pub(super) fn on_stall(&mut self, now: Time, outstanding: Outstanding) {
        // What is known to be silent is so since then.
        if !self.is_still(outstanding) {
            let silent = Some(Silent { all: self.moving(outstanding), since: now });
            *(if self.first.is_none() { &mut self.first } else { &mut self.later }) = silent;
        }
    }

    /// Data came while so much was outstanding. If nothing else was, it is of those that were silent.
    pub(super) fn on_data(&mut self, outstanding: Outstanding) {
        if self.first.is_none() {
            return;
        }
        let moving = self.requests(outstanding);
        for silent in [&mut self.first, &mut self.later] {
            if silent.is_some_and(|silent| moving <= silent.all.requests) {
                *silent = None;
            }
        }
        self.first = self.first.or_else(|| self.later.take());
    }

    /// A request is over; without it, so much is outstanding. Whether it hung.
    pub(super) fn on_finished(&mut self, grant: &Grant, outstanding: Outstanding) -> bool {
        let hung = self.hung.requests > 0 && grant.at() < self.before;
        if hung {
            remove(&mut self.hung, grant);
        } else if self.first.is_some() {
            Silent::remove(&mut self.first, grant);
            Silent::remove(&mut self.later, grant);
            self.first = self.first.or_else(|| self.later.take());
        }
        if outstanding.requests == 0 {
            *self = Self::default();
        }
        hung
    }

    /// Since when all that is outstanding and does not hang has been silent.
    pub(super) fn since(&self, outstanding: Outstanding) -> Option<Time> {
        let silent = self.silent(outstanding)?;
        (self.requests(outstanding) > 0).then_some(silent.since)
    }

    /// All that is outstanding hangs.
    pub(super) fn hang(&mut self, outstanding: Outstanding) {
        let before = self.since(outstanding).unwrap_or(self.before);
        *self = Self { hung: outstanding, before, ..Self::default() };
    }

    /// Times that have not come are by another clock. Nobody knows then what hangs. Returns whether there were any.
    pub(super) fn forget_later_than(&mut self, now: Time) -> bool {
        let last = self.later.as_ref().or(self.first.as_ref());
        let is_another = self.before > now || last.is_some_and(|last| last.since > now);
        if is_another {
            *self = Self::default();
        }
        is_another
    }
}

fn remove(from: &mut Outstanding, grant: &Grant) {
    from.requests = from.requests.saturating_sub(1);
    from.bytes = from.bytes.saturating_sub(grant.cost().0.into());
}
