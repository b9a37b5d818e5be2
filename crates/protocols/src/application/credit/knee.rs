//! The search for the knee: a budget of bytes learned from what comes back. It grows only while goodput grows with it, and
//! is cut where data is lost.
//!
//! A budget that is too large is found out by a timeout of 200 ms, or a hundred ideal queries. So the search does not go on
//! until something is lost, as congestion control does: doubling must pay 10 %, and where it does not, the path is full, or nearly so if it
//! pays 5 %. From then on it holds, and tries now a little more, now less. Segments beyond a gap, and a stall, cut what was under way to 0.7,
//! or to a budget with which nothing was lost before.
//!
//! **Connections that are new** have wide windows, which get small only as data comes. Meanwhile a request costs so much that it goes
//! alone, and the budget grows beyond that cost to find out whether two at once pay. Once windows are small, many would go at once with
//! such a budget, and nobody knows whether the port holds them. So the search then begins anew, with what has done no harm. It does not
//! double that if goodput is so near to what it was before that a doubling could not pay.
//!
//! **Others at the same port.** Long flows keep the port full and lose data, whatever the budget is. Cuts then leave the link
//! to the long flows: less is worse. So once one request at a time is left, or a cut has cost a fifth of the goodput, the search doubts
//! its cuts: it measures goodput with what is left, and with half as much again. If data is lost with both and more pays, the losses are
//! those of others; and so are those of requests with small windows that go one at a time, as these overflow no port. From then on
//! it goes by goodput alone: the budget grows while that pays, and where all requests are under way, their windows do. Now and then it
//! tries no limit at all. When goodput falls again and again, the budget gets less, and if that does not last, losses count again.
//!
//! **Servers that think** hold their part of the budget though nothing of theirs is in the port. All that the port holds at once is then
//! too little to keep the link busy, but more at once overflows it, as all of it answers at once. So how long responses take is watched,
//! too. If that stays nearly the same when less or more is under way, they do not wait for the link. Then more is tried at a pace: half of
//! what has fitted goes at once, and the rest as fast as the budget comes back, in steps of what the port holds. If the link is full after
//! such a step, no more than that waits in the port.
//!
//! A loss does not cut the budget while a single request is under way: after a cut there would still be one. Nor does it where far less was
//! under way than has come without a loss.
//!
//! **Requests that [hang](super::hanging)** are one stall. From a second after it they hold no part of the budget, and time in which nothing else
//! is under way does not count.

use super::super::{Grant, Outcome, Outstanding};
use super::hanging::Hanging;
use super::pace::Pace;
use crate::registry::Conflict;
use crate::units::{Bytes, Duration, Time};

/// How the budget is learned.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Search {
    /// A doubled budget is doubled again if goodput grows by this factor.
    #[schemars(range(min = 1.0, max = 2.0))]
    pub growth_pays: f64,
    /// More stays if goodput grows by this factor.
    #[schemars(range(min = 1.0, max = 2.0))]
    pub trial_pays: f64,
    /// What a cut leaves of the budget.
    #[schemars(range(min = 0.1, max = 0.99))]
    pub cut: f64,
    /// Measurements from one trial to the next.
    #[schemars(range(min = 1))]
    pub hold: u32,
    /// Nothing arrived for so long, and for twice as long as a request usually takes: a stall.
    pub stall: Duration,
    /// Whether it may do without a limit where cuts do not help.
    pub free: bool,
}

impl Default for Search {
    fn default() -> Self {
        Self { growth_pays: 1.10, trial_pays: 1.05, cut: 0.7, hold: 12, stall: Duration::from_ms(50), free: true }
    }
}

/// The search counts in multiples of a stall, and a program that comes late asks once for each that has passed.
const STALLS: core::ops::RangeInclusive<Duration> = Duration::from_ms(1)..=Duration::from_ms(24 * 60 * 60 * 1000);

impl Search {
    /// Whether its numbers make sense.
    ///
    /// # Errors
    /// The first that does not.
    pub fn check(&self) -> Result<(), Conflict> {
        let Self { growth_pays, trial_pays, cut, hold, stall, free: _ } = self;
        let refuse = |key, found: &dyn core::fmt::Display, expected| {
            Err(Conflict::at(key, alloc::format!("found {found}, expected {expected}")))
        };
        for (key, factor) in [("growth_pays", growth_pays), ("trial_pays", trial_pays)] {
            if !(1.0..=2.0).contains(factor) {
                return refuse(key, factor, "1 to 2");
            }
        }
        if !(0.1..=0.99).contains(cut) {
            return refuse("cut", cut, "0.1 to 0.99");
        }
        if *hold == 0 {
            return refuse("hold", hold, "1 or more");
        }
        if !STALLS.contains(stall) {
            return refuse("stall", stall, "a millisecond to a day");
        }
        Ok(())
    }
}

/// Why the budget changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// More pays, or is tried.
    More,
    /// More did not pay: as before.
    Back,
    /// Less is tried.
    Less,
    /// Segments arrived beyond a gap.
    OutOfOrder,
    /// Nothing arrived for long.
    Stall,
    /// Cuts do not help: no limit for a while.
    Free,
    /// The limit is back.
    Limited,
}

impl Why {
    /// Whether it is a cut.
    #[must_use]
    pub const fn is_cut(self) -> bool {
        matches!(self, Self::OutOfOrder | Self::Stall)
    }

    /// A name for counters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::More => "more",
            Self::Back => "back",
            Self::Less => "less",
            Self::OutOfOrder => "out-of-order",
            Self::Stall => "stall",
            Self::Free => "free",
            Self::Limited => "limited",
        }
    }
}

