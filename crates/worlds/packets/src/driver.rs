//! What makes time pass. Two drivers call the same nodes and give the same bytes.

pub(crate) mod calendar;
pub(crate) mod event_loop;
pub(crate) mod parallel;
pub(crate) mod sweep;
pub(crate) mod timers;

use incast_plan::Plan;
use incast_record::Outcome;

use crate::observe::Observer;
use crate::world::{Schedule, World};
use incast_world::tie::{Entity, Kind};
use incast_world::{Control, FOREVER};

/// The picoseconds after which a run with endless messages may stop: the rest of the window in which
/// the last other message completed. Both drivers use the same windows for this.
pub(crate) fn window(plan: &Plan) -> u64 {
    /// Where links have no delay.
    const MICROSECOND: u64 = 1_000_000;
    match plan.network.links.iter().map(|link| link.delay.0).min() {
        None | Some(0) => MICROSECOND,
        Some(least) => least,
    }
}

/// How far a run goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Horizon {
    /// Nothing at or after this happens.
    pub(crate) at: u64,
    window: u64,
    time_up: bool,
    endless: bool,
}

impl Horizon {
    pub(crate) fn new(plan: &Plan) -> Self {
        let at = plan.stop_at.map_or(FOREVER, |stop| stop.0.min(FOREVER));
        let endless = plan.sends.iter().any(|send| send.size().is_none());
        Self { at, window: window(plan), time_up: plan.stop_at.is_some(), endless }
    }

    /// Once everything that has an end is complete, what has none need not go on.
    pub(crate) const fn update(&mut self, unfinished: u64, finished_at: u64) {
        if unfinished == 0 && self.endless && !self.time_up {
            self.at = (finished_at / self.window + 1) * self.window;
        }
    }

    /// Whether a window begins before it.
    pub(crate) const fn reaches(&self, window: u64) -> bool {
        window * self.window < self.at
    }

    /// How far time came in a run that was not interrupted.
    pub(crate) const fn end<O: Observer>(&self, world: &World<'_, O>) -> u64 {
        let at_rest = world.unfinished == 0 && !self.endless;
        if self.at == FOREVER || at_rest { world.last_delivery } else { self.at }
    }

    pub(crate) const fn outcome<O: Observer>(&self, world: &World<'_, O>) -> Outcome {
        if world.unfinished == 0 && !(self.time_up && self.endless) { Outcome::Complete } else { Outcome::TimeUp }
    }
}

/// How often a run looks at its control.
#[derive(Debug)]
pub(crate) struct Looks {
    most: u32,
    /// Steps between two looks.
    every: u32,
    left: u32,
    /// Of a pilot: about how many packet-hops lie between two looks.
    pace: Option<u64>,
    packet_hops: u64,
}

impl Looks {
    /// Looks after every `most` steps. A pilot may look more often, so that it ends soon after its last packet-hop.
    pub(crate) fn new(most: u32, control: &Control) -> Self {
        const OF_A_PILOT: u64 = 32;
        let pace = control.ends_after().map(|all| all / OF_A_PILOT);
        let every = if pace.is_some() { 1 } else { most };
        Self { most, every, left: every, pace, packet_hops: 0 }
    }

    /// A step was made. Returns whether it is time to look.
    #[inline]
    pub(crate) const fn are_due(&mut self) -> bool {
        self.left -= 1;
        self.left == 0
    }

    /// A look found `packet_hops`. Sets how many steps later the next one is.
    pub(crate) fn seen(&mut self, packet_hops: u64) {
        if let Some(pace) = self.pace {
            let many = packet_hops - self.packet_hops > pace;
            self.every = if many { (self.every / 2).max(1) } else { (self.every * 2).min(self.most) };
            self.packet_hops = packet_hops;
        }
        self.left = self.every;
    }
}

/// Arms the first round of every aggregator.
pub(crate) fn begin_programs<O: Observer>(world: &World<'_, O>, plan: &Plan, schedule: &mut impl Schedule) {
    for (number, aggregator) in plan.aggregators.iter().enumerate().filter(|one| world.has(one.1.host)) {
        schedule.arm(aggregator.start.0, aggregator.host, Entity::of(Kind::Begin(number as u32)));
    }
}

/// Lets others see how far a run has come, and stop it.
pub(crate) fn report<O: Observer>(world: &World<'_, O>, now: u64, packet_hops: u64, control: &Control) -> bool {
    control.note_payload(world.payload());
    control.note_open_ends(world.open_ends());
    control.report(now, packet_hops, world.unfinished);
    control.is_enough(|| world.waiting_ends())
        || control.is_cancelled()
        || control.is_too_much(world.observer.recorded())
        || world.written().is_err()
}
