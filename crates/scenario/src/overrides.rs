//! Keys set from outside the file: `--set traffic.burst.senders=40`.

use crate::node::{Entry, Node, Path, Place, Step, Value, read_value};
use crate::report::{Origin, Problem, Report};

/// One key to set, whether or not the file has it.
#[derive(Clone, Debug)]
pub struct Override {
    key: String,
    steps: Vec<String>,
    value: Node,
}

impl Override {
    /// Reads `key=value`: the key is dotted as in TOML (a number picks an item of a list), the value is
    /// TOML. What is not a TOML value (`10Gbps`, `dctcp`) is taken as a string.
    ///
    /// # Errors
    /// No `=`, or an invalid TOML key.
    pub fn parse(text: &str) -> Result<Self, Report> {
        let refuse = |key: &str, message: String| Problem {
            origin: Origin::Override { key: key.to_owned() },
            key: key.to_owned(),
            message,
            nearest: None,
            allowed: None,
        };
        let Some((key, value)) = text.split_once('=') else {
            return Err(refuse(text.trim(), "no value: write key=value".into()).into());
        };
        let (key, value) = (key.trim(), value.trim());
        let steps = match toml_edit::Key::parse(key) {
            Ok(steps) => steps.iter().map(|step| step.get().to_owned()).collect(),
            Err(error) => return Err(refuse(key, format!("invalid key: {}", error.message().trim())).into()),
        };
        let value = value.parse::<toml_edit::Value>().map_or_else(
            |_| Node { value: Value::String(value.to_owned()), place: Place::File(0) },
            |value| read_value(&value),
        );
        Ok(Self { key: key.to_owned(), steps, value })
    }

    /// The key as written.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    pub(crate) fn path(&self) -> Path {
        Path(self.steps.iter().cloned().map(Step::Key).collect())
    }

    /// Sets the key in `root`; `index` is this override's number.
    pub(crate) fn apply(&self, root: &mut Node, index: usize) -> Result<(), String> {
        let place = Place::Override(index);
        let mut node = root;
        for step in &self.steps {
            if let Value::String(name) = &node.value {
                // `sender = "dctcp"` is short for `sender = { name = "dctcp" }`.
                let name = Node { value: Value::String(name.clone()), place: node.place };
                let entry = Entry { key: "name".into(), place: node.place, node: name };
                *node = Node { value: Value::Table(vec![entry]), place };
            }
            node = match &mut node.value {
                Value::Table(entries) => {
                    let found = entries.iter().position(|entry| entry.key == *step).unwrap_or_else(|| {
                        let node = Node { value: Value::Table(Vec::new()), place };
                        entries.push(Entry { key: step.clone(), place, node });
                        entries.len() - 1
                    });
                    &mut entries[found].node
                }
                Value::Array(items) => {
                    let count = items.len();
                    let item = step.parse().ok().and_then(|number: usize| items.get_mut(number));
                    item.ok_or_else(|| format!("the list has no item \"{step}\": it has {count}, numbered from 0"))?
                }
                other => return Err(format!("{} has no key \"{step}\"", other.describe())),
            };
        }
        *node = self.value.clone();
        node.move_to(place);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;

    fn after(text: &str, overrides: &[&str]) -> Result<Document, Report> {
        let overrides: Vec<Override> = overrides.iter().map(|one| Override::parse(one).unwrap()).collect();
        Document::parse(text, "f", &overrides)
    }

    #[test]
    fn an_override_replaces_adds_and_reaches_into_lists() {
        let text = "a = 1\nlinks = [{ rate = \"1Gbps\" }]\n";
        let document = after(text, &["a=2", "b.c=true", "links.0.rate=10Gbps"]).unwrap();
        assert!(matches!(document.find(&Path::of(&["a"])).unwrap().value, Value::Integer(2)));
        assert!(matches!(document.find(&Path::of(&["b", "c"])).unwrap().value, Value::Boolean(true)));
        let rate = document.find(&Path::of(&["links"]).index(0).key("rate")).unwrap();
        assert!(matches!(&rate.value, Value::String(text) if text == "10Gbps"));
        assert_eq!(rate.place, Place::Override(2));
    }

    #[test]
    fn a_part_named_by_a_string_can_be_given_parameters() {
        let document = after("[stack]\nsender = \"dctcp\"", &["stack.sender.initial_alpha=0"]).unwrap();
        let sender = document.find(&Path::of(&["stack", "sender"])).unwrap();
        assert!(matches!(&sender.get("name").unwrap().node.value, Value::String(name) if name == "dctcp"));
        assert!(sender.get("initial_alpha").is_some());
    }

    #[test]
    fn what_cannot_be_set_is_refused_by_its_key() {
        assert_eq!(Override::parse("senders").unwrap_err().to_string(), "--set senders: no value: write key=value");
        let message = Override::parse("a b=1").unwrap_err().to_string();
        assert!(message.starts_with("--set a b: invalid key: "), "{message}");
        let message = after("a = 1", &["a.b=1"]).unwrap_err().to_string();
        assert_eq!(message, "--set a.b: the number 1 has no key \"b\"");
        let message = after("a = [1]", &["a.1=1"]).unwrap_err().to_string();
        assert_eq!(message, "--set a.1: the list has no item \"1\": it has 1, numbered from 0");
    }
}
