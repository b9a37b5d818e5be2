//! The window sweep: no event queue at all.
//!
//! Time advances in windows of the smallest link delay. What arrives anywhere within a window has begun
//! transmission before it, so nodes cannot influence one another inside it, and each is run alone over
//! its own sorted arrivals: first the switches' ports, then the hosts. Only links with something due are
//! visited: a wheel holds each link in the slot of its first arrival, a second wheel holds each port
//! with a backlog in the slot of its next departure. One insertion per link and window, not per packet.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use incast_plan::{Link, Node, Plan};
use incast_record::Outcome;

use super::timers::{Due, Timers};
use super::{Horizon, Looks, report, window};
use crate::link::Flight;
use crate::observe::Observer;
use crate::packet::Packet;
use crate::world::frontier::Crossings;
use crate::world::{Schedule, Target, World};
use incast_world::Control;
use incast_world::Starts;
use incast_world::tie::{Entity, Kind, Order};

/// End of a list.
const NIL: u32 = u32::MAX;
/// Not in the wheel.
const UNLISTED: u32 = u32::MAX - 1;
/// Windows a wheel spans; what lies beyond waits in a heap.
const SLOTS: u64 = 1024;
/// Windows between two looks at the control.
pub(super) const REPORT_EVERY: u32 = 1 << 8;
/// With fewer links, what the sweep needs is in the cache near the processor, and to read it ahead costs more than it saves.
const READ_AHEAD_FROM: usize = 500;
/// With fewer links, most of what packets need behind the first of their link is in the second cache.
const READ_ALL_FROM: usize = 4_000;
/// How many links are looked at together: what is read of them should stay in the nearest cache.
const TOGETHER: usize = 64;
/// Most slices of time into which a window is divided.
const SLICES: usize = 1024;
/// Insertion sort is fastest for what is nearly sorted. If something has to move by more places than this, it is not.
const NEARLY_SORTED: usize = 32;

/// Lists of links by window.
#[derive(Debug)]
struct Wheel {
    heads: Vec<u32>,
    occupied: [u64; SLOTS as usize / 64],
    /// By link: the one behind it in its list.
    next: Vec<u32>,
    /// Windows and links beyond the wheel's span.
    far: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Wheel {
    fn new(links: usize) -> Self {
        Self {
            heads: vec![NIL; SLOTS as usize],
            occupied: [0; SLOTS as usize / 64],
            next: vec![UNLISTED; links],
            far: BinaryHeap::new(),
        }
    }

    /// Puts a link in that is not in it, to be found in `window`, which is not before `current`.
    #[inline]
    fn insert(&mut self, link: u32, window: u64, current: u64) {
        if window - current >= SLOTS {
            self.next[link as usize] = NIL;
            self.far.push(Reverse((window, link)));
            return;
        }
        let slot = (window % SLOTS) as usize;
        self.next[link as usize] = self.heads[slot];
        self.heads[slot] = link;
        self.occupied[slot / 64] |= 1 << (slot % 64);
    }

    #[inline]
    fn is_listed(&self, link: u32) -> bool {
        self.next[link as usize] != UNLISTED
    }

    /// Takes the list of a window out; [`follow`](Self::follow) walks it.
    #[inline]
    fn take(&mut self, window: u64) -> u32 {
        while let Some(&Reverse((far, link))) = self.far.peek()
            && far <= window
        {
            self.far.pop();
            self.insert(link, window, window);
        }
        let slot = (window % SLOTS) as usize;
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        std::mem::replace(&mut self.heads[slot], NIL)
    }

    /// Takes a link out of a list that was taken, and names the one behind it.
    #[inline]
    fn follow(&mut self, link: u32) -> u32 {
        std::mem::replace(&mut self.next[link as usize], UNLISTED)
    }

    /// The first window from `current` on that holds anything.
    #[inline]
    fn first(&self, current: u64) -> Option<u64> {
        let near = self.first_of_slots(current);
        match self.far.peek() {
            Some(&Reverse((far, _))) => Some(near.map_or(far, |near| near.min(far))),
            None => near,
        }
    }

    #[inline]
    fn first_of_slots(&self, current: u64) -> Option<u64> {
        let start = (current % SLOTS) as usize;
        let words = self.occupied.len();
        let mut bits = self.occupied[start / 64] & (u64::MAX << (start % 64));
        for step in 0..=words {
            let word = (start / 64 + step) % words;
            if bits != 0 {
                let slot = word * 64 + bits.trailing_zeros() as usize;
                let ahead = (slot + SLOTS as usize - start) % SLOTS as usize;
                return Some(current + ahead as u64);
            }
            bits = self.occupied[(word + 1) % words];
        }
        None
    }
}

/// What is to be known of a link while packets are on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    /// They arrive in the order in which they left.
    Steady,
    /// One may arrive earlier than was said, so it is looked at in every window.
    Restless,
    /// They arrive in another part of the network, and cross in the window before.
    Leaving,
    /// They cross as soon as they have left: one may arrive there earlier than was said.
    LeavingAtOnce,
}

