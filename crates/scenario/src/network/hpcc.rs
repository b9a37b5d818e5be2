//! A topology from a file of the HPCC simulator.

use std::collections::BTreeSet;

use super::Builder;
use super::custom::{ONE_LINK, badly_linked, unreachable};
use crate::files::Files;
use crate::limits;
use crate::node::Path;
use crate::spec::{HpccSpec, LinkSpec};
use incast_plan::Node;
use incast_protocols::units::text::{parse_duration, parse_rate};
use incast_protocols::{Duration, Rate};

/// A file.
#[derive(Debug, PartialEq)]
struct Topology {
    nodes: u32,
    switches: Vec<u32>,
    links: Vec<Line>,
}

/// A link of it.
#[derive(Debug, PartialEq)]
struct Line {
    number: u32,
    ends: [u32; 2],
    rate: Rate,
    delay: Duration,
    loss: f64,
}

pub(super) fn build(spec: &HpccSpec, path: &Path, files: Files<'_>, builder: &mut Builder<'_, '_>) {
    let path = path.key("file");
    let Some(text) = files.read(&spec.file, &path, builder.problems) else {
        builder.failed = true;
        return;
    };
    let topology = match parse(&text) {
        Ok(topology) => topology,
        Err((line, message)) => {
            builder.failed = true;
            builder.problems.inside(&path, Files::problem(&spec.file, line, &path, message));
            return;
        }
    };
    if !builder.check_links(2 * topology.links.len() as u64, &path) {
        return;
    }
    let hosts = topology.nodes - topology.switches.len() as u32;
    let names: Vec<String> = (0..hosts).map(|host| host.to_string()).collect();
    for switch in &topology.switches {
        builder.add_switch(switch.to_string());
    }
    builder.network.hosts = hosts;
    builder.names = Some(names.clone());
    let node = |number: u32| if number < hosts { Node::Host(number) } else { Node::Switch(number - hosts) };
    for line in &topology.links {
        let link = LinkSpec {
            rate: line.rate,
            delay: line.delay,
            loss: Some(line.loss),
            burst: None,
            reorder: None,
            buffer: None,
            marker: None,
            scheduler: None,
        };
        builder.cable(node(line.ends[0]), node(line.ends[1]), &link, &path);
    }
    for (_, message) in badly_linked(&names, builder) {
        builder.fail(&path, message).allowed = Some(ONE_LINK.into());
    }
    if !builder.failed
        && let Some((_, message)) = unreachable(&names, builder)
    {
        builder.fail(&path, message);
    }
}

