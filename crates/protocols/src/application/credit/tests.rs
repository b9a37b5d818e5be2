use std::collections::VecDeque;
use std::vec::Vec;

use proptest::prelude::*;

use super::super::tell_late;
use super::super::tests::{ask, context, gap, grants, ids, request};
use super::think_time::ThinkTime;
use super::*;
use crate::units::Rate;

const NOW: Time = Time(0);

fn credit(config: &Config) -> Credit {
    Credit::new(config, &context())
}

fn of(budget: u64) -> Config {
    Config { budget: Some(Bytes(budget)), clamp: false, ..Config::default() }
}

#[test]
fn requests_leave_in_order_while_their_costs_fit() {
    let mut credit = credit(&of(10_000));
    for (id, response) in [4000, 4000, 4000, 1000].into_iter().enumerate() {
        credit.on_request(NOW, request(id as u64, Some(response)));
    }
    let mut sent = grants(&mut credit, NOW);
    assert_eq!(ids(&sent), [0, 1], "the small one does not overtake");
    credit.on_finished(NOW, sent.remove(1).unwrap(), gap(0));
    assert_eq!(ids(&grants(&mut credit, NOW)), [2, 3]);
    assert_eq!(credit.status().under_way, Bytes(9000));
    assert!(!credit.watches_progress() && !credit.heeds_outcomes(), "a budget that is given is not searched");
    assert!(!credit.heeds_time());
}

#[test]
fn more_than_the_budget_goes_alone() {
    let mut credit = credit(&of(10_000));
    for (id, response) in [Some(6000), Some(20_000), Some(1), None].into_iter().enumerate() {
        credit.on_request(NOW, request(id as u64, response));
    }
    for id in 0..4 {
        let mut sent = grants(&mut credit, NOW);
        assert_eq!(ids(&sent), [id]);
        credit.on_finished(NOW, sent.remove(0).unwrap(), gap(0));
    }
}

#[test]
fn a_request_costs_its_window_where_that_is_less() {
    let mut credit = credit(&of(10_000));
    for id in 0..9 {
        let window = Some(Bytes(if id < 3 { 3000 } else { 500 }));
        credit.on_request(NOW, Request { window, ..request(id, Some(1 << 20)) });
    }
    let sent = grants(&mut credit, NOW);
    assert_eq!(sent.iter().map(|grant| grant.cost().0).collect::<Vec<_>>(), [3000, 3000, 3000, 500, 500]);
}

/// 65,536 bytes of buffer, segments of 1024.
#[test]
fn budget_and_windows_follow_from_the_port() {
    let with = |workers, config: &Config| {
        let credit = Credit::new(config, &ApplicationContext { workers, ..context() });
        (credit.limit.now().map(|budget| budget.0), credit.window().map(|window| window.0))
    };
    let port = Config::default();
    assert_eq!(with(Some(4), &port), (Some(45_871), Some(11_467)));
    assert_eq!(with(Some(100), &port), (Some(45_871), Some(4096)));
    assert_eq!(with(Some(100), &Config { least_window: 1, ..port.clone() }), (Some(45_871), Some(1024)));
    assert_eq!(with(None, &port), (Some(45_871), Some(4096)));
    assert_eq!(with(Some(4), &Config { window: Some(Bytes(9000)), ..port.clone() }), (Some(45_871), Some(9000)));
    assert_eq!(with(Some(4), &Config { window: Some(Bytes(9)), ..port.clone() }), (Some(45_871), Some(1024)));
    assert_eq!(with(Some(4), &Config { clamp: false, ..port.clone() }), (Some(45_871), None));
    assert_eq!(with(Some(4), &Config { budget: Some(Bytes(20_000)), ..port }), (Some(20_000), Some(5000)));
    let learned = Config { learn: true, ..Config::default() };
    assert_eq!(with(Some(4), &learned), (Some(16_384), Some(4096)), "four windows of four segments");
}

/// What waits longer than the least timeout is sent twice.
#[test]
fn a_deep_buffer_is_filled_for_half_a_timeout_only() {
    let mut deep = context();
    deep.bottleneck.buffer = Bytes(1 << 30);
    deep.bottleneck.rate = Rate(100_000_000);
    assert_eq!(Credit::new(&Config::default(), &deep).limit.now(), Some(Bytes(1_250_000)));
}

#[test]
fn an_unknown_response_costs_its_window_or_what_it_is_taken_for() {
    let unknown = |config: &Config| {
        let mut credit = credit(config);
        for id in 0..9 {
            credit.on_request(NOW, request(id, None));
        }
        grants(&mut credit, NOW).len()
    };
    assert_eq!(unknown(&of(10_000)), 1);
    assert_eq!(unknown(&Config { response: Some(Bytes(2000)), ..of(10_000) }), 5);
    assert_eq!(unknown(&Config { budget: Some(Bytes(10_000)), window: Some(Bytes(2500)), ..Config::default() }), 4);
}

#[test]
fn what_has_no_effect_is_refused() {
    let conflict = |config: &Config| Credit::check(config).map_err(|conflict| conflict.key);
    assert_eq!(conflict(&Config::default()), Ok(()));
    assert_eq!(conflict(&Config { learn: true, budget: Some(Bytes(1)), ..Config::default() }), Err("budget".into()));
    assert_eq!(conflict(&Config { clamp: false, window: Some(Bytes(1)), ..Config::default() }), Err("window".into()));
    let thinks = Config { learn: true, think: Duration::from_ms(1), ..Config::default() };
    assert_eq!(conflict(&thinks), Err("think".into()));
    let finds = Config { learn_think: true, ..Config::default() };
    assert_eq!(conflict(&finds), Ok(()));
    assert_eq!(conflict(&Config { learn: true, ..finds.clone() }), Err("learn_think".into()));
    assert_eq!(conflict(&Config { think: Duration::from_ms(1), ..finds }), Err("think".into()));
}

#[test]
fn a_search_whose_numbers_make_no_sense_is_refused() {
    let of = Search::default;
    for (search, key) in [
        (Search { growth_pays: f64::NAN, ..of() }, "growth_pays"),
        (Search { trial_pays: 0.9, ..of() }, "trial_pays"),
        (Search { cut: 1.0, ..of() }, "cut"),
        (Search { hold: 0, ..of() }, "hold"),
        (Search { stall: Duration::from_us(999), ..of() }, "stall"),
        (Search { stall: Duration(u64::MAX), ..of() }, "stall"),
    ] {
        let conflict = Credit::check(&Config { search, ..Config::default() }).unwrap_err();
        assert_eq!(conflict.key, alloc::format!("search.{key}"));
        assert!(conflict.message.starts_with("found "), "{}", conflict.message);
    }
}

