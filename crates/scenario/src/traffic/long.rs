//! Flows that never end.

use incast_protocols::{Duration, Message, Time};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Context, Workload};
use crate::expand::{Expansion, Reuse};
use crate::report::Report;
use crate::spec::{HostRef, Senders, StackSpec, TcpTable};
use incast_plan::{End, Send, WindowPerMessage};

/// Flows that never end. The run ends with all other traffic, or at `run.stop_at`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LongSpec {
    /// Senders: a number of hosts, or a list.
    senders: Option<Senders>,
    /// The receiver. Default: host 0.
    receiver: Option<HostRef>,
    /// Instead of senders and receiver: pairs of sender and receiver, e.g. `[[1, 5], [2, 6]]`.
    pairs: Option<Vec<(HostRef, HostRef)>>,
    /// Number of flows from each sender to its receiver. Default: 1.
    #[schemars(range(min = 1), extend("default" = 1))]
    flows_per_pair: Option<u32>,
    /// Start of the flows. Default: "0s".
    start: Option<Duration>,
    /// Maximum random delay of each flow, drawn uniformly from 0 to this. Default: "0s".
    jitter: Option<Duration>,
    /// Algorithms at the ends; overrides `[stack]` key by key.
    pub(super) stack: Option<StackSpec>,
    /// TCP of this class; overrides `[tcp]` key by key.
    pub(super) tcp: Option<TcpTable>,
}

/// Checked flows.
#[derive(Debug)]
pub(super) struct Long {
    pairs: Vec<(u32, u32)>,
    start: Duration,
    jitter: Duration,
}

impl LongSpec {
    pub(super) fn resolve(&self, context: &mut Context<'_, '_>) -> Option<Long> {
        let start = context.time(self.start, "start");
        let jitter = context.time(self.jitter, "jitter");
        context.check_end(u128::from(start.0) + u128::from(jitter.0), "jitter");
        let pairs = match (&self.senders, &self.pairs) {
            (Some(senders), None) => {
                let receiver = context.host_or_first(self.receiver.as_ref(), "receiver")?;
                let senders = context.pick(senders, receiver, "senders")?;
                senders.into_iter().map(|sender| (sender, receiver)).collect()
            }
            (None, Some(pairs)) if self.receiver.is_none() => resolve_pairs(pairs, context)?,
            (None, None) => {
                context.problem("senders", "missing: give senders and a receiver, or pairs");
                return None;
            }
            _ => {
                context.problem("pairs", "give either pairs, or senders and receiver");
                return None;
            }
        };
        let count = self.flows_per_pair.unwrap_or(1) as usize;
        let pairs = context.repeated(&pairs, count, "flows_per_pair")?;
        Some(Long { pairs, start, jitter })
    }
}

fn resolve_pairs(pairs: &[(HostRef, HostRef)], context: &mut Context<'_, '_>) -> Option<Vec<(u32, u32)>> {
    if pairs.is_empty() {
        context.problem("pairs", "no pairs: at least one is needed");
        return None;
    }
    let mut resolved = Vec::with_capacity(pairs.len());
    for (index, (from, to)) in pairs.iter().enumerate() {
        let path = context.path.key("pairs").index(index);
        let from = context.layout.host(from, &path.index(0), context.problems)?;
        let to = context.layout.host(to, &path.index(1), context.problems)?;
        if from == to {
            let name = context.layout.node_name(incast_plan::Node::Host(from));
            context.problems.at(&path, format!("{name} would send to itself"));
            return None;
        }
        resolved.push((from, to));
    }
    Some(resolved)
}

impl Workload for Long {
    fn messages(&self) -> f64 {
        self.pairs.len() as f64
    }

    fn is_endless(&self) -> bool {
        true
    }

    fn receivers(&self) -> Vec<u32> {
        self.pairs.iter().map(|pair| pair.1).collect()
    }

    fn bottlenecks(&self) -> Vec<u32> {
        self.receivers()
    }

    fn expand(&self, expansion: &mut Expansion<'_>) -> Result<(), Report> {
        let mut jitter = expansion.stream("jitter");
        for &(from, to) in &self.pairs {
            expansion.go_on()?;
            let reuse = Reuse { persistent: false, window: WindowPerMessage::Kept };
            let connection = expansion.connect(from, to, reuse);
            expansion.plan.connections[connection as usize].close_when_done = false;
            let start = Time(self.start.0 + jitter.below(self.jitter.0 + 1));
            let message = Message::default();
            expansion.plan.sends.push(Send::new(connection, End::Client, start, message));
        }
        Ok(())
    }
}
