//! What is in flight as Linux counts it, in segments as they were sent first.

use std::collections::VecDeque;

/// Segments sent and not acknowledged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flight {
    /// (start, end) in stream order; a FIN takes one place.
    sent: VecDeque<(u64, u64)>,
    highest: u64,
}

impl Flight {
    /// `[start, end)` leaves. Whether it does so for the first time.
    pub(crate) fn send(&mut self, start: u64, end: u64) -> bool {
        let new = start >= self.highest && end > start;
        if new {
            self.sent.push_back((start, end));
            self.highest = end;
        }
        new
    }

    /// Everything below `una` has been acknowledged.
    pub(crate) fn acknowledge(&mut self, una: u64) {
        while self.sent.front().is_some_and(|segment| segment.1 <= una) {
            self.sent.pop_front();
        }
    }

    /// Whether a segment of less than `mss` bytes is in flight.
    pub(crate) fn has_small(&self, mss: u64) -> bool {
        self.sent.iter().any(|(start, end)| end - start < mss)
    }

    pub(crate) fn segments(&self) -> u32 {
        self.sent.len() as u32
    }

    /// How many lie within one of these ranges each.
    pub(crate) fn within(&self, ranges: &[(u64, u64)]) -> u32 {
        let within = |&&(start, end): &&(u64, u64)| ranges.iter().any(|range| range.0 <= start && end <= range.1);
        self.sent.iter().filter(within).count() as u32
    }

    /// How many begin in one of these ranges.
    pub(crate) fn beginning_in(&self, ranges: &[(u64, u64)]) -> u32 {
        let begins = |&&(start, _): &&(u64, u64)| ranges.iter().any(|range| range.0 <= start && start < range.1);
        self.sent.iter().filter(begins).count() as u32
    }
}

/// What has been counted since the connection began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) segments_in: u64,
    pub(crate) segments_out: u64,
    pub(crate) data_segments_in: u64,
    pub(crate) data_segments_out: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_sent_again: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_counted_as_they_were_sent_first() {
        let mut flight = Flight::default();
        assert_eq!(
            [(0, 10), (10, 20), (20, 25), (0, 20)].map(|(start, end)| flight.send(start, end)),
            [true, true, true, false]
        );
        assert_eq!((flight.segments(), flight.has_small(10)), (3, true));
        assert_eq!((flight.within(&[(5, 20)]), flight.beginning_in(&[(0, 5), (20, 21)])), (1, 2));
        flight.acknowledge(15);
        assert_eq!(flight.segments(), 2, "a segment counts until all of it is acknowledged");
        flight.acknowledge(25);
        assert_eq!((flight.segments(), flight.has_small(10)), (0, false));
    }
}
