//! Aggregators that ask their workers round by round, and workers that answer.

use std::collections::BTreeMap;

use incast_plan::End;
use incast_protocols::application::{Application, Grant, Outcome, Request, RequestId};
use incast_protocols::{Bytes, Message, Time};

use super::{NONE, Schedule, World};
use crate::observe::Observer;
use crate::packet::{Flags, Packet};
use crate::tcp::{MessageId, NEVER, Span};
use incast_world::tie::{Entity, Kind};

/// An aggregator while it runs.
#[derive(Debug)]
pub(crate) struct Program<A> {
    pub(super) scheduler: A,
    /// Its first response among all responses.
    pub(super) first: u32,
    pub(super) round: u32,
    /// Responses of the round that are not complete.
    missing: u32,
    /// Segments beyond a gap that its sockets have counted since the scheduler was last told.
    out_of_order: u64,
    scheduled_at: u64,
    /// Leave to ask for the responses that are outstanding.
    grants: BTreeMap<u32, Grant>,
    /// Whether the scheduler is told of all payload that arrives.
    watches: bool,
    /// The receive window of its connections, if the scheduler limits it.
    window: Option<Bytes>,
}

impl<A: Application> Program<A> {
    pub(super) fn new(scheduler: A, first: u32) -> Self {
        Self {
            first,
            round: 0,
            missing: 0,
            out_of_order: 0,
            scheduled_at: NEVER,
            grants: BTreeMap::new(),
            watches: scheduler.watches_progress(),
            window: scheduler.window(),
            scheduler,
        }
    }
}

