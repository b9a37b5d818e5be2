//! What the peer has said by SACK, and what follows from it: which data is lost, how much is in the
//! network, what to send next (RFC 6675).

use super::DUPLICATE_THRESHOLD;
use super::ranges::Ranges;

/// The scoreboard of one sender.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    sacked: Ranges,
    /// All that is not SACKed below this is lost.
    lost_below: u64,
    /// Where the highest retransmission since the last timeout ends (`HighRxt`). Data beyond the end of a
    /// recovery may be sent again in it; the next recovery does not do so once more, as in Linux, though
    /// RFC 6675 begins each anew.
    retransmitted_to: u64,
    /// The rescue retransmission of this recovery has been made.
    rescued: bool,
}

/// What the rules of `NextSeg` choose among data sent before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hole {
    pub(crate) start: u64,
    /// Exclusive.
    pub(crate) end: u64,
}

impl Scoreboard {
    pub(crate) const fn is_empty(&self) -> bool {
        self.sacked.is_empty()
    }

    /// What is SACKed, in stream order.
    pub(crate) fn sacked(&self) -> &[(u64, u64)] {
        self.sacked.as_slice()
    }

    pub(crate) const fn lost_below(&self) -> u64 {
        self.lost_below
    }

    pub(crate) const fn sent_again_below(&self) -> u64 {
        self.retransmitted_to
    }

    /// Puts a block in; says how many of its bytes are new.
    pub(crate) fn insert(&mut self, start: u64, end: u64) -> u64 {
        self.sacked.insert(start, end)
    }

    /// Everything below `una` is acknowledged; says how many of these bytes were SACKed.
    pub(crate) fn advance(&mut self, una: u64) -> u64 {
        let before = self.sacked.bytes();
        self.sacked.take_from(una);
        before - self.sacked.bytes()
    }

    /// Where the highest SACKed data ends; 0 if there is none.
    pub(crate) fn highest(&self) -> u64 {
        self.sacked.as_slice().last().map_or(0, |range| range.1)
    }

    /// Bytes SACKed below `offset`.
    pub(crate) fn sacked_below(&self, offset: u64) -> u64 {
        self.sacked.bytes_below(offset)
    }

    /// Finds out anew what is lost: whatever has three SACKed ranges above it, or more SACKed bytes than
    /// two segments (`IsLost`). Says whether more is lost than before.
    pub(crate) fn find_lost(&mut self, mss: u64) -> bool {
        let (mut ranges, mut bytes) = (0, 0);
        let below = self.sacked.as_slice().iter().rev().find_map(|&(start, end)| {
            ranges += 1;
            bytes += end - start;
            (ranges >= DUPLICATE_THRESHOLD || bytes > u64::from(DUPLICATE_THRESHOLD - 1) * mss).then_some(start)
        });
        let more = below.is_some_and(|below| below > self.lost_below);
        self.lost_below = below.unwrap_or(0).max(self.lost_below);
        more
    }

    /// Whether the data at `offset`, which is not SACKed, is lost.
    pub(crate) const fn is_lost(&self, offset: u64) -> bool {
        offset < self.lost_below
    }

    /// Recovery begins. Says whether the segment at `una` is to be sent again now.
    pub(crate) fn begin(&mut self, una: u64) -> bool {
        self.rescued = false;
        let first = una >= self.retransmitted_to;
        self.retransmitted_to = self.retransmitted_to.max(una);
        first
    }

    /// Data up to `end` has been sent again.
    pub(crate) fn retransmitted(&mut self, end: u64) {
        self.retransmitted_to = self.retransmitted_to.max(end);
    }

    /// After a timeout nothing of what was retransmitted, or found lost, counts.
    pub(crate) fn forget_retransmissions(&mut self) {
        self.retransmitted_to = 0;
        self.lost_below = 0;
    }

