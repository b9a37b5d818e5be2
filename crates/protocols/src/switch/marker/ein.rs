//! Pulser's incast detector: marks EIN while the queue grows too fast (Pulser, Algorithm 1).
//!
//! At every departure the port takes the gradient of its occupancy since the departure before. While the mean of the
//! last N gradients is above a share of the line rate, packets are marked; once marked, they go on being so while
//! the queue is above a high-water mark. A fast build-up is seen long before the queue reaches K, and a slow drift is
//! never. CE is set beside it, by a threshold of its own.

use alloc::boxed::Box;
use alloc::vec;

use super::ecn_threshold::{self, EcnThreshold};
use super::{Marker, MarkerContext};
use crate::registry::{Capability, Part};
use crate::switch::{Marks, PacketView, QueueState, Quiet};
use crate::units::{Amount, Bytes, Duration, Rate, Time};

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
    /// In a place of their own, so that ports without them stay small.
    parts: Box<Parts>,
}

#[derive(Clone, Debug)]
struct Parts {
    detector: Detector,
    ecn: EcnThreshold,
}

#[derive(Clone, Debug)]
struct Detector {
    recent: Recent,
    /// Where the mean is not that of gradients: the occupancies from which on they were taken.
    ends: Box<[Sample]>,
    /// Whether there was a departure.
    begun: bool,
    /// Whether all N are samples, and not only those before the next.
    full: bool,
    /// Whether a departure may have to be seen whatever it finds.
    sees_all: bool,
    warm_up: WarmUp,
    growth_kbps: i64,
    /// What the sum of all gradients is above while the mean is above the threshold.
    most_kbps: i64,
    packet_time: u64,
    /// What a gradient is over at least.
    shortest_span: u64,
    high_water: Amount,
    rate: Rate,
}

/// All that a departure needs that finds as much as the one before it, in one line of the cache.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Recent {
    /// The occupancy when the transmission of the last packet began, the first of several that began at once.
    last: Sample,
    /// The last N gradients, where it is their mean that counts; else none.
    gradients_kbps: Box<[i64]>,
    /// A bit for each gradient that may not be zero, so that most are not looked at. Those whose numbers differ by a multiple of 64 share one.
    nonzero: u64,
    /// By how much the sum of all gradients is below what it has to be above. While it is negative, the mean is above the threshold.
    left_kbps: i64,
    /// The longest idle time that history survives.
    longest_idle: Duration,
    /// Bytes of the last packet.
    departed: u32,
    /// Which sample is replaced next.
    next: u16,
    marking: bool,
    /// Whether the next departure has to be seen whatever it finds.
    sees_next: bool,
}

const _: () = assert!(size_of::<Recent>() == 64);

impl Ein {
    /// A marker as configured. Parameters out of range are brought into it.
    #[must_use]
    pub fn new(config: &Config, context: &MarkerContext) -> Self {
        let samples = config.samples.clamp(1, MOST_SAMPLES);
        let growth_kbps = (context.rate.0 as f64 / 1000.0 * config.growth + 0.5) as i64;
        let (gradients, ends) =
            if config.average == Average::Telescoped { (0, samples as usize) } else { (samples as usize, 0) };
        // No sum of gradients reaches these bounds.
        let most_kbps = growth_kbps.saturating_mul(i64::from(samples)).clamp(i64::MIN / 4, i64::MAX / 4);
        let ecn = EcnThreshold::new(&config.ecn, context);
        let packet_time = context.rate.time_for(MTU).0;
        let times = |amount: u64| (amount as f64 * config.high_water.max(0.0)) as u64;
        let recent = Recent {
            last: Sample::default(),
            gradients_kbps: vec![0; gradients].into(),
            nonzero: 0,
            left_kbps: most_kbps,
            longest_idle: match config.idle {
                Idle::Clear => context.rate.time_for(MTU.times(u64::from(samples))),
                Idle::Keep => Duration(u64::MAX),
            },
            departed: 0,
            next: 0,
            marking: false,
            sees_next: true,
        };
        let detector = Detector {
            recent,
            ends: vec![Sample::default(); ends].into(),
            begun: false,
            full: false,
            sees_all: gradients == 0 || ecn.sees_departures(),
            warm_up: config.warm_up,
            growth_kbps,
            most_kbps,
            packet_time,
            shortest_span: if config.average == Average::PacketTime { packet_time } else { 0 },
            high_water: match config.ecn.threshold {
                Amount::Packets(packets) => {
                    Amount::Packets(u32::try_from(times(u64::from(packets))).unwrap_or(u32::MAX))
                }
                Amount::Bytes(Bytes(bytes)) => Amount::Bytes(Bytes(times(bytes))),
            },
            rate: context.rate,
        };
        Self { parts: Box::new(Parts { detector, ecn }) }
    }
}

