use super::*;

/// 10 Gbit/s: 1500 bytes take 1.2 us, a window is 60 us, and a surge is more than 15 us of the line.
const PACKET: u64 = 1_200_000;
const WINDOW: u64 = 60_000_000;
const SECOND: u64 = 1_000_000_000_000;

/// One port with a queue without end.
struct Bench {
    port: Port,
    counting: Counting,
    busy_until: u64,
}

impl Bench {
    fn new() -> Self {
        let counting = Counting { seen_in: vec![0; 100], count: 0 };
        Self { port: Port::new(7, Rate(10_000_000_000), true), counting, busy_until: 0 }
    }

    fn arrive_bytes(&mut self, now: u64, host: u32, bytes: u64) {
        let takes = bytes * 800;
        self.busy_until = self.busy_until.max(now) + takes;
        let arrival = Arrival { now, connection: 0, from: End::Client, takes, gone: self.busy_until };
        self.port.arrived(host, &arrival, &mut self.counting);
    }

    fn arrive(&mut self, now: u64, host: u32) {
        self.arrive_bytes(now, host, 1500);
    }

    fn depart(&mut self, from: u64, count: u64, ein: bool) {
        for step in 0..count {
            self.port.departed(from + step * PACKET, ein);
        }
    }

    fn finish(mut self) -> (Vec<Incast>, Vec<Alarm>) {
        self.port.count_hosts(&mut self.counting);
        let (mut incasts, mut alarms) = (Vec::new(), Vec::new());
        self.port.finish(&mut incasts, &mut alarms);
        (incasts, alarms)
    }
}

/// So many hosts send a packet each at once.
fn burst(hosts: u32) -> Bench {
    let mut bench = Bench::new();
    for host in 0..hosts {
        bench.arrive(SECOND, host);
    }
    bench
}

#[test]
fn as_many_packets_at_once_as_the_line_carries_in_a_quarter_of_a_window_are_no_surge() {
    // 12 x 1.2 us are 14.4 us, 13 are 15.6 us.
    assert!(burst(12).port.surges.0.is_empty());
    let (incasts, _) = burst(13).finish();
    let [incast] = &incasts[..] else { panic!("{incasts:?}") };
    assert_eq!((incast.link, incast.begin, incast.end, incast.hosts), (7, Time(SECOND), Time(SECOND), 13));
    assert_eq!((incast.excess, incast.drained), (Bytes(13 * 1500), Time(SECOND + 13 * PACKET)));
}

#[test]
fn a_surge_of_seven_hosts_is_no_incast_and_of_eight_it_is() {
    for (hosts, incasts) in [(7, 0), (8, 1)] {
        let mut bench = Bench::new();
        for packet in 0..30 {
            bench.arrive(SECOND, packet % hosts);
        }
        assert_eq!((bench.port.surges.0.len(), bench.port.incasts.0.len()), (1, incasts));
    }
}

/// Exactly line rate forever is no surge, however many hosts send it; what comes on top is seen from its first packet on.
#[test]
fn the_begin_is_that_of_the_excess_and_not_of_a_busy_line() {
    let mut bench = Bench::new();
    for packet in 0..1000 {
        bench.arrive(packet * PACKET, packet as u32 % 10);
    }
    assert!(bench.port.surges.0.is_empty());
    // From here on twice the line rate: ahead by one packet per packet time, by 13 after 12 of them.
    for step in 0..20 {
        for host in 0..2 {
            bench.arrive((1000 + step) * PACKET, 10 * host + step as u32 % 10);
        }
    }
    let (incasts, _) = bench.finish();
    let [incast] = &incasts[..] else { panic!("{incasts:?}") };
    assert_eq!((incast.begin.0, incast.end.0), (1000 * PACKET, 1019 * PACKET));
    assert_eq!(incast.excess, Bytes(21 * 1500));
    assert_eq!(incast.drained, Time(1040 * PACKET));
}

#[test]
fn a_slow_drift_is_no_surge() {
    let mut bench = Bench::new();
    // 1.2 times the line rate: 10 packets ahead per window.
    for packet in 0..1000 {
        bench.arrive(packet * 1_000_000, packet as u32 % 30);
    }
    assert!(bench.port.surges.0.is_empty());
}

/// Bytes count, not packets: thousands of ACKs from many hosts are no incast, and one among them is seen all the same.
#[test]
fn a_port_that_carries_acks_is_judged_by_bytes() {
    let mut bench = Bench::new();
    let mut now = SECOND;
    for ack in 0..5000 {
        now += 54 * 800;
        bench.arrive_bytes(now, ack % 50, 54);
        // A data packet while an ACK is in transmission now and then.
        if ack % 500 == 0 {
            bench.arrive(now, 60);
        }
    }
    assert!(bench.port.surges.0.is_empty());
    for host in 0..13 {
        bench.arrive(now, host);
    }
    let (incasts, _) = bench.finish();
    let [incast] = &incasts[..] else { panic!("{incasts:?}") };
    assert_eq!(incast.end, Time(now));
    assert!(now - incast.begin.0 <= WINDOW && incast.begin.0 > SECOND);
}

#[test]
fn two_bursts_a_window_apart_are_one_and_further_apart_two() {
    for (apart, incasts) in [(WINDOW, 1), (WINDOW + 1, 2)] {
        let mut bench = burst(13);
        for host in 0..20 {
            bench.arrive(SECOND + apart, host);
        }
        let (found, _) = bench.finish();
        assert_eq!(found.len(), incasts, "{found:?}");
        assert_eq!(found.iter().map(|incast| incast.hosts).max(), Some(20));
    }
}

