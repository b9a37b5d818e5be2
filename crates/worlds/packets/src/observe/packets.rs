//! Packets at ports, one by one, as they arrive and as they leave.

use std::collections::VecDeque;
use std::fmt::Write as _;

use incast_plan::Plan;
use incast_protocols::{Duration, Time};
use incast_record::{PacketFlags, PacketSample, Rows, Sorter, Spill, numbered};

use crate::packet::{Flags, Packet};
use crate::tcp::sack::SackOption;
use crate::tcp::unwrap;

const CLASSES: usize = Flags::HIGHEST_CLASS as usize + 1;

/// A port that is followed.
#[derive(Clone, Debug, Default)]
struct Port {
    /// When packets arrived last, wanted or not, and how many that were.
    last: Time,
    at_once: u32,
    /// The packet that arrived last, until it is admitted.
    arriving: Option<PacketSample>,
    /// By class of service: the packets that wait, in the order in which they leave; nothing for those that are not wanted.
    waiting: [VecDeque<Option<PacketSample>>; CLASSES],
}

/// Where one direction of a connection is: on the wire an offset has its lower half only.
#[derive(Clone, Copy, Debug, Default)]
struct Near {
    offset: u64,
    ack: u64,
}

/// A SACK option on its way.
#[derive(Clone, Debug)]
struct Sack {
    /// Its number, which packets carry.
    number: u16,
    option: SackOption,
}

/// Writes packets down.
#[derive(Debug)]
pub(super) struct Packets {
    /// By link.
    ports: Vec<Option<Box<Port>>>,
    /// By connection; all if there are none.
    wanted: Vec<bool>,
    /// By connection and side.
    near: Vec<[Near; 2]>,
    /// By connection and side: options that its end keeps, by number.
    options: Vec<[VecDeque<Sack>; 2]>,
    /// Packets of which all is known.
    rows: Sorter<PacketSample>,
    spill: Option<Spill>,
}

impl Packets {
    pub(super) fn rows(&self) -> &Sorter<PacketSample> {
        &self.rows
    }

    pub(super) fn new(plan: &Plan, spill: Option<&Spill>) -> Self {
        let record = &plan.record;
        let mut ports = vec![None; plan.network.links.len()];
        for &link in &record.packets {
            ports[link as usize] = Some(Box::default());
        }
        let mut wanted = vec![false; if record.packets_of.is_empty() { 0 } else { plan.connections.len() }];
        for &connection in &record.packets_of {
            wanted[connection as usize] = true;
        }
        let near = vec![[Near::default(); 2]; plan.connections.len()];
        let options = vec![<[VecDeque<Sack>; 2]>::default(); plan.connections.len()];
        Self { ports, wanted, near, options, rows: Sorter::new(spill), spill: spill.cloned() }
    }

    #[inline]
    pub(super) fn follows(&self, link: u32) -> bool {
        self.ports[link as usize].is_some()
    }

    fn wants(&self, packet: &Packet) -> bool {
        self.wanted.is_empty() || self.wanted[packet.connection as usize]
    }

    pub(super) fn options_written(&mut self, packet: &Packet, option: SackOption, kept: usize) {
        if self.wants(packet) {
            let side = usize::from(packet.flags.has(Flags::FROM_CLIENT));
            let options = &mut self.options[packet.connection as usize][side];
            options.push_back(Sack { number: packet.option, option });
            // The end that has written them forgets old ones, too.
            options.drain(..options.len().saturating_sub(kept));
        }
    }

    /// A packet's SACK option, if it has one.
    fn sack_of(&self, packet: &Packet, near: u64) -> Option<Box<str>> {
        let side = usize::from(packet.flags.has(Flags::FROM_CLIENT));
        let options = &self.options[packet.connection as usize][side];
        // Their numbers have no gaps.
        let first = options.front().map_or(0, |option| option.number);
        let sack = options.get(usize::from(packet.option.wrapping_sub(first)))?;
        let mut text = String::new();
        for &(start, end) in sack.option.blocks() {
            let blank = if text.is_empty() { "" } else { " " };
            let _ = write!(text, "{blank}{}-{}", unwrap(near, start), unwrap(near, end));
        }
        (!text.is_empty()).then(|| text.into())
    }

