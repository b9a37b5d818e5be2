//! `incast-host status`: what is enabled, for people and as JSON.

use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};

use crate::control;
use crate::metrics::quantiles;

/// Shows all that is enabled, once or again and again.
pub(crate) fn show(output: &mut impl Write, as_json: bool, flows: bool, watch: Option<Duration>) -> Result<(), String> {
    loop {
        let mut all = vec![];
        for peer in control::peers()? {
            all.push(peer.ask(&json!({ "ask": "status" }), &[])?.value);
        }
        let text = if as_json { format!("{}\n", json!({ "enabled": all })) } else { describe(&all, flows) };
        output
            .write_all(text.as_bytes())
            .and_then(|()| output.flush())
            .map_err(|error| format!("standard output: {error}"))?;
        match watch {
            Some(pause) => std::thread::sleep(pause),
            None => return Ok(()),
        }
    }
}

fn describe(all: &[Value], flows: bool) -> String {
    if all.is_empty() {
        return "nothing is enabled\n".into();
    }
    let each = |status: &Value| match status["kind"].as_str() {
        Some("sender") => sender(status, flows),
        Some("receiver") => receiver(status),
        _ => port(status),
    };
    all.iter().map(each).collect()
}

fn text<'a>(status: &'a Value, key: &str) -> &'a str {
    status[key].as_str().unwrap_or("?")
}

fn sender(status: &Value, with_flows: bool) -> String {
    let count = |key: &str| status["counts"][key].as_u64().unwrap_or(0);
    let flows = status["flows"].as_array().map_or(&[][..], Vec::as_slice);
    let prefixes: Vec<&str> = status["prefixes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let believed =
        if prefixes.is_empty() { "none is believed".into() } else { format!("believed from {}", prefixes.join(", ")) };
    let windows = quantiles(flows, "cwnd_segments")
        .map_or("none".into(), |[least, median, most]| format!("{least} to {most} segments, {median} in the middle"));
    let mut lines = vec![
        format!("{} for {} (process {})", text(status, "name"), text(status, "cgroup"), status["process"]),
        format!(
            "  connections   {} open, {} begun, {} moved here by a switch",
            flows.len(),
            count("connections_begun"),
            count("connections_moved")
        ),
        format!("  windows       {windows}"),
        format!("  timeouts      {}, and {} segments sent again", count("timeouts"), count("segments_retransmitted")),
        format!("  incast marks  {} came, {} told of by peers; {believed}", count("marks_seen"), count("marks_heard")),
    ];
    if with_flows {
        lines.push(format!(
            "  {:<40} {:<40} {:<15} {:>6} {:>9} {:>8} {:>8} {:>8}",
            "local", "remote", "sender", "window", "srtt (us)", "CE", "marks", "timeouts"
        ));
        lines.extend(flows.iter().map(|flow| {
            format!(
                "  {:<40} {:<40} {:<15} {:>6} {:>9} {:>8} {:>8} {:>8}",
                text(flow, "local"),
                text(flow, "remote"),
                text(flow, "algorithm"),
                flow["cwnd_segments"].to_string(),
                flow["srtt_us"].to_string(),
                flow["segments_delivered_ce"].to_string(),
                flow["marks_heard"].to_string(),
                flow["timeouts"].to_string()
            )
        }));
    }
    lines.join("\n") + "\n"
}

fn receiver(status: &Value) -> String {
    let count = |key: &str| status["counts"][key].as_u64().unwrap_or(0);
    let rate = status["rate_bps"].as_f64().unwrap_or(0.0) / 1e6;
    let opened = match count("windows_opened") {
        0 => String::new(),
        opened => format!(", and opened {opened} times by an ACK for that alone"),
    };
    format!(
        "{} sets windows for {} (process {})\n  rate          {rate} Mbit/s at {}\n  connections   {} open, {} without a place\n  \
         windows       set {} times{opened}\n",
        text(status, "name"),
        text(status, "cgroup"),
        status["process"],
        text(status, "device"),
        status["connections_open"],
        count("flows_refused"),
        count("windows_set")
    )
}

fn port(status: &Value) -> String {
    let count = |key: &str| status["counts"][key].as_u64().unwrap_or(0);
    let rate = status["rate_bps"].as_f64().unwrap_or(0.0) / 1e6;
    format!(
        "ein at {} (process {})\n  rate          {rate} Mbit/s\n  marks         {} for incast, {} CE\n",
        text(status, "device"),
        status["process"],
        count("ein_marks"),
        count("ce_marks")
    )
}
