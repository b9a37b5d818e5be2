//! Writing a checked scenario out as a plan.

use std::collections::BTreeMap;

use incast_protocols::Bytes;
use incast_protocols::switch::buffer::capacity::port_capacity;

use crate::limits;
use crate::network::Layout;
use crate::random::Stream;
use crate::report::{Problem, Report};
use incast_plan::{Connection, Handshake, Node, Plan, WindowPerMessage};

/// How a class uses connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reuse {
    pub(crate) persistent: bool,
    pub(crate) window: WindowPerMessage,
}

/// What a class of traffic adds its connections and messages to.
pub(crate) struct Expansion<'e> {
    pub(crate) plan: &'e mut Plan,
    /// Index of the class.
    pub(crate) class: u32,
    pub(crate) name: &'e str,
    pub(crate) seed: u64,
    pub(crate) layout: &'e Layout,
    /// What the class wants; otherwise it depends on the kind of connection.
    pub(crate) handshake: Option<Handshake>,
    /// Bytes on the wire of a full segment.
    pub(crate) packet: Bytes,
    /// Blames the class.
    pub(crate) blame: &'e Problem,
    pub(crate) coflows: &'e mut u32,
    pub(crate) open: BTreeMap<(u32, u32), u32>,
    /// Whether nobody wants the plan any more.
    pub(crate) cancelled: &'e dyn Fn() -> bool,
}

impl Expansion<'_> {
    /// The class's stream of random numbers for one purpose.
    pub(crate) fn stream(&self, purpose: &str) -> Stream {
        Stream::new(self.seed, &format!("traffic.{}.{purpose}", self.name))
    }

    /// Whether the plan is still wanted; asked now and then, since it may take seconds to write out.
    ///
    /// # Errors
    /// It is not.
    pub(crate) fn go_on(&self) -> Result<(), Report> {
        if (self.cancelled)() { Err(self.problem("planning was cancelled".into())) } else { Ok(()) }
    }

    /// The number of a new coflow.
    pub(crate) const fn coflow(&mut self) -> u32 {
        let number = *self.coflows;
        *self.coflows += 1;
        number
    }

    /// A connection for the next message between two hosts.
    pub(crate) fn connect(&mut self, client: u32, server: u32, reuse: Reuse) -> u32 {
        let next = self.plan.connections.len() as u32;
        if reuse.persistent {
            let known = *self.open.entry((client, server)).or_insert(next);
            if known != next {
                return known;
            }
        }
        self.add_connection(client, server, reuse)
    }

    /// A connection beside those that there are between two hosts.
    pub(crate) fn add_connection(&mut self, client: u32, server: u32, reuse: Reuse) -> u32 {
        let next = self.plan.connections.len() as u32;
        let otherwise = if reuse.persistent { Handshake::Before } else { Handshake::Counted };
        self.plan.connections.push(Connection {
            client,
            server,
            class: self.class,
            handshake: self.handshake.unwrap_or(otherwise),
            close_when_done: !reuse.persistent,
            window_per_message: if reuse.persistent { reuse.window } else { WindowPerMessage::Fresh },
        });
        next
    }

    /// What the last switch port before a host can hold alone.
    pub(crate) fn last_port_buffer(&self, host: u32) -> Bytes {
        let link = &self.layout.network.links[self.layout.down[host as usize] as usize];
        match (link.from, &link.port) {
            (Node::Switch(switch), Some(port)) => {
                let buffer = &self.layout.network.switches[switch as usize].buffers[port.buffer as usize];
                port_capacity(buffer, self.packet)
            }
            _ => Bytes(limits::MESSAGE_BYTES),
        }
    }

    /// A problem with the class as a whole.
    pub(crate) fn problem(&self, message: String) -> Report {
        Problem { message, ..self.blame.clone() }.into()
    }
}
