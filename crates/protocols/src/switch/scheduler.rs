//! Which of a port's queues sends next.

use crate::registry::registry;
use crate::units::Bytes;

pub mod deficit_round_robin;
pub mod fifo;
pub mod strict_priority;

registry! {
    Scheduler: Scheduler, built from SchedulerContext;
    /// Any registered scheduler, called without a vtable.
    any AnyScheduler;
    /// A scheduler and its parameters, as a scenario names it.
    choice SchedulerChoice;
    "fifo" = fifo::Fifo,
    "strict-priority" = strict_priority::StrictPriority,
    "deficit-round-robin" = deficit_round_robin::DeficitRoundRobin,
}

/// What a scheduler is told when its port is built: nothing so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulerContext {}

/// Queues that a port can have: packets carry their class in three bits.
pub const MOST_QUEUES: u32 = 8;

/// The first packets of a port's queues: their bytes on the wire, or nothing where a queue is empty.
pub type Heads = [Option<Bytes>; MOST_QUEUES as usize];

/// Chooses among the queues of one output port. A packet waits in the queue of its class; one whose class is higher than
/// there are queues in the last.
#[enum_dispatch::enum_dispatch]
#[auto_impl::auto_impl(Box)]
pub trait Scheduler: core::fmt::Debug + dyn_clone::DynClone {
    /// How many queues there are, 1 to [`MOST_QUEUES`]. Constant over a run.
    fn queues(&self) -> u32;

    /// The queue whose first packet is sent now. One at least is not empty, and only such a queue may be named.
    fn next(&mut self, heads: &Heads) -> usize;
}

impl SchedulerChoice {
    /// How many queues a port has with it.
    #[must_use]
    pub fn queues(&self) -> u32 {
        self.build(&SchedulerContext {}).queues()
    }
}

impl Default for SchedulerChoice {
    fn default() -> Self {
        Self::Fifo(fifo::Config {})
    }
}
