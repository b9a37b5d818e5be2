//! A scenario finds its world, and what that world cannot honour is told at its place in the file.

use incast::{Job, Scenario};

const STAR: &str = "[topology]
kind = \"star\"
hosts = 3
link = { rate = \"1Gbps\", delay = \"1us\" }
[switch]
buffer = { name = \"static\", limit = \"9packets\", count_in_service = true }
[traffic.a]
kind = \"incast\"
senders = 2
size = \"1KB\"
";

fn job(text: &str, world: Option<&str>) -> Result<String, String> {
    let scenario = Scenario::parse(&format!("{STAR}{text}"), "s.toml", &[]).unwrap();
    Job::new(&scenario, None, world).map(|job| job.world.name().to_owned()).map_err(|report| report.to_string())
}

#[test]
fn the_world_is_the_one_named_or_the_scenarios_own_or_that_of_packets() {
    assert_eq!(job("", None), Ok("packets".into()));
    assert_eq!(job("[run]\nworld = \"ideal\"", None), Ok("ideal".into()));
    assert_eq!(job("[run]\nworld = \"ideal\"", Some("packets")), Ok("packets".into()));
}

#[test]
fn a_world_that_nobody_knows_is_told_with_those_that_are_known() {
    let told = job("[run]\nworld = \"fluid\"", None).unwrap_err();
    assert_eq!(told, "s.toml:12:9: run.world: unknown world \"fluid\"; allowed: \"packets\", \"ideal\", \"linux\"");
    let told = job("", Some("fluid")).unwrap_err();
    assert!(told.contains("unknown world \"fluid\"; allowed: \"packets\", \"ideal\", \"linux\""), "{told}");
}

#[test]
fn all_that_a_world_cannot_honour_is_told_at_once_and_at_its_place() {
    let text = "[record]\nevents = true\nqueue_series = [\"all\"]";
    assert_eq!(job(text, None), Ok("packets".into()));
    let told = job(text, Some("ideal")).unwrap_err();
    assert!(told.contains("s.toml:12:10: record.events: the ideal world has no packets"), "{told}");
    assert!(told.contains("s.toml:13:16: record.queue_series: the ideal world has no queues"), "{told}");
}
