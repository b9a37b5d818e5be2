//! The ideal model: what a network without queues could do, computed instead of simulated.
//!
//! It is the scheme called Ideal in section IV of the Pulser paper: senders know everything, so that no packet
//! ever waits in the network; waiting at the source is not part of a completion time. Hence
//!
//! - every message completes after its unloaded time, whatever the load;
//! - throughput is that of a fluid: at each moment the messages that have come and are not served share the links
//!   of their paths max-min fairly, and a message is served when all its bytes on the wire are. Messages of one end
//!   of a connection are served one after the other.
//!
//! Network and paths are those of the packet worlds. Stacks, handshakes, losses of wires, buffers and markers play
//! no part. The paper does not say what throughput Ideal has; the fluid is our reading.

mod fluid;
mod rounds;
mod sharing;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use incast_plan::{End, Plan};
use incast_protocols::{Bytes, Duration, Time};
use incast_record::{Flow, Outcome, Run};

use incast_world::rows;
use incast_world::rows::unused_ports;
use incast_world::tie::{Kind, Order};
use incast_world::{Control, Cost, FOREVER, MessageId, NEVER, Refusal, Routes, RunError, Starts, World};

use fluid::{Fluid, Load};
use rounds::Program;
use sharing::{MOST, Share, Slot, UNITS_PER_BPS};

/// What stands in the results for the driver.
const DRIVER: &str = "ideal (computed, no packets)";

/// Instants between two looks at whether somebody wants the run to end.
const REPORT_EVERY: u64 = 256;

/// Something that falls due beside planned messages: numbers of programs and of responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// The last byte of a response has arrived.
    Answered(u32),
    /// An aggregator's first round begins.
    Begin(u32),
    /// The jitter of a request is over.
    Ask(u32),
    /// A worker has its response ready.
    Respond(u32),
}

/// One end of a connection: `2 * connection + end`.
type EndNumber = u32;

/// A message in the fluid.
#[derive(Clone, Copy, Debug)]
struct Served {
    id: MessageId,
    from: EndNumber,
    payload: u64,
    /// From the service of its last bit to its arrival.
    latency: u64,
}

#[derive(Debug)]
struct Computation<'p> {
    plan: &'p Plan,
    routes: Routes,
    capacities: Vec<Share>,
    fluid: Fluid,
    /// By slot of the fluid.
    served: Vec<Option<Served>>,
    /// By end: whether a message of it is in the fluid.
    busy: Vec<bool>,
    /// Messages behind others of the same end.
    waiting: BTreeMap<EndNumber, VecDeque<MessageId>>,
    due: BinaryHeap<Reverse<(u64, Due)>>,
    programs: Vec<Program>,
    flows: Vec<Flow>,
    /// Messages of known size that are not complete.
    unfinished: u64,
    /// Arrival of the last of them.
    finished_at: u64,
    endless: bool,
    /// Nothing at or after this happens.
    horizon: u64,
    /// Payload of everything served, requests too.
    payload: u64,
}

/// The ideal model as a world.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ideal;

impl World for Ideal {
    fn name(&self) -> &'static str {
        "ideal"
    }

    fn summary(&self) -> &'static str {
        "the bound that the Pulser paper calls Ideal: no packets and no queues, max-min fair shares"
    }

    /// Stacks, buffers and markers play no part in the bound, whatever they are; what asks for packets is refused.
    fn refusals(&self, plan: &Plan) -> Vec<Refusal> {
        let mut refusals = Vec::new();
        let mut refuse = |asked: bool, key: &str, why: &str| {
            if asked {
                refusals.push(Refusal::new(key, why));
            }
        };
        let record = &plan.record;
        refuse(!record.queue_series.is_empty(), "record.queue_series", "the ideal world has no queues");
        refuse(!record.window_series.is_empty(), "record.window_series", "the ideal world has no windows");
        let packets = !(record.packets.is_empty() && record.packets_of.is_empty());
        refuse(packets, "record.packets", "the ideal world has no packets");
        refuse(record.events, "record.events", "the ideal world has no packets that could be dropped or marked");
        // Ports that mark EIN are watched by default.
        let watched = !record.incasts.is_empty() && !plan.watches_ein();
        refuse(watched, "record.incasts", "the ideal world has no packets that arrive at ports");
        refusals
    }

    fn cost(&self, plan: &Plan) -> Cost {
        Cost { memory: Cost::PROCESS + plan.memory(), ..Cost::default() }
    }

    fn run(&self, plan: &Plan, control: &Control) -> Result<Run, RunError> {
        run(plan, control)
    }
}

