//! Servers that think: what they hold of a budget meanwhile.
//!
//! While a server thinks, nothing of its response is in the port, and its request need not hold a part of the budget. But all
//! that is asked for while others think may answer at once. So requests go at the pace at which the link brings their responses:
//! as if servers answered at once, and the link carried one response after the other. What would then be under way has to fit
//! into the budget. After the time that servers think, the responses come at the same pace.
//!
//! Of responses that are larger than their windows several come side by side. Then each has its window under way until it is nearly
//! over, and up to twice as many windows are under way as with one response after the other. What the port may have no room for counts
//! until the link would have brought the response.
//!
//! Responses that are late by that reckoning count, too, until they are complete. So servers that think for longer than was said
//! leave less to others, and nothing is let go at the pace of a link of which others have taken a part.
//!
//! A few servers need no pace: what the port holds at once has room for all that they can have under way. If it had for all that was wanted
//! at once in the last bursts that the pace held back, requests go ahead of it. A loss has that wait for twice as many bursts. More may be wanted after that, so each that has gone ahead counts until it is over, and a
//! quarter more than others do until the link would have brought them.

use alloc::collections::VecDeque;

use super::super::{Grant, Outcome, Outstanding, RequestId};
use super::think_time::ThinkTime;
use crate::units::{Bytes, Duration, Rate, Time};

/// Bytes that come with each segment on Ethernet: preamble, gap, its header and that of IP, and that of TCP with timestamps.
const HEADERS: Bytes = Bytes(90);
/// The payload that the port is assumed to hold, in quarters of the budget. With a planned budget it holds 1.3 budgets.
const QUARTERS_IN_THE_PORT: u128 = 5;
/// How many bursts in a row must have fitted before requests may go ahead of the pace: at first, and at most, as each loss doubles the number.
const LEAST_BURSTS: u32 = 2;
const MOST_BURSTS: u32 = 256;
/// A response that takes so much longer than twice the think time was lost in part, though nothing came out of order: a timeout takes longer.
const LATE: Duration = Duration::from_ms(100);
/// Clocks of several threads may be this far apart. A clock that goes back by more is another one.
const ASTRAY: Duration = Duration::from_ms(1);

/// What is wanted at once, from a request that finds nothing under way until nothing is.
#[derive(Clone, Copy, Debug, Default)]
struct Burst {
    /// Bytes on the wire, about: those under way and those that wait.
    wanted: u128,
    /// Whether the pace held a request back, or one went ahead of it.
    is_held: bool,
    goes_ahead: bool,
    lost: bool,
}

/// Whether requests may go ahead of the pace.
#[derive(Clone, Copy, Debug)]
struct Bursts {
    now: Burst,
    /// Bursts in succession of which all would have fitted, of those that the pace held back.
    few: u32,
    /// How many of these it takes.
    needed: u32,
}

impl Bursts {
    const NEW: Self =
        Self { now: Burst { wanted: 0, is_held: false, goes_ahead: false, lost: false }, few: 0, needed: LEAST_BURSTS };

    /// Another burst begins, behind a port that holds so much.
    fn begin(&mut self, port: u128) {
        let last = core::mem::take(&mut self.now);
        if last.lost || last.wanted > port {
            self.few = 0;
        } else if last.is_held {
            self.few = self.few.saturating_add(1);
            if last.goes_ahead {
                self.needed = (self.needed - 1).max(LEAST_BURSTS);
            }
        }
    }

    const fn on_loss(&mut self) {
        if !self.now.lost {
            self.now.lost = true;
            let twice = 2 * self.needed;
            self.needed = if twice < MOST_BURSTS { twice } else { MOST_BURSTS };
        }
    }

    /// The pace holds a request back. Whether it goes ahead.
    const fn hold(&mut self, port: u128, is_watched: bool) -> bool {
        self.now.is_held |= is_watched;
        let goes_ahead = is_watched && !self.now.lost && self.now.wanted <= port && self.few >= self.needed;
        self.now.goes_ahead |= goes_ahead;
        goes_ahead
    }
}

