//! A scenario that was read and checked.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use crate::check;
use crate::document::{Document, Problems};
use crate::expand::Expansion;
use crate::files::{Files, Reader, beside};
use crate::limits;
use crate::network::{Layout, check_time};
use crate::node::Path;
use crate::noise::{self, HostTiming};
use crate::offered::Offered;
use crate::overrides::Override;
use crate::report::{Problem, Report};
use crate::schema;
use crate::top_level::Spec;
use crate::traffic::{Context, Workload};
use incast_plan::{Class, Handshake, Plan, Record};
use incast_protocols::{Bytes, Time};

mod ends;
mod recorded;

use ends::Ends;
use recorded::Recorded;

/// A scenario: read, checked, and ready to be expanded with any seed.
#[derive(Clone, Debug)]
pub struct Scenario {
    name: String,
    seed: u64,
    world: Option<String>,
    document: Arc<Document>,
    layout: Layout,
    timing: HostTiming,
    classes: Vec<Checked>,
    stop_at: Option<Time>,
    recorded: Recorded,
    warnings: Vec<String>,
}

/// A class that was checked.
#[derive(Clone, Debug)]
struct Checked {
    class: Class,
    handshake: Option<Handshake>,
    workload: Arc<dyn Workload>,
    /// A problem without a message, to blame the class with.
    blame: Problem,
}

impl Scenario {
    /// Reads a scenario. Files that it names are looked for beside `file`; overrides are applied in their order and
    /// may set keys that the text does not have.
    ///
    /// # Errors
    /// All problems that were found, each with its place.
    pub fn parse(text: &str, file: &str, overrides: &[Override]) -> Result<Self, Report> {
        Self::parse_with(text, file, overrides, &beside(file))
    }

    /// The same with another way to read the files that the scenario names.
    ///
    /// # Errors
    /// All problems that were found, each with its place.
    pub fn parse_with(text: &str, file: &str, overrides: &[Override], read: &Reader<'_>) -> Result<Self, Report> {
        let document = Arc::new(Document::parse(text, file, overrides)?);
        let mut problems = Problems::new(&document);
        check::document(&document.root, &schema::shapes(), &mut problems);
        if !problems.is_empty() {
            return Err(problems.into_report());
        }
        let spec = Spec::deserialize(&document.root).map_err(|fault| {
            document.problem(fault.place.unwrap_or(document.root.place), &Path::default(), fault.message)
        })?;
        let scenario = Self::resolve(&spec, &document, file, Files(read), &mut problems);
        match scenario {
            Some(scenario) if problems.is_empty() => Ok(scenario),
            _ => Err(problems.into_report()),
        }
    }

    fn resolve(
        spec: &Spec,
        document: &Arc<Document>,
        file: &str,
        files: Files<'_>,
        problems: &mut Problems<'_>,
    ) -> Option<Self> {
        let layout = Layout::build(&spec.topology, spec.switch.as_ref(), files, problems);
        let timing = HostTiming::resolve(spec.hosts.as_ref(), problems);
        let stop_at = spec.run.as_ref().and_then(|run| run.stop_at);
        let path = Path::of(&["run", "stop_at"]);
        if let Some(stop_at) = stop_at {
            check_time(stop_at, &path, problems);
            if stop_at.0 == 0 {
                problems.out_of_range(&path, stop_at, "above 0s");
            }
        }
        let mut warnings = Vec::new();
        let ends: Vec<Option<Ends>> = spec
            .traffic
            .0
            .iter()
            .map(|(name, traffic)| Ends::resolve(name, traffic, spec, layout.as_ref(), problems, &mut warnings))
            .collect();
        let layout = layout?;
        let mut offered = Offered::new(&layout);
        let mut classes = Vec::new();
        for ((name, traffic), ends) in spec.traffic.0.iter().zip(ends) {
            check_name(name, problems);
            let path = Path::of(&["traffic", name]);
            let Some(ends) = ends else { continue };
            let workload = traffic.resolve(&mut Context {
                name,
                path: path.clone(),
                layout: &layout,
                tcp: &ends.tcp,
                files,
                problems,
                warnings: &mut warnings,
                offered: &mut offered,
            });
            let blame = problems.document.problem(problems.document.place(&path), &path, "");
            let class = Class { name: name.clone(), stack: ends.stack, tcp: ends.tcp };
            classes.extend(workload.map(|workload| Checked { class, handshake: ends.handshake, workload, blame }));
        }
        warnings.extend(offered.warnings(&layout));
        check_amount(&classes, problems);
        check_end(&classes, stop_at.is_some(), problems);
        ends::check_receivers(&classes, &layout, problems);
        let recorded = Recorded::resolve(spec.record.as_ref(), spec, &classes, &layout, problems);
        let name = spec.name.clone().unwrap_or_else(|| {
            std::path::Path::new(file).file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
        });
        Some(Self {
            name,
            seed: spec.seed.unwrap_or(1),
            world: spec.run.as_ref().and_then(|run| run.world.clone()),
            document: Arc::clone(document),
            layout,
            timing,
            classes,
            stop_at: stop_at.map(|stop_at| Time(stop_at.0)),
            recorded,
            warnings,
        })
    }

