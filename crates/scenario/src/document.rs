//! A scenario file with its overrides applied, and the problems found in it.

use std::fmt;
use std::ops::Range;

use crate::node::{Node, Path, Place, Step, Value, read_table};
use crate::overrides::Override;
use crate::report::{Origin, Problem, Report, nearest};

/// A scenario file with its overrides applied.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(crate) root: Node,
    file: String,
    text: String,
    overrides: Vec<String>,
}

impl Document {
    /// Reads `text` and applies the overrides in their order.
    pub(crate) fn parse(text: &str, file: &str, overrides: &[Override]) -> Result<Self, Report> {
        let empty = Node { value: Value::Table(Vec::new()), place: Place::File(0) };
        let mut document = Self {
            root: empty,
            file: file.to_owned(),
            text: text.to_owned(),
            overrides: overrides.iter().map(|one| one.key().to_owned()).collect(),
        };
        let parsed = toml_edit::Document::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span: Range<usize>| span.start);
            document.problem(Place::File(at), &Path::default(), format!("invalid TOML: {}", error.message().trim()))
        })?;
        document.root = read_table(parsed.as_table());
        for (index, one) in overrides.iter().enumerate() {
            one.apply(&mut document.root, index)
                .map_err(|message| document.problem(Place::Override(index), &one.path(), message))?;
        }
        Ok(document)
    }

    /// The value at `path`, if there.
    pub(crate) fn find(&self, path: &Path) -> Option<&Node> {
        let mut node = &self.root;
        for step in &path.0 {
            node = match (step, &node.value) {
                (Step::Key(key), _) => &node.get(key)?.node,
                (Step::Index(index), Value::Array(items)) => items.get(*index)?,
                (Step::Index(_), _) => return None,
            };
        }
        Some(node)
    }

    /// Where the value at `path` was written, or the innermost table that would hold it.
    pub(crate) fn place(&self, path: &Path) -> Place {
        let mut node = &self.root;
        for step in &path.0 {
            let next = match (step, &node.value) {
                (Step::Key(key), _) => node.get(key).map(|entry| &entry.node),
                (Step::Index(index), Value::Array(items)) => items.get(*index),
                (Step::Index(_), _) => None,
            };
            match next {
                Some(next) => node = next,
                None => break,
            }
        }
        node.place
    }

    /// For people.
    pub(crate) fn origin(&self, place: Place) -> Origin {
        match place {
            Place::File(offset) => {
                let (line, column) = position(&self.text, offset);
                Origin::File { file: self.file.clone(), line, column }
            }
            Place::Override(index) => Origin::Override { key: self.overrides[index].clone() },
        }
    }

    /// A problem at a known place.
    pub(crate) fn problem(&self, place: Place, path: &Path, message: impl Into<String>) -> Problem {
        Problem {
            origin: self.origin(place),
            key: path.to_string(),
            message: message.into(),
            nearest: None,
            allowed: None,
        }
    }
}

/// Line and column of a byte, both from 1.
fn position(text: &str, offset: usize) -> (u32, u32) {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let before = &text[..offset];
    let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
    let column = before[before.rfind('\n').map_or(0, |at| at + 1)..].chars().count() + 1;
    (line as u32, column as u32)
}

/// Problems on their way to a report.
#[derive(Debug)]
pub(crate) struct Problems<'d> {
    pub(crate) document: &'d Document,
    found: Vec<(Place, Problem)>,
    /// How many were found beyond those that are reported.
    more: usize,
    /// What is said of them goes here.
    spare: Problem,
}

/// Nobody reads more at once, and a list of many thousand items can be wrong in each.
const REPORTED: usize = 50;

impl<'d> Problems<'d> {
    pub(crate) const fn new(document: &'d Document) -> Self {
        let spare = Problem {
            origin: Origin::Override { key: String::new() },
            key: String::new(),
            message: String::new(),
            nearest: None,
            allowed: None,
        };
        Self { document, found: Vec::new(), more: 0, spare }
    }

    /// Whether further problems are only counted.
    const fn is_full(&self) -> bool {
        self.found.len() >= REPORTED
    }

    /// Notes a problem with the value at `path`, or with its absence.
    pub(crate) fn at(&mut self, path: &Path, message: impl Into<String>) -> &mut Problem {
        if self.is_full() {
            return self.count();
        }
        self.at_place(self.document.place(path), path, message)
    }

    /// Notes a problem at a place known better than by its path: a key, for example.
    pub(crate) fn at_place(&mut self, place: Place, path: &Path, message: impl Into<String>) -> &mut Problem {
        if self.is_full() {
            return self.count();
        }
        let problem = self.document.problem(place, path, message);
        self.push(place, problem)
    }

    /// Notes that the value at `path` is not among those `allowed`.
    pub(crate) fn out_of_range(&mut self, path: &Path, value: impl fmt::Display, allowed: impl Into<String>) {
        self.at(path, format!("{value} is out of range")).allowed = Some(allowed.into());
    }

    /// Notes a problem inside another file, named at `path`.
    pub(crate) fn inside(&mut self, path: &Path, problem: Problem) {
        if self.is_full() {
            self.count();
        } else {
            self.push(self.document.place(path), problem);
        }
    }

    /// The name that was probably meant, unless nobody will be told.
    pub(crate) fn nearest<'a>(&self, found: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
        if self.is_full() { None } else { nearest(found, names) }
    }

    const fn count(&mut self) -> &mut Problem {
        self.more += 1;
        &mut self.spare
    }

    fn push(&mut self, place: Place, problem: Problem) -> &mut Problem {
        self.found.push((place, problem));
        &mut self.found.last_mut().expect("just pushed").1
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// In the order of the file, overrides last, each problem once.
    pub(crate) fn into_report(mut self) -> Report {
        self.found.sort_by_key(|&(place, _)| place);
        let mut problems: Vec<Problem> = Vec::with_capacity(self.found.len());
        for (_, problem) in self.found {
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        Report { problems, more: self.more }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_characters_from_one() {
        assert_eq!(position("a\nµb = 1", 4), (2, 2));
        assert_eq!(position("", 0), (1, 1));
        assert_eq!(position("a\n", 99), (2, 1));
    }

    #[test]
    fn every_value_knows_where_it_stands() {
        let text = "seed = 1\n[a.b]\nc = { d = [1, \"x\"] }\n[[t]]\nx = 1\n[[t]]\nx = 2\n";
        let document = Document::parse(text, "f", &[]).unwrap();
        let at = |path: &Path| document.origin(document.place(path)).to_string();
        assert_eq!(at(&Path::of(&["seed"])), "f:1:8");
        assert_eq!(at(&Path::of(&["a", "b", "c", "d"]).index(1)), "f:3:15");
        assert_eq!(at(&Path::of(&["a", "b", "none"])), "f:2:4");
        assert_eq!(at(&Path::of(&["t"]).index(1).key("x")), "f:7:5");
    }

    #[test]
    fn text_that_is_no_toml_is_refused_where_it_breaks() {
        let problem = Document::parse("a = 1\nb = = 2\n", "f.toml", &[]).unwrap_err().to_string();
        assert!(problem.starts_with("f.toml:2:5: invalid TOML: "), "{problem}");
    }
}
