//! What people get to read when a scenario is wrong. The messages are the interface, so they are here word for word.

use incast_scenario::{Override, Scenario};

const GOOD: &str = r#"name = "test"
[topology]
kind = "star"
hosts = 5
link = { rate = "1Gbps", delay = "25us" }
[switch]
buffer = { name = "static", limit = "64KiB", count_in_service = true }
[traffic.burst]
kind = "incast"
senders = 4
size = "64KiB"
"#;

const LEAF_SPINE: &str = r#"[topology]
kind = "leaf-spine"
leaves = 2
hosts_per_leaf = 2
spines = 1
host_link = { rate = "1Gbps", delay = "25us" }
fabric_link = { rate = "1Gbps", delay = "25us" }
[switch]
buffer = { name = "static", limit = "64KiB", count_in_service = true }
"#;

fn messages(text: &str, overrides: &[&str]) -> String {
    let overrides: Result<Vec<Override>, _> = overrides.iter().map(|one| Override::parse(one)).collect();
    let scenario = overrides.and_then(|overrides| Scenario::parse(text, "s.toml", &overrides));
    match scenario.and_then(|scenario| scenario.plan(None)) {
        Ok(_) => "no problem".into(),
        Err(report) => report.to_string(),
    }
}

/// One part of the good scenario replaced.
fn with(old: &str, new: &str) -> String {
    assert!(GOOD.contains(old), "{old}");
    messages(&GOOD.replacen(old, new, 1), &[])
}

/// Something added to the good scenario.
fn plus(text: &str) -> String {
    messages(&format!("{GOOD}{text}"), &[])
}

fn lines(all: &[String]) -> String {
    all.join("\n")
}

#[test]
fn the_good_scenario_is_good() {
    assert_eq!(plus(""), "no problem");
}

/// Parameters of one part are held against each other, wherever the part stands and whoever wrote them.
#[test]
fn parameters_of_a_part_that_cannot_be_together_are_refused() {
    insta::assert_snapshot!(
        lines(&[
            plus("[stack]\nreceiver = { name = \"ictcp\", gamma1 = 0.6 }\n"),
            with("size = \"64KiB\"", "size = \"64KiB\"\nstack = { receiver = { name = \"ictcp\",\n gamma2 = 0.05 } }"),
            messages(GOOD, &["stack.receiver={ name = \"ictcp\", gamma1 = 1, gamma2 = 0.5 }"]),
        ]),
        @r"
    s.toml:13:39: stack.receiver.gamma1: a window would grow and shrink at once: gamma1 (0.6) must not exceed gamma2 (0.5)
    s.toml:12:22: traffic.burst.stack.receiver.gamma1: a window would grow and shrink at once: gamma1 (0.1) must not exceed gamma2 (0.05)
    --set stack.receiver: stack.receiver.gamma1: a window would grow and shrink at once: gamma1 (1) must not exceed gamma2 (0.5)
    "
    );
    assert_eq!(plus("[stack]\nreceiver = { name = \"ictcp\", gamma1 = 0.5 }\n"), "no problem", "equal is fine");
}

/// A priority chooses among the queues that switch ports have; without any it would do nothing.
#[test]
fn a_priority_that_chooses_no_queue_is_refused() {
    let urgent = |priority: u32| with("size = \"64KiB\"", &format!("size = \"64KiB\"\npriority = {priority}"));
    let refused = urgent(0);
    assert!(refused.contains("traffic.burst.priority: the priority would change nothing"), "{refused}");
    assert!(refused.contains("`scheduler = \"strict-priority\"` in `[switch]`"), "{refused}");
    let set = |priority: &str| {
        messages(
            GOOD,
            &[
                "switch.scheduler={ name = \"strict-priority\", queues = 3 }",
                &format!("traffic.burst.priority={priority}"),
            ],
        )
    };
    assert_eq!(set("2"), "no problem");
    let refused = set("3");
    assert!(refused.contains("there is no queue of priority 3: switch ports have 3; allowed: 0 to 2"), "{refused}");
}

#[test]
fn red_with_thresholds_in_the_wrong_order_is_refused() {
    let refused = messages(GOOD, &["switch.marker={ name = \"red\", min = \"30packets\" }"]);
    assert!(refused.contains("switch.marker.max: max (15packets) must be above min (30packets)"), "{refused}");
}

#[test]
fn unknown_keys_are_named_with_the_nearest() {
    insta::assert_snapshot!(
        lines(&[
            with("senders = 4", "sender = 4"),
            with("hosts = 5", "hosts = 5\nhots = 3\nleft = 2"),
            with("delay = \"25us\"", "delay = \"25us\", latency = \"1us\""),
            plus("[tpc]\nmss = \"1KB\""),
            plus("[stack]\nsender = { name = \"dctcp\", alpha = 0 }"),
            plus("\"strange key\" = 1"),
        ]),
        @r#"
        s.toml:10:1: traffic.burst.sender: unknown key "sender"; did you mean "senders"? allowed: connections, deadline, interval, jitter, kind, priority, receiver, repetitions, senders, size, stack, start, tcp, total, window
        s.toml:5:1: topology.hots: unknown key "hots"; did you mean "hosts"? allowed: delay_step, hosts, kind, link
        s.toml:6:1: topology.left: unknown key "left" (it belongs to kind = "dumbbell"); allowed: delay_step, hosts, kind, link
        s.toml:5:42: topology.link.latency: unknown key "latency"; allowed: buffer, burst, delay, loss, marker, rate, reorder, scheduler
        s.toml:12:2: tpc: unknown key "tpc"; did you mean "tcp"? allowed: hosts, name, record, run, seed, stack, switch, tcp, topology, traffic
        s.toml:13:28: stack.sender.alpha: unknown key "alpha"; allowed: initial_alpha, name, shift
        s.toml:12:1: traffic.burst."strange key": unknown key "strange key"; allowed: connections, deadline, interval, jitter, kind, priority, receiver, repetitions, senders, size, stack, start, tcp, total, window
        "#
    );
}

#[test]
fn missing_keys_are_named_with_what_they_hold() {
    insta::assert_snapshot!(
        lines(&[
            messages("", &[]),
            with("link = { rate = \"1Gbps\", delay = \"25us\" }", "link = {}"),
            with("kind = \"incast\"\n", ""),
            with("kind = \"star\"\n", ""),
            with("count_in_service = true", "admit = \"if-below\""),
            with("size = \"64KiB\"\n", ""),
            with("buffer = { name = \"static\", limit = \"64KiB\", count_in_service = true }\n", ""),
            with("[traffic.burst]\nkind = \"incast\"\nsenders = 4\nsize = \"64KiB\"\n", "[traffic]"),
        ]),
        @r#"
        s.toml:1:1: missing table [topology]: `incast example incast` prints a scenario to start from
        s.toml:1:1: missing table [traffic.NAME]: `incast example incast` prints a scenario to start from
        s.toml:5:8: topology.link: missing key "rate"; allowed: a rate ("10Gbps")
        s.toml:5:8: topology.link: missing key "delay"; allowed: a time ("40us")
        s.toml:8:10: traffic.burst: missing key "kind"; allowed: kind = "incast", "rounds", "fork-join", "poisson", "long" or "trace"
        s.toml:2:2: topology: missing key "kind"; allowed: kind = "star", "dumbbell", "leaf-spine", "fat-tree", "hpcc" or "custom"
        s.toml:7:10: switch.buffer: missing key "count_in_service"; allowed: true or false
        s.toml:8:10: traffic.burst.size: missing: give size (for each) or total (split among all)
        s.toml:6:2: switch.buffer: missing: switch ports need a buffer that says what its limit counts; allowed: for example { name = "static", limit = "64KiB", count_in_service = true }
        s.toml:8:2: traffic: the table is empty
        "#
    );
}

