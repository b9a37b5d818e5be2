//! Random small networks with random traffic: every run ends, conserves packets, delivers every byte once
//! and in order, and gives the same bytes with either driver, again, and beside another run.

use crate::support::{
    Cable, Random, add_flow, add_job, add_rounds, assert_same, cable, dctcp, leaf_spine, mark_at, new_reno, packets,
    plan, run_both, run_on, star, tcp,
};
use incast_packets::DriverKind;
use incast_plan::{
    Connection, DelayedAck, Ect, End, Fraction, Handshake, HostNoise, LossDetection, Noise, NoisePer, Pacing,
    PartialAck, Plan, Record, Reduction, Reorder, RtoForm, RttSamples, Send, SlowStartRestart, Tcp, WindowPerMessage,
    WindowScaling,
};
use incast_protocols::echo::EchoChoice;
use incast_protocols::receiver::{ReceiverChoice, rdtcp};
use incast_protocols::sender::{SenderChoice, WindowRules};
use incast_protocols::stack::EndStack;
use incast_protocols::switch::buffer::BufferChoice;
use incast_protocols::switch::buffer::dynamic_threshold::{self, Alpha};
use incast_protocols::switch::marker::{MarkerChoice, ein};
use incast_protocols::{Bytes, Duration, Message, Time};
use incast_record::{Outcome, Run};
use incast_scenario::profiles;
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Small {
    seed: u64,
    leaf_spine: bool,
    stack: u32,
    rate: u64,
    delay_ns: u64,
    buffer: u32,
    /// Alpha in 1/8, reserve per port and cell in bytes, if the ports of a switch share their memory.
    shared: Option<(u32, u64, u64)>,
    mark: u32,
    loss: f64,
    reorder: f64,
    /// Depth of the links' token buckets, or none.
    burst: u64,
    /// On sending and on receiving.
    noise: (Noise, Noise),
    initial_window: u64,
    delayed_ack: Option<(u32, u64)>,
    receive_buffer: u64,
    switches: TcpSwitches,
    connections: Vec<Pair>,
    rounds: u32,
    /// Host, start in us, bytes of each answer.
    jobs: Vec<(u32, u64, Vec<u64>)>,
}

/// From, step to the other host, whether the handshake counts, window rule, whether it closes, messages.
type Pair = (u32, u32, bool, u8, bool, Vec<(u64, u64, bool)>);

/// What profiles differ in.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
struct TcpSwitches {
    sack: bool,
    proportional: bool,
    limited_transmit: bool,
    timestamps: bool,
    linux_rules: bool,
    scaling: u8,
    restart: u8,
    all_ect: bool,
    rack: bool,
    probes: bool,
    doubts: bool,
    linux_timers: bool,
    paced: bool,
}

fn switches() -> impl Strategy<Value = TcpSwitches> {
    let flags = (prop::bool::weighted(0.6), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let times = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), prop::bool::weighted(0.2));
    (flags, times, 0..3_u8, 0..3_u8).prop_map(
        |(flags, (rack, probes, doubts, linux_timers, paced), scaling, restart)| {
            let (sack, proportional, limited_transmit, timestamps, linux_rules, all_ect) = flags;
            TcpSwitches {
                sack,
                proportional,
                limited_transmit,
                timestamps,
                linux_rules,
                scaling,
                restart,
                all_ect,
                rack,
                probes,
                doubts,
                linux_timers,
                paced,
            }
        },
    )
}

impl TcpSwitches {
    fn set(self, tcp: &Tcp) -> Tcp {
        let rack = self.sack && self.rack;
        let waits = self.linux_rules && self.proportional && !self.sack;
        Tcp {
            loss_detection: if rack { LossDetection::Rack } else { LossDetection::Duplicates },
            tail_loss_probe: self.sack && self.probes,
            dsack: self.sack && self.doubts,
            undo: rack && self.doubts,
            frto: rack && self.doubts,
            rto: if self.linux_timers { RtoForm::Linux } else { RtoForm::Rfc6298 },
            rtt_samples: if self.linux_timers { RttSamples::EveryAck } else { RttSamples::OnePerRound },
            timer_tick: Duration::from_us(if self.linux_timers { 100 } else { 0 }),
            pacing: if self.paced { Pacing::Internal } else { Pacing::None },
            rules: WindowRules {
                inflate_in_recovery: !self.sack && !waits,
                ..if self.linux_rules { profiles()[0].tcp().rules } else { WindowRules::default() }
            },
            sack: self.sack,
            reduction: if self.proportional { Reduction::Proportional } else { Reduction::Immediate },
            partial_ack: if waits { PartialAck::Waits } else { PartialAck::Repairs },
            limited_transmit: self.limited_transmit,
            timestamps: self.timestamps,
            window_scaling: [WindowScaling::Exact, WindowScaling::Rfc7323, WindowScaling::Off]
                [usize::from(self.scaling)],
            slow_start_restart: [SlowStartRestart::Off, SlowStartRestart::Rfc5681, SlowStartRestart::Decay]
                [usize::from(self.restart)],
            ect: if self.all_ect { Ect::All } else { Ect::NewData },
            ..tcp.clone()
        }
    }
}

