//! A queue in a power-of-two array that shrinks again.
//!
//! Without shrinking, one burst fixes a large ring for ever and the index walks through all of it,
//! out of the cache.

/// Most links of a large network never hold more.
const SMALLEST: usize = 2;
/// Smallest capacity that is given up again.
const SHRINK_FROM: usize = 64;

/// First in, first out.
#[derive(Clone, Debug)]
pub(crate) struct Ring<T> {
    head: u32,
    tail: u32,
    slots: Box<[T]>,
}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Self { head: 0, tail: 0, slots: Box::default() }
    }
}

impl<T: Copy + Default> Ring<T> {
    #[inline]
    pub(crate) const fn len(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.tail == self.head
    }

    #[cold]
    fn resize(&mut self, capacity: usize) {
        let mut slots = vec![T::default(); capacity].into_boxed_slice();
        let len = self.len();
        let mask = self.slots.len().wrapping_sub(1);
        for (i, slot) in slots.iter_mut().enumerate().take(len as usize) {
            *slot = self.slots[self.head.wrapping_add(i as u32) as usize & mask];
        }
        self.head = 0;
        self.tail = len;
        self.slots = slots;
    }

    #[inline]
    pub(crate) fn push(&mut self, value: T) {
        let len = self.len() as usize;
        let capacity = self.slots.len();
        if len == capacity {
            self.resize((capacity * 2).max(SMALLEST));
        } else if self.tail as usize & (capacity - 1) == 0 {
            self.begin_round(len);
        }
        let mask = self.slots.len() - 1;
        self.slots[self.tail as usize & mask] = value;
        self.tail = self.tail.wrapping_add(1);
    }

    /// The next value goes to the first slot.
    #[inline]
    fn begin_round(&mut self, len: usize) {
        let capacity = self.slots.len();
        if capacity >= SHRINK_FROM && len < capacity / 8 {
            self.resize(capacity / 4);
        }
    }

    /// What holds a packet now and then uses one line of the cache, and not all of the ring in turn.
    #[inline]
    fn begin_again_if_empty(&mut self) {
        if self.is_empty() && self.slots.len() < SHRINK_FROM {
            self.head = 0;
            self.tail = 0;
        }
    }

    /// The oldest value. Only for rings that are not empty.
    #[inline]
    pub(crate) fn first(&self) -> &T {
        &self.slots[self.head as usize & (self.slots.len() - 1)]
    }

    /// The value in a place, counted from the oldest, which is in place 0. Only for places that are filled.
    #[inline]
    pub(crate) fn get(&self, place: u32) -> &T {
        &self.slots[self.head.wrapping_add(place) as usize & (self.slots.len() - 1)]
    }

    /// The same, to change it.
    #[inline]
    pub(crate) fn get_mut(&mut self, place: u32) -> &mut T {
        let mask = self.slots.len() - 1;
        &mut self.slots[self.head.wrapping_add(place) as usize & mask]
    }

    /// What is in the place of the next value.
    #[inline]
    pub(crate) fn next_slot(&self) -> Option<&T> {
        self.slots.get(self.tail as usize & self.slots.len().wrapping_sub(1))
    }

