//! Scenarios: reading, checking and what they can name.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use incast::protocols::application::ApplicationChoice;
use incast::protocols::echo::EchoChoice;
use incast::protocols::receiver::ReceiverChoice;
use incast::protocols::sender::SenderChoice;
use incast::protocols::switch::buffer::BufferChoice;
use incast::protocols::switch::marker::MarkerChoice;
use incast::protocols::switch::scheduler::SchedulerChoice;
use incast::protocols::{Bytes, PartInfo};
use incast::scenario::{TcpProfile, catalog as names};
use incast::{Cost, Job, Override, Report, Scenario, WORLDS};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Value, json};

use crate::desk::{Desk, SLICE, outlived};
use crate::errors::{RunError, ScenarioError, refused};
use crate::memory;

/// A scenario as Python hands it over.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) text: String,
    pub(crate) file: String,
    pub(crate) overrides: Vec<String>,
    pub(crate) seed: Option<u64>,
    /// The world, if not the scenario's own.
    pub(crate) world: Option<String>,
}

/// A scenario written out, and what it will take.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) job: Job,
    pub(crate) cost: Cost,
}

/// Reads a scenario and writes it out as a plan for a world.
pub(crate) fn job(wanted: &Wanted, cancelled: &AtomicBool) -> Result<Job, Report> {
    let overrides = wanted.overrides.iter().map(|text| Override::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let scenario = Scenario::parse(&wanted.text, &wanted.file, &overrides)?;
    if let Some(available) = memory::available() {
        scenario.fits(available)?;
    }
    Job::new_unless(&scenario, wanted.seed, wanted.world.as_deref(), &|| cancelled.load(Ordering::Relaxed))
}

/// The same in a thread of its own, so that Python hears signals meanwhile, or that `stop`, an event, is set.
pub(crate) fn planned(py: Python<'_>, wanted: Wanted, stop: Option<&Bound<'_, PyAny>>) -> PyResult<Planned> {
    let desk = Arc::new(Desk::default());
    let cancelled = Arc::new(AtomicBool::new(false));
    let (there, unwanted) = (Arc::clone(&desk), Arc::clone(&cancelled));
    let work = move || {
        let planned = outlived(|| {
            let job = job(&wanted, &unwanted)?;
            Ok(Planned { cost: job.world.cost(&job.plan), job })
        });
        there.leave(planned);
    };
    thread::Builder::new()
        .name("incast-plan".into())
        .spawn(work)
        .map_err(|error| RunError::new_err(format!("cannot start a thread: {error}")))?;
    while !py.detach(|| desk.wait(SLICE)) {
        let heard = py.check_signals().and_then(|()| is_set(stop));
        if !matches!(heard, Ok(false)) {
            cancelled.store(true, Ordering::Relaxed);
            heard?;
            return Err(RunError::new_err("interrupted"));
        }
    }
    match desk.found().take() {
        Some(Ok(planned)) => planned.map_err(|report| refused(&report)),
        Some(Err(defect)) => Err(RunError::new_err(defect)),
        None => Err(RunError::new_err("there is no plan")),
    }
}

/// Whether an event of Python is set.
fn is_set(event: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
    event.map_or(Ok(false), |event| event.call_method0("is_set")?.is_truthy())
}

/// Refuses a run that would take more memory than there is.
pub(crate) fn refuse_to_exhaust(needed: Bytes) -> PyResult<()> {
    match memory::available() {
        Some(available) if needed.0 > available => Err(RunError::new_err(format!(
            "the run would take about {} of memory, and only {} are left on this machine",
            memory::text(needed.0),
            memory::text(available)
        ))),
        _ => Ok(()),
    }
}

/// Checks a scenario without running it.
#[pyfunction]
#[pyo3(signature = (text, file, overrides, seed, world))]
pub(crate) fn check(
    py: Python<'_>,
    text: String,
    file: String,
    overrides: Vec<String>,
    seed: Option<u64>,
    world: Option<String>,
) -> PyResult<Bound<'_, PyDict>> {
    let Planned { job: Job { plan, world: carrier }, cost } =
        planned(py, Wanted { text, file, overrides, seed, world }, None)?;
    let checked = PyDict::new(py);
    checked.set_item("summary", plan.describe())?;
    checked.set_item("world", carrier.name())?;
    checked.set_item("packet_hops", cost.packet_hops)?;
    checked.set_item("seconds", cost.seconds)?;
    checked.set_item("memory_bytes", cost.memory.0)?;
    checked.set_item("warnings", plan.warnings)?;
    Ok(checked)
}

/// JSON Schema of scenario files, as text.
#[pyfunction]
pub(crate) fn schema() -> String {
    incast::scenario::schema::json()
}

/// What a scenario can name, as JSON.
#[pyfunction]
pub(crate) fn catalog() -> String {
    let parts = [
        BufferChoice::ALL,
        MarkerChoice::ALL,
        SchedulerChoice::ALL,
        SenderChoice::ALL,
        EchoChoice::ALL,
        ReceiverChoice::ALL,
        ApplicationChoice::ALL,
    ];
    let registered = incast::scenario::custom::registered();
    let protocols: Vec<_> = parts.concat().iter().chain(&registered).map(part).collect();
    let workloads: Vec<_> = names::workloads()
        .iter()
        .map(|workload| {
            json!({ "name": workload.name, "mean_bytes": workload.mean_bytes(), "lineage": workload.lineage })
        })
        .collect();
    let topologies: Vec<_> = names::topologies()
        .iter()
        .map(|topology| json!({ "name": topology.name, "summary": topology.summary, "keys": topology.keys }))
        .collect();
    let profiles: Vec<_> = incast::scenario::profiles().iter().map(profile).collect();
    let worlds: Vec<_> =
        WORLDS.iter().map(|world| json!({ "name": world.name(), "summary": world.summary() })).collect();
    json!({
        "protocols": protocols,
        "workloads": workloads,
        "topologies": topologies,
        "profiles": profiles,
        "worlds": worlds,
    })
    .to_string()
}

fn profile(profile: &TcpProfile) -> Value {
    let settings: Vec<_> = profile.settings.iter().map(|(key, value)| json!({ "key": key, "value": value })).collect();
    json!({ "name": profile.name, "summary": profile.summary, "settings": settings })
}

fn part(part: &PartInfo) -> Value {
    let requires: Vec<_> = part.requires.iter().map(|requirement| requirement.because).collect();
    json!({
        "place": part.place.key(),
        "name": part.name,
        "summary": part.summary,
        "source": part.source,
        "requires": requires,
        "deviations": part.deviations,
    })
}

/// A built-in scenario, as TOML.
#[pyfunction]
pub(crate) fn example(name: &str) -> PyResult<&'static str> {
    incast::scenario::example(name).ok_or_else(|| {
        ScenarioError::new_err(format!("there is no example \"{name}\"; there are: {}", examples().join(", ")))
    })
}

/// Names of the built-in scenarios.
#[pyfunction]
pub(crate) fn examples() -> Vec<&'static str> {
    incast::scenario::EXAMPLES.iter().map(|example| example.0).collect()
}