fn noise() -> impl Strategy<Value = Noise> {
    let us = Duration::from_us;
    prop_oneof![
        3 => Just(Noise::None),
        1 => (0_u64..20).prop_map(move |max| Noise::Uniform { max: us(max) }),
        1 => (0_u64..20).prop_map(move |mean| Noise::Exponential { mean: us(mean) }),
        1 => (0_u64..20, 0_u64..90).prop_map(move |(half, longer)| Noise::Measured {
            quantiles: vec![(Fraction(0.0), us(0)), (Fraction(0.5), us(half)), (Fraction(1.0), us(half + longer))],
        }),
    ]
}

fn small() -> impl Strategy<Value = Small> {
    let network = (any::<u64>(), any::<bool>(), 0_u32..6, 1_u64..40, 1_u64..60_000, 1_u32..30, 0_u32..20);
    let shared = prop::option::weighted(0.3, (1_u32..40, 0_u64..4_000, 1_u64..600));
    let faults = (prop_oneof![3 => Just(0.0), 1 => 0.0..0.08], prop_oneof![3 => Just(0.0), 1 => 0.0..0.3]);
    let burst = prop_oneof![3 => Just(0), 1 => 1_u64..20_000];
    let wires = (faults, (noise(), noise()), burst);
    let ends = (
        (prop_oneof![3 => 1_u64..12, 1 => Just(1)], prop::option::of((2_u32..4, 1_u64..3_000))),
        (prop_oneof![3 => 1_000_u64..400_000, 1 => Just(1_000)], switches()),
    );
    // Start in us, bytes, from client.
    let message = (0_u64..3_000, 1_u64..30_000, any::<bool>());
    let connection = (0_u32..6, 0_u32..5, any::<bool>(), 0_u8..3, any::<bool>(), prop::collection::vec(message, 1..4));
    let job = (0_u32..6, 0_u64..3_000, prop::collection::vec(1_u64..20_000, 1..6));
    let jobs = (0_u32..3, prop::collection::vec(job, 0..3));
    ((network, shared), wires, ends, prop::collection::vec(connection, 1..7), jobs).prop_map(
        |(
            (network, shared),
            ((loss, reorder), noise, burst),
            ((initial_window, delayed_ack), (receive_buffer, switches)),
            connections,
            (rounds, jobs),
        )| {
            let (seed, leaf_spine, stack, rate, delay_ns, buffer, mark) = network;
            Small {
                seed,
                leaf_spine,
                stack,
                rate: rate * 250_000_000,
                delay_ns,
                buffer,
                shared,
                mark,
                loss,
                reorder,
                burst,
                noise,
                initial_window,
                delayed_ack,
                receive_buffer,
                switches,
                connections,
                rounds,
                jobs,
            }
        },
    )
}

/// Senders that decide for themselves, and receivers that decide with them or for them.
fn stack(number: u32) -> EndStack {
    match number {
        0 => new_reno(),
        1 => dctcp(),
        2 => EndStack { receiver: ReceiverChoice::Ictcp(Default::default()), ..new_reno() },
        5 => EndStack { receiver: ReceiverChoice::Credit(Default::default()), ..new_reno() },
        4 => EndStack {
            sender: SenderChoice::Pulser(Default::default()),
            echo: EchoChoice::PulserEcho(Default::default()),
            ..new_reno()
        },
        _ => EndStack {
            sender: SenderChoice::Rdtcp(Default::default()),
            receiver: ReceiverChoice::Rdtcp(rdtcp::Config {
                queue_maxsize: 8,
                rto_min: Duration::from_ms(1),
                ..Default::default()
            }),
            ..new_reno()
        },
    }
}

