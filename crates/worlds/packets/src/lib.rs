//! A packet-level simulator of TCP in datacenter networks.
//!
//! It carries out a [`Plan`] in simulated time and returns a [`Run`]. The same plan gives the same
//! bytes on any machine and with either driver: time is whole picoseconds, random choices come from
//! named streams, simultaneous events follow a seeded order, and nothing looks at a clock.

mod classes;
pub mod conversation;
mod cost;
mod driver;
mod link;
mod noise;
mod observe;
mod packet;
mod partition;
mod ring;
#[cfg(debug_assertions)]
mod tally;
mod tcp;
mod threads;
mod world;

pub use incast_world::{Control, Progress, RunError};

use std::num::NonZeroUsize;

use incast_plan::{Link, Plan, Reorder};
use incast_record::{Outcome, Run};
use incast_world::{Cost, Refusal, Shown, Threads, World as AnyWorld};

use observe::{Observer, Recorder, Silent};
use world::World;

/// The packet simulator as a world.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packets;

impl AnyWorld for Packets {
    fn name(&self) -> &'static str {
        "packets"
    }

    fn summary(&self) -> &'static str {
        "every packet of the stacks at the ends, through queues, in simulated time"
    }

    fn refusals(&self, _plan: &Plan) -> Vec<Refusal> {
        Vec::new()
    }

    fn cost(&self, plan: &Plan) -> Cost {
        cost::of(plan, None)
    }

    fn cost_shown(&self, plan: &Plan, shown: Shown) -> Cost {
        cost::of(plan, Some(shown))
    }

    fn threads(&self, plan: &Plan, wish: Option<NonZeroUsize>) -> Threads {
        threads::of(plan, wish)
    }

    fn run(&self, plan: &Plan, control: &Control) -> Result<Run, RunError> {
        run(plan, &RunOptions::default(), control)
    }
}

/// What makes time pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverKind {
    /// Windows of one link delay; needs every link to have one.
    Sweep,
    /// One event per packet-hop.
    EventLoop,
}

impl DriverKind {
    /// The driver for a plan, and the rule that chose it. Results do not depend on it.
    ///
    /// The sweep pays for every window in which anything happens, the event loop for every packet-hop. So the sweep is
    /// for networks that could carry a packet or more within a window, which is the smallest delay of a link. Links on
    /// which packets overtake each other are looked at in every window in which anything is under way on them, which
    /// must not be many for each packet.
    #[must_use]
    pub fn choose(plan: &Plan) -> (Self, &'static str) {
        const PACKET_BITS: u128 = 8 * 1500;
        const SECOND: u128 = 1_000_000_000_000;
        // A look takes a tenth of a packet-hop, and what it keeps from the cache some more.
        const MOST_LOOKS: f64 = 8.0;
        let links = &plan.network.links;
        let window = links.iter().map(|link| link.delay.0).min().unwrap_or(0);
        let bits_per_second: u128 = links.iter().map(|link| u128::from(link.rate.0)).sum();
        if window == 0 {
            (Self::EventLoop, "event loop (a link has no delay)")
        } else if bits_per_second * u128::from(window) < PACKET_BITS * SECOND {
            (Self::EventLoop, "event loop (a link is too short for a packet per window)")
        } else if links.iter().any(|link| looks(link, window) > MOST_LOOKS) {
            (Self::EventLoop, "event loop (packets overtake each other on a link, for many windows of the shortest)")
        } else {
            (Self::Sweep, "sweep (every link has a delay)")
        }
    }
}

/// Whether all messages are endless, and nothing else ends the run.
fn never_ends(plan: &Plan) -> bool {
    let asked = || plan.aggregators.iter().flat_map(|one| &one.rounds).flat_map(|round| &round.responses);
    let mut sizes = plan.sends.iter().map(incast_plan::Send::size).chain(asked().map(|one| one.message.size));
    plan.stop_at.is_none() && plan.sends.iter().any(|send| send.size().is_none()) && sizes.all(|size| size.is_none())
}

/// In how many windows the sweep looks at a link for each of its packets, on average, if they can overtake each other.
fn looks(link: &Link, window: u64) -> f64 {
    let under_way = |reorder: Reorder| link.delay.0 as f64 + reorder.probability * reorder.extra.0 as f64 / 2.0;
    link.reorder.map_or(0.0, |reorder| under_way(reorder) / window as f64)
}

/// How to run.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions {
    /// A driver to use against the rule: for tests and benchmarks.
    pub driver: Option<DriverKind>,
}

/// Carries out a plan.
///
/// # Errors
/// See [`RunError`].
pub fn run(plan: &Plan, options: &RunOptions, control: &Control) -> Result<Run, RunError> {
    plan.validate().map_err(RunError::Invalid)?;
    let run = if Recorder::is_wanted(&plan.record) {
        run_observed(plan, options, control, || Recorder::new(plan, control.spill()))
    } else {
        run_observed(plan, options, control, || Silent)
    }?;
    #[cfg(debug_assertions)]
    tally::add(&run);
    Ok(run)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "options will grow, and callers pass them on")]
fn run_observed<O: Observer + Send>(
    plan: &Plan,
    options: &RunOptions,
    control: &Control,
    observer: impl Fn() -> O + Sync,
) -> Result<Run, RunError> {
    let (chosen, rule) = DriverKind::choose(plan);
    let (driver, rule) = match options.driver {
        Some(DriverKind::Sweep) if plan.network.links.iter().any(|link| link.delay.0 == 0) => {
            return Err(RunError::NoDelay);
        }
        // What is recorded is the rule's choice: results are the same bytes whichever driver ran.
        Some(driver) => (driver, rule),
        None => (chosen, rule),
    };
    if never_ends(plan) {
        return Err(RunError::Endless);
    }
    let partition = (driver == DriverKind::Sweep).then(|| threads::parts(plan, control.threads())).flatten();
    if let Some(partition) = partition {
        let (world, end, outcome) = driver::parallel::run(plan, &partition, control, observer)?;
        return world.finish(end, outcome, rule);
    }
    let mut world = World::new(plan, observer(), control.spill())?;
    control.begin(world.unfinished);
    let (end, outcome): (u64, Outcome) = match driver {
        DriverKind::Sweep => driver::sweep::run(&mut world, plan, control),
        DriverKind::EventLoop => driver::event_loop::run(&mut world, plan, control),
    };
    world.credit_unfinished();
    world.finish(end, outcome, rule)
}
