//! What the search decides, one decision at a time; the other tests say where it ends up.

use super::super::super::super::RequestId;
use super::super::*;

const MS: u64 = Duration::from_ms(1).0;
const SEGMENT: Bytes = Bytes(1000);
const BUDGET: Bytes = Bytes(10_000);
/// Half as much again, and a segment.
const MORE: u64 = 16_000;
/// Three quarters.
const LESS: u64 = 7500;
/// Twelve measurements, which is the default.
const HOLD: Phase = Phase::Hold { left: 12 };
const UP: Phase = Phase::Up { paid: None, widened: false };
/// Growth has just come to its end.
const FIRST_HOLD: Phase = Phase::Hold { left: BEFORE_FIRST_TRIAL };
const LAST_HOLD: Phase = Phase::Hold { left: 1 };
const TRY: Phase = Phase::Try { back: Bytes(5000) };
const DOUBT: Phase = Phase::Doubt { low: None, lost: false };

/// A search that is in this phase. The goodput with its limit has been 10 bytes per picosecond.
fn search(phase: Phase) -> Knee {
    Knee { phase, limited: Some(10.0), ..Knee::new(&Search::default(), SEGMENT, BUDGET) }
}

/// Budget and phase after a measurement in which a request had to wait.
fn after(knee: Knee, goodput: f64) -> (u64, Phase) {
    let knee = measured(knee, goodput);
    (knee.budget.0, knee.phase)
}

fn measured(mut knee: Knee, goodput: f64) -> Knee {
    knee.measured(goodput, true);
    knee
}

/// It is cut while its budget is under way.
fn cut(mut knee: Knee, requests: u64) -> Knee {
    knee.most = knee.budget;
    knee.cut(Why::OutOfOrder, under_way(requests));
    knee
}

/// Requests of 1000 bytes each.
fn under_way(requests: u64) -> Outstanding {
    Outstanding { requests, bytes: u128::from(requests * 1000) }
}

fn grant(knee: &mut Knee, at: u64, requests: u64) {
    knee.on_granted(Time(at), Bytes(1000), under_way(requests));
}

/// A request that was granted at `at` is over. `requests` are still under way.
fn finish(knee: &mut Knee, now: u64, at: u64, received: u64, requests: u64) {
    let outcome = Outcome { received: Bytes(received), out_of_order: 0 };
    knee.on_finished(Time(now), &Grant::new(Time(at), RequestId(0), Bytes(1000)), &outcome, under_way(requests));
}

// Growing.

#[test]
fn a_doubled_budget_stays_if_goodput_grows_by_a_twentieth_and_is_doubled_again_if_by_a_tenth() {
    let doubled = || {
        let paid = Some((Bytes(5000), 10.0));
        search(Phase::Up { paid, widened: false })
    };
    assert_eq!(after(doubled(), 10.5), (5000, FIRST_HOLD));
    assert_eq!(after(doubled(), 10.6), (10_000, FIRST_HOLD));
    let stays = measured(Knee { took: Some(7.0), ..doubled() }, 11.0);
    assert_eq!(
        (stays.budget, stays.phase, stays.limited, stays.held_took),
        (BUDGET, FIRST_HOLD, Some(11.0), Some(7.0))
    );
    // Where losses do not count, the last step is taken back, and windows are as they were.
    assert_eq!(after(Knee { deaf: true, free_in: 9, ..doubled() }, 11.0), (5000, HOLD));
    assert_eq!(after(doubled(), 11.1), (20_000, Phase::Up { paid: Some((BUDGET, 11.1)), widened: false }));
}

#[test]
fn windows_are_doubled_where_no_request_waits_and_halved_if_that_does_not_pay() {
    let mut knee = Knee { deaf: true, wide: 4, ..search(UP) };
    knee.measured(10.0, false);
    assert_eq!((knee.wide, knee.budget.0), (8, 20_000));
    assert_eq!(knee.phase, Phase::Up { paid: Some((BUDGET, 10.0)), widened: true });
    knee.measured(10.0, false);
    assert_eq!((knee.wide, knee.budget.0), (4, 10_000));
    assert_eq!(knee.phase, HOLD);
    for (wide, then) in [(512, 1024), (1024, 1024)] {
        let mut knee = Knee { deaf: true, wide, ..search(UP) };
        knee.measured(10.0, false);
        assert_eq!(knee.wide, then, "1024 times as wide is the most");
    }
}

/// Beside long flows each step is small where requests wait, as doubling them all at once is a burst.
#[test]
fn growth_doubles_unless_losses_do_not_count_and_requests_wait() {
    let budget = |deaf| after(Knee { waits: true, deaf, ..search(UP) }, 10.0).0;
    assert_eq!([budget(false), budget(true)], [20_000, MORE]);
    let mut knee = Knee { deaf: true, ..search(UP) };
    knee.measured(10.0, false);
    assert_eq!(knee.budget.0, 20_000);
}

#[test]
fn a_measurement_counts_if_the_budget_held_something_back() {
    let counts = |mut knee: Knee| {
        let before = (knee.phase, knee.budget);
        knee.measured(1.0, false);
        (knee.phase, knee.budget) != before
    };
    for phase in [HOLD, TRY, Phase::Less { back: BUDGET }, UP] {
        assert!(!counts(search(phase)), "{phase:?}: nothing waits");
    }
    // A request that waits, but did not have to while this was measured, counts where goodput is looked for that was there.
    assert!(counts(Knee { waits: true, ..search(UP) }));
    assert!(counts(Knee { waits: true, before: Some(10.0), ..search(HOLD) }));
    assert!(!counts(Knee { waits: true, ..search(HOLD) }));
    assert!(!counts(Knee { before: Some(10.0), ..search(HOLD) }));
    assert!(counts(search(DOUBT)), "a doubt is settled in any case");
}

// Holding, and trying more and less.

#[test]
fn it_holds_for_as_many_measurements_as_it_was_told_and_longer_after_harm() {
    let mut knee = search(TRY);
    let mut cautions = [0; 6];
    for caution in &mut cautions {
        *caution = knee.caution;
        knee.hold();
        assert_eq!(knee.phase, Phase::Hold { left: 12 * *caution });
        knee.be_careful();
    }
    assert_eq!(cautions, [1, 2, 4, 8, 16, 16]);
    assert_eq!(after(search(Phase::Hold { left: 3 }), 10.0), (10_000, Phase::Hold { left: 2 }));
    assert_eq!(after(search(Phase::Hold { left: 2 }), 10.0), (10_000, LAST_HOLD));
    assert_ne!(after(search(LAST_HOLD), 10.0).0, 10_000);
}

#[test]
fn less_and_more_are_tried_in_turns() {
    let less = (LESS, Phase::Less { back: BUDGET });
    let more = (MORE, Phase::Try { back: BUDGET });
    assert_eq!(after(search(LAST_HOLD), 10.0), less);
    assert_eq!(after(Knee { less_is_next: true, ..search(LAST_HOLD) }, 10.0), more);
    // Less than the largest response, or than two segments, is no less.
    assert_eq!(after(Knee { largest: Bytes(9999), ..search(LAST_HOLD) }, 10.0), less);
    let room_for_two = (20_000, Phase::Try { back: BUDGET });
    assert_eq!(after(Knee { largest: BUDGET, ..search(LAST_HOLD) }, 10.0), room_for_two);
    let two_segments = Knee { budget: Bytes(2000), ..search(LAST_HOLD) };
    assert_eq!(after(two_segments, 10.0), (4000, Phase::Try { back: Bytes(2000) }));
}

#[test]
fn more_stays_if_goodput_grows_by_more_than_a_twentieth() {
    assert_eq!(after(search(TRY), 10.5), (5000, HOLD));
    let knee = measured(Knee { caution: 8, ..search(TRY) }, 10.6);
    assert_eq!((knee.budget.0, knee.phase), (MORE, Phase::Try { back: BUDGET }));
    assert_eq!((knee.caution, knee.limited), (1, Some(10.6)), "what pays does no harm");
}

