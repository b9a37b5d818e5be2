//! The extension module `incast._native`; what it contains is in the crate `incast-python`.

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    incast_python::fill(module)
}
