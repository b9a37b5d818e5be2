//! The rates of the flows at one port: reserved where deadlines ask for them, by coflow, and shared otherwise.

use alloc::vec::Vec;

use super::coflows::Coflows;
use super::water_level::WaterLevel;
use crate::message::CoflowId;
use crate::receiver::FlowIndex;
use crate::units::Rate;

/// A flow that uses the port.
#[derive(Clone, Copy, Debug)]
struct Member {
    coflow: Option<CoflowId>,
    /// The rate that it has reserved; none if it is elastic.
    reserved: Option<Rate>,
}

/// The flows at one port.
#[derive(Clone, Debug)]
pub struct Reservations {
    port: WaterLevel,
    /// What an elastic flow gets now.
    level: Rate,
    coflows: Coflows,
    /// By flow index.
    members: Vec<Option<Member>>,
}

impl Reservations {
    /// A port without flows.
    #[must_use]
    pub fn new(port: WaterLevel) -> Self {
        Self { level: port.level(), port, coflows: Coflows::default(), members: Vec::new() }
    }

    /// What an elastic flow gets.
    #[must_use]
    pub const fn level(&self) -> Rate {
        self.level
    }

    /// What a flow has reserved, if it has.
    #[must_use]
    pub fn reserved(&self, flow: FlowIndex) -> Option<Rate> {
        self.members.get(flow.0 as usize).copied().flatten()?.reserved
    }

    /// The rate that a flow may have; none if it does not use the port.
    #[must_use]
    pub fn allocation(&self, flow: FlowIndex) -> Option<Rate> {
        let member = self.members.get(flow.0 as usize).copied().flatten()?;
        Some(member.reserved.map_or(self.level, |rate| rate.max(self.level)))
    }

    /// A flow begins to use the port; it needs this rate, or none if it is zero.
    pub fn enter(&mut self, flow: FlowIndex, rate: Rate, coflow: Option<CoflowId>) {
        if flow.0 as usize >= self.members.len() {
            self.members.resize(flow.0 as usize + 1, None);
        }
        let failed = coflow.is_some_and(|coflow| self.coflows.enter(coflow));
        let wants = rate > Rate(0) && !failed;
        let reserved = (wants && self.port.reserve(flow, rate)).then_some(rate);
        self.members[flow.0 as usize] = Some(Member { coflow, reserved });
        if reserved.is_some() {
            if let Some(coflow) = coflow {
                self.coflows.reserved(coflow, flow);
            }
        } else {
            self.port.add_elastic();
            if let (true, Some(coflow)) = (wants, coflow) {
                self.fail(coflow);
            }
        }
        self.level = self.port.level();
    }

    /// A coflow of which one flow cannot have its rate: none of the others needs his.
    fn fail(&mut self, coflow: CoflowId) {
        self.coflows.fail(coflow);
        while let Some(flow) = self.coflows.take_reserved(coflow) {
            self.port.release(flow);
            self.port.add_elastic();
            if let Some(member) = &mut self.members[flow.0 as usize] {
                member.reserved = None;
            }
        }
    }

    /// A flow does not use the port any more, if it did.
    pub fn leave(&mut self, flow: FlowIndex) {
        let Some(member) = self.members.get_mut(flow.0 as usize).and_then(Option::take) else { return };
        if member.reserved.is_some() {
            self.port.release(flow);
        } else {
            self.port.remove_elastic();
        }
        if let Some(coflow) = member.coflow {
            self.coflows.leave(coflow, flow);
        }
        self.level = self.port.level();
    }

    /// The sum of all reservations.
    #[cfg(test)]
    pub(super) const fn total(&self) -> Rate {
        self.port.reserved()
    }

    #[cfg(test)]
    pub(super) fn has_no_coflows(&self) -> bool {
        self.coflows.is_empty()
    }
}
