//! No marking.

use super::{Marker, MarkerContext};
use crate::registry::Part;
use crate::switch::{Marks, PacketView, QueueState, Quiet};

/// No parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {}

/// A port that marks nothing.
#[derive(Clone, Debug)]
pub struct None;

impl None {
    /// Marks nothing.
    #[must_use]
    pub const fn new(_config: &Config, _context: &MarkerContext) -> Self {
        Self
    }
}

impl Marker for None {
    #[inline]
    fn on_enqueue(&mut self, _queue: &QueueState, _packet: &PacketView) -> Marks {
        Marks::NONE
    }

    #[inline]
    fn on_dequeue(&mut self, _queue: &QueueState, _packet: &PacketView) -> Marks {
        Marks::NONE
    }

    fn quiet(&self) -> Quiet {
        Quiet::ALWAYS
    }

    fn sees_departures(&self) -> bool {
        false
    }
}

impl Part for None {
    type Config = Config;
    const SUMMARY: &'static str = "marks nothing";
    const SOURCE: &'static str = "a switch without ECN";
}