/// A measurement covers at least this many responses, and this many budgets of bytes; if it does not end idle, more of them.
const RESPONSES: u64 = 4;
const BUDGETS_TO_IDLE: u128 = 2;
const BUDGETS: u128 = 8;
/// Where losses do not count, or are weighed: what was lost last shows at the end of a query only.
const BUDGETS_WITH_LOSSES: u128 = 64;
/// Who knows only of whole responses errs by those that are under way: one measurement has this many times more of them if it
/// began idle, or fewer, as those under way at its beginning make up for those at its end.
const TIMES_OUTSTANDING_FROM_IDLE: u64 = 16;
const TIMES_OUTSTANDING: u64 = 4;
/// Measurements by which limit and no limit are compared.
const COMPARED: u32 = 3;
/// Measurements with a limit before none is tried.
const BEFORE_FREE: u32 = 6;
/// Measurements until windows are wide that were limited.
const UNTIL_WIDE: u32 = 2;
/// How many times longer than the comparisons in between it goes without a limit: they cost one part in this many.
const FREE_PER_COMPARED: f64 = 50.0;
const LONGEST_FREE: u32 = 5000;
/// Goodput that is less than what it was by more than noise.
const WORSE: f64 = 0.97;
/// Responses do not wait for the link if at least this part of a change leaves their times as they were.
const SHOWS: f64 = 0.25;
/// A change of what is under way by less shows nothing.
const LEAST_CHANGE: f64 = 0.15;
/// By which part of what is under way more is tried at a pace, at least.
const PACED_STEP: f64 = 0.2;
/// The least part of a step that is tried after losses.
const LEAST_PART: f64 = 0.125;
/// Measurements from the end of growth to the first trial.
const BEFORE_FIRST_TRIAL: u32 = 2;
/// So many losses of requests with small windows that go one at a time are those of others.
const OTHERS: u32 = 2;
/// A cut that has left less than this of the goodput is doubted.
const COSTS: f64 = 0.8;
/// A measurement whose goodput is far below the usual adds two, any other takes one away. From this sum on, goodput has fallen for long.
const FALLEN: u32 = 5;
/// Windows get at most this many times as wide. Then they limit no response.
const WIDEST: u64 = 1 << 10;
const MOST_CAUTION: u32 = 16;
/// What was under way when the budget was cut is waited for as long as this many stalls.
const LONGEST_OUTLIVED: u64 = 20;
/// Where less than one part in this many was under way of what has come without a loss, a loss says nothing of the budget.
const FAR_LESS: u64 = 4;
/// More than any port holds.
const MOST: u64 = 1 << 30;
/// Most holds from one trial without limit to the next.
const MOST_PATIENCE: u32 = 64;

/// The state of the search.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Growing; the last budget that paid, its goodput, and whether windows were doubled after it.
    Up { paid: Option<(Bytes, f64)>, widened: bool },
    /// The budget stays for this many measurements.
    Hold { left: u32 },
    /// The budget was cut, and not all has come in that was under way then.
    Cut,
    /// Does more pay than what cuts have left? That and its goodput, once it is known; and whether data was lost with it.
    Doubt { low: Option<(Bytes, f64)>, lost: bool },
    /// More than `back`.
    Try { back: Bytes },
    /// Less than `back`.
    Less { back: Bytes },
    /// No limit for this many measurements: a trial, or because that pays.
    Free { left: u32, trial: bool },
}

/// What has come back since the last measurement.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    received: u128,
    /// Some of it was told only with whole responses.
    whole: bool,
    /// Something was under way when it began.
    warm: bool,
    responses: u64,
    /// How long these took together.
    took: u128,
    /// The most that came of one.
    response: Bytes,
    /// Time in which something was under way, without the present stretch.
    busy: Duration,
    /// A request had to wait, or would have.
    limited: bool,
    /// Largest cost of a request that was let go, and the most that was under way then.
    largest: Bytes,
    most: Bytes,
}

#[expect(clippy::struct_excessive_bools, reason = "independent facts, not a state in disguise")]
/// The search of one aggregator. It is told what becomes of grants, and says how many bytes may be under way.
#[derive(Clone, Debug)]
pub struct Knee {
    search: Search,
    segment: Bytes,
    /// The budget that it began with.
    start: Bytes,
    budget: Bytes,
    /// Losses have shown that this is too much; it is forgotten by and by.
    ceiling: Bytes,
    phase: Phase,
    /// Whether the next trial is of less.
    less_is_next: bool,
    /// Budget and goodput before the cuts of late.
    top: Option<Bytes>,
    before: Option<f64>,
    /// Average goodput with the present budget.
    recent: Option<f64>,
    /// How many times as long as usual it holds, as trials have done harm.
    caution: u32,
    sample: Sample,
    /// A request waits, or would.
    waits: bool,
    /// Since when something has been under way, or come in.
    busy_since: Option<Time>,
    /// Nothing has come in of this query.
    filling: bool,
    /// Nothing is under way, but a request waits: the query goes on.
    follows: bool,
    /// A request waits.
    is_followed: bool,
    /// Largest cost since then, and the most that was under way.
    largest: Bytes,
    most: Bytes,
    /// The budget was raised because a request that went alone cost more than it: that cost, and the budget before.
    raised: Option<(Bytes, Bytes)>,
    /// How often data was lost with the present budget while requests with small windows went one at a time.
    lost_alone: u32,
    /// Data was lost with the present budget, which is more than cuts had left, and is measured.
    lost: bool,
    /// Since the last hold more has been taken back than cuts had left, although data was lost with it.
    taken_back: bool,
    /// When the budget was cut, and how many requests of then are not over yet: what these tell is known.
    cut_at: Time,
    old: u64,
    /// Average goodput with the limit, in bytes per picosecond, and without it.
    limited: Option<f64>,
    free: Option<f64>,
    /// Losses do not count: only goodput does.
    deaf: bool,
    /// How many times as wide as usual windows are.
    wide: u64,
    /// The pace of requests, kept while the budget is more than fits at once.
    pace: Option<Pace>,
    /// The data that was lost went at once, and no trial was on.
    is_surprised: bool,
    /// Whether responses wait for the link is found out by the next trial of less.
    finds_out: bool,
    /// Which part of what was changed of late did not wait for the link: all where servers think, nothing where the link is full.
    shows: Option<f64>,
    /// The most that was under way with the budget from which less or more is tried, and how long a response took.
    held_most: Bytes,
    held_took: Option<f64>,
    /// The most that was under way in the last measurement, and how long a response took, on average, in picoseconds.
    filled: Bytes,
    took: Option<f64>,
    /// The part of a step that is tried at a pace, as whole ones have lost data.
    part: f64,
    /// How often goodput was much less than usual of late; [`FALLEN`].
    fallen: u32,
    /// How often that has gone on for long, and after how many times losses count again.
    falls: u32,
    falls_to_hear: u32,
    /// While they do not: trials until no limit is tried again, and between the next two times.
    free_in: u32,
    free_every: u32,
    /// Measurements in the former.
    compared: u32,
    /// The last call.
    now: Time,
    /// When payload arrived last, or began to be awaited.
    progress: Time,
    stalled: bool,
    last_stall: Option<Time>,
    outstanding: Outstanding,
    hanging: Hanging,
    /// When bytes came last, as far as that was told.
    told: Option<Time>,
    /// How long a request usually takes.
    usual: Option<Duration>,
    changes: u64,
    last_change: Option<Why>,
}