/// 3 % less are noise.
#[test]
fn more_that_does_harm_is_not_tried_soon_again() {
    let ceiling_and_caution = |goodput| {
        let knee = measured(search(TRY), goodput);
        (knee.ceiling, knee.caution)
    };
    assert_eq!(ceiling_and_caution(9.7), (Bytes(MOST), 1));
    assert_eq!(ceiling_and_caution(9.6), (Bytes(9000), 2));
}

#[test]
fn less_stays_unless_goodput_falls() {
    let less = || search(Phase::Less { back: Bytes(20_000) });
    assert_eq!(after(less(), 9.7), (10_000, HOLD));
    assert_eq!(after(less(), 9.6), (20_000, HOLD));
}

#[test]
fn a_ceiling_stops_trials_and_rises_by_a_quarter_each_hold() {
    let under = |ceiling| Knee { ceiling: Bytes(ceiling), less_is_next: true, ..search(LAST_HOLD) };
    let knee = measured(under(8800), 10.0);
    assert_eq!((knee.ceiling.0, knee.budget.0), (11_000, 11_000));
    assert_eq!(knee.phase, Phase::Try { back: BUDGET });
    assert_eq!(after(under(8000), 10.0), (10_000, HOLD), "no room for a trial");
    assert_eq!(measured(under(MOST), 10.0).ceiling.0, MOST);
}

// Cuts.

#[test]
fn a_cut_leaves_seven_tenths_and_a_ceiling_of_nine() {
    let knee = cut(search(HOLD), 3);
    assert_eq!((knee.budget.0, knee.ceiling.0), (7000, 9000));
    assert_eq!((knee.changes(), knee.limited), ((1, Some(Why::OutOfOrder)), None));
    assert_eq!(cut(search(TRY), 3).caution, 2, "a trial has done harm");
}

#[test]
fn a_cut_counts_from_what_was_under_way() {
    let mut knee = search(HOLD);
    grant(&mut knee, 0, 5);
    knee.on_timer(Time(1), 1, under_way(5));
    assert_eq!((knee.budget.0, knee.ceiling.0, knee.top), (3500, 4500, Some(Bytes(5000))));
    assert_eq!(knee.most, Bytes(5000));
    for requests in (0..5).rev() {
        finish(&mut knee, 2, 0, 0, requests);
    }
    assert_eq!(knee.most, Bytes::ZERO, "what is under way from now on counts for the next cut");
}

#[test]
fn a_cut_goes_back_to_a_budget_with_which_nothing_was_lost() {
    let up = |paid| search(Phase::Up { paid: Some((Bytes(paid), 8.0)), widened: false });
    let raised = Some((Bytes(2000), Bytes(4000)));
    let left = |knee: Knee| cut(knee, 3).budget.0;
    assert_eq!([left(up(5000)), left(up(8000))], [5000, 7000], "the last that paid, or seven tenths if that is less");
    assert_eq!(left(search(TRY)), 5000, "that before the trial");
    assert_eq!(left(Knee { raised, largest: Bytes(1000), ..up(5000) }), 4000, "that before costs got less");
    assert_eq!(left(Knee { raised, largest: Bytes(1001), ..up(5000) }), 5000, "they have not");
}

#[test]
fn a_cut_is_waited_out_until_all_is_over_that_was_under_way() {
    // It waits less for its next trial where nobody knows whether servers think; but not if it was a trial that lost data, as it was then
    // known that more might do so.
    assert_eq!(cut(search(HOLD), 0).phase, FIRST_HOLD);
    assert_eq!(cut(search(Phase::Try { back: Bytes(9000) }), 0).phase, Phase::Hold { left: 24 });
    let mut knee = search(HOLD);
    for at in 0..3 {
        grant(&mut knee, at, at + 1);
    }
    knee.on_timer(Time(2), 1, under_way(3));
    assert_eq!((knee.phase, knee.old), (Phase::Cut, 3));
    // It is newer than the cut, and the one of the same time is not.
    grant(&mut knee, 3, 4);
    finish(&mut knee, 4, 3, 0, 3);
    assert_eq!(knee.old, 3);
    finish(&mut knee, 5, 2, 0, 2);
    assert_eq!(knee.old, 2);
    grant(&mut knee, 6, 3);
    finish(&mut knee, 7, 0, 0, 2);
    assert_eq!((knee.phase, knee.old), (Phase::Cut, 1));
    finish(&mut knee, 8, 1, 1000, 1);
    assert_eq!(knee.phase, FIRST_HOLD);
    assert_eq!((knee.sample.received, knee.busy_since), (1000, Some(Time(8))), "what was before does not count");
    assert!(knee.sample.warm);
}

#[test]
fn a_cut_is_waited_out_for_twenty_stalls_at_most() {
    let stalls = 20 * Duration::from_ms(50).0;
    let old = |now| {
        let mut knee = search(HOLD);
        grant(&mut knee, 0, 1);
        let mut knee = cut(knee, 2);
        finish(&mut knee, now, 0, 0, 2);
        knee.old
    };
    assert_eq!([old(stalls), old(stalls + 1)], [1, 0]);
}

#[test]
fn while_a_cut_is_waited_out_nothing_is_measured() {
    let mut knee = search(DOUBT);
    grant(&mut knee, 0, 1);
    knee.old = 1;
    knee.on_progress(Time(1), BUDGET, under_way(1));
    knee.on_progress(Time(2), BUDGET.times(64), under_way(1));
    assert_eq!((knee.phase, knee.recent), (DOUBT, None));
}

#[test]
fn cuts_that_leave_one_request_are_doubted() {
    let phase = |largest| {
        let halved = Search { cut: 0.5, ..Search::default() };
        cut(Knee { search: halved, budget: Bytes(8000), largest: Bytes(largest), ..search(HOLD) }, 1).phase
    };
    assert_eq!([phase(2000), phase(2001)], [Phase::Cut, DOUBT]);
}

#[test]
fn a_doubted_budget_is_cut_further_while_small_requests_go_beside_a_large_one() {
    let doubted = || Knee { largest: Bytes(6000), ..search(DOUBT) };
    assert_eq!(cut(doubted(), 2).budget.0, 7000);
    let alone = cut(doubted(), 1);
    assert_eq!((alone.budget.0, alone.phase), (10_000, Phase::Doubt { low: None, lost: true }));
}

#[test]
fn a_cut_remembers_the_goodput_before_it() {
    let paid = Some((Bytes(8000), 8.0));
    let up = search(Phase::Up { paid, widened: false });
    assert_eq!(cut(up.clone(), 1).before, Some(8.0), "of the last budget that paid");
    assert_eq!(cut(Knee { recent: Some(9.0), ..up.clone() }, 1).before, Some(9.0), "better of this one");
    assert_eq!(cut(Knee { recent: Some(9.0), before: Some(7.0), ..up }, 1).before, Some(7.0), "best before all cuts");
    assert_eq!(cut(search(HOLD), 1).before, Some(10.0), "that with the limit");
    let high = Phase::Try { back: Bytes(9000) };
    assert_eq!(cut(search(high), 1).before, None, "not known of a trial");
    let raised = Some((Bytes(90_000), Bytes(5000)));
    assert_eq!(
        cut(Knee { raised, largest: Bytes(1000), ..search(high) }, 1).before,
        Some(10.0),
        "unless it begins anew"
    );
    assert_eq!(cut(Knee { limited: None, ..search(UP) }, 1).before, None);
}

#[test]
fn a_cut_back_to_a_budget_that_was_measured_is_not_doubted() {
    let up = Phase::Up { paid: Some((Bytes(5000), 8.0)), widened: false };
    for phase in [up, TRY] {
        let alone = Knee { largest: Bytes(4000), ..search(phase) };
        let known = cut(alone, 1);
        assert_eq!((known.budget.0, known.phase, known.before), (5000, Phase::Cut, None));
    }
    let less = Phase::Try { back: Bytes(7001) };
    assert_eq!(cut(Knee { largest: Bytes(4000), ..search(less) }, 1).phase, DOUBT);
}

// Connections that are new.

