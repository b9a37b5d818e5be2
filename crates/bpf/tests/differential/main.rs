//! What is in `algorithms/` against `crates/protocols`: the same events, and the same answers.

mod detector;
mod replay;
mod senders;

/// Random sequences of events for each test.
const SEQUENCES: u32 = 10_000;