impl Knee {
    /// A search that begins with a budget of `start`, in steps of `segment` bytes.
    #[must_use]
    pub fn new(search: &Search, segment: Bytes, start: Bytes) -> Self {
        Self {
            search: search.clone(),
            segment,
            start: start.max(segment),
            budget: start.max(segment),
            ceiling: Bytes(MOST),
            phase: Phase::Up { paid: None, widened: false },
            less_is_next: false,
            top: None,
            before: None,
            recent: None,
            caution: 1,
            sample: Sample::default(),
            waits: false,
            busy_since: None,
            filling: true,
            follows: false,
            is_followed: false,
            largest: Bytes::ZERO,
            most: Bytes::ZERO,
            raised: None,
            lost_alone: 0,
            lost: false,
            taken_back: false,
            cut_at: Time(0),
            old: 0,
            limited: None,
            free: None,
            deaf: false,
            wide: 1,
            pace: None,
            is_surprised: false,
            finds_out: false,
            shows: None,
            held_most: Bytes::ZERO,
            held_took: None,
            filled: Bytes::ZERO,
            took: None,
            part: 1.0,
            fallen: 0,
            falls: 0,
            falls_to_hear: 1,
            free_in: 0,
            free_every: 1,
            compared: 0,
            now: Time(0),
            progress: Time(0),
            stalled: false,
            last_stall: None,
            outstanding: Outstanding::default(),
            hanging: Hanging::default(),
            told: None,
            usual: None,
            changes: 0,
            last_change: None,
        }
    }

    /// Bytes that may be under way; `None`: as many as there are.
    #[must_use]
    pub const fn budget(&self) -> Option<Bytes> {
        match self.phase {
            Phase::Free { .. } => None,
            _ => Some(self.budget),
        }
    }

    /// How many times as wide as usual the windows may be.
    #[must_use]
    pub const fn wide(&self) -> u64 {
        self.wide
    }

    /// Whether the pace lets a request go. If only it does not, [`lets_go`](Self::lets_go) then says until when.
    pub(super) fn paces(&mut self, now: Time, cost: Bytes, outstanding: Outstanding) -> bool {
        let (Some(pace), Some(usual)) = (&mut self.pace, self.usual) else { return true };
        if self.hanging.moving(outstanding).requests == 0 {
            pace.empty();
            return true;
        }
        !pace.is_for(self.budget) || pace.fits(now, cost, self.budget, usual)
    }

    /// When the request that is next may go, if only the pace holds it back.
    pub(super) fn lets_go(&self) -> Option<Time> {
        self.pace.as_ref().and_then(Pace::lets_go)
    }

    /// It is asked anew what may go: nothing has its time, nor has a request to wait.
    pub(super) fn ask_anew(&mut self, now: Time) {
        self.is_followed = false;
        if self.hanging.forget_later_than(now) || self.progress > now {
            // By another clock, so that silence begins anew.
            (self.progress, self.stalled) = (now, false);
            self.busy_since = (self.outstanding.requests > 0).then_some(now);
        }
        if let Some(pace) = &mut self.pace {
            pace.forget_timer();
        }
    }

    /// Whether a request of this `cost` fits into the budget beside what is outstanding.
    pub(super) fn fits(&self, cost: Bytes, outstanding: Outstanding) -> bool {
        let Outstanding { requests, bytes } = self.hanging.moving(outstanding);
        requests == 0 || self.budget().is_none_or(|budget| bytes + u128::from(cost.0) <= u128::from(budget.0))
    }

    /// When the request that waits may go as all others hang then.
    pub(super) fn hangs_at(&self) -> Option<Time> {
        if !self.is_followed {
            return None;
        }
        let after = |from: Time, time: Duration| Time(from.0.saturating_add(time.0));
        let silent = after(self.silent_since()?, self.long());
        Some(silent.max(after(self.progress, self.patience_for_bytes())))
    }

    fn hang(&mut self) {
        self.hanging.hang(self.outstanding);
        self.busy_since = None;
        if core::mem::take(&mut self.old) > 0 {
            self.outlived();
        }
        self.sample = Sample::default();
    }

    /// Since when nothing has come of what is under way, as far as anybody has told.
    pub(super) fn silent_since(&self) -> Option<Time> {
        self.hanging.since(self.outstanding)
    }

    /// What is under way and does not hang.
    #[cfg(test)]
    pub(super) fn moving(&self, outstanding: Outstanding) -> Outstanding {
        self.hanging.moving(outstanding)
    }

    /// How long nothing must have come of what hangs.
    const fn long(&self) -> Duration {
        Duration(LONGEST_OUTLIVED.saturating_mul(self.search.stall.0))
    }

    /// How often the budget has changed, and why it did last.
    #[must_use]
    pub const fn changes(&self) -> (u64, Option<Why>) {
        (self.changes, self.last_change)
    }

