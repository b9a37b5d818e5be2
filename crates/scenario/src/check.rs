//! Checks a document against the JSON Schema and reports what does not fit, with its place in the file.
//!
//! Where a union is told apart by a constant key (`kind`, `name`), the value is checked against the chosen variant only.

use incast_protocols::units::text::{parse_bytes, parse_duration, parse_rate};

use crate::document::Problems;
use crate::node::{Entry, Node, Path, Place, Value};
use crate::report::nearest;
use crate::shape::{List, Range, Shape, Shapes, Table};
use crate::spec::conflict;

/// Notes every value that does not fit.
pub(crate) fn document(root: &Node, shapes: &Shapes, problems: &mut Problems<'_>) {
    Checker { shapes, problems }.value(root, &shapes.root, &Path::default());
}

struct Checker<'c, 'd> {
    shapes: &'c Shapes,
    problems: &'c mut Problems<'d>,
}

/// One thing a value may be: a shape that is neither defined elsewhere nor a union, and the name of its definition.
#[derive(Clone, Copy)]
struct Alternative<'s> {
    shape: &'s Shape,
    name: &'s str,
}

/// A table as one thing that a value may be.
#[derive(Clone, Copy)]
struct Variant<'s> {
    table: &'s Table,
    name: &'s str,
}

impl<'s> Alternative<'s> {
    fn number(&self) -> Option<&'s Range> {
        if let Shape::Number(range) = self.shape { Some(range) } else { None }
    }

    fn list(&self) -> Option<&'s List> {
        if let Shape::List(list) = self.shape { Some(list) } else { None }
    }

    fn variant(&self) -> Option<Variant<'s>> {
        if let Shape::Table(table) = self.shape { Some(Variant { table, name: self.name }) } else { None }
    }

    /// For messages: what is expected here.
    fn describe(&self) -> Option<String> {
        let text = match (self.name, self.shape) {
            (_, Shape::Defined(_) | Shape::AnyOf(_) | Shape::Other) => return None,
            ("Bytes", _) => "an amount of data (\"64KiB\")",
            ("Duration", _) => "a time (\"40us\")",
            ("Rate", _) => "a rate (\"10Gbps\")",
            ("Amount", _) => "packets or bytes (\"20packets\", \"64KiB\")",
            (_, Shape::Constant(name)) => return Some(format!("{name:?}")),
            (_, Shape::Text(names)) if names.is_empty() => "a string",
            (_, Shape::Text(names)) => return Some(quoted(names.iter().map(|name| &**name)).join(" or ")),
            (_, Shape::Number(Range { whole: true, .. })) => "a whole number",
            (_, Shape::Number(_)) => "a number",
            (_, Shape::Boolean) => "true or false",
            (_, Shape::List(_)) => "a list",
            (_, Shape::Table(_)) => "a table",
        };
        Some(text.into())
    }
}

impl<'s> Variant<'s> {
    /// The constant key that tells it from its siblings, and its value.
    fn tag(&self) -> Option<(&'s str, &'s str)> {
        self.table.keys.iter().find_map(|(key, shape)| match shape {
            Shape::Constant(name) => Some((&**key, &**name)),
            _ => None,
        })
    }
}

fn quoted<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    names.into_iter().map(|name| format!("{name:?}")).collect()
}