/// What the stack wants of the switch.
fn marker(stack: u32, threshold: u32) -> MarkerChoice {
    match (stack, mark_at(threshold)) {
        (4, MarkerChoice::EcnThreshold(ecn)) => {
            MarkerChoice::Ein(ein::Config { ecn, samples: 8, ..Default::default() })
        }
        (_, marker) => marker,
    }
}

fn planned(small: &Small) -> Plan {
    let wire = Cable {
        loss: small.loss,
        burst: Bytes(small.burst),
        reorder: (small.reorder > 0.0).then_some(Reorder { probability: small.reorder, extra: Duration::from_us(40) }),
        ..cable(small.rate, Duration::from_ns(small.delay_ns))
    };
    let buffer = match small.shared {
        // Room for at least a packet with its cells, whatever the reserves.
        Some((alpha, reserve, cell)) => BufferChoice::DynamicThreshold(dynamic_threshold::Config {
            size: Bytes(u64::from(small.buffer) * 1040 + 8 * (reserve + cell) + 20_000),
            alpha: Alpha::try_from(f64::from(alpha) / 8.0).unwrap(),
            reserve: Bytes(reserve),
            cell: Bytes(cell),
        }),
        None => packets(small.buffer),
    };
    let marker = marker(small.stack, small.mark);
    let network =
        if small.leaf_spine { leaf_spine(3, 2, 2, wire, &buffer, &marker) } else { star(6, wire, &buffer, &marker) };
    let settings = Tcp {
        mss: Bytes(1000),
        initial_window_segments: small.initial_window,
        rto_min: Duration::from_ms(1),
        rto_initial: Duration::from_ms(2),
        rto_max: Duration::from_ms(100),
        delayed_ack: small.delayed_ack.map(|(every, us)| DelayedAck {
            every,
            timeout: Duration::from_us(us),
            quick: 0,
            quick_again: false,
            below_rto_min: us % 2 == 0,
            growth: Bytes(us * 50),
        }),
        gro: Duration::from_us(small.delayed_ack.map_or(0, |(_, us)| us % 30)),
        receive_buffer: Bytes(small.receive_buffer),
        ..tcp()
    };
    let settings = small.switches.set(&settings);
    let mut plan = plan(network, stack(small.stack), settings);
    plan.seed = small.seed;
    let (sending, receiving) = small.noise.clone();
    let per = if small.seed.is_multiple_of(2) { NoisePer::Packet } else { NoisePer::Burst };
    plan.network.noise = HostNoise { sending, receiving, per };
    plan.network.clock_phases = (0..6).map(|host| Duration::from_us(host * 37)).collect();
    for (index, (from, step, counted, window, close, messages)) in small.connections.iter().enumerate() {
        let server_sends = messages.iter().any(|message| !message.2);
        plan.connections.push(Connection {
            client: *from,
            server: (from + 1 + step) % 6,
            class: 0,
            handshake: if *counted && !server_sends { Handshake::Counted } else { Handshake::Before },
            close_when_done: *close,
            window_per_message: match window {
                0 => WindowPerMessage::Fresh,
                1 => WindowPerMessage::Kept,
                _ => WindowPerMessage::RestartAfterIdle,
            },
        });
        for &(start, size, from_client) in messages {
            let from = if from_client { End::Client } else { End::Server };
            let message = Message { size: Some(Bytes(size)), ..Message::default() };
            plan.sends.push(Send::new(index as u32, from, Time::from_us(start), message));
        }
    }
    plan.sends.sort_by_key(|send| send.start);
    if small.rounds > 0 {
        add_rounds(&mut plan, 5, 9_000, small.rounds, |round, worker| {
            Duration::from_us(u64::from(round * 3 + worker * (small.seed as u32 % 5)))
        });
    }
    for (host, start, sizes) in &small.jobs {
        let asked = (1..6).zip(sizes).map(|(step, &size)| ((host + step) % 6, size, Duration(size * 7_000)));
        add_job(&mut plan, *host, Time::from_us(*start), &asked.collect::<Vec<_>>());
    }
    plan.record = Record { queue_statistics: true, events: true, ..Record::default() };
    // A connection that never ends is found, and does not keep the test from ending.
    plan.stop_at = Some(Time::from_us(700_000_000));
    plan
}

