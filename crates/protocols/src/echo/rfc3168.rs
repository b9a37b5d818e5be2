//! The echo of RFC 3168 section 6.1.3: ECE on every ACK from a CE mark until the sender's CWR.

use super::{Echo, EchoContext, Feedback};
use crate::registry::{Capability, Part};
use crate::switch::Marks;

/// No parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {}

/// Repeats ECE until the sender answers.
#[derive(Clone, Debug)]
pub struct Rfc3168 {
    echoing: bool,
}

impl Rfc3168 {
    /// Nothing to echo yet.
    #[must_use]
    pub const fn new(_config: &Config, _context: &EchoContext) -> Self {
        Self { echoing: false }
    }
}

impl Echo for Rfc3168 {
    /// The state machine of RFC 3168 is not exact: segments may share an ACK whatever their marks.
    fn would_change(&self, _marks: Marks) -> bool {
        false
    }

    fn on_data(&mut self, marks: Marks, cwr: bool) {
        if cwr {
            self.echoing = false;
        }
        if marks.ce {
            self.echoing = true;
        }
    }

    fn on_ack(&mut self) -> Feedback {
        Feedback { ece: self.echoing, ein: false }
    }

    /// The state stays until CWR, so nothing is lost.
    fn on_replaced(&mut self, _held: Feedback) {}
}

impl Part for Rfc3168 {
    type Config = Config;
    const SUMMARY: &'static str = "echoes a congestion mark until the sender answers with CWR";
    const SOURCE: &'static str = "RFC 3168 section 6.1.3";
    const PROVIDES: &'static [Capability] = &[Capability::CongestionEcho];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ece_lasts_until_cwr_and_a_mark_with_cwr_starts_it_again() {
        let mut echo = Rfc3168::new(&Config {}, &EchoContext {});
        assert!(!echo.on_ack().ece);
        echo.on_data(Marks::CE, false);
        echo.on_data(Marks::NONE, false);
        assert!(echo.on_ack().ece);
        assert!(echo.on_ack().ece);
        echo.on_data(Marks::NONE, true);
        assert!(!echo.on_ack().ece);
        echo.on_data(Marks::CE, true);
        assert!(echo.on_ack().ece);
    }
}
