//! The event loop: one event per packet-hop, the first arrival of each link in a calendar.
//!
//! The second driver. It needs no delay between nodes, so it serves networks with links of no length,
//! and as the oracle that the window sweep is held against.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use incast_plan::Plan;
use incast_record::Outcome;

use super::calendar::Calendar;
use super::timers::{Due, Timers};
use super::{Horizon, Looks, report};
use crate::observe::Observer;
use crate::world::{Schedule, Target, World};
use incast_world::Control;
use incast_world::Starts;
use incast_world::tie::{Entity, Order};

/// Events between two looks at the control.
const REPORT_EVERY: u32 = 1 << 16;

struct Agenda {
    order: Order,
    calendar: Calendar,
    timers: Timers,
    /// Links on which packets can be lost or overtake each other: their next event may move to an
    /// earlier time, so it is pushed again and the older entry is passed over.
    impaired: BinaryHeap<Reverse<(u64, u64, u32)>>,
    /// By link: the time of its valid entry in `impaired`, `u64::MAX` for none; or, for a link that is
    /// not impaired, zero.
    impaired_at: Vec<u64>,
}

impl Schedule for Agenda {
    #[inline]
    fn wake_link(&mut self, link: u32, at: u64) {
        if self.impaired_at[link as usize] == 0 {
            self.calendar.push(link, at);
        }
    }

    #[inline]
    fn backlog(&mut self, _link: u32, _at: u64) {}

    fn impaired(&mut self, link: u32, at: u64) {
        if at < self.impaired_at[link as usize] {
            self.impaired_at[link as usize] = at;
            let rank = self.order.rank(at, Entity::link(link));
            self.impaired.push(Reverse((at, rank, link)));
        }
    }

    fn arm(&mut self, at: u64, host: u32, entity: Entity) {
        self.timers.push(Due::new(self.order, at, host, entity));
    }
}

impl Agenda {
    /// The next link to look at.
    #[inline]
    fn first_link(&mut self) -> Option<(u64, u32)> {
        while let Some(Reverse((at, _, link))) = self.impaired.peek().copied() {
            if self.impaired_at[link as usize] == at {
                return match self.calendar.first() {
                    Some(near) if self.before(near, (at, link)) => Some(near),
                    _ => Some((at, link)),
                };
            }
            self.impaired.pop();
        }
        self.calendar.first()
    }

    #[inline]
    fn before(&self, a: (u64, u32), b: (u64, u32)) -> bool {
        self.order.before((a.0, Entity::link(a.1)), (b.0, Entity::link(b.1)))
    }

    #[inline]
    fn pop_link(&mut self, first: (u64, u32)) {
        if self.impaired_at[first.1 as usize] == 0 {
            self.calendar.pop(first);
        } else {
            self.impaired_at[first.1 as usize] = u64::MAX;
            self.impaired.pop();
        }
    }
}

/// Runs to the end, the horizon, or until cancelled; returns how far simulated time came.
pub(crate) fn run<O: Observer>(world: &mut World<'_, O>, plan: &Plan, control: &Control) -> (u64, Outcome) {
    let mut horizon = Horizon::new(plan);
    let packet_time = world.links.iter().map(|link| link.time_for(1500)).min().unwrap_or(1);
    let links = world.links.len();
    let impaired = world.links.iter().map(|link| if link.is_impaired() { u64::MAX } else { 0 });
    let mut agenda = Agenda {
        order: world.order,
        calendar: Calendar::new(world.order, links, packet_time / links.max(1) as u64),
        timers: Timers::default(),
        impaired: BinaryHeap::new(),
        impaired_at: impaired.collect(),
    };
    super::begin_programs(world, plan, &mut agenda);
    world.start(&mut agenda);
    let mut starts = Starts::new(plan, world.order);
    let mut looks = Looks::new(REPORT_EVERY, control);
    loop {
        let timer = agenda.timers.first().map(|due| due.key());
        let own = match (starts.first(plan), timer) {
            (Some(send), Some(timer)) if world.order.before(timer, send) => Some((timer, false)),
            (Some(send), _) => Some((send, true)),
            (None, Some(timer)) => Some((timer, false)),
            (None, None) => None,
        };
        let link = agenda.first_link();
        let link_first = match (link, own) {
            (Some((at, link)), Some((own, _))) => world.order.before((at, Entity::link(link)), own),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => break,
        };
        let at = if link_first { link.map(|link| link.0) } else { own.map(|own| own.0.0) };
        let now = at.unwrap_or(u64::MAX);
        if now >= horizon.at {
            break;
        }
        if let Some(first) = link.filter(|_| link_first) {
            agenda.pop_link(first);
            pass(world, first, &mut agenda);
        } else if let Some(((_, entity), is_send)) = own {
            if is_send {
                starts.pop();
            } else {
                agenda.timers.pop();
            }
            world.fire(now, entity, &mut agenda);
        }
        if looks.are_due() {
            world.bury_vanished();
            let packet_hops = world.packet_hops_lately();
            looks.seen(packet_hops);
            if report(world, now, packet_hops, control) {
                world.count_until(now);
                return (now, Outcome::Interrupted);
            }
        }
        if world.unfinished == 0 {
            horizon.update(world.unfinished, world.finished_at);
        }
    }
    for link in 0..links as u32 {
        world.advance(link, horizon.at - 1, &mut agenda);
    }
    world.count_until(horizon.at - 1);
    world.bury_vanished();
    let end = horizon.end(world);
    report(world, end, world.packet_hops(), control);
    (end, horizon.outcome(world))
}

/// What was due on a link at `at` passes on.
#[inline]
fn pass<O: Observer>(world: &mut World<'_, O>, (at, link): (u64, u32), agenda: &mut Agenda) {
    let port = &mut world.links[link as usize];
    if port.head() > at {
        // An impaired link that only has a transmission to begin.
        world.advance(link, at, agenda);
        return;
    }
    let packet = port.flying.pop().packet;
    if !port.flying.is_empty() {
        let head = port.head();
        agenda.wake_link(link, head);
    }
    world.advance(link, at, agenda);
    match world.targets[link as usize] {
        Target::Host(host) => {
            debug_assert_eq!(host, world.ways.of(&packet).destination);
            world.deliver(at, &packet, agenda);
        }
        Target::Switch(switch) => {
            let out = world.route(switch, &packet);
            world.enqueue(out, at, &packet, agenda);
        }
    }
}
