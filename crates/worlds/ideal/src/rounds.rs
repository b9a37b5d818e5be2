//! Aggregators in the ideal model: a request is served like any message, the response follows after the service
//! time, and the next round when the last response has arrived. Every request leaves as soon as it is wanted: who
//! knows everything needs no scheduler.

use std::cmp::Reverse;

use incast_plan::{Aggregator, End, Response};
use incast_protocols::{Bytes, Duration, Time};

use super::{Computation, Due};
use incast_world::MessageId;
use incast_world::rows;

/// An aggregator while it runs.
#[derive(Debug)]
pub(super) struct Program {
    /// Its first response among all responses.
    first: u32,
    round: usize,
    /// Responses of the round that have not arrived.
    missing: usize,
}

impl Computation<'_> {
    pub(super) fn add_programs(&mut self) {
        let mut first = 0;
        for (number, aggregator) in (0..).zip(&self.plan.aggregators) {
            self.programs.push(Program { first, round: 0, missing: 0 });
            self.due.push(Reverse((aggregator.start.0, Due::Begin(number))));
            first += (aggregator.rounds.len() * aggregator.workers.len()) as u32;
        }
    }

    pub(super) fn fall_due(&mut self, now: u64, due: Due) {
        match due {
            Due::Begin(program) => self.begin_round(now, program as usize),
            Due::Ask(response) => {
                let flow = self.flow_of(response);
                self.flows[flow].start = Time(now);
                self.hand_over(MessageId::Request(response));
            }
            Due::Respond(response) => self.hand_over(MessageId::Flow(self.flow_of(response) as u32)),
            Due::Answered(response) => {
                let program = self.program_of(response);
                let state = &mut self.programs[program];
                state.missing -= 1;
                if state.missing == 0 {
                    state.round += 1;
                    self.begin_round(now, program);
                }
            }
        }
    }

    fn begin_round(&mut self, now: u64, program: usize) {
        let aggregator = &self.plan.aggregators[program];
        let state = &mut self.programs[program];
        let Some(round) = aggregator.rounds.get(state.round) else { return };
        state.missing = round.responses.len();
        let first = state.first + (state.round * aggregator.workers.len()) as u32;
        for (number, response) in (first..).zip(&round.responses) {
            // The deadline of a response counts from the start of its round.
            let deadline = response.message.deadline.map(|deadline| Time(now + deadline.0));
            let flow = self.flow_of(number);
            self.flows[flow].begin = Time(now);
            self.flows[flow].deadline = deadline;
            self.due.push(Reverse((now + response.jitter.0, Due::Ask(number))));
        }
    }

    pub(super) fn request_arrives(&mut self, now: u64, response: u32) {
        let service = self.locate(response).2.service_time;
        self.due.push(Reverse((now.saturating_add(service.0), Due::Respond(response))));
    }

    /// Connection, sending end and size of the request for a response.
    pub(super) fn request(&self, response: u32) -> (u32, End, Option<Bytes>) {
        let (aggregator, worker, _) = self.locate(response);
        (aggregator.workers[worker], End::Client, Some(aggregator.request))
    }

    /// The connection of a response, and who sends it.
    pub(super) fn response(&self, response: u32) -> (u32, End) {
        let (aggregator, worker, _) = self.locate(response);
        aggregator.responds_on(worker)
    }

    /// From the issue of a request to the moment at which the response is ready, if nothing ever waits.
    pub(super) fn unloaded_until_response(&self, response: u32) -> Duration {
        let (aggregator, _, work) = self.locate(response);
        let (connection, from, _) = self.request(response);
        let path = rows::path(self.plan, &self.routes, connection, from);
        rows::unloaded(self.plan, connection, &path, aggregator.request) + work.service_time
    }

    /// Responses follow the planned messages among the flows.
    const fn flow_of(&self, response: u32) -> usize {
        self.plan.sends.len() + response as usize
    }

    fn program_of(&self, response: u32) -> usize {
        self.programs.partition_point(|program| program.first <= response) - 1
    }

    /// The aggregator of a response, its worker there, and what is wanted of that.
    fn locate(&self, response: u32) -> (&Aggregator, usize, &Response) {
        let program = self.program_of(response);
        let aggregator = &self.plan.aggregators[program];
        let local = (response - self.programs[program].first) as usize;
        let (round, worker) = (local / aggregator.workers.len(), local % aggregator.workers.len());
        (aggregator, worker, &aggregator.rounds[round].responses[worker])
    }
}
