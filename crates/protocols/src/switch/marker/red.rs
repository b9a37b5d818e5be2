//! Random Early Detection (Floyd and Jacobson, IEEE/ACM Transactions on Networking 1(4), 1993).
//!
//! The port keeps an exponentially weighted average of its queue. Below `min` nothing happens; from `max` on every packet
//! is marked; between them a packet is marked with a probability that grows with the average and with the number of
//! packets since the last mark, so that marks are spread evenly. Short bursts pass, lasting queues are answered.

use alloc::boxed::Box;
use alloc::format;

use super::{Marker, MarkerContext};
use crate::random::Stream;
use crate::registry::{Capability, Conflict, Part};
use crate::switch::{Marks, PacketView, QueueState};
use crate::units::{Amount, Bytes, Rate, Time};

/// RED's parameters; the defaults are those of the paper's simulations.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Average queue from which on packets may be marked, in packets of any size or in bytes on the wire.
    pub min: Amount,
    /// Average queue from which on every packet is marked, in the unit of `min`.
    pub max: Amount,
    /// Probability of a mark just below `max` (`max_p`), before marks are spread.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub probability: f64,
    /// Weight of a packet in the average (`w_q`).
    #[schemars(range(min = 0.0, max = 1.0))]
    pub weight: f64,
    /// Beyond `max` the probability grows to 1 at twice `max` instead of jumping there (Floyd's "gentle" RED, 2000).
    pub gentle: bool,
    /// Whether ECN-capable packets are marked instead of dropped; others are always dropped.
    pub ecn: bool,
    /// Where every packet is marked: drop it instead, ECN-capable or not.
    pub hard_drop: bool,
    /// Size of a typical packet: the average of an idle port decays once per such packet that it could have sent.
    pub typical_packet: Bytes,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            min: Amount::Packets(5),
            max: Amount::Packets(15),
            probability: 0.02,
            weight: 0.002,
            gentle: false,
            ecn: true,
            hard_drop: false,
            typical_packet: Bytes(1500),
        }
    }
}

/// What is done to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Pass,
    /// Marked if it can be, else dropped.
    Notify,
    Drop,
}

/// Marks or drops by the average queue.
#[derive(Clone, Debug)]
pub struct Red {
    state: Box<State>,
}

#[derive(Clone, Debug)]
struct State {
    min: f64,
    max: f64,
    config: Config,
    /// Transmission time of a typical packet in picoseconds.
    typical_ps: u64,
    rate: Rate,
    random: Stream,
    average: f64,
    /// Packets since the last mark, or nothing while the average is below `min`.
    since_mark: Option<u32>,
    /// Where nothing waits behind the packet in transmission: when that ends. Until then the port is busy.
    idle_from: Option<Time>,
    /// Whether the packet that is being taken in is to be marked.
    marks_next: bool,
}

fn number(amount: Amount) -> f64 {
    match amount {
        Amount::Packets(packets) => f64::from(packets),
        Amount::Bytes(Bytes(bytes)) => bytes as f64,
    }
}

impl Red {
    /// RED with an empty queue.
    #[must_use]
    pub fn new(config: &Config, context: &MarkerContext) -> Self {
        let state = State {
            min: number(config.min),
            max: number(config.max),
            config: Config {
                probability: config.probability.clamp(0.0, 1.0),
                weight: config.weight.clamp(0.0, 1.0),
                ..config.clone()
            },
            typical_ps: context.rate.time_for(config.typical_packet).0.max(1),
            rate: context.rate,
            random: context.random,
            average: 0.0,
            since_mark: None,
            idle_from: Some(Time(0)),
            marks_next: false,
        };
        Self { state: Box::new(state) }
    }

    /// The average queue, in the unit of the thresholds.
    #[must_use]
    pub const fn average(&self) -> f64 {
        self.state.average
    }
}

impl State {
    /// Section 4 of the paper: the average with the queue that a packet finds.
    fn update(&mut self, queue: &QueueState) {
        match self.idle_from {
            Some(since) if queue.waiting_packets == 0 && queue.now >= since => {
                // As if as many packets had found the queue empty as could have been sent meanwhile.
                let packets = (queue.now.0 - since.0) / self.typical_ps;
                self.average *= libm::pow(1.0 - self.config.weight, packets as f64);
            }
            _ => {
                let found = match self.config.min {
                    Amount::Packets(_) => f64::from(queue.waiting_packets),
                    Amount::Bytes(_) => queue.waiting_bytes.0 as f64,
                };
                self.average += self.config.weight * (found - self.average);
            }
        }
    }

    /// The probability of a mark before marks are spread (`p_b`), where the average is at least `min`.
    fn base_probability(&self) -> f64 {
        if self.average < self.max {
            self.config.probability * (self.average - self.min) / (self.max - self.min)
        } else if self.config.gentle && self.average < 2.0 * self.max {
            self.config.probability + (1.0 - self.config.probability) * (self.average - self.max) / self.max
        } else {
            1.0
        }
    }

