//! Real runs on this machine's kernel. Without the rights they are left out, loudly, unless `INCAST_KERNEL_TESTS=required`.
//! They ask whether the kernel does what was planned, which it does on a busy machine, too (`INCAST_LINUX_BUSY=warn`).

#![cfg(target_os = "linux")]

use incast_linux::Linux;
use incast_plan::Plan;
use incast_protocols::Duration;
use incast_record::{Outcome, PacketSample, Run};
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
    carry_out(&plan(changes))
}

fn carry_out(plan: &Plan) -> Option<Run> {
    let refusals = Linux.refusals(plan);
    let rights = refusals.iter().filter(|refusal| refusal.key == ["run", "world"]).collect::<Vec<_>>();
    if !rights.is_empty() {
        let required = std::env::var_os("INCAST_KERNEL_TESTS").is_some_and(|value| value == "required");
        assert!(!required, "the kernel tests are required: {rights:?}");
        eprintln!("LEFT OUT: tests on the kernel: {}", rights[0]);
        return None;
    }
    assert_eq!(refusals, []);
    Some(Linux.run(plan, &Control::default()).unwrap())
}

/// Whether the run is no measurement, and was only kept.
fn was_busy(run: &Run) -> bool {
    run.warnings[0].starts_with("this machine was too busy")
}

/// What is refused of the traffic, with or without the rights to run it.
fn refused_traffic(changes: &[&str]) -> Vec<String> {
    let refusals = Linux.refusals(&plan(changes));
    refusals.iter().filter(|refusal| refusal.key == ["traffic"]).map(ToString::to_string).collect()
}

/// Hosts around one switch, each behind 100 Mbit/s.
const STAR: &str = r#"
[topology]
kind = "star"
hosts = 5
link = { rate = "100Mbps", delay = "1us" }
"#;
/// Two racks of four hosts, between which there are two ways.
const LEAF_SPINE: &str = r#"
[topology]
kind = "leaf-spine"
leaves = 2
hosts_per_leaf = 4
spines = 2
host_link = { rate = "100Mbps", delay = "1us" }
fabric_link = { rate = "100Mbps", delay = "1us" }
"#;
const OTHERWISE_AS_THE_EXAMPLE: &str = r#"
name = "traffic on Linux"
seed = 3
[switch]
buffer = { name = "static", limit = "64KiB", count_in_service = true }
[stack]
sender = "newreno"
[tcp]
profile = "linux"
timer_tick = "4ms"
receive_buffer = "4MiB"
delayed_ack = { every = 2, timeout = "40ms", quick = 16, quick_again = true, below_rto_min = true, growth = "1088KiB" }
"#;

/// A scenario whose only class of traffic has these keys.
fn of_traffic(topology: &str, more: &str, traffic: &str) -> Plan {
    of_trace(topology, more, traffic, "")
}

/// The same; every file that it names has this text.
fn of_trace(topology: &str, more: &str, traffic: &str, file: &str) -> Plan {
    let text = format!("{OTHERWISE_AS_THE_EXAMPLE}{topology}{more}[traffic.messages]\n{traffic}");
    let read = |_: &str| Ok(file.to_owned());
    Scenario::parse_with(&text, "traffic.toml", &[], &read).unwrap().plan(None).unwrap()
}

/// Of complete messages: when each began in milliseconds, in the order of begin, and its bytes.
fn messages(run: &Run) -> Vec<(u64, u64)> {
    assert_eq!(run.outcome, Outcome::Complete);
    assert!(run.flows.iter().all(|flow| flow.end.is_some() && Some(flow.delivered) == flow.size));
    let mut found: Vec<_> = run.flows.iter().map(|flow| (flow.begin.0 / 1_000_000_000, flow.delivered.0)).collect();
    found.sort_unstable();
    found
}

#[test]
fn bursts_come_when_they_are_due() {
    for connections in ["persistent", "fresh"] {
        let traffic = format!(
            "kind = \"incast\"\nsenders = 4\nsize = \"8KiB\"\nrepetitions = 3\ninterval = \"50ms\"\nconnections = \"{connections}\"\n"
        );
        let Some(run) = carry_out(&of_traffic(STAR, "", &traffic)) else { return };
        let bursts = [0, 50, 100].iter().flat_map(|&begin| [(begin, 8192); 4]).collect::<Vec<_>>();
        assert_eq!(messages(&run), bursts, "{connections}");
        // 32 KiB need 2.6 ms at 100 Mbit/s; nobody starts before it is due, and a machine may be late.
        assert!(run.flows.iter().all(|flow| flow.start >= flow.begin && flow.start.0 - flow.begin.0 < 40_000_000_000));
    }
}

