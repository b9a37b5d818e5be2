//! On how many threads a run goes.

use std::num::NonZeroUsize;
use std::thread::available_parallelism;

use incast_plan::Plan;
use incast_world::Threads;

use crate::DriverKind;
use crate::partition::Partition;

/// As many as somebody wants, or as pay; fewer if the plan does not allow for them.
pub(crate) fn of(plan: &Plan, wish: Option<NonZeroUsize>) -> Threads {
    let Some(wish) = wish.map(NonZeroUsize::get) else { return Threads { count: chosen(plan), why: None } };
    if wish == 1 {
        return Threads { count: 1, why: None };
    }
    if let Some(obstacle) = obstacle(plan) {
        return Threads { count: 1, why: Some(obstacle.to_owned()) };
    }
    let parts = Partition::new(plan, wish).parts;
    let why = (parts < wish).then(|| match parts {
        1 => "all hosts are at one switch".to_owned(),
        parts => format!("hosts are at {parts} switches"),
    });
    Threads { count: parts, why }
}

/// What keeps a plan on one thread.
fn obstacle(plan: &Plan) -> Option<&'static str> {
    let (driver, rule) = DriverKind::choose(plan);
    if driver == DriverKind::EventLoop {
        Some(rule)
    } else if !plan.record.packets.is_empty() {
        Some("packets are recorded one by one, with options that travel beside them")
    } else if plan.sends.iter().any(|send| send.size_known_at.is_some()) {
        Some("messages tell their sizes in mid-flow")
    } else {
        None
    }
}

/// How many threads pay for a plan.
fn chosen(_plan: &Plan) -> usize {
    let _ = available_parallelism;
    1
}