#[test]
fn a_stall_is_told_by_the_timer_once() {
    let mut credit = credit(&Config { learn: true, ..Config::default() });
    ask(&mut credit, 0..100, 4096);
    let mut sent = grants(&mut credit, NOW);
    assert_eq!(
        (sent.len(), credit.next_timer()),
        (4, Some(NOW + Duration::from_ms(1000))),
        "nobody knows yet how long a request takes"
    );
    assert!(credit.watches_progress() && credit.heeds_outcomes() && credit.heeds_time());
    let before = credit.status().budget;
    credit.on_progress(Time::from_us(500), Bytes(1448));
    credit.on_finished(Time::from_us(1000), sent.pop_front().unwrap(), gap(0));
    let due = credit.next_timer().unwrap();
    assert_eq!(due, Time::from_us(51_000));
    credit.on_progress(Time::from_us(2000), Bytes(1448));
    assert_eq!(credit.next_timer(), Some(Time::from_us(52_000)));
    credit.on_timer(Time::from_us(52_000), 0);
    assert_eq!((credit.next_timer(), credit.status().last_change), (None, Some(Why::Stall)));
    assert!(credit.poll(Time::from_us(52_000)).is_none());
    assert_eq!(credit.next_timer(), Some(Time::from_us(1_052_000)), "what is under way may hang");
    assert!(credit.status().budget < before);
}

/// Nobody tells of bytes as they come. A look at the connection shows that some have come since the stall, or none.
#[test]
fn a_response_of_which_bytes_come_does_not_hang() {
    let hangs = |ago_ms| {
        let mut credit = credit(&Config { learn: true, ..Config::default() });
        ask(&mut credit, 0..5, 1 << 30);
        assert_eq!(grants(&mut credit, NOW).len(), 4);
        credit.on_timer(Time::from_us(1_000_000), 0);
        assert!(credit.poll(Time::from_us(1_000_000)).is_none());
        let late = Time::from_us(2_000_000);
        assert_eq!((credit.next_timer(), credit.silent_since()), (Some(late), Some(Time::from_us(1_000_000))));
        tell_late(&mut credit, late, Duration::from_ms(ago_ms));
        if credit.next_timer().is_some_and(|at| at <= late) {
            credit.on_timer(late, 0);
        }
        credit.poll(late).is_some()
    };
    assert_eq!([999, 1000, 1500].map(hangs), [false, true, true]);
}

/// A budget of two responses of 10,000 bytes, servers that think for a millisecond, and a link that carries one response in 87.2 us.
fn thinking() -> Credit {
    credit(&Config { think: Duration::from_ms(1), ..of(20_000) })
}

/// So long the link takes for `count` of them.
fn responses(count: u64) -> Duration {
    Duration(count * Duration::from_ns(87_200).0)
}

#[test]
fn where_servers_think_requests_go_at_the_pace_of_the_link() {
    let mut credit = thinking();
    ask(&mut credit, 0..5, 10_000);
    let mut sent = grants(&mut credit, NOW);
    assert_eq!(ids(&sent), [0, 1], "what would fit if they answered at once");
    for next in 2..5 {
        let due = NOW + responses(next - 1);
        assert_eq!((credit.next_timer(), credit.lets_go_at()), (Some(due), Some(due)));
        assert_eq!(grants(&mut credit, Time(due.0 - 1)), [], "not before");
        credit.on_timer(due, 0);
        assert_eq!(credit.next_timer(), None, "until it is asked what may go");
        sent.extend(grants(&mut credit, due));
        assert_eq!(ids(&sent).last(), Some(&next));
    }
    assert_eq!(credit.next_timer(), None, "nothing waits");
    let status = credit.status();
    assert_eq!((status.under_way, status.budget), (Bytes(50_000), Some(Bytes(70_000))), "all five are in time");
}

/// The first is to be complete after 1,087.2 us.
#[test]
fn responses_that_are_late_count_until_they_are_complete() {
    let complete = |late: u64| NOW + Duration::from_ms(1) + responses(late);
    let mut credit = thinking();
    ask(&mut credit, 0..4, 10_000);
    let mut sent = grants(&mut credit, NOW);
    while let Some(due) = credit.next_timer() {
        sent.extend(grants(&mut credit, due));
    }
    assert_eq!(ids(&sent), [0, 1, 2, 3]);
    ask(&mut credit, 4..8, 10_000);
    assert_eq!(grants(&mut credit, complete(1)).len(), 1, "one that is late leaves room for one");
    assert_eq!(
        (grants(&mut credit, complete(2)).len(), credit.next_timer()),
        (0, None),
        "two leave none, and no time helps"
    );
    credit.on_finished(complete(2), sent.pop_front().unwrap(), gap(0));
    assert_eq!(grants(&mut credit, complete(2)).len(), 1);
    assert_eq!(credit.status().outstanding, 5);
}

#[test]
fn responses_that_come_early_leave_no_trace() {
    let mut credit = thinking();
    ask(&mut credit, 0..3, 10_000);
    let mut sent = grants(&mut credit, NOW);
    credit.on_finished(Time::from_us(50), sent.pop_back().unwrap(), gap(0));
    assert_eq!(credit.status().budget, Some(Bytes(30_000)), "one is thought about");
    credit.on_finished(Time::from_us(50), sent.pop_back().unwrap(), gap(0));
    assert_eq!(ids(&grants(&mut credit, Time::from_us(50))), [2], "with nothing outstanding the port is empty");
    assert_eq!(credit.status().budget, Some(Bytes(30_000)));
}

#[test]
fn more_than_the_budget_goes_alone_where_servers_think_too() {
    let mut credit = thinking();
    ask(&mut credit, 0..2, 10_000);
    ask(&mut credit, 2..4, 50_000);
    assert_eq!(grants(&mut credit, NOW).len(), 2);
    assert_eq!(credit.next_timer(), Some(NOW + responses(2)), "once the link has brought all others");
    assert_eq!(ids(&grants(&mut credit, NOW + responses(2))), [2]);
}

/// Servers that answer over one link, one after the other, and a program that asks 80 of them again and again.
struct World {
    think: Duration,
    link: Rate,
    /// Data is lost when at least this many responses are in the port at once.
    loses_from: usize,
    window: Option<Bytes>,
    /// Of each response, as far as anybody knows.
    arrives: Bytes,
    /// Losses are told with the timer, and not with responses.
    tells_early: bool,
}