impl Wire {
    fn new<O: Observer>(world: &World<'_, O>, link: &Link) -> Self {
        match (world.leads_away(link), link.reorder.is_some()) {
            (false, false) => Self::Steady,
            (false, true) => Self::Restless,
            (true, false) => Self::Leaving,
            (true, true) => Self::LeavingAtOnce,
        }
    }
}

/// What is due when, and the window that is being swept.
struct Agenda {
    order: Order,
    width: u64,
    current: u64,
    /// Where the current window begins ...
    begin: u64,
    /// ... and ends, unless the run does so before.
    end: u64,
    arrivals: Wheel,
    departures: Wheel,
    wires: Vec<Wire>,
    /// Links on which packets arrive in another part in the next window.
    crossing: Vec<u32>,
    timers: Timers,
    /// What the host that is being run has armed for this very window.
    soon: Timers,
    /// Whether it pays to read ahead what the first packet of each link needs ...
    reads_ahead: bool,
    /// ... and what the others need.
    reads_all: bool,
}

impl Agenda {
    /// Goes on to a window.
    fn enter(&mut self, window: u64, horizon: u64) {
        self.current = window;
        self.begin = window * self.width;
        self.end = (self.begin + self.width).min(horizon);
    }

    #[inline]
    fn list_arrival(&mut self, link: u32, at: u64) {
        let window = match self.wires[link as usize] {
            Wire::Steady => self.window_of(at),
            Wire::Restless => self.current + 1,
            Wire::Leaving | Wire::LeavingAtOnce => return self.list_crossing(link, at),
        };
        self.arrivals.insert(link, window, self.current);
    }

    /// Lists a link into another part for the window in which the packet that arrives there at this time crosses.
    fn list_crossing(&mut self, link: u32, at: u64) {
        let window = self.window_of(at) - 1;
        // What is due in this window has been taken from the wheel already.
        if window == self.current || self.wires[link as usize] == Wire::LeavingAtOnce {
            self.crossing.push(link);
        } else {
            self.arrivals.insert(link, window, self.current);
        }
    }

    /// Whether the first packet on a link that was listed for the current window arrives in it. If it arrives later, the link is
    /// listed again, and if it arrives elsewhere, it crosses. Of most links that is known without a look at them, which would wait for
    /// memory.
    #[inline]
    fn is_due<O: Observer>(&mut self, link: u32, world: &World<'_, O>) -> bool {
        let head = || world.links[link as usize].head();
        if self.wires[link as usize] == Wire::Steady && self.end - self.begin == self.width {
            debug_assert!(head() < self.end, "link {link}");
            return true;
        }
        if self.wires[link as usize] == Wire::Leaving {
            self.crossing.push(link);
            return false;
        }
        let head = head();
        if head >= self.end && head != u64::MAX {
            self.list_arrival(link, head);
        }
        head < self.end
    }

    /// The window that `at` lies in, which is the current one or a later one, and mostly one of the next: a division takes
    /// longer than to look.
    #[inline]
    fn window_of(&self, at: u64) -> u64 {
        let after = at.wrapping_sub(self.begin);
        if after < self.width {
            self.current
        } else if after < self.width.saturating_mul(2) {
            self.current + 1
        } else {
            at / self.width
        }
    }
}

impl Schedule for Agenda {
    #[inline]
    fn wake_link(&mut self, link: u32, at: u64) {
        self.list_arrival(link, at);
    }

    #[inline]
    fn backlog(&mut self, link: u32, at: u64) {
        if !self.departures.is_listed(link) {
            self.departures.insert(link, self.window_of(at), self.current);
        }
    }

    fn arm(&mut self, at: u64, host: u32, entity: Entity) {
        let due = Due::new(self.order, at, host, entity);
        if at < self.end { self.soon.push(due) } else { self.timers.push(due) }
    }
}