#[test]
fn unknown_names_are_listed_with_those_that_are_known() {
    insta::assert_snapshot!(
        lines(&[
            with("\"star\"", "\"star2\""),
            with("\"incast\"", "\"incats\""),
            with("name = \"static\"", "name = \"shared\""),
            plus("[stack]\nsender = \"dtcp\""),
            plus("[stack]\nsender = { name = \"vegas\" }"),
            plus("[tcp]\nhandshake = \"never\""),
            plus("[tcp]\ndelayed_ack = \"on\""),
            plus("connections = \"keep\""),
        ]),
        @r#"
        s.toml:3:8: topology.kind: unknown kind "star2"; did you mean "star"? allowed: "star", "dumbbell", "leaf-spine", "fat-tree", "hpcc", "custom"
        s.toml:9:8: traffic.burst.kind: unknown kind "incats"; did you mean "incast"? allowed: "incast", "rounds", "fork-join", "poisson", "long", "trace"
        s.toml:7:19: switch.buffer.name: unknown name "shared"; allowed: "static", "dynamic-threshold"
        s.toml:13:10: stack.sender: unknown name "dtcp"; did you mean "dctcp"? allowed: "newreno", "cubic", "dctcp", "d2tcp", "mrg", "dcmrg", "pulser", "rdtcp", "swift", "hpcc", or a table with a name and parameters
        s.toml:13:19: stack.sender.name: unknown name "vegas"; allowed: "newreno", "cubic", "dctcp", "d2tcp", "mrg", "dcmrg", "pulser", "rdtcp", "swift", "hpcc"
        s.toml:13:13: tcp.handshake: unknown name "never"; allowed: "counted", "before"
        s.toml:13:15: tcp.delayed_ack: unknown name "on"; allowed: "none", or a table
        s.toml:12:15: traffic.burst.connections: unknown name "keep"; allowed: "fresh", "persistent"
        "#
    );
}

#[test]
fn wrong_types_say_what_was_expected_and_found() {
    insta::assert_snapshot!(
        lines(&[
            with("hosts = 5", "hosts = \"five\""),
            with("hosts = 5", "hosts = 5.5"),
            with("senders = 4", "senders = true"),
            with("senders = 4", "senders = [1, 2.5]"),
            with("size = \"64KiB\"", "size = 65536"),
            with("size = \"64KiB\"", "size = { kind = \"constant\" }"),
            with("link = { rate = \"1Gbps\", delay = \"25us\" }", "link = \"1Gbps\""),
            with("\"star\"", "3"),
            with("buffer = {", "marker = 1979-05-27\nbuffer = {"),
            plus("[record]\nevents = \"yes\""),
            plus("[record]\nqueue_series = \"all\""),
            plus("[stack]\nsender = 3"),
            plus("[tcp]\ndelayed_ack = 2"),
            "traffic = 3".to_owned(),
            messages("traffic = 3", &[]),
        ]),
        @r#"
        s.toml:4:9: topology.hosts: expected a whole number, found the string "five"
        s.toml:4:9: topology.hosts: expected a whole number, found the number 5.5
        s.toml:10:11: traffic.burst.senders: expected a whole number or a list, found true
        s.toml:10:15: traffic.burst.senders[1]: expected a whole number or a string, found the number 2.5
        s.toml:11:8: traffic.burst.size: expected an amount of data ("64KiB"), found the number 65536: add the unit, in quotes
        s.toml:11:8: traffic.burst.size: expected an amount of data ("64KiB"), found a table
        s.toml:5:8: topology.link: expected a table, found the string "1Gbps"
        s.toml:3:8: topology.kind: expected a name, found the number 3; allowed: "star", "dumbbell", "leaf-spine", "fat-tree", "hpcc", "custom"
        s.toml:7:10: switch.marker: expected "none", "ecn-threshold", "ein", "red", "telemetry" or a table, found the date 1979-05-27
        s.toml:13:10: record.events: expected true or false, found the string "yes"
        s.toml:13:16: record.queue_series: expected a list, found the string "all"
        s.toml:13:10: stack.sender: expected "newreno", "cubic", "dctcp", "d2tcp", "mrg", "dcmrg", "pulser", "rdtcp", "swift", "hpcc" or a table, found the number 3
        s.toml:13:15: tcp.delayed_ack: expected "none" or a table, found the number 2
        traffic = 3
        s.toml:1:1: missing table [topology]: `incast example incast` prints a scenario to start from
        s.toml:1:11: traffic: expected a table, found the number 3
        "#
    );
}

#[test]
fn quantities_say_which_units_there_are() {
    insta::assert_snapshot!(
        lines(&[
            with("size = \"64KiB\"", "size = \"64\""),
            with("size = \"64KiB\"", "size = \"64kb\""),
            with("rate = \"1Gbps\"", "rate = \"1 gigabit\""),
            with("delay = \"25us\"", "delay = \"-25us\""),
            with("delay = \"25us\"", "delay = \"0.5ps\""),
            with("limit = \"64KiB\"", "limit = \"20 pkts\""),
            with("limit = \"64KiB\"", "limit = \"1.5packets\""),
            with("size = \"64KiB\"", "size = \"99999999999999999999B\""),
        ]),
        @r#"
        s.toml:11:8: traffic.burst.size: "64" has no unit; an amount of data is a number with one of the units B, KB, MB, GB, KiB, MiB, GiB
        s.toml:11:8: traffic.burst.size: "64kb" has the unit "kb"; did you mean "64KB"? an amount of data is a number with one of the units B, KB, MB, GB, KiB, MiB, GiB
        s.toml:5:17: topology.link.rate: "1 gigabit" has the unit "gigabit"; a rate is a number with one of the units bps, kbps, Mbps, Gbps, Tbps
        s.toml:5:34: topology.link.delay: "-25us" has the unit "-25us"; a time is a number with one of the units ps, ns, us, ms, s
        s.toml:5:34: topology.link.delay: "0.5ps" is finer than the smallest unit of a time, ps
        s.toml:7:37: switch.buffer.limit: "20 pkts" has the unit "pkts"; an amount of data is a number with one of the units B, KB, MB, GB, KiB, MiB, GiB, or packets
        s.toml:7:37: switch.buffer.limit: "1.5packets" is not a whole number of packets
        s.toml:11:8: traffic.burst.size: "99999999999999999999B" is not an amount of data: write a number and one of the units B, KB, MB, GB, KiB, MiB, GiB
        "#
    );
}

#[test]
fn numbers_out_of_range_are_refused() {
    insta::assert_snapshot!(
        lines(&[
            with("hosts = 5", "hosts = 0"),
            with("hosts = 5", "hosts = -1"),
            with("hosts = 5", "hosts = 9223372036854775807"),
            with("senders = 4", "senders = 5000000000"),
            with("hosts = 5", "hosts = 5\ndelay_step = \"300000s\""),
            with("delay = \"25us\"", "delay = \"25us\", loss = 1.5"),
            with("delay = \"25us\"", "delay = \"25us\", loss = -0.1"),
            with("delay = \"25us\"", "delay = \"25us\", loss = nan"),
            with("delay = \"25us\"", "delay = \"25us\", loss = 1"),
            with("delay = \"25us\"", "delay = \"25us\", burst = \"126MB\""),
            with("delay = \"25us\"", "delay = \"25us\", reorder = { probability = inf, extra = \"1us\" }"),
            plus("[tcp]\nwindow_floor = 3"),
            plus("[stack]\nsender = { name = \"dctcp\", initial_alpha = 1025 }"),
            plus("repetitions = 0"),
        ]),
        @r#"
        s.toml:4:9: topology.hosts: the number 0 is out of range; allowed: 1 to 1000000
        s.toml:4:9: topology.hosts: the number -1 is out of range; allowed: 1 to 1000000
        s.toml:4:9: topology.hosts: the number 9223372036854775807 is out of range; allowed: 1 to 1000000
        s.toml:10:11: traffic.burst.senders: the number 5000000000 is out of range; allowed: 0 to 4294967295
        s.toml:5:14: topology.delay_step: the link of the last host would be 1200000s longer than that of the first; allowed: at most 1000000s
        s.toml:5:49: topology.link.loss: the number 1.5 is out of range; allowed: 0 to 1
        s.toml:5:49: topology.link.loss: the number -0.1 is out of range; allowed: 0 to 1
        s.toml:5:49: topology.link.loss: the number NaN is not finite
        s.toml:5:49: topology.link.loss: every packet would be lost; allowed: a probability below 1
        s.toml:5:50: topology.link.burst: 126000000B are more than the link carries in a second; allowed: at most 125000000B
        s.toml:5:68: topology.link.reorder.probability: the number inf is not finite
        s.toml:13:16: tcp.window_floor: the number 3 is out of range; allowed: 1 to 2
        s.toml:13:44: stack.sender.initial_alpha: the number 1025 is out of range; allowed: 0 to 1024
        s.toml:12:15: traffic.burst.repetitions: the number 0 is out of range; allowed: 1 to 4294967295
        "#
    );
}