    /// Whether less has not helped against losses.
    #[must_use]
    pub const fn losses_of_others(&self) -> bool {
        self.deaf
    }

    /// A request was let go; with it, so much is under way.
    pub fn on_granted(&mut self, now: Time, cost: Bytes, under_way: Outstanding) {
        self.now = now;
        let awaited = !self.hanging.is_still(self.outstanding);
        self.outstanding = under_way;
        let under_way = self.hanging.moving(under_way);
        if let (Some(pace), Some(usual)) = (&mut self.pace, self.usual) {
            pace.on_granted(now, cost, self.budget, usual);
        }
        if self.busy_since.is_none() {
            self.busy_since = Some(now);
            self.filling = !core::mem::take(&mut self.follows);
            (self.largest, self.most) = (Bytes::ZERO, Bytes::ZERO);
        }
        if !awaited {
            (self.progress, self.stalled) = (now, false);
        }
        self.largest = self.largest.max(cost);
        self.most = self.most.max(under_way.bytes());
        self.sample.largest = self.sample.largest.max(cost);
        self.sample.most = self.sample.most.max(under_way.bytes());
        // Where there is no limit, what counts is whether there would be one.
        self.waits = under_way.bytes > u128::from(self.budget.0);
        self.sample.limited |= self.waits;
    }

    /// A request has to wait.
    pub fn on_refused(&mut self) {
        (self.waits, self.is_followed) = (true, true);
        self.sample.limited = true;
    }

    /// So much payload arrived.
    pub fn on_progress(&mut self, now: Time, received: Bytes, under_way: Outstanding) {
        let known = self.progress;
        self.look_at(now, under_way);
        // A look that is late says when something came last, but not how much, and responses may have been complete since.
        if received == Bytes::ZERO {
            self.progress = self.progress.max(known);
        }
        if core::mem::take(&mut self.filling) && received > Bytes::ZERO && self.busy_since.is_some() {
            // The first byte of a query takes its time with any budget.
            self.busy_since = Some(now);
        }
        self.hanging.on_data(under_way);
        if received > Bytes::ZERO {
            self.told = Some(now);
        }
        if self.busy_since.is_none() {
            // It is of what hangs.
            return;
        }
        self.sample.received += u128::from(received.0);
        let under_way = self.hanging.moving(under_way);
        if !self.sample.whole && under_way.requests > 0 {
            self.look_at_sample(now, under_way);
        }
    }

    fn look_at(&mut self, now: Time, under_way: Outstanding) {
        self.now = now;
        self.look_for_stall(now, under_way);
        self.progress = now;
        self.stalled = false;
    }

    /// When nothing will have arrived for too long.
    #[must_use]
    pub fn stalls_at(&self) -> Option<Time> {
        let awaited = self.busy_since.is_some() && !self.stalled && !self.hanging.is_still(self.outstanding);
        // Before the first response nothing is cut, so a stall is of use only to those that wait.
        let awaited = awaited && (self.usual.is_some() || self.is_followed);
        awaited.then(|| Time(self.progress.0.saturating_add(self.patience_for_bytes().0)))
    }

    /// The time of [`stalls_at`](Self::stalls_at) has come, or that of a request that the pace has held back.
    pub fn on_timer(&mut self, now: Time, out_of_order: u64, under_way: Outstanding) {
        self.now = now;
        if self.hangs_at().is_some_and(|at| at <= now) {
            self.hang();
        }
        if let Some(pace) = &mut self.pace {
            pace.forget_timer();
        }
        if out_of_order > 0 && self.old == 0 {
            self.cut(Why::OutOfOrder, self.hanging.moving(under_way));
        }
        self.look_for_stall(now, under_way);
        if self.stalled {
            self.hanging.on_stall(now, under_way);
        }
        // It is asked next what may go.
        self.is_followed = false;
    }

    /// A request is over; without it, so much is under way.
    pub fn on_finished(&mut self, now: Time, grant: &Grant, outcome: &Outcome, under_way: Outstanding) {
        self.look_at(now, under_way);
        self.filling = false;
        self.outstanding = under_way;
        if self.hanging.on_finished(grant, under_way) {
            if self.usual.is_none() {
                // Servers may take longer than what hangs is given at first.
                self.note_usual(now, grant, outcome, now.since(grant.at()));
            }
            return;
        }
        let under_way = self.hanging.moving(under_way);
        let old = self.old;
        let of_old = u64::from(grant.at().0 <= self.cut_at.0);
        self.old = old.saturating_sub(of_old).min(under_way.requests);
        if now.since(self.cut_at) > self.long() {
            self.old = 0;
        }
        if outcome.out_of_order > 0 && old == 0 {
            self.cut(Why::OutOfOrder, under_way);
        }
        // What a stall has made late says little of how long requests usually take. But what is taken for a stall may be usual.
        let late = self.last_stall.is_some_and(|stall| stall.0 >= grant.at().0);
        let most =
            self.usual.filter(|_| late).map_or(Duration(u64::MAX), |usual| usual.doubled().max(self.search.stall));
        let took = now.since(grant.at()).min(most);
        self.note_usual(now, grant, outcome, took);
        if self.old == 0 && old > 0 {
            self.outlived();
        }
        self.sample.received += u128::from(outcome.received.0);
        self.sample.whole |= outcome.received.0 > 0;
        self.sample.responses += 1;
        self.sample.took += u128::from(took.0);
        self.sample.response = self.sample.response.max(outcome.received);
        self.look_at_sample(now, under_way);
        if under_way.requests == 0 {
            self.busy_since = None;
            self.follows = self.is_followed;
            self.old = 0;
        }
    }

