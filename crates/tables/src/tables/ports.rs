//! One row per switch port.

use crate::column::{Column, Values, column, columns};
use crate::goodput::utilization;
use crate::statistics::{Permille, histogram_mean, histogram_percentile};
use incast_record::{PortRow, Run};

pub(crate) const NAME: &str = "ports";
pub(crate) const MEANING: &str = "One row per switch port over the whole run. The queue is packets waiting; the packet in transmission does not count. \
     Its statistics come in three weightings that must not be mixed up: over time, at the enqueue of admitted packets, \
     and at changes of the queue. They are null where the scenario does not record them or nothing arrived.";

pub(crate) struct Row<'a> {
    run: &'a Run,
    port: &'a PortRow,
}

pub(crate) fn rows(run: &Run) -> impl Iterator<Item = Row<'_>> {
    run.ports.iter().map(move |port| Row { run, port })
}

/// The ports that matter most: by drops, then by the longest queue, then by link. Idle ports are left out.
pub(crate) fn bottlenecks(run: &Run, most: usize) -> Vec<Row<'_>> {
    let mut rows: Vec<_> = rows(run).filter(|row| row.port.packets + row.port.drops > 0).collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.port.drops), std::cmp::Reverse(row.port.max_waiting), row.port.link));
    rows.truncate(most);
    rows
}

impl Row<'_> {
    fn over_time(&self) -> &[u64] {
        self.port.queue.as_ref().map_or(&[], |queue| &queue.time_at)
    }

    fn at_enqueue(&self) -> &[u64] {
        self.port.queue.as_ref().map_or(&[], |queue| &queue.found_at_enqueue)
    }

    fn at_change(&self) -> &[u64] {
        self.port.queue.as_ref().map_or(&[], |queue| &queue.changes_to)
    }

    fn mean_bytes_over_time(&self) -> Option<f64> {
        let queue = self.port.queue.as_ref().filter(|queue| queue.observed.0 > 0)?;
        Some(queue.byte_time as f64 / queue.observed.0 as f64)
    }
}

pub(crate) fn columns<'a>() -> Vec<Column<Row<'a>>> {
    let mut columns = counters();
    columns.extend(queue_statistics());
    columns
}

fn counters<'a>() -> Vec<Column<Row<'a>>> {
    use Values::{MaybeReal, MaybeWhole, Text, Whole};
    columns! {
        /// Number of the link behind the port.
        link: Whole(|r| r.port.link.into());
        /// Node it belongs to.
        from: Text(|r| &r.port.from);
        /// Node at the other end of the link.
        to: Text(|r| &r.port.to);
        /// Line rate.
        rate_bps "bit/s": Whole(|r| r.port.rate.0);
        /// What it may hold while the other ports are empty, if its buffer counts bytes; else null.
        limit_bytes "bytes": MaybeWhole(|r| r.port.limit_bytes.map(|limit| limit.0));
        /// The same, if its buffer counts packets; else null.
        limit_packets "packets": MaybeWhole(|r| r.port.limit_packets.map(u64::from));
        /// Packets whose transmission began.
        packets "packets": Whole(|r| r.port.packets);
        /// Their bytes on the wire, headers included.
        bytes "bytes": Whole(|r| r.port.bytes.0);
        /// `bytes * 8 / rate_bps` over the whole run, 0 to 1; null for a run of no length.
        utilization: MaybeReal(|r| utilization(r.port.bytes.0, r.port.rate, r.run.end));
        /// Packets not admitted.
        drops_packets "packets": Whole(|r| r.port.drops);
        /// Packets marked CE here.
        ce_marks_packets "packets": Whole(|r| r.port.ce_marks);
        /// Packets marked EIN here.
        ein_marks_packets "packets": Whole(|r| r.port.ein_marks);
        /// Packets lost on the wire by the link's configured loss.
        wire_losses_packets "packets": Whole(|r| r.port.wire_losses);
        /// Most packets that ever waited.
        max_waiting_packets "packets": Whole(|r| r.port.max_waiting.into());
        /// From the first arrival to the last departure: what `..._over_time` averages over.
        observed_s "s": MaybeReal(|r| r.port.queue.as_ref().map(|queue| queue.observed.as_secs_f64()));
    }
}

