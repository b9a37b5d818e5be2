//! A scenario written out: every node, link, connection and message, with all random choices of the
//! workload made. A world carries out a plan without knowing the scenario's language.

mod cost;
mod noise;
mod part;
mod tcp;
mod validate;

pub use noise::{Fraction, HostNoise, Noise, NoisePer, Ticks};
pub use tcp::{
    BackoffEnd, DelayedAck, Ect, LARGEST_PACKET, LARGEST_WINDOW, LossDetection, LostSyn, Pacing, PartialAck, Reduction,
    RtoForm, RttSamples, SlowStartRestart, Tcp, Unfit, WindowScaling,
};

use std::sync::Arc;

use incast_protocols::stack::EndStack;
use incast_protocols::switch::buffer::BufferChoice;
use incast_protocols::switch::marker::MarkerChoice;
use incast_protocols::switch::scheduler::SchedulerChoice;
use incast_protocols::{Bytes, Capability, Duration, Message, Rate, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Everything a world needs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The scenario's name, for people.
    pub name: String,
    /// The seed of the world's own random choices: simultaneous events, paths, losses.
    pub seed: u64,
    /// Who is connected to whom.
    pub network: Network,
    /// Classes of traffic.
    pub classes: Vec<Class>,
    /// Every connection that may be used.
    pub connections: Vec<Connection>,
    /// Messages whose start is known beforehand, by (start, position).
    pub sends: Vec<Send>,
    /// Aggregators that request messages round by round.
    pub aggregators: Vec<Aggregator>,
    /// When to stop although work is left. Without it the run ends once every message of known size is
    /// complete and, if no endless message is among them, the network has come to rest.
    pub stop_at: Option<Time>,
    /// What to write down besides counters and flows.
    pub record: Record,
    /// What a reader of the results should know: overloads, for example.
    pub warnings: Vec<String>,
}

/// Nodes and links.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Network {
    /// Number of hosts; each has exactly one link out and one link in.
    pub hosts: u32,
    /// Switches.
    pub switches: Vec<Switch>,
    /// Directed links; each is the output port of the node it comes from.
    pub links: Vec<Link>,
    /// What the hosts add to the time of each packet.
    pub noise: HostNoise,
    /// How long each host's clock has been ticking when the run begins, where timers go by ticks; the last one stands for all
    /// hosts after it.
    #[serde(default)]
    pub clock_phases: Vec<Duration>,
}

impl Network {
    /// How long a host's clock has been ticking when the run begins.
    #[must_use]
    pub fn clock_phase(&self, host: u32) -> Duration {
        self.clock_phases.get(host as usize).or(self.clock_phases.last()).copied().unwrap_or_default()
    }
}

/// A switch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Switch {
    /// For people, such as "leaf 3".
    pub name: String,
    /// Its memories. Ports with fixed limits of their own may share one entry, as it has no state;
    /// ports that share memory name the same entry.
    pub buffers: Vec<BufferChoice>,
}

/// A node of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Node {
    /// Number among the hosts.
    Host(u32),
    /// Number among the switches.
    Switch(u32),
}

/// One direction of a cable: an output port and the wire behind it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Link {
    /// Whose output port it is.
    pub from: Node,
    /// Where the wire ends.
    pub to: Node,
    /// Line rate.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Duration,
    /// What leaves at once after a pause: the depth of a token bucket that keeps the rate, or zero.
    pub burst: Bytes,
    /// The queue of a switch port; a host's own queue is unlimited and marks nothing. Ports that are alike share one entry,
    /// as a network may have a hundred thousand of them.
    pub port: Option<Arc<SwitchPort>>,
    /// Probability that a packet is lost on the wire.
    pub loss: f64,
    /// Packets that overtake each other on the wire.
    pub reorder: Option<Reorder>,
}

/// The queue of a switch port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SwitchPort {
    /// Which of the switch's buffers admits its packets.
    pub buffer: u32,
    /// What marks them.
    pub marker: MarkerChoice,
    /// In which order they are sent.
    pub scheduler: SchedulerChoice,
}

impl Plan {
    /// Packet-hops in a world of packets if nothing is lost.
    #[must_use]
    pub fn packet_hops(&self) -> u64 {
        self.packets_and_hops().1
    }

    /// The packets that are sent if nothing is lost, and their packet-hops.
    #[must_use]
    pub fn packets_and_hops(&self) -> (u64, u64) {
        cost::packets_and_hops(self)
    }

