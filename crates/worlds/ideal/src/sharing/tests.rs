use super::*;
use proptest::prelude::*;

/// Everything from nothing: all flows rise together; those on a link that is full stay where they are.
fn plain_filling(capacities: &[Share], paths: &[Vec<u32>]) -> Vec<Share> {
    let mut shares = vec![None; paths.len()];
    let mut room = capacities.to_vec();
    loop {
        let open = |link: u32| {
            (0..paths.len()).filter(|&flow| shares[flow].is_none() && paths[flow].contains(&link)).collect::<Vec<_>>()
        };
        let full = (0..capacities.len() as u32)
            .map(|link| (link, open(link)))
            .filter(|(_, flows)| !flows.is_empty())
            .map(|(link, flows)| (room[link as usize] / flows.len() as u64, link, flows))
            .min();
        let Some((level, _, flows)) = full else { break };
        for flow in flows {
            shares[flow] = Some(level);
            paths[flow].iter().for_each(|&link| room[link as usize] -= level);
        }
    }
    shares.into_iter().map(Option::unwrap).collect()
}

/// The definition: no link carries more than it can, and every flow has a link that is full, up to what cannot be
/// divided, and on which nobody has more.
fn assert_max_min_fair(sharing: &Sharing) {
    let of_link =
        |link: u32| sharing.on_link[link as usize].iter().map(|&slot| sharing.share(slot)).collect::<Vec<_>>();
    let links: Vec<Vec<Share>> = (0..sharing.links.len() as u32).map(of_link).collect();
    let loads: Vec<u64> = links.iter().map(|shares| shares.iter().sum()).collect();
    for (link, load) in sharing.links.iter().zip(&loads) {
        assert!(*load <= link.capacity, "{load} on a link of {}", link.capacity);
        assert_eq!(link.room, (link.capacity - load) as i64);
        assert_eq!((link.open, link.waits_for), (0, NEVER));
    }
    for (number, slots) in sharing.on_link.iter().enumerate() {
        let link = &sharing.links[number];
        let own = slots.iter().filter(|&&slot| sharing.flows[slot as usize].bottleneck == number as u32);
        assert_eq!(own.count(), link.own as usize);
        for &slot in slots {
            let flow = &sharing.flows[slot as usize];
            let bottleneck = &sharing.links[flow.bottleneck as usize];
            assert_eq!(flow.share, bottleneck.level);
            let (left, flows) =
                (bottleneck.capacity - loads[flow.bottleneck as usize], &links[flow.bottleneck as usize]);
            assert!(left < flows.len() as u64, "{left} left on the bottleneck {}", flow.bottleneck);
            assert_eq!(flows.iter().max(), Some(&flow.share));
        }
    }
}

fn shares(capacities: &[Share], paths: &[&[u32]]) -> Vec<Share> {
    let mut sharing = Sharing::new(capacities, 8);
    let slots: Vec<Slot> = paths.iter().map(|path| sharing.add(path)).collect();
    sharing.settle();
    assert_max_min_fair(&sharing);
    slots.iter().map(|&slot| sharing.share(slot)).collect()
}

/// A unit for each is worth dividing anew.
#[test]
fn who_goes_leaves_its_share_to_the_others_to_the_last_unit() {
    let mut sharing = Sharing::new(&[10, 2], 8);
    let slots = [&[0][..], &[0], &[0, 1]].map(|path| sharing.add(path));
    sharing.settle();
    assert_eq!(slots.map(|slot| sharing.share(slot)), [4, 4, 2]);
    sharing.remove(slots[2]);
    sharing.settle();
    assert_eq!([slots[0], slots[1]].map(|slot| sharing.share(slot)), [5, 5]);
}

/// The two that stay have 5 each; a unit more for one of them alone would not be fair.
#[test]
fn a_link_that_cannot_give_each_of_its_flows_a_unit_more_is_not_settled_anew() {
    let mut sharing = Sharing::new(&[11, 1], 2);
    let slots = [&[0][..], &[0], &[0, 1]].map(|path| sharing.add(path));
    sharing.settle();
    assert_eq!(slots.map(|slot| sharing.share(slot)), [5, 5, 1]);
    let settled = sharing.links[0].settled;
    sharing.remove(slots[2]);
    assert_eq!(sharing.settle(), []);
    assert_eq!(sharing.links[0].settled, settled);
}

