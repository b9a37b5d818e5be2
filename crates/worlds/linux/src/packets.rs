//! Packets at ports, one by one, and the incasts that they make, from what the kernel's tracepoints tell.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use incast_plan::{End, Plan};
use incast_protocols::{Bytes, Duration};
use incast_record::{Alarm, Incast, PacketFlags, PacketSample, Rows, Sorter, numbered};
use incast_world::incasts::{Arrival, Incasts};

use crate::events::{Happened, Row, Streams, since};
use crate::network::frame_overhead;
use crate::refusals::FASTEST_SHAPED;

/// The ports whose packets are told of, for either table.
pub(crate) fn followed(plan: &Plan) -> Vec<u32> {
    let mut links: Vec<u32> = plan.record.packets.iter().chain(&plan.record.incasts).copied().collect();
    links.sort_unstable();
    links.dedup();
    links
}

/// What packets at followed ports have come to.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) packets: Rows<PacketSample>,
    pub(crate) incasts: Vec<Incast>,
    pub(crate) alarms: Vec<Alarm>,
}

/// The tables of a run that began at `began_ns` of the kernel's programs' clock. What came before is left out.
pub(crate) fn seen(plan: &Plan, happened: &Happened, began_ns: u64, streams: &Streams) -> Seen {
    if followed(plan).is_empty() {
        return Seen::default();
    }
    let mut reading = Reading { plan, streams, began_ns, near: BTreeMap::new(), echoes: BTreeMap::new() };
    let mut packets: Vec<PacketSample> = vec![];
    // By packet: its row while it is in the queue, and while it may still be marked behind it.
    let (mut waiting, mut left) = (BTreeMap::new(), BTreeMap::new());
    for row in happened.rows.iter().filter(|row| row.time_ns >= began_ns) {
        match row.kind.as_str() {
            "arrival" => {
                waiting.remove(&row.packet);
                left.remove(&row.packet);
                if let Some(packet) = reading.read(row) {
                    waiting.insert(row.packet, packets.len());
                    packets.push(packet);
                }
            }
            // Of a departure that is not told of, the delivery is, some microseconds later.
            "departure" | "delivery" => {
                if let Some(index) = waiting.remove(&row.packet) {
                    let packet = &mut packets[index];
                    packet.wait = Some(reading.wait(packet, row));
                    left.insert(row.packet, index);
                }
            }
            "drop" => {
                if let Some(index) = waiting.remove(&row.packet) {
                    packets[index].dropped = true;
                }
            }
            "ein-mark" => {
                let index = left.get(&row.packet).or_else(|| waiting.get(&row.packet));
                if let Some(packet) = index.and_then(|&index| packets.get_mut(index)) {
                    packet.flags = packet.flags.with_if(row.link() == Some(packet.link), PacketFlags::EIN);
                }
            }
            _ => {}
        }
    }
    find_dropped(&mut packets);
    let (incasts, alarms) = incasts(plan, &packets);
    let record = &plan.record;
    let is_wanted = |packet: &PacketSample| {
        record.packets.contains(&packet.link)
            && (record.packets_of.is_empty() || record.packets_of.contains(&packet.connection))
    };
    let mut sorter = Sorter::new(None);
    // As they came, where two came at a time.
    for (number, packet) in (0..).zip(packets).filter(|(_, packet)| is_wanted(packet)) {
        sorter.push(PacketSample { number, ..packet });
    }
    Seen { packets: numbered(sorter, None), incasts, alarms }
}

/// Packets leave a port in the order in which they came: one behind which others have left, and that has not, was dropped,
/// whether that was told or not.
fn find_dropped(packets: &mut [PacketSample]) {
    let mut ports_passed = BTreeSet::new();
    for packet in packets.iter_mut().rev() {
        if packet.wait.is_some() {
            ports_passed.insert(packet.link);
        } else {
            packet.dropped |= ports_passed.contains(&packet.link);
        }
    }
}

/// What becomes of headers.
struct Reading<'a> {
    plan: &'a Plan,
    streams: &'a Streams<'a>,
    began_ns: u64,
    /// By connection and direction: where it is.
    near: BTreeMap<(u32, bool), (u64, u64)>,
    /// By connection and direction: how many incast marks it has told of.
    echoes: BTreeMap<(u32, bool), u32>,
}

/// TCP's option that tells of incast marks, and its experiment (`crates/bpf/kernel/sockets.bpf.c`).
const INCAST_OPTION: u8 = 253;
const INCAST_EXPERIMENT: [u8; 2] = [0xe1, 0xa0];
const SACK_OPTION: u8 = 5;
/// Of the flags of TCP those that the table knows: FIN, SYN, PSH, ACK, ECE and CWR.
const TCP_FLAGS: u8 = 0b1101_1011;
/// The mark's bit in the byte of IP that holds the DSCP and ECN.
const INCAST_MARK: u8 = 0x04;

