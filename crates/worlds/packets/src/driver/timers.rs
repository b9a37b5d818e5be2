//! Things that fall due at a host, in order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

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

/// A heap of them. Timers are few next to packets: one entry per connection, re-armed lazily.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<Due>>,
}

impl Timers {
    pub(crate) fn push(&mut self, due: Due) {
        self.heap.push(Reverse(due));
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    pub(crate) fn first(&self) -> Option<Due> {
        self.heap.peek().map(|due| due.0)
    }

    pub(crate) fn pop(&mut self) -> Option<Due> {
        self.heap.pop().map(|due| due.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use incast_world::tie::Kind;

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
}
