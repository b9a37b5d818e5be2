//! How others see a run that goes on, and stop it.

use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use incast_protocols::{Bytes, Time};
use incast_record::Spill;

/// Shared between a run and those who watch it. A run never waits for it and its results do not depend
/// on it, unless it is cancelled.
#[derive(Debug, Default)]
pub struct Control {
    cancelled: AtomicBool,
    /// Where rows go that memory should not hold, if somewhere.
    spill: Option<Spill>,
    /// Bytes that what is written down may take, or zero for any number.
    most_recorded: AtomicU64,
    full: AtomicBool,
    now: AtomicU64,
    packet_hops: AtomicU64,
    messages_left: AtomicU64,
    messages_total: AtomicU64,
    payload: AtomicU64,
    open_ends: AtomicU64,
    waiting_ends: AtomicU64,
    /// How many threads a run is to use, or zero if it is to choose.
    threads: AtomicUsize,
    /// The number of packet-hops after which a pilot ends; zero for any other run.
    pilot: AtomicU64,
    halfway: OnceLock<Progress>,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Simulated time.
    pub now: Time,
    /// Packets that have begun transmission on a link.
    pub packet_hops: u64,
    /// Messages of known size that are complete.
    pub messages_done: u64,
    /// Messages of known size.
    pub messages_total: u64,
    /// What has arrived, each byte once, in order or not; of requests, too.
    pub payload: Bytes,
    /// The most ends of connections that memory has held at once; of a run on several threads, those of one of them.
    pub open_ends: u64,
    /// Of a pilot, when it had half of its packet-hops or all: ends of connections that wait for a timer, with no packet under
    /// way.
    pub waiting_ends: u64,
}

impl Control {
    /// Has the run keep few rows of what it records in memory, and the others there.
    #[must_use]
    pub fn spilling(spill: Spill) -> Self {
        Self { spill: Some(spill), ..Self::default() }
    }

    /// Where rows go that memory should not hold; nowhere if memory holds all of them.
    #[must_use]
    pub const fn spill(&self) -> Option<&Spill> {
        self.spill.as_ref()
    }

    /// Asks the run to end soon; it then returns what it has.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Has the run end, as if it were cancelled, once what it writes down beside counters and flows takes more than this.
    pub fn limit_recorded(&self, most: Bytes) {
        self.most_recorded.store(most.0, Ordering::Relaxed);
    }

    /// Sets the number of threads that a run uses if it can. Otherwise it chooses. Results do not depend on it.
    pub fn use_threads(&self, threads: NonZeroUsize) {
        self.threads.store(threads.get(), Ordering::Relaxed);
    }

    /// Makes the run a pilot: after `packet_hops` it ends as if it were cancelled. It looks at their number often, and at nothing
    /// else, so that it ends at the same point on any machine.
    pub fn end_after(&self, packet_hops: u64) {
        self.pilot.store(packet_hops, Ordering::Relaxed);
    }

    /// After how many packet-hops the run ends, if it is a pilot.
    #[must_use]
    pub fn ends_after(&self) -> Option<u64> {
        Some(self.pilot.load(Ordering::Relaxed)).filter(|packet_hops| *packet_hops > 0)
    }

    /// How far a pilot had come with half of its packet-hops, if it has had as many.
    #[must_use]
    pub fn halfway(&self) -> Option<Progress> {
        self.halfway.get().copied()
    }

    /// How many threads somebody wants a run to use.
    #[must_use]
    pub fn threads(&self) -> Option<NonZeroUsize> {
        NonZeroUsize::new(self.threads.load(Ordering::Relaxed))
    }

    /// Has the run end, as if it were cancelled, because memory runs short.
    pub fn exhaust(&self) {
        self.full.store(true, Ordering::Relaxed);
        self.cancel();
    }

    /// A world says how much it has written down; returns whether that is too much.
    pub fn is_too_much(&self, recorded: Bytes) -> bool {
        let most = self.most_recorded.load(Ordering::Relaxed);
        let full = most > 0 && recorded.0 > most;
        if full {
            self.full.store(true, Ordering::Relaxed);
        }
        full
    }

    /// Whether the run ended because it had written down too much, or memory ran short.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// How far the run has come.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let total = self.messages_total.load(Ordering::Relaxed);
        Progress {
            now: Time(self.now.load(Ordering::Relaxed)),
            packet_hops: self.packet_hops.load(Ordering::Relaxed),
            messages_done: total.saturating_sub(self.messages_left.load(Ordering::Relaxed)),
            messages_total: total,
            payload: Bytes(self.payload.load(Ordering::Relaxed)),
            open_ends: self.open_ends.load(Ordering::Relaxed),
            waiting_ends: self.waiting_ends.load(Ordering::Relaxed),
        }
    }

    /// A world begins a run of so many messages of known size.
    pub fn begin(&self, messages: u64) {
        self.messages_left.store(messages, Ordering::Relaxed);
        self.messages_total.store(messages, Ordering::Relaxed);
    }

    /// A world says how far it is.
    pub fn report(&self, now: u64, packet_hops: u64, messages_left: u64) {
        self.now.store(now, Ordering::Relaxed);
        self.packet_hops.store(packet_hops, Ordering::Relaxed);
        self.messages_left.store(messages_left, Ordering::Relaxed);
    }

    /// A world of packets says, before it [reports](Self::report), how many bytes have arrived.
    pub fn note_payload(&self, bytes: u64) {
        self.payload.store(bytes, Ordering::Relaxed);
    }

    /// Likewise how many ends of connections memory has held at most.
    pub fn note_open_ends(&self, most: u64) {
        self.open_ends.store(most, Ordering::Relaxed);
    }

    /// After a report: whether a pilot has had all its packet-hops. It counts ends that wait for a timer only then, and when it
    /// has had half of them.
    pub fn is_enough(&self, waiting_ends: impl FnOnce() -> u64) -> bool {
        let Some(most) = self.ends_after() else { return false };
        let packet_hops = self.packet_hops.load(Ordering::Relaxed);
        let is_half = 2 * packet_hops >= most && self.halfway.get().is_none();
        let is_all = packet_hops >= most;
        if is_half || is_all {
            self.waiting_ends.store(waiting_ends(), Ordering::Relaxed);
        }
        if is_half {
            self.halfway.get_or_init(|| self.progress());
        }
        is_all
    }

    /// Whether somebody wants the run to end.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}
