//! Admission: which packet gets a place in the switch's memory.

use super::{PacketView, QueueState};
use crate::registry::registry;
use crate::units::Bytes;

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

/// A port's number at its switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortIndex(pub u32);

/// The memory of one switch, which its output ports use each for itself or together.
#[enum_dispatch::enum_dispatch]
pub trait Buffer {
    /// Whether `packet`, bound for `port` whose queue is `queue`, is taken in. It is asked for every
    /// packet; on "yes" the memory counts as used until [`on_departure`](Self::on_departure).
    fn admit(&mut self, port: PortIndex, queue: &QueueState, packet: &PacketView) -> bool;

    /// The transmission of a packet of this size begins at `port`. Only told to a buffer that
    /// [couples its ports](Self::couples_ports).
    fn on_departure(&mut self, _port: PortIndex, _bytes: Bytes) {}

    /// Whether what one port holds changes what another may take. Such a switch is simulated as a
    /// whole in time order; ports that do not couple are simulated one by one, which is faster.
    fn couples_ports(&self) -> bool {
        false
    }
}
