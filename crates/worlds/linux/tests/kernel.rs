//! Real runs on this machine's kernel. Without the rights they are left out, loudly, unless `INCAST_KERNEL_TESTS=required`.

#![cfg(target_os = "linux")]

use incast_linux::Linux;
use incast_plan::Plan;
use incast_record::{Outcome, Run};
use incast_scenario::{Override, Scenario};
use incast_world::{Control, World};

fn plan(changes: &[&str]) -> Plan {
    let text = incast_scenario::example("linux").unwrap();
    let changes: Vec<_> = changes.iter().map(|change| Override::parse(change).unwrap()).collect();
    let scenario = Scenario::parse(text, "linux.toml", &changes).unwrap();
    scenario.plan(None).unwrap()
}

/// What the kernel saw; nothing if this machine cannot run it.
fn run(changes: &[&str]) -> Option<Run> {
    let plan = plan(changes);
    let refusals = Linux.refusals(&plan);
    let rights = refusals.iter().filter(|refusal| refusal.key == ["run", "world"]).collect::<Vec<_>>();
    if !rights.is_empty() {
        let required = std::env::var_os("INCAST_KERNEL_TESTS").is_some_and(|value| value == "required");
        assert!(!required, "the kernel tests are required: {rights:?}");
        eprintln!("LEFT OUT: tests on the kernel: {}", rights[0]);
        return None;
    }
    assert_eq!(refusals, []);
    Some(Linux.run(&plan, &Control::default()).unwrap())
}

/// What is refused of the traffic, with or without the rights to run it.
fn refused_traffic(changes: &[&str]) -> Vec<String> {
    let refusals = Linux.refusals(&plan(changes));
    refusals.iter().filter(|refusal| refusal.key == ["traffic"]).map(ToString::to_string).collect()
}

#[test]
fn a_window_cannot_begin_anew_but_the_first_message_finds_a_fresh_one() {
    let again = refused_traffic(&["traffic.requests.window=\"fresh\"", "traffic.requests.rounds=2"]);
    assert!(again.len() == 1 && again[0].contains("window = \"fresh\" is not possible on Linux"), "{again:?}");
    let once = ["traffic.requests.window=\"fresh\"", "traffic.requests.rounds=1"];
    assert_eq!(refused_traffic(&once), Vec::<String>::new());
}

#[test]
fn credit_closes_no_window_and_has_a_budget_that_is_stated() {
    let refused = |receiver: &str| -> Vec<String> {
        let refusals = Linux.refusals(&plan(&[receiver]));
        refusals.iter().filter(|one| one.key == ["stack", "receiver"]).map(ToString::to_string).collect()
    };
    let [closes, budget] = &refused("stack.receiver=\"credit\"")[..] else { panic!() };
    assert!(closes.contains("closes is true; allowed: false") && budget.contains("budget has to be stated"));
    let open = "stack.receiver={ name = \"credit\", closes = false, budget = \"48KiB\" }";
    assert_eq!(refused(open), Vec::<String>::new());
}

#[test]
fn rounds_complete_and_every_packet_is_accounted_for() {
    let Some(run) = run(&["traffic.requests.workers=4", "topology.right=4", "traffic.requests.rounds=5"]) else {
        return;
    };
    assert_eq!(run.outcome, Outcome::Complete);
    assert_eq!(run.flows.len(), 20);
    let mut last = 0;
    for round in 0..5 {
        let of_round: Vec<_> = run.flows.iter().filter(|flow| flow.round == round).collect();
        let end = of_round.iter().map(|flow| flow.end.unwrap().0).max().unwrap();
        assert!(of_round.iter().all(|flow| flow.begin.0 >= last && flow.start >= flow.begin), "round {round}");
        // 4 x 64 KiB at 100 Mbit/s is 21.7 ms with headers.
        assert!(end - of_round[0].begin.0 > 21_000_000_000, "faster than the port");
        last = end;
    }
    assert!(run.flows.iter().all(|flow| Some(flow.delivered) == flow.size));
    let totals = run.totals;
    assert_eq!(totals.sent, totals.delivered + totals.dropped + totals.in_network);
    assert!(totals.sent > 20 * 46 && totals.in_network <= 4, "{totals:?}");
    let machine = run.machine.unwrap();
    assert!(machine.rate_error.abs() < 0.01 && machine.round_trip_median.0 > 0);
}
