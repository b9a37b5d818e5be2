//! Fork and join: jobs arrive at schedulers, each asks some workers, and the last response completes it (Wang et al.,
//! "An Incast-Coflow-Aware Minimum-Rate-Guaranteed Congestion Control Protocol", section III.B).

use std::collections::BTreeSet;

use incast_protocols::{Bytes, CoflowId, Duration, Message, Priority, Time};
use schemars::JsonSchema;
use serde::Deserialize;

use super::arrivals::{Arrivals, Stop};
use super::service::{Service, ServiceSpec};
use super::{Context, Workload};
use crate::expand::{Expansion, Reuse};
use crate::limits;
use crate::random::Stream;
use crate::report::Report;
use crate::sizes::{Sizes, SizesSpec};
use crate::spec::{HostRef, HostSet, StackSpec, TcpTable};
use incast_plan::{Aggregator, Node, Response, Round, WindowPerMessage};

/// Jobs at random times: a scheduler sends requests to some workers, and the last response completes the job.
///
/// Jobs arrive as a Poisson process. Each one's scheduler is drawn uniformly, as are its workers, all different. It sends all
/// requests at once, unless the application of the stack holds some back. Each response has a connection of its own. The
/// responses of a job are a coflow.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkJoinSpec {
    /// Hosts that start jobs: each has a scheduler, which sends requests to workers.
    schedulers: HostSet,
    /// Workers. Default: all hosts without a scheduler.
    workers: Option<Vec<HostRef>>,
    /// Number of workers per job: constant, or drawn uniformly for each job.
    fan_in: FanInSpec,
    /// Size of a request. Default: "2KB".
    #[schemars(extend("default" = "2KB"))]
    request: Option<Bytes>,
    /// Sizes of the responses.
    sizes: SizesSpec,
    /// Who opens the connection of a response. Default: "scheduler".
    #[schemars(extend("default" = "scheduler"))]
    opened_by: Option<OpenedBy>,
    /// Payload of all responses as a share of the rates of the links to the schedulers, e.g. 0.6: mean `fan_in` times the mean
    /// of `sizes` times jobs per second.
    #[schemars(range(min = 0.0, max = 100.0))]
    load: Option<f64>,
    /// Instead of load: average number of jobs per second at each scheduler.
    jobs_per_s: Option<f64>,
    /// Number of jobs at all schedulers together.
    #[schemars(range(min = 1))]
    jobs: Option<u64>,
    /// Instead of jobs: time at which arrivals stop.
    until: Option<Duration>,
    /// Start of the arrival process. The first job arrives a random time later. Default: "0s".
    start: Option<Duration>,
    /// Time of a worker from a request to its response: constant, or drawn from a distribution. Default: "0s".
    task_time: Option<ServiceSpec>,
    /// Deadline of each response, from the arrival of its job, e.g. "10ms". Default: none.
    deadline: Option<Duration>,
    /// Kinds of jobs that differ in task time and deadline, all equally likely. Default: one kind.
    #[schemars(length(min = 1))]
    cases: Option<Vec<CaseSpec>>,
    /// Priority of these messages at switch ports with several queues (`scheduler` of `[switch]`), e.g. 1. Default: 0, the lowest.
    priority: Option<u32>,
    /// Algorithms at the ends; overrides `[stack]` key by key.
    pub(super) stack: Option<StackSpec>,
    /// TCP of this class; overrides `[tcp]` key by key.
    pub(super) tcp: Option<TcpTable>,
}

/// Who opens the connection of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OpenedBy {
    /// The scheduler, for its request: the response comes on the same connection.
    #[default]
    Scheduler,
    /// The worker, once the response is ready: SYN and SYN-ACK are part of its completion time, and the SYN tells the receiver
    /// of its deadline and coflow.
    Worker,
}

/// A number, or a range to draw from uniformly.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "FanIn")]
pub(crate) enum FanInSpec {
    Number(#[schemars(range(min = 1))] u32),
    Between(BetweenSpec),
}

/// Uniform between two numbers, both included.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FanInRange")]
pub(crate) struct BetweenSpec {
    /// Smallest number of workers of a job.
    #[schemars(range(min = 1))]
    min: u32,
    /// Largest number of workers of a job.
    #[schemars(range(min = 1))]
    max: u32,
}

/// One of several kinds of jobs in a class, each with its own deadline and service time.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "JobCase")]
pub(crate) struct CaseSpec {
    /// Deadline of each response. Default: that of the class.
    deadline: Option<Duration>,
    /// Time of a worker for a response. Default: that of the class.
    task_time: Option<ServiceSpec>,
}

/// Checked jobs.
#[derive(Debug)]
pub(super) struct ForkJoin {
    schedulers: Vec<u32>,
    workers: Vec<u32>,
    /// Smallest and largest.
    fan_in: (u32, u32),
    request: Bytes,
    opened_by: OpenedBy,
    sizes: Sizes,
    /// At all schedulers together.
    jobs_per_second: f64,
    start: Duration,
    end: Stop,
    cases: Vec<Case>,
    priority: Option<Priority>,
}

#[derive(Clone, Debug)]
struct Case {
    deadline: Option<Duration>,
    task_time: Service,
}

impl ForkJoinSpec {
    pub(super) fn resolve(&self, context: &mut Context<'_, '_>) -> Option<ForkJoin> {
        let sizes = Sizes::resolve(&self.sizes, &context.path.key("sizes"), context.files, context.problems);
        let start = context.time(self.start, "start");
        let end = Stop::resolve(self.jobs, self.until, start, "jobs", context);
        let cases = self.resolve_cases(context);
        let request = self.request.unwrap_or(Bytes(2000));
        crate::sizes::check_size(request, &context.path.key("request"), context.problems);
        let schedulers = context.host_set(&self.schedulers, "schedulers")?;
        let workers = self.resolve_workers(&schedulers, context)?;
        let fan_in = self.resolve_fan_in(workers.len() as u32, context)?;
        let sizes = sizes?;
        let mut jobs = ForkJoin {
            schedulers,
            workers,
            fan_in,
            request,
            opened_by: self.opened_by.unwrap_or_default(),
            sizes,
            jobs_per_second: 0.0,
            start,
            end: end?,
            cases: cases?,
            priority: context.priority(self.priority),
        };
        jobs.jobs_per_second = self.resolve_rate(&jobs, context)?;
        jobs.offer(context);
        Some(jobs)
    }

