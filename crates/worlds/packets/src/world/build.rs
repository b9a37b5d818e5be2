//! Building the world of a plan.

use std::collections::{BTreeMap, BinaryHeap};

use incast_plan::{Class, End, Handshake, HostNoise, Network, Node, Plan, Tcp, WindowScaling};
use incast_protocols::analysis::batch::Bottleneck;
use incast_protocols::application::{Application, ApplicationContext};
use incast_protocols::echo::EchoContext;
use incast_protocols::receiver::{LastPort, NicContext, Receiver};
use incast_protocols::sender::{PathFacts, Sender, SenderContext};
use incast_protocols::switch::Quiet;
use incast_protocols::switch::buffer::capacity::port_limit;
use incast_protocols::switch::buffer::{AnyBuffer, Buffer, BufferContext, PortIndex};
use incast_protocols::switch::marker::{AnyMarker, Marker, MarkerContext};
use incast_protocols::switch::scheduler::SchedulerContext;
use incast_protocols::{Bytes, Duration, Priority, Rate};
use incast_record::{Spill, Totals};

use super::columns::Columns;
use super::control::Nic;
use super::coupled::Coupled;
use super::messages::Messages;
use super::programs::Program;
use super::{AnyEndpoint, Counted, NONE, Target, World};
use crate::classes::Classes;
use crate::link::{Impairment, Link, Port};
use crate::noise::{Delays, Receiving};
use crate::observe::Observer;
use crate::packet::{Flags, Packet, Way, Ways};
use crate::tcp::clock::Clock;
use crate::tcp::{Endpoint, Outbox};
use incast_world::Curve;
use incast_world::Routes;
use incast_world::RunError;
use incast_world::random::{Purpose, stream};
use incast_world::rows;
use incast_world::tie::Order;

/// Ports, targets, buffers, and by switch the ports that share memory.
type Ports = (Vec<Link<AnyMarker>>, Vec<Target>, Vec<AnyBuffer>, Vec<Option<Coupled>>);

fn ports<O: Observer>(network: &Network, seed: u64, observer: &O) -> Ports {
    let mut count = vec![0; network.switches.len()];
    for link in &network.links {
        if let Node::Switch(switch) = link.from {
            count[switch as usize] += 1;
        }
    }
    let mut buffers = Vec::new();
    let mut first_buffer = Vec::new();
    for (switch, ports) in network.switches.iter().zip(count) {
        first_buffer.push(buffers.len() as u32);
        buffers.extend(switch.buffers.iter().map(|choice| choice.build(&BufferContext { ports })));
    }
    let mut next_port = vec![0; network.switches.len()];
    // By switch: memories and the links behind the ports that share them.
    let mut shared = vec![BTreeMap::<u32, Vec<u32>>::new(); network.switches.len()];
    let count = network.links.len();
    let (mut links, mut targets) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for (number, link) in network.links.iter().enumerate() {
        let (mut admits, mut classes) = (Quiet::ALWAYS, None);
        let port = match (link.from, &link.port) {
            (Node::Switch(switch), Some(port)) => {
                let switch = switch as usize;
                let index = PortIndex(next_port[switch]);
                next_port[switch] += 1;
                let buffer = first_buffer[switch] + port.buffer;
                let shares = buffers[buffer as usize].couples_ports();
                if shares {
                    shared[switch].entry(buffer).or_default().push(number as u32);
                }
                admits = buffers[buffer as usize].quiet();
                classes = Classes::new(port.scheduler.build(&SchedulerContext {}));
                let random = stream(seed, Purpose::Port, number as u64);
                let marker = port.marker.build(&MarkerContext { rate: link.rate, random });
                Some(Port::new(marker, buffer, index, shares))
            }
            _ => None,
        };
        let impairment = (link.loss > 0.0 || link.reorder.is_some()).then(|| Impairment {
            loss: link.loss,
            reorder: link.reorder,
            random: stream(seed, Purpose::Link, number as u64),
        });
        let mut link_and_port = Link::new(link.rate, link.delay.0, port, admits, classes, impairment);
        link_and_port.set_burst(link.burst);
        if matches!(link.to, Node::Host(_)) && !network.noise.receiving.is_none() {
            let delays = Delays::new(stream(seed, Purpose::Receiving, number as u64));
            let HostNoise { receiving: noise, per, .. } = network.noise.clone();
            link_and_port.set_receiving(Receiving { delays, noise, per });
        }
        if observer.watches(number as u32) || observer.follows(number as u32) {
            link_and_port.watch();
        }
        if observer.wants_queues() {
            link_and_port.keep_queue();
        }
        links.push(link_and_port);
        targets.push(match link.to {
            Node::Host(host) => Target::Host(host),
            Node::Switch(switch) => Target::Switch(switch),
        });
    }
    let coupled = shared.into_iter().map(|memories| coupled(memories, &links, &buffers)).collect();
    (links, targets, buffers, coupled)
}

