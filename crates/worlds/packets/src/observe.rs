//! What is written down while a run goes on. Observers are types chosen per run, so that what is not
//! wanted costs nothing.

mod packets;

use packets::Packets;

use std::io;

use incast_plan::{Plan, Record};
use incast_protocols::{Bytes, Duration, Time};
use incast_record::{
    Alarm, Event, EventKind, Incast, PacketSample, QueueSample, QueueStatistics, Rows, Sorter, Spill, WindowSample,
};

use incast_world::incasts::{Arrival, Incasts};

use crate::packet::{Flags, Packet};
use crate::tcp::Signal;
use crate::tcp::sack::SackOption;

/// Is told of everything; the defaults write nothing down.
pub(crate) trait Observer {
    /// What series and events take in memory.
    fn recorded(&self) -> Bytes {
        Bytes::ZERO
    }

    /// Whether everything could be written down so far.
    ///
    /// # Errors
    /// The disk has failed.
    fn complete(&self) -> io::Result<()> {
        Ok(())
    }

    /// Whether every change of the queues of switch ports is wanted.
    fn wants_queues(&self) -> bool {
        false
    }

    /// The queue of a switch port changed. Where [queues are wanted](Self::wants_queues), all changes are told.
    #[inline]
    fn queue_changed(&mut self, _link: u32, _now: u64, _waiting_packets: u32, _waiting_bytes: u64) {}

    /// A packet was admitted and found this many waiting.
    #[inline]
    fn enqueued(&mut self, _link: u32, _now: u64, _found: u32) {}

    /// Whether it is wanted when there is incast at a switch port.
    #[inline]
    fn watches(&self, _link: u32) -> bool {
        false
    }

    /// A packet arrived at a watched port, admitted or not.
    #[inline]
    fn arrived(&mut self, _link: u32, _arrival: &Arrival) {}

    /// The transmission of a packet began at a watched port, of which the detector said incast or not.
    #[inline]
    fn departed(&mut self, _link: u32, _now: u64, _ein: bool) {}

    /// Whether packets at a port are wanted one by one.
    #[inline]
    fn follows(&self, _link: u32) -> bool {
        false
    }

    /// Whether packets at some port are wanted one by one.
    #[inline]
    fn follows_some(&self) -> bool {
        false
    }

    /// An end has written the options that `packet` carries. It keeps the last `kept` of them.
    fn options_written(&mut self, _packet: &Packet, _sack: SackOption, _kept: usize) {}

    /// A packet arrived at a port that is followed; if it is admitted, that is told next of this port.
    fn packet_arrived(&mut self, _link: u32, _now: u64, _packet: &Packet) {}

    /// The packet that arrived last was admitted, as it is now.
    fn packet_admitted(&mut self, _link: u32, _packet: &Packet) {}

    /// The packet of this class that would have left last had to go.
    fn packet_evicted(&mut self, _link: u32, _class: u8) {}

    /// The first packet of its class began its transmission, with these flags.
    fn packet_left(&mut self, _link: u32, _start: u64, _packet: &Packet, _flags: Flags) {}

    /// Something happened once.
    #[inline]
    fn event(&mut self, _event: Event) {}

    /// Whether windows of this connection are wanted.
    #[inline]
    fn wants_windows(&self, _connection: u32) -> bool {
        false
    }

    /// A sender after something happened to it.
    fn windows(&mut self, _sample: WindowSample) {}

    /// Takes over what the observer of another part of the network has written down.
    fn join(&mut self, other: Self);

    /// Hands over what was written down: statistics by link, samples, events.
    fn finish(self) -> Written;
}

/// What an observer wrote down.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) statistics: Vec<Option<QueueStatistics>>,
    pub(crate) queue_samples: Rows<QueueSample>,
    pub(crate) window_samples: Rows<WindowSample>,
    pub(crate) events: Rows<Event>,
    pub(crate) packets: Rows<PacketSample>,
    pub(crate) incasts: Vec<Incast>,
    pub(crate) alarms: Vec<Alarm>,
}

/// Writes nothing down.
#[derive(Debug)]
pub(crate) struct Silent;

impl Observer for Silent {
    fn join(&mut self, _other: Self) {}

    fn finish(self) -> Written {
        Written::default()
    }
}

/// The queue of one port as it was left.
#[derive(Clone, Debug, Default)]
struct Queue {
    since: Option<u64>,
    changed_at: u64,
    waiting_packets: u32,
    waiting_bytes: u64,
    statistics: QueueStatistics,
    series: bool,
}