/// Link 0 carries three flows of 50, two that have 25 of link 1, and five that have 1 of link 2. Two of the first go, and
/// one comes; both others of link 1 go. Its two now have 50, and so do the two that only link 0 holds back. Until a
/// share of 25 it looks as if link 0 could give its own flow more.
#[test]
fn a_flow_that_keeps_its_share_is_not_opened() {
    let mut sharing = Sharing::new(&[205, 100, 5], 2);
    let paths: [&[u32]; 12] =
        [&[0], &[0], &[0], &[0, 1], &[0, 1], &[1], &[1], &[0, 2], &[0, 2], &[0, 2], &[0, 2], &[0, 2]];
    let slots = paths.map(|path| sharing.add(path));
    sharing.settle();
    assert_eq!(slots.map(|slot| sharing.share(slot)), [50, 50, 50, 25, 25, 25, 25, 1, 1, 1, 1, 1]);
    let touched = sharing.flows[slots[0] as usize].touched;
    for slot in [slots[1], slots[2], slots[5], slots[6]] {
        sharing.remove(slot);
    }
    let new = sharing.add(&[0]);
    let mut told = sharing.settle().to_vec();
    told.sort_by_key(|change| (change.was, change.slot));
    let change = |slot, was| Change { slot, was, is: 50 };
    assert_eq!(told, [change(new, 0), change(slots[3], 25), change(slots[4], 25)]);
    assert_max_min_fair(&sharing);
    assert_eq!(sharing.flows[slots[0] as usize].touched, touched);
}

/// Link 1 carries a flow of 10, one of 4, and one of 86. An equal part is 33; without the flow that opens there are 96 for
/// it and the last, 48 for each.
#[test]
fn a_link_that_was_looked_at_waits_for_what_it_knows_and_others_for_an_equal_part() {
    let waits_for = |seen: bool, now: Share| {
        let mut sharing = Sharing::new(&[10, 100, 4], 2);
        let slots = [&[0, 1][..], &[1, 2], &[1]].map(|path| sharing.add(path));
        sharing.settle();
        assert_eq!(slots.map(|slot| sharing.share(slot)), [10, 4, 86]);
        if seen {
            sharing.links[1].seen = sharing.sweep;
        }
        sharing.open_own(0, now);
        sharing.links[1].waits_for
    };
    assert_eq!([waits_for(false, 10), waits_for(false, 40)], [33, 40]);
    assert_eq!([waits_for(true, 10), waits_for(true, 50)], [48, 50]);
}

#[test]
fn two_flows_on_one_link_have_half_each() {
    assert_eq!(shares(&[1000], &[&[0], &[0]]), [500, 500]);
}

/// A flow over three links, and one of its own on each of them.
#[test]
fn on_a_parking_lot_everybody_has_half() {
    assert_eq!(shares(&[1000; 3], &[&[0, 1, 2], &[0], &[1], &[2]]), [500; 4]);
    // A second flow on the last link: the long one has a third, and leaves more to those before.
    assert_eq!(shares(&[900; 3], &[&[0, 1, 2], &[0], &[1], &[2], &[2]]), [300, 600, 600, 300, 300]);
}

#[test]
fn who_is_held_back_elsewhere_leaves_the_rest_to_others() {
    // The second link is slow; what its flow cannot use of the first goes to the other two.
    assert_eq!(shares(&[1000, 100], &[&[0, 1], &[0], &[0]]), [100, 450, 450]);
    assert_eq!(shares(&[1000, 100, 300], &[&[0, 1], &[0, 2], &[0]]), [100, 300, 600]);
    // Five on the first link have one unit each, however few the units, before the second is full at 4 - 1.
    assert_eq!(shares(&[8, 4], &[&[0, 1], &[0], &[0], &[0], &[0], &[1]]), [1, 1, 1, 1, 1, 3]);
}

#[test]
fn a_flow_alone_has_its_slowest_link() {
    assert_eq!(shares(&[1000, 40, 100], &[&[0, 1, 2]]), [40]);
}

#[test]
fn what_cannot_be_divided_is_left_over() {
    assert_eq!(shares(&[1000], &[&[0], &[0], &[0]]), [333, 333, 333]);
}

#[test]
fn only_those_whose_share_is_another_are_told() {
    let mut sharing = Sharing::new(&[1000, 1000], 2);
    let (first, apart) = (sharing.add(&[0]), sharing.add(&[1]));
    assert_eq!(sharing.settle().len(), 2);
    let second = sharing.add(&[0]);
    let mut told = sharing.settle().to_vec();
    told.sort_by_key(|change| change.slot);
    let change = |slot, was, is| Change { slot, was, is };
    assert_eq!(told, [change(first, 1000, 500), change(second, 0, 500)]);
    sharing.remove(first);
    assert_eq!(sharing.settle(), [change(second, 500, 1000)]);
    assert_eq!(sharing.share(apart), 1000);
    assert_eq!(sharing.settle(), []);
}

