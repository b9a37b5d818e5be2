//! Plans for tests, built by hand so that every number is in sight.
#![expect(missing_docs, missing_debug_implementations, reason = "for tests, where names say it all")]
#![expect(clippy::missing_panics_doc, clippy::must_use_candidate, reason = "for tests")]

use std::sync::Arc;

use incast_plan::{
    Aggregator, Class, Connection, End, Handshake, HostNoise, Link, Network, Node, Plan, Record, Response, Round, Send,
    Switch, SwitchPort, Tcp, WindowPerMessage,
};
use incast_protocols::application::ApplicationChoice;
use incast_protocols::echo::EchoChoice;
use incast_protocols::random::{GOLDEN, mix};
use incast_protocols::receiver::ReceiverChoice;
use incast_protocols::sender::SenderChoice;
use incast_protocols::stack::EndStack;
use incast_protocols::switch::buffer::dynamic_threshold::{self, Alpha};
use incast_protocols::switch::buffer::{BufferChoice, static_limit};
use incast_protocols::switch::marker::{MarkerChoice, ecn_threshold};
use incast_protocols::switch::scheduler::SchedulerChoice;
use incast_protocols::{Amount, Bytes, Duration, Message, Rate, Time};

/// One kind of cable with the switch port at its end.
#[derive(Clone, Copy)]
pub struct Cable {
    pub rate: u64,
    pub delay: Duration,
    pub loss: f64,
    pub reorder: Option<incast_plan::Reorder>,
    /// Depth of the token bucket; zero for the port of a line.
    pub burst: Bytes,
}

pub fn cable(rate: u64, delay: Duration) -> Cable {
    Cable { rate, delay, loss: 0.0, reorder: None, burst: Bytes::ZERO }
}

fn link(from: Node, to: Node, cable: Cable, marker: &MarkerChoice) -> Link {
    let port = matches!(from, Node::Switch(_))
        .then(|| Arc::new(SwitchPort { buffer: 0, marker: marker.clone(), scheduler: SchedulerChoice::default() }));
    Link {
        from,
        to,
        rate: Rate(cable.rate),
        delay: cable.delay,
        port,
        loss: cable.loss,
        reorder: cable.reorder,
        burst: cable.burst,
    }
}

pub fn switch(name: &str, buffer: &BufferChoice) -> Switch {
    Switch { name: name.to_owned(), buffers: vec![buffer.clone()] }
}

pub fn packets(limit: u32) -> BufferChoice {
    BufferChoice::Static(static_limit::Config { limit: Amount::Packets(limit), ..Default::default() })
}

pub fn bytes(limit: u64) -> BufferChoice {
    BufferChoice::Static(static_limit::Config { limit: Amount::Bytes(Bytes(limit)), ..Default::default() })
}

/// One memory for all ports, with dynamic thresholds.
pub fn shared(size: u64, alpha: f64, reserve: u64) -> BufferChoice {
    BufferChoice::DynamicThreshold(dynamic_threshold::Config {
        size: Bytes(size),
        alpha: Alpha::try_from(alpha).unwrap(),
        reserve: Bytes(reserve),
        ..Default::default()
    })
}

pub fn mark_at(threshold: u32) -> MarkerChoice {
    MarkerChoice::EcnThreshold(ecn_threshold::Config { threshold: Amount::Packets(threshold), ..Default::default() })
}

pub fn no_marks() -> MarkerChoice {
    MarkerChoice::None(Default::default())
}

pub fn star(hosts: u32, cable: Cable, buffer: &BufferChoice, marker: &MarkerChoice) -> Network {
    let links = (0..hosts)
        .flat_map(|host| {
            [
                link(Node::Host(host), Node::Switch(0), cable, marker),
                link(Node::Switch(0), Node::Host(host), cable, marker),
            ]
        })
        .collect();
    Network {
        hosts,
        switches: vec![switch("switch", buffer)],
        links,
        noise: HostNoise::default(),
        clock_phases: Vec::new(),
    }
}

