//! On how many threads a run goes.

use std::num::NonZeroUsize;
use std::thread::available_parallelism;

use incast_plan::{End, Node, Plan};
use incast_world::Threads;

use crate::DriverKind;
use crate::driver::window;
use crate::partition::Partition;

/// Runs of fewer packet-hops are over before threads pay.
const LEAST_PACKET_HOPS: u64 = 1_000_000;
/// What a thread has to do in a window on average, in packet-hops, so that meeting the others costs little next to it.
const LEAST_PER_WINDOW: u64 = 200;
/// Hosts that a part needs, so that their work comes to about the same in every window.
const LEAST_HOSTS: usize = 16;
/// Each part holds the rows of all messages in memory, and so no more of them can go on several threads unless somebody wants it.
const MOST_MESSAGES: usize = 200_000;
/// A part with more than this, times its fair share, of the work keeps the others waiting.
const MOST_UNFAIR: f64 = 1.25;

/// As many as somebody wants, or as pay; fewer if the plan does not allow for them.
pub(crate) fn of(plan: &Plan, wish: Option<NonZeroUsize>) -> Threads {
    let count = parts(plan, wish).map_or(1, |partition| partition.parts);
    let why = wish.is_some_and(|wish| count < wish.get()).then(|| match (obstacle(plan), count) {
        (Some(obstacle), _) => obstacle.to_owned(),
        (None, 1) => "all hosts are at one switch".to_owned(),
        (None, count) => format!("hosts are at {count} switches"),
    });
    Threads { count, why }
}

/// The parts of the network that have a thread each; none if one thread has all of it.
pub(crate) fn parts(plan: &Plan, wish: Option<NonZeroUsize>) -> Option<Partition> {
    let Some(wish) = wish else { return pays(plan, || available_parallelism().map_or(1, NonZeroUsize::get)) };
    if wish.get() == 1 || obstacle(plan).is_some() {
        return None;
    }
    Some(Partition::new(plan, wish.get())).filter(|partition| partition.parts > 1)
}

/// What keeps a plan on one thread.
fn obstacle(plan: &Plan) -> Option<&'static str> {
    let (driver, rule) = DriverKind::choose(plan);
    if driver == DriverKind::EventLoop {
        Some(rule)
    } else if !plan.record.packets.is_empty() {
        Some("packets are recorded one by one, with options that travel beside them")
    } else if plan.sends.iter().any(|send| send.size_known_at().is_some()) {
        Some("messages tell their sizes in mid-flow")
    } else {
        None
    }
}

/// The parts with which threads pay for a plan. Counting processors takes as long as starting a small run, so they are counted last.
fn pays(plan: &Plan, processors: impl FnOnce() -> usize) -> Option<Partition> {
    let hosts = plan.network.hosts as usize;
    if hosts < 2 * LEAST_HOSTS || plan.sends.len() > MOST_MESSAGES || obstacle(plan).is_some() {
        return None;
    }
    let hops = plan.packet_hops();
    if hops < LEAST_PACKET_HOPS {
        return None;
    }
    let processors = processors();
    if processors < 2 {
        return None;
    }
    let per_window = hops / (shortest_time(plan) / window(plan)).max(1);
    let most = (per_window / LEAST_PER_WINDOW).min((hosts / LEAST_HOSTS) as u64).min(processors as u64);
    (2..=most as usize)
        .rev()
        .map(|parts| Partition::new(plan, parts))
        .find(|partition| partition.largest_share * partition.parts as f64 <= MOST_UNFAIR)
        .filter(|partition| partition.parts > 1)
}

/// A time that a run takes at least, or nearly so: no host gets what is for it faster than its link carries it.
fn shortest_time(plan: &Plan) -> u64 {
    let mut rates = vec![1; plan.network.hosts as usize];
    for link in &plan.network.links {
        if let Node::Host(host) = link.to {
            rates[host as usize] = link.rate.0.max(1);
        }
    }
    let mut free_at = vec![0_u64; rates.len()];
    for send in &plan.sends {
        let connection = &plan.connections[send.connection as usize];
        let to = if send.from == End::Client { connection.server } else { connection.client } as usize;
        let takes = send.size().map_or(0, |size| time_for(size.0, rates[to]));
        free_at[to] = free_at[to].max(send.start.0).saturating_add(takes);
    }
    for aggregator in &plan.aggregators {
        let to = aggregator.host as usize;
        let mut at = free_at[to].max(aggregator.start.0);
        for round in &aggregator.rounds {
            let bytes = round.responses.iter().filter_map(|response| response.message.size).map(|size| size.0).sum();
            let waits = round.responses.iter().map(|response| response.jitter.0 + response.service_time.0).max();
            at = at.saturating_add(time_for(bytes, rates[to]).max(waits.unwrap_or(0)));
        }
        free_at[to] = at;
    }
    let end = free_at.into_iter().max().unwrap_or(0);
    match plan.stop_at {
        Some(stop) if plan.sends.iter().any(|send| send.size().is_none()) => stop.0,
        Some(stop) => end.min(stop.0),
        None => end,
    }
}

/// Picoseconds that these bytes take at this rate in bits per second.
fn time_for(bytes: u64, rate: u64) -> u64 {
    u64::try_from(u128::from(bytes) * 8_000_000_000_000 / u128::from(rate)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use incast_plan::Handshake;
    use incast_protocols::Time;
    use incast_testing::{add_flow, leaf_spine_load, packets, star_load};

    fn threads(plan: &Plan, processors: usize) -> usize {
        pays(plan, || processors).map_or(1, |partition| partition.parts)
    }

    fn load(flows: u32, slower: u64) -> Plan {
        let mut plan = leaf_spine_load(20, 20, 10, flows, 1, 250, 65);
        for send in &mut plan.sends {
            send.start.0 *= slower;
        }
        plan
    }

    #[test]
    fn threads_are_chosen_where_each_has_enough_to_do_in_every_window() {
        let plan = load(4_000, 1);
        assert_eq!([1, 2, 4].map(|processors| threads(&plan, processors)), [1, 2, 4]);
        assert_eq!(threads(&plan, 64), 9, "no more have as much to do as others");
        assert_eq!(threads(&load(4_000, 40), 2), 1, "the same work in forty times as many windows");
        assert_eq!(threads(&load(500, 1), 2), 1, "it is over soon");
        assert_eq!(threads(&star_load(41, 20_000, &packets(250)), 2), 1, "there is one switch");
    }

    #[test]
    fn one_host_that_gets_most_of_the_bytes_leaves_nothing_to_share() {
        let mut plan = load(0, 1);
        for sender in 1..400 {
            add_flow(&mut plan, sender, 0, Some(1 << 20), Time(0), Handshake::Counted);
        }
        assert!(plan.packet_hops() > LEAST_PACKET_HOPS);
        assert_eq!(threads(&plan, 2), 1);
        // It has half of the bytes, and four parts cannot have a quarter each.
        assert!(Partition::new(&plan, 4).largest_share > 0.5);
    }
}
