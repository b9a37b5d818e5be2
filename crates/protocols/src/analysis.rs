//! Closed forms: what the papers compute instead of simulate.

pub mod batch;
pub mod incast_probability;
pub mod water_level;
