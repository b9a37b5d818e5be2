//! Things that fall due at a host, in order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::tie::{Entity, Order};

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