impl Recent {
    /// The bit of the next sample.
    #[inline]
    const fn bit(&self) -> u64 {
        1 << (self.next % u64::BITS as u16)
    }

    /// What is left once a gradient has replaced the oldest.
    #[inline]
    fn left_with(&self, gradient_kbps: i64) -> i64 {
        let oldest_kbps = if self.nonzero & self.bit() == 0 { 0 } else { self.gradients_kbps[usize::from(self.next)] };
        self.left_kbps + oldest_kbps - gradient_kbps
    }

    /// Replaces the oldest gradient, with what is [left](Self::left_with) then.
    #[inline]
    fn replace(&mut self, gradient_kbps: i64, left_kbps: i64) {
        let bit = self.bit();
        if gradient_kbps == 0 && self.nonzero & bit == 0 {
            return;
        }
        self.left_kbps = left_kbps;
        self.gradients_kbps[usize::from(self.next)] = gradient_kbps;
        if gradient_kbps != 0 {
            self.nonzero |= bit;
        } else if self.gradients_kbps.len() <= u64::BITS as usize {
            self.nonzero &= !bit;
        }
    }
}

impl Detector {
    const fn samples(&self) -> usize {
        if self.ends.is_empty() { self.recent.gradients_kbps.len() } else { self.ends.len() }
    }

    #[cold]
    fn clear(&mut self) {
        self.recent.gradients_kbps.fill(0);
        self.ends.fill(Sample::default());
        (self.recent.nonzero, self.recent.next, self.recent.left_kbps) = (0, 0, self.most_kbps);
        self.full = false;
    }

    /// Whether the port was idle for so long that it forgets, if the last transmission began `since` ago, which is more
    /// than the longest idle time.
    #[cold]
    fn was_idle(&self, since: u64) -> bool {
        since - self.recent.longest_idle.0 > self.rate.time_for(Bytes(u64::from(self.recent.departed))).0
    }

    /// How fast the occupancy has changed in the time since the last departure.
    #[inline]
    fn gradient_kbps(&self, sample: Sample, since: u64) -> i64 {
        // Most departures find as much as the one before: then there is nothing to divide.
        if sample.bytes == self.recent.last.bytes {
            return 0;
        }
        gradient_kbps(growth(self.recent.last, sample), since.max(self.shortest_span))
    }

    /// Takes in a departure that is so long after the last.
    fn take(&mut self, sample: Sample, since: u64) {
        if self.ends.is_empty() {
            let gradient_kbps = self.gradient_kbps(sample, since);
            self.recent.replace(gradient_kbps, self.recent.left_with(gradient_kbps));
        } else {
            self.ends[usize::from(self.recent.next)] = self.recent.last;
        }
        self.go_on(sample, self.samples());
    }

    #[inline]
    fn go_on(&mut self, sample: Sample, samples: usize) {
        let recent = &mut self.recent;
        recent.last = sample;
        if usize::from(recent.next) + 1 < samples {
            recent.next += 1;
        } else {
            recent.next = 0;
            self.full = true;
        }
    }

