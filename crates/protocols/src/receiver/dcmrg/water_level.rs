//! The rate at which elastic flows share a port with reservations (equation 15), kept up to date as flows come and go.
//!
//! With reservations in ascending order, the first k are at the level: `r = (C - rest) / (N_el + k)`, where k is the last for
//! which lifting all up to the k-th to its rate needs no more than C. A change costs one pass over the reservations of the
//! port, asking costs nothing. All in whole bit/s, so sums are exact.

use alloc::vec::Vec;

use crate::receiver::FlowIndex;
use crate::units::Rate;

/// A port that reservations and elastic flows share.
#[derive(Clone, Debug)]
pub struct WaterLevel {
    capacity: u64,
    elastic: u64,
    /// Rate and flow, in ascending order.
    reservations: Vec<(u64, u32)>,
    reserved: u64,
    level: u64,
}

impl WaterLevel {
    /// A port without flows.
    #[must_use]
    pub const fn new(capacity: Rate) -> Self {
        Self { capacity: capacity.0, elastic: 0, reservations: Vec::new(), reserved: 0, level: capacity.0 }
    }

    /// `R_rv`: the sum of all reservations, never more than the capacity.
    #[must_use]
    pub const fn reserved(&self) -> Rate {
        Rate(self.reserved)
    }

    /// Reserves `rate` for a flow that has none, if it is available.
    pub fn reserve(&mut self, flow: FlowIndex, rate: Rate) -> bool {
        if rate.0 > self.capacity - self.reserved {
            return false;
        }
        debug_assert!(self.reservations.iter().all(|&(_, other)| other != flow.0), "a flow has one reservation");
        let place = self.reservations.partition_point(|&reservation| reservation < (rate.0, flow.0));
        self.reservations.insert(place, (rate.0, flow.0));
        self.reserved += rate.0;
        self.update();
        true
    }

    /// Takes a flow's reservation back.
    pub fn release(&mut self, flow: FlowIndex) {
        if let Some(place) = self.reservations.iter().position(|&(_, other)| other == flow.0) {
            self.reserved -= self.reservations.remove(place).0;
            self.update();
        }
    }

    /// One more elastic flow.
    pub fn add_elastic(&mut self) {
        self.elastic += 1;
        self.update();
    }

    /// One elastic flow less.
    pub fn remove_elastic(&mut self) {
        self.elastic -= 1;
        self.update();
    }

    /// r, rounded down: what each elastic flow gets, and each flow with a reservation that is not larger. Without any flow
    /// it is the capacity.
    #[must_use]
    pub const fn level(&self) -> Rate {
        Rate(self.level)
    }

    fn update(&mut self) {
        let (mut sharing, mut rest) = (self.elastic, self.reserved);
        for &(rate, _) in &self.reservations {
            // What it takes if every flow up to here had this rate.
            let needed = u128::from(sharing + 1) * u128::from(rate) + u128::from(rest - rate);
            if needed > u128::from(self.capacity) {
                break;
            }
            sharing += 1;
            rest -= rate;
        }
        self.level = (self.capacity - rest).checked_div(sharing).unwrap_or(self.capacity);
    }
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
                let rates: Vec<u64> = flows.values().flatten().copied().collect();
                prop_assert_eq!(port.reserved().0, rates.iter().sum::<u64>());
                prop_assert!(port.reserved().0 <= capacity);

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
}
