//! Pulser's incast detector: marks EIN while the queue grows too fast (Pulser, Algorithm 1).
//!
//! At every departure the port takes the gradient of its occupancy since the departure before. While the mean of the
//! last N gradients is above a share of the line rate, packets are marked; once marked, they go on being so while
//! the queue is above a high-water mark. A fast build-up is seen long before the queue reaches K, and a slow drift is
//! never. CE is set beside it, by a threshold of its own.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::ecn_threshold::{self, EcnThreshold};
use super::{Marker, MarkerContext};
use crate::registry::{Capability, Part};
use crate::switch::{Marks, PacketView, QueueState, Quiet};
use crate::units::{Amount, Bytes, Duration, Rate};

/// Bytes over picoseconds, times this, are kilobits per second.
const KBPS: i64 = 8_000_000_000;
/// The packet whose N transmissions are the longest idle time that history survives.
const MTU: Bytes = Bytes(1500);
const MOST_SAMPLES: u32 = 65_536;

/// Pulser's parameters at the switch.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// At which queue the marker also sets CE, the mark of congestion.
    pub ecn: ecn_threshold::Config,
    /// N, the number of gradients that are averaged.
    #[schemars(range(min = 1, max = 65536))]
    pub samples: u32,
    /// Growth beyond which it is incast, as a share of the line rate.
    #[schemars(range(min = 0.0, max = 1000.0))]
    pub growth: f64,
    /// The high-water mark as a multiple of ECN's threshold.
    #[schemars(range(min = 0.0, max = 1000.0))]
    pub high_water: f64,
    /// What counts before there were N departures.
    pub warm_up: WarmUp,
    /// What an idle port remembers.
    pub idle: Idle,
    /// Of what the mean is taken.
    pub average: Average,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            ecn: ecn_threshold::Config::default(),
            samples: 50,
            growth: 0.25,
            high_water: 1.0,
            warm_up: WarmUp::Zero,
            idle: Idle::Clear,
            average: Average::PacketTime,
        }
    }
}

/// What counts before there were N departures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WarmUp {
    /// Departures that have not been count as growth of zero.
    Zero,
    /// Nothing is marked before there were N.
    Full,
}

/// What an idle port remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Idle {
    /// Nothing, if it was idle for longer than N packets of 1500 bytes take.
    Clear,
    /// Everything, as the text has it: after a queue has drained, its fall hides the next rise.
    Keep,
}

/// Of what the mean is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Average {
    /// Of the gradients, as the text has it: a packet that comes while a short one departs weighs as much as many.
    PerSample,
    /// Of the growth since N departures ago over the time since then.
    Telescoped,
    /// Of the gradients, each over the time of a packet of 1500 bytes at least: short packets that leave one after the
    /// other do not multiply what came meanwhile.
    PacketTime,
}

/// A port's occupancy at one departure.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    at: u64,
    bytes: u64,
}

/// How much more bytes there are at `to` than at `from`.
#[inline]
const fn growth(from: Sample, to: Sample) -> i64 {
    const fn bounded(bytes: u64) -> i64 {
        if bytes > i64::MAX as u64 { i64::MAX } else { bytes.cast_signed() }
    }
    bounded(to.bytes) - bounded(from.bytes)
}

/// Growth by `bytes` within `span_ps`, in kilobits per second; bounded, so that sums are exact.
#[inline]
fn gradient_kbps(bytes: i64, span_ps: u64) -> i64 {
    const MOST: i64 = i64::MAX >> 20;
    (bytes.saturating_mul(KBPS) / i64::try_from(span_ps).unwrap_or(i64::MAX)).clamp(-MOST, MOST)
}

/// Marks EIN by gradients, and CE by a threshold.
#[derive(Clone, Debug)]
pub struct Ein {
    ecn: EcnThreshold,
    /// In a place of its own, so that ports without it stay small.
    detector: Box<Detector>,
}

#[derive(Clone, Debug)]
struct Detector {
    rate: Rate,
    warm_up: WarmUp,
    growth_kbps: i64,
    /// What the sum of all gradients is above while the mean is above the threshold.
    most_kbps: i64,
    packet_time: u64,
    /// What a gradient is over at least.
    shortest_span: u64,
    high_water: Amount,
    /// The last N gradients, where it is their mean that counts ...
    gradients_kbps: Vec<i64>,
    /// ... and else the occupancies from which on they were taken. One of the two is empty.
    ends: Vec<Sample>,
    samples: usize,
    next: usize,
    /// Whether all of them are samples, and not only those before `next`.
    full: bool,
    sum_kbps: i64,
    /// The occupancy when the transmission of the last packet began, the first of several that began at once.
    last: Option<Sample>,
    /// Bytes of the last packet.
    departed: Bytes,
    /// The longest idle time that history survives.
    longest_idle: Duration,
    marking: bool,
}