    /// A request took so long. One of which nothing came was refused, unless nobody tells what comes.
    fn note_usual(&mut self, now: Time, grant: &Grant, outcome: &Outcome, took: Duration) {
        let (before, came) = (self.told, outcome.received > Bytes::ZERO);
        if came {
            self.told = Some(now);
        }
        let usual = match self.usual {
            // How soon others were refused says nothing.
            Some(_) if before.is_none() && came => now.since(grant.at()),
            Some(usual) if came || before.is_none() || before > Some(grant.at()) => {
                Duration(usual.0 - usual.0 / 16 + took.0 / 16)
            }
            Some(usual) => usual,
            None => took,
        };
        self.usual = Some(usual);
    }

    fn look_at_sample(&mut self, now: Time, under_way: Outstanding) {
        if self.old > 0 {
            return;
        }
        let idle = under_way.requests == 0;
        let stretch = self.busy_since.map_or(Duration::ZERO, |since| now.since(since));
        let busy = self.sample.busy.0.saturating_add(stretch.0);
        if self.is_complete(under_way) {
            let Sample { received, limited, largest, most, took, responses, .. } = core::mem::take(&mut self.sample);
            self.filled = most;
            self.took = (responses > 0).then(|| took as f64 / responses as f64);
            self.sample.warm = !idle;
            self.busy_since = Some(now);
            if let Some(before) = self.raised_for_more_than(largest.max(self.largest)) {
                self.begin_anew(before);
            } else if busy > 0 {
                self.measured(received as f64 / busy as f64, limited);
            }
        } else if idle && self.sample.whole && self.sample.warm {
            // What was under way when it began has come in, and nothing takes its place.
            self.sample = Sample::default();
        } else if idle {
            self.sample.busy = Duration(busy);
        }
    }

    fn is_complete(&self, under_way: Outstanding) -> bool {
        let Sample { received, whole, warm, responses, response, .. } = self.sample;
        let idle = under_way.requests == 0;
        if self.found_others() {
            // One at a time is what is left behind now. How good it was need not be known well.
            return responses > 0;
        }
        let weighs = self.deaf || self.before.is_some() || matches!(self.phase, Phase::Doubt { .. });
        let budgets = match (idle, weighs) {
            (true, _) => BUDGETS_TO_IDLE,
            (false, false) => BUDGETS,
            (false, true) => BUDGETS_WITH_LOSSES,
        };
        let enough = match (whole, idle, warm) {
            (false, _, _) | (true, true, false) => true,
            (true, true, true) => false,
            (true, false, warm) => {
                let is_tried = matches!(self.phase, Phase::Less { .. } | Phase::Try { .. });
                let times = if warm && self.before.is_none() && !is_tried {
                    TIMES_OUTSTANDING
                } else {
                    TIMES_OUTSTANDING_FROM_IDLE
                };
                received >= u128::from(response.0) * u128::from(times * under_way.requests)
            }
        };
        enough && responses >= RESPONSES && received >= budgets * u128::from(self.base().0)
    }

    /// As long as nothing may arrive. Before the first response nobody knows how long requests take.
    fn patience_for_bytes(&self) -> Duration {
        self.usual.map_or(self.long(), |usual| self.search.stall.max(usual.doubled()))
    }

    fn look_for_stall(&mut self, now: Time, under_way: Outstanding) {
        if self.stalls_at().is_some_and(|at| at.0 <= now.0) {
            self.stalled = true;
            self.last_stall = Some(now);
            // The first responses may be late, as servers have to warm up. They may also never come, and then they hang.
            if self.old == 0 && self.usual.is_some() {
                self.cut(Why::Stall, self.hanging.moving(under_way));
            }
        }
    }

    fn cut(&mut self, why: Why, under_way: Outstanding) {
        // Small ones may go beside one that is large.
        let goes_alone = self.goes_alone() && under_way.requests < 2;
        // Windows as small as those that the search begins with overflow no port.
        if goes_alone && self.largest.0 <= self.start.0 / 2 {
            self.lost_alone = self.lost_alone.saturating_add(1);
        }
        // What was not under way cannot have been too much, nor can what is far less than what has come without a loss.
        let back = self.budget.min(self.most);
        if !goes_alone && back.0 < self.filled.min(self.budget).0 / FAR_LESS {
            return;
        }
        let alone = back <= self.largest;
        match &mut self.phase {
            Phase::Doubt { low: None, lost } if goes_alone || alone => {
                *lost = true;
                return;
            }
            Phase::Doubt { low: Some(_), .. } => {
                self.lost = true;
                return;
            }
            _ if self.deaf || alone => return,
            _ => {}
        }
        let is_paced = self.is_paced();
        if let Phase::Try { .. } = self.phase {
            if is_paced {
                self.part = (self.part / 2.0).max(LEAST_PART);
            }
            self.be_careful();
        }
        self.is_surprised = !is_paced && matches!(self.phase, Phase::Up { .. } | Phase::Hold { .. });
        let anew = self.raised_for_more_than(self.largest).unwrap_or(back);
        let less = Bytes((back.0 as f64 * self.search.cut) as u64).min(anew);
        // What goodput is with a budget that was measured is known: nothing is to be doubted.
        let known = self.measured_before().filter(|budget| budget.0 <= less.0 || is_paced);
        if let (None, true, Some(pace)) = (known, is_paced, &mut self.pace) {
            pace.cut(self.search.cut);
        }
        self.top = self.top.or(Some(back));
        if known.is_none() {
            self.before = self.goodput_before();
        }
        (self.limited, self.held_took) = (None, None);
        if !is_paced {
            self.ceiling = Bytes((back.0 as f64 * 0.9) as u64).max(self.least());
        }
        self.set(known.unwrap_or(less), why);
        let doubtful = known.is_none() && self.goes_alone() && self.search.free;
        self.phase = if doubtful { Phase::Doubt { low: None, lost: false } } else { Phase::Cut };
        (self.cut_at, self.old) = (self.now, under_way.requests);
        if self.old == 0 {
            self.outlived();
        }
    }

    /// The smaller budget that was measured before the present one was tried.
    fn measured_before(&self) -> Option<Bytes> {
        match self.phase {
            Phase::Up { paid: Some((budget, _)), .. } => Some(budget),
            Phase::Try { back } => Some(back),
            _ => None,
        }
    }

