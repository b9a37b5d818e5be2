//! The event queue of the event loop: a calendar whose entries are links.
//!
//! A link is in it at most once, so the bucket lists run through an array by link and nothing is ever
//! allocated. What lies beyond the calendar's span waits in a heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use incast_world::tie::{Entity, Order};

/// End of a list.
const NIL: u32 = u32::MAX;
/// Buckets: enough for a few propagation delays at a fraction of a packet time each.
const BUCKETS: usize = 1 << 15;

/// Links by the time they have to be looked at, ties by the seeded order.
#[derive(Debug)]
pub(crate) struct Calendar {
    order: Order,
    /// A bucket is `1 << shift` picoseconds wide.
    shift: u32,
    /// Bucket number of the last entry taken out; nothing is earlier.
    current: u64,
    heads: Vec<u32>,
    occupied: Vec<u64>,
    /// Which words of `occupied` are not zero.
    summary: Vec<u64>,
    at: Vec<u64>,
    next: Vec<u32>,
    in_buckets: usize,
    far: BinaryHeap<Reverse<(u64, u64, u32)>>,
}

impl Calendar {
    /// `gap` is the expected time between two entries: a bucket should hold about one.
    pub(crate) fn new(order: Order, links: usize, gap: u64) -> Self {
        Self {
            order,
            shift: gap.max(1).ilog2().clamp(6, 24),
            current: 0,
            heads: vec![NIL; BUCKETS],
            occupied: vec![0; BUCKETS / 64],
            summary: vec![0; BUCKETS / 4096],
            at: vec![0; links],
            next: vec![NIL; links],
            in_buckets: 0,
            far: BinaryHeap::new(),
        }
    }

    #[inline]
    fn before(&self, a: (u64, u32), b: (u64, u32)) -> bool {
        self.order.before((a.0, Entity::link(a.1)), (b.0, Entity::link(b.1)))
    }

    /// Puts a link in that is not in it.
    #[inline]
    pub(crate) fn push(&mut self, link: u32, at: u64) {
        let number = at >> self.shift;
        if number - self.current >= BUCKETS as u64 {
            self.far.push(Reverse((at, self.order.rank(at, Entity::link(link)), link)));
            return;
        }
        self.in_buckets += 1;
        self.at[link as usize] = at;
        let bucket = number as usize % BUCKETS;
        let head = self.heads[bucket];
        if head == NIL || self.before((at, link), (self.at[head as usize], head)) {
            self.next[link as usize] = head;
            self.heads[bucket] = link;
            if head == NIL {
                self.occupied[bucket / 64] |= 1 << (bucket % 64);
                self.summary[bucket / 4096] |= 1 << (bucket / 64 % 64);
            }
            return;
        }
        let mut previous = head;
        loop {
            let following = self.next[previous as usize];
            if following == NIL || self.before((at, link), (self.at[following as usize], following)) {
                self.next[link as usize] = following;
                self.next[previous as usize] = link;
                return;
            }
            previous = following;
        }
    }

    /// The first occupied bucket at or after the current one, going round.
    #[inline]
    fn first_bucket(&self) -> Option<usize> {
        if self.in_buckets == 0 {
            return None;
        }
        let start = self.current as usize % BUCKETS;
        let word = start / 64;
        let here = self.occupied[word] & (u64::MAX << (start % 64));
        if here != 0 {
            return Some(word * 64 + here.trailing_zeros() as usize);
        }
        let words = self.summary.len();
        let after = if word % 64 == 63 { 0 } else { self.summary[word / 64] & (u64::MAX << (word % 64 + 1)) };
        let word = if after == 0 {
            (1..=words).find_map(|step| {
                let index = (word / 64 + step) % words;
                let bits = self.summary[index];
                (bits != 0).then(|| index * 64 + bits.trailing_zeros() as usize)
            })?
        } else {
            word / 64 * 64 + after.trailing_zeros() as usize
        };
        Some(word * 64 + self.occupied[word].trailing_zeros() as usize)
    }

