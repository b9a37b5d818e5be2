//! In-order payload over time, in bins that widen as time goes on.

use incast_protocols::Duration;
use incast_record::DeliveryCurve;

/// Bins of the delivery curve; their width doubles when time runs over the last.
const BINS: usize = 1024;

/// In-order payload over time.
#[derive(Clone, Debug)]
pub struct Curve {
    /// A bin is `1 << shift` picoseconds wide.
    shift: u32,
    bytes: Vec<u64>,
}

impl Default for Curve {
    fn default() -> Self {
        Self { shift: 20, bytes: vec![0; BINS] }
    }
}

impl Curve {
    /// `bytes` of payload were delivered at `now`.
    #[inline]
    pub fn add(&mut self, now: u64, bytes: u64) {
        while now >> self.shift >= BINS as u64 {
            self.widen();
        }
        self.bytes[(now >> self.shift) as usize] += bytes;
    }

    #[cold]
    fn widen(&mut self) {
        for bin in 0..BINS / 2 {
            self.bytes[bin] = self.bytes[2 * bin] + self.bytes[2 * bin + 1];
        }
        self.bytes[BINS / 2..].fill(0);
        self.shift += 1;
    }

    /// Adds what others have delivered.
    pub fn join(&mut self, other: &Self) {
        let mut other = other.clone();
        while other.shift < self.shift {
            other.widen();
        }
        while self.shift < other.shift {
            self.widen();
        }
        for (mine, theirs) in self.bytes.iter_mut().zip(other.bytes) {
            *mine += theirs;
        }
    }

    /// The first instant after the bin that `now` lies in.
    #[must_use]
    pub const fn bin_end(&self, now: u64) -> u64 {
        ((now >> self.shift) + 1) << self.shift
    }

    /// The curve as results have it.
    #[must_use]
    pub fn finish(mut self) -> DeliveryCurve {
        let used = self.bytes.iter().rposition(|bytes| *bytes > 0).map_or(0, |last| last + 1);
        self.bytes.truncate(used);
        DeliveryCurve { width: Duration(1 << self.shift), bytes: self.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_keeps_its_sum_when_time_runs_on() {
        let mut curve = Curve::default();
        for step in 0..5_000_u64 {
            curve.add(step * 777_777_777, step);
        }
        let curve = curve.finish();
        assert_eq!(curve.bytes.iter().sum::<u64>(), 5_000 * 4_999 / 2);
        assert!(curve.bytes.len() <= BINS);
    }

    #[test]
    fn what_two_have_counted_adds_up_to_what_one_counts() {
        for far in [1 << 20, 1 << 40] {
            let (mut all, mut early, mut late) = (Curve::default(), Curve::default(), Curve::default());
            for step in 0..2_000_u64 {
                let (now, part) = if step % 3 == 0 { (step * far, &mut late) } else { (step << 18, &mut early) };
                all.add(now, step);
                part.add(now, step);
            }
            let (mut one, mut other) = (early.clone(), late.clone());
            one.join(&late);
            other.join(&early);
            let all = all.finish();
            assert_eq!((one.finish(), other.finish()), (all.clone(), all));
        }
    }
}