#[test]
fn long_flows_share_a_port_until_the_run_is_stopped() {
    let more = "[run]\nstop_at = \"1s\"\n";
    let Some(run) = carry_out(&of_traffic(STAR, more, "kind = \"long\"\nsenders = [1, 2]\n")) else { return };
    assert_eq!((run.outcome, run.flows.len()), (Outcome::TimeUp, 2));
    // A second of 100 Mbit/s is 12.5 MB, with headers. A busy machine promises neither that nor a fair share. On no machine does a
    // flow send while it waits for a timer, for 200 and 400 ms at first.
    let (each, all) = if was_busy(&run) { (0, 2_500_000) } else { (100_000, 7_500_000) };
    assert!(run.flows.iter().all(|flow| flow.end.is_none() && flow.size.is_none() && flow.delivered.0 > each));
    let delivered: u64 = run.flows.iter().map(|flow| flow.delivered.0).sum();
    assert!((all..12_500_000).contains(&delivered), "{delivered} bytes");
}

#[test]
fn random_messages_are_those_of_the_plan() {
    let traffic = "kind = \"poisson\"\nrate_per_s = 300\nflows = 30\nsizes = { kind = \"uniform\", min = \"1KB\", max = \"20KB\" }\n";
    let plan = of_traffic(STAR, "", traffic);
    let mut wanted: Vec<_> =
        plan.sends.iter().map(|send| (send.start.0 / 1_000_000_000, send.size().unwrap().0)).collect();
    wanted.sort_unstable();
    let Some(run) = carry_out(&plan) else { return };
    assert_eq!((messages(&run), run.flows.len()), (wanted, 30));
}

#[test]
fn a_trace_is_played_between_racks_over_every_way() {
    // From each host of the first rack to each of the second, which the kernel's hash spreads over two ways.
    let pairs = (0..4).flat_map(|from| (4..8).map(move |to| (from, to)));
    let lines: Vec<_> = (0_u32..)
        .zip(pairs)
        .map(|(number, (from, to))| format!("{from} {to} 3 100 {} 0.{:03}", 20_000 + number, 2 * number))
        .collect();
    let file = format!("{}\n{}\n", lines.len(), lines.join("\n"));
    let plan = of_trace(LEAF_SPINE, "", "kind = \"trace\"\nfile = \"trace.txt\"\n", &file);
    let Some(run) = carry_out(&plan) else { return };
    let wanted: Vec<_> = (0..16).map(|number| (2 * number, 20_000 + number)).collect();
    assert_eq!(messages(&run), wanted);
    let ways: Vec<_> = run.ports.iter().filter(|port| port.from == "leaf 0" && port.to.starts_with("spine")).collect();
    let carried: u64 = ways.iter().map(|port| port.bytes.0).sum();
    assert_eq!(ways.len(), 2);
    assert!(ways.iter().all(|port| port.packets > 15), "{ways:?}");
    assert!(carried > 16 * 20_000);
}

#[test]
fn a_job_forks_to_some_workers_and_joins_their_responses() {
    let traffic = "kind = \"fork-join\"\nschedulers = [0]\nfan_in = 3\nsizes = { kind = \"constant\", size = \"10KB\" }\n\
                   jobs = 5\njobs_per_s = 50\ntask_time = \"2ms\"\n";
    let Some(run) = carry_out(&of_traffic(STAR, "", traffic)) else { return };
    assert_eq!(messages(&run).iter().map(|(_, size)| size).collect::<Vec<_>>(), [&10_000; 15]);
    let mut jobs: Vec<_> = run.flows.iter().map(|flow| flow.coflow).collect();
    jobs.sort_unstable();
    jobs.dedup();
    assert_eq!(jobs.len(), 5);
    // The time of the task, and 30 KB at 100 Mbit/s.
    assert!(run.flows.iter().all(|flow| flow.end.unwrap().0 - flow.begin.0 > 2_000_000_000));
}

#[test]
fn schedulers_hold_requests_back() {
    for (application, most) in [("{ name = \"fixed-window\", outstanding = 3 }", 3), ("\"ars\"", 8)] {
        let application = format!("stack.application={application}");
        let changes = ["traffic.requests.rounds=3", "traffic.requests.jitter=\"0s\"", &application];
        let Some(run) = run(&changes) else { return };
        assert_eq!((run.outcome, run.flows.len()), (Outcome::Complete, 48));
        // A response may begin as soon as its request has left: how many are under way at the start of each.
        let under_way = run.flows.iter().map(|one| {
            let at = one.start;
            run.flows.iter().filter(|other| other.start <= at && other.end.unwrap() > at).count()
        });
        let found = under_way.max().unwrap();
        assert!((2..=most).contains(&found), "{application}: {found}");
    }
}

#[test]
fn statistics_of_queues_come_from_looks_at_them() {
    let few = ["traffic.requests.rounds=3", "traffic.requests.workers=8"];
    let Some(run) = run(&few) else { return };
    let (port, others): (Vec<_>, Vec<_>) =
        run.ports.iter().partition(|port| (port.from.as_str(), port.to.as_str()) == ("right", "left"));
    let statistics = port[0].queue.as_ref().unwrap();
    // Those of one packet are not there, and a link without a limit has no queue.
    assert!(statistics.found_at_enqueue.is_empty() && statistics.changes_to.is_empty());
    assert!(others.iter().filter(|port| port.rate > port_rate()).all(|port| port.queue.is_none()));
    assert_eq!(statistics.time_at.iter().sum::<u64>(), statistics.observed.0);
    assert!(statistics.observed.0 <= run.end.0 + 10_000_000_000);
    assert_eq!(statistics.time_at.len(), port[0].max_waiting as usize + 1);
    // Eight responses of 64 KiB at once in a buffer of 64 KiB: it is more than half full for some of the time.
    let full: u64 = statistics.time_at.iter().skip(22).sum();
    assert!(full > statistics.observed.0 / 20, "{statistics:?}");
    assert_eq!(carry_out(&plan(&[few[0], few[1], "record.queue_statistics=false"])).unwrap().ports[0].queue, None);
}

