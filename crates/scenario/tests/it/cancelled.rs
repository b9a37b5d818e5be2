//! A plan that nobody wants any more is not written to its end, whatever its traffic.

use std::sync::atomic::AtomicBool;

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
        assert!(scenario.plan_unless(None, &AtomicBool::new(false)).is_ok());
        let told = scenario.plan_unless(None, &AtomicBool::new(true)).unwrap_err().to_string();
        assert!(told.contains("traffic.some: planning was cancelled"), "{traffic}: {told}");
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