    fn answer(&mut self, queue: &QueueState) -> Answer {
        self.update(queue);
        if self.average < self.min {
            self.since_mark = None;
            return Answer::Pass;
        }
        let base = self.base_probability();
        if base >= 1.0 {
            self.since_mark = Some(0);
            return if self.config.hard_drop { Answer::Drop } else { Answer::Notify };
        }
        // `count` of the paper begins at -1 and is raised before it is used.
        let count = self.since_mark.map_or(0, |count| count.saturating_add(1));
        let rest = 1.0 - f64::from(count) * base;
        if rest <= base || self.random.chance(base / rest) {
            self.since_mark = Some(0);
            Answer::Notify
        } else {
            self.since_mark = Some(count);
            Answer::Pass
        }
    }
}

impl Marker for Red {
    fn drops(&mut self, queue: &QueueState, packet: &PacketView) -> bool {
        let state = &mut self.state;
        let answer = state.answer(queue);
        state.marks_next = answer == Answer::Notify && state.config.ecn && packet.ecn_capable;
        answer != Answer::Pass && !state.marks_next
    }

    fn on_enqueue(&mut self, _queue: &QueueState, _packet: &PacketView) -> Marks {
        if core::mem::take(&mut self.state.marks_next) { Marks::CE } else { Marks::NONE }
    }

    fn on_dequeue(&mut self, queue: &QueueState, packet: &PacketView) -> Marks {
        let ends = queue.now.0.saturating_add(self.state.rate.time_for(packet.bytes).0);
        self.state.idle_from = (queue.waiting_packets == 0).then_some(Time(ends));
        Marks::NONE
    }
}

