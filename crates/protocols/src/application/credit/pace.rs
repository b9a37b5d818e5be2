//! The pace of requests beyond what may go at once: a leaky bucket.

use crate::units::{Bytes, Duration, Time};

/// Some bytes go at once, and others as fast as the budget drains.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    at_once: Bytes,
    /// A budget of so much fits at once, and needs no pace.
    enough_for: Bytes,
    /// When all that has gone would have drained.
    drained: Time,
    /// When the request that is next may go, if only the pace holds it back.
    lets_go: Option<Time>,
}

impl Pace {
    pub(super) const fn new(at_once: Bytes, enough_for: Bytes) -> Self {
        Self { at_once, enough_for, drained: Time(0), lets_go: None }
    }

    /// Whether requests go at a pace with this budget.
    pub(super) fn is_for(&self, budget: Bytes) -> bool {
        budget > self.enough_for
    }

    /// The budget that fits at once.
    pub(super) const fn enough_for(&self) -> Bytes {
        self.enough_for
    }

    /// Less goes at once.
    pub(super) fn cut(&mut self, to: f64) {
        self.at_once = Bytes((self.at_once.0 as f64 * to) as u64);
    }

    /// More goes at once, as a [cut](Self::cut) to this part took away: never more than half of what fits at once.
    pub(super) fn widen(&mut self, from: f64) {
        self.at_once = Bytes((self.at_once.0 as f64 / from) as u64).min(Bytes(self.enough_for.0 / 2)).max(self.at_once);
    }

    pub(super) const fn lets_go(&self) -> Option<Time> {
        self.lets_go
    }

    /// Nothing is to be let go, until it is asked again what fits.
    pub(super) const fn forget_timer(&mut self) {
        self.lets_go = None;
    }

    /// Nothing is under way any more.
    pub(super) const fn empty(&mut self) {
        self.drained = Time(0);
    }

    /// Whether a request of this `cost` may go, where responses to a whole `budget` take some `time`. One that costs more than may go at
    /// once waits until all has drained.
    pub(super) fn fits(&mut self, now: Time, cost: Bytes, budget: Bytes, time: Duration) -> bool {
        let room = share(time, Bytes(self.at_once.0.saturating_sub(cost.0)), budget);
        let from = Time(self.drained.0.saturating_sub(room.0));
        self.lets_go = (from > now).then_some(from);
        self.lets_go.is_none()
    }

    /// A request goes.
    pub(super) fn on_granted(&mut self, now: Time, cost: Bytes, budget: Bytes, time: Duration) {
        self.drained = Time(self.drained.max(now).0.saturating_add(share(time, cost, budget).0));
    }
}

/// How long a part of the budget takes to drain.
fn share(time: Duration, part: Bytes, budget: Bytes) -> Duration {
    let share = u128::from(time.0) * u128::from(part.0) / u128::from(budget.0.max(1));
    Duration(u64::try_from(share).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Bytes = Bytes(10_000);
    const TIME: Duration = Duration(1000);

    #[test]
    fn a_part_goes_at_once_and_the_rest_as_the_budget_drains() {
        let mut pace = Pace::new(Bytes(3000), Bytes(5000));
        assert_eq!([5000, 5001].map(|budget| pace.is_for(Bytes(budget))), [false, true]);
        let mut goes = |now| {
            let fits = pace.fits(Time(now), Bytes(1500), BUDGET, TIME);
            if fits {
                pace.on_granted(Time(now), Bytes(1500), BUDGET, TIME);
            }
            (fits, pace.lets_go())
        };
        // 1500 bytes drain in 150 ps.
        assert_eq!([goes(100), goes(100)], [(true, None); 2]);
        assert_eq!([goes(100), goes(249)], [(false, Some(Time(250))); 2]);
        assert_eq!([goes(250), goes(250)], [(true, None), (false, Some(Time(400)))]);
        pace.forget_timer();
        assert_eq!(pace.lets_go(), None);
        pace.empty();
        assert!(pace.fits(Time(250), Bytes(3000), BUDGET, TIME), "nothing is under way any more");
    }

    #[test]
    fn less_goes_at_once_after_a_cut_and_more_than_that_goes_alone() {
        let mut pace = Pace::new(Bytes(3000), BUDGET);
        pace.cut(0.5);
        pace.on_granted(Time(0), Bytes(1500), BUDGET, TIME);
        assert!(!pace.fits(Time(149), Bytes(1500), BUDGET, TIME) && pace.fits(Time(150), Bytes(1500), BUDGET, TIME));
        assert!(!pace.fits(Time(149), Bytes(9000), BUDGET, TIME) && pace.fits(Time(150), Bytes(9000), BUDGET, TIME));
        pace.widen(0.5);
        assert_eq!(pace.at_once, Bytes(3000), "as before");
        pace.widen(0.5);
        assert_eq!(pace.at_once, Bytes(5000), "half of what fits at once is the most");
    }

    #[test]
    fn numbers_that_are_too_large_are_as_large_as_they_can_be() {
        let mut pace = Pace::new(Bytes(u64::MAX), Bytes::ZERO);
        pace.on_granted(Time(u64::MAX), Bytes(u64::MAX), Bytes::ZERO, Duration(u64::MAX));
        assert!(pace.fits(Time(u64::MAX), Bytes(u64::MAX), Bytes::ZERO, Duration(u64::MAX)));
    }
}
