//! Tables of a scenario as they are written. The JSON Schema is generated from these types.
//!
//! Their descriptions are what an editor shows, so they speak to the author of a scenario.

mod hosts;
mod noise;
mod part;
mod record;
mod stack;
mod tcp;
mod topology;

pub(crate) use hosts::{HostRef, HostSet, PerRackSpec, Senders};
pub(crate) use noise::HostsSpec;
pub(crate) use part::{Named, conflict};
pub(crate) use record::RecordSpec;
pub(crate) use stack::StackSpec;
pub(crate) use tcp::TcpTable;
pub use tcp::{TcpProfile, profiles, tcp_of};
pub(crate) use topology::{
    CustomLink, CustomSpec, DumbbellSpec, FatTreeSpec, HpccSpec, LeafSpineSpec, LinkSpec, StarSpec, SwitchSpec,
    TopologySpec,
};