    /// All values, from the oldest on.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let mask = self.slots.len().wrapping_sub(1);
        (0..self.len()).map(move |place| &self.slots[self.head.wrapping_add(place) as usize & mask])
    }

    /// Takes the oldest value out. Only for rings that are not empty.
    #[inline]
    pub(crate) fn pop(&mut self) -> T {
        let value = *self.first();
        self.head = self.head.wrapping_add(1);
        self.begin_again_if_empty();
        value
    }

    /// Takes the youngest value out. Only for rings that are not empty.
    pub(crate) fn pop_last(&mut self) -> T {
        self.tail = self.tail.wrapping_sub(1);
        self.slots[self.tail as usize & (self.slots.len() - 1)]
    }

    /// Keeps only the oldest `len` values. There must be at least as many.
    pub(crate) fn truncate(&mut self, len: u32) {
        self.tail = self.head.wrapping_add(len);
    }

    /// Counts a value that is kept elsewhere: a ring that only counts holds nothing itself.
    pub(crate) const fn enter(&mut self) {
        self.tail = self.tail.wrapping_add(1);
    }

    /// Counts a value out that is kept elsewhere.
    pub(crate) const fn leave(&mut self) {
        self.head = self.head.wrapping_add(1);
    }

    /// Calls `take` with values from the oldest on until it declines one, and removes those it took.
    #[inline]
    pub(crate) fn take_while(&mut self, mut take: impl FnMut(&T) -> bool) {
        let mask = self.slots.len().wrapping_sub(1);
        while self.head != self.tail && take(&self.slots[self.head as usize & mask]) {
            self.head = self.head.wrapping_add(1);
        }
        self.begin_again_if_empty();
    }

    /// Puts a value in where `before` stops to hold, seen from the youngest: keeps a sorted ring sorted.
    pub(crate) fn insert_sorted(&mut self, value: T, before: impl Fn(&T, &T) -> bool) {
        self.push(value);
        let mask = self.slots.len() - 1;
        let mut at = self.tail.wrapping_sub(1);
        while at != self.head && before(&value, &self.slots[at.wrapping_sub(1) as usize & mask]) {
            self.slots[at as usize & mask] = self.slots[at.wrapping_sub(1) as usize & mask];
            at = at.wrapping_sub(1);
        }
        self.slots[at as usize & mask] = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn it_behaves_as_a_queue_through_growth_and_shrinking() {
        let mut ring = Ring::default();
        let mut model = VecDeque::new();
        let mut state = 1_u64;
        for step in 0..200_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Long phases of growth and of decline.
            let grow = (step / 5_000) % 2 == 0;
            if model.is_empty() || (state >> 33) % 3 < if grow { 2 } else { 1 } {
                ring.push(step);
                model.push_back(step);
            } else {
                assert_eq!(Some(ring.pop()), model.pop_front());
            }
            assert_eq!(ring.len() as usize, model.len());
        }
    }

    #[test]
    fn one_burst_does_not_fix_a_large_ring() {
        let mut ring = Ring::default();
        for i in 0..10_000_u32 {
            ring.push(i);
        }
        while !ring.is_empty() {
            ring.pop();
        }
        for i in 0..100_000_u32 {
            ring.push(i);
            ring.pop();
        }
        assert!(ring.slots.len() < 128, "{}", ring.slots.len());
    }

    /// Copying is paid for by a whole round through the array: only where it ends, and only if less than an
    /// eighth is in use, it is replaced by one of a quarter.
    #[test]
    fn it_shrinks_at_the_end_of_a_round_if_less_than_an_eighth_is_used() {
        for (held, expected) in [(1, 4096), (2047, 4096), (2048, 16_384)] {
            let mut ring = Ring::default();
            for i in 0..10_000_u32 {
                ring.push(i);
            }
            while ring.len() > held {
                ring.pop();
            }
            for i in 10_000..16_384 {
                ring.push(i);
                ring.pop();
                assert_eq!(ring.slots.len(), 16_384, "before the round ends");
            }
            ring.push(16_384);
            assert_eq!((ring.slots.len(), *ring.first()), (expected, 16_384 - held), "{held} held");
        }
    }

    /// Larger ones go round, since it is at the end of a round that they shrink.
    #[test]
    fn a_small_ring_that_was_empty_begins_again_at_its_first_slot() {
        for (burst, expected) in [(1, 1), (32, 1), (33, 34)] {
            let mut ring = Ring::default();
            (0..burst).for_each(|value| ring.push(value));
            while !ring.is_empty() {
                ring.pop();
            }
            ring.push(7);
            assert_eq!((ring.len(), *ring.first(), ring.tail), (1, 7, expected), "after {burst}");
        }
    }

    #[test]
    fn values_can_be_taken_from_the_back() {
        let mut ring = Ring::default();
        for value in 0..20 {
            ring.push(value);
        }
        assert_eq!((ring.pop_last(), ring.pop(), ring.pop_last(), ring.len()), (19, 0, 18, 17));
        ring.push(7);
        assert_eq!((ring.pop_last(), ring.pop_last()), (7, 17));
    }

    #[test]
    fn a_late_value_finds_its_place() {
        let mut ring = Ring::default();
        for value in [5_u64, 1, 9, 7, 3] {
            ring.insert_sorted(value, |a, b| a < b);
        }
        let mut seen = Vec::new();
        ring.take_while(|&value| {
            seen.push(value);
            value < 7
        });
        assert_eq!((seen, ring.len()), (vec![1, 3, 5, 7], 2));
    }
}