/// Carries out a plan.
///
/// # Errors
/// A network that cannot carry the plan; see [`RunError`].
fn run(plan: &Plan, control: &Control) -> Result<Run, RunError> {
    plan.validate().map_err(RunError::Invalid)?;
    let mut ideal = Computation::new(plan)?;
    if ideal.endless && ideal.unfinished == 0 && plan.stop_at.is_none() {
        return Err(RunError::Endless);
    }
    control.begin(ideal.unfinished);
    let (end, outcome) = ideal.carry_out(control);
    Ok(ideal.finish(end, outcome))
}

impl<'p> Computation<'p> {
    fn new(plan: &'p Plan) -> Result<Self, RunError> {
        let routes = Routes::new(&plan.network)?;
        let capacity = |(number, link): (usize, &incast_plan::Link)| {
            let share = link.rate.0.checked_mul(UNITS_PER_BPS).filter(|&share| share <= MOST);
            share.ok_or_else(|| {
                RunError::Invalid(format!("link {number} is too fast for the ideal model: {}", link.rate))
            })
        };
        let capacities = plan.network.links.iter().enumerate().map(capacity).collect::<Result<Vec<_>, _>>()?;
        let ends = (0..plan.connections.len() as u32).flat_map(|index| [(index, End::Client), (index, End::Server)]);
        let longest = ends.map(|(index, from)| rows::path(plan, &routes, index, from).len()).max();
        let flows: Vec<Flow> = rows::Messages::of(plan).rows(&routes).collect();
        let mut ideal = Self {
            plan,
            fluid: Fluid::new(&capacities, longest.unwrap_or(0)),
            routes,
            capacities,
            served: Vec::new(),
            busy: vec![false; 2 * plan.connections.len()],
            waiting: BTreeMap::new(),
            due: BinaryHeap::new(),
            programs: Vec::new(),
            unfinished: flows.iter().filter(|flow| flow.size.is_some()).count() as u64,
            flows,
            finished_at: 0,
            endless: plan.sends.iter().any(|send| send.size().is_none()),
            horizon: plan.stop_at.map_or(FOREVER, |stop| stop.0.min(FOREVER)),
            payload: 0,
        };
        ideal.add_programs();
        Ok(ideal)
    }

    /// Goes from one instant at which something happens to the next; says how far it came, and why no further.
    fn carry_out(&mut self, control: &Control) -> (u64, Outcome) {
        let mut starts = Starts::new(self.plan, Order::new(self.plan.seed));
        let time_up = self.plan.stop_at.is_some();
        let mut slots = Vec::new();
        for instant in 0_u64.. {
            if self.unfinished == 0 && self.endless && !time_up {
                // What has no end need not go on alone.
                self.horizon = self.finished_at;
            }
            let start = starts.first(self.plan).map_or(NEVER, |(at, _)| at);
            let due = self.due.peek().map_or(NEVER, |Reverse((at, _))| *at);
            let now = start.min(due).min(self.fluid.next_end());
            if now >= self.horizon {
                break;
            }
            if instant.is_multiple_of(REPORT_EVERY) {
                control.report(now, 0, self.unfinished);
                if control.is_cancelled() {
                    return (self.fluid.now(), Outcome::Interrupted);
                }
            }
            self.fluid.run_to(now);
            self.fluid.take_served(&mut slots);
            // All at once, since a later flow may reuse the slot of any of them.
            let served: Vec<Served> = slots.drain(..).filter_map(|slot| self.served[slot as usize].take()).collect();
            for served in served {
                self.finish_service(now, &served);
            }
            while let Some((at, entity)) = starts.first(self.plan)
                && at == now
            {
                starts.pop();
                if let Kind::Send(index) = entity.kind() {
                    self.hand_over(MessageId::Flow(index));
                }
            }
            while let Some(&Reverse((at, due))) = self.due.peek()
                && at == now
            {
                self.due.pop();
                self.fall_due(now, due);
            }
            self.fluid.share_out();
        }
        let complete = self.unfinished == 0 && !(time_up && self.endless);
        let end = match (complete, self.horizon) {
            (true, _) => self.finished_at,
            // Something is never served: links of no rate to speak of.
            (false, FOREVER) => self.fluid.now(),
            (false, horizon) => horizon,
        };
        self.fluid.run_to(end);
        control.report(end, 0, self.unfinished);
        (end, if complete { Outcome::Complete } else { Outcome::TimeUp })
    }

