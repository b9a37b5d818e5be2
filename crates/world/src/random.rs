//! A world's own random choices, each from a stream of its own.

use incast_protocols::random::Stream;

/// What a stream is for.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    /// Losses and delays of one link.
    Link = 1,
    /// Path of one direction of a connection.
    Path = 2,
    /// The marker of one port.
    Port = 3,
    /// What one host adds to packets that it sends.
    Sending = 4,
    /// What the host at the end of one link adds to packets that it receives.
    Receiving = 5,
}

/// The stream of a run's seed for this purpose; `number` says which link, connection or port.
#[must_use]
pub const fn stream(seed: u64, purpose: Purpose, number: u64) -> Stream {
    Stream::new(seed, purpose as u64, number)
}
