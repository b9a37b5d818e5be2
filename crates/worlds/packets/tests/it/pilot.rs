//! What a run takes, told by its plan and by the first part of it.

use incast_packets::{Control, DriverKind, Packets, Progress, RunOptions, run};
use incast_plan::{Handshake, Plan};
use incast_protocols::{Bytes, Duration, Time};
use incast_record::{Outcome, Run};
use incast_world::{Shown, Work, World as _};

use crate::support::{add_flow, add_job, add_rounds, cable, new_reno, no_marks, packets, plan, star, star_load, tcp};

/// Runs the first packet-hops of a plan. Returns how far it came with half of them and with all, and what that shows.
fn pilot(plan: &Plan, packet_hops: u64, driver: DriverKind) -> (Run, Option<Progress>, Progress, Shown) {
    let control = Control::default();
    control.end_after(packet_hops);
    let run = run(plan, &RunOptions { driver: Some(driver) }, &control).unwrap();
    (run, control.halfway(), control.progress(), Work::of(plan).shown(&control, 0).unwrap())
}

fn whole(plan: &Plan) -> (Run, Progress) {
    let control = Control::default();
    let run = run(plan, &RunOptions::default(), &control).unwrap();
    (run, control.progress())
}

/// In each of `rounds`, `workers` send one segment each at once through a port with little room.
fn collapse(workers: u32, rounds: u32) -> Plan {
    let network = star(workers + 1, cable(1_000_000_000, Duration::from_us(1)), &packets(9), &no_marks());
    let mut plan = plan(network, new_reno(), tcp());
    add_rounds(&mut plan, workers, 1_400, rounds, |_, _| Duration::ZERO);
    plan
}

#[test]
fn a_pilot_ends_soon_after_its_packet_hops_and_shows_those_of_the_run() {
    let plan = collapse(50, 100);
    let all = whole(&plan).0.totals.packet_hops;
    assert!(all > plan.packet_hops() * 5 / 4, "{all} of {}", plan.packet_hops());
    for driver in [DriverKind::Sweep, DriverKind::EventLoop] {
        let most = all / 2;
        let (run, half, end, shown) = pilot(&plan, most, driver);
        assert_eq!(run.outcome, Outcome::Interrupted);
        let half = half.unwrap().packet_hops;
        assert!((most..most * 5 / 4).contains(&end.packet_hops), "{} of {most} with {driver:?}", end.packet_hops);
        assert!((most / 2..most * 3 / 4).contains(&half), "{half} of {most} with {driver:?}");
        assert!((all * 9 / 10..all * 11 / 10).contains(&shown.packet_hops), "{} of {all}", shown.packet_hops);
        let again = pilot(&plan, most, driver);
        assert_eq!((again.1.unwrap().packet_hops, again.2, again.3), (half, end, shown));
    }
}

#[test]
fn a_pilot_that_comes_to_the_end_of_its_run_shows_what_it_took() {
    let plan = collapse(50, 1);
    let (run, progress) = whole(&plan);
    let (same, half, end, shown) = pilot(&plan, 1_000_000, DriverKind::Sweep);
    assert_eq!((same.totals, same.outcome, half, end), (run.totals, Outcome::Complete, None, progress));
    assert_eq!((shown.packet_hops, shown.open_ends), (run.totals.packet_hops, 100));
}

#[test]
fn a_pilot_counts_the_ends_that_wait_for_a_timer() {
    let lossless = |workers: u32| {
        let network = star(workers + 1, cable(1_000_000_000, Duration::from_us(1)), &packets(1_000), &no_marks());
        let mut plan = plan(network, new_reno(), tcp());
        add_rounds(&mut plan, workers, 14_000, 1, |_, _| Duration::ZERO);
        plan
    };
    for driver in [DriverKind::Sweep, DriverKind::EventLoop] {
        let waiting = |plan: &Plan, packet_hops: u64| pilot(plan, packet_hops, driver).2.waiting_ends;
        assert_eq!(waiting(&lossless(50), 1_000), 0, "{driver:?}");
        // Of 500 requests that leave at once all arrive; of the responses nine and few more.
        let ends = waiting(&collapse(500, 1), 2_000);
        assert!((700..1_000).contains(&ends), "{ends} with {driver:?}");
    }
}

#[test]
fn a_pilot_that_was_cancelled_shows_nothing() {
    let plan = collapse(50, 1);
    let control = Control::default();
    control.end_after(1_000_000);
    control.cancel();
    run(&plan, &RunOptions::default(), &control).unwrap();
    assert_eq!(Work::of(&plan).shown(&control, 0), None);
}

/// Its plan says half of that: what is dropped and sent again can be seen, but not be planned.
#[test]
fn a_part_of_an_incast_that_collapses_shows_what_all_of_it_takes() {
    let plan = collapse(1_500, 1);
    let all = whole(&plan).0.totals.packet_hops;
    assert!(all > plan.packet_hops() * 3 / 2, "{all} of {}", plan.packet_hops());
    let part = plan.part(500, 10_000);
    let of_part = whole(&part).0.totals.packet_hops;
    let shown = plan.packet_hops() as f64 * of_part as f64 / part.packet_hops() as f64;
    assert!((0.67..1.5).contains(&(all as f64 / shown)), "{shown} shown of {all}");
}

