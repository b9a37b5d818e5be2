//! Echoes nothing.

use super::{Echo, EchoContext, Feedback};
use crate::registry::Part;
use crate::switch::Marks;

/// No parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {}

/// No echo.
#[derive(Clone, Debug)]
pub struct None;

impl None {
    /// Echoes nothing.
    #[must_use]
    pub const fn new(_config: &Config, _context: &EchoContext) -> Self {
        Self
    }
}

impl Echo for None {
    #[inline]
    fn would_change(&self, _marks: Marks) -> bool {
        false
    }

    #[inline]
    fn on_data(&mut self, _marks: Marks, _cwr: bool) {}

    #[inline]
    fn on_ack(&mut self) -> Feedback {
        Feedback::default()
    }

    fn on_replaced(&mut self, _held: Feedback) {}
}

impl Part for None {
    type Config = Config;
    const SUMMARY: &'static str = "echoes no marks";
    const SOURCE: &'static str = "a connection without ECN";
}
