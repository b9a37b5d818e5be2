//! Who gets how much: the max-min fair shares of flows on links, kept up to date as flows come and go.
//!
//! Max-min fair means that every flow has a bottleneck: a full link on which no flow gets more. Plain
//! progressive filling finds these shares by raising all flows together until a link is full, leaving its flows
//! there, and going on with the others. Doing that anew for every flow that comes or goes would take most of the
//! time of a run; here a sweep through the shares from small to large looks only at what changes.
//!
//! Three facts make that exact. What a link gives to its own flows (those it is the bottleneck of) depends only on
//! shares smaller than that. So once everything below a share is settled, a link whose own flows come to it can be
//! settled, whatever happens above. And a flow can rise above its present share only when its bottleneck could give
//! more, which shows at that very share. A link waits in a queue with the least share at which something could
//! happen to it; it is looked at when its turn comes, and mostly has to wait on.
//!
//! Shares are integers, so sums are exact in any order and nothing drifts. A link that cannot be divided evenly
//! leaves less than one unit per flow; where two bottlenecks coincide, who is settled first decides who has it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A share of a link in units of 10 ubit/s.
pub(crate) type Share = u64;

/// Units in a bit per second.
pub(crate) const UNITS_PER_BPS: u64 = 100_000;

/// The largest capacity: twice as much is still a sum of shares in 63 bits.
pub(crate) const MOST: Share = 1 << 61;

/// Later than every share: a link that waits for nothing, or is no flow's bottleneck.
const NEVER: Share = Share::MAX;

/// No link.
const NONE: u32 = u32::MAX;

/// A flow's place here; it is used again once the flow is gone.
pub(crate) type Slot = u32;

/// A flow whose share is another than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) slot: Slot,
    pub(crate) was: Share,
    pub(crate) is: Share,
}

#[derive(Clone, Debug)]
struct Flow {
    share: Share,
    /// Its bottleneck; [`NONE`] while it is open.
    bottleneck: u32,
    /// The sweep in which it was opened or settled, and which of the two.
    touched: Touched,
    /// Its links, in [`Sharing::hops`].
    first: u32,
    hops: u32,
}

/// `2 * sweep` for a flow opened in a sweep, one more for a flow settled in it, less for a flow left as it is.
type Touched = u64;

#[derive(Clone, Debug)]
struct Link {
    capacity: Share,
    /// What is left; open flows count as nothing. In the course of a sweep flows that must still come down may
    /// make it negative.
    room: i64,
    /// What it gives to its own flows, [`NEVER`] if it has none. Nobody on it has more.
    level: Share,
    /// Its own flows, all with a share of `level`.
    own: u32,
    /// Flows that have no share yet.
    open: u32,
    /// An equal part for all its flows: it will not be full below that.
    even: Share,
    /// The least share for which it waits in the queue.
    waits_for: Share,
    /// The last sweep in which it was looked at.
    seen: u64,
    /// The last sweep in which it was settled.
    settled: u64,
}

impl Link {
    /// The share at which it would be full if open and own flows had the same and all others what they have:
    /// a lower bound of its level, as others can only come down.
    const fn full_at(&self) -> Share {
        let flows = self.own as u64 + self.open as u64;
        let room = self.room_for_own();
        if flows == 0 || room <= 0 { 0 } else { room as u64 / flows }
    }

    /// What open and own flows have together.
    const fn room_for_own(&self) -> i64 {
        if self.own == 0 { self.room } else { self.room + (self.level * self.own as u64) as i64 }
    }

    /// Whether it is in order as it is, as long as no other flow opens.
    const fn at_rest(&self, sweep: u64) -> bool {
        let gives_all = self.own == 0 || self.room < self.own as i64 || self.settled == sweep;
        self.open == 0 && self.room >= 0 && gives_all
    }

    /// One of its own flows is no longer.
    const fn disown(&mut self) {
        self.own -= 1;
        if self.own == 0 {
            self.level = NEVER;
        }
    }
}

