//! What a world has seen, in its own units: the raw material of the tables.

mod incasts;
mod machine;
mod packets;
mod rows;

use std::cmp::Ordering;
use std::io;

use incast_units::{Bytes, Duration, Rate, Time};
use serde::{Deserialize, Serialize};

pub use incasts::{Alarm, Cause, Detected, EXCESS, HOSTS, Incast, WINDOW_PACKETS};
pub use machine::Machine;
pub use packets::{PacketFlags, PacketSample, numbered};
pub use rows::{Iter, Row, Rows, Sorter, Spill};

/// All of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The scenario's name.
    pub name: String,
    /// Its seed.
    pub seed: u64,
    /// What carried it out and under which rule it was chosen, such as "sweep (every link has a delay)".
    pub driver: String,
    /// Names of the classes of traffic.
    pub classes: Vec<String>,
    /// By class: the name of its algorithm at the place sender, where the world has one.
    pub senders: Vec<String>,
    /// What the scenario warned of.
    pub warnings: Vec<String>,
    /// How far simulated time came.
    pub end: Time,
    /// Why it ended.
    pub outcome: Outcome,
    /// One row per message, by (class order of the plan, start).
    pub flows: Rows<Flow>,
    /// One row per switch port.
    pub ports: Vec<PortRow>,
    /// Queue lengths of the chosen ports, by (time, link).
    pub queue_samples: Rows<QueueSample>,
    /// Windows of the chosen connections, by (time, connection).
    pub window_samples: Rows<WindowSample>,
    /// Columns that senders of this run add to the table of windows, each once.
    pub window_columns: Vec<OwnColumn>,
    /// By (time, kind, place).
    pub events: Rows<Event>,
    /// Packets at the chosen ports, by (arrival, link).
    pub packets: Rows<PacketSample>,
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
    /// How good the machine was, if the run took place on one and not in simulated time.
    pub machine: Option<Machine>,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Whether the client of the connection sends it.
    pub from_client: bool,
    /// Stream offset of its first byte, once it was handed over.
    pub offset: Option<u64>,
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// Timeouts after which nothing sent in the window had arrived.
    pub timeouts_full_window: u32,
    /// Timeouts because the end of what was sent was lost: too few duplicates for a fast retransmit.
    pub timeouts_tail: u32,
    /// Timeouts because a retransmission was lost.
    pub timeouts_lost_retransmission: u32,
    /// Timeouts of SYN, SYN-ACK or FIN.
    pub timeouts_control: u32,
    /// Timeouts of data in a world that cannot tell their causes apart: Linux counts them together.
    pub timeouts_untold: u32,
    /// Fast retransmits.
    pub fast_retransmits: u32,
    /// Tail loss probes sent.
    pub tail_probes: u32,
    /// Data segments sent again.
    pub retransmitted_packets: u32,
    /// Window reductions in answer to echoed marks.
    pub mark_reductions: u32,
}

impl Losses {
    /// Timeouts of all causes.
    #[must_use]
    pub const fn timeouts(&self) -> u32 {
        let told = self.timeouts_full_window + self.timeouts_tail + self.timeouts_lost_retransmission;
        told + self.timeouts_control + self.timeouts_untold
    }
}

/// One switch port over the whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PortRow {
    /// Index of its link in the plan.
    pub link: u32,
    /// Such as "leaf 3".
    pub from: String,
    /// Such as "host 17".
    pub to: String,
    /// Line rate.
    pub rate: Rate,
    /// What it may hold while the other ports are empty, if its buffer counts bytes.
    pub limit_bytes: Option<Bytes>,
    /// The same, if its buffer counts packets.
    pub limit_packets: Option<u32>,
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
    /// Packets lost on the wire: configured link loss.
    pub wire_losses: u64,
    /// Most packets that ever waited (the packet in transmission does not count).
    pub max_waiting: u32,
    /// Queue statistics, if recorded.
    pub queue: Option<QueueStatistics>,
}

/// The queue of one port: packets waiting, without the one in transmission.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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
    /// The value of the sender's own column, and which of [`Run::window_columns`] it is.
    pub own: Option<(u32, f64)>,
}

/// A column that parts of a run add to a table. Its values are numbers, or null for what other parts did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnColumn {
    /// Its name, with the unit.
    pub name: String,
    /// What it holds.
    pub meaning: String,
}

/// Something that happened once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
    /// The timer that expired, if one did. Few events have one, so that the others pay for its place only.
    pub timer: Option<Box<Timer>>,
}

/// A sender's timer when it expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Timer {
    /// Since when it ran.
    pub armed: Time,
    /// The retransmission timeout, before it was doubled.
    pub rto: Duration,
    /// Duplicate ACKs since the last ACK of new data.
    pub duplicate_acks: u32,
    /// Sent and not acknowledged.
    pub flight: Bytes,
}

