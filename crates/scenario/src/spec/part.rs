//! A part as a scenario names it: its name alone, or a table with its parameters.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use incast_protocols::PartInfo;
use incast_protocols::application::ApplicationChoice;
use incast_protocols::echo::EchoChoice;
use incast_protocols::receiver::ReceiverChoice;
use incast_protocols::sender::SenderChoice;
use incast_protocols::switch::marker::MarkerChoice;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, MapDeserializer};
use serde::de::{self, MapAccess, Visitor};

/// A choice of the registry whose parts all have defaults.
pub(crate) trait Choice {
    /// The parts to choose from.
    const ALL: &'static [PartInfo];
}

macro_rules! choices {
    ($($Choice:ident),+) => {$(
        impl Choice for $Choice {
            const ALL: &'static [PartInfo] = $Choice::ALL;
        }
    )+};
}
choices!(MarkerChoice, SenderChoice, EchoChoice, ReceiverChoice, ApplicationChoice);

/// `"dctcp"` or `{ name = "dctcp", initial_alpha = 0 }`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Named<C>(pub(crate) C);

impl<C: for<'de> Deserialize<'de>> Named<C> {
    /// The part of this name with its default parameters, if there is one.
    pub(crate) fn by_name(name: &str) -> Option<C> {
        named::<C, de::value::Error>(name).ok()
    }
}

fn named<C: for<'a> Deserialize<'a>, E: de::Error>(name: &str) -> Result<C, E> {
    C::deserialize(MapDeserializer::new([("name", name)].into_iter()))
}

impl<'de, C: for<'a> Deserialize<'a>> Deserialize<'de> for Named<C> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrTable<C>(PhantomData<C>);
        impl<'de, C: for<'a> Deserialize<'a>> Visitor<'de> for NameOrTable<C> {
            type Value = C;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name, or a table with a name")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<C, E> {
                named(name)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<C, A::Error> {
                C::deserialize(MapAccessDeserializer::new(map))
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
