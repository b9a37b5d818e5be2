//! Observers told by hand: what they write down of it.

use super::*;
use incast_plan::{End, Handshake};
use incast_record::PacketFlags;
use incast_testing::{add_flow, cable, new_reno, no_marks, packets, plan, star, tcp};

/// The port towards host 0, and one that nobody asks for.
const PORT: u32 = 1;
const OTHER: u32 = 3;
const CLIENT: Flags = Flags::FROM_CLIENT;

/// 13 hosts that send to host 0 through a switch of 10 Gbit/s, by one connection each.
fn planned(record: Record) -> Plan {
    let network = star(14, cable(10_000_000_000, Duration::from_us(10)), &packets(100), &no_marks());
    let mut plan = plan(network, new_reno(), tcp());
    for host in 1..14 {
        add_flow(&mut plan, host, 0, None, Time(0), Handshake::Before);
    }
    Plan { record, ..plan }
}

fn recorder(record: Record) -> Recorder {
    Recorder::new(&planned(record), None)
}

fn statistics() -> Record {
    Record { queue_statistics: true, ..Record::default() }
}

fn drop_at(link: u32, time: u64) -> Event {
    let (connection, from_client, offset) = (0, true, 0);
    Event { time: Time(time), kind: EventKind::Drop, connection, from_client, link: Some(link), offset, timer: None }
}

fn window(connection: u32, from_client: bool, time: u64, cwnd: u64) -> WindowSample {
    WindowSample {
        time: Time(time),
        connection,
        from_client,
        cwnd: Bytes(cwnd),
        ssthresh: None,
        rwnd: Bytes(0),
        flight: Bytes(0),
        alpha: None,
        srtt: None,
        own: None,
    }
}

/// 500 bytes of payload that the client of a connection sends.
fn packet(connection: u32, flags: Flags) -> Packet {
    let flags = flags.with(CLIENT);
    Packet { connection, sequence: 1000, acknowledgement: 2000, window: 9, payload: 500, wire: 540, option: 0, flags }
}

/// Row by row of the packets: connection, wait in picoseconds, whether it was dropped.
fn fates(recorder: Recorder) -> Vec<(u32, Option<u64>, bool)> {
    let rows = recorder.finish().packets;
    rows.iter().map(|row| (row.connection, row.wait.map(|wait| wait.0), row.dropped)).collect()
}

fn enters(recorder: &mut Recorder, now: u64, packet: &Packet) {
    recorder.packet_arrived(PORT, now, packet);
    recorder.packet_admitted(PORT, packet);
}

fn leaves(recorder: &mut Recorder, now: u64, packet: &Packet) {
    recorder.packet_left(PORT, now, packet, packet.flags);
}

fn every_packet() -> Recorder {
    recorder(Record { packets: vec![PORT], ..Record::default() })
}

#[test]
fn something_is_wanted_if_any_table_is() {
    let one_by_one = [
        statistics(),
        Record { queue_series: vec![PORT], ..Record::default() },
        Record { window_series: vec![0], ..Record::default() },
        Record { events: true, ..Record::default() },
        Record { packets: vec![PORT], ..Record::default() },
        Record { incasts: vec![PORT], ..Record::default() },
    ];
    for record in one_by_one {
        assert!(Recorder::is_wanted(&record), "{record:?}");
    }
    assert!(!Recorder::is_wanted(&Record { packets_of: vec![0], ..Record::default() }));
}

#[test]
fn who_writes_nothing_down_wants_nothing() {
    let silent = Silent;
    assert!(!silent.watches(PORT) && !silent.follows(PORT) && !silent.follows_some() && !silent.wants_windows(0));
    let recorder = recorder(Record { events: true, ..Record::default() });
    assert!(
        !recorder.watches(PORT) && !recorder.follows(PORT) && !recorder.follows_some() && !recorder.wants_windows(0)
    );
}