#[test]
fn impossible_links_and_times_are_refused() {
    insta::assert_snapshot!(
        lines(&[
            with("rate = \"1Gbps\"", "rate = \"0bps\""),
            with("rate = \"1Gbps\"", "rate = \"1kbps\""),
            with("rate = \"1Gbps\"", "rate = \"100Tbps\""),
            with("delay = \"25us\"", "delay = \"2000000s\""),
            plus("[run]\nstop_at = \"0s\""),
            plus("start = \"9999999s\""),
            plus("repetitions = 1000000\ninterval = \"999s\""),
            with("size = \"64KiB\"", "size = \"0B\""),
            with("size = \"64KiB\"", "size = \"2000GiB\""),
        ]),
        @r#"
        s.toml:5:17: topology.link.rate: 0bps is out of range; allowed: 1Mbps to 10000Gbps
        s.toml:5:17: topology.link.rate: 1kbps is out of range; allowed: 1Mbps to 10000Gbps
        s.toml:5:17: topology.link.rate: 100000Gbps is out of range; allowed: 1Mbps to 10000Gbps
        s.toml:5:34: topology.link.delay: 2000000s is out of range; allowed: at most 1000000s
        s.toml:13:11: run.stop_at: 0s is out of range; allowed: above 0s
        s.toml:12:9: traffic.burst.start: 9999999s is out of range; allowed: at most 1000000s
        s.toml:12:15: traffic.burst.repetitions: the last message would start after 1000000s
        s.toml:11:8: traffic.burst.size: 0B is out of range; allowed: 1B to 1024GiB
        s.toml:11:8: traffic.burst.size: 2147483648000B is out of range; allowed: 1B to 1024GiB
        "#
    );
}

#[test]
fn hosts_that_are_not_there_are_refused() {
    insta::assert_snapshot!(
        lines(&[
            with("senders = 4", "senders = 5"),
            with("senders = 4", "senders = 0"),
            with("senders = 4", "senders = []"),
            with("senders = 4", "senders = [1, 5]"),
            with("senders = 4", "senders = [1, 0]"),
            with("senders = 4", "senders = [1, 2, 1]"),
            with("senders = 4", "senders = [\"alice\"]"),
            plus("receiver = 5"),
            plus("[traffic.l]\nkind = \"long\"\npairs = [[1, 2], [3, 3]]"),
            plus("[traffic.l]\nkind = \"long\"\npairs = [[1, 2, 3]]"),
            plus("[traffic.l]\nkind = \"long\"\npairs = [[1, 2]]\nsenders = 2"),
            plus("[traffic.l]\nkind = \"long\"\npairs = []"),
            plus("[traffic.l]\nkind = \"long\""),
            plus("[traffic.r]\nkind = \"rounds\"\nworkers = 9\nresponse = \"1KB\"\nrounds = 1"),
        ]),
        @r#"
        s.toml:10:11: traffic.burst.senders: 5 senders, but there are only 4 hosts besides host 0
        s.toml:10:11: traffic.burst.senders: no hosts: at least one is needed
        s.toml:10:11: traffic.burst.senders: no hosts: at least one is needed
        s.toml:10:15: traffic.burst.senders[1]: there is no host 5; hosts are numbered 0 to 4
        s.toml:10:15: traffic.burst.senders[1]: host 0 would send to itself
        s.toml:10:18: traffic.burst.senders[2]: host 1 is listed twice
        s.toml:10:12: traffic.burst.senders[0]: unknown host "alice": the hosts of this topology are numbered 0 to 4
        s.toml:12:12: traffic.burst.receiver: there is no host 5; hosts are numbered 0 to 4
        s.toml:14:18: traffic.l.pairs[1]: host 3 would send to itself
        s.toml:14:10: traffic.l.pairs[0]: a list of 3 items; allowed: 2
        s.toml:14:9: traffic.l.pairs: give either pairs, or senders and receiver
        s.toml:14:9: traffic.l.pairs: no pairs: at least one is needed
        s.toml:12:10: traffic.l.senders: missing: give senders and a receiver, or pairs
        s.toml:14:11: traffic.r.workers: 9 workers, but there are only 4 hosts besides host 0
        "#
    );
}

#[test]
fn keys_that_exclude_or_need_each_other_say_so() {
    insta::assert_snapshot!(
        lines(&[
            plus("total = \"1MB\""),
            with("size = \"64KiB\"", "total = \"3B\""),
            plus("repetitions = 2"),
            plus("interval = \"1ms\""),
            plus("window = \"kept\""),
            plus("[traffic.r]\nkind = \"rounds\"\nworkers = 2\nrounds = 1"),
        ]),
        @r#"
        s.toml:12:9: traffic.burst.total: both size and total are given: choose one
        s.toml:11:9: traffic.burst.total: 3B cannot be split among 4: some would send nothing
        s.toml:8:10: traffic.burst.interval: missing: the time between the 2 bursts
        s.toml:12:12: traffic.burst.interval: no effect: there is only one burst unless repetitions is given
        s.toml:12:10: traffic.burst.window: no effect: every message has a connection of its own; allowed: only with connections = "persistent"
        s.toml:12:10: traffic.r.response: missing: give response (for each) or block (split among all)
        "#
    );
}

