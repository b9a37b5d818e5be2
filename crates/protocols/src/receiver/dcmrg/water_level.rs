//! The rate at which elastic flows share a port with reservations (equation 15), kept up to date as flows come and go.
//!
//! With reservations in ascending order, the first k are at the level: `r = (C - rest) / (N_el + k)`, where k is the last for
//! which lifting all up to the k-th to its rate needs no more than C. Counts and sums at the nodes of a balanced tree find
//! it on one way down: O(log n) for a flow that comes or goes. All in whole bit/s, so sums are exact.

use alloc::vec::Vec;

use crate::receiver::FlowIndex;
use crate::units::Rate;

/// No node.
const NONE: u32 = u32::MAX;

/// A reservation, in a search tree by rate (and by number, so that no two are the same) that is a heap by priority.
#[derive(Clone, Copy, Debug)]
struct Node {
    rate: u64,
    left: u32,
    right: u32,
    /// Reservations here and below.
    count: u32,
    /// Their sum; it fits, since it is no more than the capacity.
    sum: u64,
}

const VACANT: Node = Node { rate: 0, left: NONE, right: NONE, count: 0, sum: 0 };

/// A port that reservations and elastic flows share.
#[derive(Clone, Debug)]
pub struct WaterLevel {
    capacity: u64,
    elastic: u64,
    root: u32,
    /// By flow.
    nodes: Vec<Node>,
}

impl WaterLevel {
    /// A port without flows.
    #[must_use]
    pub const fn new(capacity: Rate) -> Self {
        Self { capacity: capacity.0, elastic: 0, root: NONE, nodes: Vec::new() }
    }

    /// `R_rv`: the sum of all reservations, never more than the capacity.
    #[must_use]
    pub fn reserved(&self) -> Rate {
        Rate(self.at(self.root).sum)
    }

    /// Reserves `rate` for a flow that has none, if it is available.
    pub fn reserve(&mut self, flow: FlowIndex, rate: Rate) -> bool {
        if rate.0 > self.capacity - self.reserved().0 {
            return false;
        }
        let index = flow.0 as usize;
        if index >= self.nodes.len() {
            self.nodes.resize(index + 1, VACANT);
        }
        debug_assert_eq!(self.nodes[index].count, 0, "a flow has one reservation");
        self.nodes[index] = Node { rate: rate.0, count: 1, sum: rate.0, ..VACANT };
        self.root = self.insert(self.root, flow.0);
        true
    }

    /// Takes a flow's reservation back.
    pub fn release(&mut self, flow: FlowIndex) {
        self.root = self.remove(self.root, flow.0);
        self.nodes[flow.0 as usize] = VACANT;
    }

    /// One more elastic flow.
    pub const fn add_elastic(&mut self) {
        self.elastic += 1;
    }

    /// One elastic flow less.
    pub const fn remove_elastic(&mut self) {
        self.elastic -= 1;
    }

    /// r, rounded down: what each elastic flow gets, and each flow with a reservation that is not larger. Without any flow
    /// it is the capacity.
    #[must_use]
    pub fn level(&self) -> Rate {
        let reserved = self.reserved().0;
        let (mut lifted, mut lifted_sum) = (0_u64, 0_u64);
        let mut at = self.root;
        while at != NONE {
            let node = self.nodes[at as usize];
            let before = self.at(node.left);
            let count = lifted + u64::from(before.count) + 1;
            let sum = lifted_sum + before.sum + node.rate;
            // What it takes if everybody up to here had its rate.
            let needed = u128::from(self.elastic + count) * u128::from(node.rate) + u128::from(reserved - sum);
            if needed <= u128::from(self.capacity) {
                (lifted, lifted_sum) = (count, sum);
                at = node.right;
            } else {
                at = node.left;
            }
        }
        let left = self.capacity - (reserved - lifted_sum);
        Rate(left.checked_div(self.elastic + lifted).unwrap_or(self.capacity))
    }

    #[inline]
    fn at(&self, node: u32) -> Node {
        if node == NONE { VACANT } else { self.nodes[node as usize] }
    }

    fn key(&self, node: u32) -> (u64, u32) {
        (self.nodes[node as usize].rate, node)
    }