    /// Takes in a departure, unless the port was idle or the packet may be marked: then nothing has happened.
    #[inline]
    fn takes_departure(&mut self, sample: Sample, departed: Bytes) -> bool {
        let since = sample.at.saturating_sub(self.recent.last.at);
        if since == 0 || since > self.recent.longest_idle.0 || self.recent.sees_next {
            return false;
        }
        let gradient_kbps = self.gradient_kbps(sample, since);
        let left_kbps = self.recent.left_with(gradient_kbps);
        if left_kbps < 0 {
            return false;
        }
        self.recent.replace(gradient_kbps, left_kbps);
        self.recent.departed = bounded(departed);
        self.go_on(sample, self.recent.gradients_kbps.len());
        true
    }

    /// Whether the mean growth is above the threshold: compared as sums, so that exactly the threshold is not.
    fn grows(&self) -> bool {
        let above = if self.ends.is_empty() { self.recent.left_kbps < 0 } else { self.has_grown() };
        above && (self.full || (self.warm_up == WarmUp::Zero && self.recent.next > 0))
    }

    /// The same of the growth since the oldest sample over the time since then.
    fn has_grown(&self) -> bool {
        let last = self.recent.last;
        // While the ring is not full its first sample is the oldest.
        let next = usize::from(self.recent.next);
        let (oldest, taken) = if self.full { (next, self.ends.len()) } else { (0, next) };
        let oldest = self.ends[oldest];
        // Departures that have not been count as a packet's time without growth each.
        let missing = (self.ends.len() - taken) as i128 * i128::from(self.packet_time);
        let span = i128::from(last.at - oldest.at) + missing;
        i128::from(growth(oldest, last)) * i128::from(KBPS) > i128::from(self.growth_kbps) * span
    }

    fn is_above_high_water(&self, queue: &QueueState) -> bool {
        match self.high_water {
            Amount::Packets(packets) => queue.packets(true) > packets,
            Amount::Bytes(bytes) => queue.bytes(true) > bytes,
        }
    }

    /// Whether the packet whose transmission begins is marked.
    fn on_dequeue(&mut self, queue: &QueueState, packet: &PacketView) -> bool {
        let sample = Sample { at: queue.now.0, bytes: queue.bytes(true).0 };
        let since = sample.at.saturating_sub(self.recent.last.at);
        if !self.begun {
            (self.begun, self.recent.last) = (true, sample);
        } else if since > self.recent.longest_idle.0 && self.was_idle(since) {
            self.clear();
            self.recent.last = sample;
        } else if since > 0 {
            // Departures at the same instant add no sample.
            self.take(sample, since);
        }
        self.recent.departed = bounded(packet.bytes);
        self.recent.marking = self.grows() || (self.recent.marking && self.is_above_high_water(queue));
        self.recent.sees_next = self.sees_all || self.recent.marking;
        self.recent.marking
    }
}

/// As a number of bytes that no packet exceeds.
#[inline]
fn bounded(bytes: Bytes) -> u32 {
    u32::try_from(bytes.0).unwrap_or(u32::MAX)
}

impl Marker for Ein {
    #[inline]
    fn on_enqueue(&mut self, queue: &QueueState, packet: &PacketView) -> Marks {
        self.parts.ecn.on_enqueue(queue, packet)
    }

    fn on_dequeue(&mut self, queue: &QueueState, packet: &PacketView) -> Marks {
        let Parts { detector, ecn } = &mut *self.parts;
        Marks { ein: detector.on_dequeue(queue, packet), ..ecn.on_dequeue(queue, packet) }
    }

    #[inline]
    fn takes_departure(&mut self, now: Time, at_port: Bytes, bytes: Bytes) -> bool {
        self.parts.detector.takes_departure(Sample { at: now.0, bytes: at_port.0 }, bytes)
    }

    #[inline]
    fn touch(&self) -> u64 {
        self.parts.detector.recent.last.at
    }

