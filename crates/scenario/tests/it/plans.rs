//! Small scenarios written out, as text that people can check by hand.

use std::collections::BTreeMap;
use std::fmt::Write;

use incast_plan::{End, HostNoise, Node, Noise, NoisePer, Plan};
use incast_protocols::Duration;
use incast_scenario::{Override, Scenario};

const STAR: &str = r#"
name = "small"
[topology]
kind = "star"
hosts = 4
link = { rate = "1Gbps", delay = "25us" }
[switch]
buffer = { name = "static", limit = "64KiB", count_in_service = true }
"#;

fn plan_of(head: &str, rest: &str) -> Plan {
    let scenario = Scenario::parse(&format!("{head}{rest}"), "small.toml", &[]);
    scenario.unwrap_or_else(|report| panic!("{report}")).plan(None).unwrap()
}

fn node(node: Node, plan: &Plan) -> String {
    match node {
        Node::Host(host) => format!("host {host}"),
        Node::Switch(switch) => plan.network.switches[switch as usize].name.clone(),
    }
}

fn links(plan: &Plan) -> String {
    let mut text = String::new();
    for (index, link) in plan.network.links.iter().enumerate() {
        write!(text, "{index}: {} -> {} {} {}", node(link.from, plan), node(link.to, plan), link.rate, link.delay)
            .unwrap();
        if let Some(port) = &link.port {
            write!(text, ", buffer {}, marker {}", port.buffer, port.marker.info().name).unwrap();
        }
        if link.loss > 0.0 {
            write!(text, ", loses {}", link.loss).unwrap();
        }
        if let Some(reorder) = link.reorder {
            write!(text, ", delays {} by {}", reorder.probability, reorder.extra).unwrap();
        }
        text.push('\n');
    }
    text
}

fn sends(plan: &Plan) -> String {
    let mut text = String::new();
    for (index, one) in plan.connections.iter().enumerate() {
        let class = &plan.classes[one.class as usize].name;
        let (handshake, window) = (one.handshake, one.window_per_message);
        let closes = if one.close_when_done { "closes" } else { "stays open" };
        writeln!(text, "{index}: {} -> {} of {class}, {handshake:?}, {window:?}, {closes}", one.client, one.server)
            .unwrap();
    }
    for send in &plan.sends {
        let size = send.size().map_or_else(|| "endless".to_owned(), |size| size.to_string());
        assert_eq!(send.from, End::Client);
        write!(text, "{} on {} {size} round {}", send.start, send.connection, send.round).unwrap();
        if let Some(deadline) = send.message().deadline {
            write!(text, " until {deadline}").unwrap();
        }
        if let Some(coflow) = send.message().coflow {
            write!(text, " coflow {}", coflow.0).unwrap();
        }
        text.push('\n');
    }
    text
}

fn rounds(plan: &Plan) -> String {
    let mut text = String::new();
    for one in &plan.aggregators {
        let (host, start, request, buffer) = (one.host, one.start, one.request, one.last_port_buffer);
        writeln!(text, "host {host} asks {:?} from {start} with {request}, buffer {buffer}", one.workers).unwrap();
        for round in &one.rounds {
            let responses = round.responses.iter().map(|response| {
                let message = &response.message;
                let (size, deadline, coflow) =
                    (message.size.unwrap(), message.deadline.unwrap_or_default(), message.coflow.unwrap().0);
                let (jitter, service) = (response.jitter, response.service_time);
                format!("[{size} until {deadline} coflow {coflow}, asked +{jitter}, takes {service}]")
            });
            writeln!(text, "{}", responses.collect::<Vec<_>>().join(" ")).unwrap();
        }
    }
    text
}

