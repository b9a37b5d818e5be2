//! A part as a scenario names it: its name alone, or a table with its parameters.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use incast_protocols::Conflict;
use incast_protocols::application::ApplicationChoice;
use incast_protocols::echo::EchoChoice;
use incast_protocols::receiver::ReceiverChoice;
use incast_protocols::sender::SenderChoice;
use incast_protocols::switch::buffer::BufferChoice;
use incast_protocols::switch::marker::MarkerChoice;
use incast_protocols::switch::scheduler::SchedulerChoice;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, MapDeserializer};
use serde::de::{self, MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::custom::{self, Choice};
use crate::node::Node;

/// Parameters that cannot be together in `node`, which fits the schema's definition of this name; none where that is not
/// of a part.
pub(crate) fn conflict(definition: &str, node: &Node) -> Option<Conflict> {
    macro_rules! first_of {
        ($($Choice:ident),+) => {
            match definition {
                "BufferChoice" => BufferChoice::deserialize(node).ok()?.check().err(),
                $(stringify!($Choice) => Named::<$Choice>::deserialize(node).ok()?.0.check().err(),)+
                _ => None,
            }
        };
    }
    first_of!(MarkerChoice, SchedulerChoice, SenderChoice, EchoChoice, ReceiverChoice, ApplicationChoice)
}

/// `"dctcp"` or `{ name = "dctcp", initial_alpha = 0 }`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Named<C>(pub(crate) C);

impl<C: Choice + for<'de> Deserialize<'de>> Named<C> {
    /// The part of this name with its default parameters, if there is one.
    pub(crate) fn by_name(name: &str) -> Option<C> {
        named::<C, de::value::Error>(name).ok()
    }
}

/// The registered part of this name with these parameters, if there is one.
fn from_outside<C: Choice, E: de::Error>(name: &str, parameters: &Map<String, Value>) -> Option<Result<C, E>> {
    custom::with::<C, _>(|parts| {
        let part = parts.iter().find(|part| part.info.name == name)?;
        Some((part.choose)(Value::Object(parameters.clone())).map_err(de::Error::custom))
    })
}

fn named<C: Choice + for<'a> Deserialize<'a>, E: de::Error>(name: &str) -> Result<C, E> {
    if let Some(part) = from_outside(name, &Map::new()) {
        return part;
    }
    C::deserialize(MapDeserializer::new([("name", name)].into_iter()))
}

impl<'de, C: Choice + for<'a> Deserialize<'a>> Deserialize<'de> for Named<C> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrTable<C>(PhantomData<C>);
        impl<'de, C: Choice + for<'a> Deserialize<'a>> Visitor<'de> for NameOrTable<C> {
            type Value = C;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name, or a table with a name")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<C, E> {
                named(name)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<C, A::Error> {
                let map = MapAccessDeserializer::new(map);
                if custom::count() == 0 {
                    return C::deserialize(map);
                }
                let mut table = Map::deserialize(map)?;
                let name = table.remove("name");
                if let Some(part) = name.as_ref().and_then(Value::as_str).and_then(|name| from_outside(name, &table)) {
                    return part;
                }
                table.extend(name.map(|name| ("name".to_owned(), name)));
                C::deserialize(Value::Object(table)).map_err(de::Error::custom)
            }
        }
        deserializer.deserialize_any(NameOrTable(PhantomData)).map(Named)
    }
}

impl<C: Choice + JsonSchema> JsonSchema for Named<C> {
    fn schema_name() -> Cow<'static, str> {
        format!("{}ByName", C::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let names: Vec<Schema> = C::ALL
            .iter()
            .map(|part| json_schema!({ "type": "string", "const": part.name, "description": part.summary }))
            .collect();
        json_schema!({ "anyOf": [{ "oneOf": names }, generator.subschema_for::<C>()] })
    }
}