/// A packet that has arrived at a switch: when, on which link, and over which it leaves.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: u64,
    link: u32,
    out: u32,
    packet: Packet,
}

/// Sorts places of arrivals; those of one link come in order and keep it.
#[inline]
fn sort(places: &mut [u32], arrivals: &[Arrival], order: Order) {
    let key = |place: u32| {
        let arrival = &arrivals[place as usize];
        (arrival.at, Entity::link(arrival.link))
    };
    let before = |a: u32, b: u32| order.before(key(a), key(b));
    for i in 1..places.len() {
        let place = places[i];
        let mut to = i;
        while to > 0 && before(place, places[to - 1]) {
            places[to] = places[to - 1];
            to -= 1;
        }
        places[to] = place;
        if i - to > NEARLY_SORTED {
            return places.sort_by(|&a, &b| if before(a, b) { Ordering::Less } else { before(b, a).cmp(&false) });
        }
    }
}

/// What arrives in the window at the one switch that is being swept, and the places of these arrivals in the order in which they are
/// taken in. The same few vectors serve all switches, and stay in the cache.
#[derive(Debug)]
struct Arrivals {
    /// As they were taken off the links.
    all: Vec<Arrival>,
    /// By slice of time: how many arrivals there are, then where the place of the next goes, and in the end where the slice ends.
    slices: Box<[u32; SLICES]>,
    /// Places by slice.
    by_slice: Vec<u32>,
    /// By link: number of its port at its switch.
    port: Vec<u32>,
    /// By port: places of what arrives there.
    by_port: Vec<Vec<u32>>,
    /// The ports at which anything arrives, and behind them room for others.
    ports: Vec<u32>,
}

impl Arrivals {
    fn new(plan: &Plan) -> Self {
        let mut ports = vec![0_u32; plan.network.switches.len()];
        let port = plan.network.links.iter().map(|link| match link.from {
            Node::Host(_) => 0,
            Node::Switch(switch) => {
                let port = &mut ports[switch as usize];
                *port += 1;
                *port - 1
            }
        });
        Self::with_ports(port.collect())
    }

    /// Links lead from these ports of their switches.
    fn with_ports(port: Vec<u32>) -> Self {
        let most = port.iter().max().map_or(0, |&last| last as usize + 1);
        Self {
            port,
            by_port: vec![Vec::new(); most],
            ports: vec![0; most + 1],
            all: Vec::new(),
            slices: Box::new([0; SLICES]),
            by_slice: Vec::new(),
        }
    }

    /// How many packets arrive, and how many bytes they have.
    fn amount(&self) -> (u64, u64) {
        (self.all.len() as u64, self.all.iter().map(|arrival| u64::from(arrival.packet.wire)).sum())
    }

    /// Finds the places by slice, in about as many slices of the window from `begin` on as there are arrivals, or in `SLICES`. Then
    /// nearly all places are in order. Arrivals that are taken off one link after another are not, and to sort them would take
    /// comparisons that the processor guesses wrong.
    #[inline]
    fn divide_by_time(&mut self, begin: u64, width: u64) {
        let Self { all, slices, by_slice, .. } = self;
        let arrivals = all.as_slice();
        let bits = arrivals.len().next_power_of_two().min(SLICES).ilog2();
        let shift = (u64::BITS - width.leading_zeros()).saturating_sub(bits);
        debug_assert!(arrivals.iter().all(|arrival| arrival.at.wrapping_sub(begin) < width), "outside of the window");
        // The number of a slice is less than `SLICES` anyhow: the remainder spares a check of each index.
        let slice = |arrival: &Arrival| (arrival.at.wrapping_sub(begin) >> shift) as usize % SLICES;
        let used = ((width >> shift) as usize + 1).min(SLICES);
        slices[..used].fill(0);
        for arrival in arrivals {
            slices[slice(arrival)] += 1;
        }
        let mut before = 0;
        for next in &mut slices[..used] {
            before += std::mem::replace(next, before);
        }
        by_slice.resize(arrivals.len(), 0);
        let by_slice = by_slice.as_mut_slice();
        for (place, arrival) in arrivals.iter().enumerate() {
            let next = &mut slices[slice(arrival)];
            by_slice[*next as usize] = place as u32;
            *next += 1;
        }
    }

