//! A column: its description and how its values follow from a row, in one place.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use serde_json::Value;

use crate::dictionary;

/// One column of a table whose rows are `R`.
pub(crate) struct Column<R> {
    name: &'static str,
    unit: &'static str,
    meaning: &'static str,
    values: Values<R>,
}

/// How a column's values follow from a row, and with it their type.
///
/// Whole numbers are signed in the tables, since differences of unsigned columns wrap around in many tools.
/// Only seeds use all 64 bits.
pub(crate) enum Values<R> {
    Whole(fn(&R) -> u64),
    MaybeWhole(fn(&R) -> Option<u64>),
    Seed(fn(&R) -> u64),
    Real(fn(&R) -> f64),
    MaybeReal(fn(&R) -> Option<f64>),
    Truth(fn(&R) -> bool),
    MaybeTruth(fn(&R) -> Option<bool>),
    Text(fn(&R) -> &str),
}

/// A column, as the tables list them.
pub(crate) const fn column<R>(
    name: &'static str,
    unit: &'static str,
    meaning: &'static str,
    values: Values<R>,
) -> Column<R> {
    Column { name, unit, meaning, values }
}

/// Columns, each as its meaning, its name, its unit if it has one, and how its value follows from a row.
macro_rules! columns {
    ($($(#[doc = $meaning:literal])+ $name:ident $($unit:literal)?: $values:expr;)+) => {
        vec![$($crate::column::column(
            stringify!($name),
            concat!($($unit)?),
            concat!($($meaning),+).trim_ascii_start(),
            $values,
        )),+]
    };
}
pub(crate) use columns;

impl<R> Column<R> {
    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn describe(&self) -> dictionary::Column {
        dictionary::Column {
            name: self.name,
            data_type: self.data_type(),
            nullable: self.nullable(),
            unit: self.unit,
            meaning: self.meaning,
        }
    }

    /// The value of one row as JSON; a number that is not finite becomes null.
    pub(crate) fn json(&self, row: &R) -> Value {
        match self.values {
            Values::Whole(of) | Values::Seed(of) => of(row).into(),
            Values::MaybeWhole(of) => of(row).into(),
            Values::Real(of) => of(row).into(),
            Values::MaybeReal(of) => of(row).into(),
            Values::Truth(of) => of(row).into(),
            Values::MaybeTruth(of) => of(row).into(),
            Values::Text(of) => of(row).into(),
        }
    }

    const fn data_type(&self) -> DataType {
        match self.values {
            Values::Whole(_) | Values::MaybeWhole(_) => DataType::Int64,
            Values::Seed(_) => DataType::UInt64,
            Values::Real(_) | Values::MaybeReal(_) => DataType::Float64,
            Values::Truth(_) | Values::MaybeTruth(_) => DataType::Boolean,
            Values::Text(_) => DataType::Utf8,
        }
    }

    const fn nullable(&self) -> bool {
        matches!(self.values, Values::MaybeWhole(_) | Values::MaybeReal(_) | Values::MaybeTruth(_))
    }

    fn array(&self, rows: &[R]) -> ArrayRef {
        match self.values {
            Values::Whole(of) => Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| of(row) as i64))),
            Values::MaybeWhole(of) => {
                Arc::new(rows.iter().map(|row| of(row).map(|value| value as i64)).collect::<Int64Array>())
            }
            Values::Seed(of) => Arc::new(UInt64Array::from_iter_values(rows.iter().map(of))),
            Values::Real(of) => Arc::new(Float64Array::from_iter_values(rows.iter().map(of))),
            Values::MaybeReal(of) => Arc::new(rows.iter().map(of).collect::<Float64Array>()),
            Values::Truth(of) => Arc::new(rows.iter().map(|row| Some(of(row))).collect::<BooleanArray>()),
            Values::MaybeTruth(of) => Arc::new(rows.iter().map(of).collect::<BooleanArray>()),
            Values::Text(of) => Arc::new(StringArray::from_iter_values(rows.iter().map(of))),
        }
    }
}

/// The Arrow schema of these columns.
pub(crate) fn schema<R>(columns: &[Column<R>]) -> SchemaRef {
    let field = |column: &Column<R>| Field::new(column.name, column.data_type(), column.nullable());
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// These rows as one batch.
pub(crate) fn batch<R>(columns: &[Column<R>], rows: &[R]) -> RecordBatch {
    RecordBatch::try_new(schema(columns), columns.iter().map(|column| column.array(rows)).collect())
        .expect("each array has its column's type and one value per row")
}
