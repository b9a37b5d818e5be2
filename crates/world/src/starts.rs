//! The order in which planned messages start.

use incast_plan::Plan;

use crate::tie::{Entity, Kind, Order};

/// The planned messages in the order in which they start; the plan's own order says nothing where
/// several start together.
#[derive(Debug)]
pub struct Starts {
    order: Vec<u32>,
    next: usize,
}

impl Starts {
    /// All planned messages of `plan`.
    #[must_use]
    pub fn new(plan: &Plan, order: Order) -> Self {
        Self::of(plan, order, |_| true)
    }

    /// Those planned messages that are `wanted`, by their numbers.
    #[must_use]
    pub fn of(plan: &Plan, order: Order, wanted: impl Fn(u32) -> bool) -> Self {
        let mut indices: Vec<u32> = (0..plan.sends.len() as u32).filter(|index| wanted(*index)).collect();
        indices.sort_by_key(|&index| {
            let at = plan.sends[index as usize].start.0;
            (at, order.rank(at, Entity::of(Kind::Send(index))), index)
        });
        Self { order: indices, next: 0 }
    }

    /// The time of the next start, and what starts.
    #[must_use]
    pub fn first(&self, plan: &Plan) -> Option<(u64, Entity)> {
        let index = *self.order.get(self.next)?;
        Some((plan.sends[index as usize].start.0, Entity::of(Kind::Send(index))))
    }

    /// Goes on to the start after it.
    pub const fn pop(&mut self) {
        self.next += 1;
    }
}
