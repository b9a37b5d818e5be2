//! What a run leaves behind.

use incast_protocols::switch::marker::Marker;
use incast_protocols::{Bytes, Duration, Time};
use incast_results::record::{DeliveryCurve, Outcome, Port, Run};
use incast_scenario::plan::Node;

use super::{NONE, World};
use crate::RunError;
use crate::link::Link;
use crate::observe::Observer;
use crate::parts::Parts;
use crate::tcp::MessageId;

/// Bins of the delivery curve; their width doubles when time runs over the last.
const BINS: usize = 1024;

/// In-order payload over time.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    /// A bin is `1 << shift` picoseconds wide.
    shift: u32,
    bytes: Vec<u64>,
}

impl Default for Curve {
    fn default() -> Self {
        Self { shift: 20, bytes: vec![0; BINS] }
    }
}

impl Curve {
    #[inline]
    pub(crate) fn add(&mut self, now: u64, bytes: u64) {
        while now >> self.shift >= BINS as u64 {
            self.widen();
        }
        self.bytes[(now >> self.shift) as usize] += bytes;
    }

    #[cold]
    fn widen(&mut self) {
        for bin in 0..BINS / 2 {
            self.bytes[bin] = self.bytes[2 * bin] + self.bytes[2 * bin + 1];
        }
        self.bytes[BINS / 2..].fill(0);
        self.shift += 1;
    }

    fn finish(mut self) -> DeliveryCurve {
        let used = self.bytes.iter().rposition(|bytes| *bytes > 0).map_or(0, |last| last + 1);
        self.bytes.truncate(used);
        DeliveryCurve { width: Duration(1 << self.shift), bytes: self.bytes }
    }
}

/// Completion time on an idle path for a sender that never waits: the time at which the last packet has
/// crossed store-and-forward hops, of which the slowest sets the pace.
pub(crate) fn ideal<M: Marker>(path: &[&Link<M>], size: u64, mss: u64, header: u64) -> Duration {
    let full = (size - 1) / mss;
    let last = size - full * mss;
    let wire = |link: &Link<M>, payload: u64| u128::from(link.time_for(payload + header));
    let propagation: u128 = path.iter().map(|link| u128::from(link.delay())).sum();
    // The last packet queues behind its predecessors at exactly one hop: the worst of all choices.
    let queued = (0..path.len()).map(|hop| {
        let before: u128 = if full > 0 { path[..hop].iter().map(|link| wire(link, mss)).sum() } else { 0 };
        let skipped: u128 = if full > 0 { 0 } else { path[..hop].iter().map(|link| wire(link, last)).sum() };
        let behind = u128::from(full) * wire(path[hop], mss);
        let rest: u128 = path[hop..].iter().map(|link| wire(link, last)).sum();
        before + skipped + behind + rest
    });
    Duration(u64::try_from(propagation + queued.max().unwrap_or(0)).unwrap_or(u64::MAX))
}