const SERVERS: u64 = 80;
const RESPONSE: u64 = 5000;
const POSSIBLE: Duration = Duration::from_us(4500);

impl Default for World {
    /// 80 responses take 3.5 ms of the link of [`context`], so a query takes 4.5 ms at best.
    fn default() -> Self {
        Self {
            think: Duration::from_ms(1),
            link: context().bottleneck.rate,
            loses_from: usize::MAX,
            window: None,
            arrives: Bytes(RESPONSE),
            tells_early: false,
        }
    }
}

impl World {
    /// How long each query takes, and the most that the budget came to meanwhile.
    fn queries(&self, credit: &mut Credit, queries: u64) -> Vec<(Duration, Bytes)> {
        let (mut now, mut next, mut link_free) = (Time::from_us(1), 0, Time(0));
        let mut found = Vec::new();
        for _ in 0..queries {
            let (began, mut most, mut sent) = (now, Bytes(0), VecDeque::<(Time, Time, Grant)>::new());
            for _ in 0..SERVERS {
                credit.on_request(now, Request { window: self.window, ..request(next, Some(RESPONSE)) });
                next += 1;
            }
            loop {
                for grant in grants(credit, now) {
                    let begins = now + self.think;
                    link_free = link_free.max(begins) + self.link.time_for(Bytes(RESPONSE + 5 * 90));
                    sent.push_back((begins, link_free, grant));
                }
                most = most.max(credit.status().budget.unwrap());
                let Some(comes) = sent.front().map(|sent| sent.1) else { break };
                if let Some(timer) = credit.next_timer().filter(|timer| *timer < comes) {
                    now = timer;
                    credit.on_timer(now, 0);
                    continue;
                }
                now = comes;
                let in_the_port = sent.iter().filter(|(begins, ..)| *begins <= now).count();
                let (.., grant) = sent.pop_front().unwrap();
                let lost = u64::from(in_the_port >= self.loses_from);
                let out_of_order = if self.tells_early { 0 } else { lost };
                if self.tells_early && lost > 0 {
                    credit.on_timer(now, lost);
                }
                credit.on_finished(now, grant, Outcome { received: self.arrives, out_of_order });
            }
            found.push((now.since(began), most));
        }
        found
    }
}

fn finds_think_time() -> Credit {
    credit(&Config { learn_think: true, ..of(20_000) })
}

fn learns() -> Credit {
    credit(&Config { learn: true, window: Some(Bytes(RESPONSE)), ..Config::default() })
}

/// 23 responses pass while servers think, and the port has room for seven. Those go at once, or more of them at a pace.
#[test]
fn a_learned_budget_gets_a_pace_where_servers_think() {
    let mut credit = learns();
    let queries = World { loses_from: 8, ..World::default() }.queries(&mut credit, 60);
    let last: Vec<_> = queries[40..].iter().map(|query| query.0.0).collect();
    assert!(last.iter().sum::<u64>() < 22 * POSSIBLE.0, "{last:?}");
    let status = credit.status();
    assert!(!status.losses_of_others && status.budget > Some(Bytes(8 * RESPONSE)), "{status:?}");
}

/// More responses would only wait for the link, so none of what is tried has a pace, although data is lost with more.
#[test]
fn a_learned_budget_has_no_pace_where_the_link_is_full() {
    let (mut credit, world) = (learns(), World { think: Duration::ZERO, loses_from: 6, ..World::default() });
    for _ in 0..60 {
        let (took, _) = world.queries(&mut credit, 1)[0];
        assert!(took.0 < POSSIBLE.0, "{took}");
        let Limit::Learned(knee) = &credit.limit else { panic!("its budget is learned") };
        assert!(!knee.is_paced(), "{:?}", credit.status());
    }
    assert!(credit.status().budget < Some(Bytes(6 * RESPONSE)));
}

/// Its timer is then the sooner of two.
#[test]
fn what_a_pace_holds_back_goes_in_time() {
    let (mut credit, world) = (learns(), World { loses_from: 8, ..World::default() });
    world.queries(&mut credit, 60);
    let now = Time::from_us(900_000);
    for id in 5000..5000 + SERVERS {
        credit.on_request(now, request(id, Some(RESPONSE)));
    }
    let mut sent = grants(&mut credit, now).len();
    assert!((1..8).contains(&sent), "{sent}");
    let at = credit.lets_go_at().expect("the pace holds the next one back");
    assert!(now < at && credit.next_timer() == Some(at), "{at:?}");
    assert_eq!(grants(&mut credit, Time(at.0 - 1)).len(), 0);
    sent += grants(&mut credit, at).len();
    assert!(credit.status().outstanding == sent as u64 && credit.lets_go_at() > Some(at));
}

/// A program that was blocked comes late to both of its timers. Data has come meanwhile, so that is no stall.
#[test]
fn a_late_look_is_no_stall_where_a_request_waits_for_its_pace() {
    let changed = |ago: Option<Duration>| {
        let (mut credit, world) = (learns(), World { loses_from: 8, ..World::default() });
        world.queries(&mut credit, 60);
        let now = Time::from_us(900_000);
        for id in 5000..5000 + SERVERS {
            credit.on_request(now, request(id, Some(RESPONSE)));
        }
        let sent = grants(&mut credit, now);
        let (paced, stalls) = (credit.lets_go_at().unwrap(), credit.stalls_at().unwrap());
        assert!(paced < stalls && credit.next_timer() == Some(paced) && !sent.is_empty());
        let (before, late) = (credit.status().changes, stalls + Duration::from_ms(100));
        if let Some(ago) = ago {
            tell_late(&mut credit, late, ago);
        }
        if credit.next_timer().is_some_and(|timer| timer <= late) {
            credit.on_timer(late, 0);
        }
        assert_eq!(credit.lets_go_at(), None, "until it is asked what may go");
        // Some came late, but nothing was lost with more under way.
        assert_eq!(credit.status().changes, before);
        credit.stalls_at().is_some()
    };
    assert_eq!([changed(Some(Duration::from_ms(1))), changed(None)], [true, false], "it still waits for data");
}