    /// Hands places to the ports over which their packets leave, in the order of slices. Returns at how many of `ports` anything
    /// arrives.
    #[inline]
    fn divide_by_port(&mut self) -> usize {
        let Self { all, port, by_port, ports, by_slice, .. } = self;
        // Borrowed once, so that lengths need not be read again after each write.
        let (all, port_of, by_port, ports) = (&all[..], &port[..], &mut by_port[..], &mut ports[..]);
        let mut used = 0;
        for &place in &*by_slice {
            let port = port_of[all[place as usize].out as usize];
            let places = &mut by_port[port as usize];
            // Whether it is the first is as good as random, so that a branch would be guessed wrong.
            ports[used] = port;
            used += usize::from(places.is_empty());
            places.push(place);
        }
        used
    }
}

/// Lists of what is due in a window, by node.
struct DueNodes {
    /// Switches with arrivals, and for each the first of its links, chained by link.
    switches: Vec<u32>,
    first_link: Vec<u32>,
    next_link: Vec<u32>,
    /// Hosts with arrivals or something of their own.
    hosts: Vec<u32>,
    has_arrivals: Vec<bool>,
    first_own: Vec<u32>,
}

/// One network, or a part of it, window by window.
pub(crate) struct Sweep {
    agenda: Agenda,
    due: DueNodes,
    arrivals: Arrivals,
    /// Links that are looked at together.
    links: Vec<u32>,
    own: Vec<Due>,
    /// What has arrived at the hosts that are looked at together.
    arrived: Vec<Flight>,
    starts: Starts,
}

impl Sweep {
    pub(crate) fn new<O: Observer>(world: &mut World<'_, O>, plan: &Plan) -> Self {
        let links = world.links.len();
        let hosts = plan.network.hosts as usize;
        let wires: Vec<_> = plan.network.links.iter().map(|link| Wire::new(world, link)).collect();
        let mut agenda = Agenda {
            order: world.order,
            width: window(plan),
            current: 0,
            begin: 0,
            end: 0,
            arrivals: Wheel::new(links),
            departures: Wheel::new(links),
            wires,
            crossing: Vec::new(),
            timers: Timers::default(),
            soon: Timers::default(),
            reads_ahead: links >= READ_AHEAD_FROM,
            reads_all: links >= READ_ALL_FROM,
        };
        let due = DueNodes {
            switches: Vec::new(),
            first_link: vec![NIL; plan.network.switches.len()],
            next_link: vec![NIL; links],
            hosts: Vec::new(),
            has_arrivals: vec![false; hosts],
            first_own: vec![NIL; hosts],
        };
        super::begin_programs(world, plan, &mut agenda);
        world.start(&mut agenda);
        let starts = Starts::of(plan, world.order, |index| world.has(world.host_of(Entity::of(Kind::Send(index)))));
        Self {
            agenda,
            due,
            arrivals: Arrivals::new(plan),
            links: Vec::new(),
            own: Vec::new(),
            arrived: Vec::new(),
            starts,
        }
    }

    /// The first window in which anything happens.
    pub(crate) fn first(&self, plan: &Plan) -> Option<u64> {
        let agenda = &self.agenda;
        let candidates = [
            agenda.arrivals.first(agenda.current),
            agenda.departures.first(agenda.current),
            agenda.timers.first().map(|due| due.at / agenda.width),
            self.starts.first(plan).map(|start| start.0 / agenda.width),
        ];
        candidates.into_iter().flatten().min()
    }

    /// Goes through a window, and returns its end.
    pub(crate) fn sweep<O: Observer>(
        &mut self,
        world: &mut World<'_, O>,
        plan: &Plan,
        window: u64,
        horizon: u64,
    ) -> u64 {
        let Self { agenda, due, arrivals, links, own, arrived, starts } = self;
        agenda.enter(window, horizon);
        gather_links(world, agenda, due);
        gather_own(world, plan, agenda, starts, due, own);
        sweep_switches(world, agenda, due, arrivals, links);
        sweep_hosts(world, agenda, due, own, arrived);
        depart(world, agenda, links);
        agenda.end
    }

    /// Takes in what other parts had for this one in the window that has been gone through.
    pub(crate) fn take_in<O: Observer>(&mut self, world: &mut World<'_, O>, crossings: &mut Crossings) {
        world.take_in(crossings, |link, at| self.agenda.list_arrival(link, at));
    }

