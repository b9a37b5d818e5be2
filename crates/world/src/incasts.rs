//! When there was incast at a port, told from the packets that arrive there and from nothing else, and whether the
//! port's detector said so.
//!
//! At each arrival one looks back, over a window at most, for the moment since which most came beyond what the line
//! carries. If that is more than a share of a window it is a surge, and if it came from many hosts an incast, from that
//! moment to this arrival. Unlike a detector this sees arrivals, not the queue, and it may judge in hindsight.

use std::collections::VecDeque;

use incast_plan::{self, End, Plan};
use incast_protocols::{Bytes, Rate, Time};
use incast_record::{Alarm, Cause, Detected, EXCESS, HOSTS, Incast, WINDOW_PACKETS};

/// A packet that arrives at a port.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// In picoseconds.
    pub now: u64,
    /// Its connection.
    pub connection: u32,
    /// The end that sent it.
    pub from: End,
    /// Its serialization time.
    pub takes: u64,
    /// When it will have left, if it is admitted.
    pub gone: u64,
}

/// All ports that are watched.
#[derive(Debug)]
pub struct Incasts {
    /// By link, its place among `ports`.
    place: Vec<Option<u32>>,
    ports: Vec<Port>,
    /// By connection: the hosts of its client and its server.
    hosts: Vec<[u32; 2]>,
    counting: Counting,
}

/// Counts different hosts.
#[derive(Debug)]
struct Counting {
    /// By host, the count in which it was seen last.
    seen_in: Vec<u64>,
    count: u64,
}

impl Counting {
    fn different(&mut self, hosts: impl Iterator<Item = u32>) -> u32 {
        self.count += 1;
        let mut different = 0;
        for host in hosts {
            let seen_in = &mut self.seen_in[host as usize];
            different += u32::from(*seen_in != self.count);
            *seen_in = self.count;
        }
        different
    }
}

/// The hosts that sent last, the latest first, with the numbers of their last arrivals: as many as make an incast.
#[derive(Debug, Default)]
struct Latest([(u32, u64); HOSTS as usize]);

impl Latest {
    fn add(&mut self, host: u32, number: u64) {
        // Numbers begin at 1, so an empty place has none.
        let known = self.0.iter().position(|&(other, last)| other == host && last > 0);
        self.0[..=known.unwrap_or(HOSTS as usize - 1)].rotate_right(1);
        self.0[0] = (host, number);
    }

    /// Whether all of them have sent since this arrival.
    fn all_since(&self, number: u64) -> bool {
        self.0[HOSTS as usize - 1].1 >= number
    }
}

impl Incasts {
    /// Those of a plan that are to be watched.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        let links = &plan.network.links;
        let mut place = vec![None; links.len()];
        let mut ports = Vec::with_capacity(plan.record.incasts.len());
        for &link in &plan.record.incasts {
            place[link as usize] = Some(ports.len() as u32);
            let planned = &links[link as usize];
            let detects = planned.port.as_deref().is_some_and(incast_plan::SwitchPort::marks_incast);
            ports.push(Port::new(link, planned.rate, detects));
        }
        let hosts = plan.connections.iter().map(|connection| [connection.client, connection.server]).collect();
        let counting = Counting { seen_in: vec![0; plan.network.hosts as usize], count: 0 };
        Self { place, ports, hosts, counting }
    }

    /// Whether the port of a link is one of them.
    #[inline]
    #[must_use]
    pub fn watches(&self, link: u32) -> bool {
        self.place[link as usize].is_some()
    }

    #[inline]
    fn port(&mut self, link: u32) -> Option<&mut Port> {
        self.place[link as usize].map(|place| &mut self.ports[place as usize])
    }

    /// A packet has arrived, admitted or not.
    pub fn arrived(&mut self, link: u32, arrival: &Arrival) {
        let Some(place) = self.place[link as usize] else { return };
        let host = self.hosts[arrival.connection as usize][usize::from(arrival.from == End::Server)];
        self.ports[place as usize].arrived(host, arrival, &mut self.counting);
    }

    /// A packet has left, of which the detector said incast or not.
    pub fn departed(&mut self, link: u32, now: u64, ein: bool) {
        if let Some(port) = self.port(link) {
            port.departed(now, ein);
        }
    }

    /// The packet that arrived last was not admitted.
    pub fn dropped(&mut self, link: u32, now: u64) {
        if let Some(port) = self.port(link) {
            port.incasts.dropped(now);
        }
    }

    /// Takes over the ports that were used in another part of the network.
    pub fn join(&mut self, other: Self) {
        for (mine, theirs) in self.ports.iter_mut().zip(other.ports) {
            if theirs.is_used() {
                *mine = theirs;
            }
        }
    }

    /// Incasts and alarms, each by (begin, link).
    #[must_use]
    pub fn finish(mut self) -> (Vec<Incast>, Vec<Alarm>) {
        let (mut incasts, mut alarms) = (Vec::new(), Vec::new());
        for mut port in self.ports {
            port.count_hosts(&mut self.counting);
            port.finish(&mut incasts, &mut alarms);
        }
        incasts.sort_by_key(|incast| (incast.begin, incast.link));
        alarms.sort_by_key(|alarm| (alarm.begin, alarm.link));
        (incasts, alarms)
    }
}

