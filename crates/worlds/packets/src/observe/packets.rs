//! Packets at ports, one by one, as they arrive and as they leave.

use std::collections::VecDeque;
use std::fmt::Write as _;

use incast_plan::Plan;
use incast_protocols::{Duration, Time};
use incast_record::{PacketFlags, PacketSample};

use crate::packet::{Flags, Packet};
use crate::tcp::sack::SackOption;
use crate::tcp::unwrap;

/// No row.
const NONE: u32 = u32::MAX;
const CLASSES: usize = Flags::HIGHEST_CLASS as usize + 1;

/// A port that is followed.
#[derive(Clone, Debug, Default)]
struct Port {
    /// The row of the packet that arrived last.
    arriving: u32,
    /// By class of service: rows of the packets that wait, in the order in which they leave; [`NONE`] for those that are
    /// not wanted.
    waiting: [VecDeque<u32>; CLASSES],
}

/// Where one direction of a connection is: on the wire an offset has its lower half only.
#[derive(Clone, Copy, Debug, Default)]
struct Near {
    offset: u64,
    ack: u64,
}

/// A SACK option on its way.
#[derive(Clone, Copy, Debug)]
struct Sack {
    /// Its number, which packets carry.
    number: u16,
    option: SackOption,
    /// Its place among the texts, from 1; 0 until a packet that carries it is written down.
    text: u32,
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
    texts: Vec<String>,
    rows: Vec<PacketSample>,
}

impl Packets {
    /// What its rows take.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.rows[..]) + self.texts.iter().map(|text| size_of::<String>() + text.len()).sum::<usize>()
    }

    pub(super) fn new(plan: &Plan) -> Self {
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
        Self { ports, wanted, near, options, texts: Vec::new(), rows: Vec::new() }
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
            options.push_back(Sack { number: packet.option, option, text: 0 });
            // The end that has written them forgets old ones, too.
            options.drain(..options.len().saturating_sub(kept));
        }
    }

    /// The place of a packet's SACK option among the texts, from 1; 0 without one.
    fn sack_of(&mut self, packet: &Packet, near: u64) -> u32 {
        let side = usize::from(packet.flags.has(Flags::FROM_CLIENT));
        let options = &mut self.options[packet.connection as usize][side];
        // Their numbers have no gaps.
        let first = options.front().map_or(0, |option| option.number);
        let Some(sack) = options.get_mut(usize::from(packet.option.wrapping_sub(first))) else { return 0 };
        if sack.text == 0 && !sack.option.blocks().is_empty() {
            let mut text = String::new();
            for &(start, end) in sack.option.blocks() {
                let blank = if text.is_empty() { "" } else { " " };
                let _ = write!(text, "{blank}{}-{}", unwrap(near, start), unwrap(near, end));
            }
            self.texts.push(text);
            sack.text = self.texts.len() as u32;
        }
        sack.text
    }

    pub(super) fn arrived(&mut self, link: u32, now: u64, packet: &Packet) {
        let is_wanted = self.wants(packet);
        let Some(port) = &mut self.ports[link as usize] else { return };
        if !is_wanted {
            port.arriving = NONE;
            return;
        }
        port.arriving = self.rows.len() as u32;
        let from_client = packet.flags.has(Flags::FROM_CLIENT);
        let near = &mut self.near[packet.connection as usize][usize::from(from_client)];
        near.offset = unwrap(near.offset, packet.sequence);
        near.ack = unwrap(near.ack, packet.acknowledgement);
        let near = *near;
        let sack = if packet.flags.has(Flags::OPTIONS) { self.sack_of(packet, near.ack) } else { 0 };
        self.rows.push(PacketSample {
            arrive: Time(now),
            wait: None,
            offset: near.offset,
            ack: near.ack,
            link,
            connection: packet.connection,
            number: 0,
            window: packet.window,
            sack,
            payload: payload_of(packet),
            wire: packet.wire,
            flags: flags_of(packet, packet.flags),
            from_client,
            // Until it is admitted.
            dropped: true,
        });
    }

    pub(super) fn admitted(&mut self, link: u32, packet: &Packet) {
        let Some(port) = &mut self.ports[link as usize] else { return };
        let row = port.arriving;
        port.waiting[usize::from(packet.flags.class())].push_back(row);
        if let Some(row) = self.rows.get_mut(row as usize) {
            row.dropped = false;
            // Its payload may just have been cut off.
            row.payload = payload_of(packet);
            row.wire = packet.wire;
            row.flags = flags_of(packet, packet.flags);
        }
    }

    pub(super) fn evicted(&mut self, link: u32, class: u8) {
        let Some(port) = &mut self.ports[link as usize] else { return };
        let row = port.waiting[usize::from(class)].pop_back();
        if let Some(row) = row.and_then(|row| self.rows.get_mut(row as usize)) {
            row.dropped = true;
        }
    }

    pub(super) fn left(&mut self, link: u32, start: u64, packet: &Packet, flags: Flags) {
        let Some(port) = &mut self.ports[link as usize] else { return };
        let row = port.waiting[usize::from(flags.class())].pop_front();
        if let Some(row) = row.and_then(|row| self.rows.get_mut(row as usize)) {
            row.wait = Some(Duration(start - row.arrive.0));
            row.flags = flags_of(packet, flags);
        }
    }

    /// As the table has them.
    pub(super) fn finish(self) -> (Vec<PacketSample>, Vec<String>) {
        incast_record::in_order(self.rows, self.texts)
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
