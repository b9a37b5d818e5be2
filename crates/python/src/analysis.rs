//! Closed forms over arrays: every argument is a list, all of the same length.

use incast::protocols::analysis::batch::{Bottleneck, LargestWindow};
use incast::protocols::analysis::{incast_probability as model, water_level as division};
use incast::protocols::units::text::{parse_bytes, parse_duration, parse_rate};
use incast::protocols::{Bytes, Duration, Rate};
use pyo3::prelude::*;

use crate::errors::ScenarioError;

/// Probability that one of `flows` windows of `window` packets is lost whole (ARS, equation 3).
#[pyfunction]
pub(crate) fn timeout_probability(flows: Vec<f64>, window: Vec<f64>, capacity: Vec<f64>) -> Vec<f64> {
    each(flows, window, capacity, model::timeout_probability)
}

/// Probability that any of them is (equation 4).
#[pyfunction]
pub(crate) fn incast_probability(flows: Vec<f64>, window: Vec<f64>, capacity: Vec<f64>) -> Vec<f64> {
    each(flows, window, capacity, model::incast_probability)
}

/// The same for flows that all start at once in slow start (equation 9).
#[pyfunction]
pub(crate) fn slow_start_incast_probability(flows: Vec<f64>, capacity: Vec<f64>) -> Vec<f64> {
    flows
        .into_iter()
        .zip(capacity)
        .map(|(flows, capacity)| model::slow_start_incast_probability(flows, capacity))
        .collect()
}

/// The largest window of responses, in packets: by the formula of the paper, or without it as it is from an initial
/// window on.
#[pyfunction]
pub(crate) fn largest_window(packets: Vec<u64>, initial_window: Option<u64>) -> Vec<u64> {
    packets
        .into_iter()
        .map(|packets| match initial_window {
            None => LargestWindow::Formula.of(packets, 1),
            Some(initial_window) => LargestWindow::Exact.of(packets, initial_window),
        })
        .collect()
}

/// What path and buffer hold in packets, what the path alone holds, n* and `n_c`, for responses whose largest window
/// is `window` packets. Each row is rate (bit/s), round-trip time (ps), buffer (bytes), packet (bytes), window.
#[pyfunction]
pub(crate) fn batch_sizes(rows: Vec<[u64; 5]>) -> Vec<(f64, f64, u64, u64)> {
    rows.into_iter()
        .map(|[rate, rtt, buffer, mss, window]| {
            let bottleneck =
                Bottleneck { rate: Rate(rate), base_rtt: Duration(rtt), buffer: Bytes(buffer), mss: Bytes(mss) };
            let sizes = bottleneck.batch_sizes(window);
            (bottleneck.capacity_packets(), bottleneck.path_packets(), sizes.optimal, sizes.congested)
        })
        .collect()
}

/// How DCMRG divides a port: the rate of elastic flows, and that of each flow with a minimum rate (equation 15). None if
/// the minimum rates exceed the capacity.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "Python lists arrive as owned values")]
pub(crate) fn water_level(capacity: f64, minimum_rates: Vec<f64>, elastic_flows: usize) -> Option<(f64, Vec<f64>)> {
    division::water_level(capacity, &minimum_rates, elastic_flows)
}

/// A rate in bit/s, an amount in bytes, or a time in picoseconds, from the text that a scenario would have.
#[pyfunction]
pub(crate) fn quantity(kind: &str, text: &str) -> PyResult<u64> {
    let parsed = match kind {
        "rate" => parse_rate(text).map(|rate| rate.0),
        "bytes" => parse_bytes(text).map(|bytes| bytes.0),
        "time" => parse_duration(text).map(|time| time.0),
        _ => Err(format!("there is no kind of quantity \"{kind}\"; there are: rate, bytes, time")),
    };
    parsed.map_err(ScenarioError::new_err)
}

fn each(a: Vec<f64>, b: Vec<f64>, c: Vec<f64>, of: fn(f64, f64, f64) -> f64) -> Vec<f64> {
    a.into_iter().zip(b).zip(c).map(|((a, b), c)| of(a, b, c)).collect()
}
