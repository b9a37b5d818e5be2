//! Options of segments: SACK (RFC 2018), which says what a receiver has beyond the gap, and telemetry.
//!
//! As with the facts of messages, options do not travel inside the packet but beside it: the end that
//! writes one keeps it, the packet carries its number, and nobody reads it before the packet is there.

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

/// The telemetry of one end.
#[derive(Clone, Debug, Default)]
struct Collected {
    /// Of the segments on their way, as many as there are SACK options.
    sent: VecDeque<Carried>,
    /// What the last data segment brought, if no ACK has said it yet.
    to_echo: Option<Telemetry>,
}

/// The options that one end has written: what it has said by SACK, and in which order its ranges were touched; and
/// telemetry.
#[derive(Clone, Debug, Default)]
pub(crate) struct OptionsWriter {
    /// An offset in each range touched lately, the last first.
    touched: Vec<u64>,
    /// What has arrived again, to be told by the next option.
    duplicate: Option<(u64, u64)>,
    /// Options on their way; the first has this number.
    sent: VecDeque<SackOption>,
    first: u64,
    /// Only where the connection's senders want telemetry.
    collected: Option<Box<Collected>>,
}

impl OptionsWriter {
    /// One for an end whose data segments collect telemetry.
    pub(crate) fn new(wants_telemetry: bool) -> Self {
        Self { collected: wants_telemetry.then(Box::default), ..Self::default() }
    }

    /// Whether data segments collect telemetry.
    #[inline]
    pub(crate) const fn collects(&self) -> bool {
        self.collected.is_some()
    }

    /// A port that the packet with this number has left says something. Unless it was overtaken by a later one, it is
    /// still on its way.
    pub(crate) fn add_hop(&mut self, number: u16, hop: Hop) {
        let ahead = usize::from(number.wrapping_sub(self.first as u16));
        if let Some(carried) = self.collected.as_mut().and_then(|collected| collected.sent.get_mut(ahead)) {
            carried.own.push(hop);
        }
    }

    /// A data segment has brought telemetry, which the next ACK hands back.
    pub(crate) fn hand_back(&mut self, telemetry: &Telemetry) {
        if let Some(collected) = &mut self.collected {
            collected.to_echo = Some(*telemetry);
        }
    }

    /// Whether there is telemetry to be handed back.
    #[inline]
    pub(crate) fn hands_back(&self) -> bool {
        self.collected.as_ref().is_some_and(|collected| collected.to_echo.is_some())
    }

    /// Makes room for the telemetry of a segment, in its SACK option if that has just been written. Telemetry to be handed
    /// back goes with it. Returns its number.
    pub(crate) fn write_telemetry(&mut self, number: Option<u16>) -> u16 {
        let number = number.unwrap_or_else(|| self.push(SackOption::NONE));
        if let Some(collected) = &mut self.collected
            && let (Some(telemetry), Some(last)) = (collected.to_echo.take(), collected.sent.back_mut())
        {
            last.echo = telemetry;
        }
        number
    }

    fn push(&mut self, option: SackOption) -> u16 {
        if self.sent.len() == MOST_WAITING {
            self.forget(1);
        }
        self.sent.push_back(option);
        if let Some(collected) = &mut self.collected {
            collected.sent.push_back(Carried::default());
        }
        (self.first + self.sent.len() as u64 - 1) as u16
    }

    fn forget(&mut self, oldest: u64) {
        self.sent.drain(..oldest as usize);
        if let Some(collected) = &mut self.collected {
            collected.sent.drain(..oldest as usize);
        }
        self.first += oldest;
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
    pub(crate) fn write(&mut self, beyond_gap: &Ranges, timestamps: bool) -> (u16, u8) {
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
        (self.push(option), option.count)
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
        let telemetry = self.collected.as_ref().map(|collected| collected.sent[ahead]);
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

    /// RFC 2018 section 4, case 2, with segments of 500 bytes from 5000 on, the first lost: one block grows.
    #[test]
    fn a_lost_first_segment_leaves_one_growing_block() {
        let (mut writer, mut ranges) = (OptionsWriter::default(), Ranges::default());
        for start in (5500..9000).step_by(500) {
            ranges.insert(start, start + 500);
            writer.touch(start, ranges.containing(start).unwrap());
            let (number, _) = writer.write(&ranges, false);
            assert_eq!(writer.read(&packet(number)).0.blocks(), [(5500, start as u32 + 500)]);
        }
    }

    /// RFC 2018 section 4, case 3: every other segment lost; the newest block comes first, at most four.
    #[test]
    fn the_block_touched_last_comes_first_and_only_so_many_fit() {
        let (mut writer, mut ranges) = (OptionsWriter::default(), Ranges::default());
        let mut said = Vec::new();
        for start in [5500, 6500, 7500, 8500, 9500] {
            ranges.insert(start, start + 500);
            writer.touch(start, ranges.containing(start).unwrap());
            let (number, _) = writer.write(&ranges, start == 8500);
            said.push(writer.read(&packet(number)).0.blocks().iter().map(|block| block.0).collect::<Vec<_>>());
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
        writer.touch(6000, ranges.containing(6000).unwrap());
        let (number, _) = writer.write(&ranges, false);
        assert_eq!(writer.read(&packet(number)).0.blocks()[..2], [(5500, 7000), (9500, 10_000)]);
        // What was delivered is not told any more.
        ranges.take_from(7000);
        let (number, _) = writer.write(&ranges, false);
        assert_eq!(writer.read(&packet(number)).0.blocks()[0], (9500, 10_000));
    }

    #[test]
    fn options_are_found_in_any_order_across_the_wrap_of_their_numbers() {
        let (mut writer, mut ranges) = (OptionsWriter::default(), Ranges::default());
        let mut numbers = Vec::new();
        for start in 0..70_000_u64 {
            ranges.clear();
            ranges.insert(start, start + 1);
            writer.touch(start, (start, start + 1));
            numbers.push(writer.write(&ranges, false).0);
            if start > 0 {
                // This one first, the one before it later, as after overtaking.
                for at in [start, start - 1] {
                    let option = writer.read(&packet(numbers[at as usize])).0;
                    assert_eq!(option.blocks(), [(at as u32, at as u32 + 1)]);
                }
            }
        }
        assert!(writer.sent.len() <= KEPT as usize + 2, "{}", writer.sent.len());
    }

    #[test]
    fn an_option_that_is_not_kept_any_more_says_nothing() {
        let (mut writer, mut ranges) = (OptionsWriter::default(), Ranges::default());
        ranges.insert(10, 20);
        writer.touch(10, (10, 20));
        let (first, blocks) = writer.write(&ranges, false);
        assert_eq!(blocks, 1);
        for _ in 0..MOST_WAITING {
            writer.write(&ranges, false);
        }
        assert_eq!(writer.read(&packet(first)), (SackOption::NONE, None));
        assert_eq!(writer.sent.len(), MOST_WAITING);
    }
}
