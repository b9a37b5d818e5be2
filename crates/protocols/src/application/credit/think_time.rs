//! How long servers think, found out from what comes back.
//!
//! Requests wait, nothing is lost, and yet the link is not full: then responses take longer than the budget lasts, and more requests
//! have to be under way. How many says Little's law: as many as the link brings in the time from a request to its response. For a part of
//! that time the link is busy with those that the budget has room for; the rest is taken for the time that servers think. It stays if more
//! comes back than before. So a program that cannot keep up with its link, or a port that others fill, is not taken for servers that think.
//!
//! What is lost says that too many answered at once: that is a cut, and it takes longer each time until more is tried again. Where the link
//! is full, less is tried, down to what responses take beyond the time that the budget covers.

use super::super::Grant;
use crate::units::{Bytes, Duration, Time};

/// A measurement has at least this many responses, and lasts at least this many response times. A shorter one would see a burst, or the gap
/// after it.
const RESPONSES: u32 = 16;
const TIMES: f64 = 2.0;
/// The link is full if it is used so much.
const FULL: f64 = 0.95;
/// More stays if the link is used more by this factor.
const PAYS: f64 = 1.05;
/// Each step up lets go of at least this many times the requests, unless that takes more than twice the think time found so far. A budget of
/// 70 % of the port leaves room for 1.4 times its windows.
const MORE: f64 = 1.4;
/// How much less is tried: a part of what was found, and no more than a part of the time in which the link brings the budget. If less is
/// found than servers think, requests count as late that are not, and once these fill the budget no other goes.
const LESS: f64 = 0.1;
const LESS_OF_BUDGET: f64 = 0.25;
/// Less stays if the link is full, and used at least so much of what it was before. The step after one that costs a little may cost a lot.
const COSTS: f64 = 0.98;
/// By how much what was too much may be more by now.
const FORGETS: f64 = 1.25;
/// What is left after a loss.
const CUT: f64 = 0.7;
/// Measurements until more is tried again that was of no use, and less that was not enough.
const LEAST_PATIENCE: u32 = 4;
const MOST_PATIENCE: u32 = 256;

/// What has come back since the last measurement, of requests that waited or followed those.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    responses: u32,
    /// How long they took together, and how long the link takes for them.
    took: f64,
    on_the_link: f64,
    /// What they cost together.
    cost: f64,
    /// In which time the link brought them, as far as that is known.
    within: f64,
    /// How much longer the link takes for those that came than the time in which they ended, since the measurement began or nothing was under
    /// way: now, and at most.
    ahead: f64,
    most_ahead: f64,
    lost: bool,
    /// Requests that were let go, and those of them of which nobody will say if data was lost.
    asked: u32,
    unknown: u32,
}

impl Sample {
    /// A response came `gap` after the one before.
    fn count(&mut self, gap: Duration, took: Duration, on_the_link: Duration, cost: Bytes) {
        let (gap, on_the_link) = (gap.0 as f64, on_the_link.0 as f64);
        self.responses += 1;
        self.took += took.0 as f64;
        self.on_the_link += on_the_link;
        self.cost += cost.0 as f64;
        self.within += gap;
        self.ahead += on_the_link - gap;
        self.most_ahead = self.most_ahead.max(self.ahead);
    }

    /// Nothing is under way. What the link cannot have brought since the first response was over, it brought before.
    ///
    /// Responses that come side by side end together, so most of their bytes came before the first of them was over. As long as others are
    /// under way this cannot be told: a part of those came in the same time.
    fn all_has_come(&mut self) {
        self.within += self.most_ahead;
        (self.ahead, self.most_ahead) = (0.0, 0.0);
    }
}

/// What is tried, what was held before, and how much of the link that used.
#[derive(Clone, Copy, Debug)]
enum Trial {
    More { before: f64, used: f64 },
    Less { before: f64, used: f64 },
}

/// How long until something is tried again, and how long that is the next time.
#[derive(Clone, Copy, Debug)]
struct Patience {
    left: u32,
    next: u32,
}

impl Patience {
    /// Nothing is to be waited for.
    const NONE: Self = Self { left: 0, next: LEAST_PATIENCE };

    /// It was of no use.
    fn grow(&mut self) {
        self.left = self.next;
        self.next = (2 * self.next).min(MOST_PATIENCE);
    }

    /// One more measurement. Whether it may be tried after this one.
    const fn allows(&mut self) -> bool {
        let allows = self.left == 0;
        self.left = self.left.saturating_sub(1);
        allows
    }
}

/// The search for the time that servers think.
#[derive(Clone, Debug)]
pub(super) struct ThinkTime {
    budget: Bytes,
    /// How long the link takes for the budget.
    covered: f64,
    found: f64,
    trial: Option<Trial>,
    /// A request waits.
    waits: bool,
    /// When a request that had waited was let go last.
    waited: Time,
    /// When the last response came, if the next one is to be measured.
    last: Option<Time>,
    /// When what was found has changed. Losses of requests of before tell nothing of it.
    changed: Time,
    /// When most of what was under way then should be over. Until then requests go when that leaves room, and say little of what was found.
    settled: Time,
    sample: Sample,
    /// How long responses took when the link was not full, if that was so in the last measurement: once may be chance, and nothing was found
    /// before.
    not_full: Option<f64>,
    /// Losses have shown that this is too much; it is forgotten by and by.
    most: f64,
    for_more: Patience,
    for_less: Patience,
}

