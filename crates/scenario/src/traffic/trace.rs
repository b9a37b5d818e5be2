//! Messages listed in a file, in the format of the HPCC simulator's `flow.txt` or of htsim's connection matrices.

use incast_protocols::{Bytes, Message, Time};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{ConnectionsSpec, Context, Workload};
use crate::expand::{Expansion, Reuse};
use crate::files::Files;
use crate::limits;
use crate::report::Report;
use crate::spec::{StackSpec, TcpTable};
use incast_plan::{End, Send, WindowPerMessage};

/// Messages listed in a file.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TraceSpec {
    /// Path of the file, relative to the scenario.
    file: String,
    /// Format of the file. Default: "hpcc".
    #[schemars(extend("default" = "hpcc"))]
    format: Option<FormatSpec>,
    /// Whether messages share connections. Default: "fresh".
    #[schemars(extend("default" = "fresh"))]
    connections: Option<ConnectionsSpec>,
    /// Window at the start of each message on a persistent connection. Default: "restart-after-idle".
    window: Option<WindowPerMessage>,
    /// Algorithms at the ends; overrides `[stack]` key by key.
    pub(super) stack: Option<StackSpec>,
    /// TCP of this class; overrides `[tcp]` key by key.
    pub(super) tcp: Option<TcpTable>,
}

/// How a trace is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "TraceFormat")]
pub(crate) enum FormatSpec {
    /// HPCC's `flow.txt`: a line with the number of messages, then lines
    /// `source destination priority-group destination-port bytes start-in-seconds`. Priority groups and ports are ignored.
    #[default]
    Hpcc,
    /// A connection matrix of htsim (`.cm`): the lines `Nodes 128` and `Connections 127`, then lines
    /// `source->destination start picoseconds size bytes`, also with `id` and `prio`, which are ignored.
    Htsim,
}

/// A checked trace.
#[derive(Debug)]
pub(super) struct Trace {
    flows: Vec<Flow>,
    reuse: Reuse,
}

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flow {
    source: u32,
    destination: u32,
    size: Bytes,
    start: Time,
}

impl TraceSpec {
    pub(super) fn resolve(&self, context: &mut Context<'_, '_>) -> Option<Trace> {
        let reuse = context.reuse(self.connections, self.window);
        let path = context.path.key("file");
        let text = context.files.read(&self.file, &path, context.problems)?;
        let parse = match self.format.unwrap_or_default() {
            FormatSpec::Hpcc => hpcc,
            FormatSpec::Htsim => htsim,
        };
        match parse(&text, context.layout.hosts()) {
            Ok(flows) => Some(Trace { flows, reuse }),
            Err((line, message)) => {
                context.problems.inside(&path, Files::problem(&self.file, line, &path, message));
                None
            }
        }
    }
}

/// Reads a trace; an error is a line (from 1) and a sentence.
fn hpcc(text: &str, hosts: u32) -> Result<Vec<Flow>, (u32, String)> {
    let mut lines = (1_u32..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let (first, count) =
        lines.next().ok_or((1, "the file is empty: its first line is the number of flows".to_owned()))?;
    let count: u64 = count.trim().parse().map_err(|_| {
        let hint =
            if count.starts_with("Nodes") { ": htsim's connection matrices need format = \"htsim\"" } else { "" };
        (first, format!("the first line is the number of flows, found {:?}{hint}", count.trim()))
    })?;
    if count > limits::MESSAGES {
        return Err((first, format!("{count} flows are too many; allowed: at most {}", limits::MESSAGES)));
    }
    let mut flows = Vec::new();
    let mut last = first;
    for (number, line) in lines {
        if flows.len() as u64 == count {
            return Err((number, format!("there are more flows than the {count} of the first line")));
        }
        flows.push(flow(line, hosts).map_err(|message| (number, message))?);
        last = number;
    }
    if (flows.len() as u64) < count {
        return Err((last, format!("the first line says {count} flows, the file has {}", flows.len())));
    }
    if flows.is_empty() {
        return Err((first, "there are no flows".into()));
    }
    Ok(flows)
}

fn flow(line: &str, hosts: u32) -> Result<Flow, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let &[source, destination, group, port, size, start] = &words[..] else {
        return Err(format!(
            "a flow has six columns (source, destination, priority group, destination port, bytes, start in seconds), found {}",
            words.len()
        ));
    };
    let (source, destination) = ends(source, destination, hosts)?;
    whole(group, "priority group")?;
    whole(port, "destination port")?;
    Ok(Flow { source, destination, size: bytes(size)?, start: seconds(start)? })
}

fn whole(word: &str, what: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("{word:?} is not a {what}"))
}

fn ends(source: &str, destination: &str, hosts: u32) -> Result<(u32, u32), String> {
    let host = |word: &str, what: &str| match whole(word, what)? {
        host if host < u64::from(hosts) => Ok(host as u32),
        host => Err(format!("there is no host {host}; hosts are numbered 0 to {}", hosts - 1)),
    };
    let (source, destination) = (host(source, "source host")?, host(destination, "destination host")?);
    if source == destination {
        return Err(format!("host {source} would send to itself"));
    }
    Ok((source, destination))
}

