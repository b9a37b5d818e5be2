//! Scenarios: reading, checking and what they can name.

use std::fmt::Write as _;

use incast_protocols::PartInfo;
use incast_protocols::application::ApplicationChoice;
use incast_protocols::echo::EchoChoice;
use incast_protocols::receiver::ReceiverChoice;
use incast_protocols::sender::SenderChoice;
use incast_protocols::switch::buffer::BufferChoice;
use incast_protocols::switch::marker::MarkerChoice;
use incast_scenario::plan::Plan;
use incast_scenario::{Override, Scenario, TcpProfile, catalog as names};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Value, json};

use crate::errors::{ScenarioError, refused};
use crate::work::packet_hops;

/// Reads a scenario and writes it out as a plan.
pub(crate) fn plan(text: &str, file: &str, overrides: &[String], seed: Option<u64>) -> PyResult<Plan> {
    let overrides: Vec<_> = overrides
        .iter()
        .map(|text| Override::parse(text))
        .collect::<Result<_, _>>()
        .map_err(|report| refused(&report))?;
    let scenario = Scenario::parse(text, file, &overrides).map_err(|report| refused(&report))?;
    scenario.plan(seed).map_err(|report| refused(&report))
}

/// Checks a scenario without running it.
#[pyfunction]
#[pyo3(signature = (text, file, overrides, seed))]
#[expect(clippy::needless_pass_by_value, reason = "Python lists arrive as owned values")]
pub(crate) fn check<'py>(
    py: Python<'py>,
    text: &str,
    file: &str,
    overrides: Vec<String>,
    seed: Option<u64>,
) -> PyResult<Bound<'py, PyDict>> {
    let plan = py.detach(|| plan(text, file, &overrides, seed))?;
    let checked = PyDict::new(py);
    checked.set_item("summary", describe(&plan))?;
    checked.set_item("packet_hops", packet_hops(&plan))?;
    checked.set_item("warnings", plan.warnings)?;
    Ok(checked)
}

/// One line that says how large the work is.
fn describe(plan: &Plan) -> String {
    let responses = |aggregator: &incast_scenario::plan::Aggregator| {
        aggregator.rounds.iter().map(|round| round.responses.len()).sum::<usize>()
    };
    let messages = plan.sends.len() + plan.aggregators.iter().map(responses).sum::<usize>();
    let mut line = format!("{}: ", plan.name);
    for (index, (number, one, more)) in [
        (plan.network.hosts as usize, "host", "hosts"),
        (plan.network.switches.len(), "switch", "switches"),
        (plan.network.links.len(), "link", "links"),
        (plan.connections.len(), "connection", "connections"),
        (messages, "message", "messages"),
    ]
    .into_iter()
    .enumerate()
    {
        let (separator, noun) = (if index == 0 { "" } else { ", " }, if number == 1 { one } else { more });
        let _ = write!(line, "{separator}{number} {noun}");
    }
    line
}

/// JSON Schema of scenario files, as text.
#[pyfunction]
pub(crate) fn schema() -> String {
    incast_scenario::schema::json()
}

/// What a scenario can name, as JSON.
#[pyfunction]
pub(crate) fn catalog() -> String {
    let parts = [
        BufferChoice::ALL,
        MarkerChoice::ALL,
        SenderChoice::ALL,
        EchoChoice::ALL,
        ReceiverChoice::ALL,
        ApplicationChoice::ALL,
    ];
    let protocols: Vec<_> = parts.concat().iter().map(part).collect();
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
    let profiles: Vec<_> = incast_scenario::profiles().iter().map(profile).collect();
    json!({ "protocols": protocols, "workloads": workloads, "topologies": topologies, "profiles": profiles })
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
    incast_scenario::example(name).ok_or_else(|| {
        ScenarioError::new_err(format!("there is no example \"{name}\"; there are: {}", examples().join(", ")))
    })
}

/// Names of the built-in scenarios.
#[pyfunction]
pub(crate) fn examples() -> Vec<&'static str> {
    incast_scenario::EXAMPLES.iter().map(|example| example.0).collect()
}
