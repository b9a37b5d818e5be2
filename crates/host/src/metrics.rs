//! What is enabled in the text format of Prometheus.

use std::fmt::Write as _;

use serde_json::Value;

/// Key in the status, name of the metric, and what it is. Counters grow as long as the process lives.
const COUNTERS: [(&str, &str, &str); 16] = [
    ("connections_begun", "connections", "connections that have begun"),
    ("flows_refused", "connections_refused", "connections for which a receiver had no place"),
    ("windows_set", "windows_set", "windows that a receiver has set"),
    ("windows_opened", "windows_opened", "ACKs sent only to open a window"),
    ("connections_moved", "connections_moved", "connections that were moved to another sender"),
    ("timeouts", "timeouts", "expired retransmission timers"),
    ("segments_retransmitted", "segments_retransmitted", "segments sent again"),
    ("marks_seen", "marks_seen", "incast marks that came with data"),
    ("marks_heard", "marks_heard", "incast marks that peers have told of and a sender has heeded"),
    ("options_written", "options_written", "TCP options that tell of incast marks"),
    ("options_refused", "options_refused", "TCP options that found no room"),
    ("options_parsed", "options_parsed", "TCP options read"),
    ("acks_hurried", "acks_hurried", "ACKs sent at once for an incast mark"),
    ("unanswered", "unanswered", "ACKs that found no threshold because a program had not run"),
    ("ce_marks", "ce_marks", "packets that got a CE mark"),
    ("ein_marks", "ein_marks", "packets that got an incast mark"),
];

/// All metrics of one status.
pub(crate) fn text(status: &Value) -> String {
    let mut text = String::new();
    let labels = ["cgroup", "device"].iter().find_map(|key| Some((key, status[key].as_str()?)));
    let kind = status["kind"].as_str().map(|kind| format!(",kind=\"{}\"", escaped(kind))).unwrap_or_default();
    let labels = labels.map(|(key, value)| format!("{{{key}=\"{}\"{kind}}}", escaped(value))).unwrap_or_default();
    for (key, name, help) in COUNTERS {
        if let Some(value) = status["counts"][key].as_u64() {
            let name = format!("incast_host_{name}_total");
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter\n{name}{labels} {value}");
        }
    }
    let mut gauge = |name: &str, help: &str, value: f64| {
        let name = format!("incast_host_{name}");
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name}{labels} {value}");
    };
    let flows = status["flows"].as_array();
    if let Some(open) = status["connections_open"].as_f64().or(flows.map(|flows| flows.len() as f64)) {
        gauge("connections_open", "connections that are open", open);
    }
    if let Some(flows) = flows {
        let windows = quantiles(flows, "cwnd_segments");
        for (name, value) in ["least", "median", "most"].iter().zip(windows.into_iter().flatten()) {
            gauge(
                &format!("window_segments_{name}"),
                &format!("{name} congestion window of the open connections"),
                value,
            );
        }
    }
    if let Some(rate) = status["rate_bps"].as_f64() {
        gauge("rate_bits_per_second", "rate of the port", rate);
    }
    text
}

/// The least, the median and the most of a number of all flows, if there are any.
pub(crate) fn quantiles(flows: &[Value], key: &str) -> Option<[f64; 3]> {
    let mut values: Vec<f64> = flows.iter().filter_map(|flow| flow[key].as_f64()).collect();
    values.sort_by(f64::total_cmp);
    Some([*values.first()?, values[(values.len() - 1) / 2], *values.last()?])
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutations::mutated;
    use proptest::prelude::*;
    use serde_json::json;

    fn statuses() -> Vec<Value> {
        let flow = json!({ "cwnd_segments": 10, "srtt_us": 200, "local": "10.0.0.1:80" });
        vec![
            json!({ "kind": "sender", "cgroup": "/a", "counts": { "timeouts": 3, "marks_seen": 1 }, "flows": [flow, flow] }),
            json!({ "kind": "port", "device": "eth0", "counts": { "ein_marks": 3 }, "rate_bps": 1e9 }),
            json!({ "kind": "receiver", "cgroup": "/a", "connections_open": 2, "counts": { "windows_set": 9 } }),
        ]
    }

    proptest! {
        /// A cgroup may have any name.
        #[test]
        fn metrics_of_a_mutated_status_are_lines_of_prometheus(status in mutated(statuses())) {
            for line in text(&status).lines() {
                let is_comment = line.starts_with("# HELP incast_host_") || line.starts_with("# TYPE incast_host_");
                let number = line.rsplit_once(' ').and_then(|(_, number)| number.parse::<f64>().ok());
                prop_assert!(is_comment || (line.starts_with("incast_host_") && number.is_some()), "{}", line);
            }
        }
    }

    #[test]
    fn metrics_have_names_labels_and_values() {
        let flows: Vec<Value> = [4, 10, 7].map(|cwnd| json!({ "cwnd_segments": cwnd })).into();
        let status = json!({ "cgroup": "/a \"b\"\\", "counts": { "timeouts": 3 }, "flows": flows });
        let text = text(&status);
        assert!(text.contains("# TYPE incast_host_timeouts_total counter\n"), "{text}");
        assert!(text.contains("incast_host_timeouts_total{cgroup=\"/a \\\"b\\\"\\\\\"} 3\n"), "{text}");
        assert!(text.contains("incast_host_window_segments_median{cgroup=\"/a \\\"b\\\"\\\\\"} 7\n"), "{text}");
        assert!(text.contains("incast_host_connections_open{") && !text.contains("ein_marks"), "{text}");
    }

    #[test]
    fn a_receiver_has_its_connections_and_windows() {
        let counts = json!({ "flows_refused": 44, "windows_set": 9, "windows_opened": 0 });
        let status = json!({ "kind": "receiver", "cgroup": "/a", "connections_open": 256, "counts": counts });
        let text = text(&status);
        for line in [
            "connections_open{cgroup=\"/a\",kind=\"receiver\"} 256",
            "connections_refused_total{cgroup=\"/a\",kind=\"receiver\"} 44",
            "windows_set_total{cgroup=\"/a\",kind=\"receiver\"} 9",
            "windows_opened_total{cgroup=\"/a\",kind=\"receiver\"} 0",
        ] {
            assert!(text.contains(&format!("incast_host_{line}\n")), "{line}: {text}");
        }
    }

    #[test]
    fn no_connection_has_no_window() {
        let text = text(&json!({ "device": "eth0", "rate_bps": 1000, "counts": { "ein_marks": 0 }, "flows": [] }));
        assert!(
            text.contains("incast_host_connections_open{device=\"eth0\"} 0\n") && !text.contains("window"),
            "{text}"
        );
        assert!(text.contains("incast_host_rate_bits_per_second{device=\"eth0\"} 1000\n"), "{text}");
    }
}
