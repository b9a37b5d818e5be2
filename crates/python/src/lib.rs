//! The simulator for Python, as `incast._native`: scenarios in, tables out, closed forms, cost estimates.
//!
//! Text and numbers cross the border as they are, tables through the Arrow C stream interface without copying.
//! A run is carried out by a thread of its own, which knows nothing of Python.

mod analysis;
mod bench;
mod conform;
mod desk;
mod errors;
mod memory;
mod result;
mod run;
mod scenario;

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use pyo3::wrap_pymodule;

#[pymodule]
mod engine {
    #[pymodule_export]
    use super::analysis::{
        batch_sizes, incast_probability, largest_window, quantity, slow_start_incast_probability, timeout_probability,
        water_level,
    };
    #[pymodule_export]
    use super::bench::bench_leaf_spine;
    #[pymodule_export]
    use super::conform::conform;
    #[pymodule_export]
    use super::errors::{RunError, ScenarioError};
    #[pymodule_export]
    use super::result::{Result, Table};
    #[pymodule_export]
    use super::run::Run;
    #[pymodule_export]
    use super::scenario::{catalog, check, example, examples, schema};
    #[pymodule_export]
    use super::{tables_version, version};
}

/// Adds everything that `incast._native` contains to `module`.
///
/// # Errors
/// Python could not make or add an entry.
pub fn fill(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let engine = wrap_pymodule!(engine)(module.py());
    for (name, value) in engine.bind(module.py()).cast::<PyModule>()?.dict() {
        let name = name.cast::<PyString>()?;
        if !name.to_cow()?.starts_with("__") {
            // Unlike `setattr`, this enters the name in `__all__`.
            module.add(name, value)?;
        }
    }
    Ok(())
}

/// Makes `module`, which an extension is initializing, the engine of the Python package `incast`: everything that was
/// registered before is then known to it.
///
/// # Errors
/// `incast` has its engine already, since it was imported before the extension.
pub fn serve(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let modules = module.py().import("sys")?.getattr("modules")?;
    if modules.contains(ENGINE)? {
        let message = format!("import {} before incast, which has its engine already", module.name()?);
        return Err(PyImportError::new_err(message));
    }
    fill(module)?;
    modules.set_item(ENGINE, module)
}

/// The module that the Python package takes for its engine.
const ENGINE: &str = "incast._native";

/// Version of the tables of a run.
#[pyfunction]
const fn tables_version() -> u32 {
    incast_tables::VERSION
}

/// Version of the native module.
#[pyfunction]
const fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