    /// What it takes in memory itself.
    #[must_use]
    pub fn memory(&self) -> Bytes {
        cost::memory(self)
    }

    /// One line that says how large it is.
    #[must_use]
    pub fn describe(&self) -> String {
        let rounds =
            |aggregator: &Aggregator| aggregator.rounds.iter().map(|round| round.responses.len()).sum::<usize>();
        let messages = self.sends.len() + self.aggregators.iter().map(rounds).sum::<usize>();
        let counts = [
            (self.network.hosts as usize, "host", "hosts"),
            (self.network.switches.len(), "switch", "switches"),
            (self.network.links.len(), "link", "links"),
            (self.connections.len(), "connection", "connections"),
            (messages, "message", "messages"),
        ];
        let counts = counts.map(|(count, one, more)| format!("{count} {}", if count == 1 { one } else { more }));
        format!("{}: {}", self.name, counts.join(", "))
    }

    /// Whether a port at which incasts are recorded marks EIN.
    #[must_use]
    pub fn watches_ein(&self) -> bool {
        let port = |link: &u32| self.network.links[*link as usize].port.as_deref();
        self.record.incasts.iter().filter_map(port).any(SwitchPort::marks_incast)
    }
}

impl SwitchPort {
    /// Whether its marker tells of incast.
    #[must_use]
    pub fn marks_incast(&self) -> bool {
        self.marker.info().provides.contains(&Capability::IncastMarks)
    }
}

/// Packets that are delayed on the wire, so that later ones overtake them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reorder {
    /// Probability that a packet is delayed, e.g. 0.01.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub probability: f64,
    /// Maximum delay, e.g. "50us"; each delay is drawn uniformly from 0 to this.
    pub extra: Duration,
}

/// What the traffic of one class runs on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Class {
    /// For people and result tables.
    pub name: String,
    /// The algorithms at its ends.
    pub stack: EndStack,
    /// How its connections behave.
    pub tcp: Tcp,
}

/// A connection. Data may flow both ways; the one who opens it is the client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Connection {
    /// Host that opens it.
    pub client: u32,
    /// Host that accepts it.
    pub server: u32,
    /// Index into [`Plan::classes`].
    pub class: u32,
    /// When its handshake takes place.
    pub handshake: Handshake,
    /// Whether it closes (FIN) once its last planned message is sent.
    pub close_when_done: bool,
    /// The window at the start of each message after the first.
    pub window_per_message: WindowPerMessage,
}

/// When the handshake takes place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Handshake {
    /// The first message opens the connection, and SYN and SYN-ACK are part of its completion time.
    Counted,
    /// Before the run: no packets are sent, and the RTT of an idle network is the first sample of both ends.
    Before,
}

/// The window at the start of each message after the first of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Window")]
pub enum WindowPerMessage {
    /// As on a new connection, unless data of the previous message is still in flight.
    Fresh,
    /// As the last message left it.
    Kept,
    /// Kept, but at most the initial window after an idle time of one RTO (RFC 5681 section 4.1).
    RestartAfterIdle,
}

/// Which end of a connection sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum End {
    /// Who opened it.
    Client,
    /// Who accepted it.
    Server,
}

impl End {
    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// A message that one end sends at a time known beforehand. It starts to wait for earlier ones of the
/// same connection at `start`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Send {
    /// Index into [`Plan::connections`].
    pub connection: u32,
    /// Which repetition of its burst it belongs to, or zero.
    pub round: u32,
    /// When the application hands it over; the completion time counts from here.
    pub start: Time,
    /// Without a size it never ends.
    size: Option<Bytes>,
    /// What few messages have. A plan may have millions of messages, which should not pay for it.
    rare: Option<Box<Rare>>,
    /// Who sends it.
    pub from: End,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Rare {
    /// With its size, too.
    message: Message,
    size_known_at: Option<Time>,
}

impl Send {
    /// With these facts, all of which are known from the start.
    #[must_use]
    pub fn new(connection: u32, from: End, start: Time, message: Message) -> Self {
        let mut send = Self { connection, round: 0, start, size: None, rare: None, from };
        send.set_message(message);
        send
    }

    /// In this repetition of its burst.
    #[must_use]
    pub fn in_round(self, round: u32) -> Self {
        Self { round, ..self }
    }

    /// Its application learns the size at this time, and until then no part knows it.
    #[must_use]
    pub fn with_size_known_at(mut self, at: Option<Time>) -> Self {
        self.set_rare(Rare { message: self.message(), size_known_at: at });
        self
    }

