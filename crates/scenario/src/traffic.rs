//! Traffic: each kind is one file with what a scenario writes, what is checked, and how it becomes messages.

use std::fmt::Debug;
use std::sync::Arc;

use incast_protocols::{Bytes, Duration, Priority, Time};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::document::Problems;
use crate::expand::{Expansion, Reuse};
use crate::files::Files;
use crate::limits;
use crate::network::{Layout, check_time};
use crate::node::Path;
use crate::offered::Offered;
use crate::report::{Problem, Report};
use crate::spec::{HostRef, HostSet, PerRackSpec, Senders, StackSpec, TcpTable};
use incast_plan::{Tcp, WindowPerMessage};

mod arrivals;
mod fork_join;
mod incast;
mod long;
mod poisson;
mod rounds;
mod service;
mod trace;

/// A class of traffic; `kind` says when its messages start, and who sends to whom.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[schemars(rename = "Traffic")]
pub(crate) enum TrafficSpec {
    /// Many hosts send to one at the same time, once or repeatedly.
    Incast(incast::IncastSpec),
    /// An aggregator sends requests to its workers in rounds: the next round starts when all responses are complete.
    Rounds(rounds::RoundsSpec),
    /// Jobs at random times: a scheduler sends requests to some workers, and the last response completes the job.
    ForkJoin(fork_join::ForkJoinSpec),
    /// Messages between random hosts at random times.
    Poisson(poisson::PoissonSpec),
    /// Flows that never end.
    Long(long::LongSpec),
    /// Messages listed in a file.
    Trace(trace::TraceSpec),
}

impl TrafficSpec {
    /// The stack and TCP of this class, as far as it chooses its own.
    pub(crate) const fn ends(&self) -> (Option<&StackSpec>, Option<&TcpTable>) {
        match self {
            Self::Incast(spec) => (spec.stack.as_ref(), spec.tcp.as_ref()),
            Self::Rounds(spec) => (spec.stack.as_ref(), spec.tcp.as_ref()),
            Self::ForkJoin(spec) => (spec.stack.as_ref(), spec.tcp.as_ref()),
            Self::Poisson(spec) => (spec.stack.as_ref(), spec.tcp.as_ref()),
            Self::Long(spec) => (spec.stack.as_ref(), spec.tcp.as_ref()),
            Self::Trace(spec) => (spec.stack.as_ref(), spec.tcp.as_ref()),
        }
    }

    /// Checks it against the network.
    pub(crate) fn resolve(&self, context: &mut Context<'_, '_>) -> Option<Arc<dyn Workload>> {
        match self {
            Self::Incast(spec) => spec.resolve(context).map(|found| Arc::new(found) as Arc<dyn Workload>),
            Self::Rounds(spec) => spec.resolve(context).map(|found| Arc::new(found) as Arc<dyn Workload>),
            Self::ForkJoin(spec) => spec.resolve(context).map(|found| Arc::new(found) as Arc<dyn Workload>),
            Self::Poisson(spec) => spec.resolve(context).map(|found| Arc::new(found) as Arc<dyn Workload>),
            Self::Long(spec) => spec.resolve(context).map(|found| Arc::new(found) as Arc<dyn Workload>),
            Self::Trace(spec) => spec.resolve(context).map(|found| Arc::new(found) as Arc<dyn Workload>),
        }
    }
}

/// A class of traffic that was checked and only waits for its random draws.
pub(crate) trait Workload: Debug + Send + Sync {
    /// How many messages it will be, exactly or on average.
    fn messages(&self) -> f64;

    /// Whether its messages have no end.
    fn is_endless(&self) -> bool {
        false
    }

    /// Hosts at which its data arrives.
    fn receivers(&self) -> Vec<u32>;

