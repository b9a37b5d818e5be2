//! Plans of scenarios are whole; what a hand breaks is found out.

use incast_plan::{Node, Plan};
use incast_protocols::Time;
use incast_scenario::{Scenario, example};

fn broken(change: impl FnOnce(&mut Plan)) -> String {
    let mut plan = Scenario::parse(example("incast").unwrap(), "f", &[]).unwrap().plan(None).unwrap();
    assert_eq!(plan.validate(), Ok(()));
    change(&mut plan);
    plan.validate().unwrap_err()
}

#[test]
fn a_plan_that_points_nowhere_is_found_out() {
    assert_eq!(broken(|plan| plan.connections[3].server = 101), "connection 3 has an unknown host");
    assert_eq!(broken(|plan| plan.connections[3].server = 0), "connection 3 has one end only");
    assert_eq!(broken(|plan| plan.aggregators[0].host = 5), "aggregator 0 is not the client of 0");
    assert_eq!(broken(|plan| plan.record.queue_series.push(202)), "an unknown link is recorded");
    assert_eq!(broken(|plan| plan.record.incasts.push(202)), "an unknown link is recorded");
    assert_eq!(
        broken(|plan| plan.network.links[0].from = Node::Host(1)),
        "host 0 does not have one link out and one in"
    );
    let port = "link 1 is a switch port without a buffer, or a host port with one";
    assert_eq!(broken(|plan| plan.network.links[1].port = None), port);
}

#[test]
fn sends_out_of_order_are_found_out() {
    let mut plan = Scenario::parse(example("dumbbell").unwrap(), "f", &[]).unwrap().plan(None).unwrap();
    assert_eq!(plan.validate(), Ok(()));
    plan.sends[0].start = Time(u64::MAX);
    assert_eq!(plan.validate(), Err("sends are not in the order of their starts".into()));
}
