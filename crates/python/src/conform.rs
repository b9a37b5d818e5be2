//! Scripts in packetdrill's language.

use std::path::Path;

use pyo3::prelude::*;

use crate::errors::ScenarioError;

/// Judges a script from this folder; the report as JSON.
#[pyfunction]
pub(crate) fn conform(py: Python<'_>, text: &str, folder: &str) -> PyResult<String> {
    let read = |name: &str| std::fs::read_to_string(Path::new(folder).join(name)).ok();
    let report = py.detach(|| incast_conform::conform(text, &read));
    serde_json::to_string(&report).map_err(|error| ScenarioError::new_err(error.to_string()))
}