fn bytes(word: &str) -> Result<Bytes, String> {
    let size = whole(word, "number of bytes")?;
    if size == 0 || size > limits::MESSAGE_BYTES {
        return Err(format!("{size}B is out of range; allowed: 1B to 1024GiB"));
    }
    Ok(Bytes(size))
}

/// Reads a connection matrix of htsim; an error is a line (from 1) and a sentence.
fn htsim(text: &str, hosts: u32) -> Result<Vec<Flow>, (u32, String)> {
    let lines = (1_u32..).zip(text.lines()).map(|(number, line)| (number, line.trim()));
    let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let (mut count, mut last) = (None, 1);
    let mut flows = Vec::new();
    for (number, line) in &mut lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = |message: String| (number, message);
        match words[..] {
            ["Nodes", nodes] => {
                let nodes = whole(nodes, "number of nodes").map_err(at)?;
                if nodes > u64::from(hosts) {
                    return Err(at(format!("{nodes} nodes, but the topology has only {hosts} hosts")));
                }
            }
            ["Connections", connections] => {
                let connections = whole(connections, "number of connections").map_err(at)?;
                if connections > limits::MESSAGES {
                    let allowed = limits::MESSAGES;
                    return Err(at(format!("{connections} connections are too many; allowed: at most {allowed}")));
                }
                count = Some(connections);
            }
            ["Triggers" | "Failures", "0"] => {}
            ["Triggers" | "trigger", ..] => return Err(at("triggers are not supported".into())),
            ["Failures" | "failure", ..] => return Err(at("failures are not supported".into())),
            [pair, ref words @ ..] if pair.contains("->") => {
                flows.push(connection(pair, words, hosts).map_err(at)?);
                if flows.len() as u64 > count.unwrap_or(0) {
                    let count = count.map_or("no number of connections precedes".into(), |count| {
                        format!("there are more than the {count} connections of the line above")
                    });
                    return Err((number, count));
                }
            }
            _ => return Err(at(format!("expected Nodes, Connections or a connection, found {line:?}"))),
        }
        last = number;
    }
    match count {
        None => Err((last, "the line \"Connections\" with their number is missing".into())),
        Some(count) if count != flows.len() as u64 => {
            Err((last, format!("the file says {count} connections, and has {}", flows.len())))
        }
        Some(0) => Err((last, "there are no connections".into())),
        Some(_) => Ok(flows),
    }
}

/// A connection of htsim, from the words after its ends.
fn connection(pair: &str, words: &[&str], hosts: u32) -> Result<Flow, String> {
    let (source, destination) = pair.split_once("->").unwrap_or((pair, ""));
    let (source, destination) = ends(source, destination, hosts)?;
    let (mut start, mut size) = (None, None);
    for pair in words.chunks(2) {
        match *pair {
            ["start", time] => {
                let time = whole(time, "start in picoseconds")?;
                if time > limits::TIME.0 {
                    return Err(format!("{time}ps is out of range; allowed: at most {}", limits::TIME));
                }
                start = Some(Time(time));
            }
            ["size", word] => size = Some(bytes(word)?),
            ["id", id] => drop(whole(id, "number of a connection")?),
            ["prio", priority] => drop(whole(priority, "priority")?),
            ["trigger" | "send_done_trigger" | "recv_done_trigger", ..] => {
                return Err("triggers are not supported".into());
            }
            [word, ..] => {
                return Err(format!("unknown word {word:?}; allowed: id, start, size and prio, each with a number"));
            }
            [] => {}
        }
    }
    match (start, size) {
        (Some(start), Some(size)) => Ok(Flow { source, destination, size, start }),
        (None, _) => Err("the connection has no start, in picoseconds".into()),
        (_, None) => Err("the connection has no size, in bytes".into()),
    }
}

/// Decimal seconds, exact to a picosecond.
fn seconds(word: &str) -> Result<Time, String> {
    let bad = || format!("{word:?} is not a start in seconds");
    let (whole, fraction) = word.split_once('.').unwrap_or((word, ""));
    let decimal = !whole.is_empty() && whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
    let ps = if decimal {
        let digits: String = fraction.chars().chain(std::iter::repeat('0')).take(12).collect();
        let whole: u64 = whole.parse().map_err(|_| bad())?;
        u128::from(whole) * 1_000_000_000_000 + u128::from(digits.parse::<u64>().map_err(|_| bad())?)
    } else {
        // Scripts also write 1e-05.
        let seconds: f64 = word.parse().map_err(|_| bad())?;
        if !seconds.is_finite() || seconds < 0.0 {
            return Err(bad());
        }
        libm::round(seconds * 1e12) as u128
    };
    if ps > u128::from(limits::TIME.0) {
        return Err(format!("{word}s is out of range; allowed: at most {}", limits::TIME));
    }
    Ok(Time(ps as u64))
}

impl Workload for Trace {
    fn messages(&self) -> f64 {
        self.flows.len() as f64
    }