#[test]
fn random_traffic_needs_a_rate_an_end_and_partners() {
    let poisson = |rest: &str| {
        let class = "[traffic.p]\nkind = \"poisson\"\nsizes = { kind = \"constant\", size = \"1KB\" }\n";
        messages(&format!("{LEAF_SPINE}{class}{rest}"), &[])
    };
    insta::assert_snapshot!(
        lines(&[
            poisson(""),
            poisson("load = 0.5\nflows = 1"),
            poisson("load = 0.5\nreference = \"host-links\"\nrate_per_s = 3\nflows = 1"),
            poisson("load = 0\nreference = \"host-links\"\nflows = 1"),
            poisson("rate_per_s = -3\nflows = 1\nuntil = \"1s\""),
            poisson("rate_per_s = 3\nstart = \"1s\"\nuntil = \"1s\""),
            poisson("rate_per_s = 3\nflows = 1\nhosts = [1]"),
            poisson("rate_per_s = 3\nflows = 1\nhosts = [0, 1]\npairs = \"other-rack\""),
            poisson("load = 0.3\nreference = \"leaf-uplinks\"\nflows = 1\nhosts = [0, 1]"),
            poisson("rate_per_s = 0.000001\nflows = 100"),
            poisson("rate_per_s = 1e12\nuntil = \"1s\""),
            poisson("rate_per_s = 3\nflows = 48\nfan_in = 400"),
            poisson("rate_per_s = 3\nflows = 0\nfan_in = 0"),
            poisson("rate_per_s = 3\nflows = 100\nfan_in = 3"),
            poisson("rate_per_s = 3\nflows = 3\nshare = 0.2"),
            poisson("load = 0.3\nreference = \"host-links\"\nshare = 0\nflows = 1"),
            poisson("load = 0.3\nreference = \"host-links\"\nshare = 1.5\nflows = 1"),
            poisson("load = 0.3\nreference = \"named-links\"\nflows = 1"),
            poisson("load = 0.3\nreference = \"host-links\"\nlinks = [\"leaf 0->spine 0\"]\nflows = 1"),
            poisson("load = 0.3\nreference = \"named-links\"\nlinks = [\"laef 0->spine 0\"]\nflows = 1"),
            poisson(
                "load = 0.3\nreference = \"named-links\"\nlinks = [\"leaf *->spine 0\"]\nflows = 1\nhosts = [0, 1]"
            ),
            plus(
                "[traffic.p]\nkind = \"poisson\"\nsizes = { kind = \"constant\", size = \"1KB\" }\nflows = 1\nload = 0.3\n\
                 reference = \"leaf-uplinks\"\npairs = \"other-rack\""
            ),
            plus(
                "[traffic.p]\nkind = \"poisson\"\nsizes = { kind = \"constant\", size = \"1KB\" }\nflows = 1\nload = 0.3\n\
                 reference = \"leaf-uplinks\""
            ),
        ]),
        @r#"
        s.toml:10:10: traffic.p.flows: missing: give flows (how many) or until (when they stop)
        s.toml:10:10: traffic.p.load: missing: give load and reference, or rate_per_s
        s.toml:10:10: traffic.p.reference: missing: what load is a share of; allowed: host-links, leaf-uplinks, leaf-uplinks-all-traffic, named-links
        s.toml:15:14: traffic.p.rate_per_s: give either load and reference, or rate_per_s
        s.toml:13:8: traffic.p.load: 0 is out of range; allowed: above 0
        s.toml:13:14: traffic.p.rate_per_s: -3.0 is out of range; allowed: above 0, at most 1e12
        s.toml:15:9: traffic.p.until: both flows and until are given: choose one
        s.toml:15:9: traffic.p.until: 1s is not after start (1s)
        s.toml:15:9: traffic.p.hosts: at least two hosts are needed
        s.toml:16:9: traffic.p.pairs: all participating hosts are in one rack
        s.toml:14:13: traffic.p.reference: no message leaves its rack, so the uplinks would carry nothing
        s.toml:10:10: traffic.p: at this rate the last of the messages arrive after 1000000s
        s.toml:10:10: traffic.p: the run would have 1000000000000 messages; allowed: at most 50000000
        s.toml:15:10: traffic.p.fan_in: 400 is out of range; allowed: 1 to 3, the number of hosts that can send to the same one
        s.toml:14:9: traffic.p.flows: the number 0 is out of range; allowed: at least 1
        s.toml:15:10: traffic.p.fan_in: the number 0 is out of range; allowed: 1 to 4294967295
        s.toml:14:9: traffic.p.flows: 100 is not a multiple of fan_in (3); allowed: 99 or 102, for example
        s.toml:15:9: traffic.p.share: no effect without load
        s.toml:15:9: traffic.p.share: 0 is out of range; allowed: above 0
        s.toml:15:9: traffic.p.share: the number 1.5 is out of range; allowed: 0 to 1
        s.toml:10:10: traffic.p.links: missing: the links that load is a share of; allowed: names such as "switch->host 0" or "leaf *->spine *"
        s.toml:15:9: traffic.p.links: no effect without reference = "named-links"
        s.toml:15:10: traffic.p.links[0]: unknown link "laef 0->spine 0"; did you mean "leaf 0->spine 0"? allowed: host 0->leaf 0, leaf 0->host 0, host 1->leaf 0, leaf 0->host 1, host 2->leaf 1, leaf 1->host 2, host 3->leaf 1, leaf 1->host 3, leaf 0->spine 0, spine 0->leaf 0, leaf 1->spine 0, spine 0->leaf 1
        s.toml:15:9: traffic.p.links: no message crosses these links
        s.toml:18:9: traffic.p.pairs: this topology has no racks; allowed: "any"; or a leaf-spine, fat-tree or dumbbell topology
        s.toml:17:13: traffic.p.reference: this topology has no leaf switches with uplinks; allowed: host-links; or rate_per_s instead of a load
        "#
    );
}

#[test]
fn sizes_that_are_no_distribution_are_refused() {
    let sizes =
        |sizes: &str| plus(&format!("[traffic.p]\nkind = \"poisson\"\nflows = 1\nrate_per_s = 1\nsizes = {sizes}"));
    insta::assert_snapshot!(
        lines(&[
            sizes("{ kind = \"uniform\", min = \"2KB\", max = \"1KB\" }"),
            sizes("{ kind = \"uniform\", min = \"0B\", max = \"1KB\" }"),
            sizes("{ kind = \"log-normal\", mean = \"1KB\", sigma = 6 }"),
            sizes("{ kind = \"cdf\" }"),
            sizes("{ kind = \"cdf\", name = \"websearch\" }"),
            sizes("{ kind = \"cdf\", name = \"websearch-dtcp\", packet = \"1KB\" }"),
            sizes("{ kind = \"mixture\", share_of = \"bytes\", parts = [] }"),
            sizes(
                "{ kind = \"mixture\", share_of = \"messages\", parts = [{ share = 0.5, sizes = { kind = \"constant\", size = \"1B\" } }] }"
            ),
            sizes(
                "{ kind = \"mixture\", share_of = \"bytes\", parts = [{ share = 1, sizes = { kind = \"gauss\", size = \"1B\" } }] }"
            ),
        ]),
        @r#"
        s.toml:16:35: traffic.p.sizes.min: min (2000B) is larger than max (1000B)
        s.toml:16:35: traffic.p.sizes.min: 0B is out of range; allowed: 1B to 1024GiB
        s.toml:16:54: traffic.p.sizes.sigma: the number 6 is out of range; allowed: 0 to 5
        s.toml:16:9: traffic.p.sizes: give either name or file
        s.toml:16:32: traffic.p.sizes.name: unknown distribution "websearch"; did you mean "websearch-dctcp"? allowed: websearch-dctcp, websearch-pfabric, datamining-hkust, datamining-pfabric, datamining-opera, hadoop-hpcc, hadoop-opera, alistorage-hpcc, facebook-kv
        s.toml:16:32: traffic.p.sizes.name: unknown distribution "websearch-dtcp"; did you mean "websearch-dctcp"? allowed: websearch-dctcp, websearch-pfabric, datamining-hkust, datamining-pfabric, datamining-opera, hadoop-hpcc, hadoop-opera, alistorage-hpcc, facebook-kv
        s.toml:16:59: traffic.p.sizes.packet: no effect without file
        s.toml:16:57: traffic.p.sizes.parts: a list of 0 items; allowed: at least 1
        s.toml:16:60: traffic.p.sizes.parts: the shares add up to 0.5, not to 1
        s.toml:16:88: traffic.p.sizes.parts[0].sizes.kind: unknown kind "gauss"; allowed: "constant", "uniform", "log-normal", "cdf", "mixture"
        "#
    );
}

#[test]
fn files_are_blamed_line_by_line() {
    let read = |text: &str, content: &'static str| {
        let files = move |_: &str| Ok(content.to_owned());
        Scenario::parse_with(&format!("{GOOD}{text}"), "s.toml", &[], &files).unwrap_err().to_string()
    };
    let trace = "[traffic.t]\nkind = \"trace\"\nfile = \"flow.txt\"";
    let cdf =
        "[traffic.p]\nkind = \"poisson\"\nflows = 1\nrate_per_s = 1\nsizes = { kind = \"cdf\", file = \"my.cdf\" }";
    let missing = |_: &str| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
    let missing = Scenario::parse_with(&format!("{GOOD}{trace}"), "s.toml", &[], &missing).unwrap_err().to_string();
    insta::assert_snapshot!(
        lines(&[
            read(trace, "2\n0 1 3 100 1000 0\n0 9 3 100 1000 0\n"),
            read(cdf, "0 0\n1000 0.7\n500 1\n"),
            missing,
        ]),
        @r#"
        flow.txt:3:1: traffic.t.file: there is no host 9; hosts are numbered 0 to 4
        my.cdf:3:1: traffic.p.sizes.file: the size falls from 1000 to 500
        s.toml:14:8: traffic.t.file: cannot read "flow.txt": entity not found
        "#
    );
}

