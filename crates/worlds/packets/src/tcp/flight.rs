//! What is in flight, segment by segment: when each left, and what is known of it.

use std::collections::VecDeque;

/// A segment in flight.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, as the bits of Linux's `sacked`")]
pub(super) struct Sent {
    pub(super) start: u64,
    /// Exclusive.
    pub(super) end: u64,
    /// When it left last.
    pub(super) at: u64,
    /// It left more than once.
    pub(super) again: bool,
    /// An ACK has told of it.
    told: bool,
    /// It was found lost.
    lost: bool,
    /// It has left again since it was found lost, or as a probe.
    repeated: bool,
}

impl Sent {
    /// Bytes of it in the network: the first transmission unless it is lost, and the last repetition.
    const fn in_network(&self) -> u64 {
        if self.told { 0 } else { (self.end - self.start) * (!self.lost as u64 + self.repeated as u64) }
    }

    const fn is_lost(&self) -> bool {
        self.lost && !self.told
    }

    const fn waits(&self) -> bool {
        self.is_lost() && !self.repeated
    }
}

/// What looking for losses has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Something is newly lost.
    pub(super) lost: bool,
    /// A repetition among it.
    pub(super) lost_again: bool,
    /// After this time all that might be lost by now will be.
    pub(super) wait: Option<u64>,
}

/// All segments in flight, in stream order.
#[derive(Clone, Debug, Default)]
pub(super) struct Flight {
    segments: VecDeque<Sent>,
    in_network: u64,
    /// How many have been told of beyond the gap.
    told: usize,
    /// How many are lost and have not arrived.
    lost: usize,
    /// How many of these have not left again.
    waiting: usize,
}

impl Flight {
    pub(super) fn len(&self) -> usize {
        self.segments.len()
    }

    /// Bytes in the network: sent and neither told of nor lost, and those sent again.
    pub(super) const fn in_network(&self) -> u64 {
        self.in_network
    }

    /// Segments beyond the gap of which ACKs have told.
    pub(super) const fn told(&self) -> usize {
        self.told
    }

    /// Whether something is lost and has not arrived, sent again or not.
    pub(super) const fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// The first segment that is not acknowledged.
    pub(super) fn first(&self) -> Option<&Sent> {
        self.segments.front()
    }

    /// The last segment that was sent.
    pub(super) fn last(&self) -> Option<&Sent> {
        self.segments.back()
    }

    /// What is lost and has not arrived.
    pub(super) fn lost(&self) -> Vec<(u64, u64)> {
        self.segments.iter().filter(|sent| sent.is_lost()).map(|sent| (sent.start, sent.end)).collect()
    }

    /// What has left again and has not arrived.
    pub(super) fn sent_again(&self) -> Vec<(u64, u64)> {
        let again = self.segments.iter().filter(|sent| sent.repeated && !sent.told);
        again.map(|sent| (sent.start, sent.end)).collect()
    }

    /// The first segment that is lost and has not left again.
    pub(super) fn next_lost(&self) -> Option<&Sent> {
        if self.waiting == 0 { None } else { self.segments.iter().find(|sent| sent.waits()) }
    }

    /// `[start, end)` leaves, for the first time or `again`.
    pub(super) fn sent(&mut self, now: u64, start: u64, end: u64, again: bool) {
        if !again {
            let (told, lost, repeated) = (false, false, false);
            self.segments.push_back(Sent { start, end, at: now, again, told, lost, repeated });
            self.in_network += end - start;
            return;
        }
        let first = self.segments.partition_point(|sent| sent.end <= start);
        for index in first..self.segments.len() {
            self.change(index, |sent| (sent.at, sent.again, sent.repeated) = (now, true, true));
            if self.segments[index].end >= end {
                break;
            }
        }
    }

    /// Everything below `una` has arrived; `news` is called for each segment of which no ACK had told.
    pub(super) fn acknowledged(&mut self, una: u64, mut news: impl FnMut(&Sent)) {
        while let Some(&sent) = self.segments.front() {
            if sent.end > una {
                if sent.start < una {
                    self.in_network -= sent.in_network();
                    self.segments[0].start = una;
                    self.in_network += self.segments[0].in_network();
                }
                break;
            }
            self.segments.pop_front();
            self.in_network -= sent.in_network();
            self.told -= usize::from(sent.told);
            self.lost -= usize::from(sent.is_lost());
            self.waiting -= usize::from(sent.waits());
            if !sent.told {
                news(&sent);
            }
        }
    }

    /// A block of which `new` bytes are news has arrived; `news` is called for each such segment, the last first.
    pub(super) fn sacked(&mut self, start: u64, end: u64, mut new: u64, mut news: impl FnMut(&Sent)) {
        let mut index = self.segments.partition_point(|sent| sent.end <= end);
        while index > 0 && new > 0 {
            index -= 1;
            let sent = self.segments[index];
            if sent.start < start {
                break;
            }
            if !sent.told {
                new = new.saturating_sub(sent.end - sent.start);
                self.change(index, |sent| sent.told = true);
                news(&sent);
            }
        }
    }

