//! What all worlds have in common.
//!
//! A world carries out a [`Plan`] and says what it has seen as a [`Run`]. It answers two calls: *can you carry out this
//! plan* ([`World::refusals`]) and *carry it out* ([`World::run`]). No world knows another.
//!
//! Worlds that compute in simulated time share what has to agree between them: which path a connection takes
//! ([`Routes`]), the rows of messages ([`rows`]), the order of simultaneous events ([`tie`]), named random streams
//! ([`random`]) and the delivery curve ([`Curve`]). Worlds with packets tell incast from them alike ([`incasts`]).

mod control;
mod curve;
pub mod incasts;
mod pilot;
pub mod random;
mod routing;
pub mod rows;
mod starts;
pub mod tie;

pub use control::{Control, Progress};
pub use curve::Curve;
pub use pilot::{Shown, Work};
pub use routing::{Forwarding, Routes};
pub use starts::Starts;

use std::fmt;
use std::num::NonZeroUsize;

use incast_plan::Plan;
use incast_protocols::Bytes;
use incast_record::Run;

/// Later than anything that can happen.
pub const NEVER: u64 = u64::MAX;

/// 53 days: a run whose messages can never complete ends here, long before picoseconds run out.
pub const FOREVER: u64 = 1 << 62;

/// A message's number in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MessageId {
    /// Index among the results' flows.
    Flow(u32),
    /// The request of an aggregator for this response (index among the responses).
    Request(u32),
}

/// Something that carries out plans.
pub trait World: Sync {
    /// The name by which `incast run --world` and scenarios choose it.
    fn name(&self) -> &'static str;

    /// One line for people who choose.
    fn summary(&self) -> &'static str;

    /// Everything in `plan` that this world cannot honour; nothing if it can carry the plan out.
    fn refusals(&self, plan: &Plan) -> Vec<Refusal>;

    /// What carrying out `plan` will take if nothing is lost.
    fn cost(&self, plan: &Plan) -> Cost;

    /// The same, where a pilot has shown what a plan can hardly tell.
    fn cost_shown(&self, plan: &Plan, _shown: Shown) -> Cost {
        self.cost(plan)
    }

    /// How many threads a run of `plan` uses if `wish` are asked for; without a wish the world chooses.
    fn threads(&self, _plan: &Plan, wish: Option<NonZeroUsize>) -> Threads {
        let why = wish.is_some_and(|wish| wish.get() > 1).then(|| format!("the world {} uses one", self.name()));
        Threads { count: 1, why }
    }

    /// Carries out `plan`. `control` reports progress and can cancel it; what was finished is then the result.
    ///
    /// # Errors
    /// See [`RunError`].
    fn run(&self, plan: &Plan, control: &Control) -> Result<Run, RunError>;
}

/// How many threads a run goes on. Its results do not depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Threads {
    /// At least one.
    pub count: usize,
    /// Why these are fewer than somebody wants.
    pub why: Option<String>,
}

/// What a run takes: an estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Packets times the links that they cross; zero in a world without packets.
    pub packet_hops: u64,
    /// Time on one core of a cloud machine of 2026, without writing tables.
    pub seconds: f64,
    /// Greatest memory, with that of the plan, if rows may go to disk ([`Control::spilling`]).
    pub memory: Bytes,
    /// What rows take beside it if memory holds all of them.
    pub rows: Bytes,
    /// The most ends of connections that are in memory at once; zero in a world without packets.
    pub open_ends: u64,
    /// What each of them takes.
    pub open_end: Bytes,
}

impl Cost {
    /// What a process takes that has loaded everything it needs to run a scenario from Python and to write its tables.
    pub const PROCESS: Bytes = Bytes(33_000_000);
}

/// A key of a scenario that a world cannot honour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The key as a scenario writes it, such as `record.windows`; an index into an array is a number of its own.
    pub key: Vec<String>,
    /// What the world cannot do, as a sentence.
    pub why: String,
}

impl Refusal {
    /// The refusal of `key`, whose names are separated by dots.
    #[must_use]
    pub fn new(key: &str, why: impl Into<String>) -> Self {
        Self { key: key.split('.').map(str::to_owned).collect(), why: why.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key.join("."), self.why)
    }
}

/// Why a plan cannot be carried out.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RunError {
    /// The world cannot honour something that the plan asks for.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Refused(Vec<Refusal>),
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
    #[error("{with_hosts} switches with hosts are more than the 65,535 that can be addressed")]
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
    /// The machine that carries the plan out refused something, or was too busy.
    #[error("{0}")]
    Failed(String),
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