    /// The budget before it was raised for requests that cost far more than this, as they do until windows are limited.
    fn raised_for_more_than(&self, cost: Bytes) -> Option<Bytes> {
        self.raised.filter(|&(raised_for, _)| cost.0 <= raised_for.0 / 2).map(|(_, before)| before)
    }

    fn begin_anew(&mut self, budget: Bytes) {
        self.before = self.goodput_before();
        (self.ceiling, self.top, self.limited, self.raised) = (Bytes(MOST), None, None, None);
        (self.pace, self.shows, self.held_took, self.part) = (None, None, None, 1.0);
        self.phase = Phase::Up { paid: None, widened: false };
        // With what was under way nothing was lost.
        self.set(budget.max(self.most), Why::Less);
    }

    /// Goodput before the budget gets less.
    fn goodput_before(&self) -> Option<f64> {
        self.before.or(self.recent).or(match self.phase {
            Phase::Up { paid: Some((_, goodput)), .. } => Some(goodput),
            // With what was tried goodput may have been anything.
            Phase::Try { .. } if self.raised.is_none() => None,
            _ => self.limited,
        })
    }

    /// All has come in that was under way when the budget was cut.
    fn outlived(&mut self) {
        if self.phase == Phase::Cut {
            if self.is_surprised { self.hold_first() } else { self.hold() }
        }
        self.most = Bytes::ZERO;
        self.sample = Sample { warm: self.busy_since.is_some(), ..Sample::default() };
        self.busy_since = self.busy_since.map(|_| self.now);
    }

    /// A measurement is complete; whether something was held back meanwhile, or would have been.
    fn measured(&mut self, goodput: f64, limited: bool) {
        average(&mut self.recent, goodput);
        let waits = limited || self.waits;
        // Where losses do not count and no request waits, windows limit what is under way.
        let counts = match self.phase {
            _ if self.deaf => true,
            Phase::Up { .. } => waits,
            Phase::Doubt { .. } => true,
            Phase::Hold { .. } if self.before.is_some() => waits,
            _ => limited,
        };
        if !counts {
            return;
        }
        if self.found_others() {
            return self.others(goodput);
        }
        match self.phase {
            Phase::Up { paid, widened } => self.measured_up(paid, widened, goodput, waits),
            Phase::Hold { left } => {
                self.fell(self.limited, goodput);
                average(&mut self.limited, goodput);
                self.held_took = self.took;
                self.compared += 1;
                if let Some(before) = self.before.take()
                    && self.search.free
                    && goodput < COSTS * before
                {
                    self.doubt(goodput, false);
                } else if self.deaf && self.fallen >= FALLEN && self.free.is_none() {
                    self.fell_for_long();
                } else {
                    self.held(left, waits);
                }
            }
            Phase::Try { back } => {
                if self.is_paced() {
                    self.note_what_shows();
                }
                if self.limited.is_some_and(|limited| goodput <= self.search.trial_pays * limited) {
                    if self.limited.is_some_and(|limited| goodput < WORSE * limited) {
                        if !self.is_paced() {
                            self.ceiling = Bytes(self.budget.0 / 10 * 9).max(self.least());
                        }
                        self.be_careful();
                    }
                    self.set(back, Why::Back);
                    self.hold();
                } else {
                    (self.caution, self.part) = (1, (2.0 * self.part).min(1.0));
                    if let Some(pace) = &mut self.pace {
                        pace.widen(self.search.cut);
                    }
                    (self.limited, self.held_took) = (Some(goodput), self.took);
                    self.try_more();
                }
            }
            Phase::Less { back } => {
                self.note_what_shows();
                let finds_out = core::mem::take(&mut self.finds_out);
                if self.limited.is_some_and(|limited| goodput < WORSE * limited) {
                    self.set(back, Why::Back);
                    if finds_out && self.shows_enough() {
                        self.filled = self.held_most;
                        return self.try_more();
                    }
                }
                self.hold();
            }
            Phase::Cut => {}
            Phase::Doubt { low: None, lost: false } if self.before.is_some_and(|before| goodput >= COSTS * before) => {
                (self.limited, self.top, self.before) = (Some(goodput), None, None);
                self.hold();
            }
            Phase::Doubt { low: None, lost } => self.doubt(goodput, lost),
            Phase::Doubt { low: Some((_, before)), lost } if goodput > self.search.growth_pays * before => {
                self.limited = Some(goodput);
                if lost || (self.lost && self.taken_back) {
                    self.go_deaf(goodput, limited);
                } else if self.lost {
                    (self.ceiling, self.taken_back) = (self.budget, true);
                    self.hold();
                } else {
                    self.try_more();
                }
            }
            Phase::Doubt { low: Some((low, before)), .. } => {
                self.limited = Some(before);
                self.set(low, Why::Back);
                self.be_careful();
                self.hold();
            }
            Phase::Free { left, trial } => self.measured_free(left, trial, goodput),
        }
    }

    /// The same while the budget grows; the last that paid, its goodput, and whether windows were doubled after it.
    fn measured_up(&mut self, paid: Option<(Bytes, f64)>, widened: bool, goodput: f64, waits: bool) {
        match paid {
            Some((budget, before)) if goodput <= self.search.growth_pays * before => {
                self.note_what_shows();
                if !self.deaf && goodput > self.search.trial_pays * before {
                    // It pays, but the link is nearly full.
                    (self.limited, self.held_took) = (Some(goodput), self.took);
                } else {
                    if widened {
                        self.wide /= 2;
                    }
                    self.set(budget, Why::Back);
                    self.limited = Some(before);
                }
                self.hold_first();
            }
            // What goodput was before the search began anew is all that a doubling is known to bring.
            None if self.before.take().is_some_and(|before| self.search.growth_pays * goodput >= before) => {
                (self.limited, self.held_took) = (Some(goodput), self.took);
                self.hold_first();
            }
            _ => {
                if paid.is_some() {
                    self.note_what_shows();
                }
                (self.held_most, self.held_took) = (self.filled.min(self.budget), self.took);
                self.grow(goodput, waits);
            }
        }
    }