    fn quiet(&self) -> Quiet {
        self.parts.ecn.quiet()
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
    use alloc::vec::Vec;

    use proptest::collection::vec;
    use proptest::option::of;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

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

    /// Times between departures; now and then the port is idle for long.
    fn gaps() -> impl Strategy<Value = u64> {
        (0_u32..300).prop_map(|number| match number {
            0 => 140 * STEP_PS,
            1..50 => 0,
            50..100 => STEP_PS / 3,
            100..250 => STEP_PS,
            _ => 2 * STEP_PS,
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Departures that find this many bytes, or as many as the one before, and what a mean over all gradients says of them.
        #[test]
        fn marks_are_those_of_a_mean_that_is_taken_anew_each_time(
            samples in select(&[1_u32, 5, 50, 64, 65, 130][..]),
            average in select(&[Average::PerSample, Average::PacketTime][..]),
            departures in vec((gaps(), of(0_u64..12)), 1..400),
        ) {
            let high_water = 9_000;
            let mut marker = marker(samples, high_water, |config| config.average = average);
            let shortest = if average == Average::PacketTime { STEP_PS } else { 0 };
            let (mut now, mut bytes, mut marking) = (0_u64, 0_u64, false);
            let (mut last, mut gradients) = (None::<(u64, u64)>, Vec::new());
            for (gap, packets) in departures {
                now += gap;
                bytes = packets.map_or(bytes, |packets| packets * 1500);
                let unseen = marker.takes_departure(Time(now), Bytes(bytes), Bytes(1500));
                let marked = !unseen && depart(&mut marker, now, bytes);
                match last {
                    Some((at, _)) if now == at => {}
                    Some((at, _)) if now - at > u64::from(samples + 1) * STEP_PS => gradients.clear(),
                    Some((at, before)) => gradients.push(gradient_kbps(
                        i64::try_from(bytes).unwrap() - i64::try_from(before).unwrap(),
                        (now - at).max(shortest),
                    )),
                    None => {}
                }
                if last.is_none_or(|(at, _)| now > at) {
                    last = Some((now, bytes));
                }
                let sum = gradients.iter().rev().take(samples as usize).sum::<i64>();
                marking = sum > 2_500_000 * i64::from(samples) || (marking && bytes > high_water);
                prop_assert_eq!(marked, marking, "at {} with {} bytes", now, bytes);
            }
        }
    }

    #[test]
    fn a_departure_that_may_be_marked_is_not_taken_in_unseen() {
        let takes = |marker: &mut Ein, step: u64, at_port: u64| {
            marker.takes_departure(Time(step * STEP_PS), Bytes(at_port), Bytes(1500))
        };
        every_average(|average| {
            let mut marker = marker(5, 1_000_000, |config| config.average = average);
            let sums = average != Average::Telescoped;
            assert!(!takes(&mut marker, 0, 1500), "it is the first");
            depart(&mut marker, 0, 1500);
            assert!(!takes(&mut marker, 0, 1500), "it is at the same instant");
            assert_eq!(takes(&mut marker, 1, 1500), sums);
            assert_eq!(takes(&mut marker, 2, 1600), sums);
            assert!(!takes(&mut marker, 3, 9000), "it has grown too fast");
            assert!(!takes(&mut marker, 100, 1600), "the port was idle");
            assert!(depart(&mut marker, 3 * STEP_PS, 9000));
            assert!(!takes(&mut marker, 4, 9000), "the one before was marked");
        });
        let mut at_dequeue = marker(5, 1_000_000, |config| config.ecn.at = ecn_threshold::MarkPoint::Dequeue);
        depart(&mut at_dequeue, 0, 1500);
        assert!(!takes(&mut at_dequeue, 1, 1500), "it may be marked CE");
    }

    #[test]
    fn departures_at_one_instant_add_no_sample() {
        let mut marker = marker(2, 1_000_000, |_| ());
        assert!(!depart(&mut marker, 0, 0));
        assert!(depart(&mut marker, STEP_PS, 1500));
        let state = |marker: &Ein| (marker.parts.detector.recent.left_kbps, marker.parts.detector.recent.next);
        let before = state(&marker);
        assert!(depart(&mut marker, STEP_PS, 0), "the mean is as it was");
        assert_eq!(state(&marker), before);
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
