//! What every part says about itself, and the macro that makes one line register one part.

use crate::units::Bytes;

/// Where on the path of a response a part acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Admission at a switch.
    Buffer,
    /// Marking at a switch port.
    Marker,
    /// The congestion window.
    Sender,
    /// What ACKs echo.
    Echo,
    /// The advertised windows of a NIC.
    Receiver,
    /// Requests outstanding at an aggregator.
    Application,
}

impl Place {
    /// The key under which a stack names a part of this place.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Buffer => "buffer",
            Self::Marker => "marker",
            Self::Sender => "sender",
            Self::Echo => "echo",
            Self::Receiver => "receiver",
            Self::Application => "application",
        }
    }
}

/// Something one part offers and another may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Congestion marks (CE) set by the switches.
    CongestionMarks,
    /// Incast marks (EIN) set by the switches.
    IncastMarks,
    /// Congestion marks echoed to the sender: each is told by one ACK at least, until the sender has
    /// answered (RFC 3168).
    CongestionEcho,
    /// Congestion marks echoed to the sender one for one (RFC 8257).
    ExactCongestionEcho,
    /// Incast marks echoed to the sender.
    IncastEcho,
    /// The windows of this very receiver: the sender obeys nothing else.
    WindowsOf(&'static str),
    /// A sender that obeys this very receiver.
    ObedienceTo(&'static str),
    /// Windows meant for a round trip of [`REFERENCE_RTT`](crate::receiver::REFERENCE_RTT).
    ReferenceRttWindows,
    /// A sender that scales such windows to its own round-trip time.
    ReferenceRttScaling,
}

/// One thing a part cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Where it must be found.
    pub place: Place,
    /// What must be found there.
    pub capability: Capability,
    /// The sentence that refuses a stack without it, telling what to do.
    pub because: &'static str,
}

/// What a part says about itself.
pub trait Part {
    /// Its parameters; the paper's values are the default.
    type Config;
    /// One line for people who choose.
    const SUMMARY: &'static str;
    /// Paper and section, or RFC and clause.
    const SOURCE: &'static str;
    /// What it cannot do without, at other places.
    const REQUIRES: &'static [Requirement] = &[];
    /// What it offers to parts at other places.
    const PROVIDES: &'static [Capability] = &[];
    /// Where it departs from its source, or chooses where sources differ: whole sentences.
    const DEVIATIONS: &'static [&'static str] = &[];
}

/// A registered part as data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PartInfo {
    /// Where it acts.
    pub place: Place,
    /// The name in a scenario, given by the registry.
    pub name: &'static str,
    /// See [`Part::SUMMARY`].
    pub summary: &'static str,
    /// See [`Part::SOURCE`].
    pub source: &'static str,
    /// See [`Part::REQUIRES`].
    pub requires: &'static [Requirement],
    /// See [`Part::PROVIDES`].
    pub provides: &'static [Capability],
    /// See [`Part::DEVIATIONS`].
    pub deviations: &'static [&'static str],
}

impl PartInfo {
    /// The description of `P`, registered as `name` at `place`.
    #[must_use]
    pub const fn of<P: Part>(place: Place, name: &'static str) -> Self {
        Self {
            place,
            name,
            summary: P::SUMMARY,
            source: P::SOURCE,
            requires: P::REQUIRES,
            provides: P::PROVIDES,
            deviations: P::DEVIATIONS,
        }
    }
}

/// Lets a limit or threshold be given in packets or in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A number of packets of any size.
    Packets(u32),
    /// Bytes on the wire.
    Bytes(Bytes),
}

/// Registers the parts of one place: the module, the variant that is called without a vtable, and the
/// parameters a scenario may give. A part's constructor is `new(&Config, &Context) -> Self`.
macro_rules! registry {
    (
        $place:ident: $Trait:ident, built from $Context:ty;
        $(#[$any_doc:meta])* any $Any:ident;
        $(#[$choice_doc:meta])* choice $Choice:ident;
        $($name:literal = $module:ident :: $Type:ident),+ $(,)?
    ) => {
        $(pub mod $module;)+

        $(#[$any_doc])*
        #[derive(Clone, Debug)]
        #[enum_dispatch::enum_dispatch($Trait)]
        #[expect(missing_docs, reason = "a variant is the part it holds")]
        #[allow(clippy::large_enum_variant, reason = "parts are called per packet: a pointer costs more than space")]
        pub enum $Any { $($Type($module::$Type)),+ }

        $(#[$choice_doc])*
        #[derive(Clone, Debug, PartialEq)]
        #[cfg_attr(
            feature = "schema",
            derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
            serde(tag = "name")
        )]
        #[expect(missing_docs, reason = "a variant holds the parameters of the part it names")]
        pub enum $Choice {
            $(#[cfg_attr(feature = "schema", serde(rename = $name))] $Type($module::Config)),+
        }

        impl $Choice {
            /// All parts of this place.
            pub const ALL: &'static [crate::PartInfo] =
                &[$(crate::PartInfo::of::<$module::$Type>(crate::Place::$place, $name)),+];

            /// All parts of this place with their default parameters, in the order of [`Self::ALL`].
            #[must_use]
            pub fn defaults() -> alloc::vec::Vec<Self> {
                alloc::vec![$(Self::$Type($module::Config::default())),+]
            }

            /// What the chosen part says about itself.
            #[must_use]
            pub const fn info(&self) -> crate::PartInfo {
                match self {
                    $(Self::$Type(_) => crate::PartInfo::of::<$module::$Type>(crate::Place::$place, $name),)+
                }
            }

            /// The chosen part with its parameters.
            #[must_use]
            pub fn build(&self, context: &$Context) -> $Any {
                match self { $(Self::$Type(config) => $Any::$Type($module::$Type::new(config, context)),)+ }
            }
        }
    };
}
pub(crate) use registry;

#[cfg(feature = "schema")]
mod schema {
    //! An amount in a scenario: `"20packets"` or `"64KiB"`.

    use alloc::borrow::Cow;
    use alloc::format;
    use alloc::string::String;

    use super::Amount;
    use crate::units::Bytes;

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
                    .map_err(|_| serde::de::Error::custom(format!("\"{text}\" is no whole number of packets")));
            }
            crate::units::schema::parse_bytes(text).map(Self::Bytes).map_err(serde::de::Error::custom)
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
                "pattern": String::from(r"^[0-9]+(\.[0-9]+)? ?(packets?|B|KB|MB|GB|KiB|MiB|GiB)$"),
            })
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use schemars::{JsonSchema, SchemaGenerator};

        /// The name under which the schema of scenario files has it, and what an editor goes by.
        #[test]
        fn the_schema_has_an_amount_as_text_with_a_unit() {
            let mut generator = SchemaGenerator::default();
            let text = |schema: &schemars::Schema, key: &str| {
                schema.get(key).and_then(|value| value.as_str().map(String::from))
            };
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
}