/// "a", "a or b", "a, b or c"; each once.
fn listed(mut items: Vec<String>) -> String {
    let mut seen = Vec::new();
    items.retain(|item| {
        !seen.contains(item) && {
            seen.push(item.clone());
            true
        }
    });
    match items.split_last() {
        None => "nothing".into(),
        Some((only, [])) => only.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

impl<'c> Checker<'c, '_> {
    /// Everything that a value of this shape may be.
    fn alternatives(&self, shape: &'c Shape, name: &'c str, into: &mut Vec<Alternative<'c>>) {
        match shape {
            Shape::Defined(number) => {
                let (name, shape) = self.shapes.defined(*number);
                self.alternatives(shape, name, into);
            }
            Shape::AnyOf(all) => {
                for one in all {
                    self.alternatives(one, name, into);
                }
            }
            _ => into.push(Alternative { shape, name }),
        }
    }

    fn value(&mut self, node: &Node, shape: &'c Shape, path: &Path) {
        let mut all = Vec::new();
        self.alternatives(shape, "", &mut all);
        match &node.value {
            Value::String(text) => self.text(node, text, &all, path),
            Value::Integer(number) => self.number(node, *number as f64, true, &all, path),
            Value::Float(number) => self.number(node, *number, false, &all, path),
            Value::Boolean(_) if all.iter().any(|one| matches!(one.shape, Shape::Boolean)) => {}
            Value::Boolean(_) | Value::Datetime(_) => self.wrong_type(node, &all, path),
            Value::Array(items) => match all.iter().find_map(Alternative::list) {
                Some(list) => self.array(node, items, list, path),
                None => self.wrong_type(node, &all, path),
            },
            Value::Table(entries) => self.table(node, entries, &all, path),
        }
    }

    fn wrong_type(&mut self, node: &Node, all: &[Alternative<'c>], path: &Path) {
        let expected = listed(all.iter().filter_map(Alternative::describe).collect());
        let hint = match node.value {
            Value::Integer(_) | Value::Float(_) if all.iter().any(|one| !unit(one.name).is_empty()) => {
                ": add the unit, in quotes"
            }
            _ => "",
        };
        self.problems.at(path, format!("expected {expected}, found {}{hint}", node.value.describe()));
    }

    fn text(&mut self, node: &Node, text: &str, all: &[Alternative<'c>], path: &Path) {
        let texts = || all.iter().filter_map(|one| Some((one.name, one.shape.names()?)));
        if texts().next().is_none() {
            return self.wrong_type(node, all, path);
        }
        let names: Vec<&str> = texts().flat_map(|(_, names)| names).map(|name| &**name).collect();
        if names.contains(&text) {
            return;
        }
        let mut refusal = None;
        for (name, _) in texts().filter(|(_, names)| names.is_empty()) {
            match quantity(name, text) {
                Ok(()) => return,
                Err(message) => refusal = Some(message),
            }
        }
        if let Some(message) = refusal {
            self.problems.at(path, message);
            return;
        }
        let nearest = self.problems.nearest(text, names.iter().copied());
        let problem = self.problems.at(path, format!("unknown name {text:?}"));
        problem.nearest = nearest;
        let table = match all.iter().find_map(Alternative::variant) {
            Some(one) if one.tag().is_some() => ", or a table with a name and parameters",
            Some(_) => ", or a table",
            None => "",
        };
        problem.allowed = Some(quoted(names).join(", ") + table);
    }

    fn number(&mut self, node: &Node, number: f64, whole: bool, all: &[Alternative<'c>], path: &Path) {
        let mut ranges = all.iter().filter_map(Alternative::number);
        let Some(&Range { least, most, .. }) = ranges.find(|range| whole || !range.whole) else {
            return self.wrong_type(node, all, path);
        };
        if !number.is_finite() {
            self.problems.at(path, format!("{} is not finite", node.value.describe()));
            return;
        }
        if least.is_some_and(|least| number < least) || most.is_some_and(|most| number > most) {
            let allowed = match (least, most) {
                (Some(least), Some(most)) => format!("{least} to {most}"),
                (Some(least), None) => format!("at least {least}"),
                (_, most) => format!("at most {}", most.unwrap_or_default()),
            };
            self.problems.out_of_range(path, node.value.describe(), allowed);
        }
    }

    fn array(&mut self, node: &Node, items: &[Node], list: &'c List, path: &Path) {
        let (least, most) = (list.least, list.most);
        if (items.len() as u64) < least || items.len() as u64 > most {
            let allowed = if most == u64::MAX { format!("at least {least}") } else { format!("{least}") };
            let problem = self.problems.at_place(node.place, path, format!("a list of {} items", items.len()));
            problem.allowed = Some(allowed);
            return;
        }
        for (index, item) in items.iter().enumerate() {
            if let Some(shape) = list.item(index) {
                self.value(item, shape, &path.index(index));
            }
        }
    }

    fn table(&mut self, node: &Node, entries: &[Entry], all: &[Alternative<'c>], path: &Path) {
        let tables: Vec<Variant<'c>> = all.iter().filter_map(Alternative::variant).collect();
        let chosen = match tables[..] {
            [] => return self.wrong_type(node, all, path),
            [only] if only.tag().is_none() => only,
            _ => match self.variant(node, &tables, path) {
                Some(chosen) => chosen,
                None => return,
            },
        };
        self.keys(node, entries, chosen.table, &tables, path);
        if let Some(conflict) = conflict(chosen.name, node) {
            let path = conflict.key.split('.').fold(path.clone(), |path, key| path.key(key));
            self.problems.at(&path, conflict.message);
        }
    }

    /// The variant that the table's constant key chooses.
    fn variant(&mut self, node: &Node, tables: &[Variant<'c>], path: &Path) -> Option<Variant<'c>> {
        let (key, _) = tables.iter().find_map(Variant::tag)?;
        let names = || tables.iter().filter_map(Variant::tag).map(|(_, name)| name);
        let allowed = || quoted(names()).join(", ");
        let Some(entry) = node.get(key) else {
            let problem = self.problems.at(path, format!("missing key {key:?}"));
            problem.allowed = Some(format!("{key} = {}", listed(quoted(names()))));
            return None;
        };
        let path = path.key(key);
        let Value::String(found) = &entry.node.value else {
            let found = entry.node.value.describe();
            self.problems.at(&path, format!("expected a name, found {found}")).allowed = Some(allowed());
            return None;
        };
        let chosen = tables.iter().copied().find(|one| one.tag().is_some_and(|(_, name)| name == found));
        if chosen.is_none() {
            let problem = self.problems.at(&path, format!("unknown {key} {found:?}"));
            problem.nearest = nearest(found, names());
            problem.allowed = Some(allowed());
        }
        chosen
    }

    fn keys(&mut self, node: &Node, entries: &[Entry], table: &'c Table, siblings: &[Variant<'c>], path: &Path) {
        let mut meant: Vec<String> = Vec::new();
        for entry in entries {
            if let Some(shape) = table.key(&entry.key).or(table.others.as_ref()) {
                self.value(&entry.node, shape, &path.key(&entry.key));
            } else {
                let keys = || table.keys.iter().map(|(key, _)| &**key);
                let elsewhere = siblings.iter().find(|other| other.table.key(&entry.key).is_some());
                let belongs =
                    elsewhere.and_then(Variant::tag).map(|(key, name)| format!(" (it belongs to {key} = {name:?})"));
                let message = format!("unknown key {:?}{}", entry.key, belongs.unwrap_or_default());
                let problem = self.problems.at_place(entry.place, &path.key(&entry.key), message);
                problem.nearest = if elsewhere.is_some() { None } else { nearest(&entry.key, keys()) };
                problem.allowed = Some(keys().collect::<Vec<_>>().join(", "));
                meant.extend(problem.nearest.clone());
            }
        }
        let required = table.required.iter().map(|key| &**key);
        for key in required.filter(|key| node.get(key).is_none() && !meant.iter().any(|meant| meant == key)) {
            let shape = table.key(key);
            if path.0.is_empty() {
                let has_names = matches!(shape, Some(Shape::Table(table)) if table.others.is_some());
                let name = if has_names { ".NAME" } else { "" };
                let message =
                    format!("missing table [{key}{name}]: `incast example incast` prints a scenario to start from");
                self.problems.at_place(node.place, path, message);
                continue;
            }
            let mut all = Vec::new();
            if let Some(shape) = shape {
                self.alternatives(shape, "", &mut all);
            }
            let expected = listed(all.iter().filter_map(Alternative::describe).collect());
            let problem = self.problems.at_place(node.place, path, format!("missing key {key:?}"));
            problem.allowed = Some(expected);
        }
        if entries.is_empty() && !table.may_be_empty {
            self.problems.at_place(node.place, path, "the table is empty");
        }
    }
}

/// The last unit of a quantity, or nothing for anything else.
fn unit(name: &str) -> &'static str {
    match name {
        "Bytes" => "B",
        "Duration" => "s",
        "Rate" => "bps",
        "Amount" => "packets",
        _ => "",
    }
}

/// Whether a text is a quantity of the named kind; any text is where there is no such kind.
fn quantity(name: &str, text: &str) -> Result<(), String> {
    match name {
        "Bytes" => parse_bytes(text).map(|_| ()),
        "Duration" => parse_duration(text).map(|_| ()),
        "Rate" => parse_rate(text).map(|_| ()),
        "Amount" => {
            let node = Node { value: Value::String(text.to_owned()), place: Place::File(0) };
            <incast_protocols::Amount as serde::Deserialize>::deserialize(&node).map(|_| ()).map_err(
                |fault| match fault.message {
                    message if message.contains("packets") => message,
                    message => format!("{message}, or packets"),
                },
            )
        }
        _ => Ok(()),
    }
}
