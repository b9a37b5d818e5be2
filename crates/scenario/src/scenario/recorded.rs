//! What to write down: names in the scenario, numbers in the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::Checked;
use crate::document::Problems;
use crate::network::{Layout, shortened, spaced};
use crate::node::Path;
use crate::report::{Problem, Report, nearest};
use crate::spec::RecordSpec;
use crate::top_level::Spec;
use incast_plan::{Link, Node, Record, SwitchPort};

/// Checked wishes.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorded {
    queue_statistics: bool,
    queue_series: BTreeSet<u32>,
    windows: Vec<Connections>,
    events: bool,
    packets: BTreeSet<u32>,
    packets_of: Vec<Connections>,
    incasts: BTreeSet<u32>,
}

/// Connections of a class.
#[derive(Clone, Debug)]
struct Connections {
    class: usize,
    /// First and last; without it all.
    numbers: Option<(u64, u64)>,
    /// A problem without a message, to blame the wish with.
    blame: Problem,
}

impl Recorded {
    pub(super) fn resolve(
        spec: Option<&RecordSpec>,
        scenario: &Spec,
        classes: &[Checked],
        layout: &Layout,
        problems: &mut Problems<'_>,
    ) -> Self {
        let default = RecordSpec::default();
        let spec = spec.unwrap_or(&default);
        let mut recorded = Self {
            queue_statistics: spec.queue_statistics.unwrap_or(true),
            events: spec.events.unwrap_or(false),
            ..Self::default()
        };
        let mut ports = |wishes: &[String], key| -> BTreeSet<u32> {
            let path = Path::of(&["record", key]);
            let named = wishes.iter().enumerate();
            let hosts = key == "packets";
            named.flat_map(|(index, wish)| links(wish, hosts, &path.index(index), classes, layout, problems)).collect()
        };
        recorded.queue_series = ports(spec.queue_series.as_deref().unwrap_or_default(), "queue_series");
        recorded.packets = match &spec.packets {
            None if spec.packets_of.is_some() => (0..layout.network.links.len() as u32).collect(),
            wishes => ports(wishes.as_deref().unwrap_or_default(), "packets"),
        };
        if let Some(wishes) = &spec.incasts {
            recorded.incasts = ports(wishes, "incasts");
        } else {
            let ports = (0_u32..).zip(&layout.network.links);
            let marking = ports.filter(|(_, link)| link.port.as_deref().is_some_and(SwitchPort::marks_incast));
            recorded.incasts.extend(marking.map(|(index, _)| index));
        }
        let mut named = |wishes: &Option<Vec<String>>, key| -> Vec<Connections> {
            let path = Path::of(&["record", key]);
            let wishes = wishes.iter().flatten().enumerate();
            wishes
                .filter_map(|(index, wish)| connections_of(wish, &path.index(index), scenario, classes, problems))
                .collect()
        };
        recorded.windows = named(&spec.window_series, "window_series");
        recorded.packets_of = named(&spec.packets_of, "packets_of");
        recorded
    }

    /// With the connections of each class in the plan.
    pub(super) fn record(&self, connections: &[Range<u32>]) -> Result<Record, Report> {
        let mut problems = Vec::new();
        let mut numbers = |wishes: &[Connections]| -> Vec<u32> {
            let mut found = BTreeSet::new();
            for wish in wishes {
                let all = &connections[wish.class];
                let count = u64::from(all.end - all.start);
                let (first, last) = wish.numbers.unwrap_or((0, count.saturating_sub(1)));
                if last >= count {
                    let message = format!("there is no connection {last}: this class has {count}, numbered from 0");
                    problems.push(Problem { message, ..wish.blame.clone() });
                    continue;
                }
                found.extend(all.start + first as u32..=all.start + last as u32);
            }
            found.into_iter().collect()
        };
        let window_series = numbers(&self.windows);
        let packets_of = numbers(&self.packets_of);
        if !problems.is_empty() {
            return Err(Report { problems, more: 0 });
        }
        Ok(Record {
            queue_statistics: self.queue_statistics,
            queue_series: self.queue_series.iter().copied().collect(),
            window_series,
            events: self.events,
            packets: self.packets.iter().copied().collect(),
            packets_of,
            incasts: self.incasts.iter().copied().collect(),
        })
    }
}