/// Of the core of the example.
const fn port_rate() -> incast_protocols::Rate {
    incast_protocols::Rate(100_000_000)
}

#[test]
fn packets_are_told_of_one_by_one_and_make_incasts() {
    let Some(run) = run(&[
        "traffic.requests.rounds=2",
        "record.packets=[\"right->left\", \"left->right\"]",
        "record.incasts=[\"right->left\"]",
    ]) else {
        return;
    };
    let packets: Vec<PacketSample> = run.packets.iter().collect();
    let port = run.ports.iter().max_by_key(|port| port.drops).unwrap();
    let data: Vec<_> = packets.iter().filter(|packet| packet.link == port.link).collect();
    let dropped = data.iter().filter(|packet| packet.dropped).count() as u64;
    assert_eq!((dropped, data.len() as u64), (port.drops, port.drops + port.packets));
    assert!(data.iter().all(|packet| packet.dropped == packet.wait.is_none()));
    // 64 KiB wait at most, at 100 Mbit/s.
    let waits = data.iter().filter_map(|packet| packet.wait);
    assert!(waits.clone().all(|wait| wait < Duration::from_ms(15)), "{:?}", waits.max());
    assert!(packets.is_sorted_by_key(|packet| (packet.arrive, packet.link)));
    // Each response is there, to its last byte, and what came twice has a number that says so.
    for connection in 0..16 {
        let of_it = data.iter().filter(|packet| packet.connection == connection && packet.payload > 0);
        let ends: Vec<u64> = of_it.map(|packet| packet.offset + packet.payload().0).collect();
        assert_eq!(ends.iter().max(), Some(&(2 * 65_536)), "{connection}");
    }
    let again = data.iter().filter(|packet| packet.number > 1).count() as u64;
    assert!(again > 0 && again <= run.flows.iter().map(|flow| u64::from(flow.losses.retransmitted_packets)).sum());
    // The last ACK is of the FIN. Windows are as the other end scales them, and blocks are of data that was ahead of a gap.
    let acks: Vec<_> = packets.iter().filter(|packet| packet.link != port.link).collect();
    assert!(acks.iter().all(|packet| packet.from_client && packet.ack <= 2 * 65_536 + 1));
    assert!(acks.iter().any(|packet| packet.window > 65_535));
    let blocks: Vec<&str> = acks.iter().filter_map(|packet| packet.sack.as_deref()).collect();
    let mut edges = blocks.iter().flat_map(|text| text.split([' ', '-']));
    assert!(!blocks.is_empty() && edges.all(|edge| edge.parse::<u64>().is_ok_and(|edge| edge <= 2 * 65_536)));
    // Sixteen responses at once are one incast at least.
    assert!(run.incasts.iter().any(|incast| incast.hosts == 16 && incast.drops > 0), "{:?}", run.incasts);
    assert!(run.events.is_empty(), "nobody has asked for them");
}

#[test]
fn a_window_cannot_begin_anew_but_the_first_message_finds_a_fresh_one() {
    let again = refused_traffic(&["traffic.requests.window=\"fresh\"", "traffic.requests.rounds=2"]);
    assert!(again.len() == 1 && again[0].contains("window = \"fresh\" is not possible on Linux"), "{again:?}");
    let once = ["traffic.requests.window=\"fresh\"", "traffic.requests.rounds=1"];
    assert_eq!(refused_traffic(&once), Vec::<String>::new());
}

#[test]
fn credit_has_a_budget_that_is_stated_and_gives_nobody_up() {
    let refused = |receiver: &str| -> Vec<String> {
        let refusals = Linux.refusals(&plan(&[receiver]));
        refusals.iter().filter(|one| one.key == ["stack", "receiver"]).map(ToString::to_string).collect()
    };
    let [budget] = &refused("stack.receiver=\"credit\"")[..] else { panic!() };
    assert!(budget.contains("budget has to be stated"));
    let [gives_up] = &refused("stack.receiver={ name = \"credit\", gives_up = true, budget = \"48KiB\" }")[..] else {
        panic!()
    };
    assert!(gives_up.contains("gives_up is true; allowed: false"));
    for closes in ["true", "false"] {
        let one = format!("stack.receiver={{ name = \"credit\", closes = {closes}, budget = \"48KiB\" }}");
        assert_eq!(refused(&one), Vec::<String>::new());
    }
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
    let busy = was_busy(&run);
    let machine = run.machine.unwrap();
    assert!(machine.round_trip_median.0 > 0);
    assert!(machine.rate_error.abs() < 0.01 || busy, "{machine:?}");
}
