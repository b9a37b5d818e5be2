//! Scenarios: reading, checking and what they can name.

use incast::protocols::PartInfo;
use incast::protocols::application::ApplicationChoice;
use incast::protocols::echo::EchoChoice;
use incast::protocols::receiver::ReceiverChoice;
use incast::protocols::sender::SenderChoice;
use incast::protocols::switch::buffer::BufferChoice;
use incast::protocols::switch::marker::MarkerChoice;
use incast::protocols::switch::scheduler::SchedulerChoice;
use incast::scenario::{TcpProfile, catalog as names};
use incast::{Job, Override, Scenario, WORLDS};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Value, json};

use crate::errors::{ScenarioError, refused};

/// Reads a scenario and writes it out as a plan for a world: the one named here, or the scenario's own.
pub(crate) fn job(
    text: &str,
    file: &str,
    overrides: &[String],
    seed: Option<u64>,
    world: Option<&str>,
) -> PyResult<Job> {
    let overrides: Vec<_> = overrides
        .iter()
        .map(|text| Override::parse(text))
        .collect::<Result<_, _>>()
        .map_err(|report| refused(&report))?;
    let scenario = Scenario::parse(text, file, &overrides).map_err(|report| refused(&report))?;
    Job::new(&scenario, seed, world).map_err(|report| refused(&report))
}

/// Checks a scenario without running it.
#[pyfunction]
#[pyo3(signature = (text, file, overrides, seed, world))]
#[expect(clippy::needless_pass_by_value, reason = "Python lists arrive as owned values")]
pub(crate) fn check<'py>(
    py: Python<'py>,
    text: &str,
    file: &str,
    overrides: Vec<String>,
    seed: Option<u64>,
    world: Option<&str>,
) -> PyResult<Bound<'py, PyDict>> {
    let Job { plan, world } = py.detach(|| job(text, file, &overrides, seed, world))?;
    let checked = PyDict::new(py);
    checked.set_item("summary", plan.describe())?;
    let cost = world.cost(&plan);
    checked.set_item("packet_hops", cost.packet_hops)?;
    checked.set_item("seconds", cost.seconds)?;
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
