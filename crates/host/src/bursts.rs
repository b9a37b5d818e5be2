//! What the intervals of one direction of a port say of bursts and incast.

use serde_json::{Value, json};

/// What passed in one interval, or in several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interval {
    /// On the wire, without preamble and checksum of frames.
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    /// That brought data; of several intervals the most of one.
    pub(crate) connections: u64,
    /// Those of them that had brought none in the same burst, so that their sum is the number of its connections.
    pub(crate) joined: u64,
    pub(crate) ce_packets: u64,
    pub(crate) incast_packets: u64,
    /// Whose data began before the highest sequence number that had been seen.
    pub(crate) retransmitted_packets: u64,
}

impl Interval {
    /// Counts stop at the largest number rather than begin anew.
    fn add(&mut self, other: &Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.packets = self.packets.saturating_add(other.packets);
        self.connections = self.connections.max(other.connections);
        self.joined = self.joined.saturating_add(other.joined);
        self.ce_packets = self.ce_packets.saturating_add(other.ce_packets);
        self.incast_packets = self.incast_packets.saturating_add(other.incast_packets);
        self.retransmitted_packets = self.retransmitted_packets.saturating_add(other.retransmitted_packets);
    }
}

/// What the counts are compared with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) interval_ns: u64,
    pub(crate) rate_bps: u64,
    pub(crate) incast_connections: u64,
}

impl Terms {
    /// The most bytes of an interval that is not more than half full.
    pub(crate) fn half(self) -> u64 {
        (u128::from(self.rate_bps) * u128::from(self.interval_ns) / 16_000_000_000) as u64
    }

    /// Whether so much takes more than this percentage of an interval.
    fn is_above(self, bytes: u64, percent: u64) -> bool {
        let sent = u128::from(bytes) * 8 * 1_000_000_000 * 100;
        sent > u128::from(self.rate_bps) * u128::from(self.interval_ns) * u128::from(percent)
    }
}

/// Intervals in a row that are more than half full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Burst {
    pub(crate) start_ns: u64,
    pub(crate) duration_ns: u64,
    pub(crate) counts: Interval,
}

/// One direction, interval by interval.
#[derive(Clone, Debug)]
pub(crate) struct Bursts {
    terms: Terms,
    intervals: u64,
    above_half: u64,
    above_four_fifths: u64,
    total: Interval,
    current: Option<Burst>,
    all: Vec<Burst>,
}

impl Bursts {
    pub(crate) fn new(terms: Terms) -> Self {
        let total = Interval::default();
        Self { terms, intervals: 0, above_half: 0, above_four_fifths: 0, total, current: None, all: vec![] }
    }

    /// The next interval.
    pub(crate) fn add(&mut self, interval: &Interval) {
        let start_ns = self.intervals * self.terms.interval_ns;
        self.intervals += 1;
        self.total.add(interval);
        self.above_four_fifths += u64::from(self.terms.is_above(interval.bytes, 80));
        if !self.terms.is_above(interval.bytes, 50) {
            self.end();
            return;
        }
        self.above_half += 1;
        let burst = self.current.get_or_insert(Burst { start_ns, ..Burst::default() });
        burst.duration_ns += self.terms.interval_ns;
        burst.counts.add(interval);
    }

    /// Nothing follows, or nothing of this burst.
    pub(crate) fn end(&mut self) {
        self.all.extend(self.current.take());
    }

    pub(crate) fn all(&self) -> &[Burst] {
        &self.all
    }

    fn incasts(&self) -> usize {
        self.all.iter().filter(|burst| burst.counts.joined >= self.terms.incast_connections).count()
    }

    /// The one with rank `share` of all bursts, by nearest rank.
    fn percentile(&self, percent: usize, of: impl Fn(&Burst) -> u64) -> Option<u64> {
        let mut values: Vec<u64> = self.all.iter().map(of).collect();
        values.sort_unstable();
        let rank = (values.len() * percent).div_ceil(100).max(1);
        values.get(rank - 1).copied()
    }

    fn share(&self, of: u64) -> Option<f64> {
        (self.intervals > 0).then(|| of as f64 / self.intervals as f64)
    }

