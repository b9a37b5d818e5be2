//! The NIC's slots, and what its connections may still add to what comes in.
//!
//! A slot has two halves, each as long as the mean round trip T. The first measures what comes in; what is left
//! below the target is the quota from which windows grow during the second.

use super::share::Share;
use crate::units::{Bytes, Duration, Rate, Time};

/// Which half of a slot it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    /// What comes in is measured.
    Measure,
    /// Windows may grow.
    Grow,
}

/// The slots of one NIC.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    rate: Rate,
    target: Rate,
    floor: Duration,
    /// T.
    length: Duration,
    half: Half,
    began: Time,
    /// When this half ends; never while nothing comes in.
    ends: Time,
    /// Bytes on the wire that came in since the slot began.
    arrived: Bytes,
    /// Payload of the slot, and the same weighted by the round trips (in picoseconds) of its connections.
    payload: u64,
    weighted: u128,
    /// What windows may still add (BWA).
    quota: Rate,
}

impl Slots {
    /// A NIC of this rate where nothing has come in yet. No half is shorter than `floor`.
    pub(super) fn new(rate: Rate, target: Share, floor: Duration) -> Self {
        let floor = floor.max(Duration(1));
        Self {
            rate,
            target: Rate(target.times(rate.0)),
            floor,
            length: floor,
            half: Half::Measure,
            began: Time(0),
            ends: Time::NEVER,
            arrived: Bytes::ZERO,
            payload: 0,
            weighted: 0,
            quota: Rate(0),
        }
    }

    /// So much came in on the wire. The first packet after a silence begins a slot.
    pub(super) fn on_arrival(&mut self, now: Time, wire: Bytes) {
        if self.ends == Time::NEVER {
            self.begin(now, Half::Measure);
        }
        self.arrived += wire;
    }

    /// So much of it belongs to a connection with this round trip.
    pub(super) fn weigh(&mut self, payload: Bytes, rtt: Duration) {
        self.payload += payload.0;
        self.weighted += u128::from(payload.0) * u128::from(rtt.0);
    }

    fn begin(&mut self, now: Time, half: Half) {
        self.half = half;
        self.began = now;
        self.ends = Time(now.0.saturating_add(self.length.0));
        if half == Half::Measure {
            self.arrived = Bytes::ZERO;
            self.payload = 0;
            self.weighted = 0;
        }
    }

    /// Ends the half that is due. Returns whether it was the one that measures.
    pub(super) fn end_half(&mut self, now: Time) -> bool {
        match self.half {
            Half::Measure => {
                let incoming = Rate::of(self.arrived, now.since(self.began));
                self.quota = Rate(self.target.0.saturating_sub(incoming.0));
                self.begin(now, Half::Grow);
                true
            }
            Half::Grow => {
                if self.payload > 0 {
                    let mean = self.weighted / u128::from(self.payload);
                    self.length = Duration(mean as u64).max(self.floor);
                }
                let silent = self.arrived == Bytes::ZERO;
                self.begin(now, Half::Measure);
                if silent {
                    self.ends = Time::NEVER;
                }
                false
            }
        }
    }

    /// When the current half ends, unless nothing comes in.
    pub(super) fn ends(&self) -> Option<Time> {
        (self.ends != Time::NEVER).then_some(self.ends)
    }

    /// T.
    pub(super) fn length(&self) -> Duration {
        self.length
    }

    /// Whether less than this share of the line rate is left.
    pub(super) fn is_short_of(&self, share: Share) -> bool {
        self.quota.0 < share.times(self.rate.0)
    }

    /// Whether windows may grow now.
    pub(super) fn may_grow(&self) -> bool {
        self.half == Half::Grow
    }

