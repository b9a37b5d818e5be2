//! What a world has seen, in its own units: the raw material of the tables.

mod incasts;

use incast_protocols::{Bytes, Duration, Rate, Time};

pub use incasts::{Alarm, Cause, Detected, EXCESS, HOSTS, Incast, WINDOW_PACKETS};

/// All of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// The scenario's name.
    pub name: String,
    /// Its seed.
    pub seed: u64,
    /// What carried it out and under which rule it was chosen, such as "sweep (every link has a delay)".
    pub driver: String,
    /// Names of the classes of traffic.
    pub classes: Vec<String>,
    /// What the scenario warned of.
    pub warnings: Vec<String>,
    /// How far simulated time came.
    pub end: Time,
    /// Why it ended.
    pub outcome: Outcome,
    /// One row per message, by (class order of the plan, start).
    pub flows: Vec<Flow>,
    /// One row per switch port.
    pub ports: Vec<Port>,
    /// Queue lengths of the chosen ports, by (time, link).
    pub queue_samples: Vec<QueueSample>,
    /// Windows of the chosen connections, by (time, connection).
    pub window_samples: Vec<WindowSample>,
    /// By (time, kind, place).
    pub events: Vec<Event>,
    /// Incasts at the watched ports, by (begin, link).
    pub incasts: Vec<Incast>,
    /// Whether a watched port marks EIN.
    pub ein_watched: bool,
    /// What detectors at the watched ports said, by (begin, link).
    pub alarms: Vec<Alarm>,
    /// Sums over the whole network.
    pub totals: Totals,
    /// Payload delivered in order, for goodput over any window of time.
    pub delivered: DeliveryCurve,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// Every message of known size is complete.
    #[default]
    Complete,
    /// The scenario's end time came first.
    TimeUp,
    /// Somebody interrupted it; what is here is what was finished.
    Interrupted,
}

/// A message from its start to its last byte's arrival.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Number in the plan; messages of aggregators follow those planned, by (aggregator, round, worker).
    pub id: u64,
    /// Index into [`Run::classes`].
    pub class: u32,
    /// Index of its connection in the plan.
    pub connection: u32,
    /// Sending host.
    pub source: u32,
    /// Receiving host.
    pub destination: u32,
    /// Round of its burst or aggregator.
    pub round: u32,
    /// Payload, if it has an end.
    pub size: Option<Bytes>,
    /// When the application handed it over (a response: when its request was issued).
    pub start: Time,
    /// When its round or job began, which is before requests wait for a scheduler; of any other message its start.
    pub begin: Time,
    /// When its last byte arrived in order, if it did.
    pub end: Option<Time>,
    /// In a run of the ideal model: when the fluid had served all of it, if it is complete.
    pub fluid_end: Option<Time>,
    /// In-order payload at the receiver when the run ended.
    pub delivered: Bytes,
    /// Completion time on an idle network with an open window and without handshake or request.
    pub ideal: Option<Duration>,
    /// When it had to be complete.
    pub deadline: Option<Time>,
    /// Its coflow.
    pub coflow: Option<u32>,
    /// What happened to it.
    pub losses: Losses,
}

/// How a sender learned of losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Timeouts after which nothing sent in the window had arrived.
    pub timeouts_full_window: u32,
    /// Timeouts because the end of what was sent was lost: too few duplicates for a fast retransmit.
    pub timeouts_tail: u32,
    /// Timeouts because a retransmission was lost.
    pub timeouts_lost_retransmission: u32,
    /// Timeouts of SYN, SYN-ACK or FIN.
    pub timeouts_control: u32,
    /// Fast retransmits.
    pub fast_retransmits: u32,
    /// Data segments sent again.
    pub retransmitted_packets: u32,
    /// Window reductions in answer to echoed marks.
    pub mark_reductions: u32,
}

impl Losses {
    /// Timeouts of all causes.
    #[must_use]
    pub const fn timeouts(&self) -> u32 {
        self.timeouts_full_window + self.timeouts_tail + self.timeouts_lost_retransmission + self.timeouts_control
    }
}

