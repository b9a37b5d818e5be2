//! Messages and ports of a plan before anything has happened to them: who sends what to whom, on which path, and
//! how long it would take on an idle network.

use incast_plan::{Connection, End, Link, Network, Node, Plan, Send};
use incast_protocols::switch::buffer::BufferChoice;
use incast_protocols::switch::buffer::capacity::port_limit;
use incast_protocols::{Amount, Bytes, Duration, Message, Time};
use incast_record::{Flow, Losses, PortRow};

use crate::Routes;
use crate::random::{Purpose, stream};

/// All that have a row in the results, by number: those planned, then the responses of aggregators by (aggregator, round,
/// worker). A response starts when its request is issued and begins with its round, which is not known yet.
#[derive(Clone, Debug)]
pub struct Messages<'p> {
    plan: &'p Plan,
    /// By aggregator: the number of its first response.
    first: Vec<u32>,
    count: u32,
}

impl<'p> Messages<'p> {
    /// Those of a plan.
    #[must_use]
    pub fn of(plan: &'p Plan) -> Self {
        let mut count = plan.sends.len() as u32;
        let first = plan.aggregators.iter().map(|aggregator| {
            let first = count;
            count += (aggregator.rounds.len() * aggregator.workers.len()) as u32;
            first
        });
        Self { plan, first: first.collect(), count }
    }

    /// How many there are.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Their payloads; nothing for those that never end.
    pub fn sizes(&self) -> impl Iterator<Item = Option<Bytes>> {
        let rounds = self.plan.aggregators.iter().flat_map(|aggregator| &aggregator.rounds);
        let asked = rounds.flat_map(|round| &round.responses).map(|response| response.message.size);
        self.plan.sends.iter().map(Send::size).chain(asked)
    }

    /// A row before anything has happened.
    #[must_use]
    pub fn row(&self, routes: &Routes, number: u32) -> Flow {
        let (connection, from, round, start, message) = self.sent(number);
        let planned = &self.plan.connections[connection as usize];
        let (source, destination) = ends(planned, from);
        let path = path(self.plan, routes, connection, from);
        Flow {
            id: number.into(),
            class: planned.class,
            connection,
            source,
            destination,
            from_client: from == End::Client,
            offset: None,
            round,
            size: message.size,
            start,
            begin: start,
            end: None,
            fluid_end: None,
            delivered: Bytes::ZERO,
            ideal: message.size.map(|size| unloaded(self.plan, connection, &path, size)),
            deadline: message.deadline,
            coflow: message.coflow.map(|coflow| coflow.0),
            losses: Losses::default(),
        }
    }

    /// All rows before anything has happened.
    pub fn rows(&self, routes: &Routes) -> impl Iterator<Item = Flow> {
        (0..self.count).map(|number| self.row(routes, number))
    }

    /// Connection, sending end, round, start and facts of a message.
    fn sent(&self, number: u32) -> (u32, End, u32, Time, Message) {
        if let Some(send) = self.plan.sends.get(number as usize) {
            return (send.connection, send.from, send.round, send.start, send.message());
        }
        let asker = self.first.partition_point(|&first| first <= number) - 1;
        let aggregator = &self.plan.aggregators[asker];
        let response = (number - self.first[asker]) as usize;
        let (round, worker) = (response / aggregator.workers.len(), response % aggregator.workers.len());
        let (connection, from) = aggregator.responds_on(worker);
        // Its deadline is known when its round begins.
        let message = Message { deadline: None, ..aggregator.rounds[round].responses[worker].message };
        (connection, from, round as u32, Time::NEVER, message)
    }
}

/// Source and destination of what one end sends.
const fn ends(connection: &Connection, from: End) -> (u32, u32) {
    match from {
        End::Client => (connection.client, connection.server),
        End::Server => (connection.server, connection.client),
    }
}

/// The links that what one end of a connection sends goes over.
#[must_use]
pub fn path(plan: &Plan, routes: &Routes, connection: u32, from: End) -> Vec<u32> {
    let (source, destination) = ends(&plan.connections[connection as usize], from);
    routes.path(&plan.network, source, destination, path_number(plan.seed, connection, from))
}

/// Chooses among equal paths.
#[must_use]
pub fn path_number(seed: u64, connection: u32, from: End) -> u16 {
    let number = u64::from(connection) * 2 + u64::from(from == End::Server);
    (stream(seed, Purpose::Path, number).next() >> 48) as u16
}

/// Completion time of a message of this size on an idle path for a sender that never waits.
#[must_use]
pub fn unloaded(plan: &Plan, connection: u32, path: &[u32], size: Bytes) -> Duration {
    let tcp = &plan.classes[plan.connections[connection as usize].class as usize].tcp;
    let links: Vec<&Link> = path.iter().map(|&link| &plan.network.links[link as usize]).collect();
    crossing(&links, size, tcp.mss, tcp.header)
}

