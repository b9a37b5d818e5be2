//! Columns that the parts of a run add to a table. A run whose parts add none has the table as it is described.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use incast_record::{OwnColumn, Run};

use super::Table;

/// The columns that parts of this run add to the table.
pub(super) fn columns(table: Table, run: &Run) -> &[OwnColumn] {
    match table {
        Table::Windows => &run.window_columns,
        _ => &[],
    }
}

/// The schema with these columns added.
pub(super) fn schema(described: SchemaRef, columns: &[OwnColumn]) -> SchemaRef {
    if columns.is_empty() {
        return described;
    }
    let own = columns.iter().map(|column| Arc::new(Field::new(&column.name, DataType::Float64, true)));
    Arc::new(Schema::new(described.fields().iter().cloned().chain(own).collect::<Vec<_>>()))
}

/// Adds these columns, of which each row has a value in one at most.
pub(super) fn with(
    batch: RecordBatch,
    columns: &[OwnColumn],
    own: impl Fn(usize) -> Option<(u32, f64)>,
) -> RecordBatch {
    if columns.is_empty() {
        return batch;
    }
    let rows = batch.num_rows();
    let mut arrays = batch.columns().to_vec();
    for number in 0..columns.len() as u32 {
        let value = |row| own(row).filter(|&(which, _)| which == number).map(|(_, value)| value);
        arrays.push(Arc::new((0..rows).map(value).collect::<Float64Array>()) as ArrayRef);
    }
    RecordBatch::try_new(schema(batch.schema(), columns), arrays).expect("each array has one value per row")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::small_run;
    use arrow_array::Array;
    use incast_record::WindowSample;

    /// One column for each sender that has one; what other senders did has no value there.
    #[test]
    fn a_sender_adds_a_column_to_the_table_of_windows() {
        let mut run = small_run();
        let sample = run.window_samples[0];
        let of = |own| WindowSample { own, ..sample };
        let column = |name: &str| OwnColumn { name: name.into(), meaning: "what it is".into() };
        run.window_columns = vec![column("target_s"), column("utilization")];
        run.window_samples = vec![of(Some((0, 20e-6))), of(None), of(Some((1, 0.95)))].into();
        let [batch] = &Table::Windows.batches(&run)[..] else { panic!("one batch") };
        let values = |name: &str| {
            let array = batch.column_by_name(name).unwrap();
            let array = array.as_any().downcast_ref::<Float64Array>().unwrap();
            array.iter().collect::<Vec<_>>()
        };
        assert_eq!(values("target_s"), [Some(20e-6), None, None]);
        assert_eq!(values("utilization"), [None, None, Some(0.95)]);
        assert_eq!(batch.num_columns(), Table::Windows.schema().fields().len() + 2);
        assert_eq!(batch.schema(), Table::Windows.schema_of(&run));
        assert_eq!(Table::Queues.batches(&run)[0].schema(), Table::Queues.schema());
    }
}
