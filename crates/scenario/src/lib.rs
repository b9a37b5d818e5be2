//! What to run: scenario files, their checks, and their expansion into a [`plan::Plan`] that a world
//! (the simulator, the Linux side) carries out.

pub mod plan;