/// Reads a file; an error is a line (from 1) and a sentence.
fn parse(text: &str) -> Result<Topology, (u32, String)> {
    let mut lines = (1_u32..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let (first, head) =
        lines.next().ok_or((1, "the file is empty: it begins with nodes, switches, links".to_owned()))?;
    let head =
        numbers(head).map_err(|word| (first, format!("{word:?} is not a number of nodes, switches or links")))?;
    let &[nodes, switches, links] = &head[..] else {
        return Err((
            first,
            format!("the first line has the numbers of nodes, switches and links, found {}", head.len()),
        ));
    };
    if u64::from(nodes) > limits::LINKS {
        return Err((first, format!("{nodes} nodes are too many; allowed: at most {}", limits::LINKS)));
    }
    if switches >= nodes {
        return Err((first, format!("{switches} of {nodes} nodes are switches, so there are no hosts")));
    }
    let hosts = nodes - switches;
    let (second, named) = match lines.next() {
        Some((line, text)) => (line, numbers(text).map_err(|word| (line, format!("{word:?} is not a switch")))?),
        None => return Err((first, "the second line, with the numbers of the switches, is missing".into())),
    };
    if named.len() as u64 != u64::from(switches) {
        return Err((second, format!("the first line says {switches} switches, this one names {}", named.len())));
    }
    let sorted: BTreeSet<u32> = named.iter().copied().collect();
    if !sorted.iter().copied().eq(hosts..nodes) {
        return Err((
            second,
            format!("hosts come first: of {nodes} nodes, {hosts} to {} must be the switches", nodes - 1),
        ));
    }
    let mut found = Vec::new();
    let mut known = BTreeSet::new();
    let mut last = second;
    for (number, text) in lines {
        if found.len() as u64 == u64::from(links) {
            return Err((number, format!("there are more links than the {links} of the first line")));
        }
        let line = link(number, text, nodes).map_err(|message| (number, message))?;
        let [a, b] = line.ends;
        if !known.insert([a.min(b), a.max(b)]) {
            return Err((number, format!("nodes {a} and {b} are linked already")));
        }
        found.push(line);
        last = number;
    }
    if (found.len() as u64) < u64::from(links) {
        return Err((last, format!("the first line says {links} links, the file has {}", found.len())));
    }
    Ok(Topology { nodes, switches: sorted.into_iter().collect(), links: found })
}

fn numbers(line: &str) -> Result<Vec<u32>, &str> {
    line.split_whitespace().map(|word| word.parse().map_err(|_| word)).collect()
}

fn link(number: u32, line: &str, nodes: u32) -> Result<Line, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let &[a, b, rate, delay, loss] = &words[..] else {
        return Err(format!("a link has five columns (node, node, rate, delay, loss), found {}", words.len()));
    };
    let node = |word: &str| match word.parse::<u32>() {
        Ok(node) if node < nodes => Ok(node),
        _ => Err(format!("there is no node {word:?}; nodes are numbered 0 to {}", nodes - 1)),
    };
    let ends = [node(a)?, node(b)?];
    if ends[0] == ends[1] {
        return Err(format!("node {a} would be linked with itself"));
    }
    let rate: Rate = parse_rate(rate).map_err(|error| format!("rate: {error}"))?;
    if !(limits::RATE_MIN..=limits::RATE_MAX).contains(&rate) {
        let allowed = format!("{} to {}", limits::RATE_MIN, limits::RATE_MAX);
        return Err(format!("a rate of {rate} is out of range; allowed: {allowed}"));
    }
    let delay: Duration = parse_duration(delay).map_err(|error| format!("delay: {error}"))?;
    if delay > limits::TIME {
        return Err(format!("a delay of {delay} is out of range; allowed: at most {}", limits::TIME));
    }
    let probability = loss.parse::<f64>().ok().filter(|loss| (0.0..1.0).contains(loss));
    let loss = probability.ok_or_else(|| format!("{loss:?} is not a loss; allowed: a probability below 1"))?;
    Ok(Line { number, ends, rate, delay, loss })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read() {
        let read =
            parse("4 2 3\n2 3\n\n0 2 100Gbps 1000ns 0\n1 3 25Gbps 0.001ms 0.000000\n2 3 400Gbps 1us 0.5\n").unwrap();
        let line = |number, ends, gbps: u64, loss| Line {
            number,
            ends,
            rate: Rate(gbps * 1_000_000_000),
            delay: Duration::from_us(1),
            loss,
        };
        let links = vec![line(4, [0, 2], 100, 0.0), line(5, [1, 3], 25, 0.0), line(6, [2, 3], 400, 0.5)];
        assert_eq!(read, Topology { nodes: 4, switches: vec![2, 3], links });
    }

    #[test]
    fn a_file_that_makes_no_sense_is_refused_with_its_line() {
        let refused = |text: &str| {
            let (line, message) = parse(text).unwrap_err();
            format!("{line}: {message}")
        };
        insta::assert_snapshot!(
            [
                refused(""),
                refused("3 1"),
                refused("3 x 2"),
                refused("99999999 1 2"),
                refused("3 3 2"),
                refused("3 1 2"),
                refused("3 1 2\n1 2"),
                refused("3 1 2\n0"),
                refused("3 1 2\n2\n0 2 1Gbps 1us 0"),
                refused("3 1 1\n2\n0 2 1Gbps 1us 0\n1 2 1Gbps 1us 0"),
                refused("3 1 2\n2\n0 2 1Gbps 1us 0\n2 0 1Gbps 1us 0"),
                refused("3 1 2\n2\n0 2 1Gbps"),
                refused("3 1 2\n2\n0 3 1Gbps 1us 0"),
                refused("3 1 2\n2\n2 2 1Gbps 1us 0"),
                refused("3 1 2\n2\n0 2 1 1us 0"),
                refused("3 1 2\n2\n0 2 1bps 1us 0"),
                refused("3 1 2\n2\n0 2 1Gbps 1 0"),
                refused("3 1 2\n2\n0 2 1Gbps 1us 1"),
            ]
            .join("\n"),
            @r#"
            1: the file is empty: it begins with nodes, switches, links
            1: the first line has the numbers of nodes, switches and links, found 2
            1: "x" is not a number of nodes, switches or links
            1: 99999999 nodes are too many; allowed: at most 4000000
            1: 3 of 3 nodes are switches, so there are no hosts
            1: the second line, with the numbers of the switches, is missing
            2: the first line says 1 switches, this one names 2
            2: hosts come first: of 3 nodes, 2 to 2 must be the switches
            3: the first line says 2 links, the file has 1
            4: there are more links than the 1 of the first line
            4: nodes 2 and 0 are linked already
            3: a link has five columns (node, node, rate, delay, loss), found 3
            3: there is no node "3"; nodes are numbered 0 to 2
            3: node 2 would be linked with itself
            3: rate: "1" has no unit; a rate is a number with one of the units bps, kbps, Mbps, Gbps, Tbps
            3: a rate of 1bps is out of range; allowed: 1Mbps to 10000Gbps
            3: delay: "1" has no unit; a time is a number with one of the units ps, ns, us, ms, s
            3: "1" is not a loss; allowed: a probability below 1
            "#
        );
    }
}