impl Ein {
    /// A marker as configured. Parameters out of range are brought into it.
    #[must_use]
    pub fn new(config: &Config, context: &MarkerContext) -> Self {
        let samples = config.samples.clamp(1, MOST_SAMPLES);
        let growth_kbps = (context.rate.0 as f64 / 1000.0 * config.growth + 0.5) as i64;
        let (gradients, ends) =
            if config.average == Average::Telescoped { (0, samples as usize) } else { (samples as usize, 0) };
        let packet_time = context.rate.time_for(MTU).0;
        let times = |amount: u64| (amount as f64 * config.high_water.max(0.0)) as u64;
        let detector = Detector {
            rate: context.rate,
            warm_up: config.warm_up,
            growth_kbps,
            most_kbps: growth_kbps.saturating_mul(i64::from(samples)),
            packet_time,
            shortest_span: if config.average == Average::PacketTime { packet_time } else { 0 },
            high_water: match config.ecn.threshold {
                Amount::Packets(packets) => {
                    Amount::Packets(u32::try_from(times(u64::from(packets))).unwrap_or(u32::MAX))
                }
                Amount::Bytes(Bytes(bytes)) => Amount::Bytes(Bytes(times(bytes))),
            },
            gradients_kbps: vec![0; gradients],
            ends: vec![Sample::default(); ends],
            samples: samples as usize,
            next: 0,
            full: false,
            sum_kbps: 0,
            last: None,
            departed: Bytes::ZERO,
            longest_idle: match config.idle {
                Idle::Clear => context.rate.time_for(MTU.times(u64::from(samples))),
                Idle::Keep => Duration(u64::MAX),
            },
            marking: false,
        };
        Self { ecn: EcnThreshold::new(&config.ecn, context), detector: Box::new(detector) }
    }
}

impl Detector {
    #[cold]
    fn clear(&mut self) {
        self.gradients_kbps.fill(0);
        self.ends.fill(Sample::default());
        self.next = 0;
        self.full = false;
        self.sum_kbps = 0;
    }

    /// Whether the port was idle for so long that it forgets, if the last transmission began `since` ago, which is more
    /// than the longest idle time.
    #[cold]
    fn was_idle(&self, since: u64) -> bool {
        since - self.longest_idle.0 > self.rate.time_for(self.departed).0
    }

    /// Takes in how the occupancy has changed between two departures, of which `sample` is the later.
    #[inline]
    fn take(&mut self, last: Sample, sample: Sample) {
        if let Some(slot) = self.gradients_kbps.get_mut(self.next) {
            // Most packets find the queue as the one before them did: then there is nothing to divide.
            let gradient_kbps = if sample.bytes == last.bytes {
                0
            } else {
                gradient_kbps(growth(last, sample), (sample.at - last.at).max(self.shortest_span))
            };
            self.sum_kbps += gradient_kbps - core::mem::replace(slot, gradient_kbps);
        } else {
            self.ends[self.next] = last;
        }
        self.next += 1;
        if self.next == self.samples {
            self.next = 0;
            self.full = true;
        }
    }

    /// Whether the mean growth is above the threshold: compared as sums, so that exactly the threshold is not.
    #[inline]
    fn grows(&self) -> bool {
        let above = if self.ends.is_empty() { self.sum_kbps > self.most_kbps } else { self.has_grown() };
        above && (self.full || (self.warm_up == WarmUp::Zero && self.next > 0))
    }

    /// The same of the growth since the oldest sample over the time since then.
    fn has_grown(&self) -> bool {
        let Some(last) = self.last else { return false };
        // While the ring is not full its first sample is the oldest.
        let (oldest, taken) = if self.full { (self.next, self.samples) } else { (0, self.next) };
        let oldest = self.ends[oldest];
        // Departures that have not been count as a packet's time without growth each.
        let missing = (self.samples - taken) as u64 * self.packet_time;
        let span = i128::from(last.at - oldest.at + missing);
        i128::from(growth(oldest, last)) * i128::from(KBPS) > i128::from(self.growth_kbps) * span
    }

    #[inline]
    fn is_above_high_water(&self, queue: &QueueState) -> bool {
        match self.high_water {
            Amount::Packets(packets) => queue.packets(true) > packets,
            Amount::Bytes(bytes) => queue.bytes(true) > bytes,
        }
    }

    /// Whether the packet whose transmission begins is marked.
    #[inline]
    fn on_dequeue(&mut self, queue: &QueueState, packet: &PacketView) -> bool {
        let sample = Sample { at: queue.now.0, bytes: queue.bytes(true).0 };
        match self.last {
            // Departures at the same instant add no sample.
            Some(last) if sample.at <= last.at => {}
            Some(last) => {
                let since = sample.at - last.at;
                // Only after a pause is it worth to know how long the last packet took.
                if since > self.longest_idle.0 && self.was_idle(since) {
                    self.clear();
                } else {
                    self.take(last, sample);
                }
                self.last = Some(sample);
            }
            None => self.last = Some(sample),
        }
        self.departed = packet.bytes;
        self.marking = self.grows() || (self.marking && self.is_above_high_water(queue));
        self.marking
    }
}

