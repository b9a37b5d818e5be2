//! What crosses from one part of a network to another, each of which is simulated by a world of its own.
//!
//! A part has the hosts, the switches and the links that leave them; of a link that leads into it, it has what arrives in the next
//! window, or all that is on the wire if the link reorders. An end of a connection is in the part of its host. Whatever one part has for
//! another is kept until the window is over. Then it is handed over, before anybody there asks for it: a packet arrives in a later
//! window, and what travels beside it, the facts of messages and options, is read when it arrives.

use incast_plan::{End, Link};
use incast_protocols::Time;
use incast_protocols::switch::telemetry::Telemetry;
use incast_record::Flow;

use super::control::Nic;
use super::{Counted, NONE, World};
use crate::link::{Flight, Said};
use crate::observe::Observer;
use crate::partition::Partition;
use crate::tcp::sack::{SackOption, Written};
use crate::tcp::{MessageId, Span, State};

/// What one part has for another. Used again and again, so that in the long run nothing is allocated.
#[derive(Debug, Default)]
pub(crate) struct Crossings {
    /// Links over which packets come, and how many of `flights` do.
    links: Vec<(u32, u32)>,
    /// In the order of the links, those of one link in the order in which they left.
    flights: Vec<Flight>,
    messages: Vec<Announced>,
    options: Vec<OptionFor>,
    /// For those of the options that have one, in their order.
    echoes: Vec<Telemetry>,
    hops: Vec<Said>,
    /// Connections of which a packet has vanished, for the part of the client.
    vanished: Vec<u32>,
    /// For the part of the client, from that of the server.
    closing: Vec<Closing>,
    /// Connections whose server is needed no more, from the part of the client.
    released: Vec<u32>,
}

impl Crossings {
    /// Leaves it at a place where another thread takes it from. What lies there has been taken, and is empty.
    pub(crate) fn leave_at(&mut self, place: &mut Self) {
        std::mem::swap(self, place);
        // The place is in the cache of the other thread's processor, and each line of it has to come here to be written. Where packets are
        // copied there together, many lines come at once.
        std::mem::swap(&mut self.links, &mut place.links);
        std::mem::swap(&mut self.flights, &mut place.flights);
        place.links.extend_from_slice(&self.links);
        place.flights.extend_from_slice(&self.flights);
        self.links.clear();
        self.flights.clear();
    }
}

/// A message that this end of a connection is to get.
#[derive(Debug)]
struct Announced {
    connection: u32,
    to: End,
    span: Span,
    /// Of the response, if it is a request.
    deadline: Option<Time>,
}

/// An option that this end of a connection is to get.
#[derive(Debug)]
struct OptionFor {
    connection: u32,
    to: End,
    sack: SackOption,
    has_echo: bool,
}

/// The server of a connection is done.
#[derive(Debug)]
struct Closing {
    connection: u32,
    /// What its part has counted since it last told.
    under_way: i64,
}

/// Where a part of a network ends.
#[derive(Debug)]
pub(crate) struct Frontier<'p> {
    partition: &'p Partition,
    part: usize,
    /// By part: what is for it.
    pub(crate) out: Vec<Crossings>,
    /// Connections whose client is here and whose server is not, and which may have come to their end.
    closing: Vec<u32>,
}

impl<'p> Frontier<'p> {
    pub(crate) fn new(partition: &'p Partition, part: usize) -> Self {
        let out = (0..partition.parts).map(|_| Crossings::default()).collect();
        Self { partition, part, out, closing: Vec::new() }
    }
}

impl<'p, O: Observer> World<'p, O> {
    /// Makes this the world of a part, and leaves what belongs to others to them.
    pub(crate) fn keep_to(&mut self, frontier: Frontier<'p>) {
        self.frontier = Some(frontier);
        for connection in 0..self.ends_of.len() as u32 {
            for end in [End::Client, End::Server] {
                let known = &mut self.ends_of[connection as usize][usize::from(end == End::Server)];
                if *known != NONE {
                    let index = *known;
                    if !self.has(self.endpoints[index as usize].host) {
                        self.ends_of[connection as usize][usize::from(end == End::Server)] = NONE;
                        self.free.push(index);
                    }
                }
            }
        }
        for host in 0..self.nics.len() as u32 {
            if !self.has(host) {
                self.nics[host as usize] = Nic::new(None);
            }
        }
        let own = self.messages.all().iter().filter(|flow| flow.size.is_some() && self.has(flow.destination));
        self.unfinished = own.count() as u64;
    }