/// A budget of 10,000 bytes does not hold a request of 12,000, which goes alone. With one of 24,000 two would go.
#[test]
fn a_budget_that_was_raised_for_one_request_is_known_with_its_cost() {
    let large = Knee { largest: Bytes(12_000), ..search(UP) };
    let raised = measured(large, 10.0);
    assert_eq!((raised.budget.0, raised.raised), (24_000, Some((Bytes(12_000), BUDGET))));
    let again = measured(Knee { largest: Bytes(30_000), ..raised.clone() }, 12.0);
    assert_eq!(again.raised, Some((Bytes(30_000), BUDGET)), "the budget before the first time");
    let many = measured(Knee { largest: Bytes(10_000), ..search(UP) }, 10.0);
    assert_eq!(many.raised, None, "it held that request");
    let cut = cut(Knee { largest: Bytes(1000), ..raised }, 3);
    assert_eq!((cut.budget, cut.raised), (BUDGET, None));
}

#[test]
fn it_begins_anew_when_requests_cost_half_of_what_the_budget_was_raised_for() {
    let after = |cost, under_way: u64| {
        let raised = Some((Bytes(12_000), BUDGET));
        let mut knee = Knee { budget: Bytes(24_000), recent: Some(9.0), raised, ..search(Phase::Hold { left: 5 }) };
        let many = |requests| Outstanding { requests, bytes: u128::from(requests * cost) };
        knee.on_granted(Time(0), Bytes(cost), many(under_way));
        knee.sample.responses = RESPONSES;
        knee.on_progress(Time(1), Bytes(1000), many(under_way));
        knee.on_progress(Time(2), Bytes(240_000), many(under_way));
        assert_eq!(knee.raised.is_some(), knee.budget.0 == 24_000, "once");
        (knee.budget.0, knee.phase, knee.before)
    };
    assert_eq!(after(6000, 1), (10_000, UP, Some(9.0)));
    assert_eq!(after(6000, 3), (18_000, UP, Some(9.0)), "with so much under way nothing was lost");
    assert_eq!(after(6001, 1).0, 24_000);
}

#[test]
fn it_does_not_grow_anew_where_goodput_is_what_it_was() {
    let anew = || Knee { before: Some(10.0), ..search(UP) };
    assert_eq!(after(anew(), 9.1), (10_000, FIRST_HOLD));
    assert_eq!(after(anew(), 9.0), (20_000, Phase::Up { paid: Some((BUDGET, 9.0)), widened: false }));
}

// Doubts.

#[test]
fn a_cut_that_costs_more_than_a_fifth_of_the_goodput_is_doubted() {
    let cost = |phase| move |goodput| after(Knee { before: Some(10.0), ..search(phase) }, goodput);
    let doubted = |goodput| (MORE, Phase::Doubt { low: Some((BUDGET, goodput)), lost: false });
    let held = cost(HOLD);
    assert_eq!(held(8.0), (10_000, Phase::Hold { left: 11 }));
    assert_eq!(held(7.9), doubted(7.9));
    let many_cuts = cost(DOUBT);
    assert_eq!(many_cuts(8.0), (10_000, HOLD));
    assert_eq!(many_cuts(7.9), doubted(7.9));
    // With a loss in between, what is left has not helped.
    let lost = Knee { before: Some(10.0), ..search(Phase::Doubt { low: None, lost: true }) };
    assert_eq!(after(lost, 10.0).0, MORE);
}

#[test]
fn a_doubt_is_right_if_more_pays_a_tenth() {
    let doubt = |lost| search(Phase::Doubt { low: Some((Bytes(5000), 10.0)), lost });
    let back = measured(doubt(true), 11.0);
    assert_eq!((back.budget.0, back.phase), (5000, Phase::Hold { left: 24 }));
    assert!(!back.deaf);
    assert_eq!(after(doubt(false), 11.1), (MORE, Phase::Try { back: BUDGET }));
    // With what was left nothing was lost. Once that may be chance.
    let now = |taken_back| measured(Knee { lost: true, taken_back, ..doubt(false) }, 11.1);
    let once = now(false);
    assert_eq!((once.budget, once.ceiling, once.phase, once.deaf), (BUDGET, BUDGET, HOLD, false));
    assert!(once.taken_back && now(true).deaf);
    assert!(!measured(Knee { taken_back: true, ..search(LAST_HOLD) }, 10.0).taken_back, "it has held");
    let others = measured(doubt(true), 11.1);
    assert!(others.deaf, "more pays although data is lost");
    assert_eq!((others.budget.0, others.phase), (MORE, Phase::Up { paid: Some((BUDGET, 11.1)), widened: false }));
}

#[test]
fn losses_of_small_requests_that_go_one_at_a_time_are_those_of_others() {
    let lost = |times, start, requests, phase| {
        let (largest, top) = (Bytes(6000), Some(Bytes(30_000)));
        let mut knee = Knee { start: Bytes(start), largest, top, ..search(phase) };
        for _ in 0..times {
            knee.cut(Why::OutOfOrder, under_way(requests));
        }
        knee
    };
    let counted = |start, requests| lost(2, start, requests, DOUBT).lost_alone;
    assert_eq!(counted(12_000, 1), 2);
    assert_eq!(counted(11_999, 1), 0, "more than half of what it began with may overflow a port");
    assert_eq!(counted(12_000, 2), 0, "others go beside it");
    for phase in [DOUBT, HOLD] {
        assert!(!measured(lost(1, 12_000, 1, phase), 10.0).deaf);
        let others = measured(lost(2, 12_000, 1, phase), 10.0);
        assert_eq!((others.deaf, others.lost_alone), (true, 0), "{phase:?}");
        assert_eq!(others.budget.0, 30_000, "what it was before all cuts");
        assert_eq!(others.phase, Phase::Up { paid: Some((BUDGET, 10.0)), widened: false });
    }
    let once = measured(lost(1, 12_000, 1, DOUBT), 10.0);
    assert_eq!(once.budget.0, 30_000, "so much is measured against what is left");
}

#[test]
fn the_second_such_loss_is_the_last_that_is_waited_for() {
    let complete = |knee: Knee, responses| {
        let sample = Sample { received: 1, responses, ..Sample::default() };
        Knee { sample, ..knee }.is_complete(under_way(1))
    };
    let lost = |lost_alone| Knee { lost_alone, ..search(DOUBT) };
    assert_eq!([complete(lost(1), 1), complete(lost(2), 1), complete(lost(2), 0)], [false, true, false]);
    let told_not_to = Search { free: false, ..Search::default() };
    assert!(!complete(Knee { search: told_not_to, ..lost(2) }, 1));
    assert!(!complete(Knee { deaf: true, ..lost(2) }, 1), "it is known");
}

#[test]
fn a_doubt_forgets_no_budget_before_the_cuts() {
    let knee = Knee { top: Some(Bytes(30_000)), ..search(DOUBT) };
    assert_eq!(measured(knee, 10.0).top, Some(Bytes(30_000)));
}

/// Two for each that has fallen below seven tenths, less one for any other: five.
#[test]
fn less_is_taken_when_goodput_falls_again_and_again() {
    let deaf = |fallen| Knee { deaf: true, wide: 8, fallen, falls: 1, ..search(Phase::Hold { left: 9 }) };
    let fallen = |before, goodput| measured(deaf(before), goodput).fallen;
    assert_eq!([fallen(0, 7.0), fallen(0, 6.9), fallen(2, 6.9), fallen(2, 7.0)], [0, 2, 4, 1]);
    assert!(measured(deaf(2), 6.9).deaf);
    let hears = measured(deaf(3), 6.9);
    assert_eq!((hears.deaf, hears.wide, hears.fallen, hears.compared), (false, 1, 0, 0));
    assert_eq!((hears.budget.0, hears.phase), (7000, HOLD));
}

#[test]
fn losses_count_again_after_the_second_fall_and_then_after_twice_as_many() {
    let mut knee = Knee { deaf: true, wide: 8, ..search(HOLD) };
    let mut falls = |times| {
        for _ in 0..times {
            knee = measured(Knee { fallen: 4, limited: Some(10.0), ..knee.clone() }, 6.9);
        }
        std::mem::replace(&mut knee.deaf, true)
    };
    assert_eq!([falls(1), falls(1)], [true, false]);
    assert_eq!([falls(2), falls(1)], [true, false]);
    assert_eq!([falls(4), falls(1)], [true, false]);
    let once = measured(Knee { deaf: true, wide: 8, fallen: 4, ..search(HOLD) }, 6.9);
    assert_eq!((once.deaf, once.wide, once.budget.0, once.phase), (true, 8, 7000, HOLD), "less by goodput alone");
    assert_eq!((once.fallen, once.limited, once.compared), (0, None, 0));
}

