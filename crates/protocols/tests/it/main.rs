//! All tests of this crate from outside, as one program.

// First, for its macro.
#[macro_use]
mod model;

mod defaults;
mod every_part;
mod every_receiver;
mod every_sender;
mod known_faults;
mod linux_rules;
mod nic;
mod paper_vectors;
mod real_program;
mod receiver_credit;
mod replay;
mod rfc6582_conformance;
mod rfc8257_conformance;
mod special_cases;
