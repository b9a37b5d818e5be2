mod decisions;

use super::super::super::RequestId;
use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::vec::Vec;

const SEGMENT: Bytes = Bytes(1448);
const WINDOW: Bytes = Bytes(4 * 1448);

fn knee() -> Knee {
    Knee::new(&Search::default(), SEGMENT, WINDOW.times(4))
}

/// So many requests, each of which costs a window.
fn outstanding(requests: u64) -> Outstanding {
    Outstanding { requests, bytes: u128::from(requests * WINDOW.0) }
}

/// A path that many requests keep busy: what it carries with a budget, and what it loses.
struct Path {
    knee: Knee,
    now: Time,
    /// Bytes per microsecond with a budget; none means no limit.
    goodput: fn(Option<u64>) -> f64,
    /// Whether data is lost with it.
    lossy: fn(Option<u64>) -> bool,
    received: u64,
    /// When each was granted that is under way.
    under_way: VecDeque<Time>,
}

impl Path {
    fn new(goodput: fn(Option<u64>) -> f64, lossy: fn(Option<u64>) -> bool) -> Self {
        Self { knee: knee(), now: Time(0), goodput, lossy, received: 0, under_way: VecDeque::new() }
    }

    /// This many responses of one window each come in, as fast as the path is with the budget of the moment. Returns the budgets.
    fn run(&mut self, responses: u32) -> Vec<Option<u64>> {
        let mut budgets = Vec::new();
        for number in 0..responses {
            let budget = self.knee.budget().map(|budget| budget.0);
            let requests = (budget.unwrap_or(1 << 20) / WINDOW.0).max(1);
            while (self.under_way.len() as u64) < requests {
                self.under_way.push_back(self.now);
                self.knee.on_granted(self.now, WINDOW, outstanding(self.under_way.len() as u64));
            }
            self.knee.on_refused();
            let took = WINDOW.0 as f64 / (self.goodput)(budget);
            self.now += Duration((took * 1e6) as u64);
            let out_of_order = u64::from((self.lossy)(budget) && number % 16 == 0);
            let sent = self.under_way.pop_front().unwrap();
            let grant = Grant::new(sent, RequestId(number.into()), WINDOW);
            let outcome = Outcome { received: WINDOW, out_of_order };
            self.knee.on_finished(self.now, &grant, &outcome, outstanding(self.under_way.len() as u64));
            self.received += WINDOW.0;
            budgets.push(budget);
        }
        budgets
    }
}

/// 12.5 bytes per microsecond (100 Mbit/s) once 40,000 bytes are under way; 64,000 fit.
fn fan_in(budget: Option<u64>) -> f64 {
    let budget = budget.unwrap_or(1 << 20) as f64;
    12.5 * (budget / 40_000.0).min(1.0) * if budget > 64_000.0 { 0.3 } else { 1.0 }
}

fn overflows(budget: Option<u64>) -> bool {
    budget.is_none_or(|budget| budget > 64_000)
}

#[test]
fn it_grows_to_the_knee_and_stays_near_it() {
    let mut path = Path::new(fan_in, overflows);
    let budgets: Vec<_> = path.run(4000).into_iter().map(Option::unwrap).collect();
    assert_eq!(budgets[0], WINDOW.times(4).0);
    let held = &budgets[1000..];
    let near = held.iter().filter(|&&budget| (28_000..=64_000).contains(&budget)).count();
    assert!(near * 10 >= held.len() * 9, "{near} of {}", held.len());
    let ideal = 4000.0 * WINDOW.0 as f64 / 12.5 * 1e6;
    assert!(path.now.0 as f64 <= 1.25 * ideal, "{} against {ideal}", path.now.0);
}

#[test]
fn where_more_does_not_pay_it_does_not_grow_until_something_is_lost() {
    let mut path = Path::new(|_| 12.5, overflows);
    let budgets = path.run(4000);
    assert!(budgets.iter().all(|budget| budget.unwrap() <= 64_000));
    assert!(!path.knee.changes().1.unwrap().is_cut());
}

/// Long flows at the port: something is lost whatever the budget, and what is asked for shares the link by what is under way.
fn beside(budget: Option<u64>) -> f64 {
    let budget = budget.unwrap_or(200_000) as f64;
    12.5 * budget / (budget + 60_000.0)
}

