//! Who comes first where the budget does not suffice for all: what flows want, by their deadlines.

use alloc::collections::BTreeMap;
use core::ops::Bound;

use crate::units::Time;

/// In which order flows get their parts of the budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// All have equal shares, and those that wait have their turns in the order in which they began to.
    #[default]
    Arrival,
    /// Who has the earliest deadline has all that it can use, and what is left goes to the next. Without a deadline, or once
    /// it is over, a flow comes last, and waits for as long as others with deadlines leave nothing.
    Deadline,
}

/// What counts of a deadline: once it is over there is none, which is [`Time::NEVER`].
pub(super) const fn rank(now: Time, due: Time) -> Time {
    if due.0 > now.0 { due } else { Time::NEVER }
}

/// Flows with the same deadline.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    flows: u64,
    /// What they could have under way, in bytes on the wire.
    wants: u64,
}

/// Active flows by their deadlines.
#[derive(Clone, Debug, Default)]
pub(super) struct Deadlines(BTreeMap<Time, Class>);

impl Deadlines {
    pub(super) fn add(&mut self, due: Time, wants: u64) {
        let class = self.0.entry(due).or_default();
        class.flows += 1;
        class.wants += wants;
    }

    pub(super) fn remove(&mut self, due: Time, wants: u64) {
        if let Some(class) = self.0.get_mut(&due) {
            class.flows -= 1;
            class.wants -= wants;
            if class.flows == 0 {
                self.0.remove(&due);
            }
        }
    }

    /// What those before this rank want.
    pub(super) fn wanted_before(&self, now: Time, rank: Time) -> u64 {
        self.0.range((Bound::Excluded(now), Bound::Excluded(rank))).map(|(_, class)| class.wants).sum()
    }

    /// How many flows have this rank.
    pub(super) fn flows_of(&self, now: Time, rank: Time) -> u64 {
        let late = if rank == Time::NEVER { self.0.range(..=now).map(|(_, class)| class.flows).sum() } else { 0 };
        late + self.0.get(&rank).map_or(0, |class| class.flows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_no_longer_counts_and_what_is_late_comes_last() {
        let at = Time::from_us;
        let mut deadlines = Deadlines::default();
        for (due, wants) in [(at(10), 100), (at(10), 50), (at(20), 7), (Time::NEVER, 3)] {
            deadlines.add(due, wants);
        }
        assert_eq!((deadlines.wanted_before(at(0), at(20)), deadlines.flows_of(at(0), at(10))), (150, 2));
        deadlines.remove(at(10), 100);
        assert_eq!((deadlines.wanted_before(at(0), at(20)), deadlines.flows_of(at(0), at(10))), (50, 1));
        assert_eq!([at(20), Time::NEVER].map(|rank| deadlines.flows_of(at(15), rank)), [1, 2]);
        assert_eq!([at(9), at(10)].map(|now| rank(now, at(10))), [at(10), Time::NEVER]);
    }
}