/// One switch port over the whole run.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    /// Index of its link in the plan.
    pub link: u32,
    /// Such as "leaf 3".
    pub from: String,
    /// Such as "host 17".
    pub to: String,
    /// Line rate.
    pub rate: Rate,
    /// Packets whose transmission began.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: Bytes,
    /// Packets not admitted.
    pub drops: u64,
    /// Packets marked CE here.
    pub ce_marks: u64,
    /// Packets marked EIN here.
    pub ein_marks: u64,
    /// Packets lost on the wire by the scenario's wish.
    pub wire_losses: u64,
    /// Most packets that ever waited (the packet in transmission does not count).
    pub max_waiting: u32,
    /// Queue statistics, if recorded.
    pub queue: Option<QueueStatistics>,
}

/// The queue of one port: packets waiting, without the one in transmission.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueStatistics {
    /// From the first arrival to the last departure.
    pub observed: Duration,
    /// Picoseconds spent with `i` packets waiting.
    pub time_at: Vec<u64>,
    /// Packets admitted that found `i` waiting.
    pub found_at_enqueue: Vec<u64>,
    /// Changes of the queue that left `i` waiting (what a trace on change events averages over).
    pub changes_to: Vec<u64>,
    /// Integral of waiting bytes over time, in byte picoseconds.
    pub byte_time: u128,
}

/// A queue when it changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSample {
    /// When.
    pub time: Time,
    /// Index of the link in the plan.
    pub link: u32,
    /// Packets waiting from then on.
    pub waiting_packets: u32,
    /// Their bytes on the wire.
    pub waiting_bytes: Bytes,
}

/// A sender when its windows changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowSample {
    /// When.
    pub time: Time,
    /// Index of the connection in the plan.
    pub connection: u32,
    /// Whether the client sends.
    pub from_client: bool,
    /// Congestion window.
    pub cwnd: Bytes,
    /// Slow-start threshold, if there was a cut.
    pub ssthresh: Option<Bytes>,
    /// Window the receiver advertised.
    pub rwnd: Bytes,
    /// Sent and not acknowledged.
    pub flight: Bytes,
    /// DCTCP's alpha in 1/1024.
    pub alpha: Option<u32>,
    /// Smoothed round-trip time.
    pub srtt: Option<Duration>,
}

/// Something that happened once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    /// When.
    pub time: Time,
    /// What.
    pub kind: EventKind,
    /// Index of the connection in the plan.
    pub connection: u32,
    /// Whether the packet or sender is on the client's side.
    pub from_client: bool,
    /// Link at which it happened, if it happened on the path.
    pub link: Option<u32>,
    /// Stream offset of the segment's first byte.
    pub offset: u64,
}

/// What an [`Event`] was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// A switch port did not admit a packet.
    Drop,
    /// A packet was lost on the wire by the scenario's wish.
    WireLoss,
    /// A port set CE.
    CeMark,
    /// A port set EIN.
    EinMark,
    /// A timer expired: nothing of the window had arrived.
    TimeoutFullWindow,
    /// A timer expired: the tail was lost.
    TimeoutTail,
    /// A timer expired: a retransmission was lost.
    TimeoutLostRetransmission,
    /// A timer expired for SYN, SYN-ACK or FIN.
    TimeoutControl,
    /// Three duplicates.
    FastRetransmit,
    /// A data segment was sent again.
    Retransmission,
    /// Marks reduced a window.
    MarkReduction,
}

/// Sums over the whole network. Every packet is accounted for:
/// `sent = delivered + dropped + lost_on_wire + in_network`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets that hosts handed to their NICs.
    pub sent: u64,
    /// Packets that reached their host.
    pub delivered: u64,
    /// Packets that switch ports did not admit.
    pub dropped: u64,
    /// Packets lost on wires by the scenario's wish.
    pub lost_on_wire: u64,
    /// Packets queued or on wires when the run ended.
    pub in_network: u64,
    /// Packets beginning transmission on a link, host links included.
    pub packet_hops: u64,
    /// Packets marked CE.
    pub ce_marks: u64,
    /// Packets marked EIN.
    pub ein_marks: u64,
}

/// In-order payload delivered over time, in bins of equal width.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryCurve {
    /// Width of a bin.
    pub width: Duration,
    /// Bytes delivered in each bin since the start of the run.
    pub bytes: Vec<u64>,
}
