//! What Python catches.

use incast::scenario::Report;
use pyo3::PyErr;
use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};

create_exception!(
    incast._native,
    ScenarioError,
    PyValueError,
    "A scenario that cannot be run; its text is a report for people, of several lines."
);
create_exception!(incast._native, RunError, PyRuntimeError, "A run that failed although its scenario was good.");

/// The report as a Python exception.
pub(crate) fn refused(report: &Report) -> PyErr {
    ScenarioError::new_err(report.to_string())
}
