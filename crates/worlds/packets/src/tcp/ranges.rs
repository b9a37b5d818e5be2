//! Pieces of a byte stream: what arrived beyond a gap, what a peer says has arrived there.

/// Disjoint ranges of stream offsets, in order, none touching another.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    ranges: Vec<(u64, u64)>,
}

impl Ranges {
    pub(crate) const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The ranges, as (start, end), end exclusive.
    pub(crate) fn as_slice(&self) -> &[(u64, u64)] {
        &self.ranges
    }

    /// The range that `offset` lies in.
    pub(crate) fn containing(&self, offset: u64) -> Option<(u64, u64)> {
        let after = self.ranges.partition_point(|range| range.0 <= offset);
        self.ranges[..after].last().copied().filter(|range| offset < range.1)
    }

    /// Where the first range beyond `offset` begins.
    pub(crate) fn next_start(&self, offset: u64) -> Option<u64> {
        self.ranges.get(self.ranges.partition_point(|range| range.0 <= offset)).map(|range| range.0)
    }

    /// Bytes in all ranges.
    pub(crate) fn bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.1 - range.0).sum()
    }

    /// Bytes below `offset`.
    pub(crate) fn bytes_below(&self, offset: u64) -> u64 {
        self.ranges.iter().take_while(|range| range.0 < offset).map(|range| range.1.min(offset) - range.0).sum()
    }

    /// Forgets everything.
    #[cfg(test)]
    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
    }

    /// Puts `[start, end)` in and says how many of its bytes are new.
    pub(crate) fn insert(&mut self, start: u64, end: u64) -> u64 {
        let first = self.ranges.partition_point(|range| range.1 < start);
        let mut merged = (start, end);
        let mut known = 0;
        let mut last = first;
        while let Some(range) = self.ranges.get(last).filter(|range| range.0 <= end) {
            known += range.1.min(end).saturating_sub(range.0.max(start));
            merged = (merged.0.min(range.0), merged.1.max(range.1));
            last += 1;
        }
        if first == last {
            self.ranges.insert(first, merged);
        } else {
            self.ranges[first] = merged;
            self.ranges.drain(first + 1..last);
        }
        end - start - known
    }

    /// Takes out what has become contiguous with `next` and says where that ends.
    pub(crate) fn take_from(&mut self, next: u64) -> u64 {
        let reached = self.ranges.partition_point(|range| range.0 <= next);
        let end = self.ranges[..reached].last().map_or(next, |range| range.1.max(next));
        self.ranges.drain(..reached);
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_holds_what_a_set_of_bytes_holds(segments in prop::collection::vec((0_u64..200, 1_u64..30), 1..40)) {
            let mut ranges = Ranges::default();
            let mut set = std::collections::BTreeSet::new();
            for (start, len) in segments {
                let before = set.len();
                set.extend(start..start + len);
                prop_assert_eq!(ranges.insert(start, start + len), (set.len() - before) as u64);
                prop_assert_eq!(ranges.bytes(), set.len() as u64);
                prop_assert!(ranges.ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
            }
            for offset in 0..240 {
                prop_assert_eq!(ranges.bytes_below(offset), set.range(..offset).count() as u64);
                let inside = ranges.containing(offset);
                prop_assert_eq!(inside.is_some(), set.contains(&offset));
                prop_assert!(inside.is_none_or(|(start, end)| start <= offset && offset < end));
                let next = ranges.as_slice().iter().map(|range| range.0).find(|start| *start > offset);
                prop_assert_eq!(ranges.next_start(offset), next);
            }
            let first = *set.first().unwrap();
            let end = ranges.take_from(first);
            let contiguous = (first..300).take_while(|byte| set.contains(byte)).count() as u64;
            prop_assert_eq!(end, first + contiguous);
        }
    }
}
