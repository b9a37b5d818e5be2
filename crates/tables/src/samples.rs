//! Runs for tests, small enough to compute by hand.

use incast_units::{Bytes, Duration, Rate, Time};
use serde_json::Value;

use crate::column::Column;
use incast_record::{
    Alarm, Cause, DeliveryCurve, Detected, Event, EventKind, Flow, Incast, Losses, Machine, Outcome, PacketFlags,
    PacketSample, PortRow, QueueSample, QueueStatistics, Run, Totals, WindowSample,
};

/// A run in which nothing happened.
pub(crate) fn empty_run() -> Run {
    Run { name: "empty".into(), driver: "sweep".into(), classes: vec!["only".into()], ..Run::default() }
}

/// A flow with a size, complete or with nothing delivered.
pub(crate) fn flow(class: u32, size: u64, start: Time, end: Option<Time>) -> Flow {
    Flow {
        id: 0,
        class,
        connection: 0,
        source: 1,
        destination: 0,
        from_client: false,
        offset: Some(0),
        round: 0,
        size: Some(Bytes(size)),
        start,
        begin: start,
        end,
        fluid_end: None,
        delivered: Bytes(if end.is_some() { size } else { 0 }),
        ideal: None,
        deadline: None,
        coflow: None,
        losses: Losses::default(),
    }
}

/// A run in which everything happened at least once.
pub(crate) fn small_run() -> Run {
    let us = Time::from_us;
    let flows = vec![
        Flow {
            ideal: Some(Duration::from_us(2)),
            deadline: Some(us(4)),
            coflow: Some(3),
            losses: Losses {
                timeouts_full_window: 1,
                timeouts_tail: 2,
                timeouts_lost_retransmission: 3,
                timeouts_control: 4,
                timeouts_untold: 9,
                fast_retransmits: 5,
                tail_probes: 8,
                retransmitted_packets: 6,
                mark_reductions: 7,
            },
            ..flow(0, 3000, us(1), Some(us(5)))
        },
        Flow { id: 1, connection: 1, ..flow(0, 2000, us(1), None) },
        Flow { id: 2, connection: 2, size: None, delivered: Bytes(5000), ..flow(1, 0, us(0), None) },
    ];
    Run {
        name: "small".into(),
        seed: u64::MAX,
        driver: "sweep (every link has a delay)".into(),
        classes: vec!["short".into(), "long".into()],
        senders: vec!["newreno".into(), "dctcp".into()],
        warnings: vec!["link 4 is asked for more than it has".into()],
        end: us(10),
        outcome: Outcome::TimeUp,
        flows: flows.into(),
        machine: Some(Machine { kernel: "6.18.1".into(), rate_error: 0.001, ..Machine::default() }),
        ports: vec![
            PortRow {
                drops: 1,
                max_waiting: 2,
                queue: Some(QueueStatistics {
                    observed: Duration(1000),
                    time_at: vec![600, 200, 200],
                    found_at_enqueue: vec![2, 1],
                    changes_to: vec![1, 2, 1],
                    byte_time: 900_000,
                }),
                ..port(4, 3)
            },
            PortRow { max_waiting: 7, ..port(5, 2) },
            port(6, 0),
        ],
        queue_samples: vec![
            QueueSample { time: us(2), link: 4, waiting_packets: 1, waiting_bytes: Bytes(1500) },
            QueueSample { time: us(3), link: 4, waiting_packets: 2, waiting_bytes: Bytes(3000) },
        ]
        .into(),
        window_samples: vec![WindowSample {
            time: us(3),
            connection: 0,
            from_client: true,
            cwnd: Bytes(14_600),
            ssthresh: None,
            rwnd: Bytes(65_535),
            flight: Bytes(2920),
            alpha: Some(512),
            srtt: Some(Duration::from_us(80)),
            own: None,
        }]
        .into(),
        window_columns: Vec::new(),
        events: vec![Event {
            time: us(3),
            kind: EventKind::Drop,
            connection: 0,
            from_client: true,
            link: Some(4),
            offset: 1460,
            timer: None,
        }]
        .into(),
        packets: vec![
            packet(us(2), Some(Duration(120)), 0),
            PacketSample { dropped: true, sack: Some("2920-4380 5840-7300".into()), ..packet(us(3), None, 1460) },
        ]
        .into(),
        incasts: incasts(),
        ein_watched: true,
        alarms: alarms(),
        totals: Totals {
            sent: 10,
            delivered: 6,
            dropped: 1,
            lost_on_wire: 2,
            in_network: 1,
            packet_hops: 17,
            ce_marks: 3,
            ein_marks: 1,
        },
        delivered: DeliveryCurve { width: Duration::from_us(1), bytes: vec![500, 1500, 2000, 2000, 2000] },
    }
}

fn incasts() -> Vec<Incast> {
    let us = Time::from_us;
    vec![
        Incast {
            link: 4,
            begin: us(1),
            end: us(3),
            drained: us(6),
            hosts: 9,
            excess: Bytes(20_000),
            drops: 1,
            watched: true,
            detected: Some(Detected { from: us(2), until: us(4) }),
        },
        Incast {
            link: 5,
            begin: us(2),
            end: us(3),
            drained: us(7),
            hosts: 8,
            excess: Bytes(19_000),
            drops: 0,
            watched: true,
            detected: None,
        },
    ]
}

fn alarms() -> Vec<Alarm> {
    let us = Time::from_us;
    vec![
        Alarm {
            link: 4,
            begin: us(2),
            end: us(4),
            cause: Cause::Incast,
            packets_in_incast: 3,
            packets_draining: 2,
            packets_innocent: 0,
        },
        Alarm {
            link: 6,
            begin: us(8),
            end: us(8),
            cause: Cause::Nothing,
            packets_in_incast: 0,
            packets_draining: 0,
            packets_innocent: 1,
        },
    ]
}

fn packet(arrive: Time, wait: Option<Duration>, offset: u64) -> PacketSample {
    PacketSample {
        arrive,
        wait,
        offset,
        ack: 100,
        link: 4,
        connection: 0,
        number: 1,
        window: 65_535,
        sack: None,
        payload: 1460,
        wire: 1500,
        flags: PacketFlags(PacketFlags::ACK.0 | PacketFlags::ECT.0 | PacketFlags::CE.0),
        from_client: true,
        dropped: false,
    }
}

fn port(link: u32, packets: u64) -> PortRow {
    PortRow {
        link,
        from: "leaf 0".into(),
        to: format!("host {link}"),
        rate: Rate(10_000_000_000),
        limit_bytes: Some(Bytes(65_536)),
        limit_packets: None,
        packets,
        bytes: Bytes(1500 * packets),
        drops: 0,
        ce_marks: 0,
        ein_marks: 0,
        wire_losses: 0,
        max_waiting: 0,
        queue: None,
    }
}

/// A row as one JSON object.
pub(crate) fn json_row<R>(columns: &[Column<R>], row: &R) -> Value {
    columns.iter().map(|column| (column.name().to_owned(), column.json(row))).collect()
}