#[test]
fn how_long_servers_think_is_found_out() {
    let plain = World::default().queries(&mut credit(&of(20_000)), 20);
    assert!(plain[19].0.0 > 4 * POSSIBLE.0, "four responses in each millisecond: {:?}", plain[19].0);
    let mut credit = finds_think_time();
    assert!(credit.heeds_outcomes() && credit.heeds_time() && !credit.watches_progress());
    let found = World::default().queries(&mut credit, 20);
    // Now and then less is tried.
    let last: Vec<_> = found[10..].iter().map(|query| query.0.0).collect();
    assert!(last.iter().sum::<u64>() < 11 * POSSIBLE.0, "{last:?}");
    let (told, think) = (credit.status().think, World::default().think);
    assert!(think.0 < 2 * told.0 && told.0 < 2 * think.0, "{told} found, {think} are right");
    assert_eq!(finds_think_time().status().think, Duration::ZERO);
}

/// They think for 25 times as long as the link takes for the budget: even a little less would leave it empty.
#[test]
fn less_than_servers_think_is_not_tried() {
    let world = World { think: Duration::from_ms(4), ..World::default() };
    let found = world.queries(&mut finds_think_time(), 60);
    let slowest = found[1..].iter().map(|query| query.0).max().unwrap();
    assert!(slowest < Duration::from_us(8_000), "7.5 ms at best, {slowest} once");
}

/// What is found in eight queries. Seven responses of 0.7 ms come side by side, so that they end together, and an eighth for which the
/// budget had no room ends so long after the first of them. Together they cost eight sevenths of the budget, `cost` in turn.
fn found_side_by_side(eighth: Duration, cost: [Bytes; 2]) -> Option<Duration> {
    let mut search = ThinkTime::new(Bytes(7000), Duration::from_ms(3));
    let (mut found, mut costs) = (None, cost.into_iter().cycle());
    let mut end = |search: &mut ThinkTime, now, asked, is_idle| {
        let cost = costs.next().unwrap();
        let grant = Grant::new(asked, RequestId(0), cost);
        let think = search.on_finished(now, &grant, Duration::from_us(700), false, is_idle);
        found = found.or(think);
    };
    for query in 1..=8 {
        let asked = Time(0) + Duration::from_ms(50 * query);
        search.waits(true);
        for _ in 0..7 {
            search.on_granted(asked, true);
        }
        let first = asked + Duration::from_ms(7);
        end(&mut search, first, asked, false);
        search.on_granted(first, true);
        search.waits(false);
        for later in 1..7 {
            end(&mut search, first + Duration::from_us(100 * later), asked, false);
        }
        end(&mut search, first + eighth, first, true);
    }
    found
}

#[test]
fn responses_that_end_together_do_not_hide_that_the_link_is_not_full() {
    let full = Duration::from_us(7 * 700 - (6 * 700 - 600));
    let cost = [Bytes(1000); 2];
    assert_eq!(found_side_by_side(full, cost), None, "from the second response to the end it had no gap");
    // The seven that count take 4.9 ms of the link: here in 5.2.
    assert!(found_side_by_side(full + Duration::from_us(300), cost).is_some());
}

/// Each has its window under way for as long as the whole response takes, so the budget covers more than it has bytes.
#[test]
fn where_windows_are_smaller_than_responses_less_is_tried() {
    for cost in [[Bytes(1000); 2], [Bytes(10), Bytes(1990)]] {
        let found = found_side_by_side(Duration::from_ms(3), cost).unwrap();
        // 1.4 times as many as the seven that the budget has room for, each of which is 0.7 ms of the link; six where they cost a little more.
        let (few, many) = (Duration::from_us(1900), Duration::from_us(2500));
        assert!(few < found && found < many, "{found}");
    }
}

/// A response over which the link is busy for half a millisecond ends so long after its request; others are under way. What is found by that.
fn respond(search: &mut ThinkTime, now: Time, took: Duration, cost: Bytes, lost: bool) -> Option<Duration> {
    let asked = Time(now.0 - took.0);
    search.on_granted(asked, true);
    search.on_finished(now, &Grant::new(asked, RequestId(0), cost), Duration::from_us(500), lost, false)
}

/// A response a millisecond, each ten milliseconds after its request, over a link that could bring two.
#[test]
fn a_burst_of_losses_cuts_what_was_found_once() {
    let mut search = ThinkTime::new(Bytes(1000), Duration::from_ms(1));
    search.waits(true);
    let mut changes = Vec::new();
    for ms in 10..130 {
        // From the first request that left after more was tried, until those have come that were under way at the cut.
        let lost = (65..89).contains(&ms);
        let (now, took) = (Time(0) + Duration::from_ms(ms), Duration::from_ms(10));
        changes.extend(respond(&mut search, now, took, Bytes(500), lost).map(|found| (ms, found)));
    }
    assert_eq!(changes.len(), 2, "more, and one cut: {changes:?}");
    assert!(changes[1].1 < changes[0].1 && changes[1].0 < 85, "the burst goes on after the cut: {changes:?}");
}

/// A response a millisecond, each ten milliseconds after its request, and 7.5 % more of them for requests from ten milliseconds after more was tried.
#[test]
fn what_is_tried_is_judged_once_it_has_settled() {
    let mut search = ThinkTime::new(Bytes(1000), Duration::from_ms(1));
    search.waits(true);
    let (mut changes, mut us, mut faster_from) = (Vec::new(), 10_000, u64::MAX);
    for _ in 0..200 {
        let (now, took) = (Time(0) + Duration::from_us(us), Duration::from_ms(10));
        if let Some(found) = respond(&mut search, now, took, Bytes(500), false) {
            changes.push(found);
            faster_from = faster_from.min(us + 20_000);
        }
        us += if us < faster_from { 1000 } else { 930 };
    }
    assert!(changes.len() > 1 && changes.iter().all(|found| *found >= changes[0]), "it pays: {changes:?}");
}

/// What is found, one after the other, where the link takes `covered_ms` for the budget. A response a millisecond, until more is tried; then two, as
/// many as the link brings, each 4.1 milliseconds after its request; but one every `slower_us` microseconds where less than 8.5 ms are tried.
fn found_where_less_costs(covered_ms: u64, slower_us: u64) -> Vec<Duration> {
    let mut search = ThinkTime::new(Bytes(1000 * covered_ms), Duration::from_ms(covered_ms));
    search.waits(true);
    let (mut changes, mut us) = (Vec::new(), 10_000);
    for _ in 0..5_000 {
        let (interval_us, took_us) = match changes.last() {
            None => (1000, 10_000),
            Some(found) if *found < Duration::from_us(8_500) => (slower_us, 4_100),
            Some(_) => (500, 4_100),
        };
        let (now, took) = (Time(0) + Duration::from_us(us), Duration::from_us(took_us));
        changes.extend(respond(&mut search, now, took, Bytes(500 * covered_ms), false));
        us += interval_us;
    }
    changes
}