/// Flows that share links.
#[derive(Debug)]
pub(crate) struct Sharing {
    flows: Vec<Flow>,
    free: Vec<Slot>,
    /// Links of all flows, by slot.
    hops: Vec<u32>,
    /// Links of a slot at most.
    longest: usize,
    links: Vec<Link>,
    /// By link: its flows.
    on_link: Vec<Vec<Slot>>,
    /// Links that flows came to or left since the last sweep.
    changed_links: Vec<u32>,
    /// (share << 32 | link), least first.
    queue: BinaryHeap<Reverse<u128>>,
    sweep: u64,
    changed: Vec<Change>,
    scratch: Vec<Share>,
}

impl Sharing {
    /// `longest` is the number of links of the longest path.
    pub(crate) fn new(capacities: &[Share], longest: usize) -> Self {
        debug_assert!(capacities.iter().all(|&capacity| capacity <= MOST));
        let link = |&capacity: &Share| Link {
            capacity,
            room: capacity as i64,
            level: NEVER,
            own: 0,
            open: 0,
            even: capacity,
            waits_for: NEVER,
            seen: 0,
            settled: 0,
        };
        Self {
            flows: Vec::new(),
            free: Vec::new(),
            hops: Vec::new(),
            longest,
            links: capacities.iter().map(link).collect(),
            on_link: vec![Vec::new(); capacities.len()],
            changed_links: Vec::new(),
            queue: BinaryHeap::new(),
            sweep: 1,
            changed: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// A flow comes. It has a share from the next [`settle`](Self::settle) on.
    pub(crate) fn add(&mut self, path: &[u32]) -> Slot {
        let slot = self.free.pop().unwrap_or(self.flows.len() as Slot);
        let first = slot as usize * self.longest;
        let flow =
            Flow { share: 0, bottleneck: NONE, touched: 2 * self.sweep, first: first as u32, hops: path.len() as u32 };
        if slot as usize == self.flows.len() {
            self.flows.push(flow);
            self.hops.resize(first + self.longest, NONE);
        } else {
            self.flows[slot as usize] = flow;
        }
        self.hops[first..first + path.len()].copy_from_slice(path);
        for &link in path {
            self.on_link[link as usize].push(slot);
            self.links[link as usize].open += 1;
            self.changed_links.push(link);
        }
        slot
    }

    /// A flow with a share goes.
    pub(crate) fn remove(&mut self, slot: Slot) {
        let flow = &self.flows[slot as usize];
        for &number in &self.hops[flow.first as usize..(flow.first + flow.hops) as usize] {
            let there = &mut self.on_link[number as usize];
            if let Some(at) = there.iter().position(|&other| other == slot) {
                there.swap_remove(at);
            }
            let link = &mut self.links[number as usize];
            link.room += flow.share as i64;
            if flow.bottleneck == number {
                link.disown();
            }
            self.changed_links.push(number);
        }
        self.free.push(slot);
    }

    /// What a flow gets.
    pub(crate) fn share(&self, slot: Slot) -> Share {
        self.flows[slot as usize].share
    }

    /// Gives every flow its max-min fair share, and returns those whose share is another now.
    pub(crate) fn settle(&mut self) -> &[Change] {
        self.changed.clear();
        while let Some(number) = self.changed_links.pop() {
            let flows = self.on_link[number as usize].len() as u64;
            let link = &mut self.links[number as usize];
            link.even = link.capacity / flows.max(1);
            // Whoever left can only let others rise, which begins at the link's level.
            let first = if link.open > 0 { link.even.min(link.level) } else { link.level };
            self.wait(number, first);
        }
        while let Some(Reverse(next)) = self.queue.pop() {
            self.look_at(next as u32, (next >> 32) as Share);
        }
        self.sweep += 1;
        &self.changed
    }

    /// Puts a link into the queue, unless it is there already.
    #[inline]
    fn wait(&mut self, number: u32, share: Share) {
        let link = &mut self.links[number as usize];
        if share < link.waits_for {
            link.waits_for = share;
            self.queue.push(Reverse(u128::from(share) << 32 | u128::from(number)));
        }
    }

    /// The sweep has come to `now`: everything below is settled.
    fn look_at(&mut self, number: u32, now: Share) {
        let sweep = self.sweep;
        let link = &mut self.links[number as usize];
        if link.waits_for != now {
            return;
        }
        link.waits_for = NEVER;
        link.seen = sweep;
        if link.at_rest(sweep) {
            return;
        }
        let (full_at, level) = (link.full_at(), link.level);
        if link.settled == sweep {
            // A flow that had the same share at another link that is full too: it stays what it was.
            self.give(number, level, now);
        } else if full_at > level {
            if level > now {
                self.wait(number, level);
            } else {
                self.open_own(number, now);
                self.wait(number, full_at);
            }
        } else if full_at > now {
            self.wait(number, full_at);
        } else {
            let level = self.full_with_others_down(number).min(level);
            if level > now { self.wait(number, level) } else { self.give(number, level, now) }
        }
    }

    /// The share at which a link is full if no flow on it has more than its open and own flows.
    fn full_with_others_down(&mut self, number: u32) -> Share {
        let link = &self.links[number as usize];
        let (mut room, mut equals) = (link.room_for_own(), u64::from(link.own + link.open));
        let mut full_at = link.full_at();
        let on_link = self.on_link[number as usize].iter().map(|&slot| &self.flows[slot as usize]);
        let more = on_link.filter(|flow| flow.share > full_at && flow.bottleneck != number);
        self.scratch.clear();
        self.scratch.extend(more.map(|flow| flow.share));
        // Whoever has most comes down first, until nobody has more. Flows that are open, or were settled in this sweep, never
        // do: they have no more than the sweep has come to.
        self.scratch.sort_unstable();
        while let Some(share) = self.scratch.pop().filter(|&share| share > full_at) {
            room += share as i64;
            equals += 1;
            full_at = room.max(0) as u64 / equals;
        }
        full_at
    }

    /// A link could give its own flows more: they are open from here on.
    fn open_own(&mut self, number: u32, now: Share) {
        let link = &mut self.links[number as usize];
        link.room = link.room_for_own();
        link.open += link.own;
        link.own = 0;
        link.level = NEVER;
        let slots = std::mem::take(&mut self.on_link[number as usize]);
        for &slot in &slots {
            let flow = &mut self.flows[slot as usize];
            if flow.bottleneck != number {
                continue;
            }
            flow.touched = 2 * self.sweep;
            flow.bottleneck = NONE;
            for at in flow.first as usize..(flow.first + flow.hops) as usize {
                let other = self.hops[at];
                if other == number {
                    continue;
                }
                let share = self.flows[slot as usize].share;
                let link = &mut self.links[other as usize];
                link.room += share as i64;
                link.open += 1;
                let mut first = link.even.max(now);
                if first < link.waits_for {
                    // A link not looked at yet has time until then: by that, it will know more.
                    if link.seen == self.sweep {
                        first = first.max(link.full_at());
                    }
                    self.wait(other, first);
                }
            }
        }
        self.on_link[number as usize] = slots;
    }

    /// A link is full at `level`: its open flows, and all that have more, get just that.
    fn give(&mut self, number: u32, level: Share, now: Share) {
        let link = &mut self.links[number as usize];
        if link.level != level {
            // They have more, so they are among those who come down.
            link.own = 0;
            link.level = level;
        }
        link.settled = self.sweep;
        let (opened, settled) = (2 * self.sweep, 2 * self.sweep + 1);
        let slots = std::mem::take(&mut self.on_link[number as usize]);
        for &slot in &slots {
            let flow = &mut self.flows[slot as usize];
            let (was, from) = (flow.share, flow.bottleneck);
            let was_open = flow.touched == opened;
            if flow.touched == settled || (!was_open && was <= level) {
                continue;
            }
            flow.touched = settled;
            flow.bottleneck = number;
            flow.share = level;
            for at in flow.first as usize..(flow.first + flow.hops) as usize {
                let other = self.hops[at];
                let link = &mut self.links[other as usize];
                if was_open {
                    link.open -= 1;
                    link.room -= level as i64;
                    continue;
                }
                link.room += was as i64 - level as i64;
                if other == number {
                    continue;
                }
                if other == from {
                    link.disown();
                }
                let first = link.level.max(now);
                self.wait(other, first);
            }
            self.links[number as usize].own += 1;
            if was != level {
                self.changed.push(Change { slot, was, is: level });
            }
        }
        self.on_link[number as usize] = slots;
    }
}

#[cfg(test)]
mod tests;
