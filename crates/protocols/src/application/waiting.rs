//! Requests in the order in which they were asked for, some of which may be withdrawn.

use alloc::collections::{BTreeSet, VecDeque};

use super::RequestId;

/// First in, first out. To withdraw a request takes logarithmic time in the number of those that were withdrawn and have
/// not reached the front; there are never more of them than of requests that wait, but for a few.
#[derive(Clone, Debug, Default)]
pub struct Waiting<T = ()> {
    queue: VecDeque<(RequestId, T)>,
    withdrawn: BTreeSet<RequestId>,
}

/// So many withdrawn requests may stay in any queue.
const FEW: usize = 32;

impl<T> Waiting<T> {
    /// Nothing waits.
    #[must_use]
    pub const fn new() -> Self {
        Self { queue: VecDeque::new(), withdrawn: BTreeSet::new() }
    }

    /// A request goes to the end.
    pub fn push(&mut self, id: RequestId, what: T) {
        self.queue.push_back((id, what));
    }

    /// A request that waits is no longer wanted.
    pub fn withdraw(&mut self, id: RequestId) {
        self.withdrawn.insert(id);
        // A queue may stand still for long while its requests are withdrawn and asked for again.
        if self.withdrawn.len() > FEW && 2 * self.withdrawn.len() > self.queue.len() {
            self.queue.retain(|(id, _)| !self.withdrawn.contains(id));
            self.withdrawn.clear();
        }
    }

    /// The request that is next.
    pub fn front(&mut self) -> Option<&T> {
        while let Some((id, _)) = self.queue.front()
            && !self.withdrawn.is_empty()
            && self.withdrawn.remove(id)
        {
            self.queue.pop_front();
        }
        self.queue.front().map(|(_, what)| what)
    }

    /// Takes the request that is next.
    pub fn pop(&mut self) -> Option<(RequestId, T)> {
        self.front()?;
        self.queue.pop_front()
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len().saturating_sub(self.withdrawn.len())
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// Once they are more than a few, and more than those that wait.
    #[test]
    fn what_was_withdrawn_goes_even_if_the_queue_stands_still() {
        let mut waiting = Waiting::new();
        for id in 0..100 {
            waiting.push(RequestId(id), ());
        }
        // 51 of 100, and then 33 of the 49 that are left.
        for withdrawn in 1..=84 {
            waiting.withdraw(RequestId(100 - withdrawn));
            let expected = match withdrawn {
                ..=50 => 100,
                51..=83 => 49,
                _ => 16,
            };
            assert_eq!(waiting.queue.len(), expected, "{withdrawn}");
        }
        let left: Vec<u64> = core::iter::from_fn(|| waiting.pop()).map(|(id, ())| id.0).collect();
        assert_eq!(left, (0..16).collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn the_order_is_kept_whatever_is_withdrawn(
            steps in prop::collection::vec((0..4_u8, any::<prop::sample::Index>()), 0..400),
        ) {
            let (mut waiting, mut model, mut next) = (Waiting::new(), Vec::new(), 0);
            for (step, which) in steps {
                match step {
                    0 | 1 => {
                        waiting.push(RequestId(next), next);
                        model.push(next);
                        next += 1;
                    }
                    2 if !model.is_empty() => waiting.withdraw(RequestId(model.remove(which.index(model.len())))),
                    _ => {
                        let first = if model.is_empty() { None } else { Some(model.remove(0)) };
                        prop_assert_eq!(waiting.front().copied(), first);
                        prop_assert_eq!(waiting.pop().map(|(id, _)| id.0), first);
                    }
                }
                prop_assert_eq!((waiting.len(), waiting.is_empty()), (model.len(), model.is_empty()));
                prop_assert!(waiting.queue.len() <= 2 * model.len() + FEW + 1);
            }
        }
    }
}
