//! What can be computed without a run.

pub mod water_level;
