//! Whether a plan is whole: what a world may take for granted.

use std::collections::BTreeSet;

use incast_protocols::Time;

use super::{Node, Plan, Response, Unfit};

impl Plan {
    /// Checks that every number points at something, that hosts have one link out and one in, that switch ports have
    /// queues and host ports none, and that sends are in order. Plans of scenarios are; this is for those made by hand.
    ///
    /// # Errors
    /// The first thing that does not fit.
    pub fn validate(&self) -> Result<(), String> {
        self.validate_network()?;
        let ensure = |fine: bool, what: &dyn Fn() -> String| if fine { Ok(()) } else { Err(what()) };
        let (hosts, classes, count) = (self.network.hosts, self.classes.len(), self.connections.len());
        for (index, one) in self.connections.iter().enumerate() {
            ensure(one.client < hosts && one.server < hosts, &|| format!("connection {index} has an unknown host"))?;
            ensure(one.client != one.server, &|| format!("connection {index} has one end only"))?;
            ensure((one.class as usize) < classes, &|| format!("connection {index} has an unknown class"))?;
        }
        for (index, class) in self.classes.iter().enumerate() {
            let unfit = class.tcp.unfit();
            ensure(unfit.is_empty(), &|| {
                let Unfit { key, found, allowed } = &unfit[0];
                format!("class {index}: tcp.{key}: {found}; allowed: {allowed}")
            })?;
        }
        ensure(self.stop_at != Some(Time(0)), &|| "it ends before it begins".into())?;
        let mut endless = BTreeSet::new();
        for (index, send) in self.sends.iter().enumerate() {
            let end = (send.connection, send.from);
            ensure(!endless.contains(&end), &|| format!("send {index} follows an endless one"))?;
            if send.size().is_none() {
                endless.insert(end);
            }
            ensure((send.connection as usize) < count, &|| format!("send {index} has an unknown connection"))?;
            ensure(send.size().is_none_or(|size| size.0 > 0), &|| format!("send {index} is empty"))?;
        }
        ensure(self.sends.is_sorted_by_key(|send| send.start), &|| {
            "sends are not in the order of their starts".into()
        })?;
        for (index, one) in self.aggregators.iter().enumerate() {
            ensure((one.class as usize) < classes, &|| format!("aggregator {index} has an unknown class"))?;
            for &worker in &one.workers {
                let client = self.connections.get(worker as usize).map(|connection| connection.client);
                ensure(client == Some(one.host), &|| format!("aggregator {index} is not the client of {worker}"))?;
            }
            let own = &one.opened_by_workers;
            let matching = own.is_empty() || own.len() == one.workers.len();
            ensure(matching, &|| format!("aggregator {index} has {} connections of workers", own.len()))?;
            for (&worker, &own) in one.workers.iter().zip(own) {
                let (asked, own) = (&self.connections[worker as usize], self.connections.get(own as usize));
                let back = own.is_some_and(|own| (own.client, own.server) == (asked.server, asked.client));
                ensure(back, &|| format!("aggregator {index} has a connection of a worker that does not lead back"))?;
            }
            let whole = one.rounds.iter().all(|round| round.responses.len() == one.workers.len());
            ensure(whole, &|| format!("aggregator {index} has a round without a response of each worker"))?;
            let sized = |response: &Response| response.message.size.is_some_and(|size| size.0 > 0);
            let sized = one.request.0 > 0 && one.rounds.iter().all(|round| round.responses.iter().all(sized));
            ensure(sized, &|| format!("aggregator {index} has a request or a response without a size"))?;
        }
        let links = self.network.links.len();
        let recorded = self.record.queue_series.iter().chain(&self.record.incasts).chain(&self.record.packets);
        let queues = recorded.copied().all(|link| (link as usize) < links);
        ensure(queues, &|| "an unknown link is recorded".into())?;
        let recorded = self.record.window_series.iter().chain(&self.record.packets_of);
        let windows = recorded.copied().all(|connection| (connection as usize) < count);
        ensure(windows, &|| "an unknown connection is recorded".into())
    }

    fn validate_network(&self) -> Result<(), String> {
        let network = &self.network;
        let (mut out, mut back) = (vec![0_u32; network.hosts as usize], vec![0_u32; network.hosts as usize]);
        for (index, link) in network.links.iter().enumerate() {
            for node in [link.from, link.to] {
                let known = match node {
                    Node::Host(host) => host < network.hosts,
                    Node::Switch(switch) => (switch as usize) < network.switches.len(),
                };
                if !known {
                    return Err(format!("link {index} has an unknown end"));
                }
            }
            if link.rate.0 == 0 {
                return Err(format!("link {index} has no rate"));
            }
            if let Node::Host(host) = link.from {
                out[host as usize] += 1;
            }
            if let Node::Host(host) = link.to {
                back[host as usize] += 1;
            }
            let fits = match (link.from, &link.port) {
                (Node::Host(_), None) => true,
                (Node::Switch(switch), Some(port)) => {
                    (port.buffer as usize) < network.switches[switch as usize].buffers.len()
                }
                _ => false,
            };
            if !fits {
                return Err(format!("link {index} is a switch port without a buffer, or a host port with one"));
            }
        }
        match out.iter().zip(&back).position(|links| links != (&1, &1)) {
            Some(host) => Err(format!("host {host} does not have one link out and one in")),
            None => Ok(()),
        }
    }
}
