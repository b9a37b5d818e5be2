//! What scenarios are checked against: their JSON Schema without what it says to people, in a fifth of its memory.
//!
//! Knows the part of JSON Schema that our types produce.

use std::slice;

use serde_json::Value as Json;

/// The shapes of a whole document.
#[derive(Debug)]
pub(crate) struct Shapes {
    pub(crate) root: Shape,
    defined: Box<[(Box<str>, Shape)]>,
}

/// What a value may be.
#[derive(Debug)]
pub(crate) enum Shape {
    /// What is defined under this number.
    Defined(usize),
    /// Any of these.
    AnyOf(Box<[Shape]>),
    /// This name and no other.
    Constant(Box<str>),
    /// One of these names; any text if there are none.
    Text(Box<[Box<str>]>),
    Number(Range),
    Boolean,
    List(List),
    Table(Box<Table>),
    /// Nothing that a scenario can say.
    Other,
}

/// A number within bounds.
#[derive(Debug)]
pub(crate) struct Range {
    pub(crate) whole: bool,
    pub(crate) least: Option<f64>,
    pub(crate) most: Option<f64>,
}

/// A list that is neither too short nor too long.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) least: u64,
    pub(crate) most: u64,
    items: Items,
}

#[derive(Debug)]
enum Items {
    Alike(Box<Shape>),
    /// Each has a shape of its own.
    Each(Box<[Shape]>),
}

/// A table of known keys, or of keys that a scenario chooses.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) keys: Box<[(Box<str>, Shape)]>,
    /// What any other key may be; without it there is no other.
    pub(crate) others: Option<Shape>,
    pub(crate) required: Box<[Box<str>]>,
    pub(crate) may_be_empty: bool,
}

impl Shapes {
    pub(crate) fn of(schema: &Json) -> Self {
        let defined = schema["definitions"].as_object();
        let names: Vec<&str> = defined.into_iter().flat_map(|defined| defined.keys().map(String::as_str)).collect();
        Self { root: Shape::of(schema, &names), defined: named(&schema["definitions"], &names) }
    }

    /// The name and the shape of a definition.
    pub(crate) fn defined(&self, number: usize) -> (&str, &Shape) {
        let (name, shape) = &self.defined[number];
        (name, shape)
    }
}

impl Shape {
    /// That of a schema, which may refer to these definitions.
    fn of(schema: &Json, definitions: &[&str]) -> Self {
        if let Some(target) = schema["$ref"].as_str() {
            let defined = definitions.iter().position(|name| target.strip_prefix("#/definitions/") == Some(name));
            return defined.map_or(Self::Other, Self::Defined);
        }
        if let Some(all) = ["oneOf", "anyOf", "allOf"].iter().find_map(|union| schema[union].as_array()) {
            return Self::AnyOf(all.iter().map(|one| Self::of(one, definitions)).collect());
        }
        match schema["type"].as_str() {
            Some("string") => match schema["const"].as_str() {
                Some(name) => Self::Constant(name.into()),
                None => Self::Text(texts(&schema["enum"]).collect()),
            },
            Some(number @ ("integer" | "number")) => {
                let format = (schema["format"] == "uint32").then_some(f64::from(u32::MAX));
                Self::Number(Range {
                    whole: number == "integer",
                    least: schema["minimum"].as_f64(),
                    most: schema["maximum"].as_f64().or(format),
                })
            }
            Some("boolean") => Self::Boolean,
            Some("array") => Self::List(List {
                least: schema["minItems"].as_u64().unwrap_or(0),
                most: schema["maxItems"].as_u64().unwrap_or(u64::MAX),
                items: match &schema["items"] {
                    Json::Array(each) => Items::Each(each.iter().map(|one| Self::of(one, definitions)).collect()),
                    every => Items::Alike(Box::new(Self::of(every, definitions))),
                },
            }),
            Some("object") => {
                let others = &schema["additionalProperties"];
                Self::Table(Box::new(Table {
                    keys: named(&schema["properties"], definitions),
                    others: others.is_object().then(|| Self::of(others, definitions)),
                    required: texts(&schema["required"]).collect(),
                    may_be_empty: schema["minProperties"].as_u64().unwrap_or(0) == 0,
                }))
            }
            _ => Self::Other,
        }
    }

    /// The names that a text may be, all if there are none; nothing for what is no text.
    pub(crate) fn names(&self) -> Option<&[Box<str>]> {
        match self {
            Self::Constant(name) => Some(slice::from_ref(name)),
            Self::Text(names) => Some(names),
            _ => None,
        }
    }
}

impl List {
    /// That of one of its items, if such an item is known.
    pub(crate) fn item(&self, index: usize) -> Option<&Shape> {
        match &self.items {
            Items::Alike(every) => Some(every),
            Items::Each(each) => each.get(index),
        }
    }
}

impl Table {
    /// That of a known key.
    pub(crate) fn key(&self, key: &str) -> Option<&Shape> {
        self.keys.iter().find(|(known, _)| **known == *key).map(|(_, shape)| shape)
    }
}

fn named(schemas: &Json, definitions: &[&str]) -> Box<[(Box<str>, Shape)]> {
    let schemas = schemas.as_object().into_iter().flatten();
    schemas.map(|(name, schema)| (name.as_str().into(), Shape::of(schema, definitions))).collect()
}

fn texts(list: &Json) -> impl Iterator<Item = Box<str>> {
    list.as_array().into_iter().flatten().filter_map(Json::as_str).map(Box::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is none would be refused whatever it says.
    #[test]
    fn every_schema_of_ours_has_a_shape() {
        fn check(name: &str, shape: &Shape) {
            match shape {
                Shape::Other => panic!("{name}"),
                Shape::AnyOf(all) => all.iter().for_each(|one| check(name, one)),
                Shape::List(list) => match &list.items {
                    Items::Alike(every) => check(name, every),
                    Items::Each(each) => each.iter().for_each(|one| check(name, one)),
                },
                Shape::Table(table) => {
                    table.keys.iter().for_each(|(key, shape)| check(key, shape));
                    table.others.iter().for_each(|shape| check(name, shape));
                }
                Shape::Defined(_) | Shape::Constant(_) | Shape::Text(_) | Shape::Number(_) | Shape::Boolean => {}
            }
        }
        let shapes = Shapes::of(&crate::schema::own());
        check("", &shapes.root);
        assert!(shapes.defined.len() > 50);
        shapes.defined.iter().for_each(|(name, shape)| check(name, shape));
    }
}