impl ThinkTime {
    pub(super) fn new(budget: Bytes, covered: Duration) -> Self {
        Self {
            budget,
            covered: covered.0 as f64,
            found: 0.0,
            trial: None,
            waits: false,
            waited: Time(0),
            last: None,
            changed: Time(0),
            settled: Time(0),
            sample: Sample::default(),
            not_full: None,
            most: f64::INFINITY,
            for_more: Patience::NONE,
            for_less: Patience::NONE,
        }
    }

    /// Whether a request waits.
    pub(super) const fn waits(&mut self, waits: bool) {
        self.waits = waits;
    }

    /// A request was let go; `is_watched`: somebody will say if data was lost.
    pub(super) fn on_granted(&mut self, now: Time, is_watched: bool) {
        self.sample.asked += 1;
        self.sample.unknown += u32::from(!is_watched);
        if self.waits {
            self.waited = now;
        }
    }

    /// Data was lost.
    pub(super) const fn on_loss(&mut self) {
        self.sample.lost = true;
    }

    /// The response to what was granted is over, and the link takes this long for it; `is_idle`: nothing else is under way. Returns how long
    /// servers think, if that is known better now.
    pub(super) fn on_finished(
        &mut self,
        now: Time,
        grant: &Grant,
        on_the_link: Duration,
        lost: bool,
        is_idle: bool,
    ) -> Option<Duration> {
        let asked = grant.at();
        self.sample.lost |= lost && asked >= self.changed;
        // Until the last of those that waited has come: what is asked for late may come late, too. Where nothing waits or is under way, what
        // comes next is another query.
        let is_measured = self.waits || asked <= self.waited;
        let goes_on = is_measured && (self.waits || !is_idle);
        let last = core::mem::replace(&mut self.last, goes_on.then_some(now)).filter(|_| is_measured);
        // Nor does one tell anything that has failed.
        let from = if self.sample.lost { self.changed } else { self.settled };
        let last = last.filter(|_| asked >= from && on_the_link != Duration::ZERO);
        if let Some(last) = last {
            self.sample.count(now.since(last), now.since(asked), on_the_link, grant.cost());
        }
        if is_idle {
            self.sample.all_has_come();
        }
        // The last ones come soon, and say when the others came.
        let are_more_to_come = !self.waits && !is_idle;
        let responses = f64::from(self.sample.responses);
        if last.is_none()
            || are_more_to_come
            || self.sample.responses < RESPONSES
            || self.sample.within * responses < TIMES * self.sample.took
        {
            return None;
        }
        let sample = core::mem::take(&mut self.sample);
        let before = self.found;
        if 2 * sample.unknown > sample.asked {
            self.forget();
        } else {
            self.measured(&sample);
        }
        if self.found.to_bits() == before.to_bits() {
            return None;
        }
        self.changed = now;
        let took = if is_idle { 0.0 } else { sample.took / responses };
        self.settled = Time(now.0.saturating_add(took as u64));
        Some(Duration(self.found as u64))
    }

    /// Nothing was found, or what was is of no use.
    pub(super) fn forget(&mut self) {
        *self = Self::new(self.budget, Duration(self.covered as u64));
    }

    fn measured(&mut self, sample: &Sample) {
        let used = sample.on_the_link / sample.within.max(1.0);
        let (trial, not_full) = (self.trial.take(), self.not_full.take());
        if sample.lost {
            if self.found > 0.0 {
                self.most = 0.9 * self.found;
                self.for_more.grow();
                let cut = CUT * self.found;
                self.set(match trial {
                    Some(Trial::More { before, .. }) if before > 0.0 => cut.min(before),
                    _ => cut,
                });
            }
            return;
        }
        match trial {
            Some(Trial::More { before, used: used_before }) if used < FULL && used <= used_before * PAYS => {
                self.for_more.grow();
                return self.set(before);
            }
            Some(Trial::Less { before, used: used_before }) if used < FULL || used < used_before * COSTS => {
                self.for_less.grow();
                return self.set(before);
            }
            // Far from what was too much.
            Some(Trial::More { .. }) if 2.0 * self.found < self.most => self.for_more = Patience::NONE,
            Some(Trial::Less { .. }) => self.for_less = Patience::NONE,
            _ => {}
        }
        let took = sample.took / f64::from(sample.responses);
        // For so long the link is busy with as many such responses as the budget has room for.
        let at_once = (self.budget.0 as f64 * f64::from(sample.responses) / sample.cost.max(1.0)).max(1.0);
        let covered = at_once * sample.on_the_link / f64::from(sample.responses);
        if used >= FULL {
            let least = took - covered;
            if self.found > least.max(0.0) && self.for_less.allows() {
                self.trial = Some(Trial::Less { before: self.found, used });
                self.set((self.found - (LESS * self.found).min(LESS_OF_BUDGET * self.covered)).max(least));
            }
            return;
        }
        if !self.for_more.allows() {
            return;
        }
        if self.found == 0.0 && not_full.is_none() {
            self.not_full = Some(took);
            return;
        }
        let took = took.min(not_full.unwrap_or(took));
        let most = if self.found > 0.0 { self.most.min(2.0 * self.found) } else { self.most };
        let more = (took - covered).max(MORE * (covered + self.found) - covered).min(took).min(most);
        // What was too much may have been so then.
        self.most *= FORGETS;
        if more > self.found {
            self.trial = Some(Trial::More { before: self.found, used });
            self.set(more);
        }
    }

    /// So little that the budget covers it is nothing.
    fn set(&mut self, found: f64) {
        self.found = if found < self.covered / 8.0 { 0.0 } else { found };
    }
}
