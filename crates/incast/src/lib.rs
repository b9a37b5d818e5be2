//! Everything a program needs to run scenarios of TCP incast: one dependency instead of eight.
//!
//! ```
//! use incast::{Control, Scenario, world};
//!
//! let scenario = Scenario::parse(incast::scenario::example("incast").unwrap(), "incast.toml", &[]).unwrap();
//! let plan = scenario.plan(None).unwrap();
//! let run = world("packets").unwrap().run(&plan, &Control::default()).unwrap();
//! assert!(run.flows.iter().all(|flow| flow.end.is_some()));
//! ```

pub use incast_plan as plan;
pub use incast_protocols as protocols;
pub use incast_record as record;
pub use incast_scenario as scenario;
pub use incast_units as units;

pub use pilot::{Pilot, Told};

pub use incast_ideal::Ideal;
pub use incast_linux::Linux;
pub use incast_packets::Packets;
pub use incast_plan::Plan;
pub use incast_record::Run;
pub use incast_scenario::{Override, Report, Scenario};
pub use incast_world::{Control, Cost, Progress, Refusal, RunError, Shown, Threads, Work, World};

mod pilot;

use std::fmt;

/// All worlds; the first is the default.
pub const WORLDS: &[&dyn World] = &[&Packets, &Ideal, &Linux];

/// The world of this name.
#[must_use]
pub fn world(name: &str) -> Option<&'static dyn World> {
    WORLDS.iter().copied().find(|world| world.name() == name)
}

/// A plan, and the world that carries it out.
#[derive(Clone)]
pub struct Job {
    /// What is carried out.
    pub plan: Plan,
    /// Where.
    pub world: &'static dyn World,
}

impl Job {
    /// Writes a scenario out for the world of this name, or else the one that the scenario asks for, or else the first.
    ///
    /// # Errors
    /// The world is unknown; a draw fails ([`Scenario::plan`]); or the world cannot honour some keys, all of which are
    /// listed, each with its place in the file.
    pub fn new(scenario: &Scenario, seed: Option<u64>, name: Option<&str>) -> Result<Self, Report> {
        Self::new_unless(scenario, seed, name, &|| false)
    }

    /// The same, for a caller that may lose interest meanwhile ([`Scenario::plan_unless`]).
    ///
    /// # Errors
    /// As before, or it was cancelled.
    pub fn new_unless(
        scenario: &Scenario,
        seed: Option<u64>,
        name: Option<&str>,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Self, Report> {
        let name = name.or(scenario.world()).unwrap_or(WORLDS[0].name());
        let Some(world) = world(name) else {
            let known: Vec<_> = WORLDS.iter().map(|world| format!("\"{}\"", world.name())).collect();
            let why = format!("unknown world \"{name}\"; allowed: {}", known.join(", "));
            return Err(scenario.locate(&[Refusal::new("run.world", why)].map(|refusal| (refusal.key, refusal.why))));
        };
        let plan = scenario.plan_unless(seed, cancelled)?;
        let refusals = world.refusals(&plan);
        if refusals.is_empty() {
            return Ok(Self { plan, world });
        }
        let refused: Vec<_> = refusals.into_iter().map(|refusal| (refusal.key, refusal.why)).collect();
        Err(scenario.locate(&refused))
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("plan", &self.plan).field("world", &self.world.name()).finish()
    }
}