impl Part for Red {
    type Config = Config;
    const SUMMARY: &'static str =
        "random early detection: marks or drops at random, the more often the longer the average queue";
    const SOURCE: &'static str =
        "Floyd and Jacobson, IEEE/ACM Transactions on Networking 1(4), 1993; RFC 3168 section 5 for ECN";
    const PROVIDES: &'static [Capability] = &[Capability::CongestionMarks];
    const DEVIATIONS: &'static [&'static str] = &[
        "The queue is what waits; the packet in transmission does not count.",
        "The probability does not depend on the packet's size (the paper's variant in packets, ns-3's without byte mode).",
    ];

    fn check(config: &Config) -> Result<(), Conflict> {
        let text = |amount: Amount| match amount {
            Amount::Packets(packets) => format!("{packets}packets"),
            Amount::Bytes(Bytes(bytes)) => format!("{bytes}B"),
        };
        let (min, max) = (text(config.min), text(config.max));
        let in_order = match (config.min, config.max) {
            (Amount::Packets(low), Amount::Packets(high)) => low < high,
            (Amount::Bytes(low), Amount::Bytes(high)) => low < high,
            _ => {
                let message = format!("max ({max}) and min ({min}) must be given in the same unit");
                return Err(Conflict::at("max", message));
            }
        };
        if in_order { Ok(()) } else { Err(Conflict::at("max", format!("max ({max}) must be above min ({min})"))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const RATE: Rate = Rate(10_000_000_000);
    /// 1500 bytes at 10 Gbit/s.
    const PACKET_PS: u64 = 1_200_000;

    fn red(change: impl Fn(&mut Config)) -> Red {
        let mut config = Config::default();
        change(&mut config);
        Red::new(&config, &MarkerContext::alone(RATE))
    }

    fn found(now: u64, packets: u32) -> QueueState {
        QueueState {
            now: Time(now),
            waiting_packets: packets,
            waiting_bytes: Bytes(u64::from(packets) * 1500),
            in_service: Bytes(1500),
            rate: RATE,
        }
    }

    fn packet(ecn_capable: bool) -> PacketView {
        PacketView { bytes: Bytes(1500), ecn_capable, ..PacketView::default() }
    }

    /// Whether an ECN-capable packet is marked that finds this many packets waiting.
    fn marks(red: &mut Red, packets: u32) -> bool {
        !red.drops(&found(0, packets), &packet(true)) && red.on_enqueue(&found(0, packets), &packet(true)).ce
    }

    /// Section 6 of the paper, equation 2: a queue that grows from 0 to L packets over L arrivals has the average
    /// `L + 1 + ((1 - w)^(L + 1) - 1) / w`: 4.88 for w = 0.001 and L = 100, and for L = 50 it stays at the
    /// threshold of 5 packets up to w = 0.0042.
    #[test]
    fn the_average_of_a_growing_queue_is_the_papers() {
        for (weight, most, expected) in [(0.001, 100, 4.88), (0.002, 50, 2.47), (0.0042, 50, 5.0)] {
            let mut red = red(|config| config.weight = weight);
            for packets in 1..=most {
                marks(&mut red, packets);
            }
            let length = f64::from(most);
            let closed = length + 1.0 + (libm::pow(1.0 - weight, length + 1.0) - 1.0) / weight;
            let average = red.average();
            assert!((average - closed).abs() < 1e-9 && (average - expected).abs() < 0.01, "{average}");
        }
    }

    /// Section 7 of the paper, method 2: with a constant average and `p_b` = 0.02 the packets from one mark to the next are
    /// uniform on 1 to 49, where marks drawn independently would be 50 apart in the mean and clustered.
    #[test]
    fn marks_are_spread_evenly() {
        let mut red = red(|config| {
            (config.weight, config.probability) = (1.0, 0.2);
            (config.min, config.max) = (Amount::Packets(0), Amount::Packets(1000));
        });
        let at: Vec<usize> = (0..300_000).filter(|_| marks(&mut red, 100)).collect();
        let gaps: Vec<usize> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<usize>() as f64 / gaps.len() as f64;
        assert!((mean - 25.0).abs() < 0.6, "{mean}");
        assert_eq!((gaps.iter().min(), gaps.iter().max()), (Some(&1), Some(&49)));
        for seventh in 0..7 {
            let within = gaps.iter().filter(|&&gap| (gap - 1) / 7 == seventh).count() as f64 / gaps.len() as f64;
            assert!((within - 1.0 / 7.0).abs() < 0.02, "{seventh}: {within}");
        }
    }

    /// Below `min` nothing is marked, from `max` on everything; gentle RED reaches everything at twice `max`.
    #[test]
    fn thresholds_bound_the_random_part() {
        let marked = |packets, gentle| {
            let mut red = red(|config| (config.weight, config.gentle) = (1.0, gentle));
            (0..1000).filter(|_| marks(&mut red, packets)).count()
        };
        assert_eq!((marked(4, false), marked(15, false)), (0, 1000));
        assert_eq!((marked(4, true), marked(30, true)), (0, 1000));
        // The mean of uniform gaps up to 1 / p_b: p_b is 0.01 and 0.347.
        assert!((15..25).contains(&marked(10, false)), "{}", marked(10, false));
        assert!((600..750).contains(&marked(20, true)), "{}", marked(20, true));
    }

    /// What cannot be marked is dropped, and with hard drops everything is from `max` on.
    #[test]
    fn packets_are_marked_or_dropped() {
        let at_max = |ecn, hard_drop, ecn_capable| {
            let mut red = red(|config| (config.weight, config.ecn, config.hard_drop) = (1.0, ecn, hard_drop));
            let dropped = red.drops(&found(0, 20), &packet(ecn_capable));
            (dropped, red.on_enqueue(&found(0, 20), &packet(ecn_capable)).ce)
        };
        assert_eq!(at_max(true, false, true), (false, true));
        for (ecn, hard_drop, ecn_capable) in [(true, false, false), (false, false, true), (true, true, true)] {
            assert_eq!(at_max(ecn, hard_drop, ecn_capable), (true, false));
        }
    }

    /// A port that sends one packet after the other, none of which waits, is busy: each arrival finds an empty queue and
    /// the average decays by one sample, not by none.
    #[test]
    fn a_busy_port_without_a_queue_forgets_too() {
        let mut red = red(|config| config.weight = 0.1);
        for _ in 0..200 {
            marks(&mut red, 20);
        }
        let before = red.average();
        for arrival in 0..10 {
            let now = found(arrival * PACKET_PS, 0);
            red.on_dequeue(&now, &packet(true));
            red.drops(&QueueState { now: Time(now.now.0 + PACKET_PS - 1), ..now }, &packet(true));
        }
        let expected = before * libm::pow(0.9, 10.0);
        assert!((red.average() - expected).abs() < 1e-9, "{} {expected}", red.average());
    }

    /// Section 4 of the paper: an idle port's average decays by `(1 - w)^m`, as if m typical packets had found it empty.
    #[test]
    fn an_idle_port_forgets() {
        let mut red = red(|config| config.weight = 0.1);
        for _ in 0..200 {
            marks(&mut red, 10);
        }
        let before = red.average();
        assert!((before - 10.0).abs() < 0.01);
        // The last packet begins its transmission at 0; the port is idle from its end on.
        red.on_dequeue(&found(0, 0), &packet(true));
        red.drops(&found(11 * PACKET_PS, 0), &packet(true));
        assert!((red.average() - before * libm::pow(0.9, 10.0)).abs() < 1e-9, "{}", red.average());
    }

    #[test]
    fn thresholds_must_be_in_order_and_in_one_unit() {
        let check = |min, max| Red::check(&Config { min, max, ..Config::default() }).map_err(|refused| refused.message);
        assert_eq!(check(Amount::Packets(5), Amount::Packets(15)), Ok(()));
        assert_eq!(check(Amount::Bytes(Bytes(5)), Amount::Bytes(Bytes(6))), Ok(()));
        let refused = check(Amount::Packets(15), Amount::Packets(15)).unwrap_err();
        assert_eq!(refused, "max (15packets) must be above min (15packets)");
        let refused = check(Amount::Packets(5), Amount::Bytes(Bytes(9))).unwrap_err();
        assert_eq!(refused, "max (9B) and min (5packets) must be given in the same unit");
    }
}