/// A packet of 1500 bytes comes at 100 and leaves at 200, one of 1000 at 130 and at 250.
#[test]
fn statistics_weigh_a_queue_by_time() {
    let mut recorder = recorder(statistics());
    recorder.enqueued(PORT, 100, 0);
    recorder.queue_changed(PORT, 100, 1, 1500);
    recorder.enqueued(PORT, 130, 1);
    recorder.queue_changed(PORT, 130, 2, 2500);
    recorder.queue_changed(PORT, 200, 1, 1000);
    recorder.queue_changed(PORT, 250, 0, 0);
    let statistics = recorder.finish().statistics;
    let expected = QueueStatistics {
        observed: Duration(150),
        time_at: vec![0, 30 + 50, 70],
        found_at_enqueue: vec![1, 1],
        changes_to: vec![1, 2, 1],
        byte_time: 1500 * 30 + 2500 * 70 + 1000 * 50,
    };
    assert_eq!(statistics[PORT as usize], Some(expected));
    assert_eq!(statistics.iter().flatten().count(), 1, "no other port was used");
}

/// Nothing ever waits, so the queue does not change.
#[test]
fn an_empty_queue_is_observed_up_to_the_last_packet() {
    let mut recorder = recorder(statistics());
    recorder.enqueued(PORT, 100, 0);
    recorder.enqueued(PORT, 160, 0);
    let statistics = recorder.finish().statistics[PORT as usize].clone().unwrap();
    assert_eq!((statistics.observed, statistics.time_at, statistics.byte_time), (Duration(60), vec![60], 0));
}

#[test]
fn a_series_has_each_change_of_the_ports_asked_for_and_no_statistics() {
    let mut recorder = recorder(Record { queue_series: vec![PORT], ..Record::default() });
    recorder.enqueued(PORT, 100, 0);
    recorder.queue_changed(PORT, 100, 1, 1500);
    recorder.queue_changed(OTHER, 110, 1, 1500);
    recorder.queue_changed(PORT, 120, 0, 0);
    let written = recorder.finish();
    let rows: Vec<_> = written.queue_samples.iter().map(|row| (row.link, row.time.0, row.waiting_packets)).collect();
    assert_eq!(rows, [(PORT, 100, 1), (PORT, 120, 0)]);
    assert!(written.statistics.is_empty());
}

#[test]
fn windows_are_written_down_when_they_change() {
    let mut recorder = recorder(Record { window_series: vec![2], ..Record::default() });
    assert_eq!([1, 2].map(|connection| recorder.wants_windows(connection)), [false, true]);
    for (from_client, time, cwnd) in [(true, 10, 1000), (true, 20, 1000), (false, 25, 1000), (true, 30, 2000)] {
        recorder.windows(window(2, from_client, time, cwnd));
    }
    let samples = recorder.finish().window_samples;
    assert_eq!(samples.iter().map(|row| row.time.0).collect::<Vec<_>>(), [10, 25, 30]);
}

#[test]
fn events_are_written_down_if_they_are_wanted() {
    for events in [false, true] {
        let mut recorder = recorder(Record { events, queue_statistics: true, ..Record::default() });
        recorder.event(drop_at(PORT, 10));
        assert_eq!(recorder.finish().events.len(), usize::from(events));
    }
}

/// Thirteen hosts send 1500 bytes at once. The last is dropped, and the detector speaks when the first leaves.
#[test]
fn an_incast_is_told_from_arrivals_departures_and_drops_at_a_watched_port() {
    let mut recorder = recorder(Record { incasts: vec![PORT], ..Record::default() });
    assert_eq!([PORT, OTHER].map(|link| recorder.watches(link)), [true, false]);
    for connection in 0..13 {
        let takes = 1_200_000;
        recorder.arrived(PORT, &Arrival { now: 100, connection, from: End::Client, takes, gone: 100 + 13 * takes });
    }
    recorder.event(drop_at(PORT, 100));
    recorder.departed(PORT, 200, true);
    let written = recorder.finish();
    let [incast] = &written.incasts[..] else { panic!("{:?}", written.incasts) };
    assert_eq!((incast.link, incast.hosts, incast.drops), (PORT, 13, 1));
    assert_eq!(incast.detected.as_ref().map(|detected| detected.from), Some(Time(200)));
    assert_eq!(written.alarms.len(), 1);
}