#[test]
fn a_network_of_ones_own_must_hold_together() {
    let custom = |hosts: &str, switches: &str, links: &str| {
        messages(
            &format!(
                "[topology]\nkind = \"custom\"\nhosts = {hosts}\nswitches = {switches}\nlinks = [{links}]\n\
                 [switch]\nbuffer = {{ name = \"static\", limit = \"64KiB\", count_in_service = true }}\n\
                 [traffic.burst]\nkind = \"incast\"\nsenders = 1\nsize = \"64KiB\"\n"
            ),
            &[],
        )
    };
    let link = |ends: &str| format!("{{ {ends}, rate = \"1Gbps\", delay = \"1us\" }},");
    let both = |a: &str, b: &str| link(&format!("between = [\"{a}\", \"{b}\"]"));
    insta::assert_snapshot!(
        lines(&[
            custom("[]", "[]", ""),
            custom("[\"a\", \"a\"]", "[]", ""),
            custom("[\"a\", \"\"]", "[]", ""),
            custom("[\"a\", \"b\"]", "[\"s\"]", &both("a", "s")),
            custom("[\"a\", \"b\"]", "[\"s\"]", &(both("a", "s") + &both("b", "s") + &both("a", "b"))),
            custom("[\"a\", \"b\"]", "[\"s\", \"t\"]", &(both("a", "s") + &both("b", "t"))),
            custom("[\"a\", \"b\"]", "[\"s\"]", &(both("a", "s") + &both("bb", "s") + &both("s", "s"))),
            custom("[\"a\", \"b\"]", "[\"s\"]", &(both("a", "s") + &both("b", "s") + &both("s", "b"))),
            custom("[\"a\", \"b\"]", "[\"s\"]", &(both("a", "s") + &link("from = \"b\", to = \"s\""))),
            custom(
                "[\"a\", \"b\"]",
                "[\"s\", \"t\"]",
                &(both("a", "s") + &link("from = \"b\", to = \"s\"") + &link("from = \"t\", to = \"b\""))
            ),
            custom("[\"a\", \"b\"]", "[\"s\"]", &(both("a", "s") + &link("from = \"b\""))),
            custom("[\"a\", \"b\"]", "[]", &both("a", "b")),
        ]),
        @r#"
        s.toml:3:9: topology.hosts: there are no hosts; allowed: at least one name
        s.toml:3:15: topology.hosts[1]: duplicate node name "a"
        s.toml:3:15: topology.hosts[1]: invalid node name ""; allowed: text without "->" and without spaces around it
        s.toml:3:15: topology.hosts[1]: host "b" has 0 links out and 0 in; allowed: exactly one link, in both directions
        s.toml:3:10: topology.hosts[0]: host "a" has 2 links out and 2 in; allowed: exactly one link, in both directions
        s.toml:3:15: topology.hosts[1]: host "b" has 2 links out and 2 in; allowed: exactly one link, in both directions
        s.toml:3:15: topology.hosts[1]: no path leads from "a" to "b"
        s.toml:5:79: topology.links[1].between[0]: unknown node "bb"; did you mean "b"? allowed: a, b, s
        s.toml:5:123: topology.links[2]: a link needs two different ends
        s.toml:5:122: topology.links[2]: these ends are already linked (links[1])
        s.toml:3:15: topology.hosts[1]: host "b" has 1 links out and 0 in; allowed: exactly one link, in both directions
        s.toml:3:15: topology.hosts[1]: host "b" sends to one neighbour and receives from another; allowed: exactly one link, in both directions
        s.toml:5:66: topology.links[1]: a link needs either two ends (between) or one direction (from and to); allowed: between = ["a", "b"], or from = "a" and to = "b"
        no problem
        "#
    );
}

#[test]
fn tcp_that_cannot_work_is_refused_where_it_is_written() {
    insta::assert_snapshot!(
        lines(&[
            plus("[tcp]\nmss = \"0B\""),
            plus("[tcp]\nmss = \"65500B\""),
            plus("[tcp]\nheader = \"0B\""),
            plus("[tcp]\nrto_min = \"2s\"\nrto_max = \"1s\""),
            plus("[tcp]\nrto_initial = \"2s\"\nrto_max = \"1s\""),
            plus("[tcp]\nrto_min = \"0s\""),
            plus("[tcp]\nreceive_buffer = \"1KB\""),
            plus("[tcp]\nrto_max = \"1s\"\n[traffic.burst.tcp]\nrto_min = \"3s\""),
            plus("[tcp]\ndelayed_ack = { timeout = \"0s\" }"),
            plus("[tcp]\nprofile = \"linus\""),
            with("limit = \"64KiB\"", "limit = \"1499B\""),
            with("limit = \"64KiB\"", "limit = \"0packets\""),
        ]),
        @r#"
        s.toml:13:7: tcp.mss: 0B is out of range; allowed: 1B to 65535B
        s.toml:12:2: tcp.header: 52B is out of range; allowed: at least 1B, and at most 65535B together with mss (65500B)
        s.toml:13:10: tcp.header: 0B is out of range; allowed: at least 1B, and at most 65535B together with mss (1448B)
        s.toml:13:11: tcp.rto_min: 2s is above rto_max; allowed: at most 1s
        s.toml:13:15: tcp.rto_initial: 2s is above rto_max; allowed: at most 1s
        s.toml:13:11: tcp.rto_min: 0s is out of range; allowed: above 0s
        s.toml:13:18: tcp.receive_buffer: 1000B is out of range; allowed: one segment (1448B) to 1GiB
        s.toml:15:11: traffic.burst.tcp.rto_min: 3s is above rto_max; allowed: at most 1s
        s.toml:13:15: tcp.delayed_ack: the timeout is 0s; allowed: a timeout above 0s, or "none"
        s.toml:13:11: tcp.profile: unknown name "linus"; did you mean "linux"? allowed: "linux", "linux-6", "linux-no-rack", "ns3", "paper"
        s.toml:7:37: switch.buffer.limit: a full packet (1500B with its header) does not fit into this buffer
        s.toml:7:37: switch.buffer.limit: a full packet (1500B with its header) does not fit into this buffer
        "#
    );
}

#[test]
fn stacks_that_cannot_work_are_refused_with_their_own_sentence() {
    insta::assert_snapshot!(
        lines(&[
            plus("[stack]\nsender = \"dctcp\""),
            plus("[traffic.burst.stack]\nsender = \"dctcp\""),
            with("[switch]", "[stack]\nsender = \"dctcp\"\necho = \"rfc3168\"\n[switch]\nmarker = \"ecn-threshold\""),
        ]),
        @r#"
        s.toml:13:10: stack.sender: "dctcp" does not work with marker = "none": DCTCP learns from congestion marks: give the switch ports a marker that sets CE, such as "ecn-threshold"
        s.toml:13:10: traffic.burst.stack.sender: "dctcp" does not work with marker = "none": DCTCP learns from congestion marks: give the switch ports a marker that sets CE, such as "ecn-threshold"
        s.toml:7:10: stack.sender: "dctcp" does not work with echo = "rfc3168": DCTCP needs every mark echoed exactly (RFC 8257 section 3.2): use the echo "dctcp"
        "#
    );
}

#[test]
fn what_cannot_be_recorded_is_refused() {
    insta::assert_snapshot!(
        lines(&[
            plus("[record]\nqueue_series = [\"switch->host 9\", \"host 0->switch\"]"),
            plus("[record]\nqueue_series = [\"swich->host 3\"]"),
            plus("[record]\nwindow_series = [\"bursts\", \"burst:x\", \"burst:3-1\"]"),
            plus("[record]\nwindow_series = [\"burst:0-4\"]"),
            plus("[record]\npackets = [\"hosts\", \"host 9->switch\"]\npackets_of = [\"burst:7\"]"),
            messages(
                &format!(
                    "{LEAF_SPINE}[traffic.p]\nkind = \"poisson\"\nflows = 1\nrate_per_s = 1\n\
                     sizes = {{ kind = \"constant\", size = \"1B\" }}\n[record]\nqueue_series = [\"bottlenecks\"]"
                ),
                &[]
            ),
        ]),
        @r#"
        s.toml:13:17: record.queue_series[0]: unknown switch port "switch->host 9"; did you mean "switch->host 0"? allowed: bottlenecks, all, switch->host 0, switch->host 1, switch->host 2, switch->host 3, switch->host 4
        s.toml:13:35: record.queue_series[1]: unknown switch port "host 0->switch"; allowed: bottlenecks, all, switch->host 0, switch->host 1, switch->host 2, switch->host 3, switch->host 4
        s.toml:13:17: record.queue_series[0]: unknown switch port "swich->host 3"; did you mean "switch->host 3"? allowed: bottlenecks, all, switch->host 0, switch->host 1, switch->host 2, switch->host 3, switch->host 4
        s.toml:13:18: record.window_series[0]: unknown class of traffic "bursts"; did you mean "burst"? allowed: burst
        s.toml:13:28: record.window_series[1]: "burst:x" does not name connections; allowed: burst, burst:0, burst:0-9
        s.toml:13:39: record.window_series[2]: "burst:3-1" does not name connections; allowed: burst, burst:0, burst:0-9
        s.toml:13:18: record.window_series[0]: there is no connection 4: this class has 4, numbered from 0
        s.toml:13:21: record.packets[1]: unknown port "host 9->switch"; did you mean "host 0->switch"? allowed: bottlenecks, all, hosts, host 0->switch, switch->host 0, host 1->switch, switch->host 1, host 2->switch, switch->host 2, host 3->switch, switch->host 3, host 4->switch, switch->host 4
        s.toml:16:17: record.queue_series[0]: none of the traffic has a bottleneck known beforehand: name the ports
        "#
    );
}

