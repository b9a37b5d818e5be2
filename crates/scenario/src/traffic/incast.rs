//! Bursts: many hosts send to one at the same time.

use incast_protocols::{Bytes, CoflowId, Duration, Message, Priority, Time};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{ConnectionsSpec, Context, Workload, after};
use crate::expand::{Expansion, Reuse};
use crate::report::Report;
use crate::spec::{HostRef, Senders, StackSpec, TcpTable};
use incast_plan::{End, Node, Send, WindowPerMessage};

/// Many hosts send to one at the same time, once or repeatedly.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct IncastSpec {
    /// Senders: a number of hosts, or a list.
    senders: Senders,
    /// The receiver. Default: host 0.
    receiver: Option<HostRef>,
    /// Size of each message, e.g. "64KiB".
    size: Option<Bytes>,
    /// Instead of size: size of a whole burst, split equally among the senders. The first ones send the remaining bytes.
    total: Option<Bytes>,
    /// Start of the first burst. Default: "0s".
    start: Option<Duration>,
    /// Maximum random delay of each sender, drawn uniformly from 0 to this. Default: "0s".
    jitter: Option<Duration>,
    /// Number of bursts. Default: 1.
    #[schemars(range(min = 1), extend("default" = 1))]
    repetitions: Option<u32>,
    /// Time from the start of one burst to the start of the next. Required if there are several.
    interval: Option<Duration>,
    /// Whether bursts share connections. Default: "fresh".
    #[schemars(extend("default" = "fresh"))]
    connections: Option<ConnectionsSpec>,
    /// Window at the start of each burst on a persistent connection. Default: "restart-after-idle".
    window: Option<WindowPerMessage>,
    /// Deadline of each message, from its start, e.g. "10ms". Default: none.
    deadline: Option<Duration>,
    /// Priority of these messages at switch ports with several queues (`scheduler` of `[switch]`), e.g. 1. Default: 0, the lowest.
    priority: Option<u32>,
    /// Algorithms at the ends; overrides `[stack]` key by key.
    pub(super) stack: Option<StackSpec>,
    /// TCP of this class; overrides `[tcp]` key by key.
    pub(super) tcp: Option<TcpTable>,
}

/// Checked bursts.
#[derive(Debug)]
pub(super) struct Incast {
    /// (host, payload per burst).
    senders: Vec<(u32, Bytes)>,
    receiver: u32,
    start: Duration,
    jitter: Duration,
    repetitions: u32,
    interval: Duration,
    reuse: Reuse,
    deadline: Option<Duration>,
    priority: Option<Priority>,
}

impl IncastSpec {
    pub(super) fn resolve(&self, context: &mut Context<'_, '_>) -> Option<Incast> {
        let receiver = context.host_or_first(self.receiver.as_ref(), "receiver")?;
        let senders = context.pick(&self.senders, receiver, "senders");
        let start = context.time(self.start, "start");
        let jitter = context.time(self.jitter, "jitter");
        let interval = context.time(self.interval, "interval");
        let deadline = self.deadline.map(|deadline| context.time(Some(deadline), "deadline"));
        let repetitions = self.repetitions.unwrap_or(1);
        match (repetitions, self.interval) {
            (1, Some(_)) => {
                context.problem("interval", "no effect: there is only one burst unless repetitions is given");
            }
            (2.., None | Some(Duration::ZERO)) => {
                context.problem("interval", format!("missing: the time between the {repetitions} bursts"));
            }
            _ => {}
        }
        let last = u128::from(interval.0) * u128::from(repetitions - 1);
        context.check_end(u128::from(start.0) + u128::from(jitter.0) + last, "repetitions");
        let reuse = context.reuse(self.connections, self.window);
        let senders = senders?;
        let sizes = context.split(self.size, self.total, ["size", "total"], senders.len())?;
        let incast = Incast {
            senders: senders.into_iter().zip(sizes).collect(),
            receiver,
            start,
            jitter,
            repetitions,
            interval,
            reuse,
            deadline,
            priority: context.priority(self.priority),
        };
        incast.warn_of_overload(context);
        Some(incast)
    }
}

impl Incast {
    /// Bursts that come faster than the receiver's link drains them.
    fn warn_of_overload(&self, context: &mut Context<'_, '_>) {
        if self.repetitions < 2 {
            return;
        }
        let (mss, header) = (context.tcp.mss.0.max(1), context.tcp.header.0);
        let wire: u128 =
            self.senders.iter().map(|(_, size)| u128::from(size.0) + u128::from(size.0.div_ceil(mss) * header)).sum();
        let rate = context.layout.down_rate(self.receiver);
        let needed = wire as f64 * 8.0 / rate.0 as f64;
        let load = needed / self.interval.as_secs_f64();
        if load > 1.0 {
            context.warnings.push(format!(
                "traffic.{}: a burst starts every {} and takes {:.4} ms on the link to {} (payload and headers), a load of {load:.2}",
                context.name,
                self.interval,
                needed * 1e3,
                context.layout.node_name(Node::Host(self.receiver)),
            ));
        }
    }
}

impl Workload for Incast {
    fn messages(&self) -> f64 {
        self.senders.len() as f64 * f64::from(self.repetitions)
    }

    fn receivers(&self) -> Vec<u32> {
        vec![self.receiver]
    }

    fn bottlenecks(&self) -> Vec<u32> {
        vec![self.receiver]
    }

    fn expand(&self, expansion: &mut Expansion<'_>) -> Result<(), Report> {
        let mut jitter = expansion.stream("jitter");
        for round in 0..self.repetitions {
            let coflow = expansion.coflow();
            let begin = after(self.start, self.interval.0 * u64::from(round));
            for &(host, size) in &self.senders {
                expansion.go_on()?;
                let start = Time(begin.0 + jitter.below(self.jitter.0 + 1));
                let connection = expansion.connect(host, self.receiver, self.reuse);
                let message = Message {
                    size: Some(size),
                    deadline: self.deadline.map(|deadline| start + deadline),
                    coflow: Some(CoflowId(coflow)),
                    priority: self.priority,
                    ..Message::default()
                };
                expansion.plan.sends.push(Send::new(connection, End::Client, start, message).in_round(round));
            }
        }
        Ok(())
    }
}
