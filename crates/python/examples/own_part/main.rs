//! A part of one's own, from Rust and from Python, without a change to incast.
//!
//! In a crate of your own, the manifest says:
//!
//! ```toml
//! [lib]
//! crate-type = ["cdylib"]
//!
//! [dependencies]
//! incast = "0.1"
//! incast_python = { package = "incast-python", version = "0.1" }
//! pyo3 = { version = "0.30", features = ["abi3-py311", "extension-module"] }
//! ```
//!
//! From Python, `import own_part` comes before `import incast`: scenarios can then choose `stack.sender = "fixed-window"`.

mod fixed_window;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The engine of incast, and a sender of our own.
#[pymodule]
fn own_part(module: &Bound<'_, PyModule>) -> PyResult<()> {
    incast::scenario::custom::register_sender::<fixed_window::FixedWindow>("fixed-window")
        .map_err(PyValueError::new_err)?;
    incast_python::serve(module)
}
