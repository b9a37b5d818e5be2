//! The result tables of a run: one schema for every world.
//!
//! A world fills a [`Run`](incast_record::Run). [`Table`] turns it into Arrow record batches, [`summary_json`] into one JSON
//! object, and [`write()`] into Parquet files. What every column means is [`dictionary::TABLES`], from which
//! `docs/reference/results.md` is generated.

mod column;
pub mod dictionary;
mod goodput;
pub mod statistics;
mod summary_json;
mod tables;
mod write;

pub use summary_json::summary_json;
pub use tables::Table;
pub use write::{VERSION, WriteError, write};

#[cfg(test)]
mod samples;