#[test]
fn runs_without_end_or_beyond_all_measure_are_refused() {
    let long = "[traffic.l]\nkind = \"long\"\nsenders = 1\n";
    let endless = GOOD.replacen("[traffic.burst]\nkind = \"incast\"\nsenders = 4\nsize = \"64KiB\"\n", long, 1);
    insta::assert_snapshot!(
        lines(&[
            messages(&endless, &[]),
            plus("repetitions = 4000000000\ninterval = \"1ns\""),
            plus("[traffic.r]\nkind = \"rounds\"\nworkers = 4\nrounds = 4000000000\nresponse = \"1B\""),
            plus("[traffic.\"a:b\"]\nkind = \"incast\"\nsenders = 1\nsize = \"1B\""),
            messages(
                &LEAF_SPINE.replace("leaves = 2", "leaves = 100000").replace("spines = 1", "spines = 100000"),
                &["traffic.a={kind=\"incast\",senders=1,size=\"1B\"}"]
            ),
        ]),
        @r#"
        s.toml:1:1: run.stop_at: missing: none of the traffic ever ends; allowed: a time ("2s")
        s.toml:8:10: traffic.burst: the run would have 16000000000 messages; allowed: at most 50000000
        s.toml:12:10: traffic.r: the run would have 16000000004 messages; allowed: at most 50000000
        s.toml:12:10: traffic."a:b": invalid class name "a:b"; allowed: letters, digits, - and _
        s.toml:1:2: topology: 20000400000 links are too many (each direction counts); allowed: at most 4000000
        "#
    );
}

#[test]
fn text_that_is_no_toml_is_refused_where_it_breaks() {
    insta::assert_snapshot!(
        lines(&[
            plus("size = \"1B\""),
            plus("[traffic"),
            plus("x = 5us"),
            messages("\u{feff}\u{0}", &[]),
        ]),
        @r#"
        s.toml:12:1: invalid TOML: duplicate key
        s.toml:12:9: invalid TOML: unclosed table, expected `]`
        s.toml:12:5: invalid TOML: string values must be quoted, expected literal string
        s.toml:1:3: invalid TOML: key with no value, expected `=`
        "#
    );
}

#[test]
fn overrides_are_blamed_by_their_key() {
    let set = |overrides: &[&str]| messages(GOOD, overrides);
    insta::assert_snapshot!(
        lines(&[
            set(&["traffic.burst.sender=40"]),
            set(&["traffic.burst.senders=40"]),
            set(&["traffic.burst.size=64"]),
            set(&["topology.link={ rate = \"1Gbps\" }"]),
            set(&["topology.link={ rate = \"0bps\", delay = \"1us\" }"]),
            set(&["stack.sender=dtcp"]),
            set(&["seed.x=1"]),
            set(&["seed"]),
            set(&["name.x=1"]),
            set(&["tcp.rto_max=1ms", "weather=3"]),
        ]),
        @r#"
        --set traffic.burst.sender: unknown key "sender"; did you mean "senders"? allowed: connections, deadline, interval, jitter, kind, priority, receiver, repetitions, senders, size, stack, start, tcp, total, window
        --set traffic.burst.senders: 40 senders, but there are only 4 hosts besides host 0
        --set traffic.burst.size: expected an amount of data ("64KiB"), found the number 64: add the unit, in quotes
        --set topology.link: missing key "delay"; allowed: a time ("40us")
        --set topology.link: topology.link.rate: 0bps is out of range; allowed: 1Mbps to 10000Gbps
        --set stack.sender: unknown name "dtcp"; did you mean "dctcp"? allowed: "newreno", "cubic", "dctcp", "d2tcp", "mrg", "dcmrg", "pulser", "rdtcp", "swift", "hpcc", or a table with a name and parameters
        --set seed.x: seed: expected a whole number, found a table
        --set seed: no value: write key=value
        --set name.x: name: expected a string, found a table
        --set weather: unknown key "weather"; allowed: hosts, name, record, run, seed, stack, switch, tcp, topology, traffic
        "#
    );
    assert_eq!(
        set(&["topology.link.rate=10Gbps", "seed=3", "tcp.mss=1000B", "traffic.burst.senders=[1,2]"]),
        "no problem"
    );
}