    /// Takes `need` from the quota, if there is so much.
    pub(super) fn take(&mut self, need: Rate) -> bool {
        let enough = need <= self.quota;
        if enough {
            self.quota = Rate(self.quota.0 - need.0);
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIGABIT: Rate = Rate(1_000_000_000);
    const T: Duration = Duration::from_us(160);

    fn slots() -> Slots {
        Slots::new(GIGABIT, Share::percent(90), T)
    }

    #[test]
    fn slots_begin_with_the_first_packet_and_halves_alternate() {
        let mut slots = slots();
        assert_eq!(slots.ends(), None);
        assert!(!slots.may_grow());
        slots.on_arrival(Time::from_us(1000), Bytes(1500));
        assert_eq!(slots.ends(), Some(Time::from_us(1160)));
        slots.on_arrival(Time::from_us(1100), Bytes(1500));
        assert_eq!(slots.ends(), Some(Time::from_us(1160)), "a later one changes nothing");
        assert!(slots.end_half(Time::from_us(1160)));
        assert!(slots.may_grow());
        assert_eq!(slots.ends(), Some(Time::from_us(1320)));
        assert!(!slots.end_half(Time::from_us(1320)));
        assert!(!slots.may_grow());
        assert_eq!(slots.ends(), Some(Time::from_us(1480)));
    }

    /// 900 Mbit/s are the target; 12,000 bytes in 160 us are 600 Mbit/s.
    #[test]
    fn the_quota_is_what_the_first_half_left_of_the_target() {
        let mut slots = slots();
        slots.on_arrival(Time(0), Bytes(12_000));
        slots.end_half(Time::from_us(160));
        assert_eq!(slots.quota, Rate(300_000_000));
        slots.on_arrival(Time::from_us(170), Bytes(100_000));
        assert_eq!(slots.quota, Rate(300_000_000), "the second half measures nothing");
        slots.end_half(Time::from_us(320));
        slots.on_arrival(Time::from_us(330), Bytes(6_000));
        slots.end_half(Time::from_us(480));
        assert_eq!(slots.quota, Rate(600_000_000), "nor is it counted later");
    }

    #[test]
    fn more_than_the_target_leaves_nothing() {
        let mut slots = slots();
        slots.on_arrival(Time(0), Bytes(20_000));
        slots.end_half(Time::from_us(160));
        assert_eq!(slots.quota, Rate(0));
        assert!(!slots.take(Rate(1)));
    }

    /// One segment of 1460 bytes per 100 us costs 116.8 Mbit/s, doubling four of them 467.2 Mbit/s.
    #[test]
    fn what_is_taken_is_gone_and_no_more_is_given_than_there_is() {
        let mut slots = slots();
        slots.on_arrival(Time(0), Bytes(6_320));
        slots.end_half(Time::from_us(160));
        assert_eq!(slots.quota, Rate(584_000_000));
        let (one, four) = [1460, 5840].map(|grown| Rate::of(Bytes(grown), Duration::from_us(100))).into();
        assert!(slots.take(four));
        assert_eq!(slots.quota, one);
        assert!(!slots.take(four));
        assert_eq!(slots.quota, one, "what is refused costs nothing");
        assert!(slots.take(one), "the last of it is as good as the first");
        assert_eq!(slots.quota, Rate(0));
    }

    /// 0.2 of the line rate are 200 Mbit/s: exactly that is enough.
    #[test]
    fn a_quota_is_short_below_the_share_of_the_line_rate() {
        for (arrived, short) in [(14_000, false), (14_001, true)] {
            let mut slots = slots();
            slots.on_arrival(Time(0), Bytes(arrived));
            slots.end_half(Time::from_us(160));
            assert_eq!(slots.is_short_of(Share::percent(20)), short, "{:?}", slots.quota);
        }
    }

    /// Three quarters of the payload at 200 us, one at 600 us: 300 us on the mean.
    #[test]
    fn halves_are_as_long_as_the_mean_round_trip_weighted_by_traffic() {
        let mut slots = slots();
        slots.on_arrival(Time(0), Bytes(1500));
        slots.weigh(Bytes(3000), Duration::from_us(200));
        slots.end_half(Time::from_us(160));
        slots.weigh(Bytes(1000), Duration::from_us(600));
        assert_eq!(slots.length(), T, "not within a slot");
        slots.end_half(Time::from_us(320));
        assert_eq!(slots.length(), Duration::from_us(300));
        assert_eq!(slots.ends(), Some(Time::from_us(620)));
        // What the slot before weighed does not count again.
        slots.on_arrival(Time::from_us(330), Bytes(1500));
        slots.weigh(Bytes(1000), Duration::from_us(100));
        slots.end_half(Time::from_us(620));
        slots.end_half(Time::from_us(920));
        assert_eq!(slots.length(), T, "never below the floor");
    }

    #[test]
    fn a_slot_in_which_nothing_came_is_the_last_until_something_does() {
        let mut slots = slots();
        slots.on_arrival(Time(0), Bytes(1500));
        for end in [160, 320, 480] {
            slots.end_half(Time::from_us(end));
            assert!(slots.ends().is_some());
        }
        slots.end_half(Time::from_us(640));
        assert_eq!(slots.ends(), None);
        assert!(!slots.may_grow());
        slots.on_arrival(Time::from_us(5000), Bytes(1500));
        assert_eq!(slots.ends(), Some(Time::from_us(5160)));
    }

    /// Data that comes in the second half only does not count as silence.
    #[test]
    fn a_slot_goes_on_if_its_second_half_brought_something() {
        let mut slots = slots();
        slots.on_arrival(Time(0), Bytes(1500));
        slots.end_half(Time::from_us(160));
        slots.end_half(Time::from_us(320));
        slots.end_half(Time::from_us(480));
        slots.on_arrival(Time::from_us(500), Bytes(1500));
        slots.end_half(Time::from_us(640));
        assert_eq!(slots.ends(), Some(Time::from_us(800)));
    }

    #[test]
    fn a_floor_of_nothing_still_lets_time_pass() {
        let mut slots = Slots::new(GIGABIT, Share::percent(90), Duration::ZERO);
        slots.on_arrival(Time(0), Bytes(1));
        assert_eq!(slots.ends(), Some(Time(1)));
    }
}