#[test]
fn drops_belong_to_the_incast_of_their_arrival() {
    let mut bench = burst(12);
    bench.port.incasts.dropped(SECOND);
    bench.arrive(SECOND, 12);
    bench.port.incasts.dropped(SECOND);
    bench.port.incasts.dropped(SECOND + 1);
    assert_eq!(bench.finish().0[0].drops, 1);
}

#[test]
fn ein_is_credited_from_the_begin_until_the_queue_has_drained() {
    // The burst has drained after 24 packets.
    let detected = |ein_from: i64, count: u64| {
        let mut bench = burst(24);
        let from = SECOND.checked_add_signed(ein_from * PACKET.cast_signed()).unwrap();
        bench.depart(from, count, true);
        bench.depart(from + count * PACKET, 1, false);
        let (incasts, alarms) = bench.finish();
        let [alarm] = &alarms[..] else { panic!("{alarms:?}") };
        let delay = incasts[0].delay().map(|delay| delay.0 / PACKET);
        (delay, alarm.cause, [alarm.packets_in_incast, alarm.packets_draining, alarm.packets_innocent])
    };
    assert_eq!(detected(0, 3), (Some(0), Cause::Incast, [1, 2, 0]));
    assert_eq!(detected(2, 3), (Some(2), Cause::Incast, [0, 3, 0]));
    assert_eq!(detected(24, 3), (Some(24), Cause::Incast, [0, 1, 2]));
    assert_eq!(detected(25, 3), (None, Cause::Nothing, [0, 0, 3]));
    // Set already when it begins.
    assert_eq!(detected(-2, 4), (Some(0), Cause::Incast, [1, 1, 2]));
    assert_eq!(detected(-2, 2), (None, Cause::Nothing, [0, 0, 2]));
}

#[test]
fn an_alarm_in_a_surge_of_few_hosts_is_told_from_one_in_nothing() {
    let mut bench = Bench::new();
    for packet in 0..30 {
        bench.arrive(SECOND, packet % 3);
    }
    bench.depart(SECOND + PACKET, 1, true);
    bench.depart(SECOND + 2 * PACKET, 1, false);
    bench.depart(2 * SECOND, 1, true);
    let (incasts, alarms) = bench.finish();
    assert!(incasts.is_empty());
    assert_eq!(alarms.iter().map(|alarm| alarm.cause).collect::<Vec<_>>(), [Cause::Surge, Cause::Nothing]);
}

#[test]
fn alarms_end_when_a_packet_leaves_without_and_an_incast_may_have_several() {
    let mut bench = burst(24);
    for (step, ein) in [(1, true), (2, true), (3, false), (4, true), (5, false)] {
        bench.depart(SECOND + step * PACKET, 1, ein);
    }
    let (incasts, alarms) = bench.finish();
    let spans: Vec<_> = alarms.iter().map(|a| ((a.begin.0 - SECOND) / PACKET, (a.end.0 - SECOND) / PACKET)).collect();
    assert_eq!(spans, [(1, 2), (4, 4)]);
    let detected = incasts[0].detected.unwrap();
    assert_eq!((detected.from.0, detected.until.0), (SECOND + PACKET, SECOND + 4 * PACKET));
}

/// Whatever arrives, the look back finds what a search over all moments of the window finds.
#[test]
fn the_look_back_is_that_of_a_plain_search() {
    let mut random = 1_u64;
    let mut draw = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let (mut surges, mut incasts) = (0, 0);
    for _ in 0..200 {
        let mut bench = Bench::new();
        let mut all: Vec<(u64, u32, u64)> = Vec::new();
        let (mut found_surges, mut found_incasts) = (Episodes::default(), Episodes::default());
        let hosts = 1 + draw(20);
        let mut now = SECOND;
        for _ in 0..150 {
            now += draw(3) * draw(900_000);
            let (host, bytes) = (draw(hosts) as u32, 54 + draw(1447));
            all.push((now, host, bytes * 800));
            bench.arrive_bytes(now, host, bytes);
            let excess = |from: usize| {
                let takes: u64 = all[from..].iter().map(|(_, _, takes)| takes).sum();
                takes.cast_signed() - (now - all[from].0).cast_signed()
            };
            let within = (0..all.len()).filter(|&from| now - all[from].0 <= WINDOW);
            let best = within.max_by_key(|&from| (excess(from), from)).unwrap();
            if excess(best) <= (WINDOW / 4).cast_signed() {
                continue;
            }
            let from: std::collections::BTreeSet<u32> = all[best..].iter().map(|(_, host, _)| *host).collect();
            let found = Episode {
                begin: all[best].0,
                end: now,
                drained: bench.busy_until,
                hosts: from.len() as u32,
                excess: excess(best).cast_unsigned(),
                drops: 0,
            };
            found_surges.add(Episode { hosts: 0, ..found }, WINDOW);
            if found.hosts >= HOSTS && found_incasts.add(found, WINDOW) {
                found_incasts.set_hosts(found.hosts);
            }
        }
        bench.port.count_hosts(&mut bench.counting);
        let plain = |episodes: &Episodes| format!("{:?}", episodes.0);
        assert_eq!(plain(&bench.port.surges), plain(&found_surges));
        assert_eq!(plain(&bench.port.incasts), plain(&found_incasts));
        surges += found_surges.0.len();
        incasts += found_incasts.0.len();
    }
    assert!(surges > 100 && incasts > 80, "{surges} {incasts}: hardly anything was compared");
}