/// A place that is given again has nothing of the flow before.
#[test]
fn places_are_used_again() {
    let mut sharing = Sharing::new(&[1000, 10], 2);
    let first = sharing.add(&[0, 1]);
    sharing.settle();
    sharing.remove(first);
    let second = sharing.add(&[0]);
    sharing.settle();
    assert_eq!((second, sharing.share(second)), (first, 1000));
}

/// A small Clos network in which thousands of flows come and go: too much to fill from scratch each time, but what
/// comes out can be checked.
#[test]
fn shares_of_a_large_network_are_max_min_fair_after_every_step() {
    const HOSTS: u64 = 64;
    let mut random = 1_u64;
    let mut below = |n: u64| {
        random = incast_protocols::random::mix(random.wrapping_add(incast_protocols::random::GOLDEN));
        ((u128::from(random) * u128::from(n)) >> 64) as u64
    };
    // Links of hosts out and in, then of 8 leaves to 4 spines and back.
    let mut sharing = Sharing::new(&[10_000_000_000 * UNITS_PER_BPS; 2 * 64 + 2 * 32], 4);
    let mut present: Vec<Slot> = Vec::new();
    for step in 0..400 {
        for _ in 0..below(if step < 200 { 4 } else { 40 }).min(present.len() as u64) {
            sharing.remove(present.swap_remove(below(present.len() as u64) as usize));
        }
        let to = below(HOSTS);
        for _ in 0..below(25) {
            let (from, spine) = ((to + 1 + below(HOSTS - 1)) % HOSTS, below(4));
            let path = [from, 128 + from / 8 * 4 + spine, 160 + to / 8 * 4 + spine, 64 + to].map(|link| link as u32);
            let within = [path[0], path[3]];
            present.push(sharing.add(if from / 8 == to / 8 { &within } else { &path }));
        }
        sharing.settle();
        assert_max_min_fair(&sharing);
        assert!(step != 199 || present.len() > 1500, "{}", present.len());
    }
}

/// Links, and for each step who goes (indices among those present) and who comes, by path.
type Story = (Vec<Share>, Vec<(Vec<prop::sample::Index>, Vec<Vec<u32>>)>);

fn story(capacity: impl Strategy<Value = Share>) -> impl Strategy<Value = Story> {
    prop::collection::vec(capacity, 1..14).prop_flat_map(|capacities| {
        let all: Vec<u32> = (0..capacities.len() as u32).collect();
        let path = prop::sample::subsequence(all.clone(), 1..=all.len().min(5)).prop_shuffle();
        let goes = prop::collection::vec(any::<prop::sample::Index>(), 0..4);
        let step = (goes, prop::collection::vec(path, 0..5));
        (Just(capacities), prop::collection::vec(step, 1..40))
    })
}

/// Compares every step with everything from nothing. What divisions leave over may go to one or to another.
fn follow((capacities, steps): &Story, tolerance: impl Fn(Share) -> u64) {
    let mut sharing = Sharing::new(capacities, 5);
    let mut present: Vec<(Slot, Vec<u32>)> = Vec::new();
    let mut known: Vec<Share> = Vec::new();
    for (go, come) in steps {
        for index in go {
            if !present.is_empty() {
                let (slot, _) = present.swap_remove(index.index(present.len()));
                sharing.remove(slot);
                known[slot as usize] = 0;
            }
        }
        for path in come {
            present.push((sharing.add(path), path.clone()));
        }
        for change in sharing.settle() {
            known.resize(known.len().max(change.slot as usize + 1), 0);
            assert_eq!(std::mem::replace(&mut known[change.slot as usize], change.is), change.was);
        }
        assert_max_min_fair(&sharing);
        let paths: Vec<Vec<u32>> = present.iter().map(|(_, path)| path.clone()).collect();
        for ((slot, path), plain) in present.iter().zip(plain_filling(capacities, &paths)) {
            let share = sharing.share(*slot);
            assert_eq!(known[*slot as usize], share);
            assert!(share.abs_diff(plain) <= tolerance(plain), "{path:?}: {share}, from scratch {plain}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Rates as they are.
    #[test]
    fn keeping_up_to_date_is_filling_from_scratch(story in story(prop_oneof![
        Just(1_000_000_000 * UNITS_PER_BPS),
        Just(10_000_000_000 * UNITS_PER_BPS),
        (1_000_000_u64..10_000_000_000_000).prop_map(|bps| bps * UNITS_PER_BPS),
    ])) {
        follow(&story, |plain| 100 + plain / 1_000_000_000_000);
    }

    /// Few rates, so that bottlenecks coincide all the time, and units so large that rests would show.
    #[test]
    fn bottlenecks_that_coincide_are_settled_too(story in story((1_u64..4).prop_map(|rate| rate * 1_000_000))) {
        follow(&story, |_| 100);
    }
}