    /// Counts and sums anew what is below a node.
    fn update(&mut self, node: u32) -> u32 {
        let Node { rate, left, right, .. } = self.nodes[node as usize];
        let (below, above) = (self.at(left), self.at(right));
        let this = &mut self.nodes[node as usize];
        this.count = below.count + above.count + 1;
        this.sum = below.sum + above.sum + rate;
        node
    }

    /// Adds a node to a tree; says which is on top.
    fn insert(&mut self, root: u32, node: u32) -> u32 {
        if root == NONE {
            return node;
        }
        if priority(node) > priority(root) {
            let (left, right) = self.split(root, self.key(node));
            self.nodes[node as usize].left = left;
            self.nodes[node as usize].right = right;
            return self.update(node);
        }
        if self.key(node) < self.key(root) {
            self.nodes[root as usize].left = self.insert(self.nodes[root as usize].left, node);
        } else {
            self.nodes[root as usize].right = self.insert(self.nodes[root as usize].right, node);
        }
        self.update(root)
    }

    /// Takes a node out of the tree that it is in; says which is on top.
    fn remove(&mut self, root: u32, node: u32) -> u32 {
        let Node { left, right, .. } = self.nodes[root as usize];
        if root == node {
            return self.merge(left, right);
        }
        if self.key(node) < self.key(root) {
            self.nodes[root as usize].left = self.remove(left, node);
        } else {
            self.nodes[root as usize].right = self.remove(right, node);
        }
        self.update(root)
    }

    /// What is below `key`, and what is above.
    fn split(&mut self, root: u32, key: (u64, u32)) -> (u32, u32) {
        if root == NONE {
            return (NONE, NONE);
        }
        let Node { left, right, .. } = self.nodes[root as usize];
        if self.key(root) < key {
            let (below, above) = self.split(right, key);
            self.nodes[root as usize].right = below;
            (self.update(root), above)
        } else {
            let (below, above) = self.split(left, key);
            self.nodes[root as usize].left = above;
            (below, self.update(root))
        }
    }

    /// One tree of two, the first of which is all below the second.
    fn merge(&mut self, below: u32, above: u32) -> u32 {
        if below == NONE {
            return above;
        }
        if above == NONE {
            return below;
        }
        if priority(below) > priority(above) {
            let right = self.nodes[below as usize].right;
            self.nodes[below as usize].right = self.merge(right, above);
            self.update(below)
        } else {
            let left = self.nodes[above as usize].left;
            self.nodes[above as usize].left = self.merge(below, left);
            self.update(above)
        }
    }
}

