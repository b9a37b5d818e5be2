//! A short run that shows what a long one takes.

use std::num::NonZeroUsize;

use incast_plan::Plan;
use incast_protocols::Bytes;
use incast_world::{Control, Cost, Shown, Work};

use crate::Job;

/// The first part of a run: of all its traffic, or of some connections if many are open at once.
#[derive(Debug)]
pub struct Pilot {
    /// What is run.
    pub job: Job,
    /// The whole, if that is more.
    whole: Option<Plan>,
    /// Whether all that is open at once in the whole is open in it, too.
    is_beginning: bool,
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
    /// It saw neither all connections that are open at once nor the end.
    pub is_guess: bool,
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
        let is_beginning = cost.open_ends <= 2 * Self::MOST_CONNECTIONS as u64;
        if is_beginning && cost.memory <= Self::MOST_MEMORY {
            return Some(Self { job, whole: None, is_beginning });
        }
        // No more connections than messages have any in the beginning of a run.
        let connections = if is_beginning { Self::MOST_MESSAGES } else { Self::MOST_CONNECTIONS };
        let part = job.plan.part(connections, Self::MOST_MESSAGES);
        let fits = job.world.cost(&part).memory <= Self::MOST_MEMORY;
        fits.then(|| Self { whole: Some(job.plan), job: Job { plan: part, world: job.world }, is_beginning })
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
        let all = self.whole.as_ref().unwrap_or(plan);
        let (planned, planned_of_all) = (world.cost(plan), world.cost(all));
        let is_over = control.progress().packet_hops < Self::PACKET_HOPS;
        let (of_part, of_all) = if self.is_beginning && !is_over {
            let shown = Work::of(all).shown(control, planned_of_all.open_ends)?;
            // Connections that come after it make a packet-hop dearer by less than the plan's time says.
            let packet_hops = scaled(shown, &planned_of_all, &planned).packet_hops;
            (Shown { packet_hops, ..shown }, shown)
        } else {
            let shown = Work::of(plan).shown(control, planned.open_ends)?;
            let mut of_all = scaled(shown, &planned, &planned_of_all);
            let lost = lost(shown, &planned);
            if !self.is_beginning && lost > 0.0 {
                let more = self.losses_grow(lost, &planned, &planned_of_all)? - 1.0;
                of_all.packet_hops += (planned_of_all.packet_hops as f64 * lost * more) as u64;
            }
            (shown, of_all)
        };
        let cost = world.cost_shown(all, of_all);
        Some(Told {
            cost,
            packet_hops: of_part.packet_hops,
            times: cost.seconds / world.cost_shown(plan, of_part).seconds,
            is_guess: !self.is_beginning && !is_over,
        })
    }

    /// How many times as much the whole loses for each packet-hop of its plan as the part, which has `lost`: as a power of the
    /// connections, by a part of the part. A round of retransmissions delivers no more where there are more connections, so that
    /// the power is one at most.
    fn losses_grow(&self, lost: f64, planned: &Cost, planned_of_all: &Cost) -> Option<f64> {
        let Job { plan, world } = &self.job;
        let smaller = plan.part(Self::MOST_CONNECTIONS / 4, Self::MOST_MESSAGES / 4);
        let planned_of_smaller = world.cost(&smaller);
        let control = Control::default();
        Self::limit(&control);
        world.run(&smaller, &control).ok()?;
        let shown = Work::of(&smaller).shown(&control, planned_of_smaller.open_ends)?;
        let times = |more: &Cost, fewer: &Cost| more.open_ends as f64 / fewer.open_ends.max(1) as f64;
        let of_smaller = self::lost(shown, &planned_of_smaller);
        let power = (lost / of_smaller).log(times(planned, &planned_of_smaller)).clamp(0.0, 1.0);
        // Without more connections in the part it may be no number.
        Some(if power.is_nan() { 1.0 } else { times(planned_of_all, planned).powf(power) })
    }
}

/// Packet-hops that losses cost, for each of a plan.
fn lost(shown: Shown, planned: &Cost) -> f64 {
    (shown.packet_hops as f64 / planned.packet_hops.max(1) as f64 - 1.0).max(0.0)
}

/// What one plan has shown, of another: as much more or less as they say.
fn scaled(shown: Shown, from: &Cost, to: &Cost) -> Shown {
    let times = |shown: u64, from: u64, to: u64| (shown as f64 * to as f64 / from.max(1) as f64) as u64;
    Shown {
        packet_hops: times(shown.packet_hops, from.packet_hops, to.packet_hops),
        open_ends: times(shown.open_ends, from.open_ends, to.open_ends),
    }
}
