//! Admission: which packet gets a place in the switch's memory.

use super::{PacketView, QueueState, Quiet};
use crate::registry::registry;
use crate::units::Bytes;

pub mod capacity;
pub mod dynamic_threshold;
pub mod static_limit;

registry! {
    Buffer: Buffer, built from BufferContext;
    /// Any registered buffer, called without a vtable.
    any AnyBuffer;
    /// A buffer and its parameters, as a scenario names it.
    choice BufferChoice;
    "static" = static_limit::Static,
    "dynamic-threshold" = dynamic_threshold::DynamicThreshold,
}

/// What a buffer is told when its switch is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferContext {
    /// Output ports of the switch.
    pub ports: u32,
}

/// What becomes of a packet that arrives at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is taken in.
    Admit,
    /// It is dropped.
    Drop,
    /// Its payload is dropped and its header is taken in, as one of the highest class (Cheng et al., CP, 2014; Handley
    /// et al., NDP, 2017). A packet without payload is taken in as it is.
    Trim,
    /// The packet that would be sent last from this port of the same memory is dropped to make room, and the buffer is asked again. Where no packet waits there,
    /// the arriving packet is dropped.
    Evict(PortIndex),
}

impl Verdict {
    /// Admitted or dropped.
    #[inline]
    #[must_use]
    pub const fn admit_if(admitted: bool) -> Self {
        if admitted { Self::Admit } else { Self::Drop }
    }
}

/// How much a memory may hold and still have room for whatever comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ample {
    /// While all ports together hold no more than this, every packet is admitted, and nothing is learnt from it but that it is held.
    pub bytes: Bytes,
    /// A packet may count for this much more than its bytes.
    pub beside_packet: Bytes,
}

impl Ample {
    /// It may always be too much.
    pub const NEVER: Self = Self { bytes: Bytes::ZERO, beside_packet: Bytes::ZERO };
}

/// A port's number at its switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortIndex(pub u32);

/// The memory of one switch, which its output ports use each for itself or together.
#[enum_dispatch::enum_dispatch]
#[auto_impl::auto_impl(Box)]
pub trait Buffer: core::fmt::Debug + dyn_clone::DynClone {
    /// What becomes of `packet`, bound for `port` whose queue is `queue`. It is asked about every packet that does not
    /// find a [quiet](Self::quiet) queue and is not [taken in unseen](Self::takes), unless there is [ample](Self::ample) room; what it
    /// admits or trims uses memory until [`on_departure`](Self::on_departure).
    fn admit(&mut self, port: PortIndex, queue: &QueueState, packet: &PacketView) -> Verdict;

    /// Whether a packet of this size, bound for `port`, is taken in unseen: it would be admitted whatever its queue is.
    /// If so, it has been admitted; if not, nothing has happened. Only asked of a buffer that
    /// [couples its ports](Self::couples_ports), since another is [quiet](Self::quiet). It need not have been told yet of
    /// departures that are due, which makes it look fuller than it is.
    fn takes(&mut self, _port: PortIndex, _bytes: Bytes) -> bool {
        false
    }

    /// A packet of this size leaves the memory at `port`: its transmission begins, it was evicted, or from now on there is
    /// [ample](Self::ample) room. Only told to a buffer that [couples its ports](Self::couples_ports).
    fn on_departure(&mut self, _port: PortIndex, _bytes: Bytes) {}

    /// How much it may hold and still have room for whatever comes. Until then ports may go without it: they say that all that waits
    /// has left, and then neither ask nor tell anything. Before there may be too much they say what has [returned](Self::on_return), so
    /// a buffer that says how much is ample has that function and [`held`](Self::held) as well. Constant over a run.
    fn ample(&self) -> Ample {
        Ample::NEVER
    }

    /// How much it holds, in the terms of what is [ample](Self::ample): departures that are due may be missing.
    fn held(&self) -> Bytes {
        Bytes(u64::MAX)
    }

    /// A packet of this size waits at `port`, which was taken in while there was [ample](Self::ample) room.
    fn on_return(&mut self, _port: PortIndex, _bytes: Bytes) {}

    /// Queues at which every packet is taken in and nothing is learnt from it. Constant over a run.
    fn quiet(&self) -> Quiet {
        Quiet::NEVER
    }

    /// Whether what one port holds changes what another may take. Unless there is [ample](Self::ample) room, such a buffer hears of
    /// arrivals and departures at all its ports in order of time, up to what it [takes in unseen](Self::takes); ports that do not couple
    /// are simulated one by one, which is faster.
    fn couples_ports(&self) -> bool {
        false
    }
}