/// Mean and percentiles of one weighting: of `$of`, named `..._waiting_packets$suffix`.
macro_rules! weighting {
    ($of:ident, $suffix:literal, $weighting:literal) => {
        [
            column(
                concat!("mean_waiting_packets", $suffix),
                "packets",
                concat!("Mean queue ", $weighting, "."),
                Values::MaybeReal(|r: &Row<'_>| histogram_mean(r.$of())),
            ),
            weighting!($of, $suffix, $weighting, "p5", P5, "5th percentile of the queue "),
            weighting!($of, $suffix, $weighting, "p50", P50, "Median queue "),
            weighting!($of, $suffix, $weighting, "p95", P95, "95th percentile of the queue "),
            weighting!($of, $suffix, $weighting, "p99", P99, "99th percentile of the queue "),
        ]
    };
    ($of:ident, $suffix:literal, $weighting:literal, $name:literal, $at:ident, $words:literal) => {
        column(
            concat!($name, "_waiting_packets", $suffix),
            "packets",
            concat!($words, $weighting, "."),
            Values::MaybeWhole(|r: &Row<'_>| histogram_percentile(r.$of(), Permille::$at)),
        )
    };
}

fn queue_statistics<'a>() -> Vec<Column<Row<'a>>> {
    let mut columns = Vec::new();
    columns.extend(weighting!(over_time, "_over_time", "over time"));
    columns.push(column(
        "mean_waiting_bytes_over_time",
        "bytes",
        "Mean queue over time, in bytes on the wire.",
        Values::MaybeReal(|r: &Row<'_>| r.mean_bytes_over_time()),
    ));
    columns.extend(weighting!(at_enqueue, "_at_enqueue", "that an admitted packet found"));
    columns.extend(weighting!(at_change, "_at_change", "left by a change of it, each change counting once"));
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{json_row, small_run};
    use serde_json::json;

    #[test]
    fn the_three_weightings_are_told_apart() {
        let run = small_run();
        let row = json_row(&columns(), &rows(&run).next().unwrap());
        // 600 ps empty, 200 with one, 200 with two: (200 + 400) / 1000.
        assert_eq!(row["mean_waiting_packets_over_time"], json!(0.6));
        assert_eq!(row["p50_waiting_packets_over_time"], json!(0));
        assert_eq!(row["p95_waiting_packets_over_time"], json!(2));
        // Three packets found 0, 0 and 1.
        assert_eq!(row["mean_waiting_packets_at_enqueue"], json!(1.0 / 3.0));
        assert_eq!(row["p99_waiting_packets_at_enqueue"], json!(1));
        // Four changes: to 1, 2, 1, 0.
        assert_eq!(row["mean_waiting_packets_at_change"], json!(1.0));
        assert_eq!(row["p5_waiting_packets_at_change"], json!(0));
        assert_eq!(row["p99_waiting_packets_at_change"], json!(2));
        assert_eq!(row["mean_waiting_bytes_over_time"], json!(900.0));
        assert_eq!(row["observed_s"], json!(1e-9));
    }

    #[test]
    fn utilization_is_the_share_of_the_whole_run() {
        // 4500 bytes at 10 Gbit/s are 3.6 us of 10 us.
        let run = small_run();
        let row = json_row(&columns(), &rows(&run).next().unwrap());
        assert!((row["utilization"].as_f64().unwrap() - 0.36).abs() < 1e-12);
    }

    #[test]
    fn a_port_without_statistics_has_nulls_not_zeros() {
        let run = small_run();
        let row = json_row(&columns(), &rows(&run).nth(1).unwrap());
        for name in ["observed_s", "mean_waiting_packets_over_time", "p50_waiting_packets_at_enqueue"] {
            assert_eq!(row[name], json!(null), "{name}");
        }
        assert_eq!(row["max_waiting_packets"], json!(7));
    }

    #[test]
    fn the_bottleneck_has_most_drops_and_then_the_longest_queue() {
        let mut run = small_run();
        let links = |run: &Run| bottlenecks(run, 2).iter().map(|row| row.port.link).collect::<Vec<_>>();
        // Link 4 has a drop, 5 a longer queue, 6 never saw a packet.
        assert_eq!(links(&run), [4, 5]);
        run.ports[0].drops = 0;
        assert_eq!(links(&run), [5, 4]);
    }
}