/// Ports of one switch, by the memory that they share.
fn coupled(memories: BTreeMap<u32, Vec<u32>>, links: &[Link<AnyMarker>], buffers: &[AnyBuffer]) -> Option<Coupled> {
    let one = memories.len() == 1;
    let (memory, ports) = memories.into_iter().next()?;
    let can_go_apart = one && ports.iter().all(|&link| links[link as usize].can_go_apart());
    Some(Coupled::new(memory, ports, buffers[memory as usize].ample(), can_go_apart))
}

/// By buffer and number of the port: the link behind it.
fn links_of_ports<M: Marker>(links: &[Link<M>]) -> BTreeMap<(u32, PortIndex), u32> {
    let ports = (0..).zip(links).filter_map(|(number, link)| Some((link.port.as_ref()?, number)));
    ports.map(|(port, number)| ((port.buffer, port.index), number)).collect()
}

/// By connection: the class of service of its packets, in both directions. It is the highest priority among its messages.
fn service(plan: &Plan) -> Vec<u8> {
    let mut service = vec![0; plan.connections.len()];
    let mut raise = |connection: u32, priority: Option<Priority>| {
        let class = &mut service[connection as usize];
        let priority = priority.map_or(0, |Priority(priority)| priority);
        *class = (*class).max(u8::try_from(priority).unwrap_or(u8::MAX));
    };
    for send in &plan.sends {
        raise(send.connection, send.message().priority);
    }
    for aggregator in &plan.aggregators {
        for round in &aggregator.rounds {
            for (worker, response) in round.responses.iter().enumerate() {
                raise(aggregator.workers[worker], response.message.priority);
                raise(aggregator.responds_on(worker).0, response.message.priority);
            }
        }
    }
    service
}

/// Where the packets of each end go.
fn ways(plan: &Plan, routes: &Routes) -> Ways {
    let way = |number: u32, from: End| {
        let connection = &plan.connections[number as usize];
        let destination = if from == End::Client { connection.server } else { connection.client };
        Way { destination, edge: routes.edge[destination as usize], path: rows::path_number(plan.seed, number, from) }
    };
    Ways::new((0..plan.connections.len() as u32).map(|number| [way(number, End::Server), way(number, End::Client)]))
}

/// What hosts add to the time of packets on the way out, if anything.
fn sending(plan: &Plan) -> Vec<Delays> {
    let hosts = if plan.network.noise.sending.is_none() { 0 } else { plan.network.hosts };
    (0..hosts).map(|host| Delays::new(stream(plan.seed, Purpose::Sending, host.into()))).collect()
}

/// By connection and end: how many messages will be handed over.
fn messages_per_end(plan: &Plan) -> Vec<[u32; 2]> {
    let mut count = vec![[0; 2]; plan.connections.len()];
    for send in &plan.sends {
        count[send.connection as usize][usize::from(send.from == End::Server)] += 1;
    }
    for aggregator in &plan.aggregators {
        for (worker, &connection) in aggregator.workers.iter().enumerate() {
            let (own, from) = aggregator.responds_on(worker);
            for (connection, from) in [(connection, End::Client), (own, from)] {
                count[connection as usize][usize::from(from == End::Server)] += aggregator.rounds.len() as u32;
            }
        }
    }
    count
}

/// With this many ends of connections or more, the list grows by an eighth at a time.
const MANY_ENDS: usize = 1 << 16;