#[test]
fn beside_long_flows_it_is_no_worse_than_without_limit() {
    let mut path = Path::new(beside, |_| true);
    path.run(20_000);
    let (before, began) = (path.received, path.now);
    path.run(20_000);
    let goodput = (path.received - before) as f64 / (path.now.0 - began.0) as f64 * 1e6;
    assert!(goodput >= 0.95 * beside(None), "{goodput}");
    assert!(path.knee.losses_of_others());
    // The long flows end: without them no limit is the worst there is.
    (path.goodput, path.lossy) = (fan_in, overflows);
    path.run(2000);
    assert!(path.run(20_000).iter().filter(|budget| budget.is_none()).count() < 1000);
}

/// With little under way nothing is lost for long, so that no loss tells of the others any more.
#[test]
fn what_cuts_have_cost_is_taken_back() {
    let mut path = Path::new(beside, |budget| budget.is_none_or(|budget| budget > 2 * WINDOW.0));
    path.run(1000);
    let (before, began) = (path.received, path.now);
    path.run(3000);
    let goodput = (path.received - before) as f64 / (path.now.0 - began.0) as f64 * 1e6;
    assert!(goodput >= 0.9 * beside(Some(WINDOW.times(4).0)), "{goodput}");
}

/// The buffer is less than what the search begins with: cuts do help, and no trial takes that for losses of others.
#[test]
fn losses_of_ones_own_are_not_taken_for_those_of_others() {
    let small = |budget: Option<u64>| if budget.is_none_or(|budget| budget > 16_000) { 3.0 } else { 12.5 };
    let mut path = Path::new(small, |budget| budget.is_none_or(|budget| budget > 16_000));
    let budgets = path.run(4000);
    assert!(!path.knee.losses_of_others());
    let fit = budgets[1000..].iter().filter(|budget| budget.is_some_and(|budget| budget <= 16_000)).count();
    assert!(fit >= 2900, "{fit} of 3000");
}

/// Twelve servers at a time over connections that are new: at first their windows are wide, so that requests go alone.
#[test]
fn what_is_learned_with_wide_windows_is_forgotten_once_they_are_small() {
    const WIDE: Bytes = Bytes(64_512);
    let mut knee = knee();
    let (mut now, mut losses) = (Time(0), [0, 0]);
    for query in 0..40 {
        let cost = if query < 4 { WIDE } else { WINDOW };
        let requests = (knee.budget().unwrap().0 / cost.0).clamp(1, 12);
        let under_way = |requests: u64| Outstanding { requests, bytes: u128::from(requests * cost.0) };
        for number in 0..12 {
            knee.on_granted(now, cost, under_way(number.min(requests - 1) + 1));
        }
        knee.on_refused();
        // A window that is wide does not mean that so much is sent.
        let lost = u64::from(requests * cost.min(Bytes(10_000)).0 > 20_000);
        losses[usize::from(query >= 4)] += lost;
        let began = now;
        now += Duration(if lost == 1 { 300_000_000_000 } else { 40_000_000_000 });
        for left in (0..12).rev() {
            let outcome = Outcome { received: Bytes(40_000), out_of_order: lost };
            knee.on_finished(
                now,
                &Grant::new(began, RequestId(left), cost),
                &outcome,
                under_way(left.min(requests - 1)),
            );
        }
    }
    assert!(!knee.losses_of_others());
    assert!(losses[1] <= 3, "{losses:?}: at first, when nobody knows, and when more is tried");
}

/// Four servers beside long flows: their windows are all that limits them.
#[test]
fn where_no_request_waits_windows_grow_while_that_pays() {
    let mut knee = knee();
    let (mut now, mut widest) = (Time(0), 1);
    for query in 0..60 {
        let cost = Bytes(WINDOW.0 * knee.wide());
        let requests = (knee.budget().unwrap().0 / cost.0).clamp(1, 4);
        let under_way = |requests: u64| Outstanding { requests, bytes: u128::from(requests * cost.0) };
        for number in 0..4 {
            knee.on_granted(now, cost, under_way(number.min(requests - 1) + 1));
        }
        if requests < 4 {
            knee.on_refused();
        }
        let began = now;
        now += Duration((200_000.0 / beside(Some(requests * cost.0)) * 1e6) as u64);
        for left in (0..4).rev() {
            let lost = u64::from(left == 0 && query % 2 == 0);
            let outcome = Outcome { received: Bytes(50_000), out_of_order: lost };
            knee.on_finished(now, &Grant::new(began, RequestId(left), cost), &outcome, under_way(left));
        }
        widest = widest.max(knee.wide());
    }
    assert!(widest >= 4, "{widest}");
    assert!(widest <= 64, "{widest}: it did not pay any more");
}