    /// Hands what arrives in other parts in the next window to the frontier. Returns that window if there is anything.
    pub(crate) fn ship<O: Observer>(&mut self, world: &mut World<'_, O>) -> Option<u64> {
        let agenda = &mut self.agenda;
        let next = (!agenda.crossing.is_empty()).then_some(agenda.current + 1);
        let before = agenda.begin + 2 * agenda.width;
        while let Some(link) = agenda.crossing.pop() {
            let at_once = agenda.wires[link as usize] == Wire::LeavingAtOnce;
            world.ship(link, if at_once { u64::MAX } else { before });
            let head = world.links[link as usize].head();
            if head != u64::MAX {
                agenda.list_arrival(link, head);
            }
        }
        next
    }

    /// The window that has been gone through is over.
    pub(crate) fn pass(&mut self, horizon: u64) {
        self.agenda.enter(self.agenda.current + 1, horizon);
    }
}

/// Runs to the end, the horizon, or until cancelled; returns how far simulated time came.
pub(crate) fn run<O: Observer>(world: &mut World<'_, O>, plan: &Plan, control: &Control) -> (u64, Outcome) {
    let mut horizon = Horizon::new(plan);
    let mut sweep = Sweep::new(world, plan);
    let mut looks = Looks::new(REPORT_EVERY, control);
    while let Some(current) = sweep.first(plan).filter(|first| horizon.reaches(*first)) {
        let now = sweep.sweep(world, plan, current, horizon.at);
        sweep.pass(horizon.at);
        if looks.are_due() {
            world.bury_vanished();
            let packet_hops = world.packet_hops_lately();
            looks.seen(packet_hops);
            if report(world, now, packet_hops, control) {
                world.count_until(now.saturating_sub(1));
                return (now, Outcome::Interrupted);
            }
        }
        if world.unfinished == 0 {
            horizon.update(world.unfinished, world.finished_at);
        }
        if now >= horizon.at {
            break;
        }
    }
    world.bury_vanished();
    world.count_until(horizon.at - 1);
    let end = horizon.end(world);
    report(world, end, world.packet_hops(), control);
    (end, horizon.outcome(world))
}

/// Hands every link with something due in this window to the node it leads to.
#[inline(never)]
fn gather_links<O: Observer>(world: &World<'_, O>, agenda: &mut Agenda, due: &mut DueNodes) {
    let mut link = agenda.arrivals.take(agenda.current);
    while link != NIL {
        let following = agenda.arrivals.follow(link);
        if agenda.is_due(link, world) {
            match world.targets[link as usize] {
                Target::Host(host) => {
                    due.hosts.push(host);
                    due.has_arrivals[host as usize] = true;
                }
                Target::Switch(switch) => {
                    if due.first_link[switch as usize] == NIL {
                        due.switches.push(switch);
                    }
                    due.next_link[link as usize] = due.first_link[switch as usize];
                    due.first_link[switch as usize] = link;
                }
            }
        }
        link = following;
    }
}

/// Collects what hosts have of their own to do in this window: starts and timers.
#[inline(never)]
fn gather_own<O: Observer>(
    world: &World<'_, O>,
    plan: &Plan,
    agenda: &mut Agenda,
    starts: &mut Starts,
    due: &mut DueNodes,
    own: &mut Vec<Due>,
) {
    own.clear();
    while let Some((at, entity)) = starts.first(plan).filter(|start| start.0 < agenda.end) {
        own.push(Due::new(agenda.order, at, world.host_of(entity), entity));
        starts.pop();
    }
    while let Some(first) = agenda.timers.first().filter(|first| first.at < agenda.end) {
        own.push(first);
        agenda.timers.pop();
    }
    if own.len() > 1 {
        own.sort_unstable_by_key(|due| (due.host, *due));
    }
    for (index, item) in own.iter().enumerate() {
        let first = &mut due.first_own[item.host as usize];
        if *first == NIL {
            *first = index as u32;
            if !due.has_arrivals[item.host as usize] {
                due.hosts.push(item.host);
            }
        }
    }
}

