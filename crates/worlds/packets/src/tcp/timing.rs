//! For senders that work with time: when what is in flight was sent, and when the next segment may leave.

use std::collections::VecDeque;

use super::NEVER;

/// A segment in flight.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// Where it ends in the stream.
    end: u64,
    /// When it left last.
    at: u64,
    /// It left more than once.
    again: bool,
    /// An ACK has told of it.
    told: bool,
}

/// What time costs a connection whose sender works with it.
#[derive(Clone, Debug)]
pub(super) struct Timing {
    /// The sender wants it; otherwise only a window below a segment does.
    pub(super) wanted: bool,
    /// When what is held back may leave.
    pub(super) send_at: u64,
    /// Before this no segment leaves but a fast retransmission: the pace that the sender asks for.
    pub(super) paced_until: u64,
    /// In stream order.
    flight: VecDeque<Sent>,
    /// With timestamps an ACK says which transmission it answers.
    timestamps: bool,
}

impl Timing {
    pub(super) fn new(wanted: bool, timestamps: bool) -> Self {
        Self { wanted, send_at: NEVER, paced_until: 0, flight: VecDeque::new(), timestamps }
    }

    /// Whether pacing holds the next segment back; it then leaves in time.
    pub(super) const fn holds(&mut self, now: u64) -> bool {
        let held = now < self.paced_until;
        if held {
            self.send_at = self.paced_until;
        }
        held
    }

    /// `[start, end)` leaves, for the first time or `again`.
    pub(super) fn sent(&mut self, now: u64, start: u64, end: u64, again: bool) {
        if !again {
            self.flight.push_back(Sent { end, at: now, again, told: false });
            return;
        }
        let first = self.flight.partition_point(|sent| sent.end <= start);
        for sent in self.flight.range_mut(first..) {
            sent.at = now;
            sent.again = true;
            if sent.end >= end {
                break;
            }
        }
    }

    /// Everything below `una` has arrived. When the last segment left of which this is news, if that is certain.
    pub(super) fn acknowledged(&mut self, una: u64) -> Option<u64> {
        let mut last = None;
        while let Some(&sent) = self.flight.front().filter(|sent| sent.end <= una) {
            self.flight.pop_front();
            last = if sent.told { last } else { Some(sent) };
        }
        self.sample(last?)
    }

    /// The same for what a SACK block tells.
    pub(super) fn sacked(&mut self, start: u64, end: u64) -> Option<u64> {
        let after = self.flight.partition_point(|sent| sent.end <= end);
        let mut news = self.flight.range_mut(..after).rev().take_while(|sent| sent.end > start && !sent.told);
        let last = news.next()?;
        last.told = true;
        let last = *last;
        news.for_each(|sent| sent.told = true);
        self.sample(last)
    }

    fn sample(&self, sent: Sent) -> Option<u64> {
        (self.timestamps || !sent.again).then_some(sent.at)
    }
}
