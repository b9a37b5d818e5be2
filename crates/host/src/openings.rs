//! The ACKs that open closed windows: TCP sends none by itself. The programs of `kernel/receiver.bpf.c` say whose turn it is.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use libbpf_rs::{ErrorKind, MapHandle, RingBufferBuilder};
use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto};

use crate::kernel;

/// How often it is looked whether this has ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// `struct opening`: the numbers in front of the headers.
const NUMBERS: usize = 16;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const TCP_HEADER: usize = 20;
const TCP: u8 = 6;
const ACK: u8 = 0x10;
/// The option with timestamps, and how long it is behind two bytes that fill the word.
const TIMESTAMPS: u8 = 8;
const TIMESTAMPS_LENGTH: usize = 10;

/// What ACKs of one network namespace leave by.
#[derive(Debug)]
struct Way {
    ipv4: OwnedFd,
    /// None where the kernel has no IPv6.
    ipv6: Option<OwnedFd>,
}

impl Way {
    fn of(netns: &Path) -> Result<Self, String> {
        let raw = |family| rustix::net::socket(family, SocketType::RAW, Some(ipproto::RAW));
        let named = |error: rustix::io::Errno| {
            format!("a raw socket in {}: {error} (ACKs that open windows need root, or CAP_NET_RAW)", netns.display())
        };
        kernel::within(netns, || {
            Ok(Self { ipv4: raw(AddressFamily::INET).map_err(named)?, ipv6: raw(AddressFamily::INET6).ok() })
        })
    }

    /// One that is lost is not missed for long: its sender probes the window.
    fn send(&self, packet: &[u8], to: SocketAddr) {
        let socket = if to.is_ipv4() { Some(&self.ipv4) } else { self.ipv6.as_ref() };
        if let Some(socket) = socket {
            let _ = rustix::net::sendto(socket, packet, SendFlags::DONTWAIT, &to);
        }
    }
}

/// Sends the ACKs from when it has begun, as long as this lives.
#[derive(Debug)]
pub(crate) struct Openings {
    waiting: MapHandle,
    ways: Arc<Vec<Way>>,
    ended: Arc<AtomicBool>,
}

impl Openings {
    /// For the hosts in these network namespaces, by their numbers.
    pub(crate) fn of(waiting: MapHandle, namespaces: &[&Path]) -> Result<Self, String> {
        let ways = namespaces.iter().map(|netns| Way::of(netns)).collect::<Result<_, _>>()?;
        Ok(Self { waiting, ways: Arc::new(ways), ended: Arc::default() })
    }

    /// Begins in a thread of its own, which needs no rights.
    pub(crate) fn begin(&self) -> Result<(), String> {
        let failed = |error: libbpf_rs::Error| format!("the map openings: {error}");
        let waiting = MapHandle::try_from(&self.waiting).map_err(failed)?;
        let (ways, ended) = (Arc::clone(&self.ways), Arc::clone(&self.ended));
        let (told, begun) = channel();
        std::thread::spawn(move || {
            let mut builder = RingBufferBuilder::new();
            let send = |bytes: &[u8]| {
                let packet = packet(bytes).and_then(|(host, packet, to)| Some((ways.get(host)?, packet, to)));
                if let Some((way, packet, to)) = packet {
                    way.send(&packet, to);
                }
                0
            };
            let added = builder.add(&waiting, send).map(drop);
            let reader = match added.and_then(|()| builder.build()) {
                Ok(reader) => reader,
                Err(error) => return drop(told.send(Err(failed(error)))),
            };
            let _ = told.send(Ok(()));
            let goes_on = |polled: libbpf_rs::Result<()>| match polled {
                Ok(()) => true,
                Err(error) => error.kind() == ErrorKind::Interrupted,
            };
            while !ended.load(Ordering::Relaxed) && goes_on(reader.poll(LOOK_EVERY)) {}
        });
        begun.recv().map_err(|_| "the thread that opens windows has ended".to_owned())?
    }
}