/// Writes down what a scenario asks for.
#[derive(Debug)]
pub(crate) struct Recorder {
    statistics: bool,
    /// Statistics or series of some queue.
    queues_wanted: bool,
    events_wanted: bool,
    queues: Vec<Queue>,
    /// By connection: its number among those whose windows are wanted, or [`NONE`].
    windows_wanted: Vec<u32>,
    /// By that number and side: the last sample.
    last_windows: Vec<[Option<WindowSample>; 2]>,
    queue_samples: Sorter<QueueSample>,
    window_samples: Sorter<WindowSample>,
    events: Sorter<Event>,
    incasts: Option<Incasts>,
    packets: Option<Packets>,
}

/// No number.
const NONE: u32 = u32::MAX;

fn bump(histogram: &mut Vec<u64>, at: u32, by: u64) {
    let at = at as usize;
    if at >= histogram.len() {
        histogram.resize(at + 1, 0);
    }
    histogram[at] += by;
}

impl Recorder {
    /// Rows beyond what memory should hold go where `spill` says.
    pub(crate) fn new(plan: &Plan, spill: Option<&Spill>) -> Self {
        let record = &plan.record;
        let mut queues = vec![Queue::default(); plan.network.links.len()];
        for &link in &record.queue_series {
            queues[link as usize].series = true;
        }
        let mut windows_wanted = vec![NONE; plan.connections.len()];
        for (number, &connection) in (0..).zip(&record.window_series) {
            windows_wanted[connection as usize] = number;
        }
        Self {
            statistics: record.queue_statistics,
            queues_wanted: record.queue_statistics || !record.queue_series.is_empty(),
            events_wanted: record.events,
            queues,
            windows_wanted,
            last_windows: vec![[None; 2]; record.window_series.len()],
            queue_samples: Sorter::new(spill),
            window_samples: Sorter::new(spill),
            events: Sorter::new(spill),
            incasts: (!record.incasts.is_empty()).then(|| Incasts::new(plan)),
            packets: (!record.packets.is_empty()).then(|| Packets::new(plan, spill)),
        }
    }

    /// Whether a scenario asks for anything at all.
    pub(crate) fn is_wanted(record: &Record) -> bool {
        // Which connections' packets are wanted says nothing without ports.
        let Record { queue_statistics, queue_series, window_series, events, packets, packets_of: _, incasts } = record;
        let lists = [queue_series, window_series, packets, incasts];
        *queue_statistics || *events || lists.iter().any(|list| !list.is_empty())
    }
}

impl Observer for Recorder {
    fn recorded(&self) -> Bytes {
        let packets = self.packets.as_ref().map_or(Bytes::ZERO, |packets| packets.rows().memory());
        self.queue_samples.memory() + self.window_samples.memory() + self.events.memory() + packets
    }

    fn complete(&self) -> io::Result<()> {
        self.queue_samples.complete()?;
        self.window_samples.complete()?;
        self.events.complete()?;
        self.packets.as_ref().map_or(Ok(()), |packets| packets.rows().complete())
    }

    fn wants_queues(&self) -> bool {
        self.queues_wanted
    }

    #[inline]
    fn queue_changed(&mut self, link: u32, now: u64, waiting_packets: u32, waiting_bytes: u64) {
        if !self.queues_wanted {
            return;
        }
        let queue = &mut self.queues[link as usize];
        if self.statistics {
            let span = now - queue.changed_at;
            bump(&mut queue.statistics.time_at, queue.waiting_packets, span);
            bump(&mut queue.statistics.changes_to, waiting_packets, 1);
            queue.statistics.byte_time += u128::from(queue.waiting_bytes) * u128::from(span);
        }
        queue.changed_at = now;
        queue.waiting_packets = waiting_packets;
        queue.waiting_bytes = waiting_bytes;
        if queue.series {
            let waiting_bytes = Bytes(waiting_bytes);
            self.queue_samples.push(QueueSample { time: Time(now), link, waiting_packets, waiting_bytes });
        }
    }