/// A quarter of what the budget covers at a time, or a tenth of what was found if that is less, down to what responses take beyond what the budget
/// covers. One percent less of the link may be used.
#[test]
fn less_is_tried_in_small_steps_while_the_link_is_about_as_full() {
    for slower_us in [500, 505] {
        for (covered_ms, first) in [(1, Duration::from_us(250)), (10, Duration::from_us(900))] {
            let found = found_where_less_costs(covered_ms, slower_us);
            let steps = found.windows(2).map(|pair| pair[0] - pair[1]).collect::<Vec<_>>();
            assert_eq!(steps.iter().max(), Some(&first), "{found:?}");
            assert_eq!((steps[0], found.last()), (first, Some(&Duration::from_us(3_100))), "{found:?}");
        }
    }
}

/// Three percent less of the link is used, which still counts as full.
#[test]
fn less_does_not_stay_if_it_costs_some_of_the_link() {
    let found = found_where_less_costs(1, 515);
    let few = Duration::from_us(8_250);
    assert!(found.iter().all(|found| *found >= few) && found.contains(&few), "{found:?}");
    assert!(found.windows(2).all(|pair| pair[0] > few || pair[1] == Duration::from_us(8_500)), "{found:?}");
}

#[test]
fn servers_that_do_not_think_are_asked_as_without() {
    let world = World { think: Duration::ZERO, ..World::default() };
    assert_eq!(world.queries(&mut finds_think_time(), 10), world.queries(&mut credit(&of(20_000)), 10));
}

/// As where others fill it, or the program cannot keep up: more under way brings no more. Nor does it if nothing comes at all.
#[test]
fn a_link_that_is_slower_is_not_taken_for_servers_that_think() {
    let slower = World { think: Duration::ZERO, link: Rate(context().bottleneck.rate.0 / 3), ..World::default() };
    let empty = World { arrives: Bytes(0), ..World::default() };
    let more = |world: &World| {
        world.queries(&mut finds_think_time(), 200).iter().filter(|query| query.1 > Bytes(20_000)).count()
    };
    let tried = more(&slower);
    assert!((1..20).contains(&tried), "seldom: {tried} of 200 queries");
    assert_eq!(more(&empty), 0);
}

#[test]
fn what_is_lost_has_fewer_servers_think_at_once() {
    let safe = World { loses_from: 30, ..World::default() }.queries(&mut finds_think_time(), 30);
    let most = |found: &[(Duration, Bytes)]| found.iter().map(|query| query.1).max().unwrap();
    assert!(most(&safe[20..]) > Bytes(100_000));
    for tells_early in [false, true] {
        let loses = World { loses_from: 2, tells_early, ..World::default() }.queries(&mut finds_think_time(), 30);
        assert!(most(&loses[20..]) < Bytes(60_000), "{tells_early}: {:?}", most(&loses[20..]));
    }
}

/// Nobody would say if something was lost.
#[test]
fn over_connections_of_which_nothing_is_known_nothing_is_found() {
    let mut credit = finds_think_time();
    let unknown = World { window: Some(UNKNOWN_WINDOW), ..World::default() };
    assert!(unknown.queries(&mut credit, 20).iter().all(|query| query.1 == Bytes(20_000)));
    let known = World { window: Some(Bytes(6000)), ..World::default() };
    assert!(known.queries(&mut credit, 20).iter().any(|query| query.1 > Bytes(100_000)));
    // What was found is forgotten again.
    assert_eq!(unknown.queries(&mut credit, 5)[4].1, Bytes(20_000));
}

/// By more than threads are apart: what is outstanding then counts, and nobody waits for a time of the other clock.
#[test]
fn a_clock_that_goes_back_is_another_one() {
    let late = Time(1 << 60);
    for (back, waits) in [(Duration::from_us(1), true), (Duration::from_ms(2), false)] {
        let mut credit = thinking();
        ask(&mut credit, 0..4, 10_000);
        let mut sent = grants(&mut credit, late);
        let now = Time(late.0 - back.0);
        assert_eq!((sent.len(), grants(&mut credit, now).len(), credit.next_timer().is_some()), (2, 0, waits));
        credit.on_finished(now, sent.pop_front().unwrap(), gap(0));
        assert_eq!(grants(&mut credit, now).len(), usize::from(!waits));
    }
}

/// A response with the headers of its segments, in bytes.
fn with_headers(response: u64) -> u64 {
    response + response.div_ceil(context().bottleneck.mss.0) * 90
}

/// Servers think for 3 ms, and all responses that have started share the link equally. A program makes one query after another, each of the
/// given number of requests. Returns the most bytes under way at once, with up to a `window` for each response, and how long the last query takes.
fn most_side_by_side(window: u64, response: u64, queries: &[u64]) -> (f64, Duration) {
    let config = Config { think: Duration::from_ms(3), window: Some(Bytes(window)), clamp: true, ..of(40_000) };
    let mut credit = credit(&config);
    let (mut most, mut now, mut took, mut next) = (0.0_f64, Time::from_us(1), Duration::ZERO, 0);
    for &asked in queries {
        let (under_way, ends) = side_by_side(&mut credit, &config, now, next..next + asked, response);
        most = most.max(under_way);
        (took, now, next) = (ends.since(now), ends, next + asked);
    }
    (most, took)
}

/// One query: the most bytes that are under way at once, and when all have come.
fn side_by_side(
    credit: &mut Credit,
    config: &Config,
    mut now: Time,
    asked: core::ops::Range<u64>,
    response: u64,
) -> (f64, Time) {
    let (window, step) = (config.window.unwrap().0, Duration::from_us(2));
    let in_a_step = context().bottleneck.rate.bytes_in(step).0 as f64 * response as f64 / with_headers(response) as f64;
    let (mut most, mut sent) = (0.0_f64, Vec::<(Time, f64, Grant)>::new());
    for id in asked {
        // As a program does: nobody knows yet how many follow.
        ask(credit, id..id + 1, response);
        sent.extend(grants(credit, now).into_iter().map(|grant| (now + config.think, response as f64, grant)));
    }
    loop {
        if credit.next_timer().is_some_and(|timer| timer <= now) {
            credit.on_timer(now, 0);
        }
        sent.extend(grants(credit, now).into_iter().map(|grant| (now + config.think, response as f64, grant)));
        if sent.is_empty() {
            return (most, now);
        }
        let begun = sent.iter().filter(|sent| sent.0 <= now).count() as f64;
        most = most.max(sent.iter().filter(|sent| sent.0 <= now).map(|sent| sent.1.min(window as f64)).sum());
        sent.iter_mut().filter(|sent| sent.0 <= now).for_each(|sent| sent.1 -= in_a_step / begun);
        for (.., grant) in sent.extract_if(.., |sent| sent.1 <= 0.0) {
            credit.on_finished(now, grant, Outcome { received: Bytes(response), out_of_order: 0 });
        }
        now += step;
    }
}

