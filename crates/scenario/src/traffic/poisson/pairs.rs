//! Who sends to whom when chance decides.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::random::Stream;

/// Which pairs of hosts exchange messages. The source is drawn uniformly, then the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Pairs")]
pub(crate) enum PairsSpec {
    /// Any two different hosts.
    Any,
    /// Two hosts of different racks, or of different sides of a dumbbell.
    OtherRack,
}

/// Draws pairs of different hosts.
#[derive(Clone, Debug)]
pub(crate) struct Pairs {
    /// Hosts that take part, in order.
    hosts: Vec<u32>,
    /// For each, the range of positions that it never sends to.
    excluded: Vec<(u32, u32)>,
    /// For each, its rack and how many of the hosts are in it.
    racks: Vec<(u32, u32)>,
}

impl Pairs {
    /// `racks` holds the rack of every host of the network, never falling. `None` if there is a host that could send
    /// to nobody.
    pub(crate) fn new(mut hosts: Vec<u32>, wish: PairsSpec, racks: Option<&[u32]>) -> Option<Self> {
        hosts.sort_unstable();
        let rack = |host: u32| racks.map_or(0, |racks| racks[host as usize]);
        let (mut excluded, mut sizes) = (Vec::with_capacity(hosts.len()), Vec::with_capacity(hosts.len()));
        for (position, &host) in (0_u32..).zip(&hosts) {
            let first = hosts.partition_point(|&other| rack(other) < rack(host)) as u32;
            let end = hosts.partition_point(|&other| rack(other) <= rack(host)) as u32;
            sizes.push((rack(host), end - first));
            excluded.push(match wish {
                PairsSpec::Any => (position, position + 1),
                PairsSpec::OtherRack => (first, end),
            });
        }
        let count = hosts.len() as u32;
        let possible = excluded.iter().all(|&(first, end)| end - first < count);
        possible.then_some(Self { hosts, excluded, racks: sizes })
    }

    pub(crate) fn hosts(&self) -> &[u32] {
        &self.hosts
    }

    /// Source and destination.
    pub(crate) fn draw(&self, stream: &mut Stream) -> (u32, u32) {
        let source = stream.below(self.hosts.len() as u64) as usize;
        let (first, end) = self.excluded[source];
        let others = self.hosts.len() as u64 - u64::from(end - first);
        let position = stream.below(others) as u32;
        let destination = if position < first { position } else { position + (end - first) };
        (self.hosts[source], self.hosts[destination as usize])
    }

    /// The destination of messages from this many different sources, which replace those in `senders`.
    ///
    /// The first pair is drawn as a pair, further sources among those that may send to its destination.
    pub(crate) fn draw_group(&self, stream: &mut Stream, fan_in: u32, senders: &mut Vec<u32>) -> u32 {
        let (source, destination) = self.draw(stream);
        senders.clear();
        senders.push(source);
        // Who excludes whom is mutual.
        let (first, end) = self.excluded[self.hosts.partition_point(|&host| host < destination)];
        let others = self.hosts.len() as u64 - u64::from(end - first);
        let mut taken = BTreeSet::from([source]);
        while senders.len() < fan_in as usize {
            let position = stream.below(others) as u32;
            let source = self.hosts[if position < first { position } else { position + (end - first) } as usize];
            if taken.insert(source) {
                senders.push(source);
            }
        }
        destination
    }

    /// How many hosts may send to the one to which fewest may.
    pub(crate) fn fewest_senders(&self) -> u32 {
        let most = self.excluded.iter().map(|&(first, end)| end - first).max().unwrap_or(0);
        self.hosts.len() as u32 - most
    }

