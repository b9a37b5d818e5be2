//! Windows over time.

use crate::column::{Column, Values, columns};
use incast_record::{Run, WindowSample};

pub(crate) const NAME: &str = "windows";
pub(crate) const MEANING: &str = "The senders of the connections the scenario names, one row per change of a window or of the data in flight. A sender \
     may add a column of its own, which is null for what other senders did: `target_s` (s, the target delay of `swift`), \
     `utilization` (U of `hpcc`, the inflight of the fullest link over its bandwidth-delay product).";

pub(crate) fn rows(run: &Run) -> impl Iterator<Item = WindowSample> {
    run.window_samples.iter()
}

pub(crate) fn columns() -> Vec<Column<WindowSample>> {
    use Values::{MaybeReal, MaybeWhole, Truth, Whole};
    columns! {
        /// When it changed.
        time_ps "ps": Whole(|r| r.time.0);
        /// Number of the connection; see `flows`.
        connection: Whole(|r| r.connection.into());
        /// Whether the sender is the side that opened the connection.
        from_client: Truth(|r| r.from_client);
        /// Congestion window.
        cwnd_bytes "bytes": Whole(|r| r.cwnd.0);
        /// Slow-start threshold; null before the first reduction.
        ssthresh_bytes "bytes": MaybeWhole(|r| r.ssthresh.map(|bytes| bytes.0));
        /// Window that the receiver advertised.
        rwnd_bytes "bytes": Whole(|r| r.rwnd.0);
        /// Sent and not yet acknowledged.
        flight_bytes "bytes": Whole(|r| r.flight.0);
        /// DCTCP's estimate of the share of marked bytes, 0 to 1; null for senders without one.
        alpha: MaybeReal(|r| r.alpha.map(|alpha| f64::from(alpha) / 1024.0));
        /// Smoothed round-trip time; null before the first sample.
        srtt_ps "ps": MaybeWhole(|r| r.srtt.map(|srtt| srtt.0));
    }
}
