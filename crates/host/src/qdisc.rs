//! Whether a device has queues that can be looked at, and how fast it is.

use std::fs;
use std::process::Command;

use serde::Deserialize;

/// What `tc -j qdisc show` says of each.
#[derive(Debug, Deserialize)]
struct Shown {
    kind: String,
    #[serde(default)]
    handle: String,
    #[serde(default)]
    root: bool,
    /// The class that it is in, as `1:2`, or `:2` if the root has no number.
    #[serde(default)]
    parent: String,
    #[serde(default)]
    options: Options,
}

#[derive(Debug, Default, Deserialize)]
struct Options {
    /// Bytes per second.
    rate: Option<u64>,
}

/// These keep no count of all that waits in them, or have no queue.
const WITHOUT_BACKLOG: [&str; 4] = ["noqueue", "mq", "mqprio", "pfifo_fast"];

/// A port whose backlog is counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Port {
    pub(crate) rate_bps: u64,
    /// Its device has several queues, each with a count of its own, which leave by one line.
    pub(crate) shares_line: bool,
}

/// A device as a port: the rate is that given, its queues', or its link's, in bits per second.
pub(crate) fn check(device: &str, given_bps: Option<u64>) -> Result<Port, String> {
    let queues = queues(device, &show(device)?)?;
    let rate_bps = first(device, [given_bps, queues.rate_bps, rate_of_link(device)])?;
    Ok(Port { rate_bps, shares_line: queues.shares_line })
}

/// Its rate likewise, whatever its queues can tell besides.
pub(crate) fn rate(device: &str, given_bps: Option<u64>) -> Result<u64, String> {
    let queue_bps = show(device).and_then(|shown| queues(device, &shown)).ok().and_then(|queues| queues.rate_bps);
    first(device, [given_bps, queue_bps, rate_of_link(device)])
}

/// The largest packet of a device, in bytes.
pub(crate) fn mtu(device: &str) -> Result<u64, String> {
    #[derive(Deserialize)]
    struct Link {
        mtu: u64,
    }
    let shown = Command::new("ip").args(["-j", "link", "show", "dev", device]).output();
    let shown = shown.map_err(|error| format!("ip: {error} (Debian, Ubuntu: apt-get install iproute2)"))?;
    if !shown.status.success() {
        return Err(format!("ip link show dev {device}: {}", String::from_utf8_lossy(&shown.stderr).trim()));
    }
    let links: Vec<Link> =
        serde_json::from_slice(&shown.stdout).map_err(|error| format!("ip link show dev {device}: {error}"))?;
    links.first().map(|link| link.mtu).ok_or(format!("ip link show dev {device}: it says nothing"))
}

fn first(device: &str, rates: [Option<u64>; 3]) -> Result<u64, String> {
    rates
        .into_iter()
        .flatten()
        .find(|rate| *rate > 0)
        .ok_or(format!("neither {device} nor its queue says how fast it is: add --rate, such as --rate 1Gbps"))
}