// No limit.

#[test]
fn no_limit_is_tried_where_losses_do_not_count_and_every_so_many_holds() {
    let deaf = |free_in| Knee { deaf: true, free_in, ..search(LAST_HOLD) };
    let free = measured(deaf(1), 10.0);
    assert_eq!((free.budget(), free.changes().1), (None, Some(Why::Free)));
    assert_eq!(free.phase, Phase::Free { left: 5, trial: true }, "two until windows are wide, and three that count");
    let held = measured(deaf(2), 10.0);
    assert_eq!((held.budget(), held.free_in), (Some(Bytes(LESS)), 1));
}

#[test]
fn it_holds_for_six_measurements_before_no_limit_is_tried() {
    let held = |knee| match after(Knee { deaf: true, free_in: 1, ..knee }, 10.0).1 {
        Phase::Hold { left } => left,
        phase => panic!("{phase:?}"),
    };
    assert_eq!(held(Knee { caution: 2, ..search(TRY) }), 6);
    let short = Search { hold: 4, ..Search::default() };
    assert_eq!(held(Knee { search: short, ..search(TRY) }), 4);
    let never = Search { free: false, ..Search::default() };
    assert_eq!(held(Knee { search: never, ..search(TRY) }), 12);
    // It was tried, and is compared with a limit now.
    assert_eq!(held(Knee { free: Some(10.0), ..search(TRY) }), 12);
    assert_eq!(after(Knee { deaf: true, free_in: 2, ..search(TRY) }, 10.0).1, HOLD);
    assert_eq!(after(Knee { free_in: 1, ..search(TRY) }, 10.0).1, HOLD, "losses count");
}

/// 50 times as long as three measurements, in proportion to what it is worth.
#[test]
fn it_does_without_a_limit_for_longer_the_more_that_pays() {
    let worth = |free, limited| Knee::worth(free, limited);
    assert_eq!([worth(3.0, 2.0), worth(1.0, 1.0), worth(1.0, 1000.0), worth(1000.0, 1.0)], [225, 150, 3, 5000]);
}

#[test]
fn a_trial_without_limit_pays_if_goodput_grows_by_more_than_a_twentieth() {
    let trial = |free_every| {
        let free = Some(10.0);
        Knee { deaf: true, free, free_every, compared: 3, ..search(Phase::Free { left: 1, trial: true }) }
    };
    // The average of 10 and three parts in four of 10: what is new counts for a quarter.
    let pays = measured(trial(2), 12.4);
    assert_eq!(pays.phase, Phase::Free { left: (150.0 * 10.6 / 10.0) as u32, trial: false });
    for (free_every, then) in [(1, 2), (8, 16), (64, 64)] {
        let limited = measured(trial(free_every), 12.0);
        assert_eq!((limited.budget(), limited.phase), (Some(BUDGET), HOLD));
        assert_eq!((limited.free_every, limited.free_in), (then, then), "tried half as often");
        assert_eq!((limited.free, limited.compared, limited.changes().1), (None, 0, Some(Why::Limited)));
    }
}

#[test]
fn a_trial_without_limit_counts_its_last_three_measurements_unless_goodput_collapses() {
    let trial = |left| Knee { free_every: 2, ..search(Phase::Free { left, trial: true }) };
    for (left, counted) in [(5, None), (4, None), (3, Some(10.0)), (2, Some(10.0))] {
        let knee = measured(trial(left), 10.0);
        assert_eq!((knee.phase, knee.free), (Phase::Free { left: left - 1, trial: true }, counted));
    }
    for left in [5, 3] {
        assert_eq!(measured(trial(left), 7.0).phase, Phase::Free { left: left - 1, trial: true });
        let collapsed = measured(trial(left), 6.9);
        assert_eq!((collapsed.phase, collapsed.free, collapsed.free_in), (HOLD, None, 4));
    }
    // What was measured before does not make it pay.
    assert_eq!(measured(Knee { free: Some(30.0), ..trial(1) }, 6.9).phase, HOLD);
}

#[test]
fn without_limit_it_is_compared_with_the_limit_again_after_a_while() {
    let free = |left| Knee { deaf: true, free: Some(20.0), ..search(Phase::Free { left, trial: false }) };
    assert_eq!(measured(free(3), 16.0).phase, Phase::Free { left: 2, trial: false });
    // What was measured with a limit long ago does not end it early.
    let limited = Some(30.0);
    assert_eq!(measured(Knee { limited, ..free(3) }, 16.0).phase, Phase::Free { left: 2, trial: false });
    let compared = measured(Knee { compared: 9, ..free(1) }, 16.0);
    assert_eq!((compared.phase, compared.free), (HOLD, Some(19.0)));
    assert_eq!((compared.limited, compared.compared, compared.deaf), (None, 0, true));
}

#[test]
fn the_limit_is_back_at_once_if_goodput_falls_again_and_again() {
    let free = |fallen| Knee { deaf: true, free: Some(20.0), fallen, ..search(Phase::Free { left: 9, trial: false }) };
    let falls = |before| measured(free(before), 13.9);
    assert_eq!((falls(2).fallen, falls(2).phase), (4, Phase::Free { left: 8, trial: false }));
    assert_eq!(measured(free(4), 14.0).fallen, 3);
    let fell = falls(3);
    assert_eq!((fell.deaf, fell.free, fell.budget.0, fell.phase), (true, None, 7000, HOLD));
    assert!(!measured(Knee { falls: 1, ..free(3) }, 13.9).deaf);
}

#[test]
fn the_limit_is_compared_by_three_measurements_with_what_no_limit_gave() {
    let compare = |compared, free| {
        let knee = Knee { deaf: true, free: Some(free), compared, free_in: 9, ..search(Phase::Hold { left: 9 }) };
        measured(knee, 10.0)
    };
    assert_eq!(compare(1, 20.0).phase, Phase::Hold { left: 8 });
    assert_eq!((compare(1, 20.0).compared, compare(1, 20.0).free), (2, Some(20.0)));
    assert_eq!(compare(2, 20.0).phase, Phase::Free { left: 300, trial: false });
    assert_eq!(compare(2, 10.6).phase, Phase::Free { left: 159, trial: false });
    let not = compare(2, 10.5);
    assert_eq!((not.phase, not.free), (Phase::Hold { left: 8 }, None));
    // Nobody compares with a limit alone.
    assert_eq!(measured(Knee { compared: 9, ..search(Phase::Hold { left: 9 }) }, 10.0).phase, Phase::Hold { left: 8 });
}

// What a measurement counts.

#[test]
fn a_measurement_of_bytes_as_they_come_covers_so_many_budgets() {
    let least = |knee: &Knee, requests| {
        let complete = |received| {
            let is_complete = |responses| {
                let sample = Sample { received, responses, ..Sample::default() };
                Knee { sample, ..knee.clone() }.is_complete(under_way(requests))
            };
            assert!(!is_complete(RESPONSES - 1), "how long they take counts, too");
            is_complete(RESPONSES)
        };
        (1..=100).map(|budgets| budgets * 10_000).find(|&enough| complete(enough) && !complete(enough - 1))
    };
    let weighed = [Knee { deaf: true, ..search(UP) }, Knee { before: Some(1.0), ..search(HOLD) }, search(DOUBT)];
    assert_eq!([least(&search(UP), 1), least(&search(UP), 0)], [Some(80_000), Some(20_000)]);
    for knee in weighed {
        assert_eq!([least(&knee, 1), least(&knee, 0)], [Some(640_000), Some(20_000)], "{:?}", knee.phase);
    }
}

