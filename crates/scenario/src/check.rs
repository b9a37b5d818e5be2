//! Checks a document against the JSON Schema and reports what does not fit, with its place in the file.
//!
//! Knows the part of JSON Schema that our types produce. Where a union is told apart by a constant key (`kind`,
//! `name`), the value is checked against the chosen variant only.

use incast_protocols::units::text::{parse_bytes, parse_duration, parse_rate};
use serde_json::Value as Json;

use crate::document::Problems;
use crate::node::{Entry, Node, Path, Place, Value};
use crate::report::nearest;
use crate::spec::conflict;

/// Notes every value that does not fit `schema`.
pub(crate) fn document(root: &Node, schema: &Json, problems: &mut Problems<'_>) {
    Checker { schema, problems }.value(root, schema, &Path::default());
}

struct Checker<'c, 'd> {
    schema: &'c Json,
    problems: &'c mut Problems<'d>,
}

/// One thing a value may be: a schema without references or unions, and the name of its definition.
#[derive(Clone, Copy)]
struct Alternative<'s> {
    schema: &'s Json,
    name: &'s str,
}

impl<'s> Alternative<'s> {
    fn is(&self, kind: &str) -> bool {
        self.schema["type"] == kind
    }

    fn constant(&self) -> Option<&'s str> {
        self.schema["const"].as_str()
    }

    /// The names that this alternative is (a constant, or an enumeration).
    fn constants(&self) -> impl Iterator<Item = &'s str> + use<'s> {
        let many = self.schema["enum"].as_array().into_iter().flatten().filter_map(Json::as_str);
        self.constant().into_iter().chain(many)
    }

    /// For messages: what is expected here.
    fn describe(&self) -> Option<String> {
        let text = match (self.name, self.schema["type"].as_str()?) {
            ("Bytes", _) => "an amount of data (\"64KiB\")",
            ("Duration", _) => "a time (\"40us\")",
            ("Rate", _) => "a rate (\"10Gbps\")",
            ("Amount", _) => "packets or bytes (\"20packets\", \"64KiB\")",
            (_, "string") => {
                let names: Vec<String> = self.constants().map(|name| format!("{name:?}")).collect();
                return Some(if names.is_empty() { "a string".into() } else { names.join(" or ") });
            }
            (_, "integer") => "a whole number",
            (_, "number") => "a number",
            (_, "boolean") => "true or false",
            (_, "array") => "a list",
            (_, "object") => "a table",
            _ => return None,
        };
        Some(text.into())
    }
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
    /// Everything that a value described by `schema` may be.
    fn alternatives(&self, schema: &'c Json, name: &'c str, into: &mut Vec<Alternative<'c>>) {
        if let Some(target) = schema["$ref"].as_str() {
            let pointer = target.trim_start_matches('#');
            let name = pointer.rsplit('/').next().unwrap_or_default();
            if let Some(schema) = self.schema.pointer(pointer) {
                self.alternatives(schema, name, into);
            }
            return;
        }
        for union in ["oneOf", "anyOf", "allOf"] {
            if let Some(all) = schema[union].as_array() {
                for one in all {
                    self.alternatives(one, name, into);
                }
                return;
            }
        }
        into.push(Alternative { schema, name });
    }

    fn value(&mut self, node: &Node, schema: &'c Json, path: &Path) {
        let mut all = Vec::new();
        self.alternatives(schema, "", &mut all);
        match &node.value {
            Value::String(text) => self.text(node, text, &all, path),
            Value::Integer(number) => self.number(node, *number as f64, true, &all, path),
            Value::Float(number) => self.number(node, *number, false, &all, path),
            Value::Boolean(_) => self.some(node, "boolean", &all, path, |_, _| {}),
            Value::Datetime(_) => self.wrong_type(node, &all, path),
            Value::Array(items) => self.some(node, "array", &all, path, |this, one| this.array(node, items, one, path)),
            Value::Table(entries) => self.table(node, entries, &all, path),
        }
    }

    /// Goes on with the alternative of this type, if there is one.
    fn some(
        &mut self,
        node: &Node,
        kind: &str,
        all: &[Alternative<'c>],
        path: &Path,
        then: impl FnOnce(&mut Self, Alternative<'c>),
    ) {
        match all.iter().find(|one| one.is(kind)) {
            Some(&one) => then(self, one),
            None => self.wrong_type(node, all, path),
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
        let texts: Vec<Alternative<'c>> = all.iter().filter(|one| one.is("string")).copied().collect();
        if texts.is_empty() {
            return self.wrong_type(node, all, path);
        }
        let names: Vec<&str> = texts.iter().flat_map(Alternative::constants).collect();
        if names.contains(&text) {
            return;
        }
        let mut refusal = None;
        for one in texts.iter().filter(|one| one.constants().next().is_none()) {
            match quantity(one.name, text) {
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
        let table = match all.iter().find(|one| one.is("object")) {
            Some(&one) if tag(one).is_some() => ", or a table with a name and parameters",
            Some(_) => ", or a table",
            None => "",
        };
        let names = names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        problem.allowed = Some(names + table);
    }

    fn number(&mut self, node: &Node, number: f64, whole: bool, all: &[Alternative<'c>], path: &Path) {
        let fits = |one: &&Alternative<'c>| one.is("number") || (whole && one.is("integer"));
        let Some(one) = all.iter().find(fits) else {
            return self.wrong_type(node, all, path);
        };
        if !number.is_finite() {
            self.problems.at(path, format!("{} is not finite", node.value.describe()));
            return;
        }
        let format = match one.schema["format"].as_str() {
            Some("uint32") => Some(f64::from(u32::MAX)),
            _ => None,
        };
        let least = one.schema["minimum"].as_f64();
        let most = one.schema["maximum"].as_f64().or(format);
        if least.is_some_and(|least| number < least) || most.is_some_and(|most| number > most) {
            let allowed = match (least, most) {
                (Some(least), Some(most)) => format!("{least} to {most}"),
                (Some(least), None) => format!("at least {least}"),
                (_, most) => format!("at most {}", most.unwrap_or_default()),
            };
            self.problems.out_of_range(path, node.value.describe(), allowed);
        }
    }

    fn array(&mut self, node: &Node, items: &[Node], one: Alternative<'c>, path: &Path) {
        let count = |key: &str| one.schema[key].as_u64();
        let (least, most) = (count("minItems").unwrap_or(0), count("maxItems").unwrap_or(u64::MAX));
        if (items.len() as u64) < least || items.len() as u64 > most {
            let allowed = if most == u64::MAX { format!("at least {least}") } else { format!("{least}") };
            let problem = self.problems.at_place(node.place, path, format!("a list of {} items", items.len()));
            problem.allowed = Some(allowed);
            return;
        }
        for (index, item) in items.iter().enumerate() {
            let schema = match &one.schema["items"] {
                Json::Array(each) => each.get(index),
                every => Some(every),
            };
            if let Some(schema) = schema {
                self.value(item, schema, &path.index(index));
            }
        }
    }

    fn table(&mut self, node: &Node, entries: &[Entry], all: &[Alternative<'c>], path: &Path) {
        let tables: Vec<Alternative<'c>> = all.iter().filter(|one| one.is("object")).copied().collect();
        let chosen = match tables[..] {
            [] => return self.wrong_type(node, all, path),
            [only] if tag(only).is_none() => only,
            _ => match self.variant(node, &tables, path) {
                Some(chosen) => chosen,
                None => return,
            },
        };
        self.keys(node, entries, chosen, &tables, path);
        if let Some(conflict) = conflict(chosen.name, node) {
            let path = conflict.key.split('.').fold(path.clone(), |path, key| path.key(key));
            self.problems.at(&path, conflict.message);
        }
    }

    /// The variant that the table's constant key chooses.
    fn variant(&mut self, node: &Node, tables: &[Alternative<'c>], path: &Path) -> Option<Alternative<'c>> {
        let (key, _) = tables.iter().copied().find_map(tag)?;
        let names = || tables.iter().copied().filter_map(tag).map(|(_, name)| name);
        let allowed = || names().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        let Some(entry) = node.get(key) else {
            let problem = self.problems.at(path, format!("missing key {key:?}"));
            problem.allowed = Some(format!("{key} = {}", listed(names().map(|name| format!("{name:?}")).collect())));
            return None;
        };
        let path = path.key(key);
        let Value::String(found) = &entry.node.value else {
            let found = entry.node.value.describe();
            self.problems.at(&path, format!("expected a name, found {found}")).allowed = Some(allowed());
            return None;
        };
        let chosen = tables.iter().copied().find(|&one| tag(one).is_some_and(|(_, name)| name == found));
        if chosen.is_none() {
            let problem = self.problems.at(&path, format!("unknown {key} {found:?}"));
            problem.nearest = nearest(found, names());
            problem.allowed = Some(allowed());
        }
        chosen
    }

    fn keys(
        &mut self,
        node: &Node,
        entries: &[Entry],
        one: Alternative<'c>,
        siblings: &[Alternative<'c>],
        path: &Path,
    ) {
        let known = one.schema["properties"].as_object();
        let others = &one.schema["additionalProperties"];
        let mut meant: Vec<String> = Vec::new();
        for entry in entries {
            if let Some(schema) = known.and_then(|known| known.get(&entry.key)) {
                self.value(&entry.node, schema, &path.key(&entry.key));
            } else if others.is_object() {
                self.value(&entry.node, others, &path.key(&entry.key));
            } else {
                let keys = || known.into_iter().flat_map(|known| known.keys().map(String::as_str));
                let elsewhere =
                    siblings.iter().copied().find(|other| !other.schema["properties"][&entry.key].is_null());
                let belongs = elsewhere.and_then(tag).map(|(key, name)| format!(" (it belongs to {key} = {name:?})"));
                let message = format!("unknown key {:?}{}", entry.key, belongs.unwrap_or_default());
                let problem = self.problems.at_place(entry.place, &path.key(&entry.key), message);
                problem.nearest = if elsewhere.is_some() { None } else { nearest(&entry.key, keys()) };
                problem.allowed = Some(keys().collect::<Vec<_>>().join(", "));
                meant.extend(problem.nearest.clone());
            }
        }
        let required = one.schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str);
        for key in required.filter(|key| node.get(key).is_none() && !meant.iter().any(|meant| meant == key)) {
            let schema = &one.schema["properties"][key];
            if path.0.is_empty() {
                let name = if schema["additionalProperties"].is_object() { ".NAME" } else { "" };
                let message =
                    format!("missing table [{key}{name}]: `incast example incast` prints a scenario to start from");
                self.problems.at_place(node.place, path, message);
                continue;
            }
            let mut all = Vec::new();
            self.alternatives(schema, "", &mut all);
            let expected = listed(all.iter().filter_map(Alternative::describe).collect());
            let problem = self.problems.at_place(node.place, path, format!("missing key {key:?}"));
            problem.allowed = Some(expected);
        }
        if entries.is_empty() && one.schema["minProperties"].as_u64().is_some_and(|least| least > 0) {
            self.problems.at_place(node.place, path, "the table is empty");
        }
    }
}

/// The constant key that tells a variant from its siblings, and its value.
fn tag(one: Alternative<'_>) -> Option<(&str, &str)> {
    let properties = one.schema["properties"].as_object()?;
    properties.iter().find_map(|(key, schema)| schema["const"].as_str().map(|name| (key.as_str(), name)))
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