/// The ports that `wish` means: those of switches, and of hosts if it may name `hosts`.
fn links(
    wish: &str,
    hosts: bool,
    path: &Path,
    classes: &[Checked],
    layout: &Layout,
    problems: &mut Problems<'_>,
) -> BTreeSet<u32> {
    let of_host = |link: &Link| matches!(link.from, Node::Host(_));
    let all = || (0_u32..).zip(&layout.network.links).filter(|(_, link)| hosts || !of_host(link));
    match wish {
        "all" => all().filter(|(_, link)| !of_host(link)).map(|(index, _)| index).collect(),
        "hosts" if hosts => all().filter(|(_, link)| of_host(link)).map(|(index, _)| index).collect(),
        "bottlenecks" => {
            let receivers = classes.iter().flat_map(|class| class.workload.bottlenecks());
            let down = receivers.map(|host| layout.down[host as usize]);
            let of_switch = |&link: &u32| layout.network.links[link as usize].port.is_some();
            let found: BTreeSet<u32> = down.filter(of_switch).chain(layout.core.iter().copied()).collect();
            // Where classes have problems of their own, it is not known yet.
            if found.is_empty() && problems.is_empty() {
                problems.at(path, "none of the traffic has a bottleneck known beforehand: name the ports");
            }
            found
        }
        _ => {
            let wanted = spaced(wish);
            if let Some((index, _)) = all().find(|(_, link)| layout.link_name(link) == wanted) {
                return BTreeSet::from([index]);
            }
            // Enough names to find a slip of the finger, not the millions of a large network.
            let names: Vec<String> = all().take(20_000).map(|(_, link)| layout.link_name(link)).collect();
            let (kind, groups) =
                if hosts { ("port", "bottlenecks, all, hosts") } else { ("switch port", "bottlenecks, all") };
            let nearest = problems.nearest(&wanted, names.iter().map(String::as_str));
            let problem = problems.at(path, format!("unknown {kind} {wish:?}"));
            problem.nearest = nearest;
            problem.allowed = Some(format!("{groups}, {}", shortened(&names)));
            BTreeSet::new()
        }
    }
}

/// The connections that `wish` means.
fn connections_of(
    wish: &str,
    path: &Path,
    scenario: &Spec,
    classes: &[Checked],
    problems: &mut Problems<'_>,
) -> Option<Connections> {
    let (name, numbers) = wish.split_once(':').map_or((wish, None), |(name, numbers)| (name, Some(numbers)));
    let names: BTreeMap<&str, usize> =
        classes.iter().enumerate().map(|(index, class)| (class.class.name.as_str(), index)).collect();
    let Some(&class) = names.get(name) else {
        let written = || scenario.traffic.0.iter().map(|(name, _)| name.as_str());
        // A class that has problems of its own is not among the checked ones.
        if !written().any(|written| written == name) {
            let problem = problems.at(path, format!("unknown class of traffic {name:?}"));
            problem.nearest = nearest(name, written());
            problem.allowed = Some(written().collect::<Vec<_>>().join(", "));
        }
        return None;
    };
    let parsed = numbers.map(|numbers| {
        let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
        let first: u64 = first.trim().parse().ok()?;
        let last: u64 = last.trim().parse().ok()?;
        (first <= last).then_some((first, last))
    });
    if parsed == Some(None) {
        problems.at(path, format!("{wish:?} does not name connections")).allowed =
            Some(format!("{name}, {name}:0, {name}:0-9"));
        return None;
    }
    let blame = problems.document.problem(problems.document.place(path), path, "");
    Some(Connections { class, numbers: parsed.flatten(), blame })
}
