//! Parts from outside the tree, chosen by name like any other.
//!
//! A program registers its parts before it reads scenarios. From then on scenario files, their schema and
//! the catalog know them: parameters are checked at their place in the file, and what a part requires at other places is
//! checked too. Buffers cannot be registered, since a scenario has to say what their limit counts; put one into the
//! [`Plan`](incast_plan::Plan) instead.

use std::sync::RwLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use incast_protocols::application::{Application, ApplicationChoice, ApplicationContext};
use incast_protocols::echo::{Echo, EchoChoice, EchoContext};
use incast_protocols::receiver::{NicContext, Receiver, ReceiverChoice};
use incast_protocols::sender::{Sender, SenderChoice, SenderContext};
use incast_protocols::switch::marker::{Marker, MarkerChoice, MarkerContext};
use incast_protocols::switch::scheduler::{Scheduler, SchedulerChoice, SchedulerContext};
use incast_protocols::{Custom, CustomPart, Part, PartInfo, Place};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// How a registered part is described and chosen.
pub(crate) struct Registered<C> {
    pub(crate) info: PartInfo,
    /// The JSON Schema of its parameters, without references.
    parameters: Value,
    /// The choice with these parameters.
    pub(crate) choose: Box<dyn Fn(Value) -> Result<C, String> + Send + Sync>,
}

/// A choice of the registry whose parts all have defaults.
pub(crate) trait Choice: Sized + 'static {
    /// The parts of the tree to choose from.
    const ALL: &'static [PartInfo];

    /// The parts from outside.
    fn registered() -> &'static RwLock<Vec<Registered<Self>>>;
}

/// How many parts were registered so far.
static COUNT: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn count() -> usize {
    COUNT.load(Ordering::Acquire)
}

/// What `read` makes of the registered parts of a place.
pub(crate) fn with<C: Choice, T>(read: impl FnOnce(&[Registered<C>]) -> T) -> T {
    read(&C::registered().read().unwrap_or_else(std::sync::PoisonError::into_inner))
}

fn register<C: Choice, P: JsonParameters>(
    info: PartInfo,
    choose: impl Fn(P::Config) -> C + Send + Sync + 'static,
) -> Result<(), String> {
    let mut registered = C::registered().write().unwrap_or_else(std::sync::PoisonError::into_inner);
    let known = C::ALL.iter().chain(registered.iter().map(|one| &one.info)).any(|known| known.name == info.name);
    if known {
        return Err(format!("there is a {} named \"{}\" already", info.place.key(), info.name));
    }
    let settings = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    let parameters = SchemaGenerator::new(settings).into_root_schema_for::<P::Config>().to_value();
    let choose = move |parameters| {
        let config: P::Config = serde_json::from_value(parameters).map_err(|error| error.to_string())?;
        <P as Part>::check(&config).map_err(|conflict| format!("{}: {}", conflict.key, conflict.message))?;
        Ok(choose(config))
    };
    registered.push(Registered { info, parameters, choose: Box::new(choose) });
    COUNT.fetch_add(1, Ordering::Release);
    Ok(())
}

/// A part whose parameters a scenario can give.
pub trait JsonParameters: Part<Config: DeserializeOwned + JsonSchema + Clone + Send + Sync + 'static> {}

impl<P: Part<Config: DeserializeOwned + JsonSchema + Clone + Send + Sync + 'static>> JsonParameters for P {}

macro_rules! places {
    ($($(#[$doc:meta])* $function:ident: $Choice:ident, $Place:ident, $Trait:ident, $Context:ty;)+) => {$(
        impl Choice for $Choice {
            const ALL: &'static [PartInfo] = $Choice::ALL;

            fn registered() -> &'static RwLock<Vec<Registered<Self>>> {
                static REGISTERED: RwLock<Vec<Registered<$Choice>>> = RwLock::new(Vec::new());
                &REGISTERED
            }
        }

        $(#[$doc])*
        ///
        /// # Errors
        /// The name is taken.
        pub fn $function<P: CustomPart<$Context> + JsonParameters + $Trait + Send + Sync + 'static>(
            name: &'static str,
        ) -> Result<(), String> {
            let info = PartInfo::of::<P>(Place::$Place, name);
            register::<$Choice, P>(info, move |config| {
                let column = <P as Part>::column(&config);
                let build = move |context: &$Context| -> Box<dyn $Trait + Send + Sync> { Box::new(<P as CustomPart<$Context>>::build(&config, context)) };
                $Choice::Custom(Custom::new(info, build).with_column(column))
            })
        }
    )+};
}
places! {
    /// Registers a sender of one's own.
    register_sender: SenderChoice, Sender, Sender, SenderContext;
    /// Registers an echo of one's own.
    register_echo: EchoChoice, Echo, Echo, EchoContext;
    /// Registers a receiver of one's own.
    register_receiver: ReceiverChoice, Receiver, Receiver, NicContext;
    /// Registers an application of one's own.
    register_application: ApplicationChoice, Application, Application, ApplicationContext;
    /// Registers a marker of one's own.
    register_marker: MarkerChoice, Marker, Marker, MarkerContext;
    /// Registers a scheduler of one's own.
    register_scheduler: SchedulerChoice, Scheduler, Scheduler, SchedulerContext;
}

/// All registered parts, by place.
#[must_use]
pub fn registered() -> Vec<PartInfo> {
    fn of<C: Choice>() -> Vec<PartInfo> {
        with::<C, _>(|parts| parts.iter().map(|part| part.info).collect())
    }
    [of::<MarkerChoice>(), of::<SenderChoice>(), of::<EchoChoice>(), of::<ReceiverChoice>(), of::<ApplicationChoice>()]
        .concat()
}

/// Adds the registered parts to the schema of scenarios.
pub(crate) fn describe(schema: &mut Value) {
    fn of<C: Choice>(schema: &mut Value, definition: &str) {
        with::<C, _>(|parts| {
            for part in parts {
                let info = part.info;
                let name = json!({ "type": "string", "const": info.name, "description": info.summary });
                let mut properties = part.parameters["properties"].as_object().cloned().unwrap_or_else(Map::new);
                properties.insert("name".into(), name.clone());
                let table = json!({
                    "type": "object",
                    "description": info.summary,
                    "properties": properties,
                    "required": ["name"],
                    "additionalProperties": false,
                });
                let mut add = |pointer: String, value: Value| {
                    if let Some(alternatives) = schema.pointer_mut(&pointer).and_then(Value::as_array_mut) {
                        alternatives.push(value);
                    }
                };
                add(format!("/definitions/{definition}ByName/anyOf/0/oneOf"), name);
                add(format!("/definitions/{definition}/oneOf"), table);
            }
        });
    }
    of::<MarkerChoice>(schema, "MarkerChoice");
    of::<SchedulerChoice>(schema, "SchedulerChoice");
    of::<SenderChoice>(schema, "SenderChoice");
    of::<EchoChoice>(schema, "EchoChoice");
    of::<ReceiverChoice>(schema, "ReceiverChoice");
    of::<ApplicationChoice>(schema, "ApplicationChoice");
}