impl Marker for Ein {
    #[inline]
    fn on_enqueue(&mut self, queue: &QueueState, packet: &PacketView) -> Marks {
        self.ecn.on_enqueue(queue, packet)
    }

    #[inline]
    fn on_dequeue(&mut self, queue: &QueueState, packet: &PacketView) -> Marks {
        Marks { ein: self.detector.on_dequeue(queue, packet), ..self.ecn.on_dequeue(queue, packet) }
    }

    fn quiet(&self) -> Quiet {
        self.ecn.quiet()
    }
}

impl Part for Ein {
    type Config = Config;
    const SUMMARY: &'static str = "marks EIN while the queue grows too fast, and CE from a queue of K on";
    const SOURCE: &'static str = "Pulser, section III and Algorithm 1; RFC 8257 section 3.1";
    const PROVIDES: &'static [Capability] = &[Capability::CongestionMarks, Capability::IncastMarks];
    const DEVIATIONS: &'static [&'static str] = &[
        "The occupancy counts the departing packet, as in the authors' prototype.",
        "A port that was idle for longer than N packets take forgets its gradients (idle = \"keep\" is the literal text).",
        "Each gradient is over the time of a packet of 1500 bytes at least, as N is chosen for (average = \"per-sample\" is the literal text, which says incast most of the time at ports that carry ACKs too).",
        "Departures at the same instant add no sample.",
    ];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Time;

    /// 10 Gbit/s: 1500 bytes take 1.2 us, and a quarter of the line rate is 312.5 bytes per us.
    const RATE: Rate = Rate(10_000_000_000);
    const STEP_PS: u64 = 1_200_000;

    fn marker(samples: u32, high_water: u64, change: impl Fn(&mut Config)) -> Ein {
        let ecn = ecn_threshold::Config { threshold: Amount::Bytes(Bytes(high_water)), ..Default::default() };
        let mut config = Config { ecn, samples, ..Config::default() };
        change(&mut config);
        Ein::new(&config, &MarkerContext::alone(RATE))
    }

    /// A departure that finds so many bytes at the port, itself included.
    fn depart(marker: &mut Ein, now: u64, bytes: u64) -> bool {
        let queue = QueueState {
            now: Time(now),
            waiting_packets: 0,
            waiting_bytes: Bytes(bytes),
            in_service: Bytes(0),
            rate: RATE,
        };
        let packet = PacketView { bytes: Bytes(1500), ..PacketView::default() };
        marker.on_dequeue(&queue, &packet).ein
    }

    fn marks(marker: &mut Ein, queue: impl IntoIterator<Item = u64>) -> Vec<bool> {
        queue.into_iter().zip(0..).map(|(bytes, step)| depart(marker, step * STEP_PS, bytes)).collect()
    }

    /// Where departures are a packet's time apart, all means are one.
    fn every_average(check: impl Fn(Average)) {
        for average in [Average::PerSample, Average::Telescoped, Average::PacketTime] {
            check(average);
        }
    }

    /// N 5, a packet more at each departure: means of 250, 500, ... bytes per us.
    #[test]
    fn a_queue_that_grows_at_line_rate_is_incast_with_the_second_sample() {
        every_average(|average| {
            let queue = || (0..6).map(|step| 1500 * step);
            let mut zero = marker(5, 1_000_000, |config| config.average = average);
            assert_eq!(marks(&mut zero, queue()), [false, false, true, true, true, true]);
            let mut full = marker(5, 1_000_000, |config| {
                config.average = average;
                config.warm_up = WarmUp::Full;
            });
            assert_eq!(marks(&mut full, queue()), [false, false, false, false, false, true]);
        });
    }

    /// Growth of exactly a quarter of the line rate is not above it, however long it lasts.
    #[test]
    fn growth_of_exactly_the_threshold_never_flickers() {
        every_average(|average| {
            for growth in [375, 300] {
                let mut marker = marker(50, 1_000_000_000, |config| config.average = average);
                assert!(marks(&mut marker, (0..500).map(|step| step * growth)).iter().all(|ein| !ein));
            }
            let mut marker = marker(50, 1_000_000_000, |config| config.average = average);
            assert!(marks(&mut marker, (0..500).map(|step| step * 376)).iter().any(|&ein| ein));
        });
    }

    /// N 4, high-water mark 6000 bytes: marks go on while the queue is above it, and end at it.
    #[test]
    fn marks_end_when_growth_has_ended_and_the_queue_is_at_the_high_water_mark() {
        let queue = [0, 1500, 3000, 4500, 6000, 7500, 7500, 7000, 6500, 6000, 5500];
        let expected = [0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0].map(|ein| ein == 1);
        assert_eq!(marks(&mut marker(4, 6000, |_| ()), queue), expected);
        let expected = [0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0].map(|ein| ein == 1);
        assert_eq!(marks(&mut marker(4, 6000, |config| config.warm_up = WarmUp::Full), queue), expected);
        // Twice K: the last one was hysteresis.
        let expected = [0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0].map(|ein| ein == 1);
        assert_eq!(marks(&mut marker(4, 6000, |config| config.high_water = 2.0), queue), expected);
    }

    #[test]
    fn departures_at_one_instant_add_no_sample() {
        let mut marker = marker(2, 1_000_000, |_| ());
        assert!(!depart(&mut marker, 0, 0));
        assert!(depart(&mut marker, STEP_PS, 1500));
        let (sum, next) = (marker.detector.sum_kbps, marker.detector.next);
        assert!(depart(&mut marker, STEP_PS, 0), "the mean is as it was");
        assert_eq!((marker.detector.sum_kbps, marker.detector.next), (sum, next));
    }

    /// A fan-in of eight at line rate is seen with the second departure, of two with the 13th.
    #[test]
    fn the_defaults_see_a_large_fan_in_at_once_and_a_small_one_soon() {
        for (growth, seen_at) in [(7 * 1500, 2), (1500, 13)] {
            let mut marker = marker(50, 97_500, |_| ());
            let first = marks(&mut marker, (0..40).map(|step| step * growth)).iter().position(|&ein| ein);
            assert_eq!(first, Some(seen_at));
        }
    }

    /// What falls hides what rises, unless an idle port forgets.
    #[test]
    fn an_idle_port_forgets_that_its_queue_has_fallen() {
        let seen_at = |idle| {
            let mut marker = marker(50, 97_500, |config| config.idle = idle);
            marks(&mut marker, (0..60).map(|step| 90_000 - 1500 * step));
            let later = 60 * STEP_PS + 100_000_000;
            (0..100).find(|&step| depart(&mut marker, later + step * STEP_PS, 3 * 1500 * step))
        };
        let (cleared, kept) = (seen_at(Idle::Clear).unwrap(), seen_at(Idle::Keep).unwrap());
        assert!(cleared < 10 && kept > cleared + 5, "{cleared} {kept}");
    }

    /// A packet that comes while an ACK departs is a gradient of 267 Gbit/s: for N departures.
    #[test]
    fn one_short_packet_fools_the_literal_mean_and_not_the_others() {
        let fooled = |average| {
            let mut marker = marker(50, 97_500, |config| config.average = average);
            depart(&mut marker, 0, 54);
            let first = depart(&mut marker, 43_200, 1500);
            let later = (1..60).filter(|&step| depart(&mut marker, 43_200 + step * STEP_PS, 1500)).count();
            (first, later)
        };
        assert_eq!(fooled(Average::PerSample), (true, 49));
        assert_eq!(fooled(Average::Telescoped), (false, 0));
        assert_eq!(fooled(Average::PacketTime), (false, 0));
    }

    /// N ACKs leave within 2.2 us: one data packet among them is more than a quarter of what the line carries then, and no
    /// incast; 13 at once are one on any port.
    #[test]
    fn a_port_that_carries_acks_is_not_alarmed_by_a_packet_but_by_an_incast() {
        let after_acks = |average, packets: u64| {
            let mut marker = marker(50, 97_500, |config| config.average = average);
            for ack in 0..200 {
                depart(&mut marker, ack * 43_200, 54);
            }
            (0..3)
                .filter(|&step| {
                    depart(&mut marker, 200 * 43_200 + step * STEP_PS, (packets - step.min(packets)) * 1500)
                })
                .count()
        };
        assert!(after_acks(Average::PerSample, 1) > 0 && after_acks(Average::Telescoped, 1) > 0);
        assert_eq!((after_acks(Average::PacketTime, 1), after_acks(Average::PacketTime, 12)), (0, 0));
        assert!(after_acks(Average::PacketTime, 14) > 0);
    }

    #[test]
    fn ce_is_set_beside_it() {
        let config = Config::default();
        let mut marker = Ein::new(&config, &MarkerContext::alone(RATE));
        let queue = QueueState {
            now: Time(0),
            waiting_packets: 65,
            waiting_bytes: Bytes(97_500),
            in_service: Bytes(1500),
            rate: RATE,
        };
        let packet = PacketView { bytes: Bytes(1500), ecn_capable: true, ..PacketView::default() };
        assert_eq!(marker.on_enqueue(&queue, &packet), Marks::CE);
    }
}
