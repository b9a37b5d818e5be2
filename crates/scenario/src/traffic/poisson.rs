//! Messages between random hosts at random times, alone or as incasts.

use std::collections::BTreeSet;

use incast_protocols::{CoflowId, Duration, Message, Priority, Time};
use schemars::JsonSchema;
use serde::Deserialize;

use super::arrivals::{Arrivals, Stop};
use super::{ConnectionsSpec, Context, Workload};
use crate::expand::{Expansion, Reuse};
use crate::limits;
use crate::offered::crossing_links;
use crate::report::Report;
use crate::sizes::{Sizes, SizesSpec};
use crate::spec::{HostRef, HostSet, StackSpec, TcpTable};
use incast_plan::{End, Send, WindowPerMessage};

mod deadlines;
mod pairs;

use deadlines::{Deadlines, DeadlinesSpec};
pub(crate) use pairs::Pairs;
use pairs::PairsSpec;

/// Messages between random hosts at random times: a Poisson process.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PoissonSpec {
    /// Offered payload as a share of what `reference` names, e.g. 0.6 for 60 %.
    #[schemars(range(min = 0.0, max = 100.0))]
    load: Option<f64>,
    /// What the load is a share of.
    reference: Option<ReferenceSpec>,
    /// With reference "named-links": the links, by the names that `record.packets` has for ports, such as
    /// "leaf 0->spine 1"; "*" stands for any text, as in "aggregation *->core *".
    #[schemars(length(min = 1))]
    links: Option<Vec<String>>,
    /// Share of the load that this class offers: with load 0.6 and share 0.2 it is 0.12. Default: 1.0.
    #[schemars(range(min = 0.0, max = 1.0), extend("default" = 1.0))]
    share: Option<f64>,
    /// Instead of load and reference: average number of messages per second.
    rate_per_s: Option<f64>,
    /// Sizes of the messages.
    sizes: SizesSpec,
    /// Number of messages.
    #[schemars(range(min = 1))]
    flows: Option<u64>,
    /// Instead of flows: time at which arrivals stop.
    until: Option<Duration>,
    /// Start of the arrival process. The first message starts a random time later. Default: "0s".
    start: Option<Duration>,
    /// Which pairs of hosts exchange messages. Default: "any".
    #[schemars(extend("default" = "any"))]
    pairs: Option<PairsSpec>,
    /// Number of senders per arrival: different hosts, each of which sends one message to the same host. Default: 1.
    #[schemars(range(min = 1), extend("default" = 1))]
    fan_in: Option<u32>,
    /// Maximum random delay of each message, drawn uniformly from 0 to this. Default: "0s".
    jitter: Option<Duration>,
    /// Hosts that send and receive. Default: all.
    hosts: Option<Vec<HostRef>>,
    /// Hosts that neither send nor receive. Default: none.
    except: Option<HostSet>,
    /// Whether messages share connections. Default: "fresh".
    #[schemars(extend("default" = "fresh"))]
    connections: Option<ConnectionsSpec>,
    /// Window at the start of each message on a persistent connection. Default: "restart-after-idle".
    window: Option<WindowPerMessage>,
    /// Deadline of each message, from its start, e.g. "10ms". Default: none.
    deadline: Option<Duration>,
    /// Instead of one deadline for all messages: deadlines by size, for a share of the messages.
    deadlines: Option<DeadlinesSpec>,
    /// Time after the start of a message at which the application learns its size. Until then its deadline requires no
    /// rate. The receiver learns the size only if the first segment has not arrived by then. Default: "0s".
    #[schemars(extend("default" = "0s"))]
    size_known_after: Option<Duration>,
    /// Priority of these messages at switch ports with several queues (`scheduler` of `[switch]`), e.g. 1. Default: 0, the lowest.
    priority: Option<u32>,
    /// Algorithms at the ends; overrides `[stack]` key by key.
    pub(super) stack: Option<StackSpec>,
    /// TCP of this class; overrides `[tcp]` key by key.
    pub(super) tcp: Option<TcpTable>,
}

/// What a load is a share of. The first three are in use in papers, and they differ by the oversubscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "LoadReference")]
pub(crate) enum ReferenceSpec {
    /// The links of participating hosts: each host sends, and receives, this share of its rate.
    HostLinks,
    /// The links from leaves to spines, or from edge to aggregation switches, compared with messages between racks.
    LeafUplinks,
    /// The links from leaves to spines, compared with all messages, including those within a rack, which never use
    /// them.
    LeafUplinksAllTraffic,
    /// The links that `links` names, compared with what crosses them if messages are spread evenly over all shortest
    /// paths.
    NamedLinks,
}

/// A checked process.
#[derive(Debug)]
pub(super) struct Poisson {
    per_second: f64,
    sizes: Sizes,
    pairs: Pairs,
    fan_in: u32,
    jitter: Duration,
    start: Duration,
    end: Stop,
    reuse: Reuse,
    size_known_after: Option<Duration>,
    deadline: Option<Duration>,
    deadlines: Option<Deadlines>,
    priority: Option<Priority>,
}