/// A request that is in time.
#[derive(Clone, Copy, Debug)]
struct InTime {
    /// When its response should be complete.
    until: Time,
    /// When it was let go, or later.
    at: Time,
    id: RequestId,
    /// Nothing once it is over.
    cost: Bytes,
    /// What it costs beside others until then, if it has gone ahead of the pace.
    ahead: Bytes,
}

/// What is asked for and not under way yet.
#[derive(Clone, Debug)]
pub(super) struct Thinking {
    think: Duration,
    rate: Rate,
    segment: Bytes,
    /// The latest time that was told.
    now: Time,
    /// When the link would have brought all responses, if servers answered at once.
    link_free: Time,
    /// Responses that it would still have to bring: until when, and what they cost beside others.
    to_bring: VecDeque<(Time, Bytes)>,
    to_bring_cost: u128,
    /// Requests that are in time, in the order of both of their times.
    in_time: VecDeque<InTime>,
    in_time_cost: u128,
    /// What those of them that have gone ahead of the pace cost beside others.
    ahead_cost: u128,
    /// Whether the request that fitted last goes ahead of the pace.
    goes_ahead: bool,
    bursts: Bursts,
    /// When the request that is next may go, if only the pace holds it back.
    lets_go: Option<Time>,
    /// What finds out how long they think.
    learned: Option<ThinkTime>,
}

impl Thinking {
    /// Servers answer after `think`, over a link of this `rate`. A full segment carries `segment` bytes of payload.
    pub(super) const fn new(think: Duration, rate: Rate, segment: Bytes) -> Self {
        Self {
            think,
            rate,
            segment,
            now: Time(0),
            link_free: Time(0),
            to_bring: VecDeque::new(),
            to_bring_cost: 0,
            in_time: VecDeque::new(),
            in_time_cost: 0,
            ahead_cost: 0,
            goes_ahead: false,
            bursts: Bursts::NEW,
            lets_go: None,
            learned: None,
        }
    }

    /// Finds out how long servers think.
    pub(super) fn finding_out(self, budget: Bytes) -> Self {
        let learned = Some(ThinkTime::new(budget, self.rate.time_for(budget)));
        Self { learned, ..self }
    }

    /// How long servers are taken to think.
    pub(super) const fn think(&self) -> Duration {
        self.think
    }

    /// Whether a request waits.
    pub(super) const fn waits(&mut self, waits: bool) {
        if let Some(learned) = &mut self.learned {
            learned.waits(waits);
        }
    }

    /// What the requests cost together that are in time.
    pub(super) fn cost(&self) -> Bytes {
        Bytes(u64::try_from(self.in_time_cost).unwrap_or(u64::MAX))
    }

    /// When the request that is next may go, if nothing else happens before.
    pub(super) const fn lets_go(&self) -> Option<Time> {
        self.lets_go
    }

    /// Nothing is to be let go, until it is asked again what fits.
    pub(super) const fn forget_timer(&mut self) {
        self.lets_go = None;
    }