/// A time during which arrivals were ahead of the line.
#[derive(Clone, Copy, Debug)]
struct Episode {
    begin: u64,
    end: u64,
    drained: u64,
    /// From whom its greatest excess came.
    hosts: u32,
    /// In picoseconds of the line.
    excess: u64,
    drops: u64,
}

/// Episodes of one port in order; those less than a window apart are one.
#[derive(Debug, Default)]
struct Episodes(Vec<Episode>);

impl Episodes {
    /// Whether it is part of the last one.
    fn continues(&self, found: &Episode, window: u64) -> bool {
        self.0.last().is_some_and(|last| found.begin <= last.end + window)
    }

    /// Returns whether its excess is the greatest of its episode so far.
    fn add(&mut self, found: Episode, window: u64) -> bool {
        let continues = self.continues(&found, window);
        match self.0.last_mut() {
            Some(last) if continues => {
                last.end = found.end;
                last.drained = last.drained.max(found.drained);
                let greatest = found.excess > last.excess;
                last.excess = last.excess.max(found.excess);
                greatest
            }
            _ => {
                self.0.push(found);
                true
            }
        }
    }

    /// Of the episode that was found last.
    fn set_hosts(&mut self, hosts: u32) {
        if let Some(last) = self.0.last_mut() {
            last.hosts = hosts;
        }
    }

    fn dropped(&mut self, now: u64) {
        if let Some(last) = self.0.last_mut().filter(|last| last.end == now) {
            last.drops += 1;
        }
    }

    /// The episode that had begun last.
    fn before(&self, at: u64) -> Option<&Episode> {
        self.0[..self.0.partition_point(|episode| episode.begin <= at)].last()
    }

    /// Whether one of them, until its queue had drained, shares a moment with this time.
    fn meet(&self, begin: u64, end: u64) -> bool {
        self.before(end).is_some_and(|episode| episode.drained >= begin)
    }
}

/// Where the look back from an arrival may end.
#[derive(Clone, Copy, Debug)]
struct Since {
    at: u64,
    /// Transmission time of all that had come before, less the time that had passed.
    ahead: i64,
    number: u64,
}

/// Arrivals, by number, that made the greatest excess of an incast.
#[derive(Clone, Copy, Debug)]
struct Greatest {
    at: u64,
    first: u64,
    last: u64,
}

/// One watched port.
#[derive(Debug)]
struct Port {
    link: u32,
    rate: Rate,
    detects: bool,
    window: u64,
    /// In picoseconds of the line.
    threshold: u64,
    /// Transmission time of all that ever came.
    came: u64,
    /// When and from whom, over the last two windows at least.
    arrivals: VecDeque<(u64, u32)>,
    /// The number of the last of these, from 1.
    last_number: u64,
    latest: Latest,
    /// Moments of this window with nothing lower behind them.
    lows: VecDeque<Since>,
    incasts: Episodes,
    /// Of the last incast, if who sent it has not been counted.
    greatest: Option<Greatest>,
    surges: Episodes,
    alarms: Vec<Alarm>,
    alarmed: bool,
    /// Departures with EIN of which the future may still tell what they were, and their alarms.
    marked: VecDeque<(u64, u32)>,
}

impl Port {
    fn new(link: u32, rate: Rate, detects: bool) -> Self {
        let window = rate.time_for(Bytes(1500).times(WINDOW_PACKETS)).0;
        Self {
            link,
            rate,
            detects,
            window,
            threshold: (window as f64 * EXCESS) as u64,
            came: 0,
            arrivals: VecDeque::new(),
            last_number: 0,
            latest: Latest::default(),
            lows: VecDeque::new(),
            incasts: Episodes::default(),
            greatest: None,
            surges: Episodes::default(),
            alarms: Vec::new(),
            alarmed: false,
            marked: VecDeque::new(),
        }
    }

    const fn is_used(&self) -> bool {
        self.last_number > 0
    }

