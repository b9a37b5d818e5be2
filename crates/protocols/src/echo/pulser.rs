//! Pulser's echo: congestion and incast marks, each exactly (RFC 8257 section 3.2, once more for EIN).

use super::dctcp::ExactMark;
use super::{Echo, EchoContext, Feedback};
use crate::registry::{Capability, Part};
use crate::switch::Marks;

/// No parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {}

/// Two machines of DCTCP, one for each kind of mark.
#[derive(Clone, Debug)]
pub struct PulserEcho {
    congestion: ExactMark,
    incast: ExactMark,
}

impl PulserEcho {
    /// Nothing to echo yet.
    #[must_use]
    pub fn new(_config: &Config, _context: &EchoContext) -> Self {
        Self { congestion: ExactMark::default(), incast: ExactMark::default() }
    }
}

impl Echo for PulserEcho {
    #[inline]
    fn would_change(&self, marks: Marks) -> bool {
        self.congestion.would_change(marks.ce) || self.incast.would_change(marks.ein)
    }

    #[inline]
    fn on_data(&mut self, marks: Marks, _cwr: bool) {
        self.congestion.on_data(marks.ce);
        self.incast.on_data(marks.ein);
    }

    #[inline]
    fn on_ack(&mut self) -> Feedback {
        Feedback { ece: self.congestion.on_ack(), ein: self.incast.on_ack() }
    }

    fn on_replaced(&mut self, held: Feedback) {
        self.congestion.on_replaced(held.ece);
        self.incast.on_replaced(held.ein);
    }
}

impl Part for PulserEcho {
    type Config = Config;
    const SUMMARY: &'static str = "echoes every congestion mark and every incast mark exactly";
    const SOURCE: &'static str = "Pulser, section III; RFC 8257 section 3.2";
    const PROVIDES: &'static [Capability] =
        &[Capability::CongestionEcho, Capability::ExactCongestionEcho, Capability::IncastEcho];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_marks_do_not_disturb_one_another() {
        let mut echo = PulserEcho::new(&Config {}, &EchoContext {});
        let both = Marks { ce: true, ein: true };
        for (marks, changes, says) in [
            (Marks::NONE, false, (false, false)),
            (Marks::EIN, true, (false, true)),
            (both, true, (true, true)),
            (both, false, (true, true)),
            (Marks::CE, true, (true, false)),
            (Marks::NONE, true, (false, false)),
        ] {
            assert_eq!(echo.would_change(marks), changes, "{marks:?}");
            echo.on_data(marks, false);
            let said = echo.on_ack();
            assert_eq!((said.ece, said.ein), says, "{marks:?}");
        }
    }

    #[test]
    fn an_incast_mark_on_a_replaced_ack_is_said_by_the_next() {
        let mut echo = PulserEcho::new(&Config {}, &EchoContext {});
        echo.on_data(Marks::EIN, false);
        let held = echo.on_ack();
        echo.on_data(Marks::NONE, false);
        echo.on_replaced(held);
        assert!(echo.on_ack().ein);
        assert!(!echo.on_ack().ein);
    }
}