impl<'p, O: Observer> World<'p, O> {
    /// # Errors
    /// A network that cannot carry the plan; see [`RunError`].
    pub(crate) fn new(plan: &'p Plan, observer: O, spill: Option<&Spill>) -> Result<Self, RunError> {
        let routes = Routes::new(&plan.network)?;
        let (links, targets, buffers, coupled) = ports(&plan.network, plan.seed, &observer);
        let to_write = messages_per_end(plan);
        let messages = Messages::new(plan, &routes, spill);
        let unfinished = messages.finite();
        let mut program_of = vec![NONE; if plan.aggregators.is_empty() { 0 } else { plan.connections.len() }];
        for (number, aggregator) in plan.aggregators.iter().enumerate() {
            for &connection in aggregator.workers.iter().chain(&aggregator.opened_by_workers) {
                program_of[connection as usize] = number as u32;
            }
        }
        let mut world = Self {
            plan,
            order: Order::new(plan.seed),
            ways: ways(plan, &routes),
            routes,
            sending: sending(plan),
            ports: links_of_ports(&links),
            links,
            targets,
            said: Vec::new(),
            headers_delivered: 0,
            service: service(plan),
            departures: buffers.iter().map(|_| BinaryHeap::new()).collect(),
            buffers,
            coupled,
            observer,
            vanished: Vec::new(),
            out: Outbox::default(),
            ends_of: vec![[NONE; 2]; plan.connections.len()],
            to_write,
            endpoints: Vec::new(),
            free: Vec::new(),
            nics: Vec::new(),
            programs: Vec::new(),
            watches_progress: false,
            columns: Columns::new(plan),
            program_of,
            messages,
            unfinished,
            finished_at: 0,
            totals: Totals::default(),
            curve: Curve::default(),
            arrived: 0,
            last_delivery: 0,
            frontier: None,
            counted: Counted::default(),
        };
        world.add_nics();
        world.add_programs();
        world.establish_connections()?;
        Ok(world)
    }

    fn add_nics(&mut self) {
        let hosts = self.plan.network.hosts;
        self.nics = (0..hosts).map(|_| Nic::new(None)).collect();
        let controls = |class: &Class| {
            let context = NicContext::new(Rate(0), class.tcp.mss, class.tcp.header);
            class.stack.receiver.build(&context).is_active()
        };
        let controlled: Vec<bool> = self.plan.classes.iter().map(controls).collect();
        if !controlled.contains(&true) {
            return;
        }
        // The first connection on which a host receives under control decides what is at its NIC.
        let mut contexts = vec![None; hosts as usize];
        for (index, writes) in (0..).zip(&self.to_write) {
            let connection = &self.plan.connections[index as usize];
            let class = connection.class as usize;
            let tcp = &self.plan.classes[class].tcp;
            for (host, receives) in [(connection.client, writes[1] > 0), (connection.server, writes[0] > 0)] {
                let context = &mut contexts[host as usize];
                if receives && controlled[class] && context.is_none() {
                    *context = Some((class, self.context_of_nic(host, tcp)));
                }
                if let Some((_, NicContext { port: Some(port), .. })) = context.as_mut().filter(|_| receives) {
                    port.base_rtt = port.base_rtt.max(self.idle_rtt(index));
                    port.rto_min = port.rto_min.min(tcp.rto_min);
                }
            }
        }
        for (nic, context) in self.nics.iter_mut().zip(contexts) {
            *nic = Nic::new(context.map(|(class, context)| self.plan.classes[class].stack.receiver.build(&context)));
        }
    }

    /// What a controller may know without looking at connections.
    fn context_of_nic(&self, host: u32, tcp: &Tcp) -> NicContext {
        let network = &self.plan.network;
        let link = &network.links[self.routes.downlink[host as usize] as usize];
        let window_unit = match tcp.window_scaling {
            WindowScaling::Rfc7323 => Bytes(1 << tcp.window_shift()),
            WindowScaling::Exact | WindowScaling::Off => Bytes(1),
        };
        let port = match (link.from, &link.port) {
            (Node::Switch(switch), Some(port)) => {
                let buffer = port_limit(&network.switches[switch as usize].buffers[port.buffer as usize]);
                Some(LastPort { buffer, base_rtt: Duration::ZERO, rto_min: tcp.rto_min })
            }
            _ => None,
        };
        NicContext { window_unit, port, ..NicContext::new(link.rate, tcp.mss, tcp.header) }
    }

    fn add_programs(&mut self) {
        let mut first = 0;
        for aggregator in &self.plan.aggregators {
            let class = &self.plan.classes[aggregator.class as usize];
            let downlink = self.routes.downlink[aggregator.host as usize] as usize;
            let base_rtt = aggregator.workers.first().map_or(Duration::ZERO, |&connection| self.idle_rtt(connection));
            let bottleneck = Bottleneck {
                rate: self.plan.network.links[downlink].rate,
                base_rtt,
                buffer: aggregator.last_port_buffer,
                mss: class.tcp.mss,
            };
            let context = ApplicationContext {
                bottleneck,
                workers: u32::try_from(aggregator.workers.len()).ok(),
                rto_min: class.tcp.rto_min,
            };
            let scheduler = class.stack.application.build(&context);
            self.watches_progress |= scheduler.watches_progress();
            self.programs.push(Program::new(scheduler, first));
            first += (aggregator.rounds.len() * aggregator.workers.len()) as u32;
        }
    }