    fn resolve_workers(&self, schedulers: &[u32], context: &mut Context<'_, '_>) -> Option<Vec<u32>> {
        let taken: BTreeSet<u32> = schedulers.iter().copied().collect();
        let Some(list) = &self.workers else {
            let free: Vec<u32> = (0..context.layout.hosts()).filter(|host| !taken.contains(host)).collect();
            if free.is_empty() {
                context.problem("schedulers", "every host has a scheduler, so no worker is left");
                return None;
            }
            return Some(free);
        };
        let workers = context.pick_from(list, None, "workers")?;
        if let Some(index) = workers.iter().position(|host| taken.contains(host)) {
            let path = context.path.key("workers").index(index);
            let name = context.layout.node_name(Node::Host(workers[index]));
            context.problems.at(&path, format!("{name} has a scheduler and would answer itself"));
            return None;
        }
        Some(workers)
    }

    fn resolve_fan_in(&self, workers: u32, context: &mut Context<'_, '_>) -> Option<(u32, u32)> {
        let path = context.path.key("fan_in");
        let (min, max, most) = match &self.fan_in {
            FanInSpec::Number(number) => (*number, *number, path),
            FanInSpec::Between(between) => {
                if between.min > between.max {
                    let message = format!("min ({}) is larger than max ({})", between.min, between.max);
                    context.problems.at(&path.key("min"), message);
                    return None;
                }
                (between.min, between.max, path.key("max"))
            }
        };
        if max > workers {
            let allowed = format!("1 to {workers}, the number of workers");
            context.problems.out_of_range(&most, max, allowed);
            return None;
        }
        Some((min, max))
    }

    fn resolve_cases(&self, context: &mut Context<'_, '_>) -> Option<Vec<Case>> {
        let deadline = self.deadline.map(|deadline| context.time(Some(deadline), "deadline"));
        let task_time = Service::resolve(self.task_time.as_ref(), &context.path.key("task_time"), context)?;
        let Some(cases) = &self.cases else { return Some(vec![Case { deadline, task_time }]) };
        for (key, given, everywhere) in [
            ("deadline", deadline.is_some(), cases.iter().all(|case| case.deadline.is_some())),
            ("task_time", self.task_time.is_some(), cases.iter().all(|case| case.task_time.is_some())),
        ] {
            if given && everywhere {
                context.problem(key, format!("no effect: every case has a {key} of its own"));
            }
        }
        let mut resolved = Vec::with_capacity(cases.len());
        for (index, case) in cases.iter().enumerate() {
            let path = context.path.key("cases").index(index);
            if let Some(deadline) = case.deadline {
                crate::network::check_time(deadline, &path.key("deadline"), context.problems);
            }
            let task_time = match &case.task_time {
                Some(own) => Service::resolve(Some(own), &path.key("task_time"), context)?,
                None => task_time.clone(),
            };
            resolved.push(Case { deadline: case.deadline.or(deadline), task_time });
        }
        Some(resolved)
    }

    /// Jobs per second at all schedulers together.
    fn resolve_rate(&self, jobs: &ForkJoin, context: &mut Context<'_, '_>) -> Option<f64> {
        match (self.load, self.jobs_per_s) {
            (Some(load), None) if load <= 0.0 => {
                context.problems.out_of_range(&context.path.key("load"), load, "above 0");
                None
            }
            (Some(load), None) => {
                let bits: f64 = jobs.schedulers.iter().map(|&host| context.layout.down_rate(host).0 as f64).sum();
                Some(load * bits / (8.0 * jobs.mean_fan_in() * jobs.sizes.mean_bytes()))
            }
            (None, Some(rate)) => {
                let possible = rate > 0.0 && rate <= 1e12;
                if !possible {
                    let path = context.path.key("jobs_per_s");
                    context.problems.out_of_range(&path, format!("{rate:?}"), "above 0, at most 1e12");
                }
                possible.then_some(rate * jobs.schedulers.len() as f64)
            }
            (Some(_), Some(_)) => {
                context.problem("jobs_per_s", "both load and jobs_per_s are given: choose one");
                None
            }
            (None, None) => {
                let message = "missing: give load (a share of the links to the schedulers) or jobs_per_s (for each)";
                context.problem("load", message);
                None
            }
        }
    }
}

impl ForkJoin {
    fn mean_fan_in(&self) -> f64 {
        f64::midpoint(f64::from(self.fan_in.0), f64::from(self.fan_in.1))
    }

