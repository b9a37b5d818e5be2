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
    rows: Vec<Row>,
}

/// Nanoseconds of the monotonic clock, kind, source, destination, sequence number on the wire, payload of what leaves again, device.
type Row = (u64, String, SocketAddr, SocketAddr, u32, u32, String);

impl Happened {
    /// Reads the answer of `incast-host`.
    pub(crate) fn of(answer: &Value) -> Option<Self> {
        Self::deserialize(answer).ok()
    }

    /// What a reader of the results has to know.
    pub(crate) fn warning(&self) -> Option<String> {
        (self.lost > 0).then(|| format!("{} events were not recorded: there was no room for them", self.lost))
    }

    /// The rows of the table, for a run that began at `began_ns` of the monotonic clock. Clients' addresses tell the connection,
    /// and connections their largest segment.
    pub(crate) fn events(
        &self,
        began_ns: u64,
        connection_from: &BTreeMap<SocketAddr, u32>,
        mss: impl Fn(u32) -> Bytes,
    ) -> Vec<Event> {
        let mut first = BTreeMap::new();
        let mut events: Vec<Event> = Vec::new();
        for (time, kind, source, destination, sequence, length, device) in &self.rows {
            let from_client = connection_from.contains_key(source);
            let Some(&connection) = connection_from.get(if from_client { source } else { destination }) else {
                continue;
            };
            if kind == "established" {
                first.insert((connection, from_client), *sequence);
                continue;
            }
            let Some(kind) = kind_of(kind) else { continue };
            let begin = first.get(&(connection, from_client)).copied().unwrap_or(*sequence);
            // What a SYN or its repetition has is one less than the first byte's.
            let offset = (sequence.wrapping_sub(begin) as i32).max(0) as u64;
            let link = device.strip_prefix('l').and_then(|number| number.parse().ok());
            let time = Time(time.saturating_sub(began_ns).saturating_mul(1000));
            // The kernel tells once of what leaves again in one piece.
            let segment = mss(connection).0.max(1);
            let segments = u64::from(*length).div_ceil(segment).max(1);
            let offsets = (0..segments).map(|number| offset + number * segment);
            events.extend(offsets.map(|offset| Event {
                time,
                kind,
                connection,
                from_client,
                link,
                offset,
                timer: None,
            }));
        }
        events
    }
}

fn kind_of(name: &str) -> Option<EventKind> {
    let kinds = [
        EventKind::Drop,
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

    #[test]
    fn rows_of_the_kernel_become_events_of_connections() {
        let answer = json!({ "lost": 2, "rows": [
            [900, "established", "10.0.0.2:5000", "10.0.0.1:10000", 4_294_967_295_u32, 0, ""],
            [2000, "drop", "10.0.0.2:5000", "10.0.0.1:10000", 1447, 0, "l3"],
            [3000, "drop", "10.0.0.9:5000", "10.0.0.1:10001", 7, 0, "l3"],
            [4000, "timeout", "10.0.0.2:5000", "10.0.0.1:10000", 4_294_967_295_u32, 0, ""],
            [5000, "retransmission", "10.0.0.1:10000", "10.0.0.2:5000", 9, 2000, ""],
            [6000, "something", "10.0.0.1:10000", "10.0.0.2:5000", 9, 0, ""],
        ] });
        let happened = Happened::of(&answer).unwrap();
        assert!(happened.warning().unwrap().starts_with("2 events"));
        let connection_from = BTreeMap::from([("10.0.0.1:10000".parse().unwrap(), 4)]);
        let events = happened.events(1000, &connection_from, |_| Bytes(1448));
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
            ]
        );
    }
}