    pub(super) fn arrived(&mut self, link: u32, now: u64, packet: &Packet) {
        let is_wanted = self.wants(packet);
        let Some(port) = &mut self.ports[link as usize] else { return };
        // What was not admitted was dropped.
        if let Some(dropped) = port.arriving.take() {
            self.rows.push(dropped);
        }
        if !is_wanted {
            return;
        }
        if port.last != Time(now) {
            (port.last, port.at_once) = (Time(now), 0);
        }
        let number = port.at_once;
        port.at_once += 1;
        let from_client = packet.flags.has(Flags::FROM_CLIENT);
        let near = &mut self.near[packet.connection as usize][usize::from(from_client)];
        near.offset = unwrap(near.offset, packet.sequence);
        near.ack = unwrap(near.ack, packet.acknowledgement);
        let near = *near;
        let sack = if packet.flags.has(Flags::OPTIONS) { self.sack_of(packet, near.ack) } else { None };
        let row = PacketSample {
            arrive: Time(now),
            wait: None,
            offset: near.offset,
            ack: near.ack,
            link,
            connection: packet.connection,
            number,
            window: packet.window,
            sack,
            payload: payload_of(packet),
            wire: packet.wire,
            flags: flags_of(packet, packet.flags),
            from_client,
            // Until it is admitted.
            dropped: true,
        };
        if let Some(port) = &mut self.ports[link as usize] {
            port.arriving = Some(row);
        }
    }

    pub(super) fn admitted(&mut self, link: u32, packet: &Packet) {
        let Some(port) = &mut self.ports[link as usize] else { return };
        let mut row = port.arriving.take();
        if let Some(row) = &mut row {
            row.dropped = false;
            // Its payload may just have been cut off.
            row.payload = payload_of(packet);
            row.wire = packet.wire;
            row.flags = flags_of(packet, packet.flags);
        }
        port.waiting[usize::from(packet.flags.class())].push_back(row);
    }

    pub(super) fn evicted(&mut self, link: u32, class: u8) {
        let Some(port) = &mut self.ports[link as usize] else { return };
        if let Some(row) = port.waiting[usize::from(class)].pop_back().flatten() {
            self.rows.push(PacketSample { dropped: true, ..row });
        }
    }

    pub(super) fn left(&mut self, link: u32, start: u64, packet: &Packet, flags: Flags) {
        let Some(port) = &mut self.ports[link as usize] else { return };
        if let Some(row) = port.waiting[usize::from(flags.class())].pop_front().flatten() {
            let wait = Some(Duration(start - row.arrive.0));
            self.rows.push(PacketSample { wait, flags: flags_of(packet, flags), ..row });
        }
    }

    /// By (arrival, link), with the number of each time that a segment came by.
    pub(super) fn finish(mut self) -> Rows<PacketSample> {
        for port in self.ports.into_iter().flatten() {
            let Port { waiting, arriving, .. } = *port;
            let left = waiting.into_iter().flatten().chain([arriving]);
            for row in left.flatten() {
                self.rows.push(row);
            }
        }
        numbered(self.rows, self.spill.as_ref())
    }
}

fn payload_of(packet: &Packet) -> u16 {
    if packet.is_trimmed() { 0 } else { packet.payload }
}

fn flags_of(packet: &Packet, flags: Flags) -> PacketFlags {
    let told = [
        (Flags::FIN, PacketFlags::FIN),
        (Flags::SYN, PacketFlags::SYN),
        (Flags::PSH, PacketFlags::PSH),
        (Flags::ACK, PacketFlags::ACK),
        (Flags::ECE, PacketFlags::ECE),
        (Flags::CWR, PacketFlags::CWR),
        (Flags::ECT, PacketFlags::ECT),
        (Flags::CE, PacketFlags::CE),
        (Flags::EIN, PacketFlags::EIN),
        (Flags::EIN_ECHO, PacketFlags::EIN_ECHO),
    ];
    let trimmed = PacketFlags::default().with_if(packet.is_trimmed(), PacketFlags::TRIMMED);
    told.into_iter().fold(trimmed, |all, (own, told)| all.with_if(flags.has(own), told))
}