fn sum_of_sizes(run: &Run) -> u64 {
    run.flows.iter().filter_map(|flow| flow.size).map(|size| size.0).sum()
}

/// As many flows as a busy second has, over wires that lose and ports that share little memory.
fn crowd(seed: u64, switches: TcpSwitches, loss: f64, shared: Option<u32>) -> Plan {
    let wire = Cable { loss, ..cable(10_000_000_000, Duration::from_us(5)) };
    let buffer = match shared {
        Some(alpha) => BufferChoice::DynamicThreshold(dynamic_threshold::Config {
            size: Bytes(60_000),
            alpha: Alpha::try_from(f64::from(alpha) / 8.0).unwrap(),
            ..Default::default()
        }),
        None => packets(20),
    };
    let network = leaf_spine(4, 8, 2, wire, &buffer, &marker((seed % 6) as u32, 10));
    let settings = switches.set(&Tcp { rto_min: Duration::from_ms(1), rto_initial: Duration::from_ms(2), ..tcp() });
    let mut plan = plan(network, stack((seed % 6) as u32), settings);
    plan.seed = seed;
    let mut random = Random(seed);
    let mut at = 0;
    for _ in 0..3_000 {
        at += u64::from(random.below(4_000_000));
        let from = random.below(32);
        let to = (from + 1 + random.below(31)) % 32;
        let size = u64::from(1 + random.below(40_000));
        add_flow(&mut plan, from, to, Some(size), Time(at), Handshake::Counted);
    }
    plan
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]
    #[test]
    fn thousands_of_flows_are_all_delivered(
        seed in any::<u64>(),
        switches in switches(),
        loss in prop_oneof![Just(0.0), 0.0..0.02],
        shared in prop::option::of(1_u32..32),
    ) {
        let run = run_both(&crowd(seed, switches, loss, shared));
        prop_assert_eq!(run.outcome, Outcome::Complete);
        prop_assert!(run.flows.iter().all(|flow| flow.end.is_some() && flow.size == Some(flow.delivered)));
        prop_assert_eq!(run.totals.in_network, 0);
        prop_assert_eq!(run.totals.sent, run.totals.delivered + run.totals.dropped + run.totals.lost_on_wire);
        // Receivers that count what they grant lose nothing at their own port, and shared memory may hold everything.
        prop_assert!(run.totals.dropped > 0 || [3, 5].contains(&(seed % 6)) || shared.is_some());
    }
}

/// A run as it is if nothing of it is written down.
fn unwatched(mut run: Run) -> Run {
    run.ports.iter_mut().for_each(|port| port.queue = None);
    run.events = Vec::new().into();
    run
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]
    /// Ports of which nobody wants the queue know in advance what will leave when. Runs end anywhere, also with packets that wait.
    #[test]
    fn it_changes_nothing_to_be_watched(small in small(), stop_us in 1_u64..4_000) {
        let mut plan = planned(&small);
        plan.stop_at = Some(Time::from_us(stop_us));
        let watched = unwatched(run_both(&plan));
        plan.record = Record::default();
        assert_same(&watched, &run_both(&plan));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]
    #[test]
    fn every_small_scenario_ends_with_every_byte_delivered_once(small in small()) {
        let plan = planned(&small);
        let run = run_both(&plan);
        prop_assert_eq!(run.outcome, Outcome::Complete);
        for flow in &run.flows {
            prop_assert!(flow.end.is_some() && flow.size == Some(flow.delivered), "{:?}", flow);
        }
        // What the receivers delivered in order adds up to what was sent (requests of rounds included).
        let asked: usize = small.jobs.iter().map(|job| job.2.len()).sum();
        let requests = u64::from(small.rounds) * 5 * 64 + asked as u64 * 200;
        prop_assert_eq!(run.delivered.bytes.iter().sum::<u64>(), sum_of_sizes(&run) + requests);
        prop_assert_eq!(run.totals.in_network, 0);
        // Nothing goes on for ever behind the last delivery, an exchange of FINs for example.
        prop_assert!(run.end < Time::from_us(600_000_000), "{}", run.end);
        let beside = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..2).map(|_| scope.spawn(|| run_on(&plan, DriverKind::Sweep))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        for other in &beside {
            assert_same(&run, other);
        }
    }
}
