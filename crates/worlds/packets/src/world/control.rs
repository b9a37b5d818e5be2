//! NICs with a receiver controller: registering flows, gating ACKs, carrying out actions.

use incast_plan::End;
use incast_protocols::receiver::{AckCause, Action, Arrival, FlowIndex, Gate, Receiver, SentAck};
use incast_protocols::{Bytes, Offset, Time};

use super::{NONE, Schedule, World};
use crate::observe::Observer;
use crate::packet::{Flags, Packet};
use crate::tcp::endpoint::Arrived;
use crate::tcp::{NEVER, State, unwrap};
use incast_world::tie::{Entity, Kind};

/// A host's network interface.
#[derive(Debug)]
pub(crate) struct Nic<R> {
    pub(super) controller: Option<R>,
    /// By flow index: the endpoint.
    flows: Vec<u32>,
    free: Vec<u32>,
    scheduled_at: u64,
}

impl<R> Nic<R> {
    pub(super) const fn new(controller: Option<R>) -> Self {
        Self { controller, flows: Vec::new(), free: Vec::new(), scheduled_at: NEVER }
    }
}

impl<O: Observer> World<'_, O> {
    /// Makes an end that will receive data known to its NIC's controller, if there is an active one.
    pub(super) fn register(&mut self, now: u64, index: u32) {
        let only_answers = self.only_answers_arrive(index);
        let endpoint = &mut self.endpoints[index as usize];
        let peer_writes = self.to_write[endpoint.template.connection as usize][usize::from(endpoint.is_client())] > 0;
        let nic = &mut self.nics[endpoint.host as usize];
        let Some(controller) = &mut nic.controller else { return };
        if !peer_writes || endpoint.flow.is_some() {
            return;
        }
        let flow = nic.free.pop().unwrap_or_else(|| {
            nic.flows.push(NONE);
            nic.flows.len() as u32 - 1
        });
        nic.flows[flow as usize] = index;
        endpoint.flow = Some(FlowIndex(flow));
        endpoint.fixed_window = controller.fixed_window();
        controller.on_open(Time(now), FlowIndex(flow));
        if only_answers {
            controller.on_answers_only(FlowIndex(flow));
        }
    }

    /// Whether what arrives at an end are responses to requests that it sends on the same connection.
    fn only_answers_arrive(&self, index: u32) -> bool {
        let endpoint = &self.endpoints[index as usize];
        let end = if endpoint.is_client() { End::Client } else { End::Server };
        let program = self.aggregator_at(endpoint.template.connection, end);
        program.is_some_and(|program| self.plan.aggregators[program as usize].opened_by_workers.is_empty())
    }

    pub(super) fn unregister(&mut self, now: u64, index: u32) {
        let endpoint = &mut self.endpoints[index as usize];
        let nic = &mut self.nics[endpoint.host as usize];
        let (Some(flow), Some(controller)) = (endpoint.flow.take(), &mut nic.controller) else { return };
        controller.on_close(Time(now), flow);
        nic.flows[flow.0 as usize] = NONE;
        nic.free.push(flow.0);
    }

    /// Tells the controller what a segment brought.
    #[cold]
    pub(super) fn tell_controller(&mut self, now: u64, index: u32, packet: &Packet, arrived: &Arrived) {
        if arrived.opened {
            self.register(now, index);
        }
        let endpoint = &mut self.endpoints[index as usize];
        let nic = &mut self.nics[endpoint.host as usize];
        let (Some(flow), Some(controller)) = (endpoint.flow, &mut nic.controller) else { return };
        let now = Time(now);
        let receive = &mut endpoint.receive;
        if packet.flags.has(Flags::MESSAGE) {
            let start = if packet.flags.has(Flags::SYN) { 0 } else { unwrap(receive.next, packet.sequence) };
            if let Some(span) = receive.introduce(start) {
                controller.on_message(now, flow, &span.facts);
            }
        }
        let Some(data) = arrived.data.filter(|_| packet.payload > 0) else { return };
        controller.on_data(
            now,
            flow,
            &Arrival {
                start: Offset(data.start),
                payload: Bytes(u64::from(packet.payload)),
                new: Bytes(data.new),
                expected: Offset(receive.next),
                delivered: Bytes(data.delivered),
                beyond_gap: Bytes(receive.beyond_gap.bytes()),
                highest: Offset(receive.highest),
                marks: packet.marks(),
            },
        );
    }

    /// A request for this response is about to leave.
    pub(super) fn tell_controller_of_request(&mut self, now: u64, index: u32, response: u32) {
        let Some(flow) = self.endpoints[index as usize].flow else { return };
        let facts = self.response_facts(response);
        let host = self.endpoints[index as usize].host;
        if let Some(controller) = &mut self.nics[host as usize].controller {
            controller.on_request(Time(now), flow, &facts);
        }
    }

    /// A message has arrived whole.
    pub(super) fn tell_controller_of_completion(&mut self, now: u64, index: u32) {
        let endpoint = &self.endpoints[index as usize];
        let nic = &mut self.nics[endpoint.host as usize];
        if let (Some(flow), Some(controller)) = (endpoint.flow, &mut nic.controller) {
            controller.on_complete(Time(now), flow);
        }
    }

    /// An ACK wants to leave.
    #[inline]
    pub(super) fn request_ack(&mut self, now: u64, index: u32, cause: AckCause) {
        if self.endpoints[index as usize].flow.is_some() && self.is_gated(now, index, cause) {
            return;
        }
        self.send_ack(now, index, cause);
    }

    #[cold]
    fn is_gated(&mut self, now: u64, index: u32, cause: AckCause) -> bool {
        let endpoint = &mut self.endpoints[index as usize];
        let nic = &mut self.nics[endpoint.host as usize];
        let (Some(flow), Some(controller)) = (endpoint.flow, &mut nic.controller) else { return false };
        if controller.gate(Time(now), flow, cause) == Gate::Open {
            return false;
        }
        endpoint.receive.hold();
        true
    }

    /// Builds an ACK with what is true now.
    #[inline]
    pub(super) fn send_ack(&mut self, now: u64, index: u32, cause: AckCause) {
        let endpoint = &mut self.endpoints[index as usize];
        let tcp = &self.plan.classes[endpoint.class as usize].tcp;
        let nic = &mut self.nics[endpoint.host as usize];
        let control = endpoint.flow.zip(nic.controller.as_mut());
        match control {
            None => {
                endpoint.acknowledge(tcp, None, cause, &mut self.out);
            }
            Some((flow, controller)) => {
                let window = controller.window(Time(now), flow);
                let (ack, edge) = endpoint.acknowledge(tcp, window, cause, &mut self.out);
                controller.on_ack_sent(Time(now), flow, &SentAck { ack, edge, cause });
            }
        }
        if cause == AckCause::SynAck {
            endpoint.syn_ack_sent(now);
        }
    }

    /// Lets every controller act on what was set up before the run.
    pub(crate) fn start(&mut self, schedule: &mut impl Schedule) {
        for host in 0..self.nics.len() as u32 {
            self.run_controller(0, host, schedule);
        }
    }

    /// As [`run_controller`](Self::run_controller), for the NIC of an end that it knows.
    #[inline]
    pub(super) fn run_controller_of(&mut self, now: u64, index: u32, schedule: &mut impl Schedule) {
        let endpoint = &self.endpoints[index as usize];
        if endpoint.flow.is_some() {
            self.run_controller(now, endpoint.host, schedule);
        }
    }

    /// Carries out what a controller wants until it wants nothing more.
    pub(super) fn run_controller(&mut self, now: u64, host: u32, schedule: &mut impl Schedule) {
        loop {
            let nic = &mut self.nics[host as usize];
            let Some(controller) = &mut nic.controller else { return };
            let Some(action) = controller.poll(Time(now)) else { break };
            let (flow, forced, only_held) = match action {
                Action::Release(flow) => (flow, false, true),
                Action::UpdateWindow(flow) => (flow, false, false),
                Action::ForceRetransmission(flow) => (flow, true, false),
            };
            let Some(&index) = nic.flows.get(flow.0 as usize).filter(|index| **index != NONE) else { continue };
            let endpoint = &self.endpoints[index as usize];
            // Before the handshake is through there is nothing to announce but by the SYN-ACK itself.
            let early = matches!(endpoint.state, State::Closed | State::SynSent | State::SynReceived);
            if (only_held || early) && !endpoint.receive.held {
                continue;
            }
            let cause = match endpoint.state {
                State::SynReceived => AckCause::SynAck,
                _ if forced => AckCause::Forced,
                _ => AckCause::Data,
            };
            self.send_ack(now, index, cause);
            self.settle(now, index, schedule);
        }
        let nic = &mut self.nics[host as usize];
        if let Some(Time(at)) = nic.controller.as_ref().and_then(Receiver::next_timer)
            && at < nic.scheduled_at
        {
            nic.scheduled_at = at;
            schedule.arm(at, host, Entity::of(Kind::Nic(host)));
        }
    }

    pub(super) fn fire_controller(&mut self, now: u64, host: u32, schedule: &mut impl Schedule) {
        let nic = &mut self.nics[host as usize];
        if nic.scheduled_at != now {
            return;
        }
        nic.scheduled_at = NEVER;
        if let Some(controller) = &mut nic.controller
            && controller.next_timer().is_some_and(|at| at.0 <= now)
        {
            controller.on_timer(Time(now));
        }
        self.run_controller(now, host, schedule);
    }
}

impl<O: Observer> World<'_, O> {
    /// The window a peer knows of before this end has acknowledged anything: by the SYN, or because its connection
    /// was set up before the run.
    pub(super) fn first_grant(&mut self, now: u64, index: u32) -> Bytes {
        let endpoint = &mut self.endpoints[index as usize];
        let tcp = &self.plan.classes[endpoint.class as usize].tcp;
        let nic = &mut self.nics[endpoint.host as usize];
        let control = endpoint.flow.zip(nic.controller.as_mut());
        let Some((flow, controller)) = control else {
            let (ack, edge) = endpoint.receive.announce(tcp, tcp.receive_buffer.0);
            return Bytes(edge - ack);
        };
        let window = controller.window(Time(now), flow).unwrap_or(tcp.receive_buffer).min(tcp.receive_buffer);
        let (ack, edge) = endpoint.receive.announce(tcp, window.0);
        let sent = SentAck { ack: Offset(ack), edge: Offset(edge), cause: AckCause::SynAck };
        controller.on_ack_sent(Time(now), flow, &sent);
        Bytes(edge - ack)
    }
}