#[test]
fn a_measurement_of_whole_responses_covers_so_many_of_those_under_way() {
    let least = |knee: &Knee, warm, requests| {
        let complete = |&responses: &u64| {
            let (received, response) = (u128::from(responses) * 200_000, Bytes(200_000));
            let sample = Sample { received, response, whole: true, warm, responses, ..Sample::default() };
            Knee { sample, ..knee.clone() }.is_complete(under_way(requests))
        };
        (0..100).find(complete)
    };
    // Where sizes differ, as many bytes as if all were as large as the largest.
    let mixed = |received| {
        let sample =
            Sample { received, response: Bytes(200_000), whole: true, warm: true, responses: 90, ..Sample::default() };
        Knee { sample, ..search(UP) }.is_complete(under_way(2))
    };
    assert_eq!([mixed(1_599_999), mixed(1_600_000)], [false, true]);
    let up = search(UP);
    assert_eq!([least(&up, true, 2), least(&up, false, 2)], [Some(8), Some(32)], "4 and 16 times two");
    assert_eq!(least(&Knee { before: Some(1.0), ..up.clone() }, true, 2), Some(32));
    assert_eq!([least(&up, true, 0), least(&up, false, 0)], [None, Some(4)]);
}

#[test]
fn time_counts_from_the_first_byte_of_a_query() {
    let mut knee = search(UP);
    knee.on_refused();
    grant(&mut knee, 0, 1);
    knee.sample.responses = RESPONSES;
    knee.on_progress(Time(1000), Bytes(1000), under_way(1));
    knee.on_progress(Time(1500), Bytes(1000), under_way(1));
    knee.on_progress(Time(2000), Bytes(78_000), under_way(1));
    assert_eq!(knee.phase, Phase::Up { paid: Some((BUDGET, 80.0)), widened: false });
}

/// Responses came meanwhile. As if they had come in no time, goodput was more than any link carries.
#[test]
fn a_late_look_is_no_first_byte() {
    let late_look = |knee: &mut Knee, at| knee.on_progress(Time(at), Bytes::ZERO, under_way(1));
    let responses = |knee: &mut Knee| (1..4).for_each(|number| finish(knee, 800 + number, 0, 25_000, 4 - number));
    for looks_first in [true, false] {
        let mut knee = search(UP);
        knee.on_refused();
        (1..=4).for_each(|requests| grant(&mut knee, 0, requests));
        if looks_first {
            late_look(&mut knee, 700);
            responses(&mut knee);
        } else {
            responses(&mut knee);
            late_look(&mut knee, 900);
        }
        finish(&mut knee, 1000, 0, 25_000, 0);
        assert_eq!(knee.phase, Phase::Up { paid: Some((BUDGET, 100.0)), widened: false }, "{looks_first}");
    }
}

/// Where losses do not count, four requests with small windows are no reason to do nothing more.
#[test]
fn where_losses_do_not_count_windows_get_wider_from_hold_to_hold() {
    let mut knee = Knee { deaf: true, free_in: 9, less_is_next: true, wide: 4, ..search(LAST_HOLD) };
    knee.measured(10.0, false);
    assert_eq!((knee.wide, knee.budget.0), (8, 20_000));
    assert_eq!(knee.phase, Phase::Up { paid: Some((BUDGET, 10.0)), widened: true });
    let waits = measured(Knee { deaf: true, free_in: 9, less_is_next: true, wide: 4, ..search(LAST_HOLD) }, 10.0);
    assert_eq!((waits.wide, waits.budget.0, waits.phase), (4, MORE, Phase::Try { back: BUDGET }));
}

/// A query of 40 ps, a pause, and one of 60 ps.
#[test]
fn time_with_nothing_under_way_does_not_count() {
    let mut knee = search(UP);
    knee.on_refused();
    for (began, took) in [(0, 40), (1000, 60)] {
        grant(&mut knee, began, 1);
        finish(&mut knee, began + took, began, 5000, 0);
        grant(&mut knee, began + took, 1);
        finish(&mut knee, began + took, began + took, 5000, 0);
    }
    assert_eq!(knee.phase, Phase::Up { paid: Some((BUDGET, 200.0)), widened: false });
}

#[test]
fn a_measurement_is_warm_if_something_is_under_way_when_it_begins() {
    let warm = |requests| {
        let mut knee = search(HOLD);
        grant(&mut knee, 0, 5);
        knee.on_progress(Time(1), BUDGET.times(7), under_way(5));
        finish(&mut knee, 2, 0, 0, 1);
        (knee.sample.received, knee.sample.responses) = (80_000, RESPONSES);
        finish(&mut knee, 3, 0, 0, requests);
        assert_eq!(knee.sample.received, 0, "the next has begun");
        knee.sample.warm
    };
    assert_eq!([warm(1), warm(0)], [true, false]);
}

#[test]
fn what_takes_no_time_is_not_measured() {
    let mut knee = search(UP);
    knee.on_refused();
    grant(&mut knee, 0, 1);
    knee.sample.responses = RESPONSES;
    knee.on_progress(Time(0), BUDGET.times(8), under_way(1));
    assert_eq!((knee.phase, knee.recent), (UP, None));
    assert!(knee.sample.warm, "the next begins with something under way");
}

/// Bytes alone may end it while something is under way.
#[test]
fn a_measurement_of_whole_responses_ends_with_a_response() {
    let mut knee = Knee { waits: true, ..search(UP) };
    grant(&mut knee, 0, 2);
    knee.sample = Sample { whole: true, warm: true, responses: 8, ..Sample::default() };
    knee.on_progress(Time(1), BUDGET.times(8), under_way(1));
    assert_eq!(knee.phase, UP);
    let mut idle = search(UP);
    idle.on_refused();
    (idle.sample.busy, idle.sample.responses) = (Duration(1), RESPONSES);
    idle.on_progress(Time(1), BUDGET.times(8), under_way(0));
    assert_eq!(idle.phase, UP);
}

#[test]
fn responses_of_which_every_byte_was_told_are_not_whole() {
    let mut knee = search(HOLD);
    grant(&mut knee, 0, 4);
    knee.on_progress(Time(1), Bytes(1000), under_way(4));
    let whole = [0, 1, 0].map(|received| {
        finish(&mut knee, 1, 0, received, 3);
        knee.sample.whole
    });
    assert_eq!(whole, [false, true, true]);
}

#[test]
fn responses_add_up_while_something_is_under_way() {
    let mut knee = search(HOLD);
    grant(&mut knee, 0, 2);
    knee.sample.warm = true;
    finish(&mut knee, 1, 0, 1000, 1);
    finish(&mut knee, 2, 0, 1000, 1);
    assert_eq!((knee.sample.received, knee.sample.responses), (2000, 2));
    finish(&mut knee, 3, 0, 1000, 0);
    assert_eq!(knee.sample.responses, 0, "nothing takes the place of what was under way when it began");
}

#[test]
fn a_request_would_wait_where_more_is_under_way_than_the_budget() {
    let mut knee = search(Phase::Free { left: 9, trial: true });
    grant(&mut knee, 0, 10);
    assert!(!knee.waits && !knee.sample.limited);
    grant(&mut knee, 0, 11);
    assert!(knee.waits && knee.sample.limited);
    grant(&mut knee, 0, 10);
    assert!(!knee.waits && knee.sample.limited, "it had to, meanwhile");
}

#[test]
fn a_measurement_begins_anew_with_each_budget() {
    let warm = |busy_since| {
        let mut knee = Knee { busy_since, now: Time(7), ..search(HOLD) };
        knee.sample.received = 1;
        knee.set(Bytes(5000), Why::Less);
        assert_eq!((knee.sample.received, knee.busy_since), (0, busy_since.map(|_| Time(7))));
        knee.sample.warm
    };
    assert_eq!([warm(Some(Time(0))), warm(None)], [true, false]);
}

#[test]
fn what_is_new_counts_for_a_quarter() {
    let mut average_of = None;
    average(&mut average_of, 16.0);
    assert_eq!(average_of, Some(16.0));
    average(&mut average_of, 24.0);
    assert_eq!(average_of, Some(18.0));
}

// Stalls.

#[test]
fn a_request_usually_takes_what_it_took_and_what_is_new_counts_for_a_sixteenth() {
    let mut knee = search(HOLD);
    for (at, took, usual) in [(0, 1600, 1600), (10_000, 3200, 1700)] {
        grant(&mut knee, at, 1);
        finish(&mut knee, at + took, at, 1, 0);
        assert_eq!(knee.usual, Some(Duration(usual)));
    }
}