#[test]
fn parts_of_a_network_hand_over_what_was_used_there() {
    let record =
        Record { queue_series: vec![PORT], events: true, incasts: vec![PORT], window_series: vec![0], ..statistics() };
    let [mut mine, mut theirs] = [0, 1].map(|_| recorder(record.clone()));
    mine.enqueued(OTHER, 10, 0);
    theirs.enqueued(PORT, 20, 0);
    theirs.queue_changed(PORT, 20, 1, 1500);
    theirs.event(drop_at(PORT, 20));
    theirs.windows(window(0, true, 20, 1000));
    for connection in 0..13 {
        theirs.arrived(PORT, &Arrival { now: 20, connection, from: End::Client, takes: 1_200_000, gone: 21 });
    }
    mine.join(theirs);
    let written = mine.finish();
    let used: Vec<_> =
        (0..).zip(&written.statistics).filter(|(_, port)| port.is_some()).map(|(link, _)| link).collect();
    assert_eq!(used, [PORT, OTHER]);
    assert_eq!((written.queue_samples.len(), written.events.len(), written.window_samples.len()), (1, 1, 1));
    assert_eq!(written.incasts.len(), 1);
}

/// One row of each table.
fn fill(recorder: &mut Recorder, tables: &[u32]) {
    for table in tables {
        match table {
            0 => recorder.queue_changed(PORT, 1, 1, 1500),
            1 => recorder.windows(window(0, true, 1, 1000)),
            2 => recorder.event(drop_at(PORT, 1)),
            _ => {
                recorder.packet_arrived(PORT, 1, &packet(0, Flags::ACK));
                recorder.packet_arrived(PORT, 2, &packet(0, Flags::ACK));
            }
        }
    }
}

fn all_series() -> Record {
    Record { queue_series: vec![PORT], window_series: vec![0], events: true, packets: vec![PORT], ..Record::default() }
}

#[test]
fn what_is_recorded_takes_the_memory_of_all_tables() {
    let recorded = |tables: &[u32]| {
        let mut recorder = recorder(all_series());
        fill(&mut recorder, tables);
        recorder.recorded().0
    };
    let alone = [0, 1, 2, 3].map(|table| recorded(&[table]));
    assert!(alone.iter().all(|&bytes| bytes > 0), "{alone:?}");
    assert_eq!(recorded(&[0, 1, 2, 3]), alone.iter().sum::<u64>());
}

/// There is a file where the directory would be.
#[test]
fn a_disk_that_fails_is_told_of_whichever_table_it_was_for() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let spill = Spill::into(file.path()).keeping(Bytes(1));
    for table in 0..4 {
        let mut recorder = Recorder::new(&planned(all_series()), Some(&spill));
        for time in 0..3 {
            assert!(recorder.complete().is_ok() || time > 0);
            match table {
                0 => recorder.queue_changed(PORT, time, 1, 1500),
                1 => recorder.windows(window(0, true, time, time)),
                2 => recorder.event(drop_at(PORT, time)),
                _ => recorder.packet_arrived(PORT, time, &packet(0, Flags::ACK)),
            }
        }
        if table == 3 {
            recorder.packet_arrived(PORT, 3, &packet(0, Flags::ACK));
        }
        assert!(recorder.complete().is_err(), "table {table}");
    }
}

// Packets.

#[test]
fn a_packet_is_written_down_as_it_came_and_as_it_left() {
    let mut recorder = every_packet();
    assert!(recorder.follows_some());
    assert_eq!([PORT, OTHER].map(|link| recorder.follows(link)), [true, false]);
    let sent = packet(4, Flags::ACK);
    enters(&mut recorder, 100, &sent);
    recorder.packet_left(PORT, 250, &sent, sent.flags.with(Flags::CE));
    let rows = recorder.finish().packets;
    let expected = PacketSample {
        arrive: Time(100),
        wait: Some(Duration(150)),
        offset: 1000,
        ack: 2000,
        link: PORT,
        connection: 4,
        number: 1,
        window: 9,
        sack: None,
        payload: 500,
        wire: 540,
        flags: PacketFlags(PacketFlags::ACK.0 | PacketFlags::CE.0),
        from_client: true,
        dropped: false,
    };
    assert_eq!(rows.iter().collect::<Vec<_>>(), [expected]);
}

