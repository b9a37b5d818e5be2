//! What checking a scenario takes grows with its hosts and messages, and no faster. Allocations and bytes are counted, not
//! seconds, so that the result is the same on any machine.

use allocation_counter::{AllocationInfo, measure};
use incast::{Cost, Job, Scenario};

/// What `incast check` does, without the pilot: reads, plans, and estimates the cost.
fn checked(text: &str) -> (Cost, AllocationInfo) {
    let mut cost = Cost::default();
    let counted = measure(|| {
        let scenario = Scenario::parse(text, "s.toml", &[]).unwrap_or_else(|report| panic!("{report}"));
        let job = Job::new(&scenario, None, None).unwrap_or_else(|report| panic!("{report}"));
        cost = job.world.cost(&job.plan);
    });
    (cost, counted)
}

/// All but one of the hosts answer, three times.
fn star(hosts: u32) -> String {
    format!(
        "[topology]
kind = \"star\"
hosts = {hosts}
link = {{ rate = \"1Gbps\", delay = \"1us\" }}
[switch]
buffer = {{ name = \"static\", limit = \"9packets\", count_in_service = true }}
[traffic.a]
kind = \"rounds\"
workers = {}
response = \"2KB\"
rounds = 3
",
        hosts - 1
    )
}

/// A hundred hosts in each rack, which send to others at random.
fn leaf_spine(hosts: u32) -> String {
    format!(
        "[topology]
kind = \"leaf-spine\"
leaves = {}
hosts_per_leaf = 100
spines = 4
host_link = {{ rate = \"10Gbps\", delay = \"1us\" }}
fabric_link = {{ rate = \"40Gbps\", delay = \"1us\" }}
[switch]
buffer = {{ name = \"static\", limit = \"256KiB\", count_in_service = true }}
[traffic.a]
kind = \"poisson\"
rate_per_s = 1e6
flows = {hosts}
sizes = {{ kind = \"constant\", size = \"2KB\" }}
",
        hosts / 100
    )
}

#[test]
fn checking_takes_memory_in_proportion_to_the_hosts() {
    for make in [star, leaf_spine] {
        let (few, many) = (checked(&make(10_000)), checked(&make(100_000)));
        assert!(many.0.packet_hops > 5 * few.0.packet_hops);
        let (few, many) = (few.1, many.1);
        let told = format!("{}: 10,000 hosts {few:?}, 100,000 {many:?}", make(10_000));
        // Ten times as much, and lists that double when they grow.
        assert!(many.count_total < 11 * few.count_total + 1000, "allocations of {told}");
        assert!(many.bytes_total < 16 * few.bytes_total, "bytes of {told}");
        // What is said of a check of 100,000 hosts: 500 MB, of which Python has 50.
        assert!(many.bytes_max < 450_000_000, "memory of {told}");
    }
}
