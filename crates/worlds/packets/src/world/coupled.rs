//! Ports that share memory, and when they need not.
//!
//! A memory that ports share hears of arrivals and departures in order of time, at whichever port they are. But while all that it holds
//! and all that may come to it would fit, every packet is admitted in whatever order they come. Then the ports go apart: each is run over
//! its own arrivals, as if it shared nothing, and nobody counts what leaves but a marker that wants to know. What has come since the memory was counted last is taken for
//! held. Once that may be too much the memory is counted again, and the ports come back if it holds nearly as much.

use incast_protocols::Bytes;
use incast_protocols::switch::buffer::{Ample, Buffer};

use super::{Schedule, World};
use crate::observe::Observer;

/// Ports of one switch that share memory.
#[derive(Clone, Debug)]
pub(super) struct Coupled {
    /// Number of the memory.
    memory: u32,
    /// The links behind the ports.
    ports: Vec<u32>,
    /// How much may be held while they are apart.
    ample: Ample,
    are_apart: bool,
    /// While they are: an upper bound of what waits at all of them, in the terms of `ample`.
    held: u64,
}

impl Coupled {
    /// `can_go_apart`: nothing but the memory keeps them together.
    pub(super) const fn new(memory: u32, ports: Vec<u32>, ample: Ample, can_go_apart: bool) -> Self {
        Self { memory, ports, ample: if can_go_apart { ample } else { Ample::NEVER }, are_apart: false, held: 0 }
    }
}

