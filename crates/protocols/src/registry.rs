//! What every part says about itself, and the macro that makes one line register one part.

use alloc::string::String;

/// Where on the path of a response a part acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Admission at a switch.
    Buffer,
    /// Marking at a switch port.
    Marker,
    /// The order of sending at a switch port.
    Scheduler,
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
            Self::Scheduler => "scheduler",
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
    /// [Telemetry](crate::switch::telemetry) put into packets by the switches.
    Telemetry,
    /// Windows that a receiver sets: a sender may have no other.
    ReceiverWindows,
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

    /// A column of its own in the result table of its place (`windows` for a sender), if it has one.
    #[must_use]
    fn column(_config: &Self::Config) -> Option<PartColumn> {
        None
    }

    /// Checks parameters against each other. The range of each alone stands in the schema and has been checked before.
    ///
    /// # Errors
    /// The first two that cannot be together.
    fn check(_config: &Self::Config) -> Result<(), Conflict> {
        Ok(())
    }
}

/// A column that a part adds to a result table; its values are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartColumn {
    /// Its name, with the unit as in all tables: `target_s`.
    pub name: &'static str,
    /// What it holds: a sentence for the dictionary of tables.
    pub doc: &'static str,
}

/// Parameters of a part that cannot be together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The key to change; of a part inside another, such as `inner.max`, with dots.
    pub key: String,
    /// What is wrong, with the other key and both values.
    pub message: String,
}

impl Conflict {
    /// A conflict to blame `key` for.
    #[must_use]
    pub fn at(key: &str, message: String) -> Self {
        Self { key: String::from(key), message }
    }

    /// The same, where the part stands at `key` of another part.
    #[must_use]
    pub fn inside(self, key: &str) -> Self {
        Self { key: alloc::format!("{key}.{}", self.key), ..self }
    }
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

/// Registers the parts of one place: the variant that is called without a vtable, and the parameters a scenario may
/// give. A part's module is declared beside the macro, where rustfmt and other tools see it; its constructor is
/// `new(&Config, &Context) -> Self`.
macro_rules! registry {
    (
        $place:ident: $Trait:ident, built from $Context:ty;
        $(#[$any_doc:meta])* any $Any:ident;
        $(#[$choice_doc:meta])* choice $Choice:ident;
        $($name:literal = $module:ident :: $Type:ident),+ $(,)?
    ) => {
        $(#[$any_doc])*
        #[derive(Clone, Debug)]
        #[enum_dispatch::enum_dispatch($Trait)]
        #[expect(missing_docs, reason = "a variant is the part it holds")]
        #[allow(clippy::large_enum_variant, reason = "parts are called per packet: a pointer costs more than space")]
        pub enum $Any {
            $($Type($module::$Type),)+
            /// A part from outside the tree, called through a vtable.
            Custom(alloc::boxed::Box<dyn $Trait + Send + Sync>),
        }

        dyn_clone::clone_trait_object!($Trait);

        $(#[$choice_doc])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(tag = "name")]
        #[expect(missing_docs, reason = "a variant holds the parameters of the part it names")]
        pub enum $Choice {
            $(#[serde(rename = $name)] $Type($module::Config),)+
            /// A part from outside the tree; no text names it unless it is registered.
            #[serde(skip)]
            Custom(crate::Custom<$Context, dyn $Trait + Send + Sync>),
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
                    Self::Custom(custom) => custom.info(),
                }
            }

            /// The chosen part's own column in the result table of its place, if it has one.
            #[must_use]
            pub fn column(&self) -> Option<crate::PartColumn> {
                match self {
                    $(Self::$Type(config) => <$module::$Type as crate::Part>::column(config),)+
                    Self::Custom(custom) => custom.column(),
                }
            }

            /// A part from outside the tree that `build` makes for each context anew.
            pub fn custom(
                name: &'static str,
                build: impl Fn(&$Context) -> alloc::boxed::Box<dyn $Trait + Send + Sync> + Send + Sync + 'static,
            ) -> Self {
                Self::Custom(crate::Custom::new(crate::PartInfo::bare(crate::Place::$place, name), build))
            }

            /// Checks the parameters against each other.
            ///
            /// # Errors
            /// The first two that cannot be together.
            pub fn check(&self) -> Result<(), crate::Conflict> {
                match self {
                    $(Self::$Type(config) => <$module::$Type as crate::Part>::check(config),)+
                    // Its parameters were checked when it was made.
                    Self::Custom(_) => Ok(()),
                }
            }

            /// The chosen part with its parameters.
            #[must_use]
            pub fn build(&self, context: &$Context) -> $Any {
                match self {
                    $(Self::$Type(config) => $Any::$Type($module::$Type::new(config, context)),)+
                    Self::Custom(custom) => $Any::Custom(custom.build(context)),
                }
            }
        }
    };
}
pub(crate) use registry;
