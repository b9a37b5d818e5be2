//! `cargo run --release -p incast --example start` times the start of a small run within a process: to read and plan its scenario, and the run itself,
//! of which little more than the start is left as two hosts send 20 KB each. Least and median of 500 runs, in milliseconds.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::time::Instant;

use incast::{Control, Job, Scenario};

const REST: &str = "
link = { rate = \"10Gbps\", delay = \"10us\" }
[switch]
buffer = { name = \"static\", limit = \"250packets\", count_in_service = false }
marker = { name = \"ecn-threshold\", threshold = \"65packets\", count_in_service = false }
[stack]
sender = \"dctcp\"
[traffic.a]
kind = \"incast\"
senders = 2
size = \"20KB\"
";

fn star(hosts: u32) -> String {
    format!("[topology]\nkind = \"star\"\nhosts = {hosts}{REST}")
}

fn leaf_spine() -> String {
    let network = "[topology]\nkind = \"leaf-spine\"\nleaves = 20\nhosts_per_leaf = 20\nspines = 10\n\
                   fabric_link = { rate = \"10Gbps\", delay = \"10us\" }\nhost_";
    format!("{network}{}", REST.trim_start())
}

fn main() {
    println!("{:<28} {:>13} {:>13} {:>13}", "", "read and plan", "run", "both");
    for (name, text) in [("star of 17", star(17)), ("star of 101", star(101)), ("leaf-spine of 400", leaf_spine())] {
        let mut times: Vec<[f64; 3]> = (0..500)
            .map(|_| {
                let begin = Instant::now();
                let scenario = Scenario::parse(&text, "start.toml", &[]).expect("it is sound");
                let job = Job::new(&scenario, None, None).expect("it is sound");
                let planned = begin.elapsed();
                job.world.run(&job.plan, &Control::default()).expect("it ends");
                let [planned, both] = [planned, begin.elapsed()].map(|time| time.as_secs_f64() * 1e3);
                [planned, both - planned, both]
            })
            .collect();
        let column = |at: usize, times: &mut Vec<[f64; 3]>| {
            times.sort_by(|one, other| one[at].total_cmp(&other[at]));
            format!("{:.2} {:.2}", times[0][at], times[250][at])
        };
        let columns = [0, 1, 2].map(|at| column(at, &mut times));
        println!("{name:<28} {:>13} {:>13} {:>13}", columns[0], columns[1], columns[2]);
    }
}