impl PoissonSpec {
    pub(super) fn resolve(&self, context: &mut Context<'_, '_>) -> Option<Poisson> {
        let sizes = Sizes::resolve(&self.sizes, &context.path.key("sizes"), context.files, context.problems);
        let pairs = self.resolve_pairs(context);
        let start = context.time(self.start, "start");
        let jitter = context.time(self.jitter, "jitter");
        let deadline = self.deadline.map(|deadline| context.time(Some(deadline), "deadline"));
        if self.deadline.is_some() && self.deadlines.is_some() {
            context.problem("deadlines", "both deadline and deadlines are given: choose one");
        }
        let deadlines = match &self.deadlines {
            Some(spec) => Some(Deadlines::resolve(spec, context)?),
            None => None,
        };
        let reuse = context.reuse(self.connections, self.window);
        let end = Stop::resolve(self.flows, self.until, start, "flows", context);
        let (sizes, pairs) = (sizes?, pairs?);
        let fan_in = self.resolve_fan_in(&pairs, context)?;
        let per_second = self.resolve_rate(sizes.mean_bytes(), &pairs, context)?;
        let wire = sizes.mean_bytes() + sizes.mean_segments(context.tcp.mss) * context.tcp.header.0 as f64;
        context.offered.begin(context.name);
        context.offered.add(pairs.hosts(), &pairs.received(), pairs.by_rack(), per_second * wire * 8.0, context.layout);
        Some(Poisson {
            per_second,
            sizes,
            pairs,
            fan_in,
            jitter,
            start,
            end: end?,
            reuse,
            deadline,
            deadlines,
            size_known_after: self.size_known_after.map(|after| context.time(Some(after), "size_known_after")),
            priority: context.priority(self.priority),
        })
    }

    fn resolve_pairs(&self, context: &mut Context<'_, '_>) -> Option<Pairs> {
        let mut hosts = match &self.hosts {
            Some(list) => context.pick_from(list, None, "hosts")?,
            None => (0..context.layout.hosts()).collect(),
        };
        if let Some(except) = &self.except {
            let except: BTreeSet<u32> = context.host_set(except, "except")?.into_iter().collect();
            hosts.retain(|host| !except.contains(host));
        }
        if hosts.len() < 2 {
            let key = if self.except.is_some() { "except" } else { "hosts" };
            context.problem(key, "at least two hosts are needed");
            return None;
        }
        let wish = self.pairs.unwrap_or(PairsSpec::Any);
        let racks = context.layout.racks.as_deref();
        if wish == PairsSpec::OtherRack && racks.is_none() {
            context.problem("pairs", "this topology has no racks").allowed =
                Some("\"any\"; or a leaf-spine, fat-tree or dumbbell topology".into());
            return None;
        }
        let pairs = Pairs::new(hosts, wish, racks);
        if pairs.is_none() {
            context.problem("pairs", "all participating hosts are in one rack");
        }
        pairs
    }

    fn resolve_fan_in(&self, pairs: &Pairs, context: &mut Context<'_, '_>) -> Option<u32> {
        let fan_in = self.fan_in.unwrap_or(1);
        let most = pairs.fewest_senders();
        if fan_in == 0 || fan_in > most {
            let allowed = format!("1 to {most}, the number of hosts that can send to the same one");
            context.problems.out_of_range(&context.path.key("fan_in"), fan_in, allowed);
            return None;
        }
        if let Some(flows) = self.flows.filter(|flows| flows % u64::from(fan_in) != 0) {
            let below = flows - flows % u64::from(fan_in);
            context.problem("flows", format!("{flows} is not a multiple of fan_in ({fan_in})")).allowed =
                Some(format!("{below} or {}, for example", below + u64::from(fan_in)));
            return None;
        }
        Some(fan_in)
    }

    /// Messages per second.
    fn resolve_rate(&self, mean_bytes: f64, pairs: &Pairs, context: &mut Context<'_, '_>) -> Option<f64> {
        if self.share.is_some() && self.load.is_none() {
            context.problem("share", "no effect without load");
            return None;
        }
        if self.links.is_some() && self.reference != Some(ReferenceSpec::NamedLinks) {
            context.problem("links", "no effect without reference = \"named-links\"");
            return None;
        }
        match (self.load, self.reference, self.rate_per_s) {
            (None, None, Some(rate)) => {
                let possible = rate > 0.0 && rate <= 1e12;
                if !possible {
                    let path = context.path.key("rate_per_s");
                    context.problems.out_of_range(&path, format!("{rate:?}"), "above 0, at most 1e12");
                }
                possible.then_some(rate)
            }
            (Some(load), Some(reference), None) => {
                let share = self.share.unwrap_or(1.0);
                for (key, value) in [("load", load), ("share", share)] {
                    if value <= 0.0 {
                        context.problems.out_of_range(&context.path.key(key), value, "above 0");
                        return None;
                    }
                }
                let bits = match reference {
                    ReferenceSpec::HostLinks => {
                        pairs.hosts().iter().map(|&host| context.layout.up_rate(host).0 as f64).sum()
                    }
                    ReferenceSpec::LeafUplinks => uplinks(context)? / crossing(pairs, context)?,
                    ReferenceSpec::LeafUplinksAllTraffic => uplinks(context)?,
                    ReferenceSpec::NamedLinks => self.named_links(pairs, context)?,
                };
                Some(load * share * bits / (8.0 * mean_bytes))
            }
            (Some(_), None, None) => {
                let problem = context.problem("reference", "missing: what load is a share of");
                problem.allowed = Some("host-links, leaf-uplinks, leaf-uplinks-all-traffic, named-links".into());
                None
            }
            (None, None, None) => {
                context.problem("load", "missing: give load and reference, or rate_per_s");
                None
            }
            _ => {
                context.problem("rate_per_s", "give either load and reference, or rate_per_s");
                None
            }
        }
    }
}