    /// Packets that have begun transmission here.
    pub(crate) fn packet_hops(&self) -> u64 {
        self.links.iter().map(crate::link::Link::begun).sum()
    }

    /// Counts on all links what has begun its transmission up to `now`, as the run ends there.
    pub(crate) fn count_until(&mut self, now: u64) {
        self.links.iter_mut().for_each(|link| link.count_until(now));
    }

    /// The same for those who watch, perhaps as it was some reports ago: to look at each of 200,000 links for every report took
    /// a third of a run.
    pub(crate) fn packet_hops_lately(&mut self) -> u64 {
        const LINKS_PER_REPORT: usize = 8192;
        if self.counted.reports_left == 0 {
            let reports_left = self.links.len() / LINKS_PER_REPORT;
            self.counted = Counted { packet_hops: self.packet_hops(), reports_left };
        } else {
            self.counted.reports_left -= 1;
        }
        self.counted.packet_hops
    }

    /// Payload that has arrived, each byte once. In an incast much of it lies beyond a gap for a long time.
    pub(crate) const fn payload(&self) -> u64 {
        self.arrived
    }

    /// The most ends of connections that there have been at once: places of those that are over are used again.
    pub(crate) const fn open_ends(&self) -> u64 {
        self.endpoints.len() as u64
    }

    /// Whether a host is simulated here.
    pub(crate) fn has(&self, host: u32) -> bool {
        self.frontier.as_ref().is_none_or(|frontier| frontier.partition.of_host(host) == frontier.part)
    }

    /// Whether a link leads from here into another part.
    pub(crate) fn leads_away(&self, link: &Link) -> bool {
        self.frontier.as_ref().is_some_and(|frontier| {
            let of = |node| frontier.partition.of_node(node);
            of(link.from) == frontier.part && of(link.to) != frontier.part
        })
    }

    fn host_of_end(&self, connection: u32, end: End) -> u32 {
        let connection = &self.plan.connections[connection as usize];
        if end == End::Client { connection.client } else { connection.server }
    }

    /// What is for the part of one end of a connection, unless that is here.
    pub(super) fn crossings_to(&mut self, connection: u32, end: End) -> Option<&mut Crossings> {
        let host = self.host_of_end(connection, end);
        let frontier = self.frontier.as_mut()?;
        let part = frontier.partition.of_host(host);
        (part != frontier.part).then(|| &mut frontier.out[part])
    }

    /// The other part that simulates what a host is to get is told of a message. Returns whether there is one.
    pub(super) fn announce_abroad(&mut self, connection: u32, to: End, span: Span) -> bool {
        if self.frontier.is_none() {
            return false;
        }
        let deadline = match span.id {
            MessageId::Request(response) => {
                let flow = self.flow_of(response);
                self.messages.row(&self.routes, flow).deadline
            }
            MessageId::Flow(_) => None,
        };
        let Some(crossings) = self.crossings_to(connection, to) else { return false };
        crossings.messages.push(Announced { connection, to, span, deadline });
        true
    }

    /// Options cross to the end that they are for. Returns whether that is in another part.
    pub(super) fn pass_options_abroad(&mut self, connection: u32, to: End, written: &Written) -> bool {
        let Some(crossings) = self.crossings_to(connection, to) else { return false };
        for &sack in &written.sacks {
            crossings.options.push(OptionFor { connection, to, sack, has_echo: !written.echoes.is_empty() });
        }
        crossings.echoes.extend_from_slice(&written.echoes);
        true
    }

