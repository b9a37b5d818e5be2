//! DCMRG's congestion controller: DCTCP that grows faster while it is below its minimum rate (Wang et al., sections II.B and
//! II.C).
//!
//! Without a minimum it is DCTCP, without marks MRG, and without both TCP Reno, window by window.

use alloc::boxed::Box;

use super::dctcp::{self, MarkedShare};
use super::minimum_rate::{CaLaw, DeadlinePassed, Law, MinimumRate, ScaledWindow, Theta};
use super::reno::Reno;
use super::{SenderContext, mrg};
use crate::registry::{Capability, Part, Place, Requirement};

/// DCMRG's parameters at the sender.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How a window below its minimum grows in congestion avoidance.
    pub ca_law: CaLaw,
    /// How the minimum rate that a deadline needs is computed.
    pub theta: Theta,
    /// The minimum rate once the deadline has passed.
    pub deadline_passed: DeadlinePassed,
    /// What becomes of the window of DCMRG's receiver when it is scaled to the round trip.
    pub scaled_window: ScaledWindow,
    /// Alpha before the first observation, in 1/1024, as in DCTCP.
    #[schemars(range(min = 0, max = 1024))]
    pub initial_alpha: u32,
    /// g = 2^-shift is the weight of the newest observation, as in DCTCP.
    #[schemars(range(min = 1, max = 10))]
    pub shift: u32,
}

impl Default for Config {
    fn default() -> Self {
        let dctcp::Config { initial_alpha, shift } = dctcp::Config::default();
        Self {
            ca_law: CaLaw::default(),
            theta: Theta::default(),
            deadline_passed: DeadlinePassed::default(),
            scaled_window: ScaledWindow::default(),
            initial_alpha,
            shift,
        }
    }
}

/// DCMRG's sender. What it adds is in a box, as any sender takes as much memory as the largest.
pub type Dcmrg = Reno<Box<MinimumRate<MarkedShare>>>;

impl Dcmrg {
    /// A DCMRG sender.
    #[must_use]
    pub fn new(config: &Config, context: &SenderContext) -> Self {
        let Config { ca_law, theta, deadline_passed, scaled_window, initial_alpha, shift } = *config;
        let share = MarkedShare::new(&dctcp::Config { initial_alpha, shift }, context.rules.observation_end);
        let law = Law { ca_law, theta, deadline_passed, scaled_window };
        Self::with(Box::new(MinimumRate::new(share, law, context)), context)
    }
}

impl Part for Dcmrg {
    type Config = Config;
    const SUMMARY: &'static str = "DCTCP that grows faster while it is below the rate that its deadline asks for";
    const SOURCE: &'static str = "Wang et al., \"An Incast-Coflow-Aware Minimum-Rate-Guaranteed Congestion Control \
                                  Protocol for Datacenter Applications\" (DCMRG), II.A to II.C";
    const REQUIRES: &'static [Requirement] = &[
        Requirement {
            place: Place::Marker,
            capability: Capability::CongestionMarks,
            because: "DCMRG learns from congestion marks as DCTCP does: give the switch ports a marker that sets CE, such \
                      as \"ecn-threshold\", or use the sender \"mrg\"",
        },
        Requirement {
            place: Place::Echo,
            capability: Capability::ExactCongestionEcho,
            because: "DCMRG needs every mark echoed exactly, as DCTCP does: use the echo \"dctcp\"",
        },
    ];
    const PROVIDES: &'static [Capability] = &[Capability::ReferenceRttScaling];
    const DEVIATIONS: &'static [&'static str] = &[
        mrg::PER_ACK,
        mrg::CA_LAW,
        "Alpha is \"the fraction of packets that are marked in one RTT\" in the paper; here it is DCTCP's moving average of \
         that, with DCTCP's integers and windows of observation.",
        mrg::RATE,
        mrg::RTT,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::Sender;
    use crate::sender::tests::Script;

    #[test]
    fn the_first_mark_halves_with_alpha_one_as_in_dctcp() {
        let mut c = Script::new(1000, 10, |context| Dcmrg::new(&Config::default(), context));
        assert!(c.sender.ecn_capable());
        c.send_window_full();
        c.ack_one_segment(true);
        assert_eq!(c.sender.windows().cwnd.0, 5_000);
    }

    #[test]
    fn alpha_begins_and_moves_as_asked() {
        let config = Config { initial_alpha: 0, shift: 1, ..Config::default() };
        let mut c = Script::new(1000, 10, |context| Dcmrg::new(&config, context));
        c.send_window_full();
        c.ack_one_segment(true);
        assert_eq!(c.sender.alpha(), Some(512));
    }
}
