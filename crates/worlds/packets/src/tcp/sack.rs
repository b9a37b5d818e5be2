//! Options of segments: SACK (RFC 2018), which says what a receiver has beyond the gap, and telemetry.
//!
//! As with the facts of messages, options do not travel inside the packet but beside it: the end that writes one hands
//! it to the other end, the packet carries its number, and nobody reads it before the packet is there.

use std::collections::VecDeque;

use incast_protocols::switch::telemetry::{Hop, Telemetry};

use super::ranges::Ranges;
use crate::packet::Packet;

/// Blocks that fit beside no other option (RFC 2018 section 3).
const MOST_BLOCKS: usize = 4;
/// Of how many ranges the receiver remembers which was touched last.
const REMEMBERED: usize = 8;
/// Options older than the one read last that are kept, for packets that were overtaken.
const KEPT: u64 = 256;
/// As many where packets collect telemetry, which takes more room.
const KEPT_WITH_TELEMETRY: u64 = 32;
/// Options that may wait to be read: their numbers have 16 bits on the wire.
const MOST_WAITING: usize = 1 << 14;

/// One option: up to four blocks, as lower halves of (start, end), the one touched last first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SackOption {
    blocks: [(u32, u32); MOST_BLOCKS],
    count: u8,
}

impl SackOption {
    /// No block.
    pub(crate) const NONE: Self = Self { blocks: [(0, 0); MOST_BLOCKS], count: 0 };

    pub(crate) fn blocks(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.count)]
    }

    /// What another end has written.
    pub(crate) fn read(blocks: &[(u32, u32)]) -> Self {
        let mut option = Self::NONE;
        for &(start, end) in blocks.iter().take(MOST_BLOCKS) {
            option.push((u64::from(start), u64::from(end)));
        }
        option
    }

    /// One that says these blocks, in this order.
    #[cfg(test)]
    pub(crate) fn of(blocks: &[(u64, u64)]) -> Self {
        let mut option = Self::NONE;
        for block in blocks {
            option.push(*block);
        }
        option
    }

    fn push(&mut self, (start, end): (u64, u64)) {
        self.blocks[usize::from(self.count)] = (start as u32, end as u32);
        self.count += 1;
    }
}

/// The options that a segment brings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options<'a> {
    pub(crate) sack: &'a SackOption,
    pub(crate) telemetry: Option<&'a Carried>,
}

impl Options<'_> {
    /// A segment without options.
    pub(crate) const NONE: Self = Self { sack: &SackOption::NONE, telemetry: None };
}

/// The telemetry of one segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Carried {
    /// What it has collected on its way, if it has data.
    pub(crate) own: Telemetry,
    /// What the data has collected that it acknowledges.
    pub(crate) echo: Telemetry,
}

/// Options that an end has just written, in the order of their numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    pub(crate) sacks: Vec<SackOption>,
    /// Telemetry handed back, as many as there are SACK options; none where nobody wants telemetry.
    pub(crate) echoes: Vec<Telemetry>,
}

impl Written {
    pub(crate) fn clear(&mut self) {
        self.sacks.clear();
        self.echoes.clear();
    }
}

/// Writes the options of one end: knows in which order its ranges were touched, and what telemetry is to be handed back.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub(crate) struct OptionsWriter {
    /// Only where the connection's senders want telemetry: what the last data segment brought, if no ACK has said it yet.
    to_echo: Option<Box<Option<Telemetry>>>,
    /// What has arrived again, to be told by the next option.
    duplicate: Option<(u64, u64)>,
    /// The number of the next option.
    next: u16,
    /// An offset in each range touched lately, the last first.
    touched: Vec<u64>,
}

impl OptionsWriter {
    /// One for an end whose data segments collect telemetry.
    pub(crate) fn new(wants_telemetry: bool) -> Self {
        Self { to_echo: wants_telemetry.then(Box::default), ..Self::default() }
    }

    /// Whether data segments collect telemetry.
    #[inline]
    const fn collects(&self) -> bool {
        self.to_echo.is_some()
    }

    /// A data segment has brought telemetry, which the next ACK hands back.
    pub(crate) fn hand_back(&mut self, telemetry: &Telemetry) {
        if let Some(to_echo) = &mut self.to_echo {
            **to_echo = Some(*telemetry);
        }
    }

    /// Whether there is telemetry to be handed back.
    #[inline]
    pub(crate) fn hands_back(&self) -> bool {
        self.to_echo.as_ref().is_some_and(|to_echo| to_echo.is_some())
    }

