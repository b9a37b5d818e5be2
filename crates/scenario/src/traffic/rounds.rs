//! Barrier-synchronised rounds: an aggregator asks all workers, and asks again when all have answered.

use incast_protocols::{Bytes, CoflowId, Duration, Message, Priority, Time};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Context, Reuse, WindowSpec, Workload};
use crate::expand::Expansion;
use crate::limits;
use crate::network::check_time;
use crate::plan::{Aggregator, Response, Round};
use crate::random::Stream;
use crate::report::Report;
use crate::spec::{HostRef, Senders, StackSpec, TcpSpec};

/// An aggregator asks its workers round by round: the next begins when all have answered.
///
/// Each worker has one connection, opened by the aggregator, which stays open over all rounds.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RoundsSpec {
    /// Who answers: so many hosts, or these.
    workers: Senders,
    /// Who asks. Default: host 0.
    aggregator: Option<HostRef>,
    /// What each worker answers in a round.
    response: Option<Bytes>,
    /// What all workers answer together in a round, split equally; the first send the remaining bytes.
    block: Option<Bytes>,
    /// Payload of a request. Default: "64B".
    #[schemars(extend("default" = "64B"))]
    request: Option<Bytes>,
    /// Number of rounds.
    #[schemars(range(min = 1))]
    rounds: u32,
    /// When the first round begins. Default: "0s".
    start: Option<Duration>,
    /// Each request leaves up to this time late, drawn uniformly. Default: "0s".
    jitter: Option<Duration>,
    /// What a worker takes from a request to its answer: a time, or a distribution. Default: "0s".
    service_time: Option<ServiceSpec>,
    /// The window at the start of each answer after the first. Default: "restart-after-idle".
    window: Option<WindowSpec>,
    /// Each answer must be complete this long after its round starts. Default: none.
    deadline: Option<Duration>,
    /// How the application ranks these messages, for algorithms that look at it. Default: none.
    priority: Option<u32>,
    /// Algorithms at the ends, where they differ from `[stack]`.
    pub(super) stack: Option<StackSpec>,
    /// TCP, where it differs from `[tcp]`.
    pub(super) tcp: Option<TcpSpec>,
}

/// What a worker takes from a request to its answer.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "ServiceTime")]
pub(crate) enum ServiceSpec {
    Constant(Duration),
    Drawn(DrawnSpec),
}

/// A service time drawn for each answer.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[schemars(rename = "DrawnServiceTime")]
pub(crate) enum DrawnSpec {
    /// Exponential.
    Exponential(ExponentialSpec),
}

/// Exponential.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExponentialSpec {
    /// Mean time.
    mean: Duration,
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
    reuse: Reuse,
    deadline: Option<Duration>,
    priority: Option<Priority>,
}

#[derive(Debug)]
enum Service {
    Constant(Duration),
    Exponential { mean: Duration },
}

impl Service {
    fn draw(&self, stream: &mut Stream) -> Duration {
        match self {
            Self::Constant(time) => *time,
            Self::Exponential { mean } => {
                let time = libm::round(mean.0 as f64 * stream.exponential());
                Duration((time as u64).min(limits::TIME.0))
            }
        }
    }
}

impl RoundsSpec {
    pub(super) fn resolve(&self, context: &mut Context<'_, '_>) -> Option<Rounds> {
        let aggregator = context.host_or_first(self.aggregator.as_ref(), "aggregator")?;
        let workers = context.pick(&self.workers, aggregator, "workers");
        let start = context.time(self.start, "start");
        let jitter = context.time(self.jitter, "jitter");
        let deadline = self.deadline.map(|deadline| context.time(Some(deadline), "deadline"));
        let path = context.path.key("service_time");
        let service = match &self.service_time {
            None => Service::Constant(Duration::ZERO),
            Some(ServiceSpec::Constant(time)) => {
                check_time(*time, &path, context.problems);
                Service::Constant(*time)
            }
            Some(ServiceSpec::Drawn(DrawnSpec::Exponential(exponential))) => {
                check_time(exponential.mean, &path.key("mean"), context.problems);
                Service::Exponential { mean: exponential.mean }
            }
        };
        let request = self.request.unwrap_or(Bytes(64));
        crate::sizes::check_size(request, &context.path.key("request"), context.problems);
        let workers = workers?;
        let sizes = context.split(self.response, self.block, ["response", "block"], workers.len())?;
        Some(Rounds {
            workers: workers.into_iter().zip(sizes).collect(),
            aggregator,
            request,
            count: self.rounds,
            start,
            jitter,
            service,
            reuse: Reuse { persistent: true, window: self.window.unwrap_or(WindowSpec::RestartAfterIdle).into() },
            deadline,
            priority: self.priority.map(Priority),
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
        let workers =
            self.workers.iter().map(|&(host, _)| expansion.connect(self.aggregator, host, self.reuse)).collect();
        let mut rounds = Vec::with_capacity(self.count as usize);
        for _ in 0..self.count {
            let coflow = Some(CoflowId(expansion.coflow()));
            let responses = self.workers.iter().map(|&(_, size)| Response {
                message: Message {
                    size: Some(size),
                    deadline: self.deadline.map(|deadline| Time(deadline.0)),
                    coflow,
                    priority: self.priority,
                    ..Message::default()
                },
                service_time: self.service.draw(&mut service),
                jitter: Duration(jitter.below(self.jitter.0 + 1)),
            });
            rounds.push(Round { responses: responses.collect() });
        }
        let aggregator = Aggregator {
            host: self.aggregator,
            class: expansion.class,
            workers,
            start: Time(self.start.0),
            request: self.request,
            rounds,
            last_port_buffer: expansion.last_port_buffer(self.aggregator),
        };
        expansion.plan.aggregators.push(aggregator);
        Ok(())
    }
}