    /// Whether a request of this `cost` may go beside what is outstanding. It is the first of `waiting` requests, and `is_watched` if somebody
    /// will say whether its response lost data. If only the pace holds it back, [`lets_go`](Self::lets_go) then says until when.
    pub(super) fn fits(
        &mut self,
        now: Time,
        cost: Bytes,
        budget: Bytes,
        outstanding: Outstanding,
        (waiting, is_watched): (usize, bool),
    ) -> bool {
        self.go_on(now);
        self.goes_ahead = false;
        let port = u128::from(budget.0) * QUARTERS_IN_THE_PORT / 4;
        let on_the_wire = self.on_the_wire(port);
        if outstanding.requests == 0 {
            self.bursts.begin(on_the_wire);
        }
        // Small responses take more of the port than their bytes.
        let wanted = outstanding.bytes + u128::from(cost.0).saturating_mul(waiting as u128);
        let wanted = wanted.saturating_mul(self.on_the_wire(cost.0.into())) / u128::from(cost.0.max(1));
        self.bursts.now.wanted = self.bursts.now.wanted.max(wanted);
        if outstanding.requests == 0 {
            return true;
        }
        if self.think == Duration::ZERO {
            return outstanding.bytes + u128::from(cost.0) <= u128::from(budget.0);
        }
        // A second window bridges the time by which a timer is late.
        let has_room_for_two = 2 * self.on_the_wire(cost.0.into()) <= on_the_wire;
        let budget = u128::from(budget.0).max(if has_room_for_two { 2 * u128::from(cost.0) } else { 0 });
        // More than the budget goes alone.
        let late = outstanding.bytes - self.in_time_cost;
        let room = budget.saturating_sub(u128::from(cost.0));
        let Some(room) = room.checked_sub(late) else { return false };
        if self.fits_at_its_pace(room) {
            return true;
        }
        self.goes_ahead = self.bursts.hold(on_the_wire, is_watched);
        if self.goes_ahead {
            self.lets_go = None;
        }
        self.goes_ahead
    }

    /// Whether what the link would still have to bring leaves so much room, or when it will.
    fn fits_at_its_pace(&mut self, room: u128) -> bool {
        let Some(room) = room.checked_sub(self.ahead_cost) else {
            // Once it is late it counts for less.
            self.lets_go = self.in_time.iter().find(|request| request.ahead > Bytes::ZERO).map(|request| request.until);
            return false;
        };
        let mut left = self.to_bring_cost;
        for &(until, cost) in &self.to_bring {
            if left <= room {
                break;
            }
            left -= u128::from(cost.0);
            self.lets_go = Some(until);
        }
        self.lets_go.is_none()
    }

    /// The timer went off: it was told how many segments came out of order.
    pub(super) const fn on_timer(&mut self, out_of_order: u64) {
        self.forget_timer();
        if out_of_order > 0 {
            self.bursts.on_loss();
            if let Some(learned) = &mut self.learned {
                learned.on_loss();
            }
        }
    }

    /// A request was let go; `response` is the size of its response, and `is_watched` whether it will be told if data was lost.
    pub(super) fn on_granted(&mut self, id: RequestId, cost: Bytes, response: Bytes, is_watched: bool) {
        if let Some(learned) = &mut self.learned {
            learned.on_granted(self.now, is_watched);
        }
        if self.think == Duration::ZERO {
            return;
        }
        self.link_free = later(self.link_free.max(self.now), self.on_the_link(response));
        let side_by_side = side_by_side(cost, response);
        let mut ahead = Bytes::ZERO;
        if self.goes_ahead {
            ahead = Bytes(side_by_side.0.saturating_add(side_by_side.0 / 4));
            self.ahead_cost += u128::from(ahead.0);
        } else {
            self.to_bring.push_back((self.link_free, side_by_side));
            self.to_bring_cost += u128::from(side_by_side.0);
        }
        self.in_time.push_back(InTime { until: later(self.link_free, self.think), at: self.now, id, cost, ahead });
        self.in_time_cost += u128::from(cost.0);
    }

    /// How long the link takes for a response.
    fn on_the_link(&self, response: Bytes) -> Duration {
        let bytes = self.on_the_wire(response.0.into());
        self.rate.time_for(Bytes(u64::try_from(bytes).unwrap_or(u64::MAX)))
    }

    /// So many bytes with the headers of their segments.
    fn on_the_wire(&self, bytes: u128) -> u128 {
        bytes + bytes.div_ceil(self.segment.0.into()) * u128::from(HEADERS.0)
    }