    /// What lies between the SACKed ranges of `[una, highest)`.
    pub(super) fn holes(&self, una: u64, highest: u64) -> impl Iterator<Item = Hole> + '_ {
        let ranges = self.sacked.as_slice();
        let ends = std::iter::once(una).chain(ranges.iter().map(|range| range.1));
        let starts = ranges.iter().map(|range| range.0).chain(std::iter::once(highest));
        ends.zip(starts).map(|(start, end)| Hole { start, end }).filter(|hole| hole.start < hole.end)
    }

    /// Bytes in the network: sent and neither SACKed nor lost, and those sent again (`SetPipe`).
    pub(crate) fn pipe(&self, una: u64, highest: u64) -> u64 {
        self.holes(una, highest)
            .map(|hole| {
                let first = if self.is_lost(hole.start) { 0 } else { hole.end - hole.start };
                first + hole.end.min(self.retransmitted_to).saturating_sub(hole.start)
            })
            .sum()
    }

    /// The first data not retransmitted yet with SACKed data above it, where it is lost (rule 1 of
    /// `NextSeg`) or, if not `lost_only`, wherever it is (rule 3).
    pub(crate) fn next_hole(&self, una: u64, lost_only: bool) -> Option<Hole> {
        let highest = self.sacked.as_slice().last()?.0;
        self.holes(una, highest)
            .map(|hole| Hole { start: hole.start.max(self.retransmitted_to), ..hole })
            .find(|hole| hole.start < hole.end)
            .filter(|hole| !lost_only || self.is_lost(hole.start))
    }

    /// The highest hole, once in a recovery (rule 4 of `NextSeg`): if the last segments are lost, nothing
    /// above them would ever say so.
    pub(crate) fn rescue(&mut self, una: u64, highest: u64) -> Option<Hole> {
        if std::mem::replace(&mut self.rescued, true) {
            return None;
        }
        self.holes(una, highest).last()
    }

    /// Where to go on when everything is sent again from `offset` on: beyond what the peer has.
    pub(crate) fn skip(&self, offset: u64) -> u64 {
        self.sacked.containing(offset).map_or(offset, |range| range.1)
    }

    /// Where the next SACKed data above `offset` begins.
    pub(crate) fn next_sacked(&self, offset: u64) -> Option<u64> {
        self.sacked.next_start(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    /// Segments by number, MSS bytes each.
    fn with(sacked: &[(u64, u64)]) -> Scoreboard {
        let mut board = Scoreboard::default();
        for &(start, end) in sacked {
            board.insert(start * MSS, end * MSS);
        }
        board.find_lost(MSS);
        board
    }

    /// RFC 6675 section 4, `IsLost`: three ranges above, or more than two segments' bytes.
    #[test]
    fn data_is_lost_below_three_ranges_or_more_than_two_segments() {
        assert!(!with(&[(1, 3)]).is_lost(0), "two segments are not more than two");
        assert!(with(&[(1, 4)]).is_lost(0));
        let mut small = Scoreboard::default();
        for start in [100, 300, 500] {
            small.insert(start, start + 50);
        }
        assert!(small.find_lost(MSS));
        assert!(small.is_lost(99) && !small.is_lost(250), "three small ranges above the first hole only");
        assert!(!small.find_lost(MSS), "nothing new");
        let board = with(&[(1, 2), (4, 5), (6, 8)]);
        assert!(board.is_lost(3 * MSS) && !board.is_lost(5 * MSS));
    }

    /// RFC 6675 section 4, `SetPipe`: ten segments sent; 1 to 3 SACKed, so 0 is lost; it is sent again.
    #[test]
    fn the_pipe_leaves_out_what_is_sacked_or_lost_and_counts_retransmissions() {
        let mut board = with(&[(1, 4)]);
        assert_eq!(board.pipe(0, 10 * MSS), 6 * MSS);
        assert!(board.begin(0));
        board.retransmitted(MSS);
        assert_eq!(board.pipe(0, 10 * MSS), 7 * MSS);
        assert_eq!(with(&[]).pipe(0, 10 * MSS), 10 * MSS);
        // A hole that is not lost and was sent again is in the network twice.
        let mut board = with(&[(1, 3)]);
        board.retransmitted(MSS);
        assert_eq!(board.pipe(0, 10 * MSS), 9 * MSS);
    }

    #[test]
    fn the_rules_choose_lost_holes_then_any_hole_then_one_rescue() {
        let mut board = with(&[(1, 2), (3, 4), (5, 7)]);
        assert!(board.begin(0));
        let hole = |start, end| Some(Hole { start: start * MSS, end: end * MSS });
        assert_eq!(board.next_hole(0, true), hole(0, 1));
        board.retransmitted(MSS);
        assert_eq!(board.next_hole(0, true), hole(2, 3));
        board.retransmitted(3 * MSS);
        assert_eq!(board.next_hole(0, true), None, "two segments above it do not make 4 lost");
        assert_eq!(board.next_hole(0, false), hole(4, 5));
        board.retransmitted(5 * MSS);
        assert_eq!(board.next_hole(0, false), None, "nothing SACKed is above 7");
        assert_eq!(board.rescue(0, 10 * MSS), hole(7, 10));
        assert_eq!(board.rescue(0, 10 * MSS), None, "once in a recovery");
        assert!(!board.begin(4 * MSS), "what a recovery has sent again the next one does not");
        assert!(board.rescue(4 * MSS, 10 * MSS).is_some());
        board.forget_retransmissions();
        assert!(board.begin(4 * MSS));
        assert_eq!(board.rescue(4 * MSS, 7 * MSS), hole(4, 5), "nothing is above 7 any more");
    }

    #[test]
    fn an_ack_takes_out_what_it_covers() {
        let mut board = with(&[(1, 4), (6, 8)]);
        assert_eq!(board.sacked_below(7 * MSS), 4 * MSS);
        assert_eq!((board.skip(2 * MSS), board.skip(4 * MSS)), (4 * MSS, 4 * MSS));
        assert_eq!(board.next_sacked(4 * MSS), Some(6 * MSS));
        assert_eq!(board.advance(5 * MSS), 3 * MSS);
        assert_eq!(board.advance(5 * MSS), 0);
        assert!(!board.is_empty());
        assert_eq!(board.advance(8 * MSS), 2 * MSS);
        assert!(board.is_empty());
    }
}