pub fn leaf_spine(
    leaves: u32,
    per_leaf: u32,
    spines: u32,
    cable: Cable,
    buffer: &BufferChoice,
    marker: &MarkerChoice,
) -> Network {
    let mut links = Vec::new();
    for host in 0..leaves * per_leaf {
        links.push(link(Node::Host(host), Node::Switch(host / per_leaf), cable, marker));
        links.push(link(Node::Switch(host / per_leaf), Node::Host(host), cable, marker));
    }
    for leaf in 0..leaves {
        for spine in 0..spines {
            links.push(link(Node::Switch(leaf), Node::Switch(leaves + spine), cable, marker));
            links.push(link(Node::Switch(leaves + spine), Node::Switch(leaf), cable, marker));
        }
    }
    let switches = (0..leaves)
        .map(|leaf| switch(&format!("leaf {leaf}"), buffer))
        .chain((0..spines).map(|spine| switch(&format!("spine {spine}"), buffer)))
        .collect();
    Network { hosts: leaves * per_leaf, switches, links, noise: HostNoise::default(), clock_phases: Vec::new() }
}

pub fn new_reno() -> EndStack {
    EndStack {
        sender: SenderChoice::NewReno(Default::default()),
        echo: EchoChoice::None(Default::default()),
        receiver: ReceiverChoice::None(Default::default()),
        application: ApplicationChoice::AllAtOnce(Default::default()),
    }
}

pub fn dctcp() -> EndStack {
    EndStack {
        sender: SenderChoice::Dctcp(Default::default()),
        echo: EchoChoice::DctcpEcho(Default::default()),
        ..new_reno()
    }
}

pub fn tcp() -> Tcp {
    Tcp {
        mss: Bytes(1460),
        header: Bytes(40),
        initial_window_segments: 10,
        rto_initial: Duration::from_ms(10),
        rto_min: Duration::from_ms(10),
        rto_max: Duration::from_ms(60_000),
        receive_buffer: Bytes(4 << 20),
        ..Tcp::default()
    }
}

/// A plan without traffic.
pub fn plan(network: Network, stack: EndStack, tcp: Tcp) -> Plan {
    Plan {
        name: "test".to_owned(),
        seed: 1,
        network,
        classes: vec![Class { name: "all".to_owned(), stack, tcp }],
        connections: Vec::new(),
        sends: Vec::new(),
        aggregators: Vec::new(),
        stop_at: None,
        record: Record::default(),
        warnings: Vec::new(),
    }
}

/// Adds a connection that sends one message of `size` bytes (endless without) from its client.
pub fn add_flow(plan: &mut Plan, from: u32, to: u32, size: Option<u64>, start: Time, handshake: Handshake) {
    plan.connections.push(Connection {
        client: from,
        server: to,
        class: 0,
        handshake,
        close_when_done: true,
        window_per_message: WindowPerMessage::Fresh,
    });
    let message = Message { size: size.map(Bytes), ..Message::default() };
    plan.sends.push(Send::new(plan.connections.len() as u32 - 1, End::Client, start, message));
}

/// Adds an aggregator at host 0 that asks hosts 1.. for one response each, `rounds` times.
pub fn add_rounds(plan: &mut Plan, workers: u32, response: u64, rounds: u32, jitter: impl Fn(u32, u32) -> Duration) {
    let first = plan.connections.len() as u32;
    for worker in 0..workers {
        plan.connections.push(Connection {
            client: 0,
            server: worker + 1,
            class: 0,
            handshake: Handshake::Before,
            close_when_done: false,
            window_per_message: WindowPerMessage::Fresh,
        });
    }
    let round = |round: u32| Round {
        responses: (0..workers)
            .map(|worker| Response {
                message: Message { size: Some(Bytes(response)), ..Message::default() },
                service_time: Duration::ZERO,
                jitter: jitter(round, worker),
            })
            .collect(),
    };
    plan.aggregators.push(Aggregator {
        host: 0,
        class: 0,
        workers: (first..first + workers).collect(),
        opened_by_workers: Vec::new(),
        start: Time::from_us(1000),
        request: Bytes(64),
        rounds: (0..rounds).map(round).collect(),
        last_port_buffer: Bytes(65_536),
    });
}

/// Adds a job that `host` begins at `start`: each worker is asked with 200 bytes on a connection of its own, and takes a time
/// to send its answer.
pub fn add_job(plan: &mut Plan, host: u32, start: Time, workers: &[(u32, u64, Duration)]) {
    let first = plan.connections.len() as u32;
    plan.connections.extend(workers.iter().map(|&(worker, ..)| Connection {
        client: host,
        server: worker,
        class: 0,
        handshake: Handshake::Counted,
        close_when_done: true,
        window_per_message: WindowPerMessage::Fresh,
    }));
    let responses = workers.iter().map(|&(_, size, service_time)| Response {
        message: Message { size: Some(Bytes(size)), deadline: Some(Time::from_us(2000)), ..Message::default() },
        service_time,
        jitter: Duration::ZERO,
    });
    plan.aggregators.push(Aggregator {
        host,
        class: 0,
        workers: (first..first + workers.len() as u32).collect(),
        opened_by_workers: Vec::new(),
        start,
        request: Bytes(200),
        rounds: vec![Round { responses: responses.collect() }],
        last_port_buffer: Bytes(65_536),
    });
}

