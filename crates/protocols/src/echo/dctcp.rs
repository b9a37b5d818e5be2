//! DCTCP's exact echo (RFC 8257 section 3.2): of the bytes acknowledged, the share with ECE
//! is the share that was marked, whatever the delayed-ACK factor.

use super::{Echo, EchoContext, Feedback};
use crate::registry::{Capability, Part};
use crate::switch::Marks;

/// No parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {}

/// The two-state machine of RFC 8257 figure 1, for one kind of mark.
#[derive(Clone, Debug, Default)]
pub(super) struct ExactMark {
    /// The mark of the last segment (DCTCP.CE).
    last: bool,
    /// A replaced ACK echoed one: the next says so in its place.
    owed: bool,
}

impl ExactMark {
    #[inline]
    pub(super) const fn would_change(&self, mark: bool) -> bool {
        mark != self.last
    }

    #[inline]
    pub(super) const fn on_data(&mut self, mark: bool) {
        self.last = mark;
    }

    #[inline]
    pub(super) const fn on_ack(&mut self) -> bool {
        let says = self.last || self.owed;
        self.owed = false;
        says
    }

    pub(super) const fn on_replaced(&mut self, said: bool) {
        self.owed |= said;
    }
}

/// Echoes congestion marks exactly.
#[derive(Clone, Debug)]
pub struct DctcpEcho {
    congestion: ExactMark,
}

impl DctcpEcho {
    /// Nothing to echo yet (DCTCP.CE is false).
    #[must_use]
    pub fn new(_config: &Config, _context: &EchoContext) -> Self {
        Self { congestion: ExactMark::default() }
    }
}

impl Echo for DctcpEcho {
    #[inline]
    fn would_change(&self, marks: Marks) -> bool {
        self.congestion.would_change(marks.ce)
    }

    #[inline]
    fn on_data(&mut self, marks: Marks, _cwr: bool) {
        self.congestion.on_data(marks.ce);
    }

    #[inline]
    fn on_ack(&mut self) -> Feedback {
        Feedback { ece: self.congestion.on_ack(), ein: false }
    }

    fn on_replaced(&mut self, held: Feedback) {
        self.congestion.on_replaced(held.ece);
    }
}

impl Part for DctcpEcho {
    type Config = Config;
    const SUMMARY: &'static str = "echoes every congestion mark exactly, delayed ACKs included";
    const SOURCE: &'static str = "RFC 8257 section 3.2";
    const PROVIDES: &'static [Capability] = &[Capability::CongestionEcho, Capability::ExactCongestionEcho];
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// Plays the connection with a delayed-ACK factor of `every`: which segments each ACK covers, and its ECE.
    fn acks(every: usize, ce: &[bool]) -> Vec<(Vec<usize>, bool)> {
        let mut echo = DctcpEcho::new(&Config {}, &EchoContext {});
        let mut acks = Vec::new();
        let mut pending = Vec::new();
        for (index, &ce) in ce.iter().enumerate() {
            let marks = if ce { Marks::CE } else { Marks::NONE };
            let changes = echo.would_change(marks);
            if changes && !pending.is_empty() {
                acks.push((core::mem::take(&mut pending), echo.on_ack().ece));
            }
            echo.on_data(marks, false);
            pending.push(index + 1);
            if changes || pending.len() == every {
                acks.push((core::mem::take(&mut pending), echo.on_ack().ece));
            }
        }
        acks
    }

    /// RFC 8257 section 3.2, with an ACK of its own for what came before the change.
    #[test]
    fn ce_changes_flush_the_delayed_ack() {
        let seen = acks(2, &[false, false, true, true, true, false]);
        let expected: &[(&[usize], bool)] = &[(&[1, 2], false), (&[3], true), (&[4, 5], true), (&[6], false)];
        assert_eq!(seen.len(), expected.len());
        for (seen, expected) in seen.iter().zip(expected) {
            assert_eq!((&seen.0[..], seen.1), *expected);
        }
    }

    #[test]
    fn with_an_ack_per_segment_ece_is_ce() {
        let ce = [true, false, true, true, false];
        let seen: Vec<bool> = acks(1, &ce).into_iter().map(|(_, ece)| ece).collect();
        assert_eq!(seen, ce);
    }

    #[test]
    fn a_mark_on_a_replaced_ack_is_said_by_the_next() {
        let mut echo = DctcpEcho::new(&Config {}, &EchoContext {});
        echo.on_data(Marks::CE, false);
        let held = echo.on_ack();
        echo.on_data(Marks::NONE, false);
        echo.on_replaced(held);
        assert!(echo.on_ack().ece);
        assert!(!echo.on_ack().ece);
    }
}
