//! The benchmark: the built-in leaf-spine scenario, 400 hosts with short and long DCTCP flows.

use std::fs;
use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use incast::plan::Plan;
use incast::protocols::Bytes;
use incast::record::{Run, Spill};
use incast_packets::{Control, DriverKind, RunOptions};
use incast_tables::statistics::{Permille, percentile};
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::errors::{RunError, ScenarioError, refused};
use crate::scenario::{Wanted, example, job};

/// The built-in scenario that is changed and run.
const EXAMPLE: &str = "leaf-spine";

/// Flows below this size are the short ones.
const SHORT: Bytes = Bytes(40_000);

/// Runs the benchmark once, changed as `--set` changes a scenario, and returns what it took, as JSON.
#[pyfunction]
pub(crate) fn bench_leaf_spine(
    py: Python<'_>,
    changes: Vec<String>,
    driver: &str,
    threads: NonZeroUsize,
) -> PyResult<String> {
    let driver = match driver {
        "sweep" => DriverKind::Sweep,
        "event-loop" => DriverKind::EventLoop,
        _ => {
            let message = format!("there is no driver \"{driver}\"; there are: sweep, event-loop");
            return Err(ScenarioError::new_err(message));
        }
    };
    py.detach(|| {
        let (text, file) = (example(EXAMPLE)?.to_owned(), EXAMPLE.to_owned());
        let wanted = Wanted { text, file, overrides: changes, seed: None, world: None };
        let job = job(&wanted, &AtomicBool::new(false)).map_err(|report| refused(&report))?;
        measure(&job.plan, driver, threads).map_err(RunError::new_err)
    })
}

fn measure(plan: &Plan, driver: DriverKind, threads: NonZeroUsize) -> Result<String, String> {
    let options = RunOptions { driver: Some(driver) };
    // As the command line does: memory holds the messages that are not over.
    let control = Control::spilling(Spill::into(std::env::temp_dir()));
    control.use_threads(threads);
    let (run, wall_s) = timed(|| incast_packets::run(plan, &options, &control));
    let peak_rss_mb = peak_rss_mb();
    let run = run.map_err(|error| error.to_string())?;
    let report = report(&run, wall_s, peak_rss_mb).to_string();
    run.complete().map_err(|error| error.to_string())?;
    Ok(report)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time; no result depends on it")]
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed().as_secs_f64())
}

fn report(run: &Run, wall_s: f64, peak_rss_mb: Option<f64>) -> Value {
    let hops = run.totals.packet_hops;
    let short = run.flows.iter().filter(|flow| flow.size.is_some_and(|size| size < SHORT));
    let mut fct_ps: Vec<u64> = short.filter_map(|flow| flow.completion_time().map(|fct| fct.0)).collect();
    fct_ps.sort_unstable();
    let fct_s = |at| percentile(&fct_ps, at).map(|ps| ps as f64 / 1e12);
    json!({
        "packet_hops": hops,
        "wall_s": wall_s,
        "packet_hops_per_s": hops as f64 / wall_s,
        "ns_per_hop": wall_s * 1e9 / hops as f64,
        "peak_rss_mb": peak_rss_mb,
        "short_fct_p50_s": fct_s(Permille::P50),
        "short_fct_p99_s": fct_s(Permille::P99),
        "drops": run.totals.dropped,
        "marks": run.totals.ce_marks,
        "timeouts": run.flows.iter().map(|flow| u64::from(flow.losses.timeouts())).sum::<u64>(),
    })
}

/// Greatest resident memory of this process so far, Python included, in units of 10^6 bytes; nothing where there is
/// no `/proc`.
fn peak_rss_mb() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0 / 1e6)
}
