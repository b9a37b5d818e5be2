//! Overloads are allowed, and said with the figure.

use incast_scenario::Scenario;

fn warnings(text: &str) -> String {
    let scenario = Scenario::parse(text, "w.toml", &[]).unwrap_or_else(|report| panic!("{report}"));
    let plan = scenario.plan(None).unwrap();
    assert_eq!(scenario.warnings(), &plan.warnings[..scenario.warnings().len()]);
    plan.warnings.join("\n")
}

const STAR: &str = r#"
[topology]
kind = "star"
hosts = 11
link = { rate = "1Gbps", delay = "25us" }
[switch]
buffer = { name = "static", limit = "64KiB", count_in_service = true }
[tcp]
profile = "paper"
"#;

const LEAF_SPINE: &str = r#"
[topology]
kind = "leaf-spine"
leaves = 4
hosts_per_leaf = 8
spines = 2
host_link = { rate = "10Gbps", delay = "1us" }
fabric_link = { rate = "10Gbps", delay = "1us" }
[switch]
buffer = { name = "static", limit = "64KiB", count_in_service = true }
[tcp]
profile = "paper"
"#;

/// 10 x (64 KiB and 45 headers of 40 B) are 673,360 B and take 5.387 ms at 1 Gbit/s.
#[test]
fn bursts_that_come_faster_than_they_drain_are_warned_of() {
    let burst = |interval: &str| {
        warnings(&format!(
            "{STAR}[traffic.b]\nkind = \"incast\"\nsenders = 10\nsize = \"64KiB\"\nrepetitions = 2\ninterval = \"{interval}\"\n"
        ))
    };
    assert_eq!(burst("5.4ms"), "");
    insta::assert_snapshot!(burst("5ms"), @"traffic.b: a burst starts every 5ms and takes 5.3869 ms on the link to host 0 (payload and headers), a load of 1.08");
}

