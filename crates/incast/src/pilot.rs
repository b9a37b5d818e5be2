//! A short run that shows what a long one takes.

use std::num::NonZeroUsize;

use incast_plan::Plan;
use incast_protocols::Bytes;
use incast_world::{Control, Cost, Shown, Work};

use crate::Job;

/// The first part of a run: of all its traffic, or of some connections if there are many.
#[derive(Debug)]
pub struct Pilot {
    /// What is run.
    pub job: Job,
    /// The whole, if that is more.
    whole: Option<Plan>,
}

/// What a pilot tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Told {
    /// What the whole run takes.
    pub cost: Cost,
    /// Packet-hops of what was run, if it had been run to its end.
    pub packet_hops: u64,
    /// How many times as long as that the whole run takes.
    pub times: f64,
}

impl Pilot {
    /// It ends after this many packet-hops. An incast that collapses is past the first round of its losses by then, if it has
    /// no more than [`MOST_CONNECTIONS`](Self::MOST_CONNECTIONS).
    pub const PACKET_HOPS: u64 = 1_000_000;
    /// The most connections that are open at once.
    pub const MOST_CONNECTIONS: usize = 20_000;
    /// The most messages. Each takes four packet-hops or more.
    pub const MOST_MESSAGES: usize = 250_000;
    /// The most memory that a pilot may take.
    pub const MOST_MEMORY: Bytes = Bytes(300_000_000);

    /// That of a run; nothing if even a part of it takes too much memory.
    #[must_use]
    pub fn new(job: Job, cost: &Cost) -> Option<Self> {
        if cost.open_ends <= 2 * Self::MOST_CONNECTIONS as u64 && cost.memory <= Self::MOST_MEMORY {
            return Some(Self { job, whole: None });
        }
        let part = job.plan.part(Self::MOST_CONNECTIONS, Self::MOST_MESSAGES);
        let fits = job.world.cost(&part).memory <= Self::MOST_MEMORY;
        fits.then(|| Self { whole: Some(job.plan), job: Job { plan: part, world: job.world } })
    }

    /// Has a run that is about to begin end when the pilot does, on one thread.
    pub fn limit(control: &Control) {
        control.end_after(Self::PACKET_HOPS);
        control.use_threads(NonZeroUsize::MIN);
    }

    /// What it has shown, once it has ended; nothing if it was ended before.
    #[must_use]
    pub fn told(&self, control: &Control) -> Option<Told> {
        let Job { plan, world } = &self.job;
        let planned = world.cost(plan);
        let shown = Work::of(plan).shown(control, planned.open_ends)?;
        let part = world.cost_shown(plan, shown);
        let all = self.whole.as_ref().unwrap_or(plan);
        let shown_of_all = match &self.whole {
            Some(whole) => of_whole(shown, &planned, &world.cost(whole)),
            None => shown,
        };
        let cost = world.cost_shown(all, shown_of_all);
        Some(Told { cost, packet_hops: shown.packet_hops, times: cost.seconds / part.seconds })
    }
}

/// What a part has shown, of the whole: as much more as their plans say.
fn of_whole(shown: Shown, part: &Cost, whole: &Cost) -> Shown {
    let times = |shown: u64, part: u64, whole: u64| (shown as f64 * whole as f64 / part.max(1) as f64) as u64;
    Shown {
        packet_hops: times(shown.packet_hops, part.packet_hops, whole.packet_hops),
        open_ends: times(shown.open_ends, part.open_ends, whole.open_ends),
    }
}
