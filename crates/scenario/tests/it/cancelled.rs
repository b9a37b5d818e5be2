//! A plan that nobody wants any more is not written to its end, whatever its traffic.

use std::cell::Cell;

use incast_scenario::Scenario;

const STAR: &str = r#"
[topology]
kind = "star"
hosts = 4
link = { rate = "1Gbps", delay = "25us" }
[switch]
buffer = { name = "static", limit = "64KiB", count_in_service = true }
[run]
stop_at = "1s"
"#;

const TRAFFIC: [&str; 6] = [
    "kind = \"incast\"\nsenders = 3\nsize = \"10KB\"",
    "kind = \"rounds\"\nworkers = 3\nresponse = \"10KB\"\nrounds = 2",
    "kind = \"fork-join\"\nschedulers = 1\nfan_in = 2\njobs = 3\nload = 0.1\nsizes = { kind = \"constant\", size = \"1KB\" }",
    "kind = \"poisson\"\nrate_per_s = 10\nflows = 3\nsizes = { kind = \"constant\", size = \"1KB\" }",
    "kind = \"long\"\nsenders = 2\nreceiver = 0",
    "kind = \"trace\"\nfile = \"trace.txt\"",
];

#[test]
fn every_kind_of_traffic_stops_planning_when_told_to() {
    for traffic in TRAFFIC {
        let text = format!("{STAR}[traffic.some]\n{traffic}");
        let read = |_: &str| Ok("1\n0 1 3 100 1000 0.1\n".to_owned());
        let scenario = Scenario::parse_with(&text, "c.toml", &[], &read).unwrap_or_else(|report| panic!("{report}"));
        assert!(scenario.plan_unless(None, &|| false).is_ok());
        let told = scenario.plan_unless(None, &|| true).unwrap_err().to_string();
        assert!(told.contains("traffic.some: planning was cancelled"), "{traffic}: {told}");
    }
}

/// Ctrl-C is heard as soon as the next round of three workers.
#[test]
fn planning_asks_whether_to_go_on_in_every_round() {
    for traffic in TRAFFIC {
        let more = [
            ("senders = 3", "senders = 3\nrepetitions = 1000\ninterval = \"1us\""),
            ("rounds = 2", "rounds = 1000"),
            ("jobs = 3", "jobs = 1000"),
            ("flows = 3", "flows = 1000"),
        ];
        let traffic = more.iter().fold(traffic.to_owned(), |text, (few, many)| text.replace(few, many));
        let text = format!("{STAR}[traffic.some]\n{traffic}");
        let trace = format!("1000\n{}", "0 1 3 100 1000 0.1\n".repeat(1000));
        let read = |_: &str| Ok(trace.clone());
        let scenario = Scenario::parse_with(&text, "c.toml", &[], &read).unwrap_or_else(|report| panic!("{report}"));
        let asked = Cell::new(0);
        let ask = |limit| {
            asked.set(asked.get() + 1);
            asked.get() > limit
        };
        let plan = scenario.plan_unless(None, &|| ask(u64::MAX)).unwrap_or_else(|report| panic!("{report}"));
        let requested = plan.aggregators.iter().flat_map(|one| &one.rounds).map(|round| round.responses.len());
        let messages = plan.sends.len() + requested.sum::<usize>();
        assert!(3 * asked.get() >= messages as u64, "{traffic}: {} looks, {messages} messages", asked.get());
        // And it listens to every answer.
        asked.set(0);
        assert!(scenario.plan_unless(None, &|| ask(1)).is_err(), "{traffic}");
        assert_eq!(asked.get(), 2, "{traffic}");
    }
}

#[test]
fn more_messages_than_memory_has_room_for_are_refused_with_the_number() {
    let text = format!("{STAR}[traffic.some]\n{}\nrepetitions = 1000000\ninterval = \"1ms\"", TRAFFIC[0]);
    let scenario = Scenario::parse(&text, "c.toml", &[]).unwrap();
    assert!(scenario.fits(1 << 30).is_ok());
    let told = scenario.fits(300_000_000).unwrap_err().to_string();
    let expected =
        "the 3000000 messages, written out, do not fit into the memory that is left; allowed: at most 2000000";
    assert!(told.contains(expected), "{told}");
}
