//! The summary as one JSON object, for scripts.

use serde_json::{Map, Value};

use crate::column::Column;
use crate::tables::{ports, summary};
use incast_record::Run;

/// Ports listed in the summary.
const PORTS: usize = 4;

/// The table `summary` as one JSON object: the columns of class `all`, and besides them
/// - `classes`: an object per class with the columns that are known of a class, and the name of its `sender`,
/// - `ports`: the rows of the table `ports` with most drops (then the longest queue), at most four,
/// - `warnings`: what the scenario warned of.
#[must_use]
pub fn summary_json(run: &Run) -> Value {
    let (whole, classes) = summary::of(run);
    let mut object = object(&summary::columns(), &whole);
    let of_class = summary::class_columns();
    let mut classes: Map<_, _> =
        run.classes.iter().zip(&classes).map(|(name, row)| (name.clone(), of(&of_class, row))).collect();
    for (name, sender) in run.classes.iter().zip(&run.senders) {
        classes[name]["sender"] = sender.as_str().into();
    }
    let of_port = ports::columns();
    let bottlenecks: Vec<_> = ports::bottlenecks(run, PORTS).iter().map(|row| of(&of_port, row)).collect();
    object.insert("classes".into(), classes.into());
    object.insert("ports".into(), bottlenecks.into());
    object.insert("warnings".into(), run.warnings.clone().into());
    object.into()
}

fn object<R>(columns: &[Column<R>], row: &R) -> Map<String, Value> {
    columns.iter().map(|column| (column.name().to_owned(), column.json(row))).collect()
}

fn of<R>(columns: &[Column<R>], row: &R) -> Value {
    object(columns, row).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::small_run;
    use serde_json::json;

    #[test]
    fn the_object_holds_the_row_of_all_and_the_classes_the_bottlenecks_and_the_warnings() {
        let summary = summary_json(&small_run());
        assert_eq!(summary["class"], "all");
        assert_eq!(summary["outcome"], "time-up");
        assert_eq!(summary["flows"], 3);
        assert_eq!(summary["classes"]["short"]["flows"], 2);
        assert_eq!(summary["classes"]["long"]["delivered_bytes"], 5000);
        assert_eq!(summary["classes"]["long"]["sender"], "dctcp");
        assert!(summary["classes"]["long"].get("seed").is_none());
        assert_eq!(summary["ports"][0]["link"], 4);
        assert_eq!(summary["ports"].as_array().unwrap().len(), 2);
        assert_eq!(summary["warnings"], json!(["link 4 is asked for more than it has"]));
    }

    #[test]
    fn a_seed_of_64_bits_keeps_all_of_them() {
        assert_eq!(summary_json(&small_run())["seed"], json!(u64::MAX));
    }
}
