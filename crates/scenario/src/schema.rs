//! The JSON Schema of scenarios, generated from the types that read them.

use std::sync::{Arc, Mutex, PoisonError};

use incast_protocols::application::ApplicationChoice;
use incast_protocols::echo::EchoChoice;
use incast_protocols::receiver::ReceiverChoice;
use incast_protocols::sender::SenderChoice;
use incast_protocols::switch::buffer::BufferChoice;
use incast_protocols::switch::marker::MarkerChoice;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use crate::custom;
use crate::shape::Shapes;
use crate::top_level::Spec;

/// The schema as JSON: pretty, keys sorted, ending in a newline.
#[must_use]
pub fn json() -> String {
    format!("{:#}\n", current())
}

/// The schema with the parts that are registered now.
fn current() -> Value {
    let mut schema = own();
    custom::describe(&mut schema);
    schema
}

/// The schema of the tree's own parts.
pub(crate) fn own() -> Value {
    // Draft 7 is what editors' TOML support understands best.
    let schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<Spec>();
    let mut schema = tidied(schema.to_value());
    summarize_parts(&mut schema);
    spell_out_buffers(&mut schema);
    schema
}

/// What scenarios are checked against. It is kept until another part is registered: to make it takes milliseconds, and the
/// schema itself a megabyte.
pub(crate) fn shapes() -> Arc<Shapes> {
    static KEPT: Mutex<Option<(usize, Arc<Shapes>)>> = Mutex::new(None);
    let parts = custom::count();
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    match &*kept {
        Some((of, shapes)) if *of == parts => Arc::clone(shapes),
        _ => {
            let shapes = Arc::new(Shapes::of(&current()));
            *kept = Some((parts, Arc::clone(&shapes)));
            shapes
        }
    }
}

/// Sorts keys (their order would otherwise depend on how `serde_json` is built), joins the lines of
/// descriptions, and drops `null`, which TOML does not have.
fn tidied(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut entries: Vec<(String, Value)> = object.into_iter().collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            let mut tidy = Map::new();
            for (key, value) in entries {
                if value.is_null() {
                    continue;
                }
                let value = match (key.as_str(), value) {
                    ("description", Value::String(text)) => Value::String(joined(&text)),
                    ("type", Value::Array(types)) => without_null_type(types),
                    (_, value) => tidied(value),
                };
                tidy.insert(key, value);
            }
            without_null_alternative(tidy)
        }
        Value::Array(items) => Value::Array(items.into_iter().map(tidied).collect()),
        other => other,
    }
}

fn joined(text: &str) -> String {
    text.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect::<Vec<_>>().join("\n\n")
}

fn without_null_type(mut types: Vec<Value>) -> Value {
    types.retain(|one| one != "null");
    if types.len() == 1 { types.remove(0) } else { Value::Array(types) }
}

fn without_null_alternative(mut object: Map<String, Value>) -> Value {
    if let Some(Value::Array(alternatives)) = object.get_mut("anyOf") {
        alternatives.retain(|one| one.get("type").is_none_or(|kind| kind != "null"));
        if alternatives.len() == 1 {
            let only = alternatives.remove(0);
            object.remove("anyOf");
            let siblings = !object.is_empty();
            return match only {
                // Draft 7 ignores what stands beside a reference.
                only if siblings => {
                    object.insert("allOf".into(), Value::Array(vec![only]));
                    tidied(Value::Object(object))
                }
                only => only,
            };
        }
    }
    Value::Object(object)
}

/// What a part says of itself tells more than a comment on its parameters.
fn summarize_parts(schema: &mut Value) {
    let parts = [
        ("BufferChoice", BufferChoice::ALL),
        ("MarkerChoice", MarkerChoice::ALL),
        ("SenderChoice", SenderChoice::ALL),
        ("EchoChoice", EchoChoice::ALL),
        ("ReceiverChoice", ReceiverChoice::ALL),
        ("ApplicationChoice", ApplicationChoice::ALL),
    ];
    for (choice, parts) in parts {
        let variants = schema.pointer_mut(&format!("/definitions/{choice}/oneOf")).and_then(Value::as_array_mut);
        for variant in variants.into_iter().flatten() {
            let part = parts.iter().find(|part| variant["properties"]["name"]["const"] == part.name);
            if let Some(part) = part {
                variant["description"] = Value::from(part.summary);
            }
        }
    }
}

/// Published set-ups differ in what a buffer's limit counts, so a scenario must say it.
fn spell_out_buffers(schema: &mut Value) {
    let variants = schema.pointer_mut("/definitions/BufferChoice/oneOf").and_then(Value::as_array_mut);
    for variant in variants.into_iter().flatten() {
        let explicit: Vec<Value> = ["count_in_service", "limit", "size"]
            .into_iter()
            .filter(|&key| variant.pointer(&format!("/properties/{key}")).is_some())
            .map(Value::from)
            .collect();
        for key in &explicit {
            let property = variant.pointer_mut(&format!("/properties/{}", key.as_str().unwrap_or_default()));
            if let Some(property) = property.and_then(Value::as_object_mut) {
                property.remove("default");
            }
        }
        if let Some(required) = variant.get_mut("required").and_then(Value::as_array_mut) {
            required.extend(explicit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_that_is_checked_in_is_the_schema_of_the_types() {
        let checked_in = include_str!("../../../schema/scenario.schema.json");
        assert!(
            json() == checked_in,
            "renew it: cargo run -p incast-scenario --example schema > schema/scenario.schema.json"
        );
    }

    #[test]
    fn the_schema_knows_no_null_and_tells_what_limits_count() {
        let text = json();
        assert!(!text.contains("null"), "TOML has no null");
        let schema = own();
        let buffer = schema.pointer("/definitions/BufferChoice/oneOf/0/required").unwrap();
        assert_eq!(*buffer, serde_json::json!(["name", "count_in_service", "limit"]));
    }
}