#[test]
fn many_problems_are_told_at_once_in_the_order_of_the_file() {
    let text = GOOD
        .replace("hosts = 5", "hosts = 5\nhost = 1")
        .replace("25us", "25")
        .replace("senders = 4", "senders = \"all\"");
    insta::assert_snapshot!(messages(&text, &["tcp.mss=1"]), @r#"
    s.toml:5:1: topology.host: unknown key "host"; did you mean "hosts"? allowed: delay_step, hosts, kind, link
    s.toml:6:34: topology.link.delay: "25" has no unit; a time is a number with one of the units ps, ns, us, ms, s
    s.toml:11:11: traffic.burst.senders: expected a whole number or a list, found the string "all"
    --set tcp.mss: expected an amount of data ("64KiB"), found the number 1: add the unit, in quotes
    "#);
    let text = GOOD.replace("1Gbps", "0bps").replace("[switch]", "[tcp]\nmss = \"0B\"\n[switch]");
    insta::assert_snapshot!(messages(&text, &[]), @r#"
    s.toml:5:17: topology.link.rate: 0bps is out of range; allowed: 1Mbps to 10000Gbps
    s.toml:7:7: tcp.mss: 0B is out of range; allowed: 1B to 65535B
    "#);
    let text =
        GOOD.replace("senders = 4", "senders = 9\nreceiver = 4\nwindow = \"kept\"").replace("64KiB\"\n", "0B\"\n");
    insta::assert_snapshot!(messages(&text, &["record.window_series=[\"nobody\"]"]), @r#"
    s.toml:10:11: traffic.burst.senders: 9 senders, but there are only 4 hosts besides host 4
    s.toml:12:10: traffic.burst.window: no effect: every message has a connection of its own; allowed: only with connections = "persistent"
    --set record.window_series: record.window_series[0]: unknown class of traffic "nobody"; allowed: burst
    "#);
}

#[test]
fn a_shared_memory_that_cannot_work_is_refused_where_it_is_written() {
    let shared = |keys: &str| {
        let limit = "name = \"static\", limit = \"64KiB\", count_in_service = true";
        with(limit, &format!("name = \"dynamic-threshold\"{keys}"))
    };
    insta::assert_snapshot!(
        lines(&[
            shared(", size = \"2MB\", alpha = 0.5, reserve = \"3KB\", cell = \"208B\""),
            shared(""),
            shared(", size = \"1KB\""),
            shared(", size = \"2MB\", alpha = 0"),
            shared(", size = \"2MB\", alpha = 2000"),
            shared(", size = \"2MB\", alpha = \"1/2\""),
            shared(", size = \"2MB\", apha = 1"),
        ]),
        @r#"
        no problem
        s.toml:7:10: switch.buffer: missing key "size"; allowed: an amount of data ("64KiB")
        s.toml:7:47: switch.buffer.size: a full packet (1500B with its header) does not fit into this buffer
        s.toml:7:62: switch.buffer.alpha: the number 0 is out of range; allowed: 0.000001 to 1024
        s.toml:7:62: switch.buffer.alpha: the number 2000 is out of range; allowed: 0.000001 to 1024
        s.toml:7:62: switch.buffer.alpha: expected a number, found the string "1/2"
        s.toml:7:54: switch.buffer.apha: unknown key "apha"; did you mean "alpha"? allowed: alpha, cell, name, reserve, size
        "#
    );
}

#[test]
fn workers_that_cannot_be_meant() {
    let rounds = |more: &str| {
        plus(&format!("[traffic.r]\nkind = \"rounds\"\nworkers = 2\nresponse = \"1KB\"\nrounds = 1\n{more}"))
    };
    insta::assert_snapshot!(
        lines(&[
            rounds("connections_per_worker = 0"),
            rounds("connections_per_worker = 4000000000"),
            rounds("service_time = { kind = \"measured\" }"),
            rounds("service_time = { kind = \"measured\", times = [] }"),
            rounds("service_time = { kind = \"measured\", times = [\"1us\"], file = \"times.txt\" }"),
            rounds("service_time = { kind = \"measured\", file = \"nowhere.txt\" }"),
            rounds("service_time = { kind = \"mesured\", times = [\"1us\"] }"),
            rounds("stragglers = {}"),
            rounds("stragglers = { workers = 3, delay = \"1ms\" }"),
            rounds("stragglers = { workers = [4], delay = \"1ms\" }"),
            rounds("stragglers = { workers = [0], delay = \"1ms\" }"),
            rounds("stragglers = { chance = 1.5, delay = \"1ms\" }"),
            rounds("stragglers = { factor = 0.5 }"),
        ]),
        @r#"
        s.toml:17:26: traffic.r.connections_per_worker: the number 0 is out of range; allowed: 1 to 4294967295
        s.toml:17:26: traffic.r.connections_per_worker: 4000000000 is out of range; allowed: 1 to 500000
        s.toml:17:16: traffic.r.service_time: missing: give times or file
        s.toml:17:45: traffic.r.service_time.times: no times: at least one is needed
        s.toml:17:61: traffic.r.service_time.file: both times and file are given: choose one
        s.toml:17:44: traffic.r.service_time.file: cannot read "nowhere.txt": No such file or directory (os error 2)
        s.toml:17:25: traffic.r.service_time.kind: unknown kind "mesured"; did you mean "measured"? allowed: "exponential", "truncated-exponential", "measured"
        s.toml:17:14: traffic.r.stragglers: missing: give factor (how many times as long) or delay (how much longer)
        s.toml:17:26: traffic.r.stragglers.workers: 3 stragglers, but there are only 2 workers
        s.toml:17:27: traffic.r.stragglers.workers[0]: host 4 is not a worker
        s.toml:17:27: traffic.r.stragglers.workers[0]: host 0 is the aggregator
        s.toml:17:25: traffic.r.stragglers.chance: the number 1.5 is out of range; allowed: 0 to 1
        s.toml:17:25: traffic.r.stragglers.factor: the number 0.5 is out of range; allowed: 1 to 1000000
        "#
    );
}

/// Good jobs with some keys in place of theirs, or without them.
fn jobs(keys: &[&str]) -> String {
    let mut all = vec!["schedulers = { per_rack = 1 }", "fan_in = 2", "jobs = 1", "jobs_per_s = 3"];
    for key in keys {
        let name = key.split(" =").next().unwrap();
        all.retain(|known| !known.starts_with(&format!("{name} =")));
        all.push(key);
    }
    all.retain(|key| !key.ends_with("= none"));
    let class = "[traffic.j]\nkind = \"fork-join\"\nsizes = { kind = \"constant\", size = \"1KB\" }\n";
    messages(&format!("{LEAF_SPINE}{class}{}", all.join("\n")), &[])
}

#[test]
fn jobs_that_cannot_be_meant() {
    let star = |keys: &str| {
        plus(&format!(
            "[traffic.j]\nkind = \"fork-join\"\nsizes = {{ kind = \"constant\", size = \"1KB\" }}\njobs = 1\njobs_per_s = 3\n{keys}"
        ))
    };
    insta::assert_snapshot!(
        lines(&[
            jobs(&[]),
            jobs(&["schedulers = none"]),
            jobs(&["schedulers = 0"]),
            jobs(&["schedulers = 5"]),
            jobs(&["schedulers = 4"]),
            jobs(&["schedulers = []"]),
            jobs(&["schedulers = [1, 1]"]),
            jobs(&["schedulers = { per_rack = 0 }"]),
            jobs(&["schedulers = { per_rack = 3 }"]),
            jobs(&["schedulers = { racks = 3 }"]),
            star("schedulers = { per_rack = 1 }\nfan_in = 1"),
            jobs(&["workers = [1, 2]"]),
            jobs(&["workers = [3]"]),
            jobs(&["fan_in = 0"]),
            jobs(&["fan_in = 3"]),
            jobs(&["fan_in = { min = 1, max = 3 }"]),
            jobs(&["fan_in = { min = 2, max = 1 }"]),
            jobs(&["fan_in = { min = 0, max = 1 }"]),
            jobs(&["jobs = none"]),
            jobs(&["until = \"1s\""]),
            jobs(&["jobs_per_s = none"]),
            jobs(&["load = 0.5"]),
            jobs(&["load = 0", "jobs_per_s = none"]),
            jobs(&["jobs_per_s = 0"]),
            jobs(&["jobs_per_s = 1e-9"]),
            jobs(&["jobs = 40000000"]),
            jobs(&["request = \"0B\""]),
        ]),
        @r#"
        no problem
        s.toml:10:10: traffic.j: missing key "schedulers"; allowed: a whole number, a list or a table
        s.toml:16:14: traffic.j.schedulers: no hosts: at least one is needed
        s.toml:16:14: traffic.j.schedulers: 5 hosts, but there are only 4
        s.toml:16:14: traffic.j.schedulers: every host has a scheduler, so no worker is left
        s.toml:16:14: traffic.j.schedulers: no hosts: at least one is needed
        s.toml:16:18: traffic.j.schedulers[1]: host 1 is listed twice
        s.toml:16:27: traffic.j.schedulers.per_rack: the number 0 is out of range; allowed: 1 to 4294967295
        s.toml:16:14: traffic.j.schedulers: 3 hosts of each rack, but rack 0 has only 2
        s.toml:16:14: traffic.j.schedulers: missing key "per_rack"; allowed: a whole number
        s.toml:16:16: traffic.j.schedulers.racks: unknown key "racks"; allowed: per_rack
        s.toml:17:14: traffic.j.schedulers: this topology has no racks; allowed: a number or a list of hosts; or a leaf-spine, fat-tree or dumbbell topology
        s.toml:17:15: traffic.j.workers[1]: host 2 has a scheduler and would answer itself
        s.toml:14:10: traffic.j.fan_in: 2 is out of range; allowed: 1 to 1, the number of workers
        s.toml:16:10: traffic.j.fan_in: the number 0 is out of range; allowed: 1 to 4294967295
        s.toml:16:10: traffic.j.fan_in: 3 is out of range; allowed: 1 to 2, the number of workers
        s.toml:16:27: traffic.j.fan_in.max: 3 is out of range; allowed: 1 to 2, the number of workers
        s.toml:16:18: traffic.j.fan_in.min: min (2) is larger than max (1)
        s.toml:16:18: traffic.j.fan_in.min: the number 0 is out of range; allowed: 1 to 4294967295
        s.toml:10:10: traffic.j.jobs: missing: give jobs (how many) or until (when they stop)
        s.toml:17:9: traffic.j.until: both jobs and until are given: choose one
        s.toml:10:10: traffic.j.load: missing: give load (a share of the links to the schedulers) or jobs_per_s (for each)
        s.toml:16:14: traffic.j.jobs_per_s: both load and jobs_per_s are given: choose one
        s.toml:16:8: traffic.j.load: 0 is out of range; allowed: above 0
        s.toml:16:14: traffic.j.jobs_per_s: 0.0 is out of range; allowed: above 0, at most 1e12
        s.toml:10:10: traffic.j: at this rate the last of the jobs arrive after 1000000s
        s.toml:10:10: traffic.j: the run would have 80000000 messages; allowed: at most 50000000
        s.toml:17:11: traffic.j.request: 0B is out of range; allowed: 1B to 1024GiB
        "#
    );
}

#[test]
fn task_times_and_cases_that_cannot_be_meant() {
    insta::assert_snapshot!(
        lines(&[
            jobs(&["task_time = { kind = \"truncated-exponential\", mean = \"5ms\" }"]),
            jobs(&["task_time = { kind = \"truncated-exponential\", mean = \"5ms\", cut = \"0s\" }"]),
            jobs(&["task_time = { kind = \"truncated-exponential\", mean = \"5ms\", cut = \"9999999s\" }"]),
            jobs(&["task_time = { kind = \"truncated-exponential\", mean = \"5ms\", cut = \"5ms\", beyond = \"clamp\" }"]),
            jobs(&["cases = []"]),
            jobs(&["cases = [{ deadline = \"1ms\" }, { deadline = \"9999999s\" }]"]),
            jobs(&["cases = [{ mean = \"1ms\" }]"]),
            jobs(&["cases = [{ task_time = { kind = \"exponential\" } }]"]),
            jobs(&["cases = [{ deadline = \"1ms\" }, { deadline = \"2ms\" }]", "deadline = \"3ms\""]),
            jobs(&["cases = [{ deadline = \"1ms\" }, { task_time = \"2ms\" }]", "deadline = \"3ms\"", "task_time = \"1ms\""]),
        ]),
        @r#"
        s.toml:17:13: traffic.j.task_time: missing key "cut"; allowed: a time ("40us")
        s.toml:17:67: traffic.j.task_time.cut: 0s is out of range; allowed: above 0s
        s.toml:17:67: traffic.j.task_time.cut: 9999999s is out of range; allowed: at most 1000000s
        s.toml:17:83: traffic.j.task_time.beyond: unknown name "clamp"; allowed: "drawn-again", "cut"
        s.toml:17:9: traffic.j.cases: a list of 0 items; allowed: at least 1
        s.toml:17:45: traffic.j.cases[1].deadline: 9999999s is out of range; allowed: at most 1000000s
        s.toml:17:12: traffic.j.cases[0].mean: unknown key "mean"; allowed: deadline, task_time
        s.toml:17:24: traffic.j.cases[0].task_time: missing key "mean"; allowed: a time ("40us")
        s.toml:18:12: traffic.j.deadline: no effect: every case has a deadline of its own
        no problem
        "#
    );
}

#[test]
fn deadlines_that_cannot_be_meant() {
    let deadlines = |deadlines: &str| {
        plus(&format!(
            "[traffic.p]\nkind = \"poisson\"\nflows = 1\nrate_per_s = 1\nsizes = {{ kind = \"constant\", size = \"1KB\" }}\n\
             deadlines = {deadlines}"
        ))
    };
    let rules = |rules: &str| deadlines(&format!("{{ rules = [{rules}] }}"));
    insta::assert_snapshot!(
        lines(&[
            rules("{ up_to = \"1KB\", rate = \"1Gbps\" }, { offset = \"1ms\" }"),
            deadlines("{ share = 0.2 }"),
            deadlines("{ share = 1.2, rules = [{ offset = \"1ms\" }] }"),
            rules(""),
            rules("{}"),
            rules("{ up_to = \"1KB\", offset = \"1ms\" }"),
            rules("{ offset = \"1ms\" }, { offset = \"2ms\" }"),
            rules("{ up_to = \"2KB\", offset = \"1ms\" }, { up_to = \"2KB\", offset = \"1ms\" }, { offset = \"2ms\" }"),
            rules("{ up_to = \"0B\", offset = \"1ms\" }, { offset = \"2ms\" }"),
            rules("{ offset = \"9999999s\" }"),
            rules("{ rate = \"0bps\" }"),
            deadlines("{ rules = [{ offset = \"1ms\" }] }\ndeadline = \"1ms\""),
            deadlines("{ rules = [{ offset = \"1ms\" }] }\nexcept = 4"),
            deadlines("{ rules = [{ offset = \"1ms\" }] }\nexcept = [1, 7]"),
            deadlines("{ rules = [{ offset = \"1ms\" }] }\nexcept = { per_rack = 1 }"),
        ]),
        @r#"
        no problem
        s.toml:17:13: traffic.p.deadlines: missing key "rules"; allowed: a list
        s.toml:17:23: traffic.p.deadlines.share: the number 1.2 is out of range; allowed: 0 to 1
        s.toml:17:23: traffic.p.deadlines.rules: a list of 0 items; allowed: at least 1
        s.toml:17:24: traffic.p.deadlines.rules[0]: missing: give offset, rate or both
        s.toml:17:34: traffic.p.deadlines.rules[0].up_to: no rule covers messages larger than 1000B; allowed: a last rule without up_to
        s.toml:17:24: traffic.p.deadlines.rules[0]: covers all sizes, so later rules never apply; allowed: up_to here, or no later rule
        s.toml:17:69: traffic.p.deadlines.rules[1].up_to: 2000B covers no size that earlier rules do not cover; allowed: ascending sizes above 0B
        s.toml:17:34: traffic.p.deadlines.rules[0].up_to: 0B covers no size that earlier rules do not cover; allowed: ascending sizes above 0B
        s.toml:17:35: traffic.p.deadlines.rules[0].offset: 9999999s is out of range; allowed: at most 1000000s
        s.toml:17:33: traffic.p.deadlines.rules[0].rate: 0bps is out of range; allowed: 1Mbps to 10000Gbps
        s.toml:17:13: traffic.p.deadlines: both deadline and deadlines are given: choose one
        s.toml:18:10: traffic.p.except: at least two hosts are needed
        s.toml:18:14: traffic.p.except[1]: there is no host 7; hosts are numbered 0 to 4
        s.toml:18:10: traffic.p.except: this topology has no racks; allowed: a number or a list of hosts; or a leaf-spine, fat-tree or dumbbell topology
        "#
    );
}

/// A distribution of host noise has to be one.
#[test]
fn noise_that_is_no_distribution_is_refused() {
    let noise = |text: &str| plus(&format!("[hosts]\nnoise = {text}\n"));
    let quantiles = |points: &str| noise(&format!("{{ kind = \"measured\", quantiles = [{points}] }}"));
    assert_eq!(quantiles("[0, \"0us\"], [0.5, \"1us\"], [1, \"1us\"]"), "no problem");
    insta::assert_snapshot!(lines(&[
        noise("\"exponential\""),
        noise("{ kind = \"normal\", mean = \"1us\" }"),
        noise("{ kind = \"exponential\", mean = 1 }"),
        noise("{ kind = \"uniform\", max = \"2000000s\" }"),
        quantiles("[0, \"0us\"]"),
        quantiles("[0, \"0us\"], [1, \"3us\", 4]"),
        quantiles("[0.1, \"0us\"], [1, \"3us\"]"),
        quantiles("[0, \"3us\"], [1, \"2us\"]"),
        quantiles("[0, \"3us\"], [1.5, \"4us\"]"),
    ]), @r#"
    s.toml:13:9: hosts.noise: expected a table, found the string "exponential"
    s.toml:13:18: hosts.noise.kind: unknown kind "normal"; allowed: "none", "uniform", "exponential", "measured"
    s.toml:13:40: hosts.noise.mean: expected a time ("40us"), found the number 1: add the unit, in quotes
    s.toml:13:35: hosts.noise.max: 2000000s is out of range; allowed: at most 1000000s
    s.toml:13:42: hosts.noise.quantiles: a list of 1 items; allowed: at least 2
    s.toml:13:55: hosts.noise.quantiles[1]: a list of 3 items; allowed: 2
    s.toml:13:42: hosts.noise.quantiles: these points are not those of a cumulative distribution; allowed: fractions that rise from 0 to 1, with times that do not fall
    s.toml:13:42: hosts.noise.quantiles: these points are not those of a cumulative distribution; allowed: fractions that rise from 0 to 1, with times that do not fall
    s.toml:13:56: hosts.noise.quantiles[1][0]: the number 1.5 is out of range; allowed: 0 to 1
    "#);
}

/// Nobody reads 32,000 lines, and to make them took the square of their number.
#[test]
fn a_list_that_is_wrong_in_every_item_is_told_of_briefly() {
    let items = vec!["-1"; 32_000].join(",");
    let text = format!(
        "[topology]\nkind = \"star\"\nhosts = 4\nlink = {{ rate = \"1Gbps\", delay = \"1us\" }}\n\
         [traffic.b]\nkind = \"incast\"\nsize = \"1KB\"\nsenders = [{items}]\n"
    );
    let told = incast_scenario::Scenario::parse(&text, "many.toml", &[]).unwrap_err().to_string();
    assert_eq!(told.lines().count(), 51);
    assert_eq!(told.lines().last(), Some("and 31950 more problems"));
}
