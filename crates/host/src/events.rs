//! What happens to single packets and connections of some network namespaces.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;

use libbpf_rs::{Link, MapCore as _, MapFlags, Object, RingBufferBuilder};
use serde_json::{Value, json};

use crate::kernel;

pub(crate) const EVENTS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/events.bpf.o"));

/// The programs of `kernel/events.bpf.c`.
const PROGRAMS: [&str; 4] = ["incast_established", "incast_retransmission", "incast_state", "incast_drop"];
/// `enum kind`.
const KINDS: [&str; 6] = ["established", "drop", "retransmission", "tail-probe", "timeout", "fast-retransmit"];
/// The bytes of `struct event`.
const LENGTH: usize = 48;

/// What tells of events, as long as this lives.
pub(crate) struct Events {
    object: Object,
    _links: Vec<Link>,
}

impl Events {
    /// Attaches the programs, for what happens in these namespaces.
    pub(crate) fn attach(namespaces: &[PathBuf]) -> Result<Self, String> {
        let object = kernel::load("events", kernel::open("events", EVENTS)?, &[])?;
        let meant = kernel::handle(&object, "namespaces")?;
        for namespace in namespaces {
            let number = kernel::netns_number(namespace)?;
            meant
                .update(&number.to_ne_bytes(), &[1], MapFlags::ANY)
                .map_err(|error| format!("the map namespaces: {error}"))?;
        }
        let attach = |name: &&str| kernel::attach_trace(&kernel::program_to_attach(&object, name)?);
        let links = PROGRAMS.iter().map(attach).collect::<Result<_, String>>()?;
        Ok(Self { object, _links: links })
    }

    /// Takes what has happened so far, in the order of time: nanoseconds of the monotonic clock, kind, source, destination,
    /// sequence number, payload of what leaves again, and device. And how many events there was no room for.
    pub(crate) fn take(&self) -> Result<Value, String> {
        let failed = |error: libbpf_rs::Error| format!("the map events: {error}");
        let buffer = kernel::handle(&self.object, "events")?;
        let mut rows: Vec<(u64, Value)> = vec![];
        let mut reader = RingBufferBuilder::new();
        reader
            .add(&buffer, |bytes| {
                rows.extend(parse(bytes));
                0
            })
            .map_err(failed)?;
        reader.build().and_then(|reader| reader.consume()).map_err(failed)?;
        // Processors write at the same time.
        rows.sort_by_key(|(time, _)| *time);
        let rows: Vec<Value> = rows.into_iter().map(|(_, row)| row).collect();
        Ok(json!({ "lost": kernel::numbers(&self.object, ".lost", 1)?[0], "rows": rows }))
    }
}

fn parse(bytes: &[u8]) -> Option<(u64, Value)> {
    let bytes: &[u8; LENGTH] = bytes.get(..LENGTH)?.try_into().ok()?;
    let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let place = |address: usize, port: usize| {
        let address = Ipv4Addr::new(bytes[address], bytes[address + 1], bytes[address + 2], bytes[address + 3]);
        SocketAddrV4::new(address, u16::from_ne_bytes([bytes[port], bytes[port + 1]])).to_string()
    };
    let time = u64::from_ne_bytes(bytes[..8].try_into().ok()?);
    let device: Vec<u8> = bytes[32..].iter().copied().take_while(|byte| *byte != 0).collect();
    let kind = KINDS.get(word(8) as usize)?;
    let row = json!([time, kind, place(16, 24), place(20, 26), word(12), word(28), String::from_utf8_lossy(&device)]);
    Some((time, row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn mutated_events_are_read_or_left_out(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let known = bytes.len() >= LENGTH && bytes[9..12] == [0; 3] && usize::from(bytes[8]) < KINDS.len();
            prop_assert_eq!(parse(&bytes).is_some(), known);
        }
    }

    #[test]
    fn an_event_is_read_as_the_kernel_writes_it() {
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(&7_u64.to_ne_bytes());
        bytes[8..12].copy_from_slice(&1_u32.to_ne_bytes());
        bytes[12..16].copy_from_slice(&u32::MAX.to_ne_bytes());
        bytes[16..24].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        bytes[24..26].copy_from_slice(&5000_u16.to_ne_bytes());
        bytes[26..28].copy_from_slice(&10_000_u16.to_ne_bytes());
        bytes[28..32].copy_from_slice(&3000_u32.to_ne_bytes());
        bytes[32..35].copy_from_slice(b"l12");
        let row = json!([7, "drop", "10.0.0.1:5000", "10.0.0.2:10000", u32::MAX, 3000, "l12"]);
        assert_eq!(parse(&bytes), Some((7, row)));
        bytes[8] = 9;
        assert_eq!(parse(&bytes), None, "a kind that is not known");
        assert_eq!(parse(&bytes[..40]), None);
    }
}
