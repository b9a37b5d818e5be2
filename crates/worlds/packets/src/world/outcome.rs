//! What a run leaves behind.

use std::io;

use incast_protocols::{Bytes, Time};
use incast_record::{Outcome, Run};

use super::{NONE, World};
use crate::observe::Observer;
use crate::tcp::MessageId;
use incast_world::{RunError, rows};

impl<O: Observer> World<'_, O> {
    /// Whether everything could be written down so far.
    ///
    /// # Errors
    /// The disk has failed.
    pub(crate) fn written(&self) -> io::Result<()> {
        self.observer.complete()?;
        self.messages.are_all_there()
    }

    /// Packets queued or on wires.
    fn in_network(&self) -> u64 {
        let packets: u64 =
            self.links.iter().map(|link| u64::from(link.waiting.len()) + u64::from(link.flying.len())).sum();
        // Headers of trimmed packets are not among them: these have been dropped.
        let trimmed: i64 = self.links.iter().map(|link| link.counters.trimmed).sum();
        packets + self.headers_delivered - trimmed.unsigned_abs()
    }

    /// Ends the run and balances its books.
    ///
    /// # Errors
    /// [`RunError::NotConserved`] if a packet is unaccounted for: a defect of the simulator. [`RunError::Failed`] if the
    /// disk did not take what was recorded.
    pub(crate) fn finish(self, end: u64, outcome: Outcome, driver: &str) -> Result<Run, RunError> {
        let mut totals = self.totals;
        for link in &self.links {
            totals.dropped += link.counters.drops;
            totals.lost_on_wire += link.counters.wire_losses;
            totals.packet_hops += link.begun();
            totals.ce_marks += link.counters.ce_marks;
            totals.ein_marks += link.counters.ein_marks;
        }
        totals.in_network = self.in_network();
        let accounted = totals.delivered + totals.dropped + totals.lost_on_wire + totals.in_network;
        if totals.sent != accounted {
            return Err(RunError::NotConserved { sent: totals.sent, accounted });
        }
        self.written().map_err(|error| RunError::Failed(error.to_string()))?;
        let mut written = self.observer.finish();
        let mut ports = rows::unused_ports(&self.plan.network);
        for port in &mut ports {
            let link = &self.links[port.link as usize];
            let counters = &link.counters;
            port.packets = link.begun();
            port.bytes = Bytes(link.begun_bytes());
            port.drops = counters.drops;
            port.ce_marks = counters.ce_marks;
            port.ein_marks = counters.ein_marks;
            port.wire_losses = counters.wire_losses;
            port.max_waiting = link.max_waiting;
            port.queue = written.statistics.get_mut(port.link as usize).and_then(Option::take);
        }
        Ok(Run {
            name: self.plan.name.clone(),
            seed: self.plan.seed,
            driver: driver.to_owned(),
            classes: self.plan.classes.iter().map(|class| class.name.clone()).collect(),
            senders: self.plan.classes.iter().map(|class| class.stack.sender.info().name.to_owned()).collect(),
            warnings: self.plan.warnings.clone(),
            end: Time(end),
            outcome,
            flows: self.messages.finish(&self.routes),
            ports,
            queue_samples: written.queue_samples,
            window_samples: written.window_samples,
            window_columns: self.columns.columns,
            events: written.events,
            packets: written.packets,
            incasts: written.incasts,
            ein_watched: self.plan.watches_ein(),
            alarms: written.alarms,
            totals,
            delivered: self.curve.finish(),
            machine: None,
        })
    }

    /// The run is over for this world, whether it is one of several or not: writes down what unfinished messages have
    /// delivered.
    pub(crate) fn credit_unfinished(&mut self) {
        for &end in self.ends_of.iter().flatten().filter(|end| **end != NONE) {
            let receive = &self.endpoints[end as usize].receive;
            for span in &receive.incoming {
                if let MessageId::Flow(flow) = span.id {
                    self.messages.row(&self.routes, flow).delivered = Bytes(receive.delivered_of(span));
                }
            }
        }
    }
}