    /// The next link and its time.
    #[inline]
    pub(crate) fn first(&self) -> Option<(u64, u32)> {
        let near = self.first_bucket().map(|bucket| {
            let link = self.heads[bucket];
            (self.at[link as usize], link)
        });
        let far = self.far.peek().map(|entry| (entry.0.0, entry.0.2));
        match (near, far) {
            (Some(near), Some(far)) if self.before(far, near) => Some(far),
            (None, far) => far,
            (near, _) => near,
        }
    }

    /// Takes out what [`first`](Self::first) named.
    #[inline]
    pub(crate) fn pop(&mut self, first: (u64, u32)) {
        self.current = first.0 >> self.shift;
        let bucket = self.current as usize % BUCKETS;
        if self.in_buckets > 0 && self.heads[bucket] == first.1 && self.at[first.1 as usize] == first.0 {
            let following = self.next[first.1 as usize];
            self.heads[bucket] = following;
            self.in_buckets -= 1;
            if following == NIL {
                self.occupied[bucket / 64] &= !(1 << (bucket % 64));
                if self.occupied[bucket / 64] == 0 {
                    self.summary[bucket / 4096] &= !(1 << (bucket / 64 % 64));
                }
            }
        } else {
            self.far.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a sorted list, with gaps from nothing to far beyond the calendar's span.
    #[test]
    fn links_come_out_in_order_of_time_and_rank() {
        let order = Order::new(5);
        let links = 50;
        let mut calendar = Calendar::new(order, links, 512);
        let mut model: Vec<(u64, u64, u32)> = Vec::new();
        let mut free: Vec<u32> = (0..links as u32).collect();
        let mut state = 9_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut now = 0;
        for _ in 0..50_000 {
            if !free.is_empty() && (model.is_empty() || random(2) == 0) {
                let link = free.swap_remove(random(free.len() as u64) as usize);
                let gap = match random(10) {
                    0 => random(1 << 36),
                    1..=3 => 0,
                    _ => random(100_000),
                };
                calendar.push(link, now + gap);
                model.push((now + gap, order.rank(now + gap, Entity::link(link)), link));
            } else {
                model.sort_unstable();
                let expected = model.remove(0);
                let first = calendar.first().unwrap();
                assert_eq!(first, (expected.0, expected.2));
                calendar.pop(first);
                now = first.0;
                free.push(first.1);
            }
        }
    }

    /// A width of 512 ps; the bucket of the entry taken out last is the first of the span.
    #[test]
    fn what_lies_within_the_span_waits_in_buckets_and_the_rest_in_the_heap() {
        let mut calendar = Calendar::new(Order::new(1), 3, 512);
        let span = 512 * BUCKETS as u64;
        let mut start = 0;
        for _ in 0..3 {
            calendar.push(0, start + 1000);
            assert_eq!((calendar.in_buckets, calendar.far.len()), (1, 0));
            calendar.pop((start + 1000, 0));
            start = (start + 1000) / 512 * 512;
            calendar.push(1, start + span - 1);
            calendar.push(2, start + span);
            assert_eq!((calendar.in_buckets, calendar.far.len()), (1, 1));
            for expected in [(start + span - 1, 1), (start + span, 2)] {
                assert_eq!(calendar.first(), Some(expected));
                calendar.pop(expected);
            }
            start += span;
        }
        assert_eq!(calendar.first(), None);
    }

    /// The calendar goes round: a bucket before the current one is of the next round, even in the same word.
    #[test]
    fn what_is_due_in_this_round_comes_before_the_next_round() {
        for this_round in [12, 100, 5_000, 32_767] {
            for next_round in [0, 5, 9] {
                let mut calendar = Calendar::new(Order::new(1), 3, 512);
                calendar.push(0, 512 * 10);
                calendar.pop((512 * 10, 0));
                calendar.push(1, 512 * (BUCKETS as u64 + next_round));
                calendar.push(2, 512 * this_round);
                assert_eq!(calendar.far.len(), 0);
                for expected in [(512 * this_round, 2), (512 * (BUCKETS as u64 + next_round), 1)] {
                    assert_eq!(calendar.first(), Some(expected));
                    calendar.pop(expected);
                }
                assert_eq!(calendar.first(), None);
            }
        }
    }
}