    /// What a handshake measures on an idle network: a header there and back.
    fn idle_rtt(&self, index: u32) -> Duration {
        let connection = &self.plan.connections[index as usize];
        let header = self.plan.classes[connection.class as usize].tcp.header.0;
        let total = [End::Client, End::Server]
            .into_iter()
            .flat_map(|from| rows::path(self.plan, &self.routes, index, from))
            .map(|link| &self.links[link as usize])
            .map(|link| link.time_for(header) + link.delay())
            .sum();
        Duration(total)
    }

    /// What a sender may know of its path: a full segment crosses an idle network, and its ACK comes back.
    fn path_facts(&self, index: u32, from: End) -> PathFacts {
        let tcp = &self.plan.classes[self.plan.connections[index as usize].class as usize].tcp;
        let path = rows::path(self.plan, &self.routes, index, from);
        let crossing = |path: &[u32], bytes: u64| -> u64 {
            path.iter().map(|&link| &self.links[link as usize]).map(|link| link.time_for(bytes) + link.delay()).sum()
        };
        let there = crossing(&path, tcp.mss.0 + tcp.header.0);
        let and_back = crossing(&rows::path(self.plan, &self.routes, index, from.other()), tcp.header.0);
        let line_rate = path.first().map_or(Rate(0), |&link| self.plan.network.links[link as usize].rate);
        PathFacts { line_rate, base_rtt: Duration(there + and_back), hops: path.len() as u32 }
    }

    /// Sets up connections whose handshake took place before the run.
    fn establish_connections(&mut self) -> Result<(), RunError> {
        for index in 0..self.plan.connections.len() as u32 {
            let connection = &self.plan.connections[index as usize];
            if connection.handshake == Handshake::Counted {
                if self.to_write[index as usize][0] == 0 && self.to_write[index as usize][1] > 0 {
                    return Err(RunError::NobodyOpens { connection: index });
                }
                continue;
            }
            let rtt = self.idle_rtt(index);
            let ends = [End::Client, End::Server].map(|end| self.end_of(index, end));
            for (end, other) in [(ends[0], ends[1]), (ends[1], ends[0])] {
                self.register(0, end);
                let window = self.first_grant(0, end);
                let tcp = &self.plan.classes[connection.class as usize].tcp;
                self.endpoints[other as usize].establish(rtt, tcp, window);
            }
        }
        Ok(())
    }

    /// One end of a connection, which gets its state now if it has none.
    pub(super) fn end_of(&mut self, connection: u32, end: End) -> u32 {
        let known = self.ends_of[connection as usize][usize::from(end == End::Server)];
        if known != NONE {
            return known;
        }
        let endpoint = self.endpoint(connection, end);
        let index = if let Some(index) = self.free.pop() {
            self.endpoints[index as usize] = endpoint;
            index
        } else {
            // They are the most of what a run needs, and to double them may take all memory at once, unseen by who watches it.
            let ends = self.endpoints.len();
            if ends == self.endpoints.capacity() && ends >= MANY_ENDS {
                self.endpoints.reserve_exact(ends / 8);
            }
            self.endpoints.push(endpoint);
            ends as u32
        };
        self.ends_of[connection as usize][usize::from(end == End::Server)] = index;
        index
    }

    fn endpoint(&self, index: u32, end: End) -> AnyEndpoint {
        let connection = &self.plan.connections[index as usize];
        let class = &self.plan.classes[connection.class as usize];
        let host = if end == End::Client { connection.client } else { connection.server };
        let template = Packet {
            connection: index,
            flags: Flags::default()
                .with_if(end == End::Client, Flags::FROM_CLIENT)
                .with_class(self.service[index as usize].into()),
            ..Packet::default()
        };
        let context = SenderContext {
            mss: class.tcp.mss,
            initial_window: class.tcp.mss.times(class.tcp.initial_window_segments),
            rules: class.tcp.rules,
            reference_rtt: class.stack.reference_rtt(),
            path: None,
        };
        let mut sender = class.stack.sender.build(&context);
        if sender.wants_timing() {
            let path = Some(self.path_facts(index, end));
            sender = class.stack.sender.build(&SenderContext { path, ..context });
        }
        let echo = class.stack.echo.build(&EchoContext::default());
        let class_index = connection.class;
        let mut endpoint =
            Endpoint::new(template, class_index, host, &class.tcp, connection.window_per_message, sender, echo);
        endpoint.set_clock(Clock::new(&class.tcp, self.plan.network.clock_phase(host)));
        endpoint.receive.limit = self.window_of_program(index, end);
        endpoint.to_write = self.to_write[index as usize][usize::from(end == End::Server)];
        endpoint.close_when_done = connection.close_when_done;
        endpoint
    }
}