/// Runs every switch port over its own arrivals. Each step is taken for many packets before the next one is: within a step, no packet
/// needs what is read for another, so that they wait for memory together.
#[inline(never)]
fn sweep_switches<O: Observer>(
    world: &mut World<'_, O>,
    agenda: &mut Agenda,
    due: &mut DueNodes,
    arrivals: &mut Arrivals,
    links: &mut Vec<u32>,
) {
    for at in 0..due.switches.len() {
        let switch = due.switches[at];
        let mut link = std::mem::replace(&mut due.first_link[switch as usize], NIL);
        while link != NIL {
            links.clear();
            while link != NIL && links.len() < TOGETHER {
                links.push(link);
                link = due.next_link[link as usize];
            }
            take_arrivals(world, agenda, links, &mut arrivals.all);
        }
        route_arrivals(world, switch, &mut arrivals.all);
        arrivals.divide_by_time(agenda.begin, agenda.width);
        if world.go_apart(switch, agenda.begin, || arrivals.amount(), agenda) {
            sweep_ports(world, agenda, arrivals);
        } else {
            sweep_coupled(world, agenda, arrivals);
        }
        arrivals.all.clear();
    }
    due.switches.clear();
}

/// Takes what arrives in this window off the links.
#[inline]
fn take_arrivals<O: Observer>(
    world: &mut World<'_, O>,
    agenda: &mut Agenda,
    links: &[u32],
    arrivals: &mut Vec<Arrival>,
) {
    if agenda.reads_ahead {
        let heads = links.iter().map(|&link| world.links[link as usize].head());
        std::hint::black_box(heads.fold(0, |read, head| read ^ head));
    }
    if agenda.reads_all {
        let behind = links.iter().map(|&link| world.links[link as usize].touch_behind_head());
        std::hint::black_box(behind.fold(0, |read, at| read ^ at));
    }
    let end = agenda.end;
    for &link in links {
        world.links[link as usize].take_arrived(end, |flight| {
            arrivals.push(Arrival { at: flight.at, link, out: 0, packet: flight.packet });
        });
        let head = world.links[link as usize].head();
        if head != u64::MAX {
            agenda.list_arrival(link, head);
        }
    }
}

/// Finds the link over which each arrival will leave.
#[inline]
fn route_arrivals<O: Observer>(world: &World<'_, O>, switch: u32, arrivals: &mut [Arrival]) {
    let (forwarding, ways) = (world.routes.of(switch), &world.ways);
    for arrival in arrivals {
        let way = ways.of(&arrival.packet);
        arrival.out = forwarding.next(way.destination, way.edge, way.path);
    }
}

/// Runs the ports of a switch one by one.
#[inline]
fn sweep_ports<O: Observer>(world: &mut World<'_, O>, agenda: &mut Agenda, arrivals: &mut Arrivals) {
    let used = arrivals.divide_by_port();
    let Arrivals { all, ports, by_port, .. } = arrivals;
    let ports = &ports[..used];
    if agenda.reads_ahead {
        let links = ports.iter().map(|&port| all[by_port[port as usize][0] as usize].out);
        touch_ports(world, links);
    }
    for &port in ports {
        let places = &mut by_port[port as usize];
        sort(places, all, agenda.order);
        let out = all[places[0] as usize].out;
        let packets = places.iter().map(|&place| {
            let arrival = &all[place as usize];
            (arrival.at, &arrival.packet)
        });
        world.enqueue_all(out, packets, agenda);
        places.clear();
    }
}

/// Reads the ports to which packets go, as `touch_endpoints` does.
#[inline]
fn touch_ports<O: Observer>(world: &World<'_, O>, links: impl Iterator<Item = u32>) {
    std::hint::black_box(links.fold(0, |read, link| read ^ world.links[link as usize].touch()));
}

/// A switch whose ports share memory is run as a whole, in order of time.
fn sweep_coupled<O: Observer>(world: &mut World<'_, O>, agenda: &mut Agenda, arrivals: &mut Arrivals) {
    sort(&mut arrivals.by_slice, &arrivals.all, agenda.order);
    for &place in &arrivals.by_slice {
        let arrival = &arrivals.all[place as usize];
        world.enqueue(arrival.out, arrival.at, &arrival.packet, agenda);
    }
}

