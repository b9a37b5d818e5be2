//! What makes hosts differ from clocks, and a warning where nothing does.

use std::collections::BTreeMap;

use incast_plan::{End, HostNoise, Node, Noise, Plan, Ticks};
use incast_protocols::Duration;

use crate::document::Problems;
use crate::network::check_time;
use crate::node::Path;
use crate::random::Stream;
use crate::spec::HostsSpec;

/// The default mean, on sending and on receiving. Kernels add a few microseconds, and more under load: see
/// docs/explanation/ties.md.
const MEAN: Duration = Duration(1_000_000);

/// Clocks began to tick before the run, by less than this: much longer than the timers that go by them.
const LONGEST_PHASE: Duration = Duration::from_ms(1_000_000);

/// What hosts add to the time of packets, checked.
#[derive(Clone, Debug)]
pub(crate) struct HostTiming {
    noise: HostNoise,
    skew: Duration,
    ticks: Ticks,
}

impl HostTiming {
    pub(crate) fn resolve(spec: Option<&HostsSpec>, problems: &mut Problems<'_>) -> Self {
        let default = HostsSpec::default();
        let spec = spec.unwrap_or(&default);
        let path = Path::of(&["hosts"]);
        for (key, noise) in [("noise", &spec.noise), ("sending", &spec.sending), ("receiving", &spec.receiving)] {
            if let Some(noise) = noise {
                check(noise, &path.key(key), problems);
            }
        }
        let skew = spec.skew.unwrap_or_default();
        check_time(skew, &path.key("skew"), problems);
        let both = spec.noise.clone().unwrap_or(Noise::Exponential { mean: MEAN });
        let one = |own: &Option<Noise>| own.clone().unwrap_or_else(|| both.clone());
        Self {
            noise: HostNoise {
                sending: one(&spec.sending),
                receiving: one(&spec.receiving),
                per: spec.noise_per.unwrap_or_default(),
            },
            skew,
            ticks: spec.ticks.unwrap_or_default(),
        }
    }

    /// Puts it into the plan's network.
    pub(crate) fn apply(&self, plan: &mut Plan) {
        plan.network.noise = self.noise.clone();
        if plan.classes.iter().any(|class| class.tcp.timer_tick > Duration::ZERO) {
            let mut random = Stream::new(plan.seed, "hosts.ticks");
            let clocks = if self.ticks == Ticks::Own { plan.network.hosts } else { 1 };
            plan.network.clock_phases = (0..clocks).map(|_| Duration(random.below(LONGEST_PHASE.0))).collect();
        }
        if self.skew == Duration::ZERO {
            return;
        }
        let mut random = Stream::new(plan.seed, "hosts.skew");
        let longer: Vec<u64> = (0..plan.network.hosts).map(|_| random.below(self.skew.0 + 1)).collect();
        for link in &mut plan.network.links {
            if let (Node::Host(host), _) | (_, Node::Host(host)) = (link.from, link.to) {
                link.delay.0 += longer[host as usize];
            }
        }
    }
}

fn check(noise: &Noise, path: &Path, problems: &mut Problems<'_>) {
    match noise {
        Noise::None => {}
        Noise::Uniform { max } => check_time(*max, &path.key("max"), problems),
        Noise::Exponential { mean } => check_time(*mean, &path.key("mean"), problems),
        Noise::Measured { quantiles } => {
            let path = path.key("quantiles");
            for (index, (_, time)) in quantiles.iter().enumerate() {
                check_time(*time, &path.index(index).index(1), problems);
            }
            let rises = quantiles.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
            let ends = quantiles.first().zip(quantiles.last()).is_some_and(|(a, b)| a.0.0 <= 0.0 && b.0.0 >= 1.0);
            if !(rises && ends) {
                problems.at(&path, "these points are not those of a cumulative distribution").allowed =
                    Some("fractions that rise from 0 to 1, with times that do not fall".into());
            }
        }
    }
}

/// A sentence if hosts are as punctual as clocks, and two of them at links of equal rate and delay send to the same host.
pub(crate) fn warn_of_ties(plan: &Plan) -> Option<String> {
    if !plan.network.noise.sending.is_none() || !plan.network.noise.receiving.is_none() {
        return None;
    }
    let mut uplinks = BTreeMap::new();
    for link in &plan.network.links {
        if let Node::Host(host) = link.from {
            uplinks.insert(host, (link.rate, link.delay));
        }
    }
    let sends = plan.sends.iter().map(|send| (send.connection, send.from));
    let responds = plan.aggregators.iter().flat_map(|all| all.workers.iter().map(|&worker| (worker, End::Server)));
    let mut senders = BTreeMap::new();
    for (connection, from) in sends.chain(responds) {
        let connection = &plan.connections[connection as usize];
        let (sender, receiver) = match from {
            End::Client => (connection.client, connection.server),
            End::Server => (connection.server, connection.client),
        };
        if *senders.entry((receiver, uplinks.get(&sender))).or_insert(sender) != sender {
            return Some(
                "hosts at links of equal length send to the same host without any noise: their packets arrive at the same \
                 instant, and the rule for simultaneous events decides which are dropped; set hosts.noise or hosts.skew"
                    .into(),
            );
        }
    }
    None
}
