//! What happens to single packets and connections of some network namespaces.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use libbpf_rs::{Link, MapCore as _, MapFlags, MapHandle, Object, RingBufferBuilder};
use serde_json::{Value, json};

use crate::kernel::{self, Side};
use crate::request::Followed;

pub(crate) const EVENTS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/events.bpf.o"));

/// The programs of `kernel/events.bpf.c` at tracepoints, and that of them that follows packets.
const PROGRAMS: [&str; 4] = ["incast_established", "incast_retransmission", "incast_state", "incast_drop"];
const FOLLOWING: &str = "incast_departure";
/// `enum kind` of `kernel/events.h`.
const KINDS: [&str; 11] = [
    "established",
    "drop",
    "retransmission",
    "tail-probe",
    "timeout",
    "fast-retransmit",
    "ce-mark",
    "ein-mark",
    "arrival",
    "departure",
    "delivery",
];
const ARRIVAL: u32 = 8;
/// The bytes of `struct event`, and of the headers behind it in `struct arrival`.
const LENGTH: usize = 56;
const HEADERS: usize = 120;
/// The kernel's buffer: some seconds of what two ports of 100 Mbit/s carry.
const BUFFER_BYTES: u32 = 1 << 24;
/// How often it is emptied while nobody asks.
const EMPTIED_EVERY: Duration = Duration::from_millis(20);
/// What is kept at most; the rest is lost, and counted.
const KEPT_BYTES: usize = 1 << 30;

/// What tells of events, as long as this lives.
pub(crate) struct Events {
    object: Object,
    links: Vec<Link>,
    devices: Vec<OwnedFd>,
    asking: Sender<Sender<Taken>>,
}

/// What the kernel has told since the last time, one after the other, and how much there was no room for.
type Taken = Result<(Vec<u8>, u64), String>;

impl Events {
    /// Attaches the programs, for what happens in these namespaces.
    pub(crate) fn attach(namespaces: &[PathBuf]) -> Result<Self, String> {
        let mut open = kernel::open("events", EVENTS)?;
        kernel::set_entries(&mut open, "events", BUFFER_BYTES)?;
        let object = kernel::load("events", open, &[])?;
        for namespace in namespaces {
            enter(&object, "namespaces", &kernel::netns_number(namespace)?.to_ne_bytes())?;
        }
        let attach = |name: &&str| kernel::attach_trace(&kernel::program_to_attach(&object, name)?);
        let links = PROGRAMS.iter().map(attach).collect::<Result<_, String>>()?;
        let buffer = kernel::handle(&object, "events")?;
        let (asking, asked) = channel();
        thread::spawn(move || keep_emptying(&buffer, &asked));
        Ok(Self { object, links, devices: vec![], asking })
    }

    /// Follows packets at these ports. What marks there has to be attached before.
    pub(crate) fn follow(&mut self, followed: &[Followed]) -> Result<(), String> {
        for (index, port) in followed.iter().enumerate() {
            self.follow_one(port).map_err(|error| format!("followed[{index}]: {error}"))?;
        }
        if !followed.is_empty() {
            self.links.push(kernel::attach_trace(&kernel::program_to_attach(&self.object, FOLLOWING)?)?);
        }
        Ok(())
    }

    fn follow_one(&mut self, port: &Followed) -> Result<(), String> {
        let device = kernel::device(&port.netns, &port.device)?;
        let peer = kernel::device(&port.peer_netns, &port.peer_device)?;
        enter(&self.object, "followed", &[device.netns, device.index].map(u32::to_ne_bytes).concat())?;
        let arrival = kernel::program(&self.object, "incast_arrival")?;
        self.devices.push(kernel::attach_device(&arrival, &port.netns, device, Side::Egress)?);
        let delivery = kernel::program(&self.object, "incast_delivery")?;
        self.devices.push(kernel::attach_device(&delivery, &port.peer_netns, peer, Side::Ingress)?);
        Ok(())
    }

    pub(crate) const fn object(&self) -> &Object {
        &self.object
    }

    /// The buffer, for other programs that tell of events.
    pub(crate) fn buffer(&self) -> Result<MapHandle, String> {
        kernel::handle(&self.object, "events")
    }

    /// Takes what has happened since the last time, in the order of time: nanoseconds of the programs' clock, kind, source,
    /// destination, sequence number, length, device, packet, and headers in hexadecimal digits. And how many events there was
    /// no room for, those of other programs that tell (`lost_elsewhere`) included.
    pub(crate) fn take(&self, lost_elsewhere: u64) -> Result<Value, String> {
        let ended = || "the thread that reads events has ended".to_owned();
        let (answer, answered) = channel();
        self.asking.send(answer).map_err(|_| ended())?;
        let (bytes, no_room) = answered.recv().map_err(|_| ended())??;
        let mut rows = parse_all(&bytes);
        // Processors write at the same time.
        rows.sort_by_key(|(time, _)| *time);
        let rows: Vec<Value> = rows.into_iter().map(|(_, row)| row).collect();
        let lost = kernel::numbers(&self.object, ".lost", 1)?[0] + lost_elsewhere + no_room;
        Ok(json!({ "lost": lost, "rows": rows }))
    }
}

fn enter(object: &Object, map: &str, key: &[u8]) -> Result<(), String> {
    kernel::handle(object, map)?.update(key, &[1], MapFlags::ANY).map_err(|error| format!("the map {map}: {error}"))
}