/// A number that looks random, so that the tree is as deep as one built in random order, and is the same in every run:
/// the finalizer of `SplitMix64`, which gives no two nodes the same.
const fn priority(node: u32) -> u64 {
    let z = (node as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::water_level::water_level;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const GIGABIT: f64 = 1e9;

    /// In Gbit/s.
    fn level(capacity: f64, reservations: &[f64], elastic: u32) -> f64 {
        let mut port = WaterLevel::new(Rate((capacity * GIGABIT) as u64));
        for (flow, rate) in reservations.iter().enumerate() {
            assert!(port.reserve(FlowIndex(flow as u32), Rate((rate * GIGABIT) as u64)));
        }
        for _ in 0..elastic {
            port.add_elastic();
        }
        port.level().0 as f64 / GIGABIT
    }

    #[test]
    fn the_level_is_that_of_equation_15() {
        for (capacity, reservations, elastic, expected) in [
            (10.0, &[][..], 4, 2.5),
            (10.0, &[1.0, 1.0, 1.0], 2, 2.0),
            (10.0, &[4.0, 4.0], 2, 1.0),
            (10.0, &[1.0, 2.0, 6.0], 1, 1.0),
            (10.0, &[5.0, 5.0], 3, 0.0),
            (10.0, &[6.0, 3.0], 0, 4.0),
            (10.0, &[1.0, 3.0], 0, 5.0),
            (9.0, &[6.0], 3, 1.0),
            (10.0, &[0.5, 1.5, 3.0, 3.5], 3, 0.5),
        ] {
            let found = level(capacity, reservations, elastic);
            assert!((found - expected).abs() < 1e-9, "{reservations:?}, {elastic}: {found}");
        }
    }

    #[test]
    fn reservations_never_exceed_the_port() {
        let mut port = WaterLevel::new(Rate(10));
        assert!(port.reserve(FlowIndex(7), Rate(6)) && port.reserve(FlowIndex(2), Rate(4)), "all of it is admitted");
        assert!(!port.reserve(FlowIndex(0), Rate(1)));
        port.release(FlowIndex(7));
        assert_eq!(port.reserved(), Rate(4));
        assert!(!port.reserve(FlowIndex(0), Rate(7)) && port.reserve(FlowIndex(0), Rate(6)));
    }

    /// Flows that come and go: reserve so much of a port of 1000 units, or leave.
    fn changes() -> impl Strategy<Value = Vec<(u32, Option<u64>)>> {
        let rate = prop_oneof![4 => 1..40_u64, 1 => 1..1_000_u64, 1 => Just(5)];
        prop::collection::vec((0..120_u32, prop_oneof![1 => Just(None), 5 => rate.prop_map(Some)]), 1..200)
    }

    /// No node is above one of a higher priority or out of order, and counts and sums are right.
    fn check(port: &WaterLevel, root: u32, seen: &mut Vec<(u64, u32)>) -> (u32, u64) {
        if root == NONE {
            return (0, 0);
        }
        let node = port.nodes[root as usize];
        for child in [node.left, node.right] {
            assert!(child == NONE || priority(child) < priority(root));
        }
        let below = check(port, node.left, seen);
        seen.push(port.key(root));
        let above = check(port, node.right, seen);
        assert_eq!((node.count, node.sum), (below.0 + above.0 + 1, below.1 + above.1 + node.rate));
        (node.count, node.sum)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Against the direct solution, after each flow that came or went; half of those that leave are elastic.
        #[test]
        fn the_level_kept_up_to_date_is_the_direct_solution(unit in 1..20_000_000_u64, changes in changes()) {
            let capacity = 1000 * unit + unit / 3;
            let mut port = WaterLevel::new(Rate(capacity));
            let mut flows: BTreeMap<u32, Option<u64>> = BTreeMap::new();
            for (flow, rate) in changes {
                match flows.remove(&flow) {
                    Some(Some(_)) => port.release(FlowIndex(flow)),
                    Some(None) => port.remove_elastic(),
                    None => {
                        let rate = rate.map(|rate| rate * unit);
                        let reserved: u64 = flows.values().flatten().sum();
                        let admitted = rate.is_some_and(|rate| port.reserve(FlowIndex(flow), Rate(rate)));
                        prop_assert_eq!(admitted, rate.is_some_and(|rate| reserved + rate <= capacity));
                        if !admitted {
                            port.add_elastic();
                        }
                        flows.insert(flow, rate.filter(|_| admitted));
                    }
                }
                let mut seen = Vec::new();
                let (count, sum) = check(&port, port.root, &mut seen);
                let rates: Vec<u64> = flows.values().flatten().copied().collect();
                prop_assert!(seen.is_sorted() && count as usize == rates.len());
                prop_assert_eq!(sum, rates.iter().sum::<u64>());
                prop_assert!(sum <= capacity);

                let elastic = flows.len() - rates.len();
                let real: Vec<f64> = rates.iter().map(|&rate| rate as f64).collect();
                let (direct, _) = water_level(capacity as f64, &real, elastic).unwrap();
                let level = port.level().0;
                prop_assert!((level as f64) < direct + 1e-3 && level as f64 > direct - 1.001, "{} {}", level, direct);
                // Exactly: all of the port is handed out, but for less than a bit per second for each that shares.
                if !flows.is_empty() {
                    let out = |level| rates.iter().map(|&rate| rate.max(level)).sum::<u64>() + elastic as u64 * level;
                    prop_assert!(out(level) <= capacity && out(level + 1) > capacity);
                }
            }
        }
    }

    /// A tree of random shape and 100,000 nodes is some forty deep; in the worst order, too.
    #[test]
    fn the_tree_stays_shallow_whatever_the_order() {
        fn depth(port: &WaterLevel, root: u32) -> u32 {
            if root == NONE {
                return 0;
            }
            let Node { left, right, .. } = port.nodes[root as usize];
            1 + depth(port, left).max(depth(port, right))
        }
        let mut port = WaterLevel::new(Rate(u64::MAX));
        for flow in 0..100_000 {
            assert!(port.reserve(FlowIndex(flow), Rate(u64::from(flow))));
        }
        let depth = depth(&port, port.root);
        assert!((17..60).contains(&depth), "{depth}");
    }
}