    /// Its payload. Without a size it never ends.
    #[must_use]
    pub const fn size(&self) -> Option<Bytes> {
        self.size
    }

    /// Its facts.
    #[must_use]
    pub fn message(&self) -> Message {
        self.rare.as_ref().map_or(Message { size: self.size, ..Message::default() }, |rare| rare.message)
    }

    /// When its application learns the size; until then no part knows it. `None`: known from the start.
    #[must_use]
    pub fn size_known_at(&self) -> Option<Time> {
        self.rare.as_ref().and_then(|rare| rare.size_known_at)
    }

    /// Gives it other facts.
    pub fn set_message(&mut self, message: Message) {
        self.set_rare(Rare { message, size_known_at: self.size_known_at() });
    }

    /// What it takes beside itself.
    fn beside(&self) -> usize {
        self.rare.as_deref().map_or(0, size_of_val)
    }

    fn set_rare(&mut self, rare: Rare) {
        self.size = rare.message.size;
        let common = Rare { message: Message { size: self.size, ..Message::default() }, size_known_at: None };
        self.rare = (rare != common).then(|| Box::new(rare));
    }
}

/// A program that asks its workers for one response each, round by round: the next round starts when
/// the last response of the round before is complete. It is the client of all its connections but those that workers open. A job that forks and
/// joins is one of a single round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Aggregator {
    /// Host it runs on.
    pub host: u32,
    /// Index into [`Plan::classes`].
    pub class: u32,
    /// One connection per worker, indices into [`Plan::connections`]: for requests, and for responses unless these have their
    /// own.
    pub workers: Vec<u32>,
    /// One more connection per worker, which the worker opens for its responses; or none.
    #[serde(default)]
    pub opened_by_workers: Vec<u32>,
    /// Start of the first round.
    pub start: Time,
    /// Payload of a request.
    pub request: Bytes,
    /// What is asked for, round by round.
    pub rounds: Vec<Round>,
    /// What its scheduler is told of the buffer of its last switch port.
    pub last_port_buffer: Bytes,
}

impl Aggregator {
    /// On which connection a worker responds, and which end of it the worker is.
    #[must_use]
    pub fn responds_on(&self, worker: usize) -> (u32, End) {
        match self.opened_by_workers.get(worker) {
            Some(&own) => (own, End::Client),
            None => (self.workers[worker], End::Server),
        }
    }
}

/// One round of an aggregator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// The response of each worker.
    pub responses: Vec<Response>,
}

/// What one worker sends in one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// Its facts; the deadline counts from the start of the round and is added by the world.
    pub message: Message,
    /// From the last byte of the request to the first byte of the response.
    pub service_time: Duration,
    /// How long after its round's start the aggregator wants to ask.
    pub jitter: Duration,
}

/// What to write down besides counters and flows. Everything here costs time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Queue statistics of every switch port, for the table `ports`.
    pub queue_statistics: bool,
    /// Links whose queue length is written down whenever it changes, for the table `queues`.
    pub queue_series: Vec<u32>,
    /// Connections whose windows are written down whenever they change, for the table `windows`.
    pub window_series: Vec<u32>,
    /// Drops, marks, timeouts and retransmissions, one by one, for the table `events`.
    pub events: bool,
    /// Links at whose ports packets are written down one by one, for the table `packets`.
    pub packets: Vec<u32>,
    /// Connections whose packets are; all if there are none.
    pub packets_of: Vec<u32>,
    /// Links of switch ports at which incasts are told from what arrives, for the tables `incasts` and `alarms`.
    pub incasts: Vec<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use incast_protocols::Priority;

    /// A plan may have millions of messages: each has to be small.
    #[test]
    fn a_message_takes_48_bytes_unless_it_has_more_than_a_size() {
        assert_eq!(size_of::<Send>(), 48);
        let plain = Message { size: Some(Bytes(9)), ..Message::default() };
        let mut send = Send::new(1, End::Server, Time(5), plain).in_round(2);
        assert_eq!((send.message(), send.size(), send.size_known_at(), send.round), (plain, plain.size, None, 2));
        assert_eq!(send.rare, None);
        send = send.with_size_known_at(Some(Time(7)));
        let urgent = Message { priority: Some(Priority(3)), ..Message::default() };
        send.set_message(urgent);
        assert_eq!((send.message(), send.size(), send.size_known_at()), (urgent, None, Some(Time(7))));
        assert_eq!(send.with_size_known_at(None).message(), urgent);
    }
}