/// Empties the kernel's buffer again and again, and hands over what was in it to those who ask, until nobody can ask any more.
fn keep_emptying(buffer: &MapHandle, asked: &Receiver<Sender<Taken>>) {
    let kept = RefCell::new((Vec::new(), 0_u64));
    let mut builder = RingBufferBuilder::new();
    let added = builder.add(buffer, |bytes| {
        let (all, no_room) = &mut *kept.borrow_mut();
        if all.len() + bytes.len() <= KEPT_BYTES {
            all.extend_from_slice(bytes);
        } else {
            *no_room += 1;
        }
        0
    });
    let failed = |error: libbpf_rs::Error| format!("the map events: {error}");
    let added = added.map(drop).map_err(failed);
    let reader = added.and_then(|()| builder.build().map_err(failed));
    loop {
        let asking = asked.recv_timeout(EMPTIED_EVERY);
        let emptied = reader.as_ref().map_err(Clone::clone).and_then(|reader| reader.consume().map_err(failed));
        match asking {
            Ok(answer) => {
                // Who has asked may have gone.
                let _ = answer.send(emptied.map(|()| std::mem::take(&mut *kept.borrow_mut())));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// What was written one after the other, up to the first that is not known.
fn parse_all(mut bytes: &[u8]) -> Vec<(u64, Value)> {
    let mut rows = vec![];
    while let Some((time, row, length)) = parse(bytes) {
        rows.push((time, row));
        bytes = &bytes[length..];
    }
    rows
}

/// The first event, and how many bytes it has.
fn parse(bytes: &[u8]) -> Option<(u64, Value, usize)> {
    let event: &[u8; LENGTH] = bytes.get(..LENGTH)?.try_into().ok()?;
    let word = |at: usize| u32::from_ne_bytes([event[at], event[at + 1], event[at + 2], event[at + 3]]);
    let long = |at: usize| u64::from_ne_bytes(event[at..at + 8].try_into().unwrap_or_default());
    let place = |address: usize, port: usize| {
        let address = Ipv4Addr::new(event[address], event[address + 1], event[address + 2], event[address + 3]);
        SocketAddrV4::new(address, u16::from_ne_bytes([event[port], event[port + 1]])).to_string()
    };
    let device: Vec<u8> = event[40..].iter().copied().take_while(|byte| *byte != 0).collect();
    let device = String::from_utf8_lossy(&device);
    let kind = KINDS.get(word(16) as usize)?;
    let headers = if word(16) == ARRIVAL { bytes.get(LENGTH..LENGTH + HEADERS)? } else { &[] };
    let mut digits = String::new();
    for byte in &headers[..headers_end(headers)] {
        let _ = write!(digits, "{byte:02x}");
    }
    let (source, destination) = (place(24, 32), place(28, 34));
    let row = json!([long(0), kind, source, destination, word(20), word(36), device, long(8), digits]);
    Some((long(0), row, LENGTH + headers.len()))
}

/// Where the headers of IPv4 and TCP end; 0 if they are not whole.
fn headers_end(bytes: &[u8]) -> usize {
    let start = bytes.first().map_or(0, |first| usize::from(first & 0xf) * 4);
    let end = bytes.get(start + 12).map_or(0, |offset| start + usize::from(offset >> 4) * 4);
    if start >= 20 && end >= start + 20 && end <= bytes.len() { end } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn mutated_events_are_read_or_left_out(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let length = if bytes.get(16) == Some(&(ARRIVAL as u8)) { LENGTH + HEADERS } else { LENGTH };
            let known = bytes.len() >= length && bytes[17..20] == [0; 3] && usize::from(bytes[16]) < KINDS.len();
            prop_assert_eq!(parse(&bytes).map(|(_, _, length)| length), known.then_some(length));
        }
    }

    fn event(kind: u32) -> Vec<u8> {
        let mut bytes = vec![0; LENGTH];
        bytes[..8].copy_from_slice(&7_u64.to_ne_bytes());
        bytes[8..16].copy_from_slice(&u64::MAX.to_ne_bytes());
        bytes[16..20].copy_from_slice(&kind.to_ne_bytes());
        bytes[20..24].copy_from_slice(&u32::MAX.to_ne_bytes());
        bytes[24..32].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        bytes[32..34].copy_from_slice(&5000_u16.to_ne_bytes());
        bytes[34..36].copy_from_slice(&10_000_u16.to_ne_bytes());
        bytes[36..40].copy_from_slice(&3000_u32.to_ne_bytes());
        bytes[40..43].copy_from_slice(b"l12");
        bytes
    }

    #[test]
    fn an_event_is_read_as_the_kernel_writes_it() {
        let mut bytes = event(1);
        let row = json!([7, "drop", "10.0.0.1:5000", "10.0.0.2:10000", u32::MAX, 3000, "l12", u64::MAX, ""]);
        assert_eq!(parse(&bytes), Some((7, row, LENGTH)));
        assert_eq!(parse(&bytes[..40]), None);
        bytes[16] = KINDS.len() as u8;
        assert_eq!(parse(&bytes), None, "a kind that is not known");
    }

    #[test]
    fn an_arrival_has_its_headers_and_no_more() {
        let mut headers = [0x11_u8; HEADERS];
        // Five words of IPv4, six of TCP.
        (headers[0], headers[32]) = (0x45, 0x60);
        let bytes = [event(ARRIVAL), headers.to_vec(), event(9)].concat();
        let rows = parse_all(&bytes);
        let digits = |row: usize| rows[row].1[8].as_str().unwrap_or_default().to_owned();
        assert_eq!((rows.len(), digits(0).len(), digits(1).len()), (2, 2 * 44, 0));
        assert!(digits(0).starts_with("4511") && rows[1].1[1] == "departure");
        assert_eq!(headers_end(&headers[..40]), 0, "they are not whole");
    }
}