impl Reading<'_> {
    /// The packet that a row tells of; nothing if it is of no connection of the run.
    fn read(&mut self, row: &Row) -> Option<PacketSample> {
        let direction = self.streams.direction(row)?;
        let (connection, from_client) = direction;
        let back = (connection, !from_client);
        let link = row.link()?;
        let bytes = from_hexadecimal(&row.headers)?;
        let start = usize::from(bytes.first()? & 0xf) * 4;
        let (ip, tcp) = bytes.split_at_checked(start)?;
        let (&service, total) = (ip.get(1)?, u16::from_be_bytes([*ip.get(2)?, *ip.get(3)?]));
        let (fixed, options) = tcp.split_at_checked(20)?;
        let word = |at: usize| u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
        let tcp_flags = fixed[13];
        let flags = PacketFlags(u16::from(tcp_flags & TCP_FLAGS))
            .with_if(service & 0b11 != 0, PacketFlags::ECT)
            .with_if(service & 0b11 == 0b11, PacketFlags::CE)
            .with_if(service & INCAST_MARK != 0, PacketFlags::EIN);
        let has = |flag: PacketFlags| flags.0 & flag.0 != 0;

        let near = self.near.entry(direction).or_default();
        near.0 = self.streams.offset(direction, near.0, word(4));
        if has(PacketFlags::ACK) {
            near.1 = self.streams.offset(back, near.1, word(8));
        }
        let (offset, ack) = *near;
        let (mut sack, mut echoes) = (None, false);
        for (kind, value) in options_of(options) {
            if kind == SACK_OPTION && !value.is_empty() {
                sack = Some(self.blocks(back, ack, value).into());
            } else if kind == INCAST_OPTION && value.len() == 6 && value[..2] == INCAST_EXPERIMENT {
                let told = u32::from_be_bytes([value[2], value[3], value[4], value[5]]);
                echoes = self.echoes.insert(direction, told).unwrap_or(0) != told;
            }
        }
        let shift = if has(PacketFlags::SYN) { 0 } else { self.streams.shift(direction) };
        let tcp = &self.plan.classes[self.plan.connections[connection as usize].class as usize].tcp;
        let wire = i64::from(row.length) + frame_overhead(tcp);
        Some(PacketSample {
            arrive: since(self.began_ns, row.time_ns),
            wait: None,
            offset,
            ack,
            link,
            connection,
            number: 0,
            window: u32::from(u16::from_be_bytes([fixed[14], fixed[15]])) << shift,
            sack,
            payload: total.saturating_sub((start + 20 + options.len()) as u16),
            wire: u16::try_from(wire).unwrap_or(u16::MAX),
            flags: flags.with_if(echoes, PacketFlags::EIN_ECHO),
            from_client,
            dropped: false,
        })
    }

    /// How long a packet that leaves now has waited for its transmission to begin. A token bucket lets it go when that is over,
    /// or at once if it has saved for it.
    fn wait(&self, packet: &PacketSample, row: &Row) -> Duration {
        let there = since(self.began_ns, row.time_ns).0 - packet.arrive.0;
        let rate = self.plan.network.links[packet.link as usize].rate;
        let takes = if rate > FASTEST_SHAPED { 0 } else { rate.time_for(Bytes(packet.wire.into())).0 };
        Duration(there.saturating_sub(takes))
    }

    /// The blocks of a SACK option in offsets of the other direction.
    fn blocks(&self, of: (u32, bool), near: u64, value: &[u8]) -> String {
        let mut text = String::new();
        for block in value.chunks_exact(8) {
            let edge = |at: usize| {
                let sequence = u32::from_be_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
                self.streams.offset(of, near, sequence)
            };
            let blank = if text.is_empty() { "" } else { " " };
            let _ = write!(text, "{blank}{}-{}", edge(0), edge(4));
        }
        text
    }
}

/// The incasts at watched ports, told from their packets as in the simulator.
fn incasts(plan: &Plan, packets: &[PacketSample]) -> (Vec<Incast>, Vec<Alarm>) {
    let mut incasts = Incasts::new(plan);
    // A packet arrives before one leaves at the same time.
    let mut moments: Vec<(u64, bool, usize)> = vec![];
    for (index, packet) in packets.iter().enumerate().filter(|(_, packet)| incasts.watches(packet.link)) {
        moments.push((packet.arrive.0, false, index));
        moments.extend(packet.wait.map(|wait| (packet.arrive.0 + wait.0, true, index)));
    }
    moments.sort_unstable();
    for (now, leaves, index) in moments {
        let packet = &packets[index];
        if leaves {
            incasts.departed(packet.link, now, packet.flags.0 & PacketFlags::EIN.0 != 0);
            continue;
        }
        let takes = plan.network.links[packet.link as usize].rate.time_for(Bytes(packet.wire.into())).0;
        let from = if packet.from_client { End::Client } else { End::Server };
        let gone = now + packet.wait.map_or(0, |wait| wait.0) + takes;
        incasts.arrived(packet.link, &Arrival { now, connection: packet.connection, from, takes, gone });
        if packet.dropped {
            incasts.dropped(packet.link, now);
        }
    }
    incasts.finish()
}

fn from_hexadecimal(digits: &str) -> Option<Vec<u8>> {
    digits
        .as_bytes()
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok()))
        .collect()
}

/// Kind and value of each option, up to the first that is cut off.
fn options_of(mut bytes: &[u8]) -> Vec<(u8, &[u8])> {
    let mut found = vec![];
    while let Some((&kind, rest)) = bytes.split_first() {
        match (kind, rest.split_first()) {
            (0, _) | (_, None) => break,
            (1, _) => bytes = rest,
            (_, Some((&length, _))) => {
                let Some(value) = usize::from(length).checked_sub(2).and_then(|length| rest[1..].get(..length)) else {
                    break;
                };
                found.push((kind, value));
                bytes = &rest[1 + value.len()..];
            }
        }
    }
    found
}