fn show(device: &str) -> Result<String, String> {
    let shown = Command::new("tc").args(["-j", "qdisc", "show", "dev", device]).output();
    let shown = shown.map_err(|error| format!("tc: {error} (Debian, Ubuntu: apt-get install iproute2)"))?;
    if !shown.status.success() {
        return Err(format!("tc qdisc show dev {device}: {}", String::from_utf8_lossy(&shown.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&shown.stdout).into_owned())
}

/// What the queues of a device say of themselves.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Queues {
    /// If they have one.
    rate_bps: Option<u64>,
    shares_line: bool,
}

/// Checks that every queue of the device is one whose backlog is counted.
fn queues(device: &str, shown: &str) -> Result<Queues, String> {
    let all: Vec<Shown> =
        serde_json::from_str(shown).map_err(|error| format!("tc qdisc show dev {device}: {error}"))?;
    let counts = |queue: &Shown| !WITHOUT_BACKLOG.contains(&queue.kind.as_str());
    let rate_bps = |queue: &Shown| queue.options.rate.map(|bytes| bytes.saturating_mul(8));
    match all.iter().find(|each| each.root) {
        Some(root) if counts(root) => Ok(Queues { rate_bps: rate_bps(root), shares_line: false }),
        Some(root) if root.kind == "mq" => {
            // A root without a number is shown as 0:, and its classes as :1, :2, ...
            let number = root.handle.trim_end_matches(':').trim_start_matches('0');
            let children: Vec<&Shown> =
                all.iter().filter(|each| each.parent.split_once(':').is_some_and(|(of, _)| of == number)).collect();
            if let Some(child) = children.iter().find(|child| !counts(child)) {
                let place = &child.parent;
                let mend = if number.is_empty() {
                    format!(
                        "sysctl -w net.core.default_qdisc=fq_codel, and tc qdisc replace dev {device} root handle 1: mq"
                    )
                } else {
                    format!("tc qdisc replace dev {device} parent {place} fq_codel")
                };
                return Err(format!(
                    "queue {place} of {device} has {}, which keeps no count of what waits in it; allowed in the queues of mq: \
                     one that does, such as fq_codel: {mend}",
                    child.kind
                ));
            }
            if children.is_empty() {
                return Err(format!("tc qdisc show dev {device}: mq has no queues"));
            }
            Ok(Queues { rate_bps: sum(children.iter().map(|child| rate_bps(child))), shares_line: true })
        }
        root => {
            let kind = root.map_or("noqueue", |root| root.kind.as_str());
            Err(format!(
                "the root queueing discipline of {device} is {kind}, which keeps no count of what waits at the port; \
                 allowed: one queue for all, such as tc qdisc replace dev {device} root handle 1: tbf rate 1gbit \
                 burst 64kb limit 512kb, or fq_codel, or mq with such a queue for each of the device's"
            ))
        }
    }
}

/// Of all rates, if all are known.
fn sum(mut rates: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    rates.try_fold(0_u64, |sum, rate| Some(sum.saturating_add(rate?)))
}

/// What a real device says. Virtual ones say anything.
fn rate_of_link(device: &str) -> Option<u64> {
    let place = format!("/sys/class/net/{device}");
    if fs::canonicalize(&place).ok()?.starts_with("/sys/devices/virtual") {
        return None;
    }
    let mbps: i64 = fs::read_to_string(place + "/speed").ok()?.trim().parse().ok()?;
    (mbps > 0).then_some(mbps as u64 * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutations::{is_a_message, mutated_text};
    use proptest::prelude::*;
    use serde_json::json;

    fn devices() -> Vec<serde_json::Value> {
        vec![
            json!([{ "kind": "tbf", "handle": "1:", "root": true, "options": { "rate": 6_250_000, "burst": 3200 } },
                   { "kind": "bfifo", "handle": "2:", "parent": "1:1", "options": {} }]),
            json!([{ "kind": "mq", "handle": "0:", "root": true, "options": {} },
                   { "kind": "fq_codel", "handle": "0:", "parent": ":2" },
                   { "kind": "tbf", "handle": "0:", "parent": ":1", "options": { "rate": 6_250_000 } }]),
            json!([{ "kind": "noqueue", "handle": "0:", "root": true, "refcnt": 2, "options": {} }]),
        ]
    }

    proptest! {
        #[test]
        fn mutated_queues_are_understood_or_refused_with_a_message(shown in mutated_text(devices())) {
            if let Err(error) = queues("p0", &shown) {
                prop_assert!(is_a_message(&error) && error.contains("p0"), "{error:?}");
            }
        }

        #[test]
        fn rates_of_any_size_are_added_up_and_never_wrap(rates in prop::collection::vec(any::<u64>(), 1..4)) {
            let below = |rate| json!({ "kind": "tbf", "parent": ":1", "options": { "rate": rate } });
            let all: Vec<_> = std::iter::once(json!({ "kind": "mq", "handle": "0:", "root": true }))
                .chain(rates.iter().map(below))
                .collect();
            let bits: u128 = rates.iter().map(|rate| u128::from(*rate) * 8).sum();
            let most = u64::try_from(bits).unwrap_or(u64::MAX);
            prop_assert_eq!(queues("p", &json!(all).to_string()).unwrap().rate_bps, Some(most));
        }
    }

    const fn of_one(rate_bps: Option<u64>) -> Queues {
        Queues { rate_bps, shares_line: false }
    }

    #[test]
    fn the_rate_is_that_of_the_root() {
        let tbf = r#"[{"kind":"tbf","handle":"1:","root":true,"options":{"rate":6250000,"burst":3200,"lat":10485}},
                      {"kind":"bfifo","handle":"2:","parent":"1:1","options":{}}]"#;
        assert_eq!(queues("p", tbf), Ok(of_one(Some(50_000_000))));
        let codel = r#"[{"kind":"fq_codel","handle":"0:","root":true,"refcnt":2,"options":{"limit":10240}}]"#;
        assert_eq!(queues("p", codel), Ok(of_one(None)));
    }

    #[test]
    fn a_queue_without_a_backlog_is_refused_by_its_kind() {
        for (shown, kind) in [
            (r#"[{"kind":"noqueue","handle":"0:","root":true,"refcnt":2,"options":{}}]"#, "noqueue"),
            (r#"[{"kind":"mqprio","handle":"1:","root":true},{"kind":"fq_codel","parent":"1:1"}]"#, "mqprio"),
            ("[]", "noqueue"),
        ] {
            let error = queues("p0", shown).unwrap_err();
            assert!(error.starts_with(&format!("the root queueing discipline of p0 is {kind},")), "{error}");
        }
    }

    #[test]
    fn queues_below_mq_are_one_port() {
        let of_link = r#"[{"kind":"mq","handle":"0:","root":true,"options":{}},{"kind":"fq_codel","handle":"0:","parent":":2"},
                          {"kind":"fq_codel","handle":"0:","parent":":1"}]"#;
        assert_eq!(queues("p", of_link), Ok(Queues { rate_bps: None, shares_line: true }));
        // A queue inside another one is not a queue of the device.
        let shaped = r#"[{"kind":"mq","handle":"1:","root":true,"options":{}},
                         {"kind":"tbf","handle":"11:","parent":"1:1","options":{"rate":2500000}},
                         {"kind":"pfifo_fast","handle":"12:","parent":"11:1","options":{}},
                         {"kind":"tbf","handle":"21:","parent":"1:2","options":{"rate":3750000}}]"#;
        assert_eq!(queues("p", shaped), Ok(Queues { rate_bps: Some(50_000_000), shares_line: true }));
        // The rate of one says nothing of the others.
        let half = shaped.replace(r#""options":{"rate":2500000}"#, r#""options":{}"#);
        assert_eq!(queues("p", &half), Ok(Queues { rate_bps: None, shares_line: true }));
    }

    #[test]
    fn a_queue_below_mq_that_does_not_count_is_named() {
        let shown = r#"[{"kind":"mq","handle":"0:","root":true,"options":{}},{"kind":"fq_codel","handle":"0:","parent":":1"},
                        {"kind":"pfifo_fast","handle":"0:","parent":":2"}]"#;
        let error = queues("p0", shown).unwrap_err();
        assert!(error.starts_with("queue :2 of p0 has pfifo_fast, which keeps no count"), "{error}");
        assert!(error.ends_with("tc qdisc replace dev p0 root handle 1: mq"), "{error}");
        // What has a number can be replaced by itself.
        let numbered =
            r#"[{"kind":"mq","handle":"1:","root":true},{"kind":"pfifo_fast","handle":"0:","parent":"1:2"}]"#;
        let error = queues("p0", numbered).unwrap_err();
        assert!(error.ends_with("fq_codel: tc qdisc replace dev p0 parent 1:2 fq_codel"), "{error}");
    }
}