    /// For each host, the probability that a message goes from it to any one host that it may send to.
    pub(crate) fn chances(&self) -> impl Iterator<Item = f64> + '_ {
        let count = self.hosts.len() as f64;
        self.excluded.iter().map(move |&(first, end)| 1.0 / count / (count - f64::from(end - first)))
    }

    /// Probability that a message goes to each host (in the order of [`Self::hosts`]).
    pub(crate) fn received(&self) -> Vec<f64> {
        let count = self.hosts.len();
        // What sources that exclude a range do not spread over it, they spread over the rest.
        let each = |&(first, end): &(u32, u32)| 1.0 / count as f64 / (count as f64 - f64::from(end - first));
        let all: f64 = self.excluded.iter().map(each).sum();
        let mut change = vec![0.0; count + 1];
        for range in &self.excluded {
            change[range.0 as usize] += each(range);
            change[range.1 as usize] -= each(range);
        }
        let mut without = 0.0;
        change[..count]
            .iter()
            .map(|change| {
                without += change;
                all - without
            })
            .collect()
    }

    /// Probability that the source at this position sends to another rack.
    fn leaves_rack(&self, position: usize) -> f64 {
        let count = self.hosts.len() as f64;
        let (first, end) = self.excluded[position];
        ((count - f64::from(self.racks[position].1)) / (count - f64::from(end - first))).min(1.0)
    }

    /// Probability that a message leaves its rack.
    pub(crate) fn crossing(&self) -> f64 {
        (0..self.hosts.len()).map(|position| self.leaves_rack(position)).sum::<f64>() / self.hosts.len() as f64
    }

    /// Per host: its rack, and the probabilities that a message leaves this rack from it and enters it to it.
    pub(crate) fn by_rack(&self) -> impl Iterator<Item = (u32, f64, f64)> + '_ {
        let count = self.hosts.len() as f64;
        let received = self.received();
        (0..self.hosts.len()).map(move |position| {
            let (rack, size) = self.racks[position];
            let out = self.leaves_rack(position) / count;
            let (first, end) = self.excluded[position];
            let inside = (f64::from(size) - f64::from(end - first)).max(0.0);
            // Of what this host receives, the part from its own rack: each neighbour excludes as many.
            let local = inside / count / (count - f64::from(end - first));
            (rack, out, received[position] - local)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const RACKS: [u32; 6] = [0, 0, 0, 1, 1, 2];

    fn drawn(pairs: &Pairs, n: u32) -> BTreeMap<(u32, u32), f64> {
        let mut stream = Stream::new(5, "pairs");
        let mut seen = BTreeMap::new();
        for _ in 0..n {
            *seen.entry(pairs.draw(&mut stream)).or_insert(0.0) += 1.0 / f64::from(n);
        }
        seen
    }

    #[test]
    fn any_two_different_hosts_are_equally_likely() {
        let pairs = Pairs::new(vec![3, 1, 0, 5], PairsSpec::Any, Some(&RACKS)).unwrap();
        let seen = drawn(&pairs, 60_000);
        assert_eq!(seen.len(), 12);
        assert!(seen.iter().all(|((from, to), share)| from != to && (share * 12.0 - 1.0).abs() < 0.1), "{seen:?}");
    }

    #[test]
    fn a_message_to_another_rack_never_stays() {
        let pairs = Pairs::new((0..6).collect(), PairsSpec::OtherRack, Some(&RACKS)).unwrap();
        let seen = drawn(&pairs, 60_000);
        assert!(seen.keys().all(|&(from, to)| RACKS[from as usize] != RACKS[to as usize]));
        assert_eq!(seen.len(), 2 * (3 * 2 + 3 + 2));
        assert!((pairs.crossing() - 1.0).abs() < 1e-12);
        assert!(Pairs::new(vec![0, 1], PairsSpec::OtherRack, Some(&RACKS)).is_none());
    }

    /// All groups of two out of three possible senders are equally likely, and no host sends twice.
    #[test]
    fn senders_of_a_group_differ_and_are_drawn_evenly() {
        let pairs = Pairs::new((0..6).collect(), PairsSpec::OtherRack, Some(&RACKS)).unwrap();
        assert_eq!(pairs.fewest_senders(), 3);
        let (mut stream, mut senders, mut seen) = (Stream::new(5, "pairs"), vec![9], BTreeMap::new());
        for _ in 0..60_000 {
            let to = pairs.draw_group(&mut stream, 2, &mut senders);
            assert!(senders.len() == 2 && senders[0] != senders[1]);
            assert!(senders.iter().all(|&from| RACKS[from as usize] != RACKS[to as usize]));
            senders.sort_unstable();
            *seen.entry((to, senders.clone())).or_insert(0_u32) += 1;
        }
        // Three, three and three pairs for hosts 0 to 2, six each for 3 and 4, ten for 5.
        assert_eq!(seen.len(), 9 + 12 + 10);
        let to = |host: u32| seen.iter().filter(move |((to, _), _)| *to == host).map(|(_, count)| f64::from(*count));
        for host in 0..6 {
            let mean = to(host).sum::<f64>() / to(host).count() as f64;
            assert!(
                to(host).all(|count| (count / mean - 1.0).abs() < 0.15),
                "{host}: {:?}",
                to(host).collect::<Vec<_>>()
            );
        }
        let mut every = Vec::new();
        pairs.draw_group(&mut stream, 3, &mut every);
        every.sort_unstable();
        every.dedup();
        assert_eq!(every.len(), 3);
    }

    /// The closed forms behind loads and warnings, against what is drawn.
    #[test]
    fn expected_shares_are_those_drawn() {
        for wish in [PairsSpec::Any, PairsSpec::OtherRack] {
            let pairs = Pairs::new((0..6).collect(), wish, Some(&RACKS)).unwrap();
            let seen = drawn(&pairs, 200_000);
            let share = |of: &dyn Fn(u32, u32) -> bool| {
                seen.iter().filter(|((from, to), _)| of(*from, *to)).map(|(_, share)| share).sum::<f64>()
            };
            let rack = |host: u32| RACKS[host as usize];
            assert!((share(&|from, to| rack(from) != rack(to)) - pairs.crossing()).abs() < 0.005);
            for (host, expected) in (0..6).zip(pairs.received()) {
                assert!((share(&|_, to| to == host) - expected).abs() < 0.005, "{wish:?} {host}");
            }
            for (host, (_, out, back)) in (0..6).zip(pairs.by_rack()) {
                assert!((share(&|from, to| from == host && rack(to) != rack(host)) - out).abs() < 0.005);
                assert!((share(&|from, to| to == host && rack(from) != rack(host)) - back).abs() < 0.005);
            }
        }
    }
}
