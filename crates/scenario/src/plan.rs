//! A scenario written out: every node, link, connection and message, with all random choices of the
//! workload made. A world carries out a plan without knowing the scenario's language.

mod validate;

use incast_protocols::sender::WindowRules;
use incast_protocols::stack::EndStack;
use incast_protocols::switch::buffer::BufferChoice;
use incast_protocols::switch::marker::MarkerChoice;
use incast_protocols::{Bytes, Capability, Duration, Message, Rate, Time};

/// Everything a world needs.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The scenario's name, for people.
    pub name: String,
    /// The seed of the world's own random choices: simultaneous events, paths, losses.
    pub seed: u64,
    /// What is made of the messages.
    pub model: Model,
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

/// What a world makes of a plan's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Model {
    /// Packets of the stacks at the ends, through queues.
    #[default]
    Packets,
    /// The bound that is called Ideal (Pulser paper, section IV): no queue in the network at any load. Completion
    /// times are unloaded ones, throughput that of max-min fair shares. Stacks are ignored, and so is `record`.
    Ideal,
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

impl Plan {
    /// Whether a port at which incasts are recorded marks EIN.
    #[must_use]
    pub fn watches_ein(&self) -> bool {
        let port = |link: &u32| self.network.links[*link as usize].port.as_ref();
        self.record.incasts.iter().filter_map(port).any(Port::marks_incast)
    }
}

impl Port {
    /// Whether its marker tells of incast.
    #[must_use]
    pub fn marks_incast(&self) -> bool {
        self.marker.info().provides.contains(&Capability::IncastMarks)
    }
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
    /// What the header's window field can say.
    pub window_scaling: WindowScaling,
    /// Receivers say what they have beyond a gap (RFC 2018), and senders recover by it (RFC 6675).
    pub sack: bool,
    /// How the window comes down in a recovery.
    pub reduction: Reduction,
    /// New data may follow the first two duplicate ACKs (RFC 3042; RFC 6675 section 5, step 3.3).
    pub limited_transmit: bool,
    /// Retransmissions measure the round trip too (RFC 7323 section 4).
    pub timestamps: bool,
    /// What ends the retransmission timer's back-off.
    pub backoff_end: BackoffEnd,
    /// What idle time does to a window that is kept between messages.
    pub slow_start_restart: SlowStartRestart,
    /// Which packets of an ECN-capable sender may be marked.
    pub ect: Ect,
}

/// TCP of RFCs 5681, 6298 and 6582 with a segment of 1460 bytes and nothing else.
impl Default for Tcp {
    fn default() -> Self {
        Self {
            mss: Bytes(1460),
            header: Bytes(40),
            initial_window_segments: 10,
            rules: WindowRules::default(),
            rto_initial: Duration::from_ms(1000),
            rto_min: Duration::from_ms(200),
            rto_max: Duration::from_ms(60_000),
            delayed_ack: None,
            receive_buffer: LARGEST_WINDOW,
            window_scaling: WindowScaling::Exact,
            sack: false,
            reduction: Reduction::Immediate,
            limited_transmit: false,
            timestamps: false,
            backoff_end: BackoffEnd::Sample,
            slow_start_restart: SlowStartRestart::Off,
            ect: Ect::NewData,
        }
    }
}

/// The most a TCP can advertise (RFC 7323 section 2.3).
pub const LARGEST_WINDOW: Bytes = Bytes(1 << 30);

impl Tcp {
    /// The shift of RFC 7323: the least with which the field can say all of the receive buffer.
    #[must_use]
    pub const fn window_shift(&self) -> u32 {
        let field = self.receive_buffer.0 / 65_536;
        let shift = 64 - field.leading_zeros();
        if shift > 14 { 14 } else { shift }
    }

    /// The most bytes that the window field of a packet can say.
    #[must_use]
    pub const fn largest_window(&self) -> u64 {
        match self.window_scaling {
            WindowScaling::Exact => u32::MAX as u64,
            WindowScaling::Rfc7323 => 65_535 << self.window_shift(),
            WindowScaling::Off => 65_535,
        }
    }

    /// What a SYN says of `window`: its field is never scaled (RFC 7323 section 2.2).
    #[must_use]
    pub const fn largest_syn_window(&self, window: u64) -> u64 {
        match self.window_scaling {
            WindowScaling::Rfc7323 if window > 65_535 => 65_535,
            _ => window,
        }
    }
}

/// What the header's window field can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowScaling {
    /// Any number of bytes, as in simulators.
    Exact,
    /// 16 bits and a shift (RFC 7323): multiples of a power of two.
    Rfc7323,
    /// At most 65,535 bytes.
    Off,
}

/// How the window comes down in a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// At once (RFC 5681, RFC 6675).
    Immediate,
    /// In proportion to what is delivered (RFC 6937); needs SACK.
    Proportional,
}

/// What ends the retransmission timer's back-off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackoffEnd {
    /// A round-trip sample (RFC 6298 section 5, with Karn's rule; Linux).
    Sample,
    /// Any ACK for new data, of retransmissions too (ns-3).
    Ack,
}

/// What idle time does to a window that is kept between messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowStartRestart {
    /// Nothing.
    Off,
    /// After one RTO it is at most the initial window (RFC 5681 section 4.1).
    Rfc5681,
    /// Each RTO halves it, down to the initial window (RFC 2861, Linux).
    Decay,
}

/// Which packets of an ECN-capable sender may be marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ect {
    /// New data only (RFC 3168 section 6.1).
    NewData,
    /// All, ACKs and retransmissions and SYNs too (Linux and ns-3 with DCTCP; RFC 8257 section 3.6 for SYNs).
    All,
}

/// RFC 5681 section 4.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayedAck {
    /// An ACK at least for every so many full segments.
    pub every: u32,
    /// An ACK at the latest after this time.
    pub timeout: Duration,
    /// So many segments at the start of a connection are acknowledged at once (Linux: 16).
    pub quick: u32,
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
    /// When its application learns the size; until then nobody is told of it. From the start without.
    pub size_known_at: Option<Time>,
}

/// A program that asks its workers for one response each, round by round: the next round starts when
/// the last response of the round before is complete. It is the client of all its connections. A job that forks and
/// joins is one of a single round.
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
    /// Links of switch ports at which incasts are told from what arrives, for the tables `incasts` and `alarms`.
    pub incasts: Vec<u32>,
}
