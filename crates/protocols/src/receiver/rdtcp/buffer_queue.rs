//! The buffer queue: ACKs that wait until the last-hop queue has room for what they grant.

use alloc::collections::VecDeque;

/// An ACK that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    flow: u32,
    /// What it is ordered by: the smallest leaves first.
    rank: u64,
    /// How often a later one was put before it.
    skipped: u32,
}

/// ACKs in the order in which they will leave, one per flow at most.
#[derive(Clone, Debug)]
pub struct BufferQueue {
    held: VecDeque<Held>,
    skip_max: u32,
}

impl BufferQueue {
    /// An empty queue in which no flow is passed over more than `skip_max` times.
    #[must_use]
    pub const fn new(skip_max: u32) -> Self {
        Self { held: VecDeque::new(), skip_max }
    }

    /// Whether no ACK is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The flow whose ACK leaves next.
    #[must_use]
    pub fn head(&self) -> Option<u32> {
        self.held.front().map(|held| held.flow)
    }

    /// Takes the head out.
    pub fn pop(&mut self) -> Option<u32> {
        self.held.pop_front().map(|held| held.flow)
    }

    /// Takes the flow's ACK out, if one is held; says how often it was passed.
    pub fn remove(&mut self, flow: u32) -> Option<u32> {
        let at = self.held.iter().position(|held| held.flow == flow)?;
        self.held.remove(at).map(|held| held.skipped)
    }

    /// Holds the flow's ACK, which takes the place of an older one: it passes those of higher rank, unless
    /// these were passed too often. `skipped` is what the older one had.
    pub fn insert(&mut self, flow: u32, rank: u64, skipped: u32) {
        let mut at = self.held.len();
        while at > 0 {
            let before = &mut self.held[at - 1];
            if before.rank <= rank || before.skipped >= self.skip_max {
                break;
            }
            before.skipped += 1;
            at -= 1;
        }
        self.held.insert(at, Held { flow, rank, skipped });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn order(mut queue: BufferQueue) -> Vec<u32> {
        core::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn the_smallest_leaves_first_and_equals_in_the_order_of_their_coming() {
        let mut queue = BufferQueue::new(700);
        for (flow, rank) in [(0, 5), (1, 9), (2, 5), (3, 1), (4, 9)] {
            queue.insert(flow, rank, 0);
        }
        assert_eq!(order(queue), [3, 0, 2, 1, 4]);
    }

    /// RDTCP IV.C: "When an ACK's skipptime reaches the maximum, it cannot be skipped until it is outputed."
    #[test]
    fn who_was_passed_often_enough_is_passed_no_more() {
        let mut queue = BufferQueue::new(2);
        queue.insert(0, 100, 0);
        for flow in 1..=4 {
            queue.insert(flow, 1, 0);
        }
        assert_eq!(order(queue), [1, 2, 0, 3, 4]);
    }

    #[test]
    fn an_ack_that_takes_the_place_of_another_keeps_its_count() {
        let mut queue = BufferQueue::new(1);
        queue.insert(0, 100, 0);
        queue.insert(1, 1, 0);
        let skipped = queue.remove(0);
        assert_eq!(skipped, Some(1));
        queue.insert(0, 100, skipped.unwrap_or(0));
        queue.insert(2, 1, 0);
        assert_eq!(queue.remove(7), None);
        assert_eq!(order(queue), [1, 0, 2]);
    }
}
