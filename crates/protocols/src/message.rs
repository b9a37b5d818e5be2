//! What belongs to a message, not to the connection that carries it.

use crate::units::{Bytes, Rate, Time};

/// Names a group of messages whose last completion is what counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct CoflowId(pub u32);

/// An application's wish; what larger means is up to the algorithm that reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Priority(pub u32);

/// A response (or any other transfer): its facts travel in options of its first segment, which is the
/// SYN, the SYN-ACK or the first data segment. Many messages may follow each other on one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Message {
    /// Payload bytes; unknown for a stream whose end the application has not reached yet.
    pub size: Option<Bytes>,
    /// When it must be complete.
    pub deadline: Option<Time>,
    /// The coflow it is part of.
    pub coflow: Option<CoflowId>,
    /// How the application ranks it.
    pub priority: Option<Priority>,
    /// The rate it must have (theta), in payload; see [`handed_over`](Self::handed_over).
    pub minimum_rate: Option<Rate>,
}

impl Message {
    /// The message as its connection gets it at `now`: with the rate that meets its deadline, which is its size over the
    /// time left, in whole bits per second rounded up (DCMRG, equation 12). Without a size or with the deadline over
    /// there is none. A rate that the application gave stays.
    #[must_use]
    pub const fn handed_over(self, now: Time) -> Self {
        match (self.minimum_rate, self.size, self.deadline) {
            (None, Some(size), Some(deadline)) if deadline.0 > now.0 => {
                Self { minimum_rate: Some(Rate::needed(size, deadline.since(now))), ..self }
            }
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(size: Option<u64>, deadline_us: Option<u64>) -> Message {
        Message { size: size.map(Bytes), deadline: deadline_us.map(Time::from_us), ..Message::default() }
    }

    /// 100 kB in 1.4 ms, as small flows of the DCMRG paper's web search have it: 571.43 Mbit/s.
    #[test]
    fn the_minimum_rate_is_the_size_over_the_time_left_rounded_up() {
        let small = message(Some(100_000), Some(1_400));
        assert_eq!(small.handed_over(Time(0)).minimum_rate, Some(Rate(571_428_572)));
        assert_eq!(small.handed_over(Time::from_us(400)).minimum_rate, Some(Rate(800_000_000)));
        assert_eq!(small.handed_over(Time(0)), Message { minimum_rate: Some(Rate(571_428_572)), ..small });
    }

    #[test]
    fn without_size_or_deadline_or_time_there_is_no_minimum_rate() {
        for (size, deadline) in [(None, None), (Some(1000), None), (None, Some(50)), (Some(1000), Some(49))] {
            assert_eq!(message(size, deadline).handed_over(Time::from_us(49)).minimum_rate, None);
        }
        assert_eq!(message(Some(1), Some(50)).handed_over(Time::from_us(49)).minimum_rate, Some(Rate(8_000_000)));
    }

    /// "The minimum rate can be set at the data generation rate" (DCMRG, section II.C).
    #[test]
    fn a_rate_that_the_application_gave_stays() {
        let given = Message { minimum_rate: Some(Rate(7)), ..message(Some(1000), Some(50)) };
        assert_eq!(given.handed_over(Time(0)), given);
    }
}
