//! Flows that wait for their turn, in order. A flow leaves from anywhere in the line at once: each knows its neighbours.

use alloc::vec::Vec;

const NONE: u32 = u32::MAX;

/// A line of flows, by index.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    first: u32,
    last: u32,
    /// By flow; none for those that do not wait.
    links: Vec<Option<Link>>,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    after: u32,
}

impl Turns {
    pub(super) const fn new() -> Self {
        Self { first: NONE, last: NONE, links: Vec::new() }
    }

    /// Makes room for flows up to this one.
    pub(super) fn know(&mut self, flow: u32) {
        if flow as usize >= self.links.len() {
            self.links.resize(flow as usize + 1, None);
        }
    }

    pub(super) fn waits(&self, flow: u32) -> bool {
        self.links[flow as usize].is_some()
    }

    pub(super) const fn first(&self) -> Option<u32> {
        if self.first == NONE { None } else { Some(self.first) }
    }

    /// Puts a flow that does not wait at the end of the line, or in front of all others.
    pub(super) fn push(&mut self, flow: u32, in_front: bool) {
        debug_assert!(!self.waits(flow));
        let link =
            if in_front { Link { before: NONE, after: self.first } } else { Link { before: self.last, after: NONE } };
        self.links[flow as usize] = Some(link);
        self.join(link, Some(flow), Some(flow));
    }

    /// Puts a flow that does not wait in front of all at the end of the line to which it comes before.
    pub(super) fn push_before(&mut self, flow: u32, comes_before: impl Fn(u32) -> bool) {
        debug_assert!(!self.waits(flow));
        let (mut before, mut after) = (self.last, NONE);
        while before != NONE && comes_before(before) {
            after = before;
            before = self.links[before as usize].map_or(NONE, |link| link.before);
        }
        let link = Link { before, after };
        self.links[flow as usize] = Some(link);
        self.join(link, Some(flow), Some(flow));
    }

    /// Takes a flow out, if it waits.
    pub(super) fn remove(&mut self, flow: u32) {
        if let Some(link) = self.links[flow as usize].take() {
            let known = |neighbour| (neighbour != NONE).then_some(neighbour);
            self.join(link, known(link.after), known(link.before));
        }
    }

    /// Tells the neighbours who is beside them now: `after` comes after the one before, `before` before the one after.
    fn join(&mut self, link: Link, after: Option<u32>, before: Option<u32>) {
        let (after, before) = (after.unwrap_or(NONE), before.unwrap_or(NONE));
        match self.links.get_mut(link.before as usize) {
            Some(Some(neighbour)) => neighbour.after = after,
            _ => self.first = after,
        }
        match self.links.get_mut(link.after as usize) {
            Some(Some(neighbour)) => neighbour.before = before,
            _ => self.last = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn line(turns: &Turns) -> Vec<u32> {
        let mut line = Vec::new();
        let mut next = turns.first();
        while let Some(flow) = next {
            line.push(flow);
            let after = turns.links[flow as usize].unwrap().after;
            next = (after != NONE).then_some(after);
        }
        line
    }

    proptest! {
        #[test]
        fn a_line_is_a_queue_that_can_be_left_anywhere(steps in prop::collection::vec((0_u32..12, 0_u8..4), 0..200)) {
            let (mut turns, mut model) = (Turns::new(), VecDeque::new());
            turns.know(11);
            for (flow, what) in steps {
                if what == 2 {
                    turns.remove(flow);
                    model.retain(|&waiting| waiting != flow);
                } else if what == 3 && !model.contains(&flow) {
                    turns.push_before(flow, |other| other > flow);
                    let place = model.iter().rposition(|&other| other < flow).map_or(0, |place| place + 1);
                    model.insert(place, flow);
                } else if !model.contains(&flow) {
                    turns.push(flow, what == 1);
                    if what == 1 { model.push_front(flow) } else { model.push_back(flow) }
                }
                prop_assert_eq!(line(&turns), Vec::from(model.clone()));
                prop_assert_eq!(turns.waits(flow), model.contains(&flow));
                prop_assert_eq!(turns.last, model.back().copied().unwrap_or(NONE));
            }
        }
    }
}