/// A stall is 50 ms. What takes longer than usual for good is usual after a while, however short that was.
#[test]
fn what_a_stall_made_late_counts_as_twice_the_usual_or_a_stall_at_most() {
    let usual = |usual_ms, at, took_ms| {
        let usual = Some(Duration::from_ms(usual_ms));
        let mut knee = Knee { last_stall: Some(Time(1000)), usual, told: Some(Time(0)), ..search(HOLD) };
        grant(&mut knee, at, 1);
        finish(&mut knee, at + Duration::from_ms(took_ms).0, at, 1, 0);
        knee.usual.unwrap().0 / Duration::from_ms(1).0
    };
    assert_eq!([usual(160, 999, 1600), usual(160, 1000, 1600)], [170, 170]);
    assert_eq!([usual(16, 999, 1600), usual(0, 999, 1600)], [18, 3]);
    assert_eq!(usual(160, 999, 176), 161, "it was not late");
}

/// Ten requests have come without a loss.
#[test]
fn a_loss_says_nothing_where_far_less_was_under_way_than_has_come_without() {
    let cut_with = |requests| {
        let mut knee = Knee { filled: Bytes(10_000), ..search(HOLD) };
        grant(&mut knee, 0, requests);
        knee.on_timer(Time(1), 1, under_way(requests));
        knee.budget.0
    };
    assert_eq!([cut_with(2), cut_with(3)], [BUDGET.0, 2100]);
    // A budget that was cut is not filled by what was under way before.
    let mut knee = Knee { filled: Bytes(100_000), ..search(HOLD) };
    grant(&mut knee, 0, 6);
    knee.on_timer(Time(1), 1, under_way(6));
    assert_eq!(knee.budget.0, 4200);
}

/// Two requests wait for a message each, and others come and go beside them.
#[test]
fn what_hangs_is_one_stall_and_leaves_room_to_others() {
    let mut knee = Knee { usual: Some(Duration::from_ms(1)), ..search(HOLD) };
    let beside = |knee: &mut Knee, ms| {
        grant(knee, ms * MS, 3);
        let stalls_at = knee.stalls_at().map(|at| at.0 / MS);
        finish(knee, (ms + 1) * MS, ms * MS, 1000, 2);
        stalls_at
    };
    grant(&mut knee, 0, 2);
    knee.on_timer(Time(50 * MS), 0, under_way(2));
    assert_eq!((knee.changes(), knee.stalls_at()), ((1, Some(Why::Stall)), None), "they go on to be silent");
    assert_eq!(beside(&mut knee, 60), Some(110), "this one is awaited");
    assert_eq!(knee.stalls_at(), None);
    let budget = knee.budget;
    assert!(!knee.fits(budget, under_way(2)));
    knee.on_refused();
    assert_eq!(knee.hangs_at(), Some(Time(1050 * MS)), "a second after the stall");
    assert_eq!(beside(&mut knee, 1040), Some(1090));
    knee.on_refused();
    assert_eq!(knee.hangs_at(), Some(Time(1091 * MS)), "something has come a short while ago");
    knee.ask_anew(Time(1091 * MS));
    assert!(!knee.fits(budget, under_way(2)), "first it is looked whether anything has come");
    knee.on_refused();
    knee.on_timer(Time(1091 * MS), 0, under_way(2));
    assert!(knee.fits(budget, under_way(2)) && !knee.fits(budget, under_way(3)));
    // Time in which only they are under way is idle. Nothing is left to be waited for of what was under way at the cut.
    assert_eq!((knee.busy_since, knee.old), (None, 0));
    assert!(matches!(knee.phase, Phase::Hold { .. }));
    grant(&mut knee, 2000 * MS, 3);
    assert_eq!((knee.busy_since, knee.most), (Some(Time(2000 * MS)), Bytes(1000)));
    finish(&mut knee, 2001 * MS, 2000 * MS, 1000, 2);
    knee.on_progress(Time(2002 * MS), Bytes(5000), under_way(2));
    assert_eq!((knee.busy_since, knee.sample.received), (None, 1000), "a message");
    // One of them gets its last.
    let usual = knee.usual;
    finish(&mut knee, 3000 * MS, 0, 1000, 1);
    assert_eq!((knee.usual, knee.sample.responses, knee.changes().0), (usual, 1, 1));
    assert!(knee.fits(budget, under_way(1)) && !knee.fits(budget, under_way(2)));
    // By another clock nobody knows what hangs.
    knee.ask_anew(Time(49 * MS));
    assert!(!knee.fits(budget, under_way(1)));
}

/// Nine downloads are silent for a while, and then go on.
#[test]
fn what_goes_on_after_a_stall_does_not_hang() {
    let mut knee = Knee { usual: Some(Duration::from_ms(1)), ..search(HOLD) };
    grant(&mut knee, 0, 9);
    knee.on_timer(Time(50 * MS), 0, under_way(9));
    knee.on_refused();
    assert!(knee.hangs_at().is_some());
    knee.on_progress(Time(60 * MS), Bytes(1), under_way(9));
    assert_eq!(knee.hangs_at(), None);
    knee.on_refused();
    knee.on_timer(Time(61 * MS), 0, under_way(9));
    knee.ask_anew(Time(5000 * MS));
    assert!(!knee.fits(Bytes(1), under_way(9)));
}

/// Each is let go in the second after which the one before hangs: there is a stall with both under way, and another second.
#[test]
fn what_hangs_after_another_hangs_too() {
    let mut knee = Knee { usual: Some(Duration::from_ms(1)), ..search(HOLD) };
    grant(&mut knee, 0, 1);
    knee.on_timer(Time(50 * MS), 0, under_way(1));
    grant(&mut knee, 60 * MS, 2);
    knee.on_refused();
    assert_eq!((knee.stalls_at(), knee.hangs_at()), (Some(Time(110 * MS)), None), "the second is awaited");
    knee.on_timer(Time(110 * MS), 0, under_way(2));
    knee.on_refused();
    assert_eq!((knee.stalls_at(), knee.hangs_at()), (None, Some(Time(1110 * MS))));
    // Data of the second leaves the first as it was: it hangs as soon as it is alone.
    let mut answered = knee.clone();
    answered.on_progress(Time(200 * MS), Bytes(1), under_way(2));
    assert_eq!((answered.stalls_at(), answered.hangs_at()), (Some(Time(250 * MS)), None));
    finish(&mut answered, 210 * MS, 60 * MS, 1000, 1);
    answered.on_refused();
    assert_eq!(answered.hangs_at(), Some(Time(1050 * MS)));
    // If the first ends, the second is silent since there were two.
    let mut alone = knee.clone();
    finish(&mut alone, 300 * MS, 0, 1000, 1);
    alone.on_refused();
    assert_eq!(alone.hangs_at(), Some(Time(1110 * MS)));
    knee.on_timer(Time(1110 * MS), 0, under_way(2));
    assert!(knee.fits(knee.budget, under_way(2)) && !knee.fits(knee.budget, under_way(3)));
    // A third, with both of them hanging.
    grant(&mut knee, 1200 * MS, 3);
    knee.on_refused();
    assert_eq!(knee.stalls_at(), Some(Time(1250 * MS)));
    knee.on_timer(Time(1250 * MS), 0, under_way(3));
    knee.on_refused();
    assert_eq!(knee.hangs_at(), Some(Time(2250 * MS)));
    finish(&mut knee, 1300 * MS, 60 * MS, 1000, 2);
    knee.on_refused();
    assert_eq!(knee.hangs_at(), Some(Time(2250 * MS)), "one of those that hung");
}