    /// The segments are lost that left before the one that left at `at` and ends at `end`, and longer than `wait` ago.
    pub(super) fn find_lost(&mut self, now: u64, at: u64, end: u64, wait: u64) -> Found {
        let mut found = Found::default();
        for index in 0..self.segments.len() {
            let sent = self.segments[index];
            if sent.told || sent.waits() || (sent.at, sent.end) >= (at, end) {
                continue;
            }
            let left = (sent.at + wait).saturating_sub(now);
            if left > 0 {
                found.wait = found.wait.max(Some(left));
                continue;
            }
            found.lost = true;
            found.lost_again |= sent.repeated;
            self.lose(index);
        }
        found
    }

    /// A timeout: the first segment is lost, and whatever left longer than `wait` ago.
    pub(super) fn time_out(&mut self, now: u64, wait: u64) {
        for index in 0..self.segments.len() {
            let sent = self.segments[index];
            if !sent.told && (index == 0 || sent.at + wait <= now) {
                self.lose(index);
            }
        }
    }

    /// Nothing was lost.
    pub(super) fn forgive(&mut self) {
        for index in 0..self.segments.len() {
            self.change(index, |sent| sent.lost = false);
        }
    }

    fn lose(&mut self, index: usize) {
        self.change(index, |sent| (sent.lost, sent.repeated) = (true, false));
    }

    fn change(&mut self, index: usize, change: impl FnOnce(&mut Sent)) {
        let sent = &mut self.segments[index];
        self.in_network -= sent.in_network();
        self.told -= usize::from(sent.told);
        self.lost -= usize::from(sent.is_lost());
        self.waiting -= usize::from(sent.waits());
        change(sent);
        self.in_network += sent.in_network();
        self.told += usize::from(sent.told);
        self.lost += usize::from(sent.is_lost());
        self.waiting += usize::from(sent.waits());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments of 1000 bytes, one in each unit of time.
    fn flight(segments: u64) -> Flight {
        let mut flight = Flight::default();
        for number in 0..segments {
            flight.sent(number, number * 1000, (number + 1) * 1000, false);
        }
        flight
    }

    fn ends(visit: impl FnOnce(&mut dyn FnMut(&Sent))) -> Vec<u64> {
        let mut ends = Vec::new();
        visit(&mut |sent| ends.push(sent.end / 1000));
        ends
    }

    #[test]
    fn each_segment_is_news_once() {
        let mut flight = flight(6);
        assert_eq!(ends(|news| flight.sacked(1000, 2000, 1000, news)), [2]);
        assert_eq!(ends(|news| flight.sacked(3000, 5000, 2000, news)), [5, 4]);
        assert_eq!(ends(|news| flight.sacked(1000, 5000, 1000, news)), [3], "two blocks have become one");
        assert_eq!((flight.told(), flight.in_network()), (4, 2000));
        assert_eq!(ends(|news| flight.acknowledged(5500, news)), [1]);
        assert_eq!((flight.len(), flight.told(), flight.in_network()), (1, 0, 500), "half of the last is left");
    }

    /// RFC 8985 section 6.2, step 5: the third arrived; the first was sent three units before now, the second two.
    #[test]
    fn a_segment_is_lost_once_a_later_one_has_arrived_and_it_is_overdue() {
        let mut flight = flight(4);
        flight.sacked(2000, 3000, 1000, |_| {});
        let found = flight.find_lost(3, 2, 3000, 3);
        assert_eq!(found, Found { lost: true, lost_again: false, wait: Some(1) });
        assert_eq!(flight.next_lost().map(|sent| sent.start), Some(0));
        assert_eq!(flight.in_network(), 2000, "the second, and the fourth, which nothing has overtaken");
        flight.sent(3, 0, 1000, true);
        assert_eq!((flight.next_lost().is_none(), flight.has_lost(), flight.in_network()), (true, true, 3000));
        // The repetition is lost as well once something that left after it has arrived.
        flight.sent(4, 4000, 5000, false);
        flight.sacked(4000, 5000, 1000, |_| {});
        let found = flight.find_lost(9, 4, 5000, 3);
        assert_eq!(found, Found { lost: true, lost_again: true, wait: None });
        flight.acknowledged(5000, |_| {});
        assert_eq!((flight.has_lost(), flight.in_network(), flight.told()), (false, 0, 0));
    }

    #[test]
    fn a_timeout_loses_the_first_segment_and_all_that_are_older_than_a_round_trip() {
        let mut flight = flight(4);
        flight.sacked(1000, 2000, 1000, |_| {});
        flight.time_out(5, 3);
        assert_eq!(flight.in_network(), 1000, "the fourth left two units before");
        flight.sent(5, 0, 1000, true);
        assert_eq!(flight.next_lost().map(|sent| sent.start), Some(2000));
    }
}