    /// Makes room for the telemetry of a segment, in its SACK option if that has just been written. Telemetry to be handed
    /// back goes with it. Returns its number.
    pub(crate) fn write_telemetry(&mut self, number: Option<u16>, out: &mut Written) -> u16 {
        let number = number.unwrap_or_else(|| self.push(SackOption::NONE, out));
        let telemetry = self.to_echo.as_mut().and_then(|to_echo| to_echo.take());
        if let (Some(telemetry), Some(last)) = (telemetry, out.echoes.last_mut()) {
            *last = telemetry;
        }
        number
    }

    fn push(&mut self, option: SackOption, out: &mut Written) -> u16 {
        out.sacks.push(option);
        if self.collects() {
            out.echoes.push(Telemetry::default());
        }
        let number = self.next;
        self.next = number.wrapping_add(1);
        number
    }

    /// Data beyond the gap arrived at `offset`, which now lies in `range`.
    pub(crate) fn touch(&mut self, offset: u64, range: (u64, u64)) {
        self.touched.retain(|other| !(range.0..range.1).contains(other));
        self.touched.insert(0, offset);
        self.touched.truncate(REMEMBERED);
    }

    /// `[start, end)` has arrived again.
    pub(crate) const fn note_duplicate(&mut self, start: u64, end: u64) {
        self.duplicate = Some((start, end));
    }

    /// Whether there is a duplicate to be told of.
    #[inline]
    pub(crate) const fn has_duplicate(&self) -> bool {
        self.duplicate.is_some()
    }

    /// Writes the duplicate, if there is one, and what `beyond_gap` holds; returns its number and the number of blocks: with timestamps three
    /// fit, else four (RFC 2018 section 3).
    pub(crate) fn write(&mut self, beyond_gap: &Ranges, timestamps: bool, out: &mut Written) -> (u16, u8) {
        let most = if timestamps { MOST_BLOCKS - 1 } else { MOST_BLOCKS };
        let mut option = SackOption::NONE;
        let mut most = most;
        if let Some(duplicate) = self.duplicate.take() {
            option.push(duplicate);
            most -= 1;
        }
        self.touched.retain(|offset| beyond_gap.containing(*offset).is_some());
        for range in self.touched.iter().filter_map(|offset| beyond_gap.containing(*offset)).take(most) {
            option.push(range);
        }
        (self.push(option, out), option.count)
    }
}

/// Options of the other end that are on their way to this one.
#[derive(Clone, Debug, Default)]
pub(crate) struct OptionsReader {
    /// The first has this number.
    sent: VecDeque<SackOption>,
    first: u64,
    /// Telemetry, where the connection's senders want any: as much as there are SACK options.
    carried: Option<VecDeque<Carried>>,
}

impl OptionsReader {
    /// One for an end to which telemetry comes.
    pub(crate) fn new(wants_telemetry: bool) -> Self {
        Self { carried: wants_telemetry.then(VecDeque::new), ..Self::default() }
    }

    /// The other end has written an option; with telemetry, if anybody wants any.
    pub(crate) fn push(&mut self, option: SackOption, echo: Option<&Telemetry>) {
        if self.sent.len() == MOST_WAITING {
            self.forget(1);
        }
        self.sent.push_back(option);
        if let Some(carried) = &mut self.carried {
            carried.push_back(Carried { echo: echo.copied().unwrap_or_default(), ..Carried::default() });
        }
    }

    /// The other end has written these options.
    pub(crate) fn extend(&mut self, written: &Written) {
        for (number, &option) in written.sacks.iter().enumerate() {
            self.push(option, written.echoes.get(number));
        }
    }

    fn forget(&mut self, oldest: u64) {
        self.sent.drain(..oldest as usize);
        if let Some(carried) = &mut self.carried {
            carried.drain(..oldest as usize);
        }
        self.first += oldest;
    }

    /// A port that the packet with this number has left says something. Unless it was overtaken by a later one, it is
    /// still on its way.
    pub(crate) fn add_hop(&mut self, number: u16, hop: Hop) {
        let ahead = usize::from(number.wrapping_sub(self.first as u16));
        if let Some(carried) = self.carried.as_mut().and_then(|carried| carried.get_mut(ahead)) {
            carried.own.push(hop);
        }
    }

    /// The SACK option that a packet just made carries, and how many options are kept by now.
    pub(crate) fn written(&self, packet: &Packet) -> (SackOption, usize) {
        let ahead = usize::from(packet.option.wrapping_sub(self.first as u16));
        (self.sent.get(ahead).copied().unwrap_or(SackOption::NONE), self.sent.len())
    }

