//! The tables as files, each whole or not there at all.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::DataType;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;
use serde_json::json;

use crate::{Table, dictionary, summary_json};
use incast_record::Run;

/// The version of the tables: of their names, their columns and what these mean. It grows whenever one is renamed, removed or
/// means something else; a new column leaves it as it is. Files of version 1 do not state it.
pub const VERSION: u32 = 2;

/// A result that could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The directory does not exist and cannot be made.
    #[error("cannot create the directory {}: {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A table cannot be encoded.
    #[error("cannot write {} as Parquet: {source}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What the encoder said.
        source: ParquetError,
    },
}

/// Writes every table as `<name>.parquet`, and `summary.json` last, so that where it is, all are.
/// The directory is created if need be; files of these names are replaced, once all have been written completely. The same
/// run gives the same bytes.
///
/// Key-value metadata of each Parquet file: `incast.scenario` and `incast.seed`, and `incast.units`, a JSON object with the
/// unit of each column that has one; `incast.tables` is the [`VERSION`].
///
/// # Errors
/// If the directory cannot be created or a file cannot be written: then all files are as they were. Or if one cannot get
/// its name: then those before it are new.
pub fn write(run: &Run, directory: &Path) -> Result<Vec<PathBuf>, WriteError> {
    fs::create_dir_all(directory).map_err(|source| WriteError::Directory { path: directory.to_owned(), source })?;
    let mut parts = Vec::new();
    for table in Table::ALL {
        let path = directory.join(table.name()).with_extension("parquet");
        parts.push(Part::written(path, |file| write_table(table, run, file))?);
    }
    parts.push(Part::written(directory.join("summary.json"), |file| {
        // The alternate form is indented.
        writeln!(file, "{:#}", summary_json(run)).map_err(Problem::Io)?;
        run.complete().map_err(Problem::Io)
    })?);
    parts.into_iter().map(Part::named).collect()
}

enum Problem {
    Io(io::Error),
    Parquet(ParquetError),
}

impl Problem {
    fn of(self, path: &Path) -> WriteError {
        match self {
            Self::Io(source) => WriteError::File { path: path.to_owned(), source },
            Self::Parquet(source) => WriteError::Parquet { path: path.to_owned(), source },
        }
    }
}

/// A file that is written under another name beside its own, and removed unless it gets its own.
struct Part {
    path: PathBuf,
    part: PathBuf,
}

impl Part {
    /// A complete file.
    fn written(
        path: PathBuf,
        fill: impl FnOnce(&mut BufWriter<File>) -> Result<(), Problem>,
    ) -> Result<Self, WriteError> {
        // The process's number keeps two runs into one directory from writing into each other's file.
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let part = Self { part: path.with_file_name(name), path };
        part.fill(fill).map_err(|problem| problem.of(&part.path))?;
        Ok(part)
    }

    fn fill(&self, fill: impl FnOnce(&mut BufWriter<File>) -> Result<(), Problem>) -> Result<(), Problem> {
        let mut file = BufWriter::new(File::create(&self.part).map_err(Problem::Io)?);
        fill(&mut file)?;
        // What a crash of the machine leaves must be whole, too.
        file.into_inner().map_err(|error| Problem::Io(error.into_error()))?.sync_all().map_err(Problem::Io)
    }

    fn named(self) -> Result<PathBuf, WriteError> {
        fs::rename(&self.part, &self.path).map_err(|error| Problem::Io(error).of(&self.path))?;
        Ok(self.path.clone())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // It has its own name by now, or nothing can be done if this fails, too: the first error is the one to report.
        let _ = fs::remove_file(&self.part);
    }
}

