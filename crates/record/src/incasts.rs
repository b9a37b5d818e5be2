//! Incasts as the packets that arrive at a port tell them, and what a detector said of them.

use incast_units::{Bytes, Duration, Time};
use serde::{Deserialize, Serialize};

/// Transmissions of 1500 bytes over which arrivals are looked back upon: 60 us at 10 Gbit/s, within which four of five
/// incasts are over (Pulser, section III-A).
pub const WINDOW_PACKETS: u64 = 50;
/// What arrives beyond what the line carries, as a share of what it carries in a whole window, above which it is a surge.
pub const EXCESS: f64 = 0.25;
/// Hosts from which a surge is an incast ("8 or higher", Pulser, section III-A).
pub const HOSTS: u32 = 8;

/// Many hosts sent to one port more than it carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incast {
    /// Index of the port's link in the plan.
    pub link: u32,
    /// Arrival of the first packet of the excess.
    pub begin: Time,
    /// Arrival of its last.
    pub end: Time,
    /// When all that had arrived by then had left.
    pub drained: Time,
    /// Hosts from which its greatest excess came.
    pub hosts: u32,
    /// The most by which arrivals within one window were ahead of the line.
    pub excess: Bytes,
    /// Packets of it that were not admitted.
    pub drops: u64,
    /// Whether the port marks EIN at all.
    pub watched: bool,
    /// When EIN said so, if it did.
    pub detected: Option<Detected>,
}

impl Incast {
    /// From its begin to EIN.
    #[must_use]
    pub fn delay(&self) -> Option<Duration> {
        // EIN may still be set from something before.
        self.detected.map(|detected| Duration(detected.from.0.saturating_sub(self.begin.0)))
    }
}

/// EIN during an incast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detected {
    /// First departure with EIN.
    pub from: Time,
    /// Last departure with EIN.
    pub until: Time,
}

/// Departures from a port one after the other for which its detector said incast.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarm {
    /// Index of the port's link in the plan.
    pub link: u32,
    /// First departure with EIN.
    pub begin: Time,
    /// Last departure with EIN.
    pub end: Time,
    /// What was really there.
    pub cause: Cause,
    /// Packets that left during an incast.
    pub packets_in_incast: u64,
    /// Packets that left while its queue drained.
    pub packets_draining: u64,
    /// Packets that left at any other time.
    pub packets_innocent: u64,
}

/// What was there when a detector said incast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// An incast, or its queue not drained yet.
    Incast,
    /// As much excess, but of fewer hosts.
    Surge,
    /// Neither: what arrived was not that much more than the line carries.
    Nothing,
}

impl Cause {
    /// Its name in the tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Incast => "incast",
            Self::Surge => "surge",
            Self::Nothing => "nothing",
        }
    }
}
