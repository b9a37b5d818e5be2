//! A part of a plan, small enough to be tried.

use crate::{Aggregator, Connection, Link, Network, Node, Plan, Record, Round, Send};

/// A number that something has not got.
const NONE: u32 = u32::MAX;

impl Plan {
    /// A plan with about `connections` and `messages` at most: those of the first jobs and rounds, and the first that are sent
    /// unasked, each in proportion. An aggregator with too many connections keeps its first workers. Hosts that no connection
    /// needs are left out, and no series is recorded.
    #[must_use]
    pub fn part(&self, connections: usize, messages: usize) -> Self {
        let asked: usize = self.aggregators.iter().map(connections_of).sum();
        let rounds = self.aggregators.iter().flat_map(|one| &one.rounds);
        let all_messages = self.sends.len() + rounds.map(|round| round.responses.len()).sum::<usize>();
        let first = |count: usize| (count * messages.min(all_messages)).div_ceil(all_messages.max(1));
        let mut kept = vec![false; self.connections.len()];
        let of_aggregators = (connections * asked).div_ceil(kept.len().max(1));
        let mut aggregators = first_aggregators(&self.aggregators, of_aggregators, first, &mut kept);
        let mut left = connections.saturating_sub(kept.iter().filter(|kept| **kept).count());
        let mut sends: Vec<Send> = Vec::new();
        for send in self.sends.iter().take(first(self.sends.len())) {
            let connection = &mut kept[send.connection as usize];
            if !*connection && left == 0 {
                continue;
            }
            left -= usize::from(!*connection);
            *connection = true;
            sends.push(send.clone());
        }
        let mut hosts = vec![NONE; self.network.hosts as usize];
        let mut connections: Vec<Connection> = Vec::new();
        let mut numbers = vec![NONE; kept.len()];
        for (index, connection) in self.connections.iter().enumerate().filter(|(index, _)| kept[*index]) {
            numbers[index] = connections.len() as u32;
            hosts[connection.client as usize] = 0;
            hosts[connection.server as usize] = 0;
            connections.push(connection.clone());
        }
        let (network, hosts) = self.network.without(hosts);
        let renumber = |connection: &mut u32| *connection = numbers[*connection as usize];
        for Connection { client, server, .. } in &mut connections {
            *client = hosts[*client as usize];
            *server = hosts[*server as usize];
        }
        for send in &mut sends {
            renumber(&mut send.connection);
        }
        for one in &mut aggregators {
            one.host = hosts[one.host as usize];
            one.workers.iter_mut().chain(&mut one.opened_by_workers).for_each(renumber);
        }
        let record = Record { queue_statistics: self.record.queue_statistics, ..Record::default() };
        Self {
            name: self.name.clone(),
            seed: self.seed,
            network,
            classes: self.classes.clone(),
            connections,
            sends,
            aggregators,
            stop_at: self.stop_at,
            record,
            warnings: Vec::new(),
        }
    }
}

fn connections_of(one: &Aggregator) -> usize {
    one.workers.len() + one.opened_by_workers.len()
}

/// The aggregators that begin first and have `most` connections, about, which are then `kept`; with the first of their rounds.
fn first_aggregators(
    all: &[Aggregator],
    most: usize,
    rounds: impl Fn(usize) -> usize,
    kept: &mut [bool],
) -> Vec<Aggregator> {
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|&index| all[index].start);
    let mut left = most;
    let mut first = Vec::new();
    for index in order {
        if left == 0 {
            break;
        }
        let workers = (all[index].workers.len() * left).div_ceil(connections_of(&all[index]).max(1));
        let one = first_of(&all[index], workers, rounds(all[index].rounds.len()));
        for &connection in one.workers.iter().chain(&one.opened_by_workers) {
            kept[connection as usize] = true;
        }
        left = left.saturating_sub(connections_of(&one));
        first.push((index, one));
    }
    first.sort_by_key(|(index, _)| *index);
    first.into_iter().map(|(_, one)| one).collect()
}

/// An aggregator with its first `workers` and `rounds` at most.
fn first_of(one: &Aggregator, workers: usize, rounds: usize) -> Aggregator {
    let first = |connections: &[u32]| connections.iter().copied().take(workers).collect();
    let round = |round: &Round| Round { responses: round.responses.iter().take(workers).cloned().collect() };
    Aggregator {
        workers: first(&one.workers),
        opened_by_workers: first(&one.opened_by_workers),
        rounds: one.rounds.iter().take(rounds).map(round).collect(),
        host: one.host,
        class: one.class,
        start: one.start,
        request: one.request,
        last_port_buffer: one.last_port_buffer,
    }
}

impl Network {
    /// The network without the hosts that have no number here, and the new numbers of the others.
    fn without(&self, mut hosts: Vec<u32>) -> (Self, Vec<u32>) {
        let mut count = 0;
        let mut clock_phases = Vec::new();
        for (host, number) in (0..).zip(&mut hosts).filter(|(_, number)| **number != NONE) {
            *number = count;
            count += 1;
            if !self.clock_phases.is_empty() {
                clock_phases.push(self.clock_phase(host));
            }
        }
        let renumbered = |node: Node| match node {
            Node::Host(host) => Some(hosts[host as usize]).filter(|number| *number != NONE).map(Node::Host),
            Node::Switch(_) => Some(node),
        };
        let links = self.links.iter().filter_map(|link| {
            let (from, to) = (renumbered(link.from)?, renumbered(link.to)?);
            Some(Link { from, to, ..link.clone() })
        });
        let links = links.collect();
        let noise = self.noise.clone();
        (Self { hosts: count, switches: self.switches.clone(), links, noise, clock_phases }, hosts)
    }
}
