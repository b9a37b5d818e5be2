//! All tests of this crate from outside, as one program.

mod cancelled;
mod errors;
mod examples;
mod fork_join;
mod fuzz;
mod modules;
mod plans;
mod validate;
mod warnings;
