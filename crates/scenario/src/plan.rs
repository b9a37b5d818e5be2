//! A scenario written out: every node, link, connection and message, with all random choices of the
//! workload made. A world carries out a plan without knowing the scenario's language.

mod validate;

use incast_protocols::sender::WindowRules;
use incast_protocols::stack::EndStack;
use incast_protocols::switch::buffer::BufferChoice;
use incast_protocols::switch::marker::MarkerChoice;
use incast_protocols::{Bytes, Duration, Message, Rate, Time};

/// Everything a world needs.
#[derive(Clone, Debug)]
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
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// Number of hosts; each has exactly one link out and one link in.
    pub hosts: u32,
    /// Switches.
    pub switches: Vec<Switch>,
    /// Directed links; each is the output port of the node it comes from.
    pub links: Vec<Link>,
}

/// A switch.
#[derive(Clone, Debug)]
pub struct Switch {
    /// For people, such as "leaf 3".
    pub name: String,
    /// Its memories. Ports with fixed limits of their own may share one entry, as it has no state;
    /// ports that share memory name the same entry.
    pub buffers: Vec<BufferChoice>,
}

/// A node of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    /// Number among the hosts.
    Host(u32),
    /// Number among the switches.
    Switch(u32),
}

/// One direction of a cable: an output port and the wire behind it.
#[derive(Clone, Debug)]
pub struct Link {
    /// Whose output port it is.
    pub from: Node,
    /// Where the wire ends.
    pub to: Node,
    /// Line rate.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Duration,
    /// The queue of a switch port; a host's own queue is unlimited and marks nothing.
    pub port: Option<Port>,
    /// Probability that a packet is lost on the wire.
    pub loss: f64,
    /// Packets that overtake each other on the wire.
    pub reorder: Option<Reorder>,
}

/// The queue of a switch port.
#[derive(Clone, Debug)]
pub struct Port {
    /// Which of the switch's buffers admits its packets.
    pub buffer: u32,
    /// What marks them.
    pub marker: MarkerChoice,
}

/// With this probability a packet takes longer by a time drawn uniformly up to `extra`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reorder {
    /// Of each packet.
    pub probability: f64,
    /// The most it is late.
    pub extra: Duration,
}

/// What the traffic of one class runs on.
#[derive(Clone, Debug)]
pub struct Class {
    /// For people and result tables.
    pub name: String,
    /// The algorithms at its ends.
    pub stack: EndStack,
    /// How its connections behave.
    pub tcp: Tcp,
}

/// TCP as configured.
#[derive(Clone, Debug, PartialEq)]
pub struct Tcp {
    /// Payload of a full segment.
    pub mss: Bytes,
    /// What every packet carries besides payload, as it counts in queues and on the wire.
    pub header: Bytes,
    /// Segments sent before the first ACK.
    pub initial_window_segments: u64,
    /// Points on which RFCs and Linux differ.
    pub rules: WindowRules,
    /// RTO while there is no sample (RFC 6298 section 2.1); also the SYN's.
    pub rto_initial: Duration,
    /// Least RTO (RFC 6298 section 2.4).
    pub rto_min: Duration,
    /// Greatest RTO after back-off (RFC 6298 section 2.5).
    pub rto_max: Duration,
    /// Without it every data segment is acknowledged at once.
    pub delayed_ack: Option<DelayedAck>,
    /// The receiver's buffer: the window it advertises where no controller says less.
    pub receive_buffer: Bytes,
}

/// RFC 5681 section 4.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayedAck {
    /// An ACK at least for every so many full segments.
    pub every: u32,
    /// An ACK at the latest after this time.
    pub timeout: Duration,
}

/// A connection. Data may flow both ways; the one who opens it is the client.
#[derive(Clone, Debug, PartialEq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// The first message opens the connection; SYN and SYN-ACK are part of its completion time.
    Counted,
    /// Before the run: no packet is sent for it, and the RTT it would have measured on an idle network
    /// is the first sample of both ends.
    Before,
}

/// The window at the start of each message after the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowPerMessage {
    /// As on a new connection; kept while data of the message before is still in flight.
    Fresh,
    /// Whatever the last message left.
    Kept,
    /// Kept, but at most the initial window after an idle time of one RTO (RFC 5681 section 4.1).
    RestartAfterIdle,
}

/// Which end of a connection sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// Who opened it.
    Client,
    /// Who accepted it.
    Server,
}

/// A message that one end sends at a time known beforehand. It starts to wait for earlier ones of the
/// same connection at `start`.
#[derive(Clone, Debug, PartialEq)]
pub struct Send {
    /// Index into [`Plan::connections`].
    pub connection: u32,
    /// Who sends it.
    pub from: End,
    /// When the application hands it over; the completion time counts from here.
    pub start: Time,
    /// Its facts. Without a size it never ends.
    pub message: Message,
    /// Which repetition of its burst it belongs to, or zero.
    pub round: u32,
}

/// A program that asks its workers for one response each, round by round: the next round starts when
/// the last response of the round before is complete. It is the client of all its connections.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregator {
    /// Host it runs on.
    pub host: u32,
    /// Index into [`Plan::classes`].
    pub class: u32,
    /// One connection per worker, indices into [`Plan::connections`].
    pub workers: Vec<u32>,
    /// Start of the first round.
    pub start: Time,
    /// Payload of a request.
    pub request: Bytes,
    /// What is asked for, round by round.
    pub rounds: Vec<Round>,
    /// What its scheduler is told of the buffer of its last switch port.
    pub last_port_buffer: Bytes,
}

/// One round of an aggregator.
#[derive(Clone, Debug, PartialEq)]
pub struct Round {
    /// The response of each worker.
    pub responses: Vec<Response>,
}

/// What one worker sends in one round.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// Its facts; the deadline counts from the start of the round and is added by the world.
    pub message: Message,
    /// From the last byte of the request to the first byte of the response.
    pub service_time: Duration,
    /// How long after its round's start the aggregator wants to ask.
    pub jitter: Duration,
}

/// What to write down besides counters and flows. Everything here costs time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// Queue statistics of every switch port, for the table `ports`.
    pub queue_statistics: bool,
    /// Links whose queue length is written down whenever it changes, for the table `queues`.
    pub queue_series: Vec<u32>,
    /// Connections whose windows are written down whenever they change, for the table `windows`.
    pub window_series: Vec<u32>,
    /// Drops, marks, timeouts and retransmissions, one by one, for the table `events`.
    pub events: bool,
}
