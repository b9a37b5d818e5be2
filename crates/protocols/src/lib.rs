//! The algorithms of incast, each at one of four places on the path of a response, as state
//! machines without a world.
//!
//! | place | module | decides |
//! |---|---|---|
//! | switch | [`switch`] | which packet is admitted, which is marked |
//! | sender | [`sender`] | how much may be in flight |
//! | receiver | [`receiver`] (and [`echo`], per connection) | advertised windows, when an ACK leaves, what it echoes |
//! | application | [`application`] | how many requests are outstanding |
//!
//! What can be computed without a run is in [`analysis`].
//!
//! Events come in as method calls that carry time and numbers; decisions go out as return values.
//! Nothing here knows what drives it: the simulator, a unit test or the reference side of a kernel
//! test call the same struct. Adding an algorithm is one file beside its siblings, its
//! `pub mod` line, and one line in the `registry!` of its place.
#![no_std]
#![expect(
    clippy::redundant_closure_for_method_calls,
    reason = "a path to a method of `dyn Sender` would ask for a static one"
)]
#![expect(
    clippy::used_underscore_binding,
    reason = "what auto_impl passes on has the names that the defaults do not use"
)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod analysis;
pub mod application;
pub mod custom;
pub mod echo;
pub mod message;
pub mod random;
pub mod receiver;
mod registry;
pub mod round_trip;
pub mod sender;
pub mod stack;
pub mod switch;

pub use custom::{Custom, CustomPart};
pub use incast_units as units;
pub use message::{CoflowId, Message, Priority};
pub use registry::{Capability, Conflict, Part, PartColumn, PartInfo, Place, Requirement};
pub use units::{Amount, Bytes, Duration, Offset, Rate, Time};