/// 1460 B of payload make 1500 B on the wire: 0.98 of the payload rate is 1.007 of the link.
#[test]
fn headers_count_when_links_are_loaded() {
    let poisson = |load: &str| {
        warnings(&format!(
            "{STAR}[traffic.p]\nkind = \"poisson\"\nload = {load}\nreference = \"host-links\"\nflows = 10\n\
             sizes = {{ kind = \"constant\", size = \"1460B\" }}\n"
        ))
    };
    assert_eq!(poisson("0.97"), "");
    insta::assert_snapshot!(poisson("0.98"), @r#"
    traffic.p: the link from host 0 is offered 1.01 times the capacity (payload and headers, on average): queues keep growing
    traffic.p: the link to host 0 is offered 1.01 times the capacity (payload and headers, on average): queues keep growing
    "#);
}

/// Oversubscribed by 4: 24 of 31 messages leave the rack.
#[test]
fn references_of_a_load_differ_as_their_names_say() {
    let poisson = |load: &str, reference: &str| {
        warnings(&format!(
            "{LEAF_SPINE}[traffic.p]\nkind = \"poisson\"\nload = {load}\nreference = \"{reference}\"\nflows = 10\n\
             sizes = {{ kind = \"constant\", size = \"1460B\" }}\n"
        ))
    };
    assert_eq!(poisson("0.97", "leaf-uplinks"), "");
    assert_eq!(poisson("1.2", "leaf-uplinks-all-traffic"), "");
    insta::assert_snapshot!(
        [poisson("1.0", "leaf-uplinks"), poisson("1.3", "leaf-uplinks-all-traffic"), poisson("0.5", "host-links")].join("\n\n"),
        @r#"
        traffic.p: the uplinks of leaf 0 are offered 1.03 times the capacity (payload and headers, on average): queues keep growing
        traffic.p: the links from the spines to leaf 0 are offered 1.03 times the capacity (payload and headers, on average): queues keep growing

        traffic.p: the uplinks of leaf 0 are offered 1.03 times the capacity (payload and headers, on average): queues keep growing
        traffic.p: the links from the spines to leaf 0 are offered 1.03 times the capacity (payload and headers, on average): queues keep growing

        traffic.p: the uplinks of leaf 0 are offered 1.59 times the capacity (payload and headers, on average): queues keep growing
        traffic.p: the links from the spines to leaf 0 are offered 1.59 times the capacity (payload and headers, on average): queues keep growing
        "#
    );
}

/// 20 answers of 14,600 B are 2.4 Mbit with their headers: 4167 jobs a second fill 10 Gbit/s.
#[test]
fn jobs_that_their_schedulers_cannot_take_in_are_warned_of() {
    let jobs = |rate: u32| {
        warnings(&format!(
            "{LEAF_SPINE}[traffic.j]\nkind = \"fork-join\"\nschedulers = {{ per_rack = 1 }}\nfan_in = 20\nrequest = \"1460B\"\n\
             jobs_per_s = {rate}\njobs = 1\nsizes = {{ kind = \"constant\", size = \"14600B\" }}\n"
        ))
    };
    assert_eq!(jobs(4150), "");
    insta::assert_snapshot!(jobs(4200), @r#"
    traffic.j: the link to host 0 is offered 1.01 times the capacity (payload and headers, on average): queues keep growing
    "#);
}

/// Three quarters of 12 times 9 Gbit/s cross the racks, a quarter of them to each: 20.25 Gbit/s over two uplinks of 10, with
/// headers of answers (40 B to 1460 B) 20.80 Gbit/s, and with requests of 1 B to each answer (41 B to 14,600 B) 20.86.
#[test]
fn jobs_cross_the_racks_as_their_workers_are_spread() {
    let jobs = warnings(&format!(
        "{LEAF_SPINE}[traffic.j]\nkind = \"fork-join\"\nschedulers = {{ per_rack = 3 }}\nfan_in = 20\nrequest = \"1B\"\nload = 0.9\n\
         jobs = 1\nsizes = {{ kind = \"constant\", size = \"14600B\" }}\n"
    ));
    insta::assert_snapshot!(jobs, @r#"
    traffic.j: the uplinks of leaf 0 are offered 1.04 times the capacity (payload and headers, on average): queues keep growing
    traffic.j: the links from the spines to leaf 0 are offered 1.04 times the capacity (payload and headers, on average): queues keep growing
    "#);
}

#[test]
fn classes_that_overload_a_link_together_are_warned_of_together() {
    let one = |name: &str| {
        format!(
            "[traffic.{name}]\nkind = \"poisson\"\nload = 0.6\nreference = \"host-links\"\nflows = 10\n\
             sizes = {{ kind = \"constant\", size = \"1460B\" }}\n"
        )
    };
    insta::assert_snapshot!(warnings(&format!("{STAR}{}{}", one("p"), one("q"))), @r#"
    traffic.p and traffic.q: the link from host 0 is offered 1.23 times the capacity (payload and headers, on average): queues keep growing
    traffic.p and traffic.q: the link to host 0 is offered 1.23 times the capacity (payload and headers, on average): queues keep growing
    "#);
}

/// A load of 0.98 and headers of 40 B to 1960 B are exactly the capacity. One millionth more is too much, and said to be.
#[test]
fn a_load_that_is_slightly_too_much_is_warned_of() {
    let load = |load: &str| {
        let class = "[traffic.p]\nkind = \"poisson\"\nreference = \"host-links\"\nflows = 10\n\
                     sizes = { kind = \"constant\", size = \"1960B\" }\n[traffic.p.tcp]\nmss = \"1960B\"\n";
        warnings(&format!(
            "{STAR}{}",
            class.replace("kind = \"poisson\"", &format!("kind = \"poisson\"\nload = {load}"))
        ))
    };
    assert_eq!(load("0.98"), "");
    assert!(
        load("0.98001").contains("the link to host 0 is offered 1.000010 times the capacity"),
        "{}",
        load("0.98001")
    );
}

/// Two racks of four hosts each, with two uplinks each: half of the hosts' links would do for messages within the racks only. Of all
/// messages 4/7 go to the other rack.
#[test]
fn inner_links_of_a_custom_network_are_warned_of() {
    let hosts: Vec<String> = (0..8).map(|host| format!("\"h{host}\"")).collect();
    let cables = (0..8).map(|host| format!("{{ between = [\"h{host}\", \"edge{}\"]", host / 4));
    let up = ["edge0", "edge1"].into_iter().flat_map(|edge| {
        ["core0", "core1"].into_iter().map(move |core| format!("{{ between = [\"{edge}\", \"{core}\"]"))
    });
    let links: Vec<String> =
        cables.chain(up).map(|link| format!("{link}, rate = \"10Gbps\", delay = \"1us\" }}")).collect();
    let network = |load: &str| {
        format!(
            "[topology]\nkind = \"custom\"\nhosts = [{}]\nswitches = [\"edge0\", \"edge1\", \"core0\", \"core1\"]\nlinks = [{}]\n\
             [switch]\nbuffer = {{ name = \"static\", limit = \"64KiB\", count_in_service = true }}\n[tcp]\nprofile = \"paper\"\n\
             [traffic.p]\nkind = \"poisson\"\nload = {load}\nreference = \"host-links\"\nflows = 10\n\
             sizes = {{ kind = \"constant\", size = \"1460B\" }}\n",
            hosts.join(", "),
            links.join(", ")
        )
    };
    // 4 hosts x 0.9 x 1500/1460 x 4/7 over two links: 1.057.
    insta::assert_snapshot!(warnings(&network("0.9")), @"traffic.p: the link edge0->core0 is offered 1.06 times the capacity (payload and headers, on average): queues keep growing");
    assert_eq!(warnings(&network("0.85")), "");
}

#[test]
fn the_link_between_the_sides_of_a_dumbbell_is_warned_of() {
    let dumbbell = STAR.replace(
        "kind = \"star\"\nhosts = 11\nlink =",
        "kind = \"dumbbell\"\nleft = 4\nright = 4\ncore_link = { rate = \"1Gbps\", delay = \"25us\" }\nedge_link =",
    );
    let load = |load: &str| {
        warnings(&format!(
            "{dumbbell}[traffic.p]\nkind = \"poisson\"\npairs = \"other-rack\"\nload = {load}\nreference = \"host-links\"\nflows = 10\n\
             sizes = {{ kind = \"constant\", size = \"1460B\" }}\n"
        ))
    };
    insta::assert_snapshot!(load("0.6"), @"traffic.p: the link left->right is offered 2.47 times the capacity (payload and headers, on average): queues keep growing");
    assert_eq!(load("0.2"), "");
}

#[test]
fn a_sender_that_needs_marks_is_warned_of_ports_that_do_not_mark() {
    let text = LEAF_SPINE.replace("delay = \"1us\" }\nfabric", "delay = \"1us\", marker = \"ecn-threshold\" }\nfabric");
    let text =
        format!("{text}[stack]\nsender = \"dctcp\"\n[traffic.b]\nkind = \"incast\"\nsenders = 10\nsize = \"64KiB\"\n");
    insta::assert_snapshot!(warnings(&text), @r#"traffic.b: at some switch ports, "dctcp" does not work with marker = "none": DCTCP learns from congestion marks: give the switch ports a marker that sets CE, such as "ecn-threshold""#);
}

#[test]
fn acks_that_may_wait_longer_than_a_timeout_are_warned_of() {
    let tcp = "rto_min = \"10ms\"\ndelayed_ack = { every = 2 }\n";
    let text = format!("{STAR}{tcp}[traffic.b]\nkind = \"incast\"\nsenders = 10\nsize = \"64KiB\"\n");
    insta::assert_snapshot!(warnings(&text), @"traffic.b: delayed ACKs (up to 40ms) can outlast the minimum retransmission timeout (10ms): expect spurious timeouts");
}

/// Two hosts that send to the same one at the same moment over equal links, as punctual as clocks.
#[test]
fn ties_that_decide_are_warned_of() {
    let check = |senders: u32, hosts: &str| {
        let burst = format!("[traffic.b]\nkind = \"incast\"\nsenders = {senders}\nsize = \"64KiB\"\n");
        warnings(&format!("{STAR}{burst}[hosts]\n{hosts}\n"))
    };
    let none = "noise = { kind = \"none\" }";
    assert_eq!(check(2, ""), "");
    assert_eq!(check(1, none), "");
    assert_eq!(check(2, &format!("{none}\nskew = \"1ns\"")), "");
    assert_eq!(check(2, &format!("{none}\nreceiving = {{ kind = \"uniform\", max = \"1us\" }}")), "");
    insta::assert_snapshot!(check(2, none), @"hosts at links of equal length send to the same host without any noise: their packets arrive at the same instant, and the rule for simultaneous events decides which are dropped; set hosts.noise or hosts.skew");
    assert_eq!(check(2, "noise = { kind = \"exponential\", mean = \"0s\" }"), check(2, none));
}
