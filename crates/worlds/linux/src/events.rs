//! What has happened to single packets and connections, as the kernel's tracepoints tell it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use incast_protocols::{Bytes, Time};
use incast_record::{Event, EventKind};
use serde::Deserialize;
use serde_json::Value;

/// The events of a run, in the order of time.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Happened {
    /// Events for which there was no room.
    lost: u64,
    pub(crate) rows: Vec<Row>,
}

/// One of them, as `incast-host` lists it.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Row {
    /// Of the kernel's programs' clock.
    pub(crate) time_ns: u64,
    pub(crate) kind: String,
    source: SocketAddr,
    destination: SocketAddr,
    /// On the wire.
    sequence: u32,
    /// Payload of what leaves again, the frame of what arrives, or by how many bits announced windows are shifted.
    pub(crate) length: u32,
    device: String,
    /// The packet, as long as it lives.
    pub(crate) packet: u64,
    /// In hexadecimal digits, of what arrives.
    pub(crate) headers: String,
}

impl Row {
    /// The link whose device is named.
    pub(crate) fn link(&self) -> Option<u32> {
        self.device.strip_prefix('l').and_then(|number| number.parse().ok())
    }
}

/// The connections of a run, as packets name them.
#[derive(Debug)]
pub(crate) struct Streams<'a> {
    /// Clients' addresses tell the connection.
    connection_from: &'a BTreeMap<SocketAddr, u32>,
    /// By connection and whether the client sends.
    directions: BTreeMap<(u32, bool), Direction>,
}

/// One direction of a connection.
#[derive(Clone, Copy, Debug)]
struct Direction {
    /// The sequence number of its first byte.
    first: u32,
    /// By how many bits the windows are shifted that its sender announces.
    shift: u32,
}

impl<'a> Streams<'a> {
    pub(crate) fn of(happened: &Happened, connection_from: &'a BTreeMap<SocketAddr, u32>) -> Self {
        let mut streams = Self { connection_from, directions: BTreeMap::new() };
        for row in happened.rows.iter().filter(|row| row.kind == "established") {
            if let Some(direction) = streams.direction(row) {
                let shift = row.length.min(14);
                streams.directions.insert(direction, Direction { first: row.sequence, shift });
            }
        }
        streams
    }

    /// The connection that a row is about, and whether the client sends.
    pub(crate) fn direction(&self, row: &Row) -> Option<(u32, bool)> {
        let from_client = self.connection_from.contains_key(&row.source);
        let client = if from_client { row.source } else { row.destination };
        self.connection_from.get(&client).map(|&connection| (connection, from_client))
    }

    /// The stream offset nearest to `near` that has this sequence number. What a SYN has is one less than the first byte's, and
    /// counts as that.
    pub(crate) fn offset(&self, direction: (u32, bool), near: u64, sequence: u32) -> u64 {
        let first = self.directions.get(&direction).map_or(sequence, |direction| direction.first);
        let ahead = sequence.wrapping_sub(first).wrapping_sub(near as u32) as i32;
        near.saturating_add_signed(ahead.into())
    }

    /// By how many bits the windows are shifted that the sender of this direction announces.
    pub(crate) fn shift(&self, direction: (u32, bool)) -> u32 {
        self.directions.get(&direction).map_or(0, |direction| direction.shift)
    }
}

impl Happened {
    /// Reads the answer of `incast-host`.
    pub(crate) fn of(answer: &Value) -> Option<Self> {
        Self::deserialize(answer).ok()
    }

    /// What a reader of the results has to know.
    pub(crate) fn warning(&self) -> Option<String> {
        (self.lost > 0)
            .then(|| format!("{} events and packets were not recorded: there was no room for them", self.lost))
    }

    /// The rows of the table, for a run that began at `began_ns` of the kernel's programs' clock. Connections tell their largest segment.
    pub(crate) fn events(&self, began_ns: u64, streams: &Streams, mss: impl Fn(u32) -> Bytes) -> Vec<Event> {
        let mut near: BTreeMap<(u32, bool), u64> = BTreeMap::new();
        let mut events: Vec<Event> = Vec::new();
        for row in &self.rows {
            let Some(kind) = kind_of(&row.kind) else { continue };
            let Some((connection, from_client)) = streams.direction(row) else { continue };
            let near = near.entry((connection, from_client)).or_default();
            let offset = streams.offset((connection, from_client), *near, row.sequence);
            *near = offset;
            // The kernel tells once of what leaves again in one piece.
            let segment = mss(connection).0.max(1);
            let pieces =
                if kind == EventKind::Retransmission { u64::from(row.length).div_ceil(segment).max(1) } else { 1 };
            events.extend((0..pieces).map(|number| Event {
                time: since(began_ns, row.time_ns),
                kind,
                connection,
                from_client,
                link: row.link(),
                offset: offset + number * segment,
                timer: None,
            }));
        }
        events
    }
}