    #[inline]
    fn enqueued(&mut self, link: u32, now: u64, found: u32) {
        if self.statistics {
            let queue = &mut self.queues[link as usize];
            if queue.since.is_none() {
                queue.since = Some(now);
                queue.changed_at = now;
            }
            bump(&mut queue.statistics.found_at_enqueue, found, 1);
            // Where nothing waits the queue does not change, but the port is observed up to here.
            let span = now - queue.changed_at;
            bump(&mut queue.statistics.time_at, queue.waiting_packets, span);
            queue.statistics.byte_time += u128::from(queue.waiting_bytes) * u128::from(span);
            queue.changed_at = now;
        }
    }

    #[inline]
    fn watches(&self, link: u32) -> bool {
        self.incasts.as_ref().is_some_and(|incasts| incasts.watches(link))
    }

    fn arrived(&mut self, link: u32, arrival: &Arrival) {
        if let Some(incasts) = &mut self.incasts {
            incasts.arrived(link, arrival);
        }
    }

    fn departed(&mut self, link: u32, now: u64, ein: bool) {
        if let Some(incasts) = &mut self.incasts {
            incasts.departed(link, now, ein);
        }
    }

    fn event(&mut self, event: Event) {
        if let (EventKind::Drop, Some(link), Some(incasts)) = (event.kind, event.link, &mut self.incasts) {
            incasts.dropped(link, event.time.0);
        }
        if self.events_wanted {
            self.events.push(event);
        }
    }

    #[inline]
    fn follows(&self, link: u32) -> bool {
        self.packets.as_ref().is_some_and(|packets| packets.follows(link))
    }

    #[inline]
    fn follows_some(&self) -> bool {
        self.packets.is_some()
    }

    fn options_written(&mut self, packet: &Packet, sack: SackOption, kept: usize) {
        if let Some(packets) = &mut self.packets {
            packets.options_written(packet, sack, kept);
        }
    }

    fn packet_arrived(&mut self, link: u32, now: u64, packet: &Packet) {
        if let Some(packets) = &mut self.packets {
            packets.arrived(link, now, packet);
        }
    }

    fn packet_admitted(&mut self, link: u32, packet: &Packet) {
        if let Some(packets) = &mut self.packets {
            packets.admitted(link, packet);
        }
    }

    fn packet_evicted(&mut self, link: u32, class: u8) {
        if let Some(packets) = &mut self.packets {
            packets.evicted(link, class);
        }
    }

    fn packet_left(&mut self, link: u32, start: u64, packet: &Packet, flags: Flags) {
        if let Some(packets) = &mut self.packets {
            packets.left(link, start, packet, flags);
        }
    }

    #[inline]
    fn wants_windows(&self, connection: u32) -> bool {
        self.windows_wanted[connection as usize] != NONE
    }

    fn windows(&mut self, sample: WindowSample) {
        let number = self.windows_wanted[sample.connection as usize];
        let last = &mut self.last_windows[number as usize][usize::from(sample.from_client)];
        if last.is_some_and(|last| WindowSample { time: sample.time, ..last } == sample) {
            return;
        }
        *last = Some(sample);
        self.window_samples.push(sample);
    }

    fn join(&mut self, other: Self) {
        for (mine, theirs) in self.queues.iter_mut().zip(other.queues) {
            // What nobody has used there may have been used here.
            if theirs.since.is_some() {
                *mine = theirs;
            }
        }
        self.queue_samples.join(other.queue_samples);
        self.window_samples.join(other.window_samples);
        self.events.join(other.events);
        if let (Some(mine), Some(theirs)) = (&mut self.incasts, other.incasts) {
            mine.join(theirs);
        }
    }

    fn finish(self) -> Written {
        let statistics = self.queues.into_iter().map(|queue| {
            let since = queue.since?;
            Some(QueueStatistics { observed: Duration(queue.changed_at - since), ..queue.statistics })
        });
        let (incasts, alarms) = self.incasts.map(Incasts::finish).unwrap_or_default();
        Written {
            statistics: if self.statistics { statistics.collect() } else { Vec::new() },
            queue_samples: self.queue_samples.finish(),
            window_samples: self.window_samples.finish(),
            events: self.events.finish(),
            packets: self.packets.map(Packets::finish).unwrap_or_default(),
            incasts,
            alarms,
        }
    }
}

/// The event that a signal of a sender stands for.
pub(crate) fn sender_event(now: u64, signal: &Signal, connection: u32, from_client: bool) -> Event {
    let Signal { kind, offset, timer, .. } = *signal;
    Event { time: Time(now), kind, connection, from_client, link: None, offset, timer: timer.map(Box::new) }
}

#[cfg(test)]
mod tests;