    /// Does more pay than what the cuts have left?
    fn doubt(&mut self, goodput: f64, lost: bool) {
        self.phase = Phase::Doubt { low: Some((self.budget, goodput)), lost };
        let before = self.top.filter(|_| self.lost_alone > 0).unwrap_or(Bytes::ZERO);
        (self.ceiling, self.before) = (Bytes(MOST), None);
        if !self.is_paced() {
            self.pace = None;
        }
        self.set(self.half_as_large_again().max(before), Why::More);
    }

    /// Notes which part of what was tried did not wait for the link: what waits makes responses take that much longer.
    fn note_what_shows(&mut self) {
        let more = self.filled.min(self.budget).0 as f64 / self.held_most.0.max(1) as f64 - 1.0;
        if let (Some(before), Some(took)) = (self.held_took, self.took)
            && more.abs() >= LEAST_CHANGE
        {
            self.shows = Some(1.0 - (took / before - 1.0) / more);
        }
    }

    fn shows_enough(&self) -> bool {
        self.shows.is_some_and(|shows| shows >= SHOWS)
    }

    /// Whether requests go at a pace.
    pub(super) fn is_paced(&self) -> bool {
        self.is_paced_with(self.budget)
    }

    fn is_paced_with(&self, budget: Bytes) -> bool {
        self.pace.as_ref().is_some_and(|pace| pace.is_for(budget))
    }

    /// A budget was held for a measurement.
    fn held(&mut self, left: u32, waits: bool) {
        if let (Some(free), Some(limited)) = (self.free, self.limited)
            && self.compared >= COMPARED
        {
            self.free = None;
            if free > self.search.trial_pays * limited {
                return self.go_free(Self::worth(free, limited), false);
            }
        }
        if left > 1 {
            self.phase = Phase::Hold { left: left - 1 };
            return;
        }
        self.ceiling = Bytes(self.ceiling.0.saturating_mul(5) / 4).min(Bytes(MOST));
        (self.top, self.taken_back) = (None, false);
        if self.deaf && self.search.free {
            self.free_in = self.free_in.saturating_sub(1);
            if self.free_in == 0 {
                return self.go_free(UNTIL_WIDE + COMPARED, true);
            }
        }
        let back = self.budget;
        self.less_is_next = !self.less_is_next;
        if self.less_is_next && self.budget > self.largest.max(self.least()) {
            self.phase = Phase::Less { back };
            self.held_most = self.filled.min(back);
            let less = Bytes(self.budget.0 / 4 * 3);
            // One request less at least, or nothing is tried.
            let one_less = self.held_most.0.saturating_sub(self.largest.0);
            let several =
                !self.deaf && self.raised.is_none() && self.largest > Bytes::ZERO && one_less >= self.largest.0;
            self.set(if several { less.min(Bytes(one_less)) } else { less }, Why::Less);
        } else if let Some(goodput) = self.limited.filter(|_| self.deaf && !waits) {
            self.grow(goodput, waits);
        } else {
            self.try_more();
        }
    }

    /// This goodput pays. More may pay more.
    fn grow(&mut self, goodput: f64, waits: bool) {
        let base = self.base();
        // Where no request waits, only windows limit what is under way.
        let widened = !waits && self.wide < WIDEST;
        if widened {
            self.wide *= 2;
        }
        self.phase = Phase::Up { paid: Some((base, goodput)), widened };
        let more = if self.deaf && waits { self.half_as_large_again() } else { base.times(2) };
        self.set(more, Why::More);
    }

    fn try_more(&mut self) {
        let back = self.budget;
        self.held_most = self.filled.min(back);
        let more = if self.is_paced() || self.begins_to_pace() {
            self.step_at_a_pace()
        } else {
            // It was for servers that think no more.
            self.pace = None;
            // One request more at least, or nothing is tried.
            let one_more = if self.deaf { 0 } else { self.base().0.saturating_add(self.largest.0) };
            self.half_as_large_again().max(Bytes(one_more))
        };
        self.set(more, Why::More);
        if self.budget > back {
            self.phase = Phase::Try { back };
        } else {
            self.hold();
        }
    }

    /// Data was lost with more, and what is under way does not wait for the link: servers think, and more of them may do so if their
    /// requests do not go at once. Whether it is so.
    fn begins_to_pace(&mut self) -> bool {
        let begins = self.ceiling.0 < MOST && !self.deaf && self.shows_enough();
        let Some(usual) = self.usual.filter(|_| begins) else { return false };
        // What goes at once is under way.
        let at_once = Bytes(self.held_most.0 / 2);
        let mut pace = Pace::new(at_once, self.budget);
        pace.on_granted(self.now, at_once, self.budget, usual);
        self.pace = Some(pace);
        true
    }

    /// More, by what may wait for the link if that is full by now: as much as has fitted at once.
    fn step_at_a_pace(&self) -> Bytes {
        let base = self.held_most.max(self.largest).0;
        let fits = self.pace.as_ref().map_or(0, |pace| pace.enough_for().0) as f64;
        let step = (fits * self.shows.unwrap_or(1.0).clamp(0.0, 1.0)).max(PACED_STEP * base as f64);
        Bytes(
            base.saturating_add(((step * self.part) as u64).max(self.largest.0))
                .max(self.budget.0.saturating_add(self.largest.0)),
        )
    }

    /// Cuts do not help.
    fn go_deaf(&mut self, goodput: f64, limited: bool) {
        self.stop_hearing();
        self.phase = Phase::Up { paid: None, widened: false };
        self.measured(goodput, limited);
    }