#[test]
fn a_packet_is_dropped_if_it_is_not_admitted_or_evicted_later() {
    let mut recorder = every_packet();
    recorder.packet_arrived(PORT, 100, &packet(0, Flags::ACK));
    for connection in 1..4 {
        enters(&mut recorder, 100 + u64::from(connection), &packet(connection, Flags::ACK));
    }
    recorder.packet_evicted(PORT, 0);
    leaves(&mut recorder, 200, &packet(1, Flags::ACK));
    recorder.packet_arrived(PORT, 300, &packet(4, Flags::ACK));
    let expected = [(0, None, true), (1, Some(99), false), (2, None, false), (3, None, true), (4, None, true)];
    assert_eq!(fates(recorder), expected, "the second still waits");
}

#[test]
fn a_payload_that_was_cut_off_is_none() {
    let mut recorder = every_packet();
    let whole = packet(0, Flags::ACK);
    recorder.packet_arrived(PORT, 100, &whole);
    recorder.packet_admitted(PORT, &whole.trimmed());
    leaves(&mut recorder, 200, &whole.trimmed());
    let rows: Vec<_> = recorder.finish().packets.iter().map(|row| (row.payload, row.wire, row.flags)).collect();
    assert_eq!(rows, [(0, 40, PacketFlags(PacketFlags::ACK.0 | PacketFlags::TRIMMED.0))]);
}

/// The later ones are of the highest class, and leave first.
#[test]
fn packets_that_arrive_at_once_are_in_the_order_in_which_they_came() {
    let urgent = |connection| packet(connection, CLIENT.with_class(7));
    // Nothing has arrived before the first moment of a run, either.
    for begin in [0, 100] {
        let mut recorder = every_packet();
        enters(&mut recorder, begin, &packet(1, CLIENT));
        for connection in 2..4 {
            enters(&mut recorder, begin, &urgent(connection));
        }
        for connection in 2..4 {
            leaves(&mut recorder, begin + 10, &urgent(connection));
        }
        leaves(&mut recorder, begin + 30, &packet(1, CLIENT));
        assert_eq!(fates(recorder), [(1, Some(30), false), (2, Some(10), false), (3, Some(10), false)]);
    }
}

/// The others keep their place in the queue, so that each wait is its own.
#[test]
fn only_packets_of_the_connections_asked_for_are_written_down() {
    let mut recorder = recorder(Record { packets: vec![PORT], packets_of: vec![1], ..Record::default() });
    for connection in 0..3 {
        enters(&mut recorder, 100, &packet(connection, CLIENT));
    }
    for connection in 0..3 {
        leaves(&mut recorder, 110 + u64::from(connection), &packet(connection, CLIENT));
    }
    assert_eq!(fates(recorder), [(1, Some(11), false)]);
}

/// Offsets beyond what fits the wire: each is near the last of its connection.
#[test]
fn a_sack_option_is_that_of_its_number_unless_its_end_has_forgotten_it() {
    let mut recorder = every_packet();
    let numbered = |option| Packet { option, ..packet(0, Flags::OPTIONS) };
    let blocks = [&[(2000, 3000)][..], &[(4000, 5000), (7000, 8000)], &[]];
    for (number, blocks) in (7..).zip(blocks) {
        recorder.options_written(&numbered(number), SackOption::of(blocks), 2);
    }
    for (time, number) in (100..).zip([7, 8, 9]) {
        recorder.packet_arrived(PORT, time, &numbered(number));
    }
    recorder.packet_arrived(PORT, 200, &Packet { option: 8, ..packet(0, CLIENT) });
    let sacks: Vec<_> = recorder.finish().packets.iter().map(|row| row.sack.clone()).collect();
    assert_eq!(sacks, [None, Some("4000-5000 7000-8000".into()), None, None]);
}

#[test]
fn options_of_connections_that_nobody_asked_for_are_not_kept() {
    let mut recorder = recorder(Record { packets: vec![PORT], packets_of: vec![1], ..Record::default() });
    for connection in [0, 1] {
        let packet = packet(connection, Flags::OPTIONS);
        recorder.options_written(&packet, SackOption::of(&[(2000, 3000)]), 2);
        recorder.packet_arrived(PORT, 100, &packet);
    }
    let sacks: Vec<_> = recorder.finish().packets.iter().map(|row| (row.connection, row.sack.clone())).collect();
    assert_eq!(sacks, [(1, Some("2000-3000".into()))]);
}