/// What an [`Event`] was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum EventKind {
    /// A switch port did not admit a packet.
    Drop,
    /// A packet was lost on the wire: configured link loss.
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
    /// A timer expired in a world that does not say what it found.
    TimeoutUntold,
    /// Three duplicates.
    FastRetransmit,
    /// A tail loss probe was sent.
    TailProbe,
    /// A data segment was sent again.
    Retransmission,
    /// Marks reduced a window.
    MarkReduction,
}

/// Sums over the whole network. Every packet is accounted for:
/// `sent = delivered + dropped + lost_on_wire + in_network`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Packets that hosts handed to their NICs.
    pub sent: u64,
    /// Packets that reached their host.
    pub delivered: u64,
    /// Packets that switch ports did not admit.
    pub dropped: u64,
    /// Packets lost on wires: configured link loss.
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryCurve {
    /// Width of a bin.
    pub width: Duration,
    /// Bytes delivered in each bin since the start of the run.
    pub bytes: Vec<u64>,
}

impl Run {
    /// Whether its tables hold everything that was recorded.
    ///
    /// # Errors
    /// The disk that holds what memory did not has failed.
    pub fn complete(&self) -> io::Result<()> {
        self.flows.complete()?;
        self.queue_samples.complete()?;
        self.window_samples.complete()?;
        self.events.complete()?;
        self.packets.complete()
    }
}

impl Flow {
    /// From its start to its last byte's arrival, if that came.
    #[must_use]
    pub fn completion_time(&self) -> Option<Duration> {
        self.end.map(|end| end.since(self.start))
    }

    /// Completion time over the ideal one.
    #[must_use]
    pub fn slowdown(&self) -> Option<f64> {
        let ideal = self.ideal.filter(|ideal| *ideal > Duration::ZERO)?;
        Some(self.completion_time()?.0 as f64 / ideal.0 as f64)
    }

    /// When all of it had been carried: its last byte's arrival, or in a run of the ideal model the end of its
    /// service. Completion times do not count what that waits for.
    #[must_use]
    pub fn carried(&self) -> Option<Time> {
        self.fluid_end.or(self.end)
    }

    /// Payload over the time until all of it had been carried.
    #[must_use]
    pub fn throughput_bps(&self) -> Option<f64> {
        mean_bps(self.size?.0, self.start, self.carried()?)
    }

    /// Whether it met its deadline; nothing without one, or if it was still open when the run ended.
    #[must_use]
    pub fn deadline_met(&self, run_end: Time) -> Option<bool> {
        let deadline = self.deadline?;
        match self.end {
            Some(end) => Some(end <= deadline),
            None => (run_end > deadline).then_some(false),
        }
    }
}

impl Row for Flow {
    const UNIQUE: bool = true;

    fn order(&self, other: &Self) -> Ordering {
        self.id.cmp(&other.id)
    }
}

impl Row for QueueSample {
    fn order(&self, other: &Self) -> Ordering {
        (self.time, self.link).cmp(&(other.time, other.link))
    }
}

impl Row for WindowSample {
    fn order(&self, other: &Self) -> Ordering {
        let key = |one: &Self| (one.time, one.connection, one.from_client);
        key(self).cmp(&key(other))
    }
}

impl Row for Event {
    fn order(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }
}

impl EventKind {
    /// Its name in the table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::WireLoss => "wire-loss",
            Self::CeMark => "ce-mark",
            Self::EinMark => "ein-mark",
            Self::TimeoutFullWindow => "timeout-full-window",
            Self::TimeoutTail => "timeout-tail",
            Self::TimeoutLostRetransmission => "timeout-lost-retransmission",
            Self::TimeoutControl => "timeout-control",
            Self::TimeoutUntold => "timeout-untold",
            Self::FastRetransmit => "fast-retransmit",
            Self::TailProbe => "tail-probe",
            Self::Retransmission => "retransmission",
            Self::MarkReduction => "mark-reduction",
        }
    }
}

impl Outcome {
    /// Its name in the tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::TimeUp => "time-up",
            Self::Interrupted => "interrupted",
        }
    }
}

/// Bits in a byte times picoseconds in a second.
const BIT_PS: u128 = 8_000_000_000_000;

/// `bytes` over the time from `start` to `end`, in bits per second; `None` if that time is zero.
#[must_use]
pub fn mean_bps(bytes: u64, start: Time, end: Time) -> Option<f64> {
    let span = end.since(start).0;
    // Exact up to the division, so that a line rate comes out as the round number it is.
    (span > 0).then(|| (u128::from(bytes) * BIT_PS) as f64 / span as f64)
}