    fn utilisation(&self) -> Option<f64> {
        let span_s = self.intervals as f64 * self.terms.interval_ns as f64 / 1e9;
        (self.intervals > 0).then(|| self.total.bytes as f64 * 8.0 / (self.terms.rate_bps as f64 * span_s))
    }

    /// As part of `summary.json`. What nothing is known of is null.
    pub(crate) fn summary(&self, direction: &str) -> Value {
        let seconds = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e9);
        let connections = |percent| self.percentile(percent, |burst| burst.counts.joined);
        let duration = |percent| seconds(self.percentile(percent, |burst| burst.duration_ns));
        json!({
            "direction": direction,
            "intervals": self.intervals,
            "bytes": self.total.bytes,
            "packets": self.total.packets,
            "ce_packets": self.total.ce_packets,
            "incast_packets": self.total.incast_packets,
            "retransmitted_packets": self.total.retransmitted_packets,
            "connections_max": self.total.connections,
            "utilisation": self.utilisation(),
            "intervals_above_half": self.share(self.above_half),
            "intervals_above_four_fifths": self.share(self.above_four_fifths),
            "bursts": self.all.len(),
            "bursts_of_incast": self.incasts(),
            "burst_duration_median_s": duration(50),
            "burst_duration_p99_s": duration(99),
            "burst_connections_median": connections(50),
            "burst_connections_p99": connections(99),
        })
    }

    /// For people.
    pub(crate) fn describe(&self, direction: &str) -> String {
        let percent = |share: Option<f64>| format!("{:.2} %", 100.0 * share.unwrap_or(0.0));
        let of_packets =
            |count: u64| percent((self.total.packets > 0).then(|| count as f64 / self.total.packets as f64));
        let mut lines = vec![
            format!(
                "{direction:<4} {} packets, utilisation {}; above 50 % in {} of the intervals, above 80 % in {}",
                self.total.packets,
                percent(self.utilisation()),
                percent(self.share(self.above_half)),
                percent(self.share(self.above_four_fifths))
            ),
            format!(
                "     CE on {} of the packets, incast marks on {}, sent again {}",
                of_packets(self.total.ce_packets),
                of_packets(self.total.incast_packets),
                of_packets(self.total.retransmitted_packets)
            ),
        ];
        let ms = |ns: Option<u64>| ns.unwrap_or(0) as f64 / 1e6;
        let (duration, connections) = (|burst: &Burst| burst.duration_ns, |burst: &Burst| burst.counts.joined);
        let least = self.terms.incast_connections;
        if self.all.is_empty() {
            lines.push("     no bursts: no interval is more than half full".into());
        } else {
            lines.push(format!(
                "     {} bursts: median {} ms, longest {} ms; connections: median {}, most {}",
                self.all.len(),
                ms(self.percentile(50, duration)),
                ms(self.percentile(100, duration)),
                self.percentile(50, connections).unwrap_or(0),
                self.percentile(100, connections).unwrap_or(0)
            ));
            lines.push(match self.incasts() {
                0 => format!("     no incast: no burst has {least} connections or more"),
                incasts => {
                    format!("     INCAST: {incasts} of {} bursts have {least} connections or more", self.all.len())
                }
            });
        }
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// At any rate, of any intervals, such as a kernel whose counts are nonsense would give.
        #[test]
        fn mutated_intervals_add_up(
            rate_bps in prop_oneof![1..=u64::MAX, 1_u64..1_000_000],
            interval_ns in 10_000_u64..=1_000_000_000,
            counts in prop::collection::vec((any::<u64>(), any::<u64>(), 0_u64..40, any::<bool>()), 0..40),
        ) {
            let terms = Terms { interval_ns, rate_bps, incast_connections: 10 };
            prop_assert!(!terms.is_above(terms.half(), 50));
            prop_assert!(terms.half() == u64::MAX || terms.is_above(terms.half() + 1, 50));
            let mut bursts = Bursts::new(terms);
            let mut bytes = 0_u64;
            for (any, small, connections, is_full) in &counts {
                let sent = if *is_full { *any } else { small % terms.half().saturating_add(1) };
                bytes = bytes.saturating_add(sent);
                bursts.add(&Interval {
                    bytes: sent, packets: *small, connections: *connections, joined: *any, ..Interval::default()
                });
            }
            bursts.end();
            let above = counts.iter().filter(|one| one.3 && terms.is_above(one.0, 50)).count() as u64;
            let inside: u64 = bursts.all().iter().map(|burst| burst.duration_ns / interval_ns).sum();
            prop_assert_eq!(inside, above);
            let apart = bursts.all().windows(2).all(|two| two[0].start_ns + two[0].duration_ns < two[1].start_ns);
            prop_assert!(apart);
            let summary = bursts.summary("in");
            prop_assert_eq!(&summary["bytes"], &json!(bytes));
            prop_assert!(bursts.describe("in").lines().count() >= 3);
        }
    }

    /// 1 Gbit/s and 1 ms are 125,000 bytes.
    fn bursts(intervals: &[(u64, u64)]) -> Bursts {
        let mut bursts = Bursts::new(Terms { interval_ns: 1_000_000, rate_bps: 1_000_000_000, incast_connections: 10 });
        for (bytes, connections) in intervals {
            bursts.add(&Interval {
                bytes: *bytes,
                packets: bytes / 1250,
                connections: *connections,
                joined: *connections,
                ..Interval::default()
            });
        }
        bursts.end();
        bursts
    }

    #[test]
    fn a_burst_is_intervals_in_a_row_that_are_more_than_half_full() {
        let bursts = bursts(&[(62_500, 1), (62_501, 3), (125_000, 12), (0, 0), (100_001, 2), (100_000, 9)]);
        let found: Vec<_> = bursts
            .all()
            .iter()
            .map(|burst| (burst.start_ns, burst.duration_ns, burst.counts.bytes, burst.counts.joined))
            .collect();
        assert_eq!(found, [(1_000_000, 2_000_000, 187_501, 15), (4_000_000, 2_000_000, 200_001, 11)]);
        let summary = bursts.summary("in");
        assert_eq!((&summary["bursts"], &summary["bursts_of_incast"]), (&json!(2), &json!(2)));
        assert_eq!(summary["intervals_above_half"], json!(4.0 / 6.0));
        assert_eq!(summary["intervals_above_four_fifths"], json!(2.0 / 6.0));
        assert_eq!(summary["utilisation"], json!(450_002.0 * 8.0 / 6e6));
        assert!(bursts.describe("in").contains("INCAST: 2 of 2 bursts have 10 connections or more"));
    }

    #[test]
    fn the_programs_and_the_tables_agree_on_what_half_is() {
        for (rate_bps, interval_ns) in
            [(1_000_000_000, 1_000_000), (50_000_000, 100_001), (10, 10_000), (400_000_000_000, 1_000_000_000)]
        {
            let terms = Terms { interval_ns, rate_bps, incast_connections: 1 };
            assert!(!terms.is_above(terms.half(), 50) && terms.is_above(terms.half() + 1, 50), "{terms:?}");
        }
    }

    #[test]
    fn percentiles_are_those_of_values_that_occurred() {
        let bursts = bursts(&[(125_000, 4), (0, 0), (125_000, 1), (0, 0), (125_000, 2), (0, 0), (125_000, 3)]);
        let connections = |percent| bursts.percentile(percent, |burst| burst.counts.joined);
        assert_eq!([1, 25, 50, 51, 99, 100].map(connections), [1, 1, 2, 3, 4, 4].map(Some));
        assert!(bursts.describe("out").contains("no incast: no burst has 10"));
    }

    #[test]
    fn nothing_sampled_is_null_and_not_zero() {
        let bursts = bursts(&[]);
        let summary = bursts.summary("in");
        for key in ["utilisation", "intervals_above_half", "burst_duration_median_s", "burst_connections_p99"] {
            assert!(summary[key].is_null(), "{key}");
        }
        assert!(bursts.describe("in").contains("no bursts"));
    }
}