/// A port of which the budget is 70 % holds 1.43 budgets, headers included. Counted as if one came after the other, it would be 1.75.
#[test]
fn what_comes_side_by_side_is_hardly_more_than_the_port_holds() {
    for (window, windows) in [(5792, 1), (5792, 2), (5792, 4), (5792, 11), (10_000, 3)] {
        let response = window * windows;
        let busy = context().bottleneck.rate.time_for(Bytes(100 * with_headers(response)));
        // After small queries, of which all that is wanted fits, some go ahead of the pace before it is known that more are asked for.
        // They hold others back while they are thought about.
        let few = 48_000 / window;
        for (queries, idle) in [(&[100][..], 1), (&[few, few, few, 100], 2)] {
            let (most, took) = most_side_by_side(window, response, queries);
            assert!(most < 1.45 * 40_000.0, "{windows} windows of {window}: {most}");
            // And the link is idle for next to no time but while servers think.
            let longest = (Duration(idle * Duration::from_ms(3).0) + busy).0 / 100 * 105;
            assert!(took.0 < longest, "{windows} windows of {window}: {took}");
        }
    }
}

/// How many of the `asked` requests go at once in each of three bursts. Each response is complete after `took`.
fn three_bursts(asked: u64, request: Request, took: Duration) -> [usize; 3] {
    let mut credit = credit(&Config { think: Duration::from_ms(1), ..of(70_000) });
    assert!(credit.heeds_outcomes(), "so that losses are told");
    let mut now = NOW;
    [0, 1, 2].map(|burst| {
        for id in 0..asked {
            credit.on_request(now, Request { id: RequestId(burst * asked + id), ..request });
        }
        let mut sent = grants(&mut credit, now);
        let at_once = sent.len();
        now += took;
        while let Some(grant) = sent.pop_front() {
            sent.extend(grants(&mut credit, now));
            credit.on_finished(now, grant, gap(0));
        }
        sent.extend(grants(&mut credit, now));
        at_once
    })
}

#[test]
fn who_may_go_ahead_of_the_pace() {
    let known = request(0, Some(10_000));
    let soon = Duration::from_ms(2);
    assert_eq!(three_bursts(8, known, soon), [7, 7, 8]);
    assert_eq!(
        three_bursts(8, Request { window: Some(UNKNOWN_WINDOW), ..known }, soon),
        [7, 7, 7],
        "of no unknown connection"
    );
    assert_eq!(three_bursts(8, known, Duration::from_ms(102)), [7, 7, 8]);
    assert_eq!(three_bursts(8, known, Duration::from_ms(103)), [7, 7, 7], "that took a timeout");
    // With 90 bytes of headers each, 194 take what 1.25 budgets of full segments take.
    let small = request(0, Some(400));
    assert_eq!(three_bursts(194, small, soon), [175, 175, 194]);
    assert_eq!(three_bursts(195, small, soon), [175, 175, 175]);
}

/// Behind 16 KB a budget is 11,468 bytes, and 14,335 are taken to fit.
#[test]
fn where_servers_think_two_windows_go_at_once_if_the_port_has_room_for_them() {
    // The last are larger than their windows: those of more than a window and a third come side by side, which takes more of the port.
    let whole = [(5734, 2), (6144, 2), (7167, 2), (7168, 1)].map(|(window, at_once)| (window, window, at_once));
    for (window, response, at_once) in whole.into_iter().chain([(6144, 8192, 2), (6144, 9000, 1), (6144, 32_768, 1)]) {
        let clamp = Config { window: Some(Bytes(window)), clamp: true, ..of(11_468) };
        let mut credit = credit(&Config { think: Duration::from_ms(2), ..clamp });
        ask(&mut credit, 0..20, response);
        assert_eq!(grants(&mut credit, NOW).len(), at_once, "{response} through {window}");
        assert!(credit.lets_go_at().is_some(), "and the others at the pace of the link");
    }
}

/// Eight responses of 10,000 bytes are 1.14 budgets. The link brings one in 87.2 us.
#[test]
fn a_few_servers_that_think_need_no_pace_once_that_is_known() {
    let mut credit = credit(&Config { think: Duration::from_ms(1), ..of(70_000) });
    let (mut now, mut next) = (NOW, 0);
    let mut at_once = |credit: &mut Credit, asked: u64, lost: u64| {
        let mut sent = VecDeque::new();
        for id in next..next + asked {
            ask(credit, id..id + 1, 10_000);
            sent.extend(grants(credit, now));
        }
        let at_once = sent.len();
        while let Some(grant) = sent.pop_front() {
            now += responses(1);
            // It is told with the timer, or with the response.
            let with_timer = if lost == 2 { 2 } else { 0 };
            credit.on_timer(now, with_timer);
            credit.on_finished(now, grant, gap(lost - with_timer));
            let Limit::Paced(_, thinking) = &credit.limit else { panic!("servers think") };
            assert!(thinking.adds_up());
            sent.extend(grants(credit, now));
        }
        next += asked;
        at_once
    };
    let mut queries = |asked: u64, lost: u64| [(); 4].map(|()| at_once(&mut credit, asked, lost));
    assert_eq!(queries(8, 0), [7, 7, 8, 8]);
    assert_eq!(queries(9, 0), [8, 7, 7, 7], "nine are more than the port holds");
    assert_eq!(queries(1, 0), [1, 1, 1, 1], "which say nothing of the port");
    assert_eq!(queries(8, 0), [7, 7, 8, 8]);
    // Each query in which data was lost doubles how many it takes: 32, and then 512, of which 256 are the most.
    assert_eq!(queries(8, 1), [8, 7, 7, 7]);
    for _ in 0..8 {
        assert_eq!(queries(8, 0), [7, 7, 7, 7]);
    }
    assert_eq!(queries(8, 2), [8, 7, 7, 7]);
    for _ in 0..64 {
        assert_eq!(queries(8, 0), [7, 7, 7, 7]);
    }
    assert_eq!(queries(8, 0), [8, 8, 8, 8]);
    // Once they are late they count as what is late does.
    ask(&mut credit, 1000..1008, 10_000);
    assert_eq!(grants(&mut credit, now).len(), 8);
    ask(&mut credit, 1008..1009, 10_000);
    assert_eq!(grants(&mut credit, now + Duration::from_ms(5)).len(), 0);
    let Limit::Paced(_, thinking) = &credit.limit else { panic!("servers think") };
    assert!(thinking.adds_up());
}

