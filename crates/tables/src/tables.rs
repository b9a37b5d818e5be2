//! The tables, one file each: a column's description stands beside the code that fills it.

mod alarms;
pub(crate) mod coflows;
mod events;
mod flows;
mod incasts;
mod machine;
mod own;
mod packets;
pub(crate) mod ports;
mod queues;
pub(crate) mod summary;
mod windows;

use std::fmt;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::column::{Column, batch, schema};
use crate::dictionary::TableDescription;
use incast_record::Run;

/// Rows per record batch: bounds what is in memory while a long series is written.
const BATCH_ROWS: usize = 1 << 16;

/// A result table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// The run as a whole and each class of traffic.
    Summary,
    /// One row per message.
    Flows,
    /// One row per coflow.
    Coflows,
    /// One row per switch port.
    Ports,
    /// Queue lengths over time.
    Queues,
    /// Windows over time.
    Windows,
    /// Drops, marks, timeouts and retransmissions, one by one.
    Events,
    /// Packets at ports, one by one.
    Packets,
    /// Incasts as arrivals tell them, and when EIN said so.
    Incasts,
    /// When EIN said incast, and what was there.
    Alarms,
    /// How good the machine was that carried the run out in real time.
    Machine,
}

/// Evaluates `$body` with `$module` being the module of `$table`.
macro_rules! in_module {
    ($table:expr, $module:ident => $body:expr) => {
        match $table {
            Table::Summary => {
                use summary as $module;
                $body
            }
            Table::Flows => {
                use flows as $module;
                $body
            }
            Table::Coflows => {
                use coflows as $module;
                $body
            }
            Table::Ports => {
                use ports as $module;
                $body
            }
            Table::Queues => {
                use queues as $module;
                $body
            }
            Table::Windows => {
                use windows as $module;
                $body
            }
            Table::Events => {
                use events as $module;
                $body
            }
            Table::Packets => {
                use packets as $module;
                $body
            }
            Table::Incasts => {
                use incasts as $module;
                $body
            }
            Table::Alarms => {
                use alarms as $module;
                $body
            }
            Table::Machine => {
                use machine as $module;
                $body
            }
        }
    };
}

impl Table {
    /// All tables, the most asked for first.
    pub const ALL: [Self; 11] = [
        Self::Summary,
        Self::Flows,
        Self::Coflows,
        Self::Ports,
        Self::Queues,
        Self::Windows,
        Self::Events,
        Self::Packets,
        Self::Incasts,
        Self::Alarms,
        Self::Machine,
    ];

    /// Its name, which is also its file's without `.parquet`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        in_module!(self, table => table::NAME)
    }

    /// The table of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }

    /// Its columns, without those that the parts of a run add.
    #[must_use]
    pub fn schema(self) -> SchemaRef {
        in_module!(self, table => schema(&table::columns()))
    }

    /// Its columns for this run, with those that parts of the run add.
    #[must_use]
    pub fn schema_of(self, run: &Run) -> SchemaRef {
        own::schema(self.schema(), own::columns(self, run))
    }

    /// What it and its columns mean.
    #[must_use]
    pub fn describe(self) -> TableDescription {
        in_module!(self, table => TableDescription {
            name: table::NAME,
            meaning: table::MEANING,
            columns: table::columns().iter().map(Column::describe).collect(),
        })
    }

    /// Its rows, in batches; at least one batch, which may be empty.
    #[must_use]
    pub fn batches(self, run: &Run) -> Vec<RecordBatch> {
        let mut batches = Vec::new();
        self.for_each_batch(run, |batch| batches.push(batch));
        batches
    }

    /// Hands over its rows batch by batch; at least one batch, which may be empty.
    pub fn for_each_batch(self, run: &Run, mut take: impl FnMut(RecordBatch)) {
        if self == Self::Windows {
            let columns = windows::columns();
            return in_chunks(windows::rows(run), |chunk| {
                take(own::with(batch(&columns, chunk), &run.window_columns, |row| chunk[row].own));
            });
        }
        in_module!(self, table => {
            let columns = table::columns();
            in_chunks(table::rows(run), |chunk| take(batch(&columns, chunk)));
        });
    }
}

/// Hands over rows in chunks, of which the last has less than a whole one.
fn in_chunks<R>(mut rows: impl Iterator<Item = R>, mut take: impl FnMut(&[R])) {
    loop {
        let chunk: Vec<_> = rows.by_ref().take(BATCH_ROWS).collect();
        take(&chunk);
        if chunk.len() < BATCH_ROWS {
            return;
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{empty_run, small_run};

    #[test]
    fn every_table_is_found_by_its_name_and_no_other() {
        for table in Table::ALL {
            assert_eq!(Table::from_name(table.name()), Some(table));
        }
        assert_eq!(Table::from_name("jobs"), None);
    }

    #[test]
    fn batches_have_the_schema_that_was_announced_even_without_rows() {
        for table in Table::ALL {
            for run in [empty_run(), small_run()] {
                let batches = table.batches(&run);
                assert!(!batches.is_empty());
                assert!(batches.iter().all(|batch| batch.schema() == table.schema()), "{table}");
            }
        }
    }

    #[test]
    fn column_names_are_lower_case_and_occur_once_per_table() {
        for table in Table::ALL {
            let schema = table.schema();
            let mut names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            assert!(names.iter().all(|name| name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_'))));
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), schema.fields().len(), "{table}");
        }
    }

    #[test]
    fn a_column_in_seconds_bytes_or_bits_per_second_says_so_in_its_name() {
        for table in Table::ALL {
            for column in table.describe().columns {
                let suffix = match column.unit {
                    "s" => "_s",
                    "ps" => "_ps",
                    "bytes" => "bytes",
                    "bit/s" => "_bps",
                    _ => "",
                };
                assert!(column.name.contains(suffix), "{table}.{} is in {}", column.name, column.unit);
            }
        }
    }
}