    fn receivers(&self) -> Vec<u32> {
        self.flows.iter().map(|flow| flow.destination).collect()
    }

    fn expand(&self, expansion: &mut Expansion<'_>) -> Result<(), Report> {
        for flow in &self.flows {
            expansion.go_on()?;
            let connection = expansion.connect(flow.source, flow.destination, self.reuse);
            let message = Message { size: Some(flow.size), ..Message::default() };
            expansion.plan.sends.push(Send::new(connection, End::Client, flow.start, message));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_to_the_picosecond() {
        let flows = hpcc("2\n0 1 3 100 2000 2.000000001\n1 0 3 100 1 1e-05\n\n", 2).unwrap();
        let first = Flow { source: 0, destination: 1, size: Bytes(2000), start: Time(2_000_000_001_000) };
        let second = Flow { source: 1, destination: 0, size: Bytes(1), start: Time(10_000_000) };
        assert_eq!(flows, [first, second]);
    }

    #[test]
    fn a_trace_that_makes_no_sense_is_refused_with_its_line() {
        let refused = |text: &str| {
            let (line, message) = hpcc(text, 4).unwrap_err();
            format!("{line}: {message}")
        };
        insta::assert_snapshot!(
            [
                refused(""),
                refused("many"),
                refused("0"),
                refused("99999999999"),
                refused("2\n0 1 3 100 2000 2.0\n"),
                refused("1\n0 1 3 100 2000 2.0\n0 1 3 100 2000 2.0\n"),
                refused("1\n0 1 3 100 2000\n"),
                refused("1\n0 4 3 100 2000 2.0\n"),
                refused("1\n\n2 2 3 100 2000 2.0\n"),
                refused("1\n0 1 x 100 2000 2.0\n"),
                refused("1\n0 1 3 100 0 2.0\n"),
                refused("1\n0 1 3 100 10 -2.0\n"),
                refused("1\n0 1 3 100 10 1e300\n"),
                refused("1\n0 1 3 100 10 18446744073709551615.5\n"),
            ]
            .join("\n"),
            @r#"
            1: the file is empty: its first line is the number of flows
            1: the first line is the number of flows, found "many"
            1: there are no flows
            1: 99999999999 flows are too many; allowed: at most 50000000
            2: the first line says 2 flows, the file has 1
            3: there are more flows than the 1 of the first line
            2: a flow has six columns (source, destination, priority group, destination port, bytes, start in seconds), found 5
            2: there is no host 4; hosts are numbered 0 to 3
            3: host 2 would send to itself
            2: "x" is not a priority group
            2: 0B is out of range; allowed: 1B to 1024GiB
            2: "-2.0" is not a start in seconds
            2: 1e300s is out of range; allowed: at most 1000000s
            2: 18446744073709551615.5s is out of range; allowed: at most 1000000s
            "#
        );
    }

    #[test]
    fn a_connection_matrix_of_htsim_is_read() {
        let text = "Nodes 4\nConnections 2\nTriggers 0\n# an incast\n1->0 id 1 start 0 size 2000000\n3->0 start 5 size 1 prio 2\n";
        let first = Flow { source: 1, destination: 0, size: Bytes(2_000_000), start: Time(0) };
        let second = Flow { source: 3, destination: 0, size: Bytes(1), start: Time(5) };
        assert_eq!(htsim(text, 4).unwrap(), [first, second]);
    }

    #[test]
    fn a_connection_matrix_that_makes_no_sense_is_refused_with_its_line() {
        let refused = |text: &str| {
            let (line, message) = htsim(text, 4).unwrap_err();
            format!("{line}: {message}")
        };
        insta::assert_snapshot!(
            [
                refused(""),
                refused("Nodes 5"),
                refused("Nodes 4\nConnections 0"),
                refused("Connections 2\n1->0 start 0 size 1"),
                refused("Connections 1\n1->0 start 0 size 1\n2->0 start 0 size 1"),
                refused("1->0 start 0 size 1"),
                refused("Connections 1\n1->0 start 0"),
                refused("Connections 1\n1->0 trigger 1 size 1"),
                refused("Connections 1\nTriggers 1"),
                refused("Connections 1\n1->0 start soon size 1"),
                refused("Connections 1\n1->0 begin 0 size 1"),
                refused("Connections 1\n1->4 start 0 size 1"),
                refused("Connections 1\n0 1 3 100 2000 2.0"),
            ]
            .join("\n"),
            @r#"
            1: the line "Connections" with their number is missing
            1: 5 nodes, but the topology has only 4 hosts
            2: there are no connections
            2: the file says 2 connections, and has 1
            3: there are more than the 1 connections of the line above
            1: no number of connections precedes
            2: the connection has no size, in bytes
            2: triggers are not supported
            2: triggers are not supported
            2: "soon" is not a start in picoseconds
            2: unknown word "begin"; allowed: id, start, size and prio, each with a number
            2: there is no host 4; hosts are numbered 0 to 3
            2: expected Nodes, Connections or a connection, found "0 1 3 100 2000 2.0"
            "#
        );
    }
}
