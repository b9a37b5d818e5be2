//! Requests without a slot, in the order in which they were asked for.

use std::collections::VecDeque;
use std::task::Waker;

use incast_protocols::application::Grant;

/// So many places that were left may stay among the others.
const FEW: usize = 32;

/// A request without a slot.
pub(crate) enum Place {
    Waiting(Option<Waker>),
    Granted(Grant),
}

/// Their places, by their numbers.
#[derive(Default)]
pub(crate) struct Places {
    /// The first place has not been left.
    queue: VecDeque<(u64, Option<Place>)>,
    /// How many have.
    left: usize,
    /// Whether some that were left behind others are gone, so that numbers do not follow each other.
    has_gaps: bool,
    /// The number of the next request.
    next: u64,
}

impl Places {
    /// A request takes its place: its number.
    pub(crate) fn take(&mut self) -> u64 {
        let id = self.next;
        self.next += 1;
        self.has_gaps &= !self.queue.is_empty();
        self.queue.push_back((id, Some(Place::Waiting(None))));
        id
    }

    fn at(&mut self, id: u64) -> Option<&mut Option<Place>> {
        let at = if self.has_gaps { self.find(id)? } else { id.wrapping_sub(self.queue.front()?.0) as usize };
        Some(&mut self.queue.get_mut(at)?.1)
    }

    #[cold]
    fn find(&self, id: u64) -> Option<usize> {
        self.queue.binary_search_by_key(&id, |(found, _)| *found).ok()
    }

    /// What wakes a request, if it waits.
    pub(crate) fn waker(&mut self, id: u64) -> Option<&mut Option<Waker>> {
        match self.at(id)? {
            Some(Place::Waiting(waker)) => Some(waker),
            _ => None,
        }
    }

    /// What wakes the first that waits.
    pub(crate) fn first_waker(&self) -> Option<Waker> {
        self.queue.iter().find_map(|(_, place)| match place {
            Some(Place::Waiting(waker)) => waker.clone(),
            _ => None,
        })
    }

    /// A request may go: what wakes it, if it waits.
    pub(crate) fn grant(&mut self, grant: Grant) -> Option<Waker> {
        match self.at(grant.id().0)?.replace(Place::Granted(grant)) {
            Some(Place::Waiting(waker)) => waker,
            _ => None,
        }
    }

    /// A request leaves its place.
    pub(crate) fn leave(&mut self, id: u64) -> Option<Place> {
        let place = self.at(id)?.take();
        self.left += usize::from(place.is_some());
        while let Some((_, None)) = self.queue.front() {
            self.queue.pop_front();
            self.left -= 1;
        }
        // The first may wait for long while others come and go.
        if self.left > FEW && 2 * self.left > self.queue.len() {
            self.queue.retain(|(_, place)| place.is_some());
            (self.left, self.has_gaps) = (0, true);
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Those that wait keep their places, and those that left take no room for long.
        #[test]
        fn each_finds_its_place_until_it_has_left(
            steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 0..500),
        ) {
            let (mut places, mut here) = (Places::default(), Vec::new());
            for (number, (comes, which)) in steps.into_iter().enumerate() {
                if comes || here.is_empty() {
                    here.push(places.take());
                } else {
                    // Mostly not the first, which stays while others leave.
                    let id = here.remove(which.index(here.len()).max(usize::from(number % 8 > 0)).min(here.len() - 1));
                    prop_assert!(matches!(places.leave(id), Some(Place::Waiting(None))));
                    prop_assert!(places.leave(id).is_none());
                }
                prop_assert!(here.iter().all(|&id| places.waker(id).is_some()));
                prop_assert!(places.queue.len() <= 2 * here.len() + FEW, "{} of {}", places.queue.len(), here.len());
            }
        }
    }
}