    /// An application hands a message to its socket.
    fn hand_over(&mut self, id: MessageId) {
        let (connection, from, _) = self.facts_of(id);
        let end = 2 * connection + u32::from(from == End::Server);
        if self.busy[end as usize] {
            self.waiting.entry(end).or_default().push_back(id);
        } else {
            self.busy[end as usize] = true;
            self.serve(id);
        }
    }

    fn serve(&mut self, id: MessageId) {
        let (connection, from, size) = self.facts_of(id);
        let tcp = &self.plan.classes[self.plan.connections[connection as usize].class as usize].tcp;
        let path = rows::path(self.plan, &self.routes, connection, from);
        let load = Load::new(size.map(|size| size.0), tcp.mss.0, tcp.header.0);
        let alone = path.iter().map(|&link| self.capacities[link as usize]).min().unwrap_or(MOST);
        let unloaded = size.map(|size| rows::unloaded(self.plan, connection, &path, size));
        let served = Served {
            id,
            from: 2 * connection + u32::from(from == End::Server),
            payload: load.payload,
            latency: unloaded.map_or(0, |time| time.0.saturating_sub(load.time_at(alone))),
        };
        let slot = self.fluid.add(&path, load) as usize;
        if slot == self.served.len() {
            self.served.push(None);
        }
        self.served[slot] = Some(served);
    }

    /// The last bit of a message has been served.
    fn finish_service(&mut self, now: u64, served: &Served) {
        self.payload += served.payload;
        let arrival = now.saturating_add(served.latency);
        match served.id {
            MessageId::Request(response) => self.request_arrives(arrival, response),
            MessageId::Flow(number) => {
                let completion = self.completion_time(number);
                let flow = &mut self.flows[number as usize];
                flow.delivered = Bytes(served.payload);
                if arrival < self.horizon {
                    flow.end = Some(Time(flow.start.0 + completion.0));
                    flow.fluid_end = Some(Time(now));
                    self.unfinished -= 1;
                    self.finished_at = self.finished_at.max(arrival);
                }
                if let Some(response) = number.checked_sub(self.plan.sends.len() as u32) {
                    self.due.push(Reverse((arrival, Due::Answered(response))));
                }
            }
        }
        match self.waiting.get_mut(&served.from).and_then(VecDeque::pop_front) {
            Some(next) => self.serve(next),
            None => self.busy[served.from as usize] = false,
        }
    }

    /// Connection, sending end and size of a message.
    fn facts_of(&self, id: MessageId) -> (u32, End, Option<Bytes>) {
        match id {
            MessageId::Request(response) => self.request(response),
            MessageId::Flow(number) => {
                if let Some(send) = self.plan.sends.get(number as usize) {
                    return (send.connection, send.from, send.size());
                }
                let (connection, from) = self.response(number - self.plan.sends.len() as u32);
                (connection, from, self.flows[number as usize].size)
            }
        }
    }

    /// From the start of a message to its last byte's arrival, if nothing ever waits.
    fn completion_time(&self, number: u32) -> Duration {
        let unloaded = self.flows[number as usize].ideal.unwrap_or_default();
        match number.checked_sub(self.plan.sends.len() as u32) {
            Some(response) => self.unloaded_until_response(response) + unloaded,
            None => unloaded,
        }
    }

    fn finish(mut self, end: u64, outcome: Outcome) -> Run {
        for (slot, served) in self.served.iter().enumerate() {
            let Some(served) = served else { continue };
            let payload = self.fluid.payload_of(slot as Slot);
            self.payload += payload;
            if let MessageId::Flow(flow) = served.id {
                self.flows[flow as usize].delivered = Bytes(payload);
            }
        }
        Run {
            name: self.plan.name.clone(),
            seed: self.plan.seed,
            driver: DRIVER.to_owned(),
            classes: self.plan.classes.iter().map(|class| class.name.clone()).collect(),
            warnings: self.plan.warnings.clone(),
            end: Time(end),
            outcome,
            flows: self.flows.into(),
            ports: unused_ports(&self.plan.network),
            delivered: self.fluid.finish(self.payload),
            // Nothing is known of packets.
            ..Run::default()
        }
    }
}
