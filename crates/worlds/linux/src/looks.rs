//! Looks at the queues of ports while a run goes on: the kernel does not tell of each change.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration as Wall, Instant};

use incast_plan::Plan;
use incast_protocols::{Bytes, Duration, Time};
use incast_record::{QueueSample, QueueStatistics};

use crate::namespace::Failure;
use crate::network::Network;
use crate::queues::{Asking, PortCounts};

/// From the end of a look to the next one.
const PAUSE: Wall = Wall::from_millis(1);

/// What was seen of all ports that were looked at.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    /// Of the ports whose series is recorded, what differed from the sample before.
    pub(crate) samples: Vec<QueueSample>,
    /// By link.
    pub(crate) ports: BTreeMap<u32, Port>,
}

/// What all looks at one port have found.
#[derive(Debug, Default)]
pub(crate) struct Port {
    pub(crate) max_waiting: u32,
    /// If they are recorded, and a packet has come. What it needs to know of each packet is left out.
    pub(crate) statistics: Option<QueueStatistics>,
    last: Option<PortCounts>,
    /// When the last change was seen, or that nothing had come yet.
    since: Time,
}

impl Port {
    /// Takes what was found; whether the queue is another than at the last look.
    fn see(&mut self, time: Time, counts: &PortCounts, statistics: bool) -> bool {
        self.max_waiting = self.max_waiting.max(counts.waiting_packets);
        let Some(last) = self.last.replace(*counts) else {
            self.since = time;
            return true;
        };
        if last != *counts && statistics {
            let found = self.statistics.get_or_insert_default();
            let span = time.0 - self.since.0;
            let at = last.waiting_packets as usize;
            if at >= found.time_at.len() {
                found.time_at.resize(at + 1, 0);
            }
            found.time_at[at] += span;
            found.byte_time += u128::from(last.waiting_bytes) * u128::from(span);
            found.observed = Duration(found.observed.0 + span);
        }
        if last != *counts || self.statistics.is_none() {
            self.since = time;
        }
        (last.waiting_packets, last.waiting_bytes) != (counts.waiting_packets, counts.waiting_bytes)
    }
}

/// Whether anything is recorded for which queues have to be looked at.
pub(crate) const fn wanted(plan: &Plan) -> bool {
    plan.record.queue_statistics || !plan.record.queue_series.is_empty()
}

/// Looks at the ports until the run has ended: at all for statistics, else at those whose series is recorded. `links` has
/// link, switch and device of each.
pub(crate) fn look(
    plan: &Plan,
    network: &Network,
    links: &[(u32, u32, i32)],
    began: Instant,
    ended: &AtomicBool,
) -> Result<Looked, Failure> {
    let statistics = plan.record.queue_statistics;
    let in_series = |link| plan.record.queue_series.contains(&link);
    let chosen: Vec<_> = links
        .iter()
        .filter(|(link, ..)| statistics || in_series(*link))
        .map(|each| (*each, in_series(each.0)))
        .collect();
    let mut asking: Vec<(u32, Asking)> = Vec::new();
    for ((_, switch, _), _) in &chosen {
        if !asking.iter().any(|(known, _)| known == switch) {
            asking.push((*switch, Asking::open(network.switch(*switch))?));
        }
    }
    let mut ports: Vec<Port> = chosen.iter().map(|_| Port::default()).collect();
    let mut samples = Vec::new();
    while !ended.load(Ordering::Relaxed) {
        for (switch, asking) in &mut asking {
            let told = asking.ports()?;
            let time = Time(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX) * 1000);
            for (&((link, of, index), in_series), port) in chosen.iter().zip(&mut ports) {
                let Some(counts) = told.iter().find(|counts| of == *switch && counts.index == index) else { continue };
                if port.see(time, counts, statistics) && in_series {
                    samples.push(QueueSample {
                        time,
                        link,
                        waiting_packets: counts.waiting_packets,
                        waiting_bytes: Bytes(counts.waiting_bytes.into()),
                    });
                }
            }
        }
        thread::sleep(PAUSE);
    }
    let ports = chosen.iter().map(|((link, ..), _)| *link).zip(ports).collect();
    Ok(Looked { samples, ports })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(packets: u64, waiting_packets: u32) -> PortCounts {
        PortCounts { packets, waiting_packets, waiting_bytes: 1514 * waiting_packets, ..PortCounts::default() }
    }

    #[test]
    fn statistics_are_of_the_time_from_the_first_change_to_the_last() {
        let mut port = Port::default();
        let looks = [(0, 0, 0), (10, 0, 0), (20, 0, 2), (30, 1, 1), (40, 1, 1), (50, 2, 0), (60, 2, 0), (70, 2, 0)];
        let others: Vec<bool> = looks
            .iter()
            .map(|&(time, packets, waiting)| port.see(Time(time), &counts(packets, waiting), true))
            .collect();
        assert_eq!(others, [true, false, true, true, false, true, false, false]);
        assert_eq!(port.max_waiting, 2);
        let statistics = port.statistics.unwrap();
        // What came between 10 and 20 found nothing, as far as was seen; what is behind 50 is behind the last departure.
        assert_eq!(statistics.time_at, [10, 20, 10]);
        assert_eq!((statistics.observed, statistics.byte_time), (Duration(40), (2 + 1 + 1) * 10 * 1514));
        assert!(statistics.found_at_enqueue.is_empty() && statistics.changes_to.is_empty());
    }

    #[test]
    fn packets_that_no_look_has_seen_waiting_are_time_with_an_empty_queue() {
        let mut port = Port::default();
        for (time, packets) in [(0, 0), (10, 1), (20, 1), (30, 5)] {
            port.see(Time(time), &counts(packets, 0), true);
        }
        assert_eq!(port.statistics.unwrap().time_at, [30]);
    }

    #[test]
    fn without_packets_or_the_wish_there_are_no_statistics() {
        let mut port = Port::default();
        port.see(Time(0), &counts(7, 0), true);
        port.see(Time(10), &counts(7, 0), true);
        assert_eq!(port.statistics, None);
        port.see(Time(20), &counts(8, 3), false);
        assert_eq!((port.statistics, port.max_waiting), (None, 3));
    }
}
