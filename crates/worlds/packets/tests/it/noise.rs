//! What hosts add to the time of packets.

use crate::support::{
    add_flow, cable, dctcp, leaf_spine_load, mark_at, new_reno, no_marks, packets, plan, run_both, star, tcp,
};
use incast_plan::{Fraction, Handshake, HostNoise, Noise, NoisePer, Plan, Tcp};
use incast_protocols::{Duration, Time};

const GBPS: u64 = 1_000_000_000;

/// Always the same time.
fn always(time: Duration) -> Noise {
    Noise::Measured { quantiles: vec![(Fraction(0.0), time), (Fraction(1.0), time)] }
}

fn exponential(us: u64) -> Noise {
    Noise::Exponential { mean: Duration::from_us(us) }
}

fn fct(plan: &Plan) -> u64 {
    let flow = &run_both(plan).flows[0];
    flow.end.unwrap().since(flow.start).0
}

/// SYN, SYN-ACK and the only segment cross three times; each round of slow start adds an ACK and a segment.
#[test]
fn each_crossing_takes_longer_by_what_both_hosts_add() {
    let (sending, receiving) = (Duration::from_us(3), Duration::from_us(2));
    for (segments, crossings) in [(1, 3), (3, 5), (7, 7)] {
        let network = star(2, cable(GBPS, Duration::from_us(25)), &packets(1000), &no_marks());
        let mut plan = plan(network, new_reno(), Tcp { initial_window_segments: 1, ..tcp() });
        add_flow(&mut plan, 0, 1, Some(segments * 1460), Time(0), Handshake::Counted);
        let punctual = fct(&plan);
        plan.network.noise.sending = always(sending);
        assert_eq!(fct(&plan) - punctual, crossings * sending.0);
        plan.network.noise = HostNoise { receiving: always(receiving), ..HostNoise::default() };
        assert_eq!(fct(&plan) - punctual, crossings * receiving.0);
        plan.network.noise.sending = always(sending);
        assert_eq!(fct(&plan) - punctual, crossings * (sending.0 + receiving.0));
    }
}

/// A port sends no faster because packets reach it late, and its host's noise delays all of a train alike at the least.
#[test]
fn a_long_flow_loses_no_throughput_to_noise() {
    let time = |noise: Noise| {
        let network = star(2, cable(GBPS, Duration::from_us(25)), &packets(1000), &no_marks());
        let mut plan = plan(network, new_reno(), tcp());
        add_flow(&mut plan, 0, 1, Some(20_000_000), Time(0), Handshake::Before);
        plan.network.noise = HostNoise { sending: noise.clone(), receiving: noise, ..HostNoise::default() };
        fct(&plan)
    };
    let (punctual, noisy) = (time(Noise::None), time(exponential(5)));
    assert!(noisy > punctual && noisy < punctual + punctual / 200, "{punctual} {noisy}");
}

#[test]
fn both_drivers_give_the_same_bytes_with_noise() {
    let network = star(65, cable(10 * GBPS, Duration::from_us(5)), &packets(100), &mark_at(65));
    let mut incast = plan(network, dctcp(), tcp());
    for sender in 1..65 {
        add_flow(&mut incast, sender, 0, Some(1 << 18), Time(0), Handshake::Counted);
    }
    let mut leaf_spine = leaf_spine_load(8, 8, 4, 2_000, 1, 40, 38);
    for (plan, per) in [(&mut incast, NoisePer::Packet), (&mut leaf_spine, NoisePer::Burst)] {
        plan.network.noise = HostNoise { sending: exponential(2), receiving: exponential(1), per };
        let run = run_both(plan);
        assert!(run.totals.dropped > 100, "{}", run.totals.dropped);
    }
}

/// Equal senders without noise meet at the port at the same picosecond in every round; with it they do not, and another
/// seed gives another run.
#[test]
fn noise_is_seeded() {
    let ends = |seed: u64| {
        let network = star(9, cable(GBPS, Duration::from_us(25)), &packets(1000), &no_marks());
        let mut plan = plan(network, new_reno(), tcp());
        plan.seed = seed;
        plan.network.noise = HostNoise { sending: exponential(1), receiving: exponential(1), ..HostNoise::default() };
        for sender in 1..9 {
            add_flow(&mut plan, sender, 0, Some(1 << 16), Time(0), Handshake::Counted);
        }
        run_both(&plan).flows.iter().map(|flow| flow.end.unwrap().0).collect::<Vec<_>>()
    };
    assert_eq!(ends(1), ends(1));
    assert_ne!(ends(1), ends(2));
}