#[test]
fn a_star_has_two_links_per_host() {
    let plan = plan_of(STAR, "[traffic.a]\nkind = \"incast\"\nsenders = 1\nsize = \"1B\"\n");
    insta::assert_snapshot!(links(&plan), @r#"
    0: host 0 -> switch 1Gbps 25us
    1: switch -> host 0 1Gbps 25us, buffer 0, marker none
    2: host 1 -> switch 1Gbps 25us
    3: switch -> host 1 1Gbps 25us, buffer 0, marker none
    4: host 2 -> switch 1Gbps 25us
    5: switch -> host 2 1Gbps 25us, buffer 0, marker none
    6: host 3 -> switch 1Gbps 25us
    7: switch -> host 3 1Gbps 25us, buffer 0, marker none
    "#);
}

#[test]
fn links_of_a_star_may_grow_longer_from_host_to_host() {
    let head = STAR.replace("hosts = 4", "hosts = 4\ndelay_step = \"137ps\"");
    let plan = plan_of(&head, "[traffic.a]\nkind = \"incast\"\nsenders = 1\nsize = \"1B\"\n");
    let delays: Vec<u64> = plan.network.links.iter().map(|link| link.delay.0).collect();
    let first = 25_000_000;
    assert_eq!(delays, [0, 0, 137, 137, 274, 274, 411, 411].map(|step| first + step));
}

#[test]
fn a_dumbbell_has_its_core_last() {
    let plan = plan_of(
        r#"
[topology]
kind = "dumbbell"
left = 2
right = 1
edge_link = { rate = "10Gbps", delay = "5us" }
core_link = { rate = "40Gbps", delay = "1ms", loss = 0.01, reorder = { probability = 0.5, extra = "3us" } }
[switch]
buffer = { name = "static", limit = "64KiB", count_in_service = true }
"#,
        "[traffic.a]\nkind = \"incast\"\nsenders = 1\nsize = \"1B\"\n[record]\nqueue_series = [\"bottlenecks\"]",
    );
    insta::assert_snapshot!(links(&plan), @r#"
    0: host 0 -> left 10Gbps 5us
    1: left -> host 0 10Gbps 5us, buffer 0, marker none
    2: host 1 -> left 10Gbps 5us
    3: left -> host 1 10Gbps 5us, buffer 0, marker none
    4: host 2 -> right 10Gbps 5us
    5: right -> host 2 10Gbps 5us, buffer 0, marker none
    6: left -> right 40Gbps 1ms, buffer 0, marker none, loses 0.01, delays 0.5 by 3us
    7: right -> left 40Gbps 1ms, buffer 0, marker none, loses 0.01, delays 0.5 by 3us
    "#);
    assert_eq!(plan.record.queue_series, [1, 6, 7]);
}

#[test]
fn a_leaf_spine_gives_each_kind_of_link_its_own_ports() {
    let plan = plan_of(
        r#"
[topology]
kind = "leaf-spine"
leaves = 2
hosts_per_leaf = 1
spines = 2
host_link = { rate = "10Gbps", delay = "5us" }
fabric_link = { rate = "40Gbps", delay = "1us", marker = "ecn-threshold", buffer = { name = "static", limit = "1MB", count_in_service = true } }
[switch]
buffer = { name = "static", limit = "64KiB", count_in_service = true }
"#,
        "[traffic.a]\nkind = \"incast\"\nsenders = 1\nsize = \"1B\"\n",
    );
    insta::assert_snapshot!(links(&plan), @r#"
    0: host 0 -> leaf 0 10Gbps 5us
    1: leaf 0 -> host 0 10Gbps 5us, buffer 0, marker none
    2: host 1 -> leaf 1 10Gbps 5us
    3: leaf 1 -> host 1 10Gbps 5us, buffer 0, marker none
    4: leaf 0 -> spine 0 40Gbps 1us, buffer 1, marker ecn-threshold
    5: spine 0 -> leaf 0 40Gbps 1us, buffer 0, marker ecn-threshold
    6: leaf 0 -> spine 1 40Gbps 1us, buffer 1, marker ecn-threshold
    7: spine 1 -> leaf 0 40Gbps 1us, buffer 0, marker ecn-threshold
    8: leaf 1 -> spine 0 40Gbps 1us, buffer 1, marker ecn-threshold
    9: spine 0 -> leaf 1 40Gbps 1us, buffer 0, marker ecn-threshold
    10: leaf 1 -> spine 1 40Gbps 1us, buffer 1, marker ecn-threshold
    11: spine 1 -> leaf 1 40Gbps 1us, buffer 0, marker ecn-threshold
    "#);
    let buffers: Vec<usize> = plan.network.switches.iter().map(|switch| switch.buffers.len()).collect();
    assert_eq!(buffers, [2, 2, 1, 1]);
}

const FAT_TREE: &str = r#"
[topology]
kind = "fat-tree"
ports = 4
host_link = { rate = "10Gbps", delay = "1us" }
fabric_link = { rate = "10Gbps", delay = "1us" }
core_link = { rate = "40Gbps", delay = "1us" }
[switch]
buffer = { name = "static", limit = "64KiB", count_in_service = true }
"#;

/// Of Al-Fares and others (SIGCOMM 2008): k = 4 has 16 hosts and 20 switches, and (k/2)² shortest paths between pods.
#[test]
fn a_fat_tree_is_the_one_of_the_paper() {
    let one = "[traffic.a]\nkind = \"incast\"\nsenders = 1\nsize = \"1B\"\n";
    let network = plan_of(FAT_TREE, one).network;
    assert_eq!((network.hosts, network.switches.len(), network.links.len()), (16, 20, 2 * 48));
    let ways = |from: u32, to: u32| {
        let (mut at, mut hops) = (BTreeMap::from([(Node::Host(from), 1)]), 0);
        while !at.contains_key(&Node::Host(to)) {
            let mut next = BTreeMap::new();
            for link in &network.links {
                if let Some(ways) = at.get(&link.from) {
                    *next.entry(link.to).or_insert(0) += ways;
                }
            }
            (at, hops) = (next, hops + 1);
        }
        (hops, at[&Node::Host(to)])
    };
    assert_eq!([ways(0, 1), ways(0, 2), ways(0, 4), ways(15, 3)], [(2, 1), (4, 2), (6, 4), (6, 4)]);
    // Every switch has four ports, and every core switch one to each pod.
    let mut ports: BTreeMap<Node, Vec<Node>> = BTreeMap::new();
    for link in &network.links {
        ports.entry(link.from).or_default().push(link.to);
    }
    for switch in 0..20 {
        assert_eq!(ports[&Node::Switch(switch)].len(), 4, "{switch}");
    }
    for core in 16..20 {
        let pods: Vec<u32> = ports[&Node::Switch(core)]
            .iter()
            .map(|node| if let Node::Switch(aggregation) = node { (aggregation - 8) / 2 } else { unreachable!() })
            .collect();
        assert_eq!(pods, [0, 1, 2, 3]);
    }
    assert_eq!(network.links.iter().filter(|link| link.rate.0 == 40_000_000_000).count(), 2 * 16);
    let wide = plan_of(&FAT_TREE.replace("ports = 4", "ports = 4\nhosts_per_edge = 6"), one).network;
    assert_eq!((wide.hosts, wide.links.len()), (48, 2 * 80));
}

/// 0.3 of what the named links carry together, from how many messages use them, counted by hand.
#[test]
fn a_load_may_be_a_share_of_links_by_name() {
    let rate = |head: &str, links: &str, pairs: &str| {
        let traffic = format!(
            "[traffic.p]\nkind = \"poisson\"\nload = 0.3\nreference = \"named-links\"\nlinks = {links}\npairs = \"{pairs}\"\n\
             sizes = {{ kind = \"constant\", size = \"10KB\" }}\nflows = 20000\n"
        );
        let plan = plan_of(head, &traffic);
        20_000.0 / plan.sends.last().unwrap().start.as_secs_f64() * 80_000.0 / 0.3
    };
    let near = |found: f64, bits: f64| assert!((found / bits - 1.0).abs() < 0.02, "{found} {bits}");
    // 12 of the 15 other hosts are in other pods; 16 links of 40 Gbit/s lead up.
    near(rate(FAT_TREE, "[\"aggregation *->core *\"]", "any"), 16.0 * 40e9 * 15.0 / 12.0);
    near(rate(FAT_TREE, "[\"core 0->aggregation 0\", \"core 1->aggregation 2\"]", "any"), 16.0 * 40e9 * 15.0 / 12.0);
    // Of messages to other racks all go up and down, and 12 of 14 to other pods.
    near(rate(FAT_TREE, "[\"edge *->aggregation *\", \"aggregation *->edge *\"]", "other-rack"), 32.0 * 10e9 / 2.0);
    near(rate(FAT_TREE, "[\"core *\"]", "other-rack"), 16.0 * 40e9 * 14.0 / 12.0);
    // A sixteenth of all messages comes from one host, and another goes to it.
    near(rate(FAT_TREE, "[\"host 3->edge 1\", \"edge 1->host 3\"]", "any"), 20e9 * 16.0 / 2.0);
}

#[test]
fn a_topology_of_hpcc_is_read_beside_the_scenario() {
    let text = "[topology]\nkind = \"hpcc\"\nfile = \"topology.txt\"\n[switch]\nbuffer = { name = \"static\", limit = \"64KiB\", \
                count_in_service = true }\n[tcp]\nprofile = \"linux\"\n[traffic.t]\nkind = \"trace\"\nfile = \"incast.cm\"\nformat = \"htsim\"\n";
    let read = |topology: &'static str| {
        let files = move |name: &str| match name {
            "topology.txt" => Ok(topology.to_owned()),
            "incast.cm" => {
                Ok("Nodes 3\nConnections 2\n1->0 id 1 start 0 size 5\n2->0 id 2 start 7 size 6\n".to_owned())
            }
            _ => Err(std::io::ErrorKind::NotFound.into()),
        };
        Scenario::parse_with(text, "s.toml", &[], &files).map(|scenario| scenario.plan(None).unwrap())
    };
    let plan =
        read("5 2 4\n3 4\n0 3 100Gbps 1000ns 0\n1 4 100Gbps 1us 0\n2 4 25Gbps 1us 0.01\n3 4 400Gbps 2us 0\n").unwrap();
    insta::assert_snapshot!(links(&plan), @r#"
    0: host 0 -> 3 100Gbps 1us
    1: 3 -> host 0 100Gbps 1us, buffer 0, marker none
    2: host 1 -> 4 100Gbps 1us
    3: 4 -> host 1 100Gbps 1us, buffer 0, marker none
    4: host 2 -> 4 25Gbps 1us, loses 0.01
    5: 4 -> host 2 25Gbps 1us, buffer 0, marker none, loses 0.01
    6: 3 -> 4 400Gbps 2us, buffer 0, marker none
    7: 4 -> 3 400Gbps 2us, buffer 0, marker none
    "#);
    let sends: Vec<(u64, u64)> = plan.sends.iter().map(|send| (send.start.0, send.size().unwrap().0)).collect();
    assert_eq!(sends, [(0, 5), (7, 6)]);
    let refused = |topology| read(topology).unwrap_err().to_string();
    insta::assert_snapshot!(
        [
            refused("5 2 4\n3 4\n0 3 100Gbps 1us 0\n1 4 100 1us 0\n"),
            refused("4 1 2\n3\n0 3 1Gbps 1us 0\n1 3 1Gbps 1us 0\n"),
            refused("5 2 3\n3 4\n0 3 1Gbps 1us 0\n1 4 1Gbps 1us 0\n2 4 1Gbps 1us 0\n"),
        ]
        .join("\n"),
        @r#"
        topology.txt:4:1: topology.file: rate: "100" has no unit; a rate is a number with one of the units bps, kbps, Mbps, Gbps, Tbps
        s.toml:3:8: topology.file: host "2" has 0 links out and 0 in; allowed: exactly one link, in both directions
        s.toml:3:8: topology.file: no path leads from "0" to "1"
        "#
    );
}

#[test]
fn one_direction_of_a_custom_link_can_differ() {
    let plan = plan_of(
        r#"
[topology]
kind = "custom"
hosts = ["a", "b"]
switches = ["s"]
links = [
  { from = "s", to = "b", rate = "100Mbps", delay = "1us" },
  { between = ["a", "s"], rate = "1Gbps", delay = "1us" },
  { between = ["s", "b"], rate = "1Gbps", delay = "1us" },
]
[switch]
buffer = { name = "static", limit = "64KiB", count_in_service = true }
"#,
        "[traffic.x]\nkind = \"incast\"\nsenders = [\"a\"]\nreceiver = \"b\"\nsize = \"1B\"\n[record]\nqueue_series = [\"s -> b\"]",
    );
    insta::assert_snapshot!(links(&plan), @r#"
    0: s -> host 1 100Mbps 1us, buffer 0, marker none
    1: host 0 -> s 1Gbps 1us
    2: s -> host 0 1Gbps 1us, buffer 0, marker none
    3: host 1 -> s 1Gbps 1us
    "#);
    assert_eq!(plan.record.queue_series, [0]);
}

#[test]
fn fresh_bursts_have_a_connection_per_message_and_a_split_total() {
    let plan = plan_of(
        STAR,
        "[traffic.burst]\nkind = \"incast\"\nsenders = 3\nreceiver = 1\ntotal = \"1001B\"\nstart = \"1ms\"\nrepetitions = 2\n\
         interval = \"1s\"\ndeadline = \"5ms\"\n",
    );
    insta::assert_snapshot!(sends(&plan), @r#"
    0: 0 -> 1 of burst, Counted, Fresh, closes
    1: 2 -> 1 of burst, Counted, Fresh, closes
    2: 3 -> 1 of burst, Counted, Fresh, closes
    3: 0 -> 1 of burst, Counted, Fresh, closes
    4: 2 -> 1 of burst, Counted, Fresh, closes
    5: 3 -> 1 of burst, Counted, Fresh, closes
    1ms on 0 334B round 0 until 6ms coflow 0
    1ms on 1 334B round 0 until 6ms coflow 0
    1ms on 2 333B round 0 until 6ms coflow 0
    1001ms on 3 334B round 1 until 1006ms coflow 1
    1001ms on 4 334B round 1 until 1006ms coflow 1
    1001ms on 5 333B round 1 until 1006ms coflow 1
    "#);
}

#[test]
fn persistent_bursts_share_connections_and_classes_keep_their_order() {
    let plan = plan_of(
        STAR,
        r#"
[traffic.zebra]
kind = "incast"
senders = [3, 1]
size = "10KB"
repetitions = 2
interval = "1ms"
connections = "persistent"
[traffic.ant]
kind = "long"
pairs = [[0, 2], [2, 3]]
[record]
window_series = ["ant", "zebra:1"]
packets_of = ["zebra"]
"#,
    );
    insta::assert_snapshot!(sends(&plan), @r#"
    0: 3 -> 0 of zebra, Before, RestartAfterIdle, stays open
    1: 1 -> 0 of zebra, Before, RestartAfterIdle, stays open
    2: 0 -> 2 of ant, Counted, Fresh, stays open
    3: 2 -> 3 of ant, Counted, Fresh, stays open
    0s on 0 10000B round 0 coflow 0
    0s on 1 10000B round 0 coflow 0
    0s on 2 endless round 0
    0s on 3 endless round 0
    1ms on 0 10000B round 1 coflow 1
    1ms on 1 10000B round 1 coflow 1
    "#);
    assert_eq!(plan.record.window_series, [1, 2, 3]);
    assert_eq!(plan.record.packets_of, [0, 1]);
    assert_eq!(plan.record.packets.len(), plan.network.links.len(), "at every port, if none is named");
}

#[test]
fn rounds_ask_every_worker_on_one_connection() {
    let plan = plan_of(
        STAR,
        r#"
[tcp]
handshake = "counted"
[traffic.r]
kind = "rounds"
workers = 2
aggregator = 3
block = "3B"
rounds = 2
start = "1us"
service_time = "7us"
deadline = "1ms"
window = "fresh"
"#,
    );
    insta::assert_snapshot!(sends(&plan), @r#"
    0: 3 -> 0 of r, Counted, Fresh, stays open
    1: 3 -> 1 of r, Counted, Fresh, stays open
    "#);
    insta::assert_snapshot!(rounds(&plan), @r#"
    host 3 asks [0, 1] from 1us with 64B, buffer 65536B
    [2B until 1ms coflow 0, asked +0s, takes 7us] [1B until 1ms coflow 0, asked +0s, takes 7us]
    [2B until 1ms coflow 1, asked +0s, takes 7us] [1B until 1ms coflow 1, asked +0s, takes 7us]
    "#);
}

#[test]
fn workers_may_answer_on_several_connections_and_be_late() {
    let plan = plan_of(
        STAR,
        r#"
[traffic.r]
kind = "rounds"
workers = [1, 3]
connections_per_worker = 2
block = "7B"
rounds = 2
service_time = { kind = "measured", times = ["1us", "2us"] }
stragglers = { workers = [3], factor = 10, delay = "1ms" }
[traffic.l]
kind = "rounds"
workers = 3
response = "1B"
rounds = 1
service_time = "5us"
stragglers = { workers = 1, delay = "1ms" }
"#,
    );
    insta::assert_snapshot!(sends(&plan), @"
    0: 0 -> 1 of r, Before, RestartAfterIdle, stays open
    1: 0 -> 3 of r, Before, RestartAfterIdle, stays open
    2: 0 -> 1 of r, Before, RestartAfterIdle, stays open
    3: 0 -> 3 of r, Before, RestartAfterIdle, stays open
    4: 0 -> 1 of l, Before, RestartAfterIdle, stays open
    5: 0 -> 2 of l, Before, RestartAfterIdle, stays open
    6: 0 -> 3 of l, Before, RestartAfterIdle, stays open
    ");
    insta::assert_snapshot!(rounds(&plan), @"
    host 0 asks [0, 1, 2, 3] from 0s with 64B, buffer 65536B
    [2B until 0s coflow 0, asked +0s, takes 1us] [2B until 0s coflow 0, asked +0s, takes 1.01ms] [2B until 0s coflow 0, asked +0s, takes 2us] [1B until 0s coflow 0, asked +0s, takes 1.02ms]
    [2B until 0s coflow 1, asked +0s, takes 1us] [2B until 0s coflow 1, asked +0s, takes 1.01ms] [2B until 0s coflow 1, asked +0s, takes 1us] [1B until 0s coflow 1, asked +0s, takes 1.01ms]
    host 0 asks [4, 5, 6] from 0s with 64B, buffer 65536B
    [1B until 0s coflow 2, asked +0s, takes 5us] [1B until 0s coflow 2, asked +0s, takes 5us] [1B until 0s coflow 2, asked +0s, takes 1.005ms]
    ");
}

#[test]
fn sizes_may_become_known_later() {
    let poisson = |more: &str| {
        let text = "[traffic.p]\nkind = \"poisson\"\nload = 0.5\nreference = \"host-links\"\nflows = 9\n\
                    sizes = { kind = \"constant\", size = \"1MB\" }\n";
        plan_of(STAR, &format!("{text}{more}"))
    };
    let late = poisson("size_known_after = \"30us\"");
    assert!(late.sends.iter().all(|send| send.size_known_at() == Some(send.start + Duration::from_us(30))));
    assert!(poisson("").sends.iter().all(|send| send.size_known_at().is_none()));
}

#[test]
fn random_traffic_is_pinned() {
    let plan = plan_of(
        STAR,
        r#"
[traffic.p]
kind = "poisson"
load = 0.5
reference = "host-links"
sizes = { kind = "uniform", min = "1KB", max = "2KB" }
flows = 4
[traffic.j]
kind = "incast"
senders = 2
size = "1B"
jitter = "10us"
[traffic.r]
kind = "rounds"
workers = 2
response = "1B"
rounds = 1
jitter = "1us"
service_time = { kind = "exponential", mean = "1ms" }
"#,
    );
    insta::assert_snapshot!(sends(&plan), @r#"
    0: 0 -> 1 of p, Counted, Fresh, closes
    1: 1 -> 3 of p, Counted, Fresh, closes
    2: 2 -> 1 of p, Counted, Fresh, closes
    3: 0 -> 3 of p, Counted, Fresh, closes
    4: 1 -> 0 of j, Counted, Fresh, closes
    5: 2 -> 0 of j, Counted, Fresh, closes
    6: 0 -> 1 of r, Before, RestartAfterIdle, stays open
    7: 0 -> 2 of r, Before, RestartAfterIdle, stays open
    112.791ns on 0 1935B round 0
    1.052473us on 4 1B round 0 coflow 0
    4.181968us on 5 1B round 0 coflow 0
    8.64281us on 1 1846B round 0
    8.835229us on 2 1597B round 0
    14.249861us on 3 1322B round 0
    "#);
    insta::assert_snapshot!(rounds(&plan), @r#"
    host 0 asks [6, 7] from 0s with 64B, buffer 65536B
    [1B until 0s coflow 1, asked +879.597ns, takes 195.657958us] [1B until 0s coflow 1, asked +197.322ns, takes 309.078074us]
    "#);
}

/// Incasts are looked for where EIN is marked, unless the scenario says where.
#[test]
fn ports_that_mark_incast_are_watched_by_default() {
    let watched = |more: &str| {
        let network = STAR.replace("[switch]", "[switch]\nmarker = \"ein\"");
        let plan = plan_of(&network, &format!("[traffic.a]\nkind = \"incast\"\nsenders = 3\nsize = \"1B\"\n{more}"));
        (plan.record.incasts.clone(), plan.watches_ein())
    };
    assert_eq!(watched(""), (vec![1, 3, 5, 7], true));
    assert_eq!(watched("[record]\nincasts = []\n"), (vec![], false));
    assert_eq!(watched("[record]\nincasts = [\"switch->host 2\"]\n"), (vec![5], true));
    let plan = plan_of(
        STAR,
        "[traffic.a]\nkind = \"long\"\nsenders = 1\n[record]\nincasts = [\"bottlenecks\"]\n[run]\nstop_at = \"1s\"\n",
    );
    assert_eq!((plan.record.incasts.as_slice(), plan.watches_ein()), (&[1][..], false));
    assert_eq!(
        plan_of(STAR, "[traffic.a]\nkind = \"incast\"\nsenders = 3\nsize = \"1B\"\n").record.incasts,
        [] as [u32; 0]
    );
}

/// At each arrival three hosts send to one; their messages are one coflow.
#[test]
fn random_incasts_have_as_many_senders_as_asked_for() {
    let plan = plan_of(
        STAR,
        r#"
[traffic.p]
kind = "poisson"
load = 0.5
share = 0.2
reference = "host-links"
sizes = { kind = "uniform", min = "1KB", max = "2KB" }
flows = 6
fan_in = 3
jitter = "100ns"
"#,
    );
    insta::assert_snapshot!(sends(&plan), @r#"
    0: 0 -> 1 of p, Counted, Fresh, closes
    1: 2 -> 1 of p, Counted, Fresh, closes
    2: 3 -> 1 of p, Counted, Fresh, closes
    3: 2 -> 1 of p, Counted, Fresh, closes
    4: 0 -> 1 of p, Counted, Fresh, closes
    5: 3 -> 1 of p, Counted, Fresh, closes
    1.723524us on 1 1846B round 0 coflow 0
    1.766361us on 0 1935B round 0 coflow 0
    1.778683us on 2 1597B round 0 coflow 0
    129.667862us on 4 1580B round 0 coflow 1
    129.668198us on 5 1683B round 0 coflow 1
    129.678037us on 3 1322B round 0 coflow 1
    "#);
}

/// A fifth of the load is a fifth of the messages per second, with any fan-in.
#[test]
fn fan_in_and_share_keep_what_is_offered() {
    let rate = |keys: &str| {
        let sizes = "sizes = { kind = \"constant\", size = \"1KB\" }\nreference = \"host-links\"\nflows = 6000\n";
        let plan = plan_of(STAR, &format!("[traffic.p]\nkind = \"poisson\"\n{sizes}{keys}"));
        6000.0 / plan.sends.last().unwrap().start.as_secs_f64()
    };
    let one = rate("load = 0.5");
    for (keys, times) in
        [("load = 0.5\nshare = 0.2", 0.2), ("load = 0.25\nfan_in = 3", 0.5), ("load = 0.1\nfan_in = 2", 0.2)]
    {
        assert!((rate(keys) / one / times - 1.0).abs() < 0.08, "{keys}: {} against {one}", rate(keys));
    }
}

#[test]
fn another_class_changes_nothing_about_the_draws_of_this_one() {
    let one = "[traffic.p]\nkind = \"poisson\"\nrate_per_s = 1e4\nsizes = { kind = \"cdf\", name = \"facebook-kv\" }\nflows = 50\n";
    let other = "[traffic.a]\nkind = \"incast\"\nsenders = 3\nsize = \"1B\"\njitter = \"1s\"\n";
    let alone = plan_of(STAR, one);
    let beside = plan_of(STAR, &format!("{other}{one}"));
    let of_class = |plan: &Plan, class: u32| -> Vec<_> {
        let mine = plan.sends.iter().filter(|send| plan.connections[send.connection as usize].class == class);
        mine.map(|send| (send.start, send.message())).collect()
    };
    assert_eq!(of_class(&alone, 0), of_class(&beside, 1));
    assert_eq!(of_class(&alone, 0).len(), 50);
}

#[test]
fn the_seed_decides_and_may_come_from_outside() {
    let text = format!("{STAR}[traffic.a]\nkind = \"incast\"\nsenders = 3\nsize = \"1B\"\njitter = \"1s\"\n");
    let starts = |overrides: &[&str], seed| -> Vec<_> {
        let overrides: Vec<Override> = overrides.iter().map(|one| Override::parse(one).unwrap()).collect();
        let plan = Scenario::parse(&text, "f", &overrides).unwrap().plan(seed).unwrap();
        plan.sends.iter().map(|send| send.start).collect()
    };
    assert_eq!(starts(&[], None), starts(&[], Some(1)));
    assert_eq!(starts(&["seed=9"], None), starts(&[], Some(9)));
    assert_ne!(starts(&[], Some(9)), starts(&[], Some(1)));
}

#[test]
fn a_class_may_differ_in_single_keys() {
    let plan = plan_of(
        STAR,
        r#"
[switch.marker]
name = "ecn-threshold"
[stack]
sender = "dctcp"
[tcp]
mss = "1000B"
rto_min = "5ms"
delayed_ack = { every = 4 }
[traffic.a]
kind = "incast"
senders = 1
size = "1B"
[traffic.b]
kind = "incast"
senders = 1
size = "1B"
stack = { sender = "newreno" }
tcp = { rto_min = "7ms", delayed_ack = "none" }
"#,
    );
    let ends: Vec<String> = plan
        .classes
        .iter()
        .map(|class| {
            let parts: Vec<&str> = class.stack.parts().iter().map(|part| part.name).collect();
            let tcp = &class.tcp;
            format!("{}: {} {} {} {:?}", class.name, parts.join("+"), tcp.mss, tcp.rto_min, tcp.delayed_ack)
        })
        .collect();
    insta::assert_snapshot!(ends.join("\n"), @r#"
    a: dctcp+dctcp+none+all-at-once 1000B 5ms Some(DelayedAck { every: 4, timeout: Duration(40000000000), quick: 0, quick_again: false, below_rto_min: false, growth: Bytes(0) })
    b: newreno+none+none+all-at-once 1000B 7ms None
    "#);
}

#[test]
fn a_trace_is_read_beside_the_scenario() {
    let text = format!("{STAR}[traffic.t]\nkind = \"trace\"\nfile = \"flow.txt\"\nconnections = \"persistent\"\n");
    let files = |name: &str| {
        assert_eq!(name, "flow.txt");
        Ok("3\n0 1 3 100 2000 0.5\n1 0 3 100 1 0.25\n0 1 3 100 7 0.5\n".to_owned())
    };
    let plan = Scenario::parse_with(&text, "f", &[], &files).unwrap().plan(None).unwrap();
    insta::assert_snapshot!(sends(&plan), @r#"
    0: 0 -> 1 of t, Before, RestartAfterIdle, stays open
    1: 1 -> 0 of t, Before, RestartAfterIdle, stays open
    250ms on 1 1B round 0
    500ms on 0 2000B round 0
    500ms on 0 7B round 0
    "#);
}

#[test]
fn the_name_is_the_files_unless_it_is_given() {
    let rest = "[traffic.a]\nkind = \"incast\"\nsenders = 1\nsize = \"1B\"\n";
    let nameless = STAR.replace("name = \"small\"", "");
    let scenario = Scenario::parse(&format!("{nameless}{rest}"), "some/folder/tall.toml", &[]).unwrap();
    assert_eq!(scenario.name(), "tall");
    assert_eq!(plan_of(STAR, rest).name, "small");
    assert_eq!((scenario.seed(), scenario.expected_messages()), (1, 1));
}

const RACKS: &str = r#"
[topology]
kind = "leaf-spine"
leaves = 3
hosts_per_leaf = 4
spines = 2
host_link = { rate = "10Gbps", delay = "5us" }
fabric_link = { rate = "10Gbps", delay = "5us" }
[switch]
buffer = { name = "static", limit = "64KiB", count_in_service = true }
"#;

#[test]
fn jobs_ask_different_workers_on_connections_of_their_own() {
    let plan = plan_of(
        RACKS,
        r#"
[traffic.j]
kind = "fork-join"
schedulers = { per_rack = 1 }
fan_in = { min = 1, max = 3 }
sizes = { kind = "uniform", min = "1KB", max = "400KB" }
load = 0.5
jobs = 4
start = "1ms"
task_time = { kind = "truncated-exponential", mean = "10ms", cut = "5ms" }
deadline = "20ms"
cases = [{}, { deadline = "50ms", task_time = "1ms" }]
[record]
queue_series = ["bottlenecks"]
"#,
    );
    insta::assert_snapshot!(sends(&plan), @r#"
    0: 4 -> 6 of j, Counted, Fresh, closes
    1: 4 -> 11 of j, Counted, Fresh, closes
    2: 4 -> 9 of j, Counted, Fresh, closes
    3: 0 -> 1 of j, Counted, Fresh, closes
    4: 4 -> 10 of j, Counted, Fresh, closes
    5: 4 -> 1 of j, Counted, Fresh, closes
    6: 4 -> 5 of j, Counted, Fresh, closes
    7: 4 -> 5 of j, Counted, Fresh, closes
    "#);
    insta::assert_snapshot!(rounds(&plan), @r#"
    host 4 asks [0, 1, 2] from 1.042566834ms with 2000B, buffer 65536B
    [84450B until 50ms coflow 0, asked +0s, takes 1ms] [81561B until 50ms coflow 0, asked +0s, takes 1ms] [208905B until 50ms coflow 0, asked +0s, takes 1ms]
    host 0 asks [3] from 1.485821514ms with 2000B, buffer 65536B
    [386620B until 50ms coflow 1, asked +0s, takes 1ms]
    host 4 asks [4, 5, 6] from 1.532238654ms with 2000B, buffer 65536B
    [49645B until 50ms coflow 2, asked +0s, takes 1ms] [3876B until 50ms coflow 2, asked +0s, takes 1ms] [297696B until 50ms coflow 2, asked +0s, takes 1ms]
    host 4 asks [7] from 1.548786217ms with 2000B, buffer 65536B
    [156194B until 20ms coflow 3, asked +0s, takes 153.357923us]
    "#);
    // The last ports before the three schedulers.
    let ports = plan.record.queue_series.iter().map(|&link| plan.network.links[link as usize].to);
    assert_eq!(ports.collect::<Vec<_>>(), [Node::Host(0), Node::Host(4), Node::Host(8)]);
}

/// Wang et al., case I: 40 answers of 200.5 kB on average, 124.7 times a second, are 80 % of 10 Gbit/s.
#[test]
fn a_load_of_jobs_is_a_share_of_the_links_to_the_schedulers() {
    let mean_gap = |keys: &str| {
        let class =
            "kind = \"fork-join\"\nsizes = { kind = \"uniform\", min = \"1KB\", max = \"400KB\" }\njobs = 4000\n";
        let hosts = RACKS.replace("hosts_per_leaf = 4", "hosts_per_leaf = 20");
        let plan = plan_of(&hosts, &format!("[traffic.j]\n{class}schedulers = {{ per_rack = 2 }}\n{keys}"));
        plan.aggregators.last().unwrap().start.as_secs_f64() / 4000.0
    };
    let by_load = mean_gap("load = 0.8\nfan_in = 40\n");
    // Standard deviation 1.6 %.
    assert!((by_load * 6.0 * 124.7 - 1.0).abs() < 0.06, "{by_load}");
    // The same draws: what differs is the rate alone.
    assert!((mean_gap("jobs_per_s = 124.7\nfan_in = 40\n") / by_load - 1.0).abs() < 1e-3);
    // Case II: fan-in 1 to 50 at 30 %.
    assert!(
        (mean_gap("load = 0.3\nfan_in = { min = 1, max = 50 }\n") / mean_gap("jobs_per_s = 73.3\nfan_in = 1") - 1.0)
            .abs()
            < 1e-3
    );
}

/// The background of Wang et al., section III.B: other hosts, other racks, half of the flows of each table.
#[test]
fn traffic_beside_jobs_leaves_their_schedulers_out() {
    let plan = plan_of(
        RACKS,
        r#"
[traffic.background]
kind = "poisson"
except = { per_rack = 1 }
pairs = "other-rack"
load = 0.6
reference = "leaf-uplinks"
flows = 2000
[traffic.background.sizes]
kind = "mixture"
share_of = "messages"
parts = [
  { share = 0.5, sizes = { kind = "cdf", name = "websearch-dctcp" } },
  { share = 0.5, sizes = { kind = "cdf", name = "datamining-pfabric" } },
]
"#,
    );
    assert_eq!(plan.connections.len(), 2000);
    for one in &plan.connections {
        assert!(one.client % 4 != 0 && one.server % 4 != 0 && one.client / 4 != one.server / 4, "{one:?}");
    }
    // 0.6 of six uplinks, by the mean of both tables.
    let mean = f64::midpoint(1_711_250.0, 7_470_236.0);
    let rate = 2000.0 / plan.sends.last().unwrap().start.as_secs_f64();
    assert!((rate / (0.6 * 6e10 / 8.0 / mean) - 1.0).abs() < 0.08, "{rate}");
}

#[test]
fn deadlines_may_depend_on_the_size_and_on_chance() {
    let text = r#"
[traffic.p]
kind = "poisson"
rate_per_s = 1e4
sizes = { kind = "uniform", min = "1B", max = "2MB" }
flows = 4000
"#;
    let rules = r#"deadlines = { share = 0.3, rules = [
  { up_to = "100KB", offset = "600us", rate = "4Gbps" },
  { up_to = "1MB", offset = "1ms", rate = "2Gbps" },
  { rate = "2.5Gbps" },
] }
"#;
    let plan = plan_of(STAR, &format!("{text}{rules}"));
    let mut with = 0;
    for send in &plan.sends {
        let (size, start) = (send.size().unwrap().0, send.start);
        let Some(deadline) = send.message().deadline else { continue };
        with += 1;
        let ns = match size {
            0..=100_000 => 600_000.0 + size as f64 * 2.0,
            100_001..=1_000_000 => 1_000_000.0 + size as f64 * 4.0,
            _ => size as f64 * 3.2,
        };
        assert!((deadline.since(start).as_secs_f64() * 1e9 - ns).abs() < 0.01, "{size}: {}", deadline.since(start));
    }
    // Standard deviation 29.
    assert!(1200_u32.abs_diff(with) < 150, "{with}");
    // They have a stream of their own.
    let without = plan_of(STAR, text);
    let facts = |plan: &Plan| plan.sends.iter().map(|send| (send.start, send.size())).collect::<Vec<_>>();
    assert_eq!(facts(&plan), facts(&without));
}

/// Without a word about hosts they have a microsecond of noise; links of hosts differ by the skew, the same in both
/// directions and drawn from the seed.
#[test]
fn hosts_have_noise_and_their_links_skew() {
    let traffic = "[traffic.a]\nkind = \"incast\"\nsenders = 3\nsize = \"1B\"\n";
    let noise = |hosts: &str| plan_of(STAR, &format!("{traffic}{hosts}")).network.noise;
    let us = |us| Noise::Exponential { mean: Duration::from_us(us) };
    assert_eq!(noise(""), HostNoise { sending: us(1), receiving: us(1), per: NoisePer::Packet });
    let receiving = "[hosts]\nnoise = { kind = \"exponential\", mean = \"3us\" }\nreceiving = { kind = \"none\" }\nnoise_per = \"burst\"\n";
    assert_eq!(noise(receiving), HostNoise { sending: us(3), receiving: Noise::None, per: NoisePer::Burst });

    let skewed = format!("{STAR}{traffic}[hosts]\nskew = \"2ns\"\n");
    let delays = |seed| {
        let plan = Scenario::parse(&skewed, "small.toml", &[]).unwrap().plan(Some(seed)).unwrap();
        let delays: Vec<u64> = plan.network.links.iter().map(|link| link.delay.0 - 25_000_000).collect();
        assert!(delays.chunks(2).all(|both| both[0] == both[1] && both[0] <= 2_000), "{delays:?}");
        delays
    };
    assert_eq!(delays(1), delays(1));
    assert_ne!(delays(1), delays(2));
    assert!(delays(1).iter().any(|&longer| longer > 0));
}
