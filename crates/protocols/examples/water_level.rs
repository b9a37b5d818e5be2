//! `cargo run --release -p incast-protocols --example water_level` times DCMRG's division of a port: what it takes until the
//! new share is known after a flow came and after one went, with so many at the port, half of which have a reservation.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::time::Instant;

use incast_protocols::receiver::dcmrg::WaterLevel;
use incast_protocols::{Rate, receiver::FlowIndex};

const CAPACITY: u64 = 100_000_000_000;
const CHANGES: u32 = 1_000_000;

/// Numbers that look random (the finalizer of `SplitMix64`).
fn random(number: u64) -> u64 {
    let z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn main() {
    println!("{:>8} {:>24}", "flows", "ns/(arrival+departure)");
    for flows in [100_u32, 1_000, 10_000, 100_000] {
        let mut port = WaterLevel::new(Rate(CAPACITY));
        // Even if all ask for the most, it fits; half of the reservations are above the level.
        let rate = |number: u64| Rate(random(number) % (CAPACITY / u64::from(flows / 2)) + 1);
        for flow in 0..flows {
            if flow % 2 == 0 {
                assert!(port.reserve(FlowIndex(flow), rate(u64::from(flow))));
            } else {
                port.add_elastic();
            }
        }
        let mut sum = 0;
        let begin = Instant::now();
        for change in 0..CHANGES {
            let flow = FlowIndex((random(u64::from(change)) % u64::from(flows / 2) * 2) as u32);
            port.release(flow);
            sum += port.level().0;
            assert!(port.reserve(flow, rate(u64::from(flows) + u64::from(change))));
            sum += port.level().0;
        }
        let ns = begin.elapsed().as_secs_f64() * 1e9 / f64::from(CHANGES);
        println!("{flows:>8} {ns:>24.0}   (mean share {} bit/s)", sum / (2 * u64::from(CHANGES)));
    }
}