/// The time at which the last packet has crossed store-and-forward hops, of which the slowest sets the pace.
fn crossing(path: &[&Link], size: Bytes, mss: Bytes, header: Bytes) -> Duration {
    let full = (size.0 - 1) / mss.0;
    let last = Bytes(size.0 - full * mss.0);
    let times = |payload: Bytes| -> Vec<u128> {
        path.iter().map(|link| u128::from(link.rate.time_for(payload + header).0)).collect()
    };
    let last = times(last);
    // Without full packets nothing is ahead of the last one.
    let ahead = if full > 0 { times(mss) } else { last.clone() };
    let propagation: u128 = path.iter().map(|link| u128::from(link.delay.0)).sum();
    // The last packet queues behind its predecessors at exactly one hop: the worst of all choices.
    let queued = (0..path.len()).map(|hop| {
        let before: u128 = ahead[..hop].iter().sum();
        let rest: u128 = last[hop..].iter().sum();
        before + u128::from(full) * ahead[hop] + rest
    });
    Duration(u64::try_from(propagation + queued.max().unwrap_or(0)).unwrap_or(u64::MAX))
}

/// What a switch port may hold, in bytes or in packets, as its buffer counts; neither if there is no limit.
type Limits = (Option<Bytes>, Option<u32>);

fn limit_of(buffer: &BufferChoice) -> Limits {
    if matches!(buffer, BufferChoice::Custom(_)) {
        // What it may hold need not follow from what one packet finds.
        return (None, None);
    }
    match port_limit(buffer) {
        Amount::Bytes(bytes) => (Some(bytes), None),
        Amount::Packets(packets) => (None, Some(packets).filter(|packets| *packets < u32::MAX)),
    }
}

/// Every switch port, with nothing counted.
#[must_use]
pub fn unused_ports(network: &Network) -> Vec<PortRow> {
    let name = |node: Node| match node {
        Node::Host(host) => format!("host {host}"),
        Node::Switch(switch) => network.switches[switch as usize].name.clone(),
    };
    let ports = (0..).zip(&network.links).filter(|(_, link)| link.port.is_some());
    // Most ports of a network have the same buffer, and its limit is found by trying.
    let mut last: Option<(&BufferChoice, Limits)> = None;
    let mut limits = |link: &Link| {
        let (Node::Switch(switch), Some(port)) = (link.from, &link.port) else { return (None, None) };
        let buffer = &network.switches[switch as usize].buffers[port.buffer as usize];
        let known = last.filter(|(other, _)| *other == buffer).map(|(_, limits)| limits);
        let limits = known.unwrap_or_else(|| limit_of(buffer));
        last = Some((buffer, limits));
        limits
    };
    ports
        .map(|(number, link)| (number, link, limits(link)))
        .map(|(number, link, (limit_bytes, limit_packets))| PortRow {
            link: number,
            from: name(link.from),
            to: name(link.to),
            rate: link.rate,
            limit_bytes,
            limit_packets,
            packets: 0,
            bytes: Bytes::ZERO,
            drops: 0,
            ce_marks: 0,
            ein_marks: 0,
            wire_losses: 0,
            max_waiting: 0,
            queue: None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use incast_protocols::Rate;

    fn path(rates: &[u64], delay_us: u64) -> Vec<Link> {
        let delay = Duration::from_us(delay_us);
        let (from, to) = (Node::Host(0), Node::Switch(0));
        rates
            .iter()
            .map(|&rate| Link {
                from,
                to,
                rate: Rate(rate),
                delay,
                burst: Bytes::ZERO,
                port: None,
                loss: 0.0,
                reorder: None,
            })
            .collect()
    }

    fn unloaded_us(rates: &[u64], size: u64) -> f64 {
        let links = path(rates, 10);
        crossing(&links.iter().collect::<Vec<_>>(), Bytes(size), Bytes(1460), Bytes(40)).as_secs_f64() * 1e6
    }

    /// The Pulser paper's network: 4 hops of 10 us at 10 Gbit/s.
    #[test]
    fn unloaded_transfers_take_propagation_plus_wire_time_plus_store_and_forward() {
        let rates = [10_000_000_000; 4];
        for (size, us) in [(8 << 10, 50.35), (20 << 10, 60.46), (32 << 10, 70.55), (1 << 20, 905.5)] {
            // The formula of the paper counts a full packet for each further hop, ours the last packet's own.
            let ours = unloaded_us(&rates, size);
            assert!(ours <= us + 0.01 && us - ours < 3.7, "{size}: {ours} against {us}");
        }
    }

    #[test]
    fn the_slowest_hop_sets_the_pace() {
        // Two full packets over a fast, a slow and a fast hop, by hand: 1.2 + 2 * 12 + 1.2 us and 30 us of wire.
        let us = unloaded_us(&[10_000_000_000, 1_000_000_000, 10_000_000_000], 2920);
        assert!((us - (30.0 + 1.2 + 24.0 + 1.2)).abs() < 1e-9, "{us}");
    }
}
