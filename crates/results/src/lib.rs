//! The result tables of a run: one schema for every world.

pub mod record;