/// A time of that clock as one of the run.
pub(crate) fn since(began_ns: u64, time_ns: u64) -> Time {
    Time(time_ns.saturating_sub(began_ns).saturating_mul(1000))
}

fn kind_of(name: &str) -> Option<EventKind> {
    let kinds = [
        EventKind::Drop,
        EventKind::CeMark,
        EventKind::EinMark,
        EventKind::Retransmission,
        EventKind::TailProbe,
        EventKind::TimeoutUntold,
        EventKind::FastRetransmit,
    ];
    // The kernel does not say what a timeout has found.
    let name = if name == "timeout" { EventKind::TimeoutUntold.name() } else { name };
    kinds.into_iter().find(|kind| kind.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const CLIENT: &str = "10.0.0.1:10000";
    const SERVER: &str = "10.0.0.2:5000";

    #[test]
    fn rows_of_the_kernel_become_events_of_connections() {
        let row = |time: u64, kind: &str, ends: (&str, &str), sequence: u32, length: u32, device: &str| {
            json!([time, kind, ends.0, ends.1, sequence, length, device, 0, ""])
        };
        let (up, down) = ((CLIENT, SERVER), (SERVER, CLIENT));
        let answer = json!({ "lost": 2, "rows": [
            row(900, "established", down, u32::MAX, 7, ""),
            row(2000, "drop", down, 1447, 1514, "l3"),
            row(3000, "drop", ("10.0.0.9:5000", "10.0.0.1:10001"), 7, 1514, "l3"),
            row(4000, "timeout", down, u32::MAX, 0, ""),
            row(5000, "retransmission", up, 9, 2000, ""),
            row(6000, "ein-mark", down, 2895, 1514, "l3"),
            row(7000, "something", up, 9, 0, ""),
        ] });
        let happened = Happened::of(&answer).unwrap();
        assert!(happened.warning().unwrap().starts_with("2 events"));
        let connection_from = BTreeMap::from([(CLIENT.parse().unwrap(), 4)]);
        let streams = Streams::of(&happened, &connection_from);
        assert_eq!((streams.shift((4, false)), streams.shift((4, true))), (7, 0));
        let events = happened.events(1000, &streams, |_| Bytes(1448));
        let seen: Vec<_> = events
            .iter()
            .map(|event| {
                (event.time.0, event.kind.name(), event.connection, event.from_client, event.link, event.offset)
            })
            .collect();
        assert_eq!(
            seen,
            [
                (1_000_000, "drop", 4, false, Some(3), 1448),
                (3_000_000, "timeout-untold", 4, false, None, 0),
                (4_000_000, "retransmission", 4, true, None, 0),
                (4_000_000, "retransmission", 4, true, None, 1448),
                (5_000_000, "ein-mark", 4, false, Some(3), 2896),
            ]
        );
    }

    #[test]
    fn offsets_go_on_where_sequence_numbers_wrap() {
        let answer = json!({ "lost": 0, "rows": [[0, "established", SERVER, CLIENT, 100, 0, "", 0, ""]] });
        let happened = Happened::of(&answer).unwrap();
        let connection_from = BTreeMap::from([(CLIENT.parse().unwrap(), 0)]);
        let streams = Streams::of(&happened, &connection_from);
        let at = |near: u64, sequence: u32| streams.offset((0, false), near, sequence);
        assert_eq!(at(0, 99), 0, "a SYN");
        assert_eq!(at(1 << 32, 100 + 1500), (1 << 32) + 1500);
        assert_eq!(at(3_000_000_000, 100_u32.wrapping_add(3_000_001_000_u32)), 3_000_001_000);
        assert_eq!(at((1 << 32) + 10, 90), (1 << 32) - 10, "an older one");
    }
}
