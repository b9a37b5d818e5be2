//! The simulator for Python, as `incast._native`: scenarios in, tables out, closed forms, and nothing else.
//!
//! Text and numbers cross the border as they are, tables through the Arrow C stream interface without copying.
//! A run is carried out by a thread of its own, which knows nothing of Python.

mod analysis;
mod bench;
mod errors;
mod result;
mod run;
mod scenario;
mod work;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::analysis::{
        batch_sizes, incast_probability, largest_window, quantity, slow_start_incast_probability, timeout_probability,
        water_level,
    };
    #[pymodule_export]
    use super::bench::bench_leaf_spine;
    #[pymodule_export]
    use super::errors::{RunError, ScenarioError};
    #[pymodule_export]
    use super::result::{Result, Table};
    #[pymodule_export]
    use super::run::Run;
    #[pymodule_export]
    use super::scenario::{catalog, check, example, examples, schema};
    #[pymodule_export]
    use super::version;
}

/// Version of the native module.
#[pyfunction]
const fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