/// Runs every host over what arrives and what falls due there.
#[inline(never)]
fn sweep_hosts<O: Observer>(
    world: &mut World<'_, O>,
    agenda: &mut Agenda,
    due: &mut DueNodes,
    own: &[Due],
    arrived: &mut Vec<Flight>,
) {
    let mut ends = [0; TOGETHER_AT_HOSTS];
    for at in 0..due.hosts.len() {
        let place = at % TOGETHER_AT_HOSTS;
        if place == 0 {
            let hosts = &due.hosts[at..due.hosts.len().min(at + TOGETHER_AT_HOSTS)];
            take_deliveries(world, agenda, hosts, arrived, &mut ends);
        }
        let host = due.hosts[at];
        let downlink = world.routes.downlink[host as usize];
        let mut next = std::mem::replace(&mut due.first_own[host as usize], NIL) as usize;
        let begin = if place == 0 { 0 } else { ends[place - 1] };
        let mut arrivals = arrived[begin..ends[place]].iter();
        if next == NIL as usize {
            // Nothing but arrivals, until one of them arms a timer for this very window.
            while agenda.soon.is_empty()
                && let Some(flight) = arrivals.next()
            {
                world.deliver(flight.at, &flight.packet, agenda);
            }
        }
        loop {
            let arrival = arrivals.as_slice().first();
            let listed = own.get(next).filter(|item| item.host == host).copied();
            let soon = agenda.soon.first();
            let mine = match (listed, soon) {
                (Some(listed), Some(soon)) => Some(listed.min(soon)),
                (listed, soon) => listed.or(soon),
            };
            match (arrival, mine) {
                (Some(flight), mine)
                    if mine.is_none_or(|mine| world.order.before((flight.at, Entity::link(downlink)), mine.key())) =>
                {
                    arrivals.next();
                    world.deliver(flight.at, &flight.packet, agenda);
                }
                (_, Some(mine)) => {
                    if soon == Some(mine) {
                        agenda.soon.pop();
                    } else {
                        next += 1;
                    }
                    world.fire(mine.at, mine.entity, agenda);
                }
                (_, None) => break,
            }
        }
        if due.has_arrivals[host as usize] {
            due.has_arrivals[host as usize] = false;
            let head = world.links[downlink as usize].head();
            if head != u64::MAX {
                agenda.list_arrival(downlink, head);
            }
        }
    }
    due.hosts.clear();
}

/// How many hosts are looked at together.
const TOGETHER_AT_HOSTS: usize = 16;

/// Takes what arrives at some hosts in this window off their links, and says where what is for each of them ends. Then neither a link
/// nor its ring is looked at again for each packet. Reads what they will need. Nothing comes onto these links while hosts are run, as no
/// link leads from host to host.
#[inline]
fn take_deliveries<O: Observer>(
    world: &mut World<'_, O>,
    agenda: &Agenda,
    hosts: &[u32],
    arrived: &mut Vec<Flight>,
    ends: &mut [usize; TOGETHER_AT_HOSTS],
) {
    if agenda.reads_ahead {
        let heads = hosts.iter().map(|&host| world.links[world.routes.downlink[host as usize] as usize].head());
        std::hint::black_box(heads.fold(0, |read, head| read ^ head));
    }
    arrived.clear();
    for (&host, end) in hosts.iter().zip(&mut *ends) {
        let downlink = world.routes.downlink[host as usize];
        world.links[downlink as usize].take_arrived(agenda.end, |flight| arrived.push(*flight));
        *end = arrived.len();
    }
    if agenda.reads_all {
        touch_endpoints(world, hosts, arrived.iter());
    } else if agenda.reads_ahead {
        let begins = std::iter::once(0).chain(ends.iter().copied());
        let firsts = begins.zip(&*ends).take(hosts.len()).filter(|(begin, end)| begin < end);
        touch_endpoints(world, hosts, firsts.map(|(begin, _)| &arrived[begin]));
    }
}

/// Reads what some arrivals at these hosts will need. One arrival after another, each read would wait for memory. Reads that do not
/// depend on each other wait together: first which ends all arrivals go to, then what they need of these. Nothing but time depends on it.
#[inline]
fn touch_endpoints<'f, O: Observer>(
    world: &World<'_, O>,
    hosts: &[u32],
    flights: impl Iterator<Item = &'f Flight> + Clone,
) {
    let ends = flights.clone().fold(0, |read, flight| read ^ world.end_for(&flight.packet));
    let mut read = flights.fold(u64::from(ends), |read, flight| read ^ world.touch_end(&flight.packet));
    for &host in hosts {
        read ^= world.links[world.routes.uplink[host as usize] as usize].touch();
    }
    std::hint::black_box(read);
}

