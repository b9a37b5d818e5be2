//! Which flows of a port belong together, and which of them stand no chance.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::message::CoflowId;
use crate::receiver::FlowIndex;

/// A coflow with flows at the port.
#[derive(Clone, Copy, Debug, Default)]
struct Coflow {
    flows: u32,
    /// One of them did not get its rate.
    failed: bool,
}

/// The coflows at one port. Each is forgotten with its last flow.
#[derive(Clone, Debug, Default)]
pub(super) struct Coflows {
    present: BTreeMap<CoflowId, Coflow>,
    /// Flows that hold a reservation.
    reserved: BTreeSet<(CoflowId, FlowIndex)>,
}

impl Coflows {
    /// A flow comes; says whether its coflow has failed.
    pub(super) fn enter(&mut self, coflow: CoflowId) -> bool {
        let coflow = self.present.entry(coflow).or_default();
        coflow.flows += 1;
        coflow.failed
    }

    /// A flow has got its rate.
    pub(super) fn reserved(&mut self, coflow: CoflowId, flow: FlowIndex) {
        self.reserved.insert((coflow, flow));
    }

    /// A flow did not get its rate.
    pub(super) fn fail(&mut self, coflow: CoflowId) {
        self.present.entry(coflow).or_default().failed = true;
    }

    /// The next flow of a coflow that holds a reservation, which it holds no longer.
    pub(super) fn take_reserved(&mut self, coflow: CoflowId) -> Option<FlowIndex> {
        let all = (coflow, FlowIndex(0))..=(coflow, FlowIndex(u32::MAX));
        let first = *self.reserved.range(all).next()?;
        self.reserved.remove(&first);
        Some(first.1)
    }

    /// A flow goes.
    pub(super) fn leave(&mut self, coflow: CoflowId, flow: FlowIndex) {
        self.reserved.remove(&(coflow, flow));
        if let Some(left) = self.present.get_mut(&coflow) {
            left.flows -= 1;
            if left.flows == 0 {
                self.present.remove(&coflow);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.present.is_empty() && self.reserved.is_empty()
    }
}