/// The work that ns-3 and htsim were measured on: Poisson flows on a leaf-spine, 7.246 % of them 1 MiB,
/// the others 8 to 32 KiB.
pub fn leaf_spine_load(
    leaves: u32,
    per_leaf: u32,
    spines: u32,
    flows: u32,
    seed: u64,
    waiting: u32,
    mark: u32,
) -> Plan {
    let network = leaf_spine(
        leaves,
        per_leaf,
        spines,
        cable(10_000_000_000, Duration::from_us(10)),
        &packets(waiting),
        &mark_at(mark),
    );
    let mut plan = plan(network, dctcp(), Tcp { header: Bytes(42), ..tcp() });
    plan.seed = seed;
    add_poisson(&mut plan, flows, seed);
    plan
}

/// The same flows on one switch.
pub fn star_load(hosts: u32, flows: u32, buffer: &BufferChoice) -> Plan {
    let network = star(hosts, cable(10_000_000_000, Duration::from_us(10)), buffer, &mark_at(65));
    let mut plan = plan(network, dctcp(), tcp());
    add_poisson(&mut plan, flows, 1);
    plan
}

fn add_poisson(plan: &mut Plan, flows: u32, seed: u64) {
    let hosts = plan.network.hosts;
    let mut random = Random(seed);
    let mut at = 1e9;
    let rate_per_ps = 1.579e6 * f64::from(hosts) / 400.0 / 1e12;
    for _ in 0..flows {
        at += -(1.0 - random.unit()).ln() / rate_per_ps;
        let from = random.below(hosts);
        let to = (from + 1 + random.below(hosts - 1)) % hosts;
        let long = random.unit() < 0.072_46;
        let size = if long { 1 << 20 } else { 8192 + u64::from(random.below(32_768 - 8192 + 1)) };
        add_flow(plan, from, to, Some(size), Time(at as u64), Handshake::Counted);
    }
}

/// Messages of 1 MiB, and groups of 24 of 8 to 32 KiB that start together and go to one host, on 400 hosts. Long
/// ones carry 80 % of a load that is a share of the hosts' links.
pub fn leaf_spine_groups(load: f64, groups: u32, long: u32) -> Plan {
    const HOSTS: u32 = 400;
    let network = leaf_spine(20, 20, 10, cable(10_000_000_000, Duration::from_us(10)), &packets(200), &mark_at(65));
    let mut plan = plan(network, dctcp(), tcp());
    let bits_per_ps = load * f64::from(HOSTS) * 1e10 / 1e12;
    let mut random = Random(1);
    let mut at = 0.0;
    for _ in 0..long {
        at -= (1.0 - random.unit()).ln() * f64::from(8 << 20) / (0.8 * bits_per_ps);
        let from = random.below(HOSTS);
        let to = (from + 1 + random.below(HOSTS - 1)) % HOSTS;
        add_flow(&mut plan, from, to, Some(1 << 20), Time(at as u64), Handshake::Counted);
    }
    at = 0.0;
    for _ in 0..groups {
        at -= (1.0 - random.unit()).ln() * 24.0 * f64::from(8 * (20 << 10)) / (0.2 * bits_per_ps);
        let to = random.below(HOSTS);
        for _ in 0..24 {
            let from = (to + 1 + random.below(HOSTS - 1)) % HOSTS;
            let size = 8192 + u64::from(random.below(32_768 - 8192 + 1));
            add_flow(&mut plan, from, to, Some(size), Time(at as u64), Handshake::Counted);
        }
    }
    plan.sends.sort_by_key(|send| send.start);
    plan
}

/// A generator for test workloads.
pub struct Random(pub u64);

impl Random {
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    pub fn unit(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn below(&mut self, n: u32) -> u32 {
        ((u128::from(self.draw()) * u128::from(n)) >> 64) as u32
    }
}
