//! What belongs to a message, not to the connection that carries it.

use crate::units::{Bytes, Time};

/// Names a group of messages whose last completion is what counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoflowId(pub u32);

/// An application's wish; what larger means is up to the algorithm that reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub u32);

/// A response (or any other transfer): its facts travel in options of its first segment, which is the
/// SYN, the SYN-ACK or the first data segment. Many messages may follow each other on one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Payload bytes; unknown for a stream whose end the application has not reached yet.
    pub size: Option<Bytes>,
    /// When it must be complete.
    pub deadline: Option<Time>,
    /// The coflow it is part of.
    pub coflow: Option<CoflowId>,
    /// How the application ranks it.
    pub priority: Option<Priority>,
}