impl<P: Parts, O: Observer> World<'_, P, O> {
    /// Packets queued or on wires.
    fn in_network(&self) -> u64 {
        self.links.iter().map(|link| u64::from(link.waiting.len()) + u64::from(link.flying.len())).sum()
    }

    /// Ends the run and balances its books.
    ///
    /// # Errors
    /// [`RunError::NotConserved`] if a packet is unaccounted for: a defect of the simulator.
    pub(crate) fn finish(mut self, end: u64, outcome: Outcome, driver: &str) -> Result<Run, RunError> {
        let mut totals = self.totals;
        for link in &self.links {
            totals.dropped += link.counters.drops;
            totals.lost_on_wire += link.counters.wire_losses;
            totals.packet_hops += link.counters.packets;
            totals.ce_marks += link.counters.ce_marks;
            totals.ein_marks += link.counters.ein_marks;
        }
        totals.in_network = self.in_network();
        let accounted = totals.delivered + totals.dropped + totals.lost_on_wire + totals.in_network;
        if totals.sent != accounted {
            return Err(RunError::NotConserved { sent: totals.sent, accounted });
        }
        self.credit_unfinished();
        let network = &self.plan.network;
        let name = |node: Node| match node {
            Node::Host(host) => format!("host {host}"),
            Node::Switch(switch) => network.switches[switch as usize].name.clone(),
        };
        let mut written = self.observer.finish();
        let ports = network.links.iter().zip(&self.links).enumerate().filter(|(_, (_, link))| link.port.is_some());
        let ports = ports
            .map(|(number, (planned, link))| Port {
                link: number as u32,
                from: name(planned.from),
                to: name(planned.to),
                rate: planned.rate,
                packets: link.counters.packets,
                bytes: Bytes(link.counters.bytes),
                drops: link.counters.drops,
                ce_marks: link.counters.ce_marks,
                ein_marks: link.counters.ein_marks,
                wire_losses: link.counters.wire_losses,
                max_waiting: link.counters.max_waiting,
                queue: written.statistics.get_mut(number).and_then(Option::take),
            })
            .collect();
        Ok(Run {
            name: self.plan.name.clone(),
            seed: self.plan.seed,
            driver: driver.to_owned(),
            classes: self.plan.classes.iter().map(|class| class.name.clone()).collect(),
            warnings: self.plan.warnings.clone(),
            end: Time(end),
            outcome,
            flows: self.flows,
            ports,
            queue_samples: written.queue_samples,
            window_samples: written.window_samples,
            events: written.events,
            incasts: written.incasts,
            ein_watched: self.plan.watches_ein(),
            alarms: written.alarms,
            totals,
            delivered: self.curve.finish(),
        })
    }

    /// What unfinished messages have delivered so far.
    fn credit_unfinished(&mut self) {
        for (connection, &slot) in self.slot_of.iter().enumerate() {
            if slot == NONE {
                continue;
            }
            debug_assert_eq!(self.slots[slot as usize].connection as usize, connection);
            for end in 0..2 {
                let receive = &self.endpoints[slot as usize * 2 + end].receive;
                for span in &receive.incoming {
                    if let MessageId::Flow(flow) = span.id {
                        self.flows[flow as usize].delivered = Bytes(receive.delivered_of(span));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use incast_protocols::Rate;

    fn path(rates: &[u64], delay_us: u64) -> Vec<Link<incast_protocols::switch::marker::AnyMarker>> {
        rates.iter().map(|&rate| Link::new(Rate(rate), delay_us * 1_000_000, None, None)).collect()
    }

    fn ideal_us(rates: &[u64], size: u64) -> f64 {
        let links = path(rates, 10);
        ideal(&links.iter().collect::<Vec<_>>(), size, 1460, 40).as_secs_f64() * 1e6
    }

    /// The Pulser paper's network: 4 hops of 10 us at 10 Gbit/s.
    #[test]
    fn unloaded_transfers_take_propagation_plus_wire_time_plus_store_and_forward() {
        let rates = [10_000_000_000; 4];
        for (size, us) in [(8 << 10, 50.35), (20 << 10, 60.46), (32 << 10, 70.55), (1 << 20, 905.5)] {
            // The formula of the paper counts a full packet for each further hop, ours the last packet's own.
            let ours = ideal_us(&rates, size);
            assert!(ours <= us + 0.01 && us - ours < 3.7, "{size}: {ours} against {us}");
        }
    }

    #[test]
    fn the_slowest_hop_sets_the_pace() {
        // Two full packets over a fast, a slow and a fast hop, by hand: 1.2 + 2 * 12 + 1.2 us and 30 us of wire.
        let us = ideal_us(&[10_000_000_000, 1_000_000_000, 10_000_000_000], 2920);
        assert!((us - (30.0 + 1.2 + 24.0 + 1.2)).abs() < 1e-9, "{us}");
    }

    #[test]
    fn a_curve_keeps_its_sum_when_time_runs_on() {
        let mut curve = Curve::default();
        for step in 0..5_000_u64 {
            curve.add(step * 777_777_777, step);
        }
        let curve = curve.finish();
        assert_eq!(curve.bytes.iter().sum::<u64>(), 5_000 * 4_999 / 2);
        assert!(curve.bytes.len() <= BINS);
    }
}