    /// The scenario's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The seed that it runs with unless another is given.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The world that it asks for, if it does: `run.world`.
    #[must_use]
    pub fn world(&self) -> Option<&str> {
        self.world.as_deref()
    }

    /// Keys that cannot be honoured, each with a sentence that says why, as problems at their places in the file.
    #[must_use]
    pub fn locate(&self, refused: &[(Vec<String>, String)]) -> Report {
        let mut problems = Problems::new(&self.document);
        for (key, why) in refused {
            problems.at(&key.iter().fold(Path::default(), |path, name| path.key(name)), why);
        }
        problems.into_report()
    }

    /// How many messages it will be: exactly, or on average where chance decides.
    #[must_use]
    pub fn expected_messages(&self) -> u64 {
        self.classes.iter().map(|class| class.workload.messages()).sum::<f64>() as u64
    }

    /// Refuses a scenario whose messages alone, written out, take more memory than there is.
    ///
    /// # Errors
    /// It does.
    pub fn fits(&self, available: u64) -> Result<(), Report> {
        let messages = self.expected_messages();
        if messages.saturating_mul(limits::PLANNED_BYTES) <= available {
            return Ok(());
        }
        let most = available / limits::PLANNED_BYTES;
        let mut problems = Problems::new(&self.document);
        let message = format!("the {messages} messages, written out, do not fit into the memory that is left");
        problems.at(&Path::of(&["traffic"]), message).allowed = Some(format!("at most {most} on this machine, now"));
        Err(problems.into_report())
    }

    /// What a reader of the results should know: overloads, for example.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Writes it out, with all random choices of the workload made from `seed` (or the scenario's own).
    ///
    /// # Errors
    /// What only the draws show: more messages or later ones than a run may have, or a recorded connection that
    /// does not come to be.
    pub fn plan(&self, seed: Option<u64>) -> Result<Plan, Report> {
        self.plan_unless(seed, &|| false)
    }

    /// The same, for a caller that may lose interest meanwhile: millions of messages take seconds. `cancelled` is asked
    /// before each message, or each round of requests.
    ///
    /// # Errors
    /// As before, or it was cancelled.
    pub fn plan_unless(&self, seed: Option<u64>, cancelled: &dyn Fn() -> bool) -> Result<Plan, Report> {
        let seed = seed.unwrap_or(self.seed);
        let mut plan = Plan {
            name: self.name.clone(),
            seed,
            network: self.layout.network.clone(),
            classes: self.classes.iter().map(|class| class.class.clone()).collect(),
            connections: Vec::new(),
            sends: Vec::new(),
            aggregators: Vec::new(),
            stop_at: self.stop_at,
            record: Record::default(),
            warnings: self.warnings.clone(),
        };
        self.timing.apply(&mut plan);
        let mut coflows = 0;
        let mut connections = Vec::with_capacity(self.classes.len());
        for (index, checked) in (0_u32..).zip(&self.classes) {
            let first = plan.connections.len();
            let mut expansion = Expansion {
                plan: &mut plan,
                class: index,
                name: &checked.class.name,
                seed,
                layout: &self.layout,
                handshake: checked.handshake,
                packet: Bytes(checked.class.tcp.mss.0 + checked.class.tcp.header.0),
                blame: &checked.blame,
                coflows: &mut coflows,
                open: BTreeMap::new(),
                cancelled,
            };
            checked.workload.expand(&mut expansion)?;
            connections.push(first as u32..plan.connections.len() as u32);
        }
        // Stable: messages that start together stay in the order of their classes and within them.
        plan.sends.sort_by_key(|send| send.start);
        plan.record = self.recorded.record(&connections)?;
        plan.warnings.extend(noise::warn_of_ties(&plan));
        Ok(plan)
    }
}

/// Names are used in `record` and in result tables.
fn check_name(name: &str, problems: &mut Problems<'_>) {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || !name.chars().all(plain) {
        let path = Path::of(&["traffic", name]);
        problems.at(&path, format!("invalid class name {name:?}")).allowed = Some("letters, digits, - and _".into());
    }
}

fn check_amount(classes: &[Checked], problems: &mut Problems<'_>) {
    let sum: f64 = classes.iter().map(|class| class.workload.messages()).sum();
    if sum > limits::MESSAGES as f64 {
        let largest = classes.iter().max_by(|a, b| a.workload.messages().total_cmp(&b.workload.messages()));
        let path = largest.map_or_else(|| Path::of(&["traffic"]), |class| Path::of(&["traffic", &class.class.name]));
        let message = format!("the run would have {sum:.0} messages");
        problems.at(&path, message).allowed = Some(format!("at most {}", limits::MESSAGES));
    }
}

/// A run of endless flows needs an end.
fn check_end(classes: &[Checked], stops: bool, problems: &mut Problems<'_>) {
    if !stops && !classes.is_empty() && classes.iter().all(|class| class.workload.is_endless()) {
        problems.at(&Path::of(&["run", "stop_at"]), "missing: none of the traffic ever ends").allowed =
            Some("a time (\"2s\")".into());
    }
}
