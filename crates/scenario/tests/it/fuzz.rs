//! Whatever the text: a scenario or a report, never a panic and never an endless amount of memory.

use incast_scenario::{EXAMPLES, Override, Scenario};
use proptest::prelude::*;

/// Reads a text, and plans what is small enough for a test.
fn read(text: &str, overrides: &[Override]) {
    match Scenario::parse_with(text, "fuzz.toml", overrides, &|_| Ok(text.to_owned())) {
        Ok(scenario) if scenario.expected_messages() <= 100_000 => match scenario.plan(None) {
            Ok(plan) => assert_eq!(plan.validate(), Ok(())),
            Err(report) => assert!(!report.problems.is_empty()),
        },
        Ok(_) => {}
        Err(report) => assert!(!report.to_string().is_empty()),
    }
}

/// Values that tend to break things.
fn values() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("0".to_owned()),
        Just("-1".to_owned()),
        Just("9223372036854775807".to_owned()),
        Just("4294967295".to_owned()),
        Just("1e308".to_owned()),
        Just("nan".to_owned()),
        Just("\"0B\"".to_owned()),
        Just("\"1ps\"".to_owned()),
        Just("\"18446744s\"".to_owned()),
        Just("\"1Tbps\"".to_owned()),
        Just("\"17179869183GiB\"".to_owned()),
        Just("\"4294967295packets\"".to_owned()),
        Just("\"persistent\"".to_owned()),
        Just("\"ideal\"".to_owned()),
        Just("[]".to_owned()),
        Just("{}".to_owned()),
        Just("{ name = \"dctcp\" }".to_owned()),
        Just("{ kind = \"trace\", file = \"x\" }".to_owned()),
        Just("{ kind = \"cdf\", file = \"x\" }".to_owned()),
        Just("{ kind = \"log-normal\", mean = \"1GiB\", sigma = 5 }".to_owned()),
        Just("{ kind = \"exponential\", mean = \"1000000s\" }".to_owned()),
        Just("{ kind = \"truncated-exponential\", mean = \"0s\", cut = \"1000000s\" }".to_owned()),
        Just("{ per_rack = 1 }".to_owned()),
        Just("{ min = 1, max = 4294967295 }".to_owned()),
        Just("[{}, { deadline = \"0s\" }]".to_owned()),
        Just("{ rules = [{ up_to = \"1B\", rate = \"1Mbps\" }, { offset = \"1000000s\" }] }".to_owned()),
        any::<u32>().prop_map(|number| number.to_string()),
        "[a-z\"{}\\[\\]=,.0-9]{0,12}",
    ]
}

/// A key of one of the examples, or nearly one.
fn keys() -> impl Strategy<Value = String> {
    let known = [
        "seed",
        "run.world",
        "run.stop_at",
        "topology",
        "topology.kind",
        "topology.hosts",
        "topology.link.rate",
        "topology.link.delay",
        "topology.leaves",
        "topology.spines",
        "topology.hosts_per_leaf",
        "topology.left",
        "topology.links.0.rate",
        "topology.links.0.between",
        "switch",
        "switch.buffer",
        "switch.buffer.limit",
        "switch.marker",
        "stack.sender",
        "stack.echo",
        "tcp.mss",
        "tcp.header",
        "tcp.initial_window",
        "tcp.rto_min",
        "tcp.rto_max",
        "tcp.delayed_ack",
        "traffic",
        "traffic.t",
        "traffic.requests.workers",
        "traffic.requests.rounds",
        "traffic.requests.jitter",
        "traffic.requests.response",
        "traffic.requests.service_time",
        "traffic.messages.load",
        "traffic.messages.flows",
        "traffic.messages.sizes",
        "traffic.messages.size_known_after",
        "traffic.messages.start",
        "traffic.messages.pairs",
        "traffic.burst.senders",
        "traffic.burst.receiver",
        "traffic.burst.total",
        "traffic.burst.repetitions",
        "traffic.burst.interval",
        "traffic.burst.connections",
        "traffic.background.until",
        "traffic.background.hosts",
        "traffic.background.except",
        "traffic.background.deadlines",
        "traffic.shuffle.rate_per_s",
        "traffic.jobs.schedulers",
        "traffic.jobs.workers",
        "traffic.jobs.fan_in",
        "traffic.jobs.load",
        "traffic.jobs.jobs",
        "traffic.jobs.jobs_per_s",
        "traffic.jobs.until",
        "traffic.jobs.request",
        "traffic.jobs.sizes",
        "traffic.jobs.task_time",
        "traffic.jobs.task_time.mean",
        "traffic.jobs.task_time.cut",
        "traffic.jobs.deadline",
        "traffic.jobs.cases",
        "record.queue_series",
        "record.window_series",
        "record.packets",
        "record.packets_of",
    ];
    prop_oneof![
        8 => proptest::sample::select(known.to_vec()).prop_map(str::to_owned),
        1 => "[a-z.\"0-9]{0,12}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_without_a_panic(text in "\\PC{0,200}") {
        read(&text, &[]);
    }

    #[test]
    fn any_toml_like_text_is_read_without_a_panic(text in "(\\[?[a-z.]{1,8}\\]?( = (\"[a-z0-9]{0,5}\"|[0-9]{1,4}|\\{\\}|\\[\\]))?\n){0,12}") {
        read(&text, &[]);
    }

    #[test]
    fn examples_with_damaged_text_are_read_without_a_panic(
        example in 0..EXAMPLES.len(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), "\\PC{0,6}"), 1..4),
    ) {
        let mut text = EXAMPLES[example].1.to_owned();
        for (at, length, insert) in damage {
            let boundaries: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            if boundaries.is_empty() {
                break;
            }
            let first = at.index(boundaries.len());
            let last = (first + length.index(8)).min(boundaries.len() - 1);
            text.replace_range(boundaries[first]..boundaries[last], &insert);
        }
        read(&text, &[]);
    }

    #[test]
    fn examples_with_wild_overrides_are_read_without_a_panic(
        example in 0..EXAMPLES.len(),
        overrides in proptest::collection::vec((keys(), values()), 1..5),
    ) {
        let overrides: Vec<Override> =
            overrides.iter().filter_map(|(key, value)| Override::parse(&format!("{key}={value}")).ok()).collect();
        read(EXAMPLES[example].1, &overrides);
    }
}
