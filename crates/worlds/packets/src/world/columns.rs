//! Columns that the senders of a plan add to the table of windows.

use incast_plan::Plan;
use incast_record::OwnColumn;

/// The columns, each once, and by class which of them its sender fills.
#[derive(Debug)]
pub(super) struct Columns {
    pub(super) columns: Vec<OwnColumn>,
    pub(super) of_class: Vec<Option<u32>>,
}

impl Columns {
    pub(super) fn new(plan: &Plan) -> Self {
        let mut columns: Vec<OwnColumn> = Vec::new();
        let mut number = |name: &str, meaning: &str| {
            let known = columns.iter().position(|column| column.name == name);
            let number = known.unwrap_or(columns.len());
            if known.is_none() {
                columns.push(OwnColumn { name: name.to_owned(), meaning: meaning.to_owned() });
            }
            number as u32
        };
        let own = plan.classes.iter().map(|class| class.stack.sender.column());
        let of_class = own.map(|own| own.map(|own| number(own.name, own.doc))).collect();
        Self { columns, of_class }
    }
}
