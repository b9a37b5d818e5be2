//! Barrier-synchronised rounds: an aggregator asks all workers, and asks again when all have responded.

use incast_protocols::{Bytes, CoflowId, Duration, Message, Priority, Time};
use schemars::JsonSchema;
use serde::Deserialize;

use super::service::{Service, ServiceSpec, Stragglers, StragglersSpec};
use super::{Context, Workload};
use crate::expand::{Expansion, Reuse};
use crate::report::Report;
use crate::spec::{HostRef, Senders, StackSpec, TcpTable};
use incast_plan::{Aggregator, Response, Round, WindowPerMessage};

/// An aggregator sends requests to its workers in rounds: the next round starts when all responses are complete.
///
/// The aggregator opens one connection to each worker, which stays open over all rounds.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RoundsSpec {
    /// Workers: a number of hosts, or a list.
    workers: Senders,
    /// Number of connections to each worker, each with a response of its own. Default: 1.
    #[schemars(range(min = 1), extend("default" = 1))]
    connections_per_worker: Option<u32>,
    /// The aggregator. Default: host 0.
    aggregator: Option<HostRef>,
    /// Size of each response, e.g. "64KiB".
    response: Option<Bytes>,
    /// Instead of response: size of all responses of a round, split equally among the workers. The first ones send the remaining
    /// bytes.
    block: Option<Bytes>,
    /// Size of a request. Default: "64B".
    #[schemars(extend("default" = "64B"))]
    request: Option<Bytes>,
    /// Number of rounds.
    #[schemars(range(min = 1))]
    rounds: u32,
    /// Start of the first round. Default: "0s".
    start: Option<Duration>,
    /// Maximum random delay of each request, drawn uniformly from 0 to this. Default: "0s".
    jitter: Option<Duration>,
    /// Time of a worker from a request to its response: constant, or drawn from a distribution. Default: "0s".
    service_time: Option<ServiceSpec>,
    /// Workers that are sometimes slower. Default: none.
    stragglers: Option<StragglersSpec>,
    /// Window at the start of each response after the first. Default: "restart-after-idle".
    window: Option<WindowPerMessage>,
    /// Deadline of each response, from the start of its round, e.g. "10ms". Default: none.
    deadline: Option<Duration>,
    /// Priority of these messages at switch ports with several queues (`scheduler` of `[switch]`), e.g. 1. Default: 0, the lowest.
    priority: Option<u32>,
    /// Algorithms at the ends; overrides `[stack]` key by key.
    pub(super) stack: Option<StackSpec>,
    /// TCP of this class; overrides `[tcp]` key by key.
    pub(super) tcp: Option<TcpTable>,
}

/// Checked rounds.
#[derive(Debug)]
pub(super) struct Rounds {
    /// (host, payload of its answer).
    workers: Vec<(u32, Bytes)>,
    aggregator: u32,
    request: Bytes,
    count: u32,
    start: Duration,
    jitter: Duration,
    service: Service,
    stragglers: Option<Stragglers>,
    reuse: Reuse,
    deadline: Option<Duration>,
    priority: Option<Priority>,
}

impl RoundsSpec {
    pub(super) fn resolve(&self, context: &mut Context<'_, '_>) -> Option<Rounds> {
        let aggregator = context.host_or_first(self.aggregator.as_ref(), "aggregator")?;
        let workers = context.pick(&self.workers, aggregator, "workers");
        let start = context.time(self.start, "start");
        let jitter = context.time(self.jitter, "jitter");
        let deadline = self.deadline.map(|deadline| context.time(Some(deadline), "deadline"));
        let service = Service::resolve(self.service_time.as_ref(), &context.path.key("service_time"), context);
        let request = self.request.unwrap_or(Bytes(64));
        crate::sizes::check_size(request, &context.path.key("request"), context.problems);
        let count = self.connections_per_worker.unwrap_or(1) as usize;
        let workers = workers?;
        let stragglers = match &self.stragglers {
            Some(spec) => Some(Stragglers::resolve(spec, &workers, aggregator, context)?),
            None => None,
        };
        let workers = context.repeated(&workers, count, "connections_per_worker")?;
        let sizes = context.split(self.response, self.block, ["response", "block"], workers.len())?;
        Some(Rounds {
            workers: workers.into_iter().zip(sizes).collect(),
            aggregator,
            request,
            count: self.rounds,
            start,
            jitter,
            service: service?,
            stragglers,
            reuse: Reuse { persistent: true, window: self.window.unwrap_or(WindowPerMessage::RestartAfterIdle) },
            deadline,
            priority: context.priority(self.priority),
        })
    }
}

impl Workload for Rounds {
    fn messages(&self) -> f64 {
        self.workers.len() as f64 * f64::from(self.count)
    }

    fn receivers(&self) -> Vec<u32> {
        std::iter::once(self.aggregator).chain(self.workers.iter().map(|worker| worker.0)).collect()
    }

    fn bottlenecks(&self) -> Vec<u32> {
        vec![self.aggregator]
    }

    fn expand(&self, expansion: &mut Expansion<'_>) -> Result<(), Report> {
        let (mut jitter, mut service) = (expansion.stream("jitter"), expansion.stream("service"));
        let mut late = expansion.stream("stragglers");
        let workers =
            self.workers.iter().map(|&(host, _)| expansion.add_connection(self.aggregator, host, self.reuse)).collect();
        let mut rounds = Vec::with_capacity(self.count as usize);
        for _ in 0..self.count {
            expansion.go_on()?;
            let coflow = Some(CoflowId(expansion.coflow()));
            let responses = self.workers.iter().enumerate().map(|(index, &(_, size))| Response {
                message: Message {
                    size: Some(size),
                    deadline: self.deadline.map(|deadline| Time(deadline.0)),
                    coflow,
                    priority: self.priority,
                    ..Message::default()
                },
                service_time: {
                    let time = self.service.draw(&mut service);
                    self.stragglers.as_ref().map_or(time, |some| some.slowed(index, time, &mut late))
                },
                jitter: Duration(jitter.below(self.jitter.0 + 1)),
            });
            rounds.push(Round { responses: responses.collect() });
        }
        let aggregator = Aggregator {
            host: self.aggregator,
            class: expansion.class,
            workers,
            opened_by_workers: Vec::new(),
            start: Time(self.start.0),
            request: self.request,
            rounds,
            last_port_buffer: expansion.last_port_buffer(self.aggregator),
        };
        expansion.plan.aggregators.push(aggregator);
        Ok(())
    }
}
