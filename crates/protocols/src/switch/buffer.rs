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

/// How much room is enough for whatever comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ample {
    /// While all ports together hold no more than this, every packet is admitted.
    pub bytes: Bytes,
    /// A packet takes up to so much more than its bytes.
    pub beside_packet: Bytes,
}

impl Ample {
    /// There is never enough.
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
    /// find a [quiet](Self::quiet) queue and is not [taken in unseen](Self::takes); what it admits or trims uses memory
    /// until [`on_departure`](Self::on_departure).
    fn admit(&mut self, port: PortIndex, queue: &QueueState, packet: &PacketView) -> Verdict;

    /// Whether a packet of this size, bound for `port`, is taken in unseen: it would be admitted whatever its queue is.
    /// If so, it has been admitted; if not, nothing has happened. Only asked of a buffer that
    /// [couples its ports](Self::couples_ports), since another is [quiet](Self::quiet). It need not have been told yet of
    /// departures that are due, which makes it look fuller than it is.
    fn takes(&mut self, _port: PortIndex, _bytes: Bytes) -> bool {
        false
    }

    /// A packet of this size leaves the memory at `port`: its transmission begins, or it was evicted. Only told to a
    /// buffer that [couples its ports](Self::couples_ports).
    fn on_departure(&mut self, _port: PortIndex, _bytes: Bytes) {}

    /// What is enough for whatever comes: while it is, ports need not ask, nor tell of departures. Then they tell of the departure of
    /// all that waits, and tell of its [return](Self::on_return) once there may not be enough. Constant over a run.
    fn ample(&self) -> Ample {
        Ample::NEVER
    }

    /// At most this is held of what is [ample](Self::ample).
    fn held(&self) -> Bytes {
        Bytes(u64::MAX)
    }

    /// A packet of this size waits at `port`. It was admitted while there was [enough](Self::ample).
    fn on_return(&mut self, _port: PortIndex, _bytes: Bytes) {}

    /// Queues at which every packet is taken in and nothing is learnt from it. Constant over a run.
    fn quiet(&self) -> Quiet {
        Quiet::NEVER
    }

    /// Whether what one port holds changes what another may take. Such a buffer hears of arrivals and departures at all
    /// its ports in order of time, up to what it [takes in unseen](Self::takes); ports that do not couple are simulated
    /// one by one, which is faster.
    fn couples_ports(&self) -> bool {
        false
    }
}
