//! What a run found.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::SchemaRef;
use arrow_schema::ffi::FFI_ArrowSchema;
use incast::record;
use pyo3::exceptions::{PyKeyError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// What a run found.
#[pyclass(frozen, module = "incast._native")]
#[derive(Debug)]
pub(crate) struct Result {
    run: Arc<record::Run>,
}

impl Result {
    pub(crate) const fn new(run: Arc<record::Run>) -> Self {
        Self { run }
    }
}

#[pymethods]
impl Result {
    /// Why the run ended: "complete", "time-up" or "interrupted".
    #[getter]
    fn outcome(&self) -> &'static str {
        self.run.outcome.name()
    }

    /// Names of the tables.
    #[staticmethod]
    fn tables() -> Vec<&'static str> {
        incast_tables::Table::ALL.map(incast_tables::Table::name).to_vec()
    }

    /// One table by name.
    fn table(&self, name: &str) -> PyResult<Table> {
        let table = incast_tables::Table::from_name(name).ok_or_else(|| {
            PyKeyError::new_err(format!("there is no table \"{name}\"; there are: {}", Self::tables().join(", ")))
        })?;
        Ok(Table { table, run: Arc::clone(&self.run) })
    }

    /// Writes all tables as Parquet and the summary as JSON; returns the files.
    #[pyo3(signature = (dir))]
    #[expect(clippy::needless_pass_by_value, reason = "Python paths arrive as owned values")]
    fn write(&self, py: Python<'_>, dir: PathBuf) -> PyResult<Vec<String>> {
        let directory: &Path = &dir;
        let paths = py
            .detach(|| incast_tables::write(&self.run, directory))
            .map_err(|error| PyOSError::new_err(error.to_string()))?;
        Ok(paths.iter().map(|path| path.to_string_lossy().into_owned()).collect())
    }

    /// The summary as one JSON object, as text.
    fn summary_json(&self) -> String {
        incast_tables::summary_json(&self.run).to_string()
    }
}

/// A table that hands its columns over without copying (Arrow C stream interface).
#[pyclass(frozen, module = "incast._native")]
#[derive(Debug)]
pub(crate) struct Table {
    table: incast_tables::Table,
    run: Arc<record::Run>,
}

#[pymethods]
impl Table {
    /// The columns' names and types (Arrow C data interface).
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.table.schema_of(&self.run).as_ref())
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The table as a stream. A wish for other types is not met, as the interface allows.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches = py.detach(|| self.table.batches(&self.run));
        stream(py, batches, self.table.schema_of(&self.run))
    }

    /// Calls `take` with one part of the rows after the other, at least one: memory holds a part at a time, where the stream
    /// has the whole table.
    #[expect(clippy::needless_pass_by_value, reason = "Python functions arrive as owned values")]
    fn in_parts(&self, py: Python<'_>, take: Py<PyAny>) -> PyResult<()> {
        let mut failed = None;
        py.detach(|| {
            self.table.for_each_batch(&self.run, |batch| {
                if failed.is_none() {
                    failed = Python::attach(|py| take.call1(py, (Part { batch },))).err();
                }
            });
        });
        match failed {
            Some(error) => Err(error),
            // Rows that a disk did not give back would be missing without a word.
            None => self.run.complete().map_err(|error| PyOSError::new_err(error.to_string())),
        }
    }
}

/// Some rows of a table, which it hands over as the table does.
#[pyclass(frozen, module = "incast._native")]
#[derive(Debug)]
pub(crate) struct Part {
    batch: RecordBatch,
}

#[pymethods]
impl Part {
    /// The rows as a stream. A wish for other types is not met, as the interface allows.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        stream(py, vec![self.batch.clone()], self.batch.schema())
    }
}

/// Rows as a stream of the Arrow C interface.
fn stream(py: Python<'_>, batches: Vec<RecordBatch>, schema: SchemaRef) -> PyResult<Bound<'_, PyCapsule>> {
    let reader = RecordBatchIterator::new(batches.into_iter().map(Ok), schema);
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), c"arrow_array_stream")
}