    fn arrived(&mut self, host: u32, arrival: &Arrival, counting: &mut Counting) {
        let now = arrival.now;
        let oldest = now.saturating_sub(self.window);
        if self.greatest.is_some_and(|greatest| greatest.at < oldest) {
            self.count_hosts(counting);
        }
        // The old end is far from the cache: it is looked at only when space is needed.
        if self.arrivals.len() == self.arrivals.capacity() {
            // What the greatest excess consists of has to be there until it is counted.
            let needed = oldest.saturating_sub(self.window);
            let outdated = self.arrivals.partition_point(|&(at, _)| at < needed);
            self.arrivals.drain(..outdated);
        }
        while self.lows.front().is_some_and(|since| since.at < oldest) {
            self.lows.pop_front();
        }
        let ahead = self.came.cast_signed() - now.cast_signed();
        // Of equal moments the later one: what came before it was no more than the line carries.
        while self.lows.back().is_some_and(|since| since.ahead >= ahead) {
            self.lows.pop_back();
        }
        let number = self.last_number + 1;
        self.last_number = number;
        self.lows.push_back(Since { at: now, ahead, number });
        self.arrivals.push_back((now, host));
        self.latest.add(host, number);
        self.came += arrival.takes;
        let since = self.lows[0];
        let excess = (self.came.cast_signed() - now.cast_signed() - since.ahead).cast_unsigned();
        if excess <= self.threshold {
            return;
        }
        let found = Episode { begin: since.at, end: now, drained: arrival.gone, hosts: 0, excess, drops: 0 };
        self.surges.add(found, self.window);
        if !self.latest.all_since(since.number) {
            return;
        }
        if !self.incasts.continues(&found, self.window) {
            self.count_hosts(counting);
        }
        if self.incasts.add(found, self.window) {
            self.greatest = Some(Greatest { at: now, first: since.number, last: number });
        }
    }

    /// Counts who sent the greatest excess of the last incast, once for all arrivals by which it rose.
    fn count_hosts(&mut self, counting: &mut Counting) {
        if let Some(Greatest { first, last, .. }) = self.greatest.take() {
            let place = |number: u64| self.arrivals.len() - 1 - (self.last_number - number) as usize;
            let hosts = self.arrivals.range(place(first)..=place(last)).map(|&(_, host)| host);
            self.incasts.set_hosts(counting.different(hosts));
        }
    }

    fn departed(&mut self, now: u64, ein: bool) {
        // Later than this no incast can be found that this departure was part of.
        let settled = now.saturating_sub(2 * self.window);
        while let Some((at, alarm)) = self.marked.front().copied().filter(|&(at, _)| at < settled) {
            self.marked.pop_front();
            self.settle(at, alarm);
        }
        if ein {
            let (link, at) = (self.link, Time(now));
            if !self.alarmed {
                self.alarms.push(Alarm {
                    link,
                    begin: at,
                    end: at,
                    cause: Cause::Nothing,
                    packets_in_incast: 0,
                    packets_draining: 0,
                    packets_innocent: 0,
                });
            }
            let alarm = self.alarms.len() - 1;
            self.alarms[alarm].end = at;
            self.marked.push_back((now, alarm as u32));
        }
        self.alarmed = ein;
    }

    fn settle(&mut self, at: u64, alarm: u32) {
        let alarm = &mut self.alarms[alarm as usize];
        match self.incasts.before(at) {
            Some(incast) if at <= incast.end => alarm.packets_in_incast += 1,
            Some(incast) if at <= incast.drained => alarm.packets_draining += 1,
            _ => alarm.packets_innocent += 1,
        }
    }

    fn finish(mut self, incasts: &mut Vec<Incast>, alarms: &mut Vec<Alarm>) {
        while let Some((at, alarm)) = self.marked.pop_front() {
            self.settle(at, alarm);
        }
        for alarm in &mut self.alarms {
            alarm.cause = if self.incasts.meet(alarm.begin.0, alarm.end.0) {
                Cause::Incast
            } else if self.surges.meet(alarm.begin.0, alarm.end.0) {
                Cause::Surge
            } else {
                Cause::Nothing
            };
        }
        for episode in &self.incasts.0 {
            let first = self.alarms.partition_point(|alarm| alarm.end.0 < episode.begin);
            let met = self.alarms[first..].iter().take_while(|alarm| alarm.begin.0 <= episode.drained);
            let detected = met.fold(None, |found: Option<Detected>, alarm| {
                Some(Detected { from: found.map_or(alarm.begin, |found| found.from), until: alarm.end })
            });
            incasts.push(Incast {
                link: self.link,
                begin: Time(episode.begin),
                end: Time(episode.end),
                drained: Time(episode.drained),
                hosts: episode.hosts,
                excess: self.rate.bytes_in(incast_protocols::Duration(episode.excess)),
                drops: episode.drops,
                watched: self.detects,
                detected,
            });
        }
        alarms.append(&mut self.alarms);
    }
}

#[cfg(test)]
mod tests;
