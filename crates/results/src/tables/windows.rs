//! Windows over time.

use incast_protocols::Duration;

use crate::column::{Column, Values, column};
use crate::record::{Run, WindowSample};

pub(crate) const NAME: &str = "windows";
pub(crate) const MEANING: &str =
    "The senders of the connections the scenario names, one row per change of a window or of the data in flight.";

pub(crate) fn rows(run: &Run) -> impl Iterator<Item = &WindowSample> {
    run.window_samples.iter()
}

pub(crate) fn columns<'a>() -> Vec<Column<&'a WindowSample>> {
    use Values::{MaybeReal, MaybeWhole, Real, Truth, Whole};
    vec![
        column("time_s", "s", "When it changed.", Real(|r| r.time.as_secs_f64())),
        column("connection", "", "Number of the connection; see `flows`.", Whole(|r| r.connection.into())),
        column(
            "from_client",
            "",
            "Whether the sender is the side that opened the connection.",
            Truth(|r| r.from_client),
        ),
        column("cwnd_bytes", "bytes", "Congestion window.", Whole(|r| r.cwnd.0)),
        column(
            "ssthresh_bytes",
            "bytes",
            "Slow-start threshold; null before the first reduction.",
            MaybeWhole(|r| r.ssthresh.map(|bytes| bytes.0)),
        ),
        column("rwnd_bytes", "bytes", "Window that the receiver advertised.", Whole(|r| r.rwnd.0)),
        column("flight_bytes", "bytes", "Sent and not yet acknowledged.", Whole(|r| r.flight.0)),
        column(
            "alpha",
            "",
            "DCTCP's estimate of the share of marked bytes, 0 to 1; null for senders without one.",
            MaybeReal(|r| r.alpha.map(|alpha| f64::from(alpha) / 1024.0)),
        ),
        column(
            "srtt_s",
            "s",
            "Smoothed round-trip time; null before the first sample.",
            MaybeReal(|r| r.srtt.map(Duration::as_secs_f64)),
        ),
    ]
}