/// Of responses of many windows five fit into 1.25 budgets, and three go at the pace. Two of these end, and the others hang.
#[test]
fn what_those_that_have_gone_ahead_hold_back_goes_once_they_are_late() {
    let clamp = Config { window: Some(Bytes(9216)), clamp: true, ..of(40_000) };
    let mut credit = credit(&Config { think: Duration::from_ms(1), ..clamp });
    let mut now = NOW;
    let mut sent = VecDeque::new();
    for burst in 0..3 {
        let ids = 10 * burst..10 * burst + 5;
        for id in ids {
            ask(&mut credit, id..id + 1, 200_000);
            sent.extend(grants(&mut credit, now));
        }
        while let Some(grant) = sent.pop_front_if(|_| burst < 2) {
            now += Duration::from_ms(2);
            credit.on_finished(now, grant, gap(0));
            sent.extend(grants(&mut credit, now));
        }
    }
    assert_eq!(sent.len(), 5, "some ahead of the pace");
    ask(&mut credit, 100..101, 200_000);
    assert!(grants(&mut credit, now).is_empty());
    let soon = now + Duration::from_us(1);
    for _ in 0..2 {
        credit.on_finished(soon, sent.pop_front().unwrap(), gap(0));
    }
    assert!(grants(&mut credit, soon).is_empty());
    for at in core::iter::from_fn(|| credit.lets_go_at().inspect(|at| sent.extend(grants(&mut credit, *at)))).take(20) {
        assert!(at > soon && at < soon + Duration::from_ms(20), "{at:?}");
    }
    assert_eq!(sent.len(), 4, "that which waited has gone");
}