    /// What requests and answers offer to the links.
    fn offer(&self, context: &mut Context<'_, '_>) {
        let (mss, header) = (context.tcp.mss, context.tcp.header.0 as f64);
        let bits = |payload: f64, segments: f64| {
            self.jobs_per_second * self.mean_fan_in() * (payload + segments * header) * 8.0
        };
        let asked = bits(self.request.0 as f64, self.request.0.div_ceil(mss.0) as f64);
        let answered = bits(self.sizes.mean_bytes(), self.sizes.mean_segments(mss));
        context.offered.begin(context.name);
        context.offered.add_between(&self.schedulers, &self.workers, asked, context.layout);
        context.offered.add_between(&self.workers, &self.schedulers, answered, context.layout);
    }
}

/// The random choices of jobs, each with a stream of its own.
struct Draws {
    schedulers: Stream,
    fan_in: Stream,
    workers: Stream,
    cases: Stream,
    service: Stream,
    sizes: Stream,
    /// All workers; those of the last job come first.
    order: Vec<u32>,
}

impl Draws {
    fn new(expansion: &Expansion<'_>, workers: &[u32]) -> Self {
        Self {
            schedulers: expansion.stream("schedulers"),
            fan_in: expansion.stream("fan-in"),
            workers: expansion.stream("workers"),
            cases: expansion.stream("cases"),
            service: expansion.stream("service"),
            sizes: expansion.stream("sizes"),
            order: workers.to_vec(),
        }
    }

    /// So many different workers. Shuffling goes on where the last job left it, which makes no job's choice less uniform.
    fn different_workers(&mut self, count: usize) -> &[u32] {
        for position in 0..count {
            let others = (self.order.len() - position) as u64;
            self.order.swap(position, position + self.workers.below(others) as usize);
        }
        &self.order[..count]
    }
}

impl Workload for ForkJoin {
    fn messages(&self) -> f64 {
        self.end.count(self.start, self.jobs_per_second) * self.mean_fan_in()
    }

    fn receivers(&self) -> Vec<u32> {
        self.schedulers.iter().chain(&self.workers).copied().collect()
    }

    fn bottlenecks(&self) -> Vec<u32> {
        self.schedulers.clone()
    }

    fn expand(&self, expansion: &mut Expansion<'_>) -> Result<(), Report> {
        let mut draws = Draws::new(expansion, &self.workers);
        let mut arrivals = Arrivals::new(expansion, self.start, 1e12 / self.jobs_per_second, self.end);
        let buffers: Vec<Bytes> = self.schedulers.iter().map(|&host| expansion.last_port_buffer(host)).collect();
        let mut answers = 0;
        while let Some(now) = arrivals.next(expansion, "jobs")? {
            let scheduler = draws.schedulers.below(self.schedulers.len() as u64) as usize;
            let case = &self.cases[draws.cases.below(self.cases.len() as u64) as usize];
            let (min, max) = self.fan_in;
            let fan_in = u64::from(min) + draws.fan_in.below(u64::from(max - min) + 1);
            answers += fan_in;
            if answers > limits::MESSAGES {
                return Err(expansion.problem(format!("more than {} messages", limits::MESSAGES)));
            }
            let host = self.schedulers[scheduler];
            let coflow = Some(CoflowId(expansion.coflow()));
            let reuse = Reuse { persistent: false, window: WindowPerMessage::Fresh };
            let chosen = draws.different_workers(fan_in as usize);
            let workers = chosen.iter().map(|&worker| expansion.add_connection(host, worker, reuse)).collect();
            let opened_by_workers = match self.opened_by {
                OpenedBy::Scheduler => Vec::new(),
                OpenedBy::Worker => {
                    chosen.iter().map(|&worker| expansion.add_connection(worker, host, reuse)).collect()
                }
            };
            let mut answer = || Response {
                message: Message {
                    size: Some(self.sizes.draw(&mut draws.sizes)),
                    deadline: case.deadline.map(|deadline| Time(deadline.0)),
                    coflow,
                    priority: self.priority,
                    minimum_rate: None,
                },
                service_time: case.task_time.draw(&mut draws.service),
                jitter: Duration::ZERO,
            };
            expansion.plan.aggregators.push(Aggregator {
                host,
                class: expansion.class,
                workers,
                opened_by_workers,
                start: Time(now),
                request: self.request,
                rounds: vec![Round { responses: (0..fan_in).map(|_| answer()).collect() }],
                last_port_buffer: buffers[scheduler],
            });
        }
        Ok(())
    }
}