    /// Others have lost it. What was under way before all cuts is compared with what is left.
    fn others(&mut self, goodput: f64) {
        self.stop_hearing();
        let (low, top) = (self.budget, self.top.map_or(self.start, |top| top.max(self.start)));
        (self.ceiling, self.top, self.before) = (Bytes(MOST), None, None);
        self.set(top.max(self.half_as_large_again()), Why::More);
        self.phase = Phase::Up { paid: Some((low, goodput)), widened: false };
    }

    /// Whether losses have shown that others fill the port.
    fn found_others(&self) -> bool {
        self.lost_alone >= OTHERS && !self.deaf && self.search.free
    }

    fn stop_hearing(&mut self) {
        self.deaf = true;
        (self.pace, self.shows) = (None, None);
        (self.free_in, self.free_every) = (1, 2);
    }

    /// Whether requests go one at a time.
    fn goes_alone(&self) -> bool {
        self.budget.0 / 2 < self.largest.0
    }

    /// Goodput has fallen, and not for a moment: the budget gets less. Losses count again only after several falls, as it takes seconds
    /// to find out once more that they are those of others.
    fn fell_for_long(&mut self) {
        self.falls += 1;
        if self.falls > self.falls_to_hear {
            (self.falls, self.falls_to_hear) = (0, self.falls_to_hear.saturating_mul(2));
            self.deaf = false;
            self.wide = 1;
        }
        self.fallen = 0;
        (self.limited, self.compared) = (None, 0);
        let base = self.base().0 as f64;
        self.set(Bytes((base * self.search.cut) as u64), Why::Less);
        self.hold();
    }

    fn go_free(&mut self, left: u32, trial: bool) {
        self.phase = Phase::Free { left, trial };
        self.changed(Why::Free);
    }

    /// For how many measurements to do without a limit until it is compared again.
    fn worth(free: f64, limited: f64) -> u32 {
        let most = f64::from(LONGEST_FREE);
        (f64::from(COMPARED) * FREE_PER_COMPARED * free / limited).clamp(f64::from(COMPARED), most) as u32
    }

    /// Counts how often goodput is far below what it was, and says whether it is.
    fn fell(&mut self, before: Option<f64>, goodput: f64) -> bool {
        let fell = before.is_some_and(|before| goodput < self.search.cut * before);
        self.fallen = if fell { self.fallen + 2 } else { self.fallen.saturating_sub(1) };
        fell
    }

    fn measured_free(&mut self, left: u32, trial: bool, goodput: f64) {
        let fell = !trial && self.fell(self.free, goodput) && self.fallen >= FALLEN;
        if left <= COMPARED || !trial {
            average(&mut self.free, goodput);
        }
        let collapsed = trial && self.limited.is_some_and(|limited| goodput < self.search.cut * limited);
        let left = if fell || collapsed { 0 } else { left - 1 };
        if left > 0 {
            self.phase = Phase::Free { left, trial };
            return;
        }
        let pays = match (self.free, self.limited) {
            (Some(free), Some(limited)) if trial && !collapsed && free > self.search.trial_pays * limited => {
                Some(Self::worth(free, limited))
            }
            _ => None,
        };
        if let Some(left) = pays {
            self.phase = Phase::Free { left, trial: false };
            return;
        }
        if fell {
            self.free = None;
            return self.fell_for_long();
        }
        if trial {
            self.free = None;
            self.free_every = (self.free_every * 2).min(MOST_PATIENCE);
            self.free_in = self.free_every;
        } else {
            // Things may have changed since it was measured.
            self.limited = None;
        }
        self.compared = 0;
        self.changed(Why::Limited);
        self.hold();
    }

    fn be_careful(&mut self) {
        self.caution = (self.caution * 2).min(MOST_CAUTION);
    }

    fn hold(&mut self) {
        self.finds_out = false;
        let usual = self.search.hold.max(1).saturating_mul(self.caution);
        // Goodput with a limit is measured for as long as that takes to be known, if none is tried next.
        let is_tried = self.deaf && self.search.free && self.free_in == 1 && self.free.is_none();
        self.phase = Phase::Hold { left: if is_tried { usual.min(BEFORE_FREE) } else { usual } };
    }

    /// Growth has ended, or data was lost. If responses did not wait for the link, or nobody knows, there may be more to gain. Not while
    /// windows are wide, as the search will begin anew.
    fn hold_first(&mut self) {
        self.hold();
        if !self.deaf && self.raised.is_none() && (self.shows.is_none() || self.shows_enough()) {
            self.finds_out = self.shows.is_none();
            self.less_is_next = !self.finds_out;
            self.phase = Phase::Hold { left: BEFORE_FIRST_TRIAL };
        }
    }

    /// What a change counts from: a response that is larger than the budget goes alone.
    fn base(&self) -> Bytes {
        self.budget.max(self.largest)
    }

    fn half_as_large_again(&self) -> Bytes {
        let base = self.base().0;
        Bytes(base.saturating_add(base / 2).saturating_add(self.segment.0))
    }

    fn least(&self) -> Bytes {
        self.segment.times(2)
    }

    fn set(&mut self, budget: Bytes, why: Why) {
        // The ceiling limits what goes at once.
        let budget = if self.is_paced_with(budget) { budget } else { budget.min(self.ceiling) }.max(self.least());
        if why == Why::More && self.largest > self.budget {
            let before = self.raised.map_or(self.budget, |(_, before)| before);
            self.raised = Some((self.largest, before));
        }
        self.raised = self.raised.filter(|&(_, before)| budget > before);
        if budget != self.budget {
            self.budget = budget;
            self.recent = None;
            (self.lost_alone, self.lost) = (0, false);
            self.changed(why);
        }
        self.sample = Sample { warm: self.busy_since.is_some(), ..Sample::default() };
        self.busy_since = self.busy_since.map(|_| self.now);
    }

    fn changed(&mut self, why: Why) {
        self.changes += 1;
        self.last_change = Some(why);
    }
}

/// A quarter of what is new.
fn average(of: &mut Option<f64>, new: f64) {
    *of = Some(of.map_or(new, |old| old + (new - old) / 4.0));
}

#[cfg(test)]
mod tests;
