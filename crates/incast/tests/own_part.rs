//! A part from outside the tree is chosen, checked and run by its name like any other.

#[path = "../../python/examples/own_part/fixed_window.rs"]
mod fixed_window;

use std::sync::Once;

use incast::protocols::sender::SenderChoice;
use incast::scenario::custom;
use incast::{Control, Job, Scenario};

const STAR: &str = "[topology]
kind = \"star\"
hosts = 3
link = { rate = \"1Gbps\", delay = \"25us\" }
[switch]
buffer = { name = \"static\", limit = \"100packets\", count_in_service = true }
[traffic.a]
kind = \"incast\"
senders = 1
size = \"1460000B\"
[tcp]
profile = \"paper\"
[stack]
";

fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| custom::register_sender::<fixed_window::FixedWindow>("fixed-window").unwrap());
}

fn scenario(stack: &str) -> Result<Scenario, String> {
    register();
    let hosts = "[hosts]\nnoise = { kind = \"none\" }";
    Scenario::parse(&format!("{STAR}{stack}\n{hosts}"), "s.toml", &[]).map_err(|report| report.to_string())
}

/// Completion time of a message of 1,000 segments.
fn seconds(stack: &str) -> f64 {
    let job = Job::new(&scenario(stack).unwrap(), None, None).unwrap();
    let run = job.world.run(&job.plan, &Control::default()).unwrap();
    run.flows[0].completion_time().unwrap().as_secs_f64()
}

/// A round trip takes 100 us on wires, a full packet 12 us for each of two hops, an ACK 0.32 us: with one segment in flight
/// each costs 124.64 us, with two half of that.
#[test]
fn its_parameters_decide_what_it_does() {
    let one = seconds("sender = { name = \"fixed-window\", segments = 1 }");
    let two = seconds("sender = { name = \"fixed-window\", segments = 2 }");
    assert!((one / 0.124_64 - 1.0).abs() < 0.002, "{one}");
    assert!((two / (0.124_64 / 2.0) - 1.0).abs() < 0.002, "{two}");
    assert!(seconds("sender = \"fixed-window\"") < two, "ten by default");
}

#[test]
fn a_mistake_in_its_parameters_is_told_at_its_place() {
    let told = scenario("sender = { name = \"fixed-window\", segment = 1 }").unwrap_err();
    assert!(told.contains("s.toml:14:35: stack.sender.segment: unknown key \"segment\""), "{told}");
    let told = scenario("sender = { name = \"fixed-window\", segments = 0 }").unwrap_err();
    assert!(told.contains("s.toml:14:46: stack.sender.segments:") && told.contains("1 to 10000"), "{told}");
    let told = scenario("sender = \"fixed-windows\"").unwrap_err();
    assert!(told.contains("fixed-window"), "{told}");
}

#[test]
fn a_name_is_given_once() {
    register();
    for name in ["fixed-window", "dctcp"] {
        let told = custom::register_sender::<fixed_window::FixedWindow>(name).unwrap_err();
        assert_eq!(told, format!("there is a sender named \"{name}\" already"));
    }
    assert_eq!(custom::registered().iter().map(|info| info.name).collect::<Vec<_>>(), ["fixed-window"]);
    let schema: serde_json::Value = serde_json::from_str(&incast::scenario::schema::json()).unwrap();
    let names = schema.pointer("/definitions/SenderChoiceByName/anyOf/0/oneOf").unwrap().as_array().unwrap();
    assert_eq!(names.len(), SenderChoice::ALL.len() + 1);
}
