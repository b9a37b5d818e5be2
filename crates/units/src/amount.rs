//! A limit or threshold in packets or in bytes: `"20packets"` or `"64KiB"` in a scenario.

use alloc::borrow::Cow;
use alloc::format;

use crate::{Bytes, text};

/// A limit or threshold in packets or in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A number of packets of any size.
    Packets(u32),
    /// Bytes on the wire.
    Bytes(Bytes),
}

impl serde::Serialize for Amount {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Packets(packets) => serializer.collect_str(&format_args!("{packets}packets")),
            Self::Bytes(Bytes(bytes)) => serializer.collect_str(&format_args!("{bytes}B")),
        }
    }
}

impl<'de> serde::Deserialize<'de> for Amount {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <Cow<'de, str>>::deserialize(deserializer)?;
        let text = text.trim();
        if let Some(number) = text.strip_suffix("packets").or_else(|| text.strip_suffix("packet")) {
            return number
                .trim()
                .parse()
                .map(Self::Packets)
                .map_err(|_| serde::de::Error::custom(format!("\"{text}\" is not a whole number of packets")));
        }
        text::parse_bytes(text).map(Self::Bytes).map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for Amount {
    fn schema_name() -> Cow<'static, str> {
        "Amount".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "Packets of any size or bytes on the wire: \"20packets\", \"64KiB\" (1024), \"128KB\" (1000).",
            "pattern": r"^[0-9]+(\.[0-9]+)? ?(packets?|B|kB|KB|MB|GB|KiB|MiB|GiB)$",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemars::{JsonSchema, SchemaGenerator};
    use std::string::String;

    /// The name under which the schema of scenario files has it, and what an editor goes by.
    #[test]
    fn the_schema_has_an_amount_as_text_with_a_unit() {
        let mut generator = SchemaGenerator::default();
        let text =
            |schema: &schemars::Schema, key: &str| schema.get(key).and_then(|value| value.as_str().map(String::from));
        let reference = generator.subschema_for::<Amount>();
        assert_eq!(text(&reference, "$ref").as_deref(), Some("#/$defs/Amount"));
        let schema = Amount::json_schema(&mut generator);
        assert_eq!(text(&schema, "type").as_deref(), Some("string"));
        let pattern = text(&schema, "pattern").expect("it says how it is written");
        for unit in ["packets?", "B", "KB", "MB", "GB", "KiB", "MiB", "GiB"] {
            assert!(pattern.contains(&format!("{unit}|")) || pattern.contains(&format!("{unit})")), "{pattern}");
        }
    }
}
