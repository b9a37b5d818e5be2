//! The ports' queues, as the kernel's queueing disciplines know them.

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcStats2};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use crate::namespace::{Failure, Namespace};

/// What one port has sent, dropped and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PortCounts {
    pub(crate) index: i32,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) drops: u64,
    pub(crate) waiting_packets: u32,
    pub(crate) waiting_bytes: u32,
}

/// Asks the kernel for the ports of one namespace.
#[derive(Debug)]
pub(crate) struct Asking {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Asking {
    pub(crate) fn open(namespace: &Namespace) -> Result<Self, Failure> {
        let socket = namespace.inside(|| {
            let mut socket = Socket::new(NETLINK_ROUTE).map_err(|error| format!("netlink: {error}"))?;
            socket.bind_auto().map_err(|error| format!("netlink: {error}"))?;
            socket.connect(&SocketAddr::new(0, 0)).map_err(|error| format!("netlink: {error}"))?;
            Ok(socket)
        })?;
        Ok(Self { socket, buffer: Vec::with_capacity(1 << 16) })
    }

    /// All ports with a token bucket.
    pub(crate) fn ports(&mut self) -> Result<Vec<PortCounts>, Failure> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        let ask = RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default());
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(ask));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0).map_err(|error| format!("netlink: {error}"))?;
        let mut found = Vec::new();
        loop {
            self.buffer.clear();
            self.socket.recv(&mut self.buffer, 0).map_err(|error| format!("netlink: {error}"))?;
            let mut rest = &self.buffer[..];
            while !rest.is_empty() {
                let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                    .map_err(|error| format!("netlink: {error}"))?;
                match message.payload {
                    NetlinkPayload::Done(_) => return Ok(found),
                    NetlinkPayload::Error(error) => return Err(format!("netlink: {error}")),
                    NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewQueueDiscipline(told)) => {
                        found.extend(read(&told));
                    }
                    _ => {}
                }
                let length = (message.header.length as usize).next_multiple_of(4);
                rest = rest.get(length..).unwrap_or_default();
            }
        }
    }
}

/// The counts of a port's token bucket; nothing of other queueing disciplines.
fn read(told: &TcMessage) -> Option<PortCounts> {
    let bucket = told.attributes.iter().any(|one| matches!(one, TcAttribute::Kind(kind) if kind == "tbf"));
    if !bucket || told.header.parent != TcHandle::ROOT {
        return None;
    }
    let mut counts = PortCounts { index: told.header.index, ..PortCounts::default() };
    for attribute in &told.attributes {
        let TcAttribute::Stats2(statistics) = attribute else { continue };
        for one in statistics {
            match one {
                TcStats2::Basic(basic) => (counts.packets, counts.bytes) = (basic.packets.into(), basic.bytes),
                TcStats2::Queue(queue) => {
                    counts.drops = queue.drops.into();
                    (counts.waiting_packets, counts.waiting_bytes) = (queue.qlen, queue.backlog);
                }
                _ => {}
            }
        }
    }
    Some(counts)
}
