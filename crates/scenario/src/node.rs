//! TOML values that know where they were written.

use std::fmt;

mod read;
mod typed;

/// Where a key or value was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// Bytes from the file's start.
    File(usize),
    /// Number of the override.
    Override(usize),
}

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) place: Place,
}

/// A TOML value.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    String(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    Datetime(String),
    Array(Vec<Node>),
    Table(Vec<Entry>),
}

/// A key with its value; a table keeps the order of the file.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) place: Place,
    pub(crate) node: Node,
}

impl Value {
    /// For messages: what was found.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::String(text) => format!("the string {text:?}"),
            Self::Integer(number) => format!("the number {number}"),
            Self::Float(number) => format!("the number {number:?}"),
            Self::Boolean(value) => value.to_string(),
            Self::Datetime(text) => format!("the date {text}"),
            Self::Array(_) => "a list".into(),
            Self::Table(_) => "a table".into(),
        }
    }
}

/// A value that stands alone, such as an override's.
pub(crate) fn read_value(value: &toml_edit::Value) -> Node {
    read::value(value, 0)
}

/// A table that stands alone, such as a profile's.
pub(crate) fn read_table(table: &toml_edit::Table) -> Node {
    read::table(table, 0)
}

impl Node {
    /// Says of this value and all in it that they were written at `place`.
    pub(crate) fn move_to(&mut self, place: Place) {
        self.place = place;
        match &mut self.value {
            Value::Array(items) => items.iter_mut().for_each(|item| item.move_to(place)),
            Value::Table(entries) => {
                for entry in entries {
                    entry.place = place;
                    entry.node.move_to(place);
                }
            }
            _ => {}
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Entry> {
        match &self.value {
            Value::Table(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }
}

/// One step from a value to one inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

/// From the root to a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Path(pub(crate) Vec<Step>);

impl Path {
    pub(crate) fn of(keys: &[&str]) -> Self {
        Self(keys.iter().map(|&key| Step::Key(key.to_owned())).collect())
    }

    pub(crate) fn key(&self, key: &str) -> Self {
        let mut path = self.clone();
        path.0.push(Step::Key(key.to_owned()));
        path
    }

    pub(crate) fn index(&self, index: usize) -> Self {
        let mut path = self.clone();
        path.0.push(Step::Index(index));
        path
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) => {
                    let bare =
                        !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
                    let dot = if position == 0 { "" } else { "." };
                    if bare { write!(f, "{dot}{key}")? } else { write!(f, "{dot}{key:?}")? }
                }
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}