/// Begins every transmission that is due before the end of the window. `links` is scratch space.
#[inline(never)]
fn depart<O: Observer>(world: &mut World<'_, O>, agenda: &mut Agenda, links: &mut Vec<u32>) {
    let mut link = agenda.departures.take(agenda.current);
    while link != NIL {
        links.clear();
        while link != NIL && links.len() < TOGETHER {
            links.push(link);
            link = agenda.departures.follow(link);
        }
        if agenda.reads_ahead {
            let read = links.iter().fold(0, |read, &link| read ^ world.links[link as usize].touch_departure());
            std::hint::black_box(read);
        }
        for &link in &*links {
            world.advance(link, agenda.end - 1, agenda);
            let port = &world.links[link as usize];
            if port.has_backlog() {
                let window = agenda.window_of(port.next_departure());
                agenda.departures.insert(link, window, agenda.current);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use incast_testing::Random;
    use std::collections::BTreeSet;

    /// Against a sort of everything: a few arrivals and many, at different times, at few times, and all at one, in windows of all
    /// widths.
    #[test]
    fn arrivals_at_a_switch_and_at_its_ports_are_in_order() {
        const LINKS: u32 = 50;
        const PORTS: u32 = 7;
        let order = Order::new(3);
        let mut random = Random(11);
        let mut arrivals = Arrivals::with_ports((0..LINKS).map(|link| link % PORTS).collect());
        for round in 0..600 {
            let times = [1, 3, 100, 10_000][round % 4];
            let most = [2, 40, 300, 5_000][round / 4 % 4];
            let width = [1, 2, 1_023, 1_024, 10_000, 1 << 20, 1_000_000_000_000][round / 16 % 7];
            let begin = 7 * width;
            for _ in 0..=random.below(most) {
                let at = begin + u64::from(random.below(times)) * width / u64::from(times);
                let (link, out) = (random.below(LINKS), random.below(LINKS));
                arrivals.all.push(Arrival { at, link, out, packet: Packet::default() });
            }
            let all = arrivals.all.clone();
            let mut sorted: Vec<u32> = (0..all.len() as u32).collect();
            sorted.sort_by_key(|&place| {
                let Arrival { at, link, .. } = all[place as usize];
                (at, order.rank(at, Entity::link(link)), Entity::link(link))
            });
            arrivals.divide_by_time(begin, width);
            let at = |place: u32| all[place as usize].at - begin;
            let slice = width.div_ceil(all.len().min(SLICES) as u64) * 2;
            let nearly = arrivals.by_slice.is_sorted_by(|&a, &b| at(a) < at(b) + slice);
            assert!(nearly, "round {round}: not by slices of {slice}");
            let used = arrivals.divide_by_port();
            let mut used = arrivals.ports[..used].to_vec();
            used.sort_unstable();
            assert!(used.is_sorted_by(|a, b| a < b), "{used:?}");
            for port in 0..PORTS {
                let there = |place: &u32| all[*place as usize].out % PORTS == port;
                let expected: Vec<u32> = sorted.iter().copied().filter(there).collect();
                let places = &mut arrivals.by_port[port as usize];
                assert_eq!(used.contains(&port), !places.is_empty());
                sort(places, &all, order);
                assert_eq!(*places, expected, "round {round}, port {port}");
                places.clear();
            }
            sort(&mut arrivals.by_slice, &all, order);
            assert_eq!(arrivals.by_slice, sorted, "round {round}");
            arrivals.all.clear();
        }
    }

    /// Against a sorted set, with links that are due at once and links that are due far beyond the wheel's span.
    #[test]
    fn a_wheel_finds_each_link_in_its_window_and_nowhere_else() {
        const LINKS: u32 = 40;
        let mut wheel = Wheel::new(LINKS as usize);
        let mut model = BTreeSet::new();
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut current = 0;
        for _ in 0..20_000 {
            for _ in 0..random(4) {
                let link = random(u64::from(LINKS)) as u32;
                if !wheel.is_listed(link) {
                    let ahead = [0, 1, SLOTS - 1, SLOTS, 3 * SLOTS + 7, 1 << 40][random(6) as usize] + random(3);
                    wheel.insert(link, current + ahead, current);
                    model.insert((current + ahead, link));
                }
            }
            let first = model.first().map(|first| first.0);
            assert_eq!(wheel.first(current), first);
            let Some(window) = first else { continue };
            let mut expected: BTreeSet<u32> = BTreeSet::new();
            while model.first().is_some_and(|first| first.0 == window) {
                expected.extend(model.pop_first().map(|first| first.1));
            }
            let mut link = wheel.take(window);
            while link != NIL {
                assert!(expected.remove(&link), "{link} is not due in {window}");
                link = wheel.follow(link);
            }
            assert!(expected.is_empty(), "{expected:?} are due in {window}");
            current = window + random(2);
        }
    }
}