impl Drop for Openings {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

/// The ACK that an opening asks for: the number of its host, the packet, and where it goes.
fn packet(opening: &[u8]) -> Option<(usize, Vec<u8>, SocketAddr)> {
    let word = |at: usize| opening.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    let (host, window, sequence, length) = (word(0)?, word(4)?, word(8)?, word(12)?);
    // Nothing has left on that connection yet if it has no headers.
    let headers = opening.get(NUMBERS..NUMBERS + length as usize)?;
    let is_ipv4 = headers.first()? >> 4 == 4;
    let (ip, tcp) = headers.split_at_checked(if is_ipv4 { IPV4_HEADER } else { IPV6_HEADER })?;
    let (fixed, options) = tcp.split_at_checked(TCP_HEADER)?;
    let stamps =
        timestamps(options).map_or(vec![], |stamps| [&[1, 1, TIMESTAMPS, TIMESTAMPS_LENGTH as u8], stamps].concat());

    let mut tcp = [fixed, &stamps].concat();
    let words = (tcp.len() / 4) as u8;
    tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
    (tcp[12], tcp[13]) = (words << 4, ACK);
    tcp[14..16].copy_from_slice(&u16::try_from(window).ok()?.to_be_bytes());
    tcp[16..20].fill(0);

    let mut ip = ip.to_vec();
    let length = tcp.len() as u16;
    let (addresses, to): (_, SocketAddr) = if is_ipv4 {
        ip[1] &= !3;
        ip[2..4].copy_from_slice(&(length + IPV4_HEADER as u16).to_be_bytes());
        // The kernel finds number and checksum.
        ip[4..8].copy_from_slice(&[0, 0, 0x40, 0]);
        ip[10..12].fill(0);
        let to: [u8; 4] = ip[16..20].try_into().ok()?;
        (12..20, (Ipv4Addr::from(to), 0).into())
    } else {
        ip[1] &= !0x30;
        ip[4..6].copy_from_slice(&length.to_be_bytes());
        let to: [u8; 16] = ip[24..40].try_into().ok()?;
        (8..40, (Ipv6Addr::from(to), 0).into())
    };
    let sum = checksum(&[&ip[addresses], &[0, TCP], &length.to_be_bytes(), &tcp]);
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    Some((host as usize, [ip, tcp].concat(), to))
}

/// The value and the echo of the timestamps among these options.
fn timestamps(mut options: &[u8]) -> Option<&[u8]> {
    loop {
        match *options {
            [TIMESTAMPS, ..] => return options.get(2..TIMESTAMPS_LENGTH),
            [1, ref rest @ ..] => options = rest,
            // With a length below two it would have no end.
            [kind, length, ..] if kind != 0 && length >= 2 => options = options.get(usize::from(length)..)?,
            _ => return None,
        }
    }
}

/// That of the Internet (RFC 1071) over parts of which each has an even length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks_exact(2));
    let mut sum: u32 = words.map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An opening whose last packet had these headers.
    fn opening(headers: &[u8]) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            [1, 22, 1001, headers.len() as u32].iter().flat_map(|word: &u32| word.to_ne_bytes()).collect();
        bytes.extend_from_slice(headers);
        bytes.resize(NUMBERS + 100, 0);
        bytes
    }

    fn tcp(options: &[u8]) -> Vec<u8> {
        let mut header = vec![0x13, 0x88, 0, 80, 0, 0, 0, 100, 0, 0, 0, 200, 0, 0x18, 9, 9, 7, 7, 0, 0];
        header[12] = (((header.len() + options.len()) / 4) << 4) as u8;
        header.extend_from_slice(options);
        header
    }

    const STAMPS: [u8; 12] = [1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8];

    #[test]
    fn an_ack_has_the_addresses_and_stamps_of_the_last_packet_and_a_window_of_its_own() {
        let ip = [0x45, 2, 5, 0xdc, 8, 8, 0x40, 0, 64, 6, 3, 3, 10, 0, 0, 1, 10, 0, 0, 2];
        // Blocks of SACK in front of the stamps are left out.
        let options = [&[1, 1, 5, 10, 0, 0, 0, 0, 0, 0, 0, 0][..], &STAMPS].concat();
        let (host, bytes, to) = packet(&opening(&[&ip[..], &tcp(&options)].concat())).unwrap();
        assert_eq!((host, to), (1, "10.0.0.2:0".parse().unwrap()));
        assert_eq!(bytes[..20], [0x45, 0, 0, 52, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        let sequence = 1001_u32.to_be_bytes();
        assert_eq!(bytes[20..28], [&[0x13, 0x88, 0, 80][..], &sequence].concat());
        assert_eq!(bytes[28..36], [0, 0, 0, 200, 0x80, ACK, 0, 22]);
        assert_eq!(bytes[40..], STAMPS);
        // With its own sum in it the sum of all is nothing.
        assert_eq!(checksum(&[&bytes[12..20], &[0, TCP, 0, 32], &bytes[20..]]), 0);
    }

    #[test]
    fn with_ipv6_and_without_stamps_it_is_as_long_as_its_headers() {
        let mut ip = vec![0x60, 0x30, 0, 0, 9, 9, 6, 64];
        ip.extend([1_u8; 16]);
        ip.extend([2_u8; 16]);
        let (_, bytes, to) = packet(&opening(&[ip, tcp(&[])].concat())).unwrap();
        assert_eq!(to, "[202:202:202:202:202:202:202:202]:0".parse().unwrap());
        assert_eq!((bytes.len(), &bytes[..8]), (60, &[0x60, 0, 0, 0, 0, 20, 6, 64][..]));
        assert_eq!(checksum(&[&bytes[8..40], &[0, TCP, 0, 20], &bytes[40..]]), 0);
    }

    proptest! {
        #[test]
        fn mutated_openings_are_packets_or_left_out(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            if let Some((_, packet, _)) = packet(&bytes) {
                prop_assert!(packet.len() <= IPV6_HEADER + TCP_HEADER + 12);
            }
        }
    }
}
