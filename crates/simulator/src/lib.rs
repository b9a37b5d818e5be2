//! A packet-level simulator of TCP in datacenter networks.
//!
//! It carries out a [`Plan`] in simulated time and returns a [`Run`]; a plan of the ideal model it computes without
//! packets. The same plan gives the same
//! bytes on any machine and with either driver: time is whole picoseconds, random choices come from
//! named streams, simultaneous events follow a seeded order, and nothing looks at a clock.

mod control;
mod curve;
mod driver;
mod flows;
mod ideal;
mod link;
mod observe;
mod packet;
mod parts;
mod random;
mod ring;
mod routing;
mod tcp;
mod tie;
mod world;

pub use control::{Control, Progress};
pub use parts::{Parts, Registered};

use incast_results::record::{Outcome, Run};
use incast_scenario::plan::{Model, Plan};

use observe::{Observer, Recorder, Silent};
use world::World;

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
    #[must_use]
    pub fn choose(plan: &Plan) -> (Self, &'static str) {
        if plan.network.links.iter().all(|link| link.delay.0 > 0) {
            (Self::Sweep, "sweep (every link has a delay)")
        } else {
            (Self::EventLoop, "event loop (a link has no delay)")
        }
    }
}

/// How to run.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions {
    /// A driver to use against the rule: for tests and benchmarks.
    pub driver: Option<DriverKind>,
}

/// Why a plan cannot be carried out.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RunError {
    /// A host's place in the network is not clear.
    #[error("host {host} needs exactly one link to a switch and one from it")]
    HostLinks {
        /// Its number.
        host: u32,
    },
    /// Two switches with hosts are not connected.
    #[error("there is no path from {from} to {to}")]
    Unreachable {
        /// Where it begins.
        from: String,
        /// Where it should end.
        to: String,
    },
    /// Packets carry the number of their destination's switch in 16 bits.
    #[error("{with_hosts} switches with hosts are more than the 65,535 that the simulator can address")]
    TooManySwitches {
        /// How many there are.
        with_hosts: usize,
    },
    /// The plan contradicts itself; plans of scenarios do not.
    #[error("the plan cannot be carried out: {0}")]
    Invalid(String),
    /// A server would send on a connection that no client message opens.
    #[error(
        "connection {connection}: its server sends, but its client never opens it; let the handshake take place before the run"
    )]
    NobodyOpens {
        /// Index in the plan.
        connection: u32,
    },
    /// All messages are endless and there is no end time.
    #[error("the run would never end: every message is endless; give it an end time")]
    Endless,
    /// The window sweep was asked for although links have no delay.
    #[error("the window sweep needs a delay on every link")]
    NoDelay,
    /// Packets were lost by the simulator itself.
    #[error(
        "a defect of the simulator: {sent} packets were sent but {accounted} are accounted for; please report this scenario"
    )]
    NotConserved {
        /// By hosts.
        sent: u64,
        /// Delivered, dropped, lost or in the network.
        accounted: u64,
    },
}

/// Carries out a plan with the registered algorithms.
///
/// # Errors
/// See [`RunError`].
pub fn run(plan: &Plan, options: &RunOptions, control: &Control) -> Result<Run, RunError> {
    run_with(&Registered, plan, options, control)
}

/// Carries out a plan with algorithms of your own.
///
/// # Errors
/// See [`RunError`].
pub fn run_with<P: Parts>(parts: &P, plan: &Plan, options: &RunOptions, control: &Control) -> Result<Run, RunError> {
    plan.validate().map_err(RunError::Invalid)?;
    if plan.model == Model::Ideal {
        return ideal::run(plan, control);
    }
    if Recorder::is_wanted(&plan.record) {
        run_observed(parts, plan, options, control, Recorder::new(plan))
    } else {
        run_observed(parts, plan, options, control, Silent)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "options will grow, and callers pass them on")]
fn run_observed<P: Parts, O: Observer>(
    parts: &P,
    plan: &Plan,
    options: &RunOptions,
    control: &Control,
    observer: O,
) -> Result<Run, RunError> {
    let (chosen, rule) = DriverKind::choose(plan);
    let (driver, rule) = match options.driver {
        Some(DriverKind::Sweep) if chosen != DriverKind::Sweep => return Err(RunError::NoDelay),
        // What is recorded is the rule's choice: results are the same bytes whichever driver ran.
        Some(driver) => (driver, rule),
        None => (chosen, rule),
    };
    let mut world = World::new(plan, parts, observer)?;
    if world.endless && world.unfinished == 0 && plan.stop_at.is_none() {
        return Err(RunError::Endless);
    }
    control.begin(world.unfinished);
    let (end, outcome): (u64, Outcome) = match driver {
        DriverKind::Sweep => driver::sweep::run(&mut world, plan, control),
        DriverKind::EventLoop => driver::event_loop::run(&mut world, plan, control),
    };
    world.finish(end, outcome, rule)
}