    /// The options that `packet` carries.
    pub(crate) fn read(&mut self, packet: &Packet) -> (SackOption, Option<Carried>) {
        let ahead = usize::from(packet.option.wrapping_sub(self.first as u16));
        let Some(option) = self.sent.get(ahead).copied() else { return (SackOption::NONE, None) };
        let telemetry = self.carried.as_ref().map(|carried| carried[ahead]);
        let kept = if telemetry.is_some() { KEPT_WITH_TELEMETRY } else { KEPT };
        self.forget((ahead as u64).saturating_sub(kept));
        (option, telemetry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(option: u16) -> Packet {
        Packet { option, ..Packet::default() }
    }

    /// What one end writes and the other reads.
    #[derive(Default)]
    struct Pair {
        writer: OptionsWriter,
        reader: OptionsReader,
    }

    impl Pair {
        fn write(&mut self, beyond_gap: &Ranges, timestamps: bool) -> (u16, u8) {
            let mut out = Written::default();
            let written = self.writer.write(beyond_gap, timestamps, &mut out);
            self.reader.extend(&out);
            written
        }
    }

    /// RFC 2018 section 4, case 2, with segments of 500 bytes from 5000 on, the first lost: one block grows.
    #[test]
    fn a_lost_first_segment_leaves_one_growing_block() {
        let (mut pair, mut ranges) = (Pair::default(), Ranges::default());
        for start in (5500..9000).step_by(500) {
            ranges.insert(start, start + 500);
            pair.writer.touch(start, ranges.containing(start).unwrap());
            let (number, _) = pair.write(&ranges, false);
            assert_eq!(pair.reader.read(&packet(number)).0.blocks(), [(5500, start as u32 + 500)]);
        }
    }

    /// RFC 2018 section 4, case 3: every other segment lost; the newest block comes first, at most four.
    #[test]
    fn the_block_touched_last_comes_first_and_only_so_many_fit() {
        let (mut pair, mut ranges) = (Pair::default(), Ranges::default());
        let mut said = Vec::new();
        for start in [5500, 6500, 7500, 8500, 9500] {
            ranges.insert(start, start + 500);
            pair.writer.touch(start, ranges.containing(start).unwrap());
            let (number, _) = pair.write(&ranges, start == 8500);
            said.push(pair.reader.read(&packet(number)).0.blocks().iter().map(|block| block.0).collect::<Vec<_>>());
        }
        assert_eq!(
            said,
            [
                vec![5500],
                vec![6500, 5500],
                vec![7500, 6500, 5500],
                vec![8500, 7500, 6500],
                vec![9500, 8500, 7500, 6500]
            ]
        );
        // A hole is filled: one range remains of three, and counts once.
        ranges.insert(6000, 6500);
        pair.writer.touch(6000, ranges.containing(6000).unwrap());
        let (number, _) = pair.write(&ranges, false);
        assert_eq!(pair.reader.read(&packet(number)).0.blocks()[..2], [(5500, 7000), (9500, 10_000)]);
        // What was delivered is not told any more.
        ranges.take_from(7000);
        let (number, _) = pair.write(&ranges, false);
        assert_eq!(pair.reader.read(&packet(number)).0.blocks()[0], (9500, 10_000));
    }

    #[test]
    fn options_are_found_in_any_order_across_the_wrap_of_their_numbers() {
        let (mut pair, mut ranges) = (Pair::default(), Ranges::default());
        let mut numbers = Vec::new();
        for start in 0..70_000_u64 {
            ranges.clear();
            ranges.insert(start, start + 1);
            pair.writer.touch(start, (start, start + 1));
            numbers.push(pair.write(&ranges, false).0);
            if start > 0 {
                // This one first, the one before it later, as after overtaking.
                for at in [start, start - 1] {
                    let option = pair.reader.read(&packet(numbers[at as usize])).0;
                    assert_eq!(option.blocks(), [(at as u32, at as u32 + 1)]);
                }
            }
        }
        assert!(pair.reader.sent.len() <= KEPT as usize + 2, "{}", pair.reader.sent.len());
    }

    #[test]
    fn an_option_that_is_not_kept_any_more_says_nothing() {
        let (mut pair, mut ranges) = (Pair::default(), Ranges::default());
        ranges.insert(10, 20);
        pair.writer.touch(10, (10, 20));
        let (first, blocks) = pair.write(&ranges, false);
        assert_eq!(blocks, 1);
        for _ in 0..MOST_WAITING {
            pair.write(&ranges, false);
        }
        assert_eq!(pair.reader.read(&packet(first)), (SackOption::NONE, None));
        assert_eq!(pair.reader.sent.len(), MOST_WAITING);
    }
}