#[test]
fn a_part_has_the_first_connections_and_the_hosts_that_they_need() {
    let mut plan = star_load(40, 300, &packets(100));
    plan.network.clock_phases = (0..40).map(Duration::from_us).collect();
    let workers: Vec<_> = (10..30).map(|worker| (worker, 5_000, Duration::ZERO)).collect();
    add_job(&mut plan, 3, Time::from_us(2_000), &workers);
    add_job(&mut plan, 5, Time::from_us(1_000), &workers);
    let part = plan.part(34, 1_000);
    part.validate().unwrap();
    // A tenth of each: of 40 connections of jobs four, of those of the job that begins first; and 30 messages.
    assert_eq!((part.connections.len(), part.sends.len(), part.aggregators.len()), (34, 30, 1));
    let job = &part.aggregators[0];
    assert_eq!((job.start, job.workers.len(), job.rounds[0].responses.len()), (Time::from_us(1_000), 4, 4));
    for (kept, send) in part.sends.iter().zip(&plan.sends) {
        assert_eq!((kept.start, kept.size()), (send.start, send.size()));
        let phase =
            |plan: &Plan, connection: u32| plan.network.clock_phase(plan.connections[connection as usize].client);
        assert_eq!(phase(&part, kept.connection), phase(&plan, send.connection));
    }
    let used = part.connections.iter().flat_map(|one| [one.client, one.server]);
    assert!((0..part.network.hosts).all(|host| used.clone().any(|used| used == host)));
    assert_eq!(whole(&part).0.outcome, Outcome::Complete);
}

#[test]
fn a_part_has_the_first_messages_and_rounds() {
    let mut plan = collapse(20, 50);
    for number in 0..200 {
        add_flow(&mut plan, 1, 2, Some(1_000), Time::from_us(number), Handshake::Counted);
    }
    let part = plan.part(220, 60);
    part.validate().unwrap();
    // A twentieth of each.
    assert_eq!((part.sends.len(), part.aggregators[0].rounds.len(), part.connections.len()), (10, 3, 30));
    assert_eq!(part.sends[9].start, Time::from_us(9));
    assert_eq!(whole(&part).0.outcome, Outcome::Complete);
    // There may be more than there are.
    let all = plan.part(1_000, 10_000);
    assert_eq!((all.sends.len(), all.connections.len(), all.packet_hops()), (200, 220, plan.packet_hops()));
}

#[test]
fn jobs_that_follow_one_another_are_not_open_at_once() {
    let workers: Vec<_> = (1..11).map(|worker| (worker, 20_000, Duration::from_us(50))).collect();
    let open = |jobs: u64, apart_us: u64| {
        let network = star(11, cable(10_000_000_000, Duration::from_us(10)), &packets(250), &no_marks());
        let mut plan = plan(network, new_reno(), tcp());
        for job in 0..jobs {
            add_job(&mut plan, 0, Time::from_us(1_000 + job * apart_us), &workers);
        }
        (Packets.cost(&plan).open_ends, whole(&plan).1.open_ends)
    };
    assert_eq!(open(1, 0), (20, 20));
    assert_eq!(open(6, 20_000), (20, 20));
    assert_eq!(open(6, 1), (120, 120));
}

#[test]
fn connections_that_stay_open_and_those_that_were_open_before_are_counted_once() {
    let network = star(4, cable(10_000_000_000, Duration::from_us(10)), &packets(250), &no_marks());
    let mut plan = plan(network, new_reno(), tcp());
    for number in 0..9 {
        let handshake = if number < 3 { Handshake::Before } else { Handshake::Counted };
        add_flow(&mut plan, 1, 2, Some(3_000), Time::from_us(1_000 + number * 10_000), handshake);
        plan.connections[number as usize].close_when_done = number % 2 == 0;
    }
    // Again on a connection that is open.
    let again = plan.sends[8].clone();
    plan.sends.push(again);
    // When the last begins, three have stayed open and one was open before.
    assert_eq!((Packets.cost(&plan).open_ends, whole(&plan).1.open_ends), (10, 10));
}

#[test]
fn what_is_shown_counts_instead_of_what_is_planned() {
    let plan = collapse(50, 1);
    let planned = Packets.cost(&plan);
    let open_ends = planned.open_ends + 1_000;
    let shown = Shown { packet_hops: 10 * planned.packet_hops, open_ends };
    let cost = Packets.cost_shown(&plan, shown);
    assert_eq!((cost.packet_hops, cost.open_ends), (shown.packet_hops, open_ends));
    assert_eq!(cost.memory, planned.memory + Bytes(1_000 * planned.open_end.0));
    assert!(cost.seconds > 3.0 * planned.seconds);
}