/// The server of the very first request is gone, so nobody knows how long requests take. That cuts no budget.
#[test]
fn the_first_request_hangs_after_two_seconds() {
    let mut knee = search(HOLD);
    grant(&mut knee, 0, 1);
    assert_eq!(knee.stalls_at(), None, "nobody waits for it");
    knee.on_refused();
    assert_eq!((knee.stalls_at(), knee.hangs_at()), (Some(Time(1000 * MS)), None));
    knee.on_timer(Time(1000 * MS), 0, under_way(1));
    knee.on_refused();
    assert_eq!((knee.stalls_at(), knee.hangs_at(), knee.changes()), (None, Some(Time(2000 * MS)), (0, None)));
    knee.on_timer(Time(2000 * MS), 0, under_way(1));
    assert!(knee.fits(knee.budget, under_way(1)));
    finish(&mut knee, 3000 * MS, 0, 1000, 0);
    assert_eq!(knee.usual, Some(Duration::from_ms(3000)), "its server was slow");
}

/// Clocks that wrap go back once. What is silent then is so from the new beginning, whether it was known to hang or not.
#[test]
fn by_another_clock_silence_begins_anew() {
    let late = u64::MAX - 5000 * MS;
    for until_ms in [10, 50, 1050] {
        let mut knee = Knee { usual: Some(Duration::from_ms(1)), ..search(HOLD) };
        grant(&mut knee, late, 1);
        for ms in [50, 1050] {
            if ms <= until_ms {
                knee.on_refused();
                knee.on_timer(Time(late + ms * MS), 0, under_way(1));
            }
        }
        knee.ask_anew(Time(7 * MS));
        assert!(!knee.fits(knee.budget, under_way(1)), "nobody knows what hangs");
        knee.on_refused();
        assert_eq!(knee.stalls_at(), Some(Time(57 * MS)), "{until_ms}");
        knee.on_timer(Time(57 * MS), 0, under_way(1));
        knee.on_refused();
        assert_eq!(knee.hangs_at(), Some(Time(1057 * MS)));
    }
}

#[test]
fn how_soon_requests_are_refused_says_nothing_of_how_long_they_take() {
    let mut knee = search(HOLD);
    let mut took = |told, took, received| {
        let at = knee.now.0;
        grant(&mut knee, at, 1);
        if told {
            knee.on_progress(Time(at + took), Bytes(1), under_way(1));
        }
        finish(&mut knee, at + took, at, received, 0);
        knee.usual.unwrap().0
    };
    assert_eq!([took(false, 16, 0), took(false, 32, 0)], [16, 17], "perhaps nobody tells what comes");
    assert_eq!(took(false, 1600, 1), 1600, "somebody does, and those before were refused");
    assert_eq!(took(false, 16, 0), 1600);
    assert_eq!(took(true, 3200, 0), 1700, "all that came was told before");
}

#[test]
fn losses_that_the_timer_tells_of_cut_the_budget() {
    let cut_by = |out_of_order| {
        let mut knee = search(HOLD);
        grant(&mut knee, 0, 2);
        knee.on_timer(Time(1), out_of_order, under_way(2));
        knee.changes()
    };
    assert_eq!([cut_by(0), cut_by(1)], [(0, None), (1, Some(Why::OutOfOrder))]);
}

#[test]
fn every_cause_has_its_name_and_losses_and_stalls_are_cuts() {
    let causes = [Why::More, Why::Back, Why::Less, Why::OutOfOrder, Why::Stall, Why::Free, Why::Limited];
    assert_eq!(causes.map(Why::name), ["more", "back", "less", "out-of-order", "stall", "free", "limited"]);
    assert_eq!(causes.map(Why::is_cut), [false, false, false, true, true, false, false]);
}

// A pace, where servers think.

/// So much was under way with the budget that is held, and a response took 100 ps.
fn held(phase: Phase) -> Knee {
    Knee { held_most: BUDGET, held_took: Some(100.0), usual: Some(Duration(100)), ..search(phase) }
}

#[test]
fn what_does_not_make_responses_take_longer_does_not_wait_for_the_link() {
    let shows = |most, took| {
        let mut knee = Knee { budget: Bytes(20_000), filled: Bytes(most), took: Some(took), ..held(HOLD) };
        knee.note_what_shows();
        knee.shows
    };
    assert_eq!([shows(15_000, 100.0), shows(15_000, 150.0), shows(15_000, 125.0)], [Some(1.0), Some(0.0), Some(0.5)]);
    assert_eq!([shows(5000, 100.0), shows(5000, 50.0), shows(5000, 75.0)], [Some(1.0), Some(0.0), Some(0.5)]);
    assert_eq!([shows(11_400, 100.0), shows(8600, 100.0)], [None, None], "too little was changed");
    assert_eq!(shows(30_000, 150.0), Some(0.5), "what was under way with a larger budget does not count");
    let unknown = |knee: Knee| {
        let mut knee = Knee { budget: Bytes(20_000), filled: Bytes(15_000), ..knee };
        knee.note_what_shows();
        knee.shows
    };
    assert_eq!(unknown(held(HOLD)), None, "nobody knows how long they take");
    assert_eq!(unknown(Knee { took: Some(1.0), held_took: None, ..held(HOLD) }), None);
}

/// If doubling has shown it, more is tried as soon as the smaller budget has been measured; else less first.
#[test]
fn whether_servers_think_is_found_out_soon_after_the_first_loss() {
    let lost = |shows| {
        let knee =
            Knee { budget: Bytes(20_000), shows, ..held(Phase::Up { paid: Some((BUDGET, 10.0)), widened: false }) };
        let knee = cut(knee, 0);
        assert_eq!((knee.budget, knee.phase), (BUDGET, Phase::Hold { left: 2 }));
        let knee = Knee { filled: BUDGET, took: Some(100.0), ..measured(knee, 10.0) };
        assert_eq!(knee.phase, LAST_HOLD);
        Knee { largest: Bytes(1000), ..measured(knee, 10.0) }
    };
    let paced = lost(Some(0.5));
    assert!(paced.is_paced());
    assert_eq!((paced.budget.0, paced.phase), (15_000, Phase::Try { back: BUDGET }));
    assert!(!paced.finds_out, "there is nothing left to find out");
    let less = lost(None);
    assert_eq!((less.budget.0, less.phase), (7500, Phase::Less { back: BUDGET }));
    // A quarter less took a quarter from goodput, and responses took as long: they do not wait.
    let after = |took, goodput| measured(Knee { filled: Bytes(7500), took: Some(took), ..less.clone() }, goodput);
    let paced = after(100.0, 7.5);
    assert_eq!((paced.is_paced(), paced.budget.0, paced.phase), (true, 20_000, Phase::Try { back: BUDGET }));
    let waits = after(75.0, 7.5);
    assert_eq!((waits.is_paced(), waits.budget, waits.phase), (false, BUDGET, HOLD));
    let as_good = after(100.0, 10.0);
    assert_eq!((as_good.is_paced(), as_good.budget.0, as_good.phase), (false, 7500, HOLD));
    // It is found out once. Later less and more take turns.
    let later = Knee { phase: Phase::Less { back: BUDGET }, budget: Bytes(7500), took: Some(100.0), ..held(HOLD) };
    assert_eq!(measured(Knee { filled: Bytes(7500), ..later }, 7.5).phase, HOLD);
}

/// Twice as much was under way. If responses took twice as long, all of them waited, and there is nothing to find out.
#[test]
fn whether_servers_think_is_found_out_soon_after_growth_has_not_paid() {
    let ended = |took| {
        let paid = Some((BUDGET, 10.0));
        let knee =
            Knee { budget: Bytes(20_000), filled: Bytes(20_000), took, ..held(Phase::Up { paid, widened: false }) };
        let knee = measured(knee, 10.0);
        assert_eq!(knee.budget, BUDGET);
        (knee.phase, knee.finds_out, knee.less_is_next)
    };
    assert_eq!(ended(Some(200.0)), (HOLD, false, false));
    assert_eq!(ended(Some(150.0)), (FIRST_HOLD, false, true), "more comes next");
    assert_eq!(ended(None), (FIRST_HOLD, true, false), "less comes next");
    let up = || search(Phase::Up { paid: Some((Bytes(5000), 10.0)), widened: false });
    assert_eq!(after(Knee { deaf: true, ..up() }, 10.0).1, HOLD);
    let wide = Knee { raised: Some((Bytes(9000), Bytes(4000))), ..up() };
    assert_eq!(after(wide, 10.0), (5000, HOLD), "windows are still wide, so all will begin anew");
}

