//! From the parser's tree to ours.

use super::{Entry, Node, Place, Value};

fn start(span: Option<std::ops::Range<usize>>, otherwise: usize) -> usize {
    span.map_or(otherwise, |span| span.start)
}

/// A table; `at` is where it is named.
pub(super) fn table(table: &toml_edit::Table, at: usize) -> Node {
    let entries = table.iter().map(|(name, item)| entry(name, table.key(name), item, at)).collect();
    Node { value: Value::Table(entries), place: Place::File(at) }
}

fn entry(name: &str, key: Option<&toml_edit::Key>, item: &toml_edit::Item, at: usize) -> Entry {
    let at = start(key.and_then(toml_edit::Key::span), at);
    Entry { key: name.to_owned(), place: Place::File(at), node: node(item, at) }
}

fn node(item: &toml_edit::Item, at: usize) -> Node {
    match item {
        toml_edit::Item::None => Node { value: Value::Table(Vec::new()), place: Place::File(at) },
        toml_edit::Item::Value(found) => value(found, at),
        toml_edit::Item::Table(found) => table(found, at),
        toml_edit::Item::ArrayOfTables(found) => {
            let items = found.iter().map(|one| table(one, start(one.span(), at))).collect();
            Node { value: Value::Array(items), place: Place::File(at) }
        }
    }
}

/// A value; `at` is where the key stands, for values that have no span of their own.
pub(super) fn value(found: &toml_edit::Value, at: usize) -> Node {
    let at = start(found.span(), at);
    let value = match found {
        toml_edit::Value::String(text) => Value::String(text.value().clone()),
        toml_edit::Value::Integer(number) => Value::Integer(*number.value()),
        toml_edit::Value::Float(number) => Value::Float(*number.value()),
        toml_edit::Value::Boolean(value) => Value::Boolean(*value.value()),
        toml_edit::Value::Datetime(date) => Value::Datetime(date.value().to_string()),
        toml_edit::Value::Array(items) => Value::Array(items.iter().map(|item| self::value(item, at)).collect()),
        toml_edit::Value::InlineTable(table) => {
            let pair = |(name, item): (&str, &toml_edit::Value)| {
                let at = start(table.key(name).and_then(toml_edit::Key::span), at);
                Entry { key: name.to_owned(), place: Place::File(at), node: self::value(item, at) }
            };
            Value::Table(table.iter().map(pair).collect())
        }
    };
    Node { value, place: Place::File(at) }
}