impl PoissonSpec {
    /// Bits per second at which messages between these pairs offer the named links what they carry together.
    fn named_links(&self, pairs: &Pairs, context: &mut Context<'_, '_>) -> Option<f64> {
        let Some(names) = &self.links else {
            context.problem("links", "missing: the links that load is a share of").allowed =
                Some("names such as \"switch->host 0\" or \"leaf *->spine *\"".into());
            return None;
        };
        let path = context.path.key("links");
        let mut links = BTreeSet::new();
        for (index, name) in names.iter().enumerate() {
            links.extend(context.layout.links_named(name, &path.index(index), context.problems)?);
        }
        let Some(crossing) = crossing_links(pairs.hosts(), pairs.chances(), &pairs.received(), context.layout) else {
            context.problem("links", "the network is too large to find all shortest paths").allowed =
                Some("rate_per_s instead of a load".into());
            return None;
        };
        let carried: f64 = links.iter().map(|&link| crossing[link as usize]).sum();
        if carried <= 0.0 {
            context.problem("links", "no message crosses these links");
            return None;
        }
        let rates: f64 = links.iter().map(|&link| context.layout.network.links[link as usize].rate.0 as f64).sum();
        Some(rates / carried)
    }
}

/// Bits per second of all links from leaves to spines.
fn uplinks(context: &mut Context<'_, '_>) -> Option<f64> {
    if let Some(uplinks) = context.layout.uplinks {
        return Some(f64::from(uplinks.leaves) * f64::from(uplinks.count) * uplinks.rate.0 as f64);
    }
    context.problem("reference", "this topology has no leaf switches with uplinks").allowed =
        Some("host-links; or rate_per_s instead of a load".into());
    None
}

/// Share of messages that leave their rack.
fn crossing(pairs: &Pairs, context: &mut Context<'_, '_>) -> Option<f64> {
    let share = pairs.crossing();
    if share <= 0.0 {
        context.problem("reference", "no message leaves its rack, so the uplinks would carry nothing");
        return None;
    }
    Some(share)
}

impl Workload for Poisson {
    fn messages(&self) -> f64 {
        self.end.count(self.start, self.per_second)
    }

    fn receivers(&self) -> Vec<u32> {
        self.pairs.hosts().to_vec()
    }

    fn expand(&self, expansion: &mut Expansion<'_>) -> Result<(), Report> {
        let (mut pairs, mut sizes) = (expansion.stream("pairs"), expansion.stream("sizes"));
        let (mut jitter, mut deadlines) = (expansion.stream("jitter"), expansion.stream("deadlines"));
        let end = match self.end {
            Stop::After(flows) => Stop::After(flows / u64::from(self.fan_in)),
            at @ Stop::At(_) => at,
        };
        let mean_gap = 1e12 / self.per_second * f64::from(self.fan_in);
        let mut arrivals = Arrivals::new(expansion, self.start, mean_gap, end);
        let mut sent = 0;
        let mut senders = Vec::with_capacity(self.fan_in as usize);
        while let Some(now) = arrivals.next(expansion, "messages")? {
            if sent >= limits::MESSAGES {
                return Err(expansion.problem(format!("more than {} messages", limits::MESSAGES)));
            }
            let to = self.pairs.draw_group(&mut pairs, self.fan_in, &mut senders);
            let coflow = (self.fan_in > 1).then(|| CoflowId(expansion.coflow()));
            for &from in &senders {
                let late = if self.jitter == Duration::ZERO { 0 } else { jitter.below(self.jitter.0 + 1) };
                let start = Time(now + late);
                let connection = expansion.connect(from, to, self.reuse);
                let size = self.sizes.draw(&mut sizes);
                let deadline = match &self.deadlines {
                    Some(rules) => rules.draw(size, &mut deadlines),
                    None => self.deadline,
                };
                let message = Message {
                    size: Some(size),
                    deadline: deadline.map(|deadline| start + deadline),
                    coflow,
                    priority: self.priority,
                    ..Message::default()
                };
                let size_known_at = self.size_known_after.map(|after| start + after);
                let send = Send::new(connection, End::Client, start, message);
                expansion.plan.sends.push(send.with_size_known_at(size_known_at));
            }
            sent += u64::from(self.fan_in);
        }
        Ok(())
    }
}