    /// What a port has said crosses to the end that it is for. Returns whether that is in another part.
    pub(super) fn say_abroad(&mut self, said: Said) -> bool {
        let to = if said.from_client { End::Server } else { End::Client };
        let Some(crossings) = self.crossings_to(said.connection, to) else { return false };
        crossings.hops.push(said);
        true
    }

    /// A packet has vanished of a connection whose client may be elsewhere. Returns whether it is.
    pub(super) fn mourn_abroad(&mut self, connection: u32) -> bool {
        let Some(crossings) = self.crossings_to(connection, End::Client) else { return false };
        crossings.vanished.push(connection);
        true
    }

    /// One end of a connection is done, and the other is elsewhere.
    pub(super) fn close_abroad(&mut self, connection: u32) {
        let [client, server] = self.ends_of[connection as usize];
        if client != NONE {
            if let Some(frontier) = &mut self.frontier {
                frontier.closing.push(connection);
            }
        } else if server != NONE {
            let under_way = std::mem::take(&mut self.endpoints[server as usize].under_way);
            if let Some(crossings) = self.crossings_to(connection, End::Client) {
                crossings.closing.push(Closing { connection, under_way });
            }
        }
    }

    /// What arrives before a time on a link to another part crosses. It has departed.
    pub(crate) fn ship(&mut self, link: u32, before: u64) {
        let Some(frontier) = &mut self.frontier else { return };
        let part = frontier.partition.of_node(self.plan.network.links[link as usize].to);
        let Crossings { links, flights, .. } = &mut frontier.out[part];
        let others = flights.len();
        self.links[link as usize].take_arrived(before, |flight| flights.push(*flight));
        links.push((link, (flights.len() - others) as u32));
    }

    /// Takes in what another part has for this one. `list` is told of links on which packets are under way now, and which
    /// of them arrives first.
    pub(crate) fn take_in(&mut self, crossings: &mut Crossings, mut list: impl FnMut(u32, u64)) {
        let mut flights = crossings.flights.as_slice();
        for (link, crossed) in crossings.links.drain(..) {
            let (its, others) = flights.split_at(crossed as usize);
            flights = others;
            let reorders = self.plan.network.links[link as usize].reorder.is_some();
            let flying = &mut self.links[link as usize].flying;
            let was_empty = flying.is_empty();
            for flight in its {
                if reorders {
                    flying.insert_sorted(*flight, |a, b| a.at < b.at);
                } else {
                    flying.push(*flight);
                }
            }
            if let (true, Some(first)) = (was_empty, its.first()) {
                list(link, first.at);
            }
        }
        crossings.flights.clear();
        for Announced { connection, to, span, deadline } in crossings.messages.drain(..) {
            if let MessageId::Request(response) = span.id {
                let flow = self.flow_of(response);
                self.messages.row(&self.routes, flow).deadline = deadline;
            }
            self.expect_message(connection, to, span);
        }
        let mut echoes = crossings.echoes.drain(..);
        for OptionFor { connection, to, sack, has_echo } in crossings.options.drain(..) {
            let echo = if has_echo { echoes.next() } else { None };
            let end = self.ends_of[connection as usize][usize::from(to == End::Server)];
            if end != NONE {
                self.endpoints[end as usize].arriving.push(sack, echo.as_ref());
            }
        }
        drop(echoes);
        self.said.append(&mut crossings.hops);
        self.write_telemetry();
        for Closing { connection, under_way } in crossings.closing.drain(..) {
            let [client, _] = self.ends_of[connection as usize];
            let client = &mut self.endpoints[client as usize];
            client.under_way += under_way;
            client.peer_is_done = true;
            self.close_abroad(connection);
        }
        self.vanished.append(&mut crossings.vanished);
        for connection in crossings.released.drain(..) {
            let server = std::mem::replace(&mut self.ends_of[connection as usize][1], NONE);
            self.free.push(server);
        }
    }

