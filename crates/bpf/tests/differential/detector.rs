//! The incast detector in C against the marker "ein": the same departures, and the same packets marked.

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;

use incast_bpf::EinParameters;
use incast_protocols::switch::marker::ein::{Average, Config, Ein, Idle, WarmUp};
use incast_protocols::switch::marker::{Marker as _, MarkerContext, ecn_threshold};
use incast_protocols::switch::{PacketView, QueueState};
use incast_protocols::{Amount, Bytes, Rate, Time};
use proptest::prelude::*;

use crate::SEQUENCES;
use crate::replay::Replay;

/// One departure: nanoseconds after the last, bytes of the packet, and how the queue behind it changes.
#[derive(Clone, Copy, Debug)]
struct Departure {
    after_ns: u64,
    length: u64,
    behind: Behind,
}

#[derive(Clone, Copy, Debug)]
enum Behind {
    /// The queue grows or shrinks by this many bytes.
    By(i64),
    Empty,
    /// As much as 2 MiB at once.
    Full,
}

fn departure() -> impl Strategy<Value = Departure> {
    let after_ns = prop_oneof![
        1 => Just(0_u64),
        4 => 1..2_000_u64,
        8 => 2_000..200_000_u64,
        2 => 200_000..50_000_000_u64,
    ];
    let length = prop_oneof![Just(1514_u64), Just(66), 60..9_000_u64];
    let behind = prop_oneof![
        30 => (-3_000..4_000_i64).prop_map(Behind::By),
        2 => (-60_000..90_000_i64).prop_map(Behind::By),
        1 => Just(Behind::Empty),
        1 => Just(Behind::Full),
    ];
    (after_ns, length, behind).prop_map(|(after_ns, length, behind)| Departure { after_ns, length, behind })
}

fn config() -> impl Strategy<Value = Config> {
    let threshold = prop_oneof![
        (0..200_u32).prop_map(Amount::Packets),
        (0..300_000_u64).prop_map(|bytes| Amount::Bytes(Bytes(bytes))),
    ];
    let average = prop_oneof![Just(Average::PacketTime), Just(Average::PerSample), Just(Average::Telescoped)];
    (threshold, 1..60_u32, 0.0..2.0_f64, 0.0..3.0_f64, average, any::<bool>(), any::<bool>()).prop_map(
        |(threshold, samples, growth, high_water, average, full, keep)| Config {
            ecn: ecn_threshold::Config { threshold, ..ecn_threshold::Config::default() },
            samples,
            growth,
            high_water,
            warm_up: if full { WarmUp::Full } else { WarmUp::Zero },
            idle: if keep { Idle::Keep } else { Idle::Clear },
            average,
        },
    )
}

#[test]
fn the_same_packets_are_marked() {
    let replay = RefCell::new(Replay::start(env!("INCAST_DETECTOR")));
    let (marked, unmarked) = (Cell::new(0_u64), Cell::new(0_u64));
    let rates = [10_000_000, 100_000_000, 1_000_000_000, 25_000_000_000, 33_333_333].map(Rate);
    let strategy = (config(), prop::sample::select(rates.to_vec()), prop::collection::vec(departure(), 1..150));
    let settings = ProptestConfig { failure_persistence: None, cases: SEQUENCES, ..ProptestConfig::default() };
    let outcome = proptest::test_runner::TestRunner::new(settings).run(&strategy, |(config, rate, departures)| {
        let parameters = EinParameters::of(&config, rate).expect("it is in range");
        let mut marker = Ein::new(&config, &MarkerContext::alone(rate));
        let fields: Vec<String> = parameters.fields().iter().map(u64::to_string).collect();
        let mut script = format!("new {}\n", fields.join(" "));
        let mut ours = vec![[0]];
        let (mut now_ns, mut behind) = (1_000_000_u64, 0_u64);
        for departure in &departures {
            now_ns += departure.after_ns;
            behind = match departure.behind {
                Behind::By(change) => behind.saturating_add_signed(change),
                Behind::Empty => 0,
                Behind::Full => 2 << 20,
            };
            let waiting_packets = behind.div_ceil(1514) as u32;
            let queue = QueueState {
                now: Time(now_ns * 1000),
                waiting_packets,
                waiting_bytes: Bytes(behind),
                in_service: Bytes(departure.length),
                rate,
            };
            let packet = PacketView { bytes: Bytes(departure.length), ..PacketView::default() };
            ours.push([u64::from(marker.on_dequeue(&queue, &packet).ein)]);
            let (bytes, packets) = (behind + departure.length, waiting_packets + 1);
            writeln!(script, "departure {now_ns} {bytes} {packets} {}", departure.length).expect("a string takes all");
        }
        let theirs: Vec<[u64; 1]> = replay.borrow_mut().answers(&script);
        let differs = ours.iter().zip(&theirs).position(|(ours, theirs)| ours != theirs);
        prop_assert_eq!(differs, None, "the line that differs of:\n{}", script);
        let marks: u64 = ours.iter().flatten().sum();
        marked.set(marked.get() + marks);
        unmarked.set(unmarked.get() + ours.len() as u64 - marks);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    let few = 10 * u64::from(SEQUENCES);
    assert!(marked.get() > few && unmarked.get() > few, "{marked:?} marked, {unmarked:?} not");
}
