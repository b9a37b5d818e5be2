//! What a run leaves behind.

use incast_protocols::{Bytes, Time};
use incast_results::record::{Outcome, Port, Run};
use incast_scenario::plan::{Network, Node};

use super::{NONE, World};
use crate::RunError;
use crate::observe::Observer;
use crate::parts::Parts;
use crate::tcp::MessageId;

/// Every switch port, with nothing counted.
pub(crate) fn unused_ports(network: &Network) -> Vec<Port> {
    let name = |node: Node| match node {
        Node::Host(host) => format!("host {host}"),
        Node::Switch(switch) => network.switches[switch as usize].name.clone(),
    };
    let ports = (0..).zip(&network.links).filter(|(_, link)| link.port.is_some());
    ports
        .map(|(number, link)| Port {
            link: number,
            from: name(link.from),
            to: name(link.to),
            rate: link.rate,
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
        let mut written = self.observer.finish();
        let mut ports = unused_ports(&self.plan.network);
        for port in &mut ports {
            let counters = &self.links[port.link as usize].counters;
            port.packets = counters.packets;
            port.bytes = Bytes(counters.bytes);
            port.drops = counters.drops;
            port.ce_marks = counters.ce_marks;
            port.ein_marks = counters.ein_marks;
            port.wire_losses = counters.wire_losses;
            port.max_waiting = counters.max_waiting;
            port.queue = written.statistics.get_mut(port.link as usize).and_then(Option::take);
        }
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
