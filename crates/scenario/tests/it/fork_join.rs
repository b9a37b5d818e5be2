//! Whatever jobs are asked for: what is drawn lies where the scenario says.

use std::collections::BTreeSet;

use incast_plan::{Handshake, WindowPerMessage};
use incast_protocols::{Bytes, Duration, Time};
use incast_scenario::Scenario;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn jobs_have_different_workers_and_everything_is_in_range(
        seed in any::<u64>(),
        (leaves, hosts, per_rack) in (1_u32..4, 2_u32..8).prop_flat_map(|(leaves, hosts)| (Just(leaves), Just(hosts), 1..hosts)),
        fan_in in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        sizes in (1_u64..100_000, 0_u64..100_000),
        (mean, cut, clamped) in (1_u64..50_000, 1_u64..20_000, any::<bool>()),
        until in 1_u64..20,
    ) {
        let workers = leaves * (hosts - per_rack);
        let first = 1 + fan_in.0.index(workers as usize) as u32;
        let last = first + fan_in.1.index((workers - first + 1) as usize) as u32;
        let beyond = if clamped { "cut" } else { "drawn-again" };
        let text = format!(
            "seed = {}\n[topology]\nkind = \"leaf-spine\"\nleaves = {leaves}\nhosts_per_leaf = {hosts}\nspines = 1\n\
             host_link = {{ rate = \"1Gbps\", delay = \"5us\" }}\nfabric_link = {{ rate = \"1Gbps\", delay = \"5us\" }}\n\
             [switch]\nbuffer = {{ name = \"static\", limit = \"64KiB\", count_in_service = true }}\n\
             [traffic.j]\nkind = \"fork-join\"\nschedulers = {{ per_rack = {per_rack} }}\n\
             fan_in = {{ min = {first}, max = {last} }}\njobs_per_s = 1000\nuntil = \"{until}ms\"\nstart = \"1us\"\n\
             sizes = {{ kind = \"uniform\", min = \"{}B\", max = \"{}B\" }}\ndeadline = \"20ms\"\ncases = [{{}}, {{ deadline = \"30ms\" }}]\n\
             task_time = {{ kind = \"truncated-exponential\", mean = \"{mean}us\", cut = \"{cut}us\", beyond = \"{beyond}\" }}\n",
            seed >> 1, sizes.0, sizes.0 + sizes.1,
        );
        let plan = Scenario::parse(&text, "j.toml", &[]).unwrap_or_else(|report| panic!("{report}")).plan(None).unwrap();
        prop_assert_eq!(plan.validate(), Ok(()));
        let mut connections = BTreeSet::new();
        let mut coflows = BTreeSet::new();
        let mut before = Time::from_us(1);
        for job in &plan.aggregators {
            prop_assert!(job.host % hosts < per_rack && job.request == Bytes(2000));
            prop_assert!(before <= job.start && job.start < Time::from_us(until * 1000));
            before = job.start;
            prop_assert_eq!(job.rounds.len(), 1);
            prop_assert!((first..=last).contains(&(job.workers.len() as u32)));
            let mut asked = BTreeSet::new();
            for &index in &job.workers {
                let one = &plan.connections[index as usize];
                prop_assert!(one.client == job.host && one.server % hosts >= per_rack && one.close_when_done);
                prop_assert_eq!((one.handshake, one.window_per_message), (Handshake::Counted, WindowPerMessage::Fresh));
                prop_assert!(asked.insert(one.server) && connections.insert(index));
            }
            let of_job: BTreeSet<_> = job.rounds[0].responses.iter().map(|one| (one.message.coflow, one.message.deadline)).collect();
            prop_assert_eq!(of_job.len(), 1);
            let (coflow, deadline) = of_job.into_iter().next().unwrap();
            prop_assert!(coflows.insert(coflow.unwrap().0));
            prop_assert!([20_000, 30_000].map(Time::from_us).contains(&deadline.unwrap()));
            for one in &job.rounds[0].responses {
                prop_assert!((sizes.0..=sizes.0 + sizes.1).contains(&one.message.size.unwrap().0));
                prop_assert!(one.service_time <= Duration::from_us(cut) && one.jitter == Duration::ZERO);
            }
        }
        prop_assert_eq!(connections.len(), plan.connections.len());
    }
}

/// The same jobs with answers on connections that the workers open.
#[test]
fn workers_may_open_the_connections_of_their_answers() {
    let text = |opened_by: &str| {
        format!(
            "[topology]\nkind = \"star\"\nhosts = 7\nlink = {{ rate = \"1Gbps\", delay = \"5us\" }}\n\
             [switch]\nbuffer = {{ name = \"static\", limit = \"64KiB\", count_in_service = true }}\n\
             [traffic.j]\nkind = \"fork-join\"\nschedulers = 1\nfan_in = 2\njobs_per_s = 10\njobs = 5\n\
             sizes = {{ kind = \"constant\", size = \"1KB\" }}\nopened_by = \"{opened_by}\"\n"
        )
    };
    let plan = |opened_by| Scenario::parse(&text(opened_by), "j.toml", &[]).unwrap().plan(None).unwrap();
    let (theirs, ours) = (plan("worker"), plan("scheduler"));
    assert_eq!((ours.connections.len(), theirs.connections.len()), (10, 20));
    assert_eq!(theirs.validate(), Ok(()));
    for (one, other) in theirs.aggregators.iter().zip(&ours.aggregators) {
        assert_eq!((one.start, one.opened_by_workers.len(), other.opened_by_workers.len()), (other.start, 2, 0));
        for (worker, &own) in one.opened_by_workers.iter().enumerate() {
            let (asked, own) = (&theirs.connections[one.workers[worker] as usize], &theirs.connections[own as usize]);
            assert_eq!((own.client, own.server), (asked.server, asked.client));
            assert_eq!(asked.server, ours.connections[other.workers[worker] as usize].server);
        }
    }
}

/// Every worker and every scheduler is as likely as the others, and so is every set of workers.
#[test]
fn nobody_is_preferred() {
    let text = "[topology]\nkind = \"star\"\nhosts = 7\nlink = { rate = \"1Gbps\", delay = \"5us\" }\n\
         [switch]\nbuffer = { name = \"static\", limit = \"64KiB\", count_in_service = true }\n\
         [traffic.j]\nkind = \"fork-join\"\nschedulers = 3\nfan_in = 2\njobs_per_s = 10\njobs = 18000\n\
         sizes = { kind = \"constant\", size = \"1KB\" }\n";
    let plan = Scenario::parse(text, "j.toml", &[]).unwrap().plan(None).unwrap();
    let mut seen = std::collections::BTreeMap::new();
    for job in &plan.aggregators {
        let mut workers = [0, 1].map(|index| plan.connections[job.workers[index] as usize].server);
        workers.sort_unstable();
        *seen.entry((job.host, workers)).or_insert(0_u32) += 1;
    }
    // Three schedulers and six pairs of the four workers: 1000 each, standard deviation 31.
    assert_eq!(seen.len(), 18);
    assert!(seen.values().all(|&count| count.abs_diff(1000) < 150), "{seen:?}");
}
