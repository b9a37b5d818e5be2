//! A stack: one choice per place. The places meet only through packets, so they combine freely; what
//! cannot combine says so itself.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::application::ApplicationChoice;
use crate::echo::EchoChoice;
use crate::receiver::{REFERENCE_RTT, ReceiverChoice};
use crate::registry::{Capability, PartInfo};
use crate::sender::SenderChoice;
use crate::switch::buffer::BufferChoice;
use crate::switch::marker::MarkerChoice;
use crate::units::Duration;

/// What a class of traffic runs at its ends.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct EndStack {
    /// At the data's sender.
    pub sender: SenderChoice,
    /// At the data's receiving connection.
    pub echo: EchoChoice,
    /// At the receiving NIC.
    pub receiver: ReceiverChoice,
    /// At the aggregator.
    pub application: ApplicationChoice,
}

impl EndStack {
    /// The parts, in the order of the path.
    #[must_use]
    pub const fn parts(&self) -> [PartInfo; 4] {
        [self.sender.info(), self.echo.info(), self.receiver.info(), self.application.info()]
    }

    /// The round-trip time for which this stack's receiver announces windows, if it is not the real one.
    #[must_use]
    pub fn reference_rtt(&self) -> Option<Duration> {
        self.receiver.info().provides.contains(&Capability::ReferenceRttWindows).then_some(REFERENCE_RTT)
    }

    /// Refuses a combination of which a part says that it cannot work.
    ///
    /// # Errors
    /// The first requirement that nothing in the stack and at the given switch ports meets.
    pub fn check(&self, buffer: &BufferChoice, marker: &MarkerChoice) -> Result<(), Unmet> {
        let ends = self.parts();
        let parts: Vec<PartInfo> = ends.into_iter().chain([buffer.info(), marker.info()]).collect();
        check(&parts)
    }
}

/// Refuses parts of which one requires what none at the named place provides.
///
/// # Errors
/// The first requirement that is not met.
pub fn check(parts: &[PartInfo]) -> Result<(), Unmet> {
    for part in parts {
        for requirement in part.requires {
            let met = parts
                .iter()
                .any(|other| other.place == requirement.place && other.provides.contains(&requirement.capability));
            if !met {
                let found = parts.iter().find(|other| other.place == requirement.place);
                return Err(Unmet {
                    part: part.name,
                    place: requirement.place.key(),
                    found: found.map_or_else(String::new, |other| String::from(other.name)),
                    because: requirement.because,
                });
            }
        }
    }
    Ok(())
}

/// A requirement that a stack does not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmet {
    /// The part that cannot work.
    pub part: &'static str,
    /// The key at which something is missing.
    pub place: &'static str,
    /// What was found there.
    pub found: String,
    /// What the part says about it.
    pub because: &'static str,
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" does not work with {} = \"{}\": {}", self.part, self.place, self.found, self.because)
    }
}

impl core::error::Error for Unmet {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::{buffer, marker};
    use crate::{application, echo, receiver, sender};
    use std::string::ToString;

    fn dctcp_with(marker: &MarkerChoice, echo: EchoChoice) -> Result<(), Unmet> {
        let ends = EndStack {
            sender: SenderChoice::Dctcp(sender::dctcp::Config::default()),
            echo,
            receiver: ReceiverChoice::None(receiver::none::Config::default()),
            application: ApplicationChoice::AllAtOnce(application::all_at_once::Config::default()),
        };
        ends.check(&BufferChoice::Static(buffer::static_limit::Config::default()), marker)
    }

    /// DCMRG, section II.D: only a sender that knows of RTT0 can be told of windows for it.
    #[test]
    fn windows_for_a_reference_round_trip_need_a_sender_that_scales_them() {
        let ends = |sender, receiver| EndStack {
            sender,
            echo: EchoChoice::DctcpEcho(echo::dctcp::Config::default()),
            receiver,
            application: ApplicationChoice::AllAtOnce(application::all_at_once::Config::default()),
        };
        let controller = || ReceiverChoice::Dcmrg(receiver::dcmrg::Config::default());
        let none = || ReceiverChoice::None(receiver::none::Config::default());
        let marking = MarkerChoice::EcnThreshold(marker::ecn_threshold::Config::default());
        let buffer = BufferChoice::Static(buffer::static_limit::Config::default());
        for sender in SenderChoice::defaults() {
            let name = sender.info().name;
            let with = ends(sender.clone(), controller());
            assert_eq!(with.reference_rtt(), Some(REFERENCE_RTT));
            assert_eq!(ends(sender, none()).reference_rtt(), None);
            let checked = with.check(&buffer, &marking).map_err(|unmet| unmet.to_string());
            match name {
                "dcmrg" | "mrg" => assert_eq!(checked, Ok(())),
                "newreno" | "dctcp" | "d2tcp" => {
                    let refused = checked.unwrap_err();
                    assert!(
                        refused.contains("\"dcmrg\" does not work with sender") && refused.contains("scale"),
                        "{refused}"
                    );
                }
                _ => assert!(checked.is_err(), "{name}"),
            }
        }
    }

    #[test]
    fn dctcp_without_a_marking_switch_is_refused_with_its_own_sentence() {
        let exact = || EchoChoice::DctcpEcho(echo::dctcp::Config::default());
        let marking = MarkerChoice::EcnThreshold(marker::ecn_threshold::Config::default());
        assert_eq!(dctcp_with(&marking, exact()), Ok(()));
        let refused =
            dctcp_with(&MarkerChoice::None(marker::none::Config::default()), exact()).unwrap_err().to_string();
        assert!(refused.contains("marker = \"none\"") && refused.contains("ecn-threshold"), "{refused}");
        let refused =
            dctcp_with(&marking, EchoChoice::Rfc3168(echo::rfc3168::Config::default())).unwrap_err().to_string();
        assert!(refused.contains("echo = \"rfc3168\""), "{refused}");
    }
}
