//! Things that fall due at a host, in order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use incast_world::tie::{Entity, Order};

/// An entity that falls due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Due {
    pub(crate) at: u64,
    rank: u64,
    pub(crate) entity: Entity,
    pub(crate) host: u32,
}

impl Due {
    pub(crate) fn new(order: Order, at: u64, host: u32, entity: Entity) -> Self {
        Self { at, rank: order.rank(at, entity), entity, host }
    }

    pub(crate) const fn key(&self) -> (u64, Entity) {
        (self.at, self.entity)
    }
}

/// The length of a slice in picoseconds: about a millisecond.
const SLICE: u64 = 1 << 30;

/// Those of the first slice in a heap, and the others unsorted by slice. A connection has one entry, re-armed lazily, which stays
/// until it is due even if the connection is over by then: one heap of half a million, none of which is in a cache, took a
/// third of the time of a run with many short connections.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// Of slices up to `slice`; empty only if nothing is due at all.
    near: BinaryHeap<Reverse<Due>>,
    slice: u64,
    later: BTreeMap<u64, Vec<Reverse<Due>>>,
}

impl Timers {
    pub(crate) fn push(&mut self, due: Due) {
        let slice = due.at / SLICE;
        if self.near.is_empty() {
            self.slice = slice;
        }
        if slice <= self.slice {
            self.near.push(Reverse(due));
        } else {
            self.later.entry(slice).or_default().push(Reverse(due));
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.near.is_empty()
    }

    pub(crate) fn first(&self) -> Option<Due> {
        self.near.peek().map(|due| due.0)
    }

    pub(crate) fn pop(&mut self) -> Option<Due> {
        let first = self.near.pop();
        if self.near.is_empty()
            && let Some((slice, all)) = self.later.pop_first()
        {
            self.slice = slice;
            self.near = all.into();
        }
        first.map(|due| due.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use incast_world::tie::Kind;
    use std::collections::BTreeSet;

    #[test]
    fn what_falls_due_first_comes_out_first_and_the_seeded_order_decides_ties() {
        let order = Order::new(3);
        let mut timers = Timers::default();
        assert!(timers.is_empty());
        for (host, at) in [20, 10, 10, 10, 10, 10, 5].into_iter().enumerate() {
            timers.push(Due::new(order, at, host as u32, Entity::of(Kind::Endpoint(host as u32))));
        }
        assert!(!timers.is_empty());
        let mut out = Vec::new();
        while let Some(first) = timers.first() {
            assert_eq!(timers.pop(), Some(first));
            assert_eq!(first.entity, Entity::of(Kind::Endpoint(first.host)));
            out.push(first.key());
        }
        assert_eq!(out.iter().map(|key| key.0).collect::<Vec<_>>(), [5, 10, 10, 10, 10, 10, 20]);
        assert!(out.windows(2).all(|pair| order.before(pair[0], pair[1])), "{out:?}");
        assert!(timers.is_empty() && timers.pop().is_none());
    }

    /// Against a sorted set, with what is due at once and what is due many slices later.
    #[test]
    fn slices_change_nothing_about_the_order() {
        let order = Order::new(3);
        let (mut timers, mut model) = (Timers::default(), BTreeSet::new());
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut now = 0;
        for host in 0..20_000 {
            let wait = [0, 1, SLICE - 1, SLICE, 9 * SLICE, 300 * SLICE][random(6) as usize] + random(SLICE);
            let due = Due::new(order, now + wait, host, Entity::of(Kind::Endpoint(host)));
            timers.push(due);
            model.insert(due);
            // Now and then all of them.
            let most = if host % 500 == 499 { usize::MAX } else { random(3) as usize };
            for expected in (0..most).map_while(|_| model.pop_first()) {
                assert_eq!(timers.pop(), Some(expected));
                now = expected.at;
            }
            assert_eq!((timers.first(), timers.is_empty()), (model.first().copied(), model.is_empty()));
        }
    }
}