impl<O: Observer> World<'_, O> {
    /// Whether the ports of a switch may each be run alone over what arrives in the window from `begin` on, as they always may if they share
    /// nothing. `amount` says how many packets arrive, and how many bytes. All transmissions that were due before have begun.
    #[inline]
    pub(crate) fn go_apart(
        &mut self,
        switch: u32,
        begin: u64,
        amount: impl FnOnce() -> (u64, u64),
        schedule: &mut impl Schedule,
    ) -> bool {
        let Some(coupled) = &mut self.coupled[switch as usize] else { return true };
        let (packets, bytes) = amount();
        let ample = coupled.ample.bytes.0;
        let comes = bytes.saturating_add(packets.saturating_mul(coupled.ample.beside_packet.0));
        if coupled.are_apart {
            coupled.held = coupled.held.saturating_add(comes);
            return coupled.held <= ample || self.stay_apart(switch, begin, comes, schedule);
        }
        // Some distance from where they come back, so that they do not go to and fro.
        let Bytes(held) = self.buffers[coupled.memory as usize].held();
        let goes = held.saturating_add(comes) <= ample / 4 * 3;
        if goes {
            coupled.are_apart = true;
            coupled.held = held + comes;
            for &link in &coupled.ports {
                self.links[link as usize].go_apart(&mut self.buffers[coupled.memory as usize]);
            }
            self.departures[coupled.memory as usize].clear();
        }
        goes
    }

    /// Counts what the ports of a switch hold. They stay apart if it is clearly less than what is ample: to count is worth it only if it is
    /// not to be done again soon.
    #[inline(never)]
    fn stay_apart(&mut self, switch: u32, begin: u64, comes: u64, schedule: &mut impl Schedule) -> bool {
        let Some(coupled) = &mut self.coupled[switch as usize] else { return true };
        let before = begin.saturating_sub(1);
        let waits = coupled.ports.iter().map(|&link| {
            let (packets, bytes) = self.links[link as usize].waiting_apart(before);
            bytes.saturating_add(u64::from(packets).saturating_mul(coupled.ample.beside_packet.0))
        });
        coupled.held = waits.fold(comes, u64::saturating_add);
        if coupled.held <= coupled.ample.bytes.0 / 8 * 7 {
            return true;
        }
        coupled.are_apart = false;
        let (memory, ports) = (coupled.memory, std::mem::take(&mut coupled.ports));
        for &link in &ports {
            let port = &mut self.links[link as usize];
            // A port that does not count late is asked already.
            let is_asked = port.has_backlog();
            port.come_back(before, &mut self.buffers[memory as usize]);
            if is_asked {
                self.list_at_memory(link);
            } else if port.has_backlog() {
                self.list_departure(link, schedule);
            }
        }
        if let Some(coupled) = &mut self.coupled[switch as usize] {
            coupled.ports = ports;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::sweep::Sweep;
    use crate::driver::{Horizon, event_loop};
    use crate::observe::Silent;
    use incast_protocols::switch::buffer::BufferChoice;
    use incast_protocols::switch::buffer::dynamic_threshold::{self, Alpha};
    use incast_protocols::switch::marker::{MarkerChoice, ein, red};
    use incast_testing::star_load;
    use incast_world::Control;
    use std::sync::Arc;

    /// The memory is at times too small for all that comes. The event loop knows nothing of going apart.
    #[test]
    fn ports_go_apart_and_come_back_and_nobody_can_tell() {
        let memories = [(700_000, 1.0, 0, 1), (2_000_000, 0.25, 3_000, 1), (800_000, 1.0, 0, 256)];
        // A threshold does not see departures, the others do.
        let detector = MarkerChoice::Ein(ein::Config { growth: 0.05, ..Default::default() });
        let markers = [None, Some(detector), Some(MarkerChoice::Red(red::Config::default()))];
        for (marker, (size, alpha, reserve, cell)) in
            memories.iter().flat_map(|&memory| markers.each_ref().map(|marker| (marker, memory)))
        {
            let memory = BufferChoice::DynamicThreshold(dynamic_threshold::Config {
                size: Bytes(size),
                alpha: Alpha::try_from(alpha).unwrap(),
                reserve: Bytes(reserve),
                cell: Bytes(cell),
            });
            let mut plan = star_load(41, 2_000, &memory);
            for link in &mut plan.network.links {
                if let (Some(port), Some(marker)) = (link.port.as_mut().map(Arc::make_mut), marker) {
                    port.marker = marker.clone();
                }
            }
            let mut world = World::new(&plan, Silent, None).unwrap();
            let mut sweep = Sweep::new(&mut world, &plan);
            let horizon = Horizon::new(&plan);
            let (mut apart, mut together, mut changes, mut were_apart) = (0, 0, 0, false);
            while let Some(window) = sweep.first(&plan) {
                sweep.sweep(&mut world, &plan, window, horizon.at);
                sweep.pass(horizon.at);
                let are_apart = world.coupled[0].as_ref().unwrap().are_apart;
                (apart, together) = (apart + u32::from(are_apart), together + u32::from(!are_apart));
                changes += u32::from(are_apart != were_apart);
                were_apart = are_apart;
            }
            assert!(apart > 100 && together > 100 && changes > 7, "{size}: {apart} {together} {changes}");
            let mut other = World::new(&plan, Silent, None).unwrap();
            event_loop::run(&mut other, &plan, &Control::default());
            world.count_until(horizon.at - 1);
            other.count_until(horizon.at - 1);
            assert!(world.totals == other.totals && world.finished_at == other.finished_at, "{size}");
            let ports = |world: &World<'_, Silent>| -> Vec<_> {
                let ports = world.links.iter();
                ports.map(|link| (link.begun(), link.begun_bytes(), link.max_waiting, link.counters.drops)).collect()
            };
            assert_eq!(ports(&world), ports(&other), "{size}");
            let dropped: u64 = world.links.iter().map(|link| link.counters.drops).sum();
            assert!(dropped > 0, "{size}: the memory is never full");
            let marks = |world: &World<'_, Silent>| -> Vec<_> {
                world.links.iter().map(|link| (link.counters.ce_marks, link.counters.ein_marks)).collect()
            };
            assert_eq!(marks(&world), marks(&other), "{size}");
            assert!(marks(&world).iter().any(|&(ce, _)| ce > 0), "{size}");
            let detects = matches!(marker, Some(MarkerChoice::Ein(_)));
            assert_eq!(marks(&world).iter().any(|&(_, ein)| ein > 0), detects, "{size}");
        }
    }
}
