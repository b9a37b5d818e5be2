//! Aggregators that ask their workers round by round.

use std::collections::BTreeMap;

use incast_plan::Plan;
use incast_protocols::Duration;
use incast_protocols::analysis::batch::Bottleneck;
use incast_protocols::application::{AnyApplication, Application, ApplicationContext, Grant};
use incast_world::{Routes, rows};

/// An aggregator while it runs.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) scheduler: AnyApplication,
    /// Its first response among all responses.
    pub(crate) first: u32,
    pub(crate) round: u32,
    /// Responses of the round that are not complete.
    pub(crate) missing: u32,
    /// Segments beyond a gap that its sockets had counted when the scheduler was last told.
    pub(crate) out_of_order: u64,
    /// Leave to ask for the responses that are outstanding.
    pub(crate) grants: BTreeMap<u32, Grant>,
    /// Whether the scheduler is told of all payload that arrives.
    pub(crate) watches: bool,
}

/// The aggregators of a plan, with schedulers that know what a scenario's do.
pub(crate) fn of(plan: &Plan, routes: &Routes) -> Vec<Program> {
    let mut first = 0;
    let mut programs = Vec::new();
    for aggregator in &plan.aggregators {
        let class = &plan.classes[aggregator.class as usize];
        let links = &plan.network.links;
        let port = &links[routes.downlink[aggregator.host as usize] as usize];
        let base_rtt = aggregator.workers.first().map_or(Duration::ZERO, |&connection| {
            use incast_plan::End::{Client, Server};
            let ends = [Client, Server];
            let path = ends.into_iter().flat_map(|from| rows::path(plan, routes, connection, from));
            Duration(path.map(|link| links[link as usize].delay.0).sum())
        });
        let bottleneck =
            Bottleneck { rate: port.rate, base_rtt, buffer: aggregator.last_port_buffer, mss: class.tcp.mss };
        let workers = u32::try_from(aggregator.workers.len()).ok();
        let context = ApplicationContext { bottleneck, workers, rto_min: class.tcp.rto_min };
        let scheduler = class.stack.application.build(&context);
        programs.push(Program {
            first,
            round: 0,
            missing: 0,
            out_of_order: 0,
            grants: BTreeMap::new(),
            watches: scheduler.watches_progress(),
            scheduler,
        });
        first += (aggregator.rounds.len() * aggregator.workers.len()) as u32;
    }
    programs
}

/// The aggregator, round and worker of a response.
pub(crate) fn locate(programs: &[Program], plan: &Plan, response: u32) -> (usize, usize, usize) {
    let program = programs.partition_point(|program| program.first <= response) - 1;
    let workers = plan.aggregators[program].workers.len();
    let local = (response - programs[program].first) as usize;
    (program, local / workers, local % workers)
}
