//! The rule for simultaneous events.
//!
//! Events at the same picosecond and node happen in the order of a hash of (seed, time, entity), where
//! the entity is the link a packet arrives on, or the timer or start that falls due. The order at one
//! instant says nothing about the order at the next, so no port or sender is favoured; it depends on
//! nothing that the program happens to do first, so every driver sees the same. Departures of a port
//! come before arrivals at it.

use incast_protocols::random::{GOLDEN, mix};

/// What happens at a node: a link delivers, or something of its own falls due.
///
/// The upper byte is the kind, the rest a number that is the same in every driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entity(u64);

/// What an [`Entity`] stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A packet arrives on this link.
    Link(u32),
    /// A timer of one end of a connection: `2 * connection + end`.
    Endpoint(u32),
    /// A planned message is handed over.
    Send(u32),
    /// The timer of a host's receiver controller.
    Nic(u32),
    /// The timer of an aggregator's scheduler.
    Scheduler(u32),
    /// An aggregator wants to ask a worker: index among the responses.
    Ask(u32),
    /// A worker has its response ready: index among the responses.
    Respond(u32),
    /// An aggregator's first round begins.
    Begin(u32),
    /// The size of a planned message becomes known in mid-flow.
    Known(u32),
}

impl Entity {
    #[inline]
    /// The arrival of a packet on `link`.
    #[must_use]
    pub const fn link(link: u32) -> Self {
        Self(link as u64)
    }

    #[inline]
    /// What falls due, as a number.
    #[must_use]
    pub const fn of(kind: Kind) -> Self {
        let (tag, number) = match kind {
            Kind::Link(n) => (0, n),
            Kind::Endpoint(n) => (1, n),
            Kind::Send(n) => (2, n),
            Kind::Nic(n) => (3, n),
            Kind::Scheduler(n) => (4, n),
            Kind::Ask(n) => (5, n),
            Kind::Respond(n) => (6, n),
            Kind::Begin(n) => (7, n),
            Kind::Known(n) => (8, n),
        };
        Self(tag << 56 | number as u64)
    }

    #[inline]
    /// What it stands for.
    #[must_use]
    pub const fn kind(self) -> Kind {
        let number = self.0 as u32;
        match self.0 >> 56 {
            0 => Kind::Link(number),
            1 => Kind::Endpoint(number),
            2 => Kind::Send(number),
            3 => Kind::Nic(number),
            4 => Kind::Scheduler(number),
            5 => Kind::Ask(number),
            6 => Kind::Respond(number),
            7 => Kind::Begin(number),
            _ => Kind::Known(number),
        }
    }
}

/// The seeded order of simultaneous events.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    seed: u64,
}

impl Order {
    /// The order of a run with this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed: mix(seed.wrapping_add(GOLDEN)) }
    }

    #[inline]
    /// Its place among what happens at `time`: the smaller comes first.
    #[must_use]
    pub const fn rank(self, time: u64, entity: Entity) -> u64 {
        mix((time ^ self.seed).wrapping_mul(GOLDEN) ^ entity.0)
    }

    /// Whether `a` happens before `b`. The hash is computed only when the times are equal.
    #[inline]
    #[must_use]
    pub fn before(self, a: (u64, Entity), b: (u64, Entity)) -> bool {
        if a.0 != b.0 {
            return a.0 < b.0;
        }
        self.tied_before(a.0, a.1, b.1)
    }

    // Inlined, it would compute the hash of what is being sorted in before it is known whether anything is tied with it.
    #[cold]
    #[inline(never)]
    fn tied_before(self, time: u64, a: Entity, b: Entity) -> bool {
        (self.rank(time, a), a) < (self.rank(time, b), b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_two_equal_links_is_first_half_of_the_time() {
        let order = Order::new(7);
        let first =
            (0..10_000_u64).filter(|time| order.before((*time, Entity::link(3)), (*time, Entity::link(4)))).count();
        assert!((4_850..5_150).contains(&first), "{first}");
    }

    #[test]
    fn each_of_eight_links_is_at_each_place_equally_often() {
        let order = Order::new(1);
        let mut at_place = [[0_u32; 8]; 8];
        for time in 0..8_000 {
            let mut links: Vec<u32> = (0..8).collect();
            links.sort_by(|&a, &b| {
                if order.before((time, Entity::link(a)), (time, Entity::link(b))) {
                    std::cmp::Ordering::Less
                } else {
                    std::cmp::Ordering::Greater
                }
            });
            for (place, link) in links.into_iter().enumerate() {
                at_place[link as usize][place] += 1;
            }
        }
        assert!(at_place.iter().flatten().all(|n| (880..1_120).contains(n)), "{at_place:?}");
    }

    #[test]
    fn an_entity_keeps_its_kind_and_number() {
        for number in [0, 9, u32::MAX] {
            for kind in [
                Kind::Link(number),
                Kind::Endpoint(number),
                Kind::Send(number),
                Kind::Nic(number),
                Kind::Scheduler(number),
                Kind::Ask(number),
                Kind::Respond(number),
                Kind::Begin(number),
                Kind::Known(number),
            ] {
                assert_eq!(Entity::of(kind).kind(), kind);
            }
        }
    }

    /// Two seeds agree on what is first half of the time.
    #[test]
    fn the_seed_decides() {
        let first = |seed, time| Order::new(seed).before((time, Entity::link(3)), (time, Entity::link(4)));
        let agree = (0..10_000_u64).filter(|&time| first(1, time) == first(2, time)).count();
        assert!((4_850..5_150).contains(&agree), "{agree}");
    }

    #[test]
    fn nothing_happens_before_itself() {
        let event = (5, Entity::link(1));
        assert!(!Order::new(1).before(event, event));
    }
}
