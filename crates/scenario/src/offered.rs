//! What random traffic offers to each link on average, to warn of links that can never keep up.

use crate::network::Layout;
use incast_plan::Node;

/// Bits per second, payload and headers, offered to the links of hosts and racks.
#[derive(Debug)]
pub(crate) struct Offered {
    classes: Vec<String>,
    out_of_host: Vec<f64>,
    into_host: Vec<f64>,
    out_of_rack: Vec<f64>,
    into_rack: Vec<f64>,
}

impl Offered {
    pub(crate) fn new(layout: &Layout) -> Self {
        let hosts = layout.hosts() as usize;
        let racks = layout.uplinks.map_or(0, |uplinks| uplinks.leaves as usize);
        Self {
            classes: Vec::new(),
            out_of_host: vec![0.0; hosts],
            into_host: vec![0.0; hosts],
            out_of_rack: vec![0.0; racks],
            into_rack: vec![0.0; racks],
        }
    }

    /// A further class of random traffic.
    pub(crate) fn begin(&mut self, class: &str) {
        self.classes.push(class.to_owned());
    }

    /// Adds `bits` per second in total. They leave `hosts` evenly, and each host receives its share of `received`; racks
    /// are those that bits leave or enter, with the share that does so from or to one of their hosts.
    pub(crate) fn add(
        &mut self,
        hosts: &[u32],
        received: &[f64],
        racks: impl Iterator<Item = (u32, f64, f64)>,
        bits: f64,
    ) {
        for (&host, received) in hosts.iter().zip(received) {
            self.out_of_host[host as usize] += bits / hosts.len() as f64;
            self.into_host[host as usize] += bits * received;
        }
        if self.out_of_rack.is_empty() {
            return;
        }
        for (rack, out, back) in racks {
            self.out_of_rack[rack as usize] += bits * out;
            self.into_rack[rack as usize] += bits * back;
        }
    }

    /// Adds a total of `bits` per second from these hosts to those, spread evenly.
    pub(crate) fn add_between(&mut self, from: &[u32], to: &[u32], bits: f64, layout: &Layout) {
        for &host in from {
            self.out_of_host[host as usize] += bits / from.len() as f64;
        }
        for &host in to {
            self.into_host[host as usize] += bits / to.len() as f64;
        }
        let (Some(_), Some(racks)) = (layout.uplinks, layout.racks.as_deref()) else { return };
        let per_rack = |hosts: &[u32]| {
            let mut shares = vec![0.0; self.out_of_rack.len()];
            for &host in hosts {
                shares[racks[host as usize] as usize] += 1.0 / hosts.len() as f64;
            }
            shares
        };
        for (rack, (out, back)) in per_rack(from).into_iter().zip(per_rack(to)).enumerate() {
            self.out_of_rack[rack] += bits * out * (1.0 - back);
            self.into_rack[rack] += bits * back * (1.0 - out);
        }
    }

    /// One sentence for each kind of link that is offered more than it carries.
    pub(crate) fn warnings(&self, layout: &Layout) -> Vec<String> {
        let mut warnings = Vec::new();
        let classes = self.classes.iter().map(|class| format!("traffic.{class}")).collect::<Vec<_>>().join(" and ");
        let mut warn = |load: Option<(usize, f64)>, link: &dyn Fn(usize) -> String| {
            if let Some((index, load)) = load.filter(|&(_, load)| load > 1.0) {
                warnings.push(format!(
                    "{classes}: {} offered {load:.2} times the capacity (payload and headers, on average): queues keep growing",
                    link(index)
                ));
            }
        };
        let host = |index: usize| layout.node_name(Node::Host(index as u32));
        let rate = |host: usize| layout.up_rate(host as u32).0 as f64;
        warn(worst(&self.out_of_host, rate), &|index| format!("the link from {} is", host(index)));
        let rate = |host: usize| layout.down_rate(host as u32).0 as f64;
        warn(worst(&self.into_host, rate), &|index| format!("the link to {} is", host(index)));
        if let Some(uplinks) = layout.uplinks {
            let rate = |_| f64::from(uplinks.count) * uplinks.rate.0 as f64;
            warn(worst(&self.out_of_rack, rate), &|index| format!("the uplinks of leaf {index} are"));
            warn(worst(&self.into_rack, rate), &|index| format!("the links from the spines to leaf {index} are"));
        }
        warnings
    }
}

/// The place with the greatest load and this load; the first of equals.
fn worst(offered: &[f64], rate: impl Fn(usize) -> f64) -> Option<(usize, f64)> {
    let loads = offered.iter().enumerate().map(|(index, bits)| (index, bits / rate(index)));
    loads.fold(None, |worst, (index, load)| match worst {
        // Sums in another order differ in their last bits; such loads are equal.
        Some((_, most)) if load <= most * (1.0 + 1e-9) => worst,
        _ => Some((index, load)),
    })
}