fn write_table(table: Table, run: &Run, file: &mut BufWriter<File>) -> Result<(), Problem> {
    // Named without a version: a new release that changes no result changes no byte.
    let mut properties =
        WriterProperties::builder().set_created_by("incast".to_owned()).set_compression(Compression::SNAPPY);
    let schema = table.schema_of(run);
    let units: BTreeMap<&str, &str> = dictionary::TABLES
        .iter()
        .filter(|known| known.name == table.name())
        .flat_map(|known| &known.columns)
        .filter(|column| !column.unit.is_empty())
        .map(|column| (column.name, column.unit))
        .collect();
    properties = properties.set_key_value_metadata(Some(vec![
        KeyValue::new("incast.scenario".to_owned(), run.name.clone()),
        KeyValue::new("incast.seed".to_owned(), run.seed.to_string()),
        KeyValue::new("incast.units".to_owned(), json!(units).to_string()),
        KeyValue::new("incast.tables".to_owned(), VERSION.to_string()),
    ]));
    // Times and positions that grow take half the room or less as differences. What has few values takes less in a
    // dictionary.
    let grows = |name: &str| table == Table::Packets || units.get(name) == Some(&"ps");
    for field in schema.fields() {
        if *field.data_type() == DataType::Int64 && grows(field.name()) {
            let column = ColumnPath::from(field.name().as_str());
            properties = properties
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
        }
    }
    let mut writer = ArrowWriter::try_new(file, schema, Some(properties.build())).map_err(Problem::Parquet)?;
    let mut result = Ok(());
    table.for_each_batch(run, |batch: RecordBatch| {
        if result.is_ok() {
            result = writer.write(&batch);
        }
    });
    result.and_then(|()| writer.close()).map_err(Problem::Parquet)?;
    run.complete().map_err(Problem::Io)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{empty_run, small_run};
    use arrow_array::RecordBatchReader;
    use incast_record::{Sorter, Spill};
    use incast_units::Bytes;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn each_file_says_what_it_is_of_and_in_which_units() {
        let directory = tempfile::tempdir().unwrap();
        write(&small_run(), directory.path()).unwrap();
        let file = File::open(directory.path().join("flows.parquet")).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        let told = reader.metadata().file_metadata().key_value_metadata().unwrap();
        let of = |key: &str| told.iter().find(|one| one.key == key).and_then(|one| one.value.clone()).unwrap();
        assert_eq!((of("incast.scenario"), of("incast.seed")), (small_run().name, u64::MAX.to_string()));
        assert_eq!(of("incast.tables"), VERSION.to_string());
        let units: serde_json::Value = serde_json::from_str(&of("incast.units")).unwrap();
        assert_eq!((&units["fct_s"], &units["size_bytes"], units.get("id")), (&json!("s"), &json!("bytes"), None));
    }

    #[test]
    fn what_is_read_back_is_what_the_tables_hold() {
        for run in [small_run(), empty_run()] {
            let directory = tempfile::tempdir().unwrap();
            write(&run, directory.path()).unwrap();
            for table in Table::ALL {
                let file = File::open(directory.path().join(format!("{table}.parquet"))).unwrap();
                let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
                assert_eq!(reader.schema(), table.schema());
                let read: Vec<_> = reader.map(Result::unwrap).collect();
                let written: Vec<_> = table.batches(&run).into_iter().filter(|batch| batch.num_rows() > 0).collect();
                assert_eq!(read, written, "{table}");
            }
            let text = fs::read_to_string(directory.path().join("summary.json")).unwrap();
            let read: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(read["seed"], serde_json::json!(run.seed));
            assert_eq!(text, format!("{:#}\n", summary_json(&run)));
        }
    }

    #[test]
    fn the_same_run_gives_the_same_bytes() {
        let run = small_run();
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let paths = write(&run, first.path()).unwrap();
        assert_eq!(paths.len(), Table::ALL.len() + 1);
        for (left, right) in paths.iter().zip(write(&run, second.path()).unwrap()) {
            assert_eq!(left.file_name(), right.file_name());
            assert_eq!(fs::read(left).unwrap(), fs::read(right).unwrap(), "{}", left.display());
        }
    }

    #[test]
    fn nothing_but_the_promised_files_is_left_behind() {
        let directory = tempfile::tempdir().unwrap();
        let below = directory.path().join("new").join("deeper");
        let mut expected: Vec<_> = write(&small_run(), &below)
            .unwrap()
            .iter()
            .map(|p| p.file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        expected.sort_unstable();
        assert_eq!(names(&below), expected);
    }

    #[test]
    fn a_write_that_fails_halfway_leaves_the_old_file_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("flows.parquet");
        fs::write(&path, "old").unwrap();
        let written = Part::written(path.clone(), |file| {
            file.write_all(b"half of the new").map_err(Problem::Io)?;
            file.flush().map_err(Problem::Io)?;
            Err(Problem::Io(io::Error::from(io::ErrorKind::StorageFull)))
        });
        assert!(matches!(written.err(), Some(WriteError::File { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(directory.path()), ["flows.parquet"]);
    }

    /// Not even tables that could be written replace the old ones: they would not belong to those that could not.
    #[test]
    fn a_run_whose_rows_are_not_all_there_leaves_all_old_files_as_they_were() {
        let directory = tempfile::tempdir().unwrap();
        write(&small_run(), directory.path()).unwrap();
        let before = names(directory.path());
        let old = fs::read(directory.path().join("flows.parquet")).unwrap();
        let mut events = Sorter::new(Some(&Spill::into(directory.path().join("flows.parquet")).keeping(Bytes(1))));
        for event in small_run().events.iter().chain(small_run().events.iter()) {
            events.push(event);
        }
        let broken = Run { events: events.finish(), seed: 5, ..small_run() };
        let error = write(&broken, directory.path()).unwrap_err().to_string();
        assert!(error.contains("cannot write what is recorded"), "{error}");
        assert_eq!(fs::read(directory.path().join("flows.parquet")).unwrap(), old);
        assert_eq!(names(directory.path()), before);
    }

    #[test]
    fn a_place_that_is_taken_is_named_in_the_error_and_nothing_half_written_stays() {
        let directory = tempfile::tempdir().unwrap();
        let taken = directory.path().join("ports.parquet");
        fs::create_dir(&taken).unwrap();
        let error = write(&small_run(), directory.path()).unwrap_err().to_string();
        assert!(error.contains("ports.parquet"), "{error}");
        // The tables before it are there, whole; the summary, which vouches for all, is not.
        assert_eq!(names(directory.path()), ["coflows.parquet", "flows.parquet", "ports.parquet", "summary.parquet"]);
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named_in_the_error() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        let error = write(&empty_run(), &file.join("below")).unwrap_err().to_string();
        assert!(error.contains("below"), "{error}");
    }
}