    /// Releases connections across the frontier that have come to their end. To be asked once all parts have told of
    /// the same window, so that what one counts and another does not know yet cannot add up to nothing.
    pub(crate) fn release_abroad(&mut self) {
        let Some(frontier) = &mut self.frontier else { return };
        let mut closing = std::mem::take(&mut frontier.closing);
        for connection in closing.drain(..) {
            let [client, _] = self.ends_of[connection as usize];
            if client == NONE {
                continue;
            }
            let end = &self.endpoints[client as usize];
            if end.state == State::Done && end.peer_is_done && end.under_way == 0 {
                self.ends_of[connection as usize][0] = NONE;
                self.free.push(client);
                if let Some(crossings) = self.crossings_to(connection, End::Server) {
                    crossings.released.push(connection);
                }
            }
        }
        if let Some(frontier) = &mut self.frontier {
            frontier.closing = closing;
        }
    }
}

impl<O: Observer> World<'_, O> {
    /// Takes over what another part has come to, once the run is over.
    pub(crate) fn join(&mut self, other: World<'_, O>) {
        let Some(frontier) = &other.frontier else { return };
        let (partition, part) = (frontier.partition, frontier.part);
        let planned = &self.plan.network.links;
        for ((mine, mut theirs), link) in self.links.iter_mut().zip(other.links).zip(planned) {
            // What has crossed is where it arrives, and left before what has not.
            if partition.of_node(link.from) == part {
                std::mem::swap(mine, &mut theirs);
            }
            let younger = std::mem::replace(&mut mine.flying, theirs.flying);
            younger.iter().for_each(|flight| mine.flying.push(*flight));
        }
        self.messages.join(&other.messages, |mine, theirs| {
            if partition.of_host(mine.destination) == part {
                let losses = mine.losses;
                *mine = Flow { losses, ..theirs.clone() };
            }
            if partition.of_host(mine.source) == part {
                mine.losses = theirs.losses;
            }
        });
        self.headers_delivered += other.headers_delivered;
        self.unfinished += other.unfinished;
        self.finished_at = self.finished_at.max(other.finished_at);
        self.last_delivery = self.last_delivery.max(other.last_delivery);
        self.totals.sent += other.totals.sent;
        self.totals.delivered += other.totals.delivered;
        self.arrived += other.arrived;
        self.curve.join(&other.curve);
        self.observer.join(other.observer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::{parallel, sweep};
    use crate::observe::Silent;
    use incast_testing::leaf_spine_load;
    use incast_world::Control;

    /// Nearly all of 1,500 connections are over long before the last one is, and a third of the packets of some vanish.
    #[test]
    fn state_of_connections_across_the_frontier_is_used_again() {
        let plan = leaf_spine_load(4, 4, 2, 1_500, 1, 30, 20);
        let mut whole = World::new(&plan, Silent, None).unwrap();
        sweep::run(&mut whole, &plan, &Control::default());
        for parts in [2, 4] {
            let partition = Partition::new(&plan, parts);
            let (world, ..) = parallel::run(&plan, &partition, &Control::default(), || Silent).unwrap();
            assert!(world.totals == whole.totals, "{:?} {:?}", world.totals, whole.totals);
            // Packets that vanish are told of now and then only, so some connections stay for a while.
            let (part, all) = (world.endpoints.len(), whole.endpoints.len());
            assert!(part < all * 3 / 2, "{part} ends in the first of {parts} parts, {all} in all");
            let open = world.ends_of.iter().flatten().filter(|end| **end != NONE).count();
            assert!(open < 20, "{open} ends are still open");
        }
    }

    /// Three reports of a network of 20,002 links look at no more links than of one of 8,192.
    #[test]
    fn the_links_of_a_large_network_are_not_counted_for_every_report() {
        for (hosts, told) in [(2, [0, 1, 2, 3, 4, 5]), (10_001, [0, 0, 0, 3, 3, 3])] {
            let plan = incast_testing::star_load(hosts, 10, &incast_testing::packets(100));
            let mut world = World::new(&plan, Silent, None).unwrap();
            let lately = told.map(|_| {
                let lately = world.packet_hops_lately();
                world.links[0].packets += 1;
                lately
            });
            assert_eq!(lately, told, "{hosts} hosts");
            assert_eq!(world.packet_hops(), 6);
        }
    }
}