impl<O: Observer> World<'_, O> {
    /// The aggregator, round and worker of a response.
    fn locate(&self, response: u32) -> (u32, usize, usize) {
        let program = self.programs.partition_point(|program| program.first <= response) - 1;
        let workers = self.plan.aggregators[program].workers.len();
        let local = (response - self.programs[program].first) as usize;
        (program as u32, local / workers, local % workers)
    }

    fn connection_of(&self, response: u32) -> u32 {
        let (program, _, worker) = self.locate(response);
        self.plan.aggregators[program as usize].workers[worker]
    }

    pub(super) fn asker_of(&self, response: u32) -> u32 {
        self.plan.connections[self.connection_of(response) as usize].client
    }

    pub(super) fn worker_of(&self, response: u32) -> u32 {
        self.plan.connections[self.connection_of(response) as usize].server
    }

    /// Responses follow the planned messages among the flows.
    pub(super) fn flow_of(&self, response: u32) -> u32 {
        self.plan.sends.len() as u32 + response
    }

    #[cold]
    pub(super) fn count_out_of_order(&mut self, packet: &Packet) {
        let end = if packet.flags.has(Flags::FROM_CLIENT) { End::Server } else { End::Client };
        if let Some(program) = self.aggregator_at(packet.connection, end) {
            self.programs[program as usize].out_of_order += 1;
        }
    }

    /// The aggregator at this end of a connection.
    pub(super) fn aggregator_at(&self, connection: u32, end: End) -> Option<u32> {
        let program = self.program_of.get(connection as usize).copied().filter(|program| *program != NONE)?;
        let connection = &self.plan.connections[connection as usize];
        let host = if end == End::Client { connection.client } else { connection.server };
        (host == self.plan.aggregators[program as usize].host).then_some(program)
    }

    /// The window to which an aggregator limits this end of its connection.
    pub(super) fn window_of_program(&self, connection: u32, end: End) -> Option<Bytes> {
        self.programs[self.aggregator_at(connection, end)? as usize].window
    }

    /// Payload arrived at an end.
    #[cold]
    pub(super) fn note_progress(&mut self, now: u64, packet: &Packet, delivered: u64) {
        let end = if packet.flags.has(Flags::FROM_CLIENT) { End::Server } else { End::Client };
        if let Some(program) = self.aggregator_at(packet.connection, end)
            && self.programs[program as usize].watches
        {
            let state = &mut self.programs[program as usize];
            state.scheduler.on_progress(Time(now), Bytes(delivered));
        }
    }

    /// A round begins: every worker's request is wanted, now or after its jitter.
    pub(super) fn begin_round(&mut self, now: u64, program: u32, schedule: &mut impl Schedule) {
        let aggregator = &self.plan.aggregators[program as usize];
        let state = &mut self.programs[program as usize];
        let round = state.round as usize;
        let Some(work) = aggregator.rounds.get(round) else { return };
        state.missing = work.responses.len() as u32;
        let first = state.first + (round * aggregator.workers.len()) as u32;
        for (worker, response) in work.responses.iter().enumerate() {
            let number = first + worker as u32;
            let flow = self.flow_of(number);
            let row = self.messages.row(&self.routes, flow);
            row.begin = Time(now);
            // The deadline of a response counts from the start of its round.
            row.deadline = response.message.deadline.map(|deadline| Time(now + deadline.0));
            if response.jitter.0 == 0 {
                self.want(now, number);
            } else {
                schedule.arm(now + response.jitter.0, aggregator.host, Entity::of(Kind::Ask(number)));
            }
        }
        self.run_scheduler(now, program, schedule);
    }

    fn want(&mut self, now: u64, response: u32) {
        let (program, round, worker) = self.locate(response);
        let aggregator = &self.plan.aggregators[program as usize];
        let expected = aggregator.rounds[round].responses[worker].message.size;
        let buffer = self.plan.classes[aggregator.class as usize].tcp.receive_buffer;
        let state = &mut self.programs[program as usize];
        let id = RequestId(u64::from(response - state.first));
        let window = Some(state.window.map_or(buffer, |window| window.min(buffer)));
        state.scheduler.on_request(Time(now), Request { id, expected, window });
    }

    /// The jitter of a request is over.
    pub(super) fn ask(&mut self, now: u64, response: u32, schedule: &mut impl Schedule) {
        self.want(now, response);
        let (program, _, _) = self.locate(response);
        self.run_scheduler(now, program, schedule);
    }

    /// Sends the requests that the scheduler lets go.
    fn run_scheduler(&mut self, now: u64, program: u32, schedule: &mut impl Schedule) {
        self.limit_windows(program);
        while let Some(grant) = self.programs[program as usize].scheduler.poll(Time(now)) {
            let response = self.programs[program as usize].first + grant.id().0 as u32;
            self.programs[program as usize].grants.insert(response, grant);
            let flow = self.flow_of(response);
            self.messages.row(&self.routes, flow).start = Time(now);
            let request = Message { size: Some(self.plan.aggregators[program as usize].request), ..Message::default() };
            let connection = self.connection_of(response);
            self.hand_over(now, connection, End::Client, MessageId::Request(response), request.size, request, schedule);
        }
        let state = &mut self.programs[program as usize];
        if let Some(Time(at)) = state.scheduler.next_timer()
            && at < state.scheduled_at
        {
            state.scheduled_at = at;
            let host = self.plan.aggregators[program as usize].host;
            schedule.arm(at, host, Entity::of(Kind::Scheduler(program)));
        }
    }

    /// Has the connections announce what the scheduler wants from now on.
    fn limit_windows(&mut self, program: u32) {
        let window = self.programs[program as usize].scheduler.window();
        if std::mem::replace(&mut self.programs[program as usize].window, window) == window {
            return;
        }
        let aggregator = &self.plan.aggregators[program as usize];
        for worker in 0..aggregator.workers.len() {
            let (connection, from) = aggregator.responds_on(worker);
            let index = self.ends_of[connection as usize][usize::from(from == End::Client)];
            if index != NONE {
                self.endpoints[index as usize].receive.limit = window;
            }
        }
    }

    pub(super) fn fire_scheduler(&mut self, now: u64, program: u32, schedule: &mut impl Schedule) {
        let state = &mut self.programs[program as usize];
        if state.scheduled_at != now {
            return;
        }
        state.scheduled_at = NEVER;
        if state.scheduler.next_timer().is_some_and(|at| at.0 <= now) {
            let out_of_order = std::mem::take(&mut state.out_of_order);
            state.scheduler.on_timer(Time(now), out_of_order);
        }
        self.run_scheduler(now, program, schedule);
    }

    /// What belongs to a response, with the deadline that its round gave it.
    pub(super) fn response_facts(&mut self, response: u32) -> Message {
        let (program, round, worker) = self.locate(response);
        let message = self.plan.aggregators[program as usize].rounds[round].responses[worker].message;
        let flow = self.flow_of(response);
        Message { deadline: self.messages.row(&self.routes, flow).deadline, ..message }
    }

    /// A worker has its response ready.
    pub(super) fn respond(&mut self, now: u64, response: u32, schedule: &mut impl Schedule) {
        let message = self.response_facts(response);
        let (program, _, worker) = self.locate(response);
        let flow = self.flow_of(response);
        let (connection, from) = self.plan.aggregators[program as usize].responds_on(worker);
        self.hand_over(now, connection, from, MessageId::Flow(flow), message.size, message, schedule);
    }

    /// The last byte of a message has arrived.
    #[cold]
    pub(super) fn complete(&mut self, now: u64, index: u32, span: &Span, schedule: &mut impl Schedule) {
        self.tell_controller_of_completion(now, index);
        match span.id {
            MessageId::Request(response) => {
                let (program, round, worker) = self.locate(response);
                let service = self.plan.aggregators[program as usize].rounds[round].responses[worker].service_time;
                let host = self.endpoints[index as usize].host;
                schedule.arm(now + service.0, host, Entity::of(Kind::Respond(response)));
            }
            MessageId::Flow(flow) => {
                let row = self.messages.row(&self.routes, flow);
                row.end = Some(Time(now));
                let received = Bytes(span.end - span.start);
                row.delivered = received;
                self.unfinished -= 1;
                self.finished_at = self.finished_at.max(now);
                if self.messages.completed(flow) {
                    self.let_go_of_messages();
                }
                let planned = self.plan.sends.len() as u32;
                if flow >= planned {
                    self.response_finished(now, flow - planned, received, schedule);
                }
            }
        }
    }

    fn response_finished(&mut self, now: u64, response: u32, received: Bytes, schedule: &mut impl Schedule) {
        let (program, _, _) = self.locate(response);
        let state = &mut self.programs[program as usize];
        let out_of_order = std::mem::take(&mut state.out_of_order);
        let received = if state.watches { Bytes::ZERO } else { received };
        if let Some(grant) = state.grants.remove(&response) {
            state.scheduler.on_finished(Time(now), grant, Outcome { received, out_of_order });
        }
        state.missing -= 1;
        if state.missing == 0 {
            state.round += 1;
            self.begin_round(now, program, schedule);
        }
        self.run_scheduler(now, program, schedule);
    }
}
