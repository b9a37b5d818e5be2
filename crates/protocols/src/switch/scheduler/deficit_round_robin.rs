//! Queues take turns, each with as many bytes (Shreedhar and Varghese, SIGCOMM 1995).
//!
//! On its turn a queue may send `quantum` bytes, and what it could not use because its next packet is larger is kept for
//! its next turn. A queue that runs empty keeps nothing. So every queue that always has packets gets the same share of the
//! link, whatever their size.

use super::{Heads, MOST_QUEUES, Scheduler, SchedulerContext};
use crate::registry::Part;
use crate::units::Bytes;

/// How many queues, and how long a turn is.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Queues per port, for priorities 0 (that of traffic without one) to `queues - 1`; none is above another.
    #[schemars(range(min = 2, max = 8))]
    pub queues: u32,
    /// Bytes on the wire that a queue may send on its turn: at least one packet, so that each turn sends one.
    pub quantum: Bytes,
}

impl Default for Config {
    fn default() -> Self {
        Self { queues: 2, quantum: Bytes(1500) }
    }
}

/// Deficit round robin.
#[derive(Clone, Debug)]
pub struct DeficitRoundRobin {
    queues: usize,
    quantum: u64,
    /// Whose turn it is.
    turn: usize,
    /// Bytes that each queue may still send.
    deficit: [u64; MOST_QUEUES as usize],
}

impl DeficitRoundRobin {
    /// Empty queues.
    #[must_use]
    pub fn new(config: &Config, _context: &SchedulerContext) -> Self {
        Self {
            queues: config.queues.clamp(1, MOST_QUEUES) as usize,
            quantum: config.quantum.0.max(1),
            turn: 0,
            deficit: [0; MOST_QUEUES as usize],
        }
    }
}

impl Scheduler for DeficitRoundRobin {
    fn queues(&self) -> u32 {
        self.queues as u32
    }

    fn next(&mut self, heads: &Heads) -> usize {
        if heads.iter().all(Option::is_none) {
            return 0;
        }
        loop {
            let turn = self.turn;
            match heads[turn] {
                Some(Bytes(bytes)) if bytes <= self.deficit[turn] => {
                    self.deficit[turn] -= bytes;
                    return turn;
                }
                Some(_) => {}
                None => self.deficit[turn] = 0,
            }
            self.turn = (turn + 1) % self.queues;
            if heads[self.turn].is_some() {
                self.deficit[self.turn] = self.deficit[self.turn].saturating_add(self.quantum);
            }
        }
    }
}

impl Part for DeficitRoundRobin {
    type Config = Config;
    const SUMMARY: &'static str = "queues take turns, each with as many bytes";
    const SOURCE: &'static str = "Shreedhar and Varghese, SIGCOMM 1995";
    const DEVIATIONS: &'static [&'static str] = &[
        "Queues are classes of traffic, not flows.",
        "Limits and thresholds hold for each queue of a port; the thresholds of a shared memory for the port as a whole.",
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that each of three queues sends of 3 MB, their packets being of these sizes; a queue of zero is empty.
    fn shares(sizes: [u64; 3], quantum: u64) -> [u64; 3] {
        let config = Config { queues: 3, quantum: Bytes(quantum) };
        let mut scheduler = DeficitRoundRobin::new(&config, &SchedulerContext {});
        let mut heads = Heads::default();
        for (head, size) in heads.iter_mut().zip(sizes) {
            *head = (size > 0).then_some(Bytes(size));
        }
        let mut sent = [0; 3];
        while sent.iter().sum::<u64>() < 3_000_000 {
            let queue = scheduler.next(&heads);
            sent[queue] += sizes[queue];
        }
        sent
    }

    /// The fairness of section 3: what two queues with packets have sent differs by less than a quantum and a packet.
    #[test]
    fn queues_share_a_link_whatever_the_size_of_their_packets() {
        for quantum in [500, 1500, 9000] {
            for sizes in [[1500, 64, 9000], [1500, 1500, 1500], [64, 65, 66]] {
                let sent = shares(sizes, quantum);
                let spread = sent.iter().max().unwrap() - sent.iter().min().unwrap();
                assert!(spread <= quantum + 2 * 9000, "{sizes:?} {quantum}: {sent:?}");
            }
            let [first, second, third] = shares([1500, 0, 300], quantum);
            assert!(second == 0 && first.abs_diff(third) <= quantum + 2 * 1500, "{first} {third}");
        }
    }

    /// Queue 1 sends one of the six packets of its turn. If it runs empty then, the other five are lost to it; else they
    /// come next.
    #[test]
    fn a_queue_that_ran_empty_has_saved_nothing() {
        let heads = |first: bool, second: bool| {
            let mut heads = Heads::default();
            (heads[0], heads[1]) = (first.then_some(Bytes(1500)), second.then_some(Bytes(1500)));
            heads
        };
        for (ran_empty, expected) in [(false, [1, 1, 1, 1, 1, 0]), (true, [0, 0, 0, 0, 0, 1])] {
            let config = Config { queues: 2, quantum: Bytes(9000) };
            let mut scheduler = DeficitRoundRobin::new(&config, &SchedulerContext {});
            assert_eq!(scheduler.next(&heads(false, true)), 1);
            if ran_empty {
                assert_eq!(scheduler.next(&heads(true, false)), 0);
            }
            assert_eq!([(); 6].map(|()| scheduler.next(&heads(true, true))), expected);
        }
    }
}