    /// Hosts at which it meets itself: their last switch port is the bottleneck.
    fn bottlenecks(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Adds its connections and messages to the plan.
    fn expand(&self, expansion: &mut Expansion<'_>) -> Result<(), Report>;
}

/// What a class is checked against.
pub(crate) struct Context<'c, 'd> {
    pub(crate) name: &'c str,
    pub(crate) path: Path,
    pub(crate) layout: &'c Layout,
    pub(crate) tcp: &'c Tcp,
    pub(crate) files: Files<'c>,
    pub(crate) problems: &'c mut Problems<'d>,
    pub(crate) warnings: &'c mut Vec<String>,
    pub(crate) offered: &'c mut Offered,
}

impl Context<'_, '_> {
    fn problem(&mut self, key: &str, message: impl Into<String>) -> &mut Problem {
        self.problems.at(&self.path.key(key), message)
    }

    /// The priority of messages, which has to choose among queues that switch ports have.
    fn priority(&mut self, priority: Option<u32>) -> Option<Priority> {
        let queues = self.layout.queues();
        if let Some(chosen) = priority.filter(|&priority| priority >= queues || queues == 1) {
            let (message, allowed) = if queues == 1 {
                let message = "the priority would change nothing: every switch port has one queue".to_owned();
                (message, "with `scheduler = \"strict-priority\"` in `[switch]`".to_owned())
            } else {
                (
                    format!("there is no queue of priority {chosen}: switch ports have {queues}"),
                    format!("0 to {}", queues - 1),
                )
            };
            self.problem("priority", message).allowed = Some(allowed);
        }
        priority.map(Priority)
    }

    /// The host at `key`, or the first.
    fn host_or_first(&mut self, host: Option<&HostRef>, key: &str) -> Option<u32> {
        host.map_or(Some(0), |host| self.layout.host(host, &self.path.key(key), self.problems))
    }

    /// The hosts that `senders` means, none of them `other`.
    fn pick(&mut self, senders: &Senders, other: u32, key: &str) -> Option<Vec<u32>> {
        match senders {
            Senders::Count(0) => {
                self.problem(key, "no hosts: at least one is needed");
                None
            }
            Senders::Count(count) => {
                let others = self.layout.hosts() - 1;
                if *count > others {
                    let other = self.layout.node_name(incast_plan::Node::Host(other));
                    self.problem(key, format!("{count} {key}, but there are only {others} hosts besides {other}"));
                    return None;
                }
                Some((0..self.layout.hosts()).filter(|&host| host != other).take(*count as usize).collect())
            }
            Senders::List(list) => self.pick_from(list, Some(other), key),
        }
    }

    /// The hosts that `set` means, in their order.
    fn host_set(&mut self, set: &HostSet, key: &str) -> Option<Vec<u32>> {
        match set {
            HostSet::List(list) => self.pick_from(list, None, key),
            HostSet::Count(0) => {
                self.problem(key, "no hosts: at least one is needed");
                None
            }
            HostSet::Count(count) => {
                let hosts = self.layout.hosts();
                if *count > hosts {
                    self.problem(key, format!("{count} hosts, but there are only {hosts}"));
                    return None;
                }
                Some((0..*count).collect())
            }
            HostSet::PerRack(PerRackSpec { per_rack }) => self.first_of_racks(*per_rack, key),
        }
    }

    fn first_of_racks(&mut self, per_rack: u32, key: &str) -> Option<Vec<u32>> {
        let Some(racks) = self.layout.racks.as_deref() else {
            self.problem(key, "this topology has no racks").allowed =
                Some("a number or a list of hosts; or a leaf-spine, fat-tree or dumbbell topology".into());
            return None;
        };
        let (mut hosts, mut first) = (Vec::new(), 0);
        for rack in racks.chunk_by(|a, b| a == b) {
            let size = rack.len() as u32;
            if per_rack > size {
                let message = format!("{per_rack} hosts of each rack, but rack {} has only {size}", rack[0]);
                self.problem(key, message);
                return None;
            }
            hosts.extend(first..first + per_rack);
            first += size;
        }
        Some(hosts)
    }

    /// The hosts of a list: known, each once, none of them `other`.
    fn pick_from(&mut self, list: &[HostRef], other: Option<u32>, key: &str) -> Option<Vec<u32>> {
        if list.is_empty() {
            self.problem(key, "no hosts: at least one is needed");
            return None;
        }
        let mut hosts = Vec::with_capacity(list.len());
        let mut seen = std::collections::BTreeSet::new();
        for (index, host) in list.iter().enumerate() {
            let path = self.path.key(key).index(index);
            let host = self.layout.host(host, &path, self.problems)?;
            let name = || self.layout.node_name(incast_plan::Node::Host(host));
            if Some(host) == other {
                self.problems.at(&path, format!("{} would send to itself", name()));
                return None;
            }
            if !seen.insert(host) {
                self.problems.at(&path, format!("{} is listed twice", name()));
                return None;
            }
            hosts.push(host);
        }
        Some(hosts)
    }

    /// All of `items`, and all of them again, `count` times.
    fn repeated<T: Copy>(&mut self, items: &[T], count: usize, key: &str) -> Option<Vec<T>> {
        let most = (limits::CONNECTIONS / items.len().max(1)).max(1);
        if !(1..=most).contains(&count) {
            self.problems.out_of_range(&self.path.key(key), count, format!("1 to {most}"));
            return None;
        }
        Some(items.iter().copied().cycle().take(count * items.len()).collect())
    }

    /// A time of the class, zero if it is not given.
    fn time(&mut self, time: Option<Duration>, key: &str) -> Duration {
        let time = time.unwrap_or_default();
        check_time(time, &self.path.key(key), self.problems);
        // What is too long was refused; sums of the others are far from overflow.
        time.min(limits::TIME)
    }

    /// Payload of each of `count` hosts: the same for all, or an equal part of a total whose remainder goes to the
    /// first ones.
    fn split(
        &mut self,
        each: Option<Bytes>,
        total: Option<Bytes>,
        keys: [&str; 2],
        count: usize,
    ) -> Option<Vec<Bytes>> {
        match (each, total) {
            (Some(each), None) => {
                crate::sizes::check_size(each, &self.path.key(keys[0]), self.problems).then(|| vec![each; count])
            }
            (None, Some(total)) => {
                let count = count as u64;
                if total.0 < count {
                    self.problem(keys[1], format!("{total} cannot be split among {count}: some would send nothing"));
                    return None;
                }
                let (part, rest) = (total.0 / count, total.0 % count);
                crate::sizes::check_size(Bytes(part), &self.path.key(keys[1]), self.problems)
                    .then(|| (0..count).map(|index| Bytes(part + u64::from(index < rest))).collect())
            }
            (Some(_), Some(_)) => {
                self.problem(keys[1], format!("both {} and {} are given: choose one", keys[0], keys[1]));
                None
            }
            (None, None) => {
                let message = format!("missing: give {} (for each) or {} (split among all)", keys[0], keys[1]);
                self.problem(keys[0], message);
                None
            }
        }
    }

    /// How connections are used, checked.
    fn reuse(&mut self, connections: Option<ConnectionsSpec>, window: Option<WindowPerMessage>) -> Reuse {
        let persistent = matches!(connections, Some(ConnectionsSpec::Persistent));
        if !persistent && window.is_some() {
            self.problem("window", "no effect: every message has a connection of its own").allowed =
                Some("only with connections = \"persistent\"".into());
        }
        Reuse { persistent, window: window.unwrap_or(WindowPerMessage::RestartAfterIdle) }
    }

    /// Refuses a sum of times beyond what a run may take.
    fn check_end(&mut self, end: u128, key: &str) {
        if end > u128::from(limits::TIME.0) && self.problems.is_empty() {
            self.problem(key, format!("the last message would start after {}", limits::TIME));
        }
    }
}

/// Whether messages share connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Connections")]
pub(crate) enum ConnectionsSpec {
    /// One connection per message, closed after it.
    Fresh,
    /// One connection per pair of hosts, kept open.
    Persistent,
}

/// `start + offset`; both were checked, so the sum is far from overflow.
pub(crate) fn after(start: Duration, offset: u64) -> Time {
    Time(start.0 + offset)
}
