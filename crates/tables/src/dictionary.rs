//! What every column means, as data, and the page made of it.

use std::fmt::Write as _;
use std::sync::LazyLock;

use arrow_schema::DataType;

use crate::Table;

/// All tables in the order of [`Table::ALL`]. The schemas of the tables come from the same definitions.
pub static TABLES: LazyLock<Vec<TableDescription>> =
    LazyLock::new(|| Table::ALL.into_iter().map(Table::describe).collect());

/// A table for people.
#[derive(Clone, Debug, PartialEq)]
pub struct TableDescription {
    /// Such as "flows".
    pub name: &'static str,
    /// What a row is.
    pub meaning: &'static str,
    /// Its columns in order.
    pub columns: Vec<Column>,
}

/// A column for people.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Name with unit, such as `fct_s`.
    pub name: &'static str,
    /// Type in Arrow and Parquet.
    pub data_type: DataType,
    /// Whether a value may be missing.
    pub nullable: bool,
    /// Such as "s", or empty for plain counts and names.
    pub unit: &'static str,
    /// What it says, and when it is missing.
    pub meaning: &'static str,
}

impl Column {
    /// The type in words.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self.data_type {
            DataType::Int64 => "int64",
            DataType::UInt64 => "uint64",
            DataType::Float64 => "float64",
            DataType::Boolean => "bool",
            _ => "text",
        }
    }
}

/// The page `docs/reference/results.md`.
#[must_use]
pub fn markdown() -> String {
    let mut page = String::from(include_str!("dictionary_head.md"));
    for table in TABLES.iter() {
        let _ = write!(page, "\n## `{}`\n\n{}\n\n", table.name, table.meaning);
        page.push_str("| column | type | unit | meaning |\n|---|---|---|---|\n");
        for column in &table.columns {
            let null = if column.nullable { " or null" } else { "" };
            let (name, kind, unit, meaning) = (column.name, column.type_name(), column.unit, column.meaning);
            let _ = writeln!(page, "| `{name}` | {kind}{null} | {unit} | {meaning} |");
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_in_docs_is_the_one_made_of_these_definitions() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/results.md");
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            page == markdown(),
            "docs/reference/results.md is out of date: cargo run -p incast-tables --example dictionary > docs/reference/results.md"
        );
    }

    #[test]
    fn every_column_of_every_schema_is_described_under_its_name_and_type() {
        for (table, description) in Table::ALL.into_iter().zip(TABLES.iter()) {
            assert_eq!(description.name, table.name());
            let schema = table.schema();
            assert_eq!(schema.fields().len(), description.columns.len());
            for (field, column) in schema.fields().iter().zip(&description.columns) {
                assert_eq!(field.name(), column.name);
                assert_eq!((field.data_type(), field.is_nullable()), (&column.data_type, column.nullable));
                assert!(column.meaning.ends_with('.') && !column.meaning.contains('|'), "{}", column.name);
            }
        }
    }
}