#[test]
fn there_is_no_pace_before_data_is_lost_nor_where_losses_do_not_count() {
    let tries = |knee: Knee| {
        let mut knee = Knee { filled: BUDGET, ..knee };
        knee.try_more();
        (knee.is_paced(), knee.budget.0)
    };
    let thinks = || Knee { shows: Some(1.0), ceiling: Bytes(12_000), ..held(HOLD) };
    assert_eq!(tries(thinks()), (true, 20_000), "a ceiling is for what goes at once");
    assert_eq!(tries(Knee { ceiling: Bytes(MOST), ..thinks() }), (false, MORE));
    assert_eq!(tries(Knee { deaf: true, ..thinks() }), (false, 12_000));
    for (shows, paced) in [(Some(0.25), true), (Some(0.24), false), (None, false)] {
        assert_eq!(tries(Knee { shows, ..thinks() }).0, paced, "{shows:?}");
    }
}

/// Half of the most that was under way before goes at once, and after a pause again.
#[test]
fn a_pace_holds_back_what_does_not_go_at_once() {
    let mut knee = Knee { shows: Some(1.0), ceiling: Bytes(12_000), filled: Bytes(8000), ..held(HOLD) };
    knee.try_more();
    assert_eq!((knee.budget.0, knee.usual), (18_000, Some(Duration(100))));
    let goes = |knee: &mut Knee, at, requests| {
        let goes = knee.paces(Time(at), Bytes(1000), under_way(requests));
        if goes {
            grant(knee, at, requests + 1);
        }
        goes
    };
    for query in [200, 203] {
        // 1000 bytes drain in 5 ps, and 3000 in 16.
        let gone = (0..9).find(|&requests| !goes(&mut knee, query, requests));
        assert_eq!((gone, knee.lets_go()), (Some(4), Some(Time(query + 4))), "{query}");
    }
    knee.ask_anew(Time(0));
    let enough = Knee { budget: BUDGET, ..knee.clone() };
    assert!(goes(&mut enough.clone(), 204, 4), "so much fits at once");
    assert!(!goes(&mut knee, 204, 4));
}

/// What the port holds is the most that waits there if the link is full after a step.
#[test]
fn steps_at_a_pace_are_what_the_port_holds_and_smaller_where_responses_begin_to_wait() {
    let step = |held_most, shows, part| {
        let pace = Some(Pace::new(Bytes(5000), BUDGET));
        let knee = Knee { pace, budget: Bytes(held_most), held_most: Bytes(held_most), part, ..held(HOLD) };
        Knee { shows: Some(shows), largest: Bytes(1000), ..knee }.step_at_a_pace().0 - held_most
    };
    assert_eq!([step(20_000, 1.0, 1.0), step(20_000, 3.0, 1.0), step(20_000, 0.5, 1.0)], [10_000, 10_000, 5000]);
    assert_eq!([step(20_000, 0.0, 1.0), step(80_000, 1.0, 1.0)], [4000, 16_000], "a fifth at least");
    assert_eq!([step(20_000, 1.0, 0.5), step(20_000, 1.0, 0.01)], [5000, 1000], "a request at least");
}

#[test]
fn losses_at_a_pace_lead_back_and_make_steps_smaller_and_what_pays_makes_them_larger() {
    let pace = Some(Pace::new(Bytes(5000), BUDGET));
    let tried = Knee { pace, budget: Bytes(40_000), ..held(Phase::Try { back: Bytes(30_000) }) };
    let lost = cut(tried.clone(), 3);
    assert_eq!((lost.budget.0, lost.part, lost.caution), (30_000, 0.5, 2), "more than 0.7 of it, but nothing was lost");
    assert_eq!(lost.ceiling, Bytes(MOST), "that is for what goes at once");
    let once = Knee { part: 0.25, ..tried };
    let least = cut(Knee { part: LEAST_PART, ..once.clone() }, 3);
    assert_eq!((least.part, least.caution), (LEAST_PART, 2));
    let paid = measured(Knee { most: Bytes(40_000), filled: Bytes(40_000), took: Some(100.0), ..once }, 12.0);
    assert_eq!((paid.part, paid.held_most, paid.held_took), (0.5, Bytes(40_000), Some(100.0)));
    // What was lost with a budget that had been measured: less, and less at once.
    let mut held = cut(Knee { phase: HOLD, ..paid }, 3);
    assert_eq!(held.budget.0, (held.most.0 as f64 * 0.7) as u64);
    held.set(Bytes(50_000), Why::More);
    let drains = Outstanding { requests: 1, bytes: 3500 };
    held.on_granted(Time(0), Bytes(3500), drains);
    assert!(!held.paces(Time(6), Bytes(3500), drains) && held.lets_go() == Some(Time(7)), "0.7 of 5000 bytes");
}

#[test]
fn what_a_timer_tells_of_losses_that_are_known_is_no_other_cut() {
    let lost = cut(search(HOLD), 3);
    let mut known = lost.clone();
    known.on_timer(Time(9), 5, under_way(3));
    assert_eq!((known.budget, known.phase), (lost.budget, Phase::Cut));
    let mut other = Knee { most: BUDGET, ..search(HOLD) };
    other.on_timer(Time(9), 5, under_way(3));
    assert_eq!(other.phase, Phase::Cut);
}

/// One request at a time, each after the other: the first byte of each takes its time with such a budget.
#[test]
fn the_first_byte_counts_where_a_query_goes_on() {
    let goodput = |waits| {
        let mut knee = search(HOLD);
        for number in 0..4 {
            knee.ask_anew(Time(0));
            grant(&mut knee, 1000 * number, 1);
            if waits {
                knee.on_refused();
            } else {
                // It would wait, where nobody does.
                knee.waits = true;
            }
            knee.on_progress(Time(1000 * number + 500), Bytes(1000), under_way(1));
            finish(&mut knee, 1000 * number + 1000, 1000 * number, 19_000, 0);
            assert_eq!(knee.follows, waits);
        }
        knee.recent
    };
    assert_eq!([goodput(true), goodput(false)], [Some(80_000.0 / 3500.0), Some(80_000.0 / 2000.0)]);
}

/// A ceiling limits what goes at once. A trial at a pace says nothing about that.
#[test]
fn a_paced_trial_that_is_worse_sets_no_ceiling() {
    let tried = |pace| {
        let knee = Knee { pace, budget: Bytes(20_000), ..held(Phase::Try { back: BUDGET }) };
        let knee = measured(Knee { filled: Bytes(20_000), took: Some(200.0), ..knee }, 9.0);
        (knee.budget, knee.ceiling, knee.caution)
    };
    assert_eq!(tried(Some(Pace::new(Bytes(5000), BUDGET))), (BUDGET, Bytes(MOST), 2));
    assert_eq!(tried(None), (BUDGET, Bytes(18_000), 2));
}

/// With an old pace, what is more would go at that of then.
#[test]
fn a_pace_is_forgotten_where_servers_think_no_more() {
    let pace = Some(Pace::new(Bytes(5000), BUDGET));
    let mut knee = Knee { pace, shows: Some(0.1), ceiling: Bytes(12_000), filled: BUDGET, ..held(HOLD) };
    knee.try_more();
    assert_eq!((knee.pace.is_none(), knee.budget.0), (true, 12_000));
    let pace = Some(Pace::new(Bytes(5000), BUDGET));
    let mut doubts = Knee { pace, ..held(HOLD) };
    doubts.doubt(10.0, false);
    assert!(doubts.pace.is_none() && doubts.budget.0 == MORE);
}

/// Three requests of a quarter of the budget each go where four have gone.
#[test]
fn less_is_one_request_less_at_least() {
    let less = |largest, filled, deaf| {
        let knee = Knee { largest: Bytes(largest), filled: Bytes(filled), deaf, free_in: 9, ..search(LAST_HOLD) };
        after(knee, 10.0).0
    };
    assert_eq!([less(2000, 10_000, false), less(2500, 10_000, false)], [LESS, LESS]);
    assert_eq!([less(3000, 9000, false), less(3000, 6000, false), less(3000, 5999, false)], [6000, 3000, LESS]);
    assert_eq!(less(3000, 9000, true), LESS, "where losses do not count");
}