/// A response that goes alone goes alone with any smaller budget.
#[test]
fn losses_of_a_response_that_is_alone_do_not_cut() {
    let mut knee = knee();
    let large = WINDOW.times(8);
    let alone = |requests| Outstanding { requests, bytes: u128::from(requests * large.0) };
    knee.on_granted(Time(0), large, alone(1));
    let outcome = Outcome { received: large, out_of_order: 3 };
    knee.on_finished(Time(1000), &Grant::new(Time(0), RequestId(0), large), &outcome, alone(0));
    assert_eq!(knee.changes(), (0, None));
}

/// Losses that have nothing to do with the budget: those of a bad cable.
#[test]
fn losses_that_cuts_do_not_help_are_ignored() {
    let mut path = Path::new(fan_in, |_| true);
    path.run(20_000);
    let (before, began) = (path.received, path.now);
    let free = path.run(40_000).iter().filter(|budget| budget.is_none()).count();
    let goodput = (path.received - before) as f64 / (path.now.0 - began.0) as f64 * 1e6;
    assert!(goodput >= 0.9 * 12.5, "{goodput}");
    assert!(free < 2000, "{free}: no limit is the worst there is");
}

#[test]
fn one_loss_is_counted_once() {
    let mut knee = knee();
    let outcome = |out_of_order| Outcome { received: WINDOW, out_of_order };
    for id in 0..4 {
        knee.on_granted(Time(id), WINDOW, outstanding(id + 1));
    }
    for id in 0..4 {
        knee.on_finished(
            Time(1000 + id),
            &Grant::new(Time(id), RequestId(id), WINDOW),
            &outcome(1),
            outstanding(3 - id),
        );
    }
    assert_eq!(knee.changes(), (1, Some(Why::OutOfOrder)));
    assert_eq!(knee.budget(), Some(Bytes((4.0 * WINDOW.0 as f64 * 0.7) as u64)));
}

/// Servers that take 100 ms each are slow, not lost.
#[test]
fn slow_servers_are_no_stall() {
    let mut knee = knee();
    let mut now = Time(0);
    for id in 0..100 {
        knee.on_granted(now, WINDOW, outstanding(1));
        let sent = now;
        now += Duration::from_ms(100);
        assert!(knee.stalls_at().is_none_or(|at| at.0 > now.0));
        let grant = Grant::new(sent, RequestId(id), WINDOW);
        knee.on_finished(now, &grant, &Outcome { received: WINDOW, out_of_order: 0 }, outstanding(0));
    }
    assert_eq!(knee.changes(), (0, None));
}

proptest! {
    #[test]
    fn the_budget_stays_within_its_bounds(
        events in prop::collection::vec((0..6_u8, 0..1_000_000_u64, 0..1_000_000_000_000_u64), 0..500),
    ) {
        let mut knee = Knee::new(&Search { hold: 1, ..Search::default() }, SEGMENT, WINDOW);
        let mut now = Time(0);
        for (kind, bytes, wait) in events {
            now = Time(now.0 + wait);
            match kind {
                0 => knee.on_granted(now, Bytes(bytes), outstanding(bytes % 90)),
                1 => knee.on_refused(),
                5 => knee.on_progress(now, Bytes(bytes), outstanding(bytes % 3)),
                2 => knee.on_timer(now, bytes % 2, outstanding(bytes % 90)),
                _ => {
                    let grant = Grant::new(Time(now.0.saturating_sub(wait)), RequestId(0), Bytes(bytes));
                    let outcome = Outcome { received: Bytes(bytes), out_of_order: u64::from(kind == 4) };
                    knee.on_finished(now, &grant, &outcome, outstanding(bytes % 3));
                }
            }
            prop_assert!(knee.budget().is_none_or(|budget| (2 * SEGMENT.0..=MOST).contains(&budget.0)));
        }
    }
}
