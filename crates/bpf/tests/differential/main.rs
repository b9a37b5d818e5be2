//! What is in `algorithms/` against `crates/protocols`: the same events, and the same answers.

mod detector;
mod receivers;
mod replay;
mod senders;
mod swift;

/// Random sequences of events for each test.
const SEQUENCES: u32 = 10_000;