    /// A request is over. What is left is outstanding.
    pub(super) fn on_finished(&mut self, now: Time, grant: &Grant, outcome: &Outcome, outstanding: Outstanding) {
        self.go_on(now);
        let longest = Duration(self.think.0.saturating_mul(2).saturating_add(LATE.0));
        let is_late = self.think != Duration::ZERO && self.now.since(self.link_free.max(grant.at())) > longest;
        if outcome.out_of_order > 0 || is_late {
            self.bursts.on_loss();
        }
        let (on_the_link, is_idle) = (self.on_the_link(outcome.received), outstanding.requests == 0);
        if let Some(learned) = &mut self.learned
            && let Some(think) = learned.on_finished(now, grant, on_the_link, outcome.out_of_order > 0, is_idle)
        {
            self.set(think);
        }
        if is_idle {
            // The port is empty, whatever was expected.
            self.forget();
            return;
        }
        let from = self.in_time.partition_point(|request| request.at < grant.at());
        if let Some(request) = self.in_time.range_mut(from..).find(|request| request.id == grant.id()) {
            self.in_time_cost -= u128::from(request.cost.0);
            self.ahead_cost -= u128::from(request.ahead.0);
            (request.cost, request.ahead) = (Bytes::ZERO, Bytes::ZERO);
        }
    }

    /// Servers think for so long. If that is less than before, those that think now are late sooner.
    fn set(&mut self, think: Duration) {
        let less = self.think.0.saturating_sub(think.0);
        self.think = think;
        if think == Duration::ZERO {
            self.forget();
        }
        for request in &mut self.in_time {
            request.until = Time(request.until.0.saturating_sub(less));
        }
    }

    /// Time goes on.
    fn go_on(&mut self, now: Time) {
        if now.0.saturating_add(ASTRAY.0) < self.now.0 {
            self.forget();
            self.now = now;
            if let Some(learned) = &mut self.learned {
                learned.forget();
                self.think = Duration::ZERO;
            }
        }
        self.now = self.now.max(now);
        while let Some(&(until, cost)) = self.to_bring.front()
            && until <= self.now
        {
            self.to_bring_cost -= u128::from(cost.0);
            self.to_bring.pop_front();
        }
        while let Some(request) = self.in_time.front()
            && request.until <= self.now
        {
            self.in_time_cost -= u128::from(request.cost.0);
            self.ahead_cost -= u128::from(request.ahead.0);
            self.in_time.pop_front();
        }
    }

    /// Whether a request that has gone ahead is in time.
    #[cfg(test)]
    pub(super) const fn has_gone_ahead(&self) -> bool {
        self.ahead_cost > 0
    }

    /// Whether what is counted together is what is counted for each.
    #[cfg(test)]
    pub(super) fn adds_up(&self) -> bool {
        let in_all = |costs: &mut dyn Iterator<Item = Bytes>| costs.map(|cost| u128::from(cost.0)).sum::<u128>();
        self.in_time_cost == in_all(&mut self.in_time.iter().map(|request| request.cost))
            && self.ahead_cost == in_all(&mut self.in_time.iter().map(|request| request.ahead))
            && self.to_bring_cost == in_all(&mut self.to_bring.iter().map(|&(_, cost)| cost))
    }

    fn forget(&mut self) {
        self.link_free = Time(0);
        self.to_bring.clear();
        self.in_time.clear();
        (self.to_bring_cost, self.in_time_cost, self.ahead_cost) = (0, 0, 0);
    }
}

/// What a request costs until the link would have brought its response, as others come beside it.
///
/// With small windows the link brings all unfinished responses at the same pace. If the bytes left to bring make up some number of whole
/// responses, up to twice as many may be unfinished: the latest lack everything, the earliest next to nothing, and each has a window under way.
/// A response of a single window never has more under way than it lacks.
fn side_by_side(cost: Bytes, response: Bytes) -> Bytes {
    let (cost, response) = (u128::from(cost.0), u128::from(response.0.max(1)));
    let windows = cost.saturating_mul(2 * response - cost.min(response)) / response;
    Bytes(u64::try_from(cost.max(windows / QUARTERS_IN_THE_PORT * 4)).unwrap_or(u64::MAX))
}

/// As late as can be said, where that is too late.
const fn later(at: Time, by: Duration) -> Time {
    Time(at.0.saturating_add(by.0))
}
