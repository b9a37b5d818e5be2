//! The connections of a cgroup that is under a sender, one by one.

use std::io::{self, Read as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use libbpf_rs::{MapCore as _, Object};
use serde::Serialize;

use crate::kernel;

pub(crate) const FLOWS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/flows.bpf.o"));

/// The bytes of `struct flow` in `kernel/flows.bpf.c`.
const LENGTH: usize = 120;
const AF_INET: u32 = 2;
const CLOSED: u32 = 7;

/// One connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Flow {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// The congestion control that it has.
    pub(crate) algorithm: String,
    pub(crate) cwnd_segments: u32,
    pub(crate) ssthresh_segments: u32,
    /// Smoothed round-trip time.
    pub(crate) srtt_us: u32,
    pub(crate) bytes_acked: u64,
    pub(crate) bytes_received: u64,
    pub(crate) segments_delivered: u32,
    pub(crate) segments_delivered_ce: u32,
    pub(crate) segments_retransmitted: u32,
    pub(crate) timeouts: u32,
    /// Incast marks that came with what the other end sent.
    pub(crate) marks_seen: u32,
    /// Incast marks that the other end has told of.
    pub(crate) marks_heard: u32,
}

/// The link to a program that tells of all connections with a note in `sockets`.
pub(crate) fn attach(sockets: &Object) -> Result<OwnedFd, String> {
    let notes = sockets.maps().find(|map| map.name() == "sockets").ok_or("there is no map sockets")?;
    let object = kernel::load("flows", kernel::open("flows", FLOWS)?, &[])?;
    let link = kernel::attach_iterator(&kernel::program_to_attach(&object, "incast_flows")?, &notes)?;
    kernel::descriptor(&link)
}

/// All of them, as they are now.
pub(crate) fn read(link: &OwnedFd) -> Result<Vec<Flow>, String> {
    let failed = |error: io::Error| format!("connections: {error}");
    let mut bytes = vec![];
    kernel::iterate(link).and_then(|mut iterator| iterator.read_to_end(&mut bytes)).map_err(failed)?;
    Ok(bytes.chunks_exact(LENGTH).filter_map(parse).collect())
}

fn parse(bytes: &[u8]) -> Option<Flow> {
    let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let numbers: Vec<u32> = (48..104).step_by(4).map_while(word).collect();
    let [
        family,
        state,
        local_port,
        remote_port,
        cwnd,
        ssthresh,
        srtt_us8,
        retransmitted,
        delivered,
        ce,
        seen,
        heard,
        timeouts,
        _,
    ] = numbers[..]
    else {
        return None;
    };
    let address = |at: usize, port: u32| {
        let octets: [u8; 16] = bytes[at..at + 16].try_into().ok()?;
        let ip = if family == AF_INET {
            IpAddr::V4(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]))
        } else {
            IpAddr::V6(Ipv6Addr::from(octets)).to_canonical()
        };
        Some(SocketAddr::new(ip, port as u16))
    };
    let name: Vec<u8> = bytes[104..LENGTH].iter().copied().take_while(|byte| *byte != 0).collect();
    (state != CLOSED).then_some(Flow {
        local: address(16, local_port)?,
        remote: address(32, remote_port)?,
        algorithm: String::from_utf8_lossy(&name).into_owned(),
        cwnd_segments: cwnd,
        ssthresh_segments: ssthresh,
        srtt_us: srtt_us8 / 8,
        bytes_acked: long(0)?,
        bytes_received: long(8)?,
        segments_delivered: delivered,
        segments_delivered_ce: ce,
        segments_retransmitted: retransmitted,
        timeouts,
        marks_seen: seen,
        marks_heard: heard,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn mutated_connections_are_read_unless_closed(bytes in prop::collection::vec(any::<u8>(), LENGTH)) {
            let state = u32::from_ne_bytes(bytes[52..56].try_into().unwrap());
            prop_assert_eq!(parse(&bytes).is_some(), state != CLOSED);
            let mut closed = bytes;
            closed[52..56].copy_from_slice(&CLOSED.to_ne_bytes());
            prop_assert!(parse(&closed).is_none());
        }
    }
}