/// Of responses whose size nobody knows it is taken that they are what they cost.
#[test]
fn where_servers_think_what_is_unknown_has_its_window() {
    let mut credit =
        credit(&Config { think: Duration::from_ms(1), window: Some(Bytes(10_000)), clamp: true, ..of(20_000) });
    for id in 0..3 {
        credit.on_request(NOW, request(id, None));
    }
    assert_eq!((grants(&mut credit, NOW).len(), credit.next_timer()), (2, Some(NOW + responses(1))));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Ask(Option<u64>, Option<u64>),
    Finish(usize, u64, u64),
    Withdraw(usize),
    Progress,
    Clock(i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let any_index = || 0..1_000_usize;
    let step = prop_oneof![
        4 => (prop::option::of(0..200_000_u64), prop::option::weighted(0.3, 1..50_000_u64))
            .prop_map(|(expected, window)| Step::Ask(expected, window)),
        3 => (any_index(), 0..300_000_u64, prop_oneof![4 => Just(0_u64), 1 => 1..9_u64])
            .prop_map(|(which, bytes, late)| Step::Finish(which, bytes, late)),
        1 => any_index().prop_map(Step::Withdraw),
        1 => Just(Step::Progress),
        // A clock may even go back.
        2 => prop_oneof![
            8 => 0..200_000_000_000_i64,
            4 => 900_000_000_000..2_000_000_000_000_i64,
            1 => -1_000_000_000_000..0_i64
        ]
        .prop_map(Step::Clock),
    ];
    prop::collection::vec(step, 1..300)
}

fn configs() -> impl Strategy<Value = Config> {
    let search = Search { hold: 2, ..Search::default() };
    prop_oneof![
        (1..100_000_u64, any::<bool>()).prop_map(|(budget, clamp)| Config { clamp, ..of(budget) }),
        (1..100_000_u64, 1..2_000_000_000_000_u64)
            .prop_map(|(budget, think)| Config { think: Duration(think), ..of(budget) }),
        (1..100_000_u64).prop_map(|budget| Config { learn_think: true, ..of(budget) }),
        any::<bool>().prop_map(move |clamp| Config { learn: true, clamp, search: search.clone(), ..Config::default() }),
    ]
}

proptest! {
    /// Whatever happens: what is under way, and does not hang, fits into the budget by which it was let go, or is one request alone; what
    /// was let go in the last second does not hang; requests leave in order and each once; and when all are over, all credit is back and the next request goes.
    #[test]
    fn credit_is_neither_overdrawn_nor_lost(config in configs(), steps in steps()) {
        let mut credit = credit(&config);
        let (mut waiting, mut sent) = (VecDeque::new(), Vec::<Grant>::new());
        let (mut now, mut next) = (Time(1 << 50), 0);
        // Nothing hangs by a clock that went back, until it has come so far again.
        let mut same_clock = true;
        for step in steps {
            match step {
                Step::Ask(expected, window) => {
                    let (expected, window) = (expected.map(Bytes), window.map(Bytes));
                    credit.on_request(now, Request { id: RequestId(next), expected, window });
                    waiting.push_back(next);
                    next += 1;
                }
                Step::Finish(which, bytes, out_of_order) if !sent.is_empty() => {
                    let grant = sent.swap_remove(which % sent.len());
                    credit.on_finished(now, grant, Outcome { received: Bytes(bytes), out_of_order });
                }
                Step::Withdraw(which) if !waiting.is_empty() => {
                    let id = waiting.remove(which % waiting.len()).unwrap();
                    credit.on_withdrawn(now, RequestId(id));
                }
                Step::Progress => credit.on_progress(now, Bytes(1448)),
                Step::Clock(by) => {
                    now = Time(now.0.saturating_add_signed(by));
                    same_clock &= by >= 0;
                    if credit.next_timer().is_some_and(|at| at.0 <= now.0) {
                        credit.on_timer(now, 0);
                        prop_assert!(credit.next_timer().is_none_or(|at| at.0 > now.0));
                    }
                }
                Step::Finish(..) | Step::Withdraw(_) => {}
            }
            while let Some(grant) = credit.poll(now) {
                prop_assert_eq!(Some(grant.id().0), waiting.pop_front(), "first in, first out");
                sent.push(grant);
                let status = credit.status();
                let lately = sent.iter().filter(|sent| same_clock && now.since(sent.at()) <= Duration::from_ms(1000));
                let together: u128 = lately.clone().map(|sent| u128::from(sent.cost().0)).sum();
                let fits = status.budget.is_none_or(|budget| together.min(u64::MAX.into()) <= u128::from(budget.0));
                prop_assert!(fits || lately.count() <= 1);
                let hangs = matches!(&credit.limit, Limit::Learned(knee) if knee.moving(credit.outstanding) != credit.outstanding);
                let all_fit = status.budget.is_none_or(|budget| status.under_way <= budget);
                prop_assert!(all_fit || hangs || sent.len() == 1);
            }
            let costs: u128 = sent.iter().map(|grant| u128::from(grant.cost().0)).sum();
            let status = credit.status();
            prop_assert_eq!(u128::from(status.under_way.0), costs.min(u128::from(u64::MAX)));
            prop_assert_eq!((status.outstanding, status.waiting), (sent.len() as u64, waiting.len() as u64));
            prop_assert!(waiting.is_empty() || !sent.is_empty(), "something waits and nothing is under way");
            prop_assert!(!matches!(&credit.limit, Limit::Paced(_, thinking) if !thinking.adds_up()));
        }
        // Nobody starves: with the responses come all requests, in order.
        while let Some(grant) = sent.pop() {
            credit.on_finished(now, grant, gap(0));
            for grant in grants(&mut credit, now) {
                prop_assert_eq!(Some(grant.id().0), waiting.pop_front());
                sent.push(grant);
            }
        }
        let status = credit.status();
        prop_assert_eq!((waiting.len(), status.outstanding, status.under_way), (0, 0, Bytes(0)));
    }
}

proptest! {
    /// Servers that think for as long as was said, and a link that brings one response after the other: what of their responses has not
    /// come fits into what the port holds at once, or is one response. And the link is never idle longer than servers think while requests wait.
    #[test]
    fn responses_of_servers_that_think_fit_into_the_port(
        budget in 5000..60_000_u64,
        think in 1..2_000_u64,
        asked in prop::collection::vec((0..300_u64, 1..20_000_u64), 1..80),
    ) {
        let think = Duration::from_us(think);
        let mut credit = credit(&Config { think, ..of(budget) });
        let (link, mut has_gone_ahead) = (Rate(1_000_000_000), false);
        // Times and sizes; then grants, by when their responses begin to come and have come.
        let mut asked: VecDeque<_> = asked
            .into_iter()
            .scan(Time(0), |at, (later, bytes)| {
                *at += Duration::from_us(later);
                Some((*at, Bytes(bytes)))
            })
            .collect();
        let (mut sent, mut link_free, mut next) = (VecDeque::<(Time, Time, Grant)>::new(), Time(0), 0);
        let mut now = Time(0);
        while !asked.is_empty() || !sent.is_empty() {
            while let Some((_, bytes)) = asked.pop_front_if(|(at, _)| *at <= now) {
                credit.on_request(now, request(next, Some(bytes.0)));
                next += 1;
            }
            while let Some((_, _, grant)) = sent.pop_front_if(|(_, came, _)| *came <= now) {
                credit.on_finished(now, grant, gap(0));
            }
            for grant in grants(&mut credit, now) {
                let begins = now + think;
                let segments = grant.cost().0.div_ceil(1024);
                link_free = link_free.max(begins) + link.time_for(Bytes(grant.cost().0 + 90 * segments));
                sent.push_back((begins, link_free, grant));
            }
            let comes: Vec<_> = sent.iter().filter(|(begins, ..)| *begins <= now).map(|(.., grant)| grant.cost().0).collect();
            let Limit::Paced(_, thinking) = &credit.limit else { panic!("servers think") };
            has_gone_ahead |= thinking.has_gone_ahead();
            let largest = comes.iter().max().map_or(0, |largest| 2 * largest);
            let most = if has_gone_ahead || largest > budget { budget * 5 / 4 } else { budget };
            prop_assert!(comes.len() <= 1 || comes.iter().sum::<u64>() <= most, "{comes:?} at {now:?}");
            prop_assert!(credit.status().waiting == 0 || link_free > now, "the link has nothing to bring though requests wait");
            let events = [asked.front().map(|asked| asked.0), sent.front().map(|sent| sent.1), credit.next_timer()];
            // Responses begin to come, too, which nobody is told of.
            let begins = sent.iter().map(|sent| sent.0).find(|begins| *begins > now);
            let Some(soonest) = events.into_iter().flatten().chain(begins).min() else { break };
            now = now.max(soonest);
        }
        prop_assert_eq!((credit.status().waiting, credit.status().outstanding), (0, 0));
    }
}

proptest! {
    /// Servers that think for times that differ, so that what is found goes up and down: nothing is counted wrong, and all are answered.
    #[test]
    fn what_is_found_may_change_while_requests_are_under_way(
        budget in 5000..40_000_u64,
        think_us in prop::collection::vec(0..4000_u64, 1..40),
        lossy in 0..200_u64,
    ) {
        let mut credit = credit(&Config { learn_think: true, ..of(budget) });
        let (mut now, mut next) = (Time::from_us(1), 0);
        for _ in 0..12 {
            for _ in 0..SERVERS {
                credit.on_request(now, request(next, Some(RESPONSE)));
                next += 1;
            }
            let mut sent = Vec::<(Time, Grant)>::new();
            loop {
                for grant in grants(&mut credit, now) {
                    let think = think_us[grant.id().0 as usize % think_us.len()];
                    sent.push((now + Duration::from_us(44 + think), grant));
                }
                let Some(first) = (0..sent.len()).min_by_key(|&which| (sent[which].0, sent[which].1.id())) else { break };
                if let Some(timer) = credit.next_timer().filter(|timer| *timer < sent[first].0) {
                    now = timer;
                    credit.on_timer(now, 0);
                    continue;
                }
                let (comes, grant) = sent.swap_remove(first);
                now = comes;
                let out_of_order = u64::from(grant.id().0 % 200 == lossy);
                credit.on_finished(now, grant, Outcome { received: Bytes(RESPONSE), out_of_order });
            }
            prop_assert_eq!((credit.status().waiting, credit.status().outstanding), (0, 0));
        }
    }
}
