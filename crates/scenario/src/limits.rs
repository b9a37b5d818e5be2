//! What a scenario may ask for at most, so that a slip of the finger is an error and not an exhausted
//! machine, and so that no sum of times or sizes can overflow.

use incast_protocols::{Duration, Rate};

/// Messages of one run.
pub(crate) const MESSAGES: u64 = 50_000_000;
/// Memory that a message of a plan takes with its connection, roughly: measured with up to 10 million.
pub(crate) const PLANNED_BYTES: u64 = 150;
/// Connections of one class that stand in one line of the scenario.
pub(crate) const CONNECTIONS: usize = 1_000_000;
/// Bytes of one message: 1 TiB.
pub(crate) const MESSAGE_BYTES: u64 = 1 << 40;
/// Directed links of a network.
pub(crate) const LINKS: u64 = 4_000_000;
/// Any time: 1,000,000 s, a twentieth of what picoseconds in 64 bits hold.
pub(crate) const TIME: Duration = Duration(1_000_000_000_000_000_000);
/// Slowest link: 1 TiB takes less than half of what picoseconds in 64 bits hold.
pub(crate) const RATE_MIN: Rate = Rate(1_000_000);
/// Fastest link: a byte takes 0.8 ps.
pub(crate) const RATE_MAX: Rate = Rate(10_000_000_000_000);
